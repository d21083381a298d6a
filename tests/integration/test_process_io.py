"""process/write and the two kinds of standard streams: bytes in, bytes out, pipes and terminals."""

import base64
import hashlib
import os
import random

import pytest

from farhand_client import Client, Server, is_idle, wait_until

ALL_BYTES = bytes(range(256))
CHUNK_MAX = 65536


def send_write(client, process_id, data, write_id=None):
    """Sends without waiting; returns the request's id."""
    params = {"processId": process_id, "chunk": base64.b64encode(data).decode()}
    if write_id is not None:
        params["writeId"] = write_id
    return client.request("process/write", params)


def chunks_of(client, process_id):
    return [(m["params"]["stream"], base64.b64decode(m["params"]["chunk"]))
            for m in client.events(process_id) if m["method"] == "process/output"]


def start_echo_lines(client, process_id="w", **kw):
    client.start(process_id, ["/bin/sh", "-c", "while read -r x; do echo \"got:$x\"; done"], pipeStdin=True, **kw)


# Output


def test_stdout_and_stderr_stay_apart_and_share_one_counter(client):
    client.start("p", ["/bin/sh", "-c", "while read -r to; do echo \"$to\" >&$to; done"], pipeStdin=True)
    for n in range(1, 21):
        to = b"%d" % random.Random(n).choice((1, 2))
        assert client.write("p", to + b"\n", f"w{n}") == "accepted"
        client.wait_for(lambda m, n=n: m.get("method") == "process/output" and m["params"]["seq"] == n)
        stream, data = chunks_of(client, "p")[-1]
        assert (stream, data) == ({b"1": "stdout", b"2": "stderr"}[to], to + b"\n")
    client.call("process/terminate", {"processId": "p"})
    client.wait_closed("p")
    client.check_seq("p")


def test_output_notifications_have_exactly_the_documented_shape(client):
    client.run(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], process_id="p")
    for message in client.events("p"):
        params = message["params"]
        assert "id" not in message and "jsonrpc" not in message
        if message["method"] == "process/output":
            assert set(params) == {"processId", "seq", "stream", "chunk"}
            assert base64.b64encode(base64.b64decode(params["chunk"], validate=True)).decode() == params["chunk"]
        elif message["method"] == "process/exited":
            assert params["exitCode"] == 3 and params["sandboxDenied"] is False
        else:
            assert message["method"] == "process/closed"
            assert set(params) >= {"processId", "seq"}


def test_a_process_without_output_still_ends_with_two_events(client):
    assert client.run(["/bin/true"], process_id="p") == (b"", b"", 0)
    events = [(m["method"], m["params"]["seq"]) for m in client.events("p")]
    assert events == [("process/exited", 1), ("process/closed", 2)]


@pytest.mark.parametrize("unit", [b"\xff", b"\xc3\xa4", "\U0001f600".encode(), b"\0", b"\r\n", b"\xed\xa0\x80",
                                  b"\x1b[31m"], ids=repr)
def test_output_is_bytes_and_never_text(client, unit):
    wanted = unit * 3000
    octal = "".join(f"\\{b:03o}" for b in unit)
    out = client.run(["/bin/sh", "-c", f"i=0; while [ $i -lt 3000 ]; do printf '{octal}'; i=$((i+1)); done"])[0]
    assert out == wanted


def test_a_character_may_be_split_between_chunks(client):
    client.start("p", ["/bin/cat"], pipeStdin=True)
    text = "\U0001f600".encode()
    for n in range(4):
        assert client.write("p", text[n:n + 1], f"w{n}") == "accepted"
        client.wait_output("p", lambda data, n=n: len(data) == n + 1)
    assert [data for _, data in chunks_of(client, "p")] == [text[n:n + 1] for n in range(4)]


def test_all_byte_values_pass_both_ways(client):
    client.start("p", ["/bin/cat"], pipeStdin=True)
    assert client.write("p", ALL_BYTES, "w") == "accepted"
    assert client.wait_output("p", lambda data: len(data) >= 256) == ALL_BYTES
    assert client.output("p", "stderr") == b""


