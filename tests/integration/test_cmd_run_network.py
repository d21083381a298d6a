"""`farhand run --allow, --deny, --ask`: what a server is asked for, what the person is asked about hosts, and what an answer does. The server
is a script: it says what a managed network would."""

import json
import os
import shutil
import subprocess
import tempfile

import pytest

from fake_server import FakeServer
from farhand_client import BIN, merged_env
from tmux_rig import Tmux, farhand

needs_tmux = pytest.mark.skipif(not shutil.which("tmux"), reason="no tmux")
LAUNCH = {"networkProxyLaunch": True}
ALL = {**LAUNCH, "networkProxyReviewDomains": True, "egressV1": True}
QUESTION = "The command wants to reach a host that it was not granted."


class Script:
    """A server whose command reaches `targets`, [(host, port)], one connection after the other, and prints the answers."""

    def __init__(self, capabilities, targets=(), decisions=()):
        self.capabilities, self.targets, self.decisions = capabilities, targets, decisions
        self.start, self.answers = None, []

    async def __call__(self, peer):
        info = {"cwd": "file:///tmp", "capabilities": {"processControlV1": True, **self.capabilities}}
        await peer.answer("initialize", {"sessionId": "s", "environmentInfo": info})
        await peer.next("initialized")
        self.start = peer.start = await peer.answer("process/start", {"processId": "p"})
        ident = self.start["processId"]
        for decision in self.decisions:
            await peer.send(method="network/policyDecision", params={"processId": ident, **decision})
        for number, (host, port) in enumerate(self.targets):
            request = {"protocol": "https_connect", "host": host, "port": port}
            await peer.send(id=number, method="network/policyRequest", params={"processId": ident, "request": request})
            while "id" not in (message := json.loads(await peer.ws.recv())) or message["id"] != number or "method" in message:
                pass
            self.answers.append(message["result"])
        await peer.output(1, b"".join(f"{a['decision']['type']}\n".encode() for a in self.answers))
        await peer.ended(2)
        await peer.stay()


@pytest.fixture(name="home")
def home_of():
    with tempfile.TemporaryDirectory(prefix="fh-net-", dir="/tmp") as base:
        yield base


def run(server, home, *args):
    """Without a terminal."""
    return subprocess.run([BIN, "run", "--url", server.url, "-n", *args, "--", "x"], env=merged_env({"HOME": home}), stdin=subprocess.DEVNULL,
                          capture_output=True, check=False, start_new_session=True, timeout=60)


def proxy_of(script):
    return script.start["networkProxy"]["proxy"]


def write_rules(home, text):
    os.makedirs(f"{home}/.config/farhand/rules", exist_ok=True)
    with open(f"{home}/.config/farhand/rules/default.rules", "w", encoding="ascii") as f:
        f.write(text)


def test_hosts_become_the_domains_of_the_policy(home):
    script = Script(LAUNCH)
    with FakeServer(script) as server:
        done = run(server, home, "--read-only", "--allow", "a.test", "--allow", "**.b.test", "--deny", "c.b.test")
    assert done.returncode == 0, done
    assert proxy_of(script)["domains"] == {"a.test": "allow", "**.b.test": "allow", "c.b.test": "deny"}
    assert "rules" not in proxy_of(script) and script.start["enforceManagedNetwork"] is True
    assert "policyDecisionTimeoutMs" not in script.start.get("networkProxy", {})


def test_ports_become_rules_where_the_server_knows_them(home):
    script = Script(ALL)
    with FakeServer(script) as server:
        done = run(server, home, "--workspace-write", "--allow", "a.test:22", "--allow", "b.test", "--allow", "10.0.0.1:80", "--deny", "c.test")
    assert done.returncode == 0, done
    assert proxy_of(script)["rules"] == [
        {"host": "a.test", "ports": [22], "action": "allow"},
        {"host": "b.test", "ports": ["1-65535"], "action": "allow"},
        {"cidr": "10.0.0.1/32", "ports": [80], "action": "allow"},
        {"host": "c.test", "ports": ["1-65535"], "action": "deny"},
    ]
    assert proxy_of(script)["domains"] == {}


