"""What escalated programs are and are not: outside of the sandbox, but a part of their command; and what can never be decided."""

import os
import shutil
import signal

import pytest

from farhand_client import wait_until
from intercept_rig import FORBIDDEN, PLACES, Places, intercept, programs, rule
from reach import UNPRIVILEGED
from intercept_scenes import LOADER
from test_kill9 import Mark

ALLOW_SH = rule("allow", "sh")


@pytest.fixture(scope="module")
def places():
    places = Places()
    yield places
    places.close()


@pytest.fixture(params=PLACES)
def place(request, places):
    return places.get(request.param)


@pytest.fixture
def mark():
    mark = Mark()
    yield mark
    mark.kill()


def namespaces(place):
    return {name: os.readlink(f"/proc/{place.rig.server.pid}/ns/{name}") for name in ("mnt", "pid", "net", "user", "ipc")}


# Outside


def test_it_is_in_the_namespaces_of_the_server(place):
    script = "for n in mnt pid net user ipc; do readlink /proc/self/ns/$n; done"
    outside = place.sh(f"sh -c '{script}'", intercept(ALLOW_SH))
    assert outside.out.decode().split() == list(namespaces(place).values()), outside
    inside = place.sh(f"sh -c '{script}'", intercept())
    same = [a == b for a, b in zip(inside.out.split(), outside.out.split())]
    assert all(same) == (place.backend in ("none", "landlock")), inside


def test_it_writes_where_the_sandbox_does_not(place):
    tree = place.tree()
    tree.dir(tree.o)
    script = f"tee {tree.o}/f <<<x; ls {tree.o}"
    inside = place.sh(script, intercept(), tree.w)
    if place.backend in ("namespaces", "bubblewrap"):
        assert b"f\n" not in inside.out and inside.err, inside
    outside = place.sh(script, intercept(rule("allow", "tee")), tree.w)
    assert outside.out == b"x\nf\n", outside


def test_what_it_starts_is_outside_and_not_asked_about(place):
    text = ALLOW_SH + rule("forbidden", "where")
    done = place.sh("sh -c 'where; nice where; where | cat'; where", intercept(text))
    assert done.out == b"outside\n" * 3 and done.err.decode() == FORBIDDEN, done
    assert done.counts["escalated"] == 1 and done.counts["denied"] == 1


def test_it_has_no_capability_or_descriptor_of_the_broker(place):
    done = place.sh("where descriptors; sh -c 'where descriptors'", intercept(rule("allow", "where", "sh")))
    assert done.out == b"outside\n" * 2, done


def test_it_runs_as_the_user_of_the_server(place):
    done = place.sh("where euid", intercept(rule("allow", "where")))
    assert done.out == f"outside {place.rig.uid}\n".encode()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a set-user-id program")
def test_a_set_user_id_program_has_its_rights_only_outside(place):
    folder = os.path.join(programs(), f"set-id-{place.name}")
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o755)
    path = shutil.copy(os.path.join(programs(), "where"), os.path.join(folder, "set-id"))
    os.chown(path, UNPRIVILEGED + 1, UNPRIVILEGED + 1)
    os.chmod(path, 0o4755)
    inside = place.sh(f"{path} euid; exit 0", intercept())
    assert str(UNPRIVILEGED + 1) not in inside.out.decode(), inside
    outside = place.sh(f"{path} euid", intercept(rule("allow", "set-id")))
    assert outside.out.decode() == f"outside {UNPRIVILEGED + 1}\n", outside
    denied = place.sh(f"{path} euid; exit $?", intercept(rule("forbidden", "set-id")))
    assert (denied.out, denied.err.decode(), denied.code) == (b"", FORBIDDEN, 1)


# A part of the command


def test_it_ends_with_its_caller(place, mark):
    script = "sh -c 'echo up; exec sleep 1000' & p=$!; read go; kill -9 $p; wait $p; echo $?; read go"
    process_id, ident = place.start(["/bin/bash", "-c", script], intercept(ALLOW_SH), place.tree().w, env={mark.name: mark.value}, pipeStdin=True)
    place.client.wait_output(process_id, b"up\n", 30)
    before = len(mark.pids())
    place.client.write(process_id, b"\n", write_id="1")
    place.client.wait_output(process_id, b"137\n", 30)
    wait_until(lambda: len(mark.pids()) < before and not [p for p in mark.pids() if name_of(p) == "sleep"], 20, "end of the escalated program")
    place.client.write(process_id, b"\n", write_id="2")
    place.finish(process_id, ident)
    mark.wait_gone()


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="latin-1") as f:
            return f.read().strip()
    except OSError:
        return None


def test_what_it_leaves_behind_ends_with_the_command(place, mark):
    script = "sh -c 'setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo up'; read go"
    process_id, ident = place.start(["/bin/bash", "-c", script], intercept(ALLOW_SH), place.tree().w, env={mark.name: mark.value}, pipeStdin=True)
    place.client.wait_output(process_id, b"up\n", 30)
    place.client.call("process/terminate", {"processId": process_id})
    place.finish(process_id, ident)
    mark.wait_gone()


def test_the_end_of_the_command_waits_for_it(place):
    """An escalated program keeps the output of its command open, as any background job does."""
    done = place.sh("mkfifo f; sh -c 'read x <f; echo late' & echo early; (echo go >f) &", intercept(ALLOW_SH))
    assert done.out == b"early\nlate\n", done


