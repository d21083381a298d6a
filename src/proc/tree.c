/* tree: see tree.h. The walk is breadth first, with a queue that the caller has room for: neither the heap nor a deep
 * stack is there to be used, and a mapping made here would stay when the keeper is killed in the middle. */
#include "proc/tree.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>

#define PATH_BYTES 64
#define PASSES_MAX 8

struct walk {
        struct tree_entry *queue;
        size_t used, cap;
        size_t done;   /* of them */
        pid_t parent;  /* whose children are being listed */
        bool has_file; /* the kernel lists children */
        bool is_again; /* looks for those that it missed */
        bool delivered;
        int failure;
};

/* The layout of getdents64(2). */
struct dirent64_raw {
        uint64_t ino;
        int64_t off;
        uint16_t reclen;
        uint8_t type;
        char name[];
};

/* Builds "/proc/12/task/34/children" and the like. */
struct path {
        char text[PATH_BYTES];
        size_t n;
};

static void path_add(struct path *p, const char *text)
{
        while (*text && p->n < PATH_BYTES - 1)
                p->text[p->n++] = *text++;
        p->text[p->n] = 0;
}

static void path_add_pid(struct path *p, pid_t pid)
{
        char digits[12];
        size_t n = sizeof(digits);
        digits[--n] = 0;
        do {
                digits[--n] = (char)('0' + pid % 10);
                pid /= 10;
        } while (pid > 0);
        path_add(p, digits + n);
}

/* A directory's name as a pid; 0 when it is none. */
static pid_t pid_parse(const char *s)
{
        int64_t pid = 0;
        if (!*s)
                return 0;
        for (; *s >= '0' && *s <= '9'; s++) {
                pid = pid * 10 + (*s - '0');
                if (pid > INT32_MAX)
                        return 0;
        }
        return *s ? 0 : (pid_t)pid;
}

/* The fields behind "pid (name) S": names may hold blanks and parentheses, so the last ')' counts. 0 when unknown. */
static pid_t parent_of(pid_t pid)
{
        struct path path = { .n = 0 };
        path_add(&path, "/proc/");
        path_add_pid(&path, pid);
        path_add(&path, "/stat");

        int fd = sys_open(path.text, O_RDONLY);
        if (fd < 0)
                return 0;
        char text[256];
        long n = sys_read(fd, text, sizeof(text) - 1);
        sys_close(fd);
        if (n <= 0)
                return 0;
        text[n] = 0;

        long at = n;
        while (at > 0 && text[at - 1] != ')')
                at--;
        if (at == 0 || at + 3 >= n)
                return 0;
        char *field = text + at + 3; /* " S " */
        char *end = field;
        while (*end >= '0' && *end <= '9')
                end++;
        *end = 0;
        return pid_parse(field);
}

/* Reads the decimal numbers of an open "children" file. */
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
                        pid_t pid = pid_parse(d->name);
                        if (pid > 0)
                                fn(arg, pid);
                }
        }
        sys_close(fd);
        return (int)n;
}

struct by_parent {
        pid_t parent;
        void (*fn)(void *arg, pid_t pid);
        void *arg;
};

static void by_parent_check(void *arg, pid_t pid)
{
        struct by_parent *b = arg;
        if (parent_of(pid) == b->parent)
                b->fn(b->arg, pid);
}

/* For kernels without CONFIG_PROC_CHILDREN: asks everybody for his parent. */
static int children_scan(pid_t parent, void (*fn)(void *arg, pid_t pid), void *arg)
{
        struct by_parent b = { .parent = parent, .fn = fn, .arg = arg };
        return numbers_read("/proc", by_parent_check, &b);
}

struct by_thread {
        pid_t pid;
        void (*fn)(void *arg, pid_t pid);
        void *arg;
};

static void by_thread_read(void *arg, pid_t tid)
{
        struct by_thread *b = arg;
        struct path path = { .n = 0 };
        path_add(&path, "/proc/");
        path_add_pid(&path, b->pid);
        path_add(&path, "/task/");
        path_add_pid(&path, tid);
        path_add(&path, "/children");

        int fd = sys_open(path.text, O_RDONLY);
        if (fd < 0)
                return;
        (void)children_read(fd, b->fn, b->arg);
        sys_close(fd);
}

/* The children of any process: a child belongs to the thread that forked it. */
static int children_of(pid_t parent, void (*fn)(void *arg, pid_t pid), void *arg)
{
        struct path path = { .n = 0 };
        path_add(&path, "/proc/");
        path_add_pid(&path, parent);
        path_add(&path, "/task");

        struct by_thread t = { .pid = parent, .fn = fn, .arg = arg };
        return numbers_read(path.text, by_thread_read, &t);
}

/* 1 when the kernel has the file, 0 when everybody had to be asked, or -errno. */
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
        if (w->used < w->cap && !(w->is_again && walk_has(w, pid)))
                w->queue[w->used++] = (struct tree_entry){ .pid = pid, .parent = w->parent };
}

/* Somebody else may reap this one at any time. Once the pidfd is open the process that it names cannot change; and if
 * that process is alive when the signal goes out, it was the one whose parent was looked at. */
static int signal_descendant(const struct tree_entry *e, pid_t self, int signo)
{
        int pidfd = sys_pidfd_open(e->pid);
        if (pidfd < 0 && pidfd != -ENOSYS)
                return pidfd == -EINVAL ? -ESRCH : pidfd;

        pid_t parent = parent_of(e->pid);
        int r = -ESRCH;
        if (parent > 0 && (parent == e->parent || parent == self))
                r = pidfd >= 0 ? sys_pidfd_signal(pidfd, signo) : sys_kill(e->pid, signo);
        if (pidfd >= 0)
                sys_close(pidfd);
        return r;
}

/* Only a child itself can make a group with its own number, so -pid cannot mean strangers. */
static int signal_child(pid_t pid, int signo)
{
        if (signo == SIGKILL)
                (void)sys_kill(-pid, SIGKILL);
        return sys_kill(pid, signo);
}

static void walk_run(struct walk *w, pid_t self, int signo)
{
        for (; w->done < w->used; w->done++) {
                const struct tree_entry *e = &w->queue[w->done];
                /* Its children first: once it is dead they are somebody else's. */
                w->parent = e->pid;
                (void)(w->has_file ? children_of : children_scan)(e->pid, walk_add, w); /* it may have gone */

                int r = e->parent == self ? signal_child(e->pid, signo) : signal_descendant(e, self, signo);
                if (r == 0)
                        w->delivered = true;
                else if (r != -ESRCH && w->failure == 0)
                        w->failure = r;
        }
}

int tree_signal(int signo, struct tree_entry *room, size_t cap)
{
        pid_t self = sys_getpid();
        struct walk w = { .queue = room, .cap = cap };

        /* Whose parent exits during the walk becomes ours behind its back; so the end of it is that nobody new is
         * found. Who kills comes back anyway, and is in a hurry. */
        for (int pass = 0; pass < PASSES_MAX; pass++) {
                w.parent = self;
                int r = children_of_self(self, walk_add, &w);
                if (r < 0)
                        return w.delivered ? 0 : r;
                if (w.done == w.used)
                        break;
                w.has_file = r == 1;
                walk_run(&w, self, signo);
                if (signo == SIGKILL)
                        break;
                w.is_again = true;
        }
        return w.delivered ? 0 : w.failure;
}
