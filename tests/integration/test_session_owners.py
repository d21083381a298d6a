"""Whose a session is: who may see it in a list, and who may resume it, with tokens that tell clients apart and without."""

import contextlib
import os
import re
import tempfile
import time

import pytest

from farhand_client import Client, HttpRefused, RpcError, Server, ServerFailed, wait_until
from test_auth import SECRET, jwt

SHORT_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}")
FULL_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def connect(server, token=None, **kw):
    return Client(server.url, headers={"Authorization": f"Bearer {token}"} if token else None, **kw)


def subject(name, **more):
    """A signed token for one client. Each call makes another token for the same client."""
    claims = {"exp": int(time.time()) + 600, "jti": os.urandom(8).hex(), **more}
    if name is not None:
        claims["sub"] = name
    return jwt(claims)


def sessions(client):
    return client.call("session/list", {})["sessions"]


def ids(client):
    return {s["sessionId"] for s in sessions(client)}


def server_processes(client):
    return client.call("process/list", {"scope": "server"})["processes"]


def resume_error(server, session_id, token=None, **params):
    with connect(server, token, init=False) as c:
        return c.error("initialize", {"clientName": "thief", "resumeSessionId": session_id, **params})


def resume_when_free(server, session_id, token=None):
    def attempt():
        try:
            return connect(server, token, resume=session_id)
        except RpcError as e:
            assert e.code == -32010
            return None
    return wait_until(attempt, what="the session to be free")


@contextlib.contextmanager
def files(**contents):
    with tempfile.TemporaryDirectory(prefix="farhand-owners-") as directory:
        paths = {}
        for name, content in contents.items():
            paths[name] = os.path.join(directory, name)
            with open(paths[name], "w", encoding="utf-8") as f:
                f.write(content)
            os.chmod(paths[name], 0o600)
        yield paths


class Signed:
    """Tokens with a subject."""
    ann, bob, admin = (lambda: subject("ann")), (lambda: subject("bob")), (lambda: subject("root", admin=True))

    @staticmethod
    @contextlib.contextmanager
    def server():
        with files(secret=SECRET.decode()) as f, \
             Server(["--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", f["secret"]]) as s:
            yield s


class Capability:
    """Several tokens in one file, and one in a file for administrators."""
    ann, bob, admin = (lambda: "token-of-ann"), (lambda: "token-of-bob"), (lambda: "token-of-admin")

    @staticmethod
    @contextlib.contextmanager
    def server():
        with files(tokens="token-of-ann\n\n  token-of-bob \r\n", admins="token-of-admin\n") as f, \
             Server(["--ws-auth", "capability-token", "--ws-token-file", f["tokens"],
                     "--ws-admin-token-file", f["admins"]]) as s:
            yield s


@pytest.fixture(scope="module", params=[Signed, Capability], ids=["signed", "capability"])
def kind(request):
    with request.param.server() as server:
        yield server, request.param


# Tokens tell clients apart


def test_sessions_of_another_token_are_not_listed(kind):
    server, who = kind
    with connect(server, who.ann()) as ann, connect(server, who.bob()) as bob:
        assert ann.session_id in ids(ann) and bob.session_id in ids(bob)
        assert not [i for i in ids(ann) if i.startswith(bob.session_id[:13])]
        assert not [i for i in ids(bob) if i.startswith(ann.session_id[:13])]


def test_processes_of_another_token_are_not_listed(kind):
    server, who = kind
    with connect(server, who.ann()) as ann, connect(server, who.bob()) as bob:
        ann.start("secret", ["sleep", "60"])
        bob.start("other", ["sleep", "60"])
        assert [p["processId"] for p in server_processes(bob)] == ["other"]
        assert [p["processId"] for p in server_processes(ann)] == ["secret"]
        assert bob.call("process/list", {"scope": "server", "processId": "secret"})["processes"] == []
        for client, name in ((ann, "secret"), (bob, "other")):
            client.call("process/terminate", {"processId": name})
            client.wait_closed(name)


