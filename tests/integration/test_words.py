"""What the documents show is run: every JSON request and every command line of README, docs and manual pages. (The README's
`console` blocks are one walk, of test_readme.py.)

A request is sent in a session of its own, after what its method needs (PRELUDES), and every message that the document shows
after it must come, with the members and values that are shown. Paths of the documents stand for paths of the test. A command
line that no rule here knows is a failure: a new kind of command needs a way to be tried.
"""

import base64
import http.server
import json
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import threading
import tomllib

import pytest

from farhand_client import BIN, PATIENCE, REPO, Client, RawSocket, Server, merged_env, wait_until
from mcp_http_rig import Front
from words import Message, command_lines, every_block, messages, read

# What differs from run to run: only the type is compared.
VOLATILE = {"sessionId", "serverId", "pid", "seq", "modifiedAtMs", "userMs", "systemMs", "maxRssBytes", "cwd", "shell",
            "tempDir", "userHomeDir", "codexHomeDir", "hostname", "config", "temporaryDirectories", "omittedBytes", "headers", "nextSeq", "closed", "stdout"}


def like(shown, came, at=""):
    """Where the message differs from the one that the document shows, or None. It may have more members."""
    key = at.rpartition(".")[2]
    if isinstance(shown, str) and "…" in shown:
        return None if isinstance(came, str) else f"{at}: {came!r} is no text"
    if key in VOLATILE:
        return None if type(shown) is type(came) else f"{at}: {came!r} is of another type than {shown!r}"
    if isinstance(shown, dict):
        if not isinstance(came, dict):
            return f"{at}: {came!r} is no object"
        for name, value in shown.items():
            if name not in came:
                return f"{at}.{name} is missing in {came!r}"
            why = like(value, came[name], f"{at}.{name}")
            if why:
                return why
        return None
    if isinstance(shown, list):
        if not isinstance(came, list) or len(shown) != len(came):
            return f"{at}: {came!r} instead of {shown!r}"
        return next(filter(None, (like(a, b, f"{at}[]") for a, b in zip(shown, came))), None)
    return None if shown == came else f"{at}: {came!r} instead of {shown!r}"


class Origin(http.server.BaseHTTPRequestHandler):
    """The server of the examples of http/request."""

    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.answer("application/json", b"{}")

    def do_GET(self):
        self.answer("text/event-stream", b"data: 1\n\n")

    def log_message(self, *_):
        pass


class Stage:
    """The files that the examples name, in a directory of the test."""

    def __init__(self, tmp):
        self.tmp = tmp
        for name in ("project", "src"):
            os.mkdir(f"{tmp}/{name}")
        with open(f"{tmp}/big", "wb") as f:
            f.truncate(4 << 20)
        self.origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
        threading.Thread(target=self.origin.serve_forever, daemon=True).start()
        self.session = None

    def spell(self, text):
        """Replaces the paths of the document by those of the test."""
        text = text.replace("/tmp/none", f"{self.tmp}/none").replace("/tmp/greeting", f"{self.tmp}/greeting")
        text = text.replace("/tmp/project", f"{self.tmp}/project").replace("/var/log/big", f"{self.tmp}/big")
        text = re.sub(r"(?<=[\"/])/src(?=[\"/])", f"{self.tmp}/src", text)
        return text.replace('"/src"', f'"{self.tmp}/src"').replace("127.0.0.1:8080", f"127.0.0.1:{self.origin.server_port}")

    def close(self):
        self.origin.shutdown()
        self.origin.server_close()


@pytest.fixture
def stage(tmp):
    s = Stage(tmp)
    yield s
    s.close()


def start(c, process_id, argv, **kw):
    c.call("process/start", {"processId": process_id, "argv": argv, "cwd": "/tmp", "env": {"PATH": "/usr/bin:/bin"},
                             "tty": False, "pipeStdin": True, **kw})


def ready(c):
    """Starts the process of the first example, and waits until it has printed `ready`."""
    start(c, "proc-1", ["sh", "-c", "printf 'ready\\n'; exec cat"])
    c.wait_output("proc-1", b"ready\n")


