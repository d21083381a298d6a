"""Bash with packaging/bash/exec-hook.patch, and farhand-execve-wrapper. FARHAND_PATCHED_BASH names the shell; `make patched-bash`."""

import json
import os
import shutil
import socket
import struct
import subprocess
import threading

import pytest

import intercept_scenes
from intercept_rig import RULES, intercept, programs
from intercept_scenes import SCENES, places  # pylint: disable=unused-import
from test_execve_wrapper import WRAPPER

BASH = os.environ.get("FARHAND_PATCHED_BASH", "")
pytestmark = pytest.mark.skipif(not os.access(BASH, os.X_OK), reason="needs a patched bash: make patched-bash")

# What the shell itself starts. The wrapper is not asked about what others start.
OF_THE_SHELL = ["plain", "pipeline", "background jobs", "exec builtin", "exec in a subshell", "subshell and cwd", "command substitution",
                "standard input", "here string", "process substitution", "descriptor 3", "all descriptors", "closed errors", "printenv",
                "argv[0] of a shell", "exit code", "death by signal", "TERM arrives", "KILL arrives", "missing programs",
                "umask of what it makes", "limits", "deleted cwd", "decided script", "decided script without interpreter", "relative path",
                "name that is not UTF-8", "large argument", "very large environment", "argument that is not UTF-8", "much input",
                "reader that goes", "static program"]
# Without a sandbox nothing tells a program inside from one outside.
WHERE = ["namespaces-root", "landlock-root", "bubblewrap-unprivileged", "landlock-unprivileged"]


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


@pytest.mark.parametrize("name, verdict", [(name, verdict) for name in OF_THE_SHELL for verdict in SCENES[name].verdicts])
@pytest.mark.parametrize("where", WHERE)
def test_scene(places, where, name, verdict):  # pylint: disable=redefined-outer-name
    """The scenes of intercept_scenes.py, decided about by a server."""
    place, scene = places.get(where), SCENES[name]
    shell = os.path.join(programs(), "patched-bash")
    if not os.path.exists(shell):
        shutil.copy(BASH, shell)
    done = place.sh(scene.script, intercept(RULES[verdict](scene.program), mechanism="wrapper"), shell=shell)
    intercept_scenes.judge(scene, verdict, done)


def test_what_other_programs_start_is_not_asked_about(places):  # pylint: disable=redefined-outer-name
    shell = shutil.copy(BASH, os.path.join(programs(), "patched-bash-nested"))
    done = places.get("namespaces-root").sh("nice where; where", intercept(RULES["escalate"]("where"), mechanism="wrapper"), shell=shell)
    assert done.out == b"inside\noutside\n" and done.counts == {"run": 2, "escalated": 1, "denied": 0}, done
