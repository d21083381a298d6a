"""Names for the same thing: what is mounted twice is denied, read-only and protected by every one of its paths; and the
kernel's own file systems are not written wherever they are mounted.

The server runs in a mount namespace of its own, in which the test makes the mounts: commands, file requests, and the command
line of both back ends that have views.
"""

import contextlib
import os
import subprocess

import pytest

from sandbox_arena import SECRET
from sandbox_rig import MINIMAL, ROOT_WRITE, USERS, WORKSPACE, Box, at, glob, is_error, read_only, restricted, rig_of, workspace_write

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for mounts")
BACKENDS = ["namespaces", "bubblewrap"]


@pytest.fixture(scope="module", params=[(user, backend) for user in USERS for backend in BACKENDS], ids="-".join)
def rig(request):
    user, backend = request.param
    if backend == "bubblewrap" and not os.access("/usr/bin/bwrap", os.X_OK):
        pytest.skip("no bubblewrap")
    with rig_of(user, mount_namespace=True, args=["--sandbox-backend", backend]) as r:
        yield r


def mount(rig, *args):
    subprocess.run(["nsenter", "-t", str(rig.server.pid), "-m", "mount", *args], check=True)


def bind(rig, source, target):
    if not os.path.exists(target):
        if os.path.isdir(source):
            os.makedirs(target)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "w", encoding="utf-8"):
                pass
    mount(rig, "--bind", source, target)


@pytest.fixture
def tree(rig):
    t = rig.tree()
    for path in (t.w, t.o):
        t.dir(path)
    yield t
    # Umount what the test has mounted, from the last one on.
    script = "awk -v base=\"$1/\" 'index($5, base) == 1 {print $5}' /proc/self/mountinfo | tac | xargs -r -n 1 umount -l"
    subprocess.run(["nsenter", "-t", str(rig.server.pid), "-m", "sh", "-c", script, "sh", t.base], check=True)


def no_secret(rig, profile, w, *paths, roots=None):
    """Neither a command nor a file request reads any of the paths."""
    box = Box(rig.client, profile, w, roots)
    done = rig.sh('for p; do cat "$p"; done; exit 0', profile, w, *paths, roots=roots)
    assert done.refused is None and done.out == b"", done
    for path in paths:
        assert is_error(box.read(path)), path
    assert SECRET.encode() not in box.all_told()


def no_write(rig, profile, w, *paths, roots=None):
    """Neither a command nor a file request writes any of the paths; another file of the workspace can be written."""
    box = Box(rig.client, profile, w, roots)
    done = rig.sh('for p; do echo planted > "$p"; done; echo new > beside && echo DONE', profile, w, *paths, roots=roots)
    assert done.refused is None and done.out == b"DONE\n", done
    for path in paths:
        assert is_error(box.write(path, b"planted")), path
        real = os.path.join("/proc", str(rig.server.pid), "root", path.lstrip("/"))
        if os.path.lexists(real):
            with open(real, encoding="utf-8", errors="replace") as f:
                assert "planted" not in f.read(), path


def test_a_denied_file_is_denied_where_it_is_mounted(rig, tree):
    key = tree.file(tree.o + "/secret/key", SECRET)
    bind(rig, key, tree.o + "/elsewhere")
    bind(rig, key, tree.w + "/inside")
    no_secret(rig, workspace_write(at(key, "deny")), tree.w, key, tree.o + "/elsewhere", tree.w + "/inside")


def test_a_denied_directory_is_denied_where_it_is_mounted(rig, tree):
    secret = os.path.dirname(tree.file(tree.o + "/secret/key", SECRET))
    bind(rig, secret, tree.o + "/again")
    bind(rig, secret, tree.w + "/sub/again")
    bind(rig, tree.o, tree.base + "/all")
    no_secret(rig, workspace_write(at(secret, "deny")), tree.w, tree.o + "/again/key", tree.w + "/sub/again/key",
              tree.base + "/all/secret/key")


