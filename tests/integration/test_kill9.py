"""kill -9 of server, spawner and keepers at any moment; SIGTERM; job control: no process of any tree survives.

Survivors are found by a variable in their environment, whatever their parent is by then. The helpers of the server are
found the same way, by a variable that only the server was given.
"""

import contextlib
import os
import random
import signal
import time
import uuid

import pytest

from farhand_client import IS_SANITIZED, Closed, RawSocket, Server, pid_alive, pid_gone, wait_until

IS_SOAK = os.environ.get("FARHAND_SLOW") == "1"
IS_FULL = IS_SOAK or not IS_SANITIZED
# The default run uses a fixed seed; a soak run chooses one and prints it.
SEED = int(os.environ.get("FARHAND_SEED") or (random.randrange(10 ** 6) if IS_SOAK else 5))

BOTH = pytest.mark.parametrize("tty", [False, True], ids=["pipes", "tty"])

# (script, tty). All but the last run until they are killed.
TREES = {
    "plain": ("sleep 600 & sleep 600", False),
    "session": ("setsid sleep 600 & setsid sh -c 'sleep 600 & sleep 600' & sleep 600", False),
    "double fork": ("setsid sh -c '(sleep 600 &); (setsid sleep 600 &); exit 0'; sleep 600", False),
    "daemon": ("setsid sh -c 'exec <&- >&- 2>&-; cd /; (sleep 600 &); exec sleep 600' & sleep 600", False),
    "stopped": ("sleep 600 & kill -STOP $!; setsid sleep 600 & kill -STOP $!; kill -STOP $$", False),
    "deaf": ("trap '' TERM HUP INT QUIT; sleep 600 & while :; do sleep 600; done", True),
    "job control": ("set -m; sleep 600 & sleep 600 | cat & (sleep 600 &); sleep 600 | cat", True),
    "stopped jobs": ("set -m; sleep 600 & kill -STOP %1; sleep 600 | cat & kill -STOP %2; disown -a; sleep 600", True),
    "pipeline": ("sleep 600 | cat | (cat; sleep 600) | cat", False),
    "growing": ("for i in 1 2 3 4 5 6 7 8; do setsid sh -c 'sleep 600 & sleep 600' & (sleep 600 &) ; done; sleep 600",
                False),
    "left behind": ("setsid sleep 600 >/dev/null 2>&1 </dev/null & exit 0", False),
}


