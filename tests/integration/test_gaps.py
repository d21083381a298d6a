"""Gap reports tell a late reader exactly what it missed. Delivered bytes and reported gaps together are always all that
was written."""

import base64
import random

import pytest

from farhand_client import Client, RpcError, Server, wait_until

PATH = {"PATH": "/usr/bin:/bin"}
CAP = 65536
CHUNK = 4096

# Writes each line that it reads without its newline: one chunk of output for each write.
LINES = ["/bin/sh", "-c", "while read -r x; do printf %s \"$x\"; done"]


@pytest.fixture(scope="module")
def small():
    with Server(config=f"retained_output_bytes_per_process = {CAP}\noutput_chunk_bytes = {CHUNK}\n") as s:
        yield s


@pytest.fixture
def c(small):
    with Client(small.url) as client:
        yield client
        assert not client.bad


def chunks_of(result):
    return [(chunk["seq"], base64.b64decode(chunk["chunk"], validate=True)) for chunk in result["chunks"]]


def lengths(client, process_id):
    """seq -> bytes of every chunk that was notified."""
    return {m["params"]["seq"]: len(base64.b64decode(m["params"]["chunk"])) for m in client.events(process_id)
            if m["method"] == "process/output"}


def check_read(client, process_id, result, after):
    """Checks the answer of process/read against the live notifications, which never have gaps."""
    sizes = lengths(client, process_id)
    got = chunks_of(result)
    for seq, data in got:
        assert seq > after and len(data) == sizes[seq]
    gap = result.get("gap")
    if gap is None:
        missing = 0
        first_wanted = min((seq for seq in sizes if seq > after), default=None)
        if got:
            assert got[0][0] == first_wanted
    else:
        assert set(gap) == {"fromSeq", "toSeq", "bytes"}
        assert gap["fromSeq"] == after + 1
        assert gap["fromSeq"] <= gap["toSeq"]
        if got:
            assert gap["toSeq"] < got[0][0]
            assert not [seq for seq in sizes if gap["toSeq"] < seq < got[0][0]]
        missing = gap["bytes"]
        assert missing == sum(n for seq, n in sizes.items() if gap["fromSeq"] <= seq <= gap["toSeq"])
    return sum(len(data) for _, data in got), missing


def test_no_gap_where_nothing_was_dropped(c):
    c.run(["head", "-c", str(CAP), "/dev/zero"], process_id="p")
    result = c.read("p")
    assert "gap" not in result
    assert sum(len(data) for _, data in chunks_of(result)) == CAP
    assert "gap" not in c.read("p", afterSeq=3)
    assert "gap" not in c.read("p", afterSeq=1 << 60)


@pytest.mark.parametrize("size", [CAP + 1, 2 * CAP, 10 * CAP + 12345])
def test_the_first_read_of_a_long_output(c, size):
    c.run(["head", "-c", str(size), "/dev/zero"], process_id="p")
    result = c.read("p")
    delivered, missing = check_read(c, "p", result, 0)
    assert missing > 0
    assert delivered + missing == size
    assert CAP - CHUNK <= delivered <= CAP  # the promise of the retention
    assert result["gap"]["toSeq"] == chunks_of(result)[0][0] - 1


def test_every_cursor_is_told_its_own_gap(c):
    size = 3 * CAP
    c.run(["/bin/sh", "-c", f"head -c {size} /dev/zero; head -c 1000 /dev/zero >&2"], process_id="p")
    sizes = lengths(c, "p")
    last = max(sizes) + 2  # exit and close
    for after in range(last + 3):
        result = c.read("p", afterSeq=after)
        delivered, missing = check_read(c, "p", result, after)
        assert delivered + missing == sum(n for seq, n in sizes.items() if seq > after)


def test_a_gap_ends_where_the_reader_has_caught_up(c):
    c.run(["head", "-c", str(3 * CAP), "/dev/zero"], process_id="p")
    gap = c.read("p")["gap"]
    assert "gap" not in c.read("p", afterSeq=gap["toSeq"])
    assert c.read("p", afterSeq=gap["toSeq"] - 1)["gap"]["fromSeq"] == gap["toSeq"]


