"""shellSnapshot: what profile files set up is captured once for a scope, and restored by later starts."""

import contextlib
import os
import time

import pytest

from farhand_client import PATIENCE, Client, RpcError, seconds_of, wait_until
from sandbox_rig import ENV, USERS, at, narrow, read_only, rig_of, sandbox, special, workspace_write

BASH = "/bin/bash"
SLOW = os.environ.get("FARHAND_SLOW") == "1"
POLICY = {"inherit": "all", "ignoreDefaultExcludes": False, "exclude": [], "set": {}, "includeOnly": []}


@pytest.fixture(scope="module", params=USERS)
def rig(request):
    with rig_of(request.param) as r:
        yield r


class Shell:
    """A home with profile files, and starts of a login shell with a snapshot. Each test has a scope of its own."""

    def __init__(self, rig):
        self.rig = rig
        self.client = rig.client
        self.tree = rig.tree()
        self.home, self.w = self.tree.dir(self.tree.o), self.tree.dir(self.tree.w)
        self.log = os.path.join(self.home, "log")
        self.scope = self.tree.base

    def profile(self, text, counts=True):
        count = f"echo ran >> {self.log}\n" if counts else ""
        self.tree.file(os.path.join(self.home, ".bash_profile"), count + text + "\n")

    def slow_profile(self, text):
        """A profile that does not go on before go_on() is called. Until then the capture is under way, however busy the machine."""
        self.profile(f"while ! test -e {self.home}/go; do sleep 0.02; done\n{text}")

    def go_on(self):
        self.tree.file(os.path.join(self.home, "go"))

    def runs(self):
        """How often the profile was run."""
        if not os.path.exists(self.log):
            return 0
        with open(self.log, encoding="utf-8") as f:
            return len(f.readlines())

    def params(self, script, *args, scope=None, shell=BASH, name="bash", env=None, argv=None, **kw):
        return {"processId": f"s{next(self.rig._names)}", "argv": argv or [shell, "-lc", script, *args],
                "cwd": self.w, "env": {**ENV, "HOME": self.home, **(env or {})}, "tty": False,
                "shellSnapshot": {"scopeId": scope or self.scope, "shell": {"name": name, "path": shell}}, **kw}

    def begin(self, params, client=None):
        return (client or self.client).request("process/start", params)

    def run(self, script, *args, **kw):
        """Runs the script in a login shell until it has ended; returns its Outcome."""
        params = self.params(script, *args, **kw)
        self.client.call("process/start", params, 30)
        return self.rig.finish(params["processId"])

    def said(self, script, *args, **kw):
        done = self.run(script, *args, **kw)
        assert done.code == 0, done
        return done.out.decode()


def running_below(pid, name):
    """The descendants of process `pid` that are called `name`."""
    found = []
    for child in children_of(pid):
        with contextlib.suppress(OSError), open(f"/proc/{child}/comm", encoding="latin-1") as f:
            found += [child] if f.read().strip() == name else []
        found += running_below(child, name)
    return found


def children_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(child) for child in f.read().split()]
    return []


@pytest.fixture
def shell(rig):
    return Shell(rig)


def test_it_is_announced(rig):
    assert rig.client.call("environment/info")["capabilities"]["shellSnapshotV2"] is True


def test_later_starts_restore_what_the_profile_set_up(shell):
    shell.profile("export V=\"a'b\\\"c\nd\"\nplain=x\nf() { echo \"f $1\"; }\nshopt -s extglob\nset -o noglob\n"
                  "alias ll='echo alias'\ncd /\numask 027\nunset DROPPED")
    script = ("printf '%q ' \"$V\"; f 1; shopt -q extglob && echo extglob; echo *; pwd; alias ll; echo \"[${plain-}$DROPPED]\"; "
              "case ab in @(ab|c)) echo matched;; esac")
    env = {"DROPPED": "of the request"}
    said = [shell.said(script, env=env) for _ in range(3)]
    assert shell.runs() == 1
    assert said[0] == f"$'a\\'b\"c\\nd' f 1\nextglob\n*\n{shell.w}\nalias ll='echo alias'\n[of the request]\nmatched\n"
    assert said[1] == said[2] == said[0]
    assert shell.said("echo \"[$DROPPED]\"", scope="other", envPolicy={**POLICY, "set": {"DROPPED": "x"}}) == "[]\n"


