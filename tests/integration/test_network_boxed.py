"""Managed networks and sandboxes, as recordings 56 and 58 of the reference have it: what is enforced, what is advice, and for how long.

Each test says what the reference does; where ours differs on purpose, it says so. With FARHAND_REFERENCE_166 the reference answers too.
"""

import contextlib
import json
import os
import socket

import pytest

from farhand_client import RpcError, wait_until
from network_rig import PLAIN, PROBE, PYTHON, Network, allow, body, http, policy, status
from sandbox_rig import external, sandbox, special, unrestricted
from test_network_recordings import REFERENCE
from world import PUBLIC, world_or_skip

LOOPBACK = "127.0.0.1"


@pytest.fixture(scope="module", params=["ours", pytest.param("reference", marks=pytest.mark.skipif(
    not REFERENCE, reason="no reference server: FARHAND_REFERENCE_166 names none"))])
def network(request):
    upstream = {"HTTP_PROXY": "http://127.0.0.1:3129", "HTTPS_PROXY": "http://127.0.0.1:3129"}
    with world_or_skip() as world, \
            Network(world, env=upstream, reference=REFERENCE if request.param == "reference" else None) as network:
        network.is_ours = request.param == "ours"
        yield network


ASKS = [http(LOOPBACK), http("other.test"), {"do": "socks", "host": LOOPBACK, "port": 7, "atyp": 1}]
AROUND = [
    {"do": "direct", "host": LOOPBACK, "port": 80}, {"do": "direct", "host": PUBLIC, "port": 80},
    {"do": "direct", "host": "::1", "port": 80}, {"do": "direct", "host": "2606:2800::34", "port": 80},
    {"do": "direct", "host": "good.test", "port": 80, "family": "AF_INET"},
    {"do": "direct", "host": PUBLIC, "port": 53, "kind": "dgram"}, {"do": "direct", "host": LOOPBACK, "port": 53, "kind": "dgram"},
]


@pytest.mark.parametrize("profile_network", ["enabled", "restricted"])
def test_the_proxy_is_the_only_network(network, profile_network):
    since = network.world.mark()
    ended = network.probe(ASKS + AROUND, allow(LOOPBACK), network=profile_network)
    got = ended.results
    assert [status(got[0]), status(got[1]), got[2].get("echo")] == [200, 403, "E:hi"]
    assert all(what not in ("connected", "sent") for what in got[3:9])
    # Datagrams to a loopback without listeners are taken and lost.
    assert [d["decision"] for d in ended.decisions] == ["allow", "deny", "allow"]
    assert network.world.asked(since) == set()
    if network.is_ours:  # the reference's bridges and proxy are on loopback themselves
        assert network.world.packets(since) == {("tcp", LOOPBACK, 80), ("tcp", LOOPBACK, 7)}


@pytest.mark.parametrize("permissions", [{"type": "disabled"}, external("enabled"), unrestricted("enabled")], ids=lambda p: p["type"])
def test_the_proxy_is_the_only_network_of_a_profile_that_restricts_nothing(network, permissions):
    ended = network.probe([http(LOOPBACK), *AROUND[:2]], allow(LOOPBACK), box=False, enforceManagedNetwork=True,
                          sandbox=sandbox(permissions, network.cwd))
    got = ended.results
    assert status(got[0]) == 200 and got[1:] == ["ECONNREFUSED", "ENETUNREACH"]


def test_the_network_of_a_command_that_names_its_sandbox_in_its_arguments_is_enforced(network):
    """The reference executes the program of that name."""
    if not network.is_ours:
        pytest.skip("the reference does not take its place")
    for name in ("enabled", "restricted"):
        policy = json.dumps({"kind": "restricted", "entries": [special("root", "read")]})
        argv = ["/home/of-the-client/codex-linux-sandbox", "--sandbox-policy-cwd", network.cwd,
                "--file-system-sandbox-policy", policy, "--network-sandbox-policy", json.dumps(name), "--",
                PYTHON, PROBE, json.dumps([http(LOOPBACK), *AROUND[:2]])]
        ended = network.run(argv, allow(LOOPBACK), box=False, enforceManagedNetwork=True)
        got = ended.results
        assert status(got[0]) == 200 and got[1:] == ["ECONNREFUSED", "ENETUNREACH"], (name, ended)
        with pytest.raises(RpcError, match="managed network enforcement is not available"):
            network.start(argv, None, box=False, enforceManagedNetwork=True)


def test_without_enforcement_it_is_advice(network):
    got = network.probe([http(LOOPBACK), *AROUND[:2]], allow(LOOPBACK), enforce=False).results
    assert status(got[0]) == 200 and got[1:] == ["connected", "connected"]