def test_ten_megabytes_round_trip(client):
    size = 10 * 1024 * 1024
    data = random.Random(1).randbytes(size)
    client.start("p", ["/usr/bin/head", "-c", str(size)], pipeStdin=True)
    requests = [send_write(client, "p", data[at:at + 65536], f"w{at}") for at in range(0, size, 65536)]
    for request in requests:
        assert client.result(request, 30) == {"status": "accepted"}
    client.wait_closed("p", 30)
    assert hashlib.sha256(client.output("p", "stdout")).digest() == hashlib.sha256(data).digest()
    client.check_seq("p")


def test_one_write_may_be_large(client):
    data = random.Random(2).randbytes(3 * 1024 * 1024)
    client.start("p", ["/usr/bin/head", "-c", str(len(data))], pipeStdin=True)
    request = send_write(client, "p", data, "w")
    client.wait_closed("p", 30)
    assert client.output("p") == data
    assert client.result(request) == {"status": "accepted"}


def test_a_chunk_has_at_most_64_kib(client):
    client.run(["/usr/bin/head", "-c", "8000000", "/dev/zero"], process_id="p", timeout=30)
    sizes = [len(data) for _, data in chunks_of(client, "p")]
    assert sum(sizes) == 8000000
    assert 0 < min(sizes) and max(sizes) <= CHUNK_MAX
    assert len(sizes) <= 8000000 // 4096, "what is there at once becomes one chunk"


def test_the_chunk_size_is_a_setting():
    with Server(config="output_chunk_bytes = 4096\n") as server, server.connect() as client:
        client.run(["/usr/bin/head", "-c", "500000", "/dev/zero"], process_id="p", timeout=30)
        assert max(len(data) for _, data in chunks_of(client, "p")) <= 4096
        assert client.output("p") == bytes(500000)


# Standard input


def test_stdin_without_pipe_is_at_its_end(client):
    assert client.run(["/bin/cat"]) == (b"", b"", 0)
    assert client.run(["/bin/sh", "-c", "read x; echo $?"])[0] == b"1\n"


def test_writes_arrive_in_order(client):
    client.start("p", ["/usr/bin/head", "-n", "500"], pipeStdin=True)
    requests = [send_write(client, "p", b"%d\n" % n, f"w{n}") for n in range(500)]
    assert [client.result(r) for r in requests] == [{"status": "accepted"}] * 500
    client.wait_closed("p")
    assert client.output("p") == b"".join(b"%d\n" % n for n in range(500))


def test_a_repeated_write_id_is_accepted_and_not_written_again(client):
    start_echo_lines(client)
    assert client.write("w", b"a\n", "1") == "accepted"
    assert client.write("w", b"a\n", "1") == "accepted"
    assert client.write("w", b"b\n", "1") == "accepted", "also with other bytes"
    assert client.write("w", b"c\n", "2") == "accepted"
    assert client.wait_output("w", b"got:c\n") == b"got:a\ngot:c\n"


def test_write_ids_belong_to_one_process(client):
    start_echo_lines(client, "one")
    start_echo_lines(client, "two")
    assert client.write("one", b"a\n", "same") == "accepted"
    assert client.write("two", b"b\n", "same") == "accepted"
    client.wait_output("one", b"got:a\n")
    client.wait_output("two", b"got:b\n")


def test_a_refused_write_does_not_burn_its_id(client):
    start_echo_lines(client)
    assert client.error("process/write", {"processId": "w", "chunk": "!!", "writeId": "1"}).code == -32602
    assert client.write("w", b"a\n", "1") == "accepted"
    client.wait_output("w", b"got:a\n")


def test_the_last_4096_write_ids_are_remembered(client):
    client.start("p", ["/bin/cat"], pipeStdin=True)
    requests = [send_write(client, "p", b"0", "first")] + [send_write(client, "p", b".", f"w{n}") for n in range(4095)]
    assert all(client.result(r)["status"] == "accepted" for r in requests)
    assert client.write("p", b"X", "first") == "accepted"
    assert client.write("p", b"|", "w4095") == "accepted", "the 4097th: `first` is forgotten now"
    assert client.write("p", b"Y", "first") == "accepted"
    assert client.write("p", b"\n", "end") == "accepted"
    assert client.wait_output("p", b"\n") == b"0" + b"." * 4095 + b"|Y\n"


