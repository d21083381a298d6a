/* net_helper: see net_helper.h.
 *
 * An id is a slot and the number of its use, so that late words about a call that was cancelled meet nobody.
 */
#include "server/net_helper.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "policy/env.h"
#include "server/dispatch.h"
#include "server/outq.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINK_FD 3
#define READ_BYTES (256 * KIB)
#define SLOT_BITS 16
static_assert(LIMIT_HTTP_REQUESTS <= 1 << SLOT_BITS, "a slot must fit into an id");
/* Headers, the names of private ones once more, and what stands around them. */
static_assert(2 * LIMIT_HTTP_HEAD_BYTES + 9 * LIMIT_HTTP_HEADERS + 64 <= NETMSG_PAYLOAD_MAX,
              "what http_outgoing_build permits must fit into a message");

struct net_helper {
        struct server *server;
        int fd;    /* -1: not running */
        int pidfd; /* its pid may be reaped and used again at any time */
        struct watch *watch;
        struct buf in;
        struct outq out;
        struct deferred flush;
        struct timer *pulse;                         /* to the next PING, or to the end */
        bool is_watched;                             /* it runs */
        unsigned pings;                              /* since the last sign of life */
        struct net_call *calls[LIMIT_HTTP_REQUESTS]; /* by slot */
        uint32_t uses;                               /* of slots so far */
        size_t count;
        uint64_t bodies_bytes;
};

/* --- the program -------------------------------------------------------------------------------------------------- */

int net_helper_find(char *ret)
{
        static const char *const places[] = { "/../libexec/farhand/farhand-net", "/farhand-net" };
        char self[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        if (n <= 0)
                return -ENOENT;
        self[n] = 0;
        char *slash = strrchr(self, '/');
        if (!slash)
                return -ENOENT;
        *slash = 0;
        for (size_t i = 0; i < ARRAY_LEN(places); i++) {
                int length = snprintf(ret, PATH_MAX, "%s%s", self, places[i]);
                if (length > 0 && length < PATH_MAX && access(ret, X_OK) == 0)
                        return 0;
        }
        return -ENOENT;
}

/* What libcurl, OpenSSL and the resolver read; nothing else of the server's environment is the helper's business. */
static void collect_environment(const char **ret, size_t max)
{
        static const char *const names[] = {
                "http_proxy",      "HTTP_PROXY",   "https_proxy",   "HTTPS_PROXY",    "all_proxy",
                "ALL_PROXY",       "no_proxy",     "NO_PROXY",      "REQUEST_METHOD", "SSL_CERT_FILE",
                "SSL_CERT_DIR",    "OPENSSL_CONF", "RES_OPTIONS",   "LOCALDOMAIN",    "HOSTALIASES",
                "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS",
        };
        size_t count = 0;
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                const char *value = env_get((const char *const *)environ, names[i]);
                if (value && count + 1 < max) /* the entry as it stands: NAME=VALUE */
                        ret[count++] = value - strlen(names[i]) - 1;
        }
        ret[count] = NULL;
}

/* 0 or an errno, as posix_spawn has it. */
static int prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attr, int fd)
{
        sigset_t all, none;
        sigfillset(&all);
        sigemptyset(&none);
        int r = posix_spawnattr_setflags(attr,
                                         POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        r = r ? r : posix_spawnattr_setsigmask(attr, &none);
        r = r ? r : posix_spawnattr_setsigdefault(attr, &all);
        /* stdout is the server's word to whoever started it: nothing else may write there. */
        r = r ? r : posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        r = r ? r : posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        r = r ? r : posix_spawn_file_actions_adddup2(actions, fd, LINK_FD);
        return r ? r : posix_spawn_file_actions_addclosefrom_np(actions, LINK_FD + 1);
}

static int spawn_program(const char *path, int fd, pid_t *ret_pid)
{
        const char *environment[32];
        char name[] = "farhand-net", option[] = "--serve", *argv[] = { name, option, NULL };
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attr;
        collect_environment(environment, ARRAY_LEN(environment));
        posix_spawn_file_actions_init(&actions);
        posix_spawnattr_init(&attr);
        int r = prepare(&actions, &attr, fd);
        r = r ? r : posix_spawn(ret_pid, path, &actions, &attr, argv, (char **)(uintptr_t)environment);
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attr);
        return -r;
}

