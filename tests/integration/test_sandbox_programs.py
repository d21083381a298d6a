"""Ordinary programs work in a sandbox whose workspace is writable and whose network is restricted."""

import os
import re
import shutil

import pytest

from farhand_client import RpcError, wait_until
from sandbox_rig import USERS, at, narrow, read_only, rig_of, special, uri, workspace_write

PYTHON = "/usr/bin/python3"
GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b.c",
       "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@b.c"}


@pytest.fixture(scope="module", params=USERS)
def rig(request):
    with rig_of(request.param, env={"FARHAND_TEST_SECRET": "of the server"}) as r:
        yield r


class Bench:
    """A tree to work in."""

    def __init__(self, rig):
        self.rig = rig
        self.tree = rig.tree()
        self.w = self.tree.dir(self.tree.w)
        self.env = {"HOME": self.tree.dir(self.tree.o), "TMPDIR": self.tree.dir(self.tree.t)}
        self.profile = workspace_write(special("tmpdir", "write"))

    def file(self, name, content):
        return self.tree.file(os.path.join(self.w, name), content)

    def run(self, argv, code=0, env=None, **kw):
        """Runs a command that has to exit with `code`. Returns its Outcome."""
        done = self.rig.run(argv, self.profile, self.w, env={**self.env, **(env or {})}, timeout=60, **kw)
        assert done.refused is None and done.code == code, done
        return done

    def sh(self, script, *args, **kw):
        return self.run(["/bin/bash", "-c", script, "bash", *args], **kw)

    def python(self, script, **kw):
        return self.run([PYTHON, "-c", script], **kw)


@pytest.fixture
def bench(rig):
    return Bench(rig)


def need(program):
    if shutil.which(program, path="/usr/bin:/bin") is None:
        pytest.skip(f"{program} is not installed")


# git, make, gcc


def test_git_in_a_subdirectory(bench):
    need("git")
    done = bench.sh("set -e; git init -q repo; cd repo; echo one > f; git add f; git commit -q -m one; echo two >> f;"
                    " git commit -q -a -m two; git log --format=%s; git worktree add -q -b side ../side; cd ../side;"
                    " echo three > g; git add g; git commit -q -m three; git log --format=%s; git status --porcelain;"
                    " git gc -q; git fsck", env=GIT)
    assert done.out.split() == b"two one three two one".split()
    assert os.path.isdir(bench.w + "/repo/.git") and os.path.isfile(bench.w + "/side/.git")


def test_git_reads_a_repository_that_is_protected(bench):
    need("git")
    bench.profile = {"type": "disabled"}
    bench.sh("git init -q . && echo one > f && git add f && git commit -q -m one", env=GIT)
    bench.profile = workspace_write(special("tmpdir", "write"))
    done = bench.sh("echo two >> f; git log --format=%s; git status --porcelain; git diff --stat", env=GIT)
    assert done.out.startswith(b"one\n M f\n"), done
    done = bench.sh("git commit -q -a -m two", code=128, env=GIT)
    assert b"Read-only file system" in done.err and done.denied is True
    assert bench.sh("git log --format=%s", env=GIT).out == b"one\n"


def test_make_and_gcc(bench):
    need("make")
    need("gcc")
    bench.file("Makefile", "all: a.o b.o\n\t$(CC) -o all $^\n\t./all\n")
    bench.file("a.c", "#include <stdio.h>\nint b(void);\nint main(void) { printf(\"%d\\n\", b()); return 0; }\n")
    bench.file("b.c", "int b(void) { return 42; }\n")
    done = bench.sh("make -j2 -s CC=gcc CFLAGS='-O1 -pipe' && make -s clean all CC=gcc 2>&1 || make -s CC=gcc -B")
    assert b"42\n" in done.out, done
    assert os.access(bench.w + "/all", os.X_OK)


