"""fs/watchMissing and fs/missingChanged: one notification when a missing path appears, or an existing one changes.

Limits, reported changes and reuse of ids are those of the reference server."""

import os
import threading
from urllib.parse import quote

import pytest

from farhand_client import Client, wait_until


def uri(path):
    return "file://" + quote(os.fsencode(path), safe="/")


class Missing:
    """Sends fs/watchMissing with rising watch ids."""

    def __init__(self, client, root):
        self.client, self.root, self.id = client, root, 0

    def path(self, name):
        return os.path.join(self.root, name)

    def ask(self, *names, present=None, watch_id=None):
        self.id = self.id + 1 if watch_id is None else watch_id
        params = {"watchId": self.id, "missing": [uri(self.path(n)) for n in names]}
        if present is not None:
            params["present"] = uri(self.path(present))
        answer = self.client.call("fs/watchMissing", params)
        assert set(answer) == {"watching"}
        return answer["watching"]

    def fired(self):
        return [m["params"]["watchId"] for m in self.client.notifications if m["method"] == "fs/missingChanged"]

    def fires(self):
        """Waits for the notification of the newest watch."""
        wait_until(lambda: self.id in self.fired(), 10, f"fs/missingChanged {self.id}")
        assert self.client.notifications[-1] == {"method": "fs/missingChanged", "params": {"watchId": self.id}}

    def is_silent(self):
        """Checks that no notification came, by waiting for that of a watch that is made later."""
        before = self.fired()
        with Client(self.client.url) as other:
            probe = Missing(other, self.root)
            assert probe.ask("zz-probe")
            self.touch("zz-probe")
            probe.fires()
            os.unlink(self.path("zz-probe"))
        self.client.call("fs/getMetadata", {"path": uri(self.root)})
        return self.fired() == before

    def touch(self, name):
        with open(self.path(name), "w", encoding="utf-8"):
            pass


@pytest.fixture
def missing(client, tmp):
    return Missing(client, tmp)


def test_the_capability(client):
    assert client.init_result["environmentInfo"]["capabilities"]["fsWatchMissing"] is True


def test_a_file_appears_once(missing):
    assert missing.ask("m")
    missing.touch("unrelated")
    assert missing.is_silent()
    missing.touch("m")
    missing.fires()
    os.unlink(missing.path("m"))
    missing.touch("m")
    assert missing.is_silent()


def test_one_of_many_appears(missing):
    assert missing.ask("a", "b", "c/d/e", "b")
    missing.touch("b")
    missing.fires()


def test_parents_appear_one_after_the_other(missing):
    assert missing.ask("a/b/c")
    os.mkdir(missing.path("a"))
    missing.fires()
    assert missing.ask("a/b/c")
    os.mkdir(missing.path("a/x"))
    assert missing.is_silent()
    os.mkdir(missing.path("a/b"))
    missing.fires()
    assert missing.ask("a/b/c")
    missing.touch("a/b/c")
    missing.fires()


def test_something_comes_and_goes_at_once(missing):
    assert missing.ask("m")
    missing.touch("m")
    os.unlink(missing.path("m"))
    missing.fires()


def test_a_rename_brings_it(missing):
    missing.touch("other")
    assert missing.ask("m")
    os.rename(missing.path("other"), missing.path("m"))
    missing.fires()


def test_a_broken_link_is_something(missing):
    assert missing.ask("link")
    os.symlink("nowhere", missing.path("link"))
    missing.fires()
    assert not missing.ask("link")


def test_parents_that_go_or_move(missing):
    os.makedirs(missing.path("p/q/r"))
    assert missing.ask("p/q/r/m")
    os.rename(missing.path("p/q"), missing.path("p/moved"))
    missing.fires()
    assert missing.ask("p/moved/r/m")
    os.rmdir(missing.path("p/moved/r"))
    missing.fires()


@pytest.mark.parametrize("change", ["unlink", "rename", "replace", "write", "chmod"])
def test_the_present_file_changes(missing, change):
    path = missing.path("f")
    missing.touch("f")
    missing.touch("other")
    assert missing.ask("m", present="f")
    missing.touch("sibling")
    assert missing.is_silent()
    {"unlink": lambda: os.unlink(path),
     "rename": lambda: os.rename(path, path + "2"),
     "replace": lambda: os.rename(missing.path("other"), path),
     "write": lambda: os.truncate(path, 3),
     "chmod": lambda: os.chmod(path, 0o600)}[change]()
    missing.fires()


