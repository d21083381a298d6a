/* cache: keeps the trees of recent queries and updates them by inotify events.
 *
 * A watch belongs to an inode. Two queries that read the same directory, or one query that reads it in two places, share a
 * watch, so each watch has a list of nodes. The kernel never reuses the number of a watch, so an event of a removed watch is
 * recognized.
 *
 * Events are applied to the trees of all queries. An error in one tree spoils only that tree: it is released after the
 * events are read, and read again in full when its query is asked again.
 */
#include "glob/cache.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "glob/mounts_internal.h"
#include "glob/scan.h"
#include "glob/tree_internal.h"

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
#define EXTRA_ROUNDS 64 /* more rounds for events that arrive while others are read */
#define LOCK_STEP_MS 20 /* the time between two checks whether the query was cancelled */

struct glob_cache {
        pthread_mutex_t lock;
        int inotify_fd; /* -1: nothing is cached */
        struct glob_mounts mounts;
        struct list queries; /* cached_query::link, most recently used first */
        size_t query_count;
        struct map watches; /* struct watch, by wd */
        uint64_t serial;    /* the number of the current event */
        uint64_t full_scans;
        const atomic_bool *is_cancelled; /* the flag of the current query */
        struct glob_listener listener;
        char *room; /* the buffer for events */
};

struct watch {
        int wd;
        struct list nodes; /* glob_node::watch */
};

struct cached_query {
        struct list link; /* glob_cache::queries */
        struct glob_cache *cache;
        char *key;
        size_t key_n;
        struct glob_tree tree;
        bool is_built;                /* the tree was read */
        bool is_spoilt;               /* the tree is no longer valid */
        bool is_open;                 /* the prefixes of the tree are open */
        bool has_overlay;             /* inode numbers may change without an event */
        uint64_t scan_until_ms;       /* until then a tree that could not be watched is only scanned */
        uint64_t mounts;              /* digest of the mounts in the tree */
        struct glob_matches *matches; /* NULL: to be made from the tree */
};

static struct cached_query *query_of(struct glob_node *node)
{
        return container_of(node->group->tree, struct cached_query, tree);
}

/* ---- Watches */

static struct slice wd_key(const int *wd)
{
        return slice_from(wd, sizeof(*wd));
}

static int on_enter(void *arg, struct glob_node *node, int fd)
{
        struct glob_cache *c = arg;

        if (map_count(&c->watches) >= GLOB_CACHE_WATCHES)
                return -ENOSPC;
        enum glob_mount_kind kind = glob_mounts_kind(&c->mounts, fd, node->dev);
        if (kind == GLOB_MOUNT_OTHER)
                return -EOPNOTSUPP;
        query_of(node)->has_overlay |= kind == GLOB_MOUNT_OVERLAY;
        int wd = inotify_add_watch(c->inotify_fd, fd_link(fd).text, WATCH_MASK);
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
                (void)inotify_rm_watch(c->inotify_fd, w->wd); /* the kernel may have removed it already */
                watch_free(c, w);
        }
}

/* ---- Queries */

static void query_empty(struct cached_query *s)
{
        if (s->is_built)
                glob_tree_release(&s->tree);
        s->is_built = s->is_spoilt = s->is_open = s->has_overlay = false;
        s->matches = glob_matches_unref(s->matches);
}

static void query_free(struct cached_query *s)
{
        query_empty(s);
        list_remove(&s->link);
        s->cache->query_count--;
        free(s->key);
        free(s);
}

/* Returns the query as one text: the depth, then each pattern followed by a NUL, in the order of the caller. */
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

/* Finds the cached query, or makes it, and moves it to the front of the list. */
static struct cached_query *query_get(struct glob_cache *c, const struct glob_query *q)
{
        size_t n;
        _free_ char *key = query_key(q, &n);
        struct cached_query *s;

        list_each (s, &c->queries, link)
                if (s->key_n == n && memcmp(s->key, key, n) == 0) {
                        list_remove(&s->link);
                        list_prepend(&c->queries, &s->link);
                        return s;
                }
        if (c->query_count == GLOB_CACHE_QUERIES)
                query_free(list_entry(c->queries.prev, struct cached_query, link));
        s = mem_new(struct cached_query);
        s->cache = c;
        s->key = TAKE(key);
        s->key_n = n;
        list_prepend(&c->queries, &s->link);
        c->query_count++;
        return s;
}

static void spoil_all(struct glob_cache *c)
{
        struct cached_query *s;
        list_each (s, &c->queries, link)
                s->is_spoilt = true;
}

/* ---- Events */

/* Handles a change of a name in a directory of a tree. */
static void apply_change(struct glob_node *node, struct slice name, bool is_directory)
{
        struct cached_query *s = query_of(node);
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

/* Handles a directory that was removed or unmounted: the change is applied to its parent. */
static void apply_removal(struct glob_node *node)
{
        char name[NAME_MAX + 1];

        if (!node->parent) {
                query_of(node)->is_spoilt = true;
                return;
        }
        memcpy(name, node->name, node->name_n + 1);
        apply_change(node->parent, slice_from(name, node->name_n), true); /* frees the node */
}

/* Returns the first node of a watch that has not seen the current event. */
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
        /* When two names are exchanged, the event that a name is gone may come after the event that another file has taken
         * it. So the name may be a directory, whatever the event says. The node is looked up again for each event: handling
         * one node may remove others, and the watch with them. */
        c->serial++;
        while ((w = map_find(&c->watches, wd_key(&e->wd))) && (n = next_node(c, w))) {
                n->serial = c->serial;
                if (e->len == 0)
                        apply_removal(n);
                else
                        apply_change(n, slice_from_str(e->name), e->mask & (IN_ISDIR | IN_MOVED_FROM));
        }
}

