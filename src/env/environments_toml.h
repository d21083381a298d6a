/* environments_toml: reads the text of a file environments.toml. Pure.
 *
 *     default = "devbox"            # or "none"; without it `local` where that is included
 *     include_local = true
 *
 *     [[environments]]
 *     id = "devbox"
 *     url = "wss://devbox.example:9000"
 *     token_file = "devbox.token"   # or token_env = "DEVBOX_TOKEN"
 *
 *     [[environments]]
 *     id = "box"
 *     program = "ssh"
 *     args = ["box", "farhand", "serve", "--listen", "stdio"]
 *
 * Also `env` (a table) and `cwd` beside `program`, `connect_timeout_sec` beside `url`, `initialize_timeout_sec`. Anything else is
 * refused. Clients of other makers read the same file; token_file, token_env, unix: and ssh: URLs are ours.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "env/environment.h"

/* Everything in *ret is a copy in the arena. `path` is the file, for error texts and for paths that are relative to its folder;
 * NULL: there is none, and such paths are refused. Returns 0, -EINVAL, or -EFBIG. */
NODISCARD int environments_parse(struct arena *a, struct slice text, const char *path,
                                 struct environments *ret, struct err *err);
