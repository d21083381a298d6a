"""The stdio transport: one message per line, and one connection, whose end ends the server."""

import base64
import json
import os
import subprocess
import tempfile

import pytest

from farhand_client import PATIENCE, Stdio, pid_gone, serve_argv

INIT = b'{"id":1,"method":"initialize","params":{"clientName":"s"}}'
STATUS = b'{"id":2,"method":"environment/status"}'
READY = {"id": 2, "result": {"status": "ready"}}


@pytest.fixture
def stdio():
    with Stdio() as s:
        s.initialize()
        yield s


def feed(data, listen="stdio"):
    """Sends everything at once, then EOF. Returns the messages and the exit code."""
    done = subprocess.run(serve_argv(listen=listen), input=data, capture_output=True, timeout=15 * PATIENCE,
                          check=False)
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


@pytest.mark.parametrize("listen", ["stdio", "stdio://"])
def test_both_spellings(listen):
    with Stdio(listen=listen) as s:
        assert "sessionId" in s.initialize()
        assert s.call(2, "environment/status") == READY
        s.close_stdin()
        assert s.rest() == []
        assert s.wait() == 0


def test_stdout_carries_only_messages(stdio):
    assert stdio.call(2, "environment/status") == READY
    for line in stdio.lines:
        assert isinstance(json.loads(line), dict)
        assert not line.endswith(b"\r")


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_line_endings(stdio, ending):
    stdio.send_bytes(STATUS + ending)
    assert stdio.next() == READY


def test_blank_lines_are_skipped(stdio):
    stdio.send_bytes(b"\n   \n\r\n\t\n" + STATUS + b"\n")
    assert stdio.next() == READY


def test_a_line_in_pieces(stdio):
    for byte in STATUS + b"\n":
        stdio.send_bytes(bytes([byte]))
    assert stdio.next() == READY


def test_many_lines_at_once(stdio):
    stdio.send_bytes((STATUS + b"\n") * 500)
    for _ in range(500):
        assert stdio.next() == READY


def test_a_last_line_without_newline_is_processed():
    messages, code = feed(INIT + b"\n" + b'{"method":"initialized"}\n' + STATUS)
    assert code == 0
    assert messages[0]["id"] == 1
    assert messages[1] == READY


def test_a_single_line_without_newline():
    messages, code = feed(INIT)
    assert (len(messages), messages[0]["id"], code) == (1, 1, 0)


def test_no_input_at_all():
    assert feed(b"") == ([], 0)


def test_stdin_may_be_a_regular_file():
    with tempfile.TemporaryFile() as f:
        f.write(INIT + b"\n" + b'{"method":"initialized"}\n' + STATUS + b"\n")
        f.seek(0)
        with Stdio(stdin=f) as s:
            assert [m["id"] for m in s.rest()] == [1, 2]
            assert s.wait() == 0


def test_stdin_may_be_dev_null():
    with Stdio(stdin=subprocess.DEVNULL) as s:
        assert s.rest() == []
        assert s.wait() == 0


def test_stdout_may_be_a_regular_file():
    with tempfile.TemporaryFile() as out:
        done = subprocess.run(serve_argv(listen="stdio"), input=INIT + b"\n", stdout=out, stderr=subprocess.DEVNULL,
                              timeout=15 * PATIENCE, check=False)
        out.seek(0)
        assert json.loads(out.read())["id"] == 1
        assert done.returncode == 0


def test_a_large_answer_is_complete_before_the_exit(tmp):
    path = os.path.join(tmp, "large")
    with open(path, "wb") as f:
        f.write(bytes(300000))
    read = {"id": 1, "method": "fs/readFile", "params": {"path": f"file://{path}"}}
    messages, code = feed(INIT + b'\n{"method":"initialized"}\n' + json.dumps(read).encode())
    assert code == 0
    assert len(messages[1]["result"]["dataBase64"]) == 400000


@pytest.mark.parametrize("line", [b"{bad", b"[]", b"null", b'{"id":1.5,"method":"x"}', b'{"a":1,"a":2}'])
def test_bad_json_is_labelled_and_the_connection_stays(stdio, line):
    stdio.send_bytes(line + b"\n")
    answer = stdio.next()
    assert (answer["id"], answer["error"]["code"]) == (-1, -32600)
    assert answer["error"]["message"].startswith("failed to parse JSON-RPC message from exec-server stdio: ")
    assert stdio.call(2, "environment/status") == READY


