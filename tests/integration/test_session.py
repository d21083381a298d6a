"""Sessions: they outlive their connection, are resumed, taken over, expire; a half-dead connection gives way."""

import base64
import os
import signal
import time
import uuid

import pytest

from farhand_client import PATIENCE, Client, Closed, RpcError, Server, pid_alive, pid_gone, wait_until

ECHO = ["sh", "-c", "while IFS= read -r l; do echo got:$l; done"]


def resume_error(server, session, **params):
    with Client(server.url, init=False) as c:
        return c.error("initialize", {"clientName": "x", "resumeSessionId": session, **params})


def resume_when_free(server, session, timeout=10, **kw):
    """Resumes a session as real clients do: repeats after -32010 (at once; real clients wait 100 ms)."""
    def attempt():
        try:
            return Client(server.url, resume=session, **kw)
        except RpcError as e:
            assert e.code == -32010
            return None
    return wait_until(attempt, timeout, "resume")


def lost(client):
    """Drops the connection; returns its session id."""
    client.abort()
    return client.session_id


def child_pid(client, process_id, argv=None):
    """Starts a process that prints its pid first."""
    client.start(process_id, argv or ["sh", "-c", "echo $$; exec sleep 1000"])
    return int(client.wait_output(process_id, b"\n"))


class Gate:
    """A FIFO on which a child waits: the test decides when the child goes on."""

    def __init__(self, directory, name="gate"):
        self.path = os.path.join(directory, name)
        os.mkfifo(self.path)

    def open(self, line="go"):
        # Opening for writing waits for the reader, so the child has arrived; bounded by the open of both ends.
        fd = wait_until(self._try_open, what=f"reader of {self.path}")
        os.write(fd, f"{line}\n".encode())
        os.close(fd)

    def _try_open(self):
        try:
            return os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return None


# Ids


def test_an_unknown_session_is_refused(server, client):
    session = client.init_result["serverId"][:8] + str(uuid.uuid4())[8:]
    error = resume_error(server, session)
    assert (error.code, error.message) == (-32600, f"unknown session id {session}")
    assert error.data["reason"] == "unknown"


@pytest.mark.parametrize("session", ["no-such", "", "x" * 1000, "00000000-0000-4000-8000-000000000000", "\"\\\n\x01"],
                         ids=["word", "empty", "long", "foreign", "control"])
def test_strange_session_ids_are_unknown(server, session):
    error = resume_error(server, session)
    assert (error.code, error.message) == (-32600, f"unknown session id {session}")
    assert error.data["reason"] in ("unknown", "otherServer")


def test_a_session_id_with_a_nul_is_unknown(server):
    # The text of the error ends at the NUL; programs use code and reason.
    error = resume_error(server, "a\0b")
    assert (error.code, error.message, error.data["reason"]) == (-32600, "unknown session id a", "unknown")


def test_a_session_of_another_server_is_told_apart(server):
    with Server() as other, Client(other.url) as c:
        error = resume_error(server, c.session_id)
    assert (error.code, error.message) == (-32600, f"unknown session id {c.session_id}")
    assert error.data["reason"] == "otherServer"


def test_a_session_of_a_former_life_is_told_apart():
    with Server() as s, Client(s.url) as c:
        session, port = c.session_id, s.port
        s.stop(signal.SIGKILL)
    with Server(listen=f"ws://127.0.0.1:{port}") as s:
        assert resume_error(s, session).data["reason"] == "otherServer"


def test_session_ids_are_not_repeated(server):
    seen = set()
    for _ in range(20):
        with Client(server.url) as c:
            seen.add(c.session_id)
    assert len(seen) == 20


# Resume


@pytest.mark.parametrize("how", ["close", "abort", "reset", "violation"])
def test_a_session_survives_any_end_of_its_connection(server, how):
    c = Client(server.url)
    pid = child_pid(c, "p")
    if how == "close":
        c.close()
    elif how == "violation":
        c.send_json({"id": 99, "result": {}})
        c.closed_code()
    else:
        c.abort(reset=how == "reset")
    with resume_when_free(server, c.session_id) as d:
        assert d.session_id == c.session_id
        assert pid_alive(pid)
        assert d.call("process/terminate", {"processId": "p"}) == {"running": True}
        pid_gone(pid)


