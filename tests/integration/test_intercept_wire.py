"""The interception of program starts as clients see it: `intercept` of process/start, process/execRequested, process/execDecide, and what
the exit record counts."""

import os

import pytest

from farhand_client import Client, pid_alive
from intercept_rig import DECIDE, FORBIDDEN, REQUESTED, Places, argv_of, intercept, programs, rule, text_of

YES, ESCALATE, NO = {"decision": "run"}, {"decision": "escalate"}, {"decision": "deny"}


@pytest.fixture(scope="module")
def places():
    places = Places()
    yield places
    places.close()


@pytest.fixture(params=["namespaces-root", "none-unprivileged"])
def place(request, places):
    return places.get(request.param)


def told(client, process_id, *decisions):
    """The params of all process/execRequested of a process; with `decisions`, of those with these."""
    params = [m["params"] for m in client.events(process_id) if m["method"] == REQUESTED]
    return [p for p in params if not decisions or p["decision"] in decisions]


def question_of(client, process_id, number=1, timeout=30):
    """The params of a question, counted from 1."""
    seen = []

    def is_it(message):
        params = message.get("params") or {}
        if message.get("method") == REQUESTED and params["processId"] == process_id and params["decision"] == "ask":
            if params["requestId"] not in seen:
                seen.append(params["requestId"])
            return seen[-1] == params["requestId"] and len(seen) == number
        return False

    return client.wait_for(is_it, timeout)["params"]


def decide(client, question, answer):
    return client.call(DECIDE, {"processId": question["processId"], "requestId": question["requestId"], **answer})


# What is announced and what is refused


def test_the_capability_is_announced(place):
    assert place.client.init_result["environmentInfo"]["capabilities"]["execInterceptV1"] is True


def test_only_the_record_of_an_intercepted_command_has_counts(place):
    process_id, ident = place.start(["/bin/true"], None, "/")
    place.client.result(ident)
    place.client.wait_closed(process_id)
    assert "intercepted" not in place.client.wait_exit(process_id)
    done = place.run(["/bin/true"], intercept(), "/")
    assert done.counts == {"run": 1, "escalated": 0, "denied": 0}
    wait = place.client.call("process/wait", {"processId": process_id, "until": "exited"})
    assert "intercepted" not in wait


@pytest.mark.parametrize("options, word", [
    ({"rules": "x"}, "rules"), ({"rules": [{"text": ""}]}, "name"), ({"rules": [{"name": "n"}]}, "text"), ({"rules": [7]}, "rules"),
    ({"scope": "some"}, "scope"), ({"programNames": "both"}, "programNames"), ({"onPrompt": "run"}, "onPrompt"),
    ({"onUnmatched": "deny"}, "onUnmatched"), ({"report": "yes"}, "report"), ([], "intercept"), ("all", "intercept"),
], ids=str)
def test_params_that_are_refused(place, options, word):
    if isinstance(options, dict):
        options = {"rules": [], **options}
    done = place.run(["/bin/true"], options, "/")
    assert done.refused is not None and done.refused.code == -32602 and word in done.refused.message, done


@pytest.mark.parametrize("text, where", [
    ("prefix_rule(", "a.rules:1:"), ("\n\nprefix_rule(pattern=[])\n", "a.rules:3:"), ("while True:\n", "a.rules:1:"),
    ('prefix_rule(pattern=["ls"], decision="maybe")', "a.rules:1:"),
    ('prefix_rule(pattern=["ls"], match=["cat"])', "a.rules"),
])
def test_rules_with_a_mistake_are_refused_with_their_place(place, text, where):
    done = place.run(["/bin/true"], {"rules": [{"name": "good.rules", "text": rule("allow", "ls")}, {"name": "a.rules", "text": text}]}, "/")
    assert done.refused is not None and done.refused.code == -32602 and where in done.refused.message, done


# Questions


def test_a_question_says_everything(place):
    tree = place.tree()
    process_id, ident = place.start(["/bin/bash", "-c", "cd /usr; where 'a b' ''"], intercept(rule("prompt", "where")), tree.w)
    place.client.result(ident)
    question = question_of(place.client, process_id)
    assert question["file"] == f"{programs()}/where"
    assert (question["argv"], question["cwd"], question["decision"]) == (["where", "a b", ""], "/usr", "ask")
    assert pid_alive(question["pid"]) and question["requestId"]
    assert "1.rules" in str(question["rule"])
    assert not any(name.endswith("Base64") for name in question)
    decide(place.client, question, YES)
    done = place.finish(process_id, ident, lambda q: None)
    assert (done.out, done.code, done.counts["run"]) == (b"inside\n", 0, 2)


