"""What every kind of program start below an intercepted command comes to, when rules let it run inside, escalate it or deny it.

Each scene is a script, and what it prints for each decision about one program. The tests here are run by test_intercept_scenes*.py, in every
place: with each back end of sandboxes and without one, for root and for a user without rights. There are many; so each user has a file of
its own, which says by the fixture `place` where they run.
"""

import dataclasses
import os
import shutil
from typing import Callable, Optional

import pytest

from intercept_rig import FORBIDDEN, RULES, Places, intercept, programs, text_of

PLACED = {"run": "inside", "escalate": "outside", "deny": None}
VERDICTS = list(PLACED)


@dataclasses.dataclass
class Scene:
    """`out(w, s)` is the wanted output: w(more) is the line of `where`, nothing when it was denied; s is its exit status."""

    script: str
    out: Callable
    program: str = "where"
    verdicts: tuple = tuple(VERDICTS)
    # How many messages of denials are on stderr; None: stderr may hold anything.
    denials: Optional[int] = 1
    # What the scene itself writes to stderr when the program runs; None: anything.
    err: Optional[str] = ""
    # The exit status of the shell, as a function; None: that of the last command.
    code: Optional[Callable] = None
    shell: str = "/bin/bash"
    env: Optional[dict] = None
    # A program without which there is no such scene on this machine.
    needs: str = "sh"


def line(w, s):
    return w()


def line_and_status(w, s):
    return f"{w()}{s}\n"


def only(*verdicts, **more):
    return {"verdicts": verdicts, **more}


ALLOWED = only("run", "escalate")

# A rule names the loader, not what it loads.
LOADER = "ld-linux-x86-64.so.2" if os.uname().machine == "x86_64" else "ld-linux-aarch64.so.1"

UNTIL_DEAD = "mkfifo f; sh -c 'echo up; exec sleep 1000' >f & p=$!; exec 3<f; read up <&3; kill -{} $p; wait $p; echo $? $up; " \
             "cat <&3; echo ended"

