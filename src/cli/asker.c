/* asker: shows questions on the controlling terminal, one after the other, and reads the answers there.
 *
 * Only lines that are typed after a question was shown are answers to it. Text that a process has chosen is shown with its control
 * characters escaped.
 */
#include "cli/asker.h"

#include "base/errno_text.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/asker_internal.h"
#include "cli/typed_answer.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define TRIES_MAX 8 /* after so many lines that are no answer the answer is no */

static int open_terminal(void)
{
        return open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
}

bool asker_is_possible(void)
{
        _close_ int fd = open_terminal();
        return fd >= 0;
}

struct asker *asker_new(struct terminal *terminal)
{
        struct asker *a = mem_new(struct asker);
        a->terminal = terminal;
        a->fd = open_terminal();
        a->to = a->fd >= 0 ? fdopen(dup(a->fd), "w") : NULL;
        if (!a->to)
                a->fd = fd_close(a->fd);
        list_init(&a->questions);
        list_init(&a->hosts);
        return a;
}

void asker_use_rules(struct asker *a, const char *file, bool has_ports)
{
        a->rules_file = file;
        a->has_ports = has_ports;
}

static struct asker_question *current(const struct asker *a)
{
        return list_first(&a->questions, struct asker_question, link);
}

static void forget(struct asker_question *q)
{
        list_remove(&q->link);
        arena_release(&q->arena);
        free(q);
}

void asker_free(struct asker *a)
{
        struct asker_question *q;
        struct asker_host *host;
        if (!a)
                return;
        while ((q = current(a)))
                forget(q);
        list_each (host, &a->hosts, link) {
                list_remove(&host->link);
                free(host);
        }
        if (a->to)
                fclose(a->to);
        fd_close(a->fd);
        free(a);
}

int asker_fd(const struct asker *a)
{
        return a && current(a) ? a->fd : -1;
}

void asker_complain(struct asker *a, int code)
{
        fprintf(a->to, "farhand: the answer cannot be sent: %s\n", errno_text(-code));
}

/* ---- showing ---- */

static void prompt(struct asker *a)
{
        fputs(current(a)->kind->prompt, a->to);
        fflush(a->to);
}

static void show(struct asker *a, bool is_whole)
{
        const struct asker_question *q = current(a);
        _arena_ struct arena arena = ARENA_INIT;
        struct page page;

        page_begin(&page, a->to, a->fd, &arena);
        q->kind->show(&page, a, q, is_whole);
        prompt(a);
}

/* Shows the next question, or gives the terminal back. */
static void show_next(struct asker *a)
{
        struct asker_question *q;
        a->tries = 0;
        while ((q = current(a)) && q->kind->answer_known && q->kind->answer_known(a, q))
                forget(q);
        if (q) {
                (void)tcflush(a->fd, TCIFLUSH); /* what was typed before is no answer */
                show(a, false);
                return;
        }
        if (a->was_raw)
                terminal_make_raw(a->terminal);
        a->was_raw = false;
}

void asker_put(struct asker *a, struct asker_question *q)
{
        bool is_first = !current(a);
        list_append(&a->questions, &q->link);
        if (!is_first)
                return;
        a->was_raw = a->terminal->is_raw;
        if (a->was_raw)
                terminal_restore(a->terminal);
        show_next(a);
}

void asker_withdraw(struct asker *a, struct asker_question *q)
{
        bool is_shown = q == current(a);
        const char *text = q->kind->withdrawn;
        forget(q);
        if (!is_shown)
                return;
        fputs(text, a->to);
        fflush(a->to);
        show_next(a);
}

/* ---- answers ---- */

static void end_current(struct asker *a)
{
        fflush(a->to);
        forget(current(a));
        show_next(a);
}

static void refuse(struct asker *a)
{
        current(a)->kind->refuse(a, current(a));
        end_current(a);
}

void asker_refuse(struct asker *a)
{
        fputc('\n', a->to);
        refuse(a);
}

void asker_read(struct asker *a)
{
        char line[TYPED_ANSWER_BYTES];
        ssize_t n = typed_answer_read(a->fd, line);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        if (n <= 0) {
                asker_refuse(a);
                return;
        }
        if (line[0] == '\0' || typed_answer_is(line, "n", "no")) {
                refuse(a);
                return;
        }
        switch (current(a)->kind->take(a, current(a), line)) {
        case ASKER_DONE:
                end_current(a);
                return;
        case ASKER_WHOLE:
                show(a, true);
                return;
        case ASKER_AGAIN:
                if (++a->tries == TRIES_MAX)
                        refuse(a);
                else
                        prompt(a);
                return;
        }
}
