/* no_watches: an inotify without a file system, for harnesses that drive the real server: the harness makes
 * the events of watched directories. Used with no_files.h; components of a path with a meaning here are:
 *
 *     /nN has N directories below it   /eN cannot be watched, errno N   /u: the system gives no more watches
 *     /w is a file   /p is present
 *
 * As in the kernel, each watched directory has a number, which is never used again, and the end of a watch is an event.
 */
#pragma once

#include "no_files.h"
#include "watch/watch_missing_scan.h"
#include "watch/watch_scan.h"

#include <sys/inotify.h>

#define WATCHED_MAX 64
#define WATCH_DEPTH_MAX 3
#define WATCH_CHILDREN_MAX 5

struct watched {
        int wd; /* 0: not used */
        char key[128];
};

static struct {
        int fd; /* where events are written; -1: inotify was not opened */
        int last_wd;
        bool has_lost;
        struct watched all[WATCHED_MAX];
} inotify = { .fd = -1 };

/* --- the kernel's side -------------------------------------------------------------------------------------------- */

int inotify_init1(UNUSED int flags)
{
        int fds[2];
        must(inotify.fd < 0 && pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0);
        inotify.fd = fds[1];
        return fds[0];
}

static void events_close(void)
{
        inotify.fd = fd_close(inotify.fd);
        memset(inotify.all, 0, sizeof(inotify.all));
        inotify.has_lost = false;
}

static bool event_write(int wd, uint32_t mask, uint32_t cookie, struct slice name)
{
        char bytes[sizeof(struct inotify_event) + NAME_MAX + 1] = { 0 };
        struct inotify_event e = { .wd = wd, .mask = mask, .cookie = cookie };
        name.n = MIN(name.n, (size_t)NAME_MAX);
        if (name.n > 0)
                e.len = (uint32_t)(name.n / 16 + 1) * 16;
        memcpy(bytes, &e, sizeof(e));
        if (name.n > 0)
                memcpy(bytes + sizeof(e), name.p, name.n);
        return write(inotify.fd, bytes, sizeof(e) + e.len) > 0;
}

static void event_say(int wd, uint32_t mask, uint32_t cookie, struct slice name)
{
        if (inotify.has_lost && event_write(-1, IN_Q_OVERFLOW, 0, S("")))
                inotify.has_lost = false;
        if (inotify.has_lost || !event_write(wd, mask, cookie, name))
                inotify.has_lost = true;
}

static void watched_end(struct watched *at)
{
        event_say(at->wd, IN_IGNORED, 0, S(""));
        *at = (struct watched){ 0 };
}

int inotify_rm_watch(UNUSED int fd, int wd)
{
        for (size_t i = 0; i < WATCHED_MAX; i++) {
                if (inotify.all[i].wd != wd)
                        continue;
                watched_end(&inotify.all[i]);
                return 0;
        }
        errno = EINVAL;
        return -1;
}

static int watch_add(int parent, const char *name)
{
        char key[sizeof(inotify.all[0].key)];
        struct watched *free_one = NULL;
        struct err ignored = ERR_INIT;
        uint64_t value;
        must(inotify.fd >= 0);
        if (name[0] == '/' && outcome(name, &ignored) < 0)
                return ignored.code;
        if (name[0] == '/' && path_says(name, 'u', 0, &value))
                return -ENOSPC;
        (void)snprintf(key, sizeof(key), "%d %s", parent, name);
        for (size_t i = 0; i < WATCHED_MAX; i++) {
                if (inotify.all[i].wd == 0)
                        free_one = &inotify.all[i];
                else if (strcmp(inotify.all[i].key, key) == 0)
                        return inotify.all[i].wd;
        }
        if (!free_one)
                return -ENOSPC;
        *free_one = (struct watched){ .wd = ++inotify.last_wd };
        memcpy(free_one->key, key, sizeof(key));
        return free_one->wd;
}

/* Makes an event in the n-th watched directory: `what` is a letter, a digit for the cookie, and a name. */
static void event_happens(size_t n, struct slice what)
{
        static const struct {
                char letter;
                uint32_t mask;
        } kinds[] = {
                { 'c', IN_CREATE },
                { 'C', IN_CREATE | IN_ISDIR },
                { 'm', IN_MODIFY },
                { 'w', IN_CLOSE_WRITE },
                { 'a', IN_ATTRIB },
                { 'd', IN_DELETE },
                { 'D', IN_DELETE | IN_ISDIR },
                { 'f', IN_MOVED_FROM },
                { 'F', IN_MOVED_FROM | IN_ISDIR },
                { 't', IN_MOVED_TO },
                { 'T', IN_MOVED_TO | IN_ISDIR },
                { 'x', IN_DELETE_SELF },
                { 'y', IN_MOVE_SELF },
                { 'i', IN_IGNORED },
                { 'q', IN_Q_OVERFLOW },
        };
        size_t i = 0;
        struct watched *at = NULL;
        for (size_t k = 0; k < WATCHED_MAX && !at; k++)
                if (inotify.all[k].wd > 0 && n-- == 0)
                        at = &inotify.all[k];
        while (what.n > 0 && i < ARRAY_LEN(kinds) && kinds[i].letter != what.p[0])
                i++;
        if (inotify.fd < 0 || !at || what.n == 0 || i == ARRAY_LEN(kinds))
                return;
        uint32_t mask = kinds[i].mask, cookie = what.n > 1 ? what.p[1] & 15 : 0;
        struct slice rest = what.n > 2 ? slice_from(what.p + 2, what.n - 2) : S("");
        struct slice name = slice_split(&rest, '/');
        if (mask & IN_Q_OVERFLOW)
                event_say(-1, mask, 0, S(""));
        else if (mask & (IN_DELETE_SELF | IN_MOVE_SELF))
                event_say(at->wd, mask, 0, S(""));
        else if (mask != IN_IGNORED)
                event_say(at->wd, mask, cookie, name.n > 0 && !slice_has_nul(name) ? name : S("x"));
        if (mask & (IN_DELETE_SELF | IN_IGNORED))
                watched_end(at);
}

