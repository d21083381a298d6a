/* client_events: passes the events of a connection on to the modules that work for its client: messages go to dispatch, all
 * modules that wait for room in the outgoing queue hear of it, and all modules hear of the end. */
#include "server/client_events.h"

#include "base/mem.h"
#include "core/inquiry.h"
#include "core/job.h"
#include "core/parked.h"
#include "core/server.h"
#include "server/dispatch.h"
#include "server/drain.h"
#include "server/m_http.h"
#include "server/open_file.h"
#include "server/watches.h"
#include "session/session_life.h"
#include "session/task.h"

static void *begun(struct conns *conns, struct conn *conn)
{
        struct client *c = mem_new(struct client);
        c->conn = conn;
        c->server = container_of(conns, struct server, conns);
        list_init(&c->parked);
        list_init(&c->reads);
        list_init(&c->http_calls);
        list_init(&c->inquiries);
        jobs_init(&c->jobs);
        map_init(&c->open_files);
        return c;
}

static void message(struct conn *conn, struct slice text)
{
        dispatch_message(conn->owner, text);
}

static void *parse(struct arena *a, struct slice text)
{
        return dispatch_parse(a, text);
}

static void parsed(struct conn *conn, struct arena *a, struct buf *text, void *what)
{
        dispatch_parsed(conn->owner, a, text, what);
}

static void paused(struct conn *conn, bool is_paused)
{
        struct client *c = conn->owner;
        if (c->session)
                session_pause_output(c->session, is_paused);
        if (!is_paused)
                http_resume(c);
}

static void resumed(struct conn *conn)
{
        struct client *c = conn->owner;
        task_reads_on_room(c);
        watches_on_room(c);
}

static void flushed(struct conn *conn)
{
        jobs_on_queue_room(conn->owner);
}

static bool is_busy(const struct conn *conn)
{
        const struct client *c = conn->owner;
        return c->jobs.count > 0;
}

/* Called when the connection has ended. Waiting requests are dropped, because their answers could not be sent; the session is
 * detached. */
static void ended(struct conn *conn)
{
        struct client *c = conn->owner;
        parked_drop_all(c);
        inquiries_drop_all(c);
        http_drop_all(c);
        open_file_drop_all(&c->open_files);
        watches_drop_all(c);
        jobs_disinherit(c);
        deferred_cancel(&c->jobs.awake);
        if (c->session)
                session_detach(c->session);
}

static void released(struct conn *conn)
{
        free(conn->owner);
}

static void gone(struct conns *conns, bool was_stdio)
{
        struct server *s = container_of(conns, struct server, conns);
        if (was_stdio)
                server_drain(s);
        server_conn_gone(s);
}

const struct conn_events client_events = {
        .begun = begun,
        .message = message,
        .parse = parse,
        .parsed = parsed,
        .paused = paused,
        .resumed = resumed,
        .flushed = flushed,
        .is_busy = is_busy,
        .ended = ended,
        .released = released,
        .gone = gone,
};
