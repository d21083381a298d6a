"""Three generations of clients on one server. The conversations stand in tests/conformance; this is their runner.

One JSON object per line. `dir` c2s: `msg` is sent as it is. `dir` s2c waits for one of: `msg`, a message that has at
least these members ("*" stands for any value that is not null); `answer`, any answer to that id; `output`, text in
the output of a process. `@DIR@` is a fresh directory. Lines with `dir` note are for people.
"""

import base64
import concurrent.futures
import json
import os

import pytest

from farhand_client import Server

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "conformance")
FILES = sorted(name for name in os.listdir(FOLDER) if name.endswith(".jsonl"))
APRIL, JUNE, CURRENT = "client-0.125.0.jsonl", "client-0.142.0.jsonl", "client-0.166.0.jsonl"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    # Login shells read the profile of the home directory: an empty one says nothing.
    with Server(env={"HOME": str(tmp_path_factory.mktemp("home"))}) as s:
        yield s


def load(name, directory):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as f:
        return [json.loads(line.replace("@DIR@", directory)) for line in f]


def has(actual, wanted):
    """Objects may have more members than wanted; everything else is equal."""
    if wanted == "*":
        return actual is not None
    if isinstance(wanted, dict):
        return isinstance(actual, dict) and all(k in actual and has(actual[k], v) for k, v in wanted.items())
    if isinstance(wanted, list):
        return isinstance(actual, list) and len(actual) == len(wanted) and all(map(has, actual, wanted))
    return type(actual) is type(wanted) and actual == wanted


def play(client, line):
    if line["dir"] == "c2s":
        client.send_json(line["msg"])
    elif "answer" in line:
        answer = client.response(line["answer"])
        assert ("result" in answer) != ("error" in answer)
    elif "output" in line:
        client.wait_output(line["output"]["processId"], line["output"]["text"].encode())
    elif line["dir"] == "s2c" and "method" in line["msg"]:
        wanted = line["msg"]
        place = {"method": wanted["method"], "params": {"processId": wanted["params"]["processId"]}}
        actual = client.wait_for(lambda m: has(m, place))
        assert has(actual, wanted), (actual, wanted)
    elif line["dir"] == "s2c":
        actual = client.response(line["msg"]["id"])
        assert has(actual, line["msg"]), (actual, line["msg"])


def processes_of(lines):
    starts = [line["msg"] for line in lines if line["dir"] == "c2s" and line["msg"]["method"] == "process/start"]
    return [msg["params"]["processId"] for msg in starts]


def play_all(server, name, directory):
    lines = load(name, directory)
    with server.connect(init=False) as client:
        for line in lines:
            play(client, line)
        for process_id in processes_of(lines):
            client.wait_closed(process_id)
            client.check_seq(process_id)
        assert not client.bad


def test_there_are_conversations_of_every_generation():
    assert {APRIL, JUNE, CURRENT, "seed-example.jsonl"} <= set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_recorded_conversation_is_answered(server, tmp, name):
    play_all(server, name, tmp)


def test_all_generations_at_once_step_by_step(server, tmp):
    players = []
    for name in FILES:
        players.append((server.connect(init=False), load(name, tmp)))
    for step in range(max(len(lines) for _, lines in players)):
        for client, lines in players:
            if step < len(lines):
                play(client, lines[step])
    for client, lines in players:
        for process_id in processes_of(lines):
            client.wait_closed(process_id)
            client.check_seq(process_id)
        client.abort()


def test_all_generations_at_once_and_often(server, tmp):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        runs = [pool.submit(play_all, server, name,
                            tmp) for name in (APRIL, JUNE, CURRENT, "seed-example.jsonl") for _ in range(6)]
        for run in runs:
            run.result()


# The rows of the table of dialects, one by one.


def start_params(cwd, **kw):
    return {"processId": "p", "argv": ["/bin/sh", "-c", "pwd; exec cat"], "cwd": cwd, "env": {"PATH": "/usr/bin:/bin"},
            "tty": False, "pipeStdin": True,
            "arg0": None, **kw}


DIALECTS = {
    "April": ({}, lambda path: path, {}),
    "June": ({"resumeSessionId": None}, lambda path: "file://" + path, {"writeId": "1"}),
    "current": ({"resumeSessionId": None}, lambda path: "file://" + path, {"writeId": "1"}),
    "June, native": ({"resumeSessionId": None}, lambda path: path, {"writeId": "1"}),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_dialect_gets_a_superset_of_what_it_knows(server, tmp, dialect):
    init, spell, write = DIALECTS[dialect]
    with server.connect(init=False) as client:
        result = client.call("initialize", {"clientName": "codex-environment", **init})
        assert isinstance(result["sessionId"], str) and result["environmentInfo"]["shell"]["path"]
        client.notify("initialized", {})
        started = client.call("process/start", start_params(spell(tmp)))
        assert (started["processId"], started["sandboxType"]) == ("p", "none")
        client.wait_output("p", tmp.encode() + b"\n")
        chunk = base64.b64encode(b"hello\n").decode()
        assert client.call("process/write", {"processId": "p", "chunk": chunk, **write}) == {"status": "accepted"}
        client.wait_output("p", b"hello\n")
        assert client.call("process/terminate", {"processId": "p"}) == {"running": True}
        client.wait_closed("p")
        exited = client.wait_exit("p")
        assert (exited["exitCode"], exited["sandboxDenied"]) == (137, False)
        read = client.call("process/read", {"processId": "p", "afterSeq": None, "maxBytes": None, "waitMs": 0})
        assert (read["sandboxDenied"], read["failure"], read["exitCode"]) == (False, None, 137)
        assert read["nextSeq"] == len(client.events("p")) + 1


def test_a_resume_of_an_attached_session_is_retryable(server, client):
    with server.connect(init=False) as other:
        err = other.error("initialize", {"clientName": "codex-environment", "resumeSessionId": client.session_id})
        assert (err.code, err.message) == (-32010,
                                           f"session {client.session_id} is already attached to another connection")
