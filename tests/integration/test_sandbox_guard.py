"""A process outside replaces, removes or moves the file that a mask lies on: the command is killed at once, whatever the server
is busy with.

A command does nothing but try what is denied, in two processes of different sessions, and notes when it worked. The loop of
the server is held meanwhile, by ptrace, which stops one thread alone; or all of the server is stopped.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import threading
import time

import pytest

from cmd_rig import Cmd
from farhand_client import BIN, PATIENCE, Client, wait_until
from sandbox_rig import LAYERED, ROOT_READ, USERS, at, restricted, rig_of, why_not, workspace_write

SECONDS = 5  # until no process of the command is left; a wait for the loop, which is held, would have no end
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000
RENAME_EXCHANGE = 2
LIBC = ctypes.CDLL(None, use_errno=True)

SPIN = """
import os, sys, time
path, seen, flags = sys.argv[1], sys.argv[2], os.O_WRONLY | os.O_CREAT if sys.argv[3] == "write" else os.O_RDONLY
log = os.open(seen, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
if os.fork() == 0:
    os.setsid()
os.write(1, b"ready\\n")
while True:
    try:
        fd = os.open(path, flags, 0o644)
        if flags != os.O_RDONLY or os.read(fd, 8):
            os.write(log, b"%d\\n" % time.monotonic_ns())
        os.close(fd)
    except OSError:
        pass
"""


def exchange(one, other):
    if LIBC.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), RENAME_EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), one)


class Shape:
    """What is denied or protected, what the command tries, and how somebody breaks it."""

    def __init__(self, denied, tried, act, writes=False, detaches=True):
        self.denied, self.tried, self.act, self.writes = denied, tried, act, writes
        self.detaches = detaches  # otherwise the mount moves along, and only the guard hears of it


SHAPES = {
    "a file is replaced": Shape("d/secret", "d/secret", lambda w, o: os.rename(o + "/secret", w + "/d/secret")),
    "a file is removed": Shape("d/secret", "d/secret", lambda w, o: os.unlink(w + "/d/secret")),
    "a directory is replaced": Shape("empty", "empty/key", lambda w, o: os.rename(o + "/private", w + "/empty")),
    "a directory is moved": Shape("private", "private/key", lambda w, o: exchange(o + "/private", w + "/private"),
                                  detaches=False),
    "a protected directory is moved": Shape(None, ".git/planted", lambda w, o: exchange(o + "/git", w + "/.git"),
                                            writes=True, detaches=False),
    "a directory above is moved": Shape("d/secret", "d/secret", lambda w, o: exchange(o, w + "/d"), detaches=False),
    "the workspace is moved": Shape("d/secret", "d/secret", lambda w, o: exchange(o + "/w", w), detaches=False),
}
DETACHED = [name for name, shape in SHAPES.items() if shape.detaches]


def fill(tree):
    """Makes two equal trees with different file contents."""
    for top, text in ((tree.w, "old\n"), (tree.o + "/w", "new\n")):
        tree.file(top + "/d/secret", text)
        tree.file(top + "/private/key", text)
        tree.dir(top + "/empty")
        tree.dir(top + "/.git")
    tree.file(tree.o + "/secret", "new\n")
    tree.file(tree.o + "/private/key", "new\n")
    tree.dir(tree.o + "/git")


def processes(marker):
    """All processes of the machine whose command line contains `marker`."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and int(name) != os.getpid():
                with open(f"/proc/{name}/cmdline", "rb") as f:
                    if marker.encode() in f.read():
                        found.append(int(name))
    return found


@contextlib.contextmanager
def loop_held(pid):
    """Stops the first thread of a process when it sleeps, until the end of the block; the other threads go on."""
    def ptrace(request):
        if LIBC.ptrace(ctypes.c_long(request), ctypes.c_long(pid), None, None) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")

    def sleeps():
        with open(f"/proc/{pid}/task/{pid}/stat", encoding="latin-1") as f:
            return f.read().rpartition(")")[2].split()[0] == "S"

    wait_until(sleeps, 10, "an idle loop")
    ptrace(PTRACE_SEIZE)
    try:
        ptrace(PTRACE_INTERRUPT)
        assert os.WIFSTOPPED(os.waitpid(pid, WALL)[1])
        yield
    finally:
        ptrace(PTRACE_DETACH)


@contextlib.contextmanager
def server_stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class Spinner:
    """A command that tries again and again what its profile forbids. Its log is in a writable directory beside the workspace."""

    def __init__(self, rig, shape, tree=None):
        self.rig, self.shape, self.tree = rig, shape, tree or rig.tree()
        self.log = os.path.join(self.tree.dir(self.tree.t), "seen")
        fill(self.tree)
        w = self.tree.w
        self.argv = ["/usr/bin/python3", "-c", SPIN, os.path.join(w, shape.tried), self.log, "write" if shape.writes else "read"]
        denied = [at(os.path.join(w, shape.denied), "deny")] if shape.denied else []
        self.profile = workspace_write(at(self.tree.t, "write"), *denied)

    def start(self):
        self.id = self.rig.start(self.argv, self.profile, self.tree.w)
        wait_until(lambda: self.rig.client.output(self.id).count(b"ready\n") == 2, 30, "the command")
        assert self.times() == [], "it is not denied"

    def times(self):
        with open(self.log, encoding="ascii") as f:
            return [int(line) for line in f.read().splitlines()]

    def act(self):
        """Takes the mask away, and waits until all processes of the command have ended."""
        before = time.monotonic()
        self.shape.act(self.tree.w, self.tree.o)
        wait_until(lambda: not processes(self.log), SECONDS, "the end of the command")
        late = [t for t in self.times() if t / 1e9 > before + SECONDS * PATIENCE]
        assert late == []

    def check_end(self):
        exited = self.rig.client.wait_exit(self.id)
        assert (exited["reason"], exited["signal"]) == ("sandboxBroken", "SIGKILL")


@pytest.fixture(scope="module", params=USERS)
def rig(request):
    with rig_of(request.param) as r:
        yield r


@pytest.mark.parametrize("name", SHAPES)
def test_the_loop_is_not_needed_to_end_it(rig, name):
    spinner = Spinner(rig, SHAPES[name])
    spinner.start()
    with loop_held(rig.server.pid):
        spinner.act()
    spinner.check_end()


@pytest.mark.parametrize("name", DETACHED)
def test_the_server_is_not_needed_to_end_it(rig, name):
    """The keeper of the command notices a detached mask itself."""
    spinner = Spinner(rig, SHAPES[name])
    spinner.start()
    with server_stopped(rig.server.pid):
        spinner.act()
    spinner.check_end()


def test_a_placeholder_that_is_removed_ends_it_without_the_server(rig):
    """`.agents` does not exist, so that its mask lies on a placeholder."""
    shape = Shape(None, ".agents/planted", lambda w, o: os.rename(o + "/git", w + "/.agents"), writes=True)
    spinner = Spinner(rig, shape)
    spinner.start()
    with server_stopped(rig.server.pid):
        spinner.act()
    spinner.check_end()


def test_a_placeholder_that_is_moved_ends_it_without_the_loop(rig):
    """The mask moves along with the placeholder, so that only the guard's thread notices."""
    shape = Shape(None, ".agents/planted", lambda w, o: exchange(o + "/git", w + "/.agents"), writes=True)
    spinner = Spinner(rig, shape)
    spinner.start()
    with loop_held(rig.server.pid):
        spinner.act()
    spinner.check_end()


@contextlib.contextmanager
def other_rig(user, way):
    """A server where listmount(2) is missing, or with the back end bubblewrap: there the keeper reads /proc/self/mountinfo."""
    if way == "bubblewrap":
        if not os.access("/usr/bin/bwrap", os.X_OK):
            pytest.skip("no bubblewrap")
        how = {"args": ["--sandbox-backend", "bubblewrap"]}
    else:
        if not os.access(LAYERED, os.X_OK):
            pytest.skip("farhand-layers was not built")
        how = {"executable": LAYERED, "env": {"FARHAND_LAYERS_OFF": "list"}}
    with rig_of(user, mount_namespace=os.geteuid() == 0, **how) as r:
        yield r


WAYS = ["no list", "bubblewrap"]


@pytest.fixture(scope="module", params=[(user, way) for user in USERS for way in WAYS], ids="-".join)
def other(request):
    with other_rig(*request.param) as r:
        yield r


@pytest.mark.parametrize("name", SHAPES)
def test_other_ways_end_it_without_the_loop(other, name):
    spinner = Spinner(other, SHAPES[name])
    spinner.start()
    with loop_held(other.server.pid):
        spinner.act()
    spinner.check_end()


@pytest.mark.parametrize("name", DETACHED)
def test_other_ways_end_it_without_the_server(other, name):
    spinner = Spinner(other, SHAPES[name])
    spinner.start()
    with server_stopped(other.server.pid):
        spinner.act()
    spinner.check_end()


# Other commands are not affected


def stay(rig, tree, client=None):
    """Starts a command with masks that lives until the test ends it."""
    tree.file(tree.w + "/secret", "old\n")
    tree.dir(tree.w + "/odd name\\ü")
    profile = workspace_write(at(tree.w + "/secret", "deny"), at(tree.w + "/odd name\\ü", "deny"))
    return rig.start(["/bin/sh", "-c", "read line; echo $line"], profile, tree.w, client=client, pipeStdin=True)


def end(rig, process, client=None):
    rig.write(process, b"well\n", client=client)
    done = rig.finish(process, client=client)
    assert (done.code, done.out) == (0, b"well\n"), done


def mounts_change(rig, tree):
    """Makes a mount and removes it again with its directory: the copy of the mount in a sandbox is detached."""
    point = tree.dir(tree.o + "/mounted")
    enter = ["nsenter", "-t", str(rig.server.pid), "-m"]
    subprocess.run([*enter, "mount", "-t", "tmpfs", "none", point], check=True)
    process = stay(rig, tree)
    subprocess.run([*enter, "umount", point], check=True)
    subprocess.run([*enter, "rmdir", point], check=True)
    return process


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for mounts")
@pytest.mark.parametrize("user", USERS)
def test_other_mounts_that_go_end_nobody(user):
    with rig_of(user, mount_namespace=True) as r:
        for _ in range(5):
            end(r, mounts_change(r, r.tree()))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for mounts")
def test_other_mounts_that_go_end_nobody_in_other_ways(other):
    for _ in range(5):
        end(other, mounts_change(other, other.tree()))


def test_commands_beside_one_that_is_broken_live_on(rig):
    """Also a command under the same profile in the same workspace that was started later."""
    with Client(rig.server.url) as client:
        trees = [rig.tree() for _ in range(3)]
        beside = [stay(rig, tree, client) for tree in trees]
        for name in ("a file is replaced", "a directory above is moved"):
            spinner = Spinner(rig, SHAPES[name])
            spinner.start()
            spinner.act()
            spinner.check_end()
            again = rig.sh("cat d/secret || echo denied", spinner.profile, spinner.tree.w)
            assert again.out == b"denied\n", again
        for process in beside:
            end(rig, process, client)


def test_a_command_that_keeps_the_guard_busy_does_not_keep_another(rig):
    """One command renames without end in a directory that the guard watches; a broken mask of another command is still noticed."""
    busy = rig.tree()
    script = ("import os\nprint('ready', flush=True)\nopen('a', 'w').close()\n"
              "while True:\n    os.rename('a', 'b'); os.rename('b', 'a')\n")
    flood = rig.start(["/usr/bin/python3", "-c", script], workspace_write(), busy.dir(busy.w))
    wait_until(lambda: b"ready" in rig.client.output(flood), 30, "the flood")
    try:
        for name in ("a file is replaced", "a directory above is moved"):
            spinner = Spinner(rig, SHAPES[name])
            spinner.start()
            spinner.act()
            spinner.check_end()
    finally:
        rig.client.call("process/terminate", {"processId": flood})
        rig.client.wait_exit(flood)


def test_breaking_while_commands_start_and_end(rig):
    """No placeholder is left, no start hangs, and commands whose masks stayed end normally."""
    tree, calm = rig.tree(), rig.tree()
    fill(tree)
    over = threading.Event()

    def disturb():
        while not over.is_set():
            tree.file(tree.o + "/new", "new\n")
            os.rename(tree.o + "/new", tree.w + "/d/secret")
            exchange(tree.o + "/w", tree.w + "/d")
            exchange(tree.o + "/w", tree.w + "/d")
            over.wait(0.003)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(40):
            profile = workspace_write(at(tree.w + "/d/secret", "deny"))
            done = rig.sh("cat d/secret; :", profile, tree.w)
            assert done.refused or done.code in (0, 137), done
            tree.dir(calm.w)
            done = rig.sh("echo well", workspace_write(), calm.w)
            assert done.ok and done.out == b"well\n", done
    finally:
        over.set()
        thread.join()
    assert rig.server.proc.poll() is None


# farhand sandbox


@pytest.fixture(params=USERS)
def cmd(request):
    if why_not(request.param):
        pytest.skip(why_not(request.param))
    me = Cmd(request.param)
    try:
        yield me
    finally:
        subprocess.run(["rm", "-rf", me.base], check=True)


@pytest.mark.parametrize("name", ["a file is replaced", "a protected directory is moved", "a directory above is moved"])
def test_the_command_line_ends_it_as_soon(cmd, name):
    spinner, tree = Spinner(cmd, SHAPES[name], cmd.tree), cmd.tree
    entries = [(tree.w, "write"), (tree.t, "write"), (os.path.join(tree.w, spinner.shape.denied or "d"), "deny")]
    profile = tree.file(tree.base + "/profile.json", json.dumps(
        restricted(ROOT_READ, *({"path": {"type": "path", "path": path}, "access": access} for path, access in entries))))
    with cmd.popen([BIN, "sandbox", "--profile", profile, "--", *spinner.argv], stdout=subprocess.PIPE,
                   stderr=subprocess.PIPE) as proc:
        for _ in range(2):
            assert proc.stdout.readline() == b"ready\n"
        assert spinner.times() == []
        with loop_held(proc.pid):
            spinner.shape.act(tree.w, tree.o)
            wait_until(lambda: processes(spinner.log) == [proc.pid], SECONDS, "the end of the command")
        _, err = proc.communicate(timeout=60)
        assert proc.returncode == 125
        assert b"moved or removed" in err
