"""The schemas of permission profiles (docs/schema) against the vectors: what loads is valid, what is refused for its shape is not.

What loads and what does not is settled by the unit tests of src/proto, which run the same files. Where ours differs from
the reference that the vectors were taken from, a table here says so and why.
"""

import json
import pathlib
import re

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "schema"
ALL = {path.name: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
SCHEMAS = {name: schema for name, schema in ALL.items() if name != "index.json"}


def validator(name):
    store = {(FOLDER / key).as_uri(): schema for key, schema in SCHEMAS.items()}
    resolver = jsonschema.RefResolver((FOLDER / name).as_uri(), SCHEMAS[name], store=store)
    return jsonschema.Draft202012Validator(SCHEMAS[name], resolver=resolver)


def is_valid(name, value):
    return validator(name).is_valid(value)


def stored_profile_forms(value):
    """Which of the two forms of a stored profile it is: at most one."""
    return [name for name in ("profile.json", "profile-untagged.json") if is_valid(name, value)]


def cases(name):
    text = (ROOT / "tests" / "vectors" / name).read_text()
    for mark, path in (("@W", "/vectors/w"), ("@O", "/vectors/o"), ("@T", "/vectors/t")):
        text = text.replace(mark, path)
    return [pytest.param(case, id=case["name"]) for case in json.loads(text)["cases"]]


def restricted(*entries, **more):
    return {"type": "managed", "file_system": {"type": "restricted", "entries": list(entries), **more},
            "network": "restricted"}


def path_entry(path, access="read", **more):
    return {"path": {"type": "path", "path": path}, "access": access, **more}


# --- the schemas themselves


def test_there_is_a_schema_for_every_shape():
    assert sorted(ALL) == ["additional-permissions.json", "common.json", "entries.json", "envelope.json", "environment.json",
                           "files.json", "http.json", "index.json", "process.json", "profile-untagged.json", "profile.json",
                           "sandbox-policy.json", "sandbox.json", "session.json", "unified.json"]


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_schema_is_a_schema(name):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMAS[name]["title"]


def references(value):
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "$ref":
                yield item
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_references_lead_somewhere(name):
    for reference in references(SCHEMAS[name]):
        file, _, pointer = reference.partition("#/$defs/")
        assert not pointer or pointer in SCHEMAS[file or name]["$defs"]
        assert file or pointer
        assert not file or file in SCHEMAS


def test_every_definition_is_used():
    used = {(reference.partition("#")[0] or name, reference.rpartition("/")[2])
            for name, schema in ALL.items() for reference in references(schema) if "#" in reference}
    defined = {(name, key) for name, schema in SCHEMAS.items() for key in schema.get("$defs", {})}
    assert defined == used


def test_the_example_of_the_manual_is_a_profile():
    examples = re.findall(r"```json\n(.*?)```", (ROOT / "docs" / "PERMISSIONS.md").read_text(), re.S)
    assert examples
    for example in examples:
        assert stored_profile_forms(json.loads(example)) == ["profile.json"]


# --- stored profiles


@pytest.mark.parametrize("case", cases("canonical.json"))
def test_stored_profiles(case):
    assert len(stored_profile_forms(case["input"])) == (1 if "output" in case else 0)
    if "output" in case:
        assert stored_profile_forms(case["output"]) == ["profile.json"]


@pytest.mark.parametrize("value", [
    {"type": "disabled", "file_system": {}},
    {"type": "external", "network": "enabled", "file_system": {"type": "unrestricted"}},
    {"type": "managed", "file_system": {"type": "unrestricted", "entries": []}, "network": "enabled"},
    restricted({"path": {"type": "special", "value": {"kind": "unknown"}}, "access": "read"}),
    restricted({"path": {"type": "special", "value": {"kind": "root", "subpath": 3}}, "access": "read"}),
    restricted({"path": {"type": "glob_pattern"}, "access": "deny"}),
    restricted({"path": {"type": "path", "path": "/a"}}),
    restricted(path_entry("/a", missing_path_behavior="fail")),
    restricted(path_entry("/a\0b")),
    restricted(*[path_entry("/a")] * 4097),
    restricted(glob_scan_max_depth=2 ** 64),
    {"file_system": {"entries": [], "write": []}},
    {"network": {"enabled": True, "proxy": None}},
    [], None, "managed",
])
def test_mistakes_in_stored_profiles(value):
    assert stored_profile_forms(value) == []


# --- the sandbox object

# Refused by the reference, taken by ours.
OURS_TAKES = {
    "no_wlevel": "a level for Windows means nothing here",
    "legacy_pretagged": "the profile from before the tag is loaded",
    "legacy_rw_roots": "the profile from before the tag is loaded",
    "plain_path": "a plain absolute path is as good as a URI",
    "cwd_plain": "a plain absolute path is as good as a URI",
}
# Refused by both, but not for the shape.
NOT_THE_SHAPE = {
    "foreign_path": "a path of another host",
    "cwd_foreign": "a path of another host",
    "wsroot_foreign": "a path of another host",
}


@pytest.mark.parametrize("case", cases("wire.json"))
def test_sandbox_objects(case):
    answer = case["process_start"]
    is_refused = "code" in answer
    if case["name"] in {**OURS_TAKES, **NOT_THE_SHAPE}:
        assert is_refused
        is_refused = False
    assert is_valid("sandbox.json", case["sandbox"]) == (not is_refused)


@pytest.mark.parametrize("case", cases("access.json"))
def test_profiles_of_the_access_vectors(case):
    sandbox = {"permissions": case["profile"]}
    for key in ("cwd", "workspaceRoots"):
        if key in case:
            sandbox[key] = case[key]
    assert is_valid("sandbox.json", sandbox)


@pytest.mark.parametrize("beside", [
    {"cwd": 5}, {"cwd": "w"}, {"workspaceRoots": None}, {"workspaceRoots": ["/w", "w"]}, {"userHomeDir": "~"},
    {"temporaryDirectories": "/tmp"}, {"useLegacyLandlock": None}, {"windowsSandboxPrivateDesktop": 1},
    {"windowsSandboxProxySettingsMode": "x"}, {"sandboxOverride": None}, {"windowsSandboxLevel": "x"},
    {"workspaceRoots": ["/w"] * 257},
])
def test_mistakes_beside_the_profile(beside):
    assert is_valid("sandbox.json", {"permissions": {"type": "disabled"}})
    assert not is_valid("sandbox.json", {"permissions": {"type": "disabled"}, **beside})


@pytest.mark.parametrize("permissions", [
    {}, 5, {"bogus": 1}, {"type": "disabled", "network": "open"}, {"file_system": {"read": ["a"]}},
    restricted(path_entry("file:a")), restricted(path_entry("http:/a")),
])
def test_mistakes_in_the_profile_of_a_sandbox(permissions):
    assert not is_valid("sandbox.json", {"permissions": permissions})


# --- policies of older clients


@pytest.mark.parametrize("case", cases("legacy.json"))
def test_policies_of_older_clients(case):
    """Also those that the reference refuses: ours loads restricted reads in both spellings."""
    if "legacy" in case:
        assert is_valid("sandbox-policy.json", case["legacy"])
    if "profile" in case:
        assert stored_profile_forms(case["profile"]) == ["profile.json"]


@pytest.mark.parametrize("value", [
    [], {}, {"type": "Read-Only"},
    {"type": "workspace-write", "writableRoots": ["/w"]},
    {"type": "workspaceWrite", "exclude_slash_tmp": True},
    {"type": "workspace-write", "access": {"type": "restricted"}},
    {"type": "read-only", "read_only_access": {"type": "restricted"}},
    {"type": "danger-full-access", "network_access": False},
    {"type": "read-only", "fileSystemSandboxPolicy": {}},
    {"type": "read-only", "network_access": "enabled"},
    {"type": "read-only", "network_access": None},
    {"type": "external-sandbox", "network_access": True},
    {"type": "read-only", "access": None},
    {"type": "read-only", "access": {"type": "fullAccess"}},
    {"type": "read-only", "access": {"type": "restricted", "readableRoots": ["/r"]}},
    {"type": "read-only", "access": {"type": "full-access", "readable_roots": ["/r"]}},
    {"type": "workspace-write", "writable_roots": ["w"]},
    {"type": "workspace-write", "writable_roots": ["file:///w"]},
    {"type": "workspace-write", "writable_roots": ["/w"] * 1025},
])
def test_mistakes_in_policies(value):
    assert not is_valid("sandbox-policy.json", value)


# --- overlays


@pytest.mark.parametrize("case", cases("overlay.json"))
def test_overlays(case):
    for key in ("additional", "base"):
        if key in case:
            assert is_valid("additional-permissions.json", case[key]) == (case["name"] != "glob_only_deny")
    if case["kind"] == "normalize" and "expect" in case:
        assert is_valid("additional-permissions.json", case["expect"])
    for key in ("profile", "authority", "requested", "replacement", "existing"):
        if key in case:
            assert stored_profile_forms(case[key]) == ["profile.json"]


@pytest.mark.parametrize("value", [
    [], {"type": "managed"}, {"fileSystem": {}}, {"network": "enabled"}, {"network": {"enabled": 1}},
    {"network": {"open": True}}, {"file_system": {"read": ["r"]}}, {"file_system": {"entries": [], "read": []}},
    {"file_system": {"entries": [{"path": {"type": "glob_pattern", "pattern": "*"}, "access": "write"}]}},
])
def test_mistakes_in_overlays(value):
    assert not is_valid("additional-permissions.json", value)


def test_an_overlay_may_say_little():
    for value in ({}, {"network": {}, "file_system": {}}, {"network": None, "file_system": None},
                  {"file_system": {"read": ["/r"], "write": None}}):
        assert is_valid("additional-permissions.json", value)
