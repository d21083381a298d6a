"""File requests in a sandbox while a process outside of it swaps the files that they work on, in a tight loop.

A directory of the workspace is exchanged with a link that leads out of it, thousands of times a second; so are a file
and `.git`. Whatever a request finds, what lies outside is neither touched nor shown.
"""

import base64
import collections
import contextlib
import itertools
import os
import sys
import time

import pytest

from farhand_client import PATIENCE, Client
from fs_helpers import background
from sandbox_rig import USERS, Box, at, differences, is_error, rig_of, snapshot, workspace_write

ROUNDS = 2000 if PATIENCE <= 1 else 200
ROUNDS_SURE = 1000
# The most time for one method: a slow machine does fewer rounds.
SECONDS = 3 * PATIENCE
# How long a race goes on until both outcomes were seen: on a busy machine the swapper may not run for a while.
SURE_SECONDS = 60 * PATIENCE
# How many requests are sent before the first answer is awaited.
AHEAD = 32
CANARY = "CANARY-content"
NAME = "canary-name"
NEW = base64.b64encode(b"new\n").decode()
WALK = {"maxDepth": 4, "maxDirectories": 100, "maxEntries": 100, "followDirectorySymlinks": True}

SWAPPER = r"""
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(1, signal.SIGKILL, 0, 0, 0)
call, AT_FDCWD, RENAME_EXCHANGE = libc.renameat2, -100, 2
pairs = [tuple(os.fsencode(path) for path in pair.split("=")) for pair in sys.argv[1:]]
for a, b in pairs:
    if call(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), a)
print("ready", flush=True)
while True:
    for a, b in pairs:
        call(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE)
"""


@pytest.fixture(scope="module", params=USERS)
def rig(request):
    with rig_of(request.param) as r:
        yield r


class Arena:
    """`d`, `m/d` and `f` of the workspace are real for a moment and links for the next: `o` may only be read, `s` is
    denied. All that `s` has is a canary; `o` has files of the same names as the workspace."""

    def __init__(self, rig):
        self.tree = tree = rig.tree()
        self.w, self.o, self.s = tree.w, tree.o, tree.base + "/s"
        for top in (self.w + "/d", self.w + "/m/d", self.o, self.o + "/d"):
            tree.file(top + "/f", "inside\n" if top.startswith(self.w) else CANARY)
            tree.file(top + "/sub/g", "inside\n" if top.startswith(self.w) else CANARY)
        for path in ("f", "sub/g", f"{NAME}-1", f"sub/{NAME}-2", "d/f"):
            tree.file(f"{self.s}/{path}", CANARY)
        tree.link(self.s + "/link", NAME)
        tree.link(self.o + "/link", NAME)
        tree.file(self.w + "/file", "inside\n")
        tree.file(self.w + "/.git/config", "inside\n")
        tree.file(self.w + "/plain/config", "inside\n")
        tree.file(self.w + "/ro/dir/config", "inside\n")
        for name, target in (("to-o", self.o), ("to-s", self.s), ("ro/to-s", self.s), ("file-to-s", self.s + "/f"),
                             ("file-to-o", self.o + "/f")):
            tree.link(f"{self.w}/{name}", target)
        self.profile = workspace_write(at(self.s, "deny"), at(self.w + "/ro", "read"))
        self.before = self.outside()

    def outside(self):
        return snapshot(self.o, self.s, inodes=True, times=True)

    @contextlib.contextmanager
    def swapping(self, *pairs):
        """Exchanges the two names of each pair all the time, until the end of the block."""
        argv = [sys.executable, "-c", SWAPPER, *(f"{self.w}/{a}={self.w}/{b}" for a, b in pairs)]
        with background(argv):
            yield

    def protected(self):
        """Contents of `.git` and of what it is swapped with, wherever they are at the moment."""
        found = [snapshot(path, inodes=True) for path in (self.w + "/.git", self.w + "/ro/dir", self.w + "/ro/to-s")]
        return sorted(what for one in found for what in one.values())

    def check(self, box, what):
        """Checks that nothing outside was changed and that no answer shows anything of it."""
        now = self.outside()
        assert now == self.before, f"{what} changed {differences(self.before, now)}"
        text, box.told = box.all_told(), []
        for word in (CANARY, NAME):
            position = text.find(word.encode())
            assert position < 0, f"{what} showed {text[max(0, position - 300):position + 300]!r}"


