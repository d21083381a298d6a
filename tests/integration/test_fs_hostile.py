"""File methods where the ground is bad: full and read-only file systems, no descriptors, no rights, names swapped
under way, a server that is killed, and files larger than memory should have to be.
"""

import contextlib
import json
import os
import random
import signal
import sys
import threading
import time

import pytest

from farhand_client import PATIENCE, RawSocket, RpcError, Server, wait_until
from fs_helpers import (EACCES, ENOSPC, EROFS, IS_SANITIZED, KIB, MIB, as_nobody, b64, background, block, content,
                        failure, fs, in_own_mounts, leftovers, make, needs_root, noise, outcome, read, send,
                        server_under, sparse, status_kib, stop_wholly, tree, uri, write)

EBUSY = (-32603, "Resource busy (os error 16)")
EFBIG = (-32603, "File too large (os error 27)")
EMFILE = (-32603, "No file descriptors available (os error 24)")
WALK = {"maxDepth": 64, "maxDirectories": 1000, "maxEntries": 10000, "followDirectorySymlinks": False}


# A full file system


@contextlib.contextmanager
def tiny(tmp, options="size=1m"):
    """Starts a server with a small tmpfs of its own. Yields a client and the path of the tmpfs for the server and for the test."""
    there = f"{tmp}/tiny"
    os.mkdir(there)
    with server_under(in_own_mounts(f"mount -t tmpfs -o {options} tiny {there}")) as server, server.connect() as client:
        yield client, there, f"/proc/{server.pid}/root{there}"


@needs_root
@pytest.mark.parametrize("more", [{}, {"atomic": False}, {"followSymlinks": False}], ids=str)
@pytest.mark.parametrize("kind", ["plain", "linked", "new"])
def test_a_write_that_does_not_fit_leaves_the_old_file(tmp, kind, more):
    with tiny(tmp) as (client, there, here):
        if kind != "new":
            make(f"{here}/f", noise(100 * KIB))
        if kind == "linked":
            os.link(f"{here}/f", f"{here}/g")
        before = tree(here)
        assert failure(client, "writeFile", path=f"{there}/f", dataBase64=b64(bytes(3 * MIB)), **more) == ENOSPC
        if kind == "new":
            # An empty new file may stay; its data may not stay, because they take room.
            assert all(len(data) == 0 for data in tree(here).values())
        else:
            assert tree(here) == before
        write(client, f"{there}/f", noise(200 * KIB, 2), **more)
        assert content(f"{here}/f") == noise(200 * KIB, 2)


@needs_root
def test_room_for_the_old_or_the_new_but_not_both(tmp):
    """The new version may fit when it is written in place. A success leaves the new version, a failure the old one."""
    with tiny(tmp) as (client, there, here):
        old, new = noise(600 * KIB, 1), noise(700 * KIB, 2)
        make(f"{here}/f", old)
        answer = outcome(client, send(client, "writeFile", path=f"{there}/f", dataBase64=b64(new)))
        assert answer == ENOSPC or isinstance(answer, dict)
        assert tree(here) == {b"f": old if answer == ENOSPC else new}


@needs_root
def test_streams_and_copies_on_a_full_file_system(tmp):
    with tiny(tmp) as (client, there, here):
        fs(client, "open", handleId="h", path=f"{there}/f", mode="replace")
        fs(client, "writeBlock", handleId="h", offset=0, chunk=b64(bytes(512 * KIB)))
        assert failure(client, "writeBlock", handleId="h", offset=512 * KIB, chunk=b64(noise(MIB))) == ENOSPC
        fs(client, "close", handleId="h")
        os.unlink(f"{here}/f")
        make(f"{tmp}/from", noise(3 * MIB))
        params = {"sourcePath": f"{tmp}/from", "destinationPath": f"{there}/to", "recursive": False}
        assert failure(client, "copy", **params) == ENOSPC
        fs(client, "remove", path=f"{there}/to")
        write(client, f"{there}/g", noise(300 * KIB))
        assert content(f"{here}/g") == noise(300 * KIB)


