"""Shared by the tests of sandboxed processes and file requests: profiles, trees, and a server of either user.

A Rig is a server that runs as root or as a user without rights, with a client. Its trees lie outside /tmp, because
profiles make /tmp writable, and belong to the user of the server. Where the server refuses to restrict anything the
tests skip: the rig asks once.
"""

import base64
import contextlib
import ctypes
import hashlib
import itertools
import json
import os
import shutil
import stat
import tempfile

import pytest

from farhand_client import BIN, Client, RpcError, Server
from fs_helpers import PATH_MEMBERS, outcome
from reach import TREES, UNPRIVILEGED

# The server with a seam for tests: tests/layers/layers.c.
LAYERED = os.path.join(os.path.dirname(BIN), "farhand-layers")
REFUSAL = "sandbox intent cannot be enforced on this executor"
ENV = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
USERS = ["root", "unprivileged"]

CLONE_NEWNS = 0x20000
MS_REC, MS_PRIVATE, MS_SHARED = 0x4000, 1 << 18, 1 << 20


# Profiles


def special(kind, access, **more):
    return {"path": {"type": "special", "value": {"kind": kind, **more}}, "access": access}


def at(path, access):
    return {"path": {"type": "path", "path": uri(path)}, "access": access}


def glob(pattern, access="deny"):
    return {"path": {"type": "glob_pattern", "pattern": pattern}, "access": access}


ROOT_READ = special("root", "read")
ROOT_WRITE = special("root", "write")
WORKSPACE = special("project_roots", "write")
MINIMAL = special("minimal", "read")


def restricted(*entries, network="restricted", **more):
    return {"type": "managed", "file_system": {"type": "restricted", "entries": list(entries), **more},
            "network": network}


def read_only(*more, network="restricted"):
    return restricted(ROOT_READ, *more, network=network)


def workspace_write(*more, network="restricted", **depth):
    return restricted(ROOT_READ, WORKSPACE, *more, network=network, **depth)


def narrow(*more, network="restricted"):
    """A profile that reads the system's own directories and has the entries `more`."""
    return restricted(MINIMAL, *more, network=network)


def unrestricted(network="restricted"):
    return {"type": "managed", "file_system": {"type": "unrestricted"}, "network": network}


def external(network="restricted"):
    return {"type": "external", "network": network}


def uri(path):
    return "file://" + "".join(chr(c) if chr(c).isalnum() and c < 128 or chr(c) in "/-_.~" else f"%{c:02X}"
                               for c in os.fsencode(path))


def sandbox(profile, cwd, roots=None):
    """The member `sandbox` of a request as current clients send it. `cwd` and `roots` are native paths."""
    return {"permissions": profile, "cwd": uri(cwd), "workspaceRoots": [uri(r) for r in ([cwd] if roots is None else roots)],
            "windowsSandboxLevel": "disabled", "windowsSandboxPrivateDesktop": False, "useLegacyLandlock": False}


# File requests


class Box:
    """File requests of one client under one profile. Every answer is kept, so that a test can search them all for secrets."""

    def __init__(self, client, permissions, cwd=None, roots=None):
        self.client = client
        self.sandbox = sandbox(permissions, cwd, roots) if cwd is not None else permissions
        self.told = []

    def send(self, method, native=False, **params):
        """Returns the id. `native`: paths as they are, not as URIs."""
        spell = (lambda path: path) if native else uri
        params = {name: spell(value) if name in PATH_MEMBERS and isinstance(value, (str, bytes)) else value
                  for name, value in params.items()}
        return self.client.request(f"fs/{method}", {**params, "sandbox": self.sandbox})

    def answer(self, ident, timeout=30):
        """The result, or (code, message)."""
        try:
            result = self.client.result(ident, timeout)
        except RpcError as error:
            result = (error.code, error.message)
        self.told.append(result)
        return result

    def ask(self, method, timeout=30, **params):
        return self.answer(self.send(method, **params), timeout)

    def read(self, path, **more):
        """The bytes, or (code, message)."""
        answer = self.ask("readFile", path=path, **more)
        return answer if is_error(answer) else base64.b64decode(answer["dataBase64"], validate=True)

    def write(self, path, data=b"new\n", **more):
        return self.ask("writeFile", path=path, dataBase64=base64.b64encode(data).decode(), **more)

    def open(self, path, mode="read", handle="h"):
        return self.ask("open", handleId=handle, path=path, mode=mode)

    def blocks(self, method, handle="h", **params):
        """fs/readBlock, fs/writeBlock, fs/close: without a sandbox."""
        result = outcome(self.client, self.client.request(f"fs/{method}", {"handleId": handle, **params}), 30)
        self.told.append(result)
        return result

    def all_told(self):
        """Every answer so far as bytes, contents decoded."""
        return b"\n".join(flat(told) for told in self.told)


