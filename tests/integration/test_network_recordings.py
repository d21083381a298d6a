"""What the managed network does beside recordings of the reference (tests/conformance/network): the same requests, the same outcomes.

DIFFERENCES is the list of those that differ on purpose, with the reason. With FARHAND_REFERENCE_166 the reference answers as
well, without that list: so it is shown that these programs ask what the recorded ones asked.
"""

import json
import os

import pytest

from farhand_client import wait_until
from network_rig import Network, body, get, header, http, status
from world import PUBLIC, world_or_skip

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance", "network")
REFERENCE = os.environ.get("FARHAND_REFERENCE_166")
# The ports of the recorder's services.
HTTP, TLS, TCP, HTTP_55, TCP_55 = 40907, 43565, 41923, 41279, 34329


MASKING = [-32602, "credential masking is not available on this executor"]


def cases(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as f:
        return json.load(f)["cases"]


def raw(text, **more):
    return {"do": "http", "raw": text, **more}


def connect(to, **more):
    return {"do": "connect", "to": to, **more}


def socks(host, port, **more):
    return {"do": "socks", "host": host, "port": port, **more}


# What the recorded programs did under the labels that they printed. Their argv is not in the recordings.
STEPS = {
    "h1": {
        "allowed ip literal": raw(f"GET http://127.0.0.1:{HTTP}/a?b=1 HTTP/1.1\r\nHost: 127.0.0.1:{HTTP}\r\n"
                                  "Proxy-Authorization: Basic eA==\r\nX-Drop: 1\r\nX-Keep: 2\r\n"
                                  "Connection: X-Drop\r\nTE: trailers\r\nKeep-Alive: 5\r\n\r\n"),
        "post": http("localhost", HTTP, "/p", method="POST", body="abc"),
        "host mismatch": raw(f"GET http://127.0.0.1:{HTTP}/ HTTP/1.1\r\nHost: localhost:{HTTP}\r\n\r\n"),
        "host default port mismatch": raw(f"GET http://127.0.0.1:{HTTP}/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        "no host header": raw(f"GET http://127.0.0.1:{HTTP}/nh HTTP/1.0\r\n\r\n"),
        "origin form": raw(f"GET /x HTTP/1.1\r\nHost: 127.0.0.1:{HTTP}\r\nConnection: close\r\n\r\n"),
        "origin form no host": raw("GET /x HTTP/1.0\r\n\r\n"),
        "https absolute": raw(f"GET https://127.0.0.1:{TLS}/x HTTP/1.1\r\nHost: 127.0.0.1:{TLS}\r\n\r\n"),
        "not allowed": http("other.test"),
        "denied": http("bad.test"),
        "denied upper trailing dot": http("BAD.test."),
        "private literal": http("10.1.2.3"),
        "decimal loopback": http("2130706433", HTTP),
        "v6 mapped": http("[::ffff:127.0.0.1]", HTTP),
        "name resolves to loopback, allowed name": http("loop.test", HTTP),
        "name resolves private": http("priv.test"),
        "nxdomain allowed name": http("nx.test"),
        "dns silent": http("slow.test"),
        "rebinding": http("rebind.test", HTTP),
        "dead port": http("127.0.0.1", 1),
        "unix header": raw("GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\nx-unix-socket: /run/x.sock\r\n\r\n"),
        "garbage": raw("NONSENSE\r\n\r\n"),
        "h2 preface": raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", until_end=True, timeout=1),
        "big header": raw(f"GET http://127.0.0.1:{HTTP}/ HTTP/1.1\r\nHost: 127.0.0.1:{HTTP}\r\nX-Big: @PAD@\r\n\r\n", pad=600000),
    },
    "c1": {
        "connect allowed": connect(f"127.0.0.1:{TCP}"),
        "connect localhost": connect(f"localhost:{TCP}"),
        "connect not allowed": connect("other.test:443"),
        "connect denied": connect("bad.test:443"),
        "connect local": connect("10.0.0.1:443"),
        "connect dead port": connect("127.0.0.1:1"),
        "connect no port": connect("127.0.0.1"),
        "connect port 22 any": connect(f"127.0.0.1:{TCP}"),
        "connect name to loopback": connect(f"loop.test:{TCP}"),
        "connect empty": connect("", raw="CONNECT  HTTP/1.1\r\n\r\n"),
        "connect host header differs": connect(f"127.0.0.1:{TCP}", headers="evil.test:443"),
    },
    "l1": {
        **{method: raw(get("127.0.0.1", HTTP, method=method, headers="content-length: 0\r\n"), is_head=method == "HEAD")
           for method in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "get", "TRACE")},
        "connect": connect(f"127.0.0.1:{TLS}"),
        "socks tcp": socks("127.0.0.1", TCP, atyp=1),
        "socks 443": socks("127.0.0.1", 443, atyp=1),
        "socks udp": socks("0.0.0.0", 0, atyp=1, cmd=3),
    },
    "s1": {
        "tcp ip": socks("127.0.0.1", TCP, atyp=1),
        "tcp name localhost": socks("localhost", TCP),
        "tcp name to loopback": socks("loop.test", TCP),
        "tcp not allowed": socks("other.test", 80),
        "tcp denied": socks("bad.test", 80),
        "tcp private": socks("10.0.0.1", 80, atyp=1),
        "tcp dead port": socks("127.0.0.1", 1, atyp=1),
        "tcp v6": socks("::1", TCP, atyp=4),
        "bind": socks("127.0.0.1", 80, atyp=1, cmd=2),
        "udp ok": socks("0.0.0.0", 0, atyp=1, cmd=3),
        "udp blocked": socks("0.0.0.0", 0, atyp=1, cmd=3),
    },
    "s2": {"udp off": socks("0.0.0.0", 0, atyp=1, cmd=3)},
    "a1": {
        "allow loop.test": http("loop.test", HTTP_55), "allow other": http("other.test"), "localhost asked?": http("localhost", HTTP_55),
        "127.0.0.1": http("127.0.0.1", HTTP_55), "same again": http("other.test"), "denied": http("bad.test"),
    },
    "a2": {
        "allow loop.test": http("loop.test", HTTP_55), "again": http("loop.test", HTTP_55), "127.0.0.1": http("127.0.0.1", HTTP_55),
        "connect": connect(f"loop.test:{TCP_55}"), "socks": socks("loop.test", TCP_55),
    },
    "a3": {"ask": http("other.test"), "connect ask": connect("other.test:443")},
    **{name: {"deny": http("other.test")} for name in ("d1", "d2", "d3", "d4", "d5")},
    **{name: {name: http("other.test")} for name in ("b1", "b2", "b3", "b4", "b5")},
    "rv1": {"allowed and under review": http("loop.test", HTTP_55), "allowed, not under review": http("a.sub.test", HTTP_55),
            "127 review": http("127.0.0.1", HTTP_55)},
    "rv2": {"under review, no callback": http("loop.test", HTTP_55)},
    "rv3": {"review only": http("loop.test", HTTP_55)},
    "rv4": {"review denied": http("loop.test", HTTP_55)},
}

REFUSED_UDP = {"socks": "07"}
# What differs on purpose: (recording, label) -> the outcome of ours; a None label: lines of decisions that ours has instead.
DIFFERENCES = {
    # CONNECT is answered after the dial: a client learns that it failed.
    ("c1", "connect dead port"): {"status": 502},
    ("c1", "connect no port"): {"status": 502},
    # No datagram leaves through SOCKS.
    ("s1", "udp ok"): REFUSED_UDP, ("s1", "udp blocked"): REFUSED_UDP, ("l1", "socks udp"): REFUSED_UDP,
    # One resolution, and the address that was checked is the one that is used: there is no second look for a rebinding to answer.
    ("h1", "rebinding"): {"status": 200},
    # What is no HTTP/1 is told so.
    ("h1", "h2 preface"): {"status": 400},
}


def outcome(result):
    """What of a result can be compared: as the recordings have it."""
    if "reply" in result:
        return {"socks": result["reply"][2:4], **({"echo": result["echo"]} if "echo" in result else {})}
    if status(result) is None:
        return {}
    got = {"status": status(result)}
    got.update({name: header(result, name) for name in ("x-proxy-error", "content-type") if header(result, name)})
    got["body"] = result["echo"] if "echo" in result else body(result).strip("\n")
    if got.get("content-type") == "application/json":
        got["body"] = json.loads(got["body"])
    if status(result) == 200 and result.get("echo") == "" and result["end"] in ("eof", "ECONNRESET"):
        got["end"] = "ECONNRESET"
    return got


@pytest.fixture(scope="module", name="world")
def world_of_the_recorder():
    with world_or_skip(without=(80,)) as world:
        for what, port in (("http", HTTP), ("https", TLS), ("echo", TCP), ("http", HTTP_55), ("echo", TCP_55)):
            world.serve(what, port)
        world.names(**{"*.sub_test": ["127.0.0.1"], "rebind_test": [[PUBLIC], ["127.0.0.1"]], "other_test": ["10.1.2.4"]})
        yield world


@pytest.fixture(scope="module", params=["ours", pytest.param("reference", marks=pytest.mark.skipif(
    not REFERENCE, reason="no reference server: FARHAND_REFERENCE_166 names none"))])
def network(request, world):
    with Network(world, reference=REFERENCE if request.param == "reference" else None) as network:
        network.is_ours = request.param == "ours"
        yield network


def answers_in_turn(network, answers):
    """Questions of one run are answered in the order of the recording."""
    left = list(answers)
    network.client.answer = lambda message: left.pop(0) if left else {"decision": {"type": "deny", "reason": "more than was recorded"}}


RECORDED = [(name, case) for name in ("51-http-proxy", "52-connect", "53-limited", "54-socks5", "55-policy-callbacks")
            for case in cases(f"{name}.json")]


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{name[:2]}-{case['id']}") for name, case in RECORDED])
def test_a_recorded_command(network, case):
    steps = STEPS[case["id"]]
    assert set(steps) == set(case["printed"])
    questions = case.get("questions", [])
    answers_in_turn(network, [answer for _, answer in questions])
    launch = {"policyDecisionTimeoutMs": case["timeoutMs"]} if "timeoutMs" in case else {}
    network.world.names()  # the name that rebinds begins anew
    ended = network.probe(list(steps.values()), case["proxy"], box=False, launch=launch)
    differences = []
    for (label, recorded), result in zip(case["printed"].items(), ended.results):
        got = outcome(result)
        if network.is_ours and (case["id"], label) in DIFFERENCES:
            recorded = DIFFERENCES[case["id"], label]
            got = {name: got.get(name) for name in recorded}
        if got != recorded:
            differences.append(f"{label}:\n     got {str(got)[:1000]}\n  wanted {recorded}\n    from {str(result)[:300]}")
    assert not differences, "\n".join(differences)
    assert [q["request"] for q in ended.questions] == [asked for asked, _ in questions]
    ended.decisions = wait_until(lambda: ended.told() if len(ended.told()) >= len(case["decisions"]) else None, what="the decisions") \
        if case["decisions"] else ended.told()
    assert ended.shown() == case["decisions"]


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{name[:2]}-{case['name']}"[:60]) for name in
                                  ("50-wire-shapes.json", "57-credential-masking.json") for case in cases(name)])
def test_a_recorded_start(network, case):
    params = network.params(["/bin/sh", "-c", "true"], None, box="sandbox" in case, network=case.get("sandbox"))
    params.pop("enforceManagedNetwork", None)
    params.update({name: case[name] for name in ("networkProxy", "managedNetwork", "enforceManagedNetwork") if name in case})
    if "processId" in case:
        params["processId"] = case["processId"]
    answer = network.client.response(network.client.request("process/start", params))
    # What the reference takes and does nothing with, ours refuses: nobody shall think that a secret is masked.
    proxy = (case.get("networkProxy") or {}).get("proxy", {})
    asks_for_masking = proxy.get("credentialMasking") is True or proxy.get("credentialProviders")
    wanted = MASKING if network.is_ours and asks_for_masking and "error" not in case else case.get("error")
    if wanted:
        assert [answer["error"]["code"], answer["error"]["message"]] == wanted
    else:
        assert answer["result"]["sandboxType"] == case["sandboxType"]
        network.client.wait_closed(params["processId"])
