"""What our server sends and takes, held against docs/schema.

One session uses every method and meets every notification: each message must be valid in the strict reading, which requires what
our server always sends. Then params are spoiled, member by member: the server refuses what the schema refuses, and takes for
well-formed what the schema takes.
"""

import copy
import os
import shutil
import signal
import tempfile

import pytest

from farhand_client import Client, Server, pid_gone
from fs_helpers import b64
from http_origin import Origin, response
from sandbox_rig import at, read_only, sandbox, workspace_write
from schema_rig import FILES, METHODS, TO_CLIENT, Witness, is_valid, params_ref

NO_HELPER = "http helper not installed"
RAW = "stty raw -echo min 0 time 2; echo ready; while :; do sleep 0.02; done"


@pytest.fixture(scope="module")
def server():
    proxies = {name: None for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")}
    with Server(env={**proxies, "SCHEMA_TEST": "value"}) as s:
        yield s


def sh(script):
    return ["/bin/sh", "-c", script]


# --- the parts of the session


def handshake(server, c, _tmp):
    for resume in ("00000000-0000-4000-8000-000000000000", c.session_id[:8] + "-0000-4000-8000-000000000000"):
        with server.connect(init=False, witness=c.witness) as other:
            assert other.error("initialize", {"clientName": "x", "resumeSessionId": resume}).data["reason"]
    assert c.error("initialize", {"clientName": "x"}).code == -32600
    assert c.error("no/method").code == -32601
    c.notify("no/notification")
    c.wait_for(lambda m: m.get("id") == -1)
    c.send_raw("{")
    c.wait_for(lambda m: m.get("id") == -1 and "parse" in m["error"]["message"])
    with server.connect(witness=c.witness) as old:
        with server.connect(resume=old.session_id, init_params={"takeover": True, "detachMs": 5}, witness=c.witness):
            assert old.closed_code() == 4001
    assert c.call("session/list", {})["sessions"]


def environment(_server, c, tmp):
    c.call("environment/info")
    c.call("environment/info", {})
    c.call("environment/status")
    os.makedirs(f"{tmp}/.git")
    c.call("environmentConfig/read", {"cwd": tmp, "configPaths": [["mcp_servers"]], "requirementsPaths": [["x", "y"]]})
    os.makedirs(f"{tmp}/plugin/.codex-plugin")
    os.makedirs(f"{tmp}/plugin/skills/one")
    for name, text in ((".codex-plugin/plugin.json", '{"name":"demo"}'), ("skills/one/SKILL.md", "# one")):
        with open(f"{tmp}/plugin/{name}", "w", encoding="utf-8") as f:
            f.write(text)
    roots = c.call("capabilityRoots/discoverV1", {"roots": [
        {"id": "a", "path": f"{tmp}/plugin"}, {"id": "b", "path": f"{tmp}/none"}, {"id": "c", "path": "file://elsewhere/x"}]})["roots"]
    assert roots[0]["plugin"] and roots[0]["skills"] and roots[2]["error"]


def processes(_server, c, tmp):
    c.start("cat", sh("echo ready; exec cat"), pipeStdin=True)
    c.wait_output("cat", b"ready")
    assert c.write("cat", b"hello\n", "w1") == "accepted"
    c.wait_output("cat", b"hello")
    c.read("cat", afterSeq=0, maxBytes=1, waitMs=0)
    c.call("process/wait", {"processId": "cat", "waitMs": 1, "until": "exited"})
    c.call("process/snapshot", {"processId": "cat", "maxBytes": 3})
    c.call("process/signal", {"processId": "none", "signal": 10, "scope": "tree"})
    assert c.error("process/resize", {"processId": "cat", "rows": 3, "cols": 3}).code == -32600
    assert c.call("process/closeStdin", {"processId": "cat"})["status"] == "closed"
    c.wait_closed("cat")
    assert c.write("cat", b"x") == "stdinClosed"
    assert c.read("cat")["reason"] == "exited"
    assert c.call("process/wait", {"processId": "cat"})["exited"]
    for status, name in (("alreadyClosed", "cat"), ("unknownProcess", "none")):
        assert c.call("process/closeStdin", {"processId": name})["status"] == status
    c.start("sleep", ["sleep", "60"], limits={"wallMs": 60000, "openFiles": 64, "memoryBytes": 1 << 30})
    c.call("process/signal", {"processId": "sleep", "signal": "terminate"})
    assert c.wait_exit("sleep")["signal"] == "SIGTERM"
    c.start("slow", sh("trap 'exit 3' TERM; echo ready; while :; do sleep 0.02; done"))
    c.wait_output("slow", b"ready")
    c.call("process/terminate", {"processId": "slow", "mode": {"type": "graceful", "timeoutMs": 60000}})
    assert c.wait_exit("slow")["exitCode"] == 3
    c.call("process/terminate", {"processId": "slow"})
    c.start("much", sh("head -c 3000000 /dev/zero"))
    c.wait_closed("much")
    assert c.read("much")["gap"]
    c.start("quiet", ["sleep", "60"], io={"type": "pipe", "stdin": "open"}, kind="direct", limits={"silenceMs": 50})
    assert c.wait_exit("quiet")["reason"] == "silenceLimit"
    c.start("here", sh("exit 1"), env={}, envPolicy={"inherit": "core", "ignoreDefaultExcludes": False, "exclude": [], "set": {},
                                                     "includeOnly": []})
    c.start("shell", ["/bin/bash", "-lc", "true"],
            shellSnapshot={"scopeId": "s", "shell": {"name": "bash", "path": "/bin/bash"}}, metadata={"threadId": "t"})
    for name, decision in (("decided", "escalate"), ("refused", "deny")):
        c.request("process/start", {"processId": name, "argv": ["true"], "cwd": "/", "env": {"PATH": "/usr/bin:/bin"}, "tty": False,
                                    "intercept": {"rules": [], "onUnmatched": "ask", "report": True}})
        question = c.wait_for(lambda m, name=name: m.get("method") == "process/execRequested" and m["params"]["processId"] == name)["params"]
        c.call("process/list")
        c.call("process/execDecide", {"processId": name, "requestId": question["requestId"], "decision": decision})
    c.wait_closed("decided")
    c.call("process/list")
    assert c.call("process/list", {"scope": "server"})["processes"][0]["sessionId"] == c.session_id
    for more in ({"argv": ["/none"]}, {"cwd": f"{tmp}/none"}, {"processId": "here"}, {"argv": [""]}, {"limits": {"openFiles": 1 << 30}}):
        c.error("process/start", {"processId": "bad", "argv": ["true"], "cwd": "/", "env": {}, "tty": False, **more})
    assert c.error("process/read", {"processId": "none"}).code == -32600


def terminals(_server, c, _tmp):
    c.start("pty", sh(RAW), io={"type": "pty", "rows": 5, "cols": 40})
    c.wait_output("pty", b"ready")
    c.call("process/resize", {"processId": "pty", "rows": 40, "cols": 120})
    assert c.error("process/closeStdin", {"processId": "pty"}).data["reason"] == "rawTerminal"
    c.call("process/terminate", {"processId": "pty", "mode": {"type": "force"}})
    c.wait_closed("pty")
    c.call("process/snapshot", {"processId": "pty"})


def lost(_server, c, _tmp):
    """Kills the keeper of a command."""
    pid = c.start("lost", sh("echo ready; sleep 60"))["pid"]
    c.wait_output("lost", b"ready")
    with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
        os.kill(int(f.read().rpartition(")")[2].split()[1]), signal.SIGKILL)
    c.wait_closed("lost")
    pid_gone(pid)
    assert c.read("lost")["failure"]


def files(_server, c, tmp):
    path = f"{tmp}/file"
    done = c.call("fs/writeFile", {"path": path, "dataBase64": b64(b"hello"), "mode": 0o640, "ifMatch": {"absent": True}})
    error = c.error("fs/writeFile", {"path": path, "dataBase64": "", "ifMatch": {"size": 1, "modifiedAtMs": done["modifiedAtMs"]}})
    assert error.code == -32020 and error.data["current"]["size"] == 5
    error = c.error("fs/writeFile", {"path": f"{tmp}/none", "dataBase64": "", "ifMatch": {"digest": "sha256:" + "0" * 64}})
    assert error.code == -32020 and error.data["current"] is None
    c.call("fs/readFile", {"path": path, "followSymlinks": False})
    c.call("fs/createDirectory", {"path": f"{tmp}/a/b"})
    c.call("fs/getMetadata", {"path": path, "digest": True})
    c.call("fs/getMetadata", {"path": tmp})
    c.call("fs/symlink", {"path": f"{tmp}/link", "target": "file"})
    os.symlink(b"\xff", os.fsencode(f"{tmp}/odd"))
    c.call("fs/readLink", {"path": f"{tmp}/link"})
    assert "targetBase64" in c.call("fs/readLink", {"path": f"{tmp}/odd"})
    c.call("fs/canonicalize", {"path": f"{tmp}/link"})
    with open(os.fsencode(f"{tmp}/a/") + b"\xff", "wb"):
        pass
    assert "path" in c.call("fs/readDirectory", {"path": f"{tmp}/a"})["entries"][-1]
    c.call("fs/walk", {"path": tmp, "options": {"maxDepth": 3, "maxDirectories": 2, "maxEntries": 9, "followDirectorySymlinks": True}})
    c.call("fs/copy", {"sourcePath": f"{tmp}/a", "destinationPath": f"{tmp}/c", "recursive": True})
    c.call("fs/rename", {"sourcePath": f"{tmp}/c", "destinationPath": f"{tmp}/d"})
    c.call("fs/setMetadata", {"path": path, "mode": 0o600, "modifiedAtMs": -1})
    c.call("fs/writeFiles", {"path": tmp, "files": [{"name": "e", "dataBase64": "aGk=", "mode": 0o600, "modifiedAtMs": 1},
                                                    {"name": "c", "dataBase64": ""}]})
    c.call("fs/readFiles", {"path": tmp, "names": ["e", "none"]})
    c.call("fs/scanDirectory", {"path": tmp, "after": "a", "limit": 1})
    c.call("fs/digest", {"path": f"{tmp}/e", "offset": 1, "length": None})
    c.call("fs/checkAccess", {"paths": [{"path": path, "access": access} for access in ("read", "write", "remove")]})
    assert c.call("fs/checkAccess", {"paths": [{"path": f"{tmp}/none", "access": "remove"}]})["results"][0]["errno"] == 2
    c.call("fs/remove", {"path": f"{tmp}/d", "force": None})
    assert c.error("fs/readFile", {"path": f"{tmp}/none"}).data["errnoName"] == "ENOENT"


def blocks(_server, c, tmp):
    path = f"{tmp}/blocks"
    c.call("fs/open", {"handleId": "h", "path": path, "mode": "resume"})
    c.call("fs/writeBlock", {"handleId": "h", "offset": 0, "chunk": b64(b"hello")})
    c.call("fs/close", {"handleId": "h", "sync": True})
    c.call("fs/open", {"handleId": "h", "path": path})
    assert c.call("fs/readBlock", {"handleId": "h", "offset": 0, "len": 9})["eof"]
    c.call("fs/close", {"handleId": "h"})
    c.error("fs/readBlock", {"handleId": "h", "offset": 0, "len": 9})


def watches(_server, c, tmp):
    os.makedirs(f"{tmp}/watched")
    c.call("fs/watch", {"watchId": "w", "path": f"{tmp}/watched", "recursive": True})
    for name in ("one", "two"):
        with open(f"{tmp}/watched/{name}", "w", encoding="utf-8"):
            pass
    c.wait_for(lambda m: m.get("method") == "fs/changed" and "two" in str(m))
    os.rename(f"{tmp}/watched/one", f"{tmp}/watched/three")
    c.wait_for(lambda m: m.get("method") == "fs/changed" and "three" in str(m))
    full = [c.response(c.request("fs/watch", {"watchId": f"w{i}", "path": tmp})) for i in range(64)][-1]
    assert full["error"]["code"] == -32021 and full["error"]["data"]["value"] == 64
    c.call("fs/unwatch", {"watchId": "w"})
    assert c.call("fs/watchMissing", {"watchId": 1, "missing": [f"{tmp}/soon"], "present": tmp})["watching"]
    with open(f"{tmp}/soon", "w", encoding="utf-8"):
        pass
    c.wait_for(lambda m: m.get("method") == "fs/missingChanged")


def requests(_server, c, _tmp):
    with Origin() as origin:
        origin.on("/", lambda r, s: response(200, ["x-a: 1", "x-a: 2"], b"body"))
        asked = {"method": "GET", "url": origin.url + "/", "requestId": "r", "timeoutMs": 20000,
                 "headers": [{"name": "x-b", "value": "", "valueEnvVar": "SCHEMA_TEST"}]}
        answer = c.response(c.request("http/request", asked), 20)
        if NO_HELPER in str(answer):
            return {"http/request", "http/request/bodyDelta"}
        assert answer["result"]["status"] == 200
        c.call("http/request", {**asked, "streamResponse": True, "redirectPolicy": "stop"}, 20)
        c.wait_for(lambda m: m.get("method") == "http/request/bodyDelta" and m["params"]["done"], 20)
        assert c.error("http/request", {**asked, "url": "http://127.0.0.1:1/"}, 20).code == -32603
        c.error("http/request", {**asked, "url": "ftp://x/"})
    return set()


def sandboxed(_server, c, tmp):
    if c.call("environment/info")["sandboxBackend"] == "none":
        return
    box = sandbox(read_only(), tmp)
    c.start("boxed", sh("touch /etc/farhand-made"), cwd=tmp, sandbox=box)
    exited = c.wait_exit("boxed")
    assert exited["sandboxDenied"] and exited["denials"]
    c.wait_closed("boxed")
    c.read("boxed")
    c.call("process/list", {"processId": "boxed"})
    assert c.error("fs/writeFile", {"path": f"{tmp}/boxed", "dataBase64": "", "sandbox": box}).data["denied"]["rule"] == "readOnly"
    asked = {"paths": [{"path": f"{tmp}/boxed", "access": "write"}], "sandbox": box}
    assert "denied" in c.call("fs/checkAccess", asked)["results"][0]
    c.response(c.request("fs/writeFile", {"path": f"{tmp}/boxed", "dataBase64": "", "sandbox": sandbox(workspace_write(), tmp)}))
    hidden = sandbox(read_only(at(tmp, "deny")), tmp)
    assert c.error("process/start", {"processId": "hidden", "argv": ["true"], "cwd": tmp, "env": {}, "tty": False, "sandbox": hidden}).data
    old = {"sandboxPolicy": {"type": "read-only"}, "sandboxPolicyCwd": tmp}
    c.start("old", ["true"], sandbox=old)
    c.wait_closed("old")


def networked(_server, c, _tmp):
    """A connection that the policy denies."""
    if not c.call("environment/info")["capabilities"]["networkProxyLaunch"]:
        return {"network/policyDecision"}
    proxy = {"enabled": True, "mode": "full", "enableSocks5": False, "enableSocks5Udp": False, "allowUpstreamProxy": False,
             "allowLocalBinding": False, "dangerouslyAllowAllUnixSockets": False, "domains": {"a.test": "allow"}}
    ask = r'exec 5<>/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}; printf "GET http://b.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n" >&5; head -1 <&5'
    c.start("networked", ["/bin/bash", "-c", ask], networkProxy={"proxy": proxy, "executionId": "e"})
    c.wait_closed("networked")
    assert b"403" in c.output("networked", "stdout")
    c.read("networked")
    return set()


def test_all_that_the_server_sends_is_valid(server, tmp):
    witness, left_out = Witness(), set()
    with Client(server.url, init_params={"notifications": ["started", "failed"]}, witness=witness) as c:
        for part in (handshake, environment, processes, terminals, lost, files, blocks, watches, requests, sandboxed, networked):
            left_out |= part(server, c, tmp) or set()
            assert witness.faults == [], part.__name__
        assert not c.bad
    assert set(METHODS) - left_out == set(witness.answered)
    assert set(TO_CLIENT) - left_out == set(witness.notified)


def test_a_witness_sees_what_is_wrong():
    witness = Witness()
    witness.sent({"id": 1, "method": "process/start", "params": {}})
    witness.received({"id": 1, "result": {"processId": "p", "sandboxType": "none"}})
    assert len(witness.faults) >= 2 and any("'pid'" in fault for fault in witness.faults)
    witness.received({"method": "process/unknown", "params": {}})
    assert "not in index.json" in witness.faults[-1]


# --- params that are spoiled

# A name that is not there, in a directory of our own: some of the spoiled requests are good ones, and make it.
GROUND = tempfile.mkdtemp(prefix="fh-schema-")
NONE = f"{GROUND}/none/x"
OPTIONS = {"maxDepth": 1, "maxDirectories": 1, "maxEntries": 1, "followDirectorySymlinks": False}
SAMPLES = {
    "initialize": {"clientName": "x"},
    "session/list": {},
    "environment/info": None,
    "environment/status": None,
    "environmentConfig/read": {"cwd": "/", "configPaths": [["x"]], "requirementsPaths": [["y"]]},
    "capabilityRoots/discoverV1": {"roots": [{"id": "a", "path": NONE, "sandbox": None}]},
    "process/start": {"processId": "none", "argv": [NONE], "cwd": "/", "env": {"A": "b"}, "tty": False, "metadata": {"threadId": "t"},
                      "managedNetwork": {"loopbackPorts": [1]}, "limits": {"wallMs": 1000},
                      "intercept": {"rules": [{"name": "n", "text": ""}], "scope": "all", "programNames": "base", "onPrompt": "ask",
                                    "onUnmatched": "run", "report": False, "mechanism": "wrapper", "wrapper": "/bin/true"},
                      "envPolicy": {"inherit": "none", "ignoreDefaultExcludes": True, "exclude": ["a"], "set": {}, "includeOnly": []},
                      "shellSnapshot": {"scopeId": "s", "shell": {"name": "sh", "path": "/bin/sh"}}},
    "process/read": {"processId": "none"},
    "process/write": {"processId": "none", "chunk": "aGk="},
    "process/signal": {"processId": "none", "signal": "interrupt"},
    "process/terminate": {"processId": "none", "mode": {"type": "graceful", "timeoutMs": 5}},
    "process/closeStdin": {"processId": "none"},
    "process/resize": {"processId": "none", "rows": 1, "cols": 1},
    "process/wait": {"processId": "none"},
    "process/snapshot": {"processId": "none"},
    "process/execDecide": {"processId": "none", "requestId": "1", "decision": "deny", "reason": "no", "remember": "process"},
    "process/list": {"scope": "session"},
    "fs/readFile": {"path": NONE},
    "fs/writeFile": {"path": NONE, "dataBase64": "", "ifMatch": {"size": 1, "modifiedAtMs": 1}},
    "fs/createDirectory": {"path": NONE, "recursive": False},
    "fs/getMetadata": {"path": NONE},
    "fs/canonicalize": {"path": NONE},
    "fs/readDirectory": {"path": NONE},
    "fs/walk": {"path": NONE, "options": OPTIONS},
    "fs/remove": {"path": NONE},
    "fs/copy": {"sourcePath": NONE, "destinationPath": NONE, "recursive": False},
    "fs/rename": {"sourcePath": NONE, "destinationPath": NONE},
    "fs/symlink": {"path": NONE, "target": "x"},
    "fs/readLink": {"path": NONE},
    "fs/setMetadata": {"path": NONE, "mode": 0},
    "fs/scanDirectory": {"path": NONE, "limit": 1},
    "fs/readFiles": {"path": NONE, "names": ["x"]},
    "fs/writeFiles": {"path": NONE, "files": [{"name": "x", "dataBase64": "aGk="}]},
    "fs/digest": {"path": NONE, "offset": 0},
    "fs/checkAccess": {"paths": [{"path": NONE, "access": "write"}]},
    "fs/open": {"handleId": "none", "path": NONE},
    "fs/readBlock": {"handleId": "none", "offset": 0, "len": 1},
    "fs/writeBlock": {"handleId": "none", "offset": 0, "chunk": "aGk="},
    "fs/close": {"handleId": "none"},
    "fs/watch": {"watchId": "w", "path": NONE},
    "fs/unwatch": {"watchId": "w"},
    "fs/watchMissing": {"watchId": 1, "missing": [NONE]},
    "http/request": {"method": "GET", "url": "http://127.0.0.1:1/", "requestId": "r", "headers": [{"name": "a", "value": "b"}]},
}
SPOILT = [None, True, 0, 7, -1, 1.5, 2 ** 64, "", "x", "x" * 2000, [], ["x"], [[]], {}, {"x": 1}]
# Well-formed, and refused with the code of params for what they mean.
MEANT = {("http/request", "method"), ("http/request", "url"), ("http/request", "name"), ("process/start", "mechanism"),
         ("process/start", "text")}


@pytest.fixture(scope="module", autouse=True)
def ground():
    yield
    shutil.rmtree(GROUND, ignore_errors=True)


def test_there_is_a_sample_of_every_method():
    assert set(SAMPLES) == set(METHODS)
    for method, params in SAMPLES.items():
        assert is_valid(params_ref(method), params), method


def places(value, at=()):
    """Every member and every item inside of a value."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield at + (key,)
        yield from places(item, at + (key,))


def spoilt(params, members):
    """(what was done, the params with one thing changed)"""
    yield from ((("params",), value) for value in SPOILT)
    for place in [*places(params), *((name,) for name in members if name not in (params or ()))]:
        for value in [*SPOILT, ...]:
            changed = copy.deepcopy(params)
            inner = changed
            for key in place[:-1]:
                inner = inner[key]
            if value is ...:
                if isinstance(inner, dict):
                    inner.pop(place[-1], None)
                else:
                    del inner[place[-1]]
            else:
                inner[place[-1]] = value
            yield place, changed


def members_of(method):
    file, _, name = params_ref(method).partition("#/$defs/")
    return FILES[file]["$defs"][name].get("properties", {})


@pytest.mark.parametrize("method", sorted(METHODS))
def test_the_server_and_the_schema_agree_on_params(client, method):
    asked = [(place, params, client.request(method, params) if params is not None else client.request(method))
             for place, params in spoilt(SAMPLES[method], members_of(method))]
    for place, params, ident in asked:
        answer = client.response(ident, 30)
        code = answer.get("error", {}).get("code")
        if is_valid(params_ref(method), params):
            assert code != -32602 or (method, place[-1]) in MEANT, (params, answer)
        else:
            assert code is not None, (params, answer)
