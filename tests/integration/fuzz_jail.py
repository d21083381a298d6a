"""A server that a fuzzer may talk to: it can write nothing but a small file system of its own, and reach no network.

It runs as a user without rights, in a mount namespace where every mount is read-only but one tmpfs, and in a network
namespace without a link. Clients come in through its unix socket, by way of /proc. Programs are copied into the tmpfs, so
that the user need not be able to reach the build tree.
"""

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import tempfile

import pytest

from farhand_client import BIN, PATIENCE, SANITIZER_MARKS, RawSocket, wait_until

FUZZER = 58232  # a user id that no other program uses, so that the fuzzer reaches no process of another user
TMPFS_BYTES = 96 << 20
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
MS_REC, MS_PRIVATE, MS_NOSUID, MS_NODEV = 0x4000, 1 << 18, 2, 4
SYS_MOUNT_SETATTR, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, 0x8000, 1

# Short times, so that sessions and processes are gone soon after the end, and leaks can be counted.
CONFIG = """detached_session_ttl_ms = 1500
max_detached_session_ttl_ms = 1500
exited_process_retention_ms = 300
shutdown_grace_period_ms = 100
max_processes_per_session = 24
"""

libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def unshare():
    if os.geteuid() == 0:
        check(libc.unshare(CLONE_NEWNS | CLONE_NEWNET), "unshare")
        return
    uid, gid = os.getuid(), os.getgid()
    check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as f:
            f.write(text)


def enter(base, uid):
    """Called in the process that becomes the server. Afterwards `base` is a fresh tmpfs, and nothing else can be written."""
    unshare()
    check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "make mounts private")
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)
    check(libc.syscall(SYS_MOUNT_SETATTR, -100, b"/", AT_RECURSIVE, attributes, 32), "make mounts read-only")
    check(libc.mount(b"tmpfs", base.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, b"size=%d,mode=755" % TMPFS_BYTES), "tmpfs")
    os.mkdir(f"{base}/bin")
    for name in ("farhand", "farhand-net", "farhand-init"):
        path = os.path.join(os.path.dirname(BIN), name) if name != "farhand" else BIN
        if os.path.exists(path):
            shutil.copy(path, f"{base}/bin/{name}")
    with open(f"{base}/config", "w", encoding="ascii") as f:
        f.write(CONFIG)
    for name in ("home", "state", "tmp", "work"):
        os.mkdir(f"{base}/{name}")
        os.chown(f"{base}/{name}", uid, -1 if os.geteuid() else uid)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    for limit, value in ((resource.RLIMIT_NPROC, 400), (resource.RLIMIT_FSIZE, TMPFS_BYTES), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (value, value))
    os.chdir(base)


class Jail:
    """The server, and what it holds."""

    def __init__(self):
        self.base = tempfile.mkdtemp(prefix="farhand-fuzz-", dir="/var/tmp")
        os.chmod(self.base, 0o755)
        uid = FUZZER if os.geteuid() == 0 else os.getuid()
        env = {"PATH": "/usr/bin:/bin", "HOME": f"{self.base}/home", "XDG_STATE_HOME": f"{self.base}/state",
               "TMPDIR": f"{self.base}/tmp"}
        env.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
        self._stderr = tempfile.TemporaryFile()
        argv = [f"{self.base}/bin/farhand", "serve", "--config", f"{self.base}/config", "--allow-other-namespaces",
                "--listen", f"unix:{self.base}/work/socket"]
        try:
            self.proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._stderr, env=env,
                                         umask=0o022, preexec_fn=lambda: enter(self.base, uid))
        except subprocess.SubprocessError as e:
            os.rmdir(self.base)
            pytest.skip(f"no namespaces for the fuzzer here: {e}")
        self.pid = self.proc.pid
        self.path = f"/proc/{self.pid}/root{self.base}/work/socket"
        assert self.proc.stdout.readline(), self.stderr()

    def work(self):
        """The writable directory, as the server sees it."""
        return f"{self.base}/work"

    def connect(self, timeout=20):
        return RawSocket(path=self.path, timeout=timeout)

    def stderr(self):
        return os.pread(self._stderr.fileno(), 1 << 20, 0).decode(errors="replace")

    def is_alive(self):
        return self.proc.poll() is None

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def rss_mib(self):
        with open(f"/proc/{self.pid}/status", encoding="latin-1") as f:
            return [int(line.split()[1]) // 1024 for line in f if line.startswith("VmRSS")][0]

    def processes(self):
        """The names of all descendants of the server, sorted."""
        found = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    with open(f"/proc/{entry}/stat", encoding="latin-1") as f:
                        text = f.read()
                except OSError:
                    continue
                name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
                if rest[0] != "Z":
                    found[int(entry)] = (int(rest[1]), name)
        below, frontier = [], [self.pid]
        while frontier:
            frontier = [pid for pid, (parent, _) in found.items() if parent in frontier]
            below += [found[pid][1] for pid in frontier]
        return sorted(below)

    def commands(self):
        """The names of the descendants that are commands, without the helpers that the server keeps for later requests."""
        kept = ("fh-", "farhand")
        return [name for name in self.processes() if not name.startswith(kept)]

    def stop(self):
        """Ends the server with SIGTERM, and checks that no process of it is left."""
        assert self.is_alive(), f"the server has ended: {self.proc.returncode}\n{self.stderr()}"
        self.proc.send_signal(signal.SIGTERM)
        assert self.proc.wait(timeout=30 * PATIENCE) == 0, self.stderr()
        assert not any(mark in self.stderr() for mark in SANITIZER_MARKS), self.stderr()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.is_alive():
            self.proc.kill()
            self.proc.wait()
        self.proc.stdout.close()
        self._stderr.close()
        wait_until(lambda: not os.path.ismount(self.base), what="the namespace to go")
        os.rmdir(self.base)
