"""`farhand mcp --listen`: which messages go on which stream, streams that are cut and resumed, readers that are slow, calls side by side."""

import os
import select
import socket
import threading

import pytest

from mcp_http_rig import HOLDS_MEMORY, Front, until

CAN_ALL = {"roots": {"listChanged": True}, "elicitation": {}}


@pytest.fixture(scope="module")
def front():
    with Front() as one:
        yield one


@pytest.fixture()
def session(front):
    one = front.session()
    yield one
    one.ask("DELETE")


def test_a_cut_answer_is_resumed_where_it_was_cut(session):
    message = session.exec_message("echo one; sleep 2.5; echo two", token="t")
    with session.begin(message) as wire:
        wire.read_answer()
        greeting = wire.event()
        first = wire.event()
        assert greeting[1] is None and first[1]["method"] == "notifications/progress"
    with session.get(Last_Event_ID=first[0]) as wire:
        rest = wire.events()
    assert rest[-1][1]["id"] == message["id"] and rest[-1][1]["result"]["structuredContent"]["output"] == "one\ntwo\n"
    assert all(data["params"]["progress"] > first[1]["params"]["progress"] for _, data in rest[:-1])
    with session.get(Last_Event_ID=greeting[0]) as wire:  # all of it once more
        assert wire.events() == [first, *rest]
    with session.get(Last_Event_ID=rest[-1][0]) as wire:
        assert wire.events() == []


def test_a_call_goes_on_while_nobody_is_connected(session):
    gate = os.path.join(session.front.work, "gate")
    os.mkfifo(gate)
    with session.begin(session.exec_message("read x <gate; echo $x")) as wire:
        wire.read_answer()
        ident = wire.event()[0]
    with open(gate, "w", encoding="utf-8") as f:
        f.write("through\n")
    with session.get(Last_Event_ID=ident) as wire:
        assert wire.events()[-1][1]["result"]["structuredContent"]["output"] == "through\n"
    os.unlink(gate)


def test_another_reader_takes_the_stream_over(session):
    with session.begin(session.exec_message("sleep 1000", token="t")) as first:
        first.read_answer()
        ident = first.event()[0]
        with session.get(Last_Event_ID=ident) as second:
            assert first.is_closed()
            assert second.event()[1]["method"] == "notifications/progress"


@pytest.mark.parametrize("ident", ["x", "1", "0-0", "1-", "99-1", "18446744073709551616-0", "-1-0", "1-1-1"])
def test_what_cannot_be_resumed_is_refused(session, ident):
    assert session.ask("GET", Last_Event_ID=ident).status == 400


def test_an_answer_as_json_cannot_be_resumed(session):
    session.call(session.message("ping"))
    assert session.ask("GET", Last_Event_ID=f"{session.count + 1}-0").status == 400


def roots_of(front, session, wire, path):
    """Answers the request for roots that comes on this connection."""
    while True:
        _, data = wire.event()
        if data and data.get("method") == "roots/list":
            break
    assert session.ask(body={"jsonrpc": "2.0", "id": data["id"], "result": {"roots": [{"uri": "file://" + path}]}}).status == 202


def test_the_request_for_roots_goes_on_the_stream_of_a_get(front):
    session = front.session(capabilities=CAN_ALL)  # it was asked when there was no stream yet
    with session.get() as general:
        roots_of(front, session, general, front.base)
        assert session.exec("pwd")["output"] == front.base + "\n"
        assert session.note("notifications/roots/list_changed").status == 202
        roots_of(front, session, general, front.work)
        until(lambda: session.exec("pwd")["output"] == front.work + "\n", "the new root")
    session.ask("DELETE")


def test_the_request_for_roots_goes_on_the_stream_of_a_call_when_there_is_no_other(front):
    session = front.session(capabilities=CAN_ALL)
    with session.begin(session.exec_message("pwd")) as wire:
        wire.read_answer()
        roots_of(front, session, wire, front.base)
        assert wire.events()[-1][1]["result"]["structuredContent"]["output"] == front.base + "\n"
    session.ask("DELETE")


def test_a_message_goes_on_one_stream_only(front):
    session = front.session(capabilities=CAN_ALL)
    with session.get() as one, session.get() as two:
        roots_of(front, session, one, front.work)  # it waited for the first stream
        session.note("notifications/roots/list_changed")
        roots_of(front, session, two, front.work)
        assert one.is_quiet()
    session.ask("DELETE")


