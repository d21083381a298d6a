/* watch_rename: renames in a watch, of which the kernel tells two halves.
 *
 * A directory that went away keeps its watches until its other half comes: then it is the same one under another name. It
 * is a new one, whose content is news, when we have not known it, when something happened in between that makes the two
 * halves something else than one rename, or when the law of the watch must be asked about its new name.
 *
 * Two names that are exchanged look like a rename there and one back. What is where then, nobody can tell from the events.
 */
#include "base/clock.h"
#include "base/limits.h"
#include "base/random.h"
#include "server/watch_tree_internal.h"

#include <limits.h>

/* The kernel numbers renames (the cookie), all that are on the machine. The two of an exchange come at once, but others
 * may get a number in between. */
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

/* Completes the rename. The one that it leads back from, or NULL. */
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

/* Was it an exchange, and not a rename there and one back? Not when nothing was there. When both were directories, the one
 * that we take for renamed says so itself, at once, if it was. */
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
                watch_batch_stop_merging(
                        &t->batch); /* the paths below it may mean something else afterwards */
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

/* The node of the directory that comes, or NULL when it is to be looked at like a new one. */
static struct watch_node *take_moving(struct watch_node *parent, const struct watch_event *ev,
                                      struct slice path)
{
        struct watch_tree *t = parent->tree;
        struct watch_node *n = find_moving(t, ev->cookie);
        if (!n)
                return NULL;
        if (t->law || !watch_batch_moved_to(&t->batch, path, ev->cookie)) {
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
        if (!n && there)
                watch_batch_add(&t->batch, WATCH_REMOVED,
                                path); /* what we told of another one of that name is over */
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
        bool replaces = !is_dir || watch_node_find(t, parent, ev->name); /* files we do not know */
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