/* --- its death ---------------------------------------------------------------------------------------------------- */

/* The end of its socket is an order to go; one that has broken the rules may not care for orders. */
static void stop(struct net_helper *h, bool kills)
{
        if (h->fd < 0)
                return;
        h->watch = watch_free(h->watch);
        h->fd = fd_close(h->fd);
        if (kills && h->pidfd >= 0)
                (void)syscall(SYS_pidfd_send_signal, h->pidfd, SIGKILL, NULL, 0);
        h->pidfd = fd_close(h->pidfd);
        deferred_cancel(&h->flush);
        timer_stop(h->pulse);
        h->is_watched = false;
        h->pings = 0;
        outq_release(&h->out);
        buf_release(&h->in);
}

static struct net_call *release_slot(struct net_helper *h, size_t slot)
{
        struct net_call *call = h->calls[slot];
        h->calls[slot] = NULL;
        h->count--;
        call->helper = NULL;
        call->timer = timer_free(call->timer);
        return call;
}

static void lose(struct net_helper *h, int why)
{
        log_warn_r(why, "http helper lost", "calls=%zu", h->count);
        stop(h, true);
        struct netmsg_end end = { .outcome = NETMSG_FAILED, .text = S("http helper ended") };
        for (size_t slot = 0; slot < ARRAY_LEN(h->calls); slot++) {
                if (!h->calls[slot])
                        continue;
                struct net_call *call = release_slot(h, slot);
                call->events->end(call, &end);
        }
}

/* --- its silence -------------------------------------------------------------------------------------------------- */

static void say(struct net_helper *h, const struct buf *message)
{
        outq_raw(&h->out, buf_slice(message));
        loop_defer(&h->server->loop, &h->flush);
}

static void watch_for_pulse(struct net_helper *h)
{
        h->is_watched = true;
        timer_start(h->pulse, LIMIT_HTTP_PULSE_MS);
}

static void ping(struct net_helper *h)
{
        _buf_ struct buf message = BUF_INIT(NETMSG_HEAD_BYTES);
        must(netmsg_ping_write(&message) == 0);
        say(h, &message);
        h->pings++;
        watch_for_pulse(h);
}

/* Asks on while an answer is due, also when no call is left: the next one must not meet a helper that hangs. */
static void on_pulse(void *arg)
{
        struct net_helper *h = arg;
        h->is_watched = false;
        if (h->pings >= LIMIT_HTTP_PINGS)
                lose(h, -ETIMEDOUT);
        else if (h->count > 0 || h->pings > 0)
                ping(h);
}

/* The helper keeps time limits itself; here it did not. */
static void on_late(void *arg)
{
        struct net_call *call = arg;
        struct netmsg_end end = { .outcome = NETMSG_FAILED, .text = S("request timed out") };
        if (call->helper->pings == 0)
                ping(call->helper);
        net_call_cancel(call);
        call->events->end(call, &end);
}

static void limit_time(struct net_call *call, uint64_t timeout_ms)
{
        uint64_t ms;
        if (timeout_ms == NETMSG_NO_TIMEOUT || ckd_add(&ms, timeout_ms, (uint64_t)LIMIT_HTTP_GRACE_MS))
                return;
        call->timer = timer_new(&call->helper->server->loop, on_late, call);
        timer_start(call->timer, ms);
}

/* --- its words ---------------------------------------------------------------------------------------------------- */

static int take_head(struct net_call *call, struct slice payload)
{
        _arena_ struct arena a = ARENA_INIT;
        struct netmsg_head head;
        if (call->has_head || netmsg_head_decode(&a, payload, &head) < 0)
                return -EPROTO;
        call->has_head = true;
        call->events->head(call, &head);
        return 0;
}

