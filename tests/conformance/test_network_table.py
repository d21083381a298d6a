"""docs/internals/network-reference.md against the tests: every row of its tables says same or ours, and names tests that exist."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = [line for line in (ROOT / "docs" / "internals" / "network-reference.md").read_text().splitlines()
        if line.startswith("| ") and not line.startswith("| the reference |")]
SOURCES = "\n".join(path.read_text() for path in (ROOT / "tests" / "integration").glob("test_network_*.py"))
TESTS = set(re.findall(r"^def (test_\w+)", SOURCES, re.M))


def test_there_are_rows():
    assert len(ROWS) > 40


@pytest.mark.parametrize("row", ROWS)
def test_a_row_names_its_tests(row):
    told, ours = row.strip("|").split(" | ")
    assert told.strip() and re.match(r"(same|ours): `test_", ours.strip()), row
    named = re.findall(r"`(test_\w+)`", ours)
    assert named and set(named) <= TESTS, set(named) - TESTS
