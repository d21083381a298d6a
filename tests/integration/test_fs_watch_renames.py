"""fs/watch while files are renamed: a client that follows the events knows the right tree, or is told of a loss."""

import ctypes
import os
import resource
import shutil
import subprocess
import sys

import pytest

from farhand_client import PATIENCE, wait_until
from watch_rig import Model, Watch, actual, deny, inotify_watches, no_watches, quick_tmp, touch  # noqa: F401 (a fixture)

RENAME_EXCHANGE = 2


def believe(w, known=()):
    """The tree that a client believes in after the events of watch `w`, when it knew the paths `known` at the beginning."""
    model = Model()
    model.paths = set(known)
    for row in w.events():
        if not row[1].startswith("zz-"):
            model.take(row)
    return model.paths


# Random changes of directories and files. Several processes run this script at the same time.
CHURN = """
import os, random, shutil, sys, time
root, seed, steps, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
rng, deadline = random.Random(seed), time.monotonic() + seconds
def path():
    return os.path.join(root, *[rng.choice("abcd") for _ in range(rng.randint(1, 4))])
for _ in range(steps):
    one, other, act = path(), path(), rng.random()
    if time.monotonic() > deadline:
        break
    try:
        if act < 0.35:
            os.makedirs(one, exist_ok=True)
        elif act < 0.55:
            os.close(os.open(one + "-file", os.O_CREAT | os.O_WRONLY, 0o600))
        elif act < 0.75:
            os.rename(one, other)
        elif act < 0.80:
            os.rename(one + "-file", other + "-file")
        elif act < 0.92:
            shutil.rmtree(one)
        else:
            os.unlink(one + "-file")
    except OSError:
        pass
"""


def touch_until_told(w, tmp, name):
    """Makes a file and waits for its event. An overflow may take the place of the event: then makes another file."""
    made, overflows = [], 0

    def is_told():
        nonlocal overflows
        if not made or w.overflows() > overflows:
            overflows = w.overflows()
            made.append(f"{name}-{len(made)}")
            touch(tmp, made[-1])
        return w.has("created", made[-1])

    wait_until(is_told, 20, f"a file made in {tmp}")


def believe_a_churn(server, client, tmp, seed):
    """Whether the events of random changes lead to the tree on disk; None when the server reported lost events."""
    base = no_watches(server.pid)
    w = Watch(client, tmp, watch_id=f"w{seed}")
    churns = [subprocess.Popen([sys.executable, "-c", CHURN, tmp, str(10 * seed + i), "2500", str(5 * PATIENCE)])
              for i in range(3)]
    for process in churns:
        assert process.wait() == 0
    w.settle()
    for folder in [tmp] + [os.path.join(tmp, p) for p in actual(tmp) if os.path.isdir(os.path.join(tmp, p))]:
        # Also where something was lost: what comes after the last overflow has to be right.
        touch_until_told(w, tmp, os.path.relpath(os.path.join(folder, "proof"), tmp))
    w.settle("zz-again")
    directories = 1 + sum(os.path.isdir(os.path.join(tmp, p)) for p in actual(tmp))
    wait_until(lambda: inotify_watches(server.pid) == base + directories, 60, "one watch for each directory")
    if w.overflowed():
        return None
    assert believe(w) == actual(tmp)
    return True


@pytest.mark.parametrize("seed", range(0, 48, 8))
def test_the_events_of_a_churn_lead_to_the_same_tree(server, client, quick_tmp, seed):
    for i in range(16):  # a loss is honest, but must not be the rule
        tmp = os.path.join(quick_tmp, str(i))
        os.mkdir(tmp)
        if believe_a_churn(server, client, tmp, seed + i):
            return
        assert client.call("fs/unwatch", {"watchId": f"w{seed + i}"}) == {}
        shutil.rmtree(tmp)
    pytest.fail("something was lost each time")


def test_a_rename_into_a_new_directory_and_one_above_it(client, quick_tmp):
    for i in range(120):
        tmp = os.path.join(quick_tmp, str(i))
        os.makedirs(f"{tmp}/p")
        touch(tmp, "p/f")
        w = Watch(client, tmp, watch_id=f"w{i}")
        known = actual(tmp)
        os.mkdir(f"{tmp}/q")
        for _ in range(50 * (i % 20)):
            os.stat(tmp)  # the server's pass over `q` gets a longer and longer head start
        os.rename(f"{tmp}/p/f", f"{tmp}/q/f")
        os.rename(f"{tmp}/p", f"{tmp}/r")
        w.settle()
        assert not w.overflowed()
        assert believe(w, known) == actual(tmp), w.events()
        assert client.call("fs/unwatch", {"watchId": f"w{i}"}) == {}