/* Reads at least the events that are queued now. */
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

/* Applies every change since the last query. */
static void catch_up(struct glob_cache *c)
{
        struct cached_query *s;
        bool has_mounts = glob_mounts_have_changed(&c->mounts);

        read_events(c);
        list_each (s, &c->queries, link) {
                if (s->is_built && has_mounts && glob_mounts_digest(&c->mounts, &s->tree) != s->mounts)
                        s->is_spoilt = true;
                if (s->is_built && s->is_spoilt)
                        query_empty(s);
                if (s->is_built && s->is_open)
                        glob_tree_close(&s->tree);
                s->is_open = s->is_spoilt = false;
        }
}

/* ---- Answers */

/* Is the tree still valid? Checks also changes that cause no event: prefixes, permissions, inode numbers of overlays. */
static bool query_is_current(struct cached_query *s, const struct glob_query *q)
{
        struct err err = ERR_INIT;

        /* An overfull tree does not hold all matches, and the removal of a match that it does not hold is not noticed. */
        if (!s->is_built || s->tree.is_overfull)
                return false;
        bool is_good = glob_tree_open(&s->tree, q->is_cancelled, &err) == 0 &&
                       !glob_tree_has_opened_up(&s->tree) &&
                       (!s->has_overlay || glob_tree_has_same_inodes(&s->tree));
        glob_tree_close(&s->tree);
        return is_good;
}

/* Makes room for watches by dropping the trees of all other queries. Returns false when there was no such tree. */
static bool forget_others(struct glob_cache *c, const struct cached_query *but)
{
        bool has_any = false;
        struct cached_query *s;

        list_each (s, &c->queries, link)
                if (s != but && s->is_built) {
                        query_empty(s);
                        has_any = true;
                }
        return has_any;
}

static int query_build_once(struct cached_query *s, const struct glob_query *q, struct err *err)
{
        query_empty(s);
        s->is_built = true;
        s->cache->full_scans++;
        int r = glob_tree_init(&s->tree, q, &s->cache->listener, err);
        if (r == 0)
                r = glob_tree_open(&s->tree, q->is_cancelled, err);
        if (r == 0) {
                s->mounts = glob_mounts_digest(&s->cache->mounts, &s->tree);
                r = glob_tree_read(&s->tree, err);
        }
        glob_tree_close(&s->tree);
        if (r < 0)
                query_empty(s);
        return r;
}

/* Reads the tree and watches it. Returns 1 when the tree cannot be watched, so that the query must be scanned. */
static int query_build(struct cached_query *s, const struct glob_query *q, struct err *err)
{
        if (clock_mono_ms() < s->scan_until_ms)
                return 1;
        int r = query_build_once(s, q, err);
        if (r == -ENOSPC && forget_others(s->cache, s))
                r = query_build_once(s, q, err);
        if (r != -ENOSPC && r != -EOPNOTSUPP)
                return r;
        s->scan_until_ms = clock_mono_ms() + GLOB_CACHE_RETRY_MS;
        return 1;
}

static int answer_locked(struct glob_cache *c, const struct glob_query *q, struct glob_matches **ret,
                         struct err *err)
{
        c->is_cancelled = q->is_cancelled;
        catch_up(c);
        struct cached_query *s = query_get(c, q);
        int r = query_is_current(s, q) ? 0 : query_build(s, q, err);
        if (r < 0)
                query_free(s);
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

/* Takes the lock. Returns false when another thread holds it for long, perhaps in a scan of a slow file system, or when the query
 * was cancelled. */
static bool lock_in_time(struct glob_cache *c, const struct glob_query *q)
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

        if (c->inotify_fd >= 0 && q->count <= GLOB_PATTERNS_MAX && lock_in_time(c, q)) {
                r = answer_locked(c, q, ret, err);
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
        list_init(&c->queries);
        map_init(&c->watches);
        c->listener = (struct glob_listener){ on_enter, on_leave, c };
        c->room = mem_alloc(EVENT_BYTES);
        c->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        if (glob_mounts_init(&c->mounts) < 0)
                c->inotify_fd = fd_close(c->inotify_fd);
        return c;
}

struct glob_cache *glob_cache_free(struct glob_cache *c)
{
        struct cached_query *s;

        if (!c)
                return NULL;
        list_each (s, &c->queries, link)
                query_free(s);
        must(map_count(&c->watches) == 0);
        map_release(&c->watches);
        glob_mounts_release(&c->mounts);
        fd_close(c->inotify_fd);
        (void)pthread_mutex_destroy(&c->lock);
        free(c->room);
        free(c);
        return NULL;
}
