"""The README's walk: every `console` block, in order, typed as it is written in one shell on a terminal.

A line that begins with `$ ` is typed; the lines below it, up to the next such line, are what it prints, and `…` in them stands for
anything. The shell has a home and a working directory of its own, and the program that is tested is first in its PATH. Commands that
need the machine `far` are typed in another shell, which reaches one by a real ssh. The other
blocks of the README, in other forms, are those of test_words.py.
"""

import os
import re
import subprocess
import tempfile

import pytest

import sshd_rig
from farhand_client import BIN, PATIENCE, merged_env
from test_cmd_detached import Desk, Screen
from test_cmd_run import CLEAN
from words import blocks

# Commands that are not typed: how they begin, and why.
SKIPPED = {
    "make": "it builds, tests or installs: other tests do that",
    "sudo": "it changes the machine",
    "ssh ": "it needs another machine",
    "systemctl": "it needs systemd's user manager",
    "loginctl": "it needs systemd's user manager",
    "farhand shell": "a person sits in it: test_terminal.py",
    "farhand connect": "it needs another machine",
}
# Words of a command that need another machine, anywhere in it.
FAR = ("ssh://", "wss://", "@far", "far:", "--env far")
PROMPT = b"[typed]"
UNSET = dict.fromkeys(("FARHAND_HOME", "CODEX_HOME", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR"))


def walk(name="README.md"):
    """(where, command, what it prints) of each command, in order."""
    found = []
    for block in blocks(name):
        if block.language != "console":
            continue
        assert block.lines[0].startswith("$ "), f"{block}: a block begins with a command"
        for number, line in enumerate(block.lines, block.line):
            if line.startswith("$ "):
                found.append((f"{name}:{number}", line[2:], []))
            else:
                found[-1][2].append(line)
    return found


def why_skipped(command):
    for beginning, why in SKIPPED.items():
        if command.startswith(beginning):
            return why
    return "it needs another machine" if any(word in command for word in FAR) else None


def is_like(shown, printed):
    """`…` stands for anything within a line; a line of it alone for any lines."""
    pattern = "".join("(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + "\n" for line in shown)
    return re.fullmatch(pattern, printed) is not None


@pytest.fixture
def shell():
    with tempfile.TemporaryDirectory(prefix="fh-walk-", dir="/tmp") as home:
        desk = Desk(home)
        os.mkdir(f"{home}/here")
        env = merged_env({**CLEAN, **UNSET, "HOME": home, "TERM": "dumb",
                          "XDG_RUNTIME_DIR": desk.runtime, "LC_ALL": "C.UTF-8",
                          "PATH": f"{os.path.dirname(os.path.realpath(BIN))}:{os.environ['PATH']}"})
        begin = f"cd {home}/here; stty -echo; exec env PS1='{PROMPT.decode()}' bash --noprofile --norc --noediting -i"
        screen = Screen(["/bin/sh", "-c", begin], env)
        screen.expect(PROMPT)
        yield screen
        screen.type(b"exit 0\r")
        screen.end()
        desk.end()


def test_every_command_of_the_walk_does_what_is_shown(shell):
    skipped = []
    for where, command, shown in walk():
        why = why_skipped(command)
        if why:
            skipped.append(f"{where}: {command}: {why}")
            continue
        shell.type(command.encode() + b"\r")
        printed = shell.expect(PROMPT).decode().replace("\r\n", "\n")
        assert is_like(shown, printed), f"{where}: $ {command}\nshown:\n" + "\n".join(shown) + f"\nprinted:\n{printed}"
    print("\n".join(skipped))


@pytest.mark.skipif(sshd_rig.why_not() is not None, reason=str(sshd_rig.why_not()))
def test_every_command_for_another_machine_does_what_is_shown(tmp_path):
    shim = str(tmp_path / "shim")
    sshd_rig.compile_shim(shim)
    with sshd_rig.far_machine(shim) as far:
        env = {name: value for name, value in far.env.items() if name not in UNSET}
        env["PATH"] = f"{far.near}/bin:{os.path.dirname(os.path.realpath(BIN))}:/usr/bin:/bin"
        typed = [row for row in walk() if any(word in row[1] for word in FAR)]
        assert len(typed) >= 4
        for where, command, shown in typed:
            done = subprocess.run(["bash", "--norc", "-c", command], cwd=far.near, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=60 * PATIENCE, check=False)
            printed = done.stdout + done.stderr
            assert is_like(shown, printed), f"{where}: $ {command}\nshown:\n" + "\n".join(shown) + f"\nprinted:\n{printed}"


def test_the_walk_is_found():
    """Enough commands are typed; a change of the README's form could otherwise hide them."""
    typed = [command for _, command, _ in walk() if not why_skipped(command)]
    assert len(typed) >= 15
    for word in ("run --", "--read-only", "mcp install", "mcp uninstall", "--detach", "ps", "logs", "kill", "attach", "fs put", "fs cat", "env add"):
        assert any(word in command for command in typed), word


def test_what_is_shown_is_compared():
    assert is_like(["a…c", "…", "z"], "abc\n1\n2\nz\n") and is_like([], "") and is_like(["…"], "")
    assert not is_like(["a"], "b\n") and not is_like([], "a\n") and not is_like(["a"], "") and not is_like(["a.c"], "abc\n")
