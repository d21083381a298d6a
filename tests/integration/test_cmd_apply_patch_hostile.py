"""`farhand apply-patch` against patches, files and records that were made to do harm."""

import asyncio
import base64
import collections
import json
import os
import pty
import resource
import select
import signal
import subprocess
import tempfile
import threading
import time

import pytest
import websockets

from farhand_client import IS_SANITIZED
from patch_rig import SECONDS, Patcher, add, delete, patch, put_tree, socket_server, update

SOMEBODY = 65534


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory(prefix="fh-") as directory, socket_server(directory) as s:
        yield s


@pytest.fixture(name="apply", params=["here", "server"])
def any_patcher(request, server):
    with Patcher(request.param, server) as patcher:
        yield patcher


@pytest.fixture(name="here")
def patcher_here():
    with Patcher() as patcher:
        yield patcher


# ---- set-user-ID and set-group-ID ----


def put_set_id(apply, name, text="a\n", mode=0o6755, owner=SOMEBODY):
    put_tree(apply.cwd, {name: text})
    os.chown(apply.path(name), owner, owner)
    os.chmod(apply.path(name), mode)


def mode_of(apply, name):
    return os.stat(apply.path(name)).st_mode & 0o7777


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a file of another user")
@pytest.mark.parametrize("size", ["small", "large"])
def test_a_new_file_gets_no_set_id_bits(apply, size):
    """A user leaves a set-uid program, and root patches it: what root makes belongs to root and must not have the bit, in no moment."""
    text = "a\n" + ("x" * 99 + "\n") * (90000 if size == "large" else 1)
    put_set_id(apply, "moved", text)
    apply.works(patch(update("moved", "a", "b", to="new")))
    assert mode_of(apply, "new") == 0o755
    put_set_id(apply, "gone")
    apply.works(patch(delete("gone")))
    apply.works(None, "--undo")
    assert mode_of(apply, "gone") == 0o755
    put_set_id(apply, "over", "o\n", mode=0o644)
    put_set_id(apply, "onto", text)
    apply.works(patch(update("onto", "a", "b", to="over")))
    assert mode_of(apply, "over") == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a file of another user")
def test_a_file_that_stays_in_its_place_keeps_its_bits(apply):
    """The owner of the file stays the same, too, so that the bits do no harm."""
    put_set_id(apply, "f")
    apply.works(patch(update("f", "a", "b")))
    assert mode_of(apply, "f") == 0o6755 and os.stat(apply.path("f")).st_uid == SOMEBODY


# ---- paths and lists of great length ----


