"""`farhand unified` as a child: lines go in, lines come out, and every line that comes is held against docs/schema/unified.json."""

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from farhand_client import BIN, PATIENCE, SANITIZER_MARKS, merged_env
from reach import TREES
from schema_rig import faults

SECONDS = 60 * PATIENCE
TEXT = re.compile(r"(?:Chunk ID: ([0-9a-f]{6})\n)?Wall time: (\d+\.\d{4}) seconds\n(?:Process exited with code (-?\d+)\n)?"
                  r"(?:Process running with session ID (\d+)\n)?(?:Original token count: (\d+)\n)?Output:\n(.*)", re.S)


class Failed(Exception):
    """The answer is an error."""


class Unified:
    """One `farhand unified`. `work` is its workspace, outside of /tmp, which a workspace-write sandbox may write."""

    def __init__(self, *args, where=("--env", "local"), env=None, cwd=None, toml=None, preexec_fn=None):
        self.base = tempfile.mkdtemp(prefix="fh-unified-", dir=TREES)
        os.chmod(self.base, 0o777)
        self.work = cwd or os.path.join(self.base, "work")
        self.outside = os.path.join(self.base, "outside")
        home = os.path.join(self.base, "home")
        for path in (self.work, self.outside, home):
            os.makedirs(path, exist_ok=True)
            if path != cwd:
                os.chmod(path, 0o777)
        if toml:
            with open(os.path.join(home, "environments.toml"), "w", encoding="utf-8") as f:
                f.write(toml)
        self.lines, self.events, self.results, self.faults = [], [], {}, []
        self.stderr = tempfile.TemporaryFile()
        self._ids = itertools.count(1)
        self._changed = threading.Condition()
        self.proc = subprocess.Popen(
            [BIN, "unified", *where, *args], cwd=self.work, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr,
            preexec_fn=preexec_fn,
            env=merged_env({"HOME": home, "XDG_CONFIG_HOME": None, "FARHAND_HOME": home, "CODEX_HOME": home, "FARHAND_URL": None,
                            "CODEX_EXEC_SERVER_URL": None, "XDG_STATE_HOME": os.path.join(home, "state"), "ENV": None, "BASH_ENV": None, **(env or {})}))
        self._is_closing = False
        self._is_reading = threading.Event()
        self._is_reading.set()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    # What comes

    def _read(self):
        while True:
            self._is_reading.wait()
            line = self.proc.stdout.readline()
            if not line or (self._is_closing and not line.endswith(b"\n")):  # a signal may cut the last line
                break
            self._take(line)
        with self._changed:
            self._changed.notify_all()

    def _take(self, line):
        value = json.loads(line)
        found = faults("unified.json#/$defs/Line", value)
        with self._changed:
            self.faults += [f"{fault} in {line[:400]}" for fault in found]
            self.lines.append(value)
            if "event" in value:
                self.events.append(value)
            elif value["id"] is not None:
                self.results[json.dumps(value["id"])] = value
            self._changed.notify_all()

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

    def stop_reading(self):
        """From now on nobody reads what the program writes, except for one read that may be under way."""
        self._is_reading.clear()

    def go_on_reading(self):
        self._is_reading.set()

    # What goes

    def send(self, value, is_valid=True):
        assert not is_valid or not faults("unified.json#/$defs/Request", value), value
        self.send_raw(json.dumps(value) + "\n")

    def send_raw(self, text):
        self.proc.stdin.write(text.encode() if isinstance(text, str) else text)
        self.proc.stdin.flush()

    def begin(self, tool, is_valid=True, **arguments):
        """Sends a call. Returns its id."""
        ident = next(self._ids)
        self.send({"id": ident, "tool": tool, "arguments": arguments}, is_valid)
        return ident

    def wait(self, ident):
        """Returns the result of a call. Failed: it is an error."""
        key = json.dumps(ident)
        answer = self.until(lambda: self.results.get(key), f"the answer to {ident}")
        if "error" in answer:
            raise Failed(answer["error"]["message"])
        result = answer["result"]
        if "text" in result:
            check_text(result)
        return result

    def call(self, tool, **arguments):
        return self.wait(self.begin(tool, **arguments))

    def exec(self, cmd, **more):
        return self.call("exec_command", cmd=cmd, login=False, **more)

    def write(self, session_id, chars="", **more):
        return self.call("write_stdin", session_id=session_id, chars=chars, **more)

    def error(self, tool, is_valid=True, **arguments):
        """Returns the text of the error that a call must have."""
        return self.error_of(self.begin(tool, is_valid, **arguments))

    def error_of(self, ident):
        try:
            result = self.wait(ident)
        except Failed as e:
            return str(e)
        raise AssertionError(f"no error: {result}")

    def answer(self, question, decision):
        self.send({"answer": {"question_id": question["question_id"], "decision": decision}})

    # What has happened

    def of(self, event, **members):
        """The events of a kind that have these members."""
        return [e for e in self.events if e["event"] == event and all(e.get(k) == v for k, v in members.items())]

    def event(self, event, count=1, **members):
        """Waits for the count-th such event, and returns it."""
        return self.until(lambda: len(self.of(event, **members)) >= count and self.of(event, **members)[count - 1], f"{event} {members}")

    def question(self, count=1, **members):
        return self.event("approval_request", count, **members)

    def deltas(self, ident):
        return "".join(e["chunk"] for e in self.of("exec_command_output_delta", call_id=ident))

    # The end

    def finish(self):
        """Ends the stdin of the program, waits for its end, and returns the exit code."""
        self.proc.stdin.close()
        self.until(lambda: not self._thread.is_alive(), "the end of its output")
        return self.proc.wait(SECONDS)

    def close(self):
        self._is_closing = True
        self.go_on_reading()
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

    def check(self):
        assert not self.faults, "lines that docs/schema does not allow:\n" + "\n".join(self.faults[:5])
        said = self.said()
        assert not any(mark in said for mark in SANITIZER_MARKS), said
        begun = [(e["call_id"], e["process_id"]) for e in self.of("exec_command_begin")]
        ended = [(e["call_id"], e["process_id"]) for e in self.of("exec_command_end")]
        assert len(ended) == len(set(ended)) and set(ended) <= set(begun), (begun, ended)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close()
        if kind is None:
            self.check()


def check_text(result):
    """Checks that the text of a result says the same as its other members."""
    chunk, wall, code, session, tokens, output = TEXT.fullmatch(result["text"]).groups()
    assert chunk == result.get("chunk_id") and float(wall) == result["wall_time_seconds"]
    assert (None if code is None else int(code)) == result.get("exit_code")
    assert (None if session is None else int(session)) == result.get("session_id")
    assert (None if tokens is None else int(tokens)) == result.get("original_token_count")
    assert output == result["output"]


__all__ = ["Failed", "SECONDS", "Unified"]
