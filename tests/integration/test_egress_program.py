"""farhand-egress, driven over its link as a server drives it: what it lets through, what it refuses, and whom it trusts."""

import contextlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading

import pytest

from egress_link_rig import (ALLOW, ASK, CONNECT, DENY, HTTP, PROGRAM, SOCKS, Egress, drain, exactly, policy, until)
from farhand_client import PATIENCE, wait_until
from http_origin import Origin, response

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="farhand-egress was not built: no c-ares")
HERE = (ALLOW, "127.0.0.1")


@pytest.fixture(scope="module")
def egress():
    with Egress() as e:
        yield e


@pytest.fixture
def origin():
    with Origin() as o:
        yield o


class Echo:
    """Sends back what it gets, connection by connection; ends its side when the other has."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while self.listener.fileno() >= 0:
            with contextlib.suppress(OSError):  # of one client, which may have gone again
                sock, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    @staticmethod
    def _serve(sock):
        with contextlib.suppress(OSError), sock:
            while piece := sock.recv(65536):
                sock.sendall(piece)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.listener.close()


@pytest.fixture(scope="module")
def echo():
    with Echo() as e:
        yield e


def get(origin, path="/", *fields, version="1.1", close=True):
    lines = [f"GET {origin.url}{path} HTTP/{version}", f"Host: 127.0.0.1:{origin.port}", *fields]
    return "\r\n".join(lines + (["Connection: close"] if close else []) + ["", ""]).encode()


def head_of(answer):
    return answer.partition(b"\r\n\r\n")[0].decode()


def body_of(answer):
    return answer.partition(b"\r\n\r\n")[2]


# What is allowed, and what is not

def test_an_allowed_request_passes_and_is_reported(egress, origin):
    net = egress.network(HERE)
    answer = net.ask(get(origin, "/a?b=1", "Proxy-Authorization: Basic eA==", "X-Keep: 2", "Connection: x-drop", "X-Drop: 1"))
    assert answer.startswith(b"HTTP/1.1 200 ")
    seen = dict(origin.requests[0].headers)
    assert origin.requests[0].target == "/a?b=1"
    assert seen == {"host": f"127.0.0.1:{origin.port}", "x-keep": "2"}
    decided = net.next("decided")
    assert (decided["action"], decided["source"], decided["reason"], decided["protocol"]) == (ALLOW, 0, "allow", HTTP)
    assert (decided["host"], decided["port"], decided["method"], decided["flags"]) == ("127.0.0.1", origin.port, "GET", 4)
    assert decided["client"].startswith("127.0.0.1:")
    ended = net.next("ended")
    assert (ended["address"], ended["rule"], ended["action"]) == ("127.0.0.1", "127.0.0.1", ALLOW)
    assert ended["up"] > 0 and ended["down"] == len(answer)


@pytest.mark.parametrize("host, reason, error", [
    ("other.test", "not_allowed", "blocked-by-allowlist"), ("bad.test", "denied", "blocked-by-denylist"),
    ("BAD.test.", "denied", "blocked-by-denylist"), ("10.1.2.3", "not_allowed_local", "blocked-by-allowlist"),
    ("2130706433", "not_allowed", "blocked-by-allowlist"), ("[::ffff:127.0.0.1]", "not_allowed_local", "blocked-by-allowlist")])
def test_what_is_not_allowed_is_refused_with_a_reason(egress, host, reason, error):
    net = egress.network(HERE, (DENY, "bad.test"))
    answer = net.ask(f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    body = json.loads(body_of(answer))
    assert head_of(answer).splitlines()[:4] == ["HTTP/1.1 403 Forbidden", "content-type: application/json",
                                                f"x-proxy-error: {error}", "connection: close"]
    assert (body["status"], body["reason"], body["decision"], body["port"]) == ("blocked", reason, "deny", 80)
    assert net.next("decided")["reason"] == reason


def test_a_refused_tunnel_can_ask_for_another(egress, echo):
    net = egress.network(HERE)
    with net.connect() as sock:
        sock.sendall(b"CONNECT other.test:443 HTTP/1.1\r\n\r\n")
        head = until(sock, b"\r\n\r\n").decode()
        assert head.startswith("HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain\r\nx-proxy-error: blocked-by-allowlist\r\n")
        assert exactly(sock, 24) == b"Domain not in allowlist."
        sock.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\nping" % echo.port)
        assert until(sock, b"\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\ndate: ")
        assert exactly(sock, 4) == b"ping"


def test_thousands_of_refused_tunnels_in_one_packet_are_all_answered(egress):
    net = egress.network()
    with net.connect() as sock:
        count = 1500
        threading.Thread(target=sock.sendall, args=(b"CONNECT x:1 HTTP/1.1\r\n\r\n" * count,), daemon=True).start()
        size = len(b"HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain\r\nx-proxy-error: blocked-by-allowlist\r\n"
                   b"content-length: 24\r\ndate: Mon, 16 Nov 2026 04:19:15 GMT\r\n\r\nDomain not in allowlist.")
        assert exactly(sock, count * size).count(b"403 Forbidden") == count
    reported = 0
    while reported < count:
        reported += net.next("decided")["count"]
    assert reported == count


def test_a_target_that_is_dead_is_told(egress):
    net = egress.network(HERE)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        answer = net.ask(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: 16\r\n")
        assert body_of(answer) == b"upstream failure"
        answer = net.ask(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 502 ") and body_of(answer) == b"upstream failure: ECONNREFUSED"


def test_limited_mode_lets_harmless_methods_through_alone(egress, origin):
    net = egress.network(HERE, limited=True)
    assert net.ask(get(origin)).startswith(b"HTTP/1.1 200 ")
    assert net.next("decided")["action"] == ALLOW
    answer = net.ask(get(origin).replace(b"GET", b"get"))
    assert b"blocked-by-method-policy" in answer and b"Method not allowed in limited mode." in answer
    first, second = net.next("decided"), net.next("decided")
    assert (first["action"], first["flags"], second["action"], second["flags"]) == (ALLOW, 4, DENY, 5)
    with net.connect() as sock:
        sock.sendall(b"CONNECT 127.0.0.1:443 HTTP/1.1\r\n\r\n")
        assert b"blocked-by-mitm-required" in until(sock, b"\r\n\r\n")


def test_answers_to_what_is_no_request(egress, origin):
    net = egress.network(HERE)
    port = origin.port
    for raw, status, text in [
            (b"garbage\r\n\r\n", 400, b""), (b"CONNECT  HTTP/1.1\r\n\r\n", 400, b""),
            (b"GET / HTTP/1.1\r\n\r\n", 400, b"missing host"),
            (b"GET http://127.0.0.1:%d/ HTTP/1.1\r\nHost: other\r\n\r\n" % port, 400, b"Host header does not match request target"),
            (b"GET http://127.0.0.1:%d/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % port, 400, b"Host header does not match request target"),
            (b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nX-Unix-Socket: /x\r\n\r\n" % port, 501, b"unix sockets unsupported"),
            (b"GET https://127.0.0.1:%d/ HTTP/1.1\r\n\r\n" % port, 502, b"upstream failure"),
            (b"GET / HTTP/1.1\r\nX: " + b"x" * 600000 + b"\r\n\r\n", 431, b"")]:
        answer = net.ask(raw)
        assert answer.startswith(b"HTTP/1.1 %d " % status), (raw[:60], answer)
        assert body_of(answer) == text
    assert origin.requests == []


@pytest.mark.parametrize("fields", [
    "Content-Length: 5\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 5",
    "Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5\r\nContent-Length: 6", "Content-Length: +5", "Content-Length: 5 5",
    "Content-Length: 5\r\n Content-Length: 6", "Transfer-Encoding : chunked", "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding: \x0bchunked", "Connection: content-length\r\nContent-Length: 5", "X: a\rb", "X: a\0b", "X: a\nY: b"])
def test_smuggled_requests_do_not_pass(egress, origin, fields):
    net = egress.network(HERE)
    raw = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{origin.port}\r\n{fields}\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n"
    assert net.ask(raw.encode("latin-1")).startswith(b"HTTP/1.1 400 ")
    assert origin.requests == []


# HTTP bodies and connections that are kept

def test_a_kept_connection_serves_request_after_request_and_each_is_judged(egress, origin):
    net = egress.network(HERE)
    with Origin() as other, net.connect() as sock:
        for target in (origin, origin, other, origin):
            sock.sendall(get(target, "/x", close=False))
            head = until(sock, b"\r\n\r\n")
            size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            assert head.startswith(b"HTTP/1.1 200 ") and len(exactly(sock, size)) == size
            assert net.next("decided")["port"] == target.port
        assert (len(origin.requests), len(other.requests)) == (3, 1)
        sock.sendall(b"GET http://evil.test/ HTTP/1.1\r\n\r\n")
        assert b"403 Forbidden" in drain(sock)


def test_requests_in_one_packet_are_answered_in_order(egress, origin):
    net = egress.network(HERE)
    answers = net.ask(get(origin, "/1", close=False) + get(origin, "/2", close=False) + get(origin, "/3"))
    assert [r.target for r in origin.requests] == ["/1", "/2", "/3"]
    assert answers.count(b"HTTP/1.1 200 ") == 3


def test_a_server_that_closes_a_kept_connection_costs_nothing(egress, origin):
    net = egress.network(HERE)
    origin.on("/last", lambda _r, sock: (sock.sendall(response(body=b"bye")), False)[1])
    with net.connect() as sock:
        for _ in range(3):
            sock.sendall(get(origin, "/last", close=False))
            assert until(sock, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ") and exactly(sock, 3) == b"bye"


def test_what_may_be_done_once_only_is_not_sent_again(egress, origin):
    net, done = egress.network(HERE), []
    origin.on("/", lambda _r, _s: response(body=b""))
    origin.on("/pay", lambda r, _s: (done.append(r.method), False)[1])
    for method, count in ((b"GET", 2), (b"POST", 1)):
        with net.connect() as sock:
            sock.sendall(get(origin, close=False))
            assert until(sock, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
            sock.sendall(get(origin, "/pay", "Content-Length: 0", close=False).replace(b"GET", method))
            assert until(sock, b"\r\n\r\n").startswith(b"HTTP/1.1 502 ")
            assert done.count(method.decode()) == count


def test_bodies_pass_with_a_length_and_in_chunks(egress, origin):
    net = egress.network(HERE)
    body = os.urandom(300000)
    host = b"POST / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n" % origin.port
    origin.on("/", lambda r, _s: response(body=r.body))
    answer = net.ask(host + b"Content-Length: %d\r\n\r\n" % len(body) + body, timeout=30)
    assert body_of(answer) == body
    sizes = []
    origin.on("/c", lambda _r, sock: (sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                                   b"3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nT: 1\r\n\r\n"), False)[1])
    answer = net.ask(get(origin, "/c"))
    assert b"Transfer-Encoding: chunked" in answer
    assert body_of(answer) == b"3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nT: 1\r\n\r\n" and sizes == []


def raw_server(answer):
    """A server of one connection: gives all it reads up to the first blank line to `answer`, which does the rest."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        sock, _ = listener.accept()
        with sock, listener, contextlib.suppress(OSError):
            answer(sock, until(sock, b"\r\n\r\n"))
    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


