/* enter: the steps of entering a sandbox that set identity, network and privileges; enter_view.c builds the view. */
#include "sandbox/enter.h"

#include "sandbox/sys_mount.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define CAPABILITIES_MAX 64
#define SYS_LANDLOCK_RESTRICT_SELF 446

const char *enter_step_name(uint32_t step)
{
        static const char *const names[ENTER_STEPS] = {
                [ENTER_IDS] = "idMap",         [ENTER_NETWORK] = "network",
                [ENTER_MOUNT] = "mount",       [ENTER_DEV] = "dev",
                [ENTER_PROC] = "proc",         [ENTER_CAPABILITIES] = "capabilities",
                [ENTER_LANDLOCK] = "landlock", [ENTER_SECCOMP] = "seccomp",
                [ENTER_PLACEHOLDER] = "stub",  [ENTER_BUBBLEWRAP] = "bubblewrap",
                [ENTER_CHECK] = "check",       [ENTER_STDIO] = "stdio",
                [ENTER_FINISH] = "finish",
        };
        return step < ENTER_STEPS && names[step] ? names[step] : "sandbox";
}

uint64_t enter_flags(const struct image *i)
{
        if (i->backend != BACKEND_NAMESPACES)
                return 0;
        uint64_t flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | (i->needs_user ? CLONE_NEWUSER : 0);
        if (!i->has_network)
                flags |= CLONE_NEWNET;
        return flags;
}

/* ---- identity ---- */

static int write_file(const char *path, const char *text, size_t n)
{
        int fd = sys_open(path, O_WRONLY);
        if (fd < 0)
                return fd;
        long r = sys_write(fd, text, n);
        sys_close(fd);
        return r < 0 ? (int)r : 0;
}

static size_t put_number(char *at, uint32_t n)
{
        char digits[10];
        size_t count = 0;
        do
                digits[count++] = (char)('0' + n % 10);
        while ((n /= 10) > 0);
        for (size_t i = 0; i < count; i++)
                at[i] = digits[count - 1 - i];
        at[count] = ' ';
        return count + 1;
}

/* Ids are mapped one to one, so that files have the same owners inside and outside. */
static int write_map(const char *path, uint32_t id)
{
        char line[32];
        size_t n = put_number(line, id);
        n += put_number(line + n, id);
        line[n++] = '1';
        line[n++] = '\n';
        return write_file(path, line, n);
}

int enter_ids(const struct image *i, struct enter_failure *ret)
{
        if (!i->needs_user)
                return 0;
        int r = write_file("/proc/self/setgroups", "deny", 4);
        if (r == 0)
                r = write_map("/proc/self/uid_map", i->uid);
        if (r == 0)
                r = write_map("/proc/self/gid_map", i->gid);
        if (r < 0)
                return enter_fail(ret, ENTER_IDS, ENTER_NO_OP, r);
        /* Many containers do not allow writing these settings; then there are no limits. */
        if (i->limits.inotify_instances > 0)
                (void)user_limits_set(i->limits, false);
        return 0;
}

/* ---- network ---- */

int enter_network(struct enter_failure *ret)
{
        struct ifreq lo = { .ifr_name = "lo" };
        int fd = (int)sys_call3(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        long r = fd;
        if (r >= 0)
                r = sys_call3(SYS_ioctl, fd, SIOCGIFFLAGS, &lo);
        if (r >= 0) {
                lo.ifr_flags = (short)(lo.ifr_flags | IFF_UP);
                r = sys_call3(SYS_ioctl, fd, SIOCSIFFLAGS, &lo);
        }
        if (fd >= 0)
                sys_close(fd);
        return r < 0 ? enter_fail(ret, ENTER_NETWORK, ENTER_NO_OP, r) : 0;
}

/* ---- privileges ---- */

#define BIT(capability) (1u << (capability))

/* Drops all capabilities but `kept` from the bounding set. Returns 0, or -errno for the first one that may not be dropped. */
static int bounding_drop(uint32_t kept)
{
        for (unsigned long c = 0; c < CAPABILITIES_MAX; c++) {
                if (c < 32 && kept & BIT(c))
                        continue;
                int r = sys_prctl(PR_CAPBSET_READ, c);
                if (r > 0)
                        r = sys_prctl(PR_CAPBSET_DROP, c);
                if (r < 0)
                        return r == -EINVAL ? 0 : r; /* EINVAL: the kernel knows no more capabilities */
        }
        return 0;
}

/* Empties the bounding set, from which execve would give capabilities back to a program of uid 0. Without a user namespace
 * of its own the process may not be allowed to change the set; then no_new_privs keeps execve from giving anything back. */
int enter_bounding(const struct image *i)
{
        int r = bounding_drop(0);
        return r == -EPERM && !i->needs_user ? 0 : r;
}

static int drop_all(void)
{
        struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
        const struct __user_cap_data_struct none[2] = { { 0 } };
        (void)sys_prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL);
        return (int)sys_call2(SYS_capset, &head, none);
}

