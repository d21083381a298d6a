/* name_lock: locks for names in directories and for files, so that each has one writer at a time. */
#include "fsop/name_lock_internal.h"

#include "base/list.h"
#include "base/mem.h"
#include "fsop/lock.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

struct name_lock {
        struct list link; /* in `locks` */
        dev_t dev;
        ino_t ino;
        char name[NAME_MAX + 1];
        unsigned users; /* the holder and the threads that wait */
        bool is_held;
        int number; /* number of the lock in the server, for an fs helper; -1: it is held in this process only */
        pthread_cond_t released;
};

/* The locks that are held or waited for now: at most one for each thread and open stream. */
static struct list locks = { &locks, &locks };
static pthread_mutex_t locks_mutex = PTHREAD_MUTEX_INITIALIZER;

static struct name_lock *lock_find(const struct stat *directory, const char *name)
{
        struct name_lock *l;

        list_each (l, &locks, link)
                if (l->ino == directory->st_ino && l->dev == directory->st_dev && strcmp(l->name, name) == 0)
                        return l;
        return NULL;
}

static struct name_lock *lock_new(const struct stat *directory, const char *name)
{
        struct name_lock *l = mem_new(struct name_lock);

        l->dev = directory->st_dev;
        l->ino = directory->st_ino;
        (void)snprintf(l->name, sizeof(l->name), "%s", name);
        l->number = -1;
        (void)pthread_cond_init(&l->released, NULL);
        list_append(&locks, &l->link);
        return l;
}

static const struct lock_remote *remote; /* in an fs helper: asks the server; NULL in the server */

void lock_set_remote(const struct lock_remote *r)
{
        remote = r;
}

/* Gives up one use of the lock. Returns true when it was the last: then the lock is out of the list, and the caller frees it. */
static bool lock_leave(struct name_lock *l)
{
        if (--l->users > 0)
                return false;
        list_remove(&l->link);
        return true;
}

static void lock_free(struct name_lock *l)
{
        (void)pthread_cond_destroy(&l->released);
        free(l);
}

/* Takes the lock. Waits until `until` at most (-ETIMEDOUT); NULL: without a limit. */
static int take(const struct stat *st, const char *name, const struct timespec *until, struct name_lock **ret)
{
        int r = 0;
        (void)pthread_mutex_lock(&locks_mutex);
        struct name_lock *l = lock_find(st, name);
        if (!l)
                l = lock_new(st, name);
        l->users++;
        while (l->is_held && r == 0)
                r = until ? pthread_cond_timedwait(&l->released, &locks_mutex, until)
                          : pthread_cond_wait(&l->released, &locks_mutex);
        bool is_late = l->is_held, is_last = is_late && lock_leave(l);
        if (!is_late)
                l->is_held = true;
        (void)pthread_mutex_unlock(&locks_mutex);
        if (is_last)
                lock_free(l);
        if (is_late)
                return -ETIMEDOUT;
        *ret = l;
        return 0;
}

int name_lock_take(int dirfd, const char *name, struct name_lock **ret)
{
        struct stat st;
        if (fstat(dirfd, &st) < 0)
                return -errno;
        int r = take(&st, name, NULL, ret);
        if (r < 0 || !remote)
                return r;
        (*ret)->number = remote->take(remote->arg, st.st_dev, st.st_ino, name);
        if ((*ret)->number >= 0)
                return 0;
        r = (*ret)->number;
        *ret = name_lock_release(*ret);
        return r;
}

int lock_take(uint64_t dev, uint64_t ino, const char *name, unsigned wait_ms, struct name_lock **ret)
{
        const struct stat st = { .st_dev = dev, .st_ino = ino };
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += wait_ms / 1000;
        return take(&st, name, &until, ret);
}

int file_lock_take(int fd, struct name_lock **ret)
{
        return name_lock_take(fd, "", ret);
}

bool file_lock_is_of(const struct name_lock *l, const struct stat *st)
{
        return l && l->dev == st->st_dev && l->ino == st->st_ino;
}

struct name_lock *name_lock_release(struct name_lock *l)
{
        if (!l)
                return NULL;
        if (l->number >= 0)
                remote->release(remote->arg, l->number);

        (void)pthread_mutex_lock(&locks_mutex);
        l->is_held = false;
        l->number = -1;
        bool is_last = lock_leave(l);
        if (!is_last)
                (void)pthread_cond_signal(&l->released);
        (void)pthread_mutex_unlock(&locks_mutex);

        if (is_last)
                lock_free(l);
        return NULL;
}

struct name_lock *lock_release(struct name_lock *l)
{
        return name_lock_release(l);
}
