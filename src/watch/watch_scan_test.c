/* watch_scan_test: which directories a scan can watch, in which order, and which it leaves for another scan. */
#include "watch/watch_scan.h"

#include "base/fd.h"
#include "base/mem.h"
#include "unit.h"
#include "watch/watch_missing_scan.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct rig {
        char root[64];
        char path[PATH_MAX];
        int fd;
        struct watch_scan scan;
};

static void rig_open(struct rig *rig)
{
        snprintf(rig->root, sizeof(rig->root), "/tmp/fh-watch-XXXXXX");
        ok(mkdtemp(rig->root) != NULL);
        rig->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        ok(rig->fd >= 0);
        watch_scan_init(&rig->scan, rig->fd);
        rig->scan.is_recursive = true;
        rig->scan.max_dirs = rig->scan.max_queue = rig->scan.max_entries = 100;
}

static int remove_one(const char *path, UNUSED const struct stat *st, UNUSED int type, UNUSED struct FTW *ftw)
{
        return remove(path);
}

static void rig_close(struct rig *rig)
{
        watch_scan_release(&rig->scan);
        fd_close(rig->fd);
        ok(nftw(rig->root, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
}

/* Returns the path of `name` below the root. It is valid until the next call. */
static const char *at(struct rig *rig, const char *name)
{
        snprintf(rig->path, sizeof(rig->path), "%s/%s", rig->root, name);
        return rig->path;
}

static void make_dir(struct rig *rig, const char *name)
{
        eq_int(mkdir(at(rig, name), 0700), 0);
}

static void make_file(struct rig *rig, const char *name)
{
        _close_ int fd = open(at(rig, name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        ok(fd >= 0);
}

static const struct watch_scan_dir *find(const struct watch_scan *s, const char *name)
{
        for (size_t i = 0; i < s->dir_count; i++)
                if (strcmp(s->dirs[i].name, name) == 0)
                        return &s->dirs[i];
        return NULL;
}

TEST(a_scan_watches_what_is_below_and_follows_no_link)
{
        struct rig rig;
        struct err err = ERR_INIT;
        rig_open(&rig);
        make_dir(&rig, "a");
        make_dir(&rig, "a/b");
        make_file(&rig, "a/file");
        eq_int(symlink("/", at(&rig, "a/link")), 0);
        eq_int(watch_scan_root(&rig.scan, rig.root, &err), 0);
        eq_u64(rig.scan.dir_count, 3);
        for (size_t i = 0; i < rig.scan.dir_count; i++)
                ok(rig.scan.dirs[i].is_done && rig.scan.dirs[i].wd > 0);
        eq_u64(rig.scan.entry_count, 0);
        ok(!rig.scan.file_name);
        rig_close(&rig);
}

TEST(what_is_in_a_new_directory_is_news)
{
        struct rig rig;
        rig_open(&rig);
        make_dir(&rig, "new");
        make_dir(&rig, "new/d");
        make_file(&rig, "new/d/f");
        watch_scan_add(&rig.scan, at(&rig, "new"), true);
        watch_scan_run(&rig.scan);
        eq_u64(rig.scan.dir_count, 2);
        eq_u64(rig.scan.entry_count, 2);
        eq_str(rig.scan.entries[0].name, "d");
        eq_str(rig.scan.entries[1].name, "f");
        eq_u64(rig.scan.entries[1].dir, 1);
        rig_close(&rig);
}

TEST(what_does_not_fit_is_left_for_another_scan)
{
        struct rig rig;
        rig_open(&rig);
        make_dir(&rig, "a");
        make_dir(&rig, "a/b");
        make_dir(&rig, "a/c");
        rig.scan.max_dirs = 2;
        watch_scan_add(&rig.scan, rig.root, false);
        watch_scan_run(&rig.scan);
        eq_u64(rig.scan.dir_count, 4);
        ok(rig.scan.dirs[1].is_done && !rig.scan.dirs[2].is_done && !rig.scan.dirs[3].is_done);
        eq_int(rig.scan.dirs[3].wd, -1);
        ok(!rig.scan.is_cut);
        rig_close(&rig);
}

TEST(a_queue_that_is_full_is_told)
{
        struct rig rig;
        rig_open(&rig);
        make_dir(&rig, "a");
        make_dir(&rig, "b");
        rig.scan.max_queue = 2;
        watch_scan_add(&rig.scan, rig.root, false);
        watch_scan_run(&rig.scan);
        eq_u64(rig.scan.dir_count, 2);
        ok(rig.scan.is_cut);
        rig_close(&rig);
}

TEST(a_directory_that_has_gone_or_is_a_link_is_not_watched)
{
        struct rig rig;
        rig_open(&rig);
        eq_int(symlink("/", at(&rig, "link")), 0);
        watch_scan_add(&rig.scan, at(&rig, "none"), true);
        watch_scan_add(&rig.scan, at(&rig, "link"), true);
        watch_scan_run(&rig.scan);
        eq_int(rig.scan.dirs[0].error, -ENOENT);
        eq_int(rig.scan.dirs[1].error, -ENOTDIR);
        eq_u64(rig.scan.dir_count, 2);
        rig_close(&rig);
}

TEST(a_file_is_watched_through_its_directory)
{
        struct rig rig;
        struct err err = ERR_INIT;
        rig_open(&rig);
        make_dir(&rig, "d");
        make_file(&rig, "d/f");
        eq_int(symlink("d/f", at(&rig, "link")), 0);
        eq_int(watch_scan_root(&rig.scan, at(&rig, "link"), &err), 0);
        eq_u64(rig.scan.dir_count, 1);
        eq_str(rig.scan.file_name, "f");
        ok(find(&rig.scan, at(&rig, "d")) != NULL);
        rig_close(&rig);
}

TEST(a_path_that_is_not_there_is_an_error)
{
        struct rig rig;
        struct err err = ERR_INIT;
        rig_open(&rig);
        eq_int(watch_scan_root(&rig.scan, at(&rig, "none"), &err), -ENOENT);
        eq_str(err.text, "No such file or directory (os error 2)");
        eq_int(err.os_errno, ENOENT);
        rig_close(&rig);
}

/* --- scans for missing and present paths -------------------------------------------------------------------------- */

/* Returns whether a scan can watch `missing` as a missing path and `present` as a present path. One of the two may be NULL. */
static bool can_watch(struct rig *rig, const char *missing, const char *present)
{
        struct watch_missing_scan s;
        watch_missing_scan_init(&s, rig->fd);
        bool is_watching = (!missing || watch_missing_scan_missing(&s, at(rig, missing))) &&
                           (!present || watch_missing_scan_present(&s, at(rig, present)));
        watch_missing_scan_release(&s);
        return is_watching;
}

TEST(only_what_is_missing_is_watched_as_missing)
{
        struct rig rig;
        rig_open(&rig);
        make_dir(&rig, "d");
        make_file(&rig, "f");
        eq_int(symlink("d", at(&rig, "link")), 0);
        ok(can_watch(&rig, "m", NULL));
        ok(can_watch(&rig, "d/m", NULL));
        ok(can_watch(&rig, "d/m/n/o//", NULL));
        ok(!can_watch(&rig, "d", NULL));
        ok(!can_watch(&rig, "d/", NULL));
        ok(!can_watch(&rig, "f/m", NULL));
        ok(!can_watch(&rig, "link", NULL));
        ok(!can_watch(&rig, "link/m", NULL));
        ok(!can_watch(&rig, "d/../m", NULL));
        ok(can_watch(&rig, NULL, "d"));
        ok(can_watch(&rig, NULL, "f"));
        ok(can_watch(&rig, "m", "f"));
        ok(!can_watch(&rig, NULL, "link"));
        ok(!can_watch(&rig, NULL, "link/x"));
        ok(!can_watch(&rig, NULL, "none"));
        rig_close(&rig);
}

TEST(names_on_the_way_are_watched_once)
{
        struct rig rig;
        struct watch_missing_scan s;
        rig_open(&rig);
        make_dir(&rig, "d");
        watch_missing_scan_init(&s, rig.fd);
        ok(watch_missing_scan_missing(&s, at(&rig, "d/m")));
        size_t before = s.item_count;
        ok(watch_missing_scan_missing(&s, at(&rig, "d/n")));
        eq_u64(s.item_count, before + 1);
        eq_str(s.items[before].name, "n");
        watch_missing_scan_release(&s);
        rig_close(&rig);
}

TEST(a_path_that_is_too_deep_is_not_watched)
{
        struct rig rig;
        struct watch_missing_scan s;
        char path[4 * WATCH_MISSING_DEPTH] = "";
        rig_open(&rig);
        watch_missing_scan_init(&s, rig.fd);
        make_dir(&rig, "d");
        for (size_t i = 0; i < WATCH_MISSING_DEPTH + 1; i++)
                memcpy(path + 2 * i, "/.", 3);
        memcpy(path + strlen(path), "/tmp/fh-watch-none", 19);
        ok(watch_missing_scan_missing(&s, path)); /* "." does not count as a name */
        ok(!watch_missing_scan_missing(&s, "/proc/999999"));
        ok(!watch_missing_scan_missing(&s, "/"));
        ok(watch_missing_scan_present(&s, "/"));
        watch_missing_scan_release(&s);
        rig_close(&rig);
}
