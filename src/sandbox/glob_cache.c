/* glob_cache: see glob_cache.h.
 *
 * A watch belongs to an inode: two sets that read the same directory, or one that reads it in two places, share it, so
 * each has a list of nodes. Its number is never given out again, so an event of a watch that is gone is known as such.
 *
 * Events are applied to every set, whoever asks. What goes wrong with a set on the way only spoils that set; it is
 * released after the events are read, and read again in full when it is asked for.
 */
#include "sandbox/glob_cache.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/glob_mounts_internal.h"
#include "sandbox/glob_tree_internal.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define WATCH_MASK ((uint32_t)(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR))
#define EVENT_BYTES ((size_t)64 * 1024)
#define EXTRA_ROUNDS 64 /* of events that came while others were read */
#define LOCK_STEP_MS 20 /* between looks at whether the query was cancelled */

struct glob_cache {
        pthread_mutex_t lock;
        int inotify_fd; /* -1: nothing is cached */
        struct glob_mounts mounts;
        struct list sets; /* set::link, most recently used first */
        size_t set_count;
        struct map watches; /* watch by wd */
        uint64_t serial;    /* of the event at hand */
        uint64_t full_scans;
        const atomic_bool *is_cancelled; /* of the query at hand */
        struct glob_keeper keeper;
        char *room; /* for events */
};

struct watch {
        int wd;
        struct list nodes; /* glob_node::watch */
};

/* A query that is remembered. */
struct set {
        struct list link; /* cache::sets */
        struct glob_cache *cache;
        char *key;
        size_t key_n;
        struct glob_tree tree;
        bool is_built;                /* the tree is there */
        bool is_spoilt;               /* and worth nothing */
        bool is_open;                 /* its prefixes are, for the work at hand */
        bool has_overlay;             /* numbers of files are not to be relied on */
        uint64_t plain_until_ms;      /* it could not be watched: not to be tried before */
        uint64_t mounts;              /* digest of what was mounted in it */
        struct glob_matches *matches; /* NULL: to be made from the tree */
};

static struct set *set_of(struct glob_node *node)
{
        return container_of(node->group->tree, struct set, tree);
}

/* ---- Watches */

static struct slice wd_key(const int *wd)
{
        return slice_from(wd, sizeof(*wd));
}

static int on_enter(void *arg, struct glob_node *node, int fd)
{
        struct glob_cache *c = arg;
        char path[sizeof("/proc/self/fd/") + 3 * sizeof(fd)];

        if (map_count(&c->watches) >= GLOB_CACHE_WATCHES)
                return -ENOSPC;
        enum glob_mount_kind kind = glob_mounts_kind(&c->mounts, fd, node->dev);
        if (kind == GLOB_MOUNT_OTHER)
                return -EOPNOTSUPP;
        set_of(node)->has_overlay |= kind == GLOB_MOUNT_OVERLAY;
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        int wd = inotify_add_watch(c->inotify_fd, path, WATCH_MASK);
        if (wd < 0)
                return errno == ENOSPC ? -ENOSPC : -EOPNOTSUPP;

        struct watch *w = map_find(&c->watches, wd_key(&wd));
        if (!w) {
                w = mem_new(struct watch);
                w->wd = wd;
                list_init(&w->nodes);
                map_put(&c->watches, wd_key(&w->wd), w);
        }
        node->watch_owner = w;
        list_append(&w->nodes, &node->watch);
        return 0;
}

static void watch_free(struct glob_cache *c, struct watch *w)
{
        (void)map_remove(&c->watches, wd_key(&w->wd));
        free(w);
}

static void on_leave(void *arg, struct glob_node *node)
{
        struct glob_cache *c = arg;
        struct watch *w = node->watch_owner;

        if (!w)
                return;
        node->watch_owner = NULL;
        list_remove(&node->watch);
        if (list_is_empty(&w->nodes)) {
                (void)inotify_rm_watch(c->inotify_fd, w->wd); /* the kernel may have been first */
                watch_free(c, w);
        }
}

/* ---- Sets */

static void set_empty(struct set *s)
{
        if (s->is_built)
                glob_tree_release(&s->tree);
        s->is_built = s->is_spoilt = s->is_open = s->has_overlay = false;
        s->matches = glob_matches_unref(s->matches);
}

static void set_free(struct set *s)
{
        set_empty(s);
        list_remove(&s->link);
        s->cache->set_count--;
        free(s->key);
        free(s);
}

/* One text for the query: the depth, and each pattern with a NUL. The caller's order is taken as it is. */
static char *query_key(const struct glob_query *q, size_t *ret_n)
{
        size_t n = sizeof(q->depth);
        for (size_t i = 0; i < q->count; i++)
                n += q->patterns[i].n + 1;
        char *key = mem_zalloc(n), *at = key + sizeof(q->depth);
        memcpy(key, &q->depth, sizeof(q->depth));
        for (size_t i = 0; i < q->count; i++) {
                if (q->patterns[i].n)
                        memcpy(at, q->patterns[i].p, q->patterns[i].n);
                at += q->patterns[i].n + 1;
        }
        *ret_n = n;
        return key;
}

