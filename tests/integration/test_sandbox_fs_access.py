"""What file requests with a sandbox may do: the vectors of access.json, and the methods that the vectors do not name.

Each check has a fresh tree. What the answer says is compared with what happened to the tree: a denied request changed
nothing, an allowed one exactly what it was asked for.
"""

import base64
import contextlib
import os
import re
import stat

import pytest

from farhand_client import Client, wait_until
from sandbox_rig import USERS, Box, at, differences, is_error, rig_of, workspace_write
from test_sandbox_access import CASES, CHANGES, PRIVATE, after_change, look, plant, put, strip

NEW = base64.b64encode(b"new\n").decode()
# fs/METHOD and its members, for the operations of the vectors.
REQUESTS = {
    "read": lambda path: ("readFile", {"path": path}),
    "write": lambda path: ("writeFile", {"path": path, "dataBase64": NEW}),
    "create": lambda path: ("writeFile", {"path": path, "dataBase64": NEW}),
    "list": lambda path: ("readDirectory", {"path": path}),
    "stat": lambda path: ("getMetadata", {"path": path}),
    "mkdir": lambda path: ("createDirectory", {"path": path, "recursive": False}),
    "delete": lambda path: ("remove", {"path": path, "recursive": True, "force": False}),
    "rename": lambda path: ("rename", {"sourcePath": path, "destinationPath": path + "-moved"}),
}
PLAIN_ERROR = re.compile(r"\(os error \d+\)$")
CODES = (-32004, -32600, -32602, -32603)
# Denied as in the vectors, but with another error: the missing target of a `.git` file is protected.
OTHER_ERROR = {"git_pointer_missing_target"}


@pytest.fixture(scope="module", params=USERS)
def rig(request):
    with rig_of(request.param) as r:
        yield r


STAYING = set()


class Check:
    """One check of a case, in a tree of its own; `box` asks under the profile of the case."""

    def __init__(self, rig, name, check):
        self.tree = rig.tree()
        mark = f"vec-{os.getpid()}-{rig.uid}"
        case, check = (put({k: v for k, v in value.items() if k != "checks"}, self.tree, mark)
                       for value in (CASES[name], check))
        plant(self.tree, case["files"])
        self.rig, self.env = rig, case["env"]
        self.op, self.path, self.expected = check["op"], check["path"], check["expect"]
        self.is_inside = self.path.startswith(self.tree.base)
        self.context = {"permissions": case["profile"], "cwd": case["cwd"], "workspaceRoots": case["workspaceRoots"],
                        "windowsSandboxLevel": "disabled"}
        self.before = self.look()
        if self.op == "mkdir" and self.path in self.before and not self.is_inside:
            # A command of another test may have a placeholder in /tmp for a moment: then it is no part of what was there before. What stays
            # was there before the tests, and is waited for only once.
            if self.path not in STAYING:
                STAYING.add(self.path)
                with contextlib.suppress(TimeoutError):
                    wait_until(lambda: not os.path.lexists(self.path), 30)
                    STAYING.remove(self.path)
                    del self.before[self.path]

    def look(self):
        return look(self.tree, self.path)

    @contextlib.contextmanager
    def box(self):
        """The Box of the check. A check with a TMPDIR has a server of its own, because TMPDIR belongs to the server."""
        if not self.env:
            yield Box(self.rig.client, self.context)
            return
        with self.rig.new_server(env=self.env) as server, Client(server.url) as client:
            yield Box(client, self.context)

    def clean_up(self):
        """Removes what an allowed request created outside of the tree."""
        if self.op == "create" and not self.is_inside and self.expected == "allow":
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)


def what_is_wrong_with_the_error(answer, name, check):
    """Compares the error with that of the reference where it is an error of the system; elsewhere any error is right. Where Farhand
    differs from the reference on purpose, errors are not compared."""
    known = check["reference"].get("fs_error")
    is_same = check.get("observed") and "difference" not in CASES[name] and name not in OTHER_ERROR
    if is_same and known is not None and PLAIN_ERROR.search(known["message"]):
        return None if answer == (known["code"], known["message"]) else f"not {known['code']} {known['message']}"
    return None if answer[0] in CODES else "not one of the codes of a denial"


