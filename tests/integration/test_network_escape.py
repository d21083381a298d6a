"""No packet leaves a managed network but through the proxy, and the proxy goes nowhere that was not granted.

The witness of the world sees every packet: after a whole series of attempts it must have seen the ones that were granted and no
other, and the name server none but granted names.
"""

import ipaddress
import json
import os
import socket

import pytest

from network_rig import PYTHON, Network, allow, body, get, http, policy, status
from reach import reachable
from world import PUBLIC, PUBLIC_6, world_or_skip

HERE = os.path.dirname(os.path.abspath(__file__))
ATTACK = reachable(os.path.join(HERE, "network_attack.py"))


@pytest.fixture(scope="module")
def world():
    with world_or_skip() as one:
        yield one


@pytest.fixture(scope="module", params=["root", "unprivileged"])
def network(world, request):
    if request.param == "unprivileged" and os.geteuid() != 0:
        pytest.skip("the tests are that user already")
    with Network(world, user=request.param) as one:
        yield one


@pytest.mark.parametrize("profile_network", ["enabled", "restricted"])
@pytest.mark.parametrize("more", [{}, {"allowLocalBinding": True}])
def test_no_packet_goes_past_the_proxy(network, more, profile_network):
    with socket.socket(socket.AF_UNIX) as stream, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram, \
            socket.socket(socket.AF_UNIX) as abstract:
        aim = {"granted": PUBLIC, "six": PUBLIC_6, "server": 8080, "unix": network.cwd + "/up", "unix_dgram": network.cwd + "/updg",
               "abstract": os.path.basename(network.base), "namespace": f"/proc/{network.world.proc.pid}/ns/net", "proxy": 3128}
        for sock, name in ((stream, aim["unix"]), (datagram, aim["unix_dgram"]), (abstract, "\0" + aim["abstract"])):
            sock.bind(name)
            if name[0] != "\0":
                os.chmod(name, 0o777)
            if sock is not datagram:
                sock.listen()
        datagram.setblocking(False)
        try:
            since = network.world.mark()
            ended = network.run([PYTHON, ATTACK, json.dumps(aim)], allow("good.test", PUBLIC, PUBLIC_6, **more),
                                network=profile_network)
            with pytest.raises(BlockingIOError):
                datagram.recv(100)
        finally:
            os.unlink(aim["unix"])
            os.unlink(aim["unix_dgram"])
    assert ended.code == 0, ended
    got = dict(json.loads(line) for line in ended.out.splitlines())
    assert got["interfaces"] == "only lo" and got["our own descriptors"] == "none" and got["descriptors in /proc"] == "none"
    bad = {name: what for name, what in got.items()
           if what in ("out", "made", "sent") or what.startswith(("took", "has", "sees", "listens"))}
    assert not bad, bad
    assert len(got) > 60
    assert network.world.packets(since) == set() and network.world.asked(since) == set()
    assert ended.decisions == []


# Requests that mean something else to one reader than to another: none may reach an address or name that was not granted.
SPELLINGS = [
    "10.1.2.3", "127.0.0.1", "127.1", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "2130706433", "0", "0.0.0.0", "017700000001", "127.0.0.1.",
    "[::1]", "[::]", "[::ffff:10.1.2.3]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1%25lo]", "[::127.0.0.1]",
    "169.254.169.254", "localhost", "localhost.", "LOCALHOST", "good.test@10.1.2.3", "good.test:80@10.1.2.3", "good.test%00.priv.test",
    "good.test%2epriv.test", "good.test#.priv.test", "priv.test", "meta.test", "loop.test", "zero.test", "mapped.test", "ula.test",
    "alias.test", "nat64.test", "sixtofour.test", "hosts-private.test", "other.test", "good.test.other.test", "xgood.test", "sub.test",
    "a.sub.test.evil.test", "good.test\t10.1.2.3", "good.test\\@10.1.2.3", "ｇood.test", "xn--good-.test", "." * 20, "a" * 300 + ".test",
    "1.1.1.1.", "[good.test]", "good.test:80:22", "good.test:65616", "good.test:-1", "good.test:+80x", "good.test:8 0", "",
]
GRANTED = ["good.test", "*.sub.test", "priv.test", "meta.test", "loop.test", "zero.test", "mapped.test", "ula.test", "alias.test",
           "nat64.test", "sixtofour.test", "hosts-private.test", "mixed.test"]


