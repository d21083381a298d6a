"""RFC 6455 from the server's side: frames, fragments, control frames, close codes, sizes, keep-alive."""

import base64
import json
import select
import struct
import time

import pytest

from farhand_client import Client, Closed, RawSocket, Server, is_idle, wait_until

TEXT, BINARY, CONT, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10
STATUS = b'{"id":7,"method":"environment/status"}'


@pytest.fixture
def raw(server):
    with server.raw() as r:
        r.initialize()
        yield r


def ready(raw, ident=7):
    return raw.read_message() == {"id": ident, "result": {"status": "ready"}}


def still_serves(server):
    with Client(server.url) as c:
        assert c.call("environment/status") == {"status": "ready"}


def padded(size, ident=7):
    """A valid request of exactly `size` bytes; the padding is an unknown member, which the server ignores."""
    head = f'{{"id":{ident},"method":"environment/status","pad":"'.encode()
    return head + b"x" * (size - len(head) - 2) + b'"}'


# Messages


def test_text_and_binary_are_taken_alike(raw):
    raw.frame(TEXT, STATUS)
    assert ready(raw)
    raw.frame(BINARY, STATUS)
    assert ready(raw)


def test_answers_are_text(raw):
    raw.frame(BINARY, STATUS)
    fin, opcode, payload = raw.read_frame()
    assert (fin, opcode) == (True, TEXT)
    json.loads(payload)


@pytest.mark.parametrize("opcode", [TEXT, BINARY])
def test_fragments_are_joined(raw, opcode):
    raw.frame(opcode, STATUS[:5], fin=False)
    raw.frame(CONT, STATUS[5:20], fin=False)
    raw.frame(CONT, b"", fin=False)
    raw.frame(CONT, STATUS[20:])
    assert ready(raw)


def test_a_message_in_single_byte_fragments(raw):
    frames = [raw.make_frame(TEXT if i == 0 else CONT, STATUS[i:i + 1], fin=i == len(STATUS) - 1)
              for i in range(len(STATUS))]
    raw.send(b"".join(frames))
    assert ready(raw)


def test_a_frame_that_arrives_byte_by_byte(raw):
    for byte in raw.make_frame(TEXT, padded(300)):
        raw.send(bytes([byte]))
    assert ready(raw)


def test_many_messages_in_one_segment(raw):
    raw.send(b"".join(raw.make_frame(TEXT, b'{"id":%d,"method":"environment/status"}' % i) for i in range(500)))
    assert sorted(raw.read_message()["id"] for _ in range(500)) == list(range(500))


@pytest.mark.parametrize("size", [125, 126, 127, 65535, 65536, 65537])
def test_every_form_of_the_length(raw, size):
    raw.frame(TEXT, padded(size))
    assert ready(raw)


def test_control_frames_between_fragments(raw):
    raw.frame(TEXT, STATUS[:10], fin=False)
    raw.frame(PING, b"between")
    assert raw.read_frame() == (True, PONG, b"between")
    raw.frame(PONG, b"nobody asked")
    raw.frame(CONT, STATUS[10:])
    assert ready(raw)


@pytest.mark.parametrize("payload", [b"", b"abc", bytes(range(125))])
def test_a_ping_is_answered_with_its_payload(raw, payload):
    raw.frame(PING, payload)
    assert raw.read_frame() == (True, PONG, payload)


def test_pings_before_initialize(server):
    with server.raw() as r:
        r.upgrade()
        r.frame(PING, b"early")
        assert r.read_frame() == (True, PONG, b"early")


def test_an_unexpected_pong_is_ignored(raw):
    raw.frame(PONG, b"hello")
    raw.frame(TEXT, STATUS)
    assert ready(raw)


def test_a_flood_of_pings_is_survived(server, raw):
    # 20,000 pings whose pongs the test does not read: the server may hold back or drop pongs, but not grow or die.
    raw.sock.settimeout(5)
    try:
        raw.send(raw.make_frame(PING, b"x" * 125) * 20000)
    except (TimeoutError, OSError):
        pass
    still_serves(server)


# UTF-8


@pytest.mark.parametrize("bad", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80",
                                 b"\xf8\x88\x80\x80\x80"])
def test_text_with_bad_utf8_closes_with_1007(server, raw, bad):
    raw.frame(TEXT, b'{"id":1,"method":"' + bad + b'"}')
    assert raw.read_close() == 1007
    raw.eof()
    still_serves(server)


def test_text_that_ends_inside_a_character(raw):
    raw.frame(TEXT, b"\xe2\x82")
    assert raw.read_close() == 1007