static int take_data(struct net_call *call, struct slice bytes)
{
        if (!call->has_head || bytes.n > call->credit)
                return -EPROTO;
        call->credit -= bytes.n;
        call->events->data(call, bytes);
        return 0;
}

static int take_end(struct net_helper *h, struct net_call *call, struct slice payload)
{
        struct netmsg_end end;
        if (netmsg_end_decode(payload, &end) < 0 || (end.outcome == NETMSG_DONE && !call->has_head))
                return -EPROTO;
        (void)release_slot(h, call->id & ((1u << SLOT_BITS) - 1));
        call->events->end(call, &end);
        return 0;
}

static int take(struct net_helper *h, const struct netmsg *m)
{
        size_t slot = m->id & ((1u << SLOT_BITS) - 1);
        struct net_call *call = slot < ARRAY_LEN(h->calls) ? h->calls[slot] : NULL;
        if (call && call->id != m->id)
                call = NULL; /* about one that was cancelled */
        switch (m->type) {
        case NETMSG_HEAD:
                return call ? take_head(call, m->payload) : 0;
        case NETMSG_DATA:
                return call ? take_data(call, m->payload) : 0;
        case NETMSG_END:
                return call ? take_end(h, call, m->payload) : 0;
        case NETMSG_PONG:
                return 0; /* that it came is all */
        default:
                return -EPROTO;
        }
}

static int read_some(struct net_helper *h)
{
        char *room;
        must(buf_reserve(&h->in, READ_BYTES, &room) == 0);
        ssize_t n = recv(h->fd, room, READ_BYTES, 0);
        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        if (n == 0)
                return -EPIPE;
        h->pings = 0;
        buf_commit(&h->in, (size_t)n);
        size_t at = 0;
        ssize_t used;
        struct netmsg m;
        while ((used = netmsg_next(slice_from(h->in.p + at, h->in.n - at), &m)) > 0) {
                at += (size_t)used;
                int r = take(h, &m);
                if (r < 0)
                        return r;
        }
        if (used < 0)
                return (int)used;
        if (at == h->in.n)
                buf_release(&h->in);
        else
                buf_consume(&h->in, at);
        return 0;
}

static void on_flush(struct deferred *d)
{
        struct net_helper *h = container_of(d, struct net_helper, flush);
        if (h->fd < 0)
                return;
        int r = outq_flush(&h->out, h->fd);
        if (r < 0)
                lose(h, r);
        else
                watch_set(h->watch, WATCH_READ | (r > 0 ? WATCH_WRITE : 0u));
}

