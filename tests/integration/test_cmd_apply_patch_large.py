"""`farhand apply-patch` on large files, with many hunks and with many files: few readings, little memory."""

import contextlib
import functools
import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import pytest

from farhand_client import IS_SANITIZED, Server
from patch_rig import SECONDS, Patcher, add, delete, patch, put_tree, update

IS_SOAK = os.environ.get("FARHAND_SLOW") == "1"
MIB = 1 << 20
SIZE = 1024 * MIB if IS_SOAK else 20 * MIB
# With sanitizers the shadow of the memory and what was freed count, too.
PEAK_KIB = 24 * 1024 * (8 if IS_SANITIZED else 1)
READINGS = 5


class Counter:
    """A door to a server that counts what the server sends."""

    def __init__(self, url):
        self.target = ("127.0.0.1", int(url.rpartition(":")[2]))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"ws://127.0.0.1:{self.listener.getsockname()[1]}"
        self.down = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            server = socket.create_connection(self.target)
            for source, to, counts in ((client, server, False), (server, client, True)):
                threading.Thread(target=self.pump, args=(source, to, counts), daemon=True).start()

    def pump(self, source, to, counts):
        try:
            while piece := source.recv(1 << 18):
                self.down += len(piece) if counts else 0
                to.sendall(piece)
        except OSError:
            pass
        for one in (source, to):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()


@pytest.fixture(scope="module")
def server():
    with Server() as s:
        yield s


@pytest.fixture(name="apply", params=["here", "private", "server"])
def any_patcher(request, server):
    with Patcher("server" if request.param == "server" else "here", server,
                 ["--workspace-write"] if request.param == "private" else []) as patcher:
        yield patcher


def line(i):
    return b"this is the ordinary line number %08d of a large file\n" % i


LINES = SIZE // len(line(0))


@functools.cache
def large_file():
    """A large file that lives as long as the tests, which work on copies of it."""
    file = tempfile.NamedTemporaryFile(prefix="fh-large-")
    for start in range(0, LINES, 10000):
        file.write(b"".join(line(i) for i in range(start, min(start + 10000, LINES))))
    file.flush()
    return file


def make_large(path):
    shutil.copyfile(large_file().name, path)
    os.chmod(path, 0o644)


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def peak_of(apply, text, *options):
    """Applies a patch. Returns the largest memory of the program in KiB, as seen while it ran."""
    peak = 0
    with tempfile.TemporaryFile() as stdin:
        stdin.write(text.encode())
        stdin.seek(0)
        proc = subprocess.Popen([*apply.argv, *options], stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=apply.cwd,
                                env=apply.env)
    with proc:
        while proc.poll() is None:
            with contextlib.suppress(OSError, StopIteration), open(f"/proc/{proc.pid}/status", encoding="latin-1", errors="replace") as f:
                peak = max(peak, next(int(found.split()[1]) for found in f if found.startswith("VmHWM")))
            time.sleep(0.002)
        assert (proc.returncode, proc.stderr.read()) == (0, b"")
    assert peak > 0
    return peak


def replaced(path, numbers):
    """Are exactly these lines replaced?"""
    with open(path, "rb") as f:
        for i, found in enumerate(f):
            wanted = b"new %d\n" % i if i in numbers else line(i)
            if found != wanted:
                return False
    return i == LINES - 1


def update_lines(path, numbers):
    return f"*** Update File: {path}\n" + "".join(f"@@\n-{line(i).decode()}+new {i}\n" for i in numbers)


