"""`wss://` URLs against a real TLS server: nginx in front of `farhand serve`, configured as the README says, with certificates that are good,
expired, for another name and of an unknown authority; cut in the handshake, and restarted under a session."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading

import pytest

from farhand_client import BIN, PATIENCE, Server, merged_env, wait_until
from test_cmd_run import CLEAN, SECONDS
from test_wss import NO_PROXY, Authority, run

NGINX = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
pytestmark = [
    pytest.mark.skipif(not os.path.exists(os.path.join(os.path.dirname(BIN), "farhand-net")), reason="farhand-net was not built"),
    pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl to make certificates with"),
    pytest.mark.skipif(not NGINX, reason="no nginx"),
]
# Everything that nginx writes lies in its own prefix; the location is that of the README.
CONFIG = """
daemon off;
worker_processes 1;
{user}
pid {base}/pid;
error_log {base}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {base}/t1;
    proxy_temp_path {base}/t2;
    fastcgi_temp_path {base}/t3;
    uwsgi_temp_path {base}/t4;
    scgi_temp_path {base}/t5;
    server {{
        listen 127.0.0.1:{port} ssl;
        server_name localhost;
        ssl_certificate {cert}.pem;
        ssl_certificate_key {cert}.key;

        location / {{
            proxy_pass http://127.0.0.1:{target};
            proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection "upgrade";
            proxy_buffering off;
            proxy_read_timeout 1d;
        }}
    }}
}}
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Nginx:
    """An nginx with a prefix of its own, that passes connections on to `target`. It can be ended and begun again on its port."""

    def __init__(self, base, cert, target):
        self.base, self.cert, self.target = base, cert, target
        self.port = self.proc = None

    def choose_port(self):
        self.port = free_port()
        with open(f"{self.base}/nginx.conf", "w", encoding="utf-8") as f:
            f.write(CONFIG.format(base=self.base, port=self.port, cert=self.cert, target=self.target,
                                  user="user root;" if os.geteuid() == 0 else ""))

    def is_listening(self):
        assert self.proc.poll() is None, self.log()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def log(self):
        with open(f"{self.base}/error.log", encoding="utf-8", errors="replace") as f:
            return f.read()

    def begin(self):
        self.proc = subprocess.Popen([NGINX, "-p", self.base, "-c", f"{self.base}/nginx.conf", "-e", f"{self.base}/error.log"],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self.is_listening, 30, what="nginx")

    def end(self):
        """SIGTERM: nginx ends at once, with every connection."""
        self.proc.terminate()
        self.proc.wait(SECONDS)

    def __enter__(self):
        for attempt in range(5):  # somebody else may have taken the port meanwhile
            try:
                self.choose_port()
                self.begin()
                return self
            except AssertionError:
                if attempt == 4:
                    raise
        return None

    def __exit__(self, *exc):
        self.end()


@pytest.fixture(scope="module")
def ours():
    with tempfile.TemporaryDirectory(prefix="fh-ca-") as folder:
        yield Authority(folder, "ours")


@pytest.fixture(scope="module")
def server():
    with Server() as s:
        yield s


@contextlib.contextmanager
def nginx_for(authority, name, target, **certificate):
    authority.context(name, **certificate)
    with tempfile.TemporaryDirectory(prefix="fh-nginx-") as base, Nginx(base, f"{authority.folder}/{name}", target) as nginx:
        yield nginx


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_good_certificate(ours, server, host):
    with nginx_for(ours, "good-" + host, server.port) as nginx:
        done = run(nginx.port, ours.cert, "sh", "-c", "cat; exit 4", host=host, stdin=b"hello")
        assert (done.returncode, done.stdout, done.stderr) == (4, b"hello", b"")
        data = os.urandom(4_000_000)
        assert run(nginx.port, ours.cert, "cat", host=host, stdin=data).stdout == data


@pytest.mark.parametrize("what, says", [("expired", b"expired"), ("wrong name", b"localhost"), ("unknown authority", b"certificate")])
def test_bad_certificates_are_refused_in_words(ours, server, what, says):
    with tempfile.TemporaryDirectory(prefix="fh-ca-") as folder:
        authority = Authority(folder, "theirs") if what == "unknown authority" else ours
        with nginx_for(authority, "bad-" + what.replace(" ", "-"), server.port,
                       names="DNS:elsewhere" if what == "wrong name" else "DNS:localhost",
                       until="20210101000000Z" if what == "expired" else None) as nginx:
            done = run(nginx.port, ours.cert, "touch", f"{folder}/made")
            assert (done.returncode, done.stdout) == (255, b"") and not os.path.exists(f"{folder}/made")
            assert done.stderr.startswith(b"farhand: no TLS connection: ") and says in done.stderr, done.stderr
            assert done.stderr.count(b"\n") == 1


@contextlib.contextmanager
def cut_before(port, after):
    """Passes on what the client says and `after` bytes of what the TLS server at `port` answers, and closes both ends."""
    listener = socket.create_server(("127.0.0.1", 0))

    def carry(client):
        with contextlib.suppress(OSError), client, socket.create_connection(("127.0.0.1", port)) as server:
            server.sendall(client.recv(65536))
            left = after
            while left > 0 and (data := server.recv(left)):
                client.sendall(data)
                left -= len(data)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=carry, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.mark.parametrize("after", [0, 3, 200])
def test_a_handshake_of_nginx_that_is_cut(ours, server, after):
    with nginx_for(ours, f"cut-{after}", server.port) as nginx, cut_before(nginx.port, after) as port:
        done = run(port, ours.cert, "true")
        assert done.returncode == 255 and done.stderr.startswith(b"farhand: no TLS connection: ") and done.stderr.count(b"\n") == 1


def test_a_server_that_is_not_there_behind_nginx(ours):
    with nginx_for(ours, "nobody", free_port()) as nginx:
        done = run(nginx.port, ours.cert, "true")
        assert done.returncode == 255 and b"502" in done.stderr and done.stderr.count(b"\n") == 1


def test_a_session_goes_on_when_nginx_was_restarted(ours, server):
    env = merged_env({**CLEAN, **NO_PROXY, "SSL_CERT_FILE": ours.cert, "SSL_CERT_DIR": None})
    with tempfile.TemporaryDirectory(prefix="fh-go-") as at, nginx_for(ours, "again", server.port) as nginx:
        script = f"echo begun; until test -e {at}/go; do sleep 0.05; done; seq 1 2000; exit 6"
        with subprocess.Popen([BIN, "run", "--url", f"wss://localhost:{nginx.port}", "--", "sh", "-c", script], env=env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as proc:
            try:
                assert proc.stdout.readline() == b"begun\n"
                nginx.end()
                assert b"trying to resume" in proc.stderr.readline()
                with open(f"{at}/go", "w", encoding="utf-8"):
                    pass
                nginx.begin()
                out, err = proc.communicate(timeout=25 * PATIENCE + SECONDS)
            finally:
                proc.kill()
        assert (proc.returncode, out, err) == (6, b"".join(b"%d\n" % n for n in range(1, 2001)), b"farhand: resumed\n")
