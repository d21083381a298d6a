"""`farhand cp`: files and trees from here to there, back, and from there to elsewhere; interrupted, verified, and from hostile servers."""

import base64
import hashlib
import json
import os
import pty
import random
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading

import pytest

from cutting_proxy import CuttingProxy
from fake_server import FakeServer
from farhand_client import BIN, IS_SANITIZED, PATIENCE, Server, merged_env, wait_until

SECONDS = 60 * PATIENCE
MIB = 1 << 20
PEAK_KIB = 8 * 1024
IS_SOAK = os.environ.get("FARHAND_SLOW") == "1"
CUTS = 125 if IS_SOAK else 5  # of each direction
SEED = int(os.environ.get("FARHAND_SEED") or (random.randrange(10 ** 6) if IS_SOAK else 7))
ODD = [b"new\nline", b"esc\x1b[31m", b"\xff\xfe not utf-8", b" blank ", b"-r", b"q\"uote\\", "ümlaut".encode(), b"%41", b"a:b", b"n" * 255]


class Cp:
    """Runs `farhand cp` in the directory `at`."""

    def __init__(self, home, at, *args):
        self.at, self.args = at, args
        self.env = merged_env({"FARHAND_HOME": home, "CODEX_HOME": home, "FARHAND_URL": None, "CODEX_EXEC_SERVER_URL": None,
                               "FARHAND_TOKEN": None, "TERM": "xterm"})

    def argv(self, *args):
        return [BIN, "cp", *self.args, *args]

    def __call__(self, *args, stdin=b""):
        return subprocess.run(self.argv(*args), input=stdin, capture_output=True, timeout=SECONDS, check=False, cwd=self.at, env=self.env)

    def done(self, *args, **kw):
        """What --json says of a copy that succeeds in silence."""
        run = self("--json", *args, **kw)
        assert (run.returncode, run.stderr) == (0, b""), run
        return json.loads(run.stdout)

    def fails(self, *args, code=1, **kw):
        run = self(*args, **kw)
        assert run.returncode == code, run
        return run.stderr

    def start(self, *args, **kw):
        return subprocess.Popen(self.argv(*args), env=self.env, cwd=self.at, **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                                                                                "stderr": subprocess.PIPE, **kw})

    def path(self, name):
        return os.path.join(os.fsencode(self.at), os.fsencode(name))

    def file(self, name, data=b""):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as f:
            f.write(data)
        return self.path(name)

    def names(self, name):
        return sorted(os.fsdecode(n) for n in os.listdir(self.path(name)))

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()


@pytest.fixture(name="place")
def any_place():
    with tempfile.TemporaryDirectory(prefix="fh-cp-") as home:
        os.mkdir(f"{home}/at")
        yield home


@pytest.fixture(name="server", scope="module")
def shared_server():
    with Server() as s:
        yield s


@pytest.fixture(name="cp")
def over_websocket(place, server):
    return Cp(place, f"{place}/at", "--url", server.url)


def seen(root):
    """{name: (kind, mode, time in ms, content or target)} of a tree; times of links are not compared."""
    root, found = os.fsencode(root), {}
    for top, dirs, files in os.walk(root):
        for name in [b"", *dirs, *files] if top == root else [*dirs, *files]:
            path = os.path.join(top, name).rstrip(b"/")
            st = os.lstat(path)
            what = os.readlink(path) if stat.S_ISLNK(st.st_mode) else None
            if stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    what = hashlib.sha256(f.read()).digest()
            when = None if stat.S_ISLNK(st.st_mode) else st.st_mtime_ns // 1_000_000
            found[os.path.relpath(path, root)] = (stat.S_IFMT(st.st_mode), stat.S_IMODE(st.st_mode), when, what)
    return found


