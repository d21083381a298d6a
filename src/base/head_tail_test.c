/* head_tail_test: which bytes of a long output are kept. */
#include "base/head_tail.h"

#include "base/mem.h"
#include "unit.h"

/* Returns the kept bytes as "HEAD|TAIL-N", where N bytes are missing between head and tail. */
static const char *taken(struct head_tail *h)
{
        static char text[256];
        size_t n, head;
        uint64_t omitted;
        _free_ char *bytes = head_tail_take(h, &n, &head, &omitted);
        (void)snprintf(text, sizeof(text), "%.*s|%s-%d", (int)head, bytes, bytes + head, (int)omitted);
        eq_u64(strlen(bytes), n);
        return text;
}

TEST(both_ends_of_a_long_output_are_kept_however_it_is_cut)
{
        static const char text[] = "0123456789abcdefghijklmnopqrstuvwxyz";
        for (size_t piece = 1; piece < sizeof(text); piece++) {
                struct head_tail h;
                head_tail_init(&h, 7);
                for (size_t at = 0; at < sizeof(text) - 1; at += piece)
                        head_tail_put(&h, slice_from(text + at, MIN(piece, sizeof(text) - 1 - at)));
                eq_str(taken(&h), "012|wxyz-29");
                eq_str(taken(&h), "|-0");
                head_tail_release(&h);
        }
}

TEST(a_short_output_is_kept_whole_and_taken_once)
{
        struct head_tail h;
        head_tail_init(&h, 8);
        head_tail_put(&h, S("abc"));
        eq_str(taken(&h), "abc|-0");
        head_tail_put(&h, S("defghijk"));
        eq_str(taken(&h), "defg|hijk-0");
        head_tail_put(&h, S(""));
        eq_str(taken(&h), "|-0");
        head_tail_release(&h);
}

TEST(what_is_missing_makes_the_one_seam)
{
        struct head_tail h;
        head_tail_init(&h, 8);
        head_tail_put(&h, S("ab"));
        head_tail_skip(&h, 100);
        head_tail_put(&h, S("cd"));
        eq_str(taken(&h), "ab|cd-100");
        head_tail_put(&h, S("abcdefg"));
        head_tail_skip(&h, 10);
        head_tail_put(&h, S("x"));
        head_tail_skip(&h, 1);
        head_tail_put(&h, S("yz"));
        eq_str(taken(&h), "abcd|yz-15");
        head_tail_put(&h, S("abc"));
        eq_str(taken(&h), "abc|-0");
        size_t n, head;
        uint64_t omitted;
        head_tail_skip(&h, UINT64_MAX);
        head_tail_skip(&h, UINT64_MAX);
        head_tail_put(&h, S("a longer text than there is room for"));
        free(head_tail_take(&h, &n, &head, &omitted));
        eq_u64(omitted, UINT64_MAX);
        head_tail_release(&h);
}
