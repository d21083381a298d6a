/* client: the state of a client on one connection: how far its handshake has come, and what belongs to the connection.
 *
 * A client borrows a session from `initialize` on. It gives the session back, detached, when its connection can no longer be
 * used. The client is freed with its connection.
 */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "conn/conn.h"
#include "core/jobs.h"

struct server;
struct session;
struct watches;

struct client {
        struct conn *conn;
        struct server *server;
        bool is_initialized;              /* `initialize` was answered */
        bool wants_started, wants_failed; /* optional notifications that the client asked for */
        bool is_ready;                    /* the notification `initialized` has arrived */
        struct session *session;          /* borrowed; NULL before initialize and after detach */
        uint64_t session_number;          /* session::number of the last session; 0: there was none */
        struct list parked;               /* parked::client_link */
        size_t parked_count;
        uint64_t parked_bytes;
        struct list
                reads; /* waiting::reads_link (session/task_wait.c): process/read that waits, in order of arrival */
        struct list http_calls; /* http_call::client_link */
        size_t http_count;
        struct list inquiries; /* inquiry::link: requests of the server that the client has not answered */
        size_t inquiry_count;
        int64_t last_inquiry;    /* id of the newest of them */
        struct jobs jobs;        /* core/job.h */
        struct map open_files;   /* server/open_file.h */
        unsigned files_opening;  /* requests fs/open that have not finished */
        struct watches *watches; /* server/watches.h; NULL: the client watches nothing */
};
