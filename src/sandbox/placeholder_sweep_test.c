/* placeholder_sweep_test: a sweep removes the placeholders that a crash has left, and nothing else. */
#include "unit.h"

#include "sandbox/placeholder_rig_internal.h"

TEST(a_sweep_removes_placeholders_that_nobody_holds)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        const struct placeholder_locks *locks = locks_in(&rig, ".state");
        struct image *dead = IMAGE(&rig, ".git/", "f");
        make_and_die(dead);
        image_unmap(dead);
        eq_int(placeholder_sweep(locks, at(&rig, ".git")), PLACEHOLDER_GONE);
        eq_int(placeholder_sweep(locks, at(&rig, "f")), PLACEHOLDER_GONE);
        ok(!exists(&rig, ".git") && !exists(&rig, "f"));
}

TEST(a_sweep_leaves_what_is_held_and_what_is_no_placeholder)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        const struct placeholder_locks *locks = locks_in(&rig, ".state");
        struct image *i = IMAGE(&rig, "held/");
        make(i);
        put_directory(&rig, "directory");
        put_directory(&rig, "tmp");
        put_file(&rig, "empty");
        write_text(&rig, "text", "x");
        put_directory(&rig, "full");
        put_file(&rig, "full/x");
        eq_int(chmod(at(&rig, "tmp"), 01777), 0);
        eq_int(chmod(at(&rig, "text"), S_ISVTX | 0444), 0);
        eq_int(chmod(at(&rig, "full"), S_ISVTX | 0555), 0);
        put_directory(&rig, "target");
        eq_int(chmod(at(&rig, "target"), S_ISVTX | 0555), 0);
        put_link(&rig, "target", "link");
        put_link(&rig, ".", "here");
        eq_int(mkfifo(at(&rig, "fifo"), S_ISVTX | 0444), 0);
        static const char *const names[] = { "held", "directory", "tmp",  "empty",
                                             "text", "full",      "link", "fifo" };
        for (size_t n = 0; n < ARRAY_LEN(names); n++) {
                eq_int(placeholder_sweep(locks, at(&rig, names[n])),
                       n == 0 ? PLACEHOLDER_OTHERS : PLACEHOLDER_GONE);
                ok(exists(&rig, names[n]));
        }
        eq_int(placeholder_sweep(locks, at(&rig, "here/target")), PLACEHOLDER_GONE); /* behind a link */
        ok(exists(&rig, "target"));
        end(i);
        ok(!exists(&rig, "held"));
}

TEST(a_sweep_of_what_is_no_path_does_nothing)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        const struct placeholder_locks *locks = locks_in(&rig, ".state");
        char *path = mem_alloc(2 * PATH_MAX);
        memset(path, 'x', 2 * PATH_MAX - 1);
        path[2 * PATH_MAX - 1] = 0;
        int before = free_descriptor();
        eq_int(placeholder_sweep(locks, ""), PLACEHOLDER_GONE);
        eq_int(placeholder_sweep(locks, "/"), PLACEHOLDER_GONE);
        eq_int(placeholder_sweep(locks, "relative"), PLACEHOLDER_GONE);
        eq_int(placeholder_sweep(locks, "/none/"), PLACEHOLDER_GONE);
        eq_int(placeholder_sweep(locks, "/farhand-is-not-here/x"), PLACEHOLDER_GONE);
        eq_int(placeholder_sweep(locks, path), PLACEHOLDER_GONE);
        path[0] = '/';
        path[PATH_MAX - 1] = 0;
        eq_int(placeholder_sweep(locks, path), PLACEHOLDER_GONE);
        eq_int(free_descriptor(), before);
        free(path);
}

TEST(only_sticky_things_that_nobody_may_write_look_like_placeholders)
{
        static const struct {
                mode_t mode;
                off_t size;
                bool is_one;
        } rows[] = {
                { S_IFDIR | S_ISVTX | 0555, 4096, true },
                { S_IFDIR | S_ISVTX | 0500, 40, true },
                { S_IFDIR | S_ISVTX, 0, true },
                { S_IFREG | S_ISVTX | 0444, 0, true },
                { S_IFREG | S_ISVTX | 0444, 1, false },
                { S_IFREG | S_ISVTX | 0644, 0, false },
                { S_IFDIR | S_ISVTX | 0557, 0, false },
                { S_IFDIR | S_ISVTX | 0575, 0, false },
                { S_IFDIR | 0555, 0, false },
                { S_IFREG | 0444, 0, false },
                { S_IFLNK | S_ISVTX | 0555, 0, false },
                { S_IFIFO | S_ISVTX | 0444, 0, false },
                { S_IFSOCK | S_ISVTX | 0444, 0, false },
        };
        for (size_t n = 0; n < ARRAY_LEN(rows); n++)
                eq_int(placeholder_has_mark(
                               &(struct stat){ .st_mode = rows[n].mode, .st_size = rows[n].size }),
                       rows[n].is_one);
}
