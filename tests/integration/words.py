"""Reads documents: fenced blocks, command lines and JSON messages out of README, docs and manual pages."""

import glob
import json
import os
import re

from farhand_client import REPO

MARKDOWN = ["README.md", "CONTRIBUTING.md"] + sorted(os.path.relpath(p, REPO) for p in glob.glob(f"{REPO}/docs/**/*.md",
                                                                                               recursive=True))
MANUALS = sorted(os.path.relpath(p, REPO) for p in glob.glob(f"{REPO}/man/*.scd"))


def read(name):
    with open(os.path.join(REPO, name), encoding="utf-8") as f:
        return f.read()


class Block:
    """A fenced block: where it is, its language ("" where it has none), and its lines."""

    def __init__(self, name, line, language, lines):
        self.name, self.line, self.language, self.lines = name, line, language, lines
        self.text = "\n".join(lines) + "\n"

    def __repr__(self):
        return f"{self.name}:{self.line}"


def blocks(name):
    found, start, language = [], None, ""
    lines = read(name).split("\n")
    for number, line in enumerate(lines, 1):
        if not line.startswith("```"):
            continue
        if start is None:
            start, language = number, line[3:].strip()
        else:
            found.append(Block(name, start + 1, language, lines[start:number - 1]))
            start = None
    assert start is None, f"{name}:{start}: the block has no end"
    return found


def every_block():
    return [block for name in MARKDOWN for block in blocks(name)]


# Messages


class Message:
    """One line of JSON. `text` is what is written; `value` has `…` in the place of what is left out."""

    def __init__(self, where, text, is_ours):
        self.where, self.text, self.is_ours = where, text, is_ours
        whole = text.replace("{…}", "{}").replace(",…}", "}")
        try:
            self.value = json.loads(whole)
        except json.JSONDecodeError:
            self.value = None  # a message that is meant to be broken

    def __repr__(self):
        return f"{self.where}: {self.text[:80]}"


NOTIFIED = ("process/output", "process/exited", "process/closed", "fs/changed", "http/request/bodyDelta")


def messages(block):
    """The messages of a block, if it has any. `is_ours`: the client sends the message. What a `console` block shows is printed."""
    found = []
    if block.language == "console":
        return found
    for number, line in enumerate(block.lines, block.line):
        where = f"{block.name}:{number}"
        if line.startswith(("> {", "< {")):
            found.append(Message(where, line[2:], line[0] == ">"))
        elif line.startswith('{"') and re.search(r'"(method|result|error)":', line):
            message = Message(where, line, False)
            message.is_ours = message.value.get("method", "process/output") not in NOTIFIED
            found.append(message)
    return found


# Command lines

# How command lines begin. Other lines of such blocks are drawings, or what a command prints.
COMMAND = re.compile(r"^(\(umask|[A-Z_]+=\S+ |make|farhand|build/|/usr/bin/|ssh|systemctl|loginctl|mkdir|openssl|sudo)(\s|$|[\w./-])")


def command_lines():
    """(where, command): of blocks without a language, and of the examples in manual pages; comments are cut off."""
    found = []
    for block in every_block():
        if block.language or messages(block):
            continue
        found += [(f"{block.name}:{number}", re.sub(r"\s+#.*", "", line)) for number, line in enumerate(block.lines, block.line)
                  if COMMAND.match(line) and "──" not in line]
    for name in MANUALS:
        for number, line in enumerate(read(name).split("\n"), 1):
            line = line.removesuffix("++").strip()
            if line.startswith("$ ") or re.match(r"farhand (sandbox|serve|doctor|env|rules) ", line):
                found.append((f"{name}:{number}", line.removeprefix("$ ")))
    return found
