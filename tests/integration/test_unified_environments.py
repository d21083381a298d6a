"""Several environments in one table, and connections that are lost: `farhand unified` with servers that come, go and are cut off."""

import os
import re
import signal
import socket
import subprocess

import pytest

from cutting_proxy import CuttingProxy
from farhand_client import Server, wait_until
from gate import Gate
from unified_rig import Failed, Unified

CONFIG = "retained_output_bytes_per_process = 8388608\n"


def toml(*pairs, default="local"):
    text = f'default = "{default}"\n'
    for name, url in pairs:
        text += f'\n[[environments]]\nid = "{name}"\nurl = "{url}"\n'
    return text


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


# Several in one table


def test_commands_go_to_the_environment_that_they_name():
    with Server(env={"WHERE": "one"}, cwd="/usr") as one, Server(env={"WHERE": "two"}, cwd="/var") as two:
        with Unified("--no-sandbox", where=(), toml=toml(("one", one.url), ("two", two.url)), env={"WHERE": "here"}) as u:
            assert u.exec("echo $WHERE; pwd")["output"] == f"here\n{u.work}\n"
            for name, cwd in (("one", "/usr"), ("two", "/var"), ("local", u.work)):
                ident = u.begin("exec_command", cmd="echo $WHERE; pwd", login=False, environment_id=name)
                assert u.wait(ident)["output"] == f"{name if name != 'local' else 'here'}\n{cwd}\n"
                assert u.of("exec_command_begin", call_id=ident)[0]["environment_id"] == name
                assert u.event("exec_command_end", call_id=ident)["environment_id"] == name
            sessions = [u.exec("sleep 100", yield_time_ms=250, environment_id=name)["session_id"] for name in ("one", "two", "local")]
            assert [s["environment_id"] for s in u.call("list_sessions")["sessions"]] == ["one", "two", "local"]
            for session in sessions:
                assert u.write(session, "\x03", yield_time_ms=30000)["exit_code"] == 130
            assert u.error("exec_command", cmd="true", environment_id="three") == "unknown environment id `three`"


def test_the_named_ones_are_the_only_ones():
    with Server(env={"WHERE": "one"}) as one, Server(env={"WHERE": "two"}) as two:
        text = toml(("one", one.url), ("two", two.url))
        with Unified("--no-sandbox", where=("--env", "two", "--env", "one"), toml=text) as u:
            assert u.exec("echo $WHERE")["output"] == "two\n"
            assert u.exec("echo $WHERE", environment_id="one")["output"] == "one\n"
            assert u.error("exec_command", cmd="true", environment_id="local") == "unknown environment id `local`"


def test_an_environment_is_not_connected_before_it_is_needed():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        with Unified("--no-sandbox", where=(), toml=toml(("lazy", f"ws://127.0.0.1:{listener.getsockname()[1]}"))) as u:
            assert u.exec("echo here")["output"] == "here\n"
            with pytest.raises(BlockingIOError):
                listener.accept()
            u.begin("exec_command", cmd="true", environment_id="lazy")
            listener.setblocking(True)
            listener.settimeout(60)
            listener.accept()[0].close()


def test_one_connection_for_each(tmp):
    with Server(listen=f"unix:{tmp}/socket") as server:
        with Unified("--no-sandbox", where=("--url", server.url)) as u:
            for _ in range(3):
                u.exec("true")
            connections = subprocess.run(["ss", "-xH", "src", f"{tmp}/socket"], capture_output=True, text=True, check=False)
            if connections.returncode != 0:
                pytest.skip("needs ss")
            assert len([line for line in connections.stdout.splitlines() if "ESTAB" in line]) == 1


def test_an_environment_that_cannot_be_reached():
    with Unified("--no-sandbox", where=(), toml=toml(("gone", f"ws://127.0.0.1:{free_port()}"))) as u:
        text = u.error("exec_command", cmd="true x", environment_id="gone")
        assert text.startswith("exec_command failed for `true x`: Failed to create unified exec process: "), text
        assert u.exec("echo others work")["output"] == "others work\n"


def test_the_same_environment_twice_is_refused():
    with Unified("--no-sandbox", where=("--env", "local", "--env", "local")) as u:
        assert u.proc.wait(60) == 255 and "named twice" in u.said()


# Lost connections


