"""The tools of `farhand mcp`: commands, sessions, patches; side by side, with progress, cancelled, near and far."""

import json
import os
import signal
import socket
import time

import pytest

from farhand_client import PATIENCE, Server
from mcp_rig import Mcp, Refused, text_of
from sandbox_rig import why_not

needs_sandbox = pytest.mark.skipif(bool(why_not("root" if os.geteuid() == 0 else "unprivileged")), reason="no sandbox here")
OPEN = ("--no-sandbox",)


@pytest.fixture(scope="module")
def m():
    with Mcp(*OPEN) as one:
        yield one


def gone(pid):
    """Whether a process has ended: it is gone, or nobody has waited for it yet."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def pids_in(path, count):
    """The pids that a command has written into a file, once all are there."""
    end = time.monotonic() + 60 * PATIENCE
    while time.monotonic() < end:
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                lines = f.read().split("\n")
            if len(lines) > count:
                return [int(line) for line in lines[:count]]
        time.sleep(0.02)
    raise AssertionError(f"{path} never had {count} lines")


def wait_gone(pids):
    end = time.monotonic() + 30 * PATIENCE
    while time.monotonic() < end:
        if all(gone(pid) for pid in pids):
            return
        time.sleep(0.02)
    raise AssertionError(f"still there: {[pid for pid in pids if not gone(pid)]}")


TREE = "(setsid sleep 1000 & echo $! >> pids); sleep 1000 & echo $! >> pids; echo $$ >> pids; wait"


# Commands and sessions


def test_a_command(m):
    done = m.exec("echo out; echo err >&2; exit 3")
    assert done["exit_code"] == 3 and sorted(done["output"].split()) == ["err", "out"] and "session_id" not in done
    result = m.wait(m.start_exec("pwd"))
    assert result["structuredContent"]["output"] == m.work + "\n" and not result["isError"]
    assert text_of(result).startswith("Chunk ID: ") and text_of(result).endswith(f"Output:\n{m.work}\n")


def test_a_command_that_runs_on_is_a_session(m):
    done = m.exec("stty -echo; read name; echo hello $name; exit 5", tty=True, yield_time_ms=250)
    assert "exit_code" not in done
    done = m.call("write_stdin", session_id=done["session_id"], chars="you\n", yield_time_ms=30000)
    assert done["exit_code"] == 5 and done["output"].endswith("hello you\r\n")
    assert "Unknown process id" in m.failure("write_stdin", session_id=1)


def test_a_child_never_sees_our_stdin(m):
    done = m.exec("cat; readlink /proc/self/fd/0; ls -l /proc/self/fd | grep -c pipe:")
    assert done["exit_code"] == 0 and m.request("ping") == {}
    assert m.exec("read line; echo $?:$line")["output"] == "1:\n"


def test_a_patch(m):
    patch = "*** Begin Patch\n*** Add File: made\n+one\n+two\n*** End Patch\n"
    done = m.call("apply_patch", input=patch)
    assert done["output"] == "Success. Updated the following files:\nA made\n"
    with open(os.path.join(m.work, "made"), encoding="utf-8") as f:
        assert f.read() == "one\ntwo\n"
    assert "verification failed" in m.failure("apply_patch", input="*** Begin Patch\n*** Update File: none\n@@\n-x\n+y\n*** End Patch\n")


# Side by side


def test_one_stuck_call_blocks_no_other(m):
    stuck = m.start_exec("sleep 1000", yield_time_ms=30000)
    others = [m.start_exec(f"echo {n}", yield_time_ms=30000) for n in range(49)]
    assert [m.done(ident)["output"] for ident in others] == [f"{n}\n" for n in range(49)]
    assert json.dumps(stuck) not in m.answers
    m.note("notifications/cancelled", {"requestId": stuck})
    assert m.exec("echo after")["output"] == "after\n"


def test_no_more_than_64_calls():
    with Mcp(*OPEN) as one:
        held = [one.start_exec("sleep 1000", yield_time_ms=30000) for _ in range(64)]
        with pytest.raises(Refused, match="too many calls are under way"):
            one.exec("true")
        for ident in held:
            one.note("notifications/cancelled", {"requestId": ident})
        one.until(lambda: one.request("ping") == {})
        end = time.monotonic() + 60 * PATIENCE
        while True:
            try:
                assert one.exec("echo again")["output"] == "again\n"
                break
            except Refused:
                assert time.monotonic() < end
        assert not any(json.dumps(ident) in one.answers for ident in held)


def test_an_id_that_is_under_way_is_refused(m):
    ident = m.start_exec("sleep 1000", yield_time_ms=30000)
    m.send({"id": ident, "method": "tools/call", "params": {"name": "exec_command", "arguments": {"cmd": "true"}}})
    with pytest.raises(Refused, match="under way"):
        m.wait(ident)
    m.note("notifications/cancelled", {"requestId": ident})


# Progress


def test_progress_of_a_long_command(m):
    ident = m.start_exec("echo one; sleep 1.5; echo two; echo; sleep 1.5", token="tok", yield_time_ms=30000)
    assert m.done(ident)["output"] == "one\ntwo\n\n"
    told = m.progress("tok")
    assert len(told) >= 2 and told[0]["message"] == "one" and told[-1]["message"] == "two", told
    assert [note["progress"] for note in told] == sorted({note["progress"] for note in told})
    assert m.lines.index(next(line for line in m.lines if line.get("params", {}).get("progressToken") == "tok")) < len(m.lines)


def test_progress_of_a_session_that_is_waited_for(m):
    session = m.exec("sleep 1; echo late; sleep 3", yield_time_ms=250)["session_id"]
    ident = m.start("write_stdin", token=7, session_id=session, yield_time_ms=20000)
    assert m.done(ident)["exit_code"] == 0
    assert "late" in [note.get("message") for note in m.progress(7)]


def test_no_progress_without_a_token(m):
    before = len(m.notes)
    m.exec("sleep 1.3")
    m.wait(m.start_exec("sleep 1.3", token={"no": "token"}))
    assert len(m.notes) == before


# Cancellation


def test_cancellation_ends_the_tree_of_the_command():
    with Mcp(*OPEN) as one:
        ident = one.start_exec(TREE, yield_time_ms=30000)
        pids = pids_in(os.path.join(one.work, "pids"), 3)
        one.note("notifications/cancelled", {"requestId": ident, "reason": "no longer wanted"})
        wait_gone(pids)
        assert one.exec("echo on")["output"] == "on\n" and json.dumps(ident) not in one.answers


def test_cancelling_a_wait_leaves_the_session(m):
    session = m.exec("read line; echo got $line", tty=True, yield_time_ms=250)["session_id"]
    ident = m.start("write_stdin", session_id=session, yield_time_ms=20000)
    m.request("ping")
    m.note("notifications/cancelled", {"requestId": ident})
    done = m.call("write_stdin", session_id=session, chars="it\n", yield_time_ms=20000)
    assert done["exit_code"] == 0 and "got it" in done["output"] and json.dumps(ident) not in m.answers


# The end


@pytest.mark.parametrize("how", ["stdin", "TERM", "KILL"])
def test_at_the_end_nothing_is_left(how):
    with Mcp(*OPEN) as one:
        one.start_exec(TREE, yield_time_ms=30000)
        one.exec("sleep 1000 & echo $! >> pids; wait", yield_time_ms=250)
        pids = pids_in(os.path.join(one.work, "pids"), 4)
        if how == "stdin":
            assert one.finish() == 0
        else:
            one.proc.send_signal(getattr(signal, "SIG" + how))
            assert one.proc.wait(60 * PATIENCE) == (143 if how == "TERM" else -signal.SIGKILL)
        wait_gone(pids)


def test_requests_before_the_end_of_stdin_are_read():
    with Mcp(*OPEN, begin=False) as one:
        one.send_raw('{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18"}}\n'
                     '{"jsonrpc":"2.0","id":"l","method":"tools/list"}')
        assert one.finish() == 0 and one.answers['"i"']["result"] and one.answers['"l"']["result"]["tools"]


# The workspace


@needs_sandbox
def test_the_default_profile():
    with Mcp() as one, socket.create_server(("127.0.0.1", 0)) as listener:
        assert one.exec("touch here && ls")["output"] == "here\n"
        assert one.exec(f"touch {one.outside}/made")["exit_code"] != 0 and os.listdir(one.outside) == []
        assert one.exec(f"cat {__file__} >/dev/null")["exit_code"] == 0
        port = listener.getsockname()[1]
        assert one.exec(f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'")["exit_code"] == 1
        assert one.failure("apply_patch", input=f"*** Begin Patch\n*** Add File: {one.outside}/made\n+x\n*** End Patch\n")
        assert os.listdir(one.outside) == []


@needs_sandbox
def test_read_only_and_a_profile(tmp_path):
    with Mcp("--read-only") as one:
        assert one.exec("touch here")["exit_code"] != 0 and os.listdir(one.work) == []
    profile = tmp_path / "profile.json"
    profile.write_text('{"type":"disabled"}')
    with Mcp("--profile", str(profile)) as one:
        assert one.exec(f"touch {one.outside}/made")["exit_code"] == 0
    with Mcp("--read-only", "--no-sandbox", begin=False) as one:
        assert one.proc.wait(60) == 255 and "only one of" in one.said()


@needs_sandbox
def test_the_roots_of_the_client_are_the_workspace():
    with Mcp(roots=[]) as one:
        assert one.exec("touch here; pwd")["output"] == one.work + "\n"  # no root: the directory is the workspace
        one.roots = [one.outside, os.path.join(one.base, "home")]
        one.note("notifications/roots/list_changed")
        done = one.exec(f"pwd; touch made ../home/made; touch {one.work}/more")
        assert done["output"].startswith(one.outside + "\n") and done["exit_code"] != 0
        assert os.listdir(one.outside) == ["made"] and os.path.exists(os.path.join(one.base, "home", "made")) and os.listdir(one.work) == ["here"]
        one.call("apply_patch", input="*** Begin Patch\n*** Add File: patched\n+x\n*** End Patch\n")
        assert sorted(os.listdir(one.outside)) == ["made", "patched"]


@needs_sandbox
def test_a_call_waits_for_the_roots():
    with Mcp(roots=lambda request: None) as one:  # the answer comes by hand
        asked = one.until(lambda: [request for request in one.asked if request["method"] == "roots/list"])[0]
        ident = one.start_exec("pwd")
        assert one.request("ping") == {} and json.dumps(ident) not in one.answers
        one.send({"id": asked["id"], "result": {"roots": [{"uri": "file:///"}, {"uri": "http://x/"}, {"uri": 7}, {}, {"uri": "file://" + one.outside}]}})
        assert one.done(ident)["output"] == one.outside + "\n"
        assert one.exec("touch /made-by-farhand")["exit_code"] != 0  # the root directory was left out


@needs_sandbox
def test_a_client_that_does_not_tell_its_roots():
    with Mcp(roots=lambda request: None) as one:
        assert one.exec("pwd")["output"] == one.work + "\n"  # after LIMIT_MCP_ROOTS_MS
    with Mcp(roots=lambda request: {"roots": "many"}) as one:
        assert one.exec("pwd")["output"] == one.work + "\n"
    with Mcp("-C", ".", roots=["/usr"]) as one:
        assert one.exec("pwd")["output"] == one.work + "\n" and not one.asked


@needs_sandbox
def test_the_root_directory_is_no_workspace():
    with Mcp(cwd="/") as one:
        assert one.exec("pwd; touch /made-by-farhand")["output"].startswith("/tmp\n")
        assert not os.path.exists("/made-by-farhand")


# Near and far


def test_a_far_server():
    with Server() as server, Mcp("-C", "/usr", *OPEN, where=("--url", server.url)) as one:
        assert one.exec("pwd")["output"] == "/usr\n"


def test_several_environments():
    with Server() as server:
        toml = f'default = "far"\n[[environments]]\nid = "far"\nurl = "{server.url}"\n'
        with Mcp(*OPEN, where=(), toml=toml) as one:
            tools = {tool["name"]: tool["inputSchema"]["properties"] for tool in one.request("tools/list")["tools"]}
            assert tools["exec_command"]["environment_id"]["enum"] == ["far", "local"] == tools["apply_patch"]["environment_id"]["enum"]
            assert "environment_id" not in tools["write_stdin"]
            assert one.exec("pwd", environment_id="local")["output"] == one.work + "\n"
            assert one.exec("echo far", workdir="/")["output"] == "far\n"
            assert one.failure("exec_command", cmd="true", environment_id="none") == "unknown environment id `none`"


def test_a_server_that_is_not_there():
    with Mcp(*OPEN, where=("--url", "ws://127.0.0.1:1")) as one:
        assert "Failed to create unified exec process" in one.failure("exec_command", cmd="true")
        assert one.request("ping") == {}
