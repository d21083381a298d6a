"""Questions about program starts that stay open: how many there may be, what stands still meanwhile and what does not, lost connections,
ends of processes, sessions and servers."""

import base64
import signal
import time

import pytest

from farhand_client import PATIENCE, Client, RpcError, pid_alive, wait_until
from intercept_rig import PLACES, Places, intercept, rule
from test_intercept_wire import ESCALATE, NO, YES, decide, question_of, told
from test_kill9 import Mark

MOST = 256


@pytest.fixture(scope="module")
def places():
    places = Places()
    yield places
    places.close()


@pytest.fixture(params=["namespaces-unprivileged", "none-root"])
def place(request, places):
    return places.get(request.param)


@pytest.fixture
def mark():
    mark = Mark()
    yield mark
    mark.kill()


def open_question(place, script="where", text=rule("prompt", "where"), client=None, **more):
    """A command whose `where` waits: (process id, id of its start, the question)."""
    client = client or place.client
    process_id, ident = place.start(["/bin/bash", "-c", script], intercept(text), place.tree().w, client, **more)
    return process_id, ident, question_of(client, process_id)


# How many


def test_more_questions_than_may_be_open_are_denials(place):
    count = MOST + 20
    script = f"for i in $(seq {count}); do where & done; wait"
    process_id, ident = place.start(["/bin/bash", "-c", script], intercept(rule("prompt", "where")), place.tree().w)
    place.client.result(ident, 60)
    wait_until(lambda: place.client.output(process_id, "stderr").count(b"Execution denied: ") == count - MOST, 120, "denials")
    questions = told(place.client, process_id, "ask")
    assert len(questions) == MOST and len({q["requestId"] for q in questions}) == MOST
    # Nothing else waits: neither another command of the session, nor more of this command when there is room again.
    assert place.run(["where"], intercept(), "/").out == b"inside\n"
    for number, question in enumerate(questions):
        decide(place.client, question, (YES, ESCALATE, NO)[number % 3])
    done = place.finish(process_id, ident, lambda q: None, timeout=120)
    lines = done.out.decode().splitlines()
    assert (lines.count("inside"), lines.count("outside")) == (86, 85), done
    assert (done.counts["escalated"], done.counts["denied"]) == (85, 85 + count - MOST)


def test_room_for_questions_comes_back(place):
    """How many questions there may be one after the other has no limit."""
    done = place.sh(f"for i in $(seq {MOST + 50}); do where; done", intercept(rule("prompt", "where")), decide=lambda q: YES, timeout=120)
    assert done.out == b"inside\n" * (MOST + 50) and len(done.questions) == MOST + 50


# What goes on


def test_an_open_question_holds_nothing_else(place):
    _, _, question = open_question(place, "ls -d /; (echo a; sleep 0.01; echo b) | cat; where & ls -d /usr; wait",
                                   rule("prompt", "where"))
    process_id = question["processId"]
    place.client.wait_output(process_id, lambda out: b"/usr\n" in out and b"b\n" in out)
    with Client(place.rig.server.url) as other:
        for client in (other, place.client):
            began = time.monotonic()
            assert place.run(["where"], intercept(), "/", client=client).out == b"inside\n"
            assert time.monotonic() - began < 5 * PATIENCE
    decide(place.client, question, YES)
    place.client.wait_closed(process_id)
    assert b"inside\n" in place.client.output(process_id)


def test_other_questions_of_the_command_are_answered_meanwhile(place):
    process_id, ident, first = open_question(place, "where cwd & sleep 0; where argv0; where argv0; kill -9 $!; wait")
    other = question_of(place.client, process_id, 2)
    questions = {tuple(q["argv"]): q for q in (first, other)}
    decide(place.client, questions["where", "argv0"], ESCALATE)
    place.client.wait_output(process_id, b"outside where\n")
    decide(place.client, question_of(place.client, process_id, 3), YES)
    done = place.finish(process_id, ident, lambda q: None)
    assert done.out == b"outside where\ninside where\n", done


def test_wall_and_silence_limits_stand_still(place):
    for limit in ("wallMs", "silenceMs"):
        process_id, ident, question = open_question(place, "where; echo said", limits={limit: int(1500 * PATIENCE)})
        place.client.result(ident)
        time.sleep(3 * PATIENCE)  # longer than the limit: there is no event to wait for when nothing happens
        assert pid_alive(question["pid"]) and not [m for m in place.client.events(process_id) if m["method"] == "process/exited"]
        decide(place.client, question, YES)
        done = place.finish(process_id, ident, lambda q: None)
        assert done.out == b"inside\nsaid\n", (limit, done)
        assert place.client.wait_exit(process_id)["reason"] == "exited"


