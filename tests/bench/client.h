/* client: one WebSocket connection to a server under measurement, as cheap as it can be.
 *
 * A message of many megabytes need not be kept: it can be counted as it arrives, in room that stays in the cache; and
 * what is sent often or is large is masked beforehand.
 *
 * Blocking, bounded in time. Messages are not parsed: base64 and our own ids hold no quotes, so looking for a quoted
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
        bool quick_ack;
        struct buf out;
        char *in;
        size_t room;
        size_t at, end;    /* bytes received and not yet given out */
        size_t message_at; /* the message under way: its payloads so far, joined … */
        size_t message_n;
        unsigned ids;
};

#define CLIENT_INIT ((struct client){ .fd = -1 })

/* Connects and upgrades. On failure the client is as before. */
NODISCARD int client_open(struct client *c, const struct turn *t, size_t room, struct err *err);
/* The same, and says initialize and initialized. */
NODISCARD int client_open_session(struct client *c, const struct turn *t, size_t room, struct err *err);
void client_close(struct client *c);
#define _client_ CLEANUP(client_close)

/* One text message, one send. */
NODISCARD int client_send(struct client *c, struct err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* A request with the next id. */
NODISCARD int client_request(struct client *c, const char *method, const char *params, struct err *err);
/* process/start in "/" with a PATH; `argv` is JSON. */
NODISCARD int client_start(struct client *c, const char *process_id, const char *argv, bool tty,
                           struct err *err);
/* The same elsewhere (`cwd` is a URI) and with more members: JSON, with the comma before. */
NODISCARD int client_start_with(struct client *c, const char *process_id, const char *argv, bool tty,
                                const char *cwd, const char *more, struct err *err);

/* A frame as it goes over the wire, masked, appended to `to`: sent as often as wanted for the price of the sending. */
void client_prepare(struct buf *to, struct slice message);
NODISCARD int client_send_prepared(struct client *c, struct slice frames, struct err *err);

/* The next message out of what was received: 1, or 0 when none is complete, or a failure. Valid until the next call. */
NODISCARD int client_take(struct client *c, struct slice *ret, struct err *err);
/* One recv, after everything was taken. */
NODISCARD int client_fill(struct client *c, struct err *err);
/* The next message, waiting for it. */
NODISCARD int client_next(struct client *c, struct slice *ret, struct err *err);
/* Messages up to the one that has `name` in it. An error answer on the way is a failure. */
NODISCARD int client_await(struct client *c, struct slice name, struct slice *ret, struct err *err);

/* A message that was counted, not kept. */
struct gist {
        size_t n; /* bytes of it */
        size_t front_n;
        char front[128];
};
/* The next message, waiting for it; not while client_take is in the middle of one. An error answer is a failure. */
NODISCARD int client_count(struct client *c, struct gist *ret, struct err *err);

bool message_has(struct slice message, struct slice name);
/* Bytes in the chunk of a process/output; -1 when it has none. */
ssize_t message_chunk_bytes(struct slice message);

#define NAME_RESULT S("\"result\":")
#define NAME_OUTPUT S("\"process/output\"")
#define NAME_CLOSED S("\"process/closed\"")
