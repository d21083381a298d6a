"""The sandbox of a client, codex/sandbox-state/update, and `farhand mcp` by the name codex-exec-mcp-server, with the facts of the reference's server
that mcp_probe.py shows."""

import json
import os
import shutil
import subprocess
import tempfile

import pytest

from farhand_client import BIN, merged_env
from mcp_rig import Mcp, text_of
from reach import TREES
from test_mcp_questions import questions, say
from test_mcp_shell import INTERNAL, PARAMS, sh
from test_mcp_tools import needs_sandbox

UPDATE = "codex/sandbox-state/update"
RULES = "".join(f'prefix_rule(pattern={json.dumps(words)},decision="{decision}")\n' for words, decision in (
    (["git", "init"], "prompt"), (["id"], "allow"), (["sh"], "allow"), (["cat"], "allow"), (["rmdir"], "forbidden")))
FORBIDDEN = "Execution denied: Execution forbidden by policy\n"


def update(one, policy, cwd=None, **more):
    return one.request(UPDATE, {"sandboxPolicy": policy, "codexLinuxSandboxExe": None, "sandboxCwd": cwd or one.work, **more})


@pytest.fixture
def reference():
    """Makes a client of our program under the name of the reference's."""
    folder = tempfile.mkdtemp(prefix="fh-ref-", dir=TREES)
    path = os.path.join(folder, "codex-exec-mcp-server")
    os.symlink(BIN, path)
    made = []

    def make(*args, rules=RULES, **kw):
        home = tempfile.mkdtemp(dir=folder)
        os.mkdir(home + "/rules")
        with open(home + "/rules/default.rules", "w", encoding="utf-8") as f:
            f.write(rules)
        kw["env"] = {"CODEX_HOME": home, **kw.get("env", {})}
        made.append(Mcp("--bash", "/bin/bash", *args, program=[path], version="2025-06-18", **kw))
        return made[-1]

    make.path = path
    yield make
    for one in made:
        one.__exit__(None, None, None)
    shutil.rmtree(folder, ignore_errors=True)


# The state


@needs_sandbox
def test_the_policy_of_the_client_is_the_profile():
    with Mcp() as one:
        assert one.server["capabilities"]["experimental"]["codex/sandbox-state"] == {"version": "1.0.0"}
        script = f"touch here; echo $?; touch {one.outside}/there; echo $?"
        assert sh(one, script)["output"].startswith("0\n1\n")
        assert update(one, {"type": "read-only"}) == {}
        assert sh(one, script)["output"].startswith("1\n1\n")
        assert update(one, {"type": "workspace-write", "writable_roots": [one.outside], "network_access": False}) == {}
        assert sh(one, script)["output"] == "0\n0\n"
        assert update(one, {"type": "workspace-write", "exclude_slash_tmp": True, "exclude_tmpdir_env_var": True}, one.outside, useLinuxSandboxBwrap=True) == {}
        assert sh(one, script)["output"].startswith("1\n0\n")
        assert one.exec("pwd; touch x; echo $?")["output"] == one.outside + "\n0\n"  # the workspace is that of the state
        assert update(one, {"type": "danger-full-access"}, codexLinuxSandboxExe="/nowhere") == {}
        assert sh(one, script)["output"] == "0\n0\n"


@needs_sandbox
def test_git_of_a_writable_root_is_protected():
    with Mcp() as one:
        os.mkdir(one.outside + "/.git")
        update(one, {"type": "workspace-write", "writable_roots": [one.outside]})
        assert sh(one, f"touch {one.outside}/.git/x; echo $?; touch {one.outside}/y; echo $?")["output"].startswith("1\n0\n")


@needs_sandbox
def test_the_state_takes_the_place_of_roots():
    with Mcp(roots=[TREES]) as one:
        update(one, {"type": "workspace-write"}, one.outside)
        one.note("notifications/roots/list_changed")
        assert one.exec("pwd")["output"] == one.outside + "\n"


