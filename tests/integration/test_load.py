"""Many of everything: short commands, floods, idle connections, running processes; and what happens at the limits.

Flow is a client of few lines that is fast enough not to be the bottleneck. Memory is judged in plain builds only: a
sanitizer keeps what was freed. Sanitized builds also do a part of the counts, unless FARHAND_SLOW=1 asks for all.
"""

import base64
import collections
import contextlib
import errno
import fcntl
import json
import os
import resource
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import pytest

import farhand_client
from farhand_client import (BIN, DEFAULT_ENV, IS_SANITIZED, IS_VALGRIND, PATIENCE, REPO, Client, RawSocket, RpcError,
                            Server, wait_until)

KIB = 1024
BOTH = pytest.mark.parametrize("tty", [False, True], ids=["pipes", "tty"])

IS_SOAK = os.environ.get("FARHAND_SLOW") == "1"
IS_FULL = IS_SOAK or not IS_SANITIZED


def many(count):
    """`count`, or a part of it where the build is slow and nobody asked for patience."""
    return count if IS_FULL else count // 4


# What the system says


def status_kib(pid, name="VmRSS"):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(name + ":"))


def pss_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Pss:"))


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(child) for child in f.read().split()]


def spawner_of(server):
    (spawner,) = children(server.pid)
    return spawner


def holdings(server):
    """What must come back to where it was: the descriptors of server and spawner."""
    return open_files(server.pid), open_files(spawner_of(server))


def wait_settled(server, before):
    """Every keeper has gone and every descriptor is closed."""
    wait_until(lambda: children(spawner_of(server)) == [], 30, "end of all keepers")
    wait_until(lambda: holdings(server) == before, 10, f"{before} open files again, not {holdings(server)}")


