"""A sandbox that allows a request changes nothing about it: the same requests with and without one, compared.

Results and errors as they come over the wire, what became of the tree, the order, and large files.
"""

import json
import os
import re

import pytest

from fs_helpers import MIB, b64, block, noise
from sandbox_rig import USERS, Box, at, is_error, narrow, rig_of, snapshot, workspace_write

WALK = {"maxDepth": 8, "maxDirectories": 100, "maxEntries": 100, "followDirectorySymlinks": True}
LONG = "n" * 256


@pytest.fixture(scope="module", params=USERS)
def rig(request):
    with rig_of(request.param) as r:
        yield r


def plant(tree):
    for path in ("a.txt", "sub/b.txt", "sub/deep/c.txt", "other/x"):
        tree.file(f"{tree.w}/{path}")
    tree.dir(tree.w + "/empty")
    tree.dir(tree.o)
    tree.file(tree.w + "/unreadable", mode=0)
    for name, target in (("link", "a.txt"), ("dir-link", "sub"), ("loop", "loop"), ("dangling", "none"), ("up", "../w/sub")):
        tree.link(f"{tree.w}/{name}", target)
    for name in (b"\xff-name", "ä ö%20".encode()):
        path = os.fsencode(tree.w) + b"/" + name
        with open(path, "wb") as f:
            f.write(b"data\n")
        tree.own(path)
    os.symlink(b"\xfe", os.fsencode(tree.w) + b"/bytes")
    os.mkfifo(tree.w + "/fifo")
    for name in ("bytes", "fifo"):
        tree.own(f"{tree.w}/{name}")


def requests(w, is_root):
    """Requests that read, write and fail in every way; each works on the result of those before it."""
    def one(method, path=None, **params):
        return method, {"path": f"{w}/{path}".rstrip("/"), **params} if path is not None else params

    def two(method, source, destination, **params):
        return method, {"sourcePath": f"{w}/{source}", "destinationPath": f"{w}/{destination}", **params}

    names = ["", "a.txt", "sub", "link", "dir-link", "dir-link/b.txt", "up/deep/c.txt", "loop", "dangling", "none", "none/x",
             "a.txt/x", "fifo", "bytes", LONG, "sub/../a.txt", "sub/./b.txt", "ä ö%20", b"\xff-name"]
    # File modes hold for an fs helper, also for that of root.
    for name in names + ([] if is_root else ["unreadable"]):
        path = os.fsencode(w) + b"/" + name if isinstance(name, bytes) else f"{w}/{name}".rstrip("/")
        for method in ("readFile", "readDirectory", "canonicalize", "readLink"):
            yield method, {"path": path}
        yield "getMetadata", {"path": path}
        yield "getMetadata", {"path": path, "digest": True, "followSymlinks": False}
        yield "readFile", {"path": path, "followSymlinks": False}
        yield "open", {"path": path, "mode": "read", "handleId": "h"}
        yield "walk", {"path": path, "options": WALK}
    yield one("walk", "", options={**WALK, "maxEntries": 3})
    yield one("writeFile", "new", dataBase64=b64(b"one"), mode=0o640)
    yield one("writeFile", "new", dataBase64=b64(b"two"), ifMatch={"absent": True})
    yield one("writeFile", "new", dataBase64=b64(b"two"), ifMatch={"digest": "sha256:" + "0" * 64})
    yield one("writeFile", "new", dataBase64=b64(b"two"), atomic=False)
    for name in ("link", "dangling", "loop", "sub", "none/x", "a.txt/x", LONG, "fifo"):
        yield one("writeFile", name, dataBase64=b64(b"three"))
    yield one("writeFile", "link", dataBase64=b64(b"three"), followSymlinks=False)
    yield one("writeFile", "made/by/us", dataBase64=b64(b"four"), createParents=True)
    for name in ("sub", "a.txt", "made/x/y", "none/x", "link", "d"):
        yield one("createDirectory", name, recursive=False)
        yield one("createDirectory", name, recursive=True)
    yield two("copy", "sub", "copy", recursive=True)
    yield two("copy", "sub", "copy", recursive=False)
    yield two("copy", "sub", "sub/deep/in-itself", recursive=True)
    yield two("copy", "a.txt", "copy/b.txt", recursive=False)
    yield two("copy", "dir-link", "copied-link", recursive=True)
    yield two("copy", "none", "x", recursive=True)
    yield two("copy", "fifo", "x", recursive=False)
    yield two("rename", "copy", "renamed")
    yield two("rename", "renamed", "a.txt")
    yield two("rename", "a.txt", "sub")
    yield two("rename", "new", "a.txt", replace=False)
    yield two("rename", "none", "x")
    yield one("symlink", "made-link", target="made/by")
    yield one("symlink", "a.txt", target="x")
    yield one("readFile", "made-link/us")
    yield one("setMetadata", "a.txt", mode=0o600, modifiedAtMs=5000)
    yield one("setMetadata", "link", mode=0o600, followSymlinks=False)
    yield one("setMetadata", "none", mode=0o600)
    for name in ("sub", "empty", "none", "a.txt/x", "dir-link", "dangling", "made"):
        for recursive in (False, True):
            yield one("remove", name, recursive=recursive, force=False)
    yield one("remove", "none", recursive=True, force=True)


