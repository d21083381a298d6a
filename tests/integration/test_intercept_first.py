"""The first program of an intercepted command, which the server decides about before anything runs: rules, questions, refusals, and what
becomes of an open question when its client, its session or its server ends."""

import os
import signal

import pytest

from farhand_client import Client, RpcError, Server, wait_until

REQUESTED, DECIDE = "process/execRequested", "process/execDecide"
ASK = 'prefix_rule(pattern=["sh"], decision="prompt", justification="why")\n'
ENV = {"PATH": "/usr/bin:/bin"}


def intercept(text, **more):
    return {"rules": [{"name": "a.rules", "text": text}], "onUnmatched": "run", **more}


def params(process_id, argv, options, **more):
    return {"processId": process_id, "argv": argv, "cwd": "file:///tmp", "env": ENV, "tty": False, "intercept": options, **more}


def start(client, process_id, argv, options, **more):
    return client.request("process/start", params(process_id, argv, options, **more))


def requested(client, process_id, decision="ask"):
    return client.wait_for(lambda m: m.get("method") == REQUESTED and m["params"]["processId"] == process_id and
                           m["params"]["decision"] == decision)["params"]


def decide(client, question, decision, **more):
    return client.call(DECIDE, {"processId": question["processId"], "requestId": question["requestId"], "decision": decision, **more})


def open_questions(client, process_id):
    return [p["openQuestions"] for p in client.call("process/list")["processes"] if p["processId"] == process_id]


def wrote(tmp):
    """A command that leaves a file, and that file."""
    return ["sh", "-c", f"echo ran > {tmp}/ran"], f"{tmp}/ran"


def test_a_program_that_a_rule_allows_runs_outside_and_is_counted(client):
    ident = start(client, "p", ["sh", "-c", "echo $0", "me"], intercept('prefix_rule(pattern=["sh"])'))
    assert client.result(ident)["sandboxType"] == "none"
    exited = client.wait_exit("p")
    assert exited["exitCode"] == 0 and exited["intercepted"] == {"run": 0, "escalated": 1, "denied": 0}
    client.wait_closed("p")
    assert client.output("p") == b"me\n"
    assert client.call("process/wait", {"processId": "p"})["intercepted"] == exited["intercepted"]
    assert not [m for m in client.events("p") if m["method"] == REQUESTED]


def test_an_escalated_program_leaves_its_sandbox(client, tmp):
    argv, ran = wrote(tmp)
    sandbox = {"permissions": {"type": "managed", "file_system": {"type": "restricted", "entries": [
        {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}]}, "network": "restricted"}, "cwd": "file:///tmp"}
    client.result(start(client, "boxed", argv, None, sandbox=sandbox))
    assert client.wait_exit("boxed")["exitCode"] != 0 and not os.path.exists(ran)
    ident = start(client, "out", argv, intercept('prefix_rule(pattern=["sh"])'), sandbox=sandbox)
    assert client.result(ident)["sandboxType"] == "none"
    assert client.wait_exit("out")["exitCode"] == 0 and os.path.exists(ran)


@pytest.mark.parametrize("options, text", [
    (intercept('prefix_rule(pattern=["sh"], decision="forbidden")'), "Execution denied: Execution forbidden by policy"),
    (intercept(ASK, onPrompt="deny"), "Execution denied: Execution forbidden by policy"),
    (intercept("", onUnmatched="ask", onPrompt="deny"), "Execution denied: Execution forbidden by policy"),
], ids=["forbidden", "prompt", "unmatched"])
def test_a_denied_program_is_refused_and_nothing_runs(client, tmp, options, text):
    argv, ran = wrote(tmp)
    error = client.error("process/start", params("p", argv, options))
    assert (error.code, error.message, error.data["reason"]) == (-32600, text, "execDenied")
    assert not os.path.exists(ran)
    # The id is free.
    assert client.result(start(client, "p", ["true"], None))


@pytest.mark.parametrize("text, where", [
    ("prefix_rule(", "a.rules:1:"), ("\n\nprefix_rule(pattern=[])\n", "a.rules:3:"), ("x = y\n", "a.rules:1:5: "),
    ('prefix_rule(pattern=["ls"], match=["cat"])', "a.rules:1:"),
], ids=["end", "empty", "name", "example"])
def test_a_mistake_in_the_rules_is_told_with_its_place(client, text, where):
    error = client.error("process/start", params("p", ["true"], intercept(text)))
    assert error.code == -32602 and error.message.startswith(where), error.message


