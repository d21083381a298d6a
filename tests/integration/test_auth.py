"""Authentication of the upgrade: capability tokens and signed bearer tokens (HS256), each refusal in its words."""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import resource
import select
import socket
import tempfile
import time

import pytest

from farhand_client import Client, HttpRefused, RawSocket, Server

TOKEN = "correct-horse"
SECRET = b"0123456789abcdef0123456789abcdef"


def secret_file(content):
    f = tempfile.NamedTemporaryFile(prefix="farhand-secret-")
    f.write(content)
    f.flush()
    return f


@pytest.fixture(scope="module", params=["file", "digest"])
def capability(request):
    if request.param == "file":
        with secret_file(f" {TOKEN}\n".encode()) as f, \
             Server(["--ws-auth", "capability-token", "--ws-token-file", f.name]) as s:
            yield s
    else:
        digest = hashlib.sha256(TOKEN.encode()).hexdigest().upper()
        with Server(["--ws-auth", "capability-token", "--ws-token-sha256", digest]) as s:
            yield s


@pytest.fixture(scope="module")
def signed():
    """A server with signed tokens that requires an issuer and an audience; 30 s of clock skew are allowed."""
    with secret_file(SECRET + b"\n") as f, \
         Server(["--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", f.name,
                 "--ws-issuer", "the-issuer", "--ws-audience", "the-audience"]) as s:
        yield s


@pytest.fixture(scope="module")
def signed_plain():
    """A server with signed tokens that requires neither issuer nor audience, and allows no clock skew."""
    with secret_file(SECRET) as f, \
         Server(["--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", f.name,
                 "--ws-max-clock-skew-seconds", "0"]) as s:
        yield s


def b64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def jwt(claims, alg="HS256", key=SECRET, digest=None, head=None):
    digest = digest or {"HS512": hashlib.sha512, "HS384": hashlib.sha384}.get(alg, hashlib.sha256)
    head = b64url(json.dumps(head or {"alg": alg, "typ": "JWT"}).encode())
    body = claims if isinstance(claims, str) else json.dumps(claims)
    signed_part = f"{head}.{b64url(body.encode())}"
    sign = b"" if alg == "none" else hmac.new(key, signed_part.encode(), digest).digest()
    return f"{signed_part}.{b64url(sign)}"


def claims(**kw):
    good = {"exp": int(time.time()) + 60, "iss": "the-issuer", "aud": "the-audience"}
    good.update(kw)
    return {k: v for k, v in good.items() if v is not None}


def refusal(server, *headers):
    """The body of the answer 401 to an upgrade with these headers."""
    with server.raw() as raw:
        status, fields, body = raw.http(RawSocket.upgrade_request("/", headers))
        assert status == 401, (status, body)
        assert fields["content-type"] == "text/plain; charset=utf-8"
        return body.decode()


def bearer_refusal(server, token):
    return refusal(server, f"Authorization: Bearer {token}")


def accepted(server, token):
    with Client(server.url, headers={"Authorization": f"Bearer {token}"}) as c:
        assert c.call("environment/status") == {"status": "ready"}


# Capability tokens


@pytest.mark.parametrize("value", ["Bearer correct-horse", "bearer correct-horse", "BEARER correct-horse",
                                   "Bearer   correct-horse  "])
def test_the_token_opens(capability, value):
    with capability.raw() as raw:
        raw.upgrade("/", [f"Authorization: {value}"])
        assert "result" in raw.rpc(1, "initialize", {"clientName": "auth"})


def test_no_token(capability):
    assert refusal(capability) == "missing websocket bearer token"
    with pytest.raises(HttpRefused) as caught:
        Client(capability.url)
    assert caught.value.status == 401


@pytest.mark.parametrize("value", ["Bearer wrong", "Bearer correct-hors", "Bearer correct-horse2",
                                   "Bearer CORRECT-HORSE", "Bearer correct horse"])
def test_a_wrong_token(capability, value):
    assert refusal(capability, f"Authorization: {value}") == "invalid websocket bearer token"


