"""How processes end: exit codes, signals, terminate, what comes late, what is left behind; that nothing survives."""

import contextlib
import itertools
import os
import random
import signal
import time
import uuid

import pytest

from farhand_client import Server, pid_alive, pid_gone, wait_until

BOTH = pytest.mark.parametrize("tty", [False, True], ids=["pipes", "tty"])
PATH = {"PATH": "/usr/bin:/bin"}


class Marked:
    """Finds the processes of one test by a variable in their environment, whatever their parent is by then."""

    def __init__(self):
        self.text = f"FARHAND_TEST_MARK={uuid.uuid4()}"
        name, _, value = self.text.partition("=")
        self.env = {**PATH, name: value}

    def pids(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as f:
                if self.text.encode() in f.read() and pid_alive(pid):
                    found.append(int(pid))
        return found

    def wait_count(self, count, timeout=10):
        """Waits until there are exactly `count` processes (at least one), and returns their pids."""
        return wait_until(lambda: found if len(found := self.pids()) == count else None, timeout,
                          f"{count} marked processes")

    def wait_names(self, names, timeout=10):
        """The pids, once there are exactly these programs. Their number alone does not say that: in the middle of an
        execve a process shows no environment, and before it the program that forked it."""
        def look():
            found = {pid: name_of(pid) for pid in self.pids()}
            return list(found) if sorted(found.values()) == sorted(names) else None
        return wait_until(look, timeout, f"{names} alone")

    def wait_gone(self, timeout=10):
        wait_until(lambda: not self.pids(), timeout, "end of all marked processes")


def name_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="latin-1") as f:
        return f.read().strip()
    return ""


@pytest.fixture
def marked():
    mark = Marked()
    yield mark
    for pid in mark.pids():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def terminate(client, process_id):
    return client.call("process/terminate", {"processId": process_id})["running"]


def interrupt(client, process_id):
    return client.call("process/signal", {"processId": process_id, "signal": "interrupt"})


def methods_of(client, process_id):
    return [m["method"].partition("/")[2] for m in client.events(process_id)]


def descendants(pid):
    """All processes below `pid`, zombies included."""
    children = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{entry}/stat", encoding="latin-1") as f:
            children.setdefault(int(f.read().rpartition(")")[2].split()[1]), []).append(int(entry))
    todo, found = [pid], []
    while todo:
        for child in children.get(todo.pop(), []):
            found.append(child)
            todo.append(child)
    return found


# Exit codes


@BOTH
def test_exit_status_is_passed_on(client, tty):
    for code in (0, 1, 2, 3, 42, 126, 127, 128, 129, 137, 143, 200, 254, 255, 300):
        assert client.run(["/bin/sh", "-c", f"exit {code}"], tty=tty)[2] == code % 256


@BOTH
@pytest.mark.parametrize("name", ["HUP", "INT", "QUIT", "ABRT", "KILL", "USR1", "SEGV", "PIPE", "ALRM", "TERM", "SYS"])
def test_death_by_a_signal_is_128_and_its_number(client, tmp, name, tty):
    number = getattr(signal, f"SIG{name}")
    client.run(["/bin/sh", "-c", f"ulimit -c 0; kill -{name} $$; sleep 60"], process_id="p", cwd=f"file://{tmp}",
               tty=tty)
    exited = client.wait_exit("p")
    assert exited["exitCode"] == 128 + number
    assert exited["sandboxDenied"] is False
    assert client.read("p")["exitCode"] == 128 + number


@BOTH
def test_text_of_a_denial_is_not_a_denial_without_sandbox(client, tty):
    client.run(["/bin/sh", "-c", "echo 'Operation not permitted: sandbox'; exit 1"], process_id="p", tty=tty)
    assert client.wait_exit("p")["sandboxDenied"] is False
    assert client.read("p")["sandboxDenied"] is False


def test_real_time_signals_count_as_well(client):
    assert client.run(["/bin/bash", "-c", "kill -RTMIN $$; sleep 60"])[2] == 128 + signal.SIGRTMIN


# Exit and close are two events


@BOTH
def test_closed_comes_once_and_last(client, tty):
    client.run(["/bin/sh", "-c", "echo a; echo b >&2; exit 1"], process_id="p", tty=tty)
    client.check_seq("p")
    client.run(["/bin/true"])
    assert methods_of(client, "p")[-2:].count("closed") == 1


