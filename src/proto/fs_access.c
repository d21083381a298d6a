/* fs_access: decodes the params of fs/checkAccess. */
#include "base/mem.h"
#include "proto/fs.h"

static void decode_wish(struct decoder *outer, const struct json *value, struct fs_access_wish *ret)
{
        static const char *const words[] = {
                [FS_ACCESS_READ] = "read", [FS_ACCESS_WRITE] = "write", [FS_ACCESS_REMOVE] = "remove"
        };
        struct decoder d;
        size_t access = 0;

        decode_begin_inside(&d, outer, value, "FsAccess");
        decode_own_members(&d);
        decode_file_path(&d, "path", &ret->path);
        decode_variant(&d, "access", words, ARRAY_LEN(words), &access);
        ret->access = (enum fs_access)access;
        decode_end_inside(outer, &d);
}

/* Reads a list. With ret NULL it is only checked. */
static void decode_wishes(struct decoder *d, const struct json *list, struct fs_access_wish **ret,
                          size_t *ret_count)
{
        size_t count = json_count(d->doc, list), n = 0;
        if (count > FS_ACCESS_MAX) {
                decode_fail(d, "paths: at most %d", FS_ACCESS_MAX);
                return;
        }
        struct fs_access_wish *wishes = ret ? arena_zalloc(d->arena, (count + 1) * sizeof(*wishes)) : NULL;
        json_each (it, d->doc, list) {
                struct fs_access_wish one = { 0 };
                decode_wish(d, it, &one);
                if (d->has_failed)
                        return;
                if (ret)
                        wishes[n++] = one;
        }
        if (ret) {
                *ret = wishes;
                *ret_count = n;
        }
}

int fs_access_wishes(struct arena *a, const struct json_doc *doc, struct fs_access_wish **ret,
                     size_t *ret_count, struct err *err)
{
        struct decoder d = { .arena = a, .doc = doc, .object = json_root(doc), .err = err };
        if (json_root(doc)->type != JSON_ARRAY)
                decode_fail(&d, "paths: expected a list");
        else
                decode_wishes(&d, json_root(doc), ret, ret_count);
        return decode_end(&d);
}

int fs_check_access_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                           struct err *err)
{
        struct fs_check_access *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "FsCheckAccessParams", err);
        decode_own_members(&d);
        const struct json *list = decode_array(&d, "paths");
        if (list) {
                decode_wishes(&d, list, NULL, NULL);
                in->list = json_raw(doc, list);
        }
        decode_file_sandbox(&d, &in->sandbox);
        return decode_end(&d);
}