def test_a_part_of_what_is_denied_is_denied_where_it_is_mounted(rig, tree):
    deep = os.path.dirname(tree.file(tree.o + "/secret/a/b/key", SECRET))
    bind(rig, deep, tree.w + "/deep")
    no_secret(rig, workspace_write(at(tree.o + "/secret", "deny")), tree.w, tree.w + "/deep/key")


def test_what_a_pattern_denies_is_denied_where_it_is_mounted(rig, tree):
    env = tree.file(tree.w + "/x/k.env", SECRET)
    bind(rig, os.path.dirname(env), tree.o + "/x2")
    bind(rig, env, tree.o + "/plain.txt")
    no_secret(rig, workspace_write(glob("**/*.env")), tree.w, tree.o + "/x2/k.env", tree.o + "/plain.txt")


def test_what_is_read_only_is_so_where_it_is_mounted(rig, tree):
    for path in ("/w/ro/f", "/o/ro/f"):
        tree.file(tree.base + path)
    bind(rig, tree.w + "/ro", tree.w + "/ro2")
    bind(rig, tree.o + "/ro", tree.w + "/ro3")
    profile = workspace_write(at(tree.w + "/ro", "read"), at(tree.o + "/ro", "read"))
    no_write(rig, profile, tree.w, tree.w + "/ro/f", tree.w + "/ro2/f", tree.w + "/ro3/f", tree.w + "/ro3/new")


def test_a_workspace_that_is_mounted_twice_has_its_names_protected(rig, tree):
    """Protected names that exist and those that do not."""
    tree.file(tree.w + "/.git/config")
    bind(rig, tree.w, tree.o + "/again")
    profile = workspace_write(at(tree.o, "write"))
    no_write(rig, profile, tree.w, tree.o + "/again/.git/config", tree.o + "/again/.git/hooks", tree.o + "/again/.codex/x",
             tree.w + "/.codex/x")
    done = rig.sh('mkdir "$1"/.agents; mv "$1/.git" "$1/moved"; mv .git moved; ls -A "$1"', profile, tree.w, tree.o + "/again")
    assert b"moved" not in done.out, done
    assert sorted(os.listdir(tree.w)) == [".git", "beside"]


def test_what_git_points_at_is_protected_where_it_is_mounted(rig, tree):
    tree.file(tree.w + "/.git", "gitdir: store\n")
    tree.file(tree.w + "/store/hooks/sample")
    bind(rig, tree.w + "/store", tree.w + "/second")
    no_write(rig, workspace_write(), tree.w, tree.w + "/second/hooks/sample", tree.w + "/second/hooks/pre-commit")


def test_a_root_that_is_a_mount_itself_stays_writable(rig, tree):
    """The workspace is mounted from a directory that may only be read, or is even denied by its other name."""
    tree.file(tree.o + "/project/f")
    bind(rig, tree.o + "/project", tree.w)
    for access in ("read", "deny"):
        done = rig.sh("echo new > f && cat f", workspace_write(at(tree.o, access)), tree.w)
        assert done.out == b"new\n", (access, done)
        assert is_error(Box(rig.client, workspace_write(at(tree.o, access)), tree.w).write(tree.o + "/project/f"))


def test_other_mounts_in_a_workspace_stay_writable(rig, tree):
    tree.file(tree.o + "/cache/f")
    bind(rig, tree.o + "/cache", tree.w + "/cache")
    done = rig.sh("echo new > cache/f && cat cache/f", workspace_write(), tree.w)
    assert done.out == b"new\n", done


# File systems of the kernel's


