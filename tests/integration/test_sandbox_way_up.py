"""The way up out of a sandbox: `..` from wherever a command is leads to its own root, and the host is not behind it.

Each profile is tried several times with one server: the first command's sandbox is built for it, those of later ones were
prebuilt. The same through `farhand sandbox` and through file requests.
"""

import json
import os
import subprocess

import pytest

from farhand_client import BIN, wait_until
from sandbox_arena import SECRET
from sandbox_arena import program as program  # a fixture
from sandbox_rig import ENV, MINIMAL, USERS, WORKSPACE, Box, at, become, glob, narrow, read_only, restricted, rig_of, special, workspace_write

NAMES = (".git", ".agents", ".codex", ".aws")
STARTS = 3


class Place:
    """A workspace, and beside it a file that no profile here lets a command read."""

    def __init__(self, rig, program, present=()):
        self.rig, self.tree = rig, rig.tree()
        self.w = self.tree.dir(self.tree.w)
        self.secret = self.tree.file(os.path.join(self.tree.base, "outside", "secret"), SECRET)
        self.tree.file(self.w + "/sub/deep/a.txt")
        self.tree.file(self.w + "/hidden/key", SECRET)
        for name in present:
            self.tree.file(os.path.join(self.w, name, "config"))
        self.program = at(os.path.dirname(program), "read")


PROFILES = {
    "workspace": ((), lambda p: narrow(WORKSPACE, p.program)),
    "workspace, all names there": (NAMES, lambda p: narrow(WORKSPACE, p.program)),
    "workspace, .git there": ((".git",), lambda p: narrow(WORKSPACE, p.program)),
    "workspace, network open": ((), lambda p: narrow(WORKSPACE, p.program, network="enabled")),
    "read-only": ((), lambda p: narrow(at(p.w, "read"), p.program)),
    "read-only, nothing hidden": (NAMES, lambda p: narrow(at(p.w, "read"), p.program)),
    "one file": ((), lambda p: narrow(at(p.w + "/sub/deep/a.txt", "read"), p.program)),
    "one writable file": ((), lambda p: narrow(at(p.w + "/sub/deep/a.txt", "write"), p.program)),
    "denied inside": ((), lambda p: narrow(WORKSPACE, at(p.w + "/hidden", "deny"), p.program)),
    "denied, open below": ((), lambda p: narrow(WORKSPACE, at(p.w + "/sub", "deny"), at(p.w + "/sub/deep", "read"), p.program)),
    "denied by a pattern": ((), lambda p: narrow(WORKSPACE, glob("**/key"), p.program)),
    "temporary directories": ((), lambda p: narrow(WORKSPACE, special("slash_tmp", "write"), p.program)),
    "no system": ((), lambda p: restricted(at("/usr", "read"), at("/lib", "read"), at("/lib64", "read"), WORKSPACE, p.program)),
    "everything readable but the secret": ((), lambda p: workspace_write(at(os.path.dirname(p.secret), "deny"))),
    "nothing writable, the secret denied": ((), lambda p: read_only(at(os.path.dirname(p.secret), "deny"))),
}


@pytest.fixture(scope="module", params=USERS)
def rig(request):
    with rig_of(request.param) as r:
        yield r


def place_of(rig, program, name):
    present, profile = PROFILES[name]
    place = Place(rig, program, present)
    return place, profile(place)


def check(done, what):
    assert done.refused is None and done.out.startswith(b"held: "), f"{what}: {done}"
    assert SECRET.encode() not in done.out + done.err, f"{what}: {done}"


def test_the_program_finds_a_way_up(rig, program):
    """Without a sandbox the program reaches the file; otherwise the tests below would prove nothing."""
    place, _ = place_of(rig, program, "workspace")
    done = rig.run([program, "up", place.secret], {"type": "disabled"}, place.w)
    assert done.out.startswith(b"BROKE"), done


@pytest.mark.parametrize("name", PROFILES)
def test_the_way_up_ends_in_the_root(rig, program, name):
    place, profile = place_of(rig, program, name)
    for start in range(STARTS):
        check(rig.run([program, "up", place.secret], profile, place.w), f"start {start + 1}")


@pytest.mark.parametrize("name", ["workspace", "read-only"])
def test_the_way_up_of_a_shell(rig, program, name):
    place, profile = place_of(rig, program, name)
    for _ in range(STARTS):
        done = rig.sh('test "$(stat -c %d:%i /)" = "$(stat -c %d:%i /..)" && echo one; cat "/..$1" "../../../../../../../..$1"',
                      profile, place.w, place.secret)
        assert done.out == b"one\n", done


@pytest.mark.parametrize("name", ["workspace", "everything readable but the secret"])
def test_seen_from_outside_a_command_is_where_it_is(rig, program, name):
    """ps, lsof and the server itself see the command's directories under their paths on the machine."""
    place, profile = place_of(rig, program, name)
    for _ in range(2):
        process = rig.start(["/usr/bin/sleep", "300.125"], profile, place.w)
        # The start is answered when execve has closed the old program's descriptors; /proc shows the new arguments a moment later.
        found = wait_until(lambda: [pid for pid in os.listdir("/proc") if pid.isdigit() and
                                    cmdline(pid) == b"/usr/bin/sleep\x00300.125\x00"], 10, "the command")
        paths = {os.readlink(f"/proc/{pid}/{what}") for pid in found for what in ("cwd", "exe")}
        rig.client.call("process/terminate", {"processId": process})
        rig.client.wait_exit(process)
        assert paths == {place.w, os.path.realpath("/usr/bin/sleep")}, found


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read()
    except OSError:
        return b""


@pytest.mark.parametrize("name", PROFILES)
def test_the_way_up_on_the_command_line(rig, program, name):
    place, profile = place_of(rig, program, name)
    path = place.tree.file(os.path.join(place.tree.base, "profile.json"), json.dumps(profile).replace("file://", ""))
    done = subprocess.run([BIN, "sandbox", "--profile", path, "--", program, "up", place.secret], cwd=place.w,
                          env={**ENV, **rig.env, "TMPDIR": "/tmp"}, preexec_fn=become(rig.uid), capture_output=True,
                          timeout=30, check=False)
    assert done.stdout.startswith(b"held: "), done


@pytest.mark.parametrize("name", [n for n in PROFILES if "secret" not in n])
def test_the_way_up_of_file_requests(rig, program, name):
    place, profile = place_of(rig, program, name)
    box = Box(rig.client, profile, place.w)
    for top in ("/..", "/../..", place.w + "/../../../../../../..", "/proc/self/root/..", "/proc/self/cwd/..",
                "/proc/1/root/..", "/dev/fd/../..", "/tmp/.."):
        answer = box.ask("readFile", native=True, path=top + place.secret)
        assert isinstance(answer, tuple), (top, answer)
    assert SECRET.encode() not in box.all_told()
