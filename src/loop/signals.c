/* signals: signals of the process as events of the loop, through a signalfd: no handler runs anywhere. */
#include "base/fd.h"
#include "base/mem.h"
#include "loop/loop.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct signals {
        int fd;
        sigset_t set;
        struct watch *watch;
        void (*fn)(void *arg, int signo);
        void *arg;
};

/* Reads one signal at a time, because its callback may free this object. */
static void on_ready(void *arg, UNUSED unsigned events)
{
        struct signals *s = arg;
        struct signalfd_siginfo info;
        if (read(s->fd, &info, sizeof(info)) == sizeof(info))
                s->fn(s->arg, (int)info.ssi_signo);
}

int signals_new(struct loop *l, const int *signos, void (*fn)(void *arg, int signo), void *arg,
                struct signals **ret)
{
        struct signals *s = mem_new(struct signals);
        s->fn = fn;
        s->arg = arg;
        sigemptyset(&s->set);
        for (size_t i = 0; signos[i]; i++)
                sigaddset(&s->set, signos[i]);
        must(pthread_sigmask(SIG_BLOCK, &s->set, NULL) == 0);
        /* The parent process may have made us ignore these signals: then SIGCHLD, for example, is never sent. */
        for (size_t i = 0; signos[i]; i++)
                must(signal(signos[i], SIG_DFL) != SIG_ERR);
        s->fd = signalfd(-1, &s->set, SFD_CLOEXEC | SFD_NONBLOCK);
        int r = s->fd < 0 ? -errno : watch_new(l, s->fd, WATCH_READ, on_ready, s, &s->watch);
        if (r < 0) {
                signals_free(s);
                return r;
        }
        *ret = s;
        return 0;
}

struct signals *signals_free(struct signals *s)
{
        if (!s)
                return NULL;
        struct signalfd_siginfo late[NSIG];
        if (s->fd >= 0)
                (void)!read(s->fd, late, sizeof(late)); /* drops signals that came too late */
        must(pthread_sigmask(SIG_UNBLOCK, &s->set, NULL) == 0);
        watch_free(s->watch);
        fd_close(s->fd);
        free(s);
        return NULL;
}
