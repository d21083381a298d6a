"""Command line, start-up and shut-down: what is printed, what is refused, with which words and exit codes."""

import json
import os
import pwd
import re
import signal
import socket
import subprocess
import tempfile

import pytest

from farhand_client import BIN, PATIENCE, Client, RawSocket, Server, merged_env, pid_gone, run_serve


def refused(args=(), listen="ws://127.0.0.1:0", code=1, **kw):
    """A start-up that must fail before it listens; returns stderr."""
    done = run_serve(args, listen, **kw)
    assert done.returncode == code, (done.returncode, done.stderr)
    assert done.stdout == ""
    return done.stderr


# The URL line


def test_the_url_line_names_the_bound_address_and_port(server):
    assert re.fullmatch(r"ws://127\.0\.0\.1:[1-9][0-9]*", server.url)


def test_the_log_names_the_bound_address_and_port():
    with Server(args=["--log-level", "info"]) as s:
        Client(s.url).abort()
        assert f"listening listen={s.url} " in s.stderr()


def test_the_default_listener_is_loopback_with_a_free_port():
    with Server(listen=None) as s:
        assert re.fullmatch(r"ws://127\.0\.0\.1:[1-9][0-9]*", s.url)
        Client(s.url).abort()


def test_a_given_port_is_used():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with Server(listen=f"ws://127.0.0.1:{port}") as s:
        assert s.url == f"ws://127.0.0.1:{port}"
        Client(s.url).abort()


def test_stdout_carries_exactly_one_line():
    with Server() as s:
        with Client(s.url) as c:
            assert c.run(["echo", "to the child's stdout"])[0] == b"to the child's stdout\n"
            c.send_raw("not json")
            c.wait_for(lambda m: m.get("id") == -1)
        s.stop()
        assert s.stdout_rest() == b""


