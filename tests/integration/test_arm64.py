"""The static program for 64-bit ARM machines, under qemu-user: it starts, works with files, and says in words what the emulator lacks.

qemu-user is no kernel: it refuses calls that sandboxes and, in Debian 12, starts of commands need. What is tried here is that the
cross-built program is whole, and that it fails closed.
"""

import os
import shutil
import subprocess

import pytest

from farhand_client import BIN, PATIENCE, REPO, merged_env

SECONDS = 60 * PATIENCE
PROGRAM = os.path.join(REPO, "build", "static-arm64", "farhand")
UNITS = os.path.join(REPO, "build", "arm64")
QEMU = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
# The directories of src whose unit tests need no call of the kernel that qemu-user does not know.
PURE = ["base", "wire", "env", "client", "policy", "proto", "plan", "denial", "codex", "loop", "agent", "approve", "cli", "cmd", "core",
        "door", "reach", "rules", "server", "session", "unified", "watch", "conn", "hunk", "patch", "question", "spawner", "transport"]


def why_not(path):
    if not os.path.exists(path):
        return f"{os.path.relpath(path, REPO)} is not there: make test-arm64"
    return None if QEMU else "qemu-aarch64 is not there: apt-get install qemu-user"


def need(path):
    reason = why_not(path)
    if reason and os.environ.get("FARHAND_ARM64") == "required":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@pytest.fixture
def arm(tmp_path):
    """`farhand` here, with the ARM program as its server."""
    need(PROGRAM)
    (tmp_path / "environments.toml").write_text(
        f'default = "arm"\n[[environments]]\nid = "arm"\nprogram = "{QEMU}"\nargs = ["{PROGRAM}", "serve", "--listen", "stdio"]\n')
    env = merged_env({"FARHAND_HOME": str(tmp_path), "CODEX_HOME": str(tmp_path), "FARHAND_URL": None, "CODEX_EXEC_SERVER_URL": None,
                      "XDG_RUNTIME_DIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)})

    def run(*args, program=(BIN,), stdin=b""):
        return subprocess.run([*program, *args], env=env, input=stdin, capture_output=True, timeout=SECONDS, check=False)

    return run


def test_it_is_an_arm_program_that_needs_no_library(arm):
    with open(PROGRAM, "rb") as f:
        head = f.read(1 << 16)
    assert head[:5] == b"\x7fELF\x02" and head[18:20] == b"\xb7\x00" and b"/ld-linux" not in head
    here = subprocess.run([BIN, "--version"], capture_output=True, check=True).stdout
    assert arm("--version", program=(QEMU, PROGRAM)).stdout == here


def test_a_start(arm):
    done = arm("run", "--", "sh", "-c", "printf out; printf err >&2; exit 7")
    if done.returncode == 7:
        assert (done.stdout, done.stderr) == (b"out", b"err")
    else:  # this qemu does not know a call that the spawner needs
        assert done.returncode == 255 and b"no command can be started" in done.stderr


def test_a_file(arm, tmp_path):
    data = os.urandom(300_001)
    assert arm("fs", "put", "-", str(tmp_path / "file"), stdin=data).returncode == 0
    assert (tmp_path / "file").read_bytes() == data
    assert arm("fs", "cat", str(tmp_path / "file")).stdout == data


def test_a_sandbox_that_cannot_be_is_refused(arm, tmp_path):
    done = arm("sandbox", "--", "touch", str(tmp_path / "no"), program=(QEMU, PROGRAM))
    assert done.returncode == 125 and b"cannot be enforced" in done.stderr and b"remedy: " in done.stderr
    done = arm("run", "--read-only", "--", "touch", str(tmp_path / "no"))
    assert done.returncode == 255 and b"farhand: " in done.stderr
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("room", PURE)
def test_unit_tests(room):
    need(f"{UNITS}/unit-{room}")
    # A process that ends itself by abort() with a closed stderr hangs in this emulator.
    done = subprocess.run([QEMU, f"{UNITS}/unit-{room}"], capture_output=True, timeout=300 * PATIENCE, check=False,
                          env={**os.environ, "UNIT_SKIP": "*_abort*"})
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
