/* denied_test: phrases of refusals are found in pieces of output. session/task_denied_test.c runs the vectors of
 * denials. */
#include "unit.h"

#include "denial/denied.h"

static bool finds(bool is_offline, struct slice text)
{
        struct denied_scan s;
        denied_scan_init(&s, is_offline);
        denied_scan_feed(&s, false, text);
        return denied_by_output(&s, 1);
}

TEST(each_phrase_is_found_in_any_case_and_anywhere)
{
        static const struct {
                struct slice text;
                bool is_found, is_found_offline;
        } rows[] = {
                { S("Operation not permitted"), true, true },
                { S("x: PERMISSION DENIED\n"), true, true },
                { S("read-only file system"), true, true },
                { S("bad SecComp filter"), true, true },
                { S("unsandboxed"), true, true },
                { S("landlock"), true, true },
                { S("Failed to write file '/x'"), true, true },
                { S("connect: Network is unreachable"), false, true },
                { S("seseccomp"), true, true },
                { S("permission operation not permitted"), true, true },
                { S("permpermission denied"), true, true },
                { S("landlandlock"), true, true },
                { S("nul\0permission denied"), true, true },
                { S("\xff\xfepermission denied\xff"), true, true },
                { S("permission  denied"), false, false },
                { S("permission\ndenied"), false, false },
                { S("permission deni"), false, false },
                { S("read only file system"), false, false },
                { S("EPERM EACCES EROFS"), false, false },
                { S(""), false, false },
                { S("perm\xffission denied"), false, false },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                eq_int(finds(false, rows[i].text), rows[i].is_found);
                eq_int(finds(true, rows[i].text), rows[i].is_found_offline);
        }
}

TEST(what_unicode_lower_cases_to_a_letter_is_one)
{
        ok(finds(false, S("LANDLOC\xe2\x84\xaa")));
        ok(finds(true, S("Networ\xe2\x84\xaa is unreachable")));
        ok(!finds(false, S("Networ\xe2\x84\xaa is unreachable")));
        ok(!finds(false, S("landloc\xe2\x84\xab")));      /* the angstrom sign */
        ok(!finds(false, S("perm\xc4\xb0ssion denied"))); /* in lower case an i and a combining dot */
        ok(!finds(false, S("\xef\xbd\x8c"
                           "andlock")));                  /* a full-width l */
        ok(!finds(false, S("perm\xc4\xb1ssion denied"))); /* the dotless i is lower case already */
        ok(!finds(false, S("\xc5\xbf"                     /* the long s is lower case already */
                           "andbox")));
}

TEST(a_phrase_is_found_however_the_output_is_cut)
{
        static const struct slice texts[] = { { "xx perMISSION denied", 20 }, { "landloc\xe2\x84\xaa", 10 } };
        for (size_t i = 0; i < ARRAY_LEN(texts); i++)
                for (size_t cut = 0; cut <= texts[i].n; cut++) {
                        struct denied_scan s;
                        denied_scan_init(&s, false);
                        denied_scan_feed(&s, true, slice_from(texts[i].p, cut));
                        eq_int(denied_by_output(&s, 1), cut == texts[i].n);
                        denied_scan_feed(&s, true, slice_from(texts[i].p + cut, texts[i].n - cut));
                        ok(denied_by_output(&s, 1));
                }
}

TEST(a_phrase_in_one_stream_is_found_through_the_other)
{
        struct denied_scan s;
        denied_scan_init(&s, false);
        denied_scan_feed(&s, false, S("permission d"));
        denied_scan_feed(&s, true, S("warning\n"));
        ok(!denied_by_output(&s, 1));
        denied_scan_feed(&s, false, S("enied"));
        ok(denied_by_output(&s, 1));
}

TEST(a_phrase_over_both_streams_is_found_in_the_order_of_arrival)
{
        struct denied_scan s;
        denied_scan_init(&s, false);
        denied_scan_feed(&s, false, S("permission "));
        denied_scan_feed(&s, true, S("denied"));
        ok(denied_by_output(&s, 1));

        denied_scan_init(&s, false);
        denied_scan_feed(&s, true, S("denied"));
        denied_scan_feed(&s, false, S("permission "));
        ok(!denied_by_output(&s, 1));
}

TEST(the_exit_code_decides_what_the_text_means)
{
        struct denied_scan found, silent;
        denied_scan_init(&found, false);
        denied_scan_feed(&found, true, S("sandbox"));
        denied_scan_init(&silent, false);
        ok(!denied_by_output(&found, 0) && !denied_by_output(&silent, 0));
        static const int codes[] = { 1, 2, 31, 126, 127, 137, 255, -1 };
        for (size_t i = 0; i < ARRAY_LEN(codes); i++)
                ok(denied_by_output(&found, codes[i]) && !denied_by_output(&silent, codes[i]));
        ok(denied_by_output(&silent, 159)); /* 128 + SIGSYS */
}

/* Searches for three phrases without the automaton, to compare the results. */
static bool finds_plainly(const char *text, size_t n)
{
        static const struct slice needles[] = { { "seccomp", 7 }, { "sandbox", 7 }, { "landlock", 8 } };
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < ARRAY_LEN(needles); k++)
                        if (n - i >= needles[k].n && memcmp(text + i, needles[k].p, needles[k].n) == 0)
                                return true;
        return false;
}

TEST(nearly_phrases_are_told_apart)
{
        static const char pieces[][8] = { "se",  "c",  "comp", "sand", "box", "lan",
                                          "dlo", "ck", "land", "lock", " " };
        uint64_t seed = 5;
        size_t found = 0;
        for (int round = 0; round < 20000; round++) {
                char text[64];
                size_t n = 0;
                while (n < 40) {
                        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
                        const char *piece = pieces[(seed >> 33) % ARRAY_LEN(pieces)];
                        memcpy(text + n, piece, strlen(piece));
                        n += strlen(piece);
                }
                bool is_found = finds_plainly(text, n);
                found += is_found;
                eq_int(finds(false, slice_from(text, n)), is_found);
        }
        ok(found > 1000 && found < 19000);
}
