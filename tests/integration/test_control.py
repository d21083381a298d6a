"""What a client can do to a process beyond the reference: closeStdin, resize, wait, snapshot, terminate in two ways,
signals of all kinds, notifications on request, io and kind of a start."""

import base64
import hashlib
import os
import signal
import time

import pytest

from farhand_client import PATIENCE, Client, RpcError, Server, pid_alive, pid_gone, wait_until

PATH = {"PATH": "/usr/bin:/bin"}
CAP = 65536  # retained output, in bytes, of the server that retains little
METHODS = ["process/closeStdin", "process/resize", "process/wait", "process/snapshot", "process/execDecide", "process/list",
           "session/list"]
LISTS = ["process/list", "session/list"]  # the methods that need no process


def start_params(process_id, argv, **kw):
    """The params of a process/start whose answer the test does not wait for."""
    return {"processId": process_id, "argv": argv, "cwd": "file:///tmp", "env": PATH, "tty": False, **kw}


def sh(script):
    return ["/bin/bash", "-c", script]


def close_stdin(client, process_id):
    return client.call("process/closeStdin", {"processId": process_id})["status"]


def wait(client, process_id, timeout=10, **params):
    return client.call("process/wait", {"processId": process_id, **params}, timeout)


def send_signal(client, process_id, number, **params):
    return client.call("process/signal", {"processId": process_id, "signal": number, **params})


def terminate(client, process_id, mode=None):
    params = {"processId": process_id}
    if mode is not None:
        params["mode"] = mode
    return client.call("process/terminate", params)


def graceful(ms):
    return {"type": "graceful", "timeoutMs": ms}


def snapshot(client, process_id, **params):
    """The result of process/snapshot, with its bytes decoded from base64."""
    result = client.call("process/snapshot", {"processId": process_id, **params})
    assert set(result) == {"stdout", "stderr", "terminal", "truncated", "omittedBytes", "running", "exitCode", "closed",
                           "nextSeq"}
    assert set(result["omittedBytes"]) == {"stdout", "stderr", "terminal"}
    for name in ("stdout", "stderr", "terminal"):
        result[name] = base64.b64decode(result[name], validate=True)
    assert result["truncated"] == any(result["omittedBytes"].values())
    return result


@pytest.fixture(scope="module")
def small():
    """A server that retains little output, in small chunks."""
    with Server(config=f"retained_output_bytes_per_process = {CAP}\noutput_chunk_bytes = 4096\n") as s:
        yield s


@pytest.fixture
def small_client(small):
    with Client(small.url) as c:
        yield c
        assert not c.bad


@pytest.fixture
def gate(tmp):
    """A fifo that a child waits at: `read x <$GATE`. Open it with open_gate."""
    path = os.path.join(tmp, "gate")
    os.mkfifo(path)
    return path


def open_gate(path):
    # Opening for reading and writing never blocks; the line stays in the fifo until the child has read it.
    fd = os.open(path, os.O_RDWR)
    os.write(fd, b"go\n")
    return fd


# All methods of processControlV1


def test_the_capability_is_announced(client):
    assert client.init_result["environmentInfo"]["capabilities"]["processControlV1"] is True
    assert client.call("environment/info")["capabilities"]["processControlV1"] is True


@pytest.mark.parametrize("method", METHODS)
def test_new_methods_belong_to_the_exec_family(server, method):
    params = {"processId": "x", "rows": 1, "cols": 1, "requestId": "1", "decision": "run"}
    with Client(server.url, init=False) as c:
        early = c.error(method, params)
        assert (early.code, early.message) == (-32600, "client must call initialize before using exec methods")
        c.initialize(send_initialized=False)
        half = c.error(method, params)
        assert (half.code, half.message) == (-32600, "client must send initialized before using exec methods")


@pytest.mark.parametrize("method", [m for m in METHODS if m not in LISTS])
def test_params_are_looked_at_before_the_handshake(server, method):
    with Client(server.url, init=False) as c:
        e = c.error(method, {})
        assert (e.code, e.message) == (-32602, "missing field `processId`")


# closeStdin: pipes


def test_a_closed_pipe_ends_a_reader_with_all_its_bytes(client):
    client.start("p", ["cat"], pipeStdin=True)
    assert client.write("p", b"one\n", "1") == "accepted"
    assert close_stdin(client, "p") == "closed"
    assert close_stdin(client, "p") == "alreadyClosed"
    assert client.write("p", b"two\n", "2") == "stdinClosed"
    client.wait_closed("p")
    assert client.output("p") == b"one\n"
    assert client.wait_exit("p")["exitCode"] == 0
    assert close_stdin(client, "p") == "alreadyClosed"
    client.check_seq("p")


def test_an_accepted_write_is_still_known_after_the_close(client):
    client.start("p", ["cat"], pipeStdin=True)
    assert client.write("p", b"x", "same") == "accepted"
    assert close_stdin(client, "p") == "closed"
    assert client.write("p", b"x", "same") == "accepted"  # a repeated write, not a new one
    client.wait_closed("p")
    assert client.output("p") == b"x"


def test_the_pipe_closes_when_what_is_queued_is_written(client, gate):
    size = 700_000  # far more than a pipe holds
    client.start("p", sh("read x <$GATE; wc -c"), pipeStdin=True, env={**PATH, "GATE": gate})
    assert client.write("p", b"x" * size, "1") == "accepted"
    assert close_stdin(client, "p") == "closed"
    assert close_stdin(client, "p") == "alreadyClosed"
    assert client.write("p", b"y", "2") == "stdinClosed"
    fd = open_gate(gate)
    client.wait_closed("p")
    os.close(fd)
    assert int(client.output("p")) == size