SCENES = {
    # The shell itself
    "plain": Scene("where; echo $?", line_and_status),
    "others run": Scene("ls -d /; /bin/true; echo $?", lambda w, s: "/\n0\n", denials=0),
    "pipeline": Scene("echo a | cat | where | cat; git --version | cat | wc -l", lambda w, s: w() + "1\n"),
    "pipeline of both": Scene("where | cat; where | cat", lambda w, s: w() + w(), denials=2),
    "background job": Scene("where >bg & wait $!; echo $?; cat bg", lambda w, s: f"{s}\n{w()}"),
    "background jobs": Scene("for i in 1 2 3 4 5 6 7 8; do where & ls -d / >/dev/null & done; wait", lambda w, s: w() * 8, denials=8),
    "exec builtin": Scene("exec where", line, code=lambda s: s),
    "exec in a subshell": Scene("(exec where); echo $?", line_and_status),
    "subshell and cwd": Scene("(cd /usr; where cwd); where cwd | grep -c /w$", lambda w, s: w(" /usr") + ("1\n" if s == 0 else "0\n"),
                              denials=2),
    "physical cwd": Scene("(cd /usr; /bin/pwd; /usr/bin/pwd -P)", lambda w, s: "/usr\n/usr\n" if s == 0 else "", program="pwd", denials=2),
    "command substitution": Scene('x=$(where); echo "<$x>"', lambda w, s: f"<{w().strip()}>\n"),
    "standard input": Scene("echo hello | cat; cat <<E\nhere\nE", lambda w, s: "hello\nhere\n" if s == 0 else "", program="cat",
                            denials=2),
    "here string": Scene("cat <<<word", lambda w, s: "word\n" if s == 0 else "", program="cat"),
    "long here document": Scene("{ echo 'cat <<E'; printf '%0200000d\\n' 1; echo E; } >h; . ./h | wc -c",
                                lambda w, s: "200001\n" if s == 0 else "0\n", program="cat"),
    "process substitution": Scene("cat <(echo x)", lambda w, s: "x\n" if s == 0 else "", program="cat"),
    "in a process substitution": Scene("cat <(where)", line),
    "into a process substitution": Scene("mkfifo f; where > >(cat >f) & cat f; wait", line),
    "descriptor 3": Scene("exec 3>f3; echo q | tee /dev/fd/3 >/dev/null; cat f3", lambda w, s: "q\n" if s == 0 else "", program="tee"),
    "all descriptors": Scene("where descriptors 3>f3 7</dev/null 61>>f3", lambda w, s: w(" 3 7 61")),
    "closed input": Scene("where <&-", line),
    "closed output": Scene("where >&- 2>/dev/null; echo $?", lambda w, s: "3\n" if s == 0 else "1\n", denials=0),
    "closed errors": Scene("where 2>&-; echo $?", line_and_status, denials=0),
    "errors in a file": Scene("where 2>e; echo $?; cat e", lambda w, s: f"{w()}{s}\n{FORBIDDEN if s else ''}", denials=0),
    "errors to a full pipe": Scene("mkfifo f; exec 8<>f; head -c 65536 /dev/zero >&8; where 2>&8; echo $?", line_and_status, denials=0),
    "variable of one command": Scene("VARIABLE=bar where variable; export VARIABLE='a b'; where variable; unset VARIABLE; where variable",
                                     lambda w, s: w(" bar") + w(" a b") + w(" unset"), denials=3),
    "printenv": Scene("FOO=bar printenv FOO; export Z='a b'; printenv Z", lambda w, s: "bar\na b\n" if s == 0 else "",
                      program="printenv", denials=2),
    "empty environment": Scene('where=$(command -v where); exec env -i "$where" environment', line, code=lambda s: s),
    "argv[0] is kept": Scene("(exec -a zero where argv0)", lambda w, s: w(" zero")),
    "argv[0] of a shell": Scene('(exec -a zero sh -c "echo \\$0")', lambda w, s: "zero\n" if s == 0 else "", program="sh"),
    "argv[0] does not decide": Scene("(exec -a ls where argv0); (exec -a where ls -d /)", lambda w, s: w(" ls") + "/\n"),
    "exit code": Scene('sh -c "exit 7"; echo $?', lambda w, s: f"{7 if s == 0 else 1}\n", program="sh"),
    "death by signal": Scene('{ sh -c "kill -9 \\$\\$"; echo $?; } 2>/dev/null', lambda w, s: f"{137 if s == 0 else 1}\n", program="sh",
                             denials=0),
    "death by TERM": Scene('{ sh -c "kill -TERM \\$\\$"; echo $?; } 2>/dev/null', lambda w, s: f"{143 if s == 0 else 1}\n",
                           program="sh", denials=0),
    "TERM arrives": Scene(UNTIL_DEAD.format("TERM"), lambda w, s: "143 up\nended\n", program="sh", **ALLOWED, err=None),
    "KILL arrives": Scene(UNTIL_DEAD.format("KILL"), lambda w, s: "137 up\nended\n", program="sh", **ALLOWED, err=None),
    "HUP arrives": Scene(UNTIL_DEAD.format("HUP"), lambda w, s: "129 up\nended\n", program="sh", **ALLOWED, err=None),
    "ignored signals": Scene("trap '' USR1 USR2; where ignored", lambda w, s: w(" 10 12")),
    "missing programs": Scene("nosuch; echo $?; ./nox; echo $?; /etc/passwd; echo $?; /; echo $?", lambda w, s: "127\n127\n126\n126\n",
                              **only("run"), err=None),
    "function and trap": Scene("f() { where; }; trap f EXIT; :", line),
    "umask": Scene("umask 077; touch um; stat -c %a um 2>/dev/null; where umask", lambda w, s: "600\n" + w(" 077")),
    "umask of what it makes": Scene("umask 027; touch um; stat -c %a um 2>/dev/null", lambda w, s: "640\n" if s == 0 else "",
                                    program="touch"),
    "limits": Scene("ulimit -n 100; where files", lambda w, s: w(" 100/100")),
    "deleted cwd": Scene("mkdir d; cd d; rmdir ../d; where cwd", lambda w, s: w(" gone")),
    "unset variables": Scene('w=$(command -v where); unset LD_PRELOAD EXEC_WRAPPER BASH_EXEC_WRAPPER CODEX_ESCALATE_SOCKET PATH; "$w"; '
                             'EXEC_WRAPPER= LD_PRELOAD= "$w"', lambda w, s: w() * 2, denials=2, code=lambda s: s),
    "dash": Scene("where; where | cat; x=$(where); echo $x", lambda w, s: w() * 2 + (w() or "\n"), shell="/bin/dash", denials=3),
    "zsh": Scene("command where; command where | cat; x=$(command where); echo $x", lambda w, s: w() * 2 + (w() or "\n"), shell="/usr/bin/zsh", denials=3),
    # Programs that execute others
    "shell in a shell": Scene('sh -c "where; :"', line),
    "login shell": Scene('PATH=$PATH bash -c "where; :"', line),
    "env": Scene("env VARIABLE=1 where variable", lambda w, s: w(" 1")),
    "env -i": Scene('env -i "$(command -v where)"', line),
    "env -i with a shell": Scene('env -i /bin/sh -c "$(command -v where); :"', line),
    "env -S": Scene("env -S 'where argv0'", lambda w, s: w(" where")),
    "nice": Scene("nice -n 5 where nice", lambda w, s: w(f" {min(19, os.nice(0) + 5)}")),
    "timeout": Scene("timeout 60 where; echo $?", line_and_status),
    "timeout ends it": Scene("timeout 0.3 sleep 1000; echo $?", lambda w, s: f"{124 if s == 0 else 1}\n", program="sleep"),
    "timeout kills it": Scene("timeout -s KILL 0.3 sleep 1000; echo $?", lambda w, s: "137\n", program="sleep", **ALLOWED, err=None),
    "busybox": Scene('busybox sh -c "$(command -v where); :"; busybox env where', lambda w, s: w() * 2, needs="busybox", denials=2,
                     code=lambda s: s),
    "setsid": Scene("setsid -w where; echo $?", line_and_status),
    "nohup": Scene("nohup where </dev/null | cat", line, err=None, denials=None),
    "flock": Scene("flock lock where; echo $?", line_and_status),
    "prlimit": Scene("prlimit --nofile=90:91 where files", lambda w, s: w(" 90/91"), needs="prlimit", code=lambda s: s),
    "stdbuf": Scene("stdbuf -oL where", line, needs="stdbuf", code=lambda s: s),
    "wrapper in a wrapper": Scene("env nice timeout 60 setsid -w where; echo $?", line_and_status),
    "xargs": Scene("echo argv0 | xargs where", lambda w, s: w(" where"), code=lambda s: 123 if s else 0),
    "xargs in parallel": Scene("printf '%s\\n' a b c d e f | xargs -P 3 -n 1 where", lambda w, s: w() * 6, denials=6,
                               code=lambda s: 123 if s else 0),
    "find -exec": Scene("find / -maxdepth 0 -exec where \\;", line),
    "find -execdir": Scene("mkdir d; find d -maxdepth 0 -execdir where argv0 \\;", lambda w, s: w(" where")),
    "find -exec of many": Scene("touch a b; find a b -exec where argv0 {} +", lambda w, s: w(" where")),
    "awk system()": Scene("awk 'BEGIN{system(\"where; :\")}'", line),
    "awk pipe": Scene("awk 'BEGIN{\"where\" | getline x; print \"<\" x \">\"}'", lambda w, s: f"<{w().strip()}>\n"),
    "sed": Scene("echo where | sed e", lambda w, s: w() or "\n"),
    "perl exec": Scene("perl -e 'exec(\"where\",\"argv0\")'", lambda w, s: w(" where"), code=lambda s: s),
    "perl system": Scene("perl -e '$r=system(\"where\");print $r>>8,\"\\n\"'", line_and_status),
    "perl open": Scene("perl -e 'open(F,\"-|\",\"where\");print <F>;close F;print $?>>8,\"\\n\"'", line_and_status),
    "python subprocess": Scene("python3 -c \"import subprocess;r=subprocess.run(['where'],capture_output=True);"
                               "print(r.stdout.decode()+str(r.returncode))\"", line_and_status, denials=0),
    "python shell": Scene("python3 -c \"import subprocess,sys;sys.exit(subprocess.run('where',shell=True).returncode)\"", line,
                          code=lambda s: s),
    "python in another cwd": Scene("python3 -c \"import subprocess;subprocess.run(['where','cwd','variable'],cwd='/usr',"
                                   "env={'VARIABLE':'v','PATH':'$PATH'})\"", lambda w, s: w(" /usr v")),
    "python function before": Scene("python3 -c \"import subprocess,os;subprocess.run(['where','umask'],preexec_fn=lambda:os.umask(0o7))\"",
                                    lambda w, s: w(" 007")),
    # A file that was opened close-on-exec, and then became descriptor 1, which is not.
    "python to a file": Scene("python3 -c \"import subprocess;subprocess.run(['where'],stdout=open('f','w'))\"; cat f", line),
    "python posix_spawn": Scene("python3 -c \"import os;p=os.posix_spawn('$(command -v where)',['where'],os.environ);"
                                "print(os.waitstatus_to_exitcode(os.waitpid(p,0)[1]))\"", line_and_status),
    "python threads": Scene("python3 -c \"import subprocess,threading as t;T=[t.Thread(target=subprocess.run,args=(['where'],)) "
                            "for _ in range(6)];[x.start() for x in T];[x.join() for x in T]\"", lambda w, s: w() * 6, denials=6),
    "python thread that executes": Scene("python3 -c \"import os,threading as t;t.Thread(target=os.execvp,args=('where',['where'])).start()\"",
                                         line, code=lambda s: s),
    "python descriptor": Scene("python3 -c \"import os,sys;f=os.open(sys.argv[1],0);os.execve(f,['where'],os.environ)\" \"$(command -v where)\"",
                               line, code=lambda s: s),
    "python in another session": Scene("python3 -c \"import subprocess;print(subprocess.call(['where'],start_new_session=True))\"",
                                       line_and_status),
    "make": Scene("printf 'a:\\n\\t@where\\n' >mk; make -s -f mk a", line, err=None, denials=None, code=lambda s: 2 if s else 0),
    "make in parallel": Scene("printf 'a: b c d e\\nb c d e:\\n\\t@where\\n' >mk; make -s -j4 -k -f mk a", lambda w, s: w() * 4,
                              err=None, denials=None, code=lambda s: 2 if s else 0),
    "make function": Scene("printf 'x := $(shell where)\\na:\\n\\t@echo \"<$(x)>\"\\n' >mk; make -s -f mk a",
                           lambda w, s: f"<{w().strip()}>\n"),
    "git alias": Scene("git -c alias.x='!where' x", line, code=lambda s: s),
    "git hook": Scene("git init -q r; cd r; mkdir h; printf '#!/bin/sh\\nwhere >&2\\n' >h/pre-commit; chmod +x h/pre-commit; "
                      "git -c core.hooksPath=h -c user.name=n -c user.email=e@x commit -q --allow-empty -m m 2>../e; echo $?; "
                      "cat ../e", lambda w, s: f"{s}\n{w() or FORBIDDEN}", denials=0, **only("run", "escalate", "deny")),
    # Scripts
    "script": Scene("printf '#!/bin/sh\\nwhere\\necho $?\\n' >s.sh; chmod +x s.sh; ./s.sh", line_and_status),
    "bash script": Scene("printf '#!/bin/bash\\nwhere\\n:\\n' >s.sh; chmod +x s.sh; ./s.sh", line),
    "script for env": Scene("printf '#!/usr/bin/env -S bash -e\\nwhere\\n:\\n' >s.sh; chmod +x s.sh; ./s.sh", line, code=lambda s: s),
    "script without interpreter": Scene("printf 'where\\n:\\n' >n.sh; chmod +x n.sh; ./n.sh", line),
    "decided script": Scene("printf '#!/bin/sh\\nwhere\\n' >e.sh; chmod +x e.sh; ./e.sh; echo $?", line_and_status, program="e.sh"),
    "decided script without interpreter": Scene("printf 'where \"$@\"\\n:\\n' >e.sh; chmod +x e.sh; ./e.sh argv0; echo $?",
                                                lambda w, s: f"{w(' where')}{s}\n", program="e.sh"),
    "missing interpreter": Scene("printf '#!/no/such\\n' >e.sh; chmod +x e.sh; ./e.sh; echo $?", lambda w, s: f"{127 if s == 0 else 1}\n",
                                 program="e.sh", err=None, denials=None, **only("run", "deny")),
    # Names
    "absolute path": Scene('"$(command -v where)"', line),
    "relative path": Scene('cp "$(command -v where)" .; ./where; mkdir d; cd d; ../where; .././d/../where', lambda w, s: w() * 3, denials=3),
    "link has its own name": Scene('ln -s "$(command -v where)" alias; ./alias', line, program="alias"),
    "name that is not UTF-8": Scene("cp \"$(command -v where)\" $'wh\\xffre'; ./$'wh\\xffre'; where", lambda w, s: "inside\n" + w()),
    "loader": Scene(f'"$(ls /lib*/{LOADER} | head -1)" "$(command -v where)"', line, program=LOADER),
    # Arguments and environments
    "large argument": Scene("where length $(printf %0100000d 1)", lambda w, s: w(" 100000")),
    "largest argument": Scene("where length $(printf %0131071d 1)", lambda w, s: w(" 131071")),
    "large argument of a builtin": Scene("/bin/echo $(printf %0100000d 1) | wc -c", lambda w, s: "100001\n" if s == 0 else "", program="wc"),
    "many arguments": Scene("where $(seq 20000)", line),
    "large environment": Scene("export X=$(printf %0100000d 1); where", line),
    "very large environment": Scene("for i in 1 2 3 4 5 6 7 8 9; do export X$i=$(printf %0100000d 1); done; where", line),
    "empty arguments": Scene("where '' '' argv0", lambda w, s: w(" where")),
    "argument that is not UTF-8": Scene("/usr/bin/printf %s $'\\xff\\xfe' | od -An -tx1", lambda w, s: " ff fe\n" if s == 0 else "",
                                        program="printf"),
    "variable that is not UTF-8": Scene("VARIABLE=$'\\xc3' where variable | od -An -tx1 -w99", lambda w, s:
                                        "".join(f" {c:02x}" for c in w(" ~").replace("~", "\xc3").encode("latin-1")) + "\n" if s == 0 else ""),
    "much input": Scene("head -c 3000000 /dev/zero | cat | wc -c", lambda w, s: f"{3000000 if s == 0 else 0}\n", program="cat"),
    "reader that goes": Scene("yes | head -1", lambda w, s: "y\n" if s == 0 else "", program="yes"),
    # Programs of other kinds
    "static program": Scene("where-static", line, program="where-static"),
}

