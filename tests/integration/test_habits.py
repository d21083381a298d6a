"""The habits of the command line, sentence by sentence: each test has a sentence of what the command line promises as its docstring,
and the shortest command that shows it. The details of each habit are tested with its command (test_cmd_*.py, test_terminal.py)."""

import base64
import json
import os
import pty
import re
import signal
import subprocess
import tempfile

import pytest

from fake_server import FakeServer
from farhand_client import BIN, REPO, Server, wait_until
from test_cmd_detached import Desk, desk  # noqa: F401 (a fixture)
from test_cmd_run import SECONDS

COMMANDS = ["run", "shell", "attach", "ps", "logs", "kill", "cp", "connect", *(f"fs {verb}" for verb in (
    "ls", "cat", "put", "get", "rm", "mv", "mkdir", "stat", "tree", "watch")), *(f"env {verb}" for verb in ("list", "check", "add"))]


def options_of(command):
    """The options of a command, from its table: their names, and their letters with a dash."""
    done = subprocess.run([BIN, *command.split(), "--help-table"], capture_output=True, text=True, timeout=SECONDS, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return {word for row in rows if row[0] == "option" for word in row[1:3]}


def on_terminal(desk, *args, env=None):  # noqa: F811
    """What a command writes on a terminal, and its exit code."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(BIN, [BIN, *args], {**desk.env, "TERM": "xterm-256color", **(env or {})})
    seen = b""
    while True:
        try:
            some = os.read(fd, 4096)
        except OSError:
            break
        if not some:
            break
        seen += some
    os.close(fd)
    return seen, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_there(command):
    """`farhand run`, `shell`, `attach`, `ps`, `logs [-f]`, `kill`, `cp`, `fs …`, `env list|check|add`, `connect`."""
    has = options_of(command)
    assert "--help" in has
    if command not in ("env list", "env add", "connect"):
        assert {"--env", "--url"} <= has
    if command == "logs":
        assert "-f" in has


def test_options_of_run_and_shell():
    """`-t`, `-i`, `-e KEY[=VALUE]`, `-C DIR`, `--env NAME`, `--url URL`, `--detach`, `--timeout`, limits, `--read-only`,
    `--workspace-write`, `--profile FILE`"""
    both = {"-e", "-C", "--env", "--url", "--timeout", "--memory", "--limit", "--read-only", "--workspace-write", "--profile"}
    assert both | {"-t", "-i", "--detach"} <= options_of("run")
    assert both <= options_of("shell")


@pytest.mark.parametrize("command", ["env list", "env check", "ps", "logs", "run", "connect", "cp", "fs ls", "fs stat", "fs tree", "fs watch",
                                     "doctor", "apply-patch"])
def test_json_is_offered_wherever_a_program_may_read(command):
    """`--json` wherever a program may read"""
    assert "--json" in options_of(command)


@pytest.mark.parametrize("script,code", [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -TERM $$", 143), ("kill -9 $$", 137)])
def test_exit_codes_pass_through(desk, script, code):  # noqa: F811
    """exit codes pass through (128 + signal …)"""
    assert desk("run", "--", "sh", "-c", script).returncode == code


def test_a_failure_of_ours_is_255(desk):  # noqa: F811
    """255 for a failure of ours"""
    for args in (["--url", "unix:/nonexistent", "--", "true"], ["--env", "nobody", "--", "true"], ["--profile", "/nonexistent", "--", "true"]):
        done = desk("run", *args)
        assert done.returncode == 255 and done.stderr.startswith(b"farhand: ") and done.stdout == b"", args


def test_variables_and_the_directory(desk):  # noqa: F811
    """`-e KEY[=VALUE]`, `-C DIR`"""
    told = desk.said("run", "-e", "A=1", "-e", "B", "-C", "/usr", "--", "sh", "-c", "echo $A $B $PWD", env={"B": "2"})
    assert told == "1 2 /usr\n"


@pytest.mark.parametrize("limit,script,shows", [
    ("files=17", "ulimit -n", b"17\n"), ("cpu=7", "ulimit -t", b"7\n"), ("file-size=1024", "head -c 5000 /dev/zero > f; wc -c < f", b"1024\n")])
def test_limits(desk, limit, script, shows):  # noqa: F811
    """limits"""
    assert desk("run", "--limit", limit, "-C", desk.home, "--", "sh", "-c", script).stdout == shows


def test_a_limit_of_silence_ends_the_command(desk):  # noqa: F811
    """limits"""
    done = desk("run", "--limit", "silence=1", "--", "sh", "-c", "echo once; sleep 1000")
    assert done.returncode != 0 and done.stdout == b"once\n"


@pytest.mark.parametrize("bad", ["files", "files=", "files=0", "files=x", "none=1", "=1", "files=99999999999999999999", "cpu=-1"])
@pytest.mark.parametrize("command", [["run", "--", "true"], ["shell"]])
def test_a_limit_that_makes_no_sense_is_a_wrong_command_line(desk, bad, command):  # noqa: F811
    done = desk(command[0], "--limit", bad, *command[1:])
    assert done.returncode == 2 and b"--limit" in done.stderr and done.stdout == b""


def test_an_option_that_is_none_is_a_wrong_command_line(desk):  # noqa: F811
    for command in COMMANDS:
        done = desk(*command.split(), "--no-such-option")
        assert done.returncode == 2 and b"--no-such-option" in done.stderr, command


def test_stdin_is_a_pipe_or_a_terminal(desk):  # noqa: F811
    """stdin piped or terminal, window size follows …; TERM and LANG travel with `-t` only"""
    show = ["sh", "-c", "test -t 0 && echo terminal; echo $TERM-$LANG"]
    with Server(env={"TERM": "server", "LANG": "C"}) as server:
        url = ["--url", server.url]
        here = {"LANG": "xx", "TERM": "vt100"}
        assert desk.said("run", *url, "--", *show, env=here) == "server-C\n"
        assert desk.said("run", "-t", *url, "--", *show, env=here) == "terminal\r\nvt100-xx\r\n"
    assert desk.said("run", "--", "tr", "a-z", "A-Z", stdin=b"in") == "IN"


def test_signals_go_to_the_far_side(desk):  # noqa: F811
    """Ctrl-C goes to the far side"""
    with subprocess.Popen([BIN, "run", "--", "sh", "-c", "trap 'echo got; exit 5' INT; echo up; while :; do sleep 0.05; done"],
                          env=desk.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as proc:
        assert proc.stdout.readline() == b"up\n"
        proc.send_signal(signal.SIGINT)
        assert proc.stdout.read() == b"got\n" and proc.wait(SECONDS) == 5


def test_json_of_commands_that_run_on(desk):  # noqa: F811
    """`--json` wherever a program may read: an id, a list, the output"""
    told = json.loads(desk.said("run", "--detach", "--json", "--", "sh", "-c", "echo out; echo err >&2; exit 4"))
    assert set(told) == {"id", "sessionId", "processId"} and told["sessionId"].endswith(told["id"])
    lines = [json.loads(line) for line in desk.said("logs", "-f", "--json", told["id"]).splitlines()]
    assert {(piece["stream"], base64.b64decode(piece["chunk"])) for piece in lines[:-1]} == {("stdout", b"out\n"), ("stderr", b"err\n")}
    assert lines[-1] == {"exited": True, "exitCode": 4, "closed": True, "nextSeq": lines[-1]["nextSeq"]}
    assert [p["exitCode"] for p in json.loads(desk.said("ps", "--json"))["processes"]] == [4]
    done = desk("run", "--json", "--", "true")
    assert done.returncode == 2 and b"--detach" in done.stderr


def test_json_of_a_gap_and_of_a_command_that_runs(desk):  # noqa: F811
    ident = desk.detach("sh", "-c", "head -c 3000000 /dev/zero; echo end; exec sleep 1000")
    wait_until(lambda: desk.processes()[0]["retainedBytes"] > 0 and desk.processes()[0]["droppedBytes"] > 1000000, SECONDS, "dropped output")
    lines = [json.loads(line) for line in desk.said("logs", "--json", ident).splitlines()]
    assert lines[0]["gap"]["bytes"] > 1000000 and lines[1]["seq"] == lines[0]["gap"]["toSeq"] + 1
    assert lines[-1]["exited"] is False and lines[-1]["exitCode"] is None
    assert desk("kill", "-s", "KILL", ident).returncode == 0


@pytest.mark.parametrize("command", [["ps"], ["env", "check"]])
def test_json_of_a_hostile_server_does_nothing_to_a_terminal(desk, command):  # noqa: F811
    nasty = "\u009b2J\x7f\u202e\u00e9\U0001f600"

    async def serve(peer):
        await peer.hello()
        asked = await peer.next("process/list" if command == ["ps"] else "environment/info")
        await peer.ws.send(json.dumps({"id": asked["id"], "result": {"processes": [], "shell": {}, "x": nasty}}, ensure_ascii=False, indent=1))
        await peer.stay()

    with FakeServer(serve) as server:
        said = desk.said(*command, "--url", server.url, "--json")
    assert json.loads(said)["x"] == nasty and "\u009b" not in said and "\x7f" not in said and "\u202e" not in said and "\u00e9" in said
    assert said.count("\n") == 1


def test_colours_are_for_terminals_without_no_color(desk):  # noqa: F811
    """colours only on a terminal and never with NO_COLOR"""
    os.mkdir(f"{desk.home}/directory")
    listing = ["fs", "ls", desk.home]
    assert b"\x1b[" not in desk(*listing).stdout
    assert b"\x1b[" in on_terminal(desk, *listing)[0]
    assert b"\x1b[" not in on_terminal(desk, *listing, env={"NO_COLOR": "1"})[0]


def test_progress_of_a_copy_is_for_terminals(desk):  # noqa: F811
    """`cp`: either side far or near …, `-` for stdin and stdout, progress (…; nothing when not a terminal)"""
    with Server() as server:
        url = ["--url", server.url]
        assert desk("cp", *url, "-", f":{desk.home}/a", stdin=b"x").stderr == b""
        assert desk.said("cp", *url, f":{desk.home}/a", "-") == "x"
        assert on_terminal(desk, "cp", *url, f":{desk.home}/a", f"{desk.home}/b")[1] == 0
    with open(f"{desk.home}/b", "rb") as f:
        assert f.read() == b"x"


def test_the_first_command_of_the_readme_works_at_once(desk):  # noqa: F811
    """With no environment named, `farhand run -- echo hello` works at once; it is the first command of the README."""
    with open(os.path.join(REPO, "README.md"), encoding="utf-8") as f:
        assert re.search(r"^\$ (farhand .*)$", f.read(), re.M).group(1) == "farhand run -- echo hello"
    assert desk.said("run", "--", "echo", "hello") == "hello\n"
    assert os.listdir(desk.runtime) == []  # no server was left behind


def test_a_command_of_another_session_is_read_and_ended_without_its_client():
    """`logs` and `kill` reach a process of another session without disturbing its client"""
    with tempfile.TemporaryDirectory(prefix="fh-desk-", dir="/tmp") as home, Server() as server, server.connect() as client:
        me = Desk(home, ["--url", server.url])
        client.start("p", ["sh", "-c", "trap 'echo got; exit 6' TERM; echo up; while :; do sleep 0.05; done"])
        client.wait_output("p", b"up\n")
        ident = client.session_id.split("-", 1)[1]
        assert me.said("logs", ident) == "up\n"
        assert me("kill", ident).returncode == 0
        assert client.wait_exit("p", SECONDS)["exitCode"] == 6 and client.output("p").endswith(b"got\n")