def raise_file_limit(wanted):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            pytest.skip(f"needs {wanted} open files, the hard limit is {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


# The client


def frame(message):
    """One text frame with the mask 0: no arithmetic."""
    payload = json.dumps(message).encode()
    return RawSocket.make_frame(1, b"", length=len(payload))[:-4] + bytes(4) + payload


def start_params(process_id, argv, **kw):
    return {"processId": process_id, "argv": argv, "cwd": "/tmp", "env": DEFAULT_ENV, "tty": False, **kw}


class Told:
    """What a client was told of one process. Takes notifications in order and complains about any other."""

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
        self.raw.initialize()
        self.input = bytearray(self.raw.buffer)
        self.told = collections.defaultdict(Told)
        self.answers = {}
        self.closed = []  # ids, in order of their `closed`

    def send(self, *messages):
        self.raw.send(b"".join(map(frame, messages)))

    def start(self, process_id, argv, **kw):
        self.send({"id": process_id, "method": "process/start", "params": start_params(process_id, argv, **kw)})

    def pump(self, timeout=0.0, size=262144):
        """Takes what there is, after waiting for something. False: nothing came."""
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
    """(params, expected output by stream, exit code) of the n-th."""
    token = f"token-{n:06d}"
    if n % 10 == 3:
        return {"argv": ["/bin/echo", token], "tty": True}, {"pty": f"{token}\r\n".encode()}, 0
    if n % 10 == 6:
        script = f"echo {token}; echo {token} >&2; exit {n % 250}"
        text = f"{token}\n".encode()
        return {"argv": ["/bin/sh", "-c", script]}, {"stdout": text, "stderr": text}, n % 250
    return {"argv": ["/bin/echo", token], "pipeStdin": n % 10 == 8}, {"stdout": f"{token}\n".encode()}, 0


def run_short_commands(flow, numbers, in_flight=24):
    """Keeps so many running until all are done; each is checked when it is closed, and forgotten."""
    numbers = iter(numbers)
    running = {}

    def start_next():
        n = next(numbers, None)
        if n is not None:
            params, *expected = short_command(n)
            running[f"p{n}"] = expected
            flow.start(f"p{n}", **params)

    for _ in range(in_flight):
        start_next()
    deadline = time.monotonic() + 200 * PATIENCE
    while running:
        assert time.monotonic() < deadline, f"{len(running)} commands are not closed"
        flow.pump(1.0)
        for process_id in flow.closed:
            told = flow.told.pop(process_id)
            expected, exit_code = running.pop(process_id)
            assert flow.answers.pop(process_id)["result"]["processId"] == process_id
            assert (dict(told.out), told.exit_code) == (expected, exit_code)
            start_next()
        flow.closed.clear()


def test_10000_short_commands_lose_no_byte_and_leave_nothing():
    config = "exited_process_retention_ms = 100\nmax_processes_per_session = 100000\n"
    batch = many(5000 if IS_SOAK else 1000)
    with Server(config=config) as server, Flow(server) as flow:
        flow.call("environment/info", {})  # answered when the server has tried its sandboxes
        run_short_commands(flow, range(-40, 0))
        wait_until(lambda: children(spawner_of(server)) == [], what="end of the first keepers")
        before = holdings(server)
        sizes = []
        for at in range(0, 10 * batch, batch):
            run_short_commands(flow, range(at, at + batch))
            sizes.append((status_kib(server.pid), status_kib(spawner_of(server))))
        wait_settled(server, before)
        print(f"VmRSS of server and spawner after each {batch}: {sizes}")
        if not IS_SANITIZED:
            # The first batches warm up the heap; from there on, less than 40 bytes for a command.
            for warm, end in zip(sizes[2], sizes[-1]):
                assert end - warm < 256, sizes


# Floods


LINES = 100_000  # of nine bytes each
FIRST_LINE = 10_000_000
LINE_STEP = 997  # so that no two processes say the same


def flood_expected(numbers):
    """One text; each process says a part of it."""
    end = FIRST_LINE + max(numbers) * LINE_STEP + LINES
    text = subprocess.run(["seq", str(FIRST_LINE), str(end)], stdout=subprocess.PIPE, check=True).stdout
    return {n: memoryview(text)[9 * n * LINE_STEP:9 * (n * LINE_STEP + LINES)] for n in numbers}


def flood_argv(gate, n):
    """Waits until somebody opens the gate for writing; then says LINES lines."""
    first = FIRST_LINE + n * LINE_STEP
    return ["/bin/sh", "-c", f": < {gate}; exec seq {first} {first + LINES - 1}"]


class Quiet(threading.Thread):
    """A client that asks for the status now and then, and notes how long the answer took."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.client = Client(server.url)
        self.seconds = []
        self.failure = None
        self.stop = threading.Event()

    def run(self):
        try:
            while not self.stop.wait(0.02):
                began = time.monotonic()
                self.client.call("environment/status", timeout=20)
                self.seconds.append(time.monotonic() - began)
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = failure

    def finish(self):
        self.stop.set()
        self.join()
        self.client.close()
        if self.failure:
            raise self.failure
        return sorted(self.seconds)


def read_floods(flows, pause=0.0, size=262144, timeout=90):
    """Reads all of `flows` in turn until each of their processes is closed."""
    deadline = time.monotonic() + timeout * PATIENCE
    todo = {flow.sock: flow for flow in flows}
    while todo:
        left = deadline - time.monotonic()
        assert left > 0, f"{len(todo)} connections are not done"
        for sock in select.select(list(todo), [], [], min(left, 5))[0]:
            flow = todo[sock]
            flow.pump(0, size)
            if len(flow.closed) == len(flow.numbers):
                del todo[sock]
        if pause:
            select.select([], [], [], pause)


def check_floods(flows, expected):
    for flow in flows:
        for n in flow.numbers:
            told = flow.told[f"p{n}"]
            assert told.exit_code == 0
            assert set(told.out) == {"stdout"}
            assert told.out["stdout"] == expected[n], f"wrong bytes of p{n}"


def test_200_floods_with_slow_and_stopped_readers(tmp):
    connections, each = 20, 10
    retained = 256 * KIB
    gate = f"{tmp}/gate"
    os.mkfifo(gate)
    expected = flood_expected(range(connections * each))
    with Server(config=f"retained_output_bytes_per_process = {retained}\n") as server:
        with contextlib.ExitStack() as stack:
            before_kib = status_kib(server.pid)
            flows = [stack.enter_context(Flow(server, 64 * KIB)) for _ in range(connections)]
            for index, flow in enumerate(flows):
                flow.numbers = range(index * each, (index + 1) * each)
                for n in flow.numbers:
                    flow.start(f"p{n}", flood_argv(gate, n))
            for flow in flows:
                flow.pump_until(lambda flow=flow: len(flow.answers) == each, 60, "starts")
            quiet = Quiet(server)
            quiet.start()
            quick, slow, stopped = flows[:10], flows[10:15], flows[15:]
            with open(gate, "wb"):
                crawl = threading.Thread(target=read_floods, args=(slow, 0.01, 64 * KIB), daemon=True)
                crawl.start()
                read_floods(quick)
                check_floods(quick, expected)
            held = [flow for flow in stopped if len(flow.closed) == each]
            assert not held, "who does not read holds back his own processes"
            crawl.join()
            check_floods(slow, expected)
            read_floods(stopped)
            check_floods(stopped, expected)
            times = quiet.finish()
            peak_kib = status_kib(server.pid, "VmHWM") - before_kib
            # A queue may pass its high mark by what one turn brings: a chunk of each process, in base64.
            bound_kib = connections * (each * (retained // KIB + 2 * 64 * 4 // 3) + 2 * KIB) + 8 * KIB
            print(f"server grew by {peak_kib} KiB at most, bound {bound_kib}; {len(times)} round trips, "
                  f"median {times[len(times) // 2] * 1000:.1f} ms, longest {times[-1] * 1000:.0f} ms")
            assert IS_SANITIZED or peak_kib < bound_kib
            assert times[-1] < 2 * PATIENCE
            assert len([t for t in times if t > 0.5 * PATIENCE]) <= len(times) // 20


def test_a_client_that_never_reads_slows_nobody(tmp):
    gate = f"{tmp}/gate"
    os.mkfifo(gate)
    expected = flood_expected([0])
    with Server() as server, Flow(server, 64 * KIB) as deaf, Flow(server) as flow:
        for n in range(8):
            deaf.start(f"p{n}", ["/usr/bin/yes"])
            deaf.send({"id": f"i{n}", "method": "environment/info"})
        deaf.pump_until(lambda: "i7" in deaf.answers, 20, "starts")
        flow.numbers = [0]
        flow.start("p0", flood_argv(gate, 0))
        with open(gate, "wb"):
            read_floods([flow], timeout=30)
        check_floods([flow], expected)
        with Flow(server) as other:
            run_short_commands(other, range(100))


# Many connections, many processes


class Idle:
    """A connection that has said hello and waits, at a descriptor beyond those that select() can watch."""

    def __init__(self, server):
        with RawSocket(server.port) as raw:
            raw.initialize()
            self.fd = fcntl.fcntl(raw.sock, fcntl.F_DUPFD_CLOEXEC, 2000)

    def ask(self):
        """A request and its answer."""
        with socket.socket(fileno=os.dup(self.fd)) as sock:
            sock.settimeout(30 * PATIENCE)
            sock.sendall(frame({"id": "idle", "method": "environment/status"}))
            got = b""
            while b'"idle"' not in got:
                got += sock.recv(4096)

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


def idle_memory(server):
    return pss_kib(server.pid) + pss_kib(spawner_of(server))


def test_5000_idle_connections_and_500_processes():
    connections, processes, sessions = 5000, many(500), 5
    raise_file_limit(connections + 1000)
    with Server() as server, contextlib.ExitStack() as stack:
        flow = stack.enter_context(Flow(server))
        flow.call("environment/info", {})  # answered when the server has tried its sandboxes
        run_short_commands(flow, range(20))
        wait_until(lambda: children(spawner_of(server)) == [], what="end of the first keepers")
        before, before_kib = holdings(server), idle_memory(server)

        idle = []
        stack.callback(lambda: [one.close() for one in idle])
        for _ in range(connections):
            idle.append(Idle(server))
        flow.call("environment/status")
        idle_kib = idle_memory(server) - before_kib

        owners = [stack.enter_context(Flow(server)) for _ in range(sessions)]
        for n in range(processes):
            owners[n % sessions].start(f"p{n}", ["/bin/sleep", "600"], tty=n % 2 == 0)
        for owner in owners:
            owner.pump_until(lambda owner=owner: len(owner.answers) >= processes // sessions, 60, "starts")
            assert all("result" in answer for answer in owner.answers.values())
        running_kib = idle_memory(server) - before_kib - idle_kib
        assert len(children(spawner_of(server))) == processes

        began = time.monotonic()
        flow.call("environment/status")
        run_short_commands(flow, range(20, 40))
        print(f"{connections} idle connections cost {idle_kib} KiB, {processes} processes {running_kib} KiB; "
              f"20 commands beside them took {time.monotonic() - began:.3f} s")
        if not IS_SANITIZED:
            assert idle_kib < connections * 16
            assert running_kib < processes * 32
        for one in idle[::100]:
            one.ask()

        for owner in owners:
            for n in range(processes):
                if f"p{n}" in owner.answers:
                    owner.send({"id": f"t{n}", "method": "process/terminate", "params": {"processId": f"p{n}"}})
            owner.pump_until(lambda owner=owner: len(owner.closed) == processes // sessions, 60, "closed")
            assert {owner.told[p].exit_code for p in owner.closed} == {137}
            owner.close()
        for one in idle:
            one.close()
        wait_settled(server, before)
        run_short_commands(flow, range(40, 60))


# Limits of the system


@pytest.fixture
def wrapped(monkeypatch, tmp):
    """A function that starts a server behind a command, such as `prlimit --nofile=64:64`."""
    if IS_VALGRIND:
        pytest.skip("limits would be those of valgrind")
    servers = contextlib.ExitStack()
    os.chmod(tmp, 0o755)

    def start(command):
        # The binary may lie where the user of the command may not go.
        shutil.copy(BIN, f"{tmp}/farhand")
        script = f"{tmp}/wrapped"
        with open(script, "w", encoding="ascii") as f:
            f.write(f'#!/bin/sh\nexec {command} {tmp}/farhand "$@"\n')
        os.chmod(script, 0o755)
        monkeypatch.setattr(farhand_client, "BIN", script)
        return servers.enter_context(Server(cwd="/"))

    with servers:
        yield start


def wait_idle(server, flow):
    """Runs something; the holdings of the server when nothing is left of it, nor of what it tries at its start."""
    flow.call("environment/info", {})
    run_short_commands(flow, range(-5, 0), in_flight=2)
    wait_until(lambda: children(spawner_of(server)) == [], what="end of all keepers")
    return holdings(server)


def start_until_refused(flow, prefix, argv, most, **kw):
    """Starts one after the other. Returns the ids of those that run, and (code, message, data) of the first error."""
    started = []
    for n in range(most):
        process_id = f"{prefix}{n}"
        flow.start(process_id, argv, **kw)
        flow.pump_until(lambda process_id=process_id: process_id in flow.answers, 30, "answer to a start")
        error = flow.answers[process_id].get("error")
        if error:
            return started, (error["code"], error["message"], error.get("data", {}))
        started.append(process_id)
    raise AssertionError(f"{most} processes were started and none was refused")


def terminate_all(flow, started):
    for process_id in started:
        flow.call("process/terminate", {"processId": process_id})
    flow.pump_until(lambda: len(flow.closed) == len(started), 30, "closed")
    assert {flow.told[process_id].exit_code for process_id in started} <= {137}
    flow.closed.clear()


def assert_error(error, number, name, steps):
    code, message, data = error
    assert code == -32603 and message.endswith(f" (os error {number})"), error
    assert (data["errno"], data["errnoName"]) == (number, name)
    assert data["step"] in steps


@BOTH
def test_a_server_without_descriptors_says_so_and_recovers(wrapped, tty):
    server = wrapped("prlimit --nofile=64:64")
    with Flow(server) as flow:
        before = wait_idle(server, flow)
        for turn in range(3):
            started, error = start_until_refused(flow, f"t{turn}-", ["/bin/sleep", "600"], 64, tty=tty)
            assert_error(error, errno.EMFILE, "EMFILE", ("pty", "stdio"))
            assert len(started) > 10
            assert flow.call("environment/status") == {"status": "ready"}
            terminate_all(flow, started)
            wait_settled(server, before)
            run_short_commands(flow, range(turn * 10, turn * 10 + 10), in_flight=2)


def test_connections_beyond_the_descriptors_wait_and_are_served(wrapped):
    server = wrapped("prlimit --nofile=48:48")
    with Flow(server) as flow, contextlib.ExitStack() as stack:
        before = wait_idle(server, flow)
        waiting = [stack.enter_context(RawSocket(server.port)) for _ in range(80)]
        for raw in waiting:
            raw.send(raw.upgrade_request())
        wait_until(lambda: open_files(server.pid) == 48, what="a full table")
        for _ in range(20):
            assert flow.call("environment/status") == {"status": "ready"}
        _, error = start_until_refused(flow, "p", ["/bin/sleep", "600"], 2)
        assert_error(error, errno.EMFILE, "EMFILE", ("stdio",))
        for raw in waiting:
            assert raw.http_response()[0] == 101
            raw.close()
        wait_until(lambda: holdings(server) == before, what="the descriptors of before")
        run_short_commands(flow, range(20), in_flight=2)


def test_a_spawner_without_descriptors_says_so_and_recovers():
    with Server() as server, Flow(server) as flow:
        before = wait_idle(server, flow)
        spawner = spawner_of(server)
        limits = resource.prlimit(spawner, resource.RLIMIT_NOFILE)
        # The limit is one of numbers, so it leaves one that is free: a start brings three.
        held = {int(fd) for fd in os.listdir(f"/proc/{spawner}/fd")}
        lowest = next(fd for fd in range(len(held) + 1) if fd not in held)
        resource.prlimit(spawner, resource.RLIMIT_NOFILE, (lowest + 1, limits[1]))
        for turn in range(3):
            started, error = start_until_refused(flow, f"p{turn}", ["/bin/true"], 1)
            assert not started
            assert_error(error, errno.EMFILE, "EMFILE", ("stdio", "fork"))
        resource.prlimit(spawner, resource.RLIMIT_NOFILE, limits)
        run_short_commands(flow, range(20))
        wait_settled(server, before)
        assert spawner_of(server) == spawner


def test_a_spawner_without_memory_says_so_and_recovers():
    if IS_SANITIZED:
        pytest.skip("a sanitizer ends a process that has no memory")
    with Server() as server, Flow(server) as flow:
        before = wait_idle(server, flow)
        spawner = spawner_of(server)
        limits = resource.prlimit(spawner, resource.RLIMIT_AS)
        resource.prlimit(spawner, resource.RLIMIT_AS, (status_kib(spawner, "VmSize") * KIB, limits[1]))
        # What a start needs may be there from earlier ones; many at once need more.
        for n in range(200):
            flow.start(f"p{n}", ["/bin/sleep", "600"])
        flow.pump_until(lambda: len([a for a in flow.answers if str(a).startswith("p")]) == 200, 60, "answers")
        errors = [flow.answers[f"p{n}"]["error"] for n in range(200) if "error" in flow.answers[f"p{n}"]]
        assert errors, "the limit was not met"
        for error in errors:
            assert_error((error["code"], error["message"], error["data"]), errno.ENOMEM, "ENOMEM", ("fork", "exec"))
        resource.prlimit(spawner, resource.RLIMIT_AS, limits)
        for n in range(200):
            flow.call("process/terminate", {"processId": f"p{n}"})
        flow.pump_until(lambda: len(flow.closed) == 200 - len(errors), 30, "closed")
        flow.closed.clear()
        wait_settled(server, before)
        run_short_commands(flow, range(1000, 1020))
        assert spawner_of(server) == spawner


def unused_uid():
    """Nobody's: RLIMIT_NPROC counts all processes of a user."""
    taken = {os.stat(f"/proc/{pid}").st_uid for pid in filter(str.isdigit, os.listdir("/proc"))
             if os.path.exists(f"/proc/{pid}")}
    return next(uid for uid in range(61000, 62000) if uid not in taken)


def test_a_full_process_table_is_told_and_recovers(wrapped):
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody whose processes are counted")
    uid = unused_uid()
    server = wrapped(f"prlimit --nproc=32:32 setpriv --reuid={uid} --regid={uid} --clear-groups")
    with Flow(server) as flow:
        before = wait_idle(server, flow)
        for turn in range(3):
            started, error = start_until_refused(flow, f"t{turn}-", ["/bin/sleep", "600"], 40)
            assert_error(error, errno.EAGAIN, "EAGAIN", ("fork",))
            assert len(started) >= 8
            assert flow.call("environment/status") == {"status": "ready"}
            terminate_all(flow, started)
            wait_settled(server, before)
            run_short_commands(flow, range(turn * 10, turn * 10 + 10), in_flight=2)


HUGE = {"one long word": ["/bin/echo", "x" * (256 * KIB)], "many words": ["/bin/echo"] + ["four words"] * 250_000,
        "more than any system takes": ["/bin/echo"] + ["x" * 100_000] * 400}


@BOTH
@pytest.mark.parametrize("which", HUGE)
def test_a_command_that_is_too_long_is_told(server, which, tty):
    if IS_VALGRIND:
        pytest.skip("valgrind executes in its own way")
    if not IS_FULL and which != "one long word":
        pytest.skip("slow in this build: set FARHAND_SLOW=1")
    with Flow(server) as flow:
        before = wait_idle(server, flow)
        for n in range(2):
            _, error = start_until_refused(flow, f"p{n}-", HUGE[which], 1, tty=tty)
            assert_error(error, errno.E2BIG, "E2BIG", ("exec", "stdio", "pty", "fork"))
        run_short_commands(flow, range(10))
        wait_settled(server, before)


def test_a_command_as_long_as_the_system_takes_runs(server):
    words = [f"{n:08d}" for n in range(60_000)]
    with Flow(server) as flow:
        flow.start("p", ["/bin/echo"] + words)
        flow.pump_until(lambda: flow.closed, 30, "closed")
        assert flow.told["p"].out["stdout"] == " ".join(words).encode() + b"\n"


# Reads that fail


@pytest.fixture(scope="module")
def failing_reads():
    """A library that makes reads of output fail now and then."""
    if IS_SANITIZED:
        pytest.skip("a sanitizer wants to be the first library")
    with tempfile.TemporaryDirectory(prefix="fh-") as folder:
        library = f"{folder}/failing_reads.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-O1", "-o", library,
                        os.path.join(REPO, "tests", "load", "failing_reads.c")], check=True)
        yield library


