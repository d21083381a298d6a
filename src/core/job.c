/* job: orders the jobs of a client, runs them on the pool and sends their answers. */
#include "core/job.h"

#include "base/limits.h"
#include "base/mem.h"
#include "confine/fs_helpers.h"
#include "conn/outq.h"
#include "core/client.h"
#include "core/req.h"
#include "core/server.h"
#include "fsop/wary.h"

#include <errno.h>

static void on_awake(struct deferred *d);

void jobs_init(struct jobs *jobs)
{
        *jobs = (struct jobs){ 0 };
        list_init(&jobs->all);
        list_init(&jobs->streams);
        deferred_init(&jobs->awake, on_awake);
}

static void job_free(struct job *job)
{
        if (job->class && job->class->release)
                job->class->release(job);
        conns_free_buf(&job->server->conns, &job->text);
        conns_free_buf(&job->server->conns, &job->answer);
        struct arena arena = job->arena;
        conns_free_arena(&job->server->conns, &arena);
        free(job);
}

/* Returns whether the job is a request on a process: a request that is held back, or a start that is being prepared. */
static bool is_on_process(const struct job *job)
{
        return !job->class || job->class->go_on;
}

/* Returns whether a thread works on a change whose request is dropped. */
static bool is_orphan(const struct job *job)
{
        return job->is_in_pool && job->is_change && !is_on_process(job);
}

/* Called when the request was answered or dropped. Frees the job, unless a thread works on it: then job_done frees it. */
static void job_forget(struct parked *parked)
{
        struct job *job = container_of(parked, struct job, parked);
        struct client *c = job->client;
        list_remove(&job->link);
        list_remove(&job->stream_link);
        c->jobs.count--;
        if (job->has_begun)
                c->jobs.running--;
        if (is_on_process(job))
                c->jobs.held--;
        if (job->is_unordered)
                c->jobs.unordered--;
        if (c->jobs.count < LIMIT_JOBS / 2)
                conn_unblock(c->conn, BLOCK_REQUESTS);
        if (c->jobs.count == 0)
                conn_close_if_idle(c->conn);
        job->client = NULL;
        if (is_orphan(job)) {
                job->orphan_of = c->session_number;
                list_append(&job->server->orphaned_jobs, &job->link);
        }
        if (!job->is_in_pool)
                job_free(job);
}

void jobs_inherit(struct client *c)
{
        struct job *job;
        list_each (job, &c->server->orphaned_jobs, link) {
                if (job->orphan_of != c->session_number)
                        continue;
                job->heir = c;
                c->jobs.inherited++;
        }
}

void jobs_disinherit(struct client *c)
{
        struct job *job;
        list_each (job, &c->server->orphaned_jobs, link)
                if (job->heir == c)
                        job->heir = NULL;
        c->jobs.inherited = 0;
}

/* Ends a job whose connection has ended. */
static void orphan_done(struct job *job)
{
        struct client *heir = job->heir;
        list_remove(&job->link);
        if (heir && --heir->jobs.inherited == 0)
                loop_defer(&job->server->loop, &heir->jobs.awake);
        job_free(job);
}

/* --- running a job ------------------------------------------------------------------------------------------------ */

/* Begins the JSON of the answer. Called on a thread, and on the loop for an answer that needs no thread. */
static void answer_begin(struct job *job, struct jsonw *w)
{
        char *room;
        job->answer.cap = job->max_message + OUTQ_ROOM;
        must(buf_reserve(&job->answer, OUTQ_ROOM, &room) == 0);
        buf_commit(&job->answer, OUTQ_ROOM);
        if (job->is_stream)
                jsonw_begin(w, &job->answer);
        else
                rpc_result_begin(w, &job->answer, &job->id);
}

/* Sets the JSON-RPC code of a failure that has none (docs/PROTOCOL.md). */
static void error_code_set(struct err *err)
{
        if (err->client_code != 0)
                return;
        switch (-err->code) {
        case ENOENT:
                err->client_code = RPC_NOT_FOUND;
                break;
        case EINVAL:
        case EACCES:
        case EPERM:
                err->client_code = RPC_INVALID_REQUEST;
                break;
        case ESTALE:
                err->client_code = err->os_errno ? RPC_INTERNAL : RPC_CONFLICT;
                break;
        default:
                err->client_code = RPC_INTERNAL;
        }
}

void job_fail(struct job *job, const struct err *err)
{
        job->err = arena_alloc(&job->arena, sizeof(*err));
        *job->err = *err;
        error_code_set(job->err);
}

