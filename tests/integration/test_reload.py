"""SIGHUP: tokens and the changeable part of the configuration are read again, and no session ends. SIGUSR1 does nothing."""

import os
import pty
import resource
import signal
import socket
import subprocess

import pytest

from farhand_client import BIN, PATIENCE, Client, HttpRefused, RpcError, Server, Stdio, is_idle, wait_until

AGAIN = "configuration read again"
KEPT = "configuration kept"


class Live:
    """A server whose configuration and token file lie in `tmp`."""

    def __init__(self, tmp, text="", token=None, args=(), **kw):
        self.path, self.token_path = os.path.join(tmp, "farhand.toml"), os.path.join(tmp, "token")
        self.write(text)
        if token:
            self.set_token(token)
            args = [*args, "--ws-auth", "capability-token", "--ws-token-file", self.token_path]
        self.server = Server(["--config", self.path, "--log-level", "info", *args], **kw)

    def write(self, text):
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(text)

    def set_token(self, token):
        with open(self.token_path, "w", encoding="utf-8", opener=lambda p, flags: os.open(p, flags, 0o600)) as f:
            f.write(token + "\n")

    def hang_up(self, said=AGAIN):
        """Sends SIGHUP. Returns the line of the log with the result."""
        before = self.server.stderr().count(said)
        os.kill(self.server.pid, signal.SIGHUP)
        wait_until(lambda: self.server.stderr().count(said) > before, 10, said)
        return [line for line in self.server.stderr().splitlines() if said in line][-1]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.server.stop()


def client(live, token):
    return Client(live.server.url, headers={"Authorization": f"Bearer {token}"})


def test_a_new_token_is_taken_and_an_old_one_refused(tmp):
    with Live(tmp, token="one-one-one") as live, client(live, "one-one-one") as old:
        old.start("p1", ["cat"], pipeStdin=True)
        live.set_token("two-two-two")
        live.hang_up()
        with pytest.raises(HttpRefused) as refused:
            client(live, "one-one-one")
        assert refused.value.status == 401
        with client(live, "two-two-two") as new:
            assert new.call("environment/status") == {"status": "ready"}
        # Connections and their processes go on.
        assert old.write("p1", b"hello\n") == "accepted"
        old.wait_output("p1", b"hello\n")


def sessions_of(c):
    return {s["sessionId"] for s in c.call("session/list", {})["sessions"]}


def test_whose_a_session_is_does_not_depend_on_the_order_of_the_tokens(tmp):
    """The identity of a client depends neither on the line of its token nor on the number of tokens: no client inherits a
    session."""
    with Live(tmp, token="ann-ann-ann\nbob-bob-bob") as live, client(live, "ann-ann-ann") as ann, \
         client(live, "bob-bob-bob") as bob:
        for tokens in ("bob-bob-bob\nann-ann-ann", "eve-eve-eve\nbob-bob-bob\nann-ann-ann", "eve-eve-eve\nbob-bob-bob", "eve-eve-eve",
                       "bob-bob-bob\nann-ann-ann\neve-eve-eve"):
            live.set_token(tokens)
            live.hang_up()
            for token in tokens.split("\n"):
                with client(live, token) as later:
                    own = {"ann-ann-ann": ann.session_id, "bob-bob-bob": bob.session_id}.get(token)
                    seen = {i for i in sessions_of(later) for s in (ann, bob) if s.session_id.startswith(i[:13])}
                    assert seen == ({own} if own else set()), (tokens, token)
                    other = bob.session_id if own == ann.session_id else ann.session_id
                with Client(live.server.url, headers={"Authorization": f"Bearer {token}"}, init=False) as thief:
                    e = thief.error("initialize", {"clientName": "x", "resumeSessionId": other, "takeover": True})
                    assert (e.code, e.data["reason"]) == (-32600, "unknown"), (tokens, token)
        assert ann.call("environment/status") == bob.call("environment/status") == {"status": "ready"}


