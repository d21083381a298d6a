/* glob: matches names against patterns with `*` and `?`.
 *
 * Only the last `*` ever needs another try, because it can match whatever an earlier one could. So two remembered
 * positions replace a stack, and the cost is at most |pattern| x |name|.
 */
#include "base/glob.h"

#include "base/utf8.h"

/* Returns the length in bytes of the character at s.p[i]. A byte that is no UTF-8 counts as one character. */
static size_t char_length(struct slice s, size_t i)
{
        size_t n = utf8_sequence(s.p + i, s.n - i);

        return n > 0 ? n : 1;
}

bool glob_match_name(struct slice pattern, struct slice name)
{
        size_t p = 0, n = 0;
        size_t retry_p = 0, retry_n = 0; /* behind the last `*`, and the end of what that `*` matches */
        bool has_star = false;

        while (n < name.n) {
                char c = p < pattern.n ? pattern.p[p] : '\0';

                if (p < pattern.n && c == '*') {
                        has_star = true;
                        retry_p = ++p;
                        retry_n = n;
                } else if (p < pattern.n && c == '?') {
                        p++;
                        n += char_length(name, n);
                } else if (p < pattern.n && ascii_lower(c) == ascii_lower(name.p[n])) {
                        p++;
                        n++;
                } else if (has_star) {
                        retry_n += char_length(name, retry_n);
                        p = retry_p;
                        n = retry_n;
                } else {
                        return false;
                }
        }
        while (p < pattern.n && pattern.p[p] == '*')
                p++;
        return p == pattern.n;
}
