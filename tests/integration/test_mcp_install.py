"""`farhand mcp install` and `uninstall` on the real binary: where each client's configuration is, what is shown, asked, written and
taken back, and which files are left alone."""

import json
import os
import stat
import subprocess
import tempfile
import tomllib

import pytest

from farhand_client import BIN, PATIENCE, merged_env
from reach import TREES
from test_cmd_detached import Screen

PATHS = {"claude": ".claude.json", "codex": ".codex/config.toml", "cursor": ".cursor/mcp.json",
         "vscode": ".config/Code/User/mcp.json", "gemini": ".gemini/settings.json"}
SERVERS = {"claude": "mcpServers", "codex": "mcp_servers", "cursor": "mcpServers", "vscode": "servers", "gemini": "mcpServers"}
UNSET = dict.fromkeys(("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "GEMINI_CLI_HOME"))
# A file of each form as a person may have it: with what the client takes beside plain JSON.
FILES = {
    "claude": b'{\n  "numStartups": 3,\n  "mcpServers": {},\n  "projects": { "/x": { "history": [ ] } }\n}\n',
    "codex": b'# mine\r\nmodel = "m"  # for now\r\n\r\n[mcp_servers.docs]\r\ncommand = \'d\'\r\n',
    "cursor": b'{"mcpServers":{"other":{"command":"x"}}}',
    "vscode": b'\xef\xbb\xbf// mine\n{\n\t"servers": {\n\t\t"other": { "command": "x", }, // why\n\t},\n\t"inputs": [],\n}\n',
    "gemini": b'{\r\n    // dark\r\n    "theme": "Default", /* for now */\r\n    "x": "// no comment"\r\n}\r\n',
}


class Home:
    def __init__(self, path):
        self.path = path

    def env(self, **more):
        return merged_env({**UNSET, "HOME": self.path, "PATH": "/usr/bin:/bin", **more})

    def run(self, *args, **more):
        """(exit code, stdout, stderr), without a terminal."""
        done = subprocess.run([BIN, "mcp", *args], env=self.env(**more), stdin=subprocess.DEVNULL, capture_output=True, start_new_session=True,
                              timeout=60 * PATIENCE, check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def at(self, client):
        return os.path.join(self.path, PATHS[client])

    def put(self, client, text, mode=0o600):
        path = self.at(client)
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        with open(path, "wb") as f:
            f.write(text)
        os.chmod(path, mode)
        return path

    def read(self, client):
        with open(self.at(client), "rb") as f:
            return f.read()

    def files(self):
        return sorted(os.path.relpath(os.path.join(at, name), self.path) for at, _, names in os.walk(self.path) for name in names)


@pytest.fixture
def home():
    with tempfile.TemporaryDirectory(prefix="fh-install-", dir=TREES) as path:
        yield Home(path)


def entry_of(client, data):
    value = tomllib.loads(data.decode()) if client == "codex" else json.loads(data)
    return value[SERVERS[client]]["farhand"]


def test_a_new_file_is_made_and_taken_away_again(home):
    for client in PATHS:
        code, out, err = home.run("install", client, "--yes", "--", "--env", "devbox", "--read-only")
        assert code == 0 and err == "" and out.startswith(f"{home.at(client)} (a new file):\n+ "), out + err
        assert out.endswith(f"\nadded farhand to {home.at(client)}\n")
        entry = entry_of(client, home.read(client))
        assert entry.pop("type", "stdio") == "stdio"
        assert entry == {"command": os.path.realpath(BIN), "args": ["mcp", "--env", "devbox", "--read-only"]}
        assert stat.S_IMODE(os.stat(home.at(client)).st_mode) == 0o600
        assert home.run("install", client, "--yes", "--", "--env", "devbox", "--read-only")[0] == 0
    assert home.files() == sorted(PATHS.values())
    for client in PATHS:
        code, out, err = home.run("uninstall", client, "--yes")
        assert code == 0 and err == "" and out.endswith(f"\ntook farhand out of {home.at(client)}\n"), err
    assert home.files() == []
    assert home.run("uninstall", "claude") == (0, f"Claude Code does not have it: {home.at('claude')}\n", "")


@pytest.mark.parametrize("client", PATHS)
def test_everything_else_in_a_file_keeps_its_bytes(home, client):
    path = home.put(client, FILES[client], 0o640)
    code, out, err = home.run("install", client, "--yes")
    assert code == 0, err
    text = home.read(client)
    kept = iter(text)
    assert all(byte in kept for byte in FILES[client]), "every byte is there, in its order"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640 and os.listdir(os.path.dirname(path)) == [os.path.basename(path)]
    shown = [line for line in out.split("\n")[1:] if line.startswith("+ ")]
    assert len(shown) <= 8 and any('"mcp"' in line for line in shown), out
    before = os.stat(path)
    code, out, err = home.run("install", client, "--yes")
    assert (code, err) == (0, "") and "has it already" in out
    assert os.stat(path).st_ino == before.st_ino and home.read(client) == text
    code, out, err = home.run("install", client, "--yes", "--", "--read-only")
    assert code == 1 and "`farhand mcp uninstall " + client + "` takes it away" in err, err
    assert home.run("uninstall", client, "--yes")[0] == 0
    assert home.read(client) == FILES[client] and stat.S_IMODE(os.stat(path).st_mode) == 0o640


def test_nothing_is_written_without_a_yes(home):
    home.put("claude", FILES["claude"])
    code, out, err = home.run("install", "claude", "--print")
    assert code == 0 and err == "" and '+   "mcpServers": {"farhand": {' in out
    code, out, err = home.run("install", "claude")
    assert code == 1 and '+   "mcpServers": {"farhand": {' in out
    assert err == "error: nothing was written: there is no terminal to ask at; --yes writes without asking\n"
    assert home.run("install", "cursor", "--print")[0] == 0
    assert home.read("claude") == FILES["claude"] and home.files() == [".claude.json"]


@pytest.mark.parametrize("answer, code", [(b"y\r", 0), (b"YES\r", 0), (b"n\r", 1), (b"\r", 1), (b"yet\rno\r", 1), (b"\x04", 1), (b"\x03", None)])
def test_the_answer_on_the_terminal_decides(home, answer, code):
    home.put("claude", FILES["claude"])
    screen = Screen([BIN, "mcp", "install", "claude"], home.env())
    screen.expect(b"Write this? [y]es, [N]o? ")
    screen.type(answer)
    got = screen.end()
    assert got == code if code is not None else got != 0
    assert (home.read("claude") != FILES["claude"]) == (code == 0)


def test_who_does_not_see_the_change_is_not_asked(home):
    home.put("claude", FILES["claude"])
    screen = Screen(["/bin/sh", "-c", f"'{BIN}' mcp install claude > '{home.path}/log'; echo exit $?"], home.env())
    screen.expect(b"there is no terminal to ask at")
    screen.expect(b"exit 1")
    assert screen.end() == 0 and home.read("claude") == FILES["claude"]


def test_a_symlinked_file_stays_a_symlink(home):
    os.makedirs(f"{home.path}/dotfiles")
    with open(f"{home.path}/dotfiles/claude", "wb") as f:
        f.write(FILES["claude"])
    os.symlink("dotfiles/claude", home.at("claude"))
    assert home.run("install", "claude", "--yes")[0] == 0
    assert os.readlink(home.at("claude")) == "dotfiles/claude" and "farhand" in json.loads(home.read("claude"))["mcpServers"]
    assert home.run("uninstall", "claude", "--yes")[0] == 0
    assert os.readlink(home.at("claude")) == "dotfiles/claude" and home.read("claude") == FILES["claude"]


def test_the_file_behind_a_symlink_is_never_removed(home):
    with open(f"{home.path}/kept", "wb") as f:
        f.write(b'{\n  "mcpServers": {\n    "farhand": {}\n  }\n}\n')
    os.symlink("kept", home.at("claude"))
    assert home.run("uninstall", "claude", "--yes")[0] == 0
    assert home.read("claude") == b"{}\n" and os.path.islink(home.at("claude"))


def test_files_that_others_could_change_are_left_alone(home):
    def refused(why, client="claude"):
        code, _, err = home.run("install", client, "--yes")
        assert code == 1 and why in err, err
        assert not err.count("\n") > 1

    path = home.put("claude", FILES["claude"], 0o666)
    refused(f"`{path}` can be written by other users")
    os.chmod(path, 0o600)
    os.chmod(home.path, 0o775)
    refused(f"`{home.path}` can be written by other users")
    os.chmod(home.path, 0o1777)  # as /tmp: others cannot replace a file there
    assert home.run("install", "claude", "--print")[0] == 0
    os.chmod(home.path, 0o700)
    os.link(path, f"{home.path}/second")
    refused("has more than one name")
    os.unlink(f"{home.path}/second")
    os.makedirs(f"{home.path}/open", mode=0o755)
    os.chmod(f"{home.path}/open", 0o777)
    os.rename(path, f"{home.path}/open/claude")
    os.symlink("open/claude", path)
    refused(f"`{home.path}/open` can be written by other users")
    os.unlink(path)
    os.rename(f"{home.path}/open/claude", f"{home.path}/claude")
    os.symlink("../claude", f"{home.path}/open/link")
    os.symlink("open/link", path)  # the file is ours, but another user could let the link lead elsewhere
    refused(f"`{home.path}/open` can be written by other users")
    os.unlink(path)
    os.symlink(".claude.json", path)
    refused("leads through too many symlinks")
    os.unlink(path)
    os.symlink("nowhere", path)
    refused("it is a symlink that leads nowhere")
    os.makedirs(f"{home.path}/.cursor/mcp.json")
    refused("it is not a regular file", "cursor")
    if os.geteuid() == 0:
        os.unlink(path)
        path = home.put("claude", FILES["claude"])
        os.chown(path, 65534, 65534)
        refused("belongs to another user")
        os.chown(path, 0, 0)
        os.chown(home.path, 65534, 65534)
        refused("belongs to another user")


@pytest.mark.parametrize("client, text, why", [
    ("claude", b'{\n  "a": 1,\n}\n', "trailing comma at line 3 column 1"),
    ("claude", b'{\n  // no comments here\n}\n', "at line 2 column 3"),
    ("claude", b"", "EOF while parsing a value at line 1 column 0"),
    ("cursor", b'{"mcpServers": []}', 'its member "mcpServers" is no object'),
    ("gemini", b'{"a": 1 /* open }', "at line 1 column 9"),
    ("codex", b"a = 1\nb =\n", "line 2, column 4: expected a value"),
    ("codex", b"mcp_servers = {}\n", "'mcp_servers' is already defined in line 1"),
])
def test_files_that_are_not_understood_are_left_alone(home, client, text, why):
    path = home.put(client, text)
    code, out, err = home.run("install", client, "--yes")
    assert code == 1 and out == "" and err.startswith(f"error: `{path}` was not understood: ") and why in err, err
    assert home.read(client) == text and os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_a_file_that_changes_while_the_question_is_open_is_left_alone(home):
    home.put("claude", FILES["claude"])
    screen = Screen([BIN, "mcp", "install", "claude"], home.env())
    screen.expect(b"Write this? [y]es, [N]o? ")
    home.put("claude", b"{}")
    screen.type(b"y\r")
    screen.expect(b"has changed meanwhile: nothing was written")
    assert screen.end() == 1 and home.read("claude") == b"{}"


def test_control_characters_of_a_file_do_not_reach_the_terminal(home):
    home.put("codex", 'a = "\u202e\u009b"\n'.encode())
    _, out, _ = home.run("install", "codex", "--print")
    assert out.split("\n")[1] == '  a = "\\u{202e}\\u{9b}"', out


def test_a_long_line_is_shown_where_it_changes(home):
    home.put("cursor", b'{"x":"' + b"long " * 2000 + b'","mcpServers":{"y":{}}}')
    code, out, _ = home.run("install", "cursor", "--print")
    assert code == 0 and max(map(len, out.split("\n"))) < 250 and out.count('"farhand": {"command"') == 1, out


def test_each_client_is_found_by_its_variable(home):
    for client, variable, path in (("claude", "CLAUDE_CONFIG_DIR", ".claude.json"), ("codex", "CODEX_HOME", "config.toml"),
                                   ("vscode", "XDG_CONFIG_HOME", "Code/User/mcp.json"), ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json")):
        there = f"{home.path}/{client}"
        assert home.run("install", client, "--yes", **{variable: there})[0] == 0
        assert os.path.exists(f"{there}/{path}")
        code, _, err = home.run("install", client, "--yes", **{variable: "not/absolute"})
        assert code == 1 and "no absolute path" in err
    code, _, err = home.run("install", "cursor", HOME="")
    assert code == 1 and "no absolute path" in err


def test_the_program_is_named_by_its_path(home):
    os.makedirs(f"{home.path}/bin")
    os.symlink(os.path.realpath(BIN), f"{home.path}/bin/farhand")
    assert home.run("install", "cursor", "--yes", PATH=f"relative:/nowhere:{home.path}/bin:/usr/bin")[0] == 0
    assert entry_of("cursor", home.read("cursor"))["command"] == f"{home.path}/bin/farhand"
    assert home.run("install", "gemini", "--yes", "--command", "farhand")[0] == 0
    assert entry_of("gemini", home.read("gemini"))["command"] == "farhand"


def test_bad_command_lines(home):
    for args in ([], ["emacs"], ["claude", "--", "--evn", "x"], ["claude", "--", "--approval", "perhaps"], ["claude", "--env", "x"]):
        code, _, err = home.run("install", *args)
        assert code == 2 and err.startswith("error: "), args
    for args in ([], ["emacs"], ["claude", "--", "--env", "x"]):
        code, _, err = home.run("uninstall", *args)
        assert code == 2 and err.startswith("error: "), args
    code, _, err = home.run("install", "claude", "--yes", "--", "-C", os.fsdecode(b"/\xff"))
    assert code == 1 and "not UTF-8" in err
    code, _, err = home.run("install", "claude", "--yes", "--", "-C", "/" + "x" * 70000)
    assert code == 1 and "longer than" in err
    assert home.files() == []


def test_what_is_installed_starts_and_answers(home):
    assert home.run("install", "cursor", "--yes", "--", "--env", "local")[0] == 0
    entry = entry_of("cursor", home.read("cursor"))
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
             "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}}
    done = subprocess.run([entry["command"], *entry["args"]], input=json.dumps(hello) + "\n", capture_output=True, text=True, timeout=120 * PATIENCE,
                          env=home.env(), check=False)
    assert done.returncode == 0 and json.loads(done.stdout)["result"]["serverInfo"]["name"] == "farhand", done
