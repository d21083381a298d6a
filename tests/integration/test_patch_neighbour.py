"""`farhand apply-patch` of root in a directory of another user (the neighbour), who puts links in place of its temporary files.

The neighbour waits for their names to appear, and may come too late; whatever becomes of the patch, nothing outside of the directory changes.
"""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from farhand_client import IS_SANITIZED
from fs_helpers import needs_root
from patch_rig import Patcher, patch, patch_server, update  # noqa: F401 (a fixture)
from sandbox_rig import UNPRIVILEGED
from test_fs_neighbour import picture

pytestmark = needs_root

ROUNDS = 2 if IS_SANITIZED else 6
LINE = b"this is a line of the large file, which is patched as a stream\n"
LARGE = 10 << 20  # above what is kept in memory

# As soon as a temporary file of a patch appears in a directory: takes it away, and puts a link to another file in its place.
REPLACER = """
import os, sys
uid, directory, target = sys.argv[1:]
os.setgroups([]); os.setgid(int(uid)); os.setuid(int(uid))
print("ready", flush=True)
while os.getppid() != 1:
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        try:
            if name.startswith(".farhand-patch-") and not os.path.islink(path):
                os.unlink(path)
                os.symlink(target, path)
        except OSError:
            pass
"""


@contextlib.contextmanager
def neighbour(program, *args):
    proc = subprocess.Popen([sys.executable, "-c", program, str(UNPRIVILEGED), *args], stdout=subprocess.PIPE)
    try:
        assert proc.stdout.readline() == b"ready\n"
        yield
    finally:
        proc.send_signal(signal.SIGKILL)
        proc.wait()
        proc.stdout.close()


def give(path):
    os.chown(path, UNPRIVILEGED, UNPRIVILEGED, follow_symlinks=False)


@pytest.fixture(name="ground", params=["here", "server"])
def any_ground(request, server):
    """A patcher whose directory is the neighbour's, and beside it a directory of root's."""
    with Patcher(request.param, server) as apply:
        os.chmod(apply.base, 0o755)
        apply.outside = os.path.join(apply.base, "outside")
        os.mkdir(apply.outside)
        with open(apply.outside + "/secret", "wb") as f:
            f.write(b"precious\n")
        os.chmod(apply.outside + "/secret", 0o600)
        give(apply.cwd)
        yield apply


def make_large(path):
    with open(path, "wb") as f:
        f.write(b"first\n" + LINE * (LARGE // len(LINE)))
    give(path)


def test_a_link_in_place_of_a_temporary_file_is_not_written_through(ground):
    before = picture(ground.outside)
    with neighbour(REPLACER, ground.cwd, ground.outside + "/secret"):
        for _ in range(ROUNDS):
            make_large(ground.path("f"))
            ground(patch(update("f", "first", "second")))
            assert picture(ground.outside) == before
            for name in os.listdir(ground.cwd):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(ground.path(name))
