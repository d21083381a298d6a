/* write_target: which file a path to be written means, opened without truncating and without waiting. */
#include "fsop/write_internal.h"

#include "fsop/at.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define LINKS_MAX 40 /* as the kernel */

static int open_target(const struct writer *w, int flags)
{
        /* To be compared by digest it must be read too. */
        flags |= w->o.match == MATCH_DIGEST ? O_RDWR : O_WRONLY;
        int fd;
        do
                fd = at_open(w->at.dirfd, w->at.name, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
        while (fd < 0 && errno == EINTR);
        return fd < 0 ? -errno : fd;
}

/* Moves *e to where the link that it names points. */
static int entry_follow(struct entry *e)
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
                if (next.dirfd < 0)
                        return -errno;
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
                                /* A link to what is not there yet: the file is made where it points. */
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
