"""`farhand apply-patch` on everything that a path can lead to: links, directories, special files, files that may not be read, full
disks, and files that somebody else changes at the same moment."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile

import pytest

from farhand_client import BIN, Server
from patch_rig import SECONDS, Patcher, add, delete, get_tree, patch, put_tree, update
from patch_rig import any_patcher, patch_server, patcher_here  # fixtures
from sandbox_rig import UNPRIVILEGED, become


# ---- links ----


def test_links_are_followed_to_read_and_write(apply):
    put_tree(apply.cwd, {"d/f": "a\n", "one": {"symlink": "two"}, "two": {"symlink": "d/f"}, "dir": {"symlink": "d"}})
    apply.works(patch(update("one", "a", "b"), add("dir/new", "x")))
    assert apply.tree() == {"d/f": "b\n", "d/new": "x\n", "one": {"symlink": "two"}, "two": {"symlink": "d/f"}, "dir": {"symlink": "d"}}


def test_an_add_through_links_that_lead_nowhere_makes_what_they_lead_to(apply):
    put_tree(apply.cwd, {"a": {"symlink": "b"}, "b": {"symlink": "sub/c"}, "sub/": None, "abs": {"symlink": apply.path("sub/d")}})
    apply.works(patch(add("a", "x"), update("a", "x", "y"), add("abs", "z")))
    assert apply.tree() == {"a": {"symlink": "b"}, "b": {"symlink": "sub/c"}, "sub/c": "y\n", "abs": {"symlink": apply.path("sub/d")},
                            "sub/d": "z\n"}
    apply.works(None, "--undo")
    assert apply.tree() == {"a": {"symlink": "b"}, "b": {"symlink": "sub/c"}, "sub/": None, "abs": {"symlink": apply.path("sub/d")}}


def test_a_link_whose_directory_is_missing_too(apply):
    put_tree(apply.cwd, {"a": {"symlink": "no/such"}})
    apply.works(patch(add("a", "x")))
    assert apply.tree() == {"a": {"symlink": "no/such"}, "no/such": "x\n"}


def test_a_link_is_removed_and_something_else_takes_its_place(apply):
    put_tree(apply.cwd, {"f": "a\n", "link": {"symlink": "f"}})
    apply.works(patch(delete("link"), add("link", "b")))
    assert apply.tree() == {"f": "a\n", "link": "b\n"}
    apply.works(None, "--undo")
    assert apply.tree() == {"f": "a\n", "link": {"symlink": "f"}}


def test_moving_a_link_moves_the_content(apply):
    """As with the reference program: the link is removed, and the file that it led to stays."""
    put_tree(apply.cwd, {"f": "a\n", "link": {"symlink": "f"}})
    apply.works(patch(update("link", "a", "b", to="new")))
    assert apply.tree() == {"f": "a\n", "new": "b\n"}


@pytest.mark.parametrize("hunk, words", [(update("loop", "a", "b"), "Failed to read file to update {}: Symbolic link loop (os error 40)\n"),
                                         (add("loop", "x"), "Failed to write file {}\n"), (delete("loop"), "Failed to delete file {}\n")])
def test_loops_of_links(apply, hunk, words):
    put_tree(apply.cwd, {"loop": {"symlink": "back"}, "back": {"symlink": "loop"}})
    assert apply.fails(patch(hunk)) == words.format(apply.path("loop"))


def test_a_link_to_a_directory_is_no_file(apply):
    put_tree(apply.cwd, {"d/": None, "link": {"symlink": "d"}})
    path = apply.path("link")
    assert apply.fails(patch(delete("link"))) == f"Failed to delete file {path}\n"
    assert apply.fails(patch(add("link", "x"))) == f"Failed to write file {path}\n"
    assert apply.fails(patch(update("link", "a", "b"))) == f"Failed to read file to update {path}: path `{path}` is not a file\n"


# ---- what else files are ----


def test_hard_links_stay_together(apply):
    apply.put(f="a\n")
    os.link(apply.path("f"), apply.path("g"))
    apply.works(patch(update("f", "a", "b")))
    assert apply.tree() == {"f": "b\n", "g": "b\n"} and os.stat(apply.path("f")).st_nlink == 2
    apply.works(None, "--undo")
    assert apply.tree() == {"f": "a\n", "g": "a\n"} and os.stat(apply.path("f")).st_nlink == 2


def test_special_files(apply):
    os.mkfifo(apply.path("fifo"))
    path = apply.path("fifo")
    assert apply.fails(patch(update("fifo", "a", "b"))) == f"Failed to read file to update {path}: path `{path}` is not a file\n"
    assert apply.fails(patch(add("fifo", "x"))) == f"Failed to write file {path}\n"
    assert apply.fails(patch(add("/dev/null", "x"))) == "Failed to write file /dev/null\n"
    apply.works(patch(delete("fifo")))
    assert os.listdir(apply.cwd) == []
    assert "was not kept" in apply.fails(None, "--undo")


def test_empty_files(apply):
    apply.put(empty="", full="a\n")
    apply.works(patch("*** Update File: empty\n@@\n+x\n", "*** Update File: full\n@@\n-a\n", add("new")))
    assert apply.tree() == {"empty": "x\n", "full": "", "new": ""}
    apply.works(None, "--undo")
    assert apply.tree() == {"empty": "", "full": "a\n"}


def test_what_is_not_text_stays_as_it_is(apply):
    data = b"\xff\xfe\x00\r\n" + b"old\r\n" + bytes(range(256)) + b"\n" + b"\x80\x81 last"
    with open(apply.path("f"), "wb") as f:
        f.write(data)
    apply.works(patch(update("f", "old", "new")))
    with open(apply.path("f"), "rb") as f:
        assert f.read() == data.replace(b"old", b"new") + b"\r\n"


def test_a_directory_whose_name_is_not_utf8(apply):
    real = os.path.join(os.fsencode(apply.cwd), b"\xff\xfe dir")
    os.mkdir(real)
    with open(os.path.join(real, b"f"), "wb") as f:
        f.write(b"a\n")
    os.symlink(b"\xff\xfe dir", os.path.join(os.fsencode(apply.cwd), b"d"))
    apply.works(patch(update("d/f", "a", "b"), add("d/n", "x")))
    with open(os.path.join(real, b"f"), "rb") as f:
        assert f.read() == b"b\n"
    apply.works(None, "--undo")
    assert os.listdir(real) == [b"f"]


@pytest.mark.parametrize("name", ["with space", "ümlaut", "quo\"te", "%41", "*", "-n", "back\\slash", "tab\tinside", "a" * 255])
def test_names(apply, name):
    apply.works(patch(add(name, "x")))
    assert apply.tree() == {name: "x\n"}
    apply.works(patch(update(name, "x", "y", to=f"d/{name}")))
    assert apply.tree() == {f"d/{name}": "y\n"}


def test_paths_with_dots_and_absolute_ones(apply):
    put_tree(apply.base, {"beside/f": "a\n"})
    apply.works(patch(update("../beside/./f", "a", "b"), add(apply.base + "/beside/x/../n", "x"), add("none/../m", "y")))
    assert get_tree(apply.base + "/beside") == {"f": "b\n", "n": "x\n"} and apply.tree() == {"m": "y\n"}


def test_modes_are_kept(apply):
    put_tree(apply.cwd, {"f": {"text": "a\n", "mode": 0o640}, "g": {"text": "a\n", "mode": 0o4711}, "over": {"text": "o\n", "mode": 0o600}})
    apply.works(patch(update("f", "a", "b"), update("g", "a", "b", to="h"), add("over", "x")))
    tree = apply.tree()
    assert tree["f"]["mode"] == 0o640 and tree["over"]["mode"] == 0o600 and tree["h"]["mode"] & 0o777 == 0o711
    apply.works(patch(update("f", "b", "c", to="h")))
    assert apply.tree()["h"] == {"text": "c\n", "mode": 0o640}
    apply.works(None, "--undo")
    assert apply.tree() == tree


# ---- rights ----


@contextlib.contextmanager
def as_nobody(way):
    """A patcher of a user without rights, whose directories are that user's."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    with contextlib.ExitStack() as stack:
        server = None
        if way == "server":
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="fh-"))
            os.chown(directory, UNPRIVILEGED, -1)
            server = stack.enter_context(Server(listen=f"unix:{directory}/s", preexec_fn=become(UNPRIVILEGED)))
        apply = stack.enter_context(Patcher(way, server))
        for path in (apply.base, apply.cwd):
            os.chown(path, UNPRIVILEGED, -1)
        argv = apply.argv

        def run(text=None, *options):
            words = [*argv, *options, *([] if text is None else [text])]
            return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=apply.cwd,
                                  env=apply.env, preexec_fn=become(UNPRIVILEGED))

        yield apply, run


