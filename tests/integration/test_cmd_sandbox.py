"""`farhand sandbox` on the real binary: exit codes, signals, descriptors, profiles, terminals. Git: test_cmd_sandbox_git.py."""

import json
import os
import signal
import socket
import subprocess
import termios

import pytest

from cmd_rig import BIN, INSIDE, USERS, Terminal, alive, cmd_of, eventually
from sandbox_rig import differences, snapshot


@pytest.fixture(params=USERS)
def cmd(request):
    with cmd_of(request.param) as c:
        yield c


@pytest.fixture
def me():
    with cmd_of("root" if os.geteuid() == 0 else "unprivileged") as c:
        yield c


def sh(cmd, script, *options, **kw):
    return cmd.sandbox(*options, "--", "sh", "-c", script, **kw)


# What may be done


def test_everything_is_read_only_and_without_network_by_default(cmd):
    path = cmd.tree.file(os.path.join(cmd.tree.w, "f"), "content\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code, out, err = sh(cmd, f"cat {path}; echo x > {path} || echo refused; "
                            f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)' "
                            "2>/dev/null || echo alone")
    assert (code, out) == (0, b"content\nrefused\nalone\n"), err
    assert b"Read-only file system" in err


@pytest.mark.parametrize("backend", ["namespaces", "bubblewrap", "landlock"])
@pytest.mark.parametrize("redirection", ["<", "2<"])
def test_a_directory_as_a_standard_descriptor_is_refused(cmd, backend, redirection):
    """From such a directory `..` would lead out of every view."""
    outside = cmd.tree.file(os.path.join(cmd.tree.o, "f"), "outside\n")
    number = 2 if redirection == "2<" else 0
    script = (f'exec "$1" sandbox --sandbox-backend {backend} -- python3 -c \'import os; '
              f'print(open(os.open("../o/f", 0, dir_fd={number})).read())\' {redirection} "$2"')
    code, out, err = cmd.run(["sh", "-c", script, "sh", BIN, cmd.tree.w], cwd="/")
    assert code == 125 and b"outside" not in out, (code, out, err)
    if number == 0:
        assert b"step: stdio, errno: EISDIR" in err, err
    assert os.path.exists(outside)


def test_what_a_file_redirection_opened_can_be_opened_again(cmd):
    """The command opens /dev/stdin and /dev/stdout under a profile that neither reads nor writes the files behind them."""
    profile = {"type": "managed", "network": "restricted", "file_system": {"type": "restricted", "entries": [
        {"path": {"type": "special", "value": {"kind": "minimal"}}, "access": "read"}]}}
    path = cmd.tree.file(os.path.join(cmd.tree.base, "profile.json"), json.dumps(profile))
    given = cmd.tree.file(os.path.join(cmd.tree.o, "in"), "given\n")
    taken = cmd.tree.file(os.path.join(cmd.tree.o, "out"), "")
    script = 'exec "$1" sandbox --profile "$2" --cwd / -- sh -c "cat /dev/stdin; echo more >> /dev/stdout; cat $3" < "$3" > "$4"'
    _, _, err = cmd.run(["sh", "-c", script, "sh", BIN, path, given, taken], cwd="/")
    with open(taken, encoding="utf-8") as f:
        assert f.read() == "given\nmore\n", err
    assert b"No such file" in err, err


def test_network_opens_the_network(me):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
        assert me.sandbox("--network", "--", "python3", "-c", connect)[0] == 0
        assert me.sandbox("--read-only", "--", "python3", "-c", connect)[0] == 1


def test_workspace_write_opens_the_current_directory_and_temporary_ones(cmd):
    tmpdir = cmd.tree.dir(os.path.join(cmd.base, "tmpdir"))
    code, out, err = sh(cmd, f"echo 1 > here && echo 2 > {tmpdir}/there && f=$(mktemp /tmp/fh-XXXXXX) && rm $f && echo all; "
                        f"touch {cmd.tree.o}/x || echo outside; mkdir .git || echo protected",
                        "--workspace-write", env={"TMPDIR": tmpdir})
    assert (code, out) == (0, b"all\noutside\nprotected\n"), err
    assert os.path.exists(os.path.join(cmd.tree.w, "here"))


