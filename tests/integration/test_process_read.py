"""process/read: cursor, budget, long poll; and how much output is kept, for how long."""

import base64
import hashlib
import os
import random
import time

import pytest

from farhand_client import Server, wait_until

KEPT = 1048576
CHUNK_MAX = 65536
MEMBERS = {"chunks", "nextSeq", "exited", "exitCode", "closed", "failure", "sandboxDenied"}

# Writes each line that it reads without its newline: one chunk of output for each write, without guessing at times.
LINES = ["/bin/sh", "-c", "while read -r x; do printf %s \"$x\"; done"]


def feed(client, process_id, *words):
    """Makes one chunk of each word and waits for it."""
    for word in words:
        have = len(client.output(process_id))
        assert client.write(process_id, word + b"\n", f"feed{have}") == "accepted"
        client.wait_output(process_id, lambda data, want=have + len(word): len(data) == want)


def start_four(client, process_id="r"):
    client.start(process_id, LINES, pipeStdin=True)
    feed(client, process_id, b"00001", b"00002", b"00003", b"00004")


def shape(result):
    """(seqs, nextSeq, exited, exitCode, closed)."""
    assert set(result) >= MEMBERS
    assert result["failure"] is None and result["sandboxDenied"] is False
    for chunk in result["chunks"]:
        assert set(chunk) == {"seq", "stream", "chunk"}
    seqs = [c["seq"] for c in result["chunks"]]
    return seqs, result["nextSeq"], result["exited"], result["exitCode"], result["closed"]


def bytes_of(result):
    return b"".join(base64.b64decode(c["chunk"], validate=True) for c in result["chunks"])


def finish(client, process_id):
    client.call("process/terminate", {"processId": process_id})
    client.wait_closed(process_id)


def assert_waits(client, request):
    """The request is not answered although later ones are."""
    for _ in range(3):
        client.call("environment/status")
    assert not any(m.get("id") == request for m in client.messages)


# Cursor and budget


def test_reading_a_running_process(client):
    client.start("r", LINES, pipeStdin=True)
    assert shape(client.read("r")) == ([], 1, False, None, False)
    feed(client, "r", b"00001", b"00002", b"00003", b"00004")
    result = client.read("r")
    assert shape(result) == ([1, 2, 3, 4], 5, False, None, False)
    assert result["chunks"][2] == {"seq": 3, "stream": "stdout", "chunk": base64.b64encode(b"00003").decode()}
    assert shape(client.read("r", afterSeq=None, maxBytes=None, waitMs=None)) == ([1, 2, 3, 4], 5, False, None, False)


@pytest.mark.parametrize("after, seqs", [(0, [1, 2, 3, 4]), (1, [2, 3, 4]), (3, [4]), (4, []), (5, []), (1000, []),
                                         (2**64 - 1, [])])
def test_after_seq_is_the_last_one_seen(client, after, seqs):
    start_four(client)
    assert shape(client.read("r", afterSeq=after)) == (seqs, 5, False, None, False)


@pytest.mark.parametrize("after, budget, seqs, next_seq", [
    (0, 0, [1], 2), (0, 1, [1], 2), (0, 4, [1], 2), (0, 5, [1], 2), (0, 6, [1], 2), (0, 9, [1], 2), (0, 10, [1, 2], 3),
    (0, 11, [1, 2], 3),
    (0, 15, [1, 2, 3], 4), (0, 19, [1, 2, 3], 4), (0, 20, [1, 2, 3, 4], 5), (0, 65536, [1, 2, 3, 4], 5), (2, 5, [3], 4),
    (3, 0, [4], 5),
    (4, 5, [], 5), (9, 0, [], 5), (0, 2**64 - 1, [1, 2, 3, 4], 5),
])
def test_a_budget_counts_bytes_and_never_splits(client, after, budget, seqs, next_seq):
    start_four(client)
    assert shape(client.read("r", afterSeq=after, maxBytes=budget)) == (seqs, next_seq, False, None, False)


def test_next_seq_after_the_end(client):
    start_four(client)
    finish(client, "r")
    assert shape(client.read("r")) == ([1, 2, 3, 4], 7, True, 137, True)
    assert shape(client.read("r", maxBytes=65536)) == ([1, 2, 3, 4], 5, True, 137, True)
    assert shape(client.read("r", maxBytes=20)) == ([1, 2, 3, 4], 5, True, 137, True)
    assert shape(client.read("r", maxBytes=7)) == ([1], 2, True, 137, True)
    assert shape(client.read("r", afterSeq=4, maxBytes=10)) == ([], 7, True, 137, True)
    assert shape(client.read("r", afterSeq=6)) == ([], 7, True, 137, True)
    assert shape(client.read("r", afterSeq=99)) == ([], 7, True, 137, True)