def test_a_character_split_over_fragments_is_fine(raw):
    message = '{"id":7,"method":"environment/status","x":"\N{GRINNING FACE}"}'.encode()
    cut = message.index(b"\xf0")
    for split in range(cut, cut + 5):
        raw.frame(TEXT, message[:split], fin=False)
        raw.frame(CONT, message[split:])
        assert ready(raw)


def test_bad_utf8_split_over_fragments(raw):
    raw.frame(TEXT, b'{"x":"\xe2', fin=False)
    raw.frame(CONT, b'\x28"}')
    assert raw.read_close() == 1007


@pytest.mark.parametrize("payload", [b"{\xff\xfe", b'{"id":51,"method":"environment/status","params":{"x":"\xff"}}'])
def test_binary_with_bad_utf8_is_a_malformed_message(raw, payload):
    raw.frame(BINARY, payload)
    answer = raw.read_message()
    assert (answer["error"]["code"], answer["id"]) == (-32600, -1)
    assert answer["error"]["message"].startswith(
        "failed to parse websocket JSON-RPC message from exec-server websocket")
    raw.frame(TEXT, STATUS)
    assert ready(raw)


# Protocol errors


BROKEN = {
    "unmasked": lambda r: r.frame(TEXT, STATUS, mask=False),
    "rsv1": lambda r: r.frame(TEXT, STATUS, rsv=4),
    "rsv2": lambda r: r.frame(TEXT, STATUS, rsv=2),
    "rsv3": lambda r: r.frame(TEXT, STATUS, rsv=1),
    "opcode 3": lambda r: r.frame(3, STATUS),
    "opcode 7": lambda r: r.frame(7, STATUS),
    "opcode 11": lambda r: r.frame(11, b""),
    "opcode 15": lambda r: r.frame(15, b""),
    "fragmented ping": lambda r: r.frame(PING, b"x", fin=False),
    "fragmented close": lambda r: r.frame(CLOSE, b"", fin=False),
    "ping of 126": lambda r: r.frame(PING, b"x" * 126),
    "pong of 126": lambda r: r.frame(PONG, b"x" * 126),
    "close of 126": lambda r: r.frame(CLOSE, b"\x03\xe8" + b"x" * 124),
    "continuation of nothing": lambda r: r.frame(CONT, STATUS),
    "text inside a message": lambda r: r.send(r.make_frame(TEXT, b"{", fin=False) + r.make_frame(TEXT, STATUS)),
    "binary inside a message": lambda r: r.send(r.make_frame(TEXT, b"{", fin=False) + r.make_frame(BINARY, STATUS)),
    "reserved bit on a ping": lambda r: r.frame(PING, b"", rsv=4),
    "unmasked ping": lambda r: r.frame(PING, b"", mask=False),
    "close of one byte": lambda r: r.frame(CLOSE, b"\x03"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_frames_close_with_1002(server, raw, name):
    BROKEN[name](raw)
    assert raw.read_close() == 1002
    raw.eof()
    still_serves(server)


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535])
def test_a_close_code_that_may_not_be_sent(raw, code):
    raw.frame(CLOSE, struct.pack(">H", code))
    assert raw.read_close() == 1002
    raw.eof()


def test_a_length_with_the_highest_bit_set(server, raw):
    raw.send(b"\x81\xff" + b"\xff" * 8 + b"\x00" * 4)
    assert raw.read_close() in (1002, 1009)
    raw.eof()
    still_serves(server)


# Closing


@pytest.mark.parametrize("code", [1000, 1001, 1003, 1007, 1008, 1011, 3000, 3999, 4000, 4999])
def test_a_close_frame_is_answered(raw, code):
    raw.frame(CLOSE, struct.pack(">H", code) + b"bye")
    assert raw.read_close() in (code, 1000)
    raw.eof()


def test_an_empty_close_frame_is_answered(raw):
    raw.frame(CLOSE, b"")
    assert raw.read_close() in (1005, 1000)
    raw.eof()


def test_a_close_reason_must_be_utf8(raw):
    raw.frame(CLOSE, b"\x03\xe8\xff\xfe")
    assert raw.read_close() == 1007
    raw.eof()


def test_nothing_is_done_after_a_close_frame(raw):
    raw.send(raw.make_frame(CLOSE, b"\x03\xe8") + raw.make_frame(TEXT, STATUS))
    fin, opcode, payload = raw.read_frame()
    assert (fin, opcode) == (True, CLOSE)
    assert payload[:2] in (b"\x03\xe8", b"")
    assert raw.eof() == b""


