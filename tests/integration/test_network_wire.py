"""Managed networks as the server sees them: what process/start answers, what clients are asked and told, and what becomes of it all when
farhand-egress dies, hangs or is an enemy. The tests play farhand-egress (fake_egress.py); what the real one lets through is tested in the
other files about networks.
"""

import base64
import errno
import json
import os
import shutil
import signal
import socket
import threading
import time

import pytest

from fake_egress import ANSWER, CLOSE, CLOSED, OPEN, FakeEgress, parent_of
from farhand_client import Closed, RpcError, Server, pid_alive, wait_until
from network_rig import PLAIN, policy
from sandbox_rig import external, sandbox

ENV = {"PATH": "/usr/bin:/bin", "HTTP_PROXY": "http://other:1", "NO_PROXY": "x", "KEPT": "1"}
REQUEST, DECISION = "network/policyRequest", "network/policyDecision"
HTTP_NAMES = """HTTP_PROXY HTTPS_PROXY http_proxy https_proxy WS_PROXY WSS_PROXY ws_proxy wss_proxy YARN_HTTP_PROXY YARN_HTTPS_PROXY
    BUNDLE_HTTP_PROXY BUNDLE_HTTPS_PROXY npm_config_proxy npm_config_http_proxy npm_config_https_proxy NPM_CONFIG_PROXY
    NPM_CONFIG_HTTP_PROXY NPM_CONFIG_HTTPS_PROXY PIP_PROXY DOCKER_HTTP_PROXY DOCKER_HTTPS_PROXY""".split()
SOCKS_NAMES = "ALL_PROXY all_proxy FTP_PROXY ftp_proxy".split()
NO_NAMES = "NO_PROXY no_proxy npm_config_noproxy NPM_CONFIG_NOPROXY BUNDLE_NO_PROXY".split()
LOCAL = "localhost,127.0.0.1,::1,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"