def test_streams_are_read_in_the_order_of_their_counter(client):
    client.start("r", ["/bin/sh", "-c", "while read -r to; do echo $to >&$to; done"], pipeStdin=True)
    for n, to in enumerate((b"1", b"2", b"2", b"1"), start=1):
        client.write("r", to + b"\n", f"w{n}")
        client.wait_output("r", lambda data, n=n: len(data) == 2 * n)
    assert [c["stream"] for c in client.read("r")["chunks"]] == ["stdout", "stderr", "stderr", "stdout"]


def test_a_terminal_is_read_as_pty(client):
    client.run(["/bin/echo", "hi"], process_id="r", tty=True)
    result = client.read("r")
    assert {c["stream"] for c in result["chunks"]} == {"pty"}
    assert bytes_of(result) == b"hi\r\n"


def test_reading_shows_what_was_notified(client):
    client.run(["/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do echo $i; echo e$i >&2; done; exit 4"], process_id="r")
    notified = [{k: m["params"][k] for k in ("seq", "stream",
                                             "chunk")} for m in client.events("r") if m["method"] == "process/output"]
    result = client.read("r")
    assert result["chunks"] == notified
    assert result["exitCode"] == 4 and result["nextSeq"] == len(client.events("r")) + 1


def test_reading_does_not_consume(client):
    start_four(client)
    first = client.read("r")
    assert client.read("r") == first
    client.read("r", maxBytes=5)
    assert client.read("r") == first


def test_a_reader_with_a_budget_gets_everything_once(client):
    data = random.Random(5).randbytes(600_000)
    client.start("r", ["/usr/bin/head", "-c", str(len(data))], pipeStdin=True)
    for at in range(0, len(data), 60_000):
        assert client.write("r", data[at:at + 60_000], f"w{at}") == "accepted"
    client.wait_closed("r")
    got, after = b"", 0
    while True:
        result = client.read("r", afterSeq=after, maxBytes=100_000)
        if not result["chunks"]:
            break
        assert result["nextSeq"] == result["chunks"][-1]["seq"] + 1
        assert len(bytes_of(result)) <= 100_000
        got += bytes_of(result)
        after = result["nextSeq"] - 1
    assert got == data


# Refusals


def test_reading_nobody(client):
    err = client.error("process/read", {"processId": "nope"})
    assert (err.code, err.message) == (-32600, "unknown process id nope")
    err = client.error("process/read", {"processId": "", "waitMs": 5000})
    assert (err.code, err.message) == (-32600, "unknown process id ")


@pytest.mark.parametrize("member", ["afterSeq", "maxBytes", "waitMs"])
@pytest.mark.parametrize("value", [-1, 1.5, "1", True, [], {}, 2**64, -0.5], ids=repr)
def test_numbers_of_read_are_unsigned_integers(client, member, value):
    start_four(client)
    assert client.error("process/read", {"processId": "r", member: value}).code == -32602


def test_members_of_read(client):
    err = client.error("process/read", {})
    assert (err.code, err.message) == (-32602, "missing field `processId`")
    for value in (None, 5, [], {}):
        assert client.error("process/read", {"processId": value}).code == -32602
    assert client.error("process/read", ["r", None, None, None]).code == -32602, "no positional parameters"


# Long poll


def test_a_wait_is_not_needed_when_there_is_something(client):
    start_four(client)
    assert shape(client.read("r", waitMs=60000)) == ([1, 2, 3, 4], 5, False, None, False)
    assert shape(client.read("r", afterSeq=3, waitMs=60000, maxBytes=0)) == ([4], 5, False, None, False)


def test_an_unsuccessful_wait_answers_empty(client):
    start_four(client)
    for after in (4, 1000):
        began = time.monotonic()
        assert shape(client.read("r", afterSeq=after, waitMs=150)) == ([], 5, False, None, False)
        assert time.monotonic() - began >= 0.149
    assert shape(client.read("r", afterSeq=4, waitMs=0)) == ([], 5, False, None, False)


def test_a_wait_ends_with_the_next_output(client):
    start_four(client)
    request = client.request("process/read", {"processId": "r", "afterSeq": 4, "waitMs": 60000})
    assert_waits(client, request)
    feed(client, "r", b"00005")
    assert shape(client.result(request)) == ([5], 6, False, None, False)


