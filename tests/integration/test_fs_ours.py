"""fs/rename, fs/symlink, fs/readLink, fs/setMetadata, and what fs/getMetadata tells more: capability fsControlV1."""

import base64
import hashlib
import os
import stat

import pytest

from fs_helpers import (EEXIST, EINVAL, EISDIR, ELOOP, ENOENT, ENOTDIR, ENOTEMPTY, HAS_LINK, MIB, content, failure, fs,
                        make, needs_root, noise, outcome, send, sparse, tree)
from sandbox_rig import sandbox, why_not, workspace_write


# fs/rename


def rename(client, source, destination, **more):
    return fs(client, "rename", sourcePath=source, destinationPath=destination, **more)


def rename_failure(client, source, destination, **more):
    return failure(client, "rename", sourcePath=source, destinationPath=destination, **more)


@pytest.mark.parametrize("more", [{}, {"replace": True}, {"replace": False}, {"replace": None}], ids=str)
def test_a_name_becomes_another(client, tmp, more):
    make(f"{tmp}/a", b"file")
    os.makedirs(f"{tmp}/dir/sub")
    os.symlink("a", f"{tmp}/link")
    assert rename(client, f"{tmp}/a", f"{tmp}/b", **more) == {}
    assert rename(client, f"{tmp}/dir", f"{tmp}/moved", **more) == {}
    assert rename(client, f"{tmp}/link", f"{tmp}/moved/link", **more) == {}, "a link itself, not its target"
    assert tree(tmp) == {b"b": b"file", b"moved": None, b"moved/sub": None, b"moved/link": (b"a",)}


def test_links_among_the_directories_can_be_refused(client, tmp):
    make(f"{tmp}/a", b"file")
    os.mkdir(f"{tmp}/dir")
    os.symlink("dir", f"{tmp}/link")
    assert rename_failure(client, f"{tmp}/a", f"{tmp}/link/b", followSymlinks=False) == ENOTDIR
    assert rename(client, f"{tmp}/a", f"{tmp}/link/b") == {}
    assert rename_failure(client, f"{tmp}/link/b", f"{tmp}/a", followSymlinks=False) == ENOTDIR
    assert rename(client, f"{tmp}/dir/b", f"{tmp}/a", followSymlinks=False) == {}
    assert rename(client, f"{tmp}/link", f"{tmp}/moved", followSymlinks=False) == {}, "a link itself may be renamed"
    assert tree(tmp) == {b"a": b"file", b"dir": None, b"moved": (b"dir",)}


def test_what_is_there_is_replaced_or_not(client, tmp):
    make(f"{tmp}/a", b"new")
    make(f"{tmp}/b", b"old")
    assert rename_failure(client, f"{tmp}/a", f"{tmp}/b", replace=False) == EEXIST
    assert tree(tmp) == {b"a": b"new", b"b": b"old"}
    assert rename(client, f"{tmp}/a", f"{tmp}/b") == {}
    assert tree(tmp) == {b"b": b"new"}
    os.symlink("none", f"{tmp}/link")
    assert rename_failure(client, f"{tmp}/b", f"{tmp}/link", replace=False) == EEXIST
    assert rename(client, f"{tmp}/b", f"{tmp}/link") == {}
    assert tree(tmp) == {b"link": b"new"}, "the link is replaced, not followed"


def test_directories_and_files_are_not_mixed(client, tmp):
    for name in ("dir", "empty", "full/x"):
        os.makedirs(f"{tmp}/{name}")
    make(f"{tmp}/file", b"x")
    before = tree(tmp)
    assert rename_failure(client, f"{tmp}/file", f"{tmp}/dir") == EISDIR
    assert rename_failure(client, f"{tmp}/dir", f"{tmp}/file") == ENOTDIR
    assert rename_failure(client, f"{tmp}/dir", f"{tmp}/full") == ENOTEMPTY
    assert rename_failure(client, f"{tmp}/full", f"{tmp}/full/x/y") == EINVAL
    assert rename_failure(client, f"{tmp}/none", f"{tmp}/x") == ENOENT
    assert rename_failure(client, f"{tmp}/file", f"{tmp}/none/x") == ENOENT
    assert rename_failure(client, f"{tmp}/file/x", f"{tmp}/y") == ENOTDIR
    assert tree(tmp) == before
    assert rename(client, f"{tmp}/full", f"{tmp}/empty") == {}
    assert tree(tmp) == {b"dir": None, b"empty": None, b"empty/x": None, b"file": b"x"}


