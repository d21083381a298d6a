"""What `farhand sandbox` says after a failure: which rule refused what, and which option would allow it. And that
the command's output is otherwise unchanged: its bytes, their order, pipes that are not read or are closed early."""

import contextlib
import fcntl
import hashlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess

import pytest

from cmd_rig import BIN, SECONDS, USERS, Terminal, cmd_of
from farhand_client import PATIENCE
from sandbox_rig import special

F_GETPIPE_SZ = 1032
WAYS = ["pipe", "one pipe", "file", "appended file", "one file", "terminal", "terminal for errors only"]


@pytest.fixture(params=USERS)
def cmd(request):
    with cmd_of(request.param) as c:
        yield c


@pytest.fixture
def me():
    with cmd_of("root" if os.geteuid() == 0 else "unprivileged") as c:
        yield c


def sh(cmd, script, *options, shell="sh", **kw):
    return cmd.sandbox(*options, "--", shell, "-c", script, **kw)


def said(err):
    """The lines of standard error that `farhand sandbox` itself printed."""
    return [line for line in err.decode(errors="replace").replace("\r\n", "\n").split("\n") if line.startswith("refused:")]


def refusals(cmd, script, *options, **kw):
    code, _, err = sh(cmd, script, *options, **kw)
    assert code != 0, err
    return said(err)


def through(cmd, way, options, script):
    """Runs a script in a sandbox with standard error connected in one of WAYS. Returns the exit code and all of standard error."""
    argv = [BIN, "sandbox", *options, "--", "sh", "-c", script]
    if way.startswith("terminal"):
        redirect = {1: subprocess.DEVNULL} if way == "terminal for errors only" else None
        with Terminal(cmd, *options, "--", "sh", "-c", script, redirect=redirect) as t:
            return t.wait(), t.seen
    if way == "pipe":
        code, _, err = cmd.run(argv)
        return code, err
    if way == "one pipe":
        with cmd.popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as proc:
            out, _ = proc.communicate(timeout=SECONDS)
            return proc.returncode, out
    log = cmd.tree.file(os.path.join(cmd.base, "log"), "cat: old: Permission denied\n" if way == "appended file" else "")
    with open(log, "ab" if way == "appended file" else "wb") as f:
        out = f if way == "one file" else subprocess.DEVNULL
        with cmd.popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=f) as proc:
            code = proc.wait(SECONDS)
    with open(log, "rb") as f:
        return code, f.read()


@contextlib.contextmanager
def killed(proc):
    """Kills the process at the end of the block, also when the test has failed and its output is no longer read."""
    try:
        yield
    finally:
        proc.kill()


def soon(stream):
    """The bytes that can be read next; b"" after ten seconds."""
    ready, _, _ = select.select([stream], [], [], 10 * PATIENCE)
    return stream.read1() if ready else b""


def entry(path, access):
    return {"path": {"type": "path", "path": path}, "access": access}


def pattern(text):
    return {"path": {"type": "glob_pattern", "pattern": text}, "access": "deny"}


def profile(cmd, *entries, network="restricted"):
    stored = {"type": "managed", "file_system": {"type": "restricted", "entries": list(entries)}, "network": network}
    return ["--profile", cmd.tree.file(os.path.join(cmd.tree.o, "profile.json"), json.dumps(stored))]


def workspace(cmd, *entries):
    return profile(cmd, special("root", "read"), special("project_roots", "write"), *entries)


# Which refusals are printed


@pytest.mark.parametrize("way", WAYS)
def test_a_commit_without_git_names_the_option(cmd, way):
    if not shutil.which("git"):
        pytest.skip("needs git")
    cmd.git("init", "-q", "-b", "main", ".")
    cmd.tree.file(os.path.join(cmd.tree.w, "file"))
    code, err = through(cmd, way, ["--workspace-write"], "git add file")
    assert code == 128
    assert said(err) == ["refused: write .git/index.lock (protected; see --git)"]
    assert err.replace(b"\r\n", b"\n").endswith(b"see --git)\n")  # behind all that the command printed
    assert through(cmd, way, ["--workspace-write", "--git"], "git add file && git commit -q -m x && exit 3")[0] == 3


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_said_without_a_failure_or_without_a_refusal(cmd, way):
    for script in ("touch x; true", "echo bad >&2; exit 3", "cat /no/such/file", "kill -9 $$", "touch x; kill -TERM $$"):
        code, err = through(cmd, way, [], script)
        assert code == {"touch x; true": 0}.get(script, code)
        assert said(err) == [], script


