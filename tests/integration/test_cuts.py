"""Clients whose connections are cut at random, a thousand times, have all output in the end.

The client here behaves as real ones do: it connects again, resumes its session, retries while the old connection is
still believed, reads what it has missed, goes on with notifications and ignores what it knows already. Requests whose
answer was lost are sent again: a write under its old writeId, a start after a look whether the process is there.
"""

import base64
import hashlib
import json
import os
import random
import select
import sys
import threading
import time

import pytest

from cutting_proxy import KINDS, CuttingProxy
from farhand_client import DEFAULT_ENV, IS_SANITIZED, PATIENCE, RawSocket, Server

IS_SOAK = os.environ.get("FARHAND_SLOW") == "1"
IS_FULL = IS_SOAK or not IS_SANITIZED
# The default run uses a fixed seed; a soak run chooses one and prints it.
SEED = int(os.environ.get("FARHAND_SEED") or (random.randrange(10 ** 6) if IS_SOAK else 5))

CLIENTS = 8
RESUMES = 5000 if IS_SOAK else 1000 if IS_FULL else 400
CONFIG = "retained_output_bytes_per_process = 8388608\n"
SILENCE_SECONDS = 30
RESUME_SECONDS = 25  # a real client gives up then

# Prints numbered lines until it reads "stop"; on stderr it repeats its input, and a summary at the end. It is slow enough that
# the retained output does not overflow while the session is detached.
PRODUCER = r"""
import hashlib, os, select, sys
burst, pause = int(sys.argv[1]), float(sys.argv[2])
digest, told, n, running = hashlib.sha256(), b"", 0, True
while running:
    text = b"".join(b"%08d %s\n" % (i, b"x" * (i * 7919 % 97)) for i in range(n, n + burst))
    n += burst
    digest.update(text)
    while text:
        text = text[os.write(1, text):]
    if select.select([0], [], [], pause)[0]:
        told += os.read(0, 4096)
        *lines, told = told.split(b"\n")
        for line in lines:
            os.write(2, b"told " + line + b"\n")
            running = running and line != b"stop"
os.write(2, b"said %d %s\n" % (n, digest.hexdigest().encode()))
sys.exit(7)
"""


def line(n):
    return b"%08d %s\n" % (n, b"x" * (n * 7919 % 97))


class Lost(Exception):
    """The connection is gone."""


class Watched:
    """One process as its client knows it."""

    def __init__(self, process_id, argv):
        self.id = process_id
        self.argv = argv
        self.is_started = False
        self.last_seq = 0
        self.ahead = {}  # notifications beyond a gap, by seq
        self.out = {"stdout": bytearray(), "stderr": bytearray()}
        self.exit_code = None
        self.exited_seq = None
        self.closed_seq = None
        self.writes = []  # lines, in order; the last may not be answered yet
        self.is_write_open = False

    def notified(self, method, params):
        if params["seq"] <= self.last_seq:
            return
        self.ahead[params["seq"]] = (method, params)
        assert len(self.ahead) <= 256, "a real client drops the process here"
        self._catch_up()

    def _catch_up(self):
        while (event := self.ahead.pop(self.last_seq + 1, None)) is not None:
            method, params = event
            self.last_seq += 1
            assert self.closed_seq is None, f"{method} after closed"
            if method == "process/output":
                self.out[params["stream"]] += base64.b64decode(params["chunk"])
            elif method == "process/exited":
                assert self.exited_seq is None
                self.exited_seq, self.exit_code = self.last_seq, params["exitCode"]
            else:
                assert method == "process/closed" and self.exited_seq is not None
                self.closed_seq = self.last_seq

    @property
    def is_closed(self):
        return self.closed_seq is not None

    def read(self, after, result):
        """The answer to process/read: all that happened between `after` and nextSeq. Some of it may be known by now."""
        assert result["failure"] is None and "gap" not in result
        missed = {chunk["seq"]: chunk for chunk in result["chunks"]}
        assert list(missed) == sorted(missed) and min(missed, default=after + 1) > after, list(missed)
        untold = [seq for seq in range(after + 1, result["nextSeq"]) if seq not in missed]
        ends = [("process/exited", result["exited"], self.exited_seq),
                ("process/closed", result["closed"], self.closed_seq)]
        ends = [method for method, is_true, seq in ends if is_true and (seq is None or seq > after)]
        assert len(untold) == len(ends), f"chunks {list(missed)} after {after} of {result['nextSeq']}, {ends}"
        for chunk in missed.values():
            self.notified("process/output", chunk)
        for seq, method in zip(untold, ends):
            self.notified(method, {"seq": seq, "exitCode": result["exitCode"]})


