"""farhand attach with servers that answer badly, late or never: the terminal stays usable, and the program ends."""

import base64
import signal
import threading

import pytest

from cmd_rig import Terminal, cmd_of
from fake_server import FakeServer
from farhand_client import BIN

SESSION = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(name="me", scope="module")
def fixture_me():
    with cmd_of("root") as cmd:
        yield cmd


def attach(me, server):
    return Terminal(me, "--url", server.url, SESSION, program=(BIN, "attach"))


async def listed(peer, tty=True, process_id="p"):
    await peer.hello()
    await peer.answer("process/list", {"processes": [{"processId": process_id, "running": True, "tty": tty, "argv": ["x"]}]})


@pytest.mark.parametrize("how", ["key", "signal"])
def test_a_server_that_never_tells_the_old_output_can_be_left(me, how):
    asked = threading.Event()

    async def serve(peer):
        await listed(peer)
        await peer.next("process/read")
        asked.set()
        await peer.stay()

    with FakeServer(serve) as server, attach(me, server) as t:
        t.until(asked.is_set, "the request for old output")
        assert not t.is_raw()
        if how == "key":
            t.type(b"\x03")
        else:
            t.proc.send_signal(signal.SIGTERM)
        assert t.wait() == -(signal.SIGINT if how == "key" else signal.SIGTERM)
        assert t.modes() == t.before


def test_old_output_that_cannot_be_read_leaves_the_terminal_as_it_was(me):
    """The first chunk is more than a terminal takes at once; keys that are typed meanwhile are for nobody."""
    good = {"seq": 1, "stream": "pty", "chunk": base64.b64encode(b"x" * 500000).decode()}

    async def serve(peer):
        await listed(peer)
        await peer.answer("process/read", {"chunks": [good, {"seq": 2, "stream": "pty", "chunk": "?"}], "nextSeq": 3})
        await peer.stay()

    with FakeServer(serve) as server, attach(me, server) as t:
        t.type(b"a")
        t.expect(b"output that cannot be read")
        assert t.wait() == 255
        assert t.modes() == t.before


def test_a_process_id_may_be_any_text(me):
    """The command has exited, and a child of it holds its output: the server is asked whether there is more."""
    name = 'a"b\\' + "x" * 2000

    async def serve(peer):
        await listed(peer, tty=False, process_id=name)
        await peer.answer("process/read", {"chunks": [], "nextSeq": 2, "exited": True, "exitCode": 7, "closed": False})
        params = await peer.answer("process/read", {"chunks": [], "nextSeq": 2, "exited": True, "exitCode": 7, "closed": False})
        assert params["processId"] == name
        await peer.stay()

    with FakeServer(serve) as server, attach(me, server) as t:
        assert t.wait() == 7


def test_what_is_typed_right_before_leaving_is_sent(me):
    running = {"chunks": [], "nextSeq": 1, "exited": False, "closed": False}
    written = []

    async def serve(peer):
        await listed(peer)
        await peer.answer("process/read", running)
        await peer.answer("process/read", running)
        written.append(base64.b64decode((await peer.next("process/write"))["params"]["chunk"]))

    with FakeServer(serve) as server, attach(me, server) as t:
        t.until(t.is_raw, "a raw terminal")
        t.type(b"x\r~.")
        assert t.wait() == 0
        t.until(lambda: written == [b"x\r"], "what was typed")
