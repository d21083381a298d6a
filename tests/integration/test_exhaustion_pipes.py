"""Locks of pipes: a command that makes the kernel keep the lock of its own pipe stops nobody else.

splice and sendfile from an empty socket into a pipe keep the pipe's lock while they wait; so does splice from a pipe into a
full socket. Whoever reads, writes or closes that pipe then sleeps and cannot be woken, also when its end is non-blocking.
The spawner finds the server sleeping there and ends the command. A FIFO's lock is taken by open(2) as well: what the server
opens by its name it looks at first.
"""

import os
import signal
import subprocess
import time

import pytest

from exhaustion_rig import ANSWER_SECONDS, Honest, built
from farhand_client import PATIENCE, Client, pid_alive, wait_until
from fs_helpers import outcome
from sandbox_rig import USERS, Box, is_error, read_only, rig_of, workspace_write
from test_kill9 import Mark

PLAIN = {"type": "disabled"}
MODES = ["stdout", "stderr", "sendfile", "again", "stdin"]


@pytest.fixture(scope="module")
def hold():
    with built("hold_pipe.c") as path:
        yield path


@pytest.fixture(params=USERS)
def rig(request):
    with rig_of(request.param, uid=58236) as r:  # the kernel counts pipes for each user: no other test has processes of this one
        yield r


def start_holder(rig, client, hold, mode, profile, env):
    """Starts `hold`. In mode `stdin` also writes until the next write of the server has to wait for the pipe's lock."""
    process = rig.start([hold, mode], profile, "/", client=client, pipeStdin=mode == "stdin", env=env)
    if mode == "stdin":
        rig.write(process, b"go", client=client)
        wait_until(lambda: b"held" in client.output(process), 30, "the lock")
        client.request("process/write", {"processId": process, "chunk": "eA=="})
    return process


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("profile", [PLAIN, read_only()], ids=["plain", "sandboxed"])
def test_a_locked_pipe_stops_nobody(rig, hold, mode, profile):
    honest, mark = Honest(rig), Mark()
    honest.work()
    # A holder that lets go now and then (`again`) may be read each time: then it delays nobody, and is not ended.
    for _ in range(5 if mode == "again" else 1):
        with Client(rig.server.url) as hostile:
            start_holder(rig, hostile, hold, mode, profile, mark.env)
            began = time.monotonic()
            while time.monotonic() - began < 2:
                honest.work()
            wait_until(lambda: not mark.pids(), 60, "the end of the holder")
        honest.work()
        assert pid_alive(rig.server.pid)
        if "kept a pipe locked" in rig.server.stderr():
            return
    pytest.fail("no holder was ended")


def test_the_exit_record_tells_why(rig, hold):
    """The exit record of a command that the server killed for holding a pipe's lock names that reason."""
    with Client(rig.server.url) as client:
        process = start_holder(rig, client, hold, "stdin", read_only(), Mark().env)
        assert client.wait_exit(process, 10)["reason"] == "pipeHeld"


def test_several_that_hold_at_once_do_not_add_up(rig, hold):
    """The server waits 0.4 s or more for one holder, but not twenty times as long for twenty holders."""
    honest, mark = Honest(rig), Mark()
    with Client(rig.server.url) as hostile, Client(rig.server.url) as other:
        starts = [hostile.request("process/start", rig.params([hold, "stdout"], read_only(), "/", env=mark.env))
                  for _ in range(20)]
        began, worst = time.monotonic(), 0.0
        while time.monotonic() - began < 4:
            asked = time.monotonic()
            other.call("process/list", {}, 20)
            worst = max(worst, time.monotonic() - asked)
        assert worst < ANSWER_SECONDS * PATIENCE, f"an answer took {worst:.2f} s"
        for start in starts:
            hostile.response(start, 10)
        wait_until(lambda: not mark.pids(), 60, "the end of the holders")
    honest.work()


@pytest.mark.parametrize("profile", [PLAIN, read_only()], ids=["plain", "sandboxed"])
def test_a_server_that_is_killed_while_it_waits_takes_all_along(rig, hold, profile):
    for _ in range(20):  # the holder is ended after 0.4 s: on a busy machine the test may not have looked by then
        mark, helpers = Mark(), Mark("FARHAND_TEST_SERVER")
        with rig.new_server(env=helpers.env) as server:
            with Client(server.url) as client:
                process = rig.start([hold, "stdin"], profile, "/", client=client, pipeStdin=True, env=mark.env)
                rig.start(["/bin/sleep", "600"], profile, "/", client=client, env=mark.env)
                rig.write(process, b"go", client=client)
                wait_until(lambda: b"held" in client.output(process), 30, "the lock")
                client.request("process/write", {"processId": process, "chunk": "eA=="})
                was_asleep = wait_until(lambda: state_of(server.pid) == "D" or has_exited(client, process) and "missed", 30,
                                        "the server asleep")
                os.kill(server.pid, signal.SIGKILL)
            wait_until(lambda: not mark.pids() and not helpers.pids(), 10, "the end of all")
        if was_asleep is True:
            return
    pytest.fail("the server was never seen asleep")