class Resuming(threading.Thread):
    """A client that connects again after each cut, in a thread of its own. `failure`: the error that ended it."""

    def __init__(self, port, seed, resumes, processes):
        super().__init__(daemon=True)
        self.port = port
        self.wanted = resumes
        self.resumes = 0
        self.refused = 0  # how often the server has answered -32010
        self.longest_s = 0.0  # the longest time without a message
        self.processes = {p.id: p for p in processes}
        self.failure = None
        self.deadline = time.monotonic() + (120 + resumes) * PATIENCE
        self._rng = random.Random(seed)
        self._session = None
        self._raw = None
        self._ident = 0
        self._seen = {}  # process id -> last seq notified on this connection

    def run(self):
        try:
            while not all(p.is_closed for p in self.processes.values()):
                try:
                    self._connect()
                    self._serve()
                except (Lost, EOFError, ConnectionError):
                    pass
                finally:
                    if self._raw:
                        self._raw.close()
        except BaseException as failure:  # pylint: disable=broad-except
            self.failure = failure

    # One connection

    def _message(self):
        """The next message. A close frame is a failure: the proxy only cuts the stream, so that the server has nothing to
        object to."""
        parts = []
        began = time.monotonic()
        # A producer prints many times a second, and the proxy's stalls are short: longer silence means a lost connection. Pings
        # do not count.
        silent_until = began + SILENCE_SECONDS * PATIENCE
        while True:
            assert time.monotonic() < self.deadline, f"not done after {self.resumes} resumes"
            fin, opcode, payload = self._raw.read_frame((silent_until - time.monotonic()) / PATIENCE)
            if opcode == 9:
                self._raw.frame(10, payload)
                continue
            assert opcode == (0 if parts else 1), (opcode, payload)
            parts.append(payload)
            if fin:
                self.longest_s = max(self.longest_s, time.monotonic() - began)
                return json.loads(b"".join(parts))

    def _call(self, method, params):
        """Sends a request and returns its answer; handles the notifications that come before it."""
        self._ident += 1
        self._raw.text({"id": self._ident, "method": method, "params": params})
        while True:
            message = self._message()
            if "method" not in message:
                assert message["id"] == self._ident
                return message
            self._notified(message)

    def _notified(self, message):
        params = message["params"]
        before = self._seen.get(params["processId"], params["seq"] - 1)
        assert params["seq"] == before + 1, f"{message['method']} {params['seq']} after {before} on one connection"
        self._seen[params["processId"]] = params["seq"]
        self.processes[params["processId"]].notified(message["method"], params)

    def _connect(self):
        deadline = time.monotonic() + RESUME_SECONDS * PATIENCE
        while True:
            assert time.monotonic() < deadline, "a real client has given up by now"
            self._seen = {}
            try:
                self._raw = RawSocket(self.port)
                self._raw.upgrade()
                answer = self._call("initialize", {"clientName": "cuts", "resumeSessionId": self._session})
            except (EOFError, ConnectionError):
                self._raw.close()
                continue
            if "result" in answer:
                break
            assert answer["error"]["code"] == -32010, answer
            self.refused += 1
            self._raw.close()
            select.select([], [], [], 0.1)
        self.resumes += self._session is not None
        assert self._session in (None, answer["result"]["sessionId"])
        self._session = answer["result"]["sessionId"]
        self._raw.text({"method": "initialized"})

    def _serve(self):
        for process in self.processes.values():
            self._find_or_start(process)
            if process.is_write_open:
                self._write(process)
        while not all(p.is_closed for p in self.processes.values()):
            for process in self.processes.values():
                if not process.is_write_open and not process.is_closed and process.writes[-1:] != ["stop"]:
                    self._maybe_write(process)
            message = self._message()
            assert "method" in message, message
            self._notified(message)

    def _find_or_start(self, process):
        while True:
            # Whether the start reached the server is not known when its answer was lost.
            after = process.last_seq
            answer = self._call("process/read", {"processId": process.id, "afterSeq": after, "maxBytes": None,
                                                 "waitMs": 0})
            if "result" in answer:
                process.is_started = True
                process.read(after, answer["result"])
                return
            assert not process.is_started, answer
            assert answer["error"]["code"] == -32600, answer
            if answer["error"]["message"] == f"unknown process id {process.id}":
                answer = self._call("process/start", {
                    "processId": process.id, "argv": process.argv, "cwd": "/tmp", "env": DEFAULT_ENV, "tty": False,
                    "pipeStdin": True})
                assert answer["result"]["processId"] == process.id
            else:
                assert answer["error"]["message"] == f"process id {process.id} is starting"

    def _maybe_write(self, process):
        if self.resumes >= self.wanted:
            process.writes.append("stop")
        elif self._rng.random() < 0.1:
            process.writes.append(f"{len(process.writes)} {self._rng.random()}")
        else:
            return
        process.is_write_open = True
        self._write(process)

    def _write(self, process):
        answer = self._call("process/write", {
            "processId": process.id, "writeId": f"w{len(process.writes)}",
            "chunk": base64.b64encode(process.writes[-1].encode() + b"\n").decode()})
        status = answer["result"]["status"]
        # A repeated "stop" may arrive when the program has already read the first one and ended.
        assert status == "accepted" or (process.writes[-1] == "stop" and status == "stdinClosed"), status
        process.is_write_open = False


