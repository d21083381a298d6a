"""http/request at its edges: redirects that would carry secrets away, a helper that hangs, the ceilings of the server.

The other end is http_origin, on loopback. Requests that succeed are in test_http_request.
"""

import base64
import contextlib
import os
import signal
import socket
import threading

import pytest

from farhand_client import PATIENCE, RpcError, Server, pid_gone, wait_until
from http_origin import Origin, response
from test_http_request import (HELPER, VARIABLES, error, fetch, finished, headers, helper_pids, params, redirect,
                               said)

pytestmark = pytest.mark.skipif(HELPER is None, reason="farhand-net was not built: no libcurl")


@pytest.fixture(scope="module")
def server():
    with Server(env=VARIABLES) as s:
        yield s


@pytest.fixture
def origin():
    with Origin() as o:
        yield o


# Secrets of the server's environment

SECRET = [{"name": "X-Api-Key", "value": "", "valueEnvVar": "HTTP_TEST_FOO"},
          {"name": "X-Other-Key", "value": "v-", "valueEnvVar": "HTTP_TEST_FOO"}]


@pytest.mark.parametrize("streams", [False, True])
def test_a_header_from_a_variable_does_not_go_to_another_server(client, origin, streams):
    with Origin("127.0.0.2") as other:
        origin.on("/", redirect(307, other.url + "/to"))
        client.call("http/request", {"method": "GET", "url": origin.url, "requestId": "r", "streamResponse": streams,
                                     "headers": SECRET + headers(x_api="mine")}, timeout=20)
        first, then = dict(origin.requests[0].headers), dict(other.requests[0].headers)
        assert (first["x-api-key"], first["x-other-key"], first["x-api"]) == ("foo", "v-foo", "mine")
        assert not {"x-api-key", "x-other-key"} & set(then) and then["x-api"] == "mine"
        assert "foo" not in str(other.requests)


def test_a_header_from_a_variable_does_not_go_to_another_port_and_does_not_come_back(client, origin):
    with Origin() as other:
        origin.on("/", redirect(302, other.url + "/via"))
        other.on("/via", redirect(302, origin.url + "/back"))
        heard = said(client, origin.url, headers=SECRET)
        assert heard["target"] == "/back" and "foo" not in str(heard["headers"])
        assert "foo" not in str(other.requests) and "foo" in str(origin.requests[0])


def test_a_header_from_a_variable_stays_with_its_server(client, origin):
    origin.on("/", redirect(302, "/to"))
    sent = dict(said(client, origin.url, headers=SECRET)["headers"])
    assert (sent["x-api-key"], sent["x-other-key"]) == ("foo", "v-foo")


def test_as_many_headers_from_variables_as_a_request_may_have(client, origin):
    names = [f"x-{i:04}-{'n' * 240}" for i in range(1020)]
    many = [{"name": name, "value": "", "valueEnvVar": "HTTP_TEST_FOO"} for name in names]
    with Origin("127.0.0.2") as other:
        origin.on("/", redirect(302, other.url + "/to"))
        said(client, origin.url, headers=many)
        assert [value for name, value in origin.requests[0].headers if name in set(names)] == ["foo"] * 1020
        assert "foo" not in str(other.requests)


# A helper that hangs


