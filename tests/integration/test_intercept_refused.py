"""What a server says that cannot intercept programs: strace takes a system call away from it, or is itself the tracer of its processes."""

import json
import subprocess

import pytest

from farhand_client import BIN, PATIENCE, merged_env
from fault_rig import why_no_strace

STARTED = {"processId": "p", "argv": ["/bin/sh", "-c", "echo ran > ran"], "cwd": "/", "env": {}, "tty": False}


@pytest.fixture(autouse=True)
def strace_works():
    reason = why_no_strace()
    if reason:
        pytest.skip(reason)


class Traced:
    """A server on stdio below strace."""

    def __init__(self, *options):
        self.proc = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", *options, BIN, "serve", "--listen", "stdio"],
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


@pytest.mark.parametrize("options, step, error", [
    (("-e", "inject=pidfd_getfd:error=ENOSYS"), "listener", "ENOSYS"),
    (("-e", "inject=seccomp:error=EINVAL"), "filter", "EINVAL"),
    (("-e", "trace=execve"), "ptrace", "EPERM"),
], ids=["listener", "filter", "tracer"])
def test_what_cannot_be_intercepted_is_refused_and_does_not_run(tmp, options, step, error):
    with Traced(*options) as server:
        for rules in ([], [{"name": "a", "text": 'prefix_rule(pattern=["sh"])'}], [{"name": "a", "text": "prefix_rule("}]):
            answer = server.call("process/start", {**STARTED, "cwd": tmp, "intercept": {"rules": rules}})
            data = answer["error"]["data"]
            assert answer["error"]["code"] == -32603, answer
            assert (data["step"], data["errnoName"], data["reason"]) == (step, error, "interceptUnavailable"), answer
            assert data["remedy"] and answer["error"]["message"].startswith("no program can be intercepted on this machine: ")
        assert "execInterceptV1" not in server.call("environment/info", {})["result"]["capabilities"]
        # Other commands start, and what was refused has not run.
        server.call("process/start", {**STARTED, "cwd": tmp, "argv": ["/bin/sh", "-c", "test ! -e ran && echo none > other"]})
        assert server.call("process/wait", {"processId": "p", "until": "exited"})["result"]["exitCode"] == 0


def test_the_doctor_says_so():
    done = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=pidfd_getfd:error=ENOSYS", BIN, "doctor", "--json"],
                          env=merged_env({}), capture_output=True, check=False, timeout=120)
    found = {f["name"]: f for f in json.loads(done.stdout)["findings"]}["interception"]
    assert found["status"] == "warn" and found["errno"] == "ENOSYS" and "pidfd_getfd" in found["remedy"], found
