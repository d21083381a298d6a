"""`farhand apply-patch` on the reference server, which has neither conditions nor renames: what it promises there is weaker, and what it
does is the same. The binaries are named as in test_client_reference.py."""

import os
import tempfile

import pytest

from patch_rig import Patcher, add, delete, get_tree, patch, put_tree, update, vectors
from test_client_recovery import killed
from test_client_reference import OTHERS, Reference

VECTORS = vectors()
# 32: files need not be UTF-8. 69: moving a file onto itself keeps it. 77: all or nothing. (71, the mode of a moved file: this server cannot set one.)
OURS = (32, 69, 77)
WITH_FILES = ["142", "166"]  # 125 has no methods for files that are enough for this


@pytest.fixture(scope="module", params=WITH_FILES + OTHERS)
def server(request):
    binary = os.environ.get(f"FARHAND_REFERENCE_{request.param}") if request.param in WITH_FILES else request.param
    if not binary:
        pytest.skip(f"no reference server: FARHAND_REFERENCE_{request.param} names none")
    with tempfile.TemporaryDirectory(prefix="fh-reference-") as home:
        reference = Reference(request.param, binary, home)
        with killed(reference.proc):
            yield reference


@pytest.fixture(name="apply")
def far_patcher(server):
    with Patcher("server", server) as patcher:
        yield patcher


def test_the_vectors(server):
    for vector in VECTORS:
        if vector["id"] in OURS:
            continue
        with Patcher("server", server) as apply:
            put_tree(apply.cwd, vector["before"])
            text = vector["patch"].replace("<CWD>", apply.cwd)
            words = [] if vector["via"] == "stdin" else [text]
            done = apply(None, *words, *(vector.get("extra_args") or []), stdin=text.encode() if vector["via"] == "stdin" else b"")
            said = tuple(vector[key].replace("<CWD>", apply.cwd) for key in ("stdout", "stderr"))
            assert (done.returncode, done.stdout, done.stderr, get_tree(apply.cwd)) == (vector["exit_code"], *said, vector["after"]), vector


def test_all_or_nothing_by_checking_first(apply):
    before = {"f": "a\n", "g": "b\n"}
    put_tree(apply.cwd, before)
    apply.fails(patch(update("f", "a", "A"), delete("g"), add("d/e/new", "x"), update("f", "zzz", "y")))
    assert apply.tree() == before


def test_a_write_that_fails_is_rolled_back(apply):
    before = {"f": "a\n", "g": "b\n", "e": "x\n"}
    put_tree(apply.cwd, before)
    name = "n" * 300
    assert apply.fails(patch(update("f", "a", "A"), delete("e"), add("new/dir/file", "1"), add(f"new/{name}", "x"),
                             update("g", "b", "B", to="h"))) == f"Failed to write file {apply.path('new/' + name)}\n"
    assert apply.tree() == before and apply.journals() == []


def test_undo(apply):
    before = {"f": "a\n", "g": "b\n", "e": "x\n"}
    put_tree(apply.cwd, before)
    apply.works(patch(update("f", "a", "A"), delete("e"), add("d/new", "1"), update("g", "b", "B", to="h")))
    assert apply.tree() == {"f": "A\n", "d/new": "1\n", "h": "B\n"}
    apply.works(None, "--undo")
    assert apply.tree() == before
    apply.works(patch(update("f", "a", "A")))
    apply.put(f="mine\n")
    assert apply.fails(None, "--undo") == "Cannot undo: these files were changed since the patch:\nf\n"


def test_an_interrupted_patch_is_repaired(apply):
    put_tree(apply.cwd, {"f": "a\n", "g": "b\n"})
    apply.works(patch(update("f", "a", "A"), update("g", "b", "B")))
    last = next(os.path.join(at, name) for at, _, names in os.walk(apply.state) for name in names if name.startswith("last-"))
    os.rename(last, os.path.join(os.path.dirname(last), "journal-left"))
    apply.put(g="b\n")
    done = apply(patch(add("n", "x")))
    assert (done.returncode, done.stderr) == (0, "farhand: a patch that was interrupted has been taken back\n")
    assert apply.tree() == {"f": "a\n", "g": "b\n", "n": "x\n"}


def test_a_file_that_is_not_utf8(apply):
    with open(apply.path("f"), "wb") as f:
        f.write(b"a\n\xff\n")
    apply.works(patch(update("f", "a", "b")))
    with open(apply.path("f"), "rb") as f:
        assert f.read() == b"b\n\xff\n"


def test_a_file_of_some_megabytes(apply):
    with open(apply.path("f"), "wb") as f:
        f.write(b"first\n" + b"line\n" * 2_000_000)
    apply.works(patch(update("f", "first", "1st")))
    with open(apply.path("f"), "rb") as f:
        assert f.read() == b"1st\n" + b"line\n" * 2_000_000