def test_what_is_outside_names_the_option_that_opens_it(cmd):
    w, o = cmd.tree.w, cmd.tree.o
    assert refusals(cmd, "echo x > f") == ["refused: write f (read-only; see --workspace-write)"]
    assert refusals(cmd, f"touch {o}/f") == [f"refused: write {o}/f (read-only; see --workspace-write DIR)"]
    assert refusals(cmd, "touch /tmp/f") == ["refused: write /tmp/f (read-only; see --workspace-write)"]
    outside = "(outside the writable directories; see --workspace-write DIR)"
    assert refusals(cmd, f"touch {o}/f ../g", "--workspace-write") == [
        f"refused: write {o}/f {outside}", f"refused: write {os.path.dirname(w)}/g {outside}"]
    assert refusals(cmd, f"touch {w}/../w/./f", "--workspace-write", o) == [f"refused: write f {outside}"]
    assert refusals(cmd, "touch /f", *workspace(cmd)) == [
        "refused: write /f (outside the writable directories; see --profile)"]


def test_protected_names_that_git_does_not_open(cmd):
    assert refusals(cmd, "touch .codex/x", "--workspace-write") == ["refused: write .codex/x (protected; see --profile)"]
    assert refusals(cmd, "touch .git/x", "--workspace-write") == ["refused: write .git/x (protected; see --profile)"]
    cmd.tree.dir(os.path.join(cmd.tree.w, ".git"))
    assert refusals(cmd, "touch .git/x", *workspace(cmd)) == ["refused: write .git/x (protected; see --profile)"]
    assert refusals(cmd, "touch .git/x") == ["refused: write .git/x (read-only; see --workspace-write and --git)"]


def test_what_git_keeps_read_only(me):
    if not shutil.which("git"):
        pytest.skip("needs git")
    me.git("init", "-q", "-b", "main", ".")
    lines = refusals(me, "echo x > .git/hooks/post-commit", "--workspace-write", "--git")
    assert lines == ["refused: write .git/hooks/post-commit (read-only also with --git)"]


def test_a_commit_in_a_worktree_names_the_option(me):
    if not shutil.which("git"):
        pytest.skip("needs git")
    tree = os.path.join(me.tree.o, "tree")
    me.git("init", "-q", "-b", "main", ".")
    me.git("commit", "-q", "--allow-empty", "-m", "first")
    me.git("worktree", "add", "-q", "-b", "side", tree)
    lock = f"{me.tree.w}/.git/worktrees/tree/index.lock"
    assert refusals(me, "touch f && git add f", "--workspace-write", cwd=tree) == [
        f"refused: write {lock} (outside the writable directories; see --git)"]
    assert sh(me, "touch f && git add f", "--workspace-write", "--git", cwd=tree)[0] == 0


@pytest.mark.parametrize("backend", ["namespaces", "bubblewrap"])
def test_other_back_ends_refuse_with_the_same_words(cmd, backend):
    options = [*workspace(cmd, entry(cmd.tree.file(f"{cmd.tree.w}/secret"), "deny")), "--sandbox-backend", backend]
    code, _, err = sh(cmd, "true", *options)
    if code == 125:
        pytest.skip(err.decode())
    assert refusals(cmd, "cat secret; touch .git/x /x; exit 1", *options) == [
        "refused: read secret (denied by the entry secret; see --profile)",
        "refused: write .git/x (protected; see --profile)",
        "refused: write /x (outside the writable directories; see --profile)"]


