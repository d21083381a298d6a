"""Commands that hold the placeholders of other commands, or make files that look like them: placeholders are still removed
with their command, and starts still work.

For the time of a command, missing names that are protected stand in the workspace as empty directories: its placeholders.
The server counts the users of each placeholder, in a place that no command can reach.
"""

import contextlib
import os
import stat
import subprocess
import tempfile
import time

import pytest

from cmd_rig import cmd_of
from exhaustion_rig import ANSWER_SECONDS, Honest
from farhand_client import BIN, PATIENCE, Client, wait_until
from sandbox_rig import ROOT_WRITE, USERS, at, read_only, restricted, rig_of, workspace_write
from test_kill9 import kill9, spawner_of

NAMES = [".git", ".agents", ".codex", ".aws"]
WAIT = ["/bin/sh", "-c", "echo up; read line"]

# Opens each path and holds it in one way; prints "holding" and how many it has when it has all. A thread waits for a lock that
# another process holds. What the seccomp filter refuses is skipped.
HOLD = """
import fcntl, os, sys, threading
how, paths = sys.argv[1], sys.argv[2:]
modes = {"shared": fcntl.LOCK_SH, "exclusive": fcntl.LOCK_EX}
held = 0

def hold(path):
    if how == "cwd":
        if os.fork() == 0:
            os.chdir(path)
            sys.stdin.read()
            os._exit(0)
        return
    fd = os.open(path, os.O_RDONLY)
    if how in modes:
        try:
            fcntl.flock(fd, modes[how] | fcntl.LOCK_NB)
        except BlockingIOError:
            threading.Thread(target=fcntl.flock, args=(fd, modes[how]), daemon=True).start()
    elif how == "record":
        fcntl.lockf(fd, fcntl.LOCK_SH)
    elif how == "lease":
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    elif how == "notify":
        fcntl.fcntl(fd, fcntl.F_NOTIFY, fcntl.DN_DELETE | fcntl.DN_MULTISHOT)

for path in paths:
    try:
        hold(path)
        held += 1
    except OSError:
        pass
print("holding", held, flush=True)
sys.stdin.read()
"""
# The ways to hold a path. The kernel or the seccomp filter refuses some of them; then nothing is held.
HOLDS = ["shared", "exclusive", "record", "lease", "notify", "cwd", "open"]
CERTAIN = ["shared", "exclusive", "cwd", "open"]


@pytest.fixture(scope="module", params=USERS)
def rig(request):
    with rig_of(request.param) as r:
        yield r


@pytest.fixture(scope="module", params=USERS)
def cmd(request):
    with cmd_of(request.param) as c:
        yield c


def state(uid, env):
    return "/var/lib/farhand" if uid == 0 else env["XDG_STATE_HOME"] + "/farhand"


def placeholders_in(w):
    return [name for name in NAMES if os.path.lexists(os.path.join(w, name))]


def wait_gone(w, timeout=20):
    wait_until(lambda: not placeholders_in(w), timeout, "the end of the placeholders")


def workspace(rig):
    tree = rig.tree()
    tree.dir(tree.w)
    return tree


@contextlib.contextmanager
def soon(what):
    before = time.monotonic()
    yield
    took = time.monotonic() - before
    assert took < ANSWER_SECONDS * PATIENCE, f"{what} took {took:.2f} s"


def start_victim(rig, tree, client, argv=WAIT):
    with soon("a start"):
        process = rig.start(argv, workspace_write(), tree.w, client=client, pipeStdin=True)
        client.wait_output(process, b"up\n")
    assert placeholders_in(tree.w) == NAMES
    return process


def end_victim(rig, process, client):
    with soon("the end"):
        rig.write(process, b"go\n", client)
        done = rig.finish(process, client=client)
    assert done.code == 0, done


