/* methods: the descriptors and `run` functions of the file methods whose whole answer is made at once
 * (docs/PROTOCOL.md).
 *
 * proto/fs.c decodes the params and fsop/ does the work; this file connects the two and writes the results. fs/readFile,
 * which sends its answer in pieces, and the methods on handles, which the client keeps, are in server/.
 */
#include "base/mem.h"
#include "base/uri.h"
#include "base/utf8.h"
#include "files/answer.h"
#include "files/files_internal.h"
#include "files/request.h"
#include "fsop/edit.h"
#include "fsop/meta.h"
#include "fsop/walk.h"
#include "proto/fs.h"

#include <limits.h>

/* --- parts of answers --------------------------------------------------------------------------------------------- */

void fs_write_uri(struct jsonw *w, struct slice path)
{
        /* The URI needs no JSON escapes, because everything that JSON would escape is percent-encoded in it. */
        jsonw_raw(w, S("\""));
        if (uri_from_path(w->out, path) < 0 || buf_append_char(w->out, '"') < 0)
                w->has_overflowed = true;
}

void fs_write_digest(struct jsonw *w, const uint8_t digest[FS_DIGEST_BYTES])
{
        char text[7 + 2 * FS_DIGEST_BYTES + 1] = "sha256:";
        for (size_t i = 0; i < FS_DIGEST_BYTES; i++)
                snprintf(text + 7 + 2 * i, 3, "%02x", digest[i]);
        jsonw_member_str(w, "digest", text);
}

void fs_write_meta(struct jsonw *w, const struct fs_meta *m)
{
        jsonw_member_bool(w, "isDirectory", m->is_directory);
        jsonw_member_bool(w, "isFile", m->is_file);
        jsonw_member_bool(w, "isSymlink", m->is_symlink);
        jsonw_member_u64(w, "size", m->size);
        jsonw_member_i64(w, "createdAtMs", m->created_ms);
        jsonw_member_i64(w, "modifiedAtMs", m->modified_ms);
        jsonw_member_u64(w, "mode", m->mode);
        jsonw_member_u64(w, "uid", m->uid);
        jsonw_member_u64(w, "gid", m->gid);
        jsonw_member_u64(w, "links", m->links);
}

void fs_write_nothing(struct jsonw *w)
{
        jsonw_object(w);
        jsonw_object_end(w);
}

static int answer_nothing(int r, struct jsonw *w)
{
        if (r == 0)
                fs_write_nothing(w);
        return r;
}

/* --- methods that look at files ----------------------------------------------------------------------------------- */

static void write_metadata(struct jsonw *w, const struct fs_meta *meta, const uint8_t *digest)
{
        jsonw_object(w);
        fs_write_meta(w, meta);
        if (meta->has_digest)
                fs_write_digest(w, digest);
        jsonw_object_end(w);
}

static int run_get_metadata(struct file_request *r, struct jsonw *w, struct err *err)
{
        const struct fs_get_metadata *in = r->params;
        struct fs_meta meta;
        uint8_t digest[FS_DIGEST_BYTES];
        int result = fsop_metadata(in->path.p, in->follows, &meta, in->wants_digest ? digest : NULL, err);
        if (result == 0)
                write_metadata(w, &meta, digest);
        return result;
}

static enum quick_answer get_metadata_quickly(const void *params, struct quick *q, struct jsonw *w)
{
        const struct fs_get_metadata *in = params;
        struct fs_meta meta;
        if (in->wants_digest)
                return QUICK_NOT;
        enum quick_answer answer = quick_metadata(q, in->path.p, in->follows, &meta);
        if (answer == QUICK_DONE)
                write_metadata(w, &meta, NULL);
        return answer;
}

static void get_metadata_target(const void *params, struct slice *ret_path, bool *ret_follow, bool *ret_reads)
{
        const struct fs_get_metadata *in = params;
        *ret_path = in->path;
        *ret_follow = in->follows;
        *ret_reads = false;
}

static const struct file_quick get_metadata_quick = { .run = get_metadata_quickly,
                                                      .target = get_metadata_target };

static int run_canonicalize(struct file_request *r, struct jsonw *w, struct err *err)
{
        const struct fs_path *in = r->params;
        _buf_ struct buf path = BUF_INIT(PATH_MAX);
        int result = fsop_canonicalize(in->path.p, &path, err);
        if (result < 0)
                return result;
        jsonw_object(w);
        jsonw_key(w, "path");
        fs_write_uri(w, buf_slice(&path));
        jsonw_object_end(w);
        return 0;
}