@pytest.fixture(scope="module")
def fake(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, FakeEgress(str(tmp_path_factory.mktemp("e"))) as fake:
        patch.setattr("farhand_client.BIN", fake.binary)
        yield fake


@pytest.fixture
def server(fake):
    with Server(["--log-level", "info"], env={k: None for k in os.environ if k.lower().endswith("_proxy")}) as server:
        server.fake = fake
        yield server


@pytest.fixture
def client(server):
    with server.connect() as client:
        yield client


def params(process_id="p", script="exec sleep 1000", proxy=None, launch=None, box=False, **more):
    params = {"processId": process_id, "argv": ["/bin/sh", "-c", script], "cwd": "file:///", "env": ENV, "tty": False, "pipeStdin": False,
              "arg0": None, "networkProxy": {"proxy": proxy or PLAIN, **(launch or {})}, **more}
    if box:
        params.update(sandbox=sandbox(external("enabled"), "/"), enforceManagedNetwork=True)
    return params


def start(client, process_id="p", **kw):
    return client.call("process/start", params(process_id, **kw), 30)


def asked(client, link, timeout_ms=60000, process_id="p"):
    """Starts a process whose client is asked. Returns its network."""
    start(client, process_id, launch={"policyDecisionTimeoutMs": timeout_ms})
    return link.next(OPEN)["network"]


@pytest.fixture
def link(server, client):
    """A running process `p` with its network open, and the farhand-egress that has it."""
    start(client, "p", launch={"policyDecisionTimeoutMs": 60000})
    link = server.fake.link(server)
    link.network = link.next(OPEN)["network"]
    return link


def request(client, count=1, timeout=10):
    """Waits for the request number `count` of the server."""
    return wait_until(lambda: requests(client)[count - 1:count], timeout, "a request of the server")[0]


def requests(client):
    return [m for m in client.messages if m.get("method") == REQUEST and "id" in m]


def answer(client, request_id, body):
    client.send_json({"id": request_id, **body})


def decisions(client, count=1):
    def told():
        return [m["params"] for m in client.notifications if m["method"] == DECISION]
    return wait_until(lambda: told() if len(told()) >= count else None, 10, "decisions")


# Starts


def test_without_the_program_nothing_is_managed(fake, monkeypatch, tmp):
    os.makedirs(f"{tmp}/bin")
    shutil.copy(fake.binary, f"{tmp}/bin/farhand")
    monkeypatch.setattr("farhand_client.BIN", f"{tmp}/bin/farhand")
    with Server() as server, server.connect() as client:
        capabilities = client.call("environment/info")["capabilities"]
        assert not capabilities["networkProxyLaunch"] and not capabilities["networkProxyReviewDomains"]
        with pytest.raises(RpcError) as e:
            start(client)
        assert e.value.code == -32602
        assert e.value.message == "networkProxy is not available on this executor: network helper not installed"
        assert start(client, networkProxy=None)["sandboxType"] == "none"


def test_with_the_program_and_namespaces_it_is_announced(client):
    info = client.call("environment/info")
    has = info["sandboxBackend"] in ("namespaces", "bubblewrap")
    assert info["capabilities"]["networkProxyLaunch"] is has and info["capabilities"]["networkProxyReviewDomains"] is has
    assert client.init_result["environmentInfo"]["capabilities"]["networkProxyLaunch"] in (True, has)


def test_landlock_alone_enforces_no_network(fake):
    with Server(["--sandbox-backend", "landlock"]) as server, server.connect() as client:
        assert not client.call("environment/info")["capabilities"]["networkProxyLaunch"]
        with pytest.raises(RpcError) as e:
            start(client, box=True)
        assert e.value.code == -32602


def test_what_is_wrong_is_said_before_anything_is_started(client):
    for proxy, text in (({**PLAIN, "enabled": False}, "executor-local network proxy launch requires an enabled proxy"),
                        (policy({"[": "allow"}), "brackets are only supported for IPv6 literals or [*]: [")):
        with pytest.raises(RpcError) as e:
            start(client, proxy=proxy)
        assert (e.value.code, e.value.message) == (-32602, "invalid network proxy config: " + text)
    with pytest.raises(RpcError) as e:
        start(client, proxy=policy(credentialMasking=True))
    assert (e.value.code, e.value.message) == (-32602, "credential masking is not available on this executor")


def variables(client, process_id="p"):
    return dict(line.split("=", 1) for line in client.output(process_id, "stdout").decode().splitlines())


@pytest.mark.parametrize("has_socks, is_local", [(True, False), (False, True)])
def test_without_a_sandbox_it_is_advice(client, server, has_socks, is_local):
    proxy = policy({"a.test": "allow"}, enableSocks5=has_socks, allowLocalBinding=is_local)
    assert start(client, script="env; exec sleep 1000", proxy=proxy)["network"] == "advisory"
    link = server.fake.link(server)
    opened = link.next(OPEN)
    assert opened["inlets"] == [(0, 0), (1, 0)][:1 + has_socks]
    assert b"a.test" in link.policies[opened["network"]]
    listeners = link.sockets[opened["network"]]
    wait_until(lambda: b"CODEX_NETWORK_ALLOW_LOCAL_BINDING" in client.output("p", "stdout"), 10, "the variables")
    found = variables(client)
    urls = [f"http://127.0.0.1:{listeners[0].getsockname()[1]}"]
    urls.append(f"socks5h://127.0.0.1:{listeners[1].getsockname()[1]}" if has_socks else urls[0])
    assert {name: found.pop(name) for name in HTTP_NAMES} == {name: urls[0] for name in HTTP_NAMES}
    assert {name: found.pop(name) for name in SOCKS_NAMES} == {name: urls[1] for name in SOCKS_NAMES}
    assert {found.pop(name) for name in NO_NAMES} == {LOCAL if is_local else ""}
    assert found["KEPT"] == "1" and found["CODEX_NETWORK_PROXY_ACTIVE"] == found["NODE_USE_ENV_PROXY"] == "1"
    assert found["ELECTRON_GET_USE_PROXY"] == "true" and found["CODEX_NETWORK_ALLOW_LOCAL_BINDING"] == str(int(is_local))
    with socket.create_connection(listeners[0].getsockname(), timeout=10):
        assert listeners[0].accept()


@pytest.mark.parametrize("has_socks", [True, False])
def test_in_a_sandbox_it_is_enforced(client, server, has_socks):
    if client.call("environment/info")["sandboxBackend"] not in ("namespaces", "bubblewrap"):
        pytest.skip("no namespaces here")
    script = 'echo "$HTTP_PROXY $ALL_PROXY"; exec /bin/bash -c "exec 5<>/dev/tcp/127.0.0.1/3128; read -r line <&5; echo $line"'
    script = script.replace("$line", "\\$line")
    assert start(client, script=script, box=True, proxy=policy(enableSocks5=has_socks))["network"] == "enforced"
    link = server.fake.link(server)
    opened = link.next(OPEN)
    assert opened["inlets"] == [(0, 0), (1, 0)][:1 + has_socks]
    listener = link.sockets[opened["network"]][0]
    assert listener.getsockname() == ("127.0.0.1", 3128)
    listener.settimeout(30)
    connection, _ = listener.accept()
    connection.sendall(b"hello\n")
    client.wait_closed("p", 30)
    second = "socks5h://127.0.0.1:1080" if has_socks else "http://127.0.0.1:3128"
    assert client.output("p", "stdout").decode() == f"http://127.0.0.1:3128 {second}\nhello\n"
    assert link.next(CLOSE)["network"] == opened["network"]


def is_refused(port):
    with socket.socket() as sock:
        sock.settimeout(10)
        return sock.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED


def test_what_was_decided_at_the_end_is_told(client, server, link):
    client.call("process/terminate", {"processId": "p"})
    client.wait_closed("p")
    link.next(CLOSE)
    link.decided(link.network, count=2)
    assert decisions(client)[0]["count"] == 2
    link.ask(link.network, 1)  # but nothing is asked
    link.send(CLOSED, link.network)
    link.decided(link.network)
    start(client, "q")
    assert link.next(OPEN)["network"] != link.network
    assert not requests(client) and len(decisions(client)) == 1


def test_the_end_of_the_process_closes_its_network(client, server, link):
    port = link.sockets[link.network][0].getsockname()[1]
    link.decided(link.network)
    link.decided(link.network, action="deny", reason="not_allowed", count=3)
    decisions(client, 2)
    client.call("process/terminate", {"processId": "p"})
    assert link.next(CLOSE)["network"] == link.network
    wait_until(lambda: is_refused(port), 10, "the end of the sockets")  # a child that tests sandboxes may have copies for a moment
    exited = client.wait_exit("p")
    assert exited["connections"] == {"allowed": 1, "denied": 3}
    # The next process gets the same farhand-egress, and another network.
    start(client, "q")
    assert link.next(OPEN)["network"] != link.network


# Questions


def test_the_client_is_asked_in_the_words_of_the_reference(client, link):
    link.ask(link.network, 7, "other.test", 443, "https_connect")
    text = json.dumps(request(client))
    assert text == json.dumps({"id": 1, "method": REQUEST, "params": {
        "processId": "p", "request": {"protocol": "https_connect", "host": "other.test", "port": 443}}})
    answer(client, 1, {"result": {"decision": {"type": "allow"}}})
    got = link.next(ANSWER)
    assert (got["question"], got["action"], got["reason"], got["remember"]) == (7, "allow", "", 0)


ANSWERS = [
    ({"result": {"decision": {"type": "deny", "reason": "no"}}}, "deny", "no"),
    ({"result": {"decision": {"type": "deny", "reason": ""}}}, "deny", "policy_denied"),
    ({"result": {"decision": {"type": "deny", "reason": "x" * 1024}}}, "deny", "x" * 1024),
    ({"result": {"decision": {"type": "deny", "reason": "x" * 1025}}}, "deny", "not_allowed"),
    ({"result": {"decision": {"type": "deny", "reason": "a\nb"}}}, "deny", "not_allowed"),
    ({"result": {"decision": {"type": "ask", "reason": "please wait"}}}, "ask", "please wait"),
    ({"result": {"decision": {"type": "allow", "extra": 1}}}, "allow", ""),
    ({"result": {"decision": {"type": "deny"}}}, "deny", "not_allowed"),
    ({"result": {"decision": "allow"}}, "deny", "not_allowed"),
    ({"result": {"decision": {"type": "maybe", "reason": ""}}}, "deny", "not_allowed"),
    ({"result": {}}, "deny", "not_allowed"),
    ({"result": None}, "deny", "not_allowed"),
    ({"result": {"decision": {"type": "allow"}, "remember": "always"}}, "deny", "not_allowed"),
    ({"result": {"decision": {"type": "allow"}, "ttlMs": 5}}, "deny", "not_allowed"),
    ({"error": {"code": -32000, "message": "x"}}, "deny", "not_allowed"),
]


def test_what_is_no_answer_denies(client, link):
    for number, (body, action, reason) in enumerate(ANSWERS, 1):
        link.ask(link.network, number, f"h{number}.test")
        assert request(client, number)["id"] == number
        answer(client, number, body)
        got = link.next(ANSWER)
        assert (got["question"], got["action"], got["reason"]) == (number, action, reason), body


def test_one_question_is_open_for_a_target(client, link):
    link.ask(link.network, 1)
    link.ask(link.network, 2)
    link.ask(link.network, 3, port=81)
    request(client, 2)
    answer(client, 1, {"result": {"decision": {"type": "deny", "reason": "both"}}})
    assert [link.next(ANSWER)["question"] for _ in range(2)] == [1, 2]
    assert [m["params"]["request"]["port"] for m in requests(client)] == [80, 81]


def test_an_answer_that_nobody_waits_for_is_ignored(client, link):
    link.ask(link.network, 1)
    request(client)
    link.withdraw(link.network, 1)
    link.ask(link.network, 2, "b.test")
    request(client, 2)
    for _ in range(2):  # given up, and answered twice
        answer(client, 1, {"result": {"decision": {"type": "allow"}}})
    answer(client, 2, {"result": {"decision": {"type": "allow"}}})
    assert link.next(ANSWER)["question"] == 2
    assert client.call("environment/status") == {"status": "ready"}


@pytest.mark.parametrize("request_id", [2, 0, -1, "1"])
def test_an_answer_to_nothing_ends_the_connection(client, link, request_id):
    link.ask(link.network, 1)
    request(client)
    answer(client, request_id, {"result": {}})
    with pytest.raises((Closed, OSError)):
        client.call("environment/status")


@pytest.mark.slow
def test_silence_denies_after_the_time_of_the_client_and_five_seconds(client, server):
    start(client, launch={"policyDecisionTimeoutMs": 1})
    link = server.fake.link(server)
    network = link.next(OPEN)["network"]
    link.ask(network, 1)
    request(client)
    got = link.next(ANSWER, timeout=30)
    assert (got["action"], got["reason"]) == ("deny", "not_allowed")
    answer(client, 1, {"result": {"decision": {"type": "allow"}}})  # too late
    assert client.call("environment/status") == {"status": "ready"}


def test_a_client_that_resumes_is_asked_again(server, client, link):
    link.ask(link.network, 1)
    link.ask(link.network, 2, "b.test")
    request(client, 2)
    answer(client, 2, {"result": {"decision": {"type": "allow"}}})
    assert link.next(ANSWER)["question"] == 2
    client.abort()
    link.ask(link.network, 3, "c.test")  # nobody is there
    with server.connect(resume=client.session_id) as again:
        request(again, 2)
        assert [(m["id"], m["params"]["request"]["host"]) for m in requests(again)] == [(1, "a.test"), (2, "c.test")]
        answer(again, 2, {"result": {"decision": {"type": "deny", "reason": "c"}}})
        answer(again, 1, {"result": {"decision": {"type": "deny", "reason": "a"}}})
        assert [(m["question"], m["reason"]) for m in (link.next(ANSWER), link.next(ANSWER))] == [(3, "c"), (1, "a")]


def test_what_is_remembered_is_not_asked_again(client, link):
    link.ask(link.network, 1)
    request(client)
    answer(client, 1, {"result": {"decision": {"type": "allow"}, "remember": "process", "ttlMs": 60000}})
    got = link.next(ANSWER)
    assert (got["action"], got["remember"], got["ttl_ms"]) == ("allow", 1, 60000)

    link.ask(link.network, 2, "b.test")
    request(client, 2)
    answer(client, 2, {"result": {"decision": {"type": "deny", "reason": "never"}, "remember": "session"}})
    assert link.next(ANSWER)["remember"] == 1
    other = asked(client, link, process_id="q")
    link.ask(other, 9, "b.test")
    got = link.next(ANSWER)
    assert (got["network"], got["question"], got["action"], got["reason"]) == (other, 9, "deny", "never")
    link.ask(other, 10, "a.test")  # was remembered for another process
    assert request(client, 3)["params"]["processId"] == "q"


def test_a_process_that_asks_for_too_much_is_denied(client, link):
    for number in range(1, 260):
        link.ask(link.network, number, f"h{number}.test")
    got = [link.next(ANSWER) for _ in range(3)]
    request(client, 256)
    assert {(m["action"], m["reason"]) for m in got} == {("deny", "not_allowed")} and len(requests(client)) == 256
    link.ask(asked(client, link, process_id="q"), 1, "h1.test")  # another process has questions of its own
    assert request(client, 257)["params"]["processId"] == "q"


def test_a_client_that_does_not_read_is_asked_later(fake, tmp):
    """A command that asks and hangs up must not fill the memory of the server with questions for a client that is busy."""
    rounds, name = 16000, "x" * 60 + ".test"
    with Server(["--log-level", "info"], listen=f"unix://{tmp}/s") as server, server.connect() as client:
        start(client, "p", launch={"policyDecisionTimeoutMs": 60000})
        start(client, "q")
        link = fake.link(server)
        asking, silent = link.next(OPEN)["network"], link.next(OPEN)["network"]
        client.pause_reading()
        for number in range(1, rounds):
            link.ask(asking, number, f"h{number}.{name}")
            link.withdraw(asking, number)
        link.ask(asking, rounds, "last.test")
        link.ask(silent, 1)
        link.next(ANSWER)  # of a command without questions: the server has read them all
        client.resume_reading()
        wait_until(lambda: [m for m in requests(client) if m["params"]["request"]["host"] == "last.test"], 10, "the last question")
        last = requests(client)[-1]["id"]
        assert last < rounds * 3 / 4
        answer(client, last, {"result": {"decision": {"type": "allow"}}})
        assert link.next(ANSWER)["question"] == rounds


def test_a_command_without_questions_is_denied(client, server):
    start(client)
    link = server.fake.link(server)
    link.ask(link.next(OPEN)["network"], 1)
    got = link.next(ANSWER)
    assert (got["action"], got["reason"]) == ("deny", "not_allowed") and not requests(client)


# What clients are told


def test_decisions_are_told_in_the_words_of_the_reference(client, link):
    link.decided(link.network, "loop.test", "allow", "decider", "not_allowed", port=8000, flags=6)
    link.decided(link.network, "127.0.0.1", "deny", "mode_guard", "mitm_required", "socks5_tcp", 443, flags=1, method="", count=9)
    told = [json.dumps(one) for one in decisions(client, 2)]
    common = {"processId": "p", "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.123Z", time.gmtime(1795000000))}
    assert told[0] == json.dumps({**common, "scope": "domain", "decision": "allow", "source": "decider", "reason": "not_allowed",
                                  "protocol": "http", "host": "loop.test", "port": 8000, "method": "GET", "client": "127.0.0.1:5",
                                  "policyOverride": True})
    assert told[1] == json.dumps({**common, "scope": "non_domain", "decision": "deny", "source": "mode_guard", "reason": "mitm_required",
                                  "protocol": "socks5_tcp", "host": "127.0.0.1", "port": 443, "client": "127.0.0.1:5",
                                  "policyOverride": False, "count": 9})


