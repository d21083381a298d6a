/* watch_rename: matches the two events by which the kernel reports a rename.
 *
 * After the first event (the first half) a directory keeps its watches. When the second event (the second half) comes, the node
 * gets its new name. The directory counts as a new one, whose content is reported as new, when it had no node, when an event came
 * from it between the two halves, when its old path may name another directory since, or when the watch has a reach, which must be
 * asked about the new name.
 *
 * When two names are exchanged (RENAME_EXCHANGE), the events look like a rename and a rename back. The events do not say which
 * directory has which name afterwards, so the client is told `overflow`.
 */
#include "base/clock.h"
#include "base/limits.h"
#include "base/random.h"
#include "watch/watch_tree_internal.h"

#include <limits.h>

/* How long after a rename a rename back may still be part of one exchange. The kernel reports both at once, but the process that
 * makes the exchange may have to wait for a processor in between. During an exchange the kernel lets no other name appear or
 * disappear in the two directories. */
#define EXCHANGE_MS 2000

static uint64_t hash_name(const struct watch_node *parent, struct slice name)
{
        char key[sizeof(parent->id) + NAME_MAX];
        size_t n = MIN(name.n, (size_t)NAME_MAX);
        memcpy(key, &parent->id, sizeof(parent->id));
        memcpy(key + sizeof(parent->id), name.p, n);
        return map_hash(random_hash_key(), slice_from(key, sizeof(parent->id) + n));
}

static struct watch_recent *note_rename(struct watch_tree *t, uint32_t cookie)
{
        struct watch_recent *r = &t->recent[t->next_recent++ % WATCH_RECENT_RENAMES];
        *r = (struct watch_recent){ .cookie = cookie, .at_ms = clock_mono_ms() };
        return r;
}

static struct watch_recent *find_recent(struct watch_tree *t, uint32_t cookie)
{
        for (size_t i = 0; cookie && i < WATCH_RECENT_RENAMES; i++)
                if (t->recent[i].cookie == cookie)
                        return &t->recent[i];
        return NULL;
}

/* Returns the rename with `cookie` if it went from `from` to `to` less than EXCHANGE_MS ago, otherwise NULL. */
static const struct watch_recent *find_earlier(struct watch_tree *t, uint32_t cookie, uint64_t from,
                                               uint64_t to)
{
        const struct watch_recent *r = find_recent(t, cookie);
        bool is_it = r && r->from == from && r->to == to && clock_mono_ms() - r->at_ms < EXCHANGE_MS;
        return is_it ? r : NULL;
}

/* Notes the second half of a rename. Returns the earlier rename that this rename undoes, if no other name has changed in the two
 * directories in between, otherwise NULL. */
static const struct watch_recent *note_second_half(struct watch_node *parent, uint64_t to, uint32_t cookie,
                                                   bool is_dir, bool replaces)
{
        struct watch_tree *t = parent->tree;
        struct watch_recent *this = find_recent(t, cookie);
        if (!this)
                this = note_rename(t, cookie);
        this->to = to;
        this->is_dir = is_dir;
        this->replaces = replaces;
        bool is_next = parent->last_cookie == this->follows || parent->last_cookie == cookie;
        return this->from && is_next ? find_earlier(t, this->follows, to, this->from) : NULL;
}

/* Tells the client of a rename and a rename back that may have been one exchange. They were no exchange when the same kind of file
 * was renamed back and nothing had the target name of the earlier rename. */
static void suspect_exchange(struct watch_tree *t, const struct watch_recent *earlier, bool is_dir)
{
        if (is_dir == earlier->is_dir && !earlier->replaces)
                return;
        if (is_dir || earlier->is_dir)
                watch_tree_lost(t);
        else
                watch_tree_overflow(t); /* files have no nodes, so no node can be wrong */
}

static struct watch_node *find_moving(const struct watch_tree *t, uint32_t cookie)
{
        struct watch_node *n;
        list_each (n, &t->moving, moving_link)
                if (n->cookie == cookie)
                        return n;
        return NULL;
}

