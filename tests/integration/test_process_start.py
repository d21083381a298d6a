"""process/start: its members, every refusal word for word, the forms of `cwd`, and what a child is born with."""

import base64
import contextlib
import json
import os
import resource
import signal
import stat

import pytest

from farhand_client import RpcError, Server, wait_until

ENOENT = "No such file or directory (os error 2)"
ENOTDIR = "Not a directory (os error 20)"
EACCES = "Permission denied (os error 13)"
ENOEXEC = "Exec format error (os error 8)"

BOTH = pytest.mark.parametrize("tty", [False, True], ids=["pipes", "tty"])


def params_of(**changes):
    """Good parameters with `changes` laid over; the value `...` leaves a member out."""
    params = {"processId": "p", "argv": ["/bin/true"], "cwd": "file:///tmp", "env": {"PATH": "/usr/bin:/bin"},
              "tty": False,
              "pipeStdin": False, "arg0": None}
    params.update(changes)
    return {k: v for k, v in params.items() if v is not ...}


def start_error(client, **changes):
    return client.error("process/start", params_of(**changes))


def facts_of(err):
    return {k: (err.data or {}).get(k) for k in ("step", "errno", "errnoName")}


def write_program(path, text, mode=0o755):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


def uri_of(path):
    return "file://" + path


# Members


def test_result_names_the_process_its_sandbox_and_its_pid(client):
    result = client.start("p", ["/bin/sh", "-c", "echo $$"])
    assert result["processId"] == "p"
    assert result["sandboxType"] == "none"
    client.wait_closed("p")
    assert client.output("p") == b"%d\n" % result["pid"]


@pytest.mark.parametrize("member", ["processId", "argv", "cwd", "env", "tty"])
def test_a_missing_required_member_is_named(client, member):
    err = start_error(client, **{member: ...})
    assert (err.code, err.message) == (-32602, f"missing field `{member}`")


def test_the_first_missing_member_is_named(client):
    err = client.error("process/start", {})
    assert (err.code, err.message) == (-32602, "missing field `processId`")
    err = start_error(client, argv=..., tty=...)
    assert (err.code, err.message) == (-32602, "missing field `argv`")
    err = start_error(client, env=..., tty=...)
    assert (err.code, err.message) == (-32602, "missing field `env`")


WRONG_TYPES = [
    {"processId": 7}, {"processId": None}, {"argv": "x"}, {"argv": [1]}, {"argv": None}, {"argv": {}}, {"argv": [None]},
    {"cwd": None}, {"cwd": 5}, {"cwd": []}, {"env": []}, {"env": {"A": 1}}, {"env": {"A": None}}, {"env": None},
    {"env": "A=1"},
    {"tty": "yes"}, {"tty": None}, {"tty": 1}, {"pipeStdin": None}, {"pipeStdin": 0}, {"pipeStdin": "no"}, {"arg0": 5},
    {"arg0": []},
    {"envPolicy": 5}, {"envPolicy": "all"}, {"envPolicy": {}}, {"enforceManagedNetwork": "x"},
    {"enforceManagedNetwork": None},
    {"managedNetwork": 5}, {"managedNetwork": {"loopbackPorts": [70000], "allowLocalBinding": False}},
    {"managedNetwork": {"loopbackPorts": "1", "allowLocalBinding": False}}, {"metadata": 5},
    {"metadata": {"toolCallId": 5}},
]


@pytest.mark.parametrize("changes", WRONG_TYPES, ids=json.dumps)
def test_a_member_of_the_wrong_type_is_refused(client, changes):
    assert start_error(client, **changes).code == -32602
    assert client.error("process/read", {"processId": "p"}).message == "unknown process id p"


@pytest.mark.parametrize("value", [[], ["p"], "x", 5, True], ids=json.dumps)
def test_params_that_are_no_object_are_refused(client, value):
    assert client.error("process/start", value).code == -32602


THREAD = "01a1ddee-a9b9-7413-8022-339e38725d16"
OPTIONAL = [
    {"pipeStdin": ...}, {"arg0": ...}, {"arg0": None}, {"envPolicy": None}, {"sandbox": None}, {"managedNetwork": None},
    {"managedNetwork": {"loopbackPorts": [1], "allowLocalBinding": False}}, {"enforceManagedNetwork": True},
    {"unknownMember": {"a": [1]}},
    {"metadata": {}}, {"metadata": {"threadId": THREAD, "toolCallId": "c"}},
    {"metadata": {"threadId": None, "toolCallId": "c"}},
]