def plant(cp, name="src", seed=1, large=(70_000, 600_000)):
    """A tree with everything in it that a copy can keep."""
    rng = random.Random(seed)
    for i, odd in enumerate(ODD):
        cp.file(os.fsencode(name) + b"/odd/" + odd, b"%d" % i)
    cp.file(f"{name}/empty")
    for i, size in enumerate([1, 65535, 65536, 65537, *large]):
        cp.file(f"{name}/sizes/{i}", rng.randbytes(size))
    for i in range(150):
        cp.file(f"{name}/many/{i}", rng.randbytes(rng.randrange(2000)))
    os.makedirs(cp.path(f"{name}/deep/er/and/deeper"))
    os.mkdir(cp.path(f"{name}/none"))
    for link, target in (("to-file", "empty"), ("to-dir", "many"), ("deep/dangling", "nowhere"), ("deep/up", "../.."), ("abs", "/etc")):
        os.symlink(target, cp.path(f"{name}/{link}"))
    os.chmod(cp.path(f"{name}/sizes/0"), 0o400)
    os.chmod(cp.path(f"{name}/sizes/4"), 0o751)
    os.chmod(cp.path(f"{name}/empty"), 0o600)
    os.utime(cp.path(f"{name}/empty"), ns=(0, 981_173_106_789_000_000))
    os.utime(cp.path(f"{name}/sizes/5"), ns=(0, -5_000_000_000))
    os.utime(cp.path(f"{name}/none"), ns=(0, 1_000_000_000))
    os.chmod(cp.path(f"{name}/many"), 0o555)
    os.chmod(cp.path(f"{name}/deep"), 0o700)
    return seen(cp.path(name))


# Trees


def test_a_tree_goes_there_and_back_with_modes_times_and_links(cp):
    want = plant(cp)
    files = sum(1 for kind, *_ in want.values() if kind == stat.S_IFREG)
    done = cp.done("-r", "src", f":{cp.at}/there")
    assert (done["files"], done["links"], done["failed"], done["unchanged"]) == (files, 5, 0, 0)
    assert done["directories"] == sum(1 for kind, *_ in want.values() if kind == stat.S_IFDIR)
    assert seen(cp.path("there")) == want
    assert cp.done("-r", f":{cp.at}/there", "back")["files"] == files
    assert seen(cp.path("back")) == want
    # From there to there, through this machine.
    assert cp.done("-r", "--verify", f":{cp.at}/there", f":{cp.at}/elsewhere")["verified"] == files
    assert seen(cp.path("elsewhere")) == want


def test_what_is_there_is_not_copied_again(cp):
    want = plant(cp)
    cp.done("-r", "src", f":{cp.at}/there")
    for frm, to in (("src", f":{cp.at}/there"), (f":{cp.at}/there", "src"), (f":{cp.at}/src", f":{cp.at}/there")):
        done = cp.done("-rT", "--verify", frm, to)
        assert (done["files"], done["bytes"], done["links"]) == (0, 0, 0) and done["verified"] == done["unchanged"] - 5
    os.chmod(cp.path("there/empty"), 0o666)
    cp.file("there/many/7", b"changed")
    os.unlink(cp.path("there/to-file"))
    assert cp.done("-rT", "src", f":{cp.at}/there")["files"] == 1
    assert seen(cp.path("there")) == want


def test_two_environments_through_this_machine(place):
    with Server() as one, Server() as two:
        with open(f"{place}/environments.toml", "w", encoding="utf-8") as f:
            f.write("".join(f'[[environments]]\nid = "{name}"\nurl = "{s.url}"\n' for name, s in (("one", one), ("two", two))))
        cp = Cp(place, f"{place}/at")
        want = plant(cp)
        cp.done("-r", f"one:{cp.at}/src", f"two:{cp.at}/copy")
        assert seen(cp.path("copy")) == want
        cp.file("x", b"x")
        assert cp.done(f"one:{cp.at}/x", f"two:{cp.at}/src/empty", ".", "--verify")["files"] == 1
        assert b"both on this machine" in cp.fails("x", f"one:{cp.at}/x", ".", code=2)
        assert b"three" in cp.fails("x", "three:x", code=255)


# Operands


def test_where_copies_go(cp):
    cp.file("a", b"A")
    cp.file("d/b", b"B")
    os.mkdir(cp.path("to"))
    there = f":{cp.at}"
    cp.done("a", f"{there}/new")
    cp.done("a", f"{there}/to")
    cp.done("-r", "a", "d", f"{there}/to/")
    assert (cp.read("new"), cp.read("to/a"), cp.read("to/d/b")) == (b"A", b"A", b"B")
    cp.done("-r", "d/", f"{there}/made/")
    cp.done("-r", "d/.", f"{there}/made")
    cp.done("-rT", "d", f"{there}/made")
    assert cp.names("made") == ["b"]
    cp.done("-r", "d", f"{there}/made")
    assert cp.names("made") == ["b", "d"]
    cp.done("-r", f"{there}/made/.", "near")
    assert cp.names("near") == ["b", "d"]
    assert cp.fails("a", "d/b", f"{there}/new") == b"farhand: " + f"{there}/new: Not a directory\n".encode()
    assert b"Not a directory" in cp.fails("a", f"{there}/new/")
    assert b"-r copies it" in cp.fails("d", f"{there}/x")
    assert b"Is a directory" in cp.fails(f"{there}/a", "-T", f"{cp.at}/d")
    assert cp.fails(f"{there}/none", "x") == f"farhand: {there}/none: No such file or directory\n".encode()
    assert cp.fails("none", f"{there}/x") == b"farhand: none: No such file or directory\n"


