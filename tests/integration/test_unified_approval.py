"""Permissions of commands through `farhand unified`: what the sandbox denies, questions, answers, and the second run."""

import json
import os
import shutil
import socket
import tempfile
import time

import pytest

from farhand_client import Server
from reach import TREES
from sandbox_rig import why_not
from unified_rig import Unified

if why_not("root" if os.geteuid() == 0 else "unprivileged"):
    pytest.skip(why_not("root" if os.geteuid() == 0 else "unprivileged"), allow_module_level=True)


@pytest.fixture(params=["here", "far"])
def unified(request):
    """Makes a table here or on a far server; its workspace is its directory in both cases."""
    made = []

    def make(*args, **kw):
        if request.param == "here":
            one = Unified(*args, **kw)
        else:
            server = Server()
            made.append(server)
            one = FarUnified(server, *args, **kw)
        made.append(one)
        return one

    yield make
    for one in reversed(made):
        one.__exit__(None, None, None)


class FarUnified(Unified):
    """On a far server the workspace must be named."""

    def __init__(self, server, *args, **kw):
        self.far = tempfile.mkdtemp(prefix="fh-far-", dir=TREES)
        super().__init__(*args, where=("--url", server.url, "-C", self.far), cwd=self.far, **kw)

    def close(self):
        super().close()
        shutil.rmtree(self.far, ignore_errors=True)


def outside(u, name="made"):
    return os.path.join(u.outside, name)


def touch(u, **more):
    """Begins a command that writes outside of the workspace. Returns the id of the call."""
    return u.begin("exec_command", cmd=f"echo try; touch {outside(u)}", login=False, yield_time_ms=30000, **more)


def exists(u):
    return os.path.exists(outside(u))


# The default: workspace-write, on-request


def test_a_command_may_write_in_its_workspace_and_nowhere_else(unified):
    u = unified("--approval", "never")
    assert u.exec("touch here && ls")["output"] == "here\n"
    done = u.wait(touch(u))
    assert done["exit_code"] != 0 and "try\n" in done["output"] and "session_id" not in done and not exists(u)
    assert not u.of("approval_request")


def test_the_network_is_closed(unified):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        reach = f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {listener.getsockname()[1]}))'"
        assert unified("--approval", "never").exec(reach)["exit_code"] == 1
        assert unified("--approval", "never", "--network").exec(reach)["exit_code"] == 0


def test_a_workdir_gives_no_permission(unified):
    u = unified("--approval", "never")
    done = u.exec("pwd; touch made", workdir=u.outside)
    assert u.outside + "\n" in done["output"] and done["exit_code"] != 0 and not exists(u)


def test_denied_asked_approved_run_again(unified):
    u = unified()
    ident = touch(u)
    question = u.question(call_id=ident)
    assert question["reason"] == "denied" and question["outside_sandbox"] and question["command"][-1] == f"echo try; touch {outside(u)}"
    assert question["cwd"] == u.work and question["environment_id"] in ("local", "remote")
    assert any(d.get("path", "").endswith("/outside/made") for d in question["denials"]), question
    assert str(ident) not in u.results and not exists(u)
    u.answer(question, "approved")
    done = u.wait(ident)
    assert done["exit_code"] == 0 and done["output"] == "try\n" and exists(u)
    assert len(u.of("approval_request")) == 1
    u.event("exec_command_end", count=2, call_id=ident)
    begun, ended = u.of("exec_command_begin", call_id=ident), u.of("exec_command_end", call_id=ident)
    assert [e["exit_code"] for e in ended] == [1, 0] and len(begun) == 2
    assert [e["process_id"] for e in begun] == [e["process_id"] for e in ended]
    assert u.call("list_sessions")["sessions"] == [] and u.call("list_grants")["grants"] == []


def test_denied_asked_refused(unified):
    u = unified()
    ident = touch(u)
    u.answer(u.question(call_id=ident), "denied")
    done = u.wait(ident)
    assert done["exit_code"] == 1 and "try\n" in done["output"] and "session_id" not in done and not exists(u)
    assert len(u.of("exec_command_begin", call_id=ident)) == 1


