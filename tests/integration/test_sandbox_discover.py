"""capabilityRoots/discoverV1 with a sandbox: a root is searched as far as its profile reads, links included."""

import os
import shutil

import pytest

from sandbox_rig import USERS, at, glob, narrow, read_only, rig_of, sandbox, uri

DENIED, MISSING = "Permission denied (os error 13)", "No such file or directory (os error 2)"


@pytest.fixture(scope="module", params=USERS)
def rig(request):
    with rig_of(request.param) as r:
        yield r


class Roots:
    """A plugin with two skills, one of which a profile can deny, and links that lead out of it to a third."""

    def __init__(self, rig):
        self.rig = rig
        self.tree = rig.tree()
        self.root = self.path("root")
        for name, text in {"root/.codex-plugin/plugin.json": '{"mcpServers":"./m.json"}', "root/m.json": "{}",
                           "root/a/SKILL.md": "A", "root/a/agents/openai.yaml": "y", "root/private/SKILL.md": "SECRET",
                           "out/s/SKILL.md": "OUTSIDE", "out/m.json": "OUTSIDE"}.items():
            self.tree.dir(os.path.dirname(self.path(name)))
            self.tree.file(self.path(name), text)
        os.symlink(self.path("out"), self.path("root/link"))
        self.answers = []

    def path(self, name):
        return os.path.join(self.tree.base, name)

    def discover(self, *profiles, root=None):
        roots = [{"id": str(n), "path": uri(root or self.root), "sandbox": profile and sandbox(profile, self.tree.base)}
                 for n, profile in enumerate(profiles)]
        answer = self.rig.client.call("capabilityRoots/discoverV1", {"roots": roots}, 30)["roots"]
        self.answers.append(str(answer))
        assert [r["id"] for r in answer] == [r["id"] for r in roots]
        return answer

    def skills(self, found):
        return [s["instructions"]["contents"] for s in found["skills"]]


@pytest.fixture
def roots(rig):
    r = Roots(rig)
    yield r
    shutil.rmtree(r.tree.base, ignore_errors=True)


def test_without_a_profile_links_are_followed(roots):
    assert roots.skills(roots.discover(None)[0]) == ["A", "OUTSIDE", "SECRET"]


def test_only_what_the_profile_reads_is_found(roots):
    found = roots.discover(narrow(at(roots.root, "read"), at(roots.path("root/private"), "deny")))[0]
    assert roots.skills(found) == ["A"] and found["error"] is None
    assert found["skills"][0]["metadata"]["contents"] == "y"
    assert found["plugin"]["mcpConfig"]["contents"] == "{}"
    assert found["warnings"] == [f"failed to scan capability path {uri(roots.path('root/private'))}: {DENIED}"]
    assert not any(word in roots.answers[0] for word in ("SECRET", "OUTSIDE"))


def test_a_link_to_what_is_denied_is_not_followed(roots):
    found = roots.discover(read_only(at(roots.path("out"), "deny")))[0]
    assert roots.skills(found) == ["A", "SECRET"]
    assert found["warnings"] == [], "it is as a link that leads nowhere"
    assert "OUTSIDE" not in roots.answers[0]


def test_denied_files_are_told_as_such(roots):
    found = roots.discover(read_only(at(roots.path("root/m.json"), "deny"), glob(f"{roots.root}/**/SKILL.md")))[0]
    assert found["skills"][0]["instructions"]["contents"] == "OUTSIDE", "which the pattern does not mean"
    assert found["plugin"]["mcpConfig"] is None and len(found["skills"]) == 1
    assert len(found["warnings"]) == 3 and all(w.endswith(DENIED) for w in found["warnings"])
    assert "SECRET" not in roots.answers[0]


def test_a_manifest_cannot_name_a_file_that_is_denied_through_a_link(roots):
    os.unlink(roots.path("root/m.json"))
    os.symlink(roots.path("out/m.json"), roots.path("root/m.json"))
    found = roots.discover(None, narrow(at(roots.root, "read")))
    assert found[0]["plugin"]["mcpConfig"]["contents"] == "OUTSIDE"
    assert found[1]["plugin"]["mcpConfig"] is None and "OUTSIDE" not in str(found[1])


def test_each_root_has_its_own_profile(roots):
    found = roots.discover(None, narrow(), narrow(at(roots.root, "read")), read_only())
    assert [len(f["skills"]) for f in found] == [3, 0, 2, 3]
    assert found[1]["error"] == f"failed to inspect capability root {uri(roots.root)}: {MISSING}"
    assert [found[n]["error"] for n in (0, 2, 3)] == [None] * 3


def test_a_root_that_is_denied_or_behind_a_link(roots):
    denied = roots.discover(read_only(at(roots.root, "deny")))[0]
    assert denied["skills"] == [] and denied["plugin"] is None and denied["error"].endswith(DENIED)
    behind = roots.discover(narrow(at(roots.root, "read")), root=roots.path("root/link"))[0]
    assert behind["skills"] == [] and behind["error"].endswith(MISSING)


def test_the_manifest_above_a_root_is_not_read_where_the_profile_does_not(roots):
    found = roots.discover(None, narrow(at(roots.path("root/a"), "read")), root=roots.path("root/a"))
    assert [len(f["namespaceManifests"]) for f in found] == [1, 0]
    assert [roots.skills(f) for f in found] == [["A"], ["A"]]


def test_a_profile_that_cannot_be_enforced_fails_its_root_only(roots):
    endless = sandbox(read_only(glob("/**/***")), roots.tree.base)
    foreign = "file:///C:/x"
    found = roots.rig.client.call("capabilityRoots/discoverV1", {"roots": [
        {"id": "here", "path": uri(roots.root), "sandbox": endless},
        {"id": "foreign", "path": foreign, "sandbox": endless},
        {"id": "other", "path": uri(roots.root)}]}, 30)["roots"]
    assert found[0]["error"].startswith(f"failed to inspect capability root {uri(roots.root)}: failed to prepare fs sandbox")
    assert found[1]["error"] == f"failed to inspect capability root {foreign}: '{foreign}' is invalid on 'linux'"
    assert [f["path"] for f in found] == [uri(roots.root), foreign, uri(roots.root)]
    assert found[0]["skills"] == [] and len(found[2]["skills"]) == 3
