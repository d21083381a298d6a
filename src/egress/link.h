/* link: the socket between farhand-egress and the server: whole messages, some of them with descriptors.
 *
 * Messages are queued, and sent at the end of the turn or some milliseconds later. None is dropped: whoever makes many of them must look at link_is_full first.
 */
#pragma once

#include "base/buf.h"
#include "loop/loop.h"
#include "wire/egressmsg.h"

#define LINK_FDS_MAX 253 /* what the kernel passes with one message */

#define LINK_SPARE EGRESSMSG_FDS_MAX

struct link {
        int fd; /* not blocking */
        struct loop *loop;
        struct watch *watch;
        struct deferred flush;
        struct timer *later;
        bool is_later;         /* it runs */
        struct buf out;        /* each message behind its length */
        size_t sent;           /* bytes at the front of `out` that were sent already */
        int spare[LINK_SPARE]; /* descriptors that are closed to make room for those of a message */
        size_t spare_count;
        bool has_pong; /* one is to be sent: PINGs that come meanwhile need no other */
        /* Takes one message. Descriptors that it leaves in `fds` (others become -1) are closed. -errno ends the link. */
        int (*take)(void *arg, struct slice message, int fds[], size_t fd_count);
        void (*on_end)(void *arg, int why); /* 0: the server has closed the socket */
        void (*on_room)(void *arg);         /* it is no longer full */
        void *arg;
};

/* The caller has set the callbacks, and zeroed the rest. */
NODISCARD int link_open(struct link *l, struct loop *loop, int fd);
void link_release(struct link *l);
/* To be sent at the end of the turn; after it, and with others of its kind, when nobody waits for it. Messages keep their order. */
void link_send(struct link *l, struct slice message);
void link_send_later(struct link *l, struct slice message);
/* Sent before this returns, if the socket takes it. */
void link_send_now(struct link *l, struct slice message);
void link_pong(struct link *l);

bool link_is_full(const struct link *l);
