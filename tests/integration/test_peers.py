"""Which processes of the right user may connect to the unix socket.

A sandboxed command of the server must not: it could start a command without a sandbox. Nor may a process in another user
or pid namespace, unless --allow-other-namespaces says so. Everybody else of that user, and root, is served, however
confined it is by others.
"""

import contextlib
import os
import signal
import socket
import subprocess

import pytest

from farhand_client import BIN, PATIENCE, Client, RawSocket, Server, pid_gone, wait_until
from reach import reachable
from sandbox_rig import LAYERED, USERS, become, read_only, rig_of, workspace_write

# The directory of the module that the clients import.
HERE = os.path.dirname(reachable(os.path.abspath(__file__), "farhand_client.py", "reach.py"))
PYTHON = "/usr/bin/python3"
ALLOWED = ("--allow-other-namespaces",)

# argv: URL, and a file that a command of the server shall make. Prints whether the server accepted the connection.
KNOCK = f"""
import os, sys
sys.path[:0] = [{HERE!r}]
os.environ["FARHAND_BIN"] = {BIN!r}
from farhand_client import Client, Closed
{{before}}
try:
    with Client(sys.argv[1]) as c:
        c.run(["sh", "-c", 'echo escaped > "$0"', sys.argv[2]])
    print("served", flush=True)
except (Closed, ConnectionResetError, BrokenPipeError):
    print("refused", flush=True)
"""


def knock(before=""):
    return [PYTHON, "-c", KNOCK.format(before=before)]


def children(pid, name):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        pids = [int(p) for p in f.read().split()]
    found = []
    for child in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            with open(f"/proc/{child}/comm", encoding="latin-1") as f:
                found += [child] if f.read().strip() == name else []
    return found


