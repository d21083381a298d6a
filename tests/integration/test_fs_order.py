"""The order of file requests: those of one connection take effect one after another, and no other connection waits for them.

A file system that answers only on command (stuck_fs.py) makes requests wait.
"""

import contextlib
import os

import pytest

from farhand_client import DEFAULT_ENV, wait_until
from fs_helpers import (EIO, EROFS, MIB, b64, block, content, failure, fs, make, noise, outcome, read, send, stuck_server,
                        tree, uri, write)
from sandbox_rig import Box, is_error, why_not, workspace_write


def start(client, process_id, argv, **more):
    params = {"processId": process_id, "argv": argv, "cwd": "file:///", "env": DEFAULT_ENV, "tty": False,
              "pipeStdin": False, "arg0": None, **more}
    return client.request("process/start", params)


# Without waiting for answers


def test_each_read_sees_the_write_before_it(client, tmp):
    sent = []
    for n in range(200):
        sent.append((None, send(client, "writeFile", path=f"{tmp}/f", dataBase64=b64(b"%d" % n))))
        sent.append((b"%d" % n, send(client, "readFile", path=f"{tmp}/f")))
    for expected, ident in sent:
        result = client.result(ident, 30)
        assert expected is None or result["dataBase64"] == b64(expected)


def test_a_chain_of_changes(client, tmp):
    """Each change needs the one before it, and each read between them sees the state at its place in the order."""
    steps = [
        (send(client, "getMetadata", path=f"{tmp}/d"), -32004),
        (send(client, "createDirectory", path=f"{tmp}/d"), {}),
        (send(client, "writeFile", path=f"{tmp}/d/f", dataBase64=b64(noise(MIB))), ...),
        (send(client, "copy", sourcePath=f"{tmp}/d", destinationPath=f"{tmp}/e", recursive=True), {}),
        (send(client, "remove", path=f"{tmp}/d"), {}),
        (send(client, "getMetadata", path=f"{tmp}/d"), -32004),
        (send(client, "readFile", path=f"{tmp}/e/f"), {"dataBase64": b64(noise(MIB))}),
        (send(client, "createDirectory", path=f"{tmp}/d", recursive=False), {}),
        (send(client, "remove", path=f"{tmp}/e"), {}),
        (send(client, "readDirectory", path=tmp), {"entries": [
            {"fileName": "d", "isDirectory": True, "isFile": False}]}),
    ]
    for ident, expected in steps:
        answer = outcome(client, ident)
        if isinstance(expected, int):
            assert answer[0] == expected
        elif expected is not ...:
            assert answer == expected


def test_handles_in_one_go(client, tmp):
    data = noise(3 * MIB)
    opened = send(client, "open", handleId="w", path=f"{tmp}/f", mode="replace")
    offsets = range(0, 3 * MIB, MIB)
    writes = [send(client, "writeBlock", handleId="w", offset=o, chunk=b64(data[o:o + MIB])) for o in offsets]
    closed = send(client, "close", handleId="w")
    late = send(client, "writeBlock", handleId="w", offset=0, chunk="eA==")
    again = send(client, "open", handleId="w", path=f"{tmp}/f")
    blocks = [send(client, "readBlock", handleId="w", offset=o, len=MIB) for o in offsets]
    last = send(client, "close", handleId="w")
    assert client.result(opened)["handleId"] == "w" and client.result(again)["handleId"] == "w"
    assert [client.result(i) for i in writes] == [{}] * 3 and client.result(closed) == {}
    assert outcome(client, late) == (-32004, "unknown file handle `w`")
    assert b"".join(block(client.result(i))[0] for i in blocks) == data
    assert client.result(last) == {} and content(f"{tmp}/f") == data


def test_a_process_started_behind_a_write_sees_the_file(client, tmp):
    data = noise(8 * MIB)
    for n in range(3):
        written = send(client, "writeFile", path=f"{tmp}/{n}", dataBase64=b64(data))
        started = start(client, f"p{n}", ["/usr/bin/cksum", f"{tmp}/{n}"])
        client.result(written)
        client.result(started)
        client.wait_closed(f"p{n}")
        assert client.wait_exit(f"p{n}")["exitCode"] == 0, client.output(f"p{n}")
    assert len({client.output(f"p{n}").split()[0] for n in range(3)}) == 1


