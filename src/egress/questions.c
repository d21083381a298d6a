/* questions: asks the server, and passes its answers to those who wait. */
#include "egress/questions.h"

#include "base/clock.h"
#include "base/mem.h"
#include "wire/egressmsg.h"

#include <errno.h>

struct question {
        struct slice key;
        uint32_t id;
        struct list waiters; /* waiter::link */
};

struct remembered {
        struct list link; /* network::remembered */
        char *key;
        enum net_action action;
        char *reason;
        uint64_t until_ms; /* in the time of clock_mono_ms; UINT64_MAX: as long as the network */
};

static char *key_of(const struct net_target *t)
{
        return mem_printf("%u %u %.*s", (unsigned)t->protocol, t->port, SLICE(t->host));
}

/* --- what is remembered ------------------------------------------------------------------------------------------- */

static void forget(struct network *n, struct remembered *m)
{
        list_remove(&m->link);
        n->remembered_count--;
        free(m->key);
        free(m->reason);
        free(m);
}

static struct remembered *find_remembered(struct network *n, const char *key)
{
        uint64_t now_ms = clock_mono_ms();
        struct remembered *m;
        list_each (m, &n->remembered, link) {
                if (strcmp(m->key, key) != 0)
                        continue;
                if (m->until_ms > now_ms)
                        return m;
                forget(n, m);
                return NULL;
        }
        return NULL;
}

static void remember(struct network *n, struct slice key, const struct answer *a, uint32_t ttl_ms)
{
        _free_ char *text = slice_dup(key);
        struct remembered *m = find_remembered(n, text);
        if (m)
                forget(n, m);
        if (n->remembered_count == LIMIT_EGRESS_REMEMBERED)
                forget(n, list_first(&n->remembered, struct remembered, link));
        m = mem_new(struct remembered);
        m->key = TAKE(text);
        m->action = a->action;
        m->reason = slice_dup(a->reason);
        m->until_ms = ttl_ms > 0 ? clock_mono_ms() + ttl_ms : UINT64_MAX;
        list_append(&n->remembered, &m->link);
        n->remembered_count++;
}

bool questions_recall(struct network *n, const struct net_target *t, struct answer *ret)
{
        if (n->remembered_count == 0)
                return false;
        _free_ char *key = key_of(t);
        const struct remembered *m = find_remembered(n, key);
        if (!m)
                return false;
        *ret = (struct answer){ .action = m->action, .reason = slice_from_str(m->reason) };
        return true;
}

/* --- open questions ----------------------------------------------------------------------------------------------- */

static struct question *find_id(struct network *n, uint32_t id)
{
        struct question *q;
        size_t pos = 0;
        while ((q = map_next(&n->questions, &pos)))
                if (q->id == id)
                        return q;
        return NULL;
}

static uint32_t unused_id(struct network *n)
{
        do
                n->last_question++;
        while (n->last_question == 0 || find_id(n, n->last_question));
        return n->last_question;
}

static void question_free(struct network *n, struct question *q)
{
        (void)map_remove(&n->questions, q->key);
        free((void *)(uintptr_t)q->key.p);
        free(q);
}

static void send_question(struct network *n, const struct question *q, const struct net_target *t)
{
        struct egressmsg_ask m = {
                .question = q->id, .protocol = (uint8_t)t->protocol, .port = t->port, .host = t->host
        };
        _buf_ struct buf out = BUF_INIT(EGRESSMSG_MAX);
        must(egressmsg_ask_write(&out, n->id, &m) == 0);
        link_send(&n->egress->link, buf_slice(&out));
}

int questions_ask(struct network *n, const struct net_target *t, struct waiter *w)
{
        _free_ char *key = key_of(t);
        struct question *q = map_find(&n->questions, slice_from_str(key));
        if (!q) {
                if (map_count(&n->questions) >= LIMIT_EGRESS_QUESTIONS)
                        return -ENOBUFS;
                q = mem_new(struct question);
                q->id = unused_id(n);
                list_init(&q->waiters);
                q->key = slice_from_str(TAKE(key));
                map_put(&n->questions, q->key, q);
                send_question(n, q, t);
        }
        w->question = q;
        list_append(&q->waiters, &w->link);
        return 0;
}

void question_leave(struct network *n, struct waiter *w)
{
        struct question *q = TAKE(w->question);
        if (list_is_linked(&w->link))
                list_remove(&w->link);
        if (!q)
                return;
        if (!list_is_empty(&q->waiters))
                return;
        _buf_ struct buf out = BUF_INIT(EGRESSMSG_MAX);
        must(egressmsg_withdrawn_write(&out, n->id, q->id) == 0);
        link_send(&n->egress->link, buf_slice(&out));
        question_free(n, q);
}

void questions_answer(struct network *n, uint32_t id, const struct answer *a, bool is_remembered,
                      uint32_t ttl_ms)
{
        struct question *q = find_id(n, id);
        if (!q)
                return;
        if (is_remembered && a->action != NET_ASK)
                remember(n, q->key, a, ttl_ms);
        /* Whoever is told may ask the same again, and that is a new question. */
        struct list waiters = LIST_INIT(waiters);
        struct waiter *w;
        while ((w = list_first(&q->waiters, struct waiter, link))) {
                list_remove(&w->link);
                list_append(&waiters, &w->link);
                w->question = NULL;
        }
        question_free(n, q);
        while ((w = list_first(&waiters, struct waiter, link))) {
                list_remove(&w->link);
                w->fn(w, a);
        }
}

void questions_release(struct network *n)
{
        struct remembered *m;
        must(map_count(&n->questions) == 0);
        map_release(&n->questions);
        while ((m = list_first(&n->remembered, struct remembered, link)))
                forget(n, m);
}
