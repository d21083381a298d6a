"""fs/readFile, fs/getMetadata, fs/canonicalize, fs/readDirectory: what they tell and what they refuse."""

import os
import socket
import stat
import subprocess
import time

import pytest

from fs_helpers import (ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, HAS_LINK, KIB, MIB, content, failure, fs, make, noise,
                        read, sparse, uri)

SPECIAL = ["directory", "fifo", "device", "socket"]


def make_special(tmp, kind):
    path = f"{tmp}/{kind}"
    if kind == "directory":
        os.mkdir(path)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(path)
    else:
        path = "/dev/null"
    return path


@pytest.fixture
def links(tmp):
    """A file and a directory, each with a link to it, and links to nowhere."""
    make(f"{tmp}/file", b"content")
    os.mkdir(f"{tmp}/dir")
    make(f"{tmp}/dir/inner", b"inner")
    for name, target in (("link", "file"), ("dirlink", "dir"), ("broken", "none"), ("loop", "loop"), ("far", "link")):
        os.symlink(target, f"{tmp}/{name}")
    return tmp


# fs/readFile


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 4095, 65536, 65537, 196607, 196608, 1048576, 3 * MIB + 1])
def test_a_file_is_read_byte_for_byte(client, tmp, size):
    data = noise(size)
    assert read(client, make(f"{tmp}/f", data)) == data


def test_the_answer_has_the_content_and_nothing_else(client, tmp):
    assert fs(client, "readFile", path=make(f"{tmp}/f", b"hi\n"), sandbox=None) == {"dataBase64": "aGkK"}


def test_a_sparse_file_is_zeros(client, tmp):
    sparse(f"{tmp}/f", 5 * MIB)
    with open(f"{tmp}/f", "r+b") as f:
        f.seek(3 * MIB)
        f.write(b"x")
    assert read(client, f"{tmp}/f") == content(f"{tmp}/f")


@pytest.mark.parametrize("path", ["/proc/version", "/proc/cpuinfo", "/sys/kernel/mm/transparent_hugepage/enabled"])
def test_files_whose_size_is_not_known_beforehand(client, path):
    if not os.path.exists(path):
        pytest.skip(f"no {path} here")
    data = read(client, path)
    assert data and data.split(b"\n")[0] == content(path).split(b"\n")[0]
    if path != "/proc/cpuinfo":
        assert data == content(path)


@pytest.mark.parametrize("kind", SPECIAL)
def test_only_regular_files_are_read(client, tmp, kind):
    path = make_special(tmp, kind)
    expected = (-32603, "No such device or address (os error 6)") if kind == "socket" else (
        -32600, f"path `{path}` is not a file")
    assert failure(client, "readFile", path=path) == expected
    assert failure(client, "open", handleId="h", path=path) == expected
    if kind != "socket":
        expected = (-32600, "path is not a regular file")
    assert failure(client, "readFile", path=path, followSymlinks=False) == expected


def test_what_cannot_be_reached(client, links):
    assert failure(client, "readFile", path=f"{links}/none") == ENOENT
    assert failure(client, "readFile", path=f"{links}/none/x") == ENOENT
    assert failure(client, "readFile", path=f"{links}/broken") == ENOENT
    assert failure(client, "readFile", path=f"{links}/file/x") == ENOTDIR
    assert failure(client, "readFile", path=f"{links}/loop") == ELOOP
    assert failure(client, "readFile", path=f"{links}/" + "n" * 256) == ENAMETOOLONG
    assert failure(client, "readFile", path=f"{links}/" + "n/" * 2100) == ENAMETOOLONG


def test_system_errors_carry_their_number(client, tmp):
    err = client.error("fs/readFile", {"path": uri(f"{tmp}/none")})
    assert (err.data["errno"], err.data["errnoName"]) == (2, "ENOENT")


def test_links_are_followed(client, links):
    assert read(client, f"{links}/link") == read(client, f"{links}/far") == b"content"
    assert read(client, f"{links}/dirlink/inner") == b"inner"
    assert read(client, f"{links}/link", followSymlinks=True) == b"content"


