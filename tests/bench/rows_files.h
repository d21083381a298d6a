/* rows_files: what the rows about files and those about trees share: requests that are made once and sent often. */
#pragma once

#include "bench.h"
#include "client.h"

/* Appends to `to`, as a frame, a request with a path below the turn's directory as its first member; `more` is JSON that follows
 * the path, with the comma before. */
void request_prepare(struct buf *to, const struct turn *t, const char *method, const char *member,
                     const char *path, const char *more);
/* Appends the path as a URI; it needs no escapes in JSON. */
void uri_append(struct buf *to, const struct turn *t, const char *path);

#define REQUEST_MAX ((size_t)256 << 20)

/* Sends a request and counts the answer, which must have at least `answer_min` bytes. */
NODISCARD int ask(struct client *c, struct slice request, size_t answer_min, struct err *err);
