"""A hostile command in a sandbox, as root and as a user without rights: none of the attempts gets out.

sandbox_attack.c and its parts make the attempts; each says how it went, and after each the test looks at the world
around the sandbox: the trees (names, modes, contents, inodes, times), listening sockets of the host, the victim process,
the host's shared memory.
"""

import contextlib
import os
import shutil
import stat
import subprocess
import time

import pytest

from farhand_client import PATIENCE, RpcError
from sandbox_arena import ABOVE, CALLS, MASKS, NET_ATTEMPTS, NETWORKS, READ_ONLY, SECRET, arena_of
from sandbox_arena import program as program  # a fixture
from sandbox_rig import (ROOT_WRITE, USERS, at, external, narrow, read_only, restricted, rig_of, snapshot, special,
                         unrestricted, workspace_write)


@pytest.fixture(scope="module", params=USERS)
def arena(request, program):
    with arena_of(request.param, program) as a:
        yield a


def test_the_program_tells_when_it_gets_through(arena):
    """Without a sandbox it does: otherwise it would prove nothing."""
    world = arena.world()
    plain = {"type": "disabled"}
    for args in (("change", "open", "p/ro/f"), ("read", "p/secret/key"), ("move", "rename", "p"), ("appear", ".codex"),
                 ("call", "kcmp"), ("call", "keyctl"), ("descriptors",), ("rights",), ("see-processes", "of-the-", "victim"),
                 ("inet", "tcp", "4", "BOX_PORT")):
        done = arena.rig.run([arena.program, *args], plain, world.w, env=arena.env(world))
        expected = b"held" if args == ("descriptors",) else b"BROKE"
        assert done.out.startswith(expected), (args, done)


# System calls


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("call", CALLS)
def test_system_call(arena, call, network):
    arena.attack("call", call, profile=arena.shared.profile(network))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("how", ["unshare", "clone", "clone-high-bits"])
def test_nested_namespaces(arena, how, network):
    arena.attack("namespaces", how, profile=arena.shared.profile(network))


@pytest.mark.parametrize("call", ["unshare", "clone", "ptrace", "keyctl", "mount", "socket", "socketcall", "io-uring",
                                  "chroot", "setns", "bpf", "clone3"])
def test_system_call_of_32_bits(arena, call):
    arena.attack("i386", call)


@pytest.mark.parametrize("call", ["unshare", "mount", "keyctl", "ptrace", "socket", "getpid"])
def test_system_call_by_x32_number(arena, call):
    arena.attack("x32", call)


def test_the_filter_stays(arena):
    arena.attack("seccomp-off")


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("profile", [unrestricted, external, lambda net: restricted(ROOT_WRITE, network=net)],
                         ids=["unrestricted", "external", "full-write"])
def test_full_disk_profiles_filter_only_when_the_network_is_restricted(arena, profile, network):
    """A profile that writes everything has a seccomp filter when its network is restricted, and none when it is open."""
    if network == "enabled":
        done = arena.rig.run([arena.program, "call", "kcmp"], profile(network), arena.shared.w,
                             env=arena.env(arena.shared))
        assert done.refused is None
        return
    for call in ("ptrace-traceme", "io-uring-setup", "keyctl", "kcmp"):
        arena.attack("call", call, profile=profile(network))


# /proc, /sys, /dev, other processes


SETTINGS = ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname",
            "/proc/sys/vm/drop_caches", "/proc/sys/kernel/sysrq", "/proc/sys/user/max_user_namespaces",
            "/proc/sys/fs/binfmt_misc/register", "/proc/sys/net/ipv4/ip_forward", "/proc/sysrq-trigger"]


@pytest.mark.parametrize("path", SETTINGS)
def test_host_setting(arena, path):
    """Opened for writing; nothing is written even if that works."""
    arena.attack("host-settings", path)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("top", ["/proc", "/sys"])
def test_nothing_of_the_kernel_can_be_written(arena, top, network):
    arena.attack("walk", top, profile=read_only(network=network), timeout=60)


