"""kill -9 of the server, the spawner, keepers with their brokers, and callers, at any moment; clients that are lost. Nothing hangs,
no process survives, and nothing that was never allowed runs.

Commands execute without end what runs, what is escalated, what is denied, and what is asked about and never answered. The programs note
where they run.
"""

import contextlib
import os
import random
import signal

import pytest

from farhand_client import IS_SANITIZED, Closed, Client, RpcError, wait_until
from intercept_rig import PLACES, Places, intercept, rule
from test_kill9 import Mark, children, describe, kill9, linger

IS_SOAK = os.environ.get("FARHAND_SLOW") == "1"
SEED = int(os.environ.get("FARHAND_SEED") or (random.randrange(10 ** 6) if IS_SOAK else 11))
# How many rounds each place gets.
ROUNDS = -(-300 // len(PLACES)) if IS_SOAK else 2 if IS_SANITIZED else 4

RULES = (rule("allow", "note-good") + 'prefix_rule(pattern=["note", "asked"], decision="prompt")\n'
         + rule("forbidden", "note-evil"))
SCRIPT = """
exec 9>>notes
note asked & note asked &
for i in 1 2 3 4; do (while :; do note plain; note-good; note-evil; done) & done 2>/dev/null
wait
"""


@pytest.fixture(scope="module")
def places():
    places = Places()
    yield places
    places.close()


@pytest.fixture(params=PLACES)
def place(request, places):
    return places.get(request.param)


@pytest.fixture
def marks():
    both = Mark(), Mark("FARHAND_TEST_HELPER")
    yield both
    for mark in both:
        mark.kill()


def check_notes(tree):
    """Nothing ran but what may run, where it may run."""
    with contextlib.suppress(FileNotFoundError), open(f"{tree.w}/notes", encoding="ascii") as f:
        seen = set(f.read().splitlines())
        assert seen <= {"inside note plain", "outside note-good"}, seen


def start(place, client, mark, tree, count=2):
    return [place.start(["/bin/bash", "-c", SCRIPT], intercept(RULES), tree.w, client, env={mark.name: mark.value}) for _ in range(count)]


def below(pid):
    """All processes below one."""
    found = [pid_ for child in children_of_threads(pid) for pid_ in (child, *below(child))]
    return found


def children_of_threads(pid):
    found = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as f:
                found += [int(child) for child in f.read().split()]
    return found


def keepers_of(spawners):
    """The keepers among the children of these spawners. A child that was just forked has another name, and no command yet."""
    return [pid for spawner in spawners for pid in children(spawner) if name_of(pid).startswith("fh-keeper")]


def name_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="latin-1") as f:
        return f.read().strip()
    return ""


def without_owner(place, victims, spawners):
    """The victims whose commands nobody is left to end (docs/SECURITY.md, "When nobody is left to end a command"): keepers that die together with the
    spawner and the server, unless a PID namespace ends what is in it."""
    if place.backend in ("namespaces", "bubblewrap") or not set(spawners) <= set(victims):
        return []
    return [pid for pid in victims if name_of(pid).startswith("fh-keeper")]


def check_survivors(place, mark, lost, sessions):
    """Waits until nothing is left but what may be: descendants of commands in `sessions`, whose keepers are `lost`, and neither the first
    process of such a command nor the first one of an escalated program. A next server ends these, too, where there is a cgroup."""
    if not lost:
        mark.wait_gone()
        return
    wait_until(lambda: not [pid for pid in mark.pids() if session_of(pid) not in (0, *sessions) or session_of(pid) == pid], 15,
               f"end of what has an owner; left: {[describe(pid) for pid in mark.pids()]}; lost: {lost}, {sessions}")
    with place.rig.new_server() as server, Client(server.url) as client:
        assert client.run(["/bin/true"], 20) == (b"", b"", 0)
        if any(has_cgroup(pid) for pid in mark.pids()):
            mark.wait_gone()
    mark.kill()
    mark.wait_gone()


def session_of(pid):
    """0: the process has ended."""
    with contextlib.suppress(OSError):
        return os.getsid(pid)
    return 0


