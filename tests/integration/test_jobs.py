"""Requests that wait: what they hold in memory, what they hold back, and what becomes of them when something ends."""

import base64
import json
import os
import signal
import time

import pytest

from farhand_client import RpcError, Server, Stdio
from fs_helpers import IS_SANITIZED, MIB, b64, make, noise, outcome, send, status_kib, uri
from http_origin import Origin
from test_fs_order import start, stuck_fixture  # pylint: disable=unused-import
from test_http_request import HELPER, NO_PROXY, error, fetch, helper_pids, params

# Memory beyond what is counted


@pytest.mark.skipif(IS_SANITIZED, reason="the sanitizer keeps freed memory")
def test_small_answers_that_nobody_reads_hold_no_large_buffers(tmp):
    """The buffer of a large answer is used again for the next answer; an answer of a few bytes must not keep it."""
    make(f"{tmp}/large", noise(MIB))
    make(f"{tmp}/larger", noise(16 * MIB))
    with Server() as server, server.connect() as reader, server.connect() as idler:
        for client in reader, idler:
            client.result(send(client, "open", handleId="h", path=f"{tmp}/large"))
        idler.pause_reading()
        send(idler, "readFile", path=f"{tmp}/larger")  # more than the kernel's buffers take: the others are behind it
        before = None
        for n in range(150):
            reader.result(send(reader, "readBlock", handleId="h", offset=0, len=MIB))
            send(idler, "readBlock", handleId="h", offset=0, len=1)
            before = before or (n == 10 and status_kib(server.proc.pid, "VmRSS"))
        assert status_kib(server.proc.pid, "VmRSS") - before < 32 * 1024
        idler.abort()


# Work of the loop that grows with what waits


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_many_requests_on_handles_cost_no_more_than_others(tmp):
    """Once, each finished request made the server compare every waiting request with all requests before it."""
    make(f"{tmp}/f", b"x")
    handles = [f"{n:032}" for n in range(100)]
    with Server() as server, server.connect() as client:
        for handle in handles:
            client.result(send(client, "open", handleId=handle, path=f"{tmp}/f"))

        def cost_of(method, params):
            before = cpu_ticks(server.proc.pid)
            sent = [send(client, method, **params(n)) for n in range(6000)]
            for ident in sent:
                client.result(ident, 60)
            return cpu_ticks(server.proc.pid) - before

        plain = cost_of("getMetadata", lambda n: {"path": f"{tmp}/f"})
        keyed = cost_of("readBlock", lambda n: {"handleId": handles[n % 100], "offset": 0, "len": 1})
        assert keyed < 2 * plain + 30


# Order


def test_terminate_cancels_every_start_that_is_held_back(stuck, tmp):
    """A second start with the same id is refused while the first runs; it must not run because the first was cancelled."""
    server, mount, let_go, is_held = stuck
    with server.connect() as client:
        change = send(client, "remove", path=f"{mount}/stuck", recursive=False)
        is_held("stuck")
        sent = [start(client, "p", ["/bin/sh", "-c", f": > {tmp}/{n}"]) for n in range(2)]
        assert client.call("process/terminate", {"processId": "p"}) == {"running": True}
        let_go()
        outcome(client, change)
        assert [outcome(client, i) for i in sent] == [(-32600, "process p start was cancelled")] * 2
        assert client.run(["/bin/echo", "next"], process_id="p")[0] == b"next\n"
    assert not os.path.exists(f"{tmp}/0") and not os.path.exists(f"{tmp}/1")


def test_what_a_waiting_request_takes_up_counts_and_not_only_its_text(stuck):
    """Numbers of one digit take eight times their text once they are parsed."""
    server, mount, let_go, is_held = stuck
    with server.connect() as client:
        change = send(client, "remove", path=f"{mount}/stuck", recursive=False)
        is_held("stuck")
        before = status_kib(server.proc.pid, "VmRSS")
        sent = [send(client, "getMetadata", path="/", unknown=[0] * 250000) for _ in range(60)]
        assert client.error("fs/getMetadata", {"path": "file:///", "unknown": [0] * 250000}).code == -32021
        assert IS_SANITIZED or status_kib(server.proc.pid, "VmRSS") - before < 220 * 1024
        let_go()
        outcome(client, change)
        assert {type(outcome(client, i)) for i in sent} == {dict, tuple}


# Servers on the network that do not stop


FOLDED = (b"HTTP/1.1 %d OK\r\nlocation: /%d\r\nx:" + b"a" * 90000 + b"\r\n" + b" \tb\r\n" * 1000 +
          b"content-length: 0\r\n\r\n")


@pytest.fixture(name="net")
def net_server():
    """(client, origin, the most memory that the helper has had); client.server is the server"""
    if HELPER is None:
        pytest.skip("farhand-net was not built: no libcurl")
    with Server(env=NO_PROXY) as server, Origin() as origin, server.connect() as client:
        client.server = server
        fetch(client, origin.url)
        pid = helper_pids(server.proc.pid)[0]
        yield client, origin, lambda: status_kib(pid, "VmHWM") // 1024


def test_folded_headers_cost_no_more_than_their_text(net):
    client, origin, helper_mib = net
    before = helper_mib()
    for n in range(5):
        origin.on(f"/{n}", lambda r, s, n=n: FOLDED % (302, n + 1))
    origin.on("/5", lambda r, s: FOLDED % (200, 6))
    headers = dict(fetch(client, origin.url + "/0")[1])
    assert headers["x"] == "a" * 90000 + " b" * 1000 and headers["location"] == "/6"
    assert IS_SANITIZED or helper_mib() - before < 32


