"""`farhand apply-patch` killed at any moment, or its server: never a half-written file, and the next run repairs what is half applied."""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

from cutting_proxy import CuttingProxy
from farhand_client import IS_SANITIZED, Server, wait_until
from patch_rig import SECONDS, Patcher, add, delete, patch, put_tree, update

IS_SOAK = os.environ.get("FARHAND_SLOW") == "1"
SEED = int(os.environ.get("FARHAND_SEED") or (random.randrange(10 ** 6) if IS_SOAK else 7))
# 500 rounds of all kinds together in a soak run.
ROUNDS = 125 if IS_SOAK else 4 if IS_SANITIZED else 8
FILES = 12
BODY = "".join(f"line {i} of a file that is long enough for a write to be seen in the middle\n" for i in range(60))


def before_tree():
    """Files that are updated, replaced, deleted and moved; one has two names, and one is reached by a link."""
    tree = {f"update{i}": f"old {i}\n" + BODY for i in range(FILES)}
    tree |= {f"delete{i}": f"gone {i}\n" + BODY for i in range(FILES)}
    tree |= {f"move{i}": {"text": f"old {i}\n" + BODY, "mode": 0o755} for i in range(FILES)}
    tree |= {"replace": "replaced\n" + BODY, "link": {"symlink": "target"}, "target": "old\n" + BODY, "twin": "old\n" + BODY}
    return tree


def text():
    hunks = [add("made/here/new", "n"), add("replace", "new")]
    for i in range(FILES):
        hunks += [update(f"update{i}", f"old {i}", f"new {i}"), delete(f"delete{i}"), update(f"move{i}", f"old {i}", f"new {i}", to=f"moved/{i}"),
                  add(f"added/{i}", f"{i}")]
    return patch(*hunks, update("link", "old", "new"), update("twin", "old", "new"))


def prepare(apply):
    shutil.rmtree(apply.cwd)
    os.mkdir(apply.cwd)
    put_tree(apply.cwd, before_tree())
    os.link(apply.path("twin"), apply.path("twin too"))


def litter(tree):
    return [name for name in tree if ".farhand-" in name]


class Kinds:
    """Which content each file may have: that before the patch, that behind it, or none."""

    def __init__(self, apply):
        prepare(apply)
        self.before = apply.tree()
        self.seconds = time.monotonic()
        apply.works(text())
        self.seconds = time.monotonic() - self.seconds
        self.after = apply.tree()

    def check(self, tree):
        """Every file is whole: as before, as after, or not there where one of the two has none."""
        for name in set(tree) | set(self.before) | set(self.after):
            if not name.startswith(".farhand-") and "/.farhand-" not in name and not name.endswith("/"):
                assert tree.get(name) in (self.before.get(name), self.after.get(name)) or name in ("twin", "twin too"), name


def end_of(proc):
    proc.wait(SECONDS)
    proc.stdout.close()
    proc.stderr.close()


def repair(apply, kinds, n):
    """The next run repairs: then all of the patch is there or nothing, and no temporary file."""
    done = apply(patch(add(f"next{n}", "x")))
    assert done.returncode == 0, done
    # The server of a client that was killed may still be ending; what it was writing goes with it.
    wait_until(lambda: not litter(apply.tree()), SECONDS, f"the end of temporary files: {litter(apply.tree())}")
    tree = apply.tree()
    assert tree.pop(f"next{n}") == "x\n"
    state = "before" if tree == kinds.before else "after" if tree == kinds.after else None
    assert state, f"half applied: {done.stderr} {({k: (tree.get(k, '-'))[:20] for k in set(tree) ^ set(kinds.before)})}"
    assert apply.journals() == []
    return state, done.stderr


@pytest.mark.parametrize("way", ["here", "private", "server"])
def test_a_client_that_is_killed(way):
    rng = random.Random(SEED)
    seen = []
    with tempfile.TemporaryDirectory(prefix="fh-") as directory, Server(listen=f"unix:{directory}/s") as server, \
            Patcher("server" if way == "server" else "here", server, ["--workspace-write"] if way == "private" else []) as apply:
        kinds = Kinds(apply)
        for n in range(ROUNDS):
            prepare(apply)
            proc = apply.start(text())
            time.sleep(rng.uniform(0, 1.1) * kinds.seconds)
            proc.send_signal(signal.SIGKILL)
            end_of(proc)
            kinds.check(apply.tree())
            seen.append(repair(apply, kinds, n))
    print(SEED, way, [state for state, _ in seen])
    for state, words in seen:
        assert words in ("", "farhand: a patch that was interrupted has been taken back\n",
                         "farhand: a patch that was interrupted had been applied completely\n"), words


def is_free(path):
    """Does nobody listen at the socket?"""
    with socket.socket(socket.AF_UNIX) as s:
        return s.connect_ex(path) != 0


