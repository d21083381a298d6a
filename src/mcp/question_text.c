/* question_text: writes questions in words. */
#include "mcp/question_text.h"

#include "base/printable.h"
#include "wire/json.h"

#define SHOWN_DENIALS 10
#define NEXT_LINE "\n    | " /* in place of a line end in a text */

static int put(struct buf *out, const char *text)
{
        return buf_append(out, slice_from_str(text));
}

static int put_printable(struct buf *out, struct slice s)
{
        int r = 0;
        while (r == 0 && s.n > 0) {
                char shown[PRINTABLE_CHAR_BYTES];
                size_t n = printable_char(s, shown);
                r = put(out, s.p[0] == '\n' ? NEXT_LINE : shown);
                s = slice_from(s.p + n, s.n - n);
        }
        return r;
}

/* Appends "LABEL TEXT" as a line of its own; NULL: nothing. */
static int put_line(struct buf *out, const char *label, const char *text)
{
        if (!text)
                return 0;
        int r = put(out, label);
        if (r == 0)
                r = put_printable(out, slice_from_str(text));
        return r < 0 ? r : put(out, "\n");
}

static int put_list(struct buf *out, const char *label, const char *const *list)
{
        int r = 0;
        for (; r == 0 && list && *list; list++)
                r = put_line(out, label, *list);
        return r;
}

/* Says what a yes means. */
static const char *heading(const struct approval_question *q)
{
        bool is_command = q->action->argv;
        if (q->action->is_read)
                return "Read this file, which the sandbox does not allow?\n";
        if (q->is_outside)
                return is_command ? "Run this command outside of the sandbox?\n"
                                  : "Change these files, which the sandbox does not allow?\n";
        if (q->permissions)
                return is_command ? "Run this command with more permissions?\n"
                                  : "Change these files with more permissions?\n";
        return is_command ? "Run this command?\n" : "Change these files?\n";
}

static struct slice text_of(struct arena *a, const struct json_doc *d, const struct json *object,
                            struct slice name)
{
        const struct json *v = json_get(d, object, name);
        return v && v->type == JSON_STRING ? json_string(a, d, v) : S("");
}

/* Lists what the sandbox has denied. It came from a server as JSON; what is not understood is left out. */
static int put_denials(struct buf *out, const char *denials)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf copy = BUF_INIT(SIZE_MAX / 2); /* the parser needs its padding */
        struct json_doc doc;
        struct json_error bad;
        int r = 0;
        size_t count = 0;
        if (!denials || buf_append(&copy, slice_from_str(denials)) < 0 ||
            json_parse(&a, buf_slice(&copy), &doc, &bad) < 0 || json_root(&doc)->type != JSON_ARRAY)
                return 0;
        json_each (item, &doc, json_root(&doc)) {
                struct slice path = text_of(&a, &doc, item, S("path")),
                             address = text_of(&a, &doc, item, S("address"));
                if (r < 0 || count++ == SHOWN_DENIALS)
                        return r < 0 ? r : put(out, "The sandbox has denied more.\n");
                r = put(out, "The sandbox has denied: ");
                if (r == 0)
                        r = put_printable(out, text_of(&a, &doc, item, S("operation")));
                if (r == 0)
                        r = put(out, " ");
                if (r == 0)
                        r = put_printable(out, path.n > 0 ? path : address);
                if (r == 0)
                        r = put(out, "\n");
        }
        return r;
}

/* A shell's command is shown as such; other words one below the other, so that it is clear where each ends. */
static int put_command(struct buf *out, const char *const *argv)
{
        bool is_shell = argv[0] && argv[1] && argv[2] && !argv[3] && argv[1][0] == '-';
        if (!is_shell)
                return put_list(out, "Word: ", argv);
        int r = put_line(out, "Command: ", argv[2]);
        if (r == 0)
                r = put_line(out, "Shell: ", argv[0]);
        return r < 0 ? r : put_line(out, "Option of the shell: ", argv[1]);
}

