/* reach_way: resolves a path to a name in an open directory, within the reach.
 *
 * The path is followed name by name, and links by their text. Then the kernel is asked where the directory is; if that is not the
 * expected path, the path is resolved again. */
#include "reach/reach_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define LINKS_MAX 40 /* the limit of the kernel */

/* A process has one reach, until it ends. */
static const struct reach *reach;
static int proc_fds = -1; /* /proc/self/fd */

int reach_limit(const struct reach *l)
{
        proc_fds = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (proc_fds < 0)
                return -errno;
        reach = l;
        return 0;
}

const struct reach *reach_now(void)
{
        return reach;
}

bool reach_is_limited(void)
{
        return reach != NULL;
}

/* ---- paths of open directories */

int reach_where_is(int fd, char ret[PATH_MAX], size_t *ret_n)
{
        char name[16];
        (void)snprintf(name, sizeof(name), "%d", fd);
        ssize_t n = readlinkat(proc_fds, name, ret, PATH_MAX);
        if (n <= 0 || n >= PATH_MAX || ret[0] != '/')
                return n < 0 ? -errno : -ENAMETOOLONG;
        ret[n] = '\0';
        *ret_n = (size_t)n;
        return 0;
}

int reach_access_fd(int fd, int mode)
{
        char name[16];
        (void)snprintf(name, sizeof(name), "%d", fd);
        return fd_access(proc_fds, name, mode);
}

static struct slice dir_path(const struct spot *s)
{
        return slice_from(s->path, s->dir_n);
}

static bool is_name(const char *path)
{
        return path[0] && !strchr(path, '/') && strcmp(path, ".") != 0 && strcmp(path, "..") != 0;
}

/* Sets the name of the spot, and appends it to the path of the directory. */
static int spot_set_name(struct spot *s, struct slice name)
{
        size_t slash = s->dir_n > 1;
        if (name.n > NAME_MAX || s->dir_n + slash + name.n >= sizeof(s->path))
                return -ENAMETOOLONG;
        memcpy(s->name, name.p, name.n);
        s->name[name.n] = '\0';
        s->n = s->dir_n;
        if (slash)
                s->path[s->n++] = '/';
        memcpy(s->path + s->n, name.p, name.n);
        s->n += name.n;
        s->path[s->n] = '\0';
        return 0;
}

/* Makes the spot mean its directory itself. */
static int spot_set_self(struct spot *s)
{
        memcpy(s->name, ".", 2);
        s->n = s->dir_n;
        s->path[s->n] = '\0';
        return 0;
}

/* ---- telling what was refused */

/* Appends the names of `rest` to a path, up to one that cannot be appended as text: "..", or one for which there is no room. */
static size_t append_names(char path[PATH_MAX], size_t n, const char *rest)
{
        for (;;) {
                rest += strspn(rest, "/");
                size_t length = strcspn(rest, "/"), slash = n > 1;
                struct slice name = slice_from(rest, length);
                if (length == 0 || slice_eq(name, S("..")) || n + slash + length >= PATH_MAX)
                        return n;
                rest += length;
                if (slice_eq(name, S(".")))
                        continue;
                if (slash)
                        path[n++] = '/';
                memcpy(path + n, name.p, length);
                n += length;
        }
}

/* Notes that `at`, a part of the path of a request, was refused. The path that is told has the names behind it, as the request or
 * a link spelled them: whether they exist makes no difference. */
static void note_part(int r, enum reach_operation operation, const struct reach_reason *reason,
                      struct slice at, const char *name, const char *rest)
{
        char path[PATH_MAX];
        size_t n = MIN(at.n, sizeof(path) - 1);
        memcpy(path, at.p, n);
        n = append_names(path, n, name);
        if (strcmp(name, "..") != 0)
                n = append_names(path, n, rest);
        refusal_note(r, operation, reason, slice_from(path, n));
}

/* Asks the rules about `at`, and notes a refusal. */
static int judge_part(const struct spot *s, enum reach_deed deed, struct slice at, const char *name,
                      const char *rest)
{
        struct reach_reason reason;
        int r = reach_judge(reach, deed, at);
        if (r < 0 && reach_explain(reach, deed, at, &reason))
                note_part(r, s->operation, &reason, at, name, rest);
        return r;
}

/* ---- following a path */

/* The state of following one path. */
struct way {
        struct spot *spot; /* the directory and the name that were reached */
        enum reach_links links;
        int link_count;      /* how many links were followed */
        char rest[PATH_MAX]; /* the part of the path that is not followed yet */
};

