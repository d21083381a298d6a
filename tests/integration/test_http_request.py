"""http/request (docs/PROTOCOL.md): requests, answers, streams, redirects, limits, and the start and end of the helper.

The other end is http_origin, on loopback.
"""

import base64
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest

from farhand_client import BIN, PATIENCE, Client, Server, Stdio, pid_gone, wait_until
from http_origin import Origin, response

HELPERS = [os.path.join(os.path.dirname(BIN), place, "farhand-net") for place in ("../libexec/farhand", ".")]
HELPER = next((path for path in HELPERS if os.access(path, os.X_OK)), None)
NO_PROXY = {name: None for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
                                    "no_proxy", "NO_PROXY")}
VARIABLES = {"HTTP_TEST_FOO": "foo", "HTTP_TEST_EMPTY": "", "OPENAI_API_KEY": "secret", **NO_PROXY}

pytestmark = pytest.mark.skipif(HELPER is None, reason="farhand-net was not built: no libcurl")


@pytest.fixture(scope="module")
def server():
    with Server(env=VARIABLES) as s:
        yield s


@pytest.fixture
def origin():
    with Origin() as o:
        yield o


def params(url, method="GET", request_id="r", **more):
    return {"method": method, "url": url, "requestId": request_id, **more}


def fetch(client, url, timeout=20, **more):
    """(status, headers as pairs, body)"""
    result = client.call("http/request", params(url, **more), timeout=timeout)
    headers = [(h["name"], h["value"]) for h in result["headers"]]
    return result["status"], headers, base64.b64decode(result["bodyBase64"])


def said(client, url, **more):
    """The request as the origin received it."""
    return json.loads(fetch(client, url, **more)[2])


def error(client, url, **more):
    return client.error("http/request", params(url, **more), timeout=20)


def headers(**values):
    return [{"name": name.replace("_", "-"), "value": value} for name, value in values.items()]


def deltas(client, request_id):
    return [m["params"] for m in list(client.notifications)
            if m["method"] == "http/request/bodyDelta" and m["params"]["requestId"] == request_id]


def is_last(request_id):
    return lambda m: (m.get("method") == "http/request/bodyDelta" and m["params"]["requestId"] == request_id
                      and m["params"]["done"])


def finished(client, request_id, timeout=30):
    """All deltas of a stream, checked, as (body, error)."""
    client.wait_for(is_last(request_id), timeout=timeout)
    got = deltas(client, request_id)
    assert [d["seq"] for d in got] == list(range(1, len(got) + 1))
    assert [d["done"] for d in got] == [False] * (len(got) - 1) + [True]
    assert all(d["error"] is None for d in got[:-1]) and got[-1]["deltaBase64"] == ""
    pieces = [base64.b64decode(d["deltaBase64"]) for d in got[:-1]]
    assert all(0 < len(p) <= 1 << 20 for p in pieces)
    return b"".join(pieces), got[-1]["error"]


def helper_pids(server_pid, comm=b"farhand-net"):
    """Children of the server of that name."""
    pids = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat", "rb") as f:
                head, _, rest = f.read().rpartition(b")")
        except (OSError, NotADirectoryError):
            continue
        fields = rest.split()
        if head.partition(b"(")[2] == comm and int(fields[1]) == server_pid and fields[0] not in (b"Z", b"X"):
            pids.append(int(name))
    return pids


# What goes out


def test_a_plain_request_sends_nothing_that_was_not_asked_for(client, origin):
    heard = said(client, origin.url + "/x?y=1")
    assert (heard["method"], heard["target"], heard["body"]) == ("GET", "/x?y=1", "")
    assert sorted(heard["headers"]) == [["accept", "*/*"], ["host", f"127.0.0.1:{origin.port}"]]


