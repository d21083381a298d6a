/* guard: see guard.h. */
#include "sandbox/guard.h"

#include "base/fd.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "sandbox/image.h"
#include "sandbox/plan_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define EVENTS (IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK)
#define READ_BYTES (64 * 1024)

/* A watched directory. */
struct watched {
        int wd;
        size_t name_count;  /* in it, that matter */
        struct list unused; /* guard::unused, when there is none */
};

/* A name in a directory, and who guards it. Events come by the million, so it is found at once. */
struct watched_name {
        struct watched *directory;
        struct list guarded; /* guarded_name::in_name */
        size_t n;
        char key[]; /* the number of the watch, then the name */
};

struct guarded_name {
        struct list in_name; /* watched_name::guarded */
        struct list in_hold; /* guard_hold::names */
        struct guard_hold *hold;
        struct watched_name *name;
        bool is_stub;
};

struct guard_hold {
        struct list names;  /* guarded_name::in_hold */
        struct list broken; /* while guard_read works */
        void *owner;
        enum guard_event event; /* of those that it is told of */
};

struct guard {
        int fd;
        pthread_mutex_t lock;
        struct map directories; /* watched, by wd */
        struct list unused;     /* watched::unused: to be let go of */
        struct map names;       /* watched_name, by its key */
        size_t name_count;
        size_t adding; /* threads between a watch and its entry here: meanwhile no watch is removed */
};

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
        pthread_mutex_init(&g->lock, NULL);
        map_init(&g->directories);
        list_init(&g->unused);
        map_init(&g->names);
        *ret = g;
        return 0;
}

int guard_fd(const struct guard *g)
{
        return g->fd;
}

/* ---- holding ---- */

static struct slice key_of(const int *wd)
{
        return slice_from(wd, sizeof(*wd));
}

#define KEY_MAX (sizeof(int) + NAME_MAX)

static struct slice name_key(int wd, struct slice name, char ret[KEY_MAX])
{
        memcpy(ret, &wd, sizeof(wd));
        memcpy(ret + sizeof(wd), name.p, name.n);
        return slice_from(ret, sizeof(wd) + name.n);
}

/* The lock is held, here and in all that follows unless it is said. */
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

/* Directories in which nothing matters any more. */
static void directories_sweep(struct guard *g)
{
        struct watched *d;
        if (g->adding > 0)
                return;
        list_each (d, &g->unused, unused) {
                (void)inotify_rm_watch(g->fd,
                                       d->wd); /* fails when the directory has gone: it is over already */
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
        char room[KEY_MAX];
        struct slice key = name_key(wd, name, room);
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

/* Lets go of the lock: a file system that does not answer must not stop the others. An event that comes before the entry
 * is lost; but then the change was before the building of the sandbox, which compares. */
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

static int name_add(struct guard *g, struct guard_hold *h, struct slice directory, struct slice name,
                    bool is_stub)
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
        n->is_stub = is_stub;
        list_append(&n->name->guarded, &n->in_name);
        list_append(&h->names, &n->in_hold);
        g->name_count++;
        return 0;
}

/* Every name on the way from the root to `path`, but for those that the path before had as well. */
static int path_add(struct guard *g, struct guard_hold *h, struct slice path, struct slice before,
                    bool is_stub)
{
        size_t from = 1;
        for (size_t n = 1; n <= path.n; n++) {
                if (n < path.n && path.p[n] != '/')
                        continue;
                struct slice above = from == 1 ? S("/") : slice_from(path.p, from - 1);
                struct slice so_far = slice_from(path.p, n), name = slice_from(path.p + from, n - from);
                int r = path_is_within(before, so_far) ? 0
                                                       : name_add(g, h, above, name, is_stub && n == path.n);
                /* A directory that we cannot read cannot be watched. It is not ours, so only its owner can rename in it. */
                if (r < 0 && r != -EACCES)
                        return r;
                from = n + 1;
        }
        return 0;
}

static bool is_stub(const struct plan *plan, size_t op)
{
        for (size_t i = 0; i < plan->stub_count; i++)
                if (plan->stubs[i].op == op)
                        return true;
        return false;
}

int guard_hold(struct guard *g, const struct plan *plan, struct guard_hold **ret, struct err *err)
{
        *ret = NULL;
        struct guard_hold *h = mem_new(struct guard_hold);
        list_init(&h->names);
        list_init(&h->broken);
        struct slice before = S("");
        int r = 0;
        pthread_mutex_lock(&g->lock);
        for (size_t i = 0; r == 0 && i < plan->op_count; i++) {
                if (!plan->ops[i].is_guarded)
                        continue;
                r = path_add(g, h, plan->ops[i].path, before, is_stub(plan, i));
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
        list_remove(&h->broken);
        pthread_mutex_unlock(&g->lock);
        free(h);
        return NULL;
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
        directories_sweep(g);
        map_release(&g->names);
        map_release(&g->directories);
        pthread_mutex_destroy(&g->lock);
        fd_close(g->fd);
        free(g);
        return NULL;
}

/* ---- events ---- */

/* What was removed and made anew may have the old number, but was born later. */
static bool is_as_it_was(const char *path, const struct image_op *op, bool must_be_sure)
{
        struct statx st;
        if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_INO | STATX_BTIME, &st) < 0)
                return false;
        if (makedev(st.stx_dev_major, st.stx_dev_minor) != op->dev || st.stx_ino != op->ino)
                return false;
        return op->born ? image_born(&st) == op->born : !must_be_sure;
}

