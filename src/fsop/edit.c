/* edit: makes directories and links, renames, and sets modes and times. */
#include "fsop/edit.h"

#include "fsop/at.h"
#include "fsop/entry_internal.h"
#include "fsop/name_lock_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DIRECTORY_MODE 0777 /* less the umask */

/* ---- Making directories */

/* Opens the directory `name`, and makes it if it is missing. Returns a descriptor or -errno. */
static int directory_ensure(int dirfd, const char *name, bool follow)
{
        int flags = O_PATH | O_DIRECTORY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW);

        int fd = at_open(dirfd, name, flags, 0);
        if (fd >= 0 || errno != ENOENT)
                return fd < 0 ? -errno : fd;

        int r = at_mkdir(dirfd, name, DIRECTORY_MODE) < 0 ? -errno : 0;
        if (r < 0 && r != -EEXIST)
                return r;
        /* After EEXIST the name is a directory that another process has made meanwhile, or a broken link. */
        fd = at_open(dirfd, name, r == 0 ? flags | O_NOFOLLOW : flags, 0);
        if (fd < 0)
                return r == -EEXIST && errno == ENOENT ? -EEXIST : -errno;
        return fd;
}

static int directory_make_all(const char *path, bool follow)
{
        _close_ int dirfd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dirfd < 0)
                return -errno;

        struct slice rest = slice_from_str(path);
        if (rest.n >= PATH_MAX)
                return -ENAMETOOLONG;
        while (rest.n > 0) {
                struct slice part = slice_split(&rest, '/');
                char name[NAME_MAX + 1];

                if (part.n == 0)
                        continue;
                if (part.n > NAME_MAX)
                        return -ENAMETOOLONG;
                memcpy(name, part.p, part.n);
                name[part.n] = '\0';

                int fd = directory_ensure(dirfd, name, follow);
                if (fd < 0)
                        return fd;
                fd_close(dirfd);
                dirfd = fd;
        }
        return 0;
}

/* Returns 0 if the name is a directory already, else the error for making one. */
static int check_directory(const struct entry *e, bool follow)
{
        struct stat st;

        if (at_stat(e->dirfd, e->name, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
                return 0;
        return follow ? -EEXIST : -ENOTDIR;
}

int fsop_create_directory(const char *path, bool recursive, bool follow, struct err *err)
{
        if (entry_is_unnamed(path)) {
                int r = recursive ? directory_make_all(path, follow) : -EEXIST;
                if (r == -EEXIST && !follow)
                        return err_set(err, 0, -EEXIST, "directory already exists");
                return r < 0 ? fsop_fail(err, r) : 0;
        }

        _entry_ struct entry e = ENTRY_INIT;
        int r = at_new_error(path, entry_open(path, follow, &e));
        if (r == 0)
                r = at_mkdir(e.dirfd, e.name, DIRECTORY_MODE) < 0 ? -errno : 0;
        else if (r == -ENOENT && recursive)
                r = directory_make_all(path, follow);

        if (r < 0 && e.dirfd >= 0 && recursive) {
                /* A directory that cannot be made, for example on a read-only file system, may exist already. */
                int found = check_directory(&e, follow);
                if (found == 0 || r == -EEXIST)
                        r = found;
        }
        return r < 0 ? fsop_fail(err, r) : 0;
}

/* ---- Renaming and linking */

/* Renames by a link and an unlink, for file systems without RENAME_NOREPLACE: never replaces a file, but fails for directories. */
static int rename_by_link(const struct entry *from, const struct entry *to)
{
        if (at_link(from->dirfd, from->name, to->dirfd, to->name) < 0)
                return errno == EEXIST ? -EEXIST : -EINVAL;
        return at_unlink(from->dirfd, from->name, 0) < 0 ? -errno : 0;
}

int fsop_rename(const char *from, const char *to, bool replace, bool follow, struct err *err)
{
        if (entry_is_unnamed(from) || entry_is_unnamed(to))
                return fsop_fail(err, EBUSY);

        _entry_ struct entry source = ENTRY_INIT, destination = ENTRY_INIT;
        int r = entry_open(from, follow, &source);
        if (r == 0)
                r = at_new_error(to, entry_open(to, follow, &destination));
        if (r < 0)
                return fsop_fail(err, r);

        /* The lock keeps this rename from coming between the comparison and the rename of a conditional write. */
        struct name_lock *lock;
        r = name_lock_take(destination.dirfd, destination.name, &lock);
        if (r < 0)
                return fsop_fail(err, r);
        r = at_rename(source.dirfd, source.name, destination.dirfd, destination.name,
                      replace ? 0 : RENAME_NOREPLACE);
        if (r < 0)
                r = -errno;
        if (r == -EINVAL && !replace)
                r = rename_by_link(&source, &destination);
        (void)name_lock_release(lock);
        return r < 0 ? fsop_fail(err, r) : 0;
}

int fsop_symlink(const char *path, const char *target, bool follow, struct err *err)
{
        if (entry_is_unnamed(path))
                return fsop_fail(err, EEXIST);

        _entry_ struct entry e = ENTRY_INIT;
        int r = at_new_error(path, entry_open(path, follow, &e));
        if (r == 0 && at_symlink(target, e.dirfd, e.name) < 0)
                r = -errno;
        return r < 0 ? fsop_fail(err, r) : 0;
}

/* ---- Setting modes and times */

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

/* Sets the mode of an O_PATH descriptor. fchmod does not take one, and opening the file for more could block or act on a device. */
static int change_mode(int fd, mode_t mode)
{
        if (syscall(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH) == 0)
                return 0;
        if (errno != ENOSYS &&
            errno != EPERM) /* EPERM also comes from seccomp filters that do not know the call */
                return -errno;

        char path[32];
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        return chmod(path, mode) < 0 ? -errno : 0;
}

static int change_modified(int fd, int64_t ms)
{
        int64_t seconds = ms / 1000, rest = ms % 1000;
        if (rest < 0) {
                rest += 1000;
                seconds--;
        }

        struct timespec times[2] = {
                { .tv_nsec = UTIME_OMIT },
                { .tv_sec = seconds, .tv_nsec = rest * 1000000 },
        };
        if (utimensat(fd, "", times, AT_EMPTY_PATH) == 0)
                return 0;
        if (errno != EINVAL) /* Linux before 5.8 does not know AT_EMPTY_PATH here */
                return -errno;

        char path[32];
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        return utimensat(AT_FDCWD, path, times, 0) < 0 ? -errno : 0;
}

int fsop_set_metadata(const char *path, const struct fs_changes *c, bool follow, struct err *err)
{
        _close_ int fd = fsop_open_to_change(path, O_PATH, 0, follow);
        if (fd == -ELOOP && !follow)
                return fsop_refuse(err, "path contains a symbolic link");
        if (fd < 0)
                return fsop_fail(err, fd);

        int r = reach_check_change(fd);
        if (r == 0 && c->has_mode)
                r = change_mode(fd, c->mode & 07777);
        if (r == 0 && c->has_modified)
                r = change_modified(fd, c->modified_ms);
        return r < 0 ? fsop_fail(err, r) : 0;
}
