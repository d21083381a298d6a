/* task_write: handles process/write and process/closeStdin (docs/PROTOCOL.md).
 *
 * Writes to one process are done in order of arrival. A write waits while stdin is full or the process is starting, and so do
 * the writes behind it; other requests do not. A writeId is remembered once its write was accepted.
 */
#include "base/mem.h"
#include "conn/conns.h"
#include "proto/process.h"
#include "session/task_internal.h"

#include <errno.h>

/* --- ids of accepted writes --------------------------------------------------------------------------------------- */

struct write_ids {
        struct map set;
        char **ring; /* grows up to LIMIT_WRITE_IDS places */
        size_t count, next;
};

static bool is_known(const struct task *t, struct slice id)
{
        return t->write_ids && id.p && map_find(&t->write_ids->set, id);
}

static void remember(struct task *t, struct slice id)
{
        if (!id.p)
                return;
        if (!t->write_ids) {
                t->write_ids = mem_new(struct write_ids);
                map_init(&t->write_ids->set);
        }
        struct write_ids *ids = t->write_ids;
        char *copy = slice_dup(id);
        if (ids->count < LIMIT_WRITE_IDS) {
                if ((ids->count & (ids->count - 1)) == 0) /* grows by doubling */
                        ids->ring = mem_realloc(ids->ring, MAX(ids->count * 2, 1) * sizeof(*ids->ring));
                ids->ring[ids->count++] = copy;
        } else {
                char *oldest = ids->ring[ids->next];
                map_remove(&ids->set, slice_from_str(oldest));
                free(oldest);
                ids->ring[ids->next] = copy;
                ids->next = (ids->next + 1) % LIMIT_WRITE_IDS;
        }
        map_put(&ids->set, slice_from_str(copy), copy);
}

void write_ids_free(struct write_ids *ids)
{
        if (!ids)
                return;
        for (size_t i = 0; i < ids->count; i++)
                free(ids->ring[i]);
        free(ids->ring);
        map_release(&ids->set);
        free(ids);
}

/* --- writes ------------------------------------------------------------------------------------------------------- */

struct writer {
        struct parked parked;
        struct list link; /* task::writes */
        char *bytes;      /* a copy on the heap, or memory in `kept` */
        size_t len;
        struct arena kept;     /* the arena of a large message, which holds the bytes */
        struct server *server; /* frees `kept` (conns_free_arena); NULL: the bytes are a copy */
        char *id;              /* NULL: the request has no writeId */
        bool is_close;         /* the request is process/closeStdin, not a write */
};

/* What to answer to a write: a status, an error, or nothing yet. */
enum outcome {
        WRITE_ACCEPTED,
        WRITE_CLOSED,
        WRITE_UNKNOWN,
        WRITE_NO_ROOM,
        CLOSE_DONE,
        CLOSE_ALREADY,
        CLOSE_IMPOSSIBLE,
        WRITE_WAITS,
};

/* Gives the bytes to the process, if it takes them now. `kept` is the arena that holds the bytes, or NULL (process_write_kept). */
static enum outcome try_write(struct task *t, struct slice bytes, struct slice id, struct arena *kept)
{
        struct process *p = t->process;
        if (p->state == PROC_STARTING && !t->is_cancelled)
                return WRITE_WAITS;
        if (is_known(t, id))
                return WRITE_ACCEPTED;
        switch (process_write_kept(p, bytes, kept)) {
        case 0:
                remember(t, id);
                return WRITE_ACCEPTED;
        case -EAGAIN:
                return WRITE_WAITS;
        case -ENOBUFS:
                return WRITE_NO_ROOM;
        default:
                return WRITE_CLOSED;
        }
}

static enum outcome try_close(struct task *t)
{
        if (t->process->state == PROC_STARTING && !t->is_cancelled)
                return WRITE_WAITS;
        switch (process_close_stdin(t->process)) {
        case STDIN_NOW_CLOSED:
                return CLOSE_DONE;
        case STDIN_ALREADY_CLOSED:
                return CLOSE_ALREADY;
        case STDIN_HAS_NO_END:
                return CLOSE_IMPOSSIBLE;
        case STDIN_NEVER_OPEN:
                break;
        }
        return WRITE_CLOSED;
}

