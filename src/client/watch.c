/* watch: tells a program what changes in the file system of the server, as it happens.
 *
 * A watch belongs to the connection. When the session is resumed after a lost connection, the watch is made again under another id,
 * and on_overflow tells the program that changes may have been missed. A change that this client does not understand is told by
 * on_overflow too.
 */
#include "client/client.h"

#include "base/mem.h"
#include "client/error.h"
#include "client/member.h"

#include <errno.h>
#include <inttypes.h>

#define ID_PREFIX "farhand-watch-"

struct farhand_watch {
        struct list link; /* farhand::watches */
        struct farhand *client;
        char id[sizeof(ID_PREFIX) + 20];
        char *path;
        char *sandbox; /* the sandbox of the client when the watch was begun, as JSON; NULL: none */
        bool is_recursive;
        struct farhand_watch_events events;
        void *arg;
        bool is_asked;   /* the answer to fs/watch is awaited */
        bool is_started; /* the program was told that the watch has begun */
        bool is_over;    /* no event follows */
        bool is_freed;   /* the program has freed the watch; its memory is freed at the end of the step */
};

static void release(struct farhand_watch *w)
{
        w->is_freed = w->is_over = true;
        if (w->client->depth > 0)
                return;
        list_remove(&w->link);
        free(w->path);
        free(w->sandbox);
        free(w);
}

void client_watches_sweep(struct farhand *f)
{
        struct farhand_watch *w;
        list_each (w, &f->watches, link)
                if (w->is_freed)
                        release(w);
}

void client_watches_release(struct farhand *f)
{
        while (!list_is_empty(&f->watches))
                release(list_first(&f->watches, struct farhand_watch, link));
}

static void fail(struct farhand_watch *w, const struct farhand_error *error)
{
        if (w->is_over)
                return;
        w->is_over = true;
        if (w->events.on_failed)
                w->events.on_failed(w, w->arg, error);
}

void client_watches_fail_all(struct farhand *f, const struct farhand_error *error)
{
        struct farhand_watch *w;
        list_each (w, &f->watches, link)
                fail(w, error);
}

static void tell_overflow(struct farhand_watch *w)
{
        if (!w->is_over && w->events.on_overflow)
                w->events.on_overflow(w, w->arg);
}

/* ---- beginning ---- */

static void on_answer(struct farhand *f, void *arg, UNUSED const struct rpc_message *m,
                      const struct farhand_error *error)
{
        struct farhand_watch *w = arg;
        bool was_started = w->is_started;
        w->is_asked = false;
        if (w->is_over || (error && error->code == -ECONNRESET && f->state == FARHAND_RECOVERING))
                return; /* fs/watch is sent again when the connection is back */
        if (error) {
                fail(w, error);
                return;
        }
        w->is_started = true;
        if (was_started)
                tell_overflow(w);
        else if (w->events.on_started)
                w->events.on_started(w, w->arg);
}

static int ask(struct farhand_watch *w, struct farhand_error *ret_error)
{
        struct farhand *f = w->client;
        struct jsonw j;
        struct call *call = call_begin(f, "fs/watch", &j, ret_error);
        if (!call)
                return f->state == FARHAND_FAILED ? f->failure.code : -EAGAIN;
        (void)snprintf(w->id, sizeof(w->id), ID_PREFIX "%" PRIu64, f->next_watch++);
        jsonw_object(&j);
        jsonw_member_str(&j, "watchId", w->id);
        jsonw_key(&j, "path");
        client_path_write(f, &j, w->path);
        jsonw_member_bool(&j, "recursive", w->is_recursive);
        client_sandbox_write(&j, w->sandbox);
        jsonw_object_end(&j);
        int r = call_end(f, call, &j, 0, on_answer, w, ret_error);
        w->is_asked = r == 0;
        return r;
}

void client_watches_recover(struct farhand *f)
{
        struct farhand_watch *w;
        struct farhand_error error;
        list_each (w, &f->watches, link)
                if (!w->is_over && !w->is_asked && ask(w, &error) < 0)
                        fail(w, &error);
}

