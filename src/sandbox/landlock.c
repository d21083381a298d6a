/* landlock: see landlock.h. The numbers are the kernel's; headers of older systems do not have all of them. */
#include "sandbox/landlock.h"

#include "base/sys.h"

#include <errno.h>

#define CREATE_RULESET 444
#define ADD_RULE 445

#define CREATE_RULESET_VERSION 1
#define ABI_MIN 2
#define RULE_PATH_BENEATH 1

#define FS_EXECUTE (1ULL << 0)
#define FS_WRITE_FILE (1ULL << 1)
#define FS_READ_FILE (1ULL << 2)
#define FS_READ_DIR (1ULL << 3)
#define FS_REMOVE_AND_MAKE \
        (0x1ffULL << 4)           /* remove dir and file; make char, dir, reg, sock, fifo, block, sym */
#define FS_REFER (1ULL << 13)     /* ABI 2 */
#define FS_TRUNCATE (1ULL << 14)  /* ABI 3 */
#define FS_IOCTL_DEV (1ULL << 15) /* ABI 5 */
#define SCOPE_ABSTRACT 1ULL       /* ABI 6 */
#define SCOPE_ABSTRACT_AND_SIGNAL 3ULL

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

int landlock_probe(void)
{
        return (int)sys_call3(CREATE_RULESET, NULL, 0, CREATE_RULESET_VERSION);
}

int landlock_abi(void)
{
        int r = landlock_probe();
        return r < ABI_MIN ? 0 : r;
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

static int add(int ruleset, int fd, uint64_t allowed)
{
        const struct path_beneath_attr attr = { .allowed = allowed, .fd = fd };
        return (int)sys_call4(ADD_RULE, ruleset, RULE_PATH_BENEATH, &attr, 0);
}

int landlock_allow(int ruleset, uint32_t abi, int fd, bool is_directory)
{
        uint64_t allowed = writing(abi);
        if (!is_directory)
                allowed &= FS_WRITE_FILE | FS_TRUNCATE;
        return add(ruleset, fd, allowed);
}

/* ---- the only lock ---- */

int landlock_alone_begin(uint32_t abi)
{
        const struct ruleset_attr attr = {
                .fs = writing(abi) | FS_EXECUTE | FS_READ_FILE | FS_READ_DIR | FS_IOCTL_DEV,
                .scoped = SCOPE_ABSTRACT_AND_SIGNAL,
        };
        return (int)sys_call3(CREATE_RULESET, &attr, sizeof(attr), 0);
}

int landlock_alone_allow(int ruleset, uint32_t abi, int fd, bool is_directory, enum landlock_right right)
{
        const uint64_t of_files = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV;
        const uint64_t reading = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR;
        const uint64_t rights[] = {
                [LANDLOCK_LIST] = FS_READ_DIR,
                [LANDLOCK_READ] = reading,
                [LANDLOCK_WRITE] = reading | writing(abi),
                [LANDLOCK_DEVICE] = FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV,
        };
        return add(ruleset, fd, rights[right] & (is_directory ? UINT64_MAX : of_files));
}

int landlock_domain_begin(void)
{
        const struct ruleset_attr attr = { .scoped = SCOPE_ABSTRACT };
        return (int)sys_call3(CREATE_RULESET, &attr, sizeof(attr), 0);
}
