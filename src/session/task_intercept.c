/* task_intercept: the life of an intercepted command: its first program, its broker, and what clients are told of the command. */
#include "base/fd.h"
#include "base/mem.h"
#include "core/server.h"
#include "intercept/preloaded.h"
#include "session/task_intercept_internal.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define EXIT_READS 64 /* how often the socket is read before an exit is told: more than its buffer holds */

struct client *intercept_listener(const struct task *t)
{
        struct client *c = t->session->client;
        return c && t->is_named && conn_is_usable(c->conn) ? c : NULL;
}

void task_intercept_begin(struct task *t, struct interception *from)
{
        struct task_intercept *i = mem_new(struct task_intercept);
        i->how = *from;
        *from = INTERCEPTION_NONE;
        intercept_socket_init(i);
        list_init(&i->questions);
        t->intercept = i;
}

void task_intercept_free(struct task *t)
{
        struct task_intercept *i = TAKE(t->intercept);
        if (!i)
                return;
        must(list_is_empty(&i->questions));
        intercept_disconnect(i);
        interception_release(&i->how);
        free(i);
}

static struct exec_question *first_question(const struct task *t)
{
        struct task_intercept *i = t->intercept;
        struct exec_question *q = i ? list_first(&i->questions, struct exec_question, link) : NULL;
        return q && q->is_first ? q : NULL; /* no other question is open before the start */
}

bool task_intercept_is_asking(const struct task *t)
{
        return first_question(t) != NULL;
}

bool task_intercept_is_escalated(const struct task *t)
{
        return t->intercept && t->intercept->how.action == INTERCEPT_ESCALATE;
}

int task_intercept_ask_first(struct task *t, uint64_t bytes, struct err *err)
{
        struct task_intercept *i = t->intercept;
        uint64_t all = bytes + i->how.frame_bytes;
        if (questions_refuse(t, all))
                return req_limit(err, "bytes of open questions", LIMIT_INTERCEPT_TOTAL_BYTES);
        struct exec_question *q =
                exec_question_new(slice_from(i->how.frame, i->how.frame_bytes), i->last_number + 1, true);
        q->bytes += bytes;
        free(TAKE(i->how.frame));
        question_add(t, q);
        struct client *c = intercept_listener(t);
        if (!c || exec_question_tell(c, task_id(t), q->number, "ask", &q->asked))
                return 0;
        question_forget(t, q);
        return err_set(err, RPC_INVALID_REQUEST, -EMSGSIZE, "Execution denied: %s", QUESTION_TOO_LONG);
}

/* Returns the environment with the variables by which the shell, or the library, finds the wrapper, and the wrapper its socket, in place of
 * those that the client has set. */
static const char *const *wrapper_environment(struct arena *a, const char *const *env,
                                              const struct interception *how)
{
        size_t count = 0, kept = 0;
        while (env[count])
                count++;
        const char **ret = arena_alloc(a, (count + 4) * sizeof(*ret));
        for (size_t i = 0; i < count; i++) {
                struct slice rest = slice_from_str(env[i]);
                if (!escalate_is_variable(slice_split(&rest, '=')))
                        ret[kept++] = env[i];
        }
        ret[kept++] = ESCALATE_VARIABLE "=" EXEC_PAIR_NUMBER_TEXT;
        if (how->library) {
                ret[kept++] =
                        arena_printf(a, PRELOADED_VARIABLE "=" PRELOADED_FIRST "%s:%s:%s",
                                     how->options.scope == INTERCEPT_SHELL ? PRELOADED_SHELL : PRELOADED_ALL,
                                     how->library, how->wrapper);
        } else {
                ret[kept++] = arena_printf(a, "EXEC_WRAPPER=%s", how->wrapper);
                ret[kept++] = arena_printf(a, "BASH_EXEC_WRAPPER=%s", how->wrapper);
        }
        ret[kept] = NULL;
        return ret;
}

/* The command begins with the wrapper: it looks whether the library can be loaded where the command runs, and executes the program. */
static void wrap_first(struct arena *a, struct command_spec *command, const char *program,
                       const char *wrapper)
{
        size_t count = 0;
        while (command->argv[count])
                count++;
        const char **argv = arena_alloc(a, (count + 3) * sizeof(*argv)),
                   **one = arena_alloc(a, 2 * sizeof(*one));
        argv[0] = wrapper;
        argv[1] = program;
        memcpy(argv + 2, command->argv, (count + 1) * sizeof(*argv));
        one[0] = wrapper;
        one[1] = NULL;
        command->argv = argv;
        command->candidates = one;
}

int task_intercept_connect(struct task *t, struct arena *a, struct command_spec *command)
{
        struct task_intercept *i = t->intercept;
        int ends[2];
        if (!i || task_intercept_is_escalated(t))
                return 0;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
                return -errno;
        i->socket = ends[0];
        i->broker_socket = ends[1];
        command->is_intercepted = true;
        command->intercept_config = i->how.config;
        command->intercept_socket = i->broker_socket;
        command->asking = i->how.asking;
        if (i->how.asking == EXEC_ASKED_BY_SHELL)
                command->env = wrapper_environment(a, command->env, &i->how);
        if (i->how.library)
                wrap_first(a, command, command->candidates[0], i->how.wrapper);
        return 0;
}

