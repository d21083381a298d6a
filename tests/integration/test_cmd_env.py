"""`farhand env` on the real binary: what it shows, what it adds, and what it leaves alone."""

import contextlib
import fcntl
import json
import os
import stat

import pytest

from cmd_rig import BIN, USERS, cmd_of

HEAD = b"# mine \xc3\xbc\r\n  include_local\t= true\r\ndefault = 'local' # for now\r\n"
ENTRY = b'\n[[environments]]\nid = "box"\nurl = "ws://h:1"\n'


class Env:
    def __init__(self, cmd):
        self.cmd = cmd
        self.home = os.path.join(cmd.base, "home")
        self.path = os.path.join(self.home, ".config", "farhand", "environments.toml")
        self.codex = os.path.join(self.home, ".codex", "environments.toml")

    def run(self, *args, **kw):
        return self.cmd.run([BIN, "env", *args], **kw)

    def put(self, path, text, mode=0o600):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(text)
        os.chmod(path, mode)
        for part in (path, os.path.dirname(path), os.path.dirname(os.path.dirname(path))):
            if os.geteuid() == 0:
                os.chown(part, self.cmd.uid, self.cmd.uid)

    def read(self):
        with open(self.path, "rb") as f:
            return f.read()

    def names(self):
        return os.listdir(os.path.dirname(self.path))

    def list(self, **env):
        code, out, err = self.run("list", "--json", env=env)
        assert code == 0 and err == b"" and out.count(b"\n") == 1, err
        return json.loads(out)

    def add(self, *args, **kw):
        code, out, err = self.run("add", *args, **kw)
        assert code == 0, err
        assert out == f"added {args[0]} to {self.path}\n".encode()
        return err

    def refuse(self, *args, code=1, **kw):
        """Returns the first line of the complaint."""
        got, out, err = self.run(*args, **kw)
        assert got == code and out == b"", (got, out, err)
        return err.decode().split("\n")[0]


@pytest.fixture(params=USERS)
def env(request):
    with cmd_of(request.param) as cmd:
        yield Env(cmd)


LOCAL = {"id": "local", "kind": "local"}


def test_with_nothing_configured_there_is_this_machine(env):
    assert env.list() == {"source": None, "disabled": False, "default": "local", "environments": [LOCAL]}
    assert env.run("list") == (0, b"local  default  this machine\n", b"source: nothing is configured\n")
    assert not os.path.exists(os.path.dirname(env.path))


def test_each_source_decides_alone_in_its_turn(env):
    assert env.list(CODEX_EXEC_SERVER_URL="ws://c")["source"] == "CODEX_EXEC_SERVER_URL"
    off = env.list(CODEX_EXEC_SERVER_URL=" None ")
    assert off == {"source": "CODEX_EXEC_SERVER_URL", "disabled": True, "default": None, "environments": []}
    code, out, err = env.run("list", env={"CODEX_EXEC_SERVER_URL": "none"})
    assert code == 0 and out == b"" and b"There is no environment" in err
    env.put(env.codex, b"[[environments]]\nid='c'\nurl='ws://c'")
    assert env.list(CODEX_EXEC_SERVER_URL="none")["source"] == env.codex
    env.put(env.path, b"")
    found = env.list(CODEX_EXEC_SERVER_URL="none")
    assert found["source"] == env.path and found["environments"] == [LOCAL]
    found = env.list(FARHAND_URL="ws://u", FARHAND_TOKEN="t")
    assert found["source"] == "FARHAND_URL" and found["default"] == "remote"
    assert found["environments"] == [{"id": "remote", "kind": "url", "url": "ws://u", "connectTimeoutMs": 10000,
                                      "initializeTimeoutMs": 10000, "tokenEnv": "FARHAND_TOKEN"}]
    elsewhere = os.path.join(env.home, "x")
    assert env.list(FARHAND_HOME=elsewhere)["source"] == env.codex
    assert env.list(XDG_CONFIG_HOME=elsewhere, CODEX_HOME=elsewhere)["source"] is None


