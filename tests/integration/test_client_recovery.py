"""`farhand run` over bad connections and with bad servers: nothing is lost, repeated or started twice, and what fails says why."""

import contextlib
import http
import os
import random
import re
import signal
import socket
import sys
import tempfile
import time

import pytest

from cutting_proxy import KINDS, CuttingProxy
from fake_server import FakeServer, read_answer
from farhand_client import PATIENCE, Server
from test_cmd_run import SECONDS, Run

IS_SOAK = os.environ.get("FARHAND_SLOW") == "1"
SEED = int(os.environ.get("FARHAND_SEED") or (random.randrange(10 ** 6) if IS_SOAK else 5))
CUTS = 500 if IS_SOAK else 60
CONFIG = "retained_output_bytes_per_process = 8388608\n"
RECOVER_SECONDS = 25
FAILED = "failed to resume exec-server session: "
# What a terminal obeys, in a text of the server: escapes, a bell, the two-byte form of CSI.
NASTY = "\x1b]0;x\x07\x1b[31mred\r\n\u009b1mbold\x7f"

# A program that says on stdout what it reads, and on stderr how much that was; each start leaves a line.
ECHO = r"""
import os, sys
with open(sys.argv[1], "a") as f:
    f.write("started\n")
total = 0
while data := os.read(0, 30000):
    total += len(data)
    os.write(2, b"%d\n" % total)
    while data:
        data = data[os.write(1, data):]
sys.exit(7)
"""


@pytest.fixture
def home():
    with tempfile.TemporaryDirectory(prefix="fh-recovery-") as path:
        yield path


def own_words(stderr):
    """What farhand itself has said; and the rest, which is the command's."""
    said = re.findall(rb"farhand: [^\n]*\n", stderr)
    return b"".join(said).decode(), re.sub(rb"farhand: [^\n]*\n", b"", stderr)


def play(serve, home, *args, stdin=b"", **options):
    """Runs a command on a fake server."""
    with FakeServer(serve, **options) as server:
        began = time.monotonic()
        done = Run(["--url", server.url], home)(*(args or ("--", "x")), stdin=stdin)
        done.seconds, done.connections = time.monotonic() - began, server.connections
        done.text = done.stderr.decode()
        return done


# Cuts


@pytest.mark.parametrize("kinds", [["close", "reset"], ["stall", "pause", "trickle"], list(KINDS)], ids=["cut", "held up", "all"])
def test_cuts_lose_nothing_repeat_nothing_and_start_nothing_twice(home, kinds):
    rng = random.Random(SEED)
    weights = {kind: KINDS[kind] for kind in kinds if kind != "vanish"}  # a vanished connection costs two seconds
    runs = resumed = 0
    with Server(config=CONFIG) as server, CuttingProxy(server.port, seed=SEED, kinds=weights, most_bytes=2_000_000) as proxy:
        while proxy.counts.total() < CUTS / 3:
            runs += 1
            proxy.spares_first = True
            data = rng.randbytes(rng.randrange(200_000, 600_000))
            done = Run(["--url", f"ws://127.0.0.1:{proxy.port}"], home)(
                "--", sys.executable, "-S", "-E", "-c", ECHO, f"{home}/starts-{runs}", stdin=data)
            told, rest = own_words(done.stderr)
            assert (done.returncode, done.stdout == data) == (7, True), (told[-500:], len(done.stdout), len(data))
            totals = [int(line) for line in rest.split()]
            assert totals == sorted(set(totals)) and totals[-1] == len(data)
            with open(f"{home}/starts-{runs}", encoding="utf-8") as f:
                assert f.read() == "started\n"
            assert told.count("trying to resume\n") == told.count("farhand: resumed\n")
            resumed += told.count("farhand: resumed\n")
    assert resumed > 0
    print(f"{runs} runs, {resumed} resumed, seed {SEED}, fates {dict(proxy.counts)}")


def test_a_connection_that_vanished_is_resumed_when_the_server_notices(home):
    with Server(config=CONFIG) as server:
        with CuttingProxy(server.port, seed=3, kinds={"vanish": 1}, most_struck=1, spares_first=True) as proxy:
            done = Run(["--url", f"ws://127.0.0.1:{proxy.port}"], home)("--", "sh", "-c", "seq 50000; sleep 3; exit 4")
            assert done.returncode == 4 and done.stdout == b"".join(b"%d\n" % i for i in range(1, 50001))
            assert proxy.counts["vanish"] == 1 and b"farhand: resumed\n" in done.stderr


# Sessions that do not come back


