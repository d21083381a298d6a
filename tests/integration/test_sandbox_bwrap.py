"""Sandboxes that bwrap builds: as strict as those that Farhand builds itself; a bwrap that does less than it was told is refused.

The vectors, the honest programs and the essential attempts of the other modules run here on this back end. A fake bwrap on
the server's PATH records what it is told, changes something, and becomes the real one.
"""

# pylint: disable=unused-import
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile

import pytest

from farhand_client import BIN, pid_gone, wait_until
from sandbox_arena import arena_of, program
from sandbox_rig import (LAYERED, REFUSAL, USERS, at, differences, glob, narrow, read_only, rig_of, snapshot, unrestricted,
                         workspace_write)
from test_sandbox_access import CASES, judge
from test_sandbox_escape import (test_descriptors_of_init, test_environment_of_the_server_is_invisible,
                                 test_host_setting, test_inherited_descriptors, test_ipc,
                                 test_masks_and_what_is_above_them_stay, test_memory_of_init, test_mount_flags,
                                 test_mount_flags_of_a_narrow_view, test_nested_namespaces, test_network,
                                 test_nothing_of_the_kernel_can_be_written, test_outside_processes_are_invisible,
                                 test_protected_name_does_not_appear, test_race_of_a_command_with_the_start_of_others,
                                 test_rights, test_rights_of_init, test_terminal)
from test_sandbox_programs import (bench, terminal, test_bash_does_not_read_bashrc, test_devices,
                                   test_environment_is_that_of_the_request, test_exit_codes, test_git_in_a_subdirectory,
                                   test_git_reads_a_repository_that_is_protected, test_interrupt_by_request,
                                   test_interrupt_reaches_the_foreground_only, test_jobs, test_keys_and_traps,
                                   test_make_and_gcc, test_missing_program_is_the_answer, test_multiprocessing,
                                   test_only_loopback, test_ps_shows_its_own, test_server_on_localhost,
                                   test_signals_have_their_defaults, test_terminal_is_the_controlling_one,
                                   test_terminate_ends_all_of_it, test_who_and_where, test_window_size)

REAL = shutil.which("bwrap", path="/usr/bin:/bin")
INIT = os.path.join(os.path.dirname(os.path.realpath(BIN)), "farhand-init")
FORCED = ("--sandbox-backend", "bubblewrap")
PATH = "/usr/local/bin:/usr/bin:/bin"

pytestmark = [pytest.mark.skipif(REAL is None, reason="bubblewrap is not installed"),
              pytest.mark.skipif(not os.path.exists(INIT), reason="farhand-init was not built")]


@pytest.fixture(scope="module", params=USERS)
def rig(request):
    with rig_of(request.param, args=FORCED, env={"FARHAND_TEST_SECRET": "of the server"}) as r:
        yield r


@pytest.fixture(scope="module", params=USERS)
def arena(request, program):
    with arena_of(request.param, program, args=FORCED) as a:
        yield a


@pytest.mark.parametrize("name", CASES)
def test_access(rig, name):
    wrong = [text for check in CASES[name]["checks"] if (text := judge(rig, name, check))]
    assert not wrong, "\n".join(wrong)


def as_before(tree, before):
    wait_until(lambda: not differences(before, snapshot(tree.base)), 10, "the tree as it was")


# What bwrap is told