def test_approved_for_the_session(unified):
    u = unified()
    ident = touch(u)
    u.answer(u.question(call_id=ident), "approved_for_session")
    assert u.wait(ident)["exit_code"] == 0
    os.remove(outside(u))
    again = touch(u)
    assert u.wait(again)["exit_code"] == 0 and exists(u)
    assert len(u.of("approval_request")) == 1
    grants = u.call("list_grants")["grants"]
    assert len(grants) == 1 and outside(u) in json.dumps(grants)


def test_a_command_that_fails_for_another_reason_is_not_asked_about(unified):
    u = unified()
    assert u.exec("cat no-such-file")["exit_code"] == 1
    assert not u.of("approval_request")


def test_a_denial_late_in_the_window_is_asked_about_too(unified):
    u = unified()
    ident = u.begin("exec_command", cmd=f"sleep 0.7; touch {outside(u)}", login=False, yield_time_ms=30000)
    u.answer(u.question(call_id=ident), "approved")
    assert u.wait(ident)["exit_code"] == 0 and exists(u)


def test_a_denial_after_the_window_is_only_reported(unified):
    u = unified()
    ident = u.begin("exec_command", cmd=f"sleep 1; touch {outside(u)}", login=False, yield_time_ms=250)
    session = u.wait(ident)["session_id"]
    assert u.write(session)["exit_code"] == 1 and not u.of("approval_request") and not exists(u)


def test_the_window_stands_still_while_a_question_is_open(unified):
    """The second run gets what the first has left of the window, however long the question was open."""
    u = unified()
    ident = u.begin("exec_command", cmd=f"touch {outside(u)} && sleep 1 && echo slept", login=False, yield_time_ms=6000)
    question = u.question(call_id=ident)
    time.sleep(6.5)  # longer than the window
    u.answer(question, "approved")
    done = u.wait(ident)
    assert done["exit_code"] == 0 and done["output"] == "slept\n"


def test_a_cancelled_call_withdraws_its_question(unified):
    u = unified()
    ident = touch(u)
    question = u.question(call_id=ident)
    u.send({"id": "cancel", "cancel": ident})
    u.event("approval_withdrawn", question_id=question["question_id"])
    assert u.until(lambda: u.results.get(str(ident)))["error"]["message"] == "cancelled"
    u.send({"id": "late", "answer": {"question_id": question["question_id"], "decision": "approved"}})
    assert u.wait("late") == {"answered": False} and not exists(u)


def test_other_calls_go_on_while_a_question_is_open(unified):
    u = unified()
    ident = touch(u)
    question = u.question(call_id=ident)
    assert u.exec("echo meanwhile")["output"] == "meanwhile\n"
    u.answer(question, "denied")
    assert u.wait(ident)["exit_code"] == 1


def test_when_stdin_ends_the_answer_is_no(unified):
    u = unified()
    ident = touch(u)
    u.question(call_id=ident)
    assert u.finish() == 0
    assert u.results[str(ident)]["result"]["exit_code"] == 1 and not exists(u)


# Policies


def test_never_asks_nothing(unified):
    u = unified("--approval", "never")
    assert u.wait(touch(u))["exit_code"] == 1
    text = u.error("exec_command", cmd="true", sandbox_permissions="require_escalated", justification="x")
    assert text.startswith("exec_command failed for `true`: ") and not u.of("approval_request")


def test_on_failure_asks_after_a_denial(unified):
    u = unified("--approval", "on-failure")
    ident = touch(u)
    u.answer(u.question(call_id=ident, reason="denied"), "approved")
    assert u.wait(ident)["exit_code"] == 0 and exists(u)


def test_untrusted_asks_before_every_command(unified):
    u = unified("--approval", "untrusted")
    ident = u.begin("exec_command", cmd="echo run", login=False)
    question = u.question(call_id=ident, reason="untrusted")
    assert not u.of("exec_command_begin") and not question["outside_sandbox"]
    u.answer(question, "approved")
    assert u.wait(ident)["output"] == "run\n"
    ident = u.begin("exec_command", cmd="echo not run", login=False)
    u.answer(u.question(call_id=ident), "denied")
    answer = u.until(lambda: u.results.get(str(ident)))
    assert answer["error"]["message"].startswith("exec_command failed for `echo not run`: ")
    assert len(u.of("exec_command_begin")) == 1


# Wishes


