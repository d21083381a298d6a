"""Many of everything: short commands, floods, idle connections, running processes.

Memory is judged in plain builds only: a sanitizer keeps what was freed. Sanitized builds also do a part of the counts,
unless FARHAND_SLOW=1 asks for all.
"""

import contextlib
import fcntl
import os
import resource
import select
import socket
import subprocess
import threading
import time

import pytest

from farhand_client import IS_SANITIZED, PATIENCE, Client, RawSocket, RpcError, Server, seconds_of, wait_until
from load_rig import (IS_FULL, IS_SOAK, KIB, Flow, children, frame, holdings, run_short_commands, spawner_of, status_kib,
                      true_command, wait_settled)


def many(count):
    """`count`, or a quarter of it in a sanitized build without FARHAND_SLOW=1."""
    return count if IS_FULL else count // 4


# Short commands


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


def test_starts_one_after_the_other_are_not_limited_by_those_that_have_finished():
    count, kept = many(20000), 4096 if IS_FULL else 1024
    config = f"max_finished_processes_per_session = {kept}\nexited_process_retention_ms = 3600000\n"
    with Server(config=config) as server, Flow(server) as flow:
        assert count > kept + 64 and kept >= flow.limits["maxProcessesPerSession"]
        run_short_commands(flow, range(count), 16, true_command)
        # The newest finished commands are kept, and can still be read.
        assert flow.call("process/read", {"processId": f"p{count - kept + 64}"})["exitCode"] == 0
        with pytest.raises(RpcError, match="unknown process id"):
            flow.call("process/read", {"processId": f"p{count - kept - 64}"})


# Floods


LINES = 100_000  # of nine bytes each
FIRST_LINE = 10_000_000
LINE_STEP = 997  # so that no two processes say the same


def flood_expected(numbers):
    """The text of which each process prints a part."""
    end = FIRST_LINE + max(numbers) * LINE_STEP + LINES
    text = subprocess.run(["seq", str(FIRST_LINE), str(end)], stdout=subprocess.PIPE, check=True).stdout
    return {n: memoryview(text)[9 * n * LINE_STEP:9 * (n * LINE_STEP + LINES)] for n in numbers}


def flood_argv(gate, n):
    """A command that waits until the test opens the FIFO `gate` for writing, and then prints LINES lines."""
    first = FIRST_LINE + n * LINE_STEP
    return ["/bin/sh", "-c", f": < {gate}; exec seq {first} {first + LINES - 1}"]


class Quiet(threading.Thread):
    """A client that asks for the status now and then, and notes how long the answer took."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.client = server, Client(server.url)
        self.seconds = []
        self.failure = None
        self.stop = threading.Event()

    def run(self):
        try:
            while not self.stop.wait(0.02):
                self.seconds.append(seconds_of(self.server, self.ask, self.client))
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = failure

    def ask(self):
        self.client.call("environment/status", timeout=60)

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
    """An idle connection after the handshake, at a descriptor beyond those that select() can watch."""

    def __init__(self, server):
        with RawSocket(server.port) as raw:
            raw.initialize()
            self.fd = fcntl.fcntl(raw.sock, fcntl.F_DUPFD_CLOEXEC, 2000)

    def ask(self):
        """Sends a request and waits for its answer."""
        with socket.socket(fileno=os.dup(self.fd)) as sock:
            sock.settimeout(30 * PATIENCE)
            sock.sendall(frame({"id": "idle", "method": "environment/status"}))
            got = b""
            while b'"idle"' not in got:
                more = sock.recv(4096)
                assert more, "the server closed an idle connection"
                got += more

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


def pss_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Pss:"))


def raise_file_limit(wanted):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            pytest.skip(f"needs {wanted} open files, the hard limit is {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


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