def test_a_secret_that_nobody_writes_stops_nobody(tmp):
    """The token file has become a FIFO without a writer. A thread reads it: the loop goes on, and the server can be ended."""
    with Live(tmp, token="one-one-one") as live, client(live, "one-one-one") as c:
        os.unlink(live.token_path)
        os.mkfifo(live.token_path, 0o600)
        os.kill(live.server.pid, signal.SIGHUP)
        for n in range(20):
            assert c.run(["echo", str(n)], timeout=20)[0] == b"%d\n" % n
            with client(live, "one-one-one") as other:
                assert other.call("environment/status", timeout=20) == {"status": "ready"}
        assert live.server.stop(timeout=20) == 0


def test_limits_and_permissions_change_for_what_comes(tmp):
    with Live(tmp, "detached_session_ttl_ms = 1000\nallow_direct_exec = false\n") as live, Client(live.server.url) as before:
        assert before.init_result["detachMs"] == 1000
        with pytest.raises(RpcError):
            before.run(["true"])
        live.write("detached_session_ttl_ms = 2000\n")
        live.hang_up()
        assert before.run(["echo", "ran"])[0] == b"ran\n"
        with Client(live.server.url) as after:
            assert after.init_result["detachMs"] == 2000


def test_pings_that_are_switched_off_stop(tmp):
    """Connections that exist already get no more pings, neither at the old interval nor without a pause."""
    with Live(tmp, "ping_interval_ms = 50\n") as live, Client(live.server.url) as c:
        c.wait_ping(2)
        live.write("ping_interval_ms = 0\n")
        live.hang_up()
        c.call("environment/status")
        count = len(c.pings)
        wait_until(lambda: is_idle(live.server.pid, 1), 30, "an idle server")
        assert len(c.pings) - count <= 1
        assert c.call("environment/status") == {"status": "ready"}


def test_flags_still_win(tmp):
    with Live(tmp) as live:
        live.write('log_level = "off"\n')
        live.hang_up()
        live.hang_up()  # the reload is logged again, because the level of the flag holds


@pytest.mark.parametrize("text, why", [
    ("max_sessions = 0\n", "line 1: `max_sessions` must be between 1 and 1048576"),
    ("nonsense\n", "line 1"),
    ('ws_auth = "capability-token"\n', "ws-token-file"),
], ids=["range", "syntax", "check"])
def test_a_configuration_with_an_error_changes_nothing(tmp, text, why):
    with Live(tmp, "detached_session_ttl_ms = 1000\n") as live:
        live.write(text + "detached_session_ttl_ms = 2000\n")
        line = live.hang_up(KEPT)
        assert " error " in line and why in line, line
        with Client(live.server.url) as c:
            assert c.init_result["detachMs"] == 1000


def test_a_token_file_that_is_gone_changes_nothing(tmp):
    with Live(tmp, token="one-one-one") as live:
        os.unlink(live.token_path)
        assert "token" in live.hang_up(KEPT)
        with client(live, "one-one-one") as c:
            assert c.call("environment/status") == {"status": "ready"}


@pytest.mark.parametrize("key, value", [("listen", '"ws://127.0.0.1:1"'), ("max_message_bytes", "65536"),
                                        ("output_chunk_bytes", "4096"), ("retained_output_bytes_per_process", "4096"),
                                        ("sandbox_backend", '"landlock"')])
def test_what_cannot_change_is_named_and_stays(tmp, key, value):
    with Live(tmp, listen=None) as live, Client(live.server.url) as before:
        live.write(f"{key} = {value}\ndetached_session_ttl_ms = 2000\n")
        live.hang_up()
        assert f"needs a restart key={key}\n" in live.server.stderr()
        with Client(live.server.url) as after:
            assert after.init_result["detachMs"] == 2000
            assert after.init_result.get("limits") == before.init_result.get("limits")
            assert after.run(["echo", "x" * 70000])[0] == b"x" * 70000 + b"\n"


