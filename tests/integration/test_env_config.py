"""environmentConfig/read: what the configuration files of Codex on the server's machine say."""

import os
import tomllib

import pytest

from farhand_client import Server
from fs_helpers import make, uri

READ = "environmentConfig/read"


@pytest.fixture
def home(tmp):
    os.makedirs(f"{tmp}/home")
    return f"{tmp}/home"


@pytest.fixture
def client(tmp, home):
    with Server(env={"CODEX_HOME": home, "HOME": f"{tmp}/me"}) as server, server.connect() as c:
        yield c


def read(client, cwd, *paths, requirements=()):
    return client.call(READ, {"cwd": uri(cwd), "configPaths": [list(p) for p in paths],
                              "requirementsPaths": [list(p) for p in requirements]})


def own(answer, tmp):
    """The layers below the test's own directory as (source, parsed TOML), without those of the machine."""
    return [(layer["source"].replace(tmp, ""), tomllib.loads(layer["toml"])) for layer in answer["config"]["layers"]
            if layer["baseDir"].startswith(uri(tmp))]


def test_it_is_announced(client):
    assert client.call("environment/info")["capabilities"]["environmentConfigRead"] is True


def test_the_selected_keys_of_the_users_file(client, tmp, home):
    make(f"{home}/config.toml", b'model = "m" # why\n[mcp_servers.demo]\ncommand = "true"\nargs = ["a", \'b"\']\n'
                                b'[mcp_servers.demo.env]\nA = "1"\n[other]\nsecret = 1\n')
    answer = read(client, tmp, ["mcp_servers"])
    assert set(answer) == {"userHomeDir", "codexHomeDir", "hostname", "config", "requirements"}
    assert (answer["userHomeDir"], answer["codexHomeDir"]) == (uri(f"{tmp}/me"), uri(home))
    assert answer["hostname"] == os.uname().nodename
    demo = {"command": "true", "args": ["a", 'b"'], "env": {"A": "1"}}
    assert own(answer, tmp) == [("user (/home/config.toml)", {"mcp_servers": {"demo": demo}})]
    assert answer["requirements"] == {"layers": [], "cloudInsertionIndex": 0}
    assert own(read(client, tmp, ["mcp_servers", "demo", "env"], ["model"]), tmp) == [
        ("user (/home/config.toml)", {"model": "m", "mcp_servers": {"demo": {"env": {"A": "1"}}}})]
    assert own(read(client, tmp, ["none"]), tmp) == []


def test_projects_that_are_trusted(client, tmp, home):
    os.makedirs(f"{tmp}/p/.git")
    for name in ("p", "p/sub"):
        os.makedirs(f"{tmp}/{name}/.codex")
        make(f"{tmp}/{name}/.codex/config.toml", f'model = "{name}"\nnotify = ["evil"]\n'.encode())
    assert own(read(client, f"{tmp}/p/sub", ["model"], ["notify"]), tmp) == []
    make(f"{home}/config.toml", f'[projects."{tmp}/p"]\ntrust_level = "trusted"\n'.encode())
    assert own(read(client, f"{tmp}/p/sub", ["model"], ["notify"]), tmp) == [
        ("project (/p/.codex/config.toml)", {"model": "p"}), ("project (/p/sub/.codex/config.toml)", {"model": "p/sub"})]


@pytest.mark.parametrize("content, words", [(b"model = \n", "line 1"), (b"x" * (1 << 20) + b"x", "1048576 bytes"),
                                            (b"a = \xff\n", "UTF-8"), (None, "is not a file")],
                         ids=["no TOML", "large", "no text", "no file"])
def test_a_file_that_cannot_be_used(client, tmp, home, content, words):
    if content is None:
        os.mkfifo(f"{home}/config.toml")
    else:
        make(f"{home}/config.toml", content)
    err = client.error(READ, {"cwd": uri(tmp), "configPaths": [["model"]], "requirementsPaths": []})
    assert err.code == -32603
    assert err.message.startswith(f"failed to load executor-local config: {home}/config.toml: ") and words in err.message