def test_requests_before_the_close_frame_are_answered(raw):
    raw.send(raw.make_frame(TEXT, STATUS) + raw.make_frame(CLOSE, b"\x03\xe8"))
    assert ready(raw)
    assert raw.read_close() in (1000, 1005)


def test_close_inside_a_fragmented_message(raw):
    raw.frame(TEXT, b"{", fin=False)
    raw.frame(CLOSE, b"\x03\xe8")
    assert raw.read_close() in (1000, 1005)


def test_the_close_handshake_with_a_foreign_implementation(server):
    c = Client(server.url)
    assert c.close() == 1000


def test_a_lost_peer_is_invisible_to_others(server):
    for reset in (False, True):
        c = Client(server.url)
        c.start("p", ["sh", "-c", "while :; do echo x; sleep 0.01; done"])
        c.wait_output("p", b"x")
        c.abort(reset=reset)
    still_serves(server)


# Sizes


def test_a_17_mib_frame_works(client):
    client.send_raw(padded(17 << 20).decode())
    assert client.result(7, timeout=30) == {"status": "ready"}


def test_a_20_mib_message_in_fragments_works(client):
    whole = padded(20 << 20)
    client.send_fragments([whole[i:i + (3 << 20)] for i in range(0, len(whole), 3 << 20)])
    assert client.result(7, timeout=30) == {"status": "ready"}


def test_a_frame_over_the_limit_is_refused_by_its_announcement(server, raw):
    # Only the head is sent: 128 MiB and one byte.
    raw.send(raw.make_frame(TEXT, b"", length=(128 << 20) + 1))
    assert raw.read_close() == 1009
    raw.eof()
    still_serves(server)


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="latin-1") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))


def test_announced_sizes_cost_no_memory():
    with Server() as s:
        before = resident_kib(s.pid)
        raws = [s.raw() for _ in range(30)]
        for r in raws:
            r.initialize()
            r.send(r.make_frame(BINARY, b"", length=120 << 20) + b"x" * 1000)
        still_serves(s)
        assert resident_kib(s.pid) - before < 64 * 1024
        for r in raws:
            r.close()


@pytest.fixture(scope="module")
def small():
    with Server(config="max_message_bytes = 65536\n") as s:
        yield s


def test_a_message_of_exactly_the_limit(small):
    with small.raw() as r:
        assert r.initialize()["limits"]["maxMessageBytes"] == 65536
        r.frame(TEXT, padded(65536))
        assert ready(r)


def test_a_frame_over_the_limit_closes_with_1009(small):
    with small.raw() as r:
        r.initialize()
        r.frame(TEXT, padded(65537))
        assert r.read_close() == 1009
        r.eof()
    still_serves(small)


def test_fragments_over_the_limit_close_with_1009(small):
    with small.raw() as r:
        r.initialize()
        whole = padded(65537)
        r.frame(TEXT, whole[:40000], fin=False)
        r.frame(CONT, whole[40000:])
        assert r.read_close() == 1009


def test_endless_small_fragments_meet_the_limit(small):
    with small.raw() as r:
        r.initialize()
        r.frame(TEXT, b"{", fin=False)
        try:
            for _ in range(200):
                r.frame(CONT, b" " * 1000, fin=False)
        except OSError:
            pass
        assert r.read_close() == 1009


def test_control_frames_do_not_count(small):
    with small.raw() as r:
        r.initialize()
        whole = padded(65536)
        r.frame(TEXT, whole[:60000], fin=False)
        for _ in range(100):
            r.frame(PING, b"y" * 125)
            assert r.read_frame()[1] == PONG
        r.frame(CONT, whole[60000:])
        assert ready(r)


def test_outgoing_frames_are_at_most_one_mib(client):
    client.start("big", ["head", "-c", "1048576", "/dev/urandom"])
    client.wait_closed("big")
    live = client.output("big")
    client.frame_sizes.clear()
    result = client.read("big", timeout=30)
    assert b"".join(base64.b64decode(c["chunk"]) for c in result["chunks"]) == live
    assert sum(client.frame_sizes) > 1 << 20
    assert len(client.frame_sizes) > 1
    assert max(client.frame_sizes) <= 1 << 20


def test_control_frames_pass_between_outgoing_fragments_or_after(server):
    with server.raw() as r:
        r.initialize()
        r.rpc(1, "process/start", {"processId": "big", "argv": ["head", "-c", "1048576", "/dev/zero"],
                                   "cwd": "file:///tmp", "env": {"PATH": "/usr/bin:/bin"}, "tty": False})
        while r.read_message().get("method") != "process/closed":
            pass
        r.text({"id": 2, "method": "process/read", "params": {"processId": "big"}})
        r.frame(PING, b"now")
        seen, done, opened = False, False, False
        while not (seen and done):
            fin, opcode, _ = r.read_frame()
            if opcode == PONG:
                seen = True
            else:
                assert opcode == (CONT if opened else TEXT)
                opened = not fin
                done = fin


