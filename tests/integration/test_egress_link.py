"""farhand-egress and a server that is not what it should be: broken messages end the link and the program, whatever they carry."""

import os
import socket
import struct

import pytest

from egress_rig import (ANSWER, ASK, CLOSE, CLOSED, EGRESS, HEADER, HTTP_LISTENER, OPEN, PING, PONG, RULES, EgressAlone, packed,
                        policy_bytes)
from network_rig import allow, http, policy, status
from world import world_or_skip

pytestmark = pytest.mark.skipif(not os.path.exists(EGRESS), reason="farhand-egress was not built")


@pytest.fixture(scope="module")
def world():
    with world_or_skip() as one:
        yield one


@pytest.fixture
def egress(world):
    with EgressAlone(world) as one:
        yield one


def whole(kind, network, payload=b""):
    return HEADER.pack(1, kind, 0) + struct.pack("<I", network) + payload


def test_it_answers_a_ping(egress):
    egress.send(PING)
    egress.wait(lambda m: m["type"] == PONG)


def test_it_ends_with_its_link(egress):
    network, _ = egress.open(allow("good.test"))
    assert network == 1
    egress.link.shutdown(socket.SHUT_RDWR)
    assert egress.wait_end() == 0


GOOD = policy_bytes(allow("good.test"))
TWO = struct.pack("<IBHBH", 2, HTTP_LISTENER, 0, 1, 0)
BROKEN = {
    "empty": b"", "one byte": b"\1", "another version": HEADER.pack(2, PING, 0), "no such type": HEADER.pack(1, 99, 0),
    "type zero": HEADER.pack(1, 0, 0), "what only egress says": HEADER.pack(1, PONG, 0),
    "bytes after a ping": HEADER.pack(1, PING, 0) + b"x",
    "not zero": HEADER.pack(1, PING, 7), "an answer without a question": whole(ANSWER, 1, struct.pack("<IBBI", 0, 0, 0, 0) + packed("")),
    "an action that is none": whole(ANSWER, 1, struct.pack("<IBBI", 1, 9, 0, 0) + packed("")),
    "a reason longer than there is": whole(ANSWER, 1, struct.pack("<IBBII", 1, 0, 0, 0, 500)),
    "a reason that is too long": whole(ANSWER, 1, struct.pack("<IBBI", 1, 0, 0, 0) + packed("x" * 2000)),
    "rules without a policy": whole(RULES, 1), "open without sockets' descriptors": whole(OPEN, 1, TWO),
    "more sockets than there may be": whole(OPEN, 1, struct.pack("<I", 4000) + b"\0\0\0" * 4000),
    "a huge message": whole(OPEN, 1, b"\0" * 20000),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_message_ends_it(egress, what):
    egress.send_raw(BROKEN[what])
    if not BROKEN[what]:
        egress.link.shutdown(socket.SHUT_WR)  # an empty packet is the end of a link
    assert egress.wait_end() in (0, 1)


@pytest.mark.parametrize("what", ["garbage", "cut", "trailing", "empty", "huge", "a pipe", "a directory", "a descriptor too many",
                                  "a socket too few", "a listener that is none", "a datagram socket", "a file as a listener"])
def test_a_broken_open_ends_it(egress, tmp, what):
    """Or is refused; it never crashes, and serves no policy that it could not read."""
    listeners = egress.listeners()
    data = {"garbage": os.urandom(64), "cut": GOOD[:-1], "trailing": GOOD + b"x", "empty": b"",
            "huge": GOOD + b"\0" * (2 << 20)}.get(what, GOOD)
    sockets = [s.fileno() for s in listeners]
    extra = []
    with egress.memfd(data) as fd:
        if what == "a pipe":
            extra = list(os.pipe())
            fd = extra[0]
        elif what == "a directory":
            extra = [os.open(tmp, os.O_RDONLY)]
            fd = extra[0]
        elif what == "a descriptor too many":
            sockets.append(sockets[0])
        elif what == "a socket too few":
            sockets.pop()
        elif what == "a listener that is none":
            plain = socket.socket()
            listeners.append(plain)
            sockets[0] = plain.fileno()
        elif what == "a datagram socket":
            plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            listeners.append(plain)
            sockets[0] = plain.fileno()
        elif what == "a file as a listener":
            extra = [os.open(os.path.join(tmp, "f"), os.O_RDWR | os.O_CREAT)]
            sockets[0] = extra[0]
        egress.send(OPEN, 1, TWO, [fd, *sockets])
    for one in extra:
        os.close(one)
    try:
        egress.send(PING)
        egress.send(CLOSE, 1)
        egress.wait(lambda m: m["type"] == CLOSED)
        return
    except (OSError, AssertionError):
        pass
    assert egress.wait_end() == 1


@pytest.mark.parametrize("cut", range(4, len(whole(OPEN, 1, TWO))))
def test_every_truncation_of_open_ends_it(egress, cut):
    listeners = egress.listeners()
    with egress.memfd(GOOD) as fd:
        egress.send_raw(whole(OPEN, 1, TWO)[:cut], [fd, *(s.fileno() for s in listeners)])
    assert egress.wait_end() == 1


def test_answers_to_nothing_are_harmless(egress):
    """Late answers happen: the question was withdrawn while the answer was on its way."""
    network, _ = egress.open(policy(), has_questions=True)
    for question in (1, 2, 4294967295):
        egress.send(ANSWER, network, egress.answer_bytes(question, "allow"))
        egress.send(ANSWER, 999, egress.answer_bytes(question, "allow"))
    egress.send(PING)
    egress.wait(lambda m: m["type"] == PONG)
    assert status(egress.probe([http("good.test")], allow("good.test")).results[0]) == 200


def test_rules_that_are_taken_back_cut_what_they_had_allowed(egress):
    network, env = egress.open(allow("good.test"))
    host, _, port = env["HTTP_PROXY"].rpartition("/")[2].rpartition(":")
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(egress.world.relay(int(port)))
        s.sendall(b"CONNECT good.test:9 HTTP/1.1\r\nHost: good.test:9\r\n\r\n")
        assert s.recv(12) == b"HTTP/1.1 200"
        while not s.recv(1, socket.MSG_PEEK) or b"\r\n\r\n" not in s.recv(4096):
            pass
        with egress.memfd(policy_bytes(policy())) as fd:
            egress.send(RULES, network, b"", [fd])
        assert s.recv(100) == b""
    assert host


def test_a_network_that_is_closed_serves_nobody(egress):
    network, env = egress.open(allow("good.test"))
    egress.close(network)
    port = int(env["HTTP_PROXY"].rpartition(":")[2])
    done = egress.world.run(["curl", "-s", "-m", "5", "-x", f"http://127.0.0.1:{port}", "http://good.test/"])
    assert done.returncode != 0


def test_questions_come_once_and_are_answered_by_name(egress):
    egress.answer = lambda m: ("allow", "") if m["type"] == ASK and m["host"] == "good.test" else ("deny", "no")
    ended = egress.probe([http("good.test"), http("other.test")], policy(), launch={"policyDecisionTimeoutMs": 1000})
    assert [status(result) for result in ended.results] == [200, 403]
    assert [q["request"]["host"] for q in ended.questions] == ["good.test", "other.test"]
