/* reach_judge_test: what a reach says about a path. */
#include "reach/reach.h"

#include "unit.h"

#include <errno.h>
#include <stdio.h>

static bool is_key(UNUSED void *arg, struct slice path)
{
        return path.n > 4 && memcmp(path.p + path.n - 4, ".key", 4) == 0;
}

static struct slice key_pattern(void *arg, struct slice path)
{
        return is_key(arg, path) ? S("**/*.key") : S("");
}

static const struct reach_point points[] = {
        { { "/w", 2 }, REACH_WRITE, true, REACH_RULE_ENTRY },
        { { "/w/.git", 7 }, REACH_COVER, true, REACH_RULE_PROTECTED },
        { { "/w/file", 7 }, REACH_COVER, false, REACH_RULE_PROTECTED },
        { { "/w/none", 7 }, REACH_HIDE, true, REACH_RULE_ENTRY },
        { { "/w/none/some", 12 }, REACH_READ, true, REACH_RULE_ENTRY },
        { { "/w/pin", 6 }, REACH_WRITE, true, REACH_RULE_BELOW },
        { { "/w/pin/ro", 9 }, REACH_READ, true, REACH_RULE_ENTRY },
        { { "/w/secret", 9 }, REACH_HIDE, false, REACH_RULE_PATTERN },
        { { "/x", 2 }, REACH_PASS, true, REACH_RULE_OWN },
};
static const struct reach some = {
        .root = REACH_READ, .root_rule = REACH_RULE_OUTSIDE, .points = points, .count = ARRAY_LEN(points)
};
static const struct reach keyed = { .root = REACH_READ,
                                    .root_rule = REACH_RULE_OUTSIDE,
                                    .points = points,
                                    .count = ARRAY_LEN(points),
                                    .is_denied = is_key,
                                    .denied_by = key_pattern };

TEST(the_deepest_point_decides)
{
        eq_int(reach_judge(&some, REACH_PUT, S("/etc/passwd")), -EROFS);
        eq_int(reach_judge(&some, REACH_GET, S("/etc/passwd")), 0);
        eq_int(reach_judge(&some, REACH_PUT, S("/w/a")), 0);
        eq_int(reach_judge(&some, REACH_PUT, S("/ww")), -EROFS);
        eq_int(reach_judge(&some, REACH_PUT, S("/w/pin/ro/a")), -EROFS);
        eq_int(reach_judge(&some, REACH_GET, S("/w/none")), -EACCES);
        eq_int(reach_judge(&some, REACH_GET, S("/w/none/a")), -EACCES);
        eq_int(reach_judge(&some, REACH_GET, S("/w/none/some/a")), 0);
        eq_int(reach_judge(&some, REACH_PUT, S("/w/none/some/a")), -EROFS);
        eq_int(reach_judge(&some, REACH_SEARCH, S("/w/none")), -EACCES);
        eq_int(reach_judge(&some, REACH_SEARCH, S("/x")), 0);
        eq_int(reach_judge(&some, REACH_GET, S("/x")), -EACCES);
        eq_int(reach_judge(&some, REACH_GET, S("/x/beside")), -ENOENT);
        eq_int(reach_judge(&some, REACH_MAKE, S("/x/beside")), -EROFS);
        eq_int(reach_judge(&some, REACH_PUT, S("/w/none")), -EACCES);
        eq_int(reach_judge(&some, REACH_PUT, S("/w/secret")), -EROFS);
        eq_int(reach_judge(&some, REACH_SEARCH, S("/w/secret")), -ENOTDIR);
}

TEST(a_point_stays_where_it_is)
{
        eq_int(reach_judge(&some, REACH_UNMAKE, S("/w/pin")), -EBUSY);
        eq_int(reach_judge(&some, REACH_UNMAKE, S("/w/pin/ro")), -EBUSY);
        eq_int(reach_judge(&some, REACH_UNMAKE, S("/w/none")), -EBUSY);
        eq_int(reach_judge(&some, REACH_UNMAKE, S("/w")), -EROFS);
        eq_int(reach_judge(&some, REACH_UNMAKE, S("/w/a")), 0);
        eq_int(reach_judge(&some, REACH_UNMAKE, S("/w/pin/a")), 0);
        eq_int(reach_judge(&some, REACH_UNMAKE, S("/w/none/a")), -EACCES);
        eq_int(reach_judge(&some, REACH_UNMAKE, S("/w/pin/ro/a")), -EROFS);
}