static void job_run(struct work *work)
{
        struct job *job = container_of(work, struct job, work);
        struct err err = ERR_INIT;
        struct jsonw w;
        answer_begin(job, &w);

        int r = job->class->run(job, &w, &err);
        job->has_more = r > 0;
        job->is_stream = job->is_stream || job->has_more;
        if (r == 0 && job->trial)
                job->class->try_quick(job);
        if (r == 0 && rpc_result_end(&w) < 0)
                r = err_set(&err, RPC_INTERNAL, -EMSGSIZE, RPC_ANSWER_TOO_LARGE, job->max_message);
        if (r >= 0)
                return;
        buf_release(&job->answer);
        job_fail(job, &err);
}

/* --- the order of the jobs ---------------------------------------------------------------------------------------- */

/* Returns whether the job waits for all ordered jobs before it, and all ordered jobs behind it wait for the job. */
static bool is_barrier(const struct job *job)
{
        return job->is_change && !job->is_unordered;
}

/* Returns whether two jobs must keep their order because of their keys. */
static bool is_same_key(const struct job *a, const struct job *b)
{
        return a->key.p && b->key.p && is_on_process(a) == is_on_process(b) && slice_eq(a->key, b->key) &&
               (a->is_exclusive || b->is_exclusive);
}

static bool waits_for_key(struct client *c, const struct job *job)
{
        struct job *before;
        if (!job->key.p)
                return false;
        list_each (before, &c->jobs.all, link) {
                if (before == job)
                        return false;
                if (is_same_key(before, job))
                        return true;
        }
        return false;
}

static void submit(struct job *job)
{
        job->is_in_pool = true;
        if (job->class->has_large_answer)
                buffer_pool_take(&job->server->conns.buffer_pool, &job->answer);
        wary_set(job->server->procs.used > 0);
        pool_submit(job->server->pool, &job->work);
}

static void start(struct job *job)
{
        struct err err = ERR_INIT;
        if (job->class->begin && job->class->begin(job, &err) < 0) {
                error_code_set(&err);
                parked_fail(&job->parked, &err);
                return;
        }
        job->has_begun = true;
        job->client->jobs.running++;
        if (job->sandbox)
                fs_helpers_note_spawner(&job->server->fs_helpers, &job->server->procs);
        submit(job);
}

/* Ends the job and goes on with its request: handles a request that was held back, or starts a process whose start was
 * prepared. The handler may take the text and the arena. */
static void go_on(struct job *job)
{
        struct client *c = job->client;
        struct err err = ERR_INIT;
        struct req req = { .method = job->method,
                           .server = job->server,
                           .client = c,
                           .id = &job->id,
                           .arena = &job->arena,
                           .may_keep = job->may_keep,
                           .text = job->text };
        job->is_in_pool = true; /* keeps the job alive until the end of this function */
        parked_done(&job->parked);
        int r = job->class ? job->class->go_on(job, &req, &err) : req_admit(job->method, c, &err);
        if (r == 0 && !job->class)
                r = job->method->handle(&req, job->params, &err);
        if (r < 0)
                conn_fail(c->conn, &job->id, &err, NULL);
        job->text = req.text;
        job_free(job);
}

/* Begins the first job that may begin. Returns true when there was one: then the list has changed, and the caller calls again. */
static bool begin_first(struct client *c)
{
        struct job *job;
        bool may_start = c->jobs.running < LIMIT_POOL_PER_CONNECTION && c->jobs.inherited == 0 &&
                         conn_wants_output(c->conn);
        bool is_first = true;   /* no ordered job before this one is unfinished */
        bool is_behind = false; /* an unfinished change is before this job */
        if (!may_start && c->jobs.held == 0)
                return false;
        list_each (job, &c->jobs.all, link) {
                /* A change waits for all ordered jobs before it, and all ordered jobs behind it wait for the change. */
                is_behind = is_behind || (is_barrier(job) && !is_first);
                if (is_behind && c->jobs.unordered == 0)
                        return false;
                bool may_begin = !job->has_begun && !job->is_waiting && (may_start || !job->class) &&
                                 (job->is_unordered || !is_behind);
                if (may_begin && !waits_for_key(c, job)) {
                        if (job->class)
                                start(job);
                        else
                                go_on(job);
                        return true;
                }
                is_first = is_first && job->is_unordered;
                is_behind = is_behind || is_barrier(job);
        }
        return false;
}

