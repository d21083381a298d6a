"""Texts of many megabytes where a word is expected: ids, names, keys, paths.

Each gets an answer, which repeats at most the beginning of the text; nothing of the text is kept, and the connection stays.
"""

import copy
import json

import pytest

from farhand_client import DEFAULT_ENV, RawSocket, Server
from fs_helpers import KIB, MIB, status_kib

ID_BYTES = 1024
LONG = "x" * (2 * MIB)
ANSWER_BYTES = 16 * KIB


@pytest.fixture(scope="module")
def server():
    with Server() as s:
        yield s


@pytest.fixture
def raw(server):
    with RawSocket(server.port, timeout=60) as r:
        r.initialize()
        yield r
        assert r.rpc(1, "environment/status")["result"] == {"status": "ready"}


def ask(raw, message):
    """Sends a message of any length and returns the answer."""
    raw.frame(1, json.dumps(message).encode() if isinstance(message, dict) else message)
    answer = raw.read_message()
    assert len(json.dumps(answer)) <= ANSWER_BYTES
    return answer


@pytest.mark.parametrize("size", [2, 70], ids=lambda size: f"{size} MiB")
@pytest.mark.parametrize("method", ["fs/getMetadata", "no/such"])
def test_an_id_that_is_too_long_is_refused(raw, method, size):
    """An answer that repeats an id of 70 MiB would be longer than clients read."""
    answer = ask(raw, {"id": "x" * (size * MIB), "method": method, "params": {"path": "/"}})
    assert answer["id"] == -1 and answer["error"]["code"] == -32600
    assert answer["error"]["message"].endswith(f"id is longer than {ID_BYTES} bytes")