@pytest.mark.parametrize("changes", OPTIONAL, ids=str)
def test_optional_members_may_be_absent_null_or_plain(client, changes):
    result = client.call("process/start", params_of(**changes))
    assert (result["processId"], result["sandboxType"]) == ("p", "none")
    assert client.wait_exit("p")["exitCode"] == 0


def test_a_network_proxy_without_its_members_is_refused(client):
    e = start_error(client, networkProxy={})
    assert (e.code, e.message) == (-32602, "missing field `proxy`")


# Process ids


@pytest.mark.parametrize("process_id", ["", " ", "ä\u0001\"\\/", "0", "x" * 1024],
                         ids=["empty", "blank", "odd", "digit", "long"])
def test_any_string_is_a_process_id(client, process_id):
    assert client.start(process_id, ["/bin/echo", "hi"])["processId"] == process_id
    client.wait_closed(process_id)
    client.check_seq(process_id)
    assert client.read(process_id)["exitCode"] == 0


@BOTH
def test_an_id_in_use_is_refused(client, tty):
    client.start("dup", ["/bin/sleep", "60"], tty=tty)
    err = start_error(client, processId="dup", tty=tty)
    assert (err.code, err.message) == (-32600, "process dup already exists")
    client.call("process/terminate", {"processId": "dup"})
    client.wait_closed("dup")
    err = start_error(client, processId="dup", tty=tty)
    assert (err.code, err.message) == (-32600, "process dup already exists")
    assert len([m for m in client.notifications if m["method"] == "process/exited"]) == 1


def test_an_id_is_free_again_once_its_retention_is_over(tmp):
    with Server(config="exited_process_retention_ms = 200\n") as server, server.connect() as client:
        assert client.run(["/bin/echo", "one"], process_id="p")[0] == b"one\n"

        def again():
            try:
                client.start("p", ["/bin/echo", "two"])
            except RpcError as e:
                assert (e.code, e.message) == (-32600, "process p already exists")
                return False
            return True

        wait_until(again, 10, "free id")
        client.wait_output("p", b"two\n")
        seqs = [m["params"]["seq"] for m in client.events("p")]
        assert seqs[3] == 1, "a new process counts from 1"


def test_the_number_of_processes_of_a_session_is_bounded():
    config = "max_processes_per_session = 3\n"
    with Server(config=config) as server, server.connect() as client, server.connect() as other:
        for i in range(3):
            client.start(f"p{i}", ["/bin/sleep", "60"])
        err = start_error(client, processId="p3")
        assert err.code == -32021
        assert err.data["value"] == 3 and isinstance(err.data["limit"], str)
        assert other.run(["/bin/echo", "other"])[0] == b"other\n"


def test_finished_processes_do_not_count_against_those_that_run():
    config = "max_processes_per_session = 2\n"
    with Server(config=config) as server, server.connect() as client:
        client.start("stays", ["/bin/sleep", "60"])
        for i in range(12):
            assert client.run(["/bin/echo", f"{i}"])[0] == f"{i}\n".encode()
        client.start("second", ["/bin/sleep", "60"])
        assert start_error(client, processId="third").data["limit"] == "max_processes_per_session"


def test_what_a_finished_command_left_running_counts():
    """The command has exited and its streams are closed, but its child runs on; such children count as running processes."""
    config = "max_processes_per_session = 2\nexited_process_retention_ms = 0\n"
    script = "sleep 60 </dev/null >/dev/null 2>&1 & echo $!"
    with Server(config=config) as server, server.connect() as client:
        left = []
        for i in range(2):
            out, _, code = client.run(["/bin/sh", "-c", script], process_id=f"p{i}")
            assert code == 0
            left.append(int(out))

        def has_room():
            try:
                return client.run(["/bin/true"])[2] == 0
            except RpcError as e:
                assert e.code == -32021 and e.data["limit"] == "max_processes_per_session"
                return False

        wait_until(lambda: not has_room(), 10, "refusal of one more")
        os.kill(left[0], signal.SIGKILL)
        wait_until(has_room, 10, "room for one more")


