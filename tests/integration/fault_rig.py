"""System calls that fail: a server of which strace makes the n-th call of one kind fail, while a client works (fault_work).

What a fault may do: refuse a step with an error that says why. What it may not: end a process by a signal, lose or change
a byte of what was answered as success, leave a request without an answer, or leave anything behind. After each fault all
steps are done once more without one, and all of them must be right.

The server runs as a user without rights, or as root in a mount namespace where it can write nothing but its own directory.
"""

import collections
import contextlib
import ctypes
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

import fault_work
from farhand_client import BIN, IS_SANITIZED, PATIENCE, wait_until
from fault_work import Wrong
from load_rig import children
from sandbox_rig import Rig, why_not

IS_SOAK = os.environ.get("FARHAND_SLOW") == "1"
SEED = int(os.environ.get("FARHAND_SEED") or (random.randrange(10 ** 6) if IS_SOAK else 7))

CONFIG = """max_processes_per_session = 100000
detached_session_ttl_ms = 0
shutdown_grace_period_ms = 100
"""

# For each system call, the errors that it can return out of EINTR, EAGAIN, ENOMEM, ENOSPC, EMFILE and EIO, or their counterparts.
TRANSFER = ["EINTR", "EAGAIN", "ENOMEM", "EIO"]
WRITING = TRANSFER + ["ENOSPC"]
SOCKET = ["EINTR", "EAGAIN", "ENOMEM", "ENOBUFS"]
OPENING = ["EINTR", "ENOMEM", "EMFILE", "EIO", "ENOSPC"]
LOOKING = ["ENOMEM", "EIO"]
CHANGING = ["ENOMEM", "EIO", "ENOSPC"]
MAKING = ["EMFILE", "ENOMEM"]
MOUNTING = ["ENOMEM", "EINTR", "EMFILE", "ENOSPC"]
ERRORS = {
    "read": TRANSFER, "pread64": TRANSFER, "preadv2": TRANSFER, "recvfrom": SOCKET, "recvmsg": SOCKET, "getdents64": LOOKING,
    "write": WRITING, "writev": WRITING, "pwrite64": WRITING, "sendto": SOCKET, "sendmsg": SOCKET,
    "copy_file_range": WRITING, "fsync": ["EIO", "ENOSPC", "EINTR"],
    "fdatasync": ["EIO", "ENOSPC", "EINTR"], "ftruncate": ["EINTR", "EIO", "ENOSPC"],
    "epoll_wait": ["EINTR", "ENOMEM", "ENOSPC"], "epoll_ctl": ["ENOMEM", "ENOSPC"], "poll": ["EINTR", "ENOMEM", "EAGAIN"],
    "ppoll": ["EINTR", "ENOMEM", "EAGAIN"], "accept4": ["EINTR", "EAGAIN", "EMFILE", "ENOMEM"],
    "openat": OPENING, "openat2": OPENING + ["EAGAIN"], "open_tree": MOUNTING, "memfd_create": MAKING, "pipe2": MAKING,
    "socketpair": MAKING, "socket": MAKING, "eventfd2": MAKING, "signalfd4": MAKING, "inotify_init1": MAKING,
    "epoll_create1": MAKING, "dup3": ["EINTR", "EMFILE"], "dup2": ["EINTR", "EMFILE"], "fcntl": ["EINTR", "EMFILE", "EAGAIN", "ENOMEM"],
    "pidfd_open": MAKING, "inotify_add_watch": ["ENOMEM", "ENOSPC"], "ioctl": ["EINTR", "EIO", "ENOMEM"],
    "statx": LOOKING + ["EINTR"], "newfstatat": LOOKING, "fstat": LOOKING, "readlink": LOOKING, "readlinkat": LOOKING,
    "faccessat2": LOOKING, "faccessat": LOOKING, "statfs": LOOKING + ["EINTR"], "fstatfs": LOOKING + ["EINTR"],
    "name_to_handle_at": LOOKING, "cachestat": ["EPERM", "EOPNOTSUPP"],
    "flistxattr": LOOKING, "fgetxattr": LOOKING, "fsetxattr": CHANGING, "getxattr": LOOKING, "lgetxattr": LOOKING,
    "mkdirat": CHANGING, "mkdir": CHANGING, "rmdir": CHANGING, "unlinkat": ["ENOMEM", "EIO"], "unlink": ["ENOMEM", "EIO"],
    "renameat": CHANGING, "renameat2": CHANGING, "linkat": CHANGING, "symlinkat": CHANGING, "fchmod": CHANGING,
    "fchown": CHANGING, "fchmodat": CHANGING, "utimensat": CHANGING, "flock": ["EINTR", "ENOMEM", "EAGAIN"],
    "mmap": ["ENOMEM", "EAGAIN"], "mprotect": ["ENOMEM"], "madvise": ["ENOMEM", "EAGAIN"], "mremap": ["ENOMEM"],
    "clone": ["EAGAIN", "ENOMEM"], "clone3": ["EAGAIN", "ENOMEM"], "fork": ["EAGAIN", "ENOMEM"], "vfork": ["EAGAIN", "ENOMEM"],
    "wait4": ["EINTR"], "waitid": ["EINTR"], "execve": ["ENOMEM", "EIO", "EAGAIN"], "execveat": ["ENOMEM", "EIO", "EAGAIN"],
    "rt_sigtimedwait": ["EINTR", "EAGAIN"], "setsockopt": ["ENOMEM"], "getrandom": ["EINTR"], "prlimit64": ["EPERM"], "chdir": LOOKING, "fchdir": LOOKING,
    "unshare": ["ENOMEM", "ENOSPC"], "setns": ["ENOMEM"], "mount": MOUNTING, "umount2": ["ENOMEM"], "pivot_root": ["ENOMEM"],
    "move_mount": MOUNTING, "fsopen": MOUNTING, "fsconfig": MOUNTING, "fsmount": MOUNTING, "mount_setattr": ["ENOMEM"],
    "landlock_create_ruleset": MAKING, "landlock_add_rule": ["ENOMEM"], "landlock_restrict_self": ["ENOMEM"],
    "seccomp": ["ENOMEM"], "prctl": ["ENOMEM"], "sched_setattr": ["ENOMEM"], "sethostname": ["ENOMEM"], "nanosleep": ["EINTR"],
    "setsid": ["EPERM"], "close_range": ["ENOMEM", "EMFILE"], "capset": ["EPERM", "ENOMEM"], "setgroups": ["ENOMEM"],
    "rt_sigaction": [], "pidfd_getfd": MAKING, "inotify_rm_watch": [],
    # The kernel's brk reports a failure by returning another address than the one asked for, not by an errno.
    "brk": ["0"],
}
# Calls that do not fail, or whose failure strace can only pretend wrongly: a close or a munmap that fails has closed or
# unmapped nonetheless, but one that strace makes fail was never done; and libc ends a program whose futex was not woken.
LEFT_OUT = {
    "close", "munmap", "futex", "kill", "pidfd_send_signal", "exit", "exit_group", "getpid", "getppid", "gettid", "geteuid", "getegid", "getuid", "getgid",
    "sched_yield", "restart_syscall", "rt_sigprocmask", "rt_sigreturn", "set_robust_list", "rseq", "sched_getattr", "umask",
    "shutdown", "getsockname", "getsockopt", "getpeername", "clock_gettime", "clock_nanosleep", "set_tid_address", "tgkill",
    "sysinfo", "uname", "getrusage", "capget", "times", "membarrier", "arch_prctl", "getpgid", "setpgid", "alarm",
}

