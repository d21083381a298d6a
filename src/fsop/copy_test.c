/* copy_test: copies of files and trees: modes, links, holes, deep trees, full disks, and directories that are swapped meanwhile. */
#include "fsop/edit.h"

#include "fsop/rig_mount_internal.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

static struct err err;

static int copy(const struct rig *rig, const char *from, const char *to, bool recursive)
{
        err = ERR_INIT;
        return fsop_copy(rig_path(rig, from), rig_path(rig, to), recursive, NULL, &err);
}

static bool holds(const struct rig *rig, const char *name, struct slice content)
{
        _buf_ struct buf b = BUF_INIT(64 << 20);
        return fd_read_file(rig_path(rig, name), 64 << 20, &b) == 0 && slice_eq(buf_slice(&b), content);
}

static struct stat stat_of(const struct rig *rig, const char *name)
{
        struct stat st = { 0 };
        (void)lstat(rig_path(rig, name), &st);
        return st;
}

static bool is_there(const struct rig *rig, const char *name)
{
        return stat_of(rig, name).st_mode != 0;
}

static size_t count_entries(const struct rig *rig, const char *name)
{
        DIR *dir = opendir(rig_path(rig, name));
        size_t n = 0;

        ok(dir);
        while (readdir(dir))
                n++;
        closedir(dir);
        return n - 2;
}

/* Makes a rig with f, d/f, d/l -> f, d/broken, d/fifo, d/sub/k, ld -> d, lf -> f, broken. */
static struct rig rig_furnished(void)
{
        struct rig rig = rig_new();

        rig_file(&rig, "f", S("abc"));
        rig_directory(&rig, "d");
        rig_file(&rig, "d/f", S("ff"));
        rig_link(&rig, "d/l", "f");
        rig_link(&rig, "d/broken", "nowhere");
        rig_fifo(&rig, "d/fifo");
        rig_directory(&rig, "d/sub");
        rig_file(&rig, "d/sub/k", S("kk"));
        rig_link(&rig, "ld", "d");
        rig_link(&rig, "lf", "f");
        rig_link(&rig, "broken", "nowhere");
        return rig;
}

TEST(file_is_copied_with_its_permission_bits)
{
        _rig_ struct rig rig = rig_furnished();

        eq_int(chmod(rig_path(&rig, "f"), 0766), 0);
        eq_int(copy(&rig, "f", "g", false), 0);
        ok(holds(&rig, "g", S("abc")));
        eq_int(stat_of(&rig, "g").st_mode & 07777, 0766);

        rig_file(&rig, "h", S("something longer"));
        eq_int(chmod(rig_path(&rig, "h"), 0600), 0);
        eq_int(copy(&rig, "f", "h", true), 0);
        ok(holds(&rig, "h", S("abc")));
        eq_int(stat_of(&rig, "h").st_mode & 07777, 0766);

        rig_file(&rig, "empty", S(""));
        eq_int(copy(&rig, "empty", "h", true), 0);
        ok(holds(&rig, "h", S("")));
}

TEST(file_goes_through_a_link_at_the_destination)
{
        _rig_ struct rig rig = rig_furnished();

        eq_int(copy(&rig, "d/f", "lf", false), 0);
        ok(holds(&rig, "f", S("ff")));
        ok(S_ISLNK(stat_of(&rig, "lf").st_mode));
        eq_int(copy(&rig, "f", "broken", false), 0);
        ok(holds(&rig, "nowhere", S("ff")));
}

TEST(file_onto_itself_keeps_its_content)
{
        _rig_ struct rig rig = rig_furnished();

        eq_int(link(rig_path(&rig, "f"), rig_path(&rig, "g")), 0);
        eq_int(copy(&rig, "f", "f", false), 0);
        eq_int(copy(&rig, "f", "g", false), 0);
        eq_int(copy(&rig, "f", "lf", false), 0);
        ok(holds(&rig, "f", S("abc")) && holds(&rig, "g", S("abc")));
        eq_int(stat_of(&rig, "f").st_nlink, 2);
        eq_int(unlink(rig_path(&rig, "g")), 0);
        eq_int(copy(&rig, "f", "f", false), 0);
        ok(holds(&rig, "f", S("abc")));
}