def test_a_file_onto_itself_stays(client, tmp):
    make(f"{tmp}/a", b"x")
    os.link(f"{tmp}/a", f"{tmp}/b")
    assert rename(client, f"{tmp}/a", f"{tmp}/a") == {}
    assert rename(client, f"{tmp}/a", f"{tmp}/b") == {}
    assert content(f"{tmp}/b") == b"x"


def test_not_across_file_systems(client, tmp):
    other = "/dev/shm"
    if not os.access(other, os.W_OK) or os.stat(other).st_dev == os.stat(tmp).st_dev:
        pytest.skip("no second file system to write to")
    make(f"{tmp}/a", b"x")
    code, message = rename_failure(client, f"{tmp}/a", f"{other}/{os.path.basename(tmp)}")
    assert code == -32603 and message.endswith("(os error 18)")
    assert tree(tmp) == {b"a": b"x"}


def test_missing_members_are_named(client, tmp):
    for method, members in (("rename", ("sourcePath", "destinationPath")), ("symlink", ("path", "target")),
                            ("readLink", ("path",)), ("setMetadata", ("path",))):
        whole = {"sourcePath": f"{tmp}/a", "destinationPath": f"{tmp}/b", "path": f"{tmp}/c", "target": "x"}
        for member in members:
            assert failure(client, method, **{**whole, member: ...}) == (-32602, f"missing field `{member}`")
    assert os.listdir(tmp) == []


@pytest.mark.parametrize("method, members", [
    ("rename", {"sourcePath": "/x", "destinationPath": "/y", "replace": 1}),
    ("symlink", {"path": "/nonexistent/x", "target": 5}), ("symlink", {"path": "/nonexistent/x", "target": None}),
    ("setMetadata", {"path": "/nonexistent", "mode": "644"}), ("setMetadata", {"path": "/nonexistent", "mode": -1}),
    ("setMetadata", {"path": "/nonexistent", "mode": 0o10000}), ("setMetadata", {"path": "/nonexistent", "mode": 1.5}),
    ("setMetadata", {"path": "/nonexistent", "modifiedAtMs": "now"}),
    ("setMetadata", {"path": "/nonexistent", "modifiedAtMs": 1.5}),
    ("setMetadata", {"path": "/nonexistent", "modifiedAtMs": 2 ** 63}),
    ("setMetadata", {"path": "/nonexistent", "followSymlinks": "no"}),
    ("getMetadata", {"path": "/nonexistent", "digest": 1}),
], ids=str)
def test_a_member_of_the_wrong_type_is_named(client, method, members):
    code, message = failure(client, method, **members)
    assert code == -32602 and any(name in message for name in members if name != "path")


# fs/open


@pytest.mark.parametrize("is_sandboxed", [False, True], ids=["open", "sandboxed"])
@pytest.mark.parametrize("mode", ["read", "replace", "resume"])
def test_links_can_be_refused_when_a_file_is_opened(client, tmp, mode, is_sandboxed):
    os.mkdir(f"{tmp}/dir")
    make(f"{tmp}/dir/file", b"x")
    os.symlink("dir/file", f"{tmp}/link")
    os.symlink("dir", f"{tmp}/to")
    more = {"mode": mode, "followSymlinks": False}
    if is_sandboxed:
        if why_not("root" if os.geteuid() == 0 else "unprivileged"):
            pytest.skip("no sandbox here")
        more["sandbox"] = sandbox(workspace_write(), tmp)
    assert failure(client, "open", handleId="h", path=f"{tmp}/link", **more) in (HAS_LINK, ELOOP)
    assert failure(client, "open", handleId="h", path=f"{tmp}/to/file", **more) == ENOTDIR
    assert failure(client, "open", handleId="h", path=f"{tmp}/to/new", **more) == ENOTDIR
    assert content(f"{tmp}/dir/file") == b"x" and sorted(os.listdir(f"{tmp}/dir")) == ["file"]
    assert fs(client, "open", handleId="h", path=f"{tmp}/dir/file", **more)["handleId"] == "h"