def test_workspace_write_opens_the_directories_that_are_named_and_no_other(me):
    other = me.tree.dir(os.path.join(me.base, "other"))
    code, out, err = sh(me, f"touch {other}/a {me.tree.o}/a && echo named; touch a || echo not here",
                        "--workspace-write", other, "../o", "--network")
    assert (code, out) == (0, b"named\nnot here\n"), err


def test_nothing_is_left_in_the_workspace(me):
    before = snapshot(me.tree.base)
    assert sh(me, "ls -A", "--workspace-write")[1].split() == [b".agents", b".aws", b".codex", b".git"]
    assert sh(me, "kill -9 $$", "--workspace-write")[0] == 137
    assert not differences(before, snapshot(me.tree.base))


def test_many_at_once_in_one_workspace_end_as_their_commands_do(cmd):
    """While each sandbox starts and ends, placeholders of the others appear and disappear."""
    for _ in range(5):
        started = [cmd.popen([BIN, "sandbox", "--workspace-write", "--", "sh", "-c", "exit 7"], stderr=subprocess.PIPE)
                   for _ in range(6)]
        told = [one.communicate(timeout=60)[1] for one in started]
        assert [one.returncode for one in started] == [7] * len(started), told
    assert os.listdir(cmd.tree.w) == []


def test_a_writable_directory_named_inside_another_keeps_what_is_narrower_in_it(me):
    inner = me.tree.dir(os.path.join(me.tree.w, "inner"))
    me.tree.file(os.path.join(inner, "fixed"), "old\n")
    profile = stored(entry(me.tree.w, "write"), entry(inner, "write"), entry(os.path.join(inner, "fixed"), "read"))
    file = me.tree.file(os.path.join(me.tree.o, "p.json"), json.dumps(profile))
    code, out, _ = sh(me, "mv inner gone 2>/dev/null || echo stays; echo new > inner/fixed || echo fixed", "--profile", file)
    assert (code, out) == (0, b"stays\nfixed\n")


# Exit codes, descriptors, environment


@pytest.mark.parametrize("script,code", [("exit 0", 0), ("exit 42", 42), ("kill -TERM $$", 143), ("kill -SEGV $$", 139),
                                         ("kill -9 $$", 137)])
def test_the_exit_code_is_the_commands(me, script, code):
    assert sh(me, script)[0] == code


def test_commands_that_cannot_be_executed(cmd):
    plain = cmd.tree.file(os.path.join(cmd.tree.w, "plain"), "no program\n")
    empty = cmd.tree.file(os.path.join(cmd.tree.w, "empty"), "\0\0\0\0", 0o755)
    for program, code, words in [("no-such-program", 127, b"no-such-program: No such file or directory"),
                                 ("/no/such/program", 127, b"No such file"), ("", 127, b"No such file"),
                                 (plain, 126, b"Permission denied"), (empty, 126, b"Exec format error"),
                                 (cmd.tree.w, 126, b"Permission denied")]:
        got, out, err = cmd.sandbox("--", program)
        assert (got, out) == (code, b""), (program, err)
        assert words in err


@pytest.mark.parametrize("args,words", [
    (["ls"], b"behind '--'"), ([], b"no command"), (["--"], b"no command"), (["--nonsense", "--", "ls"], b"--nonsense"),
    (["--read-only", "--workspace-write", "--", "ls"], b"only one"), (["--git", "--", "ls"], b"--workspace-write"),
    (["--workspace-write", "/no/such/place", "--", "ls"], b"/no/such/place: No such file"),
    (["--cwd", "/no/such/place", "--", "ls"], b"/no/such/place: No such file"),
    (["--profile", "/no/such/file", "--", "ls"], b"/no/such/file: No such file"), (["--profile", "--", "ls"], b"--profile"),
])
def test_our_own_failures_are_125(me, args, words):
    code, out, err = me.sandbox(*args)
    assert (code, out) == (125, b"")
    assert words in err


def test_bytes_pass_unchanged_and_the_end_of_input_is_seen(cmd):
    data = bytes(range(256)) * 4096
    code, out, err = cmd.sandbox("--", "cat", input=data)
    assert (code, err) == (0, b"")
    assert out == data
    code, out, err = sh(cmd, "echo out; echo err >&2")
    assert (code, out, err) == (0, b"out\n", b"err\n")