TEST(what_cannot_be_copied_has_the_answer_that_clients_know)
{
        _rig_ struct rig rig = rig_furnished();
        static const struct {
                const char *from, *to;
                bool recursive;
                int result;
                const char *text;
        } cases[] = {
                { "f", "d", true, -EISDIR, "Is a directory (os error 21)" },
                { "f", "ld", true, -EISDIR, NULL },
                { "f", "f/x", true, -ENOTDIR, NULL },
                { "f/x", "z", true, -ENOTDIR, NULL },
                { "f", "none/z", true, -ENOENT, NULL },
                { "none", "z", true, -ENOENT, NULL },
                { "lf", "f", true, -EEXIST, "File exists (os error 17)" },
                { "lf", "lf", true, -EEXIST, NULL },
                { "lf", "d", true, -EEXIST, NULL },
                { "d/fifo", "z", true, -EINVAL,
                  "fs/copy only supports regular files, directories, and symlinks" },
                { "d", "z", false, -EINVAL,
                  "fs/copy requires recursive: true when sourcePath is a directory" },
                { "d", "f", true, -EEXIST, NULL },
                { "d", "lf", true, -EEXIST, NULL },
                { "d", "broken", true, -EEXIST, NULL },
                { "d", "d", true, -EINVAL,
                  "fs/copy cannot copy a directory to itself or one of its descendants" },
                { "d", "ld/x", true, -EINVAL, NULL },
                { "d", "d/none/deep", true, -EINVAL, NULL },
                { "d", "d/sub", true, -EINVAL, NULL },
                { "f", "d/fifo", true, -ENXIO, NULL },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                int r = copy(&rig, cases[i].from, cases[i].to, cases[i].recursive);
                if (r != cases[i].result)
                        fail_msg("%s to %s: %d, not %d", cases[i].from, cases[i].to, r, cases[i].result);
                if (cases[i].text)
                        eq_str(err.text, cases[i].text);
        }
        ok(!is_there(&rig, "z"));
        eq_int(count_entries(&rig, "d"), 5);

        err = ERR_INIT;
        eq_int(fsop_copy(rig_path(&rig, "f"), "/dev/null", false, NULL, &err), 0);
        eq_int(fsop_copy(rig_path(&rig, "f"), "/dev/full", false, NULL, &err), -ENOSPC);
        eq_int(fsop_copy("/", rig_path(&rig, "z"), true, NULL, &err), -EINVAL);
        eq_int(fsop_copy("/", rig_path(&rig, "z"), false, NULL, &err), -EINVAL);
        eq_int(fsop_copy(rig_path(&rig, "f"), "/", false, NULL, &err), -EISDIR);
}

TEST(tree_is_copied_with_links_as_links_and_without_special_files)
{
        _rig_ struct rig rig = rig_furnished();
        char target[16];

        eq_int(chmod(rig_path(&rig, "d/sub/k"), 0751), 0);
        eq_int(copy(&rig, "d", "new/deep/e", true), 0);
        eq_int(count_entries(&rig, "new/deep/e"), 4);
        ok(holds(&rig, "new/deep/e/f", S("ff")) && holds(&rig, "new/deep/e/sub/k", S("kk")));
        eq_int(stat_of(&rig, "new/deep/e/sub/k").st_mode & 07777, 0751);
        eq_int(readlink(rig_path(&rig, "new/deep/e/broken"), target, sizeof(target)), 7);
        ok(S_ISLNK(stat_of(&rig, "new/deep/e/l").st_mode));

        /* A link to a directory is copied as a link; the path of a tree may go through a link. */
        eq_int(copy(&rig, "ld", "link", true), 0);
        ok(S_ISLNK(stat_of(&rig, "link").st_mode));
        rig_directory(&rig, "real");
        rig_link(&rig, "to-real", "real");
        eq_int(copy(&rig, "d/sub", "to-real", true), 0);
        ok(holds(&rig, "real/k", S("kk")));
}