static int way_begin(struct way *w, int dirfd, const char *path)
{
        struct spot *s = w->spot;
        size_t n = strlen(path);
        if (n == 0)
                return -ENOENT;
        if (n >= sizeof(w->rest))
                return -ENAMETOOLONG;
        memcpy(w->rest, path, n + 1);
        spot_release(s);
        if (path[0] != '/') {
                s->dirfd = dirfd;
                return reach_where_is(dirfd, s->path, &s->dir_n);
        }
        s->dirfd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (s->dirfd < 0)
                return -errno;
        s->is_own = true;
        s->path[0] = '/';
        s->dir_n = 1;
        return 0;
}

/* Takes the next name off the rest of the path. Returns an empty slice when there is none, or when it is too long: then
 * *ret_error is set. */
static struct slice way_next(struct way *w, char name[NAME_MAX + 1], int *ret_error)
{
        char *from = w->rest + strspn(w->rest, "/");
        size_t n = strcspn(from, "/");
        *ret_error = n > NAME_MAX ? -ENAMETOOLONG : 0;
        if (*ret_error < 0)
                return slice_from(name, 0);
        memcpy(name, from, n);
        name[n] = '\0';
        memmove(w->rest, from + n, strlen(from + n) + 1);
        return slice_from(name, n);
}

/* Returns whether only slashes are left of the path. */
static bool way_is_over(const struct way *w)
{
        return w->rest[strspn(w->rest, "/")] == '\0';
}

static int way_move(struct way *w, int fd)
{
        if (fd < 0)
                return -errno;
        spot_release(w->spot);
        w->spot->dirfd = fd;
        w->spot->is_own = true;
        return 0;
}

