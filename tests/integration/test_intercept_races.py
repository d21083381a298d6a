"""Threads that rewrite what another wants to execute while the broker reads it, decides about it, and while the question about it is open:
a program that was denied or asked about never runs outside of the sandbox, nor in place of one that may run.

The programs note where they run in a file that the test looks at.
"""

import collections
import os

import pytest

from farhand_client import PATIENCE
from intercept_rig import Places, argv_of, compiled, intercept, programs, rule, text_of

IS_SOAK = os.environ.get("FARHAND_SLOW") == "1"
# A contest ends after so many rounds; or sooner, when its time is over, as long as there were enough. While the thread that rewrites does not get
# a processor the same side wins each round, which can be all of a short one: so there are further ones until both sides have won.
ROUNDS, ENOUGH = (10_000, 10_000) if IS_SOAK else (200, 20)
CONTESTS = 20
LEAST_MS = 300
MOST_SECONDS = 600 if IS_SOAK else int(60 * PATIENCE)

# The patterns of rules: for races about the name of the program, and for races about an argument.
GOOD = {"path": 'pattern=["note-good"]', "argument": 'pattern=["note", "good"]'}
EVIL = {"path": 'pattern=["note-evil"]', "argument": 'pattern=["note", "evil"]'}


def rules_of(what, good, evil):
    what = "path" if what == "path" else "argument"
    lines = [(GOOD[what], good), (EVIL[what], evil)]
    return "".join(f'prefix_rule({pattern}, decision="{decision}")\n' for pattern, decision in lines if decision)


@pytest.fixture(scope="module")
def places():
    places = Places()
    yield places
    places.close()


@pytest.fixture(params=["namespaces-unprivileged", "none-root", "landlock-root"])
def place(request, places):
    return places.get(request.param)


@pytest.fixture(scope="module")
def race():
    return compiled(programs(), "race", "intercept_race.c")


def is_evil(question):
    return b"evil" in text_of(question, "file") or argv_of(question)[1:] == [b"evil"]


def noted(tree):
    """How often each thing ran: (place, evil or good) -> count."""
    with open(f"{tree.w}/notes", encoding="ascii") as f:
        return collections.Counter((line.split()[0], "evil" if "evil" in line else "good") for line in f)


def contest(place, race, what, how, text, answer, rounds):
    tree = place.tree()
    script = f"exec 9>>notes; exec {race} {what} {how} {LEAST_MS} {min(rounds, ENOUGH)} {rounds} {programs()}"
    done = place.sh(script, intercept(text), tree.w, decide=answer, timeout=MOST_SECONDS)
    assert done.code == 0 and int(done.out) >= min(rounds, ENOUGH), done
    return noted(tree), done.counts


def contests(place, race, what, how, text, answer=None, rounds=ROUNDS):
    """Returns what ran where, and how many starts were decided how, until something ran and something was denied."""
    notes, counts = collections.Counter(), collections.Counter()
    for _ in range(CONTESTS):
        for total, more in zip((notes, counts), contest(place, race, what, how, text, answer, rounds)):
            total.update(more)
        if notes and counts["denied"]:
            break
    assert notes and counts["denied"], (notes, counts)
    return notes, counts


@pytest.mark.parametrize("how", ["shared", "thread"])
@pytest.mark.parametrize("what", ["path", "argument", "pointer"])
class TestRaces:
    def test_what_is_denied_never_runs_in_place_of_what_is_escalated(self, place, race, what, how):
        notes, counts = contests(place, race, what, how, rules_of(what, "allow", "forbidden"))
        assert set(notes) == {("outside", "good")}, (notes, counts)
        assert notes["outside", "good"] == counts["escalated"]

    def test_what_is_denied_never_runs_in_place_of_what_runs_inside(self, place, race, what, how):
        notes, counts = contests(place, race, what, how, rules_of(what, None, "forbidden"))
        assert set(notes) == {("inside", "good")} and counts["escalated"] == 0, (notes, counts)

    def test_what_is_escalated_never_changes_while_the_question_is_open(self, place, race, what, how):
        answers = collections.Counter()

        def answer(question):
            answers[is_evil(question)] += 1
            return {"decision": "deny"} if is_evil(question) else {"decision": "escalate"}

        notes, counts = contests(place, race, what, how, rules_of(what, "prompt", "prompt"), answer, max(ROUNDS // 10, 100))
        assert set(notes) == {("outside", "good")}, (notes, counts)
        assert notes["outside", "good"] == answers[False] and counts["denied"] == answers[True]

    def test_what_runs_inside_never_changes_while_the_question_is_open(self, place, race, what, how):
        def answer(question):
            return {"decision": "deny"} if is_evil(question) else {"decision": "run"}

        notes, counts = contests(place, race, what, how, rules_of(what, "prompt", "prompt"), answer, max(ROUNDS // 10, 100))
        assert set(notes) == {("inside", "good")} and counts["escalated"] == 0, (notes, counts)
