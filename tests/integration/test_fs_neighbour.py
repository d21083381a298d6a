"""A server that runs as root works in a directory of another user (the neighbour), who meanwhile exchanges names with links, hard
links, FIFOs and mounts.

Each method is asked again and again, 2,000 times with FARHAND_SLOW=1. Whatever it answers, nothing outside of that directory is
written, changed, deleted or given away: a tree of root's beside it is compared with what it was, by content, mode, owner and
times. Links are not followed where the request says so; of paths that lead through a link on purpose nothing is promised.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import stat
import sys
import tempfile

import pytest

from farhand_client import IS_SANITIZED, Client, wait_until
from fs_helpers import (b64, background, content, in_own_mounts, leftovers, make, needs_root, outcome, send,
                        server_under, tree)
from sandbox_rig import TREES, UNPRIVILEGED
from test_fs_hostile import catch_with_a_temporary_file

pytestmark = needs_root

IS_SOAK = os.environ.get("FARHAND_SLOW") == "1"
ROUNDS = 2000 if IS_SOAK else 100 if IS_SANITIZED else 300
IN_FLIGHT = 8
CODES = (-32600, -32603, -32004, -32020)
SECRET = b"precious"
LIBC = ctypes.CDLL(None)

# Changes places of names, in pairs, as fast as it can. A FIFO among them is open for reading, so that it can be written to;
# what comes out of it is written down.
SWAPPER = """
import ctypes, os, stat, sys
uid, got, *names = sys.argv[1:]
os.setgroups([]); os.setgid(int(uid)); os.setuid(int(uid))
libc = ctypes.CDLL(None)
pairs = [(os.fsencode(a), os.fsencode(b)) for a, b in zip(names[::2], names[1::2])]
fifos = [os.open(b, os.O_RDONLY | os.O_NONBLOCK) for a, b in pairs if stat.S_ISFIFO(os.lstat(b).st_mode)]
print("ready", flush=True)
while os.getppid() != 1:
    for a, b in pairs:
        libc.renameat2(-100, a, -100, b, 2)
    for f in fifos:
        try:
            data = os.read(f, 65536)
        except BlockingIOError:
            continue
        if data:
            with open(got, "ab") as out:
                out.write(data)
"""

# Mounts and unmounts, as root, in the namespace of the server.
MOUNTER = """
import ctypes, os, sys
what, where = (os.fsencode(p) for p in sys.argv[1:])
libc = ctypes.CDLL(None, use_errno=True)
print("ready", flush=True)
while os.getppid() != 1:
    libc.mount(what, where, None, 4096, None)
    libc.umount2(where, 2)