def test_a_new_program_is_run_in_a_new_directory(client, tmp):
    """Directory and program are made, written and run, without waiting for answers in between."""
    program = b64(b"#!/bin/sh\nread line\necho \"got $line in $(pwd)\"\n")
    for n in range(10):
        there = f"{tmp}/d{n}"
        send(client, "createDirectory", path=there)
        send(client, "writeFile", path=f"{there}/prog", dataBase64=program)
        # Reference clients cannot set a mode, so that the program is run as an argument of the shell.
        start(client, f"p{n}", ["/bin/sh", f"{there}/prog"], cwd=uri(there), pipeStdin=True)
        client.request("process/write", {"processId": f"p{n}", "chunk": b64(b"input\n")})
        sent = send(client, "remove", path=f"{there}/none")
        client.wait_closed(f"p{n}")
        assert client.output(f"p{n}") == f"got input in {os.path.realpath(there)}\n".encode()
        client.check_seq(f"p{n}")
        assert client.result(sent) == {}


# With system calls that do not return


@pytest.fixture(name="stuck")
def stuck_fixture(tmp):
    """Yields the server, the directory of the stuck file system, a function that lets all calls go and one that awaits a held
    call."""
    with stuck_server(tmp) as stuck:
        yield stuck.server, stuck.mount, stuck.let_go, stuck.is_held


def test_a_stuck_read_holds_no_other_read_and_no_process(stuck, tmp):
    server, mount, let_go, is_held = stuck
    make(f"{tmp}/f", b"x")
    with server.connect() as client:
        held = send(client, "getMetadata", path=f"{mount}/stuck")
        is_held("stuck")
        assert read(client, f"{tmp}/f") == b"x"
        assert fs(client, "readDirectory", path=f"{tmp}")["entries"]
        assert client.run(["/bin/echo", "runs"])[0] == b"runs\n"
        assert client.call("environment/status") == {"status": "ready"}
        let_go()
        assert client.result(held)["size"] == 8 * MIB


def test_a_change_waits_for_the_reads_before_it(stuck, tmp):
    server, mount, let_go, is_held = stuck
    make(f"{tmp}/f", b"old")
    with server.connect() as client, server.connect() as other:
        held = send(client, "readFile", path=f"{mount}/slow")
        is_held("slow")
        change = send(client, "writeFile", path=f"{tmp}/f", dataBase64=b64(b"new"))
        behind = send(client, "readFile", path=f"{tmp}/f")
        started = start(client, "p", ["/bin/cat", f"{tmp}/f"])
        fed = client.request("process/closeStdin", {"processId": "p"})
        # Requests that touch no file are answered; another connection still sees the old content.
        assert client.call("environment/status") == {"status": "ready"}
        assert read(other, f"{tmp}/f") == b"old" == content(f"{tmp}/f")
        let_go()
        assert len(client.result(held, 30)["dataBase64"]) > 8 * MIB
        client.result(change)
        assert client.result(behind) == {"dataBase64": b64(b"new")}
        client.result(started)
        client.response(fed)
        client.wait_closed("p")
        assert client.output("p") == b"new"


def test_a_stuck_change_holds_its_connection_only(stuck, tmp):
    server, mount, let_go, is_held = stuck
    make(f"{tmp}/f", b"old")
    with server.connect() as client, server.connect() as other:
        client.start("running", ["/bin/cat"], pipeStdin=True)
        change = send(client, "remove", path=f"{mount}/stuck", recursive=False)
        is_held("stuck")
        later = [send(client, "writeFile", path=f"{tmp}/f", dataBase64=b64(b"%d" % n)) for n in range(5)]
        started = start(client, "p", ["/bin/cat", f"{tmp}/f"])
        ended = client.request("process/terminate", {"processId": "gone"})
        # Requests for running processes are answered, and so are other connections.
        assert client.write("running", b"hello") == "accepted"
        client.wait_output("running", b"hello")
        assert client.result(ended) == {"running": False}
        write(other, f"{tmp}/g", b"other")
        assert other.run(["/bin/cat", f"{tmp}/f"])[0] == b"old"
        assert content(f"{tmp}/f") == b"old"
        let_go()
        outcome(client, change)
        for ident in later:
            client.result(ident)
        client.result(started)
        client.wait_closed("p")
        assert client.output("p") == b"4"