def test_gcc_finds_a_place_for_temporary_files_without_tmpdir(bench):
    need("gcc")
    bench.file("a.c", "int main(void) { return 3; }\n")
    del bench.env["TMPDIR"]
    bench.sh("gcc -o a a.c && ./a", code=3)


# python3


def test_multiprocessing(bench):
    done = bench.python("import multiprocessing as m\n"
                        "if __name__ == '__main__':\n"
                        "    with m.Pool(3) as pool: print(sum(pool.map(abs, range(-50, 50))))\n"
                        "    q = m.Queue(); lock = m.Lock()\n"
                        "    p = m.Process(target=q.put, args=(7,)); p.start(); print(q.get()); p.join()\n"
                        "    with lock: print(m.Value('i', 5).value)\n")
    assert done.out.split() == [b"2500", b"7", b"5"]


def test_multiprocessing_by_spawn(bench):
    bench.file("work.py", "def double(x):\n    return 2 * x\n")
    bench.file("main.py", "import multiprocessing as m, work\n"
                          "if __name__ == '__main__':\n"
                          "    with m.get_context('spawn').Pool(2) as pool: print(pool.map(work.double, [1, 2]))\n")
    assert bench.run([PYTHON, "main.py"]).out == b"[2, 4]\n"


def test_futures_and_threads(bench):
    done = bench.python("import concurrent.futures as f\n"
                        "if __name__ == '__main__':\n"
                        "    for kind in f.ProcessPoolExecutor, f.ThreadPoolExecutor:\n"
                        "        with kind(2) as pool: print(sum(pool.map(abs, [-1, -2, -3])))\n")
    assert done.out == b"6\n6\n"


def test_asyncio(bench):
    """The event loop, which uses a socket pair, with child processes, servers and clients."""
    done = bench.python(
        "import asyncio, threading\n"
        "async def main():\n"
        "    p = await asyncio.create_subprocess_exec('cat', stdin=-1, stdout=-1)\n"
        "    print((await p.communicate(b'through cat'))[0].decode())\n"
        "    async def serve(r, w):\n"
        "        w.write((await r.readline()).upper()); await w.drain(); w.close()\n"
        "    server = await asyncio.start_server(serve, '127.0.0.1', 0)\n"
        "    r, w = await asyncio.open_connection(*server.sockets[0].getsockname())\n"
        "    w.write(b'hello\\n'); print((await r.readline()).decode().strip())\n"
        "    loop = asyncio.get_running_loop(); f = loop.create_future()\n"
        "    threading.Thread(target=lambda: loop.call_soon_threadsafe(f.set_result, 'woken')).start()\n"
        "    print(await f); print(await asyncio.to_thread(lambda: 'thread'))\n"
        "    print((await loop.getaddrinfo('127.0.0.1', 80))[0][4][1])\n"
        "asyncio.run(main())\n")
    assert done.out.decode().split("\n")[:-1] == ["through cat", "HELLO", "woken", "thread", "80"]


def test_socket_pairs(bench):
    done = bench.python("import socket, os, array\n"
                        "for kind in socket.SOCK_STREAM, socket.SOCK_SEQPACKET:\n"
                        "    a, b = socket.socketpair(socket.AF_UNIX, kind)\n"
                        "    a.send(b'x'); assert b.recv(9) == b'x'\n"
                        "    socket.send_fds(a, [b'fd'], [0]); assert socket.recv_fds(b, 9, 1)[1]\n"
                        "    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)\n"
                        "    assert a.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == kind\n"
                        "    a.getsockname(); a.getpeername(); a.shutdown(socket.SHUT_WR); assert b.recv(9) == b''\n"
                        "print('fine')\n")
    assert done.out == b"fine\n"


def test_shared_memory(bench):
    done = bench.python("from multiprocessing import shared_memory as s, Process\n"
                        "def fill(name): m = s.SharedMemory(name); m.buf[0] = 7; m.close()\n"
                        "if __name__ == '__main__':\n"
                        "    m = s.SharedMemory(create=True, size=1 << 20)\n"
                        "    p = Process(target=fill, args=(m.name,)); p.start(); p.join()\n"
                        "    print(m.buf[0]); m.close(); m.unlink()\n")
    assert done.out == b"7\n"


