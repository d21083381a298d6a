"""`farhand run` on the reference server. FARHAND_REFERENCE_125, FARHAND_REFERENCE_142 and FARHAND_REFERENCE_166 each name the binary `codex` of
one generation, FARHAND_REFERENCE any others, with colons between them.

What the generations can do differs. None can close a pipe; 125 has no signals, no writeId and no exit code of a killed process.
"""

import os
import signal
import subprocess
import tempfile

import pytest

from cutting_proxy import CuttingProxy
from farhand_client import wait_until
from test_client_recovery import killed
from test_cmd_run import SECONDS, Run

GENERATIONS = ["125", "142", "166"]
OTHERS = [path for path in os.environ.get("FARHAND_REFERENCE", "").split(":") if path]


class Reference:
    """A reference server on a port of its own."""

    def __init__(self, generation, binary, home):
        self.generation = generation
        # The reference server gets a home of its own, because it writes there.
        self.proc = subprocess.Popen([binary, "exec-server", "--listen", "ws://127.0.0.1:0"], cwd=home,
                                     env={**os.environ, "CODEX_HOME": home}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.url = self.proc.stdout.readline().decode().strip()
        self.port = int(self.url.rpartition(":")[2])
        self.run = Run(["--url", self.url], home)


@pytest.fixture(scope="module", params=GENERATIONS + OTHERS)
def reference(request):
    binary = os.environ.get(f"FARHAND_REFERENCE_{request.param}") if request.param in GENERATIONS else request.param
    if not binary:
        pytest.skip(f"no reference server: FARHAND_REFERENCE_{request.param} names none")
    with tempfile.TemporaryDirectory(prefix="fh-reference-") as home:
        server = Reference(request.param, binary, home)
        with killed(server.proc):
            yield server


def test_output_exit_code_and_directory(reference):
    done = reference.run("-n", "-C", "/usr", "--", "sh", "-c", "pwd; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"/usr\n", b"err\n")


def test_a_lot_of_output(reference):
    done = reference.run("-n", "--", "seq", "200000")
    assert done.returncode == 0 and done.stdout == b"".join(b"%d\n" % i for i in range(1, 200001))


def test_variables(reference):
    assert reference.run("-n", "-e", "A=1", "--", "sh", "-c", "echo $A").stdout == b"1\n"


def test_input_reaches_the_command(reference):
    done = reference.run("--", "head", "-n", "2", stdin=b"one\ntwo\n")
    assert (done.returncode, done.stdout) == (0, b"one\ntwo\n")
    assert done.stderr in (b"", b"farhand: this server cannot close the stdin of a process\n")


def test_a_terminal(reference):
    done = reference.run("-t", "-n", "--", "sh", "-c", "test -t 0 && stty size")
    assert (done.returncode, done.stdout) == (0, b"24 80\r\n")


def test_a_killed_command(reference):
    done = reference.run("-n", "--", "sh", "-c", "kill -9 $$")
    assert done.returncode == (255 if reference.generation == "125" else 128 + signal.SIGKILL)


def test_a_program_that_is_not_there(reference):
    done = reference.run("-n", "--", "no-such-program")
    assert done.returncode == 255 and b"farhand: " in done.stderr


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_the_command(reference, signo):
    with killed(reference.run.start("-n", "--", "sh", "-c", "echo $$; exec sleep 600")) as proc:
        pid = int(proc.stdout.readline())
        proc.send_signal(signo)
        assert proc.wait(SECONDS) != 0
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_a_cut_connection_is_resumed(reference):
    with CuttingProxy(reference.port, seed=4, kinds={"close": 1}, most_struck=1, spares_first=True) as proxy:
        done = Run(["--url", f"ws://127.0.0.1:{proxy.port}"], "/dev/null/none")(
            "-n", "--", "sh", "-c", "for i in $(seq 2000); do echo $i; done; sleep 1; echo end; exit 3")
        assert proxy.counts["close"] == 1 and b"farhand: resumed\n" in done.stderr, done.stderr
        assert (done.returncode, done.stdout.split()) == (3, [b"%d" % i for i in range(1, 2001)] + [b"end"])
