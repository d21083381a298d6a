"""Reads under a profile that reads everything and denies nothing are done without an fs helper, where no helper would hide
anything: each answer is that of a helper.

A profile with very many entries is always left to a helper, so that both ways can be asked.
"""

import contextlib
import os
import socket
import subprocess
import time

import pytest

from farhand_client import PATIENCE, Closed
from fault_rig import Tracer, why_no_strace
from fs_helpers import KIB, noise
from sandbox_rig import (ROOT_READ, TREES, USERS, Box, at, glob, is_error, read_only, rig_of, special, workspace_write)
from test_fs_quick import QUICK_SECONDS, age, needs_no_thread, needs_quick_reads

TO_HELPER = [ROOT_READ] * 70
MANY_RULES = 40
SECRET = b"the state of the server\n"
SHARED = f"/dev/shm/fh-quick-{os.getpid()}"


@pytest.fixture(scope="module", name="rig", params=USERS)
def rig_fixture(request):
    with rig_of(request.param) as rig:
        yield rig


def state(rig):
    return "/var/lib/farhand" if rig.uid == 0 else os.path.join(rig.env["XDG_STATE_HOME"], "farhand")


def both(rig, tree, profile=read_only):
    return Box(rig.client, profile(), tree.w), Box(rig.client, profile(*TO_HELPER), tree.w)


@pytest.mark.parametrize("profile", [read_only, workspace_write])
def test_no_helper_and_no_thread_is_needed(rig, profile):
    needs_quick_reads(TREES)
    tree = rig.tree()
    path = age(tree.file(f"{tree.w}/f", "content\n"))
    box, _ = both(rig, tree, profile)
    for _ in range(3):
        assert box.read(path) == b"content\n"

    def look(_):
        assert box.read(path) == b"content\n"

    assert needs_no_thread(rig.server, look)


def things(rig, tree):
    """Files of the tree, and paths that a view may hide. Some belong to other users and can be read only with capabilities."""
    tree.file(f"{tree.w}/small")
    tree.file(f"{tree.w}/.git/config")
    tree.file(f"{tree.w}/empty", "")
    tree.file(f"{tree.o}/outside")
    tree.file(f"{tree.o}/large", "x" * 200 * KIB)
    tree.file(f"{tree.o}/closed", "x", 0)
    tree.file(f"{tree.o}/shut/file")
    os.chmod(f"{tree.o}/shut", 0)
    tree.link(f"{tree.o}/link", "outside")
    tree.link(f"{tree.o}/way", tree.w)
    tree.link(f"{tree.o}/to-state", state(rig))
    os.mkfifo(f"{tree.o}/fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{tree.o}/socket")
    if os.geteuid() == 0:
        for name, mode in (("private", 0o600), ("group", 0o640), ("public", 0o644), ("odd", 0o004), ("writable", 0o222)):
            os.chown(tree.file(f"{tree.o}/others/{name}", mode=mode), 12345, 12345)
            os.chown(tree.file(f"{tree.o}/of-group/{name}", mode=mode), 12345, rig.uid)
        os.chown(tree.file(f"{tree.o}/kept/in"), 12345, 12345)
        os.chown(f"{tree.o}/kept", 12345, 12345)
        os.chmod(f"{tree.o}/kept", 0o700)
    found = [os.path.join(top, name) for top, directories, files in os.walk(tree.base) for name in directories + files]
    found += [f"{tree.o}/way/small", f"{tree.o}/shut/file", f"{tree.o}/kept/in", f"{tree.w}/nothing", f"{tree.w}/small/x"]
    found += [os.path.join(top, name) for top in (state(rig), f"{tree.o}/to-state") for name in os.listdir(state(rig))]
    found += ["/", "/etc/passwd", "/etc/shadow", "/etc/hostname", "/etc/mtab", "/bin/sh", "/dev/null", "/dev/shm", "/dev/fuse",
              SHARED, "/proc/self/status", "/proc/1/environ", "/proc/version", "/proc/sys/kernel/ostype",
              f"/proc/{rig.server.proc.pid}/environ", f"/proc/{rig.server.proc.pid}/root/etc/passwd", "/sys/kernel/notes",
              "/devices", "/process"]
    return found


