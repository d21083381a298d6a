"""fs/open, fs/readBlock, fs/writeBlock, fs/close: files in pieces, as large as they are."""

import os
import stat

import pytest

from farhand_client import wait_until
from fs_helpers import (EBADF, EINVAL, EISDIR, ELOOP, ENOENT, ENOTDIR, MIB, b64, block, content, failure, fs, leftovers,
                        make, noise, outcome, read, send, sparse, tree)

READ_LENGTH = (-32600, "file read block length must be between 1 and 1048576")
WRITE_LENGTH = (-32600, "file write block length must be between 1 and 1048576")
LONG_ID = (-32600, "file handle ID must not exceed 32 bytes")
RANGE = (-32600, "file write range exceeds the signed 64-bit file offset limit")


def unknown(handle):
    return -32004, f"unknown file handle `{handle}`"


def opened(client, path, handle="h", **more):
    result = fs(client, "open", handleId=handle, path=path, **more)
    assert result["handleId"] == handle
    return result


def at(client, offset, length, handle="h"):
    return block(fs(client, "readBlock", handleId=handle, offset=offset, len=length))


def put(client, offset, data, handle="h"):
    assert fs(client, "writeBlock", handleId=handle, offset=offset, chunk=b64(data)) == {}


# Reading


def test_blocks_and_their_end(client, tmp):
    """`eof` is true when the file had fewer bytes than were asked for."""
    make(f"{tmp}/f", b"x" * 10 + b"y" * 5)
    assert opened(client, f"{tmp}/f") == {"handleId": "h"}
    for offset, length, expected in [
            (0, 10, (b"x" * 10, False)), (10, 5, (b"y" * 5, False)), (10, 6, (b"y" * 5, True)), (15, 1, (b"", True)),
            (99, 6, (b"", True)), (0, 15, (b"x" * 10 + b"y" * 5, False)), (0, 16, (b"x" * 10 + b"y" * 5, True)),
            (0, 1048576, (b"x" * 10 + b"y" * 5, True)), (14, 1, (b"y", False)), (2 ** 53 - 1, 4, (b"", True)),
            (9, 2, (b"xy", False))]:
        assert at(client, offset, length) == expected, (offset, length)
    assert fs(client, "close", handleId="h") == {}
    assert failure(client, "readBlock", handleId="h", offset=0, len=1) == unknown("h")


def test_an_empty_file(client, tmp):
    opened(client, make(f"{tmp}/f"))
    assert at(client, 0, 1) == (b"", True)


def test_any_block_of_a_large_file_in_any_order(client, tmp):
    data = noise(3 * MIB + 11)
    opened(client, make(f"{tmp}/f", data))
    offsets = list(range(0, len(data), 99991))[::-1]
    sent = [(o, send(client, "readBlock", handleId="h", offset=o, len=99991)) for o in offsets]
    for offset, ident in sent:
        assert block(client.result(ident)) == (data[offset:offset + 99991], offset + 99991 > len(data))


def test_a_file_is_seen_as_it_is_now(client, tmp):
    opened(client, make(f"{tmp}/f", b"one"))
    assert at(client, 0, 10) == (b"one", True)
    with open(f"{tmp}/f", "ab") as f:
        f.write(b" two")
    assert at(client, 0, 10) == (b"one two", True)
    os.truncate(f"{tmp}/f", 2)
    assert at(client, 0, 10) == (b"on", True)
    os.unlink(f"{tmp}/f")
    assert at(client, 0, 2) == (b"on", False)


def test_files_larger_than_a_message_or_memory(client, tmp):
    sparse(f"{tmp}/f", 2 ** 42)
    with open(f"{tmp}/f", "r+b") as f:
        f.seek(2 ** 41 + 5)
        f.write(b"needle")
    opened(client, f"{tmp}/f")
    assert at(client, 2 ** 41, 16) == (bytes(5) + b"needle" + bytes(5), False)
    assert at(client, 2 ** 42 - 1, MIB) == (b"\0", True)


def test_files_of_proc_in_blocks(client):
    data = content("/proc/version")
    opened(client, "/proc/version")
    assert at(client, 0, 5) == (data[:5], False)
    assert at(client, 5, 4096) == (data[5:], True)


@pytest.mark.parametrize("length", [0, 1048577, 2 ** 40])
def test_lengths_that_are_refused_leave_the_handle(client, tmp, length):
    opened(client, make(f"{tmp}/f", b"x"))
    assert failure(client, "readBlock", handleId="h", offset=0, len=length) == READ_LENGTH
    assert failure(client, "readBlock", handleId="nobody", offset=0, len=length) == READ_LENGTH
    assert at(client, 0, 1) == (b"x", False)


