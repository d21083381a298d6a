/* asker_network: questions about the hosts that a command wants to reach.
 *
 * A yes for the command is remembered here, too: a server that remembers nothing asks about each connection.
 */
#include "cli/asker_internal.h"

#include "base/mem.h"
#include "base/printable.h"
#include "cli/rules.h"
#include "cli/typed_answer.h"

struct network_question {
        struct asker_question base;
        uint64_t id;
        const char *protocol, *host;
        uint16_t port;
};

static const struct network_question *network_of(const struct asker_question *q)
{
        return container_of(q, const struct network_question, base);
}

/* ---- what is remembered ---- */

static bool is_known(const struct asker *a, const char *host, uint16_t port)
{
        struct asker_host *one;
        list_each (one, &a->hosts, link)
                if (one->port == port && strcmp(one->name, host) == 0)
                        return true;
        return false;
}

static void remember(struct asker *a, const struct network_question *q)
{
        size_t n = strlen(q->host) + 1;
        if (is_known(a, q->host, q->port))
                return;
        struct asker_host *one = mem_alloc(sizeof(*one) + n);
        one->port = q->port;
        memcpy(one->name, q->host, n);
        list_append(&a->hosts, &one->link);
}

static struct exec_network_addition addition(const struct asker *a, const struct network_question *q)
{
        return (struct exec_network_addition){
                .host = q->host,
                .protocol = rules_network_protocol(q->protocol),
                .port = a->has_ports ? q->port : 0,
                .decision = EXEC_ALLOW,
        };
}

/* Adds the rule of "always". Should that fail, the yes holds for this command. */
static void add_rule(struct asker *a, const struct network_question *q)
{
        _arena_ struct arena arena = ARENA_INIT;
        struct err err = ERR_INIT;
        const struct exec_network_addition add = addition(a, q);
        if (rules_file_add_network(&arena, a->rules_file, &add, &err) < 0)
                fprintf(a->to, "farhand: the rule is not added: %s\n", printable_str(&arena, err.text));
        else
                fprintf(a->to, "farhand: added to %s\n", printable_str(&arena, a->rules_file));
}

/* ---- showing ---- */

static void show(struct page *p, const struct asker *a, const struct asker_question *base,
                 UNUSED bool is_whole)
{
        const struct network_question *q = network_of(base);
        bool has_colon = strchr(q->host, ':') != NULL;

        fputs("\nfarhand: The command wants to reach a host that it was not granted.\n", p->to);
        page_line(p, "host",
                  arena_printf(p->arena, has_colon ? "[%s]:%u" : "%s:%u", q->host, (unsigned)q->port));
        page_line(p, "by", q->protocol);
        if (a->rules_file) {
                const struct exec_network_addition add = addition(a, q);
                const char *line = rules_network_line(p->arena, &add);
                if (line)
                        page_line(p, "always adds", line);
        }
        fputs("Let it?\n", p->to);
}

/* ---- answers ---- */

static void answer(struct asker *a, struct farhand_process *p, uint64_t id, bool is_yes, bool is_remembered,
                   const char *reason)
{
        struct farhand_network_answer answer = FARHAND_NETWORK_ANSWER_INIT;
        struct farhand_error error;
        answer.action = is_yes ? FARHAND_NETWORK_ALLOW : FARHAND_NETWORK_DENY;
        answer.remember = is_remembered ? FARHAND_REMEMBER_PROCESS : FARHAND_REMEMBER_NOTHING;
        answer.reason = reason;
        int r = farhand_process_answer_network(p, id, &answer, &error);
        if (r < 0 && a->to)
                asker_complain(a, r);
}

static void refuse(struct asker *a, const struct asker_question *base)
{
        answer(a, base->process, network_of(base)->id, false, false, ASKER_REFUSED);
}

static bool answer_known(struct asker *a, const struct asker_question *base)
{
        const struct network_question *q = network_of(base);
        if (!is_known(a, q->host, q->port))
                return false;
        answer(a, base->process, q->id, true, true, NULL);
        return true;
}

static enum asker_reply take(struct asker *a, const struct asker_question *base, const char *line)
{
        const struct network_question *q = network_of(base);
        bool is_always = typed_answer_is(line, "a", "always") && a->rules_file;
        bool is_command = is_always || typed_answer_is(line, "c", "command");
        if (!is_command && !typed_answer_is(line, "y", "yes"))
                return ASKER_AGAIN;
        if (is_always)
                add_rule(a, q);
        if (is_command)
                remember(a, q);
        answer(a, base->process, q->id, true, is_command, NULL);
        return ASKER_DONE;
}

#define WITHDRAWN "\nfarhand: The connection waits for no answer any more.\n"

static const struct asker_kind kind = {
        .prompt = "[y]es once, for this [c]ommand, [N]o? ",
        .withdrawn = WITHDRAWN,
        .show = show,
        .take = take,
        .refuse = refuse,
        .answer_known = answer_known,
},
                               kind_with_always = {
                                       .prompt = "[y]es once, for this [c]ommand, [a]lways (adds a rule), [N]o? ",
                                       .withdrawn = WITHDRAWN,
                                       .show = show,
                                       .take = take,
                                       .refuse = refuse,
                                       .answer_known = answer_known,
                               };

/* ---- questions ---- */

static struct asker_question *find(const struct asker *a, uint64_t id)
{
        struct asker_question *q;
        list_each (q, &a->questions, link)
                if ((q->kind == &kind || q->kind == &kind_with_always) && network_of(q)->id == id)
                        return q;
        return NULL;
}

void asker_take_network(struct asker *a, struct farhand_process *p,
                        const struct farhand_network_question *question)
{
        struct asker_question *open = find(a, question->id);
        if (question->action != FARHAND_NETWORK_ASK) {
                if (open)
                        asker_withdraw(a, open);
                return;
        }
        if (a->fd < 0) {
                answer(a, p, question->id, false, false, ASKER_NOBODY);
                return;
        }
        struct network_question *q = mem_new(struct network_question);
        q->base.kind = a->rules_file ? &kind_with_always : &kind;
        q->base.process = p;
        q->id = question->id;
        q->protocol = arena_dup(&q->base.arena, slice_from_str(question->protocol));
        q->host = arena_dup(&q->base.arena, slice_from_str(question->host));
        q->port = question->port;
        asker_put(a, &q->base);
}
