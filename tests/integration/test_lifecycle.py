"""initialize, initialized and everything else, in every wrong order; what initialize answers; the example session."""

import re

import pytest

from farhand_client import Client, Server

START = {"processId": "a", "argv": ["/bin/sh", "-c", "true"], "cwd": "file:///tmp", "env": {"PATH": "/usr/bin:/bin"},
         "tty": False, "pipeStdin": False, "arg0": None}

# Method, params that decode, family in the error text.
FAMILIES = [
    ("process/start", START, "exec"),
    ("process/read", {"processId": "a"}, "exec"),
    ("process/write", {"processId": "a", "chunk": "", "writeId": "1"}, "exec"),
    ("process/signal", {"processId": "a", "signal": "interrupt"}, "exec"),
    ("process/terminate", {"processId": "a"}, "exec"),
    ("environment/info", {}, "environment info"),
    ("environment/status", {}, "environment status"),
]

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


@pytest.fixture
def fresh(server):
    with Client(server.url, init=False) as c:
        yield c


@pytest.mark.parametrize("method,params,family", FAMILIES)
def test_before_initialize(fresh, method, params, family):
    error = fresh.error(method, params)
    assert (error.code, error.message) == (-32600, f"client must call initialize before using {family} methods")


@pytest.mark.parametrize("method,params,family", FAMILIES)
def test_between_initialize_and_initialized(fresh, method, params, family):
    fresh.initialize(send_initialized=False)
    error = fresh.error(method, params)
    assert (error.code, error.message) == (-32600, f"client must send initialized before using {family} methods")
    fresh.notify("initialized")
    assert fresh.call("environment/status") == {"status": "ready"}


def test_params_are_decoded_before_the_lifecycle_check(fresh):
    error = fresh.error("process/start", {})
    assert (error.code, error.message) == (-32602, "missing field `processId`")


@pytest.mark.parametrize("params,code,text", [
    ({}, -32602, "missing field `clientName`"),
    (None, -32602, None),
    ([], -32602, None),
    ({"clientName": 5}, -32602, None),
    ({"clientName": None}, -32602, None),
    ({"clientName": "x", "resumeSessionId": 5}, -32602, None),
    ({"clientName": "x", "resumeSessionId": "no-such"}, -32600, "unknown session id no-such"),
    ({"clientName": "x", "resumeSessionId": ""}, -32600, "unknown session id "),
    ({"clientName": "x", "takeover": "yes"}, -32602, "takeover"),
    ({"clientName": "x", "detachMs": "1"}, -32602, "detachMs"),
    ({"clientName": "x", "detachMs": -1}, -32602, "detachMs"),
    ({"clientName": "x", "detachMs": 1.5}, -32602, "detachMs"),
    ({"clientName": "x", "maxMessageBytes": "big"}, -32602, "maxMessageBytes"),
])
def test_a_failed_initialize_may_be_repeated(fresh, params, code, text):
    error = fresh.error("initialize", params)
    assert error.code == code
    if text is not None:
        assert text in error.message
    fresh.initialize()
    assert fresh.call("environment/status") == {"status": "ready"}


def test_a_failed_initialize_does_not_open_the_rest(fresh):
    fresh.error("initialize", {})
    assert fresh.error("environment/status").message == \
        "client must call initialize before using environment status methods"


def test_a_second_initialize_is_refused(fresh):
    fresh.initialize(send_initialized=False)
    for _ in range(2):
        error = fresh.error("initialize", {"clientName": "again"})
        assert (error.code, error.message) == (-32600, "initialize may only be sent once per connection")
        fresh.notify("initialized")
    assert fresh.call("environment/status") == {"status": "ready"}


def test_initialized_ignores_its_params_and_may_be_repeated(fresh):
    fresh.initialize(send_initialized=False)
    for params in ({"anything": [1]}, None, [], 5, "x"):
        fresh.notify("initialized", params)
    assert fresh.call("environment/status") == {"status": "ready"}


def test_requests_may_follow_initialized_without_a_pause(fresh):
    fresh.send_json({"id": 1, "method": "initialize", "params": {"clientName": "hasty"}})
    fresh.send_json({"method": "initialized"})
    fresh.send_json({"id": 2, "method": "environment/status"})
    assert "sessionId" in fresh.result(1)
    assert fresh.result(2) == {"status": "ready"}


@pytest.mark.parametrize("params", [{"clientName": ""}, {"clientName": "x" * 10000},
                                    {"clientName": "codex-environment", "resumeSessionId": None},
                                    {"clientName": "x", "future": {"a": [1]}},
                                    {"clientName": "x", "takeover": None, "detachMs": None, "maxMessageBytes": None},
                                    {"clientName": "\N{SNOWMAN}\n"}])
def test_accepted_initialize_params(fresh, params):
    assert "sessionId" in fresh.call("initialize", params)


def test_the_result_of_initialize(client):
    result = client.init_result
    assert re.fullmatch(UUID, result["sessionId"])
    assert result["environmentInfo"] == client.call("environment/info")
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", result["serverId"])
    assert result["sessionId"][:8] == result["serverId"][:8]
    assert result["detachMs"] == 30000
    assert result["limits"] == {"maxMessageBytes": 134217728, "maxFrameBytes": result["limits"]["maxFrameBytes"],
                                "retainedOutputBytesPerProcess": 1048576, "maxProcessesPerSession": 1024}
    assert result["limits"]["maxFrameBytes"] >= 1 << 20


