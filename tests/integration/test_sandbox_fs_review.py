"""File requests with a permission profile: what a review found."""

import base64
import contextlib
import hashlib
import os
import subprocess
import sys
import threading

import pytest

from farhand_client import Client, RpcError, wait_until
from sandbox_rig import USERS, WORKSPACE, at, landlock_abi, narrow, read_only, rig_of, sandbox, uri, workspace_write

NOT_FOUND, INVALID, INTERNAL = -32004, -32600, -32603
LANDLOCK_ABI = 6


@pytest.fixture(scope="module", params=[(user, backend) for user in USERS for backend in ("namespaces", "landlock")],
                ids="-".join)
def rig(request):
    user, backend = request.param
    if backend == "landlock" and landlock_abi() < LANDLOCK_ABI:
        pytest.skip(f"Landlock: ABI {landlock_abi()}")
    with rig_of(user, args=["--sandbox-backend", backend]) as rig:
        yield rig


@pytest.fixture
def tree(rig):
    tree = rig.tree()
    tree.dir(tree.w)
    tree.dir(tree.o)
    return tree


class Box:
    """File requests under one profile. An error is its code and message."""

    def __init__(self, rig, profile, cwd, client=None):
        self.client, self.sandbox = client or rig.client, sandbox(profile, cwd)

    def __call__(self, method, path, **more):
        try:
            return self.client.call("fs/" + method, {"path": uri(path), "sandbox": self.sandbox, **more}, 30)
        except RpcError as refused:
            return refused.code, refused.message

    def code(self, method, path, **more):
        result = self(method, path, **more)
        return result[0] if isinstance(result, tuple) else 0


LOOKS = ("getMetadata", "canonicalize", "readLink", "readFile", "readDirectory")


def test_nothing_is_told_of_what_lies_beside_a_way_through_a_denied_place(rig, tree):
    tree.file(tree.w + "/no/beside", "secret")
    tree.file(tree.w + "/no/dir/deep", "secret")
    tree.link(tree.w + "/no/link", "a-secret-name")
    tree.file(tree.w + "/no/a/way/file", "open")
    box = Box(rig, workspace_write(at(tree.w + "/no", "deny"), at(tree.w + "/no/a/way", "read")), tree.w)
    for name in ("beside", "dir", "dir/deep", "link", "missing", "a/beside"):
        for method in LOOKS:
            assert box(method, f"{tree.w}/no/{name}") == (NOT_FOUND, "No such file or directory (os error 2)"), \
                (method, name)
    assert box.code("readDirectory", tree.w + "/no") == INVALID


def test_what_is_open_in_a_denied_place_is_open(rig, tree):
    for name in "abcdefg":
        tree.file(f"{tree.w}/no/{name}/way/file", "open")
    box = Box(rig, workspace_write(at(tree.w + "/no", "deny"),
                                   *(at(f"{tree.w}/no/{name}/way", "write" if name > "d" else "read") for name in "abcdefg")),
              tree.w)
    for name in "abcdefg":
        assert box("readFile", f"{tree.w}/no/{name}/way/file") == {"dataBase64": "b3Blbg=="}
        assert [e["fileName"] for e in box("readDirectory", f"{tree.w}/no/{name}/way")["entries"]] == ["file"]
        assert box.code("writeFile", f"{tree.w}/no/{name}/way/new", dataBase64="") == (0 if name > "d" else INTERNAL)


def test_where_reading_is_restricted_nothing_is_told_of_the_rest(rig, tree):
    tree.file(tree.o + "/file", "secret")
    tree.link(tree.o + "/link", "a-secret-name")
    tree.file(tree.w + "/file", "mine")
    box = Box(rig, narrow(WORKSPACE), tree.w)
    for path in (tree.o, tree.o + "/file", tree.o + "/link", tree.o + "/missing", "/root", "/boot", "/root/missing"):
        for method in LOOKS:
            assert box(method, path) == (NOT_FOUND, "No such file or directory (os error 2)"), (method, path)
    assert box("readFile", tree.w + "/file") == {"dataBase64": "bWluZQ=="}
    assert box.code("readFile", "/etc/passwd") == 0
    assert box.code("getMetadata", "/dev/null") == 0


def test_a_link_that_may_not_be_seen_is_not_followed(rig, tree):
    tree.file(tree.w + "/no/way/file", "open")
    tree.link(tree.w + "/no/link", tree.w + "/file")
    tree.link(tree.w + "/no/up", "..")
    tree.file(tree.w + "/file", "mine")
    box = Box(rig, workspace_write(at(tree.w + "/no", "deny"), at(tree.w + "/no/way", "read")), tree.w)
    for path in (tree.w + "/no/link", tree.w + "/no/up", tree.w + "/no/up/file", tree.w + "/no/way/../link"):
        for method in LOOKS:
            assert box.code(method, path) == NOT_FOUND, (method, path)
    assert box("readFile", tree.w + "/no/../file") == {"dataBase64": "bWluZQ=="}


