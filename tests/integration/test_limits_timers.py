"""wallMs and silenceMs of process/start: what is said of them, when they end the tree, and how that is told."""

import os
import time

import pytest

from farhand_client import PATIENCE, Client, RpcError, Server, pid_gone, wait_until

PATH = {"PATH": "/usr/bin:/bin"}
LOOP = "while :; do sleep 0.02; done"


def sh(script):
    return ["/bin/bash", "-c", script]


def start(client, process_id, script, **limits):
    return client.start(process_id, sh(script), limits=limits)


def end_of(client, process_id):
    """(exitCode, signal, reason) after the close."""
    client.wait_closed(process_id)
    client.check_seq(process_id)
    exited = client.wait_exit(process_id)
    return exited["exitCode"], exited["signal"], exited["reason"]


@pytest.fixture(scope="module")
def server():
    """A server whose grace period is long: a process that obeys SIGTERM is never killed before it has handled it."""
    with Server(config="shutdown_grace_period_ms = 60000\n") as s:
        yield s


@pytest.fixture(scope="module")
def quick():
    """A server with a grace period that tests can wait for, and in which a process can say something."""
    with Server(config="shutdown_grace_period_ms = 1500\n") as s:
        yield s


@pytest.fixture
def quick_client(quick):
    with Client(quick.url) as c:
        yield c
        assert not c.bad


def in_time(attempt, ms):
    """attempt(ms), and again with a longer limit while it returns None: the process did not get ready before its limit came."""
    for _ in range(4):
        result = attempt(ms)
        if result is not None:
            return result
        ms *= 5
    raise AssertionError(f"not ready within {ms // 5} ms")


# Values that are accepted and refused


def test_the_answer_says_how_each_is_enforced(client):
    assert start(client, "a", "exit 0", wallMs=60000)["limits"] == {"wallMs": "timer"}
    assert start(client, "b", "exit 0", silenceMs=60000)["limits"] == {"silenceMs": "timer"}
    assert start(client, "c", "exit 0", wallMs=1 << 62, silenceMs=1 << 62)["limits"] == {"wallMs": "timer",
                                                                                       "silenceMs": "timer"}
    for process_id in "abc":
        assert end_of(client, process_id) == (0, None, "exited")


def test_without_limits_nothing_is_said(client):
    assert "limits" not in client.start("a", ["true"])
    assert "limits" not in client.start("b", ["true"], limits=None)


@pytest.mark.parametrize("limits", [{"wallMs": 0}, {"silenceMs": 0}, {"wallMs": -1}, {"wallMs": 1.5}, {"wallMs": "1"},
                                    {"silenceMs": 1 << 63}, {"wallMs": True}, 5, [], "1"])
def test_limits_that_are_refused(client, limits):
    e = client.error("process/start", {"processId": "p", "argv": ["true"], "cwd": "file:///tmp", "env": PATH,
                                       "tty": False, "limits": limits})
    assert e.code == -32602
    if isinstance(limits, dict):
        assert list(limits)[0] in e.message
    client.start("p", ["true"])  # the id is free


# wallMs


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "tty"])
def test_the_wall_ends_a_process_that_obeys(client, tty):
    before = time.monotonic()
    client.start("p", ["sleep", "60"], tty=tty, limits={"wallMs": 200})
    assert end_of(client, "p") == (143, "SIGTERM", "wallLimit")
    assert 0.19 <= time.monotonic() - before < 5 * PATIENCE


def test_the_wall_does_not_care_for_output(client):
    def attempt(ms):
        start(client, f"p{ms}", "while :; do echo x; sleep 0.02; done", wallMs=ms)
        assert end_of(client, f"p{ms}")[2] == "wallLimit"
        return client.output(f"p{ms}") or None

    assert in_time(attempt, 200).startswith(b"x\n")


def test_whoever_ignores_the_wall_is_killed_after_the_grace_period(quick_client):
    c = quick_client

    def attempt(ms):
        before = time.monotonic()
        start(c, f"p{ms}", f"trap 'echo heard' TERM; echo ready; {LOOP}", wallMs=ms)
        end = end_of(c, f"p{ms}")
        if not c.output(f"p{ms}", "stdout"):
            return None
        assert time.monotonic() - before >= (ms + 1500) / 1000 - 0.01
        return end, c.output(f"p{ms}", "stdout")

    # What it says in the grace period is heard.
    assert in_time(attempt, 200) == ((137, "SIGKILL", "wallLimit"), b"ready\nheard\n")


def test_a_process_may_end_itself_in_the_grace_period(client):
    def attempt(ms):
        start(client, f"p{ms}", f"trap 'echo bye; exit 9' TERM; echo ready; {LOOP}", wallMs=ms)
        end = end_of(client, f"p{ms}")
        return (end, client.output(f"p{ms}", "stdout")) if client.output(f"p{ms}", "stdout") else None

    assert in_time(attempt, 200) == ((9, None, "wallLimit"), b"ready\nbye\n")


def test_the_wall_ends_the_whole_tree(quick_client):
    """The end of wallMs also ends processes in sessions of their own, processes that ignore SIGTERM and stopped processes."""
    c = quick_client

    def attempt(ms):
        start(c, f"p{ms}", f"setsid sleep 61 & echo $!; setsid bash -c \"trap '' TERM; echo \\$\\$; {LOOP}\" & "
                           f"setsid bash -c 'echo $$; kill -STOP $$' & {LOOP}", wallMs=ms)
        end = end_of(c, f"p{ms}")
        pids = [int(word) for word in c.output(f"p{ms}", "stdout").split()]
        for pid in pids:
            pid_gone(pid)
        return end[1:] if len(pids) == 3 else None

    assert in_time(attempt, 400) == ("SIGTERM", "wallLimit")