static int run_read_link(struct file_request *r, struct jsonw *w, struct err *err)
{
        const struct fs_path *in = r->params;
        _buf_ struct buf target = BUF_INIT(PATH_MAX);
        int result = fsop_read_link(in->path.p, &target, err);
        if (result < 0)
                return result;
        jsonw_object(w);
        if (utf8_is_valid(buf_slice(&target))) {
                jsonw_member_string(w, "target", buf_slice(&target));
        } else {
                jsonw_key(w, "targetBase64");
                jsonw_base64(w, buf_slice(&target));
        }
        jsonw_object_end(w);
        return 0;
}

/* Writes an entry of a directory. A name that is not UTF-8 is written with U+FFFD; clients can use the `path` that such an entry
 * has as well. */
static void write_entry(struct jsonw *w, struct arena *a, struct slice directory, const struct fs_entry *e)
{
        jsonw_object(w);
        jsonw_member_string(w, "fileName", e->name);
        jsonw_member_bool(w, "isDirectory", e->is_directory);
        jsonw_member_bool(w, "isFile", e->is_file);
        if (!utf8_is_valid(e->name)) {
                bool has_slash = directory.n > 0 && directory.p[directory.n - 1] == '/';
                size_t n = directory.n + !has_slash + e->name.n;
                char *path = arena_alloc(a, n + 1);
                memcpy(path, directory.p, directory.n);
                if (!has_slash)
                        path[directory.n] = '/';
                memcpy(path + n - e->name.n, e->name.p, e->name.n);
                jsonw_key(w, "path");
                fs_write_uri(w, slice_from(path, n));
        }
        jsonw_object_end(w);
}

static int run_read_directory(struct file_request *r, struct jsonw *w, struct err *err)
{
        const struct fs_path *in = r->params;
        struct fs_entry *entries = NULL;
        size_t count = 0;
        int result = fsop_list(r->arena, in->path.p, &entries, &count, err);
        if (result < 0)
                return result;
        jsonw_object(w);
        jsonw_key(w, "entries");
        jsonw_array(w);
        for (size_t i = 0; i < count; i++)
                write_entry(w, r->arena, in->path, &entries[i]);
        jsonw_array_end(w);
        jsonw_object_end(w);
        return 0;
}

static int run_walk(struct file_request *r, struct jsonw *w, struct err *err)
{
        const struct fs_walk *in = r->params;
        struct walk_options o = {
                .max_depth = in->max_depth,
                .max_directories = in->max_directories,
                .max_entries = in->max_entries,
                .follows_directory_links = in->follows_directory_links,
                .prunes_hidden = in->prunes_hidden,
        };
        struct walk_result found = { 0 };
        int result = fsop_walk(r->arena, in->path.p, &o, &found, err);
        if (result < 0)
                return result;
        jsonw_object(w);
        jsonw_key(w, "entries");
        jsonw_array(w);
        for (size_t i = 0; i < found.count; i++) {
                jsonw_object(w);
                jsonw_key(w, "path");
                fs_write_uri(w, found.items[i].path);
                jsonw_member_str(w, "kind", found.items[i].is_directory ? "directory" : "file");
                jsonw_object_end(w);
        }
        jsonw_array_end(w);
        jsonw_key(w, "errors");
        jsonw_array(w);
        for (size_t i = 0; i < found.error_count; i++) {
                jsonw_object(w);
                jsonw_key(w, "path");
                fs_write_uri(w, found.errors[i].path);
                jsonw_member_str(w, "message", found.errors[i].message);
                if (found.errors[i].denied)
                        fs_write_refusal(w, found.errors[i].denied);
                jsonw_object_end(w);
        }
        jsonw_array_end(w);
        jsonw_member_bool(w, "truncated", found.is_truncated);
        jsonw_object_end(w);
        return 0;
}

/* --- methods that change files ------------------------------------------------------------------------------------ */

static int run_create_directory(struct file_request *r, struct jsonw *w, struct err *err)
{
        const struct fs_create_directory *in = r->params;
        return answer_nothing(fsop_create_directory(in->path.p, in->is_recursive, in->follows, err), w);
}

static int run_remove(struct file_request *r, struct jsonw *w, struct err *err)
{
        const struct fs_remove *in = r->params;
        return answer_nothing(fsop_remove(in->path.p, in->is_recursive, in->is_forced, in->follows, err), w);
}

static int run_copy(struct file_request *r, struct jsonw *w, struct err *err)
{
        const struct fs_copy *in = r->params;
        return answer_nothing(fsop_copy(in->source.p, in->destination.p, in->is_recursive, r->journal, err),
                              w);
}

static int run_rename(struct file_request *r, struct jsonw *w, struct err *err)
{
        const struct fs_rename *in = r->params;
        return answer_nothing(fsop_rename(in->source.p, in->destination.p, in->may_replace, in->follows, err),
                              w);
}