def test_a_colon_in_a_name(cp):
    cp.file("a:b", b"colon")
    assert cp.done("./a:b", f":{cp.at}/c:d")["files"] == 1
    cp.done(f":{cp.at}/c:d", "./e:f")
    assert cp.read("e:f") == b"colon"
    assert b"x" in cp.fails("./a:b", "x:y", code=255)
    assert b"both on this machine" in cp.fails("./a:b", "./x", code=2)


def test_stdin_and_stdout(cp):
    data = random.Random(2).randbytes(3 * MIB)
    assert cp("-", f":{cp.at}/in", stdin=data).returncode == 0 and cp.read("in") == data
    os.chmod(cp.path("in"), 0o600)
    assert cp("-", f":{cp.at}/in", stdin=b"new").returncode == 0 and cp.read("in") == b"new"
    assert os.stat(cp.path("in")).st_mode & 0o777 == 0o600
    assert cp(f":{cp.at}/in", "-").stdout == b"new"
    assert os.listdir(cp.at) == ["in"]
    assert b"needs the name" in cp.fails("-", f":{cp.at}")
    cp.fails("-", f":{cp.at}/x", "in", code=2)
    cp.fails("--json", f":{cp.at}/in", "-", code=2)


def test_links_at_the_destination_are_replaced_and_operands_are_followed(cp):
    cp.file("secret", b"secret")
    cp.file("small", b"small")
    cp.file("large", bytes(100_000))
    os.symlink("small", cp.path("operand"))
    for to in (f":{cp.at}/", f"{cp.at}/"):
        frm = "" if to[0] == ":" else f":{cp.at}/"
        for name in ("small", "large"):
            os.symlink("secret", cp.path("link"))
            cp.done(f"{frm}{name}", f"{to}link")
            assert not os.path.islink(cp.path("link")) and cp.read("link") == cp.read(name)
            os.unlink(cp.path("link"))
        cp.done(f"{frm}operand", f"{to}followed")
        assert cp.read("followed") == b"small" and not os.path.islink(cp.path("followed"))
        os.unlink(cp.path("followed"))
    assert cp.read("secret") == b"secret"


def test_what_cannot_be_copied_is_told_and_the_rest_is_copied(cp):
    cp.file("src/good", b"1")
    os.mkfifo(cp.path("src/fifo"))
    os.mkdir(cp.path("src/x"))
    cp.file("to/src/x", b"a file in the place of a directory")
    os.makedirs(cp.path("to/src/good"))
    cp.file("src/last", b"3")
    for frm, to in (("src", f":{cp.at}/to"), (f":{cp.at}/src", "to")):
        err = cp.fails("-r", frm, to)
        assert err.count(b"\n") == 3 and b"fifo: this is neither" in err and b"good: Is a directory" in err and b"something else" in err
        assert cp.read("to/src/last") == b"3"
        os.unlink(cp.path("to/src/last"))


@pytest.mark.parametrize("name", ["small", "large"])
def test_a_special_file_is_not_replaced(cp, name):
    cp.file("small", b"small")
    cp.file("large", bytes(100_000))
    os.mkfifo(cp.path("fifo"))
    for args in ((name, f":{cp.at}/fifo"), (f":{cp.at}/{name}", "fifo")):
        assert b"fifo: this is neither file nor link, and is not replaced\n" in cp.fails(*args)
    assert stat.S_ISFIFO(os.stat(cp.path("fifo")).st_mode) and cp.names(".") == ["fifo", "large", "small"]


# Interrupted copies


