/* conn_internal: what the files of a connection share: conn.c (beginning and end), conn_read.c (receiving), conn_send.c
 * (sending) and conn_parse.c (large messages). */
#pragma once

#include "conn/conn.h"

/* Functions of conn.c. */
void conn_update_watches(struct conn *c); /* tells the loop what to wait for */
void conn_mark_dirty(struct conn *c);     /* has the queue flushed at the end of the turn */
void conn_free(struct conn *c);           /* no list and no callback may refer to the connection */
void conn_heard(struct conn *c);          /* notes that bytes arrived, so the peer is alive */

/* conn_read.c: called by the loop. */
void conn_on_ready(void *arg, unsigned events);
void conn_on_resume(struct deferred *d);

/* conn_send.c: called after something was put into the queue. */
void conn_queued_more(struct conn *c);

/* conn_parse.c: has a thread parse the complete `message` of the connection. Returns false when there is no thread: then nothing
 * has changed. */
NODISCARD bool conn_parse_begin(struct conn *c);
/* Called when the connection has ended: its message is not parsed unless a thread has begun already. */
void conn_parse_cancel(struct conn *c);
/* Called before a connection is freed. Returns false while a thread parses its message: then the connection is freed when the
 * thread is done. */
NODISCARD bool conn_parse_may_free(struct conn *c);
