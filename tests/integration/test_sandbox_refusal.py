"""`sandbox` in process/start: which profiles run plainly, which are enforced, and what is refused."""

import copy
import os

import pytest

REFUSAL = "sandbox intent cannot be enforced on this executor"
ROOT_WRITE = {"path": {"type": "special", "value": {"kind": "root"}}, "access": "write"}
ROOT_READ = {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}
BOTH = pytest.mark.parametrize("tty", [False, True], ids=["pipes", "tty"])


def restricted(*entries, network="enabled", **extra):
    return {"type": "managed", "file_system": {"type": "restricted", "entries": list(entries), **extra},
            "network": network}


def unrestricted(network="enabled"):
    return {"type": "managed", "file_system": {"type": "unrestricted"}, "network": network}


def at(path, access):
    return {"path": {"type": "path", "path": path}, "access": access}


def special(kind, access, **more):
    return {"path": {"type": "special", "value": {"kind": kind, **more}}, "access": access}


def sandbox(profile, **changes):
    """The object as current clients send it; the value `...` leaves a member out."""
    box = {"permissions": profile, "cwd": "file:///tmp", "workspaceRoots": ["file:///tmp"],
           "windowsSandboxLevel": "disabled",
           "windowsSandboxPrivateDesktop": False, "useLegacyLandlock": False}
    box.update(changes)
    return {k: v for k, v in box.items() if v is not ...}


def params_of(tmp, box, **kw):
    return {"processId": "p", "argv": ["/bin/sh", "-c", "echo ran; : > ran"], "cwd": f"file://{tmp}",
            "env": {"PATH": "/usr/bin:/bin"}, "tty": False,
            "pipeStdin": False, "arg0": None, "sandbox": box, **kw}


def refused(client, tmp, box, **kw):
    """The error of a start. Checks that no process ran and no file was made."""
    err = client.error("process/start", params_of(tmp, box, **kw))
    assert err.code == -32602
    assert client.error("process/read", {"processId": "p"}).message == "unknown process id p"
    assert client.call("process/terminate", {"processId": "p"}) == {"running": False}
    assert client.notifications == []
    assert os.listdir(tmp) == []
    return err


PLAIN = {
    "disabled": {"type": "disabled"},
    "external": {"type": "external", "network": "enabled"},
    "unrestricted": unrestricted(),
    "full-write": restricted(ROOT_WRITE),
}


@BOTH
@pytest.mark.parametrize("name", PLAIN)
def test_a_profile_that_restricts_nothing_runs_plainly(client, tmp, name, tty):
    result = client.call("process/start", params_of(tmp, sandbox(PLAIN[name]), tty=tty))
    assert (result["processId"], result["sandboxType"]) == ("p", "linuxSeccomp")
    client.wait_closed("p")
    assert client.output("p").split() == [b"ran"]
    assert os.listdir(tmp) == ["ran"]
    exited = client.wait_exit("p")
    assert (exited["exitCode"], exited["sandboxDenied"]) == (0, False)
    assert client.read("p")["sandboxDenied"] is False


@pytest.mark.parametrize("changes", [{"cwd": "/tmp"}, {"cwd": ...}, {"cwd": None},
                                     {"workspaceRoots": ["/tmp", "file:///usr"]}, {"workspaceRoots": ...},
                                     {"workspaceRoots": []}, {"windowsSandboxLevel": "restricted-token"},
                                     {"windowsSandboxLevel": "elevated"},
                                     {"useLegacyLandlock": ...}, {"windowsSandboxPrivateDesktop": ...}, {"unknown": 1}],
                                     ids=str)
def test_the_rest_of_the_object_may_vary(client, tmp, changes):
    result = client.call("process/start", params_of(tmp, sandbox({"type": "disabled"}, **changes)))
    assert result["sandboxType"] == "linuxSeccomp"
    assert client.wait_exit("p")["exitCode"] == 0


def test_no_sandbox_is_none(client, tmp):
    assert client.call("process/start", params_of(tmp, None))["sandboxType"] == "none"
    client.wait_closed("p")
    assert client.call("process/start", params_of(tmp, None, processId="q",
                                                  enforceManagedNetwork=True))["sandboxType"] == "none"
    assert client.wait_exit("q")["exitCode"] == 0


