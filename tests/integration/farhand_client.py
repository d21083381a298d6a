"""Shared by the integration tests: the server as a child process, and three ways to talk to it.

Client speaks the protocol through the sans-I/O WebSocket implementation of python3-websockets, so that our own
encoder is never tested against our own decoder. RawSocket writes bytes by hand, for everything that a well-behaved
library refuses to send. Stdio is the newline-delimited transport. Nothing here sleeps: every wait has an event and
a bound.
"""

import base64
import collections
import hashlib
import itertools
import json
import os
import select
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

from websockets.client import ClientConnection
from websockets.connection import State
from websockets.exceptions import InvalidStatus
from websockets.frames import OP_BINARY, OP_CONT, OP_PING, OP_PONG, OP_TEXT, Frame
from websockets.uri import parse_uri

from reach import reachable

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# The server, with the programs that are built beside it.
BIN = reachable(os.path.abspath(os.environ.get("FARHAND_BIN") or os.path.join(REPO, "build", "farhand")), "farhand*")

with open(BIN, "rb") as binary:
    _PROGRAM = binary.read()
IS_VALGRIND = b"exec valgrind" in _PROGRAM  # BIN is a script that runs the server under valgrind
# With valgrind or sanitizers, memory and speed say nothing about the server.
IS_SANITIZED = IS_VALGRIND or b"__asan_init" in _PROGRAM

DEFAULT_ENV = {"PATH": "/usr/bin:/bin"}
SANITIZER_MARKS = ("AddressSanitizer", "LeakSanitizer", "runtime error:", "UndefinedBehaviorSanitizer")

# FARHAND_SCHEMA=1: every message of every Client is held against docs/schema; conftest.py fails the test that saw a fault.
IS_WITNESSED = os.environ.get("FARHAND_SCHEMA") == "1"
WITNESSES = []
if IS_WITNESSED:
    from schema_rig import Witness

# A sanitizer build is several times slower, and the machine may have two busy cores.
PATIENCE = float(os.environ.get("FARHAND_PATIENCE", "1"))


class RpcError(Exception):
    """The server answered with an error object."""

    def __init__(self, error):
        super().__init__(f"{error.get('code')}: {error.get('message')} {error.get('data', '')}".rstrip())
        self.code = error.get("code")
        self.message = error.get("message")
        self.data = error.get("data")


class Closed(Exception):
    """The connection ended before what was waited for arrived."""


class HttpRefused(Exception):
    """The upgrade was answered with something other than 101."""

    def __init__(self, status, headers, body):
        super().__init__(f"{status} {body!r}")
        self.status = status
        self.headers = headers
        self.body = body


class ServerFailed(Exception):
    """The server ended before it printed its URL."""

    def __init__(self, returncode, stderr):
        super().__init__(f"exit {returncode}: {stderr}")
        self.returncode = returncode
        self.stderr = stderr


def merged_env(extra):
    """os.environ with `extra` laid over; a None removes the name."""
    env = dict(os.environ)
    for name, value in (extra or {}).items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


def serve_argv(args=(), listen=None, config_path=None):
    argv = [BIN, "serve"]
    if listen is not None:
        argv += ["--listen", listen]
    if config_path is not None:
        argv += ["--config", config_path]
    return argv + list(args)


def run_serve(args=(), listen="ws://127.0.0.1:0", env=None, cwd=None, stdin=b"", timeout=10):
    """For start-ups that must fail: runs `serve` to its end. Returns the CompletedProcess, with text streams."""
    done = subprocess.run(serve_argv(args, listen), input=stdin, capture_output=True, env=merged_env(env), cwd=cwd,
                          timeout=timeout * PATIENCE, check=False)
    done.stdout = done.stdout.decode(errors="replace")
    done.stderr = done.stderr.decode(errors="replace")
    return done


