/* machine_files: measures the work of the rows about files with plain system calls, in this process. */
#include "machine_files.h"

#include "base/fd.h"
#include "base/mem.h"
#include "procinfo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE ((size_t)1024 * 1024)
#define GB 1e9

const struct tree tree_flat = { 1, 10000, 0 };
const struct tree tree_walked = { 100, 100, 0 }; /* 10,100 entries */
const struct tree tree_searched = { 3000, 100, 0 };
const struct tree tree_copied = { 20, 100, 1024 };

static char *path_in(const struct turn *t, const char *name)
{
        return mem_printf("%s/%s", t->dir, name);
}

/* --- content ------------------------------------------------------------------------------------------------------ */

static int read_once(const char *path, char *room, size_t bytes, struct err *err)
{
        _close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        size_t n = 0;
        for (ssize_t r = 1; fd >= 0 && r > 0; n += (size_t)r) {
                r = read(fd, room, PIECE);
                if (r < 0)
                        return files_failed(err, path);
        }
        if (fd < 0)
                return files_failed(err, path);
        return n == bytes ? 0 : err_set(err, 0, -EIO, "%s: %zu bytes, not %zu", path, n, bytes);
}

static int write_once(const char *path, struct slice content, struct err *err)
{
        _close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd < 0)
                return files_failed(err, path);
        int r = fd_write_all(fd, content);
        return r < 0 ? err_set(err, 0, r, "%s: %s", path, errno_text(r)) : 0;
}

static void add_cpu(struct turn *t, double cpu, size_t n)
{
        if (t->bytes > FILE_SMALL)
                samples_add(&t->into[1], (own_cpu_s() - cpu) * GB / (double)(t->bytes * n));
}

int machine_read(struct turn *t, struct err *err)
{
        _free_ char *path = path_in(t, FILE_IN), *room = mem_alloc(PIECE);
        int r = read_once(
                path, room, t->bytes,
                err); /* once before the measurement: faults in the pages of `room` and of the file */
        double cpu = own_cpu_s();
        size_t n = 0;
        for (; r == 0 && turn_goes_on(t, n); n++) {
                uint64_t start = now_ns();
                r = read_once(path, room, t->bytes, err);
                file_sample(t, start);
        }
        add_cpu(t, cpu, n);
        return r;
}

int machine_look(struct turn *t, struct err *err)
{
        _free_ char *path = path_in(t, FILE_IN);
        double cpu = own_cpu_s();
        size_t n = 0;
        int r = 0;
        for (; r == 0 && turn_goes_on(t, n); n++) {
                struct stat st;
                uint64_t start = now_ns();
                r = stat(path, &st) < 0 ? files_failed(err, path) : 0;
                file_sample(t, start);
        }
        add_cpu(t, cpu, n);
        return r;
}

int machine_write(struct turn *t, struct err *err)
{
        _free_ char *path = path_in(t, FILE_OUT "-machine"), *content = content_new(t->bytes);
        double cpu = own_cpu_s();
        size_t n = 0;
        int r = 0;
        for (; r == 0 && turn_goes_on(t, n); n++) {
                uint64_t start = now_ns();
                r = write_once(path, slice_from(content, t->bytes), err);
                file_sample(t, start);
        }
        add_cpu(t, cpu, n);
        return r;
}

/* --- directories -------------------------------------------------------------------------------------------------- */

/* Counts all entries of a tree. */
static int count_entries(int at, const char *path, size_t *count, struct err *err)
{
        int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        if (!dir) {
                int r = files_failed(err, path);
                fd_close(fd);
                return r;
        }
        int r = 0;
        for (struct dirent *e; r == 0 && (e = readdir(dir));) {
                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                        continue;
                ++*count;
                if (e->d_type == DT_DIR)
                        r = count_entries(fd, e->d_name, count, err);
        }
        closedir(dir);
        return r;
}