def test_discovery_does_not_ignore_a_sandbox(rig, tree):
    tree.file(tree.o + "/SKILL.md", "---\nname: secret\n---\n")
    root = {"id": "a", "path": uri(tree.o), "sandbox": sandbox(narrow(WORKSPACE), tree.w)}
    assert "secret" not in str(rig.client.call("capabilityRoots/discoverV1", {"roots": [root]}))
    root["sandbox"] = None
    assert "secret" in str(rig.client.call("capabilityRoots/discoverV1", {"roots": [root]}))


def test_below_what_must_not_come_into_being_the_answers_are_those_of_a_command(rig, tree):
    box = Box(rig, workspace_write(at(tree.w + "/a/b/c", "read")), tree.w)
    read_only, no_directory = (INTERNAL, "Read-only file system (os error 30)"), (INTERNAL, "Not a directory (os error 20)")
    for name in ("a/new", "a/b", "a/b/c", "a/b/c/new"):
        path = f"{tree.w}/{name}"
        assert box("writeFile", path, dataBase64="") == no_directory, name
        assert box("writeFile", path, dataBase64="", createParents=True) == no_directory, name
        assert box("createDirectory", path, recursive=False) == no_directory, name
        assert box("createDirectory", path) == no_directory, name
        assert box("symlink", path, target="x") == no_directory, name
        assert box("open", path, handleId="h", mode="replace") == no_directory, name
    path = tree.w + "/.git/config"
    assert box("writeFile", path, dataBase64="") == read_only
    assert box("writeFile", path, dataBase64="", createParents=True) == read_only
    assert box("createDirectory", path, recursive=False) == read_only
    assert box("createDirectory", path) == read_only
    assert box("symlink", path, target="x") == read_only
    assert box("remove", path) == {}
    for method in LOOKS:
        assert box.code(method, path) == NOT_FOUND, method
    assert box("writeFile", tree.w + "/.git", dataBase64="") == (INTERNAL, "Is a directory (os error 21)")
    assert box("createDirectory", tree.w + "/.git") == (INTERNAL, "File exists (os error 17)")


def in_mounts_of(rig, *argv, check=True):
    return subprocess.run(["nsenter", "-t", str(rig.server.pid), "-m", *argv], check=check).returncode == 0


