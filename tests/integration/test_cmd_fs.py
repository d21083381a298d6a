"""`farhand fs`: files on a private server, on a WebSocket, on a unix socket and through a program, as ls, cat and their like do."""

import hashlib
import json
import os
import pty
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.parse

import pytest

from farhand_client import BIN, IS_SANITIZED, PATIENCE, Server, merged_env, wait_until

SECONDS = 30 * PATIENCE
MIB = 1 << 20
HOSTILE = [b"new\nline", b"esc\x1b[31mred", b"\xff\xfe not utf-8", b" blank ", b"-l", b"q\"uote", "ümlaut".encode(), b"%41"]

# With sanitizers the shadow of the memory and what was freed count, too.
PEAK_KIB = 16 * 1024 * (6 if IS_SANITIZED else 1)

class Fs:
    """Runs the verbs in the directory `at`."""

    def __init__(self, args, home, at):
        self.args, self.at = args, at
        self.env = merged_env({"FARHAND_HOME": home, "CODEX_HOME": home, "FARHAND_URL": None, "CODEX_EXEC_SERVER_URL": None,
                               "FARHAND_TOKEN": None, "TERM": "xterm", "NO_COLOR": None, "TZ": "UTC"})

    def argv(self, verb, *args):
        return [BIN, "fs", verb, *self.args, *args]

    def __call__(self, *args, stdin=b"", env=None):
        return subprocess.run(self.argv(*args), input=stdin, capture_output=True, timeout=SECONDS, check=False, cwd=self.at,
                              env={**self.env, **(env or {})})

    def out(self, *args, **kw):
        done = self(*args, **kw)
        assert (done.returncode, done.stderr) == (0, b""), done
        return done.stdout

    def fails(self, *args, **kw):
        done = self(*args, **kw)
        assert done.returncode == 1, done
        return done.stderr

    def start(self, *args, **kw):
        return subprocess.Popen(self.argv(*args), env=self.env, cwd=self.at, **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                                                                                "stderr": subprocess.PIPE, **kw})

    def file(self, name, data=b""):
        path = os.path.join(os.fsencode(self.at), os.fsencode(name))
        with open(path, "wb") as f:
            f.write(data)
        return path

    def read(self, name):
        with open(os.path.join(self.at, name), "rb") as f:
            return f.read()


def write_environment(home, program, *args):
    with open(f"{home}/environments.toml", "w", encoding="utf-8") as f:
        f.write(f'default = "p"\n[[environments]]\nid = "p"\nprogram = "{program}"\nargs = {json.dumps(args)}\n')


@pytest.fixture(name="fs", params=["private", "ws", "unix", "program"])
def any_fs(request):
    with tempfile.TemporaryDirectory(prefix="fh-fs-") as home:
        at = f"{home}/at"
        os.mkdir(at)
        if request.param == "private":
            yield Fs([], home, at)
        elif request.param == "program":
            write_environment(home, BIN, "serve", "--listen", "stdio")
            yield Fs([], home, at)
        else:
            with Server(listen="ws://127.0.0.1:0" if request.param == "ws" else f"unix:{home}/socket", cwd=at) as server:
                yield Fs(["--url", server.url], home, at)


@pytest.fixture(name="here")
def private_fs():
    with tempfile.TemporaryDirectory(prefix="fh-fs-") as home:
        os.mkdir(f"{home}/at")
        yield Fs([], home, f"{home}/at")


# Lists


def test_names_are_listed_one_per_line_and_sorted(fs):
    for name in ("b", "a", ".hidden"):
        fs.file(name)
    assert fs.out("ls") == fs.out("ls", ".") == fs.out("ls", fs.at) == b"a\nb\n"
    assert fs.out("ls", "-a") == b".hidden\na\nb\n"


