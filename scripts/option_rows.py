"""option_rows: what `farhand --help-table` says of the commands, their verbs and their options.

The rows are explained in src/base/args.c and src/cli/verbs.h.
"""

import dataclasses
import subprocess


@dataclasses.dataclass
class Option:
    """An option. `letter` is "-t" or None; `name` is "--tty"; `value` is the name of its value, or None; `offer` says what the value
    is."""
    letter: str
    name: str
    value: str
    offer: str
    is_many: bool
    help: str

    def spellings(self):
        return [word for word in (self.letter, self.name) if word]


@dataclasses.dataclass
class Command:
    """A command. `path` is "" for the program, "serve" for a command, "fs ls" for a verb; `children` are the commands one level
    below."""
    path: str
    about: str = ""
    operands: str = "nothing"
    behind: str = "nothing"
    is_mixed: bool = False
    options: list = dataclasses.field(default_factory=list)
    children: list = dataclasses.field(default_factory=list)

    @property
    def name(self):
        return self.path.rpartition(" ")[2]


def read(program):
    """Returns a dict of all commands by their paths, in the order of the program."""
    text = subprocess.run([program, "--help-table"], capture_output=True, text=True, check=True).stdout
    found = {"": Command("")}
    at = group = found[""]
    for line in text.splitlines():
        kind, *cells = line.split("\t")
        if kind in ("command", "verb"):
            parent = found[""] if kind == "command" else group
            at = Command(f"{parent.path} {cells[0]}".strip(), cells[1])
            group = at if kind == "command" else group
            parent.children.append(at)
            found[at.path] = at
        elif kind == "option":
            letter, name, value, offer, often, text = cells
            at.options.append(Option(None if letter == "-" else letter, name, None if value == "-" else value, offer,
                                     often == "many", text))
        elif kind == "operands":
            at.operands, at.behind, at.is_mixed = cells[0], cells[1], cells[2] == "mixed"
        else:
            raise ValueError(f"unknown row {line!r}")
    for command in found.values():
        if command.children and command.path and not command.options:  # most of those with verbs have no table of their own
            command.options.append(Option("-h", "--help", None, "nothing", False, "Print the list of commands"))
    return found
