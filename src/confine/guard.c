/* guard: watches the directories on the way to the masks of sandboxes, and stops watching them. */
#include "base/fd.h"
#include "base/mem.h"
#include "confine/guard_internal.h"
#include "sandbox/image.h"

#include <errno.h>
#include <sys/inotify.h>

#define EVENTS (IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK)

/* Makes the lock with priority inheritance: a thread that holds it while the urgent thread waits gets the same priority. */
static void lock_init(pthread_mutex_t *lock)
{
        pthread_mutexattr_t attr;
        pthread_mutexattr_init(&attr);
        (void)pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
        pthread_mutex_init(lock, &attr);
        pthread_mutexattr_destroy(&attr);
}

int guard_new(struct guard **ret, struct err *err)
{
        int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        if (fd < 0) {
                int r = -errno;
                err->step = "guard";
                err->os_errno = -r;
                err->remedy = "raise fs.inotify.max_user_instances";
                return err_set(err, 0, r, "inotify: %s (os error %d)", errno_text(r), -r);
        }
        struct guard *g = mem_new(struct guard);
        g->fd = fd;
        g->told_fd = g->stop_fd = -1;
        lock_init(&g->lock);
        map_init(&g->directories);
        list_init(&g->unused);
        map_init(&g->names);
        list_init(&g->to_tell);
        *ret = g;
        return 0;
}

int guard_fd(const struct guard *g)
{
        return g->has_thread ? g->told_fd : g->fd;
}

/* ---- holds and their guarded names ---- */

static struct slice key_of(const int *wd)
{
        return slice_from(wd, sizeof(*wd));
}

struct slice guard_key(int wd, struct slice name, char ret[GUARD_KEY_MAX])
{
        memcpy(ret, &wd, sizeof(wd));
        memcpy(ret + sizeof(wd), name.p, name.n);
        return slice_from(ret, sizeof(wd) + name.n);
}

/* The lock is held here and in all functions below that do not say otherwise. */
static void name_free(struct guard *g, struct guarded_name *n)
{
        struct watched_name *name = n->name;
        list_remove(&n->in_name);
        list_remove(&n->in_hold);
        g->name_count--;
        free(n);
        if (!list_is_empty(&name->guarded))
                return;
        if (--name->directory->name_count == 0)
                list_append(&g->unused, &name->directory->unused);
        map_remove(&g->names, slice_from(name->key, name->n));
        free(name);
}

/* Stops watching directories that hold no guarded names any more. */
static void directories_sweep(struct guard *g)
{
        struct watched *d;
        if (g->adding > 0)
                return;
        list_each (d, &g->unused, unused) {
                /* Fails when the directory was removed, because that has ended the watch. */
                (void)inotify_rm_watch(g->fd, d->wd);
                list_remove(&d->unused);
                free(map_remove(&g->directories, key_of(&d->wd)));
        }
}

static struct watched *directory_get(struct guard *g, int wd)
{
        struct watched *d = map_find(&g->directories, key_of(&wd));
        if (d)
                return d;
        d = mem_new(struct watched);
        d->wd = wd;
        list_init(&d->unused);
        map_put(&g->directories, key_of(&d->wd), d);
        return d;
}

static struct watched_name *name_get(struct guard *g, int wd, struct slice name)
{
        char room[GUARD_KEY_MAX];
        struct slice key = guard_key(wd, name, room);
        struct watched_name *n = map_find(&g->names, key);
        if (n)
                return n;
        n = mem_zalloc(sizeof(*n) + key.n);
        n->directory = directory_get(g, wd);
        n->directory->name_count++;
        list_remove(&n->directory->unused);
        list_init(&n->guarded);
        n->n = key.n;
        memcpy(n->key, key.p, key.n);
        map_put(&g->names, slice_from(n->key, n->n), n);
        return n;
}

/* Releases the lock while it adds the watch, because a file system that hangs must not block other callers. An event that
 * arrives before the entry exists is lost. That does no harm: the change was made before the sandbox is built, and building
 * compares identities. */
static int watch_add(struct guard *g, const char *path)
{
        g->adding++;
        pthread_mutex_unlock(&g->lock);
        int wd = inotify_add_watch(g->fd, path, EVENTS);
        int r = wd < 0 ? -errno : wd;
        pthread_mutex_lock(&g->lock);
        g->adding--;
        return r;
}

/* Is it safe not to watch this directory? A directory that the server cannot read cannot be watched. When it belongs to
 * another user, only that user can rename in it. From a directory of its own user a command can remove the read permission. */
static bool can_do_without(struct slice directory, int r)
{
        char path[PATH_MAX];
        struct stat st;
        if (r != -EACCES || directory.n >= sizeof(path))
                return false;
        memcpy(path, directory.p, directory.n);
        path[directory.n] = 0;
        return lstat(path, &st) == 0 && st.st_uid != geteuid();
}

