"""File requests in views that bwrap builds: the processes around an fs helper, their ends, and a bwrap that hangs, fails or lies.

    fh-spawner ── fh-view ─┬─ bwrap ── fh-init      holds the view
                           └─ fh-fs-helper              serves requests in it
"""

import contextlib
import os
import signal
import stat

import pytest

from farhand_client import PATIENCE, Client, RpcError, pid_gone, wait_until
from sandbox_rig import USERS, Box, at, is_error, narrow, read_only, sandbox, snapshot, unrestricted, uri, workspace_write
from test_sandbox_bwrap import LESS, MORE, OVER_THE_ROOT, Fake, plant, tree_of
from test_sandbox_fs_backends import bwrap_rig
from test_sandbox_fs_helpers import status

NAMES = ["bwrap", "fh-fs-helper", "fh-init", "fh-view"]


@pytest.fixture(params=USERS)
def rig(request):
    """A new server for each test, because tests end servers and processes."""
    with bwrap_rig(request.param) as r:
        yield r


@pytest.fixture(scope="module", params=USERS)
def faked(request):
    """(rig, fake): a server that has a fake bwrap."""
    with Fake() as fake, bwrap_rig(request.param, env=fake.env) as r:
        yield r, fake


def new_place(rig):
    """(tree, box): a workspace with one denied folder."""
    tree = rig.tree()
    tree.file(tree.w + "/a.txt")
    tree.file(tree.w + "/no/key", "hidden\n")
    return tree, Box(rig.client, workspace_write(at(tree.w + "/no", "deny")), tree.w)


def name_of(pid):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().partition(b"\0")[0].decode()
    return ""


def around(server):
    """(name, pid) of all processes that belong to fs helpers."""
    return sorted((name_of(pid), pid) for pid, _ in tree_of(server.pid) if name_of(pid) in NAMES)


def space(pid, kind):
    return os.readlink(f"/proc/{pid}/ns/{kind}")


def refusal(client, method, params):
    with pytest.raises(RpcError) as refused:
        client.call(method, params, 30)
    return refused.value


def read_params(tree, profile):
    return {"path": uri(tree.w + "/a.txt"), "sandbox": sandbox(profile, tree.w)}


# Which processes there are


def test_who_is_there(rig):
    tree, box = new_place(rig)
    assert box.read(tree.w + "/a.txt") == b"data\n"
    found = dict(around(rig.server))
    assert sorted(found) == NAMES
    view, helper, holder = found["fh-view"], found["fh-fs-helper"], found["fh-init"]
    for kind in ("mnt", "pid", "ipc", "user"):
        assert space(helper, kind) == space(holder, kind) != space(rig.server.pid, kind), kind
    for kind in ("mnt", "pid", "ipc", "user"):
        assert space(view, kind) == space(rig.server.pid, kind), kind
    for pid in (helper, holder):
        what = status(pid)
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(what[name], 16) == 0, (pid, name, what[name])
        assert (what["NoNewPrivs"], what["Seccomp"]) == ("1", "2"), pid
    assert status(holder)["NSpid"].split()[-1] == "1"
    assert len(os.listdir(f"/proc/{holder}/fd")) == 1 and os.readlink(f"/proc/{holder}/fd/3").startswith("socket:")
    # It has none of the server's descriptors: only /dev/null, the spawner's standard error and a socket to the holder.
    open_ = [os.readlink(f"/proc/{view}/fd/{n}") for n in os.listdir(f"/proc/{view}/fd") if int(n) > 2]
    assert len(open_) == 1 and open_[0].startswith("socket:"), open_
    with open(f"/proc/{helper}/mountinfo", encoding="utf-8") as f:
        mounts = {line.split()[4]: line.split()[5].split(",")[0] for line in f}
    assert mounts["/"] == mounts["/dev/null"] == "ro" and mounts[tree.w] == "rw"


