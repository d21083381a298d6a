"""Nothing is left behind: the user's tree is the same before and after, however commands and servers end.

While a command runs, missing names that are protected have a placeholder in the tree. It is removed with the command,
whichever process is killed. Names, types, modes, inodes and times are compared; only the times of the directories that had a
placeholder (the workspace itself, and `sub`) change, which cannot be avoided.
"""

import os
import signal

import pytest

from farhand_client import IS_SANITIZED, Client, Closed, RpcError, wait_until
from sandbox_rig import USERS, at, differences, glob, rig_of, snapshot, workspace_write
from test_kill9 import Mark, children, kill9, spawner_of

# Overlapping commands per batch; the batches of all means make a thousand runs.
WIDTH = 10
BATCHES = {"exit": 60, "terminate": 12, "session": 8, "keeper": 8, "spawner": 6, "server": 4, "server and spawner": 2}
assert sum(BATCHES.values()) * WIDTH == 1000
NAMES = [".git", ".codex", ".agents", ".aws"]


@pytest.fixture(scope="module", params=USERS)
def rig(request):
    """A server whose sessions end with their connection."""
    helpers = Mark("FARHAND_TEST_HELPER")
    with rig_of(request.param, env={helpers.name: helpers.value}) as r:
        r.helpers = helpers
        yield r
    helpers.wait_gone()


class Place:
    """A workspace in which placeholders are needed, with files that look like placeholders and are not."""

    def __init__(self, rig):
        self.tree = tree = rig.tree()
        self.w = tree.w
        for path in ("a.txt", "sub/b.txt", "p/ro/f", "k.env", "p/secret/key"):
            tree.file(os.path.join(tree.w, path))
        tree.dir(tree.w + "/empty")
        tree.file(tree.w + "/zero", "")
        tree.file(tree.w + "/sub/.git/config")
        tree.link(tree.w + "/link", "a.txt")
        self.profile = workspace_write(at(tree.w + "/p/ro", "read"), at(tree.w + "/p/secret", "deny"),
                                       at(tree.w + "/missing", "deny"), at(tree.w + "/sub/none/deeper", "read"),
                                       at(tree.w + "/empty", "read"), at(tree.w + "/zero", "deny"), glob("**/*.env"))
        self.before = self.look()

    def look(self):
        seen = snapshot(self.tree.base, inodes=True, times=True)
        for changed in (self.w, self.w + "/sub"):
            seen[changed] = seen[changed][:3]
        return seen

    def check(self, timeout=20):
        try:
            wait_until(lambda: self.look() == self.before, timeout, "the tree as it was")
        except TimeoutError:
            raise AssertionError(f"changed: {differences(self.before, self.look())}") from None


# Each command tries to make the protected names.
MAKE = "for n in .git .codex .agents .aws missing sub/none; do mkdir $n 2>/dev/null && echo MADE $n; done"
ENDLESS = f"{MAKE}; echo up; exec sleep 600"
ENDING = [f"{MAKE}; exit 0", "exit 3", "kill -KILL $$", "kill -SEGV $$",
          "(echo x > .aws) 2>/dev/null && echo MADE; (sleep 0.02 &) ; exit 0"]


def start_all(client, rig, place, scripts, mark):
    """Starts all scripts without waiting for answers. Returns the process ids."""
    asked = {}
    for number, script in enumerate(scripts):
        params = rig.params(["/bin/sh", "-c", script], place.profile, place.w, env=mark.env, tty=number % 5 == 4)
        asked[params["processId"]] = client.request("process/start", params)
    for ident in asked.values():
        client.result(ident, 30)
    return list(asked)


def finish_all(client, rig, ids):
    for process_id in ids:
        done = rig.finish(process_id, client=client)
        assert b"MADE" not in done.out, done


def by_exit(server, rig, place, mark):
    with Client(server.url) as client:
        finish_all(client, rig, start_all(client, rig, place, (ENDING * WIDTH)[:WIDTH], mark))


