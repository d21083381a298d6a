/* watch_rename: matches the two events by which the kernel reports a rename.
 *
 * After the first event (the first half) a directory keeps its watches. When the second event (the second half) comes, the node
 * gets its new name. The directory counts as a new one, whose content is reported as new, when it had no node, when an event
 * between the two halves shows that they are not one rename, or when the watch has a reach, which must be asked about the new name.
 *
 * When two names are exchanged (RENAME_EXCHANGE), the events look like a rename and a rename back. They do not say which directory
 * has which name afterwards.
 */
#include "base/clock.h"
#include "base/limits.h"
#include "base/random.h"
#include "watch/watch_tree_internal.h"

#include <limits.h>

/* The kernel counts cookies over all renames of the machine. The two renames of an exchange come together, but other renames may
 * get a cookie in between. The two cookies may differ by this much at most. */
#define EXCHANGE_COOKIES 4

static uint64_t hash_name(const struct watch_node *parent, struct slice name)
{
        char key[sizeof(parent->id) + NAME_MAX];
        size_t n = MIN(name.n, (size_t)NAME_MAX);
        memcpy(key, &parent->id, sizeof(parent->id));
        memcpy(key + sizeof(parent->id), name.p, n);
        return map_hash(random_hash_key(), slice_from(key, sizeof(parent->id) + n));
}

static void note_from(struct watch_tree *t, uint64_t from, uint32_t cookie)
{
        t->recent[t->next_recent++ % WATCH_RECENT_RENAMES] =
                (struct watch_recent){ .cookie = cookie, .from = from };
}

/* Notes the second half of a rename. Returns an earlier rename that this one undoes, or NULL. */
static const struct watch_recent *note_to(struct watch_tree *t, uint64_t to, uint32_t cookie, bool is_dir,
                                          bool replaces)
{
        struct watch_recent *this = NULL;
        for (size_t i = 0; i < WATCH_RECENT_RENAMES; i++)
                if (t->recent[i].cookie == cookie)
                        this = &t->recent[i];
        if (!this)
                return NULL;
        this->to = to;
        this->is_dir = is_dir;
        this->replaces = replaces;
        for (size_t i = 0; i < WATCH_RECENT_RENAMES; i++) {
                const struct watch_recent *r = &t->recent[i];
                if (r->from == to && r->to == this->from && cookie - r->cookie - 1 < EXCHANGE_COOKIES)
                        return r;
        }
        return NULL;
}

/* Handles a rename and a rename back, which may have been one exchange. It was none when the target name was free. When both names
 * are directories, the node that seems renamed gets IN_MOVE_SELF at once if it really was; until then it is `suspect`. */
static void suspect_exchange(struct watch_node *parent, struct slice name, const struct watch_recent *there,
                             bool is_dir)
{
        struct watch_tree *t = parent->tree;
        const struct watch_node *n = is_dir && there->is_dir ? watch_node_find(t, parent, name) : NULL;
        if (is_dir == there->is_dir && !there->replaces)
                return;
        if (n && watch_listener_wd(&n->listener) >= 0 && !t->suspect)
                t->suspect = n->id;
        else
                watch_tree_lost(t);
}

void watch_rename_settle(struct watch_tree *t)
{
        watch_rename_end_all(t);
        if (!t->suspect)
                return;
        t->suspect = 0;
        watch_tree_lost(t);
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
        note_from(t, hash_name(parent, ev->name), ev->cookie);
        t->renames++;
        if (!n)
                return;
        watch_node_unmap(n);
        n->cookie = ev->cookie;
        n->renamed = t->renames;
        list_remove(&n->moving_link);
        list_append(&t->moving, &n->moving_link);
        watcher_mark_dirty(t->watcher, &t->sink);
}

/* Finds the node of the directory whose second half has come. NULL when the directory must be looked at like a new one. */
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

static void dir_to(struct watch_node *parent, const struct watch_event *ev, struct slice path)
{
        struct watch_tree *t = parent->tree;
        struct watch_node *there = watch_node_find(t, parent, ev->name);
        watch_batch_stop_merging(&t->batch);
        struct watch_node *n = take_moving(parent, ev, path);
        /* The directory that had this path was replaced. Its removal is reported first, so that clients see that the changes
         * reported before were about that directory. */
        if (!n && there)
                watch_batch_add(&t->batch, WATCH_REMOVED, path);
        if (there)
                watch_node_unmap(there);
        if (n) {
                watch_node_move(n, parent, ev->name);
        } else {
                watch_batch_add(&t->batch, WATCH_CREATED, path);
                watch_node_add(parent, ev->name);
        }
        if (there)
                watch_node_free(there);
}

void watch_rename_to(struct watch_node *parent, const struct watch_event *ev, struct slice path, bool is_dir)
{
        struct watch_tree *t = parent->tree;
        uint64_t to = hash_name(parent, ev->name);
        /* Only directories have nodes, so that a file may always have replaced another one. */
        bool replaces = !is_dir || watch_node_find(t, parent, ev->name);
        t->renames++;
        if (is_dir)
                dir_to(parent, ev, path);
        else if (!watch_batch_moved_to(&t->batch, path, ev->cookie))
                watch_batch_add(&t->batch, WATCH_CREATED, path);
        const struct watch_recent *there = note_to(t, to, ev->cookie, is_dir, replaces);
        if (there)
                suspect_exchange(parent, ev->name, there, is_dir);
}

void watch_rename_end_all(struct watch_tree *t)
{
        struct watch_node *n;
        while ((n = list_first(&t->moving, struct watch_node, moving_link)))
                watch_node_free(n);
}