def test_file_locks_and_databases(bench):
    done = bench.python("import sqlite3, fcntl, mmap, os, tempfile\n"
                        "db = sqlite3.connect('x.db'); db.execute('pragma journal_mode=wal')\n"
                        "db.execute('create table t (a)'); db.execute('insert into t values (1)'); db.commit()\n"
                        "f = open('lock', 'w+b'); fcntl.flock(f, fcntl.LOCK_EX); fcntl.lockf(f, fcntl.LOCK_EX)\n"
                        "f.truncate(4096); m = mmap.mmap(f.fileno(), 4096); m[0:2] = b'ok'; m.flush()\n"
                        "os.link('lock', 'hard'); os.symlink('lock', 'soft'); os.rename('hard', 'moved')\n"
                        "os.chmod('moved', 0o600); os.utime('moved', (1, 1)); os.mkfifo('fifo')\n"
                        "t = tempfile.TemporaryFile(); t.write(b'x')\n"
                        "print(open('moved', 'rb').read(2).decode(), db.execute('select a from t').fetchone()[0])\n")
    assert done.out == b"ok 1\n"


# node


def test_node(bench):
    need("node")
    bench.file("main.js", """
const { spawnSync, spawn } = require("child_process"), net = require("net"), fs = require("fs");
const { Worker } = require("worker_threads");
fs.writeFileSync("out.txt", "written"); fs.renameSync("out.txt", "moved.txt");
console.log(spawnSync("echo", ["child"]).stdout.toString().trim());
new Worker("require('worker_threads').parentPort.postMessage('worker')", { eval: true }).on("message", m => {
        console.log(m);
        const server = net.createServer(s => s.end("served")).listen(0, "127.0.0.1", () => {
                net.connect(server.address().port, "127.0.0.1").on("data", d => {
                        console.log(d.toString()); server.close();
                        const cat = spawn("cat"); cat.stdout.on("data", d => console.log(d.toString())); cat.stdin.end("piped");
                });
        });
});
""")
    assert bench.run(["/usr/bin/node", "main.js"]).out.split() == [b"child", b"worker", b"served", b"piped"]


# The network of its own


def test_server_on_localhost(bench):
    done = bench.python("import http.server, threading, urllib.request as u\n"
                        "s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
                        "threading.Thread(target=s.serve_forever, daemon=True).start()\n"
                        "open('page', 'w').write('a page')\n"
                        "print(u.urlopen(f'http://127.0.0.1:{s.server_port}/page').read().decode())\n")
    assert done.out == b"a page\n"


def test_two_processes_on_localhost(bench):
    done = bench.sh("python3 -m http.server --bind 127.0.0.1 18017 >log 2>&1 & trap 'kill %1' EXIT; echo body > page;"
                    " for i in $(seq 200); do if exec 3<>/dev/tcp/127.0.0.1/18017; then break; fi 2>/dev/null; sleep 0.1;"
                    " done; printf 'GET /page HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3")
    assert done.out.endswith(b"body\n"), done


def test_two_commands_do_not_meet_on_localhost(bench):
    """Each has a port of the same number."""
    script = ("import socket; s = socket.create_server(('127.0.0.1', 18018)); print('up', flush=True); input();"
              "s.settimeout(0); \ntry: s.accept(); print('met')\nexcept BlockingIOError: print('alone')")
    starts = [bench.rig.start([PYTHON, "-c", script], bench.profile, bench.w, pipeStdin=True) for _ in range(2)]
    for process_id in starts:
        bench.rig.client.wait_output(process_id, b"up\n")
    bench.python("import socket\ntry: socket.create_connection(('127.0.0.1', 18018)); print('met')\n"
                 "except ConnectionRefusedError: print('refused')")
    for process_id in starts:
        bench.rig.write(process_id, b"\n")
        assert bench.rig.finish(process_id).out == b"up\nalone\n"


