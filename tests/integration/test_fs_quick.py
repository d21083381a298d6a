"""Small files that are in memory are read and stat'ed by the loop, without a thread (src/fsop/quick.h).

The answers are those that a thread gives. Files that would block do not block the loop: other clients are answered while a
file system, the holder of a lease, a FIFO or a fanotify listener does not answer.
"""

import contextlib
import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from farhand_client import PATIENCE, wait_until
from fs_helpers import (IS_ROOT, KIB, MIB, b64, background, content, fs, in_own_mounts, make, needs_root, noise, outcome,
                        read, send, server_under, stuck_server, write)

MANY = 500
# What blocks here blocks for ever, or for the 45 s of a lease: so this can be long enough for a busy machine.
DEADLINE_S = 10
# A loop that had to wait once, for a lock of the kernel that another program had, leaves the mount to threads for 10 s.
QUICK_SECONDS = 120


def file_system_of(path):
    return subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, check=True, text=True).stdout.strip()


def has_quick_reads(path):
    return file_system_of(path) in ("ext2/ext3", "xfs", "btrfs")


def needs_quick_reads(path):
    if not has_quick_reads(path):
        pytest.skip(f"{path} is on {file_system_of(path)}, whose files are read by threads")
    if tuple(int(n) for n in os.uname().release.split(".")[:2]) < (5, 12):
        pytest.skip("no RESOLVE_CACHED before Linux 5.12")


