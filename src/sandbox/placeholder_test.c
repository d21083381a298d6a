/* placeholder_test: placeholders of a keeper that was killed are removed, and only those. */
#include "unit.h"

#include "sandbox/placeholder_rig_internal.h"

TEST(a_placeholder_is_made_and_removed)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct image *image = IMAGE(&rig, "stub/");
        struct enter_failure why;
        eq_int(placeholders_make(image, &why), 0);
        ok(exists(&rig, "stub"));
        placeholders_remove(image, true);
        placeholders_forget(image);
        ok(!exists(&rig, "stub"));
        image_unmap(image);
}

TEST(a_placeholder_is_removed_from_a_directory_that_was_moved)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "a");
        struct image *image = IMAGE(&rig, "a/stub/");
        struct enter_failure why;
        eq_int(placeholders_make(image, &why), 0);
        move_to(&rig, "a", "b");
        placeholders_remove(image, true);
        placeholders_forget(image);
        ok(exists(&rig, "b") && !exists(&rig, "b/stub"));
        image_unmap(image);
}

/* The keeper was killed after it made the placeholder and before it recorded that. */
TEST(a_placeholder_that_nobody_could_note_is_removed_after_a_killed_keeper)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct image *image = IMAGE(&rig, "stub/");
        must(mkdir(at(&rig, "stub"), S_ISVTX | 0555) == 0 && chmod(at(&rig, "stub"), S_ISVTX | 0555) == 0);
        placeholders_remove(image, false); /* the keeper had made nothing, so the file belongs to a user */
        ok(exists(&rig, "stub"));
        placeholder_of(image, 0)->state = PLACEHOLDER_USED;
        placeholders_remove(image, false);
        ok(!exists(&rig, "stub"));
        eq_int(placeholder_of(image, 0)->state, PLACEHOLDER_GONE);
        image_unmap(image);
}

TEST(a_placeholder_that_another_command_holds_stays_after_a_killed_keeper)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct image *image = IMAGE(&rig, "stub/"), *other = IMAGE(&rig, "stub/");
        struct enter_failure why;
        eq_int(placeholders_make(other, &why), 0);
        placeholder_of(image, 0)->state = PLACEHOLDER_USED;
        placeholders_remove(image, false);
        ok(exists(&rig, "stub"));
        eq_int(placeholder_of(image, 0)->state, PLACEHOLDER_OTHERS);
        placeholders_remove(other, true);
        placeholders_forget(other);
        ok(!exists(&rig, "stub"));
        image_unmap(image);
        image_unmap(other);
}

TEST(what_the_user_made_meanwhile_stays_after_a_killed_keeper)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct image *image = IMAGE(&rig, "stub/");
        put_directory(&rig, "stub");
        placeholder_of(image, 0)->state = PLACEHOLDER_USED;
        placeholders_remove(image, false);
        ok(exists(&rig, "stub"));
        image_unmap(image);
}
