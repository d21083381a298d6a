"""`farhand doctor` on the real binary: as text and as JSON, where sandboxes work and where they do not."""

import json
import os
import time

import pytest

from cmd_rig import BIN, INSIDE, USERS, Cmd, cmd_of
from sandbox_rig import differences, snapshot

NAMES = ["kernel", "openat2", "mount_setattr", "clone3", "user namespace", "mount namespace", "pid namespace",
         "network namespace", "ipc namespace", "new /proc", "read-only root", "seccomp", "Landlock", "back end namespaces",
         "back end bubblewrap", "back end landlock", "user", "cgroup", "terminals", "inotify", "farhand-net", "state directory", "sandbox"]

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
    """In a sandbox of ours there are none."""
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


def test_it_changes_nothing_and_is_quick(cmd):
    before = snapshot(cmd.base)
    start = time.monotonic()
    doctor(cmd)
    assert time.monotonic() - start < 60
    assert not differences(before, snapshot(cmd.base))


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
