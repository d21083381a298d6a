"""A sandboxed command takes every epoll watch that its user may have: everybody else goes on as before.

The kernel counts watches per user, across user namespaces, so that a command takes the server's. Each server here runs as
a user of its own, because other programs of that user could not work meanwhile either; the one that is root is root of
a user namespace.
"""

import base64
import contextlib
import ctypes
import os
import shutil
import subprocess
import tempfile
import time

import pytest

from farhand_client import PATIENCE, Client, Server, is_idle, wait_until
from exhaustion_rig import ANSWER_SECONDS
from http_origin import Origin
from sandbox_rig import USERS, Box, Rig, become, read_only, sandbox, uri, why_not, workspace_write

HERE = os.path.dirname(os.path.abspath(__file__))
UIDS = {"root": 58235, "unprivileged": 58234}  # no other test has processes of these
SOON = ANSWER_SECONDS  # an answer comes within this time
KIB, MIB = 1024, 1024 * 1024
BYTES_PER_WATCH = 256  # of the kernel's memory, at most
CLONE_NEWUSER, PR_SET_DUMPABLE = 0x10000000, 4


def become_root_of_a_namespace(uid):
    """For preexec_fn: becomes uid 0 of a new user namespace, which is `uid` outside of it."""
    libc = ctypes.CDLL(None, use_errno=True)
    act = become(uid)

    def put(path, text):
        with open(path, "w", encoding="ascii") as f:
            f.write(text)

    def more():
        act()
        libc.prctl(PR_SET_DUMPABLE, 1)  # or the maps would not be ours to write
        if libc.unshare(CLONE_NEWUSER) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        put("/proc/self/setgroups", "deny")
        put("/proc/self/uid_map", f"0 {uid} 1")
        put("/proc/self/gid_map", f"0 {uid} 1")

    return more


def why_not_as(act):
    """Why the test cannot run with a server that becomes its user by `act`; None when it can."""
    if os.geteuid() != 0:
        return "needs root, to be a user whose watches nobody else needs"
    with open("/proc/sys/fs/epoll/max_user_watches", encoding="ascii") as f:
        watches = int(f.read())
    with open("/proc/meminfo", encoding="ascii") as f:
        available = next(int(line.split()[1]) * KIB for line in f if line.startswith("MemAvailable"))
    if available < watches * BYTES_PER_WATCH * 2:
        return f"{watches} epoll watches need {watches * BYTES_PER_WATCH // MIB} MiB, with as much left over"
    try:
        subprocess.run(["/bin/true"], preexec_fn=act, check=True)
    except subprocess.SubprocessError as error:
        return f"no such user: {error}"
    return why_not("unprivileged")


def watched(pid):
    """The descriptors that the epoll instances of a process watch."""
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if os.readlink(f"/proc/{pid}/fd/{fd}") == "anon_inode:[eventpoll]":
                with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as f:
                    found += [int(line.split()[1]) for line in f if line.startswith("tfd:")]
    return found


def can_block(pid, fd):
    with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as f:
        flags = next(line.split()[1] for line in f if line.startswith("flags:"))
    return not int(flags, 8) & os.O_NONBLOCK


