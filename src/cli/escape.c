/* escape: a state machine over what is typed. */
#include "cli/escape.h"

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
                } else if (c == '~' && !e->in_line) {
                        e->has_tilde = true;
                } else {
                        take(e, c, out, &made);
                }
        }
        *ret_used = n;
        return made;
}