@pytest.mark.parametrize("length", [4096, 20_000, 1 << 20])
def test_a_path_that_no_system_has_is_refused_at_once(apply, length):
    """The server is not asked about each directory of such a path."""
    path = "a/" * (length // 2) + "f"
    whole = apply.path(path)
    for hunk, words in ((add(path, "x"), f"Failed to write file {whole}\n"), (delete(path), f"Failed to delete file {whole}\n"),
                        (update(path, "a", "b"), f"Failed to read file to update {whole}: Filename too long (os error 36)\n")):
        start = time.monotonic()
        done = apply(stdin=patch(hunk).encode())
        assert (done.returncode, done.stdout, done.stderr) == (1, "", words)
        assert time.monotonic() - start < SECONDS / 6
    assert apply.tree() == {}


def test_many_missing_directories_are_too_many(apply):
    apply.works(patch(add("d/" * 64 + "f", "x")))
    too_deep = "e/" * 65 + "f"
    assert apply.fails(patch(add(too_deep, "x"))) == f"Failed to write file {apply.path(too_deep)}\n"
    assert os.listdir(apply.cwd) == ["d"]


def peak_kib(proc):
    _, status, usage = os.wait4(proc.pid, 0)
    proc.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_maxrss


def test_a_long_list_of_changed_files_takes_memory_once(here):
    """Each file that was changed since is named. The text must not be copied for each."""
    names = [f"{'n' * 200}{i}" for i in range(8000)]
    done = here(stdin=patch(*[add(name, "x") for name in names]).encode())
    assert done.returncode == 0
    for name in names:
        os.unlink(here.path(name))
    with open(here.base + "/err", "wb") as err:
        proc = subprocess.Popen([*here.argv, "--undo"], cwd=here.cwd, env=here.env, stderr=err)
        peak = peak_kib(proc)
    assert proc.returncode == 1
    with open(here.base + "/err", encoding="ascii") as f:
        assert f.read().count("\n") == len(names) + 1
    assert peak < 200 * 1024 * (8 if IS_SANITIZED else 1)


# ---- terminals ----


def on_a_terminal(apply, *words, stdin=None):
    """Returns what the program writes to a terminal."""
    master, slave = pty.openpty()
    proc = subprocess.Popen([*apply.argv, *words], stdin=stdin or subprocess.DEVNULL, stdout=slave, stderr=slave, cwd=apply.cwd, env=apply.env)
    os.close(slave)
    seen = b""
    while select.select([master], [], [], SECONDS)[0]:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    assert proc.wait(SECONDS) in (0, 1)
    os.close(master)
    return seen.replace(b"\r\n", b"\n")


EVIL = "\x1b]0;owned\x07\x1b[2J\u202e\x9b1m"


@pytest.mark.parametrize("text", [add(EVIL, "x"), delete(EVIL), update(EVIL, EVIL, "x"), update("f", EVIL, "x"),
                                  f"*** Update File: f\n@@ {EVIL}\n-x\n", EVIL + "\n"],
                         ids=["success", "delete", "read", "lines", "context", "parser"])
def test_a_patch_cannot_control_the_terminal(apply, text):
    apply.put(f="a\n")
    seen = on_a_terminal(apply, patch(text))
    assert b"owned" in seen and b"\\x1b]0;owned\\x07" in seen
    assert not set(seen) & set(b"\x1b\x07\r") and "\u202e".encode() not in seen and b"\xc2\x9b" not in seen
    # A program that reads the output gets the bytes as they are.
    done = apply(patch(text))
    assert EVIL in done.stdout + done.stderr


def test_names_of_files_cannot_look_like_other_lines(apply):
    """Where links are in the way the real names are told, and another user may have chosen these."""
    real = "x\nfarhand: all is well\x1b[2J"
    put_tree(apply.cwd, {f"{real}/f": "a\n", "d": {"symlink": real}})
    apply.works(patch(update("d/f", "a", "b")))
    with open(apply.path("d/f"), "w", encoding="ascii") as f:
        f.write("mine\n")
    words = apply.fails(None, "--undo")
    assert "\nfarhand: all" not in words and "\x1b" not in words and "x\\x0afarhand: all is well\\x1b[2J/f" in words


# ---- records ----


def limit_files():
    """Limits the files that the program itself writes to 64 bytes; those that a server writes are not limited."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))


def test_a_patch_without_a_record_is_not_mistaken_for_the_one_before(server):
    """The record of a patch cannot be written. Then --undo must not take back an older one."""
    with Patcher("server", server) as apply:
        apply.put(f="a\n", g="a\n")
        apply.works(patch(update("f", "a", "b")))
        done = subprocess.run([*apply.argv, "--json", patch(update("g", "a", "b"))], cwd=apply.cwd, env=apply.env, capture_output=True, text=True,
                              check=False, preexec_fn=limit_files)
        assert done.returncode == 0 and '"canUndo":false' in done.stdout
        assert apply.tree() == {"f": "b\n", "g": "b\n"} and apply.journals() == []
        assert apply.fails(None, "--undo").startswith("Cannot undo: no patch was applied in ")
        assert apply.tree() == {"f": "b\n", "g": "b\n"}


def records(apply):
    return [os.path.join(at, name) for at, _, names in os.walk(apply.state) for name in names if name.startswith("last-")]


def test_records_do_not_grow_without_end(here):
    """A thousand directories keep their last patch; older ones are forgotten. An interrupted patch is found among so many records."""
    here.works(patch(add("n", "x")))
    directory = os.path.dirname(records(here)[0])
    for i in range(6000):
        path = os.path.join(directory, f"last-{i:032x}")
        with open(path, "wb"):
            pass
        os.utime(path, (1000 + i, 1000 + i))
    here.put(f="a\n", g="a\n")
    here.works(patch(update("f", "a", "b"), update("g", "a", "b")))
    kept = records(here)
    assert len(kept) <= 1025
    assert not os.path.exists(os.path.join(directory, f"last-{0:032x}")) and os.path.exists(os.path.join(directory, f"last-{5999:032x}"))
    here.works(None, "--undo")
    assert here.tree() == {"f": "a\n", "g": "a\n", "n": "x\n"}


# ---- servers that lie ----


class Liar:
    """A server whose answers about files are made by a function; it runs in a thread of its own."""

    def __init__(self, answer):
        self.answer, self.ready, self.methods = answer, threading.Event(), collections.Counter()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_until_complete, args=(self.run(),), daemon=True)
        self.thread.start()
        assert self.ready.wait(SECONDS)

    async def run(self):
        self.stop = asyncio.Event()
        async with websockets.serve(self.serve, "127.0.0.1", 0, max_size=None) as server:
            self.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            self.ready.set()
            await self.stop.wait()

    async def serve(self, ws):
        names = {"fsControlV1": True, "fsBatchV1": True}
        async for text in ws:
            request = json.loads(text)
            if "id" not in request:
                continue
            self.methods[request["method"]] += 1
            if request["method"] == "initialize":
                said = {"result": {"sessionId": "s", "environmentInfo": {"cwd": "file:///tmp", "capabilities": names}}}
            else:
                said = self.answer(request["method"], request["params"])
            await ws.send(json.dumps({"id": request["id"], **said}))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join(SECONDS)


def file_of(size):
    return {"isFile": True, "isDirectory": False, "isSymlink": False, "size": size, "modifiedAtMs": 1, "mode": 0o644, "uid": 0, "gid": 0, "links": 1}


def flooding(size):
    """A function that sends more than was asked for in every answer with a content or a path."""
    data = base64.b64encode(b"y" * size).decode()

    def answer(method, params):
        if method == "fs/getMetadata":
            return {"result": file_of(10)}
        if method == "fs/canonicalize":
            return {"result": {"path": "file:///" + "p" * size}}
        if method == "fs/readFiles":
            return {"result": {"files": [{"dataBase64": data} for _ in params["names"]]}}
        return {"result": {"dataBase64": data, "target": "t" * size}}

    return answer


def test_a_server_that_sends_more_than_there_is_room_for():
    """Fifteen files in directories of their own, each with 10 MB: the memory for files is 64 MiB."""
    with Liar(flooding(10_000_000)) as server, Patcher("server", server) as apply:
        text = patch(*[update(f"/d{i}/f", "a", "b") for i in range(15)])
        with open(apply.base + "/err", "wb") as err:
            proc = subprocess.Popen([*apply.argv, text], cwd=apply.cwd, env=apply.env, stdout=subprocess.DEVNULL, stderr=err)
            peak = peak_kib(proc)
        assert proc.returncode == 1 and server.methods["fs/writeFile"] == 0
        assert peak < 200 * 1024 * (8 if IS_SANITIZED else 1), peak


@pytest.mark.parametrize("value", [None, 5, "x", [], {}, {"path": 7, "size": -1, "dataBase64": "!"}, {"files": {}}, {"files": [1, None]},
                                   {"isFile": True, "size": 1 << 63, "links": "many"}])
def test_a_server_whose_answers_make_no_sense(value):
    with Liar(lambda method, params: {"result": value}) as server, Patcher("server", server) as apply:
        words = apply.fails(patch(update("f", "a", "b"), add("g", "x"), delete("h")))
        assert words.startswith("Failed to ")


def test_words_of_a_server_are_one_line():
    evil = {"error": {"code": -32603, "message": "no\nfarhand: all is well\x1b[2J", "data": {"errno": 5, "denied": {
        "operation": "write", "path": "file:///a%0Ab%1B", "rule": "entry\n", "entry": "/x\nfarhand: yes\x1b"}}}}
    for said in (evil, {"error": {"code": -32603, "message": evil["error"]["message"]}}):
        with Liar(lambda method, params, said=said: said) as server, Patcher("server", server) as apply:
            words = apply.fails(patch(update("f", "a", "b")))
            assert words.count("\n") == 1 and "\x1b" not in words and words.startswith("Failed to read file to update ")
