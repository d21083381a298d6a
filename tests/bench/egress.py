#!/usr/bin/python3
"""egress.py [--rounds N] [--bare] [--json FILE]: what the way through farhand-egress costs, beside a direct connection to the same server.

Rows: a small request on a connection of its own, through CONNECT and as plain HTTP; a request on a connection that is kept; much data through a
tunnel. Direct and proxied ones take turns, so that both meet the same machine; medians are compared. On a busy machine: chrt -r 10.

The server is the one of Python's library, as ordinary as any; the goals are about it. With --bare it is a loop that parses nothing, so that the
figures are those of the kernel and of farhand-egress alone: two more wake-ups each way cannot cost less than twice of none.
"""

import argparse
import contextlib
import http.server
import json
import os
import socket
import statistics
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "integration"))

from egress_link_rig import ALLOW, Egress  # noqa: E402

BODY = b"x" * 100
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + BODY
BULK = 256 << 20
PIECE = b"b" * (1 << 18)
GOALS = {"connect": 1.6, "http": 1.8, "kept": 1.3, "bulk": 0.5}


def serve(listener):
    """Answers each request; /bulk with BULK bytes. Runs in a process of its own, for one client at a time."""
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with sock:
            while request := sock.recv(65536):
                if b"/bulk" not in request:
                    sock.sendall(ANSWER)
                    continue
                for _ in range(BULK // len(PIECE)):
                    sock.sendall(PIECE)
                break


class Ordinary(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_):
        pass


def forked(serve_one):
    """A server in a process of its own. Returns its port and its pid."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    pid = os.fork()
    if pid == 0:
        serve_one(listener)
    port = listener.getsockname()[1]
    listener.close()
    return port, pid


def serve_ordinary(listener):
    server = http.server.ThreadingHTTPServer(listener.getsockname(), Ordinary, bind_and_activate=False)
    server.socket = listener
    server.serve_forever()


def connect(address):
    sock = socket.create_connection(address)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def exchange(sock, request):
    sock.sendall(request)
    got = b""
    while not got.endswith(BODY):
        got += sock.recv(65536)


def tunnel(net, port):
    sock = connect(net.http)
    sock.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % port)
    sock.recv(4096)
    return sock


def timed(fn, *args):
    began = time.perf_counter()
    fn(*args)
    return time.perf_counter() - began


def one(make, request):
    with make() as sock:
        exchange(sock, request)


def bulk(make):
    buffer = bytearray(1 << 20)
    with make() as sock:
        sock.sendall(b"GET /bulk HTTP/1.1\r\n\r\n")
        while sock.recv_into(buffer):
            pass


def measure(net, port, bulk_port, rounds):
    here = ("127.0.0.1", port)
    plain = b"GET /x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port
    absolute = plain.replace(b"/x", b"http://127.0.0.1:%d/x" % port)

    def direct():
        return connect(here)

    def proxied():
        return connect(net.http)

    def through():
        return tunnel(net, port)
    samples = {name: ([], []) for name in GOALS}
    for _ in range(rounds):
        for name, way, request in (("connect", through, plain), ("http", proxied, absolute)):
            samples[name][0].append(timed(one, direct, plain))
            samples[name][1].append(timed(one, way, request))
    for way, request, column in ((direct, plain, 0), (proxied, absolute, 1)) * 4:
        with way() as sock:
            exchange(sock, request)
            for _ in range(rounds):
                samples["kept"][column].append(timed(exchange, sock, request))
    for _ in range(max(3, rounds // 60)):
        samples["bulk"][0].append(BULK / timed(bulk, lambda: connect(("127.0.0.1", bulk_port))) / 1e9)
        samples["bulk"][1].append(BULK / timed(bulk, lambda: tunnel(net, bulk_port)) / 1e9)
    return samples


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    bulk_port, bulk_server = forked(serve)
    port, server = (bulk_port, None) if args.bare else forked(serve_ordinary)
    results = {}
    with Egress() as egress:
        net = egress.network((ALLOW, "127.0.0.1"))
        reader = threading.Thread(target=read_reports, args=(egress.link,), daemon=True)
        reader.start()
        samples = measure(net, port, bulk_port, args.rounds)
        egress.link.shutdown(socket.SHUT_RDWR)
        reader.join()
    for name, (direct, proxied) in samples.items():
        a, b = statistics.median(direct), statistics.median(proxied)
        results[name] = {"direct": a, "proxied": b, "ratio": b / a, "goal": GOALS[name]}
        shown = f"{a:8.2f} GB/s {b:8.2f} GB/s" if name == "bulk" else f"{a * 1e6:8.0f} us   {b * 1e6:8.0f} us  "
        print(f"{name:8} {shown} ratio {b / a:5.2f} (goal {GOALS[name]})")
    for pid in filter(None, (server, bulk_server)):
        os.kill(pid, 9)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1)


def read_reports(link):
    """Somebody must read them, or nothing more is accepted."""
    with contextlib.suppress(OSError):
        while link.recv(65536):
            pass


if __name__ == "__main__":
    main()
