"""write_stdin through `farhand unified`: input, interrupts, polls, the lock of a session, and which sessions give way."""

import hashlib
import os

import pytest

from farhand_client import Server, pid_gone, wait_until
from unified_rig import Failed, Unified

CLOSED = "write_stdin failed: stdin is closed for this session; rerun exec_command with tty=true to keep stdin open"


@pytest.fixture(scope="module", params=["here", "far"])
def u(request):
    if request.param == "here":
        with Unified("--no-sandbox") as one:
            yield one
    else:
        with Server() as server, Unified("--no-sandbox", where=("--url", server.url)) as one:
            yield one


def begin(u, cmd, **more):
    """Starts a command that waits for input or a signal. Returns (id of the call, id of the session)."""
    ident = u.begin("exec_command", cmd=cmd, login=False, yield_time_ms=250, **more)
    return ident, u.wait(ident)["session_id"]


def begin_many(u, cmds, **more):
    """Starts several such commands at once."""
    idents = [u.begin("exec_command", cmd=cmd, login=False, yield_time_ms=250, **more) for cmd in cmds]
    return [(ident, u.wait(ident)["session_id"]) for ident in idents]


def test_input_reaches_a_terminal(u):
    ident, session = begin(u, "stty -echo; echo name?; read name; echo hello $name; exit 5", tty=True)
    u.until(lambda: "name?" in u.deltas(ident))
    done = u.write(session, "you\n", yield_time_ms=30000)
    assert done["exit_code"] == 5 and done["output"].endswith("hello you\r\n")


def test_after_input_there_is_a_pause_and_then_a_window(u):
    """The default window is 250 ms, the pause 100 ms."""
    ident, session = begin(u, "stty -echo; echo ready; cat", tty=True)
    u.until(lambda: "ready" in u.deltas(ident))
    done = u.write(session, "x\n")
    assert done["session_id"] == session and done["wall_time_seconds"] >= 0.35
    assert u.write(session, "x\n", yield_time_ms=1000)["wall_time_seconds"] >= 1.1


def test_every_byte_is_returned_once(u):
    ident, session = begin(u, "stty -echo; echo ready; cat", tty=True)
    u.until(lambda: "ready" in u.deltas(ident))
    output = u.write(session, "0\n")["output"]
    for i in range(1, 6):
        output += u.write(session, f"{i}\n")["output"]
    done = u.write(session, "\x04", yield_time_ms=30000)
    output += done["output"]
    u.event("exec_command_end", call_id=ident)
    assert done["exit_code"] == 0 and u.deltas(ident).endswith(output) and output.endswith("".join(f"{i}\r\n" for i in range(6)))


def test_a_lot_of_input(u):
    """More than the terminal takes at once: the rest follows, in order, also from a later call."""
    ident, session = begin(u, "stty raw -echo; echo ready; sleep 1; head -c 300003 | md5sum", tty=True)
    u.until(lambda: "ready" in u.deltas(ident))
    u.write(session, "abc" * 50000)
    done = u.write(session, "def" * 50001, yield_time_ms=30000)
    assert done["exit_code"] == 0 and hashlib.md5(b"abc" * 50000 + b"def" * 50001).hexdigest() in done["output"]


def test_input_for_a_process_that_does_not_read_is_bounded(u):
    ident, session = begin(u, "stty raw -echo; echo ready; sleep 100", tty=True)
    u.until(lambda: "ready" in u.deltas(ident))
    with pytest.raises(Failed, match="^write_stdin failed: failed to write to stdin$"):
        for _ in range(20):
            assert u.write(session, "x" * 1000000)["session_id"] == session
    u.send({"id": f"after{ident}", "tool": "list_sessions"})
    assert session in [s["session_id"] for s in u.wait(f"after{ident}")["sessions"]]


def test_without_a_terminal_only_an_interrupt_is_taken(u):
    ident, session = begin(u, "trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 0.1; done")
    u.until(lambda: "ready" in u.deltas(ident))
    assert u.error("write_stdin", session_id=session, chars="x\n") == CLOSED
    assert u.error("write_stdin", session_id=session, chars="\x03\x03") == CLOSED
    done = u.write(session, "\x03", yield_time_ms=30000)
    assert done["exit_code"] == 7 and done["output"].endswith("interrupted\n")
    assert [e["stdin"] for e in u.of("terminal_interaction", call_id=ident)] == ["\x03"]  # what was refused is not told


