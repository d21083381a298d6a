/* remove_test: removing files and trees, also below mount points and on kernels without openat2. */
#include "fsop/edit.h"

#include "fsop/rig_forbid_internal.h"
#include "fsop/rig_mount_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

static struct err err;

static int drop(const struct rig *rig, const char *name, bool recursive, bool force)
{
        err = ERR_INIT;
        return fsop_remove(rig_path(rig, name), recursive, force, true, &err);
}

static bool exists(const struct rig *rig, const char *name)
{
        struct stat st;
        return lstat(rig_path(rig, name), &st) == 0;
}

TEST(missing_file_is_fine_with_force_only)
{
        _rig_ struct rig rig = rig_new();

        eq_int(drop(&rig, "none", true, true), 0);
        eq_int(drop(&rig, "none/below", true, true), 0);
        eq_int(drop(&rig, "none", true, false), -ENOENT);
        eq_str(err.text, "No such file or directory (os error 2)");
        eq_int(drop(&rig, "none/below", false, false), -ENOENT);
        rig_file(&rig, "f", S("x"));
        eq_int(drop(&rig, "f/below", true, true), -ENOTDIR);
        rig_link(&rig, "loop", "loop");
        eq_int(drop(&rig, "loop/below", true, true), -ELOOP);
}

TEST(links_are_removed_themselves)
{
        _rig_ struct rig rig = rig_new();

        rig_directory(&rig, "d");
        rig_file(&rig, "d/f", S("x"));
        rig_link(&rig, "link", "d");
        rig_link(&rig, "broken", "nowhere");
        eq_int(drop(&rig, "link", true, false), 0);
        eq_int(drop(&rig, "broken", false, false), 0);
        ok(exists(&rig, "d/f") && !exists(&rig, "link") && !exists(&rig, "broken"));
}

TEST(directory_without_recursive_must_be_empty)
{
        _rig_ struct rig rig = rig_new();

        rig_directory(&rig, "d");
        rig_file(&rig, "d/f", S("x"));
        eq_int(drop(&rig, "d", false, true), -ENOTEMPTY);
        eq_str(err.text, "Directory not empty (os error 39)");
        eq_int(drop(&rig, "d/f", false, false), 0);
        eq_int(drop(&rig, "d/", false, false), 0);
        ok(!exists(&rig, "d"));
}

TEST(tree_goes_with_all_kinds_of_entries)
{
        _rig_ struct rig rig = rig_new();

        rig_directory(&rig, "d");
        rig_directory(&rig, "d/a");
        rig_directory(&rig, "d/a/b");
        rig_directory(&rig, "d/empty");
        rig_directory(&rig, "out");
        rig_file(&rig, "out/f", S("x"));
        rig_fifo(&rig, "d/a/fifo");
        rig_link(&rig, "d/a/b/out", "../../../out");
        rig_link(&rig, "d/broken", "nowhere");
        for (int i = 0; i < 3000; i++) {
                char name[64];
                snprintf(name, sizeof(name), "d/a/b/file-with-some-name-%d", i);
                rig_file(&rig, name, S(""));
        }
        eq_int(drop(&rig, "d", true, false), 0);
        ok(!exists(&rig, "d"));
        ok(exists(&rig, "out/f"));
}

TEST(tree_ten_thousand_deep_goes_with_few_descriptors)
{
        _rig_ struct rig rig = rig_new();
        struct rlimit old;

        {
                _close_ int fd = open(rig.root, O_PATH | O_DIRECTORY | O_CLOEXEC);
                for (int i = 0; i < 10000; i++) {
                        eq_int(mkdirat(fd, "d", 0700), 0);
                        if (i % 100 == 0) /* siblings that sort before and after "d" */
                                ok(mkdirat(fd, "a", 0700) == 0 && mkdirat(fd, "z", 0700) == 0);
                        int next = openat(fd, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
                        ok(next >= 0);
                        fd_close(fd);
                        fd = next;
                }
        }
        eq_int(getrlimit(RLIMIT_NOFILE, &old), 0);
        eq_int(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 40, old.rlim_max }), 0);
        int r = drop(&rig, "d", true, false);
        eq_int(setrlimit(RLIMIT_NOFILE, &old), 0);
        eq_int(r, 0);
        ok(!exists(&rig, "d"));
}