def pid_alive(pid):
    """False for a pid that is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            return f.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(predicate, timeout=10, what="condition"):
    """Polls until predicate() is true, for things that no descriptor reports (the process table, a file of a child)."""
    deadline = time.monotonic() + timeout * PATIENCE
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come true in {timeout} s")
        select.select([], [], [], 0.01)


def pid_gone(pid, timeout=10):
    """Waits until `pid` is gone."""
    wait_until(lambda: not pid_alive(pid), timeout, f"end of pid {pid}")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_idle(pid, seconds=0.5):
    """Whether a process without requests uses next to no processor time for `seconds`."""
    # A process that waits for a processor is not idle either.
    before, queued = cpu_seconds(pid), queued_seconds(pid)
    select.select([], [], [], seconds)
    return cpu_seconds(pid) - before <= seconds / 10 and queued_seconds(pid) - queued <= seconds / 4


def queued_seconds(pid, thread=None):
    """For how long a thread (of a process: the first one) has been ready to run while no processor was free."""
    with open(f"/proc/{pid}/task/{thread or pid}/schedstat", encoding="ascii") as f:
        return int(f.read().split()[1]) / 1e9


def seconds_of(server, act, client=None):
    """How long act() takes that asks the server for something, without the time for which the loop of the server or we ourselves
    waited for a processor: on a busy machine that says nothing about the server."""
    threads = [(server.pid, None), (os.getpid(), threading.get_native_id())]
    threads += [(os.getpid(), client.thread_id)] if client else []
    queued, began = sum(queued_seconds(*one) for one in threads), time.monotonic()
    act()
    seconds = time.monotonic() - began
    return max(0, seconds - (sum(queued_seconds(*one) for one in threads) - queued))


class Server:
    """One `farhand serve`. A context manager; leaving it ends the server and looks for sanitizer reports."""

    def __init__(self, args=(), env=None, config=None, listen="ws://127.0.0.1:0", cwd=None, timeout=15, **popen):
        """`popen`: how else the process is made, as subprocess.Popen takes it (preexec_fn, umask)."""
        self.url = None
        self.port = None
        self._stderr = tempfile.TemporaryFile()
        self._config = None
        self._stdout_rest = b""
        if config is not None:
            self._config = tempfile.NamedTemporaryFile("w", suffix=".toml", prefix="farhand-test-")
            self._config.write(config)
            self._config.flush()
        self.argv = serve_argv(args, listen, self._config and self._config.name)
        self.proc = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._stderr,
                                     env=merged_env(env), cwd=cwd, **popen)
        self.pid = self.proc.pid
        try:
            self._read_url(timeout * PATIENCE)
        except BaseException:
            self._kill()
            raise

    def _read_url(self, timeout):
        deadline = time.monotonic() + timeout
        fd = self.proc.stdout.fileno()
        line = b""
        while b"\n" not in line:
            ready, _, _ = select.select([fd], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise ServerFailed(None, f"no URL within {timeout} s; stderr: {self.stderr()}")
            got = os.read(fd, 4096)
            if not got:
                raise ServerFailed(self.proc.wait(timeout=10), self.stderr())
            line += got
        first, _, self._stdout_rest = line.partition(b"\n")
        self.url = first.decode()
        if self.url.startswith("ws://"):
            self.port = parse_uri(self.url).port

    def stderr(self):
        size = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), size, 0).decode(errors="replace")

    def stdout_rest(self):
        """The output after the URL line. Only after stop()."""
        assert self.proc.poll() is not None
        return self._stdout_rest

    def stop(self, sig=signal.SIGTERM, timeout=10):
        """Ends the server; returns its exit code (negative: the signal). SIGKILL after `timeout`."""
        if self.proc.poll() is None:
            self.proc.send_signal(sig)
        return self.wait(timeout)

    def wait(self, timeout=10):
        try:
            self.proc.wait(timeout=timeout * PATIENCE)
        except subprocess.TimeoutExpired:
            self._kill()
            raise AssertionError(f"the server did not end in {timeout} s; stderr: {self.stderr()}") from None
        self._drain()
        return self.proc.returncode

    def _drain(self):
        """Collects the rest of stdout, without waiting for other processes that hold the pipe open."""
        out = self.proc.stdout
        while not out.closed and select.select([out], [], [], 0)[0]:
            got = os.read(out.fileno(), 65536)
            if not got:
                out.close()
                break
            self._stdout_rest += got

    def _kill(self):
        if self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait(timeout=10)
        self.proc.stdout.close()

    def connect(self, **kw):
        return Client(self.url, **kw)

    def raw(self):
        return RawSocket(self.port)

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc, tb):
        died = self.proc.poll()
        code = self.stop() if exc_type is None else None
        if exc_type is not None:
            self._kill()
        if self._config is not None:
            self._config.close()
        err = self.stderr()
        self._stderr.close()
        report = [m for m in SANITIZER_MARKS if m in err]
        ended = died if died is not None else code
        crashed = ended is not None and ended < 0 and ended not in (-signal.SIGKILL, -signal.SIGTERM)
        if report or crashed:
            raise AssertionError(f"the server broke: {report}, exit {ended}\n{err}")


class Client:
    """A connection. A background thread moves bytes both ways, so that neither side ever waits for the test."""

    def __init__(self, url, *, init=True, headers=None, name="test", resume=None, init_params=None,
                 connect_timeout=10, witness=None):
        """`witness` is told of every message that is sent as JSON, and of every message that comes (schema_rig.py)."""
        self.url = url
        self.name = name
        self.witness = witness
        if witness is None and IS_WITNESSED:
            self.witness = Witness()
            WITNESSES.append(self.witness)
        self.messages = []  # every message, in order of arrival
        self.notifications = []  # messages with a method and no id
        self.times = []  # time.monotonic() of each of `messages`
        self.frame_sizes = []  # payload sizes of all data frames received
        self.pings = []  # payloads of pings received
        self.pongs = []  # payloads of pongs received
        self.bad = []  # what a correct server never sends: binary messages, text that is not JSON
        self.session_id = None
        self.init_result = None
        self.handshake = None  # the HTTP response of the upgrade
        self._answers = collections.defaultdict(collections.deque)
        self._by_process = collections.defaultdict(list)
        self._bytes = collections.defaultdict(bytearray)  # (process id, stream or None) -> output so far
        self._ids = itertools.count(1)
        self._process_ids = itertools.count(1)
        self._cond = threading.Condition()
        self._parts = []
        self._part_opcode = None
        self._out = bytearray()
        self._reading = True
        self._done = False
        self._code = None
        self._abort = False
        self._connect(url, headers or {}, connect_timeout * PATIENCE)
        self._wake_r, self._wake_w = socket.socketpair()
        self._wake_w.setblocking(False)
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()
        if init:
            try:
                self.initialize(resume=resume, **(init_params or {}))
            except BaseException:
                self.abort()
                raise

    # Setting up

    def _connect(self, url, headers, timeout):
        if url.startswith("unix:"):
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(timeout)
            self.sock.connect(url[len("unix:"):])
            uri = parse_uri("ws://localhost/")
        else:
            uri = parse_uri(url)
            self.sock = socket.create_connection((uri.host, uri.port), timeout=timeout)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.ws = ClientConnection(uri, max_size=None)
            request = self.ws.connect()
            for key, value in headers.items():
                request.headers[key] = value
            self.ws.send_request(request)
            self.sock.sendall(b"".join(self.ws.data_to_send()))
            events = []
            while self.handshake is None:
                data = self.sock.recv(65536)
                if data:
                    self.ws.receive_data(data)
                else:
                    self.ws.receive_eof()
                events += self.ws.events_received()
                if events:
                    self.handshake = events.pop(0)
                elif not data:
                    raise Closed("connection ended during the upgrade")
            if self.ws.state is not State.OPEN:
                if isinstance(self.ws.handshake_exc, InvalidStatus):
                    raise HttpRefused(self.handshake.status_code,
                                      {k.lower(): v for k, v in self.handshake.headers.raw_items()},
                                      self.handshake.body or b"")
                raise self.ws.handshake_exc
        except BaseException:
            self.sock.close()
            raise
        self.sock.setblocking(False)
        for event in events:
            self._take_frame(event)

    def initialize(self, resume=None, send_initialized=True, **extra):
        params = {"clientName": self.name, **extra}
        if resume is not None:
            params["resumeSessionId"] = resume
        self.init_result = self.call("initialize", params)
        self.session_id = self.init_result["sessionId"]
        if send_initialized:
            self.notify("initialized", {})
        return self.init_result

    # The background thread

    def _loop(self):
        try:
            while True:
                with self._cond:
                    if self._abort:
                        break
                    want_write = bool(self._out)
                    want_read = self._reading
                rlist = [self._wake_r] + ([self.sock] if want_read else [])
                readable, writable, _ = select.select(rlist, [self.sock] if want_write else [], [])
                if self._wake_r in readable:
                    self._wake_r.recv(4096)
                if writable:
                    with self._cond:
                        chunk = bytes(self._out[:262144])
                    try:
                        sent = self.sock.send(chunk)
                    except BlockingIOError:
                        sent = 0
                    except OSError:
                        # Nothing can be sent to the peer any more; what it sent before may still be there to be read.
                        sent = len(self._out)
                    with self._cond:
                        del self._out[:sent]
                        self._cond.notify_all()
                if self.sock in readable and not self._read_some():
                    break
        except OSError:
            pass
        finally:
            with self._cond:
                if self.ws.close_rcvd is not None:
                    self._code = self.ws.close_rcvd.code
                else:
                    self._code = 1006
                self._done = True
                self._cond.notify_all()
            self.sock.close()

    def _read_some(self):
        try:
            data = self.sock.recv(262144)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        with self._cond:
            if data:
                self.ws.receive_data(data)
            else:
                try:
                    self.ws.receive_eof()
                except EOFError:
                    pass
            for frame in self.ws.events_received():
                self._take_frame(frame)
            self._collect_out()
            self._cond.notify_all()
        return bool(data)

    def _collect_out(self):
        for piece in self.ws.data_to_send():
            # The empty piece asks for a half-close; the server ends the TCP connection, as RFC 6455 wants.
            self._out += piece

    def _take_frame(self, frame):
        if frame.opcode is OP_PING:
            self.pings.append(bytes(frame.data))
        elif frame.opcode is OP_PONG:
            self.pongs.append(bytes(frame.data))
        elif frame.opcode in (OP_TEXT, OP_BINARY, OP_CONT):
            self.frame_sizes.append(len(frame.data))
            if frame.opcode is not OP_CONT:
                self._part_opcode = frame.opcode
            self._parts.append(bytes(frame.data))
            if frame.fin:
                whole, self._parts = b"".join(self._parts), []
                self._take_message(whole)

    def _take_message(self, data):
        if self._part_opcode is OP_BINARY:
            self.bad.append(data)
        try:
            message = json.loads(data.decode("utf-8"))
        except ValueError:
            self.bad.append(data)
            return
        self.messages.append(message)
        self.times.append(time.monotonic())
        if self.witness is not None:
            self.witness.received(message)
        if "method" in message and "id" in message:
            # A server sends requests only to clients that have said that they answer them. None of these has.
            self.bad.append(message)
        elif "method" in message:
            self.notifications.append(message)
            params = message.get("params")
            if isinstance(params, dict) and isinstance(params.get("processId"), str):
                self._by_process[params["processId"]].append(message)
                if message["method"] == "process/output":
                    self._take_output(params)
        elif "id" in message:
            self._answers[self._key(message["id"])].append(message)

    def _take_output(self, params):
        try:
            data = base64.b64decode(params["chunk"], validate=True)
        except ValueError:
            self.bad.append(params["chunk"])
            return
        self._bytes[params["processId"], params["stream"]] += data
        self._bytes[params["processId"], None] += data

    @staticmethod
    def _key(ident):
        return (type(ident).__name__, ident)

    # Sending

    def _wake(self):
        try:
            self._wake_w.send(b"x")
        except OSError:
            pass

    def _send(self, act):
        with self._cond:
            if self._done or self.ws.state is not State.OPEN:
                raise Closed(f"the connection is closed ({self._code})")
            act()
            self._collect_out()
        self._wake()

    def send_raw(self, data):
        """str goes as a text message, bytes as a binary one; no check of the content."""
        if isinstance(data, str):
            self._send(lambda: self.ws.send_text(data.encode()))
        else:
            self._send(lambda: self.ws.send_binary(bytes(data)))

    def send_json(self, value):
        if self.witness is not None:
            self.witness.sent(value)
        self.send_raw(json.dumps(value, ensure_ascii=False))

    def send_text_bytes(self, data):
        """A text message of any bytes, valid UTF-8 or not."""
        self._send(lambda: self.ws.send_text(bytes(data)))

    def send_fragments(self, pieces, binary=False, between=None):
        """One message in several frames; `between(ws)` may send control frames after each but the last."""
        first = OP_BINARY if binary else OP_TEXT
        for index, piece in enumerate(pieces):
            frame = Frame(first if index == 0 else OP_CONT, piece, fin=index == len(pieces) - 1)
            self._send(lambda frame=frame: self.ws.send_frame(frame))
            if between is not None and not frame.fin:
                self._send(lambda: between(self.ws))

    def ping(self, payload=b""):
        self._send(lambda: self.ws.send_ping(payload))

    def flush(self, timeout=10):
        """Waits until everything sent so far is in the kernel's hands."""
        with self._cond:
            if not self._cond.wait_for(lambda: not self._out or self._done, timeout * PATIENCE):
                raise TimeoutError(f"{len(self._out)} bytes still unsent after {timeout} s")

    def pause_reading(self):
        with self._cond:
            self._reading = False
        self._wake()

    def resume_reading(self):
        with self._cond:
            self._reading = True
        self._wake()

    def request(self, method, params=None, **extra):
        """Sends a request and returns its id. `params=None` leaves the member out."""
        ident = f"r{next(self._ids)}"
        message = {"id": ident, "method": method, **extra}
        if params is not None:
            message["params"] = params
        self.send_json(message)
        return ident

    def notify(self, method, params=None):
        message = {"method": method}
        if params is not None:
            message["params"] = params
        self.send_json(message)

    # Receiving

    def _wait(self, ready, timeout, what):
        with self._cond:
            got = self._cond.wait_for(lambda: ready() or self._done, timeout * PATIENCE)
            value = ready()
            if value:
                return value
            if got:
                raise Closed(f"connection closed ({self._code}) while waiting for {what}")
            raise TimeoutError(f"no {what} within {timeout} s; last messages: {str(self.messages[-3:])[:1500]}")

    def response(self, ident, timeout=10):
        """The whole answer to `ident`. Answers to a repeated id come one by one."""
        key = self._key(ident)
        self._wait(lambda: len(self._answers[key]) > 0, timeout, f"answer to {ident!r}")
        with self._cond:
            return self._answers[key].popleft()

    def has_response(self, ident):
        """Whether the answer to `ident` has arrived."""
        with self._cond:
            return len(self._answers[self._key(ident)]) > 0

    def result(self, ident, timeout=10):
        message = self.response(ident, timeout)
        if "error" in message:
            raise RpcError(message["error"])
        return message["result"]

    def call(self, method, params=None, timeout=10, **extra):
        return self.result(self.request(method, params, **extra), timeout)

    def error(self, method, params=None, timeout=10, **extra):
        """For calls that must fail: the RpcError. A result is an assertion failure."""
        message = self.response(self.request(method, params, **extra), timeout)
        assert "error" in message, f"{method} was expected to fail, got {message}"
        return RpcError(message["error"])

    def wait_for(self, predicate, timeout=10):
        """The first of all messages so far and to come for which predicate(message) is true."""
        seen = 0

        def ready():
            nonlocal seen
            while seen < len(self.messages):
                seen += 1
                if predicate(self.messages[seen - 1]):
                    return self.messages[seen - 1]
            return None

        found = []

        def once():
            if not found:
                message = ready()
                if message is not None:
                    found.append(message)
            return found

        return self._wait(once, timeout, "matching message")[0]

    def wait_pong(self, payload, timeout=10):
        self._wait(lambda: payload in self.pongs, timeout, f"pong {payload!r}")

    def wait_ping(self, count=1, timeout=10):
        self._wait(lambda: len(self.pings) >= count, timeout, f"ping number {count}")

    # The end of the connection

    def close(self, code=1000, timeout=5):
        """Close handshake; returns the code that the server sent (1006: none)."""
        try:
            self._send(lambda: self.ws.send_close(code))
        except Closed:
            pass
        with self._cond:
            self._cond.wait_for(lambda: self._done, timeout * PATIENCE)
        self.abort()
        return self._code

    def abort(self, reset=False):
        """Drops the TCP connection without a word; `reset` sends RST instead of FIN."""
        with self._cond:
            done, self._abort = self._done, True
            if reset and not done:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._wake()
        self._thread.join(timeout=10)
        self._wake_r.close()
        self._wake_w.close()

    def closed_code(self, timeout=10):
        """Waits for the end; the close code that was received, 1006 when there was none."""
        with self._cond:
            if not self._cond.wait_for(lambda: self._done, timeout * PATIENCE):
                raise TimeoutError(f"connection still open after {timeout} s")
            return self._code

    @property
    def closed(self):
        return self._done

    @property
    def thread_id(self):
        """The id that the system has given to the thread that moves the bytes."""
        return self._thread.native_id

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.abort()

    # Processes

    def start(self, process_id, argv, timeout=10, **kw):
        params = {"processId": process_id, "argv": list(argv), "cwd": "file:///tmp", "env": dict(DEFAULT_ENV),
                  "tty": False, "pipeStdin": False, "arg0": None}
        params.update(kw)
        return self.call("process/start", params, timeout)

    def write(self, process_id, data, write_id=None, timeout=10):
        """process/write; returns the status of the answer."""
        params = {"processId": process_id, "chunk": base64.b64encode(data).decode()}
        if write_id is not None:
            params["writeId"] = write_id
        return self.call("process/write", params, timeout)["status"]

    def read(self, process_id, timeout=10, **params):
        return self.call("process/read", {"processId": process_id, **params}, timeout)

    def events(self, process_id):
        """The notifications of one process so far, in order of arrival."""
        with self._cond:
            return list(self._by_process[process_id])

    def output(self, process_id, stream=None):
        with self._cond:
            return bytes(self._bytes[process_id, stream])

    def wait_output(self, process_id, wanted, timeout=10):
        """Waits until the output so far contains `wanted` (bytes, or a predicate of the bytes); returns it."""
        accept = wanted if callable(wanted) else (lambda data: wanted in data)
        self._wait(lambda: accept(self._bytes[process_id, None]), timeout, f"output of {process_id!r}: {wanted!r}")
        return self.output(process_id)

    def _wait_event(self, process_id, method, timeout):
        def ready():
            return [m for m in self._by_process[process_id][-4:] if m["method"] == method] or \
                   [m for m in self._by_process[process_id] if m["method"] == method]
        return self._wait(ready, timeout, f"{method} of {process_id!r}")[0]["params"]

    def wait_exit(self, process_id, timeout=10):
        return self._wait_event(process_id, "process/exited", timeout)

    def wait_closed(self, process_id, timeout=10):
        return self._wait_event(process_id, "process/closed", timeout)

    def run(self, argv, timeout=10, process_id=None, **kw):
        """Runs a command until process/closed. Returns (stdout, stderr, exitCode); on a tty the output is in stdout."""
        process_id = process_id or f"run-{next(self._process_ids)}"
        self.start(process_id, argv, timeout, **kw)
        self.wait_closed(process_id, timeout)
        out = self.output(process_id, "stdout") + self.output(process_id, "pty")
        return out, self.output(process_id, "stderr"), self.wait_exit(process_id)["exitCode"]

    def check_seq(self, process_id):
        """Seq 1..n without holes, in order of arrival; one exit; closed once and last."""
        events = self.events(process_id)
        assert [m["params"]["seq"] for m in events] == list(range(1, len(events) + 1))
        methods = [m["method"] for m in events]
        assert methods[-1] == "process/closed"
        assert methods.count("process/closed") == 1
        assert methods.count("process/exited") == 1


