"""Errors of file requests that a profile caused say which rule it was (`data.denied`), and errors of the machine do not.

fs/checkAccess, which asks without trying, says the same as the operation does.
"""

import base64
import contextlib
import dataclasses
import os
import random
import subprocess
import types
import typing

import pytest

from farhand_client import RpcError
from fs_helpers import PATH_MEMBERS, needs_root
from sandbox_rig import USERS, Box, at, glob, narrow, read_only, restricted, rig_of, sandbox, special, uri, workspace_write
from test_sandbox_backends import need_landlock
from test_sandbox_bwrap import REAL

BACKENDS = ["namespaces", "bubblewrap", "landlock"]


@contextlib.contextmanager
def rig_with(backend, user, **kw):
    if backend == "bubblewrap" and REAL is None:
        pytest.skip("no bwrap")
    if backend == "landlock":
        need_landlock()
    with rig_of(user, args=("--sandbox-backend", backend), **kw) as r:
        yield r


@pytest.fixture(scope="module", params=[(backend, user) for backend in BACKENDS for user in USERS], ids="-".join)
def rig(request):
    with rig_with(*request.param) as r:
        yield r


def plant(tree):
    """The files of each test: what is denied, protected and outside exists once, and is missing once."""
    for path in (tree.w, tree.o, f"{tree.w}/d", f"{tree.w}/.git", f"{tree.w}/empty"):
        tree.dir(path)
    for path in ("w/f", "w/d/f", "w/secret/f", "w/a.env", "w/.git/f", "o/f", "w/deep/secret/f"):
        tree.file(f"{tree.base}/{path}")
    tree.link(f"{tree.w}/out", f"{tree.o}/f")
    tree.link(f"{tree.w}/gone", f"{tree.o}/none")
    return tree


@pytest.fixture
def tree(rig):
    return plant(rig.tree())


# What is refused


@dataclasses.dataclass
class Case:
    """A profile, two paths that it refuses, one of which exists, and what is told of that."""
    profile: typing.Callable
    existing: str
    missing: str
    rule: str
    entry: str = None  # below the tree
    reads: bool = False  # reading is refused, too


CASES = {
    "read-only": Case(lambda t: read_only(), "w/f", "w/new", "readOnly"),
    "outside": Case(lambda t: workspace_write(), "o/f", "o/new", "outside"),
    "no-entry": Case(lambda t: narrow(at(t.w, "write")), "o/f", "o/new", "noEntry", reads=True),
    "denied": Case(lambda t: workspace_write(at(f"{t.w}/secret", "deny")), "w/secret/f", "w/secret/new", "entry", "w/secret", reads=True),
    "denied-itself": Case(lambda t: workspace_write(at(f"{t.w}/d/f", "deny"), at(f"{t.w}/d/new", "deny")), "w/d/f", "w/d/new", "entry",
                          ..., reads=True),
    "readable": Case(lambda t: workspace_write(at(f"{t.w}/d", "read")), "w/d/f", "w/d/new", "entry", "w/d"),
    "pattern": Case(lambda t: workspace_write(glob(f"{t.w}/**/*.env")), "w/a.env", "w/b.env", "pattern", "w/**/*.env", reads=True),
    "protected": Case(lambda t: workspace_write(), "w/.git/f", "w/.git/new", "protected", "w/.git"),
}
MISSING_NAME = Case(lambda t: workspace_write(), None, "w/.aws/new", "protected", "w/.aws")

