/* findings_host: checks what a server needs besides the sandbox: user, cgroups, terminals, limits, helper programs, directories. */
#include "base/err.h"
#include "base/fd.h"
#include "base/slice.h"
#include "cmd/findings.h"
#include "core/net_program.h"
#include "fsop/state.h"
#include "keeper/cgroup.h"
#include "proc/pty.h"
#include "spawner/fence.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

/* Lower limits than these are a warning. A server needs one inotify instance for its sandboxes and one for its clients; each
 * directory of a watched tree needs a watch, and a large tree has about INOTIFY_WATCHES_FEW directories. */
#define INOTIFY_INSTANCES_FEW 16
#define INOTIFY_WATCHES_FEW 65536

static void report_user(struct findings *f)
{
        if (geteuid() != 0) {
                findings_add(f, "user", FINDING_OK, "uid %u, not root", geteuid());
                return;
        }
        findings_add(f, "user", FINDING_WARN, "root: commands without a sandbox may do everything")->remedy =
                "run the server as a user of its own";
}

/* Since version 254 systemd can put the server itself into a cgroup below its own (DelegateSubgroup), as is needed here. */
#define REMEDY_CGROUP                                                                                     \
        "for limits of memory and processes start the server alone in a directory of a delegated cgroup " \
        "v2 (systemd: Delegate=yes; since systemd 254 DelegateSubgroup=server, before it let ExecStart= " \
        "make the directory server in its own cgroup and write its pid to server/cgroup.procs, as the "   \
        "unit of this project does)"

static void report_cgroups(struct findings *f)
{
        int r = cgroup_probe();
        if (r < 0) {
                struct finding *one =
                        findings_add(f, "cgroup", FINDING_WARN, "none can be made: %s", errno_text(r));
                one->os_errno = -r;
                one->remedy = "commands end without one, too; " REMEDY_CGROUP;
                return;
        }
        bool has_memory = r & CGROUP_MEMORY, has_pids = r & CGROUP_PIDS;
        struct finding *one =
                findings_add(f, "cgroup", has_memory && has_pids ? FINDING_OK : FINDING_WARN,
                             "a leaf for each command; controllers: %s%s%s", has_memory ? "memory " : "",
                             has_pids ? "pids" : "", has_memory || has_pids ? "" : "none");
        if (one->status != FINDING_OK)
                one->remedy = REMEDY_CGROUP;
}

static void report_terminals(struct findings *f)
{
        int master = -1, slave = -1;
        int r = pty_open(24, 80, &master, &slave);
        findings_add_result(f, "terminals", FINDING_WARN, r, "mount a devpts at /dev/pts, with /dev/ptmx");
        if (r == 0) {
                fd_close(master);
                fd_close(slave);
        }
}

static uint64_t setting(const char *path)
{
        _buf_ struct buf text = BUF_INIT(64);
        uint64_t value = 0;
        if (fd_read_file(path, 64, &text) < 0 ||
            slice_to_u64(slice_trim(buf_slice(&text)), UINT64_MAX, &value) < 0)
                return 0;
        return value;
}

static void report_inotify(struct findings *f)
{
        uint64_t instances = setting("/proc/sys/fs/inotify/max_user_instances");
        uint64_t watches = setting("/proc/sys/fs/inotify/max_user_watches");
        _close_ int fd = inotify_init1(IN_CLOEXEC);
        if (fd < 0) {
                findings_add_result(f, "inotify", FINDING_FAIL, -errno,
                                    "raise fs.inotify.max_user_instances");
                return;
        }
        bool is_few = instances < INOTIFY_INSTANCES_FEW || watches < INOTIFY_WATCHES_FEW;
        struct finding *one =
                findings_add(f, "inotify", is_few ? FINDING_WARN : FINDING_OK,
                             "%" PRIu64 " instances, %" PRIu64 " watches for this user", instances, watches);
        if (is_few)
                one->remedy = "raise fs.inotify.max_user_instances and fs.inotify.max_user_watches: masks of "
                              "sandboxes "
                              "and fs/watch need them";
}

/* Reports whether commands are kept from using up the inotify limits that report_inotify has printed. */
static void report_inotify_limits(struct findings *f)
{
        struct fence fence = FENCE_NONE;
        _close_ int fd = fence_get(&fence);
        if (fd >= 0) {
                findings_add(f, "inotify limits", FINDING_OK, "sandboxes share three quarters of these");
                return;
        }
        findings_add(f, "inotify limits", FINDING_WARN, "a sandboxed command can use up all of these")
                ->remedy =
                "let the server make user namespaces and write /proc/sys/user in them (in a container: no "
                "read-only /proc/sys)";
}

/* `without`: what is refused when the program is not there. */
static void report_net_program(struct findings *f, const char *name, const char *without)
{
        char path[PATH_MAX];
        struct err err = ERR_INIT;
        struct helper helper = HELPER_NONE;
        if (helper_find(name, path) < 0) {
                findings_add(f, name, FINDING_WARN, "not found: %s will be refused", without)->remedy =
                        "install it in libexec/farhand beside the directory of this program";
                return;
        }
        if (helper_open(path, false, &helper, &err) == 0) {
                findings_add(f, name, FINDING_OK, "%s", path);
                helper_close(&helper);
                return;
        }
        struct finding *one =
                findings_add(f, name, FINDING_WARN, "%s: %s will be refused", err.text, without);
        one->os_errno = err.os_errno;
        one->remedy = err.remedy ? err.remedy : "look whether this user may read and execute it";
}

/* Would state_open refuse this directory, because other users own it or can write to it? */
static bool is_of_others(const char *path)
{
        struct stat st;
        return stat(path, &st) == 0 && (st.st_uid != geteuid() || (st.st_mode & 022));
}

/* Reports whether the server can have a state directory. Makes nothing: checks the state directory, or the directory in which
 * it would be made. */
static void report_state_directory(struct findings *f)
{
        const char *remedy = geteuid() == 0
                                     ? "let root write /var/lib: what a crash leaves is noted there"
                                     : "set XDG_STATE_HOME to a directory of yours: what a crash leaves is "
                                       "noted there";
        char path[PATH_MAX], at[PATH_MAX];
        struct err err = ERR_INIT;
        if (state_directory(0, path, &err) < 0) {
                findings_add(f, "state directory", FINDING_WARN, "%s", err.text)->remedy = remedy;
                return;
        }
        (void)snprintf(at, sizeof(at), "%s", path);
        while (access(at, F_OK) < 0 && errno == ENOENT && strrchr(at, '/') != at)
                *strrchr(at, '/') = 0;
        const char *why = access(at, W_OK | X_OK) < 0 ? " cannot be written"
                          : is_of_others(path)        ? " is others' to write, too"
                                                      : "";
        findings_add(f, "state directory", *why ? FINDING_WARN : FINDING_OK, "%s%s", path, why)->remedy =
                *why ? remedy : NULL;
}

void findings_host(struct findings *f)
{
        report_user(f);
        report_cgroups(f);
        report_terminals(f);
        report_inotify(f);
        report_inotify_limits(f);
        report_net_program(f, NET_PROGRAM, "http/request");
        report_net_program(f, EGRESS_PROGRAM, "networkProxy");
        report_state_directory(f);
}