# The server executes only the bwrap that it found at its start. So the fake stays unchanged, and reads from a file what to change.
FAKE = """#!/usr/bin/python3 -IS
import json, os, sys
REAL, FOLDER = {real!r}, {folder!r}
tail = sys.argv[1:]
is_test = tail[-1:] == ["--test"]
def edit(name):
    with open(FOLDER + "/" + name) as f:
        return f.read()
if tail == ["--help"]:
    words = os.popen(REAL + " --help").read()
    exec(edit("help"))
    print(words)
    sys.exit()
args = [a.decode() for a in os.read(5, 1 << 24).split(b"\\0")][:-1]
if not is_test:
    seen = {{"args": args, "pid": os.getpid(), "tail": tail, "env": [n for n in os.environ if n != "LC_CTYPE"],
            "fds": {{n: os.readlink("/proc/self/fd/" + n) for n in os.listdir("/proc/self/fd")
                    if os.path.lexists("/proc/self/fd/" + n)}}}}
    with open(FOLDER + "/seen.new", "w") as f:
        json.dump(seen, f)
    os.rename(FOLDER + "/seen.new", FOLDER + "/seen")
def without(*words):
    for i in range(len(args)):
        if args[i:i + len(words)] == list(words):
            del args[i:i + len(words)]
            return
    sys.exit("without: " + " ".join(words))
def instead(old, new):
    at = [i for i in range(len(args)) if args[i:i + len(old)] == old][0]
    args[at:at + len(old)] = new
exec(edit("test" if is_test else "start"))
fd = os.memfd_create("edited")
os.write(fd, "".join(a + "\\0" for a in args).encode())
os.lseek(fd, 0, 0)
os.dup2(fd, 5)
os.execv(REAL, ["bwrap", *tail])
"""


class Fake:
    """A directory with a bwrap in it. Edits are Python: of what --help says, and of `args` and `tail`."""

    def __init__(self, help_edit="", test_edit=""):
        self.top = tempfile.mkdtemp(prefix="fh-bwrap-", dir="/var/tmp")
        os.chmod(self.top, 0o755)
        self.folder = os.path.join(self.top, "said")  # where the fake writes, whoever runs it
        os.mkdir(self.folder)
        os.chmod(self.folder, 0o777)
        self.write("help", help_edit)
        self.write("test", test_edit)
        self.say("")
        self.where = os.path.join(self.top, "bin")
        os.mkdir(self.where)
        self.path = os.path.join(self.where, "bwrap")
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(FAKE.format(real=REAL, folder=self.folder))
        os.chmod(self.path, 0o755)
        self.env = {"PATH": self.where + ":" + PATH}

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.rename(path + ".new", path)

    def say(self, edit):
        """Sets what the fake changes in starts from now on."""
        self.write("start", edit)

    def seen(self):
        with open(os.path.join(self.folder, "seen"), encoding="utf-8") as f:
            return json.load(f)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        shutil.rmtree(self.top, ignore_errors=True)


@pytest.fixture(scope="module", params=USERS)
def faked(request):
    """(rig, fake): a server with a fake bwrap on its PATH."""
    with Fake() as fake, rig_of(request.param, args=FORCED, env=fake.env) as r:
        yield r, fake


def options(args):
    """The arguments of bwrap as a list of options, each with its values."""
    lists = []
    for word in args:
        if word.startswith("--"):
            lists.append([word])
        else:
            lists[-1].append(word)
    return [" ".join(words) for words in lists]


# What every view begins with: namespaces; the root; a /dev of its own; a /proc of its own, its knobs covered.
BEGIN = ["--unshare-user", "--die-with-parent", "--cap-drop ALL", "--chdir /"]
SPACES = ["--unshare-pid", "--unshare-ipc", "--as-pid-1"]
DEV = ["--dev /dev", "--perms 1777", "--size 67108864", "--tmpfs /dev/shm"]
PROC = ["--proc /proc"] + [f"--ro-bind-try /proc/{k} /proc/{k}" for k in (
    "sys", "irq", "bus", "fs", "sysrq-trigger", "acpi", "scsi", "driver", "mtrr", "timer_list")]


def bound(kind, path):
    return [f"--{kind} {path} {path}"]


def lid(mode, path):
    """The options for an empty read-only tmpfs at `path`."""
    return [f"--perms {mode}", f"--tmpfs {path}", f"--remount-ro {path}"]


