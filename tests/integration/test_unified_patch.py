"""apply_patch through `farhand unified`: as a tool and as a here-document, what the sandbox denies, questions and answers."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from farhand_client import BIN, Server, merged_env
from reach import TREES
from sandbox_rig import at, glob, read_only, why_not, workspace_write
from unified_rig import Failed, Unified

if why_not("root" if os.geteuid() == 0 else "unprivileged"):
    pytest.skip(why_not("root" if os.geteuid() == 0 else "unprivileged"), allow_module_level=True)


class Place:
    """Tables whose workspace is a directory here, reached directly or through a server."""

    def __init__(self, is_far):
        self.server = Server() if is_far else None
        self.made = []

    def __call__(self, *args, profile=None, **kw):
        work = tempfile.mkdtemp(prefix="fh-patch-", dir=TREES)
        if profile:
            profile(work)
        where = ("--url", self.server.url, "-C", work) if self.server else ("--env", "local")
        self.made.append(Unified(*args, where=where, cwd=work, **kw))
        return self.made[-1]

    def close(self):
        for one in self.made:
            one.__exit__(None)
            shutil.rmtree(one.work, ignore_errors=True)
        if self.server:
            self.server.__exit__(None, None, None)


@pytest.fixture(params=["here", "far"])
def unified(request):
    place = Place(request.param == "far")
    yield place
    place.close()


def adding(path, *lines):
    return f"*** Begin Patch\n*** Add File: {path}\n" + "".join(f"+{line}\n" for line in lines or ("text",)) + "*** End Patch\n"


def updating(path, old, new):
    return f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{new}\n*** End Patch\n"


def content(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def put(text, *path):
    with open(os.path.join(*path), "w", encoding="utf-8") as f:
        f.write(text)


# Applying


def test_a_patch_is_applied(unified):
    u = unified()
    done = u.call("apply_patch", input=adding("new", "one", "two"))
    assert done["output"] == "Success. Updated the following files:\nA new\n" and content(u.work, "new") == "one\ntwo\n"
    assert set(done) == {"wall_time_seconds", "output", "text"}
    u.call("apply_patch", input=updating("new", "two", "three"))
    assert content(u.work, "new") == "one\nthree\n" and not u.events


def test_paths_are_relative_to_the_workdir(unified):
    u = unified()
    os.mkdir(os.path.join(u.work, "sub"))
    u.call("apply_patch", input=adding("a"), workdir="sub")
    u.call("apply_patch", input=adding("b"), workdir=os.path.join(u.work, "sub"))
    assert sorted(os.listdir(os.path.join(u.work, "sub"))) == ["a", "b"]


def test_a_command_that_is_only_a_patch_is_not_run(unified):
    u = unified()
    done = u.exec(f"apply_patch <<'EOF'\n{adding('new')}EOF\n", tty=True)
    assert set(done) == {"wall_time_seconds", "output", "text"} and done["output"].startswith("Success. ")
    assert content(u.work, "new") == "text\n" and not u.events
    os.makedirs(os.path.join(u.work, "sub", "deep"))
    u.exec(f"cd deep && apply_patch <<'EOF'\n{adding('new')}EOF", workdir="sub")
    assert content(u.work, "sub", "deep", "new") == "text\n"
    u.exec(f"cd {u.work}/sub && applypatch <<EOF\n{adding('new')}EOF")
    assert content(u.work, "sub", "new") == "text\n" and not u.events


def test_a_command_that_is_more_than_a_patch_is_run(unified):
    u = unified()
    assert u.exec(f"apply_patch <<'EOF' || echo run\n{adding('new')}EOF")["output"].count("run\n") == 1
    assert len(u.of("exec_command_begin")) == 1 and not os.path.exists(os.path.join(u.work, "new"))


def test_a_bare_patch_is_refused(unified):
    u = unified()
    assert u.error("exec_command", cmd=adding("new")) == (
        'patch detected without explicit call to apply_patch. Rerun as ["apply_patch", "<patch>"]')
    assert not os.path.exists(os.path.join(u.work, "new"))


@pytest.mark.parametrize("patch,text", [
    ("hello", "invalid patch: The first line of the patch must be '*** Begin Patch'"),
    ("*** Begin Patch\n*** End Patch\n", "No files were modified."),
])
def test_what_is_no_patch(unified, patch, text):
    u = unified()
    assert u.error("apply_patch", input=patch) == "apply_patch verification failed: " + text


def test_a_patch_that_does_not_fit_changes_nothing(unified):
    u = unified()
    put("one\n", u.work, "file")
    both = adding("new").replace("*** End Patch\n", "") + updating("file", "two", "three").replace("*** Begin Patch\n", "")
    text = u.error("apply_patch", input=both)
    assert text.startswith("apply_patch verification failed: ") and "two" in text
    assert os.listdir(u.work) == ["file"]
    assert u.error("exec_command", cmd=f"apply_patch <<'EOF'\n{both}EOF") == text


def test_bad_arguments(unified):
    u = unified()
    assert u.error("apply_patch", is_valid=False) == "failed to parse function arguments: missing field `input`"
    assert u.error("apply_patch", is_valid=False, input="x", cmd="x").startswith("failed to parse function arguments: unknown field `cmd`")
    assert u.error("apply_patch", input=adding("a"), environment_id="nowhere") == "unknown environment id `nowhere`"


def test_patches_of_one_environment_are_applied_in_order(unified):
    u = unified()
    put("0\n", u.work, "count")
    idents = [u.begin("apply_patch", input=updating("count", i, i + 1)) for i in range(20)]
    for ident in idents:
        u.wait(ident)
    assert content(u.work, "count") == "20\n"


def test_the_environment_line_of_a_patch():
    with tempfile.TemporaryDirectory(prefix="fh-far-", dir=TREES) as far, Server(cwd=far) as server:
        text = f'default = "local"\n[[environments]]\nid = "far"\nurl = "{server.url}"\n'
        with Unified(where=(), toml=text) as u:
            u.call("apply_patch", input=adding("a").replace("*** Begin Patch\n", "*** Begin Patch\n*** Environment ID: far\n"))
            u.call("apply_patch", input=adding("b"), environment_id="far")
            u.call("apply_patch", input=adding("c"))
            assert sorted(os.listdir(far)) == ["a", "b"] and os.listdir(u.work) == ["c"]


def test_an_environment_that_cannot_be_reached():
    with Unified(where=("--url", "unix:/no/such/socket")) as u:
        assert u.error("apply_patch", input=adding("a")).startswith("apply_patch failed: ")


def test_a_patch_can_be_undone_by_the_command_line():
    with Unified() as u:
        u.call("apply_patch", input=adding("new"))
        home = os.path.join(u.base, "home")
        done = subprocess.run([BIN, "apply-patch", "--env", "local", "--undo"], cwd=u.work, capture_output=True, text=True, timeout=60, check=False,
                              env=merged_env({"HOME": home, "FARHAND_HOME": home, "CODEX_HOME": home, "XDG_STATE_HOME": os.path.join(home, "state")}))
        assert done.returncode == 0 and os.listdir(u.work) == [], done


# Permissions


def outside(u):
    return os.path.join(u.outside, "made")


def test_denied_asked_approved_applied(unified):
    u = unified()
    ident = u.begin("apply_patch", input=adding(outside(u)))
    question = u.question(call_id=ident)
    assert question["reason"] == "denied" and question["outside_sandbox"] and question["paths"] == [outside(u)]
    assert question["denials"][0]["operation"] == "write" and question["denials"][0]["path"].endswith("/outside/made")
    assert not os.path.exists(outside(u))
    u.answer(question, "approved")
    assert u.wait(ident)["output"].startswith("Success. ") and content(outside(u)) == "text\n"
    assert len(u.of("approval_request")) == 1


def test_denied_asked_refused(unified):
    """The whole patch is refused: also what it may change stays as it is."""
    u = unified()
    put("old\n", u.work, "mine")
    both = updating("mine", "old", "new").replace("*** End Patch\n", "") + adding(outside(u)).replace("*** Begin Patch\n", "")
    ident = u.begin("apply_patch", input=both)
    question = u.question(call_id=ident)
    assert question["paths"] == [os.path.join(u.work, "mine"), outside(u)]
    u.answer(question, "denied")
    with pytest.raises(Failed, match="^apply_patch denied by sandbox: ") as failure:
        u.wait(ident)
    assert outside(u) in str(failure.value) and content(u.work, "mine") == "old\n" and not os.path.exists(outside(u))


def test_approved_for_the_session(unified):
    u = unified()
    ident = u.begin("apply_patch", input=adding(outside(u)))
    u.answer(u.question(call_id=ident), "approved_for_session")
    u.wait(ident)
    u.call("apply_patch", input=updating(outside(u), "text", "more"))
    assert content(outside(u)) == "more\n" and len(u.of("approval_request")) == 1
    assert outside(u) in json.dumps(u.call("list_grants")["grants"])


def test_a_here_document_is_asked_about_as_a_patch(unified):
    u = unified()
    ident = u.begin("exec_command", cmd=f"apply_patch <<'EOF'\n{adding(outside(u))}EOF")
    question = u.question(call_id=ident)
    assert question["paths"] == [outside(u)]
    u.answer(question, "approved")
    assert "exit_code" not in u.wait(ident) and content(outside(u)) == "text\n"


def test_never_asks_nothing(unified):
    u = unified("--approval", "never")
    assert u.error("apply_patch", input=adding(outside(u))).startswith("apply_patch denied by sandbox: ")
    assert not u.of("approval_request") and not os.path.exists(outside(u))


def test_untrusted_asks_before(unified):
    u = unified("--approval", "untrusted")
    ident = u.begin("apply_patch", input=adding("mine"))
    question = u.question(call_id=ident, reason="untrusted")
    assert question["paths"] == [os.path.join(u.work, "mine")]
    u.answer(question, "denied")
    with pytest.raises(Failed, match="^apply_patch failed: "):
        u.wait(ident)
    assert os.listdir(u.work) == []


@pytest.mark.parametrize("path", [".git/config", ".codex/x"])
def test_protected_names(unified, path):
    u = unified("--approval", "never")
    assert path in u.error("apply_patch", input=adding(path)) and os.listdir(u.work) == []


def test_a_link_out_of_the_workspace(unified):
    u = unified("--approval", "never")
    put("old\n", outside(u))
    os.symlink(outside(u), os.path.join(u.work, "link"))
    assert u.error("apply_patch", input=updating("link", "old", "new")).startswith("apply_patch denied by sandbox: ")
    assert content(outside(u)) == "old\n"


def write_profile(file, profile):
    """Paths are spelled as in a file that people write."""
    file.write(json.dumps(profile).replace("file:///", "/"))
    file.flush()


def path_of(u, name):
    return outside(u) if name == "outside" else os.path.join(u.work, name)


TABLE = {
    "read-only": (lambda u: read_only(), "file", "readOnly"),
    "workspace-write": (lambda u: workspace_write(), "outside", "outside"),
    "a denied file": (lambda u: workspace_write(at(os.path.join(u, "secret"), "deny")), "secret", "entry"),
    "a denied pattern": (lambda u: workspace_write(glob(u + "/**/*.env")), "sub/x.env", "pattern"),
    "a link out of the workspace": (lambda u: workspace_write(), "link", "outside"),
    "a protected .git": (lambda u: workspace_write(), ".git/config", "protected"),
}


@pytest.mark.parametrize("tool", ["apply_patch", "exec_command"])
@pytest.mark.parametrize("decision", ["approved", "denied"])
@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_refusals(unified, name, decision, tool):
    """Refused whole, the path and the rule named; with a yes it is applied, with a no nothing is changed."""
    profile, denied, rule = TABLE[name]
    with tempfile.NamedTemporaryFile("w", dir=TREES) as file:
        u = unified("--profile", file.name, profile=lambda work: write_profile(file, profile(work)))
        for path in ("file", "secret", "sub/x.env", ".git/config"):
            os.makedirs(os.path.dirname(os.path.join(u.work, path)), exist_ok=True)
            put("old\n", u.work, path)
        put("old\n", outside(u))
        os.symlink(outside(u), os.path.join(u.work, "link"))
        two = updating(path_of(u, denied), "old", "new")
        if name != "read-only":
            two = adding("mine").replace("*** End Patch\n", "") + two.replace("*** Begin Patch\n", "")
        ident = u.begin(tool, **({"input": two} if tool == "apply_patch" else {"cmd": f"apply_patch <<'EOF'\n{two}EOF"}))
        question = u.question(call_id=ident, reason="denied")
        assert path_of(u, denied) in question["paths"]
        assert question["denials"][0]["rule"] == rule
        assert content(path_of(u, denied)) == "old\n" and not os.path.exists(os.path.join(u.work, "mine"))
        u.answer(question, decision)
        if decision == "approved":
            assert u.wait(ident)["output"].startswith("Success. ") and content(path_of(u, denied)) == "new\n"
        else:
            with pytest.raises(Failed, match="^apply_patch denied by sandbox: ") as failure:
                u.wait(ident)
            assert path_of(u, denied) in str(failure.value) and f"({rule}" in str(failure.value)
            assert content(path_of(u, denied)) == "old\n" and not os.path.exists(os.path.join(u.work, "mine"))
        assert len(u.of("approval_request")) == 1


@pytest.mark.parametrize("count, omitted", [(3, 0), (100, 0), (130, 30)])
def test_a_question_shows_all_denials(unified, count, omitted):
    u = unified()
    put("old\n", u.work, "mine")
    paths = [os.path.join(u.outside, f"new{i:03}") for i in range(count)]
    hunks = "".join(adding(path).replace("*** Begin Patch\n", "").replace("*** End Patch\n", "") for path in paths)
    ident = u.begin("apply_patch", input=f"*** Begin Patch\n{hunks}*** Delete File: mine\n*** End Patch\n")
    question = u.question(call_id=ident, reason="denied")
    assert [d["path"] for d in question["denials"]] == [pathlib.Path(path).as_uri() for path in paths[:100]]
    assert {(d["operation"], d["rule"], d["source"]) for d in question["denials"]} == {("write", "outside", "server")}
    assert question.get("denials_omitted", 0) == omitted
    u.answer(question, "approved")
    u.wait(ident)
    assert len(os.listdir(u.outside)) == count


def test_a_wish_to_apply_it_without_a_sandbox(unified):
    u = unified()
    ident = u.begin("apply_patch", input=adding(outside(u)), sandbox_permissions="require_escalated", justification="so it is")
    question = u.question(call_id=ident, reason="escalated")
    assert question["justification"] == "so it is"
    u.answer(question, "approved")
    u.wait(ident)
    assert content(outside(u)) == "text\n"


def test_a_wish_for_more_permissions(unified):
    u = unified()
    ident = u.begin("apply_patch", input=adding(outside(u)), sandbox_permissions="with_additional_permissions",
                    additional_permissions={"file_system": {"write": [u.outside]}})
    question = u.question(call_id=ident, reason="additional")
    assert not question["outside_sandbox"]
    u.answer(question, "approved")
    u.wait(ident)
    assert content(outside(u)) == "text\n"


def test_read_only(unified):
    u = unified("--read-only", "--approval", "never")
    assert u.error("apply_patch", input=adding("mine")).startswith("apply_patch denied by sandbox: ")
    assert os.listdir(u.work) == []


def test_a_cancelled_patch_withdraws_its_question(unified):
    u = unified()
    ident = u.begin("apply_patch", input=adding(outside(u)))
    question = u.question(call_id=ident)
    u.send({"id": "cancel", "cancel": ident})
    u.event("approval_withdrawn", question_id=question["question_id"])
    with pytest.raises(Failed, match="^cancelled$"):
        u.wait(ident)
    assert not os.path.exists(outside(u))


def test_when_stdin_ends_patches_are_finished(unified):
    u = unified()
    idents = [u.begin("apply_patch", input=adding(f"file{i}")) for i in range(5)] + [u.begin("apply_patch", input=adding(outside(u)))]
    assert u.finish() == 0
    assert sorted(os.listdir(u.work)) == [f"file{i}" for i in range(5)] and not os.path.exists(outside(u))
    assert all(str(ident) in u.results for ident in idents)