/* --- src/watch/watch_scan.c --------------------------------------------------------------------------------------- */

void watch_scan_init(struct watch_scan *s, int inotify_fd)
{
        *s = (struct watch_scan){ .inotify_fd = inotify_fd, .arena = ARENA_INIT };
}

void watch_scan_release(struct watch_scan *s)
{
        arena_release(&s->arena);
        free(s->dirs);
        free(s->entries);
        s->dirs = NULL;
        s->entries = NULL;
        s->dir_count = s->entry_count = 0;
}

static struct watch_scan_dir *scan_append(struct watch_scan *s, uint32_t parent, const char *name,
                                          bool reports)
{
        s->dirs = mem_realloc(s->dirs, (s->dir_count + 1) * sizeof(*s->dirs));
        s->dirs[s->dir_count] = (struct watch_scan_dir){
                .parent = parent,
                .name = arena_dup(&s->arena, slice_from_str(name)),
                .reports = reports,
                .wd = -1,
        };
        return &s->dirs[s->dir_count++];
}

void watch_scan_add(struct watch_scan *s, const char *path, bool reports)
{
        (void)scan_append(s, WATCH_SCAN_NO_PARENT, path, reports);
}

static void scan_list(struct watch_scan *s, uint32_t index)
{
        unsigned depth = 0;
        uint32_t top = index;
        for (; s->dirs[top].parent != WATCH_SCAN_NO_PARENT; depth++)
                top = s->dirs[top].parent;
        uint64_t count =
                depth < WATCH_DEPTH_MAX ? path_number(s->dirs[top].name, 'n', WATCH_CHILDREN_MAX) : 0;
        for (uint64_t i = 0; i < count; i++) {
                char name[] = { 'k', (char)('0' + i), '\0' };
                bool reports = s->dirs[index].reports;
                if (reports && s->entry_count < s->max_entries) {
                        s->entries = mem_realloc(s->entries, (s->entry_count + 1) * sizeof(*s->entries));
                        s->entries[s->entry_count++] = (struct watch_scan_entry){
                                .dir = index, .name = arena_dup(&s->arena, slice_from_str(name))
                        };
                } else if (reports) {
                        s->is_cut = true;
                }
                if (s->is_recursive && s->dir_count < s->max_queue)
                        (void)scan_append(s, index, name, reports);
                else if (s->is_recursive)
                        s->is_cut = true;
        }
}

void watch_scan_run(struct watch_scan *s)
{
        for (size_t i = 0; i < s->dir_count && i < s->max_dirs && !s->is_full; i++) {
                uint32_t parent = s->dirs[i].parent;
                int r = watch_add(parent == WATCH_SCAN_NO_PARENT ? 0 : s->dirs[parent].wd, s->dirs[i].name);
                s->dirs[i].wd = MAX(r, -1);
                s->dirs[i].error = MIN(r, 0);
                s->dirs[i].is_done = true;
                s->is_full = r == -ENOSPC;
                if (r > 0 && (s->is_recursive || s->dirs[i].reports))
                        scan_list(s, (uint32_t)i);
        }
}

int watch_scan_root(struct watch_scan *s, const char *path, struct err *err)
{
        uint64_t ignored;
        if (path_says(path, 'w', 0, &ignored)) {
                s->file_name = "file";
                s->is_recursive = false;
                watch_scan_add(s, "/directory", false);
        } else {
                watch_scan_add(s, path, false);
        }
        s->dirs[0].follows = true;
        watch_scan_run(s);
        return s->dirs[0].error < 0 && !s->is_full ? fsop_fail(err, s->dirs[0].error) : 0;
}

/* --- src/watch/watch_missing_scan.c ------------------------------------------------------------------------------- */

void watch_missing_scan_init(struct watch_missing_scan *s, int inotify_fd)
{
        *s = (struct watch_missing_scan){ .inotify_fd = inotify_fd, .arena = ARENA_INIT };
}

void watch_missing_scan_release(struct watch_missing_scan *s)
{
        arena_release(&s->arena);
}

static bool missing_add(struct watch_missing_scan *s, const char *path, const char *name)
{
        int wd = watch_add(0, path);
        if (wd < 0)
                return false;
        size_t size = s->item_count * sizeof(*s->items);
        s->items = arena_grow(&s->arena, s->items, size, size + sizeof(*s->items));
        s->items[s->item_count++] = (struct watch_missing_item){ .wd = wd, .name = name };
        return true;
}

bool watch_missing_scan_missing(struct watch_missing_scan *s, const char *path)
{
        uint64_t ignored;
        return missing_add(s, "/above", "x") && !path_says(path, 'p', 0, &ignored);
}

bool watch_missing_scan_present(struct watch_missing_scan *s, const char *path)
{
        uint64_t ignored;
        return missing_add(s, path, NULL) && path_says(path, 'p', 0, &ignored);
}

int watch_scan_root_at(UNUSED struct watch_scan *s, UNUSED int fd, UNUSED struct err *err)
{
        return -ENOENT; /* no_fs_helpers.h has no reaches */
}
