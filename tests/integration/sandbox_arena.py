"""Shared by the tests of hostile commands: the program, the host around its sandbox, and a world to attack.

An Arena is a server with all three; each of its attempts is followed by a look at everything that must be as before. The
file requests of test_sandbox_fs_escape.py meet the same world.
"""

import contextlib
import ctypes
import glob as globbing
import os
import re
import select
import shutil
import socket
import stat
import subprocess
import tempfile
import uuid

import pytest

from farhand_client import pid_alive, wait_until
from sandbox_rig import Tree, at, differences, glob, rig_of, snapshot, workspace_write

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = sorted(globbing.glob(os.path.join(HERE, "sandbox_attack*.c")))
NETWORKS = ["restricted", "enabled"]
SOCKET_TYPES = {"stream": socket.SOCK_STREAM, "dgram": socket.SOCK_DGRAM, "seqpacket": socket.SOCK_SEQPACKET}
SECRET = "SECRET-of-the-host"

with open(os.path.join(HERE, "sandbox_attack_calls.c"), encoding="utf-8") as source:
    CALLS = re.findall(r'\{ "([a-z0-9-]+)",\s*(?:FILTER|ANYTHING)', source.read())
NET_ATTEMPTS = {
    **{f"unix-{where}-{kind}": ("unix", where, kind) for where in ("path", "abstract") for kind in SOCKET_TYPES},
    "unix-high-bits": ("unix-high-bits",),
    **{f"pair-{kind}-{where}": ("pair", kind, where) for where in ("path", "abstract") for kind in SOCKET_TYPES},
    "pair-high-bits": ("pair", "dgram", "path", "high"),
    "tcp": ("inet", "tcp", "4", "BOX_TCP"), "tcp6": ("inet", "tcp", "6", "BOX_TCP"),
    "udp": ("inet", "udp", "4", "BOX_UDP"), "udp6": ("inet", "udp", "6", "BOX_UDP"),
    "server": ("inet", "tcp", "4", "BOX_PORT"), "far": ("far",),
    "vsock": ("family", "40", "stream"), "packet": ("family", "17", "dgram"),
    "every-family": ("every-family",), "netlink-audit": ("netlink-audit",),
}