def test_the_close_keeps_its_place_among_writes_that_wait(client, gate):
    piece = 1 << 20
    client.start("p", sh("read x <$GATE; sha256sum; cat"), pipeStdin=True, env={**PATH, "GATE": gate})
    chunk = base64.b64encode(b"z" * piece).decode()
    writes = [client.request("process/write", {"processId": "p", "chunk": chunk, "writeId": f"w{i}"}) for i in range(12)]
    close = client.request("process/closeStdin", {"processId": "p"})
    behind = [client.request("process/write", {"processId": "p", "chunk": "eA==", "writeId": "late"}),
              client.request("process/closeStdin", {"processId": "p"})]
    client.call("environment/status")
    assert not any(m.get("id") in (close, *behind) for m in client.messages)  # the queue is full: they wait
    fd = open_gate(gate)
    assert [client.result(w)["status"] for w in writes] == ["accepted"] * 12
    assert client.result(close)["status"] == "closed"
    assert [client.result(b)["status"] for b in behind] == ["stdinClosed", "alreadyClosed"]
    client.wait_closed("p")
    os.close(fd)
    assert client.output("p").split()[0].decode() == hashlib.sha256(b"z" * piece * 12).hexdigest()


def test_a_start_its_writes_and_its_close_may_be_sent_at_once(client):
    ids = [client.request("process/start", start_params("p", ["cat"], pipeStdin=True))]
    ids += [client.request("process/write", {"processId": "p", "chunk": base64.b64encode(b"%d " % i).decode(),
                                             "writeId": str(i)}) for i in range(10)]
    ids.append(client.request("process/closeStdin", {"processId": "p"}))
    ids.append(client.request("process/wait", {"processId": "p"}))
    results = [client.result(i) for i in ids]
    assert [r["status"] for r in results[1:11]] == ["accepted"] * 10
    assert results[11]["status"] == "closed"
    assert (results[12]["exitCode"], results[12]["closed"]) == (0, True)
    assert client.output("p") == b"0 1 2 3 4 5 6 7 8 9 "


def test_a_close_behind_a_start_that_fails(client):
    start = client.request("process/start", start_params("p", ["/no/such/program"], pipeStdin=True))
    close = client.request("process/closeStdin", {"processId": "p"})
    assert client.response(start)["error"]["code"] == -32603
    assert client.result(close)["status"] == "unknownProcess"


def test_there_is_nothing_to_close_without_stdin_or_process(client):
    client.start("p", ["sleep", "60"])
    assert close_stdin(client, "p") == "stdinClosed"
    assert close_stdin(client, "nobody") == "unknownProcess"
    terminate(client, "p")
    client.wait_closed("p")
    assert close_stdin(client, "p") == "stdinClosed"


def test_stdin_of_an_ended_process_is_already_closed(client):
    client.start("p", ["true"], pipeStdin=True)
    client.wait_closed("p")
    assert close_stdin(client, "p") == "alreadyClosed"


def test_close_of_a_stdin_that_the_child_closed_itself(client, gate):
    client.start("p", sh("exec <&-; echo shut; read x <$GATE"), pipeStdin=True, env={**PATH, "GATE": gate})
    client.wait_output("p", b"shut")
    assert close_stdin(client, "p") in ("closed", "alreadyClosed")  # the server may not have noticed the end yet
    os.close(open_gate(gate))
    terminate(client, "p")
    client.wait_closed("p")


# closeStdin: terminals


def test_a_terminal_gets_its_end_of_file_character(client):
    client.start("p", ["cat"], tty=True)
    assert client.write("p", b"hello\n", "1") == "accepted"
    assert close_stdin(client, "p") == "closed"
    assert close_stdin(client, "p") == "alreadyClosed"
    assert client.write("p", b"more\n", "2") == "stdinClosed"
    client.wait_closed("p")
    assert client.output("p") == b"hello\r\nhello\r\n"
    assert client.wait_exit("p")["exitCode"] == 0
    assert close_stdin(client, "p") == "alreadyClosed"


def test_the_character_is_the_one_that_the_terminal_has(client):
    client.start("p", sh("stty -echo eof ^A; echo ready; od -An -c; echo end"), tty=True)
    client.wait_output("p", b"ready")
    assert close_stdin(client, "p") == "closed"
    client.wait_closed("p")
    assert client.output("p").split() == [b"ready", b"end"]


def test_a_raw_terminal_cannot_be_closed_and_stays_writable(client):
    # On SIGUSR1 the child tells what has arrived: dd's read gives up after 5 s.
    script = ("trap 'got=$(dd bs=16 count=1 2>/dev/null | od -An -c); echo \"[$got]\"; exit 0' USR1\n"
              "stty raw -echo min 0 time 50; echo ready; while :; do sleep 0.02; done")
    client.start("p", sh(script), tty=True)
    client.wait_output("p", b"ready")
    for _ in range(2):
        with pytest.raises(RpcError) as caught:
            close_stdin(client, "p")
        assert (caught.value.code, caught.value.data["reason"]) == (-32600, "rawTerminal")
        assert "raw mode" in caught.value.message
    assert client.write("p", b"x", "1") == "accepted"
    send_signal(client, "p", "user1", scope="process")
    client.wait_closed("p")
    assert client.output("p").split() == [b"ready", b"[", b"x]"], "nothing but what was written"


