/* nets: see nets.h. */
#include "proc/nets.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/sys.h"
#include "proc/keeper.h"
#include "sandbox/enter.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define STACK_BYTES (16 * 1024)
#define COUNTERS_MAX (16 * 1024)

struct net {
        struct list link; /* nets::all */
        pid_t pid;        /* 0: reaped while somebody had it */
        pid_t spawner;
        bool is_taken, is_dropped;
        bool is_used; /* a command was in it … */
        uint64_t whose;
        atomic_bool is_ready; /* written by the process, whose memory is ours */
        char *stack;
        size_t counted; /* bytes of … */
        char *counters; /* … what the kernel said of it when it was new */
};

/* ---- the process ---- */

/* Raw system calls only: its memory is the spawner's. All signals are blocked, so that only SIGKILL ends it. */
static NORETURN NO_ASAN void net_run(struct net *n)
{
        const struct image ids = { .needs_user = 1,
                                   .uid = (uint32_t)sys_call0(SYS_geteuid),
                                   .gid = (uint32_t)sys_call0(SYS_getegid) };
        struct enter_failure why;
        (void)sys_prctl(PR_SET_NAME, (unsigned long)"fh-net");
        long r = sys_call1(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNET);
        if (r < 0 || enter_ids(&ids, &why) < 0 || enter_network(&why) < 0)
                sys_exit(1);
        (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (sys_getppid() != n->spawner)
                sys_exit(1);
        atomic_store_explicit(&n->is_ready, true, memory_order_release);
        (void)sys_kill(n->spawner, SPAWNER_LOOK);
        for (;;)
                (void)sys_sigtimedwait(0, NULL);
}

static NO_ASAN void net_entry(void *arg)
{
        net_run(arg);
}

/* ---- what has happened in it ---- */

/* What the kernel tells of it, and of what can be left in it without a packet: labels of flows that nobody has any more. The last
 * counts sockets, in its first line; the others count those of the whole machine. */
#define FILE_OF_LINE 4
static const char *const files[] = { "dev", "snmp", "snmp6", "ip6_flowlabel", [FILE_OF_LINE] = "sockstat" };

/* Bytes that were added, or -errno. */
static ssize_t file_read(int fd, char *ret, size_t room)
{
        size_t n = 0;
        ssize_t got;
        do {
                got = read(fd, ret + n, room - n);
                n += (size_t)MAX(got, 0);
        } while (got > 0);
        return got < 0 ? -errno : (ssize_t)n;
}

/* Bytes, or -errno. A file that is not there (no IPv6) counts nothing; the first always is. */
static ssize_t counters_read(pid_t pid, char ret[static COUNTERS_MAX])
{
        size_t n = 0;
        for (size_t i = 0; i < ARRAY_LEN(files); i++) {
                char path[64];
                snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, files[i]);
                _close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
                if (fd < 0 && errno == ENOENT && i > 0)
                        continue;
                ssize_t got = fd < 0 ? -errno : file_read(fd, ret + n, COUNTERS_MAX - n);
                if (got < 0)
                        return got;
                const char *end = i == FILE_OF_LINE ? memchr(ret + n, '\n', (size_t)got) : NULL;
                n += end ? (size_t)(end - (ret + n)) : (size_t)got;
        }
        return n < COUNTERS_MAX ? (ssize_t)n : -E2BIG;
}

/* Or /proc is of other processes than ours: then its numbers mean somebody else. */
static bool proc_is_ours(void)
{
        char text[32];
        ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);
        text[MAX(n, 0)] = 0;
        return strtol(text, NULL, 10) == getpid();
}

/* What cannot be counted is used once. */
static bool is_as_new(const struct net *n)
{
        _free_ char *now = mem_alloc(COUNTERS_MAX);
        return n->counters && counters_read(n->pid, now) == (ssize_t)n->counted &&
               memcmp(now, n->counters, n->counted) == 0;
}