def test_the_oldest_finished_process_is_forgotten_first():
    config = "max_finished_processes_per_session = 3\n"
    with Server(config=config) as server, server.connect() as client:
        client.start("runs", ["/bin/sleep", "60"])
        for i in range(5):
            client.run(["/bin/echo", f"{i}"], process_id=f"p{i}")
        assert [p["processId"] for p in client.call("process/list")["processes"]] == ["runs", "p2", "p3", "p4"]
        for i in range(2):
            assert client.error("process/read", {"processId": f"p{i}"}).message == f"unknown process id p{i}"
        assert base64.b64decode(client.read("p2")["chunks"][0]["chunk"]) == b"2\n"
        assert client.start("p0", ["/bin/true"])["processId"] == "p0", "its id is free"


# Refusals


def test_an_empty_argv_is_refused(client):
    err = start_error(client, argv=[])
    assert (err.code, err.message) == (-32602, "argv must not be empty")


def test_an_empty_program_is_refused(client):
    err = start_error(client, argv=[""])
    assert (err.code, err.message) == (-32603, "missing program for pipe spawn")
    err = start_error(client, argv=["", "x"], tty=True)
    assert (err.code, err.message) == (-32603, "missing program for PTY spawn")


@BOTH
def test_a_missing_program(client, tty):
    err = start_error(client, argv=["/no/such/bin"], tty=tty)
    assert (err.code, err.message) == (-32603, ENOENT + ": program `/no/such/bin`")
    assert facts_of(err) == {"step": "exec", "errno": 2, "errnoName": "ENOENT"}


@BOTH
def test_a_missing_program_below_cwd(client, tmp, tty):
    err = start_error(client, argv=["./none"], cwd=uri_of(tmp), tty=tty)
    assert err.code == -32603
    assert facts_of(err) == {"step": "exec", "errno": 2, "errnoName": "ENOENT"}
    assert err.message == ENOENT + ": program `./none`"


def test_a_bare_name_that_is_nowhere(client):
    err = start_error(client, argv=["no-such-cmd"])
    assert (err.code, err.message) == (-32603, ENOENT + ": program `no-such-cmd`")
    assert facts_of(err) == {"step": "exec", "errno": 2, "errnoName": "ENOENT"}
    err = start_error(client, argv=["no-such-cmd"], tty=True)
    assert (err.code, err.message) == (
        -32603, "Unable to spawn no-such-cmd because:\nNo viable candidates found in PATH \"/usr/bin:/bin\"")
    assert facts_of(err) == {"step": "exec", "errno": 2, "errnoName": "ENOENT"}


@BOTH
def test_a_program_that_may_not_be_executed(client, tmp, tty):
    write_program(f"{tmp}/plain", "hello", 0o644)
    for program in (f"{tmp}/plain", tmp):
        err = start_error(client, argv=[program], tty=tty)
        assert (err.code, err.message) == (-32603, EACCES + f": program `{program}`")
        assert facts_of(err) == {"step": "exec", "errno": 13, "errnoName": "EACCES"}


@BOTH
def test_a_program_without_shebang(client, tmp, tty):
    write_program(f"{tmp}/noshebang", "echo hi\n")
    err = start_error(client, argv=[f"{tmp}/noshebang"], tty=tty)
    assert (err.code, err.message) == (-32603, ENOEXEC + f": program `{tmp}/noshebang`")
    assert facts_of(err) == {"step": "exec", "errno": 8, "errnoName": "ENOEXEC"}


@BOTH
def test_a_missing_cwd(client, tmp, tty):
    err = start_error(client, argv=["/bin/pwd"], cwd=uri_of(f"{tmp}/none"), tty=tty)
    assert (err.code, err.message) == (-32603, ENOENT + f": cwd `{tmp}/none`")
    assert facts_of(err) == {"step": "cwd", "errno": 2, "errnoName": "ENOENT"}


