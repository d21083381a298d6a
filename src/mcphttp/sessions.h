/* sessions: the MCP sessions of a listener. Each is a process of its own, `farhand mcp` with the options of this one, so that nothing that
 * happens in a session reaches another: no flood, no crash, no stuck call.
 *
 * A session carries the bodies of requests to its process, and what the process says to the streams to which it belongs (relay.h). What
 * belongs to no request goes to the newest stream that a GET has opened, or else to a stream that is open because of a POST; while there
 * is neither, it waits.
 *
 * The process of a session ends when its stdin does: by the end of the session, or of this program, in whatever way that comes.
 */
#pragma once

#include "base/err.h"
#include "base/map.h"
#include "base/random.h"
#include "conn/identity.h"
#include "loop/loop.h"
#include "mcphttp/streams.h"

struct session_options {
        /* Starts a process. Returns 0 with our end of its stdin and stdout, which is non-blocking, and the pid of the process; pid 0: we
         * need not reap it. */
        int (*start)(void *arg, int *ret_fd, pid_t *ret_pid, struct err *err);
        void *arg;
        size_t most;
        uint64_t idle_ms;
};

struct mcp_sessions {
        struct loop *loop;
        struct session_options options;
        struct map by_id; /* the sessions that have not ended */
        struct list all;  /* mcp_session::link */
        size_t count;     /* length of `all` */
        struct deferred reap;
        void (*on_empty)(void *arg); /* called when the last session is gone; may be NULL */
        void *arg;
};

struct mcp_session {
        struct list link; /* sessions::all */
        struct mcp_sessions *sessions;
        char id[UUID_TEXT_BYTES];
        struct identity owner;
        bool has_greeting; /* streams of this version of the protocol begin with an empty event */
        bool has_ended;
        pid_t pid; /* 0: there is no process to wait for */
        int fd;    /* -1: the process has closed it */
        struct watch *watch;
        struct buf in,
                out; /* `in` was read and is no whole line yet; `out` was not taken by the process yet */
        size_t searched, sent;
        struct mcp_streams streams;
        struct mcp_stream
                *limbo; /* the messages that belong to no request and have no way to the client yet */
        uint64_t last_stream;
        size_t readers; /* connections that wait for something */
        struct timer *idle, *patience;
};

void mcp_sessions_init(struct mcp_sessions *s, struct loop *loop, const struct session_options *options);
/* Ends all sessions. They are gone when on_empty is called, or after mcp_sessions_release, which kills the processes that are left. */
void mcp_sessions_end(struct mcp_sessions *s);
void mcp_sessions_release(struct mcp_sessions *s);
/* Reaps the processes that have ended. To be called after a SIGCHLD. */
void mcp_sessions_reap(struct mcp_sessions *s);

/* Returns the session of that id; NULL when there is none, or when it belongs to another client. */
NODISCARD struct mcp_session *mcp_sessions_find(const struct mcp_sessions *s, struct slice id,
                                                const struct identity *who);
/* Opens a session. Returns NULL when there are too many sessions; or NULL with *err when no process can be started. */
NODISCARD struct mcp_session *mcp_session_new(struct mcp_sessions *s, const struct identity *owner,
                                              struct err *err);
/* Ends a session: its process, its streams, and its name. */
void mcp_session_end(struct mcp_session *s);

/* Gives a message to the process. Returns the stream for the answers; NULL: too much waits already. */
NODISCARD struct mcp_stream *mcp_session_post(struct mcp_session *s, struct slice text,
                                              struct stream_reader *reader);
/* Opens a stream for messages that belong to no request; or, when `last_event` is not empty, a stream that was cut. Returns NULL when
 * that cannot be resumed. */
NODISCARD struct mcp_stream *mcp_session_get(struct mcp_session *s, struct slice last_event,
                                             struct stream_reader *reader);
/* Makes the answer to a POST a stream of events. Messages that wait for a stream can go there, too. */
void mcp_session_begin_events(struct mcp_session *s, struct mcp_stream *stream);
/* Takes the reader away from a stream, which may be freed then. NULL: the stream was lost. */
void mcp_session_detach(struct mcp_session *s, struct mcp_stream *stream);
