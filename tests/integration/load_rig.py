"""Shared by the tests of load and of system limits: a look at the server's descriptors and memory, and Flow.

Flow is a client of few lines that is fast enough not to be the bottleneck. It checks what it is told of each process:
numbers without a gap, nothing after the end. Sanitized builds do a part of the work, unless FARHAND_SLOW=1 asks for all.
"""

import base64
import collections
import json
import os
import select
import socket
import time

from farhand_client import DEFAULT_ENV, IS_SANITIZED, PATIENCE, RawSocket, RpcError, wait_until

KIB = 1024

IS_SOAK = os.environ.get("FARHAND_SLOW") == "1"
IS_FULL = IS_SOAK or not IS_SANITIZED


# What the system says


def status_kib(pid, name="VmRSS"):
    with open(f"/proc/{pid}/status", encoding="latin-1") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(name + ":"))


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(child) for child in f.read().split()]


def spawner_of(server):
    (spawner,) = children(server.pid)
    return spawner


def holdings(server):
    """The descriptors of server and spawner; a test compares them before and after."""
    return open_files(server.pid), open_files(spawner_of(server))


def wait_settled(server, before):
    """Waits until every keeper has ended and server and spawner have the same descriptors as `before`."""
    wait_until(lambda: children(spawner_of(server)) == [], 30, "end of all keepers")
    wait_until(lambda: holdings(server) == before, 10, f"{before} open files again, not {holdings(server)}")


# The client


def frame(message):
    """One text frame with the mask 0, so that the payload need not be masked."""
    payload = json.dumps(message).encode()
    return RawSocket.make_frame(1, b"", length=len(payload))[:-4] + bytes(4) + payload


def start_params(process_id, argv, **kw):
    return {"processId": process_id, "argv": argv, "cwd": "/tmp", "env": DEFAULT_ENV, "tty": False, **kw}


class Told:
    """The notifications that a client received about one process. Fails when they are not in order."""

    def __init__(self):
        self.next_seq = 1
        self.out = collections.defaultdict(bytearray)
        self.exit_code = None
        self.is_closed = False

    def take(self, method, params):
        assert params["seq"] == self.next_seq, (params["seq"], self.next_seq)
        assert not self.is_closed, f"{method} after closed"
        self.next_seq += 1
        if method == "process/output":
            self.out[params["stream"]] += base64.b64decode(params["chunk"])
        elif method == "process/exited":
            assert self.exit_code is None
            self.exit_code = params["exitCode"]
        else:
            assert method == "process/closed" and self.exit_code is not None
            self.is_closed = True


class Flow:
    """A connection that is read when the test says so."""

    def __init__(self, server, receive_bytes=None):
        self.raw = RawSocket(server.port)
        self.sock = self.raw.sock
        if receive_bytes:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.limits = self.raw.initialize()["limits"]
        self.input = bytearray(self.raw.buffer)
        self.told = collections.defaultdict(Told)
        self.answers = {}
        self.refused = []  # answers that are errors
        self.closed = []  # ids, in order of their `closed`

    def send(self, *messages):
        self.raw.send(b"".join(map(frame, messages)))

    def start(self, process_id, argv, **kw):
        self.send({"id": process_id, "method": "process/start", "params": start_params(process_id, argv, **kw)})

    def pump(self, timeout=0.0, size=262144):
        """Waits for input and handles what has arrived. False: nothing came."""
        if not select.select([self.sock], [], [], timeout)[0]:
            return False
        data = self.sock.recv(size)
        assert data, "the server closed the connection"
        self.input += data
        self._take_frames()
        return True

    def _take_frames(self):
        at = 0
        while len(self.input) - at >= 2:
            size, head = self.input[at + 1], 2
            if size >= 126:
                head = 4 if size == 126 else 10
                if len(self.input) - at < head:
                    break
                size = int.from_bytes(self.input[at + 2:at + head], "big")
            if len(self.input) - at < head + size:
                break
            # None of these messages is longer than a frame; a ping needs no answer within a test.
            if self.input[at] == 0x81:
                self._take(json.loads(self.input[at + head:at + head + size]))
            else:
                assert self.input[at] == 0x89, hex(self.input[at])
            at += head + size
        del self.input[:at]

    def _take(self, message):
        if "method" not in message:
            self.answers[message["id"]] = message
            if "error" in message:
                self.refused.append(message)
            return
        process_id = message["params"]["processId"]
        assert process_id in self.answers, "told of a process before the answer to its start"
        told = self.told[process_id]
        told.take(message["method"], message["params"])
        if told.is_closed:
            self.closed.append(process_id)

    def pump_until(self, ready, timeout, what):
        deadline = time.monotonic() + timeout * PATIENCE
        while not ready():
            assert time.monotonic() < deadline, f"no {what} within {timeout} s"
            self.pump(1.0)

    def call(self, method, params=None, timeout=30):
        ident = f"call-{len(self.answers)}"
        self.send({"id": ident, "method": method, "params": params})
        self.pump_until(lambda: ident in self.answers, timeout, f"answer to {method}")
        answer = self.answers[ident]
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


# Short commands


def short_command(n):
    """The n-th command: (params, expected output by stream, exit code)."""
    token = f"token-{n:06d}"
    if n % 10 == 3:
        return {"argv": ["/bin/echo", token], "tty": True}, {"pty": f"{token}\r\n".encode()}, 0
    if n % 10 == 6:
        script = f"echo {token}; echo {token} >&2; exit {n % 250}"
        text = f"{token}\n".encode()
        return {"argv": ["/bin/sh", "-c", script]}, {"stdout": text, "stderr": text}, n % 250
    return {"argv": ["/bin/echo", token], "pipeStdin": n % 10 == 8}, {"stdout": f"{token}\n".encode()}, 0


def true_command(_n):
    """/bin/true, in the form of short_command."""
    return {"argv": ["/bin/true"]}, {}, 0


def run_short_commands(flow, numbers, in_flight=24, command=short_command):
    """Runs all commands, `in_flight` at a time; each is checked when it is closed, and then forgotten."""
    numbers = iter(numbers)
    running = {}
    refused = len(flow.refused)

    def start_next():
        n = next(numbers, None)
        if n is not None:
            params, *expected = command(n)
            running[f"p{n}"] = expected
            flow.start(f"p{n}", **params)

    for _ in range(in_flight):
        start_next()
    deadline = time.monotonic() + 200 * PATIENCE
    while running:
        assert time.monotonic() < deadline, f"{len(running)} commands are not closed"
        flow.pump(1.0)
        assert len(flow.refused) == refused, flow.refused[-1]
        for process_id in flow.closed:
            told = flow.told.pop(process_id)
            expected, exit_code = running.pop(process_id)
            assert flow.answers.pop(process_id)["result"]["processId"] == process_id
            got = dict(told.out), told.exit_code
            assert got == (expected, exit_code), f"{process_id}: {got}"
            start_next()
        flow.closed.clear()
