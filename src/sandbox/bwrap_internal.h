/* bwrap_internal: functions that bwrap_find.c, which finds the program, and bwrap_probe.c, which runs it for a test, share. */
#pragma once

#include "sandbox/bwrap.h"

/* Fills err with step "bubblewrap" and returns r. `remedy` is a literal. */
int bwrap_refuse(struct err *err, int r, const char *text, const char *remedy);

/* Runs `bwrap --help`. Returns 0 or -errno; -ENOTSUP: this bwrap lacks an option that the arguments use. */
NODISCARD int bwrap_check_options(const struct bwrap *b, struct err *err);
