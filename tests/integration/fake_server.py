"""A server that says what the test wants, also what a real server never says. One coroutine of the test serves each connection."""

import asyncio
import base64
import json
import threading

import websockets

GENERATIONS = {
    "oldest": {},  # no session: nothing can be resumed
    "old": {"sessionId": "s"},
    "new": {"sessionId": "s", "environmentInfo": {"cwd": "file:///tmp", "capabilities": {"processControlV1": True}}},
}


class Peer:
    """One connection, as the server sees it."""

    def __init__(self, ws, number):
        self.ws, self.number = ws, number  # the first connection is 1

    async def next(self, method):
        """Awaits a request or notification of this method; others are left without an answer."""
        while True:
            message = json.loads(await self.ws.recv())
            if message.get("method") == method:
                return message

    async def send(self, **message):
        await self.ws.send(json.dumps(message))

    async def answer(self, method, result=None, error=None):
        request = await self.next(method)
        await self.send(id=request["id"], **({"error": error} if error else {"result": result or {}}))
        return request.get("params")

    async def hello(self, generation="new"):
        params = await self.answer("initialize", GENERATIONS[generation])
        await self.next("initialized")
        return params

    async def started(self, generation="new"):
        """The handshake, and the answer to a start. Returns the params of the start."""
        await self.hello(generation)
        self.start = await self.answer("process/start", {"processId": "p"})
        return self.start

    async def tell(self, event, seq, **params):
        number = {} if seq is None else {"seq": seq}
        await self.send(method=f"process/{event}", params={"processId": self.start["processId"], **number, **params})

    async def output(self, seq, data, stream="stdout"):
        await self.tell("output", seq, stream=stream, chunk=base64.b64encode(data).decode())

    async def ended(self, seq, code=0):
        await self.tell("exited", seq, exitCode=code)
        await self.tell("closed", seq + 1)

    async def stay(self):
        await self.ws.wait_closed()


def read_answer(chunks, next_seq, code=None):
    """The answer to process/read. `chunks`: {seq: bytes}. With a code the process has ended."""
    return {"chunks": [{"seq": seq, "stream": "stdout", "chunk": base64.b64encode(data).decode()} for seq, data in chunks.items()],
            "nextSeq": next_seq, "exited": code is not None, "exitCode": code, "closed": code is not None, "failure": None}


class FakeServer:
    """Serves each connection with `serve(peer)` until close(). `failure`: the first error in `serve`."""

    def __init__(self, serve, **options):
        self.connections, self.failure = 0, None
        self._serve, self._options = serve, options
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        self._ready.wait()
        self.url = f"ws://127.0.0.1:{self.port}"

    async def _handle(self, ws, _path=None):
        self.connections += 1
        try:
            await self._serve(Peer(ws, self.connections))
        except websockets.ConnectionClosed:
            pass
        except Exception as e:  # pylint: disable=broad-except
            self.failure = self.failure or e

    async def _run(self):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with websockets.serve(self._handle, "127.0.0.1", 0, compression=None, max_size=None, **self._options) as server:
            self.port = server.sockets[0].getsockname()[1]
            self._ready.set()
            await self._stop.wait()

    def run(self, coroutine):
        """Runs a coroutine in the thread of the server, and waits for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def close(self):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc, tb):
        self.close()
        if exc_type is None and self.failure:
            raise self.failure