def test_readers_see_the_command_close_its_output(me):
    with me.popen([BIN, "sandbox", "--", "sh", "-c", "echo x; exec >&-; read line; exit 5"], stdin=subprocess.PIPE,
                  stdout=subprocess.PIPE) as proc:
        assert proc.stdout.read() == b"x\n"  # the output ends while farhand still runs
        assert proc.poll() is None
        proc.stdin.write(b"go\n")
        proc.stdin.close()
        assert proc.wait(60) == 5


def test_the_environment_is_the_callers_and_no_other_descriptor_goes_in(me):
    with open("/dev/null", "rb") as extra:
        code, out, _ = sh(me, "echo $MINE; ls /proc/self/fd", env={"MINE": "a b"}, pass_fds=[extra.fileno()])
    assert code == 0
    lines = out.split(b"\n")
    assert lines[0] == b"a b" and [n for n in lines[1:] if n] == [b"0", b"1", b"2", b"3"]  # 3 is the directory that ls reads


def test_cwd_says_where_the_command_starts(me):
    assert sh(me, "pwd -P; touch x", "--workspace-write", "--cwd", me.tree.o)[1].decode().strip() == me.tree.o
    assert os.path.exists(os.path.join(me.tree.o, "x"))
    link = me.tree.link(os.path.join(me.tree.w, "link"), me.tree.o)
    assert sh(me, "pwd -P", "--cwd", link)[1].decode().strip() == me.tree.o


# Signals and ends


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_signals_are_passed_to_the_commands_group(me, signo):
    # The shell is not dash, which may lose a signal that comes while it forks.
    script = f"trap 'echo got; exit 9' {signo.name[3:]}; echo ready; while :; do sleep 0.05; done"
    with me.popen([BIN, "sandbox", "--", "bash", "-c", script], stdout=subprocess.PIPE) as proc:
        assert proc.stdout.readline() == b"ready\n"
        proc.send_signal(signo)
        assert proc.stdout.read() == b"got\n"
        assert proc.wait(60) == 9


def test_a_signal_for_our_whole_group_reaches_the_command_as_that_signal(me):
    """timeout(1) and shells signal the whole group: the helper processes in between must ignore it and not end the command."""
    script = "trap 'sleep 0.2; echo cleaned; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    with me.popen([BIN, "sandbox", "--", "bash", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as proc:
        assert proc.stdout.readline() == b"ready\n"
        os.killpg(proc.pid, signal.SIGTERM)
        assert proc.stdout.read() == b"cleaned\n"
        assert proc.wait(60) == 7


