/* asker_exec: questions about the programs that an intercepted command wants to start. */
#include "cli/asker_internal.h"

#include "base/mem.h"
#include "cli/typed_answer.h"

#define SHOWN_BYTES 400 /* how much of a command is shown before the person asks for all of it */

struct exec_question {
        struct asker_question base;
        const char *id;
        const char *file, *cwd, *rule, *why;
        const char **argv;
        bool is_outside; /* what a yes means */
};

static const struct exec_question *exec_of(const struct asker_question *q)
{
        return container_of(q, const struct exec_question, base);
}

/* ---- showing ---- */

static void show_command(struct page *p, const struct exec_question *q, size_t max)
{
        size_t n = 0, i = 0;

        page_put(p, "  command:");
        for (; q->argv[i] && n <= max; i++) {
                size_t length = strlen(q->argv[i]), left = max - n;
                bool is_cut = length > left;
                page_word(p, is_cut ? arena_dup(p->arena, slice_from(q->argv[i], left)) : q->argv[i]);
                n += length + 1;
                if (is_cut) {
                        i++;
                        break;
                }
        }
        if (n > max || q->argv[i])
                page_put(p, " … (e shows all of it)");
        page_end_line(p);
}

static void show(struct page *p, UNUSED const struct asker *a, const struct asker_question *base,
                 bool is_whole)
{
        const struct exec_question *q = exec_of(base);

        fprintf(p->to, "\nfarhand: The command wants to start a program%s.\n",
                q->is_outside ? " that would run outside of its sandbox" : "");
        show_command(p, q, is_whole ? SIZE_MAX / 2 : SHOWN_BYTES);
        page_line(p, "file", q->file);
        page_line(p, "in", q->cwd);
        if (q->rule)
                page_line(p, "rule", q->rule);
        if (q->why)
                page_line(p, "why", q->why);
        fputs(q->is_outside ? "Run it without a sandbox?\n" : "Run it?\n", p->to);
}

/* ---- answers ---- */

static void decide(struct asker *a, const struct exec_question *q, bool is_yes, bool is_remembered)
{
        struct farhand_error error;
        enum farhand_exec_decision yes = q->is_outside ? FARHAND_EXEC_ESCALATE : FARHAND_EXEC_RUN;
        int r = farhand_process_decide(q->base.process, q->id, is_yes ? yes : FARHAND_EXEC_DENY,
                                       is_yes ? NULL : ASKER_REFUSED, is_remembered, &error);
        if (r < 0)
                asker_complain(a, r);
}

static void refuse(struct asker *a, const struct asker_question *base)
{
        decide(a, exec_of(base), false, false);
}

static enum asker_reply take(struct asker *a, const struct asker_question *base, const char *line)
{
        bool is_always = typed_answer_is(line, "a", "always");
        if (typed_answer_is(line, "e", "entire"))
                return ASKER_WHOLE;
        if (!is_always && !typed_answer_is(line, "y", "yes"))
                return ASKER_AGAIN;
        decide(a, exec_of(base), true, is_always);
        return ASKER_DONE;
}

static const struct asker_kind kind = {
        .prompt = "[y]es, [N]o, [a]lways for this in this command, [e]ntire command? ",
        .withdrawn = "\nfarhand: The program waits for no answer any more.\n",
        .show = show,
        .take = take,
        .refuse = refuse,
};

/* ---- questions ---- */

static struct exec_question *question_new(struct farhand_process *p, const struct farhand_exec *exec)
{
        struct exec_question *q = mem_new(struct exec_question);
        struct arena *a = &q->base.arena;
        size_t n = 0;
        while (exec->argv[n])
                n++;
        q->base.kind = &kind;
        q->base.process = p;
        q->id = arena_dup(a, slice_from_str(exec->request_id));
        q->file = arena_dup(a, slice_from_str(exec->file));
        q->cwd = arena_dup(a, slice_from_str(exec->cwd));
        if (exec->rule_name)
                q->rule = arena_printf(a, "%s:%llu", exec->rule_name, (unsigned long long)exec->rule_line);
        q->why = exec->justification ? arena_dup(a, slice_from_str(exec->justification)) : NULL;
        q->is_outside = exec->rule_name != NULL;
        q->argv = arena_zalloc(a, (n + 1) * sizeof(*q->argv));
        for (size_t i = 0; i < n; i++)
                q->argv[i] = arena_dup(a, slice_from_str(exec->argv[i]));
        return q;
}

static struct asker_question *find(const struct asker *a, const char *id)
{
        struct asker_question *q;
        list_each (q, &a->questions, link)
                if (q->kind == &kind && strcmp(exec_of(q)->id, id) == 0)
                        return q;
        return NULL;
}

void asker_take_exec(struct asker *a, struct farhand_process *p, const struct farhand_exec *exec)
{
        struct asker_question *open = exec->request_id ? find(a, exec->request_id) : NULL;
        if (!exec->request_id)
                return;
        if (exec->decision != FARHAND_EXEC_ASK) {
                if (open)
                        asker_withdraw(a, open);
                return;
        }
        if (open)
                return; /* told again after a lost connection */
        if (a->fd < 0)
                (void)farhand_process_decide(p, exec->request_id, FARHAND_EXEC_DENY, ASKER_NOBODY, false,
                                             NULL);
        else
                asker_put(a, &question_new(p, exec)->base);
}
