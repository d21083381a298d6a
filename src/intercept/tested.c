/* tested: a process with the filter executes a program, and another one ends it with a status, as the broker does.
 *
 *     the caller ── judge ── tried
 *
 * The judge is a process of its own, because the tracer of a process is a thread, and its waits must not meet those of the caller's other
 * threads.
 */
#include "intercept/tested.h"

#include "base/fd.h"
#include "intercept/finish.h"
#include "intercept/preloaded.h"
#include "sandbox/exec_notify.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEST_MS 3000
#define STATUS 42 /* with which the process is ended */

enum step {
        STEP_NONE,
        STEP_PROCESS,
        STEP_FILTER,
        STEP_LISTENER,
        STEP_NOTIFICATION,
        STEP_MEMORY,
        STEP_PTRACE
};

static const char *const step_names[] = {
        [STEP_PROCESS] = "process",           [STEP_FILTER] = "filter", [STEP_LISTENER] = "listener",
        [STEP_NOTIFICATION] = "notification", [STEP_MEMORY] = "memory", [STEP_PTRACE] = "ptrace",
};

struct outcome {
        enum step step;
        int result; /* -errno */
};

static struct outcome failed(enum step step, int result)
{
        return (struct outcome){ step, result };
}

/* ---- the process that is tried ---- */

/* Installs the filter, says the number of its listener, and executes a program once it may. */
static _Noreturn void be_tried(int tell, int go)
{
        char *const argv[] = { (char[]){ "farhand" }, NULL }, *const env[] = { NULL };
        struct exec_cookie cookie;
        char byte;
        int listener = exec_cookie_make(&cookie);
        if (listener == 0)
                listener = exec_notify_install(&cookie);
        if (write(tell, &listener, sizeof(listener)) != sizeof(listener) || listener < 0 ||
            read(go, &byte, 1) != 1)
                _exit(1);
        (void)execve("/proc/self/exe", argv, env);
        _exit(1);
}

/* ---- the process that judges ---- */

static int poll_in(int fd)
{
        struct pollfd one = { .fd = fd, .events = POLLIN };
        int n = poll(&one, 1, TEST_MS);
        return n < 0 ? -errno : n == 0 ? -ETIMEDOUT : 0;
}

/* Answers the process that waits in execve by ending it. */
static struct outcome answer(int listener, pid_t pid)
{
        struct caller c = CALLER_INIT;
        struct seccomp_notif n = { 0 };
        int status = 0, r = poll_in(listener);
        if (r == 0 && ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &n) < 0)
                r = -errno;
        if (r < 0)
                return failed(STEP_NOTIFICATION, r);
        r = caller_read(&c, listener, &n);
        if (r < 0)
                return failed(STEP_MEMORY, r);
        r = finish_with_code(&c, STATUS);
        if (r == 0 &&
            (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != STATUS))
                r = -EACCES;
        return r < 0 ? failed(STEP_PTRACE, r) : failed(STEP_NONE, 0);
}

static struct outcome judge(pid_t pid, int told, int go)
{
        int number = -1;
        int r = poll_in(told);
        if (r == 0 && read(told, &number, sizeof(number)) != sizeof(number))
                r = -ECHILD;
        if (r < 0)
                return failed(STEP_PROCESS, r);
        if (number < 0)
                return failed(STEP_FILTER, number);
        _close_ int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        _close_ int listener = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
        if (listener < 0)
                return failed(STEP_LISTENER, -errno);
        if (write(go, "", 1) != 1)
                return failed(STEP_PROCESS, -errno);
        return answer(listener, pid);
}

/* Has the kernel kill the calling process when its parent dies. When the parent has died before this call, ends the process here. */
static void end_with(pid_t parent)
{
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(1);
}

