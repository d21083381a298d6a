/* placeholder_remove: removes placeholders that no command uses any more, and sweeps those that a crash has left. */
#include "plan/placeholder_mark.h"
#include "sandbox/placeholder_internal.h"
#include "sandbox/sys_mount.h"

#include <errno.h>
#include <unistd.h>

/* Takes the locks of a placeholder for the caller alone. Returns 0; -EAGAIN: other commands of this user hold them; -EBUSY:
 * commands of other users do. */
static int users_take_alone(const struct placeholder_users *l)
{
        int r = placeholder_lock_alone(l->own, l->own_byte);
        if (r < 0 || l->common < 0 || placeholder_lock_alone(l->common, l->common_byte) != -EAGAIN)
                return r;
        placeholder_lock_drop(l->own, l->own_byte);
        return -EBUSY;
}

#define NOT_OURS 1

/* Is this file still a placeholder? `placeholder` is the record of a keeper that made or shared it; NULL in a sweep. `is_held`:
 * an open descriptor keeps the inode from being reused. */
static bool is_placeholder(const struct stat *st, const struct image_placeholder *placeholder, bool is_held)
{
        bool is_same = placeholder && st->st_dev == placeholder->dev && st->st_ino == placeholder->ino &&
                       (S_ISDIR(st->st_mode) || st->st_size == 0);
        return is_same || (!is_held && placeholder_has_mark(st));
}

/* Does the error mean that there is no placeholder any more: nothing is there, or a directory with content (EEXIST on some
 * file systems), or another kind of file? */
static bool is_no_more(int r)
{
        return r == -ENOENT || r == -ENOTEMPTY || r == -EEXIST || r == -ENOTDIR || r == -EISDIR;
}

/* Removes a placeholder that no other command uses. Returns 0 when it was removed; NOT_OURS when it is missing, is no placeholder
 * any more, or only its maker may remove it; -EAGAIN when other commands use it and will remove it; or another -errno: it is
 * still there and must be removed later. */