RESTRICTING = {
    "read-only": restricted(ROOT_READ, network="restricted"),
    "read-only, network": restricted(ROOT_READ),
    "nothing": restricted(network="restricted"),
    "nothing, network": restricted(),
    "workspace": restricted(ROOT_READ, special("project_roots", "write"), special("slash_tmp", "write"),
                            special("tmpdir", "write"),
                            special("project_roots", "read", subpath=".git"), network="restricted"),
    "workspace, network": restricted(ROOT_READ, special("project_roots", "write")),
    "workspace, older name": restricted(ROOT_READ, special("current_working_directory", "write")),
    "path write": restricted(ROOT_READ, at("file:///tmp", "write")),
    "path write, native": restricted(ROOT_READ, at("/tmp", "write")),
    "minimal": restricted(special("minimal", "read")),
    "root write, network restricted": restricted(ROOT_WRITE, network="restricted"),
    "root write, deny below": restricted(ROOT_WRITE, at("file:///etc", "deny")),
    "root write, none below": restricted(ROOT_WRITE, at("file:///etc", "none")),
    "root write, read below": restricted(ROOT_WRITE, at("file:///etc", "read")),
    "root write, glob": restricted(ROOT_WRITE, {"path": {"type": "glob_pattern", "pattern": "**/*.env"},
                                                "access": "deny"}),
    "root write and read": restricted(ROOT_WRITE, special("root", "deny")),
    "unrestricted, network restricted": unrestricted("restricted"),
    "external, network restricted": {"type": "external", "network": "restricted"},
    "deep": restricted(ROOT_READ, glob_scan_max_depth=4),
    "skip": restricted(ROOT_READ, {**at("file:///nonexistent", "write"), "missing_path_behavior": "skip"}),
}


# Profiles by what a command can do in a directory below /tmp: write its file, not write it, or not start at all.
READS = ("read-only", "read-only, network", "deep", "skip")
FAILS = ("nothing", "nothing, network", "minimal", "root write and read")


@BOTH
@pytest.mark.parametrize("name", RESTRICTING)
def test_a_profile_that_restricts_is_enforced(client, tmp, name, tty):
    # A pattern is relative to the cwd, which is searched: use the small directory of the test.
    place = {"cwd": f"file://{tmp}"} if "glob" in name else {}
    params = params_of(tmp, sandbox(RESTRICTING[name], **place), tty=tty)
    if name in FAILS:
        err = client.error("process/start", params)
        assert (err.code, err.message) == (-32602, f"the permission profile hides the cwd {tmp}")
        assert err.data["step"] == "cwd"
        assert os.listdir(tmp) == []
        return
    assert client.call("process/start", params)["sandboxType"] == "linuxSeccomp"
    client.wait_closed("p")
    # What the shell says on stderr about the file may come before it: two pipes have no order.
    assert client.output("p", "pty" if tty else "stdout").split()[0] == b"ran"
    assert os.listdir(tmp) == ([] if name in READS else ["ran"])


OVERRIDE = sandbox({"type": "disabled"}, sandboxOverride="escalatedSandboxWithRestrictions")


def test_a_refusal_leaves_the_id_free(client, tmp):
    refused(client, tmp, OVERRIDE)
    assert client.call("process/start", params_of(tmp, None))["processId"] == "p"
    client.wait_closed("p")
    client.check_seq("p")


def test_a_refusal_comes_before_the_check_for_duplicates(client, tmp):
    client.start("p", ["/bin/sleep", "60"])
    err = client.error("process/start", params_of(tmp, OVERRIDE))
    assert (err.code, err.message) == (-32602, REFUSAL)
    for profile in (PLAIN["disabled"], RESTRICTING["read-only"]):
        err = client.error("process/start", params_of(tmp, sandbox(profile)))
        assert (err.code, err.message) == (-32600, "process p already exists")


def test_an_empty_argv_is_named_first(client, tmp):
    assert refused(client, tmp, sandbox(RESTRICTING["read-only"]), argv=[]).message == "argv must not be empty"


def test_a_profile_is_required(client, tmp):
    assert refused(client, tmp, sandbox({}, permissions=...)).message == "missing field `permissions`"


@pytest.mark.parametrize("profile", ["disabled", "read-only"])
def test_the_level_for_windows_may_be_absent(client, tmp, profile):
    """windowsSandboxLevel may be left out, although the reference requires it."""
    box = sandbox({**PLAIN, **RESTRICTING}[profile], windowsSandboxLevel=...)
    assert client.call("process/start", params_of(tmp, box))["sandboxType"] == "linuxSeccomp"


UNTAGGED = {
    "closed": ({"network": {"enabled": False}, "file_system": {"read": ["/"], "write": []}}, []),
    "open": ({"network": {"enabled": True}, "file_system": {"read": ["/"], "write": ["/"]}}, ["ran"]),
}


@pytest.mark.parametrize("name", UNTAGGED)
def test_the_profile_from_before_the_tag_is_mapped(client, tmp, name):
    profile, written = UNTAGGED[name]
    client.call("process/start", params_of(tmp, sandbox(profile)))
    client.wait_closed("p")
    assert os.listdir(tmp) == written


