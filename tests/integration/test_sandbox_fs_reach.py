"""How far file requests in a sandbox reach: into what came later, into /proc and devices, into the rights of others.

As root and as a user without rights, as in test_sandbox_fs_escape.py.
"""

import os
import stat
import threading

import pytest

from farhand_client import Client
from sandbox_arena import SECRET
from sandbox_rig import Box, at, glob, is_error, narrow, read_only, restricted, snapshot, workspace_write
from test_sandbox_fs_escape import NEW, PROTECTED, Attempt, attempt, bare, rig  # noqa: F401: two are fixtures


# Files and links that change between two requests


def test_patterns_match_what_came_later(rig):
    tree = bare(rig)
    a = Attempt(rig, tree, workspace_write(glob("**/*.env"), glob("**/private")))
    assert a.box.read(tree.w + "/a.txt") == b"data\n"
    for path in ("late.env", "sub/late.env", "sub/private/f", "new/deep/x.env/below"):
        tree.file(f"{tree.w}/{path}", SECRET)
    a.settle()
    for path in ("late.env", "sub/late.env", "sub/private/f", "new/deep/x.env/below"):
        a.no_reading(path)
        a.no_writing(path)
    a.denied("readDirectory", path="sub/private")
    for path in ("n.env", "sub/n.env", "private", "sub/n.env/x"):
        a.denied("writeFile", path=path, dataBase64=NEW, createParents=True)
        a.denied("createDirectory", path=path, recursive=True)
        a.denied("symlink", path=path, target="a.txt")
        a.denied("rename", sourcePath="a.txt", destinationPath=path)
        a.denied("copy", sourcePath="a.txt", destinationPath=path, recursive=False)
    a.box.ask("copy", sourcePath=tree.w, destinationPath=tree.w + "/all", recursive=True)
    a.box.ask("copy", sourcePath=tree.w + "/sub", destinationPath=tree.w + "/sub2", recursive=True)
    for parent, _, names in os.walk(tree.w):
        for name in names:
            if not any(part in os.path.join(parent, name) for part in (".env", "private")):
                with open(os.path.join(parent, name), "rb") as f:
                    assert SECRET.encode() not in f.read()


@pytest.mark.parametrize("pattern", ["/**/secret/*.txt", "/**/*.txt", "/var/**/secret/*.txt", "**/secret/*.txt", "**/*.txt",
                                     "**/secret/**", "**/sec*/?.txt"])
def test_what_a_pattern_hides_is_not_moved_to_where_it_does_not(rig, pattern):
    tree = bare(rig)
    tree.file(tree.w + "/p/secret/k.txt", SECRET)
    a = Attempt(rig, tree, workspace_write(glob(pattern)))
    a.no_reading("p/secret/k.txt")
    for source, destination in (("p/secret", "p/public"), ("p", "q"), ("p/secret/k.txt", "p/secret/k"), ("p/secret/k.txt", "k")):
        a.denied("rename", sourcePath=source, destinationPath=destination)
        a.denied("rename", sourcePath=source, destinationPath=destination, replace=False)
    for source in ("p/secret", "p"):
        a.box.ask("copy", sourcePath=a.path(source), destinationPath=a.path("copied"), recursive=True)
    for parent, _, names in os.walk(tree.w + "/copied"):
        for name in names:
            with open(os.path.join(parent, name), "rb") as f:
                assert SECRET.encode() not in f.read()


def test_a_narrow_view_shows_nothing_beside_what_is_named(rig):
    """Outside of the view, existing and missing paths get the same answer; the directories above show only the way to the view."""
    tree = bare(rig)
    tree.file(tree.w + "/sub/deep/f")
    a = Attempt(rig, tree, narrow(at(tree.w + "/sub/deep", "write")))
    for method in ("readDirectory", "getMetadata", "canonicalize", "readFile", "readLink"):
        for real in (tree.o, tree.w + "/a.txt", tree.w + "/sub/b.txt", "/var/log"):
            assert a.denied(method, path=real) == a.denied(method, path=real + "-none"), (method, real)
    for folder in ("/", tree.base, tree.w, tree.w + "/sub"):
        answer = a.harmless("readDirectory", path=folder)
        names = set() if is_error(answer) else {entry["fileName"] for entry in answer["entries"]}
        assert not names & {"a.txt", "b.txt", "o", "home", "root", "srv", "boot"}, (folder, names)
        a.harmless("walk", path=folder, options={"maxDepth": 3, "maxDirectories": 50, "maxEntries": 50,
                                                 "followDirectorySymlinks": True})
    assert b"a.txt" not in a.box.all_told() and b"b.txt" not in a.box.all_told()
    for folder in (tree.w, tree.w + "/sub", tree.base, "/", "/usr", "/etc"):
        a.denied("writeFile", path=folder + "/fh-new", dataBase64=NEW)
        a.denied("createDirectory", path=folder + "/fh-new", recursive=True)
    assert not is_error(a.box.write(tree.w + "/sub/deep/new"))


