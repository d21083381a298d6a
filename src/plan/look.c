/* look: walks a path one component at a time and records what it finds. Each component is opened with O_PATH|O_NOFOLLOW
 * below the one before, so that renames meanwhile cannot mix two paths. */
#include "plan/look.h"

#include "base/born.h"
#include "base/fd.h"
#include "plan/placeholder_mark.h"
#include "policy/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define POINTER_BYTES_MAX 4096
#define LEASE_TRIES 25
#define LEASE_WAIT_MS 20

/* The directories that the walk has passed, deepest last; `..` after a link goes back to one of them. */
struct trail {
        struct arena *arena;
        char *path; /* has room for PATH_MAX bytes */
        size_t n;   /* the length of path; 0 is the root */
        int fd;
        struct seen *seen; /* dev, ino and is_directory are those of `fd` */
};

static void trail_up(struct trail *t)
{
        while (t->n > 0 && t->path[--t->n] != '/')
                continue;
}

static int trail_push(struct trail *t, struct slice name)
{
        if (t->n + 1 + name.n >= PATH_MAX)
                return -ENAMETOOLONG;
        t->path[t->n++] = '/';
        memcpy(t->path + t->n, name.p, name.n);
        t->n += name.n;
        return 0;
}

static struct slice trail_path(const struct trail *t)
{
        if (t->n == 0)
                return S("/");
        return slice_from(arena_dup(t->arena, slice_from(t->path, t->n)), t->n);
}

static void link_add(struct trail *t, struct slice at, struct slice text)
{
        struct seen *s = t->seen;
        s->links = arena_grow(t->arena, s->links, s->link_count * sizeof(*s->links),
                              (s->link_count + 1) * sizeof(*s->links));
        s->links[s->link_count++] = (struct seen_link){ at, text };
}

/* The result of statx for a file. */
struct facts {
        struct stat st; /* only mode, owner, size, device and inode are set */
        uint64_t mount, born;
};

static int facts_of(int fd, struct facts *ret)
{
        struct statx st;
        if (fd < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MNT_ID | STATX_BTIME, &st) < 0)
                return -errno;
        *ret = (struct facts){ .st = { .st_mode = st.stx_mode,
                                       .st_uid = st.stx_uid,
                                       .st_size = (off_t)st.stx_size,
                                       .st_dev = makedev(st.stx_dev_major, st.stx_dev_minor),
                                       .st_ino = st.stx_ino },
                               .mount = st.stx_mask & STATX_MNT_ID ? st.stx_mnt_id : 0,
                               .born = statx_born(&st) };
        return 0;
}

static void note(struct seen *seen, const struct facts *f)
{
        seen->dev = f->st.st_dev;
        seen->ino = f->st.st_ino;
        seen->born = f->born;
        seen->mount = f->mount;
        seen->is_own = f->st.st_uid == geteuid();
        seen->is_directory = S_ISDIR(f->st.st_mode);
}

/* Opens the directory at t->path again, after `..` or an absolute link. */
static int trail_reopen(struct trail *t)
{
        fd_close(t->fd);
        t->seen->is_own = true; /* until the owner is known */
        t->path[t->n] = 0;
        t->fd = open(t->n ? t->path : "/", O_PATH | O_NOFOLLOW | O_CLOEXEC);
        struct facts f;
        int r = facts_of(t->fd, &f);
        if (r == 0)
                note(t->seen, &f);
        return r;
}

static int read_link(struct trail *t, int fd, struct slice *ret)
{
        char text[PATH_MAX];
        ssize_t n = readlinkat(fd, "", text, sizeof(text));
        if (n < 0)
                return -errno;
        if (n == sizeof(text))
                return -ENAMETOOLONG;
        *ret = slice_from(arena_dup(t->arena, slice_from(text, (size_t)n)), (size_t)n);
        return 0;
}

/* Continues the walk with the text of the link, followed by `rest`. */
static int follow(struct trail *t, int fd, struct slice name, struct slice *rest)
{
        struct slice text;
        int r = read_link(t, fd, &text);
        if (r < 0)
                return r;
        if (t->seen->link_count == LOOK_LINKS_MAX)
                return -ELOOP;
        link_add(t, path_join(t->arena, t->n ? slice_from(t->path, t->n) : S("/"), name), text);
        if (text.n + 1 + rest->n >= 2 * PATH_MAX)
                return -ENAMETOOLONG;
        *rest = rest->p ? slice_from(arena_printf(t->arena, "%.*s/%.*s", SLICE(text), SLICE(*rest)),
                                     text.n + 1 + rest->n)
                        : text;
        if (text.n > 0 && text.p[0] == '/') {
                t->n = 0;
                return trail_reopen(t);
        }
        return 0;
}

