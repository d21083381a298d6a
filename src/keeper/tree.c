/* tree: walks over the descendants of a process in /proc, breadth first (tree.h). The queue is the caller's memory: a keeper has
 * neither a heap nor a deep stack, and a mapping made here would stay when the keeper is killed in the middle. */
#include "keeper/tree.h"

#include "base/sys_proc.h"

#include <errno.h>
#include <string.h>

#define PASSES_MAX 8

struct walk {
        struct tree_entry *queue;
        size_t used, cap;
        size_t done;      /* how many entries of the queue were handled */
        pid_t parent;     /* the process whose children are being listed */
        bool is_own;      /* these children are the calling thread's */
        bool has_file;    /* the kernel has files that list children */
        bool is_repeated; /* this pass looks for processes that the last pass missed */
        bool has_delivered;
        int failure;
};

/* An entry of a directory, as getdents64(2) returns it. */
struct dirent64_raw {
        uint64_t ino;
        int64_t off;
        uint16_t reclen;
        uint8_t type;
        char name[];
};

/* Calls fn for each number in an open "children" file. */
static int children_read(int fd, void (*fn)(void *arg, pid_t pid), void *arg)
{
        char text[1024];
        int64_t pid = 0;
        for (;;) {
                long n = sys_read(fd, text, sizeof(text));
                if (n < 0)
                        return (int)n;
                if (n == 0)
                        return 0;
                for (long i = 0; i < n; i++) {
                        if (text[i] >= '0' && text[i] <= '9') {
                                pid = pid * 10 + (text[i] - '0');
                                continue;
                        }
                        if (pid > 0 && pid <= INT32_MAX)
                                fn(arg, (pid_t)pid);
                        pid = 0;
                }
        }
}

/* Calls fn for each numeric name in a directory. */
static int numbers_read(const char *path, void (*fn)(void *arg, pid_t pid), void *arg)
{
        int fd = sys_open(path, O_RDONLY | O_DIRECTORY);
        if (fd < 0)
                return fd;

        _Alignas(struct dirent64_raw) char room[1024];
        long n;
        while ((n = sys_call3(SYS_getdents64, fd, room, sizeof(room))) > 0) {
                const struct dirent64_raw *d;
                for (long at = 0; at < n; at += d->reclen) {
                        d = (const struct dirent64_raw *)(const void *)(room + at);
                        pid_t pid = sys_pid_parse(d->name);
                        if (pid > 0)
                                fn(arg, pid);
                }
        }
        sys_close(fd);
        return (int)n;
}

/* Whose children are listed, and what is called for each of them. */
struct listing {
        pid_t parent;
        void (*fn)(void *arg, pid_t pid);
        void *arg;
};

static void parent_check(void *arg, pid_t pid)
{
        const struct listing *l = arg;
        if (sys_parent_of(pid) == l->parent)
                l->fn(l->arg, pid);
}

/* For kernels without CONFIG_PROC_CHILDREN: reads the parent of every process. */
static int children_scan(pid_t parent, void (*fn)(void *arg, pid_t pid), void *arg)
{
        struct listing l = { .parent = parent, .fn = fn, .arg = arg };
        return numbers_read("/proc", parent_check, &l);
}

static void thread_read(void *arg, pid_t tid)
{
        const struct listing *l = arg;
        struct sys_path path = { .n = 0 };
        sys_path_add(&path, "/proc/");
        sys_path_add_pid(&path, l->parent);
        sys_path_add(&path, "/task/");
        sys_path_add_pid(&path, tid);
        sys_path_add(&path, "/children");

        int fd = sys_open(path.text, O_RDONLY);
        if (fd < 0)
                return;
        (void)children_read(fd, l->fn, l->arg);
        sys_close(fd);
}

/* Lists the children of any process. A child belongs to the thread that forked it, so all threads are looked at. */
static int children_of(pid_t parent, void (*fn)(void *arg, pid_t pid), void *arg)
{
        struct sys_path path = { .n = 0 };
        sys_path_add(&path, "/proc/");
        sys_path_add_pid(&path, parent);
        sys_path_add(&path, "/task");

        struct listing l = { .parent = parent, .fn = fn, .arg = arg };
        return numbers_read(path.text, thread_read, &l);
}

/* Lists the children of the calling thread. Returns 1 when the kernel has a file that lists them, 0 when all processes had to be
 * read, and those of other threads are among them, or -errno. */
static int children_of_self(pid_t self, void (*fn)(void *arg, pid_t pid), void *arg)
{
        int fd = sys_open("/proc/thread-self/children", O_RDONLY);
        if (fd < 0) {
                int r = children_scan(self, fn, arg);
                return r < 0 ? r : 0;
        }
        int r = children_read(fd, fn, arg);
        sys_close(fd);
        return r < 0 ? r : 1;
}