def check(process):
    """Checks that the output is byte for byte what the producer printed, and that it read each write once and in order."""
    out, err = bytes(process.out["stdout"]), bytes(process.out["stderr"])
    told = b"".join(b"told " + text.encode() + b"\n" for text in process.writes)
    count = out.count(b"\n")
    assert out == b"".join(map(line, range(count))), "wrong lines"
    assert err == told + b"said %d %s\n" % (count, hashlib.sha256(out).hexdigest().encode())
    assert process.exit_code == 7


def producers(index):
    python = [sys.executable, "-S", "-E", "-c", PRODUCER]
    return [Watched(f"steady-{index}", python + ["12", "0.004"]), Watched(f"pausing-{index}", python + ["400", "0.3"])]


def run_clients(proxy, count, resumes):
    clients = [Resuming(proxy.port, SEED + n, -(-resumes // count), producers(n)) for n in range(count)]
    for client in clients:
        client.start()
    for client in clients:
        client.join((150 + resumes) * PATIENCE)
        assert not client.is_alive()
        if client.failure:
            raise client.failure
        for process in client.processes.values():
            check(process)
    said = sum(len(p.out["stdout"]) for c in clients for p in c.processes.values())
    print(f"{sum(c.resumes for c in clients)} resumes, {sum(c.refused for c in clients)} times still attached, "
          f"{said} bytes, longest silence {max(c.longest_s for c in clients):.2f} s, seed {SEED}, "
          f"fates {dict(proxy.counts)}")
    return clients


def test_1000_resumes_with_random_cuts_give_identical_output():
    # Connections that vanish cost two seconds each, and have a test of their own.
    kinds = {kind: weight for kind, weight in KINDS.items() if kind != "vanish"}
    with Server(config=CONFIG) as server, CuttingProxy(server.port, seed=SEED, kinds=kinds) as proxy:
        clients = run_clients(proxy, CLIENTS, RESUMES)
        assert sum(c.resumes for c in clients) >= RESUMES
        assert all(proxy.counts[kind] > 0 for kind in kinds)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "vanish"])
def test_each_kind_of_cut_alone(kind):
    with Server(config=CONFIG) as server:
        with CuttingProxy(server.port, seed=3, kinds={kind: 1}, most_bytes=30_000) as proxy:
            run_clients(proxy, 2, 20)


def test_connections_that_vanish_give_identical_output():
    # The producer prints more in two seconds than such a connection carries before it vanishes: the last connections are not cut.
    with Server(config=CONFIG) as server:
        with CuttingProxy(server.port, seed=3, kinds={"vanish": 1}, most_bytes=30_000, most_struck=6) as proxy:
            run_clients(proxy, 2, 2)
            assert proxy.counts["vanish"] >= 2


@pytest.mark.parametrize("script", ["sleep 600", "while :; do echo tick; sleep 0.01; done", "exec yes"],
                         ids=["silent", "ticking", "flooding"])
def test_a_session_comes_back_from_a_connection_that_vanished(script):
    """The old connection stays open: the peer's kernel acknowledges what fits into its buffer, but no program reads it."""
    with Server() as server, server.raw() as old:
        session = old.initialize()["sessionId"]
        old.rpc(1, "process/start", {"processId": "p", "argv": ["/bin/sh", "-c", script], "cwd": "/tmp",
                                     "env": DEFAULT_ENV, "tty": False})
        began = time.monotonic()
        deadline = began + RESUME_SECONDS * PATIENCE
        while True:
            with server.raw() as new:
                new.upgrade()
                answer = new.rpc(1, "initialize", {"clientName": "new", "resumeSessionId": session})
                if "result" in answer:
                    break
                assert answer["error"]["code"] == -32010
            assert time.monotonic() < deadline, "a real client has given up by now"
            select.select([], [], [], 0.1)
        assert time.monotonic() - began > 1.9, "a connection has two seconds to answer a ping"
