/* starlark_lex: divides a Starlark text into tokens, and reads the bytes of its strings. */
#include "rules/starlark_lex.h"

#include "base/printable.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#define FAIL_TEXT_BYTES 1024

/* ---- errors ---- */

bool starlark_fail(struct starlark_lexer *l, struct starlark_position at, const char *fmt, ...)
{
        char text[FAIL_TEXT_BYTES];
        va_list ap;

        va_start(ap, fmt);
        (void)vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        err_set(l->err, 0, -EINVAL, "%s:%u:%u: %s", printable_str(l->arena, l->name), at.line, at.column,
                text);
        return false;
}

bool starlark_fail_unsupported(struct starlark_lexer *l, struct starlark_position at, const char *what)
{
        return starlark_fail(l, at, "unsupported Starlark construct: %s", what);
}

/* ---- characters ---- */

static struct starlark_position here(struct starlark_lexer *l)
{
        for (; l->mark < l->p; l->mark++)
                l->mark_column += (*l->mark & 0xc0) != 0x80;
        return (struct starlark_position){ l->line, l->mark_column };
}

/* Returns the byte that is `ahead` bytes ahead; -1 behind the end. */
static int peek(const struct starlark_lexer *l, size_t ahead)
{
        return ahead < (size_t)(l->end - l->p) ? (uint8_t)l->p[ahead] : -1;
}

/* Returns how many bytes the line end has that is `ahead` bytes ahead; 0: there is no line end. */
static size_t newline_size(const struct starlark_lexer *l, size_t ahead)
{
        if (peek(l, ahead) == '\n')
                return 1;
        return peek(l, ahead) == '\r' && peek(l, ahead + 1) == '\n' ? 2 : 0;
}

static void skip_newline(struct starlark_lexer *l)
{
        l->p += newline_size(l, 0);
        l->line++;
        l->mark = l->p;
        l->mark_column = 1;
}

static bool is_name_byte(int c, bool is_first)
{
        char lower = ascii_lower((char)c);
        return c >= 0 && ((lower >= 'a' && lower <= 'z') || c == '_' || (!is_first && c >= '0' && c <= '9'));
}

static bool fail_input(struct starlark_lexer *l)
{
        size_t n = utf8_sequence(l->p, (size_t)(l->end - l->p));
        return starlark_fail(l, here(l), "Parse error: invalid input `%s`",
                             printable_text(l->arena, slice_from(l->p, n)));
}

/* ---- strings ---- */

struct string_form {
        struct starlark_position at;
        char quote;
        size_t width; /* of the quotes: 1 or 3 */
        bool is_raw;
};

static bool is_string_end(const struct starlark_lexer *l, const struct string_form *form)
{
        for (size_t i = 0; i < form->width; i++)
                if (peek(l, i) != (uint8_t)form->quote)
                        return false;
        return true;
}

/* Reads the digits of an escape; l->p is behind the letter. They name a character. */
static bool read_code(struct starlark_lexer *l, size_t digits, char **out)
{
        const char *backslash = l->p - 2;
        uint32_t code = 0;
        size_t i = 0;

        for (; i < digits && peek(l, i) >= 0 && ascii_hex_value(l->p[i]) >= 0; i++)
                code = code * 16 + (uint32_t)ascii_hex_value(l->p[i]);
        if (i < digits || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
                struct slice shown = slice_from(backslash + 1, (size_t)(l->p + i - backslash - 1));
                l->p = backslash;
                return starlark_fail(l, here(l), "Parse error: invalid string escape sequence `%s`",
                                     printable_text(l->arena, shown));
        }
        l->p += digits;
        *out += utf8_encode(code, *out);
        return true;
}

static void read_octal(struct starlark_lexer *l, char **out)
{
        uint32_t code = 0;

        for (size_t i = 0; i < 3 && peek(l, 0) >= '0' && peek(l, 0) <= '7'; i++)
                code = code * 8 + (uint32_t)(*l->p++ - '0');
        *out += utf8_encode(code, *out);
}

/* Reads what follows a backslash; l->p is at the backslash. What an escape gives is never longer than the escape. */
static bool read_escape(struct starlark_lexer *l, char **out)
{
        static const char letters[] = "abfnrtv\\'\"", values[] = "\a\b\f\n\r\t\v\\'\"";
        int c = peek(l, 1);

        if (newline_size(l, 1) > 0) {
                l->p++;
                skip_newline(l);
                return true;
        }
        const char *letter = c > 0 ? strchr(letters, c) : NULL;
        if (letter) {
                *(*out)++ = values[letter - letters];
                l->p += 2;
                return true;
        }
        if (c == 'x' || c == 'u' || c == 'U') {
                l->p += 2;
                return read_code(l, c == 'x' ? 2 : c == 'u' ? 4 : 8, out);
        }
        *(*out) = '\\';
        l->p++;
        if (c >= '0' && c <= '7')
                read_octal(l, out);
        else
                (*out)++; /* an unknown escape stays as it is */
        return true;
}

