"""`farhand mcp --allow, --deny, --ask-hosts`: what servers are asked for, what the user is asked about hosts, and what a model is told. The server is
a script: it says what a managed network would."""

import asyncio
import json
import os
import subprocess

import pytest

from fake_server import FakeServer
from farhand_client import BIN, merged_env
from mcp_rig import Mcp
from test_mcp_questions import questions, say

LAUNCH = {"networkProxyLaunch": True}
ALL = {**LAUNCH, "networkProxyReviewDomains": True, "egressV1": True}


class Script:
    """A server each of whose commands reaches `host`:443, and prints what was answered. It tells what it denied."""

    def __init__(self, capabilities, host="a.test"):
        self.capabilities, self.host, self.starts, self.waiting = capabilities, host, [], {}

    async def __call__(self, peer):
        info = {"cwd": "file:///tmp", "shell": {"name": "sh", "path": "/bin/sh"}, "capabilities": {"processControlV1": True, **self.capabilities}}
        tasks = []
        async for text in peer.ws:
            message = json.loads(text)
            method, ident = message.get("method"), message.get("id")
            if method is None:
                self.waiting.pop(ident).set_result(message["result"])
            elif method == "initialize":
                await peer.send(id=ident, result={"sessionId": "s", "environmentInfo": info})
            elif method == "environment/info":
                await peer.send(id=ident, result=info)
            elif method == "process/start":
                self.starts.append(message["params"])
                await peer.send(id=ident, result={"processId": message["params"]["processId"]})
                tasks.append(asyncio.create_task(self.command(peer, message["params"])))
            elif ident is not None:
                await peer.send(id=ident, result={})
        for task in tasks:
            task.cancel()

    async def command(self, peer, start):
        name, answer = start["processId"], {"decision": {"type": "deny", "reason": "not_allowed"}}
        if start.get("networkProxy", {}).get("policyDecisionTimeoutMs"):
            number = len(self.starts)
            self.waiting[number] = asyncio.get_running_loop().create_future()
            await peer.send(id=number, method="network/policyRequest",
                            params={"processId": name, "request": {"protocol": "https_connect", "host": self.host, "port": 443}})
            answer = await self.waiting[number]
        word, reason = answer["decision"]["type"], answer["decision"].get("reason", "allow")
        if "networkProxy" in start:
            for _ in range(2):
                await peer.send(method="network/policyDecision", params={
                    "processId": name, "timestamp": "2026-11-16T04:20:36.259Z", "scope": "domain", "decision": word, "source": "decider", "reason": reason,
                    "protocol": "https_connect", "host": self.host, "port": 443, "method": "CONNECT", "policyOverride": False})
        peer.start = start
        await peer.output(1, word.encode() + b"\n")
        await peer.ended(2)


def proxy_of(start):
    return start["networkProxy"]["proxy"]


def client(server, *args, **more):
    return Mcp("--workspace-write", *args, where=("--url", server.url, "-C", "/tmp"), **more)


def rules_of(one):
    path = os.path.join(one.base, "home", "rules", "default.rules")
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as f:
        return f.read()


def test_hosts_become_the_policy_of_every_command():
    script = Script(LAUNCH)
    with FakeServer(script) as server, client(server, "--allow", "b.test", "--deny", "c.test") as one:
        output = one.exec("x")["output"]
    assert proxy_of(script.starts[0])["domains"] == {"b.test": "allow", "c.test": "deny"}
    assert "policyDecisionTimeoutMs" not in script.starts[0]["networkProxy"]
    # The model is told once why its command has failed.
    assert output == "farhand: no connection to a.test port 443: it is not allowed\ndeny\n"


def test_without_wishes_nothing_is_managed():
    script = Script(ALL)
    with FakeServer(script) as server, client(server) as one:
        one.exec("x")
    assert "networkProxy" not in script.starts[0]


def test_a_server_that_cannot_keep_it_gets_no_command():
    for capabilities, args, words in (({}, ["--allow", "a"], "manages no network"), (LAUNCH, ["--allow", "a:22"], "knows no ports")):
        script = Script(capabilities)
        with FakeServer(script) as server, client(server, *args) as one:
            assert words in one.failure("exec_command", cmd="x", login=False)
        assert not script.starts


def test_options_that_make_no_sense_are_refused():
    for args, words in ((["--allow", "https://a"], b"--allow: `https://a` is no host"), (["--ask-hosts", "always"], b"never or user")):
        done = subprocess.run([BIN, "mcp", *args], env=merged_env({}), stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
        assert done.returncode == 2 and words in done.stderr, done


@pytest.mark.parametrize("word, shown, asked", [("once", "allow", 2), ("session", "allow", 1), ("deny", "deny", 2)])
def test_the_user_is_asked_about_a_host(word, shown, asked):
    script = Script(ALL)
    with FakeServer(script) as server, client(server, "--ask-hosts", "user", ask=say(word)) as one:
        for _ in range(2):
            assert one.exec("x")["output"].endswith(f"{shown}\n")
        assert len(questions(one)) == asked
        lines = questions(one)[0]["message"].split("\n")
        assert lines[:2] == ["Let a command reach this host? a.test:443", "Protocol: https_connect"]
        assert rules_of(one) == ""


def test_always_adds_a_rule_that_counts_at_once():
    script = Script(ALL)
    with FakeServer(script) as server, client(server, "--ask-hosts", "user", ask=say("always")) as one:
        assert one.exec("x")["output"] == "allow\n"
        line = 'network_rule(host="a.test", protocol="https", decision="allow", ports=[443])'
        assert rules_of(one) == line + "\n"
        assert f'all commands in the sandbox reach the host unasked: {line}' in questions(one)[0]["message"]
        one.exec("x")
    assert proxy_of(script.starts[0]).get("rules") is None
    assert proxy_of(script.starts[1])["rules"] == [{"host": "a.test", "ports": [443], "action": "allow"}]


def test_a_client_that_cannot_be_asked_says_no():
    script = Script(ALL)
    with FakeServer(script) as server, client(server, "--ask-hosts", "user") as one:
        assert one.exec("x")["output"].endswith("deny\n")


def test_what_the_process_has_chosen_cannot_look_like_the_question():
    script = Script(ALL, host="a\nRule harmless")
    with FakeServer(script) as server, client(server, "--ask-hosts", "user", ask=say("deny")) as one:
        output = one.exec("x")["output"]
        assert "Let a command reach this host? a\n    | Rule harmless:443" in questions(one)[0]["message"]
        assert questions(one)[0]["requestedSchema"]["properties"]["decision"]["enum"] == ["once", "session", "deny"]  # no rule can name it
    assert "\nRule harmless" not in output
