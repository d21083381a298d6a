/* process: one command from start to end: its streams, its numbers, its exit.
 *
 * Three events end a life, in any order: the root exits, its output ends, the whole tree is gone. They are told apart
 * here and nowhere else. Output is read by the loop as it comes, numbered, retained and handed to the owner; while the
 * owner has paused the process nothing is read, so that the kernel makes the child wait.
 *
 * Knows nothing of clients, sessions or JSON. The owner frees a process after its `gone` event (or a failed start's).
 */
#pragma once

#include "base/err.h"
#include "base/slice.h"
#include "loop/loop.h"
#include "proc/output.h"
#include "proc/spawn.h"

struct process;
struct procs;
struct spawn_line;

/* What the owner hears, never from inside one of its own calls into the process except where said. */
struct process_events {
        void (*started)(struct process *p);
        void (*failed)(struct process *p, const char *step, int os_errno); /* then gone */
        void (*output)(struct process *p, enum stream stream, uint64_t seq, struct slice bytes);
        void (*exited)(struct process *p, uint64_t seq);
        void (*closed)(struct process *p,
                       uint64_t seq);           /* exited and the streams have ended: nothing follows */
        void (*stdin_moved)(struct process *p); /* there is room again, or stdin has closed */
        void (*signalled)(struct process *p, int os_errno); /* answers process_signal, in order */
        /* The tree is gone: the last event, unless a stranger holds a stream or the owner has paused: then `closed`
         * follows when they let go. */
        void (*gone)(struct process *p);
};

enum process_state {
        PROC_STARTING,
        PROC_RUNNING,
        PROC_DRAINED, /* the streams have ended, the root has not */
        PROC_EXITED,  /* the root has exited, somebody holds a stream */
        PROC_CLOSED,
        PROC_STATES,
};

struct process_stream {
        struct process *process;
        enum stream stream;
        int fd; /* -1 when it has ended */
        struct watch *watch;
        struct timer *retry; /* a terminal that nobody holds now: looked at again later */
};

struct process {
        struct procs *procs;
        const struct process_events *events;
        void *owner;
        uint32_t number;
        struct spawn_line *line; /* whose keeper it has */
        enum process_state state;
        pid_t pid; /* 0 before `started` */
        bool is_tty;
        bool is_paused;
        bool is_killed; /* process_kill was called */
        bool is_ending; /* the root has ended; its exit is being worked off */
        bool is_gone;
        uint32_t settle_ms;   /* as asked for */
        struct timer *settle; /* the root has ended, but its exit waits for one more piece of output */
        bool is_given_up;     /* its start was under way when the spawner was lost: `failed` has been said */
        bool stdin_open;      /* process_write may accept */
        bool stdin_ends;      /* to be closed when the queue is empty */
        bool had_stdin;       /* it was open once */
        struct process_stream out[2]; /* [0] stdout or the terminal, [1] stderr */
        int stdin_fd;                 /* a pipe, or a duplicate number of the terminal's; -1 when closed */
        struct watch *stdin_watch;    /* of a pipe; the terminal's is out[0].watch */
        struct list stdin_queue;
        size_t stdin_queued; /* bytes */
        struct output output;
        uint64_t next_seq;
        int exit_code;          /* 0-255, 128 + signal, or -1 when nobody knows; valid once exited */
        struct spawn_exit exit; /* as the keeper reported it; zero when nobody did */
        uint64_t exited_mono_ms;
        bool has_failed;                          /* the keeper was lost: how it ended nobody knows */
        int64_t started_at_ms, last_output_at_ms; /* wall clock; 0 = not yet */
        int exit_signal;                          /* 0 when it was none */
        uint32_t failed_op;                       /* of the sandbox's plan; valid with `failed` */
};

/* All processes of one server, and its spawner. */
struct procs {
        struct loop *loop;
        struct spawn_line *line; /* the spawner in use; NULL when none could be started */
        struct spawner *spawner; /* its end */
        struct list retired;     /* spawn_line::link: killed, but their keepers may still report */
        struct process **table;  /* by number % table_size; numbers are unique modulo that while in use */
        uint32_t table_size, used, next_number;
        size_t chunk_bytes;      /* the most that one turn reads of one stream */
        uint64_t retained_cap;   /* bytes per process */
        uint64_t retained_total; /* memory of all */
        uint64_t stdin_total;    /* bytes queued for all */
        int null_fd;             /* /dev/null, the stdin of commands without one */
        bool is_sweeping;        /* a spawner was lost: there may be children that nobody owns */
        pid_t spared;            /* a child that is no command, until it is reaped; 0: none */
        char *scratch;           /* chunk_bytes */
};

NODISCARD int procs_init(struct procs *ps, struct loop *loop, size_t chunk_bytes, uint64_t retained_cap,
                         struct err *err);
/* Call on SIGCHLD: reaps, and ends whatever the server adopted when a spawner and a keeper were killed. */
void procs_reap(struct procs *ps);
void procs_release(struct procs *ps); /* ends everything that runs; frees no process */

struct process_request {
        const char *const *argv;
        const char *const *env;
        const char *const *candidates;
        const char *cwd;
        bool is_tty;
        bool pipe_stdin;
        uint16_t rows, cols; /* of a terminal */
        /* For an owner who judges a failure by the output: when the exit code is not 0, all that is there is read before
         * `exited`, paused or not; and while somebody still holds a stream, so long is waited for one more piece. */
        uint32_t settle_ms;
        struct spawn_limits limits;
        bool has_image;
        int image_fd;   /* the sandbox, borrowed */
        uint64_t whose; /* as in spawn.h, these two */
        uint32_t helpers;
};

/* Asks for a start; `started` or `failed` follows. NULL with err filled when nothing was begun. */
NODISCARD struct process *process_start(struct procs *ps, const struct process_request *req,
                                        const struct process_events *events, void *owner, struct err *err);
/* Only after `gone`, or never heard of again (server end). NULL is fine; returns NULL. */
struct process *process_free(struct process *p);

/* No more events but `gone` and `signalled`: streams and stdin are closed. */
void process_silence(struct process *p);

bool process_has_exited(const struct process *p);

/* Copies what stdin does not take at once. 0; -EAGAIN when so much waits already that the caller must hold this write
 * back until stdin_moved; -ENOBUFS when all stdin queues together are full; -EPIPE when stdin is closed or was never open. */
NODISCARD int process_write(struct process *p, struct slice bytes);

enum stdin_close { STDIN_NOW_CLOSED, STDIN_ALREADY_CLOSED, STDIN_NEVER_OPEN };
/* No more input: a pipe is closed when what is queued is written; a terminal in canonical mode gets its end-of-file
 * character, a raw one nothing. Later writes are -EPIPE. */
enum stdin_close process_close_stdin(struct process *p);

/* -ENOTTY when it has no terminal; 0 also when it has exited. */
NODISCARD int process_resize(struct process *p, uint16_t rows, uint16_t cols);

void process_pause(struct process *p, bool paused);
void process_signal(struct process *p, int signo, enum spawn_scope scope);
/* Ends the whole tree now; stdin is closed, and `exited` and `closed` follow without waiting for holders. */
void process_kill(struct process *p);
/* Ends what a process left behind: as process_kill, also for one that has exited. */
void process_kill_rest(struct process *p);
