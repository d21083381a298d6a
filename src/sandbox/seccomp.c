/* seccomp: see seccomp.h.
 *
 * A command has all calls but those that are named here; the filter of file requests is in seccomp_files.c. libseccomp
 * knows the numbers of each machine and makes the tree; it can only say "this argument, masked, is that", so that a set of
 * allowed values is written down by the bits that betray all others. Where the kernel takes an argument for an int it drops
 * the upper half of the register: a comparison of all 64 bits could be walked around, so none that allows something looks
 * at them.
 *
 * A system call of another machine (32-bit programs, int 0x80, x32) kills its process, with SIGSYS: it has other numbers,
 * and half of a table would be worse than none.
 */
#include "sandbox/seccomp_internal.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECCOMP_API_KILL_PROCESS 3 /* the level of the library that knows SCMP_ACT_KILL_PROCESS: Linux 4.14 */

#define IOPRIO_WHO_PROCESS 1

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

/* A command has no use for these that would not reach beyond it. Calls that a machine does not have are left out by the
 * library. Some stay on purpose: adjtimex and clock_adjtime also read the clock, and change it only with a capability;
 * personality concerns nobody but the caller; name_to_handle_at is useless without its counterpart; landlock can only
 * take away. */
static const int denied_calls[] = {
        /* another view of the files */
        SCMP_SYS(mount),
        SCMP_SYS(umount),
        SCMP_SYS(umount2),
        SCMP_SYS(pivot_root),
        SCMP_SYS(chroot),
        SCMP_SYS(open_tree),
        SCMP_SYS(move_mount),
        SCMP_SYS(fsopen),
        SCMP_SYS(fsconfig),
        SCMP_SYS(fsmount),
        SCMP_SYS(fspick),
        SCMP_SYS(mount_setattr),
        NR_OPEN_TREE_ATTR,
        SCMP_SYS(open_by_handle_at),
        SCMP_SYS(setns),
        /* other processes' memory and descriptors */
        SCMP_SYS(ptrace),
        SCMP_SYS(process_vm_readv),
        SCMP_SYS(process_vm_writev),
        SCMP_SYS(process_madvise),
        SCMP_SYS(pidfd_getfd),
        SCMP_SYS(kcmp),
        /* ways around this filter, and wide doors into the kernel */
        SCMP_SYS(io_uring_setup),
        SCMP_SYS(io_uring_enter),
        SCMP_SYS(io_uring_register),
        SCMP_SYS(bpf),
        SCMP_SYS(perf_event_open),
        SCMP_SYS(userfaultfd),
        SCMP_SYS(memfd_secret),
        /* keys outlive processes, and are found by user */
        SCMP_SYS(add_key),
        SCMP_SYS(request_key),
        SCMP_SYS(keyctl),
        /* the machine */
        SCMP_SYS(init_module),
        SCMP_SYS(finit_module),
        SCMP_SYS(delete_module),
        SCMP_SYS(kexec_load),
        SCMP_SYS(kexec_file_load),
        SCMP_SYS(reboot),
        SCMP_SYS(swapon),
        SCMP_SYS(swapoff),
        SCMP_SYS(sethostname),
        SCMP_SYS(setdomainname),
        SCMP_SYS(settimeofday),
        SCMP_SYS(clock_settime),
        SCMP_SYS(stime),
        SCMP_SYS(iopl),
        SCMP_SYS(ioperm),
        SCMP_SYS(acct),
        SCMP_SYS(quotactl),
        SCMP_SYS(quotactl_fd),
        SCMP_SYS(syslog),
        SCMP_SYS(lookup_dcookie),
        SCMP_SYS(nfsservctl),
        SCMP_SYS(vhangup),
};

/* Where no mount is read-only and no namespace of IPC is empty. */
static const int denied_alone[] = {
        /* of files: Landlock has no right for these */
        SCMP_SYS(chmod),
        SCMP_SYS(fchmod),
        SCMP_SYS(fchmodat),
        NR_FCHMODAT2,
        SCMP_SYS(chown),
        SCMP_SYS(lchown),
        SCMP_SYS(fchown),
        SCMP_SYS(fchownat),
        SCMP_SYS(utime),
        SCMP_SYS(utimes),
        SCMP_SYS(futimesat),
        SCMP_SYS(utimensat),
        SCMP_SYS(setxattr),
        SCMP_SYS(lsetxattr),
        SCMP_SYS(fsetxattr),
        NR_SETXATTRAT,
        SCMP_SYS(removexattr),
        SCMP_SYS(lremovexattr),
        SCMP_SYS(fremovexattr),
        NR_REMOVEXATTRAT,
        NR_FILE_SETATTR,
        /* memory, semaphores and queues that belong to the machine */
        SCMP_SYS(shmget),
        SCMP_SYS(shmat),
        SCMP_SYS(shmctl),
        SCMP_SYS(semget),
        SCMP_SYS(semop),
        SCMP_SYS(semtimedop),
        SCMP_SYS(semctl),
        SCMP_SYS(msgget),
        SCMP_SYS(msgsnd),
        SCMP_SYS(msgrcv),
        SCMP_SYS(msgctl),
        SCMP_SYS(mq_open),
        SCMP_SYS(mq_unlink),
        NR_PROCESS_MRELEASE,
};