def has_cgroup(pid):
    """Whether this process is in a cgroup of its command."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
        return any("/farhand-" in line for line in f if line.startswith("0::"))
    return False


def test_server_and_helpers_are_killed(place, marks):
    rng = random.Random(SEED)
    mark, helpers = marks
    print("seed", SEED)
    for number in range(ROUNDS):
        tree = place.tree()
        with place.rig.new_server(env={helpers.name: helpers.value}) as server:
            client = Client(server.url)
            start(place, client, mark, tree)
            if number % 3 == 0:
                wait_until(lambda: os.path.exists(f"{tree.w}/notes") and os.path.getsize(f"{tree.w}/notes") > 400, 30, "notes")
            linger(rng.uniform(0, 0.2))
            spawners = children(server.pid)
            everything = below(server.pid)
            victims = [[server.pid], spawners + [server.pid], [server.pid] + rng.sample(everything, min(3, len(everything))),
                       [server.pid] + spawners + keepers_of(spawners)][number % 4]
            lost = without_owner(place, victims, spawners)
            # The first process of a command leads the session of all of it, and so does an escalated program.
            sessions = {session_of(pid) for keeper in lost for pid in below(keeper)}
            kill9(*victims)
            kill9(server.pid)
            server.wait()
            client.abort()
        helpers.wait_gone()
        check_survivors(place, mark, lost, sessions)
        check_notes(tree)


def test_spawner_and_keepers_are_killed_at_once(place, marks):
    """The server goes on, and ends what both have left."""
    rng = random.Random(SEED + 4)
    mark = marks[0]
    with place.rig.new_server() as server:
        for number in range(ROUNDS):
            tree = place.tree()
            with Client(server.url) as client:
                started = start(place, client, mark, tree)
                for _, ident in started:
                    client.response(ident, 30)
                linger(rng.uniform(0, 0.2))
                spawners = children(server.pid)
                keepers = keepers_of(spawners)
                victims = spawners + (keepers if number % 2 else keepers[:1])
                rng.shuffle(victims)
                kill9(*victims)
                for process_id, _ in started:
                    client.wait_closed(process_id, 30)
                mark.wait_gone()
                check_notes(tree)
                assert client.run(["/bin/echo", "on"], 20) == (b"on\n", b"", 0)


def test_keepers_and_what_is_below_them_are_killed(place, marks):
    """The server goes on, and reports the end of each command whose keeper, and with it its broker, was killed."""
    rng = random.Random(SEED + 1)
    mark = marks[0]
    with place.rig.new_server() as server:
        for number in range(ROUNDS):
            tree = place.tree()
            with Client(server.url) as client:
                started = start(place, client, mark, tree)
                for _, ident in started:
                    client.response(ident, 30)
                linger(rng.uniform(0, 0.2))
                keepers = [keeper for spawner in children(server.pid) for keeper in children(spawner)
                           if any(has_mark(pid, mark) for pid in below(keeper))]
                if number % 2:
                    kill9(*keepers)
                else:
                    everything = [pid for keeper in keepers for pid in below(keeper)]
                    kill9(*rng.sample(everything, min(len(everything), 4)), *keepers)
                for process_id, _ in started:
                    client.wait_closed(process_id, 30)
                    assert client.wait_exit(process_id)["exitCode"] in (-1, 137)
                mark.wait_gone()
                check_notes(tree)
                assert client.run(["/bin/echo", "on"], 20) == (b"on\n", b"", 0)


def has_mark(pid, mark):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as f:
        return f"{mark.name}={mark.value}".encode() in f.read()
    return False


def test_clients_are_lost(place, marks):
    """With the end of the session everything ends; what was asked about was never allowed."""
    rng = random.Random(SEED + 2)
    mark = marks[0]
    with place.rig.new_server() as server:
        for _ in range(ROUNDS):
            tree = place.tree()
            client = Client(server.url, init_params={"detachMs": 200})
            start(place, client, mark, tree)
            client.flush()
            linger(rng.uniform(0, 0.2))
            client.abort(reset=rng.random() < 0.5)
            with contextlib.suppress(Closed, RpcError), Client(server.url) as other:
                assert other.run(["/bin/echo", "on"], 20) == (b"on\n", b"", 0)
            wait_until(lambda: not mark.pids(), 30, "end of the session")
            check_notes(tree)


def test_callers_are_killed_while_they_are_decided_about(place, marks):
    """Random processes of the command, any of which may be inside of execve. The command goes on, and ends."""
    rng = random.Random(SEED + 3)
    mark = marks[0]
    tree = place.tree()
    with Client(place.rig.server.url) as client:
        (process_id, ident), = start(place, client, mark, tree, 1)
        client.result(ident, 30)
        for _ in range(ROUNDS * 10):
            linger(rng.uniform(0, 0.02))
            some = [pid for pid in mark.pids() if not is_init(pid)]
            kill9(*rng.sample(some, min(len(some), 2)))
        client.call("process/terminate", {"processId": process_id})
        client.wait_closed(process_id, 30)
        mark.wait_gone()
        check_notes(tree)
        assert client.run(["/bin/echo", "on"], 20) == (b"on\n", b"", 0)


def is_init(pid):
    """The first process of a sandbox, with which everything in it ends."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="latin-1", errors="replace") as f:
        return any(line.startswith("NSpid:") and line.split()[-1] == "1" and len(line.split()) > 2 for line in f)
    return True


def test_a_stopped_keeper_stops_the_starts_and_nothing_runs_undecided(place, marks):
    mark = marks[0]
    tree = place.tree()
    with place.rig.new_server() as server, Client(server.url) as client:
        (process_id, ident), = start(place, client, mark, tree, 1)
        client.result(ident, 30)
        wait_until(lambda: os.path.exists(f"{tree.w}/notes") and os.path.getsize(f"{tree.w}/notes") > 400, 30, "notes")
        keeper = next(keeper for spawner in children(server.pid) for keeper in children(spawner)
                      if any(has_mark(pid, mark) for pid in below(keeper)))
        os.kill(keeper, signal.SIGSTOP)
        # The server answers others meanwhile, and ends what a stopped keeper cannot end.
        assert client.run(["/bin/echo", "on"], 20) == (b"on\n", b"", 0)
        os.kill(keeper, signal.SIGCONT)
        client.call("process/terminate", {"processId": process_id})
        client.wait_closed(process_id, 30)
        mark.wait_gone()
        check_notes(tree)