/* In a raw string a backslash stands for itself, except in front of a quote; it keeps the next character from ending the string. */
static void read_raw_escape(struct starlark_lexer *l, char **out)
{
        int c = peek(l, 1);

        l->p++;
        if (c != '\'' && c != '"')
                *(*out)++ = '\\';
        if (c == '\n') {
                *(*out)++ = '\n';
                skip_newline(l);
        } else if (c >= 0 && c != '\r') {
                *(*out)++ = *l->p++;
        }
}

/* Reads one character of a string, or an escape. */
static bool read_string_part(struct starlark_lexer *l, const struct string_form *form, char **out)
{
        size_t newline = newline_size(l, 0);

        if (*l->p == '\\') {
                if (!form->is_raw)
                        return read_escape(l, out);
                read_raw_escape(l, out);
                return true;
        }
        if (newline > 0) {
                if (form->width == 1)
                        return starlark_fail(l, form->at, "Parse error: unfinished string literal");
                *(*out)++ = '\n';
                skip_newline(l);
                return true;
        }
        if (*l->p == '\r')
                return fail_input(l);
        *(*out)++ = *l->p++;
        return true;
}

/* Reads a string; l->p is at its first quote. */
static bool read_string(struct starlark_lexer *l, bool is_raw, struct token *ret)
{
        struct string_form form = { .at = ret->at, .quote = *l->p, .width = 1, .is_raw = is_raw };
        if (peek(l, 1) == form.quote && peek(l, 2) == form.quote)
                form.width = 3;
        l->p += form.width;

        size_t room = 0;
        char *start = NULL, *out = NULL;
        while (l->p < l->end && !is_string_end(l, &form)) {
                /* No part gives more than four bytes. */
                size_t n = (size_t)(out - start);
                if (!start || room - n < 8) {
                        start = arena_grow(l->arena, start, room, room * 2 + 32);
                        out = start + n;
                        room = room * 2 + 32;
                }
                if (!read_string_part(l, &form, &out))
                        return false;
        }
        if (l->p == l->end)
                return starlark_fail(l, form.at, "Parse error: unfinished string literal");
        l->p += form.width;
        ret->kind = TOKEN_STRING;
        ret->string = slice_from(start ? start : "", (size_t)(out - start));
        return true;
}

/* ---- other tokens ---- */

/* A name, or the prefix of a string. */
static bool read_name(struct starlark_lexer *l, struct token *ret)
{
        static const char *const refused[] = { "b", "rb", "br", "f", "fr", "rf" };
        const char *start = l->p;

        while (is_name_byte(peek(l, 0), false))
                l->p++;
        struct slice name = slice_from(start, (size_t)(l->p - start));
        if (peek(l, 0) == '"' || peek(l, 0) == '\'') {
                if (slice_eq(name, S("r")))
                        return read_string(l, true, ret);
                size_t i = slice_find(name, refused, ARRAY_LEN(refused));
                if (i < ARRAY_LEN(refused))
                        return starlark_fail_unsupported(l, ret->at,
                                                         i < 3 ? "a bytes literal" : "an f-string");
        }
        ret->kind = TOKEN_NAME;
        return true;
}

static bool read_int(struct starlark_lexer *l, struct token *ret)
{
        const char *start = l->p;
        char base = peek(l, 0) == '0' ? ascii_lower((char)peek(l, 1)) : '\0';
        bool is_hex = base == 'x', has_base = is_hex || base == 'o' || base == 'b';

        if (has_base)
                l->p += 2;
        const char *digits = l->p;
        for (int c; (c = peek(l, 0)) >= 0; l->p++)
                if (is_hex ? ascii_hex_value((char)c) < 0
                           : c < '0' || c > (base == 'o' ? '7'
                                             : has_base  ? '1'
                                                         : '9'))
                        break;
        struct slice text = slice_from(start, (size_t)(l->p - start));
        if (l->p == digits)
                return starlark_fail(l, ret->at, "Parse error: invalid input `%s`",
                                     printable_text(l->arena, text));
        if (!has_base && text.n > 1 && *start == '0')
                return starlark_fail(l, ret->at, "Parse error: integer cannot have leading 0, got `%s`",
                                     printable_text(l->arena, text));
        if (peek(l, 0) == '.')
                return starlark_fail_unsupported(l, ret->at, "a number with a fraction");
        ret->kind = TOKEN_INT;
        return true;
}