# A keeper reads only after a signal has reported that there is something to read: then the kernel never returns EAGAIN.
IMPOSSIBLE = {("keepers", "recvfrom", "EAGAIN")}

# Errors that pass: after one of them no process of Farhand may lose anything, whichever call has failed.
PASSING = {"EINTR", "EAGAIN", "ENOMEM", "ENOBUFS"}

# Processes that the spawner may keep for later commands in addition to those before the fault (nets.h, spawner_prebuilt.c).
ALLOWED = collections.Counter({"fh-net": 4, "fh-prebuilt": 1, "fh-fs-helper": 2})
# Descriptors that the server may hold in addition: those of a second fs helper.
ALLOWED_OF_SERVER = collections.Counter({"socket:[N]": 1, "anon_inode:[pidfd]": 1})

# The processes whose calls are made to fail (Faulty.target).
TARGETS = ["server", "spawner", "keepers", "helper"]

# Calls that are repeated after EINTR, without any effect that a client could see.
REPEATED = {"read", "pread64", "write", "writev", "pwrite64", "recvfrom", "recvmsg", "sendto", "sendmsg", "epoll_wait", "poll",
            "ppoll", "wait4", "waitid", "accept4", "rt_sigtimedwait", "getrandom"}

Fault = collections.namedtuple("Fault", "target call error first step")