@pytest.mark.parametrize("profile", [read_only, workspace_write])
def test_an_answer_is_that_of_a_helper(rig, profile):
    tree = rig.tree()
    with open(SHARED, "wb") as f, contextlib.ExitStack() as stack:
        stack.callback(os.unlink, SHARED)
        f.write(b"shared memory")
        f.flush()
        paths = things(rig, tree)
        for path in paths:
            with contextlib.suppress(OSError):
                if os.path.isfile(path) and path.startswith(tree.base):
                    age(path)
        quick, helper = both(rig, tree, profile)
        for more in ({}, {"followSymlinks": False}):
            for path in paths:
                answers = [box.ask("readFile", path=path, **more) for box in (quick, helper, quick, quick)]
                assert [answer for answer in answers if answer != answers[1]] == [], (path, more)


def test_the_state_directory_is_not_read(rig):
    """Also by a link, after it was moved and linked, and when the path was an ordinary file a moment ago."""
    needs_quick_reads(TREES)
    if rig.uid == 0:
        pytest.skip("that of root is not chosen by its environment")
    tree, there = rig.tree(), rig.tree()
    with rig.new_server(env={"XDG_STATE_HOME": tree.dir(f"{tree.o}/state"), "HOME": tree.base}) as server, \
         server.connect() as client:
        place = f"{tree.o}/state/farhand"
        secret = age(tree.file(f"{place}/secret", SECRET.decode()))
        open_file = age(tree.file(f"{tree.w}/f", "open\n"))
        box = Box(client, read_only(), tree.w)

        def look(*paths):
            for _ in range(3):
                assert box.read(open_file) == b"open\n"
                for path in paths:
                    assert is_error(box.read(path)), path

        look(secret)
        tree.link(f"{tree.o}/by", "state")
        look(secret, f"{tree.o}/by/farhand/secret")
        os.rename(f"{tree.o}/state", f"{there.o}")
        tree.link(f"{tree.o}/state", there.o)
        look(secret, f"{there.o}/farhand/secret")
        os.rename(f"{there.o}/farhand", f"{there.o}/moved")
        tree.link(f"{there.o}/farhand", "moved")
        look(secret, f"{there.o}/farhand/secret", f"{there.o}/moved/secret")
        os.unlink(f"{tree.o}/state")
        os.rename(there.o, f"{tree.o}/state")
        look(secret, f"{place}/secret", f"{tree.o}/state/moved/secret")
        assert SECRET not in box.all_told()


@pytest.mark.parametrize("spelled", ["rel/t", "/{}/rel//t/", "{}/x/../rel/t"])
def test_a_denied_tmpdir_is_not_read(rig, spelled):
    """For each spelling of the server's TMPDIR; a relative one is below the server's cwd."""
    needs_quick_reads(TREES)
    tree = rig.tree()
    secret = age(tree.file(f"{tree.w}/rel/t/secret", SECRET.decode()))
    open_file = age(tree.file(f"{tree.w}/f", "open\n"))
    with rig.new_server(env={"TMPDIR": spelled.format(tree.w)}, cwd=tree.w) as server, server.connect() as client:
        plain, box = Box(client, read_only(), tree.w), Box(client, read_only(special("tmpdir", "deny")), tree.w)
        for _ in range(3):
            assert plain.read(open_file) == box.read(open_file) == b"open\n"
            assert plain.read(secret) == SECRET, "so that the loop could read it"
            assert is_error(box.read(secret))


@pytest.mark.skipif(os.geteuid() != 0, reason="makes mounts")
def test_another_mount_of_the_state_directory_is_not_read():
    """A file beside the state directory is read first, so that the server knows the other mount."""
    needs_quick_reads(TREES)
    with rig_of("unprivileged", mount_namespace=True) as rig:
        tree, home = rig.tree(), rig.home.base
        age(tree.file(f"{state(rig)}/secret", SECRET.decode()))
        age(tree.file(f"{home}/open", "open\n"))
        second = tree.dir(f"{tree.o}/second")
        box = Box(rig.client, read_only(), tree.w)
        for _ in range(5):
            assert box.read(f"{home}/open") == b"open\n"
        subprocess.run(["nsenter", "-t", str(rig.server.proc.pid), "-m", "mount", "--bind", home, second], check=True,
                       timeout=20)
        hidden = os.path.relpath(f"{state(rig)}/secret", home)
        for _ in range(5):
            for top in (home, second):
                assert box.read(f"{top}/open") == b"open\n"
                assert is_error(box.read(f"{top}/{hidden}"))
        assert SECRET not in box.all_told()