def test_a_present_directory_and_what_is_in_it(missing):
    os.makedirs(missing.path("p/d"))
    assert missing.ask("m", present="p/d")
    missing.touch("p/d/inside")
    assert missing.is_silent()
    os.rename(missing.path("p"), missing.path("q"))
    missing.fires()


def test_nothing_is_watched(missing):
    missing.touch("there")
    os.mkdir(missing.path("dir"))
    os.symlink("dir", missing.path("link"))
    os.symlink("there", missing.path("file-link"))
    assert not missing.ask()  # nothing to watch
    assert not missing.ask("there")
    assert not missing.ask("m", "there")
    assert not missing.ask("m", present="none")
    assert not missing.ask("m", present="file-link")
    assert not missing.ask("there/m")  # below a file
    assert not missing.ask("link/m")  # a link on the way
    assert not missing.ask("m", present="../" + os.path.basename(missing.root) + "/link/x")
    assert not missing.ask("/")
    assert not missing.ask("/proc/999999/m")
    assert not missing.ask("/sys/m")
    assert missing.ask("m", present="/")


def test_at_most_64_paths(missing):
    assert missing.ask(*[f"m{i}" for i in range(64)])
    assert not missing.ask(*[f"m{i}" for i in range(65)])


def test_a_newer_watch_replaces_the_older(missing):
    assert missing.ask("one")
    assert missing.ask("two")
    missing.touch("one")
    assert missing.is_silent()
    missing.touch("two")
    missing.fires()


def test_a_newer_one_that_watches_nothing_replaces_it_too(missing):
    missing.touch("there")
    assert missing.ask("one")
    assert not missing.ask("there")
    missing.touch("one")
    assert missing.is_silent()
    assert missing.ask("two")
    assert not missing.ask()
    missing.touch("two")
    assert missing.is_silent()


def test_ids_are_spent(missing):
    assert not missing.ask(watch_id=5)
    assert not missing.ask("m", watch_id=5)
    assert missing.ask("m", watch_id=6)
    assert not missing.ask("n", watch_id=6)
    assert not missing.ask("n", watch_id=3)
    missing.touch("m")  # the refused requests did not replace the watch
    wait_until(lambda: missing.fired() == [6])
    assert not missing.ask("n", watch_id=6)
    assert missing.ask("n", watch_id=2**64 - 1)


def test_a_watch_belongs_to_its_connection(server, missing):
    with Client(server.url) as other:
        theirs = Missing(other, missing.root)
        assert theirs.ask("theirs")
        assert missing.ask("ours")
        missing.touch("theirs")
        theirs.fires()
        missing.touch("ours")
        missing.fires()


@pytest.mark.parametrize("params, message", [
    ({}, "missing field `watchId`"),
    ({"watchId": "x"}, 'invalid type: string "x", expected u64'),
    ({"watchId": -1, "missing": []}, "invalid number"),
    ({"watchId": 2**64, "missing": []}, "invalid number"),
    ({"watchId": 1}, "missing field `missing`"),
    ({"watchId": 1, "missing": None}, "invalid type: null, expected a sequence"),
    ({"watchId": 1, "missing": "x"}, 'invalid type: string "x", expected a sequence'),
    ({"watchId": 1, "missing": [5]}, "invalid type: number, expected a string"),
    ({"watchId": 1, "missing": ["http://x/y"]}, "unsupported path URI scheme `http`"),
    ({"watchId": 1, "missing": [], "present": 5}, "invalid type: number, expected a string"),
])
def test_bad_params(client, params, message):
    error = client.error("fs/watchMissing", params)
    assert (error.code, error.message) == (-32602, message)


def test_a_path_of_another_platform_is_not_watched(client):
    assert client.call("fs/watchMissing", {"watchId": 1, "missing": ["file:///C:/x"]}) == {"watching": False}


def test_native_paths_and_null(client, tmp):
    params = {"watchId": 1, "missing": [f"{tmp}/m"], "present": None, "sandbox": None}
    assert client.call("fs/watchMissing", params) == {"watching": True}


def test_no_change_is_missed_while_it_is_armed(missing):
    """A thread makes the path during the request: the answer says that the path exists, or a notification follows."""
    for i in range(100):
        name = f"d{i}/e/f"
        worker = threading.Thread(target=lambda n=name: (os.makedirs(missing.path(os.path.dirname(n))), missing.touch(n)))
        worker.start()
        watching = missing.ask(name)
        worker.join()
        if watching:
            missing.fires()
        else:
            assert not missing.ask(name)  # it is there
