"""The npm package: made by scripts/npm-package, installed by npm into an empty directory, and used by the names that it brings.
FARHAND_NPM_TARBALL names one that is made already; without it the programs beside the tested one are packed."""

import json
import os
import platform
import shutil
import signal
import subprocess
import tempfile

import pytest

import test_mcp_sdk
from farhand_client import BIN, PATIENCE, REPO, merged_env, wait_until
from mcp_rig import LATEST
from reach import TREES

SECONDS = 120 * PATIENCE
NODE, NPM = shutil.which("node"), shutil.which("npm")
pytestmark = pytest.mark.skipif(not (NODE and NPM), reason="no node, or no npm")
PROGRAMS = ("farhand", "farhand-init", "farhand-execve-wrapper")


def run(argv, **kw):
    return subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False, **{"stdin": subprocess.DEVNULL, **kw})


class Package:
    def __init__(self, base):
        self.base, self.home, self.work = base, f"{base}/home", f"{base}/work"
        for path in (self.home, self.work, f"{base}/empty"):
            os.mkdir(path)
        self.env = merged_env({"HOME": self.home, "FARHAND_HOME": self.home, "CODEX_HOME": self.home, "FARHAND_URL": None, "XDG_CONFIG_HOME": None,
                               "CODEX_EXEC_SERVER_URL": None, "XDG_STATE_HOME": self.home, "CODEX_BASH_PATH": None,
                               "npm_config_cache": f"{base}/cache", "npm_config_update_notifier": "false"})
        tarball = os.environ.get("FARHAND_NPM_TARBALL") or self.make()
        done = run([NPM, "install", "--offline", "--no-audit", "--no-fund", "--prefix", f"{base}/empty", tarball], cwd=f"{base}/empty", env=self.env)
        assert done.returncode == 0, done.stdout + done.stderr
        self.root = f"{base}/empty/node_modules"

    def make(self):
        beside = os.path.dirname(os.path.realpath(BIN))
        missing = [name for name in PROGRAMS if not os.path.exists(f"{beside}/{name}")]
        if missing:
            pytest.skip(f"{beside} has no {missing[0]}")
        done = run([f"{REPO}/scripts/npm-package", f"{self.base}/npm-package", f"{platform.machine()}={beside}"], env=self.env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def bin(self, name):
        return f"{self.root}/.bin/{name}"

    def call(self, name, *args, **kw):
        return run([self.bin(name), *args], env=self.env, cwd=self.work, **kw)


@pytest.fixture(scope="module")
def package():
    base = tempfile.mkdtemp(prefix="fh-npm-", dir=TREES)
    yield Package(base)
    shutil.rmtree(base, ignore_errors=True)


def message(ident, method, **params):
    return json.dumps({"jsonrpc": "2.0", "id": ident, "method": method, "params": params}) + "\n"


HELLO = message(1, "initialize", protocolVersion=LATEST, capabilities={}, clientInfo={"name": "t", "version": "0"})


def test_it_brings_its_names_and_no_other(package):
    assert sorted(os.listdir(f"{package.root}/.bin")) == ["farhand", "farhand-mcp", "farhand-names"]
    assert sorted(name for name in os.listdir(package.root) if name[0] != ".") == ["farhand"], "it depends on nothing"
    version = package.call("farhand", "--version")
    with open(f"{package.root}/farhand/package.json", encoding="utf-8") as f:
        value = json.load(f)
    assert version.stdout == f"farhand {value['version']}\n" and version.returncode == 0
    assert not value.get("scripts") and not value.get("dependencies") and value["os"] == ["linux"]


def test_arguments_streams_and_the_exit_code_pass_through(package):
    done = package.call("farhand", "run", "--", "sh", "-c", 'cat; printf "%s|" "$@"; echo oops >&2; exit 7', "sh", "a", "b c", "",
                        "ü\n", "--", stdin=None, input="in\n")
    assert (done.returncode, done.stdout, done.stderr) == (7, "in\na|b c||ü\n|--|", "oops\n")
    bad = package.call("farhand-mcp", "--nonsense")
    assert bad.returncode == 2 and "--nonsense" in bad.stderr


@pytest.fixture
def server(package):
    """The launcher of an MCP server that has answered."""
    with subprocess.Popen([package.bin("farhand-mcp"), "--env", "local"], cwd=package.work, env=package.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          start_new_session=True, text=True) as proc:
        proc.stdin.write(HELLO)
        proc.stdin.flush()
        assert json.loads(proc.stdout.readline())["result"]["serverInfo"]["name"] == "farhand"
        yield proc
        proc.stdin.close()
        proc.wait(SECONDS)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(word) for word in f.read().split()]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signals_are_forwarded(server, name):
    signo = getattr(signal, name)
    server.send_signal(signo)
    assert server.wait(SECONDS) == 128 + signo  # the exit code of farhand mcp


def test_a_child_that_a_signal_ends_ends_the_launcher_alike(server):
    (child,) = children(server.pid)
    os.kill(child, signal.SIGKILL)
    assert server.wait(SECONDS) == -signal.SIGKILL


def test_the_server_ends_when_its_launcher_is_killed(server):
    (child,) = children(server.pid)
    server.kill()
    server.wait(SECONDS)
    server.stdin.close()
    wait_until(lambda: not os.path.exists(f"/proc/{child}"), SECONDS)


