/* landlock: makes Landlock rulesets with raw system calls. The constants are defined here because the headers of older
 * systems lack some. */
#include "sandbox/landlock.h"

#include "base/sys.h"
#include "sandbox/layers.h"

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
#define FS_REFER (1ULL << 13)     /* since ABI 2 */
#define FS_TRUNCATE (1ULL << 14)  /* since ABI 3 */
#define FS_IOCTL_DEV (1ULL << 15) /* since ABI 5 */
#define FS_READING (FS_EXECUTE | FS_READ_FILE | FS_READ_DIR)
#define SCOPE_ABSTRACT_AND_SIGNAL 3ULL /* since ABI 6 */

struct ruleset_attr {
        uint64_t fs, net, scoped;
};

struct path_beneath_attr {
        uint64_t allowed;
        int32_t fd;
} __attribute__((packed));

static uint64_t writing(uint32_t abi)
{
        return FS_WRITE_FILE | FS_REMOVE_AND_MAKE | (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0);
}

int landlock_probe(void)
{
        return layers_landlock_abi((int)sys_call3(CREATE_RULESET, NULL, 0, CREATE_RULESET_VERSION));
}

int landlock_abi(void)
{
        int r = landlock_probe();
        return r < ABI_MIN ? 0 : r;
}

/* Ioctls of devices (ABI 5) stay allowed where there are mounts: the devices in a view are harmless, and a terminal needs
 * ioctls. */
static uint64_t forbidden(enum landlock_mode mode, uint32_t abi)
{
        switch (mode) {
        case LANDLOCK_NOTHING:
                return 0;
        case LANDLOCK_WRITING:
                return writing(abi);
        case LANDLOCK_READING:
                return writing(abi) | FS_READING;
        case LANDLOCK_ALONE:
                break;
        }
        return writing(abi) | FS_READING | FS_IOCTL_DEV;
}

int landlock_begin(struct landlock *ret, enum landlock_mode mode, uint32_t abi)
{
        const struct ruleset_attr attr = {
                .fs = forbidden(mode, abi),
                .scoped = abi >= 6 ? SCOPE_ABSTRACT_AND_SIGNAL : 0,
        };
        size_t known = abi >= 6 ? sizeof(attr) : sizeof(attr.fs);
        int ruleset = (int)sys_call3(CREATE_RULESET, &attr, known, 0);
        *ret = (struct landlock){ .ruleset = MAX(ruleset, -1), .forbidden = attr.fs };
        return MIN(ruleset, 0);
}

int landlock_allow(const struct landlock *l, int fd, bool is_directory, enum landlock_right right)
{
        const uint64_t of_files = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV;
        const uint64_t rights[] = {
                [LANDLOCK_LIST] = FS_READ_DIR,
                [LANDLOCK_READ] = FS_READING,
                [LANDLOCK_WRITE] = UINT64_MAX & ~FS_IOCTL_DEV,
                [LANDLOCK_DEVICE] = FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV,
                [LANDLOCK_INPUT] = FS_READ_FILE,
                [LANDLOCK_OUTPUT] = FS_WRITE_FILE | FS_TRUNCATE,
        };
        const struct path_beneath_attr attr = {
                .allowed = rights[right] & l->forbidden & (is_directory ? UINT64_MAX : of_files),
                .fd = fd,
        };
        if (l->ruleset < 0 || attr.allowed == 0)
                return 0;
        return (int)sys_call4(ADD_RULE, l->ruleset, RULE_PATH_BENEATH, &attr, 0);
}