@pytest.mark.parametrize("script, holders", [("sleep 60 & echo hi", ["sleep"]),
                                             ("exec > >(tee /dev/null); sleep 60 & echo hi", ["sleep", "tee"]),
                                             ("(exec sleep 60) 2>&1 | cat & echo hi", ["cat", "sleep"])],
                         ids=["holder", "substitution", "pipeline"])
def test_an_exit_is_told_while_others_hold_the_output(client, marked, script, holders):
    began = time.monotonic()
    client.start("p", ["/bin/bash", "-c", script], env=marked.env)
    assert client.wait_exit("p", 10)["exitCode"] == 0
    assert time.monotonic() - began < 50, "the holder sleeps for sixty seconds"
    client.wait_output("p", b"hi\n")
    assert "closed" not in methods_of(client, "p")
    assert client.read("p")["exited"] and not client.read("p")["closed"]
    for pid in marked.wait_names(holders):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    client.wait_closed("p")
    client.check_seq("p")


def test_late_output_has_later_numbers(client, tmp):
    os.mkfifo(f"{tmp}/go")
    client.start("p", ["/bin/sh", "-c", f"(read x < {tmp}/go; echo late; echo later >&2) & echo early"])
    client.wait_output("p", b"early\n")
    client.wait_exit("p")
    with open(f"{tmp}/go", "w", encoding="ascii") as go:
        go.write("\n")
    client.wait_closed("p")
    client.check_seq("p")
    methods = methods_of(client, "p")
    assert methods.index("exited") < len(methods) - 2, "output between exit and close"
    assert (client.output("p", "stdout"), client.output("p", "stderr")) == (b"early\nlate\n", b"later\n")
    result = client.read("p")
    assert (result["exitCode"], result["closed"], result["nextSeq"]) == (0, True, len(methods) + 1)


def test_one_held_stream_is_enough_to_stay_open(client, tmp):
    os.mkfifo(f"{tmp}/go")
    client.start("p", ["/bin/sh", "-c", f"(exec >/dev/null; read x < {tmp}/go; echo end >&2) & exit 0"])
    client.wait_exit("p")
    assert not client.read("p")["closed"]
    with open(f"{tmp}/go", "w", encoding="ascii") as go:
        go.write("\n")
    client.wait_closed("p")
    assert client.output("p", "stderr") == b"end\n"


def test_a_process_that_closes_its_streams_is_not_over(client):
    client.start("p", ["/bin/sh", "-c", "echo bye; exec >&- 2>&-; read x; exit 6"], pipeStdin=True)
    client.wait_output("p", b"bye\n")
    assert client.read("p", afterSeq=1, waitMs=100)["exited"] is False
    assert client.write("p", b"\n", "w") == "accepted"
    client.wait_closed("p")
    assert client.wait_exit("p")["exitCode"] == 6
    client.check_seq("p")


def test_a_terminal_closes_with_its_leader(client, marked):
    began = time.monotonic()
    client.start("p", ["/bin/sh", "-c", "(trap '' HUP; exec sleep 60) & echo early"], env=marked.env, tty=True)
    client.wait_closed("p", 10)
    assert time.monotonic() - began < 50, "the other one sleeps for sixty seconds"
    assert client.output("p") == b"early\r\n"
    client.check_seq("p")
    assert terminate(client, "p") is False


@pytest.mark.parametrize("size", [1, 4095, 4096, 65536, 200_000])
@BOTH
def test_what_was_written_before_the_exit_arrives(client, size, tty):
    out, _, code = client.run(["/bin/sh", "-c", f"[ -t 1 ] && stty raw; head -c {size} /dev/zero; exit 9"], tty=tty)
    assert (len(out), code) == (size, 9)


# terminate


def test_terminate_of_nobody(client):
    assert client.call("process/terminate", {"processId": "nope"}) == {"running": False}
    err = client.error("process/terminate", {})
    assert (err.code, err.message) == (-32602, "missing field `processId`")
    assert client.error("process/terminate", {"processId": 5}).code == -32602


