"""The environment of a child (env, envPolicy) and the two methods about the environment of the server."""

import os
import pwd
import stat
import urllib.parse

import pytest

from farhand_client import BIN, RpcError, Server

# The environment of the server: ordinary names beside those that the rules of envPolicy treat specially.
SERVER_ENV = {
    "PATH": "/usr/bin:/bin", "HOME": "/srv/home", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "LC_CTYPE": "C",
    "LOGNAME": "me", "USER": "me",
    "SHELL": "/bin/sh", "TMPDIR": "/var/tmp", "TEMP": "/t1", "TMP": "/t2", "lang": "lower", "MY_API_KEY": "k",
    "monkey": "m",
    "A_SECRET_B": "s", "secret": "s2", "GITHUB_TOKEN": "t", "PLAIN": "p", "E2E_HIDE_1": "h1", "E2E_HIDE": "h0",
    "XE2E_HIDE": "x",
    "EMPTY": "", "WITH_EQ": "a=b=c", "ONE1": "1", "ONE22": "22", "MULTI": "a\nb",
}
SECRETS = ["CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN", "NODE_REPL_AUTH_TOKEN", "OPENAI_FEDERATION_RULE_ID",
           "OPENAI_IDENTITY_TOKEN_FILE",
           "OPENAI_WORKLOAD_IDENTITY_CONTEXT", "CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE", "Node_Repl_Auth_Token"]
OUR_SECRETS = ["FARHAND_TOKEN"]
CORE = {"PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER", "lang"}
HIDDEN = {"MY_API_KEY", "monkey", "A_SECRET_B", "secret", "GITHUB_TOKEN"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    env = {name: None for name in os.environ}
    # A sanitizer build must keep its options; a coverage or reference wrapper may need its own.
    env.update({name: os.environ[name] for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS",
                                                    "LSAN_OPTIONS") if name in os.environ})
    env.update(SERVER_ENV)
    env.update({name: "false" for name in SECRETS + OUR_SECRETS})
    with Server(env=env, cwd=str(tmp_path_factory.mktemp("server dir %41 ä"))) as s:
        yield s


def policy(inherit="all", ignore=True, exclude=(), include=(), **extra):
    return {"inherit": inherit, "ignoreDefaultExcludes": ignore, "exclude": list(exclude), "set": extra.pop("set", {}),
            "includeOnly": list(include), **extra}


def env_of(client, env=None, tty=False, **kw):
    out, err, code = client.run(["/usr/bin/env", "-0"], env=env or {}, tty=tty, **kw)
    assert (err, code) == (b"", 0)
    pairs = [entry.split(b"=", 1) for entry in out.split(b"\0") if entry]
    found = {name.decode(): value.decode() for name, value in pairs}
    assert len(found) == len(pairs), "no name twice"
    return {k: v for k, v in found.items() if not k.endswith("SAN_OPTIONS")}


def inherited(names=None):
    return {k: v for k, v in SERVER_ENV.items() if names is None or k in names}


# env without policy


def test_without_policy_the_child_gets_exactly_env(client):
    assert env_of(client) == {}
    assert env_of(client, {"A": "1", "B": "", "PATH": "/x"}) == {"A": "1", "B": "", "PATH": "/x"}
    assert env_of(client, {"A": "1"}, envPolicy=None) == {"A": "1"}


def test_odd_names_and_values_pass(client):
    env = {"A B": "x y", "ä": "ü\U0001f600", "N": "a\nb", "E": "=", "lower": "\x01", "LONG": "x" * 100000}
    assert env_of(client, env) == env


@pytest.mark.parametrize("name", ["", "=", "=A", "A=", "A=B"])
@pytest.mark.parametrize("where", ["env", "set"])
def test_a_name_that_no_variable_can_have_is_refused(client, name, where):
    """Unlike here, the reference passes such a name on to the child as it is."""
    kw = {"env": {name: "x"}} if where == "env" else {"env": {}, "envPolicy": policy("none", set={name: "x"})}
    with pytest.raises(RpcError) as caught:
        client.start("p", ["/usr/bin/env"], **kw)
    what = "must not be empty" if name == "" else "must not contain `=`"
    assert (caught.value.code, caught.value.message) == (-32602, f"{where}: the name of a variable {what}")


def test_many_variables_pass(client):
    env = {f"NAME_{n}": str(n) for n in range(3000)}
    assert env_of(client, env) == env


def test_a_terminal_adds_shell_when_absent(client):
    shell = pwd.getpwuid(os.getuid()).pw_shell
    assert env_of(client, {}, tty=True) == {"SHELL": shell}
    assert env_of(client, {"SHELL": "/bin/other", "A": "1"}, tty=True) == {"SHELL": "/bin/other", "A": "1"}
    assert "TERM" not in env_of(client, {"PATH": "/bin"}, tty=True)


# envPolicy


def test_inherit_all(client):
    assert env_of(client, envPolicy=policy("all")) == inherited()


def test_inherit_core(client):
    assert env_of(client, envPolicy=policy("core")) == inherited(CORE)