def lid_file(mode, fd, path):
    """The options for an empty read-only file, whose content bwrap reads from an empty descriptor."""
    return [f"--perms {mode}", f"--ro-bind-data {fd} {path}"]


def plant(tree):
    for name in (".git/config", "p/ro/f", "p/hidden.txt", "secret/key"):
        tree.file(os.path.join(tree.w, name))
    return workspace_write(at(tree.w + "/p/ro", "read"), at(tree.w + "/p/hidden.txt", "deny"),
                           at(tree.w + "/secret", "deny"))


def test_arguments_of_a_workspace(faked):
    """From the top down. Between the root and a mask every directory is pinned: bound onto itself. A name that must not
    come into being is covered by an empty directory; those have a descriptor as well, in case that the stub is a file."""
    rig, fake = faked
    tree = rig.tree()
    profile = plant(tree)
    done = rig.sh("echo ran", profile, tree.w)
    assert done.out == b"ran\n", done
    seen, w = fake.seen(), tree.w
    shown = options(seen["args"])
    # The server's own directory is in no view; where it comes in the list depends on its name.
    state = "/var/lib/farhand" if rig.user == "root" else rig.env["XDG_STATE_HOME"] + "/farhand"
    at_state = shown.index(f"--tmpfs {state}") - 1
    assert shown[at_state:at_state + 3] == lid("0000", state)
    del shown[at_state:at_state + 3]
    # /tmp is no writable root of this profile.
    assert shown == [
        *BEGIN, "--unshare-net", *SPACES, "--ro-bind / /", *DEV, *PROC,
        *bound("bind", w), *lid("0555", w + "/.agents"), *lid("0555", w + "/.aws"), *lid("0555", w + "/.codex"),
        *bound("ro-bind", w + "/.git"), *bound("bind", w + "/p"), *lid_file("0000", 9, w + "/p/hidden.txt"),
        *bound("ro-bind", w + "/p/ro"), *lid("0000", w + "/secret")]
    assert seen["tail"] == ["--args", "5", "--remount-ro", "/dev", "--", "/proc/self/fd/4"]
    assert seen["env"] == []
    fds = seen["fds"]
    assert fds["0"] == fds["1"] == fds["6"] == fds["9"] == "/dev/null"
    assert fds["3"].startswith("socket:") and fds["4"].startswith("/memfd:farhand-helper")
    assert fds["5"].startswith("/memfd:farhand-bwrap")
    numbers = sorted(fds, key=int)
    assert numbers[:10] == [str(n) for n in range(10)]
    # The script, which its interpreter opens again, and the descriptor of the listing itself.
    assert [fds[n] for n in numbers[10:] if fds[n] != f"/proc/{seen['pid']}/fd"] == [fake.path]


def test_arguments_of_a_narrow_view_with_an_open_network(faked):
    rig, fake = faked
    tree = rig.tree()
    tree.file(tree.w + "/f")
    done = rig.sh("cat f", narrow(at(tree.w, "read"), network="enabled"), tree.w)
    assert done.out == b"data\n", done
    shown = options(fake.seen()["args"])
    begin = BEGIN + SPACES + DEV + PROC
    assert shown[:len(begin)] == begin
    # The directories in the empty root have mode 0755, and the root becomes read-only when all is in it.
    assert shown[-4:] == ["--perms 0755", f"--dir {tree.w}", f"--ro-bind {tree.w} {tree.w}", "--remount-ro /"]
    assert "--ro-bind /usr /usr" in shown and "--ro-bind / /" not in shown


def test_arguments_of_a_terminal(faked):
    """bwrap has no controlling terminal: the command takes the terminal inside of the sandbox."""
    rig, fake = faked
    tree = rig.tree()
    tree.dir(tree.w)
    done = rig.sh("tty; test -t 0 && echo t > /dev/tty", read_only(), tree.w, tty=True)
    assert done.ok and done.out.split() == [b"/dev/console", b"t"], done
    tail = fake.seen()["tail"]
    assert tail[:3] == ["--args", "5", "--dev-bind"] and tail[3].startswith("/dev/pts/")
    assert tail[4:] == ["/dev/console", "--remount-ro", "/dev", "--", "/proc/self/fd/4"]