def test_arguments_exit_codes_and_errors_are_those_of_the_script(shell):
    shell.profile("f() { return 3; }")
    for _ in range(2):
        assert shell.said('echo "$0|$1|$#"') == f"{BASH}||0\n"
        assert shell.said('echo "$0|$1|$#"', "zero", "one") == "zero|one|1\n"
        assert shell.run("f").code == 3
        assert shell.run("exit 7").code == 7
        assert shell.run("if").code == 2
        assert shell.said("cat; echo end") == "end\n"


def test_a_changed_profile_is_seen_in_another_scope_or_place_only(shell):
    shell.profile("export V=1")
    assert shell.said("echo $V") == "1\n"
    shell.profile("export V=2")
    assert shell.said("echo $V") == "1\n"
    assert shell.said("echo $V", cwd="/") == "2\n"
    assert shell.said("echo $V", scope=shell.scope + "x") == "2\n"
    assert shell.said("echo $V", envPolicy=POLICY) == "2\n"
    assert shell.said("echo $V", sandbox=sandbox(read_only(special("slash_tmp", "write")), shell.w)) == "2\n"
    assert shell.said("echo $V") == "1\n"


def test_nothing_of_one_request_gets_into_another(shell):
    shell.profile("export SEEN=$CALL; export BOTH=profile")
    assert shell.said("echo $CALL,$SECRET,$BOTH", env={"CALL": "1", "SECRET": "s"}) == "1,s,profile\n"
    assert shell.said("echo $CALL,$SECRET,$BOTH", env={"CALL": "2"}) == "2,,profile\n"
    assert shell.said("echo $CALL,$SECRET,$BOTH", env={"BOTH": "request"}) == ",,request\n"
    assert shell.runs() == 1


def test_what_the_policy_excludes_is_not_kept(shell):
    shell.profile("export MY_API_KEY=secret OTHER=o FARHAND_TOKEN=t HIDE_ME=h")
    policy = {**POLICY, "exclude": ["HIDE*"]}
    for _ in range(2):
        assert shell.said("echo $MY_API_KEY,$OTHER,$FARHAND_TOKEN,$HIDE_ME", envPolicy=policy) == ",o,,\n"
    assert shell.runs() == 1


def test_variables_are_not_shown_to_other_users(shell):
    shell.profile("export V=very-secret; f() { echo also-secret; }")
    for _ in range(2):
        # The shell lists its descriptors itself: around `ls |` it would hold both ends of a pipe for a moment.
        said = shell.said("tr '\\0' ' ' < /proc/$$/cmdline; echo; f; env | grep -c FARHAND_SNAPSHOT; echo /proc/$$/fd/*")
        *line, function, kept, fds = said.splitlines()
        assert "secret" not in "".join(line[:2]).replace("also-secret", ""), "the command line"
        assert (function, kept) == ("also-secret", "0")
        assert {os.path.basename(fd) for fd in fds.split()} <= {"0", "1", "2", "3", "255"}, "3 is the directory being listed"


def test_starts_that_come_together_share_one_capture(shell):
    shell.profile("sleep 0.3; export V=1")
    params = [shell.params("echo $V") for _ in range(8)]
    ids = [shell.begin(p) for p in params]
    for ident, p in zip(ids, params):
        shell.client.result(ident, 30)
        assert shell.rig.finish(p["processId"]).out == b"1\n"
    assert shell.runs() == 1


def test_requests_behind_a_start_that_waits_keep_their_order(shell):
    shell.profile("sleep 0.3; export V=1")
    params = shell.params("read line; echo $V $line", pipeStdin=True)
    start = shell.begin(params)
    write = shell.client.request("process/write", {"processId": params["processId"], "chunk": "aGVsbG8K"})
    assert shell.client.result(write, 30) == {"status": "accepted"}
    shell.client.result(start, 30)
    assert shell.rig.finish(params["processId"]).out == b"1 hello\n"


def test_a_start_that_waits_can_be_terminated(shell):
    shell.slow_profile("export V=1")
    params = shell.params("echo ran")
    start = shell.begin(params)
    assert shell.client.call("process/terminate", {"processId": params["processId"]}) == {"running": True}
    shell.go_on()
    with pytest.raises(RpcError) as caught:
        shell.client.result(start, 10)
    assert caught.value.message.endswith("start was cancelled")
    assert shell.said("echo $V") == "1\n" and shell.runs() == 1


