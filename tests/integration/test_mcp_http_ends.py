"""`farhand mcp --listen`: however it ends, or a client of it, or a session, nothing is left: no process, no socket."""

import os
import signal
import socket
import time

import pytest

from mcp_http_rig import HOLDS_MEMORY, INITIALIZE, SECONDS, Front, children, is_alive, until


def busy(front, count=2):
    """Sessions, each with a command that runs and one that has left its session. Returns them with all processes below the listener."""
    sessions = [front.session() for _ in range(count)]
    for n, session in enumerate(sessions):
        session.wire = session.begin(session.exec_message(f"setsid sleep 1000 & echo >up-{n}; sleep 1000"))
        assert session.wire.read_answer().headers["content-type"] == "text/event-stream"
        assert session.wire.event()[1] is None
    until(lambda: all(os.path.exists(os.path.join(front.work, f"up-{n}")) for n in range(count)), "the commands")
    return sessions, front.processes()


def gone(pids):
    until(lambda: not [pid for pid in pids if is_alive(pid)], f"the end of {pids}")


def is_listening(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_all(number):
    with Front() as front:
        sessions, pids = busy(front)
        with sessions[0].get() as general:
            assert len(pids) >= 4
            front.proc.send_signal(number)
            assert front.proc.wait(SECONDS) == 0
            assert general.is_closed() and sessions[0].wire.is_closed()
        gone(pids)
        assert not is_listening(front.port)


def test_sigkill_of_the_listener_ends_all():
    with Front() as front:
        _, pids = busy(front)
        front.proc.kill()
        front.proc.wait()
        gone(pids)
        assert not is_listening(front.port)


def test_sigkill_of_the_listener_at_any_moment_leaves_nothing():
    for n in range(12):
        with Front() as front:
            wire = front.wire()
            wire.write(body=INITIALIZE)
            time.sleep(n * 0.004)  # the process of the session is being made, starts, answers
            pids = front.processes()
            front.proc.kill()
            front.proc.wait()
            gone(pids)
            wire.close()


def test_delete_ends_what_runs():
    with Front() as front:
        (one, two), _ = busy(front)
        assert one.ask("DELETE").status == 204
        assert one.wire.events() == []
        until(lambda: len([p for p in front.processes() if is_alive(p)]) <= 6, "the end of one session")
        assert two.exec("echo x")["output"] == "x\n"
        two.ask("DELETE")
        until(lambda: not front.processes(), "the end of the other session")


def test_a_session_that_is_given_up_ends():
    with Front("--session-idle", "1") as front:
        (one, two), _ = busy(front)
        with two.get():
            pids = front.processes()
            one.wire.close()  # its client has died. Asking would keep the session alive, so its processes are watched
            until(lambda: len([pid for pid in pids if is_alive(pid)]) < len(pids) - 2, "the end of the processes of the idle session")
            assert one.ask(body=one.message("ping")).status == 404
            assert two.exec("echo x")["output"] == "x\n"  # somebody is connected to this one
        two.wire.close()
        until(lambda: not front.processes(), "the end of all sessions")


def test_a_session_whose_process_is_killed_is_gone_and_no_other_is():
    with Front() as front:
        (one, two), _ = busy(front)
        os.kill(children(front.proc.pid)[0], signal.SIGKILL)
        until(lambda: [s for s in (one, two) if s.ask(body=s.message("ping")).status == 404], "the end of a session")
        dead, alive = (one, two) if one.ask(body=one.message("ping")).status == 404 else (two, one)
        assert dead.wire.events() == []  # the stream of the call ends without an answer
        assert alive.exec("echo x")["output"] == "x\n"
        dead.wire.close()
        alive.wire.close()


def test_a_session_that_cannot_begin_is_told(tmp_path):
    with Front(options=("--profile", str(tmp_path / "none.json"))) as front:
        answer = front.ask(body=INITIALIZE)
        assert answer.status == 500 and answer.json["error"]["message"] == "the session could not begin"
        until(lambda: not front.processes(), "the end of the process")


def test_a_session_whose_client_never_learns_its_name_ends():
    with Front() as front:
        for _ in range(5):
            front.proc.send_signal(signal.SIGSTOP)  # so that the connection has ended before the session has begun
            with front.wire() as wire:
                wire.write(body=INITIALIZE)
            front.proc.send_signal(signal.SIGCONT)
        assert front.session().exec("echo x")["output"] == "x\n"  # so all of them have been read
        until(lambda: len(children(front.proc.pid)) <= 1, "the end of the processes")


def test_clients_that_die_leave_nothing():
    with Front("--session-idle", "1") as front:
        before = len(os.listdir(f"/proc/{front.proc.pid}/fd"))
        for _ in range(5):
            session = front.session()
            wire = session.begin(session.exec_message("sleep 1000"))
            general = session.get()
            for one in (wire, general):
                one.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                one.close()
        until(lambda: not front.processes(), "the end of all sessions")
        until(lambda: len(os.listdir(f"/proc/{front.proc.pid}/fd")) == before, "the end of all descriptors")


def test_a_thousand_calls_leave_no_process_descriptor_or_memory():
    def cost(front):
        with open(f"/proc/{front.proc.pid}/status", encoding="latin-1") as f:
            return int([line for line in f if line.startswith("VmRSS")][0].split()[1])

    with Front() as front:
        session = front.session()
        session.call(session.message("ping"))
        descriptors = len(os.listdir(f"/proc/{front.proc.pid}/fd"))

        def calls(count):
            with front.wire() as wire:
                for _ in range(count):
                    session.write(wire, body=session.message("tools/list"))
                    assert "tools" in session.finish(wire)[-1]["result"]

        calls(100)
        before, processes = cost(front), len(front.processes())
        calls(900)
        after = cost(front)
        assert (HOLDS_MEMORY or after - before < 2000) and len(front.processes()) == processes
        until(lambda: len(os.listdir(f"/proc/{front.proc.pid}/fd")) <= descriptors, "the end of all descriptors")
        session.ask("DELETE")
        until(lambda: not front.processes(), "the end of the session")
