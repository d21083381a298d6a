/* process_internal: between the files of one process: how it is made (process_start.c), its life (process.c), its output
 * (streams.c), its stdin (stdin.c), and the table of all with the spawner's events (procs.c). */
#pragma once

#include "proc/process.h"

static inline uint64_t process_take_seq(struct process *p)
{
        return p->next_seq++;
}

/* stdin.c */
void stdin_flush(struct process *p);  /* writes what the descriptor takes */
void stdin_refuse(struct process *p); /* takes no more, forgets what is queued, tells the owner once */
void stdin_close(struct process *p);  /* the same, and the child reads the end */

/* streams.c */
void stream_read_chunk(struct process_stream *s); /* one, when there is one */
void stream_close(struct process_stream *s);
bool streams_ended(const struct process *p);
void streams_drain(struct process *p); /* reads what is there now, with a bound */
/* What to watch the terminal or a pipe for, after a change of pause or of the stdin queue. */
void process_watch_streams(struct process *p);

/* process.c: what the spawner said of it */
void process_on_started(struct process *p, pid_t pid);
void process_on_failed(struct process *p, const char *step, int os_errno);
void process_on_exited(struct process *p, const struct spawn_exit *exit);
void process_on_gone(struct process *p);

/* procs.c: gives it a number and sends the start. 0 or -errno. */
NODISCARD int procs_add(struct procs *ps, struct process *p, const struct spawn_request *start);
/* Orders to the spawner of a process; none when it was lost, because then its tree is being ended already. */
void procs_kill(struct process *p);
void procs_signal(struct process *p, int signo, enum spawn_scope scope);