def test_write_ids_survive_the_connection(server):
    with Client(server.url) as first:
        start_echo_lines(first)
        assert first.write("w", b"a\n", "1") == "accepted"
        first.wait_output("w", b"got:a\n")
        session = first.session_id
        first.close()
    with Client(server.url, resume=session) as second:
        assert second.write("w", b"a\n", "1") == "accepted"
        assert second.write("w", b"b\n", "2") == "accepted"
        assert second.wait_output("w", b"got:b\n") == b"got:b\n"


def test_without_write_id_every_write_counts(client):
    start_echo_lines(client)
    assert client.write("w", b"a\n") == "accepted"
    assert client.write("w", b"a\n") == "accepted"
    assert client.wait_output("w", lambda data: data.count(b"\n") == 2) == b"got:a\ngot:a\n"


def test_members_of_write(client):
    start_echo_lines(client)
    for params, message in (({}, "missing field `processId`"),
                            ({"processId": "w", "writeId": "1"}, "missing field `chunk`"),
                            ({"processId": "w", "chunk": "", "writeId": ""}, "writeId must not be empty")):
        err = client.error("process/write", params)
        assert (err.code, err.message) == (-32602, message)
    for change in ({"processId": 1}, {"chunk": 5}, {"chunk": None}, {"chunk": []}, {"writeId": 7}, {"writeId": []}):
        assert client.error("process/write", {"processId": "w", "chunk": "", "writeId": "1",
                                              **change}).code == -32602, change


@pytest.mark.parametrize("text", ["!!!", "YQ", "YQ=", "YR==", "YWF=", "YQ-_", "Y Q=", "YQ==\n", "YQ==YQ==", "=", "====",
                                  "Y===", "A", "YWE=YQ==",
                                  "YQ==A", "\u00e4\u00e4\u00e4\u00e4", "YQ\0="], ids=repr)
def test_base64_is_strict(client, text):
    start_echo_lines(client)
    assert client.error("process/write", {"processId": "w", "chunk": text, "writeId": "1"}).code == -32602
    assert client.error("process/write", {"processId": "nope", "chunk": text, "writeId": "1"}).code == -32602


def test_an_empty_chunk_is_accepted(client):
    start_echo_lines(client)
    assert client.write("w", b"", "1") == "accepted"
    assert client.write("w", b"x\n", "2") == "accepted"
    assert client.wait_output("w", b"\n") == b"got:x\n"


def test_writing_to_nobody(client):
    assert client.write("nope", b"x", "1") == "unknownProcess"


def test_writing_without_stdin(client):
    client.start("p", ["/bin/sleep", "60"])
    assert client.write("p", b"x", "1") == "stdinClosed"
    client.call("process/terminate", {"processId": "p"})
    client.wait_closed("p")
    assert client.write("p", b"x", "2") == "stdinClosed"


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "tty"])
def test_writing_to_a_process_that_exited(client, tty):
    client.run(["/bin/true"], process_id="p", tty=tty, pipeStdin=not tty)
    assert client.write("p", b"x", "1") == "stdinClosed"


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "tty"])
def test_writing_to_a_process_that_was_terminated(client, tty):
    client.start("p", ["/bin/sleep", "60"], tty=tty, pipeStdin=not tty)
    client.call("process/terminate", {"processId": "p"})
    assert client.write("p", b"x", "1") == "stdinClosed"
    client.wait_closed("p")
    assert client.write("p", b"x", "2") == "stdinClosed"


def test_writing_to_a_process_that_exited_while_others_hold_its_stdin(client):
    client.start("p", ["/bin/sh", "-c", "sleep 60 <&0 >/dev/null 2>&1 & exit 0"], pipeStdin=True)
    client.wait_closed("p")
    assert client.write("p", b"x", "1") == "stdinClosed"


def test_writing_to_a_child_that_closed_its_stdin(client):
    client.start("p", ["/bin/sh", "-c", "exec 0<&-; echo shut; exec sleep 60"], pipeStdin=True)
    client.wait_output("p", b"shut\n")
    assert client.write("p", b"x", "1") == "stdinClosed"
    assert client.write("p", b"x", "2") == "stdinClosed"
    assert client.read("p")["exited"] is False


