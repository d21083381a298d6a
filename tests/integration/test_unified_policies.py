"""Every policy with every wish through `farhand unified`: which questions come, what a yes and a no do; here, on a far server and through ssh."""

import contextlib
import json
import os
import shutil
import signal
import tempfile
import time

import pytest

from farhand_client import Server
from reach import TREES
from sandbox_rig import why_not
from sshd_rig import compile_shim, far_machine
from sshd_rig import why_not as why_not_ssh
from unified_rig import SECONDS, Unified

if why_not("root" if os.geteuid() == 0 else "unprivileged"):
    pytest.skip(why_not("root" if os.geteuid() == 0 else "unprivileged"), allow_module_level=True)

WISHES = ["use_default", "with_additional_permissions", "require_escalated"]
# The questions, as reason and what a yes gives, when all are answered with yes, and how many runs there are then.
TABLE = {
    ("never", "use_default"): ([], 1),
    ("never", "with_additional_permissions"): (None, 0),
    ("never", "require_escalated"): (None, 0),
    ("on-request", "use_default"): (["denied outside"], 2),
    ("on-request", "with_additional_permissions"): (["additional more"], 1),
    ("on-request", "require_escalated"): (["escalated outside"], 1),
    ("on-failure", "use_default"): (["denied outside"], 2),
    ("on-failure", "with_additional_permissions"): (["denied more"], 2),
    ("on-failure", "require_escalated"): (["denied outside"], 2),
    ("untrusted", "use_default"): (["untrusted inside", "denied outside"], 2),
    ("untrusted", "with_additional_permissions"): (["additional more"], 1),
    ("untrusted", "require_escalated"): (["escalated outside"], 1),
}


@contextlib.contextmanager
def table_at(place, shim, *args):
    """A table here, on a far server, or on a machine behind ssh, with a workspace that all three can see."""
    with contextlib.ExitStack() as stack:
        work = tempfile.mkdtemp(prefix="fh-policy-", dir=TREES)
        stack.callback(shutil.rmtree, work, ignore_errors=True)
        if place == "here":
            yield stack.enter_context(Unified(*args, cwd=work))
        elif place == "far":
            server = stack.enter_context(Server())
            yield stack.enter_context(Unified(*args, where=("--url", server.url, "-C", work), cwd=work))
        else:
            far = stack.enter_context(far_machine(shim))
            names = ("PATH", "FARHAND_STATIC_DIR", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "SSH_ASKPASS", "DISPLAY", "TERM")
            yield stack.enter_context(Unified(*args, where=("--url", "ssh://far", "-C", work), cwd=work,
                                              env={name: far.env.get(name) for name in names}))


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    if why_not_ssh():
        pytest.skip(why_not_ssh())
    path = str(tmp_path_factory.mktemp("shim") / "farhand")
    compile_shim(path)
    return path


def places(request):
    return request.param, request.getfixturevalue("shim") if request.param == "ssh" else None


@pytest.fixture(params=["here", "far"])
def place(request):
    return places(request)


@pytest.fixture(params=["here", "far", "ssh"])
def every_place(request):
    return places(request)


def begin(u, wish="use_default"):
    """Begins a command that writes outside of the workspace, where the additional permissions let it write."""
    more = {"additional_permissions": {"file_system": {"write": [u.outside]}}} if wish == WISHES[1] else {}
    return u.begin("exec_command", cmd=f"touch {u.outside}/made", login=False, yield_time_ms=30000, sandbox_permissions=wish, **more)


def spelled(question):
    gives = "outside" if question["outside_sandbox"] else "more" if "additional_permissions" in question else "inside"
    return f"{question['reason']} {gives}"


def play(u, ident, decision):
    """Answers every question of a call. Returns (the questions, how often the command ran, the exit code or the error)."""
    asked = []
    while True:
        u.until(lambda: str(ident) in u.results or len(u.of("approval_request", call_id=ident)) > len(asked))
        new = u.of("approval_request", call_id=ident)[len(asked):]
        if not new:
            break
        asked.append(spelled(new[0]))
        u.answer(new[0], decision)
    result = u.results[str(ident)]
    return asked, len(u.of("exec_command_begin", call_id=ident)), result["result"]["exit_code"] if "result" in result else result["error"]["message"]


@pytest.mark.parametrize("policy,wish", TABLE)
def test_what_is_asked_run_and_answered(place, policy, wish):
    questions, runs = TABLE[policy, wish]
    with table_at(*place, "--approval", policy) as u:
        made = os.path.join(u.outside, "made")
        asked, ran, said = play(u, begin(u, wish), "denied")
        assert asked == (questions or [])[:1] and not os.path.exists(made)
        if questions is None or (asked and not asked[0].startswith("denied")):
            assert ran == 0 and said.startswith(f"exec_command failed for `touch {made}`: ")
        else:
            assert ran == 1 and said == 1
        asked, ran, said = play(u, begin(u, wish), "approved")
        assert (asked, ran) == (questions or [], runs)
        assert os.path.exists(made) == bool(questions)
        assert said == 0 if questions else said == 1 if ran else said.startswith("exec_command failed for ")
        assert u.call("list_grants") == {"grants": []}


