"""The programs that the server executes later: farhand-net, farhand-init and bwrap.

A command may be able to write where they lie, a build tree in its workspace for example. What it puts there is never
executed, and the server goes on with the programs that it found at its start. A program that other users can write is
refused, with the reason.
"""

import ctypes
import json
import os
import platform
import shutil
import signal
import struct
import subprocess

import pytest

import farhand_client
from cmd_rig import cmd_of
from farhand_client import BIN, RpcError, Server, pid_gone, wait_until
from http_origin import Origin
from sandbox_rig import USERS, become, read_only, rig_of, workspace_write
from test_http_request import HELPER, VARIABLES, error, fetch, helper_pids

HERE = os.path.dirname(os.path.realpath(BIN))
INIT = os.path.join(HERE, "farhand-init")
BWRAP = shutil.which("bwrap", path="/usr/bin:/bin")

needs_net = pytest.mark.skipif(HELPER is None, reason="farhand-net was not built: no libcurl")
needs_bwrap = pytest.mark.skipif(BWRAP is None or not os.path.exists(INIT), reason="no bwrap, or no farhand-init")

# Notes in the file `mark` that it ran, and ends.
PLANTED = "#!/bin/sh\necho ran >> {mark}\n"

# What a command does to a program: it replaces the file by another, or overwrites its content.
PLANT = {"replaced": "cp -p planted new && mv -f new {name}", "overwritten": "cat planted > {name}"}


def install(tree, *programs):
    """Copies programs into the workspace, owned by the user of the tree. Returns the path of farhand."""
    where = tree.dir(os.path.join(tree.w, "build"))
    for program in programs:
        tree.own(shutil.copy(program, where))
    return os.path.join(where, "farhand")


def plant(rig, client, tree, name, how, mark):
    """A sandboxed command exchanges a program beside the server's."""
    tree.file(os.path.join(tree.w, "build", "planted"), PLANTED.format(mark=mark), 0o755)
    done = rig.sh("cd build && " + PLANT[how].format(name=name), workspace_write(), tree.w, client=client)
    assert done.ok, done
    with open(os.path.join(tree.w, "build", name), encoding="utf-8") as f:
        assert f.read() == PLANTED.format(mark=mark)


@pytest.fixture
def origin():
    with Origin() as o:
        yield o


@pytest.fixture(params=USERS)
def rig(request):
    with rig_of(request.param) as r:
        yield r


# farhand-net


def status(client, origin):
    try:
        return fetch(client, origin.url)[0]
    except RpcError as e:
        return e.message


@needs_net
@pytest.mark.parametrize("how", PLANT)
def test_a_planted_http_helper_does_not_run(rig, monkeypatch, origin, how):
    tree = rig.tree()
    mark = os.path.join(tree.dir(tree.o), "mark")
    monkeypatch.setattr(farhand_client, "BIN", install(tree, BIN, HELPER))
    with rig.new_server(env=VARIABLES) as s, s.connect() as c:
        plant(rig, c, tree, "farhand-net", how, mark)
        assert status(c, origin) == 200 and not os.path.exists(mark)
        # The planted program is not executed either when the server replaces a helper that died.
        (pid,) = helper_pids(s.pid)
        os.kill(pid, signal.SIGKILL)
        pid_gone(pid)
        assert status(c, origin) == 200 and not os.path.exists(mark)


@needs_net
def test_a_http_helper_that_was_removed_goes_on(rig, monkeypatch, origin):
    tree = rig.tree()
    tree.dir(tree.w)
    monkeypatch.setattr(farhand_client, "BIN", install(tree, BIN, HELPER))
    with rig.new_server(env=VARIABLES) as s, s.connect() as c:
        os.remove(os.path.join(tree.w, "build", "farhand-net"))
        assert fetch(c, origin.url)[0] == 200


# What makes a program, or a directory above it, one that others may write: mode, gid (None: the server's own), words.
OTHERS = {
    "everybody": (0o777, None, "can be written by everybody"),
    "a group": (0o775, 58233, "can be written by its group"),
    "an owner": (None, None, "belongs to uid 58232"),
}


def spoil(path, kind, tree):
    """Lets others write a program, in the way `kind`. Returns the words of the server's refusal."""
    mode, gid, words = OTHERS[kind]
    if mode is None:
        os.chown(path, 58232, -1)
    else:
        os.chmod(path, mode)
        if gid is not None:
            os.chown(path, tree.uid, gid)
            os.chmod(path, mode)
    return f"{path} {words}"


def may_spoil(kind):
    if kind != "everybody" and os.geteuid() != 0:
        pytest.skip("needs root to give a file to somebody else")