@pytest.mark.parametrize("proxy", ["plain", "callback"])
def test_no_spelling_of_a_host_leads_elsewhere(network, proxy):
    """Names that are granted but lead to private addresses reach nothing; also when the client allows everything."""
    steps = [step for host in SPELLINGS for step in (
        {"do": "http", "raw": get(host.encode().decode("latin-1"))},
        {"do": "connect", "to": host.encode().decode("latin-1") + ":80", "payload": "GET / HTTP/1.0\r\n\r\n", "expect": "UP"},
        {"do": "socks", "host": host[:255], "port": 80, "payload": "GET / HTTP/1.0\r\n\r\n", "expect": "UP"})]
    # Many at a time: some of them wait for the name server.
    steps = [{"do": "many", "steps": steps[at::6]} for at in range(6)]
    network.client.answer = {"decision": {"type": "allow"}}
    since = network.world.mark()
    launch = {"policyDecisionTimeoutMs": 20000} if proxy == "callback" else None
    ended = network.probe(steps, allow(*GRANTED), launch=launch, timeout=120)
    packets = network.world.packets(since)
    if proxy == "plain":
        assert packets <= {("tcp", PUBLIC, 80), ("tcp", PUBLIC_6, 80)}
        assert network.world.asked(since) <= set(GRANTED)
        reached = [r for many in ended.results for r in many if "UP GET" in r.get("text", "")]
        assert all('"host":"good.test' in r["text"].replace("[good.test]", "good.test") for r in reached), reached
    # The client has allowed every spelling: what is no private address is its own affair.
    assert all(protocol == "tcp" and port == 80 and ipaddress.ip_address(address).is_global for protocol, address, port in packets), packets
    assert not any(address.startswith(("64:ff9b:", "2002:", "::ffff:")) for _, address, _ in packets), packets


def test_every_request_of_a_connection_is_judged(network):
    """Kept alive and sent ahead: an allowed one first says nothing about those behind it."""
    since = network.world.mark()
    first = "GET http://good.test/1 HTTP/1.1\r\nHost: good.test\r\n\r\n"
    for second in ("GET http://other.test/2 HTTP/1.1\r\nHost: other.test\r\n\r\n", "GET /2 HTTP/1.1\r\nHost: other.test\r\n\r\n",
                   "CONNECT other.test:80 HTTP/1.1\r\nHost: other.test:80\r\n\r\n",
                   "GET http://10.1.2.3/2 HTTP/1.1\r\nHost: 10.1.2.3\r\n\r\n"):
        got = network.one(allow("good.test"), "http", raw=first + second, until_end=True, timeout=1)
        assert "UP GET /1" in got["text"] and "UP GET /2" not in got["text"] and "UP CONNECT" not in got["text"], got
    assert network.world.asked(since) == {"good.test"}
    assert network.world.packets(since) == {("tcp", PUBLIC, 80)}


SMUGGLED = "GET /smuggled HTTP/1.1\r\nHost: other.test\r\n\r\n"
FRAMINGS = {
    "two lengths": f"Content-Length: 0\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n{SMUGGLED}",
    "length and chunks": f"Content-Length: {len(SMUGGLED) + 5}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "chunks and length": f"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "an unknown coding": f"Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\n{SMUGGLED}",
    "a coding with a blank": f"Transfer-Encoding : chunked\r\nContent-Length: {len(SMUGGLED) + 5}\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "two codings": f"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "a folded header": f"Transfer-Encoding:\r\n chunked\r\nContent-Length: {len(SMUGGLED) + 5}\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "a length with a sign": f"Content-Length: +{len(SMUGGLED)}\r\n\r\n{SMUGGLED}",
    "a length in hex": f"Content-Length: 0x{len(SMUGGLED):x}\r\n\r\n{SMUGGLED}",
    "a chunk size with a sign": f"Transfer-Encoding: chunked\r\n\r\n-1\r\n{SMUGGLED}",
    "a huge chunk size": f"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{SMUGGLED}",
    "bare line feeds": f"Transfer-Encoding: chunked\n\n0\r\n\r\n{SMUGGLED}",
    "a bare carriage return": f"X: y\rContent-Length: {len(SMUGGLED)}\r\n\r\n{SMUGGLED}",
    "a body of GET without a length": f"\r\n{SMUGGLED}",
    "a header with a NUL": f"X: y\0\r\nContent-Length: 0\r\n\r\n{SMUGGLED}",
    "two hosts": f"Host: other.test\r\n\r\n{SMUGGLED}",
    "length named by Connection": f"Connection: content-length\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n{SMUGGLED}",
    "coding named by Connection": f"Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "host named by Connection": f"Connection: host\r\n\r\n{SMUGGLED}",
}


