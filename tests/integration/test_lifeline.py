"""`farhand serve --lifeline FD`: the server, and every command of it, ends with the process that holds the other end."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from farhand_client import BIN, PATIENCE, Client, Server, pid_alive, pid_gone, run_serve

SECONDS = 20 * PATIENCE


@pytest.fixture(params=["pipe", "socket"])
def ends(request):
    """(what the server gets, what we hold)"""
    if request.param == "pipe":
        theirs, ours = os.pipe()
    else:
        theirs, ours = (s.detach() for s in socket.socketpair())
    yield theirs, ours
    for fd in (theirs, ours):
        try:
            os.close(fd)
        except OSError:
            pass


def serve(theirs, **kw):
    return Server(["--lifeline", str(theirs)], pass_fds=[theirs], **kw)


def test_the_server_ends_with_the_other_end_and_its_commands_too(ends):
    theirs, ours = ends
    with serve(theirs) as server, Client(server.url) as c:
        c.start("p", ["sh", "-c", "trap '' TERM; sleep 600 & wait; wait"])
        pid = c.call("process/list", {})["processes"][0]["pid"]
        os.close(theirs)
        assert pid_alive(pid)
        os.close(ours)
        assert server.wait() == 0
        pid_gone(pid)


def test_what_is_written_there_means_nothing(ends):
    theirs, ours = ends
    with serve(theirs) as server:
        os.write(ours, b"\0quit\n" * 1000)
        with Client(server.url) as c:
            assert c.run(["echo", "here"])[0] == b"here\n"
        os.close(theirs)
        os.close(ours)
        assert server.wait() == 0


def test_an_end_that_is_closed_before_the_start_ends_the_server_at_once(ends):
    theirs, ours = ends
    os.close(ours)
    done = subprocess.run([BIN, "serve", "--lifeline", str(theirs)], pass_fds=[theirs], capture_output=True, timeout=SECONDS, check=False)
    assert done.returncode == 0


def test_commands_do_not_hold_it(ends):
    theirs, _ = ends
    look = ["sh", "-c", "for f in /proc/self/fd/*; do readlink $f; done"]
    with serve(theirs) as server, Client(server.url) as c:
        here = os.readlink(f"/proc/self/fd/{theirs}")
        assert here not in c.run(look)[0].decode()


def test_the_standard_input_as_lifeline():
    with subprocess.Popen([BIN, "serve", "--lifeline", "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as proc:
        url = proc.stdout.readline().decode().strip()
        with Client(url) as c:
            assert c.run(["sh", "-c", "echo in; cat"])[0] == b"in\n"
        proc.stdin.close()
        assert proc.wait(SECONDS) == 0


HOST = """
import os, subprocess, sys, time
theirs, ours = os.pipe()
os.set_inheritable(theirs, True)
subprocess.Popen([sys.argv[1], "serve", "--lifeline", str(theirs)], close_fds=False)
os.close(theirs)
time.sleep(600)
"""


@pytest.mark.parametrize("signo", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_killed_host_takes_the_server_with_it(signo):
    with subprocess.Popen([sys.executable, "-c", HOST, BIN], stdout=subprocess.PIPE) as host:
        url = host.stdout.readline().decode().strip()
        with Client(url) as c:
            c.start("p", ["sleep", "600"])
            pid = c.call("process/list", {})["processes"][0]["pid"]
            server = int(c.run(["sh", "-c", "cut -d ' ' -f 4 /proc/$PPID/stat"])[0])  # the keeper's parent is the spawner
            host.send_signal(signo)
            host.wait(SECONDS)
            pid_gone(pid)
            pid_gone(server)
        assert host.stdout.read() == b""  # the server, which has the pipe as well, is gone


def test_what_is_no_lifeline_is_refused(tmp):
    assert "Bad file descriptor" in run_serve(["--lifeline", "700"]).stderr
    with open(f"{tmp}/file", "w", encoding="utf-8") as f:
        done = subprocess.run([BIN, "serve", "--lifeline", str(f.fileno())], pass_fds=[f.fileno()], capture_output=True, text=True,
                              timeout=SECONDS, check=False)
    assert done.returncode == 1 and "neither a pipe nor a socket" in done.stderr
    done = run_serve(["--lifeline", "0"], listen="stdio")
    assert done.returncode == 1 and "ends with its input" in done.stderr
    assert run_serve(["--lifeline", "x"]).returncode == 2
