/* random: random bytes from the kernel. The program aborts when the kernel gives none: secrets depend on them. */
#pragma once

#include "base/compat.h"

void random_bytes(void *p, size_t n);

#define UUID_TEXT_BYTES 37
/* Writes a random UUID (version 4), in lower case and with a NUL. */
void random_uuid(char ret[UUID_TEXT_BYTES]);

/* Returns a secret of this process, the same on every call: the key for hashes of what clients choose. */
const uint64_t *random_hash_key(void);