def test_nobody_sees_the_capture(shell):
    shell.slow_profile("")
    before = len(shell.client.call("process/list", {})["processes"])
    start = shell.begin(shell.params("true"))
    assert len(shell.client.call("process/list", {})["processes"]) == before
    shell.go_on()
    shell.client.result(start, 30)
    assert not [n for n in shell.client.notifications if n["params"].get("processId") == "shell snapshot"]


def test_a_process_may_be_called_as_the_capture_is_in_the_log(shell):
    shell.profile("export V=1")
    with shell.rig.new_server() as server, server.connect() as client:
        client.call("process/start", {**shell.params("sleep 60"), "processId": "shell snapshot"}, 30)
        params = shell.params("echo $V", scope="other")
        client.call("process/start", params, 30)
        client.wait_closed(params["processId"])
        assert client.output(params["processId"]) == b"1\n"
        assert client.call("process/terminate", {"processId": "shell snapshot"}) == {"running": True}


def test_a_capture_takes_no_place_from_its_start(shell):
    """A capture counts as a running process until its snapshot is read; here the session has room for only one process."""
    shell.slow_profile("export V=1")
    with shell.rig.new_server(config="max_processes_per_session = 1\n") as server, server.connect() as client:
        params = shell.params("echo $V")
        start = client.request("process/start", params)
        wait_until(lambda: shell.runs() == 1, what="the capture")
        assert client.error("process/start", shell.params("true")).data["limit"] == "max_processes_per_session"
        shell.go_on()
        client.result(start, 30)
        client.wait_closed(params["processId"])
        assert client.output(params["processId"]) == b"1\n" and shell.runs() == 1


def test_a_capture_takes_no_place_among_the_finished(shell):
    shell.profile("export V=1")
    with shell.rig.new_server(config="max_finished_processes_per_session = 2\n") as server, server.connect() as client:
        done = [shell.params("echo $V", name="sh") for _ in range(1)] + [shell.params("echo $V")]
        for params in done:
            client.call("process/start", params, 30)
            client.wait_closed(params["processId"])
        for params in done:
            assert client.call("process/read", {"processId": params["processId"]})["closed"] is True


def test_a_profile_that_never_stops_writing_is_ended(shell):
    shell.profile("test -e there || { touch there; exec yes; }; V=ordinary")
    assert shell.said("echo $V") == "ordinary\n"
    wait_until(lambda: not running_below(shell.rig.server.pid, "yes"), what="the end of the profile")


@pytest.mark.parametrize("is_sandboxed", [False, True])
def test_a_start_that_is_terminated_at_once_leaves_the_capture_to_the_next(shell, is_sandboxed):
    shell.profile("export V=1", counts=False)
    kw = {"sandbox": sandbox(workspace_write(), shell.w)} if is_sandboxed else {}
    for n in range(10):
        begun = time.monotonic()
        params = shell.params("echo ran", scope=f"{shell.scope}-{n}", **kw)
        start = shell.begin(params)
        shell.client.call("process/terminate", {"processId": params["processId"]})
        shell.client.response(start, 10)
        assert shell.said("echo $V", scope=f"{shell.scope}-{n}", **kw) == "1\n"
        assert time.monotonic() - begun < 9 * PATIENCE, "nobody waits for a capture that does not begin"


def test_a_sandbox_that_cannot_be_planned_is_no_capture_either(shell):
    box = sandbox(workspace_write(), "/nonexistent-\0")
    for _ in range(3):
        begun = time.monotonic()
        assert shell.client.error("process/start", shell.params("true", sandbox=box)).code < 0
        assert time.monotonic() - begun < 9 * PATIENCE


@pytest.mark.parametrize("profile, said", [
    ("exit 5", None), ("exec true", ""), ("echo noise; echo more >&2; export V=1", "1\n"),
    ("export BIG=$(head -c 300000 /dev/zero | tr '\\0' x); V=ordinary", None),
    ("V=ordinary; eval \"f() { : $(head -c 600000 /dev/zero | tr '\\0' x); }\"", "ordinary\n"),
    ("V=ordinary; env() { echo mine; }; printf() { echo mine; }; shopt() { echo mine; }; export V", "ordinary\n"),
    ("readonly V=1; export V", "1\n"), ("set -eu; export V=1", "1\n"), ("PATH=/nowhere; export V=1", "1\n")], ids=str)