def test_without_a_sandbox_it_is_advice_even_when_enforced(network):
    params = {"enforceManagedNetwork": True}
    got = network.probe([http(LOOPBACK), *AROUND[:2]], allow(LOOPBACK), box=False, **params).results
    assert status(got[0]) == 200 and got[1:] == ["connected", "connected"]


def test_enforcement_without_a_proxy_runs_nothing_that_has_a_network(network):
    """The reference fails with 101 before the command; in ours it may start, or be refused, but has no network at all."""
    since = network.world.mark()
    with contextlib.suppress(RpcError):
        ended = network.sh("echo began; exec 3<>/dev/tcp/127.0.0.1/80", None)
        assert ended.code != 0
    assert network.world.packets(since) == set()


def test_a_loopback_proxy_of_the_client_is_no_way_out(network):
    """The reference makes a tunnel to any loopback port that the variables name (x7). Ours does not."""
    if not network.is_ours:
        pytest.skip("the reference does")
    since = network.world.mark()
    with contextlib.suppress(RpcError):
        network.run(["curl", "-s", "-m", "2", "http://whatever.test/"], None, env={"http_proxy": "http://127.0.0.1:80"})
    assert network.world.packets(since) == set()


def test_killing_everything_in_sight_harms_no_network(network):
    script = "import os, sys\n" \
             "for pid in map(int, filter(str.isdigit, os.listdir('/proc'))):\n" \
             "    if pid not in (1, os.getpid(), os.getppid()):\n" \
             "        try: os.kill(pid, 9)\n" \
             "        except OSError: pass\n" \
             "os.execv('/usr/bin/curl', ['curl', '-sS', '-m', '10', 'http://127.0.0.1/'])"
    ended = network.run(["/usr/bin/python3", "-c", script], allow(LOOPBACK))
    assert ended.code == 0 and ended.out.startswith(b"UP GET /"), ended


BACKGROUND = "({ while ! [ -e %s ]; do sleep 0.05; done; " \
             "curl -s -m 5 -o /dev/null -w 'bg %%{http_code}\\n' http://127.0.0.1/; }) %s & echo main"


def test_the_network_of_a_background_child_goes_on_while_it_holds_the_streams(network):
    gate = os.path.join(network.cwd, "gate-held")
    ident = network.start(["/bin/sh", "-c", BACKGROUND % (gate, "")], allow(LOOPBACK), box=False)
    network.client.wait_exit(ident)
    with open(gate, "w", encoding="ascii"):
        pass
    ended = network.finish(ident)
    assert ended.out == b"main\nbg 200\n"


def test_decisions_of_a_command_that_ends_at_once_are_told(network):
    for _ in range(10):
        ident = network.start(["curl", "-s", "-m", "5", "http://other.test/"], allow(LOOPBACK))
        network.finish(ident)
        wait_until(lambda ident=ident: [d["decision"] for d in network.client.decisions(ident)] == ["deny"], 2, "the decision")


def test_the_network_of_a_background_child_ends_with_the_streams(network):
    gate, told = (os.path.join(network.cwd, name) for name in ("gate-closed", "told"))
    ended = network.sh(BACKGROUND % (gate, f">{told} 2>&1"), allow(LOOPBACK), box=False)
    assert ended.out == b"main\n"
    with open(gate, "w", encoding="ascii"):
        pass

    def text():
        with contextlib.suppress(OSError), open(told, encoding="ascii") as f:
            return f.read()

    assert wait_until(text, what="the word of the child") == "bg 000\n"


UNIX = """
import socket, os, sys
for what in ('connect', 'listen', 'pair'):
    try:
        if what == 'pair':
            a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'
        else:
            s = socket.socket(socket.AF_UNIX)
            s.connect(sys.argv[1]) if what == 'connect' else (s.bind(sys.argv[2]), s.listen())
        print(what, 'ok')
    except OSError as e:
        print(what, e.errno)
"""


@pytest.mark.parametrize("more, reached", [({}, False), ({"unixSockets": "allow"}, False), ({"allowLocalBinding": True}, False),
                                           ({"dangerouslyAllowAllUnixSockets": True}, True)])
def test_unix_sockets(network, more, reached):
    """The filter of AF_UNIX is lifted by dangerouslyAllowAllUnixSockets alone, which ours refuses. A pair is free."""
    there, own = (os.path.join(network.cwd, name) for name in ("up.sock", f"own{reached}.sock"))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(there)
    with socket.socket(socket.AF_UNIX) as up:
        up.bind(there)
        up.listen()
        more = {"unixSockets": {there: "allow"}} if "unixSockets" in more else more
        if network.is_ours and reached:  # ours has no such sandbox, and does not run without it
            with pytest.raises(RpcError, match="dangerouslyAllowAllUnixSockets is not available"):
                network.start(["true"], policy(**more))
            return
        ended = network.run(["/usr/bin/python3", "-c", UNIX, there, own], policy(**more))
    words = ["connect ok", "listen ok"] if reached else ["connect 1", "listen 1"]
    assert ended.out.decode().splitlines() == [*words, "pair ok"], ended


