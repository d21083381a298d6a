"""Processes of another session: the member `sessionId` of read, wait, snapshot, signal, terminate and list. Who may name which
session is as in test_session_owners; the owner of the session notices nothing but what becomes of its process."""

import base64
import contextlib
import itertools

import pytest

from farhand_client import Client, Server, wait_until
from fs_helpers import outcome, stuck_server
from fs_helpers import send as send_fs
from test_session_owners import Capability, Signed, connect, one_token, open_server, resume_error, resume_when_free

GUESTS = 1024  # requests of other sessions' clients that may wait for one process
# Each method with what it takes beside the ids.
METHODS = {"process/read": {}, "process/wait": {"waitMs": 0}, "process/snapshot": {}, "process/signal": {"signal": "user1"},
           "process/terminate": {}, "process/list": {}}


def ask(client, method, session_id, process_id="p", **params):
    return client.call(method, {"processId": process_id, "sessionId": session_id, **METHODS[method], **params})


def ask_error(client, method, session_id, process_id="p", **params):
    return client.error(method, {"processId": process_id, "sessionId": session_id, **METHODS[method], **params})


def send(client, method, session_id, process_id="p", **params):
    """Sends the request and returns its id, when the server has got it: a request behind it was answered."""
    ident = client.request(method, {"processId": process_id, "sessionId": session_id, **params})
    client.call("environment/status")
    return ident


def short(client):
    return client.session_id[:13]


def text_of(result):
    return b"".join(base64.b64decode(c["chunk"]) for c in result["chunks"])


@contextlib.contextmanager
def signed():
    with Signed.server() as server:
        yield server, Signed.ann


@contextlib.contextmanager
def capability():
    with Capability.server() as server:
        yield server, Capability.ann


@contextlib.contextmanager
def plain():
    with open_server() as (server, token):
        yield server, lambda: token


@contextlib.contextmanager
def one():
    with one_token() as (server, token):
        yield server, lambda: token


@pytest.fixture(scope="module", params=[signed, capability, plain, one])
def allowed(request):
    """A server, and a function that gives tokens of one client."""
    with request.param() as pair:
        yield pair


@pytest.fixture
def two(server):
    """The owner of a process `p`, a cat, and a client of another session."""
    with Client(server.url) as owner, Client(server.url) as guest:
        owner.start("p", ["cat"], pipeStdin=True)
        yield owner, guest
        assert not owner.bad and not guest.bad


# What the six methods do


def test_an_id_of_the_lists_is_one_that_the_six_accept(allowed):
    """The id of a session is accepted as session/list and process/list show it, whole or shortened."""
    server, token = allowed
    with connect(server, token()) as owner, connect(server, token()) as guest:
        owner.start("p", ["cat"], pipeStdin=True)
        owner.write("p", b"hello\n")
        owner.wait_output("p", b"hello\n")
        listed = [p["sessionId"] for p in guest.call("process/list", {"scope": "server"})["processes"]
                  if p["processId"] == "p" and p["running"]]
        shown = [s["sessionId"] for s in guest.call("session/list")["sessions"]
                 if owner.session_id.startswith(s["sessionId"])]
        assert listed == shown and len(shown) == 1
        assert text_of(ask(guest, "process/read", shown[0])) == b"hello\n"
        assert base64.b64decode(ask(guest, "process/snapshot", shown[0])["stdout"]) == b"hello\n"
        assert [(p["processId"], p["sessionId"]) for p in ask(guest, "process/list", shown[0])["processes"]] == [("p", shown[0])]
        assert ask(guest, "process/signal", shown[0], signal=18) == {}
        waiting = send(guest, "process/wait", shown[0], until="exited")
        assert ask(guest, "process/terminate", shown[0]) == {"running": True}
        assert guest.result(waiting)["reason"] == "terminated"
        assert owner.wait_exit("p")["reason"] == "terminated"
        owner.wait_closed("p")
        owner.check_seq("p")
        assert not owner.closed and not guest.events("p")  # its notifications are the owner's alone


def test_the_whole_id_does_where_ids_are_shortened(two):
    owner, guest = two
    owner.write("p", b"x")
    owner.wait_output("p", b"x")
    assert text_of(ask(guest, "process/read", owner.session_id)) == b"x"
    assert [p["sessionId"] for p in ask(guest, "process/list", owner.session_id)["processes"]] == [short(owner)]