def test_only_loopback(bench):
    done = bench.python("import socket; print(socket.if_nameindex()); s = socket.socket(socket.AF_INET6);\n"
                        "s.bind(('::1', 0)); print('six')\n"
                        "try: socket.create_connection(('192.0.2.1', 9), 5)\n"
                        "except OSError as e: print(e.strerror)\n")
    assert done.out == b"[(1, 'lo')]\nsix\nNetwork is unreachable\n"


# Shells


def test_pipe_ends_by_sigpipe(bench):
    done = bench.sh("yes | head -1; echo ${PIPESTATUS[@]}")
    assert done.out == b"y\n141 0\n" and done.err == b""


@pytest.mark.parametrize("pipe_stdin", [False, True], ids=["null", "pipe"])
def test_bash_does_not_read_bashrc(bench, pipe_stdin):
    bench.tree.file(bench.env["HOME"] + "/.bashrc", "echo SOURCED\n")
    assert bench.sh("echo only", pipeStdin=pipe_stdin).out == b"only\n"


def test_signals_have_their_defaults(bench):
    done = bench.sh("grep -E '^Sig(Blk|Ign):' /proc/self/status; trap")
    assert done.out.split() == [b"SigBlk:", b"0" * 16, b"SigIgn:", b"0" * 16]


def test_who_and_where(bench):
    uid = bench.rig.uid
    done = bench.sh("id -u; id -g; pwd; /bin/pwd; umask; echo $PPID")
    assert done.out.decode().split()[:5] == [str(uid), str(uid), bench.w, bench.w, "0022"]


def test_environment_is_that_of_the_request(bench):
    done = bench.run(["/usr/bin/env"], env={"GIVEN": "x y"})
    names = dict(line.split("=", 1) for line in done.out.decode().splitlines())
    assert names["GIVEN"] == "x y" and names["PATH"] == "/usr/bin:/bin"
    assert "FARHAND_TEST_SECRET" not in names
    assert set(names) <= {"GIVEN", "PATH", "LC_ALL", "HOME", "TMPDIR", "PWD", "FARHAND_URL", "CODEX_EXEC_SERVER_URL"}


def test_ps_shows_its_own(bench):
    need("ps")
    seen = bench.run(["/bin/sh", "-c", "sleep 600 & until [ $(cat /proc/$!/comm) = sleep ]; do :; done; ps -e -o pid=,comm=; kill $!"]).out.decode().splitlines()
    assert 3 <= len(seen) <= 5, seen
    assert {"sleep", "ps", "sh"} <= {line.split()[1] for line in seen}


def test_temporary_files(bench):
    done = bench.sh("f=$(mktemp) && echo x > $f && cat $f && echo $f && rm $f")
    assert done.out.decode().split()[1].startswith(bench.env["TMPDIR"])
    wait_until(lambda: os.listdir(bench.env["TMPDIR"]) == [], what="the directory as it was")


def test_a_relative_tmpdir_is_below_the_cwd_of_the_command(bench):
    bench.profile = read_only(special("tmpdir", "write"))
    bench.tree.dir(os.path.join(bench.w, "rel/t"))
    done = bench.sh("f=$(mktemp) && rm $f && echo $f; touch beside || echo not beside", env={"TMPDIR": "rel/t"})
    assert re.fullmatch(rb"rel/t/\S+\nnot beside\n", done.out), done
    done = bench.sh("mktemp || echo not there", env={"TMPDIR": "rel/none"})
    assert done.out == b"not there\n", done