@needs_net
@pytest.mark.parametrize("what", ["build/farhand-net", "build", "."])
@pytest.mark.parametrize("kind", OTHERS)
def test_a_http_helper_that_others_may_write_is_refused(rig, monkeypatch, origin, kind, what):
    may_spoil(kind)
    tree = rig.tree()
    program = install(tree, BIN, HELPER)
    words = spoil(os.path.normpath(os.path.join(tree.w, what)), kind, tree)
    monkeypatch.setattr(farhand_client, "BIN", program)
    with rig.new_server(env=VARIABLES) as s, s.connect() as c:
        e = error(c, origin.url)
        assert (e.code, e.message) == (-32603, "http helper refused: " + words)
        log = s.stderr()
        assert log.count("http helper refused") == 1 and words in log
        assert c.run(["echo", "served"])[0] == b"served\n"


@needs_net
def test_a_http_helper_of_our_own_group_or_in_a_sticky_directory_is_taken(rig, monkeypatch, origin):
    tree = rig.tree()
    program = install(tree, BIN, HELPER)
    os.chmod(os.path.join(tree.w, "build", "farhand-net"), 0o775)
    os.chmod(os.path.join(tree.w, "build"), 0o775)
    os.chmod(tree.w, 0o1777)
    monkeypatch.setattr(farhand_client, "BIN", program)
    with rig.new_server(env=VARIABLES) as s, s.connect() as c:
        assert fetch(c, origin.url)[0] == 200
        assert "refused" not in s.stderr()


@needs_net
@pytest.mark.parametrize("user", USERS)
def test_the_doctor_tells_of_a_http_helper_that_is_refused(user):
    with cmd_of(user) as cmd:
        program = install(cmd.tree, BIN, HELPER)

        def finding():
            _, out, _ = cmd.run([program, "doctor", "--json"])
            return next(f for f in json.loads(out)["findings"] if f["name"] == "farhand-net")

        assert finding()["status"] == "ok"
        helper = os.path.join(cmd.tree.w, "build", "farhand-net")
        os.chmod(helper, 0o777)
        found = finding()
        assert found["status"] == "warn" and f"{helper} can be written by everybody" in found["text"], found
        assert "chmod go-w" in found["remedy"]


# farhand-init and bwrap


@pytest.fixture(params=USERS)
def wrapped(request):
    """A rig whose servers have bwrap build their sandboxes."""
    with rig_of(request.param, args=("--sandbox-backend", "bubblewrap")) as r:
        yield r


@needs_bwrap
@pytest.mark.parametrize("how", PLANT)
def test_a_planted_init_does_not_run(wrapped, monkeypatch, how):
    """A planted farhand-init would run as process 1 of the sandbox, before the command is confined."""
    rig = wrapped
    tree = rig.tree()
    mark = os.path.join(tree.w, "mark")
    monkeypatch.setattr(farhand_client, "BIN", install(tree, BIN, INIT))
    with rig.new_server() as s, s.connect() as c:
        plant(rig, c, tree, "farhand-init", how, mark)
        for _ in range(2):
            done = rig.sh("echo ran", workspace_write(), tree.w, client=c)
            assert done.ok and done.out == b"ran\n", done
        assert not os.path.exists(mark)


@needs_bwrap
@pytest.mark.parametrize("kind", OTHERS)
def test_an_init_that_others_may_write_is_refused(wrapped, monkeypatch, kind):
    may_spoil(kind)
    rig = wrapped
    tree = rig.tree()
    program = install(tree, BIN, INIT)
    words = spoil(os.path.join(tree.w, "build", "farhand-init"), kind, tree)
    monkeypatch.setattr(farhand_client, "BIN", program)
    with rig.new_server() as s, s.connect() as c:
        done = rig.sh("echo ran", read_only(), tree.w, client=c)
        assert done.refused is not None and done.refused.data["step"] == "bubblewrap", done
        assert "chmod go-w" in done.refused.data["remedy"] and words in done.refused.message, done


@needs_bwrap
@pytest.mark.parametrize("kind", OTHERS)
def test_a_bwrap_that_others_may_write_is_passed_over(wrapped, kind):
    """The server uses the next bwrap on PATH; when there is none, the refusal names the one that others may write."""
    may_spoil(kind)
    rig = wrapped
    tree = rig.tree()
    where = tree.dir(os.path.join(tree.o, "bin"))
    tree.file(os.path.join(where, "bwrap"), PLANTED.format(mark=os.path.join(tree.o, "mark")), 0o755)
    words = spoil(os.path.join(where, "bwrap"), kind, tree)
    with rig.new_server(env={"PATH": f"{where}:/usr/bin:/bin"}) as s, s.connect() as c:
        assert rig.sh("echo ran", read_only(), tree.o, client=c).out == b"ran\n"
    assert not os.path.exists(os.path.join(tree.o, "mark"))
    with rig.new_server(env={"PATH": where}) as s, s.connect() as c:
        done = rig.sh("echo ran", read_only(), tree.o, client=c)
        assert done.refused is not None and words in done.refused.message, done
    assert not os.path.exists(os.path.join(tree.o, "mark"))


