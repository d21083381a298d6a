/* walk: lists what is below a directory, breadth first.
 *
 * A directory that waits to be entered is kept as a path, not as a descriptor: there may be ten thousand. It is opened relative to
 * the descriptor of the root, and without following links unless the options ask for that, so that a link that is put in its place
 * meanwhile does not lead out of the tree.
 */
#include "fsop/walk.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/uri.h"
#include "fsop/at.h"
#include "fsop/list_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define URI_BYTES_MAX \
        ((size_t)256 * 1024) /* a path of WALK_DEPTH_MAX names below one of PATH_MAX, all of it escaped */

struct pending {
        struct slice path; /* with a NUL behind it */
        uint64_t depth;
};

struct walk {
        struct arena *arena;
        const struct walk_options *options;
        struct walk_result *result;
        size_t root_length; /* length of the root's path with a slash behind it */
        int root_fd;

        struct pending *queue;
        size_t queue_room, queued, entered;
        size_t items_room, errors_room;

        uint64_t examined;
        size_t answer_bytes;
        struct map seen; /* device and inode of the directories queued; only when links are followed */
        struct buf uri;  /* the URI of the item that is counted */
};

static void walk_release(struct walk *w)
{
        fd_close(w->root_fd);
        map_release(&w->seen);
        buf_release(&w->uri);
}

/* Counts the item against the size of the answer. Returns false when it does not fit: then the walk is truncated. */
static bool spend(struct walk *w, struct slice path, size_t message_bytes)
{
        buf_truncate(&w->uri, 0);
        bool fits = uri_from_path(&w->uri, path) == 0;
        size_t cost = WALK_ITEM_BYTES + w->uri.n + message_bytes;

        if (!fits || cost > WALK_ANSWER_BYTES - w->answer_bytes) {
                w->result->is_truncated = true;
                return false;
        }
        w->answer_bytes += cost;
        return true;
}

static bool add_item(struct walk *w, struct slice path, bool is_directory)
{
        struct walk_result *r = w->result;

        if (!spend(w, path, 0))
                return false;
        r->items = arena_room(w->arena, r->items, r->count, &w->items_room, sizeof(r->items[0]));
        r->items[r->count++] = (struct walk_item){ .path = path, .is_directory = is_directory };
        return true;
}

/* Copies the refusal because of which something failed with the error `e`. Returns NULL when it was not a refusal. */
static const struct reach_refusal *refusal_of(struct walk *w, int e)
{
        struct reach_refusal found;
        reach_blame(-e);
        if (!reach_blamed(-e, &found))
                return NULL;
        struct reach_refusal *own = arena_alloc(w->arena, sizeof(*own));
        *own = found;
        own->path.p = arena_dup(w->arena, found.path);
        return own;
}

static bool add_error(struct walk *w, struct slice path, int e)
{
        struct walk_result *r = w->result;
        char *message = arena_printf(w->arena, "%s (os error %d)", errno_text(e), -e);
        const struct reach_refusal *denied = refusal_of(w, e);
        size_t bytes = strlen(message);

        /* In a URI three bytes may stand for one. */
        if (denied)
                bytes += WALK_ITEM_BYTES + 3 * denied->path.n + denied->reason.entry.n;
        if (!spend(w, path, bytes))
                return false;
        r->errors = arena_room(w->arena, r->errors, r->error_count, &w->errors_room, sizeof(r->errors[0]));
        r->errors[r->error_count++] =
                (struct walk_error){ .path = path, .message = message, .denied = denied };
        return true;
}

/* Marks the directory as seen. Returns false when it was seen before. */
static bool mark_seen(struct walk *w, const struct stat *st)
{
        uint64_t *key = arena_alloc(w->arena, 2 * sizeof(*key));
        struct slice bytes = slice_from(key, 2 * sizeof(*key));

        key[0] = st->st_dev;
        key[1] = st->st_ino;
        if (map_find(&w->seen, bytes))
                return false;
        map_put(&w->seen, bytes, key);
        return true;
}

static void enqueue(struct walk *w, struct slice path, uint64_t depth)
{
        w->queue = arena_room(w->arena, w->queue, w->queued, &w->queue_room, sizeof(w->queue[0]));
        w->queue[w->queued++] = (struct pending){ .path = path, .depth = depth };
}

/* Queues a directory that was listed, unless the options or the limits forbid to enter it. Returns false when the walk is over. */
static bool consider(struct walk *w, int dirfd, const struct pending *parent, const struct fs_entry *e,
                     struct slice path)
{
        struct stat st;

        if (parent->depth >= w->options->max_depth)
                return true;
        if (w->options->prunes_hidden && e->name.p[0] == '.')
                return true;
        if (w->options->follows_directory_links) {
                if (at_stat(dirfd, e->name.p, &st, 0) < 0)
                        return add_error(w, path, -errno);
                if (!mark_seen(w, &st))
                        return true;
        }
        if (w->queued >= w->options->max_directories) {
                w->result->is_truncated = true;
                return true;
        }
        enqueue(w, path, parent->depth + 1);
        return true;
}

