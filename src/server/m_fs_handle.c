/* m_fs_handle: files in blocks: fs/open, fs/readBlock, fs/writeBlock, fs/close (PROTOCOL.md 9.3).
 *
 * Handles belong to the connection. Requests on one handle keep their order where it matters: what is sent behind an open
 * finds the handle, what is sent behind a close does not.
 */
#include "base/fd.h"
#include "base/mem.h"
#include "fsop/fsop.h"
#include "proto/fs.h"
#include "server/filers.h"
#include "server/fs_internal.h"
#include "server/job.h"
#include "server/methods.h"
#include "server/open_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int unknown_handle(struct err *err, struct slice id)
{
        return err_set(err, RPC_NOT_FOUND, -ENOENT, "unknown file handle `%.*s`", SLICE(id));
}

/* The name of a handle orders its requests. */
static int take_id(struct job *job, struct slice id, struct err *err)
{
        if (id.n > OPEN_FILE_ID_BYTES)
                return fsop_refuse(err, "file handle ID must not exceed %d bytes", OPEN_FILE_ID_BYTES);
        job->key = id;
        return 0;
}

/* --- open --------------------------------------------------------------------------------------------------------- */

struct opening {
        int fd;
        uint64_t size;
};

static int prepare_open(struct job *job, struct err *err)
{
        const struct fs_open *in = job->params;
        job->is_exclusive = true;
        job->is_change = in->mode != FS_OPEN_READ;
        return take_id(job, in->handle_id, err);
}

static int begin_open(struct job *job, struct err *err)
{
        const struct fs_open *in = job->params;
        struct map *handles = &job->conn->open_files;
        if (open_file_find(handles, in->handle_id))
                return fsop_refuse(err, "file handle `%.*s` already exists", SLICE(in->handle_id));
        /* Opens that run at this moment count: none of them must find the table full when it is done. */
        if (map_count(handles) + job->conn->files_opening >= OPEN_FILES_MAX)
                return fsop_refuse(err, "at most %d file handles may be open per connection", OPEN_FILES_MAX);
        struct opening *opening = mem_new(struct opening);
        opening->fd = -1;
        job->own = opening;
        job->conn->files_opening++;
        return 0;
}

static int run_open(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_open *in = job->params;
        struct opening *opening = job->own;
        struct stat st;
        const struct filer_open how = { .path = in->path, .mode = (int)in->mode, .follow = true };
        int r = fs_open_file(job, &how, &opening->fd, &st, err);
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
        const struct fs_open *in = job->params;
        struct opening *opening = job->own;
        job->conn->files_opening--;
        if (!job->err)
                open_file_put(&job->conn->open_files,
                              open_file_new(job->server, in->handle_id, TAKE_FD(opening->fd)));
}

static void release_open(struct job *job)
{
        struct opening *opening = job->own;
        if (opening)
                open_file_close(job->server, opening->fd);
        free(opening);
}

static const struct job_class open_class = {
        .opens_boxed = true,
        .prepare = prepare_open,
        .begin = begin_open,
        .run = run_open,
        .settle = settle_open,
        .release = release_open,
};

/* --- blocks ------------------------------------------------------------------------------------------------------- */

static int borrow_handle(struct job *job, struct slice id, struct err *err)
{
        struct open_file *h = open_file_find(&job->conn->open_files, id);
        if (!h)
                return unknown_handle(err, id);
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
        int r = take_id(job, in->handle_id, err);
        if (r < 0)
                return r;
        if (in->len < 1 || in->len > FILE_BLOCK_BYTES)
                return fsop_refuse(err, "file read block length must be between 1 and %d", FILE_BLOCK_BYTES);
        return 0;
}

static int begin_read(struct job *job, struct err *err)
{
        const struct fs_read_block *in = job->params;
        return borrow_handle(job, in->handle_id, err);
}

static int run_read(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_read_block *in = job->params;
        jsonw_object(w);
        jsonw_key(w, "chunk");
        jsonw_raw(w, S("\""));
        ssize_t n = fs_encode(w->out, open_file_fd(job->own), in->offset, in->len);
        if (n == -EMSGSIZE)
                return err_set(err, 0, -EMSGSIZE, CONN_ANSWER_TOO_LARGE, job->max_message);
        if (n < 0)
                return fsop_fail(err, (int)n);
        if (buf_append_char(w->out, '"') < 0)
                return err_set(err, 0, -EMSGSIZE, CONN_ANSWER_TOO_LARGE, job->max_message);
        jsonw_member_bool(w, "eof", (size_t)n < in->len);
        jsonw_object_end(w);
        return 0;
}

/* A read error closes the handle. */
static void settle_read(struct job *job)
{
        const struct fs_read_block *in = job->params;
        if (job->err)
                open_file_drop(&job->conn->open_files, in->handle_id);
}

static const struct job_class read_class = {
        .has_large_answer = true,
        .prepare = prepare_read,
        .begin = begin_read,
        .run = run_read,
        .settle = settle_read,
        .release = release_handle,
};

static int prepare_write(struct job *job, struct err *err)
{
        const struct fs_write_block *in = job->params;
        int r = take_id(job, in->handle_id, err);
        if (r < 0)
                return r;
        if (in->offset > INT64_MAX - in->chunk.n)
                return fsop_refuse(err, "file write range exceeds the signed 64-bit file offset limit");
        if (in->chunk.n < 1 || in->chunk.n > FILE_BLOCK_BYTES)
                return fsop_refuse(err, "file write block length must be between 1 and %d", FILE_BLOCK_BYTES);
        return 0;
}

static int begin_write(struct job *job, struct err *err)
{
        const struct fs_write_block *in = job->params;
        return borrow_handle(job, in->handle_id, err);
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
        .is_change = true,
        .prepare = prepare_write,
        .begin = begin_write,
        .run = run_write,
        .release = release_handle,
};

/* --- close -------------------------------------------------------------------------------------------------------- */

static int prepare_close(struct job *job, struct err *err)
{
        const struct fs_close *in = job->params;
        job->is_exclusive = true;
        return take_id(job, in->handle_id, err);
}

/* Its name is free at once; the file is closed when the last request that uses it is done. */
static int begin_close(struct job *job, UNUSED struct err *err)
{
        const struct fs_close *in = job->params;
        struct map *handles = &job->conn->open_files;
        struct open_file *h = open_file_find(handles, in->handle_id);
        job->own = h ? open_file_ref(h) : NULL;
        open_file_drop(handles, in->handle_id);
        return 0;
}

static int run_close(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_close *in = job->params;
        int r = 0;
        if (job->own && in->sync && fsync(open_file_fd(job->own)) < 0)
                r = -errno;
        /* Requests that run beside it may keep the file open: what its last close would tell nobody would hear. */
        if (r == 0 && job->own)
                r = fsop_flush(open_file_fd(job->own));
        if (r < 0)
                return fsop_fail(err, r);
        fs_write_nothing(w);
        return 0;
}

static const struct job_class close_class = {
        .prepare = prepare_close,
        .begin = begin_close,
        .run = run_close,
        .release = release_handle,
};

const struct method m_fs_open = { FS_METHOD("fs/open", fs_open), .job = &open_class };
const struct method m_fs_read_block = { FS_METHOD("fs/readBlock", fs_read_block), .job = &read_class };
const struct method m_fs_write_block = { FS_METHOD("fs/writeBlock", fs_write_block), .job = &write_class };
const struct method m_fs_close = { FS_METHOD("fs/close", fs_close), .job = &close_class };
