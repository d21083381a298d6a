"""Messages for the live fuzzer: recorded messages of real clients and one of each method, and random changes of them."""

import base64
import copy
import glob
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
NUMBERS = [0, 1, -1, 2, 127, 128, 255, 256, 1023, 1024, 4096, 65535, 65536, 1 << 20, 1 << 31, (1 << 31) - 1, 1 << 32, 1 << 53,
           (1 << 63) - 1, -(1 << 63), 1 << 63, 1 << 64, 0.5, -0.0, 1e300]
TEXTS = ["", "/", ".", "..", "a", "é€😀", "\0", "\n", "x" * 33, "x" * 257, "x" * 1025, "y" * 70000, "%2e%2e", "file:", "file:///",
         "file://localhost/", "file://elsewhere/x", "//", "/dev/null", "/dev/zero", "/proc/self/fd/0", "/proc/self/mem", "*", "**/x",
         "[", "kill", "interrupt", "pty", "AAAA", "AAA", "=", "A=B", "http://127.0.0.1:1/", "unix:/x", "\ud7ff", "null"]
# The longest waitMs in a request, so that a request that waits can be told from one that is never answered.
WAIT_MS_MAX = 700


def recorded():
    """The messages that clients sent in the recorded conversations."""
    for name in sorted(glob.glob(os.path.join(HERE, "..", "conformance", "*.jsonl"))):
        with open(name, encoding="utf-8") as f:
            for line in f:
                entry = json.loads(line)
                if entry.get("dir") == "c2s" and isinstance(entry.get("msg"), dict):
                    yield entry["msg"]


def profiles():
    """The sandbox objects in tests/vectors/wire.json."""
    with open(os.path.join(HERE, "..", "vectors", "wire.json"), encoding="utf-8") as f:
        return [case["sandbox"] for case in json.load(f)["cases"] if "sandbox" in case]