def endless(client, rig, place, mark):
    ids = start_all(client, rig, place, [ENDLESS] * WIDTH, mark)
    for process_id in ids:
        client.wait_output(process_id, b"up", 20)
        assert b"MADE" not in client.output(process_id)
    return ids


def by_terminate(server, rig, place, mark):
    with Client(server.url) as client:
        ids = endless(client, rig, place, mark)
        for process_id in ids:
            assert client.call("process/terminate", {"processId": process_id})["running"] is True
        finish_all(client, rig, ids)


def by_session(server, rig, place, mark):
    """With a detach time of zero the processes end with the connection."""
    client = Client(server.url)
    endless(client, rig, place, mark)
    client.abort(reset=True)
    mark.wait_gone()


def by_keeper(server, rig, place, mark):
    with Client(server.url) as client:
        ids = endless(client, rig, place, mark)
        kill9(*children(spawner_of(server)))
        finish_all(client, rig, ids)


def by_spawner(server, rig, place, mark):
    with Client(server.url) as client:
        ids = endless(client, rig, place, mark)
        spawner = spawner_of(server)
        kill9(spawner)
        finish_all(client, rig, ids)
        spawner_of(server, but=spawner)


MEANS = {"exit": by_exit, "terminate": by_terminate, "session": by_session, "keeper": by_keeper, "spawner": by_spawner}