def rounds_of(rig):
    """How many rounds: fewer for the second user, for which server and kernel run the same code."""
    return ROUNDS if rig.uid == os.geteuid() else ROUNDS // 10


def race(box, rounds, requests, is_sure=False):
    """Sends the requests that requests(n) returns for each round n. Returns how often each outcome came. With `is_sure` it goes on
    until there were both outcomes."""
    counts = collections.Counter()
    waiting = collections.deque()
    begun = time.monotonic()

    def is_over(round_):
        took = time.monotonic() - begun
        is_enough = round_ >= rounds or took > SECONDS
        return is_enough and (not is_sure or len(counts) > 1 or took > SURE_SECONDS)

    def take():
        answer = box.answer(waiting.popleft(), 60)
        counts["error" if is_error(answer) else "ok"] += 1

    for round_ in itertools.count():
        if is_over(round_):
            break
        for method, params in requests(round_):
            waiting.append(box.send(method, **params))
        while len(waiting) > AHEAD:
            take()
    while waiting:
        take()
    return counts


def at_top(d, name):
    """`name` in the workspace that D is in."""
    return f"{d.rpartition('/w/')[0]}/w/{name}"


# What is done below the swapped directory D of the workspace, in round N.
METHODS = {
    "readFile": lambda d, n: [("readFile", {"path": d + "/f"}), ("readFile", {"path": d + "/sub/../sub/g"})],
    "writeFile": lambda d, n: [("writeFile", {"path": d + ("/f" if n % 2 else "/sub/../f"), "dataBase64": NEW})],
    "writeFile in place": lambda d, n: [("writeFile", {"path": d + "/f", "dataBase64": NEW, "atomic": False})],
    "writeFile new": lambda d, n: [("writeFile", {"path": f"{d}/new{n % 50}", "dataBase64": NEW})],
    "writeFile with parents": lambda d, n: [("writeFile", {"path": f"{d}/x{n % 9}/y{n % 7}/z", "dataBase64": NEW,
                                                           "createParents": True})],
    "getMetadata": lambda d, n: [("getMetadata", {"path": d + "/f", "digest": True}),
                                 ("getMetadata", {"path": d + "/sub"})],
    "canonicalize": lambda d, n: [("canonicalize", {"path": d + "/sub/g"})],
    "readDirectory": lambda d, n: [("readDirectory", {"path": d}), ("readDirectory", {"path": d + "/sub"})],
    "walk": lambda d, n: [("walk", {"path": d, "options": WALK})],
    "createDirectory": lambda d, n: [("createDirectory", {"path": f"{d}/a{n % 50}", "recursive": False}),
                                     ("createDirectory", {"path": f"{d}/sub/b{n % 9}/c{n % 7}", "recursive": True})],
    "remove": lambda d, n: [("writeFile", {"path": d + "/sub/g", "dataBase64": NEW, "createParents": True}),
                            ("remove", {"path": d + "/sub/g", "recursive": False, "force": True}),
                            ("remove", {"path": d + "/sub", "recursive": True, "force": True})],
    "copy from": lambda d, n: [("copy", {"sourcePath": d, "destinationPath": at_top(d, f"copy{n % 5}"),
                                         "recursive": True}),
                               ("copy", {"sourcePath": d + "/f", "destinationPath": at_top(d, f"file{n % 5}"),
                                         "recursive": False})],
    "copy to": lambda d, n: [("copy", {"sourcePath": at_top(d, "plain"), "destinationPath": f"{d}/sub",
                                       "recursive": True}),
                             ("copy", {"sourcePath": at_top(d, "file"), "destinationPath": f"{d}/f",
                                       "recursive": False})],
    "rename": lambda d, n: [("writeFile", {"path": at_top(d, f"move{n % 5}"), "dataBase64": NEW}),
                            ("rename", {"sourcePath": at_top(d, f"move{n % 5}"), "destinationPath": d + "/f"}),
                            ("rename", {"sourcePath": d + "/sub/g", "destinationPath": d + "/sub/g2"}),
                            ("rename", {"sourcePath": d + "/sub/g2", "destinationPath": d + "/sub/g"})],
    "symlink": lambda d, n: [("symlink", {"path": f"{d}/l{n % 50}", "target": "f"}),
                             ("remove", {"path": f"{d}/l{n % 50}", "recursive": False, "force": True})],
    "readLink": lambda d, n: [("readLink", {"path": d + "/link"})],
    "setMetadata": lambda d, n: [("setMetadata", {"path": d + "/f", "mode": 0o600 + n % 64, "modifiedAtMs": n}),
                                 ("setMetadata", {"path": d + "/sub", "mode": 0o700 + n % 64})],
}
# Methods that show something: for these the link leads to a denied directory. For the others also to a read-only one.
SHOWS = ("readFile", "getMetadata", "canonicalize", "readDirectory", "walk", "copy from", "readLink")