class Holding:
    """A proxy that passes `limit` bytes to (is_up) or from the server, and then holds what follows until release()."""

    def __init__(self, port, limit, is_up):
        self._limit, self._is_up = limit, is_up
        self._port, self.is_held, self._go = port, threading.Event(), threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"ws://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def release(self):
        self._go.set()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._port))
            for source, target, counts in ((near, far, self._is_up), (far, near, not self._is_up)):
                threading.Thread(target=self._carry, args=(source, target, counts), daemon=True).start()

    def _carry(self, source, target, counts):
        passed = 0
        try:
            while data := source.recv(65536):
                passed += len(data)
                if counts and passed > self._limit and not self._go.is_set():
                    self.is_held.set()
                    self._go.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()
            target.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.release()
        self._listener.close()


def operands(cp, is_up, name="big", to="copy"):
    return (name, f":{cp.at}/{to}") if is_up else (f":{cp.at}/{name}", to)


@pytest.mark.parametrize("is_up", [True, False], ids=["up", "down"])
def test_a_killed_copy_goes_on_where_it_was(cp, server, is_up):
    data = random.Random(3).randbytes(24 * MIB)
    cp.file("big", data)
    with Holding(server.port, 16 * MIB, is_up) as proxy:
        slow = Cp(os.path.dirname(cp.at), cp.at, "--url", proxy.url)
        with slow.start(*operands(cp, is_up)) as proc:
            assert proxy.is_held.wait(SECONDS)
            part = cp.path(".copy.farhand-part")
            wait_until(lambda: os.path.exists(part) and os.stat(part).st_size >= 8 * MIB, 30, "the part")
            proc.send_signal(signal.SIGKILL)
            proc.wait(SECONDS)
    left = os.stat(part).st_size
    assert 8 * MIB <= left < 24 * MIB and not os.path.exists(cp.path("copy"))
    done = cp.done("--verify", *operands(cp, is_up))
    assert left <= done["resumedBytes"] < 24 * MIB and done["bytes"] + done["resumedBytes"] == 24 * MIB and done["verified"] == 1
    assert cp.read("copy") == data and sorted(os.listdir(cp.at)) == ["big", "copy"]


@pytest.mark.parametrize("is_up", [True, False], ids=["up", "down"])
def test_a_part_of_something_else_is_not_continued(cp, is_up):
    data = random.Random(4).randbytes(MIB)
    cp.file("big", data)
    for part in (data[:500_000][:-1] + b"!", b"?" + data[1:600_000], data + b"more", data[:1000] + bytes(5)):
        cp.file(".copy.farhand-part", part)
        assert cp.done(*operands(cp, is_up))["resumedBytes"] == 0
        assert cp.read("copy") == data
        os.unlink(cp.path("copy"))
    cp.file(".copy.farhand-part", data[:700_000])
    assert cp.done(*operands(cp, is_up))["resumedBytes"] == 700_000
    assert cp.read("copy") == data
    os.unlink(cp.path("copy"))
    # A link under the name of the part is not followed.
    cp.file("victim", b"victim")
    os.symlink("victim", cp.path(".copy.farhand-part"))
    cp.done(*operands(cp, is_up))
    assert cp.read("copy") == data and cp.read("victim") == b"victim"
    os.unlink(cp.path("copy"))
    # A part that is a second name of another file is not written to, whether or not it holds the beginning of the source.
    for content in (b"victim", data[:1000]):
        cp.file("victim", content)
        os.link(cp.path("victim"), cp.path(".copy.farhand-part"))
        cp.done(*operands(cp, is_up))
        assert cp.read("copy") == data and cp.read("victim") == content
        os.unlink(cp.path("copy"))


def test_one_copy_at_a_time_writes_a_part(cp, server):
    """Somebody who has the part, as another copy does, keeps it; when he is done, or dies, the next copy goes on."""
    data = os.urandom(1_000_000)
    far = f":{cp.at}/copy"
    cp.file("source", data)
    cp.file("copy", b"old")
    cp.file(".copy.farhand-part", data[:700_000])
    with server.connect() as other:
        other.call("fs/open", {"handleId": "h", "path": f"{cp.at}/.copy.farhand-part", "mode": "resume", "lock": True})
        for args, stdin in ((["source", far], b""), (["-", far], b"new")):
            done = cp(*args, stdin=stdin)
            assert done.returncode != 0 and b"another copy to this file is under way" in done.stderr
        assert cp.read("copy") == b"old" and cp.read(".copy.farhand-part") == data[:700_000]
    done = cp("source", far)
    assert done.returncode == 0 and cp.read("copy") == data, done.stderr
    assert not os.path.exists(cp.path(".copy.farhand-part"))


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
@pytest.mark.parametrize("is_up", [True, False], ids=["up", "down"])
def test_a_part_of_another_user_is_not_continued(cp, is_up):
    """The other user could change the part after it was compared, and would own the copy."""
    data = random.Random(5).randbytes(MIB)
    cp.file("big", data)
    cp.file(".copy.farhand-part", data[:700_000])
    os.chown(cp.path(".copy.farhand-part"), 4711, 4711)
    assert cp.done(*operands(cp, is_up))["resumedBytes"] == 0
    assert cp.read("copy") == data and os.stat(cp.path("copy")).st_uid == 0


