/* process_start: makes a process: its memory, its descriptors, and the request to the spawner.
 *
 * A command gets a terminal, or a pipe for each stream. The child's ends are closed here as soon as the request has been
 * made, since a stream ends only when all copies of its other end are closed. `started` and `failed` are handled in process.c.
 */
#include "base/fd.h"
#include "base/mem.h"
#include "proc/process_internal.h"
#include "proc/pty.h"
#include "spawner/pipe_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Closes stdin, stdout and stderr of the child: three pipes, or one terminal three times. */
static void ends_close(const int ends[static 3])
{
        for (int i = 0; i < 3; i++)
                if (i == 0 || ends[i] != ends[i - 1])
                        fd_close(ends[i]);
}

static int open_terminal(struct process *p, const struct process_request *req, int ret[static 3])
{
        int r = pty_open(p->rows ? p->rows : req->rows, p->cols ? p->cols : req->cols, &p->out[0].fd,
                         &ret[0]);
        if (r < 0)
                return r;
        p->stdin_fd = p->out[0].fd;
        ret[1] = ret[2] = ret[0];
        return 0;
}

/* The server's ends of the pipes never block, even when they were reported ready; the child's ends do, as programs expect. */
static int open_pipe(bool is_input, int *ret_ours, int *ret_childs)
{
        int fds[2];
        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        *ret_ours = fds[is_input];
        *ret_childs = fds[!is_input];
        return fd_set_nonblock(*ret_ours, true);
}

static int open_pipes(struct process *p, const struct process_request *req, int ret[static 3])
{
        int r = 0;
        if (req->has_stdin_pipe)
                r = open_pipe(true, &p->stdin_fd, &ret[0]);
        if (r == 0)
                r = open_pipe(false, &p->out[0].fd, &ret[1]);
        if (r == 0)
                r = open_pipe(false, &p->out[1].fd, &ret[2]);
        if (r < 0)
                ends_close(ret);
        return r;
}

/* Watches for nothing yet: output is not read before `started`. */
static int watch_output(struct process *p)
{
        int r = 0;
        for (size_t i = 0; i < ARRAY_LEN(p->out) && r == 0; i++) {
                struct process_stream *s = &p->out[i];
                if (s->fd >= 0)
                        r = watch_new(p->procs->loop, s->fd, 0, process_on_stream, s, &s->watch);
        }
        return r;
}

struct process *process_new(struct procs *ps, const struct process_events *events, void *owner)
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

bool process_has_begun(const struct process *p)
{
        return p->spawner_entry != NULL;
}

int process_begin(struct process *p, const struct process_request *req, struct err *err)
{
        struct procs *ps = p->procs;
        bool is_tty = p->is_tty = req->command->is_tty;
        p->settle_ms = req->settle_ms;
        p->is_stdin_open = p->had_stdin = is_tty || req->has_stdin_pipe;
        if (is_tty)
                p->out[0].stream = STREAM_PTY;

        int ends[3] = { -1, -1, -1 };
        int r = is_tty ? open_terminal(p, req, ends) : open_pipes(p, req, ends);
        if (r == 0) {
                const int stdio[] = { ends[0] >= 0 ? ends[0] : ps->null_fd, ends[1], ends[2] };
                r = watch_output(p);
                if (r == 0)
                        r = procs_add(ps, p, req->command, stdio, err);
                pipe_watch_begin(p->number); /* the command may run by now */
                ends_close(ends);
                pipe_watch_end();
        }
        if (r < 0 && !err->step) {
                err_set(err, 0, r, "%s", errno_text(r));
                err->step = is_tty ? "pty" : "stdio";
                err->os_errno = -r;
        }
        return r;
}