static int way_up(struct way *w)
{
        struct spot *s = w->spot;
        int r = way_move(w, openat(s->dirfd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
        while (r == 0 && s->dir_n > 1 && s->path[s->dir_n - 1] != '/')
                s->dir_n--;
        if (r == 0 && s->dir_n > 1)
                s->dir_n--;
        return r;
}

/* Puts the text of the link `name` in front of the rest of the path. Returns 0 or -errno; -EINVAL when `name` is no link. */
static int way_link(struct way *w, const char *name)
{
        char text[PATH_MAX];
        ssize_t n = readlinkat(w->spot->dirfd, name, text, sizeof(text) - 1);
        if (n < 0)
                return -errno;
        if (n == 0)
                return -ENOENT;
        /* The text of a link tells something about its target, so reading it needs the right to read. */
        int r = spot_set_name(w->spot, slice_from_str(name));
        if (r == 0)
                r = judge_part(w->spot, REACH_LOOK, spot_path(w->spot), "", w->rest);
        if (r < 0)
                return r;
        if (++w->link_count > LINKS_MAX)
                return -ELOOP;
        size_t rest = strlen(w->rest);
        if ((size_t)n + rest + 1 > sizeof(w->rest))
                return -ENAMETOOLONG;
        memmove(w->rest + n, w->rest, rest + 1);
        memcpy(w->rest, text, (size_t)n);
        if (text[0] == '/') {
                r = way_move(w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
                if (r < 0)
                        return r;
                w->spot->path[0] = '/';
                w->spot->dir_n = 1;
        }
        return 0;
}

/* Returns the error for a name that cannot be entered because of `r`. A name that the rules make look absent looks so whatever is
 * there, and one that looks like a file is one even if nothing is there. */
static int way_refused(const struct way *w, int r)
{
        const struct spot *s = w->spot;
        struct reach_reason reason;
        if (r == -ENOTDIR && reach_judge(reach, REACH_SEARCH, spot_path(s)) == -ENOENT)
                r = -ENOENT;
        int why = r == -ENOENT ? judge_part(s, REACH_AS_DIRECTORY, spot_path(s), "", w->rest) : 0;
        if (why < 0)
                return why;
        if (r == -ENOENT && reach_explain_missing(reach, spot_path(s), &reason))
                note_part(r, s->operation, &reason, spot_path(s), "", w->rest);
        return r;
}

static int way_down(struct way *w, struct slice name)
{
        struct spot *s = w->spot;
        int fd = openat(s->dirfd, name.p, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int e = errno;
        if (fd < 0 && e == ENOTDIR && w->links != REACH_NO_LINKS) {
                int r = way_link(w, name.p);
                if (r != -EINVAL)
                        return r;
        }
        int r = spot_set_name(s, name);
        if (r < 0 || fd < 0) {
                fd_close(fd);
                return r < 0 ? r : way_refused(w, -e);
        }
        s->dir_n = s->n;
        return way_move(w, fd);
}

/* Handles the last name of the path. Returns 0 or -errno; 1 when it was a link, whose text is followed next. */
static int way_last(struct way *w, struct slice name)
{
        bool has_slash = w->rest[0] == '/';
        w->spot->wants_directory |= has_slash;
        if (w->links == REACH_FOLLOW || (has_slash && w->links == REACH_NOT_LAST)) {
                int r = way_link(w, name.p);
                if (r == 0)
                        return 1;
                if (r != -EINVAL && r != -ENOENT)
                        return r;
        }
        w->rest[0] = '\0';
        return spot_set_name(w->spot, name);
}

static int way_walk(struct way *w)
{
        for (;;) {
                char room[NAME_MAX + 1];
                int r;
                struct slice name = way_next(w, room, &r);
                if (r < 0)
                        return r;
                if (name.n == 0)
                        return spot_set_self(w->spot);
                r = judge_part(w->spot, REACH_SEARCH, dir_path(w->spot), name.p, w->rest);
                if (r < 0)
                        return r;
                if (slice_eq(name, S(".")))
                        continue;
                if (slice_eq(name, S("..")))
                        r = way_up(w);
                else if (!way_is_over(w))
                        r = way_down(w, name);
                else if ((r = way_last(w, name)) == 0)
                        return 0;
                if (r < 0)
                        return r;
        }
}

/* Returns whether the directory is at the path at which we expect it. */
static bool spot_is_in_place(const struct spot *s)
{
        char now[PATH_MAX];
        size_t n;
        return reach_where_is(s->dirfd, now, &n) == 0 && slice_eq(slice_from(now, n), dir_path(s));
}

int reach_locate(int dirfd, const char *path, enum reach_links links, enum reach_operation operation,
                 struct spot *ret)
{
        *ret = (struct spot){ .dirfd = dirfd, .operation = operation };
        if (is_name(path) && links != REACH_FOLLOW) { /* nothing to walk */
                int r = reach_where_is(dirfd, ret->path, &ret->dir_n);
                if (r == 0)
                        r = judge_part(ret, REACH_SEARCH, dir_path(ret), path, "");
                return r < 0 ? r : spot_set_name(ret, slice_from_str(path));
        }
        for (int i = 0; i < REACH_TRIES_MAX; i++) {
                struct way w = { .spot = ret, .links = links };
                ret->wants_directory = false;
                int r = way_begin(&w, dirfd, path);
                if (r == 0)
                        r = way_walk(&w);
                if (r < 0)
                        return r;
                if (spot_is_in_place(ret))
                        return 0;
        }
        return -EAGAIN;
}

int reach_locate_new(int dirfd, const char *path, struct spot *ret)
{
        *ret = (struct spot){ .dirfd = dirfd, .operation = REACH_OPERATION_WRITE };
        int r = reach_where_is(dirfd, ret->path, &ret->n);
        if (r < 0)
                return r;
        size_t slash = ret->n > 1, n = strlen(path);
        if (ret->n + slash + n >= sizeof(ret->path))
                return -ENAMETOOLONG;
        if (slash)
                ret->path[ret->n++] = '/';
        memcpy(ret->path + ret->n, path, n + 1);
        ret->n += n;
        return 0;
}

bool reach_is_in_cover(const char *path)
{
        _spot_ struct spot s = { .dirfd = -1, .operation = REACH_OPERATION_WRITE };
        struct way w = { .spot = &s, .links = REACH_FOLLOW };
        int r = way_begin(&w, AT_FDCWD, path);
        if (r == 0)
                r = way_walk(&w);
        /* The path may lead to a covered directory itself, or to a name in it. */
        bool is_cover = reach_is_cover(reach, spot_path(&s));
        struct slice cover = is_cover ? spot_path(&s) : dir_path(&s);
        struct reach_reason reason;
        if (!is_cover && !reach_is_cover(reach, cover))
                return false;
        /* The caller answers that a file system is read-only. */
        if (reach_explain(reach, REACH_PUT, cover, &reason))
                note_part(-EROFS, REACH_OPERATION_WRITE, &reason, cover, is_cover ? "" : s.name, w.rest);
        (void)refusal_settle(-EROFS);
        return true;
}