def is_error(answer):
    return isinstance(answer, tuple)


def flat(answer):
    if isinstance(answer, tuple):
        return f"{answer[0]} {answer[1]}".encode()
    return json.dumps(answer).encode() + b"".join(base64.b64decode(answer[name]) for name in ("dataBase64", "chunk")
                                                 if name in answer)


# Trees


class Tree:
    """A directory of one test: `w` is the workspace, `o` lies outside of it, `t` is for temporary files."""

    def __init__(self, base, uid):
        self.base, self.uid = base, uid
        self.w, self.o, self.t = (os.path.join(base, name) for name in "wot")

    def own(self, path):
        if os.geteuid() == 0:
            os.chown(path, self.uid, self.uid, follow_symlinks=False)
        return path

    def dir(self, path, mode=0o755):
        """Makes a directory, and all missing directories above it."""
        if not os.path.isdir(path):
            self.dir(os.path.dirname(path))
            os.mkdir(path)
            os.chmod(path, mode)
            self.own(path)
        return path

    def file(self, path, content="data\n", mode=0o644):
        self.dir(os.path.dirname(path))
        with open(path, "w", encoding="utf-8") as f:
            f.write(content)
        os.chmod(path, mode)
        return self.own(path)

    def link(self, path, target):
        self.dir(os.path.dirname(path))
        os.symlink(target, path)
        return self.own(path)

    def clear(self):
        for entry in os.scandir(self.base):
            shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)


def snapshot(*tops, inodes=False, times=False, skip=()):
    """Everything below the directories: path -> what it is. `times`: also when it was changed, but for the tops."""
    seen = {}

    def look(path, is_top):
        st = os.lstat(path)
        what = [stat.filemode(st.st_mode), st.st_uid]
        if inodes:
            what.append(st.st_ino)
        if times and not is_top:
            what.append(st.st_mtime_ns)
        if stat.S_ISLNK(st.st_mode):
            what.append(os.readlink(path))
        elif stat.S_ISREG(st.st_mode):
            with open(path, "rb") as f:
                what.append(hashlib.sha256(f.read()).hexdigest()[:16] if st.st_size > 64 else f.read())
        seen[path] = tuple(what)
        if stat.S_ISDIR(st.st_mode):
            for name in os.listdir(path):
                below = os.path.join(path, name)
                if below not in skip:
                    with contextlib.suppress(FileNotFoundError):
                        look(below, False)

    for top in tops:
        if os.path.lexists(top):
            look(top, True)
    return seen


def differences(before, after):
    """The paths in which two snapshots differ, for the message of an assertion."""
    return [f"{'-' if path in before else ' '}{'+' if path in after else ' '} {path}: {before.get(path)} {after.get(path)}"
            for path in sorted(set(before) | set(after)) if before.get(path) != after.get(path)]


# Servers


def become(uid, mount_namespace=False):
    """For preexec_fn. The mount namespace has shared propagation in itself, but none to the namespace of the tests."""
    libc = ctypes.CDLL(None, use_errno=True)

    def check(result, what):
        if result != 0:
            raise OSError(ctypes.get_errno(), what)

    def act():
        if mount_namespace:
            check(libc.unshare(CLONE_NEWNS), "unshare")
            check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")
            check(libc.mount(b"none", b"/", None, MS_REC | MS_SHARED, None), "shared mounts")
        if uid != os.geteuid():
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)

    return act


class Outcome:
    """How a command ended. `refused` is the error of process/start; then there was no command."""

    def __init__(self, refused=None, out=b"", err=b"", code=None, denied=None):
        self.refused, self.out, self.err, self.code, self.denied = refused, out, err, code, denied

    @property
    def ok(self):
        return self.refused is None and self.code == 0

    def __repr__(self):
        if self.refused is not None:
            return f"refused: {self.refused}"
        return f"exit {self.code}, out {self.out[-2000:]!r}, err {self.err[-2000:]!r}, denied {self.denied}"