def test_only_the_network_is_taken_away(faked):
    rig, fake = faked
    tree = rig.tree()
    tree.dir(tree.w)
    done = rig.sh("tail -n +3 /proc/net/dev | wc -l; echo x > f; ls -d /proc/$1; exit 3", unrestricted(), tree.w,
                  str(os.getpid()))
    assert done.code == 3 and done.out == b"1\n" and b"/proc/%d" % os.getpid() in done.err, done
    assert os.path.exists(tree.w + "/f")
    if rig.user == "unprivileged":
        assert options(fake.seen()["args"]) == BEGIN + ["--unshare-net"] + SPACES + ["--dev-bind / /"] + PROC + [
            "--ro-bind-try /sys /sys"]


# A bwrap that does less


LESS = {
    "nothing at all": ('os.execv(tail[tail.index("--") + 1], tail[tail.index("--") + 1:])', "bubblewrap"),
    "the network stays": ('without("--unshare-net")', "bubblewrap"),
    "the ipc stays": ('without("--unshare-ipc")', "bubblewrap"),
    "a writable root": ('instead(["--ro-bind", "/", "/"], ["--bind", "/", "/"])', "mount"),
    "a writable /dev": ('i = tail.index("--remount-ro"); del tail[i:i + 2]', "dev"),
    "writable settings": ('without("--ro-bind-try", "/proc/sys", "/proc/sys")', "proc"),
    "no /proc of its own": ('i = args.index("--proc"); args[i:i + 2] = ["--bind", "/proc", "/proc"]', "proc"),
    "a writable repository": ('i = args.index(W + "/.git"); args[i - 1] = "--bind"', "mount"),
    "an open directory": ('without("--perms", "0000", "--tmpfs", W + "/secret", "--remount-ro", W + "/secret")', "mount"),
    "a mask that can be opened": ('without("--remount-ro", W + "/secret")', "mount"),
    "an open file": ('i = args.index(W + "/p/hidden.txt"); del args[i - 4:i + 1]', "mount"),
    "no pin": ('without("--bind", W + "/p", W + "/p")', "mount"),
    "another directory": ('instead(["--bind", W, W], ["--bind", "/var/tmp", W])', "mount"),
    "a name that can appear": ('without("--perms", "0555", "--tmpfs", W + "/.codex", "--remount-ro", W + "/.codex")', "mount"),
}


@pytest.mark.parametrize("how", LESS)
def test_who_does_less_is_no_sandbox(faked, how):
    rig, fake = faked
    edit, step = LESS[how]
    tree = rig.tree()
    profile = plant(tree)
    before = snapshot(tree.base)
    fake.say(f"W = {tree.w!r}\n{edit}")
    try:
        done = rig.sh("echo ran > ran; echo ran", profile, tree.w)
    finally:
        fake.say("")
    assert done.refused is not None and done.refused.code == -32602, done
    assert done.refused.message.startswith(REFUSAL), done
    assert done.refused.data["reason"] == "sandboxUnavailable" and done.refused.data["errno"] > 0
    assert done.refused.data["step"] == step, done
    as_before(tree, before)
    assert rig.sh("echo ran", profile, tree.w).out == b"ran\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: for others bwrap makes a user namespace unasked")
def test_a_view_without_a_user_namespace_of_its_own_is_none():
    """The user namespace above all sandboxes (spawner/fence.h) does not count as one of the command's own."""
    with Fake() as fake, rig_of("root", args=FORCED, env=fake.env) as rig:
        tree = rig.tree()
        tree.dir(tree.w)
        fake.say('without("--unshare-user")')
        done = rig.sh("echo ran", workspace_write(), tree.w)
        assert done.refused is not None and done.refused.data["step"] == "bubblewrap", done
        assert done.refused.data["errno"] == 71 and "bwrap" in done.refused.data["remedy"], done
        fake.say("")
        assert rig.sh("echo ran", workspace_write(), tree.w).out == b"ran\n"