HOW = ["execve", "posix_spawn", "fexecve", "path-descriptor", "directory", "thread", "shared", "vfork"]
for how in HOW:
    lines = 2 if how == "vfork" else 1
    for starter in ("start", "start-static"):
        SCENES[f"{how} of {starter}"] = Scene(f'{starter} {how} "$(command -v where)"; echo $?',
                                              lambda w, s, lines=lines: f"{w() * lines}{s}\n", denials=lines)
SCENES["no arguments"] = Scene('start no-arguments "$(command -v where)"; echo $?', line_and_status)
SCENES["no vectors"] = Scene('start no-vectors "$(command -v where)"; echo $?', line_and_status)
SCENES["bad pointers"] = Scene('start bad-pointers "$(command -v where)"; echo $?', lambda w, s: "0\n", denials=0)

@pytest.fixture(scope="module")
def places():
    places = Places()
    yield places
    places.close()


def wanted_of(scene, verdict):
    """(stdout, exit status of the command)."""
    def w(more=""):
        return "" if PLACED[verdict] is None else f"{PLACED[verdict]}{more}\n"
    status = 1 if verdict == "deny" else 0
    return scene.out(w, status).encode("latin-1" if scene.program == "where" else "utf-8"), scene.code and scene.code(status)


def skip_without_programs(scene):
    for name in (scene.shell, scene.needs):
        if not shutil.which(name):
            pytest.skip(f"needs {name}")


