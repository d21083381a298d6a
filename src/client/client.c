/* client: the life of a client: connecting, the handshake, the loss of the connection and its recovery.
 *
 * When the connection is lost, the client tries to connect every 100 ms (by ssh every second, because machines lock out those that
 * knock too often), for at most 25 s, and resumes the session. Then it reads
 * what each process has written meanwhile, and sends the calls that waited. A call that must not be done twice fails when the
 * connection is lost. A start does not fail: after the connection is back, the client finds out whether the process was started.
 */
#include "client/client.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "client/error.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

void client_set_state(struct farhand *f, enum farhand_state state, const char *text)
{
        f->state = state;
        if (f->options.on_state)
                f->options.on_state(f, f->options.arg, (int)state, text);
}

void client_fail(struct farhand *f, const struct farhand_error *error)
{
        if (f->state == FARHAND_FAILED)
                return;
        f->failure = *error;
        transport_close(&f->transport, 0);
        f->attempt_end_ms = f->retry_at_ms = 0;
        f->state = FARHAND_FAILED; /* set before the callbacks, so that they cannot make calls */
        calls_fail_all(f, error);
        client_processes_fail_all(f, error);
        client_http_requests_fail(f, error->code, error->text);
        client_watches_fail_all(f, error);
        client_missing_fail(f, error);
        client_set_state(f, FARHAND_FAILED, error->text);
}

/* ---- connecting ---- */

/* Returns when an attempt to connect or to initialize must be done. An attempt that resumes a session has no more time than the whole
 * recovery. */
static uint64_t attempt_end(const struct farhand *f, unsigned timeout_ms)
{
        uint64_t end = clock_mono_ms() + timeout_ms;
        return f->state == FARHAND_RECOVERING ? MIN(end, f->recover_end_ms) : end;
}

static bool is_ssh(const struct farhand *f)
{
        return f->has_endpoint && f->endpoint.kind == ENDPOINT_SSH;
}

static void begin_attempt(struct farhand *f)
{
        struct err err = ERR_INIT;
        const struct farhand_options *o = &f->options;
        f->retry_at_ms = 0;
        f->is_initializing = false;
        f->attempt_end_ms = attempt_end(f, o->connect_timeout_ms ? o->connect_timeout_ms
                                           : is_ssh(f)           ? SSH_CONNECT_TIMEOUT_MS
                                                                 : CONNECT_TIMEOUT_MS);
        if (client_open(f, &err) < 0)
                client_lost(f, &err);
}

static void on_initialized(struct farhand *f, void *arg, const struct rpc_message *m,
                           const struct farhand_error *error);

static void send_initialize(struct farhand *f)
{
        const struct farhand_options *o = &f->options;
        const char *resume = f->session_id[0] ? f->session_id : o->resume_session_id;
        struct jsonw w;
        struct farhand_error error;
        f->is_initializing = true;
        f->attempt_end_ms =
                attempt_end(f, o->initialize_timeout_ms ? o->initialize_timeout_ms : INITIALIZE_TIMEOUT_MS);
        /* The request takes no slot of the ordinary calls, because all slots may be taken by calls that wait for the handshake. */
        _buf_ struct buf text = BUF_INIT(64 * 1024);
        jsonw_begin(&w, &text);
        jsonw_object(&w);
        jsonw_member_i64(&w, "id", 0);
        jsonw_member_str(&w, "method", "initialize");
        jsonw_key(&w, "params");
        jsonw_object(&w);
        jsonw_member_str(&w, "clientName", o->client_name ? o->client_name : "farhand");
        jsonw_member_u64(&w, "maxMessageBytes", TRANSPORT_MESSAGE_MAX);
        if (resume) {
                jsonw_member_str(&w, "resumeSessionId", resume);
                /* Takeover is asked for only in the first handshake: a client whose session another client took over must not take it
                 * back. */
                if (o->takeover && !f->session_id[0])
                        jsonw_member_bool(&w, "takeover", true);
        }
        if (o->detach_ms > 0)
                jsonw_member_u64(&w, "detachMs", o->detach_ms);
        jsonw_object_end(&w);
        jsonw_object_end(&w);
        if (jsonw_end(&w) < 0) {
                error_set(&error, -EMSGSIZE, "the name of the client or the session id is too long");
                client_fail(f, &error);
                return;
        }
        transport_send(&f->transport, buf_slice(&text));
}

