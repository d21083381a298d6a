"""The devices in a view are the machine's: commands can use them, but not change their modes and owners.

The tests set a mode to the value that it already has, so that an attempt that succeeds changes nothing.
"""

import json
import os

import pytest

from cmd_rig import cmd_of
from sandbox_rig import LAYERED, USERS, narrow, read_only, rig_of, workspace_write
from test_sandbox_bwrap import FORCED, INIT, REAL

# Prints the attempts that succeeded, one per line.
ATTEMPT = """
import os, stat
def attempt(what, fn, *args):
    try:
        fn(*args)
        print("DONE", what)
    except OSError as error:
        print(error.errno, what)
paths = ["/dev/" + name for name in ("null", "zero", "full", "random", "urandom", "tty", "console")]
for path in paths + ["/proc/self/fd/%d" % fd for fd in range(3)] + ["/dev/stdin", "/dev/stdout", "/dev/fd/2"]:
    if os.path.exists(path):
        st = os.stat(path)
        attempt("chmod " + path, os.chmod, path, stat.S_IMODE(st.st_mode))
        attempt("chown " + path, os.chown, path, st.st_uid, st.st_gid)
        attempt("utime " + path, lambda: os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns)))
for fd in range(3):
    attempt("fchmod %d" % fd, os.fchmod, fd, stat.S_IMODE(os.fstat(fd).st_mode))
    attempt("fchown %d" % fd, os.fchown, fd, os.getuid(), -1)
    again = os.open("/proc/self/fd/%d" % fd, os.O_RDWR | os.O_NOCTTY)
    attempt("fchmod of %d once more" % fd, os.fchmod, again, stat.S_IMODE(os.fstat(again).st_mode))
"""
USE = """
import os
assert os.read(os.open("/dev/zero", os.O_RDONLY), 3) == bytes(3) and len(os.urandom(3)) == 3
os.write(os.open("/dev/null", os.O_WRONLY), b"gone")
try:
    os.write(os.open("/dev/full", os.O_RDWR), b"x")
except OSError as error:
    assert error.errno == 28
os.write(os.open("/dev/tty", os.O_RDWR), b"to the terminal,")
os.write(os.open("/dev/console", os.O_RDWR | os.O_NOCTTY), b"by either name\\n")
"""


@pytest.fixture(scope="module", params=[(backend, user) for backend in ("namespaces", "bubblewrap") for user in USERS],
                ids="-".join)
def rig(request):
    backend, user = request.param
    if backend == "bubblewrap" and (REAL is None or not os.path.exists(INIT)):
        pytest.skip("no bwrap, or no farhand-init")
    with rig_of(user, args=("--sandbox-backend", backend)) as r:
        yield r


PROFILES = {"read-only": read_only, "workspace": workspace_write, "narrow": narrow}


@pytest.mark.parametrize("name", PROFILES)
def test_modes_owners_and_times_of_devices_stay(rig, name):
    tree = rig.tree()
    tree.dir(tree.w)
    for _ in range(2):
        done = rig.run(["/usr/bin/python3", "-c", ATTEMPT], PROFILES[name](), "/", box_cwd=tree.w, tty=True)
        said = done.out.decode().split("\r\n")[:-1]
        assert done.ok and len(said) > 20, done
        through = [line for line in said if line.startswith("DONE")]
        assert not through, through
        # The user owns the terminal: only the read-only mount prevents the change.
        assert "30 fchmod 0" in said and "30 chmod /dev/console" in said and "30 chmod /proc/self/fd/0" in said, said


def test_devices_can_be_used(rig):
    done = rig.run(["/usr/bin/python3", "-c", USE], read_only(), "/", tty=True)
    assert done.ok and done.out == b"to the terminal,by either name\r\n", done


# Where the system does not let a process join the view that bwrap has built


UNFINISHED = {"FARHAND_LAYERS_OFF": "finish"}
needs_bwrap = pytest.mark.skipif(REAL is None or not os.path.exists(INIT) or not os.access(LAYERED, os.X_OK),
                                 reason="no bwrap, no farhand-init or no farhand-layers")


@needs_bwrap
@pytest.mark.parametrize("user", USERS)
def test_without_joining_commands_run_and_the_terminal_is_theirs(user):
    """Commands run, and can change the mode of their terminal, as docs/SECURITY.md says."""
    with rig_of(user, executable=LAYERED, args=FORCED, env=UNFINISHED) as rig:
        tree = rig.tree()
        tree.file(tree.w + "/.git/config")
        done = rig.sh("echo new > a && echo x > .git/config", workspace_write(), tree.w)
        assert done.refused is None and done.code != 0 and os.path.exists(tree.w + "/a"), done
        done = rig.run(["/usr/bin/python3", "-c", ATTEMPT], read_only(), "/", tty=True)
        through = {line[5:] for line in done.out.decode().split("\r\n") if line.startswith("DONE")}
        assert done.ok and "fchmod 0" in through, done
        assert ("chmod /dev/null" in through) == (user == "root"), through
        assert rig.run(["/usr/bin/python3", "-c", USE], read_only(), "/", tty=True).ok


@needs_bwrap
@pytest.mark.parametrize("user", USERS)
def test_the_doctor_tells_whether_views_can_be_finished(user):
    with cmd_of(user) as cmd:
        for env, chosen, status in (({}, "bubblewrap", "ok"), (UNFINISHED, "bubblewrap", "warn"), (UNFINISHED, "auto", "ok")):
            code, out, _ = cmd.run([LAYERED, "doctor", "--json", "--sandbox-backend", chosen], env=env)
            (found,) = [f for f in json.loads(out)["findings"] if f["name"] == "back end bubblewrap"]
            assert code == 0 and found["status"] == status, found
            is_told = "terminal" in found["text"] and found.get("errno") == "EPERM" and "setns" in found["remedy"]
            assert is_told == bool(env), found