def test_everything_in_a_file_is_shown_but_values_of_variables(env):
    env.put(env.path, b"""default = 'box'
[[environments]]
id = 'dev'
url = 'wss://d'
connect_timeout_sec = 0.5
token_file = 'tok'
[[environments]]
id = 'box'
program = 'ssh'
args = ['box', 'far hand']
cwd = 'sub'
env = {A = 'secret'}
[[environments]]
id = 'far'
url = 'ssh://me@h'
""")
    found = env.list()
    folder = os.path.dirname(env.path)
    assert found["default"] == "box" and [e["id"] for e in found["environments"]] == ["local", "dev", "box", "far"]
    assert found["environments"][1] == {"id": "dev", "kind": "url", "url": "wss://d", "connectTimeoutMs": 500,
                                        "initializeTimeoutMs": 10000, "tokenFile": f"{folder}/tok"}
    assert found["environments"][2] == {"id": "box", "kind": "command", "argv": ["ssh", "box", "far hand"], "env": ["A"],
                                        "cwd": f"{folder}/sub", "initializeTimeoutMs": 10000}
    assert found["environments"][3]["kind"] == "ssh"
    code, out, err = env.run("list")
    assert code == 0 and err.decode() == f"source: {env.path}\n" and b"secret" not in out
    assert out.decode().split("\n") == ["local           this machine", f"dev             wss://d  token: file {folder}/tok",
                                        f"box    default  runs: ssh box far hand  in {folder}/sub", "far             ssh://me@h", ""]


def test_every_line_begins_with_an_id(env):
    """The completions of shells take the first word of each line."""
    env.put(env.path, b"default = 'none'\n[[environments]]\nid='a'\nprogram=\"p\\nq r\"\n" + ENTRY)
    code, out, err = env.run("list")
    assert code == 0 and [line.split()[0] for line in out.splitlines()] == [b"local", b"a", b"box"]
    assert b"There is no default: commands need --env.\n" in err


def test_control_characters_do_not_reach_the_terminal(env):
    env.put(env.path, b"[[environments]]\nid='a'\nprogram=\"p\\u001b[2J\"\nargs=[\"\\u202e\\n* b\"]")
    out = env.run("list")[1]
    assert b"\x1b" not in out and b"runs: p\\x1b[2J \\u{202e}\\x0a* b\n" in out
    env.put(env.path, b"default = \"\\u001b[2J\"")
    assert env.refuse("list") == f"error: {env.path}: default environment `\\x1b[2J` is not configured"
    assert env.refuse("list", env={"FARHAND_URL": "\x1bx"}) == \
        "error: FARHAND_URL: environment url `\\x1bx` must use ws:// or wss://"


def test_a_file_that_cannot_be_understood_is_an_error(env):
    env.put(env.codex, b"")
    for text, why in ((b"x = 1", "line 1, column 1: unknown key `x`"), (b"\xff", "line 1"), (b"a\0", "line 1"),
                      (b"default = " + b"[" * 64 + b"]" * 64, "line 1")):
        env.put(env.path, text)
        assert env.refuse("list").startswith(f"error: failed to parse environment config `{env.path}`: {why}")
        assert env.refuse("add", "a", "--url", "ws://h").startswith("error: failed to parse")
        assert env.read() == text
    env.put(env.path, b"#" * (1 << 20) + b"\n")
    assert env.refuse("list") == f"error: failed to read environment config `{env.path}`: it has more than 1 MiB (os error 27)"