def test_inherit_none(client):
    assert env_of(client, envPolicy=policy("none")) == {}


def test_default_excludes(client):
    assert env_of(client, envPolicy=policy("all", ignore=False)) == inherited(set(SERVER_ENV) - HIDDEN)


@pytest.mark.parametrize("patterns, gone", [
    (["E2E_HIDE*"], {"E2E_HIDE", "E2E_HIDE_1"}),
    (["e2e_hide*"], {"E2E_HIDE", "E2E_HIDE_1"}),
    (["*hide"], {"E2E_HIDE", "XE2E_HIDE"}),
    (["*E2E*"], {"E2E_HIDE", "E2E_HIDE_1", "XE2E_HIDE"}),
    (["ONE?"], {"ONE1"}),
    (["ONE??"], {"ONE22"}),
    (["?NE*"], {"ONE1", "ONE22"}),
    (["ONE"], set()),
    (["plain", "EMPTY"], {"PLAIN", "EMPTY"}),
    (["*"], set(SERVER_ENV)),
    (["**"], set(SERVER_ENV)),
    (["P*A*N", "L*G*X"], {"PLAIN"}),
    ([""], set()),
    (["[A-Z]*", "PLAI.", "PLAI+N"], set()),
])
def test_exclude_patterns(client, patterns, gone):
    assert env_of(client, envPolicy=policy("all", exclude=patterns)) == inherited(set(SERVER_ENV) - gone)


def test_set_is_not_filtered_by_the_excludes(client):
    got = env_of(client, envPolicy=policy("all", ignore=False, exclude=["NEW*", "PLAIN"],
                                          set={"NEW_KEY": "1", "PLAIN": "again", "HOME": "/other"}))
    want = inherited(set(SERVER_ENV) - HIDDEN)
    want.update({"NEW_KEY": "1", "PLAIN": "again", "HOME": "/other"})
    assert got == want


def test_include_only_filters_set_as_well(client):
    got = env_of(client, envPolicy=policy("all", include=["ONE*", "new_a"], set={"NEW_A": "a", "NEW_B": "b"}))
    assert got == {"ONE1": "1", "ONE22": "22", "NEW_A": "a"}


def test_an_empty_include_only_filters_nothing(client):
    assert env_of(client, envPolicy=policy("none", set={"A": "1"})) == {"A": "1"}


def test_env_is_laid_over_unfiltered(client):
    got = env_of(client, {"MY_API_KEY": "mine", "E2E_HIDE": "shown", "PLAIN": "over", "OTHER": "o"},
                 envPolicy=policy("all", ignore=False, exclude=["E2E*", "OTHER"], include=["PLAIN", "ONE1"],
                                  set={"PLAIN": "set"}))
    assert got == {"ONE1": "1", "PLAIN": "over", "MY_API_KEY": "mine", "E2E_HIDE": "shown", "OTHER": "o"}


def test_names_are_case_sensitive_where_they_are_names(client):
    assert env_of(client, {"path": "x"}, envPolicy=policy("none",
                                                          set={"PATH": "/bin"})) == {"path": "x", "PATH": "/bin"}


def test_a_policy_on_a_terminal(client):
    assert env_of(client, {"A": "1"}, tty=True, envPolicy=policy("core")) == {**inherited(CORE), "A": "1"}


def test_values_with_equals_signs_and_newlines_are_inherited(client):
    got = env_of(client, envPolicy=policy("all", include=["WITH_EQ", "MULTI", "EMPTY"]))
    assert got == {"WITH_EQ": "a=b=c", "MULTI": "a\nb", "EMPTY": ""}


@pytest.mark.parametrize("name", SECRETS)
def test_some_names_are_removed_from_every_source(client, name):
    assert name not in env_of(client, envPolicy=policy("all"))
    other_case = name if name == "CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE" else name.swapcase()
    assert env_of(client, {name: "x", other_case: "y", "A": "1"}) == {"A": "1"}
    assert env_of(client, {name: "x"}, envPolicy=policy("none", set={name: "y", "A": "1"}, include=["*"])) == {"A": "1"}


@pytest.mark.skipif("farhand" not in os.path.basename(BIN), reason="a rule of this server")
@pytest.mark.parametrize("name", OUR_SECRETS)
def test_our_own_secrets_stay_with_the_server(client, name):
    assert name not in env_of(client, envPolicy=policy("all"))


def test_the_path_of_the_policy_finds_the_program(client, tmp):
    with open(f"{tmp}/tool", "w", encoding="ascii") as f:
        f.write("#!/bin/sh\necho tool\n")
    os.chmod(f"{tmp}/tool", 0o755)
    assert client.run(["tool"], env={}, envPolicy=policy("none", set={"PATH": tmp}))[0] == b"tool\n"


@pytest.mark.parametrize("member", ["inherit", "ignoreDefaultExcludes", "exclude", "set", "includeOnly"])
def test_every_member_of_a_policy_is_required(client, member):
    broken = policy()
    del broken[member]
    err = client.error("process/start", {"processId": "p", "argv": ["/bin/true"], "cwd": "file:///tmp", "env": {},
                                         "tty": False, "envPolicy": broken})
    assert (err.code, err.message) == (-32602, f"missing field `{member}`")


