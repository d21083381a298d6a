"""fs/writeFile: what it makes of a file, whole or not at all; conditions, parents and modes."""

import hashlib
import os
import stat
import struct
import threading

import pytest

from farhand_client import RpcError
from fs_helpers import (EIO, EISDIR, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, MIB, b64, content, failure, in_own_mounts,
                        leftovers, make, needs_root, noise, outcome, params_of, read, send, server_under, tree, write)

BOTH = pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "in place"])
ENXIO = (-32603, "No such device or address (os error 6)")
ETXTBSY = (-32603, "Text file busy (os error 26)")


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def refusal(client, path, data=b"x", **more):
    return failure(client, "writeFile", path=path, dataBase64=b64(data), **more)


# The members that all clients use


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4095, 65536, 196609, 1048576, 5 * MIB + 1])
def test_a_file_is_written_byte_for_byte(client, tmp, size):
    data = noise(size)
    write(client, f"{tmp}/f", data)
    assert content(f"{tmp}/f") == data and leftovers(tmp) == []


@pytest.mark.parametrize("old", [b"", b"o", b"old content that is longer"])
def test_the_old_content_is_replaced_wholly(client, tmp, old):
    make(f"{tmp}/f", old)
    write(client, f"{tmp}/f", b"new")
    assert content(f"{tmp}/f") == b"new" and os.listdir(tmp) == ["f"]


def test_a_new_file_has_the_usual_mode(client, tmp):
    write(client, f"{tmp}/f", b"x")
    assert mode_of(f"{tmp}/f") == 0o666 & ~umask()


def test_links_are_followed_and_stay(client, tmp):
    make(f"{tmp}/file", b"old")
    os.symlink("file", f"{tmp}/link")
    os.symlink("new", f"{tmp}/dangling")
    write(client, f"{tmp}/link", b"through")
    write(client, f"{tmp}/dangling", b"made")
    assert tree(tmp) == {b"file": b"through", b"link": (b"file",), b"new": b"made", b"dangling": (b"new",)}


def test_what_cannot_be_written(client, tmp):
    make(f"{tmp}/file", b"old")
    os.symlink("loop", f"{tmp}/loop")
    assert refusal(client, tmp) == EISDIR
    assert refusal(client, "/") == EISDIR
    assert refusal(client, f"{tmp}/none/f") == ENOENT
    assert refusal(client, f"{tmp}/file/f") == ENOTDIR
    assert refusal(client, f"{tmp}/loop") == ELOOP
    assert refusal(client, f"{tmp}/" + "n" * 256) == ENAMETOOLONG
    assert tree(tmp) == {b"file": b"old", b"loop": (b"loop",)}


