/* escalate: gathers what a program needs outside of the sandbox, and starts it (escalate.h). */
#include "intercept/escalate.h"

#include "base/fd.h"
#include "base/mem.h"
#include "intercept/escalate_internal.h"
#include "intercept/wrapped.h"
#include "keeper/keeper_shared.h"

#include <dirent.h>
#include <errno.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

/* Memory that is freed when the child has its copy. */
struct gathering {
        struct escalate_order order;
        struct buf env_text;
        char **argv, **shell_argv, **env;
        char *script;
        int files; /* a pidfd of the thread whose descriptors are taken */
        int report;
};

static void gathering_release(struct gathering *g)
{
        for (size_t i = 0; i < g->order.count; i++)
                sys_close(g->order.descriptors[i].from);
        fd_close(g->order.cwd);
        fd_close(g->order.program);
        fd_close(g->order.report);
        fd_close(g->report);
        fd_close(g->files);
        buf_release(&g->env_text);
        free(g->argv);
        free(g->shell_argv);
        free(g->env);
        free(g->script);
        free(g);
}

static void gathering_releasep(struct gathering **g)
{
        gathering_release(*g);
}

/* Finds out whose descriptors to take: a thread can have a table of its own. */
static int files_open(const struct caller *c, int pidfd)
{
        if (c->thread != c->status.process) {
                int fd = (int)sys_call2(SYS_pidfd_open, c->thread, PIDFD_THREAD);
                if (fd >= 0)
                        return fd;
                long r = sys6(SYS_kcmp, c->thread, c->status.process, KCMP_FILES, 0, 0, 0);
                if (r != 0)
                        return -EACCES;
        }
        int fd = fcntl(pidfd, F_DUPFD_CLOEXEC, 3);
        return fd < 0 ? -errno : fd;
}

static int fdinfo_flags(int dir, const char *name, uint32_t *ret)
{
        char text[512];
        int fd = sys_openat(dir, name, O_RDONLY);
        if (fd < 0)
                return fd;
        ssize_t n = sys_read(fd, text, sizeof(text));
        sys_close(fd);
        return n < 0 ? (int)n : proc_fdinfo_parse(slice_from(text, (size_t)n), ret);
}

static int descriptor_take(struct gathering *g, int dir, const char *name)
{
        struct escalate_order *o = &g->order;
        uint32_t flags;
        uint64_t value;
        if (slice_to_u64(slice_from_str(name), INT32_MAX - 1, &value) < 0)
                return 0; /* "." and ".." */
        int number = (int)value;
        int r = fdinfo_flags(dir, name, &flags);
        if (r < 0)
                return r == -ENOENT ? 0 : r; /* closed meanwhile */
        if (o->count == ARRAY_LEN(o->descriptors))
                return -EMFILE;
        int fd = sys_pidfd_getfd(g->files, number);
        if (fd == -EBADF)
                return 0;
        if (fd < 0)
                return fd;
        /* The kernel shows O_CLOEXEC for a close-on-exec descriptor, and for every descriptor of a terminal that TIOCGPTPEER has opened
         * with it. The second case hides the first: such descriptors are handed over, because they are the command's standard ones. */
        if (flags & O_CLOEXEC && !(fcntl(fd, F_GETFL) & O_CLOEXEC)) {
                sys_close(fd);
                return 0;
        }
        o->descriptors[o->count].from = fd;
        o->descriptors[o->count++].to = number;
        o->first_free = MAX(o->first_free, number + 1);
        return 0;
}

static int descriptors_take(struct gathering *g, const struct caller *c)
{
        char path[64];
        (void)snprintf(path, sizeof(path), "/proc/%d/fdinfo", (int)c->thread);
        DIR *d = opendir(path);
        if (!d)
                return -errno;
        int r = 0;
        size_t seen = 0;
        for (struct dirent *e; r == 0 && (e = readdir(d));)
                r = ++seen > LIMIT_INTERCEPT_DESCRIPTORS_LISTED ? -EMFILE
                                                                : descriptor_take(g, dirfd(d), e->d_name);
        (void)closedir(d);
        return r;
}

