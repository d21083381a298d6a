/* collect: keeps the output of a process for a program that takes the output now and then, and not as it comes. */
#include "client/client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "client/error.h"

#include <errno.h>

#define COLLECT_USUAL ((size_t)1024 * 1024)
#define COLLECT_MAX ((size_t)1024 * 1024 * 1024)
#define DRAIN_MS 50 /* how long a yield waits for the end of the output of a process that has exited */

int farhand_process_collect(struct farhand_process *p, size_t cap_bytes, struct farhand_error *ret_error)
{
        if (cap_bytes > COLLECT_MAX)
                return error_set(ret_error, -EINVAL, "at most %zu bytes of output are collected",
                                 COLLECT_MAX);
        if (p->kept)
                return error_set(ret_error, -EALREADY, "the output of process %s is collected already",
                                 p->id);
        p->kept = mem_new(struct head_tail);
        head_tail_init(p->kept, cap_bytes ? cap_bytes : COLLECT_USUAL);
        return 0;
}

int farhand_process_take(struct farhand_process *p, struct farhand_taken *ret,
                         struct farhand_error *ret_error)
{
        if (!p->kept)
                return error_set(ret_error, -EINVAL, "the output of process %s is not collected", p->id);
        *ret = (struct farhand_taken){ 0 };
        ret->bytes = head_tail_take(p->kept, &ret->n, &ret->head_bytes, &ret->omitted_bytes);
        return 0;
}

int farhand_process_yield(struct farhand_process *p, int yield_ms, struct farhand_taken *ret,
                          struct farhand_error *ret_error)
{
        uint64_t end = client_wait_end(yield_ms);
        bool is_draining = false;
        if (!p->kept)
                return error_set(ret_error, -EINVAL, "the output of process %s is not collected", p->id);
        while (p->state != PROCESS_OVER) {
                if (p->has_exited && !is_draining) {
                        is_draining = true;
                        end = MIN(end, clock_mono_ms() + DRAIN_MS);
                }
                int r = client_wait_until(p->client, end, ret_error);
                if (r < 0 && p->state != PROCESS_OVER)
                        return r;
                /* When the process exits in the last moment of the wait, its last output may follow at once, so that is awaited a
                 * little longer. */
                if (r == 0 && (is_draining || !p->has_exited))
                        break;
        }
        struct farhand_taken taken;
        (void)farhand_process_take(p, &taken, NULL);
        if (p->has_failed && taken.n == 0 && taken.omitted_bytes == 0) {
                free(taken.bytes);
                return error_copy(ret_error, &p->failure);
        }
        *ret = taken;
        return p->state != PROCESS_OVER && !p->has_exited;
}
