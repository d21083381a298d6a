"""No view shows the server's unix socket or its state directory."""

import os

import pytest

from farhand_client import Client
from sandbox_rig import ROOT_WRITE, USERS, Box, at, is_error, read_only, restricted, rig_of, workspace_write

CONNECT = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
try:
    s.connect(sys.argv[1])
    print("CONNECTED")
except OSError as e:
    print("refused", e.errno)
"""


@pytest.fixture(scope="module", params=USERS)
def rig(request):
    with rig_of(request.param) as r:
        yield r


def state(rig):
    return "/var/lib/farhand" if rig.uid == 0 else rig.env["XDG_STATE_HOME"] + "/farhand"


PROFILES = {
    "read-only": lambda rig: read_only(network="enabled"),
    "workspace": lambda rig: workspace_write(network="enabled"),
    "the directory itself writable": lambda rig: workspace_write(at(state(rig), "write"), network="enabled"),
    "everything writable": lambda rig: restricted(ROOT_WRITE, at("/boot", "read"), network="enabled"),
}


@pytest.mark.parametrize("name", PROFILES)
def test_the_state_directory_is_hidden(rig, name):
    tree = rig.tree()
    tree.dir(tree.w)
    done = rig.sh('ls -A "$1"; echo x > "$1/planted"; mv "$1" "$1-moved"; cat "$1"/journal-*', PROFILES[name](rig), tree.w,
                  state(rig))
    assert done.refused is None and done.out == b"", done
    assert any(entry.startswith("journal-") for entry in os.listdir(state(rig)))
    assert not os.path.exists(state(rig) + "/planted")


@pytest.mark.parametrize("name", PROFILES)
def test_file_requests_do_not_find_the_state_directory(rig, name):
    """Requests that only read do not find it either, under a profile that denies nothing."""
    tree = rig.tree()
    tree.dir(tree.w)
    journal = [entry for entry in os.listdir(state(rig)) if entry.startswith("journal-")][0]
    box = Box(rig.client, PROFILES[name](rig), tree.w)
    assert is_error(box.ask("readDirectory", path=state(rig)))
    assert is_error(box.read(os.path.join(state(rig), journal)))


def test_a_workspace_around_the_state_directory_is_served(rig):
    """The workspace is the user's home, which contains the state directory, but not for root."""
    home = rig.home.base
    done = rig.sh('echo new > made && echo DONE; ls -A "$1"; rm -r state', workspace_write(), home, state(rig))
    assert done.refused is None and done.out == b"DONE\n", done
    assert any(entry.startswith("journal-") for entry in os.listdir(state(rig)))
    box = Box(rig.client, workspace_write(), home)
    assert is_error(box.write(state(rig) + "/planted"))


def test_a_link_on_the_way_to_it_refuses_nothing(rig):
    """~/.local is a link, and the home is the workspace."""
    if rig.uid == 0:
        pytest.skip("root has its own place")
    tree = rig.tree()
    tree.dir(tree.w + "/real")
    tree.link(tree.w + "/.local", "real")
    with rig.new_server(env={"XDG_STATE_HOME": tree.w + "/.local"}) as server:
        with Client(server.url) as client:
            done = rig.sh('echo new > made && echo DONE; ls real/farhand', workspace_write(), tree.w, client=client)
            assert done.out == b"DONE\n", done


def test_a_state_directory_out_of_reach_refuses_nothing(rig):
    """HOME belongs to another user, as after su(1)."""
    if rig.uid == 0:
        pytest.skip("root reaches everything")
    with rig.new_server(env={"XDG_STATE_HOME": None, "HOME": "/root"}) as server, Client(server.url) as client:
        done = rig.sh("echo DONE", workspace_write(), rig.tree().base, client=client)
        assert done.out == b"DONE\n", done


@pytest.mark.parametrize("name", PROFILES)
def test_the_socket_is_covered(rig, name):
    """A socket in the workspace is covered, too. The connection already fails, before the server could check its peer."""
    tree = rig.tree()
    tree.dir(tree.w)
    path = tree.w + "/server.sock"
    with rig.new_server(listen="unix:" + path) as server:
        with Client(server.url) as client:
            done = rig.run(["/usr/bin/python3", "-c", CONNECT, path], PROFILES[name](rig), tree.w, client=client)
            assert done.refused is None and done.out.startswith(b"refused "), done
            done = rig.sh("rm -f server.sock; mv server.sock moved; ls", PROFILES[name](rig), tree.w, client=client)
            assert b"server.sock\n" in done.out, done
            done = rig.run(["/usr/bin/python3", "-c", CONNECT, path], {"type": "disabled"}, tree.w, client=client)
            assert done.out == b"CONNECTED\n", done
