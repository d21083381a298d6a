/* watch_scan: puts inotify watches on directories and on everything below them. */
#include "watch/watch_scan.h"

#include "base/fd.h"
#include "base/mem.h"
#include "fsop/fsop.h"
#include "reach/reach.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* --- the queue ---------------------------------------------------------------------------------------------------- */

static struct watch_scan_dir *append_dir(struct watch_scan *s)
{
        if (s->dir_count == s->dir_room) {
                s->dir_room = MAX(2 * s->dir_room, (size_t)64);
                s->dirs = mem_realloc(s->dirs, s->dir_room * sizeof(*s->dirs));
        }
        s->dirs[s->dir_count] = (struct watch_scan_dir){ .parent = WATCH_SCAN_NO_PARENT, .wd = -1 };
        return &s->dirs[s->dir_count++];
}

void watch_scan_add(struct watch_scan *s, const char *path, bool reports)
{
        struct watch_scan_dir *dir = append_dir(s);
        dir->name = arena_dup(&s->arena, slice_from_str(path));
        dir->reports = reports;
}

static void add_entry(struct watch_scan *s, uint32_t dir, const char *name)
{
        if (s->entry_count >= s->max_entries) {
                s->is_cut = true;
                return;
        }
        if (s->entry_count == s->entry_room) {
                s->entry_room = MAX(2 * s->entry_room, (size_t)64);
                s->entries = mem_realloc(s->entries, s->entry_room * sizeof(*s->entries));
        }
        s->entries[s->entry_count++] = (struct watch_scan_entry){ .dir = dir, .name = name };
}

/* Writes the absolute path of a directory to the end of the buffer `path`, and its beginning into *ret. Returns 0, or -ENAMETOOLONG
 * when the path is longer than PATH_MAX. */
static int dir_path(const struct watch_scan *s, uint32_t index, char path[PATH_MAX], const char **ret)
{
        char *at = path + PATH_MAX - 1;
        *at = 0;
        for (;;) {
                const struct watch_scan_dir *dir = &s->dirs[index];
                struct slice name = slice_from_str(dir->name);
                bool is_top = dir->parent == WATCH_SCAN_NO_PARENT;
                if (is_top && *at && name.n > 0 && name.p[name.n - 1] == '/')
                        name.n--; /* the slash of "/" is written before the next name already */
                if ((size_t)(at - path) < name.n + 1)
                        return -ENAMETOOLONG;
                at -= name.n;
                memcpy(at, name.p, name.n);
                if (is_top)
                        break;
                *--at = '/';
                index = dir->parent;
        }
        *ret = at;
        return 0;
}

/* --- scanning a directory ----------------------------------------------------------------------------------------- */

