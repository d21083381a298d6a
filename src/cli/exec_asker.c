/* exec_asker: shows questions about programs on the controlling terminal, and reads the answers there.
 *
 * Only lines that are typed after a question was shown are answers to it. Text that a process has chosen is shown with its control
 * characters escaped.
 */
#include "cli/exec_asker.h"

#include "base/arena.h"
#include "base/errno_text.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/mem.h"
#include "cli/page.h"
#include "cli/typed_answer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define SHOWN_BYTES 400 /* how much of a command is shown before the person asks for all of it */
#define TRIES_MAX 8     /* after so many lines that are no answer the answer is no */
#define NOBODY "nobody can be asked: there is no terminal"
#define REFUSED "the answer was no"

struct question {
        struct list link; /* exec_asker::questions */
        struct farhand_process *process;
        struct arena arena; /* holds the texts */
        char *id;
        const char *file, *cwd, *rule, *why;
        const char **argv;
        bool is_outside; /* what a yes means */
};

struct exec_asker {
        struct terminal *terminal;
        bool was_raw;
        int fd;                /* -1: there is no terminal */
        FILE *to;              /* the same terminal */
        struct list questions; /* the first one is shown */
        unsigned tries;
};

static int open_terminal(void)
{
        return open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
}

bool exec_asker_is_possible(void)
{
        _close_ int fd = open_terminal();
        return fd >= 0;
}

struct exec_asker *exec_asker_new(struct terminal *terminal)
{
        struct exec_asker *a = mem_new(struct exec_asker);
        a->terminal = terminal;
        a->fd = open_terminal();
        a->to = a->fd >= 0 ? fdopen(dup(a->fd), "w") : NULL;
        if (!a->to)
                a->fd = fd_close(a->fd);
        list_init(&a->questions);
        return a;
}

static struct question *current(const struct exec_asker *a)
{
        return list_first(&a->questions, struct question, link);
}

static void forget(struct question *q)
{
        list_remove(&q->link);
        arena_release(&q->arena);
        free(q);
}

void exec_asker_free(struct exec_asker *a)
{
        struct question *q;
        if (!a)
                return;
        while ((q = current(a)))
                forget(q);
        if (a->to)
                fclose(a->to);
        fd_close(a->fd);
        free(a);
}

int exec_asker_fd(const struct exec_asker *a)
{
        return a && current(a) ? a->fd : -1;
}

/* ---- showing ---- */

static void show_command(struct page *p, const struct question *q, size_t max)
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

static void prompt(struct exec_asker *a)
{
        fputs("[y]es, [N]o, [a]lways for this in this command, [e]ntire command? ", a->to);
        fflush(a->to);
}

static void show(struct exec_asker *a, size_t max)
{
        const struct question *q = current(a);
        _arena_ struct arena arena = ARENA_INIT;
        struct page page;

        page_begin(&page, a->to, a->fd, &arena);
        fprintf(a->to, "\nfarhand: The command wants to start a program%s.\n",
                q->is_outside ? " that would run outside of its sandbox" : "");
        show_command(&page, q, max);
        page_line(&page, "file", q->file);
        page_line(&page, "in", q->cwd);
        if (q->rule)
                page_line(&page, "rule", q->rule);
        if (q->why)
                page_line(&page, "why", q->why);
        fputs(q->is_outside ? "Run it without a sandbox?\n" : "Run it?\n", a->to);
        prompt(a);
}

/* Shows the next question, or gives the terminal back. */
static void show_next(struct exec_asker *a)
{
        a->tries = 0;
        if (current(a)) {
                (void)tcflush(a->fd, TCIFLUSH); /* what was typed before is no answer */
                show(a, SHOWN_BYTES);
                return;
        }
        if (a->was_raw)
                terminal_make_raw(a->terminal);
        a->was_raw = false;
}

/* ---- taking ---- */

static struct question *question_new(struct farhand_process *p, const struct farhand_exec *exec)
{
        struct question *q = mem_new(struct question);
        struct arena *a = &q->arena;
        size_t n = 0;
        while (exec->argv[n])
                n++;
        q->process = p;
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
        list_init(&q->link);
        return q;
}

static struct question *find(const struct exec_asker *a, const char *id)
{
        struct question *q;
        list_each (q, &a->questions, link)
                if (strcmp(q->id, id) == 0)
                        return q;
        return NULL;
}

static void withdraw(struct exec_asker *a, const char *id)
{
        struct question *q = find(a, id);
        bool is_shown = q && q == current(a);
        if (!q)
                return;
        forget(q);
        if (!is_shown)
                return;
        fputs("\nfarhand: The program waits for no answer any more.\n", a->to);
        fflush(a->to);
        show_next(a);
}

void exec_asker_take(struct exec_asker *a, struct farhand_process *p, const struct farhand_exec *exec)
{
        if (!exec->request_id)
                return;
        if (exec->decision != FARHAND_EXEC_ASK) {
                withdraw(a, exec->request_id);
                return;
        }
        if (find(a, exec->request_id))
                return; /* told again after a lost connection */
        if (a->fd < 0) {
                (void)farhand_process_decide(p, exec->request_id, FARHAND_EXEC_DENY, NOBODY, false, NULL);
                return;
        }
        bool is_first = !current(a);
        list_append(&a->questions, &question_new(p, exec)->link);
        if (!is_first)
                return;
        a->was_raw = a->terminal->is_raw;
        if (a->was_raw)
                terminal_restore(a->terminal);
        show_next(a);
}

/* ---- answers ---- */

static void decide(struct exec_asker *a, bool is_yes, bool is_remembered)
{
        struct question *q = current(a);
        struct farhand_error error;
        enum farhand_exec_decision yes = q->is_outside ? FARHAND_EXEC_ESCALATE : FARHAND_EXEC_RUN;
        int r = farhand_process_decide(q->process, q->id, is_yes ? yes : FARHAND_EXEC_DENY,
                                       is_yes ? NULL : REFUSED, is_remembered, &error);
        if (r < 0)
                fprintf(a->to, "farhand: the answer cannot be sent: %s\n", errno_text(-r));
        fflush(a->to);
        forget(q);
        show_next(a);
}

void exec_asker_refuse(struct exec_asker *a)
{
        fputc('\n', a->to);
        decide(a, false, false);
}

void exec_asker_read(struct exec_asker *a)
{
        char line[TYPED_ANSWER_BYTES];
        ssize_t n = typed_answer_read(a->fd, line);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        if (n <= 0) {
                exec_asker_refuse(a);
                return;
        }
        if (typed_answer_is(line, "y", "yes"))
                decide(a, true, false);
        else if (typed_answer_is(line, "a", "always"))
                decide(a, true, true);
        else if (line[0] == '\0' || typed_answer_is(line, "n", "no") || ++a->tries == TRIES_MAX)
                decide(a, false, false);
        else if (typed_answer_is(line, "e", "entire"))
                show(a, SIZE_MAX / 2);
        else
                prompt(a);
}
