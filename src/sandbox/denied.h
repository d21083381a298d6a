/* denied: was it the sandbox that made a command fail? A guess from what it printed (SANDBOX.md 5). Pure. */
#pragma once

#include "base/slice.h"

#define DENIED_TEXT_MAX (1024 * 1024) /* of the retained output, the newest */

/* The three texts of a command that was started with a sandbox and has exited: bytes, UTF-8 or not. `both` is stdout and
 * stderr in the order of arrival. */
NODISCARD bool denied_by_output(int exit_code, bool has_network, struct slice out, struct slice err_out,
                                struct slice both);
