/* task_start_answer: answers process/start, and writes the texts of its failures (docs/PROTOCOL.md). */
#include "base/fd.h"
#include "base/mem.h"
#include "core/server.h"
#include "proto/process.h"
#include "sandbox/remedy.h"
#include "session/task_internal.h"

#include <errno.h>

static void forget_texts(struct task *t)
{
        free(TAKE(t->program));
        free(TAKE(t->search_path));
        t->sandbox.image_fd = fd_close(t->sandbox.image_fd);
}

/* Writes how each requested limit is enforced. */
static void write_enforced(struct jsonw *w, const struct process_limits *l)
{
        struct spawn_limits limits = task_kernel_limits(l);
        struct spawn_enforced how = { 0 };
        struct err ignored = ERR_INIT;
        must(spawn_limits_check(&limits, &how, &ignored) == 0); /* task_start_check has checked the limits */
        const struct {
                const char *key, *how;
        } rows[] = {
                { "wallMs", l->wall_ms ? "timer" : NULL }, { "silenceMs", l->silence_ms ? "timer" : NULL },
                { "cpuSeconds", how.cpu_seconds },         { "memoryBytes", how.memory_bytes },
                { "openFiles", how.open_files },           { "processes", how.processes },
                { "fileBytes", how.file_bytes },
        };
        jsonw_key(w, "limits");
        jsonw_object(w);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                if (rows[i].how)
                        jsonw_member_str(w, rows[i].key, rows[i].how);
        jsonw_object_end(w);
}

void task_start_succeeded(struct task *t)
{
        forget_texts(t);
        struct starter *s = t->starter;
        if (!s) { /* the connection has ended; the process belongs to the session */
                task_again_drop(t);
                return;
        }
        struct jsonw w;
        struct conn *conn = s->parked.client->conn;
        conn_reply_begin(conn, &s->parked.id, jsonw_string_max(task_id(t)) + 512, &w);
        jsonw_member_string(&w, "processId", task_id(t));
        jsonw_member_str(&w, "sandboxType", t->is_sandboxed ? "linuxSeccomp" : "none");
        jsonw_member_i64(&w, "pid", t->process->pid);
        if (t->limits)
                write_enforced(&w, t->limits);
        task_network_start_write(&w, t);
        task_intercept_start_write(&w, t);
        conn_reply_end(conn, &s->parked.id, &w);
        parked_done(&s->parked);
}

/* Sets the error text of the reference server and appends the program or the cwd, because that text alone does not say which of the
 * two is meant. */
static void say_which(const struct task *t, const char *step, int os_errno, struct err *err)
{
        bool is_cwd = strcmp(step, "cwd") == 0, is_exec = strcmp(step, "exec") == 0;
        const char *of = is_cwd ? t->cwd : is_exec ? t->name : NULL;
        err_set(err, RPC_INTERNAL, -os_errno, of ? "%s (os error %d): %s `%s`" : "%s (os error %d)",
                errno_text(os_errno), os_errno, is_cwd ? "cwd" : "program", of);
}

void task_start_refused(struct task *t, const struct err *err)
{
        task_never_begun(t); /* the id is free before the answer is sent */
        if (t->starter)      /* otherwise the connection has ended while a decision was waited for */
                parked_fail(&t->starter->parked, err);
        task_waiting_fail(t);
        task_writes_fail(t);
        task_signals_answer_all(t);
}

void task_start_given_up(struct task *t)
{
        struct err err = ERR_INIT;
        task_intercept_withdraw_first(t);
        if (t->cause == END_SHUTDOWN)
                err_set(&err, RPC_DRAINING, -ESHUTDOWN, "the server is shutting down");
        else
                err_set(&err, RPC_INVALID_REQUEST, -ECANCELED, "process %.*s start was cancelled",
                        SLICE(task_id(t)));
        task_start_refused(t, &err);
}

void task_start_failed(struct task *t, const char *step, int os_errno)
{
        struct err err = ERR_INIT;
        if (!step)
                err_set(&err, RPC_INVALID_REQUEST, -ECANCELED, "process %.*s start was cancelled",
                        SLICE(task_id(t)));
        else if (t->program && os_errno == ENOENT && strcmp(step, "exec") == 0)
                err_set(&err, RPC_INTERNAL, -os_errno,
                        "Unable to spawn %s because:\nNo viable candidates found in PATH \"%s\"", t->program,
                        t->search_path);
        else
                say_which(t, step, os_errno, &err);
        err.step = step;
        err.os_errno = os_errno;
        /* What is executed first is the wrapper. */
        if (task_intercept_is_preloaded(t) && step && strcmp(step, "exec") == 0) {
                err_set(&err, RPC_INTERNAL, -os_errno,
                        "no program can be intercepted in this sandbox: the wrapper cannot be executed: %s "
                        "(os error %d)",
                        errno_text(os_errno), os_errno);
                err.step = "preload";
                err.reason = "interceptUnavailable";
                err.remedy = "let the profile read the directory in which farhand-preload.so is installed";
        }
        if (t->sandbox.image_fd >= 0 && step && prepare_is_step(step)) {
                prepare_explain(t->sandbox.image_fd, step, os_errno, t->process->failed_op, &err);
                err.client_code = RPC_INVALID_PARAMS;
        }
        bool is_absent = os_errno == ENOENT || os_errno == EACCES || os_errno == ENOTDIR;
        if (t->sandbox.has_cwd && step && is_absent && strcmp(step, "cwd") == 0) {
                err_set(&err, RPC_INVALID_PARAMS, -os_errno, "the permission profile hides the cwd %s",
                        t->cwd);
                err.reason = "cwdHidden";
                err.remedy =
                        "let the profile read the cwd, or start the command in a directory that it can read";
        }
        if (step && (os_errno == ETOOMANYREFS || strcmp(step, "intercept") == 0))
                err.remedy = remedy_for(step, os_errno);
        if (t->cause == END_SANDBOX) {
                err_set(&err, RPC_INTERNAL, -ESTALE,
                        "the sandbox was broken from outside while it was built");
                err.step = "guard";
                err.os_errno = ESTALE;
                err.remedy = "something renamed or removed what the profile protects: start it again";
        }
        if (step && (strcmp(step, "spawner") == 0 || strcmp(step, "keeper") == 0))
                err.remedy =
                        "a helper process of the server was killed; what had begun is ended: start it again";
        if (step && strcmp(step, "spawner") == 0 && procs_explain(&t->session->server->procs, &err))
                err.client_code = RPC_INTERNAL;
        forget_texts(t);
        if (t->starter)
                parked_fail(&t->starter->parked, &err);
        else
                task_again_drop(t);
}