def test_a_question_says_everything_and_the_start_waits(client):
    ident = start(client, "p", ["sh", "-c", "echo ran"], intercept(ASK))
    question = requested(client, "p")
    assert question == {"processId": "p", "requestId": "1", "file": "/usr/bin/sh", "argv": ["sh", "-c", "echo ran"], "cwd": "/tmp",
                        "pid": None, "decision": "ask", "rule": {"name": "a.rules", "line": 1, "justification": "why"}}
    assert not client.has_response(ident) and open_questions(client, "p") == [1]
    assert decide(client, question, "escalate") == {}
    client.result(ident)
    client.wait_closed("p")
    assert client.output("p") == b"ran\n" and open_questions(client, "p") == [0]
    for number in ("1", "0", "01", "2", "", "x", "-1"):
        error = client.error(DECIDE, {"processId": "p", "requestId": number, "decision": "run"})
        assert (error.code, error.message) == (-32600, f"unknown request id {number}")


def test_bytes_that_are_no_text_are_told_as_base64(client, tmp):
    path = os.fsencode(tmp) + b"/d\xff"
    os.mkdir(path)
    # The params of a start are UTF-8. Only the directory, which is a URI, can have other bytes.
    ident = start(client, "p", ["sh", "-c", "pwd"], intercept(ASK), cwd="file://" + tmp + "/d%FF")
    if client.has_response(ident):
        pytest.skip("this server takes no such directory")
    question = requested(client, "p")
    assert question["cwd"] == tmp + "/d\ufffd" and "argvBase64" not in question
    decide(client, question, "escalate")
    client.wait_closed("p")
    assert client.output("p") == path + b"\n"


def test_a_denial_of_a_client_is_the_answer_of_the_start(client, tmp):
    argv, ran = wrote(tmp)
    for n, (reason, text) in enumerate([({}, "Execution denied"), ({"reason": "not this"}, "Execution denied: not this")]):
        ident = start(client, f"p{n}", argv, intercept(ASK))
        decide(client, requested(client, f"p{n}"), "deny", **reason)
        with pytest.raises(RpcError) as error:
            client.result(ident)
        assert (error.value.code, error.value.message) == (-32600, text)
    assert not os.path.exists(ran)


def test_terminate_ends_a_start_that_waits(client, tmp):
    argv, ran = wrote(tmp)
    ident = start(client, "p", argv, intercept(ASK))
    question = requested(client, "p")
    assert client.call("process/terminate", {"processId": "p"}) == {"running": True}
    with pytest.raises(RpcError) as error:
        client.result(ident)
    assert error.value.message == "process p start was cancelled"
    assert requested(client, "p", "withdrawn")["requestId"] == question["requestId"]
    assert client.error(DECIDE, {"processId": "p", "requestId": "1", "decision": "run"}).message == "unknown process id p"
    assert not os.path.exists(ran)


def test_other_requests_wait_for_the_start_and_the_limits_do_not_run(client):
    ident = start(client, "p", ["sh", "-c", "read x; echo $x"], intercept(ASK), pipeStdin=True, limits={"wallMs": 300, "silenceMs": 300})
    question = requested(client, "p")
    write = client.request("process/write", {"processId": "p", "chunk": "aGkK", "writeId": "w"})
    wait = client.request("process/wait", {"processId": "p"})
    wait_until(lambda: open_questions(client, "p") == [1], 1)
    assert not client.has_response(wait)
    decide(client, question, "escalate")
    client.result(ident)
    assert client.result(write) == {"status": "accepted"}
    assert client.result(wait)["reason"] == "exited"
    assert client.output("p") == b"hi\n"


def resumed(server, session):
    def attempt():
        try:
            return Client(server.url, resume=session)
        except RpcError as error:
            assert error.code == -32010
            return None
    return wait_until(attempt, 10, "resume")


def test_a_resumed_client_is_told_and_decides(server):
    client = Client(server.url)
    start(client, "p", ["sh", "-c", "echo ran"], intercept(ASK))
    question = requested(client, "p")
    client.abort()
    with resumed(server, client.session_id) as again:
        assert requested(again, "p") == question
        decide(again, question, "escalate")
        assert again.call("process/wait", {"processId": "p"})["exitCode"] == 0
        assert again.read("p")["chunks"]


def test_a_resumed_client_denies(server, tmp):
    argv, ran = wrote(tmp)
    client = Client(server.url)
    start(client, "p", argv, intercept(ASK))
    requested(client, "p")
    client.abort()
    with resumed(server, client.session_id) as again:
        decide(again, requested(again, "p"), "deny")
        assert again.error("process/wait", {"processId": "p"}).code == -32600
    assert not os.path.exists(ran)