def test_all_files_together_are_bounded(client, tmp, home):
    """A file is read once for each directory of the project, and takes much memory: every element of an array is an object."""
    os.makedirs(f"{tmp}/one")
    make(f"{tmp}/one/config.toml", b"a = [" + b"1," * 50_000 + b"]\n")
    make(f"{home}/config.toml", f'[projects."{tmp}/p"]\ntrust_level = "trusted"\n'.encode())
    os.makedirs(f"{tmp}/p/.git")
    cwd = f"{tmp}/p"
    for _ in range(20):
        os.symlink(f"{tmp}/one", f"{cwd}/.codex")
        cwd += "/d"
        os.mkdir(cwd)
    assert len(own(read(client, f"{tmp}/p" + 8 * "/d", ["a"]), tmp)) == 9
    err = client.error(READ, {"cwd": uri(cwd), "configPaths": [["none"]], "requirementsPaths": []})
    assert err.code == -32603 and "1048576 bytes" in err.message


@pytest.mark.parametrize("count", [64, 65])
def test_markers_of_roots_are_bounded(client, tmp, home, count):
    make(f"{home}/config.toml", f"model = 'm'\nproject_root_markers = {[f'm{n}' for n in range(count)]}\n".encode())
    if count <= 64:
        assert own(read(client, tmp, ["model"]), tmp) == [("user (/home/config.toml)", {"model": "m"})]
        return
    err = client.error(READ, {"cwd": uri(tmp), "configPaths": [["model"]], "requirementsPaths": []})
    assert err.code == -32603 and "more than 64 names" in err.message


@pytest.mark.parametrize("params, message", [
    ({"cwd": "file:///", "configPaths": [], "requirementsPaths": []}, "at least one config or requirements path is required"),
    ({"cwd": "file:///", "configPaths": [["a"], []], "requirementsPaths": []},
     "TOML paths must contain at least one key segment"),
    ({"cwd": "file:///", "configPaths": [["a"]]}, "missing field `requirementsPaths`"),
    ({"cwd": "file:///"}, "missing field `configPaths`"), ({}, "missing field `cwd`"),
    ({"cwd": "file://other/x", "configPaths": [["a"]], "requirementsPaths": []}, "'file://other/x' is invalid on 'linux'"),
    ({"cwd": "file:///", "configPaths": [["a", 5]], "requirementsPaths": []}, "invalid type: number, expected a string"),
    ({"cwd": "file:///", "configPaths": [["a"]], "requirementsPaths": None}, "invalid type: null, expected a sequence"),
    ({"cwd": "file:///", "configPaths": ["a"], "requirementsPaths": []}, None),
    ({"cwd": "file:///", "configPaths": [["a"]] * 257, "requirementsPaths": []}, None)], ids=str)
def test_params_that_do_not_decode(client, params, message):
    err = client.error(READ, params)
    assert err.code == -32602 and message in (None, err.message)


def test_it_needs_the_handshake(server):
    with server.connect(init=False) as client:
        err = client.error(READ, {"cwd": "file:///", "configPaths": [["a"]], "requirementsPaths": []})
        assert (err.code, err.message) == (-32600, "client must call initialize before using environment config methods")


class Odd:
    """Things that may lie in a project where a configuration file is expected. Each function makes one at `path`."""

    @staticmethod
    def fifo(path):
        os.mkfifo(path)

    @staticmethod
    def device(path):
        os.symlink("/dev/zero", path)

    @staticmethod
    def endless(path):
        os.symlink("/proc/self/pagemap", path)

    @staticmethod
    def terminal(path):
        os.symlink("/dev/ptmx", path)

    @staticmethod
    def ring(path):
        os.symlink(path, path)

    @staticmethod
    def directory(path):
        os.mkdir(path)

    @staticmethod
    def huge(path):
        with open(path, "wb") as f:
            f.truncate(1 << 40)


@pytest.mark.parametrize("kind", [name for name in vars(Odd) if not name.startswith("_")])
@pytest.mark.parametrize("place", ["home", "p/.codex"])
def test_a_file_that_is_none_holds_up_nobody(client, tmp, home, place, kind):
    """An answer at once, whatever a project has put there; and it is an error, not "no such layer"."""
    os.makedirs(f"{tmp}/p/.codex")
    os.makedirs(f"{tmp}/p/.git")
    if place != "home":
        make(f"{home}/config.toml", f'[projects."{tmp}/p"]\ntrust_level = "trusted"\n'.encode())
    getattr(Odd, kind)(f"{tmp}/{place}/config.toml")
    e = client.error(READ, {"cwd": uri(f"{tmp}/p"), "configPaths": [["model"]], "requirementsPaths": []}, timeout=5)
    assert e.code == -32603 and "failed to load executor-local config" in e.message and len(e.message) < 1000, e.message
    assert client.run(["echo", "on"])[0] == b"on\n"