def is_answered(client, request):
    return any(m.get("id") == request for m in client.messages)


def fill_stdin(client, process_id, block):
    """Writes until one write is not answered; returns (accepted blocks, the parked request)."""
    for count in range(1000):
        request = send_write(client, process_id, block(count), f"fill{count}")
        # When later requests are answered, the write is held back and not merely slow.
        for _ in range(3):
            client.call("environment/status")
            if is_answered(client, request):
                break
        else:
            return count, request
        assert client.result(request) == {"status": "accepted"}
    raise AssertionError("the stdin queue has no bound")


def test_a_full_stdin_queue_holds_back_writes_only(client):
    client.start("p", ["/bin/sh", "-c", "trap '' INT; echo up; exec sleep 60"], pipeStdin=True)
    client.start("q", ["/bin/cat"], pipeStdin=True)
    client.wait_output("p", b"up\n")
    _, parked = fill_stdin(client, "p", lambda n: bytes(65536))
    more = [send_write(client, "p", b"later", f"later{n}") for n in range(5)]
    assert client.read("p")["exited"] is False
    assert client.call("process/signal", {"processId": "p", "signal": "interrupt"}) == {}
    assert client.write("q", b"q\n", "1") == "accepted"
    client.wait_output("q", b"q\n")
    assert client.run(["/bin/echo", "third"])[0] == b"third\n"
    assert not any(is_answered(client, r) for r in [parked] + more)
    assert client.call("process/terminate", {"processId": "p"}) == {"running": True}
    assert [client.result(r) for r in [parked] + more] == [{"status": "stdinClosed"}] * 6
    assert client.wait_exit("p")["exitCode"] == 137


def test_a_parked_write_is_answered_when_the_process_exits(client, tmp):
    os.mkfifo(f"{tmp}/go")
    client.start("p", ["/bin/sh", "-c", f"read x < {tmp}/go; exit 5"], pipeStdin=True)
    _, parked = fill_stdin(client, "p", lambda n: bytes(65536))
    with open(f"{tmp}/go", "w", encoding="ascii") as go:
        go.write("\n")
    assert client.result(parked) == {"status": "stdinClosed"}
    assert client.wait_exit("p")["exitCode"] == 5


def test_parked_writes_are_answered_when_the_child_closes_its_stdin(client, tmp):
    os.mkfifo(f"{tmp}/go")
    client.start("p", ["/bin/sh", "-c", f"read x < {tmp}/go; exec 0<&-; echo shut; exec sleep 60"], pipeStdin=True)
    _, parked = fill_stdin(client, "p", lambda n: bytes(65536))
    more = [send_write(client, "p", b"later", f"later{n}") for n in range(5)]
    client.call("environment/status")
    with open(f"{tmp}/go", "w", encoding="ascii") as go:
        go.write("\n")
    assert [client.result(r) for r in [parked] + more] == [{"status": "stdinClosed"}] * 6
    client.wait_output("p", b"shut\n")
    assert client.read("p")["exited"] is False


@pytest.mark.parametrize("program", ["/bin/true", "/bin/cat"])
def test_writes_sent_with_the_start_are_answered_once(client, program):
    for n in range(40):
        name = f"p{n}"
        params = {"processId": name, "argv": [program], "cwd": "/", "env": {}, "tty": False, "pipeStdin": True}
        client.request("process/start", params)
        requests = [send_write(client, name, b"%d\n" % i, f"w{i}") for i in range(5)]
        statuses = [client.result(r)["status"] for r in requests]
        client.call("process/terminate", {"processId": name})
        client.wait_closed(name)
        client.check_seq(name)
        if program == "/bin/cat":
            assert statuses == ["accepted"] * 5
            assert b"0\n1\n2\n3\n4\n".startswith(client.output(name))
        else:
            assert set(statuses) <= {"accepted", "stdinClosed"}
            assert statuses == sorted(statuses), "accepted no more once closed"
        assert all(len([m for m in client.messages if m.get("id") == r]) == 1 for r in requests)