"""


@contextlib.contextmanager
def as_neighbour():
    """While the context lasts this thread works with files as the neighbour."""
    LIBC.setfsgid(UNPRIVILEGED)
    LIBC.setfsuid(UNPRIVILEGED)
    try:
        yield
    finally:
        LIBC.setfsuid(0)
        LIBC.setfsgid(0)


def own(path):
    os.chown(path, UNPRIVILEGED, UNPRIVILEGED, follow_symlinks=False)
    return path


def picture(top):
    """Mode, owner, time and content of everything below `top`, for a comparison."""
    seen = {}
    for parent, directories, files in os.walk(top):
        for path in (parent, *(os.path.join(parent, name) for name in directories + files)):
            st = os.lstat(path)
            data = content(path) if stat.S_ISREG(st.st_mode) else os.readlink(path) if stat.S_ISLNK(st.st_mode) else None
            seen[path] = (oct(st.st_mode), st.st_uid, st.st_gid, st.st_mtime_ns, data)
    return seen


class Ground:
    """`theirs` belongs to the neighbour, `ours` and `outside` to root. All of it in one file system, for hard links."""

    def __init__(self, base):
        self.base = base
        self.theirs, self.ours, self.outside = (f"{base}/{name}" for name in ("theirs", "ours", "outside"))
        self.got = f"{base}/theirs/.got"
        self.names, self.linked, self.fifos = [], [], []
        os.chmod(base, 0o755)
        for path in (self.theirs, self.ours, self.outside):
            os.mkdir(path, 0o755)
        own(self.theirs)
        os.makedirs(f"{self.outside}/d/sub")
        for name in ("f", "d/f", "d/sub/f", "d/g", "new"):
            make(f"{self.outside}/{name}", SECRET, 0o600)
        make(f"{self.outside}/shared", SECRET, 0o666)
        self.fill()

    def fill(self):
        """Makes the files that the requests name. The neighbour does: root would follow a link that stands there by now."""
        with as_neighbour():
            for name in ("d", "d/sub"):
                with contextlib.suppress(OSError):
                    os.mkdir(f"{self.theirs}/{name}")
            for name in ("f", "d/f", "d/sub/f"):
                with contextlib.suppress(OSError):
                    fd = os.open(f"{self.theirs}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
                    os.write(fd, b"theirs")
                    os.close(fd)

    def swap(self, name, way, target=None):
        """From now on `name` in the neighbour's directory is exchanged with something else all the time, as `way` says."""
        other = f"{self.theirs}/.{len(self.names)}"
        target = f"{self.outside}/{target or name}"
        if way == "link":
            os.symlink(target, other)
        elif way == "hard link":
            os.link(target, other)  # as the neighbour itself can where fs.protected_hardlinks is off
        elif way == "fifo":
            os.mkfifo(other, 0o666)
            os.link(other, f"{self.base}/fifo{len(self.names)}")
            self.fifos.append((f"{self.base}/fifo{len(self.names)}", other))
        if way != "hard link":
            own(other)
        self.names += [f"{self.theirs}/{name}", other]
        if way == "hard link":
            self.linked.append((target, other))

    def renew(self):
        """Makes the hard links and the FIFOs again that a request has replaced."""
        for kept, other in self.fifos:
            if os.lstat(kept).st_nlink == 1:
                with contextlib.suppress(OSError):
                    os.link(kept, f"{other}.new")
                    os.rename(f"{other}.new", other)
        for target, other in self.linked:
            if os.lstat(target).st_nlink == 1:
                with contextlib.suppress(OSError):
                    os.unlink(other)
                    os.link(target, other)

    @contextlib.contextmanager
    def under_attack(self):
        before = picture(self.outside)
        with background([sys.executable, "-c", SWAPPER, str(UNPRIVILEGED), self.got, *self.names]) as attacker:
            yield
            assert attacker.poll() is None, "the neighbour has given up"
        after = picture(self.outside)
        assert {path: (before.get(path), after.get(path)) for path in before.keys() | after.keys()
                if before.get(path) != after.get(path)} == {}
        assert not os.path.exists(self.got) or content(self.got) == b"", "given away by a FIFO"


@pytest.fixture(scope="module")
def root_server():
    with server_under(in_own_mounts("true")) as s:
        yield s


@pytest.fixture
def client(root_server):
    with Client(root_server.url) as c:
        yield c
        assert c.call("environment/status") == {"status": "ready"}


@pytest.fixture
def ground():
    base = tempfile.mkdtemp(prefix="fh-neighbour-", dir=TREES)
    yield Ground(base)
    shutil.rmtree(base, ignore_errors=True)


def rounds(client, ground, ask, count=ROUNDS, until=None):
    """Sends the request `count` times. Returns how many succeeded, and how many failed. With `until` it goes on (up to 50 times as
    long) until that is true of the two numbers: on a busy machine the neighbour may not run at all for a while."""
    sent, worked, failed, n = [], 0, 0, 0
    while n < count or sent:
        ground.renew()
        if n < count:
            sent.append(ask(n))
        n += 1
        if until and n == count and not until(worked, failed) and n < 50 * ROUNDS:
            count += ROUNDS
        if n >= IN_FLIGHT:
            answer = outcome(client, sent.pop(0), 30)
            worked += isinstance(answer, dict)
            failed += not isinstance(answer, dict)
            assert isinstance(answer, dict) or answer[0] in CODES, answer
    return worked, failed


NEW = b64(b"written by the client")
WAYS = ["link", "hard link", "fifo"]


