/* reach_judge_test: what a reach says about a path. */
#include "reach/reach.h"

#include "unit.h"

#include <errno.h>

static bool is_key(UNUSED void *arg, struct slice path)
{
        return path.n > 4 && memcmp(path.p + path.n - 4, ".key", 4) == 0;
}

static const struct reach_point points[] = {
        { { "/w", 2 }, REACH_WRITE, true },
        { { "/w/.git", 7 }, REACH_COVER, true },
        { { "/w/file", 7 }, REACH_COVER, false },
        { { "/w/none", 7 }, REACH_HIDE, true },
        { { "/w/none/some", 12 }, REACH_READ, true },
        { { "/w/pin", 6 }, REACH_WRITE, true },
        { { "/w/pin/ro", 9 }, REACH_READ, true },
        { { "/w/secret", 9 }, REACH_HIDE, false },
        { { "/x", 2 }, REACH_PASS, true },
};
static const struct reach some = { .root = REACH_READ, .points = points, .count = ARRAY_LEN(points) };
static const struct reach keyed = {
        .root = REACH_READ, .points = points, .count = ARRAY_LEN(points), .is_denied = is_key
};

TEST(the_deepest_point_decides)
{
        eq_int(reach_judge_write(&some, S("/etc/passwd")), -EROFS);
        eq_int(reach_judge_read(&some, S("/etc/passwd")), 0);
        eq_int(reach_judge_write(&some, S("/w/a")), 0);
        eq_int(reach_judge_write(&some, S("/ww")), -EROFS);
        eq_int(reach_judge_write(&some, S("/w/pin/ro/a")), -EROFS);
        eq_int(reach_judge_read(&some, S("/w/none")), -EACCES);
        eq_int(reach_judge_read(&some, S("/w/none/a")), -EACCES);
        eq_int(reach_judge_read(&some, S("/w/none/some/a")), 0);
        eq_int(reach_judge_write(&some, S("/w/none/some/a")), -EROFS);
        eq_int(reach_judge_search(&some, S("/w/none")), -EACCES);
        eq_int(reach_judge_search(&some, S("/x")), 0);
        eq_int(reach_judge_read(&some, S("/x")), -EACCES);
        eq_int(reach_judge_read(&some, S("/x/beside")), -ENOENT);
        eq_int(reach_judge_make(&some, S("/x/beside")), -EROFS);
        eq_int(reach_judge_write(&some, S("/w/none")), -EACCES);
        eq_int(reach_judge_write(&some, S("/w/secret")), -EROFS);
        eq_int(reach_judge_search(&some, S("/w/secret")), -ENOTDIR);
}

TEST(a_point_stays_where_it_is)
{
        eq_int(reach_judge_unmake(&some, S("/w/pin")), -EBUSY);
        eq_int(reach_judge_unmake(&some, S("/w/pin/ro")), -EBUSY);
        eq_int(reach_judge_unmake(&some, S("/w/none")), -EBUSY);
        eq_int(reach_judge_unmake(&some, S("/w")), -EROFS);
        eq_int(reach_judge_unmake(&some, S("/w/a")), 0);
        eq_int(reach_judge_unmake(&some, S("/w/pin/a")), 0);
        eq_int(reach_judge_unmake(&some, S("/w/none/a")), -EACCES);
        eq_int(reach_judge_unmake(&some, S("/w/pin/ro/a")), -EROFS);
}

TEST(what_must_not_come_into_being_does_not)
{
        eq_int(reach_judge_make(&some, S("/w/.git")), -EEXIST);
        eq_int(reach_judge_make(&some, S("/w/.git/a")), -EROFS);
        eq_int(reach_judge_write(&some, S("/w/.git")), -EISDIR);
        eq_int(reach_judge_write(&some, S("/w/file")), -EROFS);
        eq_int(reach_judge_make(&some, S("/w/new")), 0);
        eq_int(reach_judge_make(&some, S("/new")), -EROFS);
}

TEST(a_pattern_holds_for_what_is_not_there_yet)
{
        eq_int(reach_judge_make(&keyed, S("/w/a.key")), -EACCES);
        eq_int(reach_judge_read(&keyed, S("/w/a.key")), -EACCES);
        eq_int(reach_judge_read(&keyed, S("/w/a.key/below")), -EACCES);
        eq_int(reach_judge_unmake(&keyed, S("/w/a.key")), -EACCES);
        eq_int(reach_judge_make(&keyed, S("/w/a")), 0);
}
