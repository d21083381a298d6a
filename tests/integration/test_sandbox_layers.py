"""Each layer of a sandbox alone: what holds when another one is switched off, or when there is a mistake in the mounts.

farhand-layers is the server with a seam for this (tests/layers/layers.c): it leaves out single defences, holds down the ABI
of Landlock, and can leak a directory of the machine into every view, where `..` leads.
"""

import contextlib
import os

import pytest

from sandbox_arena import SECRET
from sandbox_arena import program as program  # a fixture
from sandbox_rig import LAYERED, USERS, landlock_abi, rig_of
from test_sandbox_way_up import PROFILES, place_of

NARROW = [name for name in PROFILES if "secret" not in name]
NO_CHECK = {"FARHAND_LAYERS_OFF": "check"}
# The directory that is leaked; it contains the trees of the tests. The whole root cannot be leaked once a view has its mounts.
LEAKED = "/var"
LEAK = {"FARHAND_LAYERS_LEAK": LEAKED[1:]}
NO_LANDLOCK = {"FARHAND_LANDLOCK_ABI": "0"}


@contextlib.contextmanager
def layered(user, needs_landlock=False, **switches):
    if not os.access(LAYERED, os.X_OK):
        pytest.skip("farhand-layers was not built")
    if needs_landlock and landlock_abi() < 2:
        pytest.skip("no Landlock that is of use")
    # A fixed back end, so that no other is chosen when the self-test finds the mistake.
    with rig_of(user, executable=LAYERED, args=("--sandbox-backend", "namespaces"), env=switches) as rig:
        yield rig


@pytest.fixture(scope="module", params=USERS)
def leaking(request):
    """A server that leaks a directory into views, with the check of finished views switched off."""
    with layered(request.param, needs_landlock=True, **LEAK, **NO_CHECK) as rig:
        yield rig


@pytest.fixture(scope="module", params=USERS)
def leaking_bare(request):
    """As `leaking`, and without Landlock."""
    with layered(request.param, **LEAK, **NO_CHECK, **NO_LANDLOCK) as rig:
        yield rig


@pytest.fixture(scope="module", params=USERS)
def leaking_checked(request):
    with layered(request.param, **LEAK) as rig:
        yield rig


@pytest.fixture(scope="module", params=USERS)
def undetached(request):
    """A server that does not detach the machine's root from views, with the check of finished views switched off."""
    with layered(request.param, needs_landlock=True, FARHAND_LAYERS_OFF="detach,check") as rig:
        yield rig


@pytest.fixture(scope="module", params=USERS)
def undetached_checked(request):
    with layered(request.param, FARHAND_LAYERS_OFF="detach") as rig:
        yield rig


@pytest.fixture(scope="module", params=USERS)
def without_landlock(request):
    with layered(request.param, **NO_LANDLOCK) as rig:
        yield rig


@pytest.fixture(scope="module", params=USERS)
def lingering(request):
    """The machine's root stays for a while on a view that is complete."""
    with layered(request.param, FARHAND_LAYERS_LINGER="50") as rig:
        yield rig


def leaked(path):
    """The path by which a leaked file is reached through `/..`."""
    assert path.startswith(LEAKED + "/")
    return path[len(LEAKED):]


def test_the_leak_is_one(leaking_bare, program):
    """Without other defences the leaked directory can be read; otherwise the tests below would prove nothing."""
    place, profile = place_of(leaking_bare, program, "workspace")
    done = leaking_bare.run([program, "up", place.secret], profile, place.w)
    assert done.out.startswith(b"BROKE: / and /.. are not one mount"), done
    done = leaking_bare.sh('cat "/..$1"', profile, place.w, leaked(place.secret))
    assert done.out == SECRET.encode(), done


