"""Weaknesses of prebuilt sandboxes that a review found."""

import os

import pytest

import farhand_client
from sandbox_rig import ENV, USERS, read_only, rig_of, sandbox, uri


@pytest.fixture(scope="module", params=USERS)
def rig(request):
    with rig_of(request.param) as r:
        yield r


# A flow label of IPv6 outlives its socket by its linger time; no packet is sent, so no counter tells of it.
LEAVE = r"""
import socket, struct
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
dst = b"\xfdsecret of before"[:16]
s.setsockopt(socket.IPPROTO_IPV6, 32, struct.pack("!16sI", dst, 0x12345) + struct.pack("=BBHHHI", 0, 255, 1, 60, 60, 0))
print(open("/proc/net/ip6_flowlabel").read())
"""


def test_nothing_of_a_command_is_left_in_the_network_of_the_next(rig):
    tree = rig.tree()
    cwd = tree.dir(tree.w)
    for _ in range(10):
        done = rig.run(["/usr/bin/python3", "-c", LEAVE], read_only(), cwd)
        assert done.ok, done
    for _ in range(20):
        done = rig.sh("tail -n +2 /proc/net/ip6_flowlabel", read_only(), cwd)
        assert done.ok and done.out == b"", done


NESTED = """#!/bin/sh
n=${NESTED:-0}
[ "$n" -ge 32 ] || NESTED=$((n + 1)) exec unshare -Ur "$0" "$@"
unset NESTED
exec %s "$@"
"""


def test_a_prebuilt_sandbox_that_cannot_be_made_fails_no_start(monkeypatch, tmp_path):
    """The server runs as deep in user namespaces as the kernel allows: there is room for that of a command, none for one below a network's."""
    nested = tmp_path / "nested"
    nested.write_text(NESTED % os.path.abspath(farhand_client.BIN))
    nested.chmod(0o755)
    monkeypatch.setattr(farhand_client, "BIN", str(nested))
    with farhand_client.Server() as server, server.connect() as client:
        for n in range(100):
            client.call("process/start", {"processId": f"p{n}", "argv": ["/bin/true"], "cwd": uri("/"), "env": ENV, "tty": False,
                                          "arg0": None, "pipeStdin": False, "sandbox": sandbox(read_only(), "/usr")})
