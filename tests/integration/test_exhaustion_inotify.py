"""Commands that take all inotify instances and watches they can get: others start, guard their masks and watch as before.

The kernel counts both for each user. A sandbox gets half of them, all sandboxes together three quarters; the rest is the
server's, which guards masks with them and serves fs/watch.
"""

import pytest

from exhaustion_rig import Honest, built
from farhand_client import Client, wait_until
from sandbox_rig import USERS, read_only, rig_of

NAMES = {"instances": "/proc/sys/user/max_inotify_instances", "watches": "/proc/sys/user/max_inotify_watches"}
ATTACKERS = 3


@pytest.fixture(scope="module")
def flood():
    with built("flood_inotify.c") as path:
        yield path


@pytest.fixture(params=[(backend, user) for backend in ("namespaces", "bubblewrap") for user in USERS], ids="-".join)
def rig(request):
    backend, user = request.param
    with rig_of(user, args=("--sandbox-backend", backend)) as r:
        yield r


def limits():
    found = {}
    for name, path in NAMES.items():
        with open(path, encoding="utf-8") as f:
            found[name] = int(f.read())
    return found


def start_attacker(rig, flood, client):
    """Starts an attacker. Returns its process id, and how many instances and watches it got."""
    process = rig.start([flood], read_only(), "/", client=client, pipeStdin=True)
    wait_until(lambda: client.output(process).endswith(b"\n"), 60, "the flood")
    instances, watches = client.output(process).split()
    return process, int(instances), int(watches)


def watch(rig, honest):
    """fs/watch needs an instance, and a watch for each directory."""
    with Client(rig.server.url) as client, honest.soon("fs/watch"):
        assert client.call("fs/watch", {"watchId": "w", "path": "file://" + honest.tree.w, "recursive": True}) == {}


def test_commands_that_take_all_of_it_stop_nobody(rig, flood):
    honest = Honest(rig)
    honest.work()
    with Client(rig.server.url) as hostile:
        taken = [start_attacker(rig, flood, hostile) for _ in range(ATTACKERS)]
        have = limits()
        for _, instances, watches in taken:
            assert instances <= have["instances"] // 2 and watches <= have["watches"] // 2, taken
        assert taken[0][1] > 10 and taken[0][2] > 1000, f"an honest command gets too little: {taken}"
        assert sum(one[1] for one in taken) <= have["instances"] - have["instances"] // 4, taken
        assert sum(one[2] for one in taken) <= have["watches"] - have["watches"] // 4, taken
        honest.work()
        watch(rig, honest)
        for process, _, _ in taken:
            hostile.call("process/terminate", {"processId": process})
            hostile.wait_exit(process, 60)  # the kernel takes a while to free so many
    honest.work()


def test_no_sandbox_may_have_user_namespaces(rig):
    """Besides the seccomp filter, the kernel's own limit forbids them."""
    done = rig.sh("cat /proc/sys/user/max_user_namespaces", read_only(), "/")
    assert done.out == b"0\n", done