def test_no_link_anywhere_without_following(client, links):
    assert read(client, f"{links}/file", followSymlinks=False) == b"content"
    assert read(client, f"{links}/dir/inner", followSymlinks=False) == b"inner"
    assert failure(client, "readFile", path=f"{links}/link", followSymlinks=False) == ELOOP
    assert failure(client, "readFile", path=f"{links}/broken", followSymlinks=False) == ELOOP
    assert failure(client, "readFile", path=f"{links}/dirlink/inner", followSymlinks=False) == ENOTDIR
    assert failure(client, "readFile", path=f"{links}/none", followSymlinks=False) == ENOENT
    assert failure(client, "readFile", path=f"{links}/none/x", followSymlinks=False) == ENOENT


def test_a_file_over_512_mib_is_refused(client, tmp):
    path = sparse(f"{tmp}/f", 512 * MIB + 1)
    refusal = (-32600, "file is too large to read: limit is 536870912 bytes")
    assert failure(client, "readFile", path=path) == refusal
    assert failure(client, "readFile", path=path, followSymlinks=False) == refusal


def test_an_answer_over_64_mib_needs_a_client_that_reads_it(client, tmp):
    """48 MiB are 64 MiB in base64, and with the JSON around them more than one message may have."""
    for size in (48 * MIB, 512 * MIB):
        code, message = failure(client, "readFile", path=sparse(f"{tmp}/f", size))
        assert code == -32603 and "fs/open" in message
    # The largest that fits does arrive, in frames of at most 1 MiB.
    data = read(client, sparse(f"{tmp}/f", 48 * MIB - 3 * KIB), timeout=30)
    assert len(data) == 48 * MIB - 3 * KIB and not any(data)
    assert max(client.frame_sizes) <= MIB


@pytest.mark.parametrize("params, message", [
    ({}, "missing field `path`"),
    ({"path": 5}, None), ({"path": None}, None), ({"path": ["/x"]}, None), ({"path": {}}, None),
    ({"path": "file:///x", "followSymlinks": "no"}, None), ({"path": "file:///x", "followSymlinks": 1}, None),
    ({"path": "file:///x", "sandbox": True}, None), ({"path": "file:///x", "sandbox": {}}, None),
], ids=str)
@pytest.mark.parametrize("method", ["fs/readFile", "fs/getMetadata"])
def test_params_that_do_not_decode(client, method, params, message):
    err = client.error(method, params)
    assert err.code == -32602 and message in (None, err.message)


@pytest.mark.parametrize("method", ["canonicalize", "readDirectory", "readFile", "getMetadata", "walk", "remove",
                                    "createDirectory", "writeFile"])
def test_a_missing_path_is_named_first(client, method):
    assert failure(client, method) == (-32602, "missing field `path`")


def test_null_is_the_default_of_an_option(client, links):
    assert read(client, f"{links}/link", followSymlinks=None, sandbox=None) == b"content"


def test_unknown_members_are_ignored(client, tmp):
    path = make(f"{tmp}/f", b"x")
    assert read(client, path, unknown={"a": [1]}, recursive=7) == b"x"


def test_nothing_before_initialize(server, tmp):
    with server.connect(init=False) as client:
        for method in ("readFile", "getMetadata", "canonicalize", "readDirectory"):
            assert failure(client, method, path=tmp)[0] == -32600
            assert failure(client, method)[0] == -32602, "params are decoded first"


# fs/getMetadata

PLAIN_MEMBERS = ("isDirectory", "isFile", "isSymlink", "size", "createdAtMs", "modifiedAtMs")


def metadata(client, path, **more):
    result = fs(client, "getMetadata", path=path, **more)
    return {name: result[name] for name in PLAIN_MEMBERS}


def born_ms(path):
    """The birth time of a file, from stat(1), because Python's stat has none; 0 where the file system does not tell it."""
    seconds, rest = subprocess.run(["stat", "-L", "--printf=%.9W", path], capture_output=True, text=True,
                                   check=True).stdout.replace(",", ".").split(".")
    return int(seconds) * 1000 + int(rest) // 1000000