# A bwrap that does more


# A mount over the root: absolute paths begin below it, and `..` leads into it.
OVER_THE_ROOT = """
args[:0] = ["--uid", "0", "--gid", "0"]
instead(["--cap-drop", "ALL"], ["--cap-add", "ALL"])
mount = "ctypes.CDLL(None).mount(b'/var/tmp', b'/', None, 4096, None)"
tail[tail.index("--") + 1:] = ["/usr/bin/python3", "-c", "import ctypes, os\\nassert " + mount +
                               " == 0\\nos.execv('/proc/self/fd/4', ['init'])"]
"""

MORE = {
    "the machine behind the root": (plant, OVER_THE_ROOT),
    "the machine behind an empty root": (lambda tree: narrow(at(tree.file(tree.w + "/a"), "read")), OVER_THE_ROOT),
    "a directory that can be written": (plant, 'i = args.index("--ro-bind"); args[i + 3:i + 3] = ["--bind", O, O]'),
    "a part of what is read-only": (plant, 'args += ["--bind", W + "/.git", W + "/.git/hooks"]'),
    "a directory of the machine": (lambda tree: narrow(at(tree.file(tree.w + "/a"), "read")),
                                   'args[-2:-2] = ["--ro-bind", O, "/leak"]'),
    "a directory of the machine in /dev": (lambda tree: narrow(at(tree.file(tree.w + "/a"), "read")),
                                           'args[-2:-2] = ["--ro-bind", O, "/dev/leak"]'),
    "a directory of the machine beside what is readable": (lambda tree: narrow(at(tree.file(tree.w + "/a"), "read")),
                                                           'args[-2:-2] = ["--ro-bind", O, W + "/b"]'),
    "a directory of the machine on the way": (lambda tree: narrow(at(tree.file(tree.w + "/a"), "read")),
                                              'i = args.index(W + "/a"); args[i - 1:i - 1] = ["--ro-bind", W, W]'),
}


@pytest.fixture(scope="module", params=USERS)
def faked_unfinished(request):
    """(rig, fake): as `faked`, but the server uses the views as the fake has built them, without adding its own mounts."""
    if not os.access(LAYERED, os.X_OK):
        pytest.skip("farhand-layers was not built")
    with Fake() as fake, rig_of(request.param, args=FORCED, executable=LAYERED,
                                env={**fake.env, "FARHAND_LAYERS_OFF": "finish"}) as r:
        yield r, fake


@pytest.mark.parametrize("how", MORE)
def test_a_bwrap_that_mounts_more_is_refused(faked_unfinished, how):
    """Whatever is mounted beside what the plan has refuses the start, unless it can neither be written nor hold more than the
    profile lets a command read."""
    done = start_with_more(faked_unfinished, how)
    assert done.refused is not None and done.refused.data["step"] == "check", done
    assert done.refused.data["reason"] == "sandboxUnavailable" and done.refused.data["remedy"], done


@pytest.mark.parametrize("how", MORE)
def test_a_view_with_more_mounts_is_not_finished(faked, how):
    """A process that joins a view is in the uppermost of its roots, and would seal another root than the command's."""
    done = start_with_more(faked, how)
    assert done.refused is not None, done
    assert done.refused.data["step"] == ("dev" if MORE[how][1] == OVER_THE_ROOT else "check"), done


def start_with_more(faked, how):
    rig, fake = faked
    make, edit = MORE[how]
    tree = rig.tree()
    tree.file(tree.o + "/f")
    tree.dir(tree.w + "/.git/hooks")
    profile = make(tree)
    fake.say(f"W, O = {tree.w!r}, {tree.o!r}\n{edit}")
    try:
        done = rig.sh("echo ran", profile, "/", box_cwd=tree.w)
    finally:
        fake.say("")
    assert rig.sh("echo ran", profile, "/", box_cwd=tree.w).out == b"ran\n"
    return done