@BOTH
def test_terminate_kills_at_once_and_without_grace(client, tty):
    client.start("p", ["/bin/sh", "-c", "trap 'echo term; exit 9' TERM INT HUP; echo up; while :; do sleep 0.05; done"],
                 tty=tty)
    client.wait_output("p", b"up")
    assert terminate(client, "p") is True
    assert client.wait_exit("p")["exitCode"] == 137
    client.wait_closed("p")
    client.check_seq("p")
    assert terminate(client, "p") is False
    result = client.read("p")
    assert (result["exited"], result["exitCode"], result["closed"]) == (True, 137, True)
    assert b"term" not in client.output("p")


def test_terminate_does_not_end_stdin_before_the_process(client):
    for n in range(20):
        client.start(f"p{n}", ["/bin/sh", "-c", "echo up; cat; echo saw-the-end; exit 0"], pipeStdin=True)
        client.wait_output(f"p{n}", b"up\n")
        assert terminate(client, f"p{n}") is True
        client.wait_closed(f"p{n}")
        assert (client.output(f"p{n}"), client.wait_exit(f"p{n}")["exitCode"]) == (b"up\n", 137)


TREES = {
    "group": "sleep 60 & sleep 60 & wait",
    "session": "setsid sleep 60 & setsid sleep 60 & wait",
    "orphan": "setsid sh -c 'sleep 60 & sleep 60 & exit 0'; setsid sleep 61",
    "deaf": "trap '' TERM HUP INT QUIT; sleep 60 & sleep 60",
    "stopped": "sleep 60 & setsid sleep 60 & kill -STOP $!; sleep 60",
    "daemon": "setsid sh -c '(setsid sleep 60 >/dev/null 2>&1 </dev/null &) ; exit 0'; sleep 60",
}


@BOTH
@pytest.mark.parametrize("tree", TREES)
def test_terminate_ends_the_whole_tree(client, marked, tree, tty):
    client.start("p", ["/bin/sh", "-c", f"{TREES[tree]}"], env=marked.env, tty=tty)
    wait_until(lambda: len(marked.pids()) >= 2, 10, "the tree")
    assert terminate(client, "p") is True
    client.wait_closed("p")
    assert client.wait_exit("p")["exitCode"] == 137
    marked.wait_gone()
    client.check_seq("p")


def test_terminate_ends_a_large_and_growing_tree(client, marked):
    grow = ("for i in $(seq 60); do setsid sh -c 'sleep 60 & sleep 60 & wait' & (setsid sleep 60 &) ; done; "
            "while :; do setsid sleep 60 & sleep 0.002; done")
    client.start("p", ["/bin/bash", "-c", grow], env=marked.env)
    wait_until(lambda: len(marked.pids()) >= 200, 40, "two hundred processes")
    assert terminate(client, "p") is True
    client.wait_closed("p", 40)
    marked.wait_gone(40)


def test_terminate_of_a_stopped_process(client):
    pid = client.start("p", ["/bin/sleep", "60"])["pid"]
    os.kill(pid, signal.SIGSTOP)
    assert terminate(client, "p") is True
    assert client.wait_exit("p")["exitCode"] == 137


@BOTH
def test_output_written_before_terminate_is_kept(client, tmp, tty):
    size = 50_000
    script = f"[ -t 1 ] && stty raw; head -c {size} /dev/zero; : > written; sleep 60"
    client.start("p", ["/bin/sh", "-c", script], cwd=f"file://{tmp}", tty=tty)
    wait_until(lambda: os.path.exists(f"{tmp}/written"), 10, "the output")
    assert terminate(client, "p") is True
    client.wait_closed("p")
    assert client.output("p") == bytes(size)
    client.check_seq("p")


def test_terminate_while_the_child_floods(client):
    client.start("p", ["/usr/bin/yes"])
    client.wait_output("p", b"y\n")
    assert terminate(client, "p") is True
    client.wait_closed("p", 20)
    client.check_seq("p")
    assert client.wait_exit("p")["exitCode"] == 137


def test_terminate_many_times_at_once(client):
    client.start("p", ["/bin/sleep", "60"])
    requests = [client.request("process/terminate", {"processId": "p"}) for _ in range(50)]
    answers = [client.result(r)["running"] for r in requests]
    assert answers[0] is True
    client.wait_closed("p")
    client.check_seq("p")
    assert terminate(client, "p") is False


