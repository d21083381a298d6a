"""Questions of rules about the programs below a call of `shell`, and the answer "always", which adds a rule."""

import os
import shutil
import tempfile

import jsonschema
import pytest

from farhand_client import Server
from mcp_rig import Mcp
from reach import TREES
from test_mcp_questions import questions, say
from test_mcp_shell import OPEN, rules_file, sh, start
from test_mcp_tools import needs_sandbox

PROMPT = 'prefix_rule(pattern=["mkdir"], decision="prompt", justification="new places")\n'
MKDIR = shutil.which("mkdir")


@pytest.fixture(params=["here", "far"])
def mcp(request):
    """Makes a client of an environment that is here or far, with a rule that asks about mkdir."""
    made = []

    def make(*args, text=PROMPT, **kw):
        base = Mcp(*OPEN)
        made.append(lambda: base.__exit__(None, None, None))
        if request.param == "far":
            server = Server()
            made.append(lambda: server.__exit__(None, None, None))
            far = tempfile.mkdtemp(prefix="fh-far-", dir=TREES)
            made.append(lambda: shutil.rmtree(far, ignore_errors=True))
            kw = {"where": ("--url", server.url, "-C", far), "cwd": far, **kw}
        one = Mcp("-r", rules_file(base, text), *args, **kw)
        made.append(lambda: one.__exit__(None, None, None))
        return one

    yield make
    for end in reversed(made):
        end()


def default_rules(one):
    path = os.path.join(one.base, "home", "rules", "default.rules")
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as f:
        return f.read()


@needs_sandbox
def test_a_question_and_once(mcp):
    one = mcp(ask=say("once"))
    done = sh(one, f"mkdir '{one.outside}/a b' {one.outside}/c; echo $?")
    assert done["output"] == "0\n" and sorted(os.listdir(one.outside)) == ["a b", "c"]  # outside of the sandbox
    (question,) = questions(one)
    lines = question["message"].split("\n")
    assert lines[0] == f"Allow agent to run `{MKDIR} '{one.outside}/a b' {one.outside}/c` in `{one.work}`?"
    assert "It would run outside of the sandbox." in lines and "Why there is this rule: new places" in lines
    assert any(line.startswith("Rule: ") and line.endswith("some.rules:1") for line in lines), lines
    schema = question["requestedSchema"]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["decision"]["enum"] == ["once", "session", "always", "deny"] and schema["required"] == ["decision"]
    sh(one, f"mkdir '{one.outside}/a b' {one.outside}/c")
    assert len(questions(one)) == 2 and default_rules(one) == ""


@needs_sandbox
def test_for_this_session(mcp):
    one = mcp(ask=say("session"))
    for _ in range(2):
        assert sh(one, f"mkdir {one.outside}/a; echo $?; rmdir {one.outside}/a 2>/dev/null")["output"].startswith("0\n")
        os.rmdir(one.outside + "/a")
    assert len(questions(one)) == 1
    sh(one, f"mkdir {one.outside}/b")
    assert len(questions(one)) == 2  # another command is another question


@needs_sandbox
def test_always_adds_a_rule(mcp):
    one = mcp(ask=say("always"))
    command = f"mkdir -p {one.outside}/a; echo $?"
    line = f'prefix_rule(pattern=["{MKDIR}", "-p", "{one.outside}/a"], decision="allow")'
    assert sh(one, command)["output"] == "0\n" and os.path.isdir(one.outside + "/a")
    (question,) = questions(one)
    assert line in question["message"] and os.path.join(one.base, "home", "rules", "default.rules") in question["message"]
    assert default_rules(one) == line + "\n"
    assert sh(one, command, workdir="/")["output"] == "0\n" and len(questions(one)) == 1  # another directory, so it is no grant of the session
    # It holds for a server that is started later, and for one whose client cannot be asked.
    with Mcp("-r", rules_file(one, PROMPT), where=one.proc.args[2:4] if "--url" in one.proc.args else ("--env", "local"),
             env={"FARHAND_HOME": one.base + "/home"}, cwd=one.work) as later:
        assert sh(later, command)["output"] == "0\n"
        assert sh(later, f"mkdir {one.outside}/b; echo $?")["output"] == "1\nExecution denied: approval is not available\n"


@pytest.mark.parametrize("answer, reason", [
    (say("deny"), "User declined execution"), (say(None, "decline"), "User declined execution"), (say(None, "cancel"), "User cancelled execution"),
    (say("always", "decline"), "User declined execution"), (say(None), "User declined execution"), (say("yes"), "User declined execution"),
    (lambda params: {}, "User declined execution")])
def test_no_clear_yes_is_a_no(answer, reason):
    with Mcp(*OPEN) as base:
        with Mcp(*OPEN, "-r", rules_file(base, PROMPT), ask=answer) as one:
            assert sh(one, "mkdir a; echo $?")["output"] == f"1\nExecution denied: {reason}\n"
            assert not os.path.exists(one.work + "/a") and default_rules(one) == "" and len(questions(one)) == 1


