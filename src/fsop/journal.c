/* journal: one file of fixed slots per server; a slot in use holds "DIRECTORY\0NAME\0", a free one begins with NUL.
 *
 * No checksums: a slot is written before its temporary file exists, and a record that a kill cut short, or that mixes
 * with what was there before, names a file that nobody has (the names are random). What a sweep finds it checks anyway:
 * whoever can write the journal can make us remove files of that form only.
 */
#include "fsop/journal.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/random.h"
#include "fsop/fsop.h"

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
        pthread_mutex_t lock; /* the two below */
        bool used[JOURNAL_SLOTS];
        size_t used_count;
        struct journal_remote remote; /* add is NULL: the file is ours */
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

/* ---- The sweep */

typedef void (*sweep_fn)(const char *directory, const char *name);

/* Removes one temporary file. True when there is nothing left to do about it; false when a later start should try. */
static bool sweep_name(const char *directory, const char *name, sweep_fn other)
{
        if (directory[0] != '/' || name[0] == '\0' || strchr(name, '/'))
                return true;
        if (!journal_is_temp_name(name)) {
                if (other)
                        other(directory, name);
                return true;
        }

        _close_ int dirfd = fsop_open(directory, O_PATH | O_DIRECTORY, 0, false);
        if (dirfd < 0)
                return dirfd == -ENOENT || dirfd == -ENOTDIR || dirfd == -ELOOP;

        struct stat st;
        if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT;
        /* As root it may already have been given to the owner of the file that it was to replace. */
        if (!S_ISREG(st.st_mode) || (st.st_uid != geteuid() && geteuid() != 0))
                return true;
        return unlinkat(dirfd, name, 0) == 0 || errno == ENOENT;
}

static bool sweep_slots(int fd, sweep_fn other)
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
                if (directory_end < SLOT_BYTES && !sweep_name(slot, slot + directory_end + 1, other))
                        is_clean = false;
        }
        return is_clean;
}

static void sweep_journal(int dirfd, const char *name, sweep_fn other)
{
        /* Nothing here blocks, and what is not a journal of ours is left alone. */
        _close_ int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        struct stat st;
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
                return;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return; /* its server lives */

        /* Removed while the lock is held: nobody else sweeps it at the same time. */
        if (sweep_slots(fd, other))
                (void)unlinkat(dirfd, name, 0);
}

void journal_sweep(const struct journal *j, sweep_fn other)
{
        int fd = openat(j->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
        if (!dir) {
                fd_close(fd);
                return;
        }

        const struct dirent *entry;
        for (size_t n = 0; n < JOURNAL_SWEEP_MAX && (entry = readdir(dir)); n++)
                if (strncmp(entry->d_name, FILE_PREFIX, sizeof(FILE_PREFIX) - 1) == 0)
                        sweep_journal(j->dirfd, entry->d_name, other);
        closedir(dir);
}

/* ---- The state directory */

int journal_directory(char *ret, struct err *err)
{
        const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
        int n;

        if (geteuid() == 0)
                n = snprintf(ret, PATH_MAX, "/var/lib/farhand");
        else if (state && state[0] == '/')
                n = snprintf(ret, PATH_MAX, "%s/farhand", state);
        else if (home && home[0] == '/')
                n = snprintf(ret, PATH_MAX, "%s/.local/state/farhand", home);
        else
                return err_set(err, 0, -ENOENT, "no state directory: neither XDG_STATE_HOME nor HOME is set");
        return n < PATH_MAX ? 0 : fsop_fail(err, ENAMETOOLONG);
}

static void make_directories(const char *path)
{
        char part[PATH_MAX];

        /* What cannot be made cannot be opened either, and that is told. */
        for (size_t i = 1; i < sizeof(part); i++) {
                if (path[i] != '/' && path[i] != '\0')
                        continue;
                memcpy(part, path, i);
                part[i] = '\0';
                (void)mkdir(part, 0700);
                if (path[i] == '\0')
                        return;
        }
}

static int open_directory(const char *path, struct err *err)
{
        make_directories(path);

        _close_ int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;
        if (fd < 0 || fstat(fd, &st) < 0) {
                fsop_fail(err, errno);
                return err_wrap(err, "%s", path);
        }
        if (st.st_uid != geteuid() || (st.st_mode & 022))
                return err_set(err, 0, -EPERM, "%s: not ours alone to write", path);
        return TAKE_FD(fd);
}

/* ---- The own journal */

/* Between the making and the lock another server may take it for one without an owner, and remove it: then again. */
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

int journal_open(const char *state_dir, struct journal **ret, struct err *err)
{
        char path[PATH_MAX];

        *ret = NULL;
        if (!state_dir) {
                int r = journal_directory(path, err);
                if (r < 0)
                        return r;
                state_dir = path;
        } else if (strlen(state_dir) >= sizeof(path)) {
                return fsop_fail(err, ENAMETOOLONG);
        }

        _close_ int dirfd = open_directory(state_dir, err);
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
        /* The lowest: the file stays small and in the cache. */
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
        if (directory_n > PATH_MAX || name_n > sizeof(record) - PATH_MAX)
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
        /* Should this fail the next start looks for a file that is not there: harmless. */
        ssize_t n = pwrite(j->fd, "", 1, (off_t)slot * SLOT_BYTES);
        (void)n;
        slot_release(j, slot);
}
