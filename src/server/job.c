#include "server/job.h"

#include "base/log.h"
#include "base/mem.h"
#include "server/dispatch.h"
#include "server/filers.h"
#include "server/outq.h"

#include <errno.h>

void jobs_init(struct jobs *jobs)
{
        *jobs = (struct jobs){ 0 };
        list_init(&jobs->all);
        list_init(&jobs->streams);
}

static void job_free(struct job *job)
{
        if (job->class && job->class->release)
                job->class->release(job);
        spares_put(&job->server->spares, &job->text);
        spares_put(&job->server->spares, &job->answer);
        struct arena arena = job->arena;
        arena_release(&arena);
        free(job);
}

/* A request on a process: one that was held back, or a start that is being prepared. */
static bool is_process(const struct job *job)
{
        return !job->class || job->class->go_on;
}

/* Its request was answered, or nobody is left to answer. A thread that has it goes on with it. */
static void job_forget(struct parked *parked)
{
        struct job *job = container_of(parked, struct job, parked);
        struct conn *c = job->conn;
        list_remove(&job->link);
        list_remove(&job->stream_link);
        c->jobs.count--;
        if (job->has_begun)
                c->jobs.running--;
        if (is_process(job))
                c->jobs.held--;
        if (c->jobs.count < LIMIT_JOBS / 2)
                conn_unblock(c, BLOCK_JOBS);
        if (c->jobs.count == 0 && c->peer_closed)
                loop_defer(&c->server->loop, &c->resume); /* the last answer: now it may close */
        job->conn = NULL;
        if (!job->is_in_pool)
                job_free(job);
}

/* --- on a thread -------------------------------------------------------------------------------------------------- */

static void job_run(struct work *work)
{
        struct job *job = container_of(work, struct job, work);
        struct err err = ERR_INIT;
        struct jsonw w;
        char *room;
        job->answer.cap = job->max_message + OUTQ_ROOM;
        must(buf_reserve(&job->answer, OUTQ_ROOM, &room) == 0);
        buf_commit(&job->answer, OUTQ_ROOM);
        if (job->is_stream)
                jsonw_begin(&w, &job->answer);
        else
                rpc_result_begin(&w, &job->answer, &job->id);

        bool is_boxed = job->box && job->class->boxed;
        int r = is_boxed ? filers_run(job, &w, &err) : job->class->run(job, &w, &err);
        job->has_more = r > 0;
        job->is_stream = job->is_stream || job->has_more;
        if (r == 0 && rpc_result_end(&w) < 0)
                r = err_set(&err, RPC_INTERNAL, -EMSGSIZE, CONN_ANSWER_TOO_LARGE, job->max_message);
        if (r >= 0)
                return;
        buf_release(&job->answer);
        job->err = arena_alloc(&job->arena, sizeof(err));
        *job->err = err;
        job_error_code(job->err);
}

void job_error_code(struct err *err)
{
        if (err->rpc != 0)
                return;
        switch (-err->code) {
        case ENOENT:
                err->rpc = RPC_NOT_FOUND;
                break;
        case EINVAL:
        case EACCES:
        case EPERM:
                err->rpc = RPC_INVALID_REQUEST;
                break;
        case ESTALE:
                err->rpc = err->os_errno ? RPC_INTERNAL : RPC_CONFLICT;
                break;
        default:
                err->rpc = RPC_INTERNAL;
        }
}

/* --- order -------------------------------------------------------------------------------------------------------- */

/* Do the two have to keep their order, though neither changes a file? */
static bool is_same_key(const struct job *a, const struct job *b)
{
        return a->key.p && b->key.p && is_process(a) == is_process(b) && slice_eq(a->key, b->key) &&
               (a->is_exclusive || b->is_exclusive);
}

static bool waits_for_key(struct conn *c, const struct job *job)
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
                spares_take(&job->server->spares, &job->answer);
        pool_submit(job->server->pool, &job->work);
}

static void start(struct job *job)
{
        struct err err = ERR_INIT;
        if (job->class->begin && job->class->begin(job, &err) < 0) {
                job_error_code(&err);
                parked_fail(&job->parked, &err);
                return;
        }
        job->has_begun = true;
        job->conn->jobs.running++;
        if (job->box)
                filers_meet_spawner(&job->server->filers, &job->server->procs);
        submit(job);
}