static int count_below(struct turn *t, const char *root, size_t want, struct err *err)
{
        int r = 0;
        for (size_t n = 0; r == 0 && turn_goes_on(t, n); n++) {
                size_t count = 0;
                uint64_t start = now_ns();
                r = count_entries(AT_FDCWD, root, &count, err);
                samples_add(&t->into[0], us_since(start));
                if (r == 0 && count != want)
                        r = err_set(err, 0, -EIO, "%s: %zu entries, not %zu", root, count, want);
        }
        return r;
}

int machine_list(struct turn *t, struct err *err)
{
        char first[TREE_PATH_MAX];
        tree_dir(first, 0);
        _free_ char *root = mem_printf("%s/" TREE_IN "/%s", t->dir, first);
        return count_below(t, root, tree_flat.files, err);
}

static int walk(struct turn *t, const struct tree *tree, struct err *err)
{
        _free_ char *root = path_in(t, TREE_IN);
        return count_below(t, root, tree->dirs * (1 + tree->files), err);
}

int machine_walk(struct turn *t, struct err *err)
{
        return walk(t, &tree_walked, err);
}

int machine_search(struct turn *t, struct err *err)
{
        return walk(t, &tree_searched, err);
}

/* --- trees -------------------------------------------------------------------------------------------------------- */

static int copy_file(int from_dir, int to_dir, const char *path)
{
        struct stat st;
        _close_ int from = openat(from_dir, path, O_RDONLY | O_CLOEXEC);
        if (from < 0 || fstat(from, &st) < 0)
                return -errno;
        _close_ int to = openat(to_dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st.st_mode & 0777);
        if (to < 0)
                return -errno;
        for (off_t left = st.st_size; left > 0;) {
                ssize_t n = copy_file_range(from, NULL, to, NULL, (size_t)left, 0);
                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                left -= n;
        }
        return 0;
}

/* Copies file by file. The paths are known, so that no directory has to be listed. */
static int copy_tree(const char *from, const char *to)
{
        if (mkdir(to, 0755) < 0)
                return -errno;
        _close_ int from_dir = open(from, O_PATH | O_DIRECTORY | O_CLOEXEC);
        _close_ int to_dir = open(to, O_PATH | O_DIRECTORY | O_CLOEXEC);
        char path[TREE_PATH_MAX];
        int r = from_dir < 0 || to_dir < 0 ? -errno : 0;
        for (unsigned dir = 0; r == 0 && dir < tree_copied.dirs; dir++) {
                tree_dir(path, dir);
                if (mkdirat(to_dir, path, 0755) < 0)
                        r = -errno;
                for (unsigned file = 0; r == 0 && file < tree_copied.files; file++) {
                        tree_file(path, dir, file);
                        r = copy_file(from_dir, to_dir, path);
                }
        }
        return r;
}

static int remove_tree(const char *root)
{
        _close_ int at = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        char path[TREE_PATH_MAX];
        int r = at < 0 ? -errno : 0;
        for (unsigned dir = 0; r == 0 && dir < tree_copied.dirs; dir++) {
                for (unsigned file = 0; r == 0 && file < tree_copied.files; file++) {
                        tree_file(path, dir, file);
                        r = unlinkat(at, path, 0) < 0 ? -errno : 0;
                }
                tree_dir(path, dir);
                if (r == 0 && unlinkat(at, path, AT_REMOVEDIR) < 0)
                        r = -errno;
        }
        return r == 0 && rmdir(root) < 0 ? -errno : r;
}

int machine_tree(struct turn *t, struct err *err)
{
        _free_ char *from = path_in(t, TREE_IN), *to = path_in(t, TREE_COPY "-machine");
        int r = 0;
        for (size_t n = 0; r == 0 && turn_goes_on(t, n); n++) {
                uint64_t start = now_ns();
                r = copy_tree(from, to);
                samples_add(&t->into[0], us_since(start));
                start = now_ns();
                if (r == 0)
                        r = remove_tree(to);
                samples_add(&t->into[1], us_since(start));
        }
        return r < 0 ? err_set(err, 0, r, "%s: %s", to, errno_text(r)) : 0;
}
