"""How long calls of exec_command and write_stdin wait: defaults, bounds, and processes that flood, ask and die at each point of a window.

That a window is not shorter is shown by the time of its call, that it is not longer by a longer one beside it, which ends later.
"""

import os
import signal

import pytest

from farhand_client import Server, wait_until
from unified_rig import SECONDS, Unified

SLEEP = "exec sleep 1000"
READY = "stty -echo -onlcr; echo ready; "
MIB = 1024 * 1024


@pytest.fixture(scope="module", params=["here", "far"])
def u(request):
    if request.param == "here":
        with Unified("--no-sandbox") as one:
            yield one
    else:
        with Server() as server, Unified("--no-sandbox", where=("--url", server.url)) as one:
            yield one


def session(u, cmd, **more):
    """Starts a command that waits. Returns (id of the call, id of the session)."""
    ident = u.begin("exec_command", cmd=cmd, login=False, yield_time_ms=250, **more)
    return ident, u.wait(ident)["session_id"]


def ready(u, cmd):
    """The same on a terminal, once the command is ready."""
    ident, process = session(u, READY + cmd, tty=True)
    u.until(lambda: "ready" in u.deltas(ident))
    return ident, process


def shown(u, cases):
    """Begins all calls at once, the longest window first. `cases`: (seconds, tool, arguments). Each call must last for its seconds, and be
    answered before those that last a few seconds longer."""
    cases = sorted(cases, key=lambda case: -case[0])
    processes = [None if tool == "exec_command" else ready(u, "exec cat") if arguments.get("chars") else session(u, SLEEP)
                 for _, tool, arguments in cases]
    idents = []
    for (_, tool, arguments), process in zip(cases, processes):
        more = {"session_id": process[1]} if process else {"cmd": SLEEP, "login": False}
        idents.append(u.begin(tool, **more, **arguments))
    for (seconds, tool, arguments), ident in zip(cases, idents):
        done = u.wait(ident)
        assert done["wall_time_seconds"] >= seconds and "session_id" in done, (tool, arguments, done)
    order = [line["id"] for line in u.lines if line.get("id") in idents]
    places = {ident: order.index(ident) for ident in idents}
    for (longer, _, one), late in zip(cases, idents):
        for (shorter, _, other), soon in zip(cases, idents):
            assert longer < shorter + 3 or places[soon] < places[late], (one, other)
    for ident in idents:
        u.write(u.results[str(ident)]["result"]["session_id"], "\x03", yield_time_ms=30000)


EXEC, WRITE, INPUT = "exec_command", "write_stdin", {"chars": "x\n"}


def test_windows_that_are_short(u):
    """A command: 10 s when nothing is said, 250 ms at least. Input: 250 ms when nothing is said and at least, behind a pause of 100 ms.
    A poll: 5 s at least, also when nothing is said, because 250 ms are too short for it. No `chars` is a poll, like an empty text."""
    shown(u, [
        (10, EXEC, {}), (10, EXEC, {"yield_time_ms": None}),
        (0.25, EXEC, {"yield_time_ms": 0}), (0.25, EXEC, {"yield_time_ms": 249.9}), (0.3, EXEC, {"yield_time_ms": 300.9}),
        (0.35, WRITE, INPUT), (0.35, WRITE, {**INPUT, "yield_time_ms": None}), (0.35, WRITE, {**INPUT, "yield_time_ms": 0}),
        (1.1, WRITE, {**INPUT, "yield_time_ms": 1000}),
        (5, WRITE, {}), (5, WRITE, {"chars": ""}), (5, WRITE, {"chars": None, "yield_time_ms": None}),
        (5, WRITE, {"yield_time_ms": 0}), (5, WRITE, {"yield_time_ms": 4999}), (6, WRITE, {"yield_time_ms": 6000}),
    ])


@pytest.mark.slow
def test_windows_that_are_long(u):
    """The window of a command or of input lasts 30 s at most; that of a poll may be longer."""
    shown(u, [
        (30, EXEC, {"yield_time_ms": 30001}), (30, EXEC, {"yield_time_ms": 10 ** 30}),
        (30.1, WRITE, {**INPUT, "yield_time_ms": 30001}), (30.1, WRITE, {**INPUT, "yield_time_ms": 10 ** 30}),
        (35, WRITE, {"yield_time_ms": 35000}),
    ])


