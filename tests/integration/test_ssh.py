"""ssh://: a machine that ssh reaches is an environment, with nothing installed there; what it lacks is told in words."""

import os
import shutil
import signal
import subprocess
import types

import pytest

from cmd_rig import Terminal
from farhand_client import BIN, IS_VALGRIND, wait_until
from sshd_rig import IS_ROOT, SECONDS, VERSION, compile_shim, far_machine, free_port, why_not, write

with open(BIN, "rb") as program:
    IS_STATIC = b"/ld-linux" not in program.read(1 << 16)
REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("shim") / "farhand")
    compile_shim(path)
    return path


@pytest.fixture
def far(shim):
    with far_machine(shim) as machine:
        yield machine


def says(done, *words):
    """It failed, said these words in one line of its own, and nothing that a terminal would obey."""
    assert done.returncode == 255, done
    lines = [line for line in done.stderr.decode().splitlines() if line.startswith("farhand: ")]
    assert len(lines) == 1 and b"\x1b" not in done.stderr, done.stderr
    for word in words:
        assert word in lines[0], lines[0]


def is_there(far, **kw):
    done = far("run", "--", "sh", "-c", "printf out; printf err >&2; exit 7", **kw)
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out", b"err")


def tree(far):
    found = []
    for where, _, names in os.walk(f"{far.home}/.cache"):
        found += [os.path.relpath(os.path.join(where, name), far.home) for name in names]
    return sorted(found)


# --- what is there, and what is put there


def test_nothing_installed(far):
    is_there(far)
    assert tree(far) == [f".cache/farhand/{VERSION}/farhand"]
    first = os.stat(far.cached())
    assert first.st_mode & 0o777 == 0o700 and os.stat(os.path.dirname(far.cached())).st_mode & 0o777 == 0o700
    with open(far.cached(), "rb") as there, open(far.static, "rb") as here:
        assert there.read() == here.read()
    os.unlink(far.static)  # from now on there is nothing to send
    is_there(far)
    assert os.stat(far.cached()).st_ino == first.st_ino


def test_the_same_version_in_path_is_used(far):
    write(f"{far.bin}/farhand", f'#!/bin/sh\nexec {BIN} "$@"\n', 0o755)
    is_there(far)
    assert tree(far) == []


def test_an_old_version_is_replaced_and_one_in_path_is_left_alone(far):
    old = "#!/bin/sh\necho farhand 0.0.9\n"
    write(f"{far.bin}/farhand", old, 0o755)
    write(far.cached("0.0.9"), old, 0o755)
    write(f"{os.path.dirname(far.cached('0.0.9'))}/.new.abcdef", "half of it")
    write(f"{far.home}/.cache/farhand/0.0.8/notes", "of somebody else")
    write(far.cached(), old, 0o755)  # the right place, the wrong program
    is_there(far)
    assert tree(far) == [".cache/farhand/0.0.8/notes", f".cache/farhand/{VERSION}/farhand"]
    assert os.path.exists(f"{far.bin}/farhand")


def test_the_cache_directory_of_the_user(shim, tmp_path):
    cache = str(tmp_path / "cache")
    with far_machine(shim, shell=f"env XDG_CACHE_HOME={cache} sh") as far:
        is_there(far)
        assert tree(far) == [] and os.listdir(f"{cache}/farhand") == [VERSION]
    with far_machine(shim, shell="env XDG_CACHE_HOME=relative sh") as far:
        is_there(far)
        assert os.path.exists(far.cached())


