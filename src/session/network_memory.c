/* network_memory: a short list of answers about connections. */
#include "session/network_memory.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"

struct remembered {
        struct list link; /* network_memory::list */
        uint8_t protocol;
        uint16_t port;
        char *host, *reason;
        size_t host_n, reason_n;
        bool is_allowed;
        uint64_t until_ms;
};

void network_memory_init(struct network_memory *m)
{
        list_init(&m->list);
        m->count = 0;
}

static void forget(struct network_memory *m, struct remembered *r)
{
        list_remove(&r->link);
        m->count--;
        free(r->host);
        free(r->reason);
        free(r);
}

void network_memory_release(struct network_memory *m)
{
        struct remembered *r;
        while ((r = list_first(&m->list, struct remembered, link)))
                forget(m, r);
}

static struct remembered *find(struct network_memory *m, const struct network_question_target *t)
{
        struct remembered *r;
        uint64_t now_ms = clock_mono_ms();
        list_each (r, &m->list, link) {
                if (r->until_ms != 0 && r->until_ms <= now_ms)
                        forget(m, r);
                else if (r->protocol == t->protocol && r->port == t->port &&
                         slice_eq(slice_from(r->host, r->host_n), t->host))
                        return r;
        }
        return NULL;
}

bool network_memory_find(struct network_memory *m, const struct network_question_target *t,
                         struct network_answer *ret)
{
        const struct remembered *r = find(m, t);
        if (r)
                *ret = (struct network_answer){ .is_allowed = r->is_allowed,
                                                .reason = slice_from(r->reason, r->reason_n),
                                                .until_ms = r->until_ms };
        return r != NULL;
}

void network_memory_put(struct network_memory *m, const struct network_question_target *t,
                        const struct network_answer *a)
{
        struct remembered *r = find(m, t);
        if (r)
                forget(m, r);
        if (m->count >= LIMIT_NET_REMEMBERED)
                forget(m, list_first(&m->list, struct remembered, link));
        r = mem_new(struct remembered);
        *r = (struct remembered){ .protocol = t->protocol,
                                  .port = t->port,
                                  .host = slice_dup(t->host),
                                  .host_n = t->host.n,
                                  .reason = slice_dup(a->reason),
                                  .reason_n = a->reason.n,
                                  .is_allowed = a->is_allowed,
                                  .until_ms = a->until_ms };
        list_append(&m->list, &r->link);
        m->count++;
}
