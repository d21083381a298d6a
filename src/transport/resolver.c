/* resolver: runs getaddrinfo on a thread of its own.
 *
 * The thread blocks all signals, so that the signal handlers of the program never run on this thread. The thread and the caller
 * share a struct that counts its users; the last user frees the struct, so that the caller never waits for a lookup that hangs.
 */
#include "transport/resolver.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

struct resolver {
        atomic_int users; /* how many of the caller and the thread still use this struct */
        int fd;
        char *host;
        char port[8];
        int result; /* what getaddrinfo returned */
        int os_errno;
        struct addrinfo *addresses;
};

static void unref(struct resolver *r)
{
        if (atomic_fetch_sub(&r->users, 1) > 1)
                return;
        if (r->addresses)
                freeaddrinfo(r->addresses);
        fd_close(r->fd);
        free(r->host);
        free(r);
}

static struct addrinfo hints(int flags)
{
        return (struct addrinfo){ .ai_socktype = SOCK_STREAM,
                                  .ai_family = AF_UNSPEC,
                                  .ai_flags = flags | AI_NUMERICSERV };
}

static void *look_up(void *arg)
{
        struct resolver *r = arg;
        struct addrinfo wanted = hints(AI_ADDRCONFIG);
        r->result = getaddrinfo(r->host, r->port, &wanted, &r->addresses);
        r->os_errno = errno;
        (void)eventfd_write(r->fd, 1); /* cannot fail: an eventfd always takes the first write */
        unref(r);
        return NULL;
}

/* Starts the thread that looks the name up. Returns 0, or a positive errno. */
static int begin(struct resolver *r)
{
        pthread_t thread;
        sigset_t all, before;
        sigfillset(&all);
        atomic_store(&r->users, 2);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        int failed = pthread_create(&thread, NULL, look_up, r);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (failed)
                atomic_store(&r->users, 1);
        else
                (void)pthread_detach(thread);
        return failed;
}

struct resolver *resolver_new(const char *host, uint16_t port, struct err *err)
{
        struct resolver *r = mem_new(struct resolver);
        atomic_init(&r->users, 1);
        r->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        r->host = mem_strdup(host);
        (void)snprintf(r->port, sizeof(r->port), "%u", port);
        int failed = r->fd < 0 ? errno : 0;
        if (!failed) {
                struct addrinfo literal = hints(AI_NUMERICHOST);
                if (getaddrinfo(host, r->port, &literal, &r->addresses) == 0)
                        (void)eventfd_write(r->fd, 1);
                else
                        failed = begin(r);
        }
        if (!failed)
                return r;
        (void)err_set(err, 0, -failed, "cannot look up `%s`: %s", host, errno_text(failed));
        unref(r);
        return NULL;
}

struct resolver *resolver_free(struct resolver *r)
{
        if (r)
                unref(r);
        return NULL;
}

int resolver_fd(const struct resolver *r)
{
        return r->fd;
}

int resolver_result(struct resolver *r, const struct addrinfo **ret, struct err *err)
{
        eventfd_t value;
        if (eventfd_read(r->fd, &value) < 0)
                return err_set(err, 0, -EAGAIN, "`%s` is still being looked up", r->host);
        if (r->result == EAI_SYSTEM)
                return err_set(err, 0, -r->os_errno, "cannot look up `%s`: %s", r->host,
                               errno_text(r->os_errno));
        if (r->result != 0)
                return err_set(err, 0, -EHOSTUNREACH, "cannot look up `%s`: %s", r->host,
                               gai_strerror(r->result));
        *ret = r->addresses;
        return 0;
}
