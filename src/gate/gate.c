/* gate: starts farhand-egress, exchanges messages with it, and supervises it. */
#include "gate/gate.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "core/server.h"
#include "wire/rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define READS_PER_TURN 64 /* messages that are read before the loop looks at other descriptors */
#define SENDS_PER_TURN 64
#define RETRY_MS 10 /* when the kernel has no memory for a message, or passes no more descriptors on */

/* A message that waits to be sent. Descriptors that go with it are the network's: a message of a closed network is removed. */
struct packet {
        struct list link; /* gate::packets */
        struct gate_network *network;
        bool has_sockets;
        size_t n;
        char bytes[];
};

struct gate {
        struct server *server;
        struct list networks; /* gate_network::link: open ones */
        struct list ending;   /* gate_network::link: farhand-egress has not confirmed their end */
        struct map by_id;
        uint32_t last_id;
        int fd;    /* -1: farhand-egress does not run */
        int pidfd; /* for signals: the pid may be reaped and used again at any time */
        struct watch *watch;
        struct list packets; /* packet::link */
        size_t packet_count;
        struct deferred flush;
        struct timer *retry;    /* flushes again */
        struct timer *pulse;    /* runs until the next PING, or until farhand-egress is given up */
        unsigned pings;         /* PINGs sent since the last sign of life */
        struct timer *restart;  /* runs until farhand-egress is started again */
        uint64_t pause_ms;      /* before the next start */
        uint64_t started_ms;    /* monotonic */
        char in[EGRESSMSG_MAX]; /* the message that is being handled */
        bool is_reading;
};

void gate_network_init(struct gate_network *n)
{
        *n = (struct gate_network){ .policy = -1 };
        list_init(&n->link);
}

/* --- the end of farhand-egress ------------------------------------------------------------------------------------ */

static void packet_free(struct gate *g, struct packet *p)
{
        list_remove(&p->link);
        g->packet_count--;
        free(p);
}

/* Drops what waits to be sent about a network, or everything (NULL). Returns whether farhand-egress has not heard of the network yet. */
static bool drop_packets(struct gate *g, const struct gate_network *of)
{
        struct packet *p;
        bool was_unheard = false;
        list_each (p, &g->packets, link)
                if (!of || p->network == of) {
                        was_unheard |= p->has_sockets;
                        packet_free(g, p);
                }
        return was_unheard;
}

/* Closes the socket, which ends farhand-egress. `kills`: also sends SIGKILL, because one that has broken the rules may not end. */
static void stop(struct gate *g, bool kills)
{
        if (g->fd < 0)
                return;
        g->watch = watch_free(g->watch);
        g->fd = fd_close(g->fd);
        if (kills && g->pidfd >= 0)
                (void)syscall(SYS_pidfd_send_signal, g->pidfd, SIGKILL, NULL, 0);
        g->pidfd = fd_close(g->pidfd);
        deferred_cancel(&g->flush);
        timer_stop(g->retry);
        timer_stop(g->pulse);
        g->pings = 0;
        (void)drop_packets(g, NULL);
}

/* Starts farhand-egress again after a pause, which doubles while it dies young. */
static void restart_later(struct gate *g)
{
        if (clock_mono_ms() - g->started_ms >= LIMIT_EGRESS_PAUSE_MS)
                g->pause_ms = 0;
        timer_start(g->restart, g->pause_ms);
        g->pause_ms = MIN(MAX(2 * g->pause_ms, (uint64_t)LIMIT_EGRESS_FIRST_PAUSE_MS),
                          (uint64_t)LIMIT_EGRESS_PAUSE_MS);
}

/* Forgets a network that has ended. */
static void forget(struct gate *g, struct gate_network *n)
{
        map_remove(&g->by_id, slice_from(&n->id, sizeof(n->id)));
        list_remove(&n->link);
        n->id = 0;
        n->is_ending = false;
}

