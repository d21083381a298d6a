"""The processes that do file requests in a sandbox: what they are, how many, and what becomes of them.

The tests find an fs helper as a process called fh-fs-helper below the spawner. Where bwrap builds its view there are more
processes around it; see test_sandbox_fs_bwrap.py.
"""

import base64
import contextlib
import os
import signal

import pytest

from farhand_client import Client, pid_alive, pid_gone, wait_until
from sandbox_rig import USERS, Box, at, is_error, narrow, read_only, rig_of, snapshot, workspace_write
from test_sandbox_fs_backends import bwrap_rig

NAME = "fh-fs-helper"
MOST = 4
MARK = "MARK-of-the-server"
KEPT = {"PATH", "TMPDIR", "TMP", "TEMP"}
BROKEN = -32603


@pytest.fixture(params=[(how, user) for how in ("chosen", "bubblewrap") for user in USERS], ids="-".join)
def rig(request):
    """A new server for each test, because tests end servers."""
    how, user = request.param
    env = {"BOX_MARK": MARK}
    with rig_of(user, env=env) if how == "chosen" else bwrap_rig(user, env=env) as r:
        yield r


@pytest.fixture
def place(rig):
    """(tree, box): a workspace with one denied folder."""
    tree = rig.tree()
    tree.file(tree.w + "/a.txt")
    tree.file(tree.w + "/no/key", "hidden\n")
    return tree, Box(rig.client, workspace_write(at(tree.w + "/no", "deny")), tree.w)


def stat_of(pid):
    """(name, state, parent), or None."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            head, _, tail = f.read().rpartition(b")")
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, parent = tail.split()[:2]
    return head.partition(b"(")[2].decode("latin-1"), state.decode(), int(parent)


def below(pid, name):
    """The living processes called `name` anywhere below `pid`."""
    known = {int(entry): stat_of(entry) for entry in os.listdir("/proc") if entry.isdigit()}
    found, level = [], {pid}
    while level:
        level = {child for child, what in known.items() if what is not None and what[2] in level}
        found += [child for child in level if known[child][0] == name and known[child][1] not in "ZX"]
    return found


def helpers(server):
    return below(server.pid, NAME)


def spawner(server):
    (pid,) = below(server.pid, "fh-spawner")
    return pid


def status(pid):
    with open(f"/proc/{pid}/status", encoding="latin-1") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def occupy(server, stack, box, path):
    """Sends two requests on connections of their own while the only helper is stopped: it has one request, and a new helper
    answers the other. Returns the Box whose request waits, and that request."""
    sent = []
    for _ in range(2):
        one = Box(stack.enter_context(Client(server.url)), box.sandbox)
        sent.append((one, one.send("readFile", path=path)))
    wait_until(lambda: any(is_answered(*item) for item in sent), 20, "an answer")
    (waiting,) = [item for item in sent if not is_answered(*item)]
    return waiting


def is_answered(box, ident):
    return any(message.get("id") == ident for message in list(box.client.messages))


@contextlib.contextmanager
def stopped(*pids):
    """Stops the processes with SIGSTOP until the end of the block."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        for pid in pids:
            wait_until(lambda pid=pid: (stat_of(pid) or ("", "T"))[1] in "tT", 10, "the stop")
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


# What they are


def test_one_is_made_and_used_again(rig, place):
    tree, box = place
    assert helpers(rig.server) == []
    assert box.read(tree.w + "/a.txt") == b"data\n"
    first = helpers(rig.server)
    assert len(first) == 1
    for number in range(20):
        assert not is_error(box.write(f"{tree.w}/n{number}"))
        assert is_error(box.read(tree.w + "/no/key"))
    assert helpers(rig.server) == first


