/* shell_words: splits a line into words, and shows words as a line. */
#include "rules/shell_words.h"

#include "base/buf.h"
#include "base/printable.h"

#include <errno.h>

#define SHOWN_BYTES 400

static bool is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\n';
}

/* Reads what stands in single or double quotes; *i is behind the first quote. */
static int read_quoted(struct slice s, size_t *i, char quote, char **out)
{
        for (; *i < s.n && s.p[*i] != quote; (*i)++) {
                char c = s.p[*i];
                if (quote == '"' && c == '\\') {
                        if (*i + 1 == s.n)
                                return -EINVAL;
                        c = s.p[++*i];
                        if (c == '\n')
                                continue;
                        if (c != '$' && c != '`' && c != '"' && c != '\\')
                                *(*out)++ = '\\';
                }
                *(*out)++ = c;
        }
        if (*i == s.n)
                return -EINVAL;
        (*i)++;
        return 0;
}

/* Reads a word; *i is at its first byte. */
static int read_word(struct slice s, size_t *i, char **out)
{
        while (*i < s.n && !is_blank(s.p[*i])) {
                char c = s.p[(*i)++];
                if (c == '\'' || c == '"') {
                        int r = read_quoted(s, i, c, out);
                        if (r < 0)
                                return r;
                } else if (c == '\\') {
                        if (*i == s.n)
                                return -EINVAL;
                        c = s.p[(*i)++];
                        if (c != '\n')
                                *(*out)++ = c;
                } else {
                        *(*out)++ = c;
                }
        }
        return 0;
}

int shell_words_split(struct arena *a, struct slice text, struct slice **ret, size_t *ret_count)
{
        struct slice *words = NULL;
        size_t count = 0, room = 0, i = 0;
        char *bytes = arena_alloc(a, text.n + 1), *out = bytes; /* no word grows by being unquoted */

        while (i < text.n) {
                if (is_blank(text.p[i])) {
                        i++;
                        continue;
                }
                if (text.p[i] == '\\' && i + 1 < text.n &&
                    text.p[i + 1] == '\n') { /* a joined line begins no word */
                        i += 2;
                        continue;
                }
                if (text.p[i] == '#') {
                        while (i < text.n && text.p[i] != '\n')
                                i++;
                        continue;
                }
                const char *start = out;
                int r = read_word(text, &i, &out);
                if (r < 0)
                        return r;
                words = arena_room(a, words, count, &room, sizeof(*words));
                words[count++] = slice_from(start, (size_t)(out - start));
        }
        *ret = words;
        *ret_count = count;
        return 0;
}

static bool needs_quotes(struct slice word)
{
        static const char plain[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:=@%,";

        for (size_t i = 0; i < word.n; i++)
                if (word.p[i] == '\0' || (!strchr(plain, word.p[i]) && !(word.p[i] & 0x80)))
                        return true;
        return word.n == 0;
}

static int show_word(struct buf *out, struct slice word)
{
        if (!needs_quotes(word))
                return buf_append(out, word);
        int r = buf_append_char(out, '\'');
        for (size_t i = 0; i < word.n && r == 0; i++)
                r = word.p[i] == '\'' ? buf_append(out, S("'\\''")) : buf_append_char(out, word.p[i]);
        return r < 0 ? r : buf_append_char(out, '\'');
}

const char *shell_words_show(struct arena *a, const struct slice *words, size_t count)
{
        _buf_ struct buf out = BUF_INIT(SHOWN_BYTES);
        int r = 0;

        for (size_t i = 0; i < count && r == 0; i++) {
                if (i > 0)
                        r = buf_append_char(&out, ' ');
                if (r == 0)
                        r = show_word(&out, words[i]);
        }
        const char *text = printable_text(a, buf_slice(&out));
        return r == 0 ? text : arena_printf(a, "%s…", text);
}
