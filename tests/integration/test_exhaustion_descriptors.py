"""Descriptors in flight: those that a command has sent on unix sockets and no process has received.

The kernel counts them for all processes of a user, and passes on no more (ETOOMANYREFS) while there are more of them than
the sender may open. The server passes the descriptors of each command to its spawner, and an fs helper what it has opened
to the server. So a command that keeps as many in flight as it can must not keep others from starting, and in no case from
being ended.
"""

import base64
import contextlib
import errno
import itertools
import os
import resource
import shutil
import subprocess
import tempfile
import time

import pytest

import farhand_client
from exhaustion_rig import ANSWER_SECONDS
from farhand_client import BIN, PATIENCE, Client, RpcError, wait_until
from fs_helpers import outcome
from load_rig import children, holdings, spawner_of
from sandbox_rig import TREES, USERS, Box, Rig, is_error, read_only, rig_of, why_not, workspace_write
from test_sandbox_backends import need_landlock
from test_sandbox_bwrap import REAL

HERE = os.path.dirname(os.path.abspath(__file__))
# The kernel counts for each user: a user id of its own keeps tests that run at the same time away from the limit.
UID = 58300 + os.getpid() % 1000
HANDOVER_SECONDS = 1.0  # LIMIT_HANDOVER_MS
SPLIT = 1024  # LIMIT_OPEN_FILES_SPLIT
# How many messages an attacker sends that no limit of the kernel stops.
MESSAGES = "400"
_names = itertools.count(1)


