"""exec_command through `farhand unified`: arguments, environment, windows, answers, events; on this machine and on a far server."""

import os
import subprocess

import pytest

from farhand_client import BIN, PATIENCE, Server
from unified_rig import Unified

PARSE = "failed to parse function arguments: "
MIB = 1024 * 1024


@pytest.fixture(scope="module", params=["here", "far"])
def u(request):
    """A table without a sandbox; test_unified_approval.py tests what a sandbox forbids."""
    if request.param == "here":
        with Unified("--no-sandbox") as one:
            yield one
    else:
        with Server() as server, Unified("--no-sandbox", "-C", "/usr", where=("--url", server.url)) as one:
            yield one


# The command


def test_a_command_is_run_by_the_shell(u):
    done = u.exec("echo a; echo b >&2; exit 3")
    assert done["exit_code"] == 3 and "session_id" not in done
    assert sorted(done["output"].split()) == ["a", "b"]
    assert done["original_token_count"] == 1


@pytest.mark.parametrize("login,flag", [(True, "-lc"), (False, "-c"), (None, "-lc")])
def test_the_shell_is_a_login_shell_unless_asked_otherwise(u, login, flag):
    ident = u.begin("exec_command", cmd="true", login=login)
    u.wait(ident)
    command = u.of("exec_command_begin", call_id=ident)[0]["command"]
    assert command[1:] == [flag, "true"] and os.path.isabs(command[0])


def test_the_working_directory(u):
    assert u.exec("pwd", workdir="/usr/bin")["output"] == "/usr/bin\n"
    begun = u.of("exec_command_begin")[0]["cwd"]
    assert u.exec("pwd")["output"] == begun + "\n"
    assert u.exec("pwd", workdir="")["output"] == begun + "\n"
    assert u.exec("pwd", workdir=".//../.")["output"] == os.path.dirname(begun) + "\n"


def test_the_variables_that_are_added(u):
    wanted = {"NO_COLOR": "1", "TERM": "dumb", "LANG": "C.UTF-8", "LC_CTYPE": "C.UTF-8", "LC_ALL": "C.UTF-8", "COLORTERM": "",
              "PAGER": "cat", "GIT_PAGER": "cat", "GH_PAGER": "cat", "CODEX_CI": "1"}
    got = dict(line.split("=", 1) for line in u.exec("env")["output"].splitlines() if "=" in line)
    assert {name: got.get(name) for name in wanted} == wanted


def test_the_variables_that_are_added_win():
    """They replace variables of the server, also those that come from the settings of the server."""
    theirs = {"NO_COLOR": "", "TERM": "xterm", "LANG": "C", "LC_CTYPE": "C", "LC_ALL": "C", "COLORTERM": "truecolor", "PAGER": "less",
              "GIT_PAGER": "less", "GH_PAGER": "less", "CODEX_CI": "0"}
    with Server(env=theirs) as server, Unified("--no-sandbox", where=("--url", server.url)) as u:
        got = u.exec("echo $NO_COLOR,$TERM,$LANG,$LC_CTYPE,$LC_ALL,$COLORTERM,$PAGER,$GIT_PAGER,$GH_PAGER,$CODEX_CI")["output"]
        assert got == "1,dumb,C.UTF-8,C.UTF-8,C.UTF-8,,cat,cat,cat,1\n"


def test_variables_that_look_like_secrets_do_not_reach_commands():
    with Unified("--no-sandbox", env={"MY_API_KEY": "x", "MY_NAME": "y"}) as u:
        assert u.exec("echo $MY_API_KEY$MY_NAME")["output"] == "y\n"


def test_stdin_is_closed_without_a_terminal(u):
    assert u.exec("cat; echo end $?")["output"] == "end 0\n"
    assert u.exec("test -t 1 || echo pipes")["output"] == "pipes\n"


def test_with_tty_there_is_a_terminal(u):
    assert u.exec("test -t 0 && test -t 1 && echo terminal", tty=True)["output"] == "terminal\r\n"


