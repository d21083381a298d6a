/* seccomp_test: a small interpreter runs the filter for calls that a test must not make; children with the filter make the
 * other calls. */
#include "unit.h"

#include "sandbox/seccomp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#define FOREIGN_ARCH AUDIT_ARCH_I386
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#define FOREIGN_ARCH AUDIT_ARCH_ARM
#endif

#define GARBAGE (1ULL << 32) /* in the upper half of a register, which the kernel ignores */
#define REFUSED ((uint32_t)SECCOMP_RET_ERRNO | EPERM)
#define ALLOWED ((uint32_t)SECCOMP_RET_ALLOW)

static const struct seccomp_filter *filter(enum seccomp_kind kind)
{
        static struct seccomp_filter filters[SECCOMP_KINDS];
        struct err err = ERR_INIT;
        if (!filters[kind].code)
                eq_int(seccomp_compile(kind, &filters[kind], &err), 0);
        return &filters[kind];
}

/* --- the interpreter ---------------------------------------------------------------------------------------------- */

static bool jumps(uint16_t op, uint32_t a, uint32_t k)
{
        switch (op) {
        case BPF_JEQ:
                return a == k;
        case BPF_JGT:
                return a > k;
        case BPF_JGE:
                return a >= k;
        case BPF_JSET:
                return (a & k) != 0;
        }
        fail();
        return false;
}

static size_t steps; /* how many instructions the last run executed */

static uint32_t run(const struct seccomp_filter *f, const struct seccomp_data *data)
{
        uint32_t a = 0;
        steps = 0;
        for (size_t pc = 0; pc < f->count; pc++) {
                steps++;
                const struct sock_filter *i = &f->code[pc];
                if (i->code == (BPF_RET | BPF_K))
                        return i->k;
                if (i->code == (BPF_LD | BPF_W | BPF_ABS)) {
                        ok(i->k % sizeof(a) == 0 && i->k < sizeof(*data));
                        memcpy(&a, (const char *)data + i->k, sizeof(a));
                } else if (i->code == (BPF_ALU | BPF_AND | BPF_K)) {
                        a &= i->k;
                } else if (i->code == (BPF_JMP | BPF_JA)) {
                        pc += i->k;
                } else {
                        eq_int(BPF_CLASS(i->code), BPF_JMP);
                        pc += jumps(BPF_OP(i->code), a, i->k) ? i->jt : i->jf;
                }
        }
        fail();
        return 0;
}

static uint32_t decide_on(enum seccomp_kind kind, uint32_t arch, long nr, uint64_t a, uint64_t b, uint64_t c)
{
        struct seccomp_data data = { .nr = (int)nr, .arch = arch, .args = { a, b, c } };
        return run(filter(kind), &data);
}

static uint32_t decide(enum seccomp_kind kind, long nr, uint64_t a, uint64_t b, uint64_t c)
{
        return decide_on(kind, NATIVE, nr, a, b, c);
}

static const long refused_calls[] = {
        SYS_mount,
        SYS_umount2,
        SYS_pivot_root,
        SYS_chroot,
        428, /* open_tree */
        429, /* move_mount */
        430, /* fsopen */
        431, /* fsconfig */
        432, /* fsmount */
        433, /* fspick */
        442, /* mount_setattr */
        467, /* open_tree_attr */
        SYS_open_by_handle_at,
        SYS_setns,
        SYS_ptrace,
        SYS_process_vm_readv,
        SYS_process_vm_writev,
        440, /* process_madvise */
        438, /* pidfd_getfd */
        SYS_kcmp,
        425, /* io_uring_setup */
        426, /* io_uring_enter */
        427, /* io_uring_register */
        SYS_bpf,
        SYS_perf_event_open,
        SYS_userfaultfd,
        447, /* memfd_secret */
        SYS_add_key,
        SYS_request_key,
        SYS_keyctl,
        SYS_init_module,
        SYS_finit_module,
        SYS_delete_module,
        SYS_kexec_load,
        SYS_kexec_file_load,
        SYS_reboot,
        SYS_swapon,
        SYS_swapoff,
        SYS_sethostname,
        SYS_setdomainname,
        SYS_settimeofday,
        SYS_clock_settime,
#ifdef SYS_iopl
        SYS_iopl,
        SYS_ioperm,
#endif
        SYS_acct,
        SYS_quotactl,
        443, /* quotactl_fd */
        SYS_syslog,
        SYS_lookup_dcookie,
        SYS_nfsservctl,
        SYS_vhangup,
};