def test_a_budget_does_not_hide_a_gap(c):
    size = 3 * CAP
    c.run(["head", "-c", str(size), "/dev/zero"], process_id="p")
    after = total = 0
    gaps = []
    for _ in range(1000):
        result = c.read("p", afterSeq=after, maxBytes=CHUNK)
        delivered, missing = check_read(c, "p", result, after)
        total += delivered + missing
        gaps += [result["gap"]] if "gap" in result else []
        if not result["chunks"]:
            break
        after = result["nextSeq"] - 1
    assert total == size
    assert len(gaps) == 1  # told once: the next cursor is behind it


def test_a_reader_that_falls_behind_again_and_again(c):
    """Reads now and then, with random budgets, while a child writes much more than is kept."""
    rng = random.Random(20)
    c.start("p", ["cat"], pipeStdin=True)
    produced = total = after = 0
    block = bytes(range(256)) * 96  # 24 KiB, less than a pipe holds
    gaps = 0
    for i in range(60):
        for _ in range(rng.randrange(0, 6)):
            assert c.write("p", block, f"{i}-{produced}") == "accepted"
            produced += len(block)
        c.wait_output("p", lambda data: len(data) == produced)
        params = rng.choice([{}, {"maxBytes": rng.randrange(0, 2 * CAP)}, {"maxBytes": 0}])
        result = c.read("p", afterSeq=after, **params)
        delivered, missing = check_read(c, "p", result, after)
        total += delivered + missing
        gaps += "gap" in result
        after = result["nextSeq"] - 1
    c.call("process/closeStdin", {"processId": "p"})
    c.wait_closed("p")
    result = c.read("p", afterSeq=after)
    total += sum(check_read(c, "p", result, after))
    assert gaps > 3
    assert total == produced == len(c.output("p"))


def test_long_polls_are_told_as_well(c):
    c.start("p", LINES, pipeStdin=True)
    poll = c.request("process/read", {"processId": "p", "afterSeq": 0, "waitMs": 10000})
    c.write("p", b"first\n", "1")
    result = c.result(poll)
    assert chunks_of(result)[0][1] == b"first" and "gap" not in result
    c.call("process/terminate", {"processId": "p"})
    c.wait_closed("p")


def test_snapshots_have_their_own_counts(c):
    c.run(["head", "-c", str(3 * CAP), "/dev/zero"], process_id="p")
    assert "gap" not in c.call("process/snapshot", {"processId": "p"})
    assert "gap" not in c.call("process/wait", {"processId": "p"})


