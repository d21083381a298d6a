/* filers: the processes in which file requests with a permission profile are done.
 *
 *     server ── spawner ── filer      a copy of the spawner in namespaces of its own, which does one request at a time
 *
 * A filer belongs to a profile in one place, exactly as the file system was when it was made: each request is planned anew
 * (sandbox/plan.h), and only a filer that was made from the same plan may do it. Two locks: the filer asks its law before
 * each step (fsop/law.h), which is exact; and it sees and may write only what the profile roughly allows, which holds
 * should the first one fail.
 *
 * A request waits on its thread for the filer. Nothing here ever falls back to doing it in the server.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/list.h"
#include "loop/loop.h"
#include "server/filer_msg.h"

#include <pthread.h>
#include <sys/stat.h>

struct job;
struct jsonw;
struct procs;
struct server;

struct filers {
        struct server *server;
        pthread_mutex_t lock; /* what follows */
        pthread_cond_t freed;
        struct list all; /* filer::link, those used longest ago first */
        size_t count;
        int spawner; /* a copy of its socket; -1 */
        pid_t spawner_pid;
        int mounts;          /* tells when mounts have come or gone; -1 */
        struct timer *timer; /* the loop's: ends those that nobody has used for a while */
        bool is_timer_on;
};

void filers_init(struct filers *f, struct server *server);
void filers_interrupt(struct filers *f); /* requests that wait for one fail: the server ends */
void filers_release(struct filers *f);   /* when no thread is left */

/* On the loop, before a request is given to a thread: which spawner is to be asked. */
void filers_meet_spawner(struct filers *f, const struct procs *procs);

/* On a thread: job->class->run, done by a filer. */
NODISCARD int filers_run(struct job *job, struct jsonw *w, struct err *err);

/* On a thread: opens the file of a request, by a filer when the job has a sandbox. */
NODISCARD int fs_open_file(struct job *job, const struct filer_open *how, int *ret_fd, struct stat *ret_st,
                           struct err *err);
/* On a thread: the law of the job's sandbox, for who looks at files in the server (server/watch_law.h). 1: none. */
struct law;
NODISCARD int filers_law(struct job *job, struct arena *a, struct law *ret, struct err *err);
/* The same as fs_open_file in this process. */
NODISCARD int fs_open_here(const struct filer_open *how, int *ret_fd, struct stat *ret_st, struct err *err);

/* What the spawner calls in its copies (proc/spawn.h). */
struct spawn_filer;
extern const struct spawn_filer filer_process;
