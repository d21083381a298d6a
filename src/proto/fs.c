/* fs: decodes the params of the file methods. */
#include "proto/fs.h"

#include "base/limits.h"
#include "base/uri.h"
#include "proto/sandbox.h"

#include <errno.h>

#define MODE_MAX 07777

/* --- members of several methods ----------------------------------------------------------------------------------- */

/* Is the value a path of another host or platform? Such a path is answered with -32600; all other errors in a path are -32602. */
static bool is_foreign(struct decoder *d, const struct json *value)
{
        struct slice ignored;
        return value->type == JSON_STRING &&
               uri_to_path(d->arena, json_string(d->arena, d->doc, value), &ignored, NULL) == URI_FOREIGN;
}

static void file_path_value(struct decoder *d, const struct json *value, struct slice *ret)
{
        bool had_failed = d->has_failed;
        decode_path_value(d, value, NULL, ret);
        if (d->has_failed && !had_failed && is_foreign(d, value))
                d->err->client_code = RPC_INVALID_REQUEST;
}

void decode_file_path(struct decoder *d, const char *key, struct slice *ret)
{
        const struct json *v = decode_required(d, key);
        if (v)
                file_path_value(d, v, ret);
}

void decode_file_sandbox(struct decoder *d, const struct sandbox_context **ret)
{
        const struct json *v = decode_peek(d, "sandbox");
        if (v && !d->has_failed)
                d->has_failed = sandbox_files_decode(d->arena, d->doc, v, ret, d->err) < 0;
}

/* Checks the member `sandbox` of a method on a handle and drops it: a handle has the rights with which it was opened. */
static void decode_unused_sandbox(struct decoder *d)
{
        const struct sandbox_context *unused;
        decode_file_sandbox(d, &unused);
}

/* Decodes a bool; absent and null mean the default `otherwise`. */
void decode_bool_or(struct decoder *d, const char *key, bool otherwise, bool *ret)
{
        *ret = otherwise;
        if (decode_peek(d, key))
                decode_bool(d, key, ret);
}

static void decode_follow(struct decoder *d, bool *ret)
{
        decode_bool_or(d, "followSymlinks", true, ret);
}

static void decode_u64(struct decoder *d, const char *key, uint64_t *ret)
{
        const struct json *v = decode_required(d, key);
        if (v)
                decode_u64_value(d, v, ret);
}

void decode_mode(struct decoder *d, bool *ret_has, uint64_t *ret)
{
        decode_optional_u64_or_null(d, "mode", ret_has, ret);
        if (*ret_has && *ret > MODE_MAX)
                decode_fail(d, "mode: out of range");
}

static void decode_time_value(struct decoder *d, const char *key, const struct json *v, int64_t *ret)
{
        if (!d->has_failed && json_i64(d->doc, v, ret) < 0)
                decode_fail(d, "%s: expected a number of milliseconds", key);
}

int fs_path_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                   struct err *err)
{
        struct fs_path *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "FsParams", err);
        decode_file_path(&d, "path", &in->path);
        decode_follow(&d, &in->follows);
        decode_file_sandbox(&d, &in->sandbox);
        return decode_end(&d);
}

/* --- writeFile ---------------------------------------------------------------------------------------------------- */

static void decode_digest(struct decoder *d, uint8_t ret[FS_SHA256_BYTES])
{
        struct slice text = { 0 }, prefix = S("sha256:");
        decode_string(d, "digest", &text);
        if (d->has_failed)
                return;
        bool is_good = slice_starts(text, prefix) && text.n == prefix.n + 2 * FS_SHA256_BYTES;
        for (size_t i = 0; is_good && i < FS_SHA256_BYTES; i++) {
                int high = ascii_hex_value(text.p[prefix.n + 2 * i]);
                int low = ascii_hex_value(text.p[prefix.n + 2 * i + 1]);
                is_good = high >= 0 && low >= 0;
                ret[i] = (uint8_t)(((unsigned)high << 4 | (unsigned)low) & 0xff);
        }
        if (!is_good)
                decode_fail(d, "digest: expected sha256: and 64 hexadecimal digits");
}

static void decode_match(struct decoder *outer, const struct json *value, struct fs_write_file *in)
{
        struct decoder d;
        const struct json *v;
        bool is_absent = false;

        decode_begin_inside(&d, outer, value, "IfMatch");
        decode_own_members(&d);
        bool has_stat = decode_peek(&d, "size") || decode_peek(&d, "modifiedAtMs");
        if (!!decode_peek(&d, "absent") + !!decode_peek(&d, "digest") + has_stat > 1)
                decode_fail(&d, "ifMatch: expected one condition");
        if (decode_peek(&d, "absent")) {
                decode_bool(&d, "absent", &is_absent);
                in->match = FS_MATCH_ABSENT;
                if (!d.has_failed && !is_absent)
                        decode_fail(&d, "absent: must be true");
        } else if (decode_peek(&d, "digest")) {
                decode_digest(&d, in->digest);
                in->match = FS_MATCH_DIGEST;
        } else {
                decode_u64(&d, "size", &in->size);
                if ((v = decode_required(&d, "modifiedAtMs")))
                        decode_time_value(&d, "modifiedAtMs", v, &in->modified_ms);
                in->match = FS_MATCH_STAT;
        }
        decode_end_inside(outer, &d);
}