def test_what_cannot_be_kept_is_refused_before_anything_runs(home):
    rows = [
        ({}, ["--read-only", "--allow", "a"], 255, b"this server manages no network (networkProxyLaunch)"),
        (LAUNCH, ["--read-only", "--allow", "a:22"], 255, b"this server knows no ports (egressV1): a can be named with all its ports, or not at all"),
        (ALL, ["--allow", "a"], 2, b"--allow and --deny need --read-only, --workspace-write or --profile"),
        (ALL, ["--read-only", "--network", "--deny", "a"], 2, b"--network leaves the network open"),
        (ALL, ["--read-only", "--allow", "https://a"], 255, b"--allow: `https://a` is no host: leave the scheme and the path of a URL away"),
        (ALL, ["--read-only", "--deny", "*"], 255, b"--deny: `*` cannot be denied"),
        (ALL, ["--read-only", "--allow", "a:http"], 255, b"--allow: `a:http` has no port behind its colon"),
    ]
    for capabilities, args, code, words in rows:
        script = Script(capabilities)
        with FakeServer(script) as server:
            done = run(server, home, *args)
        assert done.returncode == code and words in done.stderr, (args, done)
        assert script.start is None


def test_network_rules_become_the_policy(home):
    write_rules(home, 'network_rule(host="a.test", protocol="https", decision="allow")\nnetwork_rule(host="b.test", protocol="https", decision="deny")\n')
    for args, domains in ((["--default-rules"], {"a.test": "allow", "b.test": "deny"}), ([], None)):
        script = Script({**LAUNCH, "execInterceptV1": True})
        with FakeServer(script) as server:
            done = run(server, home, "--read-only", *args)
        assert done.returncode == 0, done
        assert (proxy_of(script)["domains"] if domains else script.start.get("networkProxy")) == domains
    # Where the network is open anyway, nobody shall believe in them; where it cannot be managed it stays closed.
    script = Script({**LAUNCH, "execInterceptV1": True})
    with FakeServer(script) as server:
        done = run(server, home, "--default-rules")
    assert "networkProxy" not in script.start and b"the network rules have no effect" in done.stderr
    script = Script({"execInterceptV1": True})
    with FakeServer(script) as server:
        done = run(server, home, "--read-only", "--default-rules")
    assert done.returncode == 0 and "networkProxy" not in script.start, done


def decision(host, reason, action="deny"):
    return {"timestamp": "2026-11-16T04:20:36.259Z", "scope": "domain", "decision": action, "source": "baseline_policy", "reason": reason,
            "protocol": "http", "host": host, "port": 80, "method": "GET", "client": "127.0.0.1:1", "policyOverride": False}


def test_refused_hosts_are_told_once(home):
    decisions = [decision("a.test", "not_allowed"), decision("a.test", "not_allowed"), decision("\x1b[2J", "denied"), decision("ok.test", "allow", "allow")]
    with FakeServer(Script(LAUNCH, decisions=decisions)) as server:
        done = run(server, home, "--read-only", "--allow", "ok.test")
    assert done.stderr == b"farhand: no connection to a.test:80: it is not allowed\nfarhand: no connection to \\x1b[2J:80: it is denied\n"


def test_without_a_terminal_nobody_is_asked(home):
    script = Script(ALL, [("a.test", 443)])
    with FakeServer(script) as server:
        done = run(server, home, "--read-only", "--ask")
    assert "policyDecisionTimeoutMs" not in script.start.get("networkProxy", {})
    assert done.stdout == b"deny\n"  # should a server ask all the same


def asked(home, script, *args):
    server = FakeServer(script)
    return server, Tmux(farhand("run", "--url", server.url, "-n", "--read-only", "--ask", *args, "--", "x"), {"HOME": home})


@needs_tmux
@pytest.mark.parametrize("line, shown", [("y", "allow"), ("yes", "allow"), ("n", "deny"), ("", "deny")])
def test_the_person_is_asked_about_a_host(home, line, shown):
    script = Script(ALL, [("a.test", 443)])
    server, tmux = asked(home, script)
    with server, tmux as t:
        t.expect(QUESTION)
        seen = t.expect("[N]o?")
        assert "host: a.test:443" in seen and "by: https_connect" in seen
        t.line(line)
        t.expect("[over 0]")
        assert f"\n{shown}\n" in t.screen()
    assert script.start["networkProxy"]["policyDecisionTimeoutMs"] == 900000
    assert "remember" not in script.answers[0]


