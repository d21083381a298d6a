/* transport: moves messages to and from one server over one connection, without knowing what the messages mean.
 *
 * A connection is a WebSocket (on TCP, on a unix socket, through the TLS helper or ssh), or lines on the stdio of a program. Nothing
 * here blocks: the caller watches transport_poll_fd() for transport_events(), and calls transport_on_ready(). A transport that was closed
 * can be opened again.
 *
 * What the server sends is hostile: a message is at most TRANSPORT_MESSAGE_MAX bytes, the head of its HTTP answer at most 16 KiB,
 * and when there is no memory for a message, the connection ends, not the program.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "transport/endpoint.h"
#include "transport/ssh.h"
#include "wire/lines.h"
#include "wire/ws.h"

#include <sys/types.h>

#define TRANSPORT_MESSAGE_MAX (64 * 1024 * 1024)
#define TRANSPORT_OUT_MAX ((size_t)256 * 1024 * 1024) /* the most bytes that callers may have queued */

enum transport_state {
        TRANSPORT_CLOSED,
        TRANSPORT_CONNECTING, /* the kernel connects */
        TRANSPORT_GREETING,   /* ssh connects and the far machine gets ready (transport/ssh.h) */
        TRANSPORT_UPGRADING,  /* the HTTP answer is awaited */
        TRANSPORT_OPEN,
};

struct resolver;

struct transport {
        enum transport_state state;
        unsigned
                serial; /* changes with the descriptor to watch, because another one may get the same number */
        int fd;         /* -1 while the transport is closed, or a name is looked up */
        pid_t child;
        bool is_lines;
        bool needs_program;             /* GREETING: the far machine waits for transport_send_program */
        size_t noise;                   /* GREETING: bytes that mean nothing to us */
        char machine[SSH_WORD_MAX + 1]; /* GREETING: of the far machine, when it needs the program */
        char system[SSH_WORD_MAX + 1];
        struct resolver *resolver;      /* while it connects */
        const struct addrinfo *address; /* of the resolver: what is tried next */
        struct endpoint endpoint;       /* a copy, for the HTTP request */
        char *token;                    /* NULL: the transport sends no token */
        char key[25];                   /* Sec-WebSocket-Key */
        struct buf in;                  /* bytes that have arrived; the first `in_at` of them are handled */
        size_t in_at;
        struct buf message; /* the pieces of an incomplete message */
        struct buf out;     /* bytes to send; the first `out_at` of them are sent */
        size_t out_at;
        unsigned pongs; /* how many answers to pings were queued since the queue was empty */
        struct ws_decoder ws;
        struct line_decoder lines;
        bool at_end;           /* the server has closed its side */
        uint64_t heard_at_ms;  /* when bytes arrived last */
        uint64_t pinged_at_ms; /* when a ping was sent last */
};

void transport_init(struct transport *t);
/* Begins to connect to a server. Returns 0, or -errno with *err filled. */
NODISCARD int transport_open(struct transport *t, const struct endpoint *endpoint, const char *token,
                             struct err *err);
/* Exchanges messages as lines with a child that was started. Takes over the socket and the pid. */
void transport_open_child(struct transport *t, int fd, pid_t pid);
/* Speaks WebSocket through a child that was started and that speaks TLS with `endpoint`. Takes over the socket and the pid. */
void transport_open_tls(struct transport *t, const struct endpoint *endpoint, const char *token, int fd,
                        pid_t pid);
/* Talks WebSocket through ssh, once the far machine is ready. */
void transport_open_ssh(struct transport *t, const struct endpoint *endpoint, int fd, pid_t pid);
/* Queues what static_program_append has made, and takes it. */
void transport_send_program(struct transport *t, struct buf *program);
/* Sends nothing more, and frees everything. A child gets `patience_ms` to end by itself. */
void transport_close(struct transport *t, int patience_ms);

/* Returns the descriptor to watch, which each call of transport_on_ready may change. */
int transport_poll_fd(const struct transport *t);
NODISCARD uint32_t transport_events(const struct transport *t); /* EPOLLIN, EPOLLOUT */
/* Connects, sends and receives as far as that is possible now. Returns 0, or -errno with *err filled when the connection is
 * lost. */
NODISCARD int transport_on_ready(struct transport *t, struct err *err);
/* Takes the next message out of the received bytes. Returns 1 with *ret, which is valid until the next call and has BUF_PADDING
 * bytes behind it; 0 when there is no complete message; -errno with *err filled when the connection must be given up. */
NODISCARD int transport_next(struct transport *t, struct slice *ret, struct err *err);

/* Queues a message; the next transport_flush sends it. The caller has checked that TRANSPORT_OUT_MAX leaves room for the
 * message. */
void transport_send(struct transport *t, struct slice text);
NODISCARD int transport_flush(struct transport *t, struct err *err);
void transport_ping(struct transport *t);
static inline size_t transport_queued(const struct transport *t)
{
        return t->out.n - t->out_at;
}
