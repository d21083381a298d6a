"""The work that a client does while system calls of the server fail (fault_rig): a fixed list of steps with known answers.

A step ends in one of three ways. It is right: every byte of what was answered as success is what it must be. It is refused:
an answer that is an error and says what failed. Or it raises Wrong.
"""

import base64
import collections
import contextlib
import hashlib
import itertools
import os
import shutil

from farhand_client import PATIENCE, Client, Closed, RpcError, wait_until
from fs_helpers import b64, block, fs, noise, read, write
from http_origin import Origin, response
from sandbox_rig import Box, at, is_error, read_only, sandbox, uri, workspace_write

STEP_SECONDS = 40
LINES = 20000
STDOUT = "".join(f"{n}\n" for n in range(1, LINES + 1)).encode()
STDERR = "".join(f"{n}\n" for n in range(1, 301)).encode()
TTY_LINES = 3000
TTY = "".join(f"{n}\r\n" for n in range(1, TTY_LINES + 1)).encode()
INPUT = noise(150_000, 3)
FILE = noise(300_000, 4)
SMALL = b"small\n"
BODY = noise(90_000, 5)
SECRET = b"never to be told\n"

# The result of `step`; `refused` is None when the step was right, otherwise the error.
Result = collections.namedtuple("Result", "step refused")


class Wrong(Exception):
    """An answer that is wrong even though a system call has failed."""


def expect(what, got, wanted):
    if got != wanted:
        if isinstance(got, bytes) and isinstance(wanted, bytes):
            same = len(os.path.commonprefix([got, wanted]))
            got, wanted = f"{len(got)} bytes, other from {same} on: {got[same:same + 40]!r}", f"{len(wanted)} bytes"
        raise Wrong(f"{what}: {got}, not {wanted}")


def check_error(error):
    """An error has one of the protocol's codes and says something."""
    if not -32700 < error.code <= -32000 or not error.message or len(error.message) < 8:
        raise Wrong(f"an error that says nothing: {error}")


class Place:
    """The directory in which the steps work; its owner is the user of the server."""

    def __init__(self, tree):
        self.tree = tree
        self.top, self.work = tree.base, tree.dir(tree.w)
        tree.file(f"{self.work}/secret/key", SECRET.decode())
        tree.file(f"{self.work}/kept", SMALL.decode())
        tree.file(f"{self.top}/old", SMALL.decode())
        tree.file(f"{self.top}/.bash_profile", "export FROM_PROFILE=yes\n")
        tree.file(f"{self.top}/skills/one/SKILL.md", "one")
        tree.file(f"{self.top}/skills/two/SKILL.md", "two")
        self.origin = Origin()
        self.origin.on("/body", lambda request, sock: response(200, ["content-type: text/plain"], BODY))

    def close(self):
        self.origin.close()

    def reset(self):
        """Removes what a refused step may have left. Files that the server must not leave stay, for `left` to find."""
        for name in ("f", "g", "d", "made", "w1", "stream"):
            path = os.path.join(self.work, name)
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)

    def left(self):
        """The names in the directory that should not be there."""
        return sorted(set(os.listdir(self.work)) - {"secret", "kept"})