@needs_root
def test_no_more_names(tmp):
    with tiny(tmp, "size=1m,nr_inodes=5") as (client, there, here):
        made = 0
        while made < 10 and isinstance(outcome(client, send(client, "createDirectory", path=f"{there}/d{made}")), dict):
            made += 1
        assert made < 10
        assert failure(client, "createDirectory", path=f"{there}/more") == ENOSPC
        assert failure(client, "writeFile", path=f"{there}/f", dataBase64="eA==") == ENOSPC
        os.rmdir(f"{here}/d0")
        write(client, f"{there}/f", b"old")
        # No temporary file can be made any more, so that the file is written in place.
        write(client, f"{there}/f", b"new")
        assert content(f"{here}/f") == b"new"


# A read-only file system, and mounts


@needs_root
def test_a_read_only_file_system(tmp):
    top = f"{tmp}/ro"
    os.makedirs(f"{top}/dir")
    make(f"{top}/f", b"old")
    make(f"{tmp}/out", b"out")
    mounts = f"mount --bind {top} {top}; mount -o remount,bind,ro {top}"
    with server_under(in_own_mounts(mounts)) as server, server.connect() as client:
        for method, params in (
                ("writeFile", {"path": f"{top}/f", "dataBase64": "eA=="}),
                ("writeFile", {"path": f"{top}/f", "dataBase64": "eA==", "atomic": False}),
                ("writeFile", {"path": f"{top}/new", "dataBase64": "eA=="}),
                ("createDirectory", {"path": f"{top}/new"}), ("remove", {"path": f"{top}/f"}),
                ("remove", {"path": f"{top}/dir"}), ("open", {"path": f"{top}/f", "handleId": "h", "mode": "replace"}),
                ("copy", {"sourcePath": f"{tmp}/out", "destinationPath": f"{top}/new", "recursive": False}),
                ("copy", {"sourcePath": f"{tmp}/out", "destinationPath": f"{top}/f", "recursive": False}),
                ("rename", {"sourcePath": f"{top}/f", "destinationPath": f"{top}/new"}),
                ("symlink", {"path": f"{top}/new", "target": "x"}), ("setMetadata", {"path": f"{top}/f", "mode": 0})):
            assert failure(client, method, **params) == EROFS, (method, params)
        assert read(client, f"{top}/f") == b"old"
        assert len(fs(client, "walk", path=top, options=WALK)["entries"]) == 2
    assert tree(top) == {b"dir": None, b"f": b"old"}


@needs_root
def test_a_mount_point_is_not_removed(tmp):
    os.makedirs(f"{tmp}/dir/mounted")
    with server_under(in_own_mounts(f"mount -t tmpfs x {tmp}/dir/mounted")) as server, server.connect() as client:
        assert failure(client, "remove", path=f"{tmp}/dir/mounted", recursive=False) == EBUSY
        assert failure(client, "remove", path=f"{tmp}/dir/mounted") == EBUSY
    assert tree(tmp) == {b"dir": None, b"dir/mounted": None}


# Limits of the process


def test_no_descriptor_left(tmp):
    make(f"{tmp}/f", b"x")
    with server_under('exec prlimit --nofile=64:64 -- "$@"') as server, server.connect() as client:
        answers = [outcome(client, send(client, "open", handleId=f"h{n}", path=f"{tmp}/f")) for n in range(100)]
        opened = [n for n, answer in enumerate(answers) if isinstance(answer, dict)]
        assert 10 < len(opened) < 64
        assert {answer for answer in answers if not isinstance(answer, dict)} == {EMFILE}
        assert failure(client, "readFile", path=f"{tmp}/f") == EMFILE
        assert failure(client, "readDirectory", path=tmp) == EMFILE
        assert failure(client, "writeFile", path=f"{tmp}/f", dataBase64="eQ==") == EMFILE
        assert client.call("environment/status") == {"status": "ready"}
        assert block(fs(client, "readBlock", handleId="h0", offset=0, len=9)) == (b"x", True)
        for n in opened[:20]:
            fs(client, "close", handleId=f"h{n}")
        write(client, f"{tmp}/f", b"new")
        assert read(client, f"{tmp}/f") == b"new"
    assert tree(tmp) == {b"f": b"new"}