void task_intercept_handed_over(struct task *t)
{
        if (t->intercept)
                t->intercept->broker_socket = fd_close(t->intercept->broker_socket);
}

void task_intercept_disconnect(struct task *t)
{
        if (t->intercept)
                intercept_disconnect(t->intercept);
}

/* Reports the decision about the first program, when the client wants reports. */
static void tell_first(struct task *t)
{
        struct interception *how = &t->intercept->how;
        struct client *c = intercept_listener(t);
        struct intercept_message m;
        if (how->frame && c && how->options.reports &&
            intercept_message_read(slice_from(how->frame, how->frame_bytes), &m) > 0)
                exec_question_tell(c, task_id(t), 0, intercept_action_name(how->action), &m.question);
        free(TAKE(how->frame));
}

void task_intercept_started(struct task *t)
{
        struct task_intercept *i = t->intercept;
        if (!i)
                return;
        i->how.config = fd_close(i->how.config);
        tell_first(t);
        if (i->socket < 0)
                return;
        if (watch_new(&t->session->server->loop, i->socket, 0, intercept_on_socket, t, &i->watch) < 0)
                intercept_lose_broker(t, NULL);
        else
                intercept_set_watch(i);
}

void task_intercept_pause(struct task *t, bool paused)
{
        struct task_intercept *i = t->intercept;
        if (!i || i->is_paused == paused)
                return;
        i->is_paused = paused;
        if (!paused && i->watch) /* frames that were read before the pause */
                intercept_handle_frames(t);
        intercept_set_watch(i);
}

void task_intercept_exited(struct task *t)
{
        for (unsigned n = 0; t->intercept && n < EXIT_READS && intercept_read(t); n++)
                ;
}

void task_intercept_closed(struct task *t)
{
        struct task_intercept *i = t->intercept;
        struct exec_question *q;
        if (!i)
                return;
        task_intercept_exited(t);
        i->is_over = true;
        while ((q = list_first(&i->questions, struct exec_question, link))) {
                uint32_t id = q->asked.id;
                question_end(t, q, "withdrawn", NULL);
                intercept_deny(t, id, NOBODY_DECIDES);
        }
}

void task_intercept_end(struct task *t)
{
        if (!t->intercept)
                return;
        task_intercept_exited(t);
        intercept_disconnect(t->intercept);
        questions_withdraw(t);
}

void intercept_decide_first(struct task *t, enum intercept_action action, struct slice reason)
{
        struct err err = ERR_INIT;
        if (action == INTERCEPT_DENY) {
                err.reason = "execDenied";
                err_set(&err, RPC_INVALID_REQUEST, -EPERM,
                        reason.n ? "Execution denied: %.*s" : "Execution denied", SLICE(reason));
        }
        t->intercept->how.action = action;
        task_start_decided(t, err.code < 0 ? &err : NULL);
}

void task_intercept_withdraw_first(struct task *t)
{
        struct exec_question *q = first_question(t);
        if (q)
                question_end(t, q, "withdrawn", NULL);
}

bool task_intercept_holds_limits(const struct task *t)
{
        return t->intercept && t->intercept->question_count > 0;
}

bool task_intercept_is_preloaded(const struct task *t)
{
        return t->intercept && t->intercept->how.library && !task_intercept_is_escalated(t);
}

/* --- what is told of a task --------------------------------------------------------------------------------------- */

void task_intercept_open_write(struct jsonw *w, const struct task *t)
{
        if (t->intercept)
                jsonw_member_u64(w, "openQuestions", t->intercept->question_count);
}

void task_intercept_start_write(struct jsonw *w, const struct task *t)
{
        const struct task_intercept *i = t->intercept;
        if (!i)
                return;
        jsonw_key(w, "intercept");
        jsonw_object(w);
        jsonw_member_str(w, "mechanism",
                         i->how.library                         ? "preload"
                         : i->how.asking == EXEC_ASKED_BY_SHELL ? "wrapper"
                                                                : "seccomp");
        if (i->how.library)
                jsonw_member_str(w, "warning", PRELOADED_WARNING);
        jsonw_object_end(w);
}

/* The broker counts what is executed below the first program. */
void task_intercept_exit_write(struct jsonw *w, const struct task *t)
{
        const struct task_intercept *i = t->intercept;
        if (!i)
                return;
        const struct spawn_intercepted *n = &t->process->exit.intercepted;
        bool has_first = i->how.options.scope == INTERCEPT_ALL;
        jsonw_key(w, "intercepted");
        jsonw_object(w);
        jsonw_member_u64(w, "run", n->run + (has_first && i->how.action == INTERCEPT_RUN));
        jsonw_member_u64(w, "escalated", n->escalated + (has_first && i->how.action == INTERCEPT_ESCALATE));
        jsonw_member_u64(w, "denied", n->denied);
        jsonw_object_end(w);
}