def test_the_handshake_lists_capabilities(client):
    info = client.init_result["environmentInfo"]
    assert {"name", "path"} <= set(info["shell"])
    assert all(isinstance(v, bool) for v in info["capabilities"].values())
    # Not offered, so no client may be led to use them.
    for name in ("credentialMasking", "capabilityDiscoveryV2"):
        assert info["capabilities"].get(name, False) is False


def test_every_initialize_makes_its_own_session(server):
    with Client(server.url) as a, Client(server.url) as b:
        assert a.session_id != b.session_id
        assert a.init_result["serverId"] == b.init_result["serverId"]


def test_the_server_id_is_of_one_life():
    ids = set()
    for _ in range(2):
        with Server() as s, Client(s.url) as c:
            ids.add(c.init_result["serverId"])
    assert len(ids) == 2


# Three generations of clients (docs/PROTOCOL.md, "Client generations"), at once on one server


def test_three_client_generations_at_once(server):
    with Client(server.url, name="april", init=False) as april, \
         Client(server.url, name="june", init=False) as june, \
         Client(server.url, name="current", init=False) as current:
        for c in (april, june, current):
            c.send_json({"id": 1, "method": "initialize",
                         "params": {"clientName": "codex-environment", "resumeSessionId": None}})
            assert "sessionId" in c.result(1)
            c.send_json({"method": "initialized", "params": {}})
        base = {"processId": "1", "argv": ["/bin/cat"], "env": {"PATH": "/usr/bin:/bin"}, "tty": False,
                "pipeStdin": True, "arg0": None}
        # April: native path, no writeId. June: native or URI, params:null. Current: URI, sandbox:null, metadata.
        assert april.call("process/start", {**base, "cwd": "/tmp"})["processId"] == "1"
        june.send_json({"id": 2, "method": "environment/info", "params": None})
        assert "shell" in june.result(2)
        assert june.call("process/start", {**base, "cwd": "file:///tmp", "sandbox": None,
                                           "enforceManagedNetwork": False})["processId"] == "1"
        result = current.call("process/start", {**base, "cwd": "file:///tmp", "sandbox": None, "envPolicy": None,
                                                "managedNetwork": None, "metadata": {"threadId": "t"}})
        assert result["sandboxType"] == "none"
        assert april.call("process/write", {"processId": "1", "chunk": "aGk="}) == {"status": "accepted"}
        for c in (june, current):
            assert c.write("1", b"hi", "w-1") == "accepted"
        for c in (april, june, current):
            assert c.wait_output("1", b"hi") == b"hi"
            read = c.read("1", afterSeq=0, maxBytes=None, waitMs=0)
            assert [ch["seq"] for ch in read["chunks"]] == [1]
            assert read["failure"] is None and read["sandboxDenied"] is False
            assert c.call("process/terminate", {"processId": "1"}) == {"running": True}
            assert c.wait_exit("1")["sandboxDenied"] is False
            c.wait_closed("1")
            c.check_seq("1")


# The example session of the protocol's description; the client's side is sent word for word.

EXAMPLE_INITIALIZE = r'{"id":1,"method":"initialize","params":{"clientName":"example-client"}}'
EXAMPLE_INITIALIZED = r'{"method":"initialized","params":{}}'
EXAMPLE_START = (
    r'{"id":2,"method":"process/start","params":{"processId":"proc-1","argv":["bash","-lc",'
    r'''"printf 'ready\\n'; while IFS= read -r line; do printf 'echo:%s\\n' \"$line\"; done"],'''
    r'"cwd":"/tmp","env":{"PATH":"/usr/bin:/bin"},"tty":true,"pipeStdin":false,"arg0":null}}')
EXAMPLE_WRITE = r'{"id":3,"method":"process/write","params":{"processId":"proc-1","chunk":"aGVsbG8K"}}'
EXAMPLE_TERMINATE = r'{"id":4,"method":"process/terminate","params":{"processId":"proc-1"}}'


def test_the_example_session(fresh):
    fresh.send_raw(EXAMPLE_INITIALIZE)
    assert isinstance(fresh.result(1), dict)
    fresh.send_raw(EXAMPLE_INITIALIZED)
    fresh.send_raw(EXAMPLE_START)
    assert fresh.result(2)["processId"] == "proc-1"
    # A terminal turns LF into CRLF, and echoes what is typed.
    assert fresh.wait_output("proc-1", b"ready\r\n").endswith(b"ready\r\n")
    fresh.send_raw(EXAMPLE_WRITE)
    assert fresh.result(3) == {"status": "accepted"}
    assert fresh.wait_output("proc-1", b"echo:hello\r\n").endswith(b"hello\r\necho:hello\r\n")
    fresh.send_raw(EXAMPLE_TERMINATE)
    assert fresh.result(4) == {"running": True}
    fresh.wait_exit("proc-1")
    fresh.wait_closed("proc-1")
    fresh.check_seq("proc-1")
    assert {m["params"]["stream"] for m in fresh.events("proc-1") if m["method"] == "process/output"} == {"pty"}
