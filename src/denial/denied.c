/* denied: searches the output of a command for phrases of refusals.
 *
 * An automaton (Aho and Corasick) searches for all phrases at once, with one table look-up per byte. A phrase may begin in
 * one piece of output and end in another. Building the automaton takes a few microseconds, so it is not kept between
 * commands.
 *
 * Output is compared in the lower case of Unicode. There only two characters outside of ASCII become ASCII letters: U+212A
 * KELVIN SIGN becomes a `k`, so phrases with a `k` are listed twice; U+0130 (I with a dot) becomes an `i` and a combining dot,
 * which no phrase has. Bytes that are not UTF-8 interrupt a phrase, as the replacement character would.
 */
#include "denial/denied.h"

#include "base/mem.h"

#include <signal.h>

#define KELVIN "\xe2\x84\xaa"

static const struct denied_phrase phrases[] = {
        { .text = "operation not permitted", .operation = "unknown" },
        { .text = "permission denied", .operation = "unknown" },
        { .text = "read-only file system", .operation = "write" },
        { .text = "seccomp", .operation = "unknown" },
        { .text = "sandbox", .operation = "unknown" },
        { .text = "landlock", .operation = "unknown" },
        { .text = "landloc" KELVIN, .operation = "unknown" },
        { .text = "failed to write file", .operation = "write" },
        { .text = "network is unreachable", .operation = "connect", .is_offline = true },
        { .text = "networ" KELVIN " is unreachable", .operation = "connect", .is_offline = true },
        /* An empty network has no name server, and with Landlock alone there are no sockets. */
        { "temporary failure in name resolution", "connect", .is_offline = true, .is_for_lines = true,
          .is_behind_host = true },
        { "could not resolve host", "connect", .is_offline = true, .is_for_lines = true },
        { "unable to resolve host", "connect", .is_offline = true, .is_for_lines = true },
        { "couldn't connect to server", "connect", .is_offline = true, .is_for_lines = true },
        { "socket: operation not permitted", "connect", .is_offline = true, .is_for_lines = true },
};

/* The last column of a state holds the phrase that ends there. */
#define FOUND (DENIED_CLASSES_MAX - 1)
#define ROOT 0

/* Each byte of a phrase is a class of its own, upper and lower case together; class 0 holds all other bytes. */
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
        uint16_t at = ROOT;
        for (const char *text = phrases[number].text; *text; text++) {
                uint16_t *next = &s->next[at][class_add(s, (unsigned char)*text)];
                if (*next == ROOT) {
                        must(s->states < DENIED_STATES_MAX);
                        *next = s->states++;
                }
                at = *next;
        }
        s->next[at][FOUND] = (uint16_t)(number + 1);
}

/* Sets the state after a byte that does not continue a phrase: the longest beginning of any phrase that the text ends with.
 * States are visited by their distance from the root, so that the states of shorter texts are complete. */
static void connect_states(struct denied_scan *s)
{
        uint16_t fallback[DENIED_STATES_MAX] = { 0 }, queue[DENIED_STATES_MAX];
        size_t first = 0, count = 0;
        queue[count++] = ROOT;
        while (first < count) {
                uint16_t at = queue[first++], other = fallback[at];
                if (!s->next[at][FOUND])
                        s->next[at][FOUND] = s->next[other][FOUND];
                for (uint8_t c = 0; c < s->classes; c++) {
                        uint16_t *next = &s->next[at][c];
                        if (*next != ROOT) { /* an edge of phrase_add; this state has no others yet */
                                fallback[*next] = at == ROOT ? ROOT : s->next[other][c];
                                queue[count++] = *next;
                        } else {
                                *next = at == ROOT ? ROOT : s->next[other][c];
                        }
                }
        }
}

static void init(struct denied_scan *s, bool is_offline, bool is_for_lines)
{
        *s = (struct denied_scan){ .states = 1, .classes = 1 };
        for (size_t i = 0; i < ARRAY_LEN(phrases); i++)
                if (is_offline >= phrases[i].is_offline && is_for_lines >= phrases[i].is_for_lines)
                        phrase_add(s, i);
        connect_states(s);
}

void denied_scan_init(struct denied_scan *s, bool is_offline)
{
        init(s, is_offline, false);
}

void denied_scan_init_lines(struct denied_scan *s, bool is_offline)
{
        init(s, is_offline, true);
}

void denied_scan_reset(struct denied_scan *s)
{
        s->found = 0;
        s->at[0] = s->at[1] = s->at_both = ROOT;
}

static inline uint16_t step(struct denied_scan *s, uint16_t at, char c)
{
        uint16_t next = s->next[at][s->class_of[(unsigned char)c]];
        if (s->next[next][FOUND])
                s->found = (uint8_t)s->next[next][FOUND];
        return next;
}

void denied_scan_feed(struct denied_scan *s, bool is_stderr, struct slice bytes)
{
        if (s->found)
                return;
        uint16_t own = s->at[is_stderr], both = s->at_both;
        size_t i = 0;
        /* Two searches in the same state stay in the same state. */
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

const struct denied_phrase *denied_scan_phrase(const struct denied_scan *s)
{
        return s->found ? &phrases[s->found - 1] : NULL;
}