def test_a_limit_on_the_size_of_files_is_an_error_not_the_end(tmp):
    make(f"{tmp}/f", b"old")
    make(f"{tmp}/large", noise(3 * MIB))
    with server_under(f'exec prlimit --fsize={MIB}:{MIB} -- "$@"') as server, server.connect() as client:
        for more in ({}, {"atomic": False}):
            assert failure(client, "writeFile", path=f"{tmp}/f", dataBase64=b64(bytes(2 * MIB)), **more) == EFBIG
            assert content(f"{tmp}/f") == b"old"
        assert failure(client, "copy", sourcePath=f"{tmp}/large", destinationPath=f"{tmp}/to", recursive=False) == EFBIG
        fs(client, "open", handleId="h", path=f"{tmp}/s", mode="replace")
        assert failure(client, "writeBlock", handleId="h", offset=5 * MIB, chunk="eA==") == EFBIG
        assert client.call("environment/status") == {"status": "ready"}
    assert leftovers(tmp) == []


# A server without rights


@contextlib.contextmanager
def nobody(tmp):
    os.chmod(tmp, 0o755)
    with server_under(as_nobody(f"{tmp}/home")) as server, server.connect() as client:
        yield client


@needs_root
def test_an_unprivileged_server(tmp):
    with nobody(tmp) as client:
        make(f"{tmp}/secret", b"s", 0o600)
        os.mkdir(f"{tmp}/priv", 0o700)
        make(f"{tmp}/priv/x")
        os.mkdir(f"{tmp}/rodir")
        make(f"{tmp}/rodir/f", b"old")
        os.makedirs(f"{tmp}/mine/sub/priv")
        for path in (f"{tmp}/mine", f"{tmp}/mine/sub"):
            os.chown(path, 65534, 65534)
        os.chmod(f"{tmp}/mine/sub/priv", 0o700)
        make(f"{tmp}/mine/sub/priv/x")
        make(f"{tmp}/mine/readonly", b"old", 0o444)
        os.chown(f"{tmp}/mine/readonly", 65534, 65534)
        before = tree(f"{tmp}/rodir")
        for method, params in (
                ("readFile", {"path": "secret"}), ("readFile", {"path": "priv/x"}),
                ("writeFile", {"path": "secret", "dataBase64": "eA=="}),
                ("writeFile", {"path": "rodir/new", "dataBase64": "eA=="}),
                ("writeFile", {"path": "rodir/f", "dataBase64": "eA=="}),
                # A file that may not be written is not replaced by a new one either.
                ("writeFile", {"path": "mine/readonly", "dataBase64": "eA=="}),
                ("createDirectory", {"path": "rodir/d"}), ("getMetadata", {"path": "priv/x"}),
                ("readDirectory", {"path": "priv"}), ("remove", {"path": "rodir/f"}),
                ("canonicalize", {"path": "priv/x"}),
                ("open", {"path": "secret", "handleId": "h"}), ("remove", {"path": "mine/sub"}),
                ("open", {"path": "rodir/f", "handleId": "h", "mode": "replace"}),
                ("rename", {"sourcePath": "rodir/f", "destinationPath": "mine/f"}),
                ("symlink", {"path": "rodir/l", "target": "x"}),
                ("copy", {"sourcePath": "secret", "destinationPath": "mine/s", "recursive": False})):
            absolute = {k: f"{tmp}/{v}" if k.lower().endswith("path") else v for k, v in params.items()}
            assert failure(client, method, **absolute) == EACCES, (method, params)
        assert failure(client, "setMetadata", path=f"{tmp}/rodir/f", mode=0o777) == (
            -32600, "Operation not permitted (os error 1)")
        assert tree(f"{tmp}/rodir") == before and content(f"{tmp}/mine/readonly") == b"old"
        assert fs(client, "getMetadata", path=f"{tmp}/secret")["size"] == 1
        write(client, f"{tmp}/mine/new", b"mine")
        assert os.stat(f"{tmp}/mine/new").st_uid == 65534


@needs_root
def test_an_unreadable_directory_is_an_error_of_the_walk(tmp):
    with nobody(tmp) as client:
        os.makedirs(f"{tmp}/top/priv")
        os.makedirs(f"{tmp}/top/open")
        make(f"{tmp}/top/open/f")
        os.chmod(f"{tmp}/top/priv", 0o700)
        result = fs(client, "walk", path=f"{tmp}/top", options=WALK)
        assert [e["path"].rpartition("/top/")[2] for e in result["entries"]] == ["open", "priv", "open/f"]
        assert result["errors"] == [{"path": uri(f"{tmp}/top/priv"), "message": "Permission denied (os error 13)"}]
        assert result["truncated"] is False