@pytest.fixture(params=USERS)
def mounting(request):
    """A server in a namespace of mounts of its own."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    with rig_of(request.param, mount_namespace=True) as rig:
        yield rig


def test_mounts_come_and_go_in_file_requests_too(mounting):
    tree = mounting.tree()
    tree.file(tree.w + "/at/below", "kept")
    tree.file(tree.o + "/mounted", "new")
    box = Box(mounting, workspace_write(), tree.w)
    assert box.code("readFile", tree.w + "/at/below") == 0
    in_mounts_of(mounting, "mount", "--bind", tree.o, tree.w + "/at")
    assert box.code("readFile", tree.w + "/at/mounted") == 0
    assert box.code("readFile", tree.w + "/at/below") == NOT_FOUND
    # An fs helper that has just answered may still have a file of it open.
    wait_until(lambda: in_mounts_of(mounting, "umount", tree.w + "/at", check=False), 30, "the end of the mount")
    assert box.code("readFile", tree.w + "/at/below") == 0


def test_a_recursive_removal_does_not_empty_what_is_mounted(mounting):
    tree = mounting.tree()
    tree.dir(tree.w + "/dir/at")
    tree.file(tree.o + "/kept", "kept")
    in_mounts_of(mounting, "mount", "--bind", tree.o, tree.w + "/dir/at")
    box = Box(mounting, workspace_write(), tree.w)
    assert box("remove", tree.w + "/dir") == (INTERNAL, "Resource busy (os error 16)")
    assert os.listdir(tree.o) == ["kept"]


def test_conditional_writes_in_sandboxes_and_without_exclude_each_other(rig, tree):
    """Each write adds one to the number that it has read; the number is the count of successful writes."""
    path = tree.file(tree.w + "/n", "0")
    wins, failures = [], []

    def add(client, box):
        for _ in range(100):
            old = base64.b64decode(client.call("fs/readFile", {"path": uri(path)}, 30)["dataBase64"])
            params = {"path": uri(path), "dataBase64": base64.b64encode(b"%d" % (int(old) + 1)).decode(),
                      "ifMatch": {"digest": "sha256:" + hashlib.sha256(old).hexdigest()}, "sandbox": box}
            answer = client.response(client.request("fs/writeFile", params), 30)
            if "result" in answer:
                wins.append(1)
            elif not answer["error"]["message"].startswith("conflict: "):
                failures.append(answer)

    with contextlib.ExitStack() as stack:
        threads = [threading.Thread(target=add, args=(stack.enter_context(Client(rig.server.url)), box))
                   for box in (sandbox(workspace_write(), tree.w),) * 3 + (sandbox(workspace_write(at(tree.o, "write")), tree.w), None)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with open(path, encoding="ascii") as f:
        assert (int(f.read()), failures) == (len(wins), [])


def test_who_waits_for_a_file_system_holds_up_nobody_else():
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("needs root and /dev/fuse")
    helper = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stuck_fs.py")
    with rig_of("root", mount_namespace=True) as rig, contextlib.ExitStack() as stack:
        tree = rig.tree()
        mount = tree.dir(tree.o)
        argv = ["nsenter", "-t", str(rig.server.pid), "-m", sys.executable, helper, mount]
        files = stack.enter_context(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        stack.callback(files.kill)  # a call that it holds cannot be killed: it goes first
        if files.stdout.readline() != "ready\n":
            pytest.skip("no FUSE here")
        clients = [stack.enter_context(Client(rig.server.url)) for _ in range(3)]
        for i in range(12):
            box = sandbox(workspace_write(), tree.dir(f"{tree.base}/{i}"))
            clients[i // 4].request("fs/getMetadata", {"path": uri(f"{mount}/stuck{i}"), "sandbox": box})
            while files.stdout.readline() != f"held stuck{i}\n":
                pass
        box = Box(rig, workspace_write(), tree.dir(tree.w))
        assert box("writeFile", tree.w + "/file", dataBase64="bmV3")["size"] == 3
        assert box("readFile", tree.w + "/file") == {"dataBase64": "bmV3"}


OWN_DEVICES = """mount -t tmpfs none /dev && mkdir /dev/shm /dev/pts
for n in 'null 1 3' 'zero 1 5' 'full 1 7' 'random 1 8' 'urandom 1 9' 'tty 5 0'; do
    set -- $n; mknod -m 666 /dev/$1 c $2 $3 || exit 1
done
echo secret > /dev/shm/file; chmod 600 /dev/shm/file; touch -d @1000000000 /dev/* /dev/shm/*"""


@pytest.fixture(params=["namespaces", "landlock"])
def with_devices(request):
    """A server of root in a mount namespace with device files of its own, so that the test does not risk those of the machine."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if request.param == "landlock" and landlock_abi() < LANDLOCK_ABI:
        pytest.skip(f"Landlock: ABI {landlock_abi()}")
    with rig_of("root", mount_namespace=True, args=["--sandbox-backend", request.param]) as rig:
        in_mounts_of(rig, "sh", "-c", OWN_DEVICES)
        yield rig


def devices_of(rig):
    """Mode, owner and modification time of each device file, without access and status times."""
    script = "stat -c '%n %A %u %g %Y' /dev/* /dev/shm/*"
    return subprocess.run(["nsenter", "-t", str(rig.server.pid), "-m", "sh", "-c", script], check=True,
                          capture_output=True).stdout


def test_a_command_cannot_change_the_mode_of_a_device(with_devices):
    tree = with_devices.tree()
    before = devices_of(with_devices)
    done = with_devices.sh("for d in null zero full random urandom tty; do chmod 600 /dev/$d; touch -m /dev/$d; done; "
                           "echo x > /dev/null; echo x >> /dev/zero && echo written", read_only(), tree.dir(tree.w))
    assert devices_of(with_devices) == before and done.out == b"written\n", done


def test_a_file_request_cannot_change_devices_and_shared_memory_of_the_machine(with_devices):
    tree = with_devices.tree()
    before = devices_of(with_devices)
    for profile in (read_only(), workspace_write(), narrow(WORKSPACE)):
        box = Box(with_devices, profile, tree.dir(tree.w))
        for path in ("/dev/null", "/dev/tty", "/dev/shm/file"):
            assert box.code("setMetadata", path, mode=0o777) != 0, path
            assert box.code("setMetadata", path, modifiedAtMs=5) != 0, path
        for method in LOOKS:
            assert box.code(method, "/dev/shm/file") == NOT_FOUND
        assert box.code("watch", "/dev/shm", watchId="w") == NOT_FOUND
        assert box.code("getMetadata", "/dev/null") == 0
    assert devices_of(with_devices) == before
