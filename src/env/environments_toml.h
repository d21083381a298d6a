/* environments_toml: reads the text of a file environments.toml. No system calls.
 *
 *     default = "devbox"            # or "none"; without this key: `local` if it is included
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
 * Other keys are `env` (a table) and `cwd` beside `program`, `connect_timeout_sec` beside `url`, and `initialize_timeout_sec`. Any
 * other key is refused. Other clients read the same file; only Farhand knows token_file, token_env, unix: and ssh: URLs.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "env/environment.h"

/* Reads the text. Everything in *ret is a copy in the arena. `path` is the file, for error texts and for paths that are relative to
 * its directory; NULL: there is no file, and relative paths are refused. Returns 0, -EINVAL, or -EFBIG when the text is too
 * long. */
NODISCARD int environments_parse(struct arena *a, struct slice text, const char *path,
                                 struct environments *ret, struct err *err);
