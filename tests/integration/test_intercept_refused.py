"""What a server does that cannot intercept programs by the kernel: strace takes a system call away from it, or is itself the tracer of its
processes. It has a library loaded into programs in place of that, or refuses."""

import base64
import json
import os
import shutil
import subprocess

import pytest

from farhand_client import BIN, PATIENCE, merged_env
from fault_rig import why_no_strace

LIBRARY = os.path.join(os.path.dirname(BIN), "farhand-preload.so")
STARTED = {"processId": "p", "argv": ["/bin/sh", "-c", "echo ran > ran"], "cwd": "/", "env": {}, "tty": False}


@pytest.fixture(autouse=True)
def strace_works():
    reason = why_no_strace()
    if reason:
        pytest.skip(reason)


class Traced:
    """A server on stdio below strace."""

    def __init__(self, *options, binary=BIN):
        self.proc = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", *options, binary, "serve", "--listen", "stdio"],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=merged_env({}))
        self.number = 0

    def send(self, message):
        self.proc.stdin.write(json.dumps(message).encode() + b"\n")
        self.proc.stdin.flush()

    def call(self, method, params):
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        while True:
            answer = json.loads(self.proc.stdout.readline())
            if answer.get("id") == self.number:
                return answer

    def __enter__(self):
        self.call("initialize", {"clientName": "test"})
        self.send({"method": "initialized"})
        return self

    def __exit__(self, *_):
        self.proc.stdin.close()
        try:
            self.proc.wait(30 * PATIENCE)
        finally:
            self.proc.kill()
            self.proc.stdout.close()
            self.proc.stderr.close()


@pytest.fixture
def alone(tmp):
    """The server without the files that are installed beside it."""
    return shutil.copy(BIN, os.path.join(tmp, "farhand"))


WITHOUT = pytest.mark.parametrize("options, step, error", [
    (("-e", "inject=pidfd_getfd:error=ENOSYS"), "listener", "ENOSYS"),
    (("-e", "inject=seccomp:error=EINVAL"), "filter", "EINVAL"),
    (("-e", "trace=execve"), "ptrace", "EPERM"),
], ids=["listener", "filter", "tracer"])
@WITHOUT
@pytest.mark.parametrize("mechanism", ["any", "seccomp"])
def test_what_cannot_be_intercepted_is_refused_and_does_not_run(tmp, alone, options, step, error, mechanism):
    with Traced(*options, binary=alone if mechanism == "any" else BIN) as server:
        for rules in ([], [{"name": "a", "text": 'prefix_rule(pattern=["sh"])'}], [{"name": "a", "text": "prefix_rule("}]):
            answer = server.call("process/start", {**STARTED, "cwd": tmp, "intercept": {"rules": rules, "mechanism": mechanism}})
            data = answer["error"]["data"]
            assert answer["error"]["code"] == -32603, answer
            assert (data["step"], data["errnoName"], data["reason"]) == (step, error, "interceptUnavailable"), answer
            assert data["remedy"] and answer["error"]["message"].startswith("no program can be intercepted on this machine: ")
        if mechanism == "any":
            assert "execInterceptV1" not in server.call("environment/info", {})["result"]["capabilities"]
        # Other commands start, and what was refused has not run.
        server.call("process/start", {**STARTED, "cwd": tmp, "argv": ["/bin/sh", "-c", "test ! -e ran && echo none > other"]})
        assert server.call("process/wait", {"processId": "p", "until": "exited"})["result"]["exitCode"] == 0


@pytest.mark.skipif(not os.path.exists(LIBRARY), reason="built without farhand-preload.so")
@WITHOUT
def test_a_library_takes_the_place_of_the_kernel(tmp, options, step, error):
    del step, error
    script = "ls /; echo $?; /bin/echo ran"
    with Traced(*options) as server:
        params = {**STARTED, "cwd": tmp, "argv": ["/bin/sh", "-c", script],
                  "intercept": {"rules": [{"name": "a", "text": 'prefix_rule(pattern=["ls"], decision="forbidden")'}]}}
        answer = server.call("process/start", params)["result"]["intercept"]
        assert answer["mechanism"] == "preload" and "static programs" in answer["warning"]
        capabilities = server.call("environment/info", {})["result"]["capabilities"]
        assert capabilities["execInterceptV1"]
        ended = server.call("process/wait", {"processId": "p", "until": "exited"})["result"]
        assert ended["exitCode"] == 0 and ended["intercepted"] == {"run": 2, "escalated": 0, "denied": 1}, ended
        chunks = server.call("process/read", {"processId": "p", "afterSeq": 0})["result"]["chunks"]
        text = b"".join(base64.b64decode(chunk["chunk"]) for chunk in chunks if chunk["stream"] == "stdout")
        assert text == b"1\nran\n", chunks


def test_want_of_memory_does_not_make_the_interception_weaker(tmp):
    with Traced("-e", "inject=seccomp:error=ENOMEM") as server:
        error = server.call("process/start", {**STARTED, "cwd": tmp, "intercept": {"rules": []}})["error"]
        assert (error["data"]["step"], error["data"]["errnoName"]) == ("filter", "ENOMEM") and not os.path.exists(f"{tmp}/ran"), error


@pytest.mark.skipif(not os.path.exists(LIBRARY), reason="built without farhand-preload.so")
def test_run_warns(tmp):
    with open(f"{tmp}/a.rules", "w", encoding="ascii") as f:
        f.write('prefix_rule(pattern=["ls"], decision="forbidden")')
    done = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=pidfd_getfd:error=ENOSYS", BIN, "run", "-n", "--rules",
                           f"{tmp}/a.rules", "--", "sh", "-c", "ls /; echo $?"], env=merged_env({}), capture_output=True, check=False, timeout=120)
    assert done.stdout == b"1\n" and b": warning: " in done.stderr and b"static programs" in done.stderr, done


def test_the_doctor_says_so():
    done = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=pidfd_getfd:error=ENOSYS", BIN, "doctor", "--json"],
                          env=merged_env({}), capture_output=True, check=False, timeout=120)
    found = {f["name"]: f for f in json.loads(done.stdout)["findings"]}["interception"]
    assert found["status"] == "warn" and found["errno"] == "ENOSYS" and "pidfd_getfd" in found["remedy"], found