int fs_write_file_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                         struct err *err)
{
        struct fs_write_file *in = ret;
        struct decoder d;
        const struct json *v;

        decode_begin(&d, a, doc, params, "FsWriteFileParams", err);
        decode_file_path(&d, "path", &in->path);
        decode_string(&d, "dataBase64", &in->data);
        decode_follow(&d, &in->follows);
        decode_file_sandbox(&d, &in->sandbox);
        decode_own_members(&d);
        decode_bool_or(&d, "atomic", true, &in->is_atomic);
        decode_bool_or(&d, "createParents", false, &in->makes_parents);
        decode_mode(&d, &in->has_mode, &in->mode);
        if ((v = decode_peek(&d, "ifMatch")))
                decode_match(&d, v, in);
        return decode_end(&d);
}

/* --- methods on names and trees ----------------------------------------------------------------------------------- */

int fs_create_directory_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                               void *ret, struct err *err)
{
        struct fs_create_directory *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "FsCreateDirectoryParams", err);
        decode_file_path(&d, "path", &in->path);
        decode_bool_or(&d, "recursive", true, &in->is_recursive);
        decode_follow(&d, &in->follows);
        decode_file_sandbox(&d, &in->sandbox);
        return decode_end(&d);
}

int fs_get_metadata_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                           struct err *err)
{
        struct fs_get_metadata *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "FsGetMetadataParams", err);
        decode_file_path(&d, "path", &in->path);
        decode_follow(&d, &in->follows);
        decode_file_sandbox(&d, &in->sandbox);
        decode_own_members(&d);
        decode_bool_or(&d, "digest", false, &in->wants_digest);
        return decode_end(&d);
}

static void decode_walk_options(struct decoder *outer, const struct json *value, struct fs_walk *in)
{
        struct decoder d;

        decode_begin_inside(&d, outer, value, "WalkOptions");
        decode_u64(&d, "maxDepth", &in->max_depth);
        decode_u64(&d, "maxDirectories", &in->max_directories);
        decode_u64(&d, "maxEntries", &in->max_entries);
        decode_bool(&d, "followDirectorySymlinks", &in->follows_directory_links);
        decode_optional_bool(&d, "pruneHiddenDirectories", &in->prunes_hidden);
        decode_end_inside(outer, &d);
}

int fs_walk_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                   struct err *err)
{
        struct fs_walk *in = ret;
        struct decoder d;
        const struct json *v;

        decode_begin(&d, a, doc, params, "FsWalkParams", err);
        decode_file_path(&d, "path", &in->path);
        if ((v = decode_required(&d, "options")))
                decode_walk_options(&d, v, in);
        decode_file_sandbox(&d, &in->sandbox);
        return decode_end(&d);
}

int fs_remove_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                     struct err *err)
{
        struct fs_remove *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "FsRemoveParams", err);
        decode_file_path(&d, "path", &in->path);
        decode_bool_or(&d, "recursive", true, &in->is_recursive);
        decode_bool_or(&d, "force", true, &in->is_forced);
        decode_follow(&d, &in->follows);
        decode_file_sandbox(&d, &in->sandbox);
        return decode_end(&d);
}

int fs_copy_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                   struct err *err)
{
        struct fs_copy *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "FsCopyParams", err);
        decode_file_path(&d, "sourcePath", &in->source);
        decode_file_path(&d, "destinationPath", &in->destination);
        decode_bool(&d, "recursive", &in->is_recursive);
        decode_file_sandbox(&d, &in->sandbox);
        return decode_end(&d);
}

int fs_rename_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                     struct err *err)
{
        struct fs_rename *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "FsRenameParams", err);
        decode_own_members(&d);
        decode_file_path(&d, "sourcePath", &in->source);
        decode_file_path(&d, "destinationPath", &in->destination);
        decode_bool_or(&d, "replace", true, &in->may_replace);
        decode_follow(&d, &in->follows);
        decode_file_sandbox(&d, &in->sandbox);
        return decode_end(&d);
}