def test_a_denied_file_by_its_later_name(attempt):
    """A file that another process renamed or replaced is judged by its path at the time of the request."""
    assert not is_error(attempt.box.read(attempt.w + "/a.txt"))
    os.rename(attempt.w + "/p/secret", attempt.w + "/p/away")
    attempt.world.file(attempt.w + "/p/secret/key", SECRET)
    os.rename(attempt.w + "/.git", attempt.w + "/git-away")
    attempt.world.file(attempt.w + "/.git/config", "kept\n")
    os.rename(attempt.w + "/p/ro", attempt.w + "/p/ro-away")
    attempt.world.file(attempt.w + "/p/ro/f", "kept\n")
    attempt.settle()
    attempt.no_reading("p/secret/key")
    attempt.no_writing(".git/config")
    attempt.no_writing("p/ro/f")
    attempt.no_making("p/ro")


def test_the_workspace_itself_is_replaced(rig):
    tree = bare(rig)
    a = Attempt(rig, tree, workspace_write(at(tree.w + "/no", "deny")))
    assert not is_error(a.box.write(tree.w + "/first"))
    os.rename(tree.w, tree.base + "/old")
    tree.file(tree.w + "/a.txt", "new one\n")
    tree.file(tree.w + "/no/key", SECRET)
    a.settle()
    a.no_reading("no/key")
    assert a.box.read(tree.w + "/a.txt") == b"new one\n"
    assert not is_error(a.box.write(tree.w + "/second")), "the new one is the workspace now"
    assert os.path.exists(tree.w + "/second") and not os.path.exists(tree.base + "/old/second")


# /proc, devices, special files


PROC = ["environ", "mem", "maps", "smaps", "auxv", "cmdline", "exe", "stack", "syscall", "mountinfo", "pagemap", "wchan",
        "task/1/environ", "fdinfo/0", "map_files", "ns/mnt", "attr/current", "oom_score_adj", "uid_map"]
TELLING = ("environ", "mem", "maps", "smaps", "auxv", "cmdline", "exe", "stack", "syscall", "pagemap", "task/1/environ")


PROFILES = {
    "workspace": lambda tree: workspace_write(at(tree.base + "/s", "deny")),
    "narrow": lambda tree: narrow(at("/proc", "read")),
    "full read": lambda tree: read_only(),
    "proc is writable": lambda tree: workspace_write(at("/proc", "write"), at(tree.base + "/s", "deny")),
}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", PROC)
def test_nothing_of_the_server_or_the_helper_is_shown(rig, name, profile):
    tree = bare(rig)
    a = Attempt(rig, tree, PROFILES[profile](tree))
    for owner in ("self", "1", "2", "thread-self", str(rig.server.pid), str(os.getpid())):
        path = f"/proc/{owner}/{name}"
        answer = a.harmless("readFile", path=path)
        assert is_error(answer) or answer["dataBase64"] == "" or name not in TELLING, (path, answer)
        answer = a.harmless("open", handleId="h", path=path, mode="read")
        if not is_error(answer):
            block = a.box.blocks("readBlock", offset=0, len=65536)
            a.box.blocks("close")
            assert is_error(block) or block["chunk"] == "" or name not in TELLING, (path, block)
        for mode in ("replace", "resume"):
            answer = a.harmless("open", handleId="h", path=path, mode=mode)
            if not is_error(answer):
                a.box.blocks("close")
            assert is_error(answer) or profile == "proc is writable", path
    a.secret_kept()


def test_knobs_of_the_machine_are_not_written(rig):
    """The test only opens the files and writes nothing: an open that succeeds is the failure, and no setting changes."""
    a = Attempt(rig, bare(rig), workspace_write())
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger",
                 "/proc/self/oom_score_adj", "/sys/kernel/mm/transparent_hugepage/enabled", "/proc/sys/kernel/hostname"):
        a.denied("open", handleId="h", path=path, mode="resume")