@pytest.mark.parametrize("way", WAYS)
def test_denied_entries_and_patterns_are_named(cmd, way):
    w = cmd.tree.w
    secret, key = cmd.tree.file(f"{w}/secret"), cmd.tree.file(f"{w}/sub/key.pem")
    cmd.tree.file(f"{w}/hidden/below")
    options = workspace(cmd, entry(secret, "deny"), entry(f"{w}/hidden", "deny"), pattern("**/*.pem"),
                        entry(cmd.tree.dir(f"{w}/fixed"), "read"))
    code, err = through(cmd, way, options, f"cat secret hidden/below {key}; ls hidden; echo x > fixed/x; exit 1")
    assert code == 1
    assert said(err) == ["refused: read secret (denied by the entry secret; see --profile)",
                         "refused: read hidden/below (denied by the entry hidden; see --profile)",
                         "refused: read sub/key.pem (matches a denied pattern; see --profile)",
                         "refused: read hidden (denied by the entry hidden; see --profile)",
                         "refused: write fixed/x (read-only by the entry fixed; see --profile)"]


def test_what_the_machine_itself_refuses_is_not_ours(cmd):
    path = cmd.tree.file(os.path.join(cmd.tree.w, "closed"), mode=0)
    code, _, err = sh(cmd, f"cat {path}; echo x > closed", "--workspace-write")
    assert code != 0 and err.count(b"Permission denied") == 2
    assert said(err) == []


def test_a_narrow_profile(cmd):
    options = profile(cmd, special("minimal", "read"), special("project_roots", "write"))
    assert refusals(cmd, "touch /x /usr/x", *options) == [
        "refused: write /x (not in the profile; see --profile)",
        "refused: write /usr/x (read-only: needed to run programs; see --profile)"]


NETWORK = "(the network is closed; see --network)"


@pytest.mark.parametrize("way", WAYS)
def test_a_closed_network_names_the_option(cmd, way):
    if not shutil.which("bash"):
        pytest.skip("needs bash")
    code, err = through(cmd, way, [], "bash -c 'cat < /dev/tcp/192.0.2.1/80'")
    assert code == 1
    assert said(err) == [f"refused: connect 192.0.2.1:80 {NETWORK}"]


@pytest.mark.parametrize("url,address", [("http://192.0.2.1/", "192.0.2.1:80"), ("http://host.invalid/", "host.invalid")])
def test_curl_in_a_closed_network(me, url, address):
    if not shutil.which("curl"):
        pytest.skip("needs curl")
    code, _, err = me.sandbox("--", "curl", "-sS", "--noproxy", "*", url)
    assert code in (6, 7)
    assert said(err) == [f"refused: connect {address} {NETWORK}"]


def test_a_network_that_cannot_be_reached_without_an_address(me):
    code, _, err = me.sandbox("--", "python3", "-c", "import socket; socket.create_connection(('192.0.2.1', 80), 5)")
    assert (code, said(err)) == (1, [f"refused: connect {NETWORK}"])
    script = "echo connect: Network is unreachable >&2; exit 1"
    assert refusals(me, script) == [f"refused: connect {NETWORK}"]
    assert refusals(me, script, "--network") == []


def test_a_death_by_the_filter(me):
    assert refusals(me, "kill -SYS $$") == ["refused: system call (not allowed in any sandbox)"]
    assert refusals(me, "exit 159") == ["refused: system call (not allowed in any sandbox)"]


def test_landlock_alone(cmd):
    code, _, err = sh(cmd, "true", "--sandbox-backend", "landlock")
    if code == 125:
        pytest.skip(err.decode())
    path = cmd.tree.file(os.path.join(cmd.tree.w, "closed"), mode=0)
    assert refusals(cmd, f"touch f; echo x > /etc/f; cat {path}; exit 1", "--sandbox-backend", "landlock") == [
        "refused: write f (read-only; see --workspace-write)",
        "refused: write /etc/f (read-only; see --workspace-write DIR)"]


def test_a_profile_that_restricts_nothing_says_nothing(me):
    file = me.tree.file(os.path.join(me.tree.o, "p.json"), json.dumps({"type": "disabled"}))
    assert refusals(me, "echo x: Read-only file system >&2; exit 1", "--profile", file) == []