@pytest.mark.slow
def test_the_longest_poll():
    """A poll lasts five minutes at most when no option says otherwise; an option may allow more."""
    with Unified("--no-sandbox") as usual, Unified("--no-sandbox", "--max-poll-ms", "306000") as longer:
        late, soon = (one.begin("write_stdin", session_id=session(one, SLEEP)[1], yield_time_ms=10 ** 30) for one in (longer, usual))
        usual.until(lambda: str(soon) in usual.results, "the end of the poll", 300 + SECONDS)
        assert str(late) not in longer.results
        assert usual.wait(soon)["wall_time_seconds"] >= 300 and longer.wait(late)["wall_time_seconds"] >= 306


def test_the_longest_poll_is_never_shorter_than_the_shortest():
    with Unified("--no-sandbox", "--max-poll-ms", "4999") as u:
        assert u.proc.wait(60) == 2 and "--max-poll-ms" in u.said()
    with Unified("--no-sandbox", "--max-poll-ms", "5000") as u:
        assert u.write(session(u, SLEEP)[1], yield_time_ms=10 ** 30)["wall_time_seconds"] >= 5


# What a window begins with


def test_a_session_is_there_before_the_first_window_has_ended(u):
    """The session is listed, and a call that writes to it waits for its turn."""
    ident = u.begin("exec_command", cmd=READY + "cat", login=False, tty=True, yield_time_ms=3000)
    process = u.event("exec_command_begin", call_id=ident)["process_id"]
    u.until(lambda: "ready" in u.deltas(ident))
    write = u.begin("write_stdin", session_id=process, chars="x\n")
    assert process in [s["session_id"] for s in u.call("list_sessions")["sessions"]]
    assert not {str(ident), str(write)} & set(u.results)
    assert u.wait(ident)["output"] == "ready\n" and u.wait(write)["output"] == "x\n"
    order = [line.get("id") for line in u.lines]
    assert order.index(ident) < order.index(write)


def test_what_a_window_does_not_wait_for_comes_with_the_next_call(u):
    """Output does not end a window; what comes after its end is kept."""
    ident, process = ready(u, "while read x; do echo $x; done")
    first = u.write(process, "one\ntwo\n", yield_time_ms=1000)
    assert first["wall_time_seconds"] >= 1.1
    u.until(lambda: u.deltas(ident) == "ready\none\ntwo\n")
    second = u.write(process, "three\n", yield_time_ms=250)
    u.until(lambda: u.deltas(ident) == "ready\none\ntwo\nthree\n")
    third = u.write(process, "\x04", yield_time_ms=30000)
    assert third["exit_code"] == 0
    whole = u.results[str(ident)]["result"]["output"] + first["output"] + second["output"] + third["output"]
    assert whole == u.event("exec_command_end", call_id=ident)["output"] == "ready\none\ntwo\nthree\n"


# Asking


def test_a_process_that_asks_again_and_again(u):
    """Each question of the process is the end of the output of one call, and each answer the beginning of the next."""
    ident, process = session(u, "stty -echo -onlcr; for i in 1 2 3 4; do printf 'name %s? ' $i; read name; echo \"<$name>\"; done; exit 9", tty=True)
    told = u.results[str(ident)]["result"]["output"]
    for i in range(1, 5):
        u.until(lambda: f"name {i}? " in u.deltas(ident))  # pylint: disable=cell-var-from-loop
        assert len(u.of("exec_command_end", call_id=ident)) == 0
        done = u.write(process, f"n{i}\n", yield_time_ms=30000 if i == 4 else 250)
        told += done["output"]
    assert done["exit_code"] == 9
    assert told == "".join(f"name {i}? <n{i}>\n" for i in range(1, 5)) == u.event("exec_command_end", call_id=ident)["output"]
    assert [e["stdin"] for e in u.of("terminal_interaction", call_id=ident)] == [f"n{i}\n" for i in range(1, 5)]