def greeted(c):
    ready(c)
    c.write("proc-1", b"hello\n")
    c.wait_output("proc-1", b"ready\nhello\n")


def printed(c):
    start(c, "p", ["sh", "-c", "head -c 3000000 /dev/zero; cat"])
    c.wait_output("p", bytes(3000000), 30)


def opened(c, stage):
    c.call("fs/open", {"handleId": "h", "path": f"{stage.tmp}/big"})


def created(c, stage):
    """Makes a file in the watched directory."""
    with open(f"{stage.tmp}/src/a", "w", encoding="utf-8"):
        pass


def told(c, _stage):
    """Ends the process of the first example, because its block has no request that does."""
    greeted(c)
    c.call("process/closeStdin", {"processId": "proc-1"})


def scanned(c, stage):
    """Makes the file that the examples of many files at once find."""
    c.call("fs/writeFile", {"path": f"{stage.tmp}/src/a", "dataBase64": "aGVsbG8K", "mode": 0o644})


def asked(c, _stage):
    """Starts what waits for a decision."""
    c.request("process/start", {"processId": "p", "argv": ["sh"], "cwd": "/tmp", "env": {"PATH": "/usr/bin:/bin"}, "tty": False,
                                "intercept": {"rules": [], "onUnmatched": "ask"}})
    c.wait_for(lambda m: m.get("method") == "process/execRequested")


# What a request needs before it, by its method or by the message that a block without a request begins with.
PRELUDES = {
    "process/read": lambda c, s: greeted(c), "process/write": lambda c, s: ready(c), "process/signal": lambda c, s: ready(c),
    "process/terminate": lambda c, s: greeted(c), "process/output": told,
    "process/resize": lambda c, s: start(c, "p", ["cat"], tty=True),
    "process/wait": lambda c, s: start(c, "p", ["true"]), "process/snapshot": lambda c, s: printed(c),
    "process/execDecide": asked,
    "fs/readBlock": opened, "fs/close": opened,
    "fs/scanDirectory": scanned, "fs/readFiles": scanned, "fs/digest": scanned,
}
AFTER = {"fs/watch": created}


def prepare(c, stage, key, request):
    """Does what a request needs before it. One without a prelude that names the process `p` finds `cat` running there."""
    if key in PRELUDES:
        PRELUDES[key](c, stage)
    elif request and key != "process/start" and (request.value.get("params") or {}).get("processId") == "p":
        start(c, "p", ["cat"])


def rounds(block):
    """[(request or None, [what is shown after it])]"""
    found = []
    for message in messages(block):
        if message.is_ours:
            found.append((message, []))
        else:
            if not found:
                found.append((None, []))
            found[-1][1].append(message)
    return found


def is_kin(shown, came):
    """Whether a message has the method or the id of the one that the document shows."""
    if "method" in shown:
        return came.get("method") == shown["method"]
    return "method" not in came and came.get("id") == shown["id"]


def expect(c, stage, answers):
    for answer in answers:
        shown = Message(answer.where, stage.spell(answer.text), False).value
        try:
            c.wait_for(lambda m, shown=shown: is_kin(shown, m) and like(shown, m) is None, 10)
        except TimeoutError:
            pytest.fail(f"{answer}: {[like(shown, m) for m in c.messages if is_kin(shown, m)] or 'nothing like it came'}")


TALKS = [block for block in every_block() if messages(block)]
LINEAR = ("README.md",)  # its blocks are one session


