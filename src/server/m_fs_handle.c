/* m_fs_handle: the methods that read and write files in blocks: fs/open, fs/readBlock, fs/writeBlock, fs/close
 * (docs/PROTOCOL.md).
 *
 * Handles belong to the connection. Requests on one handle keep their order where it matters: a request that follows an fs/open
 * finds the handle, a request that follows an fs/close does not.
 */
#include "base/fd.h"
#include "confine/fs_helpers.h"
#include "core/job.h"
#include "files/answer.h"
#include "fsop/fsop.h"
#include "proto/fs.h"
#include "server/methods.h"
#include "server/open_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Checks the id of the handle, which is the key of these methods. */
static int check_id(struct job *job, struct err *err)
{
        if (job->key.n > OPEN_FILE_ID_BYTES)
                return fsop_refuse(err, "file handle ID must not exceed %d bytes", OPEN_FILE_ID_BYTES);
        return 0;
}

/* --- fs/open ------------------------------------------------------------------------------------------------------ */

static int prepare_open(struct job *job, struct err *err)
{
        const struct fs_open *in = job->params;
        job->is_change = in->mode != FS_OPEN_READ;
        if (in->wants_lock && !job->is_change)
                return fsop_refuse(err, "only a file that is written can be locked");
        return check_id(job, err);
}

static int begin_open(struct job *job, struct err *err)
{
        struct map *handles = &job->client->open_files;
        if (map_find(handles, job->key))
                return fsop_refuse(err, "file handle `%.*s` already exists", SLICE(job->key));
        /* Requests fs/open that have not finished count, so that none of them finds the table full at the end. */
        if (map_count(handles) + job->client->files_opening >= OPEN_FILES_MAX)
                return fsop_refuse(err, "at most %d file handles may be open per connection", OPEN_FILES_MAX);
        int *fd = arena_new(&job->arena, int);
        *fd = -1;
        job->own = fd;
        job->client->files_opening++;
        return 0;
}

static int run_open(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_open *in = job->params;
        struct stat st;
        const struct file_open how = {
                .path = in->path, .mode = (int)in->mode, .follows = in->follows, .wants_lock = in->wants_lock
        };
        int r = job_open_file(job, &how, job->own, &st, err);
        if (r < 0)
                return r;
        jsonw_object(w);
        jsonw_member_string(w, "handleId", in->handle_id);
        if (in->mode == FS_OPEN_RESUME)
                jsonw_member_u64(w, "size", (uint64_t)st.st_size);
        jsonw_object_end(w);
        return 0;
}

static void settle_open(struct job *job)
{
        int *fd = job->own;
        job->client->files_opening--;
        if (!job->err)
                open_file_put(&job->client->open_files, job->server, job->key, TAKE_FD(*fd));
}

static void release_open(struct job *job)
{
        const int *fd = job->own;
        if (fd)
                open_file_close(job->server, *fd);
}

static const struct job_class open_class = {
        .prepare = prepare_open,
        .begin = begin_open,
        .run = run_open,
        .settle = settle_open,
        .release = release_open,
};

/* --- fs/readBlock and fs/writeBlock ------------------------------------------------------------------------------- */

static int borrow_handle(struct job *job, struct err *err)
{
        struct open_file *h = map_find(&job->client->open_files, job->key);
        if (!h)
                return err_set(err, RPC_NOT_FOUND, -ENOENT, "unknown file handle `%.*s`", SLICE(job->key));
        job->own = open_file_ref(h);
        return 0;
}

static void release_handle(struct job *job)
{
        job->own = open_file_unref(job->own);
}

static int prepare_read(struct job *job, struct err *err)
{
        const struct fs_read_block *in = job->params;
        int r = check_id(job, err);
        if (r < 0)
                return r;
        if (in->len < 1 || in->len > FILE_BLOCK_BYTES)
                return fsop_refuse(err, "file read block length must be between 1 and %d", FILE_BLOCK_BYTES);
        return 0;
}