def test_a_directory_that_does_not_exist(u):
    text = u.error("exec_command", cmd="true x", workdir="/no/such/place")
    assert text.startswith("exec_command failed for `true x`: Failed to create unified exec process: "), text


@pytest.mark.parametrize("cmd", ["", " \n\t"])
def test_an_empty_command(u, cmd):
    assert u.error("exec_command", cmd=cmd) == f"exec_command failed for `{cmd}`: missing command line for unified exec request"


# Shells


def test_the_shell_is_that_of_the_user_of_the_environment():
    with Server() as server, Unified("--no-sandbox", where=("--url", server.url)) as u, server.connect() as client:
        ident = u.begin("exec_command", cmd="true")
        u.wait(ident)
        assert u.of("exec_command_begin", call_id=ident)[0]["command"][0] == client.call("environment/info")["shell"]["path"]


def test_another_shell_here():
    with Unified("--no-sandbox") as u:
        ident = u.begin("exec_command", cmd="echo $0", shell="/bin/sh", login=False)
        assert u.wait(ident)["output"] == "/bin/sh\n"
        assert u.of("exec_command_begin", call_id=ident)[0]["command"] == ["/bin/sh", "-c", "echo $0"]
        assert u.exec("echo $0", shell="sh")["output"] == "sh\n"
        assert u.exec("echo yes", shell="")["output"] == "yes\n"
        assert u.error("exec_command", cmd="true", shell="/usr/bin/python3") == "unsupported shell `/usr/bin/python3`"


def test_only_the_kind_of_shell_that_a_far_machine_has():
    with Server(env={"SHELL": "/bin/sh"}) as server, Unified("--no-sandbox", where=("--url", server.url)) as u:
        ident = u.begin("exec_command", cmd="true", login=False)
        u.wait(ident)
        path = u.of("exec_command_begin", call_id=ident)[0]["command"][0]
        kind = os.path.basename(path)
        other = "zsh" if kind != "zsh" else "bash"
        assert u.error("exec_command", cmd="true", shell=other) == f"environment `remote` only supports `{kind}`"
        assert u.error("exec_command", cmd="true", shell=f"/opt/{other}") == f"environment `remote` only supports `{kind}`"
        ident = u.begin("exec_command", cmd="true", shell=f"/elsewhere/{kind}", login=False)
        assert u.wait(ident)["exit_code"] == 0
        assert u.of("exec_command_begin", call_id=ident)[0]["command"][0] == path


def test_login_shells_can_be_forbidden():
    with Unified("--no-sandbox", "--no-login") as u:
        assert u.error("exec_command", cmd="true", login=True) == "login shell is disabled by config; omit `login` or set it to false."
        ident = u.begin("exec_command", cmd="true")
        u.wait(ident)
        assert u.of("exec_command_begin", call_id=ident)[0]["command"][1] == "-c"
        assert u.exec("true")["exit_code"] == 0


# Arguments


@pytest.mark.parametrize("arguments,text", [
    ({}, "missing field `cmd`"),
    ({"cmd": 1}, "cmd: invalid type: number, expected a string"),
    ({"cmd": "a", "tty": "yes"}, "tty: invalid type: string, expected a boolean"),
    ({"cmd": "a", "yield_time_ms": -1}, "yield_time_ms: a negative number"),
])
def test_bad_arguments(u, arguments, text):
    assert u.error("exec_command", is_valid=False, **arguments) == PARSE + text


def test_the_rule_that_a_model_proposes_changes_nothing(u):
    assert u.exec("echo run", prefix_rule=["echo", "run"])["output"] == "run\n"
    assert u.error("exec_command", is_valid=False, cmd="a", prefix_rule="echo").startswith(PARSE + "prefix_rule: ")


@pytest.mark.parametrize("name", ["workdir", "shell"])
def test_paths_are_no_longer_than_those_of_the_system(u, name):
    assert u.error("exec_command", cmd="a", **{name: "/" * 4097}) == PARSE + f"{name}: longer than 4096 bytes"


def test_no_other_arguments(u):
    assert u.error("exec_command", is_valid=False, cmd="a", timeout=1).startswith(PARSE + "unknown field `timeout`, expected one of `cmd`, ")