static void pump(struct client *c)
{
        c->jobs.must_pump_again = true;
        if (c->jobs.is_pumping)
                return;
        c->jobs.is_pumping = true;
        while (c->jobs.must_pump_again && conn_is_usable(c->conn))
                c->jobs.must_pump_again = begin_first(c);
        c->jobs.is_pumping = false;
}

/* --- sending the answer ------------------------------------------------------------------------------------------- */

static void finish(struct job *job)
{
        struct client *c = job->client;
        parked_done(&job->parked); /* frees the job */
        pump(c);
}

static void answer(struct job *job)
{
        struct client *c = job->client;
        if (job->err)
                conn_fail(c->conn, &job->parked.id, job->err, job->error_data);
        else
                conn_send(c->conn, &job->parked.id, &job->answer);
        finish(job);
}

/* Makes the end of an answer that failed after a part of it was sent: it says that the result is not valid. */
static void make_broken_end(struct job *job)
{
        char *room;
        buf_init(&job->answer, OUTQ_ROOM + 8 * sizeof(job->err->text));
        bool is_made = buf_reserve(&job->answer, OUTQ_ROOM, &room) == 0;
        if (is_made)
                buf_commit(&job->answer, OUTQ_ROOM);
        must(is_made && buf_append(&job->answer, slice_from_str(job->class->broken_end)) == 0 &&
             rpc_error_instead_write(&job->answer, job->err, job->error_data) == 0);
}

static void send_piece(struct job *job)
{
        struct client *c = job->client;
        if (job->err)
                make_broken_end(job);
        conn_send_piece(c->conn, &job->answer, !job->has_more);
        if (!job->has_more)
                finish(job);
}

/* Begins to send the first of the answers that are sent in pieces, unless one is being sent. */
static void begin_stream(struct client *c)
{
        struct job *job = list_first(&c->jobs.streams, struct job, stream_link);
        if (!job || c->conn->out.is_streaming)
                return;
        outq_stream_begin(&c->conn->out);
        send_piece(job);
}

void jobs_on_queue_room(struct client *c)
{
        c->jobs.quick = 0;
        begin_stream(c);
        struct job *job = list_first(&c->jobs.streams, struct job, stream_link);
        if (job && !job->is_in_pool && c->conn->out.bytes < LIMIT_OUT_HIGH_BYTES)
                submit(job);
        pump(c);
}

/* Returns whether the job must wait and run again. A waiting job does not count as running, and keeps its place in the order. */
static bool must_wait(struct job *job)
{
        if (job->err || !job->class->wait)
                return false;
        job->is_waiting = true; /* jobs_awake may be called inside of `wait` */
        if (!job->class->wait(job)) {
                job->is_waiting = false;
                return false;
        }
        job->has_begun = false;
        job->client->jobs.running--;
        buf_release(&job->answer);
        return true;
}

static void on_awake(struct deferred *d)
{
        struct jobs *jobs = container_of(d, struct jobs, awake);
        struct client *c = container_of(jobs, struct client, jobs);
        if (conn_is_usable(c->conn))
                pump(c);
}

void jobs_awake(struct client *c)
{
        struct job *job;
        list_each (job, &c->jobs.all, link)
                job->is_waiting = false;
        loop_defer(&c->server->loop, &c->jobs.awake);
}

static void job_done(struct work *work)
{
        struct job *job = container_of(work, struct job, work);
        struct client *c = job->client;
        job->is_in_pool = false;
        if (!c) {
                orphan_done(job);
                return;
        }
        buffer_pool_fit(&job->server->conns.buffer_pool, &job->answer);
        if (job->trial)
                quick_learn(&job->server->quick, job->trial);
        if (!job->has_more && job->class->settle)
                job->class->settle(job);
        if (must_wait(job))
                pump(c);
        else if (job->class->go_on && !job->err)
                go_on(job);
        else if (!job->is_stream)
                answer(job);
        else if (!list_is_linked(&job->stream_link))
                list_append(&c->jobs.streams, &job->stream_link);
        else
                send_piece(job);
        if (conn_is_usable(c->conn))
                jobs_on_queue_room(c);
}

/* --- new jobs ----------------------------------------------------------------------------------------------------- */

static struct rpc_id own_id(struct arena *a, const struct rpc_id *id)
{
        struct rpc_id own = *id;
        if (id->is_string)
                own.string = slice_from(arena_dup(a, id->string), id->string.n);
        return own;
}

