/* bwrap_internal: between bwrap_find.c, which looks for the program, and bwrap_probe.c, which runs it. */
#pragma once

#include "sandbox/bwrap.h"

/* Step "bubblewrap"; returns r. The texts but `text` are literals. */
int bwrap_refuse(struct err *err, int r, const char *text, const char *remedy);

/* -ENOTSUP: this one cannot do what we need. */
NODISCARD int bwrap_check_options(const struct bwrap *b, struct err *err);