@pytest.mark.parametrize("profile", ["workspace", "full read"])
def test_special_files(rig, profile):
    """A request neither opens a FIFO, a device or a socket nor waits for one."""
    tree = bare(rig)
    os.mkfifo(tree.w + "/fifo", 0o666)
    tree.own(tree.w + "/fifo")
    if os.geteuid() == 0:
        os.mknod(tree.w + "/device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        os.chmod(tree.w + "/device", 0o666)
    tree.link(tree.w + "/to-zero", "/dev/zero")
    tree.link(tree.w + "/to-kmsg", "/dev/kmsg")
    a = Attempt(rig, tree, PROFILES[profile](tree))
    paths = ["fifo", "to-zero", "to-kmsg", "/dev/zero", "/dev/kmsg", "/dev/mem", "/dev/tty", "/dev/ptmx", "/dev/stdin",
             "/dev/fd/0"]
    for path in paths + (["device"] if os.geteuid() == 0 else []):
        a.denied("readFile", path=path)
        a.denied("open", handleId="h", path=path, mode="read")
        a.denied("open", handleId="h", path=path, mode="resume")


def test_disks_of_the_machine(rig):
    """A block device cannot be opened, even where the profile reads all paths and writes some."""
    disks = [path for path in (f"/dev/{name}" for name in os.listdir("/dev")) if stat.S_ISBLK(os.stat(path).st_mode)]
    a = Attempt(rig, bare(rig), workspace_write(at("/dev", "write")))
    for path in disks[:4]:
        a.denied("readFile", path=path)
        a.denied("open", handleId="h", path=path, mode="read")
        a.denied("open", handleId="h", path=path, mode="resume")


# Handles, profiles side by side


def test_handles_stay_as_they_were_opened(attempt):
    """A handle for reading cannot be written; a handle stays open although the profile would deny its path now."""
    path = attempt.w + "/a.txt"
    assert attempt.box.open(path, handle="r") == {"handleId": "r"}
    assert is_error(attempt.box.blocks("writeBlock", "r", offset=0, chunk=NEW))
    assert attempt.box.blocks("readBlock", "r", offset=0, len=10)["eof"]
    os.unlink(path)
    attempt.world.link(path, attempt.s + "/key")
    assert attempt.box.blocks("readBlock", "r", offset=0, len=100)["chunk"] == "a2VwdAo="
    attempt.settle()
    attempt.denied("open", handleId="s", path=path, mode="read")
    assert is_error(attempt.box.blocks("readBlock", "s", offset=0, len=100)), "a handle that was refused is none"
    assert attempt.box.blocks("close", "r") == {}


def test_handle_for_writing_reaches_its_file_only(attempt):
    path = attempt.w + "/sub/b.txt"
    assert attempt.box.open(path, "resume", "w")["handleId"] == "w"
    os.rename(path, attempt.w + "/sub/c.txt")
    os.symlink(attempt.o + "/o.txt", path)
    before = snapshot(attempt.o, inodes=True, times=True)
    attempt.box.blocks("writeBlock", "w", offset=0, chunk=NEW)
    attempt.box.blocks("close", "w", sync=True)
    assert snapshot(attempt.o, inodes=True, times=True) == before
    with open(attempt.w + "/sub/c.txt", "rb") as f:
        assert f.read() == b"new\n\n"


def test_profiles_side_by_side(rig):
    """Requests with different profiles run at once on one connection: none gets the rights of another profile."""
    tree = bare(rig)
    for name in "abc":
        tree.file(f"{tree.base}/{name}/f", f"of {name}\n")
    boxes = {name: Box(rig.client, narrow(at(f"{tree.base}/{name}", "write")), tree.w) for name in "abc"}
    boxes["all"] = Box(rig.client, read_only(), tree.w)
    boxes["none"] = Box(rig.client, restricted(), tree.w)
    sent = []
    for round_ in range(60):
        for owner, box in boxes.items():
            for name in "abc":
                sent.append((owner, name, "readFile", box, box.send("readFile", path=f"{tree.base}/{name}/f")))
                sent.append((owner, name, "writeFile", box, box.send(
                    "writeFile", path=f"{tree.base}/{name}/by-{owner}-{round_ % 3}", dataBase64=NEW)))
    for owner, name, method, box, ident in sent:
        answer = box.answer(ident)
        is_allowed = owner == name or (owner == "all" and method == "readFile")
        assert is_error(answer) != is_allowed, (owner, name, method, answer)
    for name in "abc":
        assert sorted(os.listdir(f"{tree.base}/{name}")) == sorted(["f", *(f"by-{name}-{n}" for n in range(3))])


def test_profiles_of_two_connections(rig):
    tree = bare(rig, ("no/key", SECRET))
    failures = []

    def work(permissions, allowed):
        with Client(rig.server.url) as client:
            box = Box(client, permissions, tree.w)
            for _ in range(100):
                if is_error(box.read(tree.w + "/no/key")) == allowed:
                    failures.append((permissions, box.told[-1]))

    no = tree.w + "/no"
    threads = [threading.Thread(target=work, args=args) for args in (
        (read_only(), True), (workspace_write(at(no, "deny")), False), (narrow(at(no, "read")), True))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures, failures[:3]


@pytest.mark.parametrize("network", ["restricted", "enabled"])
def test_the_network_of_the_profile_does_not_matter(rig, network):
    tree = bare(rig, ("no/key", SECRET))
    a = Attempt(rig, tree, workspace_write(at(tree.w + "/no", "deny"), network=network))
    a.no_reading("no/key")
    a.no_writing(tree.o + "/o.txt")
    assert not is_error(a.box.write(tree.w + "/new"))


def test_errors_name_nothing_that_was_not_asked_for(attempt):
    """The target of a link may be secret, so that no error text may contain it."""
    for method in ("readFile", "canonicalize", "readDirectory", "getMetadata"):
        for path in ("to-key", "to-s", "to-s/key"):
            _, message = attempt.denied(method, path=path)
            assert attempt.s not in message, message