@pytest.mark.skipif(IS_VALGRIND, reason="the program is a script")
def test_what_is_sent_is_found_where_it_is_installed(far):
    prefix = f"{far.base}/usr"
    os.makedirs(f"{prefix}/bin")
    os.makedirs(f"{prefix}/libexec/farhand/static")
    shutil.copy(BIN, f"{prefix}/bin/farhand")
    env = {k: v for k, v in far.env.items() if k != "FARHAND_STATIC_DIR"}
    ask = [f"{prefix}/bin/farhand", "run", "--url", "ssh://far", "--", "echo", "here"]
    if not IS_STATIC:
        done = subprocess.run(ask, env=env, capture_output=True, timeout=SECONDS, check=False)
        says(done, "no static one", f"{prefix}/bin/../libexec/farhand/static/farhand-")
    shutil.move(far.static, f"{prefix}/libexec/farhand/static/")
    assert subprocess.run(ask, env=env, capture_output=True, timeout=SECONDS, check=False).stdout == b"here\n"


def test_two_at_once(far):
    both = [subprocess.Popen(far.argv("run", "--", "echo", "here"), env=far.env, stdout=subprocess.PIPE) for _ in range(2)]
    for one in both:
        assert one.communicate(timeout=SECONDS)[0] == b"here\n" and one.returncode == 0
    assert tree(far) == [f".cache/farhand/{VERSION}/farhand"]


# --- what the far machine lacks


@pytest.mark.parametrize("machine, system, words", [
    ("riscv64", "Linux", ["riscv64", "install it there"]),
    ("aarch64", "Linux", ["no static one for aarch64", "make static-arm64", "farhand-aarch64"]),
    ("x86_64", "FreeBSD", ["FreeBSD", "Linux only"]),
    ("\\033[2Jx", "Linux", ["\\x1b[2Jx"]),
])
def test_wrong_architecture(far, machine, system, words):
    write(f"{far.bin}/uname", f'#!/bin/sh\n[ "$1" = -s ] && echo {system} || printf "{machine}\\n"\n', 0o755)
    if machine == os.uname().machine == "aarch64":
        pytest.skip("this is such a machine")
    says(far("run", "--", "true"), "far: ", *words)
    assert tree(far) == []


def test_a_program_for_another_architecture_is_not_sent(far):
    with open(far.static, "r+b") as f:
        f.seek(18)  # e_machine
        f.write(b"\x28\x00")
    says(far("run", "--", "true"), "no static one for")
    if not IS_STATIC:
        shutil.copy(BIN, far.static)
        says(far("run", "--", "true"), "no static one for")


@pytest.mark.skipif(not IS_ROOT, reason="only root can mount a file system for it")
@pytest.mark.parametrize("home, words", [
    ("size=64k", ["could not be put", "No space left on device"]),
    ("size=16m,noexec", ["cannot be run", "noexec", "Permission denied"]),
    ("size=16m,ro", ["could not be put", "Read-only file system"]),
])
def test_a_home_directory_that_cannot_be_used(shim, home, words):
    with far_machine(shim, home=home) as far:
        says(far("run", "--", "true"), "far: ", *words)
        view = f"/proc/{far.sshd.pid}/root{far.home}/.cache/farhand/{VERSION}"
        assert not os.path.exists(view) or os.listdir(view) == []


@pytest.mark.skipif(not IS_ROOT, reason="only root can give a file to another user")
@pytest.mark.parametrize("what", ["directory", "program"])
def test_what_another_user_has_put_there_is_not_run(far, what):
    planted = write(far.cached(), f"#!/bin/sh\n>{far.base}/was-run\necho farhand {VERSION}\n", 0o755)
    os.chmod(os.path.dirname(planted), 0o777)
    os.chown(os.path.dirname(planted) if what == "directory" else planted, 12345, 12345)
    if what == "directory":
        says(far("run", "--", "true"), "far: ", "could not be put", "belongs to another user")
    else:
        is_there(far)  # another one has taken its place
    assert not os.path.exists(f"{far.base}/was-run")


def test_a_digest_that_differs(far):
    write(f"{far.bin}/sha256sum", "#!/bin/sh\necho 0123 -\n", 0o755)
    says(far("run", "--", "true"), "its digest differs")
    assert tree(far) == []


def test_a_program_of_another_version_is_not_put_in_place(far):
    compile_shim(far.static, "0.0.1")
    says(far("run", "--", "true"), "farhand 0.0.1", f"and not farhand {VERSION}")
    assert tree(far) == []