static void lose(struct gate *g, int why)
{
        struct gate_network *n;
        log_warn_r(why, "network helper lost", "networks=%zu restart_ms=%llu", map_count(&g->by_id),
                   (unsigned long long)g->pause_ms);
        stop(g, true);
        while ((n = list_first(&g->ending, struct gate_network, link)))
                forget(g, n);
        list_each (n, &g->networks, link)
                n->events->lost(n);
        if (!list_is_empty(&g->networks))
                restart_later(g);
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

/* Queues a message. When farhand-egress leaves too many unread it counts as hung. `network`: the one whose policy goes with the message;
 * `has_sockets`: its sockets, too. */
static void queue(struct gate *g, const struct buf *message, struct gate_network *network, bool has_sockets)
{
        if (g->fd < 0)
                return;
        struct packet *p = mem_alloc(sizeof(*p) + message->n);
        *p = (struct packet){ .network = network, .has_sockets = has_sockets, .n = message->n };
        memcpy(p->bytes, message->p, message->n);
        list_append(&g->packets, &p->link);
        g->packet_count++;
        loop_defer(&g->server->loop, &g->flush);
}

static int send_packet(const struct gate *g, const struct packet *p)
{
        union {
                struct cmsghdr head;
                char room[CMSG_SPACE(EGRESSMSG_FDS_MAX * sizeof(int))];
        } control = { 0 };
        struct iovec part = { (void *)(uintptr_t)p->bytes, p->n };
        struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };
        if (p->network) {
                int fds[EGRESSMSG_FDS_MAX] = { p->network->policy };
                size_t count = 1;
                for (size_t i = 0; p->has_sockets && i < p->network->inlet_count; i++)
                        fds[count++] = p->network->inlets[i].socket;
                msg.msg_control = control.room;
                msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
                control.head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                                                 .cmsg_type = SCM_RIGHTS,
                                                 .cmsg_len = CMSG_LEN(count * sizeof(int)) };
                memcpy(CMSG_DATA(&control.head), fds, count * sizeof(int));
        }
        return sendmsg(g->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* Sends what waits, a bounded number of messages. The kernel passes no descriptors on while commands of this user keep too many in
 * flight: messages without any go past those with some then, or a PING behind them would not arrive, and farhand-egress would be killed
 * for it. None of them is about the network of a message that it passes. Returns 0, -EAGAIN, or another -errno. */
static int send_some(struct gate *g, bool *ret_is_held_up)
{
        struct packet *p;
        unsigned tries = 0;
        *ret_is_held_up = false;
        list_each (p, &g->packets, link) {
                if (*ret_is_held_up && p->network)
                        continue;
                if (tries++ == SENDS_PER_TURN)
                        break;
                int r = send_packet(g, p);
                *ret_is_held_up |= r == -ETOOMANYREFS;
                if (r == 0)
                        packet_free(g, p);
                else if (r != -ETOOMANYREFS)
                        return r;
        }
        return 0;
}

static void on_flush(struct deferred *d)
{
        struct gate *g = container_of(d, struct gate, flush);
        bool is_held_up;
        int r = send_some(g, &is_held_up);
        if (r == -EINTR)
                r = 0;
        if (r == -ENOBUFS || r == -ENOMEM || (r == 0 && is_held_up)) {
                timer_start(g->retry, RETRY_MS);
                r = -EAGAIN;
        } else if (g->fd >= 0) {
                watch_set(g->watch, WATCH_READ | (list_is_empty(&g->packets) ? 0u : WATCH_WRITE));
        }
        if (g->packet_count > LIMIT_EGRESS_PACKETS)
                lose(g, -ENOBUFS);
        else if (r < 0 && r != -EAGAIN)
                lose(g, r);
}

static void on_retry(void *arg)
{
        struct gate *g = arg;
        loop_defer(&g->server->loop, &g->flush);
}

/* Sends a PING while networks are open. */
static void on_pulse(void *arg)
{
        struct gate *g = arg;
        if (g->pings >= LIMIT_EGRESS_PINGS) {
                lose(g, -ETIMEDOUT);
                return;
        }
        if (list_is_empty(&g->networks) && g->pings == 0)
                return;
        _buf_ struct buf message = BUF_INIT(EGRESSMSG_MAX);
        must(egressmsg_ping_write(&message) == 0);
        queue(g, &message, NULL, false);
        g->pings++;
        timer_start(g->pulse, LIMIT_EGRESS_PULSE_MS);
}

static void queue_open(struct gate *g, struct gate_network *n)
{
        _buf_ struct buf message = BUF_INIT(EGRESSMSG_MAX);
        struct egressmsg_open open = { .count = n->inlet_count };
        for (size_t i = 0; i < n->inlet_count; i++) {
                open.kinds[i] = (uint8_t)n->inlets[i].kind;
                open.ports[i] = n->inlets[i].port;
        }
        must(egressmsg_open_write(&message, n->id, &open) == 0);
        queue(g, &message, n, true);
        if (timer_left_ms(g->pulse) == 0)
                timer_start(g->pulse, LIMIT_EGRESS_PULSE_MS);
}

void gate_answer(struct gate_network *n, const struct egressmsg_answer *answer)
{
        _buf_ struct buf message = BUF_INIT(EGRESSMSG_MAX);
        if (n->id == 0)
                return;
        must(egressmsg_answer_write(&message, n->id, answer) == 0);
        queue(n->server->gate, &message, NULL, false);
}

/* --- receiving ---------------------------------------------------------------------------------------------------- */

static struct slice key_of(const uint32_t *id)
{
        return slice_from(id, sizeof(*id));
}

static int take(struct gate *g, const struct egressmsg *m)
{
        /* A message about a closed network was on its way when it was closed. */
        struct gate_network *n = map_find(&g->by_id, key_of(&m->network));
        switch (m->type) {
        case EGRESSMSG_ASK:
                if (n && !n->is_ending)
                        n->events->asked(n, &m->ask);
                return 0;
        case EGRESSMSG_WITHDRAWN:
                if (n && !n->is_ending)
                        n->events->withdrawn(n, m->withdrawn);
                return 0;
        case EGRESSMSG_DECIDED:
                if (n)
                        n->events->decided(n, &m->decided);
                return 0;
        case EGRESSMSG_ENDED:
                if (n)
                        n->events->ended(n, &m->ended);
                return 0;
        case EGRESSMSG_CLOSED:
                if (n && !n->is_ending)
                        return -EPROTO;
                if (n)
                        forget(g, n);
                return 0;
        case EGRESSMSG_PONG:
                return 0; /* any message is a sign of life */
        default:
                return -EPROTO;
        }
}

/* Reads one message. Returns 1, 0 when there is none, or -errno. farhand-egress sends no descriptors: there is no room for any. */
static int read_one(struct gate *g)
{
        struct iovec part = { g->in, sizeof(g->in) };
        struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };
        ssize_t n = recvmsg(g->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0)
                return errno == EINTR || fd_is_passing(errno) ? 0 : -errno;
        if (n == 0)
                return -EPIPE;
        struct egressmsg m;
        if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || egressmsg_read(slice_from(g->in, (size_t)n), &m) < 0)
                return -EPROTO;
        g->pings = 0;
        int r = take(g, &m);
        return r < 0 ? r : 1;
}