def test_parked_writes_go_on_in_order_when_the_child_reads(client, tmp):
    os.mkfifo(f"{tmp}/go")
    client.start("p", ["/bin/sh", "-c", f"read n < {tmp}/go; head -c $n | sha256sum"], pipeStdin=True)
    block = [random.Random(n).randbytes(65536) for n in range(8)]
    count, parked = fill_stdin(client, "p", lambda n: block[n % 8])
    more = [send_write(client, "p", b"%d" % n, f"later{n}") for n in range(20)]
    data = b"".join(block[n % 8] for n in range(count + 1)) + b"".join(b"%d" % n for n in range(20))
    with open(f"{tmp}/go", "w", encoding="ascii") as go:
        go.write(f"{len(data)}\n")
    assert [client.result(r, 30) for r in [parked] + more] == [{"status": "accepted"}] * 21
    client.wait_closed("p", 30)
    assert client.output("p").split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_a_parked_write_counts_once_when_it_is_repeated_after_a_lost_connection(server, tmp):
    os.mkfifo(f"{tmp}/go")
    first = Client(server.url)
    first.start("p", ["/bin/sh", "-c", f"read x < {tmp}/go; exec grep --line-buffered ."], pipeStdin=True)
    fill_stdin(first, "p", lambda n: b"\n" * 65536)
    send_write(first, "p", b"A", "mark")
    first.call("environment/status")
    first.close()
    with Client(server.url, resume=first.session_id) as second:
        repeat = send_write(second, "p", b"A", "mark")
        last = send_write(second, "p", b"Z\n", "last")
        with open(f"{tmp}/go", "w", encoding="ascii") as go:
            go.write("\n")
        assert second.result(repeat) == {"status": "accepted"}
        assert second.result(last) == {"status": "accepted"}
        assert second.wait_output("p", b"Z\n") == b"AZ\n"


# Terminals


def test_a_terminal_of_24_by_80_with_plain_settings(client):
    out = client.run(["/bin/sh", "-c", "stty size; stty -a"], tty=True)[0].decode()
    assert out.splitlines()[0] == "24 80"
    words = out.replace(";", " ").split()
    for setting in ("icanon", "echo", "isig", "opost", "onlcr", "icrnl", "iexten"):
        assert setting in words, setting
    for pair in ("intr = ^C", "quit = ^\\", "erase = ^?", "kill = ^U", "eof = ^D", "susp = ^Z"):
        assert pair in out, pair


def test_pixel_sizes_of_a_terminal_are_zero(client):
    code = "import fcntl,termios,struct; print(struct.unpack('HHHH', fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))))"
    assert client.run(["/usr/bin/python3", "-c", code], tty=True)[0] == b"(24, 80, 0, 0)\r\n"


def test_a_terminal_controls_its_session(client):
    script = ("tty; for i in 0 1 2; do readlink /proc/$$/fd/$i; done; (echo to-tty > /dev/tty); "
              "cut -d' ' -f1,8 /proc/$$/stat")
    out = client.run(["/bin/sh", "-c", script], tty=True)[0].decode().split()
    assert out[0].startswith("/dev/pts/")
    assert out[1:4] == [out[0]] * 3
    assert out[4] == "to-tty"
    assert out[5] == out[6], "in the foreground"


def test_a_terminal_has_one_stream(client):
    client.run(["/bin/sh", "-c", "echo out; echo err >&2"], process_id="p", tty=True)
    assert {stream for stream, _ in chunks_of(client, "p")} == {"pty"}
    assert client.output("p") == b"out\r\nerr\r\n"
    client.check_seq("p")


def test_a_terminal_session_echoes_and_ends_with_control_d(client):
    client.start("t", ["/bin/sh", "-c", "echo ready; while IFS= read -r line; do echo \"echo:$line\"; done; echo bye"],
                 tty=True)
    client.wait_output("t", b"ready\r\n")
    assert client.write("t", b"hello\n", "1") == "accepted"
    client.wait_output("t", b"echo:hello\r\n")
    assert client.write("t", b"\x04", "2") == "accepted"
    client.wait_closed("t")
    assert client.output("t") == b"ready\r\nhello\r\necho:hello\r\nbye\r\n"
    assert client.wait_exit("t")["exitCode"] == 0
    client.check_seq("t")