def has_processes(uid):
    """Whether the user still has processes: the kernel takes seconds to end a process with so many watches."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if os.stat(f"/proc/{pid}").st_uid == uid:
                return True
    return False


def test_nothing_that_the_server_watches_can_block():
    """Every watched descriptor is non-blocking, because a report of epoll that it is ready may be wrong."""
    with Server() as server, Client(server.url) as client, Origin() as origin:
        client.start("pipes", ["/bin/sleep", "1000"], pipeStdin=True)
        client.write("pipes", bytes(256 * KIB))
        client.start("terminal", ["/bin/cat"], tty=True)
        client.call("fs/watch", {"watchId": "w", "path": "file:///tmp"})
        client.call("http/request", {"method": "GET", "url": origin.url, "requestId": "r"})
        # Signals, finished work, parsed messages (that write was a large one), the spawner, the guard of masks, the listener,
        # this connection; three pipes, a terminal, inotify, farhand-net. What a thread asks for is watched a little later.
        wait_until(lambda: len(watched(server.pid)) == 13, what="13 descriptors")
        fds = watched(server.pid)
        assert not [os.readlink(f"/proc/{server.pid}/fd/{fd}") for fd in fds if can_block(server.pid, fd)]


@pytest.fixture(scope="module")
def program():
    """Compiles the hostile program. Yields its path, in a directory where every user can run it."""
    folder = tempfile.mkdtemp(prefix="fh-epoll-", dir="/var/tmp")
    os.chmod(folder, 0o755)
    path = os.path.join(folder, "attack")
    done = subprocess.run(["cc", "-std=gnu17", "-O1", "-o", path, os.path.join(HERE, "exhaust_epoll.c")],
                          capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    yield path
    shutil.rmtree(folder)


class Attack:
    def __init__(self, rig, program):
        self.rig = rig
        self.tree = rig.tree()
        self.tree.dir(self.tree.w)
        rig.client.call("environment/info", timeout=20)  # answered when the server has tried its sandboxes
        self.watched_before = len(watched(rig.server.pid))
        self.process = rig.start([program], workspace_write(), self.tree.w)
        rig.client.wait_output(self.process, b"full\n", timeout=60)
        self.watched_full = len(watched(rig.server.pid))

    def end(self):
        """Ends the attack. Returns when the kernel has freed its watches."""
        if self.process is not None:
            self.rig.client.call("process/terminate", {"processId": self.process}, SOON)
            self.rig.client.wait_closed(self.process, 60)
            self.process = None


@pytest.fixture(scope="module", params=USERS)
def attack(request, program):
    uid = UIDS[request.param]
    act = become_root_of_a_namespace(uid) if request.param == "root" else become(uid)
    reason = why_not_as(act)
    if reason is not None:
        pytest.skip(reason)
    try:
        with Rig(request.param, uid=uid, preexec_fn=act) as rig:
            yield Attack(rig, program)
    finally:
        wait_until(lambda: not has_processes(uid), 60, "the end of all processes of the user")


@pytest.fixture
def other(attack):
    """A connection, and a session, made while no watches are free."""
    began = time.monotonic()
    with Client(attack.rig.server.url, name="other", connect_timeout=SOON) as client:
        assert time.monotonic() - began < SOON * PATIENCE
        assert len(watched(attack.rig.server.pid)) <= attack.watched_full, "there are watches to be had: this is no attack"
        yield client
        assert not client.bad


def terminate(client, process_id):
    client.call("process/terminate", {"processId": process_id}, SOON)
    client.wait_exit(process_id, SOON)
    client.wait_closed(process_id, SOON)
    client.check_seq(process_id)


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "terminal"])
def test_a_command_is_started_read_written_to_and_terminated(other, tty):
    other.start("p", ["/bin/cat"], SOON, tty=tty, pipeStdin=not tty)
    for n in range(3):
        assert other.write("p", b"line %d\n" % n, timeout=SOON) == "accepted"
        other.wait_output("p", b"line %d" % n, SOON)
    terminate(other, "p")


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "terminal"])
def test_a_sandboxed_command_runs(attack, other, tty):
    box = sandbox(workspace_write(), attack.tree.w)
    out, err, code = other.run(["/bin/sh", "-c", "echo out; cat nothing; exit 3"], SOON, cwd=uri(attack.tree.w), tty=tty,
                               sandbox=box)
    assert b"out" in out and b"nothing" in out + err and code == 3


def test_output_flows(other):
    out, _, code = other.run(["/usr/bin/head", "-c", str(8 * MIB), "/dev/zero"], 4 * SOON)
    assert out == bytes(8 * MIB) and code == 0


def test_input_that_has_to_wait_arrives(other):
    other.start("p", ["/bin/sh", "-c", "read go; exec wc -c"], SOON, pipeStdin=True)
    assert other.write("p", b"go\n", timeout=SOON) == "accepted"
    for _ in range(8):
        assert other.write("p", bytes(128 * KIB), timeout=SOON) == "accepted"
    other.call("process/closeStdin", {"processId": "p"}, SOON)
    other.wait_output("p", str(MIB).encode(), SOON)
    other.wait_closed("p", SOON)


def test_an_answer_that_has_to_wait_arrives(other, attack):
    path = attack.tree.file(os.path.join(attack.tree.w, "large"), "x" * 8 * MIB)
    other.pause_reading()
    ident = other.request("fs/readFile", {"path": uri(path)})
    wait_until(lambda: is_idle(attack.rig.server.pid, 0.1), what="a full socket")
    other.resume_reading()
    assert len(base64.b64decode(other.result(ident, 4 * SOON)["dataBase64"])) == 8 * MIB


@pytest.mark.parametrize("is_sandboxed", [False, True], ids=["plain", "sandboxed"])
def test_files_are_read_and_written(attack, other, is_sandboxed):
    box = Box(other, workspace_write(), attack.tree.w) if is_sandboxed else Box(other, None)
    path = os.path.join(attack.tree.w, "file")
    for n in range(2):
        assert box.ask("writeFile", SOON, path=path, dataBase64=base64.b64encode(b"%d" % n).decode())["size"] == 1
        assert box.ask("readFile", SOON, path=path)["dataBase64"] == base64.b64encode(b"%d" % n).decode()


def test_the_server_does_not_spin(attack, other):
    other.start("p", ["/bin/cat"], SOON, pipeStdin=True)
    wait_until(lambda: is_idle(attack.rig.server.pid), 30, "an idle server")
    terminate(other, "p")


def test_a_server_is_started_serves_and_ends_on_a_signal(attack):
    folder = attack.tree.dir(os.path.join(attack.tree.w, "watched"))
    with attack.rig.new_server() as server, Client(server.url, connect_timeout=SOON) as client, Origin() as origin:
        client.start("p", ["/bin/cat"], SOON, pipeStdin=True)
        client.write("p", b"hello\n", timeout=SOON)
        client.wait_output("p", b"hello\n", SOON)
        client.call("fs/watch", {"watchId": "w", "path": uri(folder)}, SOON)
        attack.tree.file(os.path.join(folder, "new"))
        client.wait_for(lambda m: m.get("method") == "fs/changed", SOON)
        answer = client.call("http/request", {"method": "GET", "url": origin.url, "requestId": "r"}, SOON)
        assert answer["status"] == 200
        assert server.stop(timeout=10) == 0
        assert client.closed_code(SOON) == 1001


# The last test of this file, because it ends the attack.
def test_afterwards_everything_is_as_before(attack, other):
    rig = attack.rig
    other.start("p", ["/bin/cat"], SOON, pipeStdin=True)
    attack.end()
    other.write("p", b"hello\n", timeout=SOON)
    other.wait_output("p", b"hello\n", SOON)
    # This connection and both pipes of its command are watched by epoll again, instead of being polled.
    wait_until(lambda: len(watched(rig.server.pid)) == attack.watched_before + 3, what="watches of the kernel")
    terminate(other, "p")
    wait_until(lambda: len(watched(rig.server.pid)) == attack.watched_before + 1, what="watches of the kernel")
    wait_until(lambda: is_idle(rig.server.pid), 30, "an idle server")
    done = rig.sh("echo ran", read_only(), "/")
    assert done.ok and done.out == b"ran\n"
