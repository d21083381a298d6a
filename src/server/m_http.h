/* m_http: what a connection must tell the HTTP requests that it asked for. */
#pragma once

struct conn;

/* The connection can no longer be used: its streams end, without a word. (Those without an answer are parked.) */
void http_drop_all(struct conn *c);
/* Its outgoing queue has room again: streams go on. */
void http_resume(struct conn *c);