def test_variables(network):
    def env(**more):
        got = network.one(policy(**more), "env")
        return {k: v for k, v in got.items() if k not in ("PATH", "PWD", "LC_CTYPE", "SHLVL", "_", "TMPDIR", "HOME", "OLDPWD")}

    def shown(value):
        return value.rpartition(":")[0] if "://" in value else value

    plain = env()
    http_names = {"HTTP_PROXY", "HTTPS_PROXY", "WS_PROXY", "WSS_PROXY", "http_proxy", "https_proxy", "ws_proxy", "wss_proxy",
                  "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY", "npm_config_proxy", "npm_config_http_proxy", "npm_config_https_proxy",
                  "NPM_CONFIG_PROXY", "NPM_CONFIG_HTTP_PROXY", "NPM_CONFIG_HTTPS_PROXY", "BUNDLE_HTTP_PROXY", "BUNDLE_HTTPS_PROXY",
                  "PIP_PROXY", "DOCKER_HTTP_PROXY", "DOCKER_HTTPS_PROXY"}
    socks_names = {"ALL_PROXY", "FTP_PROXY", "all_proxy", "ftp_proxy"}
    none_names = {"NO_PROXY", "no_proxy", "npm_config_noproxy", "NPM_CONFIG_NOPROXY", "BUNDLE_NO_PROXY"}
    wanted = {**{name: "http://127.0.0.1" for name in http_names}, **{name: "socks5h://127.0.0.1" for name in socks_names},
              **{name: "" for name in none_names}, "ELECTRON_GET_USE_PROXY": "true", "NODE_USE_ENV_PROXY": "1",
              "CODEX_NETWORK_PROXY_ACTIVE": "1", "CODEX_NETWORK_ALLOW_LOCAL_BINDING": "0"}
    assert {name: shown(value) for name, value in plain.items()} == wanted
    local = env(allowLocalBinding=True)
    assert local["CODEX_NETWORK_ALLOW_LOCAL_BINDING"] == "1"
    assert {local[name] for name in none_names} == {"localhost,127.0.0.1,::1,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"}
    without = env(enableSocks5=False)
    assert {without[name] for name in socks_names} == {without["HTTP_PROXY"]}


def test_variables_of_the_request_are_overridden(network):
    env = {"HTTP_PROXY": "http://127.0.0.1:1", "NO_PROXY": "*", "no_proxy": "*", "ALL_PROXY": "socks5h://127.0.0.1:1"}
    got = network.one(policy(), "env", how={"env": env})
    assert got["NO_PROXY"] == got["no_proxy"] == "" and got["HTTP_PROXY"] == got["http_proxy"]
    assert got["ALL_PROXY"] == got["all_proxy"]


def test_the_proxy_of_the_server(network):
    """allowUpstreamProxy: names go through the proxy that the server's environment names; literal addresses of its own go direct."""
    since = network.world.mark()
    got = network.probe([http("good.test", path="/q"), {"do": "connect", "to": "good.test:443"}, http(LOOPBACK, path="/l")],
                        allow("good.test", LOOPBACK, allowUpstreamProxy=True), box=False).results
    assert [status(each) for each in got] == [200, 200, 200]
    assert "UP GET http://good.test/q" in body(got[0]) and "UP GET /l" in body(got[2])
    assert [entry["line"] for entry in network.world.log(since, "proxied")] == [
        "GET http://good.test/q HTTP/1.1", "CONNECT good.test:443 HTTP/1.1"]


def test_the_proxy_of_the_server_is_not_used_unasked(network):
    since = network.world.mark()
    assert status(network.one(allow("good.test"), **http("good.test"))) == 200
    assert network.world.log(since, "proxied") == []


def test_managed_network_of_the_client_beside_ours_changes_nothing(network):
    got = network.probe([http(LOOPBACK), {"do": "env", "names": ["NO_PROXY"]}, AROUND[0]], allow(LOOPBACK),
                        managedNetwork={"loopbackPorts": [80], "allowLocalBinding": True}).results
    assert status(got[0]) == 200 and got[1] == {"NO_PROXY": ""} and got[2] != "connected"


def test_a_disabled_proxy_is_refused(network):
    with pytest.raises(RpcError, match="requires an enabled proxy"):
        network.start(["true"], {**PLAIN, "enabled": False})