/* A message that was held back goes the usual way now. */
static void replay(struct job *job)
{
        struct conn *c = job->conn;
        job->is_in_pool = true; /* kept until we are done with the text */
        parked_done(&job->parked);
        c->jobs.is_replaying = true;
        dispatch_message(c, job->held);
        c->jobs.is_replaying = false;
        job_free(job);
}

/* Begins what may begin now; true when it has to be asked again, because the list has changed. */
static bool begin_some(struct conn *c)
{
        struct job *job;
        bool may_start = c->jobs.running < LIMIT_POOL_PER_CONNECTION && conn_wants_output(c);
        bool is_first = true; /* of those that are not finished */
        if (!may_start && c->jobs.held == 0)
                return false;
        list_each (job, &c->jobs.all, link) {
                if (job->is_change && !is_first)
                        return false; /* it waits for all before it, and holds all behind it */
                is_first = false;
                bool may_begin = !job->has_begun && (may_start || !job->class);
                if (may_begin && !waits_for_key(c, job)) {
                        if (job->class)
                                start(job);
                        else
                                replay(job);
                        return true;
                }
                if (job->is_change)
                        return false;
        }
        return false;
}

static void pump(struct conn *c)
{
        c->jobs.must_pump_again = true;
        if (c->jobs.is_pumping)
                return;
        c->jobs.is_pumping = true;
        while (c->jobs.must_pump_again && conn_is_usable(c))
                c->jobs.must_pump_again = begin_some(c);
        c->jobs.is_pumping = false;
}

/* --- the answer --------------------------------------------------------------------------------------------------- */

static void finish(struct job *job)
{
        struct conn *c = job->conn;
        parked_done(&job->parked); /* frees it */
        pump(c);
}

static void answer(struct job *job)
{
        struct conn *c = job->conn;
        if (job->err)
                conn_fail(c, &job->parked.id, job->err, job->error_data);
        else
                conn_send(c, &job->parked.id, &job->answer);
        finish(job);
}

static void send_piece(struct job *job)
{
        struct conn *c = job->conn;
        if (job->err) {
                log_warn("file cannot be read to its end", "peer=%s why=%s", c->peer,
                         log_quote(slice_from_str(job->err->text)));
                conn_close(c, WS_CLOSE_INTERNAL); /* frees the job */
                return;
        }
        conn_send_piece(c, &job->answer, !job->has_more);
        if (!job->has_more)
                finish(job);
}

/* The first of the waiting answers in pieces has its turn. */
static void begin_stream(struct conn *c)
{
        struct job *job = list_first(&c->jobs.streams, struct job, stream_link);
        if (!job || c->out.is_streaming)
                return;
        outq_stream_begin(&c->out);
        send_piece(job);
}

void jobs_on_room(struct conn *c)
{
        begin_stream(c);
        struct job *job = list_first(&c->jobs.streams, struct job, stream_link);
        if (job && !job->is_in_pool && c->out.bytes < LIMIT_OUT_HIGH_BYTES)
                submit(job);
        pump(c);
}

/* It is not parked any more, and still has its memory. */
static void go_on(struct job *job)
{
        struct conn *c = job->conn;
        struct err err = ERR_INIT;
        struct req req = { .server = job->server, .conn = c, .id = &job->id, .arena = &job->arena };
        buf_init(&req.text, 0);
        job->is_in_pool = true; /* kept until we are done with it */
        parked_done(&job->parked);
        if (job->class->go_on(job, &req, &err) < 0)
                conn_fail(c, &job->id, &err, NULL);
        job_free(job);
        if (conn_is_usable(c))
                pump(c);
}

static void job_done(struct work *work)
{
        struct job *job = container_of(work, struct job, work);
        struct conn *c = job->conn;
        job->is_in_pool = false;
        if (!c) {
                job_free(job);
                return;
        }
        spares_fit(&job->server->spares, &job->answer);
        if (!job->has_more && job->class->settle)
                job->class->settle(job);
        if (job->class->go_on && !job->err)
                go_on(job);
        else if (!job->is_stream)
                answer(job);
        else if (!list_is_linked(&job->stream_link))
                list_append(&c->jobs.streams, &job->stream_link);
        else
                send_piece(job);
        if (conn_is_usable(c))
                jobs_on_room(c);
}