@pytest.mark.parametrize("profile", [PLAIN, read_only()], ids=["plain", "sandboxed"])
def test_a_server_that_is_killed_before_it_waits_takes_all_along(rig, hold, profile):
    """The kernel closes the server's descriptors at its exit, and that close sleeps on the held lock: no code of the server
    runs."""
    mark, helpers = Mark(), Mark("FARHAND_TEST_SERVER")
    with rig.new_server(env=helpers.env) as server:
        with Client(server.url) as client:
            process = rig.start([hold, "alive"], profile, "/", client=client, env=mark.env)
            wait_until(lambda: b"held" in client.output(process, "stderr"), 30, "the lock")
            os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: not mark.pids() and not helpers.pids(), 10, "the end of all")


def has_exited(client, process):
    return any(event["method"] == "process/exited" for event in client.events(process))


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
        return f.read().rpartition(")")[2].split()[0]


def test_an_honest_command_is_not_ended_because_the_machine_is_busy(rig):
    hogs = [subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"]) for _ in range(3 * (os.cpu_count() or 1))]
    try:
        with Client(rig.server.url) as client:
            writer = rig.start(["/bin/sh", "-c", "i=0; while [ $i -lt 60 ]; do head -c 1000000 /dev/zero; i=$((i+1)); done"],
                               read_only(), "/", client=client)
            assert client.wait_exit(writer, 240)["exitCode"] == 0
            client.wait_closed(writer, 60)
            assert len(client.output(writer)) == 60 * 1000000
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    assert "kept a pipe locked" not in rig.server.stderr()


def test_a_quiet_holder_is_left_alone(rig, hold):
    """The pipe has nothing to read, so that the server does not try to take its lock."""
    with Client(rig.server.url) as client:
        process = rig.start([hold, "alive"], read_only(), "/", client=client)
        wait_until(lambda: b"held" in client.output(process, "stderr"), 30, "the lock")
        time.sleep(1.5)  # several times what a holder is given
        assert not [e for e in client.events(process) if e["method"] == "process/exited"]
        client.call("process/terminate", {"processId": process})
        client.wait_closed(process)


# FIFOs that the server opens by path


@pytest.fixture
def fifo(rig, hold):
    """A workspace with a FIFO whose lock a sandboxed command holds. Yields the tree and the path of the FIFO."""
    tree = rig.tree()
    tree.dir(tree.w)
    path = tree.w + "/fifo"
    with Client(rig.server.url) as client:
        process = rig.start([hold, "fifo", path], workspace_write(), tree.w, client=client)
        wait_until(lambda: b"held" in client.output(process), 30, "the lock")
        yield tree, path
        client.call("process/terminate", {"processId": process})
        client.wait_exit(process)


def requests(tree, path):
    uri = "file://" + path
    yield "fs/readFile", {"path": uri}
    yield "fs/getMetadata", {"path": uri}
    yield "fs/open", {"path": uri, "handleId": "r", "mode": "read"}
    yield "fs/open", {"path": uri, "handleId": "w", "mode": "replace"}
    yield "fs/copy", {"sourcePath": uri, "destinationPath": uri + "-copy", "recursive": False}
    yield "fs/copy", {"sourcePath": "file://" + tree.w, "destinationPath": "file://" + tree.base + "/copy", "recursive": True}
    # These requests write to the path of the FIFO and follow no links.
    tree.file(tree.base + "/from/fifo")
    yield "fs/copy", {"sourcePath": "file://" + tree.base + "/from", "destinationPath": "file://" + tree.w, "recursive": True}
    yield "fs/writeFile", {"path": uri, "dataBase64": "eA==", "followSymlinks": False}
    yield "fs/writeFile", {"path": uri, "dataBase64": "eA==", "followSymlinks": False, "atomic": False}


def test_a_locked_fifo_holds_up_no_file_request(rig, fifo):
    tree, path = fifo
    with Client(rig.server.url) as client:
        for method, params in requests(tree, path):
            begun = time.monotonic()
            outcome(client, client.request(method, params), 5)
            assert time.monotonic() - begun < ANSWER_SECONDS * PATIENCE, method


def test_a_locked_fifo_holds_up_no_file_request_with_a_profile(rig, fifo):
    tree, path = fifo
    with Client(rig.server.url) as client:
        box = Box(client, read_only(), tree.w)
        box.read(tree.w + "/none")  # an fs helper exists now
        for ask in (lambda: box.read(path), lambda: box.open(path)):
            begun = time.monotonic()
            assert is_error(ask())
            assert time.monotonic() - begun < ANSWER_SECONDS * PATIENCE


def test_a_locked_fifo_in_the_place_of_git_holds_up_no_start(rig, hold):
    tree = rig.tree()
    inner = tree.dir(tree.w + "/inner")
    with Client(rig.server.url) as client:
        process = rig.start([hold, "fifo", inner + "/.git"], workspace_write(), tree.w, client=client)
        wait_until(lambda: b"held" in client.output(process), 30, "the lock")
        begun = time.monotonic()
        done = rig.sh("echo here", workspace_write(), inner, client=client)
        assert time.monotonic() - begun < ANSWER_SECONDS * PATIENCE, done
        client.call("process/terminate", {"processId": process})
        client.wait_exit(process)