def give(apply, tree):
    put_tree(apply.cwd, tree)
    for at, directories, names in os.walk(apply.cwd):
        for name in directories + names:
            os.chown(os.path.join(at, name), UNPRIVILEGED, -1, follow_symlinks=False)


@pytest.mark.parametrize("way", ["here", "server"])
def test_a_file_that_may_not_be_read(way):
    with as_nobody(way) as (apply, run):
        give(apply, {"f": {"text": "a\n", "mode": 0o200}, "g": "x\n"})
        done = run(patch(update("g", "x", "y"), update("f", "a", "b")))
        assert done.returncode == 1
        assert done.stderr == f"Failed to read file to update {apply.path('f')}: Permission denied (os error 13)\n"
        assert apply.tree()["g"] == "x\n"
        # Such a file can be written over and deleted, but that cannot be undone.
        done = run(patch(add("f", "new")))
        assert (done.returncode, done.stderr) == (0, "")
        assert apply.tree()["f"] == {"text": "new\n", "mode": 0o200}
        assert run(patch(delete("f"))).returncode == 0
        assert apply.tree() == {"g": "x\n"}


@pytest.mark.parametrize("way", ["here", "server"])
def test_a_directory_that_may_not_be_written(way):
    with as_nobody(way) as (apply, run):
        give(apply, {"d/f": "a\n", "d/g": "b\n", "h": "c\n"})
        os.chmod(apply.path("d"), 0o555)
        before = apply.tree()
        assert run(patch(update("h", "c", "d"), delete("d/f"))).stderr == f"Failed to delete file {apply.path('d/f')}\n"
        assert apply.tree() == before
        assert run(patch(update("h", "c", "d"), add("d/n", "x"))).stderr == f"Failed to write file {apply.path('d/n')}\n"
        assert run(patch(update("h", "c", "d"), add("d/e/n", "x"))).stderr.startswith("Failed to create parent directories for ")
        assert apply.tree() == before
        assert run(patch(update("d/f", "a", "A"), update("h", "c", "C"))).returncode == 0
        assert apply.tree() == {"d/f": "A\n", "d/g": "b\n", "h": "C\n"}
        assert run(None, "--undo").returncode == 0
        assert apply.tree() == before