/* Before anybody is in it. */
static void counters_keep(struct net *n)
{
        _free_ char *now = mem_alloc(COUNTERS_MAX);
        ssize_t got = n->counters || !proc_is_ours() ? -1 : counters_read(n->pid, now);
        if (got <= 0)
                return;
        n->counted = (size_t)got;
        n->counters = TAKE(now);
}

/* ---- the spawner ---- */

void nets_init(struct nets *t)
{
        list_init(&t->all);
}

static void net_free(struct net *n)
{
        list_remove(&n->link);
        munmap(n->stack, STACK_BYTES);
        free(n->counters);
        free(n);
}

static void net_make(struct nets *t)
{
        void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stack == MAP_FAILED)
                return;
        struct net *n = mem_new(struct net);
        n->stack = stack;
        n->spawner = sys_getpid();
        list_append(&t->all, &n->link);
        long pid = sys_clone_onto(CLONE_VM | SIGCHLD, n->stack + STACK_BYTES, NULL, NULL, net_entry, n);
        if (pid > 0)
                n->pid = (pid_t)pid;
        else
                net_free(n);
}

static void net_drop(struct net *n)
{
        must(n->pid > 0); /* 0 would mean ourselves, and all that is with us */
        n->is_dropped = true;
        (void)sys_kill(n->pid, SIGKILL);
}

static size_t free_count(const struct nets *t)
{
        size_t idle = 0;
        const struct net *n;
        list_each (n, &t->all, link)
                idle += !n->is_taken && !n->is_dropped;
        return idle;
}

bool net_is_for(const struct net *net, uint64_t whose)
{
        return !net->is_used || net->whose == whose;
}

void net_use(struct net *net, uint64_t whose)
{
        net->is_used = true;
        net->whose = whose;
}

/* Room for one more: those of others go first. */
static void make_room(struct nets *t, uint64_t whose)
{
        struct net *n;
        list_each (n, &t->all, link)
                if (free_count(t) >= NETS_FREE_MAX && !n->is_taken && !n->is_dropped && !net_is_for(n, whose))
                        net_drop(n);
}

struct net *nets_take(struct nets *t, uint64_t whose)
{
        bool is_coming = false;
        struct net *n;
        list_each (n, &t->all, link) {
                if (n->is_taken || n->is_dropped || !net_is_for(n, whose))
                        continue;
                if (!atomic_load_explicit(&n->is_ready, memory_order_acquire)) {
                        is_coming = true;
                } else if (!n->is_used || is_as_new(n)) {
                        counters_keep(n);
                        n->is_taken = true;
                        return n;
                } else {
                        net_drop(n);
                }
        }
        if (!is_coming) {
                make_room(t, whose);
                net_make(t);
        }
        return NULL;
}

int net_open(const struct net *n)
{
        return n->pid > 0 ? sys_pidfd_open(n->pid)
                          : -ESRCH; /* nobody but us reaps it: it is still what it was */
}

bool nets_are_free(const struct nets *t)
{
        return free_count(t) > 0;
}

void nets_give_back(struct nets *t, struct net *net, bool is_wanted)
{
        if (!net)
                return;
        if (net->pid == 0) {
                net_free(net);
                return;
        }
        size_t idle = free_count(t);
        net->is_taken = false;
        if (!is_wanted || idle >= NETS_FREE_MAX)
                net_drop(net);
}

void nets_drop(struct nets *t)
{
        struct net *n;
        list_each (n, &t->all, link)
                if (!n->is_taken)
                        net_drop(n);
}

static struct net *net_find(const struct nets *t, pid_t pid)
{
        struct net *n;
        list_each (n, &t->all, link)
                if (n->pid == pid)
                        return n;
        return NULL;
}

bool nets_have(const struct nets *t, pid_t pid)
{
        return net_find(t, pid) != NULL;
}

bool nets_forget(struct nets *t, pid_t pid)
{
        struct net *n = net_find(t, pid);
        if (!n)
                return false;
        n->pid = 0;
        if (!n->is_taken)
                net_free(n);
        return true;
}
