"""`farhand unified` on the reference server: FARHAND_REFERENCE_125, _142 and _166 name the binaries (test_client_reference.py)."""

import os

import pytest

from test_client_reference import reference  # pylint: disable=unused-import # noqa: F401
from unified_rig import Unified


@pytest.fixture(scope="module")
def u(reference):  # pylint: disable=redefined-outer-name # noqa: F811
    with Unified("--no-sandbox", "-C", "/usr", where=("--url", reference.url)) as one:
        one.generation = reference.generation
        yield one


def test_a_command(u):
    ident = u.begin("exec_command", cmd="pwd; echo err >&2; exit 7", login=False)
    done = u.wait(ident)
    assert done["exit_code"] == 7 and sorted(done["output"].split()) == ["/usr", "err"]
    end = u.event("exec_command_end", call_id=ident)
    assert end["exit_code"] == 7 and end["output"] == done["output"]


def test_a_flood(u):
    # The oldest generation tells the exit before the last output, for which a call waits 50 ms only.
    done = u.exec("seq 200000; sleep 1", yield_time_ms=30000, max_output_tokens=10 ** 9)
    whole = "".join(f"{i}\n" for i in range(1, 200001))
    half = 512 * 1024
    assert done["output"] == whole[:half] + f"\n... {len(whole) - 2 * half} bytes omitted ...\n" + whole[-half:]


def test_variables(u):
    assert u.exec("echo $TERM $CODEX_CI $LC_ALL")["output"] == "dumb 1 C.UTF-8\n"


def test_input_on_a_terminal(u):
    ident = u.begin("exec_command", cmd="stty -echo; echo name?; read name; echo hello $name; exit 5", login=False, tty=True, yield_time_ms=250)
    session = u.wait(ident)["session_id"]
    u.until(lambda: "name?" in u.deltas(ident))
    done = u.write(session, "you\n", yield_time_ms=30000)
    assert done["exit_code"] == 5 and done["output"].endswith("hello you\r\n")


def test_an_interrupt(u):
    ident = u.begin("exec_command", cmd="trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 0.1; done", login=False,
                    yield_time_ms=250)
    session = u.wait(ident)["session_id"]
    u.until(lambda: "ready" in u.deltas(ident))
    done = u.write(session, "\x03", yield_time_ms=30000)
    if u.generation == "125":  # it has no signals: the process is ended
        assert "exit_code" in done
    else:
        assert done["exit_code"] == 7 and done["output"].endswith("interrupted\n")


def test_a_command_that_ends_between_calls(u):
    ident = u.begin("exec_command", cmd="echo a; sleep 1; echo b; exit 4", login=False, yield_time_ms=250)
    done = u.wait(ident)
    u.event("exec_command_end", call_id=ident)
    rest = u.write(done["session_id"])
    assert rest["exit_code"] == 4 and done["output"] + rest["output"] == "a\nb\n"


def test_a_denial(reference, u):  # pylint: disable=redefined-outer-name # noqa: F811
    """The newer generations tell that their sandbox has denied something. The oldest knows no sandbox, and runs nothing that needs one."""
    with Unified("--approval", "on-request", "-C", "/usr", where=("--url", reference.url)) as one:
        target = os.path.join(one.outside, "made")
        ident = one.begin("exec_command", cmd=f"touch {target}", login=False, yield_time_ms=30000)
        first = one.until(lambda: one.of("approval_request", call_id=ident) or one.results.get(str(ident)))
        if u.generation == "125":
            assert "this server knows no sandboxes for commands" in first["error"]["message"] and not os.path.exists(target)
            return
        if not isinstance(first, list):
            pytest.skip(f"its sandbox does not work here: {first}")
        assert first[0]["reason"] == "denied" and not os.path.exists(target)
        one.answer(first[0], "approved")
        assert one.wait(ident)["exit_code"] == 0 and os.path.exists(target)
