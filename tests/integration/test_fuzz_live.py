"""A fuzzer over a live server: four connections, mutated messages, broken frames, cuts and resumes.

The server must not end, must answer every request with an id exactly once (or close its connection), and must hold no more
memory and descriptors than before when all connections are closed. FARHAND_FUZZ_SECONDS says for how long (4; 1200 with
FARHAND_SLOW=1), FARHAND_SEED repeats a run's choices, but the order of events in the server also depends on timing.
"""

import base64
import collections
import json
import os
import random
import select
import socket
import time

from farhand_client import IS_SANITIZED, PATIENCE, RawSocket, wait_until
from fuzz_jail import Jail
from fuzz_mutate import Mutator

IS_SOAK = os.environ.get("FARHAND_SLOW") == "1"
SECONDS = float(os.environ.get("FARHAND_FUZZ_SECONDS") or (1200 if IS_SOAK else 4))
SEED = int(os.environ.get("FARHAND_SEED") or (random.randrange(10 ** 6) if IS_SOAK else 5))
CONNECTIONS = 4
ANSWER_SECONDS = 20  # nothing waits as long on purpose
UNANSWERED_MAX = 60  # of one connection: then the fuzzer waits for answers


class Talker:
    """One connection: keeps the requests without an answer, and checks that each answer belongs to one."""

    def __init__(self, jail, resume=None, takeover=False):
        self.raw = jail.connect()
        self.raw.upgrade()
        self.sock = self.raw.sock
        self.sock.setblocking(False)
        self.buffer = bytearray(self.raw.buffer)
        self.out = bytearray()
        self.parts = bytearray()
        self.asked = {}  # id -> when, and the beginning of the text
        self.is_over = False
        self.session = None
        self.may_repeat = True
        self.answers = collections.Counter()
        self._hello(**({} if resume is None else {"resumeSessionId": resume, "takeover": takeover}))

    def _hello(self, **params):
        self.ask("hello", json.dumps({"id": "hello", "method": "initialize", "params": {"clientName": "fuzz", **params}}).encode())

    def send(self, data):
        self.out += data

    def ask(self, ident, text, frames=None):
        self.asked[ident] = (time.monotonic(), text[:300])
        self.send(frames or RawSocket.make_frame(1, text))

    def close(self):
        self.is_over = True
        self.sock.close()

    def move(self):
        """Sends and receives as much as is possible without waiting."""
        try:
            if self.out:
                del self.out[:self.sock.send(self.out[:1 << 20])]
        except BlockingIOError:
            pass
        except OSError:
            self.out.clear()  # closed by the server; what it said before is still there
        try:
            while True:
                data = self.sock.recv(1 << 20)
                if not data:
                    self.close()
                    break
                self.buffer += data
        except BlockingIOError:
            pass
        except OSError:
            self.close()
        self._take_frames()

    def _take_frames(self):
        while len(self.buffer) >= 2:
            size, head = self.buffer[1] & 0x7F, 2
            if size >= 126:
                head = 4 if size == 126 else 10
                if len(self.buffer) < head:
                    return
                size = int.from_bytes(self.buffer[2:head], "big")
            if len(self.buffer) < head + size:
                return
            opcode, payload, is_last = self.buffer[0] & 15, bytes(self.buffer[head:head + size]), self.buffer[0] & 0x80
            del self.buffer[:head + size]
            if opcode == 9:
                self.send(RawSocket.make_frame(10, payload))
            elif opcode in (0, 1):
                self.parts += payload
                if is_last:
                    self._on_message(json.loads(self.parts))
                    self.parts.clear()

    def _on_message(self, message):
        if "method" in message:
            return
        ident = message["id"]
        if isinstance(ident, str) and ident.startswith(("ask-", "hello")):
            assert ident in self.asked, f"an answer too many: {json.dumps(message)[:500]}"
            del self.asked[ident]
            self.answers["error" if "error" in message else "result"] += 1
            if ident == "hello" and "result" in message:
                self.session = message["result"]["sessionId"]
                self.send(RawSocket.make_frame(1, b'{"method":"initialized","params":{}}'))
            elif ident == "hello" and self.may_repeat:
                self.may_repeat = False
                self._hello()  # there is nothing to resume
        else:
            self.answers["answers to noise"] += 1

    def oldest(self):
        """(age in seconds, text) of the request that has waited longest."""
        at, text = min(self.asked.values(), default=(time.monotonic(), b""))
        return time.monotonic() - at, text


