"""The conversation of `farhand unified`: bad lines, the end of its input, signals, and readers that are slow or gone."""

import json
import os
import signal
import subprocess
import time

import pytest

from farhand_client import BIN, IS_SANITIZED, pid_gone, wait_until
from unified_rig import SECONDS, Failed, Unified


@pytest.fixture
def u():
    with Unified("--no-sandbox") as one:
        yield one


@pytest.fixture(scope="module")
def shared():
    with Unified("--no-sandbox") as one:
        yield one


# Lines


@pytest.mark.parametrize("line,message", [
    ("x", "not JSON: expected value at line 1 column 1"),
    ("[1]", "a line must be an object"),
    ("{}", "a line needs one of `tool`, `cancel` and `answer`"),
    ('{"tool":"exec_command","arguments":{"cmd":"true"}}', "a call needs an `id`"),
    ('{"id":null,"tool":"exec_command"}', "`id` must be an integer or a string of at most 256 bytes"),
    ('{"id":{},"tool":"exec_command"}', "`id` must be an integer or a string of at most 256 bytes"),
    ('{"id":"%s","tool":"list_grants"}' % ("x" * 257), "`id` must be an integer or a string of at most 256 bytes"),
    ('{"answer":{"question_id":99,"decision":"approved"}}', "there is no open question with this `question_id`"),
    ('{"answer":{"question_id":99,"decision":"yes"}}', "`decision` must be `approved`, `approved_for_session` or `denied`"),
])
def test_bad_lines_get_an_error_line(shared, line, message):
    before = len(shared.lines)
    shared.send_raw(line + "\n")
    assert shared.until(lambda: shared.lines[before:])[0] == {"id": None, "error": {"message": message}}
    assert shared.exec("echo on")["output"] == "on\n"


@pytest.mark.parametrize("tool,message", [("no_such", "unknown tool `no_such`"), (3, "`tool` must be a string")])
def test_the_error_goes_to_whoever_asked(shared, tool, message):
    shared.send({"id": f"bad{tool}", "tool": tool}, is_valid=False)
    with pytest.raises(Failed, match=message):
        shared.wait(f"bad{tool}")


def test_a_line_that_is_not_utf8(shared):
    before = len(shared.lines)
    shared.send_raw(b'{"id":1,"tool":"\xff"}\n')
    assert shared.until(lambda: shared.lines[before:])[0]["error"]["message"].startswith("not JSON: ")


def test_blank_lines_and_other_line_ends_are_fine(shared):
    shared.send_raw('\n  \r\n{"id":"crlf","tool":"list_grants"}\r\n')
    assert shared.wait("crlf") == {"grants": []}


def test_a_line_may_come_in_pieces(shared):
    for byte in json.dumps({"id": "pieces", "tool": "exec_command", "arguments": {"cmd": "echo é", "login": False}}, ensure_ascii=False).encode() + b"\n":
        shared.send_raw(bytes([byte]))
    assert shared.wait("pieces")["output"] == "é\n"


def test_a_line_that_is_too_long_is_dropped(shared):
    before = len(shared.lines)
    shared.send_raw(b'{"id":"long","tool":"exec_command","arguments":{"cmd":"' + b"x" * (17 << 20) + b'"}}\n{"id":"next","tool":"list_grants"}\n')
    assert shared.wait("next") == {"grants": []}
    assert shared.lines[before:] == [{"id": None, "error": {"message": "the line is too long"}}, {"id": "next", "result": {"grants": []}}]


def test_a_command_that_is_too_long_for_the_system(shared):
    text = shared.error("exec_command", cmd=": " + "x" * (1 << 20))
    assert "Failed to create unified exec process: " in text


def test_an_id_is_in_use_until_its_answer(u):
    u.send({"id": "same", "tool": "exec_command", "arguments": {"cmd": "sleep 100", "yield_time_ms": 1000}})
    u.send({"id": "same", "tool": "list_grants"})
    u.send({"id": "same", "tool": "exec_command", "arguments": {"cmd": "true"}})
    u.until(lambda: len([line for line in u.lines if line.get("id") == "same"]) == 3)
    answers = [line for line in u.lines if line.get("id") == "same"]
    assert answers[0]["result"] == {"grants": []}
    assert answers[1]["error"]["message"] == "a call with this id is under way"
    assert "session_id" in answers[2]["result"]


def test_too_many_calls(u):
    idents = [u.begin("exec_command", cmd="exec sleep 100", login=False, yield_time_ms=8000) for _ in range(70)]
    for ident in idents[64:]:
        with pytest.raises(Failed, match="too many calls are under way"):
            u.wait(ident)
    u.send({"id": "list", "tool": "list_sessions"})
    assert len(u.wait("list")["sessions"]) <= 64
    for ident in idents[:64]:
        assert "session_id" in u.wait(ident)


# The end


