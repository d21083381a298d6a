/* sandbox_attack_calls: system calls that a sandboxed command does not have, by number.
 *
 * Arguments are chosen so that the kernel, asked by an ordinary user, would say anything but EPERM where that can be
 * arranged: EPERM then comes from the filter. As full root none of them would do harm.
 */
#define _GNU_SOURCE
#include "sandbox_attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/kcmp.h>
#include <linux/keyctl.h>
#include <linux/mount.h>
#include <linux/perf_event.h>
#include <linux/reboot.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif
#define NS_ALL                                                                                               \
        { "user", CLONE_NEWUSER }, { "mnt", CLONE_NEWNS }, { "pid", CLONE_NEWPID }, { "net", CLONE_NEWNET }, \
                { "ipc", CLONE_NEWIPC }, { "uts", CLONE_NEWUTS }, { "cgroup", CLONE_NEWCGROUP },             \
        {                                                                                                    \
                "time", 0x80                                                                                 \
        }

enum by { FILTER, ANYTHING };

struct call {
        const char *name;
        enum by by; /* what has to refuse it */
        long nr, args[6];
};

static long buffer[512];
static struct iovec here = { buffer, 8 }, there = { buffer + 1, 8 };
static struct mount_attr writable = { .attr_clr = MOUNT_ATTR_RDONLY };
static struct perf_event_attr event = { .type = PERF_TYPE_SOFTWARE,
                                        .size = sizeof event,
                                        .config = PERF_COUNT_SW_DUMMY,
                                        .exclude_kernel = 1,
                                        .exclude_hv = 1 };
static union bpf_attr map = {
        .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1
};
static struct clone_args plain = { .exit_signal = SIGCHLD };
static struct clone_args user_ns = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };

#define P(x) ((long)(intptr_t)(x))

