"""Set-uid and set-gid: a file that gets a mode keeps these bits only while it keeps its owner and its group.

A user leaves a set-uid program, a server that runs as root copies it: the copy belongs to root, and must not have the bit.
"""

import os
import stat
import sys

import pytest

from fs_helpers import MIB, b64, background, content, fs, make, needs_root, noise, write
from sandbox_rig import Box, rig_of, workspace_write

pytestmark = needs_root

SOMEBODY, GROUP = 65534, 65534


def mode_of(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def owner_of(path):
    st = os.lstat(path)
    return st.st_uid, st.st_gid


def owned(path, mode, uid=SOMEBODY, gid=GROUP, data=b"program"):
    make(path, data)
    os.chown(path, uid, gid)
    os.chmod(path, mode)
    return path


def copy(client, source, destination):
    return fs(client, "copy", sourcePath=source, destinationPath=destination, recursive=True)


OWNERS = [(SOMEBODY, GROUP), (SOMEBODY, 0), (0, GROUP)]


@pytest.mark.parametrize("owner", OWNERS, ids=str)
@pytest.mark.parametrize("bits", [0o6755, 0o4755, 0o2755, 0o7711], ids=oct)
def test_a_copy_that_changes_the_owner_loses_the_bits(client, tmp, owner, bits):
    os.mkdir(f"{tmp}/tree")
    owned(f"{tmp}/tree/small", bits, *owner)
    owned(f"{tmp}/tree/large", bits, *owner, data=noise(MIB))
    copy(client, f"{tmp}/tree/small", f"{tmp}/alone")
    copy(client, f"{tmp}/tree", f"{tmp}/copied")
    copy(client, f"{tmp}/tree", f"{tmp}/copied")  # once more, onto what is there
    for path in ("alone", "copied/small", "copied/large"):
        assert owner_of(f"{tmp}/{path}") == (0, 0)
        assert mode_of(f"{tmp}/{path}") == bits & 0o1777, path
    assert mode_of(f"{tmp}/tree/small") == bits, "the source has them as before"


@pytest.mark.parametrize("kind", ["replaced", "in place", "behind a link"])
@pytest.mark.parametrize("source,target", [((0, 0), (SOMEBODY, GROUP)), ((SOMEBODY, GROUP), (0, 0)),
                                           ((SOMEBODY, GROUP), (SOMEBODY, 0)), ((0, 0), (0, GROUP))], ids=str)
def test_a_copy_onto_a_file_of_another_owner_loses_the_bits(client, tmp, kind, source, target):
    owned(f"{tmp}/from", 0o6755, *source)
    to = owned(f"{tmp}/to", 0o644, *target, data=b"old")
    if kind == "in place":
        os.link(to, f"{tmp}/other")
    if kind == "behind a link":
        os.symlink(to, f"{tmp}/link")
    copy(client, f"{tmp}/from", f"{tmp}/link" if kind == "behind a link" else to)
    assert content(to) == b"program" and owner_of(to) == target and mode_of(to) == 0o755


def test_a_copy_that_keeps_owner_and_group_keeps_the_bits(client, tmp):
    os.mkdir(f"{tmp}/tree")
    owned(f"{tmp}/tree/f", 0o6755, 0, 0)
    owned(f"{tmp}/theirs", 0o6755)
    owned(f"{tmp}/theirs-too", 0o600)
    copy(client, f"{tmp}/tree", f"{tmp}/to")
    copy(client, f"{tmp}/tree/f", f"{tmp}/g")
    copy(client, f"{tmp}/theirs", f"{tmp}/theirs-too")
    for path in ("to/f", "g", "theirs-too"):
        assert mode_of(f"{tmp}/{path}") == 0o6755, path
    assert owner_of(f"{tmp}/theirs-too") == (SOMEBODY, GROUP)


def test_the_group_that_a_directory_gives_counts(client, tmp):
    """Below a set-gid directory a new file has the directory's group."""
    os.mkdir(f"{tmp}/shared")
    os.chown(f"{tmp}/shared", 0, GROUP)
    os.chmod(f"{tmp}/shared", 0o2777)
    owned(f"{tmp}/f", 0o6755, 0, 0)
    owned(f"{tmp}/g", 0o6755, 0, GROUP)
    for name in "fg":
        copy(client, f"{tmp}/{name}", f"{tmp}/shared/{name}")
    assert owner_of(f"{tmp}/shared/f") == (0, GROUP) and mode_of(f"{tmp}/shared/f") == 0o755
    assert owner_of(f"{tmp}/shared/g") == (0, GROUP) and mode_of(f"{tmp}/shared/g") == 0o6755


def test_a_copy_under_a_profile_loses_the_bits():
    """The copy is made by an fs helper, which is root without capabilities."""
    with rig_of("root") as rig:
        tree = rig.tree()
        tree.dir(f"{tree.w}/tree")
        owned(f"{tree.w}/tree/f", 0o6755)
        box = Box(rig.client, workspace_write(), tree.w)
        assert box.ask("copy", sourcePath=f"{tree.w}/tree", destinationPath=f"{tree.w}/to", recursive=True) == {}
        assert owner_of(f"{tree.w}/to/f") == (0, 0) and mode_of(f"{tree.w}/to/f") == 0o755


# Overwrites the end of the source as soon as the copy has begun; the kernel then clears the set-id bits of the source.
WRITER = """
import os, sys
source, destination = sys.argv[1:]
os.setgroups([]); os.setgid(65534); os.setuid(65534)
f = os.open(source, os.O_WRONLY)
end = os.fstat(f).st_size
print("ready", flush=True)
while not os.path.exists(destination):
    pass
os.pwrite(f, b"theirs!", end - 7)
os.close(f)
sys.stdin.read()
"""


def test_a_source_that_loses_its_bits_while_it_is_copied(client, tmp):
    """A set-uid program of root that others may write: a write clears its bits, and a copy of the written content must not have
    them."""
    os.chmod(tmp, 0o755)
    os.mkdir(f"{tmp}/tree")
    caught = 0
    for n in range(300):  # on a busy machine the writer is rarely in time
        source = owned(f"{tmp}/tree/f", 0o6777, 0, 0, data=bytes(32 * MIB))
        with background([sys.executable, "-c", WRITER, source, f"{tmp}/to{n}/f"]):
            copy(client, f"{tmp}/tree", f"{tmp}/to{n}")
        with open(f"{tmp}/to{n}/f", "rb") as f:
            f.seek(-7, os.SEEK_END)
            if f.read() == b"theirs!":
                caught += 1
                assert mode_of(f"{tmp}/to{n}/f") == 0o777
        os.unlink(f"{tmp}/to{n}/f")
        if caught == 3:
            return
    assert caught, "the writer was never in time"


@pytest.mark.parametrize("more", [{}, {"atomic": False}, {"mode": 0o6755}], ids=str)
def test_a_write_leaves_owner_and_bits_together(client, tmp, more):
    """A write by root keeps the owner of the file and its mode with the set-id bits."""
    path = owned(f"{tmp}/f", 0o6755)
    write(client, path, b"new", **more)
    assert owner_of(path) == (SOMEBODY, GROUP) and mode_of(path) == 0o6755 and content(path) == b"new"


def test_blocks_leave_owner_and_bits_together(client, tmp):
    path = owned(f"{tmp}/f", 0o6755)
    fs(client, "open", handleId="h", path=path, mode="replace")
    fs(client, "writeBlock", handleId="h", offset=0, chunk=b64(b"new"))
    fs(client, "close", handleId="h")
    assert owner_of(path) == (SOMEBODY, GROUP) and mode_of(path) == 0o6755 and content(path) == b"new"
