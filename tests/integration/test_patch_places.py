"""A yes to a patch holds for the real paths that the question has shown: links that are changed meanwhile, or later, lead nowhere else."""

import json
import os
import shutil
import subprocess
import tempfile

import pytest

from cmd_rig import Terminal
from farhand_client import BIN, Server
from patch_rig import Patcher, add, delete, patch, put_tree, update
from reach import TREES
from sandbox_rig import at, why_not, workspace_write
from unified_rig import Failed, Unified

if why_not("root" if os.geteuid() == 0 else "unprivileged"):
    pytest.skip(why_not("root" if os.geteuid() == 0 else "unprivileged"), allow_module_level=True)


class Ground:
    """A workspace `w` with links, and two directories beside it: `asked`, which links lead to at first, and `other`."""

    def __init__(self):
        self.base = os.path.realpath(tempfile.mkdtemp(prefix="fh-places-", dir=TREES))
        put_tree(self.base, {"asked/f": "old\n", "other/f": "old\n", "w/d/": None, "w/file": {"symlink": "../asked/f"},
                             "w/dir": {"symlink": "../asked"}})
        self.work = self.path("w")

    def path(self, *names):
        return os.path.join(self.base, *names)

    def swap(self):
        """What a background command in the workspace can do at any time."""
        for name, target in (("file", "../other/f"), ("dir", "../other")):
            os.unlink(self.path("w", name))
            os.symlink(target, self.path("w", name))

    def tree(self):
        return {name: sorted((entry, open(self.path(name, entry), encoding="ascii").read()) for entry in os.listdir(self.path(name)))
                for name in ("asked", "other")}

    def close(self):
        shutil.rmtree(self.base, ignore_errors=True)


@pytest.fixture(name="ground")
def ground_of():
    g = Ground()
    yield g
    g.close()


BEFORE = {"asked": [("f", "old\n")], "other": [("f", "old\n")]}

# A hunk, the real paths that it means (of the ground), and what is there after a yes.
CASES = {
    "a link to a file": (update("file", "old", "new"), ["asked/f"], [("f", "new\n")]),
    "a link to a directory": (update("dir/f", "old", "new"), ["asked/f"], [("f", "new\n")]),
    "a new file": (add("dir/new", "x"), ["asked/new"], [("f", "old\n"), ("new", "x\n")]),
    "a new directory": (add("dir/sub/new", "x"), ["asked/sub/new"], None),
    "a file that is replaced": (add("file", "x"), ["asked/f"], [("f", "x\n")]),
    "a deleted file": (delete("dir/f"), ["asked/f"], []),
    "moved out": (update("dir/f", "old", "new", to="dir/g"), ["asked/f", "asked/g"], [("g", "new\n")]),
    "read through a link": (update("file", "old", "new", to="dir/g"), ["asked/f", "w/file", "asked/g"], [("f", "old\n"), ("g", "new\n")]),
}


def real(ground, names):
    return sorted(ground.path(name) for name in names)


# `farhand unified`


@pytest.fixture(name="unified", params=["here", "far"])
def any_unified(request, ground):
    made = []

    def make(*args):
        where = ("--env", "local")
        if request.param == "far":
            made.append(Server())
            where = ("--url", made[0].url, "-C", ground.work)
        made.append(Unified(*args, where=where, cwd=ground.work))
        return made[-1]

    yield make
    for one in reversed(made):
        one.__exit__(None, None, None)


def is_right(ground, after):
    if after is None:
        return open(ground.path("asked/sub/new"), encoding="ascii").read() == "x\n" and os.listdir(ground.path("other")) == ["f"]
    return ground.tree() == {"asked": after, "other": BEFORE["other"]}


@pytest.mark.parametrize("name", CASES)
def test_a_question_shows_the_real_paths_and_a_yes_holds_for_them(unified, ground, name):
    hunk, places, after = CASES[name]
    u = unified()
    ident = u.begin("apply_patch", input=patch(hunk))
    question = u.question(call_id=ident, reason="denied")
    assert sorted(question["real_paths"]) == real(ground, places)
    u.answer(question, "approved")
    assert u.wait(ident)["output"].startswith("Success. ")
    assert is_right(ground, after)