class Work:
    """One run of all steps on one connection. Where the connection may be lost, it is made again."""

    _runs = itertools.count(1)

    def __init__(self, server, place, may_lose=False, may_be_killed=False, steps=None):
        self.server, self.place, self.may_lose, self.may_be_killed = server, place, may_lose, may_be_killed
        self.steps = steps or STEPS
        self.profile = workspace_write(at(place.work + "/secret", "deny"))
        self.names = (f"r{next(self._runs)}-{n}" for n in itertools.count(1))
        self.client = None
        self.lost = 0

    def run(self):
        """A Result for each step."""
        results = []
        try:
            for step in self.steps:
                self.place.reset()
                results.append(Result(step.__name__, self._try(step)))
        finally:
            if self.client:
                self.client.abort()
        self.place.reset()
        return results

    def _try(self, step):
        try:
            if self.client is None or self.client.closed:
                self.client = Client(self.server.url)
            step(self)
        except RpcError as error:
            check_error(error)
            return str(error)
        except TimeoutError as error:
            raise Wrong(f"{step.__name__}: {error}") from error
        except (Closed, OSError, EOFError) as error:
            if self.server.proc.poll() is not None or not self.may_lose:
                raise Wrong(f"{step.__name__}: the connection is lost: {error!r}") from error
            self.lost += 1
            return repr(error)
        return None

    # Commands

    def start(self, argv, **kw):
        name = next(self.names)
        self.client.start(name, argv, STEP_SECONDS, **kw)
        return name

    def finish(self, name, code, **streams):
        """Waits for the exit and checks code and output; the server may instead report that it lost control of the command."""
        client = self.client
        client.wait_closed(name, STEP_SECONDS)
        told = client.read(name, STEP_SECONDS, maxBytes=1)
        if told.get("failure"):
            raise RpcError({"code": -32603, "message": told["failure"]})
        if self.may_be_killed and told.get("signal") == "SIGKILL" and told["exitCode"] != code:
            raise RpcError({"code": -32603, "message": "the command was killed with the process that looked after it"})
        for stream, wanted in streams.items():
            expect(f"{stream} of {name}", client.output(name, stream), wanted)
        expect(f"exit of {name}", client.wait_exit(name)["exitCode"], code)
        client.check_seq(name)

    def in_sandbox(self):
        return {"cwd": uri(self.place.work), "sandbox": sandbox(self.profile, self.place.work)}


def pipes(w):
    name = w.start(["/bin/sh", "-c", f"seq 1 {LINES}; seq 1 300 >&2; exit 7"])
    w.finish(name, 7, stdout=STDOUT, stderr=STDERR)


def terminal(w):
    """Runs three commands, because a loss depends on how much output the terminal still holds when the command exits."""
    for _ in range(3):
        name = w.start(["/usr/bin/seq", "1", str(TTY_LINES)], tty=True)
        w.client.call("process/resize", {"processId": name, "rows": 30, "cols": 90}, STEP_SECONDS)
        w.finish(name, 0, pty=TTY)


def stdin(w):
    name = w.start(["/bin/cat"], pipeStdin=True)
    try:
        for n in range(0, len(INPUT), 50_000):
            status = w.client.write(name, INPUT[n:n + 50_000], f"w{n}", STEP_SECONDS)
            if status != "accepted":
                raise RpcError({"code": -32603, "message": f"status of a write: {status}"})
        w.client.call("process/closeStdin", {"processId": name}, STEP_SECONDS)
    except RpcError:
        w.client.call("process/terminate", {"processId": name}, STEP_SECONDS)
        raise
    w.finish(name, 0, stdout=INPUT, stderr=b"")


def several(w):
    names = []
    refused = None
    for n in range(5):
        try:
            names.append(w.start(["/bin/echo", f"number {n}"]))
        except RpcError as error:
            refused = error
            names.append(None)
    for n, name in enumerate(names):
        try:
            if name:
                w.finish(name, 0, stdout=f"number {n}\n".encode())
        except RpcError as error:
            refused = error
    if refused:
        raise refused


def killed(w):
    name = w.start(["/bin/sh", "-c", "sleep 600 & echo ready; wait"])
    wait_until(lambda: w.client.output(name) == b"ready\n" or w.client.read(name, STEP_SECONDS)["failure"], STEP_SECONDS,
               "output or failure")
    expect("terminate", w.client.call("process/terminate", {"processId": name}, STEP_SECONDS), {"running": True})
    w.finish(name, 137, stdout=b"ready\n")


