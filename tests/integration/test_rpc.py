"""The envelope: shapes of messages, ids, malformed input, unknown methods, order of answers."""

import json
import time

import pytest

from farhand_client import Client, Server

PREFIX = "failed to parse websocket JSON-RPC message from exec-server websocket "


def malformed(client, text):
    """Sends `text`, expects the error with id -1; returns the detail. The connection must stay."""
    before = len(client.messages)
    client.send_raw(text)
    answer = client.wait_for(lambda m: m.get("id") == -1 and client.messages.index(m) >= before) \
        if before == 0 else client.response(-1)
    assert answer["error"]["code"] == -32600
    host, port = client.sock.getsockname()
    head = f"{PREFIX}{host}:{port}: "
    assert answer["error"]["message"].startswith(head), answer
    assert client.call("environment/status") == {"status": "ready"}
    return answer["error"]["message"][len(head):]


# Good messages


@pytest.mark.parametrize("ident", [0, 1, -1, -5, 2**63 - 1, -2**63, "", "abc", "1", "\N{SNOWMAN}", "a\"b\\c\n\0",
                                   "x" * 1024, "\N{GRINNING FACE}"],
                         ids=lambda v: repr(v)[:20])
def test_the_id_is_echoed_with_its_type(client, ident):
    client.send_json({"id": ident, "method": "environment/status"})
    assert client.response(ident) == {"id": ident, "result": {"status": "ready"}}


def test_an_id_that_is_too_long_is_refused(client):
    client.send_json({"id": "x" * 1025, "method": "environment/status"})
    error = client.response(-1)["error"]
    assert error["code"] == -32600 and error["message"].endswith("id is longer than 1024 bytes")


def test_repeated_ids_are_answered_each(client):
    for _ in range(3):
        client.send_json({"id": 79, "method": "environment/status"})
    for _ in range(3):
        assert client.response(79)["result"] == {"status": "ready"}


@pytest.mark.parametrize("extra", [{"jsonrpc": "2.0"}, {"jsonrpc": "9.9"}, {"jsonrpc": None}, {"extra": [1, {"a": 2}]},
                                   {"result": 5}, {"error": 6},
                                   {"trace": {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                              "tracestate": "a=b"}},
                                   {"trace": {"traceparent": "garbage"}}, {"trace": None}])
def test_extra_members_are_ignored(client, extra):
    assert client.call("environment/status", {}, **extra) == {"status": "ready"}


def test_the_server_never_sends_jsonrpc(client):
    client.run(["echo", "x"])
    client.error("nope")
    assert all("jsonrpc" not in m for m in client.messages)


def test_answers_have_exactly_id_and_result_or_error(client):
    client.call("environment/status")
    client.error("nope")
    for message in client.messages:
        assert set(message) in ({"id", "result"}, {"error", "id"}, {"method", "params"})
        if "error" in message:
            assert {"code", "message"} <= set(message["error"]) <= {"code", "message", "data"}


@pytest.mark.parametrize("text", [
    ' \t\r\n{ "id" : 5 , "method" : "environment/status" } \n',
    '{"method":"environment/status","id":5}',
    '{"\\u0069d":5,"method":"environment\\/status"}',
    '{"id":5,"method":"environment/status","params":null}',
    '{"id":5,"method":"environment/status","params":{}}',
])
def test_spellings_of_the_same_request(client, text):
    client.send_raw(text)
    assert client.response(5)["result"] == {"status": "ready"}


@pytest.mark.parametrize("method", ["environment/info", "environment/status"])
@pytest.mark.parametrize("params", [{"junk": 1}, [], 5, "x", True])
def test_methods_without_params_refuse_them(client, method, params):
    assert client.error(method, params).code == -32602


def test_unknown_members_of_params_are_ignored(client):
    assert client.error("process/read", {"processId": "nope", "future": [1]}).message == "unknown process id nope"