struct farhand_watch *farhand_watch_start(struct farhand *f, const char *path, bool is_recursive,
                                          const struct farhand_watch_events *events, void *arg,
                                          struct farhand_error *ret_error)
{
        if (path[0] != '/') {
                error_set(ret_error, -EINVAL, "the path is not absolute");
                return NULL;
        }
        if (f->state == FARHAND_CONNECTING) {
                error_set(ret_error, -ENOTCONN, "the client is not connected yet");
                return NULL;
        }
        struct farhand_watch *w = mem_new(struct farhand_watch);
        *w = (struct farhand_watch){ .client = f,
                                     .path = mem_strdup(path),
                                     .sandbox = mem_strdup(f->sandbox),
                                     .is_recursive = is_recursive,
                                     .events = events ? *events : (struct farhand_watch_events){ 0 },
                                     .arg = arg };
        list_append(&f->watches, &w->link);
        if (ask(w, ret_error) == 0)
                return w;
        release(w);
        return NULL;
}

void farhand_watch_free(struct farhand_watch *w)
{
        struct jsonw j;
        if (!w || w->is_freed)
                return;
        struct farhand *f = w->client;
        calls_forget(f, NULL, w);
        /* Also when fs/watch still waits for the connection: fs/unwatch is then sent behind it. */
        struct call *call = w->is_over ? NULL : call_begin(f, "fs/unwatch", &j, NULL);
        if (call) {
                jsonw_object(&j);
                jsonw_member_str(&j, "watchId", w->id);
                jsonw_object_end(&j);
                (void)call_end(f, call, &j, 0, NULL, NULL, NULL);
        }
        release(w);
}

/* ---- changes ---- */

/* Tells the program one change. Returns false when the change cannot be understood. */
static bool tell_change(struct farhand_watch *w, const struct json_doc *d, const struct json *event)
{
        static const char *const kinds[] = { [FARHAND_CREATED] = "created",
                                             [FARHAND_MODIFIED] = "modified",
                                             [FARHAND_REMOVED] = "removed",
                                             [FARHAND_RENAMED] = "renamed" };
        _arena_ struct arena a = ARENA_INIT;
        size_t kind = slice_find(member_string(&a, d, event, S("kind")), kinds, ARRAY_LEN(kinds));
        const char *path = member_path(&a, d, event, S("path"));
        const char *from = kind == FARHAND_RENAMED ? member_path(&a, d, event, S("fromPath")) : NULL;
        if (kind == ARRAY_LEN(kinds) || !path || (kind == FARHAND_RENAMED && !from))
                return false;
        if (w->events.on_change)
                w->events.on_change(w, w->arg, (enum farhand_change)kind, path, from);
        return true;
}

static void on_changed(struct farhand_watch *w, const struct rpc_message *m)
{
        const struct json *events = json_get(&m->doc, m->params, S("events"));
        bool is_array = events && events->type == JSON_ARRAY;
        bool is_overflow = !is_array || member_is_true(&m->doc, m->params, S("overflow"));
        if (is_array) {
                json_each (it, &m->doc, events) {
                        if (w->is_over)
                                return;
                        is_overflow |= !tell_change(w, &m->doc, it);
                }
        }
        if (is_overflow)
                tell_overflow(w);
}

bool client_watch_on_changed(struct farhand *f, const struct rpc_message *m)
{
        _arena_ struct arena a = ARENA_INIT;
        struct slice id = member_string(&a, &m->doc, m->params, S("watchId"));
        struct farhand_watch *w;
        if (!id.p || !slice_starts(id, S(ID_PREFIX)))
                return false; /* the program has made this watch itself, with farhand_call */
        list_each (w, &f->watches, link) {
                if (!w->is_over && slice_eq(slice_from_str(w->id), id)) {
                        on_changed(w, m);
                        break;
                }
        }
        return true;
}
