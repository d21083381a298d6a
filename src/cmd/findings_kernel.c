/* findings_kernel: tries one by one the features of the kernel that a sandbox needs.
 *
 * Each attempt runs in a child that is killed when it takes too long, and in namespaces of its own where it makes any, so that
 * nothing stays behind. An attempt makes the same calls as the sandbox (sandbox/enter.h), so that it fails where the sandbox would.
 */
#include "base/fd.h"
#include "base/slice.h"
#include "cmd/findings.h"
#include "intercept/tested.h"
#include "sandbox/landlock.h"
#include "sandbox/remedy.h"
#include "sandbox/seccomp.h"
#include "sandbox/sys_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define ATTEMPT_MS 5000
#define KERNEL_MAJOR 5
#define KERNEL_MINOR 12 /* mount_setattr */

/* ---- attempts ---- */

/* An attempt: runs in the child and returns 0 or -errno. */
typedef int attempt_fn(const void *arg);

/* Runs `fn` in a child. Returns the result of `fn`, or -ETIMEDOUT. */
static int attempt(attempt_fn *fn, const void *arg)
{
        int ends[2], result = -ECANCELED; /* the result when the child was killed */
        if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;
        pid_t pid = fork();
        if (pid == 0) {
                result = fn(arg);
                (void)!write(ends[1], &result, sizeof(result));
                _exit(0);
        }
        int fork_errno = errno;
        fd_close(ends[1]);
        _close_ int answer = ends[0];
        if (pid < 0)
                return -fork_errno;
        struct pollfd fd = { .fd = answer, .events = POLLIN };
        int n = poll(&fd, 1, ATTEMPT_MS);
        if (n == 0)
                result = -ETIMEDOUT;
        else if (read(answer, &result, sizeof(result)) != sizeof(result))
                result = -ECANCELED;
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL,
                      n == 0 ? WNOHANG : 0); /* a child that hangs in the kernel is not waited for */
        return result;
}

static int write_text(const char *path, const char *text)
{
        _close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        return fd_write_all(fd, slice_from_str(text));
}

/* Makes a user namespace as a sandbox does, with ids mapped one to one. */
static int enter_user_namespace(void)
{
        char map[64];
        uid_t uid = geteuid();
        gid_t gid = getegid();
        if (unshare(CLONE_NEWUSER) < 0)
                return -errno;
        int r = write_text("/proc/self/setgroups", "deny");
        (void)snprintf(map, sizeof(map), "%u %u 1\n", uid, uid);
        if (r == 0)
                r = write_text("/proc/self/uid_map", map);
        (void)snprintf(map, sizeof(map), "%u %u 1\n", gid, gid);
        return r == 0 ? write_text("/proc/self/gid_map", map) : r;
}

static int try_user(UNUSED const void *arg)
{
        return enter_user_namespace();
}

static int try_namespace(const void *flag)
{
        int r = enter_user_namespace();
        return r < 0 ? r : unshare(*(const int *)flag) < 0 ? -errno : 0;
}

/* Makes a proc file system without attaching it to a directory: where proc may not be mounted, making it already fails. */
static int make_proc(void)
{
        int fs = sys_fsopen("proc");
        int r = fs < 0 ? fs : sys_fsconfig_create(fs);
        if (r == 0)
                r = sys_fsmount(fs, SYS_ATTR_NOSUID | SYS_ATTR_NODEV | SYS_ATTR_NOEXEC);
        return MIN(r, 0);
}