def naps_of_threads(server):
    """How often the threads of the server have slept, without the thread of the loop."""
    naps = 0
    for task in os.listdir(f"/proc/{server.proc.pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), \
             open(f"/proc/{server.proc.pid}/task/{task}/status", encoding="ascii") as f:
            if int(task) != server.proc.pid:
                naps += next(int(line.split()[1]) for line in f if line.startswith("voluntary_ctxt"))
    return naps


def needs_no_thread(server, look):
    """Calls look(n) many times. Returns whether no thread of the server worked for that, and tries again for a while until it is so."""
    deadline = time.monotonic() + QUICK_SECONDS
    while True:
        before = naps_of_threads(server)
        for n in range(MANY):
            look(n)
        if naps_of_threads(server) - before < MANY / 5:
            return True
        if time.monotonic() > deadline:
            return False


def is_answered(client, tmp):
    """Checks that the requests of `client`, which does not use the blocked file, are answered in time."""
    begun = time.monotonic()
    assert client.call("environment/status", timeout=DEADLINE_S) == {"status": "ready"}
    assert read(client, f"{tmp}/other", timeout=DEADLINE_S) == b"other"
    assert fs(client, "getMetadata", timeout=DEADLINE_S, path=f"{tmp}/other")["size"] == 5
    assert time.monotonic() - begun < DEADLINE_S * PATIENCE


# Reads without a thread


def age(path):
    """Reads the file a moment after it was written, so that later reads do not change its time of last access."""
    for _ in range(100):
        content(path)
        st = os.stat(path)
        if st.st_atime_ns > max(st.st_mtime_ns, st.st_ctime_ns):
            break
        time.sleep(0.01)  # the tick of the kernel's clock
    return path


def test_small_files_are_read_without_a_thread(server, client, tmp):
    needs_quick_reads(tmp)
    for size in (0, 1, 1000, 64 * KIB):
        path = age(make(f"{tmp}/{size}", noise(size)))
        assert read(client, path) == noise(size)

        def look(_, path=path, size=size):
            assert read(client, path) == noise(size)

        assert needs_no_thread(server, look), size


def test_files_are_looked_at_without_a_thread(server, client, tmp):
    needs_quick_reads(tmp)
    make(f"{tmp}/f", b"x")
    os.symlink("f", f"{tmp}/link")
    for path in (f"{tmp}/f", tmp):
        def look(n, path=path):
            assert fs(client, "getMetadata", path=path, followSymlinks=n % 2 == 0)["isDirectory"] == (path == tmp)

        assert needs_no_thread(server, look), path


def test_what_is_written_is_read(client, tmp):
    """A read gets the newest data, written by this connection, by another program or by a rename."""
    for n in range(200):
        data = b"%d" % n * (n + 1)
        if n % 3 == 0:
            write(client, f"{tmp}/f", data)
        elif n % 3 == 1:
            make(f"{tmp}/f", data)
        else:
            os.rename(make(f"{tmp}/new", data), f"{tmp}/f")
        for _ in range(n % 4 + 1):
            assert read(client, f"{tmp}/f") == data
            assert fs(client, "getMetadata", path=f"{tmp}/f")["size"] == len(data)


def test_a_file_that_changes_while_it_is_read_is_never_cut(client, tmp):
    """The file is replaced by a rename again and again: each read gets one whole version."""
    versions = [noise(n, seed=n) for n in (10, 5 * KIB, 60 * KIB, 70 * KIB)]
    make(f"{tmp}/f", versions[0])
    over = threading.Event()

    def replace():
        n = 0
        while not over.is_set():
            n += 1
            os.rename(make(f"{tmp}/new", versions[n % len(versions)]), f"{tmp}/f")

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(MANY):
            assert read(client, f"{tmp}/f") in versions
    finally:
        over.set()
        thread.join()


def test_many_at_once_keep_to_their_connection(server, client, tmp):
    """One client sends more reads than the loop does in a row, and another client reads in between."""
    age(make(f"{tmp}/f", noise(1000)))
    make(f"{tmp}/other", b"other")
    with server.connect() as other:
        sent = [send(client, "readFile", path=f"{tmp}/f") for _ in range(2000)]
        for _ in range(10):
            is_answered(other, tmp)
        for ident in sent:
            assert client.result(ident)["dataBase64"] == b64(noise(1000))


# The loop and threads give the same answers


def things(top):
    """Makes files of all kinds and links to them. Returns paths that lead to them in all ways."""
    os.mkdir(f"{top}/dir")
    make(f"{top}/dir/file", b"in a directory")
    make(f"{top}/empty")
    make(f"{top}/small", noise(1000))
    make(f"{top}/limit", noise(64 * KIB))
    make(f"{top}/above", noise(64 * KIB + 1))
    make(f"{top}/large", noise(3 * MIB))
    make(f"{top}/closed", b"secret", 0)
    make(f"{top}/set-uid", b"x", 0o6755)
    os.mkdir(f"{top}/locked")
    make(f"{top}/locked/file", b"x")
    os.chmod(f"{top}/locked", 0)
    os.utime(f"{top}/set-uid", (1, -1))
    os.link(f"{top}/small", f"{top}/second")
    os.mkfifo(f"{top}/fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{top}/socket")
    os.truncate(make(f"{top}/sparse"), 32 * KIB)
    names = os.listdir(top)
    for name in names + ["nothing", "loop", "dir/file", "locked/file"]:
        os.symlink(f"{top}/{name}" if len(name) % 2 else name, f"{top}/to-{name.replace('/', '-')}")
    os.symlink("loop", f"{top}/loop")
    os.symlink("dir", f"{top}/through")
    os.symlink("to-small", f"{top}/twice")
    paths = [f"{top}/{name}" for name in os.listdir(top)]
    paths += [f"{path}/" for path in paths] + [f"{path}/file" for path in paths] + [f"{path}/.." for path in paths]
    paths += [f"{top}/through/file", f"{top}/dir/../small", f"{top}//./small", f"{top}/" + "n" * 300,
              f"{top}/" + "d/" * 2100, "/", "/.", "/..", "/dev/null", "/dev/zero", "/dev/tty", "/dev/full", "/dev/shm",
              "/proc", "/proc/self", "/proc/self/cmdline", "/proc/self/exe", "/proc/self/root", "/proc/self/cwd/etc",
              "/proc/self/root/etc/hostname", "/proc/version", "/proc/filesystems", "/proc/self/fd/0", "/proc/1/mem",
              "/proc/sys/kernel/ostype", "/proc/self/mountinfo", "/proc/kmsg", "/sys", "/sys/kernel/mm",
              "/sys/kernel/notes", "/etc/hostname", "/etc/passwd", "/etc/shadow",
              "/etc/mtab", "/bin/sh", "/tmp", "/nothing", "/nothing/at/all", "/etc/passwd/x"]
    return paths


def without_times(answer):
    """The answer without the times and sizes that other programs may change at any moment."""
    if not isinstance(answer, dict) or "modifiedAtMs" not in answer:
        return answer
    return {key: value for key, value in answer.items() if key not in ("modifiedAtMs", "createdAtMs", "links", "size")}


REQUESTS = [("readFile", {}), ("readFile", {"followSymlinks": False}), ("getMetadata", {}),
            ("getMetadata", {"followSymlinks": False}), ("getMetadata", {"digest": "sha256"})]


def test_an_answer_is_that_of_a_thread(tmp):
    """A connection with a waiting request is served by threads: each question is asked on it and on an idle connection."""
    os.mkdir(f"{tmp}/top")
    with stuck_server(tmp) as stuck, stuck.server.connect() as quick, stuck.server.connect() as slow:
        paths = things(f"{tmp}/top")
        held = send(slow, "getMetadata", path=f"{stuck.mount}/stuck")
        stuck.is_held("stuck")
        for method, more in REQUESTS:
            for path in paths:
                answers = [outcome(client, send(client, method, path=path, **more))
                           for client in (quick, slow, quick, quick, slow)]
                if not path.startswith(tmp):
                    answers = [without_times(answer) for answer in answers]
                assert [answer for answer in answers if answer != answers[1]] == [], (method, more, path)
        stuck.let_go()
        slow.result(held)


# Files that would block


def test_a_stopped_file_system_stops_no_loop(tmp):
    """The kernel has cached names and sizes of the files, so that a lookup does not block; an open asks the file system and
    blocks."""
    with stuck_server(tmp) as stuck, stuck.server.connect() as client, stuck.server.connect() as other:
        make(f"{tmp}/other", b"other")
        for name in ("kept", "kept-unread"):
            for _ in range(3):
                assert fs(client, "getMetadata", path=f"{stuck.mount}/{name}")["size"] == 1000
        for _ in range(3):
            assert read(client, f"{stuck.mount}/kept") == b"x" * 1000
        is_answered(other, tmp)
        os.kill(stuck.pid, signal.SIGSTOP)
        try:
            sent = [send(client, method, path=f"{stuck.mount}/{name}", **more) for method, more in REQUESTS
                    for name in ("kept", "kept-unread", "kept-unknown", "")]
            client.flush()
            for _ in range(20):
                is_answered(other, tmp)
        finally:
            os.kill(stuck.pid, signal.SIGCONT)
        for ident in sent:
            outcome(client, ident, 30)


def test_a_stopped_file_system_below_another_stops_no_loop(tmp):
    """overlayfs passes every open on to the file system below it, which does not answer."""
    with stuck_server(tmp) as stuck:
        for name in ("upper", "work", "merged"):
            os.mkdir(f"{tmp}/{name}")
        options = f"lowerdir={stuck.mount},upperdir={tmp}/upper,workdir={tmp}/work"
        mounted = subprocess.run(["nsenter", "-t", str(stuck.pid), "-m", "mount", "-t", "overlay", "overlay", "-o",
                                  options, f"{tmp}/merged"], check=False, capture_output=True, text=True, timeout=60)
        if mounted.returncode != 0:
            pytest.skip(f"no overlayfs on FUSE here: {mounted.stderr}")
        make(f"{tmp}/other", b"other")
        with stuck.server.connect() as client, stuck.server.connect() as other:
            for _ in range(3):
                outcome(client, send(client, "readFile", path=f"{tmp}/merged/kept"))
                outcome(client, send(client, "getMetadata", path=f"{tmp}/merged/kept"))
            is_answered(other, tmp)
            os.kill(stuck.pid, signal.SIGSTOP)
            try:
                sent = [send(client, method, path=f"{tmp}/merged/kept") for method in ("getMetadata", "readFile")]
                client.flush()
                for _ in range(5):
                    is_answered(other, tmp)
            finally:
                os.kill(stuck.pid, signal.SIGCONT)
            for ident in sent:
                outcome(client, ident, 30)


def test_a_file_system_that_is_mounted_over_a_known_one(tmp):
    """What the server has learned about the lower mount does not hold for the mount on top of it."""
    os.mkdir(f"{tmp}/place")
    with stuck_server(tmp) as stuck, stuck.server.connect() as client, stuck.server.connect() as other:
        make(f"{tmp}/other", b"other")
        age(make(f"{tmp}/place/kept", b"below"))

        def in_there(*argv, check=True):
            return subprocess.run(["nsenter", "-t", str(stuck.pid), "-m", *argv], check=check, timeout=60).returncode == 0

        for _ in range(5):
            for _ in range(5):
                assert read(client, f"{tmp}/place/kept") == b"below"
                assert fs(client, "getMetadata", path=f"{tmp}/place/kept")["size"] == 5
            in_there("mount", "--bind", stuck.mount, f"{tmp}/place")
            assert fs(client, "getMetadata", path=f"{tmp}/place/kept")["size"] == 1000
            os.kill(stuck.pid, signal.SIGSTOP)
            try:
                sent = send(client, "readFile", path=f"{tmp}/place/kept")
                client.flush()
                is_answered(other, tmp)
            finally:
                os.kill(stuck.pid, signal.SIGCONT)
            assert client.result(sent)["dataBase64"] == b64(b"x" * 1000)
            # A thread that has just answered may still have the file open.
            wait_until(lambda: in_there("umount", f"{tmp}/place", check=False), 20, "the end of the mount")


def has_lease(fd):
    with contextlib.suppress(BlockingIOError):
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        return True
    return False


def test_a_lease_stops_no_loop(server, client, tmp):
    """The holder of the lease does not give it back: reading the file waits on a thread, and the loop goes on."""
    age(make(f"{tmp}/f", b"leased"))
    make(f"{tmp}/other", b"other")
    for _ in range(3):
        assert read(client, f"{tmp}/f") == b"leased"
    old = signal.signal(signal.SIGIO, signal.SIG_IGN)
    fd = os.open(f"{tmp}/f", os.O_RDONLY)
    try:
        wait_until(lambda: has_lease(fd), 10, "the lease")  # none is given while a thread still has the file open
        with server.connect() as other:
            for _ in range(3):
                assert outcome(client, send(client, "readFile", path=f"{tmp}/f")) == \
                    (-32603, f"Resource temporarily unavailable (os error {errno.EAGAIN})")
                is_answered(other, tmp)
                assert fs(client, "getMetadata", path=f"{tmp}/f")["size"] == 6
    finally:
        os.close(fd)
        signal.signal(signal.SIGIO, old)
    assert read(client, f"{tmp}/f") == b"leased"


def test_a_file_that_becomes_something_else_stops_no_loop(server, client, tmp):
    """A file, a FIFO, a directory and a device take turns under one name: each answer is about one of them."""
    age(make(f"{tmp}/file", b"file"))
    make(f"{tmp}/other", b"other")
    os.mkfifo(f"{tmp}/fifo")
    os.mkdir(f"{tmp}/dir")
    os.symlink("/dev/zero" if IS_ROOT else "/dev/null", f"{tmp}/device")
    os.symlink("file", f"{tmp}/name")
    over = threading.Event()

    def swap():
        n = 0
        while not over.is_set():
            n += 1
            os.symlink(("file", "fifo", "dir", "device")[n % 4], f"{tmp}/new")
            os.rename(f"{tmp}/new", f"{tmp}/name")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        with server.connect() as other:
            for n in range(MANY):
                answer = outcome(client, send(client, "readFile", path=f"{tmp}/name"))
                assert answer in ({"dataBase64": b64(b"file")}, (-32600, f"path `{tmp}/name` is not a file")), answer
                if n % 50 == 0:
                    is_answered(other, tmp)
    finally:
        over.set()
        thread.join()


def test_files_that_are_deleted_while_they_are_looked_at(client, tmp):
    over = threading.Event()

    def make_and_delete():
        while not over.is_set():
            os.unlink(age(make(f"{tmp}/f", b"here")))

    thread = threading.Thread(target=make_and_delete)
    thread.start()
    try:
        gone = (-32004, "No such file or directory (os error 2)")
        for _ in range(MANY):
            assert outcome(client, send(client, "readFile", path=f"{tmp}/f")) in (
                {"dataBase64": b64(b"here")}, {"dataBase64": ""}, gone)
            found = outcome(client, send(client, "getMetadata", path=f"{tmp}/f"))
            assert found == gone or found["size"] in (0, 4)
    finally:
        over.set()
        thread.join()


LISTENER = r"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
# FAN_CLASS_CONTENT | FAN_CLOEXEC; FAN_MARK_ADD | FAN_MARK_MOUNT, FAN_OPEN_PERM
fd = libc.fanotify_init(0x4 | 0x1, os.O_RDONLY)
if fd < 0 or libc.fanotify_mark(fd, 0x1 | 0x10, ctypes.c_uint64(0x10000), -100, os.fsencode(sys.argv[1])) < 0:
    sys.exit(os.strerror(ctypes.get_errno()))
print("ready", flush=True)
sys.stdin.read()
"""


@needs_root
def test_a_listener_that_is_asked_before_each_open_stops_no_loop(tmp):
    """A fanotify listener for permission events, such as a virus scanner, does not answer. It listens on a mount of the server
    alone."""
    needs_quick_reads(tmp)
    os.mkdir(f"{tmp}/asked")
    age(make(f"{tmp}/asked/f", b"asked"))
    make(f"{tmp}/other", b"other")
    with server_under(in_own_mounts(f"mount --bind {tmp}/asked {tmp}/asked")) as server, \
         server.connect() as client, server.connect() as other:
        argv = ["nsenter", "-t", str(server.proc.pid), "-m", sys.executable, "-c", LISTENER, f"{tmp}/asked"]
        try:
            listening = background(argv)
            listener = listening.__enter__()
        except RuntimeError as err:
            pytest.skip(f"no fanotify here: {err}")
        try:
            assert fs(client, "getMetadata", path=f"{tmp}/asked/f")["size"] == 5
            sent = [send(client, "readFile", path=f"{tmp}/asked/f") for _ in range(3)]
            client.flush()
            for _ in range(10):
                is_answered(other, tmp)
                assert fs(other, "getMetadata", path=f"{tmp}/asked/f")["size"] == 5
        finally:
            listener.kill()
            listening.__exit__(None, None, None)
        for ident in sent:
            assert client.result(ident)["dataBase64"] == b64(b"asked")