def test_an_interrupt_on_a_terminal_is_a_key(u):
    ident, session = begin(u, "trap 'echo interrupted; exit 8' INT; echo ready; while :; do sleep 0.1; done", tty=True)
    u.until(lambda: "ready" in u.deltas(ident))
    done = u.write(session, "\x03", yield_time_ms=30000)
    assert done["exit_code"] == 8 and "interrupted" in done["output"]


def test_unknown_sessions(u):
    for session in (-3, 0, 999, 100000, 2 ** 40):
        assert u.error("write_stdin", session_id=session) == f"write_stdin failed: Unknown process id {session}"


@pytest.mark.parametrize("arguments", [
    {}, {"session_id": "1"}, {"session_id": None}, {"session_id": 1.5}, {"session_id": True}, {"session_id": 1, "chars": 1},
    {"session_id": 1, "yield_time_ms": "1"}, {"session_id": 1, "yield_time_ms": -1}, {"session_id": 1, "max_output_tokens": []},
    {"session_id": 1, "x": 1}])
def test_bad_arguments(u, arguments):
    assert u.error("write_stdin", is_valid=False, **arguments).startswith("failed to parse function arguments: ")


def test_a_poll_waits_for_the_end(u):
    """Output alone does not end a poll: it lasts 5 s at least, unless the process ends."""
    ident, session = begin(u, "for i in 1 2 3; do sleep 0.4; echo $i; done")
    done = u.write(session)
    assert done["exit_code"] == 0
    u.event("exec_command_end", call_id=ident)
    assert u.deltas(ident) == "1\n2\n3\n"


def test_a_poll_of_a_process_that_runs_on(u):
    ident, session = begin(u, "sleep 100")
    done = u.write(session, yield_time_ms=1)
    assert done["session_id"] == session and done["output"] == "" and done["wall_time_seconds"] >= 5
    assert [e["stdin"] for e in u.of("terminal_interaction", call_id=ident)] == [""]


def test_the_longest_poll_can_be_set():
    with Unified("--no-sandbox", "--max-poll-ms", "5500") as u:
        _, session = begin(u, "sleep 100")
        assert 5.5 <= u.write(session, yield_time_ms=300000)["wall_time_seconds"] < 300


def test_a_flood_between_calls(u):
    """What no call has returned yet is kept up to 1 MiB; a later call begins anew."""
    ident, session = begin(u, "stty -echo -onlcr; sleep 0.5; seq 500000; echo flooded; read x; echo end", tty=True)
    u.until(lambda: "flooded" in u.deltas(ident) or len(u.of("exec_command_output_delta", call_id=ident)) == 10000)
    done = u.call("write_stdin", session_id=session, chars="", max_output_tokens=10 ** 9)
    whole = "".join(f"{i}\n" for i in range(1, 500001)) + "flooded\n"
    half = 512 * 1024
    assert done["output"] == whole[:half] + f"\n... {len(whole) - 2 * half} bytes omitted ...\n" + whole[-half:]
    assert done["original_token_count"] == (len(whole) + 3) // 4
    done = u.write(session, "\n", yield_time_ms=30000)
    assert done["output"] == "end\n" and done["exit_code"] == 0


def test_output_is_cut_for_the_model(u):
    """A call returns as much output as it asks for, 10,000 tokens by default. Output that was cut out is not returned by a later call."""
    ident, session = begin(u, "stty -echo -onlcr; for i in 1 2 3 4; do read x; head -c 40001 /dev/zero | tr '\\0' $i; done; read x; echo end", tty=True)
    for i, tokens, left in ((1, {}, 20000), (2, {"max_output_tokens": None}, 20000), (3, {"max_output_tokens": 5}, 10), (4, {"max_output_tokens": 0}, 0)):
        begun = len(u.deltas(ident))
        poll = u.begin("write_stdin", session_id=session, chars="\n", yield_time_ms=1500, **tokens)
        u.until(lambda: len(u.deltas(ident)) == begun + 40001)  # pylint: disable=cell-var-from-loop
        done = u.wait(poll)
        mark = f"…{(40001 - 2 * left + 3) // 4} tokens truncated…"
        assert done["output"] == f"Warning: truncated output (original token count: 10001)\nTotal output lines: 1\n\n{f'{i}' * left}{mark}{f'{i}' * left}"
        assert done["original_token_count"] == 10001
    assert u.write(session, "\n", yield_time_ms=30000)["output"] == "end\n"


