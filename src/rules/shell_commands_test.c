/* shell_commands_test: which commands are found in the text of a script. */
#include "rules/shell_commands.h"

#include "base/buf.h"

#include "unit.h"

struct found {
        struct buf text;
        size_t count, last; /* end at the command of this number; 0: never */
};

static bool on_found(void *arg, const struct slice *words, size_t count)
{
        struct found *f = arg;

        for (size_t i = 0; i < count; i++)
                assert_int_equal(buf_printf(&f->text, "%s%.*s", i > 0 ? "|" : "", SLICE(words[i])), 0);
        assert_int_equal(buf_append_char(&f->text, ';'), 0);
        return ++f->count == f->last;
}

TEST(literal_commands_are_found_wherever_they_stand)
{
        static const struct {
                const char *script, *commands;
        } table[] = {
                { "", "" },
                { "a b", "a|b;" },
                { "a;b&c&&d||e|f\ng", "a;b;c;d;e;f;g;" },
                { "a 'b c' \"d\"e f\\ g", "a|b c|de|f g;" },
                { "\\rm 'r'm", "rm|rm;" },
                { "a # b; c\nd", "a;d;" },
                { "a#b", "a#b;" },
                { "a \\\n b", "a|b;" },
                { "X=1 Y='2 3' a b", "a|b;" },
                { "X=1", "" },
                { "a X=1", "a|X=1;" },
                { "a[0]=1 b", "b;" },
                { "if a; then b; elif c; then d; else e; fi", "a;b;c;d;e;fi;" },
                { "while ! a; do b; done", "a;b;done;" },
                { "for x in a b; do c \"$x\"; done", "for|x|in|a|b;c;done;" },
                { "case $x in a) b;; *) c;; esac", "case|in|a;b;*;c;esac;" },
                { "(a; b) | { c; }", "a;b;c;" },
                { "f() { a; }; function g { b; }", "f;a;function|g;b;" },
                { "a >b 2>&1 <c >>d &>e f", "a|2|f;" },
                { "a <<<b c", "a|c;" },
                { "a <(b c) >(d)", "b|c;d;a;" },
                /* words that the shell computes are left out; commands in them are found */
                { "a $x ${y} b", "y;a|b;" },
                { "$x a", "" },
                { "\"$x\" a", "" },
                { "a $(b c) `d e` f", "b|c;d|e;a|f;" },
                { "a \"x $(b \"c d\") y\" z", "b|c d;a|z;" },
                { "a '$(b)' \"\\$(c)\"", "a|$(b)|$(c);" },
                { "a ${x:-$(b c)}", "b|c;a;" },
                { "a $", "a|$;" },
                /* here-documents */
                { "a <<E b\nc d\nE\nf", "a|b;f;" },
                { "a <<E\n$(c d) `e`\nE\nf", "a;c|d;e;f;" },
                { "a <<'E'\n$(c d)\nE\nf", "a;f;" },
                { "a <<-E\n\tc\n\tE\nf", "a;f;" },
                { "a <<X <<Y\nx\nX\ny\nY\nf", "a;f;" },
                { "a <<E\nnever ends", "a;" },
                /* mistakes */
                { "a 'b c", "a|b c;" },
                { "a \"$(b", "b;a;" },
                { "a `b", "b;a;" },
                { "if then a b", "a|b;" },
                { ") a ;; b", "a;b;" },
                { "a \\", "a|;" },
        };
        for (size_t i = 0; i < ARRAY_LEN(table); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct found f = { .text = BUF_INIT(1000) };
                ok(!shell_commands_any(&a, slice_from_str(table[i].script), on_found, &f));
                eq_str(f.text.p, table[i].commands);
                buf_release(&f.text);
        }
}

TEST(the_search_ends_when_it_is_told_to)
{
        _arena_ struct arena a = ARENA_INIT;
        struct found f = { .text = BUF_INIT(1000), .last = 2 };

        ok(shell_commands_any(&a, S("a $(b $(c)); d"), on_found, &f));
        eq_str(f.text.p, "c;b;");
        buf_release(&f.text);
}

TEST(deep_nesting_ends_the_search)
{
        for (int depth = SHELL_NESTING_MAX; depth <= SHELL_NESTING_MAX + 1; depth++) {
                _arena_ struct arena a = ARENA_INIT;
                _buf_ struct buf text = BUF_INIT(1000);
                struct found f = { .text = BUF_INIT(1000) };
                for (int i = 0; i < depth; i++)
                        assert_int_equal(buf_append(&text, S("$(")), 0);
                eq_int(shell_commands_any(&a, buf_slice(&text), on_found, &f), depth > SHELL_NESTING_MAX);
                buf_release(&f.text);
        }
}

TEST(every_truncation_is_read)
{
        static const struct slice text = S("X=1 a \"$(b `c` ${d:-$(e)})\" <<'E' | f >g 2>&1 <(h); if i; then "
                                           "{ j; }; fi # k\nbody\nE\n\\l 'm");

        for (size_t n = 0; n <= text.n; n++) {
                _arena_ struct arena a = ARENA_INIT;
                struct found f = { .text = BUF_INIT(1000) };
                /* A copy of the exact size: sanitizers see a read behind it. */
                char *copy = n > 0 ? memcpy(malloc(n), text.p, n) : NULL;
                ok(!shell_commands_any(&a, slice_from(copy, n), on_found, &f));
                free(copy);
                buf_release(&f.text);
        }
}