class Fuzzer:
    def __init__(self, jail, seed):
        self.jail = jail
        self.r = random.Random(seed)
        self.mutator = Mutator(self.r, jail.work())
        self.talkers = []
        self.sessions = []
        self.counts = collections.Counter()
        self.last = collections.deque(maxlen=20)  # for the report of a failure
        self.number = 0

    def _connect(self):
        resume, takeover = None, False
        if self.sessions and self.r.random() < 0.5:
            resume, takeover = self.r.choice(self.sessions[-4:]), self.r.random() < 0.5
            self.counts["resumes"] += 1
        self.counts["connections"] += 1
        self.talkers.append(Talker(self.jail, resume, takeover))

    def _frames(self, text):
        """The text as one frame, or as several with pings between them."""
        if self.r.random() < 0.8 or len(text) < 2:
            return RawSocket.make_frame(self.r.choice([1, 1, 2]), text)
        cuts = sorted(self.r.randrange(len(text)) for _ in range(self.r.randrange(1, 4)))
        pieces = [text[a:b] for a, b in zip([0] + cuts, cuts + [len(text)])]
        out = b""
        for i, piece in enumerate(pieces):
            out += RawSocket.make_frame(1 if i == 0 else 0, piece, fin=i == len(pieces) - 1)
            if self.r.random() < 0.3:
                out += RawSocket.make_frame(9, b"between")
        return out

    def _broken_frames(self):
        """Frames that break the WebSocket protocol: most of them end the connection."""
        data = bytearray(self._frames(self.mutator.noise("raw-0")))
        for _ in range(self.r.randrange(1, 4)):
            data[self.r.randrange(min(len(data), 14))] = self.r.randrange(256)
        return bytes(data)

    def _say(self, talker):
        self.number += 1
        what = self.r.random()
        if what < 0.8:
            ident = f"ask-{self.number}"
            text = self.mutator.request(ident)
            self.last.append(text[:400])
            talker.ask(ident, text, self._frames(text))
            self.counts["requests"] += 1
        elif what < 0.996:
            text = self.mutator.noise(f"raw-{self.number}")
            self.last.append(text[:400])
            talker.send(self._frames(text))
            self.counts["noise"] += 1
        else:
            talker.send(self._broken_frames())
            self.counts["broken"] += 1

    def _cut(self, talker):
        """Ends a connection without a close frame: by a reset, in the middle of a frame, or half closed."""
        how = self.r.randrange(3)
        talker.move()
        try:
            if how == 0:
                talker.sock.send(RawSocket.make_frame(1, b"x" * 200)[:self.r.randrange(1, 200)])
            elif how == 1:
                talker.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        talker.close()
        self.counts["cuts"] += 1

    def _move_all(self, seconds=0.0):
        live = [t for t in self.talkers if not t.is_over]
        if live:
            select.select([t.sock for t in live], [t.sock for t in live if t.out], [], seconds)
        for talker in live:
            talker.move()
            if talker.session and talker.session not in self.sessions:
                self.sessions.append(talker.session)
            age, text = talker.oldest()
            assert talker.is_over or age < ANSWER_SECONDS * PATIENCE, f"no answer in {age:.0f} s: {text!r}"
        for talker in self.talkers:
            if talker.is_over:
                self.counts.update(talker.answers)
        self.talkers = [t for t in self.talkers if not t.is_over]
        assert self.jail.is_alive(), f"the server has ended: {self.jail.proc.poll()}\n{self.jail.stderr()}\n" + \
            "\n".join(map(repr, self.last))

    def run(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            while len(self.talkers) < CONNECTIONS:
                self._connect()
            talker = self.r.choice(self.talkers)
            if self.r.random() < 0.004:
                self._cut(talker)
            elif len(talker.asked) < UNANSWERED_MAX and len(talker.out) < 1 << 20:
                self._say(talker)
            self._move_all(0.01 if all(len(t.asked) >= UNANSWERED_MAX for t in self.talkers) else 0)
        self._finish()

    def _finish(self):
        """Ends the processes that requests may wait for, waits for all answers, and closes all connections."""
        for talker in self.talkers:
            for i in range(8):
                text = json.dumps({"id": f"ask-end-{i}", "method": "process/terminate",
                                   "params": {"processId": f"p{i}"}}).encode()
                talker.ask(f"ask-end-{i}", text)
        end = time.monotonic() + ANSWER_SECONDS * PATIENCE
        while any(t.asked or t.out for t in self.talkers):
            self._move_all(0.05)
            stuck = [t.oldest()[1] for t in self.talkers if t.asked]
            assert time.monotonic() < end, f"no answer: {stuck}"
        for talker in self.talkers:
            self.counts.update(talker.answers)
            talker.close()
        self.talkers = []


def settle(jail):
    """Waits until all sessions and their commands have ended."""
    wait_until(lambda: jail.commands() == [], 20, "commands to be gone")
    with jail.connect() as raw:
        raw.initialize(detachMs=0)
        raw.rpc(1, "environment/info")

        def sessions():
            return len(raw.rpc(2, "session/list", {})["result"]["sessions"])
        wait_until(lambda: sessions() == 1, 20, "sessions to end")


def test_the_server_holds_out_against_mutated_messages():
    with Jail() as jail:
        print(f"seed {SEED}, {SECONDS:g} s")
        fuzzer = Fuzzer(jail, SEED)
        fuzzer.run(max(2.0, SECONDS / 20))  # helpers, threads and caches are there now
        settle(jail)
        descriptors, rss = jail.descriptors(), jail.rss_mib()
        fuzzer.run(SECONDS)
        settle(jail)
        print(dict(fuzzer.counts), f"descriptors {descriptors} -> {jail.descriptors()}, MiB {rss} -> {jail.rss_mib()}, "
              f"processes {jail.processes()}")
        assert fuzzer.counts["result"] > 50 and fuzzer.counts["error"] > 50 and fuzzer.counts["cuts"] > 0
        # Helpers for file requests are kept for up to 30 s, each with a few descriptors.
        wait_until(lambda: jail.descriptors() <= descriptors + 24, 10, "descriptors to be closed")
        if IS_SOAK:
            wait_until(lambda: jail.descriptors() <= descriptors, 60, "idle helpers to go")
        if not IS_SANITIZED:
            wait_until(lambda: jail.rss_mib() <= rss + 48, 10, "memory to be given back")
        jail.stop()


def test_the_jail_is_closed():
    """The server of the fuzzer can write nothing but its own directory."""
    with Jail() as jail, jail.connect() as raw:
        raw.initialize()
        name = f"fh-jail-{os.getpid()}"  # a name that no other test uses
        places = ["/tmp", "/var/tmp", "/dev/shm", "/root", "/etc", os.path.dirname(__file__)]
        for path in [*(os.path.join(place, name) for place in places), "/proc/sys/kernel/core_pattern"]:
            answer = raw.rpc(1, "fs/writeFile", {"path": path, "dataBase64": "eA=="})
            assert "error" in answer, (path, answer)
            assert path == "/proc/sys/kernel/core_pattern" or not os.path.exists(path)
        assert "result" in raw.rpc(2, "fs/writeFile", {"path": f"{jail.work()}/x", "dataBase64": "eA=="})
        raw.rpc(3, "process/start", {"processId": "p", "argv": ["sh", "-c", "id -u; tail -n +3 /proc/net/dev"], "cwd": "/",
                                     "env": {"PATH": "/usr/bin:/bin"}, "tty": False})
        text = ""
        while (m := raw.read_message())["method"] != "process/closed":
            text += base64.b64decode(m["params"].get("chunk", "")).decode()
        lines = text.split("\n")
        assert lines[0] != "0" and [line.split(":")[0].strip() for line in lines[1:] if line] == ["lo"]
        jail.stop()
