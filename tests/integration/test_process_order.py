"""Order, pipelining and isolation: which requests may overtake others, and that a slow or failing client affects no other."""

import base64
import contextlib
import hashlib
import os
import random
import time

import pytest

from farhand_client import IS_SANITIZED, PATIENCE, Client, RpcError, Server, wait_until

RSS_BOUND_KIB = 64 * 1024

# Writes `blocks` blocks of 64 KiB that can be recomputed, and keeps the number of finished blocks in a file, with its pid.
FLOOD = """
import os, random, sys
count, progress = int(sys.argv[1]), sys.argv[2]
for n in range(count):
    block = random.Random(n).randbytes(65536)
    while block:
        block = block[os.write(1, block):]
    with open(progress + ".new", "w") as f:
        f.write(f"{n + 1} {os.getpid()}")
    os.rename(progress + ".new", progress)
"""


def flood_argv(blocks, progress):
    return ["/usr/bin/python3", "-c", FLOOD, str(blocks), progress]


def flood_bytes(blocks):
    return b"".join(random.Random(n).randbytes(65536) for n in range(blocks))


def progress_of(path):
    try:
        with open(path, encoding="ascii") as f:
            return int(f.read().split()[0])
    except FileNotFoundError:
        return 0


def is_asleep(pid):
    with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
        return f.read().rpartition(")")[2].split()[0] == "S"


def wait_stalled(server, path, timeout=30):
    """The number of blocks at which the child has come to a halt: no progress for half a second, in which both the child and the
    server slept. On a busy machine they may also make no progress because they do not get a processor."""
    last, since = -1, time.monotonic()

    def stalled():
        nonlocal last, since
        now = progress_of(path)
        is_at_rest = now > 0 and is_asleep(server.pid)
        if is_at_rest:
            with open(path, encoding="ascii") as f:
                is_at_rest = is_asleep(int(f.read().split()[1]))
        if now != last or not is_at_rest:
            last, since = now, time.monotonic()
        return last > 0 and time.monotonic() - since > 0.5

    wait_until(stalled, timeout, "halt of the child")
    return last


def assert_memory_is_bounded(pid):
    if IS_SANITIZED:
        return  # shadow memory and quarantine say nothing about the server
    with open(f"/proc/{pid}/status", encoding="latin-1") as f:
        rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))
    assert rss < RSS_BOUND_KIB


def start_params(process_id, argv, **kw):
    return {"processId": process_id, "argv": argv, "cwd": "file:///tmp", "env": {"PATH": "/usr/bin:/bin"}, "tty": False,
            **kw}


def resume(url, session, timeout=10):
    """Resumes a session as real clients do: repeats after -32010, which means that the server has not noticed the loss yet."""
    found = []

    def attempt():
        try:
            found.append(Client(url, resume=session))
        except RpcError as e:
            assert e.code == -32010, e
            return False
        return True

    wait_until(attempt, timeout, "resumed session")
    return found[0]


# Order


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "tty"])
def test_the_answer_to_start_precedes_the_first_output(server, tty):
    for batch in range(5):
        with server.connect() as client:
            ids = {}
            for n in range(100):
                name = f"p{n}"
                ids[name] = client.request("process/start", start_params(name, ["/bin/echo", name], tty=tty))
            for name in ids:
                client.wait_closed(name, 30)
            answered = set()
            for message in client.messages:
                if "method" not in message:
                    answered.add(message["id"])
                else:
                    assert ids[message["params"]["processId"]] in answered, (batch, message)
            for name in ids:
                client.check_seq(name)
                assert client.output(name).strip() == name.encode()


def test_a_thousand_short_commands_lose_no_byte(server):
    for _ in range(2):
        with server.connect() as client:
            for at in range(0, 500, 25):
                names = [f"p{n}" for n in range(at, at + 25)]
                for name in names:
                    client.request("process/start",
                                   start_params(name, ["/bin/sh", "-c", f"echo out-{name}; echo err-{name} >&2"]))
                for name in names:
                    client.wait_closed(name, 30)
                    assert client.output(name, "stdout") == f"out-{name}\n".encode()
                    assert client.output(name, "stderr") == f"err-{name}\n".encode()
                    client.check_seq(name)


