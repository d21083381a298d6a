/* fs_flow: carries the content of one file between a stream of the server and a descriptor of ours.
 *
 * Neither side blocks the other, and nothing is kept but the window of the stream. With `guards_signals` SIGINT, SIGTERM and SIGHUP end the
 * flow instead of the program, so that what is half written can be removed; the caller then calls fs_flow_end, which lets the
 * signal do what it would have done.
 */
#pragma once

#include "farfs/fs.h"

struct fs_flow {
        struct fs *fs;
        struct farhand_file *file;
        const char *there, *here; /* as the user gave them, for complaints */
        bool guards_signals;
        int signals; /* signalfd, or -1 */
        int signo;   /* the signal that has ended the flow; 0: none */
};

/* Return 0, or -1; then stderr was told why, or signo says it. `head` is written before what is read from fd. */
NODISCARD int fs_flow_out(struct fs_flow *flow, int fd);
NODISCARD int fs_flow_in(struct fs_flow *flow, int fd, struct slice head);
/* Lets the signal that has ended the flow do what it does. */
void fs_flow_end(struct fs_flow *flow);