@needs_root
def test_a_writable_file_where_nothing_may_be_made(tmp):
    """The file is written in place, and keeps its owner."""
    with nobody(tmp) as client:
        os.mkdir(f"{tmp}/rodir")
        make(f"{tmp}/rodir/shared", b"old", 0o666)
        os.mkdir(f"{tmp}/sticky", 0o777)
        os.chmod(f"{tmp}/sticky", 0o1777)
        make(f"{tmp}/sticky/roots", b"old", 0o666)
        for path in (f"{tmp}/rodir/shared", f"{tmp}/sticky/roots"):
            before = os.stat(path)
            write(client, path, b"new")
            after = os.stat(path)
            assert content(path) == b"new"
            assert (before.st_ino, before.st_uid, before.st_mode) == (after.st_ino, after.st_uid, after.st_mode)
        assert leftovers(tmp) == []


# Names that are swapped meanwhile

SWAPPER = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
one, other = (os.fsencode(p) for p in sys.argv[1:3])
print("ready", flush=True)
while True:
    libc.renameat2(-100, one, -100, other, 2)
"""


@pytest.mark.parametrize("method", ["remove", "copy"])
def test_a_directory_swapped_for_a_link_leads_nowhere(client, tmp, method):
    """During the request, a directory of the tree is exchanged with a link to another tree, again and again."""
    outside = f"{tmp}/outside"
    os.makedirs(f"{outside}/d")
    for n in range(50):
        make(f"{outside}/f{n}", b"precious")
        make(f"{outside}/d/f{n}", b"precious")
    before = tree(outside)
    for round_ in range(4 if IS_SANITIZED else 12):
        top = f"{tmp}/top{round_}"
        for sub in ("a", "m", "z"):
            os.makedirs(f"{top}/{sub}/d")
            for n in range(50):
                make(f"{top}/{sub}/f{n}", b"x")
                make(f"{top}/{sub}/d/f{n}", b"x")
        link = f"{tmp}/link{round_}"
        os.symlink(outside, link)
        with background([sys.executable, "-c", SWAPPER, f"{top}/m", link]):
            if method == "remove":
                answer = outcome(client, send(client, "remove", path=top), 60)
            else:
                answer = outcome(client, send(client, "copy", sourcePath=top, destinationPath=f"{tmp}/to{round_}",
                                              recursive=True), 60)
        assert tree(outside) == before, "nothing outside was touched"
        if method == "copy":
            assert b"precious" not in tree(f"{tmp}/to{round_}").values(), "nothing outside was read"
        assert answer == {} or answer[0] in (-32603, -32004, -32600)


def test_a_file_swapped_for_a_link_without_following(client, tmp):
    make(f"{tmp}/secret", b"secret")
    make(f"{tmp}/f", b"plain")
    os.symlink("secret", f"{tmp}/link")
    with background([sys.executable, "-c", SWAPPER, f"{tmp}/f", f"{tmp}/link"]):
        for _ in range(100 if IS_SANITIZED else 300):
            answer = outcome(client, send(client, "readFile", path=f"{tmp}/f", followSymlinks=False))
            assert answer == {"dataBase64": b64(b"plain")} or answer[0] in (-32603, -32600, -32004)
    assert content(f"{tmp}/secret") == b"secret"


def test_a_file_that_changes_while_it_is_read(server, tmp):
    """The answer may contain the file of any moment; each request is answered."""
    path = make(f"{tmp}/f", b"x" * (4 * MIB))
    changer = """
import os, sys
print("ready", flush=True)
while True:
    for size in (0, 100, 5000000, 4 << 20, 70000):
        os.truncate(sys.argv[1], size)