DATA = base64.b64encode(b"new\n").decode()
WRITE = {
    "writeFile": lambda t, p: {"path": p, "dataBase64": DATA},
    "open": lambda t, p: {"handleId": "h", "path": p, "mode": "replace"},
    "writeFiles": lambda t, p: {"path": os.path.dirname(p), "files": [{"name": os.path.basename(p), "dataBase64": DATA}]},
    "copy": lambda t, p: {"sourcePath": f"{t.w}/f", "destinationPath": p, "recursive": False},
    "rename": lambda t, p: {"sourcePath": f"{t.w}/f", "destinationPath": p},
}
MAKE = {
    "createDirectory": lambda t, p: {"path": p, "recursive": False},
    "symlink": lambda t, p: {"path": p, "target": "f"},
}
CHANGE = {
    "remove": lambda t, p: {"path": p, "force": False},
    "setMetadata": lambda t, p: {"path": p, "mode": 0o600},
    "rename": lambda t, p: {"sourcePath": p, "destinationPath": f"{t.w}/empty/x"},
}
READ = {
    "readFile": lambda t, p: {"path": p},
    "getMetadata": lambda t, p: {"path": p},
    "canonicalize": lambda t, p: {"path": p},
    "open": lambda t, p: {"handleId": "h", "path": p, "mode": "read"},
    "readFiles": lambda t, p: {"path": os.path.dirname(p), "names": [os.path.basename(p)]},
    "digest": lambda t, p: {"path": p},
    "copy": lambda t, p: {"sourcePath": p, "destinationPath": f"{t.w}/empty/x", "recursive": False},
}


def ask(client, method, params, box=None):
    """(the result or None, the error as a dict or None); a file of a list that failed is an error, too."""
    params = {name: uri(value) if name in PATH_MEMBERS else value for name, value in params.items()}
    try:
        result = client.call(f"fs/{method}", {**params, **({"sandbox": box} if box else {})}, 30)
    except RpcError as error:
        return None, {"code": error.code, "message": error.message, **(error.data or {})}
    errors = [one["error"] for one in result.get("files", []) if "error" in one]
    return (None, errors[0]) if errors else (result, None)


def refusal(client, method, params, box):
    result, error = ask(client, method, params, box)
    assert error, f"{method} {params} was not refused: {result}"
    return error


def told(tree, case, path, operation):
    entry = path if case.entry is ... else case.entry and f"{tree.base}/{case.entry}"
    return {"operation": operation, "path": uri(path), "rule": case.rule, **({"entry": entry} if entry else {})}


def refuse(rig, tree, case, methods, path, operation):
    """Every one of the methods is refused for the path, and says so."""
    box = sandbox(case.profile(tree), tree.w)
    for method, params in methods.items():
        # Under a profile that writes nothing, and where what is renamed is denied, the source of a rename is refused first.
        if method == "rename" and case.rule == "readOnly" and methods is WRITE:
            continue
        error = refusal(rig.client, method, params(tree, path), box)
        # A list of files needs its directory first.
        is_directory = "Files" in method and "code" in error
        assert error.get("denied") == told(tree, case, os.path.dirname(path) if is_directory else path, operation), (method, error)


@pytest.mark.parametrize("name", CASES)
def test_a_refusal_names_its_rule(rig, tree, name):
    case = CASES[name]
    existing, missing = f"{tree.base}/{case.existing}", f"{tree.base}/{case.missing}"
    for path in (existing, missing):
        refuse(rig, tree, case, WRITE, path, "write")
    refuse(rig, tree, case, MAKE, missing, "write")
    refuse(rig, tree, case, CHANGE, existing, "write")
    if case.reads:
        for path in (existing, missing):
            refuse(rig, tree, case, READ, path, "read")
    else:
        box = sandbox(case.profile(tree), tree.w)
        assert ask(rig.client, "readFile", {"path": existing}, box)[0]
        error = refusal(rig.client, "readFile", {"path": missing}, box)
        assert error["errnoName"] == "ENOENT" and "denied" not in error


def test_a_protected_name_that_is_missing_names_its_rule(rig, tree):
    case, box = MISSING_NAME, sandbox(workspace_write(), tree.w)
    path = f"{tree.base}/{case.missing}"
    for method in ("writeFile", "open", "copy", "rename"):
        error = refusal(rig.client, method, WRITE[method](tree, path), box)
        assert error["denied"] == told(tree, case, path, "write"), (method, error)
    name = os.path.dirname(path)
    for method, params in {**MAKE, "writeFile": WRITE["writeFile"]}.items():
        error = refusal(rig.client, method, params(tree, name), box)
        assert error["denied"] == told(tree, case, name, "write"), (method, error)
    error = refusal(rig.client, "readFile", {"path": path}, box)
    assert error["errnoName"] == "ENOENT" and "denied" not in error