@pytest.mark.parametrize("more", [{}, {"atomic": False}], ids=["atomic", "in place"])
@pytest.mark.parametrize("way", WAYS)
def test_write(client, ground, way, more):
    for name in ("f", "d/f"):
        ground.swap(name, way)
    if way == "link":
        ground.swap("d", way)
    with ground.under_attack():
        worked, failed = rounds(client, ground, lambda n: send(
            client, "writeFile", path=f"{ground.theirs}/{('f', 'd/f', 'd/new', 'd/sub/f')[n % 4]}", dataBase64=NEW,
            followSymlinks=False, **more), until=lambda worked, failed: worked and failed)
    assert worked and failed
    assert leftovers(ground.outside) == []


@pytest.mark.parametrize("way", WAYS)
def test_write_with_parents_and_a_mode(client, ground, way):
    ground.swap("d", "link")
    ground.swap("d/sub", "link") if way == "link" else ground.swap("d/sub/f", way)
    with ground.under_attack():
        worked, _ = rounds(client, ground, lambda n: send(
            client, "writeFile", path=f"{ground.theirs}/d/sub/{n % 7}/f", dataBase64=NEW, followSymlinks=False,
            createParents=True, mode=0o4755), until=lambda worked, _: worked)
        assert worked
        rounds(client, ground, lambda n: send(client, "createDirectory", path=f"{ground.theirs}/d/sub/x{n % 5}/y",
                                      recursive=True, followSymlinks=False))