def test_proc_root_and_cwd_of_others(arena):
    arena.attack("proc-paths")


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "tty"])
def test_descriptors_of_init(arena, tty):
    arena.attack("init-fds", tty=tty)


@pytest.mark.parametrize("pid", ["1"])
def test_memory_of_init(arena, pid):
    arena.attack("mem", pid)


def test_programs_that_run_cannot_be_written(arena):
    before = os.stat(arena.program).st_mode
    arena.attack("write-exe")
    assert os.stat(arena.program).st_mode == before


def test_outside_processes_are_invisible(arena):
    arena.attack("see-processes", "of-the-", "victim")


def test_environment_of_the_server_is_invisible(arena):
    arena.attack("see-processes", "of-the-", "server")


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "tty"])
def test_inherited_descriptors(arena, tty):
    arena.attack("descriptors", tty=tty)


def test_outside_process_by_number(arena):
    arena.attack("victim")


def test_signal_to_everybody(arena):
    arena.attack("kill-all")


@pytest.mark.parametrize("network", NETWORKS)
def test_rights(arena, network):
    arena.attack("rights", profile=arena.shared.profile(network))


def test_rights_of_init(arena):
    """The init has no seccomp filter, but also no rights (see also test_memory_of_init, test_descriptors_of_init)."""
    arena.attack("rights", "/proc/1/status", "unfiltered")


def test_to_become_another_user(arena):
    arena.attack("become")


def test_limits_and_clock(arena):
    arena.attack("limits")


