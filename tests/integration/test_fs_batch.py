"""Many files at once: fs/scanDirectory, fs/readFiles, fs/writeFiles and fs/digest, without a sandbox and with one."""

import base64
import hashlib
import os

import pytest

from farhand_client import RpcError
from fs_helpers import b64, fs
from sandbox_rig import USERS, Box, at, glob, is_error, narrow, read_only, rig_of, snapshot, why_not, workspace_write


def write(path, data=b"", mode=0o644):
    with open(path, "wb") as f:
        f.write(data)
    os.chmod(path, mode)
    return path


def test_a_scan_tells_links_as_links_and_all_metadata(client, tmp):
    write(f"{tmp}/f", b"12345", 0o640)
    os.utime(f"{tmp}/f", ns=(0, 1_234_567_890_123_456_789))
    os.mkdir(f"{tmp}/d", 0o700)
    os.symlink("nowhere", f"{tmp}/l")
    os.symlink(b"\xff", f"{tmp}/m")
    os.mkfifo(f"{tmp}/p")
    write(os.fsencode(tmp) + b"/\xfe")
    result = fs(client, "scanDirectory", path=tmp)
    entries = result["entries"]
    assert result["truncated"] is False and [e.get("name") for e in entries] == ["d", "f", "l", "m", "p", None]
    assert [e["kind"] for e in entries] == ["directory", "file", "link", "link", "other", "file"]
    assert entries[1] == {"name": "f", "kind": "file", "size": 5, "mode": 0o640, "modifiedAtMs": 1_234_567_890_123}
    assert entries[2]["target"] == "nowhere" and entries[3]["targetBase64"] == b64(b"\xff") and entries[5]["nameBase64"] == b64(b"\xfe")


def test_a_scan_comes_in_pages(client, tmp):
    names = sorted(f"{i}" for i in range(25))
    for name in names:
        write(f"{tmp}/{name}")
    found, more = [], {}
    while True:
        page = fs(client, "scanDirectory", path=tmp, limit=10, **more)
        found += [e["name"] for e in page["entries"]]
        if not page["truncated"]:
            break
        more = {"after": found[-1]} if len(found) == 10 else {"afterBase64": b64(found[-1].encode())}
    assert found == names
    for bad in ({"limit": 0}, {"limit": 5000}, {"after": 1}):
        with pytest.raises(RpcError) as e:
            fs(client, "scanDirectory", path=tmp, **bad)
        assert e.value.code == -32602


def test_files_are_written_and_read_together(client, tmp):
    files = [{"name": "a", "dataBase64": b64(b"one"), "mode": 0o600, "modifiedAtMs": 1000}, {"name": "ü", "dataBase64": ""}]
    assert fs(client, "writeFiles", path=tmp, files=files) == {"files": [{}, {}]}
    st = os.stat(f"{tmp}/a")
    assert (st.st_mode & 0o7777, st.st_mtime) == (0o600, 1) and os.stat(f"{tmp}/ü").st_size == 0
    # One that is there is replaced, and gets mode and time.
    files = [{"name": "a", "dataBase64": b64(b"two!"), "mode": 0o640, "modifiedAtMs": 2000}]
    assert fs(client, "writeFiles", path=tmp, files=files) == {"files": [{}]}
    result = fs(client, "readFiles", path=tmp, names=["none", "a"])["files"]
    assert result[0]["error"]["errno"] == 2
    assert result[1] == {"dataBase64": b64(b"two!"), "size": 4, "mode": 0o640, "modifiedAtMs": 2000}


def test_each_file_fails_for_itself_and_no_link_is_followed(client, tmp):
    write(f"{tmp}/secret", b"secret")
    os.mkdir(f"{tmp}/in")
    os.symlink(f"{tmp}/secret", f"{tmp}/in/link")
    os.mkfifo(f"{tmp}/in/fifo")
    os.mkdir(f"{tmp}/in/dir")
    read = fs(client, "readFiles", path=f"{tmp}/in", names=["link", "fifo", "dir"])["files"]
    assert all("error" in f and "dataBase64" not in f for f in read)
    new = [{"name": name, "dataBase64": b64(b"x")} for name in ("link", "dir", "good")] + [{"name": "bad", "dataBase64": "!"}]
    wrote = fs(client, "writeFiles", path=f"{tmp}/in", files=new)["files"]
    assert ["error" in f for f in wrote] == [True, True, False, True]
    assert open(f"{tmp}/secret", "rb").read() == b"secret" and not os.path.exists(f"{tmp}/in/bad")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc/passwd", "a\0b", "x" * 256])
def test_a_name_is_one_name(client, tmp, name):
    for method, params in (("readFiles", {"names": [name]}), ("writeFiles", {"files": [{"name": name, "dataBase64": ""}]})):
        with pytest.raises(RpcError) as e:
            fs(client, method, path=tmp, **params)
        assert e.value.code == -32602
    assert os.listdir(tmp) == []