@pytest.mark.parametrize("place", ["elsewhere", "denied"])
def test_a_cwd_that_the_profile_hides_is_told_as_such(bench, place):
    hidden = bench.tree.dir(os.path.join(bench.tree.base, "hidden"))
    profile = narrow() if place == "elsewhere" else read_only(at(hidden, "deny"))
    for cwd in (hidden, bench.tree.dir(os.path.join(hidden, "below"))):
        refused = bench.rig.run(["/bin/true"], profile, cwd).refused
        assert (refused.code, refused.message) == (-32602, f"the permission profile hides the cwd {cwd}")
        assert (refused.data["step"], refused.data["reason"]) == ("cwd", "cwdHidden")
    missing = bench.rig.run(["/bin/true"], profile, os.path.join(hidden, "none")).refused
    assert (missing.code, missing.data["step"]) == (-32603, "cwd"), "nobody hides what is not there"


def test_temporary_files_in_tmp(bench):
    bench.profile = workspace_write(special("slash_tmp", "write"))
    done = bench.sh("f=$(mktemp /tmp/fh-XXXXXX) && echo x > $f && echo $f", env={"TMPDIR": ""})
    path = done.out.decode().strip()
    assert os.path.dirname(path) == "/tmp"
    os.unlink(path)


def test_substitution_and_documents(bench):
    done = bench.sh("cat <(echo a) <(echo b) > out; cat out; cat <<E\nc\nE\ntee >(cat >&2) <<< d >/dev/null; wait $!;"
                    "cat <<E | wc -c\n" + "x" * 100000 + "\nE\necho e > /dev/stderr; echo f > /dev/fd/1")
    assert done.out == b"a\nb\nc\n100001\nf\n", done
    assert sorted(done.err.split()) == [b"d", b"e"]


def test_devices(bench):
    done = bench.sh("head -c 4 /dev/zero | od -An -tx1; head -c 4 /dev/urandom | wc -c; head -c 4 /dev/random | wc -c;"
                    " echo x > /dev/null; echo x > /dev/full", code=1)
    assert done.out.split()[:6] == [b"00"] * 4 + [b"4", b"4"]
    assert b"No space left" in done.err


def test_pseudo_terminals_of_its_own(bench):
    done = bench.python("import pty, os, sys\n"
                        "pid, fd = pty.fork()\n"
                        "if pid == 0: os.execvp('tty', ['tty'])\n"
                        "print(os.read(fd, 99).decode().strip())\n")
    assert re.match(rb"/dev/pts/\d+\n", done.out), done


@pytest.mark.parametrize("script, code", [("exit 7", 7), ("kill -SEGV $$", 139), ("kill -KILL $$", 137),
                                          ("kill -TERM $$", 143), ("timeout 0.1 sleep 100", 124), ("nonesuch", 127)])
def test_exit_codes(bench, script, code):
    bench.sh(script, code=code)


def test_missing_program_is_the_answer(bench):
    with pytest.raises(RpcError) as refused:
        bench.rig.start(["/nonexistent/program"], bench.profile, bench.w)
    assert refused.value.data["errnoName"] == "ENOENT"


def test_stdin(bench):
    process_id = bench.rig.start(["/bin/cat"], bench.profile, bench.w, pipeStdin=True)
    bench.rig.write(process_id, b"through\n")
    bench.rig.client.wait_output(process_id, b"through\n")
    bench.rig.client.call("process/closeStdin", {"processId": process_id})
    assert bench.rig.finish(process_id).code == 0


def test_much_output(bench):
    done = bench.sh("head -c 3000000 /dev/zero | tr '\\0' x; head -c 1000000 /dev/zero | tr '\\0' y >&2")
    assert done.out == b"x" * 3000000 and done.err == b"y" * 1000000


def test_terminate_ends_all_of_it(bench):
    mark = f"600.{os.getpid()}{bench.rig.uid}"
    process_id = bench.rig.start(["/bin/bash", "-c", f"trap '' TERM; setsid sleep {mark} & (sleep {mark} &); echo up; wait"],
                                 bench.profile, bench.w)
    bench.rig.client.wait_output(process_id, b"up\n")
    assert bench.rig.client.call("process/terminate", {"processId": process_id})["running"] is True
    bench.rig.finish(process_id)

    def left():
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    if f"sleep\0{mark}".encode() in f.read():
                        found.append(pid)
            except OSError:
                pass
        return found

    wait_until(lambda: not left(), what="end of the tree")