@pytest.mark.parametrize("way", ["hard link", "fifo"])
def test_blocks(client, ground, way):
    """fs/open follows links, so that only names that are no symbolic links are checked here."""
    ground.swap("f", way)
    with ground.under_attack():
        for n in range(ROUNDS // 2):
            ground.renew()
            fine = outcome(client, send(client, "open", handleId="h", path=f"{ground.theirs}/f",
                                        mode=("replace", "resume")[n % 2]))
            assert isinstance(fine, dict) or fine[0] in CODES
            outcome(client, send(client, "writeBlock", handleId="h", offset=0, chunk=NEW))
            outcome(client, send(client, "close", handleId="h"))


@pytest.mark.parametrize("way", WAYS)
def test_copy_into(client, ground, way):
    os.makedirs(f"{ground.ours}/from/d/sub")
    for name in ("f", "d/f", "d/sub/f"):
        make(f"{ground.ours}/from/{name}", b"written by the client", 0o4777)
    for name in ("f", "d/f", "d/sub/f"):
        ground.swap(name, way)
    if way == "link":
        ground.swap("d/sub", way)
        ground.swap("d", way)
    with ground.under_attack():
        rounds(client, ground, lambda n: send(client, "copy", sourcePath=f"{ground.ours}/from", destinationPath=ground.theirs,
                                      recursive=True))


@pytest.mark.parametrize("way", ["link", "fifo"])
def test_copy_from(client, ground, way):
    """A copy does not read files outside of the neighbour's directory for the neighbour."""
    for name in ("f", "d/f", "d/sub/f"):
        ground.swap(name, way)
    if way == "link":
        ground.swap("d/sub", way)
        ground.swap("d", way)
    with ground.under_attack():
        rounds(client, ground, lambda n: send(client, "copy", sourcePath=ground.theirs, destinationPath=f"{ground.ours}/{n % 20}",
                                      recursive=True))
    assert SECRET not in tree(ground.ours).values()


@pytest.mark.parametrize("way", WAYS)
def test_remove(client, ground, way):
    for name in ("d/f", "d/sub/f"):
        ground.swap(name, way)
    if way == "link":
        ground.swap("d/sub", way)
        ground.swap("d", way)
    others = ground.names[1::2]

    def ask(n):
        ground.fill()
        return send(client, "remove", path=f"{ground.theirs}/d", recursive=True)

    with ground.under_attack():
        rounds(client, ground, ask)
    assert ground.names[1::2] == others


def test_remove_what_is_mounted_meanwhile(root_server, client, ground):
    """Root makes the mount; the removal of a tree must not remove the files of a file system that is mounted in it."""
    nsenter = ["nsenter", "-t", str(root_server.proc.pid), "-m", sys.executable, "-c", MOUNTER]
    before = picture(ground.outside)
    with background([*nsenter, f"{ground.outside}/d", f"{ground.theirs}/d/sub"]):
        for _ in range(ROUNDS):
            ground.fill()
            answer = outcome(client, send(client, "remove", path=f"{ground.theirs}/d", recursive=True))
            assert isinstance(answer, dict) or answer[0] in CODES
    assert picture(ground.outside) == before


@pytest.mark.parametrize("way", WAYS)
def test_rename(client, ground, way):
    """Only the last names are exchanged: a path through a link may lead elsewhere."""
    os.mkdir(f"{ground.theirs}/e")
    own(f"{ground.theirs}/e")
    for name in ("f", "d/f"):
        ground.swap(name, way)

    def ask(n):
        ground.fill()
        names = [("f", "e/f"), ("e/f", "f"), ("d/f", "e/g"), ("e/g", "d/f")][n % 4]
        return send(client, "rename", sourcePath=f"{ground.theirs}/{names[0]}",
                    destinationPath=f"{ground.theirs}/{names[1]}", replace=n % 3 != 0)

    with ground.under_attack():
        rounds(client, ground, ask)


@pytest.mark.parametrize("way", WAYS)
def test_set_metadata(client, ground, way):
    for name in ("f", "d/f"):
        ground.swap(name, way)
    ground.swap("d/sub/f", way, "shared")
    if way == "link":
        ground.swap("d", way)
    with ground.under_attack():
        worked, _ = rounds(client, ground, lambda n: send(
            client, "setMetadata", path=f"{ground.theirs}/{('f', 'd/f', 'd/sub/f', 'd')[n % 4]}", mode=0o777,
            modifiedAtMs=n, followSymlinks=False), until=lambda worked, _: worked)
    assert worked


@pytest.mark.parametrize("way", ["link", "fifo"])
def test_watch(client, ground, way):
    """Changes outside of the watched directory are not reported."""
    ground.swap("d/f", way)
    if way == "link":
        ground.swap("d/sub", way)
        ground.swap("d", way)
    os.utime(f"{ground.outside}/d", ns=(1, 1))
    with ground.under_attack():
        for n in range(ROUNDS // 20):
            outcome(client, send(client, "watch", watchId="w", path=ground.theirs, recursive=True))
            os.unlink(make(f"{ground.outside}/d/probe{n}"))
            outcome(client, send(client, "unwatch", watchId="w"))
        os.utime(f"{ground.outside}/d", ns=(1, 1))  # the test itself has made the probes, which changed this time
    told = [event["path"] for message in client.messages if message.get("method") == "fs/changed"
            for event in message["params"]["events"]]
    assert not [path for path in told if "probe" in path]


# Journals


def journal(state, *records):
    """Writes a journal as a killed server leaves it."""
    slot = 4096 + 128
    data = b"".join((os.fsencode(directory) + b"\0" + os.fsencode(name) + b"\0").ljust(slot, b"\0")
                    for directory, name in records)
    return make(f"{state}/journal-11111111-2222-3333-4444-555555555555", data, 0o600)


TEMP = ".farhand-0123456789abcdef0123456789abcdef.tmp"


@contextlib.contextmanager
def restarted(ground):
    """Starts a server with the state directory of this ground; yields when it has removed what its journals name."""
    own_state = make(f"{ground.ours}/{TEMP}", b"left by a server")
    os.makedirs(f"{ground.base}/lib/farhand", mode=0o700, exist_ok=True)
    shell = in_own_mounts(f"mount --bind {ground.base}/lib /var/lib")
    with server_under(shell) as s, s.connect() as c:
        yield own_state
        assert c.call("environment/status") == {"status": "ready"}


def test_a_journal_leads_nowhere_else(ground):
    """The neighbour has put a link where the directory was, and the temporary file elsewhere."""
    victims = [make(f"{ground.outside}/{TEMP}", SECRET), make(f"{ground.outside}/d/{TEMP}", SECRET)]
    os.rename(f"{ground.theirs}/d", f"{ground.theirs}/moved")
    os.symlink(f"{ground.outside}/d", f"{ground.theirs}/d")
    os.symlink(ground.outside, f"{ground.theirs}/up")
    os.mkdir(f"{ground.theirs}/moved/{TEMP}")
    before = picture(ground.outside)
    os.makedirs(f"{ground.base}/lib/farhand", mode=0o700)
    state = f"{ground.base}/lib/farhand"
    left = journal(state, (f"{ground.theirs}/d", TEMP), (f"{ground.theirs}/up/d", TEMP), (f"{ground.theirs}/up", TEMP),
                   (f"{ground.theirs}/moved", TEMP), (f"{ground.theirs}/moved/../../outside", "f"), (ground.outside, "f"),
                   (ground.outside, "../outside/f"), (f"{ground.outside}/d", "sub"), (ground.outside, "new"),
                   ("relative", TEMP), (ground.ours, TEMP))
    with restarted(ground) as own_state:
        wait_until(lambda: not os.path.exists(own_state), 60, "the sweep")
        wait_until(lambda: not os.path.exists(left), 60, "the end of the sweep")
    assert picture(ground.outside) == before and all(content(path) == SECRET for path in victims)
    assert os.path.isdir(f"{ground.theirs}/moved/{TEMP}"), "a directory is no temporary file"


@pytest.mark.parametrize("kind", ["directory", "writable", "link", "file"])
def test_a_forged_journal_is_not_read(ground, kind):
    """Not in a state directory that another user owns or may write, and not a journal that another user owns."""
    victim = make(f"{ground.outside}/{TEMP}", SECRET)
    os.makedirs(f"{ground.base}/lib")
    state = f"{ground.base}/lib/farhand"
    os.mkdir(f"{ground.theirs}/state", 0o700)
    if kind == "link":
        os.symlink(f"{ground.theirs}/state", state)
    else:
        os.mkdir(state, 0o777 if kind == "writable" else 0o700)
        os.chmod(state, 0o777 if kind == "writable" else 0o700)
    left = journal(state, (ground.outside, TEMP))
    if kind == "directory":
        own(state)
    if kind == "file":
        own(left)
    before = picture(ground.outside)
    shell = in_own_mounts(f"mount --bind {ground.base}/lib /var/lib; mount -t tmpfs none /dev/shm")
    with server_under(shell) as s, s.connect() as c:
        c.call("fs/writeFile", {"path": f"{ground.ours}/f", "dataBase64": "eA=="})
        c.call("fs/getMetadata", {"path": f"{ground.ours}/f"})
    assert picture(ground.outside) == before and content(victim) == SECRET


def test_what_a_kill_left_is_removed_where_it_is_and_nowhere_else(ground):
    """The neighbour moves the directory away as soon as the server is dead, and puts a link in its place."""
    os.makedirs(f"{ground.base}/lib/farhand", mode=0o700)
    shell = in_own_mounts(f"mount --bind {ground.base}/lib /var/lib")
    caught = 0
    for n in range(60 if IS_SOAK else 6):
        here = f"{ground.theirs}/{n}"
        os.mkdir(here)
        own(here)
        with server_under(shell) as s, s.connect() as c:
            catch_with_a_temporary_file(s, c, here)
            s.stop(signal.SIGKILL)
        names = [os.path.basename(path) for path in leftovers(here)]
        caught += len(names)
        victims = [make(f"{ground.outside}/{name}", SECRET) for name in names]
        os.rename(here, f"{here}-moved")
        os.symlink(ground.outside, here)
        before = picture(ground.outside)
        with server_under(shell) as s, s.connect() as c:
            wait_until(lambda: len(os.listdir(f"{ground.base}/lib/farhand")) <= 1, 60, "the sweep")
        assert picture(ground.outside) == before and all(content(path) == SECRET for path in victims)
    assert caught, "the server was never killed in time"