@pytest.mark.parametrize("begin, line", [
    (b"HTTP/1.1 200 OK\r\n", b"x-%d: value\r\n"),
    (b"", b"HTTP/1.1 103 Early Hints\r\nx-%d: value\r\n\r\n"),
    (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", b"x-%d: value\r\n"),
])
def test_headers_without_end_are_refused(net, begin, line):
    client, origin, helper_mib = net
    before = helper_mib()

    def answer(_request, sock):
        sock.sendall(begin)
        for n in range(1 << 30):
            sock.sendall(line % n * 1000)
    origin.on("/", answer)
    assert error(client, origin.url, timeoutMs=20000).message.endswith(": the headers of the response are too long")
    assert IS_SANITIZED or helper_mib() - before < 32


@pytest.mark.slow
def test_bodies_for_a_helper_that_does_not_read_count_until_it_has_them(net):
    """The bodies of closed connections count, too: their requests are cancelled, but bytes that are queued for the helper stay queued."""
    client, origin, _ = net
    server_pid = client.server.proc.pid
    helper = helper_pids(server_pid)[0]
    os.kill(helper, signal.SIGSTOP)
    try:
        for _ in range(14):
            with client.server.connect() as other:
                other.request("http/request", params(origin.url, method="POST", bodyBase64=b64(bytes(40 * MIB))))
                other.call("environment/status", timeout=30)
                other.abort()
        refused = client.error("http/request", params(origin.url, method="POST", bodyBase64=b64(bytes(40 * MIB))), 30)
        assert refused.code == -32021 and refused.data["limit"] == "bytes of http bodies"
    finally:
        os.kill(helper, signal.SIGCONT)
    assert fetch(client, origin.url)[0] == 200


# Half-closed


CLOSE_SECONDS = 5  # that a peer has to answer a close frame


def test_answers_on_stdio_wait_for_a_slow_reader(tmp):
    data = noise(4 * MIB)
    make(f"{tmp}/f", data)
    with Stdio() as stdio:
        stdio.initialize()
        stdio.send({"id": 1, "method": "fs/readFile", "params": {"path": uri(f"{tmp}/f")}})
        stdio.send({"id": 2, "method": "fs/getMetadata", "params": {"path": uri(tmp)}})
        stdio.close_stdin()
        wanted, taken = len(b64(data)), b""
        while len(taken) < wanted - 200000:  # all has been made, and less than the low mark waits
            taken += os.read(stdio.proc.stdout.fileno(), 65536)
        time.sleep(CLOSE_SECONDS + 1)  # nothing happens: that is the point
        while more := os.read(stdio.proc.stdout.fileno(), 65536):
            taken += more
        answers = [json.loads(line) for line in taken.splitlines()]
        assert {a["id"] for a in answers} == {1, 2}
        assert next(a for a in answers if a["id"] == 1)["result"]["dataBase64"] == b64(data)
        assert stdio.wait() == 0


# Connections that are not read


HALF_DEAD_SECONDS = 2  # that a connection has to answer when somebody else wants its session


def test_a_connection_that_is_not_read_is_not_taken_for_dead(stuck):
    """With many waiting requests the server stops reading from the connection, and cannot get the pong."""
    server, mount, let_go, is_held = stuck
    with server.connect() as client:
        change = send(client, "remove", path=f"{mount}/stuck", recursive=False)
        is_held("stuck")
        sent = [send(client, "getMetadata", path="/") for _ in range(300)]
        client.flush()
        with pytest.raises(RpcError) as caught:
            server.connect(resume=client.session_id)
        assert caught.value.code == -32010
        client.wait_ping()
        time.sleep(HALF_DEAD_SECONDS + 0.5)  # nothing happens: that is the point
        let_go()
        outcome(client, change)
        assert all(client.result(i)["isDirectory"] for i in sent)


# Clients that read little


LITTLE = 100 * 1000


def test_a_small_file_of_unknown_size_fits_into_a_small_answer(server, tmp):
    """A file of /proc says that it is empty, and a block may be asked for that is longer than the file."""
    make(f"{tmp}/f", b"few")
    with server.connect(init_params={"maxMessageBytes": LITTLE}) as client:
        status = base64.b64decode(client.result(send(client, "readFile", path="/proc/self/limits"))["dataBase64"])
        assert status.startswith(b"Limit")
        client.result(send(client, "open", handleId="h", path=f"{tmp}/f"))
        for _ in range(2):
            assert client.result(send(client, "readBlock", handleId="h", offset=0, len=MIB)) == {
                "chunk": b64(b"few"), "eof": True}


def test_a_long_id_counts_when_a_file_comes_in_pieces(server, tmp):
    size = 3 * MIB
    make(f"{tmp}/f", bytes(size))
    with server.connect(init_params={"maxMessageBytes": size // 3 * 4 + 1900}) as client:
        assert len(client.result(send(client, "readFile", path=f"{tmp}/f"))["dataBase64"]) > size
        client.send_json({"id": "x" * 1000, "method": "fs/readFile", "params": {"path": uri(f"{tmp}/f")}})
        with pytest.raises(RpcError) as caught:
            client.result("x" * 1000)
        assert caught.value.code == -32603 and "bytes that this client reads" in caught.value.message