def files(w):
    path = f"{w.place.work}/f"
    try:
        write(w.client, path, FILE, STEP_SECONDS)
    except RpcError as error:
        if os.path.exists(path) and os.path.getsize(path) not in (0, len(FILE)):
            raise Wrong(f"a refused write left a part of the file: {error}") from error
        raise
    expect("what was written", open(path, "rb").read(), FILE)
    expect("a file that is read", read(w.client, path, STEP_SECONDS), FILE)
    meta = fs(w.client, "getMetadata", STEP_SECONDS, path=path, digest=True)
    expect("size and digest", (meta["size"], meta["digest"]), (len(FILE), "sha256:" + hashlib.sha256(FILE).hexdigest()))
    names = [e["fileName"] for e in fs(w.client, "readDirectory", STEP_SECONDS, path=w.place.work)["entries"]]
    expect("a listing", [n for n in names if not n.startswith(".")], ["f", "kept", "secret"])


def replaced(w):
    """The file has its old or its new content, and nothing in between."""
    path = f"{w.place.work}/kept"
    for content in (FILE, SMALL):
        before = open(path, "rb").read()
        try:
            write(w.client, path, content, STEP_SECONDS)
        except RpcError as error:
            if open(path, "rb").read() not in (before, content):
                raise Wrong(f"a refused write changed the file: {error}") from error
            with open(path, "wb") as f:
                f.write(SMALL)
            raise
        expect("what was written", open(path, "rb").read(), content)


def trees(w):
    top = w.place.work
    fs(w.client, "createDirectory", STEP_SECONDS, path=f"{top}/d")
    fs(w.client, "copy", STEP_SECONDS, sourcePath=f"{top}/kept", destinationPath=f"{top}/d/copy", recursive=False)
    expect("a copy", open(f"{top}/d/copy", "rb").read(), SMALL)
    fs(w.client, "rename", STEP_SECONDS, sourcePath=f"{top}/d/copy", destinationPath=f"{top}/d/g")
    expect("a renamed file", os.listdir(f"{top}/d"), ["g"])
    fs(w.client, "remove", STEP_SECONDS, path=f"{top}/d")
    expect("a removed tree", os.path.lexists(f"{top}/d"), False)


def streamed(w):
    path = f"{w.place.work}/stream"
    fs(w.client, "open", STEP_SECONDS, handleId="out", path=path, mode="replace")
    for n in range(0, len(FILE), 100_000):
        fs(w.client, "writeBlock", STEP_SECONDS, handleId="out", offset=n, chunk=b64(FILE[n:n + 100_000]))
    fs(w.client, "close", STEP_SECONDS, handleId="out")
    expect("a file written in blocks", open(path, "rb").read(), FILE)
    fs(w.client, "open", STEP_SECONDS, handleId="in", path=path)
    got, eof = b"", False
    while not eof:
        part, eof = block(fs(w.client, "readBlock", STEP_SECONDS, handleId="in", offset=len(got), len=120_000))
        got += part
    fs(w.client, "close", STEP_SECONDS, handleId="in")
    expect("a file read in blocks", got, FILE)


def watched(w):
    top = w.place.work
    name = next(w.names)
    fs(w.client, "watch", STEP_SECONDS, watchId=name, path=top, recursive=True)
    with open(f"{top}/w1", "wb"):
        pass
    wanted = uri(f"{top}/w1")

    def is_told():
        told = [m["params"] for m in list(w.client.notifications)
                if m["method"] == "fs/changed" and m["params"]["watchId"] == name]
        return any(p["overflow"] for p in told) or any(e["path"] == wanted for p in told for e in p["events"])

    wait_until(is_told, STEP_SECONDS, "event of a watch")
    w.client.call("fs/unwatch", {"watchId": name}, STEP_SECONDS)


def sandboxed(w):
    name = w.start(["/bin/sh", "-c", "cat secret/key; seq 1 2000; echo new > made; echo $?; exit 5"], **w.in_sandbox())
    numbers = "".join(f"{n}\n" for n in range(1, 2001)).encode()
    w.finish(name, 5, stdout=numbers + b"0\n")
    expect("what a sandboxed command wrote", open(f"{w.place.work}/made", "rb").read(), b"new\n")


