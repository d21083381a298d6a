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
        /* Starts a process. Returns 0 with our end of its stdin and stdout, non-blocking, and its pid; 0: it is none of ours to reap. */
        int (*start)(void *arg, int *ret_fd, pid_t *ret_pid, struct err *err);
        void *arg;
        size_t most;
        uint64_t idle_ms;
};

struct mcp_sessions {
        struct loop *loop;
        struct session_options options;
        struct map by_id; /* those that have not ended */
        struct list all;  /* mcp_session::link */
        size_t count;     /* length of `all` */
        struct deferred reap;
        void (*on_empty)(void *arg); /* the last one is gone; may be NULL */
        void *arg;
};

struct mcp_session {
        struct list link; /* sessions::all */
        struct mcp_sessions *sessions;
        char id[UUID_TEXT_BYTES];
        struct identity owner;
        bool has_greeting; /* its version of the protocol has streams that begin with an empty event */
        bool has_ended;
        pid_t pid; /* 0: there is no process to wait for */
        int fd;    /* -1: the process has closed it */
        struct watch *watch;
        struct buf in, out; /* what was read and is no whole line yet; what the process has not taken yet */
        size_t searched, sent;
        struct mcp_streams streams;
        struct mcp_stream *limbo; /* messages that belong to nothing, and have no way to the client yet */
        uint64_t last_stream;
        size_t readers; /* connections that wait for something */
        struct timer *idle, *patience;
};

void mcp_sessions_init(struct mcp_sessions *s, struct loop *loop, const struct session_options *options);
/* Ends all. They are gone when on_empty is called, or after mcp_sessions_release, which kills what is left. */
void mcp_sessions_end(struct mcp_sessions *s);
void mcp_sessions_release(struct mcp_sessions *s);
/* Takes note of the end of processes: a SIGCHLD came. */
void mcp_sessions_reap(struct mcp_sessions *s);

/* Returns NULL when there is none, or when it belongs to somebody else. */
NODISCARD struct mcp_session *mcp_sessions_find(const struct mcp_sessions *s, struct slice id,
                                                const struct identity *who);
/* Returns NULL when there are too many, or with *err when no process can be started. */
NODISCARD struct mcp_session *mcp_session_new(struct mcp_sessions *s, const struct identity *owner,
                                              struct err *err);
/* Ends a session: its process, its streams, and its name. */
void mcp_session_end(struct mcp_session *s);

/* Gives a message to the process. Returns the stream of what it answers; NULL: too much waits already. */
NODISCARD struct mcp_stream *mcp_session_post(struct mcp_session *s, struct slice text,
                                              struct stream_reader *reader);
/* Opens a stream for what belongs to no request; or, when `last_event` is not 0 bytes long, one that was cut. Returns NULL when that cannot
 * be resumed. */
NODISCARD struct mcp_stream *mcp_session_get(struct mcp_session *s, struct slice last_event,
                                             struct stream_reader *reader);
/* The answer to a POST becomes a stream of events, on which all that waits can go as well. */
void mcp_session_begin_events(struct mcp_session *s, struct mcp_stream *stream);
/* The reader goes. The stream may be freed; NULL: it was lost. */
void mcp_session_detach(struct mcp_session *s, struct mcp_stream *stream);