# ---- a full disk ----

FULL = """
import os, subprocess, sys
def mount(*args): subprocess.run(["mount", *args], check=True)
mount("--make-rprivate", "/")
mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", sys.argv[1])
for name in "abc":
    with open(f"{sys.argv[1]}/{name}", "w") as f: f.write("old " + name + "\\n")
with open(f"{sys.argv[1]}/ballast", "wb") as f: f.write(b"x" * 980_000)
done = subprocess.run(sys.argv[2:], cwd=sys.argv[1], capture_output=True, text=True)
print([done.returncode, done.stdout, done.stderr, sorted(os.listdir(sys.argv[1])), [open(f"{sys.argv[1]}/{n}").read() for n in "abc"]])
"""


@pytest.mark.parametrize("options", [(), ("--workspace-write",)], ids=["here", "private server"])
def test_a_full_disk(here, options):
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount")
    text = patch(update("a", "old a", "new a"), delete("b"), add("z", "y" * 100_000), update("c", "old c", "new c"))
    done = subprocess.run(["unshare", "-m", sys.executable, "-c", FULL, here.cwd, *here.argv, *options, text], env=here.env,
                          capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == repr([1, "", f"Failed to write file {here.path('z')}\n", ["a", "b", "ballast", "c"],
                                        ["old a\n", "old b\n", "old c\n"]])


# ---- somebody else at the same moment ----


def test_of_two_patches_at_once_one_wins(apply):
    """In each round two patches change the same files; one succeeds, the other fails without a trace."""
    names = [f"f{i}" for i in range(8)]
    for _ in range(15):
        put_tree(apply.cwd, {name: "old\n" for name in names})
        both = [apply.start(patch(*[update(name, "old", who) for name in order], add(f"by-{who}", who)))
                for who, order in (("one", names), ("two", names[::-1]))]
        results = [(proc.wait(SECONDS), proc.stdout.read().decode(), proc.stderr.read().decode()) for proc in both]
        for proc in both:
            proc.stdout.close()
            proc.stderr.close()
        assert sorted(r[0] for r in results) == [0, 1], results
        winner = "one" if results[0][0] == 0 else "two"
        loser = results[1] if results[0][0] == 0 else results[0]
        assert apply.tree() == {**{name: winner + "\n" for name in names}, f"by-{winner}": winner + "\n"}
        assert "changed by somebody else" in loser[2] or "Failed to find expected lines" in loser[2], loser
        os.unlink(apply.path(f"by-{winner}"))
        assert apply.journals() == []


def test_patches_of_different_files_at_once(apply):
    put_tree(apply.cwd, {f"f{i}": "old\n" for i in range(8)})
    all_of_them = [apply.start(patch(update(f"f{i}", "old", f"new {i}"))) for i in range(8)]
    for proc in all_of_them:
        assert proc.wait(SECONDS) == 0, proc.stderr.read()
        proc.stdout.close()
        proc.stderr.close()
    assert apply.tree() == {f"f{i}": f"new {i}\n" for i in range(8)}


def test_inside_of_a_sandbox(here):
    """apply_patch is what commands of an agent call, in a sandbox that can write neither its home nor the state directory."""
    put_tree(here.cwd, {"f": "a\n"})
    link = os.path.join(here.base, "apply_patch")
    os.symlink(BIN, link)
    profile = {"type": "managed", "network": "restricted", "file_system": {"type": "restricted", "entries": [
        {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"},
        {"path": {"type": "special", "value": {"kind": "project_roots"}}, "access": "write"}]}}
    with open(here.base + "/profile", "w", encoding="ascii") as f:
        json.dump(profile, f)
    # The leak sanitizer traces its own process, which the sandbox does not allow.
    done = subprocess.run([BIN, "sandbox", "--profile", here.base + "/profile", "--", "env", "ASAN_OPTIONS=detect_leaks=0", link,
                           patch(update("f", "a", "b"), add("n", "x"))], cwd=here.cwd, env=here.env, capture_output=True, text=True,
                          timeout=SECONDS, check=False)
    if "cannot be enforced" in done.stderr:
        pytest.skip(done.stderr)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Success. Updated the following files:\nA n\nM f\n", "")
    assert here.tree() == {"f": "b\n", "n": "x\n"}