def test_bad_states_change_nothing():
    with Mcp() as one:
        assert one.refusal(UPDATE) == (PARAMS, "missing params for sandbox state request")
        for params in ({"x": 1}, {"sandboxPolicy": {"type": "some"}, "sandboxCwd": "/"}, {"sandboxPolicy": {"type": "read-only"}, "sandboxCwd": "w"}):
            ident = one.begin(UPDATE, params)
            error = one.until(lambda i=ident: one.answers.get(json.dumps(i)))["error"]
            assert error == {"code": PARAMS, "message": "failed to deserialize sandbox state", "data": params}


# The other name


def test_the_handshake_and_the_list(reference):
    one = reference()
    assert one.server["protocolVersion"] == "2025-06-18" and one.server["serverInfo"]["name"] == "farhand"
    assert one.server["capabilities"] == {"experimental": {"codex/sandbox-state": {"version": "1.0.0"}}, "tools": {}}
    (tool,) = one.request("tools/list")["tools"]
    assert sorted(tool) == ["description", "inputSchema", "name"] and tool["name"] == "shell"
    assert sorted(tool["inputSchema"]) == ["$schema", "properties", "required", "title", "type"]
    assert {name: (p["type"], p.get("format"), p.get("minimum"), p.get("nullable")) for name, p in tool["inputSchema"]["properties"].items()} == {
        "command": ("string", None, None, None), "workdir": ("string", None, None, None), "timeout_ms": ("integer", "uint64", 0, True),
        "login": ("boolean", None, None, True)}
    for name in ("exec_command", "nope"):
        assert one.refusal("tools/call", {"name": name, "arguments": {}}) == (PARAMS, "tool not found")
    assert one.refusal("foo/bar", {}) == (-32601, UPDATE)
    assert one.refusal("tools/call", {"name": "shell", "arguments": {"command": "pwd"}}) == \
        (PARAMS, "failed to deserialize parameters: missing field `workdir`")
    assert one.refusal("tools/call", {"name": "shell", "arguments": {"command": "pwd", "workdir": "/none"}}) == \
        (INTERNAL, "No such file or directory (os error 2)")
    assert one.request("ping") == {}


@needs_sandbox
def test_nothing_can_be_written_before_the_first_state(reference):
    one = reference(ask=say("once"))
    done = sh(one, "echo hi; touch x; echo $?; exit 1")
    assert done["output"].startswith("hi\n1\n") and not one.asked  # what the sandbox denies is not asked about
    assert update(one, {"type": "workspace-write"}) == {}
    assert sh(one, "touch x; echo $?")["output"] == "0\n"


@pytest.mark.parametrize("command, output", [
    ("ls -d /; rmdir zz; echo rc=$?; echo err >&2", "/\nrc=1\n" + FORBIDDEN + "err\n"),
    ("tr '\\0' '|' </proc/self/cmdline", "tr|\\0|||"),
    ("echo abc | cat | cat -n", "     1\tabc\n"),
    ("cat <(echo x)", "x\n"),
    ("exec 2>/dev/null; sh -c 'exit 7'; echo $?; sh -c 'kill -9 $$'; echo $?", "7\n137\n"),
    ("exec 3>f3; sh -c 'echo q >&3'; echo $?; cat f3", "0\nq\n"),
    ("nosuch 2>/dev/null; echo $?; ./nox 2>/dev/null; echo $?", "127\n127\n"),
    ("printf 'echo yes\\n' >n.sh; chmod +x n.sh; ./n.sh; echo $?", "yes\n0\n"),
    ("nice rmdir nope", FORBIDDEN),
    ("unset BASH_EXEC_WRAPPER EXEC_WRAPPER; rmdir nope", FORBIDDEN),
    ("echo hi; /bin/ls -d /; touch /nonexist/x 2>/dev/null; echo $?", "hi\n/\n1\n"),
    ("/bin/echo $'\\xff' | od -An -c", " 377  \\n\n"),
])
def test_what_the_probe_runs(reference, command, output):
    one = reference()
    update(one, {"type": "danger-full-access"})
    assert sh(one, command)["output"] == output


