/* networks: opens, changes and closes networks as the server says, and accepts connections for them.
 *
 * A network whose connections are all in use accepts nothing until one has ended; the kernel keeps those that wait, and the others notice
 * nothing. The same when the kernel has nothing left for another connection, or the server does not read what it is told.
 */
#include "egress/networks.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "egress/connection.h"
#include "egress/questions.h"
#include "wire/egressmsg.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECOVER_MS 100

struct listener {
        struct open_network *open;
        int fd;
        enum egressmsg_kind kind;
        uint16_t port;
        struct watch *watch;
};

struct open_network {
        struct network network;
        struct listener *listeners;
        size_t count;
        char *policy; /* what network.policy points into */
};

/* --- accepting ---------------------------------------------------------------------------------------------------- */

static bool may_accept(const struct open_network *o)
{
        const struct egress *e = o->network.egress;
        return !e->is_full && !network_is_full(&o->network) && !link_is_full(&e->link);
}

static void settle(struct open_network *o)
{
        unsigned events = may_accept(o) ? WATCH_READ : 0;
        for (size_t i = 0; i < o->count; i++)
                if (o->listeners[i].watch)
                        watch_set(o->listeners[i].watch, events);
}

void networks_resume(struct networks *ns)
{
        struct network *n;
        list_each (n, &ns->all, link) {
                settle(container_of(n, struct open_network, network));
                network_resume(n);
        }
}

static void on_room(struct network *n)
{
        settle(container_of(n, struct open_network, network));
}

static void on_recover(void *arg)
{
        struct networks *ns = arg;
        ns->egress->is_full = false;
        networks_resume(ns);
}

/* Waits a little when the kernel has nothing left: descriptors come back when connections end. */
static void pause_all(struct networks *ns, int why)
{
        if (!ns->egress->is_full)
                log_warn_r(why, "connections of managed networks wait");
        ns->egress->is_full = true;
        timer_start(ns->egress->recover, RECOVER_MS);
        networks_resume(ns);
}

/* The client has gone, or something about its packets; the next one may be fine. */
static bool concerns_one(int os_errno)
{
        return fd_is_passing(os_errno) || os_errno == ECONNABORTED || os_errno == EPROTO || os_errno == EPERM;
}

static void on_connection(void *arg, UNUSED unsigned events)
{
        struct listener *l = arg;
        struct open_network *o = l->open;
        struct sockaddr_storage client = { 0 };
        socklen_t size = sizeof(client);
        if (!may_accept(o)) {
                settle(o);
                return;
        }
        /* One in each turn: every network gets its turn, and a second call would mostly find nothing. */
        int fd = accept4(l->fd, (struct sockaddr *)&client, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && !concerns_one(errno))
                pause_all(o->network.egress->networks, -errno);
        if (fd >= 0)
                connection_start(&o->network,
                                 l->kind == EGRESSMSG_SOCKS_LISTENER ? LISTENER_SOCKS : LISTENER_HTTP, fd,
                                 &client);
        settle(o);
}

/* --- networks ----------------------------------------------------------------------------------------------------- */

static struct open_network *find(struct networks *ns, uint32_t id)
{
        struct network *n;
        list_each (n, &ns->all, link) {
                if (n->id == id)
                        return container_of(n, struct open_network, network);
        }
        return NULL;
}

static void cut_all(struct open_network *o)
{
        struct member *m;
        while ((m = list_first(&o->network.members, struct member, link)))
                m->cut(m);
}

/* A connection that was cut in this turn still looks at its network until the end of the turn. */
static void on_end(struct deferred *d)
{
        struct network *n = container_of(d, struct network, end);
        struct open_network *o = container_of(n, struct open_network, network);
        free(o->policy);
        free(o);
}

static void close_network(struct open_network *o)
{
        for (size_t i = 0; i < o->count; i++) {
                watch_free(o->listeners[i].watch);
                fd_close(o->listeners[i].fd);
        }
        o->count = 0;
        free(TAKE(o->listeners));
        cut_all(o);
        questions_release(&o->network);
        network_release(&o->network);
        list_remove(&o->network.link);
        loop_defer(&o->network.egress->loop, &o->network.end);
}

/* Reads a policy from a file in memory. The server may still change the file, but not what was copied. */
static int read_policy(int fd, struct arena *a, char **ret_bytes, struct net_policy *ret)
{
        struct stat st;
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
            st.st_size > LIMIT_NET_POLICY_BYTES)
                return -EPROTO;
        size_t n = (size_t)st.st_size;
        _free_ char *bytes = mem_alloc(n);
        if (pread(fd, bytes, n, 0) != (ssize_t)n)
                return -EPROTO;
        int r = net_policy_read(a, slice_from(bytes, n), ret);
        if (r < 0)
                return r;
        *ret_bytes = TAKE(bytes);
        return 0;
}