def test_exec_server_is_an_alias_of_serve():
    with subprocess.Popen([BIN, "exec-server", "--listen", "ws://127.0.0.1:0"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as proc:
        try:
            url = proc.stdout.readline().decode().strip()
            with Client(url) as c:
                assert c.call("environment/status") == {"status": "ready"}
        finally:
            proc.kill()


def test_any_loopback_address_is_open():
    with Server(listen="ws://127.0.0.2:0") as s:
        assert s.url.startswith("ws://127.0.0.2:")
        Client(s.url).abort()


def test_ipv6_loopback():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 loopback on this machine")
    with Server(listen="ws://[::1]:0") as s:
        assert re.fullmatch(r"ws://\[::1\]:[1-9][0-9]*", s.url)
        with Client(s.url) as c:
            assert c.call("environment/status") == {"status": "ready"}


# Bad listeners


@pytest.mark.parametrize("url", ["http://x", "wss//127.0.0.1:0", "127.0.0.1:0", "", "tcp://127.0.0.1:1"])
def test_an_unsupported_listen_url_is_refused(url):
    assert f"unsupported --listen URL `{url}`; expected `ws://IP:PORT` or `stdio`" in refused(listen=url)


def test_a_host_name_is_told_to_be_an_address():
    for url in ("ws://localhost:8765", "ws://example.invalid:80"):
        assert "names are not looked up: for this machine alone `ws://127.0.0.1:PORT`" in refused(listen=url)
    assert "names" not in refused(listen="ws://127.0.0.1:x")


def test_the_place_of_tls_is_told():
    err = refused(listen="wss://127.0.0.1:8765")
    assert "the server has no TLS of its own; listen on `ws://127.0.0.1:PORT` behind a proxy" in err


@pytest.mark.parametrize("url", ["ws://localhost:0", "ws://example.invalid:80", "ws://127.0.0.1", "ws://127.0.0.1:x",
                                 "ws://127.0.0.1:65536", "ws://127.0.0.1:-1", "ws://", "ws://:80",
                                 "ws://127.0.0.1:0:0", "ws://1.2.3:0", "ws://[::1:0"])
def test_a_listen_url_needs_a_literal_address_and_a_port(url):
    assert f"invalid websocket --listen URL `{url}`; expected `ws://IP:PORT`" in refused(listen=url)


def test_a_port_in_use_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as busy:
        err = refused(listen=f"ws://127.0.0.1:{busy.getsockname()[1]}")
    assert "in use" in err


def test_an_address_that_is_not_ours_is_an_error(tmp):
    token = os.path.join(tmp, "token")
    with open(token, "w", encoding="ascii") as f:
        f.write("secret")
    # TEST-NET-1: with authentication it is not the policy that refuses, but the kernel.
    err = refused(["--ws-auth", "capability-token", "--ws-token-file", token], listen="ws://192.0.2.1:0")
    assert "--insecure-no-auth" not in err


@pytest.mark.parametrize("url", ["ws://0.0.0.0:0", "ws://192.0.2.1:0", "ws://[::]:0", "ws://[::ffff:192.0.2.1]:0"])
def test_a_non_loopback_bind_without_authentication_is_refused(url):
    assert "--insecure-no-auth" in refused(listen=url)


def test_the_override_for_an_open_non_loopback_bind():
    with Server(["--insecure-no-auth"], listen="ws://0.0.0.0:0") as s:
        assert re.fullmatch(r"ws://0\.0\.0\.0:[1-9][0-9]*", s.url)
        with Client(f"ws://127.0.0.1:{s.port}") as c:
            assert c.call("environment/status") == {"status": "ready"}


# Flags


@pytest.mark.parametrize("count", ["0", "-1", "x", ""])
def test_concurrent_requests_must_be_at_least_one(count):
    refused([f"--concurrent-requests={count}"], code=2)


def test_concurrent_requests_are_accepted():
    with Server(["--concurrent-requests", "4"]) as s, Client(s.url) as c:
        assert c.call("environment/status") == {"status": "ready"}


@pytest.mark.parametrize("args", [["--no-such-flag"], ["--listen"], ["surplus"], ["--log-level", "loud"],
                                  ["--log-format", "xml"], ["--ws-auth", "password"]])
def test_usage_errors_exit_with_2(args):
    listen = None if args == ["--listen"] else "ws://127.0.0.1:0"
    assert refused(args, listen=listen, code=2) != ""


def test_help_goes_to_stdout():
    done = subprocess.run([BIN, "serve", "--help"], capture_output=True, timeout=10, check=False)
    assert done.returncode == 0
    assert b"--listen" in done.stdout and b"--ws-auth" in done.stdout


def test_version():
    done = subprocess.run([BIN, "--version"], capture_output=True, timeout=10, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith(b"farhand ")


def test_json_log_lines_are_json():
    with Server(["--log-level", "debug", "--log-format", "json"]) as s:
        with Client(s.url) as c:
            c.run(["true"])
        s.stop()
        lines = [line for line in s.stderr().splitlines() if line]
    assert lines
    for line in lines:
        assert isinstance(json.loads(line), dict)


def records(server, event):
    return [json.loads(line) for line in server.stderr().splitlines() if json.loads(line)["event"] == event]


def test_starts_and_exits_are_logged_with_program_user_exit_and_duration(tmp):
    user = pwd.getpwuid(os.geteuid()).pw_name
    with Server(["--log-level", "info", "--log-format", "json"]) as s:
        with Client(s.url) as c:
            c.run(["sh", "-c", "sleep 1.5; exit 3", "secretmark"], process_id="a b")
            c.start("killed", ["sleep", "100"])
            c.call("process/terminate", {"processId": "killed"})
            c.wait_closed("killed")
            c.error("process/start", {"processId": "p", "argv": [f"{tmp}/none"], "cwd": "/", "env": {}, "tty": False})
        s.stop()
        started, exited = records(s, "process started"), records(s, "process exited")
        missing = records(s, "process not started")
        assert "secretmark" not in s.stderr()
    assert [(r["program"], r["user"], r["proc"]) for r in started] == [("sh", user, "a b"), ("sleep", user, "killed")]
    assert all(isinstance(r["pid"], int) and r["level"] == "info" for r in started)
    first, second = exited
    assert (first["program"], first["user"], first["code"], first["reason"]) == ("sh", user, 3, "exited")
    assert 100 <= first["duration_ms"] < 10000 * PATIENCE  # counted since its start was reported
    assert (second["code"], second["signal"], second["reason"]) == (137, "SIGKILL", "terminated")
    assert [(r["program"], r["error"]) for r in missing] == [(f"{tmp}/none", "ENOENT")]


def test_text_logs_quote_what_has_blanks_and_nothing_else():
    with Server(["--log-level", "info"]) as s:
        with Client(s.url, name='two words" user=root\n') as c:
            c.run(["true"], process_id="p1")
        s.stop()
        log = s.stderr()
    assert 'client="two words\\" user=root\\x0a"\n' in log, log
    assert "proc=p1 " in log and "\\x20" not in log


def test_logs_never_hold_environment_or_output():
    with Server(["--log-level", "debug"]) as s:
        with Client(s.url) as c:
            c.run(["sh", "-c", "echo outputmark$((40+2))"], env={"PATH": "/usr/bin:/bin", "X": "envmark17"})
        s.stop()
        assert "outputmark42" not in s.stderr()
        assert "envmark17" not in s.stderr()


@pytest.mark.skipif(os.geteuid() != 0, reason="the warning is for root")
def test_root_is_warned_about_an_open_listener(server, tmp):
    assert "warn" in server.stderr().lower()
    token = os.path.join(tmp, "token")
    with open(token, "w", encoding="ascii") as f:
        f.write("secret")
    with Server(["--ws-auth", "capability-token", "--ws-token-file", token]) as s:
        assert "warn" not in s.stderr().lower()


# Authentication flags


@pytest.fixture
def files(tmp):
    for name, text in (("token", "secret\n"), ("empty", " \n"), ("short", "x" * 31 + "\n"), ("good", "y" * 32)):
        with open(os.path.join(tmp, name), "w", encoding="ascii") as f:
            f.write(text)
    return tmp


AUTH_ERRORS = [
    (["--ws-auth", "capability-token"],
     "`--ws-token-file` or `--ws-token-sha256` is required when `--ws-auth capability-token` is set"),
    (["--ws-token-file", "{d}/token"],
     "websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`"),
    (["--ws-token-sha256", "0" * 64],
     "websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`"),
    (["--ws-shared-secret-file", "{d}/good"],
     "websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`"),
    (["--ws-issuer", "i"],
     "websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`"),
    (["--ws-auth", "capability-token", "--ws-token-file", "{d}/empty"],
     "websocket auth secret {d}/empty must not be empty"),
    (["--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", "{d}/empty"],
     "websocket auth secret {d}/empty must not be empty"),
    (["--ws-auth", "capability-token", "--ws-token-sha256", "zz"],
     "--ws-token-sha256 must be a 64-character hex SHA-256 digest"),
    (["--ws-auth", "capability-token", "--ws-token-sha256", "g" * 64],
     "--ws-token-sha256 must be a 64-character hex SHA-256 digest"),
    (["--ws-auth", "capability-token", "--ws-token-sha256", "0" * 65],
     "--ws-token-sha256 must be a 64-character hex SHA-256 digest"),
    (["--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", "{d}/short"],
     "signed websocket bearer secret {d}/short must be at least 32 bytes"),
    (["--ws-auth", "capability-token", "--ws-token-file", "{d}/missing"],
     "failed to read websocket auth secret {d}/missing: No such file or directory (os error 2)"),
    (["--ws-auth", "capability-token", "--ws-token-file", "{d}"], "failed to read websocket auth secret {d}: "),
    (["--ws-auth", "signed-bearer-token"], "--ws-shared-secret-file"),
    (["--ws-auth", "capability-token", "--ws-token-file", "{d}/token", "--ws-token-sha256", "0" * 64],
     "--ws-token-sha256"),
    (["--ws-auth", "capability-token", "--ws-token-file", "{d}/token", "--ws-shared-secret-file", "{d}/good"],
     "--ws-shared-secret-file"),
]


@pytest.mark.parametrize("args,text", AUTH_ERRORS)
def test_authentication_start_up_errors(files, args, text):
    err = refused([a.format(d=files) for a in args])
    assert text.format(d=files) in err


def test_a_relative_secret_file_is_resolved_against_the_working_directory(files):
    err = refused(["--ws-auth", "capability-token", "--ws-token-file", "rel"], cwd=files)
    assert f"failed to read websocket auth secret {files}/rel: No such file or directory (os error 2)" in err
    with Server(["--ws-auth", "capability-token", "--ws-token-file", "token"], cwd=files) as s:
        Client(s.url, headers={"Authorization": "Bearer secret"}).abort()


def test_authentication_with_stdio_is_refused(files):
    args = ["--ws-auth", "capability-token", "--ws-token-file", f"{files}/token"]
    assert "WebSocket auth requires a WebSocket listener, not stdio" in refused(args, listen="stdio")


def test_secrets_are_never_printed(files):
    with open(f"{files}/token", "w", encoding="ascii") as f:
        f.write("s3cr3t-mark")
    with Server(["--ws-auth", "capability-token", "--ws-token-file", f"{files}/token", "--log-level", "debug"]) as s:
        Client(s.url, headers={"Authorization": "Bearer s3cr3t-mark"}).abort()
        s.stop()
        assert "s3cr3t-mark" not in s.stderr()


# The end of the server


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_stopping_server_ends_its_children_and_exits_cleanly(sig):
    with Server() as s, Client(s.url) as c:
        c.start("p", ["sh", "-c", "echo $$; setsid sleep 1000 & echo $!; wait"])
        pids = [int(p) for p in c.wait_output("p", lambda d: d.count(b"\n") == 2).split()]
        assert s.stop(sig) == 0
        for pid in pids:
            pid_gone(pid)


def test_a_killed_server_leaves_no_process_behind():
    with Server() as s, Client(s.url) as c:
        c.start("p", ["sh", "-c", "echo $$; setsid sleep 1000 & echo $!; wait"])
        pids = [int(p) for p in c.wait_output("p", lambda d: d.count(b"\n") == 2).split()]
        s.stop(signal.SIGKILL)
        for pid in pids:
            pid_gone(pid)


def test_a_stopping_server_closes_its_connections():
    with Server() as s, Client(s.url) as c:
        s.stop()
        assert c.closed_code() in (1001, 1006)


def test_a_server_ends_without_waiting_for_silent_peers():
    with Server() as s, RawSocket(s.port) as idle, RawSocket(s.port) as upgraded:
        idle.send(b"GET / HT")
        upgraded.initialize()
        assert s.stop() == 0


def test_closed_stdin_and_stderr_do_not_disturb():
    # As under some supervisors: descriptors 0 and 2 are not there at all.
    with tempfile.TemporaryFile() as out:
        proc = subprocess.Popen(["sh", "-c", f'exec "{BIN}" serve --listen ws://127.0.0.1:0 <&- 2>&-'],
                                stdout=subprocess.PIPE, env=merged_env(None), stderr=out)
        try:
            url = proc.stdout.readline().decode().strip()
            with Client(url) as c:
                assert c.run(["sh", "-c", "echo out; echo err >&2"]) == (b"out\n", b"err\n", 0)
        finally:
            proc.kill()
            proc.wait(timeout=10)
            proc.stdout.close()