def test_a_part_of_a_private_file_is_private_before_it_is_open(cp, server):
    """A process that opens the part before its mode is set could read everything that is written later."""
    cp.file("big", bytes(12 * MIB))
    cp.file("old")
    for name in ("big", "old"):
        os.chmod(cp.path(name), 0o600)
    for args in (["big", f":{cp.at}/copy"], ["-", f":{cp.at}/old"]):
        with Holding(server.port, 3 * MIB, True) as proxy:
            slow = Cp(os.path.dirname(cp.at), cp.at, "--url", proxy.url)
            with open(cp.path("big"), "rb") as stdin, slow.start(*args, stdin=stdin) as proc:
                assert proxy.is_held.wait(SECONDS)
                part = cp.path(f".{os.path.basename(args[1])}.farhand-part")
                wait_until(lambda: os.path.exists(part) and os.stat(part).st_size > 0, 30, "the part")  # pylint: disable=cell-var-from-loop
                assert os.stat(part).st_mode & 0o777 == 0o600
                proxy.release()
                _, err = proc.communicate(timeout=SECONDS)
                assert (proc.returncode, err) == (0, b"")
        assert os.stat(cp.path(args[1].rpartition("/")[2])).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("is_up", [True, False], ids=["up", "down"])
@pytest.mark.parametrize("change", ["grow", "shrink", "touch"])
def test_a_file_that_is_changed_while_it_is_copied_is_told(cp, server, is_up, change):
    cp.file("big", bytes(12 * MIB))
    with Holding(server.port, 3 * MIB, is_up) as proxy:
        slow = Cp(os.path.dirname(cp.at), cp.at, "--url", proxy.url)
        with slow.start(*operands(cp, is_up)) as proc:
            assert proxy.is_held.wait(SECONDS)
            if change == "touch":
                os.utime(cp.path("big"), ns=(0, 1))
            else:
                os.truncate(cp.path("big"), (13 if change == "grow" else 11) * MIB)
            proxy.release()
            _, err = proc.communicate(timeout=SECONDS)
    assert proc.returncode == 1 and (b"changed while it was copied" in err or b"grew while it was copied" in err), err
    assert not os.path.exists(cp.path("copy"))


def test_verify_finds_a_copy_that_differs(cp):
    """The copy looks as if it were right: only its content differs."""
    for size in (10, 100_000):
        cp.file("src/f", bytes(size))
        cp.file("there/f", bytes(size - 1) + b"x")
        for name in ("src/f", "there/f"):
            os.utime(cp.path(name), (5, 5))
        for args in (("src", f":{cp.at}/there"), (f":{cp.at}/src", "there")):
            assert cp.done("-rT", *args)["unchanged"] == 1
            assert b"there/f: the copy differs from its source\n" in cp.fails("-rT", "--verify", *args)


@pytest.mark.parametrize("is_up", [True, False], ids=["up", "down"])
@pytest.mark.parametrize("size", [1, 70_000], ids=["unchanged", "streams"])
def test_verify_needs_few_descriptors(cp, is_up, size):
    """Files that wait to be verified hold their directories open."""
    for i in range(120):
        cp.file(f"src/{i}/f", bytes(size))
    if size == 1:
        cp.done("-r", *operands(cp, is_up, "src", "copy"))
    argv = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", *cp.argv("--json", "-rT", "--verify", *operands(cp, is_up, "src", "copy"))]
    run = subprocess.run(argv, capture_output=True, timeout=SECONDS, check=False, cwd=cp.at, env=cp.env)
    assert run.returncode == 0 and json.loads(run.stdout)["verified"] == 120, run


