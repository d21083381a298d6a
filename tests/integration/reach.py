"""Lets a user without rights reach what tests give to it, also when the source tree is closed to others (a home of mode 0700).

What that user cannot reach is copied to a directory that it can reach; the copies are removed when Python ends. Only root
copies: everybody else runs the tests as one user.
"""

import atexit
import glob
import os
import shutil
import tempfile

# A user id that no other program uses, so that tests can never signal a process that is not theirs.
UNPRIVILEGED = 58231
# A directory on a disk, outside of /tmp, that every user can write.
TREES = "/var/tmp"


def _is_closed(path):
    """Whether the user without rights cannot read the file at `path`: asked of the kernel, in a child that is that user. False
    where root cannot become that user (in a sandbox): then no test uses that user."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
            os.setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
            os._exit(0 if os.access(path, os.R_OK) else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


def _copies(paths):
    """A directory that holds copies of these files and that everybody may read."""
    owner = os.getpid()
    folder = tempfile.mkdtemp(prefix="fh-reach-", dir=TREES)
    # Only the process that made the directory removes it, not its forked children.
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
    os.chmod(folder, 0o755)
    for path in paths:
        os.chmod(shutil.copy(path, folder), 0o755)
    return folder


def reachable(path, *companions):
    """`path`, or a copy of it that everybody can reach. `companions`: patterns of files that it needs beside it."""
    if os.geteuid() != 0 or not _is_closed(path):
        return path
    folder = os.path.dirname(path)
    beside = [name for pattern in companions for name in glob.glob(os.path.join(folder, pattern))]
    return os.path.join(_copies([path] + [p for p in beside if os.path.isfile(p) and p != path]), os.path.basename(path))
