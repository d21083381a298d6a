/* fs_flow: carries the content of one file between a stream of the server and a descriptor of this program.
 *
 * A slow server does not block the descriptor, nor a slow descriptor the server, and only the window of the stream is kept in
 * memory. With `guards_signals`, SIGINT, SIGTERM and SIGHUP end the flow instead of the program, so that the caller can remove a
 * half-written file. The caller then calls fs_flow_end, which lets the signal act.
 */
#pragma once

#include "farfs/fs.h"

struct fs_flow {
        struct fs *fs;
        struct farhand_file *file;
        const char *there, *here; /* the two paths as the user gave them, for error messages */
        bool guards_signals;
        int signals; /* signalfd, or -1 */
        int signo;   /* the signal that has ended the flow; 0: no signal has */
};

/* fs_flow_out copies the stream to fd, and fs_flow_in fd to the stream, with `head` before it. Both return 0, or -1 after they have
 * printed why on stderr or set signo. */
NODISCARD int fs_flow_out(struct fs_flow *flow, int fd);
NODISCARD int fs_flow_in(struct fs_flow *flow, int fd, struct slice head);
/* Lets the signal that has ended the flow act on the program. */
void fs_flow_end(struct fs_flow *flow);