@contextlib.contextmanager
def holder(rig, server, how, paths, profile=None, cwd="/"):
    """Runs a command of another session that opens all paths and holds them in the way `how`."""
    with Client(server.url) as client:
        process = rig.start(["/usr/bin/python3", "-c", HOLD, how, *paths], profile or read_only(), cwd, client=client,
                            pipeStdin=True)
        wait_until(lambda: b"\n" in client.output(process), 20, "what it holds")
        assert how not in CERTAIN or client.output(process) == f"holding {len(paths)}\n".encode()
        yield client
        client.call("process/terminate", {"processId": process})
        client.wait_exit(process)


# Locks on placeholders


@pytest.mark.parametrize("how", HOLDS)
def test_a_lock_on_them_keeps_no_placeholder(rig, how):
    tree = workspace(rig)
    paths = [os.path.join(tree.w, name) for name in NAMES]
    with rig.new_server() as server:
        with Client(server.url) as client:
            victim = start_victim(rig, tree, client)
            with holder(rig, server, how, paths):
                end_victim(rig, victim, client)
                assert placeholders_in(tree.w) == []
                # The next command starts and ends as well.
                end_victim(rig, start_victim(rig, tree, client), client)
                assert placeholders_in(tree.w) == []
                Honest(rig, server).work()
        assert server.stop() == 0
    assert placeholders_in(tree.w) == []
    with rig.new_server():
        assert placeholders_in(tree.w) == []


def test_a_lock_on_them_keeps_no_placeholder_of_a_killed_keeper(rig):
    """The keepers end with the spawner, which is killed alone or together with the server."""
    for victims in ("spawner", "server and spawner"):
        tree = workspace(rig)
        paths = [os.path.join(tree.w, name) for name in NAMES]
        with rig.new_server() as server, rig.new_server() as other, Client(server.url) as client:
            victim = start_victim(rig, tree, client)
            with holder(rig, other, "shared", paths):
                spawner = spawner_of(server)
                kill9(*([spawner] if victims == "spawner" else [server.pid, spawner]))
                if victims == "spawner":
                    rig.finish(victim, client=client)
                    wait_gone(tree.w)
                else:
                    server.wait()
                    client.abort()
                    with rig.new_server():
                        wait_gone(tree.w)


@pytest.mark.parametrize("made_by", ["user", "command"])
def test_what_looks_like_a_placeholder_and_is_locked_refuses_no_start(rig, made_by):
    tree = workspace(rig)
    path = tree.w + "/.git"
    with rig.new_server() as server, Client(server.url) as client:
        if made_by == "user":
            os.mkdir(path)
            tree.own(path)
            os.chmod(path, stat.S_ISVTX | 0o555)
        else:
            done = rig.sh("mkdir w/.git && chmod 1555 w/.git", workspace_write(), tree.base, client=client)
            assert done.ok, done
        assert stat.S_IMODE(os.lstat(path).st_mode) == stat.S_ISVTX | 0o555
        with holder(rig, server, "exclusive", [path], workspace_write(), tree.base):
            with soon("a command"):
                done = rig.sh("echo x > .git/x || mkdir .git/y || rmdir .git; echo new > made; exit 0", workspace_write(), tree.w,
                              client=client)
            assert done.ok and os.path.exists(tree.w + "/made"), done
            Honest(rig, server).work()


def test_a_placeholder_of_another_user_may_go_where_one_cannot_make_any(rig):
    """In a directory where the user cannot make files, no placeholder is needed: the command goes on."""
    if rig.uid == 0 or os.geteuid() != 0:
        pytest.skip("needs a directory of another user's")
    tree = rig.tree()
    with tempfile.TemporaryDirectory(prefix="fh-other-", dir="/var/tmp") as other:
        os.chmod(other, 0o755)
        os.mkdir(other + "/.git")
        os.chmod(other + "/.git", stat.S_ISVTX | 0o555)
        process = rig.start(["/bin/sh", "-c", "echo up; read line; ls -A $0; mkdir $0/.git; exit 0", other],
                            read_only(at(other, "write")), tree.dir(tree.w), pipeStdin=True)
        rig.client.wait_output(process, b"up\n")
        os.rmdir(other + "/.git")
        rig.write(process, b"go\n")
        done = rig.finish(process)
        assert done.code == 0 and done.out == b"up\n", done
        assert os.listdir(other) == []


