"""The real client 0.166.0 with its managed network, through a server in a world: allowed, denied, asked and approved by its reviewer.

FARHAND_REFERENCE_166 names the binary `codex`. Client, server and the scripted model all live in the world; the administrator's
requirements file, without which the client asks nobody, is laid over /etc in a mount namespace of the client's own.
"""

import os
import subprocess
import tempfile
import threading

import pytest

from farhand_client import PATIENCE, Server, merged_env
from network_rig import Reference
from reach import TREES
from scripted_model import ScriptedModel, call, say
from world import CLONE_NEWNET, PUBLIC, check, libc, world_or_skip

CODEX = os.environ.get("FARHAND_REFERENCE_166")
pytestmark = pytest.mark.skipif(not CODEX or os.geteuid() != 0, reason="no reference client: FARHAND_REFERENCE_166 names none, or no root")
SECONDS = 120 * PATIENCE
REQUIREMENTS = "[experimental_network]\nenabled = true\n"


@pytest.fixture(scope="module")
def world():
    with world_or_skip() as one:
        yield one


@pytest.fixture(name="desk")
def a_place_to_work():
    """Not in /tmp, where the client would not keep its helpers."""
    with tempfile.TemporaryDirectory(prefix="fh-client-", dir=TREES, ignore_cleanup_errors=True) as path:
        os.chmod(path, 0o755)
        yield path


@pytest.fixture(params=["ours", "reference"])
def server(request, world, desk):
    tmp = desk
    for name in ("home", "state", "w"):
        os.mkdir(f"{tmp}/{name}")
    env = {"HOME": f"{tmp}/home", "XDG_STATE_HOME": f"{tmp}/state"}
    if request.param == "reference":
        with Reference(CODEX, world, tmp, env) as one:
            one.tcp = one.tcp_url
            yield one
        return
    with Server(env=env, preexec_fn=world.enter) as one:
        one.tcp = one.url
        yield one


def model_in(world, script, verdict):
    """A model whose socket is in the world: made by a thread that has gone there."""
    made = []

    def make():
        with open(f"/proc/{world.proc.pid}/ns/net", "rb") as f:
            check(libc.setns(f.fileno(), CLONE_NEWNET), "setns")
        made.append(ScriptedModel(script, verdict))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return made[0]


class Told:
    """What the model of the client was told about its command, how often its reviewer was asked, and how the client ended."""

    def __init__(self, text, reviews, done):
        self.text, self.reviews, self.done = text, reviews, done

    def __repr__(self):
        return f"{self.text}\nreviews: {len(self.reviews)}\n{self.done.returncode} {self.done.stdout[-1500:]!r} " \
               f"{self.done.stderr[-1500:]!r}"


def run(world, url, where, command, *config, requirements=None, verdict=None):
    """The client's agent runs a command in the sandbox that lets it write its workspace."""
    told = []

    def script(outputs):
        yield [call("a", "exec_command", cmd=command, yield_time_ms=25000)]
        told.append(outputs["a"])
        yield [say("ok")]

    os.mkdir(f"{where}/client")
    env = merged_env({"HOME": where, "CODEX_HOME": f"{where}/client", "CODEX_EXEC_SERVER_URL": url, "RUST_LOG": "error",
                      **{name: None for name in os.environ if name.lower().endswith("_proxy")}})
    with model_in(world, script, verdict) as model:
        argv = [CODEX, *model.codex_args(f"{where}/w")[:-1], *(word for one in config for word in ("-c", one)), "go"]
        argv[argv.index("-s") + 1] = "workspace-write"
        if requirements:
            os.mkdir(f"{where}/over")
            with open(f"{where}/requirements.toml", "w", encoding="ascii") as f:
                f.write(requirements)
            lay = f"mount -t tmpfs t {where}/over; mkdir -p {where}/over/u/codex {where}/over/w; " \
                  f"cp {where}/requirements.toml {where}/over/u/codex/; " \
                  f"cp /etc/resolv.conf /etc/hosts /etc/nsswitch.conf {where}/over/u/; " \
                  f"mount -t overlay -o lowerdir=/etc,upperdir={where}/over/u,workdir={where}/over/w o /etc"
            argv = ["unshare", "-m", "--propagation", "private", "sh", "-ec", lay + '; exec "$@"', "sh", *argv]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, env=env, capture_output=True, timeout=SECONDS, check=False,
                              preexec_fn=world.enter)
        assert model.failure is None, model.failure
        return Told(told[0] if told else "", model.reviews, done)