/* ---- programs about which rules ask ---- */

/* Returns whether a word needs no quotes in a shell. */
static bool is_plain(const char *word)
{
        static const char plain[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%^";
        return word[0] != '\0' && word[strspn(word, plain)] == '\0' && word[0] != '~';
}

static int put_word(struct buf *out, const char *word)
{
        if (is_plain(word))
                return put(out, word);
        int r = put(out, "'");
        for (const char *end; r == 0 && (end = strchr(word, '\'')) != NULL; word = end + 1) {
                r = put_printable(out, slice_from(word, (size_t)(end - word)));
                if (r == 0)
                        r = put(out, "'\\''");
        }
        if (r == 0)
                r = put_printable(out, slice_from_str(word));
        return r < 0 ? r : put(out, "'");
}

static int put_program(struct buf *out, const struct approval_action *a)
{
        int r = put(out, "Allow agent to run `");
        for (const char *const *word = a->argv; r == 0 && *word; word++) {
                if (word > a->argv)
                        r = put(out, " ");
                if (r == 0)
                        r = put_word(out, *word);
        }
        if (r == 0)
                r = put(out, "` in `");
        if (r == 0)
                r = put_printable(out, slice_from_str(a->cwd));
        return r < 0 ? r : put(out, "`?\n");
}

static int put_rule(struct buf *out, const struct approval_question *q)
{
        const struct approval_action *a = q->action;
        int r = 0;
        if (a->rule)
                r = put(out, "It would run outside of the sandbox.\n");
        if (r == 0)
                r = put_line(out, "Environment: ", a->environment_id);
        if (r == 0)
                r = put_line(out, "Rule: ", a->rule);
        return r < 0 ? r : put_line(out, "Why there is this rule: ", a->justification);
}

/* ---- all questions ---- */

static int put_host(struct buf *out, const struct approval_action *a)
{
        int r = put_line(out, "Let a command reach this host? ", a->argv[0]);
        if (r == 0)
                r = put_line(out, "Protocol: ", a->protocol);
        return r < 0 ? r : put_line(out, "Environment: ", a->environment_id);
}

static int put_always(struct buf *out, const struct question_style *style, bool is_host)
{
        int r = put_line(
                out,
                is_host ? "The answer \"always\" adds this rule, and all commands in the sandbox reach the "
                          "host unasked: "
                        : "The answer \"always\" adds this rule, and such commands run outside of the "
                          "sandbox unasked: ",
                style->always_rule);
        return r < 0 ? r : put_line(out, "It is added to: ", style->always_file);
}

static int put_action(struct buf *out, const struct approval_question *q)
{
        const struct approval_action *a = q->action;
        int r = put(out, heading(q));
        if (r == 0)
                r = a->argv ? put_command(out, a->argv) : put_list(out, "File: ", a->paths);
        if (r == 0 && !a->argv)
                r = put_list(out, "Which leads to: ", a->real_paths);
        if (r == 0)
                r = put_line(out, "Directory: ", a->cwd);
        if (r == 0)
                r = put_line(out, "Environment: ", a->environment_id);
        if (r == 0 && a->tty)
                r = put(out, "It gets a terminal; what is written to it later is not asked about.\n");
        if (r == 0)
                r = put_line(out, "Permissions: ", q->permissions);
        if (r == 0)
                r = put_denials(out, q->denials);
        if (r == 0)
                r = put_line(out, "Reason that was given: ", a->justification);
        return r;
}

int question_text_write(struct buf *out, const struct approval_question *q,
                        const struct question_style *style)
{
        int r = q->action->is_program ? put_program(out, q->action)
                : q->action->host     ? put_host(out, q->action)
                                      : put_action(out, q);
        if (r == 0 && q->action->is_program && !style->is_brief)
                r = put_rule(out, q);
        if (r == 0 && style->always_rule)
                r = put_always(out, style, q->action->host != NULL);
        return r;
}