int fs_symlink_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                      struct err *err)
{
        struct fs_symlink *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "FsSymlinkParams", err);
        decode_own_members(&d);
        decode_file_path(&d, "path", &in->path);
        decode_string(&d, "target", &in->target);
        if (!d.has_failed && (in->target.n == 0 || slice_has_nul(in->target)))
                decode_fail(&d, "target: must not be empty or contain a NUL");
        if (!d.has_failed)
                in->target = slice_from(arena_dup(a, in->target), in->target.n);
        decode_follow(&d, &in->follows);
        decode_file_sandbox(&d, &in->sandbox);
        return decode_end(&d);
}

int fs_set_metadata_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                           struct err *err)
{
        struct fs_set_metadata *in = ret;
        struct decoder d;
        const struct json *v;

        decode_begin(&d, a, doc, params, "FsSetMetadataParams", err);
        decode_own_members(&d);
        decode_file_path(&d, "path", &in->path);
        decode_mode(&d, &in->has_mode, &in->mode);
        if ((v = decode_peek(&d, "modifiedAtMs"))) {
                in->has_modified = true;
                decode_time_value(&d, "modifiedAtMs", v, &in->modified_ms);
        }
        decode_follow(&d, &in->follows);
        decode_file_sandbox(&d, &in->sandbox);
        return decode_end(&d);
}

/* --- handles ------------------------------------------------------------------------------------------------------ */

int fs_open_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                   struct err *err)
{
        static const char *const modes[] = {
                [FS_OPEN_READ] = "read", [FS_OPEN_REPLACE] = "replace", [FS_OPEN_RESUME] = "resume"
        };
        struct fs_open *in = ret;
        struct decoder d;
        size_t mode = FS_OPEN_READ;

        decode_begin(&d, a, doc, params, "FsOpenParams", err);
        decode_string(&d, "handleId", &in->handle_id);
        decode_file_path(&d, "path", &in->path);
        if (!d.has_failed && json_get(doc, d.object, S("mode")))
                decode_variant(&d, "mode", modes, ARRAY_LEN(modes), &mode);
        in->mode = (enum fs_open_mode)mode;
        decode_follow(&d, &in->follows);
        decode_optional_bool(&d, "lock", &in->wants_lock);
        decode_file_sandbox(&d, &in->sandbox);
        return decode_end(&d);
}

int fs_read_block_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                         struct err *err)
{
        struct fs_read_block *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "FsReadBlockParams", err);
        decode_string(&d, "handleId", &in->handle_id);
        decode_u64(&d, "offset", &in->offset);
        decode_u64(&d, "len", &in->len);
        decode_unused_sandbox(&d);
        return decode_end(&d);
}

int fs_write_block_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                          struct err *err)
{
        struct fs_write_block *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "FsWriteBlockParams", err);
        decode_string(&d, "handleId", &in->handle_id);
        decode_u64(&d, "offset", &in->offset);
        decode_base64(&d, "chunk", &in->chunk);
        decode_unused_sandbox(&d);
        return decode_end(&d);
}

int fs_close_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                    struct err *err)
{
        struct fs_close *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "FsCloseParams", err);
        decode_string(&d, "handleId", &in->handle_id);
        decode_unused_sandbox(&d);
        decode_own_members(&d);
        decode_bool_or(&d, "sync", false, &in->wants_sync);
        return decode_end(&d);
}

/* --- discovery ---------------------------------------------------------------------------------------------------- */

static void decode_root(struct decoder *outer, const struct json *value, struct discover_root *root)
{
        struct decoder d;
        const struct json *v;

        decode_begin_inside(&d, outer, value, "CapabilityRoot");
        decode_string(&d, "id", &root->id);
        if ((v = decode_required(&d, "path")) && is_foreign(&d, v))
                root->foreign = json_string(d.arena, d.doc, v);
        else if (v)
                file_path_value(&d, v, &root->path);
        if (!d.has_failed && MAX(root->id.n, json_raw(d.doc, v).n) > LIMIT_ROOT_TEXT_BYTES)
                decode_fail(&d, "id and path of a root have at most %d bytes", LIMIT_ROOT_TEXT_BYTES);
        decode_file_sandbox(&d, &root->sandbox);
        decode_end_inside(outer, &d);
}

int discover_roots_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                          struct err *err)
{
        struct discover_roots *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "CapabilityRootsDiscoverParams", err);
        const struct json *list = decode_array(&d, "roots");
        if (list) {
                size_t count = json_count(doc, list);
                if (count > DISCOVER_ROOTS_MAX)
                        return err_set(err, RPC_INVALID_REQUEST, -EINVAL,
                                       "capability root discovery accepts at most %d roots",
                                       DISCOVER_ROOTS_MAX);
                in->roots = arena_zalloc(a, MAX(count, (size_t)1) * sizeof(*in->roots));
                json_each (it, doc, list) {
                        struct discover_root *root = &in->roots[in->count++];
                        decode_root(&d, it, root);
                        in->sandbox = root->sandbox ? root->sandbox : in->sandbox;
                }
        }
        return decode_end(&d);
}
