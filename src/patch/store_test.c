/* store_test: journals and last records, with owners that live and with files that are not ours. */
#include "patch/store.h"

#include "base/tree_rig.h"

#include "unit.h"

#include <errno.h>

static struct store *open_store(struct tree_rig *rig, const char *key)
{
        struct store *s = NULL;
        struct err err = ERR_INIT;
        if (store_open(at(rig, "a/b/patches"), key, &s, &err) < 0)
                fail_msg("%s", err.text);
        return s;
}

/* One new file is the whole patch. */
static struct changes changes_of(struct arena *a, const char *path, const char *cwd)
{
        struct change *list = arena_new(a, struct change);
        *list = (struct change){ .path = path, .after = { .kind = FILE_REGULAR } };
        state_set_content(&list->after, S(""));
        return (struct changes){ .list = list, .count = 1, .cwd = cwd };
}

TEST(a_patch_that_is_done_is_the_last_one_of_its_directory)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct store *s = open_store(&rig, "local");
        struct changes c = changes_of(&rig.arena, "/w/f", "/w"), last;

        eq_int(store_last(s, &rig.arena, "/w", &last), -ENOENT);
        eq_int(store_begin(s, &c), 0);
        eq_int(store_last(s, &rig.arena, "/w", &last), -ENOENT);
        store_done(s, &c);
        eq_int(store_last(s, &rig.arena, "/w", &last), 0);
        eq_str(last.list[0].path, "/w/f");
        eq_int(store_last(s, &rig.arena, "/other", &last), -ENOENT);
        eq_int(store_adopt(s, &rig.arena, &last), 0);

        struct store *other = open_store(&rig, "elsewhere");
        eq_int(store_last(other, &rig.arena, "/w", &last), -ENOENT);
        other = store_close(other);

        store_forget_last(s, "/w");
        eq_int(store_last(s, &rig.arena, "/w", &last), -ENOENT);
        s = store_close(s);
}

TEST(a_journal_is_taken_over_only_when_its_owner_is_gone)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct store *owner = open_store(&rig, "local"), *next = open_store(&rig, "local");
        struct changes c = changes_of(&rig.arena, "/w/f", "/w"), found;

        eq_int(store_begin(owner, &c), 0);
        eq_int(store_adopt(next, &rig.arena, &found), 0);
        owner = store_close(owner);
        eq_int(store_adopt(next, &rig.arena, &found), 1);
        eq_str(found.list[0].path, "/w/f");

        struct store *third = open_store(&rig, "local");
        eq_int(store_adopt(third, &rig.arena, &found), 0);
        store_drop(next);
        eq_int(store_adopt(third, &rig.arena, &found), 0);
        third = store_close(third);
        next = store_close(next);
}

TEST(the_last_complete_record_of_a_journal_counts)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct store *s = open_store(&rig, "local");
        struct changes c = changes_of(&rig.arena, "/w/f", "/w"), found;

        eq_int(store_begin(s, &c), 0);
        c.list[0].path = "/w/g";
        eq_int(store_renew(s, &c), 0);
        store_leave(s);
        eq_int(store_adopt(s, &rig.arena, &found), 1);
        eq_str(found.list[0].path, "/w/g");
        c.list[0].path = "/w/h";
        eq_int(store_renew(s, &c), 0);
        store_leave(s);
        eq_int(store_adopt(s, &rig.arena, &found), 1);
        eq_str(found.list[0].path, "/w/h");
        s = store_close(s);
}

TEST(an_undo_that_is_done_leaves_no_record)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct store *s = open_store(&rig, "local");
        struct changes c = changes_of(&rig.arena, "/w/f", "/w"), last;

        eq_int(store_begin(s, &c), 0);
        store_done(s, &c);
        c.is_undo = true;
        eq_int(store_begin(s, &c), 0);
        store_done(s, &c);
        eq_int(store_last(s, &rig.arena, "/w", &last), -ENOENT);
        eq_int(store_adopt(s, &rig.arena, &last), 0);
        s = store_close(s);
}

TEST(a_directory_that_others_may_write_is_refused)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct store *s = open_store(&rig, "local");
        struct err err = ERR_INIT;

        s = store_close(s);
        eq_int(chmod(at(&rig, "a/b/patches"), 0770), 0);
        eq_int(store_open(at(&rig, "a/b/patches"), "local", &s, &err), -EPERM);
        eq_int(rename(at(&rig, "a/b/patches"), at(&rig, "moved")), 0);
        eq_int(chmod(at(&rig, "moved"), 0700), 0);
        eq_int(symlink(at(&rig, "moved"), at(&rig, "a/b/patches")), 0);
        ok(store_open(at(&rig, "a/b/patches"), "local", &s, &err) < 0);
}

TEST(the_lock_is_given_back)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct store *one = open_store(&rig, "local"), *two = open_store(&rig, "local");

        store_lock(one);
        store_lock(one);
        store_unlock(one);
        store_lock(two);
        two = store_close(two);
        store_lock(one);
        one = store_close(one);
}
