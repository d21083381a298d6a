"""The HTTP side of the listener: health endpoints, what upgrades and what does not, limits of the request head."""

import time

import pytest

from farhand_client import Client, HttpRefused, RawSocket, Server

UP = RawSocket.upgrade_request


def ask(server, request):
    with server.raw() as raw:
        return raw.http(request)


def simple(method, path, *headers):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]).encode()


@pytest.mark.parametrize("path", ["/readyz", "/livez", "/healthz"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_health_endpoints(server, path, method):
    status, headers, body = ask(server, simple(method, path))
    assert (status, body) == (200, b"")
    assert headers["content-length"] == "0"


@pytest.mark.parametrize("path", ["/readyz", "/livez", "/healthz"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods_on_health_endpoints(server, path, method):
    status, headers, _ = ask(server, simple(method, path, "Content-Length: 0"))
    assert status == 405
    assert headers["allow"] == "GET,HEAD"


def test_a_query_does_not_change_the_endpoint(server):
    assert ask(server, simple("GET", "/readyz?verbose=1"))[0] == 200


@pytest.mark.parametrize("path", ["/nope", "/readyz/", "/readyzz", "//", "/index.html", "/../", "/%2f"])
def test_other_paths_are_not_found(server, path):
    status, _, body = ask(server, simple("GET", path))
    assert (status, body) == (404, b"")


def test_other_paths_do_not_upgrade(server):
    status, _, body = ask(server, UP("/nope"))
    assert (status, body) == (404, b"")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1", ""])
@pytest.mark.parametrize("path", ["/", "/readyz", "/livez", "/nope"])
def test_any_origin_is_forbidden_everywhere(server, path, origin):
    status, _, body = ask(server, simple("GET", path, f"Origin: {origin}"))
    assert (status, body) == (403, b"")


@pytest.mark.parametrize("header", ["Origin: http://evil.example", "origin: null", "ORIGIN:x"])
def test_an_upgrade_with_an_origin_is_forbidden(server, header):
    status, _, body = ask(server, UP("/", [header]))
    assert (status, body) == (403, b"")


def test_a_page_that_rebinds_its_name_to_loopback_is_forbidden(server):
    # What a browser sends after DNS rebinding: its own name as Host, and always an Origin.
    request = UP("/", ["Host: evil.example:80", "Origin: http://evil.example"], without=["Host"])
    assert ask(server, request)[0] == 403


def test_origin_comes_before_the_method_check(server):
    assert ask(server, simple("POST", "/", "Origin: x", "Content-Length: 0"))[0] == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "HEAD", "OPTIONS"])
def test_upgrade_must_be_a_get(server, method):
    status, headers, body = ask(server, UP("/", method=method))
    assert status == 405
    if method != "HEAD":
        assert headers["content-type"].startswith("text/plain")
        assert body == b"Request method must be `GET`"


@pytest.mark.parametrize("without,extra,text", [
    (["Connection"], [], b"Connection header did not include 'upgrade'"),
    (["Connection"], ["Connection: keep-alive"], b"Connection header did not include 'upgrade'"),
    (["Sec-WebSocket-Version"], [], b"`Sec-WebSocket-Version` header did not include '13'"),
    (["Sec-WebSocket-Version"], ["Sec-WebSocket-Version: 12"], b"`Sec-WebSocket-Version` header did not include '13'"),
    (["Sec-WebSocket-Key"], [], b"`Sec-WebSocket-Key` header missing"),
])
def test_incomplete_upgrades(server, without, extra, text):
    status, headers, body = ask(server, UP("/", extra, without))
    assert (status, body) == (400, text)
    assert headers["content-type"].startswith("text/plain")


def test_a_plain_get_is_told_to_upgrade(server):
    status, headers, body = ask(server, simple("GET", "/"))
    assert (status, body) == (400, b"Connection header did not include 'upgrade'")
    assert headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("without,extra", [(["Upgrade"], []), (["Upgrade"], ["Upgrade: h2c"])])
def test_an_upgrade_to_something_else(server, without, extra):
    assert ask(server, UP("/", extra, without))[0] == 400


def test_the_answer_to_a_good_upgrade(server):
    with server.raw() as raw:
        headers = raw.upgrade()
    assert headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert headers["connection"].lower() == "upgrade"
    assert headers["upgrade"].lower() == "websocket"


def test_a_query_string_is_ignored(server):
    with server.raw() as raw:
        raw.upgrade("/?token=x&y")
        assert raw.rpc(1, "initialize", {"clientName": "q"})["id"] == 1


def test_header_names_and_tokens_are_case_insensitive(server):
    with server.raw() as raw:
        raw.upgrade("/", ["CONNECTION: keep-alive, UPGRADE", "upgrade: WebSocket"], without=["Connection", "Upgrade"])
        assert "result" in raw.rpc(1, "initialize", {"clientName": "q"})


def test_offered_subprotocols_and_extensions_are_ignored(server):
    with server.raw() as raw:
        headers = raw.upgrade("/", ["Sec-WebSocket-Protocol: codex, foo",
                                    "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"])
        assert "sec-websocket-protocol" not in headers
        assert "sec-websocket-extensions" not in headers
        # read_message() refuses reserved bits, so a compressed answer would fail here.
        assert "result" in raw.rpc(1, "initialize", {"clientName": "q"})


def test_a_head_in_single_bytes_is_understood(server):
    with server.raw() as raw:
        for byte in UP("/"):
            raw.send(bytes([byte]))
        assert raw.http_response()[0] == 101


def test_frames_behind_the_upgrade_in_one_segment(server):
    with server.raw() as raw:
        message = b'{"id":7,"method":"initialize","params":{"clientName":"early"}}'
        raw.send(UP("/") + raw.make_frame(1, message))
        assert raw.http_response()[0] == 101
        assert raw.read_message()["id"] == 7


def test_a_second_request_on_one_connection(server):
    with server.raw() as raw:
        status, headers, _ = raw.http(simple("GET", "/readyz"))
        assert status == 200
        if headers.get("connection", "").lower() == "close":
            raw.eof()
        else:
            assert raw.http(simple("GET", "/nope"))[0] == 404
            raw.upgrade()


@pytest.mark.parametrize("junk", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64, b"GARBAGE\r\n\r\n",
                                  b"GET /\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"SSH-2.0-x\r\n\r\n", b"\r\n" * 1000,
                                  b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"GET / HTTP/1.1\r\n: x\r\n\r\n",
                                  b"GET / HTTP/1.1\r\na\x00b: x\r\n\r\n", b"G\x00T / HTTP/1.1\r\n\r\n"],
                         ids=["tls", "word", "http-0.9", "future-version", "ssh", "blank-lines", "no-colon",
                              "no-name", "nul-in-name", "nul-in-method"])
def test_what_is_not_http_is_refused_and_hurts_nobody(server, junk):
    with server.raw() as raw:
        raw.send(junk)
        try:
            raw.sock.shutdown(1)
        except OSError:
            pass
        answer = raw.eof()
        assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")), answer
    assert ask(server, simple("GET", "/livez"))[0] == 200


@pytest.mark.parametrize("filler", [b"X-Pad: " + b"a" * 20000, b"\r\n".join(b"X-%d: y" % i for i in range(3000))],
                         ids=["one-long-field", "many-fields"])
def test_a_head_over_16_kib_is_refused(server, filler):
    with server.raw() as raw:
        raw.send(b"GET / HTTP/1.1\r\nHost: x\r\n" + filler)
        status, _, _ = raw.http_response()
        assert status == 431
        raw.eof()


def test_a_long_request_line_is_refused(server):
    with server.raw() as raw:
        raw.send(b"GET /" + b"a" * 20000)
        assert raw.http_response()[0] in (414, 431)
        raw.eof()


def test_a_head_just_below_16_kib_is_fine(server):
    with server.raw() as raw:
        base = len(UP("/", ["X-Pad: "]))
        raw.upgrade("/", ["X-Pad: " + "a" * (16000 - base)])


def test_the_client_hears_of_a_refused_upgrade(server):
    with pytest.raises(HttpRefused) as caught:
        Client(server.url, headers={"Origin": "http://evil.example"})
    assert caught.value.status == 403


def test_half_open_heads_do_not_disturb_others(server):
    idle = [server.raw() for _ in range(50)]
    try:
        for raw in idle:
            raw.send(b"GET / HTTP/1.1\r\nHost: ")
        with Client(server.url) as c:
            assert c.call("environment/status") == {"status": "ready"}
    finally:
        for raw in idle:
            raw.close()


@pytest.mark.slow
@pytest.mark.parametrize("start", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_an_incomplete_head_is_closed_after_its_deadline(start):
    with Server() as s, s.raw() as raw:
        began = time.monotonic()
        raw.send(start)
        raw.eof(timeout=20)
        assert 5 < time.monotonic() - began < 15


@pytest.mark.slow
def test_a_trickled_head_meets_the_same_deadline():
    with Server() as s, s.raw() as raw:
        began = time.monotonic()
        raw.send(b"GET / HTTP/1.1\r\nX: ")
        while time.monotonic() - began < 20:
            try:
                raw.send(b"y")
                raw.eof(timeout=0.5)
                break
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() - began < 15
