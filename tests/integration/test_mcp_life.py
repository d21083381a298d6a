"""What many calls of `farhand mcp` leave behind, and what is left when its client or the program itself is killed: nothing."""

import os
import signal
import time
import uuid

import pytest

from farhand_client import PATIENCE
from mcp_rig import Mcp
from test_mcp_questions import say
from test_mcp_rules import PROMPT
from test_mcp_shell import OPEN, rules_file, sh, start
from test_mcp_tools import needs_sandbox

SLOW = bool(os.environ.get("FARHAND_SLOW"))
IS_SANITIZED = "asan" in os.environ.get("FARHAND_BIN", "")  # what was freed is kept for a while there
CALLS = 10000 if SLOW else 300
AT_ONCE = 20


def marked(mark):
    """The processes that have a variable of this value."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if mark.encode() in f.read():
                    found.append(int(pid))
        except OSError:
            pass
    return sorted(found)


def wait_for(mark, wanted):
    """Waits until exactly these processes have the mark."""
    end = time.monotonic() + 60 * PATIENCE
    while (now := marked(mark)) != wanted:
        assert time.monotonic() < end, f"{now} in place of {wanted}"
        time.sleep(0.05)


def descriptors(pids):
    return {pid: len(os.listdir(f"/proc/{pid}/fd")) for pid in pids}


def server_of(one):
    """The program and its private server, which stay while processes for calls come and go."""
    with open(f"/proc/{one.proc.pid}/task/{one.proc.pid}/children", encoding="ascii") as f:
        return [one.proc.pid, *map(int, f.read().split())]


def resident(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/statm", encoding="ascii") as f:
            total += int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return total


def calls(one, count):
    """Makes `count` calls of commands that end in five ways, AT_ONCE at a time, each time with calls of three tools for files."""
    kinds = [("true", 0, {}), ("/bin/echo x | cat; (sleep 1000 &) >/dev/null 2>&1", 0, {}), ("kill -9 $$", 137, {}),
             ("head -c 1000 /dev/zero", 0, {}), ("sleep 1000", 124, {"timeout_ms": 50})]
    for first in range(0, count, AT_ONCE):
        idents = [(start(one, kinds[n % len(kinds)][0], **kinds[n % len(kinds)][2]), kinds[n % len(kinds)][1])
                  for n in range(first, min(first + AT_ONCE, count))]
        files = [one.start("read_file", path="x"), one.start("list_directory", path="."), one.start("write_file", path="x", content="1")]
        assert [one.done(ident)["exit_code"] for ident, _ in idents] == [code for _, code in idents]
        for ident in files:
            one.done(ident)
        one.lines.clear()
        one.answers.clear()


@needs_sandbox
def test_many_calls_leave_nothing():
    mark = f"FARHAND_TEST_MARK={uuid.uuid4()}"
    with Mcp(env=dict([mark.split("=")])) as one:
        one.call("write_file", path="x", content="1")
        calls(one, 200)
        before = server_of(one)
        fds, memory, others = descriptors([one.proc.pid])[one.proc.pid], resident([one.proc.pid]), resident(before)
        calls(one, CALLS)
        end = time.monotonic() + 60 * PATIENCE
        while len(marked(mark)) > AT_ONCE:  # a few wait for the next call
            assert time.monotonic() < end, marked(mark)
            time.sleep(0.05)
        assert descriptors([one.proc.pid])[one.proc.pid] <= fds + 2
        if not IS_SANITIZED:
            assert resident([one.proc.pid]) < memory + (8 << 20), "memory grows"
            assert resident(before) < others + (32 << 20), "memory of the server grows"  # it keeps what has ended for a while
        assert one.finish() == 0
    wait_for(mark, [])


def nothing(one):
    """No call is under way."""


def running(one):
    start(one, "touch run; (setsid sleep 1000 &); sleep 1000 | cat")
    one.until(lambda: os.path.exists(one.work + "/run"))


def just_sent(one):
    start(one, "sleep 1000")


def asking(one):
    start(one, "mkdir x; sleep 1000")
    one.until(lambda: one.asked, "a question")


def many(one):
    for _ in range(20):
        start(one, "sleep 1000 & sleep 1000")
    sh(one, "true")


@pytest.mark.parametrize("how", ["its client is gone", "it is killed"])
@pytest.mark.parametrize("moment", [nothing, just_sent, running, asking, many])
def test_an_end_at_any_moment_leaves_nothing(moment, how):
    mark = f"FARHAND_TEST_MARK={uuid.uuid4()}"
    with Mcp(*OPEN) as base:
        with Mcp(*OPEN, "-r", rules_file(base, PROMPT), ask=lambda params: None, env=dict([mark.split("=")])) as one:
            moment(one)
            one._is_closing = True
            if how == "it is killed":
                one.proc.send_signal(signal.SIGKILL)
            else:
                one.proc.stdin.close()
            one.proc.wait(60 * PATIENCE)
            wait_for(mark, [])


def test_questions_leave_nothing():
    with Mcp(*OPEN) as base:
        with Mcp(*OPEN, "-r", rules_file(base, PROMPT), ask=say("once")) as one:
            for n in range(20):
                assert sh(one, f"mkdir a{n}; echo $?")["output"] == "0\n"
            fds = descriptors([one.proc.pid])[one.proc.pid]
            for n in range(20, 60):
                assert sh(one, f"mkdir a{n}; echo $?")["output"] == "0\n"
            assert descriptors([one.proc.pid])[one.proc.pid] == fds