def normal(message, tree):
    """An answer without the times and names that differ between any two trees."""
    text = json.dumps({name: message[name] for name in ("result", "error") if name in message}, sort_keys=True)
    return re.sub(r'"(\w+AtMs)": \d{6,}', r'"\1": 0', text.replace(tree.base, "@"))


def test_answers_are_the_same(rig):
    trees = [rig.tree(), rig.tree()]
    for tree in trees:
        plant(tree)
    plain, boxed = Box(rig.client, None), Box(rig.client, workspace_write(at(trees[1].o, "deny")), trees[1].w)
    differ = []
    for ours, theirs in zip(*(requests(tree.w, rig.uid == 0) for tree in trees)):
        answers = []
        for box, tree, (method, params) in ((plain, trees[0], ours), (boxed, trees[1], theirs)):
            message = box.client.response(box.send(method, **params), 30)
            if method == "open" and "result" in message:
                box.blocks("close")
            answers.append(normal(message, tree))
        if answers[0] != answers[1]:
            differ.append((ours[0], normal({"result": str(ours[1])}, trees[0]), *answers))
    assert not differ, "\n".join(str(item) for item in differ[:20])
    seen = [{path.replace(tree.base, "@"): what for path, what in snapshot(tree.w).items()} for tree in trees]
    assert seen[0] == seen[1]


@pytest.fixture
def place(rig):
    tree = rig.tree()
    tree.file(tree.w + "/a.txt")
    return tree, Box(rig.client, narrow(at(tree.w, "write"), at(tree.w + "/no", "deny")), tree.w)


def test_each_read_sees_the_write_before_it(place):
    tree, box = place
    sent = []
    for n in range(200):
        sent.append((None, box.send("writeFile", path=tree.w + "/f", dataBase64=b64(b"%d" % n))))
        sent.append((b"%d" % n, box.send("readFile", path=tree.w + "/f")))
    for expected, ident in sent:
        answer = box.answer(ident)
        assert not is_error(answer) and (expected is None or answer["dataBase64"] == b64(expected))


def test_a_chain_of_requests_with_and_without_a_sandbox(place):
    """Requests take effect one after another, whether a thread or an fs helper does them."""
    tree, box = place
    plain = Box(box.client, None)
    sent = []
    for n in range(30):
        first, second = (box, plain) if n % 2 else (plain, box)
        sent += [(first, first.send("createDirectory", path=f"{tree.w}/d", recursive=False)),
                 (second, second.send("writeFile", path=f"{tree.w}/d/f", dataBase64=b64(b"%d" % n))),
                 (first, first.send("rename", sourcePath=f"{tree.w}/d", destinationPath=f"{tree.w}/e")),
                 (second, second.send("copy", sourcePath=f"{tree.w}/e", destinationPath=f"{tree.w}/g", recursive=True)),
                 (first, first.send("remove", path=f"{tree.w}/e", recursive=True, force=False)),
                 (second, second.send("remove", path=f"{tree.w}/g", recursive=True, force=False))]
    for one, ident in sent:
        assert not is_error(one.answer(ident)), one.told[-1]
    assert os.listdir(tree.w) == ["a.txt"]


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, MIB, 24 * MIB + 1])
def test_files_pass_whole(place, size):
    tree, box = place
    data = noise(size)
    for atomic in (True, False):
        assert box.write(tree.w + "/f", data, atomic=atomic)["size"] == size
        with open(tree.w + "/f", "rb") as f:
            assert f.read() == data
    assert box.read(tree.w + "/f") == data


def test_blocks_of_a_large_file(place):
    tree, box = place
    data = noise(8 * MIB)
    sent = [box.send("open", handleId="w", path=tree.w + "/f", mode="replace")]
    sent += [box.client.request("fs/writeBlock", {"handleId": "w", "offset": at_, "chunk": b64(data[at_:at_ + MIB])})
             for at_ in range(0, len(data), MIB)]
    sent.append(box.client.request("fs/close", {"handleId": "w"}))
    sent.append(box.send("open", handleId="r", path=tree.w + "/f", mode="read"))
    for ident in sent:
        assert not is_error(box.answer(ident)), box.told[-1]
    parts = [block(box.blocks("readBlock", "r", offset=at_, len=MIB))[0] for at_ in range(0, len(data) + 1, MIB)]
    assert b"".join(parts) == data and box.blocks("close", "r") == {}


def test_a_directory_with_many_names(place):
    tree, box = place
    names = [f"{n:05d}-{'x' * 40}" for n in range(5000)]
    tree.dir(tree.w + "/many")
    for name in names:
        with open(f"{tree.w}/many/{name}", "wb"):
            pass
    assert [entry["fileName"] for entry in box.ask("readDirectory", path=tree.w + "/many")["entries"]] == names
    assert box.ask("remove", path=tree.w + "/many", recursive=True, force=False) == {}
    assert not os.path.exists(tree.w + "/many")