static int descriptors_copy(struct gathering *g, const struct caller *c, int pidfd)
{
        g->files = files_open(c, pidfd);
        return g->files < 0 ? g->files : descriptors_take(g, c);
}

/* Takes over the descriptors that a wrapper has sent. */
static void descriptors_given(struct gathering *g, struct wrapped *w)
{
        struct escalate_order *o = &g->order;
        for (; o->count < w->fd_count; o->count++) {
                int number = w->fds[o->count].number;
                o->descriptors[o->count].from = w->fds[o->count].fd;
                o->descriptors[o->count].to = number;
                o->first_free = MAX(o->first_free, number + 1);
        }
        w->fd_count = 0;
}

/* Opens the cwd: the directory of the same path on the machine, if it is the same directory; else the caller's own, which may be
 * deleted, or be visible only in the sandbox. */
static int cwd_open(struct gathering *g, const struct caller *c, bool *ret_is_same)
{
        char path[64];
        struct stat own, here;
        (void)snprintf(path, sizeof(path), "/proc/%d/cwd", (int)c->thread);
        g->order.cwd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (g->order.cwd < 0 || fstat(g->order.cwd, &own) < 0)
                return -errno;
        int fd = open(c->cwd.p, O_PATH | O_DIRECTORY | O_CLOEXEC);
        *ret_is_same =
                fd >= 0 && fstat(fd, &here) == 0 && here.st_dev == own.st_dev && here.st_ino == own.st_ino;
        if (*ret_is_same) {
                fd_close(g->order.cwd);
                g->order.cwd = fd;
        } else {
                fd_close(fd);
        }
        return 0;
}

static bool has_dots(struct slice path)
{
        while (path.n > 0)
                if (slice_eq(slice_split(&path, '/'), S("..")))
                        return true;
        return false;
}

/* The program is executed by the path that was decided about. Where the relative path leads to the same file it is used as it is, because
 * a script sees it. */
static void program_set(struct gathering *g, const struct caller *c, struct slice path, bool is_same_cwd)
{
        struct slice passed = slice_from(c->text.p, c->text.n - 1);
        bool is_relative = passed.n > 0 && passed.p[0] != '/' && !(c->is_at && c->dir != AT_FDCWD);
        struct slice use = is_relative && is_same_cwd && !has_dots(passed) ? passed : path;
        bool is_option = use.n > 0 && use.p[0] == '-'; /* the shell would take it for an option */
        g->script = mem_printf("%s%.*s", is_option ? "./" : "", SLICE(use));
        g->order.path = g->script;
}

static void arguments_set(struct gathering *g, const struct caller *c)
{
        g->argv = mem_alloc((c->argc + 2) * sizeof(*g->argv));
        g->shell_argv = mem_alloc((c->argc + 3) * sizeof(*g->shell_argv));
        for (size_t i = 0; i < c->argc; i++)
                g->argv[i] = (char *)(uintptr_t)c->argv[i].p;
        g->argv[c->argc] = NULL;
        size_t n = 0;
        g->shell_argv[n++] = (char *)(uintptr_t) "/bin/sh";
        g->shell_argv[n++] = g->script;
        for (size_t i = 1; i < c->argc; i++)
                g->shell_argv[n++] = g->argv[i];
        g->shell_argv[n] = NULL;
}

static int env_set(struct gathering *g, const struct caller *c)
{
        ssize_t count = caller_read_env(c, &g->env_text);
        if (count < 0)
                return (int)count;
        g->env = mem_alloc(((size_t)count + 1) * sizeof(*g->env));
        char *at = g->env_text.p;
        for (ssize_t i = 0; i < count; i++) {
                g->env[i] = at;
                at += strlen(at) + 1;
        }
        g->env[count] = NULL;
        return 0;
}

static void attributes_set(struct escalate_order *o, const struct caller *c)
{
        o->umask = c->wrapped && c->wrapped->umask >= 0 ? (uint32_t)c->wrapped->umask : c->status.umask;
        o->ignored = c->status.ignored;
        o->blocked = c->status.blocked;
        if (sys_call4(SYS_sched_getattr, c->thread, &o->schedule, sizeof(o->schedule), 0) < 0)
                o->schedule.size = 0;
        for (int i = 0; i < ESCALATE_LIMITS; i++)
                if (sys_call4(SYS_prlimit64, c->thread, i, NULL, &o->limits[i]) == 0)
                        o->has_limit |= 1U << i;
}