@pytest.mark.parametrize("args,unit", [(("--max-output-tokens", "1000"), "tokens"), (("--max-output-bytes", "4000"), "chars")])
def test_the_budget_of_a_model(args, unit):
    with Unified("--no-sandbox", *args) as u:
        _, session = begin(u, "stty -echo; read x; seq 20000", tty=True)
        done = u.write(session, "\n", yield_time_ms=30000, max_output_tokens=10 ** 6)
        assert f" {unit} truncated…" in done["output"] and len(done["output"].encode()) < 4200 and len(done["text"].encode()) <= 4800


def test_interactions_are_told(u):
    """A call with text is told always; a poll only when the process runs on."""
    ident, session = begin(u, "stty -echo; read line; sleep 0.5", tty=True)
    u.write(session, "a\n")
    done = u.write(session)
    assert done["exit_code"] == 0
    assert [e["stdin"] for e in u.of("terminal_interaction", call_id=ident)] == ["a\n"]
    assert u.of("terminal_interaction", call_id=ident)[0]["process_id"] == session


def test_writing_to_a_process_that_has_exited_reports_the_exit(u):
    ident, session = begin(u, "echo bye; sleep 0.6; exit 3", tty=True)
    u.event("exec_command_end", call_id=ident)
    done = u.write(session, "too late\n")
    assert done["exit_code"] == 3
    assert u.error("write_stdin", session_id=session, chars="x").endswith(f"Unknown process id {session}")


@pytest.mark.parametrize("after", ["0", "0.05", "0.1", "0.15", "0.3", "0.36"])
def test_a_process_that_dies_at_any_point_of_the_window(u, after):
    ident, session = begin(u, f"stty -echo; echo ready; read line; sleep {after}; echo dead; exit 6", tty=True)
    u.until(lambda: "ready" in u.deltas(ident))
    done = u.write(session, "\n")
    while "exit_code" not in done:
        done = u.write(session)
    assert done["exit_code"] == 6
    assert u.event("exec_command_end", call_id=ident)["output"] == "ready\r\ndead\r\n"


# One call at a time


def test_calls_for_one_session_wait_for_each_other(u):
    ident, session = begin(u, "stty -echo; echo ready; cat", tty=True)
    u.until(lambda: "ready" in u.deltas(ident))
    calls = [u.begin("write_stdin", session_id=session, chars=f"{i}\n", yield_time_ms=250) for i in range(4)]
    outputs = [u.wait(call)["output"] for call in calls]
    assert "".join(outputs).replace("ready\r\n", "") == "0\r\n1\r\n2\r\n3\r\n"
    order = [line["id"] for line in u.lines if line.get("id") in calls]
    assert order == calls
    assert [e["stdin"] for e in u.of("terminal_interaction", call_id=ident)] == ["0\n", "1\n", "2\n", "3\n"]


def test_other_sessions_do_not_wait(u):
    _, slow = begin(u, "sleep 100")
    ident, quick = begin(u, "stty -echo; echo ready; read x; echo got", tty=True)
    u.until(lambda: "ready" in u.deltas(ident))
    poll = u.begin("write_stdin", session_id=slow)
    done = u.write(quick, "\n", yield_time_ms=30000)
    assert done["exit_code"] == 0 and str(poll) not in u.results


def test_a_call_that_waits_for_a_session_that_ends(u):
    ident, session = begin(u, "sleep 0.7; exit 2")
    first, second = (u.begin("write_stdin", session_id=session) for _ in range(2))
    assert u.wait(first)["exit_code"] == 2
    answer = u.until(lambda: u.results.get(str(second)))
    assert answer["error"]["message"] == f"write_stdin failed: Unknown process id {session}"
    u.event("exec_command_end", call_id=ident)


def test_a_cancelled_poll_loses_nothing(u):
    ident, session = begin(u, "sleep 0.5; echo later; read x", tty=True)
    poll = u.begin("write_stdin", session_id=session)
    u.until(lambda: "later" in u.deltas(ident))
    u.send({"id": f"c{poll}", "cancel": poll})
    assert u.wait(f"c{poll}") == {"cancelled": True}
    assert "later" in u.write(session, "\n", yield_time_ms=30000)["output"]


# Which sessions give way