def test_denied_asked_and_answered_in_every_place(every_place):
    """The denial is the server's word, with the path; a no leaves the first run as it was, a yes runs it again, a grant asks no more."""
    with table_at(*every_place) as u:
        made = os.path.join(u.outside, "made")
        ident = begin(u)
        question = u.question(call_id=ident)
        assert question["reason"] == "denied" and question["cwd"] == u.work and question["command"][1:] == ["-c", f"touch {made}"]
        assert any(d.get("path", "").endswith("/outside/made") for d in question["denials"])
        u.answer(question, "denied")
        assert u.wait(ident)["exit_code"] == 1 and not os.path.exists(made)
        ident = begin(u)
        u.answer(u.question(call_id=ident), "approved_for_session")
        assert u.wait(ident)["exit_code"] == 0 and os.path.exists(made)
        os.remove(made)
        assert play(u, begin(u), "denied") == ([], 1, 0) and os.path.exists(made)
        grants = u.call("list_grants")["grants"]
        assert [(g["command"][1:], g["cwd"], g["tty"], g["outside_sandbox"]) for g in grants] == [(["-c", f"touch {made}"], u.work, False, True)]


@pytest.mark.parametrize("wish,members", [("with_additional_permissions", {"outside_sandbox": False}), ("require_escalated", {"outside_sandbox": True})])
def test_what_was_granted_is_no_more_than_what_was_asked_about(place, wish, members):
    """The same command in another directory, another command, and the same one with other permissions are asked about again."""
    with table_at(*place) as u:
        first = begin(u, wish)
        u.answer(u.question(call_id=first), "approved_for_session")
        assert u.wait(first)["exit_code"] == 0
        again = begin(u, wish)
        assert u.wait(again)["exit_code"] == 0 and not u.of("approval_request", call_id=again)
        grant = u.call("list_grants")["grants"][0]
        assert {name: grant[name] for name in members} == members
        assert ("additional_permissions" in grant) == (wish == "with_additional_permissions")
        cmd, more = f"touch {u.outside}/made", {"file_system": {"write": [u.outside]}}
        for arguments in ({"cmd": cmd, "workdir": "/usr"}, {"cmd": cmd + " "}, {"cmd": cmd, "login": True}):
            arguments = {"login": False, "sandbox_permissions": wish, **arguments}
            if wish == "with_additional_permissions":
                arguments["additional_permissions"] = more
            ident = u.begin("exec_command", **arguments)
            u.answer(u.question(call_id=ident), "denied")
            assert "the answer was no" in u.error_of(ident)
        if wish == "with_additional_permissions":
            ident = u.begin("exec_command", cmd=cmd, login=False, sandbox_permissions=wish,
                            additional_permissions={"file_system": {"write": [u.base]}})
            assert u.base in json.dumps(u.question(call_id=ident)["additional_permissions"])
            u.answer(u.question(call_id=ident), "denied")
            assert "the answer was no" in u.error_of(ident)


@pytest.mark.parametrize("how", ["stdin", "signal", "kill"])
def test_an_asker_that_is_lost_has_said_no(place, how):
    """Before the first run and after a denial: nothing runs when the agent closes its end, or when it is ended or killed itself."""
    with table_at(*place, "--approval", "untrusted") as u:
        made = os.path.join(u.outside, "made")
        denied = begin(u)
        u.answer(u.question(call_id=denied), "approved")
        u.question(2, call_id=denied)
        fresh = u.begin("exec_command", cmd=f"touch {u.work}/fresh", login=False)
        u.question(call_id=fresh)
        if how == "stdin":
            assert u.finish() == 0
            assert u.results[str(denied)]["result"]["exit_code"] == 1
            assert "there is nobody to ask any more" in u.results[str(fresh)]["error"]["message"]
        else:
            u.proc.send_signal(signal.SIGTERM if how == "signal" else signal.SIGKILL)
            assert u.proc.wait(SECONDS) == (128 + signal.SIGTERM if how == "signal" else -signal.SIGKILL)
        assert not os.path.exists(made) and not os.path.exists(f"{u.work}/fresh")
        assert len(u.of("exec_command_begin")) == 1


def test_an_answer_for_another_question_and_a_second_answer_change_nothing(place):
    with table_at(*place, "--approval", "untrusted") as u:
        idents = [u.begin("exec_command", cmd=f"touch {u.work}/{i}", login=False, yield_time_ms=30000) for i in range(2)]
        first, second = (u.question(call_id=ident) for ident in idents)
        assert first["question_id"] != second["question_id"]
        u.answer(second, "denied")
        u.send({"id": "late", "answer": {"question_id": second["question_id"], "decision": "approved"}})
        assert u.wait("late") == {"answered": False}
        assert "the answer was no" in u.error_of(idents[1]) and str(idents[0]) not in u.results
        u.answer(first, "approved")
        assert u.wait(idents[0])["exit_code"] == 0 and os.listdir(u.work) == ["0"]


def test_a_session_in_use_that_has_exited_is_no_reason_to_end_a_live_one():
    """A session whose question is open cannot give way; the others stay, and the table has one session more for a while."""
    with Unified() as u:
        ident = begin(u)
        question = u.question(call_id=ident)
        listed = []
        for count in range(64):
            call = u.begin("exec_command", cmd="exec sleep 1000", login=False, yield_time_ms=250)
            listed.append(u.wait(call)["session_id"])
            assert len(u.call("list_sessions")["sessions"]) == count + 2
        sessions = u.call("list_sessions")["sessions"]
        assert [s["session_id"] for s in sessions[1:]] == listed and not sessions[0]["running"]
        u.answer(question, "denied")
        assert u.wait(ident)["exit_code"] == 1
        assert [s["session_id"] for s in u.call("list_sessions")["sessions"]] == listed


def test_the_time_of_questions_is_no_time_of_the_call(place):
    with table_at(*place, "--approval", "untrusted") as u:
        begun = time.monotonic()
        ident = u.begin("exec_command", cmd="true", login=False)
        question = u.question(call_id=ident)
        asked = time.monotonic()
        time.sleep(2)
        answered = time.monotonic()
        u.answer(question, "approved")
        took = u.wait(ident)["wall_time_seconds"]
        assert took <= time.monotonic() - begun - (answered - asked)
