/* denied: see denied.h.
 *
 * All phrases are looked for at once by a small automaton (Aho and Corasick): one table look-up per byte, whatever the
 * output is, and a phrase may begin in one piece and end in another. Building it takes a few microseconds, so nothing is
 * kept between two commands.
 *
 * Lower case is Unicode's. Only two other characters become ASCII letters there: U+212A KELVIN SIGN is a `k`, so phrases
 * with one are listed twice; U+0130 (I with a dot) becomes an `i` and a combining dot, which is in no phrase and ends none.
 * Bytes that are no UTF-8 break a phrase, as the replacement character would.
 */
#include "sandbox/denied.h"

#include "base/mem.h"

#include <signal.h>

#define KELVIN "\xe2\x84\xaa"

static const struct phrase {
        const char *text;
        const char *operation; /* that was refused, as far as the words tell */
        bool is_offline;       /* counts only where the network is empty */
} phrases[] = {
        { "operation not permitted", "unknown", false },
        { "permission denied", "unknown", false },
        { "read-only file system", "write", false },
        { "seccomp", "unknown", false },
        { "sandbox", "unknown", false },
        { "landlock", "unknown", false },
        { "landloc" KELVIN, "unknown", false },
        { "failed to write file", "write", false },
        { "network is unreachable", "connect", true },
        { "networ" KELVIN " is unreachable", "connect", true },
};

/* The last column of a state says which phrase ends there. */
#define FOUND (DENIED_CLASSES_MAX - 1)
#define ROOT 0

/* Each byte that is in a phrase is a class of its own, capitals with their letters; class 0 is all others. */
static uint8_t class_add(struct denied_scan *s, unsigned char c)
{
        if (s->class_of[c] == 0) {
                must(s->classes < FOUND);
                s->class_of[c] = s->classes++;
                if (c >= 'a' && c <= 'z')
                        s->class_of[c - 'a' + 'A'] = s->class_of[c];
        }
        return s->class_of[c];
}

static void phrase_add(struct denied_scan *s, size_t number)
{
        uint8_t at = ROOT;
        for (const char *text = phrases[number].text; *text; text++) {
                uint8_t *next = &s->next[at][class_add(s, (unsigned char)*text)];
                if (*next == ROOT) {
                        must(s->states < DENIED_STATES_MAX);
                        *next = s->states++;
                }
                at = *next;
        }
        s->next[at][FOUND] = (uint8_t)(number + 1);
}

/* Where a text goes on that left the phrase: at the longest beginning of any phrase that it ends with. States are visited
 * by their distance from the root, so that those are complete. */
static void connect_states(struct denied_scan *s)
{
        uint8_t fallback[DENIED_STATES_MAX] = { 0 }, queue[DENIED_STATES_MAX];
        size_t first = 0, count = 0;
        queue[count++] = ROOT;
        while (first < count) {
                uint8_t at = queue[first++], other = fallback[at];
                if (!s->next[at][FOUND])
                        s->next[at][FOUND] = s->next[other][FOUND];
                for (uint8_t c = 0; c < s->classes; c++) {
                        uint8_t *next = &s->next[at][c];
                        if (*next != ROOT) { /* of the tree of phrases: nothing leads back yet */
                                fallback[*next] = at == ROOT ? ROOT : s->next[other][c];
                                queue[count++] = *next;
                        } else {
                                *next = at == ROOT ? ROOT : s->next[other][c];
                        }
                }
        }
}

void denied_scan_init(struct denied_scan *s, bool is_offline)
{
        *s = (struct denied_scan){ .states = 1, .classes = 1 };
        for (size_t i = 0; i < ARRAY_LEN(phrases); i++)
                if (is_offline || !phrases[i].is_offline)
                        phrase_add(s, i);
        connect_states(s);
}

void denied_scan_reset(struct denied_scan *s)
{
        s->found = 0;
        s->at[0] = s->at[1] = s->at_both = ROOT;
}

static inline uint8_t step(struct denied_scan *s, uint8_t at, char c)
{
        uint8_t next = s->next[at][s->class_of[(unsigned char)c]];
        if (s->next[next][FOUND])
                s->found = s->next[next][FOUND];
        return next;
}

void denied_scan_feed(struct denied_scan *s, bool is_stderr, struct slice bytes)
{
        if (s->found)
                return;
        uint8_t own = s->at[is_stderr], both = s->at_both;
        size_t i = 0;
        /* Two searches that stand at the same place stay together. */
        for (; i < bytes.n && own != both; i++) {
                own = step(s, own, bytes.p[i]);
                both = step(s, both, bytes.p[i]);
        }
        bool is_one = own == both;
        for (; i < bytes.n; i++)
                own = step(s, own, bytes.p[i]);
        s->at[is_stderr] = own;
        s->at_both = is_one ? own : both;
}

bool denied_by_output(const struct denied_scan *s, int exit_code)
{
        if (exit_code == 0)
                return false;
        return s->found || exit_code == 128 + SIGSYS;
}

/* --- one line ----------------------------------------------------------------------------------------------------- */

/* What stands around a path in a message. The last row is for paths without quotes. */
static const struct mark {
        const char *before, *behind;
} marks[] = {
        { "\xe2\x80\x98", "\xe2\x80\x99" }, { "'", "'" }, { "\"", "\"" }, { "`", "'" }, { " ", ":" },
};

/* The path that begins at `at`, or an empty slice when none does. */
static struct slice path_at(struct slice line, size_t at)
{
        struct slice rest = slice_from(line.p + at, line.n - at);
        for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
                size_t n = strlen(marks[i].before);
                if (n > at || memcmp(rest.p - n, marks[i].before, n) != 0)
                        continue;
                const char *end = memmem(rest.p, rest.n, marks[i].behind, strlen(marks[i].behind));
                if (end)
                        return slice_from(rest.p, (size_t)(end - rest.p));
                return marks[i].before[0] == ' ' ? rest : S("");
        }
        return S("");
}

/* The last absolute path in the line: programs name what they could not write behind what they read, and themselves before
 * both. */
static struct slice path_in(struct slice line)
{
        for (size_t i = line.n; i-- > 0;) {
                struct slice path = line.p[i] == '/' ? path_at(line, i) : S("");
                if (path.n > 0)
                        return path;
        }
        return slice_from(NULL, 0);
}

bool denied_line_read(struct denied_scan *s, struct slice line, struct denied_line *ret)
{
        denied_scan_reset(s);
        denied_scan_feed(s, false, line);
        if (!s->found)
                return false;
        *ret = (struct denied_line){ phrases[s->found - 1].operation, path_in(line) };
        return true;
}
