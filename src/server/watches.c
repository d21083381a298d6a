/* watches: keeps the watches of one client. */
#include "server/watches.h"

#include "base/mem.h"
#include "core/client.h"
#include "watch/watch_missing.h"
#include "watch/watch_tree.h"

struct watches *watches_get(struct client *c)
{
        if (!c->watches) {
                c->watches = mem_new(struct watches);
                list_init(&c->watches->trees);
        }
        return c->watches;
}

struct watch_tree *watches_find(struct client *c, struct slice id)
{
        struct watch_tree *t;
        list_each (t, &watches_get(c)->trees, link)
                if (slice_eq(id, slice_from_str(t->id)))
                        return t;
        return NULL;
}

void watches_add(struct client *c, struct watch_tree *t)
{
        struct watches *ws = watches_get(c);
        list_append(&ws->trees, &t->link);
        ws->count++;
}

void watches_remove(struct client *c, struct watch_tree *t)
{
        c->watches->count--;
        watch_tree_free(t);
}

void watches_drop_all(struct client *c)
{
        struct watches *ws = c->watches;
        if (!ws)
                return;
        struct watch_tree *t;
        while ((t = list_first(&ws->trees, struct watch_tree, link)))
                watches_remove(c, t);
        watch_missing_free(ws->missing);
        free(TAKE(c->watches));
}

void watches_on_room(struct client *c)
{
        struct watch_tree *t;
        if (!c->watches)
                return;
        list_each (t, &c->watches->trees, link)
                watch_tree_on_room(t);
}
