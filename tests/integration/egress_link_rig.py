"""farhand-egress by itself: this file plays the server's part of the link, so that the program is tested without one."""

import collections
import os
import resource
import socket
import struct
import subprocess

from farhand_client import BIN, PATIENCE

PROGRAMS = [os.path.join(os.path.dirname(BIN), place, "farhand-egress") for place in ("../libexec/farhand", ".")]
PROGRAM = next((path for path in PROGRAMS if os.access(path, os.X_OK)), None)

ALLOW, DENY, ASK = range(3)
HTTP, CONNECT, SOCKS = range(3)
PROTOCOLS = 6
HTTP_LISTENER, SOCKS_LISTENER, DNS_UDP, DNS_LISTENER, PORT_LISTENER = range(5)
TYPES = {"open": 1, "rules": 2, "close": 3, "answer": 4, "ping": 5,
         "ask": 65, "withdrawn": 66, "decided": 67, "ended": 68, "closed": 69, "pong": 70}
NAMES = {number: name for name, number in TYPES.items()}

Message = collections.namedtuple("Message", "type network fields")


def text(value):
    raw = value.encode()
    return struct.pack("<I", len(raw)) + raw


def policy(*rules, limited=False, local=False, socks=True, questions=False, strict=False, upstream=False,
           reviews=()):
    """The policy as OPEN carries it. A rule is (action, host)."""
    out = struct.pack("<8B", 1, limited, False, local, upstream, socks, questions, strict)
    out += struct.pack("<I", len(rules))
    for action, host in rules:
        out += struct.pack("<B", action) + text(host) + struct.pack("<BIII", 0, 0, 0, 0)
    return out + struct.pack("<I", len(reviews)) + b"".join(text(r) for r in reviews)


def memfd(data):
    fd = os.memfd_create("policy", os.MFD_CLOEXEC)
    os.write(fd, data)
    return fd


class Fields:
    def __init__(self, data):
        self.data = data

    def number(self, size):
        value, self.data = int.from_bytes(self.data[:size], "little"), self.data[size:]
        return value

    def text(self):
        size = self.number(4)
        value, self.data = self.data[:size], self.data[size:]
        return value.decode()


def read(packet):
    version, kind, zero = struct.unpack("<BBH", packet[:4])
    assert (version, zero) == (1, 0)
    f = Fields(packet[4:])
    name = NAMES[kind]
    network = None if name == "pong" else f.number(4)
    fields = {}
    if name == "ask":
        fields = {"question": f.number(4), "protocol": f.number(1), "port": f.number(2), "host": f.text()}
    elif name == "withdrawn":
        fields = {"question": f.number(4)}
    elif name == "decided":
        fields = {"count": f.number(4), "time_ms": f.number(8), "action": f.number(1), "source": f.number(1),
                  "protocol": f.number(1), "flags": f.number(1), "port": f.number(2), "reason": f.text(),
                  "host": f.text(), "method": f.text(), "client": f.text()}
    elif name == "ended":
        fields = {"protocol": f.number(1), "port": f.number(2), "action": f.number(1), "host": f.text(),
                  "address": f.text(), "rule": f.text(), "reason": f.text(), "up": f.number(8), "down": f.number(8),
                  "time_ms": f.number(8), "took_ms": f.number(4)}
    assert not f.data, (name, packet)
    return Message(name, network, fields)


class Network:
    """A command's network, with an HTTP and a SOCKS listener on this machine."""

    def __init__(self, egress, number, *rules, **options):
        self.egress, self.number = egress, number
        self.listeners = [socket.create_server(("127.0.0.1", 0), backlog=1024) for _ in range(2)]
        self.http, self.socks = [s.getsockname() for s in self.listeners]
        egress.send("open", number, struct.pack("<IBHBH", 2, HTTP_LISTENER, 0, SOCKS_LISTENER, 0),
                    policy(*rules, **options), self.listeners)

    def rules(self, *rules, **options):
        self.egress.send("rules", self.number, b"", policy(*rules, **options))

    def close(self):
        self.egress.send("close", self.number)

    def answer(self, question, action, reason="", remember=0, ttl_ms=0):
        self.egress.send("answer", self.number, struct.pack("<IBBI", question, action, remember, ttl_ms) + text(reason))

    def next(self, kind):
        return self.egress.next(kind, self.number)

    def connect(self, which="http", timeout=10):
        sock = socket.create_connection(getattr(self, which), timeout=timeout * PATIENCE)
        return sock

    def ask(self, raw, timeout=10):
        """Sends bytes on a new connection and returns all that comes back."""
        with self.connect(timeout=timeout) as sock:
            sock.sendall(raw)
            return drain(sock)

    def tunnel(self, port, host="127.0.0.1"):
        sock = self.connect()
        sock.sendall(b"CONNECT %s:%d HTTP/1.1\r\n\r\n" % (host.encode(), port))
        head = until(sock, b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n"), head
        return sock


class Egress:
    def __init__(self, env=None, descriptors=None):
        self.link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link.settimeout(20 * PATIENCE)
        os.set_inheritable(theirs.fileno(), True)

        def prepare():
            os.dup2(theirs.fileno(), 3)
            if descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        self.process = subprocess.Popen(  # all other descriptors of Python are close-on-exec
            [PROGRAM, "--serve"], close_fds=False, preexec_fn=prepare,
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)
        theirs.close()
        self.kept = []
        self.networks = 0

    def send(self, kind, network=0, payload=b"", policy_bytes=None, sockets=()):
        packet = struct.pack("<BBH", 1, TYPES[kind], 0) + payload
        if kind != "ping":
            packet = packet[:4] + struct.pack("<I", network) + packet[4:]
        fds = [] if policy_bytes is None else [memfd(policy_bytes)]
        try:
            socket.send_fds(self.link, [packet], fds + [s.fileno() for s in sockets])
        finally:
            for fd in fds:
                os.close(fd)

    def receive(self):
        packet = self.link.recv(65536)
        return read(packet) if packet else None

    def next(self, kind, network=None):
        """The next message of this kind; others stay for later."""
        def fits(m):
            return m.type == kind and network in (None, m.network)
        for m in self.kept:
            if fits(m):
                self.kept.remove(m)
                return m.fields
        while True:
            m = self.receive()
            assert m, "farhand-egress has ended"
            if fits(m):
                return m.fields
            self.kept.append(m)

    def pulse(self):
        """Returns when everything that was sent before has been taken."""
        self.send("ping")
        self.next("pong")

    def network(self, *rules, **options):
        self.networks += 1
        return Network(self, self.networks, *rules, **options)

    def end(self):
        self.link.close()
        _, errors = self.process.communicate(timeout=20 * PATIENCE)
        return self.process.returncode, errors.decode()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        code, errors = self.end()
        if kind is None:
            assert code == 0, errors
            assert "Sanitizer" not in errors, errors


def drain(sock):
    """What comes until the other side ends; a reset is an end, too."""
    got = b""
    while True:
        try:
            piece = sock.recv(65536)
        except ConnectionResetError:
            return got
        if not piece:
            return got
        got += piece


def until(sock, mark):
    got = b""
    while mark not in got:
        piece = sock.recv(1 if len(mark) > 1 else 65536)
        if not piece:
            return got
        got += piece
    return got


def exactly(sock, size):
    got = b""
    while len(got) < size:
        piece = sock.recv(size - len(got))
        if not piece:
            return got
        got += piece
    return got
