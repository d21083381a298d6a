"""`farhand connect ENV -- codex`: the real client through a door. FARHAND_REFERENCE_125, FARHAND_REFERENCE_142 and FARHAND_REFERENCE_166
each name the binary `codex` of one generation."""

import os
import subprocess

import pytest

from farhand_client import BIN, Server
from scripted_model import ScriptedModel, call, exit_code, say, session_id
from sshd_rig import SECONDS, compile_shim, far_machine, why_not
from test_cmd_detached import Desk
from test_client_reference import GENERATIONS


@pytest.fixture(params=GENERATIONS)
def codex(request):
    binary = os.environ.get(f"FARHAND_REFERENCE_{request.param}")
    if not binary:
        pytest.skip(f"no reference client: FARHAND_REFERENCE_{request.param} names none")
    return binary


def work(model, codex, environment, env, directory):
    """Lets the client work through a door until its model is done."""
    client = f"{directory}/client"
    os.makedirs(client, exist_ok=True)
    env = {**env, "HOME": client, "CODEX_HOME": client, "RUST_LOG": "error"}
    return subprocess.run([BIN, "connect", environment, "--", codex, *model.codex_args(directory)], stdin=subprocess.DEVNULL, env=env,
                          capture_output=True, timeout=2 * SECONDS, check=False)


def test_the_real_client_works_through_a_door(codex, tmp_path):
    def script(outputs):
        yield [call("a", "exec_command", cmd="echo hello; printf made > made.txt; exit 3", yield_time_ms=10000)]
        assert exit_code(outputs["a"]) == 3 and "hello" in outputs["a"], outputs
        yield [say("ok")]

    with Server() as server, ScriptedModel(script) as model:
        done = work(model, codex, server.url, Desk(str(tmp_path)).env, str(tmp_path))
        assert done.returncode == 0 and "a" in model.outputs, done
        assert (tmp_path / "made.txt").read_text() == "made"


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_the_real_client_goes_on_over_an_ssh_that_is_cut_twice(codex, tmp_path):
    if codex == os.environ.get("FARHAND_REFERENCE_125"):
        pytest.skip("the client of this generation resumes no session")
    go = tmp_path / "go"
    wait = f"echo begin; while [ ! -e {go} ]; do sleep 0.05; done; echo end; exit 4"

    def script(outputs):
        yield [call("a", "exec_command", cmd=wait, yield_time_ms=500)]
        session = session_id(outputs["a"])
        assert session is not None and "begin" in outputs["a"], outputs
        for cut in ("b", "c"):
            far.cut()
            yield [call(cut, "write_stdin", session_id=session, chars="", yield_time_ms=500)]
            # The command runs on while its session is resumed, so whatever is said, it has not ended.
            assert session_id(outputs[cut]) == session and exit_code(outputs[cut]) is None, outputs
            yield [call(cut + "2", "exec_command", cmd="echo back", yield_time_ms=10000)]
            assert exit_code(outputs[cut + "2"]) == 0 and "back" in outputs[cut + "2"], outputs
        go.write_text("")
        yield [call("d", "write_stdin", session_id=session, chars="", yield_time_ms=20000)]
        assert exit_code(outputs["d"]) == 4 and "end" in outputs["d"], outputs
        yield [say("ok")]

    shim = str(tmp_path / "shim")
    compile_shim(shim)
    with far_machine(shim) as far, ScriptedModel(script) as model:
        done = work(model, codex, "ssh://far", far.env, str(tmp_path))
        assert done.returncode == 0 and "d" in model.outputs, done