static int run_read(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_read_block *in = job->params;
        jsonw_object(w);
        jsonw_key(w, "chunk");
        jsonw_raw(w, S("\""));
        ssize_t n = fs_encode(w->out, open_file_fd(job->own), in->offset, in->len);
        if (n == -EMSGSIZE)
                return err_set(err, 0, -EMSGSIZE, RPC_ANSWER_TOO_LARGE, job->max_message);
        if (n < 0)
                return fsop_fail(err, (int)n);
        if (buf_append_char(w->out, '"') < 0)
                return err_set(err, 0, -EMSGSIZE, RPC_ANSWER_TOO_LARGE, job->max_message);
        jsonw_member_bool(w, "eof", (size_t)n < in->len);
        jsonw_object_end(w);
        return 0;
}

/* Closes the handle after a read error. */
static void settle_read(struct job *job)
{
        if (job->err)
                open_file_drop(&job->client->open_files, job->key);
}

static const struct job_class read_class = {
        .has_large_answer = true,
        .prepare = prepare_read,
        .begin = borrow_handle,
        .run = run_read,
        .settle = settle_read,
        .release = release_handle,
};

static int prepare_write(struct job *job, struct err *err)
{
        const struct fs_write_block *in = job->params;
        int r = check_id(job, err);
        if (r < 0)
                return r;
        if (in->offset > INT64_MAX - in->chunk.n)
                return fsop_refuse(err, "file write range exceeds the signed 64-bit file offset limit");
        if (in->chunk.n < 1 || in->chunk.n > FILE_BLOCK_BYTES)
                return fsop_refuse(err, "file write block length must be between 1 and %d", FILE_BLOCK_BYTES);
        return 0;
}

static int run_write(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_write_block *in = job->params;
        size_t done = 0;
        while (done < in->chunk.n) {
                ssize_t r = pwrite(open_file_fd(job->own), in->chunk.p + done, in->chunk.n - done,
                                   (off_t)(in->offset + done));
                if (r < 0 && errno == EINTR)
                        continue;
                if (r <= 0)
                        return fsop_fail(err, r < 0 ? errno : ENOSPC);
                done += (size_t)r;
        }
        fs_write_nothing(w);
        return 0;
}

static const struct job_class write_class = {
        .prepare = prepare_write,
        .begin = borrow_handle,
        .run = run_write,
        .release = release_handle,
};

/* --- fs/close ----------------------------------------------------------------------------------------------------- */

/* Frees the handle's id at once. The file is closed when the last request that uses it is done. */
static int begin_close(struct job *job, UNUSED struct err *err)
{
        job->own = map_remove(&job->client->open_files, job->key); /* takes over the reference of the table */
        return 0;
}

static int run_close(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_close *in = job->params;
        int r = 0;
        if (job->own && in->wants_sync && fsync(open_file_fd(job->own)) < 0)
                r = -errno;
        /* Other requests may keep the file open, so that an error of close(2) would come too late: fsop_flush reports it now. */
        if (r == 0 && job->own)
                r = fsop_flush(open_file_fd(job->own));
        if (r < 0)
                return fsop_fail(err, r);
        fs_write_nothing(w);
        return 0;
}

static const struct job_class close_class = {
        .prepare = check_id,
        .begin = begin_close,
        .run = run_close,
        .release = release_handle,
};

#define HANDLE_METHOD(wire_name, type)                                                        \
        .name = wire_name, .family = "filesystem", .needs = NEEDS_READY, METHOD_PARAMS(type), \
        METHOD_KEY(KEY_FILE, type, handle_id)

/* clang-format off */
const struct method handle_methods[] = {
        { HANDLE_METHOD("fs/open", fs_open), METHOD_SANDBOX(fs_open), .is_exclusive = true, .job = &open_class },
        { HANDLE_METHOD("fs/readBlock", fs_read_block), .job = &read_class },
        { HANDLE_METHOD("fs/writeBlock", fs_write_block), .is_change = true, .job = &write_class },
        { HANDLE_METHOD("fs/close", fs_close), .is_exclusive = true, .job = &close_class },
};
/* clang-format on */
const size_t handle_method_count = ARRAY_LEN(handle_methods);