/* The set of the query, made if need be, as the most recently used one. */
static struct set *set_get(struct glob_cache *c, const struct glob_query *q)
{
        size_t n;
        _free_ char *key = query_key(q, &n);
        struct set *s;

        list_each (s, &c->sets, link)
                if (s->key_n == n && memcmp(s->key, key, n) == 0) {
                        list_remove(&s->link);
                        list_prepend(&c->sets, &s->link);
                        return s;
                }
        if (c->set_count == GLOB_CACHE_SETS)
                set_free(list_entry(c->sets.prev, struct set, link));
        s = mem_new(struct set);
        s->cache = c;
        s->key = TAKE(key);
        s->key_n = n;
        list_prepend(&c->sets, &s->link);
        c->set_count++;
        return s;
}

static void spoil_all(struct glob_cache *c)
{
        struct set *s;
        list_each (s, &c->sets, link)
                s->is_spoilt = true;
}

/* ---- Events */

/* A name changed in a directory of a set. */
static void apply(struct glob_node *node, struct slice name, bool is_directory)
{
        struct set *s = set_of(node);
        struct err err = ERR_INIT;

        if (s->is_spoilt)
                return;
        if (!s->is_open && glob_tree_open(&s->tree, s->cache->is_cancelled, &err) != 0) {
                s->is_spoilt = true;
                return;
        }
        s->is_open = true;
        if (glob_tree_touch(&s->tree, node, name, is_directory, &err) < 0)
                s->is_spoilt = true;
}

/* A directory is gone, or its file system: its parent is told after it. */
static void apply_end(struct glob_node *node)
{
        char name[NAME_MAX + 1];

        if (!node->parent) {
                set_of(node)->is_spoilt = true;
                return;
        }
        memcpy(name, node->name, node->name_n + 1);
        apply(node->parent, slice_from(name, node->name_n), true); /* ends the node */
}

/* The first node of a watch that has not seen the event. */
static struct glob_node *next_node(struct glob_cache *c, struct watch *w)
{
        struct glob_node *n;
        list_each (n, &w->nodes, watch)
                if (n->serial != c->serial)
                        return n;
        return NULL;
}

static void on_event(struct glob_cache *c, const struct inotify_event *e)
{
        struct watch *w;
        struct glob_node *n;

        if (e->mask & IN_Q_OVERFLOW) {
                spoil_all(c);
                return;
        }
        /* When two names are exchanged, that one has gone is told of a name after what has come there. So it may be a
         * directory, whatever has gone.
         *
         * Looked up again for each node: what is done for one may take others away, and the watch with them. */
        c->serial++;
        while ((w = map_find(&c->watches, wd_key(&e->wd))) && (n = next_node(c, w))) {
                n->serial = c->serial;
                if (e->len == 0)
                        apply_end(n);
                else
                        apply(n, slice_from_str(e->name), e->mask & (IN_ISDIR | IN_MOVED_FROM));
        }
}

/* Reads at least what is in the queue now. */
static void read_events(struct glob_cache *c)
{
        int queued = 0;
        size_t rounds = 0, done = 0;

        if (ioctl(c->inotify_fd, FIONREAD, &queued) < 0)
                spoil_all(c);
        while (done < (size_t)queued || rounds++ < EXTRA_ROUNDS) {
                ssize_t n = read(c->inotify_fd, c->room, EVENT_BYTES);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno != EAGAIN)
                        spoil_all(c);
                if (n <= 0)
                        break;
                for (ssize_t at = 0; at < n;) {
                        const struct inotify_event *e = (const struct inotify_event *)(void *)(c->room + at);
                        on_event(c, e);
                        at += (ssize_t)(sizeof(*e) + e->len);
                }
                done += (size_t)n;
        }
}

/* Everything that may have changed since the last time. */
static void catch_up(struct glob_cache *c)
{
        struct set *s;
        bool has_mounts = glob_mounts_have_changed(&c->mounts);

        read_events(c);
        list_each (s, &c->sets, link) {
                if (s->is_built && has_mounts && glob_mounts_digest(&c->mounts, &s->tree) != s->mounts)
                        s->is_spoilt = true;
                if (s->is_built && s->is_spoilt)
                        set_empty(s);
                if (s->is_built && s->is_open)
                        glob_tree_close(&s->tree);
                s->is_open = s->is_spoilt = false;
        }
}

/* ---- Answers */

/* Is the tree, up to date by its events, also what the other ways to change say it is? */
static bool set_is_good(struct set *s, const struct glob_query *q)
{
        struct err err = ERR_INIT;

        if (!s->is_built)
                return false;
        bool is_good = glob_tree_open(&s->tree, q->is_cancelled, &err) == 0 &&
                       !glob_tree_has_opened_up(&s->tree) && (!s->has_overlay || glob_tree_is_true(&s->tree));
        glob_tree_close(&s->tree);
        return is_good;
}