@contextlib.contextmanager
def killed(proc):
    """Kills the client at the end of the block, so that no test waits for a client that does not end."""
    with proc:
        try:
            yield proc
        finally:
            proc.kill()


def start_and_wait(home, url, script="echo ready; sleep 600"):
    proc = Run(["--url", url], home).start("-n", "--", "sh", "-c", script)
    assert proc.stdout.readline() == b"ready\n"
    return proc


# No other program takes the port of a dead server here, as connections from 127.0.0.1 may there.
HOST = f"127.77.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"


def start_on_a_server_that_dies(home):
    """Returns the port of the server on HOST, which was killed, and the client."""
    with Server(listen=f"ws://{HOST}:0") as server:
        proc = start_and_wait(home, server.url)
        server.stop(signal.SIGKILL)
        return server.port, proc


def test_a_server_that_was_restarted_does_not_know_the_session(home):
    port, proc = start_on_a_server_that_dies(home)
    began = time.monotonic()
    with Server(listen=f"ws://{HOST}:{port}"), killed(proc):
        assert proc.wait(SECONDS) == 255 and time.monotonic() - began < 10 * PATIENCE
        told = proc.stderr.read().decode()
        assert "trying to resume\n" in told and re.search(f"^farhand: [^;\n]+; {FAILED}unknown session id ", told, re.M), told


def test_a_session_that_was_taken_over_is_not_taken_back(home):
    async def serve(peer):
        await peer.started()
        await peer.send(method="session/takenOver", params={"sessionId": "s"})
        await peer.ws.close(4001)

    done = play(serve, home)
    assert (done.returncode, done.connections) == (255, 1)
    assert done.text == "farhand: another connection has taken the session over; this was running: x\n"


@pytest.mark.slow
@pytest.mark.parametrize("is_silent", [False, True], ids=["refuses", "silent"])
def test_a_server_that_is_gone_for_good_is_given_up(home, is_silent):
    port, proc = start_on_a_server_that_dies(home)
    began = time.monotonic()
    with socket.socket() as listener:
        if is_silent:  # the kernel connects, nobody answers
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((HOST, port))
            listener.listen(64)
        with killed(proc):
            assert proc.wait(60 * PATIENCE) == 255
            told = proc.stderr.read().decode()
    assert RECOVER_SECONDS - 2 < time.monotonic() - began < RECOVER_SECONDS + 4 * PATIENCE
    assert f"; {FAILED}" in told, told


def test_a_session_that_is_still_attached_is_tried_again(home):
    async def serve(peer):
        if peer.number == 1:
            await peer.started()
            await peer.output(1, b"one,")
        elif peer.number < 5:
            await peer.answer("initialize", error={"code": -32010, "message": "still attached"})
            await peer.stay()
        else:
            assert (await peer.hello())["resumeSessionId"] == "s"
            await peer.answer("process/read", read_answer({2: b"two"}, 5, code=6))
            await peer.stay()

    done = play(serve, home)
    assert (done.returncode, done.stdout, done.connections) == (6, b"one,two", 5), done.text


def test_a_server_without_sessions_is_not_tried_again(home):
    async def serve(peer):
        assert (await peer.started("oldest"))["cwd"] == "/tmp"  # the oldest server takes paths, no URIs
        await peer.output(1, b"one")

    done = play(serve, home, "-C", "/tmp", "--", "x")
    assert (done.returncode, done.stdout, done.connections) == (255, b"one", 1)
    assert "trying" not in done.text and done.text.startswith("farhand: ")


def test_input_is_not_sent_twice_to_a_server_that_might_write_it_twice(home):
    async def serve(peer):
        if peer.number == 1:
            await peer.started("old")
            await peer.next("process/write")
        else:
            await peer.hello("old")
            await peer.next("process/write")
            raise AssertionError("written again")

    done = play(serve, home, stdin=b"once")
    assert done.returncode == 255 and "whether the server has done what was asked is not known" in done.text


# Events


def test_events_out_of_order_and_twice(home):
    async def serve(peer):
        await peer.started()
        for seq, data in (2, b"two,"), (1, b"one,"), (1, b"ONE,"), (2, b"TWO,"), (4, b"four"):
            await peer.output(seq, data)
        await peer.tell("closed", 6)
        await peer.tell("exited", 5, exitCode=3)
        await peer.output(3, b"three,")
        await peer.stay()

    done = play(serve, home)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"one,two,three,four", b"")


