/* connection_internal: what the files of a connection share: its life and first bytes (connection.c), HTTP requests (exchange.c), tunnels
 * (tunnel.c). */
#pragma once

#include "egress/connection.h"
#include "egress/flow.h"
#include "egress/http_head.h"
#include "egress/route.h"
#include "wire/http_body.h"

enum stage {
        STAGE_HEAD,     /* the head of a request, or a message of SOCKS, is read */
        STAGE_ROUTE,    /* the target is being judged or reached */
        STAGE_UPSTREAM, /* another proxy is being told the target of a tunnel */
        STAGE_EXCHANGE, /* a request and its response pass */
        STAGE_TUNNEL,
        STAGE_LINGER, /* all was said; what the client still sends is thrown away */
        STAGE_DEAD,
};

/* The response side of an exchange. */
enum reply {
        REPLY_HEAD,   /* awaited */
        REPLY_BODY,   /* passes by itself, in the flow */
        REPLY_CHUNKS, /* passes piece by piece */
        REPLY_DONE,
};

struct exchange {
        char *method;
        bool is_tls;        /* https:// without CONNECT, which nobody can serve */
        struct buf request; /* the head as it is passed on; kept as long as it may have to be sent again */
        uint64_t length;    /* of its body */
        bool is_chunked;    /* or its body has chunks */
        bool is_retryable; /* it may be sent to another connection: it has no body and may be done twice, and nothing was answered */
        bool is_cut;        /* the server does not take the rest of it */
        bool wants_close;   /* the client will not use its connection again */
        bool wants_upgrade; /* and what to was passed on */
        struct http_body up_chunks, down_chunks;
        enum reply reply;
        bool has_reply; /* something of it was passed on */
        bool closes;    /* the client was told so */
        bool is_last;   /* the server's connection cannot be used again */
};

struct conn {
        struct member member;
        struct network *network;
        enum listener_kind kind;
        enum stage stage;
        bool has_hello; /* SOCKS */
        int fd, server;
        struct watch *watch, *server_watch;
        struct timer *timer;
        struct deferred end, again;
        struct buf in;       /* of the client, not yet used */
        struct buf reply_in; /* of the server, not yet used */
        size_t scanned, reply_scanned;
        char client[64];

        struct route route;
        struct flow up, down;
        struct exchange exchange;
        /* The server's connection outlives an exchange. */
        char *server_host;
        uint16_t server_port;
        struct sockaddr_storage server_peer;
};

void conn_kill(struct conn *c); /* twice is fine; the memory stays until the end of the turn */
void conn_answer(struct conn *c,
                 const struct buf *out); /* at once; a client that does not take it is killed */
void conn_linger(struct conn *c);        /* closes, in a way that lets the client read what was sent */
void conn_error(struct conn *c, unsigned status, struct slice text);
void conn_next(struct conn *c); /* reads the next request, in this turn */
void conn_go(struct conn *c, enum net_protocol protocol, struct slice host, uint16_t port); /* to a target */
/* Reads from the client into c->in, up to `max` bytes of it. Returns false when the connection has ended. */
NODISCARD bool conn_fill(struct conn *c, size_t max);
void conn_drop_server(struct conn *c);
void conn_adopt_server(struct conn *c, int fd); /* watches it */
/* Asks the loop for what the stage needs. */
void conn_settle(struct conn *c);

void exchange_begin(struct conn *c, const struct http_head *h, const struct http_target *t,
                    size_t head_bytes);
void exchange_start(struct conn *c); /* the server is there */
void exchange_client_ready(struct conn *c, unsigned events);
void exchange_server_ready(struct conn *c, unsigned events);
unsigned exchange_client_wants(const struct conn *c);
unsigned exchange_server_wants(const struct conn *c);
void exchange_release(struct conn *c);

void tunnel_start(struct conn *c); /* the server is there, the client has been told */
void tunnel_run(struct conn *c, bool runs_up, bool runs_down);