NETWORK = "sandbox_workspace_write.network_access=true"
ON_REQUEST = ['approval_policy="on-request"', 'approvals_reviewer="auto_review"', NETWORK]


def proxy(**domains):
    """The feature of the client, with these domains (`_` stands for a dot)."""
    words = ",".join(f'"{name.replace("_", ".")}"="{what}"' for name, what in domains.items())
    return f"features.network_proxy={{enabled=true,domains={{{words}}}}}"


def fetch(*urls, more=""):
    return "; ".join(f"curl -s -m 30 {more} -w ' [%{{http_code}}]\\n' {url}" for url in urls)


def test_allowed_and_denied(world, server, desk):
    since = world.mark()
    command = fetch("http://good.test/a", "http://other.test/b", "http://bad.test/d") + "; " + \
        fetch("https://good.test/c", more=f"--cacert {world.folder}/ca.pem") + f"; curl -s -m 5 --noproxy '*' http://{PUBLIC}/past"
    told = run(world, server.tcp, desk, command, NETWORK, proxy(good_test="allow", bad_test="deny"))
    assert "UP GET /a" in told.text and "UP GET /c" in told.text, told
    assert told.text.count("[200]") == 2 and told.text.count("[403]") == 2 and "/past" not in told.text, told
    assert world.asked(since) - {os.uname().nodename} == {"good.test"} and not told.reviews


@pytest.mark.parametrize("outcome", ["allow", "deny"])
def test_asked_and_reviewed(world, server, desk, outcome):
    """A host that no rule names: the server asks the client, and that its reviewer."""
    since = world.mark()
    verdict = {"risk_level": "low", "user_authorization": "high", "outcome": outcome, "rationale": "fine"}
    told = run(world, server.tcp, desk, fetch("http://good.test/a", "http://bad.test/b"), *ON_REQUEST, proxy(bad_test="deny"),
               requirements=REQUIREMENTS, verdict=verdict)
    assert ("UP GET /a" in told.text) == (outcome == "allow"), told
    assert "UP GET /b" not in told.text and len(told.reviews) >= 1
    assert world.asked(since) - {os.uname().nodename} == ({"good.test"} if outcome == "allow" else set())


def test_an_allowed_host_under_review(world, server, desk):
    told = run(world, server.tcp, desk, fetch("http://good.test/a", "http://other.test/b"), *ON_REQUEST,
               proxy(good_test="allow", other_test="allow"), requirements=REQUIREMENTS + 'review_domains = ["good.test"]\n',
               verdict={"risk_level": "low", "user_authorization": "high", "outcome": "allow", "rationale": "fine"})
    assert "UP GET /a" in told.text and "UP GET /b" in told.text and len(told.reviews) == 1, told


def test_without_the_feature_there_is_no_managed_network(world, server, desk):
    told = run(world, server.tcp, desk, fetch(f"http://{PUBLIC}/a"), NETWORK)
    assert "UP GET /a" in told.text, told


@pytest.mark.parametrize("capability, config, words", [
    ("networkProxyLaunch", [NETWORK, proxy(good_test="allow")], "does not support executor-local network proxy launches"),
    ("networkProxyReviewDomains", [*ON_REQUEST, proxy(good_test="allow")], None)])
def test_without_a_capability(world, server, desk, capability, config, words):
    """The client runs nothing when it needs a capability that the server does not announce."""
    port = world.order("relay", path=None, port=int(server.tcp.rpartition(":")[2]), swap=[f'"{capability}"', f'"{capability[:-1]}_"'])
    needs_review = words is None
    told = run(world, f"ws://127.0.0.1:{port}", desk, fetch("http://good.test/a"), *config,
               requirements=REQUIREMENTS + ('review_domains = ["good.test"]\n' if needs_review else ""))
    assert "UP GET /a" not in told.text and (words or "") in told.text, told