def test_several_operands_have_files_first_and_headings(fs):
    os.makedirs(f"{fs.at}/d")
    os.makedirs(f"{fs.at}/e")
    fs.file("d/x")
    fs.file("f")
    assert fs.out("ls", "d", "e", "f") == b"f\n\nd:\nx\n\ne:\n"
    done = fs("ls", "none", "d")
    assert (done.returncode, done.stdout, done.stderr) == (1, b"d:\nx\n", b"farhand: none: No such file or directory\n")


def test_a_long_list(fs):
    os.chmod(fs.file("f", b"12345"), 0o640)
    os.utime(f"{fs.at}/f", (0, 86400 * 365))
    os.mkdir(f"{fs.at}/d", 0o755)
    os.symlink("f", f"{fs.at}/l")
    d, f, link = fs.out("ls", "-l").decode().splitlines()
    assert d.startswith("drwxr-xr-x ") and d.endswith(" d")
    assert f.split() == ["-rw-r-----", "1", str(os.getuid()), str(os.getgid()), "5", "1971-01-01", "00:00", "f"]
    assert link.startswith("l") and link.endswith(" l -> f")


def test_hostile_names_are_bytes_for_programs(fs):
    for name in HOSTILE:
        fs.file(name, name)
    assert fs.out("ls", "-0").split(b"\0")[:-1] == sorted(HOSTILE)
    assert fs.out("ls") == b"".join(name + b"\n" for name in sorted(HOSTILE))
    rows = [json.loads(line) for line in fs.out("ls", "--json", "-l").splitlines()]
    paths = [urllib.parse.unquote_to_bytes(row["path"].removeprefix("file://")) for row in rows]
    assert paths == [os.path.join(os.fsencode(fs.at), name) for name in sorted(HOSTILE)]
    assert [row["size"] for row in rows] == [len(name) for name in sorted(HOSTILE)]
    for name in HOSTILE:
        assert fs.out("cat", "--", name) == name
        assert fs.out("get", "--", name, "-") == name
        fs.out("mv", "--", name, b"x" + name)
        fs.out("rm", b"x" + name)
    assert os.listdir(fs.at) == []


def on_terminal(fs, *args):
    parent, child = pty.openpty()
    with fs.start(*args, stdout=child) as proc:
        os.close(child)
        seen = b""
        try:
            while piece := os.read(parent, 65536):
                seen += piece
        except OSError:  # the terminal has no writer any more
            pass
        os.close(parent)
        assert proc.wait(SECONDS) == 0
    return seen


def test_a_terminal_gets_escapes_and_colours(here):
    here.file(b"esc\x1b[31m\n\xff")
    os.mkdir(f"{here.at}/d")
    assert on_terminal(here, "ls") == b"\x1b[1;34md\x1b[0m\r\nesc\\x1b[31m\\x0a\\xff\r\n"
    here.env["NO_COLOR"] = "1"
    for verb in (["ls"], ["ls", "-l"], ["tree"], ["stat", "."]):
        assert b"\x1b" not in on_terminal(here, *verb)


def test_many_files_in_a_long_list(here):
    for i in range(3000):
        here.file(f"{i:05}")
    assert len(here.out("ls", "-l").splitlines()) == 3000


# Metadata


def test_stat(fs):
    os.chmod(fs.file("f", b"abc"), 0o4755)
    os.symlink(b"\xfff", os.fsencode(f"{fs.at}/l"))
    fs.file(b"\xfff")
    text = fs.out("stat", "f").decode()
    assert "Kind: file\n" in text and "Size: 3\n" in text and "Mode: 4755 (-rwsr-xr-x)\n" in text
    row = json.loads(fs.out("stat", "--json", "f"))
    assert row["mode"] == 0o4755 and row["size"] == 3 and row["isFile"] and row["path"] == f"file://{fs.at}/f"
    assert b"Kind: link to a file\n" in fs.out("stat", "l") and b"Target: \xfff\n" in fs.out("stat", "l")
    done = fs("stat", "none", "f")
    assert done.returncode == 1 and b"Path: " in done.stdout and done.stderr == b"farhand: none: No such file or directory\n"