def test_devices_are_the_machines_and_stay_as_they_are(rig):
    _, box = new_place(rig)
    before = {name: os.stat("/dev/" + name) for name in ("null", "zero", "full", "tty")}
    for name, st in before.items():
        assert is_error(box.ask("setMetadata", path="/dev/" + name, mode=stat.S_IMODE(st.st_mode))), name
        assert is_error(box.ask("setMetadata", path="/dev/" + name, modifiedAtMs=st.st_mtime_ns // 10**6)), name
        assert os.stat("/dev/" + name).st_ctime_ns == st.st_ctime_ns, name


def test_what_is_mounted_later_is_there(rig):
    """A view has the mounts of the time when it was made: after a new mount the server makes another view."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for mounts")
    with bwrap_rig(rig.user, mount_namespace=True) as mounting:
        tree, box = new_place(mounting)
        assert not is_error(box.read(tree.w + "/a.txt"))
        first = dict(around(mounting.server))["fh-fs-helper"]
        tree.dir(tree.o)
        done = os.system(f"nsenter -t {mounting.server.pid} -m sh -c 'mount -t tmpfs tmpfs {tree.o} && chmod 777 {tree.o} && "
                         f"echo mounted > {tree.o}/f'")
        assert done == 0
        assert box.read(tree.o + "/f") == b"mounted\n"
        assert is_error(box.write(tree.o + "/f"))
        pid_gone(first)


# Commands of the same profile, and of one that only closes the network


HUNT = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
numbers = [int(n) for n in sys.argv[1:]]
# The process sees only itself, and the init of its own view if there is one.
others = [int(n) for n in os.listdir("/proc") if n.isdigit() and int(n) not in (1, os.getpid())]
assert not others, others
for pid in numbers:
    try:
        os.kill(pid, 0)
        print("found", pid)
    except ProcessLookupError:
        pass
    if libc.ptrace(16, pid, None, None) == 0: # PTRACE_ATTACH
        print("traced", pid)
    for name in ("mem", "root", "fd", "ns/mnt"):
        try:
            os.open(f"/proc/{pid}/{name}", os.O_RDONLY)
            print("opened", pid, name)
        except OSError:
            pass
try:
    os.kill(-1, 9)
except ProcessLookupError:
    pass
print("over")
"""


@pytest.mark.parametrize("name", ["workspace", "network"])
def test_a_command_reaches_nobody_of_them(rig, name):
    tree, box = new_place(rig)
    profile = workspace_write(at(tree.w + "/no", "deny")) if name == "workspace" else unrestricted()
    assert box.read(tree.w + "/a.txt") == b"data\n"
    found = around(rig.server)
    pids = [str(pid) for _, pid in found]
    done = rig.run(["/usr/bin/python3", "-c", HUNT, *pids], profile, tree.w)
    assert done.ok and done.out == b"over\n", done
    # The command's own bwrap may still be there too.
    assert box.read(tree.w + "/a.txt") == b"data\n" and set(found) <= set(around(rig.server))


# Their ends


@pytest.mark.parametrize("who", NAMES)
def test_who_is_killed_takes_the_others_along(rig, who):
    tree, box = new_place(rig)
    for _ in range(2):
        assert box.read(tree.w + "/a.txt") == b"data\n"
        found = around(rig.server)
        assert [name for name, _ in found] == NAMES
        os.kill(dict(found)[who], signal.SIGKILL)
        for _, pid in found:
            pid_gone(pid, 10 * PATIENCE)
    assert box.read(tree.w + "/a.txt") == b"data\n" and is_error(box.read(tree.w + "/no/key"))


def test_many_that_are_not_used_any_more_leave_nothing(rig):
    tree, _ = new_place(rig)
    boxes = [Box(rig.client, narrow(at(tree.dir(f"{tree.base}/p{n}"), "read"), at(tree.w, "read")), tree.w) for n in range(12)]
    for box in boxes:
        assert box.read(tree.w + "/a.txt") == b"data\n"

    def is_even():
        names = [name for name, _ in around(rig.server)]
        return len(names) <= 8 * len(NAMES) and all(names.count(name) == names.count("fh-fs-helper") for name in NAMES)

    # Eight profiles are kept. The processes of those used longest ago end one after the other.
    wait_until(is_even, 30, "the end of those used longest ago")


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL", "spawner"])
@pytest.mark.parametrize("state", ["idle", "stopped"])
def test_all_of_them_go_with_the_server(rig, how, state):
    tree, _ = new_place(rig)
    server = rig.new_server()
    try:
        with Client(server.url) as client:
            for profile in (workspace_write(), narrow(at(tree.w, "read"))):
                assert not is_error(Box(client, profile, tree.w).read(tree.w + "/a.txt"))
            found = around(server)
            assert [name for name, _ in found] == sorted(NAMES * 2)
            for name, pid in found if state == "stopped" else []:
                if name in ("fh-fs-helper", "fh-view"):
                    os.kill(pid, signal.SIGSTOP)
            if how == "spawner":
                os.kill(next(pid for pid, _ in tree_of(server.pid) if name_of(pid) == "fh-spawner"), signal.SIGKILL)
            else:
                server.proc.send_signal(getattr(signal, how))
            for _, pid in found:
                pid_gone(pid, 20 * PATIENCE)
    finally:
        if server.proc.poll() is None:
            server.proc.kill()
        server.proc.wait(10)
        server.proc.stdout.close()


# A bwrap that hangs


HANG = "import time\nopen(FOLDER + '/hangs', 'w').close()\ntime.sleep(1000)"


@contextlib.contextmanager
def hanging(fake, client, params):
    """Sends a start for which bwrap hangs. Returns the waiting request."""
    hangs = os.path.join(fake.folder, "hangs")
    fake.say(HANG)
    try:
        ident = client.request("fs/readFile", params)
        wait_until(lambda: os.path.exists(hangs), 10 * PATIENCE, "the bwrap that hangs")
        fake.say("")
        yield ident
    finally:
        fake.say("")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(hangs)


def test_one_that_hangs_stops_nobody_else(faked):
    """The spawner does not wait for bwrap: other clients start commands, and use files under this and other profiles."""
    rig, fake = faked
    tree, box = new_place(rig)
    server = rig.new_server()
    with server, Client(server.url) as client, Client(server.url) as other:
        mine = Box(other, box.sandbox)
        with hanging(fake, client, {"path": uri(tree.w + "/a.txt"), "sandbox": box.sandbox}):
            for one in (mine, Box(other, read_only(), tree.w)):
                assert one.read(tree.w + "/a.txt") == b"data\n"
            assert is_error(mine.read(tree.w + "/no/key"))
            assert rig.sh("echo ran", workspace_write(), tree.w, client=other).out == b"ran\n"
            found = around(server)
            assert [name for name, _ in found].count("fh-view") == 3, found
            server.proc.terminate()
            server.proc.wait(10 * PATIENCE)
        for _, pid in found:
            pid_gone(pid, 10 * PATIENCE)


@pytest.mark.parametrize("how", [signal.SIGKILL, "connection"])
def test_nothing_is_left_of_one_that_hangs(faked, how):
    rig, fake = faked
    tree, box = new_place(rig)
    with rig.new_server() as server, Client(server.url) as client:
        with hanging(fake, client, {"path": uri(tree.w + "/a.txt"), "sandbox": box.sandbox}) as ident:
            (view,) = [pid for name, pid in around(server) if name == "fh-view"]
            found = [view] + [pid for pid, _ in tree_of(view)]
            assert len(found) == 2, found
            if how == "connection":
                client.abort()
                server.proc.terminate()
                server.proc.wait(10 * PATIENCE)
            else:
                os.kill(found[1], how)
                with pytest.raises(RpcError) as refused:
                    client.result(ident, 10 * PATIENCE)
                assert refused.value.data["step"] == "bubblewrap", refused.value
        for pid in found:
            pid_gone(pid, 10 * PATIENCE)


@pytest.mark.slow
def test_one_that_hangs_fails_its_request_in_the_end(faked):
    rig, fake = faked
    tree, _ = new_place(rig)
    with Client(rig.server.url) as client:
        with hanging(fake, client, read_params(tree, narrow(at(tree.w, "read")))) as ident:
            with pytest.raises(RpcError) as refused:
                client.result(ident, 20 * PATIENCE)
        assert (refused.value.data["step"], refused.value.data["errno"]) == ("bubblewrap", 110), refused.value
        assert client.call("fs/readFile", read_params(tree, narrow(at(tree.w, "read"))))["dataBase64"]


# One that fails


@pytest.mark.parametrize("edit, errno, words", [
    ('sys.exit("bwrap: Creating new namespace failed: No space left on device")', 28, "Creating new namespace failed"),
    ("os.kill(os.getpid(), 9)", 125, "bubblewrap"),
    ('args.append("--no-such-option")', 125, "Unknown option --no-such-option"),
], ids=["namespaces", "killed", "usage"])
def test_a_failure_is_the_answer_of_the_request(faked, edit, errno, words):
    rig, fake = faked
    tree, _ = new_place(rig)
    params = read_params(tree, workspace_write())
    before = snapshot(tree.base)
    fake.say(edit)
    try:
        refused = refusal(rig.client, "fs/readFile", params)
    finally:
        fake.say("")
    assert (refused.data["step"], refused.data["errno"]) == ("bubblewrap", errno), refused
    assert words in refused.message and refused.data["remedy"] and refused.data["reason"] == "sandboxUnavailable", refused
    assert snapshot(tree.base) == before
    assert rig.client.call("fs/readFile", params)["dataBase64"]


def test_what_changes_while_it_works_is_planned_again(faked):
    """The writable directory is replaced before bwrap looks it up: the server notices it and plans again."""
    rig, fake = faked
    tree, _ = new_place(rig)
    tree.file(tree.base + "/w2/a.txt", "of the second\n")
    fake.say(f"W = {tree.w!r}\nif os.path.exists(W + '2'):\n    os.rename(W, W + '1')\n    os.rename(W + '2', W)")
    try:
        box = Box(rig.client, workspace_write(), tree.w)
        assert box.read(tree.w + "/a.txt") == b"of the second\n"
        assert not is_error(box.write(tree.w + "/new")) and os.path.exists(tree.w + "/new")
    finally:
        fake.say("")
    assert not os.path.exists(tree.w + "1/new")


# A bwrap that lies


# The view of an fs helper has no masks; the helper checks the rules instead. So lies about masks are left out.
LIES = {how: lie for how, lie in LESS.items()
        if how in ("the ipc stays", "a writable root", "a writable /dev", "writable settings", "no /proc of its own",
                   "another directory")}


@pytest.mark.parametrize("how", LIES)
def test_who_does_less_serves_nothing(faked, how):
    rig, fake = faked
    edit, step = LIES[how]
    tree, _ = new_place(rig)
    profile = plant(tree)
    fake.say(f"W = {tree.w!r}\n{edit}")
    try:
        refused = refusal(rig.client, "fs/readFile", read_params(tree, profile))
    finally:
        fake.say("")
    assert refused.data["step"] == step and refused.data["reason"] == "sandboxUnavailable", refused
    assert rig.client.call("fs/readFile", read_params(tree, profile))["dataBase64"]


MORE_FOR_FILES = {how: lie for how, lie in MORE.items() if how != "a part of what is read-only"}


@pytest.mark.parametrize("how", MORE_FOR_FILES)
def test_a_bwrap_that_mounts_more_serves_nothing(faked, how):
    rig, fake = faked
    make, edit = MORE_FOR_FILES[how]
    tree, _ = new_place(rig)
    tree.file(tree.o + "/f")
    profile = make(tree)
    params = {"path": uri("/etc/hostname"), "sandbox": sandbox(profile, tree.w)}
    fake.say(f"W, O = {tree.w!r}, {tree.o!r}\n{edit}")
    try:
        refused = refusal(rig.client, "fs/getMetadata", params)
    finally:
        fake.say("")
    # A process that joins the view is in the uppermost of its roots, which is not the one that was asked for.
    assert refused.data["step"] in (("bubblewrap", "mount", "dev") if edit == OVER_THE_ROOT else ("check",)), refused
    assert refused.data["reason"] == "sandboxUnavailable", refused


def test_a_holder_that_is_not_process_1_is_none(faked):
    rig, fake = faked
    tree, _ = new_place(rig)
    fake.say('without("--as-pid-1")')
    try:
        refused = refusal(rig.client, "fs/readFile", read_params(tree, workspace_write()))
    finally:
        fake.say("")
    assert (refused.data["step"], refused.data["errno"]) == ("bubblewrap", 71), refused


# What bwrap is told


def test_a_view_of_files_has_the_machines_network_and_no_masks(faked):
    rig, fake = faked
    tree, box = new_place(rig)
    assert not is_error(box.read(tree.w + "/a.txt"))
    args = fake.seen()["args"]
    assert "--unshare-net" not in args and "--unshare-pid" in args and "--tmpfs" in args
    assert args[args.index(tree.w) - 1] == "--bind" and tree.w + "/no" not in args
    assert fake.seen()["env"] == []
    assert fake.seen()["tail"] == ["--args", "5", "--remount-ro", "/dev", "--", "/proc/self/fd/4"]


def test_a_bwrap_that_a_request_could_change_is_not_used(faked):
    rig, fake = faked
    tree, _ = new_place(rig)
    for profile, cwd in ((workspace_write(at(fake.where, "write")), tree.w), (narrow(at(tree.w, "read")), fake.where)):
        refused = refusal(rig.client, "fs/writeFile", {"path": uri(tree.w + "/a.txt"), "dataBase64": "", "sandbox": sandbox(profile, cwd)})
        assert refused.data["step"] == "bubblewrap" and fake.path in refused.message, refused
