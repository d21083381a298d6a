/* caller: reads the process that wants to execute a program (caller.h). */
#include "intercept/caller.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/sys.h"
#include "intercept/caller_memory.h"
#include "intercept/wrapped.h"

#include <errno.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define STATUS_BYTES 8192 /* of /proc/PID/status: its lists of groups and processors may be long */
#define ANCESTORS_MAX 8   /* how many ancestors are looked at, each of which waits in vfork for its child */
#define KEPT_BYTES (64 * KIB) /* of a buffer that is used again for the next caller */

struct proc_path {
        char text[64];
};

static struct proc_path proc_path(pid_t thread, const char *name)
{
        struct proc_path p;
        (void)snprintf(p.text, sizeof(p.text), "/proc/%d/%s", (int)thread, name);
        return p;
}

int caller_proc_read(pid_t thread, const char *name, struct buf *ret)
{
        _close_ int fd = open(proc_path(thread, name).text, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        for (;;) {
                char *p;
                size_t room = ret->cap - ret->n;
                if (room == 0)
                        return 0;
                int r = buf_reserve(ret, room, &p);
                if (r < 0)
                        return r;
                ssize_t n = read(fd, p, room);
                if (n < 0)
                        return -errno;
                if (n == 0)
                        return 0;
                buf_commit(ret, (size_t)n);
        }
}

/* Reads a file of /proc that the kernel gives in one piece, into memory of the caller of this function. */
static ssize_t proc_read_once(pid_t thread, const char *name, char *room, size_t size)
{
        int fd = sys_open(proc_path(thread, name).text, O_RDONLY);
        if (fd < 0)
                return fd;
        ssize_t n = sys_read(fd, room, size);
        sys_close(fd);
        return n;
}

static int status_read(pid_t thread, struct proc_status *ret)
{
        char text[STATUS_BYTES];
        ssize_t n = proc_read_once(thread, "status", text, sizeof(text));
        return n < 0 ? (int)n : proc_status_parse(slice_from(text, (size_t)n), ret);
}

int caller_read_status(struct caller *c)
{
        return status_read(c->thread, &c->status);
}

/* Appends the target of a link in /proc, with a NUL that is not counted. */
static int link_read(pid_t thread, const char *name, struct buf *ret)
{
        char *p;
        int r = buf_reserve(ret, PATH_MAX, &p);
        if (r < 0)
                return r;
        ssize_t n = readlink(proc_path(thread, name).text, p, PATH_MAX);
        if (n < 0)
                return errno == EPERM ? -EACCES : -errno;
        if (n == PATH_MAX)
                return -ENAMETOOLONG;
        buf_commit(ret, (size_t)n);
        return 0;
}

int caller_read_cwd(struct caller *c)
{
        if (c->cwd.n > 0)
                return 0;
        int r = link_read(c->thread, "cwd", &c->cwd);
        /* In front of the path of a directory that our own root does not lead to, the kernel writes "(unreachable)". */
        if (r == 0 && c->cwd.p[0] != '/')
                r = -EACCES;
        if (r < 0)
                buf_truncate(&c->cwd, 0);
        return r;
}

/* Sets `file`: for execveat, the path behind the path of the descriptor. */
static int file_set(struct caller *c)
{
        struct slice path = slice_from(c->text.p, c->text.n - 1);
        if (!c->is_at || c->dir == AT_FDCWD || (path.n > 0 && path.p[0] == '/'))
                return buf_append(&c->file, path);
        if (path.n == 0 && !(c->flags & AT_EMPTY_PATH))
                return -ENOENT;
        char name[32];
        (void)snprintf(name, sizeof(name), "fd/%d", c->dir);
        int r = link_read(c->thread, name, &c->file);
        if (r < 0)
                return r == -ENOENT ? -EBADF : r;
        if (c->file.p[0] != '/')
                return -EACCES; /* the descriptor is a pipe, or a directory that has no path here */
        if (path.n > 0 && (buf_append_char(&c->file, '/') < 0 || buf_append(&c->file, path) < 0))
                return -ENAMETOOLONG;
        return 0;
}

static void buffer_reset(struct buf *b)
{
        if (b->allocated > KEPT_BYTES)
                buf_release(b);
        buf_truncate(b, 0);
}

void caller_argv_slice(struct caller *c)
{
        if (c->argc > c->argv_room) {
                c->argv = mem_realloc(c->argv, c->argc * sizeof(*c->argv));
                c->argv_room = c->argc;
        }
        const char *at = c->argv_text.p;
        for (size_t i = 0; i < c->argc; i++) {
                c->argv[i] = slice_from_str(at);
                at += c->argv[i].n + 1;
        }
}

int caller_read(struct caller *c, int listener, const struct seccomp_notif *notification)
{
        const uint64_t *args = (const uint64_t *)notification->data.args;
        buffer_reset(&c->text);
        buffer_reset(&c->argv_text);
        buffer_reset(&c->file);
        buffer_reset(&c->cwd);
        c->argc = 0;
        c->listener = listener;
        c->id = notification->id;
        c->thread = (pid_t)notification->pid;
        c->is_at = notification->data.nr == SYS_execveat;
        c->dir = c->is_at ? (int)args[0] : AT_FDCWD;
        c->flags = c->is_at ? (int)args[4] : 0;
        c->file_at = args[c->is_at];
        c->argv_at = args[c->is_at + 1];
        c->env_at = args[c->is_at + 2];
        if (c->thread <= 0)
                return -EACCES; /* a process that this namespace does not show */

        size_t cap = c->text.cap;
        c->text.cap = PATH_MAX;
        int r = caller_memory_string(c->thread, c->file_at, &c->text);
        c->text.cap = cap;
        if (r < 0)
                return r == -ENOBUFS ? -ENAMETOOLONG : r;
        if (c->text.n == 1 && !(c->flags & AT_EMPTY_PATH))
                return -ENOENT;
        ssize_t n = caller_memory_strings(c->thread, c->argv_at, LIMIT_INTERCEPT_EXEC_BYTES, &c->argv_text);
        if (n < 0)
                return (int)n;
        c->argc = (size_t)n;
        caller_argv_slice(c);
        if ((r = file_set(c)) < 0)
                return r;
        return c->file.n > 0 && c->file.p[0] == '/' ? 0 : caller_read_cwd(c);
}

ssize_t caller_read_env(const struct caller *c, struct buf *text)
{
        if (c->wrapped)
                return buf_append(text, buf_slice(&c->wrapped->env)) < 0 ? -E2BIG
                                                                         : (ssize_t)c->wrapped->env_count;
        size_t used = c->argv_text.n + c->argc * sizeof(uint64_t);
        return caller_memory_strings(c->thread, c->env_at,
                                     LIMIT_INTERCEPT_EXEC_BYTES - MIN(used, LIMIT_INTERCEPT_EXEC_BYTES),
                                     text);
}

int caller_stat_exe(const struct caller *c, struct stat *ret)
{
        return stat(proc_path(c->thread, "exe").text, ret) < 0 ? -errno : 0;
}

bool caller_runs(const struct caller *c, dev_t dev, ino_t ino)
{
        struct stat exe;
        return caller_stat_exe(c, &exe) == 0 && exe.st_dev == dev && exe.st_ino == ino;
}

bool caller_is_there(const struct caller *c)
{
        if (c->wrapped)
                return sys_pidfd_signal(c->wrapped->pidfd, 0) == 0;
        uint64_t id = c->id;
        return ioctl(c->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

/* The pid is looked up before the notification is checked: while the notification is valid, its thread and with it the process live. */
int caller_open(const struct caller *c)
{
        int fd = sys_pidfd_open(c->status.process);
        if (fd >= 0 && caller_is_there(c))
                return fd;
        if (fd >= 0)
                sys_close(fd);
        return fd >= 0 ? -ESRCH : fd;
}

static bool waits_for_child(pid_t process)
{
        char text[256];
        ssize_t n = proc_read_once(process, "syscall", text, sizeof(text));
        return n > 0 && proc_syscall_is_vfork(slice_from(text, (size_t)n));
}

/* Walks up the ancestors that have the same memory. A process that has called vfork or posix_spawn sleeps until its child has executed a
 * program: while all these ancestors sleep so, the caller alone can write to the memory. */
bool caller_is_shared(const struct caller *c)
{
        if (c->status.threads > 1 || c->status.process != c->thread)
                return true;
        pid_t self = getpid(), process = c->status.process, parent = c->status.parent;
        for (int i = 0; i < ANCESTORS_MAX; i++) {
                struct proc_status above;
                if (parent == self)
                        return false; /* a keeper's memory is never a command's */
                long r = sys6(SYS_kcmp, process, parent, KCMP_VM, 0, 0, 0);
                if (r != 0)
                        return r < 0;
                if (status_read(parent, &above) < 0 || above.threads > 1 || above.state != 'D' ||
                    !waits_for_child(parent))
                        return true;
                process = parent;
                parent = above.parent;
        }
        return true;
}

/* Opens a path as the caller sees it, without following links out of the caller's root. Returns a descriptor or -errno. */
static int look_open(const struct caller *c, const char *place, const char *path, uint64_t resolve)
{
        _close_ int dir = open(proc_path(c->thread, place).text, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                return -EPERM;
        const struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = resolve };
        long fd = sys_call4(SYS_openat2, dir, path, &how, sizeof(how));
        return (int)fd;
}

/* Opens the program as the caller would find it. Returns a descriptor or -errno. */
static int look_open_file(const struct caller *c)
{
        if (c->file.p[0] == '/')
                return look_open(c, "root", c->file.p, RESOLVE_IN_ROOT);
        int fd = look_open(c, "cwd", c->file.p, 0);
        if (fd != -ENOENT)
                return fd;
        /* A link on the way may be absolute, and so lead out of the caller's root. */
        char path[2 * PATH_MAX];
        int n = snprintf(path, sizeof(path), "%s/%s", c->cwd.p, c->file.p);
        return n < 0 || (size_t)n >= sizeof(path) ? -ENAMETOOLONG
                                                  : look_open(c, "root", path, RESOLVE_IN_ROOT);
}

/* Only a clear answer counts: what cannot be found out here may still be there for the caller. */
int caller_look(const struct caller *c, struct stat *ret)
{
        *ret = (struct stat){ .st_ino = 0 };
        if (c->is_at && c->text.n == 1) {
                char path[64];
                (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)c->thread, c->dir);
                if (stat(path, ret) < 0)
                        *ret = (struct stat){ .st_ino = 0 };
                return 0;
        }
        int fd = look_open_file(c);
        if (fd == -ENOENT || fd == -ENOTDIR)
                return fd;
        if (fd < 0)
                return 0;
        int r = fstat(fd, ret);
        sys_close(fd);
        if (r < 0)
                *ret = (struct stat){ .st_ino = 0 };
        return r < 0 || (S_ISREG(ret->st_mode) && (ret->st_mode & 0111)) ? 0 : -EACCES;
}

static int answer(const struct caller *c, int error, uint32_t flags)
{
        struct seccomp_notif_resp response = { .id = c->id, .error = error, .flags = flags };
        for (;;) {
                if (ioctl(c->listener, SECCOMP_IOCTL_NOTIF_SEND, &response) == 0)
                        return 0;
                if (errno != EINTR)
                        return -errno;
        }
}

int caller_continue(const struct caller *c)
{
        return answer(c, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
}

int caller_fail(const struct caller *c, int error)
{
        return answer(c, error, 0);
}

void caller_release(struct caller *c)
{
        buf_release(&c->text);
        buf_release(&c->argv_text);
        buf_release(&c->file);
        buf_release(&c->cwd);
        free(c->argv);
        c->argv = NULL;
        c->argc = c->argv_room = 0;
}