def test_requests_on_one_process_are_acted_on_in_order(client):
    client.start("p", ["/bin/cat"], pipeStdin=True)
    requests = []
    for n in range(100):
        requests.append(client.request("process/write",
                                       {"processId": "p", "chunk": base64.b64encode(b"%d\n" % n).decode(),
                                        "writeId": str(n)}))
        requests.append(client.request("process/read", {"processId": "p", "maxBytes": 0}))
    last = client.request("process/terminate", {"processId": "p"})
    late = client.request("process/write", {"processId": "p", "chunk": "eA==", "writeId": "late"})
    assert [client.result(r)["status"] for r in requests[::2]] == ["accepted"] * 100
    assert all(client.result(r)["failure"] is None for r in requests[1::2])
    assert client.result(last) == {"running": True}
    assert client.result(late) == {"status": "stdinClosed"}
    client.wait_closed("p")
    expected = b"".join(b"%d\n" % n for n in range(100))
    assert expected.startswith(client.output("p"))
    client.check_seq("p")


def test_pipelined_requests_of_many_processes_are_all_answered(client):
    requests = [client.request("process/start", start_params(f"p{n}", ["/bin/cat"], pipeStdin=True)) for n in range(40)]
    assert [client.result(r, 30)["processId"] for r in requests] == [f"p{n}" for n in range(40)]
    for n in range(40):
        client.request("process/write", {"processId": f"p{n}", "chunk": base64.b64encode(b"%d\n" % n).decode(),
                                         "writeId": "w"})
    for n in range(40):
        client.wait_output(f"p{n}", b"%d\n" % n)
    requests = [client.request("process/terminate", {"processId": f"p{n}"}) for n in range(40)]
    assert [client.result(r) for r in requests] == [{"running": True}] * 40
    for n in range(40):
        client.wait_closed(f"p{n}")
        client.check_seq(f"p{n}")


def test_many_requests_before_any_answer_is_read(server):
    with server.connect() as client:
        client.pause_reading()
        requests = [client.request("environment/status") for _ in range(3000)]
        client.flush()
        client.resume_reading()
        assert all(client.result(r) == {"status": "ready"} for r in requests)


def test_concurrent_requests_is_accepted():
    for value in ("1", "8"):
        with Server(args=["--concurrent-requests", value]) as server, server.connect() as client:
            client.start("p", ["/bin/sleep", "60"])
            parked = [client.request("process/read", {"processId": "p", "waitMs": 60000}) for _ in range(10)]
            assert client.call("environment/status") == {"status": "ready"}
            assert client.call("process/terminate", {"processId": "p"}) == {"running": True}
            assert all(client.result(r)["exited"] for r in parked)


# Isolation


def test_processes_belong_to_their_session(server, client):
    with server.connect() as other:
        pid = client.start("same", ["/bin/cat"], pipeStdin=True)["pid"]
        assert other.error("process/read", {"processId": "same"}).message == "unknown process id same"
        assert other.write("same", b"x", "w") == "unknownProcess"
        assert other.call("process/signal", {"processId": "same", "signal": "interrupt"}) == {}
        assert other.call("process/terminate", {"processId": "same"}) == {"running": False}
        assert other.start("same", ["/bin/cat"], pipeStdin=True)["pid"] != pid, "the same id in another session is free"
        assert client.write("same", b"mine\n", "w") == "accepted"
        assert other.write("same", b"yours\n", "w") == "accepted"
        client.wait_output("same", b"mine\n")
        other.wait_output("same", b"yours\n")
        assert other.call("process/terminate", {"processId": "same"}) == {"running": True}
        other.wait_closed("same")
        assert client.read("same")["exited"] is False
        assert client.output("same") == b"mine\n" and other.output("same") == b"yours\n"
        assert [m["method"] for m in client.notifications] == ["process/output"]


def test_the_end_of_one_client_is_not_seen_by_others(server, client):
    client.start("p", ["/bin/cat"], pipeStdin=True)
    for reset in (False, True):
        other = server.connect()
        other.start("p", ["/usr/bin/yes"])
        other.wait_output("p", b"y")
        other.abort(reset=reset)
    for n in range(20):
        assert client.write("p", b"%d\n" % n, f"w{n}") == "accepted"
        client.wait_output("p", b"%d\n" % n)


# Back-pressure


@pytest.fixture
def calm():
    """A server without processes that other tests have left: it sleeps when it has nothing to do."""
    with Server() as s:
        yield s


