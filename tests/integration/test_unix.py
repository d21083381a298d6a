"""The unix listener: its file, its mode, its peers."""

import contextlib
import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys

import pytest

from farhand_client import PATIENCE, Client, HttpRefused, RawSocket, RpcError, Server, run_serve, serve_argv, wait_until
from fs_helpers import as_nobody
from sandbox_rig import become


@pytest.fixture
def unix(tmp):
    with Server(listen=f"unix:{tmp}/sock") as s:
        yield s


def path_of(server):
    return server.url[len("unix:"):]


def test_the_url_line_and_the_socket(unix, tmp):
    assert unix.url == f"unix:{tmp}/sock"
    mode = os.stat(path_of(unix)).st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600


def test_the_mode_does_not_depend_on_the_umask(tmp):
    before = os.umask(0)
    try:
        with Server(listen=f"unix:{tmp}/sock") as s:
            assert stat.S_IMODE(os.stat(path_of(s)).st_mode) == 0o600
    finally:
        os.umask(before)


def test_upgrade_and_protocol_as_on_tcp(unix):
    with Client(unix.url) as c:
        assert c.run(["sh", "-c", "echo out; echo err >&2; exit 3"]) == (b"out\n", b"err\n", 3)
        c.check_seq("run-1")
        assert c.close() == 1000


def test_http_side_as_on_tcp(unix):
    for request, status in (("/readyz", 200), ("/livez", 200), ("/healthz", 200), ("/nope", 404), ("/", 400)):
        with RawSocket(path=path_of(unix)) as raw:
            assert raw.get(request)[0] == status
    with RawSocket(path=path_of(unix)) as raw:
        assert raw.http(RawSocket.upgrade_request("/", ["Origin: x"]))[0] == 403


def test_malformed_messages(unix):
    with Client(unix.url) as c:
        c.send_raw("{")
        answer = c.response(-1)
        assert answer["error"]["code"] == -32600
        assert answer["error"]["message"].startswith(
            "failed to parse websocket JSON-RPC message from exec-server websocket")


def test_sessions_are_resumed(unix):
    with Client(unix.url) as c:
        c.start("p", ["sleep", "1000"])

    def attempt():
        try:
            return Client(unix.url, resume=c.session_id)
        except RpcError as e:
            assert e.code == -32010  # the server has not noticed yet that the other one has gone
            return None

    with wait_until(attempt, what="the session to be free") as d:
        assert d.call("process/terminate", {"processId": "p"}) == {"running": True}


def test_a_relative_path_is_printed_absolute(tmp):
    with Server(listen="unix:rel.sock", cwd=tmp) as s:
        assert s.url == f"unix:{tmp}/rel.sock"
        Client(s.url).abort()


def test_the_socket_file_goes_with_the_server(tmp):
    with Server(listen=f"unix:{tmp}/sock") as s:
        assert s.stop() == 0
    assert os.listdir(tmp) == []


def test_the_socket_of_a_dead_server_is_replaced(tmp):
    with Server(listen=f"unix:{tmp}/sock") as s:
        s.stop(signal.SIGKILL)
    assert os.path.exists(f"{tmp}/sock")
    with Server(listen=f"unix:{tmp}/sock") as s:
        Client(s.url).abort()


def test_the_socket_of_a_living_server_is_refused(unix):
    done = run_serve(listen=unix.url)
    assert done.returncode == 1
    assert done.stdout == ""
    assert path_of(unix) in done.stderr
    with Client(unix.url) as c:
        assert c.call("environment/status") == {"status": "ready"}


@pytest.mark.parametrize("kind", ["STREAM", "DGRAM", "SEQPACKET"])
def test_the_socket_of_another_living_program_is_refused(tmp, kind):
    """For each type of socket: a program may be alive although connect(2) fails, as with the datagram socket of a syslog daemon."""
    with socket.socket(socket.AF_UNIX, getattr(socket, f"SOCK_{kind}")) as other:
        other.bind(f"{tmp}/sock")
        if kind != "DGRAM":
            other.listen(1)
        before = os.lstat(f"{tmp}/sock")
        done = run_serve(listen=f"unix:{tmp}/sock")
        assert done.returncode == 1
        assert "another program is listening" in done.stderr
        assert os.path.samestat(os.lstat(f"{tmp}/sock"), before)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