class RawSocket:
    """Hand-written HTTP and WebSocket bytes."""

    GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    KEY = b"dGhlIHNhbXBsZSBub25jZQ=="

    def __init__(self, port=None, path=None, timeout=10):
        self.timeout = timeout * PATIENCE
        if path is not None:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(self.timeout)
            self.sock.connect(path)
        else:
            self.sock = socket.create_connection(("127.0.0.1", port), timeout=self.timeout)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def send(self, data):
        self.sock.settimeout(self.timeout)
        self.sock.sendall(data)

    def _more(self, deadline):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self.sock], [], [], left)[0]:
            raise TimeoutError(f"nothing more to read; so far {self.buffer[:300]!r}")
        try:
            data = self.sock.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            raise EOFError(f"end of stream after {self.buffer[:300]!r}")
        self.buffer += data

    def recv_exact(self, count, timeout=None):
        """`count` bytes; EOFError when the stream ends before."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout * PATIENCE)
        if len(self.buffer) < count:
            parts = [self.buffer]
            have = len(self.buffer)
            while have < count:
                self.buffer = b""
                try:
                    self._more(deadline)
                except (TimeoutError, EOFError):
                    self.buffer = b"".join(parts)
                    raise
                parts.append(self.buffer)
                have += len(self.buffer)
            self.buffer = b"".join(parts)
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def recv_until(self, marker, timeout=None):
        """Everything up to and with `marker`."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout * PATIENCE)
        while marker not in self.buffer:
            self._more(deadline)
        head, _, self.buffer = self.buffer.partition(marker)
        return head + marker

    def http(self, request, timeout=None):
        """Sends `request`, reads one response: (status, headers with lower-case names, body)."""
        self.send(request)
        return self.http_response(timeout, head_only=request.startswith(b"HEAD "))

    def http_response(self, timeout=None, head_only=False):
        head = self.recv_until(b"\r\n\r\n", timeout)
        lines = head.decode("latin-1").split("\r\n")
        version, status = lines[0].split(" ")[:2]
        assert version == "HTTP/1.1"
        headers = {}
        for line in lines[1:]:
            if line:
                name, _, value = line.partition(":")
                headers[name.strip().lower()] = value.strip()
        length = int(headers.get("content-length", "0"))
        body = b"" if head_only or int(status) in (101, 204, 304) else self.recv_exact(length, timeout)
        return int(status), headers, body

    def get(self, path="/", headers=(), method="GET", host=b"127.0.0.1"):
        """One plain request."""
        lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: " + host]
        lines += [h if isinstance(h, bytes) else h.encode() for h in headers]
        return self.http(b"\r\n".join(lines) + b"\r\n\r\n")

    @classmethod
    def upgrade_request(cls, path="/", extra=(), without=(), method="GET"):
        fields = {"Host": "127.0.0.1", "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                  "Sec-WebSocket-Key": cls.KEY.decode()}
        lines = [f"{method} {path} HTTP/1.1"] + [f"{k}: {v}" for k, v in fields.items() if k not in without]
        lines = [line.encode() for line in lines] + [e if isinstance(e, bytes) else e.encode() for e in extra]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def upgrade(self, path="/", extra=(), without=()):
        """A good upgrade, with the accept key checked; returns the response headers."""
        status, headers, body = self.http(self.upgrade_request(path, extra, without))
        assert status == 101, (status, headers, body)
        accept = base64.b64encode(hashlib.sha1(self.KEY + self.GUID).digest()).decode()
        assert headers["sec-websocket-accept"] == accept
        return headers

    @staticmethod
    def make_frame(opcode, payload=b"", fin=True, mask=True, rsv=0, length=None, length_bytes=None):
        """The bytes of a frame. `length` lies about the size; `length_bytes` (0, 2, 8) forces a longer form."""
        size = len(payload) if length is None else length
        if length_bytes is None:
            length_bytes = 0 if size < 126 else 2 if size < 65536 else 8
        head = bytes([(0x80 if fin else 0) | (rsv << 4) | opcode])
        bit = 0x80 if mask else 0
        if length_bytes == 0:
            head += bytes([bit | size])
        elif length_bytes == 2:
            head += bytes([bit | 126]) + struct.pack(">H", size)
        else:
            head += bytes([bit | 127]) + struct.pack(">Q", size)
        if not mask:
            return head + payload
        key = b"\x12\x34\x56\x78"
        if payload:
            number = int.from_bytes(payload, "little")
            pad = int.from_bytes((key * (len(payload) // 4 + 1))[:len(payload)], "little")
            payload = (number ^ pad).to_bytes(len(payload), "little")
        return head + key + payload

    def frame(self, opcode, payload=b"", fin=True, mask=True, rsv=0, **kw):
        """Sends one frame."""
        self.send(self.make_frame(opcode, payload, fin, mask, rsv, **kw))

    def text(self, value):
        self.frame(1, value.encode() if isinstance(value, str) else json.dumps(value).encode())

    def read_frame(self, timeout=None):
        """(fin, opcode, payload). A frame from the server must be unmasked and have no reserved bits."""
        first, second = self.recv_exact(2, timeout)
        assert first & 0x70 == 0, f"reserved bits in {first:#x}"
        assert second & 0x80 == 0, "masked frame from the server"
        size = second & 0x7F
        if size == 126:
            size = struct.unpack(">H", self.recv_exact(2, timeout))[0]
            assert size >= 126
        elif size == 127:
            size = struct.unpack(">Q", self.recv_exact(8, timeout))[0]
            assert size >= 65536
        return bool(first & 0x80), first & 0x0F, self.recv_exact(size, timeout)

    def read_message(self, timeout=None):
        """The next text message as JSON; pings on the way are ignored (not answered)."""
        parts = []
        while True:
            fin, opcode, payload = self.read_frame(timeout)
            if opcode == 9:
                continue
            if opcode == 8:
                raise EOFError(f"close frame {payload!r}")
            assert opcode == (0 if parts else 1)
            parts.append(payload)
            if fin:
                return json.loads(b"".join(parts))

    def read_close(self, timeout=None):
        """Skips everything up to the close frame; its code (1005: empty), then the stream must end."""
        while True:
            _, opcode, payload = self.read_frame(timeout)
            if opcode == 8:
                break
        code = struct.unpack(">H", payload[:2])[0] if len(payload) >= 2 else 1005
        payload[2:].decode("utf-8")
        return code

    def rpc(self, ident, method, params=None, timeout=None):
        """Sends a request and returns the whole answer; notifications on the way are skipped."""
        message = {"id": ident, "method": method}
        if params is not None:
            message["params"] = params
        self.text(message)
        while True:
            answer = self.read_message(timeout)
            if answer.get("id") == ident and "method" not in answer:
                return answer

    def initialize(self, **params):
        """upgrade + initialize + initialized; returns the result."""
        self.upgrade()
        answer = self.rpc(0, "initialize", {"clientName": "raw", **params})
        self.text({"method": "initialized"})
        return answer["result"]

    def eof(self, timeout=None):
        """Reads to the end of the stream (a reset counts); returns what came before. TimeoutError when the stream does not end."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout * PATIENCE)
        try:
            while True:
                self._more(deadline)
        except EOFError:
            rest, self.buffer = self.buffer, b""
            return rest

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


class Stdio:
    """`serve --listen stdio` as a child, one message per line."""

    def __init__(self, args=(), env=None, listen="stdio", stdin=subprocess.PIPE, cwd=None):
        self._stderr = tempfile.TemporaryFile()
        self.proc = subprocess.Popen(serve_argv(args, listen), stdin=stdin, stdout=subprocess.PIPE,
                                     stderr=self._stderr, env=merged_env(env), cwd=cwd, bufsize=0)
        self.messages = []
        self.lines = []
        self._buffer = b""

    def send_bytes(self, data):
        self.proc.stdin.write(data)

    def send(self, value):
        self.send_bytes(json.dumps(value).encode() + b"\n")

    def close_stdin(self):
        self.proc.stdin.close()

    def next(self, timeout=10):
        """The next message; EOFError at the end."""
        deadline = time.monotonic() + timeout * PATIENCE
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.proc.stdout], [], [], left)[0]:
                raise TimeoutError(f"no line within {timeout} s; stderr: {self.stderr()}")
            data = os.read(self.proc.stdout.fileno(), 1 << 20)
            if not data:
                raise EOFError(f"end of stdout; rest {self._buffer!r}")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        self.lines.append(line)
        self.messages.append(json.loads(line))
        return self.messages[-1]

    def answer(self, ident, timeout=10):
        """The answer to `ident`; what comes before it is kept in `messages`."""
        while True:
            message = self.next(timeout)
            if "method" not in message and message.get("id") == ident:
                return message

    def call(self, ident, method, params=None, timeout=10):
        message = {"id": ident, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        return self.answer(ident, timeout)

    def initialize(self):
        result = self.call(0, "initialize", {"clientName": "stdio-test"})["result"]
        self.send({"method": "initialized"})
        return result

    def rest(self, timeout=10):
        """All messages up to the end of stdout."""
        got = []
        try:
            while True:
                got.append(self.next(timeout))
        except EOFError:
            return got

    def wait(self, timeout=10):
        return self.proc.wait(timeout=timeout * PATIENCE)

    def stderr(self):
        size = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), size, 0).decode(errors="replace")

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc, tb):
        if self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait(timeout=10)
        for stream in (self.proc.stdin, self.proc.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    pass
        err = self.stderr()
        self._stderr.close()
        if exc_type is None:
            assert not any(mark in err for mark in SANITIZER_MARKS), err
