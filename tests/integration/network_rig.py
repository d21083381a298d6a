"""Shared by the tests of managed networks: a server inside a World, a client that answers its questions, and probes that run inside.

A Network is one server and one client. What runs in its managed networks is mostly network_probe.py, which makes requests and says
what came of them. FARHAND_REFERENCE_166 puts the reference server in the place of ours for what both must do alike.
"""

import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile

import pytest

from farhand_client import PATIENCE, Client, Server
from reach import TREES, UNPRIVILEGED, reachable
from sandbox_rig import Outcome, become, restricted, sandbox, special, uri
from world import world_or_skip

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"
PROBE = reachable(os.path.join(HERE, "network_probe.py"))
ENV = {"PATH": "/usr/bin:/bin"}
PLAIN = {"enabled": True, "enableSocks5": True, "enableSocks5Udp": True, "allowUpstreamProxy": False,
         "dangerouslyAllowAllUnixSockets": False, "mode": "full", "domains": None, "unixSockets": None, "allowLocalBinding": False}
REQUEST, DECISION = "network/policyRequest", "network/policyDecision"
SHOWN = ("scope", "decision", "source", "reason", "protocol", "host", "port", "method", "policyOverride")


def policy(domains=None, **more):
    return {**PLAIN, "domains": domains, **more}


def allow(*names, **more):
    return policy({name: "allow" for name in names}, **more)


class Answering(Client):
    """A client that answers questions about hosts with `answer`: a result, a function of the question, or None for silence."""

    def __init__(self, url, answer=None, **kw):
        self.answer = answer or {"decision": {"type": "deny", "reason": "nobody said"}}
        self.questions = []
        super().__init__(url, **kw)

    def _take_message(self, data):
        try:
            message = json.loads(data)
        except ValueError:
            message = {}
        if message.get("method") != REQUEST or "id" not in message:
            super()._take_message(data)
            return
        self.messages.append(message)
        self.questions.append(message)
        answer = self.answer(message) if callable(self.answer) else self.answer
        if answer is not None:
            reply = answer if "result" in answer or "error" in answer else {"result": answer}
            self.ws.send_text(json.dumps({"id": message["id"], **reply}).encode())

    def decisions(self, process_id):
        return [m["params"] for m in self.notifications if m["method"] == DECISION and m["params"]["processId"] == process_id]


class Ended(Outcome):
    """How a command ended, what was decided for it, and what the client was asked."""

    def __init__(self, outcome, decisions, questions):
        super().__init__(outcome.refused, outcome.out, outcome.err, outcome.code, outcome.denied)
        self.decisions, self.questions = decisions, questions

    @property
    def results(self):
        return [json.loads(line) for line in self.out.splitlines()]

    def shown(self):
        return [[d.get(name) for name in SHOWN] for d in self.decisions]


class Reference:
    """The reference server in the world, behind a relay."""

    def __init__(self, binary, world, base, env):
        home = os.path.join(base, "reference")
        os.mkdir(home)
        self.proc = subprocess.Popen([binary, "exec-server", "--listen", "ws://127.0.0.1:0"], cwd=home, preexec_fn=world.enter,
                                     env={**os.environ, "CODEX_HOME": home, **env}, stdout=subprocess.PIPE,
                                     stderr=subprocess.DEVNULL, start_new_session=True)
        port = int(self.proc.stdout.readline().decode().strip().rpartition(":")[2])
        self.tcp_url = f"ws://127.0.0.1:{port}"
        self.pid, self.url = self.proc.pid, "unix:" + world.relay(port)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.proc.kill()
        self.proc.wait()
        self.proc.stdout.close()