@pytest.fixture(scope="module", params=USERS)
def mounting(request):
    """(rig, mount): a server in a mount namespace of its own, and what mounts a file system of memory there."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for mounts")
    with rig_of(request.param, args=FORCED, mount_namespace=True) as r:
        def mount(path, mode=0o755):
            os.makedirs(path, exist_ok=True)
            subprocess.run(["nsenter", "-t", str(r.server.pid), "-m", "mount", "-t", "tmpfs", "-o", f"mode={mode:o}", "tmpfs",
                            path], check=True)
        yield r, mount


def test_mounts_that_the_machine_has_refuse_no_start(mounting):
    """Mounts with any name, on top of each other, below denied paths, and where the user of the server may not go."""
    rig, mount = mounting
    tree = rig.tree()
    tree.dir(tree.w)
    tree.file(tree.w + "/secret/key")
    odd = tree.w + "/a b\tc\nd\\040#"
    for path in (odd, odd, tree.w + "/secret/m", tree.o):
        mount(path, 0o777)
    closed = os.path.join(tree.base, "closed")
    os.mkdir(closed, 0o700)
    mount(closed + "/m")
    for profile, writes in ((read_only(), False), (workspace_write(at(tree.w + "/secret", "deny")), True),
                            (narrow(at(tree.w, "read")), False), (narrow(at(tree.w, "write"), at(tree.w + "/secret", "deny")), True)):
        done = rig.sh('echo new > "$1/f" && echo WROTE; echo new > "$2/f" && echo OUTSIDE; cat secret/m/f; echo ran', profile, tree.w,
                      odd, tree.o)
        assert done.out == (b"WROTE\n" if writes else b"") + b"ran\n", done


# A bwrap that fails


@pytest.mark.parametrize("edit, errno, words", [
    ('sys.exit("bwrap: Creating new namespace failed: No space left on device")', 28, "Creating new namespace failed"),
    ('sys.exit("bwrap: Can\'t mount proc on /newroot/proc: Operation not permitted")', 1, "Can't mount proc"),
    ("os.kill(os.getpid(), 9)", 125, "bubblewrap"),
    ('args.append("--no-such-option")', 125, "Unknown option --no-such-option"),
], ids=["namespaces", "proc", "killed", "usage"])
def test_a_failure_is_the_answer_of_the_start(faked, edit, errno, words):
    rig, fake = faked
    tree = rig.tree()
    profile = plant(tree)
    before = snapshot(tree.base)
    fake.say(edit)
    try:
        done = rig.sh("echo ran", profile, tree.w)
    finally:
        fake.say("")
    assert done.refused is not None, done
    data = done.refused.data
    assert (data["step"], data["errno"]) == ("bubblewrap", errno), done
    assert words in done.refused.message and data["remedy"], done
    as_before(tree, before)


def ask(user, env, cwd=None, where=None, **kw):
    """The Outcome of a read-only command on a server with this environment."""
    with rig_of(user, args=FORCED, env=env, **kw) as r:
        tree = r.tree()
        tree.dir(tree.w)
        return r.sh("echo ran", read_only(), where or tree.w)


def test_no_bwrap():
    done = ask(USERS[0] if os.geteuid() == 0 else USERS[1], {"PATH": "/var/empty"})
    assert done.refused.code == -32602 and done.refused.message.startswith(REFUSAL), done
    data = done.refused.data
    assert (data["step"], data["errno"]) == ("bubblewrap", 2) and "install bubblewrap" in data["remedy"], done


@pytest.mark.parametrize("help_edit, errno, remedy", [
    ('words = words.replace("--size", "")', 95, "0.8 or later"),
    ("sys.exit(1)", 95, "0.8 or later"),
], ids=["too old", "no help"])
def test_a_bwrap_that_is_no_use(help_edit, errno, remedy):
    with Fake(help_edit) as fake:
        done = ask("root" if os.geteuid() == 0 else "unprivileged", {"PATH": fake.where})
    data = done.refused.data
    assert (data["step"], data["errno"]) == ("bubblewrap", errno) and remedy in data["remedy"], done


def test_a_bwrap_that_cannot_build_here():
    with Fake(test_edit='sys.exit("bwrap: setting up uid map: Permission denied")') as fake:
        done = ask("root" if os.geteuid() == 0 else "unprivileged", {"PATH": fake.where})
    assert done.refused.data["step"] == "bubblewrap" and done.refused.data["errno"] == 13, done


@pytest.mark.parametrize("user", USERS)
def test_none_is_taken_from_where_commands_work(user):
    """The server takes no bwrap from a directory of PATH that commands can write."""
    with Fake() as fake, rig_of(user, args=FORCED, env=fake.env) as rig:
        tree = rig.tree()
        tree.dir(tree.w)
        for profile, cwd in ((workspace_write(), fake.where), (workspace_write(at(fake.where, "write")), tree.w),
                             (read_only(), fake.where)):
            done = rig.sh("echo ran", profile, cwd)
            assert done.refused is not None and done.refused.data["step"] == "bubblewrap", done
            assert done.refused.data["errno"] == 1 and fake.path in done.refused.message, done
        assert rig.sh("echo ran", workspace_write(), tree.w).out == b"ran\n"


# How bwrap ends


def tree_of(pid):
    """(pid, name) of all descendants."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as f:
        below = [int(p) for p in f.read().split()]
    for child in below:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            with open(f"/proc/{child}/comm", encoding="latin-1") as f:
                yield child, f.read().strip()
            yield from tree_of(child)