@pytest.mark.parametrize("value", [b"Basic x", b"Bearer", b"Bearer ", b"", b"Bearer\xff\xfe x", b"correct-horse"])
def test_an_unusable_authorization_header(capability, value):
    assert refusal(capability, b"Authorization: " + value) == "invalid authorization header"


def test_health_needs_no_token(capability):
    with capability.raw() as raw:
        assert raw.get("/readyz")[0] == 200
    with capability.raw() as raw:
        assert raw.get("/nope")[0] == 404


def test_upgrade_headers_are_checked_before_the_token(capability):
    with capability.raw() as raw:
        status, _, body = raw.get("/")
        assert (status, body) == (400, b"Connection header did not include 'upgrade'")


def test_origin_is_checked_before_the_token(capability):
    with capability.raw() as raw:
        request = RawSocket.upgrade_request("/", [f"Authorization: Bearer {TOKEN}", "Origin: http://evil.example"])
        assert raw.http(request)[0] == 403


def test_the_token_in_the_query_is_not_enough(capability):
    with capability.raw() as raw:
        assert raw.http(RawSocket.upgrade_request(f"/?token={TOKEN}"))[0] == 401


def test_the_secret_is_read_once_at_start():
    with secret_file(TOKEN.encode()) as f, \
         Server(["--ws-auth", "capability-token", "--ws-token-file", f.name]) as s:
        os.truncate(f.name, 0)
        accepted(s, TOKEN)


def test_authentication_holds_for_a_resume_too(capability):
    with Client(capability.url, headers={"Authorization": f"Bearer {TOKEN}"}) as c:
        session = c.session_id
    with pytest.raises(HttpRefused):
        Client(capability.url, resume=session)
    Client(capability.url, headers={"Authorization": f"Bearer {TOKEN}"}, resume=session).abort()


# Signed bearer tokens


def test_a_good_signed_token(signed):
    accepted(signed, jwt(claims()))


def test_issuer_and_audience_are_not_asked_for_unless_configured(signed_plain):
    accepted(signed_plain, jwt({"exp": int(time.time()) + 60}))
    accepted(signed_plain, jwt(claims(iss="anyone", aud=["x", "y"])))


def test_an_audience_may_be_one_of_several(signed):
    accepted(signed, jwt(claims(aud=["other", "the-audience"])))


def test_skew_is_allowed_on_both_sides(signed):
    accepted(signed, jwt(claims(exp=int(time.time()) - 10)))
    accepted(signed, jwt(claims(nbf=int(time.time()) + 10)))


@pytest.mark.parametrize("change,text", [
    ({"exp": -3600}, "expired websocket jwt"),
    ({"exp": -40}, "expired websocket jwt"),
    ({"nbf": 3600}, "websocket jwt is not valid yet"),
    ({"nbf": 45}, "websocket jwt is not valid yet"),
])
def test_a_token_out_of_its_time(signed, change, text):
    moved = {name: int(time.time()) + seconds for name, seconds in change.items()}
    assert bearer_refusal(signed, jwt(claims(**moved))) == text


def test_no_skew(signed_plain):
    assert bearer_refusal(signed_plain, jwt({"exp": int(time.time()) - 5})) == "expired websocket jwt"
    late = {"exp": int(time.time()) + 60, "nbf": int(time.time()) + 20}
    assert bearer_refusal(signed_plain, jwt(late)) == "websocket jwt is not valid yet"


@pytest.mark.parametrize("change", [{"iss": "other"}, {"iss": None}])
def test_issuer_mismatch(signed, change):
    assert bearer_refusal(signed, jwt(claims(**change))) == "websocket jwt issuer mismatch"


@pytest.mark.parametrize("change", [{"aud": "other"}, {"aud": None}, {"aud": ["a", "b"]}, {"aud": []}])
def test_audience_mismatch(signed, change):
    assert bearer_refusal(signed, jwt(claims(**change))) == "websocket jwt audience mismatch"