@pytest.fixture(scope="module")
def program():
    """Compiles the hostile program. Yields its path, in a directory where every user can run it."""
    folder = tempfile.mkdtemp(prefix="fh-attack-", dir="/var/tmp")
    os.chmod(folder, 0o755)
    path = os.path.join(folder, "attack")
    done = subprocess.run(["cc", "-std=gnu17", "-O1", "-o", path, *SOURCES, "-lrt"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    yield path
    shutil.rmtree(folder)


class Host:
    """What a sandbox must not reach: sockets that listen, a process, shared memory, message queues."""

    def __init__(self, folder):
        self.name = f"farhand-{uuid.uuid4().hex[:12]}"
        self.folder = folder
        self.listeners = []
        for kind, number in SOCKET_TYPES.items():
            self._listen(socket.AF_UNIX, number, os.path.join(folder, kind))
            self._listen(socket.AF_UNIX, number, f"\0{self.name}-{kind}")
            os.chmod(os.path.join(folder, kind), 0o777)
        ports = {name: self._listen(socket.AF_INET, number, ("127.0.0.1", 0)).getsockname()[1]
                 for name, number in (("BOX_TCP", socket.SOCK_STREAM), ("BOX_UDP", socket.SOCK_DGRAM))}
        with contextlib.suppress(OSError):
            for name, number in (("BOX_TCP", socket.SOCK_STREAM), ("BOX_UDP", socket.SOCK_DGRAM)):
                self._listen(socket.AF_INET6, number, ("::1", ports[name]))
        self.victim = subprocess.Popen(["/bin/sleep", "3600"], env={"BOX_MARK": "of-the-victim"}, start_new_session=True)
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.key = int(uuid.uuid4()) & 0x7FFFFFFF
        self.ids = (self.libc.shmget(self.key, 4096, 0o1666), self.libc.semget(self.key, 1, 0o1666),
                    self.libc.msgget(self.key, 0o1666))
        assert min(self.ids) >= 0
        self.shm = os.path.join("/dev/shm", self.name)
        with open(self.shm, "w", encoding="utf-8") as f:
            f.write(SECRET)
        os.chmod(self.shm, 0o666)
        self.mq = self.libc.mq_open(f"/{self.name}".encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
        self.env = {"BOX_SOCKETS": folder, "BOX_ABSTRACT": self.name, "BOX_VICTIM": str(self.victim.pid),
                    "BOX_KEY": str(self.key), **{name: str(port) for name, port in ports.items()}}

    def _listen(self, family, kind, address):
        sock = socket.socket(family, kind)
        self.listeners.append(sock)
        sock.bind(address)
        if kind != socket.SOCK_DGRAM:
            sock.listen()
        return sock

    def check(self):
        heard = select.select(self.listeners, [], [], 0)[0]
        assert not heard, f"somebody got through to {[sock.getsockname() for sock in heard]}"
        assert pid_alive(self.victim.pid), "the victim is dead"
        with open(self.shm, encoding="utf-8") as f:
            assert f.read() == SECRET, "shared memory of the host has changed"
        assert not os.path.exists(self.shm + ".inside"), "shared memory of the command is on the host"

    def forget(self):
        """Empties the queues, so that what one failed attempt left in them does not fail the next one."""
        for sock in select.select(self.listeners, [], [], 0)[0]:
            sock.recv(4096) if sock.type == socket.SOCK_DGRAM else sock.accept()[0].close()

    def close(self):
        for sock in self.listeners:
            sock.close()
        self.victim.kill()
        self.victim.wait()
        self.libc.shmctl(self.ids[0], 0, None)
        self.libc.semctl(self.ids[1], 0, 0)
        self.libc.msgctl(self.ids[2], 0, None)
        self.libc.mq_unlink(f"/{self.name}".encode())
        os.unlink(self.shm)


class World(Tree):
    """A workspace full of read-only, denied and protected files, with the profile that makes them so."""

    def __init__(self, base, uid):
        super().__init__(base, uid)
        self.s = os.path.join(base, "s")
        for path in ("a.txt", "sub/b.txt", "p/ro/f", "a/b/c/ro/f", ".git/config", ".git/hooks/sample"):
            self.file(os.path.join(self.w, path), "kept\n")
        for path in ("p/secret/key", "p/hidden.txt", "q/x/k.env"):
            self.file(os.path.join(self.w, path), SECRET)
        self.file(os.path.join(self.o, "o.txt"), "kept\n")
        self.dir(os.path.join(self.o, "dir"))
        self.file(os.path.join(self.s, "key"), SECRET)
        for name, target in (("to-o", self.o), ("to-o.txt", self.o + "/o.txt"), ("to-key", self.s + "/key"),
                             ("to-s", self.s)):
            self.link(os.path.join(self.w, name), target)
        for path in (self.o + "/o.txt", self.w + "/p/ro/f", self.s + "/key"):
            with contextlib.suppress(OSError):
                os.setxattr(path, "user.kept", b"kept")
        if os.geteuid() == 0:
            os.mknod(self.w + "/device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
            os.chmod(self.w + "/device", 0o666)

    def profile(self, network="restricted"):
        return workspace_write(at(self.w + "/p/ro", "read"), at(self.w + "/p/secret", "deny"),
                               at(self.w + "/p/hidden.txt", "deny"), at(self.w + "/a/b/c/ro", "read"),
                               at(self.s, "deny"), glob("**/*.env"), network=network)

    def look(self):
        return snapshot(self.w, self.o, self.s, inodes=True, times=True, skip=(self.w + "/scratch",))


# Paths relative to the workspace. Like a mask itself, no directory above it can be renamed.
MASKS = ["p/ro", "p/secret", "p/hidden.txt", "a/b/c/ro", "q/x/k.env", ".git"]
ABOVE = ["p", "a", "a/b", "a/b/c", "q", "q/x"]
READ_ONLY = ["p/ro/f", "p/ro", ".git/config", ".git", ".git/hooks", "a/b/c/ro/f", "to-o.txt", "to-o"]


class Arena:
    """One server of one user, and the host around it."""

    def __init__(self, rig, program, host):
        self.rig, self.program, self.host = rig, program, host
        self.shared = self.world()
        before = self.shared.look()
        # This snapshot is taken once: a placeholder that is about to be removed must not become a part of it.
        self.shared.before = lambda: before

    def world(self):
        tree = self.rig.tree()
        return World(tree.base, self.rig.uid)

    def env(self, world):
        return {**self.host.env, "BOX_W": world.w, "BOX_O": world.o, "BOX_S": getattr(world, "s", world.o),
                "BOX_MOUNTS": os.readlink("/proc/self/ns/mnt"), "BOX_SERVER": str(self.rig.server.pid), "BOX_PORT": str(self.rig.server.port)}

    def attack(self, *args, world=None, profile=None, program=None, more_env=None, **kw):
        """Makes one attempt and looks at everything afterwards."""
        world = world or self.shared
        before = getattr(world, "before", world.look)()
        self.host.forget()
        done = self.rig.run([program or self.program, *args], profile or world.profile(), world.w,
                            env={**self.env(world), **(more_env or {})}, **kw)
        assert done.refused is None and done.out.startswith((b"held: ", b"skipped: ")), f"{args}: {done}"
        assert SECRET.encode() not in done.out + done.err, f"{args}: {done}"
        # Placeholders of the sandbox are removed when the command ends.
        try:
            wait_until(lambda: world.look() == before, 20, "the world as it was")
        except TimeoutError:
            raise AssertionError(f"{args} changed: {differences(before, world.look())}") from None
        self.host.check()
        if done.out.startswith(b"skipped: "):
            pytest.skip(done.out.decode().strip())
        return done


@contextlib.contextmanager
def arena_of(user, program, kind=Arena, **kw):
    """An Arena on a Rig of that user, or a skip."""
    with rig_of(user, env={"BOX_MARK": "of-the-server"}, **kw) as rig:
        folder = tempfile.mkdtemp(prefix="fh-", dir="/var/tmp")
        os.chmod(folder, 0o755)
        host = Host(folder)
        try:
            yield kind(rig, program, host)
        finally:
            host.close()
            shutil.rmtree(folder)
