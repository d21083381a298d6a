/* starlark: reads the statements of a text and carries them out. */
#include "rules/starlark.h"

#include "base/limits.h"
#include "base/map.h"
#include "base/printable.h"
#include "rules/starlark_lex.h"

#include <errno.h>

struct parser {
        struct starlark_lexer lexer;
        struct token token; /* the next one */
        const struct starlark_program *program;
        struct map names; /* to struct starlark_value */
        unsigned depth;   /* of open brackets */
};

/* ---- words of the language ---- */

/* Words of Starlark that are no names. */
static bool is_keyword(struct slice name)
{
        static const char *const words[] = { "and",  "break", "continue", "def",  "elif",
                                             "else", "for",   "if",       "in",   "lambda",
                                             "load", "not",   "or",       "pass", "return" };
        return slice_find(name, words, ARRAY_LEN(words)) < ARRAY_LEN(words);
}

/* Words that Starlark keeps from programs. */
static bool is_reserved(struct slice name)
{
        static const char *const words[] = { "as",       "assert",  "async", "await",  "class",  "del",
                                             "except",   "finally", "from",  "global", "import", "is",
                                             "nonlocal", "raise",   "try",   "while",  "with",   "yield" };
        return slice_find(name, words, ARRAY_LEN(words)) < ARRAY_LEN(words);
}

static bool is_constant(struct slice name)
{
        return slice_eq(name, S("None")) || slice_eq(name, S("True")) || slice_eq(name, S("False"));
}

/* ---- tokens ---- */

static const char *show(struct parser *ps, struct slice text)
{
        return printable_text(ps->lexer.arena, text);
}

static bool advance(struct parser *ps)
{
        return starlark_lex_next(&ps->lexer, &ps->token);
}

/* Fails because of the next token: it is something that this program does not know, or a mistake. */
static bool fail_unexpected(struct parser *ps, const char *expected)
{
        static const char *const kinds[] = { [TOKEN_NAME] = "identifier",
                                             [TOKEN_INT] = "integer literal",
                                             [TOKEN_STRING] = "string literal",
                                             [TOKEN_SYMBOL] = "symbol" };
        const struct token *t = &ps->token;
        const char *text = show(ps, t->text);

        if (t->kind == TOKEN_NAME && is_reserved(t->text))
                return starlark_fail(&ps->lexer, t->at, "Parse error: cannot use reserved keyword `%s`",
                                     text);
        if (t->kind == TOKEN_NAME && slice_eq(t->text, S("load")))
                return starlark_fail(&ps->lexer, t->at, "No imports are available: `load` is not supported");
        bool is_closing = token_is(t, ")") || token_is(t, "]") || token_is(t, "}");
        bool is_separator = token_is(t, ",") || token_is(t, ";") || token_is(t, "=") || token_is(t, "+=");
        if ((t->kind == TOKEN_NAME && is_keyword(t->text)) ||
            (t->kind == TOKEN_SYMBOL && !is_closing && !is_separator))
                return starlark_fail_unsupported(&ps->lexer, t->at,
                                                 arena_printf(ps->lexer.arena, "`%s`", text));
        if (t->kind == TOKEN_END || t->kind == TOKEN_NEWLINE)
                return starlark_fail(&ps->lexer, t->at, "Parse error: unexpected new line, expected %s",
                                     expected);
        const char *quote = t->kind == TOKEN_STRING ? "" : "'";
        return starlark_fail(&ps->lexer, t->at, "Parse error: unexpected %s %s%s%s, expected %s",
                             kinds[t->kind], quote, text, quote, expected);
}

static bool spend(struct parser *ps, struct starlark_position at, size_t steps)
{
        if (*ps->program->steps < steps)
                return starlark_fail(&ps->lexer, at, "the rules are too large: they need more than %d steps",
                                     LIMIT_RULES_STEPS);
        *ps->program->steps -= steps;
        return true;
}

/* ---- values ---- */

static bool make_value(struct parser *ps, enum starlark_type type, struct starlark_value **ret)
{
        if (!spend(ps, ps->token.at, 1))
                return false;
        *ret = arena_new(ps->lexer.arena, struct starlark_value);
        (*ret)->type = type;
        return true;
}