@pytest.mark.parametrize("method", METHODS)
def test_a_directory_becomes_a_link(rig, method):
    """The link leads to a denied directory, and for methods that show nothing in turn to a read-only one."""
    arena = Arena(rig)
    tops = [arena.w + "/d"] if method in SHOWS else [arena.w + "/d", arena.w + "/m/d"]
    with Client(rig.server.url) as client:
        box = Box(client, arena.profile, arena.w)
        with arena.swapping(("d", "to-s"), ("m/d", "to-o")):
            counts = race(box, rounds_of(rig), lambda n: METHODS[method](tops[n % len(tops)], n),
                          is_sure=method != "readLink" and rounds_of(rig) >= ROUNDS_SURE)
        arena.check(box, f"{method}: {counts}")
        assert not client.bad
    copied(arena)
    # In few rounds every request may find the same state.
    assert len(counts) > 1 or method == "readLink" or rounds_of(rig) < ROUNDS_SURE, f"nothing was swapped: {counts}"


def copied(arena):
    """Checks that no file in the workspace has content from outside."""
    for parent, folders, names in os.walk(arena.w):
        for name in names + folders:
            assert NAME not in name, f"{parent}/{name}"
        for name in names:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                with open(path, encoding="utf-8") as f:
                    assert CANARY not in f.read(), path


# mode of fs/open -> what is swapped, one after the other
PAIRS = {
    "read": [("d", "to-s"), ("file", "file-to-s")],
    "replace": [("d", "to-s"), ("m/d", "to-o"), ("file", "file-to-s"), ("file", "file-to-o")],
    "resume": [("d", "to-s"), ("m/d", "to-o"), ("file", "file-to-s"), ("file", "file-to-o")],
}


@pytest.mark.parametrize("mode", PAIRS)
def test_a_file_in_blocks(rig, mode):
    arena = Arena(rig)
    seen = set()
    with Client(rig.server.url) as client:
        box = Box(client, arena.profile, arena.w)
        for pair in PAIRS[mode]:
            path = f"{arena.w}/{pair[0]}" + ("" if pair[0] == "file" else "/f")
            begun, is_last = time.monotonic(), pair == PAIRS[mode][-1]
            with arena.swapping(pair):
                for round_ in itertools.count(1):
                    seen.add(is_error(open_and_use(box, path, mode)))
                    took = time.monotonic() - begun
                    is_enough = round_ * len(PAIRS[mode]) >= rounds_of(rig) or took > SECONDS / len(PAIRS[mode])
                    if is_enough and (len(seen) > 1 or not is_last or rounds_of(rig) < ROUNDS_SURE or took > SURE_SECONDS):
                        break
            arena.check(box, f"{mode} of {path}")
    assert seen == {True, False} or rounds_of(rig) < ROUNDS_SURE, "nothing was swapped in time"


def open_and_use(box, path, mode):
    """Opens a file and reads or writes a block. Returns the answer of fs/open when that failed, otherwise that of the block."""
    opened = box.open(path, mode)
    if is_error(opened):
        return opened
    block = {"offset": 0, "len": 100} if mode == "read" else {"offset": 0, "chunk": NEW}
    answer = box.blocks("readBlock" if mode == "read" else "writeBlock", **block)
    box.blocks("close")
    return answer