TEST(what_must_not_come_into_being_does_not)
{
        eq_int(reach_judge(&some, REACH_MAKE, S("/w/.git")), -EEXIST);
        eq_int(reach_judge(&some, REACH_MAKE, S("/w/.git/a")), -EROFS);
        eq_int(reach_judge(&some, REACH_PUT, S("/w/.git")), -EISDIR);
        eq_int(reach_judge(&some, REACH_PUT, S("/w/file")), -EROFS);
        eq_int(reach_judge(&some, REACH_MAKE, S("/w/new")), 0);
        eq_int(reach_judge(&some, REACH_MAKE, S("/new")), -EROFS);
}

TEST(a_pattern_holds_for_what_is_not_there_yet)
{
        eq_int(reach_judge(&keyed, REACH_MAKE, S("/w/a.key")), -EACCES);
        eq_int(reach_judge(&keyed, REACH_GET, S("/w/a.key")), -EACCES);
        eq_int(reach_judge(&keyed, REACH_GET, S("/w/a.key/below")), -EACCES);
        eq_int(reach_judge(&keyed, REACH_UNMAKE, S("/w/a.key")), -EACCES);
        eq_int(reach_judge(&keyed, REACH_MAKE, S("/w/a")), 0);
}

/* ---- explaining */

static const char *const words[] = { "no entry",  "read-only", "outside", "entry",
                                     "protected", "pattern",   "own" };

static const char *text_of(bool is_explained, struct reach_reason reason)
{
        static char text[128];
        if (!is_explained)
                return "-";
        ok(reason.rule < ARRAY_LEN(words));
        (void)snprintf(text, sizeof(text), "%s%s%.*s", words[reason.rule], reason.entry.n > 0 ? " " : "",
                       SLICE(reason.entry));
        return text;
}

static const char *why(const struct reach *reach, enum reach_deed deed, const char *path)
{
        struct reach_reason reason = { 0 };
        bool is_explained = reach_explain(reach, deed, slice_from_str(path), &reason);
        return text_of(is_explained, reason);
}

static const char *why_missing(const struct reach *reach, const char *path)
{
        struct reach_reason reason = { 0 };
        bool is_explained = reach_explain_missing(reach, slice_from_str(path), &reason);
        return text_of(is_explained, reason);
}

TEST(a_refusal_has_the_rule_of_what_decided)
{
        eq_str(why(&some, REACH_PUT, "/etc/passwd"), "outside");
        eq_str(why(&some, REACH_GET, "/etc/passwd"), "-");
        eq_str(why(&some, REACH_PUT, "/w/a"), "-");
        eq_str(why(&some, REACH_PUT, "/w/pin/ro/a"), "entry /w/pin/ro");
        eq_str(why(&some, REACH_GET, "/w/none/a"), "entry /w/none");
        eq_str(why(&some, REACH_PUT, "/w/.git"), "protected /w/.git");
        eq_str(why(&some, REACH_MAKE, "/w/.git/a"), "protected /w/.git");
        eq_str(why(&some, REACH_GET, "/w/secret"), "pattern");
        eq_str(why(&some, REACH_SEARCH, "/w/secret"), "pattern");
        eq_str(why(&some, REACH_GET, "/x/beside"), "own");
        eq_str(why(&some, REACH_PUT, "/proc/sys/kernel/x"), "own");
        eq_str(why(&some, REACH_PUT, "/process"), "outside");
        eq_str(why(&some, REACH_UNMAKE, "/w"), "outside");
}

