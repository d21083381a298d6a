"""farhand-egress alone, in a World: plays the server for it, so that tests see every message between the two and send what no server does.

The policy of a network is that of process/start, compiled here once more: a rule for each entry of `domains`.
"""

import array
import contextlib
import itertools
import json
import os
import socket
import struct
import subprocess
import tempfile
import threading
import time

from farhand_client import BIN, PATIENCE, SANITIZER_MARKS
from network_rig import ENV, PROBE, PYTHON
from world import CLONE_NEWNET, check, libc

EGRESS = os.path.join(os.path.dirname(BIN), "farhand-egress")
OPEN, RULES, CLOSE, ANSWER, PING, ASK, WITHDRAWN, DECIDED, ENDED, CLOSED, PONG = 1, 2, 3, 4, 5, 65, 66, 67, 68, 69, 70
HTTP_LISTENER, SOCKS_LISTENER = 0, 1
ACTIONS = ["allow", "deny", "ask"]
SOURCES = ["baseline_policy", "decider", "mode_guard", "proxy_state"]
PROTOCOLS = ["http", "https_connect", "socks5_tcp", "socks5_udp", "tcp", "dns"]
HEADER = struct.Struct("<BBH")


def packed(text):
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<I", len(data)) + data


def policy_bytes(proxy, has_questions=False):
    """The policy of a `proxy` of process/start, as net_policy_write spells it. Domains of the action `none` say nothing."""
    rules = [(name.lower().rstrip("."), what) for name, what in (proxy["domains"] or {}).items() if what != "none"]
    reviews = proxy.get("reviewDomains", [])
    data = struct.pack("<8B", 1, proxy["mode"] == "limited", 0, proxy["allowLocalBinding"], proxy["allowUpstreamProxy"],
                       proxy["enableSocks5"], has_questions, 0)
    data += struct.pack("<I", len(rules))
    for name, what in rules:
        data += struct.pack("<B", ACTIONS.index(what)) + packed(name) + struct.pack("<BIII", 0, 0, 0, 0)
    return data + struct.pack("<I", len(reviews)) + b"".join(packed(name) for name in reviews)


