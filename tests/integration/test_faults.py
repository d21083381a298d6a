"""System calls that fail while a client works: no crash, no lost byte, no wrong answer, nothing left behind.

fault_rig makes calls fail and judges the result, fault_work is the work of the client. The default run makes the calls fail
that once ended the server or lost something. A soak (FARHAND_SLOW=1) goes through all calls that server, spawner, keepers and
fs helper make, with every error that each may return, in an order of its own each time, for FARHAND_FAULT_SECONDS.
"""

import os
import random
import time

import pytest

from fault_rig import ERRORS, IMPOSSIBLE, IS_SOAK, LEFT_OUT, MEMORY, SEED, TARGETS, Fault, Faulty, why_no_strace
from fault_work import sandboxed, sandboxed_files, sandboxed_quick, sandboxed_terminal, trees
from sandbox_rig import USERS, why_not

SECONDS = int(os.environ.get("FARHAND_FAULT_SECONDS", "720"))

# (process, call, errors)
CHOSEN = [
    ("server", "write", ["EINTR", "EAGAIN", "ENOSPC"]),
    ("server", "epoll_wait", ["ENOMEM"]),
    ("server", "epoll_ctl", ["ENOMEM"]),
    ("server", "mmap", ["ENOMEM"]),
    ("server", MEMORY, ["ENOMEM"]),
    ("server", "read", ["EAGAIN", "ENOMEM", "EIO"]),
    ("server", "recvfrom", ["EAGAIN", "ENOMEM"]),
    ("server", "writev", ["EAGAIN", "ENOMEM"]),
    ("server", "openat", ["EMFILE"]),
    ("server", "name_to_handle_at", ["ENOMEM"]),
    ("spawner", "recvmsg", ["EINTR", "ENOMEM"]),
    ("spawner", "mmap", ["ENOMEM"]),
    ("spawner", "clone", ["EAGAIN"]),
    ("keepers", "openat", ["EMFILE"]),
    ("keepers", "sendto", ["EINTR", "ENOMEM"]),
    ("keepers", "recvfrom", ["ENOMEM"]),
    ("helper", "recvmsg", ["EINTR"]),
    ("helper", MEMORY, ["ENOMEM"]),
]


@pytest.fixture(scope="module", params=USERS if IS_SOAK else ["unprivileged"])
def faulty(request):
    reason = why_no_strace()
    if request.param == "root" and os.geteuid() != 0:
        reason = "needs root"
    if reason:
        pytest.skip(reason)
    with Faulty(request.param) as f:
        yield f


@pytest.mark.parametrize("target, call, errors", CHOSEN, ids=lambda value: value if isinstance(value, str) else "")
def test_a_call_that_fails_now_and_then(faulty, target, call, errors):
    step = 1 if call == MEMORY else 3
    wrong = [faulty.try_fault(Fault(target, call, error, first, step)) for first, error in enumerate(errors, 1)]
    assert not any(wrong), "\n".join(filter(None, wrong))
    assert faulty.tally["injected"] > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to take back")
@pytest.mark.parametrize("error", ["ENOMEM", "EPERM"])
def test_capabilities_are_taken_back_or_the_server_ends(error):
    """The loop drops its capabilities for a quick read under a profile. To take them back needs memory of the kernel."""
    reason = why_no_strace() or why_not("root")
    if reason:
        pytest.skip(reason)
    with Faulty("root") as f:
        f.steps = [sandboxed_files, sandboxed_quick, trees]
        wrong = [f.try_fault(Fault("server", "capset", error, first, step)) for first in (1, 2) for step in (1, 2, 3)]
    assert not any(wrong), "\n".join(filter(None, wrong))
    assert f.tally["injected"] > 0 or f.tally["ended"] > 0, f.tally


@pytest.mark.parametrize("error", ["EINTR", "ENOMEM"])
def test_a_keeper_that_cannot_have_a_signal_with_each_message_looks_for_them(faulty, error):
    """The init of a sandbox sends the keeper a message at the command's end, and a signal, which the keeper set up with fcntl,
    wakes it."""
    faulty.steps = [sandboxed, sandboxed_terminal]
    wrong = [faulty.try_fault(Fault("keepers", "fcntl", error, first, step)) for first in (1, 2, 3, 4, 5) for step in (1, 3, 5)]
    assert not any(wrong), "\n".join(filter(None, wrong))


@pytest.mark.slow
def test_every_call_that_may_fail(faulty):
    rng = random.Random(SEED)
    print(f"FARHAND_SEED={SEED}")
    rounds, unknown = [[], [], []], set()  # each has every call with every error once
    for target in TARGETS:
        counts = faulty.count(target)
        # strace shows calls that are newer than itself as numbers, and cannot make them fail.
        unknown |= {call for call in set(counts) - set(ERRORS) - LEFT_OUT if not call.startswith("syscall_")}
        for call in counts:
            for error in ERRORS.get(call, []):
                if (target, call, error) in IMPOSSIBLE:
                    continue
                # (first, step): some keepers make one call of a kind and the server makes hundreds, so that the first and random
                # ones fail.
                places = [(1, 0), (rng.randint(1, 5), 5), (rng.randint(1, 3), 3)]
                rng.shuffle(places)
                for one, (first, step) in zip(rounds, places):
                    one.append(Fault(target, call, error, first, step))
        for one in rounds:
            one += [Fault(target, MEMORY, "ENOMEM", rng.randint(1, 250), 1) for _ in range(3)]
    assert not unknown, f"calls of which fault_rig.ERRORS knows nothing: {sorted(unknown)}"
    faults = []
    for one in reversed(rounds):
        rng.shuffle(one)
        faults += one  # faults are taken from the end of the list
    until = time.monotonic() + SECONDS / len(USERS)
    wrong, done = [], 0
    while faults and time.monotonic() < until:
        wrong.append(faulty.try_fault(faults.pop()))
        done += 1
    wrong = [text for text in wrong if text]
    print(f"{done} faults, {len(faults)} not tried for want of time: {dict(faulty.tally)}")
    assert not wrong, f"{len(wrong)} of {done}:\n" + "\n".join(wrong)