def test_a_wait_goes_on_when_nothing_new_is_for_this_reader(client):
    start_four(client)
    far = client.request("process/read", {"processId": "r", "afterSeq": 6, "waitMs": 60000})
    feed(client, "r", b"00005", b"00006")
    assert_waits(client, far)
    feed(client, "r", b"00007")
    assert shape(client.result(far)) == ([7], 8, False, None, False)


def test_a_wait_ends_with_the_exit(client, tmp):
    os.mkfifo(f"{tmp}/hold")
    # The holder keeps stdout open after the exit, so that exit and close are two events.
    client.start("r", ["/bin/sh", "-c", f"(read x < {tmp}/hold; echo late) & read y; exit 3"], pipeStdin=True)
    request = client.request("process/read", {"processId": "r", "waitMs": 60000})
    assert_waits(client, request)
    client.write("r", b"\n", "w")
    assert shape(client.result(request)) == ([], 2, True, 3, False)
    assert shape(client.read("r", waitMs=60000)) == ([], 2, True, 3, False), "afterSeq 0 is below the exit: at once"

    after_exit = client.request("process/read", {"processId": "r", "afterSeq": 1, "waitMs": 60000})
    beyond = client.request("process/read", {"processId": "r", "afterSeq": 50, "waitMs": 60000})
    assert_waits(client, after_exit)
    assert_waits(client, beyond)
    with open(f"{tmp}/hold", "w", encoding="ascii") as hold:
        hold.write("\n")
    result = client.result(after_exit)
    assert bytes_of(result) == b"late\n" and result["chunks"][0]["seq"] == 2 and result["exited"]
    assert shape(client.result(beyond)) == ([], 4, True, 3, True), "closed ends every wait"
    assert shape(client.read("r", afterSeq=50, waitMs=60000)) == ([], 4, True, 3, True)


def test_a_wait_ends_with_terminate(client):
    client.start("r", ["/bin/sleep", "60"])
    request = client.request("process/read", {"processId": "r", "waitMs": 60000})
    assert_waits(client, request)
    client.call("process/terminate", {"processId": "r"})
    result = client.result(request)
    assert result["exited"] and result["exitCode"] == 137
    client.wait_closed("r")
    assert shape(client.read("r", afterSeq=1, waitMs=60000)) == ([], 3, True, 137, True)


@pytest.mark.parametrize("wait", [600_001, 2**31, 2**32, 2**63, 2**64 - 1])
def test_an_endless_wait_is_clamped_not_refused(client, wait):
    start_four(client)
    request = client.request("process/read", {"processId": "r", "afterSeq": 4, "waitMs": wait})
    assert_waits(client, request)
    feed(client, "r", b"00005")
    assert shape(client.result(request)) == ([5], 6, False, None, False)


def test_many_waits_end_together(client):
    start_four(client)
    requests = [client.request("process/read", {"processId": "r", "afterSeq": 4, "waitMs": 60000}) for _ in range(200)]
    assert_waits(client, requests[-1])
    feed(client, "r", b"00005")
    assert all(shape(client.result(r)) == ([5], 6, False, None, False) for r in requests)


def test_a_wait_delays_no_other_request(client):
    start_four(client)
    request = client.request("process/read", {"processId": "r", "afterSeq": 4, "waitMs": 60000})
    began = time.monotonic()
    client.start("q", ["/bin/cat"], pipeStdin=True)
    assert client.write("q", b"x\n", "w") == "accepted"
    client.wait_output("q", b"x\n")
    assert shape(client.read("q"))[0] == [1]
    assert client.call("process/signal", {"processId": "q", "signal": "interrupt"}) == {}
    assert client.call("process/terminate", {"processId": "q"})["running"] in (True, False)
    assert client.call("environment/info")["shell"]
    assert shape(client.read("r"))[0] == [1, 2, 3, 4], "another read of the same process"
    assert client.call("process/terminate", {"processId": "r"}) == {"running": True}
    assert client.result(request)["exited"]
    assert time.monotonic() - began < 55, "sixty seconds were waited for"


def test_a_wait_delays_no_notification(client):
    start_four(client)
    far = client.request("process/read", {"processId": "r", "afterSeq": 1000, "waitMs": 60000})
    feed(client, "r", b"00005")
    client.run(["/bin/echo", "x"])
    assert_waits(client, far)