def test_an_unknown_environment(u):
    assert u.error("exec_command", cmd="a", environment_id="nowhere") == "unknown environment id `nowhere`"


def test_arguments_as_a_text(u):
    u.send({"id": "text", "tool": "exec_command", "arguments": '{"cmd":"echo text"}'})
    assert u.wait("text")["output"].endswith("text\n")


# Windows


def test_a_command_that_ends_is_answered_at_once(u):
    assert u.exec("echo done", yield_time_ms=30000)["wall_time_seconds"] < 30


def test_a_command_that_runs_on_becomes_a_session(u):
    done = u.exec("echo begun; sleep 100", yield_time_ms=1)
    assert "exit_code" not in done and 1000 <= done["session_id"] <= 99999
    assert done["wall_time_seconds"] >= 0.25  # one millisecond is too short, and becomes 250
    if done["output"] == "":  # a busy machine needs longer for it
        done = u.write(done["session_id"]) | {"session_id": done["session_id"]}
    assert done["output"] == "begun\n"
    assert u.call("list_sessions")["sessions"][-1]["cmd"] == "echo begun; sleep 100"


def test_the_window_is_as_long_as_asked_for(u):
    assert u.exec("sleep 100", yield_time_ms=1200)["wall_time_seconds"] >= 1.2


def test_a_child_that_holds_the_output_open_delays_the_answer_by_a_moment(u):
    """The end of the output is awaited for 50 ms, and for 100 ms before the end is told: not for as long as the child lives."""
    ident = u.begin("exec_command", cmd="sleep 100 & echo parent", login=False, yield_time_ms=30000)
    done = u.wait(ident)
    assert done["exit_code"] == 0 and done["output"] == "parent\n" and 0.05 <= done["wall_time_seconds"] < 10 * PATIENCE
    assert 0.1 <= u.event("exec_command_end", call_id=ident)["duration_seconds"] < 10 * PATIENCE


@pytest.mark.slow
def test_the_usual_window_and_the_longest(u):
    """A window lasts ten seconds when the call does not say how long, and 30 seconds at most."""
    usual = u.begin("exec_command", cmd="sleep 100", login=False)
    longest = u.begin("exec_command", cmd="sleep 100", login=False, yield_time_ms=10 ** 9)
    assert 10 <= u.wait(usual)["wall_time_seconds"] < 30
    assert 30 <= u.wait(longest)["wall_time_seconds"] < 90


def test_a_command_that_dies_by_a_signal(u):
    assert u.exec("kill -9 $$")["exit_code"] == 137


@pytest.mark.parametrize("after", ["0", "0.1", "0.24", "0.25", "0.26", "0.5"])
def test_a_command_that_dies_at_any_point_of_its_window(u, after):
    """The output and the exit code of the command are told once, by this call or by the next."""
    done = u.exec(f"printf x; sleep {after}; printf y; exit 9", yield_time_ms=250)
    output = done["output"]
    while "exit_code" not in done:
        done = u.write(done["session_id"])
        output += done["output"]
    assert (done["exit_code"], output) == (9, "xy")


# Output