def test_the_client_name_need_not_match(server):
    with Client(server.url, name="one") as c:
        session = lost(c)
    resume_when_free(server, session).abort()
    with resume_when_free(server, session, name="two") as d:
        assert d.session_id == session


def test_the_result_of_a_resume_is_as_of_an_initialize(server):
    with Client(server.url) as c:
        session = lost(c)
    with resume_when_free(server, session) as d:
        assert set(d.init_result) >= {"sessionId", "environmentInfo", "serverId", "detachMs", "limits"}
        assert d.init_result["serverId"] == c.init_result["serverId"]


def test_a_new_session_does_not_see_the_process(server):
    with Client(server.url) as c, Client(server.url) as other:
        c.start("bg", ["sleep", "1000"])
        error = other.error("process/read", {"processId": "bg"})
        assert (error.code, error.message) == (-32600, "unknown process id bg")
        assert other.call("process/terminate", {"processId": "bg"}) == {"running": False}
        assert other.write("bg", b"x", "w") == "unknownProcess"
        assert c.read("bg")["exited"] is False


def test_notifications_flow_again_after_a_resume(server):
    with Client(server.url) as c:
        c.start("p", ECHO, pipeStdin=True)
        c.write("p", b"one\n", "1")
        c.wait_output("p", b"got:one\n")
        session = lost(c)
    with resume_when_free(server, session) as d:
        d.write("p", b"two\n", "2")
        assert d.wait_output("p", b"got:two\n") == b"got:two\n"
        assert d.events("p")[0]["params"]["seq"] == 2
        d.call("process/terminate", {"processId": "p"})
        d.wait_closed("p")
        assert [m["params"]["seq"] for m in d.events("p")] == [2, 3, 4]


def test_notifications_flow_before_initialized(server, tmp):
    gate = Gate(tmp)
    with Client(server.url) as c:
        c.start("p", ["sh", "-c", f"echo up; read l < {gate.path}; echo after:$l"])
        c.wait_output("p", b"up\n")
        session = lost(c)
    with Client(server.url, init=False) as d:
        def attempt():
            try:
                return d.initialize(resume=session, send_initialized=False)
            except RpcError as e:
                assert e.code == -32010
                return None
        wait_until(attempt, what="resume")
        gate.open()
        d.wait_closed("p")
        assert d.output("p") == b"after:go\n"
        assert d.error("process/read", {"processId": "p"}).message == \
            "client must send initialized before using exec methods"


def test_output_of_the_detached_time_is_replayed_by_read(server, tmp):
    gate = Gate(tmp)
    marker = os.path.join(tmp, "written")
    with Client(server.url) as c:
        c.start("p", ["sh", "-c", f"echo one; read l < {gate.path}; echo two; echo err >&2; : > {marker}; exit 7"])
        c.wait_output("p", b"one\n")
        last_seen = c.events("p")[-1]["params"]["seq"]
        session = lost(c)
    gate.open()
    wait_until(lambda: os.path.exists(marker), what="detached output")
    with resume_when_free(server, session) as d:
        seen = {}

        def replayed():
            read = d.read("p", afterSeq=last_seen, maxBytes=None, waitMs=0)
            seen.update({ch["seq"]: ch for ch in read["chunks"]})
            return read if read["closed"] else None

        read = wait_until(replayed, what="close of the process")
        assert read["exited"] is True and read["exitCode"] == 7 and read["failure"] is None
        # Each number is one chunk, or the exit, or the close: no holes.
        assert read["nextSeq"] == last_seen + len(seen) + 3
        data = {s: b"".join(base64.b64decode(seen[n]["chunk"]) for n in sorted(seen) if seen[n]["stream"] == s)
                for s in ("stdout", "stderr")}
        assert data == {"stdout": b"two\n", "stderr": b"err\n"}
        everything = d.read("p")
        assert everything["chunks"][0]["seq"] == 1


