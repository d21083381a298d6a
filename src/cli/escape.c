/* escape: finds escapes, with a state machine over the typed bytes. */
#include "cli/escape.h"

/* Notes the marks at the beginning and the end of a paste. */
static void see_mark(struct escape *e, char c)
{
        const char *mark = e->in_paste ? "\033[201~" : "\033[200~";
        e->matched = c == mark[e->matched] ? e->matched + 1 : c == mark[0];
        if (mark[e->matched])
                return;
        e->in_paste = !e->in_paste;
        e->matched = 0;
}

static void take(struct escape *e, char c, char *out, size_t *n)
{
        out[(*n)++] = c;
        e->in_line = c != '\r' && c != '\n';
}

size_t escape_filter(struct escape *e, const char *in, size_t n, char *out, size_t *ret_used,
                     enum escape_wish *ret_wish)
{
        size_t made = 0;
        *ret_wish = ESCAPE_NONE;
        for (size_t i = 0; i < n; i++) {
                char c = in[i];
                if (!e->is_off)
                        see_mark(e, c);
                if (e->is_off) {
                        out[made++] = c;
                } else if (e->has_tilde) {
                        e->has_tilde = false;
                        if (c == '.' || c == '?') {
                                *ret_wish = c == '.' ? ESCAPE_LEAVE : ESCAPE_HELP;
                                *ret_used = i + 1;
                                return made;
                        }
                        take(e, '~', out, &made);
                        if (c != '~')
                                take(e, c, out, &made);
                } else if (c == '~' && !e->in_line && !e->in_paste) {
                        e->has_tilde = true;
                } else {
                        take(e, c, out, &made);
                }
        }
        *ret_used = n;
        return made;
}