FILE = {
    "readFile": lambda f: ("readFile", {"path": f}),
    "writeFile": lambda f: ("writeFile", {"path": f, "dataBase64": NEW}),
    "writeFile in place": lambda f: ("writeFile", {"path": f, "dataBase64": NEW, "atomic": False}),
    "setMetadata": lambda f: ("setMetadata", {"path": f, "mode": 0o600, "modifiedAtMs": 1000}),
    "getMetadata": lambda f: ("getMetadata", {"path": f, "digest": True}),
    "copy": lambda f: ("copy", {"sourcePath": f, "destinationPath": f + "-copy", "recursive": False}),
    "copy to": lambda f: ("copy", {"sourcePath": at_top(f, "plain/config"), "destinationPath": f, "recursive": False}),
}


@pytest.mark.parametrize("method", FILE)
def test_a_file_becomes_a_link(rig, method):
    arena = Arena(rig)
    links = ["file-to-s"] if method in ("readFile", "getMetadata", "copy") else ["file-to-s", "file-to-o"]
    with Client(rig.server.url) as client:
        box = Box(client, arena.profile, arena.w)
        for link in links:
            with arena.swapping(("file", link)):
                counts = race(box, rounds_of(rig) // len(links), lambda n: [FILE[method](arena.w + "/file")])
            arena.check(box, f"{method}: {counts}")
    copied(arena)


GIT = {
    "writeFile": lambda g, n: [("writeFile", {"path": g + "/config", "dataBase64": NEW})],
    "writeFile in place": lambda g, n: [("writeFile", {"path": g + "/config", "dataBase64": NEW, "atomic": False})],
    "writeFile new": lambda g, n: [("writeFile", {"path": g + "/hooks/new", "dataBase64": NEW, "createParents": True})],
    "createDirectory": lambda g, n: [("createDirectory", {"path": g + "/new/er", "recursive": True})],
    "remove": lambda g, n: [("remove", {"path": g + "/config", "recursive": False, "force": False})],
    "rename": lambda g, n: [("rename", {"sourcePath": g + "/config", "destinationPath": at_top(g, "out")})],
    "rename to": lambda g, n: [("rename", {"sourcePath": at_top(g, "file"), "destinationPath": g + "/config"})],
    "copy to": lambda g, n: [("copy", {"sourcePath": at_top(g, "file"), "destinationPath": g + "/config",
                                       "recursive": False})],
    "symlink": lambda g, n: [("symlink", {"path": g + "/new", "target": "x"})],
    "setMetadata": lambda g, n: [("setMetadata", {"path": g + "/config", "mode": 0o666})],
    "open": lambda g, n: [("open", {"path": g + "/config", "mode": "replace", "handleId": f"h{n}"})],
}


@pytest.mark.parametrize("method", GIT)
def test_git_is_replaced(rig, method):
    """`.git` is exchanged with a directory or a link in a read-only directory: nothing is ever written to any of them."""
    arena = Arena(rig)
    with Client(rig.server.url) as client:
        box = Box(client, arena.profile, arena.w)
        before = arena.protected()
        for other in ("ro/dir", "ro/to-s"):
            with arena.swapping((".git", other)):
                counts = race(box, rounds_of(rig) // 2, lambda n: GIT[method](arena.w + "/.git", n))
            assert "ok" not in counts, counts
            arena.check(box, method)
            assert arena.protected() == before


def test_watches_of_what_is_swapped(rig):
    arena = Arena(rig)
    with Client(rig.server.url) as client:
        box = Box(client, arena.profile, arena.w)
        deadline = time.monotonic() + SECONDS
        with arena.swapping(("d", "to-s")):
            for round_ in range(rounds_of(rig) // 4):
                answer = box.ask("watch", watchId=f"w{round_ % 8}", path=arena.w + "/d", recursive=True)
                if round_ % 20 == 0:
                    with open(f"{arena.s}/{NAME}-late{round_}", "w", encoding="utf-8"):
                        pass
                if not is_error(answer):
                    client.call("fs/unwatch", {"watchId": f"w{round_ % 8}"}, 30)
                if time.monotonic() > deadline:
                    break
        told = str(client.messages)
        assert NAME not in told, told[max(0, told.find(NAME) - 300):][:600]
