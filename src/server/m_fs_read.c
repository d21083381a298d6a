/* m_fs_read: fs/readFile: whole files in pieces, each read and encoded when the queue has room for it, so that the size
 * of a file costs no memory. */
#include "base/base64.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "fsop/fsop.h"
#include "proto/fs.h"
#include "server/filers.h"
#include "server/fs_internal.h"
#include "server/job.h"
#include "server/methods.h"
#include "server/open_file.h"

#include <errno.h>
#include <unistd.h>

/* Encoded, with the beginning of the answer in front, it is just below LIMIT_FRAME_OUT_BYTES; a multiple of three. */
#define PIECE_BYTES (765 * KIB)
#define ENVELOPE_BYTES 1024 /* around the content and the id, generously */

struct reading {
        int fd;
        uint64_t done;
};

static void release_reading(struct job *job)
{
        struct reading *reading = job->own;
        if (!reading)
                return;
        open_file_close(job->server, reading->fd); /* was not read to its end */
        free(reading);
}

/* Of an answer in all, whose content has so many bytes. */
static uint64_t answer_bytes(const struct job *job, uint64_t content)
{
        size_t id = job->id.is_string ? jsonw_string_max(job->id.string) : 0;
        return base64_encoded_size((size_t)content) + ENVELOPE_BYTES + id;
}

/* Opens the file. Refuses what could not be sent: after the first byte of an answer there is no way back. */
static int begin_reading(struct job *job, const struct fs_path *in, struct stat *ret_st, struct err *err)
{
        struct reading *reading = mem_new(struct reading);
        reading->fd = -1;
        job->own = reading;
        const struct filer_open how = { .path = in->path, .mode = FS_OPEN_READ, .follow = in->follow };
        int r = fs_open_file(job, &how, &reading->fd, ret_st, err);
        if (r < 0)
                return r;
        if (ret_st->st_size > LIMIT_READ_FILE_BYTES)
                return fsop_refuse(err, "file is too large to read: limit is %lld bytes",
                                   LIMIT_READ_FILE_BYTES);
        if (answer_bytes(job, (uint64_t)ret_st->st_size) > job->max_message)
                return err_set(err, 0, -EMSGSIZE, CONN_ANSWER_TOO_LARGE, job->max_message);
        return 0;
}

static int read_piece(struct job *job, struct jsonw *w, struct err *err)
{
        const struct fs_path *in = job->params;
        struct reading *reading = job->own;
        size_t room = PIECE_BYTES;
        if (!reading) {
                struct stat st;
                int r = begin_reading(job, in, &st, err);
                if (r < 0)
                        return r;
                reading = job->own;
                /* One byte more shows the end at once; files of /proc say that they are empty. */
                if (st.st_size > 0 && (size_t)st.st_size < room)
                        room = ((size_t)st.st_size / 3 + 1) * 3;
                jsonw_object(w);
                jsonw_key(w, "dataBase64");
                jsonw_raw(w, S("\""));
        }
        ssize_t n = fs_encode(w->out, reading->fd, reading->done, room);
        if (n == -EMSGSIZE)
                return err_set(err, 0, -EMSGSIZE, CONN_ANSWER_TOO_LARGE, job->max_message);
        if (n < 0)
                return fsop_fail(err, (int)n);
        reading->done += (size_t)n;
        bool has_more = (size_t)n == room;
        if (reading->done > (uint64_t)LIMIT_READ_FILE_BYTES ||
            answer_bytes(job, reading->done) > job->max_message)
                return err_set(err, 0, -EFBIG, "file has grown while it was read");
        if (!has_more && buf_append(w->out, S("\"}")) < 0)
                return err_set(err, 0, -EMSGSIZE, CONN_ANSWER_TOO_LARGE, job->max_message);
        return has_more ? 1 : 0;
}

static int run_read_file(struct job *job, struct jsonw *w, struct err *err)
{
        int r = read_piece(job, w, err);
        struct reading *reading = job->own;
        if (r <= 0)
                reading->fd = fd_close(reading->fd);
        return r;
}

static const struct job_class read_file = {
        .has_large_answer = true, .opens_boxed = true, .run = run_read_file, .release = release_reading
};

const struct method m_fs_read_file = { FS_METHOD("fs/readFile", fs_path), .job = &read_file };