def test_cut_at_random_moments_the_output_is_whole(server):
    """Rebuilds the stream as real clients do: notifications, and after each loss a read from the last seen seq."""
    count = 4000
    script = f"i=0; while [ $i -lt {count} ]; do echo line$i; i=$((i+1)); done"
    c = Client(server.url)
    c.start("p", ["sh", "-c", script])
    chunks = {}
    closed = False
    for cut in range(40):
        try:
            c.wait_for(lambda m: m.get("method") in ("process/output", "process/closed"), timeout=5)
        except (TimeoutError, Closed):
            pass
        session = lost(c)
        for m in c.events("p"):
            if m["method"] == "process/output":
                chunks.setdefault(m["params"]["seq"], m["params"]["chunk"])
        c = resume_when_free(server, session)
        read = c.read("p", afterSeq=max(chunks, default=0), maxBytes=None, waitMs=0)
        for ch in read["chunks"]:
            assert chunks.setdefault(ch["seq"], ch["chunk"]) == ch["chunk"]
        closed = read["closed"]
        if closed:
            break
    if not closed:
        c.wait_closed("p", timeout=20)
        for m in c.events("p"):
            if m["method"] == "process/output":
                assert chunks.setdefault(m["params"]["seq"], m["params"]["chunk"]) == m["params"]["chunk"]
        for ch in c.read("p", afterSeq=max(chunks, default=0))["chunks"]:
            chunks.setdefault(ch["seq"], ch["chunk"])
    c.abort()
    assert sorted(chunks) == list(range(1, len(chunks) + 1))
    whole = b"".join(base64.b64decode(chunks[n]) for n in sorted(chunks))
    assert whole == b"".join(b"line%d\n" % i for i in range(count))


def test_the_memory_of_write_ids_survives(server):
    with Client(server.url) as c:
        c.start("p", ECHO, pipeStdin=True)
        assert c.write("p", b"once\n", "same") == "accepted"
        c.wait_output("p", b"got:once\n")
        session = lost(c)
    with resume_when_free(server, session) as d:
        assert d.write("p", b"once\n", "same") == "accepted"
        assert d.write("p", b"next\n", "other") == "accepted"
        assert d.wait_output("p", b"got:next\n") == b"got:next\n"


def test_the_process_id_stays_taken(server):
    with Client(server.url) as c:
        c.start("p", ["sleep", "1000"])
        session = lost(c)
    with resume_when_free(server, session) as d, pytest.raises(RpcError) as caught:
        d.start("p", ["true"])
    assert (caught.value.code, caught.value.message) == (-32600, "process p already exists")


def test_a_detached_producer_is_not_held_back(server, tmp):
    marker = os.path.join(tmp, "done")
    gate = Gate(tmp)
    with Client(server.url) as c:
        c.start("p", ["sh", "-c", f"read l < {gate.path}; head -c 20000000 /dev/zero; : > {marker}; sleep 1000"])
        session = lost(c)
    gate.open()
    wait_until(lambda: os.path.exists(marker), timeout=20, what="end of the producer")
    with resume_when_free(server, session) as d:
        kept = wait_until(lambda: (lambda r: r if r["nextSeq"] > 1 else None)(d.read("p")), what="retained output")
        size = sum(len(base64.b64decode(ch["chunk"])) for ch in kept["chunks"])
        assert (1 << 20) - 65536 <= size <= 1 << 20


def test_a_connection_lost_during_start_leaves_no_id_starting(server):
    for turn in range(30):
        with Client(server.url) as c:
            c.request("process/start", {"processId": "p", "argv": ["sleep", "1000"], "cwd": "file:///tmp",
                                        "env": {"PATH": "/usr/bin:/bin"}, "tty": bool(turn % 2)})
            c.flush()
            session = lost(c)
        with resume_when_free(server, session) as d:
            def settled():
                message = d.response(d.request("process/read", {"processId": "p"}))
                if "error" in message and message["error"]["message"] == "process id p is starting":
                    return None
                return message
            message = wait_until(settled, what="end of the start")
            if "error" in message:
                assert message["error"]["message"] == "unknown process id p"
                d.start("p", ["true"])
            else:
                assert d.call("process/terminate", {"processId": "p"}) == {"running": True}


