/* m_http: handles the end of a connection, and room in its queue, for the HTTP requests of its client. */
#pragma once

struct client;

/* Called when the connection can no longer be used: ends the streams. (Calls without an answer are parked requests.) */
void http_drop_all(struct client *c);
/* Called when the outgoing queue has room again: goes on with the streams. */
void http_resume(struct client *c);