class Rig:
    """One server, one client, and trees that are removed at the end."""

    def __init__(self, user, mount_namespace=False, env=None, args=(), executable=None, uid=UNPRIVILEGED, preexec_fn=None):
        """`executable`: another program than the server that is tested everywhere else; `uid`: of the user without rights, for
        tests that use up what the kernel counts for each user; `preexec_fn`: how a server becomes that user, also when it is
        root of a namespace."""
        self.user = user
        self.uid = 0 if user == "root" and not preexec_fn else os.geteuid() or uid
        self.become_user = preexec_fn or become(self.uid, mount_namespace)
        self.base = tempfile.mkdtemp(prefix="fh-box-", dir=TREES)
        self._stack = contextlib.ExitStack()
        self._stack.callback(shutil.rmtree, self.base, ignore_errors=True)
        self._names = itertools.count(1)
        try:
            os.chmod(self.base, 0o755)
            self.home = self.tree("home")
            self.env = {"HOME": self.home.base, "XDG_STATE_HOME": self.home.dir(os.path.join(self.home.base, "state")),
                        "CODEX_HOME": self.home.dir(os.path.join(self.home.base, "c")), "TMPDIR": None, **(env or {})}
            self.args = args
            self.popen = {"executable": executable} if executable else {}
            # Hundreds of tests use one session, which remembers each command for a while.
            self.server = self._stack.enter_context(self.new_server(config="max_processes_per_session = 100000\n"))
            self.client = self._stack.enter_context(Client(self.server.url))
        except BaseException:
            self._stack.close()
            raise

    def new_server(self, config=None, env=None, before_exec=None, **kw):
        """Starts another server as the same user, with a configuration file that this user can read. `before_exec` is called in
        the new process."""
        def prepare():
            if before_exec is not None:
                before_exec()
            self.become_user()

        args = list(self.args)
        if config is not None:
            args += ["--config", self.home.file(os.path.join(self.home.base, f"{next(self._names)}.toml"), config)]
        return Server(args, env={**self.env, **(env or {})}, preexec_fn=prepare, umask=0o022, **self.popen, **kw)

    def tree(self, name=None):
        base = os.path.join(self.base, name or str(next(self._names)))
        os.mkdir(base)
        tree = Tree(base, self.uid)
        tree.own(base)
        return tree

    def params(self, argv, profile, cwd, roots=None, env=None, box_cwd=None, **kw):
        """The params of process/start. `box_cwd`: the cwd of the sandbox, when it is not that of the process."""
        return {"processId": f"p{next(self._names)}", "argv": argv, "cwd": uri(cwd), "env": {**ENV, **(env or {})},
                "tty": False, "pipeStdin": False, "arg0": None,
                "sandbox": sandbox(profile, box_cwd or cwd, roots), **kw}

    def start(self, argv, profile, cwd, client=None, **kw):
        """Returns the process id. An RpcError when the server refuses."""
        params = self.params(argv, profile, cwd, **kw)
        result = (client or self.client).call("process/start", params, 30)
        assert result["sandboxType"] == "linuxSeccomp"
        return params["processId"]

    def write(self, process_id, data, client=None):
        """process/write; returns the status of the answer."""
        return (client or self.client).write(process_id, data, write_id=f"w{next(self._names)}")

    def finish(self, process_id, timeout=30, client=None):
        client = client or self.client
        client.wait_closed(process_id, timeout)
        exited = client.wait_exit(process_id)
        out = client.output(process_id, "stdout") + client.output(process_id, "pty")
        return Outcome(None, out, client.output(process_id, "stderr"), exited["exitCode"], exited.get("sandboxDenied"))

    def run(self, argv, profile, cwd, timeout=30, client=None, **kw):
        try:
            process_id = self.start(argv, profile, cwd, client, **kw)
        except RpcError as refused:
            return Outcome(refused)
        return self.finish(process_id, timeout, client)

    def sh(self, script, profile, cwd, *args, shell="/bin/sh", **kw):
        return self.run([shell, "-c", script, "sh", *args], profile, cwd, **kw)

    def close(self):
        self._stack.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._stack.__exit__(*exc)


_skip_reasons = {}


def why_not(user, args=()):
    """None, or why sandboxed processes of this user cannot be tried here, with these arguments of a server. Asked once."""
    key = (user, tuple(args))
    if key not in _skip_reasons:
        _skip_reasons[key] = _ask(user, args)
    return _skip_reasons[key]


def landlock_abi():
    """The Landlock ABI that the server will find; 0: no Landlock. Tests can lower it (tests/layers/layers.c)."""
    kernel = ctypes.CDLL(None).syscall(444, None, 0, 1)
    return max(0, min(kernel, int(os.environ.get("FARHAND_LANDLOCK_ABI", kernel))))


def _ask(user, args=()):
    if user == "root" and os.geteuid() != 0:
        return "needs root"
    with Rig(user, args=args) as rig:
        done = rig.sh("echo ran", read_only(), "/")
        if done.refused is not None and done.refused.message.startswith(REFUSAL):
            return f"the server says: {done.refused.message}"
        assert done.ok and done.out == b"ran\n", f"a read-only command does not run: {done}"
    return None


@contextlib.contextmanager
def rig_of(user, **kw):
    """A Rig; skips the test where sandboxes of this user or the wanted back end do not work."""
    args = tuple(kw.get("args", ()))
    reason = why_not(user, args[:2] if args[:1] == ("--sandbox-backend",) else ())
    if reason is not None:
        pytest.skip(reason)
    with Rig(user, **kw) as rig:
        yield rig
        assert not rig.client.bad, f"messages that no server may send: {rig.client.bad[:3]}"