def test_an_offset_that_no_file_has_ends_the_handle(client, tmp):
    """A read error closes the handle; an offset beyond every possible file is such an error."""
    opened(client, make(f"{tmp}/f", b"x"))
    assert failure(client, "readBlock", handleId="h", offset=2 ** 63 - 1, len=4) == EINVAL
    assert failure(client, "readBlock", handleId="h", offset=0, len=1) == unknown("h")


@pytest.mark.parametrize("members", [
    {"offset": -1}, {"offset": 1.5}, {"offset": "0"}, {"offset": None}, {"offset": 2 ** 64}, {"len": -1}, {"len": 1.0},
    {"len": "1"}, {"len": None}, {"handleId": 5}, {"handleId": None}], ids=str)
def test_blocks_that_do_not_decode(client, tmp, members):
    opened(client, make(f"{tmp}/f", b"x"))
    assert failure(client, "readBlock", **{"handleId": "h", "offset": 0, "len": 1, **members})[0] == -32602
    assert at(client, 0, 1) == (b"x", False)


def test_missing_members_are_named(client):
    for method, members in (("open", ("handleId", "path")), ("readBlock", ("handleId", "offset", "len")),
                            ("writeBlock", ("handleId", "offset", "chunk")), ("close", ("handleId",))):
        params = {"handleId": "h", "path": "/x", "offset": 0, "len": 1, "chunk": ""}
        for member in members:
            assert failure(client, method, **{**params, member: ...}) == (-32602, f"missing field `{member}`")


# Handles


def test_ids_of_handles(client, tmp):
    make(f"{tmp}/f", b"x")
    for handle in ("", "h", "x" * 32, "\u00e4" * 16, "with space\n", "'\"\\"):
        opened(client, f"{tmp}/f", handle)
        assert at(client, 0, 1, handle) == (b"x", False)
        assert failure(client, "open", handleId=handle, path=f"{tmp}/f") == (
            -32600, f"file handle `{handle}` already exists")
    for handle in ("x" * 33, "\u00e4" * 17, "y" * 10000):
        assert failure(client, "open", handleId=handle, path=f"{tmp}/f") == LONG_ID
        assert failure(client, "open", handleId=handle, path=f"{tmp}/none") == LONG_ID
        assert failure(client, "readBlock", handleId=handle, offset=0, len=1) == LONG_ID
        assert failure(client, "close", handleId=handle) == LONG_ID


def test_closing_is_always_fine_and_frees_the_id(client, tmp):
    make(f"{tmp}/f", b"x")
    for _ in range(3):
        opened(client, f"{tmp}/f")
        assert fs(client, "close", handleId="h") == {}
        assert fs(client, "close", handleId="h") == {}
    assert fs(client, "close", handleId="never") == {}


def test_a_connection_has_128_handles(server, client, tmp):
    make(f"{tmp}/f", b"x")
    full = (-32600, "at most 128 file handles may be open per connection")
    sent = [send(client, "open", handleId=f"m{n}", path=f"{tmp}/f") for n in range(130)]
    answers = [outcome(client, ident) for ident in sent]
    assert answers == [{"handleId": f"m{n}"} for n in range(128)] + [full] * 2
    with server.connect() as other:
        opened(other, f"{tmp}/f", "m0")
    assert fs(client, "close", handleId="m7") == {}
    opened(client, f"{tmp}/f", "again")
    assert failure(client, "open", handleId="more", path=f"{tmp}/f") == full


def test_a_failed_open_takes_no_handle(client, tmp):
    for _ in range(130):
        assert failure(client, "open", handleId="h", path=f"{tmp}/none") == ENOENT
    opened(client, make(f"{tmp}/f", b"x"))


def test_handles_end_with_their_connection(server, client, tmp):
    make(f"{tmp}/f", b"x")
    opened(client, f"{tmp}/f")
    with server.connect() as other:
        assert failure(other, "readBlock", handleId="h", offset=0, len=1) == unknown("h")
        opened(other, f"{tmp}/f")
        assert fs(other, "close", handleId="h") == {}
    assert at(client, 0, 1) == (b"x", False)


def server_fds(server, path):
    found = 0
    for fd in os.listdir(f"/proc/{server.pid}/fd"):
        try:
            found += os.readlink(f"/proc/{server.pid}/fd/{fd}").split(" (deleted)")[0] == path
        except FileNotFoundError:
            pass
    return found


