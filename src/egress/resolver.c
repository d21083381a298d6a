/* resolver: looks up names with c-ares.
 *
 * c-ares opens its own sockets and tells which of them to watch. Its calls may end lookups, so what they found is told at the end of the
 * turn. A lookup that was cancelled stays until c-ares has let go of it.
 */
#include "egress/resolver.h"

#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"

#include <ares.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/stat.h>

#define CONFIGURATION "/etc/resolv.conf"
#define ADDRESSES_MAX 64 /* of one name. More: the name counts as one that cannot be resolved */
#define TRY_MS 900       /* one question to one server; at least two fit */

struct server_watch {
        struct list link; /* channel::watches */
        struct channel *channel;
        ares_socket_t fd;
        struct watch *watch;
};

struct looker {
        size_t lookups; /* that c-ares knows */
        bool is_gone;
};

/* A configuration of name servers. The file may change: then lookups that began with the old one end with it. */
struct channel {
        struct list link; /* resolver::channels */
        struct resolver *resolver;
        ares_channel ares;
        struct list watches; /* server_watch::link */
        size_t lookups;
        bool is_old;
        struct deferred end;
};

struct resolver {
        struct loop *loop;
        struct channel *channel; /* the newest */
        struct list channels;    /* channel::link: it, and old ones whose lookups have not ended */
        struct timer *timer;     /* of c-ares */
        struct timespec changed;
};

struct lookup {
        struct channel *channel;
        struct looker *looker;
        struct timer *timer;
        lookup_fn fn; /* NULL: cancelled */
        void *arg;
        bool is_held; /* c-ares knows it */
        struct deferred tell;
        size_t count;
        struct sockaddr_storage *addresses;
};

bool resolver_literal(struct slice text, uint16_t port, struct sockaddr_storage *ret)
{
        char copy[INET6_ADDRSTRLEN];
        if (text.n >= sizeof(copy) || text.n == 0)
                return false;
        memcpy(copy, text.p, text.n);
        copy[text.n] = 0;
        memset(ret, 0, sizeof(*ret));
        struct sockaddr_in *in4 = (void *)ret;
        struct sockaddr_in6 *in6 = (void *)ret;
        if (inet_pton(AF_INET, copy, &in4->sin_addr) == 1) {
                in4->sin_family = AF_INET;
                in4->sin_port = htons(port);
                return true;
        }
        if (inet_pton(AF_INET6, copy, &in6->sin6_addr) == 1) {
                in6->sin6_family = AF_INET6;
                in6->sin6_port = htons(port);
                return true;
        }
        return false;
}

/* --- the sockets and the time of c-ares --------------------------------------------------------------------------- */

static void settle_timer(struct resolver *r)
{
        uint64_t soonest_ms = UINT64_MAX;
        const struct channel *c;
        list_each (c, &r->channels, link) {
                struct timeval most = { .tv_sec = 1 }, left;
                if (c->lookups == 0)
                        continue;
                const struct timeval *next = ares_timeout(c->ares, &most, &left);
                soonest_ms =
                        MIN(soonest_ms, (uint64_t)next->tv_sec * 1000 + (uint64_t)next->tv_usec / 1000 + 1);
        }
        if (soonest_ms < UINT64_MAX)
                timer_start(r->timer, soonest_ms);
        else
                timer_stop(r->timer);
}

static void on_time(void *arg)
{
        struct resolver *r = arg;
        struct channel *c;
        list_each (c, &r->channels, link)
                ares_process_fd(c->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
        settle_timer(r);
}

static void on_ready(void *arg, unsigned events)
{
        struct server_watch *w = arg;
        struct resolver *r = w->channel->resolver;
        ares_socket_t fd = w->fd;
        ares_process_fd(w->channel->ares, events & WATCH_READ ? fd : ARES_SOCKET_BAD,
                        events & WATCH_WRITE ? fd : ARES_SOCKET_BAD);
        settle_timer(r);
}

static struct server_watch *find_watch(struct channel *c, ares_socket_t fd)
{
        struct server_watch *w;
        list_each (w, &c->watches, link) {
                if (w->fd == fd)
                        return w;
        }
        return NULL;
}

/* c-ares calls this before it closes a socket, too. */
static void on_socket(void *arg, ares_socket_t fd, int reads, int writes)
{
        struct channel *c = arg;
        struct server_watch *w = find_watch(c, fd);
        unsigned events = (reads ? WATCH_READ : 0u) | (writes ? WATCH_WRITE : 0u);
        if (w && events) {
                watch_set(w->watch, events);
        } else if (w) {
                watch_free(w->watch);
                list_remove(&w->link);
                free(w);
        } else if (events) {
                w = mem_new(struct server_watch);
                *w = (struct server_watch){ .channel = c, .fd = fd };
                if (watch_new(c->resolver->loop, fd, events, on_ready, w, &w->watch) < 0) {
                        free(w); /* the question ends by its time limit */
                        return;
                }
                list_append(&c->watches, &w->link);
        }
}

/* --- configurations ----------------------------------------------------------------------------------------------- */

static void channel_end(struct deferred *d)
{
        struct channel *c = container_of(d, struct channel, end);
        list_remove(&c->link);
        ares_destroy(c->ares);
        free(c);
}

static void channel_let_go(struct channel *c)
{
        if (c->is_old && c->lookups == 0)
                loop_defer(c->resolver->loop, &c->end);
}

static int channel_new(struct resolver *r, struct channel **ret)
{
        struct channel *c = mem_new(struct channel);
        c->resolver = r;
        list_init(&c->link);
        list_init(&c->watches);
        deferred_init(&c->end, channel_end);
        struct ares_options options = {
                /* A name is asked as it is: neither search domains nor aliases make another one of it. */
                .flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
                .timeout = TRY_MS,
                .tries = 2,
                .sock_state_cb = on_socket,
                .sock_state_cb_data = c,
        };
        int code = ares_init_options(&c->ares, &options,
                                     ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
                                             ARES_OPT_SOCK_STATE_CB);
        if (code != ARES_SUCCESS) {
                log_warn("name servers cannot be read", "why=%s",
                         log_quote(slice_from_str(ares_strerror(code))));
                free(c);
                return -EIO;
        }
        list_append(&r->channels, &c->link);
        *ret = c;
        return 0;
}

static struct timespec changed_at(void)
{
        struct stat st;
        return stat(CONFIGURATION, &st) < 0 ? (struct timespec){ 0 } : st.st_mtim;
}

/* Reads the configuration anew when its file has changed. When it cannot be read the old one stays. */
static void refresh(struct resolver *r)
{
        struct channel *c;
        struct timespec now = changed_at();
        if ((now.tv_sec == r->changed.tv_sec && now.tv_nsec == r->changed.tv_nsec) || channel_new(r, &c) < 0)
                return;
        struct channel *old = r->channel;
        r->channel = c;
        r->changed = now;
        if (old) {
                old->is_old = true;
                channel_let_go(old);
        }
}

int resolver_new(struct loop *l, struct resolver **ret)
{
        if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS)
                return -EIO;
        struct resolver *r = mem_new(struct resolver);
        r->loop = l;
        list_init(&r->channels);
        r->timer = timer_new(l, on_time, r);
        r->changed = changed_at();
        int e = channel_new(r, &r->channel);
        if (e < 0) {
                timer_free(r->timer);
                free(r);
                return e;
        }
        *ret = r;
        return 0;
}