static int try_proc(UNUSED const void *arg)
{
        int r = enter_user_namespace();
        if (r == 0 && unshare(CLONE_NEWNS | CLONE_NEWPID) < 0)
                r = -errno;
        if (r < 0)
                return r;
        pid_t pid = fork(); /* process 1 of the new pid namespace */
        if (pid == 0) {
                (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
                _exit(-make_proc());
        }
        int status;
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
                return -errno;
        return WIFEXITED(status) ? -WEXITSTATUS(status) : -ECANCELED;
}

static int try_root(UNUSED const void *arg)
{
        int r = enter_user_namespace();
        if (r == 0 && unshare(CLONE_NEWNS) < 0)
                r = -errno;
        int root = r < 0 ? r : sys_open("/", O_PATH | O_DIRECTORY);
        int tree = root < 0 ? root : sys_tree_copy(root, "");
        return tree < 0 ? tree : sys_tree_set(tree, SYS_ATTR_NOSUID | SYS_ATTR_NODEV | SYS_ATTR_RDONLY);
}

static int try_seccomp(const void *arg)
{
        const struct seccomp_filter *filter = arg;
        const struct sock_fprog program = { .len = (unsigned short)filter->count, .filter = filter->code };
        int r = sys_prctl(PR_SET_NO_NEW_PRIVS, 1);
        return r < 0 ? r : (int)sys_call3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* The next functions try system calls that a seccomp filter around us may refuse. Where a call with invalid
 * arguments is allowed, it fails with EINVAL or EFAULT. */
static int try_openat2(UNUSED const void *arg)
{
        int root = sys_open("/", O_PATH | O_DIRECTORY);
        return MIN(sys_open_beneath(root, ".", O_PATH | O_DIRECTORY), 0);
}

static int try_mount_setattr(UNUSED const void *arg)
{
        int r = (int)sys6(SYS_mount_setattr, -1, SYS_ARG(""), 0, 0, 0, 0);
        return r == -EINVAL ? 0 : r;
}

static int try_clone3(UNUSED const void *arg)
{
        int r = (int)sys_call2(SYS_clone3, NULL, 0);
        return r == -EINVAL || r == -EFAULT ? 0 : r;
}

/* ---- reporting the attempts ---- */

static void report_kernel_version(struct findings *f)
{
        struct utsname name;
        unsigned major = 0, minor = 0;
        (void)uname(&name);
        bool is_known = sscanf(name.release, "%u.%u", &major, &minor) == 2;
        bool is_new = major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR);
        struct finding *one = findings_add(f, "kernel", is_known && !is_new ? FINDING_FAIL : FINDING_OK,
                                           "Linux %.64s, %.32s", name.release, name.machine);
        if (one->status != FINDING_OK)
                one->remedy = "Linux 5.12 or later is needed";
}

static void report_calls(struct findings *f)
{
        static const char hidden[] =
                "a kernel of 5.12 or later that shows this call; in a container: allow it in its "
                "seccomp profile";
        findings_add_result(f, "openat2", FINDING_FAIL, attempt(try_openat2, NULL), hidden);
        findings_add_result(f, "mount_setattr", FINDING_FAIL, attempt(try_mount_setattr, NULL), hidden);
        findings_add_result(
                f, "clone3", FINDING_WARN, attempt(try_clone3, NULL),
                "without it commands enter their cgroup more slowly; in a container: allow it in its "
                "seccomp profile");
}

struct namespace_try {
        const char *name;
        attempt_fn *fn;
        int flag;           /* CLONE_NEW*, for try_namespace */
        const char *remedy; /* NULL: the same as for the user namespace */
};

/* Tries the namespaces that are made inside a user namespace. */
static void report_namespaces(struct findings *f)
{
        const struct namespace_try list[] = {
                { "mount namespace", try_namespace, CLONE_NEWNS, NULL },
                { "pid namespace", try_namespace, CLONE_NEWPID, NULL },
                { "network namespace", try_namespace, CLONE_NEWNET, NULL },
                { "ipc namespace", try_namespace, CLONE_NEWIPC, NULL },
                { "new /proc", try_proc, 0, remedy_for("proc", EPERM) },
                { "read-only root", try_root, 0,
                  "the root cannot be mounted again read-only: in a container, allow the mount calls in its "
                  "seccomp profile" },
        };
        int r = attempt(try_user, NULL);
        bool has_user = r >= 0;
        findings_add_result(f, "user namespace", FINDING_FAIL, r, remedy_for("namespaces", -r));
        for (size_t i = 0; i < ARRAY_LEN(list); i++) {
                const struct namespace_try *one = &list[i];
                if (!has_user) {
                        findings_add(f, one->name, FINDING_FAIL, "not tried: it needs a user namespace");
                        continue;
                }
                r = attempt(one->fn, &one->flag);
                findings_add_result(f, one->name, FINDING_FAIL, r,
                                    one->remedy ? one->remedy : remedy_for("namespaces", -r));
        }
}

static void report_filters(struct findings *f)
{
        _seccomp_filter_ struct seccomp_filter filter = { 0 };
        struct err err = ERR_INIT;
        int r = seccomp_compile(false, &filter, &err);
        if (r == 0)
                r = attempt(try_seccomp, &filter);
        findings_add_result(f, "seccomp", FINDING_FAIL, r, remedy_for("seccomp", ENOSYS));
        int abi = landlock_abi();
        struct finding *one = findings_add(f, "Landlock", abi > 0 ? FINDING_OK : FINDING_WARN,
                                           abi > 0 ? "ABI %d" : "not there, or too old (%d)", abi);
        if (abi == 0)
                one->remedy = "the sandbox holds without it; with it there is a second lock on what is "
                              "read-only: add "
                              "landlock to the kernel's lsm= list";
}

static void report_interception(struct findings *f)
{
        struct intercept_tested t = intercept_test();
        if (!t.step) {
                findings_add(f, "interception", FINDING_OK, "works");
                return;
        }
        struct finding *one =
                findings_add(f, "interception", FINDING_WARN, "%s: %s: %s",
                             intercept_means() == INTERCEPT_BY_PRELOAD
                                     ? "a library decides about programs, and static ones are not seen"
                                     : "programs of a command cannot be decided about",
                             t.step, errno_text(t.os_errno));
        one->os_errno = t.os_errno;
        one->remedy = t.remedy;
}

void findings_kernel(struct findings *f)
{
        report_kernel_version(f);
        report_calls(f);
        report_namespaces(f);
        report_filters(f);
        report_interception(f);
}
