"""The mechanism `preload`: a library in every program of a command asks about what the program starts. It is what is used where the kernel
lets no start wait (test_intercept_refused.py), and sees less: static programs, and programs that make their system calls themselves."""

import os
import shutil
import tempfile

import pytest

import farhand_client
import intercept_scenes
from farhand_client import BIN, RpcError, Server
from intercept_rig import FORBIDDEN, RULES, intercept, rule, text_of
from intercept_scenes import CASES, SCENES, places  # pylint: disable=unused-import
from sandbox_rig import ENV, at, sandbox, uri, workspace_write

WARNING = "static programs"
LIBRARY = os.path.join(os.path.dirname(BIN), "farhand-preload.so")

pytestmark = pytest.mark.skipif(not os.path.exists(LIBRARY), reason="built without farhand-preload.so")

# `start` makes these system calls itself, and start-static all of them.
UNSEEN = {f"{how} of start" for how in ("execve", "path-descriptor", "directory", "thread")} | \
         {f"{how} of start-static" for how in intercept_scenes.HOW} | {"no vectors"}
# What differs without being wrong: the variables are seen, and a busybox may be static.
OTHERS = {"empty environment", "busybox"}
# A sandbox of each kind and a user of each, with some of the scenes.
ELSEWHERE = ["bubblewrap-unprivileged", "landlock-root", "landlock-unprivileged", "namespaces-unprivileged"]
SOME = ["plain", "pipeline", "background jobs", "exec builtin", "python subprocess", "python posix_spawn", "vfork of start",
        "xargs in parallel", "make in parallel", "script", "script without interpreter", "large argument", "many arguments", "env -i with a shell",
        "unset variables", "all descriptors", "awk system()", "perl exec", "git hook", "deleted cwd", "TERM arrives"]


def preload(*texts, **more):
    return intercept(*texts, mechanism="preload", **more)


@pytest.fixture
def one(places):
    return places.get("namespaces-root" if os.geteuid() == 0 else "namespaces-unprivileged")


def judge_scene(place, name, verdict):
    scene = SCENES[name]
    intercept_scenes.skip_without_programs(scene)
    done = place.sh(scene.script, preload(RULES[verdict](scene.program)), shell=scene.shell, env=scene.env)
    intercept_scenes.judge(scene, "run" if name in UNSEEN else verdict, done)


@pytest.mark.parametrize("name, verdict", [case for case in CASES if case.values[0] not in OTHERS])
def test_scene(one, name, verdict):
    judge_scene(one, name, verdict)


@pytest.mark.parametrize("verdict", ["run", "escalate", "deny"])
@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("where", ELSEWHERE)
def test_scene_elsewhere(places, where, name, verdict):
    if verdict in SCENES[name].verdicts:
        judge_scene(places.get(where), name, verdict)


@pytest.mark.parametrize("decision, out, counted", [("run", b"inside\n", "run"), ("escalate", b"outside\n", "escalated"), ("deny", b"", "denied")])
def test_the_client_is_asked(one, decision, out, counted):
    done = one.sh("where", preload(RULES["ask"]("where"), report=False), decide=lambda _: {"decision": decision})
    question, = done.questions
    assert done.out == out and done.counts[counted] >= 1 and text_of(question, "file").endswith(b"/where"), done


def test_the_first_program_is_decided_about_and_not_asked_about_twice(one):
    done = one.sh("where", preload(rule("prompt", "bash")), decide=lambda _: {"decision": "run"})
    assert done.out == b"inside\n" and len(done.questions) == 1 and done.counts == {"run": 2, "escalated": 0, "denied": 0}, done
    outside = one.sh("env; where", preload(rule("allow", "bash")))
    assert b"PRELOAD" not in outside.out and b"ESCALATE" not in outside.out and outside.out.endswith(b"outside\n"), outside


def test_the_shell_alone_is_asked_about_with_that_scope(one):
    script = "where; sh -c 'where; :'; bash -c 'where; :'; env where"
    done = one.sh(script, preload(rule("forbidden", "where"), scope="shell"))
    assert done.out == b"inside\n" * 2 and done.err.decode() == FORBIDDEN * 2, done


