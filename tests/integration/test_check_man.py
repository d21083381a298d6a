"""scripts/check-man: it finds each way in which a manual page and an option table can differ."""

import os
import shutil
import subprocess

import pytest

from farhand_client import BIN, PATIENCE, REPO

# The rows of a command with verbs that the program does not have, and its page.
ROWS = """\
command	box	work with boxes
verb	list	print them
option	-l	--long	-	nothing	once	say more
option	-	--on	NAME	environment	once	where
option	-h	--help	-	nothing	once	Print this help
operands	nothing	nothing	first
verb	open	open one
option	-e	--env	KEY=VALUE	nothing	many	a variable
option	-	--on	NAME	environment	once	where
option	-h	--help	-	nothing	once	Print this help
operands	file	file	mixed
"""
PAGE = """\
farhand-box(1)

# COMMANDS

## list

*-l*, *--long*
	Say more.

## open

*-e*, *--env* _KEY=VALUE_
	A variable.

# OPTIONS

*--on* _NAME_
	Where.

*-h*, *--help*
	List the options and exit.
"""


@pytest.fixture
def tree(tmp):
    """A copy of the files that check-man reads, with the command `box` in all of them."""
    for name in ("man", "src/core", "include/farhand"):
        shutil.copytree(os.path.join(REPO, name), os.path.join(tmp, name))
    shutil.copy(os.path.join(REPO, "meson.build"), tmp)
    write(tmp, "man/farhand-box.1.scd", PAGE)
    edit(tmp, "man/farhand.1.scd", "*doctor*\n", "*box*\n\tBoxes.\n\n*doctor*\n")
    edit(tmp, "man/farhand.1.scd", "# SEE ALSO\n\n", "# SEE ALSO\n\n*farhand-box*(1), ")
    edit(tmp, "meson.build", "'farhand-doctor.1'", "'farhand-box.1', 'farhand-doctor.1'")
    write(tmp, "farhand", f"#!/bin/sh\n{BIN} --help-table; cat <<'END'\n{ROWS}END\n")
    os.chmod(os.path.join(tmp, "farhand"), 0o755)
    return tmp


def write(tree, name, text):
    with open(os.path.join(tree, name), "w", encoding="utf-8") as f:
        f.write(text)


def edit(tree, name, old, new):
    with open(os.path.join(tree, name), encoding="utf-8") as f:
        text = f.read()
    assert old in text, (name, old)
    write(tree, name, text.replace(old, new, 1))


def check(tree):
    done = subprocess.run([os.path.join(REPO, "scripts/check-man"), os.path.join(tree, "farhand"), tree], capture_output=True,
                          text=True, timeout=60 * PATIENCE, check=False)
    assert done.stderr == "" and done.returncode == (1 if done.stdout else 0), done
    return done.stdout.splitlines()


def differs(what, program, manual):
    return [f"{what}: only the program has {program}, only the manual {manual}"]


def test_pages_that_agree_pass(tree):
    assert check(tree) == []


@pytest.mark.parametrize("name,old,new,found", [
    ("farhand-box.1.scd", "*-l*, *--long*", "*--long*", differs("options of box list", ["-l, --long"], ["--long"])),
    ("farhand-box.1.scd", "*-l*,", "*-L*,", differs("options of box list", ["-l, --long"], ["-L, --long"])),
    ("farhand-box.1.scd", "_KEY=VALUE_", "_TEXT_", differs("options of box open", ["-e, --env <KEY=VALUE>"], ["-e, --env <TEXT>"])),
    ("farhand-box.1.scd", "*-l*, *--long*", "long", differs("options of box list", ["-l, --long"], [])),
    ("farhand-box.1.scd", "## open\n", "## open\n\n*--all*\n", differs("options of box open", [], ["--all"])),
    ("farhand-box.1.scd", "*--on* _NAME_", "*--on* _NAME_\n\tX.\n\n*--off*", differs("options of box", [], ["--off"])),
    ("farhand-box.1.scd", "## open\n", "## close\n", differs("commands of box", ["open"], ["close"]) +
     differs("options of box open", ["-e, --env <KEY=VALUE>"], [])),
    ("farhand-serve.1.scd", "*--listen* _URL_", "*--listen* _PLACE_",
     differs("options of serve", ["--listen <URL>"], ["--listen <PLACE>"])),
    ("farhand-doctor.1.scd", "*--json*\n", "json\n", differs("options of doctor", ["--json"], [])),
    ("farhand-serve.1.scd", "# CONFIGURATION\n", "# CONFIGURATION\n\n*no_such_key*\n",
     ["the manual has the key no_such_key, the program does not"]),
    ("farhand.1.scd", "*box*\n", "*boxes*\n", differs("commands", ["box"], ["boxes"])),
    ("farhand.1.scd", "*-V*, ", "", differs("options of farhand", ["-V, --version"], ["--version"])),
    ("farhand.1.scd", "*farhand-box*(1), ", "", ["SEE ALSO of farhand(1) lacks box"]),
    ("../meson.build", "'farhand-box.1', ", "", ["meson.build does not install the page of box"]),
])
def test_a_difference_is_told(tree, name, old, new, found):
    edit(tree, os.path.join("man", name), old, new)
    assert check(tree) == found


def test_a_command_without_a_page_is_told(tree):
    os.remove(os.path.join(tree, "man/farhand-box.1.scd"))
    assert check(tree) == ["box has no page"]
