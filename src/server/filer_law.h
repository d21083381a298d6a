/* filer_law: a plan as the law of a filer (fsop/law.h), and as bytes.
 *
 * Two plans that allow the same, on the same files, have the same bytes: they are also the key under which filers are kept,
 * and when something is not what it was the key is another. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "fsop/law.h"

struct plan;

/* -errno when it is too large. */
NODISCARD int filer_law_write(const struct plan *p, struct buf *ret);
/* `bytes` must stay. `is_alone`: no view stands behind the law, so that it says itself what cannot be seen at all. -errno
 * with err. */
struct arena;
NODISCARD int filer_law_read(struct arena *a, struct slice bytes, bool is_alone, struct law *ret,
                             struct err *err);
