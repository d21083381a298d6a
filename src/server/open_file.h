/* open_file: the files that a client has open, by the ids that the client chose (fs/open).
 *
 * A handle is counted: the client's table and each job that uses the handle hold a reference. When the last reference is given up,
 * the pool closes the file, because closing may block. A handle is in the table only while its file is open.
 */
#pragma once

#include "base/map.h"
#include "base/slice.h"

struct client;
struct server;
struct open_file;

#define OPEN_FILES_MAX 128       /* per connection */
#define OPEN_FILE_ID_BYTES 32    /* longest id */
#define FILE_BLOCK_BYTES 1048576 /* largest read or write */

struct open_file *open_file_ref(struct open_file *h);
struct open_file *open_file_unref(struct open_file *h); /* NULL is fine; returns NULL */
/* Closes a descriptor on the pool, because close(2) may block on a network file system. -1 is fine. */
void open_file_close(struct server *s, int fd);
int open_file_fd(const struct open_file *h);

/* These functions work on the table of a client, which begins with map_init and ends with open_file_drop_all. open_file_put
 * takes the descriptor; open_file_drop does nothing when there is no such handle. */
void open_file_put(struct map *handles, struct server *s, struct slice id, int fd);
void open_file_drop(struct map *handles, struct slice id);
void open_file_drop_all(struct map *handles);
