"""A sandboxed command opens terminals until it gets no more: others still get theirs, because the machine has more."""

import pytest

from farhand_client import wait_until
from sandbox_rig import USERS, read_only, rig_of

TRIES = 400
BOUND = 256

HOARD = f"""
import os, resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1000), hard))
held = []
try:
    while len(held) < {TRIES}:
        held.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
except OSError as e:
    print(e.strerror)
print(len(held), flush=True)
input()
"""


@pytest.fixture(params=USERS)
def rig(request):
    with rig_of(request.param, args=("--sandbox-backend", "namespaces")) as r:
        yield r


def test_a_command_has_some_terminals_and_not_all(rig):
    hoarder = rig.start(["/usr/bin/python3", "-c", HOARD], read_only(), "/", pipeStdin=True)
    wait_until(lambda: rig.client.output(hoarder).count(b"\n") == 2, 30, "the hoarder")
    assert rig.client.output(hoarder).splitlines() == [b"No space left on device", b"%d" % BOUND]
    done = rig.run(["/usr/bin/tty"], read_only(), "/", tty=True)
    assert done.code == 0 and done.out.strip() == b"/dev/console", done