def test_a_question_ends_with_its_session(server, tmp):
    argv, ran = wrote(tmp)
    client = Client(server.url, init_params={"detachMs": 100})
    start(client, "p", argv, intercept(ASK))
    requested(client, "p")
    client.abort()

    with Client(server.url) as other:
        # Others see shortened ids.
        wait_until(lambda: not any(client.session_id.startswith(s["sessionId"]) for s in other.call("session/list")["sessions"]), 10,
                   "the end of the session")
    with pytest.raises(RpcError) as error:
        Client(server.url, resume=client.session_id)
    assert error.value.data["reason"] == "expired"
    assert not os.path.exists(ran)


def test_an_admin_of_the_same_user_decides_and_the_owner_is_told(server):
    with Client(server.url) as owner, Client(server.url) as other:
        ident = start(owner, "p", ["sh", "-c", "echo ran"], intercept(ASK))
        question = requested(owner, "p")
        error = other.error(DECIDE, {"processId": "p", "requestId": "1", "decision": "run"})
        assert error.code == -32600 and error.message == "unknown process id p"
        decide(other, question, "escalate", sessionId=owner.session_id)
        owner.result(ident)
        assert requested(owner, "p", "escalate") == {**question, "decision": "escalate"}
        assert not [m for m in other.events("p") if m["method"] == REQUESTED]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_a_server_ends_the_question(tmp, how):
    argv, ran = wrote(tmp)
    with Server() as server, Client(server.url) as client:
        start(client, "running", ["sleep", "1000"], None)
        start(client, "p", argv, intercept(ASK))
        requested(client, "p")
        server.stop(how)
    assert not os.path.exists(ran)


def test_many_starts_may_wait(client):
    for n in range(300):
        start(client, f"p{n}", ["sh", "-c", ":"], intercept(ASK))
    for n in range(300):
        decide(client, requested(client, f"p{n}"), "deny")
    assert client.call("process/list")["processes"] == []


def test_reports_tell_of_the_first_program(client):
    client.result(start(client, "p", ["sh", "-c", ":"], intercept('prefix_rule(pattern=["sh"])', report=True)))
    client.wait_closed("p")
    methods = [m["method"] for m in client.events("p")]
    report = requested(client, "p", "escalate")
    assert report["requestId"] is None and report["argv"] == ["sh", "-c", ":"] and report["rule"] == {"name": "a.rules", "line": 1}
    assert methods.index(REQUESTED) < methods.index("process/exited")


def test_a_missing_program_fails_as_ever(client):
    plain = client.error("process/start", params("p", ["/no/such"], None))
    done = client.error("process/start", params("p", ["/no/such"], intercept('prefix_rule(pattern=["such"])')))
    assert (done.code, done.message) == (plain.code, plain.message)
    plain = client.error("process/start", params("p", ["no-such"], None, tty=True))
    done = client.error("process/start", params("p", ["no-such"], intercept('prefix_rule(pattern=["no-such"])'), tty=True))
    assert (done.code, done.message) == (plain.code, plain.message)


def test_a_question_that_does_not_fit_is_a_denial(server):
    with Client(server.url, init_params={"maxMessageBytes": 200000}) as client:
        error = client.error("process/start", params("p", ["sh", "-c", "\x01" * 60000], intercept(ASK)))
        assert error.message.startswith("Execution denied: "), error
        # A report is cut.
        client.result(start(client, "q", ["sh", "-c", ":"] + ["\x01" * 60000], intercept('prefix_rule(pattern=["sh"])', report=True)))
        report = requested(client, "q", "escalate")
        assert report["argv"] == ["sh", "-c", ":"] and report["omittedBytes"] == 60001
        client.wait_closed("q")


def test_nothing_is_told_after_the_close(client, tmp):
    # What is left behind holds no stream, so the command closes while it is asked about; the next one comes after the close.
    script = f"(id >{tmp}/a 2>&1; echo $? >>{tmp}/a; id >{tmp}/b 2>&1; echo $? >>{tmp}/b) >/dev/null 2>&1 & exit 3"
    client.result(start(client, "p", ["/bin/sh", "-c", script], intercept('prefix_rule(pattern=["id"], decision="prompt")')))
    assert client.wait_exit("p")["exitCode"] == 3
    client.wait_closed("p")
    for name in ("a", "b"):
        wait_until(lambda name=name: os.path.exists(f"{tmp}/{name}") and open(f"{tmp}/{name}", encoding="ascii").read().endswith("1\n"), 10,
                   "the denials")
        with open(f"{tmp}/{name}", encoding="ascii") as f:
            assert f.read() == "Execution denied: nobody can decide any more\n1\n"
    client.flush()
    events = [m["method"] for m in client.events("p")]
    assert events[-1] == "process/closed"
    decisions = [m["params"]["decision"] for m in client.events("p") if m["method"] == REQUESTED]
    assert decisions in ([], ["ask", "withdrawn"])
