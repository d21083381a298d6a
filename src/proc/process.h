/* process: one command from start to end: its streams, its numbers, its exit.
 *
 * Three events end a process, in any order: the command's first process (the root) exits, its output ends, the whole tree is
 * gone. Only this module tells them apart. The loop reads output as it comes; it is numbered, retained and handed to the owner.
 * While the owner has paused the process nothing is read, so that the kernel makes the command wait.
 *
 * Knows nothing of clients, sessions or JSON. The owner frees a process after its `gone` event, also when the start failed.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "loop/loop.h"
#include "proc/lineage.h"
#include "proc/output.h"
#include "proc/spawn.h"
#include "proc/spawn_deaths.h"

struct process;
struct procs;
struct spawner_entry;

/* Events for the owner. They are never called from inside one of the owner's calls into the process, except where said. */
struct process_events {
        void (*started)(struct process *p);
        void (*failed)(struct process *p, const char *step, int os_errno); /* `gone` follows */
        void (*output)(struct process *p, enum stream stream, uint64_t seq, struct slice bytes);
        void (*exited)(struct process *p, uint64_t seq);
        void (*closed)(struct process *p, uint64_t seq);    /* the streams have ended: no output follows */
        void (*stdin_moved)(struct process *p);             /* there is room again, or stdin has closed */
        void (*signalled)(struct process *p, int os_errno); /* answers process_signal, in order */
        /* The tree is gone: the last event, unless a process outside of the tree holds a stream or the owner has paused: then
         * `closed` follows later. */
        void (*gone)(struct process *p);
};

enum process_state {
        PROC_STARTING,
        PROC_RUNNING,
        PROC_DRAINED, /* the streams have ended, the root has not exited */
        PROC_EXITED,  /* the root has exited, another process holds a stream */
        PROC_CLOSED,
        PROC_STATES,
};

struct process_stream {
        struct process *process;
        enum stream stream;
        int fd; /* -1 when the stream has ended */
        struct watch *watch;
        struct timer *retry; /* for a terminal that no process has open now: looks again later */
};

struct process {
        struct procs *procs;
        const struct process_events *events;
        void *owner;
        uint32_t number;
        struct spawner_entry *spawner_entry; /* the spawner that its keeper descends from */
        enum process_state state;
        pid_t pid; /* 0 before `started` */
        bool is_tty;
        bool is_paused;
        bool is_killed; /* process_kill was called */
        bool is_ending; /* the root has ended; its exit is being handled */
        bool is_gone;
        uint32_t settle_ms;           /* how long the exit may wait for output (process_request) */
        struct timer *settle;         /* the root has ended, but its exit waits for more output */
        bool is_given_up;             /* the spawner was lost during the start, and `failed` was called */
        bool is_stdin_open;           /* process_write_kept may accept bytes */
        bool is_stdin_ending;         /* stdin is to be closed when the queue is empty */
        bool had_stdin;               /* stdin was open once */
        struct process_stream out[2]; /* [0] stdout or the terminal, [1] stderr */
        int stdin_fd;                 /* a pipe, or the number of the terminal's descriptor; -1 when closed */
        struct watch *stdin_watch;    /* for a pipe; a terminal uses out[0].watch */
        struct list stdin_queue;
        size_t stdin_queued;     /* bytes */
        unsigned stdin_failures; /* writes in a row that failed, and not because the pipe is full or closed */
        struct output output;
        uint64_t next_seq;
        int exit_code;          /* 0-255, 128 + signal, or -1 when it is not known; valid once exited */
        struct spawn_exit exit; /* as the keeper reported it; zero when it did not */
        uint64_t exited_mono_ms;
        bool has_failed;      /* the keeper was lost: how the command ended is not known */
        bool has_lost_output; /* a read failed, with an error that lasts */
        int64_t started_at_ms, last_output_at_ms; /* wall clock; 0 = not yet */
        int exit_signal;                          /* the signal that ended the command, or 0 */
        uint32_t failed_op;                       /* the plan's operation that failed; valid in `failed` */
        uint16_t rows, cols; /* 0, or the size that a terminal was given before the start */
};

