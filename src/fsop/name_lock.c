/* name_lock: one writer at a time for a name in a directory. */
#include "fsop/name_lock_internal.h"

#include "base/list.h"
#include "base/mem.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>

struct name_lock {
        struct list link; /* locks */
        dev_t dev;
        ino_t ino;
        char name[NAME_MAX + 1];
        unsigned users; /* the holder and those that wait */
        bool is_held;
        pthread_cond_t released;
};

/* As many as there are writes that take their place at this moment, at most one per thread and open stream. */
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
        (void)pthread_cond_init(&l->released, NULL);
        list_append(&locks, &l->link);
        return l;
}

int name_lock_take(int dirfd, const char *name, struct name_lock **ret)
{
        struct stat st;
        if (fstat(dirfd, &st) < 0)
                return -errno;

        (void)pthread_mutex_lock(&locks_mutex);
        struct name_lock *l = lock_find(&st, name);
        if (!l)
                l = lock_new(&st, name);
        l->users++;
        while (l->is_held)
                (void)pthread_cond_wait(&l->released, &locks_mutex);
        l->is_held = true;
        (void)pthread_mutex_unlock(&locks_mutex);
        *ret = l;
        return 0;
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

        (void)pthread_mutex_lock(&locks_mutex);
        l->is_held = false;
        bool is_last = --l->users == 0;
        if (is_last)
                list_remove(&l->link);
        else
                (void)pthread_cond_signal(&l->released);
        (void)pthread_mutex_unlock(&locks_mutex);

        if (is_last) {
                (void)pthread_cond_destroy(&l->released);
                free(l);
        }
        return NULL;
}
