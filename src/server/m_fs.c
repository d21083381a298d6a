/* m_fs: the file methods that answer with one value (PROTOCOL.md section 9, EXTENSIONS.md "Files").
 *
 * Decoding is proto/fs.c, the work is fsop/; here is which belongs to which, and how results look on the wire. Content is
 * in m_fs_read.c and m_fs_write.c, handles are in m_fs_handle.c.
 */
#include "base/mem.h"
#include "base/uri.h"
#include "base/utf8.h"
#include "fsop/edit.h"
#include "fsop/meta.h"
#include "fsop/walk.h"
#include "proto/fs.h"
#include "server/fs_internal.h"
#include "server/job.h"
#include "server/methods.h"

#include <limits.h>

/* --- how things look ---------------------------------------------------------------------------------------------- */

void fs_write_uri(struct jsonw *w, struct slice path)
{
        /* Straight into the answer: what JSON would escape is percent-encoded. */
        jsonw_raw(w, S("\""));
        if (uri_from_path(w->out, path) < 0 || buf_append_char(w->out, '"') < 0)
                w->overflow = true;
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

static int nothing(int r, struct jsonw *w)
{
        if (r == 0)
                fs_write_nothing(w);
        return r;
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

static int run_get_metadata(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_get_metadata *in = job->params;
        struct fs_meta meta;
        uint8_t digest[FS_DIGEST_BYTES];
        int r = fsop_metadata(in->path.p, in->follow, &meta, in->digest ? digest : NULL, err);
        if (r < 0)
                return r;
        jsonw_object(w);
        fs_write_meta(w, &meta);
        if (meta.has_digest)
                fs_write_digest(w, digest);
        jsonw_object_end(w);
        return 0;
}

static int run_canonicalize(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_path *in = job->params;
        _buf_ struct buf path = BUF_INIT(PATH_MAX);
        int r = fsop_canonicalize(in->path.p, &path, err);
        if (r < 0)
                return r;
        jsonw_object(w);
        jsonw_key(w, "path");
        fs_write_uri(w, buf_slice(&path));
        jsonw_object_end(w);
        return 0;
}

static int run_read_link(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_path *in = job->params;
        _buf_ struct buf target = BUF_INIT(PATH_MAX);
        int r = fsop_read_link(in->path.p, &target, err);
        if (r < 0)
                return r;
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

/* A name that JSON cannot spell is shown with U+FFFD, and has a path that can be used. */
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

static int run_read_directory(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_path *in = job->params;
        struct fs_entry *entries = NULL;
        size_t count = 0;
        int r = fsop_list(&job->arena, in->path.p, &entries, &count, err);
        if (r < 0)
                return r;
        jsonw_object(w);
        jsonw_key(w, "entries");
        jsonw_array(w);
        for (size_t i = 0; i < count; i++)
                write_entry(w, &job->arena, in->path, &entries[i]);
        jsonw_array_end(w);
        jsonw_object_end(w);
        return 0;
}

static int run_walk(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_walk *in = job->params;
        struct walk_options o = {
                .max_depth = in->max_depth,
                .max_directories = in->max_directories,
                .max_entries = in->max_entries,
                .follow_directory_links = in->follow_directory_links,
                .prune_hidden = in->prune_hidden,
        };
        struct walk_result found = { 0 };
        int r = fsop_walk(&job->arena, in->path.p, &o, &found, err);
        if (r < 0)
                return r;
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
                jsonw_object_end(w);
        }
        jsonw_array_end(w);
        jsonw_member_bool(w, "truncated", found.is_truncated);
        jsonw_object_end(w);
        return 0;
}

/* --- changing ----------------------------------------------------------------------------------------------------- */

static int run_create_directory(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_create_directory *in = job->params;
        return nothing(fsop_create_directory(in->path.p, in->recursive, in->follow, err), w);
}

static int run_remove(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_remove *in = job->params;
        return nothing(fsop_remove(in->path.p, in->recursive, in->force, in->follow, err), w);
}

static int run_copy(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_copy *in = job->params;
        return nothing(fsop_copy(in->source.p, in->destination.p, in->recursive, job->server->journal, err),
                       w);
}

static int run_rename(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_rename *in = job->params;
        return nothing(fsop_rename(in->source.p, in->destination.p, in->replace, err), w);
}

static int run_symlink(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_symlink *in = job->params;
        return nothing(fsop_symlink(in->path.p, in->target.p, err), w);
}

static int run_set_metadata(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_set_metadata *in = job->params;
        struct fs_changes changes = {
                .has_mode = in->has_mode,
                .has_modified = in->has_modified,
                .mode = (uint32_t)in->mode,
                .modified_ms = in->modified_ms,
        };
        return nothing(fsop_set_metadata(in->path.p, &changes, in->follow, err), w);
}

/* --- which is which ----------------------------------------------------------------------------------------------- */

#define ONE(type, a) JOB_BOXED(type, 1, offsetof(struct type, a))
#define TWO(type, a, b) JOB_BOXED(type, 2, offsetof(struct type, a), offsetof(struct type, b))
#define READS(fn, slices) (&(const struct job_class){ .run = (fn), .boxed = slices })
#define CHANGES(fn, slices) (&(const struct job_class){ .is_change = true, .run = (fn), .boxed = slices })

const struct method m_fs_get_metadata = { FS_METHOD("fs/getMetadata", fs_get_metadata),
                                          .job = READS(run_get_metadata, ONE(fs_get_metadata, path)) };
const struct method m_fs_canonicalize = { FS_METHOD("fs/canonicalize", fs_path),
                                          .job = READS(run_canonicalize, ONE(fs_path, path)) };
const struct method m_fs_read_link = { FS_METHOD("fs/readLink", fs_path),
                                       .job = READS(run_read_link, ONE(fs_path, path)) };
const struct method m_fs_read_directory = { FS_METHOD("fs/readDirectory", fs_path),
                                            .job = READS(run_read_directory, ONE(fs_path, path)) };
const struct method m_fs_walk = { FS_METHOD("fs/walk", fs_walk), .job = READS(run_walk, ONE(fs_walk, path)) };
const struct method m_fs_create_directory = { FS_METHOD("fs/createDirectory", fs_create_directory),
                                              .job = CHANGES(run_create_directory,
                                                             ONE(fs_create_directory, path)) };
const struct method m_fs_remove = { FS_METHOD("fs/remove", fs_remove),
                                    .job = CHANGES(run_remove, ONE(fs_remove, path)) };
const struct method m_fs_copy = { FS_METHOD("fs/copy", fs_copy),
                                  .job = CHANGES(run_copy, TWO(fs_copy, source, destination)) };
const struct method m_fs_rename = { FS_METHOD("fs/rename", fs_rename),
                                    .job = CHANGES(run_rename, TWO(fs_rename, source, destination)) };
const struct method m_fs_symlink = { FS_METHOD("fs/symlink", fs_symlink),
                                     .job = CHANGES(run_symlink, TWO(fs_symlink, path, target)) };
const struct method m_fs_set_metadata = { FS_METHOD("fs/setMetadata", fs_set_metadata),
                                          .job = CHANGES(run_set_metadata, ONE(fs_set_metadata, path)) };
