/* access: asks the rules (reach.h) and the kernel, in the order in which the operations do. */
#include "fsop/access.h"

#include "fsop/at.h"
#include "fsop/entry_internal.h"
#include "fsop/write_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINKS_MAX 40 /* the limit of the kernel */

/* May names be made and removed in the directory? */
static int check_directory(int dirfd)
{
        return fd_access(dirfd, ".", W_OK | X_OK);
}

/* ---- Writing */

/* Checks a name in an open directory that does not exist. */
static int check_new(const struct entry *at)
{
        int r = at_check_name(at->dirfd, at->name, REACH_UNMAKE);
        return r < 0 ? r : check_directory(at->dirfd);
}

static int check_file(const struct entry *at, const struct stat *st)
{
        if (at_access(at->dirfd, at->name, W_OK, false) < 0)
                return -errno;
        return entry_check_change(at->dirfd, st);
}

/* Checks a name in an open directory. A link to a missing file is followed to where the file would be made; *at moves there. */
static int check_entry(struct entry *at)
{
        for (int links = 0; links < LINKS_MAX; links++) {
                struct stat st;
                int r = at_check_name(at->dirfd, at->name, REACH_PUT);
                if (r < 0)
                        return r == -ENOENT ? check_new(at) : r; /* -ENOENT: the rules make it look absent */
                if (at_stat(at->dirfd, at->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        return errno == ENOENT ? check_new(at) : -errno;
                if (!S_ISLNK(st.st_mode))
                        return check_file(at, &st);
                if (at_access(at->dirfd, at->name, W_OK, true) == 0)
                        return 0;
                if (errno != ENOENT)
                        return -errno;
                r = entry_follow(at);
                if (r < 0)
                        return r;
        }
        return -ELOOP;
}

/* A path that is followed as far as it exists. */
struct descent {
        struct entry at;        /* the deepest directory that exists; its name is not used */
        char missing[PATH_MAX]; /* the names below it that do not exist, joined by slashes */
        size_t n;
};

static void descent_release(struct descent *d)
{
        entry_release(&d->at);
}

/* Adds a name that does not exist, and checks whether it may be made. */
static int descent_add(struct descent *d, const char *name, bool is_last)
{
        bool is_first = d->n == 0;
        size_t slash = !is_first, n = strlen(name);
        if (d->n + slash + n >= sizeof(d->missing))
                return -ENAMETOOLONG;
        if (slash)
                d->missing[d->n++] = '/';
        memcpy(d->missing + d->n, name, n + 1);
        d->n += n;
        int r = is_last ? at_check_name(d->at.dirfd, d->missing, REACH_PUT) : 0;
        if (r == 0 || r == -ENOENT)
                r = at_check_name(d->at.dirfd, d->missing, is_last ? REACH_UNMAKE : REACH_MAKE);
        return r == 0 && is_first ? check_directory(d->at.dirfd) : r;
}

/* Goes up: takes a missing name back, or leaves the directory. */
static int descent_up(struct descent *d)
{
        if (d->n > 0) {
                const char *slash = memrchr(d->missing, '/', d->n);
                d->n = slash ? (size_t)(slash - d->missing) : 0;
                d->missing[d->n] = '\0';
                return 0;
        }
        int fd = at_open(d->at.dirfd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
        if (fd < 0)
                return -errno;
        entry_release(&d->at);
        d->at.dirfd = fd;
        return 0;
}

static int descent_down(struct descent *d, const char *name)
{
        struct stat st;
        if (d->n > 0)
                return descent_add(d, name, false);
        int fd = at_open(d->at.dirfd, name, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
        if (fd >= 0) {
                entry_release(&d->at);
                d->at.dirfd = fd;
                return 0;
        }
        if (errno != ENOENT)
                return -errno;
        int r = at_check_name(d->at.dirfd, name, REACH_MAKE);
        if (r == 0 && at_stat(d->at.dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                r = -EEXIST; /* a link to nothing */
        return r < 0 ? r : descent_add(d, name, false);
}

/* Checks a path whose parent does not exist: the directories that would be made, and the file in them. */
static int check_with_parents(const char *path)
{
        CLEANUP(descent_release) struct descent d = { .at = ENTRY_INIT };
        struct slice last = fsop_last_name(path), rest = slice_from(path, (size_t)(last.p - path));
        d.at.dirfd = at_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
        if (d.at.dirfd < 0)
                return -errno;
        if (last.n > NAME_MAX)
                return -ENAMETOOLONG;
        while (rest.n > 0) {
                struct slice part = slice_split(&rest, '/');
                char name[NAME_MAX + 1];
                if (part.n == 0 || slice_eq(part, S(".")))
                        continue;
                if (part.n > NAME_MAX)
                        return -ENAMETOOLONG;
                memcpy(name, part.p, part.n);
                name[part.n] = '\0';
                int r = slice_eq(part, S("..")) ? descent_up(&d) : descent_down(&d, name);
                if (r < 0)
                        return r;
        }
        memcpy(d.at.name, last.p, last.n);
        d.at.name[last.n] = '\0';
        return d.n > 0 ? descent_add(&d, d.at.name, true) : check_entry(&d.at);
}

static int check_write(const char *path)
{
        if (entry_is_unnamed(path))
                return -EISDIR;
        _entry_ struct entry at = ENTRY_INIT;
        int r = at_new_error(path, entry_open(path, true, &at));
        if (r == -ENOENT)
                return check_with_parents(path);
        return r < 0 ? r : check_entry(&at);
}

/* ---- Removing */

static bool may_act_as_owner(void)
{
        struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct set[2] = { 0 };
        return syscall(SYS_capget, &head, set) == 0 && (set[0].effective & (1U << CAP_FOWNER));
}

/* Checks what the kernel asks of a name that is removed, beside the permissions of its directory. */
static int check_removable(const struct entry *e)
{
        struct statx file, dir;
        if (at_statx(e->dirfd, e->name, &file, AT_SYMLINK_NOFOLLOW, STATX_UID) < 0 ||
            statx(e->dirfd, "", AT_EMPTY_PATH, STATX_UID | STATX_MODE, &dir) < 0)
                return -errno;
        if ((file.stx_attributes | dir.stx_attributes) & STATX_ATTR_APPEND ||
            file.stx_attributes & STATX_ATTR_IMMUTABLE)
                return -EPERM;
        bool is_kept = (dir.stx_mode & S_ISVTX) && file.stx_uid != geteuid() && dir.stx_uid != geteuid();
        if (is_kept && !may_act_as_owner())
                return -EPERM;
        return file.stx_attributes & STATX_ATTR_MOUNT_ROOT ? -EBUSY : 0;
}

static int check_remove(const char *path)
{
        if (entry_is_unnamed(path))
                return -EBUSY;
        _entry_ struct entry e = ENTRY_INIT;
        struct stat st;
        int r = entry_open(path, true, &e);
        if (r == 0)
                r = at_check_name(e.dirfd, e.name, REACH_UNMAKE);
        if (r == 0 && at_stat(e.dirfd, e.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                r = -errno;
        if (r == 0)
                r = check_directory(e.dirfd);
        return r < 0 ? r : check_removable(&e);
}

int fsop_check_access(const char *path, enum access_wish wish, struct err *err)
{
        int r = 0;
        reach_begin(wish == ACCESS_TO_READ ? REACH_OPERATION_READ : REACH_OPERATION_WRITE);
        if (path[0] != '/')
                return fsop_fail(err, EINVAL);
        switch (wish) {
        case ACCESS_TO_READ:
                r = at_access(AT_FDCWD, path, R_OK, true) < 0 ? -errno : 0;
                break;
        case ACCESS_TO_WRITE:
                r = check_write(path);
                break;
        case ACCESS_TO_REMOVE:
                r = check_remove(path);
                break;
        }
        return r < 0 ? fsop_fail(err, r) : 0;
}
