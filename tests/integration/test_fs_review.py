"""File methods where the system fails in ways that are rare: errors that come with close, calls that write nothing."""

import hashlib
import os
import shutil

import pytest

from fs_helpers import ENOSPC, b64, content, failure, fs, make, needs_root, server_under, tree, write

EDQUOT = (-32603, "Quota exceeded (os error 122)")

needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")


def injecting(path, fault):
    """A line for server_under: strace makes calls on `path` fail as `fault` says."""
    call = fault.partition(":")[0]
    # The leak checker does not work in a traced program.
    return 'export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"; ' + (
        f'exec strace -D -f -qq -o /dev/null -P {path} -e trace={call} -e inject={fault} -- "$@"')


# Errors that only close(2) reports (NFS, FUSE)


@needs_root
@needs_strace
def test_an_error_of_the_close_is_an_error_of_the_write(tmp):
    path = make(f"{tmp}/f", b"old")
    os.link(path, f"{tmp}/second")
    with server_under(injecting(path, "close:error=EDQUOT")) as server, server.connect() as client:
        assert failure(client, "writeFile", path=path, dataBase64="bmV3") == EDQUOT
        write(client, f"{tmp}/other", b"x")


@needs_root
@needs_strace
def test_an_error_of_the_close_is_an_error_of_the_copy_and_leaves_none(tmp):
    os.mkdir(f"{tmp}/from")
    make(f"{tmp}/from/f", b"content")
    with server_under(injecting(f"{tmp}/to/f", "close:error=EDQUOT")) as server, server.connect() as client:
        os.mkdir(f"{tmp}/to")
        params = {"sourcePath": f"{tmp}/from", "destinationPath": f"{tmp}/to", "recursive": True}
        assert failure(client, "copy", **params) == EDQUOT
        assert os.listdir(f"{tmp}/to") == []
        fs(client, "copy", sourcePath=f"{tmp}/from", destinationPath=f"{tmp}/more", recursive=True)
        assert content(f"{tmp}/more/f") == b"content"


@needs_root
@needs_strace
def test_an_error_of_the_close_is_an_error_of_the_stream(tmp):
    path = make(f"{tmp}/f")
    with server_under(injecting(path, "close:error=EDQUOT")) as server, server.connect() as client:
        fs(client, "open", handleId="h", path=path, mode="replace")
        fs(client, "writeBlock", handleId="h", offset=0, chunk=b64(b"x"))
        assert failure(client, "close", handleId="h") == EDQUOT
        assert fs(client, "close", handleId="h") == {}  # the handle is closed all the same


@needs_root
@needs_strace
def test_a_file_that_takes_nothing_does_not_keep_a_thread_busy(tmp):
    path = make(f"{tmp}/f")
    with server_under(injecting(path, "pwrite64:retval=0")) as server, server.connect() as client:
        fs(client, "open", handleId="h", path=path, mode="resume")
        assert failure(client, "writeBlock", handleId="h", offset=0, chunk=b64(b"x")) == ENOSPC


# Conditions


@pytest.mark.parametrize("match", [
    {"absent": True, "digest": "sha256:" + "0" * 64}, {"absent": True, "size": 1, "modifiedAtMs": 0},
    {"digest": "sha256:" + hashlib.sha256(b"old").hexdigest(), "size": 99, "modifiedAtMs": 0},
], ids=str)
def test_of_two_conditions_none_is_left_out(client, tmp, match):
    make(f"{tmp}/f", b"old")
    for name in ("f", "new"):
        assert failure(client, "writeFile", path=f"{tmp}/{name}", dataBase64="bmV3", ifMatch=match) == (
            -32602, "ifMatch: expected one condition")
    assert tree(tmp) == {b"f": b"old"}
