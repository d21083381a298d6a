/* jail: a thread whose root is an empty file system of its own, and a pool that does all work there, at once.
 *
 * For harnesses that drive real file operations with hostile paths as root. The thread leaves the process's mount
 * namespace and root for new ones, mounts a tmpfs that nobody else sees and makes it its root: the paths of the rest of
 * the process (libFuzzer's corpus) keep their meaning. The root is checked before and after each call. The libc functions that
 * change a tree are replaced here: outside of the thread they end the run.
 *
 * Everything is gone with the process: nothing is made or mounted where others could see it.
 */
#pragma once

#include "base/fd.h"
#include "base/mem.h"
#include "loop/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define JAIL_MOUNT "/tmp" /* only the thread sees what is mounted there */
#define JAIL_UMASK 022

static struct {
        sem_t asked, done;
        void (*fn)(void *arg);
        void *arg;
        dev_t dev;
        ino_t ino;
        bool is_ready;
} jail;

static _Thread_local bool is_jailed;

static void jail_check(void)
{
        struct stat st;
        must(is_jailed && stat("/", &st) == 0 && st.st_dev == jail.dev && st.st_ino == jail.ino);
}

/* --- the calls that change a tree --------------------------------------------------------------------------------- */

int openat(int dirfd, const char *path, int flags, ...)
{
        va_list ap;
        va_start(ap, flags);
        mode_t mode = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, mode_t) : 0;
        va_end(ap);
        must(is_jailed);
        return (int)syscall(SYS_openat, dirfd, path, flags, mode);
}

int mkdirat(int dirfd, const char *path, mode_t mode)
{
        must(is_jailed);
        return (int)syscall(SYS_mkdirat, dirfd, path, mode);
}

int unlinkat(int dirfd, const char *path, int flags)
{
        must(is_jailed);
        return (int)syscall(SYS_unlinkat, dirfd, path, flags);
}

int renameat(int from, const char *path, int to, const char *new)
{
        must(is_jailed);
        return (int)syscall(SYS_renameat2, from, path, to, new, 0);
}

int renameat2(int from, const char *path, int to, const char *new, unsigned flags)
{
        must(is_jailed);
        return (int)syscall(SYS_renameat2, from, path, to, new, flags);
}

int linkat(int from, const char *path, int to, const char *new, int flags)
{
        must(is_jailed);
        return (int)syscall(SYS_linkat, from, path, to, new, flags);
}

int symlinkat(const char *target, int to, const char *path)
{
        must(is_jailed);
        return (int)syscall(SYS_symlinkat, target, to, path);
}

int utimensat(int dirfd, const char *path, const struct timespec times[2], int flags)
{
        must(is_jailed);
        return (int)syscall(SYS_utimensat, dirfd, path, times, flags);
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

static int jail_enter(void)
{
        struct stat st, outside;
        if (stat("/", &outside) < 0 || unshare(CLONE_FS | CLONE_NEWNS) < 0)
                return -errno;
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return -errno;
        if (mount("fuzz", JAIL_MOUNT, "tmpfs", MS_NODEV | MS_NOSUID | MS_NOEXEC, "size=64m,mode=755") < 0)
                return -errno;
        if (chroot(JAIL_MOUNT) < 0 || chdir("/") < 0 || stat("/", &st) < 0)
                return -errno;
        if (st.st_dev == outside.st_dev)
                return -EXDEV;
        umask(JAIL_UMASK);
        jail.dev = st.st_dev;
        jail.ino = st.st_ino;
        is_jailed = true;
        return 0;
}

static void *jail_main(UNUSED void *arg)
{
        int r = jail_enter();
        jail.is_ready = r == 0;
        if (r < 0)
                fprintf(stderr, "no jail for file operations: %s\n", errno_text(r));
        sem_post(&jail.done);
        while (r == 0) {
                while (sem_wait(&jail.asked) < 0)
                        ;
                jail_check();
                jail.fn(jail.arg);
                jail_check();
                sem_post(&jail.done);
        }
        return NULL;
}

/* Calls `fn` in the jail and waits for it. */
static void jail_call(void (*fn)(void *arg), void *arg)
{
        must(jail.is_ready && !is_jailed);
        jail.fn = fn;
        jail.arg = arg;
        sem_post(&jail.asked);
        while (sem_wait(&jail.done) < 0)
                ;
}

/* Starts the thread. Returns false when the process is not root, or may not make namespaces and mounts. */
static bool jail_open(void)
{
        pthread_t thread;
        must(sem_init(&jail.asked, 0, 0) == 0 && sem_init(&jail.done, 0, 0) == 0);
        must(pthread_create(&thread, NULL, jail_main, NULL) == 0);
        while (sem_wait(&jail.done) < 0)
                ;
        return jail.is_ready;
}

/* --- a pool ------------------------------------------------------------------------------------------------------- */

struct pool {
        struct list finished; /* work::link */
};

int pool_new(UNUSED struct loop *l, UNUSED unsigned max_threads, struct pool **ret, UNUSED struct err *err)
{
        *ret = mem_new(struct pool);
        list_init(&(*ret)->finished);
        return 0;
}

static void run_work(void *arg)
{
        struct work *w = arg;
        w->run(w);
}

void pool_submit(struct pool *p, struct work *w)
{
        w->is_cancelled = false;
        jail_call(run_work, w);
        list_append(&p->finished, &w->link);
}

/* Calls the owner of the first work that has run. Returns false when there is none. */
static bool pool_tell(struct pool *p)
{
        struct work *w = list_first(&p->finished, struct work, link);
        if (!w)
                return false;
        list_remove(&w->link);
        w->done(w);
        return true;
}

bool pool_free(struct pool *p, UNUSED uint64_t wait_ms)
{
        while (p && pool_tell(p))
                ;
        free(p);
        return true;
}