def test_what_a_profile_denies_stays_denied(rig):
    """The same client reads under this profile between quick reads under another one."""
    tree = rig.tree()
    path = age(tree.file(f"{tree.w}/f", "open\n"))
    profiles = [read_only(at(path, "deny")), read_only(at(tree.w, "deny")), read_only(glob(f"{tree.base}/**/f")),
                workspace_write(at(path, "deny"))]
    everything = Box(rig.client, read_only(), tree.w)
    for _ in range(5):
        for profile in profiles:
            assert everything.read(path) == b"open\n"
            assert is_error(Box(rig.client, profile, tree.w).read(path)), profile
            narrow = {"type": "managed", "network": "restricted", "file_system": {
                "type": "restricted", "entries": [special("minimal", "read")]}}
            assert is_error(Box(rig.client, narrow, tree.w).read(path))


def cpu_seconds_of_loop(server):
    with open(f"/proc/{server.proc.pid}/task/{server.proc.pid}/stat", encoding="ascii") as f:
        return sum(map(int, f.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def test_a_profile_of_many_rules_is_left_to_a_thread(rig):
    """Each entry becomes a rule in each root; to evaluate that many rules takes too long for the loop."""
    needs_quick_reads(TREES)
    tree = rig.tree()
    path = age(tree.file(f"{tree.w}/f", "content\n"))
    roots = [f"/{'r' * 240}/{'s' * 240}/{'t' * 240}/{n}" for n in range(60)]
    entries = [special("project_roots", "read", subpath=f"{n}/{'u' * 100}") for n in range(60)]
    plain, box = Box(rig.client, read_only(), tree.w), Box(rig.client, read_only(*entries), tree.w, roots)
    for _ in range(3):
        assert plain.read(path) == b"content\n"
    used = []
    for _ in range(5):  # the processor's time is counted in ticks, and longer while other programs use its caches
        before = cpu_seconds_of_loop(rig.server)
        for _ in range(MANY_RULES):
            box.read(path)
        used.append(cpu_seconds_of_loop(rig.server) - before)
        if used[-1] < MANY_RULES * 0.005 * PATIENCE:
            break
    assert used[-1] < MANY_RULES * 0.005 * PATIENCE, used


def test_capabilities_are_there_afterwards(rig):
    """The loop drops its capabilities for a quick read, and needs all of them afterwards for writes and starts."""
    tree = rig.tree()
    path = age(tree.file(f"{tree.w}/f", noise(100).hex()))
    box, _ = both(rig, tree)

    def capabilities():
        with open(f"/proc/{rig.server.proc.pid}/task/{rig.server.proc.pid}/status", encoding="ascii") as f:
            return [line for line in f if line.startswith("Cap")]

    before = capabilities()
    for _ in range(50):
        assert box.read(path) == noise(100).hex().encode()
        assert is_error(box.read(f"{tree.w}/nothing"))
    assert capabilities() == before


@contextlib.contextmanager
def failing_capset(tmp, error, when):
    """A server of root that reads without an fs helper, while every capset(2) of `when` fails."""
    needs_quick_reads(TREES)
    reason = "needs root" if os.geteuid() != 0 else why_no_strace()
    if reason:
        pytest.skip(reason)
    with rig_of("root") as rig, rig.new_server() as server, server.connect() as client:
        tree = rig.tree()
        path = age(tree.file(f"{tree.w}/f", "content\n"))
        box = Box(client, read_only(), tree.w)
        for _ in range(3):
            assert box.read(path) == b"content\n"
        options = ["-e", "trace=capset", "-e", f"inject=capset:error={error}:when={when}"]
        with Tracer([server.pid], options, f"{tmp}/trace"):
            yield server, lambda: box.read(path)


def test_capabilities_are_taken_back_when_memory_was_short_for_a_moment(tmp):
    with failing_capset(tmp, "ENOMEM", "2+2") as (server, read):
        with open(f"/proc/{server.pid}/status", encoding="latin-1") as f:
            before = [line for line in f if line.startswith("Cap")]
        for _ in range(10):
            assert read() == b"content\n"
        with open(f"/proc/{server.pid}/status", encoding="latin-1") as f:
            assert [line for line in f if line.startswith("Cap")] == before


def test_a_server_without_its_capabilities_ends_with_one_line(tmp):
    """Without its capabilities the server would do every later request with too few rights."""
    with failing_capset(tmp, "EPERM", "2") as (server, read):
        # Strace took a while to come: a thread tries the mount again before the loop reads from it.
        deadline = time.monotonic() + QUICK_SECONDS
        with pytest.raises(Closed):
            while time.monotonic() < deadline:
                read()
        assert server.proc.wait(10 * PATIENCE) == 1
        assert server.stderr().count("fatal: cannot take the capabilities of the server back") == 1