static void read_some(struct gate *g)
{
        int r = 1;
        if (g->is_reading) /* a callback has called gate_catch_up */
                return;
        g->is_reading = true;
        for (unsigned n = 0; n < READS_PER_TURN && r > 0 && g->fd >= 0; n++)
                r = read_one(g);
        g->is_reading = false;
        if (r < 0)
                lose(g, r);
}

static void on_ready(void *arg, unsigned events)
{
        struct gate *g = arg;
        if (events & WATCH_WRITE)
                loop_defer(&g->server->loop, &g->flush);
        if (events & WATCH_READ)
                read_some(g);
}

void gate_catch_up(struct server *s)
{
        if (s->gate && s->gate->fd >= 0)
                read_some(s->gate);
}

/* --- starting farhand-egress, opening and closing networks -------------------------------------------------------- */

static int start(struct gate *g, struct err *err)
{
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return err_set(err, RPC_INTERNAL, -errno, "network helper cannot be started: %s",
                               errno_text(errno));
        _close_ int ours = pair[0], theirs = pair[1];
        pid_t pid;
        g->started_ms = clock_mono_ms();
        int r = net_program_start(&g->server->egress_program, theirs, &pid, err);
        if (r < 0)
                return r;
        procs_add_other(&g->server->procs, pid);
        /* The pidfd is opened before the loop can reap the process; it is -1 where the kernel has no pidfds. */
        g->pidfd = pidfd_open(pid, 0);
        g->fd = TAKE_FD(ours);
        r = watch_new(&g->server->loop, g->fd, WATCH_READ, on_ready, g, &g->watch);
        if (r < 0) {
                stop(g, true);
                return err_set(err, RPC_INTERNAL, r, "network helper cannot be watched: %s", errno_text(r));
        }
        log_info("network helper started", "pid=%d", pid);
        return 0;
}

static void on_restart(void *arg)
{
        struct gate *g = arg;
        struct err err = ERR_INIT;
        struct gate_network *n;
        if (g->fd >= 0 || list_is_empty(&g->networks))
                return;
        if (start(g, &err) < 0) {
                log_warn("network helper not started", "why=%s", log_quote(slice_from_str(err.text)));
                restart_later(g);
                return;
        }
        list_each (n, &g->networks, link)
                queue_open(g, n);
}