def test_a_waiting_request_of_a_lost_connection_does_no_harm(server):
    with Client(server.url) as c:
        c.start("p", ECHO, pipeStdin=True)
        for _ in range(10):
            c.request("process/read", {"processId": "p", "waitMs": 60000})
        c.call("environment/status")
        session = lost(c)
    with resume_when_free(server, session) as d:
        d.write("p", b"x\n", "1")
        d.wait_output("p", b"got:x\n")
        # Nothing of the old connection's requests shows up here.
        assert [m["id"] for m in d.messages if "id" in m] == ["r1", "r2"]


# Attached elsewhere


def test_an_attached_session_is_refused_with_its_own_code(server, client):
    error = resume_error(server, client.session_id)
    assert error.code == -32010
    assert error.message == f"session {client.session_id} is already attached to another connection"
    assert client.call("environment/status") == {"status": "ready"}


def test_a_refused_resume_does_not_burn_the_connection(server, client):
    with Client(server.url, init=False) as d:
        assert d.error("initialize", {"clientName": "x", "resumeSessionId": client.session_id}).code == -32010
        d.initialize()
        assert d.session_id != client.session_id
        assert d.call("environment/status") == {"status": "ready"}


def test_takeover_false_is_no_takeover(server, client):
    assert resume_error(server, client.session_id, takeover=False).code == -32010


def test_a_living_connection_keeps_its_session(server, client):
    # This connection answers the ping, so it stays attached well beyond the 2 s that a dead connection gets.
    deadline = time.monotonic() + 3
    pings = len(client.pings)
    while time.monotonic() < deadline:
        assert resume_error(server, client.session_id).code == -32010
        client.call("environment/status")
    assert len(client.pings) > pings
    assert not client.closed


def test_a_half_dead_connection_gives_way(server):
    with server.raw() as dead:
        session = dead.initialize()["sessionId"]
        dead.rpc(1, "process/start", {"processId": "p", "argv": ["sleep", "1000"], "cwd": "file:///tmp",
                                      "env": {"PATH": "/usr/bin:/bin"}, "tty": False})
        began = time.monotonic()
        assert resume_error(server, session).code == -32010
        fin, opcode, _ = dead.read_frame()
        assert (fin, opcode) == (True, 9)
        # A real client tries for 25 seconds.
        with resume_when_free(server, session, timeout=20) as c:
            assert 1.5 < time.monotonic() - began < 20 * PATIENCE
            assert c.call("process/terminate", {"processId": "p"}) == {"running": True}
            dead.eof()


def test_resume_attempts_do_not_lengthen_the_grace(server):
    # A client that retries every few milliseconds must not restart the 2 s each time.
    with server.raw() as dead:
        session = dead.initialize()["sessionId"]
        resume_when_free(server, session, timeout=20).abort()


# Takeover


def test_takeover(server):
    with Client(server.url) as old:
        old.start("p", ECHO, pipeStdin=True)
        old.write("p", b"one\n", "1")
        old.wait_output("p", b"got:one\n")
        parked = [old.request("process/read", {"processId": "p", "afterSeq": 1, "waitMs": 60000}) for _ in range(3)]
        old.call("environment/status")
        with Client(server.url, resume=old.session_id, init_params={"takeover": True}) as new:
            assert new.session_id == old.session_id
            for ident in parked:
                error = old.response(ident)["error"]
                assert (error["code"], error["message"]) == \
                    (-32600, "session has been resumed by another connection")
            taken = old.wait_for(lambda m: m.get("method") == "session/takenOver")
            assert taken["params"]["sessionId"] == old.session_id
            assert old.closed_code() == 4001
            new.write("p", b"two\n", "2")
            assert new.wait_output("p", b"got:two\n") == b"got:two\n"
            assert old.output("p") == b"got:one\n"


def test_takeover_of_a_detached_session_just_attaches(server):
    with Client(server.url) as c:
        session = lost(c)
    with Client(server.url, resume=session, init_params={"takeover": True}) as d:
        assert d.session_id == session


def test_takeover_of_an_unknown_session(server):
    assert resume_error(server, "no-such", takeover=True).message == "unknown session id no-such"


def test_takeover_of_a_silent_connection_does_not_wait(server):
    seconds = []
    for _ in range(5):  # on a busy machine an answer that waits for nobody may be late now and then
        with server.raw() as dead:
            session = dead.initialize()["sessionId"]
            began = time.monotonic()
            with Client(server.url, resume=session, init_params={"takeover": True}):
                seconds.append(time.monotonic() - began)
                assert dead.read_close() == 4001
        if seconds[-1] < 1.5:
            break
    assert min(seconds) < 1.5


