/* keep: copies owner, ACL and extended attributes from one file to another. */
#include "fsop/keep_internal.h"

#include "base/mem.h"

#include <errno.h>
#include <linux/limits.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LIST_SMALL 256 /* enough for most files: few have many attributes */

struct names {
        char small[LIST_SMALL];
        char *large; /* used when the names do not fit into `small` */
        const char *p;
        size_t n;
};

static void names_release(struct names *names)
{
        free(names->large);
}
#define _names_ CLEANUP(names_release)

static int names_read(int fd, struct names *ret)
{
        ret->p = ret->small;
        ssize_t n = flistxattr(fd, ret->small, sizeof(ret->small));
        if (n < 0 && errno == ERANGE) {
                ret->large = mem_alloc(XATTR_LIST_MAX);
                ret->p = ret->large;
                n = flistxattr(fd, ret->large, XATTR_LIST_MAX);
        }
        if (n < 0 && errno != EOPNOTSUPP)
                return -errno;
        ret->n = n < 0 ? 0 : (size_t)n;
        return 0;
}

static const char *names_next(const struct names *names, const char *name)
{
        name = name ? name + strlen(name) + 1 : names->p;
        return name < names->p + names->n ? name : NULL;
}

static bool names_have(const struct names *names, const char *wanted)
{
        for (const char *name = NULL; (name = names_next(names, name));)
                if (strcmp(name, wanted) == 0)
                        return true;
        return false;
}

static bool is_label(const char *name)
{
        return strncmp(name, "security.", 9) == 0;
}

/* Returns whether the attribute depends on the content: a write removes capabilities, and the kernel itself computes digests of
 * the new content. */
static bool is_of_content(const char *name)
{
        return strcmp(name, "security.capability") == 0 || strcmp(name, "security.ima") == 0 ||
               strcmp(name, "security.evm") == 0;
}

static int keep_one(int from, int to, const char *name)
{
        _free_ char *value = mem_alloc(XATTR_SIZE_MAX);

        ssize_t n = fgetxattr(from, name, value, XATTR_SIZE_MAX);
        if (n < 0)
                return errno == ENODATA ? 0 : -errno;
        if (is_label(name)) {
                /* Usually the kernel has given the new file the same label, and most users may not set labels. */
                _free_ char *own = mem_alloc(XATTR_SIZE_MAX);
                if (fgetxattr(to, name, own, XATTR_SIZE_MAX) == n && memcmp(own, value, (size_t)n) == 0)
                        return 0;
        }
        return fsetxattr(to, name, value, (size_t)n, 0) < 0 ? -errno : 0;
}

static int keep_xattrs(int from, int to)
{
        _names_ struct names wanted = { 0 }, found = { 0 };

        int r = names_read(from, &wanted);
        if (r < 0)
                return r;
        for (const char *name = NULL; (name = names_next(&wanted, name));)
                if (!is_of_content(name) && (r = keep_one(from, to, name)) < 0)
                        return r;

        /* Removes the ACL that the new file got from its directory's default ACL and that the old one did not have. */
        r = names_read(to, &found);
        if (r < 0)
                return r;
        for (const char *name = NULL; (name = names_next(&found, name));)
                if (!is_label(name) && !names_have(&wanted, name) && fremovexattr(to, name) < 0)
                        return -errno;
        return 0;
}

mode_t keep_mode(mode_t mode, const struct stat *from, const struct stat *to)
{
        bool is_same = from->st_uid == to->st_uid && from->st_gid == to->st_gid;
        return is_same ? mode : mode & ~(mode_t)(S_ISUID | S_ISGID);
}

int keep_attributes(int from, int to, const struct stat *st)
{
        struct stat now;
        if (fstat(to, &now) < 0)
                return -errno;

        bool has_owner = now.st_uid == st->st_uid, has_group = now.st_gid == st->st_gid;
        if ((!has_owner || !has_group) &&
            fchown(to, has_owner ? (uid_t)-1 : st->st_uid, has_group ? (gid_t)-1 : st->st_gid) < 0)
                return -errno;
        return keep_xattrs(from, to);
}
