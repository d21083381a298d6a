/* grants: what was allowed for the whole session, so that nobody is asked about it again. Pure.
 *
 * A grant for a command holds for exactly this command in this directory of this environment, with a terminal or without one (whoever
 * writes to a terminal decides what the command does, so that is more); one for a patch holds for each of the real paths that it reads and
 * changes: a link that leads elsewhere later is not covered. The oldest grant goes when there are LIMIT_APPROVAL_GRANTS.
 */
#pragma once

#include "approve/action.h"
#include "base/limits.h"
#include "base/list.h"
#include "wire/jsonw.h"

struct grants {
        struct list list; /* grant::link, oldest first */
        size_t count;
};

void grants_init(struct grants *g);
void grants_release(struct grants *g);
/* Keeps a grant: the action may run without a sandbox (`is_outside`), with the additional permissions (as
 * permissions_read_additional writes them), or, when both are absent, in the sandbox without a question. */
void grants_add(struct grants *g, const struct approval_action *action, bool is_outside,
                const char *additional);
/* Returns whether there is any grant for a patch. */
NODISCARD bool grants_know_patches(const struct grants *g);
NODISCARD bool grants_have(const struct grants *g, const struct approval_action *action, bool is_outside,
                           const char *additional);
void grants_write(const struct grants *g, struct jsonw *w);
