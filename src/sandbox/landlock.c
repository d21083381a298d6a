/* landlock: see landlock.h. The numbers are the kernel's; headers of older systems do not have all of them. */
#include "sandbox/landlock.h"

#include "base/sys.h"

#include <errno.h>

#define CREATE_RULESET 444
#define ADD_RULE 445

#define CREATE_RULESET_VERSION 1
#define ABI_MIN 2
#define RULE_PATH_BENEATH 1

#define FS_WRITE_FILE (1ULL << 1)
#define FS_REMOVE_AND_MAKE \
        (0x1ffULL << 4)                /* remove dir and file; make char, dir, reg, sock, fifo, block, sym */
#define FS_REFER (1ULL << 13)          /* ABI 2 */
#define FS_TRUNCATE (1ULL << 14)       /* ABI 3 */
#define SCOPE_ABSTRACT_AND_SIGNAL 3ULL /* ABI 6 */

struct ruleset_attr {
        uint64_t fs, net, scoped;
};

struct path_beneath_attr {
        uint64_t allowed;
        int32_t fd;
} __attribute__((packed));

/* Device ioctls (ABI 5) stay: the devices in the view are harmless ones, and a terminal is nothing without them. */
static uint64_t writing(uint32_t abi)
{
        return FS_WRITE_FILE | FS_REMOVE_AND_MAKE | (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0);
}

int landlock_abi(void)
{
        long r = sys_call3(CREATE_RULESET, NULL, 0, CREATE_RULESET_VERSION);
        return r < ABI_MIN ? 0 : (int)r;
}

int landlock_begin(uint32_t abi)
{
        const struct ruleset_attr attr = {
                .fs = writing(abi),
                .scoped = abi >= 6 ? SCOPE_ABSTRACT_AND_SIGNAL : 0,
        };
        size_t known = abi >= 6 ? sizeof(attr) : sizeof(attr.fs);
        return (int)sys_call3(CREATE_RULESET, &attr, known, 0);
}

int landlock_allow(int ruleset, uint32_t abi, int fd, bool is_directory)
{
        uint64_t allowed = writing(abi);
        if (!is_directory)
                allowed &= FS_WRITE_FILE | FS_TRUNCATE;
        const struct path_beneath_attr attr = { .allowed = allowed, .fd = fd };
        return (int)sys_call4(ADD_RULE, ruleset, RULE_PATH_BENEATH, &attr, 0);
}