/* In the judge: makes the process that is tried, and finds out what works with it. */
static struct outcome try_interception(void)
{
        int told[2], go[2];
        if (pipe2(told, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
                return failed(STEP_PROCESS, -errno); /* this process ends now */
        pid_t self = getpid(), pid = fork();
        if (pid < 0)
                return failed(STEP_PROCESS, -errno);
        if (pid == 0) {
                end_with(self);
                (void)close(go[1]); /* so that this process learns when the judge has gone */
                be_tried(told[1], go[0]);
        }
        (void)close(told[1]);
        struct outcome o = judge(pid, told[0], go[1]);
        (void)kill(pid,
                   SIGKILL); /* unless answer() has waited for the process, its number is still its own */
        return o;
}

/* ---- the caller ---- */

/* Runs the judge in a child. Signals are blocked there, so that no handler of the caller runs. The caller's other threads may wait for
 * the child, which does no harm. */
static struct outcome run(void)
{
        struct outcome o = { STEP_PROCESS, -ECANCELED };
        sigset_t all, before;
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0)
                return failed(STEP_PROCESS, -errno);
        sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        pid_t self = getpid(), pid = fork();
        if (pid == 0) {
                end_with(self);
                o = try_interception();
                (void)!write(ends[1], &o, sizeof(o));
                _exit(0);
        }
        int fork_errno = errno;
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        fd_close(ends[1]);
        _close_ int answer_fd = ends[0];
        if (pid < 0)
                return failed(STEP_PROCESS, -fork_errno);
        struct pollfd fd = { .fd = answer_fd, .events = POLLIN };
        int n;
        while ((n = poll(&fd, 1, 3 * TEST_MS)) < 0 && errno == EINTR)
                continue;
        if (n == 0) {
                (void)kill(pid, SIGKILL); /* the judge has not ended: its end of the pipe is open */
                o.result = -ETIMEDOUT;
        } else if (read(answer_fd, &o, sizeof(o)) != sizeof(o)) {
                o = failed(STEP_PROCESS, -ECANCELED);
        }
        (void)waitpid(pid, NULL, n == 0 ? WNOHANG : 0); /* another thread may have waited already */
        return o;
}

static const char *remedy_of(const struct outcome *o)
{
        switch (o->step) {
        case STEP_NONE:
                return NULL;
        case STEP_PROCESS:
                return "the server has reached a limit: try again, or see farhand-doctor(1)";
        case STEP_FILTER:
                return o->result == -EBUSY
                               ? "another program intercepts the system calls of this server already: start "
                                 "the server outside of that program"
                       : o->result == -EINVAL
                               ? "Linux 5.19 or newer is needed"
                               : "let the seccomp profile of the container allow seccomp(2) with listeners";
        case STEP_LISTENER:
                return "let the seccomp profile of the container allow pidfd_open and pidfd_getfd";
        case STEP_NOTIFICATION:
                return "let the seccomp profile of the container allow ioctl(2) on listeners";
        case STEP_MEMORY:
        case STEP_PTRACE:
                break;
        }
        return "let the seccomp profile of the container allow ptrace, and set kernel.yama.ptrace_scope to 0 "
               "or 1";
}

static bool is_passing(const struct outcome *o)
{
        return o->step == STEP_PROCESS || o->result == -ENOMEM || o->result == -EAGAIN ||
               o->result == -EMFILE || o->result == -ENFILE || o->result == -ETIMEDOUT;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct intercept_tested known; /* under `lock` */
static bool is_known;                 /* under `lock` */
static atomic_uint means;             /* enum intercept_means */

static enum intercept_means other_means(void)
{
        struct preloaded found;
        const char *missing;
        return preloaded_find(&found, &missing) == 0 ? INTERCEPT_BY_PRELOAD : INTERCEPT_BY_NOTHING;
}

struct intercept_tested intercept_test(void)
{
        pthread_mutex_lock(&lock);
        struct intercept_tested result = known;
        if (!is_known) {
                struct outcome o = run();
                result = (struct intercept_tested){ step_names[o.step], -o.result, remedy_of(&o) };
                if (!is_passing(&o)) {
                        known = result;
                        is_known = true;
                        atomic_store(&means, result.step ? other_means() : INTERCEPT_BY_KERNEL);
                }
        }
        pthread_mutex_unlock(&lock);
        return result;
}

enum intercept_means intercept_means(void)
{
        return (enum intercept_means)atomic_load(&means);
}

int intercept_refuse(const struct intercept_tested *t, struct err *err)
{
        err->step = t->step;
        err->os_errno = t->os_errno;
        err->remedy = t->remedy;
        err->reason = "interceptUnavailable";
        return err_set(err, 0, -t->os_errno,
                       "no program can be intercepted on this machine: %s: %s (os error %d)", t->step,
                       errno_text(t->os_errno), t->os_errno);
}