def test_only_a_missing_file_is_no_file(env):
    env.put(env.path, b"")
    os.unlink(env.path)
    os.symlink("nowhere", env.path)
    assert "a symlink that leads nowhere" in env.refuse("list")
    assert "a symlink that leads nowhere" in env.refuse("add", "a", "--url", "ws://h")
    os.unlink(env.path)
    os.mkfifo(env.path)
    assert "it is not a regular file" in env.refuse("list")
    os.unlink(env.path)
    os.mkdir(env.path)
    assert "it is not a regular file" in env.refuse("list")
    assert "Not a directory" in env.refuse("list", env={"FARHAND_HOME": "/dev/null"})
    if env.cmd.uid != 0:
        os.rmdir(env.path)
        env.put(env.path, b"", 0)
        assert "Permission denied" in env.refuse("list")


def test_a_new_file_is_for_its_owner_alone(env):
    assert env.add("box", "--url", "ws://h:1") == b""
    assert env.read() == ENTRY[1:]
    assert stat.S_IMODE(os.stat(env.path).st_mode) == 0o600 and os.stat(env.path).st_uid == env.cmd.uid
    for part in (".config", ".config/farhand"):
        assert stat.S_IMODE(os.stat(os.path.join(env.home, part)).st_mode) == 0o700
    assert env.names() == ["environments.toml"]
    assert env.list()["default"] == "local"


def test_the_rest_of_a_file_stays_byte_for_byte(env):
    env.put(env.path, HEAD, 0o640)
    env.add("box", "--url", "ws://h:1")
    assert env.read() == HEAD + ENTRY
    env.add("two", "--program", "ssh", "--default", "box", "farhand", "serve", "--listen", "stdio")
    assert env.read() == HEAD.replace(b"'local'", b'"two"') + ENTRY + \
        b'\n[[environments]]\nid = "two"\nprogram = "ssh"\nargs = ["box", "farhand", "serve", "--listen", "stdio"]\n'
    assert stat.S_IMODE(os.stat(env.path).st_mode) == 0o640
    found = env.list()
    assert found["default"] == "two" and found["environments"][2]["argv"][-2:] == ["--listen", "stdio"]


def test_tokens_are_named_and_a_relative_file_is_meant_from_here(env):
    env.add("a", "--url", "ws://h", "--token-file", "tok", cwd=env.cmd.tree.w)
    env.add("b", "--url=unix:/run/s", "--token-env=T", "--default")
    found = env.list()["environments"]
    assert found[1]["tokenFile"] == os.path.join(env.cmd.tree.w, "tok") and found[2]["tokenEnv"] == "T"
    assert env.list()["default"] == "b"


def test_arguments_that_begin_with_a_dash_come_behind_two(env):
    env.add("a", "--program", "p", "--", "-x", "--default")
    assert env.list()["environments"][1]["argv"] == ["p", "-x", "--default"] and env.list()["default"] == "local"


@pytest.mark.parametrize("args, why", [
    (["none", "--url", "ws://h"], "environment id `none` is reserved"),
    (["a b", "--url", "ws://h"], "environment id `a b` must contain only ASCII letters, numbers, '-' or '_'"),
    (["a", "--url", "http://h"], "environment url `http://h` must use ws:// or wss://"),
    (["a", "--url", "ssh://-oProxyCommand=x"], "environment url `ssh://-oProxyCommand=x` is invalid: "
     "its host is neither a name nor an address"),
    (["a", "--program", " "], "environment `a` program cannot be empty"),
    (["a", "--program", "p", "--token-env", "T"], "environment `a` token_file and token_env require url"),
    (["a", "--url", "ws://h", "--token-env", "T", "--token-file", "/t"],
     "environment `a` must set at most one of token_file or token_env"),
    (["a", "--url", "ws://h", "--token-env", "T=1"], "environment `a` token_env must be the name of a variable"),
])
def test_what_would_not_load_again_is_refused(env, args, why):
    assert env.refuse("add", *args) == f"error: cannot be added: {env.path}: {why}"
    assert not os.path.exists(os.path.dirname(env.path)), "nothing is made for what can never be added"