def test_escalated_programs_and_their_requests_have_the_environment_of_the_caller(one):
    done = one.sh("export A=1; env", preload(rule("allow", "env")), env={"LD_PRELOAD": "/nonexistent-of-ours.so"})
    names = {entry.partition(b"=")[0] for entry in done.out.split(b"\n")}
    assert b"A" in names and not names & {b"FARHAND_EXEC_PRELOAD", b"CODEX_ESCALATE_SOCKET", b"EXEC_WRAPPER"}, done
    assert b"LD_PRELOAD=/nonexistent-of-ours.so\n" in done.out, done


@pytest.mark.parametrize("script", ["exec 198>&-; where", "exec 198>/dev/null; where", "python3 -c 'import os; os.closerange(3, 500); os.system(\"where\")'",
                                    "python3 -c 'import os; os.closerange(3, 500); os.execvp(\"where\", [\"where\"])'",
                                    "python3 -c 'import os, resource\nfor f in range(3, 300):\n try: os.set_inheritable(f, False)\n except OSError: pass\n"
                                    "os.execvp(\"where\", [\"where\"])'"],
                         ids=["closed", "replaced", "closerange and system", "closerange", "not inheritable"])
def test_what_a_program_does_to_the_socket_lets_nothing_through(one, script):
    done = one.sh(script, preload(rule("forbidden", "where")))
    assert done.out == b"" and FORBIDDEN in done.err.decode(), done


@pytest.mark.parametrize("script", ["FARHAND_EXEC_PRELOAD=all:/x:/y where", "FARHAND_EXEC_PRELOAD= where",
                                    "export FARHAND_EXEC_PRELOAD=nonsense; where; (where)"], ids=["changed", "empty", "exported"])
def test_a_changed_variable_lets_nothing_through(one, script):
    done = one.sh(script, preload(rule("forbidden", "where")))
    assert done.out == b"" and FORBIDDEN in done.err.decode(), done


# Who asks: the library, and the wrapper where the library cannot

ONCE = {"run": (b"inside\n", {"run": 1, "escalated": 0, "denied": 0}), "escalate": (b"outside\n", {"run": 0, "escalated": 1, "denied": 0}),
        "deny": (b"", {"run": 0, "escalated": 0, "denied": 1})}
VERDICTS = pytest.mark.parametrize("verdict", ONCE)
NOT_DUMPABLE = "python3 -c 'import ctypes, os; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); os.execvp(\"where\", [\"where\"])'"
SPAWN = "python3 -c 'import os; os.waitpid(os.posix_spawnp(\"where\", [\"where\"], os.environ), 0)'"
# How often something else than `where` is started.
ASKERS = {"library": ("where; :", 0), "library, standard input closed": ("where <&-; :", 0), "library, large arguments":
          ("a=$(printf %0120000d 1); where $a $a $a $a $a $a $a $a $a $a $a $a $a $a $a; :", 0),
          "wrapper for a child of posix_spawn": (SPAWN + "; :", 1), "process that is not dumpable": (NOT_DUMPABLE + "; :", 1)}


@VERDICTS
@pytest.mark.parametrize("asker", ASKERS)
@pytest.mark.parametrize("where", ["none-unprivileged", "namespaces-unprivileged"])
def test_each_start_is_decided_about_once(places, where, asker, verdict):
    script, others = ASKERS[asker]
    out, counts = ONCE[verdict]
    done = places.get(where).sh(script, preload(RULES[verdict]("where"), scope="below"))
    assert done.out == (b"outside\n" if out and where.startswith("none") else out), done
    assert done.counts == {**counts, "run": counts["run"] + others} and (FORBIDDEN in done.err.decode()) == (verdict == "deny"), done


def test_a_start_that_runs_executes_no_wrapper(monkeypatch):
    with tempfile.TemporaryDirectory(prefix="fh-preload-", dir="/var/tmp") as folder:
        for name in (os.path.basename(BIN), "farhand-execve-wrapper", "farhand-preload.so"):
            shutil.copy(os.path.join(os.path.dirname(BIN), name), folder)
        monkeypatch.setattr(farhand_client, "BIN", os.path.join(folder, os.path.basename(BIN)))
        script = f"rm {folder}/farhand-execve-wrapper; /bin/echo ran; /usr/bin/printf ran; echo $?"
        with Server() as server, server.connect() as client:
            client.call("process/start", {"processId": "p", "argv": ["/bin/bash", "-c", script], "cwd": uri("/"), "env": ENV, "tty": False,
                                          "arg0": None, "pipeStdin": False, "intercept": preload(rule("forbidden", "printf"))})
            exited = client.wait_exit("p")
            assert client.output("p", "stdout") == b"ran\n127\n", exited