/* All processes of one server, and its spawner. */
struct procs {
        struct loop *loop;
        struct spawner_entry *current; /* the spawner in use; NULL when none could be started */
        struct spawner *spawner;       /* the server's end of `current` */
        struct list retired;    /* spawner_entry::link: killed spawners, whose keepers may still report */
        struct process **table; /* by number % table_size; numbers are unique modulo that while in use */
        uint32_t table_size, used, next_number;
        size_t chunk_bytes;      /* the most that one turn of the loop reads from one stream */
        uint64_t retained_cap;   /* bytes per process */
        uint64_t retained_total; /* bytes of memory of all processes */
        uint64_t stdin_total;    /* bytes queued for all processes */
        int null_fd;             /* /dev/null, the stdin of commands without one */
        bool is_sweeping;        /* a spawner was lost: the server may have adopted processes */
        struct spawn_deaths deaths;
        struct timer *retry;          /* fires when the next spawner may be started */
        pid_t others[LINEAGE_OTHERS]; /* children that are no commands, until they are reaped; 0: none */
        char *scratch;                /* a buffer of chunk_bytes */
        /* May take a large arena that process_write_kept took, to free it on another thread; what it leaves in `a` is freed by the
         * caller. NULL: the caller frees everything. */
        void (*free_arena)(void *arg, struct arena *a);
        void *free_arg;
};

NODISCARD int procs_init(struct procs *ps, struct loop *loop, size_t chunk_bytes, uint64_t retained_cap,
                         struct err *err);
/* Fills in why no spawner can run here, with step and remedy for a client. Returns false when a spawner can
 * run, as far as is known. */
bool procs_explain(const struct procs *ps, struct err *err);
/* Notes a child of the server that is no command: it is not ended when a spawner is lost. */
void procs_add_other(struct procs *ps, pid_t pid);
/* To be called on SIGCHLD: reaps, and ends the processes that the server adopted when a spawner and a keeper were killed. */
void procs_reap(struct procs *ps);
void procs_release(struct procs *ps); /* ends everything that runs; frees no process */

/* Says what any process descends from; `proc_dir` as for lineage_find. */
NODISCARD enum lineage procs_lineage(const struct procs *ps, pid_t pid, int proc_dir);

struct process_request {
        const struct command_spec *command;
        bool has_stdin_pipe;
        uint16_t rows, cols; /* the size of a terminal */
        /* For an owner that judges a failure by the output. When the exit code is not 0, all available output is read before
         * `exited`, also while output is paused; and while another process still holds a stream open, `exited` waits this long for
         * one more chunk. */
        uint32_t settle_ms;
};

/* Makes a process in state PROC_STARTING. Its start is not asked for yet: until process_begin it takes no orders and
 * has no events. */
NODISCARD struct process *process_new(struct procs *ps, const struct process_events *events, void *owner);
/* Asks for the start. Returns 0, and `started` or `failed` follows; or -errno with err filled: then nothing was started, and the
 * process can only be freed. */
NODISCARD int process_begin(struct process *p, const struct process_request *req, struct err *err);
bool process_has_begun(const struct process *p);
/* To be called only after `gone`, before process_begin, or when the server ends. NULL is fine; returns NULL. */
struct process *process_free(struct process *p);

/* Closes the streams and stdin, so that no events but `gone` and `signalled` follow. */
void process_silence(struct process *p);

bool process_has_exited(const struct process *p);

/* Writes to stdin. Returns 0; -EAGAIN when so much is queued already that the caller must hold this write back until stdin_moved;
 * -ENOBUFS when all stdin queues together are full; -EPIPE when stdin is closed or was never open. `kept` is the arena with the
 * bytes. When some of the bytes have to wait, the queue takes the arena, and *kept is empty afterwards, also when the call fails.
 * Otherwise the arena is left alone. NULL: the bytes that have to wait are copied. */
NODISCARD int process_write_kept(struct process *p, struct slice bytes, struct arena *kept);

enum stdin_close { STDIN_NOW_CLOSED, STDIN_ALREADY_CLOSED, STDIN_NEVER_OPEN, STDIN_HAS_NO_END };
/* Ends the input, so that later writes return -EPIPE: a pipe is closed when the queue is written, and a terminal in canonical mode
 * gets its end-of-file character. A raw terminal has no such character (STDIN_HAS_NO_END), and stays open. */
enum stdin_close process_close_stdin(struct process *p);

/* Sets the size of the terminal. Returns 0, also when the process has exited, or -ENOTTY when it has no terminal. */
NODISCARD int process_resize(struct process *p, uint16_t rows, uint16_t cols);

void process_pause(struct process *p, bool paused);
void process_signal(struct process *p, int signo, enum spawn_scope scope);
/* Ends the whole tree now; stdin is closed, and `exited` and `closed` follow, also when another process holds a stream. */
void process_kill(struct process *p);
/* Ends the processes that are left: as process_kill, also for a process that has exited. */
void process_kill_rest(struct process *p);
