/* watch_kept: the list of events that are kept during passes. */
#include "watch/watch_kept.h"

#include "base/limits.h"
#include "base/mem.h"

void watch_kept_init(struct watch_kept *k)
{
        *k = (struct watch_kept){ 0 };
        list_init(&k->events);
}

static void drop(struct watch_kept *k, struct watch_kept_event *e)
{
        list_remove(&e->link);
        k->bytes -= sizeof(*e) + e->name_n;
        free(e);
}

void watch_kept_add(struct watch_kept *k, uint64_t seq, int wd, const struct watch_event *ev)
{
        struct watch_kept_event *e = mem_alloc(sizeof(*e) + ev->name.n);
        *e = (struct watch_kept_event){
                .seq = seq, .wd = wd, .mask = ev->mask, .cookie = ev->cookie, .name_n = ev->name.n
        };
        if (ev->name.n > 0)
                memcpy(e->name, ev->name.p, ev->name.n);
        list_append(&k->events, &e->link);
        k->bytes += sizeof(*e) + e->name_n;
        while (k->bytes > LIMIT_WATCH_KEPT_BYTES) {
                struct watch_kept_event *oldest = list_first(&k->events, struct watch_kept_event, link);
                k->lost_seq = oldest->seq;
                drop(k, oldest);
        }
}

void watch_kept_forget(struct watch_kept *k, uint64_t up_to_seq)
{
        struct watch_kept_event *e;
        while ((e = list_first(&k->events, struct watch_kept_event, link)) && e->seq <= up_to_seq)
                drop(k, e);
}
