#include "unit.h"

#include "sandbox/stub.h"

#include "base/fd.h"
#include "sandbox/glob_rig_internal.h"

#include <sys/file.h>

/* An image with one stub, of a directory named `name` in the root of the rig. */
static struct image *image_of(struct glob_rig *rig, const char *name)
{
        struct stat st;
        must(stat(rig->root, &st) == 0);
        struct slice path = slice_from_str(at(rig, name));
        struct plan_op op = { .kind = PLAN_COVER, .is_directory = true, .path = path, .why = "a test" };
        struct plan_stub stub = { .path = path, .is_directory = true, .dev = st.st_dev, .ino = st.st_ino };
        struct plan plan = { .has_view = true, .ops = &op, .op_count = 1, .stubs = &stub, .stub_count = 1 };
        struct seccomp_filter filter = { 0 };
        _close_ int fd = image_make(&plan, &(struct image_extra){ .filter = &filter });
        ok(fd >= 0);
        struct image *image = image_map(fd);
        ok(image != NULL);
        return image;
}

static bool is_there(struct glob_rig *rig, const char *name)
{
        struct stat st;
        return lstat(at(rig, name), &st) == 0;
}

TEST(a_stub_is_made_and_removed)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        struct image *image = image_of(&rig, "stub");
        struct enter_failure why;
        eq_int(stubs_make(image, &why), 0);
        ok(is_there(&rig, "stub"));
        stubs_remove(image, true);
        stubs_forget(image);
        ok(!is_there(&rig, "stub"));
        image_unmap(image);
}

TEST(a_stub_is_removed_from_a_directory_that_was_moved)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        put_directory(&rig, "a");
        struct glob_rig in = rig;
        must(snprintf(in.root, sizeof(in.root), "%s/a", rig.root) < (int)sizeof(in.root));
        struct image *image = image_of(&in, "stub");
        struct enter_failure why;
        eq_int(stubs_make(image, &why), 0);
        rig.arena = in.arena;
        move_to(&rig, "a", "b");
        stubs_remove(image, true);
        stubs_forget(image);
        ok(is_there(&rig, "b") && !is_there(&rig, "b/stub"));
        image_unmap(image);
}

/* The keeper was killed between the making and the note of it. */
TEST(a_stub_that_nobody_could_note_is_removed_after_a_killed_keeper)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        struct image *image = image_of(&rig, "stub");
        must(mkdir(at(&rig, "stub"), S_ISVTX | 0555) == 0 && chmod(at(&rig, "stub"), S_ISVTX | 0555) == 0);
        stubs_remove(image, false);
        ok(!is_there(&rig, "stub"));
        image_unmap(image);
}

TEST(a_stub_that_another_command_holds_stays_after_a_killed_keeper)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        struct image *image = image_of(&rig, "stub"), *other = image_of(&rig, "stub");
        struct enter_failure why;
        eq_int(stubs_make(other, &why), 0);
        stubs_remove(image, false);
        ok(is_there(&rig, "stub"));
        stubs_remove(other, true);
        stubs_forget(other);
        ok(!is_there(&rig, "stub"));
        image_unmap(image);
        image_unmap(other);
}

TEST(what_the_user_made_meanwhile_stays_after_a_killed_keeper)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        struct image *image = image_of(&rig, "stub");
        put_directory(&rig, "stub");
        stubs_remove(image, false);
        ok(is_there(&rig, "stub"));
        image_unmap(image);
}