static int add(struct job *job, struct req *req, struct err *err)
{
        struct client *c = req->client;
        job->id = own_id(req->arena, req->id);
        uint64_t bytes = sizeof(*job) + req->arena->bytes + req->text.n;
        int r = parked_init(&job->parked, req, bytes, job_forget, err);
        if (r < 0)
                return r;
        job->client = c;
        job->arena = *req->arena;
        *req->arena = ARENA_INIT;
        list_append(&c->jobs.all, &job->link);
        c->jobs.unordered += job->is_unordered;
        if (++c->jobs.count >= LIMIT_JOBS)
                conn_block(c->conn, BLOCK_REQUESTS);
        return 0;
}

static struct job *job_new(struct req *req, const struct job_class *class, void *params)
{
        const struct method *m = req->method;
        struct job *job = mem_new(struct job);
        job->method = m;
        job->class = class;
        job->params = params;
        job->key = method_key_of(m, params);
        job->is_exclusive = m->is_exclusive;
        job->is_change = m->is_change;
        job->is_unordered = req->is_unordered;
        job->sandbox = method_sandbox_of(m, params);
        job->server = req->server;
        job->id = *req->id;
        job->max_message = req->client->conn->out.max_message;
        job->work = (struct work){ .run = job_run, .done = job_done };
        list_init(&job->link);
        list_init(&job->stream_link);
        buf_init(&job->text, 0);
        buf_init(&job->answer, 0);
        return job;
}

/* Answers a request without a thread, if its connection has no other jobs and the answer needs no waiting. */
static bool answer_quickly(struct job *job, struct req *req)
{
        struct client *c = req->client;
        struct jsonw w;
        bool is_first = c->jobs.count == 0 && c->jobs.inherited == 0 &&
                        c->jobs.quick < LIMIT_QUICK_REQUESTS && conn_wants_output(c->conn);
        if (!job->class->run_quick || (job->sandbox && !job->class->is_quick_sandboxed) || !is_first)
                return false;
        answer_begin(job, &w);
        enum quick_answer how = job->class->run_quick(job, &w);
        if (how == QUICK_DONE && rpc_result_end(&w) == 0) {
                conn_send(c->conn, req->id, &job->answer);
                c->jobs.quick++;
                return true;
        }
        buf_release(&job->answer);
        if (how == QUICK_UNKNOWN) {
                job->trial = arena_alloc(req->arena, sizeof(*job->trial));
                quick_trial_init(&req->server->quick, job->trial);
        }
        return false;
}

int job_submit(struct req *req, const struct job_class *class, void *params, struct err *err)
{
        struct client *c = req->client;
        struct job *job = job_new(req, class, params);
        int r = class->prepare ? class->prepare(job, err) : 0;
        if (r == 0 && answer_quickly(job, req)) {
                job_free(job);
                return 0;
        }
        if (r == 0)
                r = add(job, req, err);
        if (r < 0) {
                error_code_set(err);
                job_free(job);
                return r;
        }
        job->text = req->text;
        buf_init(&req->text, 0);
        if (is_on_process(job))
                c->jobs.held++;
        pump(c);
        return 0;
}

/* --- process requests behind file requests ------------------------------------------------------------------------ */

bool job_must_hold(const struct req *req, const void *params)
{
        const struct method *m = req->method;
        struct client *c = req->client;
        struct job *job;
        struct slice process_id = method_key_of(m, params);
        if (m->is_urgent || !process_id.p || (!m->is_start && c->jobs.held == 0))
                return false;
        list_each (job, &c->jobs.all, link)
                if ((m->is_start && is_barrier(job)) ||
                    (is_on_process(job) && slice_eq(job->key, process_id)))
                        return true;
        return false;
}

int job_hold(struct req *req, void *params, struct err *err)
{
        struct job *job = job_new(req, NULL, params);
        job->may_keep = req->may_keep;
        int r = add(job, req, err);
        if (r < 0) {
                job_free(job);
                return r;
        }
        job->text = req->text;
        buf_init(&req->text, 0);
        req->client->jobs.held++;
        return 0;
}

bool job_cancel_start(struct client *c, struct slice process_id)
{
        struct job *job;
        bool has_some = false;
        list_each (job, &c->jobs.all, link) {
                if (!job->method->is_start || !slice_eq(job->key, process_id))
                        continue;
                struct err err = ERR_INIT;
                err_set(&err, RPC_INVALID_REQUEST, -ECANCELED, "process %.*s start was cancelled",
                        SLICE(process_id));
                parked_fail(&job->parked, &err);
                /* The search goes on: without the first start a second one with this id would no longer be refused. */
                has_some = true;
        }
        return has_some;
}