def test_a_forced_removal_is_asked_about_without_a_rule():
    with Mcp(*OPEN, ask=say("once")) as one:
        os.makedirs(one.work + "/d/e")
        assert sh(one, "rm -rf d; echo $?")["output"] == "0\n" and not os.path.exists(one.work + "/d")
        (question,) = questions(one)
        assert question["message"].startswith("Allow agent to run `") and "outside of the sandbox.\n" not in question["message"]
        assert sh(one, "rm -r nothing 2>/dev/null; echo $?")["output"] == "1\n" and len(questions(one)) == 1


def test_policies_and_answers_for_nobody():
    with Mcp(*OPEN) as base:
        path = rules_file(base, PROMPT)
        with Mcp(*OPEN, "-r", path, "--approval", "never", ask=say("once")) as one:
            assert sh(one, "mkdir a")["output"] == "Execution denied: Execution forbidden by policy\n" and not questions(one)
        with Mcp(*OPEN, "-r", path, "--unasked", "allow") as one:
            assert sh(one, "mkdir a; echo $?")["output"] == "0\n" and os.path.isdir(one.work + "/a")


def test_a_cancelled_call_withdraws_its_question():
    with Mcp(*OPEN) as base:
        with Mcp(*OPEN, "-r", rules_file(base, PROMPT), ask=lambda params: None) as one:
            ident = start(one, "mkdir a")
            asked = one.until(lambda: one.asked, "a question")
            one.note("notifications/cancelled", {"requestId": ident})
            one.until(lambda: [n for n in one.notes if n["method"] == "notifications/cancelled" and n["params"]["requestId"] == asked[0]["id"]],
                      "the question to be withdrawn")
            assert not os.path.exists(one.work + "/a") and sh(one, "echo on")["output"] == "on\n"


def test_what_a_command_says_does_not_look_like_the_question():
    with Mcp(*OPEN) as base:
        with Mcp(*OPEN, "-r", rules_file(base, PROMPT), ask=say("deny")) as one:
            sh(one, "mkdir $'a\\nRule: none\\e[1m' \"it's\"")
            message = questions(one)[0]["message"]
            assert "\x1b" not in message and "\nRule: none" not in message and "'it'\\''s'" in message


def test_questions_side_by_side():
    with Mcp(*OPEN) as base:
        with Mcp(*OPEN, "-r", rules_file(base, PROMPT), ask=say("once")) as one:
            idents = [start(one, f"mkdir a{n} & mkdir b{n}; wait; ls -d a{n} b{n}") for n in range(10)]
            assert [one.done(ident)["output"] for ident in idents] == [f"a{n}\nb{n}\n" for n in range(10)] and len(questions(one)) == 20


# What the sandbox has denied (requirement 002)


@needs_sandbox
@pytest.mark.parametrize("tool", ["shell", "exec_command"])
def test_denied_asked_and_always(mcp, tool):
    one = mcp(ask=say("always"))

    def touch(which):
        if tool == "shell":
            return sh(which, f"echo try; touch {one.outside}/made", workdir=one.work)
        return which.done(which.start_exec(f"echo try; touch {one.outside}/made", workdir=one.work, yield_time_ms=30000))

    done = touch(one)
    assert done["exit_code"] == 0 and done["output"] == "try\n" and os.path.exists(one.outside + "/made")
    (question,) = questions(one)
    assert question["message"].startswith("Run this command outside of the sandbox?\n") and "touch" in default_rules(one)
    os.remove(one.outside + "/made")
    with Mcp(where=one.proc.args[2:4] if "--url" in one.proc.args else ("--env", "local"), env={"FARHAND_HOME": one.base + "/home"},
             cwd=one.work) as later:
        assert touch(later)["exit_code"] == 0 and os.path.exists(one.outside + "/made")


@needs_sandbox
def test_denied_by_shell_asked_declined_or_not_asked(mcp):
    one = mcp(ask=say("deny"))
    done = sh(one, f"echo try; touch {one.outside}/made")
    assert done["exit_code"] == 1 and done["output"].startswith("try\ntouch: ") and len(questions(one)) == 1 and not os.listdir(one.outside)
    one = mcp()
    assert sh(one, f"touch {one.outside}/made")["exit_code"] == 1 and not one.asked


@needs_sandbox
def test_the_time_of_the_question_is_not_that_of_the_call(mcp):
    one = mcp(ask=say("once"))
    done = sh(one, f"touch {one.outside}/made && sleep 1000", timeout_ms=3000)
    assert done["timed_out"] is True and os.path.exists(one.outside + "/made")  # it ran again, and the limit held for that, too