def judge(scene, verdict, done):
    """Compares what came with what is wanted."""
    out, code = wanted_of(scene, verdict)
    assert done.refused is None and done.out == out and code in (None, done.code), done
    if verdict == "deny" and scene.denials is not None:
        assert done.err.decode() == FORBIDDEN * scene.denials, done
    elif verdict != "deny" and scene.err is not None:
        assert done.err.decode() == scene.err, done


def judge_counts(verdict, done):
    assert set(done.counts) == {"run", "escalated", "denied"}
    assert done.counts["run"] > 0, "the shell itself is one"
    if verdict != "run" and "where" not in done.err.decode(errors="replace"):
        assert done.counts["escalated" if verdict == "escalate" else "denied"] > 0, done
    assert (verdict == "escalate") or done.counts["escalated"] == 0
    assert (verdict == "deny") or done.counts["denied"] == 0


CASES = [pytest.param(name, verdict, id=f"{name}-{verdict}") for name, scene in SCENES.items() for verdict in scene.verdicts]


@pytest.mark.parametrize("name, verdict", CASES)
def test_scene(place, name, verdict):
    scene = SCENES[name]
    skip_without_programs(scene)
    done = place.sh(scene.script, intercept(RULES[verdict](scene.program)), shell=scene.shell, env=scene.env)
    judge(scene, verdict, done)
    if scene.denials != 0:
        judge_counts(verdict, done)


