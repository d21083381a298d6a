"""A server that every local program can connect to, and a sandboxed command whose network is open: the operator is warned."""

import os

import pytest

from farhand_client import Server, Stdio
from sandbox_rig import USERS, at, narrow, read_only, rig_of, sandbox, unrestricted

WARNING = "a sandboxed command with an open network can connect to this server and start others without a sandbox"


def warnings(server):
    return [line for line in server.stderr().splitlines() if WARNING in line]


@pytest.mark.parametrize("user", USERS)
def test_the_first_such_start_is_warned_of_once(user):
    with rig_of(user) as rig:
        tree = rig.tree()
        tree.dir(tree.w)
        assert rig.sh("true", read_only(), tree.w).ok  # the network is closed
        assert rig.sh("true", unrestricted(network="enabled"), tree.w).refused is None  # there is no sandbox
        assert rig.client.run(["true"])[2] == 0
        assert warnings(rig.server) == []
        for profile in (read_only(network="enabled"), read_only(network="enabled"),
                        narrow(at(tree.w, "read"), network="enabled")):
            assert rig.sh("true", profile, tree.w).ok
        line, = warnings(rig.server)
        assert " warn " in line and "remedy=" in line and "--ws-auth" in line and "unix:" in line
        # The warning comes once for a server, also when another client connects.
        with rig.server.connect() as c:
            assert rig.sh("true", read_only(network="enabled"), tree.w, client=c).ok
        assert len(warnings(rig.server)) == 1


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_the_back_end_does_not_matter(backend):
    with rig_of(USERS[0] if os.geteuid() == 0 else USERS[1], args=("--sandbox-backend", backend)) as rig:
        tree = rig.tree()
        tree.dir(tree.w)
        done = rig.sh("true", read_only(network="enabled"), tree.w)
        if done.refused is not None:
            pytest.skip(f"no {backend} here")
        assert len(warnings(rig.server)) == 1


@pytest.mark.parametrize("how", ["a token", "unix", "stdio"])
def test_where_it_cannot_connect_nothing_is_said(tmp, how):
    tree = f"{tmp}/w"
    os.mkdir(tree)
    start = {"processId": "p", "argv": ["true"], "cwd": f"file://{tree}", "env": {"PATH": "/usr/bin:/bin"}, "tty": False,
             "arg0": None, "sandbox": sandbox(read_only(network="enabled"), tree)}
    if how == "stdio":
        with Stdio() as c:
            c.initialize()
            assert "result" in c.call(1, "process/start", start)
            assert WARNING not in c.stderr()
        return
    with open(f"{tmp}/token", "w", encoding="ascii") as f:
        f.write("sesame")
    args = ["--ws-auth", "capability-token", "--ws-token-file", f"{tmp}/token"] if how == "a token" else []
    listen = f"unix:{tmp}/sock" if how == "unix" else "ws://127.0.0.1:0"
    with Server(args, listen=listen) as s, s.connect(headers={"Authorization": "Bearer sesame"}) as c:
        c.call("process/start", start)
        c.wait_exit("p")
        assert warnings(s) == []