# What cannot be removed


# Takes all permissions from the workspace, so that only root can remove anything from it.
CLOSE = ["/bin/sh", "-c", "echo up; read line; chmod 0 ."]


def stuck(rig, server):
    if rig.uid == 0:
        pytest.skip("root may remove everything")
    tree = workspace(rig)
    with Client(server.url) as client:
        end_victim(rig, start_victim(rig, tree, client, CLOSE), client)
    if not placeholders_in(tree.w):
        pytest.skip("this file system lets its owner remove everything")
    return tree


def test_what_cannot_be_removed_is_tried_again(rig):
    with rig.new_server() as server:
        tree = stuck(rig, server)
        assert placeholders_in(tree.w) == NAMES
        Honest(rig, server).work()
        os.chmod(tree.w, 0o755)
        wait_gone(tree.w)
        with Client(server.url) as client:
            end_victim(rig, start_victim(rig, tree, client), client)
        assert placeholders_in(tree.w) == []


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_cannot_be_removed_is_tried_by_the_next_server(rig, end):
    with rig.new_server() as server:
        tree = stuck(rig, server)
        if end == "stop":
            assert server.stop() == 0
        else:
            kill9(server.pid, spawner_of(server))
            server.wait()
    assert placeholders_in(tree.w) == NAMES
    with rig.new_server():  # this server comes too early to remove them, and does not forget them
        assert placeholders_in(tree.w) == NAMES
    os.chmod(tree.w, 0o755)
    with rig.new_server():
        wait_gone(tree.w)


# Where users are counted


PROFILES = {
    "read-only": lambda path: read_only(),
    "the directory itself writable": lambda path: workspace_write(at(path, "write")),
    "everything writable": lambda path: restricted(ROOT_WRITE, at("/boot", "read")),
}

# Tries to open and lock the files of the directory, by name and by inherited descriptors. Prints what succeeds and should not.
REACH = """
import fcntl, os, sys
place = sys.argv[1]
for fd in os.listdir("/proc/self/fd"):
    try:
        where = os.readlink("/proc/self/fd/" + fd)
    except OSError:
        continue
    if "farhand" in where:
        print("inherited", where)
for path in [os.path.join(place, name) for name in ["placeholders.lock", *sys.argv[2:], "/dev/shm/farhand-common.lock"]] + [place]:
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_PATH):
        try:
            fd = os.open(path, flags)
        except OSError:
            continue
        if path != place or flags != os.O_PATH:
            print("opened", path, flags)
        for what in (fcntl.flock, fcntl.lockf):
            try:
                what(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                print("locked", path, flags)
            except OSError:
                pass
print("looked")
"""


@pytest.mark.parametrize("name", PROFILES)
def test_no_command_reaches_what_they_are_counted_with(rig, name):
    place, tree = state(rig.uid, rig.env), workspace(rig)
    victim = start_victim(rig, tree, rig.client)
    assert os.path.exists(place + "/placeholders.lock")
    assert stat.S_IMODE(os.lstat(place + "/placeholders.lock").st_mode) == 0o600
    done = rig.run(["/usr/bin/python3", "-c", REACH, place, *os.listdir(place)], PROFILES[name](place), tree.dir(tree.o))
    assert done.out == b"looked\n", done
    end_victim(rig, victim, rig.client)
    assert placeholders_in(tree.w) == []


def test_a_count_that_the_user_removes_is_made_again(rig):
    if rig.uid == 0:
        pytest.skip("root's is the machine's")
    tree, home = workspace(rig), rig.tree()
    with rig.new_server(env={"XDG_STATE_HOME": home.base}) as server, Client(server.url) as client:
        for path in (home.base + "/farhand/placeholders.lock", home.base + "/farhand"):
            end_victim(rig, start_victim(rig, tree, client), client)
            assert placeholders_in(tree.w) == []
            subprocess.run(["rm", "-r", path], check=True)
        end_victim(rig, start_victim(rig, tree, client), client)
        assert placeholders_in(tree.w) == []