static bool append_item(struct parser *ps, struct starlark_value *list, struct starlark_value *item)
{
        if (!spend(ps, ps->token.at, 1))
                return false;
        list->items =
                arena_room(ps->lexer.arena, list->items, list->count, &list->room, sizeof(list->items[0]));
        list->items[list->count++] = item;
        return true;
}

static bool append_items(struct parser *ps, struct starlark_value *list, const struct starlark_value *from)
{
        size_t count = from->count; /* `from` may be the list itself, which grows meanwhile */

        for (size_t i = 0; i < count; i++)
                if (!append_item(ps, list, from->items[i]))
                        return false;
        return true;
}

/* Makes the sum of two values. */
static bool add(struct parser *ps, struct starlark_position at, const struct starlark_value *x,
                const struct starlark_value *y, struct starlark_value **ret)
{
        struct arena *a = ps->lexer.arena;

        if (x->type == STARLARK_INT && y->type == STARLARK_INT)
                return starlark_fail_unsupported(&ps->lexer, at, "a sum of integers");
        if (x->type != y->type || x->type < STARLARK_STRING)
                return starlark_fail(&ps->lexer, at, "Operation `+` not supported for types `%s` and `%s`",
                                     starlark_type_name(x->type), starlark_type_name(y->type));
        if (!make_value(ps, x->type, ret))
                return false;
        if (x->type != STARLARK_STRING)
                return append_items(ps, *ret, x) && append_items(ps, *ret, y);

        size_t n = x->text.n + y->text.n;
        if (!spend(ps, at, 1 + n / 8))
                return false;
        char *text = arena_alloc(a, n + 1);
        memcpy(text, x->text.p, x->text.n);
        memcpy(text + x->text.n, y->text.p, y->text.n);
        (*ret)->text = slice_from(text, n);
        return true;
}

/* Returns whether `item` may become an item of a list that exists already. So that no list comes to contain itself, a list must not
 * have lists as items then, and must not be the list that it becomes an item of. */
static bool may_join(const struct starlark_value *list, const struct starlark_value *item)
{
        if (item == list)
                return false;
        for (size_t i = 0; i < item->count; i++)
                if (item->items[i]->type == STARLARK_LIST || item->items[i]->type == STARLARK_TUPLE)
                        return false;
        return true;
}

/* ---- expressions ---- */

static bool parse_sum(struct parser *ps, const struct token *name, struct starlark_value **ret);

static bool look_up(struct parser *ps, const struct token *name, struct starlark_value **ret)
{
        const struct starlark_program *program = ps->program;

        if (is_constant(name->text)) {
                if (!make_value(ps, name->text.p[0] == 'N' ? STARLARK_NONE : STARLARK_BOOL, ret))
                        return false;
                (*ret)->text = name->text;
                return true;
        }
        if (token_is(&ps->token, "("))
                return starlark_fail_unsupported(&ps->lexer, name->at, "a call inside of an expression");
        *ret = map_find(&ps->names, name->text);
        if (*ret)
                return true;
        if (slice_find(name->text, program->functions, program->function_count) < program->function_count)
                return starlark_fail_unsupported(&ps->lexer, name->at, "a function as a value");
        if (ps->token.kind == TOKEN_NAME &&
            is_keyword(ps->token.text)) /* in `x for x in …` the keyword is the mistake, and not the name */
                return fail_unexpected(ps, "new line");
        return starlark_fail(&ps->lexer, name->at, "Variable `%s` not found", show(ps, name->text));
}

/* Parses the items of a list or a tuple, up to the bracket that ends it. */
static bool parse_items(struct parser *ps, struct starlark_value *list, const char *end, const char *expected)
{
        while (!token_is(&ps->token, end)) {
                struct starlark_value *item;
                if (!parse_sum(ps, NULL, &item) || !append_item(ps, list, item))
                        return false;
                if (token_is(&ps->token, ",")) {
                        if (!advance(ps))
                                return false;
                } else if (!token_is(&ps->token, end)) {
                        return fail_unexpected(ps, expected);
                }
        }
        return advance(ps);
}

