/* batch_test: listing with links, writing new and old files, and digests of parts. */
#include "fsop/batch.h"

#include "base/fd.h"
#include "fsop/rig.h"
#include "unit.h"

#include <errno.h>
#include <sys/inotify.h>
#include <unistd.h>

TEST(scan_lists_links_as_links_and_in_pages)
{
        _rig_ struct rig rig = rig_new();
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct fs_scanned *found;
        size_t count;
        bool has_more;

        rig_file(&rig, "b", S("12"));
        rig_directory(&rig, "a");
        rig_link(&rig, "c", "nowhere");
        eq_int(fsop_scan(&a, rig.root, NULL, 2, &found, &count, &has_more, &err), 0);
        eq_int(count, 2);
        ok(has_more && found[0].kind == SCAN_DIRECTORY && found[1].kind == SCAN_FILE);
        eq_int(found[1].meta.size, 2);
        eq_int(fsop_scan(&a, rig.root, "b", 2, &found, &count, &has_more, &err), 0);
        eq_int(count, 1);
        ok(!has_more && found[0].kind == SCAN_LINK);
        eq_str(found[0].target.p, "nowhere");
        eq_int(fsop_scan(&a, rig.root, "c", 2, &found, &count, &has_more, &err), 0);
        eq_int(count, 0);
}

TEST(batch_writes_new_files_and_replaces_old_ones_but_no_link)
{
        _rig_ struct rig rig = rig_new();
        struct err err = ERR_INIT;
        struct stat st;

        rig_file(&rig, "victim", S("precious"));
        rig_link(&rig, "link", "victim");
        _close_ int dirfd = fsop_batch_open(rig.root);
        struct fs_new_file file = { .name = "f",
                                    .content = S("one"),
                                    .has_mode = true,
                                    .mode = 0640,
                                    .has_modified = true,
                                    .modified_ms = -1 };
        for (int i = 0; i < 2; i++) {
                eq_int(fsop_batch_write(dirfd, rig.root, &file, NULL, &err), 0);
                _close_ int fd = fsop_batch_open_file(dirfd, "f", &st);
                ok(fd >= 0);
                eq_int(st.st_mode & 07777, i == 0 ? 0640 : 0600);
                eq_int(st.st_size, i == 0 ? 3 : 5);
                eq_int(st.st_mtim.tv_sec, -1);
                eq_int(st.st_mtim.tv_nsec, 999000000);
                file.content = S("other");
                file.mode = 0600;
        }
        file.name = "link";
        ok(fsop_batch_write(dirfd, rig.root, &file, NULL, &err) < 0);
        eq_int(fsop_batch_open_file(dirfd, "link", &st), -ELOOP);
        _close_ int fd = fsop_batch_open_file(dirfd, "victim", &st);
        ok(fd >= 0);
        eq_int(st.st_size, 8);
}

/* Somebody who watches the directory sees the new content with its new mode only. */
TEST(batch_sets_the_mode_of_a_replacement_before_it_has_the_name)
{
        _rig_ struct rig rig = rig_new();
        struct err err = ERR_INIT;
        struct stat st;
        const struct inotify_event *event = NULL;
        _Alignas(struct inotify_event) char events[4096];

        rig_file(&rig, "f", S("public"));
        _close_ int dirfd = fsop_batch_open(rig.root);
        _close_ int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        ok(inotify_add_watch(watch, rig.root, IN_ATTRIB | IN_MOVED_TO) >= 0);
        const struct fs_new_file file = {
                .name = "f", .content = S("secret"), .has_mode = true, .mode = 04600
        };
        eq_int(fsop_batch_write(dirfd, rig.root, &file, NULL, &err), 0);
        ssize_t n = read(watch, events, sizeof(events));
        ok(n > 0);
        for (ssize_t at = 0; at < n; at += (ssize_t)(sizeof(*event) + event->len))
                event = (const void *)(events + at);
        ok(event->mask & IN_MOVED_TO);
        _close_ int fd = fsop_batch_open_file(dirfd, "f", &st);
        ok(fd >= 0);
        eq_int(st.st_mode & 07777, 04600);
}
