/* cp_claim: makes one copy at a time write a part on a server.
 *
 * A claim is a stream that is open with a lock and writes nothing. It lasts until the part was renamed. A server without fsControlV1 knows
 * no locks: there two copies to one file disturb each other.
 */
#pragma once

#include "farfs/cp.h"

/* Claims a part, which is made when it does not exist. One that cannot be continued is removed, because the server would write into it; but
 * not before it is claimed, because another copy may have it. `find` says how many bytes of the part can stay; NULL: none. Returns the
 * claim, to be freed by farhand_file_free, and how many bytes stay; or NULL after it has printed why on stderr. */
NODISCARD struct farhand_file *cp_claim(struct cp_dir *dir, const char *part, bool is_private,
                                        uint64_t (*find)(void *arg), void *arg, uint64_t *ret_offset);
/* Returns whether the part is still ours: another copy can have claimed it while the connection was lost. Otherwise stderr is told. */
NODISCARD bool cp_claim_is_held(struct cp_dir *dir, const char *name, struct farhand_file *claim);
