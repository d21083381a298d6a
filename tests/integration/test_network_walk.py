"""The walk of docs/NETWORK.md: every `console` block, in order, typed as it is written, in a World whose services are the hosts of the walk."""

import os
import re
import subprocess

import pytest

from farhand_client import BIN, PATIENCE, merged_env
from network_rig import Network
from test_readme import walk
from world import world_or_skip


@pytest.fixture(scope="module", name="world")
def world_of():
    with world_or_skip() as world:
        yield world


def pattern_of(line):
    return re.escape(line).replace("…", ".*")


def lacking(shown, printed):
    """The lines of one that the other has not. What farhand says and what the command says come in any order; and a decision may come too late
    for a command that ends at once, so that nothing is said."""
    left, missing = list(printed), []
    for line in shown:
        found = next((one for one in left if re.fullmatch(pattern_of(line), one)), None)
        if found is None:
            missing.append(line)
        else:
            left.remove(found)
    return missing, left


def test_every_command_of_the_walk_does_what_is_shown(world, tmp_path):
    with Network(world):  # skips where the server manages no networks
        pass
    home = tmp_path / "home"
    home.mkdir()
    env = merged_env({"HOME": str(home), "XDG_STATE_HOME": str(tmp_path / "state"), "XDG_RUNTIME_DIR": None, "FARHAND_HOME": str(home), "CODEX_HOME": str(home),
                      "PATH": f"{os.path.dirname(os.path.realpath(BIN))}:/usr/bin:/bin"})
    env = {name: value for name, value in env.items() if not name.lower().endswith("_proxy")}
    typed = walk("docs/NETWORK.md")
    assert len(typed) >= 8
    for where, command, shown in typed:
        done = subprocess.run(["bash", "--norc", "-c", command], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60 * PATIENCE, check=False, preexec_fn=world.enter)
        missing, left = lacking(shown, done.stdout.splitlines())
        assert not missing and not left, f"{where}: $ {command}\nshown:\n" + "\n".join(shown) + f"\nprinted:\n{done.stdout}"