def test_a_link_is_told_as_where_it_leads(rig, tree):
    link, target = f"{tree.w}/out", f"{tree.o}/f"
    box = sandbox(workspace_write(), tree.w)
    for method in ("writeFile", "open", "copy"):
        error = refusal(rig.client, method, WRITE[method](tree, link), box)
        assert error["denied"] == {"operation": "write", "path": uri(target), "rule": "outside"}, (method, error)
    hidden = sandbox(narrow(at(tree.w, "write")), tree.w)
    for method in ("readFile", "writeFile"):
        error = refusal(rig.client, method, {**READ, **WRITE}[method](tree, link), hidden)
        assert (error["denied"]["path"], error["denied"]["rule"]) == (uri(target), "noEntry"), (method, error)
    # The link to nothing is followed to where the file would be made.
    error = refusal(rig.client, "writeFile", WRITE["writeFile"](tree, f"{tree.w}/gone"), box)
    assert error["denied"]["path"] == uri(f"{tree.o}/none")
    # The link itself is in the workspace.
    assert ask(rig.client, "remove", {"path": link, "force": False}, box)[0] == {}


def test_what_must_stay_names_what_is_below_it(rig, tree):
    box = sandbox(workspace_write(at(f"{tree.w}/deep/secret", "deny")), tree.w)
    entry = {"rule": "entry", "entry": f"{tree.w}/deep/secret"}
    for method, params in (("remove", {"path": f"{tree.w}/deep"}),
                           ("rename", {"sourcePath": f"{tree.w}/deep", "destinationPath": f"{tree.w}/x"}),
                           ("copy", {"sourcePath": f"{tree.w}/deep", "destinationPath": f"{tree.w}/x", "recursive": True})):
        denied = refusal(rig.client, method, params, box)["denied"]
        assert {key: denied[key] for key in entry} == entry, (method, denied)
        assert denied["operation"] == ("read" if method == "copy" else "write")


def test_a_walk_and_a_watch_tell_rules(rig, tree):
    box = sandbox(workspace_write(at(f"{tree.w}/secret", "deny")), tree.w)
    told_of = {"operation": "read", "path": uri(f"{tree.w}/secret"), "rule": "entry", "entry": f"{tree.w}/secret"}
    tree.dir(f"{tree.w}/unreadable", 0o000)
    walked, _ = ask(rig.client, "walk", {"path": tree.w, "options": {"maxDepth": 4, "maxDirectories": 99, "maxEntries": 99,
                                                                      "followDirectorySymlinks": False}}, box)
    errors = {error["path"]: error.get("denied") for error in walked["errors"]}
    assert errors == {uri(f"{tree.w}/secret"): told_of, uri(f"{tree.w}/unreadable"): None}
    assert refusal(rig.client, "watch", {"watchId": "w", "path": f"{tree.w}/secret"}, box)["denied"] == told_of
    assert refusal(rig.client, "readDirectory", {"path": f"{tree.w}/secret"}, box)["denied"] == told_of


def test_what_belongs_to_the_sandbox_says_so(rig, tree):
    box = sandbox(workspace_write(), tree.w)
    for path in ("/proc/self/environ", f"/proc/{rig.server.pid}/environ", "/dev/mem", "/dev/none-of-the-sandbox"):
        error = refusal(rig.client, "readFile", {"path": path}, box)
        assert error.get("denied", {}).get("rule") == "own", (path, error)


