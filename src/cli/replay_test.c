/* replay_test: questions are taken out and all other bytes stay, wherever the input is split. */
#include "cli/replay.h"

#include "unit.h"

#define BYTES 2048

/* Filters `in`, given in two pieces split at `split`. Copies the result, and the bytes that are held at the end, to `out`. */
static size_t filtered(const char *in, size_t total, size_t split, char *out)
{
        struct replay r = { 0 };
        size_t n = replay_filter(&r, in, split, out);
        n += replay_filter(&r, in + split, total - split, out + n);
        memcpy(out + n, r.held, r.n);
        return n + r.n;
}

static void check(const char *in, size_t total, const char *want, size_t n)
{
        char out[BYTES + REPLAY_HELD_MAX];
        for (size_t split = 0; split <= total; split++) {
                print_message("%.*s at %zu\n", (int)MIN(total, 40U), in, split);
                eq_u64(filtered(in, total, split, out), n);
                ok(memcmp(out, want, n) == 0);
        }
}

TEST(questions_are_taken_out)
{
        static const char *const questions[] = {
                "\033[c",
                "\033[0c",
                "\033[>c",
                "\033[=c",
                "\033[5n",
                "\033[6n",
                "\033[?6n",
                "\033[?996n",
                "\033[14t",
                "\033[18t",
                "\033[21t",
                "\033[?2026$p",
                "\033[4$p",
                "\033[>q",
                "\033[>0q",
                "\033[x",
                "\033[?u",
                "\033[1$w",
                "\033[?1;1;0S",
                "\033[1;1;1;1;9;9*y",
                "\033]10;?\007",
                "\033]11;?\033\\",
                "\033]4;1;?\007",
                "\033]52;c;?\007",
                "\033P$qm\033\\",
                "\033P+q544e\033\\",
                "\033_Ga=q,i=1;AAAA\033\\",
                "\033Z",
                "\005",
        };
        for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
                char in[BYTES];
                int n = snprintf(in, sizeof(in), "a%sb", questions[i]);
                check(in, (size_t)n, "ab", 2);
        }
}

TEST(everything_else_stays)
{
        static const char *const others[] = {
                "a\033[1;31mred\033[0m\r\n\tb\007",
                "a\033[2J\033[H\033[?1049h\033[?2004h\033[?25l\033(B\033=\0337\0338",
                "a\033[22;0;0t\033[8;24;80t\033[2S\033[4 q\033[!p\033[>4;1m\033[>4n\033[?6c\033[u",
                "a\033]0;what? a title\007\033]8;;http://x/?q\033\\link\033]4;1;#ff0000\007",
                "a\033[61\"p\033[1;1;9;9$x\033[#p\033[2*x\033[1;2;3;4;5;6;7;8$v",
                "a\033P1;1qsixel\033\\b",
                "a\033\033[1mb",
                "a\033[1\033[2mb",
                "a\033]0;cut\033[1mb",
                "a\033[12",
                "a\033]11;",
                "a\033[6\030n",
                "a\303\244\377\033[\200mb",
        };
        for (size_t i = 0; i < ARRAY_LEN(others); i++)
                check(others[i], strlen(others[i]), others[i], strlen(others[i]));
}

TEST(a_question_behind_a_sequence_that_was_cut_is_one)
{
        check("a\033]0;cut\033[6nb", 13, "a\033]0;cutb", 9);
        check("a\033[1\033[cb", 8, "a\033[1b", 5);
}

TEST(a_long_sequence_is_no_question)
{
        char in[BYTES];
        memset(in, 'x', sizeof(in));
        memcpy(in, "a\033]52;c;?", 9);
        in[sizeof(in) - 2] = '\007';
        check(in, sizeof(in), in, sizeof(in));
}
