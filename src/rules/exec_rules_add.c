/* exec_rules_add: appends the line of a rule to a text, and checks that the new text says what was meant. */
#include "rules/exec_rules_add.h"

#include "base/limits.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "wire/jsonw.h"

#include <errno.h>

/* Appends a string. What JSON escapes, Starlark reads in the same way. */
static int append_string(struct buf *out, struct slice text)
{
        struct jsonw w;

        jsonw_begin(&w, out);
        jsonw_string(&w, text);
        return jsonw_end(&w);
}

/* Writes the line, in the form that Codex writes too. */
static int write_line(struct buf *out, const struct exec_rule_addition *add)
{
        int r = buf_append(out, S("prefix_rule(pattern=["));

        for (size_t i = 0; i < add->count && r == 0; i++) {
                if (i > 0)
                        r = buf_append(out, S(", "));
                if (r == 0)
                        r = append_string(out, add->words[i]);
        }
        if (r == 0)
                r = buf_printf(out, "], decision=\"%s\"", exec_decision_name(add->decision));
        if (r == 0 && add->justification) {
                r = buf_append(out, S(", justification="));
                if (r == 0)
                        r = append_string(out, slice_from_str(add->justification));
        }
        return r < 0 ? r : buf_append(out, S(")"));
}

static bool has_line(struct slice text, struct slice line)
{
        while (text.p) {
                struct slice one = slice_split(&text, '\n');
                if (one.n > 0 && one.p[one.n - 1] == '\r')
                        one.n--;
                if (slice_eq(one, line))
                        return true;
        }
        return false;
}

/* Returns whether the last rule of the set is the one that was meant. */
static bool is_as_meant(struct arena *a, const struct exec_rules *rules, const struct exec_rule_addition *add)
{
        const struct exec_command command = { .words = add->words, .count = add->count };
        struct exec_verdict v;

        exec_rules_match(rules, a, &command, &v);
        const struct exec_rule *last = v.count > 0 ? v.matches[v.count - 1] : NULL;
        return last && !last->next && last->rest_count == add->count - 1 && last->decision == add->decision;
}

static int check_words(const struct exec_rule_addition *add, struct err *err)
{
        for (size_t i = 0; i < add->count; i++)
                if (!utf8_is_valid(add->words[i]))
                        return err_set(err, 0, -EILSEQ, "a word is not UTF-8");
        if (add->justification && !utf8_is_valid(slice_from_str(add->justification)))
                return err_set(err, 0, -EILSEQ, "the justification is not UTF-8");
        return add->count > 0 ? 0 : err_set(err, 0, -EINVAL, "a rule needs a word");
}

static int too_long(struct arena *a, const struct exec_rules_text *text, struct err *err)
{
        return err_set(err, 0, -EFBIG, "%s would have more than %d bytes", printable_str(a, text->name),
                       LIMIT_RULES_BYTES);
}

/* Appends the line to the text, of which `old` was made. Returns 1 with the new text and its rules; 0 when the line is there already; or
 * -errno. The caller frees *ret_rules. */
static int append_line(struct arena *a, const struct exec_rules_text *text, const char *cwd,
                       struct slice line, struct slice *ret, struct exec_rules **ret_rules, struct err *err)
{
        _buf_ struct buf out = BUF_INIT(LIMIT_RULES_BYTES);
        int r = 0;

        *ret = text->text;
        if (has_line(text->text, line))
                return 0;
        r = buf_append(&out, text->text);
        if (r == 0 && out.n > 0 && out.p[out.n - 1] != '\n')
                r = buf_append_char(&out, '\n');
        if (r == 0)
                r = buf_append(&out, line);
        if (r == 0)
                r = buf_append_char(&out, '\n');
        if (r < 0)
                return too_long(a, text, err);
        const struct exec_rules_text after = { text->name, buf_slice(&out) };
        *ret_rules = exec_rules_new(&after, 1, cwd, err);
        if (!*ret_rules)
                return err_wrap(err, "cannot be added");
        *ret = slice_from(arena_dup(a, buf_slice(&out)), out.n);
        return 1;
}

static int not_as_meant(struct err *err)
{
        return err_set(err, 0, -EINVAL, "cannot be added: the file would not say what was meant");
}

int exec_rules_add(struct arena *a, const struct exec_rules_text *text, const char *cwd,
                   const struct exec_rule_addition *add, struct slice *ret, struct err *err)
{
        _buf_ struct buf line = BUF_INIT(LIMIT_RULES_BYTES);
        _exec_rules_ struct exec_rules *old = NULL, *new = NULL;
        struct slice after;

        int r = check_words(add, err);
        if (r < 0)
                return r;
        old = exec_rules_new(text, 1, cwd, err);
        if (!old)
                return err->code;
        if (write_line(&line, add) < 0)
                return too_long(a, text, err);
        r = append_line(a, text, cwd, buf_slice(&line), &after, &new, err);
        if (r == 1 && (exec_rules_count(new) != exec_rules_count(old) + 1 || !is_as_meant(a, new, add)))
                return not_as_meant(err);
        if (r >= 0)
                *ret = after;
        return MIN(r, 0);
}

/* ---- network rules ---- */

static int write_network_line(struct buf *out, const struct exec_network_addition *add)
{
        int r = buf_append(out, S("network_rule(host="));

        if (r == 0)
                r = append_string(out, slice_from_str(add->host));
        if (r == 0)
                r = buf_printf(out, ", protocol=\"%s\", decision=\"%s\"", add->protocol,
                               add->decision == EXEC_FORBIDDEN ? "deny" : exec_decision_name(add->decision));
        if (r == 0 && add->justification) {
                r = buf_append(out, S(", justification="));
                if (r == 0)
                        r = append_string(out, slice_from_str(add->justification));
        }
        if (r == 0 && add->port > 0)
                r = buf_printf(out, ", ports=[%u]", add->port);
        return r < 0 ? r : buf_append(out, S(")"));
}

/* Returns whether the last network rule is the one that was meant: a host that is written in another way than rules are kept would
 * not be. */
static bool is_network_as_meant(const struct exec_rules *old, const struct exec_rules *new,
                                const struct exec_network_addition *add)
{
        size_t before, count;
        const struct exec_network_rule *list = exec_rules_network(old, &before);

        list = exec_rules_network(new, &count);
        if (count != before + 1 || exec_rules_count(new) != exec_rules_count(old))
                return false;
        const struct exec_network_rule *last = &list[count - 1];
        return slice_eq(last->host, slice_from_str(add->host)) && last->decision == add->decision &&
               last->port_count == (add->port > 0) &&
               (add->port == 0 || (last->ports->from == add->port && last->ports->to == add->port));
}

int exec_rules_add_network(struct arena *a, const struct exec_rules_text *text, const char *cwd,
                           const struct exec_network_addition *add, struct slice *ret, struct err *err)
{
        _buf_ struct buf line = BUF_INIT(LIMIT_RULES_BYTES);
        _exec_rules_ struct exec_rules *old = exec_rules_new(text, 1, cwd, err), *new = NULL;
        struct slice after;

        if (!old)
                return err->code;
        if (write_network_line(&line, add) < 0)
                return too_long(a, text, err);
        int r = append_line(a, text, cwd, buf_slice(&line), &after, &new, err);
        if (r == 1 && !is_network_as_meant(old, new, add))
                return not_as_meant(err);
        if (r >= 0)
                *ret = after;
        return MIN(r, 0);
}
