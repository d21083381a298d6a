"""Starts of sandboxed commands while a process outside changes the files that they were planned from.

Between the plan of a sandbox and its building a denied file may be replaced, or a match of a denied pattern may come or go.
The server plans such a start again: its client hears nothing of it, unless it is overtaken again and again.
"""

import base64
import contextlib
import os
import random
import select
import sys

import pytest

from farhand_client import Client, wait_until
from fs_helpers import background
from load_rig import IS_SOAK
from sandbox_rig import USERS, at, glob, rig_of, workspace_write

STARTS = 200 if IS_SOAK else 32
# Changes during one start. The server plans a start again once more often than that, so that it always succeeds.
CHANGES = 7
SECRET = "SECRET-content"
SLEEP = b"sleep\x00%d\x00" % (4000 + os.getpid())  # a command line that no other process has
BACKENDS = ["namespaces", "bubblewrap"]

REPLACER = r"""
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
path, text = sys.argv[1:]
print("ready", flush=True)
while True:
    with open(path + ".new", "w") as f:
        f.write(text)
    os.rename(path + ".new", path)
"""


@pytest.fixture(scope="module", params=[(user, backend) for user in USERS for backend in BACKENDS], ids="-".join)
def rig(request):
    user, backend = request.param
    with rig_of(user, args=("--sandbox-backend", backend)) as r:
        yield r


class Arena:
    """`d/key` is denied, and all that ends in .pem; `d/fixed.pem` is always there."""

    def __init__(self, rig):
        self.rig, self.tree = rig, rig.tree()
        self.w, self.d = self.tree.w, self.tree.w + "/d"
        self.tree.file(self.d + "/key", SECRET)
        self.tree.file(self.d + "/fixed.pem", SECRET)
        self.tree.file(self.d + "/plain", "plain\n")
        self.profile = workspace_write(at(self.d + "/key", "deny"), glob(self.w + "/**/*.pem"))
        self.count = 0

    def replace(self):
        self.tree.file(self.d + "/new", SECRET)
        os.rename(self.d + "/new", self.d + "/key")

    def match(self):
        """Alternately removes a file that matches the denied pattern and makes another one."""
        self.count += 1
        path = f"{self.d}/{self.count // 2}.pem"
        if self.count % 2:
            self.tree.file(path[:-4] + ".tmp", "nothing\n")
            os.rename(path[:-4] + ".tmp", path)
        else:
            os.unlink(f"{self.d}/{(self.count - 1) // 2}.pem")

    def params(self, script, **kw):
        return self.rig.params(["/bin/sh", "-c", script], self.profile, self.w, **kw)

    @contextlib.contextmanager
    def replaced_all_the_time(self):
        with background([sys.executable, "-c", REPLACER, self.d + "/key", SECRET]):
            yield


def running(rig):
    """The running processes of all sessions, and the sandboxed commands (children of an init) that no session knows any more."""
    listed = rig.client.call("process/list", {"scope": "server"})["processes"]
    found = [one for one in listed if one["running"]]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as f:
            if f.read() == SLEEP and os.stat(f"/proc/{pid}").st_uid == rig.uid:
                found.append(pid)
    return found


def answer_while(client, ident, change, chance):
    """The answer to a start, with CHANGES changes at any time before it."""
    for _ in range(CHANGES):
        if select.select([], [], [], chance.random() * 0.004) and client.has_response(ident):
            break
        change()
    return client.response(ident, 30)


@pytest.mark.parametrize("kind", ["replace", "match"])
def test_a_start_that_was_overtaken_is_planned_again(rig, kind):
    arena, chance, ran = Arena(rig), random.Random(1), 0
    with Client(rig.server.url) as client:
        for n in range(STARTS):
            # The command reads after the last change; files that are replaced while it reads are tested in test_sandbox_guard.
            params = arena.params("read line; cat d/plain d/key d/fixed.pem", pipeStdin=True)
            answer = answer_while(client, client.request("process/start", params), getattr(arena, kind), chance)
            assert "error" not in answer, (n, answer["error"])
            assert answer["result"]["processId"] == params["processId"]
            rig.write(params["processId"], b"go\n", client)
            done = rig.finish(params["processId"], client=client)
            assert SECRET.encode() not in done.out + done.err
            ran += done.out == b"plain\n"
    assert ran > STARTS // 10, "commands whose files were replaced after their start are ended, but not all of them"