def test_when_stdin_ends_calls_finish_and_then_sessions_end(u):
    ident = u.begin("exec_command", cmd="echo $$ > pid; exec sleep 1000", login=False, yield_time_ms=250)
    assert "session_id" in u.wait(ident)
    other = u.begin("exec_command", cmd="sleep 1; echo done", login=False, yield_time_ms=30000)
    with open(os.path.join(u.work, "pid"), encoding="ascii") as f:
        pid = int(f.read())
    assert u.finish() == 0
    assert u.wait(other)["output"] == "done\n"
    pid_gone(pid)
    assert u.of("exec_command_end", call_id=ident)[0]["exit_code"] == 137


def test_the_last_line_needs_no_end(u):
    u.send_raw('{"id":"last","tool":"exec_command","arguments":{"cmd":"echo last"}}')
    assert u.finish() == 0
    assert u.wait("last")["output"].endswith("last\n")


def test_no_input_at_all(u):
    assert u.finish() == 0 and u.lines == []


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_with_its_processes(u, signo):
    u.wait(u.begin("exec_command", cmd="echo $$ > pid; exec sleep 1000", login=False, yield_time_ms=250))
    running = u.begin("exec_command", cmd="sleep 1000", login=False, yield_time_ms=30000)
    u.event("exec_command_begin", call_id=running)
    wait_until(lambda: os.path.exists(os.path.join(u.work, "pid")))
    with open(os.path.join(u.work, "pid"), encoding="ascii") as f:
        pid = int(f.read())
    u.proc.send_signal(signo)
    assert u.proc.wait(SECONDS) == 128 + signo
    pid_gone(pid)


def test_a_signal_and_a_line_at_once_end_it(u):
    """The program finds both at once: it must not do what the line asks for, but end."""
    u.call("list_grants")
    u.proc.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, u.proc.pid, os.WSTOPPED)
    u.begin("exec_command", cmd="touch begun", login=False)
    u.proc.send_signal(signal.SIGTERM)
    u.proc.send_signal(signal.SIGCONT)
    assert u.proc.wait(SECONDS) == 128 + signal.SIGTERM
    assert not os.path.exists(os.path.join(u.work, "begun"))


def test_a_signal_in_the_middle_of_a_line_ends_it(u):
    u.send_raw('{"id":"whole","tool":"list_grants"}\n{"id":"half","tool":')
    u.wait("whole")
    u.proc.send_signal(signal.SIGTERM)
    assert u.proc.wait(SECONDS) == 128 + signal.SIGTERM


# Readers


def test_a_reader_that_is_gone_ends_it(tmp):
    proc = subprocess.Popen([BIN, "unified", "--env", "local", "--no-sandbox"], cwd=tmp, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    proc.stdout.close()
    proc.stdin.write(b'{"id":1,"tool":"exec_command","arguments":{"cmd":"yes","yield_time_ms":30000}}\n')
    proc.stdin.flush()
    assert proc.wait(SECONDS) == 1
    proc.stdin.close()


def memory_kib(pid):
    with open(f"/proc/{pid}/status", encoding="latin-1") as f:
        return int(next(line for line in f if line.startswith("VmRSS")).split()[1])


@pytest.mark.skipif(IS_SANITIZED, reason="sanitizers use memory of their own")
def test_a_slow_reader_does_not_make_it_grow(tmp):
    """Nobody reads while a flood comes and requests with long answers follow: it stops reading both, and loses nothing."""
    proc = subprocess.Popen([BIN, "unified", "--env", "local", "--no-sandbox"], cwd=tmp, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        for i in range(8):
            proc.stdin.write(json.dumps({"id": i, "tool": "exec_command", "arguments": {
                "cmd": "head -c 200000000 /dev/zero | tr '\\0' x", "login": False, "yield_time_ms": 30000}}).encode() + b"\n")
        proc.stdin.flush()
        os.set_blocking(proc.stdin.fileno(), False)
        line = json.dumps({"id": "l", "tool": "no_such"}).encode() + b"\n"
        taken = 0
        try:
            for _ in range(200000):  # more than the buffers of pipes and program hold
                taken += proc.stdin.write(line) or 0
                proc.stdin.flush()
        except BlockingIOError:
            pass
        wait_until(lambda: quiet(proc.pid), 60, "that it waits for its reader")
        assert memory_kib(proc.pid) < 200 * 1024, memory_kib(proc.pid)
        proc.stdin.raw.close()  # at once: flushing would write what the pipe has no room for
    finally:
        lines = read_all(proc)
    ended = [line for line in lines if line.get("event") == "exec_command_end"]
    assert proc.returncode == 0 and len(ended) == 8 and all(e["exit_code"] in (0, 137) for e in ended)
    assert all(str(i) in [str(line.get("id")) for line in lines] for i in range(8))


def quiet(pid):
    """Whether the process has used no processor time for half a second."""
    def ticks():
        with open(f"/proc/{pid}/stat", encoding="latin-1", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[11:13]
    before = ticks()
    time.sleep(0.5)
    return ticks() == before


def read_all(proc):
    lines = [json.loads(line) for line in proc.stdout]
    proc.wait(SECONDS)
    proc.stdout.close()
    return lines