def test_invalid_utf8_ends_the_server(stdio):
    stdio.send_bytes(b"{\xff}\n")
    assert stdio.rest() == []
    assert stdio.wait() == 0


@pytest.mark.parametrize("method", ["bogus", "process/start", "process/output"])
def test_an_unexpected_notification_is_answered_and_the_connection_stays(stdio, method):
    stdio.send({"method": method})
    assert stdio.next() == {"error": {"code": -32600, "message": f"unexpected notification: {method}"}, "id": -1}
    assert stdio.call(2, "environment/status") == READY


@pytest.mark.parametrize("message", [{"id": 99, "result": {}}, {"id": 99, "error": {"code": 1, "message": "x"}}])
def test_an_answer_that_nobody_asked_for_ends_the_server(stdio, message):
    stdio.send(message)
    assert stdio.rest() == []
    assert stdio.wait() == 0


def test_initialized_before_initialize_ends_the_server():
    with Stdio() as s:
        s.send({"method": "initialized"})
        assert s.rest() == []
        assert s.wait() == 0


def start(stdio, script, ident=3, **kw):
    params = {"processId": "p", "argv": ["/bin/sh", "-c", script], "cwd": "file:///tmp",
              "env": {"PATH": "/usr/bin:/bin"}, "tty": False, **kw}
    return stdio.call(ident, "process/start", params)


def output(stdio, wanted):
    """Reads on until the output of the process holds `wanted`."""
    data = b""
    while wanted not in data:
        message = stdio.next()
        if message.get("method") == "process/output":
            data += base64.b64decode(message["params"]["chunk"])
    return data


def test_end_of_input_ends_the_children(stdio):
    start(stdio, "echo $$; setsid sleep 1000 & echo $!; echo done; wait")
    pids = [int(p) for p in output(stdio, b"done\n").split()[:2]]
    stdio.close_stdin()
    stdio.rest()
    assert stdio.wait() == 0
    for pid in pids:
        pid_gone(pid)


def test_a_child_does_not_read_the_protocol(stdio):
    # Without pipeStdin a child reads /dev/null, never our input.
    start(stdio, "cat; echo end")
    assert output(stdio, b"end\n") == b"end\n"
    assert stdio.call(2, "environment/status") == READY


def test_a_child_has_none_of_our_descriptors(stdio):
    # 3 is the directory that ls reads.
    start(stdio, "", argv=["ls", "/proc/self/fd"])
    assert output(stdio, b"3\n").split() == [b"0", b"1", b"2", b"3"]


def test_output_of_a_child_stays_out_of_the_protocol(stdio):
    start(stdio, "echo not-json; echo not-json >&2; echo end")
    output(stdio, b"end\n")
    assert stdio.call(2, "environment/status") == READY


def test_a_session_cannot_be_resumed_over_stdio():
    with Stdio() as s:
        session = s.initialize()["sessionId"]
        s.close_stdin()
        s.wait()
    with Stdio() as s:
        answer = s.call(1, "initialize", {"clientName": "x", "resumeSessionId": session})
        assert answer["error"]["message"] == f"unknown session id {session}"


def test_a_reader_that_goes_away_ends_the_server():
    with Stdio() as s:
        s.initialize()
        start(s, "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done")
        pid = s.proc.pid
        s.proc.stdout.close()
        # EPIPE on stdout, not a signal from us, must end it; stdin is still open.
        s.wait(timeout=10)
        assert not os.path.exists(f"/proc/{pid}")


def test_sigterm_ends_the_server_and_its_children(stdio):
    start(stdio, "echo $$; echo done; exec sleep 1000")
    pid = int(output(stdio, b"done\n").split()[0])
    stdio.proc.terminate()
    stdio.wait()
    pid_gone(pid)


@pytest.mark.parametrize("size", [100000, 5 << 20])
def test_long_lines(stdio, size):
    message = {"id": 2, "method": "environment/status", "pad": "x" * size}
    # The answer is small, so writing the whole line first cannot dead-lock.
    stdio.send(message)
    assert stdio.next(timeout=20) == READY