@pytest.mark.parametrize("change", [{"inherit": "bogus"}, {"inherit": "ALL"}, {"inherit": None}, {"inherit": 1},
                                    {"ignoreDefaultExcludes": None},
                                    {"ignoreDefaultExcludes": 0}, {"exclude": None}, {"exclude": "x"}, {"exclude": [1]},
                                    {"set": None}, {"set": []},
                                    {"set": {"A": 1}}, {"includeOnly": None}, {"includeOnly": {}},
                                    {"includeOnly": [None]}], ids=str)
def test_wrong_members_of_a_policy_are_refused(client, change):
    broken = {**policy(), **change}
    err = client.error("process/start", {"processId": "p", "argv": ["/bin/true"], "cwd": "file:///tmp", "env": {},
                                         "tty": False, "envPolicy": broken})
    assert err.code == -32602


def test_a_nul_byte_in_set_is_refused(client):
    for broken in (policy(set={"A": "x\0y"}), policy(set={"A\0": "x"})):
        err = client.error("process/start", {"processId": "p", "argv": ["/bin/true"], "cwd": "file:///tmp", "env": {},
                                             "tty": False,
                                             "envPolicy": broken})
        assert (err.code, err.message) == (-32603, "data provided contains a nul byte")


def test_a_pattern_cannot_be_made_to_run_for_long(client):
    evil = "*" + "a*" * 200 + "b"
    assert "LONG" in env_of(client, envPolicy=policy("none", exclude=[evil] * 20, set={"LONG": "1"},
                                                     include=["*", evil]))


# environment/info and environment/status


def path_of(uri):
    parts = urllib.parse.urlsplit(uri)
    assert (parts.scheme, parts.netloc, parts.query, parts.fragment) == ("file", "", "", "")
    assert uri.isascii() and " " not in uri
    return os.fsdecode(urllib.parse.unquote_to_bytes(parts.path))


def test_info_names_a_shell_that_exists(client):
    shell = client.call("environment/info")["shell"]
    assert set(shell) >= {"name", "path"}
    assert shell["name"] in ("bash", "zsh", "sh")
    assert os.path.basename(shell["path"]) == shell["name"]
    assert os.stat(shell["path"]).st_mode & stat.S_IXUSR
    login = pwd.getpwuid(os.getuid()).pw_shell
    if os.path.basename(login) in ("bash", "zsh", "sh"):
        assert shell["path"] == login


def test_info_tells_where_the_server_stands(server, client):
    info = client.call("environment/info")
    assert path_of(info["cwd"]) == os.readlink(f"/proc/{server.pid}/cwd")
    assert [path_of(uri) for uri in info["temporaryDirectories"]] == ["/var/tmp"]
    assert path_of(info["tempDir"]) == "/var/tmp"
    assert info.get("platformOs", "linux") == "linux"


@pytest.mark.parametrize("spelled", ["rel/t", "./rel//t/", "rel/x/../t"])
def test_a_relative_tmpdir_is_below_the_cwd_of_the_server(tmp, spelled):
    os.makedirs(f"{tmp}/rel/t")
    with Server(env={"TMPDIR": spelled}, cwd=tmp) as server, server.connect() as client:
        info = client.call("environment/info")
        assert info["temporaryDirectories"] == [f"file://{os.path.realpath(tmp)}/rel/t"]
        assert info["tempDir"] == f"file://{os.path.realpath(tmp)}/rel/t"


def test_info_without_tmpdir():
    with Server(env={"TMPDIR": None}) as server, server.connect() as client:
        info = client.call("environment/info")
        assert info["temporaryDirectories"] == []
        assert info["tempDir"] == "file:///tmp"


def test_info_lists_only_what_the_server_can(client):
    capabilities = client.call("environment/info").get("capabilities", {})
    assert all(isinstance(value, bool) for value in capabilities.values())
    for name in ("capabilityDiscoveryV2",
                 "credentialMasking", "credentialMaskingCustomProviders", "windowsMxc"):
        assert not capabilities.get(name), name


def test_initialize_brings_the_same_info(client):
    assert client.init_result["environmentInfo"] == client.call("environment/info")


def test_the_working_directory_of_the_info_works_as_cwd(client):
    info = client.call("environment/info")
    assert client.run(["/bin/pwd"], cwd=info["cwd"])[0].decode() == path_of(info["cwd"]) + "\n"


def test_status_is_ready(client):
    assert client.call("environment/status") == {"status": "ready"}


@pytest.mark.parametrize("method", ["environment/info", "environment/status"])
def test_methods_without_params(client, method):
    whole = client.call(method)
    assert client.call(method, {}) == whole
    client.send_json({"id": "null", "method": method, "params": None})
    assert client.result("null") == whole
    err = client.error(method, {"a": 1})
    assert (err.code, err.message) == (-32602, "invalid type: map, expected unit")
    for value in ("x", 5, True, [1]):
        assert client.error(method, value).code == -32602
