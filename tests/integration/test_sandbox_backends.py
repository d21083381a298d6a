"""What enforces sandboxes: which back end is chosen and told, what Landlock alone enforces, and what is refused.

Back ends are taken away from a server by a filter of system calls (Landlock), by a user namespace of its own in which no
other may be made (namespaces), and by an empty PATH (bubblewrap). Nothing of the machine is touched.
"""

import base64
import ctypes
import json
import os
import resource
import socket
import struct
import subprocess
import tempfile

import pytest

from cmd_rig import BIN, INSIDE, cmd_of
from farhand_client import Client, RpcError, Server, pid_alive, pid_gone, wait_until
from sandbox_rig import (REFUSAL, USERS, Rig, at, become, landlock_abi, narrow, read_only, restricted, rig_of, sandbox, snapshot,
                         unrestricted, uri, why_not, workspace_write)
from test_sandbox_access import CASES, judge, look, run_check

LANDLOCK = ["--sandbox-backend", "landlock"]
EPERM, EACCES, ENOSPC, ENOSYS, EOPNOTSUPP = 1, 13, 28, 38, 95

# What Landlock alone enforces. All other cases protect or deny something inside of what they allow.
CLAIMED = {
    "root_read_only", "empty_entries_deny_everything", "root_write_is_full_access", "managed_unrestricted_net_restricted",
    "managed_unrestricted_net_enabled", "disabled", "external_restricted", "external_enabled",
    "project_roots_without_workspace_roots_is_dropped", "minimal_only", "minimal_plus_workspace_read",
    "workspace_read_without_minimal", "slash_tmp_read_only", "tmpdir_write_unset", "single_file_writable_root",
    "single_file_readable_root", "root_write_and_root_read", "root_write_and_root_deny", "alias_readable_root",
    "glob_read_entry_has_no_effect", "glob_write_entry_has_no_effect", "unknown_special_alone", "subpath_escape_dropped",
    "cwd_unreadable", "dev_nodes",
    # Refused by every back end.
    "git_symlink_in_root_fails_closed", "codex_symlink_in_root_fails_closed", "git_symlink_outside_fails_closed",
    "deny_through_writable_symlink_fails_closed", "read_through_writable_symlink_fails_closed",
    "glob_symlink_match_in_writable_fails_closed", "glob_root_prefix_fails_closed",
}
# Landlock alone gives a command no /dev/shm of its own, and denies that of the machine.
STRICTER = {("dev_nodes", "/dev/shm/vec-vec")}

libc = ctypes.CDLL(None, use_errno=True)


# Servers that lack something


