/* access: asks the server before anything else whether the permission profile allows what a patch does. */
#pragma once

#include "hunk/parse.h"
#include "patch/ask.h"

/* What was found: the first path of the patch that is denied. Begins as { 0 }. */
struct access_check {
        const struct denial *denial; /* NULL: nothing is denied, as far as is known */
        const char *path;            /* the absolute path in the patch */
        const char *message;         /* how the failure of that hunk begins: "Failed to write file " */
        struct access_batch *batches;
};

/* Sends the requests about all paths of the patch, if there is a profile and the server knows such requests. The answers are there after
 * asks_wait. */
void access_send(struct asks *s, struct access_check *check, const struct patch *p, const char *cwd);
/* Fills in the first denial from the answers, if there is one. Returns whether something is denied. */
NODISCARD bool access_is_denied(struct access_check *check);
/* Calls the function for each denial, once for what is done to one path. */
void access_each_denial(const struct access_check *check, void (*fn)(void *arg, const struct denial *denial),
                        void *arg);
