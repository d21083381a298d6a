/* denials_test: denials are collected from pieces of output, each once and within the limits. */
#include "unit.h"

#include "denial/denials.h"

static void feed(struct denials *d, const char *text)
{
        denials_feed(d, true, slice_from_str(text));
}

TEST(names_are_paths_below_the_working_directory)
{
        struct denials d;
        denials_init(&d, false, S("/w/sub"));
        feed(&d, "touch: cannot touch 'a': Read-only file system\ntouch: cannot touch './a': Read-only file "
                 "system\n"
                 "touch: cannot touch '../b//c': Read-only file system\n"
                 "touch: cannot touch '/w/sub/./a': Read-only file system");
        denials_end(&d);
        eq_u64(d.count, 2);
        eq_slice(d.list[0].path, S("/w/sub/a"));
        eq_slice(d.list[1].path, S("/w/b/c"));
        denials_release(&d);
}

TEST(without_a_working_directory_names_say_nothing_and_paths_stay_as_they_are)
{
        struct denials d;
        denials_init(&d, false, slice_from(NULL, 0));
        feed(&d, "touch: cannot touch 'a': Read-only file system\ntouch: cannot touch '/w/./a': Read-only "
                 "file system\n"
                 "touch: cannot touch 'b': Read-only file system\n");
        eq_u64(d.count, 2);
        ok(!d.list[0].path.p);
        eq_slice(d.list[1].path, S("/w/./a"));
        denials_release(&d);
}

TEST(addresses_are_told_once_each)
{
        struct denials d;
        denials_init(&d, true, S("/"));
        for (int i = 0; i < 2; i++)
                feed(&d, "ssh: connect to host ::1 port 22: Network is unreachable\n"
                         "ssh: connect to host h port 22: Network is unreachable\nconnect: Network is "
                         "unreachable\n");
        eq_u64(d.count, 3);
        eq_slice(d.list[0].address, S("[::1]:22"));
        eq_slice(d.list[1].address, S("h:22"));
        ok(!d.list[2].address.p);
        denials_release(&d);
}

TEST(a_list_that_is_full_says_so)
{
        struct denials d;
        char line[64];
        denials_init(&d, false, S("/"));
        for (size_t i = 0; i <= DENIALS_MAX; i++) {
                ok(!d.has_more);
                (void)snprintf(line, sizeof(line), "cat: f%zu: Permission denied\n", i);
                feed(&d, line);
        }
        ok(d.has_more);
        eq_u64(d.count, DENIALS_MAX);
        denials_release(&d);
}

TEST(long_names_and_names_with_nuls_are_left_out)
{
        struct denials d;
        char line[1024];
        denials_init(&d, false, S("/w"));
        memset(line, 'a', sizeof(line));
        memcpy(line, "cat: ", 5);
        memcpy(line + 600, ": Permission denied\n", 21);
        feed(&d, line);
        denials_feed(&d, true, S("cat: a\0b: Permission denied\n"));
        eq_u64(d.count, 1);
        ok(!d.list[0].path.p);
        denials_release(&d);
}

TEST(a_line_is_read_however_it_is_cut)
{
        static const char text[] = "x\ncat: a: Permission denied\n";
        for (size_t cut = 0; cut < sizeof(text); cut++) {
                struct denials d;
                denials_init(&d, false, S("/w"));
                denials_feed(&d, true, slice_from(text, cut));
                denials_feed(&d, false, S("y")); /* another stream */
                denials_feed(&d, true, slice_from(text + cut, sizeof(text) - 1 - cut));
                denials_end(&d);
                eq_u64(d.count, 1);
                eq_slice(d.list[0].path, S("/w/a"));
                denials_release(&d);
        }
}
