"""Real MCP clients use `farhand mcp`, each by the configuration that `farhand mcp install` has written. None needs an account: their models are
scripts, and the Inspector has none. FARHAND_REFERENCE_166 names the binary `codex`, FARHAND_CLAUDE the binary `claude` (npm
@anthropic-ai/claude-code; tried with 2.1.328), FARHAND_GEMINI the program gemini.js of npm @google/gemini-cli (0.61.0), FARHAND_INSPECTOR a directory where npm has installed @modelcontextprotocol/inspector (2.12.0)."""

import json
import os
import shutil
import subprocess
import tempfile

import pytest

from farhand_client import BIN, PATIENCE, merged_env
from mcp_rig import Mcp
from reach import TREES
from sandbox_rig import why_not
from scripted_gemini import ScriptedGemini
from scripted_messages import ScriptedMessages, use
from scripted_model import ScriptedModel, call, say

SECONDS = 120 * PATIENCE
NODE = shutil.which("node")
CODEX = os.environ.get("FARHAND_REFERENCE_166")
CLAUDE = os.environ.get("FARHAND_CLAUDE")
GEMINI = os.environ.get("FARHAND_GEMINI")
INSPECTOR = os.path.join(os.environ.get("FARHAND_INSPECTOR", "/nonexistent"), "node_modules", ".bin", "mcp-inspector")
NO_SANDBOX = why_not("root" if os.geteuid() == 0 else "unprivileged")
pytestmark = pytest.mark.skipif(bool(NO_SANDBOX), reason=NO_SANDBOX or "-")


@pytest.fixture
def desk():
    """(environment, directory for work, directory for nobody): a home of the test's own, not in /tmp, where commands may write."""
    with tempfile.TemporaryDirectory(prefix="fh-clients-", dir=TREES, ignore_cleanup_errors=True) as base:
        home, work, outside = (f"{base}/{name}" for name in ("home", "work", "outside"))
        for path in (home, work, outside, f"{home}/.codex"):
            os.mkdir(path)
        yield merged_env({"HOME": home, "CODEX_HOME": f"{home}/.codex", "FARHAND_HOME": home, "XDG_CONFIG_HOME": None, "FARHAND_URL": None,
                          "XDG_STATE_HOME": home, "CODEX_EXEC_SERVER_URL": None, "CLAUDE_CONFIG_DIR": None, "RUST_LOG": "error"}), work, outside


def tool(ident, name, **arguments):
    """A call of one of our tools, as the model of Codex names it."""
    return {**call(ident, name, **arguments), "namespace": "mcp__farhand"}


def installed(env, client, *args):
    done = subprocess.run([BIN, "mcp", "install", client, "--yes", "--", *args], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not CODEX, reason="no reference client: FARHAND_REFERENCE_166 names none")
@pytest.mark.parametrize("way", ["install", "options"])
def test_codex_works_with_our_tools(desk, way):
    env, work, outside = desk
    args = ["--env", "local", "--unasked", "deny"]
    options = ["-c", f"mcp_servers.farhand={{command={json.dumps(os.path.realpath(BIN))},args={json.dumps(['mcp', *args])}}}"]
    if way == "install":
        installed(env, "codex", *args)
        options = []

    def result(text):
        """What our tool has answered, out of what the client sends to its model."""
        return json.loads(text.partition("Output:\n")[2])

    def script(outputs):
        yield [tool("a", "exec_command", cmd="pwd; echo made > made; read -r line; echo got $line; exit 3", tty=True, yield_time_ms=500, login=False)]
        session = result(outputs["a"])["session_id"]
        yield [tool("b", "write_stdin", session_id=session, chars="words\n", yield_time_ms=20000)]
        assert result(outputs["b"])["exit_code"] == 3 and "got words" in result(outputs["b"])["output"], outputs
        yield [tool("c", "apply_patch", input="*** Begin Patch\n*** Update File: made\n@@\n-made\n+patched\n*** End Patch\n")]
        yield [tool("d", "exec_command", cmd=f"cat made; touch {outside}/x", yield_time_ms=20000, login=False)]
        assert result(outputs["d"])["exit_code"] == 1 and "patched" in result(outputs["d"])["output"], outputs
        yield [say("ok")]

    with ScriptedModel(script) as model:
        done = subprocess.run([CODEX, *model.codex_args(work), *options], stdin=subprocess.DEVNULL, env=env, capture_output=True, timeout=SECONDS,
                              check=False)
        assert done.returncode == 0 and "d" in model.outputs, done
    with open(f"{work}/made", encoding="ascii") as f:
        assert f.read() == "patched\n"
    assert os.listdir(outside) == []


