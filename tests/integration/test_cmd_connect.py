"""`farhand connect`: a door to an environment for programs that know only a URL, and the far end of a connection through ssh."""

import base64
import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import pytest

from cmd_rig import Terminal, cmd_of
from cutting_proxy import KINDS, CuttingProxy
from farhand_client import BIN, PATIENCE, Client, HttpRefused, RawSocket, Server, pid_gone, wait_until
from sandbox_rig import UNPRIVILEGED, become
from test_client_recovery import CONFIG, ECHO
from test_cmd_detached import Desk, desk  # noqa: F401 (a fixture)
from test_cmd_run import SECONDS
from test_wss import NO_PROXY, Authority, tls_end

UPGRADE = (b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
           b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")


# The far end: farhand connect --listen stdio


class Far:
    """A unix socket whose every connection is the stdio of a `farhand connect --listen stdio`, as sshd would start it."""

    def __init__(self, desk):
        self.path, self.desk, self.children = f"{desk.home}/far", desk, []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with sock:
                self.children.append(subprocess.Popen([BIN, "connect", "--listen", "stdio"], stdin=sock, stdout=sock,
                                                      env=self.desk.env))

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for child in self.children:
            child.kill()
            child.wait()


@pytest.fixture
def far(desk):  # noqa: F811
    f = Far(desk)
    yield f
    f.close()


def carry_large(client, path):
    """A message of 16 MiB there, and one back."""
    content = base64.b64encode(os.urandom(12 << 20)).decode()
    client.call("fs/writeFile", {"path": f"file://{path}", "dataBase64": content}, timeout=60)
    assert client.call("fs/readFile", {"path": f"file://{path}"}, timeout=60)["dataBase64"] == content


def test_a_websocket_passes_through_stdio_to_the_background_server(far):
    with Client(f"unix:{far.path}") as client:
        assert client.run(["sh", "-c", "echo out; exit 3"]) == (b"out\n", b"", 3)
    assert far.children[0].wait(SECONDS) == 0


def test_large_messages_pass_through_stdio_both_ways(far):
    with Client(f"unix:{far.path}") as client:
        carry_large(client, f"{far.desk.home}/large")


def test_a_session_is_resumed_through_another_stdio(far):
    with Client(f"unix:{far.path}") as client:
        client.start("p", ["sh", "-c", "read line; echo $line"], pipeStdin=True)
        far.children[0].kill()
        client.closed_code()
    with Client(f"unix:{far.path}", resume=client.session_id) as again:
        again.write("p", b"still here\n")
        assert again.wait_exit("p")["exitCode"] == 0 and again.wait_output("p", b"still here\n")


def test_stdio_on_pipes_ends_when_the_peer_is_gone(desk):  # noqa: F811
    proc = subprocess.Popen([BIN, "connect", "--listen", "stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=desk.env)
    proc.stdin.write(UPGRADE)
    proc.stdin.flush()
    assert proc.stdout.readline() == b"HTTP/1.1 101 Switching Protocols\r\n"
    proc.stdin.close()
    assert proc.stdout.read().endswith(b"\r\n\r\n")
    assert proc.wait(SECONDS) == 0


def test_stdio_ends_when_nobody_reads(desk):  # noqa: F811
    proc = subprocess.Popen([BIN, "connect", "--listen", "stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=desk.env)
    proc.stdin.write(UPGRADE)
    proc.stdin.flush()
    proc.stdout.readline()
    proc.stdout.close()
    assert proc.wait(SECONDS) == 0


def test_stdio_ends_with_the_server(far):
    with Client(f"unix:{far.path}"):
        pid = far.desk.server_pid()
        os.kill(pid, 9)
        pid_gone(pid)
        assert far.children[0].wait(SECONDS) == 0


# The door


class Door:
    """`farhand connect` without a command."""

    def __init__(self, home, *args, env=None):
        self.desk = Desk(home)
        self.env = {name: value for name, value in {**self.desk.env, **(env or {})}.items() if name not in NO_PROXY}
        self.stderr_path = f"{home}/door.stderr"
        with open(self.stderr_path, "wb") as err:
            self.proc = subprocess.Popen([BIN, "connect", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, env=self.env)
        line = self.proc.stdout.readline().decode()
        assert line.endswith("\n"), self.stderr()
        self.json = json.loads(line) if "--json" in args else None
        self.url = self.json["url"] if self.json else line.strip()
        self.base, _, self.token = self.url.rpartition("/")
        self.port = int(self.base.rpartition(":")[2])

    def stderr(self):
        with open(self.stderr_path, encoding="utf-8") as f:
            return f.read()

    def run(self, *argv, stdin=b"", url=None, timeout=SECONDS):
        return subprocess.run([BIN, "run", "--url", url or self.url, "--", *argv], input=stdin, capture_output=True, env=self.env,
                              timeout=timeout, check=False)

    def raw(self):
        return RawSocket(self.port)

    def close(self):
        if self.proc.poll() is None:
            self.proc.terminate()
        assert self.proc.wait(SECONDS) == 0, self.stderr()
        assert "Sanitizer" not in self.stderr() and "runtime error" not in self.stderr(), self.stderr()
        self.proc.stdout.close()
        self.desk.end()

    def __enter__(self):
        return self

    def __exit__(self, kind, *exc):
        if kind:
            self.proc.kill()
            self.proc.wait()
            self.desk.end()
        else:
            self.close()


@pytest.fixture
def home():
    with tempfile.TemporaryDirectory(prefix="fh-door-", dir="/tmp") as path:
        yield path


@pytest.fixture
def server():
    with Server() as s:
        yield s


def program(home):
    with open(f"{home}/environments.toml", "w", encoding="utf-8") as f:
        f.write(f'[[environments]]\nid = "p"\nprogram = "{BIN}"\nargs = ["serve", "--listen", "stdio"]\n')
    return "p"


@contextlib.contextmanager
def door_to(kind, home):
    """A door to an environment of each kind."""
    with contextlib.ExitStack() as stack:
        env = None
        if kind == "local":
            args = []
        elif kind == "program":
            args = [program(home)]
        elif kind == "unix":
            args = [stack.enter_context(Server(listen=f"unix:{home}/socket")).url]
        elif kind == "wss":
            if not shutil.which("openssl") or not os.path.exists(os.path.join(os.path.dirname(BIN), "farhand-net")):
                pytest.skip("no openssl to make certificates with, or farhand-net was not built")
            authority = Authority(home, "ours")
            port = stack.enter_context(tls_end(authority.context("server"), stack.enter_context(Server()).port))
            args, env = [f"wss://localhost:{port}"], {"SSL_CERT_FILE": authority.cert}
        else:
            args = [stack.enter_context(Server()).url]
        yield stack.enter_context(Door(home, *args, env=env))


@pytest.fixture(params=["ws", "unix", "wss", "local", "program"])
def door(request, home):
    with door_to(request.param, home) as d:
        d.kind = request.param
        yield d


@pytest.fixture
def ws_door(home):
    with door_to("ws", home) as d:
        yield d


# Every kind of environment


def test_a_command_runs_through_the_door(door):
    done = door.run("sh", "-c", "cat; echo err >&2; exit 7", stdin=b"in")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"in", b"err\n")


def test_large_messages_pass_both_ways(door, home):
    with Client(door.url) as client:
        carry_large(client, f"{home}/large")


def test_pings_and_fragments_pass(door):
    with Client(door.url) as client:
        client.ping(b"are you there")
        client.wait_pong(b"are you there")
        request = json.dumps({"id": 77, "method": "environment/info", "params": {}}, indent=1).encode()
        client.send_fragments([request[i:i + 3] for i in range(0, len(request), 3)])
        assert "result" in client.response(77)


def test_a_close_is_answered(door):
    with Client(door.url) as client:
        assert client.close(1000) == 1000


def test_several_connections_at_once(door):
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(door.url)) for _ in range(5)]
        for i, client in enumerate(clients):
            client.start("p", ["sh", "-c", f"echo {i}"])
        for i, client in enumerate(clients):
            client.wait_output("p", b"%d\n" % i)


# Who gets in


def refusal(door, path="/", extra=(), **kw):
    with door.raw() as raw:
        answer = raw.http(RawSocket.upgrade_request(path, extra, **kw))
        assert raw.eof() == b""
        return answer[0]


def test_only_the_token_opens(ws_door):
    wrong = ("0" if ws_door.token[0] != "0" else "1") + ws_door.token[1:]
    assert len(ws_door.token) == 64 and set(ws_door.token) <= set("0123456789abcdef")
    for path in ("/", "/" + wrong, "/" + ws_door.token[:-1], "/" + ws_door.token + "0", f"/x/{ws_door.token}", f"/{ws_door.token}/",
                 f"/?{ws_door.token}", "/readyz", "*"):
        assert refusal(ws_door, path) == 401, path
    for header in (f"Authorization: Bearer {wrong}", "Authorization: Bearer", f"Authorization: Basic {ws_door.token}",
                   f"Authorization: Bearer {ws_door.token} x"):
        assert refusal(ws_door, "/", [header]) == 401, header
    good = f"Authorization: Bearer {ws_door.token}"
    assert refusal(ws_door, "/", [good, good]) == 401
    with Client(ws_door.base, headers={"Authorization": f"Bearer {ws_door.token}"}) as client:
        assert client.run(["echo", "in"])[0] == b"in\n"


def test_two_doors_have_two_tokens(home, server):
    with Door(home, server.url) as one, Door(home, server.url) as two:
        assert one.token != two.token
        with pytest.raises(HttpRefused) as refused:
            Client(f"{one.base}/{two.token}")
        assert refused.value.status == 401


def test_a_web_page_does_not_get_in_even_with_the_token(ws_door):
    for origin in ("https://evil.example", f"http://127.0.0.1:{ws_door.port}", "null", ""):
        assert refusal(ws_door, f"/{ws_door.token}", [f"Origin: {origin}"]) == 403


def test_what_is_no_upgrade_is_refused(ws_door):
    path = f"/{ws_door.token}"
    assert refusal(ws_door, path, without=["Upgrade"]) == 400
    assert refusal(ws_door, path, without=["Sec-WebSocket-Key"]) == 400
    assert refusal(ws_door, path, method="POST") == 405
    with ws_door.raw() as raw:
        assert raw.http(b"\0\1\2\n\n")[0] == 400


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_another_user_of_the_machine_needs_the_token(ws_door):
    code = "import socket,sys; s=socket.create_connection(('127.0.0.1',int(sys.argv[1]))); s.sendall(sys.argv[2].encode()); print(s.recv(99))"
    for path, status in (("/", "401"), (f"/{ws_door.token}", "101")):
        request = RawSocket.upgrade_request(path).decode()
        done = subprocess.run([sys.executable, "-c", code, str(ws_door.port), request], capture_output=True, preexec_fn=become(UNPRIVILEGED),
                              timeout=SECONDS, check=True, cwd="/")
        assert f"HTTP/1.1 {status}" in done.stdout.decode()


def test_a_head_may_come_slowly_and_must_not_be_huge(ws_door):
    request = RawSocket.upgrade_request(f"/{ws_door.token}")
    with ws_door.raw() as raw:
        for i in range(0, len(request) - 1, 7):
            raw.send(request[i:min(i + 7, len(request) - 1)])
        assert raw.http(request[-1:])[0] == 101
    with ws_door.raw() as raw:
        status = raw.http(request[:-2] + b"X-Long: " + b"x" * 20000)[0]
        assert status == 431


def test_silent_connections_neither_stay_nor_keep_others_out(ws_door):
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(ws_door.raw()) for _ in range(100)]
        silent[-1].send(b"GET / HT")
        with Client(ws_door.url) as client:
            assert client.run(["echo", "in"])[0] == b"in\n"
        # The oldest have made room; the others meet their deadline, which takes ten seconds.
        for one in silent if os.environ.get("FARHAND_SLOW") == "1" else silent[:30]:
            assert one.eof(timeout=30) == b""


def test_more_connections_than_there_are_places_are_refused(ws_door):
    with contextlib.ExitStack() as stack:
        for _ in range(64):
            stack.enter_context(ws_door.raw()).upgrade(f"/{ws_door.token}")
        assert refusal(ws_door, f"/{ws_door.token}") == 503
    wait_until(lambda: refusal_or_in(ws_door) == 101, what="a free place")


def refusal_or_in(door):
    with door.raw() as raw:
        return raw.http(RawSocket.upgrade_request(f"/{door.token}"))[0]


# The token of the environment


def test_the_token_of_the_environment_is_sent_and_that_of_the_door_is_not(home):
    with open(f"{home}/token", "w", encoding="ascii") as f:
        f.write("far-secret\n")
    with Server(["--ws-auth", "capability-token", "--ws-token-file", f"{home}/token"]) as far_server:
        with open(f"{home}/environments.toml", "w", encoding="utf-8") as f:
            f.write(f'[[environments]]\nid = "far"\nurl = "{far_server.url}"\ntoken_file = "token"\n')
        with Door(home, "far") as door:
            assert door.run("echo", "in").stdout == b"in\n"
        failed = subprocess.run([BIN, "connect", far_server.url], capture_output=True, env=Desk(home).env, timeout=SECONDS, check=False)
        assert failed.returncode == 255 and failed.stdout == b"" and b"401" in failed.stderr


# A far link that is cut


def test_a_cut_far_link_is_resumed_through_the_door(home, server):
    script = "for i in $(seq 3000); do echo $i; done; sleep 1; echo end; exit 3"
    with CuttingProxy(server.port, seed=4, kinds={"close": 1, "reset": 1}, most_bytes=20_000, most_struck=2, spares_first=True) as proxy:
        with Door(home, f"ws://127.0.0.1:{proxy.port}") as door:
            proxy.spares_first = True
            done = door.run("sh", "-c", script)
            assert proxy.counts.total() == 2 and b"farhand: resumed\n" in done.stderr, (proxy.counts, done.stderr)
            assert (done.returncode, done.stdout.split()) == (3, [b"%d" % i for i in range(1, 3001)] + [b"end"])


def test_many_cuts_lose_nothing_repeat_nothing_and_start_nothing_twice(home):
    kinds = {kind: weight for kind, weight in KINDS.items() if kind != "vanish"}  # which costs two seconds each
    runs = 0
    with Server(config=CONFIG) as server, CuttingProxy(server.port, seed=11, kinds=kinds, most_bytes=2_000_000, spares_first=True) as proxy:
        with Door(home, f"ws://127.0.0.1:{proxy.port}") as door:
            while proxy.counts.total() < 15:
                runs += 1
                proxy.spares_first = True
                data = os.urandom(400_000)
                done = door.run(sys.executable, "-c", ECHO, f"{home}/started", stdin=data)
                assert done.returncode == 7 and done.stdout == data, done.stderr
                with open(f"{home}/started", encoding="ascii") as f:
                    assert f.read() == "started\n" * runs


def test_an_upgrade_waits_until_the_environment_is_back(home):
    with Server(listen=f"unix:{home}/socket") as first:
        door = Door(home, first.url)
    with door, door.raw() as raw:
        raw.send(RawSocket.upgrade_request(f"/{door.token}"))
        wait_until(lambda: "trying again" in door.stderr(), 30, "the first attempt")
        with Server(listen=f"unix:{home}/socket"):
            assert raw.http_response(timeout=30)[0] == 101
            assert "connected again" in door.stderr()


def test_a_client_that_leaves_while_the_environment_is_away_is_forgotten(home):
    with Server(listen=f"unix:{home}/socket") as first:
        door = Door(home, first.url)
    with door:
        for _ in range(70):  # more than there are places
            with door.raw() as raw:
                raw.send(RawSocket.upgrade_request(f"/{door.token}"))
        with Server(listen=f"unix:{home}/socket"):
            wait_until(lambda: refusal_or_in(door) == 101, 30, "a free place")


def test_an_environment_that_refuses_later_is_told_in_words(home):
    with open(f"{home}/token", "w", encoding="ascii") as f:
        f.write("secret\n")
    with Server(listen=f"unix:{home}/socket") as first:
        door = Door(home, first.url)
    with Server(["--ws-auth", "capability-token", "--ws-token-file", f"{home}/token"], listen=f"unix:{home}/socket"), door, door.raw() as raw:
        status, _, body = raw.http(RawSocket.upgrade_request(f"/{door.token}"))
        assert status == 502 and b"missing websocket bearer token" in body


def children(pid):
    """The children of a process, whichever of its threads has started them."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as f:
            found += map(int, f.read().split())
    return found


def test_a_program_that_ends_closes_the_connection(home):
    with door_to("program", home) as door:
        assert "each connection starts the program anew" in door.stderr()
        with Client(door.url) as client:
            (pid,) = children(door.proc.pid)
            os.kill(pid, signal.SIGKILL)
            assert client.closed_code() == 1006
        with Client(door.url) as client:  # another program, another server
            assert client.run(["echo", "in"])[0] == b"in\n"


def test_the_background_server_is_started_again(home):
    with door_to("local", home) as door:
        for _ in range(2):  # the server that was there when the door opened, and one that a guest has started
            pid = door.desk.server_pid()
            assert pid in children(door.proc.pid)
            os.kill(pid, signal.SIGTERM)
            pid_gone(pid, 30)
            assert door.run("echo", "in").stdout == b"in\n"
            wait_until(lambda gone=pid: gone not in children(door.proc.pid), SECONDS, "the door to reap its server")


def test_a_half_close_is_passed_on(home):
    """The far side hears that the client sends nothing more, and what the far side then sends arrives."""
    heard = []

    def serve(sock):
        raw = RawSocket.__new__(RawSocket)
        raw.sock, raw.buffer, raw.timeout = sock, b"", 10 * PATIENCE
        head = raw.recv_until(b"\r\n\r\n").decode()
        key = next(line.split(": ")[1] for line in head.split("\r\n") if line.lower().startswith("sec-websocket-key"))
        accept = base64.b64encode(hashlib.sha1(key.encode() + RawSocket.GUID).digest())
        # The answer and the first bytes behind it come in one piece.
        sock.sendall(b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\nearly")
        heard.append(raw.eof())
        sock.sendall(b"last words")
        sock.close()

    with Server(listen=f"unix:{home}/socket") as first:
        door = Door(home, first.url)
    with socket.socket(socket.AF_UNIX) as listener, door, door.raw() as client:
        listener.bind(f"{home}/socket")
        listener.listen()
        client.send(RawSocket.upgrade_request(f"/{door.token}"))
        thread = threading.Thread(target=lambda: serve(listener.accept()[0]), daemon=True)
        thread.start()
        assert client.http_response()[0] == 101
        assert client.recv_exact(5) == b"early"
        client.send(b"to the far side")
        client.sock.shutdown(socket.SHUT_WR)
        assert client.eof() == b"last words" and heard == [b"to the far side"]
        thread.join()


# The command line


def connect(home, *args, **kw):
    return subprocess.run([BIN, "connect", *args], capture_output=True, env=Desk(home).env, timeout=SECONDS, check=False, **kw)


def test_json(home, server):
    with Door(home, server.url, "--json") as door:
        assert door.json == {"url": door.url, "baseUrl": door.base, "token": door.token}
        assert door.base == f"ws://127.0.0.1:{door.port}"


def test_a_port_of_ones_own_and_ipv6(home, server):
    with Door(home, server.url, "--listen", "ws://[::1]:0") as door:
        assert door.base.startswith("ws://[::1]:") and door.run("echo", "in").stdout == b"in\n"


@pytest.mark.parametrize("args, says", [
    (["--listen", "ws://0.0.0.0:0"], b"this machine alone"), (["--listen", "unix:/tmp/x"], b"this machine alone"),
    (["--listen", "stdio", "local"], b"takes nothing else"), (["--listen", "stdio", "--", "true"], b"takes nothing else"),
    (["--listen", "http://x"], b"unsupported"), (["a", "b"], b"one environment"), (["--"], b"a command behind --"),
    (["--json", "--", "true"], b"without a command")])
def test_bad_command_lines(home, args, says):
    done = connect(home, *args)
    assert done.returncode == 2 and says in done.stderr and done.stdout == b""


def test_an_environment_that_is_not_there(home):
    done = connect(home, "nowhere")
    assert done.returncode == 255 and b"nowhere" in done.stderr
    done = connect(home, f"unix:{home}/none", "--", "echo", "never")
    assert done.returncode == 255 and done.stdout == b"" and b"cannot connect" in done.stderr


# A command with a door


def test_the_command_has_the_url_and_its_exit_code_is_ours(home, server):
    script = f'{BIN} run --url "$CODEX_EXEC_SERVER_URL" -- echo far; echo "${{FARHAND_TOKEN-none}}"; exit 9'
    done = connect(home, server.url, "--", "sh", "-c", script)
    assert (done.returncode, done.stdout, done.stderr) == (9, b"far\nnone\n", b"")
    assert connect(home, server.url, "--", "sh", "-c", "kill -9 $$").returncode == 128 + signal.SIGKILL
    assert connect(home, server.url, "--", "cat", input=b"ours").stdout == b"ours"
    done = connect(home, server.url, "--", "no-such-program-anywhere")
    assert done.returncode == 127 and b"no-such-program-anywhere" in done.stderr
    assert connect(home, server.url, "--", "/etc/passwd").returncode == 126


def test_a_file_of_codex_is_told_about(home, server):
    with open(f"{home}/environments.toml", "w", encoding="utf-8") as f:
        f.write("")
    done = connect(home, server.url, "--", "true")
    assert done.returncode == 0 and b"and not CODEX_EXEC_SERVER_URL" in done.stderr


def test_the_tokens_of_the_environment_do_not_reach_the_command(home):
    with open(f"{home}/token", "w", encoding="ascii") as f:
        f.write("far-secret\n")
    with Server(["--ws-auth", "capability-token", "--ws-token-file", f"{home}/token"]) as far_server:
        env = {**Desk(home).env, "FARHAND_TOKEN": "far-secret"}
        done = subprocess.run([BIN, "connect", far_server.url, "--", "env"], capture_output=True, env=env, timeout=SECONDS, check=True)
        assert b"CODEX_EXEC_SERVER_URL=ws://127.0.0.1:" in done.stdout and b"far-secret" not in done.stdout


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_signals_reach_the_command_and_the_door_ends_with_it(home, server, signo):
    script = f"trap 'exit 42' {signo.name[3:]}; echo $CODEX_EXEC_SERVER_URL; while :; do sleep 0.05; done"
    with subprocess.Popen([BIN, "connect", server.url, "--", "bash", "-c", script], stdout=subprocess.PIPE, env=Desk(home).env) as proc:
        port = int(proc.stdout.readline().decode().rpartition("/")[0].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)):
            pass
        proc.send_signal(signo)
        assert proc.wait(SECONDS) == 42
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


def test_ctrl_c_reaches_the_command_once_and_the_door_stays(home, server):
    script = ("n=0; trap 'n=$((n+1)); echo got $n' INT; echo ready; while [ $n -lt 1 ]; do sleep 0.05; done; sleep 0.3; "
              f"{BIN} run --url $CODEX_EXEC_SERVER_URL -n -- echo still open; echo end $n; exit 5")
    with cmd_of("root") as cmd:
        with Terminal(cmd, server.url, "--", "bash", "-c", script, program=(BIN, "connect"), env=Desk(home).env) as terminal:
            terminal.expect(b"ready")
            terminal.type(b"\x03")
            terminal.expect(b"still open")
            terminal.expect(b"end 1")
            assert terminal.wait() == 5


def test_the_programs_of_a_door_end_with_it(home):
    with door_to("program", home) as door:
        with Client(door.url) as client:
            client.start("p", ["sh", "-c", "echo $$; exec sleep 600"])
            pid = int(client.wait_output("p", b"\n"))
            door.proc.terminate()
            assert door.proc.wait(SECONDS) == 0
            pid_gone(pid, 30)
