"""A TCP proxy that treats connections badly: it cuts, resets, stalls, trickles and lets them vanish.

Every accepted connection gets a fate by lot: what happens to it, in which direction, and after how many bytes. Bytes
that are delivered are delivered in order and unchanged; nothing else is promised. One thread does it all.
"""

import collections
import random
import select
import socket
import struct
import threading
import time

KINDS = {
    "close": 30,  # both sides see an orderly end
    "reset": 30,  # both sides see a reset
    "stall": 15,  # nothing moves for a while, then a reset
    "pause": 15,  # nothing moves for a while, then bytes go on; closed later
    "trickle": 15,  # byte by byte from here on, then closed
    "vanish": 1,  # the client sees a reset; the server is told nothing, ever
}
READ_BYTES = 65536
SESSION_BYTES = 4000  # a connection vanishes after more bytes than these, so that clients get a session at all


class Fate:
    """What happens to one connection."""

    def __init__(self, rng, kinds, most_bytes):
        self.kind = rng.choices(list(kinds), list(kinds.values()))[0]
        # Mostly bytes from the server meet the fate. Small limits hit the upgrade and the handshake of the session.
        self.is_upward = rng.random() < 0.25
        self.after = int((1500 if self.is_upward else most_bytes) ** rng.random()) - 1
        if self.kind == "vanish":
            self.is_upward = False
            self.after += SESSION_BYTES
        self.wait_s = rng.uniform(0.005, 0.08)
        self.trickled = rng.randrange(10, 400)


class Way:
    """One direction of a connection."""

    def __init__(self, source, target):
        self.source, self.target = source, target
        self.pending = b""
        self.delivered = 0
        self.is_over = False


class Link:
    """One connection: two sockets, two ways, one fate."""

    def __init__(self, client, server, fate):
        self.client, self.server, self.fate = client, server, fate
        self.up, self.down = Way(client, server), Way(server, client)
        self.fated = self.up if fate.is_upward else self.down
        self.limit = fate.after  # the bytes that the fated way may carry
        self.step = READ_BYTES
        self.frozen_until = None
        self.is_struck = False
        self.is_dead = False

    def room(self, way):
        """How many bytes may be taken from the source of `way` now."""
        if way.pending or way.is_over or self.frozen_until is not None:
            return 0
        if way is self.fated:
            return int(min(self.step, self.limit - way.delivered))
        return READ_BYTES


class CuttingProxy:
    """Listens on a port of its own until close(). `counts` says how often each fate was met."""

    def __init__(self, port, seed=1, kinds=None, most_bytes=100_000, most_struck=None, spares_first=False):
        self.target = port
        self.counts = collections.Counter()
        self._kinds = kinds or KINDS
        self._most_bytes = most_bytes
        self._most_struck = most_struck  # after so many fates every connection is left alone
        self.spares_first = spares_first  # the next connection lives until it has a session; set it again for the one after
        self._rng = random.Random(seed)
        self._links = []
        self._vanished = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._wake_r, self._wake_w = socket.socketpair()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self):
        self._wake_w.send(b"x")
        self._thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    # The thread

    def _run(self):
        while True:
            readers, writers, timeout = self._interest()
            readable, writable, _ = select.select(readers, writers, [], timeout)
            if self._wake_r in readable:
                break
            if self._listener in readable:
                self._accept()
            ready = set(readable), set(writable)
            for link in self._links:
                self._move(link, *ready)
            self._links = [link for link in self._links if not link.is_dead]
        for link in self._links:
            link.client.close()
            link.server.close()
        for sock in (*self._vanished, self._listener, self._wake_r, self._wake_w):
            sock.close()

    def _interest(self):
        now = time.monotonic()
        readers, writers, timeout = [self._wake_r, self._listener], [], None
        for link in self._links:
            for way in (link.up, link.down):
                if way.pending:
                    writers.append(way.target)
                elif link.room(way) > 0:
                    readers.append(way.source)
            if link.frozen_until is not None:
                left = max(0.0, link.frozen_until - now)
                timeout = left if timeout is None else min(timeout, left)
        return readers, writers, timeout

    def _accept(self):
        try:
            client, _ = self._listener.accept()
        except BlockingIOError:
            return
        try:
            server = socket.create_connection(("127.0.0.1", self.target), timeout=10)
        except OSError:
            client.close()
            return
        for sock in (client, server):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        fate = Fate(self._rng, self._kinds, self._most_bytes)
        if self.spares_first:
            self.spares_first, fate.is_upward, fate.after = False, False, fate.after + SESSION_BYTES
        self._links.append(Link(client, server, fate))

    def _move(self, link, readable, writable):
        for way in (link.up, link.down):
            try:
                if way.pending and way.target in writable:
                    self._deliver(way)
                elif way.source in readable and (room := link.room(way)) > 0:
                    way.pending = way.source.recv(room)
                    way.is_over = not way.pending
                    self._deliver(way)
            except BlockingIOError:
                pass
            except OSError:
                way.is_over = True
        if link.up.is_over or link.down.is_over:
            self._end(link, is_reset=False)
        elif link.frozen_until is not None:
            if time.monotonic() >= link.frozen_until:
                self._thaw(link)
        elif link.fated.delivered >= link.limit and not link.fated.pending:
            self._strike(link)

    @staticmethod
    def _deliver(way):
        if way.pending:
            sent = way.target.send(way.pending)
            way.pending = way.pending[sent:]
            way.delivered += sent

    # Fates

    def _strike(self, link):
        fate = link.fate
        if self._most_struck is not None and self.counts.total() >= self._most_struck:
            link.limit = float("inf")
            return
        if link.is_struck or fate.kind in ("close", "reset", "vanish"):
            self.counts[fate.kind] += 1
            if fate.kind == "vanish":
                self._vanish(link)
            else:
                self._end(link, is_reset=fate.kind == "reset")
            return
        link.is_struck = True
        if fate.kind == "trickle":
            link.limit += fate.trickled
            link.step = 1
        else:
            link.frozen_until = time.monotonic() + fate.wait_s

    def _thaw(self, link):
        link.frozen_until = None
        if link.fate.kind == "stall":
            self.counts["stall"] += 1
            self._end(link, is_reset=True)
        else:
            link.limit += link.fate.after + 1

    @staticmethod
    def _drop(sock, is_reset):
        if is_reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()

    def _end(self, link, is_reset):
        link.is_dead = True
        self._drop(link.client, is_reset)
        self._drop(link.server, is_reset)

    def _vanish(self, link):
        link.is_dead = True
        self._drop(link.client, True)
        self._vanished.append(link.server)
