/* json_plain: makes blanks of the comments and the last commas of a JSON text, and parses it. */
#include "install/json_plain.h"

#include "base/buf.h"

#include <errno.h>

struct lexer {
        const char *s;
        size_t n, i;
        char *plain;
        uint8_t *marks;
        enum config_form form;
        char before;  /* the last byte that was neither blank nor comment, but for `comma` */
        size_t comma; /* the offset of the comma that was the last such byte; SIZE_MAX: there is none */
};

static void blank(struct lexer *l, size_t from, size_t to, enum json_mark mark)
{
        for (size_t i = from; i < to; i++) {
                l->marks[i] = (uint8_t)mark;
                if (!json_is_blank(l->plain[i]))
                        l->plain[i] = ' ';
        }
}

static void skip_string(struct lexer *l)
{
        for (l->i++; l->i < l->n && l->s[l->i] != '"'; l->i++)
                if (l->s[l->i] == '\\')
                        l->i++;
        l->i = MIN(l->i + 1, l->n);
}

/* Makes blanks of the comment that begins here. Returns false when there is none that ends well: the reader then complains about its slash. A
 * carriage return alone ends a line for some clients and not for others, so a comment must not have one. */
static bool take_comment(struct lexer *l)
{
        size_t start = l->i, end = start + 2;

        if (l->form == FORM_JSON || l->n - start < 2)
                return false;
        if (l->s[start + 1] == '/') {
                while (end < l->n && l->s[end] != '\n' && l->s[end] != '\r')
                        end++;
                if (end < l->n && l->s[end] == '\r' && (end + 1 == l->n || l->s[end + 1] != '\n'))
                        return false;
                blank(l, start, end, MARK_LINE);
        } else if (l->s[start + 1] == '*') {
                const char *close = memmem(l->s + end, l->n - end, "*/", 2);
                if (!close)
                        return false;
                end = (size_t)(close - l->s) + 2;
                blank(l, start, end, MARK_BLOCK);
        } else {
                return false;
        }
        l->i = end;
        return true;
}

static void take_plain(struct lexer *l)
{
        char c = l->s[l->i];

        if ((c == '}' || c == ']') && l->comma != SIZE_MAX && l->form == FORM_JSON_COMMENTS_COMMAS)
                blank(l, l->comma, l->comma + 1, MARK_COMMA);
        bool may_be_last = c == ',' && l->before && !strchr("{[,:", l->before);
        l->comma = may_be_last ? l->i : SIZE_MAX;
        l->before = c;
        if (c == '"')
                skip_string(l);
        else
                l->i++;
}

static void scan(struct lexer *l)
{
        if (slice_starts(slice_from(l->s, l->n), S("\xef\xbb\xbf"))) {
                blank(l, 0, 3, MARK_NONE);
                l->i = 3;
        }
        while (l->i < l->n)
                if (json_is_blank(l->s[l->i]))
                        l->i++;
                else if (l->s[l->i] != '/' || !take_comment(l))
                        take_plain(l);
}

int json_plain_parse(struct arena *a, struct slice text, enum config_form form, struct json_plain *ret,
                     struct err *err)
{
        struct lexer l = { .s = text.p, .n = text.n, .form = form, .comma = SIZE_MAX };
        struct json_error why;

        l.plain = arena_zalloc(a, text.n + BUF_PADDING);
        l.marks = arena_zalloc(a, text.n + 1);
        if (text.n > 0)
                memcpy(l.plain, text.p, text.n);
        scan(&l);
        *ret = (struct json_plain){ .text = text, .plain = l.plain, .marks = l.marks };
        if (json_parse(a, slice_from(l.plain, text.n), &ret->doc, &why) < 0)
                return err_set(err, 0, -EINVAL, "%s", why.text);
        if (json_root(&ret->doc)->type != JSON_OBJECT)
                return err_set(err, 0, -EINVAL, "it holds no object");
        return 0;
}
