"""The configuration file: what it may say, what is refused and where, and that flags win."""

import base64
import os

import pytest

from farhand_client import Client, Closed, HttpRefused, RpcError, Server, run_serve, wait_until

LOOPBACK = "ws://127.0.0.1:0"


def refused(tmp, text, args=(), listen=LOOPBACK):
    """A configuration that must stop the start; returns stderr."""
    path = os.path.join(tmp, "farhand.toml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    done = run_serve(["--config", path, *args], listen)
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert done.stdout == ""
    return done.stderr


def ready(server, **kw):
    with Client(server.url, **kw) as c:
        assert c.call("environment/status") == {"status": "ready"}
        return c.init_result


def test_an_empty_file_changes_nothing():
    with Server(config="# nothing\n\n") as s:
        assert ready(s)["detachMs"] == 30000


ALL_KEYS = """
listen = "ws://127.0.0.1:0"
shutdown_grace_period_ms = 500
max_message_bytes = 134217728
max_processes_per_session = 1024
max_finished_processes_per_session = 4096
retained_output_bytes_per_process = 1048576
retained_output_bytes_total = 1073741824
allow_server_scope = true
allow_direct_exec = true
allow_prepared_exec = true
detached_session_ttl_ms = 30000
max_detached_session_ttl_ms = 86400000
exited_process_retention_ms = 30000
max_connections = 16384
max_sessions = 16384
output_chunk_bytes = 65536
ping_interval_ms = 20000
pong_timeout_ms = 60000
tcp_user_timeout_ms = 20000
log_level = "info"
log_format = "text"
"""


def test_every_documented_key_is_known():
    with Server(config=ALL_KEYS, listen=None) as s:
        assert s.url.startswith("ws://127.0.0.1:")
        ready(s)


def test_listen_comes_from_the_file(tmp):
    with Server(config=f'listen = "unix:{tmp}/sock"\n', listen=None) as s:
        assert s.url == f"unix:{tmp}/sock"
        ready(s)


def test_flags_win(tmp):
    with Server(config=f'listen = "unix:{tmp}/sock"\n') as s:
        assert s.url.startswith("ws://127.0.0.1:")
        assert not os.path.exists(f"{tmp}/sock")


def test_authentication_from_the_file(tmp):
    with open(f"{tmp}/token", "w", encoding="ascii") as f:
        f.write("sesame\n")
    with Server(config=f'ws_auth = "capability-token"\nws_token_file = "{tmp}/token"\n') as s:
        with pytest.raises(HttpRefused) as caught:
            Client(s.url)
        assert caught.value.status == 401
        ready(s, headers={"Authorization": "Bearer sesame"})


def test_an_unknown_key_is_refused_with_its_line(tmp):
    err = refused(tmp, '# comment\nlog_level = "info"\nno_such_key = 1\n')
    assert "no_such_key" in err
    assert "3" in err.replace("no_such_key", "")


def test_an_unknown_table_is_refused(tmp):
    assert "server" in refused(tmp, "[server]\nlisten = \"stdio\"\n")


@pytest.mark.parametrize("line,key", [
    ('max_message_bytes = "big"', "max_message_bytes"),
    ("max_message_bytes = 1.5", "max_message_bytes"),
    ("max_message_bytes = true", "max_message_bytes"),
    ("allow_server_scope = 1", "allow_server_scope"),
    ('allow_server_scope = "yes"', "allow_server_scope"),
    ("listen = 5", "listen"),
    ('listen = ["stdio"]', "listen"),
    ("log_level = 3", "log_level"),
    ("detached_session_ttl_ms = [1]", "detached_session_ttl_ms"),
])
def test_a_wrong_type_is_refused(tmp, line, key):
    err = refused(tmp, f"\n\n{line}\n")
    assert key in err
    assert "3" in err


@pytest.mark.parametrize("line,key", [
    ("detached_session_ttl_ms = -1", "detached_session_ttl_ms"),
    ("max_message_bytes = -5", "max_message_bytes"),
    ("max_message_bytes = 0", "max_message_bytes"),
    ("max_sessions = 99999999999999999999", "line 1"),
    ('log_level = "loud"', "log_level"),
    ('log_format = "xml"', "log_format"),
    ('ws_auth = "password"', "ws_auth"),
])
def test_a_value_out_of_range_is_refused(tmp, line, key):
    err = refused(tmp, line + "\n")
    assert key in err


@pytest.mark.parametrize("text", ["max_sessions =\n", "= 5\n", "max_sessions = 1 2\n", 'listen = "open\n', "[x\n",
                                  "max_sessions = 1\nmax_sessions = 2\n", "max_sessions: 5\n", "\x00\n",
                                  "listen = '''\nabc\n", "max_sessions = 1\rx"])
def test_bad_syntax_is_refused_with_its_place(tmp, text):
    err = refused(tmp, text)
    assert any(ch.isdigit() for ch in err)


def test_a_missing_file_is_refused(tmp):
    done = run_serve(["--config", f"{tmp}/none"])
    assert done.returncode == 1
    assert f"{tmp}/none" in done.stderr


def test_an_unsafe_listener_from_the_file_is_refused(tmp):
    assert "--insecure-no-auth" in refused(tmp, 'listen = "ws://0.0.0.0:0"\n', listen=None)


def test_values_with_toml_spellings():
    with Server(config="max_processes_per_session = 1_000 # a comment\n'detached_session_ttl_ms' = 0x10\n") as s:
        result = ready(s)
        assert result["limits"]["maxProcessesPerSession"] == 1000
        assert result["detachMs"] == 16


# What the keys do


def test_max_processes_per_session():
    with Server(config="max_processes_per_session = 2\n") as s, Client(s.url) as c, Client(s.url) as other:
        assert c.init_result["limits"]["maxProcessesPerSession"] == 2
        c.start("a", ["sleep", "1000"])
        c.start("b", ["sleep", "1000"])
        with pytest.raises(RpcError) as caught:
            c.start("c", ["sleep", "1000"])
        assert caught.value.code == -32021
        assert caught.value.data["limit"] == "max_processes_per_session"
        assert caught.value.data["value"] == 2
        other.start("a", ["sleep", "1000"])


def test_retained_output_bytes_per_process():
    with Server(config="retained_output_bytes_per_process = 100000\n") as s, Client(s.url) as c:
        assert c.init_result["limits"]["retainedOutputBytesPerProcess"] == 100000
        c.start("p", ["head", "-c", "1000000", "/dev/zero"])
        c.wait_closed("p")
        assert len(c.output("p")) == 1000000
        kept = sum(len(base64.b64decode(ch["chunk"])) for ch in c.read("p")["chunks"])
        assert 100000 - 65536 <= kept <= 100000


def test_output_chunk_bytes():
    with Server(config="output_chunk_bytes = 4096\n") as s, Client(s.url) as c:
        c.start("p", ["head", "-c", "100000", "/dev/zero"])
        c.wait_closed("p")
        sizes = [len(base64.b64decode(m["params"]["chunk"])) for m in c.events("p") if m["method"] == "process/output"]
        assert sum(sizes) == 100000
        assert max(sizes) <= 4096


def test_exited_process_retention_ms():
    with Server(config="exited_process_retention_ms = 200\n") as s, Client(s.url) as c:
        c.run(["true"], process_id="p")

        def forgotten():
            message = c.response(c.request("process/read", {"processId": "p"}))
            return message.get("error", {}).get("message") == "unknown process id p"

        wait_until(forgotten, timeout=20, what="end of retention")
        assert c.run(["echo", "again"], process_id="p")[2] == 0


def test_max_sessions():
    with Server(config="max_sessions = 2\ndetached_session_ttl_ms = 0\n") as s:
        with Client(s.url) as a, Client(s.url) as b, Client(s.url, init=False) as c:
            error = c.error("initialize", {"clientName": "third"})
            assert error.code == -32021
            assert error.data["limit"] == "max_sessions"
            assert a.call("environment/status") == b.call("environment/status") == {"status": "ready"}
            a.close()

            def room():
                message = c.response(c.request("initialize", {"clientName": "third"}))
                return "result" in message

            wait_until(room, timeout=20, what="room for a session")


def detached(server):
    """Makes a session and closes its connection. Returns the id of the session."""
    with Client(server.url) as c:
        pass
    return c.session_id


def shown(session_id):
    """The part of a session id that session/list shows to other sessions."""
    return session_id[:13]


def test_at_max_sessions_the_longest_detached_one_makes_room():
    with Server(config="max_sessions = 4\n") as s, Client(s.url) as watcher:
        def detached_ones():
            return [x["sessionId"] for x in watcher.call("session/list")["sessions"] if not x["attached"]]

        left = []
        for _ in range(3):
            left.append(detached(s))
            wait_until(lambda: sorted(detached_ones()) == sorted(map(shown, left)), what="detached sessions")
        with Client(s.url, resume=left[0]):  # resumed and detached again: now this session is the youngest
            pass
        wait_until(lambda: sorted(detached_ones()) == sorted(map(shown, left)), what="detached sessions")
        with Client(s.url):
            assert sorted(detached_ones()) == sorted(map(shown, [left[2], left[0]]))
            with Client(s.url, init=False) as c:
                error = c.error("initialize", {"clientName": "x", "resumeSessionId": left[1]})
                assert error.data["reason"] == "expired"


@pytest.mark.parametrize("script", ["exec sleep 1000", "sleep 1000 </dev/null >/dev/null 2>&1 &"], ids=["runs", "left"])
def test_at_max_sessions_no_session_with_a_running_process_makes_room(script):
    with Server(config="max_sessions = 3\nexited_process_retention_ms = 0\n") as s, Client(s.url) as watcher:
        with Client(s.url) as c:
            c.start("p", ["sh", "-c", "echo; " + script])
            c.wait_output("p", b"\n")
        busy = c.session_id
        idle = detached(s)
        wait_until(lambda: sum(not x["attached"] for x in watcher.call("session/list")["sessions"]) == 2, what="detached sessions")
        with Client(s.url), Client(s.url, init=False) as third:
            sessions = {x["sessionId"] for x in watcher.call("session/list")["sessions"]}
            assert shown(busy) in sessions and shown(idle) not in sessions
            error = third.error("initialize", {"clientName": "third"})
            assert (error.code, error.data["limit"]) == (-32021, "max_sessions")
            with Client(s.url, resume=busy) as again:
                assert again.session_id == busy


def test_quick_connections_lock_nobody_out():
    with Server(config="max_sessions = 16\n") as s:
        for _ in range(200):
            with Client(s.url) as c:
                assert c.call("environment/status") == {"status": "ready"}


def connects(server):
    try:
        Client(server.url).abort()
        return True
    except (HttpRefused, Closed, OSError, EOFError):
        return False


def test_max_connections():
    with Server(config="max_connections = 2\n") as s, Client(s.url) as a, Client(s.url) as b:
        assert not connects(s)
        assert a.call("environment/status") == b.call("environment/status") == {"status": "ready"}
        a.close()
        wait_until(lambda: connects(s), timeout=20, what="room for a connection")
