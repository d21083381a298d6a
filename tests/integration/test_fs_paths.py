"""Forms of paths in the file methods, names that are not UTF-8, and the member `sandbox`."""

import base64
import os
import urllib.parse

import pytest

from farhand_client import RpcError
from fs_helpers import ENOENT, ENOTDIR, b64, content, failure, fs, make, outcome, read, tree, uri, write
from test_sandbox_refusal import PLAIN, RESTRICTING, restricted, sandbox, unrestricted

WALK = {"maxDepth": 1, "maxDirectories": 10, "maxEntries": 10, "followDirectorySymlinks": False}

# Every method that takes a path, with what else it needs.
METHODS = {
    "readFile": ("path", {}), "writeFile": ("path", {"dataBase64": ""}), "createDirectory": ("path", {}),
    "getMetadata": ("path", {}), "canonicalize": ("path", {}), "readDirectory": ("path", {}),
    "walk": ("path", {"options": WALK}), "remove": ("path", {}), "open": ("path", {"handleId": "h"}),
    "copy": ("sourcePath", {"destinationPath": "/nonexistent/to", "recursive": False}),
    "copy to": ("destinationPath", {"sourcePath": "/nonexistent/from", "recursive": False}),
    "rename": ("sourcePath", {"destinationPath": "/nonexistent/to"}),
    "rename to": ("destinationPath", {"sourcePath": "/nonexistent/from"}),
    "symlink": ("path", {"target": "x"}), "readLink": ("path", {}), "setMetadata": ("path", {"mode": 0o600}),
}


def raw_read(client, path):
    """Reads a file whose path is sent as it is written here. Returns its content, or (code, message)."""
    answer = outcome(client, client.request("fs/readFile", {"path": path}))
    return base64.b64decode(answer["dataBase64"]) if isinstance(answer, dict) else answer


# URIs


@pytest.mark.parametrize("form", [
    "file://{}", "file:{}", "FILE://{}", "File:{}", "file://localhost{}", "file://LOCALHOST{}", "file://{}/",
    "file://{}//", "file:///{}", "file://{}/.", "file://{}/x/..", "file://{}/x/%2e%2e", "file://{}/x/%2E.",
    "file://{}/%2e", "file:///..{}", "file:///../..{}", "file:///./{}", "file:////{}"])
def test_equal_forms_of_a_uri(client, tmp, form):
    assert raw_read(client, form.format(make(f"{tmp}/f", b"x"))) == b"x"


def test_a_uri_without_slashes_starts_at_the_root(client):
    assert raw_read(client, "file:proc/version") == content("/proc/version")
    assert raw_read(client, "file:no-such-file-here") == ENOENT


@pytest.mark.parametrize("spelled, name", [
    ("a%20b", "a b"), ("a b", "a b"), ("a%2520b", "a%20b"), ("%C3%A4", "\u00e4"), ("\u00e4", "\u00e4"),
    ("q%3Fx", "q?x"), ("h%23y", "h#y"), ("c:d", "c:d"), ("c%3Ad", "c:d"), ("%", "%"), ("%zz", "%zz"), ("%4", "%4"),
    ("a%0Ab", "a\nb"), ("a%5Cb", "a\\b"), ("%7Ex", "~x"), ("+", "+"), ("a;b=c&d", "a;b=c&d"), ("[x]", "[x]"),
    ("'", "'")])
def test_percent_signs_are_decoded_in_uris(client, tmp, spelled, name):
    make(f"{tmp}/{name}", name.encode())
    assert raw_read(client, f"file://{tmp}/{spelled}") == name.encode()


@pytest.mark.parametrize("slash", ["%2F", "%2f"])
def test_an_escaped_slash_is_not_a_separator(client, tmp, slash):
    """Unlike here, the reference takes an escaped slash for a separator."""
    make(f"{tmp}/f", b"x")
    for path in (f"file://{tmp}{slash}f", f"file://{tmp}/f{slash}", f"file:{slash}{tmp}/f"):
        assert raw_read(client, path) == (-32602, "escaped slashes are not allowed in path URIs")
    assert raw_read(client, f"file://{tmp}/f") == b"x"


def test_dots_do_not_leave_the_root(client, tmp):
    make(f"{tmp}/f", b"x")
    up = "/.." * 40
    assert raw_read(client, f"file://{up}{tmp}/f") == b"x"


