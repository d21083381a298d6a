/* seccomp: compiles the filters of commands; the filter of file requests is in seccomp_files.c.
 *
 * A command may use every system call except those named here. libseccomp knows the numbers of each architecture and makes
 * the code. It can only compare an argument, masked, with a value, so a set of allowed values is expressed by the bits that
 * all other values differ in. Where the kernel reads an argument as an int, it ignores the upper half of the register. A
 * denial of one value could be evaded by bits in that half, so it compares only the lower half.
 *
 * A system call of another architecture (32-bit programs, int 0x80, x32) kills its process with SIGSYS: it has other
 * numbers, and a partial filter would be worse than none.
 */
#include "sandbox/seccomp_internal.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECCOMP_API_KILL_PROCESS 3 /* the level of libseccomp that has SCMP_ACT_KILL_PROCESS: Linux 4.14 */

#define IOPRIO_WHO_PROCESS 1

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

/* Calls whose only use reaches beyond the command. libseccomp leaves out calls that an architecture lacks. Some calls are
 * allowed on purpose: adjtimex and clock_adjtime also read the clock, and set it only with a capability; personality
 * concerns only the caller; name_to_handle_at is useless without open_by_handle_at; landlock can only take rights away. */
static const int denied_calls[] = {
        /* calls that change the view of the files */
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
        /* calls on the memory and the descriptors of other processes */
        SCMP_SYS(ptrace),
        SCMP_SYS(process_vm_readv),
        SCMP_SYS(process_vm_writev),
        SCMP_SYS(process_madvise),
        SCMP_SYS(pidfd_getfd),
        SCMP_SYS(kcmp),
        /* calls that could evade this filter, and large interfaces of the kernel */
        SCMP_SYS(io_uring_setup),
        SCMP_SYS(io_uring_enter),
        SCMP_SYS(io_uring_register),
        SCMP_SYS(bpf),
        SCMP_SYS(perf_event_open),
        SCMP_SYS(userfaultfd),
        SCMP_SYS(memfd_secret),
        /* calls on keys, which outlive processes and belong to the user */
        SCMP_SYS(add_key),
        SCMP_SYS(request_key),
        SCMP_SYS(keyctl),
        /* calls that change the machine, or read its logs */
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

/* Calls that are denied with Landlock alone, where there are no read-only mounts and no ipc namespace. */
static const int denied_alone[] = {
        /* changes of files for which Landlock has no right */
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
        /* shared memory, semaphores and queues of the machine */
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

/* The namespaces that clone can make. CLONE_NEWTIME is not among them: its bit is in the lowest byte, where clone has a signal. */
#define CLONE_NAMESPACES                                                                              \
        (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | \
         CLONE_NEWNET)

/* The headers of some systems lack these numbers. */
#define SET_DELEGATION 1040 /* F_SETDELEG, which also takes a kind of lease; Linux 6.19 */
#define BTRFS_SNAPSHOT 0x50009401
#define BTRFS_SNAPSHOT_2 0x50009417

#define SOCKET_TYPE_MASK 0xfU /* the bits of a socket type that are no flags */

/* Makes the call return `os_errno` when all comparisons hold. A call that this architecture lacks has a negative number. */
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

/* Denies the call unless the argument is `value`. An argument with bits in the upper half is denied too. */
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
        /* All flags above the lowest 19 bits are denied. Among the lowest 19 only CLONE_NEWTIME and CLONE_NEWNS are
         * namespaces; the others concern the process itself or are unknown to the kernel. */
        deny_if(b, SCMP_SYS(unshare), (struct scmp_arg_cmp){ 0, SCMP_CMP_GT, 0x7ffff, 0 });
        deny_any_bit(b, SCMP_SYS(unshare), 0, CLONE_NEWTIME | CLONE_NEWNS);
        /* The flags of clone3 are in memory, which a filter cannot read. On ENOSYS libc assumes an old kernel and uses
         * clone. */
        refuse(b, ENOSYS, SCMP_SYS(clone3), 0, NULL);
}

static void deny_requests(struct builder *b)
{
        /* A program could simulate typing on a terminal that it shares with the process that started it. */
        deny_if(b, SCMP_SYS(ioctl), arg_is(1, TIOCSTI));
        deny_if(b, SCMP_SYS(ioctl), arg_is(1, TIOCLINUX));
        /* The kernel asks the holder of a lease before another process opens the file, and the holder may take 45 seconds.
         * With a lease a command could hide the content of a file from readers that do not wait. */
        deny_if(b, SCMP_SYS(fcntl), arg_is(1, F_SETLEASE));
        deny_if(b, SCMP_SYS(fcntl), arg_is(1, SET_DELEGATION));
        /* A snapshot shows the files below the masks. */
        deny_if(b, SCMP_SYS(ioctl), arg_is(1, BTRFS_SNAPSHOT));
        deny_if(b, SCMP_SYS(ioctl), arg_is(1, BTRFS_SNAPSHOT_2));
}

/* In an empty network AF_INET (2), AF_INET6 (10), and AF_NETLINK (16) with NETLINK_ROUTE (0) are allowed. AF_UNIX is not: a
 * read-only mount does not keep a command from connecting to a socket of the host. In binary the allowed families are 00010,
 * 01010, 10000: any value with bit 0 or 2, with neither or both of bits 1 and 4, or with bits 3 and 4, is another family. */
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

/* Allows pairs of AF_UNIX (1) as SOCK_STREAM (1) or SOCK_SEQPACKET (5), which reach only each other. SOCK_DGRAM is
 * denied, because a datagram can be sent from a pair to any address. SOCK_RAW (3) means the same as SOCK_DGRAM. */
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

/* A process may change its own settings, with 0 as the pid. A limit of processor time, set on another process, would act as a
 * signal. */
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

/* File systems change files and make snapshots by ioctl, on descriptors that are open only for reading. Allowed are the
 * ioctls of terminals, pipes and similar ('T'), and of sockets (0x89): a number that differs from both in some bit is
 * another ioctl. */
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
        deny_requests(b);
        /* SOCK_PACKET, a type of AF_INET, is the oldest interface of AF_PACKET. */
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
                /* A socket of a pair could bind an abstract name of the machine that another program needs. */
                deny(b, SCMP_SYS(bind));
                allow_connected_pairs(b);
                break;
        }
        if (kind == SECCOMP_ALONE_NO_SOCKETS || kind == SECCOMP_ALONE_HOST_NETWORK)
                deny_alone(b);
}

/* Exports the code through a memfd, because libseccomp writes only to descriptors. */
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
                b.r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* as a binary tree */
        if (kind == SECCOMP_FILES)
                seccomp_allow_file_calls(&b);
        else
                add_rules(&b, kind);
        return b.r < 0 ? b.r : export(ctx, ret);
}

int seccomp_compile(enum seccomp_kind kind, struct seccomp_filter *ret, struct err *err)
{
        /* Without this call libseccomp asks the running kernel which actions it has. All supported kernels have the actions
         * used here; a kernel without them refuses the filter, and the start fails. */
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
