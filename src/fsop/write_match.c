/* write_match: checks whether a file is what the writer expects: absent, or of a given digest, or of a given size and time. */
#include "fsop/write_internal.h"

#include "fsop/at.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int write_conflict(const struct current *c, const struct stat *st, bool is_linked)
{
        if (c->exists)
                *c->exists = st != NULL;
        if (c->meta && st) {
                fs_meta_from_stat(st, c->meta);
                c->meta->is_symlink = is_linked;
        }
        c->err->os_errno = 0;
        return err_set(c->err, 0, -ESTALE, "conflict: %s",
                       st ? "the file is not what ifMatch says" : "the file does not exist");
}

int writer_match(const struct writer *w, int fd, const struct stat *st, const struct current *c)
{
        if (w->o.match == MATCH_ANY)
                return 0;
        if (fd < 0)
                return w->o.match == MATCH_ABSENT ? 0 : write_conflict(c, NULL, false);
        if (w->o.match == MATCH_ABSENT || !S_ISREG(st->st_mode))
                return write_conflict(c, st, w->is_linked);

        if (w->o.match == MATCH_STAT) {
                struct fs_meta meta;
                fs_meta_from_stat(st, &meta);
                bool is_same = meta.size == w->o.match_size && meta.modified_ms == w->o.match_modified_ms;
                return is_same ? 0 : write_conflict(c, st, w->is_linked);
        }

        uint8_t digest[FS_DIGEST_BYTES];
        int r = fsop_digest_fd(fd, digest);
        if (r < 0)
                return fsop_fail(c->err, r);
        return memcmp(digest, w->o.digest, sizeof(digest)) == 0 ? 0 : write_conflict(c, st, w->is_linked);
}

int writer_match_again(struct writer *w, const struct current *c)
{
        if (w->o.match == MATCH_ANY || w->o.match == MATCH_ABSENT) /* rename_to_absent checks MATCH_ABSENT */
                return 0;

        int flags = w->o.match == MATCH_DIGEST ? O_RDONLY | O_NONBLOCK | O_NOCTTY : O_PATH;
        _close_ int fd = at_open(w->at.dirfd, w->at.name, flags | O_NOFOLLOW | O_CLOEXEC, 0);
        struct stat st = { 0 };
        /* A link under the name is not the file that was compared before. */
        if (fd < 0 && errno == ELOOP && at_stat(w->at.dirfd, w->at.name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                return write_conflict(c, &st, true);
        if (fd < 0 && errno != ENOENT)
                return fsop_fail(c->err, errno);
        /* The file is compared only after we have its lock, because another write in place may be under way. */
        int r = writer_lock(w, fd);
        if (r == 0 && fd >= 0 && fstat(fd, &st) < 0)
                r = -errno;
        if (r < 0)
                return fsop_fail(c->err, r);
        return writer_match(w, fd, &st, c);
}