def test_a_resumed_session_waits_for_the_change_that_its_old_connection_began(stuck, tmp):
    """A client that repeats a change after a cut must not be overtaken by the first try."""
    server, mount, let_go, is_held = stuck
    make(f"{tmp}/f", b"old")
    with server.connect() as client:
        session = client.session_id
        send(client, "remove", path=f"{mount}/stuck", recursive=False)
        is_held("stuck")
    with server.connect() as other:
        wait_until(lambda: not [s for s in other.call("session/list", {})["sessions"] if s["sessionId"] == session and s["attached"]],
                   20, "the end of the old connection")
        with server.connect(resume=session) as client:
            repeated = send(client, "writeFile", path=f"{tmp}/f", dataBase64=b64(b"new"))
            aside = send(client, "writeFile", path=f"{tmp}/g", dataBase64=b64(b"new"), unordered=True)
            client.call("process/list", {})  # what is asked later is answered: the two wait
            write(other, f"{tmp}/h", b"other")
            assert not os.path.exists(f"{tmp}/g") and content(f"{tmp}/f") == b"old"
            let_go()
            client.result(repeated)
            client.result(aside)
            assert content(f"{tmp}/f") == content(f"{tmp}/g") == b"new"


def test_a_start_held_back_can_be_cancelled(stuck, tmp):
    server, mount, let_go, is_held = stuck
    with server.connect() as client:
        change = send(client, "remove", path=f"{mount}/stuck", recursive=False)
        is_held("stuck")
        started = start(client, "p", ["/bin/sh", "-c", f": > {tmp}/ran; sleep 60"])
        assert client.call("process/terminate", {"processId": "p"}) == {"running": True}
        assert outcome(client, started) == (-32600, "process p start was cancelled")
        let_go()
        outcome(client, change)
        assert client.run(["/bin/echo", "next"], process_id="p")[0] == b"next\n"
    assert not os.path.exists(f"{tmp}/ran")


def test_many_stuck_calls_do_not_stop_the_rest(stuck, tmp):
    server, mount, let_go, is_held = stuck
    make(f"{tmp}/f", b"x")
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(10)]
        sent = []
        for n, client in enumerate(clients):
            for m in range(8):
                sent.append((client, send(client, "getMetadata", path=f"{mount}/stuck-{n}-{m}")))
        is_held("stuck-9-0")
        other = stack.enter_context(server.connect())
        for n in range(20):
            write(other, f"{tmp}/{n}", b"y")
            assert read(other, f"{tmp}/f") == b"x"
        assert other.run(["/bin/echo", "runs"])[0] == b"runs\n"
        let_go()
        for client, ident in sent:
            assert client.result(ident)["isFile"] is True


def test_a_connection_may_go_while_its_calls_are_stuck(stuck, tmp):
    server, mount, let_go, is_held = stuck
    for n in range(5):
        with server.connect() as client:
            send(client, "readFile", path=f"{mount}/stuck{n}")
            is_held(f"stuck{n}")
            send(client, "writeFile", path=f"{tmp}/never{n}", dataBase64="")
            send(client, "open", handleId="h", path=f"{mount}/stuck{n}x")
            client.flush()
    with server.connect() as client:
        write(client, f"{tmp}/f", b"x")
        let_go()
        assert len(read(client, f"{mount}/plain", timeout=30)) == 8 * MIB
        write(client, f"{tmp}/f", b"y")
    assert content(f"{tmp}/f") == b"y"


def test_a_file_that_cannot_be_read(stuck):
    server, mount, _, _ = stuck
    with server.connect() as client:
        assert failure(client, "readFile", path=f"{mount}/eio") == EIO
        fs(client, "open", handleId="h", path=f"{mount}/half")
        assert block(fs(client, "readBlock", handleId="h", offset=0, len=MIB)) == (b"x" * MIB, False)
        assert failure(client, "readBlock", handleId="h", offset=4 * MIB, len=MIB) == EIO
        assert failure(client, "readBlock", handleId="h", offset=0, len=1) == (-32004, "unknown file handle `h`")
        assert fs(client, "getMetadata", path=f"{mount}/eio")["size"] == 8 * MIB


def test_an_error_in_the_middle_of_an_answer_is_the_answer(stuck):
    """A client never takes half a file for a whole one, and other connections are not affected."""
    server, mount, _, _ = stuck
    with server.connect() as client:
        broken = send(client, "readFile", path=f"{mount}/half")
        whole = send(client, "readFile", path=f"{mount}/plain")
        assert outcome(client, broken, 30) == EIO
        assert len(outcome(client, whole, 30)["dataBase64"]) > 8 * MIB
        assert client.call("environment/status") == {"status": "ready"}