static void on_ready(void *arg, unsigned events)
{
        struct net_helper *h = arg;
        if (events & WATCH_WRITE) {
                h->pings = 0; /* there was no room: it has read */
                loop_defer(&h->server->loop, &h->flush);
        }
        if (!(events & WATCH_READ) || h->fd < 0)
                return;
        int r = read_some(h);
        if (r < 0)
                lose(h, r);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static int start(struct net_helper *h, struct err *err)
{
        char path[PATH_MAX];
        if (net_helper_find(path) < 0)
                return err_set(err, RPC_INTERNAL, -ENOENT, "http helper not installed");
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return err_set(err, RPC_INTERNAL, -errno, "http helper cannot be started: %s",
                               errno_text(errno));
        _close_ int ours = pair[0], theirs = pair[1];
        pid_t pid;
        int r = spawn_program(path, theirs, &pid);
        if (r < 0)
                return err_set(err, RPC_INTERNAL, r, "http helper cannot be started: %s", errno_text(r));
        h->server->procs.spared = pid; /* a lost spawner is no reason to end it */
        h->pidfd = pidfd_open(pid, 0); /* before the loop can reap it; -1 where the kernel has none */
        h->fd = TAKE_FD(ours);
        h->watch = watch_new(&h->server->loop, h->fd, on_ready, h);
        watch_set(h->watch, WATCH_READ);
        log_debug("http helper started", "pid=%d", pid);
        return 0;
}

static struct net_helper *get(struct server *s)
{
        if (s->net)
                return s->net;
        struct net_helper *h = mem_new(struct net_helper);
        h->server = s;
        h->fd = h->pidfd = -1;
        buf_init(&h->in, NETMSG_HEAD_BYTES + NETMSG_PAYLOAD_MAX + READ_BYTES);
        outq_init(&h->out, FRAMING_RAW, SIZE_MAX);
        deferred_init(&h->flush, on_flush);
        h->pulse = timer_new(&s->loop, on_pulse, h);
        return s->net = h;
}

struct net_helper *net_helper_free(struct net_helper *h)
{
        if (!h)
                return NULL;
        must(h->count == 0);
        stop(h, false);
        timer_free(h->pulse);
        free(h);
        return NULL;
}

int net_call_start(struct server *s, struct net_call *call, const struct net_call_events *events,
                   struct netmsg_request *m, struct slice body, struct err *err)
{
        struct net_helper *h = get(s);
        if (h->count >= LIMIT_HTTP_REQUESTS)
                return dispatch_limit(err, "http requests of all connections", LIMIT_HTTP_REQUESTS);
        /* Of calls that were cancelled the bodies are still under way, to a helper that may not read. */
        if (h->out.bytes > LIMIT_HTTP_BODIES_BYTES || body.n > LIMIT_HTTP_BODIES_BYTES - h->out.bytes)
                return dispatch_limit(err, "bytes of http bodies", LIMIT_HTTP_BODIES_BYTES);
        int r = h->fd < 0 ? start(h, err) : 0;
        if (r < 0)
                return r;
        uint32_t slot = 0;
        while (h->calls[slot])
                slot++;
        *call = (struct net_call){ .helper = h, .events = events, .credit = LIMIT_HTTP_WINDOW_BYTES };
        call->id = h->uses++ << SLOT_BITS | slot;
        m->credit = LIMIT_HTTP_WINDOW_BYTES;
        m->body_bytes = body.n;
        _buf_ struct buf message = BUF_INIT(SIZE_MAX / 2);
        r = netmsg_request_write(&message, call->id, m);
        if (r == 0)
                r = netmsg_bytes_write(&message, NETMSG_BODY, call->id, body);
        if (r < 0) {
                call->helper = NULL;
                return err_set(err, RPC_INTERNAL, r, "http/request is too large");
        }
        h->calls[slot] = call;
        h->count++;
        say(h, &message);
        limit_time(call, m->timeout_ms);
        if (!h->is_watched)
                watch_for_pulse(h);
        return 0;
}

void net_call_cancel(struct net_call *call)
{
        struct net_helper *h = call->helper;
        if (!h)
                return;
        _buf_ struct buf message = BUF_INIT(NETMSG_HEAD_BYTES);
        must(netmsg_cancel_write(&message, call->id) == 0);
        say(h, &message);
        (void)release_slot(h, call->id & ((1u << SLOT_BITS) - 1));
}

void net_call_credit(struct net_call *call, size_t bytes)
{
        struct net_helper *h = call->helper;
        if (!h || bytes == 0)
                return;
        call->credit += bytes;
        _buf_ struct buf message = BUF_INIT(2 * NETMSG_HEAD_BYTES);
        must(call->credit <= LIMIT_HTTP_WINDOW_BYTES);
        must(netmsg_credit_write(&message, call->id, (uint32_t)bytes) == 0);
        say(h, &message);
}

bool net_reserve(struct server *s, uint64_t bytes)
{
        struct net_helper *h = get(s);
        if (bytes > LIMIT_HTTP_BODIES_BYTES - h->bodies_bytes)
                return false;
        h->bodies_bytes += bytes;
        return true;
}

void net_unreserve(struct server *s, uint64_t bytes)
{
        get(s)->bodies_bytes -= bytes;
}
