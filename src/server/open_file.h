/* open_file: the files that a connection has open, by the names that it chose (fs/open).
 *
 * A handle is shared by the connection's table and by the jobs that use it; the last of them has it closed, on the pool,
 * because closing may block. A handle is in the table only when its file is open.
 */
#pragma once

#include "base/map.h"
#include "base/slice.h"

struct conn;
struct server;
struct open_file;

#define OPEN_FILES_MAX 128       /* per connection */
#define OPEN_FILE_ID_BYTES 32    /* of a name */
#define FILE_BLOCK_BYTES 1048576 /* of one read or write */

/* Takes the descriptor. */
NODISCARD struct open_file *open_file_new(struct server *s, struct slice id, int fd);
struct open_file *open_file_ref(struct open_file *h);
struct open_file *open_file_unref(struct open_file *h); /* NULL is fine; returns NULL */
/* Closes a descriptor on the pool: on a network file system that can block. -1 is fine. */
void open_file_close(struct server *s, int fd);
int open_file_fd(const struct open_file *h);

/* The table of a connection: map_init when it is born, drop_all when it goes. */
struct open_file *open_file_find(struct map *handles, struct slice id);
void open_file_put(struct map *handles, struct open_file *h); /* takes the reference */
void open_file_drop(struct map *handles, struct slice id);    /* fine when there is none */
void open_file_drop_all(struct map *handles);
