"""Weaknesses that a review found: rules that another rule, another command or the host could undo."""

import contextlib
import os
import signal

import pytest

from farhand_client import Client, seconds_of, wait_until
from sandbox_rig import USERS, at, glob, narrow, read_only, rig_of, snapshot, workspace_write
from test_kill9 import children, spawner_of


@pytest.fixture(scope="module", params=USERS)
def rig(request):
    with rig_of(request.param) as r:
        yield r


# Targets of .git files


@pytest.mark.parametrize("way", ["", "/proc/self/root", "/proc/thread-self/root"])
def test_a_gitdir_pointer_opens_nothing_that_is_denied(rig, way):
    tree = rig.tree()
    secret = tree.file(tree.o + "/private/key", "secret\n")
    tree.file(tree.w + "/.git", f"gitdir: {way}{tree.o}/private\n")
    for profile in (workspace_write(at(tree.o, "deny")), narrow(at(tree.w, "write"))):
        done = rig.sh('cat "$1"', profile, tree.w, secret)
        assert b"secret" not in done.out, done


def test_a_gitdir_pointer_through_a_protected_link_opens_nothing(rig):
    """The link cannot be moved by the command, so that the pointer is no reason to refuse."""
    tree = rig.tree()
    secret = tree.file(tree.o + "/private/key", "secret\n")
    tree.link(tree.w + "/.codex/way", tree.o + "/private")
    tree.file(tree.w + "/.git", f"gitdir: {tree.w}/.codex/way\n")
    done = rig.sh('cat "$1"', workspace_write(at(tree.o, "deny")), tree.w, secret)
    assert b"secret" not in done.out, done


# Modes of placeholders


@pytest.mark.parametrize("name", ["secret", "sub/secret", "sub/dir/secret"])
def test_a_command_cannot_make_a_directory_look_like_a_stub(rig, name):
    """Otherwise the next start would take the directory for a placeholder, and the denied files in it for missing."""
    tree = rig.tree()
    secret = tree.file(os.path.join(tree.w, "a", name), "secret\n")
    denied = at(secret, "deny")
    first = rig.sh('chmod 1555 "$1"; find "$1" -type d -exec chmod 1555 {} + ; :', workspace_write(denied), tree.w,
                   tree.w + "/a")
    assert first.ok, first
    for profile in (read_only(denied), workspace_write(denied), narrow(at(tree.w, "read"), denied)):
        done = rig.sh('cat "$1"', profile, tree.w, secret)
        assert b"secret" not in done.out, done


def test_a_directory_of_the_user_with_the_mode_of_a_stub_is_hidden(rig):
    tree = rig.tree()
    secret = tree.file(tree.o + "/d/secret", "secret\n")
    os.chmod(tree.o + "/d", 0o1555)
    done = rig.sh('cat "$1"', read_only(at(tree.o + "/d", "deny")), tree.dir(tree.w), secret)
    assert b"secret" not in done.out, done


# Devices


@pytest.mark.parametrize("profile", [lambda e: read_only(e), lambda e: narrow(e)], ids=["read-only", "narrow"])
def test_a_device_that_may_be_read_cannot_be_written(rig, profile):
    """The test opens the device and writes nothing."""
    tree = rig.tree()
    script = "import os, sys\nos.open(sys.argv[1], os.O_WRONLY)\nprint('opened')"
    for device in ("/dev/kmsg", "/dev/loop-control", "/dev/loop0"):
        if os.path.exists(device):
            done = rig.run(["/usr/bin/python3", "-c", script, device], profile(at(device, "read")), tree.dir(tree.w))
            assert done.out == b"", done


# Roots inside protected names


@pytest.mark.parametrize("place", [".codex/worktrees/1/project", ".aws/x"])
def test_a_workspace_below_a_protected_name_has_protected_names_of_its_own(rig, place):
    tree = rig.tree()
    w = tree.dir(os.path.join(tree.base, place))
    tree.dir(w + "/.git/hooks")
    done = rig.sh("echo bad > .git/hooks/pre-commit || mkdir .agents", workspace_write(), w)
    assert not os.path.exists(w + "/.git/hooks/pre-commit"), done


# Placeholders, when the tree is moved


def test_stubs_go_when_the_workspace_was_renamed_meanwhile(rig):
    tree = rig.tree()
    tree.file(tree.w + "/f")
    before = {os.path.relpath(p, tree.w) for p in snapshot(tree.w)}
    process_id = rig.start(["/bin/sleep", "1000"], workspace_write(at(tree.w + "/missing", "deny")), tree.w)
    assert os.path.isdir(tree.w + "/.git")
    os.rename(tree.w, tree.base + "/renamed")
    rig.finish(process_id)
    wait_until(lambda: {os.path.relpath(p, tree.base + "/renamed") for p in snapshot(tree.base + "/renamed")} == before,
               10, "the tree without stubs")