def test_authentication_cannot_be_dropped_by_an_address_that_is_not_taken(tmp):
    """The new address in the file is loopback, which needs no authentication, but the server still listens on the old one."""
    digest = "0" * 64
    auth = f'ws_auth = "capability-token"\nws_token_sha256 = "{digest}"\n'
    with Live(tmp, 'listen = "ws://0.0.0.0:0"\n' + auth, listen=None) as live:
        live.write('listen = "ws://127.0.0.1:0"\n')
        assert "without authentication" in live.hang_up(KEPT)
        with pytest.raises(HttpRefused) as refused:
            Client(f"ws://127.0.0.1:{live.server.port}")
        assert refused.value.status == 401


def test_many_signals_at_once(tmp):
    with Live(tmp) as live:
        for i in range(200):
            live.write(f"detached_session_ttl_ms = {1000 + i}\n")
            os.kill(live.server.pid, signal.SIGHUP)

        def newest():
            with Client(live.server.url) as c:
                return c.init_result["detachMs"] == 1199

        wait_until(newest, 10, "the newest configuration")


@pytest.mark.parametrize("signo", [signal.SIGUSR1, signal.SIGUSR2])
def test_user_signals_do_no_harm_also_to_the_whole_group(signo):
    with Server(start_new_session=True) as s, Client(s.url) as c:
        c.start("p1", ["cat"], pipeStdin=True)
        os.kill(s.pid, signo)
        os.killpg(s.pid, signo)
        assert c.write("p1", b"hello\n") == "accepted"
        c.wait_output("p1", b"hello\n")
        assert c.run(["echo", "ran"])[0] == b"ran\n"


def test_on_stdio_too():
    with Stdio(["--log-level", "info"]) as c:
        c.initialize()
        os.kill(c.proc.pid, signal.SIGHUP)
        wait_until(lambda: AGAIN in c.stderr(), 10, AGAIN)
        assert c.call(1, "environment/status")["result"] == {"status": "ready"}


def on_terminal(tmp):
    master, slave = pty.openpty()
    log = open(os.path.join(tmp, "log"), "wb")

    def begin():
        os.setsid()
        os.close(os.open(os.ttyname(slave), os.O_RDWR))  # becomes the controlling terminal of this session leader

    proc = subprocess.Popen([BIN, "serve", "--listen", f"unix:{tmp}/sock", "--log-level", "info"], stdin=slave, stdout=slave,
                            stderr=log, preexec_fn=begin)
    os.close(slave)
    os.read(master, 100)
    log.close()
    return proc, master


def test_the_end_of_its_terminal_ends_it(tmp):
    """Closing the window of a server in the foreground must not leave it running."""
    proc, master = on_terminal(tmp)
    try:
        os.close(master)
        assert proc.wait(10 * PATIENCE) == 0
    finally:
        proc.kill()
        proc.wait()


def test_a_terminal_that_cannot_be_looked_at_for_want_of_descriptors_is_there(tmp):
    proc, master = on_terminal(tmp)
    try:
        limits = resource.prlimit(proc.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(proc.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        proc.send_signal(signal.SIGHUP)

        def said():
            with open(os.path.join(tmp, "log"), encoding="utf-8") as f:
                return AGAIN in f.read()

        wait_until(lambda: said() or proc.poll() is not None, 10, AGAIN)
        assert proc.poll() is None and said()
        resource.prlimit(proc.pid, resource.RLIMIT_NOFILE, limits)
    finally:
        proc.terminate()
        assert proc.wait(10 * PATIENCE) == 0
        os.close(master)


def test_on_a_terminal_that_is_there_the_signal_means_read_again(tmp):
    proc, master = on_terminal(tmp)
    try:
        proc.send_signal(signal.SIGHUP)

        def said():
            with open(os.path.join(tmp, "log"), encoding="utf-8") as f:
                return AGAIN in f.read()

        wait_until(said, 10, AGAIN)
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(f"{tmp}/sock")
    finally:
        proc.terminate()
        assert proc.wait(10 * PATIENCE) == 0
        os.close(master)
