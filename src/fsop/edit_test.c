/* edit_test: making directories and links, renaming, and setting mode and time. */
#include "fsop/edit.h"

#include "fsop/rig.h"
#include "unit.h"

#include <errno.h>

static struct err err;

static int make(const struct rig *rig, const char *name, bool recursive, bool follow)
{
        err = ERR_INIT;
        return fsop_create_directory(rig_path(rig, name), recursive, follow, &err);
}

static mode_t mode_of(const struct rig *rig, const char *name)
{
        struct stat st;
        return lstat(rig_path(rig, name), &st) == 0 ? st.st_mode : 0;
}

/* Makes a rig with d, d/f, ld -> d, lf -> d/f, broken, loop. */
static struct rig rig_furnished(void)
{
        struct rig rig = rig_new();

        rig_directory(&rig, "d");
        rig_file(&rig, "d/f", S("x"));
        rig_link(&rig, "ld", "d");
        rig_link(&rig, "lf", "d/f");
        rig_link(&rig, "broken", "nowhere");
        rig_link(&rig, "loop", "loop");
        return rig;
}

TEST(directories_are_made_with_their_parents_or_without)
{
        _rig_ struct rig rig = rig_furnished();

        eq_int(make(&rig, "a/b/c", true, true), 0);
        eq_int(make(&rig, "a/b/c", true, true), 0);
        eq_int(make(&rig, "a/b/../e//g/", true, true), 0);
        ok(S_ISDIR(mode_of(&rig, "a/e/g")));
        eq_int(make(&rig, "a", false, true), -EEXIST);
        eq_str(err.text, "File exists (os error 17)");
        eq_int(make(&rig, "x/y", false, true), -ENOENT);
        eq_int(make(&rig, "ld/new/er", true, true), 0);
        ok(S_ISDIR(mode_of(&rig, "d/new/er")));

        mode_t mask = umask(0);
        (void)umask(mask);
        eq_int(mode_of(&rig, "a/b/c") & 07777, 0777 & ~mask);
}

TEST(directory_in_the_place_of_something_else_is_refused_as_clients_know)
{
        _rig_ struct rig rig = rig_furnished();
        static const struct {
                const char *name;
                bool recursive, follow;
                int result;
        } cases[] = {
                { "d/f", true, true, -EEXIST },
                { "d/f/x/y", true, true, -ENOTDIR },
                { "lf", true, true, -EEXIST },
                { "ld", true, true, 0 },
                { "broken", true, true, -EEXIST },
                { "broken/x", true, true, -EEXIST },
                { "loop", true, true, -EEXIST },
                { "loop/x", true, true, -ELOOP },
                { "d/f", false, true, -EEXIST },
                { "ld", false, true, -EEXIST },
                { "ld", true, false, -ENOTDIR },
                { "d/f", true, false, -ENOTDIR },
                { "d", true, false, 0 },
                { "lf/x", true, false, -ENOTDIR },
                { "d/f/x", true, false, -ENOTDIR },
                { "n/a/b", true, false, 0 },
                { "ld/n", true, false, -ENOTDIR },
                { "ld", false, false, -EEXIST },
                { "d/f", false, false, -EEXIST },
                { "d", false, false, -EEXIST },
                { "d/f/x", false, false, -ENOTDIR },
                { "m/a/b", false, false, -ENOENT },
                { "ld/n", false, false, -ENOTDIR },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                int r = make(&rig, cases[i].name, cases[i].recursive, cases[i].follow);
                if (r != cases[i].result)
                        fail_msg("%s recursive=%d follow=%d: %d, not %d", cases[i].name, cases[i].recursive,
                                 cases[i].follow, r, cases[i].result);
        }
}

TEST(root_directory_exists)
{
        err = ERR_INIT;
        eq_int(fsop_create_directory("/", true, true, &err), 0);
        eq_int(fsop_create_directory("/", true, false, &err), 0);
        eq_int(fsop_create_directory("/", false, false, &err), -EEXIST);
        eq_str(err.text, "directory already exists");
        eq_int(err.os_errno, 0);
        eq_int(fsop_create_directory("/", false, true, &err), -EEXIST);
        eq_str(err.text, "File exists (os error 17)");
}