def test_ssh_fails(far):
    done = far("run", "--", "true", url=f"ssh://127.0.0.1:{free_port()}")
    says(done, "ssh did not reach 127.0.0.1")
    assert b"Connection refused" in done.stderr  # ssh's own words
    far.configure(key="locked")
    shutil.copy(f"{far.base}/user.pub", f"{far.base}/authorized")
    done = far("run", "--", "true")
    says(done, "ssh did not reach far")
    assert b"Permission denied" in done.stderr


def test_there_is_no_ssh(far):
    done = subprocess.run(far.argv("run", "--", "true"), env={**far.env, "PATH": far.bin}, capture_output=True, timeout=SECONDS,
                          check=False)
    says(done, "ssh:// needs the program `ssh`")


@pytest.mark.parametrize("url", ["ssh://-oProxyCommand=id", "ssh://-l@far", "ssh://far/tmp", "ssh://a b@far", "ssh://far;id"])
def test_a_url_that_is_none(far, url):
    done = far("run", "--", "true", url=url)
    assert done.returncode == 255 and b"is invalid" in done.stderr


# --- login shells


def test_noise_of_login_scripts_is_skipped(far):
    write(f"{far.home}/.bashrc", 'printf "\\033[31mwelcome\\nfarhand-ssh\\nno end of line"\n')
    is_there(far)
    is_there(far)


def test_too_much_noise(shim):
    with far_machine(shim, shell="yes; sh") as far:
        says(far("run", "--", "true"), "more than 65536 bytes")


def test_a_machine_that_asks_for_a_program_and_does_not_wait_for_it(far):
    """What lies there says both in one write; whatever becomes of the connection, the client lives."""
    words = f"farhand-ssh need {os.uname().machine} Linux\\nfarhand-ssh ready\\n"
    write(f"{far.near}/bin/ssh", f"#!/bin/sh\nprintf '{words}'\nhead -c 1 >/dev/null\n", 0o755)
    for argv in (["run", "--url", "ssh://far", "--", "true"], ["connect", "ssh://far", "--", "true"]):
        done = subprocess.run([BIN, *argv], env=far.env, capture_output=True, timeout=SECONDS, check=False)
        assert done.returncode == 255 and b"farhand: " in done.stderr, done


@pytest.mark.parametrize("shell", ["dash", "bash", "zsh", "fish", "tcsh", "busybox sh"])
def test_login_shells(shim, shell):
    if not shutil.which(shell.split()[0]):
        pytest.skip(f"{shell} is not installed")
    with far_machine(shim, shell=shell) as far:
        is_there(far)
        assert os.path.exists(far.cached())
        is_there(far)


# --- the link


def test_much_and_bytes(far):
    data = os.urandom(3_000_001)
    done = far("run", "--", "cat", stdin=data)
    assert done.returncode == 0 and done.stdout == data and done.stderr == b""


