/* scan: answers one query for denied patterns by reading every directory that could hold a match. */
#pragma once

#include "glob/matches.h"

/* Searches now, and may block. A prefix that does not exist has no matches. Fails with -errno and err filled (step "glob scan"):
 * -EINVAL for a bad pattern, -E2BIG at a limit, -ETIMEDOUT, -ECANCELED, or an error of the file system. */
NODISCARD int glob_scan(const struct glob_query *query, struct glob_matches **ret, struct err *err);
