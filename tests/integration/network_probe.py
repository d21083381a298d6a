"""Runs inside a managed network as the command: makes the requests that it is given and prints what came of each.

argv[1] is a list of steps as JSON, the output a list of results. A step names one of the functions below in `do`; their words are
`http`, `connect`, `socks`, `direct`, `env`. An answer is read as far as it says it goes, so that nothing waits for a timeout.
"""

import errno
import json
import os
import socket
import sys
import threading
import time


def proxy_of(variable):
    host, _, port = os.environ[variable].rpartition("/")[2].rpartition(":")
    return host, int(port)


def name_of(error):
    if isinstance(error, TimeoutError) and error.errno is None:
        return "timeout"
    return errno.errorcode.get(error.errno, type(error).__name__) if isinstance(error, OSError) else type(error).__name__


class Reply:
    """Bytes of a connection as they come; `end` says how it ended, if it did."""

    def __init__(self, sock):
        self.sock, self.data, self.end = sock, b"", None

    def more(self, enough):
        """Reads until enough(data), the end, or the timeout of the socket."""
        while self.end is None and not enough(self.data):
            try:
                got = self.sock.recv(65536)
            except OSError as error:
                self.end = name_of(error)
                break
            self.data += got
            if not got:
                self.end = "eof"
        return self.data


def is_whole(data, is_head=False):
    """Whether an HTTP answer is all there. One that says nothing of its length goes on until the end."""
    head, mark, body = data.partition(b"\r\n\r\n")
    if not mark:
        return False
    headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    if is_head:
        return True
    if b"content-length" in headers:
        return len(body) >= int(headers[b"content-length"])
    if b"chunked" in headers.get(b"transfer-encoding", b""):
        return body.endswith(b"0\r\n\r\n")
    return False


def do_http(raw, variable="HTTP_PROXY", timeout=10, is_head=False, until_end=False, show=4000, pieces=None,
            pad=0):
    """`pieces`: the bytes come in so many, with a moment between them; `pad`: how many bytes stand for @PAD@."""
    with socket.create_connection(proxy_of(variable), timeout=timeout) as sock:
        data = raw.replace("@PAD@", "x" * pad).encode("latin-1")
        size = -(-len(data) // (pieces or 1)) or 1
        try:
            for at in range(0, len(data), size):
                sock.sendall(data[at:at + size])
                if pieces:
                    time.sleep(0.01)
        except OSError as error:
            if not isinstance(error, (ConnectionResetError, BrokenPipeError)):
                raise
        reply = Reply(sock)
        reply.more(lambda data: not until_end and is_whole(data, is_head))
        return {"text": reply.data[:show].decode("latin-1"), "size": len(reply.data), "end": reply.end}


def do_connect(to, payload="ping", expect="E:ping", headers=None, raw=None, timeout=10, before=False):
    """CONNECT, then a payload and its echo. `before`: the payload does not wait for the answer. `end` is how it ended, if it did."""
    with socket.create_connection(proxy_of("HTTP_PROXY"), timeout=timeout) as sock:
        request = raw or f"CONNECT {to} HTTP/1.1\r\nHost: {headers or to}\r\n\r\n"
        sock.sendall(request.encode("latin-1") + (payload.encode("latin-1") if before else b""))
        reply = Reply(sock)
        reply.more(lambda data: is_whole(data, data.startswith(b"HTTP/1.1 200")))
        if not reply.data.startswith(b"HTTP/1.1 200"):
            return {"text": reply.data.decode("latin-1"), "end": reply.end}
        head, _, rest = reply.data.partition(b"\r\n\r\n")
        reply.data = rest
        if not before and payload:
            try:
                sock.sendall(payload.encode("latin-1"))
            except OSError as error:
                return {"text": head.decode() + "\r\n\r\n", "end": name_of(error), "echo": ""}
        reply.more(lambda data: len(data) >= len(expect))
        return {"text": head.decode() + "\r\n\r\n", "echo": reply.data.decode("latin-1"), "end": reply.end}


def address_bytes(host, atyp):
    if atyp == 1:
        return socket.inet_aton(host)
    if atyp == 4:
        return socket.inet_pton(socket.AF_INET6, host)
    return bytes([len(host)]) + host.encode()


def do_socks(host, port, atyp=3, cmd=1, payload="hi", expect="E:hi", timeout=10, methods="00", raw=None):
    """One SOCKS5 request: `greeting` and `reply` in hex; after success the echo of the payload."""
    with socket.create_connection(proxy_of("ALL_PROXY"), timeout=timeout) as sock:
        offered = bytes.fromhex(methods)
        sock.sendall(b"\x05" + bytes([len(offered)]) + offered)
        reply = Reply(sock)
        greeting = reply.more(lambda data: len(data) >= 2)
        if greeting[:2] != b"\x05\x00":
            return {"greeting": greeting.hex(), "end": reply.end}
        reply.data = b""
        sock.sendall(bytes.fromhex(raw) if raw else
                     b"\x05" + bytes([cmd]) + b"\x00" + bytes([atyp]) + address_bytes(host, atyp) + int(port).to_bytes(2, "big"))
        reply.more(lambda data: len(data) >= 4 and len(data) >= {1: 10, 4: 22, 3: 7 + data[4] if len(data) > 4 else 99}.get(data[3], 4))
        answer, reply.data = reply.data, b""
        result = {"greeting": greeting.hex(), "reply": answer.hex(), "end": reply.end}
        if answer[1:2] == b"\x00" and cmd == 1:
            sock.sendall(payload.encode())
            result["echo"] = reply.more(lambda data: len(data) >= len(expect)).decode("latin-1")
            result["end"] = reply.end
        return result


def do_direct(host, port, kind="stream", family=None, timeout=3, payload="x"):
    """Without the proxy: "connected", "sent", or why not."""
    family = getattr(socket, family) if family else socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM if kind == "dgram" else socket.SOCK_STREAM) as sock:
            sock.settimeout(timeout)
            if kind == "dgram":
                sock.sendto(payload.encode(), (host, port))
                return "sent"
            sock.connect((host, port))
            return "connected"
    except (OSError, UnicodeError) as error:
        return name_of(error)


def do_env(names=None):
    return {k: v for k, v in os.environ.items() if names is None or k in names}


def do_many(steps):
    """All at once."""
    results = [None] * len(steps)

    def one(index):
        results[index] = run(steps[index])

    threads = [threading.Thread(target=one, args=(index,)) for index in range(len(steps))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def run(step):
    step = dict(step)
    step.pop("label", None)
    try:
        return globals()["do_" + step.pop("do")](**step)
    except OSError as error:
        return {"failed": name_of(error)}


if __name__ == "__main__":
    for each in json.loads(sys.argv[1]):
        print(json.dumps(run(each)), flush=True)