/* For clone, whose lowest byte is a signal (CLONE_NEWTIME is none of its flags). */
#define CLONE_NAMESPACES                                                                              \
        (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | \
         CLONE_NEWNET)

#define SOCKET_TYPE_MASK 0xfU /* the rest of a type are flags */

/* The call answers `os_errno` when all comparisons hold. A call that this machine does not have has a negative number. */
static void refuse(struct builder *b, int os_errno, int nr, unsigned count, const struct scmp_arg_cmp *all)
{
        if (b->r == 0 && nr >= 0)
                b->r = seccomp_rule_add_array(b->ctx, SCMP_ACT_ERRNO((uint16_t)os_errno), nr, count, all);
}

static void deny(struct builder *b, int nr)
{
        refuse(b, EPERM, nr, 0, NULL);
}

static void deny_if(struct builder *b, int nr, struct scmp_arg_cmp one)
{
        refuse(b, EPERM, nr, 1, &one);
}

/* Whatever has anything in the upper half is refused as well. */
static void deny_unless(struct builder *b, int nr, unsigned arg, uint32_t value)
{
        deny_if(b, nr, (struct scmp_arg_cmp){ arg, SCMP_CMP_NE, value, 0 });
}

static void deny_any_bit(struct builder *b, int nr, unsigned arg, uint32_t bits)
{
        for (uint32_t bit = 1; bit != 0; bit <<= 1)
                if (bits & bit)
                        deny_if(b, nr, arg_has(arg, bit, bit));
}

static void deny_namespaces(struct builder *b)
{
        deny_any_bit(b, SCMP_SYS(clone), 0, CLONE_NAMESPACES);
        /* Below 19 bits only these two are namespaces; the rest is a process's own, or unknown to the kernel. */
        deny_if(b, SCMP_SYS(unshare), (struct scmp_arg_cmp){ 0, SCMP_CMP_GT, 0x7ffff, 0 });
        deny_any_bit(b, SCMP_SYS(unshare), 0, CLONE_NEWTIME | CLONE_NEWNS);
        /* Its flags are in memory, out of sight. libc takes the answer for an old kernel's, and uses clone. */
        refuse(b, ENOSYS, SCMP_SYS(clone3), 0, NULL);
}

/* Keys typed by a program on the terminal that it shares with whoever started it. */
static void deny_typing(struct builder *b)
{
        deny_if(b, SCMP_SYS(ioctl), arg_is(1, TIOCSTI));
        deny_if(b, SCMP_SYS(ioctl), arg_is(1, TIOCLINUX));
}

/* In an empty network: AF_INET (2), AF_INET6 (10), and AF_NETLINK (16) for NETLINK_ROUTE (0). No AF_UNIX: a socket of the
 * host is a file that a read-only mount does not close. In binary 00010, 01010, 10000: whatever has bit 0 or 2, neither
 * or both of 1 and 4, or 3 with 4, is another one. */
static void allow_local_sockets(struct builder *b)
{
        const int nr = SCMP_SYS(socket);
        static_assert(AF_INET == 2 && AF_INET6 == 10 && AF_NETLINK == 16, "the bits below");
        deny_if(b, nr, (struct scmp_arg_cmp){ 0, SCMP_CMP_GT, 0x1f, 0 });
        deny_if(b, nr, arg_has(0, 0x01, 0x01));
        deny_if(b, nr, arg_has(0, 0x04, 0x04));
        deny_if(b, nr, arg_has(0, 0x12, 0x00));
        deny_if(b, nr, arg_has(0, 0x12, 0x12));
        deny_if(b, nr, arg_has(0, 0x18, 0x18));
        refuse(b, EPERM, nr, 2, (struct scmp_arg_cmp[]){ arg_has(0, 0x10, 0x10), { 2, SCMP_CMP_NE, 0, 0 } });
}

/* AF_UNIX (1) as SOCK_STREAM (1) or SOCK_SEQPACKET (5): with those nobody but the other end is reached. A datagram can be
 * sent from a pair to any address. SOCK_RAW (3) is a datagram by another name. */
static void allow_connected_pairs(struct builder *b)
{
        const int nr = SCMP_SYS(socketpair);
        static_assert(AF_UNIX == 1 && SOCK_STREAM == 1 && SOCK_SEQPACKET == 5, "the bits below");
        deny_if(b, nr, (struct scmp_arg_cmp){ 0, SCMP_CMP_NE, AF_UNIX, 0 });
        deny_if(b, nr, arg_has(1, 0x1, 0x0));
        deny_if(b, nr, arg_has(1, 0x2, 0x2));
        deny_if(b, nr, arg_has(1, 0x8, 0x8));
}

static void deny_host_sockets(struct builder *b)
{
        deny_if(b, SCMP_SYS(socket), arg_is(0, AF_VSOCK));
        deny_if(b, SCMP_SYS(socket), arg_is(0, AF_PACKET));
}

