"""`farhand run`: a command on a private server, on a WebSocket, on a unix socket and through a program looks like one in this shell."""

import os
import signal
import subprocess
import tempfile

import pytest

from farhand_client import BIN, PATIENCE, Server, merged_env, pid_gone, wait_until

SECONDS = 30 * PATIENCE
# Nothing of the machine's own configuration decides where the commands of these tests run.
CLEAN = {"FARHAND_HOME": "/dev/null/none", "CODEX_HOME": "/dev/null/none", "FARHAND_URL": None, "CODEX_EXEC_SERVER_URL": None,
         "FARHAND_TOKEN": None}


class Run:
    def __init__(self, args, home):
        self.args, self.env = args, merged_env({**CLEAN, "FARHAND_HOME": home, "CODEX_HOME": home})

    def argv(self, *args):
        return [BIN, "run", *self.args, *args]

    def __call__(self, *args, stdin=b"", env=None, **kw):
        return subprocess.run(self.argv(*args), input=stdin, capture_output=True, timeout=SECONDS, check=False,
                              env={**self.env, **(env or {})}, **kw)

    def start(self, *args, **kw):
        return subprocess.Popen(self.argv(*args), env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **kw)


@pytest.fixture(params=["private", "ws", "unix", "program"])
def run(request):
    with tempfile.TemporaryDirectory(prefix="fh-run-") as home:
        if request.param == "private":
            yield Run([], home)
        elif request.param == "program":
            with open(f"{home}/environments.toml", "w", encoding="utf-8") as f:
                f.write(f'default = "p"\n[[environments]]\nid = "p"\nprogram = "{BIN}"\nargs = ["serve", "--listen", "stdio"]\n')
            yield Run([], home)
        else:
            with Server(listen="ws://127.0.0.1:0" if request.param == "ws" else f"unix:{home}/socket") as server:
                yield Run(["--url", server.url], home)


def test_output_and_exit_code_pass_through(run):
    done = run("--", "sh", "-c", "printf out; printf err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out", b"err")


def test_options_of_the_command_are_the_commands(run):
    assert run("echo", "-n", "--env").stdout == b"--env"


def test_bytes_are_bytes(run):
    data = bytes(range(256)) * 300
    assert run("--", "cat", stdin=data).stdout == data


@pytest.mark.parametrize("size", [1 << 20, 20_000_003])
def test_large_input_and_output(run, size):
    data = os.urandom(size)
    done = run("--", "cat", stdin=data)
    assert done.returncode == 0 and done.stdout == data


def test_input_that_the_command_does_not_want(run):
    assert run("--", "true", stdin=os.urandom(5_000_000)).returncode == 0


def test_no_stdin(run):
    assert run("-n", "--", "cat", stdin=b"kept").stdout == b""


def test_signals_that_end_the_command(run):
    assert run("--", "sh", "-c", "kill -9 $$").returncode == 128 + 9


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_our_signals_reach_the_command(run, signo):
    name = signo.name[3:]
    with run.start("--", "bash", "-c", f"trap 'echo got; exit 3' {name}; echo ready; while :; do sleep 0.05; done") as proc:
        assert proc.stdout.readline() == b"ready\n"
        proc.send_signal(signo)
        assert proc.stdout.readline() == b"got\n"
        assert proc.wait(SECONDS) == 3


def test_failures_of_ours_have_their_own_codes(run):
    missing = run("--", "no-such-program")
    assert missing.returncode == 127 and b"no-such-program" in missing.stderr and missing.stdout == b""
    assert run("--", "/etc/passwd").returncode == 126
    assert run("-C", "/no/such/dir", "--", "true").returncode == 255
    assert run().returncode == 2
    assert run("--no-such-option", "--", "true").returncode == 2


def test_variables(run):
    done = run("-e", "A=1=2", "-e", "B", "-e", "NONE_SUCH", "--", "sh", "-c", 'echo "$A,$B,${NONE_SUCH-unset}"', env={"B": "b"})
    assert done.stdout == b"1=2,b,unset\n"


def test_directory(run):
    with tempfile.TemporaryDirectory(prefix="fh-run-cwd-") as cwd:
        assert run("-C", cwd, "--", "pwd").stdout.decode() == cwd + "\n"