def test_what_does_not_fit_into_this_file_is_refused(env):
    env.put(env.path, ENTRY)
    assert env.refuse("add", "box", "--url", "ws://h") == f"error: cannot be added: {env.path}: environment id `box` is duplicated"
    assert env.read() == ENTRY
    env.put(env.path, b"environments = []")
    assert env.refuse("add", "box", "--url", "ws://h").startswith("error: cannot be added: failed to parse")
    assert env.read() == b"environments = []" and env.names() == ["environments.toml"]


def test_a_symlink_stays_a_symlink(env):
    real = os.path.join(env.cmd.tree.w, "dotfiles.toml")
    env.put(env.path, b"")
    os.unlink(env.path)
    with open(real, "wb") as f:
        f.write(HEAD)
    os.chown(real, env.cmd.uid, env.cmd.uid)
    os.symlink(real, env.path)
    env.add("box", "--url", "ws://h:1")
    assert os.path.islink(env.path) and env.read() == HEAD + ENTRY


def test_a_file_that_is_read_only_stays(env):
    if env.cmd.uid == 0:
        pytest.skip("root writes read-only files")
    env.put(env.path, HEAD, 0o400)
    assert "Permission denied" in env.refuse("add", "box", "--url", "ws://h")
    assert env.read() == HEAD and env.names() == ["environments.toml"]


def test_it_waits_for_another_one_and_not_for_ever(env):
    env.put(env.path, HEAD)
    folder = os.open(os.path.dirname(env.path), os.O_RDONLY)
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, folder)
        fcntl.flock(folder, fcntl.LOCK_EX)
        assert "failed to lock the directory" in env.refuse("add", "box", "--url", "ws://h:1")
        assert env.read() == HEAD
    env.add("box", "--url", "ws://h:1")


def test_many_at_once_are_all_added(env):
    procs = [env.cmd.popen([BIN, "env", "add", f"e{i}", "--url", "ws://h"]) for i in range(8)]
    codes = [p.wait() for p in procs]
    added = [f"e{i}" for i, code in enumerate(codes) if code == 0]
    assert added and sorted(e["id"] for e in env.list()["environments"]) == sorted(["local", *added])


def test_a_first_file_of_our_own_says_what_it_takes_over(env):
    env.put(env.codex, b"[[environments]]\nid='c'\nurl='ws://c'")
    assert env.add("a", "--url", "ws://h") == f"note: {env.codex} is not read any more, because {env.path} decides alone\n".encode()
    assert env.add("b", "--url", "ws://h") == b""
    os.unlink(env.path)
    os.unlink(env.codex)
    assert b"CODEX_EXEC_SERVER_URL is not asked any more" in env.add("a", "--url", "ws://h", env={"CODEX_EXEC_SERVER_URL": "none"})


def test_without_a_home_there_is_no_place_for_a_file(env):
    assert env.list(HOME="")["source"] is None
    assert "neither FARHAND_HOME nor HOME" in env.refuse("add", "a", "--url", "ws://h", env={"HOME": ""})


def test_wrong_command_lines(env):
    for args in ([], ["nonsense"], ["list", "operand"], ["list", "--nonsense"], ["add"], ["add", "--url", "ws://h"], ["add", "a"],
                 ["add", "a", "--url", "ws://h", "--program", "p"], ["add", "a", "--url", "ws://h", "operand"],
                 ["add", "a", "--url"], ["add", "a", "--url", "ws://h", "--url", "ws://i"]):
        assert env.run(*args)[0] == 2, args
    code, out, _ = env.run("--help")
    assert code == 0 and b"  list " in out and b"  add " in out
    assert b"--token-file" in env.run("add", "--help")[1]
    assert env.run("add", "--help")[0] == env.run("add", "a", "--help")[0] == env.run("list", "-h")[0] == 0
    assert b"  env " in env.cmd.run([BIN, "--help"])[1]
    assert not os.path.exists(os.path.dirname(env.path))


def test_output_that_cannot_be_written_is_a_failure(env):
    with open("/dev/full", "wb") as full, env.cmd.popen([BIN, "env", "list"], stdout=full) as proc:
        assert proc.wait() == 1