/* One's own, as 0, may be set. A limit of processor time, set on somebody else, would be a signal. */
static void deny_settings_of_others(struct builder *b)
{
        static const int by_pid[] = { SCMP_SYS(prlimit64), SCMP_SYS(sched_setaffinity),
                                      SCMP_SYS(sched_setscheduler), SCMP_SYS(sched_setparam),
                                      SCMP_SYS(sched_setattr) };
        for (size_t i = 0; i < ARRAY_LEN(by_pid); i++)
                deny_unless(b, by_pid[i], 0, 0);
        deny_unless(b, SCMP_SYS(setpriority), 0, PRIO_PROCESS);
        deny_unless(b, SCMP_SYS(setpriority), 1, 0);
        deny_unless(b, SCMP_SYS(ioprio_set), 0, IOPRIO_WHO_PROCESS);
        deny_unless(b, SCMP_SYS(ioprio_set), 1, 0);
}

/* File systems change files and make snapshots by ioctl, on descriptors that are open for reading. Allowed are those of
 * terminals, pipes and the like ('T'), and of sockets (0x89): whatever disagrees with either in some bit is another. */
static void deny_other_ioctls(struct builder *b)
{
        const uint32_t allowed[] = { 'T' << 8, 0x89 << 8 }, first = 1U << 15;
        static_assert('T' < 0x80, "the first bit tells them apart");
        for (uint32_t bit = 1U << 8; bit < first; bit <<= 1) {
                deny_if(b, SCMP_SYS(ioctl), arg_has(1, first | bit, ~allowed[0] & bit));
                deny_if(b, SCMP_SYS(ioctl), arg_has(1, first | bit, first | (~allowed[1] & bit)));
        }
}

static void deny_alone(struct builder *b)
{
        for (size_t i = 0; i < ARRAY_LEN(denied_alone); i++)
                deny(b, denied_alone[i]);
        deny_settings_of_others(b);
        deny_other_ioctls(b);
}

static void add_rules(struct builder *b, enum seccomp_kind kind)
{
        for (size_t i = 0; i < ARRAY_LEN(denied_calls); i++)
                deny(b, denied_calls[i]);
        deny_namespaces(b);
        deny_typing(b);
        /* The oldest way to AF_PACKET: a type of AF_INET. */
        deny_if(b, SCMP_SYS(socket), arg_has(1, SOCKET_TYPE_MASK, SOCK_PACKET));
        switch (kind) {
        case SECCOMP_HOST_NETWORK:
        case SECCOMP_ALONE_HOST_NETWORK:
                deny_host_sockets(b);
                break;
        case SECCOMP_OWN_NETWORK:
                allow_local_sockets(b);
                allow_connected_pairs(b);
                break;
        default:
                deny(b, SCMP_SYS(socket));
                allow_connected_pairs(b);
                break;
        }
        if (kind == SECCOMP_ALONE_NO_SOCKETS || kind == SECCOMP_ALONE_HOST_NETWORK)
                deny_alone(b);
}

/* The library writes to descriptors only. */
static int export(scmp_filter_ctx ctx, struct seccomp_filter *ret)
{
        _close_ int fd = memfd_create("seccomp", MFD_CLOEXEC);
        if (fd < 0)
                return -errno;
        int r = seccomp_export_bpf(ctx, fd);
        if (r < 0)
                return r;
        off_t size = lseek(fd, 0, SEEK_END);
        if (size <= 0 || (size_t)size > BPF_MAXINSNS * sizeof(struct sock_filter))
                return -EOVERFLOW;
        _free_ struct sock_filter *code = mem_alloc((size_t)size);
        if (pread(fd, code, (size_t)size, 0) != (ssize_t)size)
                return -EIO;
        *ret = (struct seccomp_filter){ TAKE(code), (size_t)size / sizeof(*code) };
        return 0;
}

static int compile(scmp_filter_ctx ctx, enum seccomp_kind kind, struct seccomp_filter *ret)
{
        struct builder b = { .ctx = ctx };
        b.r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
        if (b.r == 0)
                b.r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a binary tree */
        if (kind == SECCOMP_FILES)
                seccomp_allow_file_calls(&b);
        else
                add_rules(&b, kind);
        return b.r < 0 ? b.r : export(ctx, ret);
}

int seccomp_compile(enum seccomp_kind kind, struct seccomp_filter *ret, struct err *err)
{
        /* Or the library asks the running kernel which actions it has. All that we run on have these; one that has not
         * refuses the filter, and with it the command. */
        int r = seccomp_api_set(SECCOMP_API_KILL_PROCESS);
        if (r == 0) {
                scmp_filter_ctx ctx =
                        seccomp_init(kind == SECCOMP_FILES ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_ALLOW);
                r = ctx ? compile(ctx, kind, ret) : -ENOMEM;
                seccomp_release(ctx);
        }
        if (r < 0) {
                err_set(err, 0, r, "the filter of system calls cannot be compiled: %s", errno_text(r));
                err->step = "seccomp";
                err->os_errno = -r;
        }
        return r;
}

void seccomp_filter_release(struct seccomp_filter *f)
{
        free(f->code);
        *f = (struct seccomp_filter){ 0 };
}
