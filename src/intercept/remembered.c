/* remembered: a map from what was asked about to the answer (remembered.h). */
#include "intercept/remembered.h"

#include "base/buf.h"
#include "base/limits.h"
#include "base/mem.h"

struct entry {
        enum intercept_action action;
        bool has_reason;
        size_t key_bytes, reason_bytes;
        char text[]; /* the key, then the reason */
};

/* No member contains a NUL, so different executions have different keys. */
static int key_make(struct buf *key, const struct intercept_exec *exec)
{
        int r = buf_append(key, exec->file);
        if (r == 0)
                r = buf_append_char(key, 0);
        if (r == 0)
                r = buf_append(key, exec->cwd);
        for (size_t i = 0; r == 0 && i < exec->argc; i++)
                if ((r = buf_append_char(key, 0)) == 0)
                        r = buf_append(key, exec->argv[i]);
        return r;
}

void remembered_init(struct remembered *r)
{
        map_init(&r->answers);
        r->bytes = 0;
}

void remembered_release(struct remembered *r)
{
        size_t at = 0;
        for (void *e; (e = map_next(&r->answers, &at));)
                free(e);
        map_release(&r->answers);
}

bool remembered_find(const struct remembered *r, const struct intercept_exec *exec,
                     struct remembered_answer *ret)
{
        _buf_ struct buf key = BUF_INIT(LIMIT_INTERCEPT_REMEMBERED_BYTES);
        if (map_count(&r->answers) == 0 || key_make(&key, exec) < 0)
                return false;
        const struct entry *e = map_find(&r->answers, buf_slice(&key));
        if (!e)
                return false;
        *ret = (struct remembered_answer){ .action = e->action };
        if (e->has_reason)
                ret->reason = slice_from(e->text + e->key_bytes, e->reason_bytes);
        return true;
}

void remembered_put(struct remembered *r, const struct intercept_exec *exec,
                    const struct remembered_answer *answer)
{
        _buf_ struct buf key = BUF_INIT(LIMIT_INTERCEPT_REMEMBERED_BYTES);
        if (map_count(&r->answers) == LIMIT_INTERCEPT_REMEMBERED || key_make(&key, exec) < 0)
                return;
        size_t bytes = key.n + answer->reason.n;
        if (bytes > LIMIT_INTERCEPT_REMEMBERED_BYTES - r->bytes || map_find(&r->answers, buf_slice(&key)))
                return;
        struct entry *e = mem_alloc(sizeof(*e) + bytes);
        *e = (struct entry){ .action = answer->action,
                             .has_reason = answer->reason.p != NULL,
                             .key_bytes = key.n,
                             .reason_bytes = answer->reason.n };
        memcpy(e->text, key.p, key.n);
        if (answer->reason.n > 0)
                memcpy(e->text + key.n, answer->reason.p, answer->reason.n);
        map_put(&r->answers, slice_from(e->text, e->key_bytes), e);
        r->bytes += bytes;
}