def test_the_longest_names_can_be_written(client, tmp):
    """A temporary name beside the target must not be longer than what is allowed."""
    write(client, f"{tmp}/" + "n" * 255, b"long")
    write(client, f"{tmp}/" + "n" * 255, b"again")
    deep = tmp + ("/" + "d" * 200) * ((4095 - len(tmp) - 2) // 201)
    os.makedirs(deep)
    deep += "/" + "f" * (4095 - len(deep) - 1)
    write(client, deep, b"deep")
    write(client, deep, b"deeper")
    assert content(f"{tmp}/" + "n" * 255) == b"again" and content(deep) == b"deeper" and leftovers(tmp) == []


def test_no_link_anywhere_without_following(client, tmp):
    make(f"{tmp}/file", b"old")
    os.mkdir(f"{tmp}/dir")
    for name, target in (("link", "file"), ("dangling", "none"), ("dirlink", "dir")):
        os.symlink(target, f"{tmp}/{name}")
    before = tree(tmp)
    for name, answer in (("link", ELOOP), ("dangling", ELOOP), ("dirlink/f", ENOTDIR), ("dirlink", ELOOP)):
        assert refusal(client, f"{tmp}/{name}", followSymlinks=False) == answer
    assert tree(tmp) == before
    write(client, f"{tmp}/file", b"new", followSymlinks=False)
    write(client, f"{tmp}/dir/f", b"made", followSymlinks=False)
    assert content(f"{tmp}/file") == b"new" and content(f"{tmp}/dir/f") == b"made"


@pytest.mark.parametrize("data", ["***", "YQ", "YQ=", "YQ==YQ==", "Y Q==", "YQ==\n", "YR==", "=", "Y", "_-__",
                                  "\u00e4"])
def test_bad_base64_is_refused_and_nothing_is_touched(client, tmp, data):
    make(f"{tmp}/f", b"old")
    for name in ("f", "new"):
        code, message = failure(client, "writeFile", path=f"{tmp}/{name}", dataBase64=data)
        assert code == -32600 and message.startswith("fs/writeFile requires valid base64 dataBase64: ")
    assert tree(tmp) == {b"f": b"old"}


@pytest.mark.parametrize("params", [
    {"path": "file:///f", "dataBase64": None}, {"path": "file:///f", "dataBase64": 5}, {"path": 1, "dataBase64": ""},
    {"path": "file:///f", "dataBase64": "", "followSymlinks": 0},
], ids=str)
def test_params_that_do_not_decode(client, params):
    assert client.error("fs/writeFile", params).code == -32602


def test_missing_members_are_named(client, tmp):
    assert failure(client, "writeFile") == (-32602, "missing field `path`")
    assert failure(client, "writeFile", dataBase64="") == (-32602, "missing field `path`")
    assert failure(client, "writeFile", path=f"{tmp}/f") == (-32602, "missing field `dataBase64`")
    assert os.listdir(tmp) == []


@needs_root
def test_a_file_that_takes_no_bytes(client):
    assert refusal(client, "/proc/version") == EIO


def test_a_running_program_is_not_overwritten(client, tmp):
    make(f"{tmp}/prog", content("/bin/sleep"), 0o755)
    client.start("p", [f"{tmp}/prog", "60"])
    assert refusal(client, f"{tmp}/prog") == ETXTBSY
    client.call("process/terminate", {"processId": "p"})
    client.wait_closed("p")
    write(client, f"{tmp}/prog", b"x")
    assert content(f"{tmp}/prog") == b"x"


# Special files: the request never waits


def test_a_fifo_without_a_reader_is_refused_at_once(client, tmp):
    os.mkfifo(f"{tmp}/fifo")
    assert refusal(client, f"{tmp}/fifo") == ENXIO
    assert stat.S_ISFIFO(os.stat(f"{tmp}/fifo").st_mode)


def test_a_fifo_with_a_reader_gets_the_bytes(client, tmp):
    os.mkfifo(f"{tmp}/fifo")
    fd = os.open(f"{tmp}/fifo", os.O_RDONLY | os.O_NONBLOCK)
    try:
        write(client, f"{tmp}/fifo", b"through the pipe")
        assert os.read(fd, 100) == b"through the pipe"
        assert stat.S_ISFIFO(os.stat(f"{tmp}/fifo").st_mode)
        # More than the pipe holds, and no reader: an error, not a wait.
        code, _ = refusal(client, f"{tmp}/fifo", bytes(2 * MIB))
        assert code == -32603
    finally:
        os.close(fd)


def test_devices_stay_devices(client, tmp):
    write(client, "/dev/null", b"gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert refusal(client, "/dev/full") == (-32603, "No space left on device (os error 28)")
    os.symlink("/dev/null", f"{tmp}/null")
    write(client, f"{tmp}/null", b"gone")
    assert os.readlink(f"{tmp}/null") == "/dev/null"


# Whole or not at all


def test_a_reader_of_the_old_file_keeps_it(client, tmp):
    make(f"{tmp}/f", b"old content")
    with open(f"{tmp}/f", "rb") as f:
        write(client, f"{tmp}/f", b"new")
        assert f.read() == b"old content"
    assert content(f"{tmp}/f") == b"new"


def test_in_place_when_asked(client, tmp):
    make(f"{tmp}/f", b"old content")
    before = os.stat(f"{tmp}/f").st_ino
    with open(f"{tmp}/f", "rb") as f:
        write(client, f"{tmp}/f", b"new", atomic=False)
        assert f.read() == b"new"
    assert os.stat(f"{tmp}/f").st_ino == before
    write(client, f"{tmp}/other", b"made", atomic=False)
    assert tree(tmp) == {b"f": b"new", b"other": b"made"}


def test_the_result_tells_size_and_time(client, tmp):
    for data in (b"hello", b"", noise(MIB)):
        for atomic in (True, False):
            result = write(client, f"{tmp}/f", data, atomic=atomic)
            st = os.stat(f"{tmp}/f")
            assert (result["size"], result["modifiedAtMs"]) == (len(data), st.st_mtime_ns // 1000000)


@BOTH
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o400, 0o000, 0o4755, 0o666])
def test_mode_and_owner_are_kept(client, tmp, mode, atomic):
    if os.getuid() != 0 and not mode & 0o200:
        pytest.skip("only root may write such a file")
    make(f"{tmp}/f", b"old")
    if os.getuid() == 0:
        os.chown(f"{tmp}/f", 12345, 23456)
    os.chmod(f"{tmp}/f", mode)
    owner = os.stat(f"{tmp}/f")
    write(client, f"{tmp}/f", b"new", atomic=atomic)
    now = os.stat(f"{tmp}/f")
    assert content(f"{tmp}/f") == b"new"
    assert (now.st_uid, now.st_gid) == (owner.st_uid, owner.st_gid)
    # The kernel may clear set-user-id when a file is written; it never sets it.
    assert stat.S_IMODE(now.st_mode) in (mode, mode & 0o777)


def acl(*users):
    """An access ACL (acl(5)): rw for the owner and for `users`, r for the rest."""
    entries = [(0x01, 6, -1)] + [(0x02, 6, uid) for uid in users] + [(0x04, 4, -1), (0x10, 6, -1), (0x20, 4, -1)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *e) for e in entries)