def test_the_name_of_the_reference_comes_on_request(package):
    directory = f"{package.base}/names"
    os.mkdir(directory)
    link = f"{directory}/codex-exec-mcp-server"
    for _ in range(2):
        assert package.call("farhand-names", "codex-exec-mcp-server", directory).returncode == 0 and os.path.islink(link)
    assert os.path.samefile(link, f"{package.root}/farhand/bin/codex-exec-mcp-server.js")
    for _ in range(2):
        assert package.call("farhand-names", "--remove", "codex-exec-mcp-server", directory).returncode == 0 and not os.path.lexists(link)
    with open(link, "w", encoding="ascii") as f:
        f.write("of another package")
    for more in ([], ["--remove"]):
        done = package.call("farhand-names", *more, "codex-exec-mcp-server", directory)
        assert done.returncode == 1 and "is not ours" in done.stderr and os.path.getsize(link) == 18
    for args in ([], ["sh"], ["constructor"], ["codex-exec-mcp-server", directory, "x"]):
        assert package.call("farhand-names", *args).returncode == 2
    assert package.call("farhand-names", "codex-exec-mcp-server").returncode == 0 and os.path.islink(package.bin("codex-exec-mcp-server"))
    assert package.call("farhand-names", "--remove", "codex-exec-mcp-server").returncode == 0


def test_the_name_of_the_reference_gets_wrapper_and_bash(package):
    """With a program in the place of ours that prints its arguments."""
    copy = f"{package.base}/copy"
    shutil.copytree(f"{package.root}/farhand", copy)
    (target,) = os.listdir(f"{copy}/vendor")
    vendor = f"{copy}/vendor/{target}"
    with open(f"{vendor}/farhand", "w", encoding="ascii") as f:
        f.write('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    shutil.rmtree(f"{vendor}/bash", ignore_errors=True)
    argv = [NODE, f"{copy}/bin/codex-exec-mcp-server.js", "--preserve-program-paths"]

    def bash(**more):
        words = run(argv, env={**package.env, **more}).stdout.split("\n")
        assert words[:3] == ["--execve", f"{vendor}/farhand-execve-wrapper", "--bash"] and words[4:] == ["--preserve-program-paths", ""], words
        return words[3]

    assert bash() == "/bin/bash"
    assert bash(CODEX_BASH_PATH="/other/bash") == "/other/bash"
    for name in ("ubuntu-24.04", "ubuntu-22.04", "ubuntu-20.04", "debian-12", "debian-11", "centos-9"):
        os.makedirs(f"{vendor}/bash/{name}")
        with open(f"{vendor}/bash/{name}/bash", "w", encoding="ascii"):
            pass
    system = platform.freedesktop_os_release()
    if system["ID"] == "debian" and system.get("VERSION_ID") == "12":
        assert bash(CODEX_BASH_PATH="/other/bash") == f"{vendor}/bash/debian-12/bash"
    else:
        assert bash().startswith(f"{vendor}/bash/")


@pytest.mark.skipif(bool(test_mcp_sdk.NO_SANDBOX), reason=test_mcp_sdk.NO_SANDBOX or "-")
def test_the_name_of_the_reference_serves_shell(package):
    assert package.call("farhand-names", "codex-exec-mcp-server").returncode == 0
    with subprocess.Popen([package.bin("codex-exec-mcp-server")], cwd=package.work, env=package.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as proc:
        proc.stdin.write(HELLO + message(2, "tools/call", name="shell",
                                         arguments={"command": "echo $BASH_VERSION; /bin/echo hi", "workdir": package.work, "login": False}))
        proc.stdin.flush()
        assert "codex/sandbox-state" in json.loads(proc.stdout.readline())["result"]["capabilities"]["experimental"]
        result = json.loads(proc.stdout.readline())["result"]
        proc.stdin.close()
        assert proc.wait(SECONDS) == 0
    assert json.loads(result["content"][0]["text"])["exit_code"] == 0 and result["content"][0]["text"].count("\\nhi\\n") == 1, result
    assert package.call("farhand-names", "--remove", "codex-exec-mcp-server").returncode == 0


def test_a_machine_without_programs_is_told(package):
    copy = f"{package.base}/bare"
    shutil.copytree(f"{package.root}/farhand", copy)
    shutil.rmtree(f"{copy}/vendor")
    done = run([NODE, f"{copy}/bin/farhand.js", "--version"], env=package.env)
    assert done.returncode == 1 and done.stderr.startswith("farhand: this package lacks ") and done.stderr.count("\n") == 1


def test_the_programs_of_each_machine_are_chosen_by_its_os_release():
    done = run([NODE, "--test", f"{REPO}/packaging/npm/test/"])
    assert done.returncode == 0, done.stdout


def test_the_sdk_drives_what_npm_has_installed(package):
    if not os.path.exists(os.path.join(test_mcp_sdk.SDK, "dist", "esm", "client", "stdio.js")):
        pytest.skip("no npm package @modelcontextprotocol/sdk: run `scripts/setup npm`")
    if test_mcp_sdk.NO_SANDBOX:
        pytest.skip(test_mcp_sdk.NO_SANDBOX)
    paths = [tempfile.mkdtemp(prefix="sdk-", dir=package.base) for _ in range(2)]
    done = run([NODE, f"{os.path.dirname(__file__)}/mcp_client.mjs", test_mcp_sdk.SDK, package.bin("farhand"), *paths], env=package.env)
    assert done.returncode == 0, done.stdout + done.stderr
    saw = json.loads(done.stdout)
    assert {"exec_command", "write_stdin", "apply_patch"} <= set(saw["tools"]) and saw["work"] == ["patched"] and saw["approved"] == 0
    assert saw["after"] == "done\n" and saw["errors"] == []