def test_decisions_within_one_script(place):
    script = "printf '#!/bin/sh\\nwhere\\nrmdir zz\\necho $?\\nls -d /\\n' >s.sh; chmod +x s.sh; ./s.sh"
    done = place.sh(script, intercept(RULES["escalate"]("where"), RULES["deny"]("rmdir")))
    assert (done.out, done.err.decode()) == (b"outside\n1\n/\n", FORBIDDEN), done
    assert done.counts == {"run": 4, "escalated": 1, "denied": 1}, "bash, chmod, sh and ls run"


ANSWERS = {"run": ({"decision": "run"}, "inside\n"), "escalate": ({"decision": "escalate"}, "outside\n"),
           "deny": ({"decision": "deny", "reason": "not now"}, "")}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("name", ["plain", "pipeline", "background jobs", "exec builtin", "python subprocess", "vfork of start", "thread of start",
                                  "xargs in parallel", "make in parallel", "script", "large argument", "static program", "much input"])
def test_scene_with_questions(place, name, answer):
    """Each scene again, when a client decides in place of the rules."""
    scene = SCENES[name]
    given, _ = ANSWERS[answer]
    done = place.sh(scene.script, intercept(RULES["ask"](scene.program)), decide=lambda question: given)
    out, code = wanted_of(scene, answer)
    assert done.refused is None and done.out == out and code in (None, done.code), done
    assert done.questions
    for question in done.questions:
        assert text_of(question, "file").endswith(scene.program.encode())
        assert question["rule"]
    if answer == "deny" and scene.denials:
        assert done.err.decode().count("Execution denied: not now\n") == scene.denials, done