# Keep-alive


def test_the_server_pings_a_quiet_peer():
    with Server(config="ping_interval_ms = 100\n") as s, Client(s.url) as c:
        c.wait_ping(3)
        assert c.call("environment/status") == {"status": "ready"}


def test_a_peer_that_never_answers_pings_is_dropped():
    with Server(config="ping_interval_ms = 100\npong_timeout_ms = 400\n") as s:
        with s.raw() as r:
            session = r.initialize()["sessionId"]
            began = time.monotonic()
            r.eof(timeout=10)
            assert time.monotonic() - began > 0.2
        with Client(s.url, resume=session) as c:
            assert c.session_id == session


def test_a_peer_that_answers_pings_stays():
    # The pings go on for longer than the server waits for one pong, which is long enough for a client on a busy machine.
    with Server(config="ping_interval_ms = 50\npong_timeout_ms = 2000\n") as s, Client(s.url) as c:
        began = time.monotonic()
        c.wait_ping(20)
        wait_until(lambda: time.monotonic() - began > 3 and len(c.pings) > 20, 20, "pings for longer than that")
        assert c.call("environment/status") == {"status": "ready"}


def test_any_sign_of_life_or_a_pong_keeps_a_busy_peer():
    # Output in flight must not make the server believe that the peer is dead.
    with Server(config="ping_interval_ms = 50\npong_timeout_ms = 2000\n") as s, Client(s.url) as c:
        c.start("p", ["head", "-c", "50000000", "/dev/zero"])
        c.wait_closed("p", timeout=30)
        assert len(c.output("p")) == 50000000
        assert not c.closed


def wakings(pid, seconds):
    """How often the loop of a server sleeps within `seconds`."""
    def count():
        with open(f"/proc/{pid}/status", encoding="latin-1") as f:
            return int(f.read().partition("\nvoluntary_ctxt_switches:")[2].split()[0])

    before = count()
    select.select([], [], [], seconds)
    return count() - before


def test_a_peer_that_does_not_read_is_looked_at_now_and_then():
    """A peer that does not read cannot send pongs and is not taken for dead; the server checks it at intervals, not every
    millisecond."""
    with Server(config="ping_interval_ms = 200\npong_timeout_ms = 200\n") as s, Client(s.url) as c:
        c.start("p", ["/usr/bin/yes"])
        c.pause_reading()
        wait_until(lambda: is_idle(s.pid, 0.2), 20, "back-pressure")
        select.select([], [], [], 0.3)  # until the peer has been silent for too long
        assert wakings(s.pid, 1) < 100


@pytest.mark.slow
def test_the_first_ping_comes_after_20_s():
    with Server() as s, Client(s.url) as c:
        began = time.monotonic()
        c.wait_ping(1, timeout=28)
        assert 15 < time.monotonic() - began < 25


# Back-pressure


def test_a_client_that_does_not_read_stalls_only_its_own_child(server):
    with Client(server.url) as slow, Client(server.url) as quick:
        slow.pause_reading()
        ident = slow.request("process/start", {"processId": "flood", "argv": ["head", "-c", "60000000", "/dev/zero"],
                                               "cwd": "file:///tmp", "env": {"PATH": "/usr/bin:/bin"}, "tty": False})
        for _ in range(20):
            assert quick.run(["echo", "hi"]) == (b"hi\n", b"", 0)
        slow.resume_reading()
        slow.result(ident)
        slow.wait_closed("flood", timeout=60)
        assert len(slow.output("flood")) == 60000000
        slow.check_seq("flood")


def test_a_client_that_sends_and_never_reads_is_bounded(server):
    with server.raw() as r:
        r.initialize()
        r.sock.settimeout(3)
        burst = r.make_frame(TEXT, b'{"id":1,"method":"environment/info"}') * 1000
        with pytest.raises((TimeoutError, OSError, Closed)):
            # The server must stop reading (or drop the peer) long before 200,000 answers are queued.
            for _ in range(200):
                r.sock.sendall(burst)
    still_serves(server)


def test_raw_socket_helper_agrees_with_the_library(server):
    # The two implementations on our side of the tests must not share a mistake.
    with server.raw() as r, Client(server.url) as c:
        assert set(r.initialize()) == set(c.init_result)
        assert RawSocket.make_frame(TEXT, b"Hello", mask=False) == bytes.fromhex("810548656c6c6f")