static int gather(struct gathering *g, const struct caller *c, struct slice path, int pidfd,
                  const char **ret_why)
{
        bool is_same_cwd = false;
        int ends[2];
        *ret_why = "the descriptors cannot be passed on";
        if (c->wrapped)
                descriptors_given(g, c->wrapped);
        int r = c->wrapped ? 0 : descriptors_copy(g, c, pidfd);
        if (r == -EMFILE)
                *ret_why = "too many open descriptors";
        if (r < 0)
                return r;
        if (c->is_at && c->text.n == 1) {
                g->order.program = sys_pidfd_getfd(g->files, c->dir);
                if (g->order.program < 0)
                        return g->order.program;
                g->order.flags = c->flags;
        }
        *ret_why = "the working directory cannot be opened";
        if ((r = cwd_open(g, c, &is_same_cwd)) < 0)
                return r;
        program_set(g, c, path, is_same_cwd);
        arguments_set(g, c);
        *ret_why = "the environment cannot be read";
        if ((r = env_set(g, c)) < 0)
                return r;
        attributes_set(&g->order, c);
        g->order.argv = g->argv;
        g->order.shell_argv = g->shell_argv;
        g->order.env = g->env;
        *ret_why = "it cannot be started";
        if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;
        g->report = ends[0];
        g->order.report = ends[1];
        return caller_is_there(c) ? 0 : -ESRCH;
}

/* The child begins in the command's cgroup, so that the limits and the end of the command hold for it too. */
static long fork_child(struct escalate_order *o, int leaf)
{
        long pid = -ENOSYS;
        if (leaf >= 0) {
                pid = sys_fork_into(leaf);
                if (pid >= 0 || pid == -EAGAIN || pid == -ENOMEM)
                        return pid;
                o->leaf = leaf;
        }
        return sys_fork();
}

int escalate_start(struct caller *c, struct slice path, const struct keeper *keeper, int pidfd,
                   struct escalated *ret, const char **ret_why)
{
        __attribute__((cleanup(gathering_releasep))) struct gathering *g = mem_new(struct gathering);
        g->files = g->report = g->order.cwd = g->order.program = g->order.report = g->order.leaf = -1;
        g->order.first_free = 3;
        g->order.parent = getpid();
        buf_init(&g->env_text, LIMIT_INTERCEPT_EXEC_BYTES);
        int r = gather(g, c, path, pidfd, ret_why);
        if (r < 0)
                return r;

        long pid = fork_child(&g->order, keeper->leaf_fd);
        if (pid == 0)
                escalate_child(&g->order);
        if (pid < 0)
                return (int)pid;
        int child = sys_pidfd_open((pid_t)pid);
        if (child < 0) {
                (void)sys_kill((pid_t)pid, SIGKILL);
                (void)sys_wait4((pid_t)pid, NULL, 0, NULL);
                return child;
        }
        *ret = (struct escalated){ .pid = (pid_t)pid, .pidfd = child, .report = TAKE_FD(g->report) };
        return 0;
}

int escalated_report(struct escalated *e)
{
        int32_t error = 0;
        ssize_t n;
        do
                n = sys_read(e->report, &error, sizeof(error));
        while (n == -EINTR);
        e->report = fd_close(e->report);
        return n == sizeof(error) && error > 0 ? -error : 0;
}

/* The group exists from the child's first steps on. Its number cannot belong to another group until the child has been waited for. */
void escalated_signal(const struct escalated *e, int signo)
{
        if (e->pid > 0 && sys_kill(-e->pid, signo) < 0)
                (void)sys_kill(e->pid, signo);
}

int escalated_reap(struct escalated *e)
{
        int status = 0;
        while (sys_wait4(e->pid, &status, 0, NULL) == -EINTR)
                continue;
        fd_close(e->pidfd);
        fd_close(e->report);
        *e = ESCALATED_NONE;
        return status;
}