# This word stands for two calls: both mmap and brk fail, so that the heap cannot grow.
MEMORY = "memory"
# Each allocation becomes an mmap, so that each can be made to fail.
TUNABLES = "glibc.malloc.mmap_threshold=1:glibc.malloc.mmap_max=1000000"


def fault_text(fault):
    when = f"{fault.first}+{fault.step}" if fault.step else str(fault.first)
    how = f"retval={fault.error}" if fault.error.isdigit() else f"error={fault.error}"
    return f"{fault.call}:{how}:when={when}"


def fault_options(fault):
    if fault.call == MEMORY:
        mapping = fault_text(fault._replace(call="mmap"))
        return ["-e", "trace=mmap,brk", "-e", f"inject={mapping}", "-e", "inject=brk:retval=0"]
    return ["-e", f"trace={fault.call}", "-e", f"inject={fault_text(fault)}"]


def why_no_strace():
    """Why no process can be traced on this machine; None when strace works."""
    if IS_SANITIZED:
        return "a sanitizer ends a process that has no memory, and is slow under strace"
    if not shutil.which("strace"):
        return "needs strace"
    with subprocess.Popen(["/bin/sleep", "60"]) as proc:
        try:
            trace = subprocess.run(["timeout", "-s", "INT", "0.2", "strace", "-qq", "-o", "/dev/null", "-p", str(proc.pid)],
                                   capture_output=True, check=False)
            return None if b"attach" not in trace.stderr else f"strace: {trace.stderr.decode().strip()}"
        finally:
            proc.kill()


# Where the server runs

CLONE_NEWNS = 0x20000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 1 << 18
SYS_MOUNT_SETATTR, AT_RECURSIVE, MOUNT_ATTR_RDONLY, AT_FDCWD = 442, 0x8000, 1, -100


def fenced(writable):
    """For preexec_fn: from here on root too can write nothing on the machine but what is below `writable`. Sandboxes need /proc
    (maps of users), commands their cgroups, and the server its state, which the next server finds: it removes what this one left."""
    libc = ctypes.CDLL(None, use_errno=True)
    state = os.path.join(writable, "state of the server")
    os.mkdir(state, 0o755)

    def check(result, what):
        if result != 0:
            raise OSError(ctypes.get_errno(), what)

    def act():
        path = writable.encode()
        check(libc.unshare(CLONE_NEWNS), "unshare")
        check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")
        check(libc.mount(path, path, None, MS_BIND, None), "bind")
        attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)
        check(libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, b"/", AT_RECURSIVE, attributes, 32), "read-only mounts")
        attributes = (ctypes.c_uint64 * 4)(0, MOUNT_ATTR_RDONLY, 0, 0)
        check(libc.mount(state.encode(), b"/var/lib", None, MS_BIND, None), "state of the server")
        for top in [path, b"/var/lib", b"/proc"] + [m.encode() for m in cgroup_mounts()]:
            check(libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, top, 0, attributes, 32), "writable directory")

    return act


def cgroup_mounts():
    with open("/proc/self/mounts", encoding="utf-8") as f:
        return [line.split()[1] for line in f if line.split()[2] == "cgroup2"]


def cgroups_of(pid):
    """The cgroup directories that the spawner with this pid has made."""
    return [os.path.join(parent, name) for top in cgroup_mounts() for parent, names, _ in os.walk(top)
            for name in names if name == f"farhand-{pid}"]


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="latin-1") as f:
            return f.read().strip()
    except OSError:
        return None


def open_files(pid):
    """Counts the descriptors of a process by what they refer to, with changing numbers replaced by N."""
    found = collections.Counter()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            found[re.sub(r"\d+", "N", os.readlink(f"/proc/{pid}/fd/{fd}"))] += 1
    return found


