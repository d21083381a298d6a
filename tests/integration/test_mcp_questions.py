"""Questions of `farhand mcp` to the person behind its client: denied by the sandbox, asked by elicitation, run again outside, or not."""

import json
import os
import shutil
import tempfile

import jsonschema
import pytest

from farhand_client import Server
from mcp_rig import Mcp
from reach import TREES
from sandbox_rig import why_not

if why_not("root" if os.geteuid() == 0 else "unprivileged"):
    pytest.skip(why_not("root" if os.geteuid() == 0 else "unprivileged"), allow_module_level=True)


def say(decision, action="accept"):
    return lambda params: {"action": action, **({} if decision is None else {"content": {"decision": decision}})}


def wait_for_hand(_params):
    """Answers nothing: the test sends the answer itself."""
    return None


@pytest.fixture(params=["here", "far"])
def mcp(request):
    """Makes a client of an environment that is here or far; its workspace is its directory in both cases."""
    made = []

    def make(*args, **kw):
        if request.param == "here":
            one = Mcp(*args, **kw)
        else:
            server = Server()
            made.append(lambda: server.__exit__(None, None, None))
            far = tempfile.mkdtemp(prefix="fh-far-", dir=TREES)
            made.append(lambda: shutil.rmtree(far, ignore_errors=True))
            one = Mcp(*args, where=("--url", server.url, "-C", far), cwd=far, **kw)
        made.append(lambda: one.__exit__(None, None, None))
        return one

    yield make
    for end in reversed(made):
        end()


def touch(one, **more):
    return one.start_exec(f"echo try; touch {one.outside}/made", yield_time_ms=30000, **more)


def exists(one):
    return os.path.exists(one.outside + "/made")


def questions(one):
    return [request["params"] for request in one.asked if request["method"] == "elicitation/create"]


def test_denied_asked_approved_run_outside(mcp):
    one = mcp(ask=say("once"))
    done = one.done(touch(one))
    assert done["exit_code"] == 0 and done["output"] == "try\n" and exists(one)
    (question,) = questions(one)
    lines = question["message"].split("\n")
    assert lines[0] == "Run this command outside of the sandbox?" and f"Command: echo try; touch {one.outside}/made" in lines
    assert f"Directory: {one.work}" in lines and any(line.startswith("The sandbox has denied: write ") for line in lines), lines
    schema = question["requestedSchema"]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["decision"]["enum"] == ["once", "session", "always", "deny"] and schema["required"] == ["decision"]
    os.remove(one.outside + "/made")
    assert one.done(touch(one))["exit_code"] == 0 and len(questions(one)) == 2  # "once" was for the first call only


@pytest.mark.parametrize("answer", [say("deny"), say(None, "decline"), say(None, "cancel"), say("once", "decline"), say(None), say("yes"), say(7),
                                    lambda params: {}, lambda params: "accept"])
def test_denied_asked_declined(answer):
    with Mcp(ask=answer) as one:
        done = one.done(touch(one))
        assert done["exit_code"] == 1 and "try\n" in done["output"] and not exists(one) and len(questions(one)) == 1


def test_declined_far(mcp):
    one = mcp(ask=say("deny"))
    assert one.done(touch(one))["exit_code"] == 1 and not exists(one)


def test_for_this_session(mcp):
    one = mcp(ask=say("session"))
    assert one.done(touch(one))["exit_code"] == 0
    os.remove(one.outside + "/made")
    assert one.done(touch(one))["exit_code"] == 0 and exists(one) and len(questions(one)) == 1


def test_a_client_without_elicitation_is_not_asked(mcp):
    one = mcp()
    done = one.done(touch(one))
    assert done["exit_code"] == 1 and not exists(one) and not one.asked
    properties = {tool["name"]: tool for tool in one.request("tools/list")["tools"]}["exec_command"]["inputSchema"]["properties"]
    assert "sandbox_permissions" not in properties
    assert one.failure("exec_command", cmd="true", sandbox_permissions="require_escalated").startswith("exec_command failed for `true`")


@pytest.mark.parametrize("capability, is_asked", [({}, True), ({"form": {}}, True), ({"form": {}, "url": {}}, True), ({"url": {}}, False), (7, False)])
def test_kinds_of_elicitation(capability, is_asked):
    with Mcp(ask=say("once"), begin=False) as one:
        one.initialize("2025-11-25", capabilities={"elicitation": capability})
        assert (one.done(touch(one))["exit_code"] == 0) == is_asked == exists(one) == (len(questions(one)) == 1)