# fs/symlink and fs/readLink


@pytest.mark.parametrize("target", ["file", "../x/./y", "/absolute", "file:///not/a/path", "a b%20\n\u00e4", "none",
                                    "t" * 4095])
def test_a_target_is_stored_as_it_came(client, tmp, target):
    assert fs(client, "symlink", path=f"{tmp}/link", target=target) == {}
    assert os.readlink(f"{tmp}/link") == target
    assert fs(client, "readLink", path=f"{tmp}/link") == {"target": target}


def test_links_that_cannot_be_made(client, tmp):
    make(f"{tmp}/file", b"x")
    os.symlink("none", f"{tmp}/link")
    for name in ("file", "link", ""):
        assert failure(client, "symlink", path=f"{tmp}/{name}", target="t") == EEXIST
    assert failure(client, "symlink", path=f"{tmp}/none/x", target="t") == ENOENT
    assert failure(client, "symlink", path=f"{tmp}/file/x", target="t") == ENOTDIR
    assert failure(client, "symlink", path=f"{tmp}/new", target="")[0] in (-32004, -32600, -32602)
    assert failure(client, "symlink", path=f"{tmp}/new", target="a\0b")[0] in (-32600, -32602)
    assert failure(client, "symlink", path=f"{tmp}/new", target="t" * 4096)[0] in (-32603, -32600, -32602)
    assert tree(tmp) == {b"file": b"x", b"link": (b"none",)}


def test_links_among_directories_can_be_refused(client, tmp):
    os.mkdir(f"{tmp}/dir")
    os.symlink("dir", f"{tmp}/to")
    assert failure(client, "symlink", path=f"{tmp}/to/new", target="t", followSymlinks=False) == ENOTDIR
    assert fs(client, "symlink", path=f"{tmp}/dir/new", target="t", followSymlinks=False) == {}
    assert tree(f"{tmp}/dir") == {b"new": (b"t",)}


@pytest.mark.parametrize("target", [b"\xff", b"a\x80/b"], ids=repr)
def test_a_target_that_is_not_utf_8(client, tmp, target):
    os.symlink(target, os.fsencode(tmp) + b"/link")
    result = fs(client, "readLink", path=f"{tmp}/link")
    assert base64.b64decode(result["targetBase64"]) == target and "target" not in result


def test_what_is_no_link(client, tmp):
    make(f"{tmp}/file")
    os.mkfifo(f"{tmp}/fifo")
    for name in ("file", "fifo", ""):
        assert failure(client, "readLink", path=f"{tmp}/{name}") == EINVAL
    assert failure(client, "readLink", path=f"{tmp}/none") == ENOENT
    assert failure(client, "readLink", path=f"{tmp}/file/x") == ENOTDIR


def test_only_the_last_component_is_read(client, tmp):
    os.mkdir(f"{tmp}/dir")
    os.symlink("dir", f"{tmp}/dirlink")
    os.symlink("target", f"{tmp}/dir/link")
    os.symlink("loop", f"{tmp}/loop")
    assert fs(client, "readLink", path=f"{tmp}/dirlink/link") == {"target": "target"}
    assert fs(client, "readLink", path=f"{tmp}/loop") == {"target": "loop"}
    assert failure(client, "readLink", path=f"{tmp}/loop/x") == ELOOP


# fs/setMetadata


@pytest.mark.parametrize("mode", [0, 0o600, 0o755, 0o777, 0o4755, 0o1777])
def test_modes_are_set(client, tmp, mode):
    make(f"{tmp}/f", b"x", 0o644)
    assert fs(client, "setMetadata", path=f"{tmp}/f", mode=mode) == {}
    assert stat.S_IMODE(os.stat(f"{tmp}/f").st_mode) == mode
    assert fs(client, "getMetadata", path=f"{tmp}/f")["mode"] == mode


