/* exec_notify_test: which starts of a program wait for an answer, and what becomes of the others. Each test is a forked child with the
 * filter, which makes one call, and its parent, which holds the listener. */
#include "sandbox/exec_notify.h"

#include "base/fd.h"
#include "base/sys.h"
#include "unit.h"

#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 20000
#define EXECUTED 7 /* the exit status of the program that the children execute */

#ifndef SECCOMP_IOCTL_NOTIF_RECV
#error "these headers are older than the kernel that the filter needs"
#endif

static char *const argv_of[] = { (char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
                                 (char *)(uintptr_t) "exit 7", NULL };
static char *const env_of[] = { NULL };

struct asked {
        pid_t child;
        int listener;
        int go; /* the child waits for the end of file on the other end */
};

/* Makes a child that has the filter, and calls fn once the caller of this function says so. The child exits with what fn returns. */
static struct asked begin(int (*fn)(const struct exec_cookie *cookie))
{
        int ends[2], gate[2];
        eq_int(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        eq_int(pipe2(gate, O_CLOEXEC), 0);
        struct asked a = { .child = fork() };
        ok(a.child >= 0);
        if (a.child == 0) {
                struct exec_cookie cookie;
                char byte;
                close(gate[1]);
                (void)alarm(PATIENCE_MS / 1000);
                int listener = exec_cookie_make(&cookie) == 0 ? exec_notify_install(&cookie) : -EIO;
                int number = listener;
                if (write(ends[1], &number, sizeof(number)) != sizeof(number) || listener < 0 ||
                    read(gate[0], &byte, 1) != 0)
                        _exit(99);
                close(listener);
                _exit(fn(&cookie));
        }
        close(ends[1]);
        close(gate[0]);
        int number = -1;
        eq_int(read(ends[0], &number, sizeof(number)), sizeof(number));
        close(ends[0]);
        if (number == -EINVAL || number == -EBUSY || number == -ENOSYS) {
                print_message("skipped: no listener here: %s\n", strerror(-number));
                close(gate[1]);
                eq_int(waitpid(a.child, NULL, 0), a.child);
                skip();
        }
        ok(number >= 0);
        _close_ int pidfd = sys_pidfd_open(a.child);
        ok(pidfd >= 0);
        a.listener = sys_pidfd_getfd(pidfd, number);
        ok(a.listener >= 0);
        a.go = gate[1];
        return a;
}

/* Returns the exit status of the child, or 256 + the signal that ended it. */
static int end(struct asked *a)
{
        int status;
        eq_int(waitpid(a->child, &status, 0), a->child);
        if (a->listener >= 0)
                close(a->listener);
        return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void let_go(const struct asked *a)
{
        close(a->go);
}

/* Waits for the child to ask, and answers: 0 lets it go on; else the call fails with this errno. Returns the number of the call. */
static int answer(const struct asked *a, int os_errno)
{
        struct pollfd p = { .fd = a->listener, .events = POLLIN };
        eq_int(poll(&p, 1, PATIENCE_MS), 1);
        ok(p.revents & POLLIN);
        struct seccomp_notif n = { 0 };
        eq_int(ioctl(a->listener, SECCOMP_IOCTL_NOTIF_RECV, &n), 0);
        eq_int(n.pid, a->child);
        struct seccomp_notif_resp r = { .id = n.id,
                                        .error = -os_errno,
                                        .flags = os_errno ? 0U : (uint32_t)SECCOMP_USER_NOTIF_FLAG_CONTINUE };
        eq_int(ioctl(a->listener, SECCOMP_IOCTL_NOTIF_SEND, &r), 0);
        return n.data.nr;
}

/* Waits for the end of the filter's last process, and checks that nobody has asked. */
static void nobody_asks(const struct asked *a)
{
        struct pollfd p = { .fd = a->listener, .events = POLLIN };
        eq_int(poll(&p, 1, PATIENCE_MS), 1);
        ok(!(p.revents & POLLIN));
        ok(p.revents & POLLHUP);
}

/* ---- the calls ---- */

static int status_of(long r)
{
        return (int)MIN(-r, 98L); /* an errno */
}

static int exec_with_cookie(const struct exec_cookie *cookie)
{
        return status_of(exec_notify_exec("/bin/sh", argv_of, env_of, cookie));
}

static int exec_plainly(UNUSED const struct exec_cookie *cookie)
{
        return status_of(sys_call3(SYS_execve, "/bin/sh", argv_of, env_of));
}

/* Each of the six halves of the cookie is compared: this changes one bit of each in turn. */
static int exec_with_wrong_cookies(const struct exec_cookie *cookie)
{
        for (unsigned half = 0; half < 2 * EXEC_COOKIE_WORDS; half++) {
                struct exec_cookie wrong = *cookie;
                wrong.words[half / 2] ^= UINT64_C(1) << (half % 2 * 32 + half);
                if (exec_notify_exec("/bin/sh", argv_of, env_of, &wrong) != -E2BIG)
                        return 1;
        }
        return 0;
}

static int execveat_path(UNUSED const struct exec_cookie *cookie)
{
        return status_of(
                sys6(SYS_execveat, AT_FDCWD, SYS_ARG("/bin/sh"), SYS_ARG(argv_of), SYS_ARG(env_of), 0, 0));
}

/* The cookie is for execve: here it is at the same places. */
static int execveat_with_cookie(const struct exec_cookie *cookie)
{
        return status_of(sys6(SYS_execveat, AT_FDCWD, SYS_ARG("/bin/sh"), SYS_ARG(argv_of),
                              (long)cookie->words[0], (long)cookie->words[1], (long)cookie->words[2]));
}

static int exec_in_child(UNUSED const struct exec_cookie *cookie)
{
        pid_t pid = fork();
        if (pid == 0)
                _exit(exec_plainly(cookie));
        int status;
        return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* ---- the tests ---- */

TEST(the_cookie_starts_a_program_unasked)
{
        struct asked a = begin(exec_with_cookie);
        let_go(&a);
        nobody_asks(&a);
        eq_int(end(&a), EXECUTED);
}

TEST(an_execve_without_the_cookie_waits_for_an_answer)
{
        struct asked a = begin(exec_plainly);
        let_go(&a);
        eq_int(answer(&a, 0), SYS_execve);
        eq_int(end(&a), EXECUTED);

        a = begin(exec_plainly);
        let_go(&a);
        eq_int(answer(&a, EACCES), SYS_execve);
        eq_int(end(&a), EACCES);
}

TEST(each_half_of_the_cookie_counts)
{
        struct asked a = begin(exec_with_wrong_cookies);
        let_go(&a);
        for (unsigned half = 0; half < 2 * EXEC_COOKIE_WORDS; half++)
                eq_int(answer(&a, E2BIG), SYS_execve);
        eq_int(end(&a), 0);
}

TEST(an_execveat_waits_for_an_answer)
{
        struct asked a = begin(execveat_path);
        let_go(&a);
        eq_int(answer(&a, 0), SYS_execveat);
        eq_int(end(&a), EXECUTED);
}

TEST(the_cookie_does_not_open_execveat)
{
        struct asked a = begin(execveat_with_cookie);
        let_go(&a);
        eq_int(answer(&a, EACCES), SYS_execveat);
        eq_int(end(&a), EACCES);
}

TEST(children_have_the_filter)
{
        struct asked a = begin(exec_in_child);
        let_go(&a);
        struct pollfd p = { .fd = a.listener, .events = POLLIN };
        eq_int(poll(&p, 1, PATIENCE_MS), 1);
        struct seccomp_notif n = { 0 };
        eq_int(ioctl(a.listener, SECCOMP_IOCTL_NOTIF_RECV, &n), 0);
        ok((pid_t)n.pid != a.child);
        struct seccomp_notif_resp r = { .id = n.id, .error = -EPERM };
        eq_int(ioctl(a.listener, SECCOMP_IOCTL_NOTIF_SEND, &r), 0);
        eq_int(end(&a), EPERM);
}

TEST(without_a_listener_an_execve_fails)
{
        struct asked a = begin(exec_plainly);
        close(a.listener);
        a.listener = -1;
        let_go(&a);
        eq_int(end(&a), ENOSYS);
}

TEST(an_execve_that_waits_fails_when_the_listener_closes)
{
        struct asked a = begin(exec_plainly);
        let_go(&a);
        struct pollfd p = { .fd = a.listener, .events = POLLIN };
        eq_int(poll(&p, 1, PATIENCE_MS), 1);
        close(a.listener);
        a.listener = -1;
        eq_int(end(&a), ENOSYS);
}

#if defined(__x86_64__)

static long int80(long nr)
{
        long ret;
        __asm__ volatile("int $0x80"
                         : "=a"(ret)
                         : "a"(nr), "b"(0L), "c"(0L), "d"(0L)
                         : "memory", "r8", "r9", "r10", "r11");
        return ret;
}

static int execve_of_i386(UNUSED const struct exec_cookie *cookie)
{
        return status_of(int80(11));
}

static int execveat_of_i386(UNUSED const struct exec_cookie *cookie)
{
        return status_of(int80(358));
}

static int getpid_of_i386(UNUSED const struct exec_cookie *cookie)
{
        return int80(20) == getpid() ? 0 : 1;
}

TEST(programs_of_i386_are_refused)
{
        struct asked a = begin(getpid_of_i386);
        let_go(&a);
        int r = end(&a);
        if (r != 0) { /* the kernel has no calls of i386 */
                eq_int(r, 256 + SIGSEGV);
                skip();
        }
        a = begin(execve_of_i386);
        let_go(&a);
        eq_int(end(&a), EACCES);
        a = begin(execveat_of_i386);
        let_go(&a);
        eq_int(end(&a), EACCES);
}

/* Whether or not the kernel knows x32: the filter comes first, and a kernel without it would say ENOSYS. */
static int all_of_x32(UNUSED const struct exec_cookie *cookie)
{
        const long x32 = 0x40000000;
        const long numbers[] = { x32 | 520, x32 | 545, x32 | SYS_execve, x32 | SYS_execveat, 520, 545 };
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
                if (sys_call3(numbers[i], "/bin/sh", argv_of, env_of) != -EACCES)
                        return (int)i + 1;
        return 0;
}

TEST(programs_of_x32_are_refused)
{
        struct asked a = begin(all_of_x32);
        let_go(&a);
        eq_int(end(&a), 0);
}

#endif

TEST(a_second_filter_with_a_listener_is_refused)
{
        struct asked a = begin(exec_with_cookie);
        struct exec_cookie cookie;
        eq_int(exec_cookie_make(&cookie), 0);
        pid_t pid = fork();
        if (pid == 0) {
                int first = exec_notify_install(&cookie);
                _exit(first >= 0 && exec_notify_install(&cookie) == -EBUSY ? 0 : 1);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(status, 0);
        let_go(&a);
        eq_int(end(&a), EXECUTED);
}

TEST(cookies_differ_and_are_wiped)
{
        struct exec_cookie one, other;
        eq_int(exec_cookie_make(&one), 0);
        eq_int(exec_cookie_make(&other), 0);
        for (int i = 0; i < EXEC_COOKIE_WORDS; i++)
                ok(one.words[i] != other.words[i]);
        exec_cookie_wipe(&one);
        for (int i = 0; i < EXEC_COOKIE_WORDS; i++)
                eq_u64(one.words[i], 0);
}