@BOTH
def test_a_cwd_that_is_a_file(client, tmp, tty):
    write_program(f"{tmp}/file", "", 0o644)
    for spelling in (uri_of(f"{tmp}/file"), f"{tmp}/file"):
        err = start_error(client, argv=["/bin/pwd"], cwd=spelling, tty=tty)
        assert (err.code, err.message) == (-32603, ENOTDIR + f": cwd `{tmp}/file`")
        assert facts_of(err) == {"step": "cwd", "errno": 20, "errnoName": "ENOTDIR"}


@BOTH
def test_an_argv_that_is_too_long_for_the_kernel(client, tty):
    err = start_error(client, argv=["/bin/echo", "x" * (1 << 20)], tty=tty)
    assert err.code == -32603
    assert facts_of(err) == {"step": "exec", "errno": 7, "errnoName": "E2BIG"}


@BOTH
def test_a_nul_byte_is_refused_where_it_would_cut_a_string(client, tty):
    err = start_error(client, argv=["/bin/echo", "a\0b"], tty=tty)
    assert (err.code, err.message) == (-32603, "nul byte found in provided data")
    err = start_error(client, env={"A": "x\0y"}, tty=tty)
    assert (err.code, err.message) == (-32603, "data provided contains a nul byte")
    err = start_error(client, env={"A\0B": "x"}, tty=tty)
    assert (err.code, err.message) == (-32603, "data provided contains a nul byte")
    assert start_error(client, argv=["/bin/true\0x"], tty=tty).code == -32603
    assert start_error(client, arg0="a\0b", tty=tty).code == -32603
    assert start_error(client, cwd="/tmp\0x", tty=tty).code in (-32602, -32603)


@BOTH
def test_a_failed_start_leaves_the_id_free_and_no_notification(client, tty):
    for _ in range(3):
        assert start_error(client, argv=["/no/such/bin"], tty=tty).code == -32603
        assert client.error("process/read", {"processId": "p"}).message == "unknown process id p"
        assert client.call("process/terminate", {"processId": "p"}) == {"running": False}
    assert client.notifications == []
    assert client.run(["/bin/echo", "now"], process_id="p", tty=tty)[0].split() == [b"now"]
    client.check_seq("p")


# A start that is under way


def spawner_of(server):
    with open(f"/proc/{server.pid}/task/{server.pid}/children", encoding="ascii") as f:
        children = [int(pid) for pid in f.read().split()]
    assert children, "the server has a spawner from the beginning"
    return children


@contextlib.contextmanager
def spawner_stopped(server):
    """Holds every start in the state "starting"."""
    pids = spawner_of(server)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_requests_on_a_starting_process_are_acted_on_after_the_start(server, client):
    with spawner_stopped(server):
        start = client.request("process/start", params_of(argv=["/usr/bin/head", "-c", "4"], pipeStdin=True))
        write = client.request("process/write", {"processId": "p", "chunk": "YWJjZA==", "writeId": "w"})
        read = client.request("process/read", {"processId": "p", "waitMs": 60000})
        err = start_error(client)
        assert (err.code, err.message) == (-32600, "process p already exists")
        assert client.call("environment/status") == {"status": "ready"}, "others are not held back"
        assert not any(m.get("id") in (start, write, read) for m in client.messages)
    assert client.result(start)["processId"] == "p"
    assert client.result(write) == {"status": "accepted"}
    assert base64.b64decode(client.result(read)["chunks"][0]["chunk"]) == b"abcd"
    assert client.wait_exit("p")["exitCode"] == 0


@BOTH
def test_a_start_can_be_cancelled(server, client, tmp, tty):
    with spawner_stopped(server):
        request = client.request("process/start",
                                 params_of(argv=["/bin/sh", "-c", f"echo $$ > {tmp}/pid; exec sleep 60"], tty=tty))
        assert client.call("process/terminate", {"processId": "p"}) == {"running": True}
    with pytest.raises(RpcError) as caught:
        client.result(request)
    assert (caught.value.code, caught.value.message) == (-32600, "process p start was cancelled")
    assert client.error("process/read", {"processId": "p"}).message == "unknown process id p"
    assert client.call("process/terminate", {"processId": "p"}) == {"running": False}
    assert client.run(["/bin/echo", "free"], process_id="p") == (b"free\n", b"", 0), client.messages
    client.check_seq("p")
    if os.path.exists(f"{tmp}/pid"):
        with open(f"{tmp}/pid", encoding="ascii") as f:
            pid = f.read().strip()
        wait_until(lambda: not pid or not os.path.exists(f"/proc/{pid}"), 10, "end of the cancelled command")


