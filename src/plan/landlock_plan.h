/* landlock_plan: decides which plans Landlock alone can enforce, and converts them for enter_rules.
 *
 * Landlock grants rights to a path and everything below it, and cannot take them back below. So a plan must have nothing
 * narrower inside of a writable directory (protected names are narrower, in every writable directory), nothing denied inside
 * of a readable one, and no path that must not be created. What remains: everything readable or only some paths, and single
 * writable files, or directories in which every protected name is writable.
 *
 * The result has only PLAN_READ and PLAN_WRITE operations.
 */
#pragma once

#include "plan/plan.h"

/* Converts a plan into one that Landlock alone can enforce. `from` is not changed. `has_proc`: where everything is readable, the
 * processes in /proc are readable as well, as for commands. Returns 0, or -EOPNOTSUPP with err (step "landlock", no remedy) when
 * the plan cannot be enforced exactly. */
NODISCARD int landlock_plan(struct arena *a, const struct plan *from, bool has_proc, struct plan *ret,
                            struct err *err);
