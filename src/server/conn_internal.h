/* conn_internal: between the files of a connection: its life (conn.c), what it receives (conn_read.c), what it sends
 * (conn_send.c). */
#pragma once

#include "server/conn.h"

/* conn.c */
void conn_update_watches(struct conn *c); /* what the loop waits for, as its state wants */
void conn_mark_dirty(struct conn *c);     /* it is flushed at the end of the turn */
void conn_heard(struct conn *c);          /* a byte came: the peer lives */

/* conn_read.c: called by the loop. */
void conn_on_ready(void *arg, unsigned events);
void conn_on_resume(struct deferred *d);

/* conn_send.c: something was put into the queue. */
void conn_sent_more(struct conn *c);
