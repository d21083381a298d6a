/* result: frees results, and writes their denials. */
#include "patch/result.h"

#include "base/limits.h"
#include "base/mem.h"

#define DENIALS_BYTES ((size_t)512 * 1024) /* once so many bytes are written, no further denial is */

void patch_result_release(struct patch_result *r)
{
        arena_release(&r->arena);
}

static void write_denial(struct jsonw *w, const struct denial *d, const struct farhand *f)
{
        _free_ char *path = f ? farhand_path_json(f, d->path) : NULL;
        jsonw_object(w);
        jsonw_member_str(w, "operation", d->operation);
        if (path) {
                jsonw_key(w, "path");
                jsonw_raw(w, slice_from_str(path));
        } else {
                jsonw_member_str(w, "path", d->path);
        }
        jsonw_member_str(w, "rule", d->rule);
        if (d->entry)
                jsonw_member_str(w, "entry", d->entry);
        jsonw_member_str(w, "source", "server");
        jsonw_object_end(w);
}

char *patch_denials_json(const struct patch_result *r, const struct farhand *f, size_t *ret_omitted)
{
        _buf_ struct buf out = BUF_INIT(LIMIT_APPROVAL_TEXT_BYTES);
        struct jsonw w;
        size_t n = 0;
        jsonw_begin(&w, &out);
        jsonw_array(&w);
        for (; n < r->denial_count && out.n < DENIALS_BYTES; n++)
                write_denial(&w, r->denials[n], f);
        jsonw_array_end(&w);
        bool fits = jsonw_end(&w) == 0;
        *ret_omitted = r->denied_count - (fits ? n : 0);
        return fits ? buf_take(&out) : NULL;
}
