/* batch: the `run` functions of fs/scanDirectory, fs/readFiles, fs/writeFiles and fs/digest. */
#include "fsop/batch.h"
#include "base/base64.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "files/answer.h"
#include "files/files_internal.h"
#include "proto/fs.h"
#include "reach/reach.h"

#include <errno.h>

#define ANSWER_MAX ((size_t)1024 * 1024) /* readFiles: no further file is read when the answer is longer */

/* ---- Listing */

/* Writes bytes as text or, when they are not UTF-8, as base64 under another key. */
static void write_bytes(struct jsonw *w, const char *key, const char *key_base64, struct slice bytes)
{
        if (utf8_is_valid(bytes)) {
                jsonw_member_string(w, key, bytes);
        } else {
                jsonw_key(w, key_base64);
                jsonw_base64(w, bytes);
        }
}

static void write_scanned(struct jsonw *w, const struct fs_scanned *e)
{
        static const char *const kinds[] = { [SCAN_FILE] = "file",
                                             [SCAN_DIRECTORY] = "directory",
                                             [SCAN_LINK] = "link",
                                             [SCAN_OTHER] = "other" };
        jsonw_object(w);
        write_bytes(w, "name", "nameBase64", e->name);
        jsonw_member_str(w, "kind", kinds[e->kind]);
        jsonw_member_u64(w, "size", e->meta.size);
        jsonw_member_u64(w, "mode", e->meta.mode);
        jsonw_member_i64(w, "modifiedAtMs", e->meta.modified_ms);
        if (e->target.p)
                write_bytes(w, "target", "targetBase64", e->target);
        jsonw_object_end(w);
}

int run_scan_directory(struct file_request *r, struct jsonw *w, struct err *err)
{
        const struct fs_scan_directory *in = r->params;
        struct fs_scanned *found = NULL;
        size_t count = 0;
        bool has_more = false;
        int result = fsop_scan(r->arena, in->path.p, in->after.p, (size_t)in->limit, &found, &count,
                               &has_more, err);
        if (result < 0)
                return result;
        jsonw_object(w);
        jsonw_key(w, "entries");
        jsonw_array(w);
        for (size_t i = 0; i < count; i++)
                write_scanned(w, &found[i]);
        jsonw_array_end(w);
        jsonw_member_bool(w, "truncated", has_more);
        jsonw_object_end(w);
        return 0;
}

/* ---- Lists of files */

/* Parses the list of the params, which an fs helper has without the padding that the parser wants. */
static int parse_list(struct file_request *r, struct buf *text, struct json_doc *ret, struct err *err)
{
        const struct fs_batch *in = r->params;
        struct json_error bad;
        if (buf_append(text, in->list) < 0 || json_parse(r->arena, buf_slice(text), ret, &bad) < 0)
                return fsop_refuse(err, "the list of files cannot be read");
        return 0;
}

static void write_failure(struct jsonw *w, const struct err *err)
{
        jsonw_object(w);
        jsonw_key(w, "error");
        jsonw_object(w);
        jsonw_member_str(w, "message", err->text);
        if (err->os_errno)
                jsonw_member_i64(w, "errno", err->os_errno);
        fs_write_denied(w, err->os_errno);
        jsonw_object_end(w);
        jsonw_object_end(w);
}

/* Writes one file into the answer. When the file cannot be read, what was written of it is taken back. */
static int write_content(struct jsonw *w, int dirfd, const char *name, struct err *err)
{
        struct stat st;
        _close_ int fd = fsop_batch_open_file(dirfd, name, &st);
        if (fd < 0)
                return fd == -EINVAL ? fsop_refuse(err, "this is not a regular file") : fsop_fail(err, fd);
        if ((uint64_t)st.st_size > ANSWER_MAX)
                return fsop_fail(err, EFBIG);
        const struct buf before = *w->out;
        bool had_comma = w->needs_comma;
        jsonw_object(w);
        jsonw_key(w, "dataBase64");
        jsonw_raw(w, S("\""));
        ssize_t n = fs_encode(w->out, fd, 0, (size_t)st.st_size);
        if (n >= 0) {
                struct fs_meta meta;
                fs_meta_from_stat(&st, &meta);
                if (buf_append_char(w->out, '"') < 0)
                        w->has_overflowed = true;
                jsonw_member_u64(w, "size", meta.size);
                jsonw_member_u64(w, "mode", meta.mode);
                jsonw_member_i64(w, "modifiedAtMs", meta.modified_ms);
                jsonw_object_end(w);
                return 0;
        }
        buf_truncate(w->out, before.n);
        w->needs_comma = had_comma;
        return fsop_fail(err, (int)-n);
}