class Tracer:
    """Attaches strace to running processes until the end of the `with` block."""

    def __init__(self, pids, options, log):
        self.pids, self.log = pids, log
        argv = ["strace", "-qq", "-o", log, *options] + [word for pid in pids for word in ("-p", str(pid))]
        self.proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                     cwd="/")

    def _is_traced(self):
        if self.proc.poll() is not None:
            said = self.proc.stderr.read().decode()
            if said:
                raise RuntimeError(f"strace: {said}")
            return True  # what it traced has ended already
        for pid in self.pids:
            with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="latin-1") as f:
                if f"TracerPid:\t{self.proc.pid}\n" not in f.read():
                    return False
        return True

    def __enter__(self):
        try:
            wait_until(self._is_traced, 30, "strace")
        except BaseException:
            self._end()
            raise
        return self

    def _end(self):
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGINT)
        try:
            self.proc.wait(10 * PATIENCE)
        except subprocess.TimeoutExpired:
            self.proc.kill()  # its tracees go on
            self.proc.wait()
        self.proc.stderr.close()

    def __exit__(self, *exc):
        self._end()

    def injected(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return sum("(INJECTED)" in line for line in f)


class Faulty:
    """A server of one user, with a place to work in. It is replaced when a fault has ended it."""

    def __init__(self, user):
        reason = why_not(user)
        self.steps = fault_work.STEPS + (fault_work.SANDBOXED_STEPS if reason is None else [])
        if os.access(os.path.join(os.path.dirname(BIN), "farhand-net"), os.X_OK):
            self.steps = self.steps + fault_work.NET_STEPS
        self.stack = contextlib.ExitStack()
        self.rig = self.stack.enter_context(Rig(user))
        if self.rig.uid == 0:
            self.rig.become_user = fenced(self.rig.base)
        self.rig.env["GLIBC_TUNABLES"] = TUNABLES
        self.place = fault_work.Place(self.rig.tree())
        self.stack.callback(self.place.close)
        self.logs = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="fh-faults-"))
        self.server = None
        self.tally = collections.Counter()

    def close(self):
        self._drop()
        self.stack.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def _drop(self):
        server, self.server = self.server, None
        if not server:
            return
        server._kill()  # pylint: disable=protected-access
        # A fault may have kept the server from its journal; then no later server removes the temporary file of an interrupted
        # write.
        for name in self.place.left():
            if re.fullmatch(r"\.farhand-[0-9a-f]{32}\.tmp", name):
                os.unlink(f"{self.place.work}/{name}")

    def ready(self):
        """Starts a server if none runs and does all steps once. What it holds then is the reference for later comparisons."""
        if self.server and self.server.proc.poll() is None:
            return
        self._drop()
        self.server = self.rig.new_server(config=CONFIG)
        self.work_right("without a fault")
        self.work_right("without a fault")
        self._wait_tidy()
        self.spawner = self.named("fh-spawner", self.server.pid)
        self.before = self._settled()
        if self.before[2]["fh-fs-helper"] < ALLOWED["fh-fs-helper"]:
            self.before[0].update(ALLOWED_OF_SERVER)
        self.before[2].update(ALLOWED - self.before[2])

    def named(self, name, parent):
        return next(pid for pid in children(parent) if comm(pid) == name)

    def _held(self):
        spawner = self.named("fh-spawner", self.server.pid)
        return open_files(self.server.pid), open_files(spawner), collections.Counter(map(comm, children(spawner)))

    def _settled(self):
        """Waits until processes and descriptors no longer change, and returns them."""
        seen = [None]

        def is_same():
            now = self._held()
            same, seen[0] = now == seen[0], now
            time.sleep(0.03)
            return same

        wait_until(is_same, 30, "a server that rests")
        return seen[0]

    def work(self, **kw):
        return fault_work.Work(self.server, self.place, steps=self.steps, **kw).run()

    def work_right(self, what):
        """Does all steps, which must be right. Repeats them while the server waits before it starts another spawner, ten seconds at
        most, because spawners ended at once."""
        until = time.monotonic() + 30
        while True:
            refused = [r for r in self.work() if r.refused]
            if not refused:
                return
            if time.monotonic() > until or not any("the spawner ends at once" in r.refused for r in refused):
                raise Wrong(f"{what}: {refused}")
            time.sleep(0.5)

    # Faults

    def target(self, name):
        """The processes whose calls fail: (pids, options of strace)."""
        if name == "server":
            return [self.server.pid], ["-f"]
        if name == "spawner":
            return [self.spawner], []
        if name == "keepers":  # the spawner, and whatever it starts, up to the command itself
            return [self.spawner], ["-f", "-b", "execve"]
        helpers = self._helpers()
        if not helpers:  # the fs helper has ended, because no request has used it for half a minute
            self.work_right("to have an fs helper")
            helpers = self._helpers()
        return helpers + [below for pid in helpers for below in children(pid)], []

    def _helpers(self):
        return [pid for pid in children(self.spawner) if comm(pid) == "fh-fs-helper"]

    def count(self, target):
        """How often each system call is made in one run of all steps."""
        self.ready()
        pids, options = self.target(target)
        log = f"{self.logs}/count"
        with Tracer(pids, [*options, "-c", "-U", "calls,name"], log):
            self.work_right("under strace")
        with open(log, encoding="ascii") as f:
            rows = [line.split() for line in f]
        return {row[1]: int(row[0]) for row in rows if len(row) == 2 and row[0].isdigit() and row[1] != "total"}

    def try_fault(self, fault):
        """Runs all steps with one fault. Returns None, or a text that says what went wrong."""
        self.ready()
        try:
            self._try_fault(fault)
            return None
        except (Wrong, TimeoutError, AssertionError) as wrong:
            told = self.server.stderr().splitlines()[-12:]
            self._drop()
            return f"{fault.target} {fault_text(fault)}: {wrong}\n    " + "\n    ".join(told)

    def _try_fault(self, fault):
        pids, options = self.target(fault.target)
        if not pids:  # the server does without an fs helper now: the next fault gets another server
            self.tally["no helper"] += 1
            print("no helper:", [(pid, comm(pid)) for pid in children(self.spawner)], self.server.stderr()[-500:])
            self._drop()
            return
        may_lose = fault.error not in PASSING
        tracer = Tracer(pids, [*options, *fault_options(fault)], f"{self.logs}/trace")
        try:
            with tracer:
                # A spawner, a keeper or an init of a sandbox without memory ends, and its commands with it.
                may_be_killed = fault.call == MEMORY and fault.target in ("spawner", "keepers")
                results = self.work(may_lose=may_lose, may_be_killed=may_be_killed)
        except Wrong:
            if self._ended(5 * PATIENCE) is None:
                raise
            self._check_end()
            self.tally["ended"] += 1
            return
        self.tally["injected"] += tracer.injected()
        self.tally["runs"] += 1
        self.tally["vacuous"] += tracer.injected() == 0
        self.tally["refused"] += sum(r.refused is not None for r in results)
        if self._ended() is not None:
            self._check_end()
            return
        if fault.error == "EINTR" and fault.call in REPEATED and any(r.refused for r in results):
            raise Wrong(f"not made again: {[r for r in results if r.refused]}")
        try:
            self.work_right("after the fault")
        except Wrong:
            if self._ended(5 * PATIENCE) is None:
                raise
            self._check_end()  # the server was about to end when all steps were done
            return
        if fault.call == "prctl":  # processes without their names cannot be told apart below
            self._drop()
            return
        self._check_left()

    def _ended(self, seconds=0.05):
        try:
            return self.server.proc.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _check_end(self):
        """Checks that a server that has ended did so by itself, logged the reason and left nothing behind."""
        code = self.server.proc.returncode
        said = self.server.stderr()
        if code < 0:
            raise Wrong(f"the server was ended by {signal.Signals(-code).name}")
        if said.count("fatal: ") != 1:
            raise Wrong(f"the server ended with {code} and did not say why in one line")
        wait_until(lambda: comm(self.spawner) is None, 15, "end of the spawner")
        self.place.reset()
        # Temporary files of writes are not counted: the next server removes them, and they are checked after its start.
        self._wait_tidy(lambda name: ".farhand-" not in name)
        wait_until(lambda: not cgroups_of(self.spawner), 20, "cgroups to be gone")

    def _wait_tidy(self, counts=lambda name: True):
        try:
            wait_until(lambda: not any(map(counts, self.place.left())), 20, "a tidy directory")
        except TimeoutError:
            raise Wrong(f"left behind: {self.place.left()}") from None

    def _check_left(self):
        self._wait_tidy()
        seen = [None]

        def is_as_before():
            try:
                seen[0] = self._held()
            except (OSError, StopIteration):
                return False
            return all(not now - before for now, before in zip(seen[0], self.before))

        try:
            wait_until(is_as_before, 20, "rest")
        except TimeoutError:
            more = [dict(now - before) for now, before in zip(seen[0], self.before)] if seen[0] else "no spawner"
            raise Wrong(f"server, spawner and its children hold more than before: {more}") from None
        self.spawner = self.named("fh-spawner", self.server.pid)