def test_modes_of_many_files_are_mended(cp):
    """There are more files than a client may ask about at once."""
    for i in range(1300):
        cp.file(f"src/{i}")
    cp.done("-r", "src", f":{cp.at}/copy")
    for i in range(1300):
        os.chmod(cp.path(f"src/{i}"), 0o600)
    assert cp.done("-rT", "src", f":{cp.at}/copy")["unchanged"] == 1300
    assert {os.stat(cp.path(f"copy/{i}")).st_mode & 0o777 for i in range(1300)} == {0o600}


@pytest.mark.parametrize("is_up", [True, False], ids=["up", "down"])
def test_cuts_lose_nothing(place, server, is_up):
    cp = Cp(place, f"{place}/at")
    for i in range(100):  # enough answers to an upload: a first connection is cut only after some thousand bytes from the server
        cp.file(f"src/directories/{i}/file")
    want = plant(cp, large=(70_000, 2 * MIB))
    with CuttingProxy(server.port, seed=SEED, most_bytes=20_000 if is_up else 2_000_000,
                      kinds={"close": 30, "reset": 30, "stall": 10, "pause": 10, "trickle": 10}) as proxy:
        cp.args = ("--url", f"ws://127.0.0.1:{proxy.port}")
        number = 0
        while proxy.counts.total() < CUTS:
            number += 1
            proxy.spares_first = True
            run = cp("-r", "--json", *operands(cp, is_up, "src", f"copy{number}"))
            assert run.returncode == 0, (SEED, number, run.stderr[-2000:])
            assert seen(cp.path(f"copy{number}")) == want, (SEED, number)
            subprocess.run(["rm", "-rf", cp.path(f"copy{number}")], check=True)


# Hostile servers


class Hostile:
    """Answers as a server that has fsBatchV1; `scan`: {path: entries}."""

    def __init__(self, scan, content=b"content", **files):
        self.scan, self.content, self.files = scan, content, files

    async def __call__(self, peer):
        while True:
            m = json.loads(await peer.ws.recv())
            method, params = m.get("method"), m.get("params") or {}
            if "id" not in m:
                continue
            result = getattr(self, method.replace("/", "_"), lambda _: {})(params)
            await peer.send(id=m["id"], result=result)

    def initialize(self, _):
        return {"sessionId": "s", "environmentInfo": {"cwd": "file:///", "capabilities": {"fsBatchV1": True, "fsControlV1": True}}}

    def fs_getMetadata(self, params):
        is_directory = params["path"].removeprefix("file://") in self.scan
        return {"isDirectory": is_directory, "isFile": not is_directory, "isSymlink": False, "size": 7, "modifiedAtMs": 0, "createdAtMs": 0,
                "mode": 0o7777, "uid": 0, "gid": 0, "links": 1}

    def fs_scanDirectory(self, params):
        return {"entries": self.scan.get(params["path"].removeprefix("file://"), []), "truncated": self.files.get("truncated", False)}

    def fs_readFiles(self, params):
        return {"files": [{"dataBase64": base64.b64encode(self.content).decode(), "size": self.files.get("size", len(self.content)),
                           "mode": 0o7777, "modifiedAtMs": 0} for _ in params["names"]]}


def entry(name, kind="file", size=7, **more):
    return {"name": name, "kind": kind, "size": size, "mode": 0o7777, "modifiedAtMs": 0, **more}


def test_names_of_a_hostile_server_lead_nowhere_else(place):
    cp = Cp(place, f"{place}/at")
    names = ["../out", "..", ".", "", "a/b", "/etc/x", "x" * 256, "nul\0nul", f"{place}/out"]
    scan = {"/evil": [*map(entry, names), *[entry(n, "directory") for n in names], *[entry(n, "link", target="/") for n in names], entry("good")]}
    with FakeServer(Hostile(scan)) as s:
        run = cp("-r", "--url", s.url, ":/evil", "to")
    assert run.returncode == 1 and run.stderr.count(b"a name that no file can have") == 3 * len(names), run.stderr
    assert os.listdir(place) == ["at"] and os.listdir(cp.at) == ["to"] and cp.names("to") == ["good"]
    # Nobody becomes somebody else by running what was copied.
    assert os.stat(cp.path("to/good")).st_mode & 0o7777 == 0o777 and os.stat(cp.path("to")).st_mode & 0o6000 == 0