def test_what_a_helper_may(rig, place):
    tree, box = place
    assert not is_error(box.read(tree.w + "/a.txt"))
    (pid,) = helpers(rig.server)
    what = status(pid)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(what[name], 16) == 0, (name, what[name])
    assert (what["NoNewPrivs"], what["Seccomp"]) == ("1", "2")
    assert what["Uid"].split() == [str(rig.uid)] * 4
    if rig.user == "root":
        assert what["Groups"].split() in ([], ["0"])
    backend = rig.client.call("environment/info", {})["sandboxBackend"]
    if backend != "bubblewrap":
        assert stat_of(pid)[2] == spawner(rig.server)
    if backend != "landlock":
        for space in ("mnt", "user", "pid", "ipc"):
            ours, its = (os.readlink(f"/proc/{of}/ns/{space}") for of in (rig.server.pid, pid))
            assert ours != its, space


def test_the_environment_of_a_helper(rig, place):
    tree, box = place
    assert not is_error(box.read(tree.w + "/a.txt"))
    (pid,) = helpers(rig.server)
    with open(f"/proc/{pid}/environ", "rb") as f:
        variables = [entry for entry in f.read().split(b"\0") if entry]
    names = {entry.partition(b"=")[0].decode() for entry in variables}
    assert names <= KEPT, names
    assert MARK.encode() not in b"".join(variables)


def descriptors(pid):
    """The target and the mount of each descriptor, without those that a helper that has just answered closes meanwhile."""
    found = {}
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{number}")
            with open(f"/proc/{pid}/fdinfo/{number}", encoding="ascii") as f:
                found[number] = target, next(line.split()[1] for line in f if line.startswith("mnt_id:"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def test_the_descriptors_of_a_helper(rig, place):
    """Nothing of the server's: no client, no log. And no directory of the machine as it is outside of the view."""
    tree, box = place
    assert not is_error(box.read(tree.w + "/a.txt"))
    (pid,) = helpers(rig.server)
    with open(f"/proc/{pid}/mountinfo", encoding="utf-8") as f:
        mounts = {line.split()[0] for line in f}
    open_ = descriptors(pid)
    assert len([target for target, _ in open_.values() if target.startswith("socket:")]) == 1, open_
    for number, (target, mount) in open_.items():
        assert target.startswith("socket:") or mount in mounts, (number, target, open_)


def test_a_helper_shares_no_memory(rig, place):
    """The server would trust memory that it shared with a helper, and the helper could change it."""
    tree, box = place
    assert rig.sh("echo ran", read_only(), tree.w).out == b"ran\n"
    assert not is_error(box.read(tree.w + "/a.txt"))
    for pid in helpers(rig.server):
        with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
            shared = [line for line in f if line.split()[1][3] == "s"]
        assert not shared, shared


# How many


def test_at_most_four_of_one_profile(rig, place):
    """All helpers are stopped, and more requests come: the server makes another helper, up to four."""
    tree, box = place
    assert not is_error(box.read(tree.w + "/a.txt"))
    with contextlib.ExitStack() as stack:
        held, sent = set(), []
        with contextlib.ExitStack() as stops:
            while len(held) < MOST:
                fresh = wait_until(lambda: set(helpers(rig.server)) - held, 20, "another one")
                stops.enter_context(stopped(*fresh))
                held |= fresh
                for _ in range(MOST):
                    one = Box(stack.enter_context(Client(rig.server.url)), box.sandbox)
                    sent.append((one, one.send("readFile", path=tree.w + "/a.txt")))
            assert len(held) == MOST
            # A request of another profile is answered while these wait.
            assert not is_error(Box(rig.client, narrow(at(tree.w, "read")), tree.w).read(tree.w + "/a.txt"))
            wait_until(lambda: len(set(helpers(rig.server)) - held) == 1, 20, "only that of the other profile")
        for one, ident in sent:
            assert not is_error(one.answer(ident)), one.told
        wait_until(lambda: len(helpers(rig.server)) <= MOST + 1, 20, "few helpers")


def test_many_requests_at_once(rig, place):
    tree, box = place
    most = 0
    with contextlib.ExitStack() as stack:
        boxes = [Box(stack.enter_context(Client(rig.server.url)), box.sandbox) for _ in range(8)]
        sent = [(one, one.send("writeFile", path=f"{tree.w}/n{number}-{which}", dataBase64="bmV3Cg=="))
                for number in range(50) for which, one in enumerate(boxes)]
        for one, ident in sent:
            assert not is_error(one.answer(ident)), one.told[-1]
            if ident.endswith("0"):
                most = max(most, len(helpers(rig.server)))
    # A request that waits for long gets a helper of its own, which ends with the request.
    assert most >= 1
    wait_until(lambda: 1 <= len(helpers(rig.server)) <= MOST, 10, "few helpers")
    assert len([name for name in os.listdir(tree.w) if name.startswith("n") and name != "no"]) == 400


def test_many_profiles(rig, place):
    """More profiles than the server keeps helpers for: each works, and the helper that was used longest ago ends."""
    tree, box = place
    for number in range(24):
        tree.file(f"{tree.base}/p{number}/f", str(number))
    for _ in range(2):
        for number in range(24):
            one = Box(rig.client, narrow(at(f"{tree.base}/p{number}", "read")), tree.w)
            assert one.read(f"{tree.base}/p{number}/f") == str(number).encode()
            assert is_error(one.read(f"{tree.base}/p{(number + 1) % 24}/f"))
    wait_until(lambda: len(helpers(rig.server)) <= 8 * MOST, 10, "few helpers")


def test_many_profiles_at_once(rig, place):
    """More profiles than the server keeps helpers for, all busy: no request waits for ever or gets the answer of another
    profile."""
    tree, box = place
    for number in range(12):
        tree.file(f"{tree.base}/p{number}/f", str(number))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(rig.server.url)) for _ in range(4)]
        sent = []
        for round_ in range(10):
            for number in range(12):
                one = Box(clients[(round_ + number) % 4], narrow(at(f"{tree.base}/p{number}", "read")), tree.w)
                for other in (number, (number + 1) % 12):
                    sent.append((one, number, other, one.send("readFile", path=f"{tree.base}/p{other}/f")))
        for one, number, other, ident in sent:
            assert is_error(one.answer(ident, 60)) == (number != other), (number, other, one.told)