KERNEL = [("proc", "proc"), ("sysfs", "sys"), ("tmpfs", None), ("cgroup2", "cg"), ("debugfs", "debug"), ("mqueue", "mq")]
WRITABLE = {
    "workspace": lambda tree: workspace_write(),
    "narrow": lambda tree: restricted(MINIMAL, WORKSPACE),
    "everything": lambda tree: restricted(ROOT_WRITE, at("/boot", "read")),
}
# Opened for writing; nothing is ever written.
OPEN = ('for f in "$1"/sys/kernel/core_pattern "$1"/sys/vm/drop_caches "$1"/sysrq-trigger "$1"/kernel/uevent_helper '
        '"$1"/power/state "$1"/cgroup.procs "$1"/cgroup.subtree_control "$1"/new; do ( : >> "$f" ) 2>/dev/null && echo "OPENED $f"; done; '
        'cat "$1"/1/cmdline "$1"/self/status; ls "$1" | grep -c "^[0-9]"; mkdir "$1"/made && echo MADE; exit 0')


@pytest.mark.parametrize("profile", WRITABLE)
@pytest.mark.parametrize("kind, name", [k for k in KERNEL if k[1]])
def test_kernel_file_systems_are_not_written(rig, tree, kind, name, profile):
    """A chroot that is being built, with proc and sysfs mounted in it."""
    target = tree.dir(tree.w + "/chroot/" + name)
    try:
        mount(rig, "-t", kind, "none", target)
    except subprocess.CalledProcessError:
        pytest.skip(f"{kind} cannot be mounted here")
    done = rig.sh(OPEN, WRITABLE[profile](tree), tree.w, target)
    assert done.refused is None, done
    assert b"OPENED" not in done.out and b"MADE" not in done.out, done
    if kind == "proc":
        assert done.out == b"0\n", f"processes of the machine are seen: {done}"
    done = rig.sh("echo new > chroot/file && echo DONE", WRITABLE[profile](tree), tree.w)
    assert done.out == b"DONE\n", done
    box = Box(rig.client, WRITABLE[profile](tree), tree.w)
    for path in ("/sys/kernel/hostname", "/new", "/cgroup.procs"):
        assert is_error(box.write(target + path, b"")), path


def test_processes_of_the_machine_are_not_seen_in_another_proc(rig, tree):
    target = tree.dir(tree.o + "/proc")
    mount(rig, "-t", "proc", "none", target)
    with contextlib.suppress(FileNotFoundError):
        done = rig.sh('ls "$1" | grep -c "^[0-9]"; cat "$1/$2/cmdline"', read_only(), tree.w, target, str(rig.server.pid))
        assert done.refused is None and done.out == b"0\n", done
    for profile in (read_only(), workspace_write()):
        assert is_error(Box(rig.client, profile, tree.w).read(f"{target}/{rig.server.pid}/cmdline"))


def test_processes_are_not_seen_in_a_proc_that_a_command_has_closed_the_way_to(rig, tree):
    """The next command opens the directory again."""
    way = tree.dir(tree.w + "/x")
    mount(rig, "-t", "proc", "none", tree.dir(way + "/proc"))
    assert rig.sh("chmod 000 x", workspace_write(), tree.w).ok
    done = rig.sh("chmod 755 x; cat x/proc/1/comm", workspace_write(), tree.w)
    os.chmod(way, 0o755)
    assert done.out == b"", done


def test_landlock_alone_is_not_stopped_by_another_proc(tree, rig):
    """Landlock cannot hide another proc, and docs/SECURITY.md says that it shows the machine's processes. File requests see
    none of them."""
    with rig_of(rig.user, mount_namespace=True, args=["--sandbox-backend", "landlock"]) as alone:
        target = tree.dir(tree.o + "/proc")
        mount(alone, "-t", "proc", "none", target)
        done = alone.sh("echo DONE", read_only(), "/")
        if done.refused is not None and done.refused.data["step"] == "landlock":
            pytest.skip(done.refused.message)
        assert done.out == b"DONE\n", done
        assert is_error(Box(alone.client, workspace_write(), tree.w).read(f"{target}/{alone.server.pid}/cmdline"))