def test_a_signal_arrives(server):
    with Client(server.url) as owner, Client(server.url) as guest:
        owner.start("p", ["bash", "-c", "trap 'echo got; exit 5' USR1; echo ready; while :; do read -t 1 x; done"], pipeStdin=True)
        owner.wait_output("p", b"ready\n")
        assert ask(guest, "process/signal", short(owner), scope="process") == {}
        assert owner.wait_exit("p")["exitCode"] == 5
        assert ask(guest, "process/terminate", short(owner)) == {"running": False}


def test_both_long_polls_wait_side_by_side(two):
    owner, guest = two
    mine = owner.request("process/read", {"processId": "p", "waitMs": 60000})
    others = send(guest, "process/read", short(owner), waitMs=60000)
    owner.call("environment/status")
    assert not owner.has_response(mine) and not guest.has_response(others)
    owner.write("p", b"both\n")
    assert text_of(owner.result(mine)) == text_of(guest.result(others)) == b"both\n"
    owner.wait_output("p", b"both\n")
    assert not owner.closed


def test_a_detached_session_stays_detached(server):
    with Client(server.url) as owner, Client(server.url) as guest:
        owner.start("p", ["cat"], pipeStdin=True)
        owner.write("p", b"left\n")
        owner.wait_output("p", b"left\n")
        owner.abort()

        def session():
            return next(s for s in guest.call("session/list")["sessions"] if s["sessionId"] == short(owner))
        wait_until(lambda: not session()["attached"], what="the detach")
        before = session()["expiresAtMs"]
        assert text_of(ask(guest, "process/read", short(owner))) == b"left\n"
        assert not session()["attached"] and abs(session()["expiresAtMs"] - before) < 1000
        with resume_when_free(server, owner.session_id) as again:
            again.write("p", b"more\n")
            again.wait_output("p", b"more\n")
            assert ask(guest, "process/terminate", short(owner)) == {"running": True}


def test_an_unknown_process_of_a_known_session(two):
    owner, guest = two
    guest.start("mine", ["cat"], pipeStdin=True)
    for method in ("process/read", "process/wait", "process/snapshot"):
        e = ask_error(guest, method, short(owner), "mine")
        assert (e.code, e.message) == (-32600, "unknown process id mine")
    assert ask(guest, "process/signal", short(owner), "mine", signal="kill") == {}
    assert ask(guest, "process/terminate", short(owner), "mine") == {"running": False}
    assert ask(guest, "process/list", short(owner), "mine") == {"processes": []}
    assert guest.call("process/list")["processes"][0]["running"] is True


@pytest.mark.parametrize("method", METHODS)
def test_the_own_session_is_as_none(server, method):
    """That this holds also where the operator allows no look beyond the own session is in test_the_server_scope_must_be_allowed."""
    with Client(server.url) as c:
        c.start("p", ["cat"], pipeStdin=True)
        for session_id in (c.session_id, None):
            result = ask(c, method, session_id)
            assert "processes" not in result or "sessionId" not in result["processes"][0]


def test_the_own_short_id_is_the_own_session(two):
    owner, _ = two
    assert [p["processId"] for p in ask(owner, "process/list", short(owner))["processes"]] == ["p"]


# Who may


@pytest.mark.parametrize("who", [Signed, Capability])
def test_a_session_of_another_token_is_one_that_never_was(who):
    with who.server() as server, connect(server, who.ann()) as ann, connect(server, who.bob()) as bob, \
         connect(server, who.admin()) as admin:
        ann.start("p", ["cat"], pipeStdin=True)
        for session_id in (ann.session_id, ann.session_id[:-1] + "x", short(ann), "", "x" * 2000):
            expected = resume_error(server, session_id, who.bob())
            for method in METHODS:
                e = ask_error(bob, method, session_id)
                assert (e.code, e.message, e.data) == (expected.code, expected.message, expected.data)
        for method in METHODS:  # this admin sees whole ids, so a shortened one is unknown
            assert ask_error(admin, method, short(ann)).data["reason"] == "unknown"
        assert [p["processId"] for p in ask(admin, "process/list", ann.session_id)["processes"]] == ["p"]
        assert ask(admin, "process/terminate", ann.session_id) == {"running": True}
        ann.wait_closed("p")


