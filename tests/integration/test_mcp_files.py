"""The tools of `farhand mcp` for files: read_file, write_file, list_directory, view_image; in the sandbox, and asked about; near and far."""

import base64
import json
import os
import shutil
import tempfile

import jsonschema
import pytest

from farhand_client import Server
from mcp_rig import Mcp
from reach import TREES
from test_mcp_questions import questions, say
from test_mcp_tools import needs_sandbox

OPEN = ("--no-sandbox",)
IMAGES = {"image/png": b"\x89PNG\r\n\x1a\nxx", "image/jpeg": b"\xff\xd8\xff\xe0xx", "image/gif": b"GIF89axx", "image/webp": b"RIFF\0\0\0\0WEBPVP8 "}


@pytest.fixture(scope="module")
def m():
    with Mcp(*OPEN) as one:
        yield one


@pytest.fixture(params=["here", "far"])
def mcp(request):
    """Makes a client of an environment that is here or far; its workspace is its directory in both cases."""
    made = []

    def make(*args, **kw):
        if request.param == "far":
            server = Server()
            made.append(lambda: server.__exit__(None, None, None))
            far = tempfile.mkdtemp(prefix="fh-far-", dir=TREES)
            made.append(lambda: shutil.rmtree(far, ignore_errors=True))
            kw = {"where": ("--url", server.url, "-C", far), "cwd": far, **kw}
        one = Mcp(*args, **kw)
        made.append(lambda: one.__exit__(None, None, None))
        return one

    yield make
    for end in reversed(made):
        end()


def put(one, name, content, folder=None):
    path = os.path.join(folder or one.work, name)
    with open(path, "wb") as f:
        f.write(content if isinstance(content, bytes) else content.encode())
    return path


def get(path):
    with open(path, "rb") as f:
        return f.read()


def whole(one, ident):
    result = one.wait(ident)
    assert not result["isError"], result
    return result


def test_the_list_of_tools(m):
    tools = {tool["name"]: tool for tool in m.request("tools/list")["tools"]}
    for name in ("read_file", "list_directory", "view_image"):
        hints = tools[name]["annotations"]
        assert hints["readOnlyHint"] and hints["idempotentHint"] and not hints["destructiveHint"] and not hints["openWorldHint"]
    hints = tools["write_file"]["annotations"]
    assert not hints["readOnlyHint"] and hints["destructiveHint"] and hints["idempotentHint"] and not hints["openWorldHint"]
    put(m, "x", "1\n")
    for name, arguments in (("read_file", {"path": "x"}), ("write_file", {"path": "x", "content": "1\n"}), ("list_directory", {"path": "."})):
        jsonschema.validate(arguments, tools[name]["inputSchema"])
        jsonschema.validate(m.call(name, **arguments), tools[name]["outputSchema"])


def test_some_lines(m):
    path = put(m, "lines", "".join(f"line {n}\n" for n in range(1, 5001)))
    result = whole(m, m.start("read_file", path="lines"))
    done = result["structuredContent"]
    assert done["text"] == "".join(f"line {n}\n" for n in range(1, 2001)) and (done["offset"], done["lines"], done["total_lines"]) == (1, 2000, 5000)
    assert done["path"] == path and done["size"] == os.path.getsize(path) and done["is_utf8"] and not done["is_cut"]
    assert result["content"][0]["text"].endswith("\n[2000 of 5000 lines, from 1 on; there are more]")
    done = m.call("read_file", path=path, offset=4999, limit=9)
    assert done["text"] == "line 4999\nline 5000\n" and done["lines"] == 2
    assert m.call("read_file", path=path, offset=5001)["text"] == ""
    put(m, "empty", "")
    assert m.call("read_file", path="empty")["total_lines"] == 0


def test_ceilings(m):
    put(m, "wide", "x" * 300000 + "\nend\n")
    done = m.call("read_file", path="wide")
    assert len(done["text"]) == 262144 and done["is_cut"] and done["lines"] == 1 and done["total_lines"] == 2
    assert m.call("read_file", path="wide", offset=2)["text"] == "end\n"
    with open(os.path.join(m.work, "huge"), "wb") as f:
        f.truncate((16 << 20) + 1)
    assert "at most 16777216 can be read" in m.failure("read_file", path="huge")
    os.truncate(os.path.join(m.work, "huge"), (5 << 20) + 1)
    assert "at most 5242880 can be read" in m.failure("view_image", path="huge")


