/* flow: reads and writes files through the library, or on this machine by their descriptors. */
#include "patch/flow.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <unistd.h>

#define WINDOW 8 /* pieces under way at once */

struct flow {
        struct farhand_file *far; /* NULL: `near` */
        int near;                 /* -1: none */
};

static int fail(struct err *err, const struct farhand_error *error)
{
        err->os_errno = farhand_error_errno(error);
        return err_set(err, error->rpc_code, error->code, "%s", error->text);
}

static int fail_errno(struct err *err, int os_errno)
{
        err->os_errno = os_errno;
        return err_set(err, 0, -os_errno, "%s (os error %d)", errno_text(os_errno), os_errno);
}

struct flow *flow_open(struct asks *s, const char *path, bool is_written, struct err *err)
{
        struct farhand_file_options options = FARHAND_FILE_OPTIONS_INIT;
        struct farhand_error error;
        struct flow *f = mem_new(struct flow);
        f->near = -1;
        options.mode = is_written ? FARHAND_FILE_REPLACE : FARHAND_FILE_READ;
        options.window = WINDOW;
        options.block_bytes = FLOW_PIECE_BYTES;
        options.refuse_links = true;
        if (s->near)
                f->near = s->near->open(s->near->arg, path, is_written, err);
        else
                f->far = farhand_file_open(s->client, path, &options, &error);
        if (!s->near && !f->far)
                (void)fail(err, &error);
        return f->far || f->near >= 0 ? f : flow_close(f);
}

struct flow *flow_close(struct flow *f)
{
        if (f) {
                farhand_file_free(f->far);
                fd_close(f->near);
                free(f);
        }
        return NULL;
}

ssize_t flow_read(struct flow *f, char *buf, size_t n, struct err *err)
{
        struct farhand_error error;
        int64_t got;
        if (!f->far) {
                do
                        got = read(f->near, buf, n);
                while (got < 0 && errno == EINTR);
                return got < 0 ? fail_errno(err, errno) : (ssize_t)got;
        }
        while ((got = farhand_file_read(f->far, buf, n, &error)) == -EAGAIN)
                if (farhand_file_wait(f->far, -1, &error) < 0)
                        break;
        return got < 0 ? fail(err, &error) : (ssize_t)got;
}

int flow_write(struct flow *f, struct slice bytes, struct err *err)
{
        struct farhand_error error;
        if (!f->far) {
                int r = fd_write_all(f->near, bytes);
                return r < 0 ? fail_errno(err, -r) : 0;
        }
        while (bytes.n > 0) {
                int64_t put = farhand_file_write(f->far, bytes.p, bytes.n, &error);
                if (put == -EAGAIN)
                        put = farhand_file_wait(f->far, -1, &error);
                if (put < 0)
                        return fail(err, &error);
                bytes = slice_from(bytes.p + put, bytes.n - (size_t)put);
        }
        return 0;
}

int flow_finish(struct flow *f, struct err *err)
{
        struct farhand_error error;
        int r = 0;
        while (f->far && (r = farhand_file_finish(f->far, &error)) == -EAGAIN)
                if (farhand_file_wait(f->far, -1, &error) < 0)
                        break;
        return r < 0 ? fail(err, &error) : 0;
}