def test_descriptors_are_closed(server, tmp):
    path = os.path.realpath(make(f"{tmp}/f", b"x"))
    with server.connect() as client:
        for n in range(20):
            opened(client, path, f"h{n}", mode="read" if n % 2 else "replace")
        assert server_fds(server, path) == 20
        for n in range(10):
            fs(client, "close", handleId=f"h{n}")
        wait_until(lambda: server_fds(server, path) == 10, 10, "descriptors of closed handles")
    wait_until(lambda: server_fds(server, path) == 0, 10, "descriptors of a lost connection")


def test_links_are_followed_when_opened(client, tmp):
    make(f"{tmp}/f", b"x")
    os.symlink("f", f"{tmp}/link")
    os.symlink("loop", f"{tmp}/loop")
    opened(client, f"{tmp}/link")
    assert at(client, 0, 2) == (b"x", True)
    assert failure(client, "open", handleId="l", path=f"{tmp}/loop") == ELOOP
    assert failure(client, "open", handleId="l", path=f"{tmp}/f/x") == ENOTDIR


@pytest.mark.parametrize("mode", ["append", "write", "", "Read", None, 1, True], ids=repr)
def test_modes_that_there_are_not(client, tmp, mode):
    make(f"{tmp}/f", b"x")
    assert failure(client, "open", handleId="h", path=f"{tmp}/f", mode=mode)[0] == -32602
    assert content(f"{tmp}/f") == b"x"


# Writing


def test_replace_empties_the_file_at_once(client, tmp):
    make(f"{tmp}/f", b"old content", 0o640)
    assert opened(client, f"{tmp}/f", mode="replace")["handleId"] == "h"
    assert content(f"{tmp}/f") == b""
    put(client, 0, b"abc")
    assert content(f"{tmp}/f") == b"abc", "visible at once"
    put(client, 6, b"XYZ")
    assert read(client, f"{tmp}/f") == b"abc\0\0\0XYZ", "a hole is zeros"
    put(client, 0, b"ABC")
    assert fs(client, "close", handleId="h") == {}
    assert content(f"{tmp}/f") == b"ABC\0\0\0XYZ" and stat.S_IMODE(os.stat(f"{tmp}/f").st_mode) == 0o640
    assert failure(client, "writeBlock", handleId="h", offset=0, chunk="eA==") == unknown("h")


def test_replace_makes_a_new_file(client, tmp):
    mask = os.umask(0)
    os.umask(mask)
    opened(client, f"{tmp}/f", mode="replace")
    assert os.stat(f"{tmp}/f").st_size == 0 and stat.S_IMODE(os.stat(f"{tmp}/f").st_mode) == 0o666 & ~mask
    os.symlink("new", f"{tmp}/dangling")
    opened(client, f"{tmp}/dangling", "d", mode="replace")
    put(client, 0, b"x", "d")
    assert tree(tmp) == {b"f": b"", b"new": b"x", b"dangling": (b"new",)}


def test_blocks_of_the_largest_size(client, tmp):
    data = noise(4 * MIB)
    opened(client, f"{tmp}/f", mode="replace")
    sent = [send(client, "writeBlock", handleId="h", offset=o, chunk=b64(data[o:o + MIB]))
            for o in range(0, 4 * MIB, MIB)]
    assert [client.result(i) for i in sent] == [{}] * 4
    assert content(f"{tmp}/f") == data and leftovers(tmp) == []


@pytest.mark.parametrize("size", [0, MIB + 1])
def test_chunks_that_are_refused_leave_the_handle(client, tmp, size):
    opened(client, f"{tmp}/f", mode="replace")
    assert failure(client, "writeBlock", handleId="h", offset=0, chunk=b64(bytes(size))) == WRITE_LENGTH
    assert failure(client, "writeBlock", handleId="nobody", offset=0, chunk=b64(bytes(size))) == WRITE_LENGTH
    put(client, 0, b"x")
    assert content(f"{tmp}/f") == b"x"


@pytest.mark.parametrize("offset", [2 ** 63 - 1, 2 ** 63, 2 ** 64 - 1])
def test_ranges_that_no_file_has_leave_the_handle(client, tmp, offset):
    opened(client, f"{tmp}/f", mode="replace")
    assert failure(client, "writeBlock", handleId="h", offset=offset, chunk="YWJj") == RANGE
    put(client, 0, b"x")


