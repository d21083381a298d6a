"""`farhand mcp --listen` by raw sockets: sessions, statuses, bytes in every split, what comes as JSON and what as a stream of events."""

import json
import subprocess

import pytest

from farhand_client import BIN
from mcp_http_rig import BOTH, LATEST, Front, head_of

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
              "params": {"protocolVersion": LATEST, "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}}


@pytest.fixture(scope="module")
def front():
    with Front("--max-sessions", "40") as one:
        yield one


@pytest.fixture(scope="module")
def session(front):
    return front.session()


def test_a_session_begins_is_used_and_ends(front):
    one = front.session()
    assert one.server["protocolVersion"] == LATEST and one.server["serverInfo"]["name"] == "farhand"
    assert one.call(one.message("ping"))["result"] == {}
    assert one.exec("echo hello")["output"] == "hello\n"
    assert one.ask("DELETE").status == 204
    for method, body in (("POST", one.message("ping")), ("GET", None), ("DELETE", None)):
        assert one.ask(method, body).status == 404


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", LATEST])
def test_versions(front, version):
    one = front.session(version)
    assert one.server["protocolVersion"] == version
    with one.begin(one.exec_message("sleep 0.6; echo x")) as wire:
        assert wire.read_answer().headers["content-type"] == "text/event-stream"
        first = wire.event()
        assert (first[1] is None) == (version == LATEST)  # the newest version begins with an id to come back with
    assert one.ask("DELETE").status == 204


def test_batches_where_the_version_has_them(front):
    one = front.session("2025-03-26")
    batch = [one.message("ping"), one.message("nope"), {"jsonrpc": "2.0", "method": "notifications/x"}, one.exec_message("echo in a batch")]
    with one.begin(batch) as wire:
        answers = wire.read_answer()
        answers = answers.json if answers.body else [m for _, m in wire.events()][-1]
    assert [("result" in a, a["id"]) for a in answers] == [(True, batch[0]["id"]), (False, batch[1]["id"]), (True, batch[3]["id"])]
    assert one.ask(body=[{"jsonrpc": "2.0", "method": "notifications/x"}]).status == 202
    assert one.ask(body=[]).status == 400
    new = front.session(LATEST)
    answer = new.ask(body=[new.message("ping")])
    assert answer.status == 400 and "batch" in answer.json["error"]["message"]
    for each in (one, new):
        each.ask("DELETE")


def test_an_answer_that_is_there_soon_is_json(session):
    with session.begin(session.message("ping")) as wire:
        answer = wire.read_answer()
        assert answer.headers["content-type"] == "application/json" and answer.json == {"jsonrpc": "2.0", "id": session.count, "result": {}}


def test_progress_comes_on_the_stream_of_its_call(session):
    with session.get() as general, session.begin(session.exec_message("echo working; sleep 2.4", token="t")) as wire:
        assert wire.read_answer().headers["content-type"] == "text/event-stream"
        events = wire.events()
        assert [m.get("method") for _, m in events[:-1]] == ["notifications/progress"] * 2 and events[-1][1]["result"]
        stream = events[0][0].split("-")[0]
        assert [ident for ident, _ in events] == [f"{stream}-{n}" for n in (1, 2, 3)]
        while general.left or not general.is_quiet(0.1):
            assert general.event()[1] is None


@pytest.mark.parametrize("body, code", [(b"", -32700), (b"{", -32700), (b'{"a":"\n"}', -32700), (b"nonsense", -32700), (b"17", -32600),
                                        (b'{"jsonrpc":"2.0"}', -32600), (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600), (b"\xff\xfe", -32700)])
def test_what_is_no_message_is_refused(front, session, body, code):
    for answer in (session.ask(body=body), front.ask(body=body)):
        assert answer.status == 400 and answer.json["id"] is None and answer.json["error"]["code"] == code


def test_a_message_may_have_line_ends(session):
    text = json.dumps(session.message("ping"), indent=4).replace("\n", "\r\n").encode()
    assert session.ask(body=b"\n\n" + text + b"\n").json["result"] == {}


def test_notifications_and_answers_are_accepted(session):
    assert session.note("notifications/cancelled", requestId=77).status == 202
    assert session.ask(body={"jsonrpc": "2.0", "id": 99, "result": {}}).status == 202
    answer = session.ask(body={"jsonrpc": "2.0", "id": 99, "error": {"code": 1, "message": "x"}})
    assert answer.status == 202 and answer.body == b""


def test_the_first_message_must_be_initialize(front):
    before = len(front.processes())
    for body in ({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, {"jsonrpc": "2.0", "method": "notifications/initialized"}, [INITIALIZE]):
        assert front.ask(body=body).status == 400
    assert len(front.processes()) == before  # no process was made for them
    answer = front.ask(body={**INITIALIZE, "params": {}})
    assert answer.status == 200 and "error" in answer.json and "mcp-session-id" not in answer.headers


@pytest.mark.parametrize("headers, status", [
    ({"Accept": "application/json"}, 406), ({"Accept": "text/event-stream"}, 406), ({"Accept": None}, 406), ({"Accept": "*/*"}, 200),
    ({"Content_Type": "text/plain"}, 415), ({"Content_Type": None}, 415), ({"Content_Type": "application/json; charset=utf-8"}, 200),
    ({"MCP_Protocol_Version": "1999-01-01"}, 400), ({"MCP_Protocol_Version": "2025-06-18"}, 200), ({"MCP_Protocol_Version": None}, 200),
    ({"Mcp_Session_Id": "nonsense"}, 404), ({"Mcp_Session_Id": None}, 400), ({"Mcp_Session_Id": "x" * 200}, 400),
    ({"Host": "evil.example.com"}, 403), ({"Host": "localhost:1"}, 200), ({"Origin": "http://evil.example.com"}, 403), ({"Origin": "null"}, 403),
    ({"Host": "localhost:5", "Origin": "http://localhost:5"}, 200), ({"Host": "localhost:5", "Origin": "http://localhost:6"}, 403),
    ({"Transfer_Encoding": "gzip"}, 501), ({"Content_Length": "-1"}, 400), ({"Content_Length": "99999999999"}, 413)])
def test_statuses_of_headers(session, headers, status):
    assert session.ask(body=session.message("ping"), **headers).status == status


def test_statuses_of_methods_and_paths(front, session):
    for method in ("PUT", "PATCH", "OPTIONS", "TRACE"):
        answer = session.ask(method)
        assert answer.status == 405 and answer.headers["allow"] == "GET, POST, DELETE"
    with front.wire() as wire:
        wire.send(head_of("HEAD", "/mcp", {}, front.port))
        assert wire.read_head().status == 405
        assert wire.ask("GET", path="/other").status == 404  # the answer to HEAD had no body
    assert session.ask("GET", Accept="application/json").status == 406
    assert front.ask("GET").status == 400 and front.ask("DELETE").status == 400
    assert session.ask("DELETE", body=b"x").status == 400
    assert front.ask("POST", path="/mcp/", body=INITIALIZE).status == 404


def test_a_request_may_come_in_any_pieces(front, session):
    body = json.dumps(session.message("ping", ident="pieces")).encode()
    head = head_of("POST", "/mcp", {**BOTH, "Mcp-Session-Id": session.id}, front.port, len(body))
    whole = head + body
    with front.wire() as wire:
        for at in list(range(1, len(whole), 7)) + [len(head) - 1, len(head), len(head) + 1]:
            wire.send(whole[:at])
            wire.send(whole[at:])
            assert wire.read_answer().json["id"] == "pieces"
        for byte in whole:
            wire.send(bytes([byte]))
        assert wire.read_answer().json["id"] == "pieces"


def test_requests_may_be_pipelined(front, session):
    one = b"".join(head_of("POST", "/mcp", {**BOTH, "Mcp-Session-Id": session.id}, front.port, len(body)) + body for body in
                   (json.dumps(session.message("ping", ident=n)).encode() for n in range(40)))
    with front.wire() as wire:
        wire.send(one + head_of("GET", "/nothing", {}, front.port))
        assert [wire.read_answer().json["id"] for _ in range(40)] == list(range(40))
        assert wire.read_answer().status == 404


def test_a_stream_ends_and_the_connection_goes_on(front, session):
    with front.wire() as wire:
        for n in range(2):
            session.write(wire, body=session.exec_message(f"sleep 0.5; echo {n}"))
            assert wire.read_answer().headers["content-type"] == "text/event-stream"
            assert wire.events()[-1][1]["result"]["structuredContent"]["output"] == f"{n}\n"
        session.write(wire, body=session.message("ping"))
        assert wire.read_answer().json["result"] == {}


def test_a_body_may_come_in_chunks(front, session):
    body = json.dumps(session.message("ping")).encode()
    chunks = b"".join(b"%x;e=1\r\n%s\r\n" % (len(body[i:i + 9]), body[i:i + 9]) for i in range(0, len(body), 9)) + b"0\r\nT: x\r\n\r\n"
    head = head_of("POST", "/mcp", {**BOTH, "Mcp-Session-Id": session.id, "Transfer-Encoding": "chunked"}, front.port)
    with front.wire() as wire:
        wire.send(head + chunks + head + chunks)
        assert wire.read_answer().json["result"] == {} and wire.read_answer().json["result"] == {}
        wire.send(head + b"zz\r\n")
        assert wire.read_answer().status == 400 and wire.is_closed()


def test_a_client_may_ask_before_it_sends_a_body(front, session):
    body = json.dumps(session.message("ping")).encode()
    with front.wire() as wire:
        wire.send(head_of("POST", "/mcp", {**BOTH, "Mcp-Session-Id": session.id, "Expect": "100-continue"}, front.port, len(body)))
        assert wire.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
        wire.send(body)
        assert wire.read_answer().json["result"] == {}


def test_http_1_0(front, session):
    body = json.dumps(session.exec_message("sleep 0.5; echo old")).encode()
    with front.wire() as wire:
        wire.send(head_of("POST", "/mcp", {**BOTH, "Mcp-Session-Id": session.id}, front.port, len(body)).replace(b"HTTP/1.1", b"HTTP/1.0", 1) + body)
        head = wire.read_head()
        assert "transfer-encoding" not in head.headers and head.headers["connection"] == "close"
        assert wire.event()[1] is None and wire.event()[1]["result"]["structuredContent"]["output"] == "old\n"
        assert wire.is_closed() and not wire.left


def test_large_messages_go_both_ways(session):
    text = "x" * 3_000_000
    answer = session.exec("wc -c <<'EOF'\n" + "y" * 100_000 + "\nEOF\nyes | head -c 900000", max_output_tokens=1_000_000)
    assert answer["output"].startswith("100001\n") and len(answer["output"]) > 800_000
    patch = f"*** Begin Patch\n*** Add File: large\n+{text}\n*** End Patch\n"
    done = session.call(session.message("tools/call", {"name": "apply_patch", "arguments": {"input": patch}}))
    assert not done["result"]["isError"], done
    assert session.exec("wc -c <large")["output"].strip() == str(len(text) + 1)


def test_a_body_that_is_too_long(front, session):
    answer = session.ask(body=b" " * (15 * 1024 * 1024) + b"{}")
    assert answer.status == 413
    assert front.ask(body=b" " * 70_000).status == 413  # the first message is short
    with front.wire() as wire:
        wire.send(head_of("POST", "/mcp", {**BOTH, "Transfer-Encoding": "chunked"}, front.port) + b"11000\r\n" + b" " * 0x11000)
        assert wire.read_answer().status == 413


def test_what_the_command_line_refuses(tmp_path):
    def run(*args):
        done = subprocess.run([BIN, "mcp", "--env", "local", *args], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
        return done.returncode, done.stderr

    for url in ("https://127.0.0.1:0/mcp", "http://localhost:0/mcp", "http://127.0.0.1/mcp", "127.0.0.1:80", "http://127.0.0.1:0/a?b", "unix:/x"):
        code, said = run("--listen", url)
        assert code == 255 and url in said
    code, said = run("--listen", "http://0.0.0.0:0/mcp")
    assert code == 255 and "refusing to listen" in said
    for args in (("--ws-auth", "capability-token"), ("--max-sessions", "2"), ("--allow-host", "x"), ("--session-idle", "5"), ("--insecure-no-auth",)):
        code, said = run(*args)
        assert code == 2 and "--listen" in said
    code, said = run("--listen", "http://127.0.0.1:0/mcp", "--ws-auth", "capability-token")
    assert code == 255 and "--ws-token-file" in said
