"""The mechanism `wrapper`: a shell that was built for it executes a wrapper in place of each program, and the wrapper asks the broker of the
command. Here a function of a plain shell stands for such a shell; test_patched_bash.py has a real one."""

import os
import re
import shutil
import signal

import pytest

from farhand_client import BIN, RpcError, wait_until
from intercept_rig import DECIDE, FORBIDDEN, PLACES, REQUESTED, Places, compiled, intercept, programs, rule
from test_kill9 import Mark

WRAPPER = os.path.join(os.path.dirname(BIN), "farhand-execve-wrapper")
# `w FILE ARGV0 [ARG…]`, as a patched shell does it.
SHELL = 'w() { "$EXEC_WRAPPER" "$@"; }\n'
# With `exec` the background process $! is the wrapper itself, so that a signal to $! reaches it.
JOBS = 'w() { exec "$EXEC_WRAPPER" "$@"; }\n'
BOXED = [name for name in PLACES if not name.startswith("none")]


@pytest.fixture(scope="module")
def places():
    places = Places()
    yield places
    places.close()


@pytest.fixture(params=BOXED)
def place(request, places):
    return places.get(request.param)


@pytest.fixture
def one(places):
    """The one place for tests that do not depend on the sandbox."""
    return places.get("namespaces-root" if os.geteuid() == 0 else "namespaces-unprivileged")


@pytest.fixture
def mark():
    mark = Mark()
    yield mark
    mark.kill()


def wrapped(*texts, **more):
    return intercept(*texts, mechanism="wrapper", scope="shell", **more)


def where():
    return os.path.join(programs(), "where")


def sh(place, script, *texts, decide=None, options=None, **more):
    return place.sh(SHELL + script, {**wrapped(*texts), **(options or {})}, decide=decide, **more)


def test_programs_run_inside_escalate_and_are_denied(place):
    shutil.copy(where(), os.path.join(programs(), "where-not"))
    script = f"w {where()} where; w {programs()}/note note 9>&1; w {programs()}/where-not where-not; echo $?"
    done = sh(place, script, rule("allow", "note"), rule("forbidden", "where-not"))
    assert done.out == b"inside\noutside note\n1\n", done
    assert done.err.decode() == FORBIDDEN and done.counts == {"run": 1, "escalated": 1, "denied": 1}


def test_what_starts_without_the_wrapper_is_not_decided_about(one):
    done = sh(one, f"{where()}; sh -c {where()}", rule("forbidden", "where"))
    assert done.out == b"inside\n" * 2 and done.counts == {"run": 0, "escalated": 0, "denied": 0}, done


def test_the_first_program_is_decided_about_as_ever(one):
    script, options = SHELL + f"w {where()} where", {"mechanism": "wrapper"}
    done = one.sh(script, intercept(rule("forbidden", "bash"), **options))
    assert isinstance(done.refused, RpcError) and "Execution denied" in done.refused.message
    asked = one.sh(script, intercept(rule("prompt", "bash"), **options), decide=lambda _: {"decision": "run"})
    assert asked.out == b"inside\n" and asked.counts == {"run": 2, "escalated": 0, "denied": 0}, asked
    outside = one.sh("env", intercept(rule("allow", "bash"), **options))
    assert b"ESCALATE_SOCKET" not in outside.out and b"EXEC_WRAPPER" not in outside.out, "nothing decides about an escalated command"


@pytest.mark.parametrize("decision, out, counts", [("run", b"inside\n", "run"), ("escalate", b"outside\n", "escalated"), ("deny", b"", "denied")])
def test_the_client_is_asked(place, decision, out, counts):
    done = sh(place, f"cd /usr; w {where()} zero one 'two three'; exit $?", rule("prompt", "where"),
              decide=lambda _: {"decision": decision, **({"reason": "not today"} if decision == "deny" else {})})
    assert done.out == out and done.counts[counts] == 1 and sum(done.counts.values()) == 1, done
    question, = done.questions
    assert (question["file"], question["argv"], question["cwd"]) == (where(), ["zero", "one", "two three"], "/usr")
    assert question["pid"] > 1 and question["rule"]["name"] == "1.rules"
    assert (done.err, done.code) == ((b"Execution denied: not today\n", 1) if decision == "deny" else (b"", 0))


def test_an_answer_is_remembered(one):
    done = sh(one, f"for i in 1 2 3; do w {where()} where; done", rule("prompt", "where"),
              decide=lambda _: {"decision": "escalate", "remember": "process"})
    assert done.out == b"outside\n" * 3 and len(done.questions) == 1 and done.counts["escalated"] == 3, done


def test_reports_come_in_order(one):
    process_id, ident = one.start(["/bin/bash", "-c", SHELL + f"for i in 1 2 3; do w {where()} w $i; w {programs()}/note n $i 9>&1; done"],
                                  wrapped(rule("allow", "note"), report=True), "/usr")
    done = one.finish(process_id, ident)
    told = [(m["params"]["decision"], m["params"]["argv"][1]) for m in one.client.notifications
            if m["method"] == REQUESTED and m["params"]["processId"] == process_id]
    assert told == [(decision, n) for n in "123" for decision in ("run", "escalate")] and done.counts["run"] == 3, told


