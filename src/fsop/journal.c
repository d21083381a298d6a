/* journal: keeps the names of temporary files in a file of fixed slots; a slot in use holds "DIRECTORY\0NAME\0", a free one begins
 * with NUL.
 *
 * There are no checksums. A slot is written before its temporary file exists; a record that a kill has cut short, or that is mixed
 * with an older one, names a file that does not exist, because the names are random. A sweep checks every name: with a forged
 * journal it removes only files whose names have our form.
 */
#include "fsop/journal.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/random.h"
#include "fsop/fsop.h"
#include "fsop/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#define SLOT_BYTES (PATH_MAX + 128)
#define FILE_PREFIX "journal-"
#define OPEN_TRIES 8

struct journal {
        int dirfd, fd;
        char name[sizeof(FILE_PREFIX) + UUID_TEXT_BYTES];
        pthread_mutex_t lock; /* protects `used` and `used_count` */
        bool used[JOURNAL_SLOTS];
        size_t used_count;
        struct journal_remote remote; /* `add` is NULL: this process writes the file itself */
};

void journal_temp_name(char ret[JOURNAL_TEMP_BYTES])
{
        uint64_t random[2];

        random_bytes(random, sizeof(random));
        (void)snprintf(ret, JOURNAL_TEMP_BYTES, JOURNAL_TEMP_PREFIX "%016llx%016llx" JOURNAL_TEMP_SUFFIX,
                       (unsigned long long)random[0], (unsigned long long)random[1]);
}

bool journal_is_temp_name(const char *name)
{
        size_t prefix = sizeof(JOURNAL_TEMP_PREFIX) - 1;

        return strlen(name) == JOURNAL_TEMP_BYTES - 1 && memcmp(name, JOURNAL_TEMP_PREFIX, prefix) == 0 &&
               strspn(name + prefix, "0123456789abcdef") == JOURNAL_TEMP_RANDOM &&
               strcmp(name + prefix + JOURNAL_TEMP_RANDOM, JOURNAL_TEMP_SUFFIX) == 0;
}

/* ---- Sweeping the journals of dead servers */

struct others {
        journal_other *fn; /* called for names that are not of temporary files; NULL: they are forgotten */
        void *arg;
};

/* Removes one temporary file. Returns true when there is nothing left to do about it; false when a later start should try again. */
static bool sweep_name(const char *directory, const char *name, const struct others *others)
{
        if (directory[0] != '/' || name[0] == '\0' || strchr(name, '/'))
                return true;
        if (!journal_is_temp_name(name))
                return !others || !others->fn || others->fn(others->arg, directory, name);

        _close_ int dirfd = fsop_open(directory, O_PATH | O_DIRECTORY, 0, false);
        if (dirfd < 0)
                return dirfd == -ENOENT || dirfd == -ENOTDIR || dirfd == -ELOOP;

        struct stat st;
        if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT;
        /* A server that runs as root may already have given the file to the owner of the file that it was to replace. */
        if (!S_ISREG(st.st_mode) || (st.st_uid != geteuid() && geteuid() != 0))
                return true;
        return unlinkat(dirfd, name, 0) == 0 || errno == ENOENT;
}

static bool sweep_slots(int fd, const struct others *others)
{
        bool is_clean = true;
        char slot[SLOT_BYTES + 1];

        for (off_t i = 0; i < JOURNAL_SLOTS; i++) {
                ssize_t n = pread(fd, slot, SLOT_BYTES, i * SLOT_BYTES);
                if (n <= 0)
                        return is_clean && n == 0;
                if (slot[0] == '\0')
                        continue;
                memset(slot + n, 0, sizeof(slot) - (size_t)n);

                size_t directory_end = strlen(slot);
                if (directory_end < SLOT_BYTES && !sweep_name(slot, slot + directory_end + 1, others))
                        is_clean = false;
        }
        return is_clean;
}