def test_the_answer_for_clients_that_cannot_be_asked():
    with Mcp("--unasked", "allow") as one:
        assert one.done(touch(one))["exit_code"] == 0 and exists(one)
    with Mcp("--unasked", "deny") as one:
        assert one.done(touch(one))["exit_code"] == 1 and not exists(one)
    with Mcp("--unasked", "allow", ask=say("deny")) as one:  # the answer for clients that cannot be asked is not used
        assert one.done(touch(one))["exit_code"] == 1 and not exists(one)
    for bad in (("--unasked", "maybe"), ("--approval", "maybe")):
        with Mcp(*bad, begin=False) as one:
            assert one.proc.wait(60) == 2


def test_policies():
    with Mcp("--approval", "never", ask=say("once")) as one:
        assert one.done(touch(one))["exit_code"] == 1 and not exists(one) and not questions(one)
        assert "sandbox_permissions" not in {tool["name"]: tool for tool in one.request("tools/list")["tools"]}["exec_command"]["inputSchema"]["properties"]
    with Mcp("--approval", "untrusted", ask=say("once")) as one:
        assert one.exec("echo run")["output"] == "run\n"
        assert questions(one)[0]["message"].startswith("Run this command?\nCommand: echo run\n")


def test_a_wish_for_more():
    with Mcp(ask=say("once")) as one:
        assert "sandbox_permissions" in {tool["name"]: tool for tool in one.request("tools/list")["tools"]}["exec_command"]["inputSchema"]["properties"]
        done = one.done(touch(one, sandbox_permissions="require_escalated", justification="it\nmust be\u202e made there"))
        assert done["exit_code"] == 0 and exists(one)
        assert "\nReason that was given: it\n    | must be\\u{202e} made there\n" in questions(one)[0]["message"]
        more = {"file_system": {"write": [one.outside]}}
        done = one.exec(f"touch {one.outside}/more", sandbox_permissions="with_additional_permissions", additional_permissions=more)
        assert done["exit_code"] == 0
        message = questions(one)[1]["message"]
        assert message.startswith("Run this command with more permissions?\n") and f'"{one.outside}"' in message


def test_a_command_cannot_look_like_another_part_of_the_question():
    with Mcp(ask=say("deny")) as one:
        one.exec(f"touch {one.outside}/made\nDirectory: /nowhere; # \x1b[2J")
        lines = questions(one)[0]["message"].split("\n")
        at = lines.index(f"Command: touch {one.outside}/made")
        assert lines[at + 1] == "    | Directory: /nowhere; # \\x1b[2J"
        assert [line for line in lines if line.startswith("Directory: ")] == [f"Directory: {one.work}"]


def test_a_patch_is_asked_about_too(mcp):
    one = mcp(ask=say("once"))
    os.symlink(one.outside, os.path.join(one.work, "link"))
    patch = "*** Begin Patch\n*** Add File: link/made\n+x\n*** End Patch\n"
    one.call("apply_patch", input=patch)
    (question,) = questions(one)
    assert f"File: {one.work}/link/made\n" in question["message"] and f"Which leads to: {one.outside}/made\n" in question["message"]
    assert exists(one)


def test_a_cancelled_call_withdraws_its_question():
    with Mcp(ask=wait_for_hand) as one:
        ident = touch(one, token="t")
        asked = one.until(lambda: one.asked)[0]
        assert one.exec("echo meanwhile")["output"] == "meanwhile\n"
        one.until(lambda: one.progress("t"))
        one.note("notifications/cancelled", {"requestId": ident})
        note = one.until(lambda: [note for note in one.notes if note["method"] == "notifications/cancelled"])[0]
        assert note["params"]["requestId"] == asked["id"]
        one.send({"id": asked["id"], "result": {"action": "accept", "content": {"decision": "once"}}})  # the question was withdrawn
        assert one.request("ping") == {} and not exists(one) and json.dumps(ident) not in one.answers


def test_at_the_end_of_stdin_the_answer_is_no():
    with Mcp(ask=wait_for_hand) as one:
        touch(one)
        one.until(lambda: one.asked)
        assert one.finish() == 0 and not exists(one)