# How refusals are printed


def test_each_refusal_is_told_once_and_only_a_few_are(me):
    assert len(refusals(me, "touch a; touch a; touch ./a; touch $PWD/a; exit 1")) == 1
    lines = refusals(me, "for i in $(seq 20); do touch f$i; done; exit 1")
    assert len(lines) == 9 and lines[-1] == "refused: and 12 more"
    assert lines[0].startswith("refused: write f1 ")
    assert refusals(me, "for i in $(seq 100); do touch f$i; done; exit 1")[-1] == "refused: and more than 24 others"


@pytest.mark.parametrize("way", WAYS)
def test_a_path_cannot_speak_to_the_terminal(me, way):
    name = "a\\033[31m\\302\\233b\\377\\007c"
    code, err = through(me, way, [], f"bash -c \"touch x 2>/dev/null; echo > \\$'{name}'; exit 1\"")
    assert code == 1
    ours = err[err.rindex(b"refused:"):]
    assert ours.rstrip(b"\r\n") == b"refused: write a?[31m?b??c (read-only; see --workspace-write)"


def test_a_newline_in_a_path_starts_no_line_of_ours(me):
    top = me.tree.dir(os.path.join(me.tree.w, "x\nrefused: lie"))
    secret, cwd = me.tree.file(os.path.join(top, "secret")), me.tree.dir(os.path.join(top, "sub"))
    code, _, err = me.sandbox(*workspace(me, entry(secret, "deny")), "--", "cat", "../secret", cwd=cwd)
    assert code == 1
    shown = secret.replace("\n", "?")
    assert said(err) == [f"refused: read {shown} (denied by the entry {shown}; see --profile)"]


@pytest.mark.parametrize("way", WAYS)
def test_output_without_an_end_gets_one(me, way):
    code, err = through(me, way, [], "printf 'touch: cannot touch '\\''x'\\'': Read-only file system' >&2; exit 4")
    assert code == 4
    assert err.replace(b"\r\n", b"\n").endswith(b"system\nrefused: write x (read-only; see --workspace-write)\n")


def test_quiet_says_nothing_and_hands_every_descriptor_in_as_it_is(me):
    code, out, err = sh(me, "readlink /proc/self/fd/2; touch x", "--quiet")
    assert code == 1 and said(err) == [] and b"Read-only" in err
    read_end, write_end = os.pipe()
    with me.popen([BIN, "sandbox", "--quiet", "--", "sh", "-c", "readlink /proc/self/fd/2; exit 1"], stdin=subprocess.DEVNULL,
                  stdout=subprocess.PIPE, stderr=write_end) as proc:
        inode = os.readlink(f"/proc/self/fd/{write_end}")
        os.close(write_end)
        assert proc.communicate(timeout=SECONDS)[0].decode().strip() == inode
    os.close(read_end)