static bool read_symbol(struct starlark_lexer *l, struct token *ret)
{
        /* The signs that only other parts of Starlark use are tokens too, so that the parser can say that they are unsupported. */
        static const char *const pairs[] = { "+=", "==", "!=", "<=", ">=", "**",
                                             "//", "->", "<<", ">>", "-=", "*=" };
        static const char singles[] = "()[]{},;=+:.*-/%<>!&|^~@";
        int c = peek(l, 0);

        ret->kind = TOKEN_SYMBOL;
        if (c <= 0 || !strchr(singles, c))
                return fail_input(l);
        if (peek(l, 1) >= 0 && slice_find(slice_from(l->p, 2), pairs, ARRAY_LEN(pairs)) < ARRAY_LEN(pairs)) {
                l->p += 2;
                return true;
        }
        if (c == '(' || c == '[' || c == '{')
                l->brackets++;
        if ((c == ')' || c == ']' || c == '}') && l->brackets > 0)
                l->brackets--;
        l->p++;
        return true;
}

/* ---- between tokens ---- */

/* Skips the rest of a line that has no token. Returns false when the line has one, and moves nothing then. */
static bool skip_empty_line(struct starlark_lexer *l)
{
        size_t i = 0;

        while (peek(l, i) == ' ' || peek(l, i) == '\t')
                i++;
        if (peek(l, i) == '#')
                while (peek(l, i) >= 0 && newline_size(l, i) == 0)
                        i++;
        if (peek(l, i) >= 0 && newline_size(l, i) == 0)
                return false;
        l->p += i;
        if (l->p < l->end)
                skip_newline(l);
        return l->p < l->end;
}

/* Goes to the next token, or to a line end that is one. */
static bool skip_blanks(struct starlark_lexer *l)
{
        for (;;) {
                while (peek(l, 0) == ' ')
                        l->p++;
                if (peek(l, 0) == '#')
                        while (peek(l, 0) >= 0 && newline_size(l, 0) == 0)
                                l->p++;
                if (peek(l, 0) == '\t')
                        return starlark_fail(l, here(l), "Parse error: tabs are not allowed");
                if (peek(l, 0) == '\\' && newline_size(l, 1) > 0)
                        l->p++;
                else if (l->brackets == 0 || newline_size(l, 0) == 0)
                        return true;
                skip_newline(l);
        }
}

static bool begin_line(struct starlark_lexer *l)
{
        while (skip_empty_line(l))
                ;
        l->is_line_start = false;
        if (peek(l, 0) == ' ')
                return starlark_fail(l, here(l),
                                     "Parse error: unexpected new indentation block, expected expression");
        return true;
}

bool starlark_lex_begin(struct starlark_lexer *l, struct arena *a, const char *name, struct slice text,
                        struct err *err)
{
        *l = (struct starlark_lexer){ .arena = a,
                                      .name = name,
                                      .p = text.p,
                                      .end = text.p + text.n,
                                      .mark = text.p,
                                      .line = 1,
                                      .mark_column = 1,
                                      .is_line_start = true,
                                      .err = err };
        struct starlark_lexer reader = *l;
        while (reader.p < reader.end) {
                size_t n = utf8_sequence(reader.p, (size_t)(reader.end - reader.p));
                if (n == 0)
                        return starlark_fail(&reader, here(&reader), "the text is not UTF-8");
                if (newline_size(&reader, 0) > 0)
                        skip_newline(&reader);
                else
                        reader.p += n;
        }
        return true;
}

bool starlark_lex_next(struct starlark_lexer *l, struct token *ret)
{
        if (l->is_line_start && l->brackets == 0 && !begin_line(l))
                return false;
        if (!skip_blanks(l))
                return false;

        const char *start = l->p;
        int c = peek(l, 0);
        bool is_good = true;
        *ret = (struct token){ .kind = TOKEN_END, .at = here(l) };
        if (c < 0) {
                ret->kind = l->has_ended ? TOKEN_END : TOKEN_NEWLINE;
                l->has_ended = true;
        } else if (newline_size(l, 0) > 0) {
                ret->kind = TOKEN_NEWLINE;
                skip_newline(l);
                l->is_line_start = true;
        } else if (is_name_byte(c, true)) {
                is_good = read_name(l, ret);
        } else if (c >= '0' && c <= '9') {
                is_good = read_int(l, ret);
        } else if (c == '"' || c == '\'') {
                is_good = read_string(l, false, ret);
        } else {
                is_good = read_symbol(l, ret);
        }
        ret->text = slice_from(start, (size_t)(l->p - start));
        return is_good;
}