@pytest.mark.parametrize("number", ["HUP", "INT", "USR1", "PIPE", "TERM", "SEGV", "ABRT"])
def test_it_dies_of_a_signal_and_so_does_its_caller(place, number):
    done = place.sh(f"ulimit -c 0; sh -c 'kill -{number} $$'; echo $?", intercept(ALLOW_SH))
    assert done.out.decode() == f"{128 + getattr(signal, 'SIG' + number)}\n", done


def test_its_terminal_is_that_of_the_command(place):
    done = place.sh("where terminal; sh -c 'where terminal; stty size'", intercept(rule("allow", "where", "sh")),
                    io={"type": "pty", "rows": 31, "cols": 97})
    assert done.out.replace(b"\r\n", b"\n") == b"outside 111\noutside 111\n31 97\n", done


def test_a_terminal_interrupts_it(place, mark):
    process_id, ident = place.start(["/bin/bash", "-c", "trap : INT; sh -c 'echo up; exec sleep 1000'; echo ended $?"], intercept(ALLOW_SH),
                                    place.tree().w, env={mark.name: mark.value}, tty=True)
    place.client.wait_output(process_id, b"up", 30)
    place.client.write(process_id, b"\x03", write_id="c")
    done = place.finish(process_id, ident)
    assert b"ended 130" in done.out, done
    mark.wait_gone()


# What cannot be decided


def test_calls_of_other_architectures_execute_nothing(place):
    for how in ("foreign", "x32"):
        for text in ("", rule("allow", "where")):
            done = place.sh(f'start-static {how} "$(command -v where)"; echo $?', intercept(text))
            # A sandbox ends the caller at once.
            assert done.out in (b"100\n", b"159\n") and done.err, (how, done)


def test_a_program_that_cannot_be_read_executes_nothing_that_would_be_decided(place):
    """A process that is not dumpable belongs to root: a server without rights cannot read what it wants to execute, unless the process is
    in a user namespace that the server has made."""
    is_read = place.user == "root" or place.backend in ("namespaces", "bubblewrap")
    wanted = ("inside\n0\n", "outside\n0\n", "1\n") if is_read else ("100\n", "100\n", "100\n")
    for text, out in zip(("", rule("allow", "where"), rule("forbidden", "where")), wanted):
        done = place.sh('start not-dumpable "$(command -v where)"; echo $?', intercept(text))
        assert done.out.decode() == out, done


def test_a_path_below_proc_is_never_a_way_outside(place):
    """The name /proc/self/fd/3 says nothing: no rule for `where` matches it, and with a rule for "3" it means the file of the caller."""
    script = 'start proc "$(command -v where)"; echo $?'
    assert place.sh(script, intercept(rule("allow", "where"))).out == b"inside\n0\n"
    done = place.sh(script, intercept(rule("allow", "3")))
    assert done.out in (b"outside\n0\n", b"1\n", b"100\n", b"126\n", b"127\n"), done


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_a_traced_caller_is_never_decided_otherwise(place):
    """The registers of such a caller belong to its tracer: a program that was denied or escalated does not run inside in its place."""
    for text in (rule("forbidden", "where"), rule("allow", "where")):
        done = place.sh("strace -f -o /dev/null nice where; echo $?", intercept(text))
        assert b"inside" not in done.out, done


def test_the_rule_for_a_program_does_not_see_it_behind_the_loader(place):
    done = place.sh(f'"$(ls /lib*/{LOADER} | head -1)" "$(command -v where)"', intercept(rule("allow", "where")))
    assert done.out == b"inside\n", done


def test_a_filter_of_its_own_does_not_end_the_interception(place):
    """A process may add filters; the one of the broker stays."""
    script = "python3 -c \"import ctypes,os,struct;l=ctypes.CDLL(None);c=struct.pack('HBBI',6,0,0,0x7fff0000);b=ctypes.create_string_buffer(c);" \
             "h=struct.pack('HxxxxxxP',1,ctypes.addressof(b));assert l.prctl(22,2,h,0,0)==0;os.execvp('where',['where'])\""
    assert place.sh(script, intercept()).out == b"inside\n"
    denied = place.sh(script, intercept(rule("forbidden", "where")))
    assert denied.out == b"" and denied.err.decode() == FORBIDDEN, denied
    assert place.sh(script, intercept(rule("allow", "where"))).out == b"outside\n"


def test_a_second_listener_is_refused(place):
    """One listener for each chain of filters: the kernel refuses another one, and nobody can answer in place of the broker."""
    script = "python3 -c \"import ctypes,struct;l=ctypes.CDLL(None,use_errno=True);c=struct.pack('HBBI',6,0,0,0x7fc00000);" \
             "b=ctypes.create_string_buffer(c);h=struct.pack('HxxxxxxP',1,ctypes.addressof(b));" \
             "print(l.syscall(317 if __import__('os').uname().machine=='x86_64' else 277,1,8,h),ctypes.get_errno())\""
    done = place.sh(script, intercept())
    assert done.out.startswith(b"-1 "), done


def test_the_broker_is_not_reached_from_inside(place):
    """Neither memory nor descriptors of the broker can be reached, and no signal reaches it, where the sandbox is closed."""
    if place.backend in ("none", "landlock"):
        pytest.skip("processes of the machine are seen there")
    done = place.sh("for p in /proc/[0-9]*; do cat $p/comm; done", intercept())
    assert b"fh-keeper" not in done.out and b"farhand" not in done.out, done