def test_stubs_go_when_the_workspace_cannot_be_listed(rig):
    tree = rig.tree()
    tree.dir(tree.w)
    done = rig.sh("chmod 300 .", workspace_write(), tree.w)
    assert done.ok, done
    os.chmod(tree.w, 0o755)
    assert os.listdir(tree.w) == []


# A command that runs before its init has dropped its rights


def test_no_command_meets_an_init_that_has_more_than_itself(rig):
    tree = rig.tree()
    tree.dir(tree.w)
    script = 'while read -r key value; do case $key in CapPrm:|CapBnd:|NoNewPrivs:|Seccomp:) echo $key $value;; esac; done'
    ids = []
    for _ in range(60):
        params = rig.params(["/bin/sh", "-c", script + " < /proc/1/status"], read_only(), tree.w)
        rig.client.request("process/start", params)
        ids.append(params["processId"])
    seen = {rig.finish(i).out for i in ids}
    none = "0" * 16
    assert seen == {f"CapPrm: {none}\nCapBnd: {none}\nNoNewPrivs: 1\nSeccomp: 2\n".encode()}


# The guard, when a command makes it busy


def test_a_command_that_renames_without_end_does_not_stop_the_server(rig):
    tree = rig.tree()
    tree.dir(tree.w)
    for i in range(6000):
        tree.file(f"{tree.w}/{i:08}.env")
    script = ("import os,sys\n"
              "os.fork(); os.close(os.open('00000000.tmp', os.O_CREAT))\n"
              "n = [f'{os.getpid():08}.' + e for e in ('tm1', 'tm2')]\n"
              "os.close(os.open(n[0], os.O_CREAT))\n"
              "print('go', flush=True)\n"
              "while True:\n"
              "    os.rename(n[0], n[1]); os.rename(n[1], n[0])\n")
    process_id = rig.start(["/usr/bin/python3", "-c", script], workspace_write(glob("**/*.env")), tree.w)
    try:
        wait_until(lambda: rig.client.output(process_id, "stdout").count(b"go") == 2, 20, "both at it")
        slowest = 0.0

        def read():
            rig.client.call("process/read", {"processId": process_id, "afterSeq": None, "maxBytes": 1, "waitMs": 0}, 60)

        for _ in range(20):
            slowest = max(slowest, seconds_of(rig.server, read, rig.client))
        assert slowest < 2, f"{slowest:.1f} s without an answer"
    finally:
        rig.client.call("process/terminate", {"processId": process_id}, 60)
        rig.finish(process_id, 60)


def test_events_of_one_command_do_not_end_another(rig):
    """One command causes more events than the kernel keeps: the guard then has to check every mask, and finds the others intact."""
    quiet, busy = rig.tree(), rig.tree()
    quiet.dir(quiet.w), busy.dir(busy.w)
    script = ("import os\n"
              "os.close(os.open('a', os.O_CREAT)); os.close(os.open('log', os.O_CREAT))\n"
              "print('go', flush=True)\n"
              "while not os.path.exists('start'): pass\n"
              "for _ in range(20000): os.rename('a', 'b'); os.rename('b', 'a')\n"
              "os.rename('log', 'done')\n"
              "import time; time.sleep(1000)\n")
    victim = rig.start(["/bin/sleep", "1000"], workspace_write(), quiet.w)
    flooder = rig.start(["/usr/bin/python3", "-c", script], workspace_write(), busy.w)
    wait_until(lambda: rig.client.output(flooder, "stdout") == b"go\n", 20, "the command")
    os.kill(rig.server.pid, signal.SIGSTOP)
    try:
        busy.file(busy.w + "/start")
        wait_until(lambda: os.path.exists(busy.w + "/done"), 60, "the flood")
    finally:
        os.kill(rig.server.pid, signal.SIGCONT)
    state = rig.client.call("process/read", {"processId": victim, "afterSeq": None, "maxBytes": 1, "waitMs": 2000}, 20)
    assert state["exited"] is False
    for process_id in (victim, flooder):
        rig.client.call("process/terminate", {"processId": process_id}, 20)
        rig.finish(process_id)


# All processes that remove placeholders are killed at once


def test_stubs_go_when_the_spawner_is_killed_with_its_keepers(rig):
    tree = rig.tree()
    tree.dir(tree.w)
    with rig.new_server() as server, Client(server.url) as client:
        process_id = rig.start(["/bin/sleep", "1000"], workspace_write(), tree.w, client=client)
        spawner = spawner_of(server)
        all_of_them = [spawner, *children(spawner)]
        for pid in all_of_them:
            os.kill(pid, signal.SIGSTOP)
        for pid in all_of_them:
            with contextlib.suppress(ProcessLookupError):  # a prebuilt sandbox ends with the spawner
                os.kill(pid, signal.SIGKILL)
        client.wait_exit(process_id, 20)
        wait_until(lambda: os.listdir(tree.w) == [], 20, "the tree without stubs")
