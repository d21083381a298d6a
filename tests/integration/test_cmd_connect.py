"""`farhand connect`: a door to an environment for programs that know only a URL, and the far end of a connection through ssh."""

import base64
import os
import socket
import subprocess
import threading

import pytest

from farhand_client import BIN, Client, pid_gone
from test_cmd_detached import desk  # noqa: F401 (a fixture)
from test_cmd_run import SECONDS

UPGRADE = (b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
           b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")


# The far end: farhand connect --listen stdio


class Far:
    """A unix socket whose every connection is the stdio of a `farhand connect --listen stdio`, as sshd would start it."""

    def __init__(self, desk):
        self.path, self.desk, self.children = f"{desk.home}/far", desk, []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with sock:
                self.children.append(subprocess.Popen([BIN, "connect", "--listen", "stdio"], stdin=sock, stdout=sock,
                                                      env=self.desk.env))

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for child in self.children:
            child.kill()
            child.wait()


@pytest.fixture
def far(desk):  # noqa: F811
    f = Far(desk)
    yield f
    f.close()


def carry_large(client, path):
    """A message of 16 MiB there, and one back."""
    content = base64.b64encode(os.urandom(12 << 20)).decode()
    client.call("fs/writeFile", {"path": f"file://{path}", "dataBase64": content}, timeout=60)
    assert client.call("fs/readFile", {"path": f"file://{path}"}, timeout=60)["dataBase64"] == content


def test_a_websocket_passes_through_stdio_to_the_background_server(far):
    with Client(f"unix:{far.path}") as client:
        assert client.run(["sh", "-c", "echo out; exit 3"]) == (b"out\n", b"", 3)
    assert far.children[0].wait(SECONDS) == 0


def test_large_messages_pass_through_stdio_both_ways(far):
    with Client(f"unix:{far.path}") as client:
        carry_large(client, f"{far.desk.home}/large")


def test_a_session_is_resumed_through_another_stdio(far):
    with Client(f"unix:{far.path}") as client:
        client.start("p", ["sh", "-c", "read line; echo $line"], pipeStdin=True)
        far.children[0].kill()
        client.closed_code()
    with Client(f"unix:{far.path}", resume=client.session_id) as again:
        again.write("p", b"still here\n")
        assert again.wait_exit("p")["exitCode"] == 0 and again.wait_output("p", b"still here\n")


def test_stdio_on_pipes_ends_when_the_peer_is_gone(desk):  # noqa: F811
    proc = subprocess.Popen([BIN, "connect", "--listen", "stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=desk.env)
    proc.stdin.write(UPGRADE)
    proc.stdin.flush()
    assert proc.stdout.readline() == b"HTTP/1.1 101 Switching Protocols\r\n"
    proc.stdin.close()
    assert proc.stdout.read().endswith(b"\r\n\r\n")
    assert proc.wait(SECONDS) == 0


def test_stdio_ends_when_nobody_reads(desk):  # noqa: F811
    proc = subprocess.Popen([BIN, "connect", "--listen", "stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=desk.env)
    proc.stdin.write(UPGRADE)
    proc.stdin.flush()
    proc.stdout.readline()
    proc.stdout.close()
    assert proc.wait(SECONDS) == 0


def test_stdio_ends_with_the_server(far):
    with Client(f"unix:{far.path}"):
        pid = far.desk.server_pid()
        os.kill(pid, 9)
        pid_gone(pid)
        assert far.children[0].wait(SECONDS) == 0