def test_an_interactive_shell_is_not_locked_up_by_closing(client):
    """At its prompt bash sets the terminal to raw mode; while a command runs the terminal is not raw."""
    client.start("p", ["bash", "--norc", "-i"], tty=True, env={"PATH": os.environ["PATH"], "PS1": "prompt> ", "TERM": "dumb"})
    client.wait_output("p", b"prompt> ")
    with pytest.raises(RpcError):
        close_stdin(client, "p")
    assert client.write("p", b"echo al''ive\n", "1") == "accepted"
    # While bash is not at its prompt, the line discipline swallows the end-of-file character.
    client.wait_output("p", lambda data: b"prompt> " in data.partition(b"alive\r\n")[2])
    assert client.write("p", b"\x04", "2") == "accepted"
    client.wait_closed("p")


def test_a_terminals_end_follows_what_was_written(client):
    client.start("p", sh("stty -echo; echo ready; wc -c"), tty=True)
    client.wait_output("p", b"ready")
    lines = b"".join(b"%039d\n" % i for i in range(200))
    ids = [client.request("process/write", {"processId": "p", "chunk": base64.b64encode(lines[i:i + 800]).decode()})
           for i in range(0, len(lines), 800)]
    ids.append(client.request("process/closeStdin", {"processId": "p"}))
    assert [client.result(i)["status"] for i in ids] == ["accepted"] * (len(ids) - 1) + ["closed"]
    client.wait_closed("p")
    assert client.output("p").split()[-1] == b"%d" % len(lines)


def test_closing_a_terminal_whose_process_ends_meanwhile_harms_nobody(client):
    for i in range(60):
        client.request("process/start", start_params(f"p{i}", ["true"], tty=True))
        first = client.request("process/closeStdin", {"processId": f"p{i}"})
        second = client.request("process/closeStdin", {"processId": f"p{i}"})
        assert client.result(first)["status"] in ("closed", "alreadyClosed")
        assert client.result(second)["status"] == "alreadyClosed"
    for i in range(60):
        client.wait_closed(f"p{i}")


# resize and io


def resize(client, process_id, rows, cols):
    return client.call("process/resize", {"processId": process_id, "rows": rows, "cols": cols})


def test_a_resize_is_seen_and_signalled(client):
    client.start("p", sh("trap 'echo told' WINCH; while :; do stty size; sleep 0.02; done"), tty=True)
    assert not client.wait_output("p", b"24 80\r\n").count(b"told")
    assert resize(client, "p", 50, 132) == {}
    client.wait_output("p", b"50 132\r\n")
    client.wait_output("p", b"told\r\n")
    assert resize(client, "p", 65535, 1) == {}
    client.wait_output("p", b"65535 1\r\n")
    assert terminate(client, "p")["running"] is True
    client.wait_closed("p")
    assert resize(client, "p", 24, 80) == {}  # exited: nothing to do


def test_a_resize_directly_behind_the_start_counts(client, gate):
    client.request("process/start", start_params("p", sh("read x <$GATE; stty size"), tty=True,
                                                 env={**PATH, "GATE": gate}))
    assert resize(client, "p", 7, 9) == {}
    fd = open_gate(gate)
    client.wait_closed("p")
    os.close(fd)
    assert client.output("p") == b"7 9\r\n"


def test_resizes_that_are_refused(client):
    client.start("p", ["sleep", "60"])
    for rows, cols in ((0, 80), (24, 0), (0, 0)):
        e = client.error("process/resize", {"processId": "p", "rows": rows, "cols": cols})
        assert (e.code, e.message) == (-32602, "rows and cols must be positive")
    for rows in (65536, -1, 1.5, "24", None):
        assert client.error("process/resize", {"processId": "p", "rows": rows, "cols": 80}).code == -32602
    e = client.error("process/resize", {"processId": "p", "rows": 24, "cols": 80})
    assert (e.code, e.message) == (-32600, "process p is not attached to a PTY")
    e = client.error("process/resize", {"processId": "nobody", "rows": 24, "cols": 80})
    assert (e.code, e.message) == (-32600, "unknown process id nobody")
    terminate(client, "p")


def start_io(client, process_id, argv, io, **kw):
    params = start_params(process_id, argv, io=io, **kw)
    if "tty" not in kw:
        del params["tty"]
    return client.call("process/start", params)


def test_io_gives_a_terminal_of_the_wanted_size(client):
    for index, (io, size) in enumerate([({"type": "pty", "rows": 50, "cols": 132}, b"50 132\r\n"),
                                        ({"type": "pty"}, b"24 80\r\n"), ({"type": "pty", "rows": 9}, b"9 80\r\n")]):
        start_io(client, f"p{index}", ["stty", "size"], io)
        client.wait_closed(f"p{index}")
        assert client.output(f"p{index}", "pty") == size


def test_io_gives_pipes_with_stdin_or_without(client):
    start_io(client, "open", ["cat"], {"type": "pipe", "stdin": "open"})
    assert client.write("open", b"x", "1") == "accepted"
    assert close_stdin(client, "open") == "closed"
    client.wait_closed("open")
    assert client.output("open", "stdout") == b"x"
    start_io(client, "closed", ["cat"], {"type": "pipe", "stdin": "closed"})
    assert client.write("closed", b"x", "1") == "stdinClosed"
    client.wait_closed("closed")
    assert client.output("closed") == b""


def test_io_wins_over_the_members_that_it_replaces(client):
    start_io(client, "a", ["tty"], {"type": "pipe", "stdin": "closed"}, tty=True, pipeStdin=True)
    start_io(client, "b", ["tty"], {"type": "pty"}, tty=False, pipeStdin=False)
    client.wait_closed("a")
    client.wait_closed("b")
    assert client.output("a", "stdout") == b"not a tty\n"
    assert client.output("b", "pty").startswith(b"/dev/pts/")


