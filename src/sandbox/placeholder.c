/* placeholder: makes the placeholders of a command and shares them with other commands. */
#include "plan/placeholder_mark.h"
#include "sandbox/placeholder_internal.h"
#include "sandbox/sys_mount.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <unistd.h>

#define TRIES 100            /* attempts while another file has the name of the placeholder */
#define TRY_WAIT_NS 1000000L /* the wait between two attempts */

/* ---- paths and users, which placeholder_remove.c shares ---- */

/* Splits "/a/b/c" into "a/b" and "c". */
int placeholder_entry_parse(const char *path, struct placeholder_entry *ret)
{
        size_t n = 0, name = 0;
        for (; n < PATH_MAX && path[n]; n++)
                if (path[n] == '/')
                        name = n + 1;
        if (n == PATH_MAX)
                return -ENAMETOOLONG;
        if (name == 0 || n - name > NAME_MAX || n == name)
                return -EINVAL;
        for (size_t k = name; k <= n; k++)
                ret->name[k - name] = path[k];
        size_t above = name > 1 ? name - 2 : 0; /* without both slashes */
        for (size_t k = 0; k < above; k++)
                ret->directory[k] = path[k + 1];
        if (above == 0)
                ret->directory[above++] = '.';
        ret->directory[above] = 0;
        return 0;
}

int placeholder_entry_open(const struct placeholder_entry *e)
{
        int root = sys_open("/", O_PATH | O_DIRECTORY);
        if (root < 0)
                return root;
        int dir = sys_open_beneath(root, e->directory, O_PATH | O_DIRECTORY); /* need not be readable */
        sys_close(root);
        return dir;
}

bool placeholder_is_shared(const struct stat *dir, uint32_t uid)
{
        return dir->st_uid != uid || (dir->st_mode & 022);
}

struct placeholder_users placeholder_users_of(const struct image *i,
                                              const struct image_placeholder *placeholder)
{
        return (struct placeholder_users){ .own = i->lock_fd,
                                           .common = placeholder->is_common ? i->common_fd : -1,
                                           .own_byte = placeholder->byte,
                                           .common_byte = placeholder->common_byte };
}

void placeholder_users_drop(const struct placeholder_users *l)
{
        if (l->common >= 0)
                placeholder_lock_drop(l->common, l->common_byte);
        placeholder_lock_drop(l->own, l->own_byte);
}

int placeholder_open_directory(const struct placeholder_entry *e, const struct image_placeholder *placeholder,
                               struct stat *ret)
{
        int dir = placeholder_entry_open(e);
        if (dir < 0)
                return dir;
        int r = sys_fstat(dir, ret);
        if (r == 0 && (ret->st_dev != placeholder->parent_dev || ret->st_ino != placeholder->parent_ino))
                r = -ESTALE;
        if (r == 0)
                return dir;
        sys_close(dir);
        return r;
}

/* ---- making placeholders ---- */

/* Takes the locks that say that this command uses the placeholder: in the lock file of this user, and, in a directory that other
 * users may write too, in the file that all users of the machine have in common. Without the first lock the start fails. Without
 * the second it goes on, because every user of the machine can hold locks in the common file. */
static int users_share(struct image *i, struct image_placeholder *placeholder, const struct stat *dir)
{
        int r = placeholder_lock_share(i->lock_fd, placeholder->byte);
        if (r < 0)
                return r;
        placeholder->is_taken = true;
        if (!placeholder_is_shared(dir, i->uid))
                return 0;
        if (i->common_fd < 0)
                i->common_fd = placeholder_common_open();
        if (i->common_fd < 0)
                return 0;
        r = (i->common_is_kept ? placeholder_lock_share_now
                               : placeholder_lock_share)(i->common_fd, placeholder->common_byte);
        placeholder->is_common = r == 0;
        i->common_is_kept |= r == -EAGAIN;
        return 0;
}

/* Makes the placeholder, or opens that of another command. Returns a descriptor, which keeps the inode from being reused;
 * -EAGAIN when another file is there. The descriptor has O_PATH, so that modes, locks and leases do not matter. */
static int try_make(int dir, const char *name, struct image_placeholder *placeholder, struct stat *ret)
{
        int made = placeholder->is_directory ? sys_mkdirat(dir, name, PLACEHOLDER_DIRECTORY_MODE)
                                             : sys_touchat(dir, name, PLACEHOLDER_FILE_MODE);
        if (made < 0 && made != -EEXIST)
                return made;
        placeholder->is_ours = made >= 0;
        int fd = sys_openat(dir, name, O_PATH | O_NOFOLLOW);
        if (fd < 0)
                return fd == -ENOENT ? -EAGAIN : fd;
        int r = sys_fstat(fd, ret);
        /* Only its mode tells a placeholder from a user's file, so none can be shared on a file system without modes. */
        if (r == 0 && made < 0 && !placeholder_has_mark(ret))
                r = S_ISLNK(ret->st_mode) ? -ELOOP : -EAGAIN;
        if (r == 0)
                return fd;
        sys_close(fd);
        return r;
}

