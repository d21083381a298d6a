"""Commands that outlive the command that started them: `farhand run --detach`, `ps`, `logs`, `kill`, `attach`, `shell`, on the user's
background server and on any other."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import tempfile
import time

import pytest

from farhand_client import BIN, PATIENCE, Client, Server, merged_env, pid_alive, pid_gone, wait_until
from test_cmd_run import CLEAN, SECONDS


class Desk:
    """A user's own directories, and the commands that use them."""

    def __init__(self, home, args=()):
        self.home, self.args = home, list(args)
        self.runtime = f"{home}/run"
        os.makedirs(self.runtime, mode=0o700, exist_ok=True)
        self.env = merged_env({**CLEAN, "FARHAND_HOME": home, "CODEX_HOME": home, "XDG_RUNTIME_DIR": self.runtime,
                               "SHELL": "/bin/bash", "HOME": home, "TERM": "vt100"})

    def __call__(self, command, *args, stdin=b"", env=None):
        return subprocess.run([BIN, command, *self.args, *args], input=stdin, capture_output=True, timeout=SECONDS, check=False,
                              env={**self.env, **(env or {})})

    def said(self, command, *args, **kw):
        done = self(command, *args, **kw)
        assert done.returncode == 0, done
        return done.stdout.decode()

    def detach(self, *argv, **kw):
        return self.said("run", "--detach", *kw.pop("options", []), "--", *argv, **kw).strip()

    def processes(self):
        return json.loads(self.said("ps", "--json"))["processes"]

    def server_pid(self):
        """The process that listens on the background server's socket."""
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(f"{self.runtime}/farhand/socket")
            return int.from_bytes(s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], "little")

    def end(self):
        try:
            pid = self.server_pid()
        except OSError:
            return
        os.kill(pid, signal.SIGTERM)
        pid_gone(pid, 30)


@pytest.fixture
def desk():
    with tempfile.TemporaryDirectory(prefix="fh-desk-", dir="/tmp") as home:
        d = Desk(home)
        yield d
        d.end()


@pytest.fixture(params=["background", "ws"])
def any_desk(request):
    with tempfile.TemporaryDirectory(prefix="fh-desk-", dir="/tmp") as home:
        if request.param == "background":
            d = Desk(home)
            yield d
            d.end()
        else:
            with Server() as server:
                yield Desk(home, ["--url", server.url])


