/* enter: see enter.h. Here: identity, network, privileges. The view is enter_view.c. */
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

static int fail(struct enter_failure *ret, enum enter_step step, long r)
{
        *ret = (struct enter_failure){ .step = step, .os_errno = (int32_t)-r, .op = ENTER_NO_OP };
        return (int)r;
}

const char *enter_step_name(uint32_t step)
{
        static const char *const names[ENTER_STEPS] = {
                [ENTER_IDS] = "idMap",         [ENTER_NETWORK] = "network",
                [ENTER_MOUNT] = "mount",       [ENTER_DEV] = "dev",
                [ENTER_PROC] = "proc",         [ENTER_CAPABILITIES] = "capabilities",
                [ENTER_LANDLOCK] = "landlock", [ENTER_SECCOMP] = "seccomp",
                [ENTER_STUB] = "stub",         [ENTER_BUBBLEWRAP] = "bubblewrap",
        };
        return step < ENTER_STEPS && names[step] ? names[step] : "sandbox";
}

uint64_t enter_flags(const struct image *i)
{
        if (i->backend != BACKEND_NAMESPACES)
                return 0;
        uint64_t flags = i->needs_user ? CLONE_NEWUSER : 0;
        if (i->has_view)
                flags |= CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC;
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

/* One to one: files belong to whom they belong outside. */
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
        return r < 0 ? fail(ret, ENTER_IDS, r) : 0;
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
        return r < 0 ? fail(ret, ENTER_NETWORK, r) : 0;
}

/* ---- privileges ---- */

/* The bounding set: a program of uid 0 would get everything in it back with execve. Who may not change it, outside of a
 * user namespace of ours, gets nothing back for another reason: no new privileges. */
int enter_bounding(const struct image *i)
{
        for (unsigned long c = 0; c < CAPABILITIES_MAX; c++) {
                int r = sys_prctl(PR_CAPBSET_READ, c);
                if (r > 0)
                        r = sys_prctl(PR_CAPBSET_DROP, c);
                if (r == -EINVAL || (r == -EPERM && !i->needs_user))
                        break; /* the kernel knows no more, or keeps them */
                if (r < 0)
                        return r;
        }
        return 0;
}

static int drop_capabilities(const struct image *i)
{
        int r = enter_bounding(i);
        if (r < 0)
                return r;
        (void)sys_prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL);
        struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
        const struct __user_cap_data_struct none[2] = { { 0 } };
        return (int)sys_call2(SYS_capset, &head, none);
}

/* Root, when only the network is taken away, keeps its other privileges. */
static int drop_network_capabilities(void)
{
        static const unsigned long network[] = { CAP_NET_ADMIN, CAP_NET_RAW };
        struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct all[2];
        int r = (int)sys_call2(SYS_capget, &head, all);
        for (size_t n = 0; r == 0 && n < ARRAY_LEN(network); n++) {
                uint32_t bit = 1u << network[n];
                r = sys_prctl(PR_CAPBSET_DROP, network[n]);
                all[0].effective &= ~bit;
                all[0].permitted &= ~bit;
                all[0].inheritable &= ~bit;
        }
        return r < 0 ? r : (int)sys_call2(SYS_capset, &head, all);
}

static int filter_set(const struct image *i, struct enter_failure *ret)
{
        const struct sock_fprog program = {
                .len = (unsigned short)i->filter_count,
                .filter = (struct sock_filter *)(uintptr_t)image_at(i, i->filter),
        };
        long r = sys_call3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
        return r < 0 ? fail(ret, ENTER_SECCOMP, r) : 0;
}

int enter_confine(const struct image *i, struct enter_failure *ret)
{
        /* The memory of an init is a copy of the spawner's, where orders of other commands may lie, and it holds the root
         * of the machine for a while. execve makes it new. */
        long r = sys_prctl(PR_SET_DUMPABLE, 0);
        if (r == 0)
                r = i->needs_user || i->has_view || i->uid != 0 ? drop_capabilities(i)
                                                                : drop_network_capabilities();
        if (r == 0)
                r = sys_prctl(PR_SET_NO_NEW_PRIVS, 1);
        return r < 0 ? fail(ret, ENTER_CAPABILITIES, r) : filter_set(i, ret);
}

int enter_landlock(int ruleset, struct enter_failure *ret)
{
        long r = ruleset < 0 ? 0 : sys_call2(SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0);
        return r < 0 ? fail(ret, ENTER_LANDLOCK, r) : 0;
}
