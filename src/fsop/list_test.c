/* list_test: the order and the kinds of the names in a directory, and the limits of a list. */
#include "fsop/list_internal.h"

#include "base/buf.h"
#include "fsop/rig.h"
#include "unit.h"

#include <errno.h>

/* Writes the entries as "name/" (directory), "name*" (file) or "name" (other kinds); a link has @ behind it. */
static const char *show(const struct fs_entry *entries, size_t count)
{
        static char text[4096];
        size_t n = 0;

        text[0] = '\0';
        for (size_t i = 0; i < count; i++) {
                n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%.*s%s%s", i ? " " : "",
                                      SLICE(entries[i].name),
                                      entries[i].is_directory ? "/"
                                      : entries[i].is_file    ? "*"
                                                              : "",
                                      entries[i].is_symlink ? "@" : "");
                must(n < sizeof(text));
        }
        return text;
}

TEST(list_is_sorted_by_bytes_and_links_are_what_they_point_at)
{
        _rig_ struct rig rig = rig_new();
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct fs_entry *entries;
        size_t count;

        rig_file(&rig, "b", S(""));
        rig_file(&rig, "B", S(""));
        rig_file(&rig, "b\xff", S(""));
        rig_file(&rig, "b a", S(""));
        rig_file(&rig, ".hidden", S(""));
        rig_directory(&rig, "dir");
        rig_fifo(&rig, "fifo");
        rig_link(&rig, "to-file", "b");
        rig_link(&rig, "to-dir", "dir");
        rig_link(&rig, "to-fifo", "fifo");
        rig_link(&rig, "to-nothing", "nothing");
        rig_link(&rig, "loop", "loop");

        eq_int(fsop_list(&a, rig.root, &entries, &count, &err), 0);
        eq_str(show(entries, count), ".hidden* B* b* b a* b\xff* dir/ fifo to-dir/@ to-fifo@ to-file*@");
        for (size_t i = 0; i < count; i++)
                eq_int(entries[i].name.p[entries[i].name.n], '\0');
}

TEST(empty_directory_has_an_empty_list)
{
        _rig_ struct rig rig = rig_new();
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct fs_entry *entries;
        size_t count = 1;

        eq_int(fsop_list(&a, rig.root, &entries, &count, &err), 0);
        eq_int(count, 0);
}

TEST(what_is_no_directory_is_not_listed)
{
        _rig_ struct rig rig = rig_new();
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct fs_entry *entries;
        size_t count;

        rig_fifo(&rig, "fifo");
        eq_int(fsop_list(&a, rig_path(&rig, "fifo"), &entries, &count, &err), -ENOTDIR);
        eq_str(err.text, "Not a directory (os error 20)");
        eq_int(fsop_list(&a, rig_path(&rig, "none"), &entries, &count, &err), -ENOENT);
        eq_int(err.os_errno, ENOENT);
}

static void make_files(const struct rig *rig, size_t count)
{
        _close_ int dirfd = open(rig->root, O_PATH | O_CLOEXEC);
        char name[32];

        /* Hard links to one file are cheaper to make than files, and look the same in a list. */
        rig_file(rig, "f000000", S(""));
        for (size_t i = 1; i < count; i++) {
                snprintf(name, sizeof(name), "f%06zu", i);
                if (linkat(dirfd, "f000000", dirfd, name, 0) < 0)
                        must(mknodat(dirfd, name, S_IFREG | 0600, 0) == 0); /* the file has no more links */
        }
}

TEST(more_names_than_are_kept_leave_the_first_ones)
{
        _rig_ struct rig rig = rig_new();
        struct listing list;

        make_files(&rig, 3000);
        for (size_t keep = 1; keep < 4096; keep *= 5) {
                _arena_ struct arena a = ARENA_INIT;
                _close_ int fd = open(rig.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                char name[32];

                eq_int(list_read(&a, fd, keep, &list), 0);
                eq_u64(list.total, 3000);
                eq_u64(list.count, MIN(keep, 3000));
                for (size_t i = 0; i < list.count; i++) {
                        snprintf(name, sizeof(name), "f%06zu", i);
                        eq_slice(list.entries[i].name, slice_from_str(name));
                        ok(list.entries[i].is_file);
                }
        }
}

TEST(list_over_the_limit_is_an_error_that_tells_how_many)
{
        _rig_ struct rig rig = rig_new();
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct fs_entry *entries;
        size_t count;

        make_files(&rig, FS_LIST_MAX);
        rig_link(&rig, "broken", "nothing");
        eq_int(fsop_list(&a, rig.root, &entries, &count, &err), 0);
        eq_u64(count, FS_LIST_MAX);

        rig_file(&rig, "one-more", S(""));
        eq_int(fsop_list(&a, rig.root, &entries, &count, &err), -EOVERFLOW);
        eq_str(err.text, "fs/readDirectory returned 50001 entries; limit is 50000");
        eq_int(err.os_errno, 0);
}