def test_the_first_missing_member_is_named(client):
    start = {"processId": "p", "argv": ["true"], "cwd": "file:///tmp", "env": {}, "tty": False}
    for name in start:
        params = {k: v for k, v in start.items() if k != name}
        error = client.error("process/start", params)
        assert (error.code, error.message) == (-32602, f"missing field `{name}`")
    assert client.error("process/start", {}).message == "missing field `processId`"
    assert client.error("process/start", {"processId": "p", "tty": True}).message == "missing field `argv`"


@pytest.mark.parametrize("params", [{"processId": 5}, {"processId": None}, {"processId": "p", "afterSeq": "1"},
                                    {"processId": "p", "afterSeq": -1}, {"processId": "p", "waitMs": 1.5},
                                    {"processId": "p", "maxBytes": True}, 5, "str"])
def test_wrong_types_are_invalid_params(client, params):
    assert client.error("process/read", params).code == -32602


def test_absent_params_of_a_method_that_needs_them(client):
    assert client.error("process/read").code == -32602


def test_positional_params_are_not_supported(client):
    assert client.error("process/read", ["nope", None, None, None]).code == -32602


# Unknown methods


@pytest.mark.parametrize("method", ["nope/nope", "", "process", "process/Start", "initialized", "x" * 4000,
                                    "environmentConfig/write", "capabilities/discoverV2", "\N{SNOWMAN}`\"\\"])
def test_an_unknown_method_is_named(client, method):
    error = client.error(method, {})
    assert error.code == -32601
    assert error.message == f"unknown method `{method}`"


def test_an_endless_method_name_is_cut_in_the_answer(client):
    error = client.error("x" * 100_000, {})
    assert error.code == -32601
    assert error.message.startswith("unknown method `xxx")
    assert len(error.message) < 5000


def test_an_unknown_method_before_initialize(server):
    with Client(server.url, init=False) as c:
        error = c.error("nope/nope", {})
        assert (error.code, error.message) == (-32601, "unknown method `nope/nope`")


# Malformed messages


@pytest.mark.parametrize("text", ["null", "5", '"x"', "[]", "true", '[{"id":1,"method":"environment/status"}]'])
def test_what_is_not_an_object_is_malformed(client, text):
    assert malformed(client, text) == "expected a JSON-RPC object"


@pytest.mark.parametrize("text", ["{}", '{"id":1}', '{"foo":1}', '{"id":1,"params":{}}'])
def test_an_object_that_is_nothing_is_malformed(client, text):
    assert malformed(client, text).startswith("missing field `error`")


@pytest.mark.parametrize("text", [
    "{", "", "   ", "{]", '{"id":1,}', '{"id" 1}', "{'id':1}", '{"id":1,"method":"environment/status"} trailing',
    '{"id":1,"method":"environment/status"}{"id":2,"method":"environment/status"}', '{"a":"\n"}', '{"a":"\\x"}',
    '{"a":"\\ud800"}', '{"a":"\\u12"}', '{"a":01}', '{"a":+1}', '{"a":1.}', '{"a":.5}', '{"a":1e}', '{"a":NaN}',
    '{"a":nul}', '{"a":tru', '{a:1}', '\ufeff{"id":1,"method":"environment/status"}', '{"a":"\x00"}', "\x00",
    '// c\n{"id":1,"method":"environment/status"}',
], ids=lambda v: ascii(v)[:40])
def test_bad_json_is_malformed(client, text):
    assert malformed(client, text) != ""


@pytest.mark.parametrize("ident", ["null", "1.5", "1e2", "1.0", "99999999999999999999", "9223372036854775808",
                                   "-9223372036854775809", "true", "{}", "[1]"])
def test_a_bad_id_is_malformed(client, ident):
    malformed(client, f'{{"id":{ident},"method":"environment/status"}}')


@pytest.mark.parametrize("text", ['{"id":3,"method":5}', '{"id":3,"method":null}', '{"method":7}', '{"method":null}'])
def test_a_bad_method_is_malformed(client, text):
    malformed(client, text)


