/* escape_test: escapes in whole input, and in input that is split at every place. */
#include "cli/escape.h"

#include "unit.h"

/* Filters `in`, given in two pieces split at `split`. Returns the bytes for the command, with <LEAVE> and <HELP> for escapes. */
static const char *filtered(const char *in, size_t split)
{
        static char text[256];
        struct escape e = { 0 };
        size_t n = 0, total = strlen(in), at = 0;
        while (at < total) {
                size_t end = at < split ? split : total, used;
                enum escape_wish wish;
                n += escape_filter(&e, in + at, end - at, text + n, &used, &wish);
                at += used;
                const char *word = wish == ESCAPE_LEAVE ? "<LEAVE>" : wish == ESCAPE_HELP ? "<HELP>" : "";
                memcpy(text + n, word, strlen(word));
                n += strlen(word);
        }
        text[n] = '\0';
        return text;
}

TEST(escapes_are_found_at_the_beginning_of_a_line_only)
{
        static const struct {
                const char *in, *out;
        } cases[] = {
                { "~.", "<LEAVE>" },
                { "~?", "<HELP>" },
                { "a~.", "a~." },
                { "a\r~.", "a\r<LEAVE>" },
                { "a\n~?b", "a\n<HELP>b" },
                { "~~.", "~." },
                { "~a", "~a" },
                { "\r~~~", "\r~~" },
                { "~\r~.", "~\r<LEAVE>" },
                { "ab ~? c", "ab ~? c" },
                { "\033[200~a\r~.\r~~\r\033[201~~.\r~.", "\033[200~a\r~.\r~~\r\033[201~~.\r<LEAVE>" },
                { "\033[\033[200~\r~?\033[20\033[201~\r~?", "\033[\033[200~\r~?\033[20\033[201~\r<HELP>" },
                { "[200~\r~.", "[200~\r<LEAVE>" },
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                for (size_t split = 0; split <= strlen(cases[i].in); split++) {
                        print_message("%zu at %zu\n", i, split);
                        eq_str(filtered(cases[i].in, split), cases[i].out);
                }
}

TEST(without_a_terminal_nothing_is_an_escape)
{
        struct escape e = { .is_off = true };
        enum escape_wish wish;
        char out[8];
        size_t used;
        eq_u64(escape_filter(&e, "~.~?", 4, out, &used, &wish), 4);
        eq_u64(used, 4);
        eq_int(wish, ESCAPE_NONE);
}