def test_the_session_used_longest_ago_gives_way():
    with Unified("--no-sandbox") as u:
        begun = begin_many(u, [f"echo $$ > pid{i}; exec sleep 1000" for i in range(64)])
        sessions = [session for _, session in begun]
        pids = {session: os.path.join(u.work, f"pid{i}") for i, session in enumerate(sessions)}
        assert [s["session_id"] for s in u.call("list_sessions")["sessions"]] == sessions
        u.write(sessions[0], "\x03", yield_time_ms=30000)  # the command ends, and its session leaves the table
        begin(u, "exec sleep 1000")
        assert u.call("list_sessions")["sessions"][0]["session_id"] == sessions[1]
        wait_until(lambda: os.path.exists(pids[sessions[1]]) and os.path.getsize(pids[sessions[1]]) > 0)
        with open(pids[sessions[1]], encoding="ascii") as f:
            pid = int(f.read())
        begin(u, "exec sleep 1000")
        pid_gone(pid)
        listed = [s["session_id"] for s in u.call("list_sessions")["sessions"]]
        assert len(listed) == 64 and listed[0] == sessions[2]
        end = u.event("exec_command_end", process_id=sessions[1])
        assert end["exit_code"] == 137
        assert u.error("write_stdin", session_id=sessions[1]).endswith(f"Unknown process id {sessions[1]}")


def test_an_exited_session_gives_way_first():
    with Unified("--no-sandbox") as u:
        sessions = begin_many(u, ["sleep 1; exit 1" if i == 20 else "exec sleep 1000" for i in range(64)])
        u.event("exec_command_end", call_id=sessions[20][0])
        assert [s["running"] for s in u.call("list_sessions")["sessions"]].count(False) == 1
        begin(u, "exec sleep 1000")
        listed = [s["session_id"] for s in u.call("list_sessions")["sessions"]]
        assert sessions[20][1] not in listed and sessions[0][1] in listed and len(listed) == 64


def test_of_exited_sessions_the_one_used_longest_ago_gives_way(tmp):
    """The order in which the sessions began or exited does not matter."""
    with Unified("--no-sandbox") as u:
        until_told = f"trap '' INT; echo ready; while ! test -e {tmp}/go; do sleep 0.05; done"
        sessions = begin_many(u, [until_told if i in (10, 20, 30) else "exec sleep 1000" for i in range(56)])
        for i in (30, 20, 10):
            u.until(lambda: "ready" in u.deltas(sessions[i][0]))  # pylint: disable=cell-var-from-loop
            assert u.write(sessions[i][1], "\x03")["session_id"] == sessions[i][1]
        begin_many(u, ["exec sleep 1000"] * 8)  # those that were used last do not give way
        with open(f"{tmp}/go", "w", encoding="ascii"):
            pass
        for i in (10, 20, 30):
            u.event("exec_command_end", call_id=sessions[i][0])
        for gone in (30, 20, 10):
            begin(u, "exec sleep 1000")
            listed = [s["session_id"] for s in u.call("list_sessions")["sessions"]]
            assert sessions[gone][1] not in listed and sessions[0][1] in listed and len(listed) == 64


def test_an_exited_session_among_the_eight_used_last_stays():
    """The only session that has exited is protected; the one that was used longest ago goes in its place, though it lives."""
    with Unified("--no-sandbox") as u:
        sessions = begin_many(u, ["sleep 1; exit 1" if i == 57 else "exec sleep 1000" for i in range(64)])
        u.event("exec_command_end", call_id=sessions[57][0])
        begin(u, "exec sleep 1000")
        listed = [s["session_id"] for s in u.call("list_sessions")["sessions"]]
        assert len(listed) == 64 and sessions[0][1] not in listed and sessions[57][1] in listed
        begin(u, "exec sleep 1000")  # seven others were used after it, and now eight
        begin(u, "exec sleep 1000")
        listed = [s["session_id"] for s in u.call("list_sessions")["sessions"]]
        assert len(listed) == 64 and sessions[57][1] not in listed and sessions[1][1] not in listed and sessions[2][1] in listed


def test_sessions_in_use_do_not_give_way():
    with Unified("--no-sandbox") as u:
        sessions = [session for _, session in begin_many(u, ["exec sleep 1000"] * 64)]
        # The first is used: also as the one that was used last it is safe, so that it is polled while others are used after it.
        poll = u.begin("write_stdin", session_id=sessions[0], yield_time_ms=20000)
        for _ in range(10):
            begin(u, "exec sleep 1000")
        listed = [s["session_id"] for s in u.call("list_sessions")["sessions"]]
        assert sessions[0] in listed and len(listed) == 64 and sessions[1] not in listed
        assert str(poll) not in u.results
