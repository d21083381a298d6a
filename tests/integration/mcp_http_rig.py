"""`farhand mcp --listen` and clients of it over raw sockets, which see every byte: no library stands between."""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from farhand_client import BIN, PATIENCE, SANITIZER_MARKS, merged_env
from reach import TREES

SECONDS = 60 * PATIENCE
LATEST = "2025-11-25"
HOLDS_MEMORY = "asan" in BIN  # the sanitizer keeps what is freed
BOTH = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
EVENTS = {"Accept": "text/event-stream"}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
              "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}}


class Front:
    """One listener."""

    def __init__(self, *args, address="127.0.0.1:0", path="/mcp", env=None, options=("--no-sandbox",)):
        self.base = tempfile.mkdtemp(prefix="fh-mcph-", dir=TREES)
        os.chmod(self.base, 0o777)
        self.work, home = os.path.join(self.base, "work"), os.path.join(self.base, "home")
        for name in (self.work, home):
            os.mkdir(name)
            os.chmod(name, 0o777)
        self.stderr = tempfile.TemporaryFile()
        self.env = merged_env({"HOME": home, "XDG_CONFIG_HOME": None, "FARHAND_HOME": home, "CODEX_HOME": home, "FARHAND_URL": None,
                               "CODEX_EXEC_SERVER_URL": None, "XDG_STATE_HOME": os.path.join(home, "state"), "ENV": None, "BASH_ENV": None,
                               **(env or {})})
        self.proc = subprocess.Popen([BIN, "mcp", "--env", "local", *options, "--listen", f"http://{address}{path}", *args], cwd=self.work,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.stderr, env=self.env)
        self.url = self.proc.stdout.readline().decode().strip()
        self.path = path
        self.port = int(self.url.split("/")[2].rsplit(":", 1)[1]) if self.url else None

    def said(self):
        self.stderr.seek(0)
        return self.stderr.read().decode(errors="replace")

    def wire(self):
        return Wire(self.port)

    def ask(self, method="POST", body=None, path=None, **headers):
        """One request on a connection of its own."""
        with self.wire() as wire:
            return wire.ask(method, body, path or self.path, **headers)

    def session(self, *args, **kwargs):
        return Session(self, *args, **kwargs)

    def processes(self):
        """The processes below the listener, by their pids."""
        return descendants(self.proc.pid)

    def close(self):
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
            try:
                self.proc.wait(SECONDS)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        self.proc.stdout.close()
        shutil.rmtree(self.base, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close()
        if kind is None:
            assert not any(mark in self.said() for mark in SANITIZER_MARKS), self.said()


def head_of(method, path, headers, port, length=None):
    lines = [f"{method} {path} HTTP/1.1"]
    names = {name.lower() for name in headers}
    if "host" not in names:
        lines.append(f"Host: 127.0.0.1:{port}")
    lines += [f"{name}: {value}" for name, value in headers.items() if value is not None]
    if length is not None and not names & {"content-length", "transfer-encoding"}:
        lines.append(f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Answer:
    def __init__(self, status, headers, body=None):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)


class Wire:
    """One connection."""

    def __init__(self, port):
        self.port = port
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.left = b""
        self.is_chunked = False

    def send(self, data):
        self.sock.sendall(data)

    def fill(self):
        data = self.sock.recv(65536)
        self.left += data
        return bool(data)

    def until(self, mark):
        while mark not in self.left:
            assert self.fill(), f"the connection ended in {self.left!r}"
        data, self.left = self.left.split(mark, 1)
        return data

    def exactly(self, n):
        while len(self.left) < n:
            assert self.fill(), f"the connection ended in {self.left!r}"
        data, self.left = self.left[:n], self.left[n:]
        return data

    def read_head(self):
        lines = self.until(b"\r\n\r\n").decode().split("\r\n")
        headers = {}
        for line in lines[1:]:
            name, value = line.split(": ", 1)
            assert name not in headers, f"twice: {name}"
            headers[name] = value
        status = int(lines[0].split(" ")[1])
        if status == 100:
            return self.read_head()
        self.is_chunked = headers.get("transfer-encoding") == "chunked"
        return Answer(status, headers)

    def read_answer(self):
        """Reads an answer with a body of known length; of a stream of events only the head."""
        answer = self.read_head()
        if answer.headers.get("content-type") != "text/event-stream":
            answer.body = self.exactly(int(answer.headers.get("content-length", 0)))
        return answer

    def write(self, method="POST", body=None, path="/mcp", **headers):
        base = dict(BOTH) if method == "POST" else dict(EVENTS)
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send(head_of(method, path, {**base, **{name.replace("_", "-"): value for name, value in headers.items()}}, self.port,
                          None if data is None else len(data)) + (data or b""))

    def ask(self, method="POST", body=None, path="/mcp", **headers):
        self.write(method, body, path, **headers)
        return self.read_answer()

    def event(self):
        """Returns (id, data) of the next event; None at the end of the stream. Comments are skipped."""
        while True:
            if not self.is_chunked:
                text = self.until(b"\n\n").decode()
            else:
                n = int(self.until(b"\r\n"), 16)
                text = self.exactly(n).decode()
                assert self.exactly(2) == b"\r\n"
                if n == 0:
                    return None
                assert text.endswith("\n\n")
                text = text[:-2]
            if text.startswith(":"):
                continue
            ident, data = text.split("\n")
            assert ident.startswith("id: ") and data.startswith("data: "), text
            return ident[4:], json.loads(data[6:]) if data != "data: " else None

    def events(self):
        """All events until the end of the stream, without the empty ones."""
        found = []
        while (one := self.event()) is not None:
            if one[1] is not None:
                found.append(one)
        return found

    def is_closed(self, seconds=SECONDS):
        """Waits until the other side has closed the connection."""
        self.sock.settimeout(seconds)
        try:
            while self.fill():
                pass
        except ConnectionError:
            pass
        except TimeoutError:
            return False
        return True

    def is_quiet(self, seconds=0.3):
        return not self.left and not select.select([self.sock], [], [], seconds)[0]

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Session:
    """A session, whose requests go on connections of their own."""

    def __init__(self, front, version=LATEST, capabilities=None, **headers):
        self.front, self.headers, self.count, self.version = front, headers, 0, version
        answer = front.ask(body={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": {"name": "test", "version": "0"}}}, **headers)
        assert answer.status == 200, (answer.status, answer.body, front.said())
        self.server, self.id = answer.json["result"], answer.headers["mcp-session-id"]
        assert self.note("notifications/initialized").status == 202

    def all_headers(self, headers):
        return {"Mcp_Session_Id": self.id, "MCP_Protocol_Version": self.server["protocolVersion"], **self.headers, **headers}

    def write(self, wire, method="POST", body=None, **headers):
        wire.write(method, body, self.front.path, **self.all_headers(headers))

    def ask(self, method="POST", body=None, **headers):
        return self.front.ask(method, body, **self.all_headers(headers))

    def note(self, method, **params):
        return self.ask(body={"jsonrpc": "2.0", "method": method, "params": params})

    def message(self, method, params=None, ident=None):
        self.count += 1
        return {"jsonrpc": "2.0", "id": self.count if ident is None else ident, "method": method, **({} if params is None else {"params": params})}

    def exec_message(self, cmd, token=None, ident=None, **more):
        meta = {} if token is None else {"_meta": {"progressToken": token}}
        return self.message("tools/call", {"name": "exec_command", "arguments": {"cmd": cmd, "login": False, "yield_time_ms": 30000, **more}, **meta}, ident)

    def begin(self, message):
        """Sends a request. Returns its connection, with the answer unread."""
        wire = self.front.wire()
        self.write(wire, body=message)
        return wire

    def finish(self, wire):
        """Returns all messages of an answer, which may be a stream."""
        answer = wire.read_answer()
        if answer.status == 202:  # it was cancelled before there was a stream
            return []
        assert answer.status == 200, (answer.status, answer.body)
        if answer.headers["content-type"] == "application/json":
            return [answer.json]
        return [data for _, data in wire.events()]

    def call(self, message):
        with self.begin(message) as wire:
            return self.finish(wire)[-1]

    def exec(self, cmd, **more):
        answer = self.call(self.exec_message(cmd, **more))
        assert "result" in answer and not answer["result"]["isError"], answer
        return answer["result"]["structuredContent"]

    def get(self, **headers):
        wire = self.front.wire()
        self.write(wire, "GET", **headers)
        answer = wire.read_answer()
        assert answer.status == 200, (answer.status, answer.body)
        return wire


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as f:
        return [int(child) for child in f.read().split()]


def descendants(pid):
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="latin-1") as f:
                parent = int(f.read().rsplit(")", 1)[1].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        found.setdefault(parent, []).append(int(name))
    below, new = [], [pid]
    while new:
        new = [child for parent in new for child in found.get(parent, [])]
        below += new
    return below


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(true, what, seconds=SECONDS):
    end = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.02)
    return value


__all__ = ["BOTH", "EVENTS", "Front", "HOLDS_MEMORY", "INITIALIZE", "LATEST", "SECONDS", "Session", "Wire", "children", "head_of", "is_alive", "until"]