def test_questions_go_on_the_stream_of_their_call():
    with Front("--approval", "untrusted", options=("--workspace-write",)) as front:
        session = front.session(capabilities={"elicitation": {}})
        with session.get() as general, session.begin(session.exec_message("echo one")) as one, session.begin(session.exec_message("echo two")) as two:
            ids = {}
            for name, wire in (("one", one), ("two", two)):
                wire.read_answer()
                event = wire.event()
                while event[1] is None:
                    event = wire.event()
                assert event[1]["method"] == "elicitation/create" and f"echo {name}" in event[1]["params"]["message"]
                ids[name] = event[1]["id"]
            session.ask(body={"jsonrpc": "2.0", "id": ids["two"], "result": {"action": "accept", "content": {"decision": "once"}}})
            assert two.events()[-1][1]["result"]["structuredContent"]["output"] == "two\n"
            session.note("notifications/cancelled", requestId=session.count - 1)
            assert one.events() == []
            assert general.event()[1] is None
            withdrawn = general.event()[1]  # the stream of the call has ended
            assert withdrawn["method"] == "notifications/cancelled" and withdrawn["params"]["requestId"] == ids["one"]


def test_a_cancelled_call_ends_its_stream_without_an_answer(session):
    message = session.exec_message("echo $$ >pid; sleep 1000")
    with session.begin(message) as wire:
        wire.read_answer()
        path = os.path.join(session.front.work, "pid")
        pid = int(until(lambda: os.path.exists(path) and open(path, encoding="utf-8").read(), "the command"))
        assert session.note("notifications/cancelled", requestId=message["id"]).status == 202
        assert wire.events() == []
    until(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the command")
    os.unlink(path)


def test_fifty_calls_side_by_side_with_one_stuck(session):
    answers = {}

    def one(n):
        answers[n] = session.call(session.exec_message(f"echo {n}", ident=f"call-{n}"))

    with session.begin(session.exec_message("sleep 1000", ident="stuck")) as stuck:
        threads = [threading.Thread(target=one, args=(n,)) for n in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [answers[n]["result"]["structuredContent"]["output"] for n in range(50)] == [f"{n}\n" for n in range(50)]
        assert all(answers[n]["id"] == f"call-{n}" for n in range(50))
        session.note("notifications/cancelled", requestId="stuck")
        assert session.finish(stuck) == []


def is_reset(wire):
    """Returns whether the other side has reset a connection, without reading from it."""
    poll = select.poll()
    poll.register(wire.sock, 0)
    return any(what & select.POLLERR for _, what in poll.poll(0))


def test_a_slow_reader_holds_up_nobody(front, session):
    """The slow reader asks for far more than is kept for it, and reads nothing. Its oldest streams are closed; other calls and sessions go on."""
    big = "head -c 1000000 /dev/zero | tr '\\0' '\\1'"  # 6 bytes for each, twice: the third answer is beyond LIMIT_MCP_HTTP_WAITING_BYTES
    gate = os.path.join(front.work, "all-begun")
    other, slow, ids, count = front.session(), [], [], 6

    def others_go_on():
        return session.exec("echo here")["output"] == "here\n" and other.exec("echo there")["output"] == "there\n"

    for n in range(count):
        wire = front.wire()
        wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # so that the answer stays with the listener
        session.write(wire, body=session.exec_message(f"{big}; until [ -e {gate} ]; do sleep 0.1; done", max_output_tokens=1_000_000, ident=f"slow-{n}"))
        wire.read_answer()
        ids.append(wire.event()[0])
        slow.append(wire)
    with open(gate, "w", encoding="utf-8"):
        assert others_go_on()
    # The connections of all streams but the newest two are reset, although nobody reads what they still hold.
    lost = until(lambda: others_go_on() and len(found := [n for n in range(count) if is_reset(slow[n])]) >= count - 2 and found, "the loss of streams")
    assert len(lost) == count - 2, lost
    with open(f"/proc/{front.proc.pid}/status", encoding="latin-1") as f:
        peak = int([line for line in f if line.startswith("VmHWM")][0].split()[1])
    assert HOLDS_MEMORY or peak < 200_000, peak
    for n in range(count):
        answer = session.ask("GET", Last_Event_ID=ids[n])
        assert answer.status == (400 if n in lost else 200)
        assert n not in lost or answer.json["error"]["message"] == "what follows the Last-Event-ID is gone"
    kept = next(n for n in range(count) if n not in lost)
    with session.get(Last_Event_ID=ids[kept]) as wire:
        (_, answer), = wire.events()
        assert answer["id"] == f"slow-{kept}" and answer["result"]["structuredContent"]["output"] == "\1" * 1_000_000
    assert others_go_on()
    for wire in slow:
        wire.close()
    other.ask("DELETE")
