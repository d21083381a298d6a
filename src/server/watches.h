/* watches: what one connection watches. It ends with the connection. */
#pragma once

#include "base/list.h"
#include "base/slice.h"

struct conn;
struct watch_missing;
struct watch_tree;

struct watches {
        struct list trees; /* watch_tree::link: fs/watch */
        size_t count;
        bool has_missing_id;
        uint64_t missing_id;           /* of the last fs/watchMissing */
        struct watch_missing *missing; /* NULL: none */
};

/* Made when first asked for. */
struct watches *watches_get(struct conn *c);
void watches_drop_all(struct conn *c);

/* There is room in the outgoing queue again. */
void watches_on_room(struct conn *c);

struct watch_tree *watches_find(struct conn *c, struct slice id); /* NULL when there is none */
void watches_add(struct conn *c, struct watch_tree *t);
void watches_remove(struct conn *c, struct watch_tree *t); /* frees it */