/* Copies what the answer to initialize says into the client. */
static void take_info(struct farhand *f, const struct rpc_message *m)
{
        _arena_ struct arena a = ARENA_INIT;
        const struct json *session = json_get(&m->doc, m->result, S("sessionId"));
        const struct json *info = json_get(&m->doc, m->result, S("environmentInfo"));
        free(f->session_id);
        free(f->info);
        f->session_id = session && session->type == JSON_STRING ? slice_dup(json_string(&a, &m->doc, session))
                                                                : mem_strdup("");
        f->info = slice_dup(json_raw(&m->doc, m->result));
        f->wants_uris = info && info->type == JSON_OBJECT;
        /* Older servers, without environmentInfo, do not tell whether they know writeIds. */
        f->can_repeat_writes = f->wants_uris;
        f->has_process_control = farhand_has_capability(f, "processControlV1");
}

/* Returns whether a session cannot be resumed yet because the server has not noticed that our old connection is gone. Old servers
 * have no error code of its own for that. */
static bool is_still_attached(const struct farhand_error *error)
{
        return error->rpc_code == RPC_SESSION_ATTACHED ||
               (error->rpc_code == RPC_INVALID_REQUEST && strstr(error->text, "is already attached"));
}

static void on_initialized(struct farhand *f, UNUSED void *arg, const struct rpc_message *m,
                           const struct farhand_error *error)
{
        f->is_initializing = false;
        f->attempt_end_ms = 0;
        if (error) {
                struct err err = ERR_INIT;
                if (is_still_attached(error) && f->state == FARHAND_RECOVERING) {
                        (void)err_set(&err, 0, -EAGAIN, "%s", error->text);
                        client_lost(f, &err);
                        return;
                }
                struct farhand_error final = *error;
                if (f->state == FARHAND_RECOVERING)
                        error_set(&final, -EREMOTEIO, "%s; failed to resume exec-server session: %s",
                                  f->lost_text, error->text);
                final.rpc_code = error->rpc_code;
                client_fail(f, &final);
                return;
        }
        bool is_again = f->state == FARHAND_RECOVERING;
        take_info(f, m);
        transport_send(&f->transport, S("{\"method\":\"initialized\",\"params\":{}}"));
        f->state = FARHAND_READY;
        if (is_again) {
                client_processes_recover(f);
                client_watches_recover(f);
                client_missing_recover(f);
        }
        calls_send_waiting(f);
        client_set_state(f, FARHAND_READY, is_again ? "the session was resumed" : "connected");
}

/* ---- the loss of the connection ---- */

static bool can_recover(const struct farhand *f)
{
        return f->has_endpoint && f->session_id[0];
}

/* Returns whether another attempt may succeed. No attempt can succeed when another connection has taken the session, or the server
 * refuses the token. */
static bool is_worth_retry(int code)
{
        return code != -ESTALE && code != -EACCES && code != -EPROTO && code != -ENOMEM &&
               code != -EMSGSIZE && code != -ENOEXEC;
}

void client_lost(struct farhand *f, const struct err *err)
{
        struct farhand_error error;
        uint64_t now = clock_mono_ms();
        transport_close(&f->transport, 0);
        f->attempt_end_ms = 0;
        f->is_initializing = false;
        if (f->state == FARHAND_FAILED)
                return;
        if (f->state == FARHAND_CONNECTING ||
            (f->state == FARHAND_READY && (!can_recover(f) || !is_worth_retry(err->code)))) {
                error_from_err(&error, err);
                client_fail(f, &error);
                return;
        }
        if (f->state == FARHAND_READY) {
                f->recover_end_ms = now + RECOVER_MS;
                (void)snprintf(f->lost_text, sizeof(f->lost_text), "%.*s", (int)sizeof(f->lost_text) - 1,
                               err->text);
                f->state = FARHAND_RECOVERING;
                f->losses++;
                f->retry_at_ms = now;
                calls_on_lost(f, f->lost_text);
                client_network_questions_on_lost(f);
                client_http_requests_fail(f, -ECONNRESET, f->lost_text);
                if (f->state == FARHAND_RECOVERING)
                        client_set_state(f, FARHAND_RECOVERING, f->lost_text);
        } else {
                f->retry_at_ms = now + (is_ssh(f) ? SSH_RETRY_MS : RECOVER_RETRY_MS);
        }
        if (f->state == FARHAND_RECOVERING && (!is_worth_retry(err->code) || now >= f->recover_end_ms)) {
                error_set(&error, is_worth_retry(err->code) ? -ETIMEDOUT : err->code,
                          "%s; failed to resume exec-server session: %s", f->lost_text, err->text);
                client_fail(f, &error);
        }
}