def test_a_wish_to_run_without_a_sandbox(unified):
    u = unified()
    ident = touch(u, sandbox_permissions="require_escalated", justification="it must be made there")
    question = u.question(call_id=ident, reason="escalated")
    assert question["justification"] == "it must be made there" and question["outside_sandbox"]
    assert not u.of("exec_command_begin")
    u.answer(question, "approved")
    assert u.wait(ident)["exit_code"] == 0 and exists(u) and len(u.of("exec_command_begin")) == 1


def test_a_wish_for_more_permissions(unified):
    u = unified()
    more = {"file_system": {"write": [u.outside]}}
    ident = touch(u, sandbox_permissions="with_additional_permissions", additional_permissions=more, justification="why not")
    question = u.question(call_id=ident, reason="additional")
    assert not question["outside_sandbox"] and u.outside in json.dumps(question["additional_permissions"])
    u.answer(question, "approved")
    assert u.wait(ident)["exit_code"] == 0 and exists(u)
    elsewhere = os.path.join(u.base, "elsewhere")
    ident = u.begin("exec_command", cmd=f"touch {elsewhere}", login=False, sandbox_permissions="with_additional_permissions",
                    additional_permissions=more)
    u.answer(u.question(call_id=ident), "approved")
    u.answer(u.question(call_id=ident, reason="denied"), "denied")
    assert u.wait(ident)["exit_code"] == 1 and not os.path.exists(elsewhere)


def test_bad_wishes(unified):
    u = unified()
    assert u.error("exec_command", cmd="true", sandbox_permissions="with_additional_permissions").startswith("missing `additional_permissions`")
    assert u.error("exec_command", cmd="true", additional_permissions={"file_system": {"write": ["/x"]}}).startswith(
        "`additional_permissions` requires `sandbox_permissions` set to ")
    text = u.error("exec_command", is_valid=False, cmd="true", sandbox_permissions="with_additional_permissions",
                   additional_permissions={"file_system": {"write": 3}})
    assert text.startswith("exec_command failed for `true`: "), text


# Profiles


def test_read_only(unified):
    u = unified("--read-only", "--approval", "never")
    assert u.exec("touch here")["exit_code"] == 1 and u.exec("ls /")["exit_code"] == 0


def test_no_sandbox(unified):
    u = unified("--no-sandbox")
    assert u.wait(touch(u))["exit_code"] == 0 and exists(u) and not u.of("approval_request")


def test_a_profile_of_a_file(unified, tmp):
    path = os.path.join(tmp, "profile.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"type": "managed", "file_system": {"type": "restricted", "entries": [
            {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}]}, "network": "restricted"}, f)
    u = unified("--profile", path, "--approval", "never")
    assert u.exec("touch here")["exit_code"] == 1


def test_a_profile_with_uris(unified, tmp):
    """As in the profiles of requests, and as `farhand apply-patch --profile` takes them."""
    path = os.path.join(tmp, "profile.json")
    u = unified("--approval", "never")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"type": "managed", "file_system": {"type": "restricted", "entries": [
            {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"},
            {"path": {"type": "path", "path": "file://" + u.outside.replace("-", "%2d")}, "access": "write"}]}, "network": "restricted"}, f)
    v = unified("--profile", path, "--approval", "never")
    assert v.exec(f"touch {u.outside}/new")["exit_code"] == 0 and os.listdir(u.outside) == ["new"]
    assert v.exec("touch here")["exit_code"] == 1


@pytest.mark.parametrize("uri", ["file://elsewhere/x", "file:x", "http://x/y", "relative"])
def test_a_profile_with_a_path_that_is_none(unified, tmp, uri):
    path = os.path.join(tmp, "profile.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"type": "managed", "file_system": {"type": "restricted", "entries": [
            {"path": {"type": "path", "path": uri}, "access": "write"}]}, "network": "restricted"}, f)
    u = unified("--profile", path)
    assert u.finish() == 255 and "path" in u.said()


def test_a_server_that_does_not_tell_of_denials_counts_as_one_that_denied_nothing():
    """Without a sandbox the server never says that it has denied something, whatever the command prints."""
    with Unified("--no-sandbox") as u:
        assert u.exec("echo 'touch: cannot touch x: Read-only file system'; exit 1")["exit_code"] == 1
        assert not u.of("approval_request")
