"""Profiles that only close the network: a command may write all files of the machine, but not reach its processes and settings.

As root such a command keeps what it needs to write all files, and nothing by which it could reach further.
"""

import contextlib
import os
import socket
import stat

import pytest

from farhand_client import pid_alive
from sandbox_arena import Arena, arena_of
from sandbox_arena import program as program  # a fixture
from sandbox_rig import ROOT_WRITE, USERS, external, restricted, unrestricted

PROFILES = {"unrestricted": unrestricted, "external": external, "full-write": lambda: restricted(ROOT_WRITE)}
BACKENDS = ["namespaces", "bubblewrap", "landlock"]


@pytest.fixture(scope="module", params=[(user, backend) for user in USERS for backend in BACKENDS], ids="-".join)
def arena(request, program):
    user, backend = request.param
    with arena_of(user, program, Arena, args=["--sandbox-backend", backend]) as a:
        done = a.rig.sh("true", unrestricted(), "/")
        if done.refused is not None:
            pytest.skip(done.refused.message)
        a.backend = backend
        yield a


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("attempt", [("victim",), ("kill-all",), ("seccomp-off",), ("descriptors",)], ids=lambda a: a[0])
def test_processes_are_out_of_reach(arena, attempt, profile):
    if arena.backend == "landlock" and attempt == ("victim",):
        pytest.skip("without namespaces a process can be named, and nothing more: test_the_server_is_out_of_reach")
    arena.attack(*attempt, profile=PROFILES[profile]())
    assert pid_alive(arena.rig.server.pid)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_server_is_out_of_reach(arena, profile):
    """A command tries the server's pid and all pids in /proc: no signal, no memory, no environment, no descriptors."""
    done = arena.rig.sh('for p in "$1" $(ls /proc | grep "^[0-9]*$"); do kill -0 $p 2>/dev/null && [ $p != $$ ] && grep -q farhand '
                        '/proc/$p/cmdline 2>/dev/null && echo "signal $p"; head -c 1 /proc/$p/mem 2>/dev/null; '
                        'grep -a -q "^BOX_MARK=of-the-server" /proc/$p/environ 2>/dev/null && echo "environ $p"; done; echo end',
                        PROFILES[profile](), "/", str(arena.rig.server.pid))
    assert done.refused is None and done.out == b"end\n", done
    done = arena.rig.run(["/usr/bin/python3", "-c", f"open('/proc/{arena.rig.server.pid}/mem', 'r+b')"], PROFILES[profile](), "/")
    assert done.code == 1, done


@pytest.mark.parametrize("profile", PROFILES)
def test_other_processes_are_not_seen(arena, profile):
    if arena.backend == "landlock":
        pytest.skip("without namespaces the list of processes is the machine's: docs/SECURITY.md")
    arena.attack("see-processes", "of-the-", "victim", profile=PROFILES[profile]())


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("path", ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches",
                                  "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/sys/power/state"])
def test_host_settings_are_not_written(arena, path, profile):
    """Opened for writing; nothing is written even if that works."""
    if arena.backend == "landlock" and arena.rig.uid == 0:
        pytest.skip("Landlock cannot keep a part of what is writable read-only: docs/SECURITY.md")
    if not os.path.exists(path):
        pytest.skip(f"no {path} here")
    arena.attack("host-settings", path, profile=PROFILES[profile]())


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("call", ["ptrace-traceme", "kcmp", "pidfd-getfd", "keyctl", "mount-tmpfs", "bpf-map", "setns"])
def test_system_calls_are_filtered(arena, call, profile):
    if arena.backend == "landlock" and call == "mount-tmpfs":
        pytest.skip("the attempt looks for mounts of its own")
    arena.attack("call", call, profile=PROFILES[profile]())


def capabilities(arena, profile):
    done = arena.rig.sh("grep -E '^Cap(Eff|Prm|Bnd)' /proc/self/status", PROFILES[profile](), "/")
    assert done.ok, done
    return {line.split(b":")[0]: int(line.split()[1], 16) for line in done.out.splitlines()}


# CAP_: SYS_MODULE, SYS_RAWIO, SYS_PTRACE, SYS_PACCT, SYS_ADMIN, SYS_BOOT, SYS_RESOURCE, SYS_TIME, NET_ADMIN, NET_RAW, SYSLOG,
# MAC_OVERRIDE, MAC_ADMIN, AUDIT_CONTROL, PERFMON, BPF, CHECKPOINT_RESTORE
DANGEROUS = [16, 17, 19, 20, 21, 22, 24, 25, 12, 13, 34, 32, 33, 30, 38, 39, 40]


@pytest.mark.parametrize("profile", PROFILES)
def test_no_capability_reaches_beyond_files(arena, profile):
    found = capabilities(arena, profile)
    for name in (b"CapEff", b"CapPrm") + ((b"CapBnd",) if arena.rig.uid == 0 else ()):
        assert not [bit for bit in DANGEROUS if found[name] & (1 << bit)], (name, found)


@pytest.mark.parametrize("profile", PROFILES)
def test_root_can_do_what_files_take(arena, profile):
    """Changes owners and modes, makes device nodes, writes files of other users, becomes another user, as an installer does."""
    if arena.rig.uid != 0 or arena.backend == "landlock":
        pytest.skip("needs root, and namespaces of its own")
    tree = arena.rig.tree()
    tree.dir(tree.w)
    other = os.path.join(tree.w, "other")
    with open(other, "w", encoding="utf-8") as f:
        f.write("of another user\n")
    os.chown(other, 58232, 58232)
    os.chmod(other, 0o600)
    done = arena.rig.sh("cat other && echo more >> other && touch new && chown 58233:58233 new && chmod 4755 new && "
                        "mknod node c 1 3 && setpriv --reuid 58233 --clear-groups id -u", PROFILES[profile](), tree.w)
    assert done.ok and done.out == b"of another user\n58233\n", done
    st = os.stat(tree.w + "/new")
    assert (st.st_uid, stat.S_IMODE(st.st_mode)) == (58233, 0o4755)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_files_are_the_machines(arena, profile):
    tree = arena.rig.tree()
    tree.dir(tree.w)
    name = f"fh-full-{os.getpid()}"
    try:
        done = arena.rig.sh('echo new > made && echo shm > "/dev/shm/$1" && mkdir .git && ls /dev | wc -l', PROFILES[profile](), tree.w,
                            name)
        assert done.ok, done
        assert sorted(os.listdir(tree.w)) == [".git", "made"]
        with open("/dev/shm/" + name, encoding="utf-8") as f:
            assert f.read() == "shm\n"
        assert abs(int(done.out) - len(os.listdir("/dev"))) <= 2
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink("/dev/shm/" + name)


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "tty"])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_command_has_its_terminal_and_its_end(arena, profile, tty):
    done = arena.rig.sh("echo out; exit 7", PROFILES[profile](), "/", tty=tty)
    assert done.code == 7 and done.out.startswith(b"out"), done


def test_the_network_is_closed(arena):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        for profile in PROFILES.values():
            done = arena.rig.run(["/usr/bin/python3", "-c", f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"], profile(), "/")
            assert done.code == 1, done
