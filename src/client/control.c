/* control: the public functions that resize, signal and end a process of this client, without waiting. */
#include "client/client.h"

#include "client/error.h"

#include <errno.h>
#include <signal.h>

/* Begins a call whose params are an object that begins with the id of the process. */
static struct call *begin(struct farhand_process *p, const char *method, struct jsonw *w,
                          struct farhand_error *ret_error)
{
        struct call *call = call_begin(p->client, method, w, ret_error);
        if (!call)
                return NULL;
        jsonw_object(w);
        jsonw_member_str(w, "processId", p->id);
        return call;
}

static int end(struct farhand_process *p, struct call *call, struct jsonw *w, struct farhand_error *ret_error)
{
        jsonw_object_end(w);
        return call_end(p->client, call, w, FARHAND_REPEAT, NULL, p, ret_error);
}

static int no_call(const struct farhand_process *p)
{
        return p->client->state == FARHAND_FAILED ? p->client->failure.code : -EAGAIN;
}

int farhand_process_close_stdin(struct farhand_process *p, struct farhand_error *ret_error)
{
        if (p->state == PROCESS_OVER || p->is_stdin_closed)
                return 0;
        if (!p->client->has_process_control) {
                if (!p->is_tty)
                        return error_set(ret_error, -EOPNOTSUPP,
                                         "this server cannot close the stdin of a process");
                int64_t n = farhand_process_write(p, "\x04", 1, ret_error);
                return n < 0    ? (int)n
                       : n == 0 ? error_set(ret_error, -EAGAIN, "too much waits to be written")
                                : 0;
        }
        struct jsonw w;
        struct call *call = begin(p, "process/closeStdin", &w, ret_error);
        if (!call)
                return no_call(p);
        int r = end(p, call, &w, ret_error);
        p->is_stdin_closed = r == 0 && !p->is_tty;
        return r;
}

int farhand_process_resize(struct farhand_process *p, unsigned rows, unsigned columns)
{
        struct jsonw w;
        if (p->state == PROCESS_OVER)
                return -ESRCH;
        if (!p->client->has_process_control)
                return -EOPNOTSUPP;
        struct call *call = begin(p, "process/resize", &w, NULL);
        if (!call)
                return no_call(p);
        jsonw_member_u64(&w, "rows", rows);
        jsonw_member_u64(&w, "cols", columns);
        return end(p, call, &w, NULL);
}

/* Ends the process when the server does not know process/signal, because the oldest servers have no other way. */
static void on_signalled(UNUSED struct farhand *f, void *arg, UNUSED const struct rpc_message *m,
                         const struct farhand_error *error)
{
        if (error && error->rpc_code == RPC_METHOD_NOT_FOUND)
                (void)farhand_process_terminate(arg);
}

int farhand_process_signal(struct farhand_process *p, int signo)
{
        return farhand_process_signal_to(p, signo, FARHAND_SCOPE_GROUP);
}

int farhand_process_signal_to(struct farhand_process *p, int signo, enum farhand_scope scope)
{
        struct jsonw w;
        if ((unsigned)scope > FARHAND_SCOPE_TREE)
                return -EINVAL;
        if (p->state == PROCESS_OVER)
                return -ESRCH;
        if (!p->client->has_process_control && (signo != SIGINT || scope != FARHAND_SCOPE_GROUP))
                return -EOPNOTSUPP;
        struct call *call = begin(p, "process/signal", &w, NULL);
        if (!call)
                return no_call(p);
        client_signal_write(&w, signo, scope);
        jsonw_object_end(&w);
        return call_end(p->client, call, &w, FARHAND_REPEAT, on_signalled, p, NULL);
}

void client_signal_write(struct jsonw *w, int signo, enum farhand_scope scope)
{
        static const char *const scopes[] = { [FARHAND_SCOPE_GROUP] = "group",
                                              [FARHAND_SCOPE_PROCESS] = "process",
                                              [FARHAND_SCOPE_TREE] = "tree" };
        if (signo == SIGINT)
                jsonw_member_str(w, "signal", "interrupt");
        else
                jsonw_member_i64(w, "signal", signo);
        if (scope != FARHAND_SCOPE_GROUP)
                jsonw_member_str(w, "scope", scopes[scope]);
}

int farhand_process_terminate(struct farhand_process *p)
{
        struct jsonw w;
        if (p->state == PROCESS_OVER)
                return -ESRCH;
        struct call *call = begin(p, "process/terminate", &w, NULL);
        return call ? end(p, call, &w, NULL) : no_call(p);
}

int farhand_process_stop(struct farhand_process *p, unsigned grace_ms)
{
        struct jsonw w;
        if (grace_ms > FARHAND_GRACE_MAX_MS)
                return -EINVAL;
        if (p->state == PROCESS_OVER)
                return -ESRCH;
        if (!p->client->has_process_control)
                return -EOPNOTSUPP;
        struct call *call = begin(p, "process/terminate", &w, NULL);
        if (!call)
                return no_call(p);
        client_grace_write(&w, grace_ms);
        return end(p, call, &w, NULL);
}

void client_grace_write(struct jsonw *w, unsigned grace_ms)
{
        jsonw_key(w, "mode");
        jsonw_object(w);
        jsonw_member_str(w, "type", "graceful");
        jsonw_member_u64(w, "timeoutMs", grace_ms);
        jsonw_object_end(w);
}
