"""Shared by the tests of ssh://: Debian's sshd on the loopback, in a directory and a mount namespace of its own, and an ssh that knows it.

The far machine is this one with another HOME, PATH and runtime directory. What is sent to it is a small static program that starts the
farhand under test: so a sanitizer build is tested on both sides, and no static build is needed.
"""

import atexit
import contextlib
import functools
import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest

from farhand_client import BIN, PATIENCE, merged_env, wait_until

SECONDS = 60 * PATIENCE
SSHD = "/usr/sbin/sshd"
IS_ROOT = os.geteuid() == 0
VERSION = subprocess.run([BIN, "--version"], capture_output=True, check=True, text=True).stdout.split()[1]
PASSPHRASE = "open sesame"
NAMESPACE = ["unshare", "--mount", "--propagation", "private", "--"]
SHIM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "static_shim.c")


def why_not():
    for program in (SSHD, "/usr/bin/ssh", "/usr/bin/ssh-keygen"):
        if not os.access(program, os.X_OK):
            return f"{program} is not there: apt-get install openssh-server openssh-client"
    if IS_ROOT and subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode:
        return "no mount namespace can be made, in which sshd finds its /run/sshd"
    return None


def compile_shim(path, version=VERSION):
    done = subprocess.run(["cc", "-static", "-o", path, f'-DPROGRAM="{BIN}"', f'-DVERSION="{version}"', SHIM],
                          capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"no static program can be made: {done.stderr.decode()}")


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


@functools.lru_cache
def keys():
    """A directory with the key of the machine, one of the user's, and one that a passphrase locks."""
    directory = tempfile.TemporaryDirectory(prefix="fh-keys-")
    atexit.register(directory.cleanup)
    for key, word in (("host", ""), ("user", ""), ("locked", PASSPHRASE)):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", word, "-f", f"{directory.name}/{key}"], check=True)
    return directory.name


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def is_listening(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False


class Far:
    """One sshd, the far machine behind it, and `farhand` on the near side. `shell`: what stands in for the login shell. `home`: options
    of the file system that the home directory then is."""

    def __init__(self, base, shim, shell=None, home=None):
        self.base, self.shim = base, shim
        self.home, self.bin, self.runtime = (f"{base}/far/{name}" for name in ("home", "bin", "run"))
        self.near = f"{base}/near"
        for path in (self.home, self.bin, self.runtime, f"{self.near}/bin", f"{self.near}/static", f"{self.near}/run"):
            os.makedirs(path)
        os.chmod(self.runtime, 0o700)
        os.chmod(f"{self.near}/run", 0o700)
        self.passphrase = PASSPHRASE
        shutil.copytree(keys(), base, dirs_exist_ok=True)
        self.static = f"{self.near}/static/farhand-{os.uname().machine}"
        shutil.copy(shim, self.static)
        self.start(shell, home)
        self.configure()
        write(f"{self.near}/bin/ssh", f'#!/bin/sh\nexec /usr/bin/ssh -F {self.near}/config "$@"\n', 0o755)
        self.env = merged_env({"FARHAND_HOME": self.near, "CODEX_HOME": self.near, "FARHAND_URL": None, "FARHAND_TOKEN": None,
                               "CODEX_EXEC_SERVER_URL": None, "XDG_RUNTIME_DIR": f"{self.near}/run", "HOME": self.near,
                               "FARHAND_STATIC_DIR": f"{self.near}/static", "PATH": f"{self.near}/bin:/usr/bin:/bin",
                               "SSH_AUTH_SOCK": None, "SSH_ASKPASS": None, "DISPLAY": None, "TERM": "dumb"})

    def start(self, shell, home):
        sanitizer = "".join(f' "{k}={v}"' for k, v in os.environ.items() if k.endswith("SAN_OPTIONS"))
        for _ in range(5):  # somebody may take the port before sshd does
            self.port = free_port()
            force = f'ForceCommand exec {shell} -c "$SSH_ORIGINAL_COMMAND"\n' if shell else ""
            write(f"{self.base}/sshd_config", f"""\
ListenAddress 127.0.0.1
Port {self.port}
HostKey {self.base}/host
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
AuthorizedKeysFile {self.base}/authorized
PrintMotd no
SetEnv HOME={self.home} XDG_RUNTIME_DIR={self.runtime} PATH={self.bin}:/usr/bin:/bin{sanitizer}
{force}""")
            mounts = "mount -t tmpfs tmpfs /run && mkdir /run/sshd && "
            if home:
                mounts += f"mount -t tmpfs -o {home} tmpfs {self.home} && "
            argv = [SSHD, "-D", "-e", "-f", f"{self.base}/sshd_config"]
            if IS_ROOT:
                argv = [*NAMESPACE, "sh", "-c", mounts + 'exec "$@"', "sh", *argv]
            with open(f"{self.base}/sshd.log", "ab") as log:
                self.sshd = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            wait_until(lambda: is_listening(self.port) or self.sshd.poll() is not None, SECONDS)
            if self.sshd.poll() is None:
                return
        raise AssertionError(self.log())

    def configure(self, key="user", more=""):
        shutil.copy(f"{self.base}/{key}.pub", f"{self.base}/authorized")
        with open(f"{self.base}/host.pub", encoding="ascii") as f:
            write(f"{self.near}/known", f"[127.0.0.1]:{self.port} {f.read()}")
        write(f"{self.near}/config", f"""\
Host far
    HostName 127.0.0.1
    Port {self.port}
    User {getpass.getuser()}
Host *
    IdentityFile {self.base}/{key}
    IdentitiesOnly yes
    UserKnownHostsFile {self.near}/known
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
{more}""")

    def log(self):
        with open(f"{self.base}/sshd.log", encoding="utf-8", errors="replace") as f:
            return f.read()

    def cached(self, version=VERSION):
        return f"{self.home}/.cache/farhand/{version}/farhand"

    def argv(self, command, *args, url="ssh://far"):
        return [BIN, command, "--url", url, *args]

    def __call__(self, command, *args, stdin=b"", env=None, url="ssh://far"):
        return subprocess.run(self.argv(command, *args, url=url), input=stdin, capture_output=True, timeout=SECONDS, check=False,
                              env={**self.env, **(env or {})})

    def connections(self):
        """The processes of sshd that serve one connection each."""
        with open(f"/proc/{self.sshd.pid}/task/{self.sshd.pid}/children", encoding="ascii") as f:
            return [int(pid) for pid in f.read().split()]

    def cut(self):
        pids = self.connections()
        assert pids
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def end(self):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as s:
            s.connect(f"{self.runtime}/farhand/socket")
            pid = int.from_bytes(s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], "little")
            os.kill(pid, signal.SIGTERM)
            s.settimeout(SECONDS)
            with contextlib.suppress(OSError):
                while s.recv(4096):
                    pass
        for pid in self.connections():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.sshd.kill()
        self.sshd.wait(SECONDS)


@contextlib.contextmanager
def far_machine(shim, **kw):
    with tempfile.TemporaryDirectory(prefix="fh-ssh-", dir="/tmp") as base:
        far = Far(base, shim, **kw)
        try:
            yield far
        finally:
            far.end()