class Network:
    """One server in one world. A context manager."""

    def __init__(self, world, user="root", args=(), env=None, config="", reference=None):
        self.world, self.user = world, user
        self.uid = UNPRIVILEGED if user == "unprivileged" and os.geteuid() == 0 else os.geteuid()
        self.base = tempfile.mkdtemp(prefix="fh-net-", dir=TREES)
        os.chmod(self.base, 0o755)
        self._stack = contextlib.ExitStack()
        self._stack.callback(shutil.rmtree, self.base, ignore_errors=True)
        self._names = itertools.count(1)
        self.cwd = self.dir("w")
        home = self.dir("home")
        env = {"HOME": home, "XDG_STATE_HOME": self.dir("state"), "TMPDIR": None, **(env or {})}
        for name in list(os.environ):
            if name.lower().endswith("_proxy"):
                env.setdefault(name, None)
        try:
            if reference:
                clean = {k: v for k, v in env.items() if v is not None}
                self.server = self._stack.enter_context(Reference(reference, world, self.base, clean))
            else:
                path = os.path.join(self.base, "config.toml")
                with open(path, "w", encoding="utf-8") as f:
                    f.write("max_processes_per_session = 100000\n" + config)
                os.chmod(path, 0o644)
                where = os.path.join(self.dir("run"), "s")
                self.server = self._stack.enter_context(
                    Server(["--config", path, *args], env=env, listen=f"unix://{where}", preexec_fn=self._prepare, umask=0o022))
            self.client = self._stack.enter_context(self.connect())
            if not self.client.init_result["environmentInfo"]["capabilities"].get("networkProxyLaunch"):
                pytest.skip("the server announces no managed networks")
        except BaseException:
            self._stack.close()
            raise

    def _prepare(self):
        self.world.enter()
        become(self.uid)()

    def dir(self, name):
        path = os.path.join(self.base, name)
        os.makedirs(path, mode=0o755)
        if os.geteuid() == 0:
            os.chown(path, self.uid, self.uid)
        return path

    def connect(self, **kw):
        return Answering(self.server.url, **kw)

    def profile(self, network="enabled"):
        return restricted(special("root", "read"), {"path": {"type": "path", "path": uri(self.cwd)}, "access": "write"},
                          network=network)

    def params(self, argv, proxy, box=True, enforce=True, env=None, launch=None, network="enabled", **more):
        """`proxy`: the member of that name, or None for a command without a managed network; `launch`: members beside it."""
        params = {"processId": f"n{next(self._names)}", "argv": argv, "cwd": uri(self.cwd), "env": {**ENV, **(env or {})},
                  "tty": False, "pipeStdin": False, "arg0": None, **more}
        if proxy is not None:
            params["networkProxy"] = {"proxy": proxy, **(launch or {})}
        if box:
            params["sandbox"] = sandbox(self.profile(network), self.cwd)
            params["enforceManagedNetwork"] = enforce
        return params

    def start(self, argv, proxy, client=None, **kw):
        params = self.params(argv, proxy, **kw)
        (client or self.client).call("process/start", params, 30)
        return params["processId"]

    def finish(self, process_id, client=None, timeout=60):
        client = client or self.client
        client.wait_closed(process_id, timeout)
        out = Outcome(None, client.output(process_id, "stdout"), client.output(process_id, "stderr"),
                      client.wait_exit(process_id)["exitCode"])
        questions = [m["params"] for m in client.questions if m["params"]["processId"] == process_id]
        ended = Ended(out, client.decisions(process_id), questions)
        ended.told = lambda: client.decisions(process_id)  # the last ones may come after process/closed
        return ended

    def run(self, argv, proxy, client=None, timeout=60, **kw):
        return self.finish(self.start(argv, proxy, client, **kw), client, timeout)

    def sh(self, script, proxy, **kw):
        return self.run(["/bin/sh", "-c", script], proxy, **kw)

    def probe(self, steps, proxy, **kw):
        """Steps of network_probe.py; `results` of what is returned has an entry for each."""
        ended = self.run([PYTHON, PROBE, json.dumps(steps)], proxy, **kw)
        assert ended.code == 0, ended
        return ended

    def one(self, proxy, do, **step):
        """The result of one step; `how` is how it is started."""
        how = step.pop("how", {})
        return self.probe([{"do": do, **step}], proxy, **how).results[0]

    def close(self):
        self._stack.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._stack.__exit__(*exc)


def get(host, port=80, path="/", method="GET", headers="", version="1.1", body=""):
    """A request to the proxy for plain HTTP, which closes the connection."""
    where = f"{host}:{port}" if port != 80 else host
    length = f"content-length: {len(body)}\r\n" if body else ""
    return f"{method} http://{where}{path} HTTP/{version}\r\nHost: {where}\r\nConnection: close\r\n{length}{headers}\r\n{body}"


def http(host, port=80, path="/", label=None, **more):
    """The step for it."""
    step = {k: more.pop(k) for k in ("timeout", "until_end", "show", "pieces") if k in more}
    return {"do": "http", "label": label, "raw": get(host, port, path, **more), "is_head": more.get("method") == "HEAD", **step}


def status(result):
    """The number in an HTTP answer; None if there was no answer."""
    match = re.match(r"HTTP/1\.[01] (\d+)", result.get("text", ""))
    return int(match.group(1)) if match else None


def body(result):
    """The bytes of an answer, without the frames of chunks."""
    head, _, rest = result["text"].partition("\r\n\r\n")
    if "transfer-encoding: chunked" not in head.lower():
        return rest
    whole = ""
    while rest:
        size, _, rest = rest.partition("\r\n")
        size = int(size, 16)
        whole, rest = whole + rest[:size], rest[size + 2:]
    return whole


def header(result, name):
    match = re.search(rf"^{name}: *(.*?)\r?$", result["text"].partition("\r\n\r\n")[0], re.M | re.I)
    return match.group(1) if match else None


@contextlib.contextmanager
def network_or_skip(**kw):
    with world_or_skip() as world, Network(world, **kw) as network:
        yield network


WAIT = 30 * PATIENCE