/* Ends the walk at a name that does not exist: the rest of the path is taken as it is written. */
static int end_missing(struct trail *t, struct slice name, struct slice rest)
{
        struct seen *s = t->seen;
        s->base = trail_path(t);
        for (;;) {
                if (name.n > 0 && !slice_eq(name, S("."))) {
                        if (slice_eq(name, S("..")))
                                return -ENOENT; /* a `..` after a missing component has no meaning */
                        int r = trail_push(t, name);
                        if (r < 0)
                                return r;
                }
                if (!rest.p)
                        break;
                name = slice_split(&rest, '/');
        }
        s->path = trail_path(t);
        s->exists = false;
        return 0;
}

/* Is this a placeholder? It must have the mode of a placeholder and be empty: a command can give this mode to any of its
 * directories, and then denied paths inside would count as missing. A directory that cannot be read is no placeholder. Returns
 * 1 for yes, 0 for no, or -errno. */
static int check_placeholder(const struct trail *t, const char *name, const struct stat *st)
{
        if (!placeholder_has_mark(st))
                return 0;
        if (!S_ISDIR(st->st_mode))
                return 1;
        int fd = openat(t->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
                return 1; /* the placeholder was removed at the end of its command */
        if (fd < 0)
                return errno == EACCES ? 0 : -errno;
        DIR *dir = fdopendir(fd);
        if (!dir) {
                int r = -errno;
                fd_close(fd);
                return r;
        }
        const struct dirent *entry;
        errno = 0;
        do
                entry = readdir(dir);
        while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
        int r = entry ? 0 : errno ? -errno : 1;
        closedir(dir);
        return r;
}

static int step(struct trail *t, struct slice name, struct slice *rest, bool *ret_is_missing)
{
        if (name.n == 0 || slice_eq(name, S(".")))
                return 0;
        if (slice_eq(name, S(".."))) {
                trail_up(t);
                return trail_reopen(t);
        }
        if (name.n > NAME_MAX)
                return -ENAMETOOLONG;
        char text[NAME_MAX + 1];
        memcpy(text, name.p, name.n);
        text[name.n] = 0;
        _close_ int fd = openat(t->fd, text, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && (errno == ENOENT || (errno == ENOTDIR && !t->seen->is_directory))) {
                *ret_is_missing = true;
                return 0;
        }
        struct facts f;
        int r = facts_of(fd, &f);
        if (r < 0)
                return r;
        if (S_ISLNK(f.st.st_mode))
                return follow(t, fd, name, rest);
        r = check_placeholder(t, text, &f.st);
        if (r > 0) { /* a placeholder of another command counts as missing */
                t->seen->is_placeholder = S_ISDIR(f.st.st_mode) && !rest->p;
                *ret_is_missing = true;
                return 0;
        }
        if (r == 0)
                r = trail_push(t, name);
        if (r < 0)
                return r;
        note(t->seen, &f);
        fd_close(t->fd);
        t->fd = TAKE_FD(fd);
        return 0;
}

/* ---- the short way, for paths without links and placeholders ---- */

static int open_straight(const char *path, int flags)
{
        const struct open_how how = { .flags = (unsigned)flags | O_PATH | O_NOFOLLOW | O_CLOEXEC,
                                      .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
        return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

static void note_straight(struct arena *a, struct slice path, const struct facts *f, struct seen *ret)
{
        *ret = (struct seen){ .path = slice_from(arena_dup(a, path), path.n) };
        note(ret, f);
}

/* Looks at a path whose last name is missing, in a directory that is reached without links. Returns false for any other path. */
static bool look_straight_above(struct arena *a, struct slice path, const char *text, struct seen *ret)
{
        size_t name = path.n;
        while (name > 1 && path.p[name - 1] != '/')
                name--;
        if (name <= 1 || name == path.n)
                return false;
        struct facts f;
        _close_ int dir = open_straight(arena_dup(a, slice_from(path.p, name - 1)), O_DIRECTORY);
        if (facts_of(dir, &f) < 0 || placeholder_has_mark(&f.st))
                return false;
        _close_ int fd = openat(dir, text + name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 || errno != ENOENT)
                return false;
        note_straight(a, path, &f, ret);
        ret->base = slice_from(ret->path.p, name - 1);
        return true;
}

/* Is the path clean: no `.`, `..` or empty component? Paths from pointers may have some. */
static bool is_clean(struct slice path)
{
        struct slice rest = slice_from(path.p + 1, path.n - 1);
        while (rest.p) {
                struct slice name = slice_split(&rest, '/');
                if (name.n == 0 || slice_eq(name, S(".")) || slice_eq(name, S("..")))
                        return false;
        }
        return true;
}

/* Most paths lead through no link and no placeholder; the kernel resolves such a path in one call. Returns false for any
 * other path. */
static bool look_straight(struct arena *a, struct slice path, struct seen *ret)
{
        if (path.n < 2 || path.p[0] != '/' || !is_clean(path))
                return false;
        const char *text = arena_dup(a, path);
        struct facts f;
        _close_ int fd = open_straight(text, 0);
        if (fd < 0)
                return errno == ENOENT && look_straight_above(a, path, text, ret);
        if (facts_of(fd, &f) < 0 || S_ISLNK(f.st.st_mode) || placeholder_has_mark(&f.st))
                return false;
        note_straight(a, path, &f, ret);
        ret->base = ret->path;
        ret->exists = true;
        return true;
}

int look_at(struct arena *a, struct slice path, struct seen *ret)
{
        if (look_straight(a, path, ret))
                return 0;
        *ret = (struct seen){ 0 };
        struct trail t = { .arena = a, .path = arena_alloc(a, PATH_MAX + 1), .fd = -1, .seen = ret };
        bool is_missing = false;
        struct slice rest = path, name = S("");
        int r = trail_reopen(&t);
        while (r == 0 && !is_missing && rest.p) {
                name = slice_split(&rest, '/');
                r = step(&t, name, &rest, &is_missing);
        }
        if (r == 0 && is_missing) {
                r = end_missing(&t, name, rest);
        } else if (r == 0) {
                ret->path = ret->base = trail_path(&t);
                ret->exists = true;
        }
        fd_close(t.fd);
        return r;
}

struct slice seen_first_missing(const struct seen *s)
{
        size_t from = s->base.n == 1 ? 1 : s->base.n + 1; /* after the slash */
        size_t n = from;
        while (n < s->path.n && s->path.p[n] != '/')
                n++;
        return slice_from(s->path.p, n);
}

/* ---- pointers: small files that hold a path ---- */

/* A process may hold a lease on the file. Then this open fails and the kernel asks the holder to give the lease up, so the
 * open is repeated. */
static int open_pointer(const char *path)
{
        for (int i = 0;; i++) {
                int fd = fd_open_looking(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
                if (fd != -EWOULDBLOCK || i == LEASE_TRIES)
                        return fd;
                (void)poll(NULL, 0, LEASE_WAIT_MS);
        }
}

/* Reads the file. Returns its length, 0 when it is empty, or -errno. */
static ssize_t read_pointer(int fd, off_t size, char text[static POINTER_BYTES_MAX])
{
        size_t done = 0;
        ssize_t n;
        do {
                n = read(fd, text + done, POINTER_BYTES_MAX - done);
                done += (size_t)MAX(n, 0);
        } while (n > 0 && done < POINTER_BYTES_MAX);
        if (n < 0)
                return -errno;
        if (done == POINTER_BYTES_MAX)
                return -EFBIG;
        return (off_t)done == size ? (ssize_t)done : -EAGAIN; /* the size of the file has changed meanwhile */
}

/* git takes everything after the prefix and one blank, without newlines at the end. Other programs take the first line
 * without blanks. Both must give the same path, unless the others find none. */
static int parse_pointer(struct slice text, struct slice prefix, struct slice *ret)
{
        if (!slice_starts(text, prefix))
                return 0;
        struct slice rest = slice_from(text.p + prefix.n, text.n - prefix.n), whole = rest;
        while (whole.n > 0 && (whole.p[whole.n - 1] == '\n' || whole.p[whole.n - 1] == '\r'))
                whole.n--;
        if (prefix.n > 0 && whole.n > 0 && whole.p[0] == ' ')
                whole = slice_from(whole.p + 1, whole.n - 1);
        struct slice line = slice_trim(slice_split(&rest, '\n'));
        if (slice_has_nul(text) || (line.n > 0 && !slice_eq(line, whole)))
                return -EBADMSG;
        *ret = whole;
        return whole.n > 0;
}

int look_pointer(struct arena *a, struct slice path, struct slice prefix, struct slice *ret)
{
        char text[POINTER_BYTES_MAX];
        struct stat st;
        const char *name = arena_dup(a, path);
        /* Only a regular file is opened: opening a device could have effects. */
        if (lstat(name, &st) < 0)
                return errno == ENOENT || errno == ENOTDIR ? 0 : -errno; /* ENOTDIR: a component is a file */
        if (!S_ISREG(st.st_mode))
                return 0;
        _close_ int fd = open_pointer(name);
        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -ESTALE;
        ssize_t n = read_pointer(fd, st.st_size, text);
        if (n < 0)
                return (int)n;
        struct slice said;
        int r = parse_pointer(slice_from(text, (size_t)n), prefix, &said);
        if (r > 0)
                *ret = slice_from(arena_dup(a, said), said.n);
        return r;
}