TEST(rename_replaces_only_when_asked)
{
        _rig_ struct rig rig = rig_furnished();

        err = ERR_INIT;
        rig_file(&rig, "g", S("yy"));
        eq_int(fsop_rename(rig_path(&rig, "g"), rig_path(&rig, "d/f"), false, true, &err), -EEXIST);
        eq_int(fsop_rename(rig_path(&rig, "g"), rig_path(&rig, "d/new"), false, true, &err), 0);
        eq_int(fsop_rename(rig_path(&rig, "d/new"), rig_path(&rig, "ld/f"), true, true, &err), 0);
        struct stat st;
        eq_int(stat(rig_path(&rig, "d/f"), &st), 0);
        eq_int(st.st_size, 2);

        eq_int(fsop_rename(rig_path(&rig, "ld/f"), rig_path(&rig, "d/f2"), true, false, &err), -ENOTDIR);
        eq_int(fsop_rename(rig_path(&rig, "d/f"), rig_path(&rig, "ld/f2"), true, false, &err), -ENOTDIR);
        eq_int(fsop_rename(rig_path(&rig, "d/f"), rig_path(&rig, "d/f2"), true, false, &err), 0);
        eq_int(fsop_rename(rig_path(&rig, "d/f2"), rig_path(&rig, "d/f"), true, false, &err), 0);
        /* A link is renamed itself, not its target. */
        eq_int(fsop_rename(rig_path(&rig, "broken"), rig_path(&rig, "moved"), true, true, &err), 0);
        ok(S_ISLNK(mode_of(&rig, "moved")));
        eq_int(fsop_rename(rig_path(&rig, "none"), rig_path(&rig, "x"), true, true, &err), -ENOENT);
        eq_int(fsop_rename(rig_path(&rig, "d"), rig_path(&rig, "d/x"), true, true, &err), -EINVAL);
        rig_directory(&rig, "e");
        eq_int(fsop_rename(rig_path(&rig, "d/f"), rig_path(&rig, "e"), true, true, &err), -EISDIR);
        eq_int(fsop_rename("/", rig_path(&rig, "d"), true, true, &err), -EBUSY);
}

TEST(symlink_is_made_with_any_target)
{
        _rig_ struct rig rig = rig_furnished();
        char target[8];

        err = ERR_INIT;
        eq_int(fsop_symlink(rig_path(&rig, "ld/new"), "no\377where", true, &err), 0);
        eq_int(readlink(rig_path(&rig, "d/new"), target, sizeof(target)), 8);
        ok(memcmp(target, "no\377where", 8) == 0);
        eq_int(fsop_symlink(rig_path(&rig, "broken"), "x", true, &err), -EEXIST);
        eq_int(fsop_symlink(rig_path(&rig, "none/x"), "x", true, &err), -ENOENT);
        eq_int(fsop_symlink(rig_path(&rig, "empty"), "", true, &err), -ENOENT);
        eq_int(fsop_symlink("/", "x", true, &err), -EEXIST);
        eq_int(fsop_symlink(rig_path(&rig, "ld/other"), "x", false, &err), -ENOTDIR);
        eq_int(fsop_symlink(rig_path(&rig, "d/other"), "x", false, &err), 0);
}

TEST(mode_and_time_are_set_through_links_or_not_at_all)
{
        _rig_ struct rig rig = rig_furnished();
        struct fs_changes c = {
                .has_mode = true, .mode = 0640, .has_modified = true, .modified_ms = 1234567
        };
        struct stat st;

        err = ERR_INIT;
        eq_int(fsop_set_metadata(rig_path(&rig, "lf"), &c, true, &err), 0);
        eq_int(stat(rig_path(&rig, "d/f"), &st), 0);
        eq_int(st.st_mode & 07777, 0640);
        eq_int(st.st_mtim.tv_sec, 1234);
        eq_int(st.st_mtim.tv_nsec, 567000000);

        c = (struct fs_changes){ .has_modified = true, .modified_ms = -1 };
        eq_int(fsop_set_metadata(rig_path(&rig, "d/f"), &c, false, &err), 0);
        eq_int(stat(rig_path(&rig, "d/f"), &st), 0);
        eq_int(st.st_mtim.tv_sec, -1);
        eq_int(st.st_mtim.tv_nsec, 999000000);
        eq_int(st.st_mode & 07777, 0640);

        eq_int(fsop_set_metadata(rig_path(&rig, "lf"), &c, false, &err), -EINVAL);
        eq_str(err.text, "path contains a symbolic link");
        eq_int(fsop_set_metadata(rig_path(&rig, "ld/f"), &c, false, &err), -ENOTDIR);
        eq_int(fsop_set_metadata(rig_path(&rig, "broken"), &c, true, &err), -ENOENT);

        rig_fifo(&rig, "fifo");
        c = (struct fs_changes){ .has_mode = true, .mode = 0600 };
        eq_int(fsop_set_metadata(rig_path(&rig, "fifo"), &c, true, &err), 0);
        eq_int(mode_of(&rig, "fifo"), S_IFIFO | 0600);
        eq_int(fsop_set_metadata(rig_path(&rig, "d"), &(struct fs_changes){ 0 }, true, &err), 0);
}