@BOTH
@pytest.mark.parametrize("name, value", [
    ("user.farhand.test", b"value \x00\xff"), ("user.empty", b""), ("user.big", b"x" * 3000),
    ("system.posix_acl_access", acl(1234)), ("trusted.farhand", b"t"),
    ("security.capability", struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)),
], ids=lambda v: v if isinstance(v, str) else "")
def test_extended_attributes_are_kept(client, tmp, name, value, atomic):
    make(f"{tmp}/f", b"old")
    try:
        os.setxattr(f"{tmp}/f", name, value)
    except OSError as err:
        pytest.skip(f"{name} cannot be set here: {err}")
    write(client, f"{tmp}/f", b"new", atomic=atomic)
    assert content(f"{tmp}/f") == b"new"
    if name != "security.capability":
        assert os.getxattr(f"{tmp}/f", name) == value
    # A write in place drops capabilities, as the kernel does for everybody.
    elif name in os.listxattr(f"{tmp}/f"):
        assert os.getxattr(f"{tmp}/f", name) == value
    assert mode_of(f"{tmp}/f") == (0o664 if "acl" in name else 0o666 & ~umask())


def test_several_names_stay_names_of_one_file(client, tmp):
    make(f"{tmp}/a", b"old")
    os.link(f"{tmp}/a", f"{tmp}/b")
    write(client, f"{tmp}/a", b"new")
    assert content(f"{tmp}/b") == b"new" and os.stat(f"{tmp}/a").st_ino == os.stat(f"{tmp}/b").st_ino


def test_a_file_behind_a_link_stays_the_same_file(client, tmp):
    os.mkdir(f"{tmp}/dir")
    make(f"{tmp}/dir/f", b"old")
    os.symlink("dir/f", f"{tmp}/link")
    before = os.stat(f"{tmp}/dir/f").st_ino
    write(client, f"{tmp}/link", b"new")
    assert os.stat(f"{tmp}/dir/f").st_ino == before and content(f"{tmp}/dir/f") == b"new"
    assert os.readlink(f"{tmp}/link") == "dir/f"


@needs_root
def test_a_file_with_a_mount_of_its_own_is_written_through(tmp):
    make(f"{tmp}/f", b"old")
    make(f"{tmp}/behind", b"old behind")
    with server_under(in_own_mounts(f"mount --bind {tmp}/behind {tmp}/f")) as server, server.connect() as client:
        write(client, f"{tmp}/f", b"new behind")
        assert read(client, f"{tmp}/f") == b"new behind"
    assert tree(tmp) == {b"f": b"old", b"behind": b"new behind"}


@needs_root
def test_nothing_can_be_made_beside_it(tmp):
    """A read-only directory with one writable file in it."""
    os.mkdir(f"{tmp}/ro")
    make(f"{tmp}/ro/f")
    make(f"{tmp}/behind", b"old")
    mounts = f"mount --bind {tmp}/ro {tmp}/ro; mount -o remount,bind,ro {tmp}/ro; mount --bind {tmp}/behind {tmp}/ro/f"
    with server_under(in_own_mounts(mounts)) as server, server.connect() as client:
        write(client, f"{tmp}/ro/f", b"new")
    assert content(f"{tmp}/behind") == b"new"