def test_takeovers_in_a_row(server):
    clients = [Client(server.url)]
    clients[0].start("p", ECHO, pipeStdin=True)
    for _ in range(5):
        clients.append(Client(server.url, resume=clients[0].session_id, init_params={"takeover": True}))
        assert clients[-2].closed_code() == 4001
    clients[-1].write("p", b"x\n", "1")
    clients[-1].wait_output("p", b"got:x\n")
    for c in clients:
        c.abort()


# Detach time


def test_the_wanted_detach_time_is_granted(server):
    with Client(server.url, init_params={"detachMs": 12345}) as c:
        assert c.init_result["detachMs"] == 12345


def test_the_granted_detach_time_is_capped():
    with Server(config="max_detached_session_ttl_ms = 500\ndetached_session_ttl_ms = 300\n") as s:
        with Client(s.url) as c:
            assert c.init_result["detachMs"] == 300
        with Client(s.url, init_params={"detachMs": 100000}) as c:
            assert c.init_result["detachMs"] == 500


def test_a_day_is_granted_by_default(server):
    with Client(server.url, init_params={"detachMs": 86400000}) as c:
        assert c.init_result["detachMs"] == 86400000
    with Client(server.url, init_params={"detachMs": 86400001}) as c:
        assert c.init_result["detachMs"] == 86400000


def test_an_expired_session_ends_its_processes_and_is_remembered():
    with Server(config="detached_session_ttl_ms = 300\n") as s:
        with Client(s.url) as c:
            pids = [child_pid(c, "p"), child_pid(c, "q", ["sh", "-c", "setsid sh -c 'echo $$; sleep 1000'; :"])]
            began = time.monotonic()
            session = lost(c)
        for pid in pids:
            pid_gone(pid, timeout=15)
        assert time.monotonic() - began > 0.25
        error = resume_error(s, session)
        assert (error.code, error.message) == (-32600, f"unknown session id {session}")
        assert error.data["reason"] == "expired"


def test_the_wanted_detach_time_is_kept():
    with Server() as s:
        with Client(s.url, init_params={"detachMs": 200}) as c:
            pid = child_pid(c, "p")
            session = lost(c)
        pid_gone(pid, timeout=15)
        assert resume_error(s, session).data["reason"] == "expired"


def test_no_detach_time_ends_processes_with_the_connection():
    with Server(config="detached_session_ttl_ms = 0\nshutdown_grace_period_ms = 0\n") as s:
        with Client(s.url) as c:
            assert c.init_result["detachMs"] == 0
            pid = child_pid(c, "p")
            session = lost(c)
        pid_gone(pid, timeout=15)
        assert resume_error(s, session).code == -32600


def test_a_resume_stops_the_clock():
    with Server(config="detached_session_ttl_ms = 3000\n") as s:
        with Client(s.url) as c:
            pid = child_pid(c, "p")
            session = lost(c)
        with resume_when_free(s, session) as d:
            began = time.monotonic()
            # Longer than the detach time, on an attached session.
            poll = d.request("process/read", {"processId": "p", "afterSeq": 1, "waitMs": 4000})
            assert d.result(poll)["exited"] is False
            assert time.monotonic() - began > 3.5
            assert pid_alive(pid)


@pytest.mark.slow
def test_a_detached_session_lives_30_s():
    with Server() as s:
        with Client(s.url) as c:
            pid = child_pid(c, "p")
            session = lost(c)
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > 27, timeout=40)
        assert pid_alive(pid)
        pid_gone(pid, timeout=7)
        assert 29 < time.monotonic() - began < 33
        assert resume_error(s, session).data["reason"] == "expired"


@pytest.mark.slow
def test_a_session_can_be_resumed_just_before_its_end():
    with Server() as s:
        with Client(s.url) as c:
            pid = child_pid(c, "p")
            session = lost(c)
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > 28, timeout=40)
        with Client(s.url, resume=session) as d:
            assert pid_alive(pid)
            assert d.call("process/terminate", {"processId": "p"}) == {"running": True}
