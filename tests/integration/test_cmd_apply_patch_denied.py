"""`farhand apply-patch` in a sandbox: what the permission profile refuses is refused whole, with the path and the rule named."""

import contextlib
import json
import os
import subprocess
import tempfile

import pytest

from cmd_rig import Terminal
from farhand_client import BIN, Server
from patch_rig import Patcher, add, delete, get_tree, patch, put_tree, update
from sandbox_rig import WORKSPACE, at, glob, read_only, restricted, special, workspace_write

WRITE = ("Failed to write file {path}", "write")
READ = ("Failed to read file to update {path}", "read")
DELETE = ("Failed to delete file {path}", "write")


class Denied:
    """A patch that a profile refuses: the profile (a function of the directory and the one beside it), the hunk, the words, the rule."""

    def __init__(self, profile, hunk, words, denied, rule, tree=None):
        self.profile, self.hunk, self.words, self.denied, self.rule, self.tree = profile, hunk, words, denied, rule, tree or {}


CASES = {
    "read only": Denied(lambda w, o: read_only(), update("f", "a", "b"), WRITE, "f", "readOnly"),
    "read only, a new file": Denied(lambda w, o: read_only(), add("d/new", "x"), WRITE, "d/new", "readOnly"),
    "read only, a deleted file": Denied(lambda w, o: read_only(), delete("f"), DELETE, "f", "readOnly"),
    "outside of the workspace": Denied(lambda w, o: workspace_write(), update("../o/f", "a", "b"), WRITE, "../o/f", "outside"),
    "a new file outside": Denied(lambda w, o: workspace_write(), add("../o/new", "x"), WRITE, "../o/new", "outside"),
    "moved out": Denied(lambda w, o: workspace_write(), update("f", "a", "b", to="../o/g"), WRITE, "../o/g", "outside"),
    "a denied file": Denied(lambda w, o: workspace_write(at(w + "/secret", "deny")), update("secret", "a", "b"), READ, "secret", "entry",
                            {"secret": "a\n"}),
    "a denied file, replaced": Denied(lambda w, o: workspace_write(at(w + "/secret", "deny")), add("secret", "x"), WRITE, "secret", "entry",
                                      {"secret": "a\n"}),
    "a denied pattern": Denied(lambda w, o: workspace_write(glob(w + "/**/*.env")), update("d/.env", "a", "b"), READ, "d/.env", "pattern",
                               {"d/.env": "a\n"}),
    "a link out of the workspace": Denied(lambda w, o: workspace_write(), update("link", "a", "b"), WRITE, "link", "outside",
                                          {"link": {"symlink": "../o/f"}}),
    "a directory that is a link out": Denied(lambda w, o: workspace_write(), add("out/new", "x"), WRITE, "out/new", "outside",
                                             {"out": {"symlink": "../o"}}),
    "a protected .git": Denied(lambda w, o: workspace_write(), update(".git/config", "a", "b"), WRITE, ".git/config", "protected",
                               {".git/config": "a\n"}),
    "a new file in .git": Denied(lambda w, o: workspace_write(), add(".git/hooks/pre-commit", "x"), WRITE, ".git/hooks/pre-commit", "protected",
                                 {".git/config": "a\n"}),
    "a deleted file of .git": Denied(lambda w, o: workspace_write(), delete(".git/config"), DELETE, ".git/config", "protected",
                                     {".git/config": "a\n"}),
    "what nobody may read": Denied(lambda w, o: restricted(special("minimal", "read"), WORKSPACE), update("../o/f", "a", "b"), READ, "../o/f",
                                   "noEntry"),
}


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory(prefix="fh-") as directory, Server(listen=f"unix:{directory}/s") as s:
        yield s


@contextlib.contextmanager
def boxed(way, server, profile, tree=None):
    """A patcher in the sandbox of a profile, whose paths are spelled as in a file that people write."""
    with Patcher(way, server) as apply:
        put_tree(apply.base, {"o/f": "a\n"})
        put_tree(apply.cwd, {"f": "a\n", "other": "o\n", "gone": "g\n", "d/": None, **(tree or {})})
        path = os.path.join(apply.base, "profile")
        with open(path, "w", encoding="utf-8") as f:
            f.write(json.dumps(profile(apply.cwd, os.path.join(apply.base, "o"))).replace("file:///", "/"))
        apply.argv += ["--profile", path]
        done = apply(patch(update("other", "o", "o")))
        if "cannot be enforced" in done.stderr or "failed to prepare" in done.stderr:
            pytest.skip(done.stderr)
        yield apply


def everything(apply):
    return get_tree(apply.cwd), get_tree(os.path.join(apply.base, "o"))


