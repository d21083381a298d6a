/* files: makes the files and trees that rows read, write and copy, and checks their content afterwards. */
#include "files.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int files_failed(struct err *err, const char *path)
{
        int e = errno;
        return err_set(err, 0, -e, "%s: %s", path, errno_text(e));
}

void file_sample(struct turn *t, uint64_t start_ns)
{
        double us = us_since(start_ns);
        samples_add(&t->into[0], t->bytes <= FILE_SMALL ? us : (double)t->bytes / us);
}

/* --- one file ----------------------------------------------------------------------------------------------------- */

char *content_new(size_t n)
{
        uint64_t state = UINT64_C(0x9e3779b97f4a7c15);
        char *p = mem_alloc(n + sizeof(state));
        for (size_t i = 0; i < n; i += sizeof(state)) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                memcpy(p + i, &state, sizeof(state));
        }
        return p;
}

static int write_file(int dir, const char *path, struct slice content, struct err *err)
{
        _close_ int fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd < 0)
                return files_failed(err, path);
        int r = fd_write_all(fd, content);
        return r < 0 ? err_set(err, 0, r, "%s: %s", path, errno_text(r)) : 0;
}

int file_make(const char *path, size_t n, struct err *err)
{
        _free_ char *content = content_new(n);
        return write_file(AT_FDCWD, path, slice_from(content, n), err);
}

/* Reads one byte more than expected, so that a file that is too long is noticed. */
static int compare_file(int dir, const char *path, struct slice content, struct err *err)
{
        _free_ char *room = mem_alloc(content.n + 1);
        _close_ int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
        size_t n = 0;
        for (ssize_t r = 1; fd >= 0 && r > 0 && n <= content.n; n += (size_t)r) {
                r = read(fd, room + n, content.n + 1 - n);
                if (r < 0)
                        return files_failed(err, path);
        }
        if (fd < 0)
                return files_failed(err, path);
        if (!slice_eq(slice_from(room, n), content))
                return err_set(err, 0, -EPROTO, "%s is not what it should be", path);
        return 0;
}

int file_check(const char *path, size_t n, struct err *err)
{
        _free_ char *content = content_new(n);
        return compare_file(AT_FDCWD, path, slice_from(content, n), err);
}

/* --- trees -------------------------------------------------------------------------------------------------------- */

void tree_dir(char ret[TREE_PATH_MAX], unsigned dir)
{
        snprintf(ret, TREE_PATH_MAX, "d%03u", dir);
}

void tree_file(char ret[TREE_PATH_MAX], unsigned dir, unsigned file)
{
        snprintf(ret, TREE_PATH_MAX, "d%03u/file-%05u.txt", dir, file);
}

static int each_file(int at, const struct tree *t, struct err *err,
                     int (*fn)(int at, const char *path, struct slice content, struct err *err))
{
        _free_ char *content = content_new(t->bytes);
        int r = 0;
        for (unsigned dir = 0; r == 0 && dir < t->dirs; dir++)
                for (unsigned file = 0; r == 0 && file < t->files; file++) {
                        char path[TREE_PATH_MAX];
                        tree_file(path, dir, file);
                        r = fn(at, path, slice_from(content, t->bytes), err);
                }
        return r;
}

int tree_make(const char *root, const struct tree *t, struct err *err)
{
        _close_ int at = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (at < 0)
                return files_failed(err, root);
        for (unsigned dir = 0; dir < t->dirs; dir++) {
                char path[TREE_PATH_MAX];
                tree_dir(path, dir);
                if (mkdirat(at, path, 0755) < 0)
                        return files_failed(err, path);
        }
        return each_file(at, t, err, write_file);
}

int tree_check(const char *root, const struct tree *t, struct err *err)
{
        _close_ int at = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return at < 0 ? files_failed(err, root) : each_file(at, t, err, compare_file);
}