int run_read_files(struct file_request *r, struct jsonw *w, struct err *err)
{
        const struct fs_batch *in = r->params;
        _buf_ struct buf text = BUF_INIT(in->list.n);
        struct json_doc doc;
        struct fs_batch_file *files = NULL;
        size_t count = 0;
        int result = parse_list(r, &text, &doc, err);
        if (result == 0)
                result = fs_batch_names(r->arena, &doc, &files, &count, err);
        if (result < 0)
                return result;
        _close_ int dirfd = fsop_batch_open(in->path.p);
        if (dirfd < 0)
                return fsop_fail(err, dirfd);
        size_t start = w->out->n;
        jsonw_object(w);
        jsonw_key(w, "files");
        jsonw_array(w);
        for (size_t i = 0; i < count && w->out->n - start <= ANSWER_MAX; i++) {
                struct err one = ERR_INIT;
                reach_begin(REACH_OPERATION_READ);
                if (write_content(w, dirfd, files[i].name.p, &one) < 0)
                        write_failure(w, &one);
        }
        jsonw_array_end(w);
        jsonw_object_end(w);
        return 0;
}

/* Writes one file of the request. Its content is decoded in place: the list was copied by parse_list. */
static int write_one(struct file_request *r, int dirfd, const struct fs_batch_file *file, struct err *err)
{
        const struct fs_batch *in = r->params;
        size_t bad;
        ssize_t n = base64_decode((char *)file->data.p, file->data.p, file->data.n, &bad);
        if (n < 0)
                return fsop_refuse(err, "fs/writeFiles requires valid base64 dataBase64: %s",
                                   base64_complaint(r->arena, file->data, bad));
        const struct fs_new_file new_file = {
                .name = file->name.p,
                .content = slice_from(file->data.p, (size_t)n),
                .has_mode = file->has_mode,
                .has_modified = file->has_modified,
                .mode = (uint32_t)file->mode,
                .modified_ms = file->modified_ms,
        };
        return fsop_batch_write(dirfd, in->path.p, &new_file, r->journal, err);
}

int run_write_files(struct file_request *r, struct jsonw *w, struct err *err)
{
        const struct fs_batch *in = r->params;
        _buf_ struct buf text = BUF_INIT(in->list.n);
        struct json_doc doc;
        struct fs_batch_file *files = NULL;
        size_t count = 0;
        int result = parse_list(r, &text, &doc, err);
        if (result == 0)
                result = fs_batch_files(r->arena, &doc, &files, &count, err);
        if (result < 0)
                return result;
        _close_ int dirfd = fsop_batch_open(in->path.p);
        if (dirfd < 0)
                return fsop_fail(err, dirfd);
        jsonw_object(w);
        jsonw_key(w, "files");
        jsonw_array(w);
        for (size_t i = 0; i < count; i++) {
                struct err one = ERR_INIT;
                reach_begin(REACH_OPERATION_WRITE);
                if (write_one(r, dirfd, &files[i], &one) < 0)
                        write_failure(w, &one);
                else
                        fs_write_nothing(w);
        }
        jsonw_array_end(w);
        jsonw_object_end(w);
        return 0;
}

/* ---- Digests */

int run_digest(struct file_request *r, struct jsonw *w, struct err *err)
{
        const struct fs_digest *in = r->params;
        uint8_t digest[FS_DIGEST_BYTES];
        uint64_t bytes = 0, size = 0;
        int result =
                fsop_digest_part(in->path.p, in->offset, in->length, in->follow, digest, &bytes, &size, err);
        if (result < 0)
                return result;
        jsonw_object(w);
        fs_write_digest(w, digest);
        jsonw_member_u64(w, "bytes", bytes);
        jsonw_member_u64(w, "size", size);
        jsonw_object_end(w);
        return 0;
}
