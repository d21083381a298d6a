"""Bash with packaging/bash/exec-hook.patch, and farhand-execve-wrapper. FARHAND_PATCHED_BASH names the shell; `make patched-bash`."""

import json
import os
import socket
import struct
import subprocess
import threading

import pytest

from test_execve_wrapper import WRAPPER

BASH = os.environ.get("FARHAND_PATCHED_BASH", "")
pytestmark = pytest.mark.skipif(not os.access(BASH, os.X_OK), reason="needs a patched bash: make patched-bash")


def serve(near, decide, asked):
    """Answers each wrapper until the shell has ended."""
    while True:
        data, fds, _, _ = socket.recv_fds(near, 16, 4)
        if not data:
            return
        with socket.socket(fileno=fds[0]) as stream:
            stream.setblocking(True)
            head = stream.recv(4, socket.MSG_WAITALL)
            request = json.loads(stream.recv(struct.unpack("<I", head)[0], socket.MSG_WAITALL))
            asked.append(request)
            answer = json.dumps({"action": decide(request)}).encode()
            stream.sendall(struct.pack("<I", len(answer)) + answer)


def run(script, decide, env=None, variable="EXEC_WRAPPER"):
    asked = []
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    thread = threading.Thread(target=serve, args=(near, decide, asked), daemon=True)
    thread.start()
    given = {"PATH": "/usr/bin:/bin", variable: WRAPPER, "CODEX_ESCALATE_SOCKET": str(far.fileno()), **(env or {})}
    done = subprocess.run([os.path.abspath(BASH), "-c", script], env=given, pass_fds=[far.fileno()], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60, check=False)
    far.close()
    thread.join(10)
    near.close()
    return done, asked


def run_all(_):
    return "Run"


@pytest.mark.parametrize("variable", ["EXEC_WRAPPER", "BASH_EXEC_WRAPPER"])
def test_every_program_of_the_shell_is_asked_about(variable):
    done, asked = run("echo hi; /bin/echo a b | cat; exec /bin/echo last", run_all, variable=variable)
    assert (done.returncode, done.stdout) == (0, b"hi\na b\nlast\n"), done
    assert sorted(one["file"].rpartition("/")[2] for one in asked) == ["cat", "echo", "echo"]


def test_a_script_cannot_switch_it_off():
    script = "unset EXEC_WRAPPER; /bin/echo one; EXEC_WRAPPER= /bin/echo two; export EXEC_WRAPPER=; /bin/echo three"
    done, asked = run(script, lambda _: {"Deny": {"reason": "no"}})
    assert done.stdout == b"" and done.stderr == b"Execution denied: no\n" * 3 and len(asked) == 3


def test_large_arguments_and_names_arrive_whole():
    """An argument vector that the hook shifted in place would lose some of them."""
    done, asked = run("/bin/echo $(printf %0100000d 1); touch /nonexist/x; exit $?", run_all)
    assert len(done.stdout) == 100_001 and b"touch: cannot touch" in done.stderr and done.returncode == 1
    assert asked[1]["argv"] == ["touch", "/nonexist/x"]


def test_statuses_and_scripts_are_as_ever():
    done, _ = run("nosuch; echo $?; /etc/passwd; echo $?; f=$(mktemp); echo 'echo ran $1' >$f; chmod +x $f; $f word; rm $f", run_all)
    assert done.stdout == b"127\n126\nran word\n", done


def test_without_a_wrapper_nothing_is_executed():
    done = subprocess.run([os.path.abspath(BASH), "-c", "/bin/echo ran; echo $?"], env={"EXEC_WRAPPER": "/no/such"}, capture_output=True,
                          check=False, timeout=60)
    assert done.stdout == b"126\n" and b"/no/such" in done.stderr


def test_without_the_variable_it_is_a_plain_shell():
    done = subprocess.run([os.path.abspath(BASH), "-c", "/bin/echo ran"], env={}, capture_output=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == (b"ran\n", b"")
