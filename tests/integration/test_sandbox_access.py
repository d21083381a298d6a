"""What a sandboxed shell may read and write: the vectors of access.json, one command per check.

Each check has a fresh tree. What the command says of itself is compared with what happened to the tree: a denied
one changed nothing, and none leaves anything behind.
"""

import json
import os

import pytest

from farhand_client import REPO, RpcError, wait_until
from sandbox_rig import ENV, USERS, Outcome, differences, rig_of, snapshot

with open(os.path.join(REPO, "tests", "vectors", "access.json"), encoding="utf-8") as vectors:
    CASES = {case["name"]: case for case in json.load(vectors)["cases"]}

# What the command does with "$1". It prints its words only when all of it worked.
SCRIPTS = {
    "read": 'cat -- "$1" && echo DONE',
    "write": 'printf "new\\n" > "$1" && echo DONE',
    "create": 'printf "new\\n" > "$1" && echo DONE',
    "list": 'ls -A -- "$1" && echo DONE',
    "stat": 'stat -- "$1" && echo DONE',
    "mkdir": 'mkdir -- "$1" && echo DONE',
    "delete": 'rm -r -- "$1" && echo DONE',
    "rename": 'mv -T -- "$1" "$1-moved" && echo DONE',
}
CHANGES = ("write", "create", "mkdir", "delete", "rename")
# Follows `..` from every place where a command can begin, to the file `$1` outside. Prints each path by which it could be read.
WAY_UP = """
root=$(stat -Lc %d:%i /) || exit 77
for from in / . /proc/self/cwd /proc/self/root /proc/1/root /dev/fd/*; do
    cat "$from/../../../../../../../../../../../..$1" 2>/dev/null && echo "by .. from $from"
    cd -P "$from" 2>/dev/null || continue
    for step in 1 2 3 4 5 6 7 8 9 10 11 12; do
        cd -P .. 2>/dev/null || break
    done
    here=$(stat -Lc %d:%i .)
    [ "$here" = "$root" ] || [ $step != 12 ] || echo "$from leads elsewhere"
    [ "$here" = "$root" ] || cat ".$1" 2>/dev/null && [ "$here" != "$root" ] && echo "above $from"
    cd /
done
echo end
"""
# Created in a directory of the sandbox alone: it does not appear on the host.
PRIVATE = {("dev_nodes", "/dev/shm/vec-vec")}
# Stricter than a process's sandbox can be, on purpose: a mask lies on what exists, so for a process the matches of a
# pattern are those of its start (as on the reference). File requests look at every path anew and can refuse it.
SNAPSHOT = {"glob_new_match_after_start": "allow"}


@pytest.fixture(scope="module", params=USERS)
def rig(request):
    with rig_of(request.param) as r:
        yield r


def put(value, tree, name):
    """The JSON value with the variables of the vectors replaced in every string."""
    if isinstance(value, str):
        value = value.replace("vec-vec", name)
        for mark, path in (("@W", tree.w), ("@O", tree.o), ("@T", tree.t)):
            value = value.replace(mark, path)
        return value
    if isinstance(value, list):
        return [put(item, tree, name) for item in value]
    if isinstance(value, dict):
        return {key: put(item, tree, name) for key, item in value.items()}
    return value


def plant(tree, files):
    for path in (tree.w, tree.o):
        tree.dir(path)
    for entry in files:
        if entry["type"] == "dir":
            tree.dir(entry["path"])
        elif entry["type"] == "file":
            tree.file(entry["path"], entry["content"])
        elif entry["type"] == "symlink":
            tree.link(entry["path"], entry["target"])
        else:
            assert entry["type"] == "hardlink"
            os.link(entry["target"], entry["path"])


def run_check(rig, case, check):
    """(Outcome, tree, snapshot before, path of the check)."""
    tree = rig.tree()
    name = f"vec-{os.getpid()}-{rig.uid}"
    case, check = (put({k: v for k, v in value.items() if k != "checks"}, tree, name) for value in (case, check))
    plant(tree, case["files"])
    before = look(tree, check["path"])
    params = {"processId": f"p{next(rig._names)}", "argv": ["/bin/sh", "-c", SCRIPTS[check["op"]], "sh", check["path"]],
              "cwd": "file:///", "env": {**ENV, **case["env"]}, "tty": False, "pipeStdin": False, "arg0": None,
              "sandbox": {"permissions": case["profile"], "cwd": case["cwd"], "workspaceRoots": case["workspaceRoots"],
                          "windowsSandboxLevel": "disabled"}}
    try:
        result = rig.client.call("process/start", params, 30)
        assert result["sandboxType"] == "linuxSeccomp"
        done = rig.finish(params["processId"])
    except RpcError as refused:
        assert refused.code in (-32602, -32603), refused
        done = Outcome(refused)
    return done, tree, before, check["path"]