static int run_symlink(struct file_request *r, struct jsonw *w, struct err *err)
{
        const struct fs_symlink *in = r->params;
        return answer_nothing(fsop_symlink(in->path.p, in->target.p, in->follows, err), w);
}

static int run_set_metadata(struct file_request *r, struct jsonw *w, struct err *err)
{
        const struct fs_set_metadata *in = r->params;
        struct fs_changes changes = {
                .has_mode = in->has_mode,
                .has_modified = in->has_modified,
                .mode = (uint32_t)in->mode,
                .modified_ms = in->modified_ms,
        };
        return answer_nothing(fsop_set_metadata(in->path.p, &changes, in->follows, err), w);
}

/* --- the table of methods ----------------------------------------------------------------------------------------- */

/* `texts` lists all slices of the params. They are copied for an fs helper; a slice that is not listed would keep a pointer into
 * the memory of the server. */
#define FILE_METHOD(wire_name, type, texts)                                                   \
        .name = wire_name, .family = "filesystem", .needs = NEEDS_READY, METHOD_PARAMS(type), \
        METHOD_SANDBOX(type), texts

#define FILE_BATCH                                                              \
        .family = "filesystem", .needs = NEEDS_READY, METHOD_SANDBOX(fs_batch), \
        METHOD_TEXTS_2(fs_batch, path, list)

/* clang-format off */
const struct method file_methods[] = {
        { FILE_METHOD("fs/getMetadata", fs_get_metadata, METHOD_TEXT(fs_get_metadata, path)),
          .run = run_get_metadata, .quick = &get_metadata_quick },
        { FILE_METHOD("fs/canonicalize", fs_path, METHOD_TEXT(fs_path, path)), .run = run_canonicalize },
        { FILE_METHOD("fs/readLink", fs_path, METHOD_TEXT(fs_path, path)), .run = run_read_link },
        { FILE_METHOD("fs/readDirectory", fs_path, METHOD_TEXT(fs_path, path)), .run = run_read_directory },
        { FILE_METHOD("fs/walk", fs_walk, METHOD_TEXT(fs_walk, path)), .run = run_walk },
        { FILE_METHOD("fs/writeFile", fs_write_file, METHOD_TEXTS_2(fs_write_file, path, data)),
          .run = run_write_file, .is_change = true },
        { FILE_METHOD("fs/createDirectory", fs_create_directory, METHOD_TEXT(fs_create_directory, path)),
          .run = run_create_directory, .is_change = true },
        { FILE_METHOD("fs/remove", fs_remove, METHOD_TEXT(fs_remove, path)),
          .run = run_remove, .is_change = true },
        { FILE_METHOD("fs/copy", fs_copy, METHOD_TEXTS_2(fs_copy, source, destination)),
          .run = run_copy, .is_change = true },
        { FILE_METHOD("fs/rename", fs_rename, METHOD_TEXTS_2(fs_rename, source, destination)),
          .run = run_rename, .is_change = true },
        { FILE_METHOD("fs/symlink", fs_symlink, METHOD_TEXTS_2(fs_symlink, path, target)),
          .run = run_symlink, .is_change = true },
        { FILE_METHOD("fs/setMetadata", fs_set_metadata, METHOD_TEXT(fs_set_metadata, path)),
          .run = run_set_metadata, .is_change = true },
        { FILE_METHOD("fs/scanDirectory", fs_scan_directory, METHOD_TEXTS_2(fs_scan_directory, path, after)),
          .run = run_scan_directory },
        { FILE_METHOD("fs/digest", fs_digest, METHOD_TEXT(fs_digest, path)), .run = run_digest },
        { .name = "fs/readFiles", .params_size = sizeof(struct fs_batch), .decode = fs_read_files_decode,
          FILE_BATCH, .run = run_read_files },
        { .name = "fs/writeFiles", .params_size = sizeof(struct fs_batch), .decode = fs_write_files_decode,
          FILE_BATCH, .run = run_write_files, .is_change = true },
        { FILE_METHOD("fs/checkAccess", fs_check_access, METHOD_TEXT(fs_check_access, list)),
          .run = run_check_access, .asks_changes = true },
};
/* clang-format on */
const size_t file_method_count = ARRAY_LEN(file_methods);

const struct method file_discover_root = {
        .name = "capability root",
        .params_size = sizeof(struct discover_root),
        METHOD_SANDBOX(discover_root),
        METHOD_TEXTS_3(discover_root, id, path, foreign),
        .run = run_discover_root,
};

const struct method *file_method_find(struct slice name)
{
        for (size_t i = 0; i < ARRAY_LEN(file_methods); i++)
                if (slice_eq(name, slice_from_str(file_methods[i].name)))
                        return &file_methods[i];
        return slice_eq(name, slice_from_str(file_discover_root.name)) ? &file_discover_root : NULL;
}
