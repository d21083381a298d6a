/* toml_text: reads the characters of a TOML file: the position of the parser, the next character, and errors about it.
 *
 * Deals with characters, lines and comments, not with keys and values.
 */
#include "base/toml_internal.h"

#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>

bool toml_is_control(int c)
{
        return (c >= 0 && c < ' ' && c != '\t') || c == 0x7f;
}

int toml_digit_value(int c)
{
        int value = c < 0 ? -1 : ascii_hex_value((char)c);
        return value < 0 ? 99 : value;
}

struct position toml_here(struct parser *ps)
{
        for (; ps->mark < ps->p; ps->mark++)
                ps->mark_column += (*ps->mark & 0xc0) != 0x80;
        return (struct position){ ps->line, ps->mark_column };
}

bool toml_fail(struct parser *ps, struct position at, const char *fmt, ...)
{
        char text[256];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        err_set(ps->err, 0, -EINVAL, "line %u, column %u: %s", at.line, at.column, text);
        return false;
}

int toml_peek(const struct parser *ps)
{
        return ps->p < ps->end ? (uint8_t)*ps->p : -1;
}

bool toml_looking_at(const struct parser *ps, struct slice s)
{
        return slice_starts(slice_from(ps->p, (size_t)(ps->end - ps->p)), s);
}

bool toml_accept(struct parser *ps, struct slice s)
{
        if (!toml_looking_at(ps, s))
                return false;
        ps->p += s.n;
        return true;
}

bool toml_accept_newline(struct parser *ps)
{
        if (!toml_accept(ps, S("\n")) && !toml_accept(ps, S("\r\n")))
                return false;
        ps->line++;
        ps->mark = ps->p;
        ps->mark_column = 1;
        return true;
}

void toml_skip_blanks(struct parser *ps)
{
        while (toml_peek(ps) == ' ' || toml_peek(ps) == '\t')
                ps->p++;
}

struct slice toml_take_word(struct parser *ps, const char *others)
{
        const char *start = ps->p;

        for (; ps->p < ps->end; ps->p++) {
                char c = ascii_lower(*ps->p);
                bool is_letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
                if (!is_letter && (c == '\0' || !strchr(others, c)))
                        break;
        }
        return slice_from(start, (size_t)(ps->p - start));
}

bool toml_skip_comment(struct parser *ps)
{
        toml_skip_blanks(ps);
        if (toml_peek(ps) != '#')
                return true;
        while (ps->p < ps->end && !toml_looking_at(ps, S("\n")) && !toml_looking_at(ps, S("\r\n"))) {
                if (toml_is_control(toml_peek(ps)))
                        return toml_fail(ps, toml_here(ps), "control character in a comment");
                ps->p++;
        }
        return true;
}

bool toml_skip_lines(struct parser *ps)
{
        do {
                if (!toml_skip_comment(ps))
                        return false;
        } while (toml_accept_newline(ps));
        return true;
}

/* Describes what is next in the text, for error messages. */
static const char *describe(struct parser *ps, char *room, size_t size)
{
        size_t n = utf8_sequence(ps->p, (size_t)(ps->end - ps->p));

        if (ps->p == ps->end)
                return "the end of the file";
        if (*ps->p == '\n' || toml_looking_at(ps, S("\r\n")))
                return "the end of the line";
        if (toml_is_control(toml_peek(ps)))
                snprintf(room, size, "the control character 0x%02x", toml_peek(ps));
        else
                snprintf(room, size, "'%.*s'", (int)n, ps->p);
        return room;
}

bool toml_fail_expected(struct parser *ps, const char *what)
{
        char room[40];
        const char *found = describe(ps, room, sizeof(room));

        return toml_fail(ps, toml_here(ps), "expected %s, found %s", what, found);
}

bool toml_check_text(struct parser ps)
{
        while (ps.p < ps.end) {
                size_t n = utf8_sequence(ps.p, (size_t)(ps.end - ps.p));
                if (n == 0 || *ps.p == '\0')
                        return toml_fail(&ps, toml_here(&ps), n == 0 ? "not UTF-8" : "NUL byte");
                if (!toml_accept_newline(&ps))
                        ps.p += n;
        }
        return true;
}
