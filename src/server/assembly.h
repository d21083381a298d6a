/* assembly: the memory that large incoming messages share.
 *
 * A message up to LIMIT_ASSEMBLY_FREE_BYTES needs no share. A larger one claims twice what has come, again and again as
 * it grows, so that announcing much costs nobody anything; when a share is not to be had its connection is not read until
 * others have finished. A holder that dawdles while others wait is closed, so nobody can sit on the memory.
 */
#pragma once

#include "server/conn.h"

/* True when the connection holds a share of at least `bytes`; false: it waits, and is resumed when it has one. */
bool assembly_claim(struct conn *c, uint64_t bytes);
/* The same without waiting, for a message that begins: false when it cannot be had at once. */
NODISCARD bool assembly_try(struct conn *c, uint64_t bytes);
void assembly_release(struct conn *c); /* also stops waiting; fine when it holds nothing */