@pytest.mark.parametrize("method", ["get", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PURGE", "M-SEARCH"])
def test_the_method_is_sent_as_it_is(client, origin, method):
    assert said(client, origin.url, method=method)["method"] == method


@pytest.mark.parametrize("method", ["POST", "GET", "PUT", "DELETE"])
def test_a_body_goes_along_with_any_method(client, origin, method):
    heard = said(client, origin.url, method=method, bodyBase64=base64.b64encode(b"a\0b").decode())
    assert heard["body"] == "a\0b" and ["content-length", "3"] in heard["headers"]
    assert not any(name in ("content-type", "expect") for name, _ in heard["headers"])


def test_a_large_body_arrives_whole(client, origin):
    body = os.urandom(1 << 20) * 8
    fetch(client, origin.url, method="POST", bodyBase64=base64.b64encode(body).decode(), timeout=60)
    assert origin.requests[-1].body == body


def test_headers_are_sent_as_given_and_repeats_are_kept(client, origin):
    heard = said(client, origin.url, headers=[
        {"name": "X-One", "value": "1"}, {"name": "x-one", "value": "2"}, {"name": "X-Empty", "value": ""},
        {"name": "Accept", "value": "text/plain"}, {"name": "User-Agent", "value": "me"},
        {"name": "Host", "value": "elsewhere"}])
    assert [v for n, v in heard["headers"] if n == "x-one"] == ["1", "2"]
    for pair in (["x-empty", ""], ["accept", "text/plain"], ["user-agent", "me"], ["host", "elsewhere"]):
        assert pair in heard["headers"]
    assert len(heard["headers"]) == 6


def test_the_length_of_the_body_is_not_the_clients_to_say(client, origin):
    heard = said(client, origin.url, method="POST", bodyBase64="YWI=",
                 headers=headers(content_length="99", transfer_encoding="chunked"))
    assert heard["body"] == "ab" and ["content-length", "2"] in heard["headers"]
    assert not any(name == "transfer-encoding" for name, _ in heard["headers"])


def test_the_user_of_the_url_becomes_a_header(client, origin):
    heard = said(client, f"http://us:p%40w@127.0.0.1:{origin.port}/a b#frag")
    assert heard["target"] == "/a%20b"
    assert ["authorization", "Basic " + base64.b64encode(b"us:p@w").decode()] in heard["headers"]


def test_a_variable_is_put_behind_the_value(client, origin):
    heard = said(client, origin.url, headers=[{"name": "X-E", "value": "v-", "valueEnvVar": "HTTP_TEST_FOO"}])
    assert ["x-e", "v-foo"] in heard["headers"]
    assert client.init_result["environmentInfo"]["capabilities"]["httpHeaderEnvVars"] is True


# What comes back


def test_response_headers_are_lower_case_repeated_and_ascii(client, origin):
    origin.on("/h", lambda r, s: response(201, [
        b"X-Multi: a", b"X-Multi: b", b"X-Latin: caf\xe9", b"X-Utf8: \xc3\xa9", b"X-Tab: a\tb", b"X-Empty:",
        b"X-Blanks:   padded  "], b"body"))
    assert fetch(client, origin.url + "/h") == (201, [
        ("x-multi", "a"), ("x-multi", "b"), ("x-tab", "a\tb"), ("x-empty", ""), ("x-blanks", "padded"),
        ("content-length", "4")], b"body")


@pytest.mark.parametrize("answer, status, body", [
    (b"HTTP/1.1 204 No\r\nx: y\r\n\r\n", 204, b""),
    (b"HTTP/1.1 304 No\r\nx: y\r\n\r\n", 304, b""),
    (response(404, ["x: y"], b"gone"), 404, b"gone"),
    (b"HTTP/1.1 103 Early\r\nlink: z\r\n\r\nHTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 2\r\n\r\nok", 200, b"ok"),
    (b"HTTP/1.1 200 OK\r\nx: y\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-trailer: 1\r\n\r\n", 200, b"ok"),
])
def test_answers_of_all_kinds(client, origin, answer, status, body):
    origin.on("/", lambda r, s: answer)
    got = fetch(client, origin.url)
    assert (got[0], got[2]) == (status, body)
    assert ("x", "y") in got[1] and not any(name in ("link", "x-trailer") for name, _ in got[1])


def test_a_body_up_to_the_end_of_the_connection(client, origin):
    def answer(_request, sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\n\r\nto the end")
        return False
    origin.on("/", answer)
    assert fetch(client, origin.url)[2] == b"to the end"


def test_head_has_headers_and_no_body(client, origin):
    assert fetch(client, origin.url, method="HEAD") == (200, [("content-length", "100")], b"")


def test_a_compressed_body_stays_compressed(client, origin):
    origin.on("/", lambda r, s: response(200, ["content-encoding: gzip"], b"\x1f\x8b not really"))
    got = fetch(client, origin.url, headers=headers(accept_encoding="gzip"))
    assert ("content-encoding", "gzip") in got[1] and got[2] == b"\x1f\x8b not really"


def test_a_large_body_comes_back_whole(client, origin):
    body = os.urandom(1 << 20) * 24
    origin.on("/", lambda r, s: response(body=body))
    assert fetch(client, origin.url, timeout=60)[2] == body


def test_a_body_that_no_answer_can_hold_is_an_error_that_names_the_way_out(server, origin):
    origin.on("/", lambda r, s: response(body=bytes(1 << 20)))
    with Client(server.url, init_params={"maxMessageBytes": 1 << 20}) as c:
        e = error(c, origin.url)
        assert e.code == -32603 and "streamResponse" in e.message
        assert c.call("http/request", params(origin.url, streamResponse=True, request_id="s"))["status"] == 200
        assert finished(c, "s") == (bytes(1 << 20), None)


def test_a_head_without_end_is_refused(client, origin):
    origin.on("/", lambda r, s: response(200, [b"x-%d: %s" % (i, b"v" * 1000) for i in range(280)]))
    e = error(client, origin.url)
    assert e.code == -32603 and e.message.startswith("http/request failed: ")
    origin.on("/", lambda r, s: response(200, [b"x-%d: v" % i for i in range(1100)]))
    assert error(client, origin.url).code == -32603


# Errors


@pytest.mark.parametrize("change, message", [
    ({"method": "BAD METHOD"}, "http/request method is invalid: invalid HTTP method"),
    ({"url": "nope"}, "http/request url is invalid: relative URL without a base"),
    ({"url": "http://"}, "http/request url is invalid: empty host"),
    ({"url": "http://h:99999/"}, "http/request url is invalid: invalid port number"),
    ({"url": "ftp://x/"}, "http/request only supports http and https URLs, got ftp"),
    ({"url": "file:///etc/passwd"}, "http/request only supports http and https URLs, got file"),
    ({"headers": [{"name": "bad name", "value": "x"}]},
     "http/request header name is invalid: invalid HTTP header name"),
    ({"headers": [{"name": "x", "value": "a\nb"}]},
     "http/request header value is invalid for x: failed to parse header value"),
    ({"headers": [{"name": "X-E", "value": "", "valueEnvVar": "HTTP_TEST_NOPE"}]},
     "http/request header X-E requires executor environment variable HTTP_TEST_NOPE"),
    ({"headers": [{"name": "X-E", "value": "", "valueEnvVar": "HTTP_TEST_EMPTY"}]},
     "http/request header X-E requires a non-empty executor environment variable HTTP_TEST_EMPTY"),
    ({"headers": [{"name": "X-E", "value": "", "valueEnvVar": "OPENAI_API_KEY"}]},
     "http/request header X-E cannot use executor environment variable OPENAI_API_KEY"),
    ({"bodyBase64": "YQ"}, "Invalid padding"),
    ({"redirectPolicy": "x"}, "unknown variant `x`, expected `follow` or `stop`"),
    ({"requestId": "x" * 1025}, "requestId is longer than 1024 bytes"),
])
def test_params_are_refused_in_the_words_that_clients_know(client, change, message):
    e = client.error("http/request", {**params("http://127.0.0.1:1/"), **change})
    assert (e.code, e.message) == (-32602, message)


@pytest.mark.parametrize("missing", ["method", "url", "requestId"])
def test_a_missing_member_is_named(client, missing):
    wanted = {k: v for k, v in params("http://127.0.0.1:1/").items() if k != missing}
    e = client.error("http/request", wanted)
    assert (e.code, e.message) == (-32602, f"missing field `{missing}`")


def test_before_the_handshake(server):
    with Client(server.url, init=False) as c:
        e = c.error("http/request", params("http://127.0.0.1:1/"))
        assert (e.code, e.message) == (-32600, "client must call initialize before using http methods")


@pytest.mark.parametrize("streams", [False, True])
def test_a_server_that_is_not_there(client, streams):
    e = error(client, "http://us:er@127.0.0.1:1/p", streamResponse=streams)
    assert e.code == -32603
    assert e.message.startswith("http/request failed: error sending request for url (http://127.0.0.1:1/p)")


def test_a_name_that_is_not_there(client):
    e = error(client, "http://name.invalid/")
    assert e.code == -32603 and "(http://name.invalid/)" in e.message


def test_an_answer_that_is_no_http(client, origin):
    origin.on("/", lambda r, s: b"nonsense\r\n\r\n")
    e = error(client, origin.url)
    assert e.code == -32603 and e.message.startswith("http/request failed: error sending request for url (")


def test_a_server_that_does_not_answer_in_time(client, origin):
    release = threading.Event()
    origin.on("/", lambda r, s: release.wait(30) and False)
    e = error(client, origin.url, timeoutMs=200)
    release.set()
    assert e.code == -32603 and e.message.startswith("http/request failed: error sending request for url (")
    e = error(client, origin.url, timeoutMs=0)
    assert e.code == -32603 and e.message.startswith("http/request failed: ")


def cut(_request, sock):
    sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart")
    return False


def cut_chunk(_request, sock):
    sock.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\npart\r\n")
    return False


@pytest.mark.parametrize("how", [cut, cut_chunk])
def test_a_body_that_breaks_off(client, origin, how):
    origin.on("/", how)
    e = error(client, origin.url)
    assert e.code == -32603
    assert e.message.startswith("failed to read http/request response body: error decoding response body")
    client.call("http/request", params(origin.url, request_id="cut", streamResponse=True))
    body, why = finished(client, "cut")
    assert body == b"part" and why.startswith("error decoding response body")


# Redirects


def redirect(status, location):
    return lambda r, s: response(status, [f"location: {location}"], b"moved")


@pytest.mark.parametrize("status, method, then, has_body", [
    (301, "POST", "GET", False), (302, "POST", "GET", False), (303, "PUT", "GET", False),
    (302, "PUT", "PUT", True), (307, "POST", "POST", True), (308, "POST", "POST", True),
])
def test_a_redirect_is_followed(client, origin, status, method, then, has_body):
    origin.on("/from", redirect(status, "/to"))
    heard = said(client, origin.url + "/from", method=method, bodyBase64="YWI=",
                 headers=headers(authorization="a", content_type="t"))
    assert (heard["method"], heard["target"], heard["body"]) == (then, "/to", "ab" if has_body else "")
    sent = dict(heard["headers"])
    assert sent["authorization"] == "a" and sent["referer"] == origin.url + "/from"
    assert ("content-type" in sent) == has_body


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
def test_a_redirect_is_an_answer_when_it_is_not_to_be_followed(client, origin, status):
    origin.on("/", redirect(status, "/to"))
    got = fetch(client, origin.url, redirectPolicy="stop")
    assert (got[0], got[2]) == (status, b"moved") and ("location", "/to") in got[1]
    assert len(origin.requests) == 1


def test_credentials_do_not_go_to_another_server(client, origin):
    with Origin("127.0.0.2") as other:
        origin.on("/", redirect(307, other.url + "/to"))
        heard = said(client, origin.url + "/?secret", method="POST", bodyBase64="YWI=",
                     headers=headers(authorization="a", cookie="c", proxy_authorization="p", x_keep="k", host="named"))
        sent = dict(heard["headers"])
        assert heard["body"] == "ab" and sent["x-keep"] == "k" and sent["referer"] == origin.url + "/"
        assert not {"authorization", "cookie", "proxy-authorization"} & set(sent)
        assert sent["host"] == f"127.0.0.2:{other.port}"


def test_a_chain_of_redirects_ends(client, origin):
    origin.on("/", redirect(302, "/"))
    e = error(client, origin.url)
    assert (e.code, e.message) == (-32603, "http/request failed: too many redirects")
    assert len(origin.requests) == 11


def test_a_redirect_to_another_scheme_is_refused(client, origin):
    origin.on("/", redirect(302, "file:///etc/passwd"))
    e = error(client, origin.url)
    assert (e.code, e.message) == (-32603,
                                   "http/request failed: redirect target uses unsupported URL scheme: file")


def test_the_time_limit_holds_for_the_whole_chain(client, origin):
    release = threading.Event()
    origin.on("/", redirect(302, "/slow"))
    origin.on("/slow", lambda r, s: release.wait(30) and False)
    for limit_ms in (300, 1500, 7500):
        e = error(client, origin.url, timeoutMs=limit_ms)
        if any(r.target == "/slow" for r in origin.requests):
            break  # on a busy machine the time may be over before the redirect
    release.set()
    assert e.code == -32603 and "/slow" in e.message


# Streams


def test_a_stream_comes_after_its_answer_and_as_it_happens(client, origin):
    go_on = threading.Event()

    def answer(_request, sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for piece in (b"one", b"two"):
            assert go_on.wait(30)
            go_on.clear()
            sock.sendall(b"3\r\n" + piece + b"\r\n")
        assert go_on.wait(30)
        return b"0\r\n\r\n"
    origin.on("/", answer)

    result = client.call("http/request", params(origin.url, request_id="s", streamResponse=True))
    assert (result["status"], result["bodyBase64"]) == (200, "") and not deltas(client, "s")
    for seq, piece in enumerate((b"one", b"two"), 1):
        go_on.set()
        client.wait_for(lambda m, seq=seq: m.get("method") == "http/request/bodyDelta" and m["params"]["seq"] == seq)
        assert deltas(client, "s")[-1] == {"requestId": "s", "seq": seq, "deltaBase64": base64.b64encode(piece).decode(),
                                           "done": False, "error": None}
    assert client.call("environment/status") == {"status": "ready"}
    go_on.set()
    assert finished(client, "s") == (b"onetwo", None)


def test_a_request_id_is_taken_while_its_stream_runs(client, origin):
    release = threading.Event()

    def answer(_request, sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\na")
        assert release.wait(30)
        return b"b"
    origin.on("/", answer)
    client.call("http/request", params(origin.url, request_id="dup", streamResponse=True))
    e = error(client, origin.url + "/x", request_id="dup", streamResponse=True)
    assert (e.code, e.message) == (-32602, "http/request streamResponse requestId `dup` is already active")
    assert fetch(client, origin.url + "/x", request_id="dup")[0] == 200  # a request without a stream needs no id of its own
    release.set()
    assert finished(client, "dup") == (b"ab", None)
    origin.on("/", Origin.echo)
    client.notifications.clear()
    client.messages.clear()
    assert client.call("http/request", params(origin.url, request_id="dup", streamResponse=True))["status"] == 200
    assert finished(client, "dup")[1] is None


@pytest.mark.parametrize("answer", [b"HTTP/1.1 204 No\r\n\r\n", response()])
def test_a_stream_without_a_body_is_its_end(client, origin, answer):
    origin.on("/", lambda r, s: answer)
    client.call("http/request", params(origin.url, request_id="none", streamResponse=True))
    assert finished(client, "none") == (b"", None)
    assert len(deltas(client, "none")) == 1


def test_a_long_stream_comes_whole(client, origin):
    body = os.urandom(1 << 20) * 48
    origin.on("/", lambda r, s: response(body=body))
    client.call("http/request", params(origin.url, request_id="long", streamResponse=True))
    assert finished(client, "long", timeout=60) == (body, None)


def test_a_client_that_does_not_read_stops_its_own_stream_and_nothing_else(server, origin):
    sent = {"n": 0}
    size = 256 << 20

    def endless(_request, sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        piece = bytes(1 << 16)
        while sent["n"] < size:
            sent["n"] += sock.send(piece)
        return None
    origin.on("/endless", endless)
    with Client(server.url) as slow, Client(server.url) as other:
        slow.call("http/request", params(origin.url + "/endless", request_id="slow", streamResponse=True))
        slow.pause_reading()
        last = -1

        def stands():  # nothing was taken between two looks, with others served meanwhile
            nonlocal last
            now, before = sent["n"], last
            last = now
            assert all(fetch(other, origin.url + "/x")[0] == 200 for _ in range(20))
            return now == before
        wait_until(stands, timeout=60, what="back pressure")
        assert sent["n"] < size // 2
        with open(f"/proc/{helper_pids(server.proc.pid)[0]}/status", encoding="latin-1") as f:
            rss_kib = int(next(line for line in f if line.startswith("VmRSS")).split()[1])
        assert rss_kib < 128 << 10 or "asan" in BIN
        slow.resume_reading()
        wait_until(lambda: sent["n"] > last + (8 << 20), timeout=60, what="the stream to go on")
        slow.abort()
        assert fetch(other, origin.url + "/x")[0] == 200


def test_a_slow_request_holds_back_nothing(client, origin):
    release = threading.Event()
    origin.on("/slow", lambda r, s: (release.wait(30), response(body=b"late"))[1])
    waiting = client.request("http/request", params(origin.url + "/slow", request_id="w"))
    origin.arrived.get(timeout=20 * PATIENCE)
    assert fetch(client, origin.url + "/x")[0] == 200
    assert client.call("environment/status") == {"status": "ready"}
    release.set()
    assert base64.b64decode(client.result(waiting, timeout=20)["bodyBase64"]) == b"late"


@pytest.mark.parametrize("streams", [False, True])
def test_a_connection_that_goes_away_takes_its_requests_along(server, origin, streams):
    gone = threading.Event()

    def answer(_request, sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart")
        try:
            if not sock.recv(1):
                gone.set()
        except ConnectionResetError:
            gone.set()
        return False
    origin.on("/", answer)
    with Client(server.url) as c:
        c.request("http/request", params(origin.url, request_id="g", streamResponse=streams))
        origin.arrived.get(timeout=20 * PATIENCE)
        if streams:
            c.wait_for(lambda m: m.get("method") == "http/request/bodyDelta")
        c.abort()
    assert gone.wait(20 * PATIENCE)


def test_requests_of_one_connection_are_counted(server, origin):
    release = threading.Event()
    origin.on("/slow", lambda r, s: (release.wait(60), response())[1])
    with Client(server.url) as c, Client(server.url) as other:
        ids = [c.request("http/request", params(origin.url + "/slow", request_id=f"n{i}")) for i in range(65)]
        e = c.response(ids[-1], timeout=30)["error"]
        assert e["code"] == -32021
        assert fetch(other, origin.url + "/x")[0] == 200
        release.set()
        assert all(c.result(i, timeout=60)["status"] == 200 for i in ids[:-1])
        assert fetch(c, origin.url + "/x")[0] == 200


# The helper


def test_the_helper_is_started_by_the_first_request_only(origin):
    with Server(env=VARIABLES) as s, s.connect() as c:
        assert helper_pids(s.proc.pid) == []
        fetch(c, origin.url)
        first = helper_pids(s.proc.pid)
        fetch(c, origin.url)
        assert len(first) == 1 and helper_pids(s.proc.pid) == first


def test_a_killed_helper_fails_its_requests_and_is_started_again(origin):
    release = threading.Event()

    def half(_request, sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf")
        release.wait(60)
        return False
    origin.on("/slow", lambda r, s: release.wait(60) and False)
    origin.on("/half", half)
    with Server(env=VARIABLES) as s, s.connect() as c:
        c.call("http/request", params(origin.url + "/half", request_id="s", streamResponse=True))
        c.wait_for(lambda m: m.get("method") == "http/request/bodyDelta")
        slow = c.request("http/request", params(origin.url + "/slow", request_id="w"))
        whole = c.request("http/request", params(origin.url + "/half", request_id="h"))
        for _ in range(3):
            origin.arrived.get(timeout=20 * PATIENCE)
        pid = helper_pids(s.proc.pid)[0]
        os.kill(pid, signal.SIGKILL)
        assert c.response(slow, timeout=20)["error"]["code"] == -32603
        assert c.response(whole, timeout=20)["error"]["code"] == -32603
        assert finished(c, "s") == (b"half", "http helper ended")
        assert fetch(c, origin.url + "/x")[0] == 200
        assert pid not in helper_pids(s.proc.pid)
        pid_gone(pid)
        release.set()
        s.stop()
        assert not s.stdout_rest()


def test_a_lost_spawner_takes_no_request_along(origin):
    release = threading.Event()
    origin.on("/slow", lambda r, s: (release.wait(60), response(body=b"late"))[1])
    with Server(env=VARIABLES) as s, s.connect() as c:
        slow = c.request("http/request", params(origin.url + "/slow", request_id="w"))
        origin.arrived.get(timeout=20 * PATIENCE)
        spawner = helper_pids(s.proc.pid, b"fh-spawner")[0]
        os.kill(spawner, signal.SIGKILL)
        wait_until(lambda: helper_pids(s.proc.pid, b"fh-spawner") not in ([], [spawner]), what="another spawner")
        assert c.run(["/bin/true"]) is not None
        release.set()
        assert c.result(slow, timeout=20)["status"] == 200


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL])
def test_the_helper_ends_with_the_server(origin, sig):
    release = threading.Event()
    origin.on("/slow", lambda r, s: release.wait(60) and False)
    with Server(env=VARIABLES) as s, s.connect() as c:
        c.request("http/request", params(origin.url + "/slow", request_id="w"))
        origin.arrived.get(timeout=20 * PATIENCE)
        pid = helper_pids(s.proc.pid)[0]
        s.proc.send_signal(sig)
        s.proc.wait(timeout=20 * PATIENCE)
        pid_gone(pid)
        release.set()


def test_the_helper_holds_no_descriptor_and_no_secret_of_the_server(origin):
    with Server(env={**VARIABLES, "FARHAND_SOMETHING": "secret"}) as s, s.connect() as c:
        fetch(c, origin.url)
        pid = helper_pids(s.proc.pid)[0]
        with open(f"/proc/{pid}/status", encoding="latin-1") as f:
            assert "NoNewPrivs:\t1" in f.read()
        if os.geteuid() != 0 and "asan" not in BIN:
            return  # not dumpable: only root may look further
        with open(f"/proc/{pid}/environ", "rb") as f:
            environment = f.read()
        assert b"secret" not in environment and b"OPENAI_API_KEY" not in environment
        links = {int(n): os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")}
        assert links[0] == links[1] == "/dev/null" and links[3].startswith("socket:")
        assert not any(link.startswith(("/", "pipe:")) for n, link in links.items() if n > 3 and "/etc" not in link)


def installed(tmp, with_helper):
    """A copy of the program under a prefix of its own."""
    os.makedirs(f"{tmp}/bin")
    shutil.copy(BIN, f"{tmp}/bin/farhand")
    if with_helper:
        os.makedirs(f"{tmp}/libexec/farhand")
        shutil.copy(HELPER, f"{tmp}/libexec/farhand/farhand-net")
    return f"{tmp}/bin/farhand"


@pytest.mark.parametrize("with_helper", [True, False])
def test_the_helper_is_found_in_libexec_or_missed_in_words(tmp, monkeypatch, origin, with_helper):
    monkeypatch.setattr("farhand_client.BIN", installed(tmp, with_helper))
    with Server(env=VARIABLES) as s, s.connect() as c:
        if with_helper:
            assert fetch(c, origin.url)[0] == 200
            return
        for streams in (False, True):
            e = error(c, origin.url, streamResponse=streams)
            assert (e.code, e.message) == (-32603, "http helper not installed")
        assert error(c, "nope").code == -32602
        assert c.call("environment/status") == {"status": "ready"}


def test_the_helper_is_not_a_command():
    done = subprocess.run([HELPER], capture_output=True, stdin=subprocess.DEVNULL, timeout=20 * PATIENCE, check=False)
    assert done.returncode == 2 and done.stdout == b""


def test_a_program_that_is_no_helper_is_survived(tmp, monkeypatch, origin):
    """A wrong program in the place of farhand-net; it is there before the server starts, because the server opens its helper
    then."""
    monkeypatch.setattr("farhand_client.BIN", installed(tmp, False))
    path = f"{tmp}/bin/farhand-net"
    for script in ("exit 0", "printf nonsense-nonsense-nonsense >&3; exec sleep 1000", "exec cat <&3 >&3"):
        with open(path, "w", encoding="ascii") as f:
            f.write(f"#!/bin/sh\n{script}\n")
        os.chmod(path, 0o755)
        with Server(env=VARIABLES) as s, s.connect() as c:
            for _ in range(2):
                e = error(c, origin.url)
                assert e.code == -32603 and e.message == "http/request failed: http helper ended"
            assert c.call("environment/status") == {"status": "ready"}
    shutil.copy(HELPER, path)
    with Server(env=VARIABLES) as s, s.connect() as c:
        assert fetch(c, origin.url)[0] == 200


def test_over_stdio(origin):
    with Stdio(env=VARIABLES) as c:
        c.initialize()
        answer = c.call(1, "http/request", params(origin.url, request_id="s", streamResponse=True), timeout=20)
        assert answer["result"]["status"] == 200
        body = b""
        while True:
            message = c.next(timeout=20)
            if message.get("method") == "http/request/bodyDelta":
                body += base64.b64decode(message["params"]["deltaBase64"])
                if message["params"]["done"]:
                    break
        assert json.loads(body)["method"] == "GET"
        c.close_stdin()
        assert c.wait() == 0


# The network around it


def test_a_proxy_of_the_environment_is_used(origin):
    for name in ("http_proxy", "HTTP_PROXY"):
        with Server(env={**VARIABLES, name: origin.url}) as s, s.connect() as c:
            assert said(c, "http://name.invalid/x")["target"] == "http://name.invalid/x"


def test_a_name_server_that_is_silent_delays_only_who_asked(tmp, monkeypatch, origin):
    """The server runs in a mount namespace whose resolv.conf names a socket that never answers."""
    with open(f"{tmp}/resolv.conf", "w", encoding="ascii") as f:
        f.write("nameserver 127.0.0.3\noptions timeout:30 attempts:2\n")
    wrapper = f"{tmp}/farhand"
    with open(wrapper, "w", encoding="ascii") as f:
        f.write("#!/bin/sh\nexec unshare -m sh -c 'mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"' "
                f"{tmp}/resolv.conf {BIN} \"$@\"\n")
    os.chmod(wrapper, 0o755)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        try:
            silent.bind(("127.0.0.3", 53))
        except OSError as e:
            pytest.skip(f"cannot be a name server: {e}")
        if subprocess.run(["unshare", "-m", "mount", "--bind", f"{tmp}/resolv.conf", "/etc/resolv.conf"],
                          capture_output=True, check=False).returncode:
            pytest.skip("no mount namespace of our own")
        monkeypatch.setattr("farhand_client.BIN", wrapper)
        with Server(env=VARIABLES) as s, s.connect() as c:
            fetch(c, origin.url)
            started = time.monotonic()
            waiting = c.request("http/request", params("http://name.example/", request_id="w"))
            silent.settimeout(20 * PATIENCE)
            silent.recv(512)
            assert fetch(c, origin.url)[0] == 200
            e = error(c, "http://other.example/", request_id="t", timeoutMs=100)
            assert e.code == -32603
            assert fetch(c, origin.url)[0] == 200
            assert time.monotonic() - started < 28
            with pytest.raises(TimeoutError):
                c.response(waiting, timeout=0.01)
            c.abort()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    key, cert = str(folder / "key.pem"), str(folder / "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return cert, context


def test_https_checks_the_certificate(client, certificate):
    cert, context = certificate
    with Origin(tls=context) as secure:
        e = error(client, secure.url)
        assert e.code == -32603 and e.message.startswith("http/request failed: ") and not secure.requests
        with Server(env={**VARIABLES, "SSL_CERT_FILE": cert}) as s, s.connect() as c:
            assert said(c, secure.url + "/x")["target"] == "/x"


def test_a_redirect_from_https_takes_no_referer_and_no_credentials_to_http(certificate, origin):
    cert, context = certificate
    with Origin(tls=context) as secure, Server(env={**VARIABLES, "SSL_CERT_FILE": cert}) as s, s.connect() as c:
        secure.on("/", redirect(302, origin.url + "/to"))
        sent = dict(said(c, secure.url, headers=headers(authorization="a"))["headers"])
        assert "referer" not in sent and "authorization" not in sent


H2_SERVER = """
const [cert, key] = process.argv.slice(1).map((name) => require('fs').readFileSync(name));
const server = require('http2').createSecureServer({ cert, key, allowHTTP1: false }, (request, answer) => {
  answer.writeHead(200, { 'x-version': request.httpVersion, 'x-method': request.method });
  request.pipe(answer);
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
"""


@pytest.mark.skipif(not shutil.which("node"), reason="no node to be an HTTP/2 server")
def test_http_2_where_the_server_speaks_it(certificate):
    cert, _ = certificate
    key = os.path.join(os.path.dirname(cert), "key.pem")
    body = os.urandom(1 << 20) * 2
    with subprocess.Popen(["node", "-e", H2_SERVER, cert, key], stdout=subprocess.PIPE, text=True) as node:
        try:
            url = f"https://127.0.0.1:{int(node.stdout.readline())}/"
            with Server(env={**VARIABLES, "SSL_CERT_FILE": cert}) as s, s.connect() as c:
                got = fetch(c, url, method="POST", bodyBase64=base64.b64encode(body).decode())
                assert got[0] == 200 and got[2] == body
                assert ("x-version", "2.0") in got[1] and ("x-method", "POST") in got[1]
                c.call("http/request", params(url, "PUT", "s", streamResponse=True,
                                              bodyBase64=base64.b64encode(body).decode()))
                assert finished(c, "s") == (body, None)
        finally:
            node.kill()
