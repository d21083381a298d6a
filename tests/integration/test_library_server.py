"""farhand_server_start() of libfarhand, and the example programs: a server that lives as long as the program that started it."""

import glob
import os
import signal
import subprocess

import pytest

from farhand_client import BIN, PATIENCE, Client, Server, pid_gone, wait_until
from http_origin import Origin, response
from library_rig import FOLDER, HAS_LIBRARY, build_host
from test_http_request import HELPER

SECONDS = 30 * PATIENCE

pytestmark = pytest.mark.skipif(not HAS_LIBRARY, reason="not a build with the library")


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    return build_host(str(tmp_path_factory.mktemp("host")))


def start(host, listen, program=BIN, *args, **kw):
    return subprocess.Popen([host, "serve", listen, program, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **kw)


def refused(host, listen, program, *args):
    with start(host, listen, program, *args) as proc:
        out, _ = proc.communicate(timeout=SECONDS)
    return out.decode()


def servers_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return list(map(int, f.read().split()))


def fake(tmp, text):
    path = f"{tmp}/fake"
    with open(path, "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


@pytest.fixture(params=["ws", "unix"])
def listen(request, tmp):
    return "ws://127.0.0.1:0" if request.param == "ws" else f"unix:{tmp}/socket"


def test_it_serves_until_it_is_freed(host, listen):
    with start(host, listen) as proc:
        url, has_fd = proc.stdout.readline().decode().split()
        assert has_fd == "0"
        [server] = servers_of(proc.pid)
        with Client(url) as c:
            assert c.run(["echo", "served"])[0] == b"served\n"
            c.start("p", ["sleep", "600"])
            pid = c.call("process/list", {})["processes"][-1]["pid"]
            proc.stdin.close()
            assert proc.stdout.readline() == b"freed 0 \n" and proc.wait(SECONDS) == 0
            pid_gone(pid)
            pid_gone(server)
    assert not url.startswith("unix:") or not os.path.exists(url[5:])


@pytest.mark.parametrize("signo", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_a_host_that_is_killed(host, listen, signo):
    with start(host, listen) as proc:
        url = proc.stdout.readline().decode().split()[0]
        [server] = servers_of(proc.pid)
        with Client(url) as c:
            c.start("p", ["sleep", "600"])
            pid = c.call("process/list", {})["processes"][0]["pid"]
            proc.send_signal(signo)
            proc.wait(SECONDS)
            pid_gone(pid)
            pid_gone(server)


def test_on_stdio_there_is_a_descriptor(host):
    with start(host, "stdio") as proc:
        assert proc.stdout.readline() == b"none 1\n"
        [server] = servers_of(proc.pid)
        proc.kill()
        proc.wait(SECONDS)
        pid_gone(server)


def test_other_descriptors_of_the_host_are_not_passed_on(host):
    theirs, ours = os.pipe()
    with start(host, "ws://127.0.0.1:0", pass_fds=[ours]) as proc:
        proc.stdout.readline()
        [server] = servers_of(proc.pid)
        mine = os.readlink(f"/proc/self/fd/{ours}")
        assert mine in [os.readlink(link) for link in glob.glob(f"/proc/{proc.pid}/fd/*")]
        assert mine not in [os.readlink(link) for link in glob.glob(f"/proc/{server}/fd/*") if os.path.lexists(link)]
        proc.stdin.close()
        proc.wait(SECONDS)
    os.close(theirs)
    os.close(ours)


def test_programs_that_are_no_servers(host, tmp):
    ws = "ws://127.0.0.1:0"
    assert "No such file" in refused(host, ws, f"{tmp}/none")
    assert "(exit status 3)" in refused(host, ws, fake(tmp, "exit 3"))
    assert "did not begin to listen in time" in refused(host, ws, fake(tmp, "exec sleep 600"), "200")
    for said in ("printf 'hello\\n'", "printf 'unix:/x\\n'", "printf 'wss://x\\n'", "printf '\\n'", "yes | tr -d '\\n'", "cat /dev/urandom",
                 "printf '\\0\\377ws://127.0.0.1:1\\n'"):
        out = refused(host, ws, fake(tmp, f"{said}; exec sleep 600"), "5000")
        assert "is no server" in out or "in time" in out, (said, out)
    assert "unsupported --listen URL `http://x`" in refused(host, "http://x", BIN)


def test_listen_urls_are_checked_by_the_server_s_own_parser(host):
    def check(url):
        return subprocess.run([host, "check", url], capture_output=True, text=True, timeout=SECONDS, check=True).stdout

    for good in ("ws://127.0.0.1:0", "unix:/x", "unix:x", "stdio", "ws://[::1]:80"):
        assert check(good) == "check 0 \n"
    assert "expected `ws://IP:PORT`, and names are not looked up" in check("ws://localhost:1")
    assert "the server has no TLS of its own" in check("wss://x")
    assert "at most 107 bytes" in check("unix:/" + "x" * 107)


# The examples


@pytest.fixture(params=["private", "ws", "unix"])
def url(request, tmp):
    if request.param == "private":
        yield "-"
    else:
        with Server(listen="ws://127.0.0.1:0" if request.param == "ws" else f"unix:{tmp}/socket") as server:
            yield server.url


def example(name, *args):
    done = subprocess.run([os.path.join(FOLDER, f"example-{name}"), *args], capture_output=True, text=True, timeout=SECONDS, check=False)
    return done.returncode, done.stdout, done.stderr


def test_example_run(url):
    assert example("run", url, "sh", "-c", "echo out; echo err >&2; exit 4") == (0, "out\nexit code 4\n", "err\n")
    assert example("run", url, "no-such-program")[0] == 1
    assert example("run", "unix:/no/such", "true")[2].startswith("run: cannot connect")


def test_example_watch(url, tmp):
    """The commands wait for each other: they run side by side."""
    os.mkfifo(f"{tmp}/fifo")
    first, second = f"echo one; cat {tmp}/fifo; exit 3", f"echo two >&2; echo go > {tmp}/fifo"
    code, out, err = example("watch", url, first, second)
    assert (code, err) == (0, "") and f"{first}: exit code 3\n" in out and f"{second}: exit code 0\n" in out
    assert f"{first}, stdout: one\n" in out and f"{second}, stderr: two\n" in out and "go\n" in out


def test_example_changes(url, tmp):
    at = f"{tmp}/watched"
    os.mkdir(at)
    with subprocess.Popen([os.path.join(FOLDER, "example-changes"), url, at], stdout=subprocess.PIPE, text=True) as proc:
        assert proc.stdout.readline() == f"watching {at}\n"
        with open(f"{at}/new", "w", encoding="ascii"):
            pass
        assert proc.stdout.readline() == f"created {at}/new\n"
        os.unlink(f"{at}/new")
        os.rmdir(at)
        assert proc.stdout.read().endswith(f"removed {at}\n") and proc.wait(SECONDS) == 0
    assert "No such file" in example("changes", url, f"{tmp}/none")[2]


@pytest.mark.skipif(HELPER is None, reason="farhand-net was not built: no libcurl")
def test_example_fetch(url):
    with Origin() as origin:
        origin.on("/x", lambda request, sock: response(body=b"content\n"))
        origin.on("/none", lambda request, sock: response(404))
        assert example("fetch", url, f"{origin.url}/x") == (0, "content\n", "")
        assert example("fetch", url, f"{origin.url}/none")[0] == 1
    assert example("fetch", url, "ftp://x/")[2].startswith("ftp://x/: http/request only supports")


def test_example_threads():
    before = set(glob.glob("/tmp/threads-*"))
    code, out, err = example("threads", "8", "sh", "-c", "echo $NUMBER")
    assert (code, err) == (0, "")
    assert sorted(out.splitlines()) == [f"thread {i}: exit code 0: {i}" for i in range(8)]
    wait_until(lambda: set(glob.glob("/tmp/threads-*")) <= before)
