/* m_fs_read: the method fs/readFile: sends whole files in pieces. Each piece is read and encoded when the outgoing queue has room
 * for it, so that a large file needs little memory. */
#include "base/base64.h"
#include "base/fd.h"
#include "base/limits.h"
#include "confine/fs_helpers.h"
#include "core/job.h"
#include "core/server.h"
#include "files/answer.h"
#include "fsop/fsop.h"
#include "proto/fs.h"
#include "server/methods.h"
#include "server/open_file.h"

#include <errno.h>
#include <unistd.h>

/* A multiple of three, so that base64 pieces can be joined. The first piece, encoded and with the beginning of the answer, is just
 * below LIMIT_FRAME_OUT_BYTES. */
#define PIECE_BYTES (765 * KIB)
/* Enough for the JSON around content and id, or for an error in place of the rest. */
#define ENVELOPE_BYTES 1024
#define BROKEN_END \
        "!\"}" /* ends an answer that cannot be completed: clients see the exclamation mark, which is not base64 */

struct reading {
        int fd;
        uint64_t done;
};

static void release_reading(struct job *job)
{
        struct reading *reading = job->own;
        if (reading)
                open_file_close(job->server, reading->fd); /* -1 when the file was read to its end */
}

/* Returns an upper bound of the size of the whole answer for a file of `content` bytes. */
static uint64_t answer_bytes(const struct job *job, uint64_t content)
{
        size_t id = job->id.is_string ? jsonw_string_max(job->id.string) : 0;
        return base64_encoded_size((size_t)content) + ENVELOPE_BYTES + id;
}

/* Opens the file, and refuses a file that is too large: once the answer has begun, it cannot be taken back. */
static int begin_reading(struct job *job, const struct fs_path *in, struct stat *ret_st, struct err *err)
{
        struct reading *reading = arena_new(&job->arena, struct reading);
        reading->fd = -1;
        job->own = reading;
        const struct file_open how = { .path = in->path, .mode = FS_OPEN_READ, .follows = in->follows };
        int r = job_open_file(job, &how, &reading->fd, ret_st, err);
        if (r < 0)
                return r;
        if (ret_st->st_size > LIMIT_READ_FILE_BYTES)
                return fsop_refuse(err, "file is too large to read: limit is %lld bytes",
                                   LIMIT_READ_FILE_BYTES);
        if (answer_bytes(job, (uint64_t)ret_st->st_size) > job->max_message)
                return err_set(err, 0, -EMSGSIZE, RPC_ANSWER_TOO_LARGE, job->max_message);
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
                /* There is room for more than the file, so that one read also finds its end. Files in /proc have a size of 0. */
                if (st.st_size > 0 && (size_t)st.st_size < room)
                        room = ((size_t)st.st_size / 3 + 1) * 3;
                jsonw_object(w);
                jsonw_key(w, "dataBase64");
                jsonw_raw(w, S("\""));
        }
        ssize_t n = fs_encode(w->out, reading->fd, reading->done, room);
        if (n == -EMSGSIZE)
                return err_set(err, 0, -EMSGSIZE, RPC_ANSWER_TOO_LARGE, job->max_message);
        if (n < 0)
                return fsop_fail(err, (int)n);
        reading->done += (size_t)n;
        bool has_more = (size_t)n == room;
        if (reading->done > (uint64_t)LIMIT_READ_FILE_BYTES ||
            answer_bytes(job, reading->done) > job->max_message)
                return err_set(err, 0, -EFBIG,
                               "file is larger than it said, or has grown while it was read; read it in "
                               "blocks with fs/open");
        if (!has_more && buf_append(w->out, S("\"}")) < 0)
                return err_set(err, 0, -EMSGSIZE, RPC_ANSWER_TOO_LARGE, job->max_message);
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

static enum quick_answer read_quickly(struct job *job, struct jsonw *w)
{
        const struct fs_path *in = job->params;
        char content[LIMIT_QUICK_READ_BYTES + 1];
        size_t n;
        struct quick_fence fence;
        if (job->sandbox && !fs_helpers_reads_all(&job->server->fs_helpers, job->sandbox, &fence))
                return QUICK_NOT;
        enum quick_answer answer = quick_read(&job->server->quick, in->path.p, in->follows,
                                              job->sandbox ? &fence : NULL, content, &n);
        if (answer != QUICK_DONE)
                return answer;
        if (answer_bytes(job, n) > job->max_message)
                return QUICK_NOT;
        jsonw_object(w);
        jsonw_key(w, "dataBase64");
        jsonw_base64(w, slice_from(content, n));
        jsonw_object_end(w);
        return QUICK_DONE;
}

static void try_reading(struct job *job)
{
        const struct fs_path *in = job->params;
        job_try_quick(job, in->path, in->follows, true);
}

static const struct job_class read_file = { .has_large_answer = true,
                                            .run = run_read_file,
                                            .run_quick = read_quickly,
                                            .try_quick = try_reading,
                                            .broken_end = BROKEN_END,
                                            .is_quick_sandboxed = true,
                                            .release = release_reading };

const struct method read_methods[] = {
        { .name = "fs/readFile",
          .family = "filesystem",
          .needs = NEEDS_READY,
          METHOD_PARAMS(fs_path),
          METHOD_SANDBOX(fs_path),
          .job = &read_file },
};
const size_t read_method_count = ARRAY_LEN(read_methods);