def test_a_file_that_is_shorter_than_it_says(stuck):
    server, mount, _, _ = stuck
    with server.connect() as client:
        assert read(client, f"{mount}/short", timeout=30) == b"x" * (4 * MIB)
        assert len(read(client, f"{mount}/plain", timeout=30)) == 8 * MIB


# Unordered: the client itself waits for what must be in order


def stuck_change(client, mount, name, **more):
    """Sends a change that is held in the stuck file system."""
    return send(client, "setMetadata", path=f"{mount}/{name}", mode=0o600, **more)


def test_an_unordered_request_waits_for_no_change(stuck, tmp):
    server, mount, let_go, is_held = stuck
    big = noise(MIB)  # such a message is parsed on a thread
    with server.connect() as client:
        held = stuck_change(client, mount, "stuck")
        is_held("stuck")
        ordered = send(client, "writeFile", path=f"{tmp}/ordered", dataBase64=b64(b"x"))
        write(client, f"{tmp}/f", b"hello", unordered=True)
        write(client, f"{tmp}/big", big, unordered=True)
        assert read(client, f"{tmp}/f", unordered=True) == b"hello" and content(f"{tmp}/big") == big
        assert fs(client, "rename", sourcePath=f"{tmp}/f", destinationPath=f"{tmp}/g", unordered=True) == {}
        fs(client, "open", handleId="h", path=f"{tmp}/g", mode="replace", unordered=True)
        assert fs(client, "writeBlock", handleId="h", offset=0, chunk=b64(b"block"), unordered=True) == {}
        assert fs(client, "close", handleId="h", unordered=True) == {} and content(f"{tmp}/g") == b"block"
        assert not os.path.exists(f"{tmp}/ordered") and not client.has_response(ordered)
        let_go()
        outcome(client, held)
        client.result(ordered)


def test_nothing_waits_for_an_unordered_change(stuck, tmp):
    server, mount, let_go, is_held = stuck
    make(f"{tmp}/f", b"old")
    with server.connect() as client:
        held = stuck_change(client, mount, "stuck", unordered=True)
        is_held("stuck")
        assert read(client, f"{tmp}/f") == b"old"
        write(client, f"{tmp}/f", b"new")
        assert client.run(["/bin/cat", f"{tmp}/f"])[0] == b"new"
        # Ordered ones keep their order among themselves.
        sent = [(n, send(client, "writeFile", path=f"{tmp}/f", dataBase64=b64(b"%d" % n)), send(client, "readFile", path=f"{tmp}/f"))
                for n in range(20)]
        started = start(client, "p", ["/bin/cat", f"{tmp}/f"])
        assert all(client.result(seen)["dataBase64"] == b64(b"%d" % n) for n, _, seen in sent)
        client.result(started)
        client.wait_closed("p")
        assert client.output("p") == b"19" and not client.has_response(held)
        let_go()
        outcome(client, held)


def test_unordered_changes_run_side_by_side_and_four_at_a_time(stuck, tmp):
    """The fifth request waits for a thread, ordered or not; another connection does not."""
    server, mount, let_go, is_held = stuck
    with server.connect() as client, server.connect() as other:
        held = [stuck_change(client, mount, f"stuck{n}", unordered=True) for n in range(4)]
        for n in range(4):
            is_held(f"stuck{n}")
        more = [send(client, "writeFile", path=f"{tmp}/{n}", dataBase64=b64(b"x"), unordered=n > 0) for n in range(3)]
        write(other, f"{tmp}/other", b"y", unordered=True)
        assert client.call("environment/status") == {"status": "ready"}
        assert sorted(os.listdir(tmp)) == ["other", "stuck"]
        let_go()
        for ident in held:
            outcome(client, ident)
        for ident in more:
            client.result(ident)


