"""The access vectors through file requests where there are no namespaces of our own: in views that bwrap builds, with the Landlock
of this kernel and with older ones, and with Landlock alone.

Landlock alone refuses all requests of a profile that it cannot enforce; all other answers are those of the vectors.
"""

import os

import pytest

from farhand_client import RpcError
from sandbox_rig import (LAYERED, USERS, Box, is_error, landlock_abi, read_only, rig_of, sandbox, uri, workspace_write)
from test_sandbox_access import CASES
from test_sandbox_backends import need_landlock
from test_sandbox_bwrap import REAL
from test_sandbox_fs_access import judge

REFUSAL = "sandbox intent cannot be enforced on this executor: "


# The Landlock ABI of the kernel; none; that of Debian 12; that of Ubuntu 24.04.
ABIS = [None, "0", "2", "4"]


def server_rig(user, abi, off=None, backend="bubblewrap", **kw):
    """A server with this back end and ABI of Landlock; `off`: with these defences switched off (tests/layers/layers.c)."""
    if backend == "bubblewrap" and REAL is None:
        pytest.skip("no bwrap")
    env = dict(kw.pop("env", {}))
    if abi is not None:
        if int(abi) > landlock_abi():
            pytest.skip(f"Landlock: ABI {landlock_abi()}")
        env["FARHAND_LANDLOCK_ABI"] = abi
    if off is not None:
        env["FARHAND_LAYERS_OFF"] = off
    if abi is not None or off is not None:
        kw["executable"] = LAYERED
    return rig_of(user, args=("--sandbox-backend", backend), env=env, **kw)


def bwrap_rig(user, abi=None, off=None, **kw):
    """A server that has its views built by bwrap."""
    return server_rig(user, abi, off, "bubblewrap", **kw)


@pytest.fixture(scope="module", params=[(abi, user) for abi in ABIS for user in USERS],
                ids=lambda param: f"abi-{param[0] or 'as-it-is'}-{param[1]}")
def bwrap(request):
    abi, user = request.param
    with bwrap_rig(user, abi) as r:
        yield r


@pytest.fixture(scope="module", params=[(how, user) for how in ("landlock", "unjoined") for user in USERS], ids="-".join)
def alone(request):
    """A server with Landlock alone: as the chosen back end, or because no process can join the view that bwrap builds."""
    how, user = request.param
    need_landlock()
    with rig_of(user, args=("--sandbox-backend", "landlock")) if how == "landlock" else bwrap_rig(user, off="finish") as r:
        yield r


@pytest.mark.parametrize("name", CASES)
def test_access_in_a_view_of_bwrap(bwrap, name):
    wrong = [text for check in CASES[name]["checks"] if (text := judge(bwrap, name, check))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("abi", ABIS, ids=lambda abi: f"abi-{abi or 'as-it-is'}")
@pytest.mark.parametrize("backend", ["namespaces", "bubblewrap"])
@pytest.mark.parametrize("user", USERS)
def test_a_workspace_that_was_made_again_is_the_workspace(user, backend, abi):
    """A new directory often gets the inode number of the one that was removed, but a view has the old one mounted."""
    with server_rig(user, abi, backend=backend) as rig:
        tree = rig.tree()
        for _ in range(3):
            box = Box(rig.client, workspace_write(), tree.dir(tree.w))
            for _ in range(2):
                assert not is_error(box.write(tree.w + "/a"))
            assert os.path.exists(tree.w + "/a")
            tree.clear()


@pytest.mark.parametrize("user", USERS)
def test_where_neither_a_view_can_be_joined_nor_landlock_is_enough_requests_are_refused(user):
    with bwrap_rig(user, abi="4", off="finish") as rig:
        tree = rig.tree()
        tree.file(tree.w + "/a")
        with pytest.raises(RpcError) as refused:
            rig.client.call("fs/readFile", {"path": uri(tree.w + "/a"), "sandbox": sandbox(read_only(), tree.w)})
        data = refused.value.data
        assert (data["step"], data["errno"], data["reason"]) == ("finish", 1, "sandboxUnavailable"), refused.value
        assert "setns" in data["remedy"] and "Landlock has ABI 4" in refused.value.message, refused.value
        assert rig.sh("cat a", read_only(), tree.w).out == b"data\n"


def is_claimed(case):
    """Whether Landlock alone enforces the case. Not where all of the machine but some paths is writable, because kernel settings
    would be writable too; and not for files in /dev, because the sandbox has no /dev of its own."""
    files = case["profile"].get("file_system", {})
    entries = files.get("entries", [])
    places = [(entry["path"], entry["access"]) for entry in entries]
    writes_all = any(path.get("value", {}).get("kind") == "root" and access == "write"
                     for path, access in places if path["type"] == "special")
    in_dev = any(str(path.get("path", "")).removeprefix("file://").startswith("/dev") for path, _ in places)
    return not in_dev and not (writes_all and any(access != "write" for _, access in places))


@pytest.mark.parametrize("name", CASES)
def test_access_with_landlock_alone(alone, name):
    case = CASES[name]
    wrong = [(check, text) for check in case["checks"]
             if not check["path"].startswith("/dev/") and (text := judge(alone, name, check))]
    if is_claimed(case):
        assert not wrong, "\n".join(text for _, text in wrong)
    for check, text in wrong:
        assert REFUSAL in text, text
