/* shell_words_test: how lines are split into words, and how words are shown. */
#include "rules/shell_words.h"

#include "unit.h"

TEST(lines_are_split_as_a_shell_does_it)
{
        static const struct {
                const char *line, *words; /* separated by `|` */
        } table[] = {
                { "", "" },
                { " \t\n", "" },
                { "a b\tc\nd", "a|b|c|d" },
                { "a 'b c' \"d e\"", "a|b c|d e" },
                { "a'b'\"c\"d", "abcd" },
                { "'' \"\"", "|" },
                { "a\\ b \\'", "a b|'" },
                { "\"\\$\\`\\\"\\\\\\n\"", "$`\"\\\\n" },
                { "'\\n'", "\\n" },
                { "a # b", "a" },
                { "# b\nc", "c" },
                { "a#b", "a#b" },
                { "a \\\nb", "a|b" },
                { "a\\\nb", "ab" },
                { "\"a\\\nb\"", "ab" },
        };
        for (size_t i = 0; i < ARRAY_LEN(table); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct slice *words;
                size_t count;
                const char *shown = "";
                eq_int(shell_words_split(&a, slice_from_str(table[i].line), &words, &count), 0);
                for (size_t k = 0; k < count; k++)
                        shown = arena_printf(&a, "%s%s%.*s", shown, k > 0 ? "|" : "", SLICE(words[k]));
                eq_str(shown, table[i].words);
        }
}

TEST(what_does_not_end_is_refused)
{
        static const char *const lines[] = { "'a", "\"a", "a\\", "\"a\\" };

        for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct slice *words;
                size_t count;
                ok(shell_words_split(&a, slice_from_str(lines[i]), &words, &count) < 0);
        }
}

TEST(words_are_shown_so_that_a_shell_would_read_them_again)
{
        _arena_ struct arena a = ARENA_INIT;
        const struct slice words[] = {
                S("git"), S("a b"), S(""), S("it's"), S("$x"), S("\xc3\xa9"), S("\x1b")
        };

        eq_str(shell_words_show(&a, words, ARRAY_LEN(words)),
               "git 'a b' '' 'it'\\''s' '$x' \xc3\xa9 '\\x1b'");
        char long_word[1000];
        memset(long_word, 'a', sizeof(long_word));
        const struct slice one = slice_from(long_word, sizeof(long_word));
        ok(strlen(shell_words_show(&a, &one, 1)) < 500);
}