def test_a_process_that_asks_without_a_terminal_gets_no_answer(u):
    assert u.exec("read name; echo \"$? <$name>\"", yield_time_ms=30000)["output"] == "1 <>\n"


# Floods


def test_a_flood_in_pieces_is_returned_whole_and_the_transcript_is_not(u):
    """No call loses a byte, because each piece is shorter than a buffer; the transcript of all has a buffer of its own, which is too short."""
    rounds, piece = 5, 400000
    ident, process = ready(u, f"for i in $(seq {rounds}); do read x; head -c {piece} /dev/zero | tr '\\0' $i; echo; echo end $i; done; read x")
    outputs = [u.results[str(ident)]["result"]["output"]]
    for i in range(1, rounds + 1):
        outputs.append(u.write(process, "\n", max_output_tokens=10 ** 9)["output"])
        u.until(lambda: u.deltas(ident).endswith(f"end {i}\n"))  # pylint: disable=cell-var-from-loop
    done = u.write(process, "\n", yield_time_ms=30000, max_output_tokens=10 ** 9)
    outputs.append(done["output"])
    assert done["exit_code"] == 0
    whole = "ready\n" + "".join(str(i) * piece + f"\nend {i}\n" for i in range(1, rounds + 1))
    assert "".join(outputs) == u.deltas(ident) == whole
    kept = whole[:MIB // 2] + f"\n... {len(whole) - MIB} bytes omitted ...\n" + whole[-MIB // 2:]
    assert u.event("exec_command_end", call_id=ident)["output"] == kept


def test_a_flood_that_never_ends(u):
    """Each call ends with its window all the same, and counts what it could not keep."""
    ident, process = session(u, "exec yes 0123456")
    for _ in range(2):
        done = u.write(process, yield_time_ms=5000, max_output_tokens=1000)
        assert done["session_id"] == process and done["wall_time_seconds"] >= 5
        assert done["original_token_count"] > 1000 and len(done["output"]) < 4300
    done = u.write(process, "\x03", yield_time_ms=30000, max_output_tokens=10)
    assert done["exit_code"] == 130
    end = u.event("exec_command_end", call_id=ident)
    assert end["exit_code"] == 130 and " bytes omitted ...\n" in end["output"]
    assert len(u.of("exec_command_output_delta", call_id=ident)) <= 10000


@pytest.mark.parametrize("count,omitted", [(MIB - 1, 0), (MIB, 0), (MIB + 1, 1)])
def test_a_buffer_holds_exactly_a_mebibyte(u, count, omitted):
    ident = u.begin("exec_command", cmd=f"head -c {count} /dev/zero | tr '\\0' x", login=False, yield_time_ms=30000, max_output_tokens=10 ** 9)
    done = u.wait(ident)
    half = "x" * (MIB // 2)
    assert done["output"] == (half + f"\n... {omitted} bytes omitted ...\n" + half if omitted else "x" * count)
    assert u.event("exec_command_end", call_id=ident)["output"] == done["output"]


# Death


def test_processes_that_die_at_each_point_of_a_poll(u):
    """Before the poll begins, in it, at its end and after it; quietly, in a flood, and by a signal."""
    deaths = {}
    for i in range(20):
        after = 0.1 + 0.3 * i
        how = ["exit 7", "head -c 200000 /dev/zero | tr '\\0' y; exit 8", "kill -9 $$"][i % 3]
        ident = u.begin("exec_command", cmd=f"printf a; sleep {after:.1f}; printf b; {how}", login=False, yield_time_ms=250)
        deaths[ident] = (i, u.event("exec_command_begin", call_id=ident)["process_id"])
    for ident in deaths:
        u.wait(ident)
    running = {ident: process for ident, (_, process) in deaths.items() if "session_id" in u.results[str(ident)]["result"]}
    polls = {ident: u.begin("write_stdin", session_id=process, max_output_tokens=10 ** 6) for ident, process in running.items()}
    for ident, (i, process) in deaths.items():
        results = [u.results[str(ident)]["result"]]
        if ident in polls:
            results.append(u.wait(polls[ident]))
        while "exit_code" not in results[-1]:
            results.append(u.write(process, max_output_tokens=10 ** 6))
        wanted = [(7, "ab"), (8, "ab" + "y" * 200000), (137, "ab")][i % 3]
        assert (results[-1]["exit_code"], "".join(result["output"] for result in results)) == wanted
        assert [e["output"] for e in u.of("exec_command_end", call_id=ident)] == [wanted[1]] or u.event(
            "exec_command_end", call_id=ident)["output"] == wanted[1]
        assert u.error("write_stdin", session_id=process) == f"write_stdin failed: Unknown process id {process}"


def test_a_process_that_is_killed_in_the_pause_after_input(tmp):
    """The event of the input is the beginning of the pause."""
    with Unified("--no-sandbox") as u:
        pid_file = os.path.join(tmp, "pid")
        ident, process = ready(u, f"echo $$ > {pid_file}; exec cat")
        wait_until(lambda: os.path.exists(pid_file) and os.path.getsize(pid_file) > 0)
        with open(pid_file, encoding="ascii") as f:
            pid = int(f.read())
        write = u.begin("write_stdin", session_id=process, chars="x\n", yield_time_ms=30000)
        u.event("terminal_interaction", call_id=ident)
        os.kill(pid, signal.SIGKILL)
        assert u.wait(write)["exit_code"] == 137
        assert u.event("exec_command_end", call_id=ident)["exit_code"] == 137


def test_a_process_that_is_killed_while_calls_wait_for_their_turn(tmp):
    """The call that has the session tells the exit; those that wait find none any more, and their input is told by no event."""
    with Unified("--no-sandbox") as u:
        pid_file = os.path.join(tmp, "pid")
        ident, process = ready(u, f"echo $$ > {pid_file}; exec cat")
        wait_until(lambda: os.path.exists(pid_file) and os.path.getsize(pid_file) > 0)
        with open(pid_file, encoding="ascii") as f:
            pid = int(f.read())
        first = u.begin("write_stdin", session_id=process, chars="1\n", yield_time_ms=30000)
        waiting = [u.begin("write_stdin", session_id=process, chars=chars, yield_time_ms=30000) for chars in ("2\n", "", "\x03")]
        u.event("terminal_interaction", call_id=ident)
        os.kill(pid, signal.SIGKILL)
        assert u.wait(first)["exit_code"] == 137
        for call in waiting:
            assert u.error_of(call) == f"write_stdin failed: Unknown process id {process}"
        assert [e["stdin"] for e in u.of("terminal_interaction", call_id=ident)] == ["1\n"]


@pytest.mark.parametrize("delay", ["0", "0.02", "0.045", "0.055", "0.09", "0.11", "0.3"])
def test_output_that_comes_behind_the_exit(u, delay):
    """The result waits 50 ms for it and the end 100 ms: what the result has is in the transcript, and the transcript is what was told."""
    ident = u.begin("exec_command", cmd=f"(sleep {delay}; echo late) & echo parent", login=False, yield_time_ms=30000)
    done = u.wait(ident)
    end = u.event("exec_command_end", call_id=ident)
    assert done["exit_code"] == end["exit_code"] == 0
    assert end["output"] in ("parent\n", "parent\nlate\n") and end["output"].startswith(done["output"]) and done["output"].startswith("parent\n")
    assert end["output"] == u.deltas(ident)


def test_a_process_that_dies_between_calls_is_told_at_once(u):
    """Its exit, its last output and its token count come with the next call, which does not wait."""
    ident, process = session(u, "echo first; sleep 1; printf 12345; exit 5")
    first = u.results[str(ident)]["result"]["output"]
    u.event("exec_command_end", call_id=ident)
    done = u.write(process, yield_time_ms=300000)
    assert (done["exit_code"], first + done["output"]) == (5, "first\n12345")
    assert done["original_token_count"] == (len(done["output"]) + 3) // 4 and "session_id" not in done
    assert not u.of("terminal_interaction", call_id=ident)
