/* remedy: chooses the advice for a failed step by the error and by settings of the kernel. */
#include "sandbox/remedy.h"

#include "base/fd.h"
#include "base/slice.h"
#include "sandbox/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define SETTING_BYTES 64

static bool setting_is(const char *path, const char *text)
{
        _buf_ struct buf content = BUF_INIT(SETTING_BYTES);
        return fd_read_file(path, SETTING_BYTES, &content) == 0 &&
               slice_eq(slice_trim(buf_slice(&content)), slice_from_str(text));
}

/* A root directory that is not the root of a mount means a chroot. A chroot into a mount cannot be recognized. */
static bool is_in_chroot(void)
{
        struct statx root;
        return statx(AT_FDCWD, "/", 0, STATX_BASIC_STATS, &root) == 0 &&
               (root.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) &&
               !(root.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

static const char *for_namespaces(int os_errno)
{
        if (os_errno == EPERM && is_in_chroot())
                return "the server runs in a chroot, where the kernel allows no user namespace: start it "
                       "outside, or in a container, whose root is changed by pivot_root";
        if (os_errno == ENOSPC || setting_is("/proc/sys/user/max_user_namespaces", "0"))
                return "no more user namespaces may be made: raise the sysctl user.max_user_namespaces, or "
                       "run "
                       "fewer commands";
        if (geteuid() != 0 && setting_is("/proc/sys/kernel/unprivileged_userns_clone", "0"))
                return "set the sysctl kernel.unprivileged_userns_clone to 1";
        if (geteuid() != 0 && setting_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"))
                return "give farhand an AppArmor profile that allows userns, or set the sysctl "
                       "kernel.apparmor_restrict_unprivileged_userns to 0";
        return "in a container: allow unshare and clone of namespaces in its seccomp profile; in a chroot "
               "the "
               "kernel allows none; otherwise ask the administrator who forbids them";
}

static const char *for_bubblewrap(int os_errno)
{
        if (os_errno == ENOSPC)
                return for_namespaces(os_errno);
        if (os_errno == ESTALE)
                return "bwrap or farhand-init has changed: " HELPER_REMEDY_CHANGED;
        if (os_errno == EMFILE || os_errno == EBADF)
                return "raise the hard limit on open files: each denied file takes one";
        if (os_errno == EPROTO)
                return "bwrap has not built what it was told to: look which program bwrap is on the server's "
                       "PATH";
        return "look whether bwrap works for this user: bwrap --unshare-user --ro-bind / / true";
}

/* The errors of seccomp(2), and of the thread that answers. */
static const char *for_intercept(int os_errno)
{
        switch (os_errno) {
        case EINVAL:
                return "Linux 5.19 or later: signals must not interrupt a program's start while somebody "
                       "decides about it (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)";
        case EBUSY:
                return "a container or an emulator already watches system calls of this server (a seccomp "
                       "filter "
                       "with a listener), and the kernel allows one such filter only: run the server without "
                       "it";
        case EPERM:
        case EACCES:
                return "in a container: allow seccomp in its seccomp profile; otherwise ask the "
                       "administrator "
                       "who forbids it";
        case EAGAIN:
        case ENOMEM:
                return "the keeper could not make a thread: raise the limit on processes of the server's "
                       "user "
                       "or of its cgroup (pids.max), or run fewer commands";
        case EMFILE:
        case ENFILE:
                return "raise the hard limit on open files: an intercepted command takes four more";
        default:
                return "a kernel with CONFIG_SECCOMP_FILTER; in a container: allow seccomp in its profile";
        }
}

const char *remedy_for(const char *step, int os_errno)
{
        if (os_errno == ETOOMANYREFS)
                return "a command of this user keeps more descriptors in flight on unix sockets than the "
                       "server's limit on open files: end that command, or start the server with a higher "
                       "hard limit (RLIMIT_NOFILE)";
        if (strcmp(step, "namespaces") == 0 || strcmp(step, "idMap") == 0)
                return for_namespaces(os_errno);
        if (strcmp(step, "intercept") == 0)
                return for_intercept(os_errno);
        if (strcmp(step, "stdio") == 0 && os_errno == EISDIR)
                return "give the command a file, a pipe or a terminal as its stdin, stdout and stderr: from "
                       "a "
                       "directory it would find its way out";
        if (strcmp(step, "check") == 0)
                return os_errno == ESTALE
                               ? "something was moved or unmounted while the sandbox was built: start "
                                 "it again"
                               : "the sandbox has other mounts than the profile asks for: start it again, in "
                                 "case "
                                 "something was removed meanwhile; if it stays so look, where bubblewrap is "
                                 "used, "
                                 "which program bwrap is on the server's PATH, else please report this";
        if (strcmp(step, "proc") == 0)
                return "a new /proc may not be mounted, because parts of the present one are hidden: run the "
                       "container with an unmasked /proc";
        if (strcmp(step, "seccomp") == 0)
                return "a kernel with CONFIG_SECCOMP_FILTER";
        if (strcmp(step, "bubblewrap") == 0)
                return for_bubblewrap(os_errno);
        if (os_errno == ESTALE || (os_errno == EEXIST && strcmp(step, "stub") == 0))
                return "something changed the directory meanwhile: start it again";
        if (strcmp(step, "finish") == 0 && os_errno == EPROTO)
                return for_bubblewrap(os_errno);
        if (strcmp(step, "finish") == 0)
                return "the server could join what bwrap builds when it was started, and cannot now: start "
                       "it "
                       "again, and see what farhand doctor says of bubblewrap";
        if (strcmp(step, "landlock") == 0)
                return "Linux 6.12 or later with landlock in the kernel's lsm= list; in a container: allow "
                       "its "
                       "calls in the seccomp profile";
        return NULL;
}