def test_a_server_that_is_killed():
    """The client says that the server is lost, and the next run, on the next server, repairs."""
    rng = random.Random(SEED)
    with tempfile.TemporaryDirectory(prefix="fh-") as directory:
        listen = f"unix:{directory}/s"
        with Server(listen=listen) as server, Patcher("server", server) as apply:
            kinds = Kinds(apply)
        with Patcher("server", server) as apply:
            for n in range(ROUNDS):
                prepare(apply)
                with Server(listen=listen) as server:
                    proc = apply.start(text())
                    time.sleep(rng.uniform(0, 1.1) * kinds.seconds)
                    server.proc.kill()
                    server.proc.wait()
                    proc.send_signal(signal.SIGTERM)  # it would try to get back to the server for 25 s
                    end_of(proc)
                    kinds.check(apply.tree())
                wait_until(lambda: is_free(f"{directory}/s"), SECONDS, "the end of a child that the server was about to make")
                with Server(listen=listen) as server:
                    repair(apply, kinds, n)


def kill_at(apply, tmp, call, step):
    """Kills the program at the n-th system call of that name. Returns whether there were so many."""
    prepare(apply)
    done = subprocess.run(["strace", "-f", "-o", f"{tmp}/trace", "-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={step}",
                           *apply.argv, text()], cwd=apply.cwd, env=apply.env, capture_output=True, timeout=SECONDS, check=False)
    return done.returncode != 0


def test_a_patch_is_stopped_at_each_of_its_steps(tmp):
    """The fault is put where it matters: the program is killed at each system call that changes something."""
    if IS_SANITIZED:
        pytest.skip("strace and the sanitizers do not go together")
    if subprocess.run(["strace", "-V"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no strace")
    rng = random.Random(SEED)
    kills, states = 0, set()
    with Patcher() as apply:
        kinds = Kinds(apply)
        for call in ("renameat", "renameat2", "unlinkat", "mkdirat", "fchmod", "write", "pwrite64", "ftruncate", "close", "flock"):
            step = 1
            while kill_at(apply, tmp, call, step):
                kinds.check(apply.tree())
                states.add(repair(apply, kinds, f"{call}{step}")[0])
                kills += 1
                step += 1 if IS_SOAK else rng.randrange(1, 40)
    assert kills > 20 and states == {"before", "after"}


def test_journals_of_living_patches_are_left_alone():
    """A patch that is stopped in the middle, but lives, is not interrupted: another run leaves its journal alone."""
    with Patcher() as apply:
        apply.put(f="a\n", g="b\n")
        fifo = apply.base + "/fifo"
        os.mkfifo(fifo)
        # The first patch waits for its turn while a third process holds the lock of the environment.
        apply.works(patch(add("n", "x")))
        lock = next(os.path.join(at, "lock") for at, _, names in os.walk(apply.state) if "lock" in names)
        with open(lock, "wb") as held:
            holder = subprocess.Popen(["flock", "-x", lock, "cat", fifo], stdout=subprocess.DEVNULL)
            try:
                wait_until(lambda: subprocess.run(["flock", "-n", lock, "true"], check=False).returncode != 0, 10, "the lock")
                proc = apply.start(patch(update("f", "a", "b")))
                with open(fifo, "wb"):
                    pass
                assert proc.wait(SECONDS) == 0
                proc.stdout.close()
                proc.stderr.close()
            finally:
                holder.kill()
                holder.wait()
                held.close()
        assert apply.tree()["f"] == "b\n"


def test_a_connection_that_is_cut():
    """The server lives on and works on the requests that it has got, so the client must not judge too early what was done. Either all or
    nothing of the patch is there afterwards; where the client leaves that to the next run, the next run brings it about."""
    with Server() as server, Patcher("server", server) as straight:
        kinds = Kinds(straight)
        ends = []
        for n in range(ROUNDS * 3):
            with CuttingProxy(server.port, seed=SEED + n, kinds={"close": 1, "reset": 1}, most_bytes=60_000, most_struck=1) as proxy:
                prepare(straight)
                argv = [f"ws://127.0.0.1:{proxy.port}" if word == server.url else word for word in straight.argv]
                done = subprocess.run([*argv, text()], cwd=straight.cwd, env=straight.env, capture_output=True, text=True, timeout=SECONDS,
                                      check=False)
            tree = straight.tree()
            kinds.check(tree)
            is_left = "put right by the next patch" in done.stderr
            if not is_left:
                wait_until(lambda: not litter(straight.tree()), SECONDS, "the end of temporary files")
                assert straight.tree() == (kinds.after if done.returncode == 0 else kinds.before), done
                assert straight.journals() == []
            ends.append((done.returncode, is_left))
            repair(straight, kinds, n)
        print(SEED, ends)
        assert {code for code, _ in ends} == {0, 1}, "no connection was cut at a moment that matters"