TEST(copied_directories_keep_their_modes)
{
        _rig_ struct rig rig = rig_furnished();
        static const mode_t modes[] = { 0500, 0700, 0775, 01777, 0751 };
        mode_t before = umask(077);

        for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
                eq_int(chmod(rig_path(&rig, "d"), modes[i]), 0);
                eq_int(chmod(rig_path(&rig, "d/sub"), modes[ARRAY_LEN(modes) - 1 - i]), 0);
                eq_int(copy(&rig, "d", i % 2 ? "above/copy" : "copy", true), 0);
                eq_int(stat_of(&rig, i % 2 ? "above/copy" : "copy").st_mode & 07777, modes[i]);
                eq_int(stat_of(&rig, i % 2 ? "above/copy/sub" : "copy/sub").st_mode & 07777,
                       modes[ARRAY_LEN(modes) - 1 - i]);
                ok(holds(&rig, i % 2 ? "above/copy/sub/k" : "copy/sub/k", S("kk")));
                eq_int(chmod(rig_path(&rig, i % 2 ? "above/copy" : "copy"), 0700), 0);
                eq_int(fsop_remove(rig_path(&rig, i % 2 ? "above/copy" : "copy"), true, true, true, &err), 0);
        }
        (void)umask(before);
        eq_int(chmod(rig_path(&rig, "d"), 0755), 0);
}

TEST(directories_that_were_there_keep_their_own_modes)
{
        _rig_ struct rig rig = rig_furnished();

        rig_directory(&rig, "e");
        rig_directory(&rig, "e/sub");
        eq_int(chmod(rig_path(&rig, "e"), 0710), 0);
        eq_int(chmod(rig_path(&rig, "e/sub"), 0701), 0);
        eq_int(copy(&rig, "d", "e", true), 0);
        eq_int(stat_of(&rig, "e").st_mode & 07777, 0710);
        eq_int(stat_of(&rig, "e/sub").st_mode & 07777, 0701);
}

TEST(trees_merge)
{
        _rig_ struct rig rig = rig_furnished();

        rig_directory(&rig, "e");
        rig_directory(&rig, "e/sub");
        rig_file(&rig, "e/sub/k", S("older and longer"));
        rig_file(&rig, "e/sub/other", S("stays"));
        eq_int(chmod(rig_path(&rig, "e/sub/k"), 0600), 0);
        eq_int(copy(&rig, "d", "e", true), 0);
        ok(holds(&rig, "e/sub/k", S("kk")) && holds(&rig, "e/sub/other", S("stays")));
        eq_int(stat_of(&rig, "e/sub/k").st_mode & 07777, stat_of(&rig, "d/sub/k").st_mode & 07777);
        eq_int(copy(&rig, "d", "e", true), -EEXIST); /* links are not replaced */

        rig_directory(&rig, "x");
        rig_directory(&rig, "x/k");
        eq_int(copy(&rig, "d/sub", "x", true), -EISDIR);
        rig_directory(&rig, "y");
        rig_directory(&rig, "s");
        rig_directory(&rig, "s/k");
        rig_file(&rig, "y/k", S("file"));
        eq_int(copy(&rig, "s", "y", true), -EEXIST);
}

TEST(links_below_the_destination_are_not_followed)
{
        _rig_ struct rig rig = rig_furnished();

        rig_directory(&rig, "out");
        rig_file(&rig, "out/k", S("kept"));
        rig_directory(&rig, "e");
        rig_link(&rig, "e/sub", "../out");
        eq_int(copy(&rig, "d", "e", true), -EEXIST);
        rig_directory(&rig, "g");
        rig_link(&rig, "g/k", "../out/k");
        eq_int(copy(&rig, "d/sub", "g", true), -EEXIST);
        rig_directory(&rig, "h");
        rig_link(&rig, "h/k", "../out/new");
        eq_int(copy(&rig, "d/sub", "h", true), -EEXIST);
        ok(holds(&rig, "out/k", S("kept")));
        eq_int(count_entries(&rig, "out"), 1);
}