@pytest.fixture(scope="module")
def program():
    """The path of the attacking program, in a directory where every user can run it."""
    folder = tempfile.mkdtemp(prefix="fh-flood-", dir=TREES)
    os.chmod(folder, 0o755)
    path = os.path.join(folder, "flood")
    done = subprocess.run(["cc", "-std=gnu17", "-O1", "-o", path, os.path.join(HERE, "flood_descriptors.c")],
                          capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    yield path
    shutil.rmtree(folder)


def hard_limit():
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def limits_of(pid):
    """The soft and the hard limit on open files of a process."""
    with open(f"/proc/{pid}/limits", encoding="ascii") as f:
        return next(tuple(map(int, line.split()[3:5])) for line in f if line.startswith("Max open files"))


def need_split():
    if hard_limit() < SPLIT:
        pytest.skip("too few open files to be divided")


def new_tree(rig):
    tree = rig.tree()
    for folder in (tree.w, tree.o):
        tree.dir(folder)
    return tree


def start_params(rig, argv, profile, cwd, **kw):
    params = rig.params(argv, profile or read_only(), cwd, **kw)
    if profile is None:
        del params["sandbox"]
    return params


@contextlib.contextmanager
def flood(rig, argv, profile=None, cwd="/"):
    """Runs an attacker in a session of its own that keeps as many descriptors in flight as it can. Yields how many; ends it
    afterwards."""
    with Client(rig.server.url) as client:
        params = start_params(rig, argv, profile, cwd, pipeStdin=True)
        process_id = params["processId"]
        client.call("process/start", params, 30)
        try:
            said = client.wait_output(process_id, lambda out: out.endswith(b"\n"), 30)
            assert said.startswith(b"holding "), said
            yield int(said.split()[1])
        finally:
            with within(what="the end of the attacker"):
                client.call("process/terminate", {"processId": process_id})
                client.wait_exit(process_id, 30)
            client.wait_closed(process_id, 30)


@contextlib.contextmanager
def within(seconds=ANSWER_SECONDS, what="an answer"):
    begun = time.monotonic()
    yield
    took = time.monotonic() - begun
    assert took < seconds * PATIENCE, f"{what} took {took:.3f} s"


# Work of another session during an attack


def start(rig, client, argv, profile=None, cwd="/", **kw):
    params = start_params(rig, argv, profile, cwd, **kw)
    with within(what="a start"):
        client.call("process/start", params, 30)
    return params["processId"]


def end(client, process_id):
    with within(what="the end of a command"):
        client.call("process/terminate", {"processId": process_id})
        client.wait_closed(process_id)
    assert client.wait_exit(process_id)["exitCode"] == 137


def converse(rig, client, **kw):
    """Runs `cat`, writes to it and checks what it prints."""
    process_id = start(rig, client, ["/bin/cat"], pipeStdin=True, **kw)
    with within(what="a line there and back"):
        client.write(process_id, b"hello\n", write_id=f"w{next(_names)}")
        client.wait_output(process_id, b"hello\n")
    end(client, process_id)


def run_in_terminal(rig, client, **kw):
    process_id = start(rig, client, ["/bin/sh", "-c", "[ -t 0 ] && echo terminal; exit 5"], tty=True, **kw)
    with within(what="the end of a terminal"):
        client.wait_closed(process_id)
    assert client.wait_exit(process_id)["exitCode"] == 5
    assert b"terminal" in client.output(process_id)


def serve_files(client, profile, tree, name):
    box = Box(client, profile, tree.w)
    path = os.path.join(tree.w, name)
    with within(what="fs/writeFile"):
        answer = box.write(path, b"content of " + name.encode())
    assert not is_error(answer), answer
    with within(what="fs/readFile"):
        answer = box.read(path)
    assert answer == b"content of " + name.encode(), answer
    with within(what="fs/open and fs/readBlock"):
        answer = box.open(path)
        block = box.blocks("readBlock", offset=0, len=7)
    assert not is_error(answer), answer
    assert base64.b64decode(block["chunk"]) == b"content", block
    box.blocks("close")


def others_work(rig, tree, profiles=None):
    """Commands, their end and file requests on a new connection; each has to be done in time."""
    with within(what="a connection"):
        client = Client(rig.server.url)
    with client:
        for profile in profiles or (None, read_only(), workspace_write()):
            converse(rig, client, profile=profile, cwd=tree.w)
            run_in_terminal(rig, client, profile=profile, cwd=tree.w)
        serve_files(client, workspace_write(), tree, f"f{next(_names)}")
        # A profile that no helper has served yet.
        serve_files(client, workspace_write(), new_tree(rig), "first")


def settle(rig):
    """Waits until the spawner has no children and the descriptors of server and spawner stay the same; returns these."""
    last = []

    def is_still():
        # This answer shows that the server has run between two looks, and has seen the end of earlier connections.
        assert rig.client.call("environment/status", timeout=30) == {"status": "ready"}
        last.append(holdings(rig.server))
        return children(spawner_of(rig.server)) == [] and len(last) > 5 and len(set(last[-5:])) == 1

    wait_until(is_still, 60, "a quiet server")
    return last[-1]


# Attacks

ATTACKS = {"one-process": "1", "many-processes": "30", "past-the-check": "200"}


def attack_argv(program, attack, tree):
    argv = [program, ATTACKS[attack], MESSAGES]
    return argv + [os.path.join(tree.o, "cold")] if attack == "past-the-check" else argv


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("user", USERS)
def test_a_sandboxed_command_that_floods_stops_nobody(user, attack, program):
    need_split()
    with rig_of(user, uid=UID) as rig, Client(rig.server.url) as witness:
        tree = new_tree(rig)
        others_work(rig, tree)
        running = start(rig, witness, ["/bin/sleep", "600"])
        with flood(rig, attack_argv(program, attack, tree), workspace_write(), tree.o) as held:
            if attack != "past-the-check":
                assert held < hard_limit(), "the commands' limit is not below the server's"
            others_work(rig, tree)
            end(witness, running)
            others_work(rig, tree)
        others_work(rig, tree)


def need(backend):
    if backend != "namespaces":
        need_landlock()
    if backend == "bubblewrap" and REAL is None:
        pytest.skip("no bwrap")


@pytest.mark.parametrize("backend", ["landlock", "bubblewrap"])
@pytest.mark.parametrize("user", USERS)
def test_a_flood_stops_nobody_on_other_back_ends(user, backend, program):
    need_split()
    need(backend)
    with rig_of(user, uid=UID, args=["--sandbox-backend", backend]) as rig:
        tree = new_tree(rig)
        profiles = (None, read_only())
        others_work(rig, tree, profiles)
        with flood(rig, attack_argv(program, "many-processes", tree), read_only(), tree.o) as held:
            assert held < hard_limit(), "the commands' limit is not below the server's"
            others_work(rig, tree, profiles)
        others_work(rig, tree, profiles)


@pytest.mark.parametrize("backend", ["namespaces", "landlock", "bubblewrap"])
def test_an_unsandboxed_command_that_floods_stops_nobody(backend, program):
    """Such a command may open as many files as the server, so that the kernel passes on no descriptor of the server: the spawner opens them
    by /proc."""
    need(backend)
    with rig_of("unprivileged", uid=UID, args=["--sandbox-backend", backend]) as rig, \
            Client(rig.server.url) as witness:
        tree = new_tree(rig)
        profiles = (None, read_only(), *([] if backend == "landlock" else [workspace_write()]))
        others_work(rig, tree, profiles)
        running = start(rig, witness, ["/bin/sleep", "600"])
        with flood(rig, attack_argv(program, "many-processes", tree)) as held:
            assert held >= hard_limit()
            others_work(rig, tree, profiles)
            end(witness, running)
        others_work(rig, tree, profiles)


def test_everything_is_as_before_when_the_attacker_has_gone(program):
    with rig_of("unprivileged", uid=UID) as rig:
        tree = new_tree(rig)

        def use():
            with Client(rig.server.url) as client:
                for _ in range(5):
                    converse(rig, client)
                    run_in_terminal(rig, client)

        use()
        before = settle(rig)
        with flood(rig, attack_argv(program, "one-process", tree)):
            use()
        use()
        assert settle(rig) == before


# Servers whose descriptors the spawner cannot open by /proc


@pytest.fixture
def closed_rig(monkeypatch):
    """A server whose descriptors no process can open by /proc: its program can be executed, but not be read."""
    reason = why_not("unprivileged")
    if reason is not None:
        pytest.skip(reason)
    folder = tempfile.mkdtemp(prefix="fh-closed-", dir=TREES)
    os.chmod(folder, 0o755)
    path = shutil.copy(BIN, os.path.join(folder, "farhand"))
    os.chmod(path, 0o111)
    monkeypatch.setattr(farhand_client, "BIN", path)
    # The leak checker needs /proc of the process, which is closed here.
    with Rig("unprivileged", uid=UID, env={"ASAN_OPTIONS": "detect_leaks=0"}) as rig:
        yield rig
    shutil.rmtree(folder)


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_start_that_cannot_be_handed_over_fails_in_time(closed_rig, program):
    rig = closed_rig
    with Client(rig.server.url) as client, Client(rig.server.url) as witness:
        converse(rig, client)
        running = start(rig, witness, ["/bin/sleep", "600"])
        with flood(rig, [program, "1", MESSAGES]) as held:
            assert held >= hard_limit()
            used, begun = processor_seconds(rig.server.pid), time.monotonic()
            params = [start_params(rig, ["/bin/echo", "ran"], None, "/", tty=tty) for tty in (False, True, False)]
            waiting = [client.request("process/start", p) for p in params]
            # The start is cancelled at once, because it waits for one second only.
            cancel = client.request("process/terminate", {"processId": params[2]["processId"]})
            # Requests of another client do not wait behind these starts.
            end(witness, running)
            with within(what="the end of a start that waits"):
                client.result(cancel)
                assert outcome(client, waiting[2], 10) == (
                    -32600, f"process {params[2]['processId']} start was cancelled")
            for ident in waiting[:2]:
                with pytest.raises(RpcError) as refused:
                    client.result(ident, 10)
                assert refused.value.code == -32603
                assert refused.value.message == "Too many references: cannot splice (os error 109)"
                data = refused.value.data
                assert (data["step"], data["errno"], data["errnoName"]) == ("descriptors", errno.ETOOMANYREFS, "ETOOMANYREFS")
                assert "RLIMIT_NOFILE" in data["remedy"] and "in flight" in data["remedy"]
            took = time.monotonic() - begun
            assert HANDOVER_SECONDS <= took < HANDOVER_SECONDS + 2 * ANSWER_SECONDS * PATIENCE, took
            assert processor_seconds(rig.server.pid) - used < took / 2, "the loop spins while a start waits"
        for p in params:
            assert not client.events(p["processId"])
        converse(rig, client)
        run_in_terminal(rig, client)


def test_a_start_that_waits_goes_when_the_attacker_has_gone(closed_rig, program):
    rig = closed_rig
    with Client(rig.server.url) as client:
        for _ in range(20):  # on a busy machine the kernel may take longer to end the attacker than the start waits
            with flood(rig, [program, "1", MESSAGES]):
                params = start_params(rig, ["/bin/echo", "ran"], None, "/")
                ident = client.request("process/start", params)
                # The answer comes after the start on the same connection was handled.
                assert client.call("environment/status") == {"status": "ready"}
            answer = outcome(client, ident, 10)
            if not is_error(answer):
                break
            assert answer == (-32603, "Too many references: cannot splice (os error 109)")
        assert answer["processId"] == params["processId"]
        client.wait_closed(params["processId"])
        assert client.output(params["processId"]) == b"ran\n"


# The limits


def test_server_spawner_and_fs_helpers_have_all_of_the_limit():
    low = (min(256, hard_limit()), hard_limit())

    def lower():
        resource.setrlimit(resource.RLIMIT_NOFILE, low)

    with rig_of("unprivileged", uid=UID) as rig, rig.new_server(before_exec=lower) as server:
        tree = new_tree(rig)
        with Client(server.url) as client:
            assert client.run(["/bin/sh", "-c", "ulimit -Sn; ulimit -Hn"])[0].split() == [b"%d" % n for n in low]
            serve_files(client, workspace_write(), tree, "file")
            spawner = spawner_of(server)
            helpers = children(spawner)
            assert helpers
            for pid in (server.pid, spawner, *helpers):
                assert limits_of(pid) == (low[1], low[1]), pid


@pytest.mark.parametrize("backend", ["namespaces", "landlock", "bubblewrap"])
@pytest.mark.parametrize("user", USERS)
def test_a_sandboxed_command_may_open_half_as_many_files(user, backend):
    need_split()
    need(backend)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    half = hard // 2
    with rig_of(user, uid=UID, args=["--sandbox-backend", backend]) as rig:
        # The first command makes its sandbox; the later ones get a prebuilt one.
        for _ in range(3):
            done = rig.sh("ulimit -Sn; ulimit -Hn; ulimit -Hn $(($(ulimit -Hn) + 1))", read_only(), "/")
            assert done.out.split() == [b"%d" % min(soft, half), b"%d" % half] and done.err, done
        done = rig.sh("ulimit -Sn; ulimit -Hn", read_only(), "/", limits={"openFiles": half})
        assert done.out.split() == [b"%d" % half] * 2, done
        refused = rig.sh("true", read_only(), "/", limits={"openFiles": half + 1}).refused
        assert refused is not None and refused.data["step"] == "limits", refused
        assert refused.data["errnoName"] == "EPERM"


def test_few_open_files_are_not_divided():
    few = SPLIT - 1

    def lower():
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, few))

    with rig_of("unprivileged", uid=UID) as rig, rig.new_server(before_exec=lower) as server:
        with Client(server.url) as client:
            done = rig.sh("ulimit -Sn; ulimit -Hn", read_only(), "/", client=client)
            assert done.out.split() == [b"%d" % few] * 2, done