def test_the_rule_reveals_nothing_of_what_is_hidden(rig, tree):
    """What exists behind a denied directory and what does not get the same answers, to the byte; also below a name."""
    tree.dir(f"{tree.w}/secret/dir")
    tree.link(f"{tree.w}/secret/link", "f")
    tree.dir(f"{tree.o}/dir")
    tree.link(f"{tree.o}/link", "f")
    tree.file(f"{tree.base}/top")
    for base, profile in ((f"{tree.w}/secret", workspace_write(at(f"{tree.w}/secret", "deny"))),
                          (f"{tree.w}/secret", workspace_write(glob(f"{tree.w}/sec*"))),
                          (tree.o, narrow(at(tree.w, "write"))), (tree.base, narrow(at(f"{tree.w}/empty", "write")))):
        box = sandbox(profile, f"{tree.w}/empty")
        names = ["f", "dir", "link"] if base != tree.base else ["top", "o"]
        for methods in (READ, WRITE, MAKE, CHANGE):
            for method, params in methods.items():
                for below in ("", "/x", "/x/y"):
                    # Nothing else is missing or refused: the other path of a copy or rename is in the workspace.
                    here = types.SimpleNamespace(w=f"{tree.w}/empty")
                    tree.dir(f"{here.w}/empty")
                    tree.file(f"{here.w}/f")

                    def answer(name):
                        result, error = ask(rig.client, method, params(here, f"{base}/{name}{below}"), box)
                        assert error and "denied" in error, (method, f"{base}/{name}{below}", result, error)
                        return str(error).replace(f"{base}/{name}", "NAME")

                    missing = answer("missing")
                    for name in names:
                        assert answer(name) == missing, (method, f"{base}/{name}{below}")


# What is not refused by a profile


def test_errors_of_the_machine_name_no_rule(rig, tree):
    tree.file(f"{tree.w}/closed", mode=0o000)
    tree.dir(f"{tree.w}/locked", 0o555)
    tree.dir(f"{tree.w}/blind", 0o000)
    # The pattern does not search the workspace: what cannot be searched would be denied.
    box = sandbox(workspace_write(at(f"{tree.w}/secret", "deny"), glob(f"{tree.w}/d/**/*.env")), tree.w)
    for method, params, name in (
            ("readFile", {"path": f"{tree.w}/closed"}, "EACCES"), ("writeFile", {"path": f"{tree.w}/closed", "dataBase64": ""}, "EACCES"),
            ("writeFile", {"path": f"{tree.w}/locked/x", "dataBase64": ""}, "EACCES"),
            ("readFile", {"path": f"{tree.w}/blind/x"}, "EACCES"), ("remove", {"path": f"{tree.w}/none", "force": False}, "ENOENT"),
            ("readFile", {"path": f"{tree.w}/none/x"}, "ENOENT"), ("writeFile", {"path": f"{tree.w}/none/x", "dataBase64": ""}, "ENOENT"),
            ("readFile", {"path": f"{tree.w}/f/x"}, "ENOTDIR"), ("writeFile", {"path": f"{tree.w}/d", "dataBase64": ""}, "EISDIR"),
            ("createDirectory", {"path": f"{tree.w}/d", "recursive": False}, "EEXIST"),
            ("createDirectory", {"path": f"{tree.w}/locked/x"}, "EACCES"),
            ("rename", {"sourcePath": f"{tree.w}/f", "destinationPath": f"{tree.w}/locked/f"}, "EACCES")):
        error = refusal(rig.client, method, params, box)
        assert error["errnoName"] == name and "denied" not in error, (method, params, error)
    answers = check(rig.client, box, [(f"{tree.w}/closed", "read"), (f"{tree.w}/closed", "write"), (f"{tree.w}/locked/x", "write"),
                                      (f"{tree.w}/blind/x", "read"), (f"{tree.w}/none", "remove")])
    assert [answer["errnoName"] for answer in answers] == ["EACCES", "EACCES", "EACCES", "EACCES", "ENOENT"]
    assert all("denied" not in answer for answer in answers)


