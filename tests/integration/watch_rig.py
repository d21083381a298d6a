"""What the tests of fs/watch share: the events of a watch, and the tree that they describe."""

import os
import shutil
import tempfile
from urllib.parse import quote, unquote_to_bytes

import pytest

from farhand_client import wait_until


READ_ONLY = {"windowsSandboxLevel": "disabled", "permissions": {
    "type": "managed", "network": "restricted",
    "file_system": {"type": "restricted", "entries": [
        {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}]}}}


def deny(*paths):
    entries = [{"path": {"type": "path", "path": path}, "access": "deny"} for path in paths]
    box = READ_ONLY["permissions"]["file_system"]
    return {**READ_ONLY, "cwd": "file:///", "permissions": {**READ_ONLY["permissions"], "file_system": {
        **box, "entries": box["entries"] + entries}}}


def uri(path):
    return "file://" + quote(os.fsencode(path), safe="/")


def native(text):
    assert text.startswith("file://")
    return os.fsdecode(unquote_to_bytes(text[len("file://"):]))


class Watch:
    """The events of one watch as they come, with paths below its root."""

    def __init__(self, client, root, watch_id="w", recursive=True, **extra):
        self.client, self.root, self.id = client, root, watch_id
        self.taken, self.rows, self.known = 0, [], set()
        params = {"watchId": watch_id, "path": uri(root), **extra}
        if recursive is not None:
            params["recursive"] = recursive
        assert client.call("fs/watch", params, timeout=60) == {}

    def notifications(self):
        return [m["params"] for m in list(self.client.notifications)
                if m["method"] == "fs/changed" and m["params"]["watchId"] == self.id]

    def short(self, text):
        path = native(text)
        return "." if path == self.root else os.path.relpath(path, self.root)

    def row(self, event):
        row = (event["kind"], self.short(event["path"]))
        return row + (self.short(event["fromPath"]),) if "fromPath" in event else row

    def events(self):
        """All events so far: (kind, path) or ("renamed", path, from)."""
        every = self.client.notifications
        while self.taken < len(every):
            message = every[self.taken]
            self.taken += 1
            if message["method"] == "fs/changed" and message["params"]["watchId"] == self.id:
                fresh = [self.row(event) for event in message["params"]["events"]]
                self.rows += fresh
                self.known.update(fresh)
        return self.rows

    def has(self, *row):
        self.events()
        return row in self.known

    def overflows(self):
        return sum(params["overflow"] for params in self.notifications())

    def overflowed(self):
        return self.overflows() > 0

    def until(self, *row, timeout=20):
        """Waits for an event; returns all up to now."""
        wait_until(lambda: self.has(*row), timeout, f"{row}")
        return list(self.events())

    def settle(self, name="zz-last"):
        """Makes a file and waits for its event: all earlier changes have been reported by then."""
        path = os.path.join(self.root, name)
        with open(path, "w", encoding="utf-8"):
            pass
        self.until("created", name)
        os.unlink(path)
        return [row for row in self.until("removed", name) if row[1] != name]


@pytest.fixture
def quick_tmp():
    """A temporary directory, in memory where possible, for tens of thousands of files."""
    path = tempfile.mkdtemp(prefix="fh-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def touch(*parts):
    with open(os.path.join(*parts), "w", encoding="utf-8"):
        pass


def inotify_watches(pid):
    """How many watches the inotify descriptors of a process have."""
    count = 0
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as f:
                count += sum(line.startswith("inotify ") for line in f)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return count


def no_watches(pid):
    """Waits until the server has no watches: it ends those of a closed connection little by little. Returns their number, 0."""
    wait_until(lambda: inotify_watches(pid) == 0, 60, "no watch left")
    return 0


def merged(rows):
    """The events without changes of what they say was created: a batch can end between the creation and the close of a file."""
    created, kept = set(), []
    for row in rows:
        if row[0] != "modified" or row[1] not in created:
            kept.append(row)
        if row[0] == "created":
            created.add(row[1])
    return kept


class Model:
    """The tree as a client knows it from the events alone."""

    def __init__(self):
        self.paths = set()

    def take(self, row):
        below = row[-1] + "/"
        if row[0] == "created":
            self.paths.add(row[1])
        elif row[0] == "removed":
            self.paths = {p for p in self.paths if p != row[1] and not p.startswith(below)}
        elif row[0] == "renamed":
            moved = {p for p in self.paths if p == row[2] or p.startswith(below)}
            target = row[1] + "/"
            self.paths = {p for p in self.paths - moved if p != row[1] and not p.startswith(target)}
            self.paths |= {row[1] + p[len(row[2]):] for p in moved} | {row[1]}


def actual(root):
    found = set()
    for folder, dirs, files in os.walk(root):
        for name in dirs + files:
            found.add(os.path.relpath(os.path.join(folder, name), root))
    return found