static int set_policy(struct open_network *o, int fd)
{
        struct arena arena = ARENA_INIT;
        struct net_policy policy;
        char *bytes;
        int r = read_policy(fd, &arena, &bytes, &policy);
        if (r < 0) {
                arena_release(&arena);
                return r;
        }
        arena_release(&o->network.arena);
        free(o->policy);
        o->network.arena = arena;
        o->network.policy = policy;
        o->policy = bytes;
        return 0;
}

static int add_listener(struct open_network *o, struct listener *l, int fd)
{
        l->open = o;
        l->fd = fd;
        if (l->kind != EGRESSMSG_HTTP_LISTENER && l->kind != EGRESSMSG_SOCKS_LISTENER)
                return 0; /* kept, so that nobody else can have the port */
        int is_listening = 0;
        socklen_t size = sizeof(is_listening);
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &size) < 0 || !is_listening)
                return -EPROTO;
        int r = fd_set_nonblock(fd, true), one = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* what it accepts inherits that */
        return r < 0 ? r : watch_new(&o->network.egress->loop, fd, 0, on_connection, l, &l->watch);
}

static int take_open(struct networks *ns, const struct egressmsg *m, int fds[], size_t fd_count)
{
        if (find(ns, m->network))
                return -EPROTO;
        struct open_network *o = mem_new(struct open_network);
        network_init(&o->network, ns->egress, m->network);
        o->network.on_room = on_room;
        deferred_init(&o->network.end, on_end);
        o->listeners = mem_zalloc(fd_count * sizeof(*o->listeners));
        list_append(&ns->all, &o->network.link);
        int r = set_policy(o, fds[0]);
        for (size_t i = 0; i < m->open.count && r == 0; i++) {
                o->listeners[i].kind = (enum egressmsg_kind)m->open.kinds[i];
                o->listeners[i].port = m->open.ports[i];
                o->count++;
                r = add_listener(o, &o->listeners[i], TAKE_FD(fds[i + 1]));
        }
        if (r == 0)
                settle(o);
        else
                close_network(o);
        return r;
}

static int take_rules(struct networks *ns, const struct egressmsg *m, int fds[])
{
        struct open_network *o = find(ns, m->network);
        if (!o)
                return -EPROTO;
        int r = set_policy(o, fds[0]);
        if (r < 0)
                return r;
        struct member *member;
        /* Cutting one connection may end others: each is taken from the front, looked at once, and put behind those that stay. */
        for (size_t left = o->network.member_count; left > 0; left--) {
                member = list_first(&o->network.members, struct member, link);
                if (!member)
                        break;
                list_remove(&member->link);
                list_append(&o->network.members, &member->link);
                if (!member->may_go_on(member))
                        member->cut(member);
        }
        return 0;
}

static int take_close(struct networks *ns, uint32_t id)
{
        struct open_network *o = find(ns, id);
        if (!o)
                return -EPROTO;
        close_network(o);
        _buf_ struct buf out = BUF_INIT(EGRESSMSG_MAX);
        must(egressmsg_closed_write(&out, id) == 0);
        link_send(&ns->egress->link, buf_slice(&out));
        return 0;
}

static int take_answer(struct networks *ns, const struct egressmsg *m)
{
        struct open_network *o = find(ns, m->network);
        struct answer a = { .action = (enum net_action)m->answer.action, .reason = m->answer.reason };
        if (o)
                questions_answer(&o->network, m->answer.question, &a,
                                 m->answer.remember == EGRESSMSG_FOR_NETWORK, m->answer.ttl_ms);
        return 0;
}

int networks_take(struct networks *ns, struct slice message, int fds[], size_t fd_count)
{
        struct egressmsg m;
        int r = egressmsg_read(message, &m);
        if (r < 0 || fd_count != egressmsg_fd_count(&m))
                return -EPROTO;
        switch (m.type) {
        case EGRESSMSG_OPEN:
                return take_open(ns, &m, fds, fd_count);
        case EGRESSMSG_RULES:
                return take_rules(ns, &m, fds);
        case EGRESSMSG_CLOSE:
                return take_close(ns, m.network);
        case EGRESSMSG_ANSWER:
                return take_answer(ns, &m);
        case EGRESSMSG_PING:
                link_pong(&ns->egress->link);
                return 0;
        default:
                return -EPROTO;
        }
}

void networks_init(struct networks *ns, struct egress *e)
{
        ns->egress = e;
        list_init(&ns->all);
        e->networks = ns;
        e->recover = timer_new(&e->loop, on_recover, ns);
}

void networks_release(struct networks *ns)
{
        struct network *n;
        while ((n = list_first(&ns->all, struct network, link)))
                close_network(container_of(n, struct open_network, network));
        ns->egress->recover = timer_free(ns->egress->recover);
}
