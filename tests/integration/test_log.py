"""The log: a reader that is slow delays no client, and peers without a token cannot fill it."""

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import re
import resource
import select
import signal
import socket
import subprocess

import pytest


from farhand_client import PATIENCE, Client, HttpRefused, RawSocket, RpcError, Server, serve_argv, wait_until
from fs_helpers import as_nobody, needs_root
from http_origin import Origin
from sandbox_rig import become

TOKEN = "correct-horse"
AUTH = ["--ws-auth", "capability-token", "--ws-token-sha256", hashlib.sha256(TOKEN.encode()).hexdigest()]
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


def ends(kind):
    """A pipe or socket pair with little room: (end that the test reads, end that the server writes)."""
    if kind == "socket":
        ours, theirs = socket.socketpair()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return os.fdopen(ours.detach(), "rb", 0), os.fdopen(theirs.detach(), "wb", 0)
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    return os.fdopen(read, "rb", 0), os.fdopen(write, "wb", 0)


def take(fd, timeout=0):
    """Reads everything that is available; with a timeout, waits for the first byte."""
    data = b""
    while select.select([fd], [], [], 0 if data else timeout * PATIENCE)[0]:
        more = os.read(fd.fileno(), 65536)
        if not more:
            break
        data += more
    return data


@contextlib.contextmanager
def unread(kind, tmp, args=()):
    """A server that logs into a small pipe or socket, and the end that the test reads."""
    ours, theirs = ends("socket" if kind == "socket" else "pipe")
    argv, more = serve_argv(args, "ws://127.0.0.1:0"), {}
    if kind == "pipe of another user":
        os.chmod(tmp, 0o755)
        as_nobody(f"{tmp}/home")
        argv[0] = f"{tmp}/home/farhand"
        more = {"preexec_fn": become(65534), "env": {**os.environ, "HOME": f"{tmp}/home",
                                                     "XDG_STATE_HOME": f"{tmp}/home/state"}}
    with ours, theirs, subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs,
                                        **more) as proc:
        try:
            yield proc, proc.stdout.readline().decode().strip(), ours
        finally:
            proc.kill()


KINDS = ["pipe", "socket", pytest.param("pipe of another user", marks=needs_root)]


@pytest.mark.parametrize("kind", KINDS)
def test_lines_that_nobody_reads_are_dropped_and_counted(tmp, kind):
    with unread(kind, tmp, ["--log-level", "info"]) as (proc, url, log):
        with Client(url) as c:
            for n in range(200):
                c.start(f"p{n}", ["/bin/true"], timeout=20)
                c.wait_closed(f"p{n}", 20)
            c.call("environment/status")  # by now everything about these processes was logged
            kept = take(log)
            assert kept.count(b"process started") < 200, "there was room for all of it"
            assert all(line.startswith(b"20") and b" info " in line or b" warn " in line
                       for line in kept.splitlines()), "whole lines only"
            c.start("again", ["/bin/true"], timeout=20)
            c.wait_closed("again", 20)
            later = wait_until(lambda: take(log, 5), what="a line")
            lost = re.findall(rb"log lines lost count=(\d+)", later + take(log, 1))
            assert len(lost) == 1 and int(lost[0]) + kept.count(b"\n") >= 401
            assert c.call("environment/status") == {"status": "ready"}
        proc.terminate()
        assert proc.wait(10 * PATIENCE) == 0


def test_a_refused_upgrade_ends_the_connection():
    with Server(AUTH) as s, s.raw() as raw:
        request = RawSocket.upgrade_request("/")
        status, headers, _ = raw.http(request + request)
        assert status == 401 and headers["connection"] == "close"
        with pytest.raises(EOFError):
            raw.recv_exact(1, 5)
        with Client(s.url, headers=HEADERS) as c:
            assert c.call("environment/status") == {"status": "ready"}


def refuse(server, count):
    for _ in range(count):
        with server.raw() as raw:
            assert raw.http(RawSocket.upgrade_request("/"))[0] == 401


def told(text, event):
    """How many lines of the log have this event, and how many more they say were left out."""
    lines = [line for line in text.splitlines() if f" {event} " in line]
    more = [int(m[1]) for m in (re.search(r" more=(\d+)", line) for line in lines) if m]
    return len(lines) - len(more), sum(more)


def test_refusals_are_logged_at_a_bounded_rate():
    with Server(AUTH) as s:
        refuse(s, 200)
        assert told(s.stderr(), "upgrade refused")[0] <= 20, "two spans at most"
        s.stop()
        one_by_one, more = told(s.stderr(), "upgrade refused")
        assert one_by_one <= 20 and one_by_one + more == 200


@pytest.mark.slow
def test_how_many_more_were_refused_is_told_in_time():
    with Server(AUTH) as s:
        refuse(s, 15)
        assert told(s.stderr(), "upgrade refused") == (10, 0)
        wait_until(lambda: told(s.stderr(), "upgrade refused") == (10, 5), 15, "the rest")
        refuse(s, 1)
        assert told(s.stderr(), "upgrade refused") == (11, 5), "a new span"


def test_connections_beyond_the_limit_are_logged_at_a_bounded_rate():
    with Server(config="max_connections = 1\n") as s, Client(s.url) as c:
        for _ in range(100):
            with s.raw() as raw, pytest.raises(EOFError):
                raw.recv_exact(1, 5)
        assert c.call("environment/status") == {"status": "ready"}
        s.stop()
        one_by_one, more = told(s.stderr(), "connection refused")
        assert one_by_one <= 20 and one_by_one + more == 100


