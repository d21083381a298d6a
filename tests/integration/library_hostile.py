"""A server on stdio that misbehaves: library_hostile.py HOW. One function for each way; test_library_hostile.py says what must not happen."""

import json
import sys
import time


def send(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def requests():
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "initialize":
            send(id=message["id"], result={"sessionId": "s", "environmentInfo": {"cwd": "file:///", "capabilities": {}}})
        elif "id" in message:
            yield message["id"], message["method"], message["params"]


def tell(kind, process, seq, **more):
    send(method=f"process/{kind}", params={"processId": process, "seq": seq, **more})


def started(act):
    for ident, method, params in requests():
        if method == "process/start":
            send(id=ident, result={"processId": params["processId"]})
            act(params["processId"])


def closed_without_exit():
    started(lambda p: tell("closed", p, 1))


def empty_chunks():
    def act(p):
        for seq in range(1, 5):
            tell("output", p, seq, stream="stdout", chunk="")
        tell("exited", p, 5, exitCode=0)
        tell("closed", p, 6)
    started(act)


def two_exits():
    def act(p):
        tell("exited", p, 1, exitCode=1)
        tell("exited", p, 2, exitCode=2)
        tell("closed", p, 3)
    started(act)


def gone():
    """Ends after the handshake. It reads `initialized` first, so that the client can still send that."""
    sys.stdin.readline()
    send(id=0, result={"sessionId": "s"})
    sys.stdin.readline()


def backwards():
    """The answer to process/read tells of as many events as a message can hold, the newest first."""
    for ident, method, _ in requests():
        if method == "process/read":
            chunks = [{"seq": seq, "stream": "stdout", "chunk": ""} for seq in range(65000, 1, -1)]
            send(id=ident, result={"chunks": chunks, "nextSeq": 65001, "exited": False, "closed": False})


def silent():
    for _ in requests():
        pass


def answers_calls():
    for ident, method, _ in requests():
        if method == "x":
            send(id=ident, result={})


def http_answer(ident):
    send(id=ident, result={"status": 200, "headers": [], "bodyBase64": ""})


def http_piece(params, seq, text="", **more):
    send(method="http/request/bodyDelta", params={"requestId": params["requestId"], "seq": seq, "deltaBase64": text, **more})


def http_flood():
    """Pieces without end, and no answer."""
    for _, method, params in requests():
        for seq in range(1, 2000) if method == "http/request" else ():
            http_piece(params, seq, "AAAA" * 1000, done=False)


def http_swapped():
    for ident, method, params in requests():
        if method == "http/request":
            http_answer(ident)
            http_piece(params, 2, "AAAA", done=True)


def http_others():
    """Pieces of other requests, and two ends."""
    for ident, method, params in requests():
        if method == "http/request":
            http_piece({"requestId": "farhand-http-77"}, 1, "AAAA", done=True)
            http_answer(ident)
            http_piece({"requestId": 7}, 1, "AAAA", done=True)
            http_piece(params, 1, "eA==", done=True)
            http_piece(params, 2, "eA==", done=True, error="again")


def watch_nonsense():
    for ident, method, params in requests():
        if method == "fs/watch":
            send(id=ident, result={})
            path = {"path": "file:///x", "kind": "modified"}
            for events in ("", [7], [{"path": "x" * 100000, "kind": "created"}], [{"path": "/", "kind": "e" * 100000}],
                           [{"path": "file:///%00", "kind": "created"}], [path] * 20000):
                send(method="fs/changed", params={"watchId": params["watchId"], "events": events})
            send(method="fs/changed", params={"watchId": params["watchId"], "events": [{"path": "/last", "kind": "removed"}]})


def snapshot_huge():
    """Thirty times as much as was asked for, with counts that no stream has."""
    for ident, method, _ in requests():
        if method == "process/read":
            chunks = [{"seq": seq, "stream": "stdout", "chunk": "AAAA" * 10000} for seq in range(1, 100)]
            send(id=ident, result={"chunks": chunks, "nextSeq": 2 ** 64 - 1, "exited": True, "closed": True})


def snapshot_broken():
    for ident, method, _ in requests():
        if method == "process/read":
            send(id=ident, result={"nextSeq": 3, "stdout": "=", "stderr": "", "terminal": ""})


def deaf():
    """Reads the handshake and nothing else."""
    sys.stdin.readline()
    send(id=0, result={"sessionId": "s"})
    time.sleep(600)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