def without_landlock():
    """For preexec_fn: a filter that answers ENOSYS to the calls of Landlock, as an old kernel does."""
    allow, nosys = 0x7FFF0000, 0x00050000 | ENOSYS
    code = [(0x20, 0, 0, 0), (0x35, 0, 2, 444), (0x25, 1, 0, 446), (0x06, 0, 0, nosys), (0x06, 0, 0, allow)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
    head = struct.pack("HxxxxxxP", len(code), ctypes.addressof(program))
    check(libc.prctl(38, 1, 0, 0, 0), "no_new_privs")
    check(libc.prctl(22, 2, ctypes.c_char_p(head), 0, 0), "seccomp")


def without_namespaces():
    """For preexec_fn: enters a user namespace in which no further one may be made. The limit holds only there."""
    before, uid, gid = os.readlink("/proc/self/ns/user"), os.geteuid(), os.getegid()
    check(libc.prctl(4, 1, 0, 0, 0), "dumpable")
    check(libc.unshare(0x10000000), "unshare")
    if os.readlink("/proc/self/ns/user") == before:
        raise OSError("still in the namespace of the machine")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as f:
            f.write(text)
    with open("/proc/sys/user/max_user_namespaces", "w", encoding="ascii") as f:
        f.write("0")


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


class Poor(Rig):
    """A server that lacks what the functions take away."""

    def __init__(self, user, *without, **kw):
        self.without = without
        super().__init__(user, **kw)

    def new_server(self, config=None, **kw):
        args = ["--log-level", "info", *self.args]
        if config is not None:
            args += ["--config", self.home.file(os.path.join(self.home.base, f"{next(self._names)}.toml"), config)]

        def prepare():
            become(self.uid)()
            for take_away in self.without:
                take_away()

        return Server(args, env=self.env, preexec_fn=prepare, umask=0o022, **kw)

    @property
    def backend(self):
        return self.client.call("environment/info", {})["sandboxBackend"]

    def refusal(self, profile):
        """The error of a start. Checks that no command ran and no file was made."""
        tree = self.tree()
        tree.dir(tree.w)
        before = snapshot(tree.base)
        done = self.sh("echo ran > ran", profile, tree.w)
        assert done.refused is not None, done
        assert done.refused.code == -32602 and done.refused.data["reason"] == "sandboxUnavailable"
        assert done.refused.message.startswith(REFUSAL)
        assert snapshot(tree.base) == before
        return done.refused


def need(user):
    reason = why_not(user)
    if reason is not None:
        pytest.skip(reason)


def need_landlock():
    if landlock_abi() < 6:
        pytest.skip(f"Landlock: ABI {landlock_abi()}")


@pytest.fixture(params=USERS)
def user(request):
    need(request.param)
    return request.param


@pytest.fixture(scope="module", params=USERS)
def alone(request):
    """A server that is told to use Landlock."""
    need_landlock()
    with rig_of(request.param, args=LANDLOCK) as rig:
        yield rig


# The choice


def test_the_choice_is_told_to_clients_and_in_the_log(user):
    with Poor(user) as rig:
        assert rig.backend == "namespaces"
        wait_until(lambda: "sandbox back end backend=namespaces" in rig.server.stderr())


def test_the_initialize_answer_has_it_once_it_is_known(user):
    with Poor(user) as rig:
        assert rig.backend == "namespaces"
        with Client(rig.server.url) as late:
            assert late.init_result["environmentInfo"]["sandboxBackend"] == "namespaces"


def test_it_is_found_out_though_nobody_asks(user):
    with Poor(user) as rig:
        wait_until(lambda: "sandbox back end backend=namespaces" in rig.server.stderr())


def test_the_configuration_file_chooses_and_the_flag_wins(user):
    need_landlock()
    with Poor(user) as rig:
        with rig.new_server(config='sandbox_backend = "landlock"\n') as server, Client(server.url) as c:
            assert c.call("environment/info", {})["sandboxBackend"] == "landlock"
        rig.args = ["--sandbox-backend", "namespaces"]
        with rig.new_server(config='sandbox_backend = "landlock"\n') as server, Client(server.url) as c:
            assert c.call("environment/info", {})["sandboxBackend"] == "namespaces"


def test_a_word_that_is_no_back_end_is_refused():
    for command in (["serve"], ["sandbox", "--", "true"], ["doctor"]):
        done = subprocess.run([BIN, command[0], "--sandbox-backend", "bwrap", *command[1:]], capture_output=True,
                              check=False, timeout=60)
        assert done.returncode in (2, 125) and b"auto, namespaces, bubblewrap or landlock" in done.stderr


# Refusals


def test_without_namespaces_landlock_is_chosen_and_cannot_protect_names(user):
    need_landlock()
    with Poor(user, without_namespaces) as rig:
        assert rig.backend == "landlock"
        assert rig.sh("echo ran", read_only(), "/").out == b"ran\n"
        refused = rig.refusal(workspace_write())
        assert (refused.data["step"], refused.data["errno"]) == ("landlock", EOPNOTSUPP)
        assert "user.max_user_namespaces" in refused.data["remedy"]
        assert "namespaces do not work" in refused.message and f"(os error {ENOSPC})" in refused.message


def test_exhausted_namespaces_are_told_when_they_are_forced(user):
    with Poor(user, without_namespaces, args=["--sandbox-backend", "namespaces"]) as rig:
        assert rig.backend == "none"
        for profile in (read_only(), workspace_write(), narrow()):
            refused = rig.refusal(profile)
            assert (refused.data["step"], refused.data["errno"]) == ("namespaces", ENOSPC)
            assert "user.max_user_namespaces" in refused.data["remedy"]
        wait_until(lambda: "sandboxes cannot be enforced" in rig.server.stderr())


def test_where_landlock_is_missing_it_is_told_when_it_is_forced(user):
    with Poor(user, without_landlock, args=LANDLOCK) as rig:
        assert rig.backend == "none"
        for profile in (read_only(), narrow(), unrestricted()):
            refused = rig.refusal(profile)
            assert (refused.data["step"], refused.data["errno"]) == ("landlock", ENOSYS)
            assert "landlock" in refused.data["remedy"]


def test_where_landlock_is_missing_namespaces_do_without(user):
    with Poor(user, without_landlock) as rig:
        assert rig.backend == "namespaces"
        tree = rig.tree()
        tree.dir(tree.w)
        assert rig.sh("echo x > f && ! mkdir .git 2>/dev/null && echo ran", workspace_write(), tree.w).out == b"ran\n"


def test_where_nothing_works_everything_is_refused_with_all_reasons(user):
    with Poor(user, without_namespaces, without_landlock, env={"PATH": "/nonexistent"}) as rig:
        assert rig.backend == "none"
        refused = rig.refusal(read_only())
        assert (refused.data["step"], refused.data["errno"]) == ("namespaces", ENOSPC)
        assert all(word in refused.message for word in ("namespaces: ", "bubblewrap: ", "landlock: "))
        tree = rig.tree()
        assert rig.sh("echo ran", {"type": "disabled"}, tree.base).out == b"ran\n"


def test_a_forced_bubblewrap_that_is_not_there_is_told(user):
    with Poor(user, args=["--sandbox-backend", "bubblewrap"], env={"PATH": "/nonexistent"}) as rig:
        assert rig.backend == "none"
        refused = rig.refusal(read_only())
        assert refused.data["step"] == "bubblewrap" and "bubblewrap" in refused.data["remedy"]


def test_doctor_says_what_is_chosen_inside_of_a_sandbox_and_why_not_the_rest():
    """In a sandbox of Farhand no namespaces can be made."""
    need_landlock()
    with cmd_of(USERS[0] if os.geteuid() == 0 else USERS[1]) as cmd:
        code, out, _ = cmd.run([*INSIDE, "doctor", "--json"], env={"PATH": "/usr/bin:/bin"})
        report = json.loads(out)
        found = {f["name"]: f for f in report["findings"]}
        assert (code, report["canEnforce"], report["backend"]) == (0, True, "landlock")
        assert found["back end namespaces"]["errno"] == "EPERM" and found["back end namespaces"]["status"] == "warn"
        assert found["back end landlock"]["text"] == "works, and is chosen"
        assert b"only those that deny and protect nothing" in cmd.run([*INSIDE, "doctor"])[1]
        code, out, err = cmd.run([*INSIDE, "sandbox", "--", "echo", "ran"])
        assert (code, out, err) == (0, b"ran\n", b"")
        code, out, err = cmd.run([*INSIDE, "sandbox", "--workspace-write", "--", "echo", "ran"])
        assert (code, out) == (125, b"") and b"step: landlock, errno: EOPNOTSUPP" in err


# Landlock alone


@pytest.mark.parametrize("name", CASES)
def test_access_with_landlock_alone(alone, name):
    for check_ in CASES[name]["checks"]:
        if name not in CLAIMED:
            done, tree, before, path = run_check(alone, CASES[name], check_)
            assert done.refused is not None, f"{check_['op']} {check_['path']} was not refused: {done}"
            assert (done.refused.data["step"], done.refused.data["errno"]) == ("landlock", EOPNOTSUPP)
            assert done.refused.message.startswith(REFUSAL) and done.refused.data["remedy"]
            assert look(tree, path) == before
        elif (name, check_["path"]) in STRICTER:
            done = run_check(alone, CASES[name], check_)[0]
            assert done.refused is None and done.code != 0 and b"Permission denied" in done.err
        else:
            assert judge(alone, name, check_) is None


ATTEMPTS = r"""
import ctypes, errno, json, os, resource, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
target, victim = sys.argv[1], int(sys.argv[2])
said = {}
def attempt(name, fn):
    try:
        fn()
        said[name] = 0
    except OSError as e:
        said[name] = e.errno
def call(*args):
    if libc.syscall(*args) < 0:
        raise OSError(ctypes.get_errno(), "")
for family in range(1, 46):
    attempt(f"socket {family}", lambda: socket.socket(family, socket.SOCK_STREAM))
attempt("pair", socket.socketpair)
attempt("chmod", lambda: os.chmod(target, 0o600))
attempt("chown", lambda: os.chown(target, os.getuid(), os.getgid()))
attempt("utime", lambda: os.utime(target))
attempt("xattr", lambda: os.setxattr(target, "user.x", b"x"))
attempt("write", lambda: open(target, "w"))
attempt("truncate", lambda: os.truncate(target, 0))
attempt("remove", lambda: os.remove(target))
attempt("rename", lambda: os.rename(target, target + "2"))
attempt("link", lambda: os.link(target, target + "2"))
attempt("create", lambda: open(target + "2", "x"))
attempt("tmpfile", lambda: os.open(os.path.dirname(target), os.O_TMPFILE | os.O_RDWR))
attempt("fifo", lambda: os.mkfifo(target + "2"))
attempt("flags", lambda: __import__("fcntl").ioctl(os.open(target, os.O_RDONLY), 0x40086602, b"\0" * 8))
attempt("sysctl", lambda: os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
attempt("shm", lambda: os.remove(open(f"/dev/shm/farhand-{victim}", "x").name))
attempt("shared", lambda: open(sys.argv[3]).read())
attempt("ptmx", lambda: os.open("/dev/ptmx", os.O_RDWR))
attempt("environ", lambda: open(f"/proc/{victim}/environ").read())
attempt("mem", lambda: open(f"/proc/{victim}/mem", "rb"))
attempt("root", lambda: os.listdir(f"/proc/{victim}/root/"))
attempt("signal", lambda: os.kill(victim, 0))
attempt("prlimit", lambda: resource.prlimit(victim, resource.RLIMIT_CPU, (1, 1)))
attempt("own limit", lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, victim, 10))
attempt("own priority", lambda: os.setpriority(os.PRIO_PROCESS, 0, 10))
attempt("shmget", lambda: call(29 if os.uname().machine == "x86_64" else 194, 0, 4096, 0o1600))
attempt("unshare", lambda: call(97 if os.uname().machine == "aarch64" else 272, 0x10000000))
attempt("null", lambda: open("/dev/null", "w").write("x"))
attempt("urandom", lambda: open("/dev/urandom", "rb").read(1))
attempt("self", lambda: open("/proc/self/status").read())
with open("/proc/self/status") as f:
    said["status"] = {k: v.strip() for k, _, v in (line.partition(":") for line in f)}
print(json.dumps(said))
"""


@pytest.fixture
def victim(alone):
    """A process of the same user, outside."""
    with subprocess.Popen(["/bin/sleep", "3600"], env={"MARK": "of-the-victim"}, preexec_fn=become(alone.uid)) as proc:
        yield proc
        assert proc.poll() is None
        proc.kill()


def attempts(rig, profile, victim):
    tree = rig.tree()
    target = tree.file(os.path.join(tree.o, "target"))
    tree.dir(tree.w)
    before = snapshot(tree.base, inodes=True, times=True)
    with tempfile.NamedTemporaryFile("w", prefix="farhand-", dir="/dev/shm") as shared:
        os.chmod(shared.name, 0o666)
        done = rig.run(["/usr/bin/python3", "-c", ATTEMPTS, target, str(victim.pid), shared.name], profile, "/")
    assert done.ok, done
    return json.loads(done.out), before == snapshot(tree.base, inodes=True, times=True)


@pytest.mark.parametrize("network", ["restricted", "enabled"])
def test_nothing_outside_is_changed_or_reached(alone, victim, network):
    said, is_same = attempts(alone, read_only(network=network), victim)
    assert is_same
    for name in ("chmod", "chown", "utime", "xattr", "flags", "prlimit", "priority", "signal", "shmget", "unshare"):
        assert said[name] == EPERM, (name, said[name])
    for name in ("write", "truncate", "remove", "rename", "create", "tmpfile", "fifo", "sysctl", "shm", "shared", "ptmx",
                 "environ", "mem", "root"):
        assert said[name] == EACCES, (name, said[name])
    assert said["link"] != 0
    for name in ("pair", "own limit", "own priority", "null", "urandom", "self"):
        assert said[name] == 0, (name, said[name])
    assert said["socket 2"] == (EPERM if network == "restricted" else 0)
    if network == "restricted":
        assert {said[f"socket {family}"] for family in range(1, 46)} == {EPERM}
    status = said["status"]
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb") + (("CapBnd",) if alone.uid == 0 else ()):
        assert int(status[name], 16) == 0, name
    assert not os.path.exists(f"/dev/shm/farhand-{victim.pid}")


def test_where_only_the_network_is_taken_files_are_free_and_others_are_not_looked_into(alone, victim):
    said, _ = attempts(alone, unrestricted(), victim)
    assert {said[f"socket {family}"] for family in range(1, 46)} == {EPERM}
    assert said["chmod"] == said["utime"] == said["write"] == said["pair"] == 0
    assert said["mem"] != 0
    # Root keeps its privileges and can read the environment of other processes, but cannot change anything there.
    assert alone.uid == 0 or said["environ"] != 0


def test_only_what_is_named_is_read(alone):
    tree = alone.tree()
    inside, outside = tree.file(os.path.join(tree.w, "in")), tree.file(os.path.join(tree.o, "out"))
    script = 'cat "$1"; cat "$2"; ls "$3"; ls /; cat /proc/1/cmdline /proc/$PPID/status; head -c0 /dev/null && echo end'
    done = alone.sh(script, narrow(at(tree.w, "read")), tree.w, inside, outside, tree.o)
    assert done.out == b"data\nend\n", done
    assert done.err.count(b"Permission denied") == 5


def test_a_writable_file_is_written_and_not_replaced(alone):
    tree = alone.tree()
    path = tree.file(os.path.join(tree.o, "one"))
    done = alone.sh('echo new > "$1" && cat "$1"; mv "$1" "$1-moved"; echo x > "$1-new"; rm "$1"', read_only(at(path, "write")),
                    "/", path)
    assert done.out == b"new\n" and done.err.count(b"Permission denied") == 3
    assert os.listdir(tree.o) == ["one"]


def test_a_path_that_was_replaced_meanwhile_is_not_opened(alone):
    """Rights are granted only to the file that was planned: a link in its place is not followed."""
    tree = alone.tree()
    tree.file(os.path.join(tree.o, "real", "f"))
    tree.link(os.path.join(tree.w, "link"), os.path.join(tree.o, "real"))
    done = alone.sh('cat "$1/f"', narrow(at(os.path.join(tree.w, "link"), "read")), "/", os.path.join(tree.w, "link"))
    assert done.out == b"data\n", done


def test_a_terminal_is_the_commands_own_and_no_other(alone):
    script = ('test -t 0 && stty size && tty; echo x > /dev/tty && echo y > /dev/stderr; '
              'for t in /dev/pts/[0-9]*; do [ "$t" = "$(tty)" ] || echo z > "$t"; done; echo end')
    done = alone.sh(script, read_only(), "/", tty=True, shell="/bin/bash")
    text = done.out.decode()
    assert done.ok and "24 80" in text and "x\r\n" in text and "y\r\n" in text and text.endswith("end\r\n"), done


def test_the_whole_tree_ends_with_the_command(alone):
    tree = alone.tree()
    process_id = alone.start(["/bin/sh", "-c", "setsid sleep 3601 & echo $!; sleep 3602"], read_only(), tree.base)
    wait_until(lambda: alone.client.output(process_id, "stdout").endswith(b"\n"))
    orphan = int(alone.client.output(process_id, "stdout"))
    assert pid_alive(orphan)
    alone.client.call("process/terminate", {"processId": process_id})
    pid_gone(orphan)


def test_a_program_that_is_missing_is_told(alone):
    done = alone.run(["/nonexistent/program"], read_only(), "/")
    assert done.refused.data["step"] == "exec" and done.refused.data["errno"] == 2


def test_sockets_of_the_host_are_out_of_reach(alone):
    """The file of a unix socket may be read, but the command cannot make a socket to connect to it."""
    tree = alone.tree()
    path = os.path.join(tree.base, "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        os.chmod(path, 0o777)
        done = alone.run(["/usr/bin/python3", "-c", "import socket,sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])",
                          path], read_only(), "/")
        assert done.code != 0 and b"PermissionError" in done.err


# File requests with Landlock alone: the fs helper itself checks the rules, so that every profile can be enforced.


class Files:
    """Requests of one profile: what they answer, or the code of their error."""

    def __init__(self, rig, profile, cwd):
        self.client, self.box = rig.client, sandbox(profile, cwd)

    def ask(self, method, path, **more):
        try:
            return self.client.call(f"fs/{method}", {"path": uri(path), "sandbox": self.box, **more}, 30)
        except RpcError as refused:
            return refused.code

    def read(self, path):
        answer = self.ask("readFile", path)
        return base64.b64decode(answer["dataBase64"]) if isinstance(answer, dict) else answer

    def write(self, path):
        return self.ask("writeFile", path, dataBase64=base64.b64encode(b"new\n").decode())


def test_files_of_a_workspace_are_served_and_its_names_are_protected(alone):
    tree = alone.tree()
    tree.dir(os.path.join(tree.w, ".git"))
    outside = tree.file(os.path.join(tree.o, "f"))
    secret = tree.file(os.path.join(tree.w, "secret"))
    files = Files(alone, workspace_write(at(secret, "deny")), tree.w)
    assert files.write(os.path.join(tree.w, "f"))["size"] == 4
    assert files.read(os.path.join(tree.w, "f")) == b"new\n"
    before = snapshot(tree.base)
    assert files.write(os.path.join(tree.w, ".git", "config")) == -32603
    assert files.ask("createDirectory", os.path.join(tree.w, ".codex"), recursive=False) == -32603
    assert files.read(secret) == -32600 and files.write(secret) == -32603
    assert files.read(outside) == b"data\n" and files.write(outside) == -32603
    assert files.ask("setMetadata", outside, mode=0o600) in (-32600, -32603)
    assert files.read(f"/proc/{alone.server.pid}/environ") == -32600
    assert snapshot(tree.base) == before


def test_files_that_are_not_named_are_not_even_seen(alone):
    tree = alone.tree()
    inside, outside = tree.file(os.path.join(tree.w, "in")), tree.file(os.path.join(tree.o, "out"))
    link = tree.link(os.path.join(tree.o, "link"), "out")
    files = Files(alone, narrow(at(tree.w, "read")), tree.w)
    assert files.read(inside) == b"data\n" and files.ask("getMetadata", inside)["isFile"]
    for path in (outside, link, tree.o, os.path.join(tree.o, "missing")):
        for method in ("readFile", "getMetadata", "canonicalize", "readDirectory"):
            assert files.ask(method, path) == -32004, (method, path)


@pytest.mark.parametrize("backend", ["namespaces", "landlock"])
def test_what_lies_beside_the_way_to_something_open_is_not_seen(user, backend):
    if backend == "landlock":
        need_landlock()
    with Rig(user, args=["--sandbox-backend", backend]) as rig:
        tree = rig.tree()
        public, secret = tree.file(os.path.join(tree.o, "pub", "f")), tree.file(os.path.join(tree.o, "secret"))
        tree.dir(tree.w)
        files = Files(rig, read_only(at(tree.o, "deny"), at(os.path.dirname(public), "read")), tree.w)
        assert files.read(public) == b"data\n"
        for method in ("readFile", "getMetadata", "canonicalize"):
            assert files.ask(method, secret) == -32004, method
        assert files.ask("readDirectory", tree.o) == -32600


def test_files_of_a_writable_machine_are_refused(alone):
    tree = alone.tree()
    path = tree.file(os.path.join(tree.o, "f"))
    files = Files(alone, restricted({"path": {"type": "special", "value": {"kind": "root"}}, "access": "write"},
                                    at(path, "read")), "/")
    with pytest.raises(RpcError) as refused:
        files.client.call("fs/writeFile", {"path": uri(path), "sandbox": files.box, "dataBase64": ""})
    assert refused.value.message.startswith(REFUSAL)


def test_files_are_refused_where_nothing_works(user):
    with Poor(user, without_namespaces, without_landlock, env={"PATH": "/nonexistent"}) as rig:
        tree = rig.tree()
        path = tree.file(os.path.join(tree.w, "f"))
        files = Files(rig, workspace_write(), tree.w)
        with pytest.raises(RpcError) as refused:
            files.client.call("fs/writeFile", {"path": uri(path), "sandbox": files.box, "dataBase64": ""})
        assert refused.value.message.startswith(REFUSAL) and refused.value.data["remedy"]
        with open(path, encoding="ascii") as f:
            assert f.read() == "data\n"


# A machine that cannot start processes for a while


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user that runs nothing else")
def test_a_machine_that_is_full_at_the_start_is_tried_again():
    """Commands can use up the processes of their user while another server of that user starts. A self-test that
    fails for that reason is repeated, and no weaker back end is chosen."""
    uid = 63_000 + os.getpid() % 1000  # a user id that no other process has
    reason = why_not("unprivileged")
    if reason is not None:
        pytest.skip(reason)

    def few_processes():
        resource.setrlimit(resource.RLIMIT_NPROC, (3, 1000))  # the server, a thread for files, the spawner
        become(uid)()

    with Rig("unprivileged", uid=uid, preexec_fn=few_processes) as rig:
        tree = rig.tree()
        assert "sandboxBackend" not in rig.client.call("environment/info")
        refused = rig.sh("echo ran", read_only(), tree.base).refused
        assert refused.data["errnoName"] == "EAGAIN" and "landlock" not in refused.message
        with open(f"/proc/{rig.server.pid}/task/{rig.server.pid}/children", encoding="ascii") as children:
            for pid in [str(rig.server.pid), *children.read().split()]:
                subprocess.run(["prlimit", "--pid", pid, "--nproc=1000:1000"], preexec_fn=become(uid), check=True)
        wait_until(lambda: rig.client.call("environment/info").get("sandboxBackend") not in (None, "none"),
                   what="another attempt")
        done = rig.sh("echo ran", read_only(), tree.base)
        assert done.ok and done.out == b"ran\n", done
