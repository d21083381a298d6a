"""What happens when the system refuses: no descriptors, no memory, no processes, commands that are too long, reads that fail.

The error says what was missing and at which step, nothing of what a process said is lost, and nothing is left: afterwards
the server holds what it held before, and commands run.
"""

import contextlib
import errno
import os
import resource
import shutil
import subprocess
import tempfile

import pytest

import farhand_client
from farhand_client import BIN, IS_SANITIZED, IS_VALGRIND, REPO, RawSocket, Server, wait_until
from load_rig import (IS_FULL, KIB, Flow, children, holdings, open_files, run_short_commands, spawner_of, status_kib,
                      wait_settled)

BOTH = pytest.mark.parametrize("tty", [False, True], ids=["pipes", "tty"])


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
    """Runs a command and the server's self-test. Returns the holdings of the server when nothing of them is left."""
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
    assert code == -32603 and f" (os error {number})" in message, error
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


@pytest.mark.parametrize("limit", [48, 64, 128])
def test_connections_leave_descriptors_to_those_who_are_in(wrapped, limit):
    """With as many clients as the server accepts, and silent peers besides, commands start and files are read."""
    server = wrapped(f"prlimit --nofile={limit}:{limit}")
    with Flow(server) as flow, contextlib.ExitStack() as stack:
        before = wait_idle(server, flow)
        inside = []
        while len(inside) < limit:
            raw = stack.enter_context(RawSocket(server.port))
            status, _, body = raw.http(raw.upgrade_request())
            if status != 101:
                assert status == 503 and b"RLIMIT_NOFILE" in body
                assert raw.eof() == b""
                raw.close()
                break
            inside.append(raw)
        assert limit // 16 < len(inside) < limit // 2
        silent = [stack.enter_context(RawSocket(server.port)) for _ in range(limit)]
        wait_until(lambda: open_files(server.pid) >= before[0] + len(inside) + 4, what="some of the silent ones")
        started = []
        for n, kw in enumerate([{}, {"tty": True}, {"pipeStdin": True}][:1 if limit == 48 else 3]):
            started.append(f"s{n}")
            flow.start(f"s{n}", ["/bin/sleep", "600"], **kw)
        flow.pump_until(lambda: all(one in flow.answers for one in started), 30, "answers to starts")
        assert not flow.refused, flow.refused
        run_short_commands(flow, range(20), in_flight=1)
        assert flow.call("fs/readFile", {"path": "file:///etc/hostname"})["dataBase64"]
        terminate_all(flow, started)
        # A connection that closes makes room for the next.
        inside.pop().close()
        for raw in silent:
            raw.close()

        def comes_in():
            raw = RawSocket(server.port)
            inside.append(stack.enter_context(raw))
            return raw.http(raw.upgrade_request())[0] == 101

        wait_until(comes_in, what="room")
        for raw in inside:
            raw.close()
        wait_until(lambda: holdings(server) == before, what="the descriptors of before")
        run_short_commands(flow, range(100, 120), in_flight=2)


def test_a_spawner_without_descriptors_says_so_and_recovers():
    with Server() as server, Flow(server) as flow:
        before = wait_idle(server, flow)
        spawner = spawner_of(server)
        limits = resource.prlimit(spawner, resource.RLIMIT_NOFILE)
        # The limit is on descriptor numbers: it leaves one number free, and a start needs three.
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
        # One start may use memory that earlier ones have freed; many at once need more.
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
    """A user id without processes, because RLIMIT_NPROC counts all processes of a user."""
    taken = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            taken.add(os.stat(f"/proc/{pid}").st_uid)
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
        start_until_refused(flow, "first-", HUGE[which], 1, tty=tty)  # the first large message: threads for these are made
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