/* --- arrival ------------------------------------------------------------------------------------------------------ */

static struct rpc_id own_id(struct arena *a, const struct rpc_id *id)
{
        struct rpc_id own = *id;
        if (id->is_string)
                own.string = slice_from(arena_dup(a, id->string), id->string.n);
        return own;
}

static int add(struct job *job, struct req *req, struct err *err)
{
        struct conn *c = req->conn;
        job->id = own_id(req->arena, req->id);
        uint64_t bytes = sizeof(*job) + req->arena->bytes + req->text.n;
        int r = parked_init(&job->parked, req, bytes, job_forget, err);
        if (r < 0)
                return r;
        job->conn = c;
        job->max_message = c->out.max_message;
        job->arena = *req->arena;
        *req->arena = ARENA_INIT;
        list_append(&c->jobs.all, &job->link);
        if (++c->jobs.count >= LIMIT_JOBS)
                conn_block(c, BLOCK_JOBS);
        return 0;
}

static struct job *job_new(struct req *req, const struct job_class *class)
{
        struct job *job = mem_new(struct job);
        job->class = class;
        job->server = req->server;
        job->work = (struct work){ .run = job_run, .done = job_done };
        list_init(&job->link);
        list_init(&job->stream_link);
        buf_init(&job->text, 0);
        buf_init(&job->answer, 0);
        return job;
}

int job_submit(struct req *req, const struct job_class *class, void *params, struct err *err)
{
        struct conn *c = req->conn;
        struct job *job = job_new(req, class);
        job->params = params;
        job->is_change = class->is_change;
        if (class->boxed || class->opens_boxed)
                job->box = *(const struct sandbox_context *const *)params;
        int r = class->prepare ? class->prepare(job, err) : 0;
        if (r == 0)
                r = add(job, req, err);
        if (r < 0) {
                job_error_code(err);
                job_free(job);
                return r;
        }
        job->text = req->text;
        buf_init(&req->text, 0);
        if (is_process(job))
                c->jobs.held++;
        pump(c);
        return 0;
}

/* --- processes behind files --------------------------------------------------------------------------------------- */

bool job_must_hold(struct conn *c, struct slice method, struct slice process_id)
{
        struct job *job;
        if (c->jobs.count == 0 || c->jobs.is_replaying || slice_eq(method, S("process/terminate")))
                return false;
        bool is_start = slice_eq(method, S("process/start"));
        if (!is_start && c->jobs.held == 0)
                return false;
        list_each (job, &c->jobs.all, link)
                if ((is_start && job->is_change) || (is_process(job) && slice_eq(job->key, process_id)))
                        return true;
        return false;
}

int job_hold(struct req *req, struct slice text, struct slice method, struct slice process_id,
             struct err *err)
{
        struct job *job = job_new(req, NULL);
        char *copy = arena_alloc(req->arena, text.n + BUF_PADDING);
        memcpy(copy, text.p, text.n);
        job->held = slice_from(copy, text.n);
        job->key = slice_from(arena_dup(req->arena, process_id), process_id.n);
        job->is_exclusive = true;
        job->is_start = slice_eq(method, S("process/start"));
        int r = add(job, req, err);
        if (r < 0) {
                job_free(job);
                return r;
        }
        req->conn->jobs.held++;
        return 0;
}

bool job_cancel_start(struct conn *c, struct slice process_id)
{
        struct job *job;
        bool has_some = false;
        list_each (job, &c->jobs.all, link) {
                bool is_start = job->class ? job->class->go_on != NULL : job->is_start;
                if (!is_start || !slice_eq(job->key, process_id))
                        continue;
                struct err err = ERR_INIT;
                err_set(&err, RPC_INVALID_REQUEST, -ECANCELED, "process %.*s start was cancelled",
                        SLICE(process_id));
                parked_fail(&job->parked, &err);
                has_some = true; /* a second one would have been refused, but not without the first */
        }
        return has_some;
}
