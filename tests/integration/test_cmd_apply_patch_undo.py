"""`farhand apply-patch --undo` and `--dry-run`: taking a patch back, and showing what it would change."""

import json
import os
import pty
import subprocess
import tempfile

import pytest

from patch_rig import add, delete, get_tree, patch, put_tree, update
from patch_rig import any_patcher, patch_server, patcher_here  # fixtures


BEFORE = {"f": "a\nb\n", "script": {"text": "#!/bin/sh\n", "mode": 0o755}, "bin": {"b64": "AP8A"}, "over": {"text": "old\n", "mode": 0o600},
          "target": "t\n", "keep/": None}


# ---- undo ----


@pytest.mark.parametrize("hunks, words", [
    ([update("f", "a", "A")], "M f\n"),
    ([update("f", "a", "A"), update("f", "b", "B")], "M f\n"),
    ([add("new", "x")], "D new\n"),
    ([add("d/e/new", "x")], "D d/e/new\n"),
    ([delete("script")], "A script\n"),
    ([delete("bin")], "A bin\n"),
    ([update("script", "#!/bin/sh", "#!/bin/bash", to="d/script")], "A script\nD d/script\n"),
    ([update("f", "a", "A", to="over")], "A f\nM over\n"),
    ([add("over", "x")], "M over\n"),
    ([add("f", "x"), delete("over"), add("n", "y"), update("target", "t", "T")], "M f\nA over\nM target\nD n\n"),
], ids=["update", "update twice", "add", "add with directories", "delete", "delete binary", "move", "move over", "overwrite", "several"])
def test_a_patch_is_taken_back(apply, hunks, words):
    put_tree(apply.cwd, BEFORE)
    apply.works(patch(*hunks))
    assert apply.tree() != BEFORE
    assert apply.works(None, "--undo") == "Success. Took back the last patch:\n" + words
    assert apply.tree() == BEFORE
    assert "no patch was applied" in apply.fails(None, "--undo")
    assert apply.journals() == []


def test_a_link_that_was_deleted_comes_back(apply):
    apply.put(f="x\n", link={"symlink": "f"})
    apply.works(patch(delete("link")))
    apply.works(None, "--undo")
    assert apply.tree() == {"f": "x\n", "link": {"symlink": "f"}}


@pytest.mark.parametrize("change", ["content", "removed", "made again"])
def test_what_was_changed_since_is_not_taken_back(apply, change):
    put_tree(apply.cwd, BEFORE)
    apply.works(patch(update("f", "a", "A"), delete("script"), add("new", "x")))
    changed = {"content": "f", "removed": "new", "made again": "script"}[change]
    if change == "removed":
        os.unlink(apply.path("new"))
    else:
        with open(apply.path(changed), "w", encoding="ascii") as f:
            f.write("mine\n")
    after = apply.tree()
    assert apply.fails(None, "--undo") == f"Cannot undo: these files were changed since the patch:\n{changed}\n"
    assert apply.tree() == after


def test_only_the_last_patch_is_taken_back(apply):
    apply.put(f="a\n")
    apply.works(patch(update("f", "a", "b")))
    apply.works(patch(update("f", "b", "c")))
    apply.works(None, "--undo")
    assert apply.tree() == {"f": "b\n"}
    assert "no patch was applied" in apply.fails(None, "--undo")


def test_each_directory_has_its_own_last_patch(here):
    for name in ("one", "two"):
        put_tree(here.cwd, {f"{name}/f": "a\n"})
        here.works(patch(update("f", "a", name)), cwd=here.path(name))
    here.works(None, "--undo", cwd=here.path("one"))
    assert here.tree() == {"one/f": "a\n", "two/f": "two\n"}


def test_directories_that_are_not_empty_stay(apply):
    apply.works(patch(add("d/e/new", "x")))
    with open(apply.path("d/mine"), "w", encoding="ascii"):
        pass
    apply.works(None, "--undo")
    assert apply.tree() == {"d/mine": ""}


def test_nothing_was_applied_yet(here):
    assert here.fails(None, "--undo") == f"Cannot undo: no patch was applied in {here.cwd}, or it was taken back already\n"


