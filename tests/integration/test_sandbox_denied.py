"""sandboxDenied: the verdict on a failed command that had a sandbox, by what it printed. The vectors, through a server."""

import base64
import json
import os

import pytest
from farhand_client import REPO, RpcError

with open(os.path.join(REPO, "tests", "vectors", "denial.json"), encoding="utf-8") as f:
    VECTORS = json.load(f)["cases"]

# A profile that restricts nothing, so that the tests run everywhere; the verdict depends on the output alone.
DISABLED = {"permissions": {"type": "disabled"}, "windowsSandboxLevel": "disabled"}


READ_ONLY = [{"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}]


def read_only(network):
    return {**DISABLED, "cwd": "file:///", "permissions": {
        "type": "managed", "file_system": {"type": "restricted", "entries": READ_ONLY}, "network": network}}


def octal(data):
    return "".join(f"\\{b:03o}" for b in data)


def has_both(case):
    return bool(case.get("stdout")) and bool(case.get("stderr") or case.get("stderr_base64"))


def script_of(case):
    """A shell that prints the texts and exits with the code. Between stdout and stderr it reads a line: the server may read two
    pipes in any order."""
    if "script_before_exit" in case:
        return f"{case['script_before_exit']}\nexit {case['exit_code']}"
    err = base64.b64decode(case["stderr_base64"]) if "stderr_base64" in case else case.get("stderr", "").encode()
    between = "read line; " if has_both(case) else ""
    return (f"printf '{octal(case.get('stdout', '').encode())}'; {between}printf '{octal(err)}' >&2; "
            f"exit {case['exit_code']}")


def start(client, script, box=None, tty=False, process_id="p", stdin=False):
    box = DISABLED if box is None else box
    return client.call("process/start", {
        "processId": process_id, "argv": ["/bin/sh", "-c", script], "cwd": "file:///",
        "env": {"PATH": "/usr/bin:/bin"}, "tty": tty, "pipeStdin": stdin, "arg0": None, "sandbox": box or None})


def verdicts(client, process_id="p"):
    """The values of sandboxDenied after the exit, from every method and notification that has it."""
    listed, = client.call("process/list", {"processId": process_id})["processes"]
    return {
        client.wait_exit(process_id)["sandboxDenied"],
        client.read(process_id)["sandboxDenied"],
        client.call("process/wait", {"processId": process_id, "until": "exited"})["sandboxDenied"],
        listed["sandboxDenied"],
    }


@pytest.mark.parametrize("case", VECTORS, ids=[case["name"] for case in VECTORS])
def test_vectors(client, case):
    result = start(client, script_of(case), box=DISABLED if case["sandboxed"] else {}, stdin=has_both(case))
    assert result["sandboxType"] == ("linuxSeccomp" if case["sandboxed"] else "none")
    if has_both(case):
        client.wait_output("p", case["stdout"].encode())
        client.call("process/write", {"processId": "p", "writeId": "1", "chunk": "Cg=="})
    assert client.wait_exit("p")["exitCode"] == case["exit_code"]
    assert verdicts(client) == {case["sandboxDenied"]}
    client.wait_closed("p")
    assert verdicts(client) == {case["sandboxDenied"]}  # it never changes, whatever came later


def test_a_terminal_is_read_as_well(client):
    start(client, "echo x: Permission denied; exit 1", tty=True)
    client.wait_closed("p")
    assert verdicts(client) == {True}


def test_a_running_process_has_no_verdict(client):
    start(client, "echo permission denied; exec sleep 1000")
    client.wait_output("p", b"denied")
    assert client.read("p")["sandboxDenied"] is False
    listed, = client.call("process/list", {"processId": "p"})["processes"]
    assert listed["sandboxDenied"] is False
    client.call("process/terminate", {"processId": "p"})
    assert client.wait_exit("p")["exitCode"] == 137
    assert verdicts(client) == {True}  # whoever ended it: the text is all that counts


def test_a_death_by_sigsys_is_a_denial(client):
    start(client, "kill -SYS $$")
    exited = client.wait_exit("p")
    assert (exited["exitCode"], exited["signal"], exited["sandboxDenied"]) == (159, "SIGSYS", True)
    assert exited["denials"] == [{"operation": "systemCall", "source": "signal"}]


def test_denials_are_told_of_sandboxed_processes_only(client):
    assert client.init_result["environmentInfo"]["capabilities"]["sandboxReportV1"] is True
    start(client, "echo x: permission denied; exit 0")
    assert client.wait_exit("p")["denials"] == []
    start(client, "echo x: permission denied; exit 1", box={}, process_id="q")
    assert "denials" not in client.wait_exit("q")


def test_a_background_child_does_not_keep_the_exit_back(client, tmp):
    """The server does not wait for the background child, which holds the output open, before it reports the exit."""
    os.mkfifo(f"{tmp}/go")
    start(client, f"(read x <{tmp}/go; echo permission denied) & exit 1")
    assert client.wait_exit("p")["sandboxDenied"] is False
    with open(f"{tmp}/go", "w", encoding="ascii") as go:
        go.write("\n")
    client.wait_closed("p")
    assert client.output("p") == b"permission denied\n"
    assert verdicts(client) == {False}


def start_restricted(client, script, network):
    try:
        start(client, script, box=read_only(network))
    except RpcError as e:
        if e.message == "sandbox intent cannot be enforced on this executor":
            pytest.skip("nothing can be enforced here")
        raise


def test_a_file_that_cannot_be_written_in_a_real_sandbox(client, tmp):
    start_restricted(client, f"LC_ALL=C; export LC_ALL; echo x >{tmp}/x", "restricted")
    exited = client.wait_exit("p")
    assert exited["exitCode"] != 0 and b"Read-only file system" in client.output("p")
    assert verdicts(client) == {True}
    assert os.listdir(tmp) == []
    denial = {"operation": "write", "path": f"file://{tmp}/x", "source": "output"}
    assert exited["denials"] == client.read("p")["denials"] == [denial]
    assert client.call("process/list", {"processId": "p"})["processes"][0]["denials"] == [denial]


@pytest.mark.parametrize("network,denied", [("restricted", True), ("enabled", False)])
def test_a_network_that_cannot_be_reached_counts_where_the_sandbox_closes_it(client, network, denied):
    start_restricted(client, "echo connect: Network is unreachable >&2; exit 1", network)
    assert client.wait_exit("p")["exitCode"] == 1
    assert verdicts(client) == {denied}
