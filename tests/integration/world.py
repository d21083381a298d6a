"""A world of its own for tests of managed networks: a network namespace in which the server lives with name server and services.

Nothing in it leads to the machine outside, whose settings it does not touch: World makes the namespaces, world_inside.py is the
services, and `World.enter` is the preexec_fn that puts a program inside. Tests come in through unix sockets, which need no network.
"""

import contextlib
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile

import pytest

from farhand_client import PATIENCE, wait_until
from reach import TREES

HERE = os.path.dirname(os.path.abspath(__file__))
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
PUBLIC, OTHER, PUBLIC_6 = "93.184.216.34", "93.184.216.36", "2606:2800::34"
CERTIFIED = ("good.test", "*.sub.test", "other.test", "localhost")

libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def unshare():
    """In the child: namespaces in which it is root."""
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:
        check(libc.unshare(CLONE_NEWNS | CLONE_NEWNET), "unshare")
        return
    check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as f:
            f.write(text)


def certify(folder):
    """An authority (ca.pem), and a certificate of its own for the names of the world."""
    names = ",".join([f"DNS:{name}" for name in CERTIFIED] + [f"IP:{PUBLIC}", "IP:127.0.0.1"])
    with open(f"{folder}/ext", "w", encoding="ascii") as f:
        f.write(f"subjectAltName={names}\nbasicConstraints=CA:FALSE\n")
    for command in (
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=world -keyout ca.key -out ca.pem",
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=good.test -keyout key.pem -out request.pem",
            "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out cert.pem"):
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)


class World:
    """A context manager. `log` is what the services, the name server and the witness of packets have written down."""

    def __init__(self, without=()):
        """`without`: ports at which nobody listens."""
        self.folder = tempfile.mkdtemp(prefix="fh-world-", dir=TREES)
        os.chmod(self.folder, 0o755)
        self._stack = contextlib.ExitStack()
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._relays = 0
        try:
            certify(self.folder)
            self._stderr = self._stack.enter_context(tempfile.TemporaryFile())
            self.proc = subprocess.Popen([sys.executable, os.path.join(HERE, "world_inside.py"), self.folder, *map(str, without)],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, preexec_fn=unshare)
            self._stack.callback(self._end)
            self._answer()
            kinds = [("user", CLONE_NEWUSER)] if os.getuid() else []
            kinds += [("net", CLONE_NEWNET), ("mnt", CLONE_NEWNS)]
            self._namespaces = [(os.open(f"/proc/{self.proc.pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind)
                                for name, kind in kinds]
            for fd, _ in self._namespaces:
                self._stack.callback(os.close, fd)
            self.has_ipv6 = not any(entry["kind"] == "no-ipv6" for entry in self.log())
        except BaseException:
            self._stack.close()
            raise

    def _end(self):
        self.proc.stdin.close()
        try:
            self.proc.wait(10 * PATIENCE)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
        self.proc.stdout.close()

    def _answer(self):
        line = self.proc.stdout.readline()
        if not line:
            self.proc.wait()
            self._stderr.seek(0)
            raise OSError(f"the world ended: {self._stderr.read().decode()[-2000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise OSError(answer["error"])
        return answer.get("answer")

    def order(self, order, **more):
        self.proc.stdin.write(json.dumps({"order": order, **more}).encode() + b"\n")
        self.proc.stdin.flush()
        return self._answer()

    def enter(self):
        """preexec_fn: the new process is in the world."""
        where = os.getcwd()
        for fd, kind in self._namespaces:
            check(libc.setns(fd, kind), "setns")
        os.chdir(where)

    def log(self, since=0, kind=None, **like):
        """What happened since mark(), of one kind, with these members."""
        wanted = {**({"kind": kind} if kind else {}), **like}
        return [entry for entry in self.order("log", since=since) if all(entry.get(k) == v for k, v in wanted.items())]

    def mark(self):
        return self.order("mark")

    def await_log(self, since=0, kind=None, **like):
        return wait_until(lambda: self.log(since, kind, **like), what=f"{kind} {like}")

    def asked(self, since=0):
        """The names that the name server was asked for."""
        return {entry["name"] for entry in self.log(since, "dns")}

    def packets(self, since=0):
        """What was begun on the network: {(protocol, address, port)}, without questions to the name server."""
        return {(e["protocol"], e["address"], e["port"]) for e in self.log(since, "packet")} - {
            ("udp", "127.0.0.1", 53), ("tcp", "127.0.0.1", 53)}

    def serve(self, what, port):
        self.order("serve", what=what, port=port)

    def names(self, **names):
        """Changes what the name server says (`_` in a name stands for a dot), and forgets how often it was asked."""
        self.order("names", names={name.replace("_", "."): value for name, value in names.items()})

    def relay(self, port):
        """The path of a unix socket that leads to a TCP port in the world."""
        self._relays += 1
        path = f"{self.folder}/r{self._relays}"
        self.order("relay", path=path, port=port)
        return path

    def run(self, argv, **kw):
        return subprocess.run(argv, preexec_fn=self.enter, capture_output=True, check=False, **kw)

    def close(self):
        self._stack.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


_reason = []


def world_or_skip(**kw):
    """A World; skips the test where namespaces cannot be made."""
    if not _reason:
        with tempfile.TemporaryFile() as err:
            try:
                done = subprocess.run(["true"], preexec_fn=unshare, check=False, stderr=err)
                _reason.append(None if done.returncode == 0 else "true failed")
            except (OSError, subprocess.SubprocessError) as error:
                _reason.append(f"network and mount namespaces cannot be made here: {error}")
        if _reason[0] is None and shutil.which("openssl") is None:
            _reason[0] = "no openssl"
    if _reason[0]:
        pytest.skip(_reason[0])
    return World(**kw)
