/* task_write: process/write (PROTOCOL.md 6.5).
 *
 * Writes of one process are done in order of arrival. One that finds stdin full, or the process still starting, waits,
 * and so do all behind it; nothing else does. A writeId is remembered once its write was accepted.
 */
#include "base/mem.h"
#include "proto/process.h"
#include "server/task_internal.h"

#include <errno.h>

/* --- ids of accepted writes --------------------------------------------------------------------------------------- */

struct write_ids {
        struct map set;
        char **ring; /* LIMIT_WRITE_IDS places, grows to that */
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
        char *bytes;
        size_t len;
        char *id;      /* NULL when it has none */
        bool is_close; /* process/closeStdin instead */
};

static void reply_status(struct conn *c, const struct rpc_id *id, const char *status)
{
        struct jsonw w;
        conn_reply_begin(c, id, 64, &w);
        jsonw_object(&w);
        jsonw_member_str(&w, "status", status);
        jsonw_object_end(&w);
        conn_reply_end(c, id, &w);
}

/* What to answer to a write: a status, an error, or nothing yet. */
enum outcome {
        WRITE_ACCEPTED,
        WRITE_CLOSED,
        WRITE_UNKNOWN,
        WRITE_NO_ROOM,
        CLOSE_DONE,
        CLOSE_ALREADY,
        WRITE_WAITS,
};

static enum outcome try_write(struct task *t, struct slice bytes, struct slice id)
{
        struct process *p = t->process;
        if (p->state == PROC_STARTING && !t->is_cancelled)
                return WRITE_WAITS;
        if (is_known(t, id))
                return WRITE_ACCEPTED;
        switch (process_write(p, bytes)) {
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
        case STDIN_NEVER_OPEN:
                break;
        }
        return WRITE_CLOSED;
}

static void answer(struct conn *c, const struct rpc_id *id, enum outcome outcome)
{
        static const char *const statuses[] = {
                [WRITE_ACCEPTED] = "accepted",      [WRITE_CLOSED] = "stdinClosed",
                [WRITE_UNKNOWN] = "unknownProcess", [CLOSE_DONE] = "closed",
                [CLOSE_ALREADY] = "alreadyClosed",
        };
        if (outcome == WRITE_NO_ROOM) {
                struct err err = ERR_INIT;
                (void)dispatch_limit(&err, "bytes queued for stdin of all processes",
                                     LIMIT_STDIN_TOTAL_BYTES);
                conn_fail(c, id, &err, NULL);
                return;
        }
        reply_status(c, id, statuses[outcome]);
}

static void writer_forget(struct parked *parked)
{
        struct writer *w = container_of(parked, struct writer, parked);
        list_remove(&w->link);
        free(w->bytes);
        free(w->id);
        free(w);
}

/* Behind everything that waits already. */
static int park(struct task *t, struct req *req, const struct writer *what, uint64_t bytes, struct err *err)
{
        struct writer *w = mem_new(struct writer);
        int e = parked_init(&w->parked, req, sizeof(*w) + bytes, writer_forget, err);
        if (e < 0) {
                free(w);
                free(what->bytes);
                free(what->id);
                return e;
        }
        w->bytes = what->bytes;
        w->len = what->len;
        w->id = what->id;
        w->is_close = what->is_close;
        list_append(&t->writes, &w->link);
        return 0;
}

int task_write(struct task *t, struct req *req, const struct process_write *in, struct err *err)
{
        enum outcome outcome =
                list_is_empty(&t->writes) ? try_write(t, in->bytes, in->write_id) : WRITE_WAITS;
        if (outcome != WRITE_WAITS) {
                answer(req->conn, req->id, outcome);
                return 0;
        }
        struct writer what = {
                .bytes = slice_dup(in->bytes),
                .len = in->bytes.n,
                .id = in->write_id.p ? slice_dup(in->write_id) : NULL,
        };
        return park(t, req, &what, in->bytes.n + in->write_id.n, err);
}

int task_close_stdin(struct task *t, struct req *req, struct err *err)
{
        enum outcome outcome = list_is_empty(&t->writes) ? try_close(t) : WRITE_WAITS;
        if (outcome != WRITE_WAITS) {
                answer(req->conn, req->id, outcome);
                return 0;
        }
        return park(t, req, &(struct writer){ .is_close = true }, 0, err);
}

static void answer_first(struct task *t, enum outcome outcome)
{
        struct writer *w = list_first(&t->writes, struct writer, link);
        answer(w->parked.conn, &w->parked.id, outcome);
        parked_done(&w->parked);
}

void task_writes_go_on(struct task *t)
{
        struct writer *w;
        while ((w = list_first(&t->writes, struct writer, link))) {
                struct slice id = w->id ? slice_from_str(w->id) : (struct slice){ 0 };
                enum outcome outcome =
                        w->is_close ? try_close(t) : try_write(t, slice_from(w->bytes, w->len), id);
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
