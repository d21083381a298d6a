/* list: lists the names in a directory, sorted.
 *
 * The kernel returns the kind of a file with its name; only links and files of unknown kind cost a call each. Names are
 * collected until there are twice as many as wanted; then the half that sorts last is dropped. So a huge directory costs time,
 * but no memory.
 */
#include "base/fd.h"
#include "base/mem.h"
#include "fsop/list_internal.h"

#include "fsop/at.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define DIRENT_BYTES ((size_t)64 * 1024)
#define FIRST_ENTRIES ((size_t)256)

struct reader {
        int dirfd;
        struct slice after; /* only names behind this one; p == NULL: all */
        bool with_links;    /* links are listed as links, and not followed */
        size_t keep;
        struct arena names;
        struct fs_entry *entries;
        size_t count, room;
        size_t total;
};

static void reader_release(struct reader *r)
{
        arena_release(&r->names);
        free(r->entries);
}

static int by_name(const void *x, const void *y)
{
        const struct fs_entry *a = x, *b = y;

        int order = memcmp(a->name.p, b->name.p, MIN(a->name.n, b->name.n));
        return order ? order : (a->name.n > b->name.n) - (a->name.n < b->name.n);
}

/* Copies the names into the arena, in one block, and points the entries at the copies. */
static void move_names(struct arena *to, struct fs_entry *entries, size_t count)
{
        size_t bytes = 0;
        for (size_t i = 0; i < count; i++)
                bytes += entries[i].name.n + 1;

        char *p = arena_alloc(to, bytes);
        for (size_t i = 0; i < count; i++) {
                size_t n = entries[i].name.n;
                memcpy(p, entries[i].name.p, n);
                p[n] = '\0';
                entries[i].name.p = p;
                p += n + 1;
        }
}

static void sort_and_cut(struct reader *r)
{
        if (r->count > 0)
                qsort(r->entries, r->count, sizeof(r->entries[0]), by_name);
        r->count = MIN(r->count, r->keep);
}

static void make_room(struct reader *r)
{
        if (r->count == 2 * r->keep) {
                struct arena kept = ARENA_INIT;

                sort_and_cut(r);
                move_names(&kept, r->entries, r->count);
                arena_release(&r->names);
                r->names = kept;
        } else if (r->count == r->room) {
                r->room = MIN(MAX(FIRST_ENTRIES, 2 * r->room), 2 * r->keep);
                r->entries = mem_realloc(r->entries, r->room * sizeof(r->entries[0]));
        }
}

/* Finds the kind of a file, links followed unless the reader wants links. Returns false for a broken link, and for a file that was removed
 * meanwhile. */
static bool find_kind(const struct reader *r, const struct dirent64 *d, struct fs_entry *ret)
{
        int dirfd = r->dirfd;
        unsigned char type = d->d_type;
        struct stat st;

        if (type == DT_UNKNOWN) {
                if (at_stat(dirfd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        return false;
                type = (unsigned char)IFTODT(st.st_mode);
        }
        ret->is_symlink = type == DT_LNK;
        if (ret->is_symlink && !r->with_links) {
                if (at_stat(dirfd, d->d_name, &st, 0) < 0)
                        return false;
                type = (unsigned char)IFTODT(st.st_mode);
        }
        ret->is_directory = type == DT_DIR;
        ret->is_file = type == DT_REG;
        return true;
}

static void take(struct reader *r, const struct dirent64 *d)
{
        struct fs_entry entry = { .name = slice_from_str(d->d_name) };

        if (slice_eq(entry.name, S(".")) || slice_eq(entry.name, S("..")))
                return;
        if (r->after.p && by_name(&entry, &(struct fs_entry){ .name = r->after }) <= 0)
                return;
        if (!find_kind(r, d, &entry))
                return;

        r->total++;
        make_room(r);
        entry.name.p = arena_dup(&r->names, entry.name);
        r->entries[r->count++] = entry;
}

/* Reads the whole directory. */
static int list_with(struct arena *a, struct reader *r, struct listing *ret)
{
        must(r->keep > 0);
        _free_ char *dirents = mem_alloc(DIRENT_BYTES);

        for (;;) {
                ssize_t n = getdents64(r->dirfd, dirents, DIRENT_BYTES);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                for (ssize_t at = 0; at < n;) {
                        const struct dirent64 *d = (const void *)(dirents + at);
                        take(r, d);
                        at += d->d_reclen;
                }
        }

        sort_and_cut(r);
        move_names(a, r->entries, r->count);
        *ret = (struct listing){
                .entries = arena_alloc(a, r->count * sizeof(r->entries[0])),
                .count = r->count,
                .total = r->total,
        };
        if (r->count > 0)
                memcpy(ret->entries, r->entries, r->count * sizeof(r->entries[0]));
        return 0;
}

int list_read(struct arena *a, int dirfd, size_t keep, struct listing *ret)
{
        CLEANUP(reader_release) struct reader r = { .dirfd = dirfd, .keep = keep };
        return list_with(a, &r, ret);
}

int list_read_links(struct arena *a, int dirfd, struct slice after, size_t keep, struct listing *ret)
{
        CLEANUP(reader_release)
        struct reader r = { .dirfd = dirfd, .keep = keep, .after = after, .with_links = true };
        return list_with(a, &r, ret);
}

int fsop_list(struct arena *a, const char *path, struct fs_entry **ret, size_t *ret_count, struct err *err)
{
        struct listing list;
        _close_ int fd = fsop_open(path, O_RDONLY | O_DIRECTORY, 0, true);

        if (fd < 0)
                return fsop_fail(err, fd);
        int r = list_read(a, fd, FS_LIST_MAX, &list);
        if (r < 0)
                return fsop_fail(err, r);
        if (list.total > FS_LIST_MAX) {
                err->os_errno = 0;
                return err_set(err, 0, -EOVERFLOW, "fs/readDirectory returned %zu entries; limit is %d",
                               list.total, FS_LIST_MAX);
        }

        *ret = list.entries;
        *ret_count = list.count;
        return 0;
}