static int remove_unless_used(const struct placeholder_users *l, int dir, const char *name,
                              const struct image_placeholder *placeholder, bool is_held, uint32_t uid)
{
        struct stat st = { .st_uid = uid };
        int used = users_take_alone(l);
        if (used < 0 && used != -EBUSY)
                return used;
        int r = (int)sys_call4(SYS_newfstatat, dir, name, &st, AT_SYMLINK_NOFOLLOW);
        bool is_foreign = r == 0 && placeholder && !placeholder->is_ours && st.st_uid != uid;
        if (r == 0 && (!is_placeholder(&st, placeholder, is_held) || (is_foreign && l->common < 0)))
                r = NOT_OURS; /* another user who made it may still need it; only the common file could tell */
        if (used == -EBUSY)
                return r == 0 ? (is_foreign ? -EAGAIN : -EBUSY) : r;
        if (r == 0)
                r = (int)sys_call3(SYS_unlinkat, dir, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
        placeholder_users_drop(l);
        bool is_forbidden = (r == -EPERM || r == -EACCES) && st.st_uid != uid;
        return is_no_more(r) || is_forbidden ? NOT_OURS : r;
}

static enum placeholder_state state_after_removal(int r)
{
        return r >= 0 ? PLACEHOLDER_GONE : r == -EAGAIN ? PLACEHOLDER_OTHERS : PLACEHOLDER_STUCK;
}

static void note_removal(struct image_placeholder *placeholder, int r)
{
        placeholder->os_errno = MIN(r, 0);
        placeholder->state = state_after_removal(r);
}

/* Does the error of opening a directory mean that the placeholder in it is gone? ELOOP: the path now leads through a link to
 * another directory. Other errors only mean that the directory cannot be opened. */
static bool is_missing(int r)
{
        return r == -ENOENT || r == -ENOTDIR || r == -ELOOP;
}

/* Removes by the open directory and not by path: the directory may have been moved, or the path may not be accessible now. */
static void remove_own(const struct image *i, struct image_placeholder *placeholder)
{
        int r = NOT_OURS;
        if (placeholder->is_taken) {
                const struct placeholder_users locks = placeholder_users_of(i, placeholder);
                r = remove_unless_used(&locks, placeholder->dir, image_at(i, placeholder->name), placeholder,
                                       placeholder->fd >= 0, i->uid);
                note_removal(placeholder, r);
        }
        if (placeholder->fd >= 0 && r == 0)
                placeholder->spent = placeholder->fd;
        else if (placeholder->fd >= 0)
                sys_close(placeholder->fd);
        if (placeholder->dir >= 0)
                sys_close(placeholder->dir);
        placeholder->is_taken = placeholder->is_common = false;
        placeholder->fd = placeholder->dir = -1;
}

/* Removes a placeholder of a keeper that was killed, perhaps before it recorded what it had made. The keeper may also be
 * running still, so members that only the keeper writes are not changed. */
static void remove_for_other_keeper(const struct image *i, struct image_placeholder *placeholder, int lock_fd)
{
        struct placeholder_entry e;
        struct stat st;
        if (placeholder->state == PLACEHOLDER_UNMADE || placeholder->state == PLACEHOLDER_GONE)
                return;
        int r = placeholder_entry_parse(image_at(i, placeholder->path), &e);
        int dir = r < 0 ? r : placeholder_open_directory(&e, placeholder, &st);
        if (dir < 0) {
                note_removal(placeholder, is_missing(dir) || dir == -ESTALE ? NOT_OURS : dir);
                return;
        }
        const struct placeholder_users locks = { .own = lock_fd,
                                                 .common = placeholder_is_shared(&st, i->uid)
                                                                   ? placeholder_common_open()
                                                                   : -1,
                                                 .own_byte = placeholder->byte,
                                                 .common_byte = placeholder->common_byte };
        note_removal(placeholder,
                     lock_fd < 0 ? lock_fd
                                 : remove_unless_used(&locks, dir, e.name, placeholder, false, i->uid));
        if (locks.common >= 0)
                sys_close(locks.common);
        sys_close(dir);
}

bool placeholders_have(const struct image *i, enum placeholder_state state)
{
        for (uint32_t n = 0; n < i->placeholder_count; n++)
                if (image_placeholders(i)[n].state == state)
                        return true;
        return false;
}

const struct image_placeholder *placeholders_at(const struct image *i, size_t n)
{
        return &image_placeholders(i)[n];
}

void placeholders_remove(struct image *i, bool has_fds)
{
        __atomic_store_n(&i->is_over, 1, __ATOMIC_SEQ_CST); /* tells the guard that this is not an attack */
        if (i->placeholder_count == 0)
                return;
        int lock_fd = has_fds || !i->locks ? -ENOLCK : placeholder_lock_open(image_at(i, i->locks));
        for (uint32_t n = 0; n < i->placeholder_count; n++) {
                struct image_placeholder *placeholder = &image_placeholders(i)[n];
                if (has_fds)
                        remove_own(i, placeholder);
                else
                        remove_for_other_keeper(i, placeholder, lock_fd);
        }
        if (lock_fd >= 0)
                sys_close(lock_fd);
        if (!has_fds)
                return;
        if (i->lock_fd >= 0)
                sys_close(i->lock_fd);
        if (i->common_fd >= 0)
                sys_close(i->common_fd);
        i->lock_fd = i->common_fd = -1;
}

void placeholders_forget(struct image *i)
{
        for (uint32_t n = 0; n < i->placeholder_count; n++) {
                struct image_placeholder *placeholder = &image_placeholders(i)[n];
                if (placeholder->spent >= 0)
                        sys_close(placeholder->spent);
                placeholder->spent = -1;
        }
}

static int sweep_at(const struct placeholder_locks *locks, int dir, const char *name)
{
        struct stat st;
        struct slice text = slice_from_str(name);
        int r = sys_fstat(dir, &st);
        int fd = r < 0 ? r : placeholder_lock_open(locks->path);
        if (fd < 0)
                return fd;
        const struct placeholder_users users = {
                .own = fd,
                .common = placeholder_is_shared(&st, geteuid()) ? placeholder_common_open() : -1,
                .own_byte = placeholder_lock_byte(locks, st.st_dev, st.st_ino, text),
                .common_byte = placeholder_common_byte(st.st_dev, st.st_ino, text)
        };
        r = remove_unless_used(&users, dir, name, NULL, false, geteuid());
        if (users.common >= 0)
                sys_close(users.common);
        sys_close(fd);
        return r;
}

enum placeholder_state placeholder_sweep(const struct placeholder_locks *locks, const char *path)
{
        struct placeholder_entry e;
        if (placeholder_entry_parse(path, &e) < 0)
                return PLACEHOLDER_GONE; /* no placeholder can be at such a path */
        int dir = placeholder_entry_open(&e);
        if (dir < 0)
                return is_missing(dir) ? PLACEHOLDER_GONE : PLACEHOLDER_STUCK;
        int r = sweep_at(locks, dir, e.name);
        sys_close(dir);
        return state_after_removal(r);
}