def sandboxed_terminal(w):
    name = w.start(["/bin/sh", "-c", "cat secret/key 2>/dev/null; echo done"], tty=True, **w.in_sandbox())
    w.finish(name, 0, pty=b"done\r\n")


def sandboxed_files(w):
    box = Box(w.client, w.profile, w.place.work)
    path = f"{w.place.work}/g"
    refused = None
    secret = box.read(f"{w.place.work}/secret/key")
    if not is_error(secret):
        raise Wrong(f"a denied file was read: {secret}")
    written = box.write(path, FILE)
    if not is_error(written):
        expect("what was written under a profile", open(path, "rb").read(), FILE)
    for answer, wanted in ((written, written), (box.read(path), FILE), (box.read(f"{w.place.work}/kept"), SMALL)):
        if is_error(answer):
            refused = refused or RpcError({"code": answer[0], "message": answer[1]})
        else:
            expect("an answer under a profile", answer, wanted)
    outside = box.write(f"{w.place.top}/outside", SMALL)
    if not is_error(outside) or os.path.lexists(f"{w.place.top}/outside"):
        raise Wrong(f"a file outside was written: {outside}")
    if refused:
        raise refused


def quick(w):
    """Quick answers, which the loop makes once a thread has found that the file does not block. Under strace every call is slow, so
    that the loop leaves these requests to a thread, and preadv2 is not reached."""
    path = f"{w.place.top}/old"
    for _ in range(6):
        expect("a small file", read(w.client, path, STEP_SECONDS), SMALL)
        expect("its size", fs(w.client, "getMetadata", STEP_SECONDS, path=path)["size"], len(SMALL))


def sandboxed_quick(w):
    """Quick answers under a profile that reads everything: the loop drops its capabilities for them and takes them back."""
    box = Box(w.client, read_only(), w.place.work)
    for _ in range(6):
        answer = box.read(f"{w.place.top}/old")
        if is_error(answer):
            raise RpcError({"code": answer[0], "message": answer[1]})
        expect("a small file under a profile", answer, SMALL)


def snapshot(w):
    """A login shell whose profile is captured first: the variables of the profile are set, also when the capture fails."""
    name = w.start(["/bin/bash", "-lc", "echo $FROM_PROFILE"], env={"PATH": "/usr/bin:/bin", "HOME": w.place.top},
                   shellSnapshot={"scopeId": next(w.names), "shell": {"name": "bash", "path": "/bin/bash"}})
    w.finish(name, 0, stdout=b"yes\n", stderr=b"")


def discovered(w):
    """The answer has all skills, or a warning that something is missing."""
    params = {"roots": [{"id": "r", "path": uri(f"{w.place.top}/skills")}]}
    [root] = w.client.call("capabilityRoots/discoverV1", params, STEP_SECONDS)["roots"]
    if root["error"] or root["warnings"]:
        raise RpcError({"code": -32603, "message": f"not all is told: {root['error']} {root['warnings']}"})
    expect("skills", [s["instructions"]["contents"] for s in root["skills"]], ["one", "two"])


def fetched(w):
    answer = w.client.call("http/request", {"method": "GET", "url": w.place.origin.url + "/body", "requestId": next(w.names)},
                           STEP_SECONDS)
    expect("a body", (answer["status"], base64.b64decode(answer["bodyBase64"])), (200, BODY))


def connected(w):
    """Another client connects and closes its connection in order."""
    with Client(w.server.url) as client:
        expect("status", client.call("environment/status", timeout=STEP_SECONDS), {"status": "ready"})
        client.close()


STEPS = [pipes, terminal, stdin, several, killed, files, replaced, trees, streamed, watched, quick, snapshot, discovered, connected]
SANDBOXED_STEPS = [sandboxed, sandboxed_terminal, sandboxed_files, sandboxed_quick]
NET_STEPS = [fetched]

assert PATIENCE > 0