@pytest.mark.skipif(not CLAUDE, reason="no Claude Code: FARHAND_CLAUDE names none")
def test_claude_code_works_with_our_tools(desk):
    env, work, outside = desk
    installed(env, "claude", "--env", "local", "--unasked", "deny")

    def script(outputs):
        yield use("a", "mcp__farhand__exec_command", cmd="pwd; echo made > made; exit 3", login=False)
        assert json.loads(outputs["a"])["exit_code"] == 3 and json.loads(outputs["a"])["output"] == f"{work}\n", outputs
        yield use("b", "mcp__farhand__apply_patch", input="*** Begin Patch\n*** Update File: made\n@@\n-made\n+patched\n*** End Patch\n")
        yield use("c", "mcp__farhand__exec_command", cmd=f"cat made; touch {outside}/x", login=False)
        assert json.loads(outputs["c"])["exit_code"] == 1 and "patched" in json.loads(outputs["c"])["output"], outputs

    with ScriptedMessages(script) as model:
        done = subprocess.run([CLAUDE, "-p", "go", "--allowedTools", "mcp__farhand__exec_command,mcp__farhand__apply_patch"], cwd=work,
                              env={**env, "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)
        assert done.returncode == 0 and "c" in model.outputs, done
        assert {"mcp__farhand__exec_command", "mcp__farhand__write_stdin", "mcp__farhand__apply_patch"} <= set(model.tools)
    assert os.listdir(outside) == []


@pytest.mark.skipif(not NODE or not GEMINI, reason="no Gemini CLI: FARHAND_GEMINI names none")
def test_gemini_cli_works_with_our_tools(desk):
    env, work, outside = desk
    os.mkdir(f"{env['HOME']}/.gemini")
    with open(f"{env['HOME']}/.gemini/settings.json", "w", encoding="ascii") as f:
        f.write('{\n  // no account\n  "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}}\n}\n')
    installed(env, "gemini", "--env", "local", "--unasked", "deny")

    def script(outputs):
        yield "mcp_farhand_exec_command", {"cmd": f"echo made > made; touch {outside}/x; pwd; exit 3", "login": False}
        assert len(outputs) == 1 and f"{work}\\n" in outputs[0] and "exited with code 3" in outputs[0], outputs

    with ScriptedGemini(script) as model:
        done = subprocess.run([NODE, GEMINI, "-p", "go", "--approval-mode", "yolo", "-m", "gemini-2.5-flash"], cwd=work, stdin=subprocess.DEVNULL,
                              env={**env, "GOOGLE_GEMINI_BASE_URL": model.url, "GEMINI_API_KEY": "none"}, capture_output=True, timeout=SECONDS, check=False)
        assert done.returncode == 0 and model.outputs, done
    assert os.path.exists(f"{work}/made") and os.listdir(outside) == []


@pytest.mark.skipif(not NODE or not os.path.exists(INSPECTOR), reason="no Inspector: FARHAND_INSPECTOR names no directory that has it")
def test_the_inspector_lists_and_calls_the_tools(desk):
    env, work, _ = desk
    installed(env, "cursor", "--env", "local")

    def inspect(*args):
        done = subprocess.run([INSPECTOR, "--cli", "--config", f"{env['HOME']}/.cursor/mcp.json", "--server", "farhand", *args], cwd=work, env=env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    with Mcp() as ours:
        names = [one["name"] for one in ours.request("tools/list")["tools"]]
    assert [one["name"] for one in inspect("--method", "tools/list")["tools"]] == names
    result = inspect("--method", "tools/call", "--tool-name", "exec_command", "--tool-arg", "cmd=echo hello; exit 4", "login=false")
    assert result["structuredContent"]["exit_code"] == 4 and result["structuredContent"]["output"] == "hello\n"
