/* broker_notice: takes notifications of the kernel, and decides about the starts of programs that they, or wrappers, ask for. */
#include "intercept/broker_internal.h"

#include "base/sys.h"
#include "keeper/keeper_shared.h"

#include <errno.h>
#include <linux/audit.h>
#include <sys/ioctl.h>

#if defined(__x86_64__)
#define ARCH_NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH_NATIVE AUDIT_ARCH_AARCH64
#endif

/* A newer kernel may write a longer struct. */
union notification {
        struct seccomp_notif head;
        char room[1024];
};

/* With scope INTERCEPT_SHELL only the starts that the shell itself makes are decided about. Until the first of them has been answered every
 * process of the command runs the first program, because each start waits here. */
static bool is_outside_scope(struct broker *b, const struct caller *c)
{
        struct stat exe;
        if (b->options.scope != INTERCEPT_SHELL)
                return false;
        if (!b->has_shell) {
                b->has_shell = caller_stat_exe(c, &exe) == 0 && caller_is_there(c);
                b->shell_dev = exe.st_dev;
                b->shell_ino = exe.st_ino;
                return false;
        }
        return caller_stat_exe(c, &exe) == 0 && (exe.st_dev != b->shell_dev || exe.st_ino != b->shell_ino);
}

void broker_decide(struct broker *b, struct request *r)
{
        struct intercept_verdict verdict;
        struct stat file;
        const struct intercept_exec exec = request_exec(r);
        intercept_decide(&b->options, b->rules, &b->arena, &exec, &verdict);
        if (verdict.action != INTERCEPT_RUN && r->caller.wrapped && stream_find(r) < 0)
                return request_lose(b, r);
        const struct slice reason = verdict.reason ? slice_from_str(verdict.reason) : slice_from(NULL, 0);
        if (verdict.action == INTERCEPT_RUN || verdict.action == INTERCEPT_DENY)
                return request_decided(b, r, verdict.action, verdict.rule, reason);
        /* A program that is not there fails as it would without a broker: programs that search a PATH try names that do not exist. */
        int e = caller_look(&r->caller, &file);
        if (e < 0)
                return request_fail(b, r, e);
        if (verdict.action == INTERCEPT_ASK)
                return request_ask(b, r, &verdict);
        request_decided(b, r, verdict.action, verdict.rule, reason);
}

void broker_take(struct broker *b)
{
        union notification n = { .room = { 0 } };
        if (ioctl(b->start.listener, SECCOMP_IOCTL_NOTIF_RECV, &n) < 0) {
                if (errno == EINTR || errno == ENOENT || errno == EAGAIN)
                        return; /* the caller has died meanwhile */
                broker_die("notification of execve", errno);
        }
        struct request *r = b->unused ? b->unused : request_new();
        b->unused = NULL;
        int e = n.head.data.arch == ARCH_NATIVE ? caller_read(&r->caller, b->start.listener, &n.head)
                                                : -EACCES;
        if (e == 0 && is_outside_scope(b, &r->caller)) {
                if (caller_continue(&r->caller) < 0)
                        (void)caller_fail(&r->caller, -EACCES);
        } else if (e == 0) {
                broker_decide(b, r);
        } else {
                if (e == -EACCES || e == -EPERM)
                        broker_count(&b->start.keeper->denied);
                (void)caller_fail(&r->caller, e == -EPERM || e == -ESRCH ? -EACCES : e);
        }
        if (list_is_linked(&r->link) && r->state != REQUEST_OVER)
                return;
        list_remove(&r->link);
        if (r->pidfd >= 0)
                sys_close(r->pidfd);
        r->pidfd = -1;
        r->question = 0;
        r->passed_on = 0;
        b->unused = r;
}
