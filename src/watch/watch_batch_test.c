/* watch_batch_test: which changes are merged, which are kept, and what happens at the limit of a batch. */
#include "watch/watch_batch.h"

#include "base/buf.h"
#include "base/limits.h"
#include "unit.h"

#include <stdio.h>

/* Returns the changes as text: + before a created path, ~ before a modified one, - before a removed one, to<from for a rename, and
 * ! for an overflow. */
static const char *show(const struct watch_batch *b)
{
        static char text[512];
        static const char marks[] = { [WATCH_CREATED] = '+', [WATCH_MODIFIED] = '~', [WATCH_REMOVED] = '-' };
        const struct watch_change *c;
        size_t n = 0;
        text[0] = 0;
        if (b->has_overflowed)
                n += (size_t)snprintf(text, sizeof(text), "! ");
        list_each (c, &b->changes, link) {
                if (c->kind == WATCH_RENAMED)
                        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s<%s ", c->path, c->from);
                else
                        n += (size_t)snprintf(text + n, sizeof(text) - n, "%c%s ", marks[c->kind], c->path);
        }
        return text;
}

#define BATCH                                              \
        CLEANUP(watch_batch_release) struct watch_batch b; \
        watch_batch_init(&b)

TEST(a_created_file_that_is_then_written_is_told_as_created)
{
        BATCH;
        watch_batch_add(&b, WATCH_CREATED, S("/a"));
        watch_batch_add(&b, WATCH_MODIFIED, S("/a"));
        watch_batch_add(&b, WATCH_CREATED, S("/a"));
        eq_str(show(&b), "+/a ");
}

TEST(a_file_that_is_modified_often_is_told_once)
{
        BATCH;
        for (int i = 0; i < 3; i++) {
                watch_batch_add(&b, WATCH_MODIFIED, S("/a"));
                watch_batch_add(&b, WATCH_MODIFIED, S("/b"));
        }
        eq_str(show(&b), "~/a ~/b ");
}

TEST(a_file_that_comes_back_is_told_in_order)
{
        BATCH;
        watch_batch_add(&b, WATCH_MODIFIED, S("/a"));
        watch_batch_add(&b, WATCH_REMOVED, S("/a"));
        watch_batch_add(&b, WATCH_REMOVED, S("/a"));
        watch_batch_add(&b, WATCH_CREATED, S("/a"));
        watch_batch_add(&b, WATCH_MODIFIED, S("/a"));
        eq_str(show(&b), "~/a -/a +/a ");
}

TEST(halves_of_a_rename_find_each_other)
{
        BATCH;
        watch_batch_moved_from(&b, S("/a"), 1, 0);
        watch_batch_moved_from(&b, S("/b"), 2, 0);
        ok(watch_batch_moved_to(&b, S("/y"), 2));
        ok(watch_batch_moved_to(&b, S("/x"), 1));
        eq_str(show(&b), "/y</b /x</a ");
        watch_batch_add(&b, WATCH_MODIFIED, S("/x"));
        watch_batch_add(&b, WATCH_CREATED, S("/a"));
        eq_str(show(&b), "/y</b /x</a +/a ");
}

TEST(a_second_half_that_comes_after_a_new_file_of_the_old_name_makes_no_rename)
{
        BATCH;
        watch_batch_moved_from(&b, S("/a"), 1, 0);
        watch_batch_add(&b, WATCH_CREATED, S("/a"));
        ok(!watch_batch_moved_to(&b, S("/x"), 1));
        eq_str(show(&b), "-/a +/a ");
}

TEST(a_second_half_that_comes_after_a_rename_above_it_makes_no_rename)
{
        BATCH;
        watch_batch_moved_from(&b, S("/p/f"), 1, 0);
        watch_batch_moved_from(&b, S("/p"), 2, 0);
        ok(watch_batch_moved_to(&b, S("/r"), 2));
        ok(!watch_batch_moved_to(&b, S("/q/f"), 1));
        watch_batch_moved_from(&b, S("/pp/f"), 3, 0);
        watch_batch_add(&b, WATCH_CREATED, S("/p"));
        ok(watch_batch_moved_to(&b, S("/pp/g"), 3));
        eq_str(show(&b), "-/p/f /r</p +/p /pp/g</pp/f ");
}

TEST(a_first_half_alone_is_told_as_removed)
{
        BATCH;
        watch_batch_moved_from(&b, S("/a"), 1, 100);
        ok(!watch_batch_moved_to(&b, S("/b"), 2));
        eq_str(show(&b), "-/a ");
        ok(watch_batch_has_young_half(&b, 105, 8));
        ok(!watch_batch_has_young_half(&b, 108, 8));
}

TEST(changes_are_not_merged_when_the_path_names_another_file)
{
        BATCH;
        watch_batch_add(&b, WATCH_CREATED, S("/d/f"));
        watch_batch_moved_from(&b, S("/d"), 1, 0);
        watch_batch_stop_merging(&b);
        watch_batch_add(&b, WATCH_CREATED, S("/d"));
        watch_batch_add(&b, WATCH_CREATED, S("/d/f"));
        eq_str(show(&b), "+/d/f -/d +/d +/d/f ");
}

TEST(too_many_changes_are_an_overflow)
{
        BATCH;
        char path[32];
        for (int i = 0; i < LIMIT_WATCH_EVENTS; i++) {
                int n = snprintf(path, sizeof(path), "/%d", i);
                watch_batch_add(&b, WATCH_CREATED, slice_from(path, (size_t)n));
        }
        ok(!b.has_overflowed);
        eq_u64(b.count, LIMIT_WATCH_EVENTS);
        watch_batch_add(&b, WATCH_CREATED, S("/more"));
        eq_str(show(&b), "! ");
        eq_u64(b.bytes, 0);
        watch_batch_add(&b, WATCH_CREATED, S("/later"));
        watch_batch_moved_from(&b, S("/later"), 1, 0);
        ok(watch_batch_moved_to(&b, S("/last"), 1));
        eq_str(show(&b), "! +/later /last</later ");
}

TEST(long_paths_are_an_overflow_before_there_are_many)
{
        BATCH;
        static char path[4096];
        memset(path, 'x', sizeof(path));
        for (int i = 0; i < LIMIT_WATCH_EVENT_BYTES / 4096 + 1; i++) {
                snprintf(path, sizeof(path), "/%06d", i);
                path[7] = 'x';
                watch_batch_add(&b, WATCH_CREATED, slice_from(path, sizeof(path)));
        }
        ok(b.has_overflowed);
        ok(b.bytes < LIMIT_WATCH_EVENT_BYTES / 2);
}

TEST(changes_that_are_known_are_told_though_others_were_lost)
{
        BATCH;
        watch_batch_add(&b, WATCH_CREATED, S("/before"));
        watch_batch_overflow(&b);
        watch_batch_add(&b, WATCH_REMOVED, S("/after"));
        eq_str(show(&b), "! +/before -/after ");
}