@pytest.mark.parametrize("method", METHODS)
def test_the_server_scope_must_be_allowed(method):
    with Server(config="allow_server_scope = false\n") as server, Client(server.url) as owner, Client(server.url) as guest:
        owner.start("p", ["cat"], pipeStdin=True)
        for session_id in (owner.session_id, short(owner), "unknown"):
            e = ask_error(guest, method, session_id)
            assert (e.code, e.message) == (-32600, "server scope is disabled")
        ask(owner, method, owner.session_id)


def test_sessions_that_are_not_there(server):
    with Client(server.url, init_params={"detachMs": 0}) as gone:
        pass
    with Client(server.url) as c:
        def reason(session_id):
            return ask_error(c, "process/read", session_id).data["reason"]
        wait_until(lambda: reason(gone.session_id) == "expired", what="the end of the session")
        other = ("0" if gone.session_id[0] != "0" else "1") + gone.session_id[1:]
        assert reason(other) == "otherServer"
        assert reason("nobody") == reason(short(gone)) == "unknown"
        e = ask_error(c, "process/wait", "nobody")
        assert (e.code, e.message) == (-32600, "unknown session id nobody")


@pytest.mark.parametrize("method", METHODS)
def test_a_bad_id_is_named(client, method):
    for bad in (5, True, [], {}):
        e = ask_error(client, method, bad)
        assert e.code == -32602 and e.message.startswith("sessionId: invalid type")


def test_a_list_is_of_one_session_or_of_all(two):
    owner, guest = two
    e = guest.error("process/list", {"scope": "server", "sessionId": short(owner)})
    assert (e.code, e.message) == (-32602, "sessionId: must be absent with the scope `server`")


def test_a_shortened_id_still_resumes_nothing(two, server):
    owner, guest = two
    assert ask(guest, "process/list", short(owner))["processes"]
    assert resume_error(server, short(owner), takeover=True).code == -32600


# Order


def test_a_process_with_the_id_of_a_held_start(tmp):
    """The client's own start waits for a change; a request on another's process of the same name does not wait for it."""
    with stuck_server(tmp) as stuck, stuck.server.connect() as owner, stuck.server.connect() as guest:
        owner.start("p", ["cat"], pipeStdin=True)
        change = send_fs(guest, "remove", path=f"{stuck.mount}/stuck", recursive=False)
        stuck.is_held("stuck")
        started = guest.request("process/start", {"processId": "p", "argv": ["true"], "cwd": "/", "env": {}, "tty": False})
        own = guest.request("process/wait", {"processId": "p", "sessionId": guest.session_id, "until": "exited"})
        own_short = guest.request("process/wait", {"processId": "p", "sessionId": short(guest), "until": "exited"})
        assert ask(guest, "process/wait", short(owner))["exited"] is False
        # The other's process is ended, and not the start that is held back.
        assert ask(guest, "process/terminate", short(owner)) == {"running": True}
        owner.wait_closed("p")
        assert ask(guest, "process/terminate", short(owner), "none") == {"running": False}
        assert not any(guest.has_response(i) for i in (started, own, own_short))
        stuck.let_go()
        outcome(guest, change)
        guest.result(started)
        assert guest.result(own)["exitCode"] == guest.result(own_short)["exitCode"] == 0


def test_a_held_start_of_another_session_can_be_cancelled(tmp):
    with stuck_server(tmp) as stuck, stuck.server.connect() as owner, stuck.server.connect() as guest:
        change = send_fs(owner, "remove", path=f"{stuck.mount}/stuck", recursive=False)
        stuck.is_held("stuck")
        started = owner.request("process/start", {"processId": "p", "argv": ["true"], "cwd": "/", "env": {}, "tty": False})
        owner.call("environment/status")
        assert ask(guest, "process/terminate", short(owner)) == {"running": True}
        assert outcome(owner, started) == (-32600, "process p start was cancelled")
        stuck.let_go()
        outcome(owner, change)


# Ends


def waits(guest, owner):
    """Requests that wait for the process: two reads and two waits."""
    return [send(guest, "process/read", short(owner), waitMs=60000, afterSeq=1000),
            send(guest, "process/read", short(owner), waitMs=60000),
            send(guest, "process/wait", short(owner)), send(guest, "process/wait", short(owner), until="exited")]