struct resolver *resolver_free(struct resolver *r)
{
        if (!r)
                return NULL;
        struct channel *c;
        list_each (c, &r->channels, link) {
                deferred_cancel(&c->end);
                channel_end(&c->end);
        }
        timer_free(r->timer);
        free(r);
        ares_library_cleanup();
        return NULL;
}

/* --- lookers ------------------------------------------------------------------------------------------------------ */

struct looker *looker_new(void)
{
        return mem_new(struct looker);
}

static void looker_end(struct looker *l)
{
        if (l->is_gone && l->lookups == 0)
                free(l);
}

struct looker *looker_free(struct looker *l)
{
        l->is_gone = true;
        looker_end(l);
        return NULL;
}

/* --- lookups ------------------------------------------------------------------------------------------------------ */

static void lookup_end(struct lookup *l)
{
        if (l->is_held || l->fn)
                return;
        deferred_cancel(&l->tell);
        timer_free(l->timer);
        free(l->addresses);
        free(l);
}

static void on_tell(struct deferred *d)
{
        struct lookup *l = container_of(d, struct lookup, tell);
        lookup_fn fn = TAKE(l->fn);
        if (fn)
                fn(l->arg, l->addresses, l->count);
        lookup_end(l);
}

static void on_late(void *arg)
{
        struct lookup *l = arg;
        loop_defer(l->channel->resolver->loop, &l->tell);
}

static void take_addresses(struct lookup *l, const struct ares_addrinfo *found)
{
        l->addresses = mem_alloc(ADDRESSES_MAX * sizeof(l->addresses[0]));
        for (const struct ares_addrinfo_node *n = found->nodes; n; n = n->ai_next) {
                if (l->count == ADDRESSES_MAX || n->ai_addrlen > sizeof(l->addresses[0])) {
                        l->count = 0; /* what is not checked must not be reached */
                        return;
                }
                memcpy(&l->addresses[l->count++], n->ai_addr, n->ai_addrlen);
        }
}

static void on_found(void *arg, int status, UNUSED int timeouts, struct ares_addrinfo *found)
{
        struct lookup *l = arg;
        struct channel *c = l->channel;
        l->is_held = false;
        c->lookups--;
        l->looker->lookups--;
        looker_end(TAKE(l->looker));
        if (status == ARES_SUCCESS && l->fn)
                take_addresses(l, found);
        if (found)
                ares_freeaddrinfo(found);
        timer_stop(l->timer);
        loop_defer(c->resolver->loop, &l->tell);
        channel_let_go(c);
}

struct lookup *resolver_lookup(struct resolver *r, struct looker *looker, struct slice name, uint16_t port,
                               lookup_fn fn, void *arg)
{
        char text[256], service[8];
        refresh(r);
        struct lookup *l = mem_new(struct lookup);
        *l = (struct lookup){ .channel = r->channel, .fn = fn, .arg = arg };
        deferred_init(&l->tell, on_tell);
        l->timer = timer_new(r->loop, on_late, l);
        if (name.n >= sizeof(text) || slice_has_nul(name) || looker->lookups >= LIMIT_EGRESS_LOOKUPS) {
                loop_defer(r->loop, &l->tell);
                return l;
        }
        (void)snprintf(text, sizeof(text), "%.*s", SLICE(name));
        (void)snprintf(service, sizeof(service), "%u", port);
        timer_start(l->timer, LIMIT_EGRESS_RESOLVE_MS);
        l->is_held = true;
        r->channel->lookups++;
        l->looker = looker;
        looker->lookups++;
        struct ares_addrinfo_hints hints = { .ai_family = AF_UNSPEC,
                                             .ai_socktype = SOCK_STREAM,
                                             .ai_flags = ARES_AI_NUMERICSERV };
        ares_getaddrinfo(r->channel->ares, text, service, &hints, on_found, l);
        settle_timer(r);
        return l;
}

struct lookup *lookup_cancel(struct lookup *l)
{
        if (!l)
                return NULL;
        l->fn = NULL;
        timer_stop(l->timer);
        lookup_end(l);
        return NULL;
}
