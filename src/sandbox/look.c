/* look: see look.h. One component at a time, each opened with O_PATH|O_NOFOLLOW below the one before, so that what is
 * found is one path of one moment, whatever is renamed meanwhile. */
#include "sandbox/look.h"

#include "base/fd.h"
#include "sandbox/stub.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define POINTER_BYTES_MAX 4096

/* The directories that the walk has passed, deepest last: `..` behind a link goes back to one of them. */
struct trail {
        struct arena *arena;
        char *path; /* PATH_MAX */
        size_t n;   /* of path; 0 is the root */
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

static void note(struct trail *t, const struct stat *st)
{
        t->seen->dev = st->st_dev;
        t->seen->ino = st->st_ino;
        t->seen->is_directory = S_ISDIR(st->st_mode);
}

/* The directory at t->path, opened anew: after `..`, or an absolute link. */
static int trail_reopen(struct trail *t)
{
        fd_close(t->fd);
        t->path[t->n] = 0;
        t->fd = open(t->n ? t->path : "/", O_PATH | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;
        if (t->fd < 0 || fstat(t->fd, &st) < 0)
                return -errno;
        note(t, &st);
        return 0;
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

/* What is left to walk: the text of the link, then `rest`. */
static int follow(struct trail *t, int fd, struct slice name, struct slice *rest)
{
        struct slice text;
        int r = read_link(t, fd, &text);
        if (r < 0)
                return r;
        if (t->seen->link_count == LOOK_LINKS_MAX)
                return -ELOOP;
        struct slice at =
                t->n == 0 ? slice_from(arena_printf(t->arena, "/%.*s", SLICE(name)), name.n + 1)
                          : slice_from(arena_printf(t->arena, "%.*s/%.*s", (int)t->n, t->path, SLICE(name)),
                                       t->n + 1 + name.n);
        link_add(t, at, text);
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

/* Nothing of that name here: the rest is taken as it is named. */
static int end_missing(struct trail *t, struct slice name, struct slice rest)
{
        struct seen *s = t->seen;
        s->base = trail_path(t);
        for (;;) {
                if (name.n > 0 && !slice_eq(name, S("."))) {
                        if (slice_eq(name, S("..")))
                                return -ENOENT; /* back out of what does not exist: it means nothing */
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

/* By its looks, and because nothing is in it: a command can give every directory of its own these looks, so that what is
 * denied in there would be missing for who comes next. */
static bool is_stub(const struct trail *t, const char *name, const struct stat *st)
{
        if (!stub_looks_so(st))
                return false;
        if (!S_ISDIR(st->st_mode))
                return true;
        int fd = openat(t->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        if (!dir) {
                fd_close(fd);
                return false;
        }
        const struct dirent *entry;
        errno = 0;
        do
                entry = readdir(dir);
        while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
        bool is_empty = !entry && errno == 0;
        closedir(dir);
        return is_empty;
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
        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
                *ret_is_missing = true;
                return 0;
        }
        struct stat st;
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (S_ISLNK(st.st_mode))
                return follow(t, fd, name, rest);
        if (is_stub(t, text, &st)) { /* of another command: nothing that is there */
                *ret_is_missing = true;
                return 0;
        }
        int r = trail_push(t, name);
        if (r < 0)
                return r;
        note(t, &st);
        fd_close(t->fd);
        t->fd = TAKE_FD(fd);
        return 0;
}

/* ---- the short way ---- */

static int open_straight(const char *path, int flags)
{
        const struct open_how how = { .flags = (unsigned)flags | O_PATH | O_NOFOLLOW | O_CLOEXEC,
                                      .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
        return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

static void note_straight(struct arena *a, struct slice path, const struct stat *st, struct seen *ret)
{
        *ret = (struct seen){ .path = slice_from(arena_dup(a, path), path.n),
                              .dev = st->st_dev,
                              .ino = st->st_ino,
                              .is_directory = S_ISDIR(st->st_mode) };
}

/* A missing name in a directory that is reached without a link. */
static bool look_straight_above(struct arena *a, struct slice path, const char *text, struct seen *ret)
{
        size_t name = path.n;
        while (name > 1 && path.p[name - 1] != '/')
                name--;
        if (name <= 1 || name == path.n)
                return false;
        struct stat st;
        _close_ int dir = open_straight(arena_dup(a, slice_from(path.p, name - 1)), O_DIRECTORY);
        if (dir < 0 || fstat(dir, &st) < 0 || stub_looks_so(&st))
                return false;
        _close_ int fd = openat(dir, text + name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 || errno != ENOENT)
                return false;
        note_straight(a, path, &st, ret);
        ret->base = slice_from(ret->path.p, name - 1);
        return true;
}

/* "/a/b", with nothing in between that means something else. A pointer in a file may have it. */
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

/* Most paths lead through no link and no stub. Then the kernel goes them at once; of any other this says nothing. */
static bool look_straight(struct arena *a, struct slice path, struct seen *ret)
{
        if (path.n < 2 || path.p[0] != '/' || !is_clean(path))
                return false;
        const char *text = arena_dup(a, path);
        struct stat st;
        _close_ int fd = open_straight(text, 0);
        if (fd < 0)
                return errno == ENOENT && look_straight_above(a, path, text, ret);
        if (fstat(fd, &st) < 0 || S_ISLNK(st.st_mode) || stub_looks_so(&st))
                return false;
        note_straight(a, path, &st, ret);
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
        size_t from = s->base.n == 1 ? 1 : s->base.n + 1; /* behind the slash */
        size_t n = from;
        while (n < s->path.n && s->path.p[n] != '/')
                n++;
        return slice_from(s->path.p, n);
}

bool look_pointer(struct arena *a, struct slice path, struct slice prefix, struct slice *ret)
{
        char text[POINTER_BYTES_MAX];
        const char *name = arena_dup(a, path);
        _close_ int fd = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        struct stat st;
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return false;
        ssize_t n = read(fd, text, sizeof(text));
        if (n <= 0 || n == sizeof(text))
                return false;
        struct slice rest = slice_from(text, (size_t)n);
        struct slice line = slice_split(&rest, '\n');
        if (!slice_starts(line, prefix))
                return false;
        line = slice_trim(slice_from(line.p + prefix.n, line.n - prefix.n));
        if (line.n == 0 || slice_has_nul(line))
                return false;
        *ret = slice_from(arena_dup(a, line), line.n);
        return true;
}