# Terminals


class Terminal:
    """bash on a terminal, one command after another."""

    def __init__(self, bench):
        self.rig, self.client = bench.rig, bench.rig.client
        self.id = bench.rig.start(["/bin/bash", "--norc", "--noprofile", "-i"], bench.profile, bench.w, tty=True,
                                  env={**bench.env, "PS1": "READY> ", "TERM": "dumb", "HISTFILE": ""})
        self.seen = 0
        self.expect("READY> ")

    def send(self, text):
        assert self.rig.write(self.id, text.encode()) == "accepted"

    def expect(self, wanted):
        """Waits for `wanted` after what was expected before; returns all up to its end."""
        wanted = wanted if callable(wanted) else (lambda text, part=wanted: text.find(part) + len(part) if part in text else 0)
        whole = self.client.wait_output(self.id, lambda data: wanted(data[self.seen:].decode(errors="replace")), 20)
        text = whole[self.seen:].decode(errors="replace")
        end = wanted(text)
        self.seen += len(text[:end].encode())
        return text[:end]

    def run(self, command):
        """The output of one command."""
        self.send(command + "\n")
        text = self.expect("READY> ").replace("\r", "")
        assert text.startswith(command + "\n"), text
        return text[len(command) + 1:-len("READY> ")]

    def end(self):
        self.send("exit 5\n")
        self.client.wait_closed(self.id, 20)
        assert self.client.wait_exit(self.id)["exitCode"] == 5


@pytest.fixture
def terminal(bench):
    t = Terminal(bench)
    yield t
    t.end()


def test_terminal_is_the_controlling_one(terminal):
    assert "job control" not in terminal.client.output(terminal.id).decode()
    name = terminal.run("tty").strip()
    assert name.startswith("/dev/"), name
    assert terminal.run("echo to the terminal > /dev/tty") == "to the terminal\n"
    assert terminal.run(f"echo by name > {name}") == "by name\n"
    assert re.fullmatch(r"\d+ \d+\n", terminal.run("stty size"))
    assert terminal.run("ps -o tpgid= -p $$ | tr -d ' '").strip().isdigit()
    assert terminal.run("test -t 0 && test -t 1 && test -t 2 && echo all") == "all\n"


def test_window_size(terminal):
    terminal.run("trap 'echo resized to $(stty size)' WINCH")
    terminal.client.call("process/resize", {"processId": terminal.id, "rows": 33, "cols": 99})
    terminal.send("\n")
    terminal.expect("resized to 33 99")


def test_jobs(terminal):
    terminal.run("set +m; set -m; sleep 600 &")
    assert "Running" in terminal.run("jobs")
    terminal.send("fg\n")
    terminal.expect("sleep 600\r\n")
    wait_until(lambda: foreground(terminal) == "sleep", what="sleep in the foreground")
    terminal.send("\x1a")
    assert "Stopped" in terminal.expect("READY> ")
    assert "Stopped" in terminal.run("jobs")
    terminal.run("bg")
    assert "Running" in terminal.run("jobs")
    terminal.run("kill %1; wait %1")
    assert "sleep" not in terminal.run("jobs")


def test_interrupt_reaches_the_foreground_only(terminal):
    terminal.run("sleep 600 &")
    terminal.send("echo started; sleep 600\n")
    terminal.expect("started\r\n")
    wait_until(lambda: foreground(terminal) == "sleep", what="sleep in the foreground")
    terminal.send("\x03")
    terminal.expect("READY> ")
    assert terminal.run("echo $?") == "130\n"
    assert "Running" in terminal.run("jobs")
    terminal.run("kill %1; wait %1")