def test_a_question_without_a_rule_has_none(place):
    done = place.sh("/bin/true; where", intercept(on_unmatched="ask"), decide=lambda q: YES)
    assert done.out == b"inside\n" and len(done.questions) == 3  # one question is about the shell itself
    assert all(q.get("rule") is None for q in done.questions)


def test_what_is_not_utf8_is_told_as_bytes(place):
    # The name of the program, an argument and the directory.
    script = "mkdir $'d\\xff'; cd $'d\\xff'; cp \"$(command -v where)\" $'w\\xfe'; ./$'w\\xfe' $'\\xc3(' ok"
    done = place.sh(script, intercept(on_unmatched="ask"), decide=lambda q: YES)
    assert done.out == b"inside\n", done
    question = done.questions[-1]
    assert text_of(question, "file").endswith(b"/d\xff/w\xfe") and text_of(question, "cwd").endswith(b"/d\xff")
    assert argv_of(question) == [b"./w\xfe", b"\xc3(", b"ok"]
    assert "\ufffd" in question["file"] and question["argv"][2] == "ok"


@pytest.mark.parametrize("answer, out, err, code, counts", [
    (YES, b"inside\n", b"", 0, (2, 0, 0)),
    (ESCALATE, b"outside\n", b"", 0, (1, 1, 0)),
    (NO, b"", b"Execution denied\n", 1, (1, 0, 1)),
    ({"decision": "deny", "reason": "no \u2014 never"}, b"", "Execution denied: no \u2014 never\n".encode(), 1, (1, 0, 1)),
], ids=["run", "escalate", "deny", "reason"])
def test_answers(place, answer, out, err, code, counts):
    done = place.sh("where; exit $?", intercept(rule("prompt", "where")), decide=lambda q: answer)
    assert (done.out, done.err, done.code) == (out, err, code), done
    assert done.counts == dict(zip(("run", "escalated", "denied"), counts))


def test_several_questions_are_answered_in_any_order(place):
    process_id, ident = place.start(["/bin/bash", "-c", "for i in 1 2 3 4; do where argv0 $i >$i & done; wait; cat 1 2 3 4"],
                                    intercept(rule("prompt", "where")), place.tree().w)
    questions = {q["argv"][2]: q for q in (question_of(place.client, process_id, n) for n in (1, 2, 3, 4))}
    for number, answer in (("3", ESCALATE), ("1", NO), ("4", YES), ("2", ESCALATE)):
        decide(place.client, questions[number], answer)
    done = place.finish(process_id, ident, lambda q: None)
    assert done.out == b"outside where\noutside where\ninside where\n", done


def test_a_remembered_answer_is_not_asked_for_again(place):
    script = "for i in 1 2 3; do where; done; where argv0; (cd /; where); exec -a other where"
    done = place.sh(script, intercept(rule("prompt", "where")), decide=lambda q: {**ESCALATE, "remember": "process"})
    assert done.out == b"outside\n" * 3 + b"outside where\n" + b"outside\n" * 2, done
    # The same file, arguments and directory: that is one question for the loop.
    assert len(done.questions) in (3, 4) and done.counts["escalated"] == 6


def test_a_remembered_denial_is_a_denial(place):
    done = place.sh("where; where; where; exit $?", intercept(rule("prompt", "where")),
                    decide=lambda q: {**NO, "reason": "no", "remember": "process"})
    assert len(done.questions) == 1 and (done.out, done.err, done.code) == (b"", b"Execution denied: no\n" * 3, 1)


def test_what_is_remembered_belongs_to_one_process(place):
    for _ in range(2):
        done = place.sh("where", intercept(rule("prompt", "where")), decide=lambda q: {**YES, "remember": "process"})
        assert len(done.questions) == 1


def test_decisions_that_are_refused(place):
    process_id, ident = place.start(["/bin/bash", "-c", "where"], intercept(rule("prompt", "where")), place.tree().w)
    question = question_of(place.client, process_id)
    good = {"processId": process_id, "requestId": question["requestId"], "decision": "run"}
    for change in ({"decision": "ask"}, {"decision": "allow"}, {"decision": None}, {"reason": 7}, {"remember": "always"},
                   {"requestId": []}, {"requestId": None}, {"decision": "deny", "reason": "x" * 5000}):
        error = place.client.error(DECIDE, {**good, **change})
        assert error.code == -32602, (change, error)
    other = question["requestId"] + 1 if isinstance(question["requestId"], int) else question["requestId"] + "0"
    assert place.client.error(DECIDE, {**good, "requestId": other}).code in (-32600, -32602)
    assert place.client.error(DECIDE, {**good, "processId": "no-such"}).code == -32600
    with Client(place.rig.server.url) as stranger:
        assert stranger.error(DECIDE, good).code == -32600
    decide(place.client, question, YES)
    assert place.client.error(DECIDE, good).code in (-32600, -32602)
    assert place.finish(process_id, ident, lambda q: None).out == b"inside\n"
    assert place.client.error(DECIDE, good).code in (-32600, -32602)


