/* filer_talk: the server's end of one filer: its socket, and one question at a time. */
#pragma once

#include "base/err.h"
#include "server/filer_msg.h"

struct job;
struct jsonw;

struct filer_line {
        int socket, pidfd; /* -1 */
        bool is_broken;    /* it died, hung or said nonsense: of no more use */
};
#define FILER_LINE_NONE ((struct filer_line){ .socket = -1, .pidfd = -1 })

struct filer_question {
        struct job *job;
        uint32_t method;
        const struct filer_params *shape;
        const void *params;
        struct jsonw *w; /* for the result; or … */
        int *ret_fd;     /* … for what was opened */
};

/* All may block, as long as a filer may take (LIMIT_FILER_MS). -errno with err. */
NODISCARD int filer_line_open(struct filer_line *l, int spawner, int image, struct slice law,
                              struct err *err);
NODISCARD int filer_line_ask(struct filer_line *l, const struct filer_question *q, struct err *err);

NODISCARD bool filer_line_is_alive(const struct filer_line *l);
void filer_line_close(struct filer_line *l); /* the filer ends */