def test_decisions_without_a_reader_are_summed_up(server, client, link):
    client.abort()
    with server.connect() as other:
        wait_until(lambda: not any(one["attached"] for one in other.call("session/list")["sessions"] if one["processes"]), 10, "its end")
    for _ in range(3):
        link.decided(link.network)
    for n in range(70):
        link.decided(link.network, f"h{n}.test", "deny", reason="not_allowed")
    link.ask(link.network, 2, "b.test")
    with server.connect(resume=client.session_id) as again:
        request(again)
        told = decisions(again, 64)
        hosts = {d["host"]: d.get("count", 1) for d in told}
        link.decided(link.network, "last.test")
        told = decisions(again, len(told) + 1)
    everything = sum(d.get("count", 1) + d.get("omitted", 0) for d in told)
    assert everything == 74 and hosts["a.test"] == 3


def test_connections_are_logged(server, client, link):
    link.connection(link.network)
    wait_until(lambda: "network connection" in server.stderr(), 10, "a line in the log")
    line = next(line for line in server.stderr().splitlines() if "network connection" in line)
    for part in ("proc=p", "protocol=http", "host=a.test", "port=80", "address=", "action=allow", "up=10", "down=20", "duration_ms=7"):
        assert part in line, line


# When farhand-egress dies, hangs or is an enemy