@pytest.mark.parametrize("name", CASES)
def test_a_link_that_is_changed_while_the_question_is_open_leads_nowhere(unified, ground, name):
    u = unified()
    ident = u.begin("apply_patch", input=patch(add("mine", "x"), CASES[name][0]))
    question = u.question(call_id=ident, reason="denied")
    ground.swap()
    u.answer(question, "approved")
    with pytest.raises(Failed, match=r"^apply_patch failed: .* leads to .*/other") as failure:
        u.wait(ident)
    assert ground.tree() == BEFORE and not os.path.exists(ground.path("w/mine")), failure.value
    assert len(u.of("approval_request")) == 1


@pytest.mark.parametrize("wish", [{"sandbox_permissions": "require_escalated"},
                                  {"sandbox_permissions": "with_additional_permissions"}])
@pytest.mark.parametrize("is_swapped", [False, True])
def test_the_same_for_what_is_asked_before_the_first_run(unified, ground, wish, is_swapped):
    if wish["sandbox_permissions"] == "with_additional_permissions":
        wish = {**wish, "additional_permissions": {"file_system": {"write": [ground.path("asked"), ground.path("other")]}}}
    u = unified()
    ident = u.begin("apply_patch", input=patch(update("dir/f", "old", "new")), justification="so", **wish)
    question = u.question(call_id=ident)
    assert question["real_paths"] == [ground.path("asked/f")] and question["reason"] != "denied"
    if is_swapped:
        ground.swap()
    u.answer(question, "approved")
    if not is_swapped:
        u.wait(ident)
        assert ground.tree() == {**BEFORE, "asked": [("f", "new\n")]}
    else:
        assert "leads to" in u.error_of(ident) and ground.tree() == BEFORE


def test_a_denied_run_with_additional_permissions_is_bound_too(unified, ground):
    """The policy on-failure tries the sandbox first; a yes adds the permissions, and these would let the patch reach both places."""
    for is_swapped in (False, True):
        u = unified("--approval", "on-failure") if not is_swapped else u
        ident = u.begin("apply_patch", input=patch(update("dir/f", "old", "new")), sandbox_permissions="with_additional_permissions",
                        justification="so", additional_permissions={"file_system": {"write": [ground.path("asked"), ground.path("other")]}})
        question = u.question(call_id=ident, reason="denied")
        assert not question["outside_sandbox"] and question["real_paths"] == [ground.path("asked/f")]
        if is_swapped:
            ground.swap()
        u.answer(question, "approved")
        if not is_swapped:
            u.wait(ident)
            assert ground.tree() == {**BEFORE, "asked": [("f", "new\n")]}
            put_tree(ground.base, {"asked/f": "old\n"})
    assert "leads to" in u.error_of(ident) and ground.tree() == BEFORE


def test_a_grant_is_for_the_real_path(unified, ground):
    """What the same spelling means later is asked about again; another spelling of the same place is not."""
    u = unified()
    ident = u.begin("apply_patch", input=patch(update("dir/f", "old", "new")))
    u.answer(u.question(call_id=ident), "approved_for_session")
    u.wait(ident)
    assert [g["path"] for g in u.call("list_grants")["grants"]] == [ground.path("asked/f")]
    u.call("apply_patch", input=patch(update("file", "new", "newer")))
    assert ground.tree() == {**BEFORE, "asked": [("f", "newer\n")]} and len(u.of("approval_request")) == 1
    ground.swap()
    for spelling in ("dir/f", "file"):
        ident = u.begin("apply_patch", input=patch(update(spelling, "old", "new")))
        question = u.question(call_id=ident, reason="denied")
        assert question["real_paths"] == [ground.path("other/f")]
        u.answer(question, "denied")
        with pytest.raises(Failed, match="^apply_patch denied by sandbox: "):
            u.wait(ident)
    assert ground.tree() == {**BEFORE, "asked": [("f", "newer\n")]}


def test_what_nobody_needs_to_be_asked_about_is_not_bound(unified, ground):
    """With a grant for something else a patch of the workspace runs in the sandbox as before."""
    u = unified()
    ident = u.begin("apply_patch", input=patch(update("dir/f", "old", "new")))
    u.answer(u.question(call_id=ident), "approved_for_session")
    u.wait(ident)
    u.call("apply_patch", input=patch(add("mine", "x")))
    assert os.path.exists(ground.path("w/mine")) and len(u.of("approval_request")) == 1


