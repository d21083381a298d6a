"""What the tests of the file methods share: paths as URIs, the answers by name, and servers in special surroundings."""

import base64
import contextlib
import functools
import os
import random
import signal
import subprocess
import sys
import tempfile
import types
import urllib.parse
from unittest import mock

import pytest

import farhand_client
from farhand_client import BIN, IS_SANITIZED, RpcError, Server, wait_until

KIB = 1024
MIB = 1024 * KIB

ENOENT = (-32004, "No such file or directory (os error 2)")
EACCES = (-32600, "Permission denied (os error 13)")
EPERM = (-32600, "Operation not permitted (os error 1)")
EIO = (-32603, "I/O error (os error 5)")
EBADF = (-32603, "Bad file descriptor (os error 9)")
EEXIST = (-32603, "File exists (os error 17)")
ENOTDIR = (-32603, "Not a directory (os error 20)")
EISDIR = (-32603, "Is a directory (os error 21)")
EINVAL = (-32600, "Invalid argument (os error 22)")
ENOSPC = (-32603, "No space left on device (os error 28)")
EROFS = (-32603, "Read-only file system (os error 30)")
ENAMETOOLONG = (-32603, "Filename too long (os error 36)")
ENOTEMPTY = (-32603, "Directory not empty (os error 39)")
ELOOP = (-32603, "Symbolic link loop (os error 40)")
HAS_LINK = (-32600, "path contains a symbolic link")

PATH_MEMBERS = ("path", "sourcePath", "destinationPath")


IS_ROOT = os.getuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="makes mounts or changes users: needs root")


def uri(path):
    return "file://" + urllib.parse.quote_from_bytes(os.fsencode(path))


def b64(data):
    return base64.b64encode(data).decode()


def params_of(params):
    """The members that are paths become URIs; the value `...` leaves a member out."""
    return {name: uri(value) if name in PATH_MEMBERS and isinstance(value, (str, bytes)) else value
            for name, value in params.items() if value is not ...}


def fs(client, method, timeout=10, **params):
    """The result of fs/METHOD. Paths are given as they are on the disk."""
    return client.call(f"fs/{method}", params_of(params), timeout)


def send(client, method, **params):
    """Sends fs/METHOD and returns the id of the request."""
    return client.request(f"fs/{method}", params_of(params))


def failure(client, method, timeout=10, **params):
    """(code, message) of fs/METHOD that must fail."""
    err = client.error(f"fs/{method}", params_of(params), timeout)
    return err.code, err.message


def outcome(client, ident, timeout=10):
    """Waits for the answer to a request: its result, or (code, message) of its error."""
    try:
        return client.result(ident, timeout)
    except RpcError as err:
        return err.code, err.message


def read(client, path, timeout=10, **more):
    return base64.b64decode(fs(client, "readFile", timeout, path=path, **more)["dataBase64"], validate=True)


def write(client, path, data, timeout=10, **more):
    return fs(client, "writeFile", timeout, path=path, dataBase64=b64(data), **more)


def block(result):
    """(bytes, eof) of an answer of fs/readBlock."""
    return base64.b64decode(result["chunk"], validate=True), result["eof"]


def make(path, data=b"", mode=None):
    """Writes a file here, without the server. Returns its path."""
    with open(path, "wb") as f:
        f.write(data)
    if mode is not None:
        os.chmod(path, mode)
    return path


def content(path):
    with open(path, "rb") as f:
        return f.read()


def sparse(path, size):
    make(path)
    os.truncate(path, size)
    return path


@functools.lru_cache(maxsize=8)
def noise(size, seed=1):
    return random.Random(seed).randbytes(size)


def tree(top):
    """Maps every name below `top` to its content, to its link target in a tuple, or to None for a directory. For comparisons."""
    found = {}
    top = os.fsencode(top)
    for parent, directories, files in os.walk(top):
        for name in directories + files:
            path = os.path.join(parent, name)
            key = os.path.relpath(path, top)
            if os.path.islink(path):
                found[key] = (os.readlink(path),)
            elif os.path.isdir(path):
                found[key] = None
            elif os.path.isfile(path):
                found[key] = content(path)
            else:
                found[key] = ...
    return found