# Content


@pytest.mark.parametrize("size", [0, 1, 262143, 262144, 262145, 3 * MIB + 1])
def test_content_of_every_size(fs, size):
    data = random.Random(size).randbytes(size)
    fs.file("in", data)
    fs.out("put", "in", "there")
    assert fs.read("there") == data
    assert fs.out("cat", "there") == data
    fs.out("get", "there", "here")
    assert fs.read("here") == data
    fs.out("put", "-", "piped", stdin=data)
    assert fs.read("piped") == data
    assert sorted(os.listdir(fs.at)) == ["here", "in", "piped", "there"]


def test_several_files_go_on_after_an_error(fs):
    fs.file("a", b"A")
    os.mkdir(f"{fs.at}/d")
    done = fs("cat", "a", "none", "d", "a")
    assert (done.returncode, done.stdout) == (1, b"AA")
    assert done.stderr == b"farhand: none: No such file or directory\nfarhand: d: Is a directory\n"


@pytest.mark.parametrize("size", [10, 300_000])
def test_what_is_replaced_keeps_its_mode_and_its_names(fs, size):
    data = os.urandom(size)
    fs.file("in", data)
    for verb in ("put", "get"):
        os.chmod(fs.file("kept", b"old"), 0o751)
        fs.out(verb, "in", "kept")
        assert fs.read("kept") == data and os.stat(f"{fs.at}/kept").st_mode & 0o7777 == 0o751
        fs.file("one", b"old")
        os.link(f"{fs.at}/one", f"{fs.at}/two")
        fs.out(verb, "in", "one")
        assert fs.read("two") == data
        os.symlink("one", f"{fs.at}/link")
        fs.file("in2", b"small")
        fs.out(verb, "in2", "link")
        assert os.path.islink(f"{fs.at}/link") and fs.read("two") == b"small"
        for name in ("one", "two", "link"):
            os.unlink(f"{fs.at}/{name}")


@pytest.mark.parametrize("size", [10, 300_000])
def test_preserve(fs, size):
    os.chmod(fs.file("in", b"x" * size), 0o4711)
    os.utime(f"{fs.at}/in", (1, 1_000_000_000))
    os.mkdir(f"{fs.at}/d")
    fs.out("put", "-p", "in", "d")
    fs.out("get", "-p", "in", "d/got")
    for name in ("d/in", "d/got"):
        st = os.stat(f"{fs.at}/{name}")
        assert (st.st_mode & 0o7777, st.st_mtime, st.st_size) == (0o4711, 1_000_000_000, size)
    fs.out("put", "in", "d/plain")
    assert os.stat(f"{fs.at}/d/plain").st_mode & 0o7777 == 0o644


def test_errors_of_content_name_the_file_and_leave_nothing(fs):
    fs.file("in", b"x" * 300_000)
    os.mkdir(f"{fs.at}/d")
    assert fs.fails("put", "none", "there") == b"farhand: none: No such file or directory\n"
    assert fs.fails("put", "d", "there") == b"farhand: d: Is a directory\n"
    assert fs.fails("put", "-", "d") == b"farhand: d: Is a directory\n"
    assert fs.fails("put", "in", "no/dir") == b"farhand: no/dir: No such file or directory\n"
    assert fs.fails("get", "none", "here") == b"farhand: none: No such file or directory\n"
    assert fs.fails("get", "in", "no/dir") == b"farhand: no/dir: No such file or directory\n"
    assert fs.fails("get", "d", "here") == b"farhand: d: Is a directory\n"
    assert sorted(os.listdir(fs.at)) == ["d", "in"] and os.listdir(f"{fs.at}/d") == []


def peak_kib(pid):
    with open(f"/proc/{pid}/status", encoding="latin-1") as f:
        return int(next(line for line in f if line.startswith("VmHWM:")).split()[1])