def test_both_streams_are_in_one_gap(c):
    script = f"for i in 1 2 3 4 5 6; do head -c {CAP // 2} /dev/zero; head -c {CAP // 3} /dev/zero >&2; done"
    c.run(["/bin/sh", "-c", script], process_id="p")
    produced = 6 * (CAP // 2 + CAP // 3)
    assert len(c.output("p")) == produced
    for after in (0, 1, 2, 5, 9):
        result = c.read("p", afterSeq=after)
        delivered, missing = check_read(c, "p", result, after)
        assert delivered + missing == sum(n for seq, n in lengths(c, "p").items() if seq > after)


def test_very_many_small_chunks_behind_a_reader():
    """More evictions behind one cursor than the server remembers one by one: then the count may be too large, never too
    small, and never more than was dropped; and from the start it is exact."""
    count, width = 1400, 64
    with Server(config="retained_output_bytes_per_process = 4096\n") as s, s.connect() as c:
        c.start("p", LINES, pipeStdin=True)
        for i in range(count):
            assert c.write("p", b"x" * width + b"\n", f"w{i}") == "accepted"
            c.wait_output("p", lambda data, i=i: len(data) == width * (i + 1))
        for after in (1, 100, 200):
            result = c.read("p", afterSeq=after)
            delivered = sum(len(data) for _, data in chunks_of(result))
            dropped = c.call("process/list", {"processId": "p"})["processes"][0]["droppedBytes"]
            assert width * (count - after) - delivered <= result["gap"]["bytes"] <= dropped
            assert result["gap"]["fromSeq"] == after + 1
        for after in (0, 400, count - 10):
            result = c.read("p", afterSeq=after)
            assert sum(check_read(c, "p", result, after)) == width * (count - after)
        c.call("process/terminate", {"processId": "p"})


def test_live_notifications_have_no_gap_while_reads_do(c):
    c.run(["/bin/sh", "-c", f"seq -f %09.0f 1 {4 * CAP // 10}"], process_id="p")
    c.check_seq("p")
    assert c.output("p") == b"".join(b"%09d\n" % i for i in range(1, 4 * CAP // 10 + 1))
    assert c.read("p")["gap"]["fromSeq"] == 1


def test_a_resumed_reader_is_told_what_it_missed(small):
    with Client(small.url) as c:
        c.start("p", LINES, pipeStdin=True)
        c.write("p", b"x" * 1000 + b"\n", "1")
        c.wait_output("p", lambda data: len(data) == 1000)
        after = c.read("p")["nextSeq"] - 1
        session_id = c.session_id
        line = base64.b64encode(b"y" * 4000 + b"\n").decode()
        for i in range(100):  # more than is kept, and nobody stays to hear it
            c.request("process/write", {"processId": "p", "chunk": line, "writeId": f"w{i}"})
        c.request("process/closeStdin", {"processId": "p"})
        c.call("environment/status")

    def attach():
        try:
            return Client(small.url, resume=session_id)
        except RpcError as e:
            assert e.code == -32010
            return None

    with wait_until(attach, what="the session to be free") as again:
        again.call("process/wait", {"processId": "p"})
        result = again.read("p", afterSeq=after)
        delivered = sum(len(data) for _, data in chunks_of(result))
        assert result["gap"]["fromSeq"] == after + 1
        assert result["gap"]["toSeq"] + 1 == chunks_of(result)[0][0]
        # The last write may have been dropped with the connection: only whole lines count.
        produced = delivered + result["gap"]["bytes"]
        assert produced % 4000 == 0 and 0 < produced <= 400000
        listed = again.call("process/list", {"processId": "p"})["processes"][0]
        assert listed["retainedBytes"] + listed["droppedBytes"] == produced + 1000
        assert CAP - CHUNK <= listed["retainedBytes"] <= CAP


# The cap over all processes


def test_the_cap_over_all_is_told_as_a_gap():
    total = 262144
    with Server(config=f"retained_output_bytes_total = {total}\noutput_chunk_bytes = 4096\n") as s, s.connect() as c:
        size = 100000
        for i in range(6):
            c.run(["head", "-c", str(size), "/dev/zero"], process_id=f"p{i}")
        kept = 0
        for i in range(6):
            result = c.read(f"p{i}")
            delivered, missing = check_read(c, f"p{i}", result, 0)
            assert delivered + missing == size
            kept += delivered
        assert kept <= total
        first, last = c.read("p0"), c.read("p5")
        assert first["chunks"] == [] and first["gap"]["bytes"] == size  # the oldest went first
        assert last["chunks"] != []
        # A long poll for output that was dropped is also answered at once, with a gap.
        assert c.read("p0", waitMs=600000, timeout=30)["gap"]["bytes"] == size


def test_a_long_poll_for_what_is_gone_does_not_wait():
    """Output of a running process was dropped to make room for others: the long poll is answered at once with the gap."""
    with Server(config="retained_output_bytes_total = 65536\noutput_chunk_bytes = 4096\n") as s, s.connect() as c:
        c.start("old", ["/bin/sh", "-c", "head -c 8192 /dev/zero; sleep 600"])
        c.wait_output("old", lambda data: len(data) == 8192)
        c.start("new", ["/bin/sh", "-c", "head -c 400000 /dev/zero; sleep 60"])
        c.wait_output("new", lambda data: len(data) == 400000)
        assert c.read("old")["gap"]["bytes"] == 8192
        assert c.read("old", waitMs=600000, timeout=30)["gap"]["bytes"] == 8192