def test_names_that_are_exchanged(client, quick_tmp):
    tmp = quick_tmp
    for name in "ab":
        os.makedirs(f"{tmp}/{name}/below-{name}")
    for name in "fgh":
        touch(tmp, name)
    libc = ctypes.CDLL(None, use_errno=True)
    for one, other in (("a", "b"), ("f", "g"), ("h", "a")):
        w = Watch(client, tmp, watch_id=one)
        known = actual(tmp)
        if libc.renameat2(-100, f"{tmp}/{one}".encode(), -100, f"{tmp}/{other}".encode(), RENAME_EXCHANGE) < 0:
            pytest.skip(f"renameat2: {os.strerror(ctypes.get_errno())}")
        touch_until_told(w, tmp, f"last-{one}")
        wait_until(lambda: w.overflowed() or believe(w, known) == actual(tmp), 10, "an overflow, or the truth")
        for name in ("a", "b", "h"):
            if os.path.isdir(f"{tmp}/{name}"):
                touch_until_told(w, tmp, f"{name}/late-{one}")
        assert client.call("fs/unwatch", {"watchId": one}) == {}


def test_a_directory_renamed_to_a_denied_name_is_not_told_of(client, tmp):
    os.makedirs(f"{tmp}/open/below")
    os.makedirs(f"{tmp}/dir/secret")
    w = Watch(client, tmp, sandbox=deny(f"{tmp}/dir/secret"))
    touch(tmp, "open/below/seen")
    w.until("created", "open/below/seen")
    os.rename(f"{tmp}/open", f"{tmp}/dir/secret")
    touch(tmp, "dir/secret/hidden")
    touch(tmp, "dir/secret/below/hidden")
    os.mkdir(f"{tmp}/dir/secret/hidden-dir")
    w.settle()
    os.rename(f"{tmp}/dir", f"{tmp}/dir-2")
    touch(tmp, "dir-2/secret/told")
    w.until("created", "dir-2/secret/told")
    assert not [row for row in w.events() if row[1].startswith("dir/secret/")]


# Moves files in and out all the time, so that the server always waits for the second event of some rename.
MOVER = """
import os, sys, time
for n in range(30000):
    os.close(os.open(f"{sys.argv[1]}/w/m{n}", os.O_CREAT | os.O_WRONLY))
    os.rename(f"{sys.argv[1]}/w/m{n}", f"{sys.argv[1]}/out/m")
    if n == 10:
        print("moving", flush=True)
    time.sleep(0.003)
"""


def test_what_moves_out_all_the_time_holds_nobody_up(client, quick_tmp):
    os.makedirs(f"{quick_tmp}/w")
    os.makedirs(f"{quick_tmp}/out")
    mover = subprocess.Popen([sys.executable, "-c", MOVER, quick_tmp], stdout=subprocess.PIPE)
    try:
        w = Watch(client, f"{quick_tmp}/w")
        mover.stdout.readline()
        touch(quick_tmp, "w/hello")
        w.until("created", "hello", timeout=40)
        assert mover.poll() is None
    finally:
        mover.kill()
        mover.wait()
        mover.stdout.close()


def test_a_directory_that_could_not_be_looked_at_is_told_later(server, client, quick_tmp):
    w = Watch(client, quick_tmp)
    limit = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    for n in range(100):  # a descriptor that the server closes after it was counted is free for the directory
        used = [int(fd) for fd in os.listdir(f"/proc/{server.pid}/fd")]
        full = next(fd for fd in range(max(used) + 2) if fd not in used)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (full, limit[1]))
        try:
            os.mkdir(f"{quick_tmp}/d{n}")
            touch(quick_tmp, f"d{n}/f")
            wait_until(lambda: w.overflowed() or w.has("created", f"d{n}/f"), 30, "the loss")
        finally:
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, limit)
        if w.overflowed():
            break
    assert w.overflowed()
    w.until("created", f"d{n}/f", timeout=60)
    touch(quick_tmp, f"d{n}/g")
    w.until("created", f"d{n}/g")
    assert ("removed", ".") not in w.events()