@pytest.mark.parametrize("members", [{"chunk": "***"}, {"chunk": "YQ"}, {"chunk": None}, {"chunk": 5}, {"offset": -1},
                                     {"offset": "0"}, {"offset": None}, {"offset": 2 ** 64}], ids=str)
def test_writes_that_do_not_decode(client, tmp, members):
    opened(client, f"{tmp}/f", mode="replace")
    params = {"handleId": "h", "offset": 0, "chunk": "eA==", **members}
    assert failure(client, "writeBlock", **params)[0] == -32602
    put(client, 0, b"y")
    assert content(f"{tmp}/f") == b"y"


def test_a_read_handle_is_not_written(client, tmp):
    opened(client, make(f"{tmp}/f", b"old"))
    assert failure(client, "writeBlock", handleId="h", offset=0, chunk="eA==") == EBADF
    assert at(client, 0, 3) == (b"old", False), "the handle is kept"
    assert content(f"{tmp}/f") == b"old"


def test_a_write_handle_is_not_read(client, tmp):
    opened(client, f"{tmp}/f", mode="replace")
    assert failure(client, "readBlock", handleId="h", offset=0, len=4) == EBADF
    assert failure(client, "writeBlock", handleId="h", offset=0, chunk="eA==") == unknown("h"), "a read error ends it"


def test_only_regular_files_are_replaced(client, tmp):
    os.mkfifo(f"{tmp}/fifo")
    assert failure(client, "open", handleId="h", path=tmp, mode="replace") == EISDIR
    assert failure(client, "open", handleId="h", path=f"{tmp}/a/f", mode="replace") == ENOENT
    assert failure(client, "open", handleId="h", path="/dev/null", mode="replace") == (
        -32600, "path `/dev/null` is not a file")
    # A FIFO without a reader may fail in open(2) first: either error is fine, as long as nothing waits.
    assert failure(client, "open", handleId="h", path=f"{tmp}/fifo", mode="replace") in (
        (-32603, "No such device or address (os error 6)"), (-32600, f"path `{tmp}/fifo` is not a file"))
    fd = os.open(f"{tmp}/fifo", os.O_RDONLY | os.O_NONBLOCK)
    assert failure(client, "open", handleId="h", path=f"{tmp}/fifo", mode="replace") == (
        -32600, f"path `{tmp}/fifo` is not a file")
    os.close(fd)


# mode `resume`, and `sync`: only this server has them


def test_a_write_is_resumed_where_it_stopped(server, tmp):
    data = noise(3 * MIB)
    with server.connect() as client:
        assert opened(client, f"{tmp}/f", mode="resume")["size"] == 0, "made if missing"
        put(client, 0, data[:MIB])
    with server.connect() as client:
        assert opened(client, f"{tmp}/f", mode="resume")["size"] == MIB
        assert content(f"{tmp}/f") == data[:MIB], "nothing is cut off"
        for offset in range(MIB, 3 * MIB, MIB):
            put(client, offset, data[offset:offset + MIB])
        assert fs(client, "close", handleId="h", sync=True) == {}
    assert content(f"{tmp}/f") == data


def test_resume_overwrites_only_what_it_writes(client, tmp):
    make(f"{tmp}/f", b"abcdef", 0o640)
    assert opened(client, f"{tmp}/f", mode="resume")["size"] == 6
    put(client, 2, b"XY")
    assert content(f"{tmp}/f") == b"abXYef"
    assert failure(client, "readBlock", handleId="h", offset=0, len=4) == EBADF


def test_resume_opens_what_replace_opens(client, tmp):
    os.mkfifo(f"{tmp}/fifo")
    assert failure(client, "open", handleId="h", path=tmp, mode="resume") == EISDIR
    assert failure(client, "open", handleId="h", path=f"{tmp}/a/f", mode="resume") == ENOENT
    assert failure(client, "open", handleId="h", path="/dev/null", mode="resume")[0] == -32600
    assert failure(client, "open", handleId="h", path=f"{tmp}/fifo", mode="resume")[0] in (-32600, -32603)


@pytest.mark.parametrize("sync", [True, False, None, ...], ids=repr)
def test_close_with_sync(client, tmp, sync):
    for handle, mode in (("w", "replace"), ("r", "read")):
        opened(client, f"{tmp}/f", handle, mode=mode)
        assert fs(client, "close", handleId=handle, sync=sync) == {}
    assert fs(client, "close", handleId="never", sync=sync) == {}


def test_sync_of_the_wrong_type(client, tmp):
    opened(client, make(f"{tmp}/f", b"x"))
    assert failure(client, "close", handleId="h", sync=1)[0] == -32602
