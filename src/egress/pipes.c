/* pipes: a pool of pipes for splice(2). */
#include "egress/pipes.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"

#include <fcntl.h>
#include <unistd.h>

#define IDLE_MAX 8

static struct pipe *idle[IDLE_MAX];
static size_t idle_count, count;

static struct pipe *pipe_free(struct pipe *p)
{
        fd_close(p->in);
        fd_close(p->out);
        free(p);
        count--;
        return NULL;
}

struct pipe *pipes_take(void)
{
        int ends[2];
        if (idle_count > 0)
                return idle[--idle_count];
        if (count == LIMIT_EGRESS_PIPES || pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
                return NULL;
        struct pipe *p = mem_new(struct pipe);
        *p = (struct pipe){ .in = ends[1], .out = ends[0] };
        (void)fcntl(p->in, F_SETPIPE_SZ, PIPES_BYTES); /* a small pipe is slower, and works the same */
        count++;
        return p;
}

struct pipe *pipes_give(struct pipe *p, bool is_empty)
{
        if (!p)
                return NULL;
        if (!is_empty || idle_count == IDLE_MAX)
                return pipe_free(p);
        idle[idle_count++] = p;
        return NULL;
}

void pipes_release(void)
{
        while (idle_count > 0)
                (void)pipe_free(idle[--idle_count]);
}
