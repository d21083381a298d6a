"""The tool `shell` of `farhand mcp`: its result, its errors, its stopwatch, its end; near and far."""

import json
import os
import shutil
import tempfile
import threading
import time

import jsonschema
import pytest

from farhand_client import PATIENCE, Server
from mcp_rig import Mcp, Refused, text_of
from reach import TREES
from test_mcp_tools import TREE, needs_sandbox, pids_in, wait_gone

OPEN = ("--no-sandbox",)
PARAMS, INTERNAL = -32602, -32603
RULES = 'prefix_rule(pattern=["rmdir"], decision="forbidden")\nprefix_rule(pattern=["id"], decision="prompt")\n'
LONG = 1000 * 1000


@pytest.fixture(scope="module")
def m():
    with Mcp(*OPEN) as one:
        yield one


def start(one, command, token=None, **more):
    return one.start("shell", token=token, **{"command": command, "workdir": one.work, "login": False, "timeout_ms": LONG, **more})


def sh(one, command, **more):
    return one.done(start(one, command, **more))


def refused(one, **arguments):
    return one.refusal("tools/call", {"name": "shell", "arguments": arguments})


def rules_file(one, text=RULES):
    path = os.path.join(one.base, "some.rules")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


# Results


def test_a_result(m):
    result = m.wait(start(m, "echo out; echo err >&2; echo more; exit 3"))
    done = result["structuredContent"]
    assert not result["isError"] and json.loads(text_of(result)) == done
    assert done["exit_code"] == 3 and done["output"] == "out\nmore\nerr\n" and done["timed_out"] is False  # stdout, then stderr
    assert 0 <= done["duration"]["secs"] <= 60 and 0 <= done["duration"]["nanos"] < 10**9
    tool = {tool["name"]: tool for tool in m.request("tools/list")["tools"]}["shell"]
    jsonschema.validate(done, tool["outputSchema"])
    schema = tool["inputSchema"]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"] == "ExecParams" and schema["required"] == ["command", "workdir"] and "additionalProperties" not in schema
    assert sorted(schema["properties"]) == ["command", "login", "timeout_ms", "workdir"]
    timeout = schema["properties"]["timeout_ms"]
    assert (timeout["type"], timeout["format"], timeout["minimum"], timeout["nullable"]) == ("integer", "uint64", 0, True)


def test_a_signal_is_a_code(m):
    assert sh(m, "kill -9 $$")["exit_code"] == 137 and sh(m, "kill -TERM $$")["exit_code"] == 143


def test_login_and_stdin(m):
    assert sh(m, "shopt -q login_shell; echo $?; cat; tty; readlink /proc/self/fd/0")["output"] == "1\nnot a tty\n/dev/null\n"
    assert sh(m, "shopt -q login_shell && echo login", login=True)["output"] == "login\n"
    assert "login\n" in sh(m, "shopt -q login_shell && echo login", login=None)["output"]


def test_workdir(m):
    os.makedirs(m.work + "/sub", exist_ok=True)
    assert sh(m, "pwd", workdir=m.work + "/sub")["output"] == m.work + "/sub\n"
    assert sh(m, "pwd", workdir="sub")["output"] == m.work + "/sub\n"  # relative to the workspace
    assert refused(m, command="pwd", workdir="/nonexist") == (INTERNAL, "No such file or directory (os error 2)")
    assert refused(m, command="pwd", workdir="/etc/passwd") == (INTERNAL, "Not a directory (os error 20)")


def test_mistakes_in_the_arguments(m):
    words = "failed to deserialize parameters: "
    assert refused(m, command="pwd") == (PARAMS, words + "missing field `workdir`")
    assert refused(m, command=5, workdir="/") == (PARAMS, words + "invalid type: integer `5`, expected a string")
    assert refused(m, command="x", workdir="/", timeout_ms=-1) == (PARAMS, words + "invalid value: integer `-1`, expected u64")
    assert m.refusal("tools/call", {"name": "shell"}) == (PARAMS, words + "missing field `command`")
    assert sh(m, "echo x", more=1, timeout_ms=None)["output"] == "x\n"


def test_bytes_that_are_not_utf8(m):
    assert sh(m, "printf '\\377\\376 abc'")["output"] == "\ufffd\ufffd abc"