static int name_add(struct guard *g, struct guard_hold *h, struct slice directory, struct slice name,
                    size_t op, bool is_placeholder)
{
        char path[PATH_MAX];
        if (directory.n >= sizeof(path) || name.n > NAME_MAX)
                return -ENAMETOOLONG;
        if (g->name_count == GUARD_NAMES_MAX)
                return -ENOSPC;
        memcpy(path, directory.p, directory.n);
        path[directory.n] = 0;
        int wd = watch_add(g, path);
        if (wd < 0)
                return wd;
        struct guarded_name *n = mem_new(struct guarded_name);
        n->hold = h;
        n->name = name_get(g, wd, name);
        n->op = op;
        n->is_placeholder = is_placeholder;
        list_append(&n->name->guarded, &n->in_name);
        list_append(&h->names, &n->in_hold);
        g->name_count++;
        return 0;
}

/* Guards every name on the way from the root to `path`, except those that `before`, the previous path, shares. */
static int path_add(struct guard *g, struct guard_hold *h, struct slice path, struct slice before, size_t op,
                    bool is_placeholder)
{
        size_t from = 1;
        for (size_t n = 1; n <= path.n; n++) {
                if (n < path.n && path.p[n] != '/')
                        continue;
                struct slice above = from == 1 ? S("/") : slice_from(path.p, from - 1);
                struct slice so_far = slice_from(path.p, n), name = slice_from(path.p + from, n - from);
                int r = path_is_within(before, so_far)
                                ? 0
                                : name_add(g, h, above, name, op, is_placeholder && n == path.n);
                if (r < 0 && !can_do_without(above, r))
                        return r;
                from = n + 1;
        }
        return 0;
}

static bool is_placeholder(const struct plan *plan, size_t op)
{
        for (size_t i = 0; i < plan->placeholder_count; i++)
                if (plan->placeholders[i].op == op)
                        return true;
        return false;
}

int guard_hold(struct guard *g, const struct plan *plan, struct image *image, struct guard_hold **ret,
               struct err *err)
{
        *ret = NULL;
        struct guard_hold *h = mem_new(struct guard_hold);
        h->image = image;
        list_init(&h->names);
        list_init(&h->to_tell);
        struct slice before = S("");
        int r = 0;
        pthread_mutex_lock(&g->lock);
        for (size_t i = 0; r == 0 && i < plan->op_count; i++) {
                if (!plan->ops[i].is_guarded)
                        continue;
                r = path_add(g, h, plan->ops[i].path, before, i, is_placeholder(plan, i));
                before = plan->ops[i].path;
        }
        pthread_mutex_unlock(&g->lock);
        if (r == 0 && !list_is_empty(&h->names)) {
                *ret = h;
                return 0;
        }
        (void)guard_let_go(g, h);
        if (r == 0)
                return 0;
        err->step = "guard";
        err->os_errno = -r;
        err->remedy =
                r == -ENOSPC ? "raise fs.inotify.max_user_watches, or run fewer commands with masks at a time"
                             : NULL;
        return err_set(err, 0, r, "masks cannot be guarded: %s (os error %d)", errno_text(r), -r);
}

struct guard_hold *guard_let_go(struct guard *g, struct guard_hold *h)
{
        if (!h)
                return NULL;
        struct guarded_name *n;
        pthread_mutex_lock(&g->lock);
        list_each (n, &h->names, in_hold)
                name_free(g, n);
        directories_sweep(g);
        list_remove(&h->to_tell);
        pthread_mutex_unlock(&g->lock);
        free(h);
        return NULL;
}

void guard_allow_missing(struct guard *g, struct guard_hold *h, const struct image *i)
{
        const struct image_op *ops = image_at(i, i->ops);
        struct guarded_name *n;
        pthread_mutex_lock(&g->lock);
        list_each (n, &h->names, in_hold)
                n->may_go = n->is_placeholder && ops[n->op].may_be_missing;
        pthread_mutex_unlock(&g->lock);
}

void guard_set_owner(struct guard *g, struct guard_hold *h, void *owner)
{
        pthread_mutex_lock(&g->lock);
        h->owner = owner;
        pthread_mutex_unlock(&g->lock);
}

struct guard *guard_free(struct guard *g)
{
        if (!g)
                return NULL;
        must(g->name_count == 0 && g->adding == 0);
        guard_stop(g);
        directories_sweep(g);
        map_release(&g->names);
        map_release(&g->directories);
        pthread_mutex_destroy(&g->lock);
        fd_close(g->fd);
        free(g);
        return NULL;
}