/* Finds a call by its name. Returns false when there is no such call. */
static bool call_find(const char *name, struct call *ret)
{
        const long self = getpid();
        const struct call calls[] = {
                { "ptrace-traceme", FILTER, SYS_ptrace, { PTRACE_TRACEME } },
                { "ptrace-seize-init", FILTER, SYS_ptrace, { PTRACE_SEIZE, 1 } },
                { "ptrace-seize-parent", FILTER, SYS_ptrace, { PTRACE_SEIZE, getppid() } },
                { "process-vm-readv", FILTER, SYS_process_vm_readv, { self, P(&here), 1, P(&there), 1, 0 } },
                { "process-vm-writev",
                  FILTER,
                  SYS_process_vm_writev,
                  { self, P(&here), 1, P(&there), 1, 0 } },
                { "process-vm-readv-init",
                  FILTER,
                  SYS_process_vm_readv,
                  { 1, P(&here), 1, P(&there), 1, 0 } },
                { "io-uring-setup", FILTER, SYS_io_uring_setup, { 1, P(buffer) } },
                { "io-uring-enter", FILTER, SYS_io_uring_enter, { -1, 0, 0, 0, 0, 0 } },
                { "io-uring-register", FILTER, SYS_io_uring_register, { -1, 0, 0, 0 } },
                { "clone3", FILTER, SYS_clone3, { P(&plain), sizeof plain } },
                { "clone3-user", FILTER, SYS_clone3, { P(&user_ns), sizeof user_ns } },
                { "setns", FILTER, SYS_setns, { -1, 0 } },
                { "setns-mnt-pidfd", FILTER, SYS_setns, { syscall(SYS_pidfd_open, 1, 0), CLONE_NEWNS } },
                { "setns-user-init", FILTER, SYS_setns, { open("/proc/1/ns/user", O_RDONLY), 0 } },
                { "setns-net-init", FILTER, SYS_setns, { open("/proc/1/ns/net", O_RDONLY), 0 } },
                { "mount-tmpfs", FILTER, SYS_mount, { P("x"), P(setting("BOX_W")), P("tmpfs"), 0, 0 } },
                { "mount-bind", FILTER, SYS_mount, { P("/"), P(setting("BOX_W")), 0, MS_BIND | MS_REC, 0 } },
                { "mount-proc", FILTER, SYS_mount, { P("x"), P("/proc"), P("proc"), 0, 0 } },
                { "remount-writable", FILTER, SYS_mount, { 0, P("/"), 0, MS_REMOUNT | MS_BIND, 0 } },
                { "remount-root-shared", FILTER, SYS_mount, { 0, P("/"), 0, MS_REC | MS_SHARED, 0 } },
                { "mount-move", FILTER, SYS_mount, { P("/proc"), P(setting("BOX_W")), 0, MS_MOVE, 0 } },
                { "umount-proc", FILTER, SYS_umount2, { P("/proc"), MNT_DETACH } },
                { "umount-proc-sys", FILTER, SYS_umount2, { P("/proc/sys"), MNT_DETACH } },
                { "umount-dev", FILTER, SYS_umount2, { P("/dev"), MNT_DETACH } },
                { "umount-deny", FILTER, SYS_umount2, { P("p/secret"), MNT_DETACH } },
                { "umount-deny-file", FILTER, SYS_umount2, { P("p/hidden.txt"), MNT_DETACH } },
                { "umount-carve-out", FILTER, SYS_umount2, { P("p/ro"), MNT_DETACH } },
                { "umount-git", FILTER, SYS_umount2, { P(".git"), MNT_DETACH } },
                { "umount-root", FILTER, SYS_umount2, { P("/"), MNT_DETACH } },
                { "open-tree", FILTER, SYS_open_tree, { AT_FDCWD, P("/"), OPEN_TREE_CLOEXEC } },
                { "open-tree-clone", FILTER, SYS_open_tree, { AT_FDCWD, P("/"), OPEN_TREE_CLONE } },
                { "open-tree-attr",
                  FILTER,
                  SYS_open_tree_attr,
                  { AT_FDCWD, P("/"), 0, P(&writable), sizeof writable } },
                { "move-mount", FILTER, SYS_move_mount, { -1, P(""), AT_FDCWD, P("/"), 4 } },
                { "fsopen", FILTER, SYS_fsopen, { P("tmpfs"), 0 } },
                { "fsconfig", FILTER, SYS_fsconfig, { -1, 6, 0, 0, 0 } },
                { "fsmount", FILTER, SYS_fsmount, { -1, 0, 0 } },
                { "fspick", FILTER, SYS_fspick, { AT_FDCWD, P("/"), 0 } },
                { "mount-setattr",
                  FILTER,
                  SYS_mount_setattr,
                  { AT_FDCWD, P("/"), 0, P(&writable), sizeof writable } },
                { "pivot-root", FILTER, SYS_pivot_root, { P("."), P(".") } },
                { "chroot", FILTER, SYS_chroot, { P(".") } },
                { "keyctl", FILTER, SYS_keyctl, { KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0 } },
                { "keyctl-join", FILTER, SYS_keyctl, { KEYCTL_JOIN_SESSION_KEYRING, 0 } },
                { "keyctl-read-user",
                  FILTER,
                  SYS_keyctl,
                  { KEYCTL_READ, KEY_SPEC_USER_KEYRING, P(buffer), 64 } },
                { "add-key",
                  FILTER,
                  SYS_add_key,
                  { P("user"), P("farhand"), P("x"), 1, KEY_SPEC_PROCESS_KEYRING } },
                { "request-key", FILTER, SYS_request_key, { P("user"), P("farhand-none"), 0, 0 } },
                { "bpf-map", FILTER, SYS_bpf, { BPF_MAP_CREATE, P(&map), sizeof map } },
                { "bpf-unknown", FILTER, SYS_bpf, { 9999, P(&map), sizeof map } },
                { "perf-event-open", FILTER, SYS_perf_event_open, { P(&event), 0, -1, -1, 0 } },
                { "userfaultfd", FILTER, SYS_userfaultfd, { O_CLOEXEC | 1 } },
                { "kcmp", FILTER, SYS_kcmp, { self, self, KCMP_FILE, 0, 1 } },
                { "pidfd-getfd", FILTER, SYS_pidfd_getfd, { syscall(SYS_pidfd_open, self, 0), 0, 0 } },
                { "pidfd-getfd-init", FILTER, SYS_pidfd_getfd, { syscall(SYS_pidfd_open, 1, 0), 0, 0 } },
                { "open-by-handle-at", FILTER, SYS_open_by_handle_at, { -1, P(buffer), O_RDONLY } },
                { "kexec-load", FILTER, SYS_kexec_load, { 0, 99, 0, 0xffff } },
                { "init-module", FILTER, SYS_init_module, { 0, 0, P("") } },
                { "finit-module", FILTER, SYS_finit_module, { -1, P(""), 0 } },
                { "delete-module", FILTER, SYS_delete_module, { P("farhand_none"), O_NONBLOCK } },
                { "swapon", FILTER, SYS_swapon, { P("/nonexistent/farhand"), 0 } },
                { "swapoff", FILTER, SYS_swapoff, { P("/nonexistent/farhand") } },
                { "reboot", FILTER, SYS_reboot, { 0, 0, 0, 0 } },
                { "tiocsti-on-pipe", FILTER, SYS_ioctl, { 0, 0x5412, P("x") } },
                { "tioclinux-on-pipe", FILTER, SYS_ioctl, { 0, 0x541c, P("\006") } },
                { "acct", ANYTHING, SYS_acct, { P("/nonexistent/farhand") } },
                { "sethostname", ANYTHING, SYS_sethostname, { P("x"), -1 } },
                { "setdomainname", ANYTHING, SYS_setdomainname, { P("x"), -1 } },
                { "quotactl", ANYTHING, SYS_quotactl, { -1, P("/nonexistent/farhand"), 0, 0 } },
                { "syslog", ANYTHING, SYS_syslog, { 3, P(buffer), 64 } },
                { "vhangup", ANYTHING, SYS_vhangup, { 0 } },
                { "setgroups", ANYTHING, SYS_setgroups, { 1, P(buffer) } },
                { "real-time", ANYTHING, SYS_sched_setscheduler, { 0, 1, P((int[]){ 1 }) } },
                { "drop-no-new-privs", ANYTHING, SYS_prctl, { 38, 0, 0, 0, 0 } },
#ifdef __x86_64__
                { "kexec-file-load", FILTER, SYS_kexec_file_load, { -1, -1, 0, 0, 0xffff } },
                { "iopl", ANYTHING, SYS_iopl, { 3 } },
                { "ioperm", ANYTHING, SYS_ioperm, { 0x80, 1, 1 } },
#endif
        };

        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
                if (strcmp(calls[i].name, name) == 0) {
                        *ret = calls[i];
                        return true;
                }
                if (strcmp(name, "--list") == 0)
                        printf("%s\n", calls[i].name);
        }
        return false;
}

