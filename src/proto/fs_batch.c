/* fs_batch: decodes the params of the file methods that work on many files at once, or on parts of one. */
#include "base/mem.h"
#include "proto/fs.h"

#include <errno.h>
#include <limits.h>

/* Checks that a name is one name in a directory, which leads to no other directory. */
static void check_name(struct decoder *d, const char *key, struct slice name)
{
        if (d->has_failed)
                return;
        if (name.n == 0 || name.n > NAME_MAX || slice_has_nul(name) || memchr(name.p, '/', name.n) ||
            slice_eq(name, S(".")) || slice_eq(name, S("..")))
                decode_fail(d, "%s: expected one name of a file", key);
}

int fs_scan_directory_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                             void *ret, struct err *err)
{
        struct fs_scan_directory *in = ret;
        struct decoder d;
        bool has_limit = false;

        decode_begin(&d, a, doc, params, "FsScanDirectoryParams", err);
        decode_own_members(&d);
        decode_file_path(&d, "path", &in->path);
        decode_optional_string_or_null(&d, "after", &in->after);
        if (decode_peek(&d, "afterBase64"))
                decode_base64(&d, "afterBase64", &in->after);
        if (in->after.p)
                in->after.p = arena_dup(a, in->after);
        decode_optional_u64_or_null(&d, "limit", &has_limit, &in->limit);
        if (has_limit && (in->limit == 0 || in->limit > FS_SCAN_MAX))
                decode_fail(&d, "limit: out of range");
        if (!has_limit)
                in->limit = FS_SCAN_MAX;
        decode_file_sandbox(&d, &in->sandbox);
        return decode_end(&d);
}

/* ---- lists of files */

static void decode_new_file(struct decoder *outer, const struct json *value, struct fs_batch_file *file)
{
        struct decoder d;
        const struct json *v;

        decode_begin_inside(&d, outer, value, "FsNewFile");
        decode_own_members(&d);
        decode_string(&d, "name", &file->name);
        check_name(&d, "name", file->name);
        decode_string(&d, "dataBase64", &file->data);
        decode_mode(&d, &file->has_mode, &file->mode);
        v = decode_peek(&d, "modifiedAtMs");
        file->has_modified = v != NULL;
        if (v && !d.has_failed && json_i64(d.doc, v, &file->modified_ms) < 0)
                decode_fail(&d, "modifiedAtMs: expected a number of milliseconds");
        decode_end_inside(outer, &d);
}

static void decode_name(struct decoder *d, const struct json *value, struct fs_batch_file *file)
{
        if (d->has_failed)
                return;
        if (value->type != JSON_STRING) {
                decode_fail(d, "names: expected strings");
                return;
        }
        file->name = json_string(d->arena, d->doc, value);
        check_name(d, "names", file->name);
}

/* Reads a list. With ret NULL it is only checked. */
static void decode_list(struct decoder *d, const struct json *list, const char *key,
                        void (*decode_item)(struct decoder *, const struct json *, struct fs_batch_file *),
                        struct fs_batch_file **ret, size_t *ret_count)
{
        size_t count = json_count(d->doc, list), n = 0;
        if (count > FS_BATCH_MAX) {
                decode_fail(d, "%s: at most %d", key, FS_BATCH_MAX);
                return;
        }
        struct fs_batch_file *files = ret ? arena_zalloc(d->arena, (count + 1) * sizeof(*files)) : NULL;
        json_each (it, d->doc, list) {
                struct fs_batch_file one = { 0 };
                decode_item(d, it, &one);
                if (d->has_failed)
                        return;
                if (!ret)
                        continue;
                one.name.p = arena_dup(d->arena, one.name);
                files[n++] = one;
        }
        if (ret) {
                *ret = files;
                *ret_count = n;
        }
}

static int read_list(struct arena *a, const struct json_doc *doc, const char *key,
                     void (*decode_item)(struct decoder *, const struct json *, struct fs_batch_file *),
                     struct fs_batch_file **ret, size_t *ret_count, struct err *err)
{
        struct decoder d = { .arena = a, .doc = doc, .object = json_root(doc), .err = err };
        if (json_root(doc)->type != JSON_ARRAY)
                decode_fail(&d, "%s: expected a list", key);
        else
                decode_list(&d, json_root(doc), key, decode_item, ret, ret_count);
        return decode_end(&d);
}

int fs_batch_names(struct arena *a, const struct json_doc *doc, struct fs_batch_file **ret, size_t *ret_count,
                   struct err *err)
{
        return read_list(a, doc, "names", decode_name, ret, ret_count, err);
}

int fs_batch_files(struct arena *a, const struct json_doc *doc, struct fs_batch_file **ret, size_t *ret_count,
                   struct err *err)
{
        return read_list(a, doc, "files", decode_new_file, ret, ret_count, err);
}

static int decode_batch(struct arena *a, const struct json_doc *doc, const struct json *params,
                        const char *what, const char *key,
                        void (*decode_item)(struct decoder *, const struct json *, struct fs_batch_file *),
                        struct fs_batch *in, struct err *err)
{
        struct decoder d;
        decode_begin(&d, a, doc, params, what, err);
        decode_own_members(&d);
        decode_file_path(&d, "path", &in->path);
        const struct json *list = decode_array(&d, key);
        if (list) {
                decode_list(&d, list, key, decode_item, NULL, NULL);
                in->list = json_raw(doc, list);
        }
        decode_file_sandbox(&d, &in->sandbox);
        return decode_end(&d);
}

int fs_read_files_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                         struct err *err)
{
        return decode_batch(a, doc, params, "FsReadFilesParams", "names", decode_name, ret, err);
}

int fs_write_files_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                          struct err *err)
{
        return decode_batch(a, doc, params, "FsWriteFilesParams", "files", decode_new_file, ret, err);
}

/* ---- a part of a file */

int fs_digest_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                     struct err *err)
{
        struct fs_digest *in = ret;
        struct decoder d;
        bool has_offset = false, has_length = false;

        decode_begin(&d, a, doc, params, "FsDigestParams", err);
        decode_own_members(&d);
        decode_file_path(&d, "path", &in->path);
        decode_optional_u64_or_null(&d, "offset", &has_offset, &in->offset);
        decode_optional_u64_or_null(&d, "length", &has_length, &in->length);
        if (!has_length)
                in->length = UINT64_MAX;
        if (in->offset > INT64_MAX)
                decode_fail(&d, "offset: out of range");
        decode_bool_or(&d, "followSymlinks", true, &in->follow);
        decode_file_sandbox(&d, &in->sandbox);
        return decode_end(&d);
}
