/* watches: the watches of one client. They end with its connection. */
#pragma once

#include "base/list.h"
#include "base/slice.h"

struct client;
struct watch_missing;
struct watch_tree;

struct watches {
        struct list trees; /* watch_tree::link: watches of fs/watch */
        size_t count;
        bool has_missing_id;
        uint64_t missing_id;           /* watchId of the last fs/watchMissing */
        struct watch_missing *missing; /* watch of the last fs/watchMissing, or NULL */
};

/* Returns the watches of a client; the first call makes the struct. */
struct watches *watches_get(struct client *c);
void watches_drop_all(struct client *c);

/* Called when the outgoing queue has room again: sends what the watches have held back. */
void watches_on_room(struct client *c);

struct watch_tree *watches_find(struct client *c, struct slice id); /* NULL: no watch has this id */
void watches_add(struct client *c, struct watch_tree *t);
void watches_remove(struct client *c, struct watch_tree *t); /* frees the watch */