def test_a_capture_that_was_overtaken_is_planned_again_too(rig):
    """The start that waits for the capture is planned again as well, with the text that restores the snapshot."""
    arena, chance = Arena(rig), random.Random(5)
    home = arena.tree.dir(arena.tree.base + "/home")
    arena.tree.file(home + "/.bash_profile", "export V=profile\n")
    with Client(rig.server.url) as client:
        for n in range(STARTS // 2):
            params = arena.params("")
            params.update(argv=["/bin/bash", "-lc", "read line; echo $V; cat d/key"], pipeStdin=True,
                          env={**params["env"], "HOME": home},
                          shellSnapshot={"scopeId": f"{arena.w}-{n}", "shell": {"name": "bash", "path": "/bin/bash"}})
            answer = answer_while(client, client.request("process/start", params), arena.replace, chance)
            assert "error" not in answer, (n, answer["error"])
            rig.write(params["processId"], b"go\n", client)
            done = rig.finish(params["processId"], client=client)
            assert SECRET.encode() not in done.out + done.err
            assert done.out in (b"profile\n", b""), "ended, because a file was replaced after its start, or good"


def test_requests_behind_an_overtaken_start_keep_their_order(rig):
    arena, chance = Arena(rig), random.Random(2)
    with Client(rig.server.url) as client:
        for n in range(STARTS // 4):
            params = arena.params("cat", pipeStdin=True, tty=n % 4 == 3)
            pid = params["processId"]
            ident = client.request("process/start", params)
            writes = [client.request("process/write", {"processId": pid, "writeId": f"{i}",
                                                       "chunk": base64.b64encode(b"%d\n" % i).decode()}) for i in range(3)]
            if params["tty"]:
                client.call("process/resize", {"processId": pid, "rows": 10, "cols": 20})
            close = client.request("process/closeStdin", {"processId": pid})
            wait = client.request("process/wait", {"processId": pid, "waitMs": 30000})
            answer = answer_while(client, ident, arena.match, chance)
            assert "error" not in answer, (n, answer["error"])
            statuses = [client.response(ident)["result"]["status"] for ident in (*writes, close)]
            ended = client.response(wait, 30)["result"]
            if ended["exitCode"] == 0:  # otherwise a match went after its start, and it was ended
                assert statuses == ["accepted"] * 3 + ["closed"]
                done = rig.finish(pid, client=client)
                assert list(dict.fromkeys(done.out.split()))[:3] == [b"0", b"1", b"2"], done  # the terminal echoes them, too
            client.check_seq(pid)


def test_a_start_that_is_always_overtaken_fails_clearly(rig):
    arena = Arena(rig)
    with arena.replaced_all_the_time(), Client(rig.server.url) as client:
        for _ in range(20):
            params = arena.params("cat d/key")
            answer = client.response(client.request("process/start", params), 30)
            if "error" in answer:
                assert "start it again" in answer["error"]["data"]["remedy"], answer
            else:
                # A mask that was taken away after the start may have let the command see the file for a moment, but then it is told.
                # The command is ended; one as short as this may have ended by itself before:
                # docs/SECURITY.md, "Until a broken sandbox is ended".
                done = rig.finish(params["processId"], client=client)
                assert SECRET.encode() not in done.out + done.err or (done.code in (0, 137) and done.denied), done


def test_an_overtaken_start_can_be_terminated(rig):
    arena, chance, cancelled = Arena(rig), random.Random(3), 0
    with arena.replaced_all_the_time(), Client(rig.server.url) as client:
        for n in range(400):
            if n >= 40 and cancelled:
                break
            params = arena.params("exec sleep " + SLEEP[6:-1].decode())
            pid = params["processId"]
            ident = client.request("process/start", params)
            read = client.request("process/read", {"processId": pid, "waitMs": 30000})
            write = client.request("process/write", {"processId": pid, "writeId": "1", "chunk": "YQ=="})
            select.select([], [], [], chance.random() * 0.03)
            was_running = client.call("process/terminate", {"processId": pid})["running"]
            answer = client.response(ident, 30)
            if "error" in answer and answer["error"]["message"].endswith("was cancelled"):
                cancelled += 1
                assert was_running
            client.response(read, 30)
            client.response(write, 30)
            if "error" in answer:
                assert client.error("process/read", {"processId": pid}).message == f"unknown process id {pid}"
    assert cancelled > 0
    wait_until(lambda: running(rig) == [], what="end of all commands")


def test_an_overtaken_start_ends_with_its_connection(rig):
    arena, chance, gone = Arena(rig), random.Random(4), []
    with arena.replaced_all_the_time():
        for _ in range(20):
            client = Client(rig.server.url, init_params={"detachMs": 0})
            for _ in range(4):
                client.request("process/start", arena.params("exec sleep " + SLEEP[6:-1].decode()))
            select.select([], [], [], chance.random() * 0.03)
            client.abort()
            gone.append(client.session_id)

        def sessions():
            return {one["sessionId"] for one in rig.client.call("session/list")["sessions"]}

        wait_until(lambda: sessions().isdisjoint(gone), what="end of all sessions")
    wait_until(lambda: running(rig) == [], what="end of all commands")
    assert rig.sh("cat d/plain", arena.profile, arena.w).out == b"plain\n"