@pytest.mark.parametrize("framing", FRAMINGS)
def test_nothing_is_smuggled_in_the_body_of_an_allowed_request(network, framing):
    """What the proxy takes for a body the upstream must not take for a request, and the other way round."""
    since = network.world.mark()
    raw = f"POST http://good.test/first HTTP/1.1\r\nHost: good.test\r\n{FRAMINGS[framing]}"
    got = network.one(allow("good.test"), "http", raw=raw, until_end=True, timeout=1)
    heard = [(e["method"], e["path"], dict(e["headers"]).get("host")) for e in network.world.log(since, "http")]
    assert all(entry == ("POST", "/first", "good.test") for entry in heard), (heard, got)
    assert len(heard) <= 1
    for entry in network.world.log(since, "http"):
        names = [name for name, _ in entry["headers"]]
        assert names.count("host") == 1 and names.count("content-length") <= 1
        assert not ("content-length" in names and "transfer-encoding" in names), names
    assert network.world.asked(since) <= {"good.test"}


def test_an_upgrade_leads_to_the_same_host_only(network):
    got = network.one(allow("good.test"), "http", raw="GET http://good.test/u HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade\r\n"
                      "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + SMUGGLED, until_end=True, timeout=2)
    assert "UP GET /smuggled" not in got["text"]


def test_the_proxy_does_not_lead_to_itself(network):
    """Neither to another listener of the proxy, inside, nor to one of the server, outside."""
    since = network.world.mark()
    steps = [{"do": "connect", "to": f"{host}:{port}", "payload": get("good.test"), "expect": "UP"}
             for host in ("127.0.0.1", "localhost") for port in (3128, 1080)]
    got = network.probe(steps, allow("good.test", "127.0.0.1", "localhost")).results
    assert not any("UP" in result.get("echo", "") for result in got), got
    assert network.world.asked(since) == set()
    # What is granted there is the loopback of the server, not that of the sandbox.
    assert {port for _, _, port in network.world.packets(since)} <= {3128, 1080}


def test_the_address_that_was_checked_is_the_one_that_is_used(network):
    """A name that leads somewhere public first, then inside: many times, with all protocols at once."""
    network.world.names(rebind_test=[[PUBLIC], ["10.1.2.3"], [PUBLIC], ["127.0.0.1"]] * 20, mixed_test=["10.1.2.3", PUBLIC])
    steps = [step for _ in range(12) for step in (
        http("rebind.test", timeout=20), {"do": "connect", "to": "rebind.test:7"}, {"do": "socks", "host": "rebind.test", "port": 7})]
    since = network.world.mark()
    got = network.probe([{"do": "many", "steps": steps}], allow("rebind.test")).results[0]
    assert network.world.packets(since) <= {("tcp", PUBLIC, 80), ("tcp", PUBLIC, 7)}
    assert len(got) == 36 and any(status(result) == 200 for result in got)


def test_a_name_with_a_private_address_among_others_is_refused(network):
    since = network.world.mark()
    got = network.probe([http("mixed.test"), {"do": "connect", "to": "mixed.test:80"}], allow("mixed.test")).results
    assert network.world.packets(since) <= {("tcp", PUBLIC, 80)}
    assert [status(result) for result in got] == [403, 403]


def test_names_lead_to_both_families(network):
    if not network.world.has_ipv6:
        pytest.skip("no IPv6 here")
    since = network.world.mark()
    got = network.probe([http("six.test"), http("both.test"), http(f"[{PUBLIC_6}]")], allow("six.test", "both.test", PUBLIC_6)).results
    assert [status(result) for result in got] == [200, 200, 200]
    assert ("tcp", PUBLIC_6, 80) in network.world.packets(since)


def test_a_name_that_was_not_granted_is_not_resolved(network):
    network.client.answer = {"decision": {"type": "deny", "reason": "no"}}
    since = network.world.mark()
    hosts = ["other.test", "bad.test", "good.test.other.test", "sub.test", "secret.sub.test.other.test"]
    for launch in (None, {"policyDecisionTimeoutMs": 20000}):
        steps = [step for host in hosts for step in (http(host), {"do": "connect", "to": f"{host}:443"},
                                                     {"do": "socks", "host": host, "port": 443})]
        got = network.probe(steps, policy({"good.test": "allow", "*.sub.test": "allow", "bad.test": "deny"}), launch=launch).results
        assert all(status(r) == 403 or r.get("reply", "")[2:4] == "02" for r in got), got
    assert network.world.asked(since) == set() and network.world.packets(since) == set()


def test_two_networks_are_two(network):
    """What one command may is nothing to another that runs at the same time."""
    one = network.start([PYTHON, "-c", "input()"], allow("good.test"), pipeStdin=True)
    try:
        assert status(network.one(allow("other.test"), **http("good.test"))) == 403
        assert body(network.one(allow("other.test"), **http("other.test"))).startswith("UP GET /")
    finally:
        network.client.call("process/terminate", {"processId": one})
        network.finish(one)