def test_one_failure_is_not_told_as_another(rig, tree):
    """A file of a list that the profile refuses, beside one that the machine refuses with the same error."""
    tree.file(f"{tree.w}/closed", mode=0o000)
    box = Box(rig.client, workspace_write(glob(f"{tree.w}/**/*.env")), tree.w)
    files = box.ask("readFiles", path=tree.w, names=["a.env", "closed", "b.env", "none"])["files"]
    assert ["denied" in one["error"] for one in files] == [True, False, True, False]
    assert [one["error"]["errno"] for one in files] == [13, 13, 13, 2]


@needs_root
@pytest.mark.parametrize("backend", BACKENDS)
def test_mounts_of_the_machine_name_no_rule(backend):
    with rig_with(backend, "root", mount_namespace=True) as rig:
        tree = plant(rig.tree())
        enter = ["nsenter", "-t", str(rig.server.pid), "-m"]
        for name, options in (("w/d", "ro"), ("w/empty", "rw")):
            subprocess.run([*enter, "mount", "-t", "tmpfs", "-o", options, "none", f"{tree.base}/{name}"], check=True)
        try:
            box = sandbox(workspace_write(), tree.w)
            for method, params, name in (("writeFile", {"path": f"{tree.w}/d/x", "dataBase64": ""}, "EROFS"),
                                         ("createDirectory", {"path": f"{tree.w}/d/x", "recursive": False}, "EROFS"),
                                         ("remove", {"path": f"{tree.w}/empty"}, "EBUSY")):
                for sent in (box, None):
                    error = refusal(rig.client, method, params, sent)
                    assert error["errnoName"] == name and "denied" not in error, (method, error)
            for sent in (box, None):
                answers = check(rig.client, sent, [(f"{tree.w}/d/x", "write"), (f"{tree.w}/empty", "remove")])
                assert [(one["errnoName"], "denied" in one) for one in answers] == [("EROFS", False), ("EBUSY", False)]
        finally:
            for name in ("w/d", "w/empty"):
                subprocess.run([*enter, "umount", f"{tree.base}/{name}"], check=True)


# fs/checkAccess


def check(client, box, wishes):
    params = {"paths": [{"path": uri(path), "access": access} for path, access in wishes]}
    return client.call("fs/checkAccess", {**params, **({"sandbox": box} if box else {})}, 30)["results"]


@pytest.mark.parametrize("name", CASES)
def test_asking_tells_the_same_rule(rig, tree, name):
    case = CASES[name]
    box = sandbox(case.profile(tree), tree.w)
    for path in (f"{tree.base}/{case.existing}", f"{tree.base}/{case.missing}"):
        read, write, remove = check(rig.client, box, [(path, access) for access in ("read", "write", "remove")])
        # Where nothing has an entry, the directory of the file would have to be made first.
        made = os.path.dirname(path) if case.rule == "noEntry" else path
        assert not write["allowed"] and write["denied"] == told(tree, case, made, "write"), write
        assert not remove["allowed"] and remove["denied"] == told(tree, case, path, "write"), remove
        if case.reads:
            assert not read["allowed"] and read["denied"] == told(tree, case, path, "read"), read
        else:
            assert read == ({"allowed": True} if path.endswith(case.existing) else {"allowed": False, "errno": 2, "errnoName": "ENOENT"})


def test_asking_looks_at_parents_that_are_missing(rig, tree):
    box = sandbox(workspace_write(at(f"{tree.w}/x/secret", "deny"), glob(f"{tree.w}/**/*.env")), tree.w)
    rules = [(answer["allowed"], answer.get("denied", {}).get("rule")) for answer in check(rig.client, box, [
        (f"{tree.w}/new/deep/file", "write"), (f"{tree.w}/new/a.env", "write"), (f"{tree.w}/new/a.env/file", "write"),
        (f"{tree.o}/new/deep/file", "write"), (f"{tree.w}/.aws/new/file", "write"), (f"{tree.w}/.git/new/file", "write"),
        (f"{tree.w}/f/new/file", "write"), (f"{tree.w}/out/new/file", "write")])]
    assert rules == [(True, None), (False, "pattern"), (False, "pattern"), (False, "outside"), (False, "protected"),
                     (False, "protected"), (False, None), (False, None)]