def test_a_link_that_is_cut_again_and_again_loses_nothing(far):
    ask = "i=0; while read -r word; do i=$((i+1)); echo $i $word; done; echo end; exit 3"
    with subprocess.Popen(far.argv("run", "--", "sh", "-c", ask), env=far.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as proc:
        for i in range(1, 7):
            proc.stdin.write(b"word\n")
            proc.stdin.flush()
            assert proc.stdout.readline() == b"%d word\n" % i
            if i % 2:
                far.cut()
        out, err = proc.communicate(timeout=SECONDS)
        assert (proc.returncode, out) == (3, b"end\n")
        assert err.count(b"trying to resume") == 3 and err.count(b"farhand: resumed") == 3


def test_a_link_that_is_cut_while_output_flows(far):
    with subprocess.Popen(far.argv("run", "-n", "--", "seq", "1", "80000"), env=far.env, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as proc:
        begun = proc.stdout.readline()
        far.cut()
        out = proc.stdout.read()
        assert proc.wait(SECONDS) == 0
        assert begun + out == b"".join(b"%d\n" % i for i in range(1, 80001))


def test_work_outlives_the_link(far):
    flag = f"{far.base}/go"
    done = far("run", "--detach", "--", "sh", "-c", f"echo begun; until [ -e {flag} ]; do sleep 0.05; done; echo done")
    assert done.returncode == 0, done.stderr
    name = done.stdout.decode().strip()
    wait_until(lambda: not far.connections(), SECONDS)
    assert name.split("-")[0] in far("ps").stdout.decode()
    assert far("logs", name).stdout == b"begun\n"
    write(flag, "")
    done = far("attach", name)
    assert done.returncode == 0 and done.stdout.endswith(b"done\n")
    name = far("run", "--detach", "--", "sleep", "1000").stdout.decode().strip()
    assert far("kill", name).returncode == 0


def test_files(far):
    done = subprocess.run([BIN, "fs", "put", "--url", "ssh://far", "-", f"{far.home}/file"], input=b"content", env=far.env,
                          capture_output=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    with open(f"{far.home}/file", "rb") as f:
        assert f.read() == b"content"


def test_environments(far):
    write(f"{far.near}/environments.toml", '[[environments]]\nid = "box"\nurl = "ssh://far"\n')
    for name in ("box", "ssh://far", f"ssh://{os.environ.get('USER') or 'root'}@127.0.0.1:{far.port}"):
        done = subprocess.run([BIN, "run", "--env", name, "--", "echo", "here"], env=far.env, capture_output=True, timeout=SECONDS,
                              check=False)
        assert (done.returncode, done.stdout) == (0, b"here\n"), done.stderr
    write(f"{far.near}/environments.toml", f'[[environments]]\nid = "box"\nurl = "ssh://far"\ntoken_file = "{far.base}/t"\n')
    write(f"{far.base}/t", "secret\n")
    done = subprocess.run([BIN, "run", "--env", "box", "--", "true"], env=far.env, capture_output=True, timeout=SECONDS, check=False)
    says(done, "needs no token")


# --- the terminal


def terminal(far, *args):
    user = types.SimpleNamespace(uid=os.geteuid(), env=far.env, tree=types.SimpleNamespace(w=far.near))
    return Terminal(user, *args, program=(BIN,))


def test_a_passphrase_is_asked_for_on_the_terminal_once(far):
    far.configure(key="locked")
    with terminal(far, "run", "--url", "ssh://far", "--", "echo", "in") as t:
        t.expect(b"Enter passphrase for key")
        t.type(far.passphrase.encode() + b"\n")
        assert t.wait() == 0
        assert t.seen.endswith(b"in\r\n") and t.seen.count(b"passphrase") == 1 and far.passphrase.encode() not in t.seen
    assert os.path.exists(far.cached())  # the program was sent over the connection for which the passphrase was typed


def test_an_interrupt_while_a_passphrase_is_asked_for(far):
    far.configure(key="locked")
    with terminal(far, "run", "--url", "ssh://far", "--", "echo", "in") as t:
        t.expect(b"Enter passphrase for key")
        t.until(lambda: t.modes()[3] != t.before[3], "the echo is off")
        t.type(b"\x03")
        assert t.wait() == -signal.SIGINT
        assert t.modes() == t.before
        assert t.seen.count(b"passphrase") == 1


def test_an_interrupt_is_for_the_command(far):
    trap = 'trap "echo caught; exit 5" INT; echo ready; while :; do sleep 0.05; done'
    with terminal(far, "run", "--url", "ssh://far", "--", "sh", "-c", trap) as t:
        t.expect(b"ready")
        t.type(b"\x03")
        t.expect(b"caught")
        assert t.wait() == 5 and b"resume" not in t.seen


def test_a_shell(far):
    with terminal(far, "shell", "--url", "ssh://far") as t:
        t.type(b"echo $((6*7))\n")
        t.expect(b"42")
        t.type(b"exit 4\n")
        assert t.wait() == 4
