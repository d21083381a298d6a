/* watch_exec: follows one execve with ptrace (watch_exec.h). */
#include "intercept/watch_exec.h"

#include "base/sys.h"
#include "intercept/caller_memory.h"
#include "keeper/intercepted.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#define AUXV_BYTES 4096
#define INTERPRETER_BYTES 4096 /* what an interpreter puts in front of the arguments */

static void watch_release(struct watch_exec *w)
{
        buf_release(&w->path);
        buf_release(&w->argv_text);
}

static struct buf buf_move(struct buf *b)
{
        struct buf moved = *b;
        buf_init(b, moved.cap);
        return moved;
}

int watch_exec_begin(struct watch_exec *w, struct caller *c)
{
        *w = (struct watch_exec){ .thread = c->thread, .process = c->status.process };
        if (caller_look(c, &w->file) < 0)
                w->file = (struct stat){ .st_ino = 0 };
        if (ptrace(PTRACE_SEIZE, c->thread, 0, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) < 0) {
                int r = -errno;
                (void)caller_fail(c, -EACCES);
                return r;
        }
        (void)ptrace(PTRACE_INTERRUPT, c->thread, 0, 0);
        w->is_fd = c->is_at && c->dir != AT_FDCWD && (c->text.n == 1 || c->text.p[0] != '/');
        w->path = buf_move(&c->text);
        w->argv_text = buf_move(&c->argv_text);
        w->argc = c->argc;
        /* When the caller has died, its number may be that of another process by now: that process is let go at its next stop. */
        w->is_gone = caller_continue(c) < 0;
        return 0;
}

/* Takes the next argument, without its NUL. Returns false when there is none. */
static bool argument_next(struct slice *rest, struct slice *ret)
{
        if (rest->n == 0)
                return false;
        *ret = slice_split(rest, 0);
        return true;
}

/* An interpreter of a script gets its own name, at most one argument of its own, the path of the script, and the arguments behind argv[0].
 * An interpreter may be a script itself; each adds at most two. */
static bool is_interpreted(struct slice decided, size_t argc, struct slice path, struct slice found)
{
        struct slice argument, arguments = slice_from(NULL, 0);
        if (argc > 0) {
                size_t first = strlen(decided.p) + 1;
                arguments = slice_from(decided.p + first, decided.n - first);
        }
        if (!argument_next(&found, &argument))
                return false;
        while (argument_next(&found, &argument))
                if (slice_eq(argument, path))
                        return slice_eq(found, arguments);
        return false;
}

bool watch_is_same(const struct watch_exec *w, const struct watch_found *found)
{
        struct slice decided_path = slice_from(w->path.p, w->path.n - 1), decided = buf_slice(&w->argv_text);
        /* The kernel names a file that was given by a descriptor /dev/fd/N, or /dev/fd/N/PATH. */
        if (!w->is_fd && !slice_eq(decided_path, found->path))
                return false;
        if (w->is_fd && !slice_starts(found->path, S("/dev/fd/")))
                return false;
        if (!found->is_same_file)
                return is_interpreted(decided, w->argc, found->path, found->argv_text);
        /* Without arguments the kernel passes an empty one. */
        return w->argc > 0 ? slice_eq(decided, found->argv_text)
                           : slice_eq(found->argv_text, slice_from("", 1));
}

/* Compares at the stop behind execve. What cannot be read counts as a difference. */
static bool is_same(const struct watch_exec *w)
{
        _buf_ struct buf path = BUF_INIT(PATH_MAX), auxv = BUF_INIT(AUXV_BYTES),
                         argv_text = BUF_INIT(w->argv_text.n + w->path.n + INTERPRETER_BYTES);
        struct watch_found found = { .is_same_file = false };
        uint64_t at;
        if (caller_proc_read(w->process, "auxv", &auxv) < 0 ||
            proc_auxv_find(buf_slice(&auxv), AT_EXECFN, &at) < 0 ||
            caller_memory_string(w->process, at, &path) < 0 ||
            caller_proc_read(w->process, "cmdline", &argv_text) < 0)
                return false;
        struct caller now = { .thread = w->process };
        found.path = slice_from(path.p, path.n - 1);
        found.argv_text = buf_slice(&argv_text);
        found.is_same_file = w->file.st_ino != 0 && caller_runs(&now, w->file.st_dev, w->file.st_ino);
        return watch_is_same(w, &found);
}

/* Waits for the end of a process that was killed: before that its parent would not learn of it. */
static void await_end(pid_t pid)
{
        int status;
        for (;;) {
                pid_t r = intercepted_tracee_wait(pid, &status, 0);
                if (r != -EINTR && (r != pid || !WIFSTOPPED(status)))
                        return;
        }
}

/* Detaches from a process that has stopped, and passes the signal of the stop on. */
static void detach(pid_t pid, int status)
{
        int event = status >> 16;
        if (ptrace(PTRACE_DETACH, pid, 0, event ? 0 : WSTOPSIG(status)) < 0)
                await_end(pid);
}

static void kill_stopped(pid_t pid)
{
        (void)sys_kill(pid, SIGKILL);
        await_end(pid);
}

static enum watch_result stopped(struct watch_exec *w, pid_t pid, int status)
{
        if (!WIFSTOPPED(status))
                return WATCH_GONE;
        if (w->is_gone || status >> 16 != PTRACE_EVENT_EXEC || is_same(w)) {
                detach(pid, status);
                return WATCH_SAME;
        }
        kill_stopped(pid);
        return WATCH_CHANGED;
}

/* Returns whether nobody traces the process any more. A watched thread that is killed by the execve of another thread leaves its process
 * behind: that may be a child of this keeper, so that waiting for it does not fail. */
static bool is_let_go(pid_t process)
{
        struct caller now = { .thread = process };
        return caller_read_status(&now) < 0 || now.status.tracer == 0;
}

/* A thread that executes a program gets the number of its process, and its own ends in the same moment. The process is looked at only when
 * the thread is no more: its stop could come between the two looks, and a stop is shown once. */
enum watch_result watch_exec_step(struct watch_exec *w)
{
        int status;
        pid_t pid = intercepted_tracee_wait(w->thread, &status, WNOHANG);
        if (pid < 0 && pid != -EINTR && w->process != w->thread) {
                pid = intercepted_tracee_wait(w->process, &status, WNOHANG);
                if (pid == 0 && is_let_go(w->process))
                        pid = -ECHILD;
        }
        if (pid == 0 || pid == -EINTR)
                return WATCH_WAITS;
        enum watch_result result = pid > 0 ? stopped(w, pid, status) : WATCH_GONE;
        watch_release(w);
        return result;
}