def test_large_content_in_little_memory(fs):
    size, block = 300 * MIB, random.Random(1).randbytes(MIB)
    digest = hashlib.sha256()
    with fs.start("put", "-", "big", stdin=subprocess.PIPE) as proc:
        for _ in range(size // MIB):
            proc.stdin.write(block)
            digest.update(block)
        assert peak_kib(proc.pid) < PEAK_KIB
        proc.stdin.close()
        assert proc.wait(SECONDS) == 0, proc.stderr.read()
    assert os.stat(f"{fs.at}/big").st_size == size
    came = hashlib.sha256()
    with fs.start("cat", "big") as proc:
        left = size
        while left > 0:
            piece = proc.stdout.read(min(left, MIB))
            assert piece
            if left == size // 2:
                assert peak_kib(proc.pid) < PEAK_KIB
            came.update(piece)
            left -= len(piece)
        assert proc.stdout.read() == b"" and proc.wait(SECONDS) == 0
    assert came.digest() == digest.digest()


def test_a_reader_that_goes_away_ends_it_at_once(fs):
    with open(f"{fs.at}/big", "wb") as f:
        f.truncate(1 << 40)
    with fs.start("cat", "big") as proc:
        assert proc.stdout.read(10) == bytes(10)
        proc.stdout.close()
        assert proc.wait(SECONDS) == -signal.SIGPIPE and proc.stderr.read() == b""


@pytest.mark.parametrize("verb", ["put", "get"])
def test_an_interrupted_copy_leaves_nothing(fs, verb):
    with open(f"{fs.at}/big", "wb") as f:
        f.truncate(1 << 40)
    with fs.start(verb, "big", "copy") as proc:
        wait_until(lambda: any(n.startswith(".farhand-") and os.stat(f"{fs.at}/{n}").st_size > MIB for n in os.listdir(fs.at)), SECONDS)
        proc.send_signal(signal.SIGINT)
        assert proc.wait(SECONDS) == -signal.SIGINT
    wait_until(lambda: os.listdir(fs.at) == ["big"], SECONDS)


# Changes


def test_directories_are_made_moved_and_removed(fs):
    fs.out("mkdir", "a", "b")
    assert fs.fails("mkdir", "a", "c/d", "e") == (b"farhand: a: File exists\n"
                                                  b"farhand: c/d: No such file or directory\n")
    fs.out("mkdir", "-p", "a", "c/d")
    fs.file("f", b"x")
    fs.out("mv", "f", "c/d")
    fs.out("mv", "c", "renamed")
    assert fs.read("renamed/d/f") == b"x"
    assert fs.fails("mv", "none", "x") == b"farhand: none: No such file or directory\n"
    assert fs.fails("rm", "renamed") == b"farhand: renamed: Directory not empty\n"
    assert fs.fails("rm", "none", "renamed/d/f") == b"farhand: none: No such file or directory\n"
    fs.out("rm", "-f", "none")
    fs.out("rm", "-r", "renamed", "a", "b", "e")
    assert os.listdir(fs.at) == []


def test_the_root_and_dots_are_not_removed(here):
    for path in ("/", "//", "/..", ".", "..", "./", "x/.."):
        assert b"refusing" in here.fails("rm", "-rf", path)
    assert os.path.isdir(here.at)


def test_links_are_removed_and_not_followed(fs):
    os.mkdir(f"{fs.at}/d")
    fs.file("d/f")
    os.symlink("d", f"{fs.at}/l")
    fs.out("rm", "-r", "l")
    assert sorted(os.listdir(fs.at)) == ["d"] and os.listdir(f"{fs.at}/d") == ["f"]


@pytest.mark.skipif(os.getuid() != 0, reason="needs a user who may become another")
def test_permissions(tmp_path):
    """What the server's user may not do is told in the words of the system."""
    os.chmod(tmp_path, 0o755)
    for parent in list(tmp_path.parents)[:2]:
        os.chmod(parent, 0o755)
    (tmp_path / "secret").write_bytes(b"x")
    os.chmod(tmp_path / "secret", 0o600)
    fs = Fs([], "/nonexistent", str(tmp_path))
    for args in (["cat", "secret"], ["rm", "secret"], ["mkdir", "d"], ["put", "/etc/passwd", "new"], ["mv", "secret", "x"]):
        done = subprocess.run(fs.argv(*args), capture_output=True, timeout=SECONDS, check=False, cwd=tmp_path, env=fs.env,
                              user=65534, group=65534, extra_groups=[])
        assert done.returncode == 1 and done.stderr.endswith(b": Permission denied\n"), done


# Trees


def test_a_tree(fs):
    for name in ("a/b", "a-", "z", ".h"):
        os.makedirs(f"{fs.at}/{name}")
    for name in ("a/b/1", "a/b/2", "a-/x", "f", ".h/y"):
        fs.file(name)
    assert fs.out("tree").decode() == """.
├── a
│   └── b
│       ├── 1
│       └── 2
├── a-
│   └── x
├── f
└── z

4 directories, 4 files
"""
    assert fs.out("tree", "-L", "1", "a").decode() == "a\n└── b\n\n1 directory, 0 files\n"
    os.symlink("a", f"{fs.at}/link")
    assert fs.out("tree", "link").startswith(b"link\n\xe2\x94\x94")
    rows = [json.loads(line) for line in fs.out("tree", "-a", "--json").splitlines()]
    assert [(row["name"], row["kind"], row["depth"]) for row in rows][:3] == [(".h", "directory", 1), ("y", "file", 2), ("a", "directory", 1)]
    assert rows[1]["path"] == f"file://{fs.at}/.h/y"
    assert fs.fails("tree", "f") == b"farhand: f: Not a directory\n"
    assert fs.fails("tree", "none") == b"farhand: none: No such file or directory\n"


def test_a_tree_that_is_too_large_says_so(here):
    for i in range(10_001):
        os.mkdir(f"{here.at}/{i}")
    assert b"more" in here.fails("tree")


# Watches


def test_changes_are_told_as_they_happen(fs):
    os.mkdir(f"{fs.at}/d")
    with fs.start("watch", "-r", "--json", ".") as proc:
        assert json.loads(proc.stdout.readline()) == {"kind": "watching", "path": f"file://{fs.at}"}
        fs.file(b"d/n\n\xff")
        assert json.loads(proc.stdout.readline()) == {"kind": "created", "path": f"file://{fs.at}/d/n%0A%FF"}
        os.rename(os.fsencode(f"{fs.at}/d/n\n").replace(b"\n", b"\n\xff"), f"{fs.at}/to")
        while (event := json.loads(proc.stdout.readline()))["kind"] == "modified":
            pass
        assert event == {"kind": "renamed", "path": f"file://{fs.at}/to", "fromPath": f"file://{fs.at}/d/n%0A%FF"}
        proc.send_signal(signal.SIGINT)
        assert proc.wait(SECONDS) == -signal.SIGINT


def test_a_watched_path_that_goes_ends_the_watch(fs):
    os.mkdir(f"{fs.at}/d")
    with fs.start("watch", "--json", "d") as proc:
        proc.stdout.readline()
        os.rmdir(f"{fs.at}/d")
        assert json.loads(proc.stdout.readline())["kind"] == "removed"
        assert proc.wait(SECONDS) == 1 and b"gone" in proc.stderr.read()
    assert fs.fails("watch", "none") == b"farhand: none: No such file or directory\n"


# Servers that are far, old, or gone


def test_usage(here):
    for args in ([], ["nothing"], ["cat"], ["mv", "a"], ["put", "a", "b", "c"], ["ls", "--nothing"], ["tree", "-L", "0"]):
        assert subprocess.run([BIN, "fs", *args], capture_output=True, check=False, env=here.env).returncode == 2
    assert b"farhand fs ls" in here.out("ls", "--help")


def test_a_server_that_is_not_there(here):
    here.args = ["--url", f"unix:{here.at}/none"]
    for args in (["ls"], ["cat", "x"], ["put", "/etc/passwd", "x"]):
        assert here(*args).returncode == 255


class Cutter(threading.Thread):
    """Passes connections on, one after the other, and cuts the first ones after so many bytes of both directions. A connection that
    ended before counts as none: a server that has not noticed the cut yet refuses to resume."""

    def __init__(self, port, cuts):
        super().__init__(daemon=True)
        self.target, self.cuts = port, list(cuts)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:  # closed: the test is over
                return
            with client, socket.create_connection(("127.0.0.1", self.target)) as server:
                is_cut = self.carry({client: server, server: client}, self.cuts[0] if self.cuts else None)
                self.cuts = self.cuts[1:] if is_cut else self.cuts

    def carry(self, others, left):
        while left is None or left > 0:
            for source in select.select(list(others), [], [])[0]:
                try:
                    piece = source.recv(65536)
                    others[source].sendall(piece)
                except OSError:
                    return False
                if not piece:
                    return False
                left = None if left is None else left - len(piece)
        return True


@pytest.mark.parametrize("verb", ["put", "get", "cat"])
def test_a_lost_connection_is_resumed(here, verb):
    data = os.urandom(20 * MIB)
    here.file("in", data)
    with Server(cwd=here.at) as server:
        proxy = Cutter(int(server.url.rpartition(":")[2]), [3 * MIB, 9 * MIB])
        proxy.start()
        here.args = ["--url", f"ws://127.0.0.1:{proxy.port}"]
        done = here(verb, "in", *([] if verb == "cat" else ["out"]))
        proxy.listener.close()
        assert done.returncode == 0 and done.stderr.count(b"farhand: resumed") == 2, done.stderr
    assert (done.stdout if verb == "cat" else here.read("out")) == data
    assert sorted(os.listdir(here.at)) == (["in"] if verb == "cat" else ["in", "out"])


def test_a_file_that_changes_while_the_connection_is_lost_is_not_mixed(here):
    here.file("in", bytes(20 * MIB))
    with Server(cwd=here.at) as server:
        proxy = Cutter(int(server.url.rpartition(":")[2]), [3 * MIB])
        carry = proxy.carry

        def carry_and_change(others, left):
            is_cut = carry(others, left)
            here.file("in", b"other")
            return is_cut

        proxy.carry = carry_and_change
        proxy.start()
        here.args = ["--url", f"ws://127.0.0.1:{proxy.port}"]
        done = here("get", "in", "out")
        proxy.listener.close()
        assert done.returncode == 1 and b"changed" in done.stderr, done
    assert os.listdir(here.at) == ["in"]


OLD = """
import json, subprocess, sys, threading
server = subprocess.Popen([sys.argv[1], "serve", "--listen", "stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
NEW = {"fs/open", "fs/rename", "fs/setMetadata", "fs/readLink"}
def back():
    for line in server.stdout:
        m = json.loads(line)
        m.get("result", {}).get("environmentInfo", {}).pop("capabilities", None)
        print(json.dumps(m), flush=True)
threading.Thread(target=back, daemon=True).start()
for line in sys.stdin.buffer:
    m = json.loads(line)
    if m["method"] in NEW:
        print(json.dumps({"id": m["id"], "error": {"code": -32601, "message": "unknown method"}}), flush=True)
        continue
    server.stdin.write(line)
    server.stdin.flush()
"""


def test_a_server_without_blocks(here):
    data = os.urandom(5 * MIB)
    here.file("in", data)
    here.file("../old.py", OLD.encode())
    write_environment(os.path.dirname(here.at), sys.executable, f"{os.path.dirname(here.at)}/old.py", BIN)
    assert here.out("cat", "in") == data
    here.out("put", "in", "there")
    assert here.read("there") == data
    here.out("get", "in", "got")
    assert here.read("got") == data
    assert here.fails("mv", "in", "x") == b"farhand: in: this server cannot do that\n"
