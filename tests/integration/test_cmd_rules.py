"""`farhand rules` on the real binary: what it decides, what it refuses, what it adds and what it leaves alone; and the page that
teaches the language (docs/RULES.md), as it is written.

tests/vectors/rules.json holds what Codex 0.166.0 says about 110 commands. Those that need more than the declarative part of Starlark are
in UNSUPPORTED, with what is refused.
"""

import json
import os
import re
import stat
import subprocess

import pytest

from cmd_rig import BIN, SECONDS, USERS, cmd_of
from farhand_client import REPO, merged_env
from test_readme import is_like
from words import blocks

UNSUPPORTED = {
    74: "p0.rules:1:1: unsupported Starlark construct: `for`",  # a loop
    75: "p0.rules:1:1: unsupported Starlark construct: `def`",  # a function of the file's own
    76: "p0.rules:1:29: unsupported Starlark construct: `for`",  # a list comprehension
    77: "p0.rules:1:1: unsupported Starlark construct: `if`",  # a condition
    78: "p0.rules:1:30: unsupported Starlark construct: `.`",  # a method of a string
    79: "p0.rules:2:26: unsupported Starlark construct: an f-string",
    81: "p0.rules:1:3: unsupported Starlark construct: `{`",  # a dictionary
}
# What Codex adds to a message: hints, and what its values look like inside.
HINTS = [(r", did you mean `\w+`\?", ""), (r", you tried .*", ""), (r'rules: \[".*?"\];', "rules: […];"),
         (r"not match rule `.*?`:", "not match rule `…`:"), (r": `load` is not supported", "")]


def vectors():
    with open(os.path.join(REPO, "tests/vectors/rules.json"), encoding="utf-8") as f:
        return json.load(f)["vectors"]


def plain(message):
    for pattern, text in HINTS:
        message = re.sub(pattern, text, message)
    return message


@pytest.fixture
def place(tmp_path):
    """A directory in which `farhand` runs, without rules of the user's own."""
    return os.path.realpath(tmp_path)


def run(place, *args, **env):
    done = subprocess.run([BIN, "rules", *args], cwd=place, capture_output=True, timeout=SECONDS, check=False,
                          env=merged_env({"HOME": f"{place}/home", "FARHAND_HOME": None, "CODEX_HOME": None, "XDG_CONFIG_HOME": None,
                                          **env}))
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(text.encode() if isinstance(text, str) else text)


@pytest.mark.parametrize("vector", vectors(), ids=lambda v: f"{v['id']} {v['name']}")
def test_vectors_of_the_reference(place, vector):
    args = []
    for i, text in enumerate(vector["policies"]):
        if text is not None:
            put(f"{place}/p{i}.rules", text)
        args += ["--rules", f"p{i}.rules"]
    command = vector["argv"] if vector["argv"][0] == "--" else ["--", *vector["argv"]]
    code, out, err = run(place, "check", *args, *vector["flags"], *command)
    if vector["id"] in UNSUPPORTED:
        assert (code, out, err) == (1, "", f"error: {UNSUPPORTED[vector['id']]}\n")
        return
    assert (code, out.replace(place, "<CWD>")) == (vector["exit_code"], vector["stdout"]), err
    if code != 0:
        assert plain(err).endswith(plain(vector["error"]) + "\n"), err
        assert re.match(r"error: (p0\.rules:\d+:\d+: |failed to read rules at p0\.rules: )", err), err


def test_nearly_all_vectors_are_in_the_part_that_we_know():
    assert len(vectors()) - len(UNSUPPORTED) == 103


def check(place, *command, **env):
    code, out, err = run(place, "check", "--", *command, **env)
    assert code == 0, err
    return json.loads(out).get("decision")