class Door:
    """A server on a unix socket in a place that every profile here can read, and a client to start commands with."""

    def __init__(self, rig, stack, *args):
        self.rig = rig
        self.tree = rig.tree()
        self.tree.dir(self.tree.w)
        self.tree.dir(self.tree.o)
        self.mark = os.path.join(self.tree.o, "mark")
        rig.args = (*rig.args, *args)
        self.server = stack.enter_context(rig.new_server(listen=f"unix:{self.tree.o}/sock"))
        self.client = stack.enter_context(Client(self.server.url))

    def argv(self, before=""):
        return [*knock(before), self.server.url, self.mark]

    def boxed(self, profile, before=""):
        """Tries to connect from a sandboxed command. Returns what it prints."""
        done = self.rig.run(self.argv(before), profile, self.tree.w, client=self.client)
        assert done.refused is None and done.code == 0, done
        return done.out.decode().strip()

    def plain(self, before=""):
        out, err, code = self.client.run(self.argv(before), cwd=self.tree.w)
        assert code == 0, err
        return out.decode().strip()

    def outside(self, *prefix, uid=None, before=""):
        """Tries to connect from a process that is no command of the server. Returns what it prints."""
        done = subprocess.run([*prefix, *self.argv(before)], preexec_fn=become(self.rig.uid if uid is None else uid),
                              cwd="/", capture_output=True, timeout=30 * PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()

    def log(self):
        return [line for line in self.server.stderr().splitlines() if "peer refused" in line]

    def refused(self, answer, words):
        """Checks that the connection was refused, with one line in the log that has the reason, and that the server goes on."""
        assert answer == "refused" and not os.path.exists(self.mark)
        assert len(self.log()) == 1 and f"why={words}" in self.log()[0], self.server.stderr()
        assert self.client.call("environment/status") == {"status": "ready"}

    def served(self, answer):
        assert answer == "served" and os.path.exists(self.mark), self.server.stderr()
        assert not self.log()


@contextlib.contextmanager
def door_of(user, *args, backend=None):
    """A Door whose server has `args`; skips the test where that does not work. The mask on the socket is switched off, so that
    commands can reach it (test_sandbox_closed.py tests the mask)."""
    if not os.access(LAYERED, os.X_OK):
        pytest.skip("farhand-layers was not built")
    with rig_of(user, executable=LAYERED, env={"FARHAND_LAYERS_OFF": "closed"}) as rig, contextlib.ExitStack() as stack:
        rig.args = ("--sandbox-backend", backend) if backend else ()
        yield Door(rig, stack, *args)


@pytest.fixture(params=USERS)
def door(request):
    with door_of(request.param) as d:
        yield d


@pytest.fixture(params=USERS)
def open_door(request):
    with door_of(request.param, *ALLOWED) as d:
        yield d


# Commands of the server

DESCENT = "descends-from-a-sandboxed-command"
SPACES = {"namespaces": "another-pid-namespace", "bubblewrap": "another-pid-namespace", "landlock": DESCENT}

# Goes on in a grandchild whose parent has ended. The first process waits until the grandchild has ended.
DAEMON = """
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    middle = os.getpid()
    if os.fork():
        os._exit(0)
    os.close(r)
    while os.getppid() == middle:
        pass
else:
    os.close(w)
    os.wait()
    os.read(r, 1)
    sys.exit()
"""


@pytest.mark.parametrize("backend", SPACES)
@pytest.mark.parametrize("user", USERS)
def test_a_sandboxed_command_with_an_open_network_is_refused(user, backend):
    with door_of(user, backend=backend) as door:
        answer = door.boxed(read_only(network="enabled"))
        door.refused(answer, SPACES[backend])


@pytest.mark.parametrize("backend", ["namespaces", "landlock"])
@pytest.mark.parametrize("user", USERS)
def test_so_is_one_that_has_left_its_parents(user, backend):
    with door_of(user, backend=backend) as door:
        door.refused(door.boxed(read_only(network="enabled"), DAEMON), SPACES[backend])


@pytest.mark.parametrize("backend", SPACES)
@pytest.mark.parametrize("user", USERS)
def test_no_option_lets_a_sandboxed_command_in(user, backend):
    with door_of(user, *ALLOWED, backend=backend) as door:
        door.refused(door.boxed(read_only(network="enabled")), DESCENT)


def test_a_sandboxed_command_that_hides_what_it_is(door):
    """The links to its namespaces in /proc cannot be read, but its process ids in nested namespaces can."""
    door.refused(door.boxed(read_only(network="enabled"), NOT_DUMPABLE), "another-pid-namespace")


def test_a_prebuilt_sandbox_is_no_other(open_door):
    """A command in a prebuilt sandbox is refused as well; its keeper had another name before."""
    door = open_door
    for _ in range(3):
        assert door.boxed(read_only(network="enabled")) == "refused"
    assert not os.path.exists(door.mark) and len(door.log()) == 3


@pytest.mark.parametrize("backend", ["namespaces", "landlock"])
@pytest.mark.parametrize("user", USERS)
def test_nor_is_a_sandboxed_command_of_another_server(user, backend):
    """A command of `farhand sandbox`, where there is no server, is refused in the same way."""
    with door_of(user, *ALLOWED if backend == "landlock" else (), backend=backend) as door:
        other = door.rig.new_server()
        with other, other.connect() as client:
            done = door.rig.run(door.argv(), read_only(network="enabled"), door.tree.w, client=client)
        assert done.out == b"refused\n", done
        assert f"why={SPACES[backend]}" in door.log()[0]
        assert door.outside(BIN, "sandbox", "--network", "--sandbox-backend", backend, "--") == "refused"
        assert f"why={SPACES[backend]}" in door.log()[1]
        assert not os.path.exists(door.mark)


def test_a_plain_command_of_another_server_is_served(door):
    other = door.rig.new_server()
    with other, other.connect() as client:
        out, err, code = client.run(door.argv(), cwd=door.tree.w)
    assert code == 0, err
    door.served(out.decode().strip())


def test_a_plain_command_is_served(door):
    door.served(door.plain())


def test_a_plain_command_that_has_left_its_parents_is_served(door):
    door.served(door.plain(DAEMON))


def test_a_plain_command_among_sandboxed_ones_is_served(door):
    door.rig.start(["/bin/sleep", "1000"], workspace_write(network="enabled"), door.tree.w, client=door.client)
    door.served(door.plain())
    assert door.boxed(read_only(network="enabled")) == "refused"


def test_after_the_loss_of_a_spawner_it_is_as_before(door):
    """The new spawner is another child of the server; its sandboxed commands are refused as well."""
    # The server listens before its spawner has given itself a name.
    wait_until(lambda: children(door.server.pid, "fh-spawner"), what="a spawner")
    spawner, = children(door.server.pid, "fh-spawner")
    os.kill(spawner, signal.SIGKILL)
    pid_gone(spawner)
    assert door.boxed(read_only(network="enabled")) == "refused"
    assert children(door.server.pid, "fh-spawner") != [spawner]
    assert door.plain() == "served" and os.path.exists(door.mark)
    os.unlink(door.mark)
    assert door.outside() == "served" and os.path.exists(door.mark)


# Processes beside it

NOT_DUMPABLE = "import ctypes; assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0"
CONFINED = """
import ctypes, struct
room = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 1, ctypes.addressof(room)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
"""

ALONE = {"a user namespace": ("-U", "another-user-namespace"), "a pid namespace": ("-Upf", "another-pid-namespace")}


def may_unshare(door, flags):
    done = subprocess.run(["unshare", flags, "true"], preexec_fn=become(door.rig.uid), capture_output=True, check=False)
    if done.returncode:
        pytest.skip("no namespaces of our own")


@pytest.mark.parametrize("before", ["", NOT_DUMPABLE, CONFINED], ids=["as it is", "not dumpable", "confined"])
def test_a_process_of_the_same_user_is_served(door, before):
    door.served(door.outside(before=before))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("user", USERS)
def test_root_is_served(user):
    with door_of(user) as door:
        door.served(door.outside(uid=0))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("user", USERS)
def test_root_in_another_pid_namespace_is_refused(user):
    with door_of(user) as door:
        door.refused(door.outside("unshare", "-pf", uid=0), "another-pid-namespace")


@pytest.mark.parametrize("before", ["", NOT_DUMPABLE], ids=["as it is", "not dumpable"])
@pytest.mark.parametrize("where", ALONE)
def test_a_process_in_another_namespace_is_refused(door, where, before):
    flags, words = ALONE[where]
    may_unshare(door, flags)
    door.refused(door.outside("unshare", flags, before=before), words)
    assert "remedy=--allow-other-namespaces" in door.log()[0]


@pytest.mark.parametrize("where", ALONE)
def test_the_option_allows_another_namespace(open_door, where):
    flags, _ = ALONE[where]
    may_unshare(open_door, flags)
    open_door.served(open_door.outside("unshare", flags))


def test_the_configuration_allows_another_namespace(tmp):
    with Server(config="allow_other_namespaces = true\n", listen=f"unix:{tmp}/sock") as s:
        if subprocess.run(["unshare", "-U", "true"], capture_output=True, check=False).returncode:
            pytest.skip("no namespaces of our own")
        done = subprocess.run(["unshare", "-U", *knock(), s.url, f"{tmp}/mark"], capture_output=True,
                              timeout=30 * PATIENCE, check=False)
        assert done.stdout == b"served\n", done


# argv: the directory. A server and a client, both in the namespaces that this was started in.
TOGETHER = f"""
import os, sys
sys.path[:0] = [{HERE!r}]
os.environ["FARHAND_BIN"] = {BIN!r}
from farhand_client import Client, Server
with Server(listen="unix:" + sys.argv[1] + "/sock", env={{"XDG_STATE_HOME": sys.argv[1]}}) as s, Client(s.url) as c:
    print(c.run(["echo", "served"])[0].decode(), s.stderr(), end="")
"""


@pytest.mark.parametrize("flags", ["-Ur", "-Urpf"])
@pytest.mark.parametrize("user", USERS)
def test_server_and_client_in_one_container(user, flags):
    with rig_of(user) as rig:
        tree = rig.tree()
        more = ["--mount-proc"] if "p" in flags else []
        if subprocess.run(["unshare", flags, *more, "true"], preexec_fn=become(rig.uid), capture_output=True,
                          check=False).returncode:
            pytest.skip("no namespaces of our own")
        done = subprocess.run(["unshare", flags, *more, PYTHON, "-c", TOGETHER, tree.base], preexec_fn=become(rig.uid),
                              cwd="/", capture_output=True, timeout=30 * PATIENCE, check=False)
        assert done.stdout.startswith(b"served\n") and b"peer refused" not in done.stdout, done


# A client that is a child of the server although the server did not start it: a shell started it, and then executed the server.
ELDER = """
import time
while not os.path.exists(sys.argv[1][5:]):
    time.sleep(0.01)
"""


@pytest.mark.parametrize("user", USERS)
def test_a_child_that_is_older_than_the_server_is_served(user):
    with rig_of(user) as rig:
        tree = rig.tree()
        url, mark, out = f"unix:{tree.base}/sock", f"{tree.base}/mark", f"{tree.base}/out"
        script = '"$@" > ' + out + ' & exec ' + BIN + " serve --listen " + url
        with subprocess.Popen(["sh", "-c", script, "sh", *knock(ELDER), url, mark], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env={**os.environ, **{k: v for k, v in rig.env.items() if v}},
                              preexec_fn=become(rig.uid), cwd="/") as proc:
            try:
                wait_until(lambda: os.path.exists(out) and open(out, encoding="ascii").read(), 20, "an answer")
            finally:
                proc.terminate()
            _, err = proc.communicate(timeout=20 * PATIENCE)
        assert open(out, encoding="ascii").read() == "served\n", err


# A process whose /proc files cannot be read


@pytest.mark.parametrize("user", USERS)
def test_a_peer_that_has_gone_is_refused(user):
    """The peer connected while the server was stopped, passed its socket on and ended: the server can no longer check it."""
    with door_of(user) as door:
        os.kill(door.server.pid, signal.SIGSTOP)
        try:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                pid = os.fork()
                if pid == 0:
                    try:
                        s = socket.socket(socket.AF_UNIX)
                        become(door.rig.uid)()
                        s.connect(door.server.url[len("unix:"):])
                        socket.send_fds(theirs, [b"x"], [s.fileno()])
                    finally:
                        os._exit(0)
                os.waitpid(pid, 0)
                _, fds, _, _ = socket.recv_fds(ours, 1, 1)
        finally:
            os.kill(door.server.pid, signal.SIGCONT)
        with socket.socket(fileno=fds[0]) as s:
            s.settimeout(20 * PATIENCE)
            with contextlib.suppress(BrokenPipeError):
                s.sendall(RawSocket.upgrade_request("/"))
            with contextlib.suppress(ConnectionResetError):
                assert s.recv(4096) == b""
        wait_until(door.log, 10, "a line in the log")
        assert "why=gone" in door.log()[0]
        assert door.client.call("environment/status") == {"status": "ready"}


def test_the_log_is_not_filled_by_who_knocks_again_and_again(open_door):
    door = open_door
    script = ("import socket, sys\nfor _ in range(200):\n    s = socket.socket(1); s.connect(sys.argv[1])\n"
              "    try: s.recv(1)\n    except ConnectionResetError: pass\n    s.close()\n")
    done = door.rig.run([PYTHON, "-c", script, door.server.url[len("unix:"):]], read_only(network="enabled"), door.tree.w,
                        client=door.client)
    assert done.ok, done
    assert 1 <= len(door.log()) <= 20
