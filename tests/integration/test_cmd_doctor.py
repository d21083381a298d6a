"""`farhand doctor` on the real binary: as text and as JSON, where sandboxes work and where they do not."""

import json
import os
import subprocess
import time

import pytest

from cmd_rig import BIN, INSIDE, SECONDS, USERS, Cmd, cmd_of
from farhand_client import merged_env
from sandbox_rig import differences, snapshot

NAMES = ["kernel", "openat2", "mount_setattr", "clone3", "user namespace", "mount namespace", "pid namespace",
         "network namespace", "ipc namespace", "new /proc", "read-only root", "seccomp", "Landlock", "interception", "back end namespaces",
         "back end bubblewrap", "back end landlock", "user", "cgroup", "terminals", "inotify", "inotify limits", "farhand-net", "farhand-egress", "state directory", "sandbox"]

NAMESPACES = ["--sandbox-backend", "namespaces"]


@pytest.fixture(params=USERS)
def cmd(request):
    with cmd_of(request.param) as c:
        yield c


def doctor(cmd, program=(BIN,), env=None, args=()):
    code, out, err = cmd.run([*program, "doctor", "--json", *args], env=env)
    assert err == b"" and out.count(b"\n") == 1
    report = json.loads(out)
    assert [f["name"] for f in report["findings"]] == NAMES
    assert report["canEnforce"] == (code == 0) and code in (0, 1)
    return report["canEnforce"], {f["name"]: f for f in report["findings"]}


def test_where_sandboxes_work_it_says_so(cmd):
    can_enforce, found = doctor(cmd)
    assert can_enforce
    assert not [f for f in found.values() if f["status"] == "fail"]
    assert found["kernel"]["text"].startswith("Linux " + os.uname().release)
    assert found["sandbox"] == {"name": "sandbox", "status": "ok", "text": "a command ran read-only, without network"}
    assert found["user"]["status"] == ("warn" if cmd.uid == 0 else "ok")
    assert cmd.run([BIN, "doctor"])[1].endswith(b"\nSandboxes can be enforced here.\n")


def test_every_finding_that_is_not_ok_comes_with_a_remedy(cmd):
    for _, found in (doctor(cmd), doctor(cmd, INSIDE)):
        for f in found.values():
            assert f["status"] in ("ok", "warn", "fail") and f["text"]
            if f["status"] != "ok" and not f["text"].startswith("not tried"):
                assert f["remedy"], f


def test_where_namespaces_are_forbidden_it_says_which_and_why(cmd):
    """`farhand doctor` runs in a sandbox of Farhand, in which namespaces are forbidden."""
    can_enforce, found = doctor(cmd, INSIDE, args=NAMESPACES)
    assert not can_enforce
    assert found["user namespace"]["status"] == "fail" and found["user namespace"]["errno"] == "EPERM"
    assert found["sandbox"]["status"] == "fail" and "namespaces" in found["sandbox"]["text"]
    assert found["seccomp"]["status"] == found["openat2"]["status"] == found["terminals"]["status"] == "ok"
    code, out, _ = cmd.run([*INSIDE, "doctor", *NAMESPACES])
    assert code == 1 and b"Sandboxes cannot be enforced here" in out and b"remedy: " in out


def test_what_is_wanting_beside_the_sandbox_is_a_warning():
    with cmd_of("unprivileged") as cmd:
        can_enforce, found = doctor(cmd, env={"XDG_STATE_HOME": "/proc/no", "HOME": "/proc/no"})
        assert can_enforce
        assert found["state directory"]["status"] == "warn" and "/proc/no/farhand" in found["state directory"]["text"]
        state = os.path.join(cmd.base, "home", "state")
        assert doctor(cmd, env={"XDG_STATE_HOME": state})[1]["state directory"]["status"] == "ok"
        made = os.path.join(cmd.base, "shared", "farhand")
        os.makedirs(made)
        os.chmod(made, 0o777)  # the server would not use it
        found = doctor(cmd, env={"XDG_STATE_HOME": os.path.dirname(made)})[1]["state directory"]
        assert found["status"] == "warn" and made in found["text"] and "others" in found["text"], found


def test_it_changes_nothing_and_is_quick(cmd):
    before = snapshot(cmd.base)
    start = time.monotonic()
    doctor(cmd)
    assert time.monotonic() - start < 60
    assert not differences(before, snapshot(cmd.base))


# Machines that lack something. Each is made in a mount namespace of its own, by root; doctor then runs as the user of `cmd`.

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for mounts")
SYSTEM = "usr lib lib64 bin etc"