TEST(both_filters_refuse_what_reaches_beyond_a_command)
{
        for (unsigned net = 0; net < 2; net++)
                for (size_t i = 0; i < ARRAY_LEN(refused_calls); i++)
                        eq_int(decide(net, refused_calls[i], 0, 0, 0), REFUSED);
}

TEST(a_filter_is_small_and_its_tree_is_shallow)
{
        for (unsigned net = 0; net < 2; net++) {
                ok(filter(net)->count > 100 && filter(net)->count < 400);
                for (long nr = 0; nr < 500; nr++) {
                        (void)decide(net, nr, 0, 0, 0);
                        ok(steps < 50);
                }
                (void)decide(net, SYS_read, 0, 0, 0);
                ok(steps < 20);
        }
}

TEST(calls_of_another_machine_kill)
{
        for (unsigned net = 0; net < 2; net++) {
                eq_int(decide_on(net, FOREIGN_ARCH, 20 /* getpid */, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
                eq_int(decide_on(net, 0, SYS_read, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
#if defined(__x86_64__)
                eq_int(decide(net, 0x40000000L | SYS_read, 0, 0, 0), SECCOMP_RET_KILL_PROCESS); /* x32 */
                eq_int(decide(net, 0x40000000L | 521, 0, 0, 0), SECCOMP_RET_KILL_PROCESS); /* ptrace of x32 */
#endif
        }
}

TEST(namespaces_are_refused_and_threads_are_not)
{
        static const uint64_t spaces[] = { CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                           CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET };
        const uint64_t thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                                CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
        for (unsigned net = 0; net < 2; net++) {
                for (size_t i = 0; i < ARRAY_LEN(spaces); i++) {
                        eq_int(decide(net, SYS_clone, spaces[i], 0, 0), REFUSED);
                        eq_int(decide(net, SYS_clone, thread | spaces[i] | GARBAGE, 0, 0), REFUSED);
                        eq_int(decide(net, SYS_unshare, spaces[i] | CLONE_FS, 0, 0), REFUSED);
                }
                eq_int(decide(net, SYS_unshare, 0x80 /* CLONE_NEWTIME */, 0, 0), REFUSED);
                eq_int(decide(net, SYS_unshare, 0x100000 /* a flag of a later kernel */, 0, 0), REFUSED);
                eq_int(decide(net, SYS_unshare, CLONE_FS | CLONE_FILES | CLONE_SYSVSEM, 0, 0), ALLOWED);
                eq_int(decide(net, SYS_clone, thread, 0, 0), ALLOWED);
                eq_int(decide(net, SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0), ALLOWED);
                eq_int(decide(net, SYS_clone, 0x80, 0, 0), ALLOWED); /* the number of a signal */
                eq_int(decide(net, 435 /* clone3 */, 0, 0, 0), SECCOMP_RET_ERRNO | ENOSYS);
        }
}

TEST(typing_on_the_terminal_is_refused_however_the_command_is_extended)
{
        static const uint64_t same[] = { 0, GARBAGE, 0xffffffff00000000 };
        for (unsigned net = 0; net < 2; net++) {
                for (size_t i = 0; i < ARRAY_LEN(same); i++) {
                        eq_int(decide(net, SYS_ioctl, 0, TIOCSTI | same[i], 0), REFUSED);
                        eq_int(decide(net, SYS_ioctl, 0, TIOCLINUX | same[i], 0), REFUSED);
                }
                eq_int(decide(net, SYS_ioctl, 0, TIOCSCTTY, 0), ALLOWED);
                eq_int(decide(net, SYS_ioctl, 0, TIOCGWINSZ, 0), ALLOWED);
        }
}

TEST(without_network_only_three_families_are_left)
{
        static const uint64_t bits[] = { 0, GARBAGE, 1ULL << 63, 0xffffffff00000000 };
        for (uint64_t family = 0; family < 300; family++) {
                bool is_local = family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
                for (size_t i = 0; i < ARRAY_LEN(bits); i++)
                        eq_int(decide(false, SYS_socket, family | bits[i], SOCK_STREAM, 0),
                               is_local && bits[i] == 0 ? ALLOWED : REFUSED);
        }
        for (unsigned bit = 5; bit < 64; bit++)
                eq_int(decide(false, SYS_socket, AF_INET | 1ULL << bit, SOCK_STREAM, 0), REFUSED);
        for (uint64_t protocol = 1; protocol < 40; protocol++)
                eq_int(decide(false, SYS_socket, AF_NETLINK, SOCK_RAW, protocol), REFUSED);
        eq_int(decide(false, SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), ALLOWED);
        eq_int(decide(false, SYS_socket, AF_INET, SOCK_DGRAM, IPPROTO_UDP), ALLOWED);
        eq_int(decide(false, SYS_socket, AF_INET, SOCK_PACKET, 0), REFUSED);
}

TEST(without_network_only_connected_pairs_are_left)
{
        for (uint64_t type = 0; type < 16; type++) {
                bool is_connected = type == SOCK_STREAM || type == SOCK_SEQPACKET;
                uint32_t is = is_connected ? ALLOWED : REFUSED;
                eq_int(decide(false, SYS_socketpair, AF_UNIX, type, 0), is);
                eq_int(decide(false, SYS_socketpair, AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), is);
                eq_int(decide(false, SYS_socketpair, AF_UNIX, type | GARBAGE, 0), is);
        }
        for (uint64_t family = 0; family < 64; family++)
                if (family != AF_UNIX)
                        eq_int(decide(false, SYS_socketpair, family, SOCK_STREAM, 0), REFUSED);
}

TEST(with_network_the_hosts_packets_and_machines_stay_out_of_reach)
{
        for (uint64_t family = 0; family < 64; family++)
                eq_int(decide(true, SYS_socket, family, SOCK_DGRAM, 0),
                       family == AF_VSOCK || family == AF_PACKET ? REFUSED : ALLOWED);
        eq_int(decide(true, SYS_socket, AF_VSOCK | GARBAGE, SOCK_STREAM, 0), REFUSED);
        eq_int(decide(true, SYS_socket, AF_PACKET | GARBAGE, SOCK_RAW, 0), REFUSED);
        eq_int(decide(true, SYS_socket, AF_INET, SOCK_PACKET | SOCK_CLOEXEC, 0), REFUSED);
        eq_int(decide(true, SYS_socketpair, AF_UNIX, SOCK_DGRAM, 0), ALLOWED);
}

TEST(ordinary_calls_are_allowed)
{
        static const long calls[] = { SYS_read,
                                      SYS_openat,
                                      SYS_execve,
                                      SYS_connect,
                                      SYS_bind,
                                      SYS_listen,
                                      SYS_accept4,
                                      SYS_getpeername,
                                      SYS_getsockname,
                                      SYS_sendto,
                                      SYS_getsockopt,
                                      SYS_setsockopt,
                                      SYS_shutdown,
                                      SYS_sendmsg,
                                      SYS_personality,
                                      SYS_name_to_handle_at,
                                      SYS_adjtimex,
                                      SYS_seccomp,
                                      SYS_prctl,
                                      444, /* landlock */
                                      500 };
        for (unsigned net = 0; net < 2; net++)
                for (size_t i = 0; i < ARRAY_LEN(calls); i++)
                        eq_int(decide(net, calls[i], 0, 0, 0), ALLOWED);
}

/* --- the filter in the kernel ------------------------------------------------------------------------------------- */

static void apply(const struct seccomp_filter *f)
{
        struct sock_fprog prog = { (unsigned short)f->count, f->code };
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
                _exit(99);
}

/* Calls `fn` in a child with the filter and returns its result: 0, or the number of the step that failed;
 * -signal when it was killed. */
static int in_child(bool has_network, int (*fn)(void))
{
        const struct seccomp_filter *f = filter(has_network);
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
                apply(f);
                _exit(fn());
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

#define CHECK(step, cond)            \
        do {                         \
                if (!(cond))         \
                        return step; \
        } while (0)

static int try_refused_calls(void)
{
        for (size_t i = 0; i < ARRAY_LEN(refused_calls); i++)
                CHECK((int)i + 1,
                      syscall(refused_calls[i], -1L, -1L, -1L, -1L, -1L, -1L) == -1 && errno == EPERM);
        return 0;
}

TEST(the_kernel_answers_eperm_to_each_refused_call)
{
        skip_in_valgrind("makes system calls of its own and answers unknown ones itself");
        for (unsigned net = 0; net < 2; net++) {
                for (size_t i = 0; i < ARRAY_LEN(refused_calls);
                     i++) /* without the filter the child would change the machine */
                        eq_int(decide(net, refused_calls[i], UINT64_MAX, UINT64_MAX, UINT64_MAX), REFUSED);
                eq_int(in_child(net, try_refused_calls), 0);
        }
}

static int try_namespaces(void)
{
        CHECK(1, syscall(SYS_unshare, CLONE_NEWUSER) == -1 && errno == EPERM);
        CHECK(2, syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL) == -1 && errno == EPERM);
        CHECK(3, syscall(435, NULL, 0) == -1 && errno == ENOSYS);
        CHECK(4, unshare(CLONE_FS) == 0);
        pid_t pid = fork();
        CHECK(5, pid >= 0);
        if (pid == 0)
                _exit(7);
        int status;
        CHECK(6, waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7);
        return 0;
}

TEST(a_child_can_be_made_and_a_namespace_cannot)
{
        skip_in_valgrind("makes system calls of its own and answers unknown ones itself");
        eq_int(in_child(false, try_namespaces), 0);
        eq_int(in_child(true, try_namespaces), 0);
}

static bool is_refused(int family, int type, int protocol)
{
        int fd = socket(family, type, protocol);
        if (fd >= 0)
                close(fd);
        return fd < 0 && errno == EPERM;
}

static int try_foreign_sockets(void)
{
        CHECK(1, is_refused(AF_UNIX, SOCK_STREAM, 0));
        CHECK(2, is_refused(AF_UNIX, SOCK_DGRAM, 0));
        CHECK(3, is_refused(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        CHECK(4, is_refused(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT));
        CHECK(5, is_refused(AF_VSOCK, SOCK_STREAM, 0));
        CHECK(6, is_refused(AF_PACKET, SOCK_RAW, 0));
        CHECK(7, is_refused(AF_ALG, SOCK_SEQPACKET, 0));
        int fds[2];
        CHECK(8, socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) == -1 && errno == EPERM);
        CHECK(9, syscall(SYS_socket, AF_UNIX | GARBAGE, SOCK_STREAM, 0) == -1 && errno == EPERM);
        return 0;
}

static int try_pair(int type)
{
        int fds[2];
        char c = 0;
        CHECK(1, socketpair(AF_UNIX, type, 0, fds) == 0);
        CHECK(2, send(fds[0], "x", 1, MSG_NOSIGNAL) == 1 && recv(fds[1], &c, 1, 0) == 1 && c == 'x');
        CHECK(3, write(fds[1], "y", 1) == 1 && read(fds[0], &c, 1) == 1 && c == 'y');
        int size;
        socklen_t n = sizeof(size);
        struct sockaddr_un name;
        socklen_t name_len = sizeof(name);
        CHECK(4, getsockopt(fds[0], SOL_SOCKET, SO_TYPE, &size, &n) == 0);
        CHECK(5, getpeername(fds[0], (struct sockaddr *)&name, &name_len) == 0);
        CHECK(6, shutdown(fds[0], SHUT_WR) == 0 && read(fds[1], &c, 1) == 0);
        return 0;
}

/* bash takes its stdin for a network connection, and reads .bashrc, unless getpeername says ENOTSOCK. */
static int try_pairs_and_pipes(void)
{
        CHECK(10, try_pair(SOCK_STREAM) == 0);
        CHECK(11, try_pair(SOCK_SEQPACKET | SOCK_CLOEXEC) == 0);
        int fds[2];
        struct sockaddr_storage name;
        socklen_t n = sizeof(name);
        CHECK(12, pipe(fds) == 0);
        CHECK(13, getpeername(fds[0], (struct sockaddr *)&name, &n) == -1 && errno == ENOTSOCK);
        return 0;
}

static int try_loopback(void)
{
        struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t n = sizeof(at);
        int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(1, server >= 0 && bind(server, (struct sockaddr *)&at, n) == 0 && listen(server, 1) == 0);
        CHECK(2, getsockname(server, (struct sockaddr *)&at, &n) == 0);
        int client = socket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
        CHECK(3, client >= 0 && connect(client, (struct sockaddr *)&at, n) == 0);
        int peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
        char c = 0;
        CHECK(4, peer >= 0 && send(client, "x", 1, 0) == 1 && recv(peer, &c, 1, 0) == 1 && c == 'x');
        int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
        CHECK(5, netlink >= 0);
        return 0;
}

TEST(without_network_foreign_sockets_are_refused_and_pairs_work)
{
        skip_in_valgrind("makes system calls of its own and answers unknown ones itself");
        eq_int(in_child(false, try_foreign_sockets), 0);
        eq_int(in_child(false, try_pairs_and_pipes), 0);
}

static int try_unix_sockets(void)
{
        int fds[2];
        CHECK(1, socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
        CHECK(2, socket(AF_UNIX, SOCK_DGRAM, 0) >= 0);
        CHECK(3, socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) == 0);
        CHECK(4, is_refused(AF_VSOCK, SOCK_STREAM, 0));
        CHECK(5, is_refused(AF_PACKET, SOCK_RAW, 0));
        return 0;
}

TEST(loopback_works_under_both_and_unix_sockets_with_network)
{
        skip_in_valgrind("makes system calls of its own and answers unknown ones itself");
        eq_int(in_child(false, try_loopback), 0);
        eq_int(in_child(true, try_loopback), 0);
        eq_int(in_child(true, try_unix_sockets), 0);
}

static int try_typing(void)
{
        CHECK(1, ioctl(0, TIOCSTI, "x") == -1 && errno == EPERM);
        CHECK(2, syscall(SYS_ioctl, -1, TIOCSTI | GARBAGE, "x") == -1 && errno == EPERM);
        CHECK(3, syscall(SYS_ioctl, -1, TIOCLINUX, "x") == -1 && errno == EPERM);
        CHECK(4, syscall(SYS_ioctl, -1, TIOCGWINSZ, NULL) == -1 && errno == EBADF);
        return 0;
}

TEST(the_kernel_refuses_typing)
{
        skip_in_valgrind("makes system calls of its own and answers unknown ones itself");
        eq_int(in_child(false, try_typing), 0);
        eq_int(in_child(true, try_typing), 0);
}

#if defined(__x86_64__)
static int try_int80(void)
{
        long r = 20; /* getpid in the 32-bit numbering */
        __asm__ volatile("int $0x80" : "+a"(r) : : "memory");
        return 1;
}

TEST(a_32_bit_call_from_a_64_bit_program_ends_it)
{
        skip_in_valgrind("makes system calls of its own and answers unknown ones itself");
        int r = in_child(false, try_int80);
        if (r == -SIGSEGV)
                skip(); /* a kernel without 32-bit calls */
        eq_int(r, -SIGSYS);
}
#endif

/* --- without namespaces ------------------------------------------------------------------------------------------- */

static const enum seccomp_kind alone[] = { SECCOMP_ALONE_NO_SOCKETS, SECCOMP_ALONE_HOST_NETWORK };

TEST(every_kind_refuses_what_reaches_beyond_a_command)
{
        for (unsigned kind = 0; kind < SECCOMP_KINDS; kind++) {
                ok(filter(kind)->count < 600);
                for (size_t i = 0; i < ARRAY_LEN(refused_calls); i++)
                        eq_int(decide(kind, refused_calls[i], 0, 0, 0), REFUSED);
                eq_int(decide(kind, SYS_clone, CLONE_NEWUSER, 0, 0), REFUSED);
                eq_int(decide(kind, SYS_ioctl, 0, TIOCSTI, 0), REFUSED);
                eq_int(decide(kind, SYS_ioctl, 0, 0x50009401 /* BTRFS_IOC_SNAP_CREATE */, 0), REFUSED);
                eq_int(decide(kind, SYS_ioctl, 0, 0x50009417 /* BTRFS_IOC_SNAP_CREATE_V2 */, 0), REFUSED);
                eq_int(decide(kind, SYS_read, 0, 0, 0), ALLOWED);
                if (kind == SECCOMP_FILES)
                        continue; /* the filter of fs helpers, not of commands */
                eq_int(decide(kind, SYS_fcntl, 0, F_SETLEASE, 0), REFUSED);
                eq_int(decide(kind, SYS_fcntl, 0, 1040 /* F_SETDELEG */, 0), REFUSED);
        }
}

TEST(without_an_own_network_there_are_no_sockets_but_pairs)
{
        static const enum seccomp_kind closed[] = { SECCOMP_NO_SOCKETS, SECCOMP_ALONE_NO_SOCKETS };
        for (size_t i = 0; i < ARRAY_LEN(closed); i++) {
                for (uint64_t family = 0; family < 64; family++)
                        for (uint64_t type = 0; type < 11; type++)
                                eq_int(decide(closed[i], SYS_socket, family, type, 0), REFUSED);
                eq_int(decide(closed[i], SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), ALLOWED);
                eq_int(decide(closed[i], SYS_socketpair, AF_UNIX, SOCK_SEQPACKET, 0), ALLOWED);
                eq_int(decide(closed[i], SYS_socketpair, AF_UNIX, SOCK_DGRAM, 0), REFUSED);
                eq_int(decide(closed[i], SYS_bind, 0, 0, 0), REFUSED);
        }
        eq_int(decide(SECCOMP_OWN_NETWORK, SYS_bind, 0, 0, 0), ALLOWED);
        eq_int(decide(SECCOMP_ALONE_HOST_NETWORK, SYS_socket, AF_INET, SOCK_STREAM, 0), ALLOWED);
        eq_int(decide(SECCOMP_ALONE_HOST_NETWORK, SYS_socket, AF_PACKET, SOCK_RAW, 0), REFUSED);
}

TEST(what_landlock_has_no_right_for_is_refused_where_it_is_alone)
{
        static const long calls[] = {
                SYS_fchmod,
                SYS_fchmodat,
                452 /* fchmodat2 */,
                SYS_fchown,
                SYS_fchownat,
                SYS_utimensat,
                SYS_setxattr,
                SYS_lsetxattr,
                SYS_fsetxattr,
                SYS_removexattr,
                SYS_lremovexattr,
                SYS_fremovexattr,
                463 /* setxattrat */,
                466 /* removexattrat */,
                469 /* file_setattr */,
                SYS_shmget,
                SYS_shmat,
                SYS_semget,
                SYS_msgget,
                SYS_mq_open,
        };
        for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
                for (size_t k = 0; k < ARRAY_LEN(alone); k++)
                        eq_int(decide(alone[k], calls[i], 0, 0, 0), REFUSED);
                eq_int(decide(SECCOMP_NO_SOCKETS, calls[i], 0, 0, 0), ALLOWED);
                eq_int(decide(SECCOMP_OWN_NETWORK, calls[i], 0, 0, 0), ALLOWED);
        }
}

TEST(with_landlock_alone_a_process_changes_only_its_own_limits_and_priorities)
{
        static const long calls[] = { SYS_prlimit64, SYS_sched_setaffinity, SYS_sched_setscheduler,
                                      SYS_sched_setparam, SYS_sched_setattr };
        for (size_t k = 0; k < ARRAY_LEN(alone); k++) {
                for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
                        eq_int(decide(alone[k], calls[i], 0, 0, 0), ALLOWED);
                        eq_int(decide(alone[k], calls[i], 1, 0, 0), REFUSED);
                        eq_int(decide(alone[k], calls[i], 4711, 0, 0), REFUSED);
                        eq_int(decide(alone[k], calls[i], 4711 | GARBAGE, 0, 0), REFUSED);
                }
                eq_int(decide(alone[k], SYS_setpriority, PRIO_PROCESS, 0, 5), ALLOWED);
                eq_int(decide(alone[k], SYS_setpriority, PRIO_PROCESS, 1, 5), REFUSED);
                eq_int(decide(alone[k], SYS_setpriority, PRIO_USER, 0, 5), REFUSED);
                eq_int(decide(alone[k], SYS_ioprio_set, 1 /* IOPRIO_WHO_PROCESS */, 0, 0), ALLOWED);
                eq_int(decide(alone[k], SYS_ioprio_set, 1, 4711, 0), REFUSED);
                eq_int(decide(alone[k], SYS_ioprio_set, 3 /* IOPRIO_WHO_USER */, 0, 0), REFUSED);
        }
}

TEST(ioctls_are_those_of_terminals_and_sockets_where_landlock_is_alone)
{
        for (size_t k = 0; k < ARRAY_LEN(alone); k++) {
                for (uint64_t type = 0; type < 256; type++) {
                        bool is_known = type == 'T' || type == 0x89;
                        uint64_t command = type << 8 | 0x40080002;
                        eq_int(decide(alone[k], SYS_ioctl, 0, command, 0), is_known ? ALLOWED : REFUSED);
                        eq_int(decide(alone[k], SYS_ioctl, 0, command | GARBAGE, 0),
                               is_known ? ALLOWED : REFUSED);
                }
                eq_int(decide(alone[k], SYS_ioctl, 0, TCGETS, 0), ALLOWED);
                eq_int(decide(alone[k], SYS_ioctl, 0, FIONREAD, 0), ALLOWED);
        }
}