def test_a_cancelled_start_is_silent_even_if_the_command_ran_for_a_moment(server, client):
    names = [f"p{n}" for n in range(50)]
    with spawner_stopped(server):
        # The spawner's queue has all starts before all kills, so that the commands do run.
        argv = ["/bin/sh", "-c", "echo ran; sleep 60"]
        starts = [client.request("process/start", params_of(processId=name, argv=argv)) for name in names]
        ends = [client.request("process/terminate", {"processId": name}) for name in names]
        assert [client.result(r) for r in ends] == [{"running": True}] * len(names)
    for name, start in zip(names, starts):
        answer = client.response(start)
        assert answer["error"]["message"] == f"process {name} start was cancelled"
    for name in names:
        client.start(name, ["/bin/echo", name])
    for name in names:
        client.wait_closed(name)
        assert client.output(name) == name.encode() + b"\n"
        client.check_seq(name)


def test_a_session_that_ends_while_a_process_starts_leaves_nothing(tmp):
    with Server(config="detached_session_ttl_ms = 0\n") as server:
        client = server.connect()
        with spawner_stopped(server):
            client.request("process/start", params_of(argv=["/bin/sleep", "61.5"], env={"FARHAND_TEST_MARK": tmp}))
            client.flush()
            client.abort()
            with server.connect() as other:
                assert other.call("environment/status") == {"status": "ready"}

        def survivors():
            found = []
            for pid in filter(str.isdigit, os.listdir("/proc")):
                with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as f:
                    if b"FARHAND_TEST_MARK=" + tmp.encode() in f.read():
                        found.append(pid)
            return found

        with server.connect() as other:
            assert other.run(["/bin/echo", "after"])[0] == b"after\n"
        wait_until(lambda: not survivors(), 10, "end of the orphaned start")


# Programs


def test_a_bare_name_is_searched_in_the_path_of_the_child(client, tmp):
    write_program(f"{tmp}/only-here", "#!/bin/sh\necho found\n")
    assert client.run(["only-here"], env={"PATH": f"/nonexistent:{tmp}:/bin"}) == (b"found\n", b"", 0)
    assert start_error(client, argv=["only-here"]).message == ENOENT + ": program `only-here`"


def test_without_a_path_a_default_one_is_used(client):
    assert client.run(["sh", "-c", "echo ok"], env={}) == (b"ok\n", b"", 0)


@BOTH
def test_a_relative_program_is_relative_to_cwd(client, tmp, tty):
    os.mkdir(f"{tmp}/sub")
    write_program(f"{tmp}/script.sh", "#!/bin/sh\necho script\n")
    write_program(f"{tmp}/sub/other.sh", "#!/bin/sh\necho other\n")
    assert client.run(["./script.sh"], cwd=uri_of(tmp), tty=tty)[0].split() == [b"script"]
    if not tty:
        assert client.run(["sub/other.sh"], cwd=uri_of(tmp))[0] == b"other\n"


SHOW_NAME = ["/bin/sh", "-c", "tr '\\0' ' ' < /proc/$$/cmdline | cut -d' ' -f1; readlink /proc/$$/exe"]


@BOTH
@pytest.mark.parametrize("arg0", ["custom", "", "/no/such/program", "with space"], ids=repr)
def test_arg0_is_the_name_and_argv0_the_program(client, tty, arg0):
    lines = client.run(SHOW_NAME, arg0=arg0, tty=tty)[0].decode().splitlines()
    assert lines == [arg0.split(" ")[0], os.path.realpath("/bin/sh")]


@BOTH
def test_without_arg0_argv0_is_the_name(client, tty):
    assert client.run(SHOW_NAME, tty=tty)[0].decode().splitlines()[0] == "/bin/sh"


def test_argv_arrives_byte_for_byte(client):
    args = ["", " ", "a\nb", "\u00e4\U0001f600", "\x01\x7f", "-n", "'\"\\$(x)`", "x" * 100000]
    out = client.run(["/usr/bin/printf", "%s\\0"] + args)[0]
    assert out == b"".join(a.encode() + b"\0" for a in args)


