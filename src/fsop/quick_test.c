/* quick_test: which files the loop reads itself, and which it leaves to a thread. */
#include "fsop/quick.h"

#include "base/clock.h"
#include "fsop/rig.h"
#include "unit.h"

#include <errno.h>
#include <sys/syscall.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

static void quick_releasep(struct quick *q)
{
        quick_release(q);
}
#define _quick_ CLEANUP(quick_releasep)

/* Tries a file as a thread does, and lets `q` learn the result as the loop does. Returns false where quick answers are not
 * possible: there is no openat2, or the file system is of another kind. */
static bool learn(struct quick *q, const char *path, bool reads)
{
        struct quick_trial trial;
        quick_trial_init(q, &trial);
        quick_try(&trial, path, true, reads);
        trial.mount.is_single = true;
        quick_learn(q, &trial);
        return trial.is_made && trial.mount.look.is_allowed && (!reads || trial.mount.read.is_allowed);
}

/* Reads the file until its access time is later than its change time. */
static void age(const char *path)
{
        struct stat st;
        for (int i = 0; i < 1000; i++) {
                char byte;
                _close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
                ok(fd >= 0 && read(fd, &byte, 1) >= 0 && fstat(fd, &st) == 0);
                if (st.st_atim.tv_sec > st.st_ctim.tv_sec ||
                    (st.st_atim.tv_sec == st.st_ctim.tv_sec && st.st_atim.tv_nsec > st.st_ctim.tv_nsec))
                        return;
                usleep(1000);
        }
}

static const char *aged_file(const struct rig *rig, const char *name, struct slice content)
{
        rig_file(rig, name, content);
        const char *path = rig_path(rig, name);
        age(path);
        return path;
}

static enum quick_answer read_quickly(struct quick *q, const char *path, const struct quick_fence *fence,
                                      struct slice *ret)
{
        static char content[LIMIT_QUICK_READ_BYTES + 1];
        size_t n = 0;
        enum quick_answer answer = quick_read(q, path, true, fence, content, &n);
        *ret = slice_from(content, answer == QUICK_DONE ? n : 0);
        return answer;
}

TEST(a_mount_that_nobody_has_tried_is_left_to_a_thread)
{
        _rig_ struct rig rig = rig_new();
        _quick_ struct quick q;
        struct fs_meta meta, other;
        struct err err = ERR_INIT;
        const char *path = rig_path(&rig, "file");

        quick_init(&q);
        rig_file(&rig, "file", S("hello"));
        enum quick_answer first = quick_metadata(&q, path, true, &meta);
        ok(first == QUICK_UNKNOWN || q.is_off);
        if (!learn(&q, path, false))
                rig_skip(&rig);
        for (int follow = 0; follow < 2; follow++) {
                eq_int(quick_metadata(&q, path, follow, &meta), QUICK_DONE);
                eq_int(fsop_metadata(path, follow, &other, NULL, &err), 0);
                ok(meta.is_file && meta.size == 5 && meta.modified_ms == other.modified_ms &&
                   meta.created_ms == other.created_ms && meta.mode == other.mode);
        }
        q.known[0].look.until_ms = clock_mono_ms();
        eq_int(quick_metadata(&q, path, true, &meta), QUICK_UNKNOWN);
}

TEST(what_was_tried_before_mounts_changed_is_not_learned)
{
        _rig_ struct rig rig = rig_new();
        _quick_ struct quick q;
        struct quick_trial trial;
        struct fs_meta meta;

        quick_init(&q);
        quick_trial_init(&q, &trial);
        quick_try(&trial, rig.root, true, false);
        q.age++;
        quick_learn(&q, &trial);
        eq_u64(q.known_count, 0);
        ok(quick_metadata(&q, rig.root, true, &meta) != QUICK_DONE);
}

TEST(a_mount_on_which_somebody_slept_is_left_to_threads)
{
        _rig_ struct rig rig = rig_new();
        _quick_ struct quick q;
        struct quick_trial trial;
        struct fs_meta meta;

        quick_init(&q);
        if (!learn(&q, rig.root, false))
                rig_skip(&rig);
        eq_int(quick_metadata(&q, rig.root, true, &meta), QUICK_DONE);
        quick_trial_init(&q, &trial);
        quick_try(&trial, rig.root, true, false);
        trial.has_slept = true;
        quick_learn(&q, &trial);
        eq_int(quick_metadata(&q, rig.root, true, &meta), QUICK_NOT);
}