def test_a_body_in_chunks_is_checked_on_its_way(egress):
    net = egress.network(HERE)
    seen = []
    port = raw_server(lambda sock, head: (seen.append(until(sock, b"0\r\n\r\n")), sock.sendall(response(body=b"ok"))))
    raw = b"POST / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n" % port
    assert body_of(net.ask(raw + b"5\r\nhello\r\n0\r\n\r\n")) == b"ok"
    assert seen == [b"5\r\nhello\r\n0\r\n\r\n"]
    port = raw_server(lambda sock, head: drain(sock))
    raw = b"POST / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nTransfer-Encoding: chunked\r\n\r\n" % port
    assert net.ask(raw + b"5\nhello\r\n0\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_a_client_may_wait_for_the_word_to_go_on(egress):
    net = egress.network(HERE)

    def answer(sock, head):
        assert b"Expect: 100-continue" in head
        sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        sock.sendall(response(body=exactly(sock, 4)))
    port = raw_server(answer)
    with net.connect() as sock:
        sock.sendall(b"PUT / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n" % port)
        assert until(sock, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"body")
        assert until(sock, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ") and exactly(sock, 4) == b"body"


def test_an_upgrade_becomes_a_tunnel_but_not_in_limited_mode(egress):
    def answer(sock, head):
        if b"Upgrade: websocket" not in head:
            sock.sendall(response(body=b"plain"))
            return
        sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello")
        sock.sendall(exactly(sock, 4)[::-1])
    for limited in (False, True):
        net = egress.network(HERE, limited=limited)
        port = raw_server(answer)
        with net.connect() as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" % port)
            head = until(sock, b"\r\n\r\n")
            if limited:
                assert head.startswith(b"HTTP/1.1 200 ")
            else:
                assert head.startswith(b"HTTP/1.1 101 ") and exactly(sock, 5) == b"hello"
                sock.sendall(b"abcd")
                assert exactly(sock, 4) == b"dcba"


@pytest.mark.parametrize("broken", [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\nX: 1\n\n", b"", b"HTTP/1.1 101 X\r\n\r\n",
                                    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                                    b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70000 + b"\r\n\r\n"])
def test_a_response_that_is_none_becomes_a_failure(egress, broken):
    net = egress.network(HERE)
    port = raw_server(lambda sock, _head: sock.sendall(broken))
    answer = net.ask(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 502 ") and body_of(answer) == b"upstream failure"


def test_a_response_up_to_the_end_of_its_connection_passes(egress):
    net = egress.network(HERE)
    port = raw_server(lambda sock, _head: sock.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 200000))
    answer = net.ask(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.0 200 OK\r\nConnection: close\r\n") and len(body_of(answer)) == 200000


# Tunnels

def test_much_passes_a_tunnel_both_ways_and_ends_are_kept_apart(egress, echo):
    net = egress.network(HERE)
    data = os.urandom(4 << 20)
    with net.tunnel(echo.port) as sock:
        def send():
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        threading.Thread(target=send, daemon=True).start()
        assert drain(sock) == data
    ended = net.next("ended")
    assert (ended["up"], ended["down"]) == (len(data), len(data))


def socks(net, request):
    sock = net.connect("socks")
    sock.sendall(b"\x05\x01\x00")
    assert exactly(sock, 2) == b"\x05\x00"
    sock.sendall(request)
    return sock


def test_socks_reaches_what_is_allowed(egress, echo):
    net = egress.network(HERE, (ALLOW, "localhost"))
    port = struct.pack(">H", echo.port)
    for target in (b"\x01\x7f\0\0\1", b"\x03\x09localhost"):
        with socks(net, b"\x05\x01\x00" + target + port + b"early") as sock:
            assert exactly(sock, 10)[:8] == b"\x05\x00\x00\x01\x7f\0\0\1" and exactly(sock, 5) == b"early"
        decided = net.next("decided")
        assert (decided["protocol"], decided["flags"], decided["method"]) == (SOCKS, 0, "")


@pytest.mark.parametrize("request_, code", [
    (b"\x05\x01\x00\x03\x05other\x00\x50", 2), (b"\x05\x01\x00\x01\x0a\0\0\1\x00\x50", 2), (b"\x05\x02\x00\x01\x7f\0\0\1\x00\x50", 7),
    (b"\x05\x03\x00\x01\x7f\0\0\1\x00\x50", 7), (b"\x05\x01\x00\x09\x7f\0\0\1\x00\x50", 8), (b"\x05\x01\x00\x03\x03a b\x00\x50", 2)])
def test_socks_says_what_it_does_not_do(egress, request_, code):
    net = egress.network(HERE)
    with socks(net, request_) as sock:
        assert drain(sock) == bytes([5, code, 0, 1, 0, 0, 0, 0, 0, 0])


def test_socks_wants_no_password_and_no_other_version(egress):
    net = egress.network(HERE)
    for hello, answer in ((b"\x05\x01\x02", b"\x05\xff"), (b"\x04\x01\x00\x50\x7f\0\0\1\0", b"")):
        with net.connect("socks") as sock:
            sock.sendall(hello)
            assert drain(sock) == answer


# Questions

def test_one_question_is_asked_for_many_and_answered_once(egress, echo):
    net = egress.network(questions=True, local=True)
    socks_ = [net.connect() for _ in range(3)]
    for sock in socks_:
        sock.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % echo.port)
    ask = net.next("ask")
    assert (ask["protocol"], ask["host"], ask["port"]) == (CONNECT, "127.0.0.1", echo.port)
    egress.pulse()
    net.answer(ask["question"], ALLOW)
    for sock in socks_:
        with sock:
            assert until(sock, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
        decided = net.next("decided")
        assert (decided["action"], decided["source"], decided["reason"], decided["flags"]) == (ALLOW, 1, "not_allowed", 6)


def test_the_reason_of_an_answer_is_shown(egress):
    net = egress.network(questions=True)
    for action, reason, shown, message in ((DENY, "", "policy_denied", "Request blocked by network policy."),
                                           (ASK, "please wait", "please wait", "Request blocked by network policy."),
                                           (DENY, "denied", "denied", "Domain denied by the sandbox policy.")):
        with net.connect() as sock:
            sock.sendall(b"GET http://other.test/ HTTP/1.1\r\n\r\n")
            net.answer(net.next("ask")["question"], action, reason)
            body = json.loads(body_of(drain(sock)))
            assert (body["reason"], body["source"], body["message"]) == (shown, "decider", message)
            assert body["decision"] == ("ask" if action == ASK else "deny")
        assert net.next("decided")["action"] == action


def test_an_answer_is_remembered_only_when_it_says_so(egress, echo):
    net = egress.network(questions=True, local=True)
    raw = b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % echo.port
    for remember in (0, 1):
        with net.connect() as sock:
            sock.sendall(raw)
            net.answer(net.next("ask")["question"], ALLOW, remember=remember)
            assert until(sock, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    with net.connect() as sock:
        sock.sendall(raw)
        assert until(sock, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_a_question_nobody_waits_for_is_withdrawn(egress):
    net = egress.network(questions=True)
    with net.connect() as sock:
        sock.sendall(b"CONNECT other.test:443 HTTP/1.1\r\n\r\n")
        ask = net.next("ask")
    assert net.next("withdrawn")["question"] == ask["question"]
    net.answer(ask["question"], ALLOW)
    egress.pulse()


# Networks

def test_new_rules_cut_what_they_forbid_and_nothing_else(egress, echo):
    net, other = egress.network(HERE), egress.network(HERE)
    with net.tunnel(echo.port) as cut, other.tunnel(echo.port) as kept:
        net.rules(HERE, (DENY, "bad.test"))
        egress.pulse()
        cut.sendall(b"still")
        assert exactly(cut, 5) == b"still"
        net.rules((DENY, "127.0.0.1"))
        assert drain(cut) == b""
        kept.sendall(b"here")
        assert exactly(kept, 4) == b"here"
    assert net.next("ended")["reason"] == "denied"
    assert b"403" in net.ask(b"GET http://127.0.0.1:%d/ HTTP/1.1\r\n\r\n" % echo.port)


def test_a_closed_network_takes_its_connections_along(egress, echo):
    net = egress.network(HERE, questions=True)
    with net.tunnel(echo.port) as sock, net.connect() as asking:
        asking.sendall(b"CONNECT other.test:443 HTTP/1.1\r\n\r\n")
        net.next("ask")
        net.close()
        net.next("closed")
        assert drain(sock) == b"" and drain(asking) == b""
    for s in net.listeners:
        s.close()
    with pytest.raises(ConnectionRefusedError):
        net.connect()


def test_a_crowd_at_one_network_does_not_hold_up_another(egress, echo):
    crowded, quiet = egress.network(HERE), egress.network(HERE)
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(crowded.connect(timeout=30)) for _ in range(300)]
        for sock in crowd:
            sock.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % echo.port)
        for sock in crowd[:256]:
            assert until(sock, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
        crowd[299].settimeout(0.2)
        with pytest.raises(TimeoutError):
            crowd[299].recv(1)
        with quiet.tunnel(echo.port) as sock:
            sock.sendall(b"x")
            assert exactly(sock, 1) == b"x"
        for sock in crowd[:44]:
            sock.close()
        for sock in crowd[256:]:
            sock.settimeout(30 * PATIENCE)
            assert until(sock, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_a_reader_that_does_not_read_holds_up_its_own_sender_alone(egress, echo):
    net = egress.network(HERE)
    with net.tunnel(echo.port) as stuck, net.tunnel(echo.port) as sock:
        stuck.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                stuck.send(b"x" * 65536)
        sock.sendall(b"y" * 100000)
        assert exactly(sock, 100000) == b"y" * 100000
    with open(f"/proc/{egress.process.pid}/status", encoding="ascii") as f:
        resident = int(next(line for line in f if line.startswith("VmRSS")).split()[1])
    assert resident < 400 << 10


# The link

def test_requests_wait_for_a_server_that_does_not_read(egress):
    """Otherwise one command could fill the memory with what is to be told about its requests, and that ends the program for all."""
    net, count = egress.network(), 6000
    request = b"CONNECT %s:443 HTTP/1.1\r\n\r\n" % b".".join([b"x" * 49] * 5)
    with net.connect() as sock:
        threading.Thread(target=sock.sendall, args=(request * count,), daemon=True).start()
        answered = sock.recv(65536).count(b"allowlist.")
        sock.settimeout(1)
        with pytest.raises(TimeoutError):
            while answered < count:
                answered += sock.recv(65536).count(b"allowlist.")
        sock.settimeout(None)
        threading.Thread(target=drain, args=(sock,), daemon=True).start()
        for _ in range(count):
            net.next("ended")
        sock.shutdown(socket.SHUT_RDWR)


def test_a_network_that_uses_up_descriptors_is_not_in_the_way_of_another(echo):
    with Egress(descriptors=400) as e, contextlib.ExitStack() as stack:
        net = e.network(HERE)
        e.pulse()
        for _ in range(250):
            stack.enter_context(net.connect()).sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % echo.port)
        wait_until(lambda: len(os.listdir(f"/proc/{e.process.pid}/fd")) > 250)
        others = [e.network(HERE) for _ in range(20)]
        e.pulse()
        stack.close()
        for other in others:
            with other.tunnel(echo.port) as sock:
                sock.sendall(b"x")
                assert exactly(sock, 1) == b"x"


def test_many_decisions_are_summed_up(egress):
    net = egress.network()
    for _ in range(150):
        assert b"403" in net.ask(b"GET http://other.test/ HTTP/1.1\r\n\r\n")
    counts = []
    while sum(counts) < 150:
        counts.append(net.next("decided")["count"])
    assert sum(counts) == 150


@pytest.mark.parametrize("packet, fds", [
    (b"\x01", 0), (b"\x02\x05\0\0", 0), (b"\x01\x46\0\0", 0), (b"\x01\x03\0\0\x63\0\0\0", 0),
    (b"\x01\x05\0\0", 1), (b"\x01\x01\0\0\x01\0\0\0\0\0\0\0", 0), (b"\x01\x01\0\0\x01\0\0\0\0\0\0\0", 1),
    (b"\x01\x02\0\0\x01\0\0\0", 1), (b"\x01\x05\0\0" + b"x" * 20000, 0)])
def test_a_server_that_breaks_the_rules_is_left(packet, fds):
    e = Egress()
    e.pulse()
    with open("/dev/null", "rb") as f:
        socket.send_fds(e.link, [packet], [f.fileno()] * fds)
    assert e.process.wait(20 * PATIENCE) == 1
    e.end()


def test_a_policy_that_is_none_is_refused():
    for data in (b"", b"\x01", policy((ALLOW, "x"))[:-1], policy((ALLOW, "x")) + b"\0", b"\xff" * 4096):
        e = Egress()
        e.send("open", 1, struct.pack("<I", 0), data)
        assert e.process.wait(20 * PATIENCE) == 1
        e.end()


def test_it_ends_with_the_server_and_is_nobody(echo):
    e = Egress()
    net = e.network(HERE)
    sock = net.tunnel(echo.port)
    with open(f"/proc/{e.process.pid}/status", encoding="ascii") as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    assert status["NoNewPrivs"] == "1"
    if os.geteuid() == 0:
        assert status["Uid"].split() == ["65534"] * 4 and status["Groups"].strip() == ""
        assert int(status["CapEff"], 16) == 0
    code, errors = e.end()
    assert code == 0, errors
    with sock:
        assert drain(sock) == b""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to give")
def test_it_drops_the_capabilities_of_a_service():
    """Of those that systemd gives with AmbientCapabilities, and of root in a namespace that has no other user."""
    for start in (["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+net_raw", "--ambient-caps=+net_raw"],
                  ["unshare", "--user", "--map-root-user"]):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, subprocess.Popen([*start, PROGRAM, "--serve"], close_fds=False, preexec_fn=lambda t=theirs: os.dup2(t.fileno(), 3)) as p:
            theirs.close()
            ours.send(b"\x01\x05\0\0")
            ours.settimeout(20 * PATIENCE)
            ours.recv(100)
            with open(f"/proc/{p.pid}/status", encoding="ascii") as f:
                caps = {line.split()[0]: int(line.split()[1], 16) for line in f if line.startswith("Cap")}
            ours.close()
        assert caps["CapEff:"] == caps["CapPrm:"] == caps["CapAmb:"] == 0


def test_when_it_is_killed_its_connections_end(echo):
    e = Egress()
    net = e.network(HERE)
    with net.tunnel(echo.port) as sock:
        e.process.send_signal(signal.SIGKILL)
        assert drain(sock) == b""
    e.end()


def test_it_does_not_start_by_hand():
    import subprocess
    done = subprocess.run([PROGRAM], capture_output=True, stdin=subprocess.DEVNULL, timeout=20 * PATIENCE, check=False)
    assert done.returncode == 2 and b"started by farhand serve" in done.stderr


# Another proxy behind this one

def name_in_hosts():
    """A name that is resolved without any name server."""
    with contextlib.suppress(OSError), open("/etc/hosts", encoding="utf-8") as f:
        for line in f:
            for name in line.partition("#")[0].split()[1:]:
                if re.fullmatch("[a-z0-9-]+(\\.[a-z0-9-]+)*", name) and name != "localhost":
                    return name
    return None


NAME = name_in_hosts()
needs_name = pytest.mark.skipif(NAME is None, reason="/etc/hosts has no name but localhost")


def upstream_proxy(answer, url="http://127.0.0.1:{}"):
    """farhand-egress whose environment names a proxy, which is `answer`."""
    port = raw_server(answer)
    return Egress(env={**os.environ, "HTTP_PROXY": url.format(port), "HTTPS_PROXY": url.format(port)})


@needs_name
def test_names_go_through_the_proxy_of_the_environment_when_they_may():
    seen = []

    def http(sock, head):
        seen.append(head)
        sock.sendall(response(body=b"from the proxy"))
    with upstream_proxy(http) as e:
        net = e.network((ALLOW, NAME), local=True, upstream=True)
        assert body_of(net.ask(f"GET http://{NAME}:81/x HTTP/1.1\r\nConnection: close\r\n\r\n".encode())) == b"from the proxy"
    assert seen == [f"GET http://{NAME}:81/x HTTP/1.1\r\nHost: {NAME}:81\r\n\r\n".encode()]

    def connect(sock, head):
        seen.append(head)
        sock.sendall(b"HTTP/1.1 200 Connected\r\n\r\nhello")
        sock.sendall(exactly(sock, 4))
    with upstream_proxy(connect) as e:
        net = e.network((ALLOW, NAME), local=True, upstream=True)
        with net.tunnel(443, host=NAME) as sock:
            sock.sendall(b"ping")
            assert exactly(sock, 9) == b"helloping"
    assert seen[1] == f"CONNECT {NAME}:443 HTTP/1.1\r\nHost: {NAME}:443\r\n\r\n".encode()


@needs_name
def test_a_proxy_that_refuses_or_cannot_be_used_is_not_gone_past(echo):
    for answer, url in ((lambda sock, _head: sock.sendall(b"HTTP/1.1 403 No\r\n\r\n"), "http://127.0.0.1:{}"),
                        (lambda sock, _head: sock.sendall(b"nonsense\r\n\r\n"), "http://127.0.0.1:{}"),
                        (lambda _sock, _head: None, "socks5://127.0.0.1:{}")):
        with upstream_proxy(answer, url) as e:
            net = e.network((ALLOW, NAME), HERE, local=True, upstream=True)
            assert net.ask(f"CONNECT {NAME}:{echo.port} HTTP/1.1\r\n\r\n".encode()).startswith(b"HTTP/1.1 502 ")
            with net.tunnel(echo.port) as sock:  # an address goes direct
                sock.sendall(b"x")
                assert exactly(sock, 1) == b"x"
