"""Shared by the tests of intercepted commands: places in which commands run, the programs that they execute, and answers to questions.

A Place is a server of one user with one back end of sandboxes, or without a sandbox. Its programs `where` and `note` (intercept_where.c)
say whether they run inside or outside; `start` (intercept_start.c) executes them in every way that there is.
"""

import atexit
import base64
import itertools
import os
import shutil
import subprocess
import tempfile

import pytest

from farhand_client import RpcError
from sandbox_rig import ENV, ROOT_WRITE, USERS, Outcome, Rig, landlock_abi, restricted, sandbox, uri, why_not, workspace_write

HERE = os.path.dirname(os.path.abspath(__file__))
FORBIDDEN = "Execution denied: Execution forbidden by policy\n"
REQUESTED, DECIDE = "process/execRequested", "process/execDecide"
BACKENDS = ["namespaces", "bubblewrap", "landlock"]
PLACES = [f"{backend}-{user}" for user in USERS for backend in ["none", *BACKENDS]]

_programs = []


def filters_here():
    """How many filters of system calls the tests have, and with them everything that is not in a sandbox."""
    with open("/proc/self/status", encoding="ascii") as f:
        return int(dict(line.split(":", 1) for line in f if ":" in line).get("Seccomp_filters", "0"))


def compiled(folder, name, source, *flags):
    path = os.path.join(folder, name)
    done = subprocess.run(["cc", "-std=gnu17", "-O1", f"-DFILTERS={filters_here()}", "-o", path, os.path.join(HERE, source), "-pthread",
                           *flags], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    os.chmod(path, 0o755)
    return path


def programs():
    """The directory of the programs that the tests execute. Every user can reach it."""
    if not _programs:
        owner, folder = os.getpid(), tempfile.mkdtemp(prefix="fh-icpt-", dir="/var/tmp")
        atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
        os.chmod(folder, 0o755)
        where = compiled(folder, "where", "intercept_where.c")
        for name in ("note", "note-good", "note-evil"):
            shutil.copy(where, os.path.join(folder, name))
        compiled(folder, "where-static", "intercept_where.c", "-static")
        compiled(folder, "start", "intercept_start.c")
        # At an address that fits into 32 bits, for the calls of 32 bits.
        compiled(folder, "start-static", "intercept_start.c", "-static", "-no-pie")
        _programs.append(folder)
    return _programs[0]


def rule(decision, *programs_):
    words = ", ".join('"' + word + '"' for word in programs_)
    return f'prefix_rule(pattern=[[{words}]], decision="{decision}")\n'


RULES = {"run": lambda *names: "", "escalate": lambda *names: rule("allow", *names),
         "deny": lambda *names: rule("forbidden", *names), "ask": lambda *names: rule("prompt", *names)}


def intercept(*texts, on_unmatched="run", **more):
    """The member `intercept` of process/start. What no rule names runs, unless the test says otherwise."""
    return {"rules": [{"name": f"{n}.rules", "text": text} for n, text in enumerate(texts, 1)], "onUnmatched": on_unmatched, **more}


def text_of(message, name):
    """A text of a question as bytes: of the member `name`, or of `nameBase64` where the text is not UTF-8."""
    other = message.get(name + "Base64")
    return base64.b64decode(other, validate=True) if other is not None else message[name].encode()


def argv_of(message):
    other = message.get("argvBase64")
    return [base64.b64decode(word, validate=True) for word in other] if other is not None else [w.encode() for w in message["argv"]]


class Ended(Outcome):
    """How an intercepted command ended: also what was counted, and the questions that were asked."""

    def __init__(self, outcome, counts=None, questions=()):
        super().__init__(outcome.refused, outcome.out, outcome.err, outcome.code, outcome.denied)
        self.counts, self.questions = counts, list(questions)

    def __repr__(self):
        return f"{super().__repr__()}, intercepted {self.counts}, asked {[argv_of(q) for q in self.questions][:10]}"


class Place:
    """Commands of one user, in sandboxes of one back end or without."""

    def __init__(self, name, rig):
        self.name, self.rig, self.client = name, rig, rig.client
        self.backend, _, self.user = name.partition("-")
        self._ids = itertools.count(1)

    @property
    def profile(self):
        # Landlock alone cannot protect names inside of what may be written.
        return restricted(ROOT_WRITE) if self.backend == "landlock" else workspace_write()

    def tree(self):
        tree = self.rig.tree()
        tree.dir(tree.w)
        return tree

    def params(self, argv, options, cwd, env=None, **more):
        box = {} if self.backend == "none" else {"sandbox": sandbox(self.profile, cwd)}
        if options is not None:
            more["intercept"] = options
        if "io" not in more:
            more = {"tty": False, "pipeStdin": False, **more}
        return {"processId": f"i{next(self._ids)}", "argv": argv, "cwd": uri(cwd), "arg0": None,
                "env": {**ENV, "PATH": f"{programs()}:/usr/bin:/bin", "HOME": cwd, **(env or {})}, **box, **more}

    def start(self, argv, options, cwd, client=None, **more):
        """Returns (process id, id of the request), without waiting for the answer: it may have to wait for a decision."""
        params = self.params(argv, options, cwd, **more)
        return params["processId"], (client or self.client).request("process/start", params)

    def finish(self, process_id, ident, decide=None, timeout=60, client=None):
        """Answers the questions of a command by decide(question), a dict for process/execDecide, until it ends."""
        client = client or self.client
        asked = {}

        def is_news(message):
            if message.get("id") == ident and "method" not in message:
                return "error" in message
            params = message.get("params") or {}
            if params.get("processId") != process_id:
                return False
            is_question = message["method"] == REQUESTED and params["decision"] == "ask" and params["requestId"] not in asked
            return message["method"] == "process/closed" or is_question

        while True:
            news = client.wait_for(is_news, timeout)
            if news.get("method") != REQUESTED:
                break
            question = news["params"]
            asked[question["requestId"]] = question
            assert decide is not None, f"nobody wanted to be asked: {question}"
            answer = decide(question)
            if answer is not None:
                client.call(DECIDE, {"processId": process_id, "requestId": question["requestId"], **answer})
        if "error" in news:
            return Ended(Outcome(RpcError(news["error"])), questions=asked.values())
        exited = client.wait_exit(process_id)
        out = client.output(process_id, "stdout") + client.output(process_id, "pty")
        return Ended(Outcome(None, out, client.output(process_id, "stderr"), exited["exitCode"], exited.get("sandboxDenied")),
                     exited.get("intercepted"), asked.values())

    def run(self, argv, options, cwd, decide=None, timeout=60, client=None, **more):
        process_id, ident = self.start(argv, options, cwd, client, **more)
        return self.finish(process_id, ident, decide, timeout, client)

    def sh(self, script, options, cwd=None, decide=None, shell="/bin/bash", **more):
        return self.run([shell, "-c", script], options, cwd or self.tree().w, decide, **more)


def why_no_place(name):
    """Returns why commands cannot be tried in this place; None: they can."""
    backend, _, user = name.partition("-")
    if user == "root" and os.geteuid() != 0:
        return "needs root"
    if backend == "none":
        return None
    if backend == "landlock" and landlock_abi() < 6:
        return f"Landlock: ABI {landlock_abi()}"
    return why_not(user, ("--sandbox-backend", backend))


class Places:
    """One server for each place, as tests want them."""

    def __init__(self):
        self._open = {}

    def get(self, name):
        if name not in self._open:
            reason = why_no_place(name)
            if reason is not None:
                pytest.skip(reason)
            backend, _, user = name.partition("-")
            args = () if backend == "none" else ("--sandbox-backend", backend)
            self._open[name] = Place(name, Rig(user, args=args))
        return self._open[name]

    def close(self):
        for place in self._open.values():
            bad = place.client.bad
            place.rig.close()
            assert not bad, f"messages that no server may send: {bad[:3]}"