@pytest.mark.parametrize("means", MEANS)
def test_commands_that_end(rig, means):
    place, mark = Place(rig), Mark()
    count = BATCHES[means] if not IS_SANITIZED else max(1, BATCHES[means] // 5)
    try:
        with rig.new_server(config="detached_session_ttl_ms = 0\n") as server:
            for _ in range(count):
                MEANS[means](server, rig, place, mark)
                place.check()
            mark.wait_gone()
        place.check()
    finally:
        mark.kill()


@pytest.mark.parametrize("victims", ["server", "server and spawner"])
def test_servers_that_are_killed(rig, victims):
    """The spawner removes the placeholders after the server was killed; when both were killed, the next server does."""
    place, mark = Place(rig), Mark()
    try:
        for _ in range(BATCHES[victims]):
            with rig.new_server() as server:
                client = Client(server.url)
                endless(client, rig, place, mark)
                spawner = spawner_of(server) if victims != "server" else None
                kill9(server.pid, *([spawner] if spawner else []))
                server.wait()
                client.abort()
            mark.wait_gone()
            if victims == "server":
                place.check()
        with rig.new_server() as server:
            place.check()
    finally:
        mark.kill()


def test_a_start_cut_short_leaves_nothing(rig):
    """Server and spawner are killed at random moments while commands are being started."""
    place, mark = Place(rig), Mark()
    try:
        for number in range(5 if IS_SANITIZED else 15):
            with rig.new_server() as server:
                client = Client(server.url)
                asked = [client.request("process/start", rig.params(["/bin/sh", "-c", ENDLESS], place.profile, place.w,
                                                                    env=mark.env)) for _ in range(WIDTH)]
                client.flush()
                try:
                    for ident in asked[:number % WIDTH]:
                        client.result(ident, 20)
                except (RpcError, Closed) as error:
                    raise AssertionError(f"a start was refused: {error}") from None
                spawner = spawner_of(server)
                kill9(*[[server.pid, spawner], [spawner, server.pid], [server.pid]][number % 3])
                server.wait()
                client.abort()
            mark.wait_gone()
        with rig.new_server():
            place.check()
    finally:
        mark.kill()


# Commands that overlap


def test_overlapping_commands_keep_their_masks(rig):
    """While one command runs, others start and end; its placeholders stay until it ends itself."""
    place, mark = Place(rig), Mark()
    script = (f"echo up; while read line; do {MAKE}; cat p/secret/key k.env 2>/dev/null;"
              " (echo x > p/ro/f) 2>/dev/null && echo WROTE; (echo x > .git/n) 2>/dev/null && echo WROTE; echo tried; done")
    with Client(rig.server.url) as client:
        long_ones = [rig.start(["/bin/bash", "-c", script], place.profile, place.w, client=client, pipeStdin=True)
                     for _ in range(3)]
        for process_id in long_ones:
            client.wait_output(process_id, b"up\n")
        rounds = 5 if IS_SANITIZED else 20
        for number in range(rounds):
            finish_all(client, rig, start_all(client, rig, place, ENDING, mark))
            for process_id in long_ones:
                rig.write(process_id, b"go\n", client)
                client.wait_output(process_id, lambda data, n=number: data.count(b"tried\n") == n + 1)
        for process_id in long_ones:
            client.call("process/closeStdin", {"processId": process_id})
            done = rig.finish(process_id, client=client)
            assert done.out == b"up\n" + b"tried\n" * rounds, done
    place.check()


def test_other_servers_in_the_same_tree(rig):
    """Neither commands nor start and end of other servers remove a placeholder that a command of this server needs."""
    place = Place(rig)
    with Client(rig.server.url) as client:
        process_id = rig.start(["/bin/sh", "-c", f"echo up; read line; {MAKE}; exit 0"],
                               place.profile, place.w, client=client, pipeStdin=True)
        client.wait_output(process_id, b"up\n")
        with rig.new_server() as second:
            with Client(second.url) as other:
                assert rig.run(["/bin/true"], place.profile, place.w, client=other).ok
        with rig.new_server() as third:
            third.stop(signal.SIGKILL)
        with rig.new_server():
            pass
        rig.write(process_id, b"go\n", client)
        done = rig.finish(process_id, client=client)
        assert done.code == 0 and b"MADE" not in done.out, done
    place.check()


def test_work_of_one_is_seen_by_the_other(rig):
    place = Place(rig)
    first = rig.start(["/bin/sh", "-c", "echo up; read line; cat new/file; echo more >> new/file"], place.profile, place.w,
                      pipeStdin=True)
    rig.client.wait_output(first, b"up\n")
    assert rig.sh("mkdir new && echo made > new/file", place.profile, place.w).ok
    rig.write(first, b"go\n")
    assert rig.finish(first).out == b"up\nmade\n"
    with open(place.w + "/new/file", encoding="utf-8") as f:
        assert f.read() == "made\nmore\n"


def test_stubs_are_gone_when_the_end_is_told(rig):
    """After process/exited the tree has what the command left, and no placeholder."""
    place = Place(rig)
    for _ in range(20):
        assert rig.sh("exit 0", place.profile, place.w).ok
        assert place.look() == place.before, differences(place.before, place.look())


# Files that are no placeholders


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_directory_of_the_user_stays(rig, name):
    place = Place(rig)
    place.tree.dir(f"{place.w}/{name}", 0o700)
    place.before = place.look()
    for script in ENDING:
        rig.sh(script, place.profile, place.w)
    place.check()


def test_what_the_host_puts_into_a_stub_stays(rig):
    place = Place(rig)
    process_id = rig.start(["/bin/sh", "-c", "echo up; read line"], place.profile, place.w, pipeStdin=True)
    rig.client.wait_output(process_id, b"up\n")
    place.tree.dir(place.w + "/.codex")
    place.tree.file(place.w + "/.codex/config", "of the host\n")
    rig.write(process_id, b"go\n")
    rig.finish(process_id)
    with open(place.w + "/.codex/config", encoding="utf-8") as f:
        assert f.read() == "of the host\n"
    wait_until(lambda: not os.path.lexists(place.w + "/.git"), 10, "the end of the other stubs")


def test_nothing_gathers_in_the_directory_of_state(rig):
    """Only for the user who is not root; the state directory of root belongs to the machine. A journal grows to the largest
    number of names at a time: here a few commands with four placeholders each, and 4,224 bytes for each placeholder."""
    total = sum(os.path.getsize(os.path.join(folder, name))
                for folder, _, names in os.walk(rig.env["XDG_STATE_HOME"]) for name in names)
    assert total < 64 * 4224


def test_no_mount_is_left(rig):
    """The mount namespace of the server has no mount of a sandbox."""
    with open(f"/proc/{rig.server.pid}/mountinfo", encoding="utf-8") as f:
        assert rig.base not in f.read()