def first_word(pid):
    """The first argument of a process: for a program that was executed by descriptor, only this has its name."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/cmdline", "rb") as f:
        return f.read().partition(b"\0")[0].decode()
    return None  # it has ended meanwhile


@pytest.mark.parametrize("who", ["bwrap", "fh-init"])
def test_who_is_killed_takes_the_command_along(rig, who):
    tree = rig.tree()
    tree.dir(tree.w)
    before = snapshot(tree.base)
    process_id = rig.start(["/usr/bin/python3", "-c", "import os, time\nif os.fork() == 0: os.setsid()\n"
                            "print('up', flush=True)\ntime.sleep(1000)"], workspace_write(), tree.w)
    rig.client.wait_output(process_id, b"up\nup\n")
    found = list(tree_of(rig.server.pid))
    commands = [pid for pid, name in found if name == "python3"]
    assert len(commands) == 2, found
    os.kill(next(pid for pid, _ in found if first_word(pid) == who), signal.SIGKILL)
    assert rig.finish(process_id).code == 137
    for pid in commands:
        pid_gone(pid)
    as_before(tree, before)


def test_as_many_masks_as_it_takes(rig):
    """Each denied file needs a descriptor and arguments; a start with more than bwrap takes is refused."""
    tree = rig.tree()
    tree.file(tree.w + "/open", "kept\n")
    for i in range(1500):
        tree.file(f"{tree.w}/{i}.env")
    done = rig.sh("cat open; cat 0.env 1499.env; ls | wc -l; ulimit -n", workspace_write(glob("**/*.env")), tree.w)
    assert done.out.startswith(b"kept\n1501\n") and done.err.count(b"Permission denied") == 2, done
    for i in range(1500, 3000):
        tree.file(f"{tree.w}/{i}.env")
    done = rig.sh("cat open", workspace_write(glob("**/*.env")), tree.w)
    assert done.refused is not None and done.refused.data["errno"] == 7 and done.refused.data["remedy"], done