@contextlib.contextmanager
def running(argv, desk):
    """A command of the desk; killed in the end, so that a test that fails does not wait for it."""
    with subprocess.Popen([BIN, *argv], env=desk.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as proc:
        try:
            yield proc
        finally:
            proc.kill()


def test_a_detached_command_runs_on_and_is_listed(any_desk):
    ident = any_desk.detach("sh", "-c", "echo begun; sleep 600")
    assert re.fullmatch(r"[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", ident)
    process, = any_desk.processes()
    assert process["running"] and process["argv"] == ["sh", "-c", "echo begun; sleep 600"] and process["sessionId"][9:13] == ident[:4]
    line = any_desk.said("ps").splitlines()[1]
    assert line.startswith(ident[:4]) and " running " in line and line.endswith("sh -c echo begun; sleep 600")
    wait_until(lambda: any_desk.said("logs", ident[:4]) == "begun\n")
    assert any_desk("kill", ident[:4]).returncode == 0
    wait_until(lambda: not any_desk.processes()[0]["running"])
    assert any_desk.processes()[0]["exitCode"] == 128 + signal.SIGTERM
    assert any_desk("kill", ident).returncode == 1


def test_logs_follow_until_the_end(any_desk):
    with tempfile.TemporaryDirectory(prefix="fh-go-") as at:
        ident = any_desk.detach("bash", "-c", f"echo out; echo err >&2; until test -e {at}/go; do sleep 0.05; done; echo end")
        with running(["logs", *any_desk.args, "-f", ident], any_desk) as proc:
            assert proc.stdout.readline() == b"out\n"
            with open(f"{at}/go", "w", encoding="utf-8"):
                pass
            out, err = proc.communicate(timeout=SECONDS)
            assert (out, err, proc.returncode) == (b"end\n", b"err\n", 0)


def test_kill_ends_the_whole_tree(any_desk):
    ident = any_desk.detach("bash", "-c", "setsid sleep 600 & echo $!; trap '' TERM; echo ready; while :; do sleep 0.1; done")
    wait_until(lambda: any_desk.said("logs", ident).endswith("ready\n"))
    child = int(any_desk.said("logs", ident).split()[0])
    wait_until(lambda: os.getsid(child) == child, what="the session of its own")
    assert any_desk("kill", ident).returncode == 0 and pid_alive(child)
    assert any_desk("kill", "-s", "KILL", ident).returncode == 0
    pid_gone(child)


@pytest.mark.parametrize("args, code", [
    (["kill", "-s", "NONE", "abcd"], 2), (["kill"], 2), (["logs"], 2), (["attach"], 2), (["attach", "a", "b"], 2),
    (["kill", "ffff"], 1), (["logs", "ffff"], 255), (["attach", "ffff"], 255), (["kill", ""], 1), (["ps", "extra"], 2)])
def test_what_is_not_there_is_told(any_desk, args, code):
    any_desk.detach("sleep", "600")
    done = any_desk(*args)
    assert done.returncode == code and done.stdout == b"" and done.stderr


def test_attach_shows_what_was_missed_and_the_exit_code(any_desk):
    with tempfile.TemporaryDirectory(prefix="fh-go-") as at:
        ident = any_desk.detach("bash", "-c", f"echo before; until test -e {at}/go; do sleep 0.05; done; echo after; exit 5")
        wait_until(lambda: any_desk.said("logs", ident))
        with running(["attach", *any_desk.args, ident[:6]], any_desk) as proc:
            assert proc.stdout.readline() == b"before\n"
            with open(f"{at}/go", "w", encoding="utf-8"):
                pass
            assert (proc.communicate(timeout=SECONDS)[0], proc.returncode) == (b"after\n", 5)


def test_attach_to_a_command_whose_output_is_no_longer_kept_does_not_end_it(any_desk):
    with tempfile.TemporaryDirectory(prefix="fh-go-") as at:
        ident = any_desk.detach("bash", "-c", f"head -c 3000000 /dev/zero; echo; touch {at}/full; until test -e {at}/go; do sleep 0.05; "
                                              "done; echo after; exit 5")
        wait_until(lambda: os.path.exists(f"{at}/full"))
        with running(["attach", *any_desk.args, ident], any_desk) as proc:
            assert os.read(proc.stdout.fileno(), 1) == b"\0"  # and nothing behind it
            with open(f"{at}/go", "w", encoding="utf-8"):
                pass
            out, err = proc.communicate(timeout=SECONDS)
        assert proc.returncode == 5 and out.endswith(b"\nafter\n"), err
        [gone] = [int(n) for n in re.findall(rb"farhand: ([0-9]+) bytes of earlier output are no longer kept\n", err)]
        assert gone + 1 + len(out) == 3_000_007


def test_attach_takes_over(any_desk):
    ident = any_desk.detach("sleep", "600")
    argv = ["attach", *any_desk.args, ident]
    url = any_desk.args[1] if any_desk.args else f"unix:{any_desk.runtime}/farhand/socket"
    with running(argv, any_desk) as first, Client(url) as c:
        wait_until(lambda: any(s["attached"] for s in c.call("session/list", {})["sessions"] if s["sessionId"][9:13] == ident[:4]))
        with running(argv, any_desk) as second:
            assert first.wait(SECONDS) == 255 and b"taken the session over" in first.stderr.read()
            any_desk("kill", ident)
            assert second.wait(SECONDS) == 128 + signal.SIGTERM


def test_where_the_session_ends_with_its_connection_nothing_is_detached(desk):
    with open(f"{desk.home}/environments.toml", "w", encoding="utf-8") as f:
        f.write(f'default = "p"\n[[environments]]\nid = "p"\nprogram = "{BIN}"\nargs = ["serve", "--listen", "stdio"]\n')
    done = desk("run", "--detach", "--", "touch", f"{desk.home}/made")
    assert done.returncode == 255 and b"--detach is not possible" in done.stderr and not os.path.exists(f"{desk.home}/made")


# --- the background server


def test_it_is_started_once_and_belongs_to_the_user_alone(desk):
    assert desk.said("ps").count("\n") == 1 and not os.path.exists(f"{desk.runtime}/farhand/socket")
    starts = [subprocess.Popen([BIN, "run", "-d", "--", "sleep", "600"], env=desk.env, stdout=subprocess.PIPE) for _ in range(6)]
    for proc in starts:
        assert proc.wait(SECONDS) == 0
        proc.stdout.close()
    assert len(desk.processes()) == 6
    at = f"{desk.runtime}/farhand"
    assert os.stat(at).st_mode & 0o777 == 0o700 and os.stat(f"{at}/socket").st_mode & 0o777 == 0o600
    assert os.stat(f"{at}/log").st_mode & 0o777 == 0o600 and os.stat(f"{at}/sessions").st_mode & 0o777 == 0o700


def test_its_commands_have_our_variables_and_directory(desk):
    desk.detach("true", env={"FIRST": "1"})
    ident = desk.detach("sh", "-c", 'echo "[$FIRST][$SECOND][$FARHAND_TOKEN][$SAME]"; pwd', options=["-e", "SAME=option", "-C", desk.home],
                        env={"SECOND": "2", "FARHAND_TOKEN": "secret", "SAME": "ours"})
    wait_until(lambda: desk.said("logs", ident) == f"[][2][][option]\n{desk.home}\n")


def test_a_dead_one_is_replaced(desk):
    desk.detach("true")
    pid = desk.server_pid()
    os.kill(pid, signal.SIGKILL)
    pid_gone(pid)
    assert os.path.exists(f"{desk.runtime}/farhand/socket")
    desk.detach("true")
    assert desk.server_pid() != pid


def test_it_ends_when_nobody_has_used_it():
    with tempfile.TemporaryDirectory(prefix="fh-idle-") as at:
        server = Server(["--exit-when-idle", "1"], listen=f"unix:{at}/socket")
        with Client(server.url, init_params={"detachMs": 1500}) as c:
            c.call("environment/status")
            time.sleep(2)  # longer than the limit: an attached session keeps the server
            c.call("environment/status")
        assert pid_alive(server.pid), "a detached session keeps it, too"
        assert server.proc.wait(20 * PATIENCE) == 0
        assert not os.path.exists(f"{at}/socket")


def test_finished_commands_are_forgotten_after_the_time_of_the_option():
    with Server(["--keep-finished", "0"]) as at_once, Server(["--keep-finished", "3600"]) as later:
        for server, count in ((at_once, 0), (later, 1)):
            with Client(server.url) as c:
                assert c.run(["echo", "said"])[0] == b"said\n"
                wait_until(lambda c=c, count=count: len(c.call("process/list", {})["processes"]) == count)
    refused = subprocess.run([BIN, "serve", "--keep-finished", "31536001"], capture_output=True, timeout=SECONDS, check=False)
    assert refused.returncode == 2 and b"keep-finished" in refused.stderr


def test_a_finished_command_is_kept_for_an_hour(desk):
    ident = desk.detach("sh", "-c", "echo said; exit 5")
    wait_until(lambda: not desk.processes()[0]["running"])
    with open(f"/proc/{desk.server_pid()}/cmdline", encoding="latin-1") as f:
        argv = f.read().split("\0")
    assert argv[argv.index("--keep-finished") + 1] == "3600"
    assert desk.said("logs", ident) == "said\n" and " exit 5 " in desk.said("ps")
    done = desk("attach", ident)
    assert (done.returncode, done.stdout) == (5, b"said\n")


@pytest.mark.slow
def test_a_finished_command_can_be_read_later_than_a_program_would(desk):
    ident = desk.detach("sh", "-c", "echo said; exit 5")
    time.sleep(40)
    assert desk.said("logs", ident) == "said\n" and " exit 5 " in desk.said("ps")


def plant(path, what):
    if what == "link":
        os.symlink("/tmp", path)
    elif what == "file":
        with open(path, "w", encoding="utf-8"):
            pass
    elif what == "open directory":
        os.mkdir(path)
        os.chmod(path, 0o755)
    elif what == "directory of another":
        os.mkdir(path, 0o700)
        os.chown(path, 12345, 12345)


@pytest.mark.parametrize("what", ["link", "file", "open directory", "directory of another"])
def test_a_place_that_is_not_ours_is_refused(desk, what):
    if what == "directory of another" and os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    plant(f"{desk.runtime}/farhand", what)
    for command in (["run", "-d", "--", "true"], ["ps"], ["attach", "x"]):
        done = desk(*command)
        assert done.returncode == 255 and done.stderr.startswith(b"farhand: ") and b"/run/farhand: " in done.stderr, done


@pytest.mark.parametrize("what", ["link", "file", "socket of another"])
def test_a_socket_that_is_not_ours_is_refused(desk, what):
    os.mkdir(f"{desk.runtime}/farhand", 0o700)
    path = f"{desk.runtime}/farhand/socket"
    if what == "socket of another":
        if os.geteuid() != 0:
            pytest.skip("only root can give a socket away")
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(path)
        os.chown(path, 12345, 12345)
    else:
        plant(path, what)
    done = desk("run", "-d", "--", "true")
    assert done.returncode == 255 and b"socket: " in done.stderr


# --- a shell


class Screen:
    """A command on a terminal of the test's."""

    def __init__(self, argv, env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(argv[0], argv, env)
        self.seen = b""

    def expect(self, what):
        deadline = time.monotonic() + SECONDS
        while what not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], max(0, deadline - time.monotonic()))
            assert ready, (what, self.seen)
            try:
                got = os.read(self.fd, 65536)
            except OSError:
                got = b""
            assert got, (what, self.seen)
            self.seen += got
        before, _, self.seen = self.seen.partition(what)
        return before

    def type(self, text):
        os.write(self.fd, text)

    def end(self):
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return code


def test_a_shell_is_left_and_come_back_to(any_desk):
    screen = Screen([BIN, "shell", *any_desk.args, "-e", "PS1=ready> "], any_desk.env)
    screen.type(b"PS1='re''ady> '\r")
    screen.expect(b"ready> ")
    screen.type(b"kept=value; test -t 0 && echo a-$((40+2))-b\r")
    screen.expect(b"a-42-b")
    screen.expect(b"ready> ")
    screen.type(b"\r~?")
    screen.expect(b"~.  leave: the command runs on")
    screen.type(b"\r~.")
    screen.expect(b"come back with: farhand attach ")
    ident = screen.expect(b"\n").strip().decode()
    assert screen.end() == 0
    screen = Screen([BIN, "attach", *any_desk.args, ident], any_desk.env)
    screen.type(b"echo [$kept]\r")
    screen.expect(b"[value]")
    screen.type(b"exit 3\r")
    assert screen.end() == 3
