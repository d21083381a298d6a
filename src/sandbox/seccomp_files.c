/* seccomp_files: the filter of an fs helper (SECCOMP_FILES), which lists the allowed system calls.
 *
 * A filter of commands lists the denied calls, because a command can be any program. An fs helper is known, so its filter lists
 * the allowed calls: those of file requests (fsop/, confine/fs_helper.c), of the allocator and libc, and for exiting.
 */
#include "sandbox/seccomp_internal.h"

#include <linux/fs.h>
#include <sys/prctl.h>

static const int file_calls[] = {
        SCMP_SYS(read),
        SCMP_SYS(write),
        SCMP_SYS(pread64),
        SCMP_SYS(pwrite64),
        SCMP_SYS(readv),
        SCMP_SYS(writev),
        SCMP_SYS(lseek),
        SCMP_SYS(open),
        SCMP_SYS(openat),
        SCMP_SYS(openat2),
        SCMP_SYS(close),
        SCMP_SYS(close_range),
        SCMP_SYS(dup),
        SCMP_SYS(fcntl),
        SCMP_SYS(stat),
        SCMP_SYS(lstat),
        SCMP_SYS(fstat),
        SCMP_SYS(newfstatat),
        SCMP_SYS(statx),
        SCMP_SYS(statfs),
        SCMP_SYS(fstatfs),
        SCMP_SYS(access),
        SCMP_SYS(faccessat),
        SCMP_SYS(readlink),
        SCMP_SYS(readlinkat),
        SCMP_SYS(getdents64),
        SCMP_SYS(mkdirat),
        SCMP_SYS(unlinkat),
        SCMP_SYS(renameat),
        SCMP_SYS(renameat2),
        SCMP_SYS(rename),
        SCMP_SYS(linkat),
        SCMP_SYS(symlinkat),
        SCMP_SYS(ftruncate),
        SCMP_SYS(fallocate),
        SCMP_SYS(fsync),
        SCMP_SYS(fdatasync),
        SCMP_SYS(copy_file_range),
        SCMP_SYS(sendfile),
        SCMP_SYS(chmod),
        SCMP_SYS(fchmod),
        SCMP_SYS(fchmodat),
        SCMP_SYS(fchown),
        SCMP_SYS(fchownat),
        SCMP_SYS(utimensat),
        SCMP_SYS(flistxattr),
        SCMP_SYS(fgetxattr),
        SCMP_SYS(fsetxattr),
        SCMP_SYS(fremovexattr),
        SCMP_SYS(flock),
        SCMP_SYS(umask),
        SCMP_SYS(sendmsg),
        SCMP_SYS(recvmsg),
        SCMP_SYS(sendto),
        SCMP_SYS(recvfrom),
        SCMP_SYS(poll),
        SCMP_SYS(ppoll),
        SCMP_SYS(brk),
        SCMP_SYS(mmap),
        SCMP_SYS(munmap),
        SCMP_SYS(mremap),
        SCMP_SYS(madvise),
        SCMP_SYS(mprotect),
        SCMP_SYS(futex),
        SCMP_SYS(getrandom),
        SCMP_SYS(clock_gettime),
        SCMP_SYS(gettimeofday),
        SCMP_SYS(nanosleep),
        SCMP_SYS(clock_nanosleep),
        SCMP_SYS(getpid),
        SCMP_SYS(gettid),
        SCMP_SYS(getuid),
        SCMP_SYS(geteuid),
        SCMP_SYS(getgid),
        SCMP_SYS(getegid),
        SCMP_SYS(rt_sigaction),
        SCMP_SYS(rt_sigprocmask),
        SCMP_SYS(rt_sigreturn),
        SCMP_SYS(sigaltstack),
        SCMP_SYS(sched_yield),
        SCMP_SYS(restart_syscall),
        SCMP_SYS(tgkill),
        SCMP_SYS(exit),
        SCMP_SYS(exit_group),
        NR_FCHMODAT2,
};

void seccomp_allow_file_calls(struct builder *b)
{
        for (size_t i = 0; i < ARRAY_LEN(file_calls); i++)
                if (b->r == 0 && file_calls[i] >= 0)
                        b->r = seccomp_rule_add_array(b->ctx, SCMP_ACT_ALLOW, file_calls[i], 0, NULL);
        /* The fs helper makes itself dumpable while the server takes a descriptor from it. */
        if (b->r == 0)
                b->r = seccomp_rule_add_array(b->ctx, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
                                              (struct scmp_arg_cmp[]){ arg_is(0, PR_SET_DUMPABLE) });
        /* FICLONE makes a copy that shares its blocks with the original. */
        if (b->r == 0)
                b->r = seccomp_rule_add_array(b->ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
                                              (struct scmp_arg_cmp[]){ arg_is(1, FICLONE) });
}