def test_a_wrapper_that_ends_takes_its_question_back(one, mark):
    process_id, ident = one.start(["/bin/bash", "-c", JOBS + f"w {where()} where & p=$!; read go; kill $p; wait $p; echo $?"],
                                  wrapped(rule("prompt", "where")), "/usr", pipeStdin=True, env={mark.name: mark.value})

    def of_this(decision):
        return lambda m: m.get("method") == REQUESTED and m["params"]["processId"] == process_id and m["params"]["decision"] == decision
    question = one.client.wait_for(of_this("ask"), 30)["params"]
    one.client.write(process_id, b"\n", write_id="1")
    one.client.wait_for(of_this("withdrawn"), 30)
    with pytest.raises(RpcError):
        one.client.call(DECIDE, {"processId": process_id, "requestId": question["requestId"], "decision": "run"})
    done = one.finish(process_id, ident, decide=lambda _: None)
    assert done.out == b"143\n" and not any(done.counts.values()), done
    mark.wait_gone()


# What an escalated program gets


def test_it_has_directory_environment_arguments_and_the_descriptors(place):
    tree = place.tree()
    script = f"""cd {tree.w}; umask 027; ulimit -n 777; A=1 B=$'\\xff' w /bin/bash zero -c '
        pwd; umask; ulimit -n; echo "$A $B"; echo "$0 $1"; echo three >&3; cat <&4; env | grep -c -e ESCALATE -e EXEC_WRAPPER' \
        $'n\\xe9' 'x y' 3>&1 4<<<four"""
    done = sh(place, script, rule("allow", "bash"))
    assert done.out == os.fsencode(tree.w) + b"\n0027\n777\n1 \xff\nn\xe9 x y\nthree\nfour\n0\n", done
    assert done.counts["escalated"] == 1


def test_it_gets_nothing_of_the_broker_and_no_end_of_the_pair(one):
    done = sh(one, f"w {where()} where descriptors", rule("allow", "where"))
    assert done.out == b"outside\n", done


def test_it_runs_in_a_deleted_directory(one):
    tree = one.tree()
    done = sh(one, f"mkdir {tree.w}/d; cd {tree.w}/d; rmdir ../d; w {where()} where; w /bin/ls ls -a; pwd", rule("allow", "ls", "where"),
              cwd=tree.w)
    assert done.out == f"outside\n{tree.w}/d\n".encode() and not done.err, done


def test_relative_names_are_those_of_the_callers_directory(one):
    tree = one.tree()
    done = sh(one, f"cp {where()} {tree.w}/mine; cd {tree.w}; w ./mine mine; w ../{os.path.basename(tree.w)}/mine mine",
              rule("allow", f"{tree.w}/mine"), cwd=tree.w)
    assert done.out == b"outside\n" * 2, done


def test_the_exit_status_and_the_signal_come_back(place):
    script = "w /bin/sh sh -c 'exit 7'; echo $?; for s in TERM KILL HUP USR1; do w /bin/sh sh -c \"kill -$s \\$\\$\"; echo $?; done"
    done = sh(place, script, rule("allow", "sh"))
    numbers = [128 + getattr(signal, "SIG" + s) for s in ("TERM", "KILL", "HUP", "USR1")]
    assert [int(n) for n in done.out.split()] == [7, *numbers], done


@pytest.mark.parametrize("verdict", ["allow", "prompt"])
def test_what_is_no_program_fails_as_it_would_without_a_wrapper(one, verdict):
    tree = one.tree()
    with open(f"{tree.w}/plain", "w", encoding="ascii") as f:
        f.write("no program")
    with open(f"{tree.w}/script", "w", encoding="ascii") as f:
        f.write("echo script $1\n")
    os.chmod(f"{tree.w}/plain", 0o644)
    os.chmod(f"{tree.w}/script", 0o755)
    os.mkdir(f"{tree.w}/missing")
    script = f"cd {tree.w}; w /no/such such; echo $?; w ./plain plain; echo $?; w ./missing missing; echo $?; w ./script script word; echo $?"
    done = sh(one, script, rule(verdict, "such", "plain", "script", "missing"), decide=lambda _: {"decision": "escalate"}, cwd=tree.w)
    assert done.out == b"127\n126\n126\nscript word\n0\n", done
    assert b"/no/such: No such file or directory\n" in done.err and b"./plain: Permission denied\n" in done.err
    assert done.counts["escalated"] == 1 and len(done.questions) == (verdict == "prompt"), done


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "CONT"])
def test_signals_reach_it(one, name):
    script = f"""w /bin/bash bash -c 'trap "echo got; exit 9" {name}; echo up; while :; do sleep 0.05; done' &
        p=$!; read go; kill -{name} $p; wait $p; echo $?"""
    process_id, ident = one.start(["/bin/bash", "-c", "set -m\n" + JOBS + script],
                                  wrapped(rule("allow", "bash")), "/usr", pipeStdin=True)
    one.client.wait_output(process_id, b"up\n", 30)
    one.client.write(process_id, b"\n", write_id="1")
    done = one.finish(process_id, ident)
    assert done.out == b"up\ngot\n9\n", done