def test_an_output_that_is_not_also_standard_error_is_handed_in_as_it_is(me):
    read_end, write_end = os.pipe()
    inode = os.readlink(f"/proc/self/fd/{write_end}")
    with me.popen([BIN, "sandbox", "--", "readlink", "/proc/self/fd/1"], stdin=subprocess.DEVNULL, stdout=write_end,
                  stderr=subprocess.PIPE) as proc:
        os.close(write_end)
        proc.communicate(timeout=SECONDS)
    with os.fdopen(read_end, "rb") as out:
        assert out.read().decode().strip() == inode
    log = me.tree.file(os.path.join(me.base, "log"), "")
    with open(log, "wb") as f, me.popen([BIN, "sandbox", "--", "readlink", "/proc/self/fd/2"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=f) as proc:
        assert proc.communicate(timeout=SECONDS)[0].decode().strip() == log


# Output of the command that must not change


WRITER = """
import os, sys, hashlib
data = os.urandom(1 << 20) * 8
left = memoryview(data)
while left:
    left = left[os.write(2, left[:int(sys.argv[1])]):]
sys.stdout.write(hashlib.sha256(data).hexdigest()) if sys.argv[2] == "sum" else None
sys.exit(1)
"""


@pytest.mark.parametrize("size", [1 << 20, 4097, 100])
def test_much_binary_output_passes_unchanged(cmd, size):
    count = 1 << 23 if size > 100 else 1 << 18
    script = WRITER.replace("* 8", f"* 8; data = data[:{count}]")
    code, out, err = cmd.sandbox("--", "python3", "-c", script, str(size), "sum")
    assert code == 1
    assert hashlib.sha256(err[:count]).hexdigest().encode() == out
    log = cmd.tree.file(os.path.join(cmd.base, "log"), "")
    with open(log, "wb") as f, cmd.popen([BIN, "sandbox", "--", "python3", "-c", script, str(size), "sum"],
                                         stdout=subprocess.PIPE, stderr=f) as proc:
        out, _ = proc.communicate(timeout=SECONDS)
    with open(log, "rb") as f:
        assert hashlib.sha256(f.read(count)).hexdigest().encode() == out


@pytest.mark.parametrize("way", ["pipe", "one pipe", "terminal"])
def test_standard_error_can_be_opened_by_its_name(me, way):
    code, err = through(me, way, [], "echo by name > /dev/stderr; exit 2")
    assert code == 2 and b"by name" in err


def test_both_streams_of_one_pipe_keep_their_order(cmd):
    script = "import os\nfor i in range(20000): os.write(1 + i % 2, b'%d\\n' % i)\nos._exit(1)"
    with cmd.popen([BIN, "sandbox", "--", "python3", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                   stderr=subprocess.STDOUT) as proc:
        out, _ = proc.communicate(timeout=SECONDS)
    assert proc.returncode == 1
    assert out == b"".join(b"%d\n" % i for i in range(20000))


def test_what_was_one_write_stays_one(me):
    """A write of up to 4,096 bytes to a pipe is atomic; programs rely on that when several write to one pipe."""
    read_end, write_end = os.pipe2(os.O_DIRECT)  # each read gets one write
    sizes = [1, 5000, 4096, 10, 10, 3000, 3000]
    script = f"import os\nfor n in {sizes}: os.write(2, b'x' * n)"
    with me.popen([BIN, "sandbox", "--", "python3", "-c", script], stdin=subprocess.DEVNULL, stderr=write_end) as proc:
        os.close(write_end)
        got = []
        while piece := os.read(read_end, 65536):
            got.append(len(piece))
        assert proc.wait(SECONDS) == 0
    os.close(read_end)
    assert got == [1, 4096, 904, 4096, 10, 10, 3000, 3000]


def test_output_arrives_while_the_command_runs(me):
    with me.popen([BIN, "sandbox", "--", "sh", "-c", "echo now >&2; read x; exit 5"], stdin=subprocess.PIPE,
                  stderr=subprocess.PIPE) as proc:
        assert proc.stderr.readline() == b"now\n"
        assert proc.poll() is None
        proc.stdin.close()
        assert proc.wait(SECONDS) == 5


def test_what_is_left_running_with_standard_error_keeps_nobody_waiting(me):
    with me.popen([BIN, "sandbox", "--", "sh", "-c", "(setsid sleep 1000 &); echo x >&2; exit 6"], stdin=subprocess.DEVNULL,
                  stderr=subprocess.PIPE) as proc:
        assert proc.communicate(timeout=SECONDS)[1] == b"x\n"
        assert proc.returncode == 6


def test_somebody_outside_who_got_standard_error_keeps_nobody_waiting(me):
    path = os.path.join(me.base, "s")
    script = ("import os, socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
              "socket.send_fds(s, [b'x'], [2])\ns.recv(1)\nos.write(2, b'last\\n')\nos._exit(4)")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        me.tree.own(path)
        server.listen()
        with me.popen([BIN, "sandbox", "--network", "--", "python3", "-c", script, path], stdin=subprocess.DEVNULL,
                      stderr=subprocess.PIPE) as proc:
            peer, _ = server.accept()
            with peer:
                _, (fd,), _, _ = socket.recv_fds(peer, 1, 1)
                flood = subprocess.Popen(["sh", "-c", "while echo flood; do :; done"], stdout=fd, stderr=subprocess.DEVNULL)
                os.close(fd)
                peer.send(b"x")
                err = proc.communicate(timeout=SECONDS)[1]
        try:
            assert proc.returncode == 4 and b"last\n" in err
            assert flood.wait(SECONDS) != 0  # its pipe was closed when farhand ended
        finally:
            flood.kill()
            flood.wait()


@pytest.mark.parametrize("one", [False, True])
def test_a_reader_that_goes_ends_the_command_as_without_us(me, one):
    writer = "while echo x >&2; do :; done; exit 7"
    with me.popen([BIN, "sandbox", "--", "sh", "-c", f"sh -c '{writer}' || exit $((100 + $? % 100))"],
                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if one else subprocess.DEVNULL,
                  stderr=subprocess.STDOUT if one else subprocess.PIPE, restore_signals=True) as proc:
        stream = proc.stdout if one else proc.stderr
        assert stream.read(2) == b"x\n"
        stream.close()
        assert proc.wait(SECONDS) == 100 + (128 + signal.SIGPIPE) % 100


def test_a_silent_command_sees_that_its_reader_has_gone(me):
    script = "import select\np = select.poll()\np.register(2, 0)\nprint(p.poll(60000), flush=True)"
    with me.popen([BIN, "sandbox", "--", "python3", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                  stderr=subprocess.PIPE) as proc:
        proc.stderr.close()
        assert proc.stdout.read() == b"[(2, 8)]\n"  # POLLERR
        assert proc.wait(SECONDS) == 0


@pytest.mark.parametrize("blocks", [1, 16])
def test_a_pipe_that_holds_everything_needs_no_reader_before_the_end(me, blocks):
    """When the pipe has no room for the lines of `farhand sandbox`, they are left out: to wait for a reader would be a deadlock."""
    line = b"touch: cannot touch 'x': Read-only file system\n"
    script = f"import os\nfor i in range({blocks}): os.write(2, {line!r}.rjust(4096, b'\\n'))\nos._exit(3)"
    with me.popen([BIN, "sandbox", "--", "python3", "-c", script], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as proc:
        assert fcntl.fcntl(proc.stderr, F_GETPIPE_SZ) == 65536
        assert proc.wait(SECONDS) == 3
        err = proc.stderr.read()
    assert err[:blocks * 4096] == line.rjust(4096, b"\n") * blocks
    assert err[blocks * 4096:] == (b"refused: write x (read-only; see --workspace-write)\n" if blocks == 1 else b"")


def test_waiting_for_a_reader_can_be_interrupted(me):
    with me.popen([BIN, "sandbox", "--", "sh", "-c", "head -c 100000 /dev/zero >&2; echo done; exit 3"],
                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as proc, killed(proc):
        assert soon(proc.stdout) == b"done\n"
        assert soon(proc.stdout) == b""  # the command has ended; farhand holds the rest of its output
        proc.send_signal(signal.SIGTERM)
        assert proc.wait(SECONDS) == 3
        assert proc.stderr.read().startswith(b"\0" * 65536)


def test_all_output_arrives_however_slow_the_reader_is(me):
    with me.popen([BIN, "sandbox", "--", "sh", "-c", "head -c 100000 /dev/zero >&2; echo >&2; echo done; touch x; exit 3"],
                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as proc, killed(proc):
        assert soon(proc.stdout) == b"done\n"
        err = proc.stderr.read()
        assert proc.wait(SECONDS) == 3
    assert err.startswith(b"\0" * 100000 + b"\ntouch: ")
    assert said(err[100000:]) == ["refused: write x (read-only; see --workspace-write)"]


def test_only_the_newest_output_is_looked_at(me):
    assert refusals(me, "touch x; head -c 200000 /dev/zero | tr '\\0' '\\n' >&2; exit 1") == []
    assert len(refusals(me, "head -c 200000 /dev/zero | tr '\\0' '\\n' >&2; touch x; exit 1")) == 1
