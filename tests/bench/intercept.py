#!/usr/bin/python3
"""intercept.py [--rounds N] [--rows NAME,…] [--mechanisms NAME,…] [--json FILE]: times programs whose start is intercepted.

A shell starts one program after the other and notes the time before each (EPOCHREALTIME of Bash, which starts nothing); the median of the
differences is the figure of a turn. The cost is what an intercepted start takes longer than a plain one, of the same shell, in the same
round. Each round gives every contender one turn, in changing order; ratios are formed within a round, and their median is printed.

REFERENCE_SHELL names the folder of the package @openai/codex-shell-tool-mcp, which has a shell of its own: that is compared with itself.
"""

import argparse
import base64
import collections
import contextlib
import glob
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

from cli import FARHAND, ROOT

REFERENCE = os.environ.get("REFERENCE_SHELL")
STARTS = 60  # of a turn
MANY, AT_ONCE = 3000, 4  # of a turn of the row "rate"
ROUNDS_LONG = 5  # at most, of rows that take seconds
SECONDS = 120  # against hanging only
ENV = {"PATH": "/usr/bin:/bin", "HOME": "/", "LC_ALL": "C"}

# How starts can be intercepted: members of `intercept`, the shell in which the starts are made, what stands in its environment, and the server:
# a static one has no library that it could have loaded.
Mechanism = collections.namedtuple("Mechanism", "options shell env server")
MECHANISMS = {"notification": Mechanism({"mechanism": "seccomp"}, "/bin/bash", {}, FARHAND),
              "preload": Mechanism({"mechanism": "preload"}, "/bin/bash", {}, os.path.join(ROOT, "build", "farhand")),
              "wrapper": Mechanism({"mechanism": "wrapper"}, os.path.join(ROOT, "build", "patched-bash", "bash"), {}, FARHAND)}

RULES = 'prefix_rule(pattern=["outside"], decision="allow")\nprefix_rule(pattern=["denied"], decision="forbidden")\n'


class Peer:
    """A program that speaks JSON-RPC over its standard input and output, one message per line."""

    def __init__(self, argv, env=None):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env={**ENV, **(env or {})})
        self.last_id = 0

    def send(self, method, params=None, **more):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}, **more}) + "\n")
        self.process.stdin.flush()

    def next(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args[0]} has ended")
        return json.loads(line)

    def call(self, method, params=None):
        self.last_id += 1
        self.send(method, params, id=self.last_id)
        while (message := self.next()).get("id") != self.last_id or "method" in message:
            pass
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        return message["result"]

    def close(self):
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Farhand:
    """A server of ours. Commands have no sandbox, as those of the reference have none."""

    def __init__(self, mechanism):
        self.peer, self.mechanism, self.commands = Peer([mechanism.server, "serve", "--listen", "stdio"]), mechanism, 0
        self.peer.call("initialize", {"clientName": "bench"})
        self.peer.send("initialized")

    def run(self, script, is_intercepted):
        """Returns the standard output of a command that must succeed, and how many starts were decided how."""
        self.commands += 1
        name, out = f"p{self.commands}", b""
        options = {"rules": [{"name": "bench.rules", "text": RULES}], "onPrompt": "deny", **self.mechanism.options}
        self.peer.call("process/start", {"processId": name, "argv": [self.mechanism.shell, "-c", script], "cwd": "file:///", "arg0": None,
                                         "env": {**ENV, **(self.mechanism.env if is_intercepted else {})}, "tty": False, "pipeStdin": False,
                                         **({"intercept": options} if is_intercepted else {})})
        ended = {}
        while (message := self.peer.next()).get("method") != "process/closed":
            params = message.get("params", {})
            if message.get("method") == "process/output" and params["stream"] == "stdout":
                out += base64.b64decode(params["chunk"])
            if message.get("method") == "process/exited":
                ended = params
        if ended.get("exitCode") != 0:
            raise RuntimeError(f"a command has ended with {ended}")
        return out.decode(), ended.get("intercepted")

    def close(self):
        self.peer.close()


