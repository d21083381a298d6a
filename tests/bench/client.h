/* client: one WebSocket connection to a server under measurement, as cheap as it can be.
 *
 * A message of many megabytes need not be kept: it can be counted as it arrives, in a buffer that stays in the cache.
 * Messages that are large or are sent often are masked beforehand.
 *
 * Calls block, for a bounded time. Messages are not parsed: base64 and our own ids hold no quotes, so looking for a quoted
 * name in the text is exact and costs next to nothing. Only what a server sends is understood: unmasked frames.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "bench.h"

#define CLIENT_ROOM_SMALL (16 * 1024)
#define CLIENT_ROOM_LARGE (1024 * 1024) /* for bulk output: few, large reads */

struct client {
        int fd;
        bool wants_quick_ack;
        struct buf out;
        char *in;
        size_t room;
        size_t at, end;    /* bytes received and not yet given out */
        size_t message_at; /* where the payloads of the message under way begin, joined */
        size_t message_n;
        unsigned ids;
};

#define CLIENT_INIT ((struct client){ .fd = -1 })

/* Connects and upgrades. On failure the client is as before. */
NODISCARD int client_open(struct client *c, const struct turn *t, size_t room, struct err *err);
/* As client_open, and then sends initialize and initialized. */
NODISCARD int client_open_session(struct client *c, const struct turn *t, size_t room, struct err *err);
void client_close(struct client *c);
#define _client_ CLEANUP(client_close)

/* Sends one text message with one send(2). */
NODISCARD int client_send(struct client *c, struct err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Sends a request with the next id. */
NODISCARD int client_request(struct client *c, const char *method, const char *params, struct err *err);
/* Sends process/start with the cwd "/" and a PATH; `argv` is JSON. */
NODISCARD int client_start(struct client *c, const char *process_id, const char *argv, bool tty,
                           struct err *err);
/* As client_start, with another `cwd` (a URI) and `more` members: JSON that begins with a comma. */
NODISCARD int client_start_with(struct client *c, const char *process_id, const char *argv, bool tty,
                                const char *cwd, const char *more, struct err *err);

/* Appends the masked frame of a message to `to`. It can be sent many times without masking it again. */
void client_prepare(struct buf *to, struct slice message);
/* As client_prepare, in frames of a megabyte: the reference takes no frame over 16 MiB. */
void client_prepare_fragments(struct buf *to, struct slice message);
NODISCARD int client_send_prepared(struct client *c, struct slice frames, struct err *err);

/* Takes the next message out of what was received. Returns 1, 0 when no message is complete, or -errno. *ret is valid until the
 * next call. */
NODISCARD int client_take(struct client *c, struct slice *ret, struct err *err);
/* Receives more bytes with one recv(2); only when client_take has returned 0. */
NODISCARD int client_fill(struct client *c, struct err *err);
/* Waits for the next message. */
NODISCARD int client_next(struct client *c, struct slice *ret, struct err *err);
/* Reads messages up to the one that contains `name`. An error answer before it is a failure. */
NODISCARD int client_await(struct client *c, struct slice name, struct slice *ret, struct err *err);

/* A message that was counted, not kept. */
struct gist {
        size_t n; /* bytes of the message */
        size_t front_n;
        char front[128];
};
/* Waits for the next message and counts it; not while client_take has part of a message. An error answer is a failure. */
NODISCARD int client_count(struct client *c, struct gist *ret, struct err *err);

bool message_has(struct slice message, struct slice name);
/* Returns the number of bytes in the chunk of a process/output; -1 when the message has no chunk. */
ssize_t message_chunk_bytes(struct slice message);

#define NAME_RESULT S("\"result\":")
#define NAME_OUTPUT S("\"process/output\"")
#define NAME_CLOSED S("\"process/closed\"")
