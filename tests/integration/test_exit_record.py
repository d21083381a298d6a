"""The exit record: how a process ended, who wanted it, what it used; in every place where it is told."""

import os
import resource
import signal
import time

import pytest

from farhand_client import PATIENCE, Client, RpcError, Server, pid_gone, wait_until

PATH = {"PATH": "/usr/bin:/bin"}
RECORD = {"signal", "coreDumped", "reason", "usage"}
LOOP = "while :; do sleep 0.02; done"


def sh(script):
    return ["/bin/bash", "-c", script]


def terminate(client, process_id, **params):
    return client.call("process/terminate", {"processId": process_id, **params})


def record_of(client, process_id, timeout=10):
    """The record as (signal, coreDumped, reason), checked to be the same wherever it is told."""
    client.wait_closed(process_id, timeout)
    places = [client.wait_exit(process_id), client.read(process_id),
              client.call("process/wait", {"processId": process_id, "until": "exited"}),
              client.call("process/list", {"processId": process_id})["processes"][0]]
    records = [{name: place[name] for name in RECORD} for place in places]
    assert all(r == records[0] for r in records)
    record = records[0]
    assert isinstance(record["coreDumped"], bool)
    assert set(record["usage"]) == {"userMs", "systemMs", "maxRssBytes"}
    assert all(isinstance(n, int) and n >= 0 for n in record["usage"].values())
    return record["signal"], record["coreDumped"], record["reason"]


# What is told, and where


def test_nothing_is_told_of_a_process_that_runs(client):
    client.start("p", sh("echo x; sleep 60"))
    client.wait_output("p", b"x")
    assert not RECORD & set(client.read("p"))
    assert not RECORD & set(client.call("process/wait", {"processId": "p", "waitMs": 0}))
    assert not RECORD & set(client.call("process/list", {"processId": "p"})["processes"][0])
    terminate(client, "p")
    client.wait_closed("p")


def test_a_record_is_there_with_the_exit_not_with_the_close(client):
    client.start("p", sh("sleep 60 & exit 2"))
    client.wait_exit("p")
    result = client.read("p")
    assert (result["exited"], result["closed"]) == (True, False)
    assert (result["signal"], result["reason"]) == (None, "exited")
    assert client.call("process/list", {"processId": "p"})["processes"][0]["reason"] == "exited"


def test_only_the_exit_carries_it(client):
    client.run(sh("echo x"), process_id="p")
    for message in client.events("p"):
        assert bool(RECORD & set(message["params"])) == (message["method"] == "process/exited")


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "tty"])
def test_an_exit(client, tty):
    for code in (0, 1, 137, 255):
        client.start(f"p{code}", sh(f"exit {code}"), tty=tty)
        assert record_of(client, f"p{code}") == (None, False, "exited")
        assert client.wait_exit(f"p{code}")["exitCode"] == code


@pytest.mark.parametrize("name", ["HUP", "INT", "KILL", "USR1", "PIPE", "TERM", "SEGV", "ABRT", "XCPU"])
def test_a_signal_of_its_own(client, name):
    client.start("p", sh(f"ulimit -c 0; kill -{name} $$; sleep 60"))
    assert record_of(client, "p") == (f"SIG{name}", False, "signalled")


def test_a_real_time_signal_has_a_number(client):
    client.start("p", sh("kill -64 $$; sleep 60"))
    assert record_of(client, "p") == ("SIG64", False, "signalled")


def test_a_signal_from_a_client_is_no_terminate(client):
    client.start("p", ["sleep", "60"])
    client.call("process/signal", {"processId": "p", "signal": "kill"})
    assert record_of(client, "p") == ("SIGKILL", False, "signalled")
    client.start("q", sh(f"trap 'exit 3' USR1; echo up; {LOOP}"))
    client.wait_output("q", b"up")
    client.call("process/signal", {"processId": "q", "signal": "user1", "scope": "process"})
    assert record_of(client, "q") == (None, False, "exited")


# Terminated


def test_force(client):
    client.start("p", ["sleep", "60"])
    terminate(client, "p")
    assert record_of(client, "p") == ("SIGKILL", False, "terminated")


def test_graceful_obeyed_ignored_and_answered_with_an_exit(client):
    # Only the process that ignores SIGTERM waits for the end of its time; the others may be slow to obey.
    for process_id, script, want, ms in (("a", f"echo up; {LOOP}", "SIGTERM", 60000),
                                         ("b", f"trap '' TERM; echo up; {LOOP}", "SIGKILL", 200),
                                         ("c", f"trap 'exit 5' TERM; echo up; {LOOP}", None, 60000)):
        client.start(process_id, sh(script))
        client.wait_output(process_id, b"up")
        terminate(client, process_id, mode={"type": "graceful", "timeoutMs": ms})
        assert record_of(client, process_id) == (want, False, "terminated")


def test_the_first_reason_is_the_reason(client):
    for ms in (250, 1000, 4000, 16000):
        began = time.monotonic()
        client.start(f"p{ms}", sh(f"trap '' TERM; echo up; {LOOP}"), limits={"wallMs": ms})
        client.wait_output(f"p{ms}", b"up")
        terminate(client, f"p{ms}", mode={"type": "graceful", "timeoutMs": ms + 1000})  # the limit comes meanwhile
        if time.monotonic() - began < ms / 1000:
            break  # on a busy machine the limit may come first
        client.wait_closed(f"p{ms}")
    assert record_of(client, f"p{ms}", 60) == ("SIGKILL", False, "terminated")


def test_terminate_of_an_exited_process_changes_nothing(client):
    client.run(["false"], process_id="p")
    assert terminate(client, "p")["running"] is False
    assert record_of(client, "p") == (None, False, "exited")