def test_a_lost_server_fails_its_processes_and_no_others():
    port = free_port()
    with Server(listen=f"ws://127.0.0.1:{port}") as other, Unified("--no-sandbox", where=(), toml=toml(("far", other.url))) as u:
        here = u.exec("sleep 100", yield_time_ms=250)["session_id"]
        idle = u.begin("exec_command", cmd="echo kept; sleep 100", login=False, yield_time_ms=1000, environment_id="far")
        session = u.wait(idle)["session_id"]
        running = u.begin("exec_command", cmd="echo running; sleep 100", login=False, yield_time_ms=30000, environment_id="far")
        u.until(lambda: "running" in u.deltas(running))
        polled = u.begin("write_stdin", session_id=session, yield_time_ms=60000)
        os.kill(other.pid, signal.SIGKILL)
        other.proc.wait()
        with Server(listen=f"ws://127.0.0.1:{port}"):  # another server, which knows none of the processes
            with pytest.raises(Failed) as failure:
                u.wait(running)
            text = str(failure.value)
            assert text.startswith("exec_command failed for `echo running; sleep 100`: Unified exec process failed: ")
            assert text.endswith("\nOutput until then:\nrunning\n")
            with pytest.raises(Failed, match="^write_stdin failed: Unified exec process failed: "):
                u.wait(polled)
            for ident in (idle, running):
                end = u.event("exec_command_end", call_id=ident)
                assert end["exit_code"] == -1 and end["failure"]
            assert u.error("write_stdin", session_id=session).endswith(f"Unknown process id {session}")
            # The next call connects again.
            assert u.exec("echo again", environment_id="far")["output"] == "again\n"
        assert u.write(here, "\x03", yield_time_ms=30000)["exit_code"] == 130


def test_a_session_that_was_lost_between_calls_is_reported_by_the_next_one():
    port = free_port()
    with Server(listen=f"ws://127.0.0.1:{port}") as server, Unified("--no-sandbox", where=("--url", server.url)) as u:
        ident = u.begin("exec_command", cmd="sleep 0.5; echo unread; sleep 100", login=False, yield_time_ms=250)
        session = u.wait(ident)["session_id"]
        u.until(lambda: "unread" in u.deltas(ident))
        os.kill(server.pid, signal.SIGKILL)
        server.proc.wait()
        with Server(listen=f"ws://127.0.0.1:{port}"):
            u.event("exec_command_end", call_id=ident)
            assert u.call("list_sessions")["sessions"][0]["running"] is False
            text = u.error("write_stdin", session_id=session)
            assert text.startswith("write_stdin failed: Unified exec process failed: ") and text.endswith("\nOutput until then:\nunread\n")


def test_a_server_that_is_lost_in_the_pause_after_input():
    """The call that has the session tells the loss, with the output until then; the one that waits for its turn finds no session any more."""
    port = free_port()
    with Server(listen=f"ws://127.0.0.1:{port}") as server, Unified("--no-sandbox", where=("--url", server.url)) as u:
        ident = u.begin("exec_command", cmd="stty -echo -onlcr; echo ready; exec cat", login=False, tty=True, yield_time_ms=250)
        session = u.wait(ident)["session_id"]
        u.until(lambda: "ready" in u.deltas(ident))
        first, second = (u.begin("write_stdin", session_id=session, chars=f"{i}\n", yield_time_ms=30000) for i in range(2))
        u.event("terminal_interaction", call_id=ident)
        os.kill(server.pid, signal.SIGKILL)
        server.proc.wait()
        with Server(listen=f"ws://127.0.0.1:{port}"):
            assert u.error_of(first).startswith("write_stdin failed: Unified exec process failed: ")
            assert u.error_of(second) == f"write_stdin failed: Unknown process id {session}"
            end = u.event("exec_command_end", call_id=ident)
            assert end["exit_code"] == -1 and end["failure"] and end["output"] == u.deltas(ident)
            assert [e["stdin"] for e in u.of("terminal_interaction", call_id=ident)] == ["0\n"]
            assert u.call("list_sessions")["sessions"] == []


