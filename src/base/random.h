/* random: bytes from the kernel; aborts when there are none (no security decision may go on without). */
#pragma once

#include "base/compat.h"

void random_bytes(void *p, size_t n);

#define UUID_TEXT_BYTES 37
/* Lower-case UUID v4 with NUL. */
void random_uuid(char ret[UUID_TEXT_BYTES]);

/* A secret of this process, the same on every call: for hashes of what clients choose. */
const uint64_t *random_hash_key(void);