def test_a_lost_keeper_leaves_a_record_without_a_status(client):
    pid = client.start("p", ["sleep", "60"])["pid"]
    with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
        os.kill(int(f.read().rpartition(")")[2].split()[1]), signal.SIGKILL)
    client.wait_closed("p")
    exited = client.wait_exit("p")
    assert exited["exitCode"] == -1
    assert (exited["signal"], exited["coreDumped"]) == (None, False)
    assert exited["usage"] == {"userMs": 0, "systemMs": 0, "maxRssBytes": 0}
    pid_gone(pid)


# Ends that the server decides


def test_the_end_of_the_server_is_a_reason():
    # A process that ignores SIGTERM has a server of its own, so that the others have as much time as they need to obey.
    for grace_ms, ends in ((60000, [("obeys", "", 143, "SIGTERM"), ("exits", "trap 'exit 6' TERM; ", 6, None)]),
                           (400, [("ignores", "trap '' TERM; ", 137, "SIGKILL")])):
        with Server(config=f"shutdown_grace_period_ms = {grace_ms}\n") as s, s.connect() as c:
            for process_id, trap, _, _ in ends:
                c.start(process_id, sh(f"{trap}echo up; {LOOP}"))
                c.wait_output(process_id, b"up")
            c.run(["false"], process_id="before")
            s.proc.send_signal(signal.SIGTERM)
            for process_id, _, code, name in ends:
                exited = c.wait_exit(process_id)
                assert (exited["exitCode"], exited["signal"], exited["reason"]) == (code, name, "serverShutdown")
            assert c.wait_exit("before")["reason"] == "exited"
            assert s.wait() == 0


def listed(client, session_id):
    found = client.call("process/list", {"scope": "server"})["processes"]
    return [p for p in found if p["sessionId"] == session_id]


def test_the_end_of_a_session_is_a_reason_that_others_may_see():
    # A long grace period gives time for the check: the first process ends at SIGTERM, and its child keeps the tree alive.
    with Server(config="shutdown_grace_period_ms = 4000\n") as s, s.connect() as watcher:
        with s.connect(init_params={"detachMs": 0}) as c:
            c.start("p", sh(f"setsid bash -c 'trap \"\" TERM; echo up; {LOOP}' & {LOOP}"))
            c.wait_output("p", b"up")
            session_id = c.session_id[:13]  # as others see it
            child = [p["pid"] for p in listed(watcher, session_id)][0]
        seen = wait_until(lambda: listed(watcher, session_id) == [] or [
            p for p in listed(watcher, session_id) if not p["running"]], 10, "the end of the session")
        if seen is not True:
            assert (seen[0]["signal"], seen[0]["reason"]) == ("SIGTERM", "sessionEnd")
        pid_gone(child)
        wait_until(lambda: not listed(watcher, session_id), 10, "the session to be forgotten")


# What it used


def test_usage_is_plausible(client):
    client.start("busy", ["/usr/bin/python3", "-c",
                          "import time\nx = b'x' * 50_000_000\nend = time.process_time() + 0.3\n"
                          "while time.process_time() < end: pass"])
    client.start("idle", ["true"])
    client.wait_closed("busy", 30)
    client.wait_closed("idle")
    busy, idle = client.wait_exit("busy")["usage"], client.wait_exit("idle")["usage"]
    assert 250 <= busy["userMs"] + busy["systemMs"] < 5000
    assert 50_000_000 < busy["maxRssBytes"] < 500_000_000
    assert idle["userMs"] + idle["systemMs"] < 250
    assert 0 < idle["maxRssBytes"] < 50_000_000


def test_system_time_is_counted_apart(client):
    client.start("p", ["dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=6000"])
    client.wait_closed("p", 30)
    usage = client.wait_exit("p")["usage"]
    assert usage["systemMs"] > usage["userMs"]


def test_usage_counts_what_the_root_waited_for(client):
    client.start("p", sh("/usr/bin/python3 -c 'import time\nend = time.process_time() + 0.3\n"
                         "while time.process_time() < end: pass'; exit 0"))
    client.wait_closed("p", 30)
    usage = client.wait_exit("p")["usage"]
    assert usage["userMs"] + usage["systemMs"] >= 250


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_CORE)[1] == 0, reason="no core may be written here")
def test_a_core_is_told_where_one_can_be_written(client, tmp):
    with open("/proc/sys/kernel/core_pattern", encoding="latin-1") as f:
        pattern = f.read().strip()
    if pattern.startswith(("|", "/")):
        pytest.skip(f"cores go to {pattern}")
    client.start("p", sh("ulimit -c unlimited; kill -SEGV $$; sleep 60"), cwd=f"file://{tmp}")
    client.start("q", sh("ulimit -c 0; kill -SEGV $$; sleep 60"), cwd=f"file://{tmp}")
    assert record_of(client, "p") == ("SIGSEGV", True, "signalled")
    assert record_of(client, "q") == ("SIGSEGV", False, "signalled")


def test_a_record_survives_the_connection(server):
    with Client(server.url) as c:
        c.start("p", ["sleep", "60"])
        terminate(c, "p")
        c.wait_closed("p")
        session_id = c.session_id

    def attach():
        try:
            return Client(server.url, resume=session_id)
        except RpcError as e:
            assert e.code == -32010
            return None

    with wait_until(attach, what="the session to be free") as again:
        result = again.read("p")
        assert (result["signal"], result["reason"]) == ("SIGKILL", "terminated")
        before = time.monotonic()
        assert again.call("process/wait", {"processId": "p"})["reason"] == "terminated"
        assert time.monotonic() - before < 5 * PATIENCE