@pytest.mark.parametrize("takeover", [False, True])
def test_a_session_of_another_token_is_unknown(kind, takeover):
    """Whether the session is attached or not, the answer is the same as for an id that never existed."""
    server, who = kind
    with connect(server, who.ann()) as ann:
        ann.start("p", ["cat"], pipeStdin=True)
        e = resume_error(server, ann.session_id, who.bob(), takeover=takeover)
        assert (e.code, e.message) == (-32600, f"unknown session id {ann.session_id}")
        assert e.data["reason"] == "unknown"
        assert ann.write("p", b"still mine\n") == "accepted"
        ann.wait_output("p", b"still mine\n")
        ann.abort()
    for _ in range(3):
        e = resume_error(server, ann.session_id, who.bob(), takeover=takeover)
        assert (e.code, e.data["reason"]) == (-32600, "unknown")
    with resume_when_free(server, ann.session_id, who.ann()) as again:
        assert again.write("p", b"back\n") == "accepted"
        again.wait_output("p", b"back\n")
        again.call("process/terminate", {"processId": "p"})


def test_an_ended_session_of_another_token_is_unknown_as_well(kind):
    server, who = kind
    with connect(server, who.ann(), init_params={"detachMs": 0}) as ann:
        pass

    def reason(token):
        return resume_error(server, ann.session_id, token).data["reason"]
    wait_until(lambda: reason(who.ann()) == "expired", what="the end of the session")
    assert reason(who.bob()) == "unknown"
    assert reason(who.admin()) == "expired"


def test_the_same_client_sees_and_takes_its_own_sessions(kind):
    """Another connection of the same client, with another token of the same subject where tokens are signed."""
    server, who = kind
    with connect(server, who.ann()) as first, connect(server, who.ann()) as second:
        assert {first.session_id, second.session_id} <= ids(second)
        with connect(server, who.ann(), resume=first.session_id, init_params={"takeover": True}) as third:
            assert third.session_id == first.session_id
            told = first.wait_for(lambda m: m.get("method") == "session/takenOver")
            assert told["params"]["sessionId"] == first.session_id


def test_an_admin_sees_and_takes_everything(kind):
    server, who = kind
    with connect(server, who.ann()) as ann, connect(server, who.bob()) as bob, connect(server, who.admin()) as admin:
        ann.start("p", ["sleep", "60"])
        assert {ann.session_id, bob.session_id, admin.session_id} <= ids(admin)
        assert ann.session_id in {p["sessionId"] for p in server_processes(admin)}
        with connect(server, who.admin(), resume=ann.session_id, init_params={"takeover": True}) as taken:
            taken.call("process/terminate", {"processId": "p"})
        with resume_when_free(server, ann.session_id, who.ann()) as again:  # it is still the session of its client
            assert ann.session_id in ids(again)
            assert ann.session_id not in ids(bob)
        assert not [i for i in ids(bob) if i.startswith(admin.session_id[:13])]


# Signed tokens


@pytest.fixture(scope="module")
def signed():
    with Signed.server() as server:
        yield server


@pytest.mark.parametrize("claim", ["true", 1, "yes", None, False, [True], {"x": True}])
def test_only_true_makes_an_admin(signed, claim):
    name = f"eve {claim!r}"
    with connect(signed, subject("ann")) as ann, connect(signed, subject(name, admin=claim)) as eve:
        assert ids(eve) == {eve.session_id}
        assert resume_error(signed, ann.session_id, subject(name, admin=claim), takeover=True).code == -32600


def test_the_same_subject_of_another_issuer_is_another_client(signed):
    tokens = [subject("ann"), subject("ann", iss="one"), subject("ann", iss="two"), subject("", iss="oneann"), subject("")]
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(signed, t)) for t in tokens]
        for client in clients:
            assert {c.session_id for c in clients} & ids(client) == {client.session_id}


def test_subjects_that_are_no_text_are_told_apart(signed):
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(signed, subject(s))) for s in (1, 2, "1", True, "true", [1], "[1]")]
        for client in clients:
            assert {c.session_id for c in clients} & ids(client) == {client.session_id}


def test_tokens_without_a_subject_are_one_client_whose_ids_are_shortened(signed):
    with connect(signed, subject(None)) as a, connect(signed, subject(None)) as b, connect(signed, subject("ann")) as ann:
        assert b.session_id[:13] in ids(a) and b.session_id not in ids(a)
        assert not [i for i in ids(a) if i.startswith(ann.session_id[:13])]
        assert not [i for i in ids(ann) if i.startswith(a.session_id[:13])]
        assert resume_error(signed, ann.session_id, subject(None), takeover=True).code == -32600
        assert resume_error(signed, a.session_id, subject("ann"), takeover=True).code == -32600
        a.abort()
        with resume_when_free(signed, a.session_id, subject(None)) as again:  # with a token that is newer
            assert again.session_id == a.session_id


# One token, or none: nothing tells clients apart


