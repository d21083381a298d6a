/* flow: a file of the server that is read or written from its beginning to its end, with little memory. */
#pragma once

#include "base/err.h"
#include "patch/ask.h"

#include <sys/types.h>

#define FLOW_PIECE_BYTES \
        ((size_t)256 * 1024) /* callers read and write so much at once: larger pieces are no quicker */

struct flow;

/* Opens a file by its real path: where the server can do that, a link in it is refused. With `is_written` the file must exist, and is emptied. Returns NULL with *err, which has the text and the errno that the
 * server sent. */
NODISCARD struct flow *flow_open(struct asks *s, const char *path, bool is_written, struct err *err);
struct flow *flow_close(struct flow *f); /* NULL is fine; returns NULL */

/* Returns how many bytes were read, 0 at the end, or err->code. */
NODISCARD ssize_t flow_read(struct flow *f, char *buf, size_t n, struct err *err);
NODISCARD int flow_write(struct flow *f, struct slice bytes, struct err *err);
/* Waits until everything is written. */
NODISCARD int flow_finish(struct flow *f, struct err *err);