static struct slice join(struct walk *w, struct slice directory, struct slice name)
{
        bool has_slash = directory.p[directory.n - 1] == '/';
        size_t n = directory.n + !has_slash + name.n;
        char *path = arena_alloc(w->arena, n + 1), *p = path;

        p = mempcpy(p, directory.p, directory.n);
        if (!has_slash)
                *p++ = '/';
        p = mempcpy(p, name.p, name.n);
        *p = '\0';
        return slice_from(path, n);
}

/* Examines a name, and lists it where the options say so. Returns false when the walk is over. */
static bool examine(struct walk *w, int dirfd, const struct pending *parent, const struct fs_entry *e,
                    bool is_searchable)
{
        if (w->examined++ >= w->options->max_entries) {
                w->result->is_truncated = true;
                return false;
        }
        if (!is_searchable)
                return add_error(w, join(w, parent->path, e->name), -EACCES);
        if (!e->is_directory && !e->is_file)
                return true;
        if (e->is_symlink && !(e->is_directory && w->options->follows_directory_links))
                return true;

        struct slice path = join(w, parent->path, e->name);
        if (!add_item(w, path, e->is_directory))
                return false;
        return e->is_file || consider(w, dirfd, parent, e, path);
}

/* Examines all names in a directory; `dirfd` may be an -errno, which is added as an error. Returns false when the walk is over. */
static bool enter(struct walk *w, const struct pending *p, int dirfd)
{
        _arena_ struct arena names = ARENA_INIT;
        struct listing list;
        struct stat st;

        if (dirfd < 0)
                return add_error(w, p->path, dirfd);

        /* Reads one name more than may be examined, to know whether the walk is truncated. */
        int r = list_read(&names, dirfd, (size_t)(w->options->max_entries - w->examined) + 1, &list);
        if (r < 0)
                return add_error(w, p->path, r);

        /* In a directory that may be read but not searched, names can be listed but not examined. */
        bool is_searchable = at_stat(dirfd, ".", &st, 0) == 0 || errno != EACCES;
        for (size_t i = 0; i < list.count; i++)
                if (!examine(w, dirfd, p, &list.entries[i], is_searchable))
                        return false;
        return true;
}

static int check_options(const struct walk_options *o, struct err *err)
{
        if (o->max_directories == 0 || o->max_entries == 0)
                return fsop_refuse(err, "filesystem walk limits must be greater than zero");
        if (o->max_depth > WALK_DEPTH_MAX || o->max_directories > WALK_DIRECTORIES_MAX ||
            o->max_entries > WALK_ENTRIES_MAX)
                return fsop_refuse(
                        err, "filesystem walk limits exceed maximums: depth=%d, directories=%d, entries=%d",
                        WALK_DEPTH_MAX, WALK_DIRECTORIES_MAX, WALK_ENTRIES_MAX);
        return 0;
}

/* Finds out why the root could not be opened. Returns 0 when nothing is below it, 1 when it is a directory that may not be read, or
 * -errno. */
static int look_at_root(const char *path, bool follow, struct err *err)
{
        struct stat st;

        if (at_stat(AT_FDCWD, path, &st, 0) < 0)
                return fsop_fail(err, errno);
        if (!S_ISDIR(st.st_mode))
                return 0;
        return follow || (at_stat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode));
}

static void walk_all(struct walk *w)
{
        bool goes_on = enter(w, &w->queue[0], w->root_fd);

        for (size_t i = 1; goes_on && i < w->queued; i++) {
                struct pending p = w->queue[i]; /* a copy: the queue may move */
                _close_ int fd = fsop_open_at(w->root_fd, p.path.p + w->root_length, O_RDONLY | O_DIRECTORY,
                                              0, w->options->follows_directory_links);
                goes_on = enter(w, &p, fd);
        }
}

int fsop_walk(struct arena *a, const char *path, const struct walk_options *o, struct walk_result *ret,
              struct err *err)
{
        int r = check_options(o, err);
        if (r < 0)
                return r;

        struct slice root = slice_from_str(path);
        while (root.n > 1 && root.p[root.n - 1] == '/')
                root.n--; /* a slash at the end would hide that the root is a link */
        root.p = arena_dup(a, root);

        int fd = fsop_open(root.p, O_RDONLY | O_DIRECTORY | (o->follows_directory_links ? 0 : O_NOFOLLOW), 0,
                           true);
        struct walk_result result = { 0 };
        CLEANUP(walk_release)
        struct walk w = {
                .arena = a,
                .options = o,
                .result = &result,
                .root_fd = fd,
                .root_length = root.n > 1 ? root.n + 1 : 1,
                .uri = BUF_INIT(URI_BYTES_MAX),
        };
        map_init(&w.seen);

        r = fd < 0 ? look_at_root(root.p, o->follows_directory_links, err) : 1;
        if (r < 0)
                return r;
        if (r > 0) {
                struct stat st;
                if (fd >= 0 && fstat(fd, &st) == 0)
                        (void)mark_seen(&w, &st);
                enqueue(&w, root, 0);
                walk_all(&w);
        }
        *ret = result;
        return 0;
}
