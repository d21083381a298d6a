/* write_file: replaces the content of a file by one request, also under a condition. */
#include "question/question.h"

#include "base/base64.h"
#include "client/error.h"
#include "client/member.h"

#include <errno.h>

/* Checks what the server would refuse, and what another server would ignore: a condition that is ignored would overwrite what it
 * is to protect. */
static int check(struct farhand *f, const struct farhand_write *o, size_t n, struct farhand_error *ret_error)
{
        int conditions = o->if_absent + (o->if_digest != NULL) + o->if_unchanged;
        if (n > WHOLE_FILE_MAX)
                return error_set(ret_error, -EFBIG, "the content is longer than %zu bytes", WHOLE_FILE_MAX);
        if (conditions > 1)
                return error_set(ret_error, -EINVAL, "a write has at most one condition");
        if (conditions > 0)
                return question_needs(f, "fsControlV1", "this server has no conditional writes", ret_error);
        return o->with_parents ? question_needs(f, "fsControlV1",
                                                "this server does not make directories for a file", ret_error)
                               : 0;
}

static void write_condition(struct jsonw *w, const struct farhand_write *o)
{
        if (!o->if_absent && !o->if_digest && !o->if_unchanged)
                return;
        jsonw_key(w, "ifMatch");
        jsonw_object(w);
        if (o->if_absent) {
                jsonw_member_bool(w, "absent", true);
        } else if (o->if_digest) {
                jsonw_member_str(w, "digest", o->if_digest);
        } else {
                jsonw_member_u64(w, "size", o->if_size);
                jsonw_member_i64(w, "modifiedAtMs", o->if_modified_ms);
        }
        jsonw_object_end(w);
}

int farhand_write_file_with(struct farhand *f, const char *path, const void *bytes, size_t n,
                            const struct farhand_write *options, struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        struct farhand_write o = FARHAND_WRITE_INIT;
        if (options && options->size < offsetof(struct farhand_write, mode) + sizeof(o.mode))
                return error_set(ret_error, -EINVAL,
                                 "struct farhand_write has no size: use FARHAND_WRITE_INIT");
        if (options)
                memcpy(&o, options, MIN(options->size, sizeof(o)));
        int r = check(f, &o, n, ret_error);
        if (r < 0)
                return r;
        question_begin_file(&q, f, "fs/writeFile", 0);
        question_make_room(&q, base64_encoded_size(n));
        r = question_path(&q, "path", path, ret_error);
        jsonw_key(&q.w, "dataBase64");
        jsonw_base64(&q.w, slice_from(bytes, n));
        if (o.mode >= 0)
                jsonw_member_i64(&q.w, "mode", o.mode);
        if (o.with_parents)
                jsonw_member_bool(&q.w, "createParents", true);
        if (o.in_place)
                jsonw_member_bool(&q.w, "atomic", false);
        if (o.no_links)
                jsonw_member_bool(&q.w, "followSymlinks", false);
        write_condition(&q.w, &o);
        r = r < 0 ? r : question_ask(&q, ret_error);
        if (r < 0)
                return r;
        if (o.ret_size && !member_u64(&q.doc, question_root(&q), S("size"), o.ret_size))
                *o.ret_size = UINT64_MAX;
        if (o.ret_modified_ms && !member_i64(&q.doc, question_root(&q), S("modifiedAtMs"), o.ret_modified_ms))
                *o.ret_modified_ms = -1;
        return 0;
}

int farhand_write_file(struct farhand *f, const char *path, const void *bytes, size_t n, int mode,
                       struct farhand_error *ret_error)
{
        struct farhand_write o = FARHAND_WRITE_INIT;
        o.mode = mode;
        return farhand_write_file_with(f, path, bytes, n, &o, ret_error);
}