def test_without_rules_the_files_of_codex_and_farhand_are_read(place):
    home = f"{place}/home"
    assert check(place, "a") is None  # no directory at all
    put(f"{home}/.codex/rules/default.rules", 'prefix_rule(["a"])\nhost_executable("h", ["/codex/h"])\nprefix_rule(["h"])\n')
    assert check(place, "a") == "allow"
    put(f"{home}/.config/farhand/rules/x.rules", 'prefix_rule(["a"], "prompt")\nhost_executable("h", ["/farhand/h"])\n')
    assert check(place, "a") == "prompt"
    for path, decision in (("/codex/h", None), ("/farhand/h", "allow")):  # the later host_executable counts
        code, out, _ = run(place, "check", "--resolve-host-executables", "--", path)
        assert code == 0 and json.loads(out).get("decision") == decision, out

    # Other names and other kinds of files are no rules; links to rules are.
    put(f"{home}/.codex/rules/notes.txt", "not rules")
    os.mkdir(f"{home}/.codex/rules/directory.rules")
    put(f"{place}/elsewhere", 'prefix_rule(["a"], "forbidden")')
    assert check(place, "a") == "prompt"
    os.symlink(f"{place}/elsewhere", f"{home}/.codex/rules/link.rules")
    assert check(place, "a") == "forbidden"

    put(f"{place}/f/rules/one.rules", 'prefix_rule(["b"])')
    put(f"{place}/c/rules/one.rules", 'prefix_rule(["c"])')
    assert [check(place, w, FARHAND_HOME=f"{place}/f", CODEX_HOME="c") for w in "abc"] == [None, "allow", "allow"]
    # With --rules these are not read.
    assert run(place, "check", "--rules", "f/rules/one.rules", "--", "a")[1] == '{"matchedRules":[]}\n'


def test_one_bad_file_refuses_all(place):
    put(f"{place}/home/.codex/rules/a.rules", 'prefix_rule(["a"])')
    put(f"{place}/home/.codex/rules/b.rules", '\n  prefix_rule(["a"])')
    code, out, err = run(place, "check", "--", "a")
    assert (code, out) == (1, "")
    assert err == (f"error: {place}/home/.codex/rules/b.rules:2:1: Parse error: unexpected new indentation block, "
                   "expected expression\n")
    os.unlink(f"{place}/home/.codex/rules/b.rules")
    os.symlink("nowhere", f"{place}/home/.codex/rules/b.rules")
    code, out, err = run(place, "check", "--", "a")
    assert (code, out) == (1, "") and "it is a symlink that leads nowhere" in err
    put(f"{place}/large.rules", b"#" * (1024 * 1024 + 1))
    code, out, err = run(place, "check", "--rules", "large.rules", "--", "a")
    assert (code, out) == (1, "") and "it has more than 1 MiB" in err


def test_a_command_that_is_not_utf8_is_matched_by_its_bytes(place):
    put(f"{place}/r", 'prefix_rule(["a"])')
    code, out, _ = run(place, "check", "-r", "r", "--", "a", b"\xff")
    assert code == 0 and json.loads(out)["decision"] == "allow"


@pytest.mark.parametrize("args", [(), ("check",), ("check", "--"), ("check", "--nothing", "a"), ("add",), ("no",),
                                  ("add", "--decision", "deny", "a")])
def test_wrong_command_lines(place, args):
    code, out, err = run(place, *args)
    assert code == 2 and out == "" and err.startswith("error: ")
    assert not os.path.exists(f"{place}/home")


# Adding


class Rules:
    def __init__(self, cmd):
        self.cmd = cmd
        self.path = os.path.join(cmd.base, "home/.config/farhand/rules/default.rules")

    def add(self, *args):
        return self.cmd.run([BIN, "rules", "add", *args])

    def read(self, path=None):
        with open(path or self.path, "rb") as f:
            return f.read()

    def put(self, name, text, mode=0o600):
        path = os.path.join(self.cmd.tree.w, name)
        put(path, text)
        os.chmod(path, mode)
        if os.geteuid() == 0:
            os.chown(path, self.cmd.uid, self.cmd.uid)
        return path


@pytest.fixture(params=USERS)
def rules(request):
    with cmd_of(request.param) as cmd:
        yield Rules(cmd)


LINE = b'prefix_rule(pattern=["git", "push"], decision="allow")\n'


def test_a_first_rule_makes_the_file_and_its_directories(rules):
    code, out, err = rules.add("--", "git", "push")
    assert (code, out, err) == (0, f"added a rule to {rules.path}\n".encode(), b"")
    assert rules.read() == LINE
    assert stat.S_IMODE(os.stat(rules.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(rules.path)).st_mode) == 0o700
    assert rules.add("git", "push") == (0, f"the rule is already in {rules.path}\n".encode(), b"")
    assert rules.read() == LINE
    code, out, err = rules.add("--decision", "forbidden", "--justification", 'no "x"\n', "--", "rm", "-f", "é")
    assert code == 0, err
    assert rules.read() == LINE + ('prefix_rule(pattern=["rm", "-f", "é"], decision="forbidden", '
                                   'justification="no \\"x\\"\\n")\n').encode()
    code, out, err = rules.cmd.run([BIN, "rules", "check", "--", "rm", "-f", "é", "x"])
    assert code == 0 and json.loads(out)["matchedRules"][0]["prefixRuleMatch"]["justification"] == 'no "x"\n'