# A helper that dies or hangs


def test_one_that_is_killed_is_replaced(rig, place):
    tree, box = place
    assert not is_error(box.read(tree.w + "/a.txt"))
    (pid,) = helpers(rig.server)
    with contextlib.ExitStack() as stack, stopped(pid):
        waiting, ident = occupy(rig.server, stack, box, tree.w + "/a.txt")
        os.kill(pid, signal.SIGKILL)
        code, message = waiting.answer(ident)
        assert code == BROKEN, message
    assert box.read(tree.w + "/a.txt") == b"data\n"
    pid_gone(pid)


def test_one_that_died_in_its_sleep_is_not_noticed(rig, place):
    tree, box = place
    for _ in range(5):
        assert box.read(tree.w + "/a.txt") == b"data\n"
        for pid in helpers(rig.server):
            os.kill(pid, signal.SIGKILL)
            pid_gone(pid)
    assert is_error(box.read(tree.w + "/no/key"))


def test_one_that_is_stopped_stops_nobody_else(rig, place):
    tree, box = place
    assert not is_error(box.read(tree.w + "/a.txt"))
    (pid,) = helpers(rig.server)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(rig.server.url)) for _ in range(3)]
        with stopped(pid):
            waiting, ident = occupy(rig.server, stack, box, tree.w + "/a.txt")
            for client in clients:
                assert not is_error(Box(client, box.sandbox).read(tree.w + "/a.txt"))
                assert not is_error(Box(client, narrow(at(tree.w, "read")), tree.w).read(tree.w + "/a.txt"))
                assert not is_error(Box(client, None).read(tree.w + "/a.txt"))
            # The same connection: another profile, the same one, and a process.
            client = waiting.client
            assert not is_error(Box(client, narrow(at(tree.w, "read")), tree.w).read(tree.w + "/a.txt"))
            assert not is_error(Box(client, box.sandbox).read(tree.w + "/a.txt"))
            assert rig.sh("echo ran", read_only(), tree.w, client=client).out == b"ran\n"
        assert not is_error(waiting.answer(ident)), "it goes on where it was"


