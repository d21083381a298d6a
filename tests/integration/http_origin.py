"""A small HTTP/1.1 server for tests, whose answers are written by hand, byte for byte.

`origin.on(path, fn)` has `fn(request, sock)` answer; what it returns is sent, and False closes the connection. Without
a handler a request is answered with its own contents, as JSON. All requests are kept in `origin.requests`.
"""

import collections
import json
import queue
import socket
import ssl
import threading

Request = collections.namedtuple("Request", "method target headers body")


def response(status=200, headers=(), body=b""):
    """`headers` are bytes or text, without line ends; the length is added."""
    lines = [b"HTTP/1.1 %d Reason" % status]
    lines += [h if isinstance(h, bytes) else h.encode() for h in headers]
    lines += [b"content-length: %d" % len(body)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


class Origin:
    def __init__(self, host="127.0.0.1", tls=None):
        self.listener = socket.create_server((host, 0))
        self.port = self.listener.getsockname()[1]
        self.tls = tls
        self.url = f"{'https' if tls else 'http'}://{host}:{self.port}"
        self.requests = []
        self.arrived = queue.Queue()
        self.handlers = {}
        self._socks = set()
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def on(self, path, handler):
        self.handlers[path] = handler

    def close(self):
        # The thread must have left accept before the descriptor is free: it would accept for whoever gets the number next.
        self.listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self.listener.close()
        for sock in list(self._socks):
            sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        try:
            if self.tls:
                sock = self.tls.wrap_socket(sock, server_side=True)
            self._socks.add(sock)
            with sock, sock.makefile("rb") as stream:
                while self._serve_one(sock, stream):
                    pass
        except (OSError, ssl.SSLError):
            pass
        finally:
            self._socks.discard(sock)

    def _serve_one(self, sock, stream):
        line = stream.readline()
        if not line:
            return False
        method, target, _ = line.decode("latin-1").split()
        headers = []
        while (line := stream.readline().rstrip(b"\r\n")):
            name, _, value = line.decode("latin-1").partition(":")
            headers.append((name.lower(), value.strip()))
        body = stream.read(int(dict(headers).get("content-length", 0)))
        request = Request(method, target, headers, body)
        self.requests.append(request)
        self.arrived.put(request)
        handler = self.handlers.get(target.split("?")[0], self.echo)
        answer = handler(request, sock)
        if isinstance(answer, bytes):
            sock.sendall(answer)
        return answer is not False

    @staticmethod
    def echo(request, _sock):
        if request.method == "HEAD":
            return b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n"
        said = {"method": request.method, "target": request.target, "headers": request.headers,
                "body": request.body.decode("latin-1")}
        return response(body=json.dumps(said).encode())