@pytest.mark.parametrize("is_living", [True, False], ids=["living", "dead"])
def test_another_user_does_not_replace_a_socket_that_it_may_not_ask(tmp, is_living):
    """In a directory where every user may remove files. The socket has mode 0600, so that connecting to it gives EACCES."""
    os.chmod(tmp, 0o777)
    home = as_nobody(f"{tmp}/home") and f"{tmp}/home"
    with Server(listen=f"unix:{tmp}/sock") as s:
        if not is_living:
            s.stop(signal.SIGKILL)
        before = os.lstat(f"{tmp}/sock")
        argv = [f"{home}/farhand", "serve", "--listen", f"unix:{tmp}/sock"]
        done = subprocess.run(argv, env={**os.environ, "HOME": home, "XDG_STATE_HOME": f"{home}/state"}, timeout=20 * PATIENCE,
                              preexec_fn=become(65534), capture_output=True, check=False)
        assert done.returncode == 1 and done.stdout == b""
        assert b"Permission denied" in done.stderr and f"{tmp}/sock".encode() in done.stderr
        assert os.path.samestat(os.lstat(f"{tmp}/sock"), before)
        if is_living:
            with Client(s.url) as c:
                assert c.call("environment/status") == {"status": "ready"}


def test_of_many_that_find_a_dead_socket_one_takes_its_place(tmp):
    """None of the servers takes the new socket of another for the dead one."""
    argv = serve_argv(listen=f"unix:{tmp}/sock")
    for _ in range(5):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{tmp}/sock")
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(f"{tmp}/sock")
        servers = [subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                   for _ in range(8)]
        try:
            urls = [server.stdout.readline() for server in servers]
            assert sorted(urls) == [b""] * 7 + [f"unix:{tmp}/sock\n".encode()]
            with Client(f"unix:{tmp}/sock") as c:
                assert c.call("environment/status") == {"status": "ready"}
        finally:
            for server in servers:
                server.kill()
                server.wait()
                server.stdout.close()


def test_a_dead_socket_is_not_replaced_while_somebody_else_may_be_about_to(tmp):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{tmp}/sock")
    directory = os.open(tmp, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        before = os.lstat(f"{tmp}/sock")
        done = run_serve(listen=f"unix:{tmp}/sock")
        assert done.returncode == 1 and "cannot be locked" in done.stderr
        assert os.path.samestat(os.lstat(f"{tmp}/sock"), before)
        os.unlink(f"{tmp}/sock")
        with Server(listen=f"unix:{tmp}/sock") as s:  # without a socket to replace the lock is not needed
            Client(s.url).abort()
    finally:
        os.close(directory)


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_what_is_not_a_socket_is_never_replaced(tmp, kind):
    path = f"{tmp}/sock"
    if kind == "file":
        with open(path, "w", encoding="ascii") as f:
            f.write("precious")
    elif kind == "directory":
        os.mkdir(path)
    else:
        with open(f"{tmp}/precious", "w", encoding="ascii"):
            pass
        os.symlink(f"{tmp}/precious", path)
    before = os.lstat(path)
    done = run_serve(listen=f"unix:{path}")
    assert done.returncode == 1
    after = os.lstat(path)
    assert (before.st_ino, before.st_size, before.st_mode) == (after.st_ino, after.st_size, after.st_mode)


@pytest.mark.parametrize("url", ["unix:", "unix:/nonexistent-directory/sock", "unix:/tmp/" + "x" * 120])
def test_unusable_paths(url):
    done = run_serve(listen=url)
    assert done.returncode == 1
    assert done.stderr != ""


def test_authentication_on_a_unix_listener(tmp):
    with open(f"{tmp}/token", "w", encoding="ascii") as f:
        f.write("sesame")
    with Server(["--ws-auth", "capability-token", "--ws-token-file", f"{tmp}/token"], listen=f"unix:{tmp}/sock") as s:
        with pytest.raises(HttpRefused) as caught:
            Client(s.url)
        assert caught.value.status == 401
        Client(s.url, headers={"Authorization": "Bearer sesame"}).abort()


STRANGER = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_UNIX); s.settimeout(10)
s.connect(sys.argv[1])
try:
    s.sendall(sys.stdin.buffer.read())
    answer = s.recv(4096)
except (BrokenPipeError, ConnectionResetError):
    answer = b""
sys.stdout.buffer.write(answer)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_a_peer_of_another_user_is_refused(unix, tmp):
    # The mode alone would keep it out; the check of the peer must hold without it.
    os.chmod(tmp, 0o755)
    os.chmod(path_of(unix), 0o666)
    done = subprocess.run([sys.executable, "-c", STRANGER, path_of(unix)], input=RawSocket.upgrade_request("/"),
                          capture_output=True, timeout=20 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert b" 101 " not in done.stdout
    assert done.stdout == b"" or done.stdout.startswith(b"HTTP/1.1 403")
    Client(unix.url).abort()
