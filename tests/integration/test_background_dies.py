"""A background server that ends while somebody connects to it: one that was killed has its socket until the last of its threads has
ended, and one that ends by itself closes what it has not answered. The client tries again, and starts another server.

The server that ends is a socket of the test, in the place of the background server's.
"""

import base64
import contextlib
import hashlib
import os
import select
import socket
import struct
import subprocess
import threading

import pytest

from farhand_client import BIN, RawSocket
from test_cmd_connect import UPGRADE
from test_cmd_detached import desk, running  # noqa: F401 (a fixture)
from test_cmd_run import SECONDS


def switched(request):
    """The answer to a request to upgrade."""
    key = next(line.split(b": ")[1] for line in request.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key: "))
    accept = base64.b64encode(hashlib.sha1(key + RawSocket.GUID).digest())
    return (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept +
            b"\r\n\r\n")


def unread(sock):
    """With bytes that nobody has read, as a socket ends whose process is killed: the client gets a reset."""
    assert sock.recv(1, socket.MSG_PEEK)


def read(sock):
    sock.recv(4096)


def half(sock):
    sock.sendall(switched(sock.recv(4096))[:40])


def upgraded(sock):
    sock.sendall(switched(sock.recv(4096)))
    assert sock.recv(4096)  # `initialize`


def told(sock):
    upgraded(sock)
    sock.sendall(b"\x88\x02" + struct.pack(">H", 1001))
    while sock.recv(4096):
        pass


ENDS = [unread, read, half, upgraded, told]


class Dying:
    """A socket where the background server's would be. It serves clients as a server that is about to end, and then is no more."""

    def __init__(self, a_desk):
        os.mkdir(f"{a_desk.runtime}/farhand", 0o700)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(f"{a_desk.runtime}/farhand/socket")
        self.listener.listen(8)
        self.clients, self.fault, self.thread = 0, None, None

    def next_client(self):
        """The next connection on which something is said: a command first looks, on one of its own, whether somebody listens."""
        while True:
            sock, _ = self.listener.accept()
            sock.settimeout(SECONDS)
            if sock.recv(1, socket.MSG_PEEK):
                self.clients += 1
                return sock
            sock.close()

    def serve(self, how, times):
        try:
            while self.clients < times:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError), self.next_client() as sock:
                    how(sock)
            self.listener.close()
        except Exception as fault:  # pylint: disable=broad-exception-caught
            self.fault = fault

    def serves(self, how, times=3):
        """Ends so many connections of clients as `how` does, and then itself."""
        self.thread = threading.Thread(target=self.serve, args=(how, times), daemon=True)
        self.thread.start()

    def end(self):
        if self.thread:
            with contextlib.suppress(OSError):
                self.listener.shutdown(socket.SHUT_RDWR)
            self.thread.join(SECONDS)
        self.listener.close()


@pytest.fixture
def dying(desk):  # noqa: F811
    d = Dying(desk)
    yield d
    d.end()


@pytest.mark.parametrize("how", ENDS)
def test_another_one_is_started(desk, dying, how):  # noqa: F811
    dying.serves(how)
    ident = desk.detach("sleep", "600")
    assert (dying.clients, dying.fault) == (3, None)
    assert [p["sessionId"][9:13] for p in desk.processes()] == [ident[:4]]


def test_who_waits_in_the_backlog_of_one_that_is_killed_starts_another(desk, dying):  # noqa: F811
    with running(["run", "--detach", "--", "true"], desk) as proc:
        assert select.select([dying.listener], [], [], SECONDS)[0]
        dying.listener.accept()[0].close()  # the command only looked whether a server listens
        assert select.select([dying.listener], [], [], SECONDS)[0]  # the client itself, which is never accepted
        dying.listener.close()
        out, err = proc.communicate(timeout=SECONDS)
    assert (proc.returncode, err) == (0, b"") and len(out.split()) == 1


@pytest.mark.parametrize("how", ENDS)
def test_who_starts_none_says_that_there_is_none(desk, dying, how):  # noqa: F811
    dying.serves(how)
    assert desk.processes() == []
    assert (dying.clients, dying.fault) == (3, None)
    done = desk("logs", "abcd")
    assert (done.returncode, done.stderr) == (255, b"farhand: there is no background server: nothing was started with --detach\n")


def test_one_that_ends_each_connection_is_given_up_in_the_end(desk, dying):  # noqa: F811
    dying.serves(unread, 10_000)
    done = desk("run", "--detach", "--", "touch", f"{desk.home}/made")
    assert (done.returncode, done.stdout) == (255, b"") and done.stderr.startswith(b"farhand: the connection was lost: "), done
    assert 10 < dying.clients < 500 and not os.path.exists(f"{desk.home}/made")


def test_what_the_server_refuses_is_not_tried_again(desk, dying):  # noqa: F811
    dying.serves(lambda sock: sock.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno\n") or sock.recv(4096))
    done = desk("run", "--detach", "--", "true")
    assert done.returncode == 255 and b"403: no" in done.stderr and dying.clients == 1


# The far end of ssh: bytes pass through, and none are lost


def stdio(desk):  # noqa: F811
    """`farhand connect --listen stdio`, as sshd starts it: (process, our end)."""
    ours, theirs = socket.socketpair()
    ours.settimeout(SECONDS)
    with theirs:
        return subprocess.Popen([BIN, "connect", "--listen", "stdio"], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE,
                                env=desk.env), ours


@pytest.mark.parametrize("how", [unread, read])
def test_the_far_end_of_ssh_asks_the_next_one(desk, dying, how):  # noqa: F811
    dying.serves(how)
    proc, peer = stdio(desk)
    with proc, peer:
        peer.sendall(UPGRADE)
        assert peer.recv(4096).startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
        assert (dying.clients, dying.fault) == (3, None)
        peer.close()
        assert (proc.communicate(timeout=SECONDS)[1], proc.returncode) == (b"", 0)


def test_the_far_end_of_ssh_asks_nobody_twice_after_a_word_of_the_server(desk, dying):  # noqa: F811
    dying.serves(half)
    proc, peer = stdio(desk)
    with proc, peer:
        peer.sendall(UPGRADE)
        peer.shutdown(socket.SHUT_WR)
        assert peer.recv(4096, socket.MSG_WAITALL) == switched(UPGRADE)[:40]
        assert (proc.wait(SECONDS), dying.clients) == (0, 1)


def test_the_far_end_of_ssh_asks_the_next_one_in_a_backlog(desk, dying):  # noqa: F811
    proc, peer = stdio(desk)
    with proc, peer:
        assert select.select([dying.listener], [], [], SECONDS)[0]
        dying.listener.accept()[0].close()  # the command only looked whether a server listens
        assert select.select([dying.listener], [], [], SECONDS)[0]
        dying.listener.close()
        peer.sendall(UPGRADE)
        assert peer.recv(4096).startswith(b"HTTP/1.1 101 Switching Protocols\r\n")


@pytest.mark.parametrize("what", [b"", b"x" * 100_000], ids=["nothing", "much"])
def test_the_far_end_of_ssh_ends_with_one_that_ends_each_connection(desk, dying, what):  # noqa: F811
    dying.serves(lambda sock: None, 10_000)
    proc, peer = stdio(desk)
    with proc, peer:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            peer.sendall(what)
        peer.shutdown(socket.SHUT_WR)
        assert peer.recv(4096) == b""
        assert proc.wait(SECONDS) in (0, 255)
