/* store: journals and the records of the last patches, as files. */
#include "patch/store.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/random.h"
#include "patch/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define JOURNAL_PREFIX "journal-"
#define LAST_PREFIX "last-"
#define HASH_BYTES 16 /* of a digest, in the names of directories and files */
#define NAME_BYTES 64
#define LOCK_WAIT_MS 10000
#define LOCK_PAUSE_MS 5
#define BEGIN_TRIES 8
#define NAMES_MAX 1000000 /* how many names of the directory are looked at */
#define LASTS_MAX 1024    /* working directories whose last patch is kept: those that were changed last */

struct store {
        int dirfd;
        int lock;    /* -1: not held */
        int journal; /* -1: none */
        char name[NAME_BYTES];
};

/* ---- directories ---- */

const char *store_directory(struct arena *a)
{
        const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
        if (state && state[0] == '/')
                return arena_printf(a, "%s/farhand/patches", state);
        if (home && home[0] == '/')
                return arena_printf(a, "%s/.local/state/farhand/patches", home);
        return NULL;
}

static void hash_name(const char *prefix, const char *text, char ret[NAME_BYTES])
{
        uint8_t digest[DIGEST_BYTES];
        int n = snprintf(ret, NAME_BYTES, "%s", prefix);
        digest_of(slice_from_str(text), digest);
        for (size_t i = 0; i < HASH_BYTES; i++)
                n += snprintf(ret + n, NAME_BYTES - (size_t)n, "%02x", digest[i]);
}

static void make_directories(char *path)
{
        for (char *at = path + 1; *at; at++) {
                if (*at != '/')
                        continue;
                *at = '\0';
                (void)mkdir(path, 0700);
                *at = '/';
        }
        (void)mkdir(path, 0700);
}

/* Opens a directory that only our user may write to. */
static int open_directory(int at, const char *path)
{
        struct stat st;
        _close_ int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) < 0)
                return -errno;
        return st.st_uid == geteuid() && !(st.st_mode & 022) ? TAKE_FD(fd) : -EPERM;
}

int store_open(const char *directory, const char *environment_key, struct store **ret, struct err *err)
{
        char key[NAME_BYTES];
        _free_ char *path = mem_strdup(directory);
        _close_ int above = open_directory(AT_FDCWD, path);
        if (above == -ENOENT) {
                make_directories(path);
                above = open_directory(AT_FDCWD, path);
        }
        hash_name("", environment_key, key);
        int fd = above < 0 ? above : open_directory(above, key);
        if (above >= 0 && fd == -ENOENT) {
                (void)mkdirat(above, key, 0700);
                fd = open_directory(above, key);
        }
        if (fd < 0)
                return err_set(err, 0, fd, "%s: %s", directory,
                               fd == -EPERM ? "it belongs to another user, or others may write to it"
                                            : errno_text(fd));
        struct store *s = mem_new(struct store);
        *s = (struct store){ .dirfd = fd, .lock = -1, .journal = -1 };
        *ret = s;
        return 0;
}

struct store *store_close(struct store *s)
{
        if (s) {
                store_leave(s);
                store_unlock(s);
                fd_close(s->dirfd);
                free(s);
        }
        return NULL;
}

/* ---- files ---- */

/* Opens a regular file of our user: never a link, and never a file that could block. */
static int open_file(const struct store *s, const char *name)
{
        struct stat st;
        _close_ int fd = fd_open_looking(s->dirfd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0)
                return -errno;
        return S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_nlink <= 1 ? TAKE_FD(fd) : -EPERM;
}