def test_what_is_ignored_stays_ignored(me):
    with me.popen(["nohup", BIN, "sandbox", "--", "sh", "-c", "echo ready; read x; echo done"], stdin=subprocess.PIPE,
                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as proc:
        assert proc.stdout.readline() == b"ready\n"
        proc.send_signal(signal.SIGHUP)
        proc.stdin.write(b"\n")
        proc.stdin.close()
        assert proc.stdout.read() == b"done\n"
        assert proc.wait(60) == 0


def host_pids(marker):
    pids = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as f:
                    if marker.encode() in f.read().split(b"\0"):
                        pids.append(int(name))
            except OSError:
                pass
    return pids


def test_what_the_command_leaves_running_ends_with_it(me):
    marker = os.path.basename(me.base)
    code, out, _ = sh(me, f"(setsid sh -c 'sleep 1000; :' {marker} &) ; echo done")
    assert (code, out) == (0, b"done\n")
    assert not host_pids(marker)


def test_everything_ends_when_we_are_killed(cmd):
    marker = os.path.basename(cmd.base)
    before = snapshot(cmd.tree.w)
    with cmd.popen([BIN, "sandbox", "--workspace-write", "--", "sh", "-c",
                    "trap '' TERM HUP INT; (setsid sleep 1000 &); echo ready; while :; do sleep 0.1; done", marker],
                   stdout=subprocess.PIPE) as proc:
        assert proc.stdout.readline() == b"ready\n"
        pids = [p for p in host_pids(marker) if p != proc.pid]
        assert pids
        proc.kill()
        proc.wait()
        eventually(lambda: not any(alive(p) for p in pids), "the end of what ran")
        eventually(lambda: not differences(before, snapshot(cmd.tree.w)), "the workspace as it was")


def test_a_sandbox_that_is_broken_from_outside_ends_the_command(me):
    os.mkdir(os.path.join(me.tree.w, ".git"))
    me.tree.own(os.path.join(me.tree.w, ".git"))
    with me.popen([BIN, "sandbox", "--workspace-write", "--", "sh", "-c", "echo ready; sleep 1000"],
                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as proc:
        assert proc.stdout.readline() == b"ready\n"
        os.rename(os.path.join(me.tree.w, ".git"), os.path.join(me.tree.w, "moved"))
        _, err = proc.communicate(timeout=60)
        assert proc.returncode == 125
        assert b"moved or removed" in err


# Profiles


def entry(path, access):
    return {"path": {"type": "path", "path": path}, "access": access}


def special(kind, access):
    return {"path": {"type": "special", "value": {"kind": kind}}, "access": access}


def stored(*entries, network="restricted"):
    return {"type": "managed", "file_system": {"type": "restricted", "entries": [special("root", "read"), *entries]},
            "network": network}


def with_profile(cmd, profile, script, *options):
    file = cmd.tree.file(os.path.join(cmd.tree.o, "profile.json"),
                         profile if isinstance(profile, str) else json.dumps(profile))
    return sh(cmd, script, "--profile", file, *options)


def test_a_stored_profile_is_enforced(cmd):
    secret = cmd.tree.file(os.path.join(cmd.tree.w, "secret"), "s\n")
    open_file = cmd.tree.file(os.path.join(cmd.tree.w, "open"), "o\n")
    profile = stored(entry(open_file, "write"), entry(secret, "deny"))
    code, out, err = with_profile(cmd, profile, "cat secret || echo hidden; echo n > open && cat open; touch x || echo fixed")
    assert (code, out) == (0, b"hidden\nn\nfixed\n"), err


@pytest.mark.parametrize("profile,writes", [
    ({"type": "workspace-write"}, True), ({"type": "workspaceWrite", "networkAccess": True}, True),
    ({"type": "read-only"}, False), ({"type": "danger-full-access"}, True), ({"type": "disabled"}, True),
    ({"type": "external", "network": "restricted"}, True),
    ({"file_system": {"read": ["/"], "write": []}}, False),
])
def test_every_shape_of_profile_loads(me, profile, writes):
    code, out, err = with_profile(me, profile, "touch x 2>/dev/null && echo writes || echo reads")
    assert (code, out) == (0, b"writes\n" if writes else b"reads\n"), err


@pytest.mark.parametrize("profile,words", [
    ("", b"profile"), ("{", b"profile"), ('{"type": "managed"}', b"file_system"), ('{"type": "bogus"}', b"bogus"),
    ('{"file_system": {"entries": [{"path": {"type": "path", "path": "relative"}, "access": "read"}]}}', b"entries"),
    ('{"type": "workspace-write", "nonsense": 1}', b"nonsense"), ("[1]", b"profile"), ("\xff", b"profile"),
])
def test_profiles_that_are_not_understood_run_nothing(me, profile, words):
    code, out, err = with_profile(me, profile, "echo ran")
    assert (code, out) == (125, b"")
    assert words in err and b"step: profile" in err


def test_profiles_that_cannot_be_enforced_run_nothing_and_say_why(me):
    target = me.tree.dir(os.path.join(me.tree.w, "target"))
    link = me.tree.link(os.path.join(me.tree.w, "link"), target)
    code, out, err = with_profile(me, stored(entry(me.tree.w, "write"), entry(link, "deny")), "echo ran")
    assert (code, out) == (125, b"")
    assert b"crosses writable symlink" in err and b"step: plan" in err and b"remedy: " in err


def test_a_refused_sandbox_names_step_errno_and_remedy(cmd):
    """In a sandbox there are no namespaces to make another one of, as in many containers."""
    code, out, err = cmd.run([*INSIDE, "sandbox", "--sandbox-backend", "namespaces", "--", "echo", "ran"])
    assert (code, out) == (125, b"")
    assert b"cannot be enforced" in err and b"step: namespaces, errno: EPERM" in err and b"remedy: " in err


def test_explain_shows_the_plan_and_runs_nothing(me):
    before = snapshot(me.tree.base)
    code, out, err = sh(me, "echo ran > f", "--workspace-write", "--explain")
    assert (code, err) == (0, b"")
    lines = out.decode().splitlines()
    assert lines[0] == "network    its own, loopback only" and lines[1] == "start with the machine, read-only"
    assert f"writable   {me.tree.w}/ (writable)" in lines
    assert any(line.startswith("cover") and f"{me.tree.w}/.git/" in line for line in lines)
    assert not differences(before, snapshot(me.tree.base))
    assert sh(me, "", "--explain", "--network")[1].splitlines()[0] == b"network    the machine's"
    code, out, _ = with_profile(me, {"type": "disabled"}, "echo ran", "--explain")
    assert code == 0 and b"restricts nothing" in out


def test_names_of_files_cannot_speak_to_the_terminal(me):
    evil = me.tree.file(os.path.join(me.tree.w, "\x1b]0;evil\x07"), "")
    code, out, _ = with_profile(me, stored(entry(me.tree.w, "write"), entry(evil, "deny")), "", "--explain")
    assert code == 0 and b"hide" in out and b"\x1b" not in out


# Terminals


def test_a_terminal_gives_the_command_one_of_its_own(cmd):
    with Terminal(cmd, "--", "sh", "-c", "tty; stty size; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all; "
                  "echo to-tty > /dev/tty; read x; echo got:$x", rows=33, cols=101) as t:
        t.expect(b"to-tty\r\n")
        assert b"33 101\r\n" in t.seen and b"all\r\n" in t.seen
        t.until(t.is_raw, "raw mode")
        t.type(b"hello\r")
        t.expect(b"got:hello\r\n")
        assert t.wait() == 0
        assert t.modes() == t.before
        assert t.seen.count(b"hello") == 2  # echoed once, printed once


def test_ctrl_c_reaches_the_foreground_of_the_command(me):
    with Terminal(me, "--", "bash", "-c", "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done") as t:
        t.expect(b"ready")
        t.until(t.is_raw, "raw mode")
        t.type(b"\x03")
        t.expect(b"caught")
        assert t.wait() == 3
        assert t.modes() == t.before


def test_job_control_works_inside(me):
    with Terminal(me, "--", "bash", "--norc", "-i", env={"PS1": "$ "}) as t:
        t.expect(b"$ ")
        # `exec`, so that dash has no child: dash uses vfork, and a child that is stopped before its execve keeps dash from
        # stopping.
        t.type(b"sh -c 'echo be''gun; exec cat'\r")
        t.expect(b"begun")
        t.type(b"\x1a")
        t.expect(b"Stopped")
        # `exit` twice: the shell only warns the first time when it does not know yet that the job is gone.
        t.type(b"kill -9 %1; echo still''here; exit 6; exit 6\r")
        t.expect(b"stillhere")
        assert t.wait() == 6
        assert t.modes() == t.before


def test_the_window_follows_ours(me):
    with Terminal(me, "--", "bash", "-c", "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done") as t:
        t.expect(b"ready")
        t.set_size(50, 132)
        t.expect(b"50 132\r\n")
        assert t.wait() == 0


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT])
def test_the_terminal_is_restored_when_a_signal_ends_the_command(me, signo):
    with Terminal(me, "--", "sh", "-c", "stty -echo; echo ready; exec sleep 1000") as t:
        t.expect(b"ready")
        t.until(t.is_raw, "raw mode")
        t.proc.send_signal(signo)
        assert t.wait() == 128 + signo
        assert t.modes() == t.before


