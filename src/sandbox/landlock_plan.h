/* landlock_plan: which plans Landlock alone can enforce, and as what.
 *
 * Landlock gives rights to a path and all below it, and takes none back. So there may be nothing narrower inside of what
 * is writable (protected names are, in every writable directory), nothing denied inside of what can be read, and nothing
 * that must not come into being. What is left: everything readable or only some places, and single files that can be
 * written, or directories in which every protected name is.
 *
 * The result has PLAN_READ and PLAN_WRITE only, for enter_rules.
 */
#pragma once

#include "sandbox/plan.h"

/* `from` stays as it is; `has_proc`: where everything can be read, processes in /proc can, as it is for commands.
 * -EOPNOTSUPP with err (step "landlock") when it cannot be enforced exactly; no remedy. */
NODISCARD int landlock_plan(struct arena *a, const struct plan *from, bool has_proc, struct plan *ret,
                            struct err *err);