def test_io_that_is_refused(client):
    for io in ({"type": "pty", "rows": 0, "cols": 1}, {"type": "pipe"}, {"type": "tty"}, {}, 5, "pty",
               {"type": "pipe", "stdin": "maybe"}, {"type": "pty", "rows": 65536, "cols": 1}):
        assert client.error("process/start", start_params("p", ["true"], io=io)).code == -32602
    client.start("p", ["true"])  # the id is free


# kind


def test_both_kinds_run_by_default(client):
    for kind in ("direct", "prepared", None):
        assert client.run(["echo", "x"], kind=kind)[0] == b"x\n"
    assert client.error("process/start", start_params("k", ["true"], kind="other")).code == -32602
    plain = {"permissions": {"type": "disabled"}, "windowsSandboxLevel": "disabled"}
    assert client.error("process/start", start_params("k", ["true"], kind="prepared", sandbox=plain)).code == -32602


@pytest.mark.parametrize("off, on", [("direct", "prepared"), ("prepared", "direct")])
def test_a_kind_can_be_switched_off(off, on):
    with Server(config=f"allow_{off}_exec = false\n") as s, s.connect() as c:
        e = c.error("process/start", start_params("p", ["true"], kind=off))
        assert (e.code, e.message) == (-32600, f"{off} exec is disabled")
        if off == "direct":  # the default
            assert c.error("process/start", start_params("p", ["true"])).message == "direct exec is disabled"
        assert c.run(["echo", "x"], process_id="p", kind=on)[0] == b"x\n"


# wait


def test_wait_tells_how_it_ended(client):
    client.start("p", sh("echo out; exit 3"))
    result = wait(client, "p")
    assert set(result) >= {"exited", "exitCode", "closed", "nextSeq", "sandboxDenied", "timedOut"}
    assert (result["exited"], result["exitCode"], result["closed"]) == (True, 3, True)
    assert (result["sandboxDenied"], result["timedOut"]) == (False, False)
    client.wait_closed("p")
    assert result["nextSeq"] == 4  # output, exit, close
    assert wait(client, "p", waitMs=0) == result  # and again, at once


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "tty"])
def test_closed_in_an_answer_means_that_the_close_is_counted(client, gate, tty):
    """A waiter that is woken by an exit together with the end of output sees both in its answer, not one of them."""
    client.start("p", sh("read x <$GATE; exec >&- 2>&-; exit 0"), tty=tty, env={**PATH, "GATE": gate})
    waits = [client.request("process/wait", {"processId": "p", "until": until}) for until in ("exited", "closed")]
    read = client.request("process/read", {"processId": "p", "waitMs": 10000})
    fd = open_gate(gate)
    for answer in [client.result(w) for w in waits] + [client.result(read)]:
        assert answer["exited"] is True
        assert answer["nextSeq"] == (3 if answer["closed"] else 2)
    os.close(fd)


def test_wait_until_exited_does_not_wait_for_the_pipe(client, gate):
    client.start("p", sh("(read x <$GATE; echo late) & exit 4"), env={**PATH, "GATE": gate})
    result = wait(client, "p", until="exited")
    assert (result["exited"], result["exitCode"], result["closed"], result["timedOut"]) == (True, 4, False, False)
    closed = client.request("process/wait", {"processId": "p", "until": "closed"})
    client.call("environment/status")
    assert not any(m.get("id") == closed for m in client.messages)
    fd = open_gate(gate)
    result = client.result(closed)
    assert (result["exited"], result["exitCode"], result["closed"], result["timedOut"]) == (True, 4, True, False)
    os.close(fd)
    client.wait_closed("p")
    assert client.output("p") == b"late\n"


def test_wait_ends_with_the_callers_patience(client):
    client.start("p", ["sleep", "60"])
    before = time.monotonic()
    result = wait(client, "p", waitMs=150)
    assert 0.14 <= time.monotonic() - before < 5 * PATIENCE
    assert (result["exited"], result["exitCode"], result["closed"], result["timedOut"]) == (False, None, False, True)
    assert result["nextSeq"] == 1
    assert not set(result) & {"signal", "coreDumped", "reason", "usage"}
    assert wait(client, "p", waitMs=0, until="exited")["timedOut"] is True
    terminate(client, "p")
    assert wait(client, "p", waitMs=0x7FFFFFFFFFFFFFFF)["exitCode"] == 137


def test_wait_that_gives_up_on_the_close_tells_the_exit(client):
    client.start("p", sh("sleep 60 & exit 0"))
    client.wait_exit("p")
    result = wait(client, "p", waitMs=200)
    assert (result["exited"], result["exitCode"], result["closed"], result["timedOut"]) == (True, 0, False, True)


def test_drain_ms_bounds_the_wait_behind_the_exit(client, gate):
    client.start("p", sh("read x <$GATE; sleep 60 & exit 5"), env={**PATH, "GATE": gate})
    short = client.request("process/wait", {"processId": "p", "drainMs": 150})
    none = client.request("process/wait", {"processId": "p", "drainMs": 0})
    client.call("environment/status")
    assert not any(m.get("id") in (short, none) for m in client.messages)  # the process runs: drainMs does not count yet
    fd = open_gate(gate)
    result = client.result(none)
    assert (result["exited"], result["exitCode"], result["closed"]) == (True, 5, False)
    exited_at = time.monotonic()
    result = client.result(short)
    assert (result["exited"], result["exitCode"], result["closed"]) == (True, 5, False)
    assert time.monotonic() - exited_at < 5 * PATIENCE
    result = wait(client, "p", drainMs=100000, waitMs=200)  # waitMs ends the wait all the same
    assert (result["exited"], result["closed"], result["timedOut"]) == (True, False, True)
    os.close(fd)