@pytest.mark.parametrize("ms", [0, 1, 1500, 1794723622007, 2 ** 41, -1500])
def test_times_are_set(client, tmp, ms):
    make(f"{tmp}/f", b"x", 0o640)
    os.utime(f"{tmp}/f", ns=(5 * 10 ** 9, 6 * 10 ** 9))
    assert fs(client, "setMetadata", path=f"{tmp}/f", modifiedAtMs=ms) == {}
    st = os.stat(f"{tmp}/f")
    assert (st.st_mtime_ns, st.st_atime_ns, stat.S_IMODE(st.st_mode)) == (ms * 1000000, 5 * 10 ** 9, 0o640)


def test_both_and_neither(client, tmp):
    make(f"{tmp}/f", b"x")
    fs(client, "setMetadata", path=f"{tmp}/f", mode=0o600, modifiedAtMs=123456)
    before = os.stat(f"{tmp}/f")
    assert (before.st_mtime_ns, stat.S_IMODE(before.st_mode)) == (123456 * 1000000, 0o600)
    outcome(client, send(client, "setMetadata", path=f"{tmp}/f"))
    outcome(client, send(client, "setMetadata", path=f"{tmp}/f", mode=None, modifiedAtMs=None))
    after = os.stat(f"{tmp}/f")
    assert (after.st_mtime_ns, after.st_mode) == (before.st_mtime_ns, before.st_mode)


def test_metadata_of_directories_and_special_files(client, tmp):
    os.mkdir(f"{tmp}/d")
    os.mkfifo(f"{tmp}/fifo")
    for name in ("d", "fifo"):
        assert fs(client, "setMetadata", path=f"{tmp}/{name}", mode=0o700, modifiedAtMs=5000) == {}
        st = os.stat(f"{tmp}/{name}")
        assert (stat.S_IMODE(st.st_mode), st.st_mtime_ns) == (0o700, 5 * 10 ** 9)


def test_links_and_their_metadata(client, tmp):
    make(f"{tmp}/f", b"x", 0o644)
    os.mkdir(f"{tmp}/d")
    make(f"{tmp}/d/g", b"x", 0o644)
    for name, target in (("link", "f"), ("dirlink", "d"), ("broken", "none")):
        os.symlink(target, f"{tmp}/{name}")
    assert fs(client, "setMetadata", path=f"{tmp}/link", mode=0o600) == {}
    assert stat.S_IMODE(os.stat(f"{tmp}/f").st_mode) == 0o600, "followed by default"
    assert failure(client, "setMetadata", path=f"{tmp}/broken", mode=0o600) == ENOENT
    before = os.stat(f"{tmp}/f")
    for more in ({"mode": 0o777}, {"modifiedAtMs": 5000}):
        assert failure(client, "setMetadata", path=f"{tmp}/link", followSymlinks=False, **more) == HAS_LINK
        assert failure(client, "setMetadata", path=f"{tmp}/dirlink/g", followSymlinks=False, **more) == ENOTDIR
        assert fs(client, "setMetadata", path=f"{tmp}/d/g", followSymlinks=False, **more) == {}
    after = os.stat(f"{tmp}/f")
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    st = os.stat(f"{tmp}/d/g")
    assert (stat.S_IMODE(st.st_mode), st.st_mtime_ns) == (0o777, 5 * 10 ** 9)


def test_what_is_not_there_has_no_metadata(client, tmp):
    make(f"{tmp}/file")
    assert failure(client, "setMetadata", path=f"{tmp}/none", mode=0o600) == ENOENT
    assert failure(client, "setMetadata", path=f"{tmp}/file/x", mode=0o600) == ENOTDIR


# fs/getMetadata, more


@needs_root
@pytest.mark.parametrize("follow", [True, False])
def test_mode_owner_and_links_are_told(client, tmp, follow):
    make(f"{tmp}/f", b"x", 0o4751)
    os.chown(f"{tmp}/f", 1234, 5678)
    os.chmod(f"{tmp}/f", 0o4751)
    for n in range(2):
        os.link(f"{tmp}/f", f"{tmp}/l{n}")
    result = fs(client, "getMetadata", path=f"{tmp}/f", followSymlinks=follow)
    assert (result["mode"], result["uid"], result["gid"], result["links"]) == (0o4751, 1234, 5678, 3)
    assert "digest" not in result