void watch_rename_from(struct watch_node *parent, const struct watch_event *ev, struct slice path,
                       bool is_dir)
{
        struct watch_tree *t = parent->tree;
        struct watch_node *n = is_dir ? watch_node_find(t, parent, ev->name) : NULL;
        if (is_dir)
                watch_batch_stop_merging(&t->batch); /* paths below `path` may mean something else now */
        watch_batch_moved_from(&t->batch, path, ev->cookie, clock_mono_ms());
        uint64_t from = hash_name(parent, ev->name);
        struct watch_recent *this = note_rename(t, ev->cookie);
        this->from = from;
        this->follows = parent->last_cookie;
        t->renames++;
        if (n) {
                watch_node_unmap(n);
                n->cookie = ev->cookie;
                n->renamed = t->renames;
                list_remove(&n->moving_link);
                list_append(&t->moving, &n->moving_link);
                watcher_mark_dirty(t->watcher, &t->sink);
        }
        /* When a name is exchanged with a name in a directory that is not watched, only two of the four events are seen: a name
         * comes, and the same name goes. There was no exchange when the second half of this rename comes, because a file went to a
         * watched name then: watch_tree::doubted waits for that half. */
        const struct watch_recent *earlier = find_earlier(t, parent->last_cookie, 0, from);
        parent->last_cookie = ev->cookie;
        if (earlier && !is_dir && !earlier->is_dir && !t->doubted)
                t->doubted = ev->cookie;
        else if (earlier)
                suspect_exchange(t, earlier, is_dir);
}

/* Finds the node of the directory whose second half has come. Returns NULL when the directory must be looked at like a new one. */
static struct watch_node *take_moving(struct watch_node *parent, const struct watch_event *ev,
                                      struct slice path)
{
        struct watch_tree *t = parent->tree;
        struct watch_node *n = find_moving(t, ev->cookie);
        if (!n)
                return NULL;
        if (t->reach || !watch_batch_moved_to(&t->batch, path, ev->cookie)) {
                watch_node_free(n);
                return NULL;
        }
        list_remove(&n->moving_link);
        return n;
}

static void move_dir_to(struct watch_node *parent, const struct watch_event *ev, struct slice path)
{
        struct watch_tree *t = parent->tree;
        struct watch_node *replaced = watch_node_find(t, parent, ev->name);
        watch_batch_stop_merging(&t->batch);
        struct watch_node *n = take_moving(parent, ev, path);
        /* The directory that had this path was replaced. Its removal is reported first, so that clients see that the changes
         * reported before were about that directory. */
        if (!n && replaced)
                watch_batch_add(&t->batch, WATCH_REMOVED, path);
        if (replaced)
                watch_node_unmap(replaced);
        if (n) {
                watch_node_move(n, parent, ev->name);
        } else {
                watch_batch_add(&t->batch, WATCH_CREATED, path);
                watch_node_add(parent, ev->name);
        }
        if (replaced)
                watch_node_free(replaced);
}

void watch_rename_to(struct watch_node *parent, const struct watch_event *ev, struct slice path, bool is_dir)
{
        struct watch_tree *t = parent->tree;
        uint64_t to = hash_name(parent, ev->name);
        /* Files have no nodes, so nothing says whether a file has replaced another one: every renamed file counts as one that
         * has. */
        bool replaces = !is_dir || watch_node_find(t, parent, ev->name);
        t->renames++;
        if (ev->cookie == t->doubted)
                t->doubted = 0;
        if (is_dir)
                move_dir_to(parent, ev, path);
        else if (!watch_batch_moved_to(&t->batch, path, ev->cookie))
                watch_batch_add(&t->batch, WATCH_CREATED, path);
        const struct watch_recent *earlier = note_second_half(parent, to, ev->cookie, is_dir, replaces);
        parent->last_cookie = ev->cookie;
        if (earlier)
                suspect_exchange(t, earlier, is_dir);
}

void watch_rename_end_all(struct watch_tree *t)
{
        struct watch_node *n;
        while ((n = list_first(&t->moving, struct watch_node, moving_link)))
                watch_node_free(n);
}

void watch_rename_settle(struct watch_tree *t)
{
        watch_rename_end_all(t);
        if (t->doubted)
                watch_tree_overflow(t);
        t->doubted = 0;
}