static int drop_capabilities(const struct image *i)
{
        int r = enter_bounding(i);
        return r < 0 ? r : drop_all();
}

/* When root runs a command that loses only the network, the command keeps the capabilities for files of all users and for
 * changing its user. All of these have numbers below 32. */
static const uint32_t file_capabilities =
        BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_FOWNER) |
        BIT(CAP_FSETID) | BIT(CAP_KILL) | BIT(CAP_SETGID) | BIT(CAP_SETUID) | BIT(CAP_SETPCAP) |
        BIT(CAP_LINUX_IMMUTABLE) | BIT(CAP_NET_BIND_SERVICE) | BIT(CAP_IPC_LOCK) | BIT(CAP_IPC_OWNER) |
        BIT(CAP_MKNOD) | BIT(CAP_LEASE) | BIT(CAP_SETFCAP);

static int drop_other_capabilities(void)
{
        struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct all[2];
        int r = (int)sys_call2(SYS_capget, &head, all);
        if (r >= 0)
                r = bounding_drop(file_capabilities);
        if (r < 0)
                return r;
        (void)sys_prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL);
        all[0].effective &= file_capabilities;
        all[0].permitted &= file_capabilities;
        all[0].inheritable &= file_capabilities;
        all[1] = (struct __user_cap_data_struct){ 0 };
        return (int)sys_call2(SYS_capset, &head, all);
}

static int filter_set(const struct image *i, struct enter_failure *ret)
{
        const struct sock_fprog program = {
                .len = (unsigned short)i->filter_count,
                .filter = (struct sock_filter *)(uintptr_t)image_at(i, i->filter),
        };
        long r = sys_call3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
        return r < 0 ? enter_fail(ret, ENTER_SECCOMP, ENTER_NO_OP, r) : 0;
}

static int privileges_end(long r, struct enter_failure *ret)
{
        /* The memory of an init is a copy of the spawner's and may hold requests of other commands, and the init holds the
         * root of the machine for a while. So no process may inspect the init until execve replaces the memory. */
        if (r == 0)
                r = sys_prctl(PR_SET_DUMPABLE, 0);
        if (r == 0)
                r = sys_prctl(PR_SET_NO_NEW_PRIVS, 1);
        return r < 0 ? enter_fail(ret, ENTER_CAPABILITIES, ENTER_NO_OP, r) : 0;
}

int enter_confine(const struct image *i, struct enter_failure *ret)
{
        bool keeps_some = !i->needs_user && !i->has_view && i->uid == 0;
        int r = privileges_end(keeps_some ? drop_other_capabilities() : drop_capabilities(i), ret);
        return r < 0 ? r : filter_set(i, ret);
}

int enter_drop(struct enter_failure *ret)
{
        return privileges_end(drop_all(), ret);
}

int enter_ruleset_begin(const struct image *i, struct landlock *ret)
{
        uint32_t abi = i->landlock_abi;
        *ret = LANDLOCK_NONE;
        if (!i->has_view) /* a ruleset without rules for files confines signals and tracing */
                return abi >= LANDLOCK_ALONE_ABI ? landlock_begin(ret, LANDLOCK_NOTHING, abi) : 0;
        if (abi == 0)
                return 0;
        /* A view with an empty root is of a profile that does not read everything. There reading is restricted, too: only what the
         * plan gives can be read, and directories that lead to it can only be listed. */
        return landlock_begin(ret, i->root == PLAN_ROOT_EMPTY ? LANDLOCK_READING : LANDLOCK_WRITING, abi);
}

int enter_landlock(int ruleset, struct enter_failure *ret)
{
        long r = ruleset < 0 ? 0 : sys_call2(SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0);
        return r < 0 ? enter_fail(ret, ENTER_LANDLOCK, ENTER_NO_OP, r) : 0;
}