def elsewhere(cmd, shell, program, *args):
    """Runs `shell` in a mount namespace of its own, and then `program` with the arguments as the user. Returns as Cmd.run."""
    uid = str(cmd.uid)
    become = f"setpriv --reuid={uid} --regid={uid} --clear-groups"
    script = f"set -e; become='{become}'; mount --make-rprivate /; T={cmd.base}\n{shell}"
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, program, program, *args], env=merged_env(cmd.env), cwd="/",
                          capture_output=True, timeout=SECONDS, check=False)
    return done.returncode, done.stdout, done.stderr


@needs_root
def test_it_needs_no_program_of_the_machine(cmd):
    """All programs are hidden, but for a copy of the one that changes the user."""
    code, out, err = elsewhere(cmd, """
        mkdir $T/empty; mount -t tmpfs none $T/empty; chmod 755 $T/empty
        cp /usr/bin/setpriv $T/; chmod 755 $T/setpriv; become="$T/${become}"
        mount --bind $T/empty /usr/bin; [ -L /bin ] || mount --bind $T/empty /bin
        exec $become "$@" """, BIN, "doctor", "--json")
    report = json.loads(out)
    assert code == 0 and report["canEnforce"], (report["findings"][-1], err)


CHROOT = """
    mount -t tmpfs none $T/home; chmod 755 $T/home; mkdir -p $T/home/{root} $T/home/{root}/proc $T/home/{root}/dev
    R=$T/home/{root}
    for d in """ + SYSTEM + """; do [ -e /$d ] || continue; mkdir $R/$d; mount --rbind /$d $R/$d; done
    mount --rbind /dev $R/dev; mount --rbind /proc $R/proc
    mkdir $R/prog; mount --bind $(dirname "$1") $R/prog
    shift
    exec /usr/sbin/chroot $R $become /prog/farhand "$@" """


@needs_root
def test_a_chroot_is_named_as_the_cause(cmd):
    """Where the root is a mount, a chroot cannot be recognized: then it is named as one of several causes."""
    for root, words in (("sub", "the server runs in a chroot"), (".", "chroot")):
        code, out, err = elsewhere(cmd, CHROOT.replace("{root}", root), BIN, "doctor", "--json", "--sandbox-backend", "namespaces")
        assert code == 1 and out, err
        found = {f["name"]: f for f in json.loads(out)["findings"]}
        assert found["user namespace"]["errno"] == "EPERM", (found["user namespace"], err)
        assert words in found["user namespace"]["remedy"] and words in found["sandbox"]["remedy"], found


NO_NULL = """
    mount -t tmpfs none $T/home; chmod 755 $T/home; mkdir $T/home/dev; mount --bind $T/home/dev /dev
    exec $become "$@" """


@needs_root
@pytest.mark.parametrize("closed", ["", "<&-"])
@pytest.mark.parametrize("args", [["serve"], ["sandbox", "--", "true"], ["doctor"]], ids=lambda args: args[0])
def test_without_dev_null_there_is_a_message(cmd, args, closed):
    code, out, err = elsewhere(cmd, NO_NULL + closed, BIN, *args)
    assert code == (125 if args[0] == "sandbox" and not closed else 1), (code, out, err)
    assert b"/dev/null" in out + err and b"No such file or directory" in out + err, (out, err)


@needs_root
def test_the_remedy_for_cgroups_is_one_for_every_systemd(cmd):
    """DelegateSubgroup= came with systemd 254; Debian 12 has 252."""
    code, out, _ = elsewhere(cmd, """
        mkdir $T/empty; mount --bind $T/empty /sys/fs/cgroup
        exec $become "$@" """, BIN, "doctor", "--json")
    found = {f["name"]: f for f in json.loads(out)["findings"]}["cgroup"]
    assert found["status"] == "warn"
    for words in ("Delegate=yes", "systemd 254", "DelegateSubgroup=", "cgroup.procs"):
        assert words in found["remedy"], found


def test_wrong_command_lines():
    cmd = Cmd("root" if os.geteuid() == 0 else "unprivileged")
    try:
        assert cmd.run([BIN, "doctor", "--nonsense"])[0] == 2
        assert cmd.run([BIN, "doctor", "operand"])[0] == 2
        assert cmd.run([BIN, "doctor", "--sandbox-backend", "bwrap"])[0] == 2
        code, out, _ = cmd.run([BIN, "doctor", "--help"])
        assert code == 0 and b"--json" in out
        code, out, _ = cmd.run([BIN, "--help"])
        assert code == 0 and b"  sandbox " in out and b"  doctor " in out
    finally:
        cmd.close()
