"""`farhand apply-patch` and the program apply_patch: what the reference program does with the same patches, and what ours adds."""

import os
import subprocess
import tempfile

import pytest

from patch_rig import BIN, Patcher, add, delete, get_tree, patch, put_tree, socket_server, update, vectors
from patch_rig import patch_server, patcher_here  # fixtures

VECTORS = vectors()
# What differs from the reference program on purpose, and why.
OURS = {
    32: "a file need not be UTF-8: bytes outside of the hunks stay as they are",
    69: "moving a file onto itself must not delete it",
    71: "a moved file keeps its mode",
    77: "all of a patch is applied or nothing; --partial is tested below",
}


@pytest.fixture(name="apply", params=["named", "here", "server"])
def any_patcher(request, server):
    with Patcher(request.param, server) as patcher:
        yield patcher


def run_vector(apply, vector, *options):
    """Returns what came out, and what the vector says."""
    put_tree(apply.cwd, vector["before"])
    text = vector["patch"].replace("<CWD>", apply.cwd)
    stdin = text.encode() if vector["via"] == "stdin" else b""
    words = [] if vector["via"] == "stdin" else [text]
    done = apply(None, *options, *words, *(vector.get("extra_args") or []), stdin=stdin, env=vector.get("env"))
    said = tuple(vector[key].replace("<CWD>", apply.cwd) for key in ("stdout", "stderr"))
    return (done.returncode, done.stdout, done.stderr, get_tree(apply.cwd)), (vector["exit_code"], *said, vector["after"])


# ---- the vectors ----


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["id"] not in OURS], ids=lambda v: str(v["id"]))
def test_a_patch_does_what_the_reference_program_does(apply, vector):
    found, wanted = run_vector(apply, vector)
    assert found == wanted
    assert apply.journals() == []


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["id"] not in OURS], ids=lambda v: str(v["id"]))
def test_a_partial_patch_does_what_the_reference_program_does(here, vector):
    found, wanted = run_vector(here, vector, "--partial")
    assert found == wanted


def vector_of(ident):
    return next(v for v in VECTORS if v["id"] == ident)


def test_32_a_file_that_is_not_utf8_is_updated(apply):
    found, _ = run_vector(apply, vector_of(32))
    assert found == (0, "Success. Updated the following files:\nM f\n", "", {"f": {"b64": "QQr/Cg=="}})


def test_69_moving_a_file_onto_itself_keeps_it(apply):
    found, wanted = run_vector(apply, vector_of(69))
    assert found == (*wanted[:3], {"f": "A\nb\nc\nd\ne\n"})


def test_71_a_moved_file_keeps_its_mode(apply):
    found, wanted = run_vector(apply, vector_of(71))
    assert found == (*wanted[:3], {"g": {"text": "#!/bin/bash\n", "mode": 0o755}})


def test_77_nothing_is_changed_when_a_later_hunk_fails(apply):
    found, wanted = run_vector(apply, vector_of(77))
    assert found == (*wanted[:3], {"f": "a\nb\nc\nd\ne\n"})


def test_77_earlier_hunks_stay_with_partial(here, server):
    found, wanted = run_vector(here, vector_of(77), "--partial")
    assert found == wanted
    with Patcher("server", server) as far:
        found, wanted = run_vector(far, vector_of(77), "--partial")
        assert found == wanted


# ---- invocation ----


def test_the_other_name_is_the_same_program(here):
    link = os.path.join(here.base, "applypatch")
    os.symlink(BIN, link)
    done = subprocess.run([link, patch(add("n", "x"))], cwd=here.cwd, env=here.env, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"Success. Updated the following files:\nA n\n")


def test_by_name_there_are_no_options():
    with Patcher("named") as apply:
        assert apply("--help").stderr == "Invalid patch: The first line of the patch must be '*** Begin Patch'\n"


def test_what_is_not_utf8_is_refused(apply):
    done = subprocess.run([*apply.argv, b"\xff"], cwd=apply.cwd, env=apply.env, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"Error: apply_patch requires a UTF-8 PATCH argument.\n")
    done = apply(stdin=b"\xff")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: Failed to read PATCH from stdin.\nstream did not contain valid UTF-8\n"


def test_a_patch_that_is_too_long_is_refused(here):
    done = here(stdin=b"x" * (16 << 20) + b"x")
    assert done.returncode == 1 and done.stderr == "Error: Failed to read PATCH from stdin.\nthe patch is larger than 16 MiB\n"


def test_output_that_cannot_be_written_is_a_failure(here):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*here.argv, patch(add("n", "x"))], cwd=here.cwd, env=here.env, stdout=full, stderr=subprocess.PIPE,
                              check=False)
    assert done.returncode == 1 and b"cannot write the output" in done.stderr


def test_undo_takes_no_patch(here):
    done = here(patch(add("n", "x")), "--undo")
    assert done.returncode == 2 and "--undo takes neither" in done.stderr


def test_a_server_that_is_not_there(here):
    done = here(patch(add("n", "x")), "--url", "unix:/nonexistent/s", "-C", "/tmp")
    assert done.returncode == 1 and done.stderr.startswith("farhand: ")
    assert here.tree() == {}


def test_the_directory_of_the_server_is_the_default(server, here):
    with tempfile.TemporaryDirectory(prefix="fh-") as directory, socket_server(directory) as own:
        os.mkdir(f"{directory}/d")
        done = here(patch(add("n", "x")), "--url", own.url, "-C", f"{directory}/d")
        assert done.returncode == 0 and get_tree(f"{directory}/d") == {"n": "x\n"}