REFUSED = [
    ("http://x/y", -32602, "unsupported path URI scheme `http`"),
    ("ftp:///x", -32602, "unsupported path URI scheme `ftp`"),
    ("data:,x", -32602, "unsupported path URI scheme `data`"),
    ("HTTP://x/y", -32602, "unsupported path URI scheme `http`"),
    ("file:///x?q=1", -32602, "query parameters are not allowed in path URIs"),
    ("file:///x?", -32602, "query parameters are not allowed in path URIs"),
    ("file:///x#f", -32602, "fragments are not allowed in path URIs"),
    ("file:///x#", -32602, "fragments are not allowed in path URIs"),
    ("file:///x?q#f", -32602, None),
    ("file:///tmp/%00", -32602, "'file:///tmp/%00' is invalid on 'linux'"),
    ("file:///tmp/%00x", -32602, "'file:///tmp/%00x' is invalid on 'linux'"),
    ("file://user:pw@localhost/tmp", -32602, None),
    ("file://localhost:80/tmp", -32602, None),
    ("file://otherhost/x", -32600, "'file://otherhost/x' is invalid on 'linux'"),
    ("file://127.0.0.1/x", -32600, "'file://127.0.0.1/x' is invalid on 'linux'"),
    ("file:///C:/x", -32600, "'file:///C:/x' is invalid on 'linux'"),
    ("file:///C:", -32600, "'file:///C:' is invalid on 'linux'"),
]


@pytest.mark.parametrize("path, code, message", REFUSED)
def test_uris_that_are_refused(client, path, code, message):
    answer = raw_read(client, path)
    assert answer[0] == code and message in (None, answer[1])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path, code, message", REFUSED[::5] + REFUSED[13:14])
def test_every_method_refuses_alike(client, tmp, method, path, code, message):
    member, more = METHODS[method]
    answer = outcome(client, client.request(f"fs/{method.split()[0]}", {**{
        k: uri(v) if k.endswith("Path") else v for k, v in more.items()}, member: path}))
    assert answer[0] == code and message in (None, answer[1])


def opaque(path):
    return "file:///%00/bad/path/" + base64.urlsafe_b64encode(path).rstrip(b"=").decode()


def test_the_opaque_form_is_for_paths_that_need_it(client, tmp):
    assert raw_read(client, opaque(b"/C:/x")) == ENOENT, "understood, but not there"
    for bad in (opaque(os.fsencode(tmp)), opaque(b"/tmp"), opaque(b"C:/x"), opaque(b""), "file:///%00/bad/path/!!",
                "file:///%00/bad/path/", "file:///%00/bad/path/L0M6L3g="):
        assert raw_read(client, bad)[0] in (-32602, -32600), bad


# Native paths


@pytest.mark.parametrize("form", ["{}", "{}/", "{}/.", "/.{}", "/..{}", "/{}", "{}//"])
def test_equal_forms_of_a_native_path(client, tmp, form):
    assert raw_read(client, form.format(make(f"{tmp}/f", b"x"))) == b"x"


@pytest.mark.parametrize("name", ["a b", "a%20b", "\u00e4", "q?x", "h#y", "c:d", "%", "%zz", "file:x", "a\nb", "\\",
                                  "~"])
def test_native_paths_are_taken_byte_for_byte(client, tmp, name):
    make(f"{tmp}/{name}", name.encode())
    assert raw_read(client, f"{tmp}/{name}") == name.encode()


@pytest.mark.parametrize("path", ["f.txt", "./x", "../x", "", "~", "~/x", "%2Ftmp", "x/file:y"], ids=repr)
def test_a_relative_path_is_refused(client, path):
    assert raw_read(client, path) == (-32602, f"path is not absolute: {path}")


def test_no_nul_in_a_native_path(client):
    assert raw_read(client, "/tmp/\0x")[0] in (-32602, -32600)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_native_paths(client, tmp, method):
    """Each method gives the same error for a missing parent, as a URI and as a native path."""
    member, more = METHODS[method]
    make(f"{tmp}/f")
    if "to" in method:
        more = {**more, "sourcePath": f"{tmp}/f"}
    if method in ("remove", "createDirectory"):
        # These succeed although the parent is missing; they fail when a parent is a file.
        answers = [outcome(client, client.request(f"fs/{method}", {member: spelled, **more}))
                   for spelled in (f"{tmp}/f/x/y", uri(f"{tmp}/f/x/y"))]
        assert answers == [ENOTDIR, ENOTDIR]
        return
    answers = [outcome(client, client.request(f"fs/{method.split()[0]}", {**more, member: spelled}))
               for spelled in (f"{tmp}/none/x", uri(f"{tmp}/none/x"))]
    assert answers == [ENOENT, ENOENT]


# Names that are not UTF-8

