/* nets: makes fh-net processes, and compares the kernel's counters of their namespaces (nets.h). */
#include "spawner/nets.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/sys.h"
#include "keeper/keeper_shared.h"
#include "sandbox/enter.h"
#include "spawner/pipe_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#define STACK_BYTES (16 * 1024)
#define COUNTERS_MAX (16 * 1024)

struct net {
        struct list link; /* nets::all */
        pid_t pid;        /* the pid of fh-net; 0: reaped while the namespace was in use */
        pid_t spawner;
        int fence_fd;
        bool is_taken;   /* a command uses the namespace now */
        bool is_dropped; /* fh-net was killed: no command may take the namespace again */
        bool is_used;    /* a command of `session` has used the namespace */
        uint64_t session;
        atomic_bool is_ready; /* written by fh-net, which shares our memory */
        char *stack;
        size_t counted; /* bytes in `counters` */
        char *counters; /* what the kernel's files said when the namespace was new */
};

/* ---- the process fh-net ---- */

/* Runs in fh-net, with raw system calls only: fh-net shares the spawner's memory. All signals are blocked, so that only SIGKILL
 * ends it. */
static NO_ASAN void net_run(void *arg)
{
        struct net *n = arg;
        const struct image ids = { .needs_user = 1,
                                   .uid = (uint32_t)sys_call0(SYS_geteuid),
                                   .gid = (uint32_t)sys_call0(SYS_getegid) };
        struct enter_failure why;
        (void)sys_prctl(PR_SET_NAME, (unsigned long)"fh-net");
        long r = n->fence_fd < 0 ? 0 : sys_call2(SYS_setns, n->fence_fd, CLONE_NEWUSER);
        if (r >= 0)
                r = sys_call1(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNET);
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

/* ---- whether anything has happened in a namespace ---- */

/* The files with the kernel's counters, and with flow labels, which can be left without a packet. Only the first line of the
 * last file, the number of sockets, belongs to the namespace; the other lines count for the whole machine. */
#define FILE_OF_LINE 4
static const char *const files[] = { "dev", "snmp", "snmp6", "ip6_flowlabel", [FILE_OF_LINE] = "sockstat" };

/* Reads a file up to its end or up to `room` bytes. Returns the number of bytes, or -errno. */
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

/* Reads the counters of the namespace of `pid`. Returns the number of bytes, or -errno. A file that does not exist (without IPv6)
 * adds nothing; the first file always exists. */
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

/* Returns whether the counters are what they were before the first command. False when they could not be read then: such a
 * namespace is used once. */
static bool is_as_new(const struct net *n)
{
        _free_ char *now = mem_alloc(COUNTERS_MAX);
        return n->counters && counters_read(n->pid, now) == (ssize_t)n->counted &&
               memcmp(now, n->counters, n->counted) == 0;
}

/* Reads the counters before the first command enters the namespace, to compare them later. */
static void counters_keep(struct net *n)
{
        _free_ char *now = mem_alloc(COUNTERS_MAX);
        ssize_t got = n->counters || !pipe_watch_has_proc() ? -1 : counters_read(n->pid, now);
        if (got <= 0)
                return;
        n->counted = (size_t)got;
        n->counters = TAKE(now);
}

/* ---- taking, giving back and removing namespaces ---- */

static void net_free(struct net *n)
{
        list_remove(&n->link);
        sys_stack_unmap(n->stack, STACK_BYTES);
        free(n->counters);
        free(n);
}

static void net_make(struct nets *t)
{
        char *stack = sys_stack_map(STACK_BYTES);
        if (!stack)
                return;
        struct net *n = mem_new(struct net);
        n->stack = stack;
        n->spawner = sys_getpid();
        n->fence_fd = t->fence_fd;
        list_append(&t->all, &n->link);
        long pid = sys_clone_onto(CLONE_VM | SIGCHLD, n->stack + STACK_BYTES, NULL, NULL, net_run, n);
        if (pid > 0)
                n->pid = (pid_t)pid;
        else
                net_free(n);
}

static void net_drop(struct net *n)
{
        must(n->pid > 0); /* kill(0) would kill our own process group */
        n->is_dropped = true;
        (void)sys_kill(n->pid, SIGKILL);
}

size_t nets_free_count(const struct nets *t)
{
        size_t idle = 0;
        const struct net *n;
        list_each (n, &t->all, link)
                idle += !n->is_taken && !n->is_dropped;
        return idle;
}

bool net_is_for(const struct net *net, uint64_t session)
{
        return !net->is_used || net->session == session;
}

void net_use(struct net *net, uint64_t session)
{
        net->is_used = true;
        net->session = session;
}

/* Makes room for one more free namespace, by removing free namespaces that only other sessions may use. */
static void make_room(struct nets *t, uint64_t session)
{
        struct net *n;
        list_each (n, &t->all, link)
                if (nets_free_count(t) >= NETS_FREE_MAX && !n->is_taken && !n->is_dropped &&
                    !net_is_for(n, session))
                        net_drop(n);
}

struct net *nets_take(struct nets *t, uint64_t session)
{
        bool is_coming = false;
        struct net *n;
        list_each (n, &t->all, link) {
                if (n->is_taken || n->is_dropped || !net_is_for(n, session))
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
                make_room(t, session);
                net_make(t);
        }
        return NULL;
}

int net_open(const struct net *n)
{
        return n->pid > 0 ? sys_pidfd_open(n->pid) : -ESRCH; /* only the spawner reaps fh-net */
}

void nets_give_back(struct nets *t, struct net *net, bool is_wanted)
{
        if (!net)
                return;
        if (net->pid == 0) {
                net_free(net);
                return;
        }
        size_t idle = nets_free_count(t);
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