def test_profiles_of_all_kinds(shell, profile, said):
    shell.profile(profile, counts=False)
    for _ in range(2):
        done = shell.run("echo $V")
        assert said is None or done.out.decode() == said, done


FORGED = r"""mark=$(tr '\0' '\n' < /proc/$$/cmdline | grep -o -m 1 '[0-9a-f]\{8\}-[0-9a-f-]\{27\}')
test -z "$mark" || printf '%s\n%b%s\n%b%s\n' "$mark" 'TEXT' "$mark" "$(cat vars)" "$mark" """


def forge(shell, text, variables):
    """Makes a profile that prints a forged snapshot: what runs in the capture knows its marks."""
    shell.tree.file(os.path.join(shell.w, "vars"), variables)
    shell.profile(FORGED.replace("TEXT", text), counts=False)


@pytest.mark.parametrize("text, variables, said", [
    (r"f() { :; }\n", r"A=1\0", "[1]\n"), ("x", "A=1", "[]\n"), ("x", r"B=1\0A=1", "[]\n"), ("x", "A", "[]\n"),
    ("x", r"\0\0=\0A\0", "[]\n"), ("", "", "[]\n"), (r"x\0", r"A=1\0", "[]\n")], ids=repr)
def test_a_capture_that_a_profile_forges_harms_nobody(shell, text, variables, said):
    """Once, a last variable without a NUL behind it was not counted, and was stored behind the end of the array."""
    forge(shell, text, variables)
    many = {f"V{n}": "" for n in range(2000)}
    for env in ({}, many, {}):
        assert shell.said('echo "[$A]"', env=env) == said
        assert shell.said(r"tr '\0' '\n' < /proc/$$/environ | grep -c ^/ || true", env=env) == "0\n", "names of variables"


@pytest.mark.parametrize("request_kw", [{"env": {f"W{n}": "" for n in range(100000)}},
                                        {"envPolicy": {**POLICY, "exclude": ["*V2"] * 2000}}], ids=["env", "policy"])
def test_many_variables_of_the_profile_and_of_the_request(shell, request_kw):
    """Each variable is compared with all others or with all patterns; other clients may not wait for that."""
    forge(shell, "x", "".join(rf"V1{n:x}=\0" for n in range(60000)))
    with shell.rig.new_server() as server, server.connect() as client, server.connect() as other:
        client.call("process/start", shell.params("true"), 30)
        ident = client.request("process/start", shell.params("true", **request_kw))
        worst = 0
        while not client.has_response(ident):
            worst = max(worst, seconds_of(server, lambda: other.call("environment/status", timeout=60), other))
        assert worst < 1 * PATIENCE
        client.response(ident)


@pytest.mark.skipif(not SLOW, reason="waits for 11 s; FARHAND_SLOW=1")
def test_a_shell_that_has_told_all_and_does_not_end_is_ended(shell):
    shell.profile("export V=1; trap 'sleep 600' EXIT")
    with shell.rig.new_server() as server, server.connect() as client:
        params = shell.params("trap - EXIT; echo $V")
        client.call("process/start", params, 30)
        client.wait_closed(params["processId"])
        assert client.output(params["processId"]) == b"1\n"
        assert running_below(server.pid, "sleep")
        wait_until(lambda: not running_below(server.pid, "sleep"), 15, "the end of the shell")


def test_it_is_ignored_where_it_does_not_apply(shell):
    shell.profile("export V=1")
    assert shell.said("", argv=[BASH, "-c", "echo [$V]"]) == "[]\n"
    assert shell.said("", argv=["/bin/sh", "-c", "echo [$V]"]) == "[]\n"
    assert shell.said("echo [$V]", shell="/bin/sh", name="sh") == "[]\n"
    for name in ("zsh", "sh"):
        assert shell.said("echo [$V]", name=name) == "[1]\n", "an ordinary start"