NAMES = [b"\xff", b"bad\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"a\x80b", b"\xf5\x80\x80\x80"]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_name_that_is_not_utf_8_survives_a_round_trip(client, tmp, name):
    path = os.fsencode(tmp) + b"/" + name
    write(client, path, b"bytes")
    assert os.listdir(os.fsencode(tmp)) == [name]
    assert read(client, path) == b"bytes"
    real = fs(client, "canonicalize", path=path)["path"]
    assert urllib.parse.unquote_to_bytes(real).endswith(b"/" + name)
    listed = fs(client, "walk", path=tmp, options=WALK)
    assert listed == {"entries": [{"path": uri(path), "kind": "file"}], "errors": [], "truncated": False}
    fs(client, "copy", sourcePath=path, destinationPath=path + b"2", recursive=False)
    assert tree(tmp) == {name: b"bytes", name + b"2": b"bytes"}
    fs(client, "remove", path=path)
    assert os.listdir(os.fsencode(tmp)) == [name + b"2"]


def test_a_directory_entry_that_is_not_utf_8_has_its_path(client, tmp):
    top = os.fsencode(os.path.realpath(tmp))
    for name in (b"bad\xff", b"good", "\u00e4".encode()):
        make(top + b"/" + name)
    assert fs(client, "readDirectory", path=tmp)["entries"] == [
        {"fileName": "bad\ufffd", "isDirectory": False, "isFile": True, "path": uri(top + b"/bad\xff")},
        {"fileName": "good", "isDirectory": False, "isFile": True},
        {"fileName": "\u00e4", "isDirectory": False, "isFile": True}]


# sandbox

ALL_PLAIN = {**PLAIN, "external, network restricted": {"type": "external", "network": "restricted"},
             "unrestricted, network restricted": unrestricted("restricted"),
             "full-write, network restricted": restricted(
                 {"path": {"type": "special", "value": {"kind": "root"}}, "access": "write"}, network="restricted")}
DENIALS = (-32004, -32600, -32602, -32603)

@pytest.mark.parametrize("name", ALL_PLAIN)
def test_a_profile_with_full_write_access_runs_plainly(client, tmp, name):
    box = sandbox(ALL_PLAIN[name])
    write(client, f"{tmp}/f", b"x", sandbox=box)
    assert read(client, f"{tmp}/f", sandbox=box) == b"x"
    assert fs(client, "getMetadata", path=f"{tmp}/f", sandbox=box)["size"] == 1
    fs(client, "remove", path=f"{tmp}/f", sandbox=box)
    assert os.listdir(tmp) == []


def test_any_other_profile_is_never_ignored(client, tmp):
    make(f"{tmp}/f", b"old")
    box = sandbox(RESTRICTING["read-only"])
    assert failure(client, "writeFile", path=f"{tmp}/f", dataBase64=b64(b"new"), sandbox=box) == (
        -32603, "Read-only file system (os error 30)")
    assert read(client, f"{tmp}/f", sandbox=box) == b"old"
    assert tree(tmp) == {b"f": b"old"}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_obeys_the_sandbox(client, tmp, method):
    make(f"{tmp}/f", b"old")
    member, more = METHODS[method]
    box = sandbox(restricted())
    try:
        fs(client, method.split()[0], sandbox=box, **{**more, member: f"{tmp}/f"})
        assert more.get("force") or method.startswith("remove")  # a hidden file counts as missing
    except RpcError as refused:
        assert refused.code in DENIALS
    assert tree(tmp) == {b"f": b"old"}


@pytest.mark.parametrize("profile", ["disabled", "read-only"])
def test_the_level_for_windows_may_be_absent(client, tmp, profile):
    """windowsSandboxLevel may be left out, although the reference requires it."""
    make(f"{tmp}/f", b"x")
    box = sandbox({**PLAIN, **RESTRICTING}[profile], windowsSandboxLevel=...)
    assert fs(client, "readFile", path=f"{tmp}/f", sandbox=box) == {"dataBase64": b64(b"x")}


@pytest.mark.parametrize("box", [
    5, "x", [], {}, {"permissions": {"type": "bogus"}, "windowsSandboxLevel": "disabled"},
    {"windowsSandboxLevel": "disabled"},
    {"permissions": {"type": "disabled"}, "windowsSandboxLevel": "bogus"},
    {"permissions": None, "windowsSandboxLevel": "disabled"}], ids=str)
def test_a_sandbox_that_does_not_decode_is_refused(client, tmp, box):
    assert failure(client, "writeFile", path=f"{tmp}/f", dataBase64="", sandbox=box)[0] == -32602
    assert os.listdir(tmp) == []