/* ---- steps ---- */

/* Returns the events that epoll shall report for the connection. Pausing has an effect only after the handshake. */
static uint32_t wanted_events(const struct farhand *f)
{
        uint32_t events = transport_events(&f->transport);
        return f->is_paused && f->state == FARHAND_READY ? events & ~(uint32_t)EPOLLIN : events;
}

static void watch_transport(struct farhand *f)
{
        int fd = f->transport.state == TRANSPORT_CLOSED ? -1 : transport_poll_fd(&f->transport);
        uint32_t events = fd >= 0 ? wanted_events(f) : 0;
        if (events == 0 && fd >= 0) {
                /* epoll reports the end of a connection even to a caller that wants no events: a paused client would never
                 * sleep. */
                (void)epoll_ctl(f->epoll, EPOLL_CTL_DEL, fd, NULL);
                fd = -1;
        }
        if (fd == f->watched && events == f->watched_events && f->watched_serial == f->transport.serial)
                return;
        struct epoll_event event = { .events = events };
        /* A descriptor that was closed has left the epoll by itself, and its number may be in use again. */
        int op = fd == f->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
        if (fd >= 0 && epoll_ctl(f->epoll, op, fd, &event) < 0 &&
            epoll_ctl(f->epoll, op == EPOLL_CTL_MOD ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event) < 0) {
                struct farhand_error error;
                error_set(&error, -errno, "cannot watch the connection: %s", errno_text(errno));
                client_fail(f, &error);
                fd = -1;
        }
        f->watched = fd;
        f->watched_events = events;
        f->watched_serial = f->transport.serial;
}

static void on_message(struct farhand *f, struct slice text)
{
        _arena_ struct arena a = ARENA_INIT;
        struct rpc_message m;
        struct json_error bad;
        if (rpc_parse(&a, text, &m, &bad) < 0) {
                struct err err = ERR_INIT;
                (void)err_set(&err, 0, -EPROTO, "the server sent what is no message: %s", bad.text);
                client_lost(f, &err);
                return;
        }
        if ((m.kind == RPC_RESPONSE || m.kind == RPC_ERROR) && !m.id.is_string && m.id.number == 0) {
                struct farhand_error error;
                if (m.kind == RPC_ERROR)
                        error_from_message(&error, &m);
                if (f->is_initializing)
                        on_initialized(f, NULL, &m, m.kind == RPC_ERROR ? &error : NULL);
        } else if (m.kind == RPC_RESPONSE || m.kind == RPC_ERROR) {
                calls_on_answer(f, &m);
        } else if (m.kind == RPC_NOTIFICATION) {
                client_on_notification(f, &m);
        } else {
                client_on_request(f, &m);
        }
}

static void receive(struct farhand *f)
{
        struct err err = ERR_INIT;
        if (f->is_paused && f->state == FARHAND_READY)
                return; /* nothing is read; farhand_step sends what is queued */
        if (transport_on_ready(&f->transport, &err) < 0) {
                client_lost(f, &err);
                return;
        }
        if (f->transport.needs_program) {
                f->attempt_end_ms = attempt_end(f, SSH_PUT_TIMEOUT_MS);
                if (client_send_program(f, &err) < 0) {
                        client_lost(f, &err);
                        return;
                }
        }
        if (f->transport.state == TRANSPORT_OPEN && f->state != FARHAND_READY && !f->is_initializing)
                send_initialize(f);
        struct slice text;
        int r = 0;
        while (f->transport.state != TRANSPORT_CLOSED && (r = transport_next(&f->transport, &text, &err)) > 0)
                on_message(f, text);
        if (r < 0)
                client_lost(f, &err);
}