def test_the_terminal_is_restored_when_we_are_killed(me):
    with Terminal(me, "--", "sh", "-c", "echo ready; exec sleep 1000") as t:
        t.expect(b"ready")
        t.until(t.is_raw, "raw mode")
        t.proc.kill()
        t.until(lambda: t.modes() == t.before, "the modes from before")


def test_the_terminal_is_restored_when_nothing_can_be_started(me):
    with Terminal(me, "--", "no-such-program") as t:
        assert t.wait() == 127
        assert t.modes() == t.before
        assert b"no-such-program: No such file or directory" in t.seen


def test_being_stopped_restores_the_terminal_and_stops_the_command(me):
    with Terminal(me, "--", "sh", "-c", "echo ready; while :; do echo tick; sleep 0.05; done") as t:
        t.expect(b"tick")
        t.until(t.is_raw, "raw mode")
        t.proc.send_signal(signal.SIGTSTP)
        t.until(lambda: open(f"/proc/{t.proc.pid}/stat").read().rpartition(")")[2].split()[0] == "T", "stopped")
        assert t.modes() == t.before
        while t.read_some(0.5):
            pass
        ticks = t.seen.count(b"tick")
        assert not t.read_some(0.5)
        t.proc.send_signal(signal.SIGCONT)
        t.expect(b"tick", ticks + 1)
        t.until(t.is_raw, "raw mode again")
        t.proc.send_signal(signal.SIGTERM)
        assert t.wait() == 143
        assert t.modes() == t.before


