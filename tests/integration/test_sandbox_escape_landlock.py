"""The hostile command of test_sandbox_escape.py, confined only by Landlock and the seccomp filter: it may read everything,
write nothing and reach no process or socket.

Left out is what needs a view of the command's own: hidden files, masks, devices, process numbers. What differs on purpose
is told in docs/SECURITY.md. The server has mounts of its own, so that nothing of the machine is at stake.
"""

# pylint: disable=unused-import
import os

import pytest

from sandbox_arena import CALLS, NET_ATTEMPTS, NETWORKS, Arena, arena_of, program
from sandbox_rig import USERS, external, read_only, unrestricted
from test_sandbox_backends import LANDLOCK, need_landlock
from test_sandbox_escape import (test_file_handle, test_host_setting, test_ipc, test_system_call_by_x32_number,
                                 test_the_filter_stays)


class Alone(Arena):
    """Attempts are made under a profile that Landlock alone enforces."""

    def attack(self, *args, profile=None, **kw):
        return super().attack(*args, profile=profile or read_only(), **kw)


@pytest.fixture(scope="module", params=USERS)
def arena(request, program):
    need_landlock()
    with arena_of(request.param, program, Alone, args=LANDLOCK, mount_namespace=os.geteuid() == 0) as a:
        yield a


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
    """Without a user namespace only root can empty the bounding set; other users gain no capability from theirs."""
    if arena.rig.uid != 0:
        pytest.skip("needs root")
    arena.attack("rights")


@pytest.mark.parametrize("profile", [read_only, unrestricted, external])
@pytest.mark.parametrize("name", NET_ATTEMPTS)
def test_network(arena, name, profile):
    arena.attack(*NET_ATTEMPTS[name], profile=profile())


@pytest.mark.parametrize("network", NETWORKS)
def test_raw_sockets(arena, network):
    arena.attack("raw", profile=read_only(network=network))


@pytest.mark.parametrize("how", ["rename", "rename-noreplace", "exchange", "replace", "remove"])
def test_nothing_is_moved(arena, how):
    for path in ("p", "p/ro", ".git", "a/b"):
        arena.attack("move", how, path, world=arena.world())
