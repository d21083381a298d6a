/* write_target: finds the file that a path to be written means, and opens it without truncating and without waiting. */
#include "fsop/write_internal.h"

#include "fsop/at.h"
#include "reach/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define LINKS_MAX 40 /* the limit of the kernel */

static int open_target(const struct writer *w, int flags)
{
        /* A file that is compared by digest must be readable too. */
        flags |= w->o.match == MATCH_DIGEST ? O_RDWR : O_WRONLY;
        int fd;
        /* Where links are not followed, FIFOs are refused, and must not even be opened: another process may hold the lock of the
         * FIFO, and the open would wait for it (base/fd.h). */
        if (!w->o.follow && !reach_is_limited()) {
                do
                        fd = fd_open_looking(w->at.dirfd, w->at.name, flags | O_NONBLOCK | O_NOCTTY);
                while (fd == -EINTR);
                return fd;
        }
        do
                fd = at_open(w->at.dirfd, w->at.name, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
        while (fd < 0 && errno == EINTR);
        return fd < 0 ? -errno : fd;
}

int entry_follow(struct entry *e)
{
        char target[PATH_MAX];
        ssize_t n = at_readlink(e->dirfd, e->name, target, sizeof(target) - 1);
        if (n < 0)
                return -errno;
        target[n] = '\0';
        if (n == 0 || entry_is_unnamed(target))
                return -ENOENT;
        if (target[n - 1] == '/')
                return -EISDIR;

        struct entry next = ENTRY_INIT;
        if (target[0] == '/') {
                int r = entry_open(target, true, &next);
                if (r < 0)
                        return r;
        } else {
                char *slash = strrchr(target, '/');
                const char *name = slash ? slash + 1 : target;
                size_t length = strlen(name);
                if (length > NAME_MAX)
                        return -ENAMETOOLONG;
                memcpy(next.name, name, length + 1);
                if (slash)
                        *slash = '\0';
                next.dirfd = at_open(e->dirfd, slash ? target : ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
                if (next.dirfd < 0) {
                        int r = -errno;
                        reach_meant_name(r, slice_from_str(next.name));
                        return r;
                }
        }
        entry_release(e);
        *e = next;
        return 0;
}

int writer_find(struct writer *w)
{
        w->target = fd_close(w->target);
        w->is_linked = false;
        for (int links = 0; links < LINKS_MAX; links++) {
                int fd = open_target(w, O_NOFOLLOW);
                if (fd == -ELOOP && w->o.follow) {
                        fd = open_target(w, 0);
                        if (fd == -ENOENT) {
                                /* The link points at a missing file: the file is made there. */
                                int r = entry_follow(&w->at);
                                if (r < 0)
                                        return r;
                                continue;
                        }
                        w->is_linked = true;
                }
                if (fd == -ENOENT)
                        return 0;
                if (fd < 0)
                        return fd;

                w->target = fd;
                return fstat(fd, &w->st) < 0 ? -errno : 0;
        }
        return -ELOOP;
}
