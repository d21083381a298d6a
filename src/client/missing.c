/* missing: waits for paths that are not there (fs/watchMissing).
 *
 * The server has one such wait for each connection, and so has a client. A change that came while there was no connection cannot be
 * told: so each lost connection counts as a change.
 */
#include "client/client.h"

#include "base/mem.h"
#include "client/error.h"
#include "client/member.h"

#include <errno.h>

struct farhand_missing {
        struct farhand *client;
        uint64_t id;
        struct farhand_missing_events events;
        void *arg;
        bool is_over; /* no more events follow */
};

/* The callbacks may free the struct: nothing looks at it after them. */

static void tell_changed(struct farhand_missing *m)
{
        m->is_over = true;
        if (m->events.on_changed)
                m->events.on_changed(m, m->arg);
}

void client_missing_fail(struct farhand *f, const struct farhand_error *error)
{
        struct farhand_missing *m = f->missing;
        if (!m || m->is_over)
                return;
        m->is_over = true;
        if (m->events.on_failed)
                m->events.on_failed(m, m->arg, error);
}

void client_missing_recover(struct farhand *f)
{
        if (f->missing && !f->missing->is_over)
                tell_changed(f->missing);
}

bool client_missing_on_changed(struct farhand *f, const struct rpc_message *m)
{
        uint64_t id;
        if (!f->missing || !member_u64(&m->doc, m->params, S("watchId"), &id) || id != f->missing->id)
                return false;
        if (!f->missing->is_over)
                tell_changed(f->missing);
        return true;
}

static void on_answer(struct farhand *f, void *arg, const struct rpc_message *message,
                      const struct farhand_error *error)
{
        struct farhand_missing *m = arg;
        if (m->is_over || (error && error->code == -ECONNRESET && f->state == FARHAND_RECOVERING))
                return; /* client_missing_recover tells a change when the connection is back */
        if (error) {
                client_missing_fail(f, error);
                return;
        }
        bool is_watching = member_is_true(&message->doc, message->result, S("watching"));
        m->is_over = !is_watching;
        if (m->events.on_started)
                m->events.on_started(m, m->arg, is_watching);
}

static int check(const struct farhand *f, const char *const *missing, const char *present,
                 struct farhand_error *ret_error)
{
        if (f->state == FARHAND_CONNECTING)
                return error_set(ret_error, -ENOTCONN, "the client is not connected yet");
        if (f->missing)
                return error_set(ret_error, -EBUSY, "this client waits for missing paths already");
        if (!missing || !missing[0])
                return error_set(ret_error, -EINVAL, "no path is missing");
        for (size_t i = 0; missing[i]; i++)
                if (missing[i][0] != '/')
                        return error_set(ret_error, -EINVAL, "the path is not absolute");
        if (present && present[0] != '/')
                return error_set(ret_error, -EINVAL, "the path is not absolute");
        return farhand_has_capability(f, "fsWatchMissing")
                       ? 0
                       : error_set(ret_error, -EOPNOTSUPP, "this server has no fsWatchMissing");
}

static int ask(struct farhand_missing *m, const char *const *missing, const char *present,
               struct farhand_error *ret_error)
{
        struct farhand *f = m->client;
        struct jsonw w;
        struct call *call = call_begin(f, "fs/watchMissing", &w, ret_error);
        if (!call)
                return f->state == FARHAND_FAILED ? f->failure.code : -EAGAIN;
        jsonw_object(&w);
        jsonw_member_u64(&w, "watchId", m->id);
        jsonw_key(&w, "missing");
        jsonw_array(&w);
        for (; *missing; missing++)
                client_path_write(f, &w, *missing);
        jsonw_array_end(&w);
        jsonw_key(&w, "present");
        if (present)
                client_path_write(f, &w, present);
        else
                jsonw_null(&w);
        client_sandbox_write(&w, f->sandbox);
        jsonw_object_end(&w);
        return call_end(f, call, &w, 0, on_answer, m, ret_error);
}

struct farhand_missing *farhand_missing_start(struct farhand *f, const char *const *missing,
                                              const char *present,
                                              const struct farhand_missing_events *events, void *arg,
                                              struct farhand_error *ret_error)
{
        if (check(f, missing, present, ret_error) < 0)
                return NULL;
        struct farhand_missing *m = mem_new(struct farhand_missing);
        *m = (struct farhand_missing){ .client = f,
                                       .id = f->next_missing++,
                                       .events = events ? *events : (struct farhand_missing_events){ 0 },
                                       .arg = arg };
        f->missing = m;
        if (ask(m, missing, present, ret_error) == 0)
                return m;
        farhand_missing_free(m);
        return NULL;
}

void farhand_missing_free(struct farhand_missing *m)
{
        if (!m)
                return;
        calls_forget(m->client, NULL, m);
        m->client->missing = NULL;
        free(m);
}