def test_all_output_arrives_before_the_end(me):
    with Terminal(me, "--", "sh", "-c", "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; echo the-end") as t:
        assert t.wait() == 0
        assert t.seen.endswith(b"the-end\r\n")
        assert t.seen.count(b"line ") == 3000


def test_the_users_terminal_itself_is_never_handed_in(me):
    """A command that has the user's terminal could read what is typed later at the shell's prompt."""
    marker = os.path.basename(me.base)
    with Terminal(me, "--", "sh", "-c", "[ -t 1 ] && echo started; read x <&1; echo over", marker,
                  redirect={0: subprocess.DEVNULL}) as t:
        t.expect(b"started")
        assert t.modes() == t.before  # output only: nothing is changed
        t.type(b"secret\n")
        ours = os.readlink(f"/proc/self/fd/{t.slave}")
        inside = [p for p in host_pids(marker) if comm(p) == "sh"]
        assert inside
        for pid in inside:
            assert ours not in [os.readlink(f"/proc/{pid}/fd/{n}") for n in (0, 1, 2)]
        t.proc.send_signal(signal.SIGTERM)
        assert t.wait() == 143
        assert b"over" not in t.seen


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="latin-1", errors="replace") as f:
            return f.read().strip()
    except OSError:
        return None


def test_output_into_a_pipe_leaves_the_terminal_in_line_mode(me):
    read_end, write_end = os.pipe()
    with Terminal(me, "--", "sh", "-c", "read x; echo got:$x; cat; [ -t 1 ] || echo no-terminal", redirect={1: write_end}) as t:
        os.close(write_end)
        t.type(b"line\n")
        with os.fdopen(read_end, "rb") as out:
            assert out.readline() == b"got:line\n"
            assert t.modes() == t.before
            t.type(b"more\n\x04")
            assert out.readline() == b"more\n"
            assert out.read() == b"no-terminal\n"
        assert t.wait() == 0
        assert t.modes() == t.before
        assert t.seen.count(b"line") == 1  # echoed by the terminal alone


def test_in_the_background_it_runs_on_and_reads_when_it_comes_to_the_foreground(me):
    with Terminal(me, "--norc", "-i", program=["bash"], env={"PS1": "$ "}) as t:
        t.expect(b"$ ")
        t.type(f"{BIN} sandbox -- sh -c 'echo in''side; read x; echo g''ot:$x; exit 8' &\r".encode())
        t.expect(b"inside")
        t.type(b"jobs -r; echo listed''now\r")  # read by the shell, not by the command
        t.expect(b"listednow\r\n")
        assert b"Running" in t.seen
        t.type(b"fg; echo code:$?\r")
        t.until(lambda: not t.modes()[1] & termios.OPOST, "raw mode of the relay")  # the raw mode of a line editor has OPOST
        t.type(b"word\r")
        t.expect(b"got:word\r\n")
        t.expect(b"code:8\r\n")
        t.type(b"exit 0\r")
        assert t.wait() == 0


def test_a_hang_up_ends_the_command(me):
    marker = os.path.basename(me.base)
    with Terminal(me, "--", "sh", "-c", "echo ready; while :; do sleep 0.1; done", marker) as t:
        t.expect(b"ready")
        t.until(t.is_raw, "raw mode")
        os.close(t.slave)
        os.close(t.master)
        t.master, t.slave = os.open("/dev/null", os.O_RDWR), os.open("/dev/null", os.O_RDWR)
        assert t.proc.wait(60) == 129
        eventually(lambda: not host_pids(marker), "the end of the command")