TEST(links_and_what_is_missing_are_left_to_a_thread)
{
        _rig_ struct rig rig = rig_new();
        _quick_ struct quick q;
        struct fs_meta meta;

        quick_init(&q);
        rig_file(&rig, "file", S("hello"));
        eq_int(symlink("file", rig_path(&rig, "link")), 0);
        rig_file(&rig, "sparse", S("x"));
        eq_int(truncate(rig_path(&rig, "sparse"), LIMIT_QUICK_READ_BYTES + 1), 0);
        if (!learn(&q, rig_path(&rig, "file"), false))
                rig_skip(&rig);
        eq_int(quick_metadata(&q, rig_path(&rig, "file"), true, &meta), QUICK_DONE);
        eq_int(quick_metadata(&q, rig_path(&rig, "sparse"), true, &meta), QUICK_DONE);
        eq_int(quick_metadata(&q, rig_path(&rig, "link"), true, &meta), QUICK_NOT);
        eq_int(quick_metadata(&q, rig_path(&rig, "missing"), true, &meta), QUICK_NOT);
        eq_int(quick_metadata(&q, "/proc/self/root", true, &meta), QUICK_NOT);
}

TEST(small_files_are_read_whole)
{
        _rig_ struct rig rig = rig_new();
        _quick_ struct quick q;
        struct slice got;

        quick_init(&q);
        (void)aged_file(&rig, "empty", S(""));
        if (!learn(&q, aged_file(&rig, "file", S("hello")), true))
                rig_skip(&rig);
        eq_int(read_quickly(&q, rig_path(&rig, "file"), NULL, &got), QUICK_DONE);
        eq_slice(got, S("hello"));
        eq_int(read_quickly(&q, rig_path(&rig, "empty"), NULL, &got), QUICK_DONE);
        eq_u64(got.n, 0);
        eq_int(read_quickly(&q, rig.root, NULL, &got), QUICK_NOT);
        eq_int(truncate(rig_path(&rig, "file"), LIMIT_QUICK_READ_BYTES + 1), 0);
        age(rig_path(&rig, "file"));
        eq_int(read_quickly(&q, rig_path(&rig, "file"), NULL, &got), QUICK_NOT);
        /* Closing a file that was just truncated may write it to the disk. */
        eq_int(truncate(rig_path(&rig, "empty"), 1), 0);
        eq_int(read_quickly(&q, rig_path(&rig, "empty"), NULL, &got), QUICK_NOT);
}

/* Counts the pages of the file that are in memory or being read; -1: unknown. */
static long cached_pages(const char *path)
{
        uint64_t range[2] = { 0 }, pages[5] = { 0 };
        _close_ int fd = open(path, O_RDWR | O_CLOEXEC);
        return syscall(SYS_cachestat, fd, range, pages, 0) < 0 ? -1 : (long)pages[0];
}

TEST(what_is_not_in_memory_is_not_fetched)
{
        static const char content[LIMIT_QUICK_READ_BYTES / 2] = { 1 };
        _rig_ struct rig rig = rig_new();
        _quick_ struct quick q;
        struct slice got;

        quick_init(&q);
        const char *path = aged_file(&rig, "file", slice_from(content, sizeof(content)));
        if (!learn(&q, path, true))
                rig_skip(&rig);
        eq_int(read_quickly(&q, path, NULL, &got), QUICK_DONE);
        eq_slice(got, slice_from(content, sizeof(content)));
        _close_ int fd = open(path, O_RDWR | O_CLOEXEC);
        ok(fd >= 0 && fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
        if (cached_pages(path) != 0)
                rig_skip(&rig);
        eq_int(read_quickly(&q, path, NULL, &got), QUICK_NOT);
        eq_int(cached_pages(path), 0);
}

TEST(a_fence_hides_what_is_closed)
{
        _rig_ struct rig rig = rig_new();
        _quick_ struct quick q;
        struct slice got;

        quick_init(&q);
        (void)aged_file(&rig, "closed", S("secret"));
        eq_int(symlink(rig_path(&rig, "closed"), rig_path(&rig, "link")), 0);
        if (!learn(&q, aged_file(&rig, "file", S("hello")), true) || !q.can_fence)
                rig_skip(&rig);
        struct slice closed[] = { slice_from_str(rig_path(&rig, "closed")),
                                  slice_from_str(rig_path(&rig, "missing")),
                                  slice_from_str(rig_path(&rig, "link")) };
        struct quick_fence fence = { closed, 2 };
        ok(access(closed[1].p, F_OK) < 0); /* puts into the kernel's cache that the path is missing */
        eq_int(read_quickly(&q, rig_path(&rig, "file"), &fence, &got), QUICK_DONE);
        eq_slice(got, S("hello"));
        eq_int(read_quickly(&q, rig_path(&rig, "closed"), &fence, &got), QUICK_NOT);
        /* A closed path that is a link: the loop does not find its target, and leaves the read to a thread. */
        fence.count = 3;
        eq_int(read_quickly(&q, rig_path(&rig, "file"), &fence, &got), QUICK_NOT);
        /* When the file system is mounted twice, the file may have another path, which may be closed. */
        fence.count = 2;
        q.known[0].is_single = false;
        eq_int(read_quickly(&q, rig_path(&rig, "file"), &fence, &got), QUICK_NOT);
        eq_int(read_quickly(&q, rig_path(&rig, "file"), NULL, &got), QUICK_DONE);
}