@pytest.mark.parametrize("block", [b for b in TALKS if b.name not in LINEAR], ids=repr)
def test_requests_of_the_documents(server, stage, block):
    for request, answers in rounds(block):
        method = request.value["method"] if request and request.value else None
        if request and request.value is None:
            broken(server, request, answers)
        elif method in ("initialize", "initialized"):
            handshake(server, stage, request, answers)
        else:
            with Client(server.url) as c, Client(server.url) as other:
                is_elsewhere = request and "sessionId" in (request.value.get("params") or {})
                prepare(other if is_elsewhere else c, stage, method or answers[0].value["method"], request)
                if request:
                    text = stage.spell(request.text)
                    if is_elsewhere:
                        text = re.sub(r'("sessionId":)"[^"]*"', rf'\1"{other.session_id[:13]}"', text)
                    c.send_raw(text)
                    if any("id" in answer.value for answer in answers):  # a request that waits for a decision shows none
                        c.response(request.value["id"], 30)
                AFTER.get(method, lambda *_: None)(c, stage)
                expect(c, stage, answers)


def broken(server, request, answers):
    with RawSocket(server.port) as raw:
        raw.upgrade()
        raw.frame(1, request.text.encode())
        came = raw.read_message()
        assert like(answers[0].value, came) is None, (request, came)


def handshake(server, stage, request, answers):
    if request.value["method"] == "initialized":
        return
    with Client(server.url, init=False) as c:
        text = request.text
        if "resumeSessionId" in text:
            with Client(server.url) as before:
                session = before.init_result["sessionId"]
            text = re.sub(r'("resumeSessionId":)"[^"]*"', rf'\1"{session}"', text)
        c.send_raw(text)
        expect(c, stage, answers)


def test_blocks_of_the_readme_can_be_pasted():
    """A block has either messages of the client or messages of the server, because a reader pastes whole blocks."""
    for block in TALKS:
        if block.name in LINEAR:
            assert len({m.is_ours for m in messages(block)}) == 1, block


def test_the_session_of_the_readme(server, stage):
    """All blocks in order, as a reader would paste them, and nothing else: the session makes the files that it needs."""
    os.rmdir(f"{stage.tmp}/project")
    with Client(server.url, init=False) as c:
        for block in TALKS:
            if block.name != "README.md":
                continue
            for request, answers in rounds(block):
                if request:
                    c.send_raw(stage.spell(request.text))
                    if "id" in request.value:
                        answer = c.response(request.value["id"], 30)
                        refused = "/etc/" in request.text and request.value["method"].startswith("fs/")
                        assert ("error" in answer) == refused, (request, answer)
                expect(c, stage, answers)
    assert os.path.exists(f"{stage.tmp}/project/greeting") and not os.path.exists("/etc/made")


# Command lines

TOKEN = "umask 077; printf '%064d\\n' 0 > token"