def test_a_patch_that_failed_leaves_the_last_one(here):
    here.put(f="a\n")
    here.works(patch(update("f", "a", "b")))
    here.fails(patch(update("f", "zzz", "b")))
    here.works(None, "--undo")
    assert here.tree() == {"f": "a\n"}


def test_without_a_place_for_records_patches_work_and_undo_says_why(here):
    for env in ({"XDG_STATE_HOME": "/proc/nowhere"}, {"XDG_STATE_HOME": "", "HOME": ""}):
        here.put(f="a\n")
        here.works(patch(update("f", "a", "b")), env=env)
        assert here.report(patch(update("f", "b", "c")), env=env)["canUndo"] is False
        assert here.fails(None, "--undo", env=env).startswith("Cannot undo: ")


def test_a_report_of_an_undo(here):
    here.put(f="a\n")
    here.works(patch(update("f", "a", "b")))
    report = here.report(None, "--undo")
    assert (report["action"], report["ok"], report["changes"][0]["path"]) == ("undo", True, "f")
    report = here.report(None, "--undo")
    assert not report["ok"] and report["error"]["message"].startswith("Cannot undo: no patch")


# ---- records are not trusted ----


def record_path(apply):
    found = [os.path.join(at, name) for at, _, names in os.walk(apply.state) for name in names if name.startswith("last-")]
    assert len(found) == 1
    return found[0]


def test_every_truncation_of_a_record_is_refused(here):
    here.put(f="a\n")
    here.works(patch(update("f", "a", "b")))
    with open(record_path(here), "rb") as f:
        whole = f.read()
    for n in range(0, len(whole), 7):
        with open(record_path(here), "wb") as f:
            f.write(whole[:n])
        assert here.fails(None, "--undo").startswith("Cannot undo: ")
    assert here.tree() == {"f": "b\n"}
    with open(record_path(here), "wb") as f:
        f.write(whole)
    here.works(None, "--undo")


@pytest.mark.parametrize("spoil", [
    lambda r: r.update(version=2),
    lambda r: r["changes"][0].update(path="f"),
    lambda r: r["changes"][0].update(path="file:///"),
    lambda r: r["changes"][0]["before"].update(kind="socket"),
    lambda r: r["changes"][0]["before"].update(size=99),
    lambda r: r["changes"][0]["old"].update(data="!"),
    lambda r: r["changes"][0]["old"].update(data="eHg="),
    lambda r: r["changes"][0].update(temp="file:///etc/passwd"),
    lambda r: r["changes"][0].update(aside="file:///tmp/.farhand-patch-" + "0" * 32),
    lambda r: r.update(changes={}),
    lambda r: r.update(cwd="file:///elsewhere"),
    lambda r: r["changes"][0].update(old={"path": "file:///etc/passwd", "size": 2, "layers": [{"oldBytes": 2, "newBytes": 9, "edits": []}]}),
])
def test_a_forged_record_is_refused(here, spoil):
    here.put(f="a\n")
    here.works(patch(update("f", "a", "b")))
    with open(record_path(here), "rb") as f:
        record = json.load(f)
    spoil(record)
    with open(record_path(here), "w", encoding="utf-8") as f:
        f.write(json.dumps(record) + "\n")
    assert here.fails(None, "--undo") == "Cannot undo: the record of the last patch cannot be read\n"
    assert here.tree() == {"f": "b\n"}


def test_records_that_are_links_or_others_files_are_not_used(here):
    here.put(f="a\n")
    here.works(patch(update("f", "a", "b")))
    path = record_path(here)
    os.rename(path, here.base + "/moved")
    os.symlink(here.base + "/moved", path)
    assert here.fails(None, "--undo") == "Cannot undo: the record of the last patch cannot be read\n"
    os.unlink(path)
    os.link(here.base + "/moved", path)
    assert here.fails(None, "--undo") == "Cannot undo: the record of the last patch cannot be read\n"
    os.unlink(path)
    os.mkfifo(path)
    assert here.fails(None, "--undo") == "Cannot undo: the record of the last patch cannot be read\n"


def test_a_directory_that_others_may_write_is_not_used(here):
    here.put(f="a\n")
    here.works(patch(update("f", "a", "b")))
    os.chmod(os.path.join(here.state, "farhand", "patches"), 0o777)
    assert "it belongs to another user, or others may write to it" in here.fails(None, "--undo")
    here.works(patch(update("f", "b", "c")))