@contextlib.contextmanager
def open_server():
    with Server() as s:
        yield s, None


@contextlib.contextmanager
def one_token():
    with files(token=" only one \n") as f, \
         Server(["--ws-auth", "capability-token", "--ws-token-file", f["token"]]) as s:
        yield s, "only one"


@contextlib.contextmanager
def unix_socket():
    with tempfile.TemporaryDirectory(prefix="farhand-owners-") as d, Server(listen=f"unix:{d}/s") as s:
        yield s, None


@pytest.fixture(scope="module", params=[open_server, one_token, unix_socket])
def shared(request):
    with request.param() as pair:
        yield pair


def test_ids_of_others_are_shortened(shared):
    server, token = shared
    with connect(server, token) as a, connect(server, token) as b:
        b.start("p", ["sleep", "60"])
        listed = {s["sessionId"] for s in sessions(a)}
        assert a.session_id in listed and FULL_ID.fullmatch(a.session_id)
        assert b.session_id[:13] in listed
        assert all(SHORT_ID.fullmatch(i) for i in listed - {a.session_id})
        assert {p["sessionId"] for p in server_processes(a)} == {b.session_id[:13]}
        assert {p["sessionId"] for p in server_processes(b)} == {b.session_id}
        b.call("process/terminate", {"processId": "p"})
        b.wait_closed("p")


def test_a_shortened_id_resumes_nothing(shared):
    server, token = shared
    with connect(server, token) as a, connect(server, token) as b:
        for listed in ids(a) - {a.session_id}:
            e = resume_error(server, listed, token, takeover=True)
            assert (e.code, e.message) == (-32600, f"unknown session id {listed}")
        assert b.session_id in ids(b)


def test_ones_own_id_resumes(shared):
    server, token = shared
    with connect(server, token) as a:
        a.abort()
    with resume_when_free(server, a.session_id, token) as again:
        assert again.session_id == a.session_id
        with connect(server, token, resume=a.session_id, init_params={"takeover": True}) as third:
            assert third.session_id == a.session_id


# Token files


def refused(args):
    with pytest.raises(ServerFailed) as e, Server(args):
        pass
    return e.value


def test_nothing_but_a_line_of_the_files_is_a_token():
    with Capability.server() as server:
        for token in ("token-of", "token-of-ann token-of-bob", "token-of-ann,token-of-bob"):
            with pytest.raises(HttpRefused) as e:
                connect(server, token)
            assert e.value.status == 401


def test_too_many_tokens_are_refused():
    with files(many="".join(f"t{i}\n" for i in range(65)), enough="".join(f"t{i}\n" for i in range(64))) as f:
        e = refused(["--ws-auth", "capability-token", "--ws-token-file", f["many"]])
        assert e.returncode == 1 and "at most 64 tokens" in e.stderr
        with Server(["--ws-auth", "capability-token", "--ws-token-file", f["enough"]]) as s, \
             connect(s, "t63") as a, connect(s, "t0") as b:
            assert (ids(a), ids(b)) == ({a.session_id}, {b.session_id})


def test_an_admin_file_alone_and_in_the_wrong_place():
    with files(admins="one\n", secret=SECRET.decode(), empty="\n") as f:
        with Server(["--ws-auth", "capability-token", "--ws-admin-token-file", f["admins"],
                     "--ws-token-sha256", "0" * 64]) as s, connect(s, "one") as c:
            assert ids(c) == {c.session_id}
        e = refused(["--ws-auth", "capability-token", "--ws-admin-token-file", f["admins"]])
        assert e.returncode == 1 and "is required when" in e.stderr
        e = refused(["--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", f["secret"],
                     "--ws-admin-token-file", f["admins"]])
        assert e.returncode == 1 and "--ws-auth capability-token" in e.stderr
        assert refused(["--ws-admin-token-file", f["admins"]]).returncode == 1
        e = refused(["--ws-auth", "capability-token", "--ws-token-sha256", "0" * 64, "--ws-admin-token-file", f["empty"]])
        assert e.returncode == 1 and "must not be empty" in e.stderr


def test_a_token_in_both_files_is_an_admin():
    with files(tokens="ann\nboth\n", admins="both\n") as f, \
         Server(["--ws-auth", "capability-token", "--ws-token-file", f["tokens"],
                 "--ws-admin-token-file", f["admins"]]) as s, connect(s, "ann") as ann, connect(s, "both") as both:
        assert ids(both) == {ann.session_id, both.session_id}
        assert ids(ann) == {ann.session_id}
