"""The hostile command of test_sandbox_escape.py, where Landlock and the filter are all there is: it may read everything,
write nothing and reach nobody.

Left out is what needs a view of the command's own: hidden files, masks, devices, process numbers. What differs on purpose
is told in docs/SECURITY.md. The server has mounts of its own, so that nothing of the machine is at stake.
"""

import os
import shutil
import tempfile

import pytest

from sandbox_rig import USERS, external, read_only, rig_of, unrestricted
from test_sandbox_backends import LANDLOCK, need_landlock
from test_sandbox_escape import CALLS, NET_ATTEMPTS, NETWORKS, SETTINGS, Arena, Host
from test_sandbox_escape import program as program  # a fixture


class Alone(Arena):
    """Attempts are made under a profile that Landlock alone enforces."""

    def attack(self, *args, profile=None, **kw):
        return super().attack(*args, profile=profile or read_only(), **kw)


@pytest.fixture(scope="module", params=USERS)
def arena(request, program):
    need_landlock()
    with rig_of(request.param, env={"BOX_MARK": "of-the-server"}, args=LANDLOCK,
                mount_namespace=os.geteuid() == 0) as rig:
        folder = tempfile.mkdtemp(prefix="fh-", dir="/var/tmp")
        os.chmod(folder, 0o755)
        host = Host(folder)
        try:
            yield Alone(rig, program, host)
        finally:
            host.close()
            shutil.rmtree(folder)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("call", CALLS)
def test_system_call(arena, call, network):
    if os.geteuid() != 0:
        pytest.skip("needs root, for mounts of its own")
    arena.attack("call", call, profile=read_only(network=network))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("how", ["unshare", "clone", "clone-high-bits"])
def test_nested_namespaces(arena, how, network):
    arena.attack("namespaces", how, profile=read_only(network=network))


@pytest.mark.parametrize("call", ["unshare", "ptrace", "keyctl", "mount", "socket", "socketcall", "io-uring"])
def test_system_call_of_32_bits(arena, call):
    arena.attack("i386", call)


@pytest.mark.parametrize("call", ["unshare", "mount", "keyctl", "ptrace", "socket", "getpid"])
def test_system_call_by_x32_number(arena, call):
    arena.attack("x32", call)


def test_the_filter_stays(arena):
    arena.attack("seccomp-off")


@pytest.mark.parametrize("path", SETTINGS)
def test_host_setting(arena, path):
    arena.attack("host-settings", path)


@pytest.mark.parametrize("network", NETWORKS)
def test_nothing_of_the_kernel_can_be_written(arena, network):
    arena.attack("walk", "/proc", profile=read_only(network=network), timeout=60)


@pytest.mark.parametrize("what", [("write-exe",), ("descriptors",), ("kill-all",), ("become",), ("limits",), ("mem", "1"),
                                  ("mknod",)], ids=" ".join)
def test_processes_and_rights(arena, what):
    arena.attack(*what)


@pytest.mark.parametrize("number", ["5412", "541c", "541d", "dead000000005412"])
def test_terminal(arena, number):
    done = arena.attack("tty", number, tty=True)
    assert done.out.count(b"\n") == 1


def test_rights(arena):
    """Without a user namespace only root can empty the bounding set; nobody gets anything out of it."""
    if arena.rig.uid != 0:
        pytest.skip("needs root")
    arena.attack("rights")


def test_ipc(arena):
    arena.attack("ipc", f"/{arena.host.name}")


@pytest.mark.parametrize("profile", [read_only, unrestricted, external])
@pytest.mark.parametrize("name", NET_ATTEMPTS)
def test_network(arena, name, profile):
    arena.attack(*NET_ATTEMPTS[name], profile=profile())


@pytest.mark.parametrize("network", NETWORKS)
def test_raw_sockets(arena, network):
    arena.attack("raw", profile=read_only(network=network))


@pytest.mark.parametrize("path", ["p/secret", "p/ro", "to-o", ".."])
def test_file_handle(arena, path):
    arena.attack("handle", path)


@pytest.mark.parametrize("how", ["rename", "rename-noreplace", "exchange", "replace", "remove"])
def test_nothing_is_moved(arena, how):
    for path in ("p", "p/ro", ".git", "a/b"):
        arena.attack("move", how, path, world=arena.world())