@pytest.mark.parametrize("bits", ["set-user-id", "set-group-id", "capabilities", "both"])
def test_program_with_rights_of_its_own(arena, bits):
    """A copy of the hostile program in the workspace, as only root could have made it."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    world = arena.world()
    copy = shutil.copy(arena.program, world.w + "/privileged")
    owner = 65534 if arena.rig.uid == 0 else 0
    os.chown(copy, owner, owner)
    os.chmod(copy, {"set-user-id": 0o4755, "set-group-id": 0o2755, "both": 0o6755}.get(bits, 0o755))
    if bits == "capabilities":
        # Version 2, effective, everything permitted.
        os.setxattr(copy, "security.capability", bytes.fromhex("01000002" + "ffffffff" + "00000000" + "ff000000" + "00000000"))
    arena.attack("exec-rights", str(arena.rig.uid), world=world, program=copy)


@pytest.mark.parametrize("number", ["5412", "541c", "541d", "dead000000005412", "7fffffff0000541c", "100005412"])
def test_terminal(arena, number):
    """TIOCSTI types into the terminal, TIOCLINUX pastes into it, TIOCCONS takes the console; the kernel looks at 32
    bits of the number."""
    done = arena.attack("tty", number, tty=True)
    assert done.out.count(b"\n") == 1


def terminals():
    return {name: stat.S_IMODE(os.stat("/dev/pts/" + name).st_mode) for name in os.listdir("/dev/pts") if name.isdigit()}


def test_the_mode_of_its_terminal_is_the_machines(arena):
    before = terminals()
    arena.attack("tty-mode", tty=True)
    assert not [name for name, mode in terminals().items() if mode != before.get(name, mode)]


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "tty"])
def test_devices(arena, tty):
    arena.attack("devices", "tty" if tty else "pipes", tty=tty)


def test_device_made(arena):
    arena.attack("mknod", world=arena.world())


def test_device_planted(arena):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    arena.attack("planted-device")


def test_shared_memory(arena):
    arena.attack("private-shm", arena.host.name)


def test_mount_flags(arena):
    arena.attack("mount-flags", "/", "/usr", "/etc", "/dev", "/sys", "/proc/sys", "/root", "/var", "/home", "/tmp")


def test_mount_flags_of_a_narrow_view(arena):
    arena.attack("mount-flags", "/", "/usr", "/etc", "/dev",
                 profile=narrow(special("project_roots", "write"), at(os.path.dirname(arena.program), "read")))


def test_ipc(arena):
    arena.attack("ipc", f"/{arena.host.name}")


# Network


NET_PROFILES = {"workspace": lambda world: world.profile(), "read-only": lambda world: read_only(),
                "unrestricted": lambda world: unrestricted(), "external": lambda world: external(),
                "full-write": lambda world: restricted(ROOT_WRITE)}


@pytest.mark.parametrize("profile", NET_PROFILES)
@pytest.mark.parametrize("name", NET_ATTEMPTS)
def test_network(arena, name, profile):
    arena.attack(*NET_ATTEMPTS[name], profile=NET_PROFILES[profile](arena.shared))


@pytest.mark.parametrize("network", NETWORKS)
def test_raw_sockets(arena, network):
    arena.attack("raw", profile=arena.shared.profile(network))


@pytest.mark.parametrize("family", [40, 17], ids=["vsock", "packet"])
def test_families_that_lead_past_an_open_network(arena, family):
    arena.attack("family", str(family), "dgram", profile=arena.shared.profile("enabled"))


def test_an_open_network_is_open(arena):
    """Shows that the attempts of the other tests would succeed in an open network."""
    done = arena.rig.run([arena.program, "inet", "tcp", "4", "BOX_PORT"], arena.shared.profile("enabled"),
                         arena.shared.w, env=arena.env(arena.shared))
    assert done.out.startswith(b"BROKE"), done


# Files


HIDDEN = ["p/secret", "p/hidden.txt", "q/x/k.env", "to-key", "to-s", "p/secret/key"]
FOLDERS = ["p/ro", ".git", ".git/hooks", "p/secret", "a/b/c/ro", "to-o", "to-s", ".codex"]
CHANGES = ["open", "open-truncate", "read-truncate", "truncate", "utimensat", "chmod", "chown", "xattr", "descriptor",
           "o-path", "link-out"]


@pytest.mark.parametrize("op", CHANGES)
def test_read_only_files(arena, op):
    world = arena.world()
    arena.attack("change", op, *READ_ONLY, world.o + "/o.txt", world.o, world=world)


@pytest.mark.parametrize("op", CHANGES)
def test_hidden_files(arena, op):
    world = arena.world()
    arena.attack("change", op, *HIDDEN, world.s + "/key", world.s, world=world)


@pytest.mark.parametrize("op", ["create-below", "tmpfile-link"])
def test_new_files_where_nothing_can_be_written(arena, op):
    world = arena.world()
    arena.attack("change", op, *FOLDERS, world.o, world.s, world=world)


def test_hidden_files_are_not_read(arena):
    world = arena.world()
    arena.attack("read", *HIDDEN, "q/../p/secret/key", world.s + "/key", world.s, world=world)


@pytest.mark.parametrize("path", ["p/secret", "p/ro", "to-o", ".."])
def test_file_handle(arena, path):
    arena.attack("handle", path)


@pytest.mark.parametrize("how", ["rename", "rename-noreplace", "exchange", "replace", "remove"])
@pytest.mark.parametrize("path", MASKS + ABOVE + ["."])
def test_masks_and_what_is_above_them_stay(arena, path, how):
    world = arena.world()
    target = world.w if path == "." else path
    arena.attack("move", how, target, world=world)
    # The next command under the same profile cannot read it either.
    arena.attack("read", *HIDDEN, world=world)
    arena.attack("change", "open", *READ_ONLY, world=world)


@pytest.mark.parametrize("parent, mask, file", [("p", "p/ro", "p/ro/f"), ("a", "a/b/c/ro", "a/b/c/ro/f"),
                                                ("a/b", "a/b/c/ro", "a/b/c/ro/f"), (".git", ".git/hooks", ".git/config"),
                                                ("p/secret", "p/secret", "p/secret/key")])
def test_race_of_two_processes_for_a_mask(arena, parent, mask, file):
    arena.attack("race", parent, mask, file, world=arena.world())


def test_race_of_two_processes_with_a_link(arena):
    arena.attack("race-link", world=arena.world())


# Protected names


def bare(arena):
    """A workspace without protected files."""
    tree = arena.rig.tree()
    tree.file(tree.w + "/a.txt")
    tree.file(tree.o + "/o.txt")
    tree.look = lambda: snapshot(tree.w, tree.o, inodes=True, times=True, skip=(tree.w + "/scratch",))
    tree.profile = workspace_write
    return tree


@pytest.mark.parametrize("name", [".git", ".codex", ".agents", ".aws"])
def test_protected_name_does_not_appear(arena, name):
    arena.attack("appear", name, world=bare(arena))


@pytest.mark.parametrize("name", [".git", ".codex", ".agents", ".aws"])
def test_protected_file_stays(arena, name):
    """The protected name is a file instead of a directory."""
    tree = bare(arena)
    tree.file(f"{tree.w}/{name}", "x\n")
    arena.attack("change", "open", name, world=tree)
    for how in ("rename", "exchange", "replace", "remove"):
        arena.attack("move", how, name, world=tree)


def pointer(arena, kind):
    """A workspace whose .git is a file that points elsewhere. Returns the tree, the profile, the target and the directory above
    it."""
    tree = bare(arena)
    above, extra = tree.w + "/meta/deep", []
    if kind == "other root":
        above, extra = tree.o + "/meta/deep", [at(tree.o, "write")]
    target = above + "/gd"
    if kind == "worktree":
        above, extra = tree.o + "/repo/.git/worktrees", [at(tree.o + "/repo", "write")]
        target = above + "/gd"
    if kind != "missing":
        tree.file(target + "/config")
        tree.file(target + "/hooks/sample")
    else:
        tree.dir(above)
    tree.file(tree.w + "/.git", f"gitdir: {target if kind != 'relative' else os.path.relpath(target, tree.w)}\n")
    # Times are not compared: a placeholder changes the time of its directory.
    tree.look = lambda: snapshot(tree.w, tree.o, inodes=True, skip=(tree.w + "/scratch",))
    return tree, workspace_write(*extra), target, [os.path.dirname(above), above]


@pytest.mark.parametrize("kind", ["inside", "relative", "other root", "worktree", "missing"])
def test_git_pointer(arena, kind):
    tree, profile, target, above = pointer(arena, kind)
    if kind == "missing":
        arena.attack("appear", target, world=tree, profile=profile)
    else:
        arena.attack("change", "open", target + "/config", ".git", world=tree, profile=profile)
        arena.attack("change", "create-below", target, target + "/hooks", world=tree, profile=profile)
    for path in [target, *above]:
        if path != target or kind != "missing":
            for how in ("rename", "exchange", "replace", "remove"):
                arena.attack("move", how, path, world=tree, profile=profile)
    arena.attack("move", "rename", ".git", world=tree, profile=profile)


def test_git_link_is_refused(arena):
    tree = bare(arena)
    tree.dir(tree.w + "/decoy")
    tree.link(tree.w + "/.git", "decoy")
    before = tree.look()
    done = arena.rig.sh("echo x > decoy/x; echo y > y", workspace_write(), tree.w)
    assert not done.ok
    assert tree.look() == before


# Roots that the command itself can exchange


ELSEWHERE = {
    "nested root": lambda tree: (workspace_write(at(tree.w + "/out", "write")), {}, tree.w + "/out", ["out"]),
    "temporary directory": lambda tree: (workspace_write(special("tmpdir", "write")), {"TMPDIR": tree.w + "/out"},
                                         tree.w + "/out", ["out"]),
    "below a root": lambda tree: (workspace_write(at(tree.w + "/sub/deep/out", "write")), {}, tree.w + "/sub",
                                  ["sub", "sub/deep", "sub/deep/out"]),
}


def nested(arena, kind):
    tree = bare(arena)
    tree.dir(tree.w + "/sub/deep/out")
    tree.dir(tree.w + "/out")
    tree.file(tree.o + "/deep/out/o.txt")
    # Times are not compared: a placeholder changes the time of the nested root.
    tree.look = lambda: snapshot(tree.w, tree.o, inodes=True, skip=(tree.w + "/scratch",))
    return tree, *ELSEWHERE[kind](tree)


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_root_below_a_root_stays(arena, kind):
    """A command cannot replace a writable root below another one; the next command would get the replacement as its root."""
    tree, profile, env, _, pinned = nested(arena, kind)
    for path in pinned:
        for how in ("rename", "exchange", "replace", "remove"):
            arena.attack("move", how, path, world=tree, profile=profile, more_env=env)


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_root_that_became_a_link_gives_nothing(arena, kind):
    """A writable directory below another, and a link in its place, as a command could have put it there."""
    tree, profile, env, path, _ = nested(arena, kind)
    os.rename(path, tree.w + "/moved")
    tree.link(path, tree.o)
    before = snapshot(tree.o, inodes=True, times=True)
    done = arena.rig.sh('echo x >> "$1/o.txt"; echo x > "$1/n"; echo x >> "$1/deep/out/o.txt"; echo x > "$1/deep/out/n"',
                        profile, tree.w, tree.o, env=env)
    assert snapshot(tree.o, inodes=True, times=True) == before, done


def test_race_of_a_command_with_the_start_of_others(arena):
    """One command turns a directory of the workspace into a link and back, while others start for which it is a writable root or
    lies above a mask. None of them writes outside or reads what is denied."""
    world = arena.world()
    world.dir(world.o + "/ro")
    world.file(world.o + "/ro/f", "kept\n")
    world.dir(world.w + "/out")
    before = snapshot(world.o, world.s, inodes=True, times=True)
    spin = ("import os\n"
            "while True:\n"
            "    for a in ('out', 'q'):\n"
            "        try:\n"
            "            os.rename(a, a + '.real'); os.symlink(os.environ['BOX_O'], a)\n"
            "            os.unlink(a); os.rename(a + '.real', a)\n"
            "        except OSError: pass\n")
    spinner = arena.rig.start(["/usr/bin/python3", "-c", spin], workspace_write(at(world.s, "deny")), world.w,
                              env=arena.env(world))
    profile = workspace_write(at(world.w + "/out", "write"), at(world.w + "/q/ro", "read"),
                              at(world.w + "/q/x", "deny"), at(world.s, "deny"))
    deadline = time.monotonic() + 2 * PATIENCE
    count = 0
    while time.monotonic() < deadline:
        done = arena.rig.sh("cat q/s/key to-key; for i in 1 2 3; do echo x > out/n; echo x > out/o.txt; echo x >> q/o.txt;"
                            " echo x > q/n; done", profile, world.w)
        assert SECRET.encode() not in done.out
        count += 1
    arena.rig.client.call("process/terminate", {"processId": spinner})
    arena.rig.finish(spinner)
    assert count > 0
    assert snapshot(world.o, world.s, inodes=True, times=True) == before


# What the host does meanwhile


def ask(arena, world, profile, script, act, **kw):
    """Starts a command that prints `up` and waits for a line; calls act(); lets it run `script`. Returns the Outcome."""
    process_id = arena.rig.start(["/bin/sh", "-c", f"echo up; read line; {script}", "sh"], profile, world.w,
                                 pipeStdin=True, env=arena.env(world), **kw)
    arena.rig.client.wait_output(process_id, b"up\n")
    act()
    # The server ends a command whose mask was taken away; that may take a moment.
    with contextlib.suppress(TimeoutError):
        arena.rig.client.wait_exit(process_id, 1)
    with contextlib.suppress(RpcError):
        arena.rig.write(process_id, b"go\n")
    return arena.rig.finish(process_id)


@pytest.mark.parametrize("path", ["p/secret", "p", "p/ro", ".git"])
def test_mask_that_the_host_replaces(arena, path):
    """The replacement cannot be read either, or the command is ended."""
    world = arena.world()
    new = "new-" + SECRET

    def act():
        os.rename(os.path.join(world.w, path), os.path.join(world.w, "sub", "away"))
        for name, content in (("p/secret/key", new), ("p/ro/f", "kept\n"), (".git/config", "kept\n")):
            world.file(os.path.join(world.w, name), content)

    done = ask(arena, world, world.profile(), "cat p/secret/key; echo x >> p/ro/f; echo x >> .git/config; echo x > .git/n",
               act)
    assert new.encode() not in done.out, done
    for name in ("p/ro/f", ".git/config"):
        with open(os.path.join(world.w, name), encoding="utf-8") as f:
            assert f.read() == "kept\n", (name, done)
    assert not os.path.exists(world.w + "/.git/n")


@pytest.mark.parametrize("how", ["rename over it", "unlink and create"])
@pytest.mark.parametrize("path", ["p/hidden.txt", "q/x/k.env"])
def test_masked_file_that_the_host_replaces(arena, path, how):
    """The host replaces the file as an editor saves it."""
    world = arena.world()
    new = "new-" + SECRET
    target = os.path.join(world.w, path)

    def act():
        if how == "rename over it":
            os.replace(world.file(world.s + "/new", new), target)
        else:
            os.unlink(target)
            world.file(target, new)

    done = ask(arena, world, world.profile(), f"cat {path}; echo x > {path}", act)
    assert new.encode() not in done.out, done
    with open(target, encoding="utf-8") as f:
        assert f.read() == new, done


def test_protected_directory_that_the_host_makes_meanwhile(arena):
    tree = bare(arena)

    def act():
        tree.dir(tree.w + "/.git")
        tree.file(tree.w + "/.git/config", "kept\n")

    done = ask(arena, tree, workspace_write(), "echo x >> .git/config; echo x > .git/n; rm -rf .git", act)
    with open(tree.w + "/.git/config", encoding="utf-8") as f:
        assert f.read() == "kept\n", done
    # What the host made is still there after the end of the command.
    assert sorted(os.listdir(tree.w + "/.git")) == ["config"]


def test_mounts_of_the_host_do_not_appear(program, request):
    """The mounts are made in a mount namespace of the server with shared propagation."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    for user in USERS:
        with rig_of(user, mount_namespace=True) as rig:
            tree = rig.tree()
            for top in (tree.w, tree.o):
                tree.file(top + "/late/below", "kept\n")
            process_id = rig.start(["/bin/sh", "-c", 'echo up; read line; ls "$1/late" "$2/late"; echo x > "$2/late/n"',
                                    "sh", tree.w, tree.o], workspace_write(), tree.w, pipeStdin=True)
            rig.client.wait_output(process_id, b"up\n")
            enter = ["nsenter", "-t", str(rig.server.pid), "-m"]
            for top in (tree.w, tree.o):
                subprocess.run([*enter, "mount", "-t", "tmpfs", "late", top + "/late"], check=True)
                subprocess.run([*enter, "touch", top + "/late/mounted"], check=True)
            rig.write(process_id, b"go\n")
            done = rig.finish(process_id)
            assert b"mounted" not in done.out and done.out.count(b"below") == 2, done
            subprocess.run([*enter, "sh", "-c", f"test ! -e {tree.o}/late/n"], check=True)


def test_mounts_are_private_to_the_command(arena):
    """Nothing of a sandbox is to be seen in the host's table of mounts, during it and afterwards."""
    world = arena.world()

    def table():
        with open(f"/proc/{arena.rig.server.pid}/mountinfo", encoding="utf-8") as f:
            return f.read()

    before = table()
    seen = []
    ask(arena, world, world.profile(), ":", lambda: seen.append(table()))
    assert seen == [before]
    assert table() == before
