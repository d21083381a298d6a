/* remedy: see remedy.h. */
#include "sandbox/remedy.h"

#include "base/fd.h"
#include "base/slice.h"

#include <errno.h>
#include <unistd.h>

#define SETTING_BYTES 64

static bool setting_is(const char *path, const char *text)
{
        _buf_ struct buf content = BUF_INIT(SETTING_BYTES);
        return fd_read_file(path, SETTING_BYTES, &content) == 0 &&
               slice_eq(slice_trim(buf_slice(&content)), slice_from_str(text));
}

static const char *for_namespaces(int os_errno)
{
        if (os_errno == ENOSPC || setting_is("/proc/sys/user/max_user_namespaces", "0"))
                return "no more user namespaces may be made: raise the sysctl user.max_user_namespaces, or "
                       "run "
                       "fewer commands";
        if (geteuid() != 0 && setting_is("/proc/sys/kernel/unprivileged_userns_clone", "0"))
                return "set the sysctl kernel.unprivileged_userns_clone to 1";
        if (geteuid() != 0 && setting_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"))
                return "give farhand an AppArmor profile that allows userns, or set the sysctl "
                       "kernel.apparmor_restrict_unprivileged_userns to 0";
        return "in a container: allow unshare and clone of namespaces in its seccomp profile; otherwise ask "
               "the administrator who forbids them";
}

static const char *for_bubblewrap(int os_errno)
{
        if (os_errno == ENOSPC)
                return for_namespaces(os_errno);
        if (os_errno == EMFILE || os_errno == EBADF)
                return "raise the hard limit on open files: each denied file takes one";
        if (os_errno == EPROTO)
                return "bwrap has not built what it was told to: look which program bwrap is on the server's "
                       "PATH";
        return "look whether bwrap works for this user: bwrap --unshare-user --ro-bind / / true";
}

const char *remedy_for(const char *step, int os_errno)
{
        if (strcmp(step, "namespaces") == 0 || strcmp(step, "idMap") == 0)
                return for_namespaces(os_errno);
        if (strcmp(step, "proc") == 0)
                return "a new /proc may not be mounted, because parts of the present one are hidden: run the "
                       "container with an unmasked /proc";
        if (strcmp(step, "seccomp") == 0)
                return "a kernel with CONFIG_SECCOMP_FILTER";
        if (os_errno == ESTALE || (os_errno == EEXIST && strcmp(step, "stub") == 0))
                return "something changed the directory meanwhile: start it again";
        if (strcmp(step, "landlock") == 0)
                return "Linux 6.12 or later with landlock in the kernel's lsm= list; in a container: allow "
                       "its "
                       "calls in the seccomp profile";
        if (strcmp(step, "bubblewrap") == 0)
                return for_bubblewrap(os_errno);
        return NULL;
}