def test_what_a_denied_entry_hides_is_found_for_the_question(unified, ground):
    """The profile lets nobody follow links behind a denied directory. The person who is asked sees where they lead."""
    put_tree(ground.base, {"w/secret/link": {"symlink": "../../asked/f"}})
    path = ground.path("profile")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(workspace_write(at(ground.path("w/secret"), "deny")), f)
    with open(path, encoding="utf-8") as f:
        text = f.read().replace("file:///", "/")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    u = unified("--profile", path)
    ident = u.begin("apply_patch", input=patch(update("secret/link", "old", "new")))
    question = u.question(call_id=ident, reason="denied")
    assert question["real_paths"] == [ground.path("asked/f")]
    u.answer(question, "approved")
    u.wait(ident)
    assert ground.tree() == {**BEFORE, "asked": [("f", "new\n")]}


def test_policy_untrusted_shows_real_paths(unified, ground):
    u = unified("--approval", "untrusted")
    put_tree(ground.work, {"d/f": "old\n", "d2/f": "old\n", "l": {"symlink": "d"}})
    for is_swapped in (False, True):
        ident = u.begin("apply_patch", input=patch(update("l/f", "old", "new")))
        question = u.question(call_id=ident, reason="untrusted")
        assert question["real_paths"] == [ground.path("w/d/f")]
        if is_swapped:
            os.unlink(ground.path("w/l"))
            os.symlink("d2", ground.path("w/l"))
        u.answer(question, "approved")
        if is_swapped:
            assert "leads to" in u.error_of(ident)
        else:
            u.wait(ident)
            put_tree(ground.work, {"d/f": "old\n"})
    assert open(ground.path("w/d2/f"), encoding="ascii").read() == "old\n"


# `farhand apply-patch --ask`


class Asker:
    """The variables and the directory that a Terminal takes from its user."""

    def __init__(self, apply, work):
        self.uid, self.env = os.geteuid(), apply.env
        self.tree = type("Tree", (), {"w": work})()


@pytest.fixture(name="ask", params=["here", "server"])
def any_ask(request, ground):
    """Begins to apply a patch in the workspace, in a sandbox, with questions on a terminal."""
    with Patcher() as apply, Server() as server:
        where = ["--url", server.url] if request.param == "server" else []
        argv = ["apply-patch", *where, "-C", ground.work, "--workspace-write", "--ask"]
        yield lambda text, *options: Terminal(Asker(apply, ground.work), *argv, *options, text, program=(BIN,))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_swapped", [False, True])
def test_the_same_on_a_terminal(ask, ground, name, is_swapped):
    hunk, places, after = CASES[name]
    with ask(patch(hunk)) as terminal:
        terminal.expect(b"[N]o?")
        for place in places:
            assert ground.path(place).encode() in terminal.seen
        if is_swapped:
            ground.swap()
        terminal.type(b"y\n")
        assert terminal.wait() == (1 if is_swapped else 0)
        assert not is_swapped or b"leads to" in terminal.seen
    assert ground.tree() == BEFORE if is_swapped else is_right(ground, after)


def test_a_large_file_is_bound_too(ask, ground):
    """A large file is read as a stream and replaced by a rename. The yes holds for its real path, too."""
    lines = "old\n" + "x" * 99 + "\n"
    large = lines + ("y" * 99 + "\n") * 100_000
    for name in ("asked/f", "other/f"):
        put_tree(ground.base, {name: large})
    for is_swapped in (False, True):
        put_tree(ground.base, {"asked/f": large})
        with ask(patch(update("dir/f", "old", "new"))) as terminal:
            terminal.expect(b"[N]o?")
            if is_swapped:
                ground.swap()
            terminal.type(b"y\n")
            assert terminal.wait() == (1 if is_swapped else 0)
        assert open(ground.path("asked/f"), encoding="ascii").read() == (large if is_swapped else large.replace("old", "new", 1))
        assert open(ground.path("other/f"), encoding="ascii").read() == large