def test_links_that_a_hostile_server_made_are_not_followed(place):
    """The same name is a link to the outside, and then a directory or a file."""
    cp = Cp(place, f"{place}/at")
    os.mkdir(f"{place}/outside")
    cp.file("../outside/f", b"precious")
    inner = [entry("f"), entry("new"), entry("big", size=10 ** 6)]
    for kinds in (["link", "directory"], ["directory", "link"]):
        scan = {"/evil": [entry("d", k, target=f"{place}/outside") for k in kinds] +
                         [entry("f", "link", target=f"{place}/outside/f"), entry("f"), entry("g", "link", target=f"{place}/outside/g"), entry("g")],
                "/evil/d": inner}
        with FakeServer(Hostile(scan)) as s:
            cp("-r", "--url", s.url, ":/evil", "to")
        assert os.listdir(f"{place}/outside") == ["f"] and cp.read("../outside/f") == b"precious"
        subprocess.run(["rm", "-rf", cp.path("to")], check=True)


@pytest.mark.parametrize("entries", [None, {}, "x", [entry("..")] * 2049, [entry(f"f{i}") for i in range(2049)]],
                         ids=["null", "object", "text", "many names of none", "many names"])
def test_a_list_that_is_none_or_longer_than_asked_for_is_told_once(place, entries):
    cp = Cp(place, f"{place}/at")
    with FakeServer(Hostile({"/evil": entries})) as s:
        err = cp.fails("-r", "--url", s.url, ":/evil", "to")
    assert err == b"farhand: :/evil: the server's answer has no list, or a longer one than was asked for\n" and cp.names("to") == []


def test_nothing_is_put_into_a_directory_that_did_not_become_private(place):
    """Nothing is sent before the server has said that nobody else can look."""
    cp = Cp(place, f"{place}/at")
    cp.file("src/f", b"f")
    os.chmod(cp.path("src"), 0o700)
    asked = []

    class Deaf(Hostile):
        async def __call__(self, peer):
            while True:
                m = json.loads(await peer.ws.recv())
                if "id" not in m:
                    continue
                asked.append(m["method"])
                if m["method"] in ("fs/setMetadata", "fs/getMetadata"):
                    await peer.send(id=m["id"], error={"code": -32004, "message": "no"})
                else:
                    await peer.send(id=m["id"], result=getattr(self, m["method"].replace("/", "_"), lambda _: {})(m.get("params") or {}))

    with FakeServer(Deaf({})) as s:
        assert b"/copy: " in cp.fails("-r", "--url", s.url, "src", ":/copy")
    assert "fs/createDirectory" in asked and asked[-1] == "fs/setMetadata" and "fs/writeFiles" not in asked


def test_a_server_that_lies_about_sizes_or_never_ends_is_told(place):
    cp = Cp(place, f"{place}/at")
    with FakeServer(Hostile({"/evil": [entry("f")]}, size=10 ** 15)) as s:
        assert b"changed while it was copied" in cp.fails("-r", "--url", s.url, ":/evil", "a")
    with FakeServer(Hostile({"/evil": [entry("f")]}, truncated=True)) as s:
        assert b"does not come to an end" in cp.fails("-r", "--url", s.url, ":/evil", "b")
    with FakeServer(Hostile({"/evil": None})) as s:
        assert b"has no list" in cp.fails("-r", "--url", s.url, ":/evil", "none")
    deep = {"/evil" + "/d" * n: [entry("d", "directory")] for n in range(300)}
    with FakeServer(Hostile(deep)) as s:
        assert b"too deep" in cp.fails("-r", "--url", s.url, ":/evil", "c")


# Memory, progress, other servers


@pytest.mark.skipif(IS_SANITIZED, reason="sanitizers need memory of their own")
@pytest.mark.parametrize("is_up", [True, False], ids=["up", "down"])
@pytest.mark.parametrize("what", ["large", "many"])
def test_a_copy_needs_little_memory(cp, server, what, is_up):
    if what == "large":
        cp.file("src/big", bytes(48 * MIB))
    else:
        first = cp.file("src/first", b"x" * 1000)
        for i in range(10_000 if IS_SOAK else 4000):
            os.link(first, cp.path(f"src/file-{i:05}"))
    with Holding(server.port, (40 if what == "large" else 10 if IS_SOAK else 4) * MIB, is_up) as proxy:
        slow = Cp(os.path.dirname(cp.at), cp.at, "--url", proxy.url)
        with slow.start("-r", *operands(cp, is_up, "src")) as proc:
            assert proxy.is_held.wait(SECONDS)
            with open(f"/proc/{proc.pid}/status", encoding="latin-1") as f:
                peak = int(next(line for line in f if line.startswith("VmHWM:")).split()[1])
            proxy.release()
            assert proc.wait(SECONDS) == 0
    assert peak < PEAK_KIB
    assert len(os.listdir(cp.path("copy"))) == len(os.listdir(cp.path("src")))


