"""The schemas of the protocol (docs/schema/index.json): they are whole, and the recorded conversations are valid.

What our server sends and takes is held against them in tests/integration/test_schema_live.py.
"""

import json
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "integration"))

from schema_rig import (AS_IS, FILES, INDEX, METHODS, OWN, PARTIAL, REQUESTS, STRICT, TO_CLIENT, TO_SERVER, answer_faults, faults,  # noqa: E402
                        is_valid, notification_faults, params_ref)

RECORDINGS = sorted((ROOT / "tests" / "conformance").glob("*.jsonl"))


# --- the index


def method_tables():
    """The names in the tables of methods, which are arrays of struct method."""
    found = set()
    for path in sorted((ROOT / "src").glob("*/*.c")):
        text = path.read_text(encoding="utf-8")
        for table in re.findall(r"^const struct method \w+\[\] = \{\n(.*?)^\};", text, re.M | re.S):
            found.update(re.findall(r"(?:_METHOD\w*\(|\.name = )\"([^\"]+)\"", table))
    return found


def sent_notifications():
    found = set()
    for path in sorted((ROOT / "src").glob("*/*.c")):
        if not path.name.endswith("_test.c"):
            found.update(re.findall(r"notify_begin\([^;\"]*\"([a-zA-Z/]+)\"", path.read_text(encoding="utf-8")))
    return found


def test_the_index_has_the_methods_of_the_server():
    tables = method_tables()
    assert {"initialize", "process/start", "fs/readFile", "http/request"} <= tables
    assert set(METHODS) == tables


def test_the_index_has_the_notifications_of_the_server():
    assert set(TO_CLIENT) == sent_notifications()
    assert set(TO_SERVER) == {"initialized"}


def test_the_index_has_the_requests_of_the_server():
    found = set()
    for path in sorted((ROOT / "src").glob("*/*.c")):
        if not path.name.endswith("_test.c"):
            found.update(re.findall(r"inquiry_begin\([^;\"]*\"([a-zA-Z/]+)\"", path.read_text(encoding="utf-8")))
    assert set(REQUESTS) == found


def test_the_document_tells_of_every_method_and_notification():
    text = (ROOT / "docs" / "PROTOCOL.md").read_text(encoding="utf-8")
    assert [name for name in [*METHODS, *REQUESTS, *TO_CLIENT, *TO_SERVER] if name not in text] == []


def definition(ref):
    file, _, name = ref.partition("#/$defs/")
    return FILES[file]["$defs"][name] if name else FILES[file]


def test_every_reference_of_the_index_leads_somewhere():
    for entry in [*METHODS.values(), *TO_CLIENT.values(), *TO_SERVER.values()]:
        for key in {"params", "result", "errorData"} & set(entry):
            assert definition(entry[key]["$ref"])
    assert definition(INDEX["envelope"]["$ref"])


def objects(schema):
    if isinstance(schema, dict):
        yield schema
        for item in schema.values():
            yield from objects(item)
    elif isinstance(schema, list):
        for item in schema:
            yield from objects(item)


def test_what_is_required_is_described():
    for name, file in FILES.items():
        for schema in objects(file):
            if name != "entries.json" and schema.get("type") == "object" and "properties" in schema and "allOf" not in schema:
                known = set(schema["properties"])
                assert set(schema.get("required", [])) <= known, (name, schema)
                assert set(schema.get(OWN, [])) <= known, (name, schema)


def test_names_of_definitions_are_unique():
    """Programs make types of them. Those of permission profiles are parts that have no type of their own."""
    names = [key for file in FILES.values() for key in file.get("$defs", {}) if key[0].isupper()]
    assert len(names) == len(set(names))


# --- the recorded conversations


def without_stars(value):
    """Without the members for which a recording takes any value."""
    if isinstance(value, dict):
        return {key: without_stars(item) for key, item in value.items() if item != "*"}
    return [without_stars(item) for item in value] if isinstance(value, list) else value


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").replace("@DIR@", "/w").splitlines()]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_what_clients_sent_is_valid(path):
    count = 0
    for line in lines_of(path):
        if line["dir"] != "c2s":
            continue
        message = line["msg"]
        count += 1
        assert faults("envelope.json", message) == []
        if "id" in message:
            assert faults(params_ref(message["method"]), message.get("params")) == []
        else:
            assert notification_faults(message, TO_SERVER) == []
    assert count >= 5


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_what_servers_answered_is_valid(path):
    """A recording has the members that matter, and not always all: what is there must be valid."""
    methods, count = {}, 0
    for line in lines_of(path):
        if line["dir"] == "c2s" and "id" in line["msg"]:
            methods[line["msg"]["id"]] = line["msg"]["method"]
        if line["dir"] != "s2c" or "msg" not in line:
            continue
        message = without_stars(line["msg"])
        count += 1
        if "method" in message:
            assert notification_faults(message, form=PARTIAL) == []
        else:
            assert answer_faults(methods[message["id"]], message, PARTIAL) == []
    assert count > 2


