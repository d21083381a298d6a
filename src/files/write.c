/* write: the `run` function of fs/writeFile. It decodes the content in place, in the message; fsop/write.h replaces the file. */
#include "fsop/write.h"
#include "base/base64.h"
#include "base/mem.h"
#include "files/answer.h"
#include "files/files_internal.h"
#include "proto/fs.h"

#include <errno.h>

/* Decodes in place, which is allowed because the message belongs to the request. */
static int decode_data(struct file_request *r, struct slice text, struct slice *ret, struct err *err)
{
        size_t bad;
        ssize_t n = base64_decode((char *)text.p, text.p, text.n, &bad);
        if (n < 0)
                return fsop_refuse(err, "fs/writeFile requires valid base64 dataBase64: %s",
                                   base64_complaint(r->arena, text, bad));
        *ret = slice_from(text.p, (size_t)n);
        return 0;
}

/* Tells in error.data what the file is now, when a conditional write found it changed. */
static void tell_current(struct file_request *r, bool exists, const struct fs_meta *current)
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
                r->error_data = arena_dup(r->arena, buf_slice(&data));
}

static struct write_options write_options_of(struct file_request *r, const struct fs_write_file *in,
                                             size_t size)
{
        struct write_options o = {
                .is_atomic = in->is_atomic,
                .create_parents = in->makes_parents,
                .follow = in->follows,
                .has_mode = in->has_mode,
                .mode = (uint32_t)in->mode,
                .size = size,
                .match = (enum write_match)in->match,
                .match_size = in->size,
                .match_modified_ms = in->modified_ms,
                .journal = r->journal,
        };
        memcpy(o.digest, in->digest, sizeof(o.digest));
        return o;
}

int run_write_file(struct file_request *r, struct jsonw *w, struct err *err)
{
        const struct fs_write_file *in = r->params;
        struct slice bytes;
        int result = decode_data(r, in->data, &bytes, err);
        if (result < 0)
                return result;
        struct write_options o = write_options_of(r, in, bytes.n);
        struct writer *writer = NULL;
        struct fs_meta meta = { 0 }, current = { 0 };
        bool exists = false;
        result = fsop_write_begin(in->path.p, &o, &writer, &current, &exists, err);
        if (result == 0)
                result = fsop_write_data(writer, bytes, err);
        if (result == 0)
                result = fsop_write_commit(TAKE(writer), &meta, &current, &exists, err);
        writer = fsop_write_abort(writer);
        if (result == -ESTALE && err->os_errno == 0)
                tell_current(r, exists, &current);
        if (result < 0)
                return result;
        jsonw_object(w);
        jsonw_member_u64(w, "size", meta.size);
        jsonw_member_i64(w, "modifiedAtMs", meta.modified_ms);
        jsonw_object_end(w);
        return 0;
}

_Static_assert((int)FS_MATCH_STAT == (int)MATCH_STAT && FS_SHA256_BYTES == FS_DIGEST_BYTES,
               "one meaning on the wire and in fsop");
