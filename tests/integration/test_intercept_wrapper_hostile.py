"""A command of the mechanism `wrapper` that turns against its broker: it reaches no other socket by what it inherits, nothing runs that was
not decided about, the broker keeps nothing of what it sends, and other sessions do not notice it."""

import os
import shutil
import socket

import pytest

from exhaustion_rig import Honest
from farhand_client import PATIENCE, wait_until
from intercept_rig import Places, programs, rule
from load_rig import children, spawner_of
from test_intercept_wrapper import BOXED, SHELL, where, wrapped

HERE = os.path.dirname(os.path.abspath(__file__))
RULES = rule("allow", "where", "sleep") + rule("forbidden", "false") + rule("prompt", "ls")

# What the caller is told of requests that are good, but cannot be carried out.
TOLD = {"bad_frames": "{}: Argument list too long\n", "bad_descriptors": "{}: Invalid argument\n"}


@pytest.fixture(scope="module")
def places():
    places = Places()
    yield places
    places.close()


@pytest.fixture(params=BOXED)
def place(request, places):
    return places.get(request.param)


@pytest.fixture
def one(places):
    return places.get("namespaces-root" if os.geteuid() == 0 else "namespaces-user")


def hostile():
    path = os.path.join(programs(), "wrapper_hostile.py")
    if not os.path.exists(path):
        shutil.copy(os.path.join(HERE, "wrapper_hostile.py"), path)
        os.chmod(path, 0o644)
    return path


def command(*words):
    return " ".join(["/usr/bin/python3", "-I", hostile(), *words])


def keeper_of(place):
    """The pid of the keeper of the command that was started last here."""
    return children(spawner_of(place.rig.server))[-1]


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.parametrize("kind", ["no_streams", "bad_frames", "bad_descriptors", "keeps_the_brokers_end", "descriptors_in_streams"])
def test_what_no_wrapper_sends(one, kind):
    """The broker closes what is of no use, and answers the next wrapper."""
    script = f"{command(kind, where())}; w {where()} where; read go"
    process_id, ident = one.start(["/bin/bash", "-c", SHELL + script], wrapped(RULES), "/usr", pipeStdin=True)
    one.client.wait_output(process_id, b"outside\n", 120 * PATIENCE)
    wait_until(lambda: descriptors(keeper_of(one)) < 40, 20, "end of what came")
    one.client.write(process_id, b"\n", write_id="1")
    done = one.finish(process_id, ident)
    assert done.out == b"done\noutside\n" and done.err.decode() == TOLD.get(kind, "").format(where()), done


def test_words_out_of_turn(one):
    done = one.sh(SHELL + f"{command('talks_out_of_turn', where())}; w {where()} where",
                  wrapped(RULES), decide=lambda _: None, timeout=120 * PATIENCE)
    assert done.out.endswith(b"outside\n") and b"done\n" in done.out and not done.err, done


@pytest.mark.parametrize("kind", ["flood_messages", "flood_streams", "flood_questions"])
def test_others_do_not_notice_a_flood(one, kind):
    process_id, ident = one.start(["/bin/bash", "-c", command(kind, where())], wrapped(RULES), "/usr", pipeStdin=True)
    try:
        one.client.wait_output(process_id, b"up\n", 120 * PATIENCE)
        keeper = keeper_of(one)
        Honest(one.rig).work()
        with open(f"/proc/{keeper}/status", encoding="latin-1") as f:
            memory = next(int(line.split()[1]) for line in f if line.startswith("RssAnon"))
        assert memory < 256 * 1024, f"{memory} kB"
    finally:
        one.client.call("process/terminate", {"processId": process_id})
    one.finish(process_id, ident, decide=lambda _: None)


def test_it_reaches_no_socket_of_the_machine(place):
    tree = place.tree()
    tree.dir(tree.w)
    names, listening = [], []
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
        for name in (f"{tree.w}/{int(kind)}", f"@fh-test-{os.getpid()}-{int(kind)}"):
            s = socket.socket(socket.AF_UNIX, kind)
            s.bind("\0" + name[1:] if name[0] == "@" else name)
            if name[0] != "@":
                os.chmod(name, 0o777)
            if kind != socket.SOCK_DGRAM:
                s.listen()
            s.setblocking(False)
            names.append(name)
            listening.append(s)
    done = place.sh(SHELL + f"{command('to_other_sockets', where(), *names)}; w {where()} where", wrapped(RULES), tree.w)
    assert done.out in (b"done\noutside\n",), done
    for name, s in zip(names, listening):
        with s, pytest.raises(BlockingIOError):
            print(name, s.recv(100) if s.type == socket.SOCK_DGRAM else s.accept())
