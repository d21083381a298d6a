/* fs_helper_talk: the connection of the server to one fs helper; it carries one request at a time. */
#pragma once

#include "base/err.h"
#include "confine/fs_helper_msg.h"

struct file_open;
struct file_request;
struct jsonw;

struct fs_helper_line {
        int socket, pidfd; /* -1: not open */
        bool is_broken;    /* the fs helper died, hung or sent nonsense, and is not used again */
};
#define FS_HELPER_LINE_NONE ((struct fs_helper_line){ .socket = -1, .pidfd = -1 })

struct fs_helper_question {
        struct file_request *request;
        struct jsonw *w;              /* gets the result; NULL when a file is opened */
        const struct file_open *open; /* what to open; NULL when `request` is done */
        int *ret_fd;                  /* gets the opened file; NULL when `request` is done */
};

/* fs_helper_line_open starts an fs helper, and fs_helper_line_ask has it do a request. Both may block, up to
 * LIMIT_FS_HELPER_MS, and return 0, or -errno with err filled. */
struct bwrap;
NODISCARD int fs_helper_line_open(struct fs_helper_line *l, int spawner, pid_t spawner_pid, int image,
                                  const struct bwrap *bwrap, struct slice reach, struct err *err);
NODISCARD int fs_helper_line_ask(struct fs_helper_line *l, const struct fs_helper_question *q,
                                 struct err *err);

NODISCARD bool fs_helper_line_is_alive(const struct fs_helper_line *l);
void fs_helper_line_close(struct fs_helper_line *l); /* makes the fs helper end */