@BOTH
def test_a_read_that_fails_ends_no_stream(failing_reads, tty):
    with Server(env={"LD_PRELOAD": failing_reads}) as server, Flow(server) as flow:
        size = 300_000
        script = f"[ -t 1 ] && stty raw; head -c {size} /dev/zero; echo end"
        for n in range(100):
            flow.start(f"short{n}", ["/bin/echo", f"token {n}"], tty=tty)
        for n in range(20):
            flow.start(f"long{n}", ["/bin/sh", "-c", script], tty=tty)
        flow.pump_until(lambda: len(flow.closed) == 120, 60, "closed")
        stream, end = ("pty", "\r\n") if tty else ("stdout", "\n")
        short = {n: bytes(flow.told[f"short{n}"].out[stream]) for n in range(100)}
        assert short == {n: f"token {n}{end}".encode() for n in range(100)}
        for n in range(20):
            assert flow.told[f"long{n}"].out[stream] == bytes(size) + b"end\n"


@BOTH
def test_a_read_that_fails_loses_nothing_of_a_killed_process(failing_reads, tmp, tty):
    with Server(env={"LD_PRELOAD": failing_reads}) as server, Flow(server) as flow:
        for n in range(30):
            script = f"[ -t 1 ] && stty raw; echo first; read x < {tmp}/go{n}; echo last; : > {tmp}/said{n}; sleep 600"
            os.mkfifo(f"{tmp}/go{n}")
            flow.start(f"p{n}", ["/bin/sh", "-c", script], tty=tty)
            flow.pump_until(lambda n=n: flow.told[f"p{n}"].out, 20, "output")
            with open(f"{tmp}/go{n}", "wb") as go:
                go.write(b"\n")
            wait_until(lambda n=n: os.path.exists(f"{tmp}/said{n}"), what="the last word")
            flow.call("process/terminate", {"processId": f"p{n}"})
        flow.pump_until(lambda: len(flow.closed) == 30, 20, "closed")
        said = {n: bytes(flow.told[f"p{n}"].out["pty" if tty else "stdout"]) for n in range(30)}
        assert said == {n: b"first\nlast\n" for n in range(30)}