@pytest.mark.parametrize("bad", [5, "yes", None], ids=repr)
@pytest.mark.parametrize("member", ["atomic", "createParents"])
def test_options_of_the_wrong_type_are_named(client, tmp, member, bad):
    answer = outcome(client, send(client, "writeFile", path=f"{tmp}/f", dataBase64="", **{member: bad}))
    if bad is not None:
        assert answer[0] == -32602 and member in answer[1] and os.listdir(tmp) == []


# createParents and mode


def test_parents_are_made_when_asked(client, tmp):
    assert refusal(client, f"{tmp}/a/b/f") == ENOENT
    write(client, f"{tmp}/a/b/f", b"deep", createParents=True)
    write(client, f"{tmp}/a/b/g", b"beside", createParents=True)
    write(client, f"{tmp}/h", b"top", createParents=True)
    assert tree(tmp) == {b"a": None, b"a/b": None, b"a/b/f": b"deep", b"a/b/g": b"beside", b"h": b"top"}
    assert mode_of(f"{tmp}/a") == mode_of(f"{tmp}/a/b") == 0o777 & ~umask()


def test_parents_that_cannot_be_made(client, tmp):
    make(f"{tmp}/file")
    os.mkdir(f"{tmp}/dir")
    os.symlink("dir", f"{tmp}/dirlink")
    assert refusal(client, f"{tmp}/file/a/f", createParents=True) == ENOTDIR
    assert refusal(client, f"{tmp}/dirlink/a/f", createParents=True, followSymlinks=False) == ENOTDIR
    assert os.listdir(f"{tmp}/dir") == []
    write(client, f"{tmp}/dirlink/a/f", b"x", createParents=True)
    assert content(f"{tmp}/dir/a/f") == b"x"


@BOTH
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o400, 0o777, 0])
def test_a_new_file_gets_the_mode_asked_for(client, tmp, mode, atomic):
    write(client, f"{tmp}/f", b"x", mode=mode, atomic=atomic)
    assert mode_of(f"{tmp}/f") == mode
    os.chmod(f"{tmp}/f", 0o600)
    assert content(f"{tmp}/f") == b"x"


def test_an_existing_file_keeps_its_mode(client, tmp):
    make(f"{tmp}/f", b"old", 0o640)
    write(client, f"{tmp}/f", b"new", mode=0o777)
    assert mode_of(f"{tmp}/f") == 0o640 and content(f"{tmp}/f") == b"new"


@pytest.mark.parametrize("mode", [-1, 0o10000, "644", 1.5, True, 2 ** 40], ids=repr)
def test_modes_that_are_none(client, tmp, mode):
    assert refusal(client, f"{tmp}/f", mode=mode)[0] == -32602
    assert os.listdir(tmp) == []


# ifMatch


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def conflict(client, path, data=b"new", **more):
    """The metadata that a refused write reports."""
    err = client.error("fs/writeFile", params_of({"path": path, "dataBase64": b64(data), **more}))
    assert err.code == -32020, err
    return err.data.get("current")