def test_control_c_interrupts_the_foreground(client):
    client.start("t", ["/bin/sh", "-c", "echo go; exec sleep 60"], tty=True)
    client.wait_output("t", b"go\r\n")
    assert client.write("t", b"\x03", "1") == "accepted"
    client.wait_closed("t")
    assert client.wait_exit("t")["exitCode"] == 130
    assert client.output("t") == b"go\r\n^C"


def test_control_c_is_for_the_program_when_it_wants_it(client):
    client.start("t", ["/bin/sh", "-c", "trap 'echo caught; exit 7' INT; echo go; while :; do read x; done"], tty=True)
    client.wait_output("t", b"go\r\n")
    client.write("t", b"\x03", "1")
    client.wait_output("t", b"caught\r\n")
    assert client.wait_exit("t")["exitCode"] == 7


def test_pipe_stdin_changes_nothing_on_a_terminal(client):
    client.start("t", ["/bin/sh", "-c", "tty; read x; echo \"[$x]\""], tty=True, pipeStdin=True)
    client.wait_output("t", b"/dev/pts/")
    assert client.write("t", b"y\n", "1") == "accepted"
    client.wait_closed("t")
    assert client.output("t").endswith(b"[y]\r\n")


def test_all_byte_values_pass_a_raw_terminal(client):
    client.start("t", ["/bin/sh", "-c", "stty raw -echo; echo raw; exec head -c 2560"], tty=True)
    client.wait_output("t", b"raw\n")
    for n in range(10):
        assert client.write("t", ALL_BYTES, f"w{n}") == "accepted"
    client.wait_closed("t")
    assert client.output("t") == b"raw\n" + ALL_BYTES * 10


def test_terminal_output_is_joined_and_complete(client):
    """The kernel hands a terminal's output over in pieces of at most 4095 bytes, and moves the next piece up by a
    thread of its own: whether two pieces are there together is up to that thread, so a few runs may show none."""
    size = 2_000_000
    largest = 0
    for n in range(20):
        name = f"t{n}"
        client.run(["/bin/sh", "-c", f"stty raw; head -c {size} /dev/zero | tr '\\000' x"], process_id=name,
                   tty=True, timeout=30)
        assert client.output(name) == b"x" * size
        client.check_seq(name)
        largest = max(len(data) for _, data in chunks_of(client, name))
        assert largest <= CHUNK_MAX
        if largest > 4096:
            break
    assert largest > 4096, "pieces of 4 KiB that are there together are one chunk"


def test_a_lone_keystroke_is_not_delayed(client):
    client.start("t", ["/bin/sh", "-c", "stty raw -echo; echo go; exec cat"], tty=True)
    client.wait_output("t", b"go\n")
    for n in range(20):
        before = len(client.output("t"))
        assert client.write("t", b"k", f"w{n}") == "accepted"
        client.wait_output("t", lambda data, before=before: len(data) == before + 1)


def test_input_for_a_terminal_that_nobody_holds_does_not_keep_the_server_busy(server, client):
    client.start("p", ["/bin/sh", "-c", "stty raw -echo; echo ready; exec <&- >&- 2>&-; exec sleep 1000"], tty=True)
    client.wait_output("p", b"ready")
    for _ in range(4):
        assert client.write("p", bytes(65536)) == "accepted"
    wait_until(lambda: is_idle(server.pid), what="an idle server")
    client.call("process/terminate", {"processId": "p"})
    client.wait_closed("p")


def test_the_last_line_of_a_terminal_is_never_lost(client):
    for n in range(60):
        client.start(f"t{n}", ["/bin/sh", "-c", f"echo line{n}"], tty=True)
    for n in range(60):
        client.wait_closed(f"t{n}", 30)
        assert client.output(f"t{n}") == b"line%d\r\n" % n
        client.check_seq(f"t{n}")


def test_descriptors_of_the_server_are_given_back(server, client):
    def in_use():
        return len(os.listdir(f"/proc/{server.pid}/fd"))

    client.run(["/bin/true"])
    before = in_use()
    for n in range(30):
        client.run(["/bin/true"], tty=n % 2 == 0, pipeStdin=n % 3 == 0)
        client.error("process/start", {"processId": "x", "argv": ["/no/such"], "cwd": "/tmp", "env": {},
                                       "tty": n % 2 == 0})
    wait_until(lambda: in_use() <= before, 10, "release of pipes and terminals")
