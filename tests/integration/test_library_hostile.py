"""What a hostile server can do to a program with libfarhand: nothing but fail what it was asked for."""

import base64
import hashlib
import os
import socket
import subprocess
import sys
import threading

import pytest

from farhand_client import PATIENCE, REPO
from library_rig import HAS_LIBRARY, build_host

SECONDS = 60 * PATIENCE
SERVER = [sys.executable, os.path.join(REPO, "tests/integration/library_hostile.py")]

pytestmark = pytest.mark.skipif(not HAS_LIBRARY, reason="not a build with the library")


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    program = build_host(str(tmp_path_factory.mktemp("host")))

    def run(what, *server):
        done = subprocess.run([program, what, *server], capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        return done.stdout.splitlines()
    return run


def test_an_exit_that_nobody_told_is_not_a_success(host):
    assert host("communicate", *SERVER, "closed_without_exit") == ["communicate 0 ", "code -1 out 0"]


def test_empty_output_is_none(host):
    assert host("communicate", *SERVER, "empty_chunks") == ["communicate 0 ", "code 0 out 0"]


def test_a_process_exits_once(host):
    assert host("exited", *SERVER, "two_exits") == ["wait 0 ", "exits 1 "]


def test_a_paused_client_sleeps_when_its_server_is_gone(host):
    steps, after = host("paused", *SERVER, "gone")
    assert int(steps.split()[1]) < 20 and after == "after 1 "


def test_events_told_backwards_cost_no_time(host):
    assert host("adopt", *SERVER, "backwards") == ["failed 1 ", "slow 0 "]


def test_calls_that_were_given_up_take_no_place(host):
    assert host("unanswered", *SERVER, "silent")[0].startswith("last -110 ")


def test_a_process_that_cannot_be_adopted_is_not_told_to_fail(host):
    calls, adopt, fails = host("crowded", *SERVER, "silent")
    assert calls == "calls 1024 " and adopt.startswith("adopt -11 ") and fails == "fails 0 "


def test_an_argument_that_is_a_process_is_the_caller_s(host):
    assert host("argument", *SERVER, "answers_calls") == ["answers 1 "]


def test_a_server_that_does_not_read_does_not_end_the_program(host):
    assert host("flooded", *SERVER, "deaf")[0].startswith("call -11 ")


def test_a_body_without_an_answer_has_a_bound(host):
    assert host("fetch", *SERVER, "http_flood")[0].startswith("fetch -105 ")


def test_pieces_out_of_order_are_no_body(host):
    assert host("fetch", *SERVER, "http_swapped") == ["fetch -71 the server sent the pieces of an HTTP body out of order"]


def test_pieces_of_other_requests_are_none_of_this(host):
    assert host("fetch", *SERVER, "http_others") == ["fetch 0 ", "body x"]


def test_changes_that_make_no_sense_are_told_as_lost(host):
    assert host("watch", *SERVER, "watch_nonsense") == ["changes 20001 ", "overflows 5 "]


def test_a_snapshot_is_never_longer_than_was_asked_for(host):
    assert host("snapshot", *SERVER, "snapshot_huge") == ["snapshot 0 ", "1000 0 1"]
    assert host("snapshot", *SERVER, "snapshot_broken")[0].startswith("snapshot -71 ")


def frame(opcode, payload):
    return bytes([0x80 | opcode, len(payload)]) + payload


def accept(listener):
    """Takes a WebSocket and answers its handshake."""
    s, _ = listener.accept()
    head = b""
    while b"\r\n\r\n" not in head:
        head += s.recv(4096)
    [key] = [line.split(b": ")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key:")]
    value = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    s.sendall(b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + value + b"\r\n\r\n")
    s.recv(4096)
    s.sendall(frame(1, b'{"id":0,"result":{"sessionId":"s"}}'))
    return s


@pytest.fixture(params=["unix", "tcp"])
def listener(request, tmp):
    listener = socket.socket(socket.AF_UNIX if request.param == "unix" else socket.AF_INET)
    listener.bind(f"{tmp}/socket" if request.param == "unix" else ("127.0.0.1", 0))
    listener.listen()
    listener.settimeout(SECONDS)
    with listener:
        yield listener


def url_of(listener):
    name = listener.getsockname()
    return f"unix:{name}" if isinstance(name, str) else f"ws://127.0.0.1:{name[1]}"


def test_pings_of_a_server_that_does_not_read_are_not_collected(host, listener):
    def serve():
        with accept(listener) as s:
            listener.close()  # nobody comes back
            s.sendall(frame(9, b"x" * 125) * 40000)

    url = url_of(listener)
    thread = threading.Thread(target=serve)
    thread.start()
    assert host("pinged", url) == ["queued 0 "]
    thread.join(SECONDS)


def test_a_lost_connection_is_back_at_once(host, listener):
    """The new socket mostly has the number of the old one: it has to be watched all the same."""
    def serve():
        for wait in (b"", b"1"):
            with accept(listener) as s:
                while wait and s.recv(4096):
                    pass

    thread = threading.Thread(target=serve)
    thread.start()
    assert host("recover", url_of(listener)) == ["ready 1 ", "slow 0 "]
    thread.join(SECONDS)
