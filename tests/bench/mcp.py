#!/usr/bin/python3
"""mcp.py [--rounds N] [--rows NAME,…] [--json FILE]: times `farhand mcp` beside the reference's server of the tool shell.

Rows: "start", from the start of the program until initialize is answered; "shell" and "login", one call of shell that runs `true`, with a shell
that is no login shell and with one; "program", the same with `/bin/true`, which is intercepted; "boxed", the same as "shell" in our default sandbox, which the reference cannot have here; "parallel", 50
calls at once beside one that is stuck, and without it. In each round every contender has one turn, in changing order; ratios are formed
within a round. A turn of the rows for calls is the median of some calls.

REFERENCE_SHELL names the folder of the package @openai/codex-shell-tool-mcp. It starts its server by a launcher that needs node: where there is none,
the server itself is started.
"""

import argparse
import contextlib
import glob
import json
import os
import shutil
import statistics
import sys
import tempfile
import time

from cli import FARHAND
from intercept import REFERENCE, Peer, Row, show

CALLS = 15  # of a turn
PARALLEL = 50
CLIENT = {"protocolVersion": "2025-06-18", "clientInfo": {"name": "bench", "version": "1"},
          "capabilities": {"experimental": {"codex/sandbox-state": {"version": "1.0.0"}}, "elicitation": {}}}


class Contender:
    """A server of the tool shell, ready for calls."""

    def __init__(self, argv, folder, env=None, is_open=False):
        self.argv, self.folder, self.env = argv, folder, {"HOME": folder, "CODEX_HOME": folder, "FARHAND_HOME": folder, **(env or {})}
        self.peer = Peer(argv, self.env)
        self.peer.call("initialize", CLIENT)
        self.peer.send("notifications/initialized")
        if is_open:
            self.peer.call("codex/sandbox-state/update", {"sandboxPolicy": {"type": "danger-full-access"}, "codexLinuxSandboxExe": None,
                                                          "sandboxCwd": "/"})
        self.shell("true", False)

    def params(self, command, login):
        return {"name": "shell", "arguments": {"command": command, "workdir": self.folder, "login": login, "timeout_ms": 120000}}

    def shell(self, command, login):
        answer = json.loads(self.peer.call("tools/call", self.params(command, login))["content"][0]["text"])
        if answer["exit_code"] != 0:
            raise RuntimeError(f"{self.argv[0]}: the command has ended with {answer}")

    def start(self):
        """Milliseconds from the start of another such program until initialize is answered."""
        began = time.perf_counter()
        with contextlib.closing(Peer(self.argv, self.env)) as peer:
            peer.call("initialize", CLIENT)
            return (time.perf_counter() - began) * 1000

    def call(self, login, command="true"):
        """Milliseconds of a call."""
        times = []
        for _ in range(CALLS):
            began = time.perf_counter()
            self.shell(command, login)
            times.append((time.perf_counter() - began) * 1000)
        return statistics.median(times)

    def parallel(self, is_stuck):
        """Milliseconds until many calls at once are answered, beside one that never is."""
        def begin(command):
            self.peer.last_id += 1
            self.peer.send("tools/call", self.params(command, False), id=self.peer.last_id)
            return self.peer.last_id

        stuck = begin("sleep 1000") if is_stuck else None
        began = time.perf_counter()
        waiting = {begin("true") for _ in range(PARALLEL - is_stuck)}
        while waiting:
            waiting.discard(self.peer.next().get("id"))
        took = (time.perf_counter() - began) * 1000 / (PARALLEL - is_stuck)
        if stuck:
            self.peer.send("notifications/cancelled", {"requestId": stuck})
        return took

    def close(self):
        self.peer.close()


def reference(folder):
    """The package as its users start it."""
    home = f"{folder}/reference"
    os.makedirs(f"{home}/rules")
    with open(f"{home}/rules/bench.rules", "w", encoding="ascii") as f:
        f.write('prefix_rule(pattern=["git", "push"], decision="prompt")\n')
    found = glob.glob(f"{REFERENCE}/vendor/{os.uname().machine}-unknown-linux-*/codex-exec-mcp-server")
    if not found:
        raise RuntimeError(f"REFERENCE_SHELL: {REFERENCE} is not that package")
    node = shutil.which("node")
    bash = f"{os.path.dirname(found[0])}/bash/debian-12/bash"
    argv = [node, f"{REFERENCE}/bin/mcp-server.js"] if node else [found[0], "--bash", bash]
    return Contender(argv, folder, {"CODEX_HOME": home}, is_open=True)


def compared(name, ours, theirs, figure, most, rounds):
    turns = {"farhand": lambda: figure(ours)}
    if theirs:
        turns["reference"] = lambda: figure(theirs)
    return Row(name, turns, lambda f: {**f, **({"ratio": f["farhand"] / f["reference"]} if theirs else {})}, ("ratio", "<=", most), rounds)


def rows(stack, folder, rounds):
    ours = stack.enter_context(contextlib.closing(Contender([FARHAND, "mcp", "--env", "local", "--no-sandbox"], folder)))
    boxed = stack.enter_context(contextlib.closing(Contender([FARHAND, "mcp", "--env", "local"], folder)))
    theirs = stack.enter_context(contextlib.closing(reference(folder))) if REFERENCE else None
    return [
        compared("start", boxed, theirs, Contender.start, 1 / 3, rounds),
        compared("shell", ours, theirs, lambda one: one.call(False), 1 / 4, rounds),
        compared("login", ours, theirs, lambda one: one.call(True), 1 / 4, min(rounds, 5)),
        compared("program", ours, theirs, lambda one: one.call(False, "/bin/true"), 1, rounds),
        Row("boxed", {"farhand": lambda: boxed.call(False)}, lambda f: f, ("farhand", "<=", 20), rounds),
        Row("parallel", {"alone": lambda: ours.parallel(False), "beside a stuck one": lambda: ours.parallel(True)},
            lambda f: {**f, "ratio": f["beside a stuck one"] / f["alone"]}, ("ratio", "<=", 1.1), rounds),
    ]


def main():
    parser = argparse.ArgumentParser(description="Times farhand mcp.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rows", default="start,shell,login,program,boxed,parallel")
    parser.add_argument("--json")
    args = parser.parse_args()
    results = []
    if not REFERENCE:
        print("farhand mcp is not compared: REFERENCE_SHELL names no package")
    with tempfile.TemporaryDirectory(prefix="fh-bench-", dir=os.environ.get("TMPDIR", "/var/tmp")) as folder, contextlib.ExitStack() as stack:
        print("| what | milliseconds | goal | met? | load |\n| --- | --- | --- | --- | --- |")
        for row in rows(stack, folder, args.rounds):
            if row.name in args.rows.split(","):
                results.append(row.measure())
                show(row, results[-1])
    if args.json:
        with open(args.json, "w", encoding="ascii") as f:
            json.dump(results, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