def test_a_lack_of_descriptors_is_logged_once_a_second():
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    with Server(preexec_fn=few) as s, contextlib.ExitStack() as stack:
        with Client(s.url) as c:
            with contextlib.suppress(RpcError):  # takes the descriptors that connections leave to commands
                for n in range(64):
                    c.start(f"p{n}", ["/bin/sleep", "1000"], pipeStdin=True)
            for _ in range(20):  # these peers wait to be accepted
                stack.enter_context(s.raw())
            wait_until(lambda: told(s.stderr(), "cannot accept")[1] > 0, 20, "the rest of a second")
            assert c.call("environment/status") == {"status": "ready"}
        s.stop(signal.SIGTERM)
        one_by_one, more = told(s.stderr(), "cannot accept")
        assert one_by_one <= more, "ten tries a second, one line"


# Contents of the log


def resumed(server, session_id):
    """A client that has resumed the session, or None while another connection has it."""
    with contextlib.suppress(RpcError):
        return Client(server.url, headers=HEADERS, resume=session_id)
    return None


def test_nothing_of_a_request_but_names_is_logged(tmp):
    """Requests of all kinds, with a mark in each place where clients have secrets; the log at level debug never shows the mark."""
    mark = "XsecretmarkX"
    session_ids = []
    with Origin() as origin, Server(["--log-level", "debug", *AUTH]) as s:
        with pytest.raises(HttpRefused):
            Client(s.url, headers={"Authorization": f"Bearer {mark}"})
        with s.raw() as raw:
            raw.get(f"/?token={mark}", headers=[f"Authorization: Basic {mark}", f"Cookie: {mark}"])
        with Client(s.url, headers=HEADERS) as c:
            session_ids.append(c.session_id)
            c.run(["sh", "-c", f"echo {mark}; echo {mark} >&2; cat; exit 3"], env={"PATH": "/usr/bin:/bin", "V": mark})
            c.start("p", ["cat"], pipeStdin=True)
            c.write("p", mark.encode(), write_id=mark)
            c.wait_output("p", mark.encode())
            c.call("process/terminate", {"processId": "p"})
            with pytest.raises(RpcError):  # not found: the program is named, its arguments are not
                c.run(["/nonexistent", mark])
            with pytest.raises(RpcError):  # wrapped, and refused
                c.run([f"{tmp}/codex-linux-sandbox", "--sandbox-policy", f'{{"type":"{mark}"}}', "--", mark])
            c.call("fs/writeFile", {"path": f"{tmp}/f", "dataBase64": base64.b64encode(mark.encode()).decode()})
            c.call("fs/readFile", {"path": f"{tmp}/f"})
            for url in (f"http://user:{mark}@127.0.0.1:{origin.port}/{mark}?q={mark}", f"http://{mark}.invalid/"):
                c.request("http/request", {"method": "POST", "url": url, "requestId": mark, "timeoutMs": 20000, "bodyBase64":
                                           base64.b64encode(mark.encode()).decode(),
                                           "headers": [{"name": "Authorization", "value": mark}]})
            c.error("no/such", {"secret": mark})
            c.send_raw(f'{{"id":1,"method":"{mark}')
            with Client(s.url, headers=HEADERS, init=False) as other:
                other.error("initialize", {"clientName": "x", "resumeSessionId": mark})
            assert c.call("environment/status") == {"status": "ready"}
            origin.arrived.get(timeout=10 * PATIENCE)
        with wait_until(lambda: resumed(s, session_ids[0]), what="the session to be free"):
            pass
        s.stop()
        log = s.stderr()
    assert "process started" in log and "upgrade refused" in log, "it is a log of all this"
    encoded = base64.b64encode(mark.encode()).decode().rstrip("=")
    for secret in (mark, encoded, TOKEN, *session_ids):
        assert secret not in log, [line for line in log.splitlines() if secret in line]


@pytest.mark.parametrize("form", ["text", "json"])
def test_whatever_clients_call_things_an_event_is_one_line(tmp, form):
    """Names that look like ends of lines, like pairs, like numbers, or that are no text."""
    names = ["a\nb", 'x" level="error', "x level=error event=forged", "007", "-1", "12345678901234567890", "1e9", "null", "\u2028",
             "\x1b[31m", "}\n{\"level\":\"error\"}", "", "\\", '\\"', "x" * 1000]
    with Server(["--log-level", "info", "--log-format", form]) as s:
        with Client(s.url, name='me" forged="1') as c:
            for name in names:
                c.run(["true"], process_id=name)
            with pytest.raises(RpcError):
                c.run([f"{tmp}/no\n\"file level=error"])
        s.stop()
        lines = s.stderr().splitlines()
    if form == "text":
        assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (info|warn) \w", line) and line.isascii() and
                   line.isprintable() for line in lines), lines
        assert len([line for line in lines if re.search(r"Z info process started ", line)]) == len(names)
        return
    events = [json.loads(line) for line in lines]
    assert {e["level"] for e in events} <= {"info", "warn"} and not [e for e in events if "forged" in e]
    started = [e["proc"] for e in events if e["event"] == "process started"]
    assert len(started) == len(names) and all(isinstance(name, str) for name in started)
    assert started[3:8] == names[3:8], "a name of digits is no number"