OLD_SHAPES = {
    "untagged, entries": {"network": "enabled", "file_system": {"type": "unrestricted"}},
    "untagged, empty": {},
}


@pytest.mark.parametrize("name", OLD_SHAPES)
def test_untagged_profiles_are_refused(client, tmp, name):
    refused(client, tmp, sandbox(OLD_SHAPES[name]))
    refused(client, tmp, {"permissions": OLD_SHAPES[name]})


OLD_POLICIES = {"read-only": [], "workspace-write": ["ran"], "danger-full-access": ["ran"], "external-sandbox": ["ran"],
                "readOnly": [], "workspaceWrite": ["ran"], "dangerFullAccess": ["ran"], "externalSandbox": ["ran"]}


@pytest.mark.parametrize("kind", OLD_POLICIES)
def test_old_sandbox_policies_are_mapped(client, tmp, kind):
    box = {"sandboxPolicy": {"type": kind}, "sandboxPolicyCwd": tmp}
    assert client.call("process/start", params_of(tmp, box))["sandboxType"] == "linuxSeccomp"
    client.wait_closed("p")
    assert os.listdir(tmp) == OLD_POLICIES[kind]


@pytest.mark.parametrize("more", [{"fileSystemSandboxPolicy": {"kind": "unrestricted"}}, {"additionalPermissions": {}},
                                  {"permissions": {"type": "disabled"}}, {"sandboxPolicy": None}], ids=str)
def test_what_cannot_be_mapped_is_refused(client, tmp, more):
    refused(client, tmp, {"sandboxPolicy": {"type": "danger-full-access"}, "sandboxPolicyCwd": "/tmp",
                          "windowsSandboxLevel": "disabled", **more})


def broken(path, value):
    """A disabled or restricted sandbox with one place spoilt; path is a tuple of keys."""
    box = copy.deepcopy(sandbox(restricted(ROOT_WRITE, network="enabled")))
    place = box
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return box


FS = ("permissions", "file_system")
ENTRY = FS + ("entries", 0)
BROKEN = [
    (("permissions",), None), (("permissions",), "disabled"), (("permissions",), []),
    (("permissions", "type"), "bogus"), (("permissions", "type"), 1),
    (("permissions", "type"), "Disabled"), (FS, ...), (FS, None), (FS, "unrestricted"), (FS + ("type",), "bogus"),
    (FS + ("type",), ...),
    (FS + ("entries",), ...), (FS + ("entries",), None), (FS + ("entries",), {}), (FS + ("glob_scan_max_depth",), 0),
    (FS + ("glob_scan_max_depth",), "x"), (("permissions", "network"), ...), (("permissions", "network"), "bogus"),
    (("permissions", "network"), True),
    (ENTRY + ("access",), "READ"), (ENTRY + ("access",), ...), (ENTRY + ("access",), None), (ENTRY + ("path",), ...),
    (ENTRY + ("path",), "/"),
    (ENTRY + ("path", "type"), "bogus"), (ENTRY + ("path", "value"), ...), (ENTRY + ("path", "value", "kind"), "bogus"),
    (ENTRY + ("path",), {"type": "path", "path": "relative"}),
    (ENTRY + ("path",), {"type": "path", "path": "http://x/"}),
    (ENTRY + ("path",), {"type": "path", "path": 5}), (ENTRY + ("path",), {"type": "glob_pattern"}),
    (("cwd",), "relative"), (("cwd",), 5), (("cwd",), "http://x/"), (("workspaceRoots",), "x"),
    (("workspaceRoots",), [5]),
    (("workspaceRoots",), ["relative"]), (("windowsSandboxLevel",), "bogus"), (("windowsSandboxLevel",), None),
    (("windowsSandboxLevel",), 5),
    (("useLegacyLandlock",), "x"),
]


@pytest.mark.parametrize("path, value", BROKEN,
                         ids=lambda v: ".".join(map(str, v)) if isinstance(v, tuple) else repr(v))
def test_a_broken_object_is_refused(client, tmp, path, value):
    refused(client, tmp, broken(path, value))


@pytest.mark.parametrize("value", [5, "disabled", [], True, {}], ids=repr)
def test_a_sandbox_that_is_no_sandbox_object_is_refused(client, tmp, value):
    refused(client, tmp, value)


def test_the_object_is_not_spoilt_by_itself(client, tmp):
    """The unchanged object, from which the table above makes its broken ones, is accepted."""
    box = sandbox(restricted(ROOT_WRITE))
    assert client.call("process/start", params_of(tmp, box))["sandboxType"] == "linuxSeccomp"
