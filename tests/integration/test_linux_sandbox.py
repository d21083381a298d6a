"""codex-linux-sandbox: older clients wrap sandboxed commands in a program of that name, which is on their own machine."""

import json
import os
import socket
import subprocess

import pytest

from farhand_client import BIN, RpcError
from sandbox_rig import ENV, USERS, become, rig_of

ROOT = {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}
CWD = {"path": {"type": "special", "value": {"kind": "current_working_directory"}}, "access": "write"}
WRAPPER = "/home/of-the-client/.codex/tmp/arg0/codex-arg0x/codex-linux-sandbox"


@pytest.fixture(scope="module", params=USERS)
def rig(request):
    with rig_of(request.param) as r:
        yield r


class Place:
    """A workspace and what is beside it."""

    def __init__(self, rig):
        self.rig = rig
        self.tree = rig.tree()
        self.w, self.o = self.tree.dir(self.tree.w), self.tree.dir(self.tree.o)
        # A path in the client's policy that does not exist on the server.
        self.memories = "/home/of-the-client/.codex/memories"

    def words(self, *command, entries=(ROOT, CWD), network="restricted", cwd=None, more=(), name=WRAPPER):
        entries = [*entries, {"path": {"type": "path", "path": self.memories}, "access": "write"}]
        return [name, "--sandbox-policy-cwd", self.w, "--command-cwd", cwd or self.w,
                "--sandbox-policy", json.dumps({"type": "workspace-write", "writable_roots": [self.memories],
                                                "network_access": False, "exclude_tmpdir_env_var": False,
                                                "exclude_slash_tmp": False}),
                "--file-system-sandbox-policy", json.dumps({"kind": "restricted", "entries": entries}),
                "--network-sandbox-policy", json.dumps(network), *more, "--", *command]

    def params(self, argv, **kw):
        return {"processId": f"w{next(self.rig._names)}", "argv": argv, "cwd": self.w, "env": ENV, "tty": False,
                "pipeStdin": False, "arg0": argv[0], **kw}

    def run(self, argv, **kw):
        params = self.params(argv, **kw)
        answer = self.rig.client.call("process/start", params, 30)
        done = self.rig.finish(params["processId"])
        return answer["sandboxType"], done


@pytest.fixture
def place(rig):
    return Place(rig)


SCRIPT = "echo $0 $1; pwd; echo new > here && echo wrote; echo x > {o}/f || echo kept out; mkdir .git || echo protected"


@pytest.mark.parametrize("tty", [False, True])
def test_the_policies_in_the_arguments_are_enforced(place, tty):
    argv = place.words("/bin/bash", "-c", SCRIPT.format(o=place.o), "name", "first")
    kind, done = place.run(argv, tty=tty)
    assert kind == "linuxSeccomp"
    lines = [line for line in done.out.decode().split() if line]
    assert done.out.decode().split("\n")[0].strip() == "name first", done
    for said in (place.w, "wrote", "protected"):
        assert said in lines, done
    assert b"kept out" in done.out
    assert os.path.exists(os.path.join(place.w, "here")) and os.listdir(place.o) == []


def test_the_command_starts_where_the_client_says(place):
    below = place.tree.dir(os.path.join(place.w, "below"))
    kind, done = place.run(place.words("/bin/sh", "-c", "pwd; touch ../x && echo above", cwd=below))
    assert (kind, done.out.decode()) == ("linuxSeccomp", f"{below}\nabove\n"), done


def test_the_network_is_closed_unless_the_policy_opens_it(place):
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5); print('open')"
        for network in ("restricted", "enabled"):
            _, done = place.run(place.words("/usr/bin/python3", "-c", script, network=network))
            assert (done.out == b"open\n") == (network == "enabled"), done


def test_a_failure_counts_as_denied(place):
    _, done = place.run(place.words("/bin/sh", "-c", f"echo x > {place.o}/f"))
    assert done.code != 0 and done.denied is True


def test_a_policy_that_restricts_nothing_runs_plainly(place):
    argv = [WRAPPER, "--sandbox-policy-cwd", place.w, "--sandbox-policy", '{"type":"danger-full-access"}', "--",
            "/bin/sh", "-c", f"echo x > {place.o}/f && echo wrote"]
    assert place.run(argv)[1].out == b"wrote\n"


@pytest.mark.parametrize("more, words", [(["--allow-network-for-proxy"], "--allow-network-for-proxy"),
                                         (["--proxy-route-spec", "{}"], "--proxy-route-spec"), (["--what"], "--what")])
def test_what_cannot_be_mapped_is_refused(place, more, words):
    argv = place.words("/bin/sh", "-c", "echo ran > here", more=more)
    with pytest.raises(RpcError) as caught:
        place.run(argv)
    err = caught.value
    assert err.code == -32602 and err.message.startswith("codex-linux-sandbox: ") and words in err.message
    assert err.data["reason"] == "sandboxUnavailable"
    assert os.listdir(place.w) == []


def test_without_policies_nothing_runs(place):
    with pytest.raises(RpcError) as caught:
        place.run([WRAPPER, "--sandbox-policy-cwd", place.w, "--", "/bin/sh", "-c", "echo ran > here"])
    assert caught.value.code == -32602 and os.listdir(place.w) == []


def test_a_program_that_is_here_is_executed(place):
    own = place.tree.file(os.path.join(place.w, "codex-linux-sandbox"), "#!/bin/sh\necho own $1\n")
    os.chmod(own, 0o755)
    assert place.run([own, "--what"])[1].out == b"own --what\n"
    assert place.run(["./codex-linux-sandbox", "--what"])[1].out == b"own --what\n"
    assert place.run(["codex-linux-sandbox", "--what"], env={**ENV, "PATH": place.w})[1].out == b"own --what\n"
    os.chmod(own, 0o644)
    with pytest.raises(RpcError) as caught:
        place.run([own, *place.words("true")[1:]])
    assert (caught.value.code, caught.value.data["errnoName"]) == (-32603, "EACCES"), "it is here, and cannot be executed"


def test_a_bare_name_that_no_directory_has(place):
    kind, done = place.run(place.words("/bin/sh", "-c", f"echo x > {place.o}/f || echo kept out", name="codex-linux-sandbox"))
    assert (kind, done.out) == ("linuxSeccomp", b"kept out\n"), done


# By its name, on this machine


@pytest.fixture
def link(place):
    path = os.path.join(place.tree.base, "codex-linux-sandbox")
    os.symlink(BIN, path)
    return path


def execute(place, argv):
    env = {name: value for name, value in {**ENV, **place.rig.env}.items() if value is not None}
    return subprocess.run(argv, cwd=place.w, env=env, preexec_fn=become(place.rig.uid), capture_output=True, timeout=60,
                          check=False)


def test_farhand_by_that_name_enforces_the_same(place, link):
    done = execute(place, place.words("/bin/bash", "-c", SCRIPT.format(o=place.o), "name", "first", name=link))
    assert done.stdout.decode().split("\n")[:3] == ["name first", place.w, "wrote"], done
    assert b"kept out" in done.stdout and b"protected" in done.stdout
    assert os.listdir(place.o) == []
    assert execute(place, place.words("/bin/sh", "-c", "exit 7", name=link)).returncode == 7


def test_farhand_by_that_name_refuses_what_it_does_not_know(place, link):
    done = execute(place, place.words("/bin/sh", "-c", "echo ran > here", name=link, more=["--allow-network-for-proxy"]))
    assert done.returncode == 125 and b"--allow-network-for-proxy" in done.stderr
    assert execute(place, [link, "serve"]).returncode == 125
    assert os.listdir(place.w) == []
