"""A farhand-egress that does what the test tells it: for tests of the server's end alone, and of a farhand-egress that is an enemy.

The program in its place passes every packet between the server and the test on, descriptors too. FakeEgress makes a copy of the server
with that program beside it, and is the other end of its messages: one Link for each time that the program was started.
"""

import array
import os
import shutil
import socket
import struct
import time

from farhand_client import BIN, PATIENCE

OPEN, RULES, CLOSE, ANSWER, PING, ASK, WITHDRAWN, DECIDED, ENDED, CLOSED, PONG = 1, 2, 3, 4, 5, 65, 66, 67, 68, 69, 70
ACTIONS = ["allow", "deny", "ask"]
SOURCES = ["baseline_policy", "decider", "mode_guard", "proxy_state"]
PROTOCOLS = ["http", "https_connect", "socks5_tcp", "socks5_udp", "tcp", "dns"]
HEAD = struct.Struct("<BBHI")

PROGRAM = """#!/usr/bin/python3 -IS
import array, select, socket
server = socket.socket(fileno=3)
server.setblocking(True)
test = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
test.connect(%r)
while True:
    for a in select.select([server, test], [], [])[0]:
        data, control, _, _ = a.recvmsg(65536, 4096)
        if not data:
            raise SystemExit
        (test if a is server else server).sendmsg([data], control)
        for _, _, fds in control:
            for fd in array.array("i", fds):
                socket.close(fd)
"""  # it is executed through its descriptor: -IS keeps it from the test's modules


def parent_of(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
            return int(f.read().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def packed(text):
    return struct.pack("<I", len(text.encode())) + text.encode()


class Link:
    """The messages of one farhand-egress. PINGs are answered as long as somebody waits for a message."""

    def __init__(self, sock):
        self.sock = sock
        self.messages = []
        self.sockets = {}  # by network
        self.policies = {}

    def _take(self, seconds):
        """Reads one message into `messages`; an empty dict when the server has closed the socket."""
        self.sock.settimeout(seconds)
        fds = array.array("i")
        data, control, _, _ = self.sock.recvmsg(65536, 4096)
        for _, _, got in control:
            fds.frombytes(got)
        if not data:
            self.messages.append({})
            return
        if data[1] == PING:
            self.send_raw(struct.pack("<BBH", 1, PONG, 0))
            return
        _, kind, _, network = HEAD.unpack_from(data)
        message = {"type": kind, "network": network, "body": data[HEAD.size:]}
        if kind == OPEN:
            count = struct.unpack_from("<I", data, HEAD.size)[0]
            message["inlets"] = [struct.unpack_from("<BH", data, HEAD.size + 4 + 3 * i) for i in range(count)]
            self.policies[network] = os.pread(fds[0], 1 << 20, 0)
            os.close(fds[0])
            self.sockets[network] = [socket.socket(fileno=fd) for fd in fds[1:]]
            assert len(self.sockets[network]) == count
        elif kind == ANSWER:
            question, action, remember, ttl_ms = struct.unpack_from("<IBBI", message["body"])
            message.update(question=question, action=ACTIONS[action], remember=remember, ttl_ms=ttl_ms,
                           reason=message["body"][14:].decode())
        elif kind == CLOSE:
            self.close_network(network)
        self.messages.append(message)

    def next(self, kind=None, timeout=10):
        """The next message (of this kind; others before it are dropped)."""
        deadline = time.monotonic() + timeout * PATIENCE
        while True:
            while self.messages:
                message = self.messages.pop(0)
                if kind is None or message.get("type") == kind or not message:
                    return message
            self._take(max(0.001, deadline - time.monotonic()))

    def ended(self, timeout=10):
        """Waits until the server has closed the socket."""
        while self.next(timeout=timeout):
            pass

    def send_raw(self, data):
        self.sock.send(data)

    def send(self, kind, network, body=b""):
        self.send_raw(HEAD.pack(1, kind, 0, network) + body)

    def ask(self, network, question, host="a.test", port=80, protocol="http"):
        self.send(ASK, network, struct.pack("<IBH", question, PROTOCOLS.index(protocol), port) + packed(host))

    def withdraw(self, network, question):
        self.send(WITHDRAWN, network, struct.pack("<I", question))

    def decided(self, network, host="a.test", action="allow", source="baseline_policy", reason="allow", protocol="http", port=80,
                count=1, flags=4, method="GET", time_ms=1795000000123, client="127.0.0.1:5"):
        self.send(DECIDED, network, struct.pack("<IQBBBBH", count, time_ms, ACTIONS.index(action), SOURCES.index(source),
                                                PROTOCOLS.index(protocol), flags, port)
                  + packed(reason) + packed(host) + packed(method) + packed(client))

    def connection(self, network, host="a.test"):
        self.send(ENDED, network, struct.pack("<BHB", 0, 80, 0) + packed(host) + packed("[1.2.3.4]:80") + packed(host) + packed("allow")
                  + struct.pack("<QQQI", 10, 20, 1795000000123, 7))

    def close_network(self, network):
        for one in self.sockets.pop(network, []):
            one.close()

    def close(self):
        for network in list(self.sockets):
            self.close_network(network)
        self.sock.close()


class FakeEgress:
    """`binary` is the server to run. A context manager."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "control")
        self.binary = os.path.join(folder, "bin", "farhand")
        os.makedirs(os.path.join(folder, "bin"))
        for name in ("farhand", "farhand-init"):
            if os.path.exists(os.path.join(os.path.dirname(BIN), name)):
                shutil.copy(os.path.join(os.path.dirname(BIN), name), os.path.join(folder, "bin", name))
        program = os.path.join(folder, "bin", "farhand-egress")
        with open(program, "w", encoding="ascii") as f:
            f.write(PROGRAM % self.path)
        os.chmod(program, 0o755)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.path)
        self.listener.listen(8)
        self.links = []

    def link(self, server, timeout=15):
        """The link of the farhand-egress that this server has started next. Those of servers that have ended come late, too."""
        self.listener.settimeout(timeout * PATIENCE)
        while True:
            sock, _ = self.listener.accept()
            pid = struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            if parent_of(pid) == server.pid:
                break
            sock.close()
        self.links.append(Link(sock))
        return self.links[-1]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for link in self.links:
            link.close()
        self.listener.close()
