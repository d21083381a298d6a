/* flow: passes bytes on from one socket to another. */
#include "egress/flow.h"

#include "base/fd.h"
#include "base/mem.h"
#include "egress/pipes.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES ((size_t)64 * 1024)
#define ROUNDS 8             /* reads of one call */
#define FULL_READS_SPLICED 2 /* so many full reads in a row promise more */

void flow_init(struct flow *f, int from, int to, uint64_t left)
{
        *f = (struct flow){ .from = from, .to = to, .left = left };
}

void flow_release(struct flow *f)
{
        f->pipe = pipes_give(f->pipe, f->in_pipe == 0);
        f->in_pipe = 0;
        free(TAKE(f->kept));
        f->kept_n = f->kept_at = f->kept_room = 0;
}

void flow_give(struct flow *f, struct slice bytes)
{
        if (bytes.n == 0)
                return;
        if (f->kept_n + bytes.n > f->kept_room) {
                f->kept_room = f->kept_n + bytes.n;
                f->kept = mem_realloc(f->kept, f->kept_room);
        }
        memcpy(f->kept + f->kept_n, bytes.p, bytes.n);
        f->kept_n += bytes.n;
}

static void count_read(struct flow *f, size_t n)
{
        if (f->left != FLOW_ENDLESS)
                f->left -= n;
}

/* Returns how many of the bytes the receiver took, which may be none, or -errno. */
static ssize_t send_some(struct flow *f, const char *p, size_t n)
{
        ssize_t sent = send(f->to, p, n, MSG_NOSIGNAL);
        if (sent < 0)
                return fd_is_passing(errno) ? 0 : -errno;
        f->bytes += (size_t)sent;
        return sent;
}

static int push_kept(struct flow *f)
{
        ssize_t n = send_some(f, f->kept + f->kept_at, f->kept_n - f->kept_at);
        if (n < 0)
                return (int)n;
        f->kept_at += (size_t)n;
        if (f->kept_at < f->kept_n)
                return 0;
        free(TAKE(f->kept)); /* an idle connection holds no memory */
        f->kept_n = f->kept_at = f->kept_room = 0;
        return 0;
}

static int push_pipe(struct flow *f)
{
        while (f->in_pipe > 0) {
                ssize_t n = splice(f->pipe->out, NULL, f->to, NULL, f->in_pipe,
                                   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
                if (n < 0)
                        return fd_is_passing(errno) ? 0 : -errno;
                if (n == 0)
                        return -EPIPE;
                f->in_pipe -= (size_t)n;
                f->bytes += (size_t)n;
        }
        return 0;
}

/* Copies one read. Returns 1 when more may be there, 0, or -errno. */
static int copy(struct flow *f)
{
        static char bytes[READ_BYTES];
        size_t room = (size_t)MIN((uint64_t)sizeof(bytes), f->left);
        ssize_t n = recv(f->from, bytes, room, 0);
        if (n < 0)
                return fd_is_passing(errno) ? 0 : -errno;
        if (n == 0) {
                f->has_ended = true;
                return 0;
        }
        count_read(f, (size_t)n);
        f->full_reads = (size_t)n == sizeof(bytes) ? f->full_reads + 1 : 0;
        ssize_t sent = send_some(f, bytes, (size_t)n);
        if (sent < 0)
                return (int)sent;
        flow_give(f, slice_from(bytes + sent, (size_t)(n - sent)));
        return f->full_reads > 0;
}

/* As copy, through the pipe. */
static int move(struct flow *f)
{
        size_t room = (size_t)MIN((uint64_t)PIPES_BYTES, f->left);
        ssize_t n = splice(f->from, NULL, f->pipe->in, NULL, room, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (n < 0)
                return fd_is_passing(errno) ? 0 : -errno;
        if (n == 0) {
                f->has_ended = true;
                return 0;
        }
        count_read(f, (size_t)n);
        f->in_pipe = (size_t)n;
        int r = push_pipe(f);
        return r < 0 ? r : 1;
}

static void choose(struct flow *f)
{
        if (!f->pipe && f->full_reads >= FULL_READS_SPLICED)
                f->pipe = pipes_take();
}

int flow_run(struct flow *f)
{
        int r = f->kept_n > 0 ? push_kept(f) : 0;
        if (r == 0 && f->in_pipe > 0)
                r = push_pipe(f);
        for (int round = 0; r >= 0 && flow_wants_read(f) && round < ROUNDS; round++) {
                choose(f);
                r = f->pipe ? move(f) : copy(f);
                if (r == 0)
                        break;
        }
        /* A pause in the flow gives the pipe to others. */
        if (f->pipe && r == 0 && f->in_pipe == 0) {
                f->pipe = pipes_give(f->pipe, true);
                f->full_reads = 0;
        }
        return r < 0 ? r : 0;
}
