/* process_start: a process is made: its memory, its descriptors, and the request to the spawner.
 *
 * A command gets a terminal, or a pipe for each stream. The child's ends are closed here as soon as the request has been
 * made, since a stream ends only when nobody holds its other side. What follows, `started` or `failed`, is in process.c.
 */
#include "base/fd.h"
#include "base/mem.h"
#include "proc/process_internal.h"
#include "proc/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

struct child_ends {
        int in, out, err;
};

static void child_ends_close(struct child_ends *ends)
{
        fd_close(ends->in);
        if (ends->out != ends->in)
                fd_close(ends->out);
        if (ends->err != ends->out)
                fd_close(ends->err);
}

static int open_terminal(struct process *p, const struct process_request *req, struct child_ends *ret)
{
        int slave;
        int r = pty_open(req->rows, req->cols, &p->out[0].fd, &slave);
        if (r < 0)
                return r;
        p->stdin_fd = p->out[0].fd;
        *ret = (struct child_ends){ slave, slave, slave };
        return 0;
}

/* Ours of the output pipes become non-blocking when they are watched; the child's ends block, as programs expect. */
static int open_output(int *ret_ours, int *ret_childs)
{
        int fds[2];
        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        *ret_ours = fds[0];
        *ret_childs = fds[1];
        return 0;
}

static int open_input(int *ret_ours, int *ret_childs)
{
        int fds[2];
        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        *ret_childs = fds[0];
        *ret_ours = fds[1];
        return fd_set_nonblock(fds[1], true);
}

static int open_pipes(struct process *p, const struct process_request *req, struct child_ends *ret)
{
        int r = 0;
        *ret = (struct child_ends){ -1, -1, -1 };
        if (req->pipe_stdin)
                r = open_input(&p->stdin_fd, &ret->in);
        if (r == 0)
                r = open_output(&p->out[0].fd, &ret->out);
        if (r == 0)
                r = open_output(&p->out[1].fd, &ret->err);
        if (r < 0)
                child_ends_close(ret);
        return r;
}

static struct process *process_new(struct procs *ps, const struct process_events *events, void *owner)
{
        struct process *p = mem_new(struct process);
        p->procs = ps;
        p->events = events;
        p->owner = owner;
        p->state = PROC_STARTING;
        p->next_seq = 1;
        p->exit_code = -1;
        p->stdin_fd = -1;
        list_init(&p->stdin_queue);
        for (size_t i = 0; i < ARRAY_LEN(p->out); i++)
                p->out[i] = (struct process_stream){ .process = p,
                                                     .stream = i ? STREAM_STDERR : STREAM_STDOUT,
                                                     .fd = -1 };
        output_init(&p->output, ps->retained_cap, &ps->retained_total);
        return p;
}

struct process *process_free(struct process *p)
{
        if (!p)
                return NULL;
        process_silence(p);
        output_release(&p->output);
        free(p);
        return NULL;
}

struct process *process_start(struct procs *ps, const struct process_request *req,
                              const struct process_events *events, void *owner, struct err *err)
{
        struct process *p = process_new(ps, events, owner);
        p->is_tty = req->is_tty;
        p->settle_ms = req->settle_ms;
        p->stdin_open = p->had_stdin = req->is_tty || req->pipe_stdin;
        if (req->is_tty)
                p->out[0].stream = STREAM_PTY;

        struct child_ends ends;
        int r = req->is_tty ? open_terminal(p, req, &ends) : open_pipes(p, req, &ends);
        if (r == 0) {
                struct spawn_request start = {
                        .argv = req->argv,
                        .env = req->env,
                        .candidates = req->candidates,
                        .cwd = req->cwd,
                        .stdin_fd = ends.in >= 0 ? ends.in : ps->null_fd,
                        .stdout_fd = ends.out,
                        .stderr_fd = ends.err,
                        .is_tty = req->is_tty,
                        .limits = req->limits,
                        .wants_cgroup = true,
                        .has_image = req->has_image,
                        .image_fd = req->image_fd,
                        .whose = req->whose,
                        .helpers = req->helpers,
                };
                r = procs_add(ps, p, &start);
                child_ends_close(&ends);
        }
        if (r < 0) {
                process_free(p);
                err_set(err, 0, r, "%s", errno_text(r));
                err->step = req->is_tty ? "pty" : "stdio";
                err->os_errno = -r;
                return NULL;
        }
        return p;
}