def test_a_lost_connection_ends_its_waits(server, client):
    with server.connect() as other:
        other.start("r", ["/bin/sleep", "60"])
        for _ in range(50):
            other.request("process/read", {"processId": "r", "waitMs": 60000})
        other.flush()
        session = other.session_id
        other.close()
    with server.connect(resume=session) as again:
        assert shape(again.read("r")) == ([], 1, False, None, False)
        assert again.call("process/terminate", {"processId": "r"}) == {"running": True}
        again.wait_closed("r")
    assert client.call("environment/status") == {"status": "ready"}


# Retention


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "tty"])
def test_the_last_mebibyte_is_kept_and_all_is_notified(client, tmp, tty):
    data = random.Random(3).randbytes(3 * 1024 * 1024)
    with open(f"{tmp}/data", "wb") as f:
        f.write(data)
    client.start("r", ["/bin/sh", "-c", "[ -t 1 ] && stty raw; cat data"], cwd=f"file://{tmp}", tty=tty)
    client.wait_closed("r", 30)
    assert hashlib.sha256(client.output("r")).digest() == hashlib.sha256(data).digest()
    client.check_seq("r")

    result = client.read("r", timeout=30)
    kept = bytes_of(result)
    assert KEPT - CHUNK_MAX <= len(kept) <= KEPT
    assert data.endswith(kept)
    seqs = [c["seq"] for c in result["chunks"]]
    assert seqs[0] > 1 and seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    assert result["nextSeq"] == seqs[-1] + 3

    one = client.read("r", maxBytes=1)
    assert [c["seq"] for c in one["chunks"]] == seqs[:1], "evicted chunks are skipped"
    assert shape(client.read("r", afterSeq=seqs[0]))[0] == seqs[1:]


def test_exactly_a_mebibyte_loses_nothing(client):
    client.run(["/bin/sh", "-c", f"head -c {KEPT} /dev/zero"], process_id="r", timeout=30)
    assert bytes_of(client.read("r")) == bytes(KEPT)


def test_both_streams_share_the_retention(client):
    script = f"head -c {KEPT} /dev/zero; head -c {KEPT} /dev/zero | tr '\\000' e >&2"
    client.run(["/bin/sh", "-c", script], process_id="r", timeout=30)
    assert KEPT - CHUNK_MAX <= len(bytes_of(client.read("r"))) <= KEPT
    assert len(client.output("r", "stdout")) == len(client.output("r", "stderr")) == KEPT


def test_the_retention_is_a_setting():
    cap = 262144
    with Server(config=f"retained_output_bytes_per_process = {cap}\n") as server, server.connect() as client:
        client.run(["/usr/bin/head", "-c", "2000000", "/dev/zero"], process_id="r", timeout=30)
        assert len(client.output("r")) == 2000000
        assert cap - CHUNK_MAX <= len(bytes_of(client.read("r"))) <= cap


def test_a_closed_process_is_forgotten_after_its_time():
    with Server(config="exited_process_retention_ms = 3000\n") as server, server.connect() as client:
        began = time.monotonic()
        client.run(["/bin/echo", "hi"], process_id="r", pipeStdin=True)
        assert bytes_of(client.read("r")) == b"hi\n"

        def forgotten():
            answer = client.response(client.request("process/read", {"processId": "r"}))
            if "result" in answer:
                return False
            assert (answer["error"]["code"], answer["error"]["message"]) == (-32600, "unknown process id r")
            return True

        wait_until(forgotten, 10, "end of retention")
        assert time.monotonic() - began >= 2.99
        assert client.write("r", b"x", "w") == "unknownProcess"
        assert client.call("process/terminate", {"processId": "r"}) == {"running": False}
        assert client.call("process/signal", {"processId": "r", "signal": "interrupt"}) == {}


def test_a_process_that_exited_but_is_not_closed_stays(tmp):
    os.mkfifo(f"{tmp}/hold")
    with Server(config="exited_process_retention_ms = 100\n") as server, server.connect() as client:
        client.start("r", ["/bin/sh", "-c", f"(read x < {tmp}/hold; echo late) & exit 0"])
        client.wait_exit("r")
        client.run(["/bin/echo", "x"], process_id="other")

        def other_is_gone():
            return "error" in client.response(client.request("process/read", {"processId": "other"}))

        wait_until(other_is_gone, 10, "end of retention of the closed one")
        assert shape(client.read("r")) == ([], 2, True, 0, False)
        with open(f"{tmp}/hold", "w", encoding="ascii") as hold:
            hold.write("\n")
        client.wait_closed("r")
        client.check_seq("r")
        assert client.output("r") == b"late\n"
