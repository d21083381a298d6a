/* fs_helpers: the processes in which file requests with a permission profile are done.
 *
 *     server ── spawner ── fs helper      a copy of the spawner in namespaces of its own, which does one request at a time
 *
 * Each request is planned anew (plan/plan.h), and only an fs helper that was made from an equal plan may do it. Two
 * barriers hold a request: the fs helper asks its reach before each step (reach/reach.h), which is exact; and the view of the
 * fs helper shows and lets it write roughly what the profile allows, which still holds if the reach fails.
 *
 * A request waits for the fs helper on its thread. When no fs helper can be made the request fails; it is never done in the
 * server instead. Only reads that no fs helper would refuse are done there (fs_helpers_reads_all).
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/list.h"
#include "files/request.h"
#include "loop/loop.h"

#include <pthread.h>
#include <stdatomic.h>

struct jsonw;
struct reach;
struct preparer;
struct procs;
struct quick_fence;

struct fs_helpers {
        struct preparer *preparer;
        const char *tmpdir;   /* the TMPDIR of the server, absolute; "": none */
        pthread_mutex_t lock; /* protects the members that follow */
        pthread_cond_t freed;
        struct list all; /* fs_helper::link, the least recently used first */
        size_t count;
        int spawner; /* a copy of the socket of the spawner; -1: none */
        pid_t spawner_pid;
        atomic_bool has_served; /* an fs helper has done a request: fs helpers work here */
        int mounts;             /* /proc/self/mountinfo, polled for mounts and unmounts; -1: not open */
        struct timer *timer;    /* on the loop: ends unused fs helpers */
        bool is_timer_on;
};

/* `tmpdir` stays the caller's and must live as long as `f`. */
void fs_helpers_init(struct fs_helpers *f, struct loop *loop, struct preparer *preparer, const char *tmpdir);
/* Makes requests that wait for an fs helper fail. To be called when the server ends. */
void fs_helpers_interrupt(struct fs_helpers *f);
void fs_helpers_release(struct fs_helpers *f); /* only when no thread uses it */

/* On the loop, before a request goes to a thread: notes which spawner makes fs helpers. */
void fs_helpers_note_spawner(struct fs_helpers *f, const struct procs *procs);

/* On the loop: does the profile read everything and deny nothing? Then a read needs no fs helper, unless a view would hide
 * the path: *ret says which paths these are. Returns false unless namespaces confine fs helpers and an fs helper has done a
 * request already: where no fs helper works, no file is read either. */
NODISCARD bool fs_helpers_reads_all(struct fs_helpers *f, const struct sandbox_context *sandbox,
                                    struct quick_fence *ret);

/* On a thread: does the work of a request; in an fs helper when the request has a sandbox. */
NODISCARD int fs_helpers_run(struct fs_helpers *f, struct file_request *r, struct jsonw *w, struct err *err);
/* On a thread: opens a file for a request (file_open); in an fs helper when the request has a sandbox. */
NODISCARD int fs_helpers_open(struct fs_helpers *f, struct file_request *r, const struct file_open *how,
                              int *ret_fd, struct stat *ret_st, struct err *err);
/* On a thread: makes the reach of the sandbox of a request, for watches, because the server itself looks at watched files. Returns
 * 1 when the profile forbids nothing. */
NODISCARD int fs_helpers_reach(struct fs_helpers *f, const struct file_request *r, struct arena *a,
                               struct reach *ret, struct err *err);

/* The code that the spawner runs in a copy of itself, which becomes an fs helper (proc/spawn.h). */
struct spawn_fs_helper;
extern const struct spawn_fs_helper fs_helper_process;
