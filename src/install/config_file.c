/* config_file: the configuration file of another program: read and replaced only when nobody but this user can write it. */
#include "install/config_file.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/small_file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 8 /* symlinks to a file; more are refused */

static int refuse(struct arena *a, const char *path, int code, const char *why, struct err *err)
{
        return err_set(err, 0, code, "`%s` %s", printable_str(a, path), why);
}

static int failed(struct arena *a, const char *path, int code, struct err *err)
{
        return err_set(err, 0, code, "`%s`: %s (os error %d)", printable_str(a, path), errno_text(code),
                       -code);
}

/* Returns 0 when no other user can replace files of ours in the directory, or -errno. */
static int check_directory(struct arena *a, const char *path, struct err *err)
{
        struct stat st;

        if (stat(path, &st) < 0)
                return failed(a, path, -errno, err);
        if (st.st_uid != geteuid() && st.st_uid != 0)
                return refuse(a, path, -EPERM, "belongs to another user, who could change the configuration",
                              err);
        if ((st.st_mode & 022) && !(st.st_mode & S_ISVTX))
                return refuse(a, path, -EPERM, "can be written by other users (chmod go-w)", err);
        return 0;
}

/* Checks the directories of a path, up to the root. */
static int check_directories(struct arena *a, const char *path, struct err *err)
{
        char *at = arena_dup(a, slice_from_str(path));

        for (char *slash; (slash = strrchr(at, '/'));) {
                *slash = '\0';
                int r = check_directory(a, at[0] ? at : "/", err);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Checks the directories that lead to the name of the file, as far as they exist. */
static int check_way(struct arena *a, const char *path, struct err *err)
{
        char *at = arena_dup(a, slice_from_str(path));

        for (char *slash; (slash = strrchr(at, '/'));) {
                *slash = '\0';
                _free_ char *real = realpath(at[0] ? at : "/", NULL);
                if (real) {
                        int r = check_directories(a, arena_printf(a, "%s/", at), err);
                        return r < 0 ? r : check_directories(a, arena_printf(a, "%s/", real), err);
                }
                if (errno != ENOENT)
                        return failed(a, at, -errno, err);
        }
        return refuse(a, path, -EINVAL, "is no absolute path", err);
}

/* Checks the way to each symlink between the name and the file, since whoever can change one of them chooses the file. */
static int check_links(struct arena *a, const char *path, struct err *err)
{
        char target[PATH_MAX];

        for (int i = 0; i < LINKS_MAX; i++) {
                int r = check_way(a, path, err);
                if (r < 0)
                        return r;
                ssize_t n = readlink(path, target, sizeof(target));
                if (n < 0)
                        return 0; /* it is no symlink */
                struct slice to = slice_from(target, (size_t)n);
                size_t directory = (size_t)(strrchr(path, '/') - path) + 1;
                path = to.n > 0 && to.p[0] == '/'
                               ? arena_dup(a, to)
                               : arena_printf(a, "%.*s%.*s", (int)directory, path, SLICE(to));
        }
        return refuse(a, path, -ELOOP, "leads through too many symlinks", err);
}

static int check_file(struct arena *a, const char *path, struct err *err)
{
        struct stat st;
        _free_ char *real = realpath(path, NULL);

        if (!real || stat(real, &st) < 0)
                return failed(a, path, -errno, err);
        if (st.st_uid != geteuid())
                return refuse(a, real, -EPERM, "belongs to another user", err);
        if (st.st_mode & 022)
                return refuse(a, real, -EPERM, "can be written by other users (chmod go-w)", err);
        if (S_ISREG(st.st_mode) && st.st_nlink > 1)
                return refuse(a, real, -EMLINK,
                              "has more than one name (hard links), which replacing it would part", err);
        return check_directories(a, real, err);
}

static int read_text(struct arena *a, const char *path, struct config_file *ret, struct err *err)
{
        _buf_ struct buf text = BUF_INIT(LIMIT_CLIENT_CONFIG_BYTES);
        const char *why = NULL;

        int r = small_file_read(path, &text, &why);
        if (r == -EFBIG)
                why = "it is too large";
        if (r < 0 && r != -ENOENT)
                return err_set(err, 0, r, "failed to read `%s`: %s", printable_str(a, path),
                               why ? why : errno_text(r));
        struct stat st;
        *ret = (struct config_file){ .path = path, .exists = r == 0 };
        ret->is_link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
        if (ret->exists)
                ret->text = slice_from(arena_dup(a, buf_slice(&text)), text.n);
        return 0;
}

int config_file_read(struct arena *a, const char *path, struct config_file *ret, struct err *err)
{
        int r = check_links(a, path, err);
        if (r == 0)
                r = read_text(a, path, ret, err);
        return r < 0 || !ret->exists ? r : check_file(a, path, err);
}

int config_file_replace(struct arena *a, const struct config_file *file, const struct slice *text,
                        struct err *err)
{
        struct config_file now;
        _close_ int lock = small_file_lock(file->path, err);
        if (lock < 0)
                return lock;

        int r = config_file_read(a, file->path, &now, err);
        if (r < 0)
                return r;
        if (now.exists != file->exists || !slice_eq(now.text, file->text))
                return refuse(a, file->path, -ESTALE, "has changed meanwhile: nothing was written; try again",
                              err);
        if (text)
                return small_file_replace(file->path, *text, err);
        return unlink(file->path) < 0 ? failed(a, file->path, -errno, err) : 0;
}