@contextlib.contextmanager
def stopped(pid):
    """Stops the process with SIGSTOP until the end of the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: is_stopped(pid), what=f"pid {pid} to stop")
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def is_stopped(pid):
    with open(f"/proc/{pid}/stat", "rb") as f:
        return f.read().rpartition(b")")[2].split()[0] == b"T"


def half(release):
    """A handler that sends half an answer, and the rest after `release`."""
    def answer(_request, sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf")
        return b"half" if release.wait(60 * PATIENCE) else False
    return answer


def is_delta(message):
    return message.get("method") == "http/request/bodyDelta"


def test_the_time_limit_holds_when_the_helper_hangs_and_another_is_started(origin):
    with Server(env=VARIABLES) as s, s.connect() as c:
        fetch(c, origin.url)
        pid = helper_pids(s.proc.pid)[0]
        with stopped(pid):
            # The body is larger than what the socket to the helper takes while it is not read.
            body = base64.b64encode(bytes(2 << 20)).decode()
            for streams in (False, True):
                e = error(c, origin.url + "/lost", timeoutMs=200, streamResponse=streams, bodyBase64=body)
                assert (e.code, e.message) == (-32603, "http/request failed: request timed out")
            assert c.call("environment/status") == {"status": "ready"}
            pid_gone(pid, timeout=30)
        assert fetch(c, origin.url + "/x")[0] == 200
        assert not [r for r in origin.requests if r.target == "/lost"]
        assert len(helper_pids(s.proc.pid)) == 1 and pid not in helper_pids(s.proc.pid)


def test_the_time_limit_holds_when_the_helper_hangs_in_the_middle_of_a_body(origin):
    release = threading.Event()
    origin.on("/half", half(release))
    with Server(env=VARIABLES) as s, s.connect() as c:
        limit_ms = 5000  # enough to send the request on a busy machine, and less than the time after which the helper is given up
        whole = c.request("http/request", params(origin.url + "/half", request_id="w", timeoutMs=limit_ms))
        c.call("http/request", params(origin.url + "/half", request_id="s", streamResponse=True, timeoutMs=limit_ms))
        c.wait_for(is_delta)
        with stopped(helper_pids(s.proc.pid)[0]):
            e = c.response(whole, timeout=20)["error"]
            assert e["code"] == -32603 and e["message"].endswith(": request timed out")
            assert finished(c, "s") == (b"half", "request timed out")
        release.set()


def test_a_hung_helper_fails_its_requests_without_a_time_limit_and_a_quiet_one_is_left_alone(origin):
    release = threading.Event()
    origin.on("/slow", lambda r, s: (release.wait(60 * PATIENCE), response(body=b"late"))[1])
    origin.on("/half", half(release))
    with Server(env=VARIABLES) as quiet, quiet.connect() as q, Server(env=VARIABLES) as s, s.connect() as c:
        waiting = q.request("http/request", params(origin.url + "/slow", request_id="w"))
        q.call("http/request", params(origin.url + "/half", request_id="s", streamResponse=True))
        quiet_pids = helper_pids(quiet.proc.pid)
        lost = c.request("http/request", params(origin.url + "/slow", request_id="w"))
        c.call("http/request", params(origin.url + "/half", request_id="s", streamResponse=True))
        c.wait_for(is_delta)
        pid = helper_pids(s.proc.pid)[0]
        with stopped(pid):
            e = c.response(lost, timeout=30)["error"]
            assert (e["code"], e["message"]) == (-32603, "http/request failed: http helper ended")
            assert finished(c, "s") == (b"half", "http helper ended")
            pid_gone(pid)
        assert fetch(c, origin.url + "/x")[0] == 200
        # The helper of the other server was silent as well, because it waited for the origin: it was not killed.
        release.set()
        assert q.result(waiting, timeout=20)["status"] == 200
        assert finished(q, "s") == (b"halfhalf", None)
        assert helper_pids(quiet.proc.pid) == quiet_pids


def test_a_helper_that_comes_round_keeps_its_requests(origin):
    release = threading.Event()
    origin.on("/half", half(release))
    with Server(env=VARIABLES) as s, s.connect() as c:
        c.call("http/request", params(origin.url + "/half", request_id="s", streamResponse=True))
        c.wait_for(is_delta)
        pids = helper_pids(s.proc.pid)
        with stopped(pids[0]):
            assert error(c, origin.url + "/lost", timeoutMs=100).message == "http/request failed: request timed out"
        release.set()
        assert finished(c, "s") == (b"halfhalf", None)
        assert fetch(c, origin.url + "/x")[0] == 200
        assert helper_pids(s.proc.pid) == pids


# The ceilings of all connections together

CONN_REQUESTS = 64
REQUESTS = 512
BODIES_MIB = 512
IN_THE_WAY = (-32021, "limit of the server reached: bytes of http bodies (536870912)")


def refusal(client, url, **more):
    e = error(client, url, **more)
    return e.code, e.message


def succeeds(client, url, **more):
    """Whether a request succeeds; False while the server is still at its ceiling."""
    try:
        return fetch(client, url, timeout=60, **more)[0] == 200
    except RpcError as e:
        if e.code != -32021:
            raise
        return False


def test_requests_of_all_connections_are_counted(origin):
    """The listener accepts no connection, so that the test needs neither a thread nor a descriptor for each request."""
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=REQUESTS))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        s = stack.enter_context(Server(env=VARIABLES))
        clients = [stack.enter_context(s.connect()) for _ in range(REQUESTS // CONN_REQUESTS)]
        other = stack.enter_context(s.connect())
        running = [[c.request("http/request", params(url, request_id=f"n{i}")) for i in range(CONN_REQUESTS)]
                   for c in clients]
        for c in clients:  # this answer shows that the server has handled the requests before it
            assert c.call("environment/status") == {"status": "ready"}

        message = "limit of the server reached: http requests of all connections (512)"
        for streams in (False, True):
            assert refusal(other, origin.url, streamResponse=streams) == (-32021, message)
        assert not origin.requests

        clients[0].abort()
        wait_until(lambda: succeeds(other, origin.url), timeout=30, what="room after a connection that is gone")
        silent.close()
        for c, ids in zip(clients[1:], running[1:]):
            assert {c.response(i, timeout=60)["error"]["code"] for i in ids} == {-32603}
        assert fetch(other, origin.url)[0] == 200


def memory_mib():
    with open("/proc/meminfo", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("MemAvailable")) >> 10


def is_under_way(port):
    """Whether bytes of a connection to that port wait in the kernel, at either end."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        rows = [line.split() for line in f][1:]
    mine = [row for row in rows if f":{port:04X}" in (row[1][-5:], row[2][-5:])]
    return any(row[4] != "00000000:00000000" for row in mine if row[3] == "01")


