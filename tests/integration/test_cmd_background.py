"""Where the background server listens, when another user, or a mistake, has put something there: everything that is not the user's own is
refused in words, by every command, and nothing is sent to it. The user is one without rights; what is planted is root's."""

import os
import socket
import subprocess
import tempfile

import pytest

from farhand_client import BIN, merged_env, wait_until
from reach import UNPRIVILEGED
from sandbox_rig import become, why_not
from test_cmd_detached import Desk
from test_cmd_run import SECONDS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
COMMANDS = (["run", "-d", "--", "true"], ["shell"], ["ps"], ["logs", "x"], ["kill", "x"], ["attach", "x"])


class OtherDesk(Desk):
    """A desk of the user without rights, in a directory in which everybody can make files."""

    def __init__(self, home):
        super().__init__(home)
        os.chmod(home, 0o1777)
        os.chmod(self.runtime, 0o1777)
        self.place = f"{self.runtime}/farhand"

    def __call__(self, command, *args, stdin=b"", env=None):
        return subprocess.run([BIN, command, *self.args, *args], input=stdin, capture_output=True, timeout=SECONDS, check=False,
                              env={**self.env, **(env or {})}, cwd="/", preexec_fn=become(UNPRIVILEGED))

    def own(self, path):
        os.chown(path, UNPRIVILEGED, UNPRIVILEGED, follow_symlinks=False)
        return path

    def make_place(self):
        os.mkdir(self.place, 0o700)
        return self.own(self.place)


@pytest.fixture
def desk():
    if why_not("unprivileged"):
        pytest.skip(why_not("unprivileged"))
    with tempfile.TemporaryDirectory(prefix="fh-bg-", dir="/tmp") as home:
        d = OtherDesk(home)
        yield d
        d.end()


def refused(desk, says, commands=COMMANDS):
    for command in commands:
        done = desk(*command)
        assert done.returncode in (1, 255) and done.stdout == b"", (command, done)
        assert done.stderr.startswith(b"farhand: ") and done.stderr.count(b"\n") == 1 and says in done.stderr, (command, done)


def test_what_is_the_users_own_is_used(desk):
    ident = desk.detach("sh", "-c", "echo said; exec sleep 600")
    wait_until(lambda: desk.said("logs", ident) == "said\n")
    for name in ("", "/socket", "/log", "/lock", "/sessions"):
        st = os.stat(desk.place + name)
        assert (st.st_uid, st.st_mode & 0o077) == (UNPRIVILEGED, 0), name


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o777])
def test_a_directory_of_somebody_else(desk, mode):
    os.mkdir(desk.place)
    os.chmod(desk.place, mode)
    refused(desk, b"another user" if mode != 0o700 else b"/run/farhand: ")
    assert os.listdir(desk.place) == []


def test_a_directory_that_others_may_enter(desk):
    os.chmod(desk.make_place(), 0o750)
    refused(desk, b"its mode must be 0700")


@pytest.mark.parametrize("owner", ["root", "the user"])
def test_a_link_in_the_place_of_the_directory(desk, owner):
    target = f"{desk.home}/target"
    os.mkdir(target, 0o700)
    desk.own(target)
    os.symlink(target, desk.place)
    if owner == "the user":
        desk.own(desk.place)
    refused(desk, b"it is a link or a file, and must be a directory")
    assert os.listdir(target) == []


@pytest.mark.parametrize("path, owner, says", [
    ("socket", "root", b"the socket belongs to another user"), ("other", "root", b"it is no socket"), ("other", "the user", b"it is no socket")])
def test_a_socket_that_is_not_the_users_own_hears_nothing(desk, path, owner, says):
    """`other`: the socket itself is there, and a link leads to it."""
    desk.make_place()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{desk.place}/{path}")
        listener.listen()
        listener.setblocking(False)
        os.chmod(f"{desk.place}/{path}", 0o777)
        if owner == "the user":
            desk.own(f"{desk.place}/{path}")
        if path != "socket":
            os.symlink(path, f"{desk.place}/socket")
        refused(desk, says)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_stale_socket_is_told_and_replaced_by_who_may_start_one(desk):
    desk.make_place()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{desk.place}/socket")
    desk.own(f"{desk.place}/socket")
    refused(desk, b"there is no background server", [c for c in COMMANDS if c[0] in ("logs", "kill", "attach")])
    assert desk("ps").returncode == 0
    assert desk.detach("true") and desk.server_pid()


@pytest.mark.parametrize("name", ["log", "lock", "sessions"])
def test_a_link_in_the_place_of_another_file_is_not_followed(desk, name):
    desk.make_place()
    target = f"{desk.home}/target"
    os.symlink(target, f"{desk.place}/{name}")
    done = desk("run", "-d", "--", "true")
    assert done.stderr.startswith(b"farhand: ") and not os.path.lexists(target), done
    if name != "sessions":
        assert done.returncode == 255


def test_the_server_of_another_user_cannot_be_used(desk):
    """Root's own server, in root's own directory: the user sees neither the socket nor what runs."""
    with tempfile.TemporaryDirectory(prefix="fh-bg-", dir="/tmp") as home:
        os.chmod(home, 0o755)
        roots = Desk(home)
        try:
            roots.detach("sleep", "600")
            done = desk("ps", env=merged_env({**desk.env, "XDG_RUNTIME_DIR": roots.runtime}))
            assert done.returncode == 255 and b"ermission denied" in done.stderr, done
            done = desk("ps", "--url", f"unix:{roots.runtime}/farhand/socket")
            assert done.returncode == 255 and done.stdout == b"" and done.stderr.count(b"\n") == 1, done
        finally:
            roots.end()