def test_limits_go_on_after_the_answer(place):
    for limit, reason in (("wallMs", "wallLimit"), ("silenceMs", "silenceLimit")):
        process_id, ident, question = open_question(place, "where; sleep 1000", limits={limit: int(1000 * PATIENCE)})
        decide(place.client, question, YES)
        place.finish(process_id, ident, lambda q: None)
        assert place.client.wait_exit(process_id)["reason"] == reason


def test_limits_run_while_no_question_is_open(place):
    process_id, ident = place.start(["sleep", "1000"], intercept(rule("prompt", "where")), "/", limits={"wallMs": 300})
    place.finish(process_id, ident)
    assert place.client.wait_exit(process_id)["reason"] == "wallLimit"


# Lost connections


def test_an_open_question_is_told_again_after_a_resume(place):
    client = Client(place.rig.server.url, name="lost")
    process_id, _, question = open_question(place, client=client)
    client.abort()
    with resumed(place, client.session_id) as again:
        same = question_of(again, process_id)
        assert same == question
        decide(again, same, ESCALATE)
        again.call("process/wait", {"processId": process_id, "until": "closed"})
        assert chunks_of(again, process_id) == b"outside\n"


def test_a_start_that_waits_for_a_decision_survives_a_lost_connection(place):
    client = Client(place.rig.server.url, name="lost")
    process_id, _ = place.start(["where"], intercept(rule("prompt", "where")), "/", client)
    question = question_of(client, process_id)
    client.abort()
    with resumed(place, client.session_id) as again:
        assert question_of(again, process_id) == question
        decide(again, question, YES)
        again.call("process/wait", {"processId": process_id, "until": "closed"})
        assert chunks_of(again, process_id) == b"inside\n"


def test_a_question_that_nobody_comes_back_for_is_never_a_yes(place, mark):
    tree = place.tree()
    client = Client(place.rig.server.url, name="gone", init_params={"detachMs": 300})
    script = "note ran 9>>ran; echo $? >code; sleep 1000"
    process_id, _ = place.start(["/bin/bash", "-c", script], intercept(rule("prompt", "note")), tree.w, client, env={mark.name: mark.value})
    question_of(client, process_id)
    client.abort()
    mark.wait_gone(30)
    with open(f"{tree.w}/ran", encoding="ascii") as f:
        assert f.read() == ""


def resumed(place, session):
    def attempt():
        try:
            return Client(place.rig.server.url, resume=session)
        except RpcError as error:
            assert error.code == -32010
            return None
    return wait_until(attempt, 10, "resume")


def chunks_of(client, process_id):
    return b"".join(base64.b64decode(chunk["chunk"]) for chunk in client.read(process_id)["chunks"])


# Ends


@pytest.mark.parametrize("answer", ["open", "run", "escalate"])
@pytest.mark.parametrize("name", PLACES)
def test_terminate_ends_everything(places, name, answer, mark):
    """A command ends also while a question is open, and while escalated programs run."""
    place = places.get(name)
    script = "setsid sh -c 'echo up; exec sleep 1000' & sh -c 'echo up; exec sleep 1000'"
    process_id, ident = place.start(["/bin/bash", "-c", script], intercept(rule("prompt", "sh")), place.tree().w, env={mark.name: mark.value})
    questions = [question_of(place.client, process_id, 1), question_of(place.client, process_id, 2)]
    if answer != "open":
        for question in questions:
            decide(place.client, question, {"decision": answer})
        place.client.wait_output(process_id, b"up\nup\n")
    assert mark.pids()
    place.client.call("process/terminate", {"processId": process_id})
    place.finish(process_id, ident, lambda q: None)
    mark.wait_gone()


@pytest.mark.parametrize("how", ["TERM", "KILL"])
def test_the_end_of_a_server_ends_everything(place, how, mark):
    with place.rig.new_server() as server:
        client = Client(server.url)
        process_id, _ = place.start(["/bin/bash", "-c", "sh -c 'echo up; exec sleep 1000' & where; where; wait"],
                                        intercept(rule("allow", "sh") + rule("prompt", "where")), place.tree().w, client, env={mark.name: mark.value})
        client.wait_output(process_id, b"up\n", 30)
        question_of(client, process_id)
        server.stop(getattr(signal, "SIG" + how), 30)
        mark.wait_gone(30)
        client.abort()