def test_the_end_of_the_session_answers_what_waits(server):
    """Each once, with the end of the process that the end of the session brings."""
    with Client(server.url, init_params={"detachMs": 0}) as owner, Client(server.url) as guest:
        owner.start("p", ["cat"], pipeStdin=True)
        sent = waits(guest, owner)
        owner.abort()
        assert [guest.result(i)["reason"] for i in sent] == ["sessionEnd"] * 4
        assert ask_error(guest, "process/read", owner.session_id).data["reason"] == "expired"
        assert not guest.bad


def test_the_end_of_the_asking_connection(two, server):
    owner, _ = two
    for _ in range(20):
        with Client(server.url) as guest:
            waits(guest, owner)
            guest.abort()
    owner.write("p", b"still here\n")
    owner.wait_output("p", b"still here\n")
    owner.call("process/terminate", {"processId": "p"})
    owner.wait_closed("p")


def test_a_takeover_of_either_side(two, server):
    owner, guest = two
    sent = waits(guest, owner)
    with Client(server.url, resume=owner.session_id, init_params={"takeover": True}) as again:
        guest.call("environment/status")
        assert not any(guest.has_response(i) for i in sent)
        again.write("p", b"x\n")
        assert text_of(guest.result(sent[1])) == b"x\n"
        with Client(server.url, resume=guest.session_id, init_params={"takeover": True}):
            for i in (sent[0], *sent[2:]):
                assert outcome(guest, i) == (-32600, "session has been resumed by another connection")
        assert again.call("process/terminate", {"processId": "p"}) == {"running": True}
        again.wait_closed("p")


def is_backed_up(owner, guest, process_id):
    """Whether the server has stopped to read what the guest sends: a request of it has no effect within a second."""
    owner.start(process_id, ["sleep", "60"])
    guest.request("process/terminate", {"processId": process_id, "sessionId": short(owner)})
    return not owner.call("process/wait", {"processId": process_id, "waitMs": 1000, "until": "exited"})["exited"]


def test_a_process_that_is_forgotten_while_a_read_waits_for_room():
    """A client that does not read keeps no finished process of another session, and gets its answer when it reads."""
    with Server(config="max_finished_processes_per_session = 1\n") as server, Client(server.url) as owner, \
         Client(server.url) as guest:
        owner.start("p", ["cat"], pipeStdin=True)
        owner.start("big", ["sh", "-c", "head -c 1000000 /dev/zero; echo; cat"], pipeStdin=True)
        wait_until(lambda: len(owner.output("big")) == 1000001, what="the output")
        waiting = send(guest, "process/read", short(owner), waitMs=60000)
        guest.pause_reading()
        many = [guest.request("process/snapshot", {"processId": "big", "sessionId": short(owner)}) for _ in range(60)]
        names = (f"probe {n}" for n in itertools.count())
        wait_until(lambda: is_backed_up(owner, guest, next(names)), timeout=60, what="a full queue")
        owner.call("process/terminate", {"processId": "p"})
        owner.wait_closed("p")
        owner.run(["true"])
        assert owner.error("process/read", {"processId": "p"}).message == "unknown process id p"
        guest.resume_reading()
        assert outcome(guest, waiting, 30) == (-32600, "unknown process id p")
        for i in many:
            outcome(guest, i, 30)


# A flood


def test_a_flood_of_waiting_requests_is_bounded_and_the_owner_is_not_locked_out(server):
    with contextlib.ExitStack() as stack:
        owner = stack.enter_context(Client(server.url))
        owner.start("p", ["cat"], pipeStdin=True)
        hostile = stack.enter_context(Client(server.url))
        params = {"processId": "p", "sessionId": short(owner), "waitMs": 600000, "afterSeq": 1 << 40}
        sent = [hostile.request("process/read", params) for _ in range(GUESTS)]
        for method in ("process/read", "process/wait"):
            e = hostile.error(method, params)
            assert (e.code, e.data["limit"]) == (-32021, "waiting requests of other sessions on a process")
        assert not any(hostile.has_response(i) for i in sent)
        # The owner waits beside them, as often as it likes, and hears at once.
        mine = [owner.request("process/read", {"processId": "p", "waitMs": 60000}) for _ in range(2000)]
        owner.write("p", b"x\n")
        assert all(text_of(owner.result(i)) == b"x\n" for i in mine)
        assert owner.call("process/terminate", {"processId": "p"}) == {"running": True}
        assert {hostile.result(i)["closed"] for i in sent} == {True}