def test_a_client_that_does_not_read_holds_back_its_own_child_only(calm, tmp):
    blocks = 800
    server, slow, client = calm, calm.connect(), calm.connect()
    slow.pause_reading()
    slow.request("process/start", start_params("flood", flood_argv(blocks, f"{tmp}/progress")))
    slow.flush()
    halted_at = wait_stalled(server, f"{tmp}/progress")
    assert halted_at < blocks, "the child ran to its end although nobody read"
    assert_memory_is_bounded(server.pid)

    began = time.monotonic()
    for n in range(10):
        assert client.run(["/bin/echo", str(n)])[0] == b"%d\n" % n
        assert client.call("environment/status") == {"status": "ready"}
    assert time.monotonic() - began < 30 * PATIENCE
    assert progress_of(f"{tmp}/progress") == halted_at, "still held back"

    slow.resume_reading()
    slow.wait_closed("flood", 60)
    slow.check_seq("flood")
    assert hashlib.sha256(slow.output("flood", "stdout")).digest() == hashlib.sha256(flood_bytes(blocks)).digest()
    assert_memory_is_bounded(server.pid)
    slow.abort()
    client.abort()


def test_many_clients_that_do_not_read_cost_bounded_memory(tmp):
    with Server() as server, server.connect() as client:
        slow = [server.connect() for _ in range(8)]
        for n, one in enumerate(slow):
            one.pause_reading()
            one.request("process/start", start_params("flood", ["/bin/sh", "-c", "yes"]))
            one.request("process/start", start_params("file", flood_argv(100000, f"{tmp}/progress{n}")))
            one.flush()
        for n in range(len(slow)):
            wait_stalled(server, f"{tmp}/progress{n}", 60)
        # Each connection may hold its outgoing queue and 2 MiB of retained output; all stay within the bound for eight.
        assert_memory_is_bounded(server.pid)
        began = time.monotonic()
        assert client.run(["/bin/echo", "quick"])[0] == b"quick\n"
        assert time.monotonic() - began < 10 * PATIENCE
        for one in slow:
            one.abort()


def test_a_reading_client_is_not_slowed_by_a_flood_of_its_own(client):
    client.start("flood", ["/usr/bin/yes"])
    client.wait_output("flood", b"y")
    for n in range(10):
        assert client.run(["/bin/echo", str(n)], timeout=20)[0] == b"%d\n" % n
    assert client.call("process/terminate", {"processId": "flood"}, 20) == {"running": True}
    client.wait_closed("flood", 20)


