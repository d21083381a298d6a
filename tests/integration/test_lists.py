"""process/list and session/list: what runs, whose it is, and who may see it."""

import time

import pytest

from farhand_client import Client, RpcError, Server, wait_until

PATH = {"PATH": "/usr/bin:/bin"}
MEMBERS = {"processId", "argv", "cwd", "tty", "pid", "startedAtMs", "running", "closed", "exitCode", "lastOutputAtMs",
           "retainedBytes", "droppedBytes", "nextSeq", "sandboxType", "sandboxDenied"}
RECORD = {"signal", "coreDumped", "reason", "usage"}
SESSION = {"sessionId", "clientName", "attached", "createdAtMs", "expiresAtMs", "processes"}


def processes(client, **params):
    return client.call("process/list", params)["processes"]


def one(client, process_id, **params):
    found = processes(client, processId=process_id, **params)
    assert len(found) == 1
    return found[0]


def sessions(client):
    return client.call("session/list", {})["sessions"]


def short(client):
    """The part of a client's session id that lists show to other clients (test_session_owners)."""
    return client.session_id[:13]


def now_ms():
    return time.time() * 1000


def terminate(client, process_id):
    client.call("process/terminate", {"processId": process_id})
    client.wait_closed(process_id)


# process/list


def test_a_running_process(client):
    before = now_ms()
    pid = client.start("p", ["/bin/sh", "-c", "printf abc; read x"], pipeStdin=True, cwd="file:///usr/bin")["pid"]
    client.wait_output("p", b"abc")
    p = one(client, "p")
    assert set(p) == MEMBERS
    assert (p["processId"], p["pid"], p["tty"], p["sandboxType"]) == ("p", pid, False, "none")
    assert (p["argv"], p["cwd"]) == (["/bin/sh", "-c", "printf abc; read x"], "file:///usr/bin")
    assert (p["running"], p["closed"], p["exitCode"]) == (True, False, None)
    assert (p["retainedBytes"], p["droppedBytes"], p["nextSeq"]) == (3, 0, 2)
    assert before - 2 <= p["startedAtMs"] <= p["lastOutputAtMs"] <= now_ms() + 2
    terminate(client, "p")


def test_an_ended_process_has_its_record(client):
    client.run(["/bin/sh", "-c", "echo x; exit 4"], process_id="p")
    p = one(client, "p")
    assert set(p) == MEMBERS | RECORD
    assert (p["running"], p["closed"], p["exitCode"], p["nextSeq"]) == (False, True, 4, 4)
    assert (p["signal"], p["reason"]) == (None, "exited")


def test_between_exit_and_close(client):
    client.start("p", ["/bin/sh", "-c", "sleep 60 & exit 0"])
    client.wait_exit("p")
    p = one(client, "p")
    assert (p["running"], p["closed"], p["exitCode"]) == (False, False, 0)


def test_a_silent_process_has_no_time_of_output(client):
    client.start("p", ["sleep", "60"], tty=True)
    p = one(client, "p")
    assert p["lastOutputAtMs"] is None
    assert (p["tty"], p["retainedBytes"], p["nextSeq"]) == (True, 0, 1)
    terminate(client, "p")


def test_the_order_is_that_of_the_starts(client):
    names = ["z", "a", "m", "", "b", "é", "0"] + [f"n{i}" for i in range(40, 0, -1)]
    for name in names:
        client.start(name, ["true"])
    assert [p["processId"] for p in processes(client)] == names
    assert [p["startedAtMs"] for p in processes(client)] == sorted(p["startedAtMs"] for p in processes(client))


def test_starts_that_were_sent_together_keep_their_order(client):
    names = [f"q{i}" for i in (5, 3, 9, 1, 7, 2)]
    starts = [client.request("process/start", {"processId": name, "argv": ["sleep", "60"], "cwd": "file:///tmp",
                                               "env": PATH, "tty": False}) for name in names]
    listed = processes(client)  # also of those that are still starting
    assert [p["processId"] for p in listed] == names
    assert all(p["running"] for p in listed)
    for p in listed:
        assert (p["pid"] is None) == (p["startedAtMs"] is None)
    for start in starts:
        client.result(start)
    for name in names:
        terminate(client, name)


def test_params_may_be_left_out(client):
    client.run(["true"], process_id="p")
    assert client.call("process/list") == client.call("process/list", {}) == {"processes": processes(client)}
    assert [p["processId"] for p in processes(client, scope="session")] == ["p"]


def test_one_by_its_id(client):
    for name in ("a", "b"):
        client.run(["true"], process_id=name)
    assert one(client, "b")["processId"] == "b"
    assert processes(client, processId="c") == []
    assert processes(client, processId="") == []


def test_lists_that_are_refused(client):
    for params in ({"processId": 5}, {"scope": "all"}, {"scope": 1}, [], "x", 5):
        assert client.error("process/list", params).code == -32602


def test_a_start_that_failed_is_not_listed(client):
    client.error("process/start", {"processId": "p", "argv": ["/no/such"], "cwd": "file:///tmp", "env": PATH,
                                   "tty": False})
    assert processes(client) == []


def test_a_long_command_line_is_cut(client):
    client.run(["true", "x" * 100000, "y"], process_id="long")
    client.run(["true"] + ["é\n\x01\"" * 50] * 40, process_id="odd")
    client.run(["true"] + [""] * 5000, process_id="many")
    for name in ("long", "odd", "many"):
        argv = one(client, name)["argv"]
        assert argv[0] == "true"
        assert sum(len(a.encode()) for a in argv) <= 1100
        assert len(argv) <= 1100
    assert one(client, "odd")["argv"][1] == "é\n\x01\"" * 50