def settled(check, expected):
    """The snapshot, when it is as expected or after a while: a command of another test may have a placeholder in /tmp for a
    moment."""
    now = {}

    def is_settled():
        nonlocal now
        now = strip(check.look(), expected)
        return now == expected

    with contextlib.suppress(TimeoutError):
        wait_until(is_settled, 30)
    return now


def judge(rig, name, vector):
    """Runs one check; returns what is wrong with it, or None."""
    check = Check(rig, name, vector)
    op, path, what = check.op, check.path, f"{vector['op']} {vector['path']} ({vector['expect']})"
    method, params = REQUESTS[op](path)
    with check.box() as box:
        answer = box.ask(method, **params)
    try:
        is_allowed = not is_error(answer)
        if is_allowed != (check.expected == "allow"):
            return f"{what}: {answer}"
        if not is_allowed and (wrong := what_is_wrong_with_the_error(answer, name, vector)):
            return f"{what}: {answer}, {wrong}"
        if is_allowed and op == "read":
            with open(path, "rb") as f:
                if base64.b64decode(answer["dataBase64"]) != f.read():
                    return f"{what}: read something else: {answer}"
        if is_allowed and op == "list" and check.is_inside:
            names = {entry["fileName"] for entry in answer["entries"]}
            if not names <= set(os.listdir(path)):
                return f"{what}: shows what is not there: {names}"
        is_changed = is_allowed and op in CHANGES and (name, vector["path"]) not in PRIVATE
        expected = after_change(op, path, check.tree, check.before) if is_changed else check.before
        now = settled(check, expected)
        return f"after {what}: {differences(expected, now)}" if now != expected else None
    finally:
        check.clean_up()


@pytest.mark.parametrize("name", CASES)
def test_access(rig, name):
    wrong = [text for check in CASES[name]["checks"] if (text := judge(rig, name, check))]
    assert not wrong, "\n".join(wrong)


# The other methods: the verdict of a vector on an operation holds for similar methods too


def read_in_blocks(box, path):
    answer = box.open(path)
    if not is_error(answer):
        answer = box.blocks("readBlock", offset=0, len=4096)
        box.blocks("close")
    return answer


def write_in_blocks(mode):
    def act(box, path):
        answer = box.open(path, mode)
        if not is_error(answer):
            answer = box.blocks("writeBlock", offset=0, chunk=NEW)
            assert not is_error(box.blocks("close"))
        return answer
    return act


def walk(box, path):
    """fs/walk; a walk that returns nothing but an error counts as denied."""
    answer = box.ask("walk", path=path, options={"maxDepth": 3, "maxDirectories": 100, "maxEntries": 100,
                                                 "followDirectorySymlinks": True})
    if not is_error(answer) and answer["errors"] and not answer["entries"]:
        return (-32603, answer["errors"][0]["message"])
    return answer


def change_mode(box, path):
    return box.ask("setMetadata", path=path, mode=0o604)


def ask(method, **params):
    return lambda box, path: box.ask(method, path=path, **params)


def pair(method, source, destination, **params):
    """A request with two paths, in which `@` stands for the path of the check."""
    return lambda box, path: box.ask(method, sourcePath=source.replace("@", path),
                                     destinationPath=destination.replace("@", path), **params)


def copy(box, path):
    """fs/copy from the path; nothing for a link, because a copied link shows nothing of its target."""
    if os.path.islink(path):
        return (-32600, "a link")
    return box.ask("copy", sourcePath=path, destinationPath=path + "-copy", recursive=True)


def with_parents(box, path):
    return box.ask("writeFile", path=path + "/x/y", dataBase64=NEW, createParents=True)


def folders(box, path):
    return box.ask("createDirectory", path=path + "/x/y", recursive=True)