def test_metadata_is_of_the_target(client, tmp):
    make(f"{tmp}/f", b"x", 0o640)
    os.symlink("f", f"{tmp}/link")
    assert fs(client, "getMetadata", path=f"{tmp}/link")["mode"] == 0o640


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 65536, 3 * MIB + 5])
@pytest.mark.parametrize("follow", [True, False])
def test_the_digest_of_a_file(client, tmp, size, follow):
    data = noise(size)
    make(f"{tmp}/f", data)
    result = fs(client, "getMetadata", path=f"{tmp}/f", digest=True, followSymlinks=follow)
    assert result["digest"] == "sha256:" + hashlib.sha256(data).hexdigest() and result["size"] == size


def test_the_digest_through_a_link_and_on_request_only(client, tmp):
    make(f"{tmp}/f", b"x")
    os.symlink("f", f"{tmp}/link")
    result = fs(client, "getMetadata", path=f"{tmp}/link", digest=True)
    assert result["digest"] == "sha256:" + hashlib.sha256(b"x").hexdigest()
    for more in ({}, {"digest": False}, {"digest": None}):
        assert "digest" not in fs(client, "getMetadata", path=f"{tmp}/f", **more)


def test_what_has_no_digest(client, tmp):
    """A digest of a FIFO, a directory or a file that is too large: an error or metadata without a digest, and no wait."""
    os.mkfifo(f"{tmp}/fifo")
    sparse(f"{tmp}/huge", 512 * MIB + 1)
    for path in (f"{tmp}/fifo", tmp, "/dev/zero", f"{tmp}/huge"):
        answer = outcome(client, send(client, "getMetadata", path=path, digest=True))
        assert answer[0] in (-32600, -32603) if isinstance(answer, tuple) else "digest" not in answer, path


def test_a_digest_does_not_hold_the_reads_behind_it(client, tmp):
    sparse(f"{tmp}/large", 150 * MIB)
    for _ in range(20):  # on a busy machine the thread of the second may have to wait for a processor
        slow = send(client, "getMetadata", path=f"{tmp}/large", digest=True)
        quick = send(client, "getMetadata", path=tmp)
        assert client.result(slow, 60)["size"] == 150 * MIB and client.result(quick)["isDirectory"] is True
        order = [m["id"] for m in client.messages if m.get("id") in (slow, quick)]
        if order == [quick, slow]:
            break
    assert order == [quick, slow]


def test_new_names_are_seen_at_once(client, tmp):
    """A name that one method has made is visible to the next method."""
    fs(client, "symlink", path=f"{tmp}/link", target="f")
    make(f"{tmp}/f", b"x")
    fs(client, "rename", sourcePath=f"{tmp}/f", destinationPath=f"{tmp}/g")
    assert failure(client, "readFile", path=f"{tmp}/link") == ENOENT
    fs(client, "rename", sourcePath=f"{tmp}/g", destinationPath=f"{tmp}/f")
    assert fs(client, "getMetadata", path=f"{tmp}/link")["size"] == 1


def test_a_file_is_open_with_a_lock_once(server, tmp):
    path = f"{tmp}/a"
    with server.connect() as one, server.connect() as two:
        def lock(client, handle, **kw):
            return client.request("fs/open", {"handleId": handle, "path": path, "mode": "resume", "lock": True, **kw})

        assert one.result(lock(one, "h")) == {"handleId": "h", "size": 0}
        assert two.error("fs/open", {"handleId": "h", "path": path, "mode": "replace", "lock": True}).data["errno"] == 11
        assert two.call("fs/open", {"handleId": "h", "path": path, "mode": "resume"})  # no lock is asked for
        one.call("fs/close", {"handleId": "h"})
        assert two.result(lock(two, "i"))
        os.rename(path, f"{tmp}/b")
        assert one.result(lock(one, "j"))  # another file has the name now
        two.call("fs/close", {"handleId": "i"})
        os.rename(f"{tmp}/b", path)
        assert two.result(lock(two, "i"))
        assert two.error("fs/open", {"handleId": "k", "path": path, "lock": True}).code == -32600
    with server.connect() as three:  # their connections have ended
        assert three.result(lock(three, "h"))