static void answer(struct client *c, const struct rpc_id *id, enum outcome outcome)
{
        static const char *const statuses[] = {
                [WRITE_ACCEPTED] = "accepted",      [WRITE_CLOSED] = "stdinClosed",
                [WRITE_UNKNOWN] = "unknownProcess", [CLOSE_DONE] = "closed",
                [CLOSE_ALREADY] = "alreadyClosed",
        };
        struct err err = ERR_INIT;
        if (outcome == CLOSE_IMPOSSIBLE) {
                err_set(&err, RPC_INVALID_REQUEST, -ENOTSUP,
                        "the terminal is in raw mode and has no end of input; it can still be written to");
                err.reason = "rawTerminal";
                err.remedy = "write what the program itself takes for the end, or terminate the process";
        } else if (outcome == WRITE_NO_ROOM) {
                (void)req_limit(&err, "bytes queued for stdin of all processes", LIMIT_STDIN_TOTAL_BYTES);
        } else {
                req_reply_status(c, id, statuses[outcome]);
                return;
        }
        conn_fail(c->conn, id, &err, NULL);
}

static void writer_forget(struct parked *parked)
{
        struct writer *w = container_of(parked, struct writer, parked);
        list_remove(&w->link);
        if (w->server)
                conns_free_arena(&w->server->conns, &w->kept);
        else
                free(w->bytes);
        free(w->id);
        free(w);
}

/* Parks a write behind the writes that wait. Takes `w`; on failure frees `w`, but not what it points at. */
static int park(struct task *t, struct req *req, struct writer *w, uint64_t bytes, struct err *err)
{
        int e = parked_init(&w->parked, req, sizeof(*w) + bytes, writer_forget, err);
        if (e < 0) {
                free(w);
                return e;
        }
        list_append(&t->writes, &w->link);
        return 0;
}

/* Parks a write with a copy of its bytes. For a large message, takes the arena instead, which holds the bytes and `in` itself. */
static int park_write(struct task *t, struct req *req, const struct process_write *in, struct err *err)
{
        struct writer *w = mem_new(struct writer);
        char *bytes = req->may_keep ? (char *)(uintptr_t)in->bytes.p : slice_dup(in->bytes);
        char *id = in->write_id.p ? slice_dup(in->write_id) : NULL;
        uint64_t held = req->may_keep ? req->arena->bytes : in->bytes.n;
        w->bytes = bytes;
        w->len = in->bytes.n;
        w->id = id;
        int r = park(t, req, w, held + in->write_id.n, err);
        if (r == 0 && req->may_keep) {
                w->server = req->server;
                w->kept = *req->arena;
                *req->arena = ARENA_INIT;
        }
        if (r < 0) {
                free(id);
                if (!req->may_keep)
                        free(bytes);
        }
        return r;
}

int task_write(struct task *t, struct req *req, const struct process_write *in, struct err *err)
{
        /* The id is copied, because the arena of a large message may hold it and be freed before the answer. */
        _arena_ struct arena own = ARENA_INIT;
        struct rpc_id id = *req->id;
        if (req->may_keep && id.is_string)
                id.string = slice_from(arena_dup(&own, id.string), id.string.n);
        enum outcome outcome = WRITE_WAITS;
        if (list_is_empty(&t->writes))
                outcome = try_write(t, in->bytes, in->write_id, req->may_keep ? req->arena : NULL);
        if (outcome == WRITE_WAITS)
                return park_write(t, req, in, err);
        answer(req->client, &id, outcome);
        return 0;
}

int task_close_stdin(struct task *t, struct req *req, struct err *err)
{
        enum outcome outcome = list_is_empty(&t->writes) ? try_close(t) : WRITE_WAITS;
        if (outcome != WRITE_WAITS) {
                answer(req->client, req->id, outcome);
                return 0;
        }
        struct writer *w = mem_new(struct writer);
        w->is_close = true;
        return park(t, req, w, 0, err);
}

static void answer_first(struct task *t, enum outcome outcome)
{
        struct writer *w = list_first(&t->writes, struct writer, link);
        answer(w->parked.client, &w->parked.id, outcome);
        parked_done(&w->parked);
}

void task_writes_go_on(struct task *t)
{
        struct writer *w;
        while ((w = list_first(&t->writes, struct writer, link))) {
                struct slice id = w->id ? slice_from_str(w->id) : (struct slice){ 0 };
                struct arena *kept = w->server ? &w->kept : NULL;
                enum outcome outcome =
                        w->is_close ? try_close(t) : try_write(t, slice_from(w->bytes, w->len), id, kept);
                if (outcome == WRITE_WAITS)
                        return;
                answer_first(t, outcome);
        }
}

void task_writes_fail(struct task *t)
{
        while (!list_is_empty(&t->writes))
                answer_first(t, WRITE_UNKNOWN);
}