/* Parses what stands in parentheses: a tuple, or one expression. */
static bool parse_parentheses(struct parser *ps, struct starlark_value **ret)
{
        struct starlark_value *first = NULL;

        if (!token_is(&ps->token, ")")) {
                if (!parse_sum(ps, NULL, &first))
                        return false;
                if (token_is(&ps->token, ")")) {
                        *ret = first;
                        return advance(ps);
                }
                if (!token_is(&ps->token, ","))
                        return fail_unexpected(ps, "symbol ')'");
                if (!advance(ps))
                        return false;
        }
        if (!make_value(ps, STARLARK_TUPLE, ret) || (first && !append_item(ps, *ret, first)))
                return false;
        return parse_items(ps, *ret, ")", "symbol ')'");
}

/* Parses an expression without `+`. */
static bool parse_term(struct parser *ps, struct starlark_value **ret)
{
        struct token t = ps->token;

        if (t.kind == TOKEN_STRING || t.kind == TOKEN_INT) {
                if (!make_value(ps, t.kind == TOKEN_STRING ? STARLARK_STRING : STARLARK_INT, ret))
                        return false;
                (*ret)->text = t.kind == TOKEN_STRING ? t.string : t.text;
                return advance(ps);
        }
        if (t.kind == TOKEN_NAME && !is_keyword(t.text) && !is_reserved(t.text))
                return advance(ps) && look_up(ps, &t, ret);
        bool is_list = token_is(&t, "[");
        if (!is_list && !token_is(&t, "("))
                return fail_unexpected(ps, "expression");

        if (ps->depth == LIMIT_RULES_DEPTH)
                return starlark_fail(&ps->lexer, t.at, "more than %d brackets inside of each other",
                                     LIMIT_RULES_DEPTH);
        ps->depth++;
        bool is_good = advance(ps);
        if (is_good && is_list)
                is_good = make_value(ps, STARLARK_LIST, ret) && parse_items(ps, *ret, "]", "symbol ']'");
        else if (is_good)
                is_good = parse_parentheses(ps, ret);
        ps->depth--;
        return is_good;
}

/* Parses an expression. `name` is its first token when that was taken already. */
static bool parse_sum(struct parser *ps, const struct token *name, struct starlark_value **ret)
{
        struct starlark_position at = name ? name->at : ps->token.at;

        if (name ? !look_up(ps, name, ret) : !parse_term(ps, ret))
                return false;
        while (token_is(&ps->token, "+")) {
                struct starlark_value *more;
                if (!advance(ps) || !parse_term(ps, &more) || !add(ps, at, *ret, more, ret))
                        return false;
        }
        return true;
}

/* ---- statements ---- */

static void bind(struct parser *ps, struct slice name, struct starlark_value *value)
{
        (void)map_remove(&ps->names, name);
        map_put(&ps->names, name, value);
}

/* Carries out `NAME = …` and `NAME += …`; the sign is next. */
static bool assign(struct parser *ps, const struct token *name)
{
        const struct starlark_program *program = ps->program;
        bool is_addition = token_is(&ps->token, "+=");
        struct starlark_value *value, *old, *sum;

        if (is_constant(name->text) ||
            slice_find(name->text, program->functions, program->function_count) < program->function_count)
                return starlark_fail_unsupported(&ps->lexer, name->at,
                                                 "another meaning for a name of the language");
        old = map_find(&ps->names, name->text);
        if (is_addition && !old)
                return starlark_fail(&ps->lexer, name->at, "Variable `%s` not found", show(ps, name->text));
        if (!advance(ps) || !parse_sum(ps, NULL, &value))
                return false;
        if (!is_addition) {
                bind(ps, name->text, value);
                return true;
        }
        if (old->type != STARLARK_LIST || (value->type != STARLARK_LIST && value->type != STARLARK_TUPLE)) {
                if (!add(ps, name->at, old, value, &sum))
                        return false;
                bind(ps, name->text, sum);
                return true;
        }
        for (size_t i = 0; i < value->count; i++)
                if (!may_join(old, value->items[i]))
                        return starlark_fail_unsupported(&ps->lexer, name->at, "`+=` with lists of lists");
        return append_items(ps, old, value);
}

/* Parses an argument of a call. */
static bool parse_argument(struct parser *ps, struct starlark_argument *ret)
{
        struct token first = ps->token;
        struct starlark_value *value;

        *ret = (struct starlark_argument){ 0 };
        bool is_name = first.kind == TOKEN_NAME && !is_keyword(first.text) && !is_reserved(first.text);
        if (is_name && !advance(ps))
                return false;
        if (is_name && token_is(&ps->token, "=")) {
                ret->name = first.text;
                if (!advance(ps))
                        return false;
                is_name = false;
        }
        if (!parse_sum(ps, is_name ? &first : NULL, &value))
                return false;
        ret->value = value;
        return true;
}