def test_text_that_is_not_utf8(m):
    put(m, "bytes", b"a\xffb\n")
    result = whole(m, m.start("read_file", path="bytes"))
    assert result["structuredContent"]["text"] == "a\ufffdb\n" and result["structuredContent"]["is_utf8"] is False
    assert "not UTF-8" in result["content"][0]["text"]


def test_what_cannot_be_read(m):
    os.mkfifo(os.path.join(m.work, "fifo"))
    for path, why in (("none", "No such file or directory"), (".", "not a regular file"), ("fifo", "not a regular file"), ("/dev/zero", "not a regular file")):
        assert why in m.failure("read_file", path=path), path
    words = "failed to parse function arguments: "
    for arguments in ({}, {"path": 7}, {"path": ""}, {"path": "x\0"}, {"path": "x", "offset": 0}, {"path": "x", "limit": -1}, {"path": "x", "more": 1},
                      {"path": "x" * 5000}):
        assert m.failure("read_file", **arguments).startswith(words), arguments
    assert m.failure("write_file", path="x") == words + "missing field: content"
    assert m.failure("list_directory", path="x", offset=1).startswith(words)


def test_writing(mcp):
    one = mcp(*OPEN)
    done = one.call("write_file", path="new", content="täxt\n")
    assert done == {"path": one.work + "/new", "size": 6} and get(one.work + "/new") == "täxt\n".encode()
    assert one.call("write_file", path=one.work + "/new", content="")["size"] == 0 and get(one.work + "/new") == b""
    assert "No such file or directory" in one.failure("write_file", path="a/b/c", content="x")
    one.call("write_file", path="a/b/c", content="x", create_parents=True)
    assert get(one.work + "/a/b/c") == b"x"
    big = "0123456789abcdef" * (1 << 18)
    one.call("write_file", path="big", content=big)
    assert get(one.work + "/big") == big.encode()


def test_listing(mcp):
    one = mcp(*OPEN)
    os.mkdir(one.work + "/d")
    put(one, "d/file", "123")
    os.mkdir(one.work + "/d/sub")
    os.symlink("nowhere", one.work + "/d/link")
    result = whole(one, one.start("list_directory", path="d"))
    assert result["structuredContent"] == {"path": one.work + "/d", "truncated": False, "entries": [
        {"name": "file", "kind": "file", "size": 3}, {"name": "link", "kind": "link"}, {"name": "sub", "kind": "directory"}]}
    assert result["content"][0]["text"] == "file\nlink@\nsub/\n"
    os.mkdir(one.work + "/many")
    for n in range(1100):
        put(one, f"many/{n:04}\n", "")
    done = one.call("list_directory", path="many")
    assert done["truncated"] and len(done["entries"]) == 1000
    done = one.call("list_directory", path="many", after=done["entries"][-1]["name"])
    assert not done["truncated"] and [entry["name"] for entry in done["entries"]] == [f"{n:04}\n" for n in range(1000, 1100)]
    assert "Not a directory" in one.failure("list_directory", path="d/file")


def test_images(mcp):
    one = mcp(*OPEN)
    for kind, content in IMAGES.items():
        put(one, "image.txt", content)  # the type is that of the content, not of the name
        result = whole(one, one.start("view_image", path="image.txt"))
        (item,) = result["content"]
        assert item == {"type": "image", "data": base64.b64encode(content).decode(), "mimeType": kind}
        assert result["structuredContent"] == {"path": one.work + "/image.txt", "mime_type": kind, "size": len(content)}
    put(one, "image.png", "<svg/>")
    assert "not an image" in one.failure("view_image", path="image.png")


def test_several_at_once_and_a_cancelled_one(m):
    put(m, "one", "1\n")
    idents = [m.start("read_file", path="one") for _ in range(50)]
    m.note("notifications/cancelled", {"requestId": idents[-1]})
    assert all(m.done(ident)["text"] == "1\n" for ident in idents[:-1])


# The sandbox