static enum verdict judge_call(const char *name, enum by by, long r)
{
        if (r >= 0)
                return say(BROKE, "%s works: %ld", name, r);
        if (by == FILTER && errno != EPERM && errno != ENOSYS)
                return say(WEAK, "%s: %s, not from the filter", name, strerrorname_np(errno));
        return say(HELD, "%s: %s", name, strerrorname_np(errno));
}

/* Returns whether the call changes the table of mounts. Such calls are tried only where that table is not the host's. */
static bool is_about_mounts(long nr)
{
        static const long all[] = { SYS_mount,          SYS_umount2,    SYS_move_mount, SYS_mount_setattr,
                                    SYS_open_tree_attr, SYS_pivot_root, SYS_fsmount,    SYS_chroot };

        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
                if (all[i] == nr)
                        return true;
        }
        return false;
}

static bool has_mounts_of_the_host(void)
{
        char own[64] = "";

        if (readlink("/proc/self/ns/mnt", own, sizeof own - 1) < 0)
                return true;
        return strcmp(own, setting("BOX_MOUNTS")) == 0;
}

static enum verdict attempt_call(char **args)
{
        struct call c;

        if (!call_find(args[0], &c))
                return strcmp(args[0], "--list") == 0 ? HELD : (enum verdict)99;
        if (is_about_mounts(c.nr) && has_mounts_of_the_host())
                return say(BROKE, "the mounts are those of the host");
        long r = syscall(c.nr, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5]);
        if (c.nr == SYS_clone3 && r == 0)
                _exit(0);
        if (c.nr == SYS_clone3 && r < 0 && errno != ENOSYS)
                return say(WEAK, "%s: %s, and libc does not fall back", c.name, strerrorname_np(errno));
        return judge_call(c.name, c.by, r);
}