def test_a_flood_keeps_its_beginning_and_its_end(u):
    ident = u.begin("exec_command", cmd="seq 1000000", login=False, max_output_tokens=10 ** 9)
    done = u.wait(ident)
    whole = "".join(f"{i}\n" for i in range(1, 1000001))
    omitted = len(whole) - MIB
    assert done["output"] == whole[:MIB // 2] + f"\n... {omitted} bytes omitted ...\n" + whole[-MIB // 2:]
    assert done["original_token_count"] == (len(whole) + 3) // 4
    end = u.event("exec_command_end", call_id=ident)
    assert end["output"] == done["output"] and end["exit_code"] == 0


def test_a_character_that_the_seam_cuts_is_replaced_on_both_sides(u):
    """512 KiB are no multiple of three bytes. The head ends with the beginning of a character; the tail begins with two bytes of one."""
    done = u.exec("yes € | head -n 400000 | tr -d '\\n'", max_output_tokens=10 ** 9)
    left, middle, right = done["output"].split("\n")
    assert left == "€" * 174762 + "\ufffd" and right == "\ufffd\ufffd" + "€" * 174762
    assert middle == f"... {400000 * 3 - MIB} bytes omitted ..."


def test_output_is_cut_for_the_model(u):
    whole = "".join(f"{i}\n" for i in range(1, 20001))
    done = u.exec("seq 20000")
    cut = whole[:20000] + f"…{(len(whole) - 40000 + 3) // 4} tokens truncated…" + whole[-20000:]
    assert done["output"] == f"Warning: truncated output (original token count: {(len(whole) + 3) // 4})\nTotal output lines: 20000\n\n{cut}"
    done = u.exec("seq 1000", max_output_tokens=0)
    assert done["output"] == "Warning: truncated output (original token count: 974)\nTotal output lines: 1000\n\n…974 tokens truncated…"


def test_output_that_just_fits_is_not_cut(u):
    """A token is four bytes."""
    for count, tokens in ((40000, {}), (40, {"max_output_tokens": 10})):
        assert u.exec(f"head -c {count} /dev/zero | tr '\\0' x", **tokens)["output"] == "x" * count
        done = u.exec(f"head -c {count + 1} /dev/zero | tr '\\0' x", **tokens)
        assert done["output"].split("\n\n")[1] == "x" * (count // 2) + "…1 tokens truncated…" + "x" * (count // 2)


def test_a_cut_flood_tells_of_the_lost_bytes(u):
    done = u.exec("seq 1000000", max_output_tokens=100)
    lines = done["output"].split("\n")
    assert lines[0].startswith("Warning: truncated output (original token count: ")
    assert lines[1] == f"... {6888896 - MIB} bytes omitted ..." and lines[2] == ""


def test_cuts_are_made_between_characters(u):
    done = u.exec("for i in $(seq 200); do printf '€€€€'; done", max_output_tokens=100)
    middle = done["output"].split("\n\n", 1)[1]
    left, _, right = middle.partition("…")
    assert left == "€" * 66 and right.endswith("…" + "€" * 66) and "\ufffd" not in done["output"]


def test_bytes_that_are_no_text(u):
    ident = u.begin("exec_command", cmd=r"printf 'a\377b\342\202'", login=False)
    assert u.wait(ident)["output"] == "a\ufffdb\ufffd"
    u.event("exec_command_end", call_id=ident)
    assert u.deltas(ident) == "a\ufffdb\ufffd"


@pytest.mark.parametrize("args,unit", [(("--max-output-tokens", "1000"), "tokens"), (("--max-output-bytes", "4000"), "chars")])
def test_the_budget_of_a_model(args, unit):
    with Unified("--no-sandbox", *args) as u:
        done = u.exec("seq 20000", max_output_tokens=10 ** 6)
        assert f" {unit} truncated…" in done["output"] and len(done["output"].encode()) < 4200
        assert len(done["text"].encode()) <= 4800
        assert len(u.exec("seq 20000", max_output_tokens=100)["output"].encode()) < 600


def test_the_whole_answer_is_held_to_a_fifth_more_than_the_budget():
    """With a small budget the lines before the output take most of it: there is less output in the text than in `output`."""
    with Unified("--no-sandbox", "--max-output-bytes", "600") as u:
        ident = u.begin("exec_command", cmd="seq 20000", login=False)
        result = u.until(lambda: u.results.get(str(ident)))["result"]
        assert len(result["text"].encode()) <= 720 and len(result["output"].encode()) > 600


# Events


def test_the_events_of_a_command(u):
    ident = u.begin("exec_command", cmd="echo one; sleep 0.3; echo two", login=False, yield_time_ms=30000)
    done = u.wait(ident)
    end = u.event("exec_command_end", call_id=ident)
    mine = [e["event"] for e in u.events if e.get("call_id") == ident]
    assert mine[0] == "exec_command_begin" and mine[-1] == "exec_command_end"
    assert set(mine[1:-1]) == {"exec_command_output_delta"}
    assert u.deltas(ident) == done["output"] == end["output"] == "one\ntwo\n"
    assert end["exit_code"] == 0 and end["duration_seconds"] >= 0.3 and "failure" not in end
    assert {e["process_id"] for e in u.events if e.get("call_id") == ident} == {end["process_id"]}


def test_the_end_of_a_session_is_told_between_calls(u):
    ident = u.begin("exec_command", cmd="echo a; sleep 1; echo b; exit 4", login=False, yield_time_ms=250)
    done = u.wait(ident)
    assert "session_id" in done
    end = u.event("exec_command_end", call_id=ident)
    assert (end["exit_code"], end["output"], end["process_id"]) == (4, "a\nb\n", done["session_id"])
    rest = u.write(done["session_id"])
    assert rest["exit_code"] == 4 and done["output"] + rest["output"] == "a\nb\n"
    assert len(u.of("exec_command_end", call_id=ident)) == 1
    assert u.error("write_stdin", session_id=done["session_id"]).endswith(f"Unknown process id {done['session_id']}")


def test_both_streams_are_told_as_stdout(u):
    ident = u.begin("exec_command", cmd="echo out; echo err >&2", login=False)
    u.wait(ident)
    u.event("exec_command_end", call_id=ident)
    assert {e["stream"] for e in u.of("exec_command_output_delta", call_id=ident)} == {"stdout"}
    assert sorted(u.deltas(ident).split()) == ["err", "out"]


def test_characters_are_whole_in_deltas(u):
    ident = u.begin("exec_command", cmd=r"printf '\342'; sleep 0.2; printf '\202'; sleep 0.2; printf '\254x'", login=False)
    assert u.wait(ident)["output"] == "€x"
    u.event("exec_command_end", call_id=ident)
    assert u.deltas(ident) == "€x"


def test_deltas_are_short_and_come_to_an_end():
    """No delta is longer than the schema allows. A flood of output gets 10,000 deltas, and what comes later is only in the transcript."""
    with Unified("--no-sandbox") as u:
        ident = u.begin("exec_command", cmd="head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last", login=False, yield_time_ms=30000)
        done = u.wait(ident)
        while "exit_code" not in done:
            done = u.write(done["session_id"])
        end = u.event("exec_command_end", call_id=ident)
        assert end["output"].endswith("x\nlast\n")
        found = u.of("exec_command_output_delta", call_id=ident)
        assert len(found) == 10000 and max(len(e["chunk"].encode()) for e in found) <= 8192


# Cancelling


def test_a_cancelled_call_does_not_end_its_process(u):
    ident = u.begin("exec_command", cmd="echo begun; read line; echo got $line", login=False, tty=True, yield_time_ms=30000)
    begun = u.event("exec_command_begin", call_id=ident)
    u.until(lambda: "begun" in u.deltas(ident))
    u.send({"id": f"cancel-{ident}", "cancel": ident})
    assert u.wait(f"cancel-{ident}") == {"cancelled": True}
    answer = u.until(lambda: u.results.get(str(ident)))
    assert answer["error"] == {"message": "cancelled"}
    done = u.write(begun["process_id"], "it\n", yield_time_ms=30000)
    assert done["exit_code"] == 0 and done["output"].startswith("begun\r\n") and "got it" in done["output"]
    u.send({"id": "again", "cancel": ident})
    assert u.wait("again") == {"cancelled": False}


# Many


def test_many_at_once(u):
    idents = [u.begin("exec_command", cmd=f"sleep 0.{i % 10}; echo {i}", login=False, yield_time_ms=30000) for i in range(40)]
    for i, ident in enumerate(idents):
        assert u.wait(ident)["output"] == f"{i}\n"


def test_chunk_ids_and_session_ids_differ(u):
    done = [u.exec("sleep 100", yield_time_ms=250) for _ in range(4)]
    assert len({d["chunk_id"] for d in done}) == 4 and len({d["session_id"] for d in done}) == 4


def test_the_help():
    done = subprocess.run([BIN, "unified", "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "--approval <POLICY>" in done.stdout