@pytest.mark.parametrize("name", PROFILES)
def test_a_leak_refuses_the_start(leaking_checked, program, name):
    place, profile = place_of(leaking_checked, program, name)
    for _ in range(2):
        done = leaking_checked.run([program, "up", place.secret], profile, place.w)
        assert done.refused is not None and done.refused.data["step"] == "check", done


@pytest.mark.parametrize("name", PROFILES)
def test_what_is_not_detached_refuses_the_start(undetached_checked, program, name):
    place, profile = place_of(undetached_checked, program, name)
    for _ in range(2):
        done = undetached_checked.run([program, "up", place.secret], profile, place.w)
        assert done.refused is not None and done.refused.data["step"] == "check", done


@pytest.mark.parametrize("name", NARROW)
def test_landlock_alone_keeps_secrets_of_a_root_that_is_not_detached(undetached, program, name):
    place, profile = place_of(undetached, program, name)
    for _ in range(2):
        done = undetached.sh('cat "/..$1"; cat "../../../../../../../../../..$1"; cat /../root/.profile /../etc/../var/log/dpkg.log',
                             profile, place.w, place.secret, shell="/usr/bin/sh")
        assert done.refused is None and done.out == b"" and b"ermission denied" in done.err, done


@pytest.mark.parametrize("name", NARROW)
def test_landlock_alone_keeps_secrets_behind_a_leak(leaking, program, name):
    place, profile = place_of(leaking, program, name)
    for _ in range(2):
        done = leaking.sh('cat "/..$1"; cd /.. && cat "./$1"; cat /proc/self/root/.."$1"; sh "/..$1"; exec 3<"/..$1" && cat <&3',
                          profile, place.w, leaked(place.secret), shell="/usr/bin/sh")
        assert done.refused is None and SECRET.encode() not in done.out, done
        assert b"ermission denied" in done.err, done


@pytest.mark.parametrize("name", PROFILES)
def test_landlock_alone_keeps_files_from_being_written_behind_a_leak(leaking, program, name):
    place, profile = place_of(leaking, program, name)
    made = os.path.join(os.path.dirname(place.secret), "made")
    done = leaking.sh('echo planted > "/..$1"; echo planted > "/..$2"; mkdir "/..$2.d"; mv "/..$1" "/..$2.m"; rm -f "/..$1"',
                      profile, place.w, leaked(place.secret), leaked(made), shell="/usr/bin/sh")
    assert done.refused is None, done
    assert os.listdir(os.path.dirname(place.secret)) == ["secret"], done
    with open(place.secret, encoding="utf-8") as f:
        assert f.read() == SECRET


@pytest.mark.parametrize("name", PROFILES)
def test_mounts_alone_end_the_way_up(without_landlock, program, name):
    place, profile = place_of(without_landlock, program, name)
    for _ in range(3):
        done = without_landlock.run([program, "up", place.secret], profile, place.w)
        assert done.out.startswith(b"held: "), done


def test_what_was_opened_for_a_command_can_be_opened_again(without_landlock, program):
    """/dev/stdin and its like, under Landlock and without: pipes and terminals."""
    place, profile = place_of(without_landlock, program, "workspace")
    for tty in (False, True):
        done = without_landlock.sh("echo out > /dev/stdout; echo err > /dev/stderr", profile, place.w, tty=tty)
        assert b"out" in done.out and b"err" in done.out + done.err, done


@pytest.mark.parametrize("name", ["workspace", "everything readable but the secret"])
def test_a_link_that_leads_up_is_no_working_directory_outside(lingering, program, name):
    """The process of a prebuilt sandbox prepares for its command while the machine's root still lies on the view."""
    place, profile = place_of(lingering, program, name)
    up = place.tree.link(place.w + "/up", "../" * 20)
    for start in range(5):
        done = lingering.sh('stat -c %d:%i . /; cat ".$1"', profile, up, place.secret, box_cwd=place.w, roots=[place.w])
        here, root, *secret = done.out.splitlines()
        assert here == root and not secret, f"start {start + 1}: {done}"
