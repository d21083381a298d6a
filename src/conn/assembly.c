/* assembly: grants shares of the memory for large messages, in the order in which they are asked for. */
#include "conn/assembly.h"

#include "base/limits.h"
#include "base/mem.h"

/* Grants `bytes` to a share when there is memory. Holders that need more must not wait for each other for ever. So one holder at a
 * time may exceed the total, up to the limit of its message; when that message is complete, the next holder may. */
static bool try_grant(struct assembly *a, struct assembly_share *share, uint64_t bytes)
{
        uint64_t more = bytes - share->bytes;
        if (a->used + more > LIMIT_ASSEMBLY_TOTAL_BYTES) {
                bool may_exceed = share->bytes > 0 || a->used == 0;
                if (!may_exceed || (a->exceeding && a->exceeding != share))
                        return false;
                a->exceeding = share;
        }
        a->used += more;
        share->bytes = bytes;
        list_remove(&share->link);
        list_append(&a->holding, &share->link);
        return true;
}

/* Closes slow holders at the end of a window of time, while a connection waits for memory: those that held a share during the
 * whole window and received less than LIMIT_ASSEMBLY_MIN_BYTES in it. */
static void on_window(void *arg)
{
        struct assembly *a = arg;
        uint64_t window = a->window++;
        if (list_is_empty(&a->waiting))
                return;
        struct assembly_share *share;
        list_each (share, &a->holding, link) {
                bool is_slow =
                        !share->is_whole && share->since < window && share->seen < LIMIT_ASSEMBLY_MIN_BYTES;
                share->seen = 0;
                if (is_slow)
                        share->too_slow(share);
        }
        timer_start(a->timer, LIMIT_ASSEMBLY_WINDOW_MS);
}

static void wait_for_share(struct assembly *a, struct assembly_share *share, uint64_t bytes)
{
        if (list_is_empty(&a->waiting)) {
                if (!a->timer)
                        a->timer = timer_new(a->loop, on_window, a);
                a->window++;
                struct assembly_share *holder;
                list_each (holder, &a->holding, link)
                        holder->seen = 0;
                timer_start(a->timer, LIMIT_ASSEMBLY_WINDOW_MS);
        }
        list_remove(&share->link);
        list_append(&a->waiting, &share->link);
        share->wanted = bytes;
}

bool assembly_claim(struct assembly *a, struct assembly_share *share, uint64_t bytes)
{
        if (share->bytes >= bytes)
                return true;
        if (share->bytes == 0) {
                share->seen = 0;
                share->since = a->window;
                share->is_whole = false;
        }
        /* A message that has a share goes before a new message, because only complete messages give memory back. */
        bool may_ask = list_is_empty(&a->waiting) || share->bytes > 0;
        if (may_ask && try_grant(a, share, bytes))
                return true;
        wait_for_share(a, share, bytes);
        return false;
}

bool assembly_try(struct assembly *a, struct assembly_share *share, uint64_t bytes)
{
        must(share->bytes == 0);
        if (!list_is_empty(&a->waiting) || bytes > LIMIT_ASSEMBLY_TOTAL_BYTES ||
            a->used > LIMIT_ASSEMBLY_TOTAL_BYTES - bytes)
                return false;
        return assembly_claim(a, share, bytes);
}

/* Grants the first waiting share that fits now. Returns false when none does. */
static bool grant_next(struct assembly *a)
{
        struct assembly_share *share;
        list_each (share, &a->waiting, link) {
                if (try_grant(a, share, share->wanted)) {
                        share->seen = 0;
                        share->since = a->window;
                        share->granted(share);
                        return true;
                }
        }
        return false;
}

void assembly_release(struct assembly *a, struct assembly_share *share)
{
        list_remove(&share->link);
        if (share->bytes == 0)
                return;
        if (a->exceeding == share)
                a->exceeding = NULL;
        a->used -= share->bytes;
        share->bytes = 0;
        while (grant_next(a))
                ;
}

void assembly_share_init(struct assembly_share *share, void (*granted)(struct assembly_share *share),
                         void (*too_slow)(struct assembly_share *share))
{
        *share = (struct assembly_share){ .granted = granted, .too_slow = too_slow };
        list_init(&share->link);
}

void assembly_init(struct assembly *a, struct loop *loop)
{
        *a = (struct assembly){ .loop = loop };
        list_init(&a->waiting);
        list_init(&a->holding);
}

void assembly_end(struct assembly *a)
{
        a->timer = timer_free(a->timer);
}