@BOTH
def test_only_if_absent(client, tmp, atomic):
    write(client, f"{tmp}/f", b"first", ifMatch={"absent": True}, atomic=atomic)
    current = conflict(client, f"{tmp}/f", ifMatch={"absent": True}, atomic=atomic)
    assert content(f"{tmp}/f") == b"first"
    st = os.stat(f"{tmp}/f")
    assert (current["isFile"], current["size"], current["modifiedAtMs"]) == (True, 5, st.st_mtime_ns // 1000000)
    os.mkdir(f"{tmp}/dir")
    assert conflict(client, f"{tmp}/dir", ifMatch={"absent": True}, atomic=atomic)["isDirectory"] is True
    os.symlink("none", f"{tmp}/dangling")
    outcome(client, send(client, "writeFile", path=f"{tmp}/dangling", dataBase64="eA==", ifMatch={"absent": True}))
    assert os.readlink(f"{tmp}/dangling") == "none"
    assert leftovers(tmp) == []


@BOTH
@pytest.mark.parametrize("old", [b"", b"old", noise(3 * MIB)], ids=len)
def test_only_if_the_content_is_known(client, tmp, atomic, old):
    make(f"{tmp}/f", old)
    assert conflict(client, f"{tmp}/f", ifMatch={"digest": digest(old + b"x")}, atomic=atomic)["size"] == len(old)
    assert content(f"{tmp}/f") == old
    write(client, f"{tmp}/f", b"new", ifMatch={"digest": digest(old)}, atomic=atomic)
    assert content(f"{tmp}/f") == b"new"


@BOTH
def test_only_if_size_and_time_are_known(client, tmp, atomic):
    make(f"{tmp}/f", b"old")
    at = os.stat(f"{tmp}/f").st_mtime_ns // 1000000
    for size, time in ((4, at), (3, at + 1), (3, at - 1), (3, 0)):
        assert conflict(client, f"{tmp}/f", ifMatch={"size": size, "modifiedAtMs": time}, atomic=atomic)["size"] == 3
    assert content(f"{tmp}/f") == b"old"
    result = write(client, f"{tmp}/f", b"newer", ifMatch={"size": 3, "modifiedAtMs": at}, atomic=atomic)
    # The answer to a write can be used as the condition of the next.
    write(client, f"{tmp}/f", b"newest",
          ifMatch={"size": result["size"], "modifiedAtMs": result["modifiedAtMs"]}, atomic=atomic)
    assert content(f"{tmp}/f") == b"newest"


@pytest.mark.parametrize("match", [{"digest": digest(b"")}, {"size": 0, "modifiedAtMs": 0}], ids=str)
def test_a_missing_file_matches_nothing_but_absent(client, tmp, match):
    assert conflict(client, f"{tmp}/f", ifMatch=match) is None
    assert conflict(client, f"{tmp}/a/b/f", ifMatch=match, createParents=True) is None
    assert os.listdir(tmp) == [], "nothing is written, no parent made"


def test_a_condition_does_not_hide_other_errors(client, tmp):
    make(f"{tmp}/file")
    assert refusal(client, f"{tmp}/file/f", ifMatch={"absent": True}) == ENOTDIR
    assert refusal(client, f"{tmp}/none/f", ifMatch={"absent": True}) == ENOENT
    write(client, f"{tmp}/a/f", b"x", ifMatch={"absent": True}, createParents=True)
    assert content(f"{tmp}/a/f") == b"x"


@pytest.mark.parametrize("match", [
    {}, "x", 5, [], {"absent": False}, {"absent": 1}, {"digest": 5}, {"digest": "md5:00"}, {"digest": "sha256:zz"},
    {"digest": "sha256:" + "0" * 63}, {"digest": "sha256:" + "0" * 65}, {"digest": "0" * 64}, {"size": 1},
    {"modifiedAtMs": 1}, {"size": "1", "modifiedAtMs": 0}, {"size": -1, "modifiedAtMs": 0}, {"unknown": True},
], ids=str)
def test_conditions_that_are_none(client, tmp, match):
    """A condition that is not understood is never taken for fulfilled."""
    make(f"{tmp}/f", b"old")
    assert refusal(client, f"{tmp}/f", ifMatch=match)[0] == -32602
    assert refusal(client, f"{tmp}/new", ifMatch=match)[0] == -32602
    assert tree(tmp) == {b"f": b"old"}


def test_of_many_that_create_one_wins(server, tmp):
    clients = [server.connect() for _ in range(4)]
    for round_ in range(10):
        sent = [(c, n, send(c, "writeFile", path=f"{tmp}/{round_}", dataBase64=b64(b"%d" % n),
                            ifMatch={"absent": True})) for n, c in enumerate(clients)]
        won = [b"%d" % n for c, n, ident in sent if isinstance(outcome(c, ident), dict)]
        assert won == [content(f"{tmp}/{round_}")]
    for c in clients:
        c.abort()


def test_counting_by_condition_loses_nothing(server, tmp):
    """Four clients read a number, add one and write it if the file is unchanged: the number is the count of successes."""
    make(f"{tmp}/f", b"0")
    failed = []

    def count(times):
        try:
            with server.connect() as client:
                while times > 0:
                    old = read(client, f"{tmp}/f")
                    answer = outcome(client, send(client, "writeFile", path=f"{tmp}/f",
                                                  dataBase64=b64(b"%d" % (int(old) + 1)),
                                                  ifMatch={"digest": digest(old)}))
                    if isinstance(answer, dict):
                        times -= 1
                    else:
                        assert answer[0] == -32020, answer
        except (AssertionError, ValueError, RpcError, TimeoutError) as err:
            failed.append(err)

    threads = [threading.Thread(target=count, args=(20,)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failed == [] and content(f"{tmp}/f") == b"80" and leftovers(tmp) == []