# operation of the vector -> other requests with the same verdict.
SAME = {
    "read": {"open": read_in_blocks, "digest": ask("getMetadata", digest=True), "real path": ask("canonicalize")},
    "write": {"in place": ask("writeFile", dataBase64=NEW, atomic=False), "replace": write_in_blocks("replace"),
              "resume": write_in_blocks("resume")},
    "create": {"in place": ask("writeFile", dataBase64=NEW, atomic=False), "replace": write_in_blocks("replace"),
               "resume": write_in_blocks("resume"),
               "only if absent": ask("writeFile", dataBase64=NEW, ifMatch={"absent": True})},
    "list": {"walk": walk},
    "delete": {"by rename": pair("rename", "@", "@-moved")},
}
# Requests that are denied where the operation is denied, but may fail where it is allowed.
NOT_MORE = {
    "read": {"copy": copy, "watch": ask("watch", watchId="w"),
             "walk": walk, "list": ask("readDirectory")},
    "write": {"mode": change_mode, "copy over": pair("copy", "/etc/passwd", "@", recursive=False)},
    "create": {"link": ask("symlink", target="a.txt"), "folder": ask("createDirectory", recursive=False),
               "with parents": with_parents,
               "folders": folders,
               "copy to": pair("copy", "/etc/passwd", "@", recursive=False)},
    "list": {"copy": copy, "watch": ask("watch", watchId="w", recursive=True)},
    "mkdir": {"link": ask("symlink", target="a.txt"), "file": ask("writeFile", dataBase64=NEW),
              "with parents": with_parents,
              "folders": folders,
              "copy to": pair("copy", "/etc", "@", recursive=True)},
    "delete": {"single": ask("remove", recursive=False, force=True),
               "by force": ask("remove", recursive=True, force=True),
               "without replacing": pair("rename", "@", "@-moved", replace=False)},
    "rename": {"without replacing": pair("rename", "@", "@-moved", replace=False),
               "remove": ask("remove", recursive=True, force=True)},
}
# Requests whose answer is not checked: a masked name may be shown to exist, and a forced removal of a hidden file succeeds.
UNTOLD = {("read", "real path"), ("delete", "single"), ("delete", "by force"), ("rename", "remove")}


def variants(check):
    """(label, request, whether it is allowed: None when the answer cannot be foretold)."""
    op, is_allowed = check["op"], check["expect"] == "allow"
    for label, act in SAME.get(op, {}).items():
        yield label, act, None if not is_allowed and (op, label) in UNTOLD else is_allowed
    if not is_allowed:
        for label, act in NOT_MORE.get(op, {}).items():
            yield label, act, None if (op, label) in UNTOLD else False


def expected_tree(check, label):
    op = "rename" if label == "by rename" else check.op
    after = after_change(op, check.path, check.tree, check.before) if op in CHANGES else check.before
    if label == "resume" and op == "write":
        # The write in mode "resume" is shorter than the old content, whose end stays.
        after = {path: what if what == check.before[path] else what[:-1] + (what[-1] + check.before[path][-1][4:],)
                 for path, what in after.items()}
    return after


def judge_variant(rig, name, vector, label, act, is_allowed):
    check = Check(rig, name, vector)
    what = f"{vector['op']} {vector['path']}, {label}"
    with check.box() as box:
        answer = act(box, check.path)
        if not is_error(answer) and "watch" in label:
            box.client.call("fs/unwatch", {"watchId": "w"})
    try:
        if is_allowed is not None and is_allowed == is_error(answer):
            return f"{what}: {answer}"
        if is_error(answer) and answer[0] not in CODES:
            return f"{what}: {answer}, not one of the codes of a denial"
        is_changed = is_allowed and (name, vector["path"]) not in PRIVATE
        expected = expected_tree(check, label) if is_changed else check.before
        now = settled(check, expected)
        return f"after {what}: {differences(expected, now)}" if now != expected else None
    finally:
        check.clean_up()
        with contextlib.suppress(OSError):
            os.unlink(check.path + "-moved")


def is_for_variants(vector):
    """Only paths in the tree: devices and directories of the machine differ between methods."""
    return vector["path"].startswith("@")


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case["env"]])
def test_other_methods(rig, name):
    wrong = [text for check in CASES[name]["checks"] if is_for_variants(check)
             for label, act, is_allowed in variants(check)
             if (text := judge_variant(rig, name, check, label, act, is_allowed))]
    assert not wrong, "\n".join(wrong)


# Cases that no vector has


@pytest.fixture
def place(rig):
    """A workspace with a folder that may only be read and one that is denied: (tree, box)."""
    tree = rig.tree()
    for path in ("a.txt", "sub/b.txt", "ro/c.txt", "no/d.txt"):
        tree.file(f"{tree.w}/{path}", "data\n")
    tree.file(tree.o + "/o.txt", "data\n")
    profile = workspace_write(at(tree.w + "/ro", "read"), at(tree.w + "/no", "deny"))
    return tree, Box(rig.client, profile, tree.w)