def test_output_is_capped_as_the_reference_does(m):
    def fill(n, letter):
        return f"head -c {n} /dev/zero | tr '\\0' {letter}"

    out = sh(m, fill(2000000, "a") + "; printf err >&2")["output"]
    assert len(out) == 1 << 20 and out.count("a") == (1 << 20) - 3 and out.endswith("err")
    out = sh(m, fill(700000, "a") + ";" + fill(1300000, "b") + " >&2")["output"]
    assert (out.count("a"), out.count("b")) == (349525, 699051) and out.startswith("a") and out.endswith("b")


# Time


def test_time_is_over(m):
    done = sh(m, "echo a; echo e >&2; sleep 1000", timeout_ms=700)
    assert done["exit_code"] == 124 and done["timed_out"] is True and done["output"] == "a\ne\n"
    assert done["duration"]["secs"] * 10**9 + done["duration"]["nanos"] >= 700 * 10**6


def test_the_tree_ends_with_its_time():
    with Mcp(*OPEN) as one:
        ident = start(one, TREE, timeout_ms=int(5000 * PATIENCE))
        pids = pids_in(one.work + "/pids", 3)
        assert one.done(ident)["timed_out"] is True
        wait_gone(pids)


def test_what_a_command_leaves_behind_ends():
    with Mcp(*OPEN) as one:
        done = sh(one, "sleep 1000 & echo $! >>pids; setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $! >>pids; echo hi")
        assert done["output"] == "hi\n" and done["exit_code"] == 0  # the sleep that holds the pipe does not hold the call
        wait_gone(pids_in(one.work + "/pids", 2))


def test_the_stopwatch_stands_still_while_a_question_is_open():
    pause = threading.Event()

    def answer(_params):
        pause.wait(2 * PATIENCE)
        return {"action": "accept", "content": {"decision": "once"}}

    with Mcp(*OPEN) as base:
        with Mcp(*OPEN, "--rules", rules_file(base), ask=answer) as one:
            done = sh(one, "id -u; echo $?", timeout_ms=int(1500 * PATIENCE))
            assert done["timed_out"] is False and done["output"].endswith("\n0\n")
            assert done["duration"]["secs"] >= 1  # the wait is a part of the duration
            done = sh(one, "id -u & id -g & wait; sleep 1000", timeout_ms=600)  # two questions at once stop it once
            assert done["timed_out"] is True and done["duration"]["secs"] >= 1


def test_a_cancelled_call_ends_its_tree_and_has_no_answer():
    with Mcp(*OPEN) as one:
        ident = start(one, TREE)
        pids = pids_in(one.work + "/pids", 3)
        one.note("notifications/cancelled", {"requestId": ident, "reason": "enough"})
        wait_gone(pids)
        assert sh(one, "echo on")["output"] == "on\n"
        assert json.dumps(ident) not in one.answers


def test_one_stuck_call_blocks_no_other(m):
    stuck = start(m, "sleep 1000")
    done = [m.done(ident) for ident in [start(m, f"echo {n}") for n in range(30)]]
    assert [one["output"] for one in done] == [f"{n}\n" for n in range(30)] and json.dumps(stuck) not in m.answers
    m.note("notifications/cancelled", {"requestId": stuck})


def test_progress(m):
    ident = start(m, "echo first; sleep 2.3; echo last", token="t")
    assert m.done(ident)["output"] == "first\nlast\n"
    told = m.progress("t")
    assert told and told[0]["message"] == "first"


def test_no_session_stays(m):
    assert sh(m, "true")["exit_code"] == 0
    assert m.failure("write_stdin", session_id=1000, chars="x")


# Rules


def test_rules_decide_about_every_program_below():
    with Mcp(*OPEN) as base:
        path = rules_file(base)
        with Mcp(*OPEN, "-r", path) as one:
            done = sh(one, "rmdir a; echo $?; nice rmdir b; sh -c 'rmdir c'; echo $?")
            assert done["output"] == "1\n1\n" + "Execution denied: Execution forbidden by policy\n" * 3
            # The shell itself is none of them, and a client that cannot be asked is not.
            assert sh(one, "id; echo $?")["output"] == "1\nExecution denied: approval is not available\n" and not one.asked
        with open(path, "a", encoding="utf-8") as f:
            f.write('prefix_rule(pattern=["bash"], decision="forbidden")\n')
        with Mcp(*OPEN, "-r", path) as one:
            assert sh(one, "echo still")["output"] == "still\n"


