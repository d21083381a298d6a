/* inlets_make: a joiner makes the inlets of a command in the network of its sandbox, and the keeper sends them (inlets.h). */
#include "keeper/inlets_make.h"

#include "base/limits.h"
#include "base/sys.h"
#include "keeper/keeper_shared.h"
#include "sandbox/enter.h"
#include "sandbox/image.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/wait.h>

#define JOINER_STACK_BYTES 4096
#define BACKLOG 256
#define RETRIES (LIMIT_HANDOVER_MS / LIMIT_HANDOVER_RETRY_MS)

/* What the joiner needs, and what it has done; in memory that it shares with the keeper. */
struct joiner {
        const struct inlets *inlets;
        int user, net;
        bool is_up; /* lo has its addresses: setting its flags again would take a lock of all networks of the machine */
        int fds[INLETS_MAX];
        uint32_t made;
        long result;
};

/* ---- the joiner: a process, because a process cannot leave a user namespace again ---- */

/* SO_REUSEADDR is not set: nothing has used the addresses in this network, and with it another socket for datagrams could share
 * them. */
static NO_ASAN int inlet_open(const struct inlet *i)
{
        const struct sockaddr_in at = { .sin_family = AF_INET,
                                        .sin_port = htons(i->port),
                                        .sin_addr = { htonl(i->address) } };
        int kind = i->kind == INLET_TCP ? SOCK_STREAM : SOCK_DGRAM;
        if (i->port == 0 || i->kind > INLET_UDP)
                return -EINVAL;
        int fd = (int)sys_call3(SYS_socket, AF_INET, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return fd;
        long r = sys_call3(SYS_bind, fd, &at, sizeof(at));
        if (r == 0 && i->kind == INLET_TCP)
                r = sys_call2(SYS_listen, fd, BACKLOG);
        if (r == 0)
                return fd;
        sys_close(fd);
        return (int)r;
}

static NO_ASAN long network_enter(const struct joiner *j)
{
        if (j->user == j->net)
                return sys_call2(SYS_setns, j->net, CLONE_NEWUSER | CLONE_NEWNET);
        long r = j->user < 0 ? 0 : sys_call2(SYS_setns, j->user, CLONE_NEWUSER);
        return r < 0 ? r : sys_call2(SYS_setns, j->net, CLONE_NEWNET);
}

/* The joiner shares the keeper's descriptors, so its sockets are the keeper's. */
static NO_ASAN void joiner_run(void *arg)
{
        struct joiner *j = arg;
        struct enter_failure why;
        long r = network_enter(j);
        if (r == 0 && !j->is_up && enter_network(&why) < 0)
                r = -why.os_errno;
        for (uint32_t i = 0; r == 0 && i < j->inlets->count; i++) {
                int fd = inlet_open(&j->inlets->list[i]);
                if (fd >= 0)
                        j->fds[j->made++] = fd;
                else
                        r = fd;
        }
        j->result = r;
        sys_exit(0);
}

static int join(struct joiner *j)
{
        _Alignas(16) char stack[JOINER_STACK_BYTES];
        j->result = -ESRCH; /* it may be killed */
        long pid = sys_clone_onto(CLONE_VM | CLONE_FILES | SIGCHLD, stack + sizeof(stack), NULL, NULL,
                                  joiner_run, j);
        if (pid < 0)
                return (int)pid;
        while (sys_wait4((pid_t)pid, NULL, __WALL, NULL) == -EINTR)
                continue;
        return (int)j->result;
}

/* ---- sending the sockets ---- */

static long send_once(int socket, const struct joiner *j)
{
        struct inlets_message m = { .count = j->made };
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(j->fds))] = { 0 };
        size_t bytes = j->made * sizeof(j->fds[0]);
        struct iovec part = { &m, sizeof(m) };
        struct msghdr msg = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(bytes)
        };
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        *c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(bytes),
                               .cmsg_level = SOL_SOCKET,
                               .cmsg_type = SCM_RIGHTS };
        for (size_t i = 0; i < bytes; i++)
                CMSG_DATA(c)[i] = ((const unsigned char *)j->fds)[i];
        return sys_call3(SYS_sendmsg, socket, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Tries again, for LIMIT_HANDOVER_MS, while commands of this user keep too many descriptors in flight (lend.h), or while there is no
 * room. An order to kill ends the start meanwhile. */
static int sockets_send(struct keeper *k, const struct joiner *j)
{
        const struct timespec moment = { .tv_nsec = LIMIT_HANDOVER_RETRY_MS * 1000000L };
        for (int n = 0;;) {
                long r = send_once(k->order.inlet_socket, j);
                if (r == -EINTR)
                        continue;
                bool is_passing = r == -ETOOMANYREFS || r == -EAGAIN || r == -ENOBUFS || r == -ENOMEM;
                if (!is_passing || n++ == RETRIES)
                        return (int)MIN(r, 0L);
                if (sys_sigtimedwait(SYS_SIGNAL_BIT(KEEPER_KILL), &moment) != KEEPER_KILL)
                        continue;
                atomic_store_explicit(&k->is_kill_wanted, true, memory_order_relaxed);
                return -ECANCELED;
        }
}

void inlets_disconnect(struct keeper *k)
{
        if (k->order.inlet_socket >= 0)
                sys_close(k->order.inlet_socket);
        k->order.inlet_socket = -1;
}

int inlets_make(struct keeper *k, int user, int net, bool is_up)
{
        struct joiner j = { .inlets = &k->order.inlets, .user = user, .net = net, .is_up = is_up };
        int r = join(&j);
        if (r == 0)
                r = sockets_send(k, &j);
        for (uint32_t i = 0; i < j.made; i++)
                sys_close(j.fds[i]);
        inlets_disconnect(k);
        return r;
}

int inlets_make_in(struct keeper *k, pid_t init)
{
        int space = sys_pidfd_open(init);
        if (space < 0)
                return space;
        int r = inlets_make(k, k->order.image->needs_user ? space : -1, space, false);
        sys_close(space);
        return r;
}