def test_all_methods_work_where_everything_is_allowed(place):
    tree, box = place
    w = tree.w
    assert box.write(w + "/deep/er/n.txt", createParents=True, mode=0o640)["size"] == 4
    assert stat.S_IMODE(os.stat(w + "/deep/er/n.txt").st_mode) == 0o640
    assert box.ask("createDirectory", path=w + "/x/y/z", recursive=True) == {}
    assert box.ask("copy", sourcePath=w + "/sub", destinationPath=w + "/x/copy", recursive=True) == {}
    assert box.ask("copy", sourcePath=tree.o + "/o.txt", destinationPath=w + "/o.txt", recursive=False) == {}
    assert box.ask("rename", sourcePath=w + "/x/copy", destinationPath=w + "/moved") == {}
    assert box.read(w + "/moved/b.txt") == b"data\n"
    assert box.ask("symlink", path=w + "/link", target="a.txt") == {}
    assert box.ask("readLink", path=w + "/link") == {"target": "a.txt"}
    assert box.ask("canonicalize", path=w + "/link") == {"path": "file://" + w + "/a.txt"}
    assert box.ask("setMetadata", path=w + "/a.txt", mode=0o600, modifiedAtMs=1000) == {}
    assert (stat.S_IMODE(os.stat(w + "/a.txt").st_mode), os.stat(w + "/a.txt").st_mtime) == (0o600, 1.0)
    assert box.ask("getMetadata", path=w + "/a.txt", digest=True)["digest"].startswith("sha256:6667b2d1")
    assert box.ask("remove", path=w + "/link", recursive=False, force=False) == {}
    assert box.ask("remove", path=w + "/x", recursive=True, force=False) == {}
    assert write_in_blocks("replace")(box, w + "/blocks") == {}
    assert read_in_blocks(box, w + "/blocks") == {"chunk": NEW, "eof": True}
    assert sorted(os.listdir(w)) == ["a.txt", "blocks", "deep", "moved", "no", "o.txt", "ro", "sub"]
    with open(w + "/o.txt", encoding="utf-8") as f:
        assert f.read() == "data\n"


def test_a_walk_goes_round_what_is_denied(place):
    tree, box = place
    for name in ("top", "walk"):
        answer = box.ask("walk", path=tree.w if name == "top" else tree.base, options={
            "maxDepth": 8, "maxDirectories": 100, "maxEntries": 100, "followDirectorySymlinks": True})
        paths = {entry["path"].removeprefix(f"file://{tree.w}/") for entry in answer["entries"]}
        assert {"a.txt", "sub/b.txt", "ro/c.txt"} <= paths
        assert not any("no/" in path for path in paths)
        assert [error["path"] for error in answer["errors"]] in ([], [f"file://{tree.w}/no"])


def test_a_watch_tells_of_what_may_be_seen_only(place):
    tree, box = place
    assert box.ask("watch", watchId="tree", path=tree.w, recursive=True) == {}
    tree.file(tree.w + "/no/hidden-name", "x")
    tree.file(tree.w + "/sub/seen", "x")
    box.client.wait_for(lambda m: m.get("method") == "fs/changed" and "sub/seen" in str(m), 10)
    told = str([m for m in box.client.notifications if m["method"] == "fs/changed"])
    box.client.call("fs/unwatch", {"watchId": "tree"})
    assert "hidden-name" not in told
    assert is_error(box.ask("watch", watchId="no", path=tree.w + "/no", recursive=False))
    assert is_error(box.ask("watch", watchId="no", path=tree.w + "/no/d.txt", recursive=False))


def test_what_is_missing_is_watched_only_where_one_may_look(place):
    tree, box = place
    answer = box.ask("watchMissing", watchId=1, missing=["file://" + tree.w + "/no/late"], present=None)
    tree.file(tree.w + "/no/late", "x")
    assert is_error(answer) or answer == {"watching": False} or not changed_soon(box, tree)


def changed_soon(box, tree):
    """Whether fs/missingChanged has come. Waits for a later change, of a watch that is made for this purpose."""
    assert box.ask("watch", watchId="fence", path=tree.w + "/sub", recursive=False) == {}
    tree.file(tree.w + "/sub/fence", "x")
    box.client.wait_for(lambda m: m.get("method") == "fs/changed" and "sub/fence" in str(m), 10)
    box.client.call("fs/unwatch", {"watchId": "fence"})
    return any(m["method"] == "fs/missingChanged" for m in box.client.notifications)