def test_rules_of_the_user_and_a_bad_file():
    with Mcp(*OPEN) as base:
        home = os.path.join(base.base, "other")
        os.makedirs(home + "/rules")
        with open(home + "/rules/x.rules", "w", encoding="utf-8") as f:
            f.write(RULES)
        with Mcp(*OPEN, env={"CODEX_HOME": home}) as one:
            assert "forbidden" in sh(one, "rmdir x")["output"]
        with Mcp(*OPEN, env={"FARHAND_HOME": home}) as one:
            assert "forbidden" in sh(one, "rmdir x")["output"]
        with open(home + "/rules/x.rules", "w", encoding="utf-8") as f:
            f.write("prefix_rule(pattern=[])")
        one = Mcp(*OPEN, env={"CODEX_HOME": home}, begin=False)
        try:
            assert one.proc.wait(60 * PATIENCE) == 255 and "x.rules:1:" in one.said()
        finally:
            one.close()


@needs_sandbox
@pytest.mark.parametrize("where", ["here", "far"])
def test_allowed_programs_run_outside_of_the_sandbox(where):
    with Mcp() as base:
        path = rules_file(base, 'prefix_rule(pattern=["mkdir"], decision="allow")\n')
        far = tempfile.mkdtemp(prefix="fh-far-", dir=TREES)
        server = Server() if where == "far" else None
        try:
            kw = {"where": ("--url", server.url, "-C", far), "cwd": far} if server else {}
            with Mcp("-r", path, **kw) as one:
                done = sh(one, f"mkdir {one.outside}/allowed; touch {one.outside}/denied; echo $?; touch here; echo $?")
                assert done["output"].startswith("1\n0\n") and "Read-only file system" in done["output"]
                assert os.listdir(one.outside) == ["allowed"] and "here" in os.listdir(one.work)
        finally:
            if server:
                server.__exit__(None, None, None)
            shutil.rmtree(far, ignore_errors=True)


def test_several_environments():
    with Server() as server:
        toml = f'default = "far"\n[[environments]]\nid = "far"\nurl = "{server.url}"\n'
        with Mcp(*OPEN, where=(), toml=toml) as one:
            tool = {tool["name"]: tool for tool in one.request("tools/list")["tools"]}["shell"]
            assert tool["inputSchema"]["properties"]["environment_id"]["enum"] == ["far", "local"]
            assert sh(one, "pwd", workdir="/", environment_id="local")["output"] == "/\n"
            assert sh(one, "pwd", workdir="/")["output"] == "/\n"
            code, message = refused(one, command="pwd", workdir="/", environment_id="none")
            assert (code, message) == (PARAMS, "unknown environment id `none`")


def test_a_server_that_dies_is_an_error_and_the_next_call_gets_a_new_one():
    with Server() as server:
        with Mcp(*OPEN, where=("--url", server.url)) as one:
            ident = start(one, "echo $$ >pid; sleep 1000", workdir=one.work)
            pids_in(one.work + "/pid", 1)
            server.proc.kill()
            with pytest.raises(Refused) as e:
                one.wait(ident)
            assert e.value.code == INTERNAL


def test_the_bash_of_an_option():
    with Mcp(*OPEN) as base:
        path = os.path.join(base.base, "mybash")
        with open(path, "w", encoding="utf-8") as f:
            f.write('#!/bin/sh\necho "mine: $1 $2"\n')
        os.chmod(path, 0o755)
        with Mcp(*OPEN, "--bash", path) as one:
            assert sh(one, "echo x")["output"] == "mine: -c echo x\n"


def test_the_end_of_the_client_ends_everything():
    with Mcp(*OPEN) as one:
        start(one, TREE)
        pids = pids_in(one.work + "/pids", 3)
        began = time.monotonic()
        assert one.finish() == 0 and time.monotonic() - began < 30 * PATIENCE
        wait_gone(pids)
