/* tree: see tree.h. The walk is breadth first; its queue is mapped for the time of the walk, because neither the heap
 * nor a deep stack is there to be used. */
#include "proc/tree.h"

#include "proc/sys.h"

#include <errno.h>
#include <string.h>

#define PATH_BYTES 64
#define SMALL_QUEUE 64 /* when no memory can be had */

struct entry {
        pid_t pid;
        pid_t parent;
};

struct walk {
        struct entry *queue;
        size_t used, cap;
        pid_t parent; /* whose children are being listed */
};

/* The layout of getdents64(2). */
struct dirent64_raw {
        uint64_t ino;
        int64_t off;
        uint16_t reclen;
        uint8_t type;
        char name[];
};

/* Builds "/proc/12/task/34/children" and the like; a number that is negative ends the path. */
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

struct by_thread {
        pid_t pid;
        int found; /* a children file could be read */
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
        if (children_read(fd, b->fn, b->arg) == 0)
                b->found = 1;
        sys_close(fd);
}

/* The children of any process: a child belongs to the thread that forked it. Kernels without CONFIG_PROC_CHILDREN have
 * no such file; then everybody is asked for his parent. */
static int children_of(pid_t parent, void (*fn)(void *arg, pid_t pid), void *arg)
{
        struct path path = { .n = 0 };
        path_add(&path, "/proc/");
        path_add_pid(&path, parent);
        path_add(&path, "/task");

        struct by_thread t = { .pid = parent, .fn = fn, .arg = arg };
        int r = numbers_read(path.text, by_thread_read, &t);
        if (r < 0 || t.found)
                return r;
        struct by_parent b = { .parent = parent, .fn = fn, .arg = arg };
        return numbers_read("/proc", by_parent_check, &b);
}

int tree_each_child(void (*fn)(void *arg, pid_t pid), void *arg)
{
        int fd = sys_open("/proc/thread-self/children", O_RDONLY);
        if (fd < 0)
                return children_of(sys_getpid(), fn, arg);
        int r = children_read(fd, fn, arg);
        sys_close(fd);
        return r;
}

static void walk_add(void *arg, pid_t pid)
{
        struct walk *w = arg;
        if (w->used < w->cap)
                w->queue[w->used++] = (struct entry){ .pid = pid, .parent = w->parent };
}

/* Somebody else may reap this one at any time. Once the pidfd is open the process that it names cannot change; and if
 * that process is alive when the signal goes out, it was the one whose parent was looked at. */
static int signal_descendant(const struct entry *e, pid_t self, int signo)
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

int tree_signal(int signo)
{
        struct entry small[SMALL_QUEUE];
        size_t bytes = TREE_MAX * sizeof(struct entry);
        struct entry *big = sys_map(bytes);
        struct walk w = { .queue = big ? big : small, .cap = big ? TREE_MAX : SMALL_QUEUE };

        pid_t self = sys_getpid();
        w.parent = self;
        int r = tree_each_child(walk_add, &w);

        int failure = r;
        bool delivered = false;
        for (size_t i = 0; i < w.used; i++) {
                const struct entry *e = &w.queue[i];
                /* Its children first: once it is dead they are somebody else's. */
                w.parent = e->pid;
                (void)children_of(e->pid, walk_add, &w); /* it may have gone */

                r = e->parent == self ? signal_child(e->pid, signo) : signal_descendant(e, self, signo);
                if (r == 0)
                        delivered = true;
                else if (r != -ESRCH && failure == 0)
                        failure = r;
        }

        if (big)
                sys_unmap(big, bytes);
        return delivered ? 0 : failure;
}
