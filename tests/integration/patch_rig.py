"""Shared by the tests of `farhand apply-patch`: patches, trees of files as the vectors write them, and a command that applies."""

import base64
import json
import os
import shutil
import subprocess
import tempfile

import pytest

from farhand_client import BIN, PATIENCE, Server, merged_env

SECONDS = 60 * PATIENCE
VECTORS = os.path.join(os.path.dirname(__file__), "..", "vectors", "apply_patch.json")


def vectors():
    with open(VECTORS, encoding="utf-8") as f:
        return json.load(f)["vectors"]


def patch(*hunks):
    return "*** Begin Patch\n" + "".join(hunks) + "*** End Patch\n"


def add(path, *lines):
    return f"*** Add File: {path}\n" + "".join(f"+{line}\n" for line in lines)


def delete(path):
    return f"*** Delete File: {path}\n"


def update(path, old, new, to=None):
    """Replaces one line by another."""
    move = f"*** Move to: {to}\n" if to else ""
    return f"*** Update File: {path}\n{move}@@\n-{old}\n+{new}\n"


def put_tree(root, tree):
    for name, value in tree.items():
        path = os.path.join(root, name)
        if name.endswith("/"):
            os.makedirs(path, exist_ok=True)
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if isinstance(value, dict) and "symlink" in value:
            os.symlink(value["symlink"], path)
            continue
        data = value.encode() if isinstance(value, str) else (
            base64.b64decode(value["b64"]) if "b64" in value else value["text"].encode())
        with open(path, "wb") as f:
            f.write(data)
        if isinstance(value, dict) and "mode" in value:
            os.chmod(path, value["mode"])


def get_tree(root):
    """What is below a directory, spelled as in the vectors; modes other than 644 are told. The server of a client that was killed may
    still remove a temporary file meanwhile: such a file is not told."""
    tree = {}
    for at, directories, files in os.walk(root):
        for name in directories + files:
            path = os.path.join(at, name)
            key = os.path.relpath(path, root)
            if os.path.islink(path):
                tree[key] = {"symlink": os.readlink(path)}
            elif os.path.isdir(path):
                if not os.listdir(path):
                    tree[key + "/"] = None
            else:
                try:
                    tree[key] = get_file(path)
                except FileNotFoundError:
                    if not name.startswith(".farhand-"):
                        raise
    return tree


def get_file(path):
    with open(path, "rb") as f:
        data = f.read()
    mode = os.stat(path).st_mode & 0o7777
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(data).decode()}
    return text if mode == 0o644 else {"text": text, "mode": mode}


class Patcher:
    """`farhand apply-patch` in a directory of its own. `way`: "named" (by the link apply_patch), "here", or "server"."""

    def __init__(self, way="here", server=None, options=(), env=None):
        self.base = tempfile.mkdtemp(prefix="fh-patch-")
        self.cwd = os.path.join(self.base, "w")
        self.state = os.path.join(self.base, "state")
        os.mkdir(self.cwd)
        self.server = server
        self.env = merged_env({"XDG_STATE_HOME": self.state, "FARHAND_HOME": self.base, "CODEX_HOME": self.base, "FARHAND_URL": None,
                               "CODEX_EXEC_SERVER_URL": None, "TERM": "xterm", "NO_COLOR": None, **(env or {})})
        if way == "named":
            os.symlink(BIN, os.path.join(self.base, "apply_patch"))
            self.argv = [os.path.join(self.base, "apply_patch")]
        else:
            where = ["--url", server.url, "-C", self.cwd] if way == "server" else []
            self.argv = [BIN, "apply-patch", *where, *options]

    def __call__(self, text=None, *options, stdin=b"", env=None, cwd=None):
        """Returns the finished process; its streams are text."""
        argv = [*self.argv, *options, *([] if text is None else [text])]
        done = subprocess.run(argv, input=stdin, capture_output=True, timeout=SECONDS, check=False, cwd=cwd or self.cwd,
                              env={**self.env, **(env or {})})
        done.stdout, done.stderr = (text.decode(errors="surrogateescape") for text in (done.stdout, done.stderr))
        return done

    def start(self, text, *options, **kw):
        argv = [*self.argv, *options, text]
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.cwd,
                                env=self.env, **kw)

    def works(self, text, *options, **kw):
        done = self(text, *options, **kw)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def fails(self, text, *options, **kw):
        done = self(text, *options, **kw)
        assert (done.returncode, done.stdout) == (1, ""), done
        return done.stderr

    def report(self, text, *options, **kw):
        done = self(text, "--json", *options, **kw)
        assert done.stderr == "", done
        return json.loads(done.stdout)

    def put(self, **files):
        put_tree(self.cwd, files)

    def tree(self):
        return get_tree(self.cwd)

    def path(self, name):
        return os.path.join(self.cwd, name)

    def journals(self):
        """The journals of patches that were not finished."""
        return [name for at, _, names in os.walk(self.state) for name in names if name.startswith("journal-")
                if os.path.dirname(at).endswith("patches")]

    def close(self):
        shutil.rmtree(self.base, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def patcher_of(way, server=None, **kw):
    return Patcher(way, server, **kw)


def socket_server(directory):
    return Server(listen=f"unix:{directory}/s")


__all__ = ["BIN", "Patcher", "SECONDS", "add", "delete", "get_tree", "patch", "patcher_of", "put_tree", "socket_server", "update", "vectors"]


# Fixtures: a test file that uses them imports them.

@pytest.fixture(scope="module", name="server")
def patch_server():
    with tempfile.TemporaryDirectory(prefix="fh-") as directory, socket_server(directory) as s:
        yield s


@pytest.fixture(name="apply", params=["here", "server"])
def any_patcher(request, server):
    with Patcher(request.param, server) as patcher:
        yield patcher


@pytest.fixture(name="here")
def patcher_here():
    with Patcher() as patcher:
        yield patcher