static void on_time(struct farhand *f)
{
        uint64_t now = clock_mono_ms();
        struct err err = ERR_INIT;
        if (f->attempt_end_ms && now >= f->attempt_end_ms) {
                (void)err_set(&err, 0, -ETIMEDOUT, "%s timed out",
                              f->is_initializing ? "initializing the exec server"
                                                 : "connecting to the exec server");
                client_lost(f, &err);
        }
        if (f->retry_at_ms && now >= f->retry_at_ms)
                begin_attempt(f);
        if (!f->is_paused)
                client_processes_on_time(f, now);
        client_network_questions_on_time(f, now);
        if (f->state == FARHAND_READY && !f->transport.is_lines) {
                if (!f->is_paused && now >= f->transport.heard_at_ms + SILENCE_MS) {
                        (void)err_set(&err, 0, -ETIMEDOUT, "the server has been silent for %d s",
                                      SILENCE_MS / 1000);
                        client_lost(f, &err);
                } else if (now >= f->transport.pinged_at_ms + PING_MS) {
                        transport_ping(&f->transport);
                }
        }
}

int farhand_step(struct farhand *f, struct farhand_error *ret_error)
{
        struct epoll_event event;
        must(f->depth == 0);
        f->depth++;
        if (f->state != FARHAND_FAILED && epoll_wait(f->epoll, &event, 1, 0) > 0)
                receive(f);
        on_time(f);
        /* A connection to a program on stdio is open at once, so the handshake begins here. */
        if (f->transport.state == TRANSPORT_OPEN && f->state != FARHAND_READY && !f->is_initializing)
                send_initialize(f);
        struct err err = ERR_INIT;
        if (f->transport.state != TRANSPORT_CLOSED && transport_flush(&f->transport, &err) < 0)
                client_lost(f, &err);
        client_processes_feed(f);
        client_files_tell(f);
        watch_transport(f);
        f->depth--;
        client_processes_sweep(f);
        client_http_requests_sweep(f);
        client_watches_sweep(f);
        return f->state == FARHAND_FAILED ? error_copy(ret_error, &f->failure) : 0;
}

int farhand_timeout_ms(const struct farhand *f)
{
        uint64_t at = UINT64_MAX, now = clock_mono_ms();
        if (!f->is_paused)
                at = MIN(at, client_processes_due_ms(f));
        at = MIN(at, client_network_questions_due_ms(f));
        if (f->attempt_end_ms)
                at = MIN(at, f->attempt_end_ms);
        if (f->retry_at_ms)
                at = MIN(at, f->retry_at_ms);
        if (f->state == FARHAND_READY && !f->transport.is_lines)
                at = MIN(at, f->transport.pinged_at_ms + PING_MS);
        if (f->state == FARHAND_READY && !f->transport.is_lines && !f->is_paused)
                at = MIN(at, f->transport.heard_at_ms + SILENCE_MS);
        /* A callback has queued bytes since the last step: the next step is due at once, to send them. */
        if (f->transport.state != TRANSPORT_CLOSED && wanted_events(f) != f->watched_events)
                return 0;
        return at == UINT64_MAX ? -1 : at <= now ? 0 : (int)MIN(at - now, (uint64_t)INT32_MAX);
}

void farhand_pause(struct farhand *f, bool is_paused)
{
        if (f->is_paused && !is_paused)
                f->transport.heard_at_ms = clock_mono_ms(); /* silence counts from now on */
        f->is_paused = is_paused;
}

int farhand_fd(const struct farhand *f)
{
        return f->epoll;
}

enum farhand_state farhand_get_state(const struct farhand *f)
{
        return f->state;
}

const char *farhand_session_id(const struct farhand *f)
{
        return f->session_id;
}

const char *farhand_server_info(const struct farhand *f)
{
        return f->info;
}

size_t farhand_queued_bytes(const struct farhand *f)
{
        return transport_queued(&f->transport);
}