def look(tree, path):
    """The tree, and whether the path is there when it is elsewhere."""
    seen = snapshot(tree.base)
    if not path.startswith(tree.base) and os.path.lexists(path):
        seen[path] = (b"",)
    return seen


def after_change(op, path, tree, before):
    """The snapshot that is expected after the operation was done."""
    path = os.path.realpath(path) if op in ("write", "create") else path
    after = dict(before)
    if op == "write" and not path.startswith("/dev/"):
        for same in [p for p, what in before.items() if is_same_file(p, path)]:
            after[same] = before[same][:-1] + (b"new\n",)
    elif op == "create":
        after[path] = (b"new\n",) if path.startswith(tree.base) else (b"",)
    elif op == "mkdir":
        after[path] = ()
    elif op in ("delete", "rename"):
        for below in [p for p in before if p == path or p.startswith(path + "/")]:
            what = after.pop(below)
            if op == "rename":
                after[path + "-moved" + below[len(path):]] = what
    return after


def is_same_file(a, b):
    return os.path.exists(a) and os.path.exists(b) and not os.path.islink(a) and os.path.samefile(a, b)


def judge(rig, name, check):
    """Runs one check; returns what is wrong with it, or None."""
    expected = SNAPSHOT.get(name) or check.get("expect_exec", check["expect"])
    op = check["op"]
    done, tree, before, path = run_check(rig, CASES[name], check)
    is_allowed = done.ok and done.out.endswith(b"DONE\n")
    if is_allowed != (expected == "allow"):
        return f"{op} {check['path']} is not {expected}: {done}"
    if not is_allowed and done.refused is None and (done.code == 0 or b"DONE" in done.out or b"data\n" in done.out):
        return f"{op} {check['path']} was told denied, but: {done}"
    if is_allowed and op == "read" and path.startswith(tree.base):
        with open(path, "rb") as f:
            if done.out != f.read() + b"DONE\n":
                return f"read something else: {done}"
    is_private = (name, check["path"]) in PRIVATE
    expected_tree = after_change(op, path, tree, before) if is_allowed and op in CHANGES and not is_private else before
    try:
        wait_until(lambda: strip(look(tree, path), expected_tree) == expected_tree, 20, "the tree")
    except TimeoutError:
        wrong = differences(expected_tree, strip(look(tree, path), expected_tree))
        return f"after {op} {check['path']} ({expected}): {wrong}"
    finally:
        if is_allowed and op == "create" and not path.startswith(tree.base):
            if os.path.exists(path):
                os.unlink(path)
    return None


def strip(now, expected):
    """`now` with as much detail as `expected` has: what was created is known by name and content only."""
    return {path: what[len(what) - len(expected[path]):] if path in expected else what for path, what in now.items()}


@pytest.mark.parametrize("name", CASES)
def test_access(rig, name):
    wrong = [text for check in CASES[name]["checks"] if (text := judge(rig, name, check))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", CASES)
def test_the_way_up_under_each_profile(rig, name):
    """No command can reach a file beside its tree that the profile denies; skipped where everything can be read."""
    tree = rig.tree()
    case = put({k: v for k, v in CASES[name].items() if k != "checks"}, tree, f"up-{os.getpid()}-{rig.uid}")
    plant(tree, case["files"])
    secret = tree.file(os.path.join(tree.base, "beside", "secret"), "WAY-UP-SECRET")

    def run(script, path):
        params = {"processId": f"p{next(rig._names)}", "argv": ["/bin/sh", "-c", script, "sh", path], "cwd": "file:///",
                  "env": {**ENV, **case["env"]}, "tty": False, "pipeStdin": False, "arg0": None,
                  "sandbox": {"permissions": case["profile"], "cwd": case["cwd"], "workspaceRoots": case["workspaceRoots"],
                              "windowsSandboxLevel": "disabled"}}
        rig.client.call("process/start", params, 30)
        return rig.finish(params["processId"])

    try:
        is_open = run('cat "$1"', secret).out == b"WAY-UP-SECRET"
    except RpcError as refused:
        assert refused.code in (-32602, -32603), refused
        return
    for _ in range(2):
        done = run(WAY_UP, "/nowhere" if is_open else secret)
        assert done.code == 77 or done.out == b"end\n", done


def test_differences_from_the_reference_are_few_and_explained():
    """A check that differs names its reason in the case; nothing else does."""
    for case in CASES.values():
        differs = [check for check in case["checks"] if check.get("differs_from_reference")]
        assert bool(differs) == ("difference" in case), case["name"]
        for check in differs:
            seen = {check["reference"].get("fs"), check["reference"].get("exec")}
            assert seen != {check["expect"]}, (case["name"], check)