# cwd


def test_both_spellings_of_cwd(client, tmp):
    for spelling in (tmp, uri_of(tmp)):
        assert client.run(["/bin/pwd"], cwd=spelling)[0].decode() == tmp + "\n"


@BOTH
@pytest.mark.parametrize("form", ["file:{}", "file://{}", "FILE://{}", "File:{}", "file://localhost{}",
                                  "file://LOCALHOST{}", "file://{}/",
                                  "file://{}/.", "file://{}/x/..", "file://{}/x/%2e%2e", "file://{}//", "file:///..{}",
                                  "file:///{}", "{}/", "{}/."])
def test_equal_forms_of_a_cwd(client, tmp, form, tty):
    assert client.run(["/bin/pwd"], cwd=form.format(tmp), tty=tty)[0].decode().split() == [tmp]


def test_a_uri_without_slashes_starts_at_the_root(client):
    assert client.run(["/bin/pwd"], cwd="file:usr/bin")[0] == b"/usr/bin\n"
    assert client.run(["/bin/pwd"], cwd="file:///")[0] == b"/\n"
    assert client.run(["/bin/pwd"], cwd="/")[0] == b"/\n"


def test_percent_signs_are_decoded_in_uris_only(client, tmp):
    for name in ("a b", "a%20b", "\u00e4", "q?x", "h#y", "c:d"):
        os.mkdir(f"{tmp}/{name}")
        assert client.run(["/bin/pwd"], cwd=f"{tmp}/{name}")[0].decode() == f"{tmp}/{name}\n", "native: byte for byte"
    for spelled, name in (("a%20b", "a b"), ("a b", "a b"), ("a%2520b", "a%20b"), ("%C3%A4", "\u00e4"),
                          ("\u00e4", "\u00e4"), ("q%3Fx", "q?x"),
                          ("h%23y", "h#y"), ("c:d", "c:d"), ("c%3ad", "c:d")):
        assert client.run(["/bin/pwd"], cwd=f"file://{tmp}/{spelled}")[0].decode() == f"{tmp}/{name}\n"
    assert start_error(client, cwd=f"file://{tmp}%2Fa%20b").code == -32602, "%2F is not a separator"


def test_a_cwd_that_is_not_utf_8(client, tmp):
    os.mkdir(os.fsencode(tmp) + b"/\xff\xfe")
    assert client.run(["/bin/pwd"], cwd=f"file://{tmp}/%FF%fe")[0] == os.fsencode(tmp) + b"/\xff\xfe\n"


@pytest.mark.parametrize("cwd", ["tmp", "./x", "../x", "", "~", "%2Ftmp", "tmp/file:x"], ids=repr)
def test_a_relative_cwd_is_refused(client, cwd):
    err = start_error(client, cwd=cwd)
    assert (err.code, err.message) == (-32602, f"path is not absolute: {cwd}")


@pytest.mark.parametrize("cwd", ["http://x/tmp", "http:/tmp", "ftp://x/tmp", "data:,x"])
def test_another_scheme_is_refused(client, cwd):
    err = start_error(client, cwd=cwd)
    assert (err.code, err.message) == (-32602, f"unsupported path URI scheme `{cwd.partition(':')[0]}`")


@pytest.mark.parametrize("cwd, text", [
    ("file:///tmp?x=1", "query parameters are not allowed in path URIs"),
    ("file:///tmp?", "query parameters are not allowed in path URIs"),
    ("file:///tmp#f", "fragments are not allowed in path URIs"),
    ("file:///tmp/%00x", "'file:///tmp/%00x' is invalid on 'linux'"),
])
def test_parts_that_a_path_uri_must_not_have(client, cwd, text):
    err = start_error(client, cwd=cwd)
    assert (err.code, err.message) == (-32602, text)


@pytest.mark.parametrize("cwd", ["file://user:pw@localhost/tmp", "file://user@/tmp", "file://localhost:80/tmp", "C:\\x",
                                 "C:/x", "file:///c:/x"])
def test_credentials_ports_and_drives_are_refused(client, cwd):
    assert start_error(client, cwd=cwd).code == -32602


