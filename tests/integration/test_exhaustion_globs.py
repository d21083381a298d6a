"""More files that match a denied pattern than can be masked, made by a command in its own workspace.

Commands under that profile are refused, with the bound and a way out; file requests, which compare each path with the
pattern, still work, so that the files can be removed. Other clients do not notice.
"""

import os

import pytest

from exhaustion_rig import Honest
from sandbox_arena import SECRET
from sandbox_rig import USERS, Box, glob, is_error, rig_of, workspace_write

FILES = 9000


@pytest.fixture(scope="module", params=USERS)
def rig(request):
    with rig_of(request.param) as r:
        yield r


def test_a_bomb_of_matches_stops_nobody_else_and_can_be_removed(rig):
    honest, tree = Honest(rig), rig.tree()
    tree.file(tree.w + "/key.env", SECRET)
    tree.file(tree.w + "/plain.txt", SECRET)
    tree.link(tree.w + "/other.env", tree.w + "/plain.txt")
    tree.file(tree.w + "/sub/file")
    profile = workspace_write(glob("**/*.env"))
    os.unlink(tree.w + "/other.env")
    done = rig.sh(f"mkdir bomb && cd bomb && seq -f %.0f.env {FILES} | xargs touch && echo DONE", profile, tree.w,
                  timeout=240)
    assert done.out == b"DONE\n", done

    done = rig.sh("echo ran", profile, tree.w)
    assert done.refused is not None and "matched more than 8192 paths" in done.refused.message, done
    assert "without a sandbox" in done.refused.data["remedy"], done.refused.data
    honest.work()

    box = Box(rig.client, profile, tree.w)
    tree.link(tree.w + "/other.env", tree.w + "/plain.txt")
    for path in ("/key.env", "/bomb/1.env", "/other.env", "/plain.txt"):
        assert is_error(box.read(tree.w + path)), path
    assert is_error(box.ask("remove", path=tree.w + "/key.env"))
    assert box.write(tree.w + "/new.txt", b"new") is not None and box.read(tree.w + "/new.txt") == b"new"
    assert not is_error(box.ask("remove", path=tree.w + "/sub", recursive=True, force=False)), box.told
    assert SECRET.encode() not in box.all_told()
    os.unlink(tree.w + "/other.env")

    rig.client.call("fs/remove", {"path": "file://" + tree.w + "/bomb", "recursive": True, "force": False}, 60)
    done = rig.sh("cat key.env; echo ran", profile, tree.w)
    assert done.refused is None and done.out == b"ran\n", done


def test_a_bomb_of_matches_lets_no_directory_with_a_denied_file_be_renamed(rig):
    """In another directory the pattern would not match the file. A command cannot rename it, because it lies above a mask."""
    tree = rig.tree()
    tree.file(tree.w + "/a/key.env", SECRET)
    tree.file(tree.w + "/free/file", "data\n")
    profile = workspace_write(glob(tree.w + "/[ab]*/*.env"))
    box = Box(rig.client, profile, tree.w)
    done = rig.sh(f"mkdir b && cd b && seq -f %.0f.env {FILES} | xargs touch && echo DONE", profile, tree.w,
                  timeout=240)
    assert done.out == b"DONE\n", done
    assert is_error(box.ask("rename", sourcePath=tree.w + "/a", destinationPath=tree.w + "/c"))
    assert is_error(box.read(tree.w + "/c/key.env")) and os.path.exists(tree.w + "/a/key.env")
    assert box.ask("rename", sourcePath=tree.w + "/free", destinationPath=tree.w + "/c") == {}
    assert not is_error(box.write(tree.w + "/a/new.txt", b"new"))
    assert SECRET.encode() not in box.all_told()