def test_dropped_bytes_are_counted():
    cap = 65536
    with Server(config=f"retained_output_bytes_per_process = {cap}\noutput_chunk_bytes = 4096\n") as s, s.connect() as c:
        c.run(["head", "-c", "1000000", "/dev/zero"], process_id="p")
        p = one(c, "p")
        assert p["retainedBytes"] + p["droppedBytes"] == 1000000
        assert cap - 4096 <= p["retainedBytes"] <= cap


def test_a_forgotten_process_is_not_listed():
    with Server(config="exited_process_retention_ms = 100\n") as s, s.connect() as c:
        c.run(["true"], process_id="p")
        wait_until(lambda: processes(c) == [], what="the end of the retention")


# Scope


def test_sessions_do_not_see_each_other_unless_they_ask(server):
    with Client(server.url) as a, Client(server.url) as b:
        a.start("p", ["sleep", "60"])
        b.start("p", ["sleep", "61"])
        assert [p["argv"][1] for p in processes(a)] == ["60"]
        assert [p["argv"][1] for p in processes(b)] == ["61"]
        assert "sessionId" not in one(a, "p")
        seen = {p["sessionId"]: p for p in processes(a, scope="server", processId="p")
                if p["sessionId"] in (a.session_id, short(b))}
        assert set(seen) == {a.session_id, short(b)}
        assert set(seen[short(b)]) == MEMBERS | {"sessionId"}
        assert seen[short(b)]["argv"] == ["sleep", "61"]
        terminate(a, "p")
        terminate(b, "p")


def test_the_order_over_all_sessions_is_that_of_the_starts_as_well():
    with Server() as s:
        clients = [s.connect() for _ in range(5)]
        want = []
        for i in range(15):
            c = clients[i * 3 % 5]
            c.start(f"p{i}", ["sleep", "60"])
            want.append((c.session_id if c is clients[0] else short(c), f"p{i}"))
        assert [(p["sessionId"], p["processId"]) for p in processes(clients[0], scope="server")] == want
        for c in clients:
            c.abort()


# session/list


def test_sessions_and_their_members(server):
    before = now_ms()
    with Client(server.url, name="Ann \"é\"") as a, Client(server.url, name="") as b:
        b.start("x", ["true"])
        b.start("y", ["sleep", "60"])
        found = {s["sessionId"]: s for s in sessions(a)}
        assert all(set(s) == SESSION for s in found.values())
        mine, other = found[a.session_id], found[short(b)]
        assert (mine["clientName"], mine["attached"], mine["expiresAtMs"], mine["processes"]) == ("Ann \"é\"", True, None, 0)
        assert (other["clientName"], other["processes"]) == ("", 2)
        assert before - 2 <= mine["createdAtMs"] <= now_ms() + 2
        terminate(b, "y")


def test_a_detached_session_tells_when_it_ends(server):
    with Client(server.url, init_params={"detachMs": 20000}) as a:
        session_id = a.session_id
    with Client(server.url) as b:
        def detached():
            return [s for s in sessions(b) if s["sessionId"] == short(a) and not s["attached"]]
        s = wait_until(detached, what="the detach")[0]
        assert now_ms() + 10000 < s["expiresAtMs"] < now_ms() + 20500
        with Client(server.url, resume=session_id):
            s = [s for s in sessions(b) if s["sessionId"] == short(a)][0]
            assert (s["attached"], s["expiresAtMs"]) == (True, None)


def test_an_ended_session_is_not_listed(server):
    with Client(server.url, init_params={"detachMs": 0}) as a:
        pass
    with Client(server.url) as b:
        wait_until(lambda: short(a) not in [s["sessionId"] for s in sessions(b)], what="the end of the session")


def test_session_list_params(client):
    for params in (None, {}, {"later": 1}):
        assert client.session_id in [s["sessionId"] for s in client.call("session/list", params)["sessions"]]
    for params in ([], 5, "x"):
        assert client.error("session/list", params).code == -32602


# The option of the server that allows scope "server"


@pytest.fixture(scope="module")
def closed_server():
    with Server(config="allow_server_scope = false\n") as s:
        yield s


def test_the_server_scope_can_be_switched_off(closed_server):
    with Client(closed_server.url) as c:
        c.run(["true"], process_id="p")
        for method, params in (("process/list", {"scope": "server"}), ("process/list", {"scope": "server", "processId": "p"}),
                               ("session/list", {}), ("session/list", None)):
            e = c.error(method, params)
            assert (e.code, e.message) == (-32600, "server scope is disabled")
        assert [p["processId"] for p in processes(c)] == ["p"]  # one's own may be seen
        assert [p["processId"] for p in processes(c, scope="session")] == ["p"]


def test_a_resumed_session_lists_what_it_had(server):
    with Client(server.url) as a:
        a.start("p", ["sleep", "60"])
        session_id, before = a.session_id, one(a, "p")

    def attach():
        try:
            return Client(server.url, resume=session_id)
        except RpcError as e:
            assert e.code == -32010
            return None

    with wait_until(attach, what="the session to be free") as b:
        assert one(b, "p") == before
        terminate(b, "p")
