/* lifeline: the descriptor of `farhand serve --lifeline`: the server ends when this descriptor reaches its end.
 *
 * The program that started the server holds the other end of a pipe or socket. However that program ends, the kernel closes its
 * end: so the program does not have to tell the server, and needs no signal. What is written to the lifeline means nothing.
 */
#pragma once

#include "base/err.h"
#include "loop/loop.h"

struct lifeline {
        int fd; /* -1: none */
        struct watch *watch;
        void (*on_end)(void *arg);
        void *arg;
};

#define LIFELINE_INIT ((struct lifeline){ .fd = -1 })

/* Takes the descriptor over, as a copy that commands do not get. Must be called before a process is forked, which would hold the
 * descriptor open. If the descriptor is standard input, standard input becomes /dev/null. Returns 0, or -errno with *err filled. */
NODISCARD int lifeline_open(struct lifeline *l, int fd, struct err *err);
/* Calls `on_end` once, from the loop, when the other end is closed. */
NODISCARD int lifeline_watch(struct lifeline *l, struct loop *loop, void (*on_end)(void *arg), void *arg,
                             struct err *err);
void lifeline_release(struct lifeline *l);