def start(u, **arguments):
    """A start that the cut has kept from the server fails, because it must not be done twice. Returns (id, result) of one that does not."""
    while True:
        ident = u.begin("exec_command", login=False, **arguments)
        try:
            return ident, u.wait(ident)
        except Failed as e:
            assert "Failed to create unified exec process: the connection was lost while the process was started: unknown process id " in str(e)
            assert not u.of("exec_command_begin", call_id=ident)


def test_cut_connections_lose_nothing():
    """Commands with much output, and input for terminals, over a connection that is cut again and again."""
    with Server(config=CONFIG) as server, CuttingProxy(server.port, seed=3, most_bytes=300_000, most_struck=25, spares_first=True,
                                                       kinds={"close": 30, "reset": 30, "stall": 15, "pause": 15, "trickle": 15}) as proxy:
        with Unified("--no-sandbox", where=("--url", f"ws://127.0.0.1:{proxy.port}")) as u:
            wanted = "".join(f"{i}\n" for i in range(1, 100001))
            for _ in range(6):
                ident, done = start(u, cmd="seq 100000", yield_time_ms=30000, max_output_tokens=10 ** 9)
                output = ""
                while True:
                    output += done["output"]
                    if "exit_code" in done:
                        break
                    done = u.write(done["session_id"], max_output_tokens=10 ** 9)
                assert done["exit_code"] == 0 and output == wanted
                assert u.event("exec_command_end", call_id=ident)["output"] == wanted
                assert u.deltas(ident) == wanted
            ident, done = start(u, cmd="stty -echo; echo ready; cat", tty=True, yield_time_ms=250)
            session = done["session_id"]
            u.until(lambda: "ready" in u.deltas(ident))
            for i in range(10):
                u.write(session, f"line {i}\n")
            done = u.write(session, "\x04", yield_time_ms=30000)
            while "exit_code" not in done:
                done = u.write(session)
            u.event("exec_command_end", call_id=ident)
            assert u.deltas(ident) == "ready\r\n" + "".join(f"line {i}\r\n" for i in range(10))
            assert proxy.counts.total() > 5
            assert len(u.of("exec_command_begin")) == 7


def test_output_that_the_server_no_longer_has_is_counted():
    """More is written while the connection is cut than the server keeps: the process goes on, and a mark tells what is missing."""
    with Server(config="retained_output_bytes_per_process = 65536\n") as server, Gate(server.port) as gate:
        with Unified("--no-sandbox", where=("--url", f"ws://127.0.0.1:{gate.port}")) as u:
            go, wrote = os.path.join(u.work, "go"), os.path.join(u.work, "wrote")
            ident = u.begin("exec_command", cmd=f"echo first; while ! test -e {go}; do sleep 0.05; done; seq 100000; touch {wrote}; "
                            f"while test -e {go}; do sleep 0.05; done; echo last; exit 3", login=False, yield_time_ms=250)
            session = u.wait(ident)["session_id"]
            u.until(lambda: "first" in u.deltas(ident))
            gate.shut()
            with open(go, "w", encoding="ascii"):
                pass
            wait_until(lambda: os.path.exists(wrote), 60)
            gate.open()
            u.until(lambda: "100000" in u.deltas(ident))
            os.remove(go)
            end = u.event("exec_command_end", call_id=ident)
            done = u.write(session, max_output_tokens=10 ** 9)
            assert done["exit_code"] == 3 and done["output"].endswith("99999\n100000\nlast\n")
            omitted = int(re.search(r"\n\.\.\. (\d+) bytes omitted \.\.\.\n", done["output"]).group(1))
            assert 588895 - 3 * 65536 < omitted < 588895
            assert end["output"].startswith("first\n") and f"\n... {omitted} bytes omitted ...\n" in end["output"]


def test_a_connection_that_is_lost_while_a_question_is_open():
    port = free_port()
    with Server(listen=f"ws://127.0.0.1:{port}") as server:
        with Unified("--no-sandbox", "--approval", "untrusted", where=("--url", server.url)) as u:
            ident = u.begin("exec_command", cmd="echo late", login=False)
            question = u.question(call_id=ident)
            os.kill(server.pid, signal.SIGKILL)
            server.proc.wait()
            with Server(listen=f"ws://127.0.0.1:{port}"):
                u.answer(question, "approved")
                try:
                    assert u.wait(ident)["output"] == "late\n"
                except Failed as e:  # the loss was noticed only by this start
                    assert "Failed to create unified exec process: " in str(e)
