"""Shared by the tests of the command line: farhand as root or as a user without rights, on pipes or on a terminal."""

import contextlib
import errno
import fcntl
import os
import pty
import select
import shutil
import struct
import subprocess
import tempfile
import termios
import time

import pytest

from farhand_client import BIN, PATIENCE
from sandbox_rig import TREES, UNPRIVILEGED, USERS, Tree, become, why_not

SECONDS = 60 * PATIENCE
# Runs farhand in a sandbox of farhand. There the sanitizers can neither trace a process to look for leaks nor write a log.
INSIDE = [BIN, "sandbox", "--", "env", "ASAN_OPTIONS=detect_leaks=0", BIN]


class Cmd:
    """`farhand` of one user. Trees lie outside /tmp, because --workspace-write makes /tmp writable."""

    def __init__(self, user):
        self.user = user
        self.uid = 0 if user == "root" else os.geteuid() or UNPRIVILEGED
        self.base = tempfile.mkdtemp(prefix="fh-cmd-", dir=TREES)
        os.chmod(self.base, 0o755)
        self.tree = Tree(os.path.join(self.base, "t"), self.uid)
        for path in (self.tree.base, self.tree.w, self.tree.o):
            self.tree.dir(path)
        home = self.tree.dir(os.path.join(self.base, "home"))
        self.env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": home, "XDG_STATE_HOME": os.path.join(home, "s"),
                    "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@localhost",
                    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@localhost",
                    **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}}

    def popen(self, argv, cwd=None, env=None, **kw):
        return subprocess.Popen([str(a) for a in argv], cwd=cwd or self.tree.w, env={**self.env, **(env or {})},
                                preexec_fn=become(self.uid), **kw)

    def run(self, argv, cwd=None, input=b"", env=None, **kw):
        """Returns (exit code, stdout, stderr)."""
        with self.popen(argv, cwd, env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                        **kw) as proc:
            try:
                out, err = proc.communicate(input, SECONDS)
            except BaseException:
                proc.kill()
                raise
            return proc.returncode, out, err

    def sandbox(self, *args, **kw):
        return self.run([BIN, "sandbox", *args], **kw)

    def git(self, *args, cwd=None):
        code, out, err = self.run(["git", *args], cwd=cwd)
        assert code == 0, err
        return out.decode().strip()

    def close(self):
        shutil.rmtree(self.base, ignore_errors=True)


@contextlib.contextmanager
def cmd_of(user):
    reason = why_not(user)
    if reason is not None:
        pytest.skip(reason)
    cmd = Cmd(user)
    try:
        yield cmd
    finally:
        cmd.close()


class Terminal:
    """farhand, or a program that starts it, as the session leader on a terminal of which we hold the other end.
    `redirect`: {1: file}."""

    def __init__(self, cmd, *args, rows=24, cols=80, redirect=None, env=None, program=(BIN, "sandbox")):
        self.seen = b""
        self.master, slave = pty.openpty()
        self.set_size(rows, cols)
        self.before = self.modes()

        def begin():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            become(cmd.uid)()

        if os.geteuid() == 0:
            os.fchown(slave, cmd.uid, -1)
        stdio = {i: (redirect or {}).get(i, slave) for i in range(3)}
        self.proc = subprocess.Popen([*program, *args], cwd=cmd.tree.w, env={**cmd.env, "TERM": "dumb", **(env or {})},
                                     stdin=stdio[0], stdout=stdio[1], stderr=stdio[2], preexec_fn=begin)
        self.slave = slave  # held, so that the modes can be read when everybody has gone

    def modes(self):
        return termios.tcgetattr(self.master)

    def is_raw(self):
        return not self.modes()[3] & termios.ICANON

    def set_size(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.master, text)

    def read_some(self, seconds):
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            self.seen += os.read(self.master, 65536)
        except OSError as e:
            if e.errno != errno.EIO:
                raise
            return False
        return True

    def expect(self, text, count=1):
        end = time.monotonic() + SECONDS
        while self.seen.count(text) < count:
            assert time.monotonic() < end, f"no {text!r} in {self.seen!r}"
            if not self.read_some(0.5) and self.proc.poll() is not None and not self.read_some(0.2):
                assert self.seen.count(text) >= count, f"no {text!r} in {self.seen!r}, exit {self.proc.returncode}"

    def until(self, true, what):
        end = time.monotonic() + SECONDS
        while not true():
            assert time.monotonic() < end, f"never: {what}; seen {self.seen!r}"
            self.read_some(0.02)

    def wait(self):
        self.until(lambda: self.proc.poll() is not None, "its end")
        while self.read_some(0.1):
            pass
        return self.proc.returncode

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            if self.proc.poll() is None:
                self.proc.kill()
        self.proc.wait()
        os.close(self.master)
        os.close(self.slave)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def eventually(predicate, what):
    end = time.monotonic() + SECONDS
    while not predicate():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.01)


__all__ = ["BIN", "INSIDE", "Cmd", "SECONDS", "Terminal", "USERS", "alive", "cmd_of", "eventually"]