def foreground(terminal):
    """The names of the processes in the foreground group of this terminal, as seen from outside of the sandbox."""
    pid = int(terminal.client.call("process/list", {"processId": terminal.id})["processes"][0]["pid"])
    todo, found = [pid], None
    while todo:
        pid = todo.pop()
        try:
            with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
                name, _, rest = f.read().partition("(")[2].rpartition(")")
            fields = rest.split()
            if fields[2] == fields[5]:
                found = name
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
                todo += [int(child) for child in f.read().split()]
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


@pytest.mark.parametrize("key, code", [("\x03", 130), ("\x1c", 131)], ids=["interrupt", "quit"])
def test_keys_and_traps(bench, key, code):
    """A key is a signal for the command, not the end of its sandbox: traps run."""
    script = f"trap 'echo trapped; exit {code}' INT QUIT; echo up; while :; do sleep 0.05; done"
    process_id = bench.rig.start(["/bin/bash", "-c", script], bench.profile, bench.w, tty=True)
    bench.rig.client.wait_output(process_id, b"up")
    bench.rig.write(process_id, key.encode())
    done = bench.rig.finish(process_id)
    assert b"trapped" in done.out and done.code == code


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "tty"])
def test_interrupt_by_request(bench, tty):
    script = "trap 'echo trapped; exit 9' INT; echo up; while :; do sleep 0.05; done"
    process_id = bench.rig.start(["/bin/bash", "-c", script], bench.profile, bench.w, tty=tty)
    bench.rig.client.wait_output(process_id, b"up")
    bench.rig.client.call("process/signal", {"processId": process_id, "signal": "interrupt"})
    done = bench.rig.finish(process_id)
    assert b"trapped" in done.out and done.code == 9


def test_end_of_input_on_a_terminal(bench):
    process_id = bench.rig.start(["/bin/cat"], bench.profile, bench.w, tty=True)
    bench.rig.write(process_id, b"line\n")
    bench.rig.client.wait_output(process_id, lambda data: data.count(b"line") == 2)
    bench.rig.write(process_id, b"\x04")
    assert bench.rig.finish(process_id).code == 0


# What the answer says


def test_a_denial_is_told(bench):
    outside = bench.tree.dir(bench.tree.base + "/outside")
    done = bench.sh('echo x > "$1/new"', outside, code=1)
    assert b"Read-only file system" in done.err and done.denied is True
    assert bench.sh("exit 1", code=1).denied is False


def test_unreachable_network_is_a_denial(bench):
    done = bench.sh("exec 3<>/dev/tcp/192.0.2.1/9", code=1)
    assert b"etwork is unreachable" in done.err and done.denied is True


def test_read_only_is_enough_to_look_around(bench):
    bench.file("a.txt", "found\n")
    done = bench.rig.sh("grep -r found . && find . -name a.txt && python3 -c 'print(1)' && ls / >/dev/null && echo x > y",
                        read_only(), bench.w)
    assert done.code != 0 and b"found" in done.out and b"1\n" in done.out
    wait_until(lambda: os.listdir(bench.w) == ["a.txt"], what="the directory as it was")


def test_workspace_root_other_than_the_directory(bench):
    """The command starts in one of two roots and writes to both."""
    done = bench.rig.sh('pwd; echo x > here; echo x > "$1/there"', workspace_write(), bench.w, bench.tree.t,
                        roots=[bench.tree.t, bench.w])
    assert done.ok and done.out.decode().strip() == bench.w
    assert os.path.exists(bench.tree.t + "/there") and os.path.exists(bench.w + "/here")


def test_names_with_spaces_and_bytes(bench):
    odd = bench.tree.dir(os.path.join(bench.w, "a b%c ü"))
    assert "%20" in uri(odd)
    done = bench.rig.sh("pwd; echo x > 'new file'", workspace_write(), odd)
    assert done.ok and done.out.decode().strip() == odd
    wait_until(lambda: os.listdir(odd) == ["new file"], what="nothing but the file")