def test_a_limit_of_time_ends_the_command(run):
    done = run("--timeout", "1", "--", "sleep", "600")
    assert done.returncode == 128 + signal.SIGTERM and b"time limit" in done.stderr


def test_a_sandbox(run):
    with tempfile.TemporaryDirectory(prefix="fh-run-box-") as cwd:
        os.chmod(cwd, 0o755)
        done = run("-C", cwd, "--read-only", "--", "sh", "-c", "touch x; echo $?")
        assert done.stdout == b"1\n" and not os.path.exists(f"{cwd}/x")
        done = run("-C", cwd, "--workspace-write", "--", "sh", "-c", "touch x; echo $?; touch /etc/fh-x; echo $?")
        assert done.stdout == b"0\n1\n" and os.path.exists(f"{cwd}/x")
        assert run("--read-only", "--workspace-write", "--", "true").returncode == 255


def test_a_terminal(run):
    done = run("-t", "--", "sh", "-c", "test -t 0 && test -t 1 && stty size; echo $TERM", env={"TERM": "vt100"})
    assert done.stdout == b"24 80\r\nvt100\r\n"


def test_what_the_command_leaves_running_does_not_hold_us_up(run):
    done = run("--", "sh", "-c", "echo $$; sleep 600 & echo now")
    assert done.returncode == 0 and done.stdout.endswith(b"now\n")


def test_nothing_is_left_of_a_private_server():
    with tempfile.TemporaryDirectory(prefix="fh-run-") as home:
        run = Run([], home)
        done = run("--", "sh", "-c", "sleep 600 & echo $! $PPID $$")
        for pid in map(int, done.stdout.split()):
            pid_gone(pid)


def test_a_killed_client_ends_its_private_server():
    with tempfile.TemporaryDirectory(prefix="fh-run-") as home:
        with Run([], home).start("--", "sh", "-c", "echo $$; sleep 600") as proc:
            pid = int(proc.stdout.readline())
            proc.kill()
            proc.wait(SECONDS)
            pid_gone(pid)


def test_a_reader_that_goes_away_ends_the_output(run):
    with run.start("--", "sh", "-c", "yes; echo $? >&2") as proc:
        assert proc.stdout.read(4) == b"y\ny\n"
        proc.stdout.close()
        proc.send_signal(signal.SIGTERM)
        assert proc.wait(SECONDS) == 128 + signal.SIGTERM


def test_a_reader_that_waits_holds_the_command_up_and_loses_nothing(run):
    with run.start("--", "sh", "-c", "head -c 30000000 /dev/zero; echo end >&2") as proc:
        wait_until(lambda: len(os.read(proc.stdout.fileno(), 1)) == 1)
        rest = proc.stdout.read()
        assert len(rest) == 30_000_000 - 1 and proc.wait(SECONDS) == 0


def test_a_server_that_is_not_there_is_told():
    with tempfile.TemporaryDirectory(prefix="fh-run-") as home:
        for url in (f"unix:{home}/none", "ws://127.0.0.1:1", "http://x", "ws://no-such-host.invalid:1"):
            done = Run(["--url", url], home)("--", "true")
            assert done.returncode == 255 and done.stderr.startswith(b"farhand: ") and done.stderr.count(b"\n") == 1


def test_a_token_is_needed_and_kept_from_the_command():
    with tempfile.TemporaryDirectory(prefix="fh-run-") as home:
        with open(f"{home}/token", "w", encoding="utf-8") as f:
            f.write("s" * 40)
        with Server(["--ws-auth", "capability-token", "--ws-token-file", f"{home}/token"]) as server:
            run = Run(["--url", server.url], home)
            refused = run("--", "true")
            assert refused.returncode == 255 and b"401" in refused.stderr
            assert run("--", "echo", "in", env={"FARHAND_TOKEN": "s" * 40}).stdout == b"in\n"
            assert b"401" in run("--", "true", env={"FARHAND_TOKEN": "wrong" * 8}).stderr
        private = Run([], home)
        assert private("--", "sh", "-c", "echo [$FARHAND_TOKEN]", env={"FARHAND_TOKEN": "secret"}).stdout == b"[]\n"