static struct gate *get(struct server *s)
{
        if (s->gate)
                return s->gate;
        struct gate *g = mem_new(struct gate);
        g->server = s;
        g->fd = g->pidfd = -1;
        list_init(&g->networks);
        list_init(&g->ending);
        list_init(&g->packets);
        map_init(&g->by_id);
        deferred_init(&g->flush, on_flush);
        g->retry = timer_new(&s->loop, on_retry, g);
        g->pulse = timer_new(&s->loop, on_pulse, g);
        g->restart = timer_new(&s->loop, on_restart, g);
        return s->gate = g;
}

bool gate_is_there(const struct server *s, struct err *err)
{
        struct err why = ERR_INIT;
        if (net_program_is_there(&s->egress_program, &why))
                return true;
        (void)err_set(err, RPC_INVALID_PARAMS, -ENOENT, "networkProxy is not available on this executor: %s",
                      why.text);
        return false;
}

bool gate_can_enforce(const struct server *s)
{
        struct err ignored = ERR_INIT;
        const struct backends *known = preparer_backends_known(&s->confine.preparer);
        return net_program_is_there(&s->egress_program, &ignored) &&
               (!known || known->chosen == BACKEND_NAMESPACES || known->chosen == BACKEND_BUBBLEWRAP);
}

/* Returns a file in memory that nobody can change, or -errno. */
static int policy_file(struct slice policy)
{
        _close_ int fd = memfd_create("farhand network", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
                return -errno;
        int r = fd_write_all(fd, policy);
        if (r == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
                r = -errno;
        return r < 0 ? r : TAKE_FD(fd);
}

static void release(struct gate_network *n)
{
        n->policy = fd_close(n->policy);
        for (size_t i = 0; i < n->inlet_count; i++)
                fd_close(n->inlets[i].socket);
        n->inlet_count = 0;
        free(TAKE(n->inlets));
}

/* Returns a number that no network has. */
static uint32_t next_id(struct gate *g)
{
        do
                g->last_id++;
        while (g->last_id == 0 || map_find(&g->by_id, key_of(&g->last_id)));
        return g->last_id;
}

int gate_begin(struct server *s, struct gate_network *n, const struct gate_events *events,
               struct slice policy, struct err *err)
{
        struct gate *g = get(s);
        must(n->id == 0 && n->policy < 0);
        n->server = s;
        n->events = events;
        /* While it is about to be started again, the network waits for that. */
        int r = g->fd < 0 && list_is_empty(&g->networks) ? start(g, err) : 0;
        if (r < 0)
                return r;
        r = policy_file(policy);
        if (r < 0)
                return err_set(err, RPC_INTERNAL, r, "network policy: %s", errno_text(r));
        n->policy = r;
        return 0;
}

void gate_open(struct gate_network *n, const struct gate_inlet *inlets, size_t inlet_count)
{
        struct gate *g = n->server->gate;
        must(n->id == 0 && n->policy >= 0 && inlet_count <= EGRESSMSG_SOCKETS_MAX);
        n->inlets = mem_alloc(inlet_count * sizeof(*inlets));
        memcpy(n->inlets, inlets, inlet_count * sizeof(*inlets));
        n->inlet_count = inlet_count;
        n->id = next_id(g);
        map_put(&g->by_id, key_of(&n->id), n);
        bool is_first = list_is_empty(&g->networks);
        list_append(&g->networks, &n->link);
        if (g->fd >= 0)
                queue_open(g, n);
        else if (is_first) /* it has died since gate_begin */
                restart_later(g);
}

void gate_end(struct gate_network *n)
{
        if (n->id == 0 || n->is_ending)
                return;
        struct gate *g = n->server->gate;
        _buf_ struct buf message = BUF_INIT(EGRESSMSG_MAX);
        must(egressmsg_close_write(&message, n->id) == 0);
        if (drop_packets(g, n) || g->fd < 0) {
                forget(g, n); /* farhand-egress does not know it */
        } else {
                n->is_ending = true;
                list_remove(&n->link);
                list_append(&g->ending, &n->link);
                queue(g, &message, NULL, false);
        }
        release(n);
}

void gate_close(struct gate_network *n)
{
        gate_end(n);
        if (n->id != 0)
                forget(n->server->gate, n);
        release(n);
}

struct gate *gate_free(struct gate *g)
{
        if (!g)
                return NULL;
        must(list_is_empty(&g->networks) && list_is_empty(&g->ending));
        stop(g, false);
        map_release(&g->by_id);
        timer_free(g->retry);
        timer_free(g->pulse);
        timer_free(g->restart);
        free(g);
        return NULL;
}
