/* diff: shows on stdout what is changed in a configuration. Our changes lie close together, so what is equal at both ends is left out, and
 * the rest is one piece. */
#include "install/diff.h"

#include "base/arena.h"
#include "base/printable.h"

#include <stdio.h>

#define CONTEXT_LINES 2
#define LINE_BYTES 160  /* how much of a line is shown */
#define BEFORE_BYTES 40 /* how much of a longer line is shown before the first difference */

static size_t common_start(struct slice a, struct slice b)
{
        size_t n = MIN(a.n, b.n), i = 0;
        while (i < n && a.p[i] == b.p[i])
                i++;
        return i;
}

static size_t common_end(struct slice a, struct slice b, size_t start)
{
        size_t n = MIN(a.n, b.n) - start, i = 0;
        while (i < n && a.p[a.n - 1 - i] == b.p[b.n - 1 - i])
                i++;
        return i;
}

/* Returns the offset of the beginning of the line that holds offset `i`, or of the line that is `before` lines before that. */
static size_t line_start(struct slice s, size_t i, unsigned before)
{
        for (;; i--) {
                while (i > 0 && s.p[i - 1] != '\n')
                        i--;
                if (i == 0 || before-- == 0)
                        return i;
        }
}

/* Returns the offset behind the end of the line that holds offset `i`, or of the line that is `more` lines after that. */
static size_t line_end(struct slice s, size_t i, unsigned more)
{
        for (;;) {
                while (i < s.n && s.p[i] != '\n')
                        i++;
                i += i < s.n;
                if (i == s.n || more-- == 0)
                        return i;
        }
}

/* Prints a line. `from` is where the two texts begin to differ: bytes far before that are left out. */
static void print_line(char sign, struct slice line, size_t from)
{
        _arena_ struct arena a = ARENA_INIT;
        size_t start = line.n > LINE_BYTES && from > BEFORE_BYTES ? from - BEFORE_BYTES : 0;

        start = MIN(start, line.n);
        while (start > 0 && start < line.n && ((uint8_t)line.p[start] & 0xc0) == 0x80)
                start++;
        if (line.n > 0 && line.p[line.n - 1] == '\r')
                line.n--;
        struct slice rest = slice_from(line.p + start, line.n > start ? line.n - start : 0);
        size_t shown = MIN(rest.n, (size_t)LINE_BYTES);
        while (shown < rest.n && ((uint8_t)rest.p[shown] & 0xc0) == 0x80)
                shown++;
        printf("%c %s%s%s\n", sign, start > 0 ? "…" : "", printable_text(&a, slice_from(rest.p, shown)),
               shown < rest.n ? "…" : "");
}

/* Prints the lines of [from, to). */
static void print_lines(char sign, struct slice s, size_t from, size_t to, size_t differs)
{
        while (from < to) {
                size_t end = line_end(s, from, 0);
                bool has_newline = s.p[end - 1] == '\n';
                print_line(sign, slice_from(s.p + from, end - from - has_newline),
                           differs > from ? differs - from : 0);
                from = end;
        }
}

void diff_print(struct slice old, struct slice new)
{
        size_t start = common_start(old, new), end = common_end(old, new, start);
        size_t first = line_start(old, start, 0), context = line_start(old, start, CONTEXT_LINES);

        /* Where the equal ends begin with a line, that line is no part of the difference. */
        size_t old_last = old.n - end, new_last = new.n - end;
        bool is_whole = (old_last == 0 || old.p[old_last - 1] == '\n') &&
                        (new_last == 0 || new.p[new_last - 1] == '\n');
        size_t old_to = is_whole ? old_last : line_end(old, old_last, 0);
        size_t new_to = is_whole ? new_last : line_end(new, new_last, 0);

        print_lines(' ', old, context, first, 0);
        print_lines('-', old, first, old_to, start);
        print_lines('+', new, first, new_to, start);
        if (old_to < old.n)
                print_lines(' ', old, old_to, line_end(old, old_to, CONTEXT_LINES - 1), 0);
}
