/* refusals: counts refusals of each kind, and decides which of them are logged. */
#include "conn/refusals.h"

#include "base/limits.h"
#include "base/log.h"

static const struct kind {
        const char *event;
        unsigned logged_max;
        uint64_t span_ms;
} kinds[] = {
        [REFUSAL_ACCEPT] = { "cannot accept", 1, LIMIT_ACCEPT_FAILURES_MS },
        [REFUSAL_CONNECTION] = { "connection refused", LIMIT_REFUSALS_LOGGED, LIMIT_REFUSALS_MS },
        [REFUSAL_PEER] = { "peer refused", LIMIT_REFUSALS_LOGGED, LIMIT_REFUSALS_MS },
        [REFUSAL_UPGRADE] = { "upgrade refused", LIMIT_REFUSALS_LOGGED, LIMIT_REFUSALS_MS },
};

static void log_more(struct refusal_count *c)
{
        if (c->more > 0)
                log_warn(kinds[c->kind].event, "more=%u", c->more);
        c->logged = c->more = 0;
}

static void on_end(void *arg)
{
        log_more(arg);
}

void refusals_init(struct refusals *r, struct loop *loop)
{
        *r = (struct refusals){ 0 };
        for (size_t i = 0; i < REFUSAL_KINDS; i++) {
                r->counts[i].kind = (enum refusal)i;
                r->counts[i].end = timer_new(loop, on_end, &r->counts[i]);
        }
}

void refusals_release(struct refusals *r)
{
        for (size_t i = 0; i < REFUSAL_KINDS; i++) {
                log_more(&r->counts[i]);
                r->counts[i].end = timer_free(r->counts[i].end);
        }
}

bool refusal_must_log(struct refusals *r, enum refusal kind)
{
        struct refusal_count *c = &r->counts[kind];

        if (c->logged == 0 && c->more == 0)
                timer_start(c->end, kinds[kind].span_ms);
        if (c->logged < kinds[kind].logged_max) {
                c->logged++;
                return true;
        }
        c->more++;
        return false;
}

const char *refusal_event(enum refusal kind)
{
        return kinds[kind].event;
}