# --- what is said of a server that is lost


def only_child(pid):
    children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=True).stdout.split()
    assert len(children) == 1
    return int(children[0])


@pytest.mark.parametrize("where", ["private", "another"])
def test_a_lost_server_is_told_with_what_was_running(tmp, where):
    """Another server is killed and begun again: a new one knows no session, and nobody waits for the time of a resumption."""
    server = Server(listen=f"unix:{tmp}/socket") if where == "another" else None
    run = Run(["--url", server.url] if server else [], tmp)
    with run.start("--", "sh", "-c", "echo begun; sleep 600 # \x1b[31m") as proc:
        assert proc.stdout.readline() == b"begun\n"
        if server:
            server.stop(signal.SIGKILL)
            server = Server(listen=f"unix:{tmp}/socket")
        else:
            os.kill(only_child(proc.pid), signal.SIGKILL)
        _, err = proc.communicate(timeout=SECONDS)
        assert proc.returncode == 255 and err.endswith(b"; this was running: sh -c echo begun; sleep 600 # \\x1b[31m\n"), err
    if server:
        server.stop()


# --- options


def test_variables_of_the_terminal_travel_with_a_terminal_only():
    names = ("TERM", "LANG", "LC_ALL", "LC_CTYPE")
    script = "echo " + " ".join(f"${name}" for name in names)
    with tempfile.TemporaryDirectory(prefix="fh-run-") as home, Server(env={name: "C" for name in names}) as server:
        run = Run(["--url", server.url], home)
        near = {name: "C.UTF-8" for name in names} | {"TERM": "vt52", "COLORTERM": "never"}
        assert run("--", "sh", "-c", script, env=near).stdout == b"C C C C\n"
        assert run("-t", "--", "sh", "-c", script + " [$COLORTERM]", env=near).stdout == b"vt52 C.UTF-8 C.UTF-8 C.UTF-8 []\r\n"


def test_an_environment_by_name(tmp):
    with Server(env={"WHERE": "there"}) as server:
        with open(f"{tmp}/environments.toml", "w", encoding="utf-8") as f:
            f.write(f'[[environments]]\nid = "there"\nurl = "{server.url}"\n')
        run = Run(["--env", "there"], tmp)
        assert run("--", "sh", "-c", "echo $WHERE").stdout == b"there\n"
        refused = Run(["--env", "nowhere"], tmp)("--", "true")
        assert refused.returncode == 255 and b"nowhere" in refused.stderr and refused.stderr.count(b"\n") == 1


def test_interactive_is_accepted(run):
    assert run("-i", "--", "cat", stdin=b"kept").stdout == b"kept"
    assert run("-it", "--", "sh", "-c", "test -t 0 && echo both").stdout == b"both\r\n"


def test_a_limit_of_memory_ends_the_command(run):
    done = run("--memory", str(64 << 20), "--", "python3", "-c", "x = bytearray(300 << 20); print(len(x))")
    if b"memory" in done.stderr and done.returncode == 255:
        pytest.skip("no limits of memory here: " + done.stderr.decode())
    assert done.returncode != 0 and done.stdout == b""


def test_a_profile_of_a_file(run, tmp):
    entry = '{"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}'
    good = f'{{"type": "managed", "file_system": {{"type": "restricted", "entries": [{entry}]}}, "network": "restricted"}}'
    for name, text in (("good", good), ("bad", "{"), ("unknown", '{"type": "no such"}')):
        with open(f"{tmp}/{name}", "w", encoding="utf-8") as f:
            f.write(text)
    script = f"touch {tmp}/made; echo $?"
    assert run("--profile", f"{tmp}/good", "-C", tmp, "--", "sh", "-c", script).stdout == b"1\n"
    for name in ("bad", "unknown", "missing"):
        done = run("--profile", f"{tmp}/{name}", "-C", tmp, "--", "sh", "-c", script)
        assert done.returncode == 255 and done.stdout == b"" and done.stderr.startswith(b"farhand: "), done
    assert not os.path.exists(f"{tmp}/made")