# ---- later hunks see earlier ones ----


def test_hunks_build_upon_each_other(apply):
    apply.put(f="a\nb\n")
    text = patch(update("f", "a", "A"), update("f", "A", "AA", to="g"), update("g", "b", "B"), add("h/i", "x"), update("h/i", "x", "y"),
                 delete("h/i"), add("h/i", "z"))
    assert apply.works(text) == ("Success. Updated the following files:\nA h/i\nA h/i\nM f\nM g\nM g\nM h/i\nD h/i\n")
    assert apply.tree() == {"g": "AA\nB\n", "h/i": "z\n"}


def test_a_file_gives_way_to_a_directory(apply):
    apply.put(f="x\n")
    apply.works(patch(delete("f"), add("f/g", "y")))
    assert apply.tree() == {"f/g": "y\n"}
    apply.fails(patch(delete("f/g"), add("n", "x"), update("n/m", "a", "b")))
    assert apply.tree() == {"f/g": "y\n"}


def test_a_new_file_is_no_directory(apply):
    assert apply.fails(patch(add("n", "x"), add("n/m", "y"))) == f"Failed to write file {apply.path('n/m')}\n"
    assert apply.tree() == {}


def test_one_file_by_several_spellings(apply):
    apply.put(f="a\n", **{"d/": None})
    os.symlink("f", apply.path("link"))
    os.symlink(".", apply.path("here"))
    text = patch(update("f", "a", "b"), update("link", "b", "c"), update("d/../f", "c", "d"), update("here/f", "d", "e"))
    apply.works(text)
    assert apply.tree()["f"] == "e\n" and os.path.islink(apply.path("link"))


def test_moving_onto_the_same_file_by_another_spelling_keeps_it(apply):
    apply.put(f="a\n")
    os.symlink("f", apply.path("link"))
    os.symlink(".", apply.path("here"))
    apply.works(patch(update("f", "a", "b", to="link")))
    apply.works(patch(update("link", "b", "c", to="f")))
    apply.works(patch(update("f", "c", "d", to="here/f")))
    apply.works(patch(update("f", "d", "e", to="./x/../f")))
    assert apply.tree() == {"f": "e\n", "link": {"symlink": "f"}, "here": {"symlink": "."}}


# ---- nothing is left of a patch that fails ----


@pytest.mark.parametrize("bad", [update("f", "zzz", "y"), delete("none"), add("f/below", "x"), update("none", "a", "b"), update("d", "a", "b"),
                                 update("f", "a", "b", to="d")])
def test_nothing_is_changed_when_one_hunk_fails(apply, bad):
    before = {"f": "a\n", "g": "b\n", "d/": None, "e": {"text": "x\n", "mode": 0o755}}
    put_tree(apply.cwd, before)
    apply.fails(patch(update("g", "b", "B"), delete("e"), add("new/x/y", "1"), bad, add("other", "1")))
    assert apply.tree() == before


def test_hunks_that_fail_when_they_are_written_are_rolled_back(apply):
    """The directory becomes immovable only for the write: a name that is too long for a file is found out late."""
    before = {"f": "a\n", "g": "b\n", "e": {"text": "x\n", "mode": 0o755}}
    put_tree(apply.cwd, before)
    name = "n" * 300
    assert apply.fails(patch(update("f", "a", "A"), delete("e"), add("new/dir/file", "1"), add(f"new/{name}", "x"),
                             update("g", "b", "B", to="h"))) == f"Failed to write file {apply.path('new/' + name)}\n"
    assert apply.tree() == before
    assert apply.journals() == []


# ---- reports ----


def test_the_report_of_a_success(apply):
    if apply.argv[-1].endswith("apply_patch"):
        pytest.skip("by name there are no options")
    apply.put(f="a\nb\n", g="x\ny\n", old="1\n")
    report = apply.report(patch(add("n", "1", "2"), update("f", "a", "A"), update("old", "1", "2", to="new"), delete("g")))
    assert report == {"action": "apply", "ok": True, "changed": True, "canUndo": True, "changes": [
        {"kind": "add", "path": "n", "absolutePath": apply.path("n"), "addedLines": 2, "removedLines": 0},
        {"kind": "update", "path": "f", "absolutePath": apply.path("f"), "addedLines": 1, "removedLines": 1},
        {"kind": "move", "path": "new", "from": "old", "absolutePath": apply.path("new"), "addedLines": 1, "removedLines": 1},
        {"kind": "delete", "path": "g", "absolutePath": apply.path("g"), "addedLines": 0, "removedLines": 2}]}


def test_the_report_of_a_failure(here):
    report = here.report(patch(update("f", "a", "b")))
    message = f"Failed to read file to update {here.path('f')}: No such file or directory (os error 2)"
    assert report == {"action": "apply", "ok": False, "changed": False, "canUndo": False, "changes": [],
                      "error": {"message": message, "conflict": False, "lost": False}}
    report = here.report("nonsense")
    assert report["error"]["message"] == "Invalid patch: The first line of the patch must be '*** Begin Patch'"
    assert here("nonsense", "--json").returncode == 1


def test_the_report_of_a_partial_failure(here):
    report = here.report(patch(add("n", "x"), delete("none")), "--partial")
    assert (report["ok"], report["changed"], [c["path"] for c in report["changes"]]) == (False, True, ["n"])
