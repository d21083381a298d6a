"""What libfarhand tells with types of its own: HTTP requests, watches, yields, late listeners, snapshots, the environment, progress."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading

import pytest

from farhand_client import BIN, PATIENCE, Server, wait_until
from http_origin import Origin, response
from library_rig import HAS_LIBRARY, build_program
from test_client_reference import reference  # noqa: F401, a fixture
from test_http_request import HELPER, NO_PROXY

SECONDS = 60 * PATIENCE

pytestmark = pytest.mark.skipif(not HAS_LIBRARY, reason="not a build with the library")
needs_net = pytest.mark.skipif(HELPER is None, reason="farhand-net was not built: no libcurl")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build_program(str(tmp_path_factory.mktemp("client")), "library_client")


@pytest.fixture(scope="module")
def server():
    with Server(env=NO_PROXY) as s:
        yield s


@pytest.fixture
def origin():
    with Origin() as o:
        yield o


def env():
    return {**os.environ, "FARHAND_BIN": BIN}


def run(program, what, url, *args):
    done = subprocess.run([program, what, url, *args], env=env(), capture_output=True, text=True, errors="surrogateescape", timeout=SECONDS,
                          check=False)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout.splitlines()


# HTTP


@needs_net
def test_a_request_and_its_answer(program, server, origin):
    lines = run(program, "http", server.url, f"{origin.url}/x", "POST", "hello")
    assert lines[0] == "status 200" and any(line.startswith("header content-") for line in lines)
    assert lines[-1].startswith("done ")
    [request] = origin.requests
    assert (request.method, request.target, request.body) == ("POST", "/x", b"hello")
    assert "x-test" in str(request.headers).lower()


@needs_net
def test_a_long_body_comes_in_pieces(program, server, origin):
    origin.on("/long", lambda request, sock: response(body=b"x" * 5_000_000))
    assert run(program, "http", server.url, f"{origin.url}/long")[-1] == "done 5000000"


@needs_net
def test_the_body_is_told_as_it_comes(program, server, origin):
    """The second piece is sent when the program has printed the first."""
    go = threading.Event()

    def slow(_, sock):
        sock.sendall(b"HTTP/1.1 200 x\r\ncontent-length: 9\r\n\r\nfirst")
        go.wait(SECONDS)
        sock.sendall(b"last")
        return False
    origin.on("/slow", slow)
    with subprocess.Popen([program, "http", server.url, f"{origin.url}/slow"], env=env(), stdout=subprocess.PIPE, text=True) as proc:
        seen = []
        for line in proc.stdout:
            seen.append(line.strip())
            if line == "body first\n":
                go.set()
        assert seen[-2:] == ["body last", "done 9"]


@needs_net
def test_redirects(program, server, origin):
    for path in ("/stop", "/follow"):
        origin.on(path, lambda request, sock: response(302, ["location: /there"]))
    origin.on("/there", lambda request, sock: response(body=b"here"))
    assert run(program, "http", server.url, f"{origin.url}/stop")[0] == "status 302"
    assert run(program, "http", server.url, f"{origin.url}/follow")[-2:] == ["body here", "done 4"]


@needs_net
def test_what_fails_is_told_once(program, server, origin):
    def broken(_, sock):
        sock.sendall(b"HTTP/1.1 200 x\r\ncontent-length: 9\r\n\r\nfirst")
        return False
    origin.on("/broken", broken)
    lines = run(program, "http", server.url, f"{origin.url}/broken")
    assert "body first" in lines and lines[-1].startswith("failed -121 ")
    assert run(program, "http", server.url, "ftp://x/")[0].startswith("failed -121 http/request only supports")
    origin.on("/never", lambda request, sock: threading.Event().wait(SECONDS) and False)
    assert run(program, "http", server.url, f"{origin.url}/never", "GET", "", "200")[0].startswith("failed -121 ")


@needs_net
def test_a_request_that_is_freed_in_its_body(program, server, origin):
    """The library goes on, and drops what comes."""
    origin.on("/free", lambda request, sock: sock.sendall(b"HTTP/1.1 200 x\r\ncontent-length: 9\r\n\r\nfree me") or
              threading.Event().wait(SECONDS) and False)
    assert run(program, "http", server.url, f"{origin.url}/free")[-1] == "body free me"


@needs_net
def test_fetch(program, server, origin):
    lines = run(program, "fetch", server.url, f"{origin.url}/x", "PUT", "hello")
    assert lines[0] == "fetch 0 " and lines[1].startswith("200 ")
    assert json.loads(lines[1].split(" ", 2)[2])["method"] == "PUT"
    origin.on("/long", lambda request, sock: response(body=b"x" * (1 << 20) + b"y"))
    assert run(program, "fetch", server.url, f"{origin.url}/long")[0].startswith("fetch -90 ")


def test_http_of_the_reference_server(program, reference, origin):  # noqa: F811
    if reference.generation == "125":
        pytest.skip("the generation of 125 answers in another shape, or not at all")
    origin.on("/long", lambda request, sock: response(body=b"x" * 3_000_000))
    assert run(program, "http", reference.url, f"{origin.url}/long")[-1] == "done 3000000"
    assert run(program, "fetch", reference.url, f"{origin.url}/x", "PUT", "hello")[1].startswith("200 ")
    assert run(program, "http", reference.url, "http://127.0.0.1:1/")[0].startswith("failed -121 ")


# Watches


class Watching:
    def __init__(self, program, url, path):
        self.proc = subprocess.Popen([program, "watch", url, path], env=env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.proc.stdin.close()
        try:
            self.proc.wait(SECONDS)
        finally:
            self.proc.kill()
            self.proc.stdout.close()

    def until(self, wanted):
        """The lines up to this one."""
        lines = []
        for line in self.proc.stdout:
            lines.append(line.rstrip("\n"))
            if lines[-1] == wanted:
                return lines
        raise AssertionError((wanted, lines))


def test_changes(program, server, tmp):
    with Watching(program, server.url, tmp) as w:
        w.until("watching 0 ")
        with open(f"{tmp}/a b", "w", encoding="ascii"):
            pass
        w.until(f"created {tmp}/a b -")
        os.rename(f"{tmp}/a b", f"{tmp}/c")
        w.until(f"renamed {tmp}/c {tmp}/a b")
        os.unlink(f"{tmp}/c")
        w.until(f"removed {tmp}/c -")
    assert w.proc.returncode == 0


def test_a_watch_of_what_is_not_there(program, server, tmp):
    with Watching(program, server.url, f"{tmp}/none") as w:
        assert w.proc.stdout.readline().startswith("failed -121 No such file")


class Relay:
    """Passes connections on to a server, and cuts them when it is told to."""

    def __init__(self, port):
        self.target, self.listener, self.pairs = ("127.0.0.1", port), socket.create_server(("127.0.0.1", 0)), []
        self.url = f"ws://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                pair = (self.listener.accept()[0], socket.create_connection(self.target))
            except OSError:
                return
            self.pairs.append(pair)
            for source, sink in (pair, pair[::-1]):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pass(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass

    def cut(self):
        for pair in self.pairs:
            for sock in pair:
                sock.shutdown(socket.SHUT_RDWR)
        self.pairs.clear()

    def close(self):
        self.listener.close()


def test_a_lost_watch_is_told_and_goes_on(program, server, tmp):
    with contextlib.closing(Relay(server.port)) as relay, Watching(program, relay.url, tmp) as w:
        w.until("watching 0 ")
        relay.cut()
        w.until("overflow 0 ")
        with open(f"{tmp}/after", "w", encoding="ascii"):
            pass
        w.until(f"created {tmp}/after -")
    assert w.proc.returncode == 0


# Processes


def test_yields(program):
    """The first is over when its time is, the second when the command is."""
    lines = run(program, "yield", "-", "300", "sh", "-c", "echo hi; read x; seq 1000; exit 3")
    assert lines[0].startswith("yield 1 ") and lines[-1] == "over 0 "
    [last] = [line for line in lines if line.startswith("yield 0 ")]
    assert last.split()[2:4] == ["1000", "500"]


def test_a_yield_ends_before_its_time_when_the_command_does(program):
    lines = run(program, "yield", "-", str(SECONDS * 1000 * 10), "echo", "hi")
    assert lines[0] == "yield 0 3 3 0 hi"


def test_a_yield_does_not_wait_for_a_child_that_holds_the_stdout(program, tmp):
    lines = run(program, "yield", "-", str(SECONDS * 1000 * 10), "sh", "-c", f"sleep 600 & echo $! >{tmp}/pid; echo hi")
    assert lines[0] == "yield 0 3 3 0 hi"
    with open(f"{tmp}/pid", encoding="ascii") as f:
        pid = int(f.read())
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))  # the private server ended it


@pytest.mark.parametrize("count,gap", [(1000, []), (3_000_000, ["second gap 1 1"])])
def test_a_late_listener_is_told_all_that_is_kept_and_what_is_not(program, count, gap):
    lines = run(program, "late", "-", str(count), "sh", "-c", f"head -c {count} /dev/zero; read x; echo end; exit 4")
    total = count + 4
    assert lines[:len(gap)] == gap
    assert sorted(lines[len(gap):len(gap) + 3]) == [f"first {total} 4", f"second {total} 4", "third 0 4"]
    assert lines[-2:] == ["snapshot 0 ", "1000 1 1 1 4"]


def test_processes_of_the_reference_server(program, reference):  # noqa: F811
    if reference.generation == "125":
        pytest.skip("the generation of 125 numbers nothing")
    assert run(program, "yield", reference.url, str(SECONDS * 1000 * 10), "echo", "hi")[0] == "yield 0 3 3 0 hi"
    lines = run(program, "late", reference.url, "1000", "sh", "-c", "head -c 1000 /dev/zero; read x; echo end; exit 4")
    assert sorted(lines[:3]) == ["first 1004 4", "second 1004 4", "third 0 4"]
    assert lines[-2:] == ["snapshot 0 ", "1000 1 1 1 4"]


# The rest


def test_the_environment(program, tmp):
    info, what, status = run(program, "environment", "-")
    assert info == "info 0 " and status == "ready 0 "
    shell, cwd, name = what.split(" ")
    assert shutil.which(shell) == shell and cwd == os.getcwd() and name == "farhand"


def test_progress_of_files(program, server, tmp):
    with open(f"{tmp}/from", "wb") as f:
        f.write(os.urandom(3_000_000))
    assert run(program, "copy", server.url, f"{tmp}/from", f"{tmp}/to") == ["read 3000000 1 1", "finish 0 ", "written 1310720 1"]


def test_trees(program, server, tmp):
    name = "\udcff"
    assert run(program, "tree", server.url, tmp) == [
        "directory 0 ", "file 0 ", "copy 1 ", "copy 0 ", "link 0 ",
        f"directory {tmp}/from", f"directory {tmp}/to", f"file {tmp}/from/{name}", f"file {tmp}/to/{name}", "walk 0 ",
        f"directory {tmp}/from", f"directory {tmp}/link", f"directory {tmp}/to", f"file {tmp}/from/{name}", f"file {tmp}/to/{name}",
        "walk 0 ",
        f"directory {tmp}/from", "walk 1 ", "walk 1 "]
    assert os.readlink(f"{tmp}/link") == "from"