def of_each_method(d):
    start = {"processId": "p1", "argv": ["sh", "-c", "cat; echo done"], "cwd": d, "env": {"PATH": "/usr/bin:/bin"}, "tty": False,
             "pipeStdin": True}
    yield from (("process/start", start),
                ("process/start", {**start, "processId": "p2", "tty": True, "argv": ["bash"]}),
                ("process/start", {**start, "processId": "p3", "argv": ["sh", "-c", "seq 1 20000; exit 3"], "pipeStdin": False}),
                ("process/start", {**start, "processId": "p4", "argv": ["sleep", "5"],
                                   "limits": {"wallMs": 300, "silenceMs": 200, "cpuSeconds": 1, "processes": 20}}),
                ("process/start", {**start, "io": {"type": "pty", "rows": 10, "cols": 20}, "kind": "direct"}),
                ("process/start", {**start, "envPolicy": {"inherit": "core", "ignoreDefaultExcludes": False, "exclude": ["*X*"],
                                                          "set": {"A": "b"}, "includeOnly": []}}))
    p = {"processId": "p1"}
    yield from (("process/read", {**p, "afterSeq": 0, "maxBytes": 100, "waitMs": 50}),
                ("process/write", {**p, "chunk": "aGVsbG8K", "writeId": "w1"}), ("process/signal", {**p, "signal": "interrupt"}),
                ("process/terminate", p), ("process/terminate", {**p, "mode": {"type": "graceful", "timeoutMs": 20}}),
                ("process/closeStdin", p), ("process/resize", {**p, "rows": 4, "cols": 5}),
                ("process/wait", {**p, "until": "exited", "waitMs": 50, "drainMs": 10}), ("process/snapshot", {**p, "maxBytes": 99}),
                ("process/list", {"scope": "server"}), ("session/list", {}), ("environment/info", None),
                ("environment/status", None))
    yield "fs/writeFile", {"path": f"{d}/f5", "dataBase64": "eA==", "unordered": True}
    yield "process/wait", {**p, "waitMs": 50, "sessionId": "00000000-0000"}
    for method in ("readFile", "getMetadata", "canonicalize", "readDirectory", "readLink", "remove", "createDirectory"):
        yield f"fs/{method}", {"path": f"{d}/f1"}
    yield from (("fs/writeFile", {"path": f"file://{d}/f1", "dataBase64": "aGVsbG8K", "createParents": True, "mode": 420,
                                  "ifMatch": {"absent": True}}),
                ("fs/writeFile", {"path": f"{d}/f2", "dataBase64": "eA==" * 1, "atomic": False}),
                ("fs/walk", {"path": d, "options": {"maxDepth": 3, "maxDirectories": 100, "maxEntries": 100,
                                                    "followDirectorySymlinks": True}}),
                ("fs/copy", {"sourcePath": f"{d}/f1", "destinationPath": f"{d}/f3", "recursive": True}),
                ("fs/rename", {"sourcePath": f"{d}/f3", "destinationPath": f"{d}/f4", "replace": True}),
                ("fs/symlink", {"path": f"{d}/l", "target": "f1"}),
                ("fs/setMetadata", {"path": f"{d}/f1", "mode": 384, "modifiedAtMs": 1}),
                ("fs/open", {"handleId": "h", "path": f"{d}/f1", "mode": "resume"}),
                ("fs/readBlock", {"handleId": "h", "offset": 0, "len": 100}),
                ("fs/writeBlock", {"handleId": "h", "offset": 5, "chunk": "eHl6"}), ("fs/close", {"handleId": "h", "sync": True}),
                ("fs/scanDirectory", {"path": d, "after": "a", "limit": 3}),
                ("fs/scanDirectory", {"path": f"file://{d}", "afterBase64": "/w==", "unordered": True}),
                ("fs/readFiles", {"path": d, "names": ["f1", "none", "f2"], "unordered": True}),
                ("fs/writeFiles", {"path": d, "files": [{"name": "f6", "dataBase64": "eA==", "mode": 384, "modifiedAtMs": -1},
                                                        {"name": "f1", "dataBase64": "eHl6"}]}),
                ("fs/digest", {"path": f"{d}/f1", "offset": 1, "length": 10, "followSymlinks": False}),
                ("fs/checkAccess", {"paths": [{"path": f"{d}/f1", "access": "write"}, {"path": f"{d}/no/../f2", "access": "remove"},
                                              {"path": f"file://{d}/l/x", "access": "read"}], "unordered": True}),
                ("fs/watch", {"watchId": "w", "path": d, "recursive": True}), ("fs/unwatch", {"watchId": "w"}),
                ("fs/watchMissing", {"watchId": 1, "missing": [f"{d}/none"], "present": d}),
                ("capabilityRoots/discoverV1", {"roots": [{"id": "r", "path": d}]}),
                ("http/request", {"method": "GET", "url": "http://127.0.0.1:1/", "requestId": "r", "timeoutMs": 300,
                                  "streamResponse": True, "headers": [{"name": "x", "value": "y"}]}),
                ("initialize", {"clientName": "again"}))


