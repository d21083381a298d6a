/* intercepted: makes the broker's thread of a keeper, and keeps apart what the two threads wait for (intercepted.h). Only
 * intercepted_begin uses libc, while there is one thread. */
#include "keeper/intercepted.h"

#include "base/mem.h"
#include "base/sys_proc.h"
#include "keeper/broker_start.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

#define BROKER_STACK_BYTES (1024 * 1024)

/* What the thread gets. */
struct thread_start {
        void *(*broker)(void *broker_start);
        struct broker_start *start;
        enum urgent got;
        struct urgent_before before;
};

static void *thread_run(void *arg)
{
        struct thread_start *given = arg, t = *given;
        free(given);
        (void)sys_prctl(PR_SET_NAME, (unsigned long)"fh-broker");
        urgent_end(t.got, &t.before);
        return t.broker(t.start);
}

static int thread_make(struct thread_start *t)
{
        pthread_attr_t attr;
        pthread_t thread;
        int r = pthread_attr_init(&attr);
        if (r != 0)
                return -r;
        r = pthread_attr_setstacksize(&attr, BROKER_STACK_BYTES);
        if (r == 0)
                r = pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        if (r == 0)
                r = pthread_create(&thread, &attr, thread_run, t);
        (void)pthread_attr_destroy(&attr);
        return -r;
}

int intercepted_begin(struct keeper *k, int listener, pid_t root, enum urgent got,
                      const struct urgent_before *before)
{
        struct broker_start *start = mem_new(struct broker_start);
        struct thread_start *t = mem_new(struct thread_start);
        *start = (struct broker_start){ .keeper = k,
                                        .asking = k->order.asking,
                                        .listener = listener,
                                        .socket = k->order.server,
                                        .config = k->order.config,
                                        .root = root };
        *t = (struct thread_start){ .broker = k->broker, .start = start, .got = got, .before = *before };
        /* No process of the same user may take the listener from here, and decide in the broker's place. The commands that the broker
         * makes are as others again after their execve. */
        int r = sys_prctl(PR_SET_DUMPABLE, 0);
        if (r == 0)
                r = thread_make(t);
        if (r == 0)
                return 0;
        free(start);
        free(t);
        sys_close(listener);
        sys_close(k->order.server);
        sys_close(k->order.config);
        return r;
}

static bool is_end(const siginfo_t *info)
{
        return info->si_code == CLD_EXITED || info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED;
}

static int look(int kind, pid_t pid, int options, siginfo_t *ret)
{
        *ret = (siginfo_t){ 0 };
        return (int)sys6(SYS_waitid, kind, pid, SYS_ARG(ret), options | WNOWAIT | __WALL, 0, 0);
}

pid_t intercepted_reap(int *ret_status, struct rusage *ret_usage)
{
        siginfo_t info;
        int r = look(P_ALL, 0, WEXITED | WNOHANG | __WNOTHREAD, &info);
        if (r < 0 || info.si_pid == 0)
                return r;
        if (!is_end(&info))
                return -EAGAIN;
        return sys_wait4(info.si_pid, ret_status, WNOHANG | __WALL | __WNOTHREAD, ret_usage);
}

/* The kernel tells the parent of a traced process of its end when the tracer has reaped it. A child of this process is the exception:
 * whichever of our threads reaps it takes it from the other. The first thread does, because it reports the exit of the command. A
 * thread that is not the first one of its process is no child; it can have no pidfd. */
static bool is_own_child(pid_t thread)
{
        int pidfd = sys_pidfd_open(thread);
        if (pidfd < 0)
                return false;
        sys_close(pidfd);
        return sys_parent_of(thread) == sys_getpid();
}

pid_t intercepted_tracee_wait(pid_t thread, int *ret_status, int options)
{
        siginfo_t info;
        int r = look(P_PID, thread, WEXITED | WSTOPPED | options, &info);
        if (r < 0 || info.si_pid == 0)
                return r;
        if (is_end(&info) && is_own_child(thread))
                return -ECHILD;
        pid_t pid = sys_wait4(thread, ret_status, options | __WALL, NULL);
        return is_end(&info) && pid > 0 ? -ECHILD : pid;
}