def test_endings_that_the_probe_runs(reference):
    one = reference()
    update(one, {"type": "danger-full-access"})
    result = one.wait(one.start("shell", command="exit 3", workdir=one.work, login=False))
    done = json.loads(text_of(result))
    assert sorted(done) == ["duration", "exit_code", "output", "timed_out"] and done["exit_code"] == 3 and result["isError"] is False
    assert sh(one, "kill -9 $$")["exit_code"] == 137  # the reference has errors for this and the next
    done = sh(one, "echo a; sleep 1000", timeout_ms=700)
    assert (done["exit_code"], done["output"], done["timed_out"]) == (124, "a\n", True)


@pytest.mark.parametrize("action, output", [("accept", "0\n"), ("decline", "1\nExecution denied: User declined execution\n"),
                                            ("cancel", "1\nExecution denied: User cancelled execution\n")])
def test_a_prompt(reference, action, output):
    one = reference(ask=lambda params: {"action": action, "content": {}}, rules='prefix_rule(pattern=["mkdir","-p"], decision="prompt")\n')
    update(one, {"type": "danger-full-access"})
    assert sh(one, "mkdir -p 'a b' c; echo $?")["output"] == output
    (params,) = questions(one)
    assert params["message"] == f"Allow agent to run `{shutil.which('mkdir')} -p 'a b' c` in `{one.work}`?"
    schema = params["requestedSchema"]
    assert schema["title"] == "Execution Permission Request" and list(schema["properties"]) == ["reason"] and "required" not in schema
    assert schema["properties"]["reason"]["type"] == "string" and "progressToken" in params["_meta"]


def test_without_elicitation_a_prompt_is_a_no(reference):
    one = reference(rules='prefix_rule(pattern=["mkdir"], decision="prompt")\n')
    update(one, {"type": "danger-full-access"})
    assert sh(one, "mkdir x; echo $?")["output"] == "1\nExecution denied: approval is not available\n"


def test_names_of_programs(reference):
    path = shutil.which("mkdir")
    text = f'prefix_rule(pattern=["{path}"], decision="allow")\nprefix_rule(pattern=["mkdir"], decision="forbidden")\n'
    for args, code in (((), "1"), (("--preserve-program-paths", "--execve", "/nowhere"), "0")):
        one = reference(*args, rules=text)
        update(one, {"type": "danger-full-access"})
        assert sh(one, "mkdir x 2>/dev/null; echo $?")["output"] == code + "\n"


def run(reference, *args, **env):
    return subprocess.run([reference.path, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
                          env=merged_env({"CODEX_BASH_PATH": None, "CODEX_HOME": os.path.dirname(reference.path), "FARHAND_HOME": None, **env}))


def test_the_command_line(reference):
    done = run(reference)
    assert done.returncode == 1 and done.stderr == "Error: CODEX_BASH_PATH must be set\n" and not done.stdout
    assert run(reference, CODEX_BASH_PATH="/bin/bash").returncode == 0
    for option in ("--version", "-V"):
        done = run(reference, option)
        assert done.returncode == 0 and done.stdout.startswith("farhand ")
    done = run(reference, "--help")
    assert done.returncode == 0 and all(option in done.stdout for option in ("--execve", "--bash", "--preserve-program-paths", "--version"))
    assert run(reference, "--listen").returncode == 2


def test_a_bad_rule_file_stops_it(reference):
    home = os.path.join(os.path.dirname(reference.path), "bad")
    os.makedirs(home + "/rules")
    with open(home + "/rules/a.rules", "w", encoding="utf-8") as f:
        f.write("what?")
    done = run(reference, "--bash", "/bin/bash", CODEX_HOME=home)
    assert done.returncode == 1 and "a.rules:1:" in done.stderr