def test_records_are_for_their_user_alone(here):
    here.works(patch(add("n", "secret")))
    for at, directories, names in os.walk(here.state):
        for name in directories + names:
            assert os.stat(os.path.join(at, name)).st_mode & 0o077 == 0, name


# ---- dry run ----

DIFF = """--- f
+++ f
@@ -1,5 +1,5 @@
 1
-2
+zwei
 3
 4
 5
--- /dev/null
+++ n
@@ -0,0 +1,2 @@
+x
+y
--- g
+++ /dev/null
@@ -1 +0,0 @@
-gone
"""


def test_a_dry_run_shows_a_diff_and_changes_nothing(apply):
    apply.put(f="1\n2\n3\n4\n5\n6\n", g="gone\n")
    before = apply.tree()
    assert apply.works(patch(update("f", "2", "zwei"), add("n", "x", "y"), delete("g")), "--dry-run") == DIFF
    assert apply.tree() == before
    assert not os.path.exists(os.path.join(apply.state, "farhand"))


def test_a_dry_run_can_be_applied_by_patch(here):
    lines = [f"line {i}" for i in range(1, 201)]
    here.put(f="\n".join(lines) + "\n", g="a\n", unterminated="a\nb")
    text = patch("*** Update File: f\n@@\n-line 3\n+three\n+drei\n@@\n line 100\n-line 101\n@@\n-line 150\n+x\n",
                 add("d/new", "1"), delete("g"), update("unterminated", "a", "A"))
    diff = here.works(text, "--dry-run")
    with tempfile.TemporaryDirectory(prefix="fh-") as copy:
        put_tree(copy, {"f": "\n".join(lines) + "\n", "g": "a\n", "unterminated": "a\nb"})
        subprocess.run(["patch", "-p0"], input=diff.encode(), cwd=copy, check=True, capture_output=True)
        here.works(text)
        assert get_tree(copy) == here.tree()


def test_a_dry_run_that_would_fail_fails(here):
    here.put(f="a\n")
    done = here(patch(add("n", "x"), update("f", "zzz", "b")), "--dry-run")
    assert done.returncode == 1 and done.stderr == f"Failed to find expected lines in {here.path('f')}:\nzzz\n"
    assert here.tree() == {"f": "a\n"}


def test_the_diff_in_a_report(here):
    here.put(f="a\n")
    report = here.report(patch(update("f", "a", "b")), "--dry-run")
    assert report["diff"] == "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n" and report["action"] == "preview" and not report["changed"]


def on_a_terminal(apply, text, env=None):
    """Returns what `--dry-run` writes to a terminal."""
    master, slave = pty.openpty()
    with subprocess.Popen([*apply.argv, "--dry-run", text], stdout=slave, stderr=slave, stdin=subprocess.DEVNULL, cwd=apply.cwd,
                          env={**apply.env, **(env or {})}) as proc:
        os.close(slave)
        seen = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:
                break
            if not piece:
                break
            seen += piece
        proc.wait()
    os.close(master)
    return seen.replace(b"\r\n", b"\n").decode()


def test_colours_on_a_terminal(here):
    here.put(f="a\nb\n")
    text = patch(update("f", "a", "A"))
    assert on_a_terminal(here, text) == ("\x1b[1m--- f\x1b[0m\n\x1b[1m+++ f\x1b[0m\n\x1b[36m@@ -1,2 +1,2 @@\x1b[0m\n\x1b[31m-a\x1b[0m\n"
                                         "\x1b[32m+A\x1b[0m\n b\x1b[0m\n")
    plain = "--- f\n+++ f\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n"
    assert on_a_terminal(here, text, {"NO_COLOR": "1"}) == plain
    assert on_a_terminal(here, text, {"TERM": "dumb"}) == plain
    assert here.works(text, "--dry-run") == plain


def test_a_file_cannot_control_the_terminal(here):
    here.put(f="\x1b]0;owned\x07\x9b1m\x9b ü\n\tb\n")
    seen = on_a_terminal(here, patch(update("f", "\tb", "c\x1b[31m")), {"NO_COLOR": "1"})
    assert "\x1b" not in seen and "\x07" not in seen and "\x9b" not in seen and "\\x1b]0;owned\\x07" in seen and "ü" in seen
