"""The client of the official MCP SDK (npm @modelcontextprotocol/sdk) drives `farhand mcp`: it checks every message and every result against its
schemas. `scripts/setup npm` gets it; FARHAND_MCP_SDK names another copy."""

import json
import os
import shutil
import subprocess
import tempfile

import pytest

from farhand_client import BIN, PATIENCE, REPO, merged_env
from mcp_http_rig import Front, until
from reach import TREES
from sandbox_rig import why_not

SDK = os.environ.get("FARHAND_MCP_SDK") or os.path.join(REPO, "build", "npm", "node_modules", "@modelcontextprotocol", "sdk")
NODE = shutil.which("node")
NO_SANDBOX = why_not("root" if os.geteuid() == 0 else "unprivileged")
pytestmark = [
    pytest.mark.skipif(not NODE, reason="no node"),
    pytest.mark.skipif(not os.path.exists(os.path.join(SDK, "dist", "esm", "client", "stdio.js")),
                       reason="no npm package @modelcontextprotocol/sdk: run `scripts/setup npm`"),
    pytest.mark.skipif(bool(NO_SANDBOX), reason=NO_SANDBOX or "-"),
]


def drive(target, work, outside, env):
    done = subprocess.run([NODE, os.path.join(os.path.dirname(__file__), "mcp_client.mjs"), SDK, target, work, outside],
                          capture_output=True, text=True, timeout=120 * PATIENCE, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def over_http():
    with Front(options=()) as front:
        outside = os.path.join(front.base, "outside")
        os.mkdir(outside)
        saw = drive(front.url, front.work, outside, front.env)
        until(lambda: not front.processes(), "the end of the session")
        return saw


def over_stdio():
    base = tempfile.mkdtemp(prefix="fh-mcp-sdk-", dir=TREES)
    paths = {name: os.path.join(base, name) for name in ("work", "outside", "home")}
    for path in paths.values():
        os.mkdir(path)
    try:
        return drive(BIN, paths["work"], paths["outside"],
                     merged_env({"HOME": paths["home"], "FARHAND_HOME": paths["home"], "CODEX_HOME": paths["home"], "FARHAND_URL": None,
                                 "CODEX_EXEC_SERVER_URL": None, "XDG_CONFIG_HOME": None, "XDG_STATE_HOME": paths["home"]}))
    finally:
        shutil.rmtree(base, ignore_errors=True)


@pytest.fixture(scope="module", params=[over_stdio, over_http], ids=["stdio", "http"])
def saw(request):
    return request.param()


def test_the_handshake(saw):
    assert saw["server"]["name"] == "farhand" and saw["instructions"] and saw["errors"] == []
    assert {"exec_command", "write_stdin", "apply_patch"} <= set(saw["tools"])


def test_the_newest_version_is_that_of_the_sdk(saw):
    with open(os.path.join(REPO, "src", "mcp", "version.c"), encoding="utf-8") as f:
        text = f.read()
    assert text.index(saw["latest"]) < min(text.index(version) for version in saw["supported"] if version in text and version != saw["latest"])
    assert [version for version in saw["supported"] if version not in text] == ["2024-10-07"]  # older than what we speak


def test_tools(saw):
    assert saw["pwd"].endswith("/work\n") and saw["work"] == ["patched"]
    assert saw["session"]["exit_code"] == 5 and "hello you" in saw["session"]["output"]
    assert saw["failed"] is True and saw["unknown"] == -32602


def test_shell(saw):
    assert saw["shell"]["output"] == "out\nerr\n" and saw["shell"]["exit_code"] == 3 and saw["shell"]["timed_out"] is False
    assert saw["removal"]["output"].startswith("2\n")
    (question,) = [question for question in saw["questions"] if question.startswith("Allow agent to run `")]
    assert question.split("`")[1].endswith("/rm -rf d")


def test_files(saw):
    assert saw["written"] == 8 and saw["read"] == "two\n" and "file" in saw["list"]
    assert saw["image"] == [{"type": "image", "data": "R0lGODlh", "mimeType": "image/gif"}]


def test_questions(saw):
    assert saw["approved"] == 0 and saw["declined"] == 1
    assert [question.split("\n")[0] for question in saw["questions"] if not question.startswith("Allow ")] == ["Run this command outside of the sandbox?"] * 2
    assert "approved" in saw["outside"] and "declined" not in saw["outside"]


def test_roots(saw):
    assert saw["moved"].endswith("/outside\n") and "in-the-new-root" in saw["outside"]


def test_side_by_side_with_progress_and_cancellation(saw):
    assert saw["parallel"] == "".join(f"{n}\n" for n in range(40)) and saw["slow"] == "working\n"
    assert len(saw["progress"]) >= 2 and saw["progress"][-1]["message"] == "working"
    assert "enough" in saw["gone"] and saw["after"] == "done\n"


def test_streams_that_are_cut_are_resumed(saw):
    if "resumed" not in saw:
        pytest.skip("stdio has no streams")
    assert saw["resumed"] == "first\nsecond\n" and saw["around"][0] == 1 and saw["around"][1] >= 1
    assert saw["back"].endswith("/work\n")  # the request for roots came on the resumed stream
    assert saw["session_id"] and saw["terminated"] == 404