# The server executes bwrap by its path and not a copy, because the system grants rights (AppArmor) by path. So the server can
# only notice that bwrap has changed, and refuse.
@needs_bwrap
@pytest.mark.parametrize("how", PLANT)
def test_a_planted_bwrap_does_not_run(wrapped, how):
    rig = wrapped
    tree = rig.tree()
    tree.dir(tree.w)
    mark = os.path.join(tree.o, "mark")
    where = tree.dir(os.path.join(tree.o, "bin"))
    tree.own(shutil.copy(BWRAP, where))
    with rig.new_server(env={"PATH": where}) as s, s.connect() as c:
        assert rig.sh("echo ran", read_only(), tree.w, client=c).out == b"ran\n"
        tree.file(os.path.join(where, "planted"), PLANTED.format(mark=mark), 0o755)
        # A process outside of the sandbox changes bwrap. The command above may be about to end.
        script = f"cd {where} && " + PLANT[how].format(name="bwrap")
        wait_until(lambda: subprocess.run(["sh", "-c", script], stderr=subprocess.DEVNULL, check=False).returncode == 0,
                   10, "a change")
        done = rig.sh("echo ran", read_only(), tree.w, client=c)
        assert not os.path.exists(mark)
        assert done.refused is not None and done.refused.data["step"] == "bubblewrap", done
        assert done.refused.data["errno"] == 116 and "start the server again" in done.refused.data["remedy"], done


# Where no program in memory can be executed


MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}
MFD_EXEC = 0x10


def forbid_programs_in_memory(uid):
    """For preexec_fn: as a kernel with vm.memfd_noexec=2 answers, by a filter."""
    switch = become(uid)
    code = [(0x20, 0, 0, 0), (0x15, 0, 3, MEMFD_CREATE[platform.machine()]), (0x20, 0, 0, 24), (0x45, 0, 1, MFD_EXEC),
            (0x06, 0, 0, 0x50000 | 13), (0x06, 0, 0, 0x7FFF0000)]
    libc = ctypes.CDLL(None, use_errno=True)

    def act():
        room = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
        program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(room)))
        switch()
        if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
            raise OSError(ctypes.get_errno(), "seccomp")

    return act


def server_without_copies(rig, env=None):
    return Server(list(rig.args), env={**rig.env, **(env or {})}, preexec_fn=forbid_programs_in_memory(rig.uid),
                  umask=0o022)


needs_filter = pytest.mark.skipif(platform.machine() not in MEMFD_CREATE, reason="the filter is for other machines")


@needs_net
@needs_filter
@pytest.mark.parametrize("how", PLANT)
def test_without_a_copy_a_changed_http_helper_is_refused(rig, monkeypatch, origin, how):
    tree = rig.tree()
    mark = os.path.join(tree.dir(tree.o), "mark")
    monkeypatch.setattr(farhand_client, "BIN", install(tree, BIN, HELPER))
    with server_without_copies(rig, VARIABLES) as s, s.connect() as c:
        assert status(c, origin) == 200
        (pid,) = helper_pids(s.pid)
        assert os.readlink(f"/proc/{pid}/exe").endswith("/farhand-net")
        os.kill(pid, signal.SIGKILL)
        pid_gone(pid)
        plant(rig, c, tree, "farhand-net", how, mark)
        assert status(c, origin).startswith("http helper refused: it has changed; start the server again")
        assert not os.path.exists(mark)


@needs_bwrap
@needs_filter
def test_without_a_copy_no_command_may_write_the_init(wrapped, monkeypatch):
    rig = wrapped
    tree = rig.tree()
    monkeypatch.setattr(farhand_client, "BIN", install(tree, BIN, INIT))
    with server_without_copies(rig) as s, s.connect() as c:
        assert rig.sh("echo ran", read_only(), tree.w, client=c).out == b"ran\n"
        done = rig.sh("echo ran", workspace_write(), tree.w, client=c)
        assert done.refused is not None and "farhand-init is where the command works" in done.refused.message, done
        assert "install farhand where commands may not write" in done.refused.data["remedy"]
        # A process outside of the sandbox touches the program: then it counts as changed.
        os.utime(os.path.join(tree.w, "build", "farhand-init"))
        done = rig.sh("echo ran", read_only(), tree.w, client=c)
        assert done.refused is not None and done.refused.data["errno"] == 116, done
