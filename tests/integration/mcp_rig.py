"""`farhand mcp` as a child of an MCP client: requests go in, answers come out, and every line that comes must be a JSON-RPC 2.0 message."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from farhand_client import BIN, PATIENCE, SANITIZER_MARKS, merged_env
from reach import TREES

SECONDS = 60 * PATIENCE
LATEST = "2025-11-25"


class Refused(Exception):
    """The answer is a JSON-RPC error."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code, self.message = error["code"], error["message"]


class Mcp:
    """One `farhand mcp` with the client of it. `roots`: what the client answers to roots/list; None: it has no roots. `ask`: what it answers to
    elicitation/create, a function of the params; None: it cannot be asked. `program`: another command in place of `farhand mcp`."""

    def __init__(self, *args, where=("--env", "local"), cwd=None, env=None, toml=None, roots=None, ask=None, version=LATEST, begin=True, program=None):
        self.base = tempfile.mkdtemp(prefix="fh-mcp-", dir=TREES)
        os.chmod(self.base, 0o777)
        self.work, self.outside = cwd or os.path.join(self.base, "work"), os.path.join(self.base, "outside")
        home = os.path.join(self.base, "home")
        for path in (self.work, self.outside, home):
            os.makedirs(path, exist_ok=True)
            if path != cwd:
                os.chmod(path, 0o777)
        if toml:
            with open(os.path.join(home, "environments.toml"), "w", encoding="utf-8") as f:
                f.write(toml)
        self.roots, self.ask, self.version = roots, ask, version
        self.lines, self.answers, self.notes, self.asked, self.faults = [], {}, [], [], []
        self.stderr = tempfile.TemporaryFile()
        self._ids, self._changed = itertools.count(1), threading.Condition()
        self._is_closing, self._write = False, threading.Lock()
        self.proc = subprocess.Popen(
            [*(program or (BIN, "mcp", *where)), *args], cwd=self.work, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr,
            env=merged_env({"HOME": home, "XDG_CONFIG_HOME": None, "FARHAND_HOME": home, "CODEX_HOME": home, "FARHAND_URL": None,
                            "CODEX_EXEC_SERVER_URL": None, "XDG_STATE_HOME": os.path.join(home, "state"), "ENV": None, "BASH_ENV": None, **(env or {})}))
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self.server = self.initialize(version) if begin else None

    # What comes

    def _read(self):
        for line in self.proc.stdout:
            if self._is_closing and not line.endswith(b"\n"):  # a signal may cut the last line
                break
            value = json.loads(line)
            with self._changed:
                self.lines.append(value)
                for one in value if isinstance(value, list) else [value]:
                    self._take(one)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _take(self, one):
        if one.get("jsonrpc") != "2.0":
            self.faults.append(f"no jsonrpc: {one}")
        if "method" not in one:
            if ("result" in one) == ("error" in one):
                self.faults.append(f"neither result nor error: {one}")
            key = json.dumps(one["id"])
            if key in self.answers and key != "null":
                self.faults.append(f"a second answer: {one}")
            self.answers[key] = one
        elif "id" not in one:
            self.notes.append(one)
        else:
            self.asked.append(one)
            threading.Thread(target=self._answer, args=(one,), daemon=True).start()

    def _answer(self, request):
        if request["method"] == "roots/list" and self.roots is not None:
            result = self.roots(request) if callable(self.roots) else {"roots": [{"uri": "file://" + path, "name": "root"} for path in self.roots]}
        elif request["method"] == "elicitation/create" and self.ask:
            result = self.ask(request["params"])
        else:
            self.send({"id": request["id"], "error": {"code": -32601, "message": "what?"}})
            return
        if result is not None:
            self.send({"id": request["id"], "result": result})

    def until(self, true, what="what was awaited", seconds=SECONDS):
        """Waits for a true value, which is looked at after each line, and returns it."""
        end = time.monotonic() + seconds
        with self._changed:
            while True:
                value = true()
                if value:
                    return value
                assert time.monotonic() < end, f"never: {what}; {self.said()}; the last lines: {self.lines[-8:]}"
                assert self._thread.is_alive() or true(), f"never: {what}, and it has ended; {self.said()}; {self.lines[-8:]}"
                self._changed.wait(0.2)

    def said(self):
        self.stderr.seek(0)
        return self.stderr.read().decode(errors="replace")

    # What goes

    def send_raw(self, text):
        with self._write:
            self.proc.stdin.write(text.encode() if isinstance(text, str) else text)
            self.proc.stdin.flush()

    def send(self, value):
        values = value if isinstance(value, list) else [value]
        for one in values:
            one.setdefault("jsonrpc", "2.0")
        self.send_raw(json.dumps(value) + "\n")

    def note(self, method, params=None):
        self.send({"method": method, **({} if params is None else {"params": params})})

    def begin(self, method, params=None):
        """Sends a request. Returns its id."""
        ident = next(self._ids)
        self.send({"id": ident, "method": method, **({} if params is None else {"params": params})})
        return ident

    def wait(self, ident):
        """Returns the result of a request. Refused: it is an error."""
        answer = self.until(lambda: self.answers.get(json.dumps(ident)), f"the answer to {ident}")
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    def request(self, method, params=None):
        return self.wait(self.begin(method, params))

    def refusal(self, method, params=None):
        try:
            result = self.request(method, params)
        except Refused as e:
            return e.code, e.message
        raise AssertionError(f"no error: {result}")

    def initialize(self, version, **more):
        capabilities = {**({"roots": {"listChanged": True}} if self.roots is not None else {}), **({"elicitation": {}} if self.ask else {})}
        result = self.request("initialize", {"protocolVersion": version, "capabilities": capabilities,
                                             "clientInfo": {"name": "test", "version": "0"}, **more})
        self.note("notifications/initialized")
        return result

    # Tools

    def start(self, tool, token=None, **arguments):
        meta = {} if token is None else {"_meta": {"progressToken": token}}
        return self.begin("tools/call", {"name": tool, "arguments": arguments, **meta})

    def call(self, tool, **arguments):
        """Calls a tool. Returns its structured result."""
        return self.done(self.start(tool, **arguments))

    def done(self, ident):
        result = self.wait(ident)
        assert not result["isError"], result
        return result["structuredContent"]

    def failure(self, tool, **arguments):
        """Returns the text of the error of a tool."""
        return self.failed(self.start(tool, **arguments))

    def failed(self, ident):
        result = self.wait(ident)
        assert result["isError"] and "structuredContent" not in result, result
        return text_of(result)

    def start_exec(self, cmd, **more):
        return self.start("exec_command", cmd=cmd, login=False, **more)

    def exec(self, cmd, **more):
        return self.done(self.start_exec(cmd, **more))

    def progress(self, token):
        return [note["params"] for note in self.notes if note["method"] == "notifications/progress" and note["params"]["progressToken"] == token]

    # The end

    def finish(self):
        """Ends the stdin of the program, waits for its end, and returns the exit code."""
        self.proc.stdin.close()
        self.until(lambda: not self._thread.is_alive(), "the end of its output")
        return self.proc.wait(SECONDS)

    def close(self):
        self._is_closing = True
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
            try:
                self.proc.wait(SECONDS)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        self._thread.join(SECONDS)
        self.proc.stdout.close()
        try:
            self.proc.stdin.close()
        except BrokenPipeError:
            pass
        shutil.rmtree(self.base, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close()
        if kind is None:
            said = self.said()
            assert not self.faults, self.faults[:5]
            assert not any(mark in said for mark in SANITIZER_MARKS), said


def text_of(result):
    assert [item["type"] for item in result["content"]] == ["text"], result
    return result["content"][0]["text"]


__all__ = ["LATEST", "Mcp", "Refused", "SECONDS", "text_of"]