int tree_each_child(void (*fn)(void *arg, pid_t pid), void *arg)
{
        int r = children_of_self(sys_getpid(), fn, arg);
        return r < 0 ? r : 0;
}

static bool walk_has(const struct walk *w, pid_t pid)
{
        for (size_t i = 0; i < w->used; i++)
                if (w->queue[i].pid == pid)
                        return true;
        return false;
}

static void walk_add(void *arg, pid_t pid)
{
        struct walk *w = arg;
        if (w->used < w->cap && !(w->is_repeated && walk_has(w, pid)))
                w->queue[w->used++] =
                        (struct tree_entry){ .pid = pid, .parent = w->parent, .is_own = w->is_own };
}

/* Signals a process that is no child of ours, so that another process may reap it, and its pid be reused, at any time. Therefore
 * its parent is checked: it is the same as when the process was listed, or `top`, which adopts orphans. Once the pidfd is open,
 * the process that it names cannot change; and if that process is alive when the signal is sent, its parent is the checked one. */
static int signal_descendant(const struct tree_entry *e, pid_t top, int signo)
{
        int pidfd = sys_pidfd_open(e->pid);
        if (pidfd < 0 && pidfd != -ENOSYS)
                return pidfd == -EINVAL ? -ESRCH : pidfd;

        pid_t parent = sys_parent_of(e->pid);
        int r = -ESRCH;
        if (parent > 0 && (parent == e->parent || parent == top))
                r = pidfd >= 0 ? sys_pidfd_signal(pidfd, signo) : sys_kill(e->pid, signo);
        if (pidfd >= 0)
                sys_close(pidfd);
        return r;
}

/* Only a child itself can make a process group with its own pid, so -pid cannot mean other processes. */
static int signal_child(pid_t pid, int signo)
{
        if (signo == SIGKILL)
                (void)sys_kill(-pid, SIGKILL);
        return sys_kill(pid, signo);
}

static void thread_count(void *arg, UNUSED pid_t tid)
{
        ++*(size_t *)arg;
}

/* Adds the caller's children: those of the calling thread, and those of its other threads, which may reap them at any time. Returns 1
 * when the kernel has files that list children, 0 when it has none, or -errno. */
static int self_add(struct walk *w, pid_t self)
{
        size_t threads = 0, from = w->used;
        bool was_repeated = w->is_repeated;
        w->parent = self;
        w->is_own = true;
        int r = children_of_self(self, walk_add, w);
        w->is_own = false;
        if (r < 0 || numbers_read("/proc/self/task", thread_count, &threads) < 0 || threads <= 1)
                return r;
        if (r == 0)
                while (from < w->used)
                        w->queue[from++].is_own = false;
        w->is_repeated = true; /* the calling thread's are in the queue already */
        if (r == 1)
                (void)children_of(self, walk_add, w);
        w->is_repeated = was_repeated;
        return r;
}

/* Signals each process in the queue, after adding its children. `top` is the process that adopts orphans. */
static void walk_run(struct walk *w, pid_t top, int signo)
{
        for (; w->done < w->used; w->done++) {
                const struct tree_entry *e = &w->queue[w->done];
                /* The children of a process are listed before it is killed: once it is dead they have another parent. */
                w->parent = e->pid;
                (void)(w->has_file ? children_of : children_scan)(e->pid, walk_add,
                                                                  w); /* the process may have gone */

                int r = e->is_own ? signal_child(e->pid, signo) : signal_descendant(e, top, signo);
                if (r == 0)
                        w->has_delivered = true;
                else if (r != -ESRCH && w->failure == 0)
                        w->failure = r;
        }
}

int tree_signal(int signo, struct tree_entry *room, size_t cap)
{
        pid_t self = sys_getpid();
        struct walk w = { .queue = room, .cap = cap };

        /* A process whose parent exits during the walk becomes a child of this process and may be missed; so the walk is
         * repeated until it finds no new one. A caller that kills repeats the walk itself, and has no time to lose. */
        for (int pass = 0; pass < PASSES_MAX; pass++) {
                int r = self_add(&w, self);
                if (r < 0)
                        return w.has_delivered ? 0 : r;
                if (w.done == w.used)
                        break;
                w.has_file = r == 1;
                walk_run(&w, self, signo);
                if (signo == SIGKILL)
                        break;
                w.is_repeated = true;
        }
        return w.has_delivered ? 0 : w.failure;
}

void tree_kill_below(pid_t top, struct tree_entry *room, size_t cap)
{
        struct walk w = { .queue = room, .cap = cap, .parent = top, .has_file = true };
        if (children_of(top, walk_add, &w) < 0)
                return;
        walk_run(&w, top, SIGKILL);
}
