/* m_fs_write: fs/writeFile: whole files, decoded where they lie in the message. The care is in fsop/write.h. */
#include "base/base64.h"
#include "base/mem.h"
#include "fsop/write.h"
#include "proto/fs.h"
#include "server/fs_internal.h"
#include "server/job.h"
#include "server/methods.h"

#include <errno.h>

/* Decoded in place: the message is ours. */
static int decode_data(struct job *job, struct slice text, struct slice *ret, struct err *err)
{
        size_t bad;
        ssize_t n = base64_decode((char *)text.p, text.p, text.n, &bad);
        if (n < 0)
                return fsop_refuse(err, "fs/writeFile requires valid base64 dataBase64: %s",
                                   base64_complaint(&job->arena, text, bad));
        *ret = slice_from(text.p, (size_t)n);
        return 0;
}

/* What is there instead, for the answer to a conditional write. */
static void tell_current(struct job *job, bool exists, const struct fs_meta *current)
{
        _buf_ struct buf data = BUF_INIT(1024);
        struct jsonw w;
        jsonw_begin(&w, &data);
        jsonw_key(&w, "current");
        if (exists) {
                jsonw_object(&w);
                fs_write_meta(&w, current);
                jsonw_object_end(&w);
        } else {
                jsonw_null(&w);
        }
        if (jsonw_end(&w) == 0)
                job->error_data = arena_dup(&job->arena, buf_slice(&data));
}

static struct write_options write_options_of(struct job *job, const struct fs_write_file *in, size_t size)
{
        struct write_options o = {
                .is_atomic = in->is_atomic,
                .create_parents = in->create_parents,
                .follow = in->follow,
                .has_mode = in->has_mode,
                .mode = (uint32_t)in->mode,
                .size = size,
                .match = (enum write_match)in->match,
                .match_size = in->size,
                .match_modified_ms = in->modified_ms,
                .journal = job->server->journal,
        };
        memcpy(o.digest, in->digest, sizeof(o.digest));
        return o;
}

static int run_write_file(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_write_file *in = job->params;
        struct slice bytes;
        int r = decode_data(job, in->data, &bytes, err);
        if (r < 0)
                return r;
        struct write_options o = write_options_of(job, in, bytes.n);
        struct writer *writer = NULL;
        struct fs_meta meta = { 0 }, current = { 0 };
        bool exists = false;
        r = fsop_write_begin(in->path.p, &o, &writer, &current, &exists, err);
        if (r == 0)
                r = fsop_write_data(writer, bytes, err);
        if (r == 0)
                r = fsop_write_commit(TAKE(writer), &meta, &current, &exists, err);
        writer = fsop_write_abort(writer);
        if (r == -ESTALE && err->os_errno == 0)
                tell_current(job, exists, &current);
        if (r < 0)
                return r;
        jsonw_object(w);
        jsonw_member_u64(w, "size", meta.size);
        jsonw_member_i64(w, "modifiedAtMs", meta.modified_ms);
        jsonw_object_end(w);
        return 0;
}

static const struct job_class write_file = {
        .is_change = true,
        .run = run_write_file,
        .boxed = JOB_BOXED(fs_write_file, 2, offsetof(struct fs_write_file, path),
                           offsetof(struct fs_write_file, data)),
};

_Static_assert((int)FS_MATCH_STAT == (int)MATCH_STAT && FS_SHA256_BYTES == FS_DIGEST_BYTES,
               "one meaning on the wire and in fsop");

const struct method m_fs_write_file = { FS_METHOD("fs/writeFile", fs_write_file), .job = &write_file };