class Reader:
    """Fields of a message, one after the other."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, size):
        self.at += size
        return int.from_bytes(self.data[self.at - size:self.at], "little")

    def text(self):
        size = self.number(4)
        self.at += size
        return self.data[self.at - size:self.at].decode()


def decode(packet):
    """A message of egress as a dict."""
    r = Reader(packet)
    version, kind, zero = r.number(1), r.number(1), r.number(2)
    assert version == 1 and zero == 0 and kind in (ASK, WITHDRAWN, DECIDED, ENDED, CLOSED, PONG), packet
    m = {"type": kind, "network": 0 if kind == PONG else r.number(4)}
    if kind == ASK:
        m.update(question=r.number(4), protocol=PROTOCOLS[r.number(1)], port=r.number(2), host=r.text())
    elif kind == WITHDRAWN:
        m.update(question=r.number(4))
    elif kind == DECIDED:
        m.update(count=r.number(4), time_ms=r.number(8), action=r.number(1), source=r.number(1), protocol=r.number(1), flags=r.number(1),
                 port=r.number(2), reason=r.text(), host=r.text(), method=r.text(), client=r.text())
    elif kind == ENDED:
        m.update(protocol=r.number(1), port=r.number(2), action=r.number(1), host=r.text(), address=r.text(), rule=r.text(),
                 reason=r.text(), up=r.number(8), down=r.number(8), time_ms=r.number(8), took_ms=r.number(4))
    assert r.at == len(packet), (packet, m)
    return m


class Ended:
    """What a probe printed, what was decided for it, and what was asked: as network_rig has it."""

    def __init__(self, done, decisions, questions):
        self.done, self.decisions, self.questions = done, decisions, questions
        self.results = [json.loads(line) for line in done.stdout.splitlines()]

    def shown(self):
        return [["non_domain" if d["flags"] & 1 else "domain", ACTIONS[d["action"]], SOURCES[d["source"]], d["reason"],
                 PROTOCOLS[d["protocol"]], d["host"], d["port"], d["method"] if d["flags"] & 4 else None, bool(d["flags"] & 2)]
                for d in self.decisions for _ in range(d["count"])]


class EgressAlone:
    """A context manager. `answer` says what becomes of a question: an (action, reason), or None for silence."""

    def __init__(self, world, env=None, argv=(EGRESS, "--serve")):
        self.world, self.answer, self.messages = world, ("deny", "nobody said"), []
        self._ids, self._lock = itertools.count(1), threading.Condition()
        self.link, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._stderr = tempfile.TemporaryFile()
        clean = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}

        def prepare():
            world.enter()
            os.dup2(there.fileno(), 3)

        self.proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self._stderr, stderr=self._stderr, preexec_fn=prepare,
                                     close_fds=False, env={**clean, **(env or {})})
        there.close()
        self.has_ended = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        while True:
            try:
                packet = self.link.recv(65536)
            except OSError:
                packet = b""
            with self._lock:
                if not packet:
                    self.has_ended = True
                    self._lock.notify_all()
                    return
                message = decode(packet)
                self.messages.append(message)
                self._lock.notify_all()
            answer = self.answer(message) if callable(self.answer) else self.answer
            if message["type"] == ASK and answer is not None:
                with contextlib.suppress(OSError):
                    self.send(ANSWER, message["network"], self.answer_bytes(message["question"], *answer))

    @staticmethod
    def answer_bytes(question, action, reason="", remember=0, ttl_ms=0):
        return struct.pack("<IBBI", question, ACTIONS.index(action), remember, ttl_ms) + packed(reason)

    def send(self, kind, network=None, payload=b"", fds=()):
        self.send_raw(HEADER.pack(1, kind, 0) + (b"" if network is None else struct.pack("<I", network)) + payload, fds)

    def send_raw(self, data, fds=()):
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.link.sendmsg([data], control)

    def wait(self, predicate, seconds=20):
        """The first message for which predicate(message) is true, of those so far and to come."""
        with self._lock:
            end = time.monotonic() + seconds * PATIENCE
            while True:
                found = next((m for m in self.messages if predicate(m)), None)
                if found or self.has_ended or time.monotonic() > end:
                    assert found, f"no such message; ended: {self.has_ended}; {self.messages[-3:]}; {self.errors()}"
                    return found
                self._lock.wait(0.5)

    def wait_end(self, seconds=20):
        return self.proc.wait(seconds * PATIENCE)

    def errors(self):
        size = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), size, 0).decode(errors="replace")

    def listeners(self, count=2):
        """Sockets that listen on loopback of the world: made by a thread that has gone there."""
        made = []

        def make():
            with open(f"/proc/{self.world.proc.pid}/ns/net", "rb") as f:
                check(libc.setns(f.fileno(), CLONE_NEWNET), "setns")
            for _ in range(count):
                one = socket.socket()
                one.bind(("127.0.0.1", 0))
                one.listen(1024)
                made.append(one)

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return made

    @contextlib.contextmanager
    def memfd(self, data):
        fd = os.memfd_create("policy", os.MFD_CLOEXEC)
        try:
            os.write(fd, data)
            yield fd
        finally:
            os.close(fd)

    def open(self, proxy, has_questions=False):
        """Opens a network; returns its number and the variables for a command in it."""
        network = next(self._ids)
        listeners = self.listeners()
        with self.memfd(policy_bytes(proxy, has_questions)) as fd:
            self.send(OPEN, network, struct.pack("<IBHBH", 2, HTTP_LISTENER, 0, SOCKS_LISTENER, 0),
                      [fd, *(s.fileno() for s in listeners)])
        ports = [s.getsockname()[1] for s in listeners]
        for s in listeners:
            s.close()
        return network, {"HTTP_PROXY": f"http://127.0.0.1:{ports[0]}", "ALL_PROXY": f"socks5h://127.0.0.1:{ports[1]}"}

    def close(self, network):
        self.send(CLOSE, network)
        self.wait(lambda m: m["type"] == CLOSED and m["network"] == network)

    def probe(self, steps, proxy, timeout=60, launch=None, **_):
        network, env = self.open(proxy, "policyDecisionTimeoutMs" in (launch or {}))
        done = self.world.run([PYTHON, PROBE, json.dumps(steps)], env={**ENV, **env}, timeout=timeout * PATIENCE)
        assert done.returncode == 0, (done, self.errors())
        self.close(network)
        mine = [m for m in self.messages if m["network"] == network]
        asked = [{"request": {k: m[k] for k in ("protocol", "host", "port")}} for m in mine if m["type"] == ASK]
        return Ended(done, [m for m in mine if m["type"] == DECIDED], asked)

    def one(self, proxy, do, **step):
        step.pop("how", None)
        return self.probe([{"do": do, **step}], proxy).results[0]

    def __enter__(self):
        return self

    def __exit__(self, exc_type, *_):
        self.link.shutdown(socket.SHUT_RDWR)
        try:
            self.proc.wait(10 * PATIENCE)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
        self._thread.join(10)
        self.link.close()
        errors = self.errors()
        self._stderr.close()
        assert exc_type or not any(mark in errors for mark in SANITIZER_MARKS), errors