def test_bodies_of_all_requests_are_counted(origin):
    """Answers that are collected up to their last byte use all of the room for bodies but 4 MiB."""
    if memory_mib() < 4 * BODIES_MIB:
        pytest.skip("too little memory")
    release, sent = threading.Event(), threading.Semaphore(0)
    sizes = [47] * 10 + [38]
    assert sum(sizes) == BODIES_MIB - 4

    def hold(request, sock):
        size = int(request.target.partition("?")[2]) << 20
        sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        for at in range(0, size - 1, 1 << 20):
            sock.sendall(bytes(min(1 << 20, size - 1 - at)))
        sent.release()
        return b"\0" if release.wait(300 * PATIENCE) else False
    origin.on("/hold", hold)
    body = base64.b64encode(bytes(8 << 20)).decode()
    with Server(env=VARIABLES) as s, s.connect() as c, s.connect() as other:
        for i, size in enumerate(sizes[:-1]):
            c.request("http/request", params(f"{origin.url}/hold?{size}", request_id=f"n{i}"))
        last = other.request("http/request", params(f"{origin.url}/hold?{sizes[-1]}", request_id="last"))
        for _ in sizes:
            assert sent.acquire(timeout=60 * PATIENCE)
        # Then only the window of each request, 256 KiB, is still between the helper and the server.
        wait_until(lambda: not is_under_way(origin.port), timeout=60, what="the helper to read")

        origin.on("/taken", lambda r, s: response(body=b"%d" % len(r.body)))
        assert refusal(other, origin.url + "/taken", method="POST", bodyBase64=body) == IN_THE_WAY
        assert not [r for r in origin.requests if r.target == "/taken"]
        origin.on("/large", lambda r, s: response(body=bytes(8 << 20)))
        assert refusal(other, origin.url + "/large") == IN_THE_WAY
        assert fetch(other, origin.url + "/taken", method="POST", bodyBase64="YWI=")[2] == b"2"
        other.call("http/request", params(origin.url + "/large", request_id="s", streamResponse=True))
        assert finished(other, "s") == (bytes(8 << 20), None)  # a stream is not collected

        c.abort()
        wait_until(lambda: succeeds(other, origin.url + "/taken", method="POST", bodyBase64=body), timeout=60,
                   what="room after a connection that is gone")
        assert fetch(other, origin.url + "/large")[2] == bytes(8 << 20)
        release.set()
        assert base64.b64decode(other.result(last, timeout=60)["bodyBase64"]) == bytes(sizes[-1] << 20)
