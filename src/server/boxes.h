/* boxes: the sandboxes of processes, as requests ask for them. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "sandbox/prepare.h"

struct process_start;

/* From any thread, blocks. `env`: of the command. A descriptor, or -errno with err as the client sees it. */
NODISCARD int boxes_image(struct preparer *p, struct arena *a, const struct process_start *in,
                          const char *const *env, struct err *err);