TEST(root_and_paths_without_links_have_their_answers)
{
        _rig_ struct rig rig = rig_new();

        err = ERR_INIT;
        eq_int(fsop_remove("/", true, true, true, &err), -EINVAL);
        eq_str(err.text, "fs/remove cannot remove the root directory");
        eq_int(err.os_errno, 0);
        eq_int(fsop_remove("///", false, true, true, &err), -EBUSY);
        eq_int(fsop_remove("/", false, true, false, &err), -EINVAL);
        eq_str(err.text, "path must name an entry");

        rig_directory(&rig, "d");
        rig_file(&rig, "d/f", S("x"));
        rig_link(&rig, "l", "d");
        err = ERR_INIT;
        eq_int(fsop_remove(rig_path(&rig, "d"), true, true, false, &err), -EOPNOTSUPP);
        eq_str(err.text, "recursive no-follow removal is unsupported");
        eq_int(err.os_errno, 0);
        eq_int(fsop_remove(rig_path(&rig, "l"), false, true, false, &err), -EINVAL);
        eq_str(err.text, "path contains a symbolic link");
        eq_int(fsop_remove(rig_path(&rig, "l/f"), false, true, false, &err), -ENOTDIR);
        eq_int(fsop_remove(rig_path(&rig, "none"), false, true, false, &err), 0);
        eq_int(fsop_remove(rig_path(&rig, "d/f"), false, false, false, &err), 0);
        ok(!exists(&rig, "d/f"));
}

static void mount_points(const struct rig *rig)
{
        rig_directory(rig, "d");
        rig_directory(rig, "other");
        rig_file(rig, "other/kept", S("x"));
        rig_directory(rig, "d/mount");
        must(mount(rig_path(rig, "other"), rig_path(rig, "d/mount"), "", MS_BIND, NULL) == 0);

        must(drop(rig, "d", true, true) == -EBUSY);
        must(exists(rig, "other/kept"));
        must(drop(rig, "d/mount", true, true) == -EBUSY);
        must(exists(rig, "other/kept"));
        must(umount(rig_path(rig, "d/mount")) == 0);
        must(drop(rig, "d", true, true) == 0);
}

TEST(mount_point_is_busy_and_what_is_mounted_stays)
{
        _rig_ struct rig rig = rig_new();
        rig_in_namespace(&rig, mount_points);
}

/* Tests without openat2, as on Linux 5.8 behind a filter that does not know that call. */
static void mount_points_by_statx(const struct rig *rig)
{
        if (!rig_forbid(SCMP_SYS(openat2), EPERM))
                _exit(77);
        mount_points(rig);
}

/* Tests without openat2 and statx, as on an old kernel. */
static void mount_points_by_proc(const struct rig *rig)
{
        if (!rig_forbid(SCMP_SYS(openat2), ENOSYS) || !rig_forbid(SCMP_SYS(statx), ENOSYS))
                _exit(77);
        mount_points(rig);
}

/* Tests where neither a system call nor /proc says where a mount begins. */
static void mount_points_unknown(const struct rig *rig)
{
        if (!rig_forbid(SCMP_SYS(openat2), ENOSYS) || !rig_forbid(SCMP_SYS(statx), ENOSYS))
                _exit(77);
        must(mount("none", "/proc", "tmpfs", 0, NULL) == 0);
        rig_directory(rig, "d");
        rig_file(rig, "d/kept", S("x"));

        must(drop(rig, "d", true, true) == -EOPNOTSUPP);
        must(exists(rig, "d/kept"));
}

TEST(mount_point_is_busy_without_openat2_too)
{
        _rig_ struct rig by_statx = rig_new();
        rig_in_namespace(&by_statx, mount_points_by_statx);
        _rig_ struct rig by_proc = rig_new();
        rig_in_namespace(&by_proc, mount_points_by_proc);
}

TEST(nothing_is_removed_where_mount_points_cannot_be_told)
{
        _rig_ struct rig rig = rig_new();
        rig_in_namespace(&rig, mount_points_unknown);
}

struct swapper {
        const char *directory, *parked;
        atomic_bool stop;
};

static void *swap(void *arg)
{
        struct swapper *s = arg;

        while (!atomic_load(&s->stop)) {
                if (rename(s->directory, s->parked) == 0 && symlink("../out", s->directory) == 0) {
                        (void)unlink(s->directory);
                        (void)rename(s->parked, s->directory);
                }
        }
        return NULL;
}

TEST(directory_swapped_for_a_link_meanwhile_is_not_followed)
{
        _rig_ struct rig rig = rig_new();
        char directory[PATH_MAX], parked[PATH_MAX];

        rig_directory(&rig, "out");
        rig_file(&rig, "out/kept", S("x"));
        snprintf(directory, sizeof(directory), "%s", rig_path(&rig, "t/d"));
        snprintf(parked, sizeof(parked), "%s", rig_path(&rig, "t/parked"));

        for (int round = 0; round < 60; round++) {
                struct swapper s = { .directory = directory, .parked = parked };
                pthread_t thread;

                rig_directory(&rig, "t");
                rig_directory(&rig, "t/d");
                for (int i = 0; i < 20; i++) {
                        char name[32];
                        snprintf(name, sizeof(name), "t/d/%d", i);
                        rig_file(&rig, name, S(""));
                }
                eq_int(pthread_create(&thread, NULL, swap, &s), 0);
                int r = drop(&rig, "t", true, true);
                atomic_store(&s.stop, true);
                eq_int(pthread_join(thread, NULL), 0);
                ok(r == 0 || r == -ENOTEMPTY);
                eq_int(drop(&rig, "t", true, true), 0);
                ok(exists(&rig, "out/kept"));
        }
}