def test_drain_ms_is_counted_from_the_exit(client):
    client.start("p", sh("sleep 60 & exit 0"))
    client.wait_exit("p")
    wait(client, "p", waitMs=1000)  # lets time pass
    seconds = []
    for _ in range(5):  # a busy machine may hold back an answer that is not waited for
        before = time.monotonic()
        assert wait(client, "p", drainMs=1000)["exited"] is True
        seconds.append(time.monotonic() - before)
        if seconds[-1] < 0.9:
            break
    assert min(seconds) < 0.9


def test_waits_hold_back_nobody(client):
    client.start("p", ["cat"], pipeStdin=True)
    waits = [client.request("process/wait", {"processId": "p", "until": ("exited", "closed")[i % 2]}) for i in range(60)]
    for _ in range(3):
        client.call("environment/status")
    assert client.run(["echo", "x"])[0] == b"x\n"
    assert client.write("p", b"y", "1") == "accepted"
    client.wait_output("p", b"y")
    assert not any(m.get("id") in waits for m in client.messages)
    close_stdin(client, "p")
    results = [client.result(w) for w in waits]
    assert all(r["exitCode"] == 0 and not r["timedOut"] for r in results)


def test_wait_for_an_unknown_process(client):
    e = client.error("process/wait", {"processId": "nobody"})
    assert (e.code, e.message) == (-32600, "unknown process id nobody")


def test_wait_directly_behind_the_start(client):
    client.request("process/start", start_params("p", ["sleep", "60"]))
    before = time.monotonic()
    result = wait(client, "p", waitMs=0)
    assert (result["exited"], result["timedOut"]) == (False, True)
    client.request("process/start", start_params("q", ["sleep", "60"]))
    assert wait(client, "q", waitMs=1)["timedOut"] is True
    assert time.monotonic() - before < 5 * PATIENCE
    for process_id in "pq":
        terminate(client, process_id)


def test_wait_behind_a_start_that_fails(client):
    start = client.request("process/start", start_params("p", ["/no/such/program"]))
    waiting = client.request("process/wait", {"processId": "p"})
    assert client.response(start)["error"]["code"] == -32603
    with pytest.raises(RpcError, match="unknown process id p"):
        client.result(waiting)


def test_a_wait_whose_connection_went_away_is_nobodys_business(server):
    with Client(server.url) as c:
        c.start("p", ["cat"], pipeStdin=True)
        c.request("process/wait", {"processId": "p"})
        c.call("environment/status")
        session = c.session_id
    again = wait_until(lambda: attach(server, session), what="the session to be free")
    with again:
        close_stdin(again, "p")
        assert wait(again, "p")["exitCode"] == 0


def attach(server, session, **kw):
    try:
        return Client(server.url, resume=session, **kw)
    except RpcError as e:
        assert e.code == -32010
        return None


# snapshot


def test_a_snapshot_of_little_is_everything(client):
    client.start("p", sh("echo out; echo err >&2; exit 3"))
    client.wait_closed("p")
    s = snapshot(client, "p")
    assert (s["stdout"], s["stderr"], s["terminal"]) == (b"out\n", b"err\n", b"")
    assert (s["truncated"], s["running"], s["exitCode"], s["closed"], s["nextSeq"]) == (False, False, 3, True, 5)
    assert s == snapshot(client, "p")  # nothing is consumed
    assert len(client.read("p")["chunks"]) == 2


def test_a_snapshot_of_a_terminal(client):
    client.start("p", sh("printf abc; read x"), tty=True)
    client.wait_output("p", b"abc")
    s = snapshot(client, "p")
    assert (s["stdout"], s["stderr"], s["terminal"]) == (b"", b"", b"abc")
    assert (s["running"], s["exitCode"], s["closed"], s["nextSeq"]) == (True, None, False, 2)
    s = snapshot(client, "p", maxBytes=2)
    assert (s["terminal"], s["omittedBytes"]) == (b"ac", {"stdout": 0, "stderr": 0, "terminal": 1})
    terminate(client, "p")