def test_asking_changes_nothing(rig, tree):
    before = sorted((top, sorted(names), sorted(files)) for top, names, files in os.walk(tree.base))
    seen = os.stat(f"{tree.w}/f")
    wishes = [(f"{tree.w}/{name}", access) for name in ("f", "new/x", "gone", "out", "d") for access in ("read", "write", "remove")]
    for box in (sandbox(workspace_write(), tree.w), None):
        check(rig.client, box, wishes)
    assert sorted((top, sorted(names), sorted(files)) for top, names, files in os.walk(tree.base)) == before
    assert os.stat(f"{tree.w}/f") == seen


def test_a_list_of_paths_is_bounded(rig, tree):
    box = sandbox(read_only(), tree.w)
    assert len(check(rig.client, box, [(f"{tree.w}/f", "read")] * 4096)) == 4096
    assert check(rig.client, box, []) == []
    with pytest.raises(RpcError) as error:
        check(rig.client, box, [(f"{tree.w}/f", "read")] * 4097)
    assert error.value.code == -32602 and "4096" in error.value.message
    for paths in ([{"path": tree.w}], [{"path": tree.w, "access": "own"}], ["x"], {}, None):
        assert rig.client.error("fs/checkAccess", {"paths": paths, "sandbox": box}).code == -32602


# Asking and doing, on trees and profiles of chance

NAMES = ["a", "b", ".git", "x.env", "l"]


def grow(chance, tree, directory, depth, has_modes):
    """Makes files, directories and links at random; `has_modes`: with permissions that stop the server."""
    for name in chance.sample(NAMES, chance.randint(1, len(NAMES))):
        path, kind = f"{directory}/{name}", chance.random()
        if name == "l" or kind < 0.1:
            tree.link(path, chance.choice([f"{tree.o}/a", f"{tree.w}/a", "a", "b/none", "..", "l", f"{tree.w}/.git/a", "x.env"]))
        elif kind < 0.5 and depth > 0:
            tree.dir(path)
            grow(chance, tree, path, depth - 1, has_modes)
            if has_modes and chance.random() < 0.3:
                os.chmod(path, chance.choice([0o555, 0o000, 0o311, 0o1777]))
        else:
            tree.file(path, mode=chance.choice([0o644, 0o444, 0o000]) if has_modes else 0o644)


def plant_by_chance(seed, tree, has_modes):
    """The same tree for the same seed, so that it can be made again after a change."""
    chance = random.Random(seed)
    for top in (tree.w, tree.o):
        tree.dir(top)
        grow(chance, tree, top, 2, has_modes)


def profile_by_chance(chance, tree):
    places = [tree.w, tree.o] + [f"{tree.w}/{name}" for name in ("a", "b", ".git", "b/a", "none")]
    entries = [special("root", "read")] if chance.random() < 0.6 else [special("minimal", "read")]
    if chance.random() < 0.8:
        entries.append(at(tree.w, "write"))
    for place in chance.sample(places[1:], chance.randint(0, 3)):
        entries.append(at(place, chance.choice(["read", "write", "deny"])))
    if chance.random() < 0.4:
        entries.append(glob(chance.choice([f"{tree.w}/**/*.env", f"{tree.base}/**/b"])))
    return restricted(*entries)


def path_by_chance(chance, tree):
    parts = [chance.choice([*NAMES, "none", "new"]) for _ in range(chance.randint(1, 4))]
    return "/".join([chance.choice([tree.w, tree.w, tree.o]), *parts])