def try_make(words, tmp):
    words = [w for w in words if not w.startswith("ARGS=") or '"' not in w]
    done = subprocess.run(["make", "-n", *words[1:]], cwd=REPO, capture_output=True, timeout=60 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr


def try_pytest(words, tmp):
    if all(os.path.isdir(os.path.join(REPO, w)) for w in words[3:]):
        return  # everything: what is collected is what runs here
    done = subprocess.run([*words, "--collect-only", "-q", "-p", "no:cacheprovider"], cwd=REPO, capture_output=True,
                          env=merged_env({"FARHAND_BIN": BIN}), timeout=120 * PATIENCE, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


def try_websockets(words, tmp):
    """`python3 -m websockets URL`: an interactive client, which ends with its input."""
    with Server() as s:
        done = subprocess.run([*words[:-1], s.url], input=b'{"id":1,"method":"initialize","params":{"clientName":"me"}}\n',
                              capture_output=True, timeout=60 * PATIENCE, check=False)
    assert b"Connected to" in done.stdout, done


def try_serve(words, tmp):
    words = [w.replace("0.0.0.0:8765", "127.0.0.1:0").replace(":8765", ":0").replace("$XDG_RUNTIME_DIR", tmp) for w in words]
    is_stdio = "stdio" in words
    with subprocess.Popen([BIN, *words[1:]], cwd=tmp, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as proc:
        line = proc.stdout.readline()
        proc.terminate()
        _, err = proc.communicate(timeout=30 * PATIENCE)
    assert (line == b"" if is_stdio else line.startswith((b"ws://127.0.0.1:", b"unix:"))) and proc.returncode == 0, (line, err)


def project(tmp):
    """What the examples of sandboxes work in."""
    place = os.path.join(tmp, "work")
    if not os.path.isdir(place):
        os.mkdir(place)
        files = {"Makefile": "all:\n\ttouch built\n", "FILE": '{"type": "read-only"}', "profile.json": '{"type": "read-only"}'}
        for name, text in files.items():
            with open(os.path.join(place, name), "w", encoding="utf-8") as f:
                f.write(text)
        for command in (["git", "init", "-q"], ["git", "add", "."], ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit",
                                                                    "-qm", "first"]):
            if shutil.which("git"):
                subprocess.run(command, cwd=place, check=True, capture_output=True)
        with open(os.path.join(place, "Makefile"), "a", encoding="utf-8") as f:
            f.write("# changed\n")
    return place


def try_farhand(words, tmp):
    if words[1] == "serve":
        try_serve(words, tmp)
        return
    if "git" in words and not shutil.which("git"):
        pytest.skip("needs git")
    words = ["true" if w == "my-agent" else w for w in words]
    env = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    # Nothing of the machine's own configuration decides where a command runs.
    env |= {"FARHAND_HOME": os.path.join(tmp, "environments"), "CODEX_HOME": tmp, "FARHAND_URL": None, "CODEX_EXEC_SERVER_URL": None}
    is_by_ssh = words[1] != "env" and any(w.startswith("ssh://") for w in words)
    if is_by_ssh:  # there is no machine `far`: an ssh that reaches none stands in for it
        with open(os.path.join(tmp, "ssh"), "w", encoding="ascii") as f:
            f.write("#!/bin/sh\nexit 255\n")
        os.chmod(f.name, 0o700)
        env["PATH"] = f"{tmp}:{os.environ['PATH']}"
    done = subprocess.run([BIN, *words[1:]], cwd=project(tmp), env=merged_env(env), capture_output=True,
                          timeout=60 * PATIENCE, check=False)
    if words[1] == "doctor":
        assert done.returncode in (0, 1) and b"Sandboxes can" in done.stdout
    elif is_by_ssh:
        assert done.returncode == 255 and b"ssh did not reach" in done.stderr, done
    elif "touch" in words:
        assert done.returncode != 0 and b"refused: write x" in done.stderr, done
    else:
        assert done.returncode == 0, done


def try_ssh(words, tmp):
    """Checks the options with ssh itself, and runs the remote command on this machine."""
    if shutil.which("ssh"):
        done = subprocess.run(["ssh", "-G", *words[1:]], capture_output=True, timeout=30 * PATIENCE, check=False)
        assert done.returncode == 0 and b"hostname far\n" in done.stdout, done
    if "farhand" in words:
        try_farhand(words[words.index("farhand"):], tmp)


def try_shell(line, tmp):
    os.makedirs(os.path.join(tmp, ".config/farhand"), exist_ok=True)
    done = subprocess.run(["sh", "-c", line], cwd=tmp, env=merged_env({"HOME": tmp}), capture_output=True,
                          timeout=30 * PATIENCE, check=False)
    assert done.returncode == 0, done
    tokens = [p for p in (os.path.join(tmp, "token"), os.path.join(tmp, ".config/farhand/token")) if os.path.exists(p)]
    for token in tokens:
        assert os.stat(token).st_size == 65 and os.stat(token).st_mode & 0o077 == 0, f"others can read the token of: {line}"


def try_line(line, tmp):
    if "umask" in line or line.startswith("mkdir"):
        if "openssl" in line and not shutil.which("openssl"):
            pytest.skip("needs openssl")
        return try_shell(line, tmp)
    words = shlex.split(line)
    while re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    if words[0] == "make":
        return try_make(words, tmp)
    if words[:3] == ["/usr/bin/python3", "-m", "pytest"]:
        return try_pytest(words, tmp)
    if words[:3] == ["/usr/bin/python3", "-m", "websockets"]:
        return try_websockets(words, tmp)
    if words[0] == "farhand":
        if "token" in words:
            try_shell(TOKEN, tmp)
        return try_farhand(words, tmp)
    if words[0] == "ssh":
        return try_ssh(words, tmp)
    if words[0] in ("systemctl", "loginctl"):
        unit = [w for w in words[1:] if not w.startswith("-") and w not in ("enable", "reload", "enable-linger")]
        assert all(os.path.exists(os.path.join(REPO, "systemd", f"{name}.service.in")) for name in unit), words
        return None
    if words[0].startswith("build/"):
        assert re.match(r"build/(unit-\w+|bench|farhand)$", words[0]), words
        return None
    return pytest.fail(f"no rule for: {line}")


LINES = command_lines()


@pytest.mark.parametrize("where, line", LINES, ids=[f"{where}:{line[:40]}" for where, line in LINES])
def test_command_lines_of_the_documents(tmp, where, line):
    try_line(line, tmp)


def test_the_lines_are_found():
    """Enough lines, messages and profiles are found; a change of the documents' form could otherwise hide them."""
    assert len(LINES) > 25 and len(TALKS) > 15 and len(PROFILES) > 5
    assert {where.partition(":")[0] for where, _ in LINES} >= {"README.md", "CONTRIBUTING.md", "man/farhand-serve.1.scd",
                                                               "man/farhand-sandbox.1.scd"}


# Files that are shown


def of_language(language):
    return [b for b in every_block() if b.language == language]


@pytest.mark.parametrize("block", of_language("toml"), ids=repr)
def test_toml_files_of_the_documents(tmp, block):
    value = tomllib.loads(block.text)
    if "environments" in value:  # of a client
        assert value["default"] in [e["id"] for e in value["environments"]]
        for environment in value["environments"]:
            assert ("url" in environment) != ("program" in environment)
            if environment.get("program") == "ssh":
                try_ssh(["ssh", *environment["args"]], tmp)
        return
    try_shell(TOKEN, tmp)
    text = re.sub(r'"/home/me/[^"]*/token"', f'"{tmp}/token"', block.text).replace(":8765", ":0")
    with Server(config=text, listen=None) as s:
        with Client(s.url, headers={"Authorization": f"Bearer {'0' * 64}"}) as c:
            assert c.call("environment/status") == {"status": "ready"}


def shown_profiles():
    """(where, text) of the profiles in blocks, and of those in the running text of PERMISSIONS that are whole."""
    found = [(repr(block), block.text) for block in of_language("json") if "mcpServers" not in block.text]
    for text in re.findall(r"`(\{[^`]*\})`", read("docs/PERMISSIONS.md")):
        if '"type"' in text and not re.search(r"…|FILES|NET|\"(un)?restricted\"\}$", text):
            found.append((text.split("\n")[0], text))
    return found


PROFILES = shown_profiles()


@pytest.mark.parametrize("where, text", PROFILES, ids=[where for where, _ in PROFILES])
def test_profiles_of_the_documents_load(tmp, where, text):
    with open(f"{tmp}/profile.json", "w", encoding="utf-8") as f:
        f.write(text)
    done = subprocess.run([BIN, "sandbox", "--profile", f"{tmp}/profile.json", "--explain"], cwd=tmp, capture_output=True,
                          timeout=30 * PATIENCE, check=False)
    assert done.returncode == 0 and done.stdout, (where, done)


def test_mcp_clients_can_start_what_their_configuration_says(tmp):
    shown = [block.text for block in of_language("json") if "mcpServers" in block.text] + re.findall(r'\{"mcpServers".*\}', read("man/farhand-mcp.1.scd"))
    entries = [json.loads(text)["mcpServers"]["farhand"] for text in shown]
    assert len([entry for entry in entries if "command" in entry]) == 2
    for entry in entries:
        if "command" not in entry:
            continue
        hello = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}\n'
        done = subprocess.run([entry["command"], *entry["args"]], input=hello, cwd=tmp, capture_output=True, text=True, timeout=60 * PATIENCE,
                              check=True, env=merged_env({"PATH": os.path.dirname(BIN) + ":" + os.environ["PATH"]}))
        assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "farhand"


def test_mcp_clients_can_reach_what_their_configuration_says(tmp):
    shown = re.findall(r'\{"mcpServers".*\}', read("README.md") + read("man/farhand-mcp.1.scd"))
    entries = [entry for entry in (json.loads(text)["mcpServers"]["farhand"] for text in shown) if "url" in entry]
    with open(f"{tmp}/token", "w", encoding="utf-8") as f:
        f.write("TOKEN\n")
    assert len(entries) == 2
    for entry in entries:
        _, _, host, path = entry["url"].split("/")
        with Front("--ws-auth", "capability-token", "--ws-token-file", f"{tmp}/token", "--allow-host", host, path="/" + path) as front:
            assert entry["type"] == "http" and front.session(Host=host, **entry["headers"]).server["serverInfo"]["name"] == "farhand"


def test_nginx_passes_a_websocket_on(tmp):
    """The blocks of the README, with a port and a certificate of the test."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    found = of_language("nginx")
    assert len(found) == 2
    for block in found:
        assert block.text.count("{") == block.text.count("}")
        for needed in ("proxy_http_version 1.1;", "Upgrade $http_upgrade;", 'Connection "upgrade";'):
            assert needed in block.text, block
    if program is None or not shutil.which("openssl"):
        pytest.skip("no nginx, or no openssl to make a certificate with")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                    f"{tmp}/key", "-out", f"{tmp}/cert", "-days", "2", "-subj", "/CN=far.example"], check=True, capture_output=True)
    with open(f"{tmp}/token", "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
        f.write("0123456789abcdef\n")
    with socket.socket() as free, Server(["--ws-auth", "capability-token", "--ws-token-file", f"{tmp}/token"]) as server:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        text = "\n".join(b.text for b in found).replace("/etc/ssl/far.pem", f"{tmp}/cert").replace("/etc/ssl/far.key", f"{tmp}/key")
        text = text.replace("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;").replace(":8765", f":{server.port}")
        places = "".join(f"{name}_temp_path {tmp}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        with open(f"{tmp}/conf", "w", encoding="utf-8") as f:
            f.write(f"daemon off;\npid {tmp}/pid;\nevents {{}}\nhttp {{ access_log off; {places} server {{ {text} }} }}\n")
        with subprocess.Popen([program, "-c", f"{tmp}/conf", "-e", f"{tmp}/log"], stderr=subprocess.PIPE) as nginx:
            try:
                wait_until(lambda: os.path.exists(f"{tmp}/pid") or nginx.poll() is not None, 10, "nginx")
                bearer = "Authorization: Bearer 0123456789abcdef\r\n"
                [secret] = re.findall(r"location = (/\w+)", text)
                statuses = [upgrade_status(port, *how) for how in (("/", ""), ("/", bearer), (secret, ""), (secret + "x", ""))]
            finally:
                nginx.terminate()
                err = nginx.communicate()[1]
        assert statuses == [401, 101, 101, 404], (statuses, err)


def upgrade_status(port, path, more):
    """The HTTP status of a WebSocket upgrade through TLS."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), 10 * PATIENCE) as plain, context.wrap_socket(plain) as tls:
        tls.sendall((f"GET {path} HTTP/1.1\r\nHost: far.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{more}\r\n").encode())
        return int(tls.recv(4096).split()[1])


def test_base64_of_the_documents_is_base64():
    for block in TALKS:
        for message in messages(block):
            for text in re.findall(r'"(?:chunk|dataBase64|bodyBase64|deltaBase64)":"([^"…]*)"', message.text):
                base64.b64decode(text, validate=True)


def test_every_block_has_a_language_that_is_tried_here():
    for block in every_block():
        # test_readme, test_cmd_rules, test_network_walk
        walks = {("README.md", "console"), ("docs/RULES.md", "console"), ("docs/RULES.md", "starlark"), ("docs/NETWORK.md", "console")}
        assert block.language in ("", "json", "toml", "nginx") or (block.name, block.language) in walks, block