def test_terminate_races_with_the_exit(client):
    for n in range(60):
        client.start(f"p{n}", ["/bin/sh", "-c", "echo x; exit 3"])
        running = terminate(client, f"p{n}")
        client.wait_closed(f"p{n}")
        client.check_seq(f"p{n}")
        code = client.wait_exit(f"p{n}")["exitCode"]
        assert code in ((3, 137) if running else (3,))


def test_terminate_spares_other_processes(client, marked):
    client.start("p", ["/bin/sleep", "60"], env=marked.env)
    client.start("q", ["/bin/sleep", "60"], env=marked.env)
    assert terminate(client, "p") is True
    client.wait_closed("p")
    assert client.read("q")["exited"] is False
    marked.wait_count(1)


# Left behind


@pytest.mark.parametrize("script", ["sleep 60 & exit 0", "setsid sleep 60 & exit 0",
                                    "(setsid sleep 60 >/dev/null 2>&1 </dev/null &); exit 0"],
                         ids=["background", "session", "daemon"])
def test_terminate_of_an_exited_process_kills_nobody(client, marked, script):
    client.start("p", ["/bin/sh", "-c", script], env=marked.env)
    client.wait_exit("p")
    (pid,) = marked.wait_count(1)
    for _ in range(3):
        assert terminate(client, "p") is False
        assert interrupt(client, "p") == {}
    assert client.run(["/bin/echo", "x"])[0] == b"x\n"
    assert pid_alive(pid)


def test_a_terminal_leaves_running_what_does_not_hang_up(client, marked):
    client.run(["/bin/sh", "-c", "trap '' HUP; setsid sleep 60 & exit 0"], process_id="p", env=marked.env, tty=True)
    (pid,) = marked.wait_count(1)
    assert terminate(client, "p") is False
    client.run(["/bin/true"])
    assert pid_alive(pid)


@BOTH
def test_what_is_left_behind_ends_with_the_session(marked, tty):
    config = "detached_session_ttl_ms = 200\nshutdown_grace_period_ms = 50\n"
    with Server(config=config) as server, server.connect() as other:
        with server.connect() as client:
            leave = "trap '' HUP TERM; setsid sleep 60 & (setsid sleep 60 &) ; sleep 60 & exit 0"
            client.start("p", ["/bin/sh", "-c", leave], env=marked.env, tty=tty)
            client.wait_exit("p")
            client.start("q", ["/bin/sleep", "60"], env=marked.env, tty=tty)
            wait_until(lambda: len(marked.pids()) >= 4, 10, "the tree")
        marked.wait_gone()
        assert other.run(["/bin/echo", "still here"])[0] == b"still here\n"


def test_what_is_left_behind_outlives_the_retention_of_its_process(marked):
    with Server(config="exited_process_retention_ms = 50\n") as server, server.connect() as client:
        client.run(["/bin/sh", "-c", "setsid sleep 60 >/dev/null 2>&1 & exit 0"], process_id="p", env=marked.env)
        wait_until(lambda: "error" in client.response(client.request("process/read", {"processId": "p"})), 10,
                   "end of retention")
        assert len(marked.wait_count(1)) == 1
        client.close()
        assert server.stop() == 0
        marked.wait_gone()


def test_a_detach_time_of_zero_ends_processes_with_the_connection(marked):
    with Server(config="detached_session_ttl_ms = 0\n") as server:
        client = server.connect()
        client.start("p", ["/bin/sleep", "60"], env=marked.env)
        client.start("q", ["/bin/sleep", "60"], env=marked.env, tty=True)
        client.abort()
        marked.wait_gone()


# Signals


@BOTH
def test_interrupt_reaches_the_whole_group(client, tty):
    inner = "trap 'echo inner; exit 0' INT; echo up; while :; do sleep 0.05; done"
    script = f"trap 'echo outer; exit 4' INT; bash -c \"{inner}\"; sleep 60"  # dash may lose a signal while it forks
    client.start("p", ["/bin/bash", "-c", script], tty=tty)
    client.wait_output("p", b"up")
    assert interrupt(client, "p") == {}
    client.wait_closed("p")
    assert b"inner" in client.output("p") and b"outer" in client.output("p")
    assert client.wait_exit("p")["exitCode"] == 4