@pytest.mark.parametrize("way", ["here", "server"])
@pytest.mark.parametrize("name", CASES)
def test_a_patch_is_refused_whole(name, way, server):
    case = CASES[name]
    with boxed(way, server, case.profile, case.tree) as apply:
        before = everything(apply)
        text = patch(add("new/one", "1"), update("other", "o", "O"), delete("gone"), case.hunk)
        if name.startswith("read only"):
            text = patch(case.hunk)
        path = os.path.normpath(apply.path(case.denied))
        words = apply.fails(text)
        beginning, operation = case.words
        beginnings = [beginning.format(path=path), f"Failed to create parent directories for {path}"]  # by a server that is not asked before
        assert any(words.startswith(f"{b}: the permission profile does not allow to ") for b in beginnings), words
        assert f"({case.rule}" in words
        assert everything(apply) == before
        report = apply.report(text)
        denied = report["error"]["denied"]
        assert denied["rule"] == case.rule and (denied["operation"] == operation or case.rule == "entry"), denied
        assert not report["ok"] and not report["changed"]
        assert everything(apply) == before
        assert apply.journals() == []


@pytest.mark.parametrize("way", ["here", "server"])
@pytest.mark.parametrize("name", CASES)
def test_a_dry_run_tells_what_is_refused(name, way, server):
    case = CASES[name]
    with boxed(way, server, case.profile, case.tree) as apply:
        before = everything(apply)
        done = apply(patch(case.hunk), "--dry-run")
        assert done.returncode == 1 and f"({case.rule}" in done.stderr and os.path.normpath(apply.path(case.denied)) in done.stderr
        assert everything(apply) == before


@pytest.mark.parametrize("way", ["here", "server"])
def test_what_is_allowed_is_applied(way, server):
    with boxed(way, server, lambda w, o: workspace_write(at(o, "write")), {".git/config": "a\n"}) as apply:
        text = patch(add("new/one", "1"), update("other", "o", "O"), delete("gone"), update("f", "a", "b", to="../o/g"), update("../o/f", "a", "c"))
        apply.works(text)
        tree, beside = everything(apply)
        assert tree == {"new/one": "1\n", "other": "O\n", "d/": None, ".git/config": "a\n"} and beside == {"f": "c\n", "g": "b\n"}
        apply.works(None, "--undo")
        tree, beside = everything(apply)
        assert tree == {"f": "a\n", "other": "o\n", "gone": "g\n", "d/": None, ".git/config": "a\n"} and beside == {"f": "a\n"}


def test_what_the_machine_refuses_is_no_denial(server):
    with boxed("server", server, lambda w, o: workspace_write()) as apply:
        report = apply.report(patch(add("n" * 300, "x")))
        assert not report["ok"] and "denied" not in report["error"]


@pytest.mark.parametrize("option, words", [("--read-only", "readOnly"), ("--workspace-write", "outside")])
def test_the_short_options(option, words):
    with Patcher() as apply:
        apply.put(f="a\n")
        text = patch(add("n", "x")) if option == "--read-only" else patch(add("n", "x"), add("/usr/new-file", "x"))
        done = apply(text, option)
        if "cannot be enforced" in done.stderr:
            pytest.skip(done.stderr)
        assert done.returncode == 1 and f"({words}" in done.stderr, done
        assert apply.tree() == {"f": "a\n"}


def test_a_repair_obeys_the_profile(server):
    """A journal is no way around the profile: a file that may not be written is not repaired, and its journal stays for later."""
    with boxed("server", server, lambda w, o: read_only()) as apply:
        free = [word for word in apply.argv if word != "--profile" and not word.endswith("/profile")]
        apply.argv, boxed_argv = free, apply.argv
        apply.works(patch(update("f", "a", "b"), update("other", "o", "O")))
        last = next(os.path.join(at_, name) for at_, _, names in os.walk(apply.state) for name in names if name.startswith("last-"))
        journal = os.path.join(os.path.dirname(last), "journal-forged")
        os.rename(last, journal)
        with open(apply.path("other"), "w", encoding="ascii") as f:
            f.write("o\n")  # as before: so the patch is half applied
        apply.argv = boxed_argv
        done = apply(patch(update("other", "o", "o")))
        assert "could not be put back" in done.stderr and os.path.exists(journal)
        assert apply.tree()["f"] == "b\n"
        apply.argv = free
        assert "has been taken back" in apply(patch(add("new", "x"))).stderr
        assert apply.tree()["f"] == "a\n" and not os.path.exists(journal)


# ---- asking ----


class Asker:
    """The variables and the directory that a Terminal takes from its user."""

    def __init__(self, apply):
        self.uid, self.env = os.geteuid(), apply.env
        self.tree = type("Tree", (), {"w": apply.cwd})()


