/* finish: joins the namespaces of a view that bwrap has built, sets the limits in them, and makes the devices read-only. */
#include "sandbox/finish.h"

#include "base/sys_proc.h"
#include "sandbox/sys_mount.h"
#include "sandbox/verify_internal.h"
#include "sandbox/view_paths.h"

#include <errno.h>
#include <linux/nsfs.h>
#include <sched.h>

/* Returns the inode of a namespace; 0, which no namespace has, when it cannot be read. */
static uint64_t inode_of(int fd)
{
        struct stat st;
        return fd >= 0 && sys_fstat(fd, &st) == 0 ? st.st_ino : 0;
}

int finish_open(pid_t pid, const struct verify_spaces *outside, struct finish *ret)
{
        *ret = (struct finish){ .owner = -1,
                                .user = sys_proc_open(pid, "ns/user"),
                                .mount = sys_proc_open(pid, "ns/mnt"),
                                .pid = sys_proc_open(pid, "ns/pid"),
                                .ipc = sys_proc_open(pid, "ns/ipc"),
                                /* Without this directory there are no limits. */
                                .settings = sys_open(USER_LIMITS_DIRECTORY, O_PATH | O_DIRECTORY) };
        int r = MIN(MIN(ret->user, ret->mount), MIN(ret->pid, ret->ipc));
        if (r >= 0)
                r = ret->owner = (int)sys_call2(SYS_ioctl, ret->mount, NS_GET_USERNS);
        if (r >= 0) {
                uint64_t owner = inode_of(ret->owner), user = inode_of(ret->user),
                         mount = inode_of(ret->mount);
                bool is_new = owner != 0 && owner != outside->inodes[SPACE_USER] && user != 0 &&
                              user != outside->inodes[SPACE_USER] && mount != 0 &&
                              mount != outside->inodes[SPACE_MOUNT];
                ret->has_second_user = owner != user;
                r = is_new ? 0 : -EPROTO;
        }
        if (r < 0)
                finish_close(ret);
        return r;
}

void finish_close(const struct finish *f)
{
        const int fds[] = { f->owner, f->user, f->mount, f->pid, f->ipc, f->settings };
        for (size_t i = 0; i < ARRAY_LEN(fds); i++)
                if (fds[i] >= 0)
                        sys_close(fds[i]);
}

static int join(int space, unsigned long kind)
{
        return (int)sys_call2(SYS_setns, space, kind);
}

/* Sets the limits in the user namespace of the caller. */
static void limit(const struct finish *f, struct user_limits limits)
{
        if (f->settings >= 0 && limits.inotify_instances > 0)
                (void)user_limits_set_at(f->settings, limits, false);
}

static int device_seal(int root, const char *path)
{
        struct verify_found found;
        int fd = sys_open_beneath(root, path, O_PATH | O_NOFOLLOW);
        if (fd == -ENOENT)
                return 0; /* the machine lacks this device, or it is the terminal and there is none */
        int r = fd < 0 ? fd : verify_find(fd, &found);
        if (r == 0)
                r = found.is_mount ? sys_mount_seal(fd) : -EPROTO;
        if (fd >= 0)
                sys_close(fd);
        return r;
}

/* Joining a mount namespace makes its root the root of the process. */
static int devices_seal(void)
{
        int root = sys_open("/", O_PATH | O_DIRECTORY);
        int r = MIN(root, 0);
        for (const char *const *device = view_devices; r == 0 && *device; device++)
                r = device_seal(root, *device);
        if (root >= 0)
                sys_close(root);
        return r;
}

int finish_view(const struct finish *f, struct user_limits limits, bool has_view, bool stays)
{
        int r = join(f->owner, CLONE_NEWUSER);
        if (r < 0)
                return r;
        limit(f, limits);
        r = join(f->mount, CLONE_NEWNS);
        if (r == 0 && has_view)
                r = devices_seal();
        if (r == 0 && stays)
                r = join(f->ipc, CLONE_NEWIPC);
        if (r == 0 && stays)
                r = join(f->pid, CLONE_NEWPID);
        if (r < 0 || !f->has_second_user)
                return r;
        /* The second user namespace is joined last, because the mounts do not belong to it. */
        r = join(f->user, CLONE_NEWUSER);
        if (r == 0)
                limit(f, limits);
        return r;
}