def numbered(size):
    return b"".join(b"%07d\n" % i for i in range(size // 8 + 1))[:size]


@pytest.mark.parametrize("size", [CAP - 1, CAP, CAP + 1, CAP + 5000, 3 * CAP, 20 * CAP])
def test_a_snapshot_keeps_both_ends_around_the_cap(small_client, size):
    c = small_client
    data = numbered(size)
    c.start("p", sh(f"seq -f %07.0f 0 {size} | head -c {size}"))
    c.wait_closed("p")
    assert c.output("p") == data
    s = snapshot(c, "p")
    want = data if size <= CAP else data[:CAP // 2] + data[-(CAP // 2):]
    assert s["stdout"] == want
    assert s["omittedBytes"] == {"stdout": size - len(want), "stderr": 0, "terminal": 0}
    for budget in (0, 1, 10, 1001, CAP // 2, CAP, CAP + 1, 1 << 40):
        s = snapshot(c, "p", maxBytes=budget)
        kept = min(budget, CAP)
        want = data if size <= kept else data[:kept // 2] + data[size - (kept - kept // 2):]
        assert s["stdout"] == want
        assert s["omittedBytes"]["stdout"] == size - len(want)


def test_the_budget_is_for_each_stream(client):
    client.start("p", sh("printf 0123456789; printf abcdefghij >&2"))
    client.wait_closed("p")
    s = snapshot(client, "p", maxBytes=4)
    assert (s["stdout"], s["stderr"]) == (b"0189", b"abij")
    assert s["omittedBytes"] == {"stdout": 6, "stderr": 6, "terminal": 0}


def test_one_streams_flood_does_not_wash_away_the_others_beginning(small_client):
    c = small_client
    c.start("p", sh(f"echo precious >&2; head -c {5 * CAP} /dev/zero"))
    c.wait_closed("p")
    assert not any(chunk["stream"] == "stderr" for chunk in c.read("p")["chunks"])  # gone from the retention
    s = snapshot(c, "p")
    assert s["stderr"] == b"precious\n"
    assert len(s["stdout"]) == CAP
    assert s["omittedBytes"] == {"stdout": 4 * CAP, "stderr": 0, "terminal": 0}


def test_a_snapshot_of_an_unknown_process(client):
    e = client.error("process/snapshot", {"processId": "nobody"})
    assert (e.code, e.message) == (-32600, "unknown process id nobody")
    assert client.error("process/snapshot", {"processId": "nobody", "maxBytes": -1}).code == -32602


# terminate


def test_graceful_lets_the_process_end_itself(client):
    client.start("p", sh("trap 'for i in 1 2 3; do echo bye$i; sleep 0.03; done; exit 7' TERM; echo ready; "
                         "while :; do sleep 0.02; done"))
    client.wait_output("p", b"ready")
    assert terminate(client, "p", graceful(20000)) == {"running": True, "mode": "graceful"}
    client.wait_closed("p")
    assert client.output("p", "stdout") == b"ready\nbye1\nbye2\nbye3\n"  # heard while it was ending
    assert client.wait_exit("p")["exitCode"] == 7
    client.check_seq("p")
    assert terminate(client, "p", graceful(1)) == {"running": False, "mode": "graceful"}


def test_graceful_reaches_the_whole_group(client):
    client.start("p", sh("trap 'wait; echo root; exit 0' TERM; "
                         "bash -c 'trap \"echo kid; exit\" TERM; echo up; while :; do sleep 0.02; done' & wait"))
    client.wait_output("p", b"up")
    terminate(client, "p", graceful(20000))
    client.wait_closed("p")
    assert sorted(client.output("p", "stdout").split()) == [b"kid", b"root", b"up"]  # on stderr a shell may report its killed sleep


def test_graceful_becomes_force_when_the_time_is_over(client):
    client.start("p", sh("trap '' TERM; echo ready; setsid sleep 60 & echo $!; while :; do sleep 0.02; done"))
    child = int(client.wait_output("p", lambda data: data.count(b"\n") == 2).split()[1])
    before = time.monotonic()
    assert terminate(client, "p", graceful(250))["running"] is True
    client.wait_closed("p")
    assert time.monotonic() - before >= 0.24
    assert client.wait_exit("p")["exitCode"] == 137
    pid_gone(child)  # the kill is for the whole tree


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
        return f.read().rpartition(")")[2].split()[0]


def test_graceful_wakes_a_stopped_process(client):
    pid = client.start("p", sh("kill -STOP $$; sleep 60"))["pid"]
    wait_until(lambda: state_of(pid) == "T", what="the stop")
    terminate(client, "p", graceful(30000))
    client.wait_closed("p")
    assert client.wait_exit("p")["exitCode"] == 143


def test_force_is_what_it_is_without_a_mode(client):
    script = sh("trap 'echo no; exit 0' TERM; echo ready; while :; do sleep 0.02; done")
    for process_id, mode in (("a", None), ("b", {"type": "force"}), ("c", graceful(0))):
        client.start(process_id, script)
        client.wait_output(process_id, b"ready")
        want = {"running": True}
        if mode:
            want["mode"] = mode["type"]
        assert terminate(client, process_id, mode) == want
        client.wait_closed(process_id)
        assert client.output(process_id) == b"ready\n"
        assert client.wait_exit(process_id)["exitCode"] == 137
    assert terminate(client, "nobody", graceful(5)) == {"running": False, "mode": "graceful"}
    assert terminate(client, "nobody", {"type": "force"}) == {"running": False, "mode": "force"}


# The first process ends some time after SIGTERM; its child, in a session of its own, ignores SIGTERM.
STUBBORN = sh("setsid bash -c \"trap '' TERM; echo \\$\\$; while :; do sleep 0.02; done\" & "
              "trap 'sleep 0.2; exit 0' TERM; while :; do sleep 0.02; done")


def test_a_patient_terminate_saves_nobody_from_the_end_of_the_session(server):
    with Client(server.url, init_params={"detachMs": 0}) as c:
        c.start("p", STUBBORN)
        child = int(c.wait_output("p", b"\n"))
        assert terminate(c, "p", graceful(60000))["running"] is True
    pid_gone(child, 30 / PATIENCE)


def test_a_patient_terminate_saves_nobody_from_a_limit(client):
    client.start("p", STUBBORN, limits={"wallMs": 400})
    child = int(client.wait_output("p", b"\n"))
    wait(client, "p", waitMs=300)
    terminate(client, "p", graceful(60000))  # the limit comes while the root is obeying
    client.wait_exit("p")
    pid_gone(child, 30 / PATIENCE)


def test_a_patient_terminate_does_not_put_off_a_limit(client):
    for ms in (200, 1000, 5000, 25000):
        name = f"p{ms}"
        client.start(name, sh("trap 'echo heard' TERM; while :; do sleep 0.02; done"), limits={"wallMs": ms})
        wait_until(lambda: b"heard" in client.output(name) or "closed" in told(client, name), 60, "the limit")
        if b"heard" in client.output(name):
            break  # the grace period of the limit has begun; otherwise the limit came before the trap
    before = time.monotonic()
    terminate(client, name, graceful(60000))
    client.wait_closed(name)
    assert time.monotonic() - before < 30
    assert client.wait_exit(name)["reason"] == "wallLimit"


def test_a_second_terminate_may_be_less_patient(client):
    script = sh("trap '' TERM; echo ready; while :; do sleep 0.02; done")
    for process_id, second in (("a", None), ("b", {"type": "force"}), ("c", graceful(50))):
        client.start(process_id, script)
        client.wait_output(process_id, b"ready")
        assert terminate(client, process_id, graceful(60000))["running"] is True
        assert terminate(client, process_id, second)["running"] is True
        client.wait_closed(process_id)
        assert client.wait_exit(process_id)["exitCode"] == 137


def test_modes_that_are_refused(client):
    client.start("p", ["sleep", "60"])
    for mode in (graceful(60001), graceful(-1), graceful(None), {"type": "graceful"}, {"type": "x"}, {}, 5, "graceful"):
        e = client.error("process/terminate", {"processId": "p", "mode": mode})
        assert e.code == -32602
    assert client.read("p")["exited"] is False
    terminate(client, "p")


def test_graceful_of_a_start_under_way_cancels_it_or_ends_it(client):
    for i in range(20):
        start = client.request("process/start", start_params(f"p{i}", ["sleep", "60"]))
        end = client.request("process/terminate", {"processId": f"p{i}", "mode": graceful(60000)})
        started = client.response(start)
        assert client.result(end) == {"running": True, "mode": "graceful"}
        if "error" in started:
            assert started["error"]["message"] == f"process p{i} start was cancelled"
        else:
            client.wait_closed(f"p{i}")


# signals

# Not a shell: dash may lose a signal that comes while it forks.
TRAPS = ["/usr/bin/python3", "-c", """
import os, signal, time
for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2"):
    signal.signal(getattr(signal, "SIG" + name), lambda number, frame, name=name: os.write(1, name.encode() + b"\\n"))
os.write(1, b"ready\\n")
while True:
    time.sleep(0.02)
"""]


def test_signals_by_name_and_number(client):
    client.start("p", TRAPS)
    client.wait_output("p", b"ready")
    names = [("interrupt", b"INT"), ("terminate", b"TERM"), ("hangup", b"HUP"), ("quit", b"QUIT"), ("user1", b"USR1"),
             ("user2", b"USR2"), (2, b"INT"), (15, b"TERM"), (1, b"HUP"), (3, b"QUIT"), (10, b"USR1"), (12, b"USR2")]
    for name, word in names:
        have = len(client.output("p"))
        # Only to the first process: a signal to the group would also end its sleep.
        assert send_signal(client, "p", name, scope="process") == {}
        client.wait_output("p", lambda data, have=have, word=word: data[have:] == word + b"\n")
    assert send_signal(client, "p", "kill") == {}
    client.wait_closed("p")
    assert client.wait_exit("p")["exitCode"] == 137


def command_of(pid):
    with open(f"/proc/{pid}/comm", encoding="latin-1") as f:
        return f.read()


@pytest.mark.parametrize("number", [1, 9, 11, 34, 64])
def test_a_signal_by_number_kills(client, number):
    pid = client.start("p", sh("ulimit -c 0; exec sleep 60"))["pid"]
    wait_until(lambda: command_of(pid) == "sleep\n", what="the exec")
    assert send_signal(client, "p", number) == {}
    client.wait_closed("p")
    assert client.wait_exit("p")["exitCode"] == 128 + number


def test_scopes_reach_as_far_as_they_say(client):
    # The first process, a child in its group, and a child in a session of its own. Each prints a word on SIGUSR1.
    tell = "trap 'echo {0}' USR1; echo up; while :; do sleep 0.02; done"
    client.start("p", sh("export T1=\"{}\" T2=\"{}\"; bash -c \"$T1\" & setsid bash -c \"$T2\" & {}".format(
        tell.format("kid"), tell.format("far"), tell.format("root"))))
    client.wait_output("p", lambda data: data.count(b"up\n") == 3)
    for scope, words in (("process", [b"root"]), ("group", [b"kid", b"root"]), (None, [b"kid", b"root"]),
                         ("tree", [b"far", b"kid", b"root"])):
        have = len(client.output("p", "stdout"))
        params = {"scope": scope} if scope else {}
        assert send_signal(client, "p", "user1", **params) == {}
        wait_until(lambda: len(client.output("p", "stdout")[have:].split()) >= len(words), what=f"traps of {scope}")
        assert sorted(client.output("p", "stdout")[have:].split()) == words
    terminate(client, "p")
    client.wait_closed("p")


def test_a_tree_can_be_signalled_when_its_root_has_exited(client):
    client.start("p", sh("setsid bash -c 'trap \"echo far; exit\" USR1; echo up; while :; do sleep 0.02; done' & exit 0"))
    client.wait_output("p", b"up")
    client.wait_exit("p")
    assert send_signal(client, "p", "user1") == {}  # the process group is gone, so no process gets the signal
    assert send_signal(client, "p", "user1", scope="tree") == {}
    client.wait_closed("p")
    assert client.output("p", "stdout") == b"up\nfar\n"  # on stderr a shell may report its killed sleep


def test_signals_to_nobody_are_answered(client):
    assert send_signal(client, "nobody", 15) == {}
    client.run(["true"], process_id="p")
    for scope in ("group", "process", "tree"):
        assert send_signal(client, "p", 15, scope=scope) == {}


def test_signals_that_are_refused(client):
    client.start("p", ["sleep", "60"])
    for bad in (0, 65, -1, 2.5, 1 << 32, "SIGINT", "2", None, True, []):
        assert client.error("process/signal", {"processId": "p", "signal": bad}).code == -32602
    for scope in ("all", 1, ""):
        assert client.error("process/signal", {"processId": "p", "signal": 2, "scope": scope}).code == -32602
    assert client.read("p")["exited"] is False
    terminate(client, "p")


def test_orders_that_were_sent_together_are_obeyed_in_order(client):
    client.start("p", sh("trap 'echo one' USR1; trap 'echo two' USR2; trap 'echo bye; exit 9' TERM; echo ready; "
                         "while :; do sleep 0.02; done"))
    client.wait_output("p", b"ready")
    ids = [client.request("process/signal", {"processId": "p", "signal": "user1", "scope": "process"}),
           client.request("process/signal", {"processId": "p", "signal": "user2", "scope": "process"}),
           client.request("process/terminate", {"processId": "p", "mode": graceful(30000)}),
           client.request("process/wait", {"processId": "p", "until": "closed"}),
           client.request("process/snapshot", {"processId": "p"})]
    answers = [client.result(i) for i in ids]
    assert answers[0] == answers[1] == {}
    assert answers[2]["running"] is True
    assert (answers[3]["exitCode"], answers[3]["closed"]) == (9, True)
    assert answers[4]["running"] is True  # the snapshot shows the moment of the request
    assert sorted(client.output("p", "stdout").split()) == [b"bye", b"one", b"ready", b"two"]


# started and failed


def told(client, process_id):
    return [m["method"].partition("/")[2] for m in client.events(process_id)]


def keeper_of(pid):
    with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
        return int(f.read().rpartition(")")[2].split()[1])


def test_started_comes_first_and_has_no_number(server):
    with Client(server.url, init_params={"notifications": ["started", "failed", "whatever"]}) as c:
        for i in range(20):
            pid = c.start(f"p{i}", ["echo", "x"])["pid"]
            c.wait_closed(f"p{i}")
            events = c.events(f"p{i}")
            assert events[0] == {"method": "process/started", "params": {"processId": f"p{i}", "pid": pid}}
            assert [m["params"]["seq"] for m in events[1:]] == [1, 2, 3]
            assert told(c, f"p{i}") == ["started", "output", "exited", "closed"]
        c.error("process/start", start_params("none", ["/no/such/program"]))
        c.call("environment/status")
        assert told(c, "none") == []  # not started, so nothing to tell


@pytest.mark.parametrize("asked", [None, [], ["failed"], ["later"]])
def test_started_is_for_those_who_asked(server, asked):
    with Client(server.url, init_params={} if asked is None else {"notifications": asked}) as c:
        result = c.start("p", ["echo", "x"])
        assert result["pid"] > 0
        c.wait_closed("p")
        assert told(c, "p") == ["output", "exited", "closed"]


def test_notifications_must_be_names(server):
    for bad in ("started", 5, [1], {"started": True}):
        with Client(server.url, init=False) as c:
            e = c.error("initialize", {"clientName": "x", "notifications": bad})
            assert e.code == -32602 and "notifications" in e.message


def test_a_wish_belongs_to_a_connection_not_to_a_session(server):
    with Client(server.url, init_params={"notifications": ["started"]}) as c:
        session = c.session_id
    again = wait_until(lambda: attach(server, session), what="the session to be free")
    with again:
        again.run(["echo", "x"], process_id="p")
        assert told(again, "p") == ["output", "exited", "closed"]


@pytest.mark.parametrize("asked", [["started", "failed"], ["started"], None])
def test_a_lost_keeper_is_told(server, asked):
    with Client(server.url, init_params={} if asked is None else {"notifications": asked}) as c:
        pid = c.start("p", sh("echo ready; sleep 60"))["pid"]
        c.wait_output("p", b"ready")
        waiting = c.request("process/wait", {"processId": "p"})
        os.kill(keeper_of(pid), signal.SIGKILL)
        c.wait_closed("p")
        pid_gone(pid)  # a command without its keeper is ended
        result = c.read("p")
        assert isinstance(result["failure"], str) and result["failure"]
        assert (result["exited"], result["exitCode"], result["closed"]) == (True, -1, True)
        answer = c.result(waiting)
        assert (answer["exited"], answer["exitCode"], answer["closed"]) == (True, -1, True)
        c.call("environment/status")
        failed = [m for m in c.events("p") if m["method"] == "process/failed"]
        if asked and "failed" in asked:
            assert [m["params"] for m in failed] == [{"processId": "p", "message": result["failure"]}]
        else:
            assert failed == []
        numbered_events = [m for m in c.events("p") if "seq" in m["params"]]
        assert [m["params"]["seq"] for m in numbered_events] == [1, 2, 3]
        assert numbered_events[-1]["method"] == "process/closed"
        assert c.run(["echo", "x"])[0] == b"x\n"  # the others go on


def test_an_ordinary_end_is_no_failure(client):
    client.run(["false"], process_id="p")
    assert client.read("p")["failure"] is None
    client.start("q", ["sleep", "60"])
    terminate(client, "q")
    client.wait_closed("q")
    assert client.read("q")["failure"] is None


def test_the_pid_of_a_start_is_the_commands(client):
    pid = client.start("p", ["sleep", "60"])["pid"]
    assert pid_alive(pid)
    with open(f"/proc/{pid}/cmdline", "rb") as f:
        assert f.read() == b"sleep\0" + b"60\0"
    terminate(client, "p")
    client.wait_closed("p")
    pid_gone(pid)
