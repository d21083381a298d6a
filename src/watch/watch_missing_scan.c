/* watch_missing_scan: adds inotify watches that show when a missing path appears, or a present path changes. */
#include "watch/watch_missing_scan.h"

#include "base/slice.h"

#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define DIR_MASK                                                                                          \
        ((uint32_t)(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | \
                    IN_ONLYDIR | IN_DONT_FOLLOW | IN_MASK_ADD))
#define PRESENT_MASK \
        ((uint32_t)(IN_MODIFY | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_DONT_FOLLOW | IN_MASK_ADD))

/* The most items of one request: each path has one item for each of its names, and the one present path has another for itself. */
#define ITEMS_MAX ((WATCH_MISSING_PATHS + 1) * (WATCH_MISSING_DEPTH + 1))

/* <linux/magic.h> does not have these on every system. */
#define CEPH_MAGIC 0x00c36400
#define CIFS_MAGIC 0xff534d42
#define SMB2_MAGIC 0xfe534d42

struct watch_missing_dir {
        const char *path;
        int wd;
};

void watch_missing_scan_init(struct watch_missing_scan *s, int inotify_fd)
{
        *s = (struct watch_missing_scan){ .inotify_fd = inotify_fd, .arena = ARENA_INIT };
        s->dirs = arena_alloc(&s->arena, ITEMS_MAX * sizeof(*s->dirs));
        s->items = arena_alloc(&s->arena, ITEMS_MAX * sizeof(*s->items));
}

void watch_missing_scan_release(struct watch_missing_scan *s)
{
        arena_release(&s->arena);
        s->dir_count = s->item_count = 0;
}

/* Returns whether inotify reports every change on the file system of `path`. It does not report changes of files that the kernel
 * makes, or that other machines or FUSE servers change. */
static bool tells_of_changes(const char *path)
{
        static const unsigned long silent[] = {
                PROC_SUPER_MAGIC, SYSFS_MAGIC,     CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
                NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC, CIFS_MAGIC,         SMB2_MAGIC,
                V9FS_MAGIC,       AFS_SUPER_MAGIC, CEPH_MAGIC,         FUSE_SUPER_MAGIC,
        };
        struct statfs st;
        if (statfs(path, &st) < 0)
                return false;
        for (size_t i = 0; i < ARRAY_LEN(silent); i++)
                if ((unsigned long)st.f_type == silent[i])
                        return false;
        return true;
}

static void add_item(struct watch_missing_scan *s, int wd, const char *name)
{
        for (size_t i = 0; i < s->item_count; i++) {
                const struct watch_missing_item *item = &s->items[i];
                if (item->wd == wd && name && item->name && strcmp(item->name, name) == 0)
                        return;
        }
        s->items[s->item_count++] = (struct watch_missing_item){
                .wd = wd,
                .name = name ? arena_dup(&s->arena, slice_from_str(name)) : NULL,
        };
}

/* Watches a directory, unless the scan does so already. Returns its wd, or -1. */
static int watch_dir(struct watch_missing_scan *s, const char *path)
{
        for (size_t i = 0; i < s->dir_count; i++)
                if (strcmp(s->dirs[i].path, path) == 0)
                        return s->dirs[i].wd;
        int wd = inotify_add_watch(s->inotify_fd, path, DIR_MASK);
        if (wd < 0)
                return -1;
        s->dirs[s->dir_count++] = (struct watch_missing_dir){
                .path = arena_dup(&s->arena, slice_from_str(path)),
                .wd = wd,
        };
        return wd;
}

/* --- following a path --------------------------------------------------------------------------------------------- */

enum step { STEP_ON, STEP_MISSING, STEP_PRESENT, STEP_FAILED };

/* Watches `dir`, then looks for `name` in it; `path` is the path of that name. */
static enum step look(struct watch_missing_scan *s, const char *dir, const char *name, const char *path,
                      bool is_last)
{
        struct stat st;
        int wd = watch_dir(s, dir);
        if (wd < 0)
                return STEP_FAILED;
        add_item(s, wd, name);
        if (!tells_of_changes(dir))
                return STEP_FAILED;
        if (lstat(path, &st) < 0)
                return errno == ENOENT ? STEP_MISSING : STEP_FAILED;
        if (is_last)
                return S_ISLNK(st.st_mode) ? STEP_FAILED : STEP_PRESENT;
        return S_ISDIR(st.st_mode) ? STEP_ON : STEP_FAILED;
}

static bool is_only_slashes(struct slice s)
{
        while (s.n > 0 && s.p[s.n - 1] == '/')
                s.n--;
        return s.n == 0;
}

/* Follows the path from the root down to the first name that does not exist. */
static enum step follow(struct watch_missing_scan *s, const char *path)
{
        char so_far[PATH_MAX] = "/", dir[PATH_MAX], name[NAME_MAX + 1];
        size_t n = 0; /* length of so_far, without a slash at its end */
        struct slice rest = slice_from_str(path);
        enum step step = STEP_PRESENT;
        for (size_t depth = 0; rest.p;) {
                struct slice part = slice_split(&rest, '/');
                if (part.n == 0 || slice_eq(part, S(".")))
                        continue;
                if (++depth > WATCH_MISSING_DEPTH || part.n > NAME_MAX || slice_eq(part, S("..")) ||
                    n + part.n + 2 > sizeof(so_far))
                        return STEP_FAILED;
                memcpy(dir, n ? so_far : "/", MAX(n, (size_t)1));
                dir[MAX(n, (size_t)1)] = 0;
                memcpy(name, part.p, part.n);
                name[part.n] = 0;
                so_far[n++] = '/';
                memcpy(so_far + n, part.p, part.n);
                n += part.n;
                so_far[n] = 0;
                bool is_last = is_only_slashes(rest);
                step = look(s, dir, name, so_far, is_last);
                if (step != STEP_ON)
                        return step;
        }
        return step;
}

bool watch_missing_scan_missing(struct watch_missing_scan *s, const char *path)
{
        return follow(s, path) == STEP_MISSING;
}

bool watch_missing_scan_present(struct watch_missing_scan *s, const char *path)
{
        if (follow(s, path) != STEP_PRESENT)
                return false;
        int wd = inotify_add_watch(s->inotify_fd, path, PRESENT_MASK);
        if (wd < 0)
                return false;
        add_item(s, wd, NULL);
        return true;
}