def test_a_long_answer_has_the_first_files(client, tmp):
    for i in range(5):
        write(f"{tmp}/{i}", os.urandom(400_000))
    write(f"{tmp}/big", bytes(2 << 20))
    files = fs(client, "readFiles", path=tmp, names=[str(i) for i in range(5)])["files"]
    assert 1 < len(files) < 5
    assert base64.b64decode(files[0]["dataBase64"]) == open(f"{tmp}/0", "rb").read()
    assert fs(client, "readFiles", path=tmp, names=["big"])["files"][0]["error"]["errno"] == 27


def test_the_digest_of_a_part(client, tmp):
    data = os.urandom(300_000)
    path = write(f"{tmp}/f", data)
    for offset, length in ((0, None), (1, 10), (299_999, 10), (300_000, 1), (400_000, None), (0, 0)):
        part = data[offset:][:length]
        assert fs(client, "digest", path=path, offset=offset, length=length) == {
            "digest": "sha256:" + hashlib.sha256(part).hexdigest(), "bytes": len(part), "size": 300_000}
    with pytest.raises(RpcError):
        fs(client, "digest", path=tmp)


def test_a_sandbox_holds_for_all_of_them(client, tmp):
    reason = why_not("root" if os.geteuid() == 0 else "user")
    if reason:
        pytest.skip(reason)
    os.mkdir(f"{tmp}/d")
    write(f"{tmp}/d/f", b"f")
    write(f"{tmp}/d/secret", b"s")
    box = Box(client, read_only(at(f"{tmp}/d/secret", "deny")), tmp)
    assert [e["name"] for e in box.ask("scanDirectory", path=f"{tmp}/d", after="a")["entries"]] == ["f", "secret"]
    read = box.ask("readFiles", path=f"{tmp}/d", names=["f", "secret"])["files"]
    assert read[0]["dataBase64"] == b64(b"f") and read[1]["error"]["errno"] == 13
    assert box.ask("digest", path=f"{tmp}/d/f")["bytes"] == 1
    wrote = box.ask("writeFiles", path=f"{tmp}/d", files=[{"name": "g", "dataBase64": ""}])["files"]
    assert wrote[0]["error"]["errno"] == 30 and sorted(os.listdir(f"{tmp}/d")) == ["f", "secret"]


def is_let(answer):
    """Whether a request, or one file of it, was let through."""
    return not is_error(answer) and "error" not in answer


def each(answer, count):
    return [False] * count if is_error(answer) else [is_let(f) for f in answer["files"]]


def plant(tree):
    for name in ("in/f", "in/denied", "in/x.secret", "shut/f", "ro/f"):
        tree.file(f"{tree.w}/{name}", name)
    tree.file(f"{tree.o}/f", "outside")
    tree.link(f"{tree.w}/in/out", f"{tree.o}/f")
    tree.link(f"{tree.w}/in/dir", tree.o)
    tree.link(f"{tree.w}/in/up", f"{tree.w}/shut")


@pytest.mark.parametrize("user", USERS)
def test_a_sandbox_lets_many_files_through_as_it_does_each_of_them(user):
    with rig_of(user) as rig:
        tree, seen = rig.tree(), set()
        rules = [at(f"{tree.w}/in/denied", "deny"), glob(f"{tree.w}/**/*.secret"), at(f"{tree.w}/shut", "deny"), at(f"{tree.w}/ro", "read")]
        for profile in (read_only(*rules), workspace_write(*rules), narrow(at(f"{tree.w}/in", "write"), *rules)):
            for directory in ("w/in", "w/shut", "w/ro", "o", "w/in/dir", "w/in/up"):
                tree.clear()
                plant(tree)
                box, path = Box(rig.client, profile, tree.w), f"{tree.base}/{directory}"
                names = [name for name in ("f", "denied", "x.secret") if os.path.exists(f"{path}/{name}")]
                single = [is_let(box.ask("readFile", path=f"{path}/{name}")) for name in names]
                assert each(box.ask("readFiles", path=path, names=names), len(names)) == single, directory
                assert [is_let(box.ask("digest", path=f"{path}/{name}")) for name in names] == single, directory
                assert is_let(box.ask("scanDirectory", path=path)) == is_let(box.ask("readDirectory", path=path)), directory
                names += ["new", "new.secret"]
                single = [is_let(box.write(f"{path}/{name}", b"changed")) for name in names]
                after = snapshot(tree.base)
                tree.clear()
                plant(tree)
                files = [{"name": name, "dataBase64": b64(b"changed"), "mode": 0o644} for name in names]
                assert each(box.ask("writeFiles", path=path, files=files), len(files)) == single, directory
                assert snapshot(tree.base) == after, directory
                seen.update(single)
        assert seen == {True, False}