TEST(holes_stay_holes)
{
        _rig_ struct rig rig = rig_new();
        {
                _close_ int fd = open(rig_path(&rig, "f"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
                eq_int(pwrite(fd, "begin", 5, 1 << 20), 5);
                eq_int(pwrite(fd, "end", 3, 8 << 20), 3);
                eq_int(ftruncate(fd, 16 << 20), 0);
        }
        eq_int(copy(&rig, "f", "g", false), 0);
        struct stat from = stat_of(&rig, "f"), to = stat_of(&rig, "g");
        eq_int(to.st_size, from.st_size);
        ok(to.st_blocks <= from.st_blocks + 64);

        _buf_ struct buf b = BUF_INIT(64 << 20);
        eq_int(fd_read_file(rig_path(&rig, "f"), 64 << 20, &b), 0);
        ok(holds(&rig, "g", buf_slice(&b)));

        /* The holes of the source must replace the other content of the target. */
        static char noise[20 << 20];
        memset(noise, 'n', sizeof(noise));
        rig_file(&rig, "h", slice_from(noise, sizeof(noise)));
        eq_int(link(rig_path(&rig, "h"), rig_path(&rig, "i")), 0); /* so that h is written in place */
        eq_int(copy(&rig, "f", "h", false), 0);
        ok(holds(&rig, "i", buf_slice(&b)));
}

TEST(files_of_proc_are_copied_to_their_end)
{
        _rig_ struct rig rig = rig_new();

        err = ERR_INIT;
        eq_int(fsop_copy("/proc/self/limits", rig_path(&rig, "f"), false, NULL, &err), 0);
        ok(stat_of(&rig, "f").st_size > 500);
}

TEST(tree_three_thousand_deep_is_copied_with_few_descriptors)
{
        _rig_ struct rig rig = rig_new();
        struct rlimit old;

        rig_directory(&rig, "d");
        {
                _close_ int fd = open(rig_path(&rig, "d"), O_PATH | O_DIRECTORY | O_CLOEXEC);
                for (int i = 0; i < 3000; i++) {
                        eq_int(mkdirat(fd, "d", 0700), 0);
                        if (i % 100 == 0)
                                ok(mkdirat(fd, "a", 0700) == 0 && mkdirat(fd, "z", 0700) == 0);
                        int next = openat(fd, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
                        ok(next >= 0);
                        fd_close(fd);
                        fd = next;
                }
                _close_ int file = openat(fd, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
                ok(file >= 0);
        }
        eq_int(getrlimit(RLIMIT_NOFILE, &old), 0);
        eq_int(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 60, old.rlim_max }), 0);
        int r = copy(&rig, "d", "e", true);
        eq_int(setrlimit(RLIMIT_NOFILE, &old), 0);
        eq_int(r, 0);

        _close_ int fd = open(rig_path(&rig, "e"), O_PATH | O_DIRECTORY | O_CLOEXEC);
        for (int i = 0; i < 3000; i++) {
                if (i % 100 == 0)
                        ok(faccessat(fd, "a", F_OK, 0) == 0 && faccessat(fd, "z", F_OK, 0) == 0);
                int next = openat(fd, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
                ok(next >= 0);
                fd_close(fd);
                fd = next;
        }
        eq_int(faccessat(fd, "file", F_OK, 0), 0);
        err = ERR_INIT;
        eq_int(fsop_remove(rig_path(&rig, "d"), true, false, true, &err), 0);
        eq_int(fsop_remove(rig_path(&rig, "e"), true, false, true, &err), 0);
}

static void full_disk(const struct rig *rig)
{
        static char large[2 << 20];

        memset(large, 'L', sizeof(large));
        rig_file(rig, "large", slice_from(large, sizeof(large)));
        rig_tmpfs(rig, "m", "size=1m");
        rig_file(rig, "m/f", S("old"));
        rig_file(rig, "m/a", S("old"));
        must(link(rig_path(rig, "m/a"), rig_path(rig, "m/b")) == 0);
        must(copy(rig, "large", "m/f", false) == -ENOSPC);
        must(holds(rig, "m/f", S("old")));
        must(copy(rig, "large", "m/b", false) == -ENOSPC);
        must(holds(rig, "m/a", S("old")));
        must(copy(rig, "large", "m/new", false) == -ENOSPC);
        rig_directory(rig, "t");
        must(rename(rig_path(rig, "large"), rig_path(rig, "t/large")) == 0);
        must(copy(rig, "t", "m/t", true) == -ENOSPC);
        must(count_entries(rig, "m/t") == 0 && count_entries(rig, "m") == 4);

        /* On a full disk a file can be replaced by one of the same size. */
        memset(large, 'M', sizeof(large));
        rig_file(rig, "six", slice_from(large, 600 << 10));
        rig_file(rig, "m/six", slice_from(large, 600 << 10));
        memset(large, 'N', sizeof(large));
        rig_file(rig, "six", slice_from(large, 600 << 10));
        must(copy(rig, "six", "m/six", false) == 0);
        must(holds(rig, "m/six", slice_from(large, 600 << 10)));
}

TEST(full_disk_leaves_the_old_file_and_no_half_copy)
{
        _rig_ struct rig rig = rig_new();
        rig_in_namespace(&rig, full_disk);
}

static void mounted_below(const struct rig *rig)
{
        rig_directory(rig, "d");
        rig_directory(rig, "d/sub");
        rig_directory(rig, "mount");
        rig_file(rig, "d/f", S("x"));
        must(mount(rig_path(rig, "d/sub"), rig_path(rig, "mount"), "", MS_BIND, NULL) == 0);
        must(copy(rig, "d", "mount", true) == -EINVAL);
}

TEST(destination_mounted_from_within_the_source_is_refused)
{
        _rig_ struct rig rig = rig_new();
        rig_in_namespace(&rig, mounted_below);
}

struct swapper {
        char directory[2 * PATH_MAX], parked[2 * PATH_MAX];
        const char *target;
        atomic_bool stop;
};

static void *swap(void *arg)
{
        struct swapper *s = arg;

        while (!atomic_load(&s->stop)) {
                if (rename(s->directory, s->parked) == 0 && symlink(s->target, s->directory) == 0) {
                        (void)unlink(s->directory);
                        (void)rename(s->parked, s->directory);
                }
        }
        return NULL;
}

TEST(directories_swapped_for_links_meanwhile_are_not_followed)
{
        _rig_ struct rig rig = rig_new();
        static struct swapper s;

        rig_directory(&rig, "secret");
        rig_file(&rig, "secret/s", S("x"));
        rig_directory(&rig, "out");
        rig_directory(&rig, "d");
        rig_directory(&rig, "d/sub");
        for (int i = 0; i < 20; i++) {
                char name[32];
                snprintf(name, sizeof(name), "d/sub/%d", i);
                rig_file(&rig, name, S("x"));
        }
        for (int round = 0; round < 60; round++) {
                bool is_source = round % 2;
                pthread_t thread;

                snprintf(s.directory, sizeof(s.directory), "%s/%s/sub", rig.root, is_source ? "d" : "e");
                snprintf(s.parked, sizeof(s.parked), "%s/parked", rig.root);
                s.target = is_source ? "../secret" : "../out";
                atomic_store(&s.stop, false);
                eq_int(pthread_create(&thread, NULL, swap, &s), 0);
                int r = copy(&rig, "d", "e", true);
                atomic_store(&s.stop, true);
                eq_int(pthread_join(thread, NULL), 0);
                (void)rename(s.parked, s.directory);

                ok(r == 0 || r == -EEXIST || r == -ENOENT || r == -ENOTDIR);
                eq_int(count_entries(&rig, "out"), 0);
                ok(S_ISLNK(stat_of(&rig, "e/sub").st_mode) || !is_there(&rig, "e/sub/s"));
                err = ERR_INIT;
                eq_int(fsop_remove(rig_path(&rig, "e"), true, true, true, &err), 0);
        }
}