def leftovers(top):
    """Temporary files of the server anywhere below `top`."""
    return [os.path.join(parent, name) for parent, _, files in os.walk(top) for name in files if ".farhand-" in name]


def status_kib(pid, name):
    with open(f"/proc/{pid}/status", encoding="latin-1") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(name + ":"))


def stop_wholly(pid):
    """Stops a process with SIGSTOP; returns when each of its threads has stopped, because one can go on for a moment."""
    os.kill(pid, signal.SIGSTOP)

    def is_still():
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError), \
                 open(f"/proc/{pid}/task/{task}/stat", "rb") as f:
                if f.read().rpartition(b")")[2].split()[0] != b"T":
                    return False
        return True

    wait_until(is_still, 30, f"the stop of all threads of {pid}")


@contextlib.contextmanager
def server_under(shell, **kw):
    """A server that a shell starts: `shell` is a command line with "$@" where the server's own stands."""
    with tempfile.TemporaryDirectory(prefix="fh-under-") as place:
        os.chmod(place, 0o755)
        script = make(f"{place}/farhand", f'#!/bin/sh\nset -e\nset -- {BIN} "$@"\n{shell}\n'.encode(), 0o755)
        with mock.patch.object(farhand_client, "BIN", script):
            server = Server(**kw)
        with server:
            yield server


def in_own_mounts(commands):
    """A line for server_under: runs `commands` (mounts) in a mount namespace of its own, then the server."""
    return f"exec unshare -m --propagation private sh -ec '{commands}; exec \"$@\"' sh \"$@\""


def as_nobody(home):
    """A line for server_under: the server as a user without any rights, who gets a directory `home`."""
    os.mkdir(home)
    os.chown(home, 65534, 65534)
    # The binary may stand in a place that only root can enter.
    binary = make(f"{home}/farhand", content(BIN), 0o755)
    return (f'shift; set -- {binary} "$@"; export HOME={home} XDG_STATE_HOME={home}/state; '
            'exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"')


@contextlib.contextmanager
def background(argv):
    """Runs a helper program that prints one line when it is ready; kills it at the end."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as proc:
        try:
            line = proc.stdout.readline()
            if line != "ready\n":
                raise RuntimeError(f"{argv} did not get ready: {line!r}")
            yield proc
        finally:
            proc.kill()


@contextlib.contextmanager
def stuck_server(tmp):
    """A server that sees a file system which answers when it is told to (stuck_fs.py): server, mount (its directory), pid (of
    the process that serves it), let_go() and is_held(name), which awaits a call that is held."""
    if not IS_ROOT or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("needs root and /dev/fuse")
    mount = f"{tmp}/stuck"
    os.mkdir(mount)
    helper = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stuck_fs.py")
    argv = ["unshare", "-m", "--propagation", "private", sys.executable, helper, mount]
    try:
        running = background(argv)
        files = running.__enter__()
    except RuntimeError as err:
        pytest.skip(f"no FUSE here: {err}")
    try:
        def let_go():
            files.stdin.write("\n")
            files.stdin.flush()

        held = []  # calls that are held and not awaited yet: those of several threads come in any order

        def is_held(name):
            while f"held {name}\n" not in held:
                held.append(files.stdout.readline())
                if not held[-1]:
                    raise RuntimeError(f"the file system ended before it held {name}")
            held.remove(f"held {name}\n")

        with server_under(f'exec nsenter -t {files.pid} -m -- "$@"') as server:
            try:
                yield types.SimpleNamespace(server=server, mount=mount, pid=files.pid, let_go=let_go, is_held=is_held)
            finally:
                # The file system ends first: a process in a call that it holds cannot be killed.
                files.kill()
    finally:
        running.__exit__(None, None, None)
