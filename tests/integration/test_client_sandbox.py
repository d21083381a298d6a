"""Commands that shall run in a sandbox, on servers of older generations: one that does not know sandboxes must not run them."""

import json
import subprocess

import pytest

from fake_server import FakeServer
from farhand_client import BIN, merged_env
from unified_rig import Unified

REFUSED = "this server knows no sandboxes for commands"
MISSING = "missing field `processId`"
TYPE = "invalid type: number, expected struct FileSystemSandboxContext"


class Old:
    """A server that tells nothing of its machine. `complaint` is what it says about a start with nothing but a bad sandbox; None: it takes it.
    `starts` are the params of the other starts, `probes` how many there were of this one."""

    def __init__(self, complaint, cut_probes=0):
        self.starts, self.probes, self._complaint, self._cut = [], 0, complaint, cut_probes

    async def __call__(self, peer):
        await peer.answer("initialize", {"sessionId": "s"})
        async for text in peer.ws:
            message = json.loads(text)
            method, params, ident = message["method"], message.get("params"), message.get("id")
            if method == "process/start" and "processId" not in params:
                assert list(params) == ["sandbox"]
                self.probes += 1
                if self.probes <= self._cut:
                    await peer.ws.close(1011)
                    return
                await peer.send(id=ident, **({"error": {"code": -32602, "message": self._complaint}} if self._complaint else {"result": {}}))
            elif method == "process/start":
                self.starts.append(params)
                peer.start = params
                await peer.send(id=ident, result={"processId": params["processId"]})
                await peer.output(1, b"out\n")
                await peer.ended(2)
            elif method == "environment/info":
                await peer.send(id=ident, error={"code": -32601, "message": "not implemented"})
            elif ident is not None:
                await peer.send(id=ident, result={})


def run(server, *args):
    return subprocess.run([BIN, "run", "--url", server.url, "-C", "/work", "-n", *args], env=merged_env({}), capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize("complaint", [MISSING, "something else", None])
def test_a_server_without_sandboxes_runs_no_command_that_needs_one(complaint):
    serve = Old(complaint)
    with FakeServer(serve) as server:
        done = run(server, "--read-only", "--", "true")
        assert done.returncode == 255 and REFUSED in done.stderr.decode() and serve.starts == []
        assert run(server, "--", "true").stdout == b"out\n" and len(serve.starts) == 1 and serve.probes == 1


def test_a_server_that_knows_sandboxes_is_asked_once_and_then_runs_it():
    serve = Old(TYPE)
    with FakeServer(serve) as server, Unified("--read-only", "-C", "/work", where=("--url", server.url)) as u:
        idents = [u.begin("exec_command", cmd="true", login=False) for _ in range(3)]
        for ident in idents:
            assert u.wait(ident)["output"] == "out\n"
        assert len(serve.starts) == 3 and all(start["sandbox"]["permissions"] for start in serve.starts) and serve.probes == 1


def test_the_question_survives_a_lost_connection():
    serve = Old(TYPE, cut_probes=2)
    with FakeServer(serve) as server:
        assert run(server, "--read-only", "--", "true").stdout == b"out\n"
        assert serve.probes == 3 and len(serve.starts) == 1


def test_unified_tells_the_model_and_a_wish_to_run_without_a_sandbox_is_asked_about():
    serve = Old(MISSING)
    with FakeServer(serve) as server, Unified("-C", "/work", where=("--url", server.url)) as u:
        text = u.error("exec_command", cmd="true")
        assert text.startswith("exec_command failed for `true`: Failed to create unified exec process: ") and REFUSED in text
        assert serve.starts == [] and not u.of("exec_command_begin")
        ident = u.begin("exec_command", cmd="true", sandbox_permissions="require_escalated")
        u.answer(u.question(call_id=ident), "approved")
        assert u.wait(ident)["output"] == "out\n" and "sandbox" not in serve.starts[0]
