/* small_file_test: what is read of a small file, and what a replaced file keeps; the files are in a directory of the test. */
#include "base/small_file.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/tree_rig.h"

#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static void put_text(struct tree_rig *rig, const char *name, struct slice text, mode_t mode)
{
        _close_ int fd = open(at(rig, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
        must(fd >= 0 && fd_write_all(fd, text) == 0 && fchmod(fd, mode) == 0);
}

static struct stat look(struct tree_rig *rig, const char *name)
{
        struct stat st = { 0 };
        must(lstat(at(rig, name), &st) == 0);
        return st;
}

/* Returns how many names the root has, to find temporary files that were left. */
static size_t count_names(struct tree_rig *rig)
{
        size_t count = 0;
        DIR *directory = opendir(rig->root);
        must(directory);
        for (const struct dirent *e; (e = readdir(directory));)
                count += e->d_name[0] != '.';
        (void)closedir(directory);
        return count;
}

static void eq_content(struct tree_rig *rig, const char *name, struct slice text)
{
        _buf_ struct buf content = BUF_INIT(1000);
        const char *why = NULL;

        eq_int(small_file_read(at(rig, name), &content, &why), 0);
        eq_slice(buf_slice(&content), text);
}

TEST(only_a_regular_file_up_to_the_ceiling_is_read)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        _buf_ struct buf content = BUF_INIT(4);
        const char *why = NULL;

        put_text(&rig, "four", S("1234"), 0644);
        put_text(&rig, "five", S("12345"), 0644);
        put_link(&rig, "nowhere", "link");
        eq_int(small_file_read(at(&rig, "none"), &content, &why), -ENOENT);
        ok(!why);
        eq_int(small_file_read(at(&rig, "five"), &content, &why), -EFBIG);
        ok(!why);
        eq_int(small_file_read(rig.root, &content, &why), -EISDIR);
        eq_str(why, "it is not a regular file");
        eq_int(small_file_read(at(&rig, "link"), &content, &why), -ENOTDIR);
        eq_str(why, "it is a symlink that leads nowhere");
        eq_int(small_file_read(at(&rig, "four"), &content, &why), 0);
        eq_slice(buf_slice(&content), S("1234"));
}

TEST(a_new_file_is_for_its_owner_alone_and_so_are_its_directories)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct err err = ERR_INIT;
        const char *path = at(&rig, "a/b/rules");
        mode_t mask = umask(0);

        _close_ int lock = small_file_lock(path, &err);
        ok(lock >= 0);
        eq_int(small_file_replace(path, S("new\n"), &err), 0);
        umask(mask);
        eq_int(look(&rig, "a").st_mode & 07777, 0700);
        eq_int(look(&rig, "a/b").st_mode & 07777, 0700);
        eq_int(look(&rig, "a/b/rules").st_mode & 07777, 0600);
        eq_content(&rig, "a/b/rules", S("new\n"));
}

TEST(a_replaced_file_keeps_its_mode_and_symlinks_stay)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct err err = ERR_INIT;

        put_text(&rig, "e", S("old"), 0640);
        put_link(&rig, "e", "link");
        eq_int(small_file_replace(at(&rig, "link"), S("new\n"), &err), 0);
        ok(S_ISLNK(look(&rig, "link").st_mode));
        eq_int(look(&rig, "e").st_mode & 07777, 0640);
        eq_content(&rig, "e", S("new\n"));
        eq_u64(count_names(&rig), 2);
}

TEST(a_file_that_cannot_be_replaced_stays_and_nothing_is_left_beside_it)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct err err = ERR_INIT;

        put_directory(&rig, "d");
        ok(small_file_replace(at(&rig, "d"), S("new\n"), &err) < 0);
        ok(strncmp(err.text, "failed to write `", 17) == 0);
        ok(small_file_replace(at(&rig, "no/e"), S("new\n"), &err) < 0);
        put_text(&rig, "e", S("old"), 0400);
        eq_int(small_file_lock(at(&rig, "e/below/x"), &err), -ENOTDIR);
        if (geteuid() != 0) {
                eq_int(small_file_replace(at(&rig, "e"), S("new\n"), &err), -EACCES);
                eq_content(&rig, "e", S("old"));
        }
        eq_u64(count_names(&rig), 2);
}

TEST(two_programs_do_not_change_a_file_at_once)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct err err = ERR_INIT;

        int first = small_file_lock(at(&rig, "e"), &err);
        ok(first >= 0);
        eq_int(small_file_lock(at(&rig, "e"), &err), -EWOULDBLOCK);
        ok(strncmp(err.text, "failed to lock the directory `", 30) == 0);
        first = fd_close(first);
        _close_ int second = small_file_lock(at(&rig, "e"), &err);
        ok(second >= 0);
}