def do(client, path, access, box):
    """Does it; returns what fs/checkAccess should have said, or None where the two are about different things."""
    if access == "read":
        _, error = ask(client, "getMetadata", {"path": path}, box)
        is_directory = not error and _["isDirectory"]
        _, error = ask(client, "readDirectory" if is_directory else "readFile", {"path": path}, box)
    elif access == "write":
        _, error = ask(client, "writeFile", {"path": path, "dataBase64": DATA, "createParents": True}, box)
    elif os.path.isdir(path) and not os.path.islink(path):
        return None  # fs/checkAccess says nothing of what is in a directory
    else:
        _, error = ask(client, "remove", {"path": path, "force": False, "recursive": False}, box)
    if error is None:
        return {"allowed": True}
    return {"allowed": False, **{name: error[name] for name in ("errno", "errnoName", "denied") if name in error}}


def is_same(asked, done, path, access):
    """Where parents are missing, either may name another one of them as what is refused. A request that only reads, under a profile
    that reads everything, does not see what must not be made: what is missing below that is missing in another way."""
    if access == "read" and not asked["allowed"] and not os.path.exists(path):
        return not done["allowed"]
    one, other = (dict(answer.get("denied", {})) for answer in (asked, done))
    paths = sorted(denied.pop("path", "") for denied in (one, other))
    return {**asked, "denied": one} == {**done, "denied": other} and f"{paths[1]}/".startswith(f"{paths[0]}/")


def agree(rig, tree, seed, box, wishes, has_modes):
    """Compares the answer to each question with what the operation does, on the same tree each time."""
    expected = check(rig.client, box, wishes)
    for (path, access), asked in zip(wishes, expected):
        done = do(rig.client, path, access, box)
        assert done is None or is_same(asked, done, path, access), f"seed {seed}: {access} {path}\nasked {asked}\ndone  {done}\n{box}"
        # A write that is refused may have made directories before.
        if done and access == "write" or done == {"allowed": True} and access == "remove":
            tree.clear()
            plant_by_chance(seed, tree, has_modes)


SEEDS = [random.randrange(1 << 30) for _ in range(int(os.environ.get("FARHAND_ACCESS_SEEDS", "4")))]


def test_asking_and_doing_agree(rig):
    for seed in [*range(8), *SEEDS]:
        chance, tree = random.Random(seed), rig.tree()
        plant_by_chance(seed, tree, False)
        wishes = [(path_by_chance(chance, tree), chance.choice(["read", "write", "remove"])) for _ in range(24)]
        box = sandbox(profile_by_chance(chance, tree), tree.w)
        try:
            check(rig.client, box, [])
        except RpcError:
            continue  # a profile that cannot be enforced on this tree
        agree(rig, tree, seed, box, wishes, False)


@pytest.mark.parametrize("user", USERS)
def test_asking_and_doing_agree_without_a_sandbox(user):
    """The kernel alone decides: for a user without rights by the permissions of the files, for root by nothing."""
    with rig_of(user) as rig:
        for seed in [*range(8), *SEEDS]:
            chance, tree = random.Random(seed), rig.tree()
            plant_by_chance(seed, tree, True)
            wishes = [(path_by_chance(chance, tree), chance.choice(["read", "write", "remove"])) for _ in range(24)]
            agree(rig, tree, seed, None, wishes, True)


@needs_root
def test_asking_knows_sticky_directories_and_files_of_others():
    with rig_of("unprivileged") as rig:
        tree = plant(rig.tree())
        sticky = tree.dir(f"{tree.w}/sticky")
        os.chown(sticky, 0, 0)
        os.chmod(sticky, 0o1777)
        for name, uid in (("own", rig.uid), ("other", 0)):
            os.chown(tree.file(f"{sticky}/{name}", mode=0o666), uid, uid)
        wishes = [(f"{sticky}/{name}", access) for name in ("own", "other") for access in ("write", "remove")]
        answers = check(rig.client, None, wishes)
        assert [one.get("errnoName") for one in answers] == [None, None, None, "EPERM"]
        for (path, access), asked in zip(wishes, answers):
            assert do(rig.client, path, access, None) == asked
