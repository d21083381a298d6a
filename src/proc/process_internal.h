/* process_internal: what the files of a process share: its start (process_start.c), its states (process.c), its output
 * (streams.c), its stdin (stdin.c), and the table of all processes with the spawner's events (procs.c). */
#pragma once

#include "proc/process.h"

/* Functions of stdin.c. */
void stdin_flush(struct process *p);  /* writes as much as the descriptor takes */
void stdin_refuse(struct process *p); /* accepts no more, drops the queue, tells the owner once */
void stdin_close(struct process *p);  /* as stdin_refuse; and the child reads the end of its stdin */

/* Functions of streams.c, and why a read stopped. */
enum read_stop {
        STOP_FULL,    /* as much was read as was asked for */
        STOP_EMPTY,   /* nothing more now */
        STOP_ENDED,   /* nothing more ever */
        STOP_TROUBLE, /* the kernel has no memory at the moment: there may be more */
};
enum read_stop stream_read_chunk(struct process_stream *s); /* reads one chunk, if there is one */
void stream_close(struct process_stream *s);
/* Stops watching the terminal for a moment. For a terminal that no process has open, while the session leader lives and may open it
 * again: closing the terminal would send a SIGHUP, and a watch would always report it ready. */
void stream_watch_later(struct process_stream *s);
bool streams_ended(const struct process *p);
void streams_drain(struct process *p); /* reads what is there now, up to a limit */
/* Sets what the terminal or a pipe is watched for, after a change of pause or of the stdin queue. */
void process_watch_streams(struct process *p);

/* process.c: called when a stream is ready; `arg` is a struct process_stream */
void process_on_stream(void *arg, unsigned events);
/* process.c: called on the reports of the spawner */
void process_on_started(struct process *p, pid_t pid);
void process_on_failed(struct process *p, const char *step, int os_errno);
void process_on_exited(struct process *p, const struct spawn_exit *exit);
void process_on_gone(struct process *p);

/* procs.c: gives the process a number and sends the start. Returns 0 or -errno, with err filled when there is no spawner. */
NODISCARD int procs_add(struct procs *ps, struct process *p, const struct command_spec *command,
                        const int stdio[static 3], struct err *err);
/* Tells the spawner to kill the tree. Sends nothing when the spawner of the process was lost: its keepers end the tree already. */
void procs_kill(struct process *p);
