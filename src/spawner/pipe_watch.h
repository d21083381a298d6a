/* pipe_watch: tells the spawner in which call on a command's pipe or terminal the server's loop is.
 *
 * The kernel has a lock for each pipe, and takes it in every read, write, ioctl and last close, also on a non-blocking
 * descriptor. A command can make the kernel keep that lock for as long as it likes: splice(2) and sendfile(2) between the pipe
 * and a socket wait for the socket with the lock held. A process that needs the lock meanwhile sleeps, and nothing wakes it, not
 * even SIGKILL. So the loop notes the begin and the end of each such call in a page that the spawner shares; and the spawner
 * ends the command when the loop sleeps there (spawner_held.c). That costs the loop two stores.
 *
 * Only the thread of the loop writes, which is the first of its process. The page is the same for all spawners of a process.
 */
#pragma once

#include "base/compat.h"

#include <stdatomic.h>
#include <sys/types.h>

struct pipe_watch {
        /* The high half counts the begins and ends of calls, so it is odd during a call. The low half is the number of the command;
         * 0 between calls. */
        _Atomic uint64_t now;
};
extern struct pipe_watch *pipe_watch;

/* Maps the page. To be called before the first spawner is made; does nothing when it was called before. Returns 0 or -errno. */
NODISCARD int pipe_watch_open(void);

/* The loop calls pipe_watch_begin before, and pipe_watch_end after, each system call on a pipe or terminal of the command `number`.
 * Such calls must not be nested. */
static inline void pipe_watch_begin(uint32_t number)
{
        uint64_t count = (atomic_load_explicit(&pipe_watch->now, memory_order_relaxed) >> 32) + 1;
        atomic_store_explicit(&pipe_watch->now, count << 32 | number, memory_order_release);
}

static inline void pipe_watch_end(void)
{
        uint64_t count = (atomic_load_explicit(&pipe_watch->now, memory_order_relaxed) >> 32) + 1;
        atomic_store_explicit(&pipe_watch->now, count << 32, memory_order_release);
}

/* Calls fd_close on a pipe or terminal of the command `number`, and notes the begin and the end of the call. */
int pipe_watch_close(uint32_t number, int fd);

/* ---- what the spawner sees ---- */

struct pipe_call {
        uint32_t count;  /* how many begins and ends of calls there were; no two calls have the same count */
        uint32_t number; /* the command whose pipe or terminal the call uses */
        bool is_under_way;
};
/* Returns the call in which the loop is now, or, unless is_under_way, was last. */
NODISCARD struct pipe_call pipe_watch_look(void);

enum pipe_sleep {
        PIPE_NO_SLEEP, /* the thread runs, or waits for a processor or for something that has an end */
        PIPE_MAYBE,    /* the sleep of the process cannot be interrupted, or its state is not known */
        PIPE_LOCKED, /* the process sleeps inside of a kernel function of pipes or terminals, and cannot be interrupted */
};
struct pipe_sleeper {
        enum pipe_sleep sleep;
        bool is_ending; /* the process was killed, or exits */
};
/* Returns what the first thread of a process does. `has_proc`: /proc shows our pid namespace (pipe_watch_has_proc). */
NODISCARD struct pipe_sleeper pipe_watch_ask(pid_t pid, bool has_proc);
NODISCARD bool pipe_watch_has_proc(void);
/* Answers pipe_watch_ask from the texts of /proc/PID/stat and /proc/PID/wchan; NULL: the file cannot be read. */
NODISCARD struct pipe_sleeper pipe_watch_judge(const char *stat, const char *wchan);