def test_who_is_done_in_time_is_not_touched(client):
    start(client, "p", "sleep 0.1; echo done", wallMs=60000, silenceMs=60000)
    assert end_of(client, "p") == (0, None, "exited")
    assert client.output("p") == b"done\n"


def test_a_stopped_process_ends_as_well(client):
    start(client, "p", "kill -STOP $$; echo woken; sleep 60", wallMs=200)
    assert end_of(client, "p")[::2] == (143, "wallLimit")


def test_the_wall_goes_on_while_nobody_is_attached(server):
    with Client(server.url) as c:
        pid = c.start("p", ["sleep", "60"], limits={"wallMs": 300})["pid"]
        session_id = c.session_id
    pid_gone(pid)

    def attach():
        try:
            return Client(server.url, resume=session_id)
        except RpcError as e:
            assert e.code == -32010
            return None

    with wait_until(attach, what="the session to be free") as again:
        assert again.call("process/wait", {"processId": "p"})["reason"] == "wallLimit"


# silenceMs


def test_silence_ends_a_process(client):
    before = time.monotonic()
    start(client, "p", "sleep 60", silenceMs=200)
    assert end_of(client, "p") == (143, "SIGTERM", "silenceLimit")
    assert 0.19 <= time.monotonic() - before < 5 * PATIENCE


def test_silence_is_counted_from_the_last_output(client):
    def attempt(ms):
        # Together the pauses are longer than the limit, each alone is much shorter.
        start(client, f"p{ms}", f"for i in 1 2 3 4 5 6; do echo $i; sleep {ms / 3500}; done; sleep 60", silenceMs=ms)
        assert end_of(client, f"p{ms}") == (143, "SIGTERM", "silenceLimit")
        return True if client.output(f"p{ms}") == b"1\n2\n3\n4\n5\n6\n" else None

    assert in_time(attempt, 350)


@pytest.mark.parametrize("where", [">&1", ">&2"])
def test_any_stream_breaks_the_silence(client, where):
    def attempt(ms):
        start(client, f"p{ms}", f"for i in 1 2 3 4 5 6 7 8; do sleep {ms / 5000}; echo x {where}; done", silenceMs=ms)
        end = end_of(client, f"p{ms}")
        return None if end[2] == "silenceLimit" else end

    assert in_time(attempt, 400) == (0, None, "exited")


def test_input_does_not_break_the_silence(client):
    client.start("p", sh("cat >/dev/null"), pipeStdin=True, limits={"silenceMs": 300})
    deadline = time.monotonic() + 20 * PATIENCE
    status = "accepted"
    while status == "accepted" and time.monotonic() < deadline:
        status = client.write("p", b"x", f"{time.monotonic()}")
        client.call("process/wait", {"processId": "p", "waitMs": 20})
    assert end_of(client, "p")[2] == "silenceLimit"


def test_silence_kills_who_does_not_listen_and_the_whole_tree(quick_client):
    c = quick_client

    def attempt(ms):
        start(c, f"p{ms}", f"trap '' TERM; setsid sleep 61 & echo $!; {LOOP}", silenceMs=ms)
        end = end_of(c, f"p{ms}")
        if not c.output(f"p{ms}", "stdout"):
            return None
        pid_gone(int(c.output(f"p{ms}", "stdout")))
        return end

    assert in_time(attempt, 250) == (137, "SIGKILL", "silenceLimit")


def test_whichever_comes_first(client):
    start(client, "a", "sleep 60", silenceMs=150, wallMs=60000)
    start(client, "b", "sleep 60", silenceMs=60000, wallMs=150)
    assert end_of(client, "a")[2] == "silenceLimit"
    assert end_of(client, "b")[2] == "wallLimit"


def test_a_process_is_not_silent_because_its_reader_is_slow(server):
    """Output that waits in a pipe because the client does not read counts as output, so that the process is not silent."""
    with Client(server.url) as c:
        pid = c.start("p", sh("head -c 100000000 /dev/zero; echo; echo done; sleep 60"), limits={"silenceMs": 2500})["pid"]
        c.wait_output("p", lambda data: len(data) > 0)
        c.pause_reading()
        time.sleep(4)  # longer than the limit, while the child is held back
        c.resume_reading()
        c.wait_closed("p", 30)
        assert c.output("p").endswith(b"\ndone\n")  # all output of the process came
        assert c.wait_exit("p")["reason"] == "silenceLimit"  # now the process is silent
        pid_gone(pid)


def test_with_no_grace_period_a_limit_kills_at_once():
    with Server(config="shutdown_grace_period_ms = 0\n") as s, s.connect() as c:
        def attempt(ms):
            start(c, f"p{ms}", f"trap 'echo heard' TERM; setsid sleep 61 & echo $!; {LOOP}", wallMs=ms)
            assert end_of(c, f"p{ms}") == (137, "SIGKILL", "wallLimit")
            return c.output(f"p{ms}", "stdout") or None

        said = in_time(attempt, 200)
        assert said == b"%d\n" % int(said)
        pid_gone(int(said))


def test_many_limits_at_once(client):
    for i in range(30):
        start(client, f"p{i}", "sleep 60", wallMs=100 + 10 * i)
    for i in range(30):
        assert end_of(client, f"p{i}")[2] == "wallLimit"
    assert not any(os.path.exists(f"/proc/{p['pid']}") for p in client.call("process/list")["processes"] if p["running"])
