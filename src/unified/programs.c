/* programs: the programs below a command about which its rules ask, and the hosts that it wants to reach. For each an approval is begun,
 * and its answer goes to the server, where the program or the connection waits. */
#include "unified/table_internal.h"

#include "base/clock.h"
#include "base/mem.h"

#include <inttypes.h>

struct program {
        struct list link; /* exec_session::programs */
        struct exec_session *session;
        struct approval *approval;
        char *request_id; /* NULL: it is a host */
        uint64_t host_question;
        bool is_outside; /* what a yes means */
};

static void program_free(struct program *p)
{
        struct exec_session *s = p->session;
        list_remove(&p->link);
        approval_free(p->approval);
        free(p->request_id);
        free(p);
        if (!list_is_empty(&s->programs))
                return;
        s->asked_us += clock_mono_us() - s->asking_since_us;
        s->asking_since_us = 0;
        s->table->is_due = true; /* the time of the call goes on */
}

static struct program *find(const struct exec_session *s, const char *request_id)
{
        struct program *p;
        list_each (p, &s->programs, link)
                if (p->request_id && strcmp(p->request_id, request_id) == 0)
                        return p;
        return NULL;
}

static struct program *find_host(const struct exec_session *s, uint64_t question)
{
        struct program *p;
        list_each (p, &s->programs, link)
                if (!p->request_id && p->host_question == question)
                        return p;
        return NULL;
}

static void on_change(UNUSED struct approval *approval, void *arg)
{
        ((struct exec_session *)arg)->table->is_due = true;
}

/* Begins the approval of a program. The words of its action are the file that would be executed, and the arguments without argv[0]. */
static struct approval *ask(struct exec_session *s, const struct farhand_exec *exec)
{
        _arena_ struct arena a = ARENA_INIT;
        size_t count = 0;
        while (exec->argv[count])
                count++;
        const char **words = arena_zalloc(&a, (count + 2) * sizeof(*words));
        words[0] = exec->file;
        for (size_t i = 1; i < count; i++)
                words[i] = exec->argv[i];
        const struct approval_action action = {
                .call_id = s->call_id,
                .environment_id = s->host->id,
                .cwd = exec->cwd,
                .argv = words,
                .justification = exec->justification,
                .is_program = true,
                .rule = exec->rule_name ? arena_printf(&a, "%s:%" PRIu64, exec->rule_name, exec->rule_line)
                                        : NULL,
        };
        return approval_new(s->table->options.approvals, &action, on_change, s);
}

static struct program *program_new(struct exec_session *s)
{
        struct program *p = mem_new(struct program);
        p->session = s;
        if (list_is_empty(&s->programs))
                s->asking_since_us = clock_mono_us();
        list_append(&s->programs, &p->link);
        return p;
}

void programs_take(struct exec_session *s, const struct farhand_exec *exec)
{
        if (!exec->request_id)
                return;
        struct program *p = find(s, exec->request_id);
        if (exec->decision != FARHAND_EXEC_ASK) {
                if (p)
                        program_free(p);
                return;
        }
        if (p)
                return; /* told again after a lost connection */
        p = program_new(s);
        p->request_id = mem_strdup(exec->request_id);
        p->is_outside = exec->rule_name != NULL;
        p->approval = ask(s, exec);
        s->table->is_due = true;
}

static struct approval *ask_host(struct exec_session *s, const struct farhand_network_question *question)
{
        _arena_ struct arena a = ARENA_INIT;
        bool has_colon = strchr(question->host, ':') != NULL;
        const char *words[] = { arena_printf(&a, has_colon ? "[%s]:%u" : "%s:%u", question->host,
                                             (unsigned)question->port),
                                NULL };
        const struct approval_action action = {
                .call_id = s->call_id,
                .environment_id = s->host->id,
                .argv = words,
                .host = question->host,
                .protocol = question->protocol,
                .port = question->port,
                .has_port_rules = farhand_has_capability(s->host->client, "egressV1"),
        };
        return approval_new(s->table->options.approvals, &action, on_change, s);
}

void programs_take_host(struct exec_session *s, const struct farhand_network_question *question)
{
        struct program *p = find_host(s, question->id);
        if (question->action != FARHAND_NETWORK_ASK) {
                if (p)
                        program_free(p);
                return;
        }
        p = program_new(s);
        p->host_question = question->id;
        p->approval = ask_host(s, question);
        s->table->is_due = true;
}

/* Sends the answer about a host. One that cannot be sent is a no: the server waits no longer than it said. */
static void answer_host(struct program *p)
{
        struct farhand_network_answer answer = FARHAND_NETWORK_ANSWER_INIT;
        bool is_yes = approval_state(p->approval) == APPROVAL_RUN;
        answer.action = is_yes ? FARHAND_NETWORK_ALLOW : FARHAND_NETWORK_DENY;
        answer.reason = is_yes ? NULL : approval_text(p->approval);
        if (p->session->process)
                (void)farhand_process_answer_network(p->session->process, p->host_question, &answer, NULL);
        program_free(p);
}

/* Sends the answer about a program. When it cannot be sent the program would wait for ever: so its command is ended. */
static void answer(struct program *p)
{
        struct exec_session *s = p->session;
        bool is_yes = approval_state(p->approval) == APPROVAL_RUN;
        enum farhand_exec_decision yes = p->is_outside ? FARHAND_EXEC_ESCALATE : FARHAND_EXEC_RUN;
        if (s->process && farhand_process_decide(s->process, p->request_id, is_yes ? yes : FARHAND_EXEC_DENY,
                                                 is_yes ? NULL : approval_text(p->approval), false, NULL) < 0)
                exec_session_end(s);
        program_free(p);
}

void programs_advance(struct exec_session *s)
{
        struct program *p;
        list_each (p, &s->programs, link) {
                enum approval_state state = approval_state(p->approval);
                if (state != APPROVAL_RUN && state != APPROVAL_REFUSED)
                        continue;
                if (p->request_id)
                        answer(p);
                else
                        answer_host(p);
        }
}

void programs_release(struct exec_session *s)
{
        while (!list_is_empty(&s->programs))
                program_free(list_first(&s->programs, struct program, link));
}
