"""`farhand connect ssh://…`: a door to a machine that ssh reaches."""

import os
import subprocess

import pytest

from cmd_rig import Terminal
from farhand_client import BIN, wait_until
from sshd_rig import SECONDS, compile_shim, far_machine, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.fixture
def far(tmp_path):
    compile_shim(str(tmp_path / "shim"))
    with far_machine(str(tmp_path / "shim")) as machine:
        yield machine


def connect(far, *command, **kw):
    return subprocess.run([BIN, "connect", "ssh://far", "--", *command], env=far.env, capture_output=True, timeout=SECONDS, check=False, **kw)


def test_a_command_runs_on_the_far_machine(far):
    done = connect(far, "sh", "-c", f'exec {BIN} run --url "$CODEX_EXEC_SERVER_URL" -- sh -c "echo \\$HOME; exit 7"')
    assert (done.returncode, done.stdout, done.stderr) == (7, f"{far.home}\n".encode(), b"")


def test_an_ssh_that_is_cut_twice_is_resumed(far, tmp_path):
    go = tmp_path / "go"
    script = f"echo $$; while [ ! -e {go} ]; do sleep 0.05; done; echo end; exit 4"
    with subprocess.Popen([BIN, "connect", "ssh://far", "--", "sh", "-c", f'exec {BIN} run --url "$CODEX_EXEC_SERVER_URL" -- sh -c "$1"', "sh", script],
                          env=far.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as proc:
        os.kill(int(proc.stdout.readline()), 0)
        for _ in range(2):
            far.cut()
            while b"farhand: resumed\n" != (line := proc.stderr.readline()):
                assert line, "it ended"
        go.write_text("")
        assert proc.stdout.read() == b"end\n" and proc.wait(SECONDS) == 4


def test_a_machine_that_refuses_us_is_told_before_the_command_starts(far, tmp_path):
    os.truncate(f"{far.base}/authorized", 0)
    done = connect(far, "touch", str(tmp_path / "started"))
    assert done.returncode == 255 and b"farhand: ssh did not reach far" in done.stderr and not (tmp_path / "started").exists()


def test_an_ssh_that_has_to_ask_each_time_is_refused_in_words(far, tmp_path):
    """The passphrase of a key that no agent holds: typed once, it is not there for the next connection."""
    far.configure(key="locked")

    class User:
        uid, env = os.geteuid(), far.env

        class tree:
            w = far.near

    with Terminal(User, "ssh://far", "--", "touch", str(tmp_path / "started"), program=(BIN, "connect"), env=far.env) as terminal:
        terminal.expect(b"passphrase")
        terminal.type(far.passphrase.encode() + b"\n")
        terminal.expect(b"ssh must not have to ask")
        assert terminal.wait() == 255 and not (tmp_path / "started").exists()


def test_the_connections_of_ssh_end_with_the_door(far):
    assert connect(far, "sh", "-c", f'{BIN} run --url "$CODEX_EXEC_SERVER_URL" -- true').returncode == 0
    wait_until(lambda: not far.connections(), 30, "the end of ssh")
