/* watch: decodes the params of fs/watch, fs/unwatch and fs/watchMissing. */
#include "proto/watch.h"

#include "base/uri.h"
#include "proto/fs.h"

static void decode_watch_id(struct decoder *d, struct slice *ret)
{
        decode_string(d, "watchId", ret);
        if (!d->has_failed && (ret->n == 0 || ret->n > WATCH_ID_BYTES || slice_has_nul(*ret)))
                decode_fail(d, "watchId must have 1 to %d bytes, none of them zero", WATCH_ID_BYTES);
}

int fs_watch_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                    struct err *err)
{
        struct fs_watch *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "FsWatchParams", err);
        decode_own_members(&d);
        decode_watch_id(&d, &in->watch_id);
        decode_file_path(&d, "path", &in->path);
        decode_optional_bool(&d, "recursive", &in->is_recursive);
        decode_file_sandbox(&d, &in->sandbox);
        return decode_end(&d);
}

int fs_unwatch_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                      struct err *err)
{
        struct fs_unwatch *in = ret;
        const struct sandbox_context *unused;
        struct decoder d;

        decode_begin(&d, a, doc, params, "FsUnwatchParams", err);
        decode_own_members(&d);
        decode_watch_id(&d, &in->watch_id);
        decode_file_sandbox(&d, &unused); /* only checked: a watch may be ended under any profile */
        return decode_end(&d);
}

/* --- watchMissing ------------------------------------------------------------------------------------------------- */

/* Decodes a path to watch. A path of another host is no error here: the answer says that nothing is watched. */
static void decode_watched_path(struct decoder *d, const struct json *v, bool *ret_is_foreign,
                                struct slice *ret)
{
        struct slice detail;

        if (!d->has_failed && v->type == JSON_STRING &&
            uri_to_path(d->arena, json_string(d->arena, d->doc, v), ret, &detail) == URI_FOREIGN)
                *ret_is_foreign = true;
        else
                decode_path_value(d, v, NULL, ret);
}

int fs_watch_missing_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                            struct err *err)
{
        struct fs_watch_missing *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "FsWatchMissingParams", err);
        const struct json *id = decode_required(&d, "watchId");
        if (id)
                decode_u64_value(&d, id, &in->watch_id);
        const struct json *list = decode_array(&d, "missing");
        if (list && !d.has_failed) {
                size_t max = (size_t)(doc->tokens + list->end - (list + 1));
                in->missing = arena_zalloc(a, MAX(max, (size_t)1) * sizeof(*in->missing));
                json_each (it, doc, list)
                        decode_watched_path(&d, it, &in->is_foreign, &in->missing[in->missing_count++]);
        }
        const struct json *present = decode_peek(&d, "present");
        if (present)
                decode_watched_path(&d, present, &in->is_foreign, &in->present);
        decode_own_members(&d);
        decode_file_sandbox(&d, &in->sandbox);
        return decode_end(&d);
}