def test_terminate_reaches_a_child_whose_client_does_not_read(calm, tmp):
    with calm.connect() as slow:
        slow.pause_reading()
        slow.request("process/start", start_params("flood", flood_argv(100000, f"{tmp}/progress")))
        slow.flush()
        halted_at = wait_stalled(calm, f"{tmp}/progress")
        request = slow.request("process/terminate", {"processId": "flood"})
        slow.flush()
        slow.resume_reading()
        assert slow.result(request, 30) == {"running": True}
        slow.wait_closed("flood", 30)
        slow.check_seq("flood")
        assert slow.wait_exit("flood")["exitCode"] == 137
        data = slow.output("flood")
        assert len(data) >= halted_at * 65536 and flood_bytes(len(data) // 65536 + 1).startswith(data)


# Detached


def test_a_detached_process_runs_on_into_retention(server, tmp):
    blocks = 320
    os.mkfifo(f"{tmp}/go")
    first = server.connect()
    argv = flood_argv(blocks, f"{tmp}/progress")
    first.start("p", ["/bin/sh", "-c", "read x < \"$0\"; exec \"$@\"", f"{tmp}/go"] + argv)
    first.abort()
    with open(f"{tmp}/go", "w", encoding="ascii") as go:
        go.write("\n")
    wait_until(lambda: progress_of(f"{tmp}/progress") == blocks, 60, "end of the detached child")
    assert_memory_is_bounded(server.pid)
    with resume(server.url, first.session_id) as second:
        wait_until(lambda: second.read("p")["closed"], 10, "close")
        result = second.read("p", timeout=20)
        kept = b"".join(base64.b64decode(c["chunk"]) for c in result["chunks"])
        assert 1048576 - 65536 <= len(kept) <= 1048576
        assert flood_bytes(blocks).endswith(kept)
        seqs = [c["seq"] for c in result["chunks"]]
        assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
        assert (result["exited"], result["exitCode"]) == (True, 0)
        assert all(m["params"]["seq"] > seqs[0] for m in second.notifications), "nothing was queued"


def test_a_child_that_was_held_back_goes_on_when_its_client_is_lost(calm, tmp):
    blocks = 800
    slow = calm.connect()
    slow.pause_reading()
    slow.request("process/start", start_params("p", flood_argv(blocks, f"{tmp}/progress")))
    slow.flush()
    assert wait_stalled(calm, f"{tmp}/progress") < blocks
    slow.abort()
    wait_until(lambda: progress_of(f"{tmp}/progress") == blocks, 60, "end of the detached child")


def test_output_is_complete_over_cuts(server, tmp):
    """Notifications before a cut, process/read after it and notifications from then on together are the whole output."""
    data = random.Random(9).randbytes(400_000)
    with open(f"{tmp}/data", "wb") as f:
        f.write(data)
    script = "i=0; while [ $i -lt 40 ]; do dd if=data bs=10000 skip=$i count=1 status=none; read x; i=$((i+1)); done"
    client = server.connect()
    client.start("p", ["/bin/bash", "-c", script], cwd=f"file://{tmp}", pipeStdin=True)
    chunks = {}

    def note(params):
        piece = base64.b64decode(params["chunk"])
        assert chunks.setdefault(params["seq"], piece) == piece, "a number has one meaning"

    for n in range(40):
        assert client.write("p", b"\n", f"w{n}") == "accepted"
        if n % 8 != 3:
            continue
        client.abort(reset=n % 16 == 3)
        for message in client.events("p"):
            note(message["params"])
        client = resume(server.url, client.session_id)
        for chunk in client.read("p", afterSeq=max(chunks, default=0))["chunks"]:
            note(chunk)
    wait_until(lambda: client.read("p")["closed"], 10, "close")
    for message in client.events("p"):
        if message["method"] == "process/output":
            note(message["params"])
    assert sorted(chunks) == list(range(1, len(chunks) + 1)), "no holes"
    assert b"".join(chunks[seq] for seq in sorted(chunks)) == data
    client.abort()


def test_a_connection_lost_during_a_start_leaves_no_half_started_process(server, tmp):
    rng = random.Random(11)
    for n in range(30):
        client = server.connect()
        client.request("process/start", start_params("p", ["/bin/sleep", "60"], tty=n % 2 == 0,
                                                     env={"FARHAND_TEST_MARK": tmp}))
        client.flush()
        spin = time.monotonic() + rng.choice((0, 0, 0.0005, 0.002))
        while time.monotonic() < spin:
            pass
        client.abort(reset=n % 3 == 0)
        with resume(server.url, client.session_id) as again:

            def settled():
                answer = again.response(again.request("process/read", {"processId": "p"}))
                return answer if "starting" not in answer.get("error", {}).get("message", "") else None

            answer = wait_until(settled, 10, "end of the state «starting»")
            if "result" in answer:
                assert answer["result"]["exited"] is False
                assert again.error("process/start",
                                   start_params("p", ["/bin/true"])).message == "process p already exists"
                assert again.call("process/terminate", {"processId": "p"}) == {"running": True}
                assert again.wait_exit("p")["exitCode"] == 137
            else:
                assert answer["error"]["message"] == "unknown process id p"
                assert again.run(["/bin/echo", "free"], process_id="p")[0] == b"free\n"

    def survivors():
        count = 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as f:
                count += f"FARHAND_TEST_MARK={tmp}".encode() in f.read()
        return count

    wait_until(lambda: survivors() == 0, 10, "end of the lost starts")


def test_notifications_go_to_the_connection_that_has_the_session(server):
    first = server.connect()
    first.start("p", ["/bin/cat"], pipeStdin=True)
    first.write("p", b"one\n", "1")
    first.wait_output("p", b"one\n")
    first.close()
    with resume(server.url, first.session_id) as second:
        assert second.session_id == first.session_id
        second.write("p", b"two\n", "2")
        assert second.wait_output("p", b"two\n") == b"two\n"
        assert [m["params"]["seq"] for m in second.events("p")] == [2]
        assert second.read("p")["nextSeq"] == 3