@pytest.mark.parametrize("cwd", ["file:///C:/x", "file:///C:", "file://server/share", "file://127.0.0.1/tmp"])
def test_a_cwd_of_a_foreign_platform_or_host(client, cwd):
    err = start_error(client, cwd=cwd)
    text = f"cwd URI `{cwd}` is not valid on this exec-server host: '{cwd}' is invalid on 'linux'"
    assert (err.code, err.message) == (-32602, text)


def opaque(path):
    return "file:///%00/bad/path/" + base64.urlsafe_b64encode(path).rstrip(b"=").decode()


def test_the_opaque_form_is_for_paths_that_need_it(client):
    err = start_error(client, cwd=opaque(b"/C:/no-such"))
    assert (err.code, err.message) == (-32603, ENOENT + ": cwd `/C:/no-such`"), "understood, but not there"
    for bad in (opaque(b"/tmp"), opaque(b"C:/x"), "file:///%00/bad/path/!!", "file:///%00/bad/path/",
                "file:///%00/tmp"):
        assert start_error(client, cwd=bad).code == -32602, bad


# What a child is born with


def status_of(text, name):
    return [line.split(b":")[1].strip() for line in text.splitlines() if line.startswith(name + b":")][0]


@BOTH
def test_a_child_has_three_descriptors(client, tty):
    # Only stat() by the shell itself: a directory listing would open a descriptor of its own.
    look = "i=0; while [ $i -lt 300 ]; do [ -e /proc/$$/fd/$i ] && echo $i; i=$((i + 1)); done"
    out = client.run(["/bin/sh", "-c", look], tty=tty, pipeStdin=not tty)[0]
    assert out.split() == [b"0", b"1", b"2"]


def test_descriptors_of_pipes(client):
    out = client.run(["/bin/sh", "-c", "for i in 0 1 2; do readlink /proc/$$/fd/$i; done"])[0].decode().split()
    assert out[0] == "/dev/null"
    assert out[1].startswith("pipe:") and out[2].startswith("pipe:") and out[1] != out[2]


@BOTH
def test_signals_are_as_after_boot(client, tty):
    out = client.run(["/bin/cat", "/proc/self/status"], tty=tty)[0]
    for name in (b"SigIgn", b"SigBlk", b"SigPnd", b"ShdPnd"):
        assert int(status_of(out, name), 16) == 0, name
    assert int(status_of(out, b"SigCgt"), 16) & ~(3 << 31) == 0


@BOTH
def test_a_broken_pipe_kills_as_it_should(client, tty):
    out = client.run(["/bin/bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}"], tty=tty)[0]
    assert out.split() == [b"y", b"141"]


@BOTH
def test_a_child_leads_its_own_session_and_group(server, client, tty):
    pid = client.start("p", ["/bin/sleep", "60"], tty=tty)["pid"]
    with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
        fields = f.read().rpartition(")")[2].split()
    group, session, terminal, foreground = (int(x) for x in fields[2:6])
    assert group == pid and session == pid
    assert session != os.getsid(server.pid)
    if tty:
        assert terminal != 0 and foreground == pid
    else:
        assert terminal == 0


def test_a_child_gets_the_limits_the_server_was_given(client):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    out = client.run(["/bin/sh", "-c", "ulimit -Sn; ulimit -Hn"])[0].decode().split()
    assert out == ["unlimited" if n == resource.RLIM_INFINITY else str(n) for n in (soft, hard)]


@BOTH
def test_a_child_is_not_undumpable_nor_locked_down(client, tty):
    out = client.run(["/bin/cat", "/proc/self/status"], tty=tty)[0]
    assert status_of(out, b"Seccomp") == status_of(open("/proc/self/status", "rb").read(), b"Seccomp")
    assert status_of(out, b"NoNewPrivs") == status_of(open("/proc/self/status", "rb").read(), b"NoNewPrivs")


def test_umask_and_user_are_the_servers(client, tmp):
    assert client.run(["/bin/sh", "-c", "id -u; umask; : > made"],
                      cwd=tmp)[0].decode().split() == [str(os.getuid()), umask_text()]
    assert stat.S_IMODE(os.stat(f"{tmp}/made").st_mode) == 0o666 & ~int(umask_text(), 8)


def umask_text():
    mask = os.umask(0)
    os.umask(mask)
    return f"{mask:04o}"
