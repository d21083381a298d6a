"""`wss://` URLs: a client behind the TLS helper, and a server behind a TLS end: certificates good and bad, handshakes that are cut, bytes
in both directions."""

import contextlib
import os
import select
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading

import pytest

from farhand_client import BIN, PATIENCE, Server, merged_env
from test_cmd_run import CLEAN, SECONDS

pytestmark = [
    pytest.mark.skipif(not os.path.exists(os.path.join(os.path.dirname(BIN), "farhand-net")), reason="farhand-net was not built"),
    pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl to make certificates with"),
]
NO_PROXY = {name: None for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")}


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, capture_output=True)


class Authority:
    def __init__(self, folder, name):
        self.folder, self.cert, self.key = folder, f"{folder}/{name}.pem", f"{folder}/{name}.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", self.key, "-out",
                self.cert, "-days", "2", "-subj", f"/CN={name}")

    def context(self, name, names="DNS:localhost,IP:127.0.0.1", until=None):
        """A TLS context with a certificate of this authority; `until`: when it has ended, as YYYYMMDDHHMMSSZ."""
        base = f"{self.folder}/{name}"
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", base + ".key", "-out",
                base + ".csr", "-subj", "/CN=localhost")
        with open(base + ".cnf", "w", encoding="utf-8") as f:
            f.write(f"[ca]\ndefault_ca=d\n[d]\ndatabase={base}.db\nserial={base}.srl\nnew_certs_dir={self.folder}\ndefault_md=sha256\n"
                    f"policy=p\nx509_extensions=x\n[p]\ncommonName=supplied\n[x]\nsubjectAltName={names}\n")
        for suffix, text in ((".db", ""), (".srl", "01\n")):
            with open(base + suffix, "w", encoding="utf-8") as f:
                f.write(text)
        dates = ["-startdate", "20200101000000Z", "-enddate", until] if until else ["-days", "2"]
        openssl("ca", "-batch", "-notext", "-config", base + ".cnf", "-cert", self.cert, "-keyfile", self.key, "-in", base + ".csr",
                "-out", base + ".pem", *dates)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(base + ".pem", base + ".key")
        return context


@pytest.fixture(scope="module")
def ours():
    with tempfile.TemporaryDirectory(prefix="fh-ca-") as folder:
        yield Authority(folder, "ours")


@contextlib.contextmanager
def tls_end(context, port, cut_after=None):
    """Listens with TLS and carries bytes to a server on `port`. `cut_after`: closes after so many bytes of a handshake."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(raw):
        with contextlib.suppress(OSError), raw:
            if cut_after is not None:
                raw.recv(cut_after)
                return
            with context.wrap_socket(raw, server_side=True) as outer, socket.create_connection(("127.0.0.1", port)) as inner:
                while True:
                    ready = [outer] if outer.pending() else select.select([outer, inner], [], [])[0]
                    for side, other in ((outer, inner), (inner, outer)):
                        if side in ready:
                            data = side.recv(65536)
                            if not data:
                                return
                            other.sendall(data)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.fixture(scope="module")
def server():
    with Server() as s:
        yield s


def run(port, ca, *argv, host="localhost", stdin=b""):
    env = merged_env({**CLEAN, **NO_PROXY, "SSL_CERT_FILE": ca, "SSL_CERT_DIR": None})
    return subprocess.run([BIN, "run", "--url", f"wss://{host}:{port}", "--", *argv], input=stdin, capture_output=True, env=env,
                          timeout=SECONDS, check=False)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_good_certificate(ours, server, host):
    with tls_end(ours.context("good"), server.port) as port:
        done = run(port, ours.cert, "sh", "-c", "cat; exit 4", host=host, stdin=b"hello")
        assert (done.returncode, done.stdout, done.stderr) == (4, b"hello", b"")


def test_many_bytes_in_both_directions(ours, server):
    data = os.urandom(8_000_000)
    with tls_end(ours.context("bulk"), server.port) as port:
        assert run(port, ours.cert, "cat", stdin=data).stdout == data


@pytest.mark.parametrize("what, says", [("expired", b"expired"), ("wrong name", b"localhost"), ("unknown authority", b"certificate")])
def test_bad_certificates_are_refused_in_words(ours, server, what, says):
    with tempfile.TemporaryDirectory(prefix="fh-ca-") as folder:
        authority = Authority(folder, "theirs") if what == "unknown authority" else ours
        context = authority.context("bad-" + what.replace(" ", "-"), names="DNS:elsewhere" if what == "wrong name" else "DNS:localhost",
                                    until="20210101000000Z" if what == "expired" else None)
        with tls_end(context, server.port) as port:
            done = run(port, ours.cert, "true")
            assert done.returncode == 255 and done.stdout == b""
            assert done.stderr.startswith(b"farhand: no TLS connection: ") and says in done.stderr, done.stderr


@pytest.mark.parametrize("cut_after", [1, 100, 65536])
def test_a_handshake_that_is_cut(ours, server, cut_after):
    with tls_end(None, server.port, cut_after) as port:
        done = run(port, ours.cert, "true")
        assert done.returncode == 255 and done.stderr.startswith(b"farhand: no TLS connection: ")


def test_no_tls_at_all(ours, server):
    done = run(server.port, ours.cert, "true")
    assert done.returncode == 255 and done.stderr.startswith(b"farhand: no TLS connection: ")


def test_nobody_listens(ours):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    done = run(port, ours.cert, "true", host="127.0.0.1")
    assert done.returncode == 255 and done.stderr.startswith(b"farhand: no TLS connection: ")


def test_a_missing_helper_is_told_in_words():
    with tempfile.TemporaryDirectory(prefix="fh-alone-") as folder:
        alone = f"{folder}/farhand"
        shutil.copy(BIN, alone)
        done = subprocess.run([alone, "run", "--url", "wss://localhost:1", "--", "true"], capture_output=True, check=False,
                              env=merged_env(CLEAN), timeout=SECONDS)
        assert done.returncode == 255 and b"needs the helper farhand-net" in done.stderr


def test_the_helper_ends_with_its_client(ours, server):
    """The end of the client's socket is enough, however the client ends."""
    net = os.path.join(os.path.dirname(BIN), "farhand-net")
    with tls_end(ours.context("ends"), server.port) as port:
        a, b = socket.socketpair()
        with a, subprocess.Popen([net, "--tls", "localhost", str(port)], stdin=b, stdout=b,
                                 env=merged_env({**NO_PROXY, "SSL_CERT_FILE": ours.cert})) as proc:
            b.close()
            a.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert a.recv(4096).startswith(b"HTTP/1.1 200")
            a.close()
            assert proc.wait(10 * PATIENCE) == 0