def test_the_longest_id_is_echoed(raw):
    for ident in ("i" * ID_BYTES, "\u00e4" * (ID_BYTES // 2), "\x01" * ID_BYTES):
        raw.text({"id": ident, "method": "environment/status"})
        assert raw.read_message() == {"id": ident, "result": {"status": "ready"}}
        raw.text({"id": ident + "i", "method": "environment/status"})
        assert raw.read_message()["id"] == -1


@pytest.mark.parametrize("digits", [40, 2 * MIB])
def test_a_number_of_many_digits_is_no_id(raw, digits):
    answer = ask(raw, b'{"id":' + b"1" * digits + b',"method":"environment/status"}')
    assert answer["id"] == -1 and answer["error"]["code"] == -32600


def test_a_method_of_many_bytes_is_unknown(raw):
    answer = ask(raw, {"id": 5, "method": LONG})
    assert answer["id"] == 5 and answer["error"]["code"] == -32601
    answer = ask(raw, {"method": LONG})
    assert answer["id"] == -1 and answer["error"]["code"] == -32600


def test_keys_of_many_bytes(raw):
    answer = ask(raw, {"id": 5, "method": "environment/status", LONG: 1})
    assert answer["id"] == 5
    answer = ask(raw, {"id": 5, "method": "fs/getMetadata", "params": {"path": "/", LONG: 1}})
    assert answer["id"] == 5
    answer = ask(raw, b'{"id":5,"method":"environment/status","' + LONG.encode() + b'":1,"' + LONG.encode()[1:] + b'":2}')
    assert answer["id"] == 5


START = {"processId": "p", "argv": ["/bin/true"], "cwd": "/", "env": DEFAULT_ENV, "tty": False, "pipeStdin": False,
         "arg0": None}
SANDBOX = {"permissions": {"type": "managed", "network": "restricted", "file_system": {"type": "restricted", "entries": [
    {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"},
    {"path": {"type": "path", "path": "/none"}, "access": "deny"},
    {"path": {"type": "glob_pattern", "pattern": "/none/*"}, "access": "deny"}]}},
    "cwd": "/", "workspaceRoots": ["/none"], "windowsSandboxLevel": "disabled"}
REQUESTS = [
    ("initialize", {"clientName": "x", "resumeSessionId": "x"}),
    ("process/start", {**START, "sandbox": SANDBOX}),
    ("process/start", START),
    ("process/read", {"processId": "p", "afterSeq": 0, "maxBytes": 1, "waitMs": 0}),
    ("process/write", {"processId": "p", "chunk": "eA==", "writeId": "w"}),
    ("process/terminate", {"processId": "p", "mode": {"type": "graceful", "timeoutMs": 1}}),
    ("process/signal", {"processId": "p", "signal": "interrupt"}),
    ("process/resize", {"processId": "p", "size": {"rows": 1, "cols": 1}}),
    ("process/closeStdin", {"processId": "p"}),
    ("fs/readFile", {"path": "/none", "sandbox": SANDBOX}),
    ("fs/writeFile", {"path": "/dev/null/none", "dataBase64": "eA==", "ifMatch": {"digest": "sha256:x"}}),
    ("fs/copy", {"sourcePath": "/none", "destinationPath": "/dev/null/none", "recursive": False}),
    ("fs/rename", {"sourcePath": "/none", "destinationPath": "/dev/null/none"}),
    ("fs/symlink", {"path": "/dev/null/none", "target": "x"}),
    ("fs/walk", {"path": "/none", "options": {"maxDepth": 1, "maxDirectories": 1, "maxEntries": 1,
                                              "followDirectorySymlinks": False}}),
    ("fs/open", {"handleId": "h", "path": "/none", "mode": "read"}),
    ("fs/readBlock", {"handleId": "h", "offset": 0, "len": 1}),
    ("fs/writeBlock", {"handleId": "h", "offset": 0, "chunk": "eA=="}),
    ("fs/close", {"handleId": "h"}),
    ("fs/watch", {"watchId": "w", "path": "/none"}),
    ("fs/unwatch", {"watchId": "w"}),
    ("http/request", {"requestId": "r", "method": "GET", "url": "http://127.0.0.1:1/", "headers": [
        {"name": "a", "value": "b"}], "timeoutMs": 1}),
    ("process/wait", {"processId": "p", "timeoutMs": 1}),
    ("process/snapshot", {"processId": "p"}),
    ("capabilityRoots/discoverV1", {"roots": [{"id": "r", "path": "/none"},
                                                       {"id": "r", "path": "file:///C:/none"}]}),
]


def places(value, way=()):
    """The paths, as tuples of keys, to all strings and all keys of a JSON value."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield (*way, (key,))
            yield from places(below, (*way, key))
    elif isinstance(value, list):
        for n, below in enumerate(value):
            yield from places(below, (*way, n))
    elif isinstance(value, str):
        yield way


def with_long(value, way, text):
    """A copy of `value` in which `text` replaces the string or the key at the path `way`."""
    value = copy.deepcopy(value)
    at = value
    for step in way[:-1]:
        at = at[step]
    if isinstance(way[-1], tuple):
        at[text] = at.pop(way[-1][0])
    else:
        at[way[-1]] = text
    return value


@pytest.mark.parametrize("method,params", REQUESTS, ids=[method for method, _ in REQUESTS])
def test_texts_of_many_bytes_in_params(server, method, params):
    text = "x" * (256 * KIB)
    for way in places(params):
        for long in (text, "/" + text, "file:///" + text, "file:///C:/" + text):
            with RawSocket(server.port, timeout=60) as raw:
                if method == "initialize":
                    raw.upgrade()
                else:
                    raw.initialize()
                answer = ask(raw, {"id": 7, "method": method, "params": with_long(params, way, long)})
                while "method" in answer:  # a notification of a process or a watch
                    answer = raw.read_message()
                assert answer["id"] == 7, (way, answer)


def test_nothing_of_it_is_kept(server):
    if "asan" in server.argv[0]:
        pytest.skip("sanitizers keep what was freed")
    with RawSocket(server.port, timeout=60) as raw:
        raw.initialize()
        for n in range(25):
            ask(raw, {"id": 5, "method": "process/read", "params": {"processId": LONG + str(n)}})
            ask(raw, {"id": LONG + str(n), "method": "process/read", "params": {"processId": "p"}})
        assert status_kib(server.pid, "VmRSS") < 64 * KIB