def test_a_program_with_libraries_of_its_own_asks_too(one):
    script = "export LD_PRELOAD=/nonexistent-of-ours.so; env | grep ^LD_PRELOAD=; sh -c 'where; :'"
    done = one.sh(script, preload(rule("forbidden", "where")))
    assert done.out.decode() == f"LD_PRELOAD={LIBRARY}:/nonexistent-of-ours.so\n" and FORBIDDEN in done.err.decode(), done


def test_a_program_that_marks_its_descriptors_passes_the_socket_on(one):
    script = ("python3 -c 'import os\nfor f in range(3, 300):\n try: os.set_inheritable(f, False)\n except OSError: pass\n"
              "os.execvp(\"sh\", [\"sh\", \"-c\", \"where; where; :\"])'")
    done = one.sh(script, preload(scope="below"))
    assert done.out == b"inside\n" * 2 and done.counts == {"run": 4, "escalated": 0, "denied": 0}, done


def test_a_script_without_interpreter_is_found_by_path(one):
    script = "printf 'where\n:\n' >n.sh; chmod +x n.sh; env ./n.sh; PATH=.:$PATH env n.sh"
    assert one.sh(script, preload()).out == b"inside\n" * 2
    done = one.sh(script, preload(rule("forbidden", "where")))
    assert done.out == b"" and done.err.decode() == FORBIDDEN * 2, done


# The start


def test_the_answer_says_what_is_not_seen(one):
    for mechanism, wanted in (("preload", "preload"), ("any", "seccomp"), ("seccomp", "seccomp")):
        params = one.params(["/bin/true"], intercept(mechanism=mechanism), one.tree().w)
        answer = one.client.call("process/start", params)["intercept"]
        assert answer["mechanism"] == wanted and (WARNING in answer.get("warning", "")) == (wanted == "preload"), answer
        one.client.wait_exit(params["processId"])


def test_a_sandbox_that_hides_the_library_is_refused(one):
    tree = one.tree()
    with open(f"{tree.w}/script", "w", encoding="ascii") as f:
        f.write("#!/bin/sh\necho ran > ran\n")
    os.chmod(f"{tree.w}/script", 0o755)
    params = one.params(["/bin/sh", "-c", "echo ran > ran"], preload(), tree.w)
    params["sandbox"] = sandbox(workspace_write(at(os.path.dirname(BIN), "deny")), tree.w)
    with pytest.raises(RpcError) as caught:
        one.client.call("process/start", params)
    data = caught.value.data
    assert (data["step"], data["reason"]) == ("preload", "interceptUnavailable") and data["remedy"], data
    assert not os.path.exists(f"{tree.w}/ran")


def test_a_library_that_cannot_be_loaded_lets_nothing_run(one):
    """What the wrapper can read, and ld.so could not: the wrapper looks before it executes anything."""
    tree = one.tree()
    params = one.params(["/bin/sh", "-c", "echo ran > ran"], preload(), tree.w)
    params["sandbox"] = sandbox(workspace_write(at(LIBRARY, "deny")), tree.w)
    one.client.call("process/start", params)
    exited = one.client.wait_exit(params["processId"])
    assert exited["exitCode"] == 126 and not os.path.exists(f"{tree.w}/ran"), exited


def test_a_server_without_the_library_refuses(monkeypatch):
    with tempfile.TemporaryDirectory(prefix="fh-preload-", dir="/var/tmp") as folder:
        for name in (os.path.basename(BIN), "farhand-execve-wrapper"):
            shutil.copy(os.path.join(os.path.dirname(BIN), name), folder)
        monkeypatch.setattr(farhand_client, "BIN", os.path.join(folder, os.path.basename(BIN)))
        with Server() as server, server.connect() as client:
            with pytest.raises(RpcError) as caught:
                client.call("process/start", {"processId": "p", "argv": ["/bin/true"], "cwd": uri("/"), "env": ENV, "tty": False, "arg0": None,
                                              "pipeStdin": False, "intercept": preload()})
            data = caught.value.data
            assert (data["step"], data["reason"], data["errnoName"]) == ("preload", "interceptUnavailable", "ENOENT"), data