def test_a_question_whose_caller_dies_is_withdrawn(place):
    script = "where & p=$!; read go; kill -9 $p; wait $p; echo $?"
    process_id, ident = place.start(["/bin/bash", "-c", script], intercept(rule("prompt", "where")), place.tree().w, pipeStdin=True)
    question = question_of(place.client, process_id)
    place.client.write(process_id, b"\n", write_id="w")
    gone = place.client.wait_for(lambda m: m.get("method") == REQUESTED and m["params"]["decision"] == "withdrawn")["params"]
    assert (gone["processId"], gone["requestId"]) == (process_id, question["requestId"])
    assert place.client.error(DECIDE, {"processId": process_id, "requestId": question["requestId"], "decision": "run"}).code in (-32600, -32602)
    done = place.finish(process_id, ident, lambda q: None)
    assert done.out == b"137\n", done


# The first program


def test_the_first_program_is_asked_about_before_the_start(place):
    process_id, ident = place.start(["where", "argv0"], intercept(rule("prompt", "where")), "/")
    question = question_of(place.client, process_id)
    assert question["pid"] is None and question["argv"] == ["where", "argv0"] and question["file"] == f"{programs()}/where"
    assert not place.client.has_response(ident)
    decide(place.client, question, YES)
    done = place.finish(process_id, ident, lambda q: None)
    assert done.out == b"inside where\n" and done.counts == {"run": 1, "escalated": 0, "denied": 0}


def test_the_first_program_can_be_escalated(place):
    for text, answer in ((rule("allow", "where"), None), (rule("prompt", "where"), lambda q: ESCALATE)):
        done = place.run(["where", "cwd"], intercept(text), "/usr", answer)
        assert done.out == b"outside /usr\n" and done.counts == {"run": 0, "escalated": 1, "denied": 0}, done


def test_nothing_below_an_escalated_first_program_is_asked_about(place):
    done = place.sh("where; sh -c 'where; :'", intercept(rule("allow", "bash") + rule("forbidden", "where")))
    assert done.out == b"outside\n" * 2 and done.counts == {"run": 0, "escalated": 1, "denied": 0}, done


def test_the_first_program_can_be_denied(place):
    tree = place.tree()
    argv = ["/bin/sh", "-c", f"echo ran > {tree.w}/ran"]
    for options, answer in ((intercept(rule("forbidden", "sh")), None), (intercept(rule("prompt", "sh"), onPrompt="deny"), None),
                            (intercept(rule("prompt", "sh")), lambda q: {**NO, "reason": "not this"})):
        done = place.run(argv, options, tree.w, answer)
        assert done.refused is not None, done
        assert ("not this" if answer else "Execution forbidden by policy") in done.refused.message
    assert not os.path.exists(f"{tree.w}/ran")


def test_a_first_program_that_does_not_exist_is_told_as_ever(place):
    plain, done = (place.run(["/no/such"], options, "/").refused for options in (None, intercept()))
    assert (done.code, done.message) == (plain.code, plain.message)


def test_a_wish_to_end_reaches_a_start_that_waits(place):
    process_id, ident = place.start(["where"], intercept(rule("prompt", "where")), "/")
    question_of(place.client, process_id)
    place.client.call("process/terminate", {"processId": process_id})
    done = place.finish(process_id, ident, lambda q: None)
    assert done.out == b"" and (done.refused is not None or done.code != 0), done


# Options


def test_reports_tell_everything_that_was_decided(place):
    text = rule("allow", "where") + rule("forbidden", "rmdir")
    done_id, ident = place.start(["/bin/bash", "-c", "where; rmdir x; ls -d /"], intercept(text, report=True), place.tree().w)
    done = place.finish(done_id, ident)
    reports = [(text_of(p, "file").rpartition(b"/")[2].decode(), p["decision"]) for p in told(place.client, done_id)]
    assert reports == [("bash", "run"), ("where", "escalate"), ("rmdir", "deny"), ("ls", "run")], done


def test_without_reports_only_questions_are_told(place):
    process_id, ident = place.start(["/bin/bash", "-c", "where; rmdir x; ls -d /"], intercept(rule("forbidden", "rmdir")), place.tree().w)
    place.finish(process_id, ident)
    assert told(place.client, process_id) == []


