"""A server whose system refuses calls that its spawner needs: an emulator, or a container with a strict filter.

The calls are refused by a filter of system calls that is put on the server before it is executed. The server says what was
refused, once; it answers starts with that, and tries again ever more rarely. Where a keeper may not share memory it is forked.
"""

import ctypes
import errno
import os
import platform
import signal
import struct
import time

import pytest

from farhand_client import IS_SANITIZED, PATIENCE, Client, Server, cpu_seconds, wait_until
from load_rig import children
from test_kill9 import spawner_of

pytestmark = [pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of system calls are those of x86-64"),
              pytest.mark.skipif(IS_SANITIZED, reason="a sanitizer needs the calls that are refused here")]

CLONE, CLONE3, PRCTL = 56, 435, 157
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CLONE_VM, CLONE_VFORK, CLONE_THREAD = 0x100, 0x4000, 0x10000
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
LOAD, EQUAL, ANY, RETURN = 0x20, 0x15, 0x45, 0x06  # BPF: word, ==, &, ret

libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def filtered(code):
    """For preexec_fn: installs this seccomp filter."""
    def act():
        program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
        head = struct.pack("HxxxxxxP", len(code), ctypes.addressof(program))
        check(libc.prctl(38, 1, 0, 0, 0), "no_new_privs")
        check(libc.prctl(22, 2, ctypes.c_char_p(head), 0, 0), "seccomp")
    return act


def no_prctl(option, verdict):
    """Refuses one option of prctl. Of all processes only the spawner needs PR_SET_CHILD_SUBREAPER; it is the first to use
    PR_SET_PDEATHSIG."""
    return filtered([(LOAD, 0, 0, 0), (EQUAL, 0, 3, PRCTL), (LOAD, 0, 0, 16), (EQUAL, 0, 1, option),
                     (RETURN, 0, 0, verdict), (RETURN, 0, 0, ALLOW)])


def no_shared_memory(error):
    """Refuses, as emulators do, to make a process that shares memory and is neither a thread nor made by vfork; and clone3."""
    return filtered([(LOAD, 0, 0, 0), (EQUAL, 6, 0, CLONE3), (EQUAL, 0, 4, CLONE), (LOAD, 0, 0, 16),
                     (ANY, 2, 0, CLONE_THREAD | CLONE_VFORK), (ANY, 0, 1, CLONE_VM), (RETURN, 0, 0, ERRNO | error),
                     (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ERRNO | errno.ENOSYS)])


@pytest.mark.parametrize("error", [errno.EPERM, errno.EINVAL, errno.ENOSYS, errno.EACCES], ids=errno.errorcode.get)
def test_keepers_are_forked_where_they_may_not_share_memory(error):
    with Server(preexec_fn=no_shared_memory(error)) as server, Client(server.url) as client:
        (spawner,) = children(server.pid)
        for i in range(20):
            assert client.run(["/bin/sh", "-c", "echo $0; exit 3", f"{i}"]) == (f"{i}\n".encode(), b"", 3)
        client.start("p", ["/bin/cat"], tty=True)
        client.call("process/terminate", {"processId": "p"})
        assert client.wait_exit("p")["exitCode"] == 137
        assert children(server.pid) == [spawner]
        assert "spawner" not in server.stderr()


def spawners_of(server, seconds):
    """The pids of all spawners that the server has within `seconds`."""
    seen, deadline = set(), time.monotonic() + seconds
    while time.monotonic() < deadline:
        seen.update(children(server.pid))
    return seen


REASONS = {
    ERRNO | errno.EINVAL: ("prctl(PR_SET_CHILD_SUBREAPER): Invalid argument (os error 22)", "EINVAL"),
    ERRNO | errno.EPERM: ("prctl(PR_SET_CHILD_SUBREAPER): Operation not permitted (os error 1)", "EPERM"),
}


@pytest.mark.parametrize("verdict", REASONS, ids=["EINVAL", "EPERM"])
def test_a_spawner_that_cannot_run_is_tried_ever_more_rarely(verdict):
    text, name = REASONS[verdict]
    with Server(preexec_fn=no_prctl(PR_SET_CHILD_SUBREAPER, verdict)) as server, Client(server.url) as client:
        def reason():
            error = client.error("process/start", {"processId": "p", "argv": ["/bin/true"], "cwd": "/", "env": {},
                                                   "tty": False})
            assert error.code == -32603 and error.data["step"] == "spawner", error
            return error if text in error.message else None

        error = wait_until(reason, what="the reason")
        assert error.data["errnoName"] == name and "seccomp" in error.data["remedy"]
        used = cpu_seconds(server.pid)
        assert len(spawners_of(server, 2)) < 10
        assert cpu_seconds(server.pid) - used < 0.2 * PATIENCE
        assert reason(), "and the id is free"
        lines = server.stderr().splitlines()
        (said,) = (line for line in lines if "spawner cannot run" in line)
        assert "prctl(PR_SET_CHILD_SUBREAPER)" in said and "seccomp" in said
        assert len([line for line in lines if "spawner" in line]) <= 3, lines
        # Requests that need no command work.
        assert client.call("fs/getMetadata", {"path": "file:///etc/passwd"})["isFile"]


def test_a_spawner_that_is_killed_for_a_call_is_told_as_such():
    with Server(preexec_fn=no_prctl(PR_SET_PDEATHSIG, KILL)) as server, Client(server.url) as client:
        def reason():
            error = client.error("process/start", {"processId": "p", "argv": ["/bin/true"], "cwd": "/", "env": {},
                                                   "tty": False})
            return error if "signal 31" in error.message else None

        error = wait_until(reason, what="the reason")
        assert error.data["step"] == "spawner" and "seccomp" in error.data["remedy"]
        assert len(spawners_of(server, 1)) < 10


def test_a_spawner_that_was_killed_is_replaced_at_once():
    with Server() as server, Client(server.url) as client:
        for i in range(20):
            spawner = spawner_of(server)
            os.kill(spawner, signal.SIGKILL)
            # If killed spawners counted as spawners that cannot run, the last ones would come only after six seconds.
            began = time.monotonic()
            spawner_of(server, but=spawner)
            assert time.monotonic() - began < 5 * PATIENCE
            assert client.run(["/bin/echo", f"{i}"])[0] == f"{i}\n".encode()
