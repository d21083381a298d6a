/* job: a request whose work may block, such as every file request.
 *
 * The work runs on a thread of the pool with plain data. The thread makes the answer, and the loop sends it.
 *
 * The jobs of a connection behave as if they were done one after another. Jobs that only read run side by side. A job that
 * changes something waits for all jobs before it, and all jobs behind it wait for it. Two jobs with the same key (a file
 * handle) keep their order when one of them is exclusive. A process/start behind a change waits for the change, and later
 * requests on the same process wait for the start. A job whose client says that it is unordered waits for none of them but those
 * with the same key, and none waits for it.
 *
 * An answer that is too large to be held in memory is sent in pieces. The pool makes the next piece when the outgoing queue has
 * room.
 *
 * A job ends with its connection. Work that has begun is finished then, and its answer is dropped. When that work changes something
 * and another connection resumes the session, the jobs of that connection wait until the work is done: a client that repeats a
 * change must not be overtaken by the first try.
 */
#pragma once

#include "base/arena.h"
#include "core/parked.h"
#include "files/request.h"
#include "loop/pool.h"
#include "proto/method.h"
#include "wire/rpc.h"

struct req;
struct job;

struct job_class {
        bool has_large_answer; /* the answer is written into a recycled buffer (conns::buffer_pool) */
        /* Runs on the loop before the job is queued. May refuse the job, or set job::key and job::is_change. May be NULL. */
        int (*prepare)(struct job *job, struct err *err);
        /* Runs on the loop when the job begins. May refuse the job. May be NULL. */
        int (*begin)(struct job *job, struct err *err);
        /* Runs on a thread and writes the value of `result`. Returns 0, or negative: then the answer is `err`. Returns 1 when only
         * a piece of the answer was written: then `run` is called again for the next piece, with a new writer. */
        int (*run)(struct job *job, struct jsonw *w, struct err *err);
        /* JSON text that ends a result which fails after some pieces were sent. An error follows it in the same message. */
        const char *broken_end;
        /* run_quick runs on the loop when the connection has no other jobs. If that needs no waiting, it writes what `run` would
         * write and returns QUICK_DONE; otherwise it writes nothing. try_quick runs on a thread after `run` and finds out whether
         * run_quick could have answered. Both may be NULL. */
        enum quick_answer (*run_quick)(struct job *job, struct jsonw *w);
        void (*try_quick)(struct job *job);
        bool is_quick_sandboxed; /* run_quick may be called for a request with a sandbox: it calls fs_helpers_reads_all itself */
        /* Runs on the loop after the last run and before the answer is sent, unless the connection has ended. May be NULL. */
        void (*settle)(struct job *job);
        /* Runs on the loop after a run. Returns true when the job must wait for something and then run again (jobs_awake). May be
         * NULL. */
        bool (*wait)(struct job *job);
        /* For process/start only. Runs on the loop in place of an answer, and starts the process. Later requests on the same
         * process (the key) wait until then. May refuse. May be NULL. */
        int (*go_on)(struct job *job, struct req *req, struct err *err);
        /* Runs on the loop at the end and frees what `own` holds. May be NULL. */
        void (*release)(struct job *job);
};

struct job {
        struct parked parked;
        struct client *client;   /* NULL when the request was answered or dropped */
        struct list link;        /* jobs::all; after the end of the connection server::orphaned_jobs */
        uint64_t orphan_of;      /* session::number of a job in server::orphaned_jobs */
        struct client *heir;     /* the client of that session that waits for the job, or NULL */
        struct list stream_link; /* jobs::streams */
        struct work work;
        const struct method *method;
        const struct job_class *class; /* NULL: a request on a process that was held back */
        struct server *server;
        bool is_change;
        bool is_unordered; /* the job waits only for jobs with the same key, and no other job waits for it */
        bool is_exclusive; /* not at the same time as other jobs with this key */
        struct slice key;  /* p == NULL: the job has no key */
        bool has_begun;
        bool is_waiting; /* job_class::wait has returned true */
        bool is_in_pool; /* a thread works on the job, or a function of job.c still needs it: it must not be freed yet */

        struct arena arena; /* holds params, id and what the class allocates */
        struct buf text;    /* the message, when it was too large to be copied */
        bool may_keep;      /* req::may_keep of a request that is held back */
        void *params;
        const struct sandbox_context *sandbox; /* NULL: the request has no sandbox */
        struct rpc_id id;
        size_t max_message; /* length of the longest message that the client accepts */

        struct quick_trial *trial; /* NULL: try_quick is not called */
        bool is_stream, has_more;  /* the answer is made in pieces; the last piece is still to come */
        struct buf answer;
        struct err *err;        /* NULL: the job has not failed */
        const char *error_data; /* members for error.data, or NULL */
        void *own;              /* data of the job's class */
};

void jobs_init(struct jobs *jobs);

/* Makes a job of the request. Takes its arena and text, into which params must point. */
NODISCARD int job_submit(struct req *req, const struct job_class *class, void *params, struct err *err);

/* job_must_hold returns whether this request on a process must wait behind other jobs of the client. job_hold keeps such a
 * request and handles it when they have finished. */
NODISCARD bool job_must_hold(const struct req *req, const void *params);
NODISCARD int job_hold(struct req *req, void *params, struct err *err);

/* For process/terminate: cancels a start that is held back or being prepared. Returns false when there is none. */
bool job_cancel_start(struct client *c, struct slice process_id);

/* jobs_inherit makes the jobs of a client, which has just got its session, wait for the changes that earlier connections of the
 * session have begun. jobs_disinherit is called when its connection ends. */
void jobs_inherit(struct client *c);
void jobs_disinherit(struct client *c);

/* Runs the jobs again that wait (job_class::wait). */
void jobs_awake(struct client *c);

/* Called when the outgoing queue has room: makes the next piece of an answer, and begins jobs. No job begins while the queue is
 * full because the client does not read. */
void jobs_on_queue_room(struct client *c);

/* Makes this error the answer of the job. For `run` and `settle`. */
void job_fail(struct job *job, const struct err *err);

/* job_file.c: jobs whose work is a file request. These two are for threads: job_file_request makes the file request of a job,
 * job_open_file opens a file for it. */
NODISCARD struct file_request job_file_request(struct job *job);
NODISCARD int job_open_file(struct job *job, const struct file_open *how, int *ret_fd, struct stat *ret_st,
                            struct err *err);
/* Calls quick_try, and finds out whether the file system is mounted only once. */
void job_try_quick(struct job *job, struct slice path, bool follow, bool reads);
/* Returns the class for jobs of a method without a handler: the method's own, or that of file requests. */
NODISCARD const struct job_class *job_class_of(const struct method *m);
