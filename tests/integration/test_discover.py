"""capabilityRoots/discoverV1: plugins and skills below a root; and the capabilities of the file methods."""

import json
import os

import pytest

from fs_helpers import MIB, make, uri
from test_sandbox_refusal import PLAIN, RESTRICTING, sandbox

DISCOVER = "capabilityRoots/discoverV1"


def put(top, files):
    """Makes files below `top`; `files` maps relative paths to contents."""
    for name, data in files.items():
        path = os.path.join(os.fsencode(top), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        make(path, data)


def discover(client, *roots, timeout=10, **more):
    asked = [{"id": f"r{n}", "path": uri(root), **more} for n, root in enumerate(roots)]
    found = client.call(DISCOVER, {"roots": asked}, timeout)["roots"]
    assert [(r["id"], r["path"]) for r in found] == [(r["id"], r["path"]) for r in asked]
    return found


def scan(client, top, **more):
    """Scans one root. Returns its plugin, skills, namespace manifests and warnings, with paths relative to the root."""
    root = discover(client, top, **more)[0]
    assert set(root) == {"id", "path", "plugin", "skills", "namespaceManifests", "warnings", "error"}
    assert root["error"] is None
    head = uri(top) + "/"

    def file_of(value):
        if value is None:
            return None
        assert set(value) == {"path", "contents"}
        return value["path"].replace(head, ""), value["contents"]

    plugin = root["plugin"] and {name: file_of(value) for name, value in root["plugin"].items()}
    skills = [(file_of(s["instructions"]), file_of(s["metadata"])) for s in root["skills"]]
    return plugin, skills, [file_of(m) for m in root["namespaceManifests"]], [
        w.replace(head, "") for w in root["warnings"]]


def instructions(client, top):
    return [skill[0][0] for skill in scan(client, top)[1]]


def test_a_plugin_with_everything(client, tmp):
    put(tmp, {".codex-plugin/plugin.json": b'{"name":"demo"}', ".mcp.json": b'{"mcpServers":{}}', ".app.json": b"{}",
              "skills/one/SKILL.md": b"# one", "skills/one/agents/openai.yaml": b"a: 1", "skills/two/SKILL.md": b"",
              "README.md": b"no"})
    manifest = (".codex-plugin/plugin.json", '{"name":"demo"}')
    assert scan(client, tmp) == (
        {"manifest": manifest, "mcpConfig": (".mcp.json", '{"mcpServers":{}}'), "appsConfig": (".app.json", "{}")},
        [(("skills/one/SKILL.md", "# one"), ("skills/one/agents/openai.yaml", "a: 1")),
         (("skills/two/SKILL.md", ""), None)],
        [manifest], [])


def test_skills_without_a_plugin(client, tmp):
    """Configuration files count only beside a plugin manifest; without one they are ignored."""
    put(tmp, {".mcp.json": b"{}", ".app.json": b"{}", "SKILL.md": b"top", "b/SKILL.md": b"b", "a/x/SKILL.md": b"a",
              "c/skill.md": b"no", ".hidden/SKILL.md": b"hidden", "node_modules/x/SKILL.md": b"module"})
    plugin, skills, manifests, warnings = scan(client, tmp)
    assert (plugin, manifests, warnings) == (None, [], [])
    assert [s[0][0] for s in skills] == [".hidden/SKILL.md", "SKILL.md", "a/x/SKILL.md", "b/SKILL.md",
                                         "node_modules/x/SKILL.md"]


@pytest.mark.parametrize("kinds, wins", [
    (("codex", "claude", "cursor"), "codex"), (("claude", "cursor"), "claude"), (("cursor",), "cursor"),
    (("cursor", "codex"), "codex")])
def test_the_first_manifest_wins(client, tmp, kinds, wins):
    put(tmp, {f".{kind}-plugin/plugin.json": kind.encode() for kind in kinds})
    plugin, _, manifests, warnings = scan(client, tmp)
    manifest = (f".{wins}-plugin/plugin.json", wins)
    assert plugin == {"manifest": manifest, "mcpConfig": None, "appsConfig": None}
    assert (manifests, warnings) == ([manifest], [])


@pytest.mark.parametrize("bad, warned", [(b"\xff", True), (b"x" * (MIB + 1), True), (None, False)],
                         ids=["not utf-8", "too large", "a directory"])
def test_a_manifest_that_cannot_be_used_makes_room_for_the_next(client, tmp, bad, warned):
    put(tmp, {".claude-plugin/plugin.json": b"{}"})
    if bad is None:
        os.makedirs(f"{tmp}/.codex-plugin/plugin.json")
    else:
        put(tmp, {".codex-plugin/plugin.json": bad})
    plugin, _, _, warnings = scan(client, tmp)
    assert plugin["manifest"] == (".claude-plugin/plugin.json", "{}")
    assert len(warnings) == warned and all(".codex-plugin/plugin.json" in w for w in warnings)


BELOW = "ignoring mcpServers in .codex-plugin/plugin.json: path must remain below the capability root"
START = "ignoring mcpServers in .codex-plugin/plugin.json: path must start with `./`"


@pytest.mark.parametrize("value, config, warnings", [
    ("./other.json", ("other.json", "other"), []), ("./sub/deep.json", ("sub/deep.json", "deep"), []),
    ("../other.json", (".mcp.json", "default"), [START]), ("/etc/hostname", (".mcp.json", "default"), [START]),
    ("other.json", (".mcp.json", "default"), [START]), ("", (".mcp.json", "default"), [START]),
    ("./sub/../other.json", (".mcp.json", "default"), [BELOW]), ("./", (".mcp.json", "default"), [BELOW]),
    ("./none.json", None, []), ("./sub", None, []), ("./fifo", None, []), ("./%6fther.json", None, []),
    ({"a": {}}, None, []), (["./other.json"], (".mcp.json", "default"), []), (None, (".mcp.json", "default"), []),
], ids=str)
def test_a_manifest_names_its_configuration(client, tmp, value, config, warnings):
    put(tmp, {".codex-plugin/plugin.json": json.dumps({"mcpServers": value}).encode(), ".mcp.json": b"default",
              "other.json": b"other", "sub/deep.json": b"deep"})
    os.mkfifo(f"{tmp}/fifo")
    plugin, _, _, told = scan(client, tmp)
    assert (plugin["mcpConfig"], told) == (config, warnings)


def test_a_manifest_names_its_apps(client, tmp):
    put(tmp, {".codex-plugin/plugin.json": b'{"apps":"./x/apps.json"}', ".app.json": b"default",
              "x/apps.json": b"named"})
    assert scan(client, tmp)[0]["appsConfig"] == ("x/apps.json", "named")
    put(tmp, {".codex-plugin/plugin.json": b"not json"})
    plugin = scan(client, tmp)[0]
    assert plugin == {"manifest": (".codex-plugin/plugin.json", "not json"), "mcpConfig": None,
                      "appsConfig": (".app.json", "default")}


def test_manifests_below_and_above_name_the_skills(client, tmp):
    put(tmp, {"plug/.codex-plugin/plugin.json": b"outer", "plug/root/sub/.claude-plugin/plugin.json": b"inner",
              "plug/root/sub/skills/a/SKILL.md": b"a", "plug/root/b/SKILL.md": b"b"})
    root = discover(client, f"{tmp}/plug/root")[0]
    assert root["plugin"] is None
    assert {(m["path"], m["contents"]) for m in root["namespaceManifests"]} == {
        (uri(f"{tmp}/plug/.codex-plugin/plugin.json"), "outer"),
        (uri(f"{tmp}/plug/root/sub/.claude-plugin/plugin.json"), "inner")}


def test_the_depth_of_a_scan(client, tmp):
    put(tmp, {"1/" + "/".join(map(str, range(2, n + 1))) + "/SKILL.md": b"%d" % n for n in range(2, 9)})
    assert instructions(client, tmp) == ["1/2/3/4/5/6/SKILL.md", "1/2/3/4/5/SKILL.md", "1/2/3/4/SKILL.md",
                                         "1/2/3/SKILL.md", "1/2/SKILL.md"]


def test_links_to_directories_are_followed_links_to_files_not(client, tmp):
    put(tmp, {"out/s/SKILL.md": b"linked", "root/own/SKILL.md": b"own"})
    root = f"{tmp}/root"
    os.symlink("../out/s", f"{root}/link")
    os.symlink("../root", f"{root}/ring")
    os.makedirs(f"{root}/file")
    os.symlink("../../out/s/SKILL.md", f"{root}/file/SKILL.md")
    os.makedirs(f"{root}/broken")
    os.symlink("none", f"{root}/broken/SKILL.md")
    os.makedirs(f"{root}/fifo")
    os.mkfifo(f"{root}/fifo/SKILL.md")
    os.makedirs(f"{root}/dir/SKILL.md")
    assert instructions(client, root) == ["link/SKILL.md", "own/SKILL.md"]
    os.symlink("root", f"{tmp}/rootlink")
    assert instructions(client, f"{tmp}/rootlink") == ["link/SKILL.md", "own/SKILL.md"]


@pytest.mark.parametrize("name, data", [("SKILL.md", b"bad\xff"), ("SKILL.md", b"x" * (MIB + 1)),
                                        ("agents/openai.yaml", b"\xc3"), ("agents/openai.yaml", b"x" * (MIB + 1))])
def test_files_that_cannot_be_told_become_warnings(client, tmp, name, data):
    put(tmp, {"a/SKILL.md": b"a", "b/SKILL.md": b"b", f"a/{name}": data, "c/SKILL.md": b"x" * MIB})
    _, skills, _, warnings = scan(client, tmp)
    usable = [] if name == "SKILL.md" else [(("a/SKILL.md", "a"), None)]
    assert skills[:-1] == usable + [(("b/SKILL.md", "b"), None)]
    assert skills[-1][0] == ("c/SKILL.md", "x" * MIB), "1 MiB is not too much"
    assert len(warnings) == 1 and f"a/{name}" in warnings[0]


def test_a_root_tells_16_mib(client, tmp):
    put(tmp, {f"s{n:02}/SKILL.md": b"y" * 1000000 for n in range(20)})
    _, skills, _, warnings = scan(client, tmp, timeout=30)
    assert [s[0][0] for s in skills] == [f"s{n:02}/SKILL.md" for n in range(16)]
    assert set(warnings) == {"capability root bundle exceeds the 16777216-byte limit"}


def test_the_traversal_of_a_scan_is_bounded(client, tmp):
    for n in range(2010):
        os.makedirs(f"{tmp}/dirs/d{n:04}")
    put(f"{tmp}/dirs", {"d1000/SKILL.md": b"in", "d1998/SKILL.md": b"last", "d1999/SKILL.md": b"beyond"})
    os.makedirs(f"{tmp}/entries")
    for n in range(20010):
        os.close(os.open(f"{tmp}/entries/f{n:05}", os.O_CREAT | os.O_WRONLY))
    for root, found in ((f"{tmp}/dirs", ["d1000/SKILL.md", "d1998/SKILL.md"]), (f"{tmp}/entries", [])):
        _, skills, _, warnings = scan(client, root)
        assert [s[0][0] for s in skills] == found
        assert warnings == [f"capability scan reached its traversal limit (root: {uri(root)})"]


def test_names_that_are_not_utf_8(client, tmp):
    put(tmp, {b"bad\xff/SKILL.md": b"bytes", "good/SKILL.md": b"text"})
    found = discover(client, tmp)[0]
    assert uri(f"{tmp}/good/SKILL.md") in [s["instructions"]["path"] for s in found["skills"]]
    assert found["error"] is None


def test_roots_that_cannot_be_used(client, tmp):
    make(f"{tmp}/file")
    os.symlink("none", f"{tmp}/broken")
    put(tmp, {"good/SKILL.md": b"g"})
    empty = {"plugin": None, "skills": [], "namespaceManifests": [], "warnings": []}
    roots = discover(client, f"{tmp}/none", f"{tmp}/file", f"{tmp}/good", f"{tmp}/broken", f"{tmp}/file/x")
    inspect = "failed to inspect capability root {}: {}"
    for n, name, error in (
            (0, "none", inspect.format(uri(f"{tmp}/none"), "No such file or directory (os error 2)")),
            (1, "file", f"capability root {uri(tmp)}/file is not a directory"),
            (3, "broken", inspect.format(uri(f"{tmp}/broken"), "No such file or directory (os error 2)")),
            (4, "file/x", inspect.format(uri(f"{tmp}/file/x"), "Not a directory (os error 20)"))):
        assert roots[n] == {"id": f"r{n}", "path": uri(f"{tmp}/{name}"), **empty, "error": error}
    assert len(roots[2]["skills"]) == 1


def test_roots_of_another_platform(client):
    for path in ("file:///C:/x", "file://host/x"):
        root = client.call(DISCOVER, {"roots": [{"id": "x", "path": path}]})["roots"][0]
        assert root["error"] == f"failed to inspect capability root {path}: '{path}' is invalid on 'linux'"


def test_at_most_128_roots(client, tmp):
    assert client.call(DISCOVER, {"roots": []}) == {"roots": []}
    assert len(discover(client, *[tmp] * 128)) == 128
    err = client.error(DISCOVER, {"roots": [{"id": "x", "path": uri(tmp)}] * 129})
    assert (err.code, err.message) == (-32600, "capability root discovery accepts at most 128 roots")


def test_ids_are_given_back_as_they_came(client, tmp):
    for ident in ("", "same", "\u00e4\n", "x" * 5000):
        roots = client.call(DISCOVER, {"roots": [{"id": ident, "path": uri(tmp)}] * 2})["roots"]
        assert [r["id"] for r in roots] == [ident] * 2


@pytest.mark.parametrize("roots, message", [
    (..., "missing field `roots`"), ([{"id": "x"}], "missing field `path`"),
    ([{"path": "file:///x"}], "missing field `id`"),
    ([{"id": 5, "path": "file:///x"}], None), ([5], None), (5, None), (None, None), ({}, None),
    ([{"id": "x", "path": "http://x"}], "unsupported path URI scheme `http`"),
    ([{"id": "x", "path": "relative"}], "path is not absolute: relative"),
    ([{"id": "x", "path": "file:///x", "sandbox": 5}], None)], ids=str)
def test_params_that_do_not_decode(client, roots, message):
    err = client.error(DISCOVER, {} if roots is ... else {"roots": roots})
    assert err.code == -32602 and message in (None, err.message)


def test_a_native_root(client, tmp):
    put(tmp, {"a/SKILL.md": b"a"})
    root = client.call(DISCOVER, {"roots": [{"id": "x", "path": tmp}]})["roots"][0]
    assert (root["path"], root["skills"][0]["instructions"]["path"]) == (uri(tmp), uri(f"{tmp}/a/SKILL.md"))


def test_a_sandbox_that_hides_nothing(client, tmp):
    put(tmp, {"a/SKILL.md": b"a"})
    for profile in (None, sandbox(PLAIN["disabled"]), sandbox(PLAIN["full-write"]), sandbox(RESTRICTING["read-only"])):
        assert len(discover(client, tmp, sandbox=profile)[0]["skills"]) == 1


# environment/info


def test_the_capabilities_of_the_file_methods(client):
    capabilities = client.call("environment/info")["capabilities"]
    assert capabilities["fileWriteStreaming"] is True
    assert capabilities["fsControlV1"] is True
    assert capabilities["fsAccessV1"] is True
    assert capabilities["capabilityDiscoverySandbox"] is True
    assert client.init_result["environmentInfo"]["capabilities"] == capabilities
    assert all(isinstance(value, bool) for value in capabilities.values())
    # Capabilities that this server does not have are not announced.
    for name in ("capabilityDiscoveryV2", "windowsMxc"):
        assert capabilities.get(name, False) is False