class Reference:
    """The reference's server of tools. It asks for every start that its own shell makes."""

    def __init__(self, folder):
        found = glob.glob(f"{REFERENCE}/vendor/{os.uname().machine}-unknown-linux-*/codex-exec-mcp-server")
        if not found:
            raise RuntimeError(f"REFERENCE_SHELL: {REFERENCE} is not that package")
        programs = os.path.dirname(found[0])
        shells = [s for s in sorted(glob.glob(f"{programs}/bash/*/bash"))
                  if subprocess.run([s, "-c", ":"], check=False, stderr=subprocess.DEVNULL).returncode == 0]
        self.shell = next((s for s in shells if "/debian-12/" in s), shells[0])
        home = f"{folder}/home"
        os.makedirs(f"{home}/rules", exist_ok=True)
        with open(f"{home}/rules/bench.rules", "w", encoding="ascii") as f:
            f.write(RULES)
        self.peer = Peer([found[0], "--bash", self.shell], {"CODEX_HOME": home, "HOME": home})
        self.peer.call("initialize", {"protocolVersion": "2025-06-18", "clientInfo": {"name": "bench", "version": "1"}, "capabilities": {
            "experimental": {"codex/sandbox-state": {"version": "1.0.0"}}, "elicitation": {}}})
        self.peer.send("notifications/initialized")
        self.peer.call("codex/sandbox-state/update", {"sandboxPolicy": {"type": "danger-full-access"}, "codexLinuxSandboxExe": None,
                                                      "sandboxCwd": "/"})

    def run(self, script, is_intercepted):
        if not is_intercepted:
            return subprocess.run([self.shell, "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  env=ENV, text=True, check=True, timeout=SECONDS).stdout, None
        answer = self.peer.call("tools/call", {"name": "shell", "arguments": {"command": script, "workdir": "/", "login": False,
                                                                             "timeout_ms": SECONDS * 1000}})
        result = json.loads(answer["content"][0]["text"])
        if result["exit_code"] != 0:
            raise RuntimeError(f"the reference's command has ended with {result}")
        return result["output"], None

    def close(self):
        self.peer.close()


def one_by_one(program):
    return f"t=(); for ((i = 0; i < {STARTS}; i++)); do t+=($EPOCHREALTIME); {program} -c :; done; t+=($EPOCHREALTIME); echo ${{t[@]}}"


def microseconds(text):
    """The differences between the times that a script has noted."""
    times = [int(word.replace(".", "")) for word in text.split()]
    return [b - a for a, b in zip(times, times[1:])]


def check(contender, folder):
    """Says whether starts are intercepted: what is denied is, and what runs outside has another parent than the shell."""
    out, counts = contender.run(f"{folder}/denied 2>/dev/null; echo $? $$; {folder}/outside -c 'echo $PPID'; {folder}/inside -c 'echo $PPID'; :", True)
    code, shell, outside, inside = out.split()
    if code != "1" or shell == outside or shell != inside or counts not in (None, {"run": 2, "escalated": 1, "denied": 1}):
        raise RuntimeError(f"{type(contender).__name__} does not intercept: {out.split()} {counts}")


class Row:
    """One kind of work. `turns`: names of contenders, each with a function that makes a figure; `finish` makes the results of a round of
    them. `goal`: one of the results, "<=" or ">=", and the limit."""

    def __init__(self, name, turns, finish, goal, rounds):
        self.name, self.turns, self.finish, self.goal, self.rounds = name, turns, finish, goal, rounds

    def measure(self):
        before, found = os.getloadavg()[0], collections.defaultdict(list)
        for _ in range(self.rounds):
            figures = {name: self.turns[name]() for name in random.sample(list(self.turns), len(self.turns))}
            for name, value in self.finish(figures).items():
                found[name].append(value)
        medians = {name: statistics.median(values) for name, values in found.items()}
        figure, sign, limit = self.goal
        met = None
        if figure in medians:
            met = medians[figure] <= limit if sign == "<=" else medians[figure] >= limit
        return {"row": self.name, "load": [before, os.getloadavg()[0]], "rounds": self.rounds, "met": met, "figures": medians}


def cost_row(name, farhand, reference, folder, program, most, rounds):
    """What an intercepted start costs, ours and theirs."""
    def turn(contender, program, is_intercepted):
        return lambda: statistics.median(microseconds(contender.run(one_by_one(f"{folder}/{program}"), is_intercepted)[0]))

    turns = {"plain": turn(farhand, "inside", False), "farhand": turn(farhand, program, True)}
    if reference:
        turns |= {"reference's plain": turn(reference, "inside", False), "reference": turn(reference, program, True)}

    def finish(f):
        result = {"plain": f["plain"], "farhand": f["farhand"], "cost": f["farhand"] - f["plain"]}
        if reference:
            theirs = f["reference"] - f["reference's plain"]
            result |= {"reference's plain": f["reference's plain"], "reference": f["reference"], "reference's cost": theirs,
                       "ratio": result["cost"] / theirs}
        return result

    return Row(name, turns, finish, ("ratio", "<=", most), rounds)


def seconds_row(name, farhand, script, finish, goal, rounds):
    """What a whole script takes, intercepted and plain."""
    def turn(is_intercepted):
        return lambda: microseconds(farhand.run(f"a=$EPOCHREALTIME; {script} || exit; echo $a $EPOCHREALTIME", is_intercepted)[0])[0] / 1e6

    return Row(name, {"plain": turn(False), "farhand": turn(True)}, lambda f: finish(f["plain"], f["farhand"]), goal, rounds)


def make_script(folder):
    """Compiles a part of this project: make, and for each file a shell and a compiler of three programs."""
    sources = [s for s in sorted(glob.glob(f"{ROOT}/src/base/*.c")) if not s.endswith("_test.c")]
    objects = " ".join(os.path.basename(s)[:-2] + ".o" for s in sources)
    with open(f"{folder}/Makefile", "w", encoding="ascii") as f:
        f.write(f"all: {objects}\n%.o: {ROOT}/src/base/%.c\n\t@cc -std=gnu17 -D_GNU_SOURCE -O1 -I{ROOT}/src -c -o $@ $< && test -f $@\n")
    return f"make -C {folder} -s -B -j8"


def rows(name, reference, folder, wanted, rounds):
    """Yields the wanted rows of a mechanism."""
    if not os.access(MECHANISMS[name].shell, os.X_OK):
        print(f"{name} is not measured: {MECHANISMS[name].shell} is missing (make bash-build)")
        return
    with contextlib.closing(Farhand(MECHANISMS[name])) as farhand:
        check(farhand, folder)
        few = min(rounds, ROUNDS_LONG)
        many = f"yes | head -n {MANY} | xargs -n 1 -P {AT_ONCE} {folder}/inside -c :"
        if name == "wrapper":
            # It sees what the shell itself starts, and neither what xargs nor what make does.
            many = f"for ((i = 0; i < {MANY}; i += {AT_ONCE})); do " + f"{folder}/inside -c : & " * AT_ONCE + "wait; done"
            wanted = [row for row in wanted if row != "make"]
        found = [
            cost_row(f"{name}, run", farhand, reference, folder, "inside", 1 / 7, rounds),
            cost_row(f"{name}, escalate", farhand, reference, folder, "outside", 2 / 3, rounds),
            seconds_row(f"{name}, rate", farhand, many, lambda plain, ours: {"plain": MANY / plain, "farhand": MANY / ours},
                        ("farhand", ">=", 1000), few),
            seconds_row(f"{name}, make", farhand, make_script(folder),
                        lambda plain, ours: {"plain": plain, "farhand": ours, "ratio": ours / plain}, ("ratio", "<=", 1.15), few),
        ]
        yield from (row for row in found if row.name.split()[-1] in wanted)


def show(row, result):
    cells = ", ".join(f"{name} {value:.3g}" if value < 100 else f"{name} {value:.0f}" for name, value in result["figures"].items())
    met = {None: "-", True: "met", False: "MISSED"}[result["met"]]
    figure, sign, limit = row.goal
    print(f"| {row.name} | {cells} | {figure} {sign} {round(limit, 3):g} | {met} | {result['load'][0]:.1f} to {result['load'][1]:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Times programs whose start is intercepted.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rows", default="run,escalate,rate,make")
    parser.add_argument("--mechanisms", default=",".join(MECHANISMS))
    parser.add_argument("--json")
    args = parser.parse_args()
    results = []
    if not REFERENCE:
        print("the cost of interception is not compared: REFERENCE_SHELL names no package")
    with tempfile.TemporaryDirectory(prefix="fh-bench-", dir=os.environ.get("TMPDIR", "/var/tmp")) as folder, contextlib.ExitStack() as stack:
        for name in ("inside", "outside", "denied"):
            shutil.copy("/bin/dash", f"{folder}/{name}")
        reference = stack.enter_context(contextlib.closing(Reference(folder))) if REFERENCE else None
        if reference:
            check(reference, folder)
        print("| how, what | microseconds a start; rate: starts a second; make: seconds | goal | met? | load |\n| --- | --- | --- | --- | --- |")
        for name in args.mechanisms.split(","):
            for row in rows(name, reference, folder, args.rows.split(","), args.rounds):
                results.append(row.measure())
                show(row, results[-1])
    if args.json:
        with open(args.json, "w", encoding="ascii") as f:
            json.dump(results, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