@pytest.mark.parametrize("text", ['{"id":9,"error":{"code":"x","message":"m"}}', '{"id":9,"error":{"code":1}}',
                                  '{"id":9,"error":5}', '{"result":1}', '{"error":{"code":1,"message":"m"}}',
                                  '{"id":null,"result":1}'])
def test_a_bad_response_is_malformed(client, text):
    malformed(client, text)


@pytest.mark.parametrize("text,key", [
    ('{"id":4,"id":5,"method":"environment/status"}', "id"),
    ('{"id":6,"method":"environment/status","params":{"a":1,"a":2}}', "a"),
    ('{"id":6,"method":"environment/status","x":[[{"k":1,"b":2,"k":3}]]}', "k"),
    ('{"id":4,"\\u0069d":5,"method":"environment/status"}', "id"),
])
def test_duplicate_keys_are_refused(client, text, key):
    assert malformed(client, text).startswith(f"duplicate JSON object key `{key}`")


def test_equal_keys_in_different_objects_are_fine(client):
    assert client.call("environment/status", x={"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}) == {"status": "ready"}


def nested(levels):
    """A request of `levels` levels in all; the outer object is the first."""
    return '{"id":1,"method":"environment/status","x":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


def test_nesting_below_the_limit(client):
    client.send_raw(nested(127))
    assert client.response(1)["result"] == {"status": "ready"}


@pytest.mark.parametrize("levels", [129, 200, 100000])
def test_nesting_beyond_the_limit(client, levels):
    assert malformed(client, nested(levels)).startswith("recursion limit exceeded")


def test_an_unclosed_nest_is_refused_too(client):
    assert malformed(client, "[" * 1000000).startswith("recursion limit exceeded")


def test_values_below_the_limit(client):
    client.send_raw('{"id":1,"method":"environment/status","x":[' + ",".join("0" * 262000) + "]}")
    assert client.response(1)["result"] == {"status": "ready"}


@pytest.mark.parametrize("item", ["0", "[]", "{}", '"s"'])
def test_values_beyond_the_limit(client, item):
    text = '{"id":1,"method":"environment/status","x":[' + ",".join([item] * 262145) + "]}"
    assert malformed(client, text).startswith("JSON-RPC message exceeds the limit of 262144 JSON values")


def test_malformed_messages_before_initialize(server):
    with Client(server.url, init=False) as c:
        c.send_raw("{")
        assert c.response(-1)["error"]["code"] == -32600
        c.initialize()
        assert c.call("environment/status") == {"status": "ready"}


def test_many_malformed_messages_do_no_harm(client):
    for _ in range(500):
        client.send_raw('{"id":')
    for _ in range(500):
        client.response(-1)
    assert client.call("environment/status") == {"status": "ready"}


# Notifications and responses


@pytest.mark.parametrize("method", ["bogus", "process/output", "initialize", "process/start", "environment/status", ""])
def test_an_unexpected_notification_is_answered_and_the_connection_stays(client, method):
    client.notify(method, {})
    assert client.response(-1) == {"error": {"code": -32600, "message": f"unexpected notification: {method}"}, "id": -1}
    assert client.call("environment/status") == {"status": "ready"}


def test_a_known_request_sent_as_a_notification_does_nothing(client, tmp):
    client.notify("process/start", {"processId": "n", "argv": ["touch", f"{tmp}/made"], "cwd": "file:///tmp",
                                    "env": {"PATH": "/usr/bin:/bin"}, "tty": False})
    client.response(-1)
    assert client.error("process/read", {"processId": "n"}).message == "unknown process id n"


def test_an_unexpected_notification_before_initialize(server):
    with Client(server.url, init=False) as c:
        c.notify("bogus")
        assert c.response(-1)["error"]["message"] == "unexpected notification: bogus"
        c.initialize()


def test_initialized_before_initialize_closes(server):
    with Client(server.url, init=False) as c:
        c.notify("initialized", {})
        assert c.closed_code() in (1002, 1008, 1006)
        assert c.messages == []


@pytest.mark.parametrize("message", [{"id": 99, "result": {}}, {"id": 99, "error": {"code": 1, "message": "x"}},
                                     {"id": "x", "result": None}, {"id": -1, "result": 1}])
def test_an_answer_to_an_id_that_was_not_issued_closes(server, message):
    with Client(server.url) as c:
        c.call("environment/status")
        seen = len(c.messages)
        c.send_json(message)
        assert c.closed_code() in (1002, 1008, 1006)
        assert len(c.messages) == seen


def test_a_violation_detaches_the_session(server):
    with Client(server.url) as c:
        c.start("p", ["sleep", "1000"])
        c.send_json({"id": 99, "result": {}})
        c.closed_code()
    with Client(server.url, resume=c.session_id) as d:
        assert d.call("process/terminate", {"processId": "p"}) == {"running": True}


# Order and concurrency


@pytest.fixture(scope="module", params=["default", "concurrent"])
def busy(request):
    with Server([] if request.param == "default" else ["--concurrent-requests", "4"]) as s:
        yield s


def test_a_request_beside_a_long_poll_is_answered_at_once(busy):
    with Client(busy.url) as c:
        c.start("p", ["sleep", "1000"])
        began = time.monotonic()
        poll = c.request("process/read", {"processId": "p", "waitMs": 2000})
        assert c.call("environment/status") == {"status": "ready"}
        assert c.result(poll)["chunks"] == []
        assert time.monotonic() - began >= 1.95
        answers = [m["id"] for m in c.messages if "id" in m]
        assert answers[-1] == poll


def test_terminate_passes_a_long_poll(busy):
    with Client(busy.url) as c:
        c.start("p", ["sleep", "1000"])
        poll = c.request("process/read", {"processId": "p", "waitMs": 60000})
        assert c.call("process/terminate", {"processId": "p"}) == {"running": True}
        assert c.result(poll)["exited"] is True


def test_many_long_polls_hold_back_nothing(busy):
    with Client(busy.url) as c:
        c.start("p", ["cat"], pipeStdin=True)
        polls = [c.request("process/read", {"processId": "p", "waitMs": 60000}) for _ in range(100)]
        assert c.run(["echo", "other"])[0] == b"other\n"
        assert c.write("p", b"wake\n", "w1") == "accepted"
        for poll in polls:
            assert c.result(poll)["chunks"][0]["seq"] == 1


def test_notifications_are_not_held_back_by_a_waiting_request(busy):
    with Client(busy.url) as c:
        c.start("quiet", ["sleep", "1000"])
        poll = c.request("process/read", {"processId": "quiet", "waitMs": 60000})
        assert c.run(["echo", "x"])[0] == b"x\n"
        assert not any(m.get("id") == poll for m in c.messages)


def test_pipelined_requests_are_matched_by_id(busy):
    with Client(busy.url) as c:
        idents = [c.request("environment/status") for _ in range(1000)]
        for ident in idents:
            assert c.result(ident) == {"status": "ready"}


def test_the_answer_to_start_precedes_the_first_output(busy):
    with Client(busy.url) as c:
        for i in range(50):
            c.run(["echo", "x"], process_id=f"p{i}")
            started = next(n for n, m in enumerate(c.messages)
                           if m.get("result", {}).get("processId") == f"p{i}")
            first = c.messages.index(c.events(f"p{i}")[0])
            assert started < first
            c.check_seq(f"p{i}")


def test_connections_are_independent(busy):
    with Client(busy.url) as a, Client(busy.url) as b:
        a.start("p", ["sleep", "1000"])
        a.request("process/read", {"processId": "p", "waitMs": 60000})
        assert b.call("environment/status") == {"status": "ready"}
        assert b.error("process/read", {"processId": "p"}).message == "unknown process id p"


def test_strings_are_escaped_as_json_wants(client):
    name = "\"\\\b\f\n\r\t\x01\x1f\x7f\u2028\N{GRINNING FACE}"
    assert client.error("process/read", {"processId": name}).message == f"unknown process id {name}"
    assert json.loads(json.dumps(name)) == name