# What servers of other generations send: valid, and less than ours sends.
OLDER = [
    ("initialize", {"sessionId": "x"}),
    ("environment/info", {"shell": {"name": "bash", "path": "/bin/bash"}}),
    ("process/start", {"processId": "p"}),
    ("process/read", {"chunks": [], "nextSeq": 3, "exited": True, "exitCode": 0, "closed": False, "failure": None}),
    ("fs/writeFile", {}),
    ("fs/getMetadata", {"isDirectory": False, "isFile": True, "isSymlink": False, "createdAtMs": 0, "modifiedAtMs": 1}),
]


@pytest.mark.parametrize("method, result", OLDER, ids=[method for method, _ in OLDER])
def test_what_older_servers_leave_out_is_optional(method, result):
    assert answer_faults(method, {"id": 1, "result": result}, AS_IS) == []
    assert answer_faults(method, {"id": 1, "result": result}, STRICT) != []
    if result:
        less = dict(list(result.items())[1:])
        assert answer_faults(method, {"id": 1, "result": less}, AS_IS) != []


def test_older_servers_say_less_of_an_exit():
    told = {"method": "process/exited", "params": {"processId": "p", "seq": 2, "exitCode": 0}}
    assert notification_faults(told, form=AS_IS) == []
    assert notification_faults(told, form=STRICT) != []


# --- that the schemas refuse something


@pytest.mark.parametrize("value", [
    [], {}, {"id": None, "method": "x"}, {"id": 1.5, "method": "x"}, {"id": 1}, {"id": 1, "method": 3},
    {"id": 1, "result": {}, "error": {"code": -32600, "message": "x"}}, {"id": 1, "error": {"code": -32600}},
    {"id": 1, "error": {"code": 1, "message": "x"}}, {"error": {"code": -32600, "message": "x"}}, {"id": 2 ** 63, "method": "x"},
])
def test_what_is_no_message(value):
    assert not is_valid("envelope.json", value)


START = {"processId": "p", "argv": ["true"], "cwd": "/", "env": {}, "tty": False}


@pytest.mark.parametrize("method, params", [
    ("initialize", {}), ("initialize", {"clientName": 1}), ("initialize", {"clientName": "x", "notifications": None}),
    ("environment/info", {"x": 1}), ("environment/info", []),
    ("process/start", {**START, "argv": []}), ("process/start", {**START, "cwd": "tmp"}),
    ("process/start", {**START, "env": {"": "x"}}), ("process/start", {**START, "env": {"A=B": "x"}}),
    ("process/start", {k: v for k, v in START.items() if k != "tty"}), ("process/start", {**START, "networkProxy": {}}),
    ("process/start", {**START, "permissions": {"type": "disabled"}}),
    ("process/start", {**START, "sandbox": {"permissions": {"type": "disabled"}}, "enforceManagedNetwork": True}),
    ("process/start", {**START, "sandbox": {"permissions": {"type": "disabled"}}, "kind": "prepared"}),
    ("process/start", {**START, "limits": {"wallMs": 0}}), ("process/start", {**START, "io": {"type": "pipe"}}),
    ("process/write", {"processId": "p", "chunk": "aGk"}), ("process/write", {"processId": "p", "chunk": "aGl=", "writeId": "w"}),
    ("process/write", {"processId": "p", "chunk": "", "writeId": ""}), ("process/signal", {"processId": "p", "signal": 65}),
    ("process/terminate", {"processId": "p", "mode": {"type": "graceful"}}), ("process/resize", {"processId": "p", "rows": 0, "cols": 1}),
    ("fs/open", {"handleId": "h", "path": "/", "mode": None}), ("fs/copy", {"sourcePath": "/a", "destinationPath": "/b"}),
    ("fs/writeFile", {"path": "/a", "dataBase64": "", "ifMatch": {}}),
    ("fs/writeFile", {"path": "/a", "dataBase64": "", "ifMatch": {"absent": True, "size": 1}}),
    ("fs/watch", {"watchId": "", "path": "/"}), ("fs/watchMissing", {"watchId": "w", "missing": []}),
    ("environmentConfig/read", {"cwd": "/", "configPaths": [], "requirementsPaths": []}),
    ("environmentConfig/read", {"cwd": "/", "configPaths": [[]], "requirementsPaths": []}),
])
def test_mistakes_in_params(method, params):
    assert not is_valid(params_ref(method), params)


@pytest.mark.parametrize("method, result", [
    ("process/write", {"status": "done"}), ("process/terminate", {}), ("environment/status", {"status": "busy"}),
    ("process/wait", {"exited": True, "exitCode": 0, "closed": True, "nextSeq": 4, "sandboxDenied": False, "timedOut": False}),
    ("process/wait", {"exited": False, "exitCode": 0, "closed": False, "nextSeq": 4, "sandboxDenied": False, "timedOut": True}),
    ("fs/readFile", {"dataBase64": "AAAA!"}), ("fs/canonicalize", {"path": "/native"}), ("fs/readLink", {}),
    ("fs/remove", None), ("http/request", {"status": "200", "headers": [], "bodyBase64": ""}),
])
def test_mistakes_in_results(method, result):
    assert answer_faults(method, {"id": 1, "result": result}, AS_IS) != []
