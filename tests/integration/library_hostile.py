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


def deaf():
    """Reads the handshake and nothing else."""
    sys.stdin.readline()
    send(id=0, result={"sessionId": "s"})
    time.sleep(600)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