def test_the_connection_goes_while_a_helper_hangs(rig, place):
    tree, box = place
    assert not is_error(box.read(tree.w + "/a.txt"))
    (pid,) = helpers(rig.server)
    with contextlib.ExitStack() as stack:
        with stopped(pid):
            waiting, _ = occupy(rig.server, stack, box, tree.w + "/a.txt")
            waiting.client.abort()
            assert not is_error(box.read(tree.w + "/a.txt"))
        assert not is_error(box.read(tree.w + "/a.txt"))


# The end


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL", "spawner"])
@pytest.mark.parametrize("state", ["idle", "stopped"])
def test_helpers_go_with_the_server(rig, how, state):
    tree = rig.tree()
    tree.file(tree.w + "/a.txt")
    server = rig.new_server()
    try:
        with Client(server.url) as client:
            boxes = [Box(client, profile, tree.w)
                     for profile in (workspace_write(at(tree.o, "deny")), narrow(at(tree.w, "read")))]
            for box in boxes:
                assert not is_error(box.read(tree.w + "/a.txt"))
            pids = helpers(server)
            assert len(pids) == 2
            if state == "stopped":
                for pid in pids:
                    os.kill(pid, signal.SIGSTOP)
            if how == "spawner":
                os.kill(spawner(server), signal.SIGKILL)
            elif how == "SIGKILL":
                server.proc.kill()
            else:
                server.proc.terminate()
            for pid in pids:
                pid_gone(pid, 20)
            if how == "spawner" and pid_alive(server.pid):
                # A server that survives answers requests again.
                wait_until(lambda: not is_error(boxes[0].read(tree.w + "/a.txt")), 10, "a new spawner")
    finally:
        if server.proc.poll() is None:
            server.proc.kill()
        server.proc.wait(10)
        server.proc.stdout.close()


def test_nothing_is_left_on_the_disk(rig, place):
    """No placeholder, temporary file or directory is on the disk, neither while a helper is kept nor afterwards."""
    tree, box = place
    before = snapshot(rig.base, inodes=True, skip=(rig.home.base,))
    elsewhere = [path for path in ("/tmp/.git", "/.git") if not os.path.lexists(path)]
    for _ in range(3):
        for path in ("/.git/x", "/.codex", "/no/key", "/none/x"):
            assert is_error(box.write(tree.w + path))
        assert not is_error(box.ask("readDirectory", path=tree.w))
        assert helpers(rig.server)
        assert snapshot(rig.base, inodes=True, skip=(rig.home.base,)) == before
        # A command of another test may have a placeholder there for a moment.
        wait_until(lambda: not any(map(os.path.lexists, elsewhere)), 60, f"nothing in {elsewhere}")
        assert helpers(rig.server)
    assert not is_error(box.write(tree.w + "/a.txt"))
    assert sorted(os.listdir(tree.w)) == ["a.txt", "no"]
    for pid in helpers(rig.server):
        os.kill(pid, signal.SIGKILL)
        pid_gone(pid)
    assert sorted(os.listdir(tree.w)) == ["a.txt", "no"]


def test_a_write_that_is_cut_leaves_nothing(rig, place):
    """The helper is killed at any moment of a write: the file is the old one or the new one, and soon nothing lies
    beside it."""
    tree, box = place
    old, new = b"old" * 100000, b"new" * 100000
    for round_ in range(10):
        assert not is_error(box.write(tree.w + "/a.txt", old))
        (pid,) = helpers(rig.server)
        ident = box.send("writeFile", path=tree.w + "/a.txt", dataBase64=base64.b64encode(new).decode())
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        box.answer(ident)
        pid_gone(pid)
        with open(tree.w + "/a.txt", "rb") as f:
            assert f.read() in (old, new)
        wait_until(lambda: sorted(os.listdir(tree.w)) == ["a.txt", "no"], 60, "no temporary file")
