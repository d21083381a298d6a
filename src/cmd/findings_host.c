/* findings_host: what stands around a sandbox: who we are, cgroups, terminals, limits, the helper program, directories. */
#include "base/err.h"
#include "base/fd.h"
#include "base/slice.h"
#include "cmd/findings.h"
#include "fsop/journal.h"
#include "proc/cgroup.h"
#include "proc/pty.h"
#include "server/net_helper.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

/* One server wants one instance for its sandboxes and one for its clients; a large tree has so many directories. */
#define INOTIFY_INSTANCES_FEW 16
#define INOTIFY_WATCHES_FEW 65536

static void user(struct findings *f)
{
        if (geteuid() != 0) {
                findings_add(f, "user", FINDING_OK, "uid %u, not root", geteuid());
                return;
        }
        findings_add(f, "user", FINDING_WARN, "root: commands without a sandbox may do everything")->remedy =
                "run the server as a user of its own";
}

static void cgroups(struct findings *f)
{
        int r = cgroup_probe();
        if (r < 0) {
                struct finding *one =
                        findings_add(f, "cgroup", FINDING_WARN, "none can be made: %s", errno_text(r));
                one->os_errno = -r;
                one->remedy = "commands end without one, too; for limits of memory and processes start the "
                              "server in a "
                              "delegated cgroup v2 (systemd: Delegate=yes, DelegateSubgroup=server)";
                return;
        }
        bool has_memory = r & CGROUP_MEMORY, has_pids = r & CGROUP_PIDS;
        struct finding *one =
                findings_add(f, "cgroup", has_memory && has_pids ? FINDING_OK : FINDING_WARN,
                             "a leaf for each command; controllers: %s%s%s", has_memory ? "memory " : "",
                             has_pids ? "pids" : "", has_memory || has_pids ? "" : "none");
        if (one->status != FINDING_OK)
                one->remedy = "for limits of memory and processes start the server in a delegated cgroup v2 "
                              "(systemd: "
                              "Delegate=yes, DelegateSubgroup=server)";
}

static void terminals(struct findings *f)
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

static void inotify(struct findings *f)
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

static void net_program(struct findings *f)
{
        char path[PATH_MAX];
        if (net_helper_find(path) == 0) {
                findings_add(f, "farhand-net", FINDING_OK, "%s", path);
                return;
        }
        findings_add(f, "farhand-net", FINDING_WARN, "not found: http/request will be refused")->remedy =
                "install it in libexec/farhand beside the directory of this program";
}

/* Nothing is made: what is there, or the directory above that would have to be written, is looked at. */
static void state_directory(struct findings *f)
{
        const char *remedy = geteuid() == 0
                                     ? "let root write /var/lib: what a crash leaves is noted there"
                                     : "set XDG_STATE_HOME to a directory of yours: what a crash leaves is "
                                       "noted there";
        char path[PATH_MAX], at[PATH_MAX];
        struct err err = ERR_INIT;
        if (journal_directory(path, &err) < 0) {
                findings_add(f, "state directory", FINDING_WARN, "%s", err.text)->remedy = remedy;
                return;
        }
        (void)snprintf(at, sizeof(at), "%s", path);
        while (access(at, F_OK) < 0 && errno == ENOENT && strrchr(at, '/') != at)
                *strrchr(at, '/') = 0;
        bool is_writable = access(at, W_OK | X_OK) == 0;
        struct finding *one = findings_add(f, "state directory", is_writable ? FINDING_OK : FINDING_WARN,
                                           "%s%s", path, is_writable ? "" : " cannot be written");
        if (!is_writable)
                one->remedy = remedy;
}

void findings_host(struct findings *f)
{
        user(f);
        cgroups(f);
        terminals(f);
        inotify(f);
        net_program(f);
        state_directory(f);
}