TEST(a_pin_has_the_rule_of_what_it_pins)
{
        eq_str(why(&some, REACH_UNMAKE, "/w/pin"), "entry /w/pin/ro");
        eq_str(why(&some, REACH_UNMAKE, "/w/pin/ro"), "entry /w/pin/ro");
}

/* A name that sorts between a pin and what is below it. */
TEST(the_neighbour_of_a_pin_is_not_below_it)
{
        static const struct reach_point list[] = {
                { { "/w", 2 }, REACH_WRITE, true, REACH_RULE_ENTRY },
                { { "/w/p", 4 }, REACH_WRITE, true, REACH_RULE_BELOW },
                { { "/w/p-q", 6 }, REACH_READ, true, REACH_RULE_ENTRY },
                { { "/w/p/s", 6 }, REACH_HIDE, true, REACH_RULE_PROTECTED },
                { { "/w/pq", 5 }, REACH_READ, true, REACH_RULE_ENTRY },
        };
        const struct reach reach = { .root = REACH_READ, .points = list, .count = ARRAY_LEN(list) };
        eq_str(why(&reach, REACH_UNMAKE, "/w/p"), "protected /w/p/s");
}

TEST(a_way_has_the_rule_of_what_is_above_it)
{
        static const struct reach_point list[] = {
                { { "/a", 2 }, REACH_PASS, true, REACH_RULE_ENTRY },
                { { "/a/b", 4 }, REACH_PASS, true, REACH_RULE_ABOVE },
                { { "/a/b/c", 6 }, REACH_READ, true, REACH_RULE_ENTRY },
                { { "/z", 2 }, REACH_PASS, true, REACH_RULE_ABOVE },
        };
        const struct reach reach = {
                .root = REACH_HIDE, .root_rule = REACH_RULE_NO_ENTRY, .points = list, .count = ARRAY_LEN(list)
        };
        eq_str(why(&reach, REACH_GET, "/a/b/x"), "entry /a");
        eq_str(why(&reach, REACH_PUT, "/a/b/c/x"), "entry /a/b/c");
        eq_str(why(&reach, REACH_GET, "/z/x"), "no entry");
        eq_str(why(&reach, REACH_GET, "/y"), "no entry");
}

TEST(a_pattern_is_named)
{
        eq_str(why(&keyed, REACH_GET, "/w/a.key/below"), "pattern **/*.key");
        eq_str(why(&keyed, REACH_MAKE, "/w/a.key"), "pattern **/*.key");
        /* Denied without a pattern: a process. */
        struct reach processes = keyed;
        processes.denied_by = NULL;
        eq_str(why(&processes, REACH_GET, "/proc/1.key"), "own");
}

/* Making a name that exists, where the rules show it, fails without the rules too: that is no refusal. */
TEST(what_exists_anyway_is_no_refusal)
{
        eq_int(reach_judge(&some, REACH_MAKE, S("/w/pin")), -EEXIST);
        eq_str(why(&some, REACH_MAKE, "/w/pin"), "-");
        eq_str(why(&some, REACH_MAKE, "/w/.git"), "protected /w/.git");
        eq_str(why(&some, REACH_MAKE, "/w/none"), "entry /w/none");
}

TEST(what_a_view_lacks_is_explained_whether_it_exists_or_not)
{
        struct reach narrow = some;
        narrow.root_rule = REACH_RULE_NO_ENTRY;
        narrow.lacks_unlisted = narrow.has_own_dev = true;
        eq_str(why_missing(&narrow, "/home/me"), "no entry");
        eq_str(why_missing(&narrow, "/w/none-such"), "-");
        eq_str(why_missing(&narrow, "/dev/sda"), "own");
        eq_str(why_missing(&narrow, "/proc/none-such"), "-");
        struct reach wide = some;
        wide.has_own_dev = true;
        eq_str(why_missing(&wide, "/home/me"), "-");
        eq_str(why_missing(&wide, "/dev/sda"), "own");
        eq_str(why_missing(&wide, "/x/beside"), "own");
        eq_str(why_missing(&keyed, "/w/a.key"), "pattern **/*.key");
}
