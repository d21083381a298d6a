"""`farhand mcp` as a server of the Model Context Protocol: handshake, versions, batches, the list of tools, what is no message."""

import json
import os

import jsonschema
import pytest

from mcp_rig import LATEST, Mcp, text_of

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
OPEN = ("--no-sandbox",)
NOT_A_MESSAGE, UNKNOWN_METHOD, BAD_PARAMS, NOT_JSON = -32600, -32601, -32602, -32700


@pytest.fixture(scope="module")
def m():
    with Mcp(*OPEN) as one:
        yield one


def raw_error(one, text):
    """Returns the code of the error without an id that comes of a line."""
    one.answers.pop("null", None)
    one.send_raw(text + "\n")
    return one.until(lambda: one.answers.get("null"))["error"]["code"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_version_that_the_client_asks_for(version):
    with Mcp(*OPEN, version=version) as one:
        assert one.server["protocolVersion"] == version
        assert one.server["serverInfo"]["name"] == "farhand" and one.server["capabilities"]["tools"] == {} and one.server["instructions"]
        tools = {tool["name"]: tool for tool in one.request("tools/list")["tools"]}
        result = one.wait(one.start_exec("echo hello"))
        assert text_of(result).endswith("Output:\nhello\n")
        is_new = version >= "2025-06-18"
        assert ("structuredContent" in result) == ("outputSchema" in tools["exec_command"]) == ("title" in tools["exec_command"]) == is_new
        assert ("annotations" in tools["exec_command"]) == (version >= "2025-03-26")


@pytest.mark.parametrize("version", ["1.0", "2024-10-07", "2099-01-01", ""])
def test_an_unknown_version_is_answered_with_the_newest(version):
    with Mcp(*OPEN, version=version) as one:
        assert one.server["protocolVersion"] == LATEST


def test_nothing_but_ping_before_initialize():
    with Mcp(*OPEN, begin=False) as one:
        assert one.request("ping") == {}
        assert one.refusal("tools/list")[0] == NOT_A_MESSAGE
        assert one.refusal("tools/call", {"name": "exec_command", "arguments": {"cmd": "touch made"}})[0] == NOT_A_MESSAGE
        assert one.refusal("initialize", {"capabilities": {}})[0] == BAD_PARAMS
        assert one.initialize(LATEST)["protocolVersion"] == LATEST
        assert one.refusal("initialize", {"protocolVersion": LATEST})[0] == NOT_A_MESSAGE
        assert not os.path.exists(os.path.join(one.work, "made"))


def test_the_list_of_tools_has_good_schemas(m):
    tools = {tool["name"]: tool for tool in m.request("tools/list", {})["tools"]}
    assert {"exec_command", "write_stdin", "apply_patch"} <= set(tools)
    for tool in tools.values():
        for schema in (tool["inputSchema"], tool["outputSchema"]):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object" and set(schema["required"]) <= set(schema["properties"])
        assert tool["description"] and set(tool["annotations"]) == {"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        assert "environment_id" not in tool["inputSchema"]["properties"]  # there is only one environment
    jsonschema.validate(m.exec("echo x"), tools["exec_command"]["outputSchema"])
    assert m.refusal("tools/list", {"cursor": "x"})[0] == BAD_PARAMS


def test_read_only_is_told():
    with Mcp("--read-only") as one:
        tools = {tool["name"]: tool["annotations"] for tool in one.request("tools/list")["tools"]}
        assert tools["exec_command"]["readOnlyHint"] and not tools["exec_command"]["destructiveHint"]


def test_unknown_methods_tools_and_params(m):
    assert m.refusal("foo/bar") == (UNKNOWN_METHOD, "unknown method `foo/bar`")
    assert m.refusal("resources/list")[0] == UNKNOWN_METHOD
    assert m.refusal("x" * 100000)[0] == UNKNOWN_METHOD
    assert m.refusal("tools/call", {"name": "nope", "arguments": {}}) == (BAD_PARAMS, "tool not found")
    assert m.refusal("tools/call", {"arguments": {}})[0] == BAD_PARAMS
    assert m.refusal("tools/call", {"name": 7})[0] == BAD_PARAMS
    assert m.refusal("tools/call")[0] == BAD_PARAMS
    assert m.refusal("tools/call", {"name": "exec_command", "arguments": []})[0] == BAD_PARAMS
    assert "missing field" in m.failure("exec_command")  # arguments are the tool's: the model reads what is wrong with them
    assert "unknown field" in m.failure("exec_command", cmd="true", nope=1)
    assert m.request("ping") == {}


@pytest.mark.parametrize("text, code", [
    ("{", NOT_JSON), ("nonsense", NOT_JSON), ('{"id":1,"method":"pi\xff', NOT_JSON), ("7", NOT_A_MESSAGE), ('"text"', NOT_A_MESSAGE),
    ('{"jsonrpc":"2.0","id":null,"method":"ping"}', NOT_A_MESSAGE), ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', NOT_A_MESSAGE),
    ('{"jsonrpc":"2.0","id":{},"method":"ping"}', NOT_A_MESSAGE), ('{"jsonrpc":"2.0","id":1,"method":7}', NOT_A_MESSAGE),
    ("{}", NOT_A_MESSAGE), ("[]", NOT_A_MESSAGE), ('[{"jsonrpc":"2.0","id":77,"method":"ping"}]', NOT_A_MESSAGE), ("[" * 200, NOT_JSON),
])
def test_what_is_no_message_gets_an_error_and_the_next_is_read(m, text, code):
    assert raw_error(m, text) == code
    assert m.request("ping") == {} and "77" not in m.answers


def test_a_line_that_is_too_long(m):
    assert raw_error(m, " " * (17 * 1024 * 1024)) == NOT_A_MESSAGE
    assert m.request("ping") == {}


def test_unknown_notifications_and_answers_to_nothing_are_ignored(m):
    before = len(m.lines)
    m.note("notifications/what")
    m.note("notifications/cancelled", {"requestId": "none"})
    m.note("notifications/cancelled")
    m.note("notifications/roots/list_changed")
    m.send({"id": 1, "result": {"roots": [{"uri": "file:///"}]}})
    m.send({"id": 4711, "error": {"code": 1, "message": "x"}})
    assert m.request("ping") == {} and len(m.lines) == before + 1


def test_ids_keep_their_type(m):
    for ident in ("text", "7", -5, 2 ** 53, "ü\u0000\n\""):
        m.send({"id": ident, "method": "ping"})
        assert m.wait(ident) == {}


# Batches, which one version has


def test_a_batch_is_answered_as_one():
    with Mcp(*OPEN, version="2025-03-26") as one:
        one.send([{"id": "a", "method": "ping"}, {"method": "notifications/what"}, {"id": "b", "method": "nope"}, {"id": 3.5, "method": "ping"},
                  {"id": "c", "method": "tools/call", "params": {"name": "exec_command", "arguments": {"cmd": "echo in a batch", "login": False}}},
                  {"id": "d", "method": "initialize", "params": {"protocolVersion": LATEST}}])
        assert text_of(one.wait("c")).endswith("in a batch\n")
        batch = one.lines[-1]
        assert isinstance(batch, list) and [answer["id"] for answer in batch] == ["a", "b", None, "d", "c"]
        assert [answer.get("error", {}).get("code") for answer in batch] == [None, UNKNOWN_METHOD, NOT_A_MESSAGE, NOT_A_MESSAGE, None]
        one.send([{"method": "notifications/what"}])  # nothing is answered
        one.send([{"id": "e", "method": "ping"}])
        one.wait("e")
        assert one.lines[-1] == [{"jsonrpc": "2.0", "id": "e", "result": {}}]
        assert raw_error(one, "[]") == NOT_A_MESSAGE and raw_error(one, json.dumps([1] * 65)) == NOT_A_MESSAGE


def test_a_cancelled_call_of_a_batch_has_no_answer():
    with Mcp(*OPEN, version="2025-03-26") as one:
        one.send([{"id": "slow", "method": "tools/call", "params": {"name": "exec_command", "arguments": {"cmd": "sleep 1000", "login": False}}},
                  {"id": "ping", "method": "ping"}])
        one.note("notifications/cancelled", {"requestId": "slow"})
        one.wait("ping")
        assert one.lines[-1] == [{"jsonrpc": "2.0", "id": "ping", "result": {}}]
