/* static_program: finds the farhand that can be sent to another machine: a static one, of the machine's architecture. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

#define STATIC_PROGRAM_MAX ((size_t)32 * 1024 * 1024)

/* Reads the program for a machine, as uname -m and -s name it. `directory` (NULL: the usual places) holds farhand-x86_64 and
 * farhand-aarch64; `farhand` is as programs_farhand takes it. Appends to *out a line with size and SHA-256 of the program, and the
 * program. Returns 0, or -errno with *err filled. */
NODISCARD int static_program_append(struct buf *out, struct slice machine, struct slice system,
                                    const char *directory, const char *farhand, struct err *err);
