"""`farhand mcp --listen`: slow and flooding clients, too many of anything, and what its memory does meanwhile."""

import contextlib
import resource
import socket
import time

import pytest

from farhand_client import PATIENCE
from mcp_http_rig import BOTH, HOLDS_MEMORY, INITIALIZE, Front, head_of, until

SLOW_HEAD_S = 10  # LIMIT_HTTP_HEAD_MS


@pytest.fixture(scope="module")
def front():
    with Front() as one:
        yield one


@pytest.fixture(scope="module")
def session(front):
    return front.session()


def resident(front):
    with open(f"/proc/{front.proc.pid}/status", encoding="latin-1") as f:
        return int([line for line in f if line.startswith("VmRSS")][0].split()[1])


def test_slow_heads_time_out_and_others_are_served(front, session):
    """Heads that never end, one byte now and then, and one connection that says nothing at all."""
    slow = [front.wire() for _ in range(30)]
    began = time.monotonic()
    for wire in slow[1:]:
        wire.send(b"POST /mcp HTTP/1.1\r\n")
    assert session.exec("echo x")["output"] == "x\n"
    while time.monotonic() - began < SLOW_HEAD_S - 2:
        for n, wire in enumerate(slow[1:]):
            with contextlib.suppress(ConnectionError):  # where the machine is slow it may be over
                wire.send(b"X-%d: y\r\n" % n)
        assert session.call(session.message("ping"))["result"] == {}
        time.sleep(1)
    for wire in slow:
        assert wire.is_closed(SLOW_HEAD_S * PATIENCE)
        wire.close()


def test_heads_that_are_too_long(front):
    with front.wire() as wire:
        wire.send(b"GET /mcp HTTP/1.1\r\n" + b"X: " + b"y" * 17_000)
        assert wire.read_answer().status == 431 and wire.is_closed()
    with front.wire() as wire:
        wire.send(b"GET /mcp HTTP/1.1\r\n" + b"X: y\r\n" * 101 + b"\r\n")
        assert wire.read_answer().status == 431


@pytest.mark.parametrize("bytes_", [b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"GET / HTTP/2.0\r\n\r\n", b"\0" * 100,
                                    b"POST /mcp HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                                    b"POST /mcp HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"])
def test_what_is_no_http_is_refused_and_closed(front, bytes_):
    with front.wire() as wire:
        wire.send(bytes_)
        assert wire.read_answer().status in (400, 505) and wire.is_closed()


def test_too_many_sessions():
    with Front("--max-sessions", "2") as front:
        one, two = front.session(), front.session()
        answer = front.ask(body=INITIALIZE)
        assert answer.status == 503 and answer.headers["retry-after"] == "1"
        assert one.exec("echo x")["output"] == "x\n"
        two.ask("DELETE")
        until(lambda: front.ask(body=INITIALIZE).status == 200, "room for another session")


def test_the_session_that_was_idle_longest_gives_way():
    """After half of the time after which it would end anyway."""
    idle = 16
    with Front("--max-sessions", "2", "--session-idle", str(idle)) as front:
        one, began = front.session(), time.monotonic()
        two = front.session()
        new = until(lambda: front.ask(body=INITIALIZE).status == 200, "room for another session", idle - 1)
        assert new and time.monotonic() - began < idle - 1
        assert one.ask(body=one.message("ping")).status == 404 and two.exec("echo x")["output"] == "x\n"


def test_many_connections_that_say_nothing_keep_nobody_out(front, session):
    idle, room = [], resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    for _ in range(1100 if room == resource.RLIM_INFINITY else min(1100, room - 200)):
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(("127.0.0.1", front.port))
        idle.append(sock)
    assert session.call(session.message("ping"))["result"] == {}
    for sock in idle:
        sock.close()
    assert session.call(session.message("ping"))["result"] == {}


def test_refused_connections_that_stay_keep_nobody_out(front, session):
    """Each connection has got its last answer. If its client does not close it, it would be closed only after ten seconds."""
    refused, room, began = [], resource.getrlimit(resource.RLIMIT_NOFILE)[0], time.monotonic()
    for _ in range(1024 if room == resource.RLIM_INFINITY else min(1024, room - 200, room // 2)):
        wire = front.wire()
        wire.send(b"\0")
        assert wire.read_answer().status == 400
        refused.append(wire)
    can_judge = time.monotonic() - began < SLOW_HEAD_S / 2  # later the first of them would be closed by their deadline
    assert session.call(session.message("ping"))["result"] == {}
    assert not can_judge or time.monotonic() - began < SLOW_HEAD_S
    for wire in refused:
        wire.close()


def test_too_many_requests_without_an_answer(front):
    """64 calls of one session run; the others are answered with an error each, and nobody else notices."""
    one, other = front.session(), front.session()
    wires = [one.begin(one.exec_message("sleep 1000", ident=n)) for n in range(64)]
    until(lambda: len(front.processes()) >= 64, "the commands")
    assert one.call(one.exec_message("echo more"))["error"]["message"] == "too many calls are under way"
    assert other.exec("echo x")["output"] == "x\n"
    for wire in wires:
        wire.close()
    assert one.ask("DELETE").status == 204 and other.ask("DELETE").status == 204


def test_streams_of_gets_are_limited(front):
    one = front.session()
    wires = [one.get() for _ in range(5)]
    assert wires[0].is_closed()
    assert not any(wire.is_closed(0.1) for wire in wires[2:])
    for wire in wires:
        wire.close()
    one.ask("DELETE")


def test_a_flood_of_requests_costs_no_memory(front, session):
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    one = head_of("POST", "/mcp", {**BOTH, "Mcp-Session-Id": session.id}, front.port, len(body)) + body
    bad = head_of("POST", "/mcp", {**BOTH, "Mcp-Session-Id": "x" * 100}, front.port, len(body)) + body

    def flood(rounds):
        with front.wire() as wire:
            for _ in range(rounds):
                wire.send(one * 20 + bad)
                for _ in range(21):
                    wire.read_answer()

    flood(20)
    before = resident(front)
    flood(200)
    assert HOLDS_MEMORY or resident(front) - before < 2000


def test_connections_that_are_cut_at_any_byte(front, session):
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    whole = head_of("POST", "/mcp", {**BOTH, "Mcp-Session-Id": session.id}, front.port, len(body)) + body
    for at in range(0, len(whole) + 1, 3):
        wire = front.wire()
        wire.send(whole[:at])
        if at % 2:
            wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
        wire.close()
    assert session.call(session.message("ping"))["result"] == {}


def test_a_body_that_does_not_come_does_not_hold_up_others(front, session):
    with front.wire() as wire:
        wire.send(head_of("POST", "/mcp", {**BOTH, "Mcp-Session-Id": session.id}, front.port, 1000) + b"{")
        assert session.exec("echo x")["output"] == "x\n"
        assert wire.is_quiet(0.1)
