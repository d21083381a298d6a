/* confine: makes this process one that can use the network and nothing else.
 *
 * It talks to commands and servers that may both be hostile. Should one of them get hold of it, it finds no files, no other programs, no
 * privileges and no debugger. A build with ASan keeps the calls that its reports need.
 */
#include "egress/confine.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOBODY 65534

/* --- files -------------------------------------------------------------------------------------------------------- */

/* What c-ares reads. Without random numbers its questions could be guessed. */
static const char *const readable[] = { "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf",
                                        "/etc/host.conf", "/dev/urandom" };

#define ALL_OF_ABI_1 ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)

static void allow_reading(int ruleset, const char *path)
{
        _close_ int fd = open(path, O_PATH | O_CLOEXEC);
        if (fd < 0)
                return;
        struct landlock_path_beneath_attr rule = { .allowed_access = LANDLOCK_ACCESS_FS_READ_FILE,
                                                   .parent_fd = fd };
        (void)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

/* Where the kernel has no Landlock the list of calls forbids writing all the same. */
static void confine_files(void)
{
        struct landlock_ruleset_attr attr = { .handled_access_fs = ALL_OF_ABI_1 };
        _close_ int ruleset =
                (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr.handled_access_fs), 0);
        if (ruleset < 0)
                return;
        for (size_t i = 0; i < ARRAY_LEN(readable); i++)
                allow_reading(ruleset, readable[i]);
        (void)syscall(SYS_landlock_restrict_self, ruleset, 0);
}

/* --- privileges --------------------------------------------------------------------------------------------------- */

static int drop_user(void)
{
        if (geteuid() != 0)
                return 0;
        /* In a user namespace that maps only its owner there is nobody else to become. */
        if (setgroups(0, NULL) < 0 && errno != EPERM)
                return -errno;
        if (setresgid(NOBODY, NOBODY, NOBODY) < 0)
                return errno == EINVAL ? 0 : -errno;
        return setresuid(NOBODY, NOBODY, NOBODY) < 0 && errno != EINVAL ? -errno : 0;
}

/* A server that runs as a service may have some, and in a user namespace that maps its owner alone it keeps all. */
static int drop_capabilities(void)
{
        struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
        const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };
        (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        return syscall(SYS_capset, &head, none) < 0 ? -errno : 0;
}

int confine_self(int last_fd)
{
        struct rlimit none = { 0, 0 };
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)fd_raise_limit();
        (void)prctl(PR_SET_NAME, "farhand-egress"); /* the program was executed by descriptor, not by name */
        (void)close_range((unsigned)last_fd + 1, ~0U, 0);
        signal(SIGPIPE, SIG_IGN);
        int r = drop_user();
        r = r < 0 ? r : drop_capabilities();
        if (r < 0)
                return r;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        /* The leak checker must be able to trace this process, to write a report, and may still run when the server has ended. */
        if (!IS_ASAN) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user would have undone it */
                (void)prctl(PR_SET_DUMPABLE, 0);
                confine_files();
        }
        return 0;
}

/* --- system calls ------------------------------------------------------------------------------------------------- */

static const int calls[] = {
        /* sockets that are there, and pipes */
        SCMP_SYS(accept4),
        SCMP_SYS(connect),
        SCMP_SYS(getpeername),
        SCMP_SYS(getsockname),
        SCMP_SYS(getsockopt),
        SCMP_SYS(setsockopt),
        SCMP_SYS(shutdown),
        SCMP_SYS(recvfrom),
        SCMP_SYS(recvmsg),
        SCMP_SYS(sendto),
        SCMP_SYS(sendmsg),
        SCMP_SYS(sendmmsg),
        SCMP_SYS(splice),
        SCMP_SYS(pipe2),
        SCMP_SYS(read),
        SCMP_SYS(readv),
        SCMP_SYS(pread64),
        SCMP_SYS(write),
        SCMP_SYS(writev),
        SCMP_SYS(close),
        /* the loop */
        SCMP_SYS(epoll_create1),
        SCMP_SYS(epoll_ctl),
        SCMP_SYS(epoll_wait),
        SCMP_SYS(epoll_pwait),
        SCMP_SYS(poll),
        SCMP_SYS(ppoll),
        SCMP_SYS(clock_gettime),
        SCMP_SYS(clock_nanosleep),
        SCMP_SYS(nanosleep),
        SCMP_SYS(gettimeofday),
        SCMP_SYS(time),
        /* what files are */
        SCMP_SYS(fstat),
        SCMP_SYS(stat),
        SCMP_SYS(newfstatat),
        SCMP_SYS(access),
        SCMP_SYS(faccessat),
        SCMP_SYS(uname),
        /* memory, and what libc does by itself */
        SCMP_SYS(brk),
        SCMP_SYS(munmap),
        SCMP_SYS(mremap),
        SCMP_SYS(madvise),
        SCMP_SYS(futex),
        SCMP_SYS(getrandom),
        SCMP_SYS(getpid),
        SCMP_SYS(gettid),
        SCMP_SYS(getuid),
        SCMP_SYS(geteuid),
        SCMP_SYS(getgid),
        SCMP_SYS(getegid),
        SCMP_SYS(rt_sigaction),
        SCMP_SYS(rt_sigprocmask),
        SCMP_SYS(rt_sigreturn),
        SCMP_SYS(restart_syscall),
        SCMP_SYS(exit),
        SCMP_SYS(exit_group),
};

