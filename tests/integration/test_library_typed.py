"""The typed functions of libfarhand on a real server: files under a profile and under conditions, many at once, and processes of others."""

import hashlib
import json
import os
import re
import signal
import subprocess

import pytest

from farhand_client import PATIENCE, Client, Server
from library_rig import HAS_LIBRARY, build_program
from sandbox_rig import at, sandbox, workspace_write

SECONDS = 60 * PATIENCE
OK = ["result 0"]
UNSUPPORTED, TOO_BIG, CONFLICT, REMOTE = -95, -27, -32020, -121

pytestmark = pytest.mark.skipif(not HAS_LIBRARY, reason="not a build with the library")


class Typed:
    """The program library_typed on one server."""

    def __init__(self, program, url):
        self.proc = subprocess.Popen([program, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, errors="surrogateescape")

    def ask(self, *words):
        """Returns what the program has printed for these words."""
        self.proc.stdin.write("\t".join(map(str, words)) + "\n")
        self.proc.stdin.flush()
        told = []
        for line in self.proc.stdout:
            if line == ".\n":
                return told
            told.append(line.rstrip("\n"))
        raise AssertionError(f"the program ended: {told}")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.proc.stdin.close()
        self.proc.stdout.close()
        assert self.proc.wait(SECONDS) == 0


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build_program(str(tmp_path_factory.mktemp("typed")), "library_typed")


@pytest.fixture(scope="module")
def server():
    with Server() as s:
        yield s


@pytest.fixture
def typed(program, server):
    with Typed(program, server.url) as t:
        yield t


@pytest.fixture
def client(server):
    with Client(server.url, name="other") as c:
        yield c


def put(path, content="old"):
    with open(path, "w", encoding="utf-8") as f:
        f.write(content)
    return path


def content(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


# Conditions


def test_a_write_under_a_condition(typed, tmp):
    path = f"{tmp}/a/b/c"
    assert typed.ask("write", path, "1")[0].startswith(f"result {REMOTE} -32004 2")
    assert typed.ask("write", path, "1", "parents", 1, "absent", 1, "mode", "600") == OK
    assert os.stat(path).st_mode & 0o7777 == 0o600
    assert typed.ask("write", path, "2", "absent", 1)[0].startswith(f"result {REMOTE} {CONFLICT}")
    assert typed.ask("write", path, "2", "digest", digest_of(b"1")) == OK
    assert typed.ask("write", path, "3", "digest", digest_of(b"1"))[0].startswith(f"result {REMOTE} {CONFLICT}")
    size, changed = re.fullmatch(r"stat 1 (\d+) (\d+) ", typed.ask("stat", path, 0)[0]).groups()
    assert typed.ask("write", path, "33", "unchanged", f"{size},{changed}") == OK
    assert typed.ask("write", path, "4", "unchanged", f"{size},{changed}")[0].startswith(f"result {REMOTE} {CONFLICT}")
    assert content(path) == "33"


def test_a_write_in_place_keeps_the_file(typed, tmp):
    path = put(f"{tmp}/a")
    before = os.stat(path).st_ino
    assert typed.ask("write", path, "new", "place", 1) == OK
    assert os.stat(path).st_ino == before and content(path) == "new"
    assert typed.ask("write", path, "newer") == OK
    assert os.stat(path).st_ino != before


def test_links_are_refused_where_that_is_asked_for(typed, tmp):
    put(f"{tmp}/a")
    os.symlink("a", f"{tmp}/link")
    assert typed.ask("write", f"{tmp}/link", "new", "links", 1)[0].startswith(f"result {REMOTE}")
    assert content(f"{tmp}/a") == "old"
    assert typed.ask("stat", f"{tmp}/link", 2)[0].startswith(f"result {REMOTE} -32600")
    assert typed.ask("stat", f"{tmp}/link", 1)[0].endswith(digest_of(b"old"))
    assert typed.ask("stat", f"{tmp}/a", 3)[0].endswith(digest_of(b"old"))


def test_a_write_tells_what_the_next_condition_needs(typed, tmp):
    written = re.fullmatch(r"written (\d+) (\d+)", typed.ask("write", f"{tmp}/a", "hello", "told", 1)[0]).groups()
    assert written[0] == "5" and int(written[1]) == os.stat(f"{tmp}/a").st_mtime_ns // 1000000
    assert typed.ask("write", f"{tmp}/a", "new", "unchanged", ",".join(written)) == OK


def test_changes_with_flags(typed, tmp):
    """FARHAND_PARENTS 1, RECURSIVE 2, FORCE 4, NEW 8, NO_LINKS 16: `link` leads to `real`."""
    os.mkdir(f"{tmp}/real")
    os.symlink("real", f"{tmp}/link")
    put(f"{tmp}/real/a", "hello")
    refused = f"result {REMOTE} "
    for words in (["directory", f"{tmp}/link/d"], ["remove", f"{tmp}/link/a"], ["rename", f"{tmp}/link/a", f"{tmp}/b"],
                  ["metadata", f"{tmp}/link/a"], ["digest", f"{tmp}/link/a"], ["read", f"{tmp}/link/a"]):
        assert typed.ask("with", 16, *words)[0].startswith(refused), words
    assert os.listdir(f"{tmp}/real") == ["a"]
    assert typed.ask("with", 0, "directory", f"{tmp}/real/d/e")[0].startswith(f"result {REMOTE} -32004 2")
    assert typed.ask("with", 17, "directory", f"{tmp}/real/d/e") == OK
    assert typed.ask("with", 0, "remove", f"{tmp}/real/d")[0].startswith(f"result {REMOTE}")
    assert typed.ask("with", 18, "remove", f"{tmp}/real/d")[0].startswith(f"result {REMOTE} -32603")  # servers do not do both
    assert typed.ask("with", 16, "remove", f"{tmp}/real/d/e") == OK
    assert typed.ask("with", 2, "remove", f"{tmp}/real/d") == OK
    assert typed.ask("with", 16, "remove", f"{tmp}/real/d")[0].startswith(f"result {REMOTE} -32004 2")
    assert typed.ask("with", 20, "remove", f"{tmp}/real/d") == OK
    assert typed.ask("with", 16, "metadata", f"{tmp}/real/a") == OK
    seen = os.stat(f"{tmp}/real/a")
    assert (seen.st_mode & 0o7777, seen.st_mtime_ns) == (0o604, 1000000000)
    assert typed.ask("with", 16, "digest", f"{tmp}/real/a") == [f"digest {digest_of(b'el')} 2 5", *OK]
    assert typed.ask("with", 0, "read", f"{tmp}/link/a") == typed.ask("with", 16, "read", f"{tmp}/real/a") == ["content 5 hello", *OK]
    put(f"{tmp}/b", "0123456789x")
    assert typed.ask("with", 0, "read", f"{tmp}/b") == [f"result {TOO_BIG}"]
    assert typed.ask("with", 8, "rename", f"{tmp}/real/a", f"{tmp}/b")[0].startswith(f"result {REMOTE} -32603 17")
    assert typed.ask("with", 16, "rename", f"{tmp}/real/a", f"{tmp}/b") == OK
    assert typed.ask("with", 2, "directory", f"{tmp}/x") == ["result -22"]  # a flag of another function


def test_what_is_missing_appears(typed, tmp):
    assert typed.ask("missing", "-", put(f"{tmp}/there")) == ["watching 0", *OK]
    typed.proc.stdin.write(f"missing\t-\t{tmp}/none\t{tmp}/a\n")
    typed.proc.stdin.flush()
    assert typed.proc.stdout.readline() == "watching 1\n"
    put(f"{tmp}/a")
    assert [typed.proc.stdout.readline() for _ in range(3)] == ["changed\n", "result 0\n", ".\n"]
    typed.proc.stdin.write(f"missing\t{tmp}/there\t{tmp}/none\n")
    typed.proc.stdin.flush()
    assert typed.proc.stdout.readline() == "watching 1\n"
    os.unlink(f"{tmp}/there")
    assert [typed.proc.stdout.readline() for _ in range(3)] == ["changed\n", "result 0\n", ".\n"]


def test_what_codex_keeps_there(program, tmp):
    os.makedirs(f"{tmp}/home")
    os.makedirs(f"{tmp}/root/skill")
    put(f"{tmp}/home/config.toml", 'model = "m"\n')
    put(f"{tmp}/root/skill/SKILL.md", "---")
    with Server(env={"CODEX_HOME": f"{tmp}/home", "HOME": tmp}) as s, Typed(program, s.url) as t:
        told = t.ask("config", tmp, "model")
        assert told[0] == f"home {tmp} {tmp}/home 1" and f"config {tmp}/home own" in told and told[-1] == "result 0"
        assert t.ask("discover", f"{tmp}/root", f"{tmp}/none") == [
            "root 0 id good -", f"skill {tmp}/root/skill/SKILL.md ---", "root 1 id bad -", *OK]


# The sandbox


@pytest.fixture
def box(typed, client, tmp):
    """A workspace and what lies beside it, with a profile that may write only the workspace, and not its file `secret`."""
    if client.call("environment/info")["sandboxBackend"] == "none":
        pytest.skip("no sandbox works here")
    inside, outside = f"{tmp}/in", f"{tmp}/out"
    os.mkdir(inside)
    os.mkdir(outside)
    put(f"{inside}/secret")
    put(f"{outside}/a")
    profile = workspace_write(at(f"{inside}/secret", "deny"))
    assert typed.ask("sandbox", json.dumps(sandbox(profile, inside))) == OK
    return inside, outside


def test_file_requests_obey_the_sandbox_until_it_is_taken_away(typed, box):
    inside, outside = box
    assert typed.ask("write", f"{inside}/a", "1") == OK
    assert typed.ask("write", f"{outside}/a", "1")[0].startswith(f"result {REMOTE} -32603 30 ")
    assert typed.ask("stream", f"{inside}/b", "2") == OK
    assert typed.ask("stream", f"{outside}/b", "2")[0].startswith(f"result {REMOTE} -32603 30 ")
    assert typed.ask("read", f"{inside}/secret", 100)[0].startswith(f"result {REMOTE} -32600 13 ")
    assert typed.ask("read", f"{outside}/a", 100) == ["content 3 old", *OK]
    assert typed.ask("writeFiles", outside, "x", "y", "z") == ["failed 0 30", "failed 1 30", "failed 2 30", "result 1"]
    assert typed.ask("readFiles", inside, "a", "secret", "none") == ["file 0 1 1 644", "file 1 error 13", "file 2 error 2", *OK]
    assert typed.ask("sandbox", "-") == OK
    assert typed.ask("write", f"{outside}/a", "1") == OK
    assert typed.ask("read", f"{inside}/secret", 100) == ["content 3 old", *OK]


def test_what_is_no_sandbox_is_refused_here_or_there(typed, tmp):
    assert typed.ask("sandbox", "[]") == ["result -22"]
    assert typed.ask("sandbox", '{"permissions":7}') == OK
    assert typed.ask("write", f"{tmp}/a", "1")[0].startswith(f"result {REMOTE} -32602 ")
    assert not os.path.exists(f"{tmp}/a")


def test_access_is_told_before_anything_is_done(typed, box, client):
    inside, outside = box
    asked = ("access", 1, f"{inside}/new", 1, f"{outside}/new", 0, f"{inside}/secret", 2, f"{inside}/secret")
    if not client.call("environment/info")["capabilities"].get("fsAccessV1"):
        assert typed.ask(*asked) == [f"result {UNSUPPORTED}"]
        pytest.skip("the server does not tell what is allowed")
    told = typed.ask(*asked)
    assert told[0] == "access 0 1 0 -" and told[-1] == "result 0"
    assert told[1].startswith("access 1 0 30 ") and not told[1].endswith(" -")
    assert told[2].startswith("access 2 0 13 ") and not told[2].endswith(" -")
    assert not os.path.exists(f"{inside}/new")
    assert not typed.ask("write", f"{outside}/a", "1")[0].endswith(" -")


# Many files


def test_a_directory_of_more_names_than_one_answer_has(typed, tmp):
    for i in range(5000):
        os.mknod(f"{tmp}/{i:05}")
    assert typed.ask("scan", tmp, "count") == ["counted 5000", *OK]


def test_a_scan_tells_what_each_name_is(typed, tmp):
    put(f"{tmp}/a")
    os.chmod(f"{tmp}/a", 0o640)
    os.mkdir(f"{tmp}/b", 0o700)
    os.symlink("nowhere", f"{tmp}/c")
    os.mkfifo(f"{tmp}/d", 0o600)
    told = typed.ask("scan", tmp)
    assert told[0] == "entry a 0 3 640 -" and told[2].startswith("entry c 2 7 ") and told[2].endswith(" nowhere")
    assert [line.split()[1:3] for line in told[:4]] == [["a", "0"], ["b", "1"], ["c", "2"], ["d", "3"]]
    assert typed.ask("scan", f"{tmp}/none")[-1].startswith(f"result {REMOTE} -32004 2")


def test_more_files_than_one_request_takes(typed, tmp):
    assert typed.ask("writeFiles", tmp, 1100, 1) == OK
    assert len(os.listdir(tmp)) == 1100
    seen = os.stat(f"{tmp}/1099")
    assert (seen.st_mode & 0o7777, seen.st_mtime_ns) == (0o640, 1234567890123000000)
    told = typed.ask("readFiles", tmp, *(f"{i:04}" for i in range(1100)))
    assert told == [*(f"file {i} 1 x 640" for i in range(1100)), *OK]


def test_more_bytes_than_one_request_and_one_answer_take(typed, tmp):
    """20 files of 1 MiB are more than the 8 MiB of a request, and each is a whole answer."""
    assert typed.ask("writeFiles", tmp, 20, 1 << 20) == OK
    told = typed.ask("readFiles", tmp, *(f"{i:04}" for i in range(20)))
    assert told == [*(f"file {i} 1048576 xxxxxxxxxx 640" for i in range(20)), *OK]


def test_a_digest_and_a_file_at_once(typed, tmp):
    path = put(f"{tmp}/a", "hello")
    assert typed.ask("digest", path, 1, 3) == [f"digest {digest_of(b'ell')} 3", *OK]
    assert typed.ask("digest", path, 3, 2 ** 64 - 1) == [f"digest {digest_of(b'lo')} 2", *OK]
    assert typed.ask("read", path, 5) == ["content 5 hello", *OK]
    assert typed.ask("read", path, 4) == [f"result {TOO_BIG}"]
    assert typed.ask("read", put(f"{tmp}/b", "x" * 3_000_000), 3_000_000) == [f"content 3000000 {'x' * 20}", *OK]
    assert typed.ask("read", put(f"{tmp}/empty", ""), 0) == ["content 0 ", *OK]
    assert typed.ask("read", f"{tmp}/none", 5)[0].startswith(f"result {REMOTE} -32004 2")


def test_a_rename_that_replaces_nothing(typed, tmp):
    put(f"{tmp}/a")
    put(f"{tmp}/b", "b")
    assert typed.ask("renameNew", f"{tmp}/a", f"{tmp}/b")[0].startswith(f"result {REMOTE} -32603 17")
    assert typed.ask("renameNew", f"{tmp}/a", f"{tmp}/c") == OK
    assert content(f"{tmp}/b") == "b" and content(f"{tmp}/c") == "old"


# Processes of others


def test_lists_and_a_process_of_another_session(typed, client):
    client.start("other-1", ["sh", "-c", "echo hello; exec sleep 1000"])
    client.start("other-2", ["true"], cwd="file:///")
    client.call("process/wait", {"processId": "other-2", "until": "exited", "waitMs": 30000}, timeout=SECONDS)
    told = typed.ask("sessions")
    [session] = {line.split()[1] for line in told if line.split()[2:5] == ["other", "1", "2"]}
    told = typed.ask("processes", "all")
    assert {f"process other-1 {session} sh /tmp 1 1 -1", f"process other-2 {session} true / 1 0 0", *OK} <= set(told)
    assert typed.ask("processes", "-") == OK
    assert typed.ask("processes", session, "other-2") == [f"process other-2 {session} true / 1 0 0", *OK]
    assert typed.ask("output", "other-1", session, 0, 30000) == ["output 1 0 hello", "", "next 2 0 0", *OK]
    assert typed.ask("snapshot", "other-1", session) == ["snapshot hello", "", *OK]
    assert typed.ask("wait", "other-1", session, 1, 0) == ["result -110"]
    assert typed.ask("signal", "other-1", session, int(signal.SIGUSR1), 2) == OK
    assert typed.ask("wait", "other-1", session, 0, -1) == ["exit 138 SIGUSR1 signalled", *OK]
    assert typed.ask("terminate", "other-1", session, -1) == OK  # has exited
    assert typed.ask("wait", "none", session, 0, 0)[0].startswith(f"result {REMOTE} -32600")
    assert typed.ask("terminate", "other-1", "no-such-session", -1)[0].startswith(f"result {REMOTE} -32600")


def test_a_report_of_a_process_of_another_session(typed, client):
    client.start("p", ["sh", "-c", "read x; exit 3"], pipeStdin=True)
    session = client.session_id
    assert typed.ask("report", "p", session, 0, 0, -1) == ["report 0 0 0  0 0 0 0 0 0", *OK]
    client.call("process/closeStdin", {"processId": "p"})
    assert typed.ask("report", "p", session, 0, -1, -1) == ["report 1 1 3 exited 1 1 0 0 0 0", *OK]
    # A child keeps the output open behind the exit.
    client.start("q", ["sh", "-c", "sleep 1000 & exit 4"])
    assert typed.ask("report", "q", session, 0, -1, 0) == ["report 1 0 4 exited 1 1 0 0 0 0", *OK]
    assert typed.ask("report", "none", session, 0, 0, -1)[0].startswith(f"result {REMOTE} -32600")
    client.call("process/terminate", {"processId": "q"})


def test_a_question_of_another_session_is_answered_here(typed, client, tmp):
    if not client.call("environment/info")["capabilities"].get("execInterceptV1"):
        pytest.skip("no interception here")
    client.start("p", ["/bin/sh", "-c", "/bin/mkdir made; exit 5"], cwd=tmp,
                 intercept={"rules": [{"name": "r", "text": 'prefix_rule(pattern=["mkdir"], decision="prompt")'}], "onUnmatched": "run"})
    asked = client.wait_for(lambda m: m.get("method") == "process/execRequested", timeout=SECONDS)["params"]["requestId"]
    session = client.session_id
    assert typed.ask("decide", "p", session, asked, 0) == ["result -22"]
    assert typed.ask("decide", "p", session, asked, 3) == OK
    assert typed.ask("report", "p", session, 0, -1, -1) == ["report 1 1 5 exited 1 1 1 1 1 0", *OK]
    assert not os.path.exists(f"{tmp}/made")


def test_limits_and_a_policy_of_variables(typed):
    told = typed.ask("limited", 17, 2, "ulimit -n; echo $SET$HOME; env | wc -l")
    assert told[0] == "limited 0 17" and told[1] == "1"
    assert json.loads(told[-2].removeprefix("answer "))["limits"] == {"openFiles": "rlimit"}
    assert typed.ask("limited", 17, 1, "echo $SET-$HOME-${PATH:+path}")[0] == "limited 0 1--path"


@pytest.mark.parametrize("grace,ends,told", [(60000, "exit 7", "exit 7  terminated"), (0, ":", "exit 137 SIGKILL terminated")])
def test_a_graceful_end_of_another_session(typed, client, grace, ends, told):
    """The first process ends by itself within its time; the second ignores SIGTERM."""
    client.start("p", ["sh", "-c", f"trap '{ends}' TERM; echo; while :; do sleep 0.05; done"])
    session = client.session_id
    typed.ask("output", "p", session, 0, 30000)
    assert typed.ask("terminate", "p", session, grace) == ["result 1"]
    assert typed.ask("wait", "p", session, 1, -1) == [told, *OK]


def test_a_scope_and_a_graceful_end_of_an_own_process(typed, tmp):
    assert typed.ask("own", "stop", "trap 'exit 7' TERM; echo; while :; do sleep 0.05; done", 60000)[0].startswith("exit 7 ")
    assert typed.ask("own", "stop", "trap : TERM; echo; while :; do sleep 0.05; done", 0)[0].startswith("exit 137 ")
    # The child is in the same group. Only the shell gets the signal: it lets the child end by itself, and has its exit code.
    child = f"trap 'exit 5' USR1; echo; until [ -e {tmp}/end ]; do sleep 0.05; done; exit 6"
    shell = f"trap 'touch {tmp}/end; wait $!; exit $?' USR1; sh -c \"{child}\" & wait; exit 9"
    assert typed.ask("own", "signal", shell, int(signal.SIGUSR1), 1)[0].startswith("exit 6 ")


def test_a_shell_snapshot_runs_the_profile_files_once(typed, client, tmp):
    if not os.path.exists("/bin/bash") or not client.call("environment/info")["capabilities"].get("shellSnapshotV2"):
        pytest.skip("no bash, or no shell snapshots")
    put(f"{tmp}/.bash_profile", f"echo x >> {tmp}/runs\nexport SET_UP=yes\n")
    for _ in range(3):
        assert typed.ask("shell", "scope", f"HOME={tmp}", "echo $SET_UP")[0] == "shell 0 yes"
    once = content(f"{tmp}/runs")
    assert typed.ask("shell", "-", f"HOME={tmp}", "echo $SET_UP")[0] == "shell 0 yes"
    assert once == "x\n" and content(f"{tmp}/runs") == "x\nx\n"