def test_unordered_requests_in_a_sandbox(stuck, tmp):
    server, mount, let_go, is_held = stuck
    if why_not("root") is not None:
        pytest.skip(why_not("root"))
    there = f"{tmp}/there"
    os.mkdir(there)
    with server.connect() as client:
        box = Box(client, workspace_write(), there)
        held = stuck_change(client, mount, "stuck")
        is_held("stuck")
        ordered = box.send("writeFile", path=f"{there}/ordered", dataBase64="")
        inside = box.send("setMetadata", path=f"{mount}/stuck inside", mode=0o600, unordered=True)
        is_held("stuck inside")
        sent = [box.send("writeFile", path=f"{there}/{n}", dataBase64=b64(b"%d" % n), unordered=True) for n in range(40)]
        assert not [a for a in map(box.answer, sent) if is_error(a)]
        assert box.ask("writeFile", path="/etc/made", dataBase64="", unordered=True) == EROFS
        assert tree(there) == {b"%d" % n: b"%d" % n for n in range(40)} and not client.has_response(ordered)
        let_go()
        outcome(client, held)
        assert not is_error(box.answer(ordered))
        assert box.answer(inside) == EROFS


def test_a_handle_is_made_and_ended_in_order_also_by_unordered_requests(client, tmp):
    """The client's own handles and watches stay what they are, whatever is sent without waiting."""
    data = noise(MIB)
    make(f"{tmp}/f", data)
    for _ in range(20):
        sent = [send(client, "open", handleId="h", path=f"{tmp}/f", unordered=True)]
        sent += [send(client, "readBlock", handleId="h", offset=n * 1000, len=1000, unordered=True) for n in range(20)]
        sent += [send(client, "close", handleId="h", unordered=True), send(client, "watch", watchId="w", path=tmp, unordered=True),
                 send(client, "unwatch", watchId="w", unordered=True),
                 send(client, "watchMissing", watchId=1, missing=[uri(f"{tmp}/none")], unordered=True)]
        results = [client.result(i) for i in sent]
        assert b"".join(block(r)[0] for r in results[1:21]) == data[:20000]


def test_a_flood_of_unordered_changes(client, tmp):
    sent = [send(client, "writeFile", path=f"{tmp}/{n}", dataBase64=b64(b"%d" % n), unordered=bool(n % 3)) for n in range(600)]
    for ident in sent:
        client.result(ident, 30)
    assert tree(tmp) == {b"%d" % n: b"%d" % n for n in range(600)}


FILE_REQUESTS = {
    "readFile": {"path": "/x"}, "getMetadata": {"path": "/x"}, "canonicalize": {"path": "/x"}, "readLink": {"path": "/x"},
    "readDirectory": {"path": "/x"}, "remove": {"path": "/x"},
    "walk": {"path": "/x", "options": {"maxDepth": 1, "maxDirectories": 1, "maxEntries": 1, "followDirectorySymlinks": False}},
    "writeFile": {"path": "/x", "dataBase64": ""}, "createDirectory": {"path": "/x"}, "symlink": {"path": "/x", "target": "y"},
    "copy": {"sourcePath": "/x", "destinationPath": "/y", "recursive": False},
    "rename": {"sourcePath": "/x", "destinationPath": "/y"}, "setMetadata": {"path": "/x"}, "open": {"handleId": "h", "path": "/x"},
    "readBlock": {"handleId": "h", "offset": 0, "len": 1}, "writeBlock": {"handleId": "h", "offset": 0, "chunk": "eA=="},
    "close": {"handleId": "h"}, "watch": {"watchId": "w", "path": "/x"}, "unwatch": {"watchId": "w"},
    "watchMissing": {"watchId": 1, "missing": []},
}


@pytest.mark.parametrize("method", FILE_REQUESTS)
def test_every_file_request_may_say_unordered_and_must_say_it_right(client, method):
    for wrong in (1, "true", [], {}):
        code, message = failure(client, method, **FILE_REQUESTS[method], unordered=wrong)
        assert code == -32602 and message.startswith("unordered: invalid type")


def test_the_tree_is_what_was_asked_for(client, tmp):
    """Forty changes sent without waiting, compared with the same changes made by the test itself."""
    expected = {}
    sent = []
    for n in range(40):
        name = f"f{n % 7}"
        if n % 3 == 2:
            sent.append(send(client, "remove", path=f"{tmp}/{name}"))
            expected.pop(name.encode(), None)
        else:
            sent.append(send(client, "writeFile", path=f"{tmp}/{name}", dataBase64=b64(b"%d" % n)))
            expected[name.encode()] = b"%d" % n
    for ident in sent:
        client.result(ident)
    assert tree(tmp) == expected