void store_lock(struct store *s)
{
        const struct timespec pause = { .tv_nsec = LOCK_PAUSE_MS * 1000000L };
        uint64_t end = clock_mono_ms() + LOCK_WAIT_MS;
        if (s->lock >= 0)
                return;
        s->lock = openat(s->dirfd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        while (s->lock >= 0 && flock(s->lock, LOCK_EX | LOCK_NB) < 0 && clock_mono_ms() < end)
                (void)nanosleep(&pause, NULL);
}

void store_unlock(struct store *s)
{
        s->lock = fd_close(s->lock);
}

/* ---- journals ---- */

/* Appends a record to the journal with one call. */
static int append_record(const struct store *s, const struct changes *c)
{
        _buf_ struct buf text = BUF_INIT(RECORD_MAX);
        int r = record_write(&text, c);
        return r < 0 ? r : fd_write_all(s->journal, buf_slice(&text));
}

int store_begin(struct store *s, const struct changes *c)
{
        must(s->journal < 0);
        /* A journal that nobody has locked counts as interrupted. So another process may remove this one after it was made and before it
         * is locked; then another one is made. */
        for (int i = 0; s->journal < 0 && i < BEGIN_TRIES; i++) {
                char uuid[UUID_TEXT_BYTES];
                struct stat st;
                random_uuid(uuid);
                (void)snprintf(s->name, sizeof(s->name), JOURNAL_PREFIX "%s", uuid);
                _close_ int fd = openat(s->dirfd, s->name,
                                        O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
                if (fd < 0)
                        return -errno;
                if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 && st.st_nlink > 0)
                        s->journal = TAKE_FD(fd);
        }
        if (s->journal < 0)
                return -EAGAIN;
        int r = append_record(s, c);
        if (r < 0)
                store_drop(s);
        return r;
}

int store_renew(struct store *s, const struct changes *c)
{
        return append_record(s, c);
}

void store_done(struct store *s, const struct changes *c)
{
        char last[NAME_BYTES];
        if (s->journal < 0)
                return;
        if (c->is_undo) {
                store_forget_last(s, c->cwd);
                store_drop(s);
                return;
        }
        hash_name(LAST_PREFIX, c->cwd, last);
        if (renameat(s->dirfd, s->name, s->dirfd, last) < 0)
                (void)unlinkat(s->dirfd, s->name, 0);
        s->journal = fd_close(s->journal);
}

void store_drop(struct store *s)
{
        if (s->journal < 0)
                return;
        (void)unlinkat(s->dirfd, s->name, 0);
        s->journal = fd_close(s->journal);
}

void store_leave(struct store *s)
{
        s->journal = fd_close(s->journal);
}

/* Reads the last complete record of a file. */
static int read_record(int fd, struct arena *a, struct changes *ret)
{
        _buf_ struct buf text = BUF_INIT(3 * RECORD_MAX);
        _buf_ struct buf line = BUF_INIT(RECORD_MAX);
        if (lseek(fd, 0, SEEK_SET) < 0)
                return -errno;
        int r = fd_read_rest(fd, 3 * RECORD_MAX, &text);
        if (r < 0)
                return r;
        const char *end = memrchr(text.p, '\n', text.n);
        if (!end)
                return -ENODATA;
        const char *start = memrchr(text.p, '\n', (size_t)(end - text.p));
        start = start ? start + 1 : text.p;
        r = buf_append(&line, slice_from(start, (size_t)(end - start)));
        if (r < 0)
                return r;
        /* What the record refers to lies in the text of the line, or was copied: keep the line as long as the arena. */
        char *kept = arena_alloc(a, line.n + BUF_PADDING + 1);
        memcpy(kept, line.p, line.n + 1);
        return record_read(a, slice_from(kept, line.n), ret);
}

/* Takes over one journal. Returns 1; 0 when there is nothing to do about it. */
static int adopt(struct store *s, const char *name, struct arena *a, struct changes *ret)
{
        struct stat st;
        _close_ int fd = open_file(s, name);
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
                return 0; /* the journal belongs to a process that lives, or is not ours */
        if (fstat(fd, &st) < 0 || st.st_nlink == 0)
                return 0;
        if (read_record(fd, a, ret) < 0) {
                (void)unlinkat(s->dirfd, name, 0);
                return 0;
        }
        memcpy(s->name, name, strlen(name) + 1); /* store_adopt has checked that the name fits */
        (void)fcntl(fd, F_SETFL, O_APPEND);
        s->journal = TAKE_FD(fd);
        return 1;
}

/* A record of a last patch, and when it was made. */
struct last {
        const char *name;
        struct timespec time;
};

struct lasts {
        struct last *list;
        size_t count, room;
};

static void add_last(struct lasts *l, struct arena *a, const char *name)
{
        l->list = arena_room(a, l->list, l->count, &l->room, sizeof(*l->list));
        l->list[l->count++] = (struct last){ .name = arena_dup(a, slice_from_str(name)) };
}

static int by_time(const void *a, const void *b)
{
        const struct last *left = a, *right = b;
        int64_t seconds = (int64_t)right->time.tv_sec - left->time.tv_sec;
        return seconds ? (seconds > 0) - (seconds < 0)
                       : (right->time.tv_nsec > left->time.tv_nsec) -
                                 (right->time.tv_nsec < left->time.tv_nsec);
}

/* Removes the records of the patches that were applied the longest ago. */
static void forget_old(const struct store *s, struct lasts *l)
{
        struct stat st;
        if (l->count <= LASTS_MAX)
                return;
        for (size_t i = 0; i < l->count; i++)
                if (fstatat(s->dirfd, l->list[i].name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                        l->list[i].time = st.st_mtim;
        qsort(l->list, l->count, sizeof(*l->list), by_time);
        for (size_t i = LASTS_MAX; i < l->count; i++)
                (void)unlinkat(s->dirfd, l->list[i].name, 0);
}

int store_adopt(struct store *s, struct arena *a, struct changes *ret)
{
        int found = 0;
        _arena_ struct arena names = ARENA_INIT;
        struct lasts lasts = { 0 };
        int fd = openat(s->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
        const struct dirent *entry;
        if (!dir) {
                fd_close(fd);
                return 0;
        }
        for (size_t n = 0; !found && n < NAMES_MAX && (entry = readdir(dir)); n++) {
                const char *name = entry->d_name;
                if (strncmp(name, JOURNAL_PREFIX, sizeof(JOURNAL_PREFIX) - 1) == 0 &&
                    strlen(name) < NAME_BYTES)
                        found = adopt(s, name, a, ret);
                else if (strncmp(name, LAST_PREFIX, sizeof(LAST_PREFIX) - 1) == 0)
                        add_last(&lasts, &names, name);
        }
        if (!found)
                forget_old(s, &lasts);
        closedir(dir);
        return found;
}

/* ---- the last patch ---- */

int store_last(struct store *s, struct arena *a, const char *cwd, struct changes *ret)
{
        char name[NAME_BYTES];
        hash_name(LAST_PREFIX, cwd, name);
        _close_ int fd = open_file(s, name);
        int r = fd < 0 ? fd : read_record(fd, a, ret);
        return r == 0 && strcmp(ret->cwd, cwd) != 0 ? -EINVAL : r;
}

void store_forget_last(struct store *s, const char *cwd)
{
        char name[NAME_BYTES];
        hash_name(LAST_PREFIX, cwd, name);
        (void)unlinkat(s->dirfd, name, 0);
}