@needs_tmux
@pytest.mark.parametrize("tty", [(), ("-t",)], ids=["pipe", "tty"])
def test_a_yes_for_the_command_is_asked_for_once(home, tty):
    script = Script(ALL, [("a.test", 443), ("a.test", 443), ("a.test", 22)])
    server, tmux = asked(home, script, *tty)
    with server, tmux as t:
        t.expect("a.test:443")
        t.line("perhaps")
        t.line("c")
        t.expect("a.test:22")
        t.line("n")
        assert t.over() == 0
    assert [a["decision"]["type"] for a in script.answers] == ["allow", "allow", "deny"]
    assert [a.get("remember") for a in script.answers] == ["process", "process", None]
    assert script.answers[2]["decision"]["reason"] == "the answer was no"


@needs_tmux
def test_always_adds_a_rule_that_counts_the_next_time(home):
    script = Script(ALL, [("a.test", 443)])
    server, tmux = asked(home, script)
    with server, tmux as t:
        t.expect("[a]lways")
        assert 'always adds: network_rule(host="a.test", protocol="https"' in t.screen()
        t.line("a")
        t.expect("[over 0]")
    path = f"{home}/.config/farhand/rules/default.rules"
    with open(path, encoding="ascii") as f:
        assert f.read() == 'network_rule(host="a.test", protocol="https", decision="allow", ports=[443])\n'
    script = Script(ALL)
    server, tmux = asked(home, script)
    with server, tmux as t:
        t.expect("[over 0]")
    assert proxy_of(script)["rules"] == [{"host": "a.test", "ports": [443], "action": "allow"}]


@needs_tmux
def test_what_the_process_has_chosen_cannot_look_like_a_question(home):
    script = Script(ALL, [("\x1b[2Ja\nLet it?", 443)])
    server, tmux = asked(home, script)
    with server, tmux as t:
        t.expect("[N]o?")
        written = t.raw(b"[N]o?")
        assert rb"\x1b[2Ja\x0aLet it?:443" in written and b"\x1b[2Ja" not in written
        t.line("a")  # such a host becomes no rule; the yes holds for the command
        t.expect("the rule is not added")
        t.expect("[over 0]")
    assert not os.path.exists(f"{home}/.config/farhand/rules/default.rules")


def test_observe_lets_pass_and_prints_what_was_asked_for(home):
    targets = [("a.test", 443), ("a.test", 443), ("a.test", 22), ("fe80::1", 80), ("\x1b[2J", 1)]
    for capabilities, lines in (
            (LAUNCH, ["--allow a.test", "--allow fe80::1", "--allow \\x1b[2J", 'network_rule(host="a.test", protocol="https", decision="allow")',
                      'network_rule(host="fe80::1", protocol="https", decision="allow")']),
            (ALL, ["--allow a.test:443", "--allow a.test:22", "--allow [fe80::1]:80", "--allow \\x1b[2J:1",
                   *[f'network_rule(host="{host}", protocol="https", decision="allow", ports=[{port}])'
                     for host, port in (("a.test", 443), ("a.test", 22), ("fe80::1", 80))]])):
        script = Script(capabilities, targets)
        with FakeServer(script) as server:
            done = subprocess.run([BIN, "egress", "observe", "--url", server.url, "--", "x"], env=merged_env({"HOME": home}), stdin=subprocess.DEVNULL,
                                  capture_output=True, check=False, timeout=60)
        assert done.returncode == 0 and done.stdout == b"allow\n" * 5, done
        assert [line for line in done.stderr.decode().splitlines() if "\\x1b" not in line or line.startswith("--")] == lines
        assert proxy_of(script)["domains"] == {} and script.start["networkProxy"]["policyDecisionTimeoutMs"] == 60000


def test_observe_says_when_there_is_nothing_or_it_cannot(home):
    def observe(script, *args):
        with FakeServer(script) as server:
            return subprocess.run([BIN, "egress", "observe", "--url", server.url, *args, "--", "x"], env=merged_env({"HOME": home}),
                                  stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
    assert observe(Script(LAUNCH)).stderr == b"farhand: the command has asked for no host\n"
    done = observe(Script({}))
    assert done.returncode == 255 and b"networkProxyLaunch" in done.stderr
    assert observe(Script(LAUNCH), "--network").returncode == 2
