/* environment_url: which URLs an environment may have. Pure functions.
 *
 *     ws://HOST[:PORT][/PATH][?QUERY]    wss:// too
 *     unix:/ABSOLUTE/PATH                the socket of a server on this machine
 *     ssh://[USER@]HOST[:PORT][/]        a machine that ssh reaches
 *
 * base/authority.h says what USER and HOST are. Only the form is checked; no name is looked up. A ws or wss URL has no user and no
 * password: they would be sent to nobody.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "env/environment.h"

/* Checks a URL. *ret gets a copy in the arena, without the blanks around the URL. Returns 0 or -EINVAL. */
NODISCARD int environment_url_check(struct arena *a, struct slice text, const char **ret,
                                    enum environment_kind *ret_kind, struct err *err);