@BOTH
def test_interrupt_without_a_handler_kills(client, tty):
    client.start("p", ["/bin/sleep", "60"], tty=tty)
    assert interrupt(client, "p") == {}
    assert client.wait_exit("p")["exitCode"] == 130


def test_interrupt_does_not_leave_the_group(client, marked):
    client.start("p", ["/bin/sh", "-c", "setsid sleep 60 & exec sleep 60"], env=marked.env)
    pids = marked.wait_count(2)
    wait_until(lambda: len({os.getsid(p) for p in pids}) == 2, 10, "two sessions")
    assert interrupt(client, "p") == {}
    assert client.wait_exit("p")["exitCode"] == 130
    marked.wait_count(1)


def test_interrupt_of_those_who_are_not_there(client):
    assert interrupt(client, "nope") == {}
    client.run(["/bin/true"], process_id="p")
    assert interrupt(client, "p") == {}


@pytest.mark.parametrize("value", ["bogus", "", "SIGINT", "INTERRUPT", None, True, [], {}], ids=repr)
def test_unknown_signals_are_refused(client, value):
    client.start("p", ["/bin/sleep", "60"])
    err = client.error("process/signal", {"processId": "p", "signal": value})
    assert err.code == -32602
    assert client.error("process/signal", {"processId": "nope", "signal": value}).code == -32602
    assert client.read("p")["exited"] is False


def test_members_of_signal(client):
    err = client.error("process/signal", {"signal": "interrupt"})
    assert (err.code, err.message) == (-32602, "missing field `processId`")
    err = client.error("process/signal", {"processId": "p"})
    assert (err.code, err.message) == (-32602, "missing field `signal`")


# Nothing survives the server


SURVIVORS = ["sleep 60", "setsid sleep 60 & sleep 60",
             "trap '' HUP; (setsid sleep 60 >/dev/null 2>&1 </dev/null &); exit 0",
             "trap '' TERM HUP INT; sleep 60 & while :; do sleep 1; done", "kill -STOP $$"]


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_end_of_the_server_ends_every_tree(marked, sig):
    with Server() as server:
        helpers = None
        client = server.connect()
        for n, (script, tty) in enumerate(itertools.product(SURVIVORS, (False, True))):
            client.start(f"p{n}", ["/bin/sh", "-c", script], env=marked.env, tty=tty)
        with server.connect() as gone:
            gone.start("detached", ["/bin/sleep", "60"], env=marked.env)
        wait_until(lambda: len(marked.pids()) >= 14, 10, "all processes")
        helpers = descendants(server.pid)
        code = server.stop(sig)
        assert code == (-signal.SIGKILL if sig == signal.SIGKILL else 0)
        marked.wait_gone()
        for pid in helpers:
            pid_gone(pid)
        client.abort()


def test_a_server_killed_at_any_moment_leaves_nothing(marked):
    rng = random.Random(7)
    for _ in range(12):
        with Server() as server:
            client = server.connect()
            for n in range(12):
                params = {"processId": f"p{n}", "argv": ["/bin/sh", "-c", "setsid sleep 60 & sleep 60"], "cwd": "/tmp",
                          "env": marked.env, "tty": n % 2 == 0}
                client.request("process/start", params)
            client.flush()
            deadline = time.monotonic() + rng.uniform(0, 0.03)
            while time.monotonic() < deadline:
                pass
            server.stop(signal.SIGKILL)
            client.abort()
        marked.wait_gone()


def test_no_zombies_stay(server, client):
    for n in range(20):
        client.run(["/bin/sh", "-c", "sleep 0 & sleep 0 & (sleep 0 &) ; exit 0"], tty=n % 2 == 0)

    def zombies():
        found = []
        for pid in descendants(server.pid):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="latin-1") as f:
                if f.read().rpartition(")")[2].split()[0] == "Z":
                    found.append(pid)
        return found

    wait_until(lambda: not zombies(), 10, "reaping")


def test_nothing_is_left_of_finished_commands(server):
    with server.connect() as client:
        client.run(["/bin/true"])
        before = len(descendants(server.pid))
        for _ in range(30):
            client.run(["/bin/true"])
        wait_until(lambda: len(descendants(server.pid)) <= before, 10, "end of the helpers of finished commands")