static bool is_directory(int dir_fd, const struct dirent *e)
{
        struct stat st;
        if (e->d_type != DT_UNKNOWN)
                return e->d_type == DT_DIR;
        return fstatat(dir_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static void on_name(struct watch_scan *s, uint32_t index, int dir_fd, const struct dirent *e)
{
        bool reports = s->dirs[index].reports;
        bool descends = s->is_recursive && is_directory(dir_fd, e);
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || (!reports && !descends))
                return;
        const char *name = arena_dup(&s->arena, slice_from_str(e->d_name));
        if (reports)
                add_entry(s, index, name);
        if (!descends)
                return;
        if (s->dir_count >= s->max_queue) {
                s->is_cut = true;
                return;
        }
        struct watch_scan_dir *dir = append_dir(s);
        dir->parent = index;
        dir->name = name;
        dir->reports = reports;
}

static int list_dir(struct watch_scan *s, uint32_t index, const char *path)
{
        _close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        DIR *d = fdopendir(fd);
        if (!d)
                return -errno;
        fd = -1; /* closedir closes the descriptor */
        const struct dirent *e;
        while ((errno = 0, e = readdir(d)))
                on_name(s, index, dirfd(d), e);
        int r = -errno;
        closedir(d);
        return r;
}

static int path_of_fd(int fd, char ret[PATH_MAX])
{
        char link[32];
        (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, ret, PATH_MAX - 1);
        if (n <= 0)
                return n < 0 ? -errno : -ENOENT;
        ret[n] = '\0';
        return 0;
}

/* Checks that the directory is at the expected path and that the reach lets the directory be listed. Returns 0 or -errno. */
static int check_reach(const struct watch_scan *s, int fd, const char *path)
{
        char real[PATH_MAX];
        int r = path_of_fd(fd, real);
        if (r == 0 && strcmp(real, path) != 0)
                r = -ENOENT;
        if (r == 0 && !s->is_file && reach_judge(s->reach, REACH_GET, slice_from_str(path)) < 0)
                r = -EACCES; /* not -ENOENT or another error of the reach, because the directory exists */
        return r;
}

static int open_dir(const struct watch_scan *s, const char *path, bool follows)
{
        int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
        if (!s->reach) {
                int fd = open(path, flags | (follows ? 0 : O_NOFOLLOW));
                return fd < 0 ? -errno : fd;
        }
        int fd = fsop_open(path, flags, 0, false);
        int r = fd < 0 ? fd : check_reach(s, fd, path);
        if (r < 0 && fd >= 0)
                fd_close(fd);
        return r < 0 ? r : fd;
}

/* Watches and then lists a directory, both by descriptor, so that both act on the same directory. */
static int scan_dir(struct watch_scan *s, uint32_t index)
{
        char link[32], room[PATH_MAX];
        const char *path;
        int r = dir_path(s, index, room, &path);
        if (r < 0)
                return r;
        _close_ int fd = open_dir(s, path, s->dirs[index].follows);
        if (fd < 0)
                return fd;
        (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        int wd = inotify_add_watch(s->inotify_fd, link, WATCH_SCAN_MASK | IN_MASK_ADD | IN_ONLYDIR);
        if (wd < 0)
                return -errno;
        s->dirs[index].wd = wd;
        return s->is_recursive || s->dirs[index].reports ? list_dir(s, index, link) : 0;
}

void watch_scan_run(struct watch_scan *s)
{
        size_t end = s->max_dirs;
        for (size_t i = 0; i < s->dir_count && i < end && !s->is_full; i++) {
                int r = scan_dir(s, (uint32_t)i);
                s->dirs[i].error = r;
                s->dirs[i].is_done = true;
                s->is_full = s->dirs[i].wd < 0 && (r == -ENOSPC || r == -ENOMEM);
        }
}

/* --- the path that a client named --------------------------------------------------------------------------------- */

/* Makes the scan watch the file at `real` through the directory of that file. Changes the text of `real`. */
static void add_root_file(struct watch_scan *s, char *real)
{
        char *slash = strrchr(real, '/');
        s->file_name = arena_dup(&s->arena, slice_from_str(slash + 1));
        slash[slash == real ? 1 : 0] = 0;
        s->is_recursive = false;
        watch_scan_add(s, real, false);
}

int watch_scan_root(struct watch_scan *s, const char *path, struct err *err)
{
        struct stat st;
        char real[PATH_MAX];
        int r = stat(path, &st) < 0 ? -errno : 0;
        if (r == 0 && S_ISDIR(st.st_mode))
                watch_scan_add(s, path, false);
        else if (r == 0 && !realpath(path, real))
                r = -errno;
        else if (r == 0)
                add_root_file(s, real);
        if (r < 0)
                return fsop_fail(err, r);
        s->dirs[0].follows = true;
        watch_scan_run(s);
        return s->dirs[0].error < 0 && !s->is_full ? fsop_fail(err, s->dirs[0].error) : 0;
}

int watch_scan_root_at(struct watch_scan *s, int fd, struct err *err)
{
        char real[PATH_MAX];
        struct stat st, here;
        int r = path_of_fd(fd, real);
        if (r == 0 && fstat(fd, &st) < 0)
                r = -errno;
        /* `fd` may have been opened in another mount namespace, where the path means another file. */
        _close_ int same = r == 0 ? fsop_open(real, O_PATH | O_NOFOLLOW, 0, false) : -1;
        if (r == 0)
                r = same < 0 ? same : fstat(same, &here) < 0 ? -errno : 0;
        if (r == 0 && (here.st_dev != st.st_dev || here.st_ino != st.st_ino))
                r = -ENOENT;
        if (r == 0)
                r = reach_judge(s->reach, REACH_GET, slice_from_str(real));
        if (r < 0)
                return fsop_fail(err, r);
        s->is_file = !S_ISDIR(st.st_mode);
        if (s->is_file)
                add_root_file(s, real);
        else
                watch_scan_add(s, real, false);
        watch_scan_run(s);
        return s->dirs[0].error < 0 && !s->is_full ? fsop_fail(err, s->dirs[0].error) : 0;
}