def test_a_hole_is_asked_for(home):
    async def serve(peer):
        await peer.started()
        await peer.output(1, b"one,")
        await peer.output(3, b"three")
        assert (await peer.answer("process/read", read_answer({2: b"two,", 3: b"three"}, 4)))["afterSeq"] == 1
        await peer.ended(4, 5)
        await peer.stay()

    done = play(serve, home)
    assert (done.returncode, done.stdout) == (5, b"one,two,three"), done.text


def test_a_hole_that_is_a_loss_is_told(home):
    async def serve(peer):
        await peer.started()
        await peer.output(1, b"one,")
        await peer.ended(3)
        await peer.answer("process/read", read_answer({}, 5, code=0))
        await peer.answer("process/terminate")
        await peer.stay()

    done = play(serve, home)
    assert (done.returncode, done.stdout) == (255, b"one,")
    assert "process events are no longer retained while recovering through sequence 4" in done.text


def test_a_close_without_a_number_is_the_last(home):
    async def serve(peer):
        await peer.started("old")
        await peer.output(1, b"one")
        await peer.tell("exited", 2, exitCode=2)
        await peer.tell("closed", None)
        await peer.stay()

    done = play(serve, home, "-n", "--", "x")
    assert (done.returncode, done.stdout, done.text) == (2, b"one", "")


def test_output_that_comes_after_the_exit_and_a_cut_is_not_lost(home):
    async def serve(peer):
        if peer.number == 1:
            await peer.started()
            await peer.tell("exited", 1, exitCode=0)
        elif peer.number < 8:
            await peer.answer("initialize", error={"code": -32010, "message": "still attached"})
        else:
            await peer.hello()
            await peer.answer("process/read", read_answer({2: b"late"}, 4, code=0))
            await peer.stay()

    done = play(serve, home)
    assert (done.returncode, done.stdout) == (0, b"late"), done.text


def test_a_flood_out_of_order_is_refused(home):
    async def serve(peer):
        await peer.started()
        for seq in range(2, 300):
            await peer.output(seq, b"x")
        await peer.stay()

    done = play(serve, home)
    assert done.returncode == 255 and "process event reorder buffer exceeds 256 entries" in done.text


# Messages that are not valid


def test_a_message_that_is_too_long(home):
    async def serve(peer):
        await peer.started()
        await peer.ws.send("x" * (64 * 1024 * 1024 + 1))

    done = play(serve, home)
    assert done.returncode == 255 and "1009" in done.text and "trying" not in done.text


@pytest.mark.parametrize("text", ["{", "[]", "null", "\x00", '{"id":1}'])
def test_what_is_no_message(home, text):
    async def serve(peer):
        await peer.started()
        await peer.ws.send(text)
        await peer.ended(1, 3)
        await peer.stay()

    done = play(serve, home)
    assert done.returncode in (3, 255) and done.seconds < 10 * PATIENCE


@pytest.mark.parametrize("status", [401, 403, 404, 503])
def test_an_upgrade_that_is_refused(home, status):
    async def refuse(_path, _headers):
        return http.HTTPStatus(status), [], NASTY.encode() + b"\x9b\xff"

    done = play(None, home, process_request=refuse)
    assert done.returncode == 255 and f"the server answered {status}" in done.text
    check_harmless(done.stderr)


def check_harmless(stderr):
    assert stderr.count(b"\n") == 1 and stderr.endswith(b"\n")
    assert not [c for c in stderr.decode()[:-1] if ord(c) < 32 or 0x7f <= ord(c) < 0xa0], stderr


@pytest.mark.parametrize("where", ["initialize", "start", "resume", "close"])
def test_what_a_server_says_does_nothing_to_the_terminal(home, where):
    async def serve(peer):
        if where == "initialize" or peer.number > 1:
            await peer.answer("initialize", error={"code": -32600, "message": NASTY})
            await peer.stay()
        await peer.hello()
        if where == "start":
            await peer.answer("process/start", error={"code": -32000, "message": NASTY, "data": {"text": NASTY}})
            await peer.stay()
        await peer.answer("process/start", {"processId": "p"})
        if where == "close":
            await peer.ws.close(4000, NASTY[:60])

    done = play(serve, home)
    assert done.returncode == 255
    check_harmless(done.stderr.splitlines(keepends=True)[-1])
    assert b"\x1b" not in done.stderr and b"\xc2\x9b" not in done.stderr and b"\r" not in done.stderr


def test_the_output_of_the_command_is_as_it_is(home):
    async def serve(peer):
        await peer.started()
        await peer.output(1, NASTY.encode())
        await peer.output(2, NASTY.encode(), "stderr")
        await peer.ended(3)
        await peer.stay()

    done = play(serve, home)
    assert done.stdout == done.stderr == NASTY.encode()