def test_it_ends_with_its_wrapper(one, mark):
    script = JOBS + "w /bin/sleep sleep 1000 & p=$!; read go; kill -9 $p; wait $p; echo $?"
    process_id, ident = one.start(["/bin/bash", "-c", script], wrapped(rule("allow", "sleep")), "/usr", pipeStdin=True,
                                  env={mark.name: mark.value})

    def sleepers():
        names = {}
        for pid in mark.pids():
            try:
                with open(f"/proc/{pid}/comm", encoding="latin-1") as f:
                    names[pid] = f.read().strip()
            except OSError:
                pass
        return [pid for pid, name in names.items() if name == "sleep"]
    wait_until(sleepers, 30, "the escalated program")
    one.client.write(process_id, b"\n", write_id="1")
    done = one.finish(process_id, ident)
    assert done.out == b"137\n", done
    wait_until(lambda: not sleepers(), 20, "its end")
    mark.wait_gone()


def test_many_at_once(one):
    done = sh(one, f"for i in $(seq 60); do w {where()} where & done; wait", rule("allow", "where"), timeout=120)
    assert done.out == b"outside\n" * 60 and done.counts["escalated"] == 60, done


# The start


def test_the_environment_names_the_wrapper_and_the_socket(one):
    env = {"CODEX_ESCALATE_SOCKET": "5", "EXEC_WRAPPER": "/x", "BASH_EXEC_WRAPPER": "/y"}
    done = one.sh("env | grep -e ESCALATE -e WRAPPER | sort; readlink /proc/self/fd/$CODEX_ESCALATE_SOCKET", wrapped(), env=env)
    lines = done.out.decode().splitlines()
    number = lines[1].rpartition("=")[2]
    assert lines[0] == f"BASH_EXEC_WRAPPER={WRAPPER}" and lines[2] == f"EXEC_WRAPPER={WRAPPER}" and number.isdigit(), done
    assert re.fullmatch(r"socket:\[\d+\]", lines[3])
    done = one.sh("echo $EXEC_WRAPPER", wrapped(wrapper="/bin/false"))
    assert done.out == b"/bin/false\n"


@pytest.mark.parametrize("more", [{"wrapper": "relative"}, {"wrapper": ""}, {"wrapper": "/a\0b"}, {"wrapper": "/" + "x" * 5000}, {"wrapper": 5},
                                  {"wrapper": "/bin/false", "mechanism": "seccomp"}, {"mechanism": "other"}], ids=repr)
def test_a_start_that_asks_for_what_cannot_be(one, more):
    done = one.sh("echo ran", {**wrapped(), **more})
    assert isinstance(done.refused, RpcError) and done.refused.code == -32602 and done.out == b"", done


@pytest.mark.parametrize("path", ["/no/such/wrapper", "/etc/passwd"])
def test_a_wrapper_that_cannot_be_executed_is_refused(one, path):
    done = one.sh("echo ran", wrapped(wrapper=path))
    data = done.refused.data
    assert (data["reason"], data["step"]) == ("interceptUnavailable", "wrapper") and data["errno"] in (2, 13) and data["remedy"], data


def test_without_the_pair_nothing_is_executed(one):
    done = sh(one, f"exec 198>&-; w {where()} where; echo $?", rule("allow", "where"))
    assert done.out == b"1\n" and b"CODEX_ESCALATE_SOCKET" in done.err, done


# Standard error of a program that is denied


@pytest.mark.parametrize("how, status", [("2>&-", 1), ("2>&1 | true; echo ${PIPESTATUS[0]} #", 1)], ids=["closed", "nobody reads"])
def test_a_denied_program_ends_with_its_status_whatever_becomes_of_the_words(one, how, status):
    done = sh(one, f"w {where()} where {how}; echo $?", rule("forbidden", "where"))
    assert done.out == f"{status}\n".encode() and done.counts["denied"] == 1, done


def test_a_denied_program_waits_for_no_reader_of_its_words(one):
    tree = one.tree()
    done = sh(one, f"mkfifo f; exec 8<>f; head -c 65536 /dev/zero >&8; w {where()} where 2>&8; echo $?", rule("forbidden", "where"), cwd=tree.w)
    assert done.out == b"1\n", done


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_an_escalated_program_gets_no_descriptor_of_the_wrapper_in_place_of_a_closed_one(one, closed):
    done = sh(one, f"w /bin/sh sh -c 'for n in 0 2; do [ -e /proc/$$/fd/$n ] || echo no $n; done' {closed}", rule("allow", "sh"))
    assert done.out.split() == [word for n, sign in (("0", "<"), ("2", "2>")) if sign in closed.split("&")[0] + closed[4:]
                                for word in (b"no", n.encode())], done