# Descriptors


@BOTH
def test_descriptors_of_an_ended_process_are_closed_at_once(tty):
    with Server(config="exited_process_retention_ms = 600000\n") as server, Flow(server) as flow:
        before = wait_idle(server, flow)
        for n in range(50):
            flow.start(f"p{n}", ["/bin/sh", "-c", "echo text; exit 3"], tty=tty, pipeStdin=not tty)
        flow.pump_until(lambda: len(flow.closed) == 50, 30, "closed")
        assert open_files(server.pid) == before[0]
        wait_settled(server, before)
        for n in range(50):
            assert flow.call("process/read", {"processId": f"p{n}"})["exitCode"] == 3


def test_the_stdin_of_an_exited_process_is_closed_while_its_output_is_held(server, tmp):
    os.mkfifo(f"{tmp}/go")
    with Flow(server) as flow:
        before = wait_idle(server, flow)
        flow.start("p", ["/bin/sh", "-c", f"(: < {tmp}/go) & exit 0"], pipeStdin=True)
        flow.pump_until(lambda: flow.told["p"].exit_code == 0, 30, "exited")
        assert open_files(server.pid) == before[0] + 2, "its output and error streams"
        with open(f"{tmp}/go", "wb"):
            flow.pump_until(lambda: flow.closed, 30, "closed")
        wait_settled(server, before)


@BOTH
def test_failed_starts_leave_no_descriptor(server, tty):
    with Flow(server) as flow:
        before = wait_idle(server, flow)
        for n in range(100):
            flow.start(f"p{n}", ["/nonexistent/program"], tty=tty)
        flow.pump_until(lambda: len([a for a in flow.answers.values() if "error" in a]) == 100, 30, "answers")
        wait_settled(server, before)
