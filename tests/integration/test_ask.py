"""Questions on the terminal after a denial by the sandbox: `farhand run --ask` and `farhand apply-patch --ask`, in tmux."""

import os
import shutil
import subprocess
import tempfile

import pytest

from farhand_client import BIN, Server, merged_env
from tmux_rig import COLUMNS, Tmux, farhand

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="no tmux")
PATCH = "*** Begin Patch\n*** Add File: new\n+text\n*** End Patch\n"


@pytest.fixture(scope="module", autouse=True)
def sandboxes_work():
    tried = subprocess.run([BIN, "run", "-n", "--read-only", "--", "true"], env=merged_env({}), capture_output=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"no sandbox here: {tried.stderr.decode(errors='replace')}")


@pytest.fixture(name="place", params=["near", "far"])
def place_of(request):
    """A directory outside of /tmp's writable parts, and the options that lead to it: here, or through a server."""
    with tempfile.TemporaryDirectory(prefix="fh-ask-", dir="/var/tmp") as base:
        os.mkdir(f"{base}/w")
        env = {"HOME": base, "XDG_STATE_HOME": f"{base}/state"}
        if request.param == "near":
            yield base, env, ["-C", f"{base}/w"]
        else:
            with Server() as server:
                yield base, env, ["--url", server.url, "-C", f"{base}/w"]


def write_command(base):
    return ["sh", "-c", f"echo run >> {base}/w/runs 2> /dev/null; echo out > {base}/w/made"]


@pytest.mark.parametrize("answer,is_yes", [("y", True), ("s", True), ("n", False), ("", False)])
def test_a_denied_command_is_run_again_after_a_yes(place, answer, is_yes):
    base, env, where = place
    with Tmux(farhand("run", *where, "--read-only", "--ask", "--", *write_command(base)), env) as t:
        t.expect("Run it without a sandbox?")
        t.line(answer)
        t.expect("[over 0]" if is_yes else "[over 2]")
    assert os.path.exists(f"{base}/w/made") == is_yes
    assert not is_yes or open(f"{base}/w/runs", encoding="ascii").read() == "run\n"


def test_what_is_neither_yes_nor_no_is_asked_again(place):
    base, env, where = place
    with Tmux(farhand("run", *where, "--read-only", "--ask", "--", *write_command(base)), env) as t:
        t.expect("Run it without a sandbox?")
        # All lines at once, as somebody types who does not wait: reading a line that is too long must not take a part of the next.
        t.paste(b"perhaps\n" + b"q" * 200 + b"\n" + b"q" * 4000 + b"y\nn\n")
        t.expect("[over 2]")
    assert not os.path.exists(f"{base}/w/made")


def test_a_command_that_fails_without_a_denial_is_not_asked_about(place):
    base, env, where = place
    with Tmux(farhand("run", *where, "--read-only", "--ask", "--", "sh", "-c", "echo failed; exit 3"), env) as t:
        t.expect("[over 3]")
        assert b"sandbox" not in t.raw(b"[over 3]")
    assert not os.path.exists(f"{base}/w/made")


def test_control_characters_of_a_command_do_not_reach_the_terminal(place):
    base, env, where = place
    hostile = f"\033[2J\033[1;1Hharmless' '; echo out > {base}/w/made"
    with Tmux(farhand("run", *where, "--read-only", "--ask", "--", "sh", "-c", f": $'{hostile}'; echo out > {base}/w/made"), env) as t:
        t.expect("Run it without a sandbox?")
        written = t.raw(b"Run it without a sandbox?")
        assert rb"\x1b[2J" in written and b"\033[2J\033[1;1Hharmless" not in written
        t.line("n")
        t.expect("[over 2]")


def test_a_long_text_cannot_look_like_lines_of_ours(place):
    """The terminal would break it where the next line then begins with what looks like ours: it is broken before, with a mark."""
    base, env, where = place
    forged = "  on: a safe machine"
    lines = "".join(forged.ljust(COLUMNS) for _ in range(6))
    with Tmux(farhand("run", *where, "--read-only", "--ask", "--", "sh", "-c", f": {lines}é{lines}; echo out > {base}/w/made"), env) as t:
        seen = t.expect("Run it without a sandbox?")
        with_it = [line for line in seen.splitlines() if "on: a safe machine" in line]
        assert len(with_it) >= 6
        assert all(line.startswith("      | ") or line.startswith("  command: ") for line in with_it), seen
        t.line("n")
        t.expect("[over 2]")


@pytest.mark.parametrize("answer,is_yes", [("y", True), ("n", False)])
def test_a_denied_patch_is_applied_after_a_yes(place, answer, is_yes):
    base, env, where = place
    with open(f"{base}/patch", "w", encoding="ascii") as f:
        f.write(PATCH)
    with Tmux(farhand("apply-patch", *where, "--read-only", "--ask") + f" < {base}/patch", env) as t:
        t.expect("Run it without a sandbox?")
        t.expect(f"{base}/w/new")
        t.line(answer)
        t.expect("[over 0]" if is_yes else "[over 1]")
    assert os.path.exists(f"{base}/w/new") == is_yes


def test_without_a_terminal_the_answer_is_no(place):
    base, env, where = place
    for args in (["run", "-n", *where, "--read-only", "--ask", "--", *write_command(base)],
                 ["apply-patch", *where, "--read-only", "--ask", PATCH]):
        done = subprocess.run([BIN, *args], env=merged_env(env), stdin=subprocess.DEVNULL, capture_output=True, check=False,
                              start_new_session=True)
        assert done.returncode in (1, 2) and b"?" not in done.stdout
    assert os.listdir(f"{base}/w") == []
