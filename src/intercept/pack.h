/* pack: options and rules as bytes, so that the server can hand them to the broker of a command in one descriptor. */
#pragma once

#include "base/err.h"
#include "base/slice.h"
#include "intercept/options.h"
#include "rules/exec_rules.h"

/* The texts are good: exec_rules_new took them, without a cwd. Returns a sealed memfd, or -errno; -E2BIG: LIMIT_RULES_FILES,
 * LIMIT_RULES_NAME_BYTES or LIMIT_RULES_BYTES is exceeded. */
NODISCARD int intercept_pack(const struct intercept_options *options, const struct exec_rules_text *texts,
                             size_t count);
/* Reads what intercept_pack wrote. Returns 0, and the caller frees the set of rules; or -errno. */
NODISCARD int intercept_unpack(int fd, struct intercept_options *ret_options, struct exec_rules **ret_rules);
