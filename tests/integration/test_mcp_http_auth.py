"""`farhand mcp --listen` with tokens: who may ask for what, before anything of a request is done."""

import hashlib

import pytest

from mcp_http_rig import BOTH, Front, head_of
from test_auth import SECRET, claims, jwt, secret_file

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
              "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}}


def bearer(token):
    return {"Authorization": "Bearer " + token}


@pytest.fixture(scope="module")
def two():
    with secret_file(b"first-token\nsecond-token\n") as f, Front("--ws-auth", "capability-token", "--ws-token-file", f.name) as front:
        yield front


@pytest.mark.parametrize("headers", [{}, bearer("wrong"), bearer(""), {"Authorization": "Basic Zmlyc3Q="}, bearer("first-token second-token")])
def test_no_request_without_a_good_token(two, headers):
    before = len(two.processes())
    for method, body in (("POST", INITIALIZE), ("GET", None), ("DELETE", None), ("PUT", None)):
        answer = two.ask(method, body, **headers)
        assert answer.status == 401 and answer.headers["www-authenticate"] == "Bearer" and answer.headers["connection"] == "close"
    assert len(two.processes()) == before


def test_a_body_without_a_token_is_not_read(two):
    with two.wire() as wire:
        wire.send(head_of("POST", "/mcp", BOTH, two.port, 10_000_000))
        assert wire.read_answer().status == 401  # no byte of the body was sent


def test_the_host_and_the_path_come_before_the_token(two):
    assert two.ask(body=INITIALIZE, Host="evil.example.com", **bearer("first-token")).status == 403
    assert two.ask(body=INITIALIZE, Origin="http://evil.example.com").status == 403
    assert two.ask(body=INITIALIZE, path="/other").status == 404


def test_a_session_belongs_to_its_token(two):
    session = two.session(**bearer("first-token"))
    assert session.call(session.message("ping"))["result"] == {}
    for method, body in (("POST", session.message("ping")), ("GET", None), ("DELETE", None)):
        assert session.ask(method, body, **bearer("second-token")).status == 404
        assert session.ask(method, body, Authorization=None).status == 401
    assert session.ask("DELETE").status == 204


def test_ids_of_sessions_are_not_alike(two):
    ids = [two.session(**bearer("first-token")) for _ in range(3)]
    assert len({one.id for one in ids}) == 3 and all(len(one.id) == 36 for one in ids)
    for one in ids:
        assert one.ask(body=one.message("ping"), Mcp_Session_Id=one.id[:-1]).status == 404
        assert one.ask(body=one.message("ping"), Mcp_Session_Id=one.id.upper()).status == 404
        one.ask("DELETE")


def test_a_token_by_its_digest():
    with Front("--ws-auth", "capability-token", "--ws-token-sha256", hashlib.sha256(b"known").hexdigest()) as front:
        assert front.ask(body=INITIALIZE).status == 401
        assert front.session(**bearer("known")).exec("echo x")["output"] == "x\n"


def test_signed_tokens_and_their_subjects():
    with secret_file(SECRET) as f, Front("--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", f.name, "--ws-issuer", "the-issuer",
                                         "--ws-audience", "the-audience") as front:
        ann, bob = (bearer(jwt(claims(sub=name))) for name in ("ann", "bob"))
        session = front.session(**ann)
        assert session.ask(body=session.message("ping"), **bearer(jwt(claims(sub="ann", jti="again")))).status == 200
        assert session.ask(body=session.message("ping"), **bob).status == 404
        assert session.ask(body=session.message("ping"), **bearer(jwt(claims(sub="ann", exp=1)))).status == 401
        assert session.ask(body=session.message("ping"), **bearer(jwt(claims(sub="ann"), key=b"x" * 32))).status == 401


def test_an_address_beyond_loopback_needs_a_token_and_a_name_must_be_allowed():
    with secret_file(b"t\n") as f, Front("--ws-auth", "capability-token", "--ws-token-file", f.name, "--allow-host", "mcp.example.com",
                                         address="0.0.0.0:0") as front:
        assert front.ask(body=INITIALIZE).status == 401
        for host in ("mcp.example.com", "MCP.example.com:443", "192.0.2.7:80", "[2001:db8::1]:80", "localhost"):
            assert front.ask(body=INITIALIZE, Host=host, **bearer("t")).status == 200
        assert front.ask(body=INITIALIZE, Host="mcp.example.com", Origin="https://mcp.example.com", **bearer("t")).status == 200
        for host in ("example.com", "xmcp.example.com", "mcp.example.com.", "mcp.example.com@localhost", "localhost:x", ""):
            assert front.ask(body=INITIALIZE, Host=host, **bearer("t")).status == 403
    with Front("--insecure-no-auth", address="0.0.0.0:0") as front:
        assert front.ask(body=INITIALIZE).status == 200


def test_tokens_are_not_logged(two):
    said = two.said()
    assert "first-token" not in said and "second-token" not in said and "wrong" not in said.replace("why=wrong", "")


def test_the_token_for_far_servers_reaches_the_sessions_and_no_command():
    with Front(env={"FARHAND_TOKEN": "far-token"}) as front:
        session = front.session()
        assert session.exec("echo ${FARHAND_TOKEN-none} ${FARHAND_MCP_RELAY-none}")["output"] == "none none\n"