@pytest.mark.parametrize("answer, is_yes", [(b"y\n", True), (b"n\n", False), (b"\n", False), (b"\x04", False)])
def test_the_person_at_the_terminal_is_asked(server, answer, is_yes):
    with boxed("here", server, lambda w, o: workspace_write()) as apply:
        text = patch(update("f", "a", "b"), update("../o/f", "a", "b"))
        before = everything(apply)
        with Terminal(Asker(apply), *apply.argv[1:], "--ask", text, program=(BIN,)) as terminal:
            terminal.expect(b"[N]o?")
            assert b"/o/f" in terminal.seen and b"outside" in terminal.seen
            assert everything(apply) == before
            terminal.type(answer)
            assert terminal.wait() == (0 if is_yes else 1)
        tree, beside = everything(apply)
        assert (tree["f"], beside["f"]) == (("b\n", "b\n") if is_yes else ("a\n", "a\n"))


def allowed(apply, case):
    """The patch of a case, and what it does where nothing forbids it."""
    text = patch(case.hunk)
    with Patcher() as free:
        put_tree(free.base, {"o/f": "a\n"})
        put_tree(free.cwd, {"f": "a\n", "other": "o\n", "gone": "g\n", "d/": None, **(case.tree or {})})
        free.works(text)
        return text, everything(free)


@pytest.mark.parametrize("way", ["here", "server"])
@pytest.mark.parametrize("name", CASES)
def test_a_yes_applies_what_the_profile_refuses(name, way, server):
    case = CASES[name]
    with boxed(way, server, case.profile, case.tree) as apply:
        text, after = allowed(apply, case)
        before = everything(apply)
        with Terminal(Asker(apply), *apply.argv[1:], "--ask", text, program=(BIN,)) as terminal:
            terminal.expect(b"[N]o?")
            path = os.path.normpath(apply.path(case.denied)).encode()
            assert b"patch of: " + path in terminal.seen and case.rule.encode() in terminal.seen
            assert everything(apply) == before
            terminal.type(b"y\n")
            assert terminal.wait() == 0
        assert everything(apply) == after and after != before


@pytest.mark.parametrize("way", ["here", "server"])
@pytest.mark.parametrize("count", [2, 10, 15, 120])
def test_a_question_shows_denials_and_counts_the_rest(way, server, count):
    with boxed(way, server, lambda w, o: workspace_write()) as apply:
        text = patch(add("mine", "x"), *(add(f"../o/new{i:03}", "x") for i in range(count)), update("f", "a", "b"))
        with Terminal(Asker(apply), *apply.argv[1:], "--ask", text, program=(BIN,)) as terminal:
            terminal.expect(b"[N]o?")
            shown = [line for line in terminal.seen.splitlines() if line.startswith(b"  denied: write ") and b"(outside)" in line]
            assert len(shown) == len(set(shown)) == min(count, 10)
            more = [line.strip() for line in terminal.seen.splitlines() if b"more denials" in line]
            assert more == ([b"and %d more denials" % (count - 10)] if count > 10 else [])
            terminal.type(b"n\n")
            assert terminal.wait() == 1


@pytest.mark.parametrize("way", ["here", "server"])
def test_a_profile_with_uris_can_be_asked_about(way, server):
    with boxed(way, server, lambda w, o: workspace_write()) as apply:
        path = os.path.join(apply.base, "profile")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(workspace_write(at(apply.path("d"), "read")), f)
        with open(path, encoding="utf-8") as f:
            assert "file:///" in f.read()
        with Terminal(Asker(apply), *apply.argv[1:], "--ask", patch(add("d/new", "x")), program=(BIN,)) as terminal:
            terminal.expect(b"[N]o?")
            terminal.type(b"y\n")
            assert terminal.wait() == 0
        assert apply.tree()["d/new"] == "x\n"


def test_nobody_to_ask_is_no(server):
    with boxed("here", server, lambda w, o: read_only()) as apply:
        before = everything(apply)
        done = subprocess.run(["setsid", "-w", *apply.argv, "--ask", patch(add("n", "x"))], cwd=apply.cwd, env=apply.env,
                                            capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == 1 and "readOnly" in done.stderr
        assert everything(apply) == before


def test_no_sandbox_shows_the_records_of_patches(server):
    """Records hold what was in files that the profile denies, and what the next patch would repair. Here the home directory is the workspace."""
    with boxed("here", server, lambda w, o: workspace_write(), {"secret": "old secret\n"}) as apply:
        state = os.path.join(apply.cwd, "state")
        env = {**apply.env, "XDG_STATE_HOME": state}
        free = subprocess.run([BIN, "apply-patch", patch(update("secret", "old secret", "new"))], cwd=apply.cwd, env=env, capture_output=True,
                              check=False)
        assert free.returncode == 0
        before = get_tree(state)
        assert any("last-" in name for name in before)
        spy = f"grep -rq secret {state}/*; ls -R {state}; mkdir -p {state}/farhand/patches/x; echo x > {state}/farhand/patches/x/journal-x; mv {state} {state}2"
        done = subprocess.run([BIN, "sandbox", "--workspace-write", "--", "sh", "-c", spy], cwd=apply.cwd, env=env, capture_output=True, text=True,
                              check=False)
        assert "last-" not in done.stdout and get_tree(state) == {**before, **{k: v for k, v in get_tree(state).items() if "placeholders" in k}}