@pytest.mark.parametrize("old", [b"", b"# mine \xc3\xbc\r\n\r\n", b"X = ['a'] # no line end", b"\n\n\t\n"])
def test_the_rest_of_the_file_stays_byte_for_byte(rules, old):
    path = rules.put("mine.rules", old, 0o640)
    code, _, err = rules.add("--rules", path, "git", "push")
    assert code == 0, err
    assert rules.read(path) == old + (b"" if old.endswith(b"\n") or not old else b"\n") + LINE
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640 and os.stat(path).st_uid == rules.cmd.uid
    assert os.listdir(os.path.dirname(path)) == ["mine.rules"]


@pytest.mark.parametrize("old, why", [(b"for x in []:", b"unsupported Starlark construct: `for`"), (b'"', b"unfinished string"),
                                      (b'prefix_rule(["a"], match=["b"])', b"expected every example"), (b"\xff", b"not UTF-8"), (b'"joined"\\\n', b"cannot be added")])
def test_a_file_that_is_not_understood_is_left_alone(rules, old, why):
    path = rules.put("mine.rules", old)
    before = os.stat(path)
    code, out, err = rules.add("--rules", path, "git", "push")
    assert (code, out) == (1, b"") and why in err and path.encode() in err
    assert rules.read(path) == old and os.stat(path).st_ino == before.st_ino


def test_what_cannot_be_added_leaves_nothing_behind(rules):
    for args, why in (((b"a\xff",), b"a word is not UTF-8"), (("--justification", " ", "a"), b"justification cannot be empty")):
        code, out, err = rules.add(*args) if isinstance(args[0], str) else rules.cmd.run(["env", BIN, "rules", "add", "a\udcff"])
        assert (code, out) == (1, b"") and why in err
    assert not os.path.exists(os.path.dirname(rules.path))


def test_many_that_add_at_once_all_succeed(rules):
    procs = [rules.cmd.popen([BIN, "rules", "add", "--", "p", str(i)], stdout=subprocess.DEVNULL) for i in range(8)]
    assert [p.wait(SECONDS) for p in procs] == [0] * 8
    lines = rules.read().decode().splitlines()
    assert sorted(lines) == [f'prefix_rule(pattern=["p", "{i}"], decision="allow")' for i in range(8)]
    assert os.listdir(os.path.dirname(rules.path)) == ["default.rules"]


# The page


def steps():
    """What docs/RULES.md says, in order: (where, "file", name, text) and (where, "type", command, lines)."""
    with open(os.path.join(REPO, "docs/RULES.md"), encoding="utf-8") as f:
        page = f.read().split("\n")
    found = []
    for block in blocks("docs/RULES.md"):
        if block.language == "starlark":
            names = [n for line in page[max(0, block.line - 4):block.line - 1] for n in re.findall(r"`([\w-]+\.rules)`:$", line)]
            assert len(names) == 1, f"{block}: which file is this?"
            found.append((repr(block), "file", names[0], block.text))
            continue
        assert block.language == "console", block
        for line in block.lines:
            if line.startswith("$ "):
                found.append((repr(block), "type", line[2:], []))
            else:
                found[-1][3].append(line)
    return found


def test_the_page_about_rules_does_what_it_says(place):
    env = merged_env({"HOME": f"{place}/home", "FARHAND_HOME": None, "CODEX_HOME": None, "XDG_CONFIG_HOME": None,
                      "PATH": f"{os.path.dirname(os.path.realpath(BIN))}:{os.environ['PATH']}"})
    found = steps()
    assert len([s for s in found if s[1] == "type"]) >= 15 and len([s for s in found if s[1] == "file"]) >= 6
    for where, kind, what, shown in found:
        if kind == "file":
            put(f"{place}/{what}", shown)
            continue
        done = subprocess.run(["bash", "-c", f"{what} 2>&1"], cwd=place, env=env, capture_output=True, timeout=SECONDS, check=False)
        assert is_like(shown, done.stdout.decode()), f"{where}: $ {what}\n{done.stdout.decode()}"