def test_progress_is_for_terminals(cp, server):
    cp.file("big", bytes(12 * MIB))
    parent, child = pty.openpty()
    with Holding(server.port, 3 * MIB, True) as proxy:
        slow = Cp(os.path.dirname(cp.at), cp.at, "--url", proxy.url)
        with slow.start("big", f":{cp.at}/copy", stderr=child) as proc:
            os.close(child)
            shown = b""
            while b"left: big" not in shown:
                assert select.select([parent], [], [], SECONDS)[0], shown
                shown += os.read(parent, 4096)
            proxy.release()
            assert proc.wait(SECONDS) == 0
    os.close(parent)
    assert b"MB/s" in shown and b"%" in shown and b"\n" not in shown
    run = cp("big", f":{cp.at}/again")
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


OLD = """
import json, subprocess, sys, threading
server = subprocess.Popen([sys.argv[1], "serve", "--listen", "stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
NEW = {"fs/rename", "fs/setMetadata", "fs/readLink", "fs/symlink", "fs/scanDirectory", "fs/readFiles", "fs/writeFiles", "fs/digest"}
lock = threading.Lock()
def say(m):
    with lock:
        print(json.dumps(m), flush=True)
def back():
    for line in server.stdout:
        m = json.loads(line)
        info = m.get("result", {}).get("environmentInfo", {})
        if "capabilities" in info:
            info["capabilities"] = {"fileWriteStreaming": True}
        for own in ("mode", "uid", "gid", "links"):
            m.get("result", {}).pop(own, None)
        say(m)
threading.Thread(target=back, daemon=True).start()
for line in sys.stdin.buffer:
    m = json.loads(line)
    if m["method"] in NEW:
        say({"id": m["id"], "error": {"code": -32601, "message": "unknown method"}})
        continue
    server.stdin.write(line)
    server.stdin.flush()
"""


def copies_with_less(cp, to):
    """Contents come through a server that knows nothing of ours, and stderr says what is not kept, once."""
    cp.file("src/d/small", b"small")
    cp.file("src/large", random.Random(5).randbytes(3 * MIB))
    cp.file("src/empty")
    os.symlink("empty", cp.path("src/link"))
    run = cp("-r", "--verify", "--json", "src", f"{to}:{cp.at}/there")
    assert run.returncode == 0 and run.stderr.count(b"cannot keep all") == run.stderr.count(b"\n") == 1, run
    done = json.loads(run.stdout)
    assert (done["files"], done["verified"], done["links"]) == (3, 3, 0)
    run = cp("-r", "--verify", f"{to}:{cp.at}/src", "back")
    assert run.returncode == 0 and run.stderr.count(b"cannot keep all") == run.stderr.count(b"\n") == 1, run
    for copy in ("there", "back"):
        for name in ("d/small", "large", "empty"):
            assert cp.read(f"{copy}/{name}") == cp.read(f"src/{name}")
    assert cp.read("back/link") == b"" and not os.path.islink(cp.path("back/link"))


def test_a_server_without_our_methods(place):
    with open(f"{place}/old.py", "w", encoding="utf-8") as f:
        f.write(OLD)
    with open(f"{place}/environments.toml", "w", encoding="utf-8") as f:
        f.write(f'[[environments]]\nid = "old"\nprogram = "{sys.executable}"\nargs = ["{place}/old.py", "{BIN}"]\n')
    copies_with_less(Cp(place, f"{place}/at"), "old")


@pytest.mark.parametrize("generation", ["142", "166"])
def test_the_reference(place, generation):
    binary = os.environ.get(f"FARHAND_REFERENCE_{generation}")
    if not binary:
        pytest.skip(f"no reference server: FARHAND_REFERENCE_{generation} names none")
    with subprocess.Popen([binary, "exec-server", "--listen", "ws://127.0.0.1:0"], cwd=place, env={**os.environ, "CODEX_HOME": place},
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as proc:
        try:
            copies_with_less(Cp(place, f"{place}/at", "--url", proc.stdout.readline().decode().strip()), "")
        finally:
            proc.kill()
