/* policy_pack: a policy as bytes, for the program that enforces it: it gets them in a file in memory, from a server that it does not trust. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "netrule/policy.h"

/* Appends the policy. -EMSGSIZE: it breaks a limit of the reader; -ENOBUFS: `out` is full. Both leave `out` as it was. */
NODISCARD int net_policy_write(struct buf *out, const struct net_policy *p);
/* Reads a whole policy and checks all of it; arrays live in the arena, slices point into `in`. -EPROTO: broken. */
NODISCARD int net_policy_read(struct arena *a, struct slice in, struct net_policy *ret);
