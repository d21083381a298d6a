"""Tests of the tests: none is skipped because other users cannot enter the source tree, and none waits for an ignored signal."""

import glob
import os
import shutil
import signal
import subprocess
import tempfile

import pytest

from farhand_client import BIN, PATIENCE, REPO
from sandbox_rig import TREES, why_not

PYTEST = ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider"]


def passed(argv, **kw):
    """Runs tests in a process of their own. Returns the last line that they print."""
    with subprocess.Popen(PYTEST + argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, **kw) as proc:
        try:
            out, _ = proc.communicate(timeout=30 * PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(proc.pid, signal.SIGKILL)
            proc.communicate()
            pytest.fail("the tests hang")
    return out.decode().strip().splitlines()[-1]


@pytest.fixture
def closed_tree():
    """The programs and the tests in a directory that only root can enter."""
    if os.geteuid() != 0:
        pytest.skip("needs root: others run the tests as one user")
    if why_not("unprivileged") is not None:
        pytest.skip(why_not("unprivileged"))
    base = tempfile.mkdtemp(prefix="fh-closed-", dir=TREES)
    try:
        os.chmod(base, 0o700)
        os.mkdir(os.path.join(base, "build"))
        for program in glob.glob(os.path.join(os.path.dirname(BIN), "farhand*")):
            if os.path.isfile(program):
                shutil.copy(program, os.path.join(base, "build"))
        shutil.copytree(os.path.join(REPO, "tests", "integration"), os.path.join(base, "tests", "integration"))
        yield base
    finally:
        shutil.rmtree(base)


@pytest.mark.parametrize("test", [
    "test_cmd_sandbox.py::test_everything_is_read_only_and_without_network_by_default[unprivileged]",
    "test_sandbox_layers.py::test_the_leak_is_one[unprivileged]",
    "test_peers.py::test_server_and_client_in_one_container[unprivileged--Ur]",
])
def test_a_closed_tree_skips_nothing(closed_tree, test):
    name = os.path.join(closed_tree, "tests", "integration", test)
    env = {**os.environ, "FARHAND_BIN": os.path.join(closed_tree, "build", "farhand")}
    line = passed([name], cwd=closed_tree, env=env)
    assert "passed" in line and "skipped" not in line and "failed" not in line, line


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGQUIT, signal.SIGHUP])
def test_a_signal_that_the_caller_ignores_is_not_ignored_by_what_is_tested(signo):
    """`make test &` in a script ignores SIGINT and SIGQUIT, nohup ignores SIGHUP, and children inherit that."""
    name = os.path.join(REPO, "tests", "integration", "test_cmd_sandbox.py")
    line = passed([f"{name}::test_signals_are_passed_to_the_commands_group[{signo.value}]"], cwd=REPO,
                  env={**os.environ, "FARHAND_BIN": BIN}, preexec_fn=lambda: signal.signal(signo, signal.SIG_IGN))
    assert line.startswith("1 passed") or line.startswith("1 skipped"), line
