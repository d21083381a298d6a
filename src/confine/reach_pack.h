/* reach_pack: turns a plan into bytes, and the bytes into the reach of an fs helper (reach/reach.h).
 *
 * Plans that allow the same on the same files give the same bytes. So the bytes are also the key under which fs helpers are
 * kept: when a file was replaced the key differs. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "reach/reach.h"

struct plan;

/* Appends the bytes of a plan. Returns 0, or -errno when they exceed the ceiling of the buf. */
NODISCARD int reach_pack(const struct plan *p, struct buf *ret);
/* Makes the reach from the bytes, which must live as long as the reach. `is_alone`: there is no view, so the reach itself must hide
 * what a view would not show. Returns 0, or -errno with err filled. */
struct arena;
NODISCARD int reach_unpack(struct arena *a, struct slice bytes, bool is_alone, struct reach *ret,
                           struct err *err);
