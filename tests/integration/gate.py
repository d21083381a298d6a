"""A TCP proxy with a gate: while it is shut, connections are cut and new ones are closed at once."""

import select
import socket
import threading


class Gate:
    """Leads to a port of this machine until close()."""

    def __init__(self, port):
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._is_open, self._is_over = True, False
        self._links = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def shut(self):
        with self._lock:
            self._is_open = False
            for sock in self._links:
                sock.close()
            self._links.clear()

    def open(self):
        self._is_open = True

    def close(self):
        self._is_over = True
        self._thread.join()
        self.shut()
        self._listener.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _run(self):
        while not self._is_over:
            with self._lock:
                readers = [self._listener, *self._links]
            try:
                readable = select.select(readers, [], [], 0.05)[0]
            except (OSError, ValueError):  # the gate was shut meanwhile
                continue
            with self._lock:
                for sock in readable:
                    self._serve(sock)

    def _serve(self, sock):
        if sock is self._listener:
            client = sock.accept()[0]
            if not self._is_open:
                client.close()
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            self._links.update({client: server, server: client})
            return
        other = self._links.get(sock)
        if other is None:
            return
        try:
            data = sock.recv(65536)
            if data:
                other.sendall(data)
                return
        except OSError:
            pass
        for one in (sock, other):
            self._links.pop(one, None)
            one.close()