/* Tries to make each kind of namespace, with unshare and with clone; also with bits above those that the kernel looks at. */
static enum verdict attempt_namespaces(char **args)
{
        static const struct {
                const char *name;
                long flag;
        } all[] = { NS_ALL };
        const bool by_clone = strcmp(args[0], "unshare") != 0, high = strcmp(args[0], "clone-high-bits") == 0;

        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
                if (by_clone && all[i].flag == 0x80)
                        continue; /* in the flags of clone this bit belongs to the exit signal */
                long flags = all[i].flag | (by_clone ? SIGCHLD : 0) | (high ? 0x7fffffffL << 32 : 0);
                long r = by_clone ? syscall(SYS_clone, flags, 0, 0, 0, 0) : syscall(SYS_unshare, flags);
                if (by_clone && r == 0)
                        _exit(0);
                if (r >= 0 || errno != EPERM)
                        return judge_call(all[i].name, FILTER, r);
        }
        return say(HELD, "%s of every kind: EPERM", args[0]);
}

#ifdef __x86_64__
static long call_i386(long nr, long a, long b, long c)
{
        long r;

        __asm__ volatile("int $0x80"
                         : "=a"(r)
                         : "a"(nr), "b"(a), "c"(b), "d"(c)
                         : "memory", "r8", "r9", "r10", "r11");
        return r;
}

/* Makes calls by the other ways into the same kernel: with 32-bit and with x32 numbers. */
static enum verdict attempt_i386(char **args)
{
        static unsigned socket_args[3] = { AF_UNIX, SOCK_STREAM, 0 };
        const struct {
                const char *name;
                long nr, a, b, c;
        } calls[] = {
                { "unshare", 310, CLONE_NEWUSER, 0, 0 },
                { "clone", 120, CLONE_NEWUSER | SIGCHLD, 0, 0 },
                { "ptrace", 26, PTRACE_TRACEME, 0, 0 },
                { "keyctl", 288, KEYCTL_GET_KEYRING_ID, -3, 0 },
                { "mount", 21, 0, 0, 0 },
                { "socket", 359, AF_UNIX, SOCK_STREAM, 0 },
                { "socketcall", 102, 1, P(socket_args), 0 },
                { "io-uring", 425, 1, 0, 0 },
                { "chroot", 61, 0, 0, 0 },
                { "setns", 346, -1, 0, 0 },
                { "bpf", 357, 9999, 0, 0 },
                { "clone3", 435, 0, 0, 0 },
        };

        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
                if (strcmp(calls[i].name, args[0]) != 0)
                        continue;
                long r = call_i386(calls[i].nr, calls[i].a, calls[i].b, calls[i].c);
                if (r == 0 && strcmp(args[0], "clone") == 0)
                        _exit(0);
                errno = r < 0 ? (int)-r : 0;
                return judge_call(args[0], FILTER, r < 0 ? -1 : r);
        }
        return (enum verdict)99;
}

static enum verdict attempt_x32(char **args)
{
        const struct {
                const char *name;
                long nr, a, b, c;
        } calls[] = {
                { "unshare", 272, CLONE_NEWUSER, 0, 0 },         { "mount", 165, 0, 0, 0 },
                { "keyctl", 250, KEYCTL_GET_KEYRING_ID, -3, 0 }, { "ptrace", 521, PTRACE_TRACEME, 0, 0 },
                { "socket", 41, AF_UNIX, SOCK_STREAM, 0 },       { "getpid", 39, 0, 0, 0 },
        };

        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
                if (strcmp(calls[i].name, args[0]) == 0)
                        return judge_call(args[0], FILTER,
                                          syscall(0x40000000L | calls[i].nr, calls[i].a, calls[i].b,
                                                  calls[i].c, 0, 0, 0));
        }
        return (enum verdict)99;
}
#else
static enum verdict attempt_i386(char **args)
{
        return say(SKIPPED, "no %s by another door here", args[0]);
}
#define attempt_x32 attempt_i386
#endif

/* Tries to switch the filter off, and then makes a call that it refuses. */
static enum verdict attempt_seccomp(char **args)
{
        (void)args;
        errno = 0;
        if (syscall(SYS_prctl, 22 /* PR_SET_SECCOMP */, 0, 0, 0, 0) == 0)
                return say(BROKE, "the filter can be switched off");
        return judge_call("ptrace after", FILTER, syscall(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0));
}

const struct attempt call_attempts[] = {
        { "call", attempt_call }, { "namespaces", attempt_namespaces }, { "i386", attempt_i386 },
        { "x32", attempt_x32 },   { "seccomp-off", attempt_seccomp },   { NULL, NULL },
};