/* Checks an argument against those before it: positional ones come first, and no name comes twice. */
static bool check_argument(struct parser *ps, struct starlark_position at,
                           const struct starlark_argument *before, size_t count, struct slice name)
{
        if (!name.p && count > 0 && before[count - 1].name.p)
                return starlark_fail(&ps->lexer, at, "positional argument after non positional");
        for (size_t i = 0; name.p && i < count; i++)
                if (before[i].name.p && slice_eq(before[i].name, name))
                        return starlark_fail(&ps->lexer, at, "repeated named argument");
        return true;
}

/* Parses the arguments of a call, and makes the call; the opening bracket is next. */
static bool parse_call(struct parser *ps, const struct token *name)
{
        const struct starlark_program *program = ps->program;
        struct starlark_argument *list = NULL;
        size_t count = 0, room = 0;
        size_t function = slice_find(name->text, program->functions, program->function_count);

        if (function == program->function_count)
                return starlark_fail(&ps->lexer, name->at, "Variable `%s` not found", show(ps, name->text));
        if (!advance(ps))
                return false;
        while (!token_is(&ps->token, ")")) {
                struct starlark_position at = ps->token.at;
                if (count == LIMIT_RULES_ARGUMENTS)
                        return starlark_fail(&ps->lexer, at, "a call has more than %d arguments",
                                             LIMIT_RULES_ARGUMENTS);
                list = arena_room(ps->lexer.arena, list, count, &room, sizeof(*list));
                if (!parse_argument(ps, &list[count]) ||
                    !check_argument(ps, at, list, count, list[count].name))
                        return false;
                count++;
                if (token_is(&ps->token, ",")) {
                        if (!advance(ps))
                                return false;
                } else if (!token_is(&ps->token, ")")) {
                        return fail_unexpected(ps, "symbol ')'");
                }
        }
        const struct starlark_call call = { .function = function,
                                            .line = name->at.line,
                                            .column = name->at.column,
                                            .arguments = list,
                                            .count = count };
        if (program->call(program->arg, &call, ps->lexer.err) < 0) {
                err_wrap(ps->lexer.err, "%s:%u:%u", printable_str(ps->lexer.arena, program->name), call.line,
                         call.column);
                return false;
        }
        return advance(ps);
}

/* Carries out a statement that begins with a name. */
static bool run_named(struct parser *ps)
{
        struct token name = ps->token;
        struct starlark_value *value;

        if (!advance(ps))
                return false;
        if (token_is(&ps->token, "=") || token_is(&ps->token, "+="))
                return assign(ps, &name);
        if (token_is(&ps->token, "("))
                return parse_call(ps, &name);
        if (ps->token.kind != TOKEN_NEWLINE && !token_is(&ps->token, ";") && !token_is(&ps->token, "+"))
                return fail_unexpected(ps, "new line");
        return parse_sum(ps, &name, &value);
}

/* Carries out the statements of one line. */
static bool run_line(struct parser *ps)
{
        for (;;) {
                struct starlark_value *value;
                const struct token *t = &ps->token;
                bool is_name = t->kind == TOKEN_NAME && !is_keyword(t->text) && !is_reserved(t->text);

                if (is_name ? !run_named(ps) : !parse_sum(ps, NULL, &value))
                        return false;
                if (ps->token.kind == TOKEN_NEWLINE)
                        return advance(ps);
                if (!token_is(&ps->token, ";"))
                        return fail_unexpected(ps, "new line");
                if (!advance(ps))
                        return false;
                if (ps->token.kind == TOKEN_NEWLINE)
                        return advance(ps);
        }
}

int starlark_run(struct arena *a, const struct starlark_program *program, struct err *err)
{
        struct parser ps = { .program = program };
        bool is_good = starlark_lex_begin(&ps.lexer, a, program->name, program->text, err);

        map_init(&ps.names);
        is_good = is_good && advance(&ps);
        while (is_good && ps.token.kind != TOKEN_END)
                is_good = ps.token.kind == TOKEN_NEWLINE ? advance(&ps) : run_line(&ps);
        map_release(&ps.names);
        return is_good ? 0 : err->code;
}