def expected(path, is_symlink=False):
    st = os.stat(path)
    return {"isDirectory": stat.S_ISDIR(st.st_mode), "isFile": stat.S_ISREG(st.st_mode), "isSymlink": is_symlink,
            "size": st.st_size, "createdAtMs": born_ms(path), "modifiedAtMs": st.st_mtime_ns // 1000000}


@pytest.mark.parametrize("name, is_symlink", [("file", False), ("dir", False), ("link", True), ("dirlink", True),
                                              ("far", True), ("dir/inner", False), ("dirlink/inner", False)])
def test_metadata_is_of_the_target_but_for_the_link_itself(client, links, name, is_symlink):
    assert metadata(client, f"{links}/{name}") == expected(f"{links}/{name}", is_symlink)


@pytest.mark.parametrize("kind", SPECIAL)
def test_metadata_of_special_files(client, tmp, kind):
    path = make_special(tmp, kind)
    result = metadata(client, path)
    assert (result["isDirectory"], result["isFile"]) == (kind == "directory", False)
    assert result == expected(path)
    assert metadata(client, path, followSymlinks=False)["isSymlink"] is False


@pytest.mark.parametrize("seconds", [0, 1, 1.5, 2 ** 31, 2 ** 33, -1, -1.5])
def test_times_are_in_milliseconds(client, tmp, seconds):
    path = make(f"{tmp}/f")
    os.utime(path, ns=(0, int(seconds * 10 ** 9)))
    if os.stat(path).st_mtime_ns != int(seconds * 10 ** 9):
        pytest.skip("this file system cannot hold the time")
    wanted = int(seconds * 1000)
    # Where links are followed, times before 1970 may be answered as 0, as the reference does.
    assert metadata(client, path)["modifiedAtMs"] in (wanted, max(0, wanted))
    assert metadata(client, path, followSymlinks=False)["modifiedAtMs"] == wanted


@pytest.mark.parametrize("follow", [True, False])
def test_the_time_of_birth_is_known(client, links, follow):
    os.utime(f"{links}/file", (2 ** 32, 2 ** 32))
    result = metadata(client, f"{links}/file", followSymlinks=follow)
    assert result == expected(f"{links}/file")
    if born_ms(f"{links}/file") == 0:
        pytest.skip("this file system does not tell it")
    assert abs(result["createdAtMs"] / 1000 - time.time()) < 600, "made by this test"


def test_metadata_that_cannot_be_had(client, links):
    for name in ("none", "broken", "none/x"):
        assert failure(client, "getMetadata", path=f"{links}/{name}") == ENOENT
    assert failure(client, "getMetadata", path=f"{links}/file/x") == ENOTDIR
    assert failure(client, "getMetadata", path=f"{links}/loop") == ELOOP


def test_metadata_without_following_links(client, links):
    for name in ("link", "dirlink", "broken", "loop"):
        assert failure(client, "getMetadata", path=f"{links}/{name}", followSymlinks=False) == HAS_LINK
    assert failure(client, "getMetadata", path=f"{links}/dirlink/inner", followSymlinks=False) == ENOTDIR
    assert failure(client, "getMetadata", path=f"{links}/none", followSymlinks=False) == ENOENT


def test_the_root_is_a_directory(client):
    for more in ({}, {"followSymlinks": False}):
        assert metadata(client, "/", **more)["isDirectory"] is True
    assert fs(client, "canonicalize", path="/") == {"path": "file:///"}


# fs/canonicalize


@pytest.mark.parametrize("name, real", [("file", "file"), ("link", "file"), ("far", "file"), ("dirlink", "dir"),
                                        ("dirlink/inner", "dir/inner"), ("", "")])
def test_the_real_path(client, links, name, real):
    wanted = os.path.realpath(links) + ("/" + real if real else "")
    assert fs(client, "canonicalize", path=f"{links}/{name}") == {"path": uri(wanted)}


def test_dots_are_taken_out_before_links_are_followed(client, links):
    """A URI is normalised lexically: `dirlink/..` is where dirlink stands."""
    client_path = uri(links) + "/dirlink/../file"
    assert client.call("fs/canonicalize", {"path": client_path}) == {"path": uri(f"{links}/file")}


def test_real_paths_that_there_are_not(client, links):
    assert failure(client, "canonicalize", path=f"{links}/none") == ENOENT
    assert failure(client, "canonicalize", path=f"{links}/broken") == ENOENT
    assert failure(client, "canonicalize", path=f"{links}/loop") == ELOOP
    assert failure(client, "canonicalize", path=f"{links}/file/x") == ENOTDIR


@pytest.mark.parametrize("name, spelled", [
    (b"sp ace", "sp%20ace"), (b"100%", "100%25"), ("\u00e4".encode(), "%C3%A4"), (b"q?#", "q%3F%23"),
    (b"bad\xff\xfe", "bad%FF%FE"), (b"new\nline", "new%0Aline"), (b"\x01\x7f", "%01%7F"), (b"back\\slash", None),
    (b"a:b", None), (b"-._~", "-._~"), (b"quote\"'`", None), (b"{[<>]}|^", None), (b"!$&()*+,;=@", None),
], ids=repr)
def test_paths_in_answers_are_uris(client, tmp, name, spelled):
    """Whatever the name is: the URI of an answer, given back, names the same file."""
    path = os.fsencode(os.path.realpath(tmp)) + b"/" + name
    make(path, name)
    answer = fs(client, "canonicalize", path=path)["path"]
    if spelled is not None:
        assert answer == uri(os.path.realpath(tmp)) + "/" + spelled
    assert answer.isascii()
    assert client.call("fs/canonicalize", {"path": answer}) == {"path": answer}
    assert client.call("fs/getMetadata", {"path": answer})["size"] == len(name)


# fs/readDirectory


def entries(client, path):
    return [(e["fileName"], e["isDirectory"], e["isFile"]) for e in fs(client, "readDirectory", 60, path=path)["entries"]]


def test_entries_are_sorted_by_bytes_and_links_are_their_targets(client, links):
    os.mkfifo(f"{links}/fifo")
    make(f"{links}/.hidden")
    make(f"{links}/Zed")
    make(f"{links}/\u00e4")
    make(f"{links}/a b")
    assert entries(client, links) == [
        (".hidden", False, True), ("Zed", False, True), ("a b", False, True), ("dir", True, False),
        ("dirlink", True, False), ("far", False, True), ("fifo", False, False), ("file", False, True),
        ("link", False, True), ("\u00e4", False, True)]


def test_the_members_of_an_entry(client, links):
    result = fs(client, "readDirectory", path=f"{links}/dir")
    assert result == {"entries": [{"fileName": "inner", "isDirectory": False, "isFile": True}]}


def test_directories_that_are_empty_or_linked(client, links):
    os.mkdir(f"{links}/empty")
    assert fs(client, "readDirectory", path=f"{links}/empty") == {"entries": []}
    assert entries(client, f"{links}/dirlink") == [("inner", False, True)]


def test_what_is_no_directory(client, links):
    assert failure(client, "readDirectory", path=f"{links}/file") == ENOTDIR
    assert failure(client, "readDirectory", path=f"{links}/none") == ENOENT
    assert failure(client, "readDirectory", path=f"{links}/broken") == ENOENT
    assert failure(client, "readDirectory", path=f"{links}/loop") == ELOOP
    assert failure(client, "readDirectory", path="/dev/null") == ENOTDIR
    os.mkfifo(f"{links}/fifo")
    assert failure(client, "readDirectory", path=f"{links}/fifo") == ENOTDIR


def test_a_directory_of_50000_entries_is_the_largest(client, tmp):
    make(f"{tmp}/0")
    for n in range(1, 50000):
        os.link(f"{tmp}/0", f"{tmp}/{n}") if n % 30000 else make(f"{tmp}/{n}")
    names = [name for name, _, is_file in entries(client, tmp) if is_file]
    assert names == sorted((str(n) for n in range(50000)), key=str.encode)
    make(f"{tmp}/x")
    assert failure(client, "readDirectory", path=tmp) == (
        -32603, "fs/readDirectory returned 50001 entries; limit is 50000")
    for n in range(100):
        make(f"{tmp}/y{n}")
    assert failure(client, "readDirectory", path=tmp)[1] == "fs/readDirectory returned 50101 entries; limit is 50000"
