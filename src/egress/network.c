/* network: keeps the members of a network, and reports to the server what was decided and what has ended.
 *
 * A command can make any number of connections in a second. Of their decisions some are reported at once; the others are counted, those
 * that are alike together, and reported at the end of the second.
 */
#include "egress/network.h"

#include "base/clock.h"
#include "base/mem.h"
#include "egress/resolver.h"
#include "wire/egressmsg.h"

/* Decisions that are alike; the last one of a full list counts all that found no room. */
struct decided_sum {
        char *key;
        uint32_t count;
        struct egressmsg_decided m;
        char *host, *reason, *method, *client; /* what `m` points at */
};

static void send_decided(struct network *n, const struct egressmsg_decided *m)
{
        _buf_ struct buf out = BUF_INIT(EGRESSMSG_MAX);
        must(egressmsg_decided_write(&out, n->id, m) == 0);
        /* The program that is refused may end as soon as it hears of it; the server is to know why before. */
        if (m->action == NET_ALLOW)
                link_send_later(&n->egress->link, buf_slice(&out));
        else
                link_send_now(&n->egress->link, buf_slice(&out));
}

static void sum_release(struct decided_sum *s)
{
        free(s->key);
        free(s->host);
        free(s->reason);
        free(s->method);
        free(s->client);
}

static void flush_sums(struct network *n)
{
        for (size_t i = 0; i < n->sum_count; i++) {
                struct decided_sum *s = &n->sums[i];
                s->m.count = s->count;
                send_decided(n, &s->m);
                sum_release(s);
        }
        free(TAKE(n->sums));
        n->sum_count = 0;
}

static void on_second(void *arg)
{
        struct network *n = arg;
        bool was_busy = n->decided > 0;
        n->decided = 0;
        flush_sums(n);
        if (was_busy)
                timer_start(n->second, 1000);
}

static void sum_up(struct network *n, const struct egressmsg_decided *m)
{
        _free_ char *key =
                mem_printf("%u %u %u %u %u %u %.*s %.*s %.*s", m->action, m->source, m->protocol, m->is_guard,
                           m->is_override, m->port, SLICE(m->host), SLICE(m->reason), SLICE(m->method));
        if (!n->sums)
                n->sums = mem_zalloc(LIMIT_EGRESS_DECIDED_SUMS * sizeof(*n->sums));
        for (size_t i = 0; i < n->sum_count; i++) {
                struct decided_sum *s = &n->sums[i];
                bool is_rest = i + 1 == LIMIT_EGRESS_DECIDED_SUMS;
                if (is_rest && strcmp(s->key, key) != 0) {
                        s->m.host = S("*");
                        s->m.port = 0;
                }
                if (is_rest || strcmp(s->key, key) == 0) {
                        s->count++;
                        return;
                }
        }
        struct decided_sum *s = &n->sums[n->sum_count++];
        *s = (struct decided_sum){ .key = TAKE(key), .count = 1, .m = *m };
        s->m.host = slice_from_str(s->host = slice_dup(m->host));
        s->m.reason = slice_from_str(s->reason = slice_dup(m->reason));
        s->m.method = slice_from_str(s->method = slice_dup(m->method));
        s->m.client = slice_from_str(s->client = slice_dup(m->client));
}

void network_decided(struct network *n, const struct decision *d)
{
        const struct net_target *t = d->target;
        bool has_method = t->protocol == NET_HTTP || t->protocol == NET_HTTPS_CONNECT;
        struct egressmsg_decided m = {
                .count = 1,
                .time_ms = (uint64_t)clock_unix_ms(),
                .action = (uint8_t)d->action,
                .source = (uint8_t)d->source,
                .protocol = (uint8_t)t->protocol,
                .is_guard = d->is_guard,
                .is_override = d->is_override,
                .has_method = has_method,
                .port = t->port,
                .reason = d->reason,
                .host = t->host,
                .method = has_method ? t->method : S(""),
                .client = d->client,
        };
        if (n->decided == 0)
                timer_start(n->second, 1000);
        if (n->decided < LIMIT_EGRESS_DECIDED && !link_is_full(&n->egress->link))
                send_decided(n, &m);
        else
                sum_up(n, &m);
        n->decided++;
}

void network_ended(struct network *n, const struct ending *e)
{
        struct egressmsg_ended m = {
                .protocol = (uint8_t)e->target->protocol,
                .port = e->target->port,
                .action = (uint8_t)e->action,
                .host = e->target->host,
                .address = e->address,
                .rule = e->rule,
                .reason = e->reason,
                .bytes_up = e->bytes_up,
                .bytes_down = e->bytes_down,
                .time_ms = e->time_ms,
                .took_ms = e->took_ms,
        };
        _buf_ struct buf out = BUF_INIT(EGRESSMSG_MAX);
        must(egressmsg_ended_write(&out, n->id, &m) == 0);
        link_send_later(&n->egress->link, buf_slice(&out));
}

void network_init(struct network *n, struct egress *e, uint32_t id)
{
        *n = (struct network){ .egress = e, .id = id };
        list_init(&n->members);
        list_init(&n->remembered);
        map_init(&n->questions);
        n->looker = looker_new();
        n->second = timer_new(&e->loop, on_second, n);
}

void network_release(struct network *n)
{
        must(n->member_count == 0);
        flush_sums(n);
        n->second = timer_free(n->second);
        n->looker = looker_free(n->looker);
        arena_release(&n->arena);
}

void network_add(struct network *n, struct member *m)
{
        list_append(&n->members, &m->link);
        n->member_count++;
}

void network_remove(struct network *n, struct member *m)
{
        if (!list_is_linked(&m->link))
                return;
        list_remove(&m->link);
        n->member_count--;
        if (n->on_room)
                n->on_room(n);
}

void network_resume(struct network *n)
{
        struct member *m;
        list_each (m, &n->members, link)
                m->resume(m);
}
