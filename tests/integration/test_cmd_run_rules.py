"""`farhand run --rules`: rules decide about the programs of a command, and the person at the terminal is asked, in tmux."""

import os
import shutil
import subprocess
import tempfile

import pytest

from farhand_client import BIN, Server, merged_env
from tmux_rig import Tmux, farhand

RULES = """prefix_rule(pattern=["id"], decision="prompt", justification="says \\x1b[2Jwho")
prefix_rule(pattern=["uname"])
prefix_rule(pattern=["rm"], decision="forbidden")
"""
FORBIDDEN = b"Execution denied: Execution forbidden by policy\n"
QUESTION = "Run it without a sandbox?"
needs_tmux = pytest.mark.skipif(not shutil.which("tmux"), reason="no tmux")


@pytest.fixture(name="place", params=["near", "far"])
def place_of(request):
    """A directory with rules, and the options that lead to the environment: here, or through a server."""
    with tempfile.TemporaryDirectory(prefix="fh-rules-", dir="/tmp") as base:
        with open(f"{base}/my.rules", "w", encoding="utf-8") as f:
            f.write(RULES)
        env = {"HOME": base, "XDG_STATE_HOME": f"{base}/state"}
        if request.param == "near":
            yield base, env, ["-C", base, "--rules", f"{base}/my.rules"]
        else:
            with Server() as server:
                yield base, env, ["--url", server.url, "-C", base, "--rules", f"{base}/my.rules"]


def run(place, *args, script, env=None):
    """Without a terminal."""
    _, base_env, where = place
    return subprocess.run([BIN, "run", "-n", *where, *args, "--", "sh", "-c", script], env=merged_env({**base_env, **(env or {})}),
                          capture_output=True, check=False, start_new_session=True, timeout=60)


def test_rules_run_escalate_and_deny(place):
    done = run(place, script="uname; touch x; rm x; ls; exit 3")
    assert (done.stdout, done.stderr, done.returncode) == (b"Linux\nmy.rules\nx\n", FORBIDDEN, 3)


def test_without_a_terminal_a_question_is_a_denial(place):
    done = run(place, script="id; echo $?")
    assert (done.stdout, done.stderr, done.returncode) == (b"1\n", FORBIDDEN, 0)


def test_a_mistake_in_the_rules_is_told(place):
    base, _, _ = place
    for text, words in ((b"prefix_rule(\n", f"{base}/my.rules:2:1: "), (b"\0", "must not contain a nul byte")):
        with open(f"{base}/my.rules", "wb") as f:
            f.write(text)
        done = run(place, script="echo ran")
        assert (done.stdout, done.returncode) == (b"", 255) and words in done.stderr.decode(), done
    os.unlink(f"{base}/my.rules")
    done = run(place, script="echo ran")
    assert done.returncode == 255 and b"failed to read rules at " in done.stderr


def test_the_files_of_the_home_count_when_they_are_asked_for(place):
    base, _, _ = place
    os.makedirs(f"{base}/codex/rules")
    with open(f"{base}/codex/rules/a.rules", "w", encoding="ascii") as f:
        f.write('prefix_rule(pattern=["ls"], decision="forbidden")\n')
    env = {"CODEX_HOME": f"{base}/codex", "FARHAND_HOME": f"{base}/farhand"}
    assert run(place, script="ls -d .", env=env).stdout == b".\n"
    done = run(place, "--default-rules", script="ls -d .; rm x", env=env)
    assert (done.stdout, done.stderr) == (b"", FORBIDDEN * 2)


@needs_tmux
@pytest.mark.parametrize("answer, shown", [("y", "uid="), ("n", "Execution denied: the answer was no"), ("", "Execution denied: the answer was no"),
                                           ("yes", "uid=")])
@pytest.mark.parametrize("tty", [(), ("-t",)], ids=["pipe", "tty"])
def test_the_person_is_asked(place, tty, answer, shown):
    base, env, where = place
    with Tmux(farhand("run", *where, *tty, "--", "sh", "-c", "id >out 2>&1; echo end $?"), env) as t:
        t.expect(QUESTION)
        t.expect(r"says \x1b[2Jwho")
        assert b"says \033" not in t.raw(rb"says \x1b[2Jwho")
        t.line(answer)
        t.expect("end 0" if shown == "uid=" else "end 1")
        t.expect("[over 0]")
    with open(f"{base}/out", encoding="utf-8") as f:
        assert f.read().startswith(shown)


@needs_tmux
def test_always_is_for_the_same_program_and_arguments(place):
    _, env, where = place
    with Tmux(farhand("run", *where, "--", "sh", "-c", "id -u; id -u; id -u; id -g; echo end"), env) as t:
        t.expect(QUESTION)
        t.line("a")
        t.expect("id -g")
        t.line("no")
        assert t.expect("[over 0]").count(QUESTION) == 2


@needs_tmux
def test_a_long_command_is_shown_as_a_whole_on_request(place):
    _, env, where = place
    word = "x" * 1000
    with Tmux(farhand("run", *where, "--", "sh", "-c", f"id {word} 'last word'"), env) as t:
        t.expect(QUESTION)
        assert "last word" not in t.expect("(e shows all of it)")
        t.line("maybe")
        t.line("e")
        t.expect("last word'")
        t.line("n")
        t.expect("[over 1]")


@needs_tmux
def test_an_interrupt_at_a_question_is_a_no(place):
    _, env, where = place
    with Tmux(farhand("run", *where, "--", "sh", "-c", "id; echo goes on"), env) as t:
        t.expect(QUESTION)
        t.keys("C-c")
        t.expect("goes on")
        t.expect("[over 0]")


@needs_tmux
def test_what_was_typed_before_a_question_is_no_answer(place):
    base, env, where = place
    with Tmux(farhand("run", *where, "--", "sh", "-c", f"touch {base}/up; until test -e {base}/go; do sleep 0.05; done; id; exit 5"), env) as t:
        while not os.path.exists(f"{base}/up"):
            pass
        t.type("y")
        with open(f"{base}/go", "w", encoding="ascii"):
            pass
        t.expect(QUESTION)
        t.keys("Enter")
        t.expect("Execution denied")
        t.expect("[over 5]")


@needs_tmux
def test_input_goes_to_the_command_while_nothing_is_asked(place):
    _, env, where = place
    with Tmux(farhand("run", *where, "-t", "--", "sh", "-c", "id >/dev/null; echo ready; read word; echo got $word"), env) as t:
        t.expect(QUESTION)
        t.line("y")
        t.expect("ready")
        t.line("hello")
        t.expect("got hello")
        t.expect("[over 0]")