def test_a_long_report_is_cut(place):
    script = "a=$(printf %0131000d 1); where $a $a $a $a $a $a $a $a $a $a $a $a >/dev/null"
    process_id, ident = place.start(["/bin/bash", "-c", script], intercept(report=True), place.tree().w)
    done = place.finish(process_id, ident)
    assert done.code == 0, done
    report = [p for p in told(place.client, process_id) if text_of(p, "file").endswith(b"/where")][0]
    assert 1 < len(report["argv"]) < 13 and sum(map(len, report["argv"])) <= 1 << 20


def test_a_question_that_would_be_too_long_is_a_denial(place):
    done = place.sh("where $(seq 1 200000); exit $?", intercept(rule("prompt", "where")))
    assert done.code == 1 and done.out == b"" and done.err.startswith(b"Execution denied: "), done
    assert not done.questions and done.counts["denied"] == 1


def test_prompts_can_be_denials(place):
    done = place.sh("where; exit $?", intercept(rule("prompt", "where"), onPrompt="deny"))
    assert (done.out, done.err.decode(), done.code) == (b"", FORBIDDEN, 1), done


def test_the_heuristic_asks_about_a_forced_removal_and_runs_it_inside(place):
    options = intercept(on_unmatched="heuristic")
    done = place.sh("touch a b; x=rm; $x a; $x -f b; ls; where", options, decide=lambda q: YES)
    assert [argv_of(q)[1:] for q in done.questions] == [[b"-f", b"b"]], done
    assert done.out == b"inside\n" and done.counts["escalated"] == 0
    done = place.sh("touch b; x=rm; $x -f b; ls", options, decide=lambda q: NO)
    assert done.out == b"b\n", done


def test_the_heuristic_is_the_default(place):
    done = place.sh("touch b; x=rm; $x -f b; ls", {"rules": []}, decide=lambda q: NO)
    assert done.out == b"b\n" and len(done.questions) == 1, done


def test_full_names_are_compared_with_full_paths(place):
    path = f"{programs()}/where"
    for names, word, wanted in (("full", path, b"outside\n"), ("base", "where", b"outside\n")):
        done = place.sh("where", intercept(rule("allow", word), programNames=names))
        assert done.out == wanted, (names, word, done)


def test_a_path_of_host_executable_limits_a_name(place):
    path = f"{programs()}/where"
    text = f'host_executable(name="where", paths=["{path}"])\n' + rule("allow", "where")
    done = place.sh('where; cp "$(command -v where)" .; ./where', intercept(text))
    assert done.out == b"outside\ninside\n", done


def test_the_strictest_rule_wins(place):
    done = place.sh("where; where argv0; exit 0", intercept(rule("allow", "where"), 'prefix_rule(pattern=["where","argv0"], decision="forbidden")'))
    assert (done.out, done.err.decode()) == (b"outside\n", FORBIDDEN), done


def test_scope_shell_sees_only_what_the_shell_starts(place):
    text = rule("forbidden", "where") + rule("forbidden", "bash")
    script = "where; nice where; python3 -c 'import os; os.system(\"where\")'; bash -c 'where; :'; find / -maxdepth 0 -exec where ';'"
    done = place.sh(script, intercept(text, scope="shell"))
    # The denied bash is one that the shell starts; were it not denied, it would be a shell, too.
    assert done.out == b"inside\n" * 3 and done.err.decode() == FORBIDDEN * 2, done
    done = place.sh("bash -c 'where; :'", intercept(rule("forbidden", "where"), scope="shell"))
    assert done.out == b"" and done.err.decode() == FORBIDDEN, done


def test_scope_shell_does_not_ask_about_the_shell(place):
    done = place.run(["/bin/bash", "-c", "where"], intercept(rule("forbidden", "bash"), scope="shell"), place.tree().w)
    assert done.out == b"inside\n", done


def test_scope_below_sees_everything_but_the_first_program(place):
    text = rule("forbidden", "bash") + rule("forbidden", "where")
    done = place.run(["/bin/bash", "-c", "where; nice where; sh -c 'where; :'; echo end"], intercept(text, scope="below"), place.tree().w)
    assert done.out == b"end\n" and done.err.decode() == FORBIDDEN * 3, done


def test_an_environment_cannot_name_the_broker(place):
    """A command finds nothing of the interception in its environment or among its descriptors."""
    done = place.sh("where environment descriptors; exec where environment descriptors", intercept(rule("allow", "nothing")))
    for text in done.out.decode().splitlines():
        words = text.split()[1:]
        assert not [w for w in words if w.isdigit()], text
        assert not [w for w in words if "INTERCEPT" in w or "ESCALATE" in w or "COOKIE" in w], text
