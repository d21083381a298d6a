"""The target of a `.git` file stays protected, whatever is done to that file so that it cannot be read.

A `.git` file that cannot be read does not count as one without a target: the start is refused.
"""

import contextlib
import fcntl
import os
import signal
import stat

import pytest

from sandbox_arena import program as program  # a fixture
from sandbox_rig import USERS, Box, is_error, rig_of, workspace_write

HOOK = "gitstore/hooks/pre-commit"


@pytest.fixture(scope="module", params=USERS)
def rig(request):
    with rig_of(request.param) as r:
        yield r


def workspace(rig, pointer="gitdir: gitstore\n"):
    """W/.git is a file that names W/gitstore."""
    tree = rig.tree()
    tree.file(tree.w + "/.git", pointer)
    tree.file(tree.w + "/gitstore/hooks/sample")
    tree.file(tree.w + "/gitstore/config")
    return tree


def try_all(rig, tree, refused=None):
    """Neither a command nor a file request plants the hook; `refused`: what the errors say."""
    done = rig.sh(f"echo planted > {HOOK}; echo rc=$?", workspace_write(), tree.w)
    answer = Box(rig.client, workspace_write(), tree.w).write(os.path.join(tree.w, HOOK), b"planted")
    assert not os.path.exists(os.path.join(tree.w, HOOK)), (done, answer)
    if refused:
        assert done.refused is not None and refused in done.refused.message, done
    else:
        assert done.refused is None and b"rc=0" not in done.out, done
    assert is_error(answer) and (not refused or refused in answer[1]), answer


def test_the_target_of_a_pointer_is_protected(rig):
    try_all(rig, workspace(rig))


@contextlib.contextmanager
def lease(rig, path):
    """A process outside, of the same user, holds a lease on the file and does not give it up."""
    ready, done = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if os.geteuid() == 0 and rig.uid != 0:
                os.setgroups([])
                os.setresuid(rig.uid, rig.uid, rig.uid)
            signal.signal(signal.SIGIO, signal.SIG_IGN)
            fd = os.open(path, os.O_RDONLY)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            os.write(ready[1], b"y")
            os.close(done[1])
            os.read(done[0], 1)
        finally:
            os._exit(0)
    os.close(ready[1])
    os.close(done[0])
    try:
        if os.read(ready[0], 1) != b"y":
            pytest.skip("no lease can be had on this file system")
        yield
    finally:
        os.close(done[1])
        os.waitpid(pid, 0)
        os.close(ready[0])


def test_a_lease_does_not_hide_a_pointer(rig):
    tree = workspace(rig)
    with lease(rig, tree.w + "/.git"):
        try_all(rig, tree, refused=".git points at: Resource temporarily unavailable")
    try_all(rig, tree)


def test_a_lease_does_not_hide_a_common_repository(rig):
    tree = workspace(rig, "gitdir: worktree\n")
    tree.file(tree.w + "/worktree/commondir", "../gitstore\n")
    try_all(rig, tree)
    with lease(rig, tree.w + "/worktree/commondir"):
        try_all(rig, tree, refused="commondir points at: Resource temporarily unavailable")


def test_a_command_takes_no_lease(rig, program):
    tree = workspace(rig)
    done = rig.run([program, "lease", tree.w + "/.git", tree.w + "/new"], workspace_write(), tree.w)
    assert done.out.startswith(b"held: "), done


@pytest.mark.parametrize("text", ["gitdir: gitstore" + "/." * 2048 + "\n", "gitdir: gitstore\n" + "#" * 5000,
                                  " " * 4096 + "gitdir: gitstore\n"], ids=["long path", "long file", "long blanks"])
def test_a_pointer_that_is_too_long_is_refused(rig, text):
    try_all(rig, workspace(rig, text), refused=".git points at: File too large")


def test_a_pointer_that_cannot_be_read_is_refused(rig):
    """The owner of the file can make it readable again, and a command runs as the owner."""
    if rig.uid == 0:
        pytest.skip("root reads everything")
    tree = workspace(rig)
    os.chmod(tree.w + "/.git", 0)
    try_all(rig, tree, refused=".git points at: Permission denied")


@pytest.mark.parametrize("pointer", ["gitdir: missing/../gitstore\n", "gitdir: a/b/../../gitstore\n"])
def test_a_pointer_through_what_is_missing_is_refused(rig, pointer):
    """A command could make the missing directory, and then it leads somewhere."""
    try_all(rig, workspace(rig, pointer), refused="gitstore: No such file or directory")


@pytest.mark.parametrize("pointer", ["gitdir: gitstore \n", "gitdir: gitstore\nmore\n", "gitdir: gitstore\0\n"])
def test_a_pointer_that_programs_read_differently_is_refused(rig, pointer):
    """git takes blanks and lines for a part of the name, others do not."""
    try_all(rig, workspace(rig, pointer), refused=".git points at: Bad message")


def test_the_common_repository_of_a_directory_is_protected(rig):
    """`.git` is a directory with a file `commondir`."""
    tree = rig.tree()
    tree.file(tree.w + "/.git/commondir", "../gitstore\n")
    tree.file(tree.w + "/gitstore/hooks/sample")
    try_all(rig, tree)


@pytest.mark.parametrize("make", [lambda path: os.mkfifo(path), lambda path: os.mkdir(path)], ids=["fifo", "directory"])
def test_what_is_no_file_points_nowhere(rig, make):
    tree = rig.tree()
    tree.dir(tree.w)
    make(tree.w + "/.git")
    tree.own(tree.w + "/.git")
    done = rig.sh("echo new > file && echo DONE", workspace_write(), tree.w)
    assert done.out == b"DONE\n", done
    assert stat.S_IFMT(os.lstat(tree.w + "/.git").st_mode) in (stat.S_IFIFO, stat.S_IFDIR)


@pytest.mark.parametrize("text", ["", "something else\n", "gitdir:\n"])
def test_a_file_that_points_nowhere_is_no_reason_to_refuse(rig, text):
    tree = workspace(rig, text)
    done = rig.sh("echo new > file && echo DONE; echo planted > .git", workspace_write(), tree.w)
    assert done.out == b"DONE\n", done
    with open(tree.w + "/.git", encoding="utf-8") as f:
        assert f.read() == text