"""
    with background([sys.executable, "-c", changer, path]), server.connect() as client:
        for _ in range(20):
            try:
                data = read(client, path, timeout=30)
                assert len(data) <= 5000000 and not data.strip(b"x\0")
            except RpcError as err:
                assert err.code == -32603


# Whole versions only

READER = """
import sys, time
seen = set()
print("ready", flush=True)
while True:
    time.sleep(0.0003)  # leaves the processors to the server and the client
    with open(sys.argv[1], "rb") as f:
        data = f.read()
    number = data[:8]
    if len(data) < 8 or data != number * (1 + int(number) % 600):
        sys.exit(f"half a version: {len(data)} bytes, begins {number!r}")
    if number not in seen:
        seen.add(number)
        if len(seen) % 20 == 0:  # few enough that a pipe which nobody reads holds them all
            print(len(seen), flush=True)
"""


def version(n):
    """The bytes of version n: the length depends on n, and n is repeated all over, so that mixed versions are noticed."""
    return b"%08d" % n * (1 + n % 600)


def test_a_reader_sees_only_whole_versions(client, tmp):
    count = 1500 if IS_SANITIZED else 10000
    path = make(f"{tmp}/f", version(0))
    seen = []  # what the reader says
    with background([sys.executable, "-c", READER, path]) as reader:
        listener = threading.Thread(target=lambda: seen.extend(iter(reader.stdout.readline, "")))
        listener.start()
        try:
            sent, n = [], 0
            # The reader may not run for a while on a busy machine: then there are more versions.
            while n < count or (len(seen) <= 2 and n < 20 * count and reader.poll() is None):
                n += 1
                sent.append(send(client, "writeFile", path=path, dataBase64=b64(version(n))))
                if len(sent) > 32:
                    client.result(sent.pop(0), 30)
            for ident in sent:
                client.result(ident, 30)
            assert reader.poll() is None, seen
        finally:
            reader.kill()
            listener.join()
    assert len(seen) > 2, "the reader was there all the time"
    assert content(path) == version(n) and os.listdir(tmp) == ["f"]


def kill_during_writes(server, path, rng, first):
    """Writes versions of `path` until the server is killed. Returns the number of the last one sent."""
    with server.connect() as client:
        client.run(["/bin/true"])
        number = first
        deadline = time.monotonic() + rng.uniform(0.001, 0.08) * PATIENCE
        while time.monotonic() < deadline:
            number += 1
            send(client, "writeFile", path=path, dataBase64=b64(big_version(number)))
            if number % 4 == 0:
                with contextlib.suppress(TimeoutError):
                    client.flush()
        server.stop(signal.SIGKILL)
    return number


def big_version(n):
    return b"%08d" % n * (20000 + n % 7)


@needs_root
@pytest.mark.parametrize("user", ["root", "nobody"])
def test_a_kill_leaves_the_old_or_the_new_and_the_next_start_cleans_up(tmp, user):
    rng = random.Random(int.from_bytes(os.urandom(4), "little"))
    os.chmod(tmp, 0o755)
    for name in ("tree", "lib"):
        os.mkdir(f"{tmp}/{name}")
    path = make(f"{tmp}/tree/f", big_version(0))
    if user == "root":
        shell = in_own_mounts(f"mount --bind {tmp}/lib /var/lib")
    else:
        shell = as_nobody(f"{tmp}/home")
        for name in ("tree", "tree/f"):
            os.chown(f"{tmp}/{name}", 65534, 65534)
    last = 0
    for _ in range(4 if IS_SANITIZED else 8):
        with server_under(shell) as server:
            wait_until(lambda: leftovers(f"{tmp}/tree") == [], 60, "removal of temporary files")
            last = kill_during_writes(server, path, rng, last)
        data = content(path)
        assert data == big_version(int(data[:8])), "old or new, never half"
    with server_under(shell) as server, server.connect() as client:
        wait_until(lambda: os.listdir(f"{tmp}/tree") == ["f"], 60, "removal of temporary files")
        write(client, path, b"the end")
    assert tree(f"{tmp}/tree") == {b"f": b"the end"}


def catch_with_a_temporary_file(server, client, top):
    """Stops the server at a moment when a temporary file of a write exists. On a busy machine many writes are over before this
    process looks."""
    data = b64(noise(4 * MIB))
    deadline = time.monotonic() + 120 * PATIENCE
    while time.monotonic() < deadline:
        sent = send(client, "writeFile", path=f"{top}/f", dataBase64=data)
        while not client.has_response(sent):
            if leftovers(top):
                stop_wholly(server.pid)
                if leftovers(top):
                    return
                server.proc.send_signal(signal.SIGCONT)
    pytest.fail("no temporary file was ever seen")


@needs_root
def test_a_temporary_file_does_not_outlive_the_next_start(tmp):
    for name in ("tree", "lib"):
        os.mkdir(f"{tmp}/{name}")
    make(f"{tmp}/tree/f", b"old")
    # Files with similar names, which the server has not made and must not remove.
    make(f"{tmp}/tree/.farhand-mine.tmp", b"mine")
    shell = in_own_mounts(f"mount --bind {tmp}/lib /var/lib")
    os.mkdir(f"{tmp}/tree/sub")
    with server_under(shell) as server, server.connect() as client:
        catch_with_a_temporary_file(server, client, f"{tmp}/tree/sub")
        server.stop(signal.SIGKILL)
    assert leftovers(f"{tmp}/tree/sub") != []
    with server_under(shell) as server:
        wait_until(lambda: leftovers(f"{tmp}/tree/sub") == [], 60, "removal of the temporary file")
        assert tree(f"{tmp}/tree").get(b"f") == b"old" and content(f"{tmp}/tree/.farhand-mine.tmp") == b"mine"
    files = [name for _, _, names in os.walk(f"{tmp}/lib") for name in names]
    assert files == [], "a clean end leaves no journal either"


def test_a_clean_end_leaves_nothing(tmp):
    with Server() as server, server.connect() as client:
        for n in range(20):
            send(client, "writeFile", path=f"{tmp}/f", dataBase64=b64(big_version(n)))
        client.flush()
        server.stop()
    assert leftovers(tmp) == []
    if os.path.exists(f"{tmp}/f"):
        data = content(f"{tmp}/f")
        assert data == big_version(int(data[:8]))


# Large files and little memory


def test_64_mib_in_one_answer_and_little_memory(tmp):
    data = noise(64 * MIB)
    path = make(f"{tmp}/f", data)
    with Server() as server:
        with server.connect(init_params={"maxMessageBytes": 128 * MIB}) as client:
            fs(client, "getMetadata", path=path)
            before = status_kib(server.pid, "VmHWM")
            assert read(client, path, timeout=60) == data
            if not IS_SANITIZED:
                assert status_kib(server.pid, "VmHWM") - before <= 16 * KIB
            assert max(client.frame_sizes) <= MIB
        with server.connect() as client:
            code, message = failure(client, "readFile", path=path)
            assert code == -32603 and "fs/open" in message, "a client that did not say that it reads so much"


def test_64_mib_in_one_request(client, tmp):
    data = noise(64 * MIB)
    write(client, f"{tmp}/f", data, timeout=60)
    assert content(f"{tmp}/f") == data and leftovers(tmp) == []
    assert client.call("environment/status") == {"status": "ready"}


class Stream:
    """A connection that keeps only the first and last bytes of each message, so that the client costs little time and memory."""

    def __init__(self, server):
        self.raw = RawSocket(server.port)
        self.raw.upgrade()
        self.view = memoryview(bytearray(2 * MIB))
        self.raw.sock.settimeout(30 * PATIENCE)

    def ask(self, method, params, **ident):
        text = json.dumps({**ident, "method": method, "params": params}).encode()
        self.raw.send(self.raw.make_frame(1, text))

    def take(self, start, size):
        while size:
            got = self.raw.sock.recv_into(self.view[start:], size)
            assert got, "the connection has ended"
            start, size = start + got, size - got

    def answer(self):
        """Reads one message. Returns its first bytes, its last bytes and its length."""
        total, fin = 0, False
        while not fin:
            self.take(total, 2)
            first, size = self.view[total], self.view[total + 1]
            if size > 125:
                width = 2 if size == 126 else 8
                self.take(total, width)
                size = int.from_bytes(self.view[total:total + width], "big")
            self.take(total, size)
            if first & 0xF in (0, 1):
                total, fin = total + size, first & 0x80
        return bytes(self.view[:40]), bytes(self.view[total - 40:total]), total


def test_a_large_file_passes_in_blocks_and_little_memory(tmp):
    """A file of 1 GiB is read with four requests for a block outstanding at a time."""
    size = (128 if IS_SANITIZED else 1024) * MIB
    path = sparse(f"{tmp}/f", size)
    with Server() as server:
        stream = Stream(server)
        stream.ask("initialize", {"clientName": "stream"}, id=0)
        stream.answer()
        stream.ask("initialized", {})
        stream.ask("fs/open", {"handleId": "h", "path": uri(path)}, id=0)
        assert b'"handleId"' in stream.answer()[0]
        before = status_kib(server.pid, "VmHWM")
        blocks = size // MIB
        for n in range(blocks + 4):
            if n < blocks:
                stream.ask("fs/readBlock", {"handleId": "h", "offset": n * MIB, "len": MIB}, id=n)
            if n >= 4:
                first, last, length = stream.answer()
                assert length > 4 * MIB // 3 and b'"chunk":"AAAA' in first and b'"eof":false' in first + last
        if not IS_SANITIZED:
            assert status_kib(server.pid, "VmHWM") - before <= 16 * KIB
        stream.raw.close()


def test_a_large_file_is_written_in_blocks_and_little_memory(tmp):
    data = b64(noise(MIB))
    count = 16 if IS_SANITIZED else 64
    with Server() as server, server.connect() as client:
        fs(client, "open", handleId="h", path=f"{tmp}/f", mode="replace")
        before = status_kib(server.pid, "VmHWM")
        sent = []
        for n in range(count):
            sent.append(send(client, "writeBlock", handleId="h", offset=n * MIB, chunk=data))
            if len(sent) == 4:
                assert client.result(sent.pop(0), 30) == {}
        for ident in sent:
            assert client.result(ident, 30) == {}
        fs(client, "close", handleId="h", sync=True)
        if not IS_SANITIZED:
            assert status_kib(server.pid, "VmHWM") - before <= 24 * KIB
    assert content(f"{tmp}/f") == noise(MIB) * count


def test_a_client_that_asks_and_does_not_read(tmp):
    """The server keeps 100 requests for 1 MiB each as requests until there is room, instead of 100 MiB of answers."""
    path = make(f"{tmp}/f", noise(MIB))
    encoded = b64(noise(MIB))
    with Server() as server, server.connect() as client, server.connect() as other:
        fs(client, "readFile", path=path)
        before = status_kib(server.pid, "VmHWM")
        client.pause_reading()
        sent = [send(client, "readFile", path=path) for _ in range(100)]
        for _ in range(20):
            fs(other, "getMetadata", path=path)
            write(other, f"{tmp}/other", b"x")
        client.resume_reading()
        for ident in sent:
            assert client.result(ident, 60)["dataBase64"] == encoded
        if not IS_SANITIZED:
            assert status_kib(server.pid, "VmHWM") - before <= 32 * KIB


def test_a_client_that_leaves_in_the_middle(server, tmp):
    path = make(f"{tmp}/f", noise(8 * MIB))
    encoded = b64(noise(MIB))
    for n in range(6):
        client = server.connect()
        for m in range(3):
            send(client, "writeFile", path=f"{tmp}/g{m}", dataBase64=encoded)
            send(client, "readFile", path=path)
        client.flush()
        client.abort(reset=bool(n % 2))
    with server.connect() as client:
        assert len(read(client, path, timeout=30)) == 8 * MIB

    def is_whole():
        try:
            return leftovers(tmp) == [] and all(data in (noise(MIB), noise(8 * MIB)) for data in tree(tmp).values())
        except FileNotFoundError:
            return False  # the temporary file of a write that had not begun a moment ago

    wait_until(is_whole, 60, "whole files, and the end of abandoned writes")


def test_a_thousand_requests_at_once(client, tmp):
    sent = []
    for n in range(250):
        sent.append((send(client, "writeFile", path=f"{tmp}/{n}", dataBase64=b64(b"%d" % n)), None))
        sent.append((send(client, "readFile", path=f"{tmp}/{n}"), {"dataBase64": b64(b"%d" % n)}))
        sent.append((send(client, "getMetadata", path=f"{tmp}/none{n}"), -32004))
        sent.append((send(client, "readDirectory", path=f"{tmp}/{n}"), -32603))
    for ident, expected in sent:
        answer = outcome(client, ident, 30)
        assert expected is None or answer == expected or answer[0] == expected
    assert len(os.listdir(tmp)) == 250