@needs_sandbox
def test_a_denied_write_is_asked_about(mcp):
    one = mcp(ask=say("once"))
    os.symlink(one.outside, one.work + "/link")
    assert one.call("write_file", path="link/made", content="1")["size"] == 1 and get(one.outside + "/made") == b"1"
    (question,) = questions(one)
    lines = question["message"].split("\n")
    assert lines[0] == "Change these files, which the sandbox does not allow?" and f"File: {one.work}/link/made" in lines
    assert f"Which leads to: {one.outside}/made" in lines and question["requestedSchema"]["properties"]["decision"]["enum"] == ["once", "session", "deny"]
    one.call("write_file", path="link/made", content="2")
    assert len(questions(one)) == 2


@needs_sandbox
def test_declined_and_not_asked(mcp):
    one = mcp(ask=say("deny"))
    assert "Read-only file system" in one.failure("write_file", path=one.outside + "/made", content="1") and len(questions(one)) == 1
    one = mcp()
    assert "Read-only file system" in one.failure("write_file", path=one.outside + "/made", content="1")
    assert not os.listdir(one.outside)


@needs_sandbox
def test_a_yes_for_the_session_is_for_the_real_path():
    with Mcp(ask=say("session")) as one:
        os.mkdir(one.outside + "/other")
        os.symlink(one.outside, one.work + "/link")
        for n in range(2):
            one.call("write_file", path="link/made", content=str(n))
        assert get(one.outside + "/made") == b"1" and len(questions(one)) == 1
        os.remove(one.work + "/link")
        os.symlink(one.outside + "/other", one.work + "/link")
        one.call("write_file", path="link/made", content="x")
        assert len(questions(one)) == 2


@needs_sandbox
def test_a_link_that_changes_while_the_question_is_open_leads_nowhere():
    def answer(params):
        os.rename(one.work + "/real", one.work + "/moved")
        os.symlink(one.outside, one.work + "/real")
        return say("once")(params)

    with Mcp(ask=answer, where=("--env", "local", "--read-only")) as one:
        os.mkdir(one.work + "/real")
        assert one.failure("write_file", path="real/made", content="1")
        assert not os.listdir(one.outside)


def deny_profile(one, path):
    profile = {"type": "managed", "file_system": {"type": "restricted", "entries": [
        {"path": {"type": "special", "value": {"kind": "root"}}, "access": "write"}, {"path": {"type": "path", "path": path}, "access": "deny"}]},
        "network": "restricted"}
    with open(one.base + "/profile.json", "w", encoding="utf-8") as f:
        json.dump(profile, f)
    return one.base + "/profile.json"


@needs_sandbox
def test_a_denied_read_is_asked_about_and_is_no_yes_to_a_write():
    with Mcp(*OPEN) as base:
        secret = put(base, "secret", b"\x89PNG\r\n\x1a\n", base.outside)
        with Mcp("--profile", deny_profile(base, secret), ask=say("session")) as one:
            assert one.call("read_file", path=secret)["size"] == 8
            (question,) = questions(one)
            assert question["message"].startswith("Read this file, which the sandbox does not allow?\n")
            assert one.call("view_image", path=secret)["mime_type"] == "image/png" and len(questions(one)) == 1
            one.call("write_file", path=secret, content="mine")
            assert questions(one)[1]["message"].startswith("Change these files") and get(secret) == b"mine"
        with Mcp("--profile", deny_profile(base, secret), ask=say("deny")) as one:
            assert "Permission denied" in one.failure("read_file", path=secret) and get(secret) == b"mine"


@needs_sandbox
def test_a_list_that_is_denied_is_not_asked_about():
    with Mcp(*OPEN) as base:
        with Mcp("--profile", deny_profile(base, base.outside), ask=say("once")) as one:
            assert "Permission denied" in one.failure("list_directory", path=base.outside) and not one.asked


def test_several_environments():
    with Server() as server:
        toml = f'default = "far"\n[[environments]]\nid = "far"\nurl = "{server.url}"\n'
        with Mcp(*OPEN, where=(), toml=toml) as one:
            put(one, "x", "1\n")
            assert one.call("read_file", path="x", environment_id="local")["text"] == "1\n"
            assert one.call("read_file", path=one.work + "/x")["text"] == "1\n"
            assert one.failure("read_file", path="x", environment_id="none") == "unknown environment id `none`"