static int allow_internet(scmp_filter_ctx ctx)
{
        static const unsigned families[] = { AF_INET, AF_INET6 }, types[] = { SOCK_STREAM, SOCK_DGRAM };
        int r = 0;
        for (size_t i = 0; i < 4 && r == 0; i++)
                r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
                                     SCMP_A0(SCMP_CMP_EQ, families[i / 2], 0),
                                     SCMP_A1(SCMP_CMP_MASKED_EQ, 0xf, types[i % 2]));
        return r ? r
                 : seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
                                    SCMP_A1(SCMP_CMP_EQ, FIONBIO, 0));
}

/* Memory that is written and memory that is executed stay apart. */
static int allow_memory(scmp_filter_ctx ctx)
{
        int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, 4, 0));
        return r ? r
                 : seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                                    SCMP_A2(SCMP_CMP_MASKED_EQ, 4, 0));
}

static int allow_reading_files(scmp_filter_ctx ctx)
{
        const unsigned writes = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
        int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
                                 SCMP_A2(SCMP_CMP_MASKED_EQ, writes, 0));
        return r ? r
                 : seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(open), 1,
                                    SCMP_A1(SCMP_CMP_MASKED_EQ, writes, 0));
}

/* Not F_SETOWN: with it the kernel would send signals to other processes of this user. Standard error is shared with the server: neither
 * its flags nor its position are to be changed. */
static int allow_descriptors(scmp_filter_ctx ctx)
{
        static const int commands[] = { F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC, F_SETPIPE_SZ };
        int r = 0;
        for (size_t i = 0; i < ARRAY_LEN(commands) && r == 0; i++)
                r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
                                     SCMP_A1(SCMP_CMP_EQ, (scmp_datum_t)commands[i], 0));
        r = r ? r
              : seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 2,
                                 SCMP_A0(SCMP_CMP_GT, STDERR_FILENO, 0), SCMP_A1(SCMP_CMP_EQ, F_SETFL, 0));
        return r ? r
                 : seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(lseek), 1,
                                    SCMP_A0(SCMP_CMP_GT, STDERR_FILENO, 0));
}

/* An abort reaches this process alone. The log is written with a call of its own (base/errout.c). */
static int allow_last_words(scmp_filter_ctx ctx)
{
        int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(pwritev2), 2,
                                 SCMP_A0(SCMP_CMP_EQ, STDERR_FILENO, 0),
                                 SCMP_A3(SCMP_CMP_EQ, (scmp_datum_t)-1, 0));
        return r ? r
                 : seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
                                    SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0));
}

int confine_calls(void)
{
        if (IS_ASAN)
                return 0;
        scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
        if (!ctx)
                return -ENOMEM;
        int r = 0;
        for (size_t i = 0; i < ARRAY_LEN(calls) && r == 0; i++)
                r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, calls[i], 0);
        r = r ? r : allow_internet(ctx);
        r = r ? r : allow_memory(ctx);
        r = r ? r : allow_reading_files(ctx);
        r = r ? r : allow_descriptors(ctx);
        r = r ? r : allow_last_words(ctx);
        /* The calls of every connection come first in the filter. */
        static const int often[] = { SCMP_SYS(recvfrom), SCMP_SYS(sendto), SCMP_SYS(epoll_wait),
                                     SCMP_SYS(epoll_ctl), SCMP_SYS(splice) };
        for (size_t i = 0; i < ARRAY_LEN(often) && r == 0; i++)
                r = seccomp_syscall_priority(ctx, often[i], (uint8_t)(255 - i));
        r = r ? r : seccomp_load(ctx);
        seccomp_release(ctx);
        return r;
}