def reopened(server, client, link):
    """Waits until the network is open again. A connection that was made meanwhile is still there."""
    port = link.sockets[link.network][0].getsockname()[1]
    link.ended()
    link.close()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as waiting:
        again = server.fake.link(server)
        opened = again.next(OPEN)
        listener = again.sockets[opened["network"]][0]
        assert listener.getsockname()[1] == port
        listener.settimeout(10)
        connection, address = listener.accept()
        assert address == waiting.getsockname()
        connection.close()
    assert client.call("environment/status") == {"status": "ready"}
    again.network = opened["network"]
    return again


def egress_pid(server):
    return next(int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_egress_of(server, pid))


def is_egress_of(server, pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return b"--serve" in f.read().split(b"\0")[1:] and parent_of(pid) == server.pid
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_killed_egress_is_started_again(server, client, link):
    link.ask(link.network, 1)
    request(client)
    os.kill(egress_pid(server), signal.SIGKILL)
    again = reopened(server, client, link)
    answer(client, 1, {"result": {"decision": {"type": "allow"}}})  # to nobody
    again.ask(again.network, 1)
    assert request(client, 2)["id"] == 2
    answer(client, 2, {"result": {"decision": {"type": "allow"}}})
    assert again.next(ANSWER)["question"] == 1


def test_a_hung_egress_is_killed_and_started_again(server, client, link):
    pid = egress_pid(server)
    os.kill(pid, signal.SIGSTOP)
    link.sock.settimeout(60)
    reopened(server, client, link)
    assert not pid_alive(pid)


JUNK = {
    "nonsense": b"nonsense",
    "an empty body": b"\1\101\0\0",
    "another version": b"\2\106\0\0",
    "a message of the server": b"\1\5\0\0",
    "a length beyond the end": b"\1\101\0\0\1\0\0\0\1\0\0\0\0\120\0\377\377\377\377a",
    "an unknown protocol": b"\1\101\0\0\1\0\0\0\1\0\0\0\11\120\0\1\0\0\0a",
    "too long": b"\1\106\0\0" + b"x" * 20000,
    "closed, but it is open": None,
}


@pytest.mark.parametrize("what", JUNK)
def test_an_egress_that_breaks_the_rules_is_replaced(server, client, link, what):
    pid = egress_pid(server)
    if JUNK[what] is None:
        link.send(69, link.network)
    else:
        link.send_raw(JUNK[what])
    reopened(server, client, link)
    wait_until(lambda: not pid_alive(pid), 10, "its end")


def test_messages_about_unknown_networks_are_ignored(client, link):
    for network in (0, 77, 2**32 - 1):
        link.ask(network, 1)
        link.withdraw(network, 1)
        link.decided(network)
        link.connection(network)
        link.send(69, network)
    link.withdraw(link.network, 99)
    link.ask(link.network, 5)
    assert request(client)["id"] == 1
    assert not [m for m in client.notifications if m["method"] == DECISION]


def test_a_flood_of_an_egress_holds_up_nobody(server, client, link):
    is_over = threading.Event()

    def flood():
        link.sock.settimeout(30)
        while not is_over.is_set():
            link.decided(link.network, base64.b64encode(os.urandom(20)).decode())

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        for _ in range(20):
            assert client.call("environment/status", timeout=30) == {"status": "ready"}
    finally:
        is_over.set()
        thread.join()
    assert "network helper lost" not in server.stderr()


def test_the_program_gets_no_other_variables(fake):
    with Server(env={"HTTP_PROXY": "http://up:1", "SECRET": "s", "http_proxy": None}) as server, server.connect() as client:
        start(client)
        fake.link(server).next(OPEN)
        with open(f"/proc/{egress_pid(server)}/environ", "rb") as f:
            names = {line.split(b"=")[0] for line in f.read().split(b"\0") if line}
    assert b"HTTP_PROXY" in names and not {name for name in names if not name.upper().endswith((b"_PROXY", b"SAN_OPTIONS"))}


def test_a_start_waits_for_an_egress_that_is_about_to_come_back(server, client, link):
    for _ in range(3):  # it dies young, and the pauses grow
        os.kill(egress_pid(server), signal.SIGKILL)
        link = reopened(server, client, link)
    os.kill(egress_pid(server), signal.SIGKILL)
    link.ended()
    assert start(client, "q")["network"] == "advisory"
    again = server.fake.link(server)
    assert {again.next(OPEN)["network"] for _ in range(2)} >= {link.network}