class Mutator:
    def __init__(self, chance, directory):
        self.r = chance
        self.seeds = [m for m in recorded() if "id" in m and isinstance(m.get("method"), str)]
        text = json.dumps(self.seeds).replace("@DIR@", directory).replace("@W", directory)
        self.seeds = json.loads(text)
        self.seeds += [{"method": m, "params": p} for m, p in of_each_method(directory)]
        boxes = json.loads(json.dumps(profiles()).replace("@W", directory))
        for method, params in of_each_method(directory):
            if method == "process/start" or method.startswith("fs/") and isinstance(params, dict):
                self.seeds.append({"method": method, "params": {**params, "sandbox": self.r.choice(boxes)}})
        self.methods = {}  # method -> seeds: the methods that clients call most must not crowd out the others
        for seed in self.seeds:
            self.methods.setdefault(seed["method"], []).append(seed)

    # Changes of the JSON tree of a message

    def _places(self, value, found):
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            found.append((value, key))
            self._places(inner, found)
        return found

    def _fresh(self, old):
        kind = self.r.randrange(10)
        if kind < 3 and isinstance(old, str):
            return self._text(old)
        if kind < 3 and isinstance(old, (int, float)) and not isinstance(old, bool):
            return old + self.r.choice([-1, 1, 7, -100])
        if kind < 5:
            return self.r.choice(TEXTS)
        if kind < 7:
            return self.r.choice(NUMBERS)
        if kind == 7:
            return self.r.choice([None, True, False, [], {}, [[]], {"": None}, [None] * 5])
        if kind == 8:
            return [copy.deepcopy(old)] * self.r.randrange(4)
        return base64.b64encode(self.r.randbytes(self.r.choice([0, 1, 2, 3, 100, 5000]))).decode()

    def _text(self, text):
        at, n = self.r.randrange(len(text) + 1), self.r.randrange(1, 5)
        return self.r.choice([text[:at] + self.r.choice(TEXTS) + text[at:], text[:at] + text[at + n:], text[:at] + text,
                              text.upper(), text + "/../" + text, text[::-1]])

    def _tree(self, message):
        for _ in range(self.r.choice([0, 1, 1, 1, 2, 3, 6])):
            places = self._places(message.get("params"), [])
            if not places or self.r.random() < 0.03:
                message["params"] = self._fresh(message.get("params"))
                continue
            holder, key = self.r.choice(places)
            what = self.r.random()
            if what < 0.6:
                holder[key] = self._fresh(holder[key])
            elif what < 0.75:
                del holder[key]
            elif what < 0.9:
                other = self.r.choice(self._places(self.r.choice(self.seeds).get("params"), []) or [(holder, key)])
                holder[key] = copy.deepcopy(other[0][other[1]])
            elif isinstance(holder, dict):
                holder[self.r.choice(TEXTS[:40])] = self._fresh(None)
            else:
                holder.insert(0, self._fresh(None))
        return message

    @staticmethod
    def _bound_waits(message):
        params = message.get("params")
        if isinstance(params, dict) and message["method"] in ("process/read", "process/wait"):
            wait = params.get("waitMs")
            if isinstance(wait, int) and wait > WAIT_MS_MAX or message["method"] == "process/wait" and wait is None:
                params["waitMs"] = WAIT_MS_MAX
        if isinstance(params, dict) and message["method"] == "http/request":
            params["timeoutMs"] = WAIT_MS_MAX

    def request(self, ident):
        """A changed request that still has the id `ident`, so that the server has to answer it."""
        message = self._tree(copy.deepcopy(self.r.choice(self.methods[self.r.choice(sorted(self.methods))])))
        if self.r.random() < 0.02:
            message["method"] = self._text(message["method"])
        message["id"] = ident
        self._bound_waits(message)
        if self.r.random() < 0.02 and isinstance(message.get("params"), dict):
            message["params"]["padding"] = self.r.choice(["x", "é", "\n"]) * self.r.choice([70000, 300000, 1500000])
        return json.dumps(message, ensure_ascii=self.r.random() < 0.5).encode("utf-8", "surrogatepass")

    def noise(self, ident):
        """A request with changed bytes, or a message of another shape. The server may answer it or not."""
        text = bytearray(self.request(ident)[:100000])
        for _ in range(self.r.choice([1, 1, 2, 8])):
            at, n = self.r.randrange(len(text) + 1), self.r.randrange(1, 9)
            what = self.r.randrange(5)
            if what == 0 and text:
                text[at % len(text)] ^= 1 << self.r.randrange(8)
            elif what == 1:
                del text[at:at + n]
            elif what == 2:
                text[at:at] = self.r.randbytes(n)
            elif what == 3:
                text[at:at] = self.r.choice([b"{", b"}", b"[" * 200, b'"', b"\\u0000", b"\\ud800", b",", b"\xff", b'"id":1,', b"1e9"])
            else:
                del text[at:]
        # The changed bytes may make waitMs huge, and the request would seem never to be answered: rename the member.
        text = bytes(text).replace(b"waitMs", b"waitMS")
        if self.r.random() < 0.95:  # text that is no UTF-8 ends the connection
            text = text.decode("utf-8", "replace").encode()
        return text