class Mark:
    """An environment variable with a unique value, by which processes are found."""

    def __init__(self, name="FARHAND_TEST_MARK"):
        self.name, self.value = name, str(uuid.uuid4())
        self._bytes = f"{self.name}={self.value}".encode()
        self.env = {"PATH": "/usr/bin:/bin", name: self.value}

    def pids(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as f:
                if self._bytes in f.read() and pid_alive(pid):
                    found.append(int(pid))
        return found

    def wait_gone(self, timeout=15):
        try:
            wait_until(lambda: not self.pids(), timeout, "end of all marked processes")
        except TimeoutError:
            raise AssertionError(f"survivors: {[describe(pid) for pid in self.pids()]}") from None

    def kill(self):
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def describe(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
            name, _, rest = f.read().partition("(")[2].rpartition(")")
            state, ppid, pgrp, session = rest.split()[:4]
            return f"{pid} {name} state={state} ppid={ppid} pgrp={pgrp} session={session}"
    return f"{pid} gone"


@pytest.fixture
def marks():
    """The marks of the commands and of the server's own processes. Nothing of either outlives the test."""
    both = Mark(), Mark("FARHAND_TEST_HELPER")
    yield both
    for mark in both:
        mark.kill()


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(child) for child in f.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def parent(pid):
    with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
        return int(f.read().rpartition(")")[2].split()[1])


def spawner_of(server, but=None):
    """The pid of the spawner, once it is the only child of the server and not the pid `but` of an earlier spawner. Keepers of a
    killed spawner are also children of the server until they end."""
    return wait_until(lambda: now[0] if len(now := children(server.pid)) == 1 and now != [but] else None, 20,
                      "one spawner alone")


def run_by(spawner, roots):
    """The ids of the processes whose pid in `roots` is a child of a keeper of this spawner."""
    pids = {pid for keeper in children(spawner) for pid in children(keeper)}
    return [process_id for process_id, pid in roots.items() if pid in pids]


def kill9(*pids):
    """Sends SIGKILL to all pids, one right after the other."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def linger(seconds):
    """Waits in a busy loop, because a sleep is too coarse for the moments that the test has to hit."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


class Grove:
    """Trees of every kind, started by one client without waiting for answers."""

    def __init__(self, client, mark, name, kinds=None):
        self.client = client
        self.mark = mark
        self.requests = {}
        for kind in kinds or TREES:
            script, tty = TREES[kind]
            process_id = f"{name}: {kind}"
            self.requests[process_id] = client.request("process/start", {
                "processId": process_id, "argv": ["/bin/bash", "-c", script], "cwd": "/tmp", "env": mark.env,
                "tty": tty})
        client.flush()

    def wait_grown(self):
        """Waits until every start is answered and every tree has a second process."""
        roots = self.roots()
        wait_until(lambda: len(self.mark.pids()) >= 2 * len(roots), 20, "trees")
        return roots

    def roots(self):
        """The pid of the first process of each tree that was started, by process id."""
        answers = {process_id: self.client.response(ident, 20) for process_id, ident in self.requests.items()}
        self.requests = {}
        return {process_id: answer["result"]["pid"] for process_id, answer in answers.items() if "result" in answer}

    def wait_ended(self, process_id):
        """Waits for process/exited and process/closed, in this order."""
        self.client.wait_closed(process_id, 20)
        self.client.check_seq(process_id)
        code = self.client.wait_exit(process_id)["exitCode"]
        # -1: no keeper was left to report the exit. Only the tree "left behind" exits by itself.
        assert code in (-1, 137) or (code == 0 and process_id.endswith("left behind")), (process_id, code)


# Victims: each function takes (server, spawner, keepers, rng) and returns the pids to kill, in this order


def some(keepers, rng):
    return rng.sample(keepers, rng.randint(min(1, len(keepers)), len(keepers)))


SERVER_VICTIMS = [
    lambda server, spawner, keepers, rng: [server],
    lambda server, spawner, keepers, rng: [server, spawner],
    lambda server, spawner, keepers, rng: [spawner, server],
    lambda server, spawner, keepers, rng: [server] + some(keepers, rng),
    lambda server, spawner, keepers, rng: some(keepers, rng) + [server],
]


def server_rounds(count, seed, marks):
    """Kills the server, alone or with others, but leaves a spawner or keepers alive, which have to end the trees."""
    rng = random.Random(seed)
    mark, helpers = marks
    for n in range(count):
        with Server(env={helpers.name: helpers.value}) as server:
            client = server.connect()
            grove = Grove(client, mark, "t")
            if n % 3 == 0:
                grove.wait_grown()
            linger(rng.uniform(0, 0.03))
            spawner = spawner_of(server)
            victims = SERVER_VICTIMS[n % len(SERVER_VICTIMS)]
            kill9(*victims(server.pid, spawner, children(spawner), rng))
            server.wait()
            client.abort()
        # A spawner or keeper that still lives may start something.
        helpers.wait_gone()
        mark.wait_gone()


def spawner_rounds(count, seed, marks):
    """Kills the spawner; the server reports the exit of every command and goes on with a new spawner."""
    rng = random.Random(seed)
    mark, helpers = marks
    with Server(env={helpers.name: helpers.value}) as server:
        for n in range(count):
            with server.connect() as client:
                spawner = spawner_of(server)
                grove = Grove(client, mark, "t")
                roots = grove.wait_grown() if n % 3 == 0 else None
                linger(rng.uniform(0, 0.03))
                keepers = children(spawner)
                kill9(*[[spawner], some(keepers, rng) + [spawner], [spawner] + some(keepers, rng)][n % 3])
                was_grown = roots is not None
                roots = roots or grove.roots()
                successor = spawner_of(server, but=spawner)
                # The successor runs the starts that the server sent after it had noticed the death: these commands live on.
                heirs = run_by(successor, roots)
                assert not (was_grown and heirs)
                for process_id in heirs:
                    running = client.call("process/terminate", {"processId": process_id}, 20)["running"]
                    assert running or process_id == "t: left behind", "only that one ends by itself"
                for process_id in roots:
                    grove.wait_ended(process_id)
                assert client.run(["/bin/echo", "on"], 20) == (b"on\n", b"", 0)
                # What was left behind ends with the session; here, with its keeper.
                kill9(*children(successor))
                mark.wait_gone()
            # A child that was still on its way to execve has no mark yet.
            assert spawner_of(server) == successor
            mark.wait_gone()
    helpers.wait_gone()
    mark.wait_gone()


def keeper_rounds(count, seed, marks):
    """Kills some keepers: their trees end and their exits are reported; the other trees go on."""
    rng = random.Random(seed)
    mark, helpers = marks
    with Server(env={helpers.name: helpers.value}) as server:
        spawner = spawner_of(server)
        for n in range(count):
            with server.connect() as client:
                grove = Grove(client, mark, "t")
                if n % 3 == 0:
                    roots = {p: pid for p, pid in grove.wait_grown().items() if not p.endswith("left behind")}
                    owner = {process_id: parent(pid) for process_id, pid in roots.items()}
                    victims = rng.sample(sorted(owner), rng.randint(1, len(owner)))
                    kill9(*[owner[process_id] for process_id in victims])
                    for process_id in victims:
                        grove.wait_ended(process_id)
                    for process_id in set(owner) - set(victims):
                        assert client.read(process_id)["exited"] is False
                        assert pid_alive(roots[process_id])
                else:
                    linger(rng.uniform(0, 0.02))
                    kill9(*some(children(spawner), rng))
                    roots = grove.roots()
                for process_id in roots:
                    client.call("process/terminate", {"processId": process_id}, 20)
                    grove.wait_ended(process_id)
                assert client.run(["/bin/echo", "on"], 20) == (b"on\n", b"", 0)
                # What was left behind ends with the session; here, with its keeper.
                kill9(*children(spawner))
                mark.wait_gone()
            assert children(server.pid) == [spawner]
    helpers.wait_gone()
    mark.wait_gone()


@pytest.mark.parametrize("rounds, count", [(server_rounds, 150), (spawner_rounds, 150), (keeper_rounds, 100)],
                         ids=["server", "spawner", "keepers"])
def test_300_times_kill_9_leave_no_survivor(marks, rounds, count):
    """Servers and spawners are killed 300 times in all; kills of keepers come on top."""
    print(f"seed {SEED}")
    rounds(count * 3 if IS_SOAK else count if IS_FULL else count // 5, SEED, marks)


def test_a_start_right_after_the_death_of_the_spawner_works(marks):
    """The start does not wait for keepers of the old spawner that are still ending their trees."""
    mark, helpers = marks
    with Server(env={helpers.name: helpers.value}) as server:
        for n in range(20 if IS_FULL else 5):
            with server.connect() as client:
                spawner = spawner_of(server)
                roots = Grove(client, mark, "t").wait_grown()
                busy = parent(roots["t: plain"])
                os.kill(busy, signal.SIGSTOP)
                kill9(spawner)
                pid_gone(spawner)
                try:
                    assert client.run(["/bin/echo", f"{n}"]) == (f"{n}\n".encode(), b"", 0)
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(busy, signal.SIGCONT)
                for process_id in roots:
                    client.wait_closed(process_id, 20)
                    client.check_seq(process_id)
                mark.wait_gone()


def test_a_start_that_the_killed_spawner_did_not_take_is_answered(marks):
    """The start fails at once, although a stopped keeper of the killed spawner keeps the server from learning that all commands
    ended."""
    mark, helpers = marks
    with Server(env={helpers.name: helpers.value}) as server:
        with server.connect() as client:
            spawner = spawner_of(server)
            pid = client.start("before", ["/bin/sleep", "600"], env=mark.env)["pid"]
            busy = parent(pid)
            for stopped in (busy, spawner):
                os.kill(stopped, signal.SIGSTOP)
            params = {"processId": "p", "argv": ["/bin/sleep", "600"], "cwd": "/tmp", "env": mark.env, "tty": False}
            start = client.request("process/start", params)
            sent = client.request("process/signal", {"processId": "p", "signal": "interrupt"})
            client.read("before")  # by then the start was sent
            kill9(spawner)
            try:
                error = client.response(start)["error"]
                assert error["code"] == -32603 and error["data"]["step"] == "spawner", error
                assert "error" not in client.response(sent)
                # The id is free at once.
                client.start("p", ["/bin/sleep", "600"], env=mark.env)
            finally:
                os.kill(busy, signal.SIGCONT)
            client.wait_closed("before")
            assert client.wait_exit("before")["exitCode"] == 137
            assert spawner_of(server) != spawner
            # The kernel shows the environment a moment after execve.
            assert len(wait_until(mark.pids, what="the second one")) == 1
    helpers.wait_gone()
    mark.wait_gone()


# SIGTERM and SIGINT


GRACEFUL = "trap 'echo got TERM; exit 3' TERM; echo up; while :; do sleep 0.05; done"
DEAF = "trap '' TERM HUP INT; echo up; while :; do sleep 1; done"


def start_scripts(client, mark, scripts, tty=False):
    for name, script in scripts.items():
        client.start(name, ["/bin/bash", "-c", script], env=mark.env, tty=tty)
        client.wait_output(name, b"up")


def readyz(server):
    with RawSocket(server.port) as raw:
        return raw.get("/readyz")[0]


@BOTH
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_running_trees_get_the_grace_period(marks, sig, tty):
    mark, helpers = marks
    with Server(config="shutdown_grace_period_ms = 300000\n", env={helpers.name: helpers.value}) as server:
        client = server.connect()
        children_too = f"setsid bash -c \"{GRACEFUL}\" & {GRACEFUL.replace('exit 3', 'wait; exit 3')}"
        start_scripts(client, mark, {"root": GRACEFUL, "tree": children_too}, tty)
        client.wait_output("tree", lambda data: data.count(b"up") == 2)
        began = time.monotonic()
        server.proc.send_signal(sig)
        for name, count in (("root", 1), ("tree", 2)):
            client.wait_closed(name, 20)
            client.check_seq(name)
            assert client.wait_exit(name)["exitCode"] == 3
            assert client.output(name).count(b"got TERM") == count
        assert client.closed_code() == 1001
        assert server.wait() == 0
        assert time.monotonic() - began < 200, "who has gone is not waited for"
        client.abort()
    mark.wait_gone()
    helpers.wait_gone()


def test_who_does_not_go_is_killed_after_the_grace_period(marks):
    mark, helpers = marks
    with Server(config="shutdown_grace_period_ms = 700\n", env={helpers.name: helpers.value}) as server:
        client = server.connect()
        start_scripts(client, mark, {"deaf": DEAF, "session": f"setsid bash -c \"{DEAF}\" & {DEAF}"})
        grove = Grove(client, mark, "t")
        grove.wait_grown()
        began = time.monotonic()
        server.proc.send_signal(signal.SIGTERM)
        for name in ("deaf", "session"):
            client.wait_closed(name, 20)
            client.check_seq(name)
            assert client.wait_exit(name)["exitCode"] == 137
        assert time.monotonic() - began >= 0.69
        assert server.wait() == 0
        client.abort()
    mark.wait_gone()
    helpers.wait_gone()


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_shortens_the_grace_period(marks, second):
    mark, helpers = marks
    with Server(config="shutdown_grace_period_ms = 60000\n", env={helpers.name: helpers.value}) as server:
        client = server.connect()
        start_scripts(client, mark, {"deaf": DEAF})
        server.proc.send_signal(signal.SIGTERM)
        wait_until(lambda: readyz(server) == 503, what="draining")
        assert pid_alive(server.pid) and mark.pids()
        began = time.monotonic()
        server.proc.send_signal(second)
        client.wait_closed("deaf", 20)
        assert client.wait_exit("deaf")["exitCode"] == 137
        assert server.wait() == 0
        assert time.monotonic() - began < 50
        client.abort()
    mark.wait_gone()
    helpers.wait_gone()


def test_a_draining_server_takes_nobody_new(marks):
    mark, _ = marks
    with Server(config="shutdown_grace_period_ms = 60000\n") as server:
        client = server.connect()
        start_scripts(client, mark, {"deaf": DEAF})
        with server.connect() as lost:
            start_scripts(lost, mark, {"other": DEAF})
        assert readyz(server) == 200
        server.proc.send_signal(signal.SIGTERM)
        wait_until(lambda: readyz(server) == 503, what="draining")
        with server.connect(init=False) as new:
            error = new.error("initialize", {"clientName": "new"})
            assert error.code == -32022
        params = {"processId": "more", "argv": ["/bin/true"], "cwd": "/tmp", "env": {}, "tty": False}
        assert client.error("process/start", params).code == -32022
        # A client with a session can still read from its processes and end them.
        assert client.read("deaf")["exited"] is False
        assert client.call("process/terminate", {"processId": "deaf"}) == {"running": True}
        client.wait_closed("deaf")
        with server.connect(resume=lost.session_id) as again:
            assert again.call("process/terminate", {"processId": "other"}) == {"running": True}
            again.wait_closed("other")
            assert server.wait() == 0
        client.abort()
    mark.wait_gone()


def test_a_server_with_nothing_to_do_goes_at_once():
    with Server(config="shutdown_grace_period_ms = 60000\n") as server:
        client = server.connect()
        client.run(["/bin/true"])
        server.proc.send_signal(signal.SIGTERM)
        assert client.closed_code() == 1001
        assert server.wait() == 0
        client.abort()


def test_a_start_that_races_with_the_signal_leaves_nothing(marks):
    mark, helpers = marks
    rng = random.Random(3)
    for _ in range(20 if IS_FULL else 5):
        with Server(config="shutdown_grace_period_ms = 50\n", env={helpers.name: helpers.value}) as server:
            client = server.connect()
            grove = Grove(client, mark, "t")
            linger(rng.uniform(0, 0.01))
            server.proc.send_signal(signal.SIGTERM)
            answered = 0
            with contextlib.suppress(Closed):
                for ident in grove.requests.values():
                    client.response(ident, 20)
                    answered += 1
            assert answered == len(grove.requests), "every start is answered before the end"
            assert server.wait() == 0
            client.abort()
        helpers.wait_gone()
        mark.wait_gone()


# Job control


JOBS = {
    "background": ("sleep 600 & sleep 600 & sleep 600", 3),
    "pipelines": ("sleep 600 | cat | cat & sleep 600 | cat & sleep 600", 6),
    "stopped": ("sleep 600 & kill -STOP %1; sleep 600 | cat & kill -STOP %2; sleep 600", 4),
    "disowned": ("sleep 600 & sleep 600 | cat & disown -a; sleep 600", 4),
    "nohup": ("nohup sleep 600 >/dev/null 2>&1 & (trap '' HUP; exec sleep 600) & sleep 600", 3),
    "nested": ("bash -c 'set -m; sleep 600 & sleep 600 & sleep 600' & sleep 600", 5),
}


@BOTH
@pytest.mark.parametrize("jobs", JOBS)
def test_terminate_ends_every_job_of_a_shell(server, marks, jobs, tty):
    mark, _ = marks
    script, count = JOBS[jobs]
    with server.connect() as client:
        client.start("p", ["/bin/bash", "-c", f"set -m; {script}; true"], env=mark.env, tty=tty)
        pids = wait_until(lambda: found if len(found := mark.pids()) >= count + 1 else None, 10, "all jobs")
        wait_until(lambda: len({os.getpgid(pid) for pid in pids}) > 1, what="groups of their own")
        assert client.call("process/terminate", {"processId": "p"}) == {"running": True}
        client.wait_closed("p")
        assert client.wait_exit("p")["exitCode"] == 137
        client.check_seq("p")
        mark.wait_gone()


def test_terminate_ends_the_jobs_of_an_interactive_shell(server, marks):
    mark, _ = marks
    with server.connect() as client:
        env = {**mark.env, "PS1": "ready> ", "TERM": "dumb", "HISTFILE": ""}
        client.start("p", ["/bin/bash", "--norc", "--noprofile", "-i"], env=env, tty=True)
        client.wait_output("p", b"ready> ")
        for text in ("sleep 600 &", "sleep 601 | cat &", "kill -STOP %2", "echo do''ne"):
            client.write("p", text.encode() + b"\n", f"w{text}")
        client.wait_output("p", b"done\r\n")
        client.write("p", b"cat\n", "foreground")
        # The group of the last one is set a moment after its fork.
        wait_until(lambda: len(found := mark.pids()) == 5 and len({os.getpgid(pid) for pid in found}) == 4, 10, "all jobs")
        assert client.call("process/terminate", {"processId": "p"}) == {"running": True}
        client.wait_closed("p")
        mark.wait_gone()