def test_without_a_state_directory_another_place_counts(rig):
    """Only for other users: root has a fixed state directory, whatever the environment says."""
    if rig.uid == 0:
        pytest.skip("root has its own place")
    tree, place = workspace(rig), f"/dev/shm/farhand-{rig.uid}"
    with rig.new_server('log_level = "info"\n', {"HOME": None, "XDG_STATE_HOME": None}) as server, Client(server.url) as client:
        assert "recorded until the machine's next start why=\"no state directory" in server.stderr(), server.stderr()
        first = start_victim(rig, tree, client)
        second = start_victim(rig, tree, client)
        st = os.lstat(place)
        assert stat.S_IMODE(st.st_mode) == 0o700 and st.st_uid == rig.uid
        done = rig.run(["/usr/bin/python3", "-c", REACH, place, *os.listdir(place)], restricted(ROOT_WRITE, at("/boot", "read")),
                       tree.w, client=client)
        assert done.out == b"looked\n", done
        with holder(rig, server, "shared", [os.path.join(tree.w, name) for name in NAMES]):
            end_victim(rig, first, client)
            assert placeholders_in(tree.w) == NAMES
            end_victim(rig, second, client)
            assert placeholders_in(tree.w) == []


def test_without_any_place_a_start_that_needs_placeholders_is_refused(rig):
    if rig.uid == 0 or os.geteuid() != 0:
        pytest.skip("needs root to take the other place from a user who is not")
    tree, place = workspace(rig), f"/dev/shm/farhand-{rig.uid}"
    with contextlib.suppress(FileNotFoundError):
        os.rename(place, place + ".kept")
    try:
        os.mkdir(place)  # a directory of root, which the server of another user refuses
        with rig.new_server(env={"HOME": None, "XDG_STATE_HOME": None}) as server, Client(server.url) as client:
            done = rig.sh("exit 0", workspace_write(), tree.w, client=client)
            assert done.refused is not None and done.refused.data["step"] == "stub", done
            assert "XDG_STATE_HOME" in done.refused.data["remedy"], done.refused.data
            assert placeholders_in(tree.w) == []
            assert rig.sh("exit 0", read_only(), tree.w, client=client).ok
            for name in NAMES:
                tree.dir(os.path.join(tree.w, name))
            assert rig.sh("exit 0", workspace_write(), tree.w, client=client).ok
    finally:
        os.rmdir(place)
        with contextlib.suppress(FileNotFoundError):
            os.rename(place + ".kept", place)


# farhand sandbox


def sandbox(cmd, script, *args, cwd=None, **kw):
    return cmd.popen([BIN, "sandbox", *args, "--", "/bin/sh", "-c", script], cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                     **kw)


def test_two_sandboxes_of_the_command_line_share_them(cmd):
    w = cmd.tree.dir(cmd.tree.base + "/two")
    with contextlib.ExitStack() as stack:
        first, second, hold = (stack.enter_context(sandbox(cmd, "echo up; read line", "--workspace-write", cwd=w))
                               for _ in range(3))
        for one in (first, second, hold):
            assert one.stdout.readline() == b"up\n"
        attacker = stack.enter_context(cmd.popen([BIN, "sandbox", "--", "python3", "-c", HOLD, "shared",
                                                  *(os.path.join(w, name) for name in NAMES)],
                                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        assert attacker.stdout.readline() == b"holding 4\n"
        for one in (second, first):
            one.communicate(b"go\n", 30)
            assert one.returncode == 0 and placeholders_in(w) == NAMES
        hold.communicate(b"go\n", 30)
        assert hold.returncode == 0 and placeholders_in(w) == []
        attacker.communicate(b"", 30)