/* Makes room by forgetting all other sets. False: there is none. */
static bool forget_others(struct glob_cache *c, const struct set *but)
{
        bool has_any = false;
        struct set *s;

        list_each (s, &c->sets, link)
                if (s != but && s->is_built) {
                        set_empty(s);
                        has_any = true;
                }
        return has_any;
}

static int set_build_once(struct set *s, const struct glob_query *q, struct err *err)
{
        set_empty(s);
        s->is_built = true;
        s->cache->full_scans++;
        int r = glob_tree_init(&s->tree, q, &s->cache->keeper, err);
        if (r == 0)
                r = glob_tree_open(&s->tree, q->is_cancelled, err);
        if (r == 0) {
                s->mounts = glob_mounts_digest(&s->cache->mounts, &s->tree);
                r = glob_tree_read(&s->tree, err);
        }
        glob_tree_close(&s->tree);
        if (r < 0)
                set_empty(s);
        return r;
}

/* 1: it cannot be watched, so it must be scanned. */
static int set_build(struct set *s, const struct glob_query *q, struct err *err)
{
        if (clock_mono_ms() < s->plain_until_ms)
                return 1;
        int r = set_build_once(s, q, err);
        if (r == -ENOSPC && forget_others(s->cache, s))
                r = set_build_once(s, q, err);
        if (r != -ENOSPC && r != -EOPNOTSUPP)
                return r;
        s->plain_until_ms = clock_mono_ms() + GLOB_CACHE_RETRY_MS;
        return 1;
}

static int answer(struct glob_cache *c, const struct glob_query *q, struct glob_matches **ret,
                  struct err *err)
{
        c->is_cancelled = q->is_cancelled;
        catch_up(c);
        struct set *s = set_get(c, q);
        int r = set_is_good(s, q) ? 0 : set_build(s, q, err);
        if (r < 0)
                set_free(s);
        if (r != 0)
                return r;

        if (!s->matches || s->tree.is_changed) {
                glob_matches_unref(s->matches);
                s->matches = glob_tree_matches(&s->tree);
                s->tree.is_changed = false;
        }
        *ret = glob_matches_ref(s->matches);
        return 0;
}

/* False: somebody has it for long, in a scan that the file system holds up perhaps. */
static bool lock(struct glob_cache *c, const struct glob_query *q)
{
        for (int waited = 0; waited < GLOB_CACHE_LOCK_MS; waited += LOCK_STEP_MS) {
                struct timespec until;
                (void)clock_gettime(CLOCK_MONOTONIC, &until);
                until.tv_nsec += LOCK_STEP_MS * 1000000L;
                until.tv_sec += until.tv_nsec / 1000000000;
                until.tv_nsec %= 1000000000;
                if (pthread_mutex_clocklock(&c->lock, CLOCK_MONOTONIC, &until) == 0)
                        return true;
                if (q->is_cancelled && atomic_load_explicit(q->is_cancelled, memory_order_relaxed))
                        return false;
        }
        return false;
}

int glob_cache_scan(struct glob_cache *c, const struct glob_query *q, struct glob_matches **ret,
                    struct err *err)
{
        int r = 1;

        if (c->inotify_fd >= 0 && q->count <= GLOB_PATTERNS_MAX && lock(c, q)) {
                r = answer(c, q, ret, err);
                pthread_mutex_unlock(&c->lock);
        }
        return r > 0 ? glob_scan(q, ret, err) : r;
}

uint64_t glob_cache_full_scans(struct glob_cache *c)
{
        pthread_mutex_lock(&c->lock);
        uint64_t n = c->full_scans;
        pthread_mutex_unlock(&c->lock);
        return n;
}

struct glob_cache *glob_cache_new(void)
{
        struct glob_cache *c = mem_new(struct glob_cache);

        must(pthread_mutex_init(&c->lock, NULL) == 0);
        list_init(&c->sets);
        map_init(&c->watches);
        c->keeper = (struct glob_keeper){ on_enter, on_leave, c };
        c->room = mem_alloc(EVENT_BYTES);
        c->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        if (glob_mounts_init(&c->mounts) < 0)
                c->inotify_fd = fd_close(c->inotify_fd);
        return c;
}

struct glob_cache *glob_cache_free(struct glob_cache *c)
{
        struct set *s;

        if (!c)
                return NULL;
        list_each (s, &c->sets, link)
                set_free(s);
        must(map_count(&c->watches) == 0);
        map_release(&c->watches);
        glob_mounts_release(&c->mounts);
        fd_close(c->inotify_fd);
        (void)pthread_mutex_destroy(&c->lock);
        free(c->room);
        free(c);
        return NULL;
}