static int make_at(int dir, const char *name, struct image_placeholder *placeholder, struct stat *ret)
{
        for (int n = 0; n < TRIES; n++) {
                int fd = try_make(dir, name, placeholder, ret);
                if (fd != -EAGAIN)
                        return fd;
                const struct timespec wait = { .tv_nsec = TRY_WAIT_NS };
                (void)sys_call2(SYS_nanosleep, &wait, NULL);
        }
        return -EEXIST;
}

/* Where the keeper cannot create a file, the command cannot either: it has the same user and fewer privileges. This does not
 * hold in a directory of that user, whose mode the command can change. */
static bool is_out_of_reach(int r, const struct stat *dir, uint32_t uid)
{
        return r == -EROFS || ((r == -EACCES || r == -EPERM) && dir->st_uid != uid);
}

/* Does the placeholder belong to another user, in a directory where neither keeper nor command could make one? The server of
 * that user may remove it at any time, so its mask may be missing. The arguments of bwrap cannot express such a mask. */
static bool belongs_to_stranger(const struct image *i, const struct image_placeholder *placeholder,
                                const struct stat *dir)
{
        if (placeholder->fd < 0 || placeholder->is_ours || dir->st_uid == i->uid ||
            i->backend == BACKEND_BUBBLEWRAP)
                return false;
        long r = sys_call4(SYS_faccessat2, placeholder->dir, "", W_OK | X_OK, AT_EACCESS | AT_EMPTY_PATH);
        return r == -EACCES || r == -EROFS;
}

/* Gives up this placeholder: the view may be built without the mask that would lie on it. */
static void placeholder_leave(const struct image *i, struct image_placeholder *placeholder,
                              struct image_op *op)
{
        const struct placeholder_users locks = placeholder_users_of(i, placeholder);
        placeholder_users_drop(&locks);
        if (placeholder->fd >= 0)
                sys_close(placeholder->fd);
        placeholder->fd = -1;
        placeholder->is_taken = placeholder->is_common = false;
        placeholder->state = PLACEHOLDER_UNMADE;
        op->may_be_missing = true;
}

static int placeholder_make(struct image *i, struct image_placeholder *placeholder)
{
        struct placeholder_entry e;
        struct stat above, st;
        int r = placeholder_entry_parse(image_at(i, placeholder->path), &e);
        int dir = r < 0 ? r : placeholder_open_directory(&e, placeholder, &above);
        if (dir < 0)
                return dir;
        placeholder->dir = dir;
        r = users_share(i, placeholder, &above); /* from now on no other command removes the placeholder */
        if (r < 0)
                return r == -EAGAIN ? -EEXIST : r;
        /* The state is set before the placeholder exists, so that the placeholder is removed also when the keeper is killed. */
        placeholder->state = PLACEHOLDER_USED;
        placeholder->fd = make_at(dir, e.name, placeholder, &st);
        struct image_op *op = (struct image_op *)(uintptr_t)image_at(i, i->ops) + placeholder->op;
        if (is_out_of_reach(placeholder->fd, &above, i->uid)) {
                placeholder_leave(i, placeholder, op);
                return 0;
        }
        if (placeholder->fd < 0)
                return placeholder->fd;
        /* Another command may have made a file instead of a directory, or the reverse. */
        op->is_directory = S_ISDIR(st.st_mode);
        op->dev = placeholder->dev = st.st_dev;
        op->ino = placeholder->ino = st.st_ino;
        if (belongs_to_stranger(i, placeholder, &above))
                placeholder_leave(i, placeholder, op);
        return 0;
}

static int fail(struct image *i, struct enter_failure *ret, uint32_t number, int r)
{
        placeholders_remove(i, true);
        return enter_fail(ret, ENTER_PLACEHOLDER, number, r);
}

int placeholders_make(struct image *i, struct enter_failure *ret)
{
        if (i->placeholder_count > 0) {
                i->lock_fd = i->locks ? placeholder_lock_open(image_at(i, i->locks)) : -ENOLCK;
                if (i->lock_fd < 0)
                        return fail(i, ret, ENTER_NO_OP, i->lock_fd);
        }
        for (uint32_t n = 0; n < i->placeholder_count; n++) {
                int r = placeholder_make(i, &image_placeholders(i)[n]);
                if (r < 0)
                        return fail(i, ret, n, r);
        }
        if (__atomic_exchange_n(&i->placeholders_due, 0, __ATOMIC_ACQ_REL))
                (void)sys_call3(SYS_futex, &i->placeholders_due, FUTEX_WAKE, INT_MAX);
        return 0;
}
