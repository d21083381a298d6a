/* frames: lets a WebSocket client talk to a program that has one message on each line.
 *
 * Nothing is collected: a message passes in pieces as it arrives, as a part of a line one way and as fragments the other way. Line ends
 * inside of a message, which are blanks in JSON, become blanks. Control frames are answered here.
 */
#pragma once

#include "door/duct.h"
#include "wire/ws.h"

struct frames {
        struct ws_decoder decoder;
        struct buf rest;   /* bytes of the client: a frame whose end has not come yet */
        struct duct *back; /* to the client: pongs and the answer to a close go there */
        bool in_message;   /* a message to the client is under way */
        bool is_closed;    /* the last frame to the client is written */
};

void frames_init(struct frames *f, struct duct *back);
void frames_release(struct frames *f);
/* Both are a duct::turn; `arg` is the struct frames. */
int frames_to_lines(void *arg, char *bytes, size_t n, struct buf *out);
int frames_from_lines(void *arg, char *bytes, size_t n, struct buf *out);