bool guard_is_intact(const struct image *i, bool must_be_sure)
{
        const struct image_op *ops = image_at(i, i->ops);
        for (uint32_t n = 0; n < i->op_count; n++) {
                if (!ops[n].is_guarded || ops[n].may_miss)
                        continue;
                char path[PATH_MAX];
                int length = snprintf(path, sizeof(path), "/%s", (const char *)image_at(i, ops[n].path));
                if (length >= (int)sizeof(path) || !is_as_it_was(path, &ops[n], must_be_sure))
                        return false;
        }
        return true;
}

static void hold_hit(struct guard_hold *h, enum guard_event event, struct list *broken)
{
        if (!list_is_linked(&h->broken)) {
                h->event = event;
                list_append(broken, &h->broken);
        }
        h->event = MAX(h->event, event);
}

static void name_hit(struct guarded_name *n, struct list *broken)
{
        hold_hit(n->hold, n->is_stub ? GUARD_STUB : GUARD_BROKEN, broken);
}

/* Something was lost: nobody knows what, so everybody is suspect. */
static void all_hit(struct guard *g, struct list *broken)
{
        const struct watched_name *name;
        struct guarded_name *n;
        for (size_t pos = 0; (name = map_next(&g->names, &pos));)
                list_each (n, &name->guarded, in_name)
                        hold_hit(n->hold, GUARD_LOST, broken);
}

static void event_take(struct guard *g, const struct inotify_event *e, struct list *broken)
{
        if (e->mask & IN_Q_OVERFLOW) {
                all_hit(g, broken);
                return;
        }
        size_t length = strnlen(e->name, e->len);
        if (length == 0 || length > NAME_MAX)
                return;
        char room[KEY_MAX];
        const struct watched_name *name =
                map_find(&g->names, name_key(e->wd, slice_from(e->name, length), room));
        struct guarded_name *n;
        if (name)
                list_each (n, &name->guarded, in_name)
                        name_hit(n, broken);
}

/* The bytes that were taken; 0 at the end. */
static size_t events_read(struct guard *g, struct list *broken)
{
        _Alignas(struct inotify_event) char room[READ_BYTES];
        ssize_t n = read(g->fd, room, sizeof(room));
        for (ssize_t at = 0; at < n;) {
                const struct inotify_event *e = (const void *)(room + at);
                event_take(g, e, broken);
                at += (ssize_t)(sizeof(*e) + e->len);
        }
        return n > 0 ? (size_t)n : 0;
}

/* What is there now, and no more: a command could make events for as long as we read them. */
static void queue_read(struct guard *g, struct list *broken)
{
        int queued = 0;
        (void)ioctl(g->fd, FIONREAD, &queued);
        for (size_t done = 0, n; done < (size_t)MAX(queued, 1); done += n) {
                n = events_read(g, broken);
                if (n == 0)
                        return;
        }
}

void guard_read(struct guard *g, void (*told)(void *owner, enum guard_event event))
{
        struct list hit;
        list_init(&hit);
        pthread_mutex_lock(&g->lock);
        queue_read(g, &hit);
        for (;;) {
                struct guard_hold *h = list_first(&hit, struct guard_hold, broken);
                if (!h)
                        break;
                list_remove(&h->broken);
                void *owner = h->owner;
                enum guard_event event = h->event;
                pthread_mutex_unlock(&g->lock); /* it may let go of this one, or of others */
                if (owner)
                        told(owner, event);
                pthread_mutex_lock(&g->lock);
        }
        pthread_mutex_unlock(&g->lock);
}
