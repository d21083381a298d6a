"""A command leaves files behind that would make the next one, under the same profile, run with fewer masks than the profile
asks for."""

import os

import pytest

from farhand_client import PATIENCE, RpcError
from sandbox_rig import USERS, at, glob, rig_of, workspace_write


@pytest.fixture(scope="module", params=USERS)
def rig(request):
    with rig_of(request.param) as r:
        yield r


@pytest.fixture
def tree(rig):
    t = rig.tree()
    t.dir(t.w)
    return t


def twice(rig, first, second, profile, tree, **kw):
    """Runs two commands under one profile; the first must succeed. Returns the Outcome of the second."""
    done = rig.sh(first, profile, tree.w, **kw)
    assert done.ok, done
    return rig.sh(second, profile, tree.w, **kw)


# Directories without search permission


def test_a_root_in_a_closed_directory_of_another_root_keeps_its_names(rig, tree):
    inner = tree.dir(tree.w + "/x/inner")
    config = tree.file(inner + "/.git/config", "old\n")
    done = twice(rig, "chmod 000 x", "chmod 755 x; echo new >x/inner/.git/config", workspace_write(), tree,
                 roots=[tree.w, inner])
    os.chmod(tree.w + "/x", 0o755)
    with open(config, encoding="utf-8") as f:
        assert f.read() == "old\n", done
    assert rig.sh("echo new >x/inner/file", workspace_write(), tree.w, roots=[tree.w, inner]).ok


def test_the_state_of_the_server_in_a_closed_directory_is_not_seen(rig):
    home = rig.home
    if not os.path.isdir(home.base + "/state/farhand"):
        pytest.skip("the state of this server is elsewhere")
    home.w = home.base
    try:
        done = twice(rig, "chmod 000 state", "chmod 755 state; ls state/farhand", workspace_write(), home)
    finally:
        os.chmod(home.base + "/state", 0o755)
    assert done.out == b"", done


# Directories without read permission


def test_a_mask_in_a_directory_that_cannot_be_listed_is_guarded(rig, tree):
    """Its mask is guarded, or the start is refused."""
    secret = tree.file(tree.w + "/secret", "old\n")
    profile = workspace_write(at(secret, "deny"))
    assert rig.sh("chmod 311 .", profile, tree.w).ok
    gate = tree.o + "/gate"
    tree.dir(tree.o)
    os.mkfifo(gate)
    tree.own(gate)
    try:
        process_id = rig.start(["/bin/sh", "-c", 'read go <"$1"; cat secret', "sh", gate], profile, tree.w)
    except RpcError as refused:
        assert "guarded" in refused.message
        assert rig.user == "unprivileged"
        return
    os.rename(tree.file(tree.o + "/new", "new\n"), secret)
    done = rig.finish(process_id, 5 * PATIENCE)  # it waits at the gate until it is ended
    assert done.code == 137, done


# Links


def test_a_pattern_through_a_link_that_a_command_can_move_is_refused(rig, tree):
    """Otherwise the first command could point the link elsewhere, and the second could read the files that the pattern denied."""
    tree.file(tree.w + "/real/x.key", "secret\n")
    tree.dir(tree.w + "/empty")
    tree.link(tree.w + "/conf", "real")
    for pattern in (tree.w + "/conf/*.key", tree.w + "/conf/**/*.key"):
        profile = workspace_write(glob(pattern))
        rig.sh("rm conf; ln -s empty conf", profile, tree.w)
        done = rig.sh("cat real/x.key", profile, tree.w)
        assert done.out == b"" and "crosses writable symlink" in done.refused.message, done


def test_a_pattern_through_a_link_that_no_command_can_move_is_enforced(rig, tree):
    tree.file(tree.w + "/real/x.key", "secret\n")
    tree.link(tree.o + "/conf", tree.w + "/real")
    done = rig.sh("cat real/x.key; echo ran", workspace_write(glob(tree.o + "/conf/*.key")), tree.w)
    assert done.out == b"ran\n", done


# Modes


def test_an_empty_root_in_another_one_with_the_looks_of_a_placeholder_keeps_its_names(rig, tree):
    inner = tree.dir(tree.w + "/inner")
    roots = [tree.w, inner]
    done = twice(rig, "chmod 1555 inner", "chmod 755 inner; mkdir -p inner/.git/hooks", workspace_write(), tree,
                 roots=roots)
    os.chmod(inner, 0o755)
    assert not done.ok and not os.path.exists(inner + "/.git/hooks"), done
    assert rig.sh("echo new >inner/file", workspace_write(), tree.w, roots=roots).ok