static void sweep_journal(int dirfd, const char *name, const struct others *others)
{
        /* Opens without blocking, and leaves alone what is not a journal of our user. */
        _close_ int fd = fd_open_looking(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        struct stat st;
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
                return;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return; /* the server that holds the lock is still alive */

        /* The journal is removed while its lock is held, so that no other server sweeps it at the same time. */
        if (sweep_slots(fd, others))
                (void)unlinkat(dirfd, name, 0);
}

void journal_sweep(const struct journal *j, journal_other *other, void *arg)
{
        const struct others others = { other, arg };
        int fd = openat(j->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
        if (!dir) {
                fd_close(fd);
                return;
        }

        const struct dirent *entry;
        for (size_t n = 0; n < JOURNAL_SWEEP_MAX && (entry = readdir(dir)); n++)
                if (strncmp(entry->d_name, FILE_PREFIX, sizeof(FILE_PREFIX) - 1) == 0)
                        sweep_journal(j->dirfd, entry->d_name, &others);
        closedir(dir);
}

/* ---- The journal of this server */

/* Makes and locks the journal. Between the two steps another server may take the file for one without an owner and remove it: then
 * this is done again. */
static int open_file(struct journal *j)
{
        for (int i = 0; i < OPEN_TRIES; i++) {
                char uuid[UUID_TEXT_BYTES];
                random_uuid(uuid);
                (void)snprintf(j->name, sizeof(j->name), FILE_PREFIX "%s", uuid);

                j->fd = openat(j->dirfd, j->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
                if (j->fd < 0)
                        return -errno;

                struct stat st;
                if (flock(j->fd, LOCK_EX | LOCK_NB) == 0 && fstat(j->fd, &st) == 0 && st.st_nlink > 0)
                        return 0;
                j->fd = fd_close(j->fd);
        }
        return -EAGAIN;
}

static int open_in(const char *state_dir, struct journal **ret, struct err *err)
{
        _close_ int dirfd = state_open(state_dir, err);
        if (dirfd < 0)
                return dirfd;
        struct journal *j = mem_new(struct journal);
        j->dirfd = TAKE_FD(dirfd);
        j->fd = -1;
        (void)pthread_mutex_init(&j->lock, NULL);

        int r = open_file(j);
        if (r < 0) {
                (void)journal_close(j);
                fsop_fail(err, r);
                return err_wrap(err, "%s", state_dir);
        }
        *ret = j;
        return 0;
}

int journal_open(const char *state_dir, struct journal **ret, struct err *err)
{
        char path[PATH_MAX];
        int r = -ENAMETOOLONG;

        *ret = NULL;
        if (state_dir)
                return strlen(state_dir) < sizeof(path) ? open_in(state_dir, ret, err)
                                                        : fsop_fail(err, ENAMETOOLONG);
        for (unsigned n = 0; n < STATE_DIRECTORIES && r < 0; n++) {
                struct err why = ERR_INIT;
                r = state_directory(n, path, &why);
                if (r == 0)
                        r = open_in(path, ret, &why);
                if (r < 0 && n == 0)
                        *err = why; /* why the first place is not used */
        }
        return r;
}

struct journal *journal_new_remote(const struct journal_remote *remote)
{
        struct journal *j = mem_new(struct journal);

        j->dirfd = j->fd = -1;
        j->remote = *remote;
        (void)pthread_mutex_init(&j->lock, NULL);
        return j;
}

struct journal *journal_close(struct journal *j)
{
        if (!j)
                return NULL;
        if (j->fd >= 0 && j->used_count == 0)
                (void)unlinkat(j->dirfd, j->name, 0);
        fd_close(j->fd);
        fd_close(j->dirfd);
        (void)pthread_mutex_destroy(&j->lock);
        free(j);
        return NULL;
}

static int slot_take(struct journal *j)
{
        int slot = -EAGAIN;

        (void)pthread_mutex_lock(&j->lock);
        /* The lowest free slot is used, so that the file stays small and in the cache. */
        for (int i = 0; i < JOURNAL_SLOTS && slot < 0; i++)
                if (!j->used[i])
                        slot = i;
        if (slot >= 0) {
                j->used[slot] = true;
                j->used_count++;
        }
        (void)pthread_mutex_unlock(&j->lock);
        return slot;
}

static void slot_release(struct journal *j, int slot)
{
        (void)pthread_mutex_lock(&j->lock);
        must(j->used[slot]);
        j->used[slot] = false;
        j->used_count--;
        (void)pthread_mutex_unlock(&j->lock);
}

int journal_add(struct journal *j, const char *directory, const char *name)
{
        size_t directory_n = strlen(directory) + 1, name_n = strlen(name) + 1;
        char record[SLOT_BYTES];

        if (j->remote.add)
                return j->remote.add(j->remote.arg, directory, name);
        if (directory_n > PATH_MAX || name_n > sizeof(record) - directory_n)
                return -ENAMETOOLONG;
        memcpy(record, directory, directory_n);
        memcpy(record + directory_n, name, name_n);

        int slot = slot_take(j);
        if (slot < 0)
                return slot;

        ssize_t n = pwrite(j->fd, record, directory_n + name_n, (off_t)slot * SLOT_BYTES);
        if (n == (ssize_t)(directory_n + name_n))
                return slot;

        int r = n < 0 ? -errno : -ENOSPC;
        slot_release(j, slot);
        return r;
}

void journal_clean(struct journal *j, int slot, const char *directory, const char *name)
{
        /* What cannot be removed now stays in the journal, for the next start. */
        if (sweep_name(directory, name, NULL))
                journal_remove(j, slot);
}

void journal_remove(struct journal *j, int slot)
{
        if (j->remote.remove) {
                j->remote.remove(j->remote.arg, slot);
                return;
        }
        must(slot >= 0 && slot < JOURNAL_SLOTS);
        /* If this fails, the next start looks for a file that does not exist, which is harmless. */
        ssize_t n = pwrite(j->fd, "", 1, (off_t)slot * SLOT_BYTES);
        (void)n;
        slot_release(j, slot);
}