@pytest.mark.parametrize("change, message", [
    ({"scopeId": ""}, "shell snapshot scope must be non-empty and at most 256 bytes"),
    ({"scopeId": "x" * 257}, "shell snapshot scope must be non-empty and at most 256 bytes"),
    ({"shell": {"name": "fish", "path": BASH}}, "shell snapshots are unsupported for shell `fish`"),
    ({"shell": {"name": "bash"}}, "missing field `path`"), ({"shell": 5}, None), ({"scopeId": 5}, None)], ids=str)
def test_params_that_do_not_decode(shell, change, message):
    params = shell.params("true")
    params["shellSnapshot"] = {**params["shellSnapshot"], **change}
    err = shell.client.error("process/start", params)
    assert err.code == -32602 and message in (None, err.message)


def test_the_capture_has_the_sandbox_of_the_start(shell):
    secret = shell.tree.file(os.path.join(shell.tree.base, "secret"), "very-secret\n")
    shell.profile(f"export V=$(cat {secret} 2>/dev/null || echo denied); echo x > {shell.home}/written", counts=False)
    box = sandbox(workspace_write(at(secret, "deny")), shell.w)
    for _ in range(2):
        assert shell.said("echo $V; echo new > here && cat here", sandbox=box) == "denied\nnew\n"
    assert not os.path.exists(os.path.join(shell.home, "written"))
    assert shell.said("echo $V") == "very-secret\n", "without a sandbox it is another snapshot"


def test_a_home_that_the_profile_hides(shell):
    shell.profile("export V=1")
    box = sandbox(narrow(at(shell.w, "write")), shell.w)
    for _ in range(2):
        assert shell.said("echo [$V]", sandbox=box) == "[]\n"


def test_a_terminal(shell):
    shell.profile("export V=1")
    for _ in range(2):
        assert shell.run("echo $V; test -t 0 && echo terminal", tty=True).out == b"1\r\nterminal\r\n"


def test_the_connection_goes_during_the_capture(shell):
    """The start that waited for the capture is dropped with its connection; the capture belongs to the session and goes on."""
    shell.slow_profile("export V=1")
    with shell.rig.new_server() as server, server.connect() as first:
        first.request("process/start", shell.params(f"echo {shell.w}/there"))
        wait_until(lambda: shell.runs() == 1, what="the capture")
        first.abort()

        def attempt():
            try:
                return Client(server.url, resume=first.session_id)
            except RpcError as e:
                assert e.code == -32010
                return None

        with wait_until(attempt, what="the session to be free") as again:
            shell.go_on()
            params = shell.params("echo $V")
            again.call("process/start", params, 30)
            again.wait_closed(params["processId"])
            assert again.output(params["processId"]) == b"1\n" and shell.runs() == 1
        assert os.listdir(shell.w) == []


def test_a_session_that_ends_during_the_capture_leaves_nothing(shell):
    shell.profile("sleep 60")
    with shell.rig.new_server() as server:
        with server.connect(init_params={"detachMs": 0}) as client:
            client.request("process/start", shell.params("true"))
            wait_until(lambda: shell.runs() == 1, what="the capture")
        wait_until(lambda: not running_below(server.pid, "sleep"), what="the end of the profile")


def test_more_scopes_than_are_kept(shell):
    shell.profile("export V=1")
    for n in range(20):
        assert shell.said("echo $V", scope=f"{shell.scope}-{n}") == "1\n"
    assert shell.runs() == 20
    shell.said("true", scope=f"{shell.scope}-19")
    assert shell.runs() == 20
    shell.said("true", scope=f"{shell.scope}-0")
    assert shell.runs() == 21, "the one used longest ago had gone"


def test_what_a_profile_leaves_running_does_not_hold_the_start(shell):
    shell.profile("export V=1; sleep 30 & disown")
    for _ in range(2):
        begun = time.monotonic()
        assert shell.said("echo $V") == "1\n"
        assert time.monotonic() - begun < 9 * PATIENCE


@pytest.mark.skipif(not SLOW, reason="waits for 10 s; FARHAND_SLOW=1")
def test_a_profile_that_hangs_means_an_ordinary_start(shell):
    shell.profile("test -e hang || { touch hang; sleep 60; }; V=ordinary")
    begun = time.monotonic()
    assert shell.said("echo $V") == "ordinary\n"
    assert 9 < time.monotonic() - begun < 15 * PATIENCE
