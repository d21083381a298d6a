/* maps: unmaps the memory that a new process shares with others. Reads /proc/self/maps, proc_pid_maps(5): one line
 * "start-end perms ..." for each mapping, sorted by address. */
#include "base/maps.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* The part of a line that was read so far. */
struct line {
        uintptr_t bounds[2];
        unsigned part; /* which part of the line comes next: PART_* below */
        unsigned permissions_n;
        char kind; /* the fourth permission: 's' or 'p' */
};
enum { PART_START, PART_END, PART_PERMISSIONS, PART_REST };

static int digit(char c)
{
        return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int line_end(const struct line *l, uintptr_t kept)
{
        uintptr_t start = l->bounds[0], end = l->bounds[1];
        if (l->part != PART_REST || (l->kind != 's' && l->kind != 'p') || start >= end)
                return -EBADMSG;
        if (l->kind == 'p' || (kept >= start && kept < end))
                return 0;
        return munmap((void *)start, end - start) < 0 ? -errno : 0; /* NOLINT(performance-no-int-to-ptr) */
}

static int line_take(struct line *l, char c)
{
        switch (l->part) {
        case PART_START:
        case PART_END:
                if (c == (l->part == PART_START ? '-' : ' ')) {
                        l->part++;
                        return 0;
                }
                if (digit(c) < 0)
                        return -EBADMSG;
                l->bounds[l->part] = l->bounds[l->part] * 16 + (uintptr_t)digit(c);
                return 0;
        case PART_PERMISSIONS:
                if (++l->permissions_n == 4) {
                        l->kind = c;
                        l->part = PART_REST;
                }
                return 0;
        default:
                return 0;
        }
}

int maps_drop_shared(const void *kept)
{
        struct line line = { .part = PART_START };
        char bytes[4096];
        bool is_empty = true;
        _close_ int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        for (;;) {
                ssize_t n = read(fd, bytes, sizeof(bytes));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        return is_empty || line.part != PART_START ? -EBADMSG : 0;
                is_empty = false;
                for (ssize_t i = 0; i < n; i++) {
                        int r = bytes[i] == '\n' ? line_end(&line, (uintptr_t)kept)
                                                 : line_take(&line, bytes[i]);
                        if (r < 0)
                                return r;
                        if (bytes[i] == '\n')
                                line = (struct line){ .part = PART_START };
                }
        }
}
