/* box: the sandbox of one command and what must be kept up beside it while the command runs.
 *
 * The image goes to the spawner. The guard tells when somebody outside takes away what the masks lie on. The stubs are
 * written down, so that a server's next start removes them should all of us be killed at once.
 */
#pragma once

#include "policy/rules.h"
#include "sandbox/backend.h"
#include "sandbox/guard.h"
#include "sandbox/image.h"
#include "server/stub_book.h"

struct box_kept {
        int image_fd; /* -1: nothing must be enforced */
        struct image *image;
        struct guard *guard; /* NULL: nothing to guard */
        struct guard_hold *hold;
        struct journal *journal; /* NULL: none can be kept */
        struct stub_book book;
        struct stub_entries stubs;
        bool has_started;
        bool is_suspect; /* a stub went before the command started: it may have been another command's */
        bool is_broken;  /* a mask is gone: the command has to be ended */
};

#define BOX_KEPT_INIT ((struct box_kept){ .image_fd = -1 })

/* -errno with err; *b is to be released all the same. */
NODISCARD int box_keep(struct box_kept *b, struct arena *a, const struct profile *profile,
                       const struct place *place, enum backend wish, struct err *err);
/* For poll: -1 when there is nothing to guard. */
int box_fd(const struct box_kept *b);
/* When it can be read. is_broken tells. */
void box_look(struct box_kept *b);
/* The command has started. */
void box_on_started(struct box_kept *b);
/* When nobody is left in it. */
void box_release(struct box_kept *b);