@pytest.mark.parametrize("make", [
    lambda: jwt(claims(), key=b"x" * 32),
    lambda: jwt(claims(), alg="HS512"),
    lambda: jwt(claims(), alg="HS384"),
    lambda: jwt(claims(), alg="none"),
    lambda: jwt(claims(), alg="None"),
    lambda: jwt(claims(), alg="HS512", digest=hashlib.sha256),
    lambda: jwt(claims(), head={"typ": "JWT"}),
    lambda: jwt(claims(), head={"alg": 5}),
    lambda: jwt(claims()).rsplit(".", 1)[0] + ".",
    lambda: jwt(claims()).rsplit(".", 1)[0],
    lambda: jwt(claims()) + ".x",
    lambda: jwt(claims())[:-2],
    lambda: jwt(claims(exp=None)),
    lambda: jwt(claims(exp="tomorrow")),
    lambda: jwt("[]"),
    lambda: jwt("not json"),
    lambda: jwt("{\"exp\":"),
    lambda: "garbage",
    lambda: "..",
    lambda: "a.b.c",
    lambda: "!.!.!",
], ids=range(21))
def test_invalid_tokens(signed, make):
    assert bearer_refusal(signed, make()) == "invalid websocket jwt"


def test_a_changed_claim_breaks_the_signature(signed):
    head, _, sign = jwt(claims()).split(".")
    body = b64url(json.dumps(claims(exp=int(time.time()) + 10**6)).encode())
    assert bearer_refusal(signed, f"{head}.{body}.{sign}") == "invalid websocket jwt"


def test_the_signature_is_checked_before_the_claims(signed):
    assert bearer_refusal(signed, jwt(claims(exp=1), key=b"x" * 32)) == "invalid websocket jwt"


def test_no_and_unusable_header_with_signed_tokens(signed):
    assert refusal(signed) == "missing websocket bearer token"
    assert refusal(signed, "Authorization: Basic x") == "invalid authorization header"


@pytest.mark.parametrize("value", [2**63, -1, 1e300, 10**30])
def test_extreme_times_do_not_overflow(signed_plain, value):
    token = jwt({"exp": value})
    with signed_plain.raw() as raw:
        status, _, body = raw.http(RawSocket.upgrade_request("/", [f"Authorization: Bearer {token}"]))
    if value == -1:
        assert (status, body) in ((401, b"expired websocket jwt"), (401, b"invalid websocket jwt"))
    else:
        assert (status, body) in ((101, b""), (401, b"invalid websocket jwt"))
    with signed_plain.raw() as raw:
        assert raw.get("/readyz")[0] == 200


# Connections without a valid token


@contextlib.contextmanager
def silent(port, count):
    """`count` peers that connect and send nothing."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
        yield


def test_silent_peers_do_not_use_up_the_descriptors():
    """A peer without a token can still connect. Many of them do not keep a client with a token from commands and files."""
    files, headers = 256, {"Authorization": f"Bearer {TOKEN}"}
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    with Server(["--ws-auth", "capability-token", "--ws-token-sha256", digest],
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))) as s, \
         Client(s.url, headers=headers) as before, silent(s.port, files + 10):
        with Client(s.url, headers=headers, connect_timeout=5) as late:
            for client in (before, late):
                client.start("p", ["/bin/true"], timeout=5)
                assert client.wait_exit("p", 5)["exitCode"] == 0
                assert client.call("fs/getMetadata", {"path": "file:///"}, 5)["isDirectory"]


def test_silent_peers_do_not_use_up_max_connections():
    with Server(config="max_connections = 4\n") as s, silent(s.port, 8), Client(s.url, connect_timeout=5) as c:
        assert c.call("environment/status") == {"status": "ready"}


def test_who_comes_in_has_a_moment_before_it_makes_way_for_the_next():
    with Server(config="max_connections = 2\n") as s, RawSocket(s.port) as one, RawSocket(s.port) as two, silent(s.port, 4):
        assert not select.select([one.sock, two.sock], [], [], 0.2)[0], "closed for another"
        one.upgrade()
        two.upgrade()
