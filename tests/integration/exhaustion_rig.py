"""What the tests of exhaustion share: a hostile program, and the honest session that must not notice it.

A hostile command uses up something that the kernel counts for each user. Meanwhile another session works, and every answer
that it waits for comes soon: within a second on an idle machine, within ANSWER_SECONDS on one that runs other tests too.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time

from farhand_client import PATIENCE, Client, wait_until
from sandbox_rig import Box, at, is_error, workspace_write

HERE = os.path.dirname(os.path.abspath(__file__))
ANSWER_SECONDS = 4


@contextlib.contextmanager
def built(source, *flags):
    """Compiles a source that lies beside the tests. Yields the path of the program, in a directory where every user can run it."""
    folder = tempfile.mkdtemp(prefix="fh-flood-", dir="/var/tmp")
    try:
        os.chmod(folder, 0o755)
        path = os.path.join(folder, "flood")
        done = subprocess.run(["cc", "-std=gnu17", "-O1", "-o", path, os.path.join(HERE, source), *flags], capture_output=True,
                              check=False)
        assert done.returncode == 0, done.stderr.decode()
        yield path
    finally:
        shutil.rmtree(folder)


class Honest:
    """Another session, with a workspace in which something is denied and something protected."""

    def __init__(self, rig, server=None):
        self.rig, self.tree = rig, rig.tree()
        self.server = server or rig.server
        self.tree.file(self.tree.w + "/secret/key", "secret")
        self.tree.file(self.tree.w + "/.git/config", "kept\n")
        self.profile = workspace_write(at(self.tree.w + "/secret", "deny"))

    @contextlib.contextmanager
    def soon(self, what):
        before = time.monotonic()
        yield
        took = time.monotonic() - before
        assert took < ANSWER_SECONDS * PATIENCE, f"{what} took {took:.2f} s"

    def work(self):
        """Opens a connection; starts, reads, writes and ends commands, plain and sandboxed; reads and writes files."""
        with self.soon("a connection"):
            client = Client(self.server.url)
        with client:
            for profile in ({"type": "disabled"}, self.profile):
                for tty in (False, True):
                    self._command(client, profile, tty)
            self._files(client)

    def _command(self, client, profile, tty):
        rig, w = self.rig, self.tree.w
        what = f"{profile['type']}, {'terminal' if tty else 'pipes'}"
        with self.soon(f"a start ({what})"):
            process = rig.start(["/bin/sh", "-c", "cat secret/key; echo new > made; read line; echo got $line; exec sleep 60"],
                                profile, w, client=client, tty=tty, pipeStdin=True)
        with self.soon(f"a write and what it gives ({what})"):
            rig.write(process, b"hello\n", client=client)
            wait_until(lambda: b"got hello" in client.output(process), 5, "the echo")
        assert profile["type"] == "disabled" or b"secret\n" not in client.output(process)
        with self.soon(f"the end ({what})"):
            client.call("process/terminate", {"processId": process}, 5)
            client.wait_exit(process, 5)

    def _files(self, client):
        box = Box(client, self.profile, self.tree.w)
        path = self.tree.w + "/file"
        for ask in (lambda: box.write(path, b"data"), lambda: box.read(path)):
            with self.soon("a file request"):
                assert not is_error(ask()), box.told
        with self.soon("a file request"):
            assert is_error(box.read(self.tree.w + "/secret/key"))
        with self.soon("a file request"):
            assert is_error(box.write(self.tree.w + "/.git/config"))