def test_a_large_file_is_patched_in_little_memory(apply):
    path = apply.path("f")
    make_large(path)
    before = digest(path)
    os.chmod(path, 0o640)
    numbers = {0, LINES // 2, LINES - 1}
    assert peak_of(apply, patch(update_lines("f", sorted(numbers)))) < PEAK_KIB
    assert replaced(path, numbers) and os.stat(path).st_mode & 0o777 == 0o640
    assert os.listdir(apply.cwd) == ["f"]
    apply.works(None, "--undo")
    assert digest(path) == before and os.stat(path).st_mode & 0o777 == 0o640
    assert os.listdir(apply.cwd) == ["f"]


def test_how_often_a_large_file_is_read(server):
    door = Counter(server.url)
    try:
        with Patcher("server", door) as apply:
            make_large(apply.path("f"))
            apply.works(patch(update_lines("f", [5, LINES - 5])))
            once = os.path.getsize(apply.path("f")) * 4 / 3
            assert once < door.down < READINGS * once * 1.05, door.down / once
            print("readings:", door.down / once)
    finally:
        door.close()


def test_how_often_a_large_file_is_read_here():
    """The kernel counts: a shell is told what it and its children have read."""
    with Patcher() as apply:
        make_large(apply.path("f"))
        done = subprocess.run(["sh", "-c", '"$@" >&2 && exec cat /proc/$$/io', "sh", *apply.argv, patch(update_lines("f", [5, LINES - 5]))],
                              cwd=apply.cwd, env=apply.env, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        counted = dict(line.split(": ") for line in done.stdout.splitlines())
        times = int(counted["rchar"]) / os.path.getsize(apply.path("f"))
        assert 1 < times < READINGS * 1.05, times
        print("readings:", times)


def test_a_large_file_is_moved_and_comes_back(apply):
    make_large(apply.path("f"))
    os.chmod(apply.path("f"), 0o755)
    before = digest(apply.path("f"))
    apply.works(patch(f"*** Update File: f\n*** Move to: d/g\n@@\n-{line(7).decode()}+new 7\n"))
    assert os.listdir(apply.cwd) == ["d"] and os.listdir(apply.path("d")) == ["g"]
    assert replaced(apply.path("d/g"), {7}) and os.stat(apply.path("d/g")).st_mode & 0o777 == 0o755
    apply.works(None, "--undo")
    assert os.listdir(apply.cwd) == ["f"] and digest(apply.path("f")) == before and os.stat(apply.path("f")).st_mode & 0o777 == 0o755


def test_a_large_file_is_put_back_when_another_hunk_fails(apply):
    make_large(apply.path("f"))
    before = digest(apply.path("f"))
    name = "n" * 300
    assert "Failed to write file" in apply.fails(patch(update_lines("f", [9]), add(name, "x")))
    assert digest(apply.path("f")) == before and os.listdir(apply.cwd) == ["f"]


def test_two_hunks_of_one_large_file(apply):
    make_large(apply.path("f"))
    apply.works(patch(update_lines("f", [3]), "*** Update File: f\n@@\n new 3\n-" + line(4).decode() + "+new 4\n"))
    assert replaced(apply.path("f"), {3, 4})
    apply.works(None, "--undo")
    assert replaced(apply.path("f"), set())


def test_a_large_file_is_deleted_but_not_kept(apply):
    make_large(apply.path("f"))
    apply.works(patch(delete("f")))
    assert os.listdir(apply.cwd) == []
    assert "was not kept" in apply.fails(None, "--undo")


def test_a_large_file_is_replaced_by_a_small_one(apply):
    make_large(apply.path("f"))
    apply.works(patch(add("f", "x")))
    assert apply.tree() == {"f": "x\n"}


def test_a_large_file_with_two_names():
    with Patcher() as apply:
        make_large(apply.path("f"))
        os.link(apply.path("f"), apply.path("g"))
        if SIZE > 64 * MIB:
            assert "cannot keep its owner and its links" in apply.fails(patch(update_lines("f", [9])))
        else:
            apply.works(patch(update_lines("f", [9])))
            assert replaced(apply.path("g"), {9}) and os.stat(apply.path("f")).st_nlink == 2


def test_a_large_file_keeps_its_owner():
    if os.geteuid() != 0:
        pytest.skip("needs root, for a file of another user")
    with Patcher() as apply:
        path = apply.path("f")
        make_large(path)
        os.chown(path, 12345, 12345)
        if SIZE > 64 * MIB:
            assert "cannot keep its owner and its links" in apply.fails(patch(update_lines("f", [9])))
        else:
            apply.works(patch(update_lines("f", [9])))
        assert os.stat(path).st_uid == 12345 and os.listdir(apply.cwd) == ["f"]


def test_a_line_that_is_larger_than_memory_should_be(apply):
    path = apply.path("f")
    with open(path, "wb") as f:
        for _ in range(SIZE // MIB):
            f.write(b"x" * MIB)
        f.write(b"\nold\n")
    assert peak_of(apply, patch(update("f", "old", "new"))) < PEAK_KIB
    with open(path, "rb") as f:
        f.seek(-5, os.SEEK_END)
        assert f.read() == b"\nnew\n"


def test_a_thousand_hunks_in_one_file(apply):
    path = apply.path("f")
    make_large(path)
    numbers = range(0, LINES, LINES // 1000)
    assert len(numbers) >= 1000
    assert peak_of(apply, patch(update_lines("f", numbers))) < PEAK_KIB
    assert replaced(path, set(numbers))


def test_a_thousand_files_in_one_patch(apply):
    names = [f"d{i % 20}/f{i}" for i in range(1000)]
    put_tree(apply.cwd, {name: f"old {name}\n" for name in names})
    text = patch(*[update(name, f"old {name}", f"new {name}") for name in names], *[add(f"new/{i}/x", str(i)) for i in range(100)])
    done = apply(stdin=text.encode())
    assert (done.returncode, done.stderr) == (0, "")
    assert apply.tree() == {**{name: f"new {name}\n" for name in names}, **{f"new/{i}/x": f"{i}\n" for i in range(100)}}
    apply.works(None, "--undo")
    assert apply.tree() == {name: f"old {name}\n" for name in names}
    bad = patch(*[update(name, f"old {name}", f"new {name}") for name in names], update("d0/f0", "none", "x"))
    done = apply(stdin=bad.encode())
    assert done.returncode == 1 and apply.tree() == {name: f"old {name}\n" for name in names}


def test_a_large_file_that_changes_while_it_is_patched(server):
    """A line is appended after the places were found: nothing may be lost."""
    with Patcher("server", server) as apply:
        path = apply.path("f")
        make_large(path)
        proc = apply.start(patch(update_lines("f", [9])))
        while proc.poll() is None and not any(name.startswith(".farhand-patch-") for name in os.listdir(apply.cwd)):
            pass
        with open(path, "ab") as f:
            f.write(b"appended\n")
        code = proc.wait(SECONDS)
        words = proc.stderr.read()
        proc.stdout.close()
        proc.stderr.close()
        with open(path, "rb") as f:
            f.seek(-9, os.SEEK_END)
            last = f.read()
        assert last == b"appended\n" or code == 0, words
        if code != 0:
            assert b"changed" in words
        assert os.listdir(apply.cwd) == ["f"]


def test_the_memory_of_many_files_is_bounded():
    """All files together are larger than what is kept in memory; the rest is read as streams."""
    with Patcher() as apply:
        for i in range(12):
            with open(apply.path(f"f{i}"), "wb") as f:
                f.write(b"old\n" + b"y" * (7 * MIB) + b"\n")
        assert peak_of(apply, patch(*[update(f"f{i}", "old", "new") for i in range(12)])) < 400 * 1024 * (8 if IS_SANITIZED else 1)
        for i in range(12):
            with open(apply.path(f"f{i}"), "rb") as f:
                assert f.read(4) == b"new\n"


def steps(path, count):
    """A hunk for each step of a line that counts."""
    return [update(path, f"step {i}", f"step {i + 1}") for i in range(count)]


@pytest.mark.skipif(IS_SANITIZED, reason="freed memory is kept")
def test_many_hunks_of_one_file_take_its_memory_once():
    """What a hunk has made is forgotten when the next one has changed it. Only to be shown it is kept, as far as there is room."""
    with Patcher() as apply:
        body = b"y" * (7 * MIB) + b"\n"
        with open(apply.path("f"), "wb") as f:
            f.write(b"step 0\n" + body)
        text = patch(*steps("f", 50))
        assert peak_of(apply, text, "--dry-run") < 400 * 1024
        assert peak_of(apply, text) < 100 * 1024
        with open(apply.path("f"), "rb") as f:
            assert f.read() == b"step 50\n" + body


def test_a_file_that_outgrows_memory_between_two_hunks(apply):
    """What was in memory lies below the edits then, and is needed until the end."""
    body = b"y" * (7 * MIB) + b"\n"
    grown = "".join(f"+{'x' * 1000}\n" for _ in range(2000))
    with open(apply.path("f"), "wb") as f:
        f.write(b"step 0\n" + body)
    hunks = [*steps("f", 2), f"*** Update File: f\n*** Move to: g\n@@\n step 2\n{grown}", update("g", "step 2", "step 3")]
    done = apply(stdin=patch(*hunks).encode())
    assert (done.returncode, done.stderr) == (0, "")
    with open(apply.path("g"), "rb") as f:
        assert f.read() == b"step 3\n" + grown.replace("+", "").encode() + body
    apply.works(None, "--undo")
    with open(apply.path("f"), "rb") as f:
        assert f.read() == b"step 0\n" + body
