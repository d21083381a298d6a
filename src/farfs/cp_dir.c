/* cp_dir: directories of either side: opened, made, and finished when all is in them. */
#include "base/fd.h"
#include "base/mem.h"
#include "farfs/cp.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define OPEN_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* ---- metadata ---- */

void cp_meta_from_stat(const struct stat *st, struct cp_meta *ret)
{
        *ret = (struct cp_meta){
                .kind = S_ISREG(st->st_mode)   ? CP_FILE
                        : S_ISDIR(st->st_mode) ? CP_DIRECTORY
                        : S_ISLNK(st->st_mode) ? CP_LINK
                                               : CP_OTHER,
                .has_mode = true,
                .mode = st->st_mode & 01777,
                .size = st->st_size > 0 ? (uint64_t)st->st_size : 0,
                .modified_ms = (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000,
        };
}

struct timespec cp_time(int64_t ms)
{
        int64_t seconds = ms / 1000, rest = ms % 1000;
        if (rest < 0) {
                rest += 1000;
                seconds--;
        }
        return (struct timespec){ .tv_sec = (time_t)seconds, .tv_nsec = (long)rest * 1000000 };
}

static int look_far(struct cp_dir *dir, const char *name, struct cp_meta *ret)
{
        struct farhand_error error;
        struct farhand_metadata m;
        _free_ char *path = cp_path(dir, name);
        char *target = NULL;
        int r = farhand_stat(dir->side->fs.client, path, &m, &error);
        if (r < 0) {
                int e = farhand_error_errno(&error);
                if (e != ENOENT && error.rpc_code != -32004) {
                        cp_complain(dir, name, &error);
                        return -1;
                }
                /* A link whose target is missing is there nevertheless. */
                bool is_link = dir->side->has_batch &&
                               farhand_read_link(dir->side->fs.client, path, &target, NULL) == 0;
                free(target);
                *ret = (struct cp_meta){ .kind = is_link ? CP_LINK : CP_NOTHING };
                return 0;
        }
        *ret = (struct cp_meta){
                .kind = m.is_symlink     ? CP_LINK
                        : m.is_directory ? CP_DIRECTORY
                        : m.is_file      ? CP_FILE
                                         : CP_OTHER,
                .has_mode = m.has_mode,
                .mode = m.mode & 01777,
                .size = m.size,
                .modified_ms = m.modified_ms,
        };
        return 0;
}

int cp_look(struct cp_dir *dir, const char *name, struct cp_meta *ret)
{
        struct stat st;
        if (!cp_is_near(dir->side))
                return look_far(dir, name, ret);
        if (fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
                cp_meta_from_stat(&st, ret);
                return 0;
        }
        *ret = (struct cp_meta){ .kind = CP_NOTHING };
        if (errno == ENOENT)
                return 0;
        cp_complain_errno(dir, name, errno);
        return -1;
}

/* ---- setting metadata ---- */

/* A request under way that sets mode and time. */
struct meta_request {
        struct cp_dir *dir;
        char *name;
};

static void on_changed(UNUSED struct farhand *f, void *arg, UNUSED const char *result,
                       const struct farhand_error *error)
{
        struct meta_request *request = arg;
        request->dir->cp->under_way--;
        if (error)
                cp_complain(request->dir, request->name, error);
        cp_dir_unref(request->dir);
        free(request->name);
        free(request);
}

/* Sends a request, and does not wait for its answer. Without a name the directory itself is meant. */
static void set_far(struct cp_dir *dir, const char *name, const struct cp_meta *meta)
{
        struct farhand_error error;
        if (!dir->side->has_batch)
                return;
        _free_ char *path = cp_path_json(dir, name);
        _free_ char *mode = meta->has_mode ? mem_printf(",\"mode\":%u", meta->mode) : mem_strdup("");
        _free_ char *params = mem_printf("{\"path\":%s%s,\"modifiedAtMs\":%jd,\"unordered\":true}", path,
                                         mode, (intmax_t)meta->modified_ms);
        struct meta_request *request = mem_new(struct meta_request);
        *request = (struct meta_request){ .dir = cp_dir_ref(dir), .name = mem_strdup(name) };
        dir->cp->under_way++;
        if (farhand_call(dir->side->fs.client, "fs/setMetadata", params, FARHAND_REPEAT, on_changed, request,
                         &error) < 0)
                on_changed(dir->side->fs.client, request, NULL, &error);
}

void cp_set_meta(struct cp_dir *dir, const char *name, const struct cp_meta *meta)
{
        const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, cp_time(meta->modified_ms) };
        if (!cp_is_near(dir->side)) {
                set_far(dir, name, meta);
                return;
        }
        /* Only names of files come here. If such a name has become a link meanwhile, openat fails. */
        _close_ int fd = name ? openat(dir->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                              : fcntl(dir->fd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0 || (meta->has_mode && fchmod(fd, meta->mode) < 0) || futimens(fd, times) < 0)
                cp_complain_errno(dir, name, errno);
}

/* ---- the life of a directory ---- */

static struct cp_dir *dir_new(struct cp *cp, struct cp_side *side, char *path, int fd)
{
        struct cp_dir *dir = mem_new(struct cp_dir);
        *dir = (struct cp_dir){ .cp = cp, .side = side, .path = path, .fd = fd, .refs = 1 };
        return dir;
}

struct cp_dir *cp_dir_ref(struct cp_dir *dir)
{
        dir->refs++;
        return dir;
}

void cp_dir_unref(struct cp_dir *dir)
{
        if (!dir || --dir->refs > 0)
                return;
        if (dir->result.kind == CP_DIRECTORY) {
                dir->refs++;
                const struct cp_meta result = dir->result;
                dir->result.kind = CP_NOTHING;
                cp_set_meta(dir, NULL, &result);
                if (--dir->refs > 0)
                        return; /* the answer is awaited, and on_changed gives up the last reference */
        }
        fd_close(dir->fd);
        free(dir->path);
        free(dir);
}

struct cp_dir *cp_dir_open(struct cp *cp, struct cp_side *side, const char *path)
{
        struct cp_dir *dir = dir_new(cp, side, mem_strdup(path), -1);
        if (!cp_is_near(side))
                return dir;
        dir->fd = open(path, OPEN_FLAGS);
        if (dir->fd >= 0)
                return dir;
        cp_complain_errno(dir, NULL, errno);
        cp_dir_unref(dir);
        return NULL;
}

struct cp_dir *cp_dir_enter(struct cp_dir *parent, const char *name)
{
        int fd = -1;
        if (parent->depth + 1 >= CP_DEPTH_MAX) {
                cp_complain_text(parent, name, "directories are too deep here to be copied");
                return NULL;
        }
        if (cp_is_near(parent->side)) {
                fd = openat(parent->fd, name, OPEN_FLAGS | O_NOFOLLOW);
                if (fd < 0) {
                        cp_complain_errno(parent, name, errno);
                        return NULL;
                }
        }
        struct cp_dir *dir = dir_new(parent->cp, parent->side, cp_path(parent, name), fd);
        dir->depth = parent->depth + 1;
        return dir;
}

/* Makes a directory. Returns 1, 0 when something of that name was there, or -1; then stderr was told. */
static int make(struct cp_dir *parent, const char *name, const struct cp_meta *wanted)
{
        struct farhand_error error;
        if (cp_is_near(parent->side)) {
                if (mkdirat(parent->fd, name, wanted->has_mode ? (wanted->mode & 0777) | 0700 : 0777) == 0)
                        return 1;
                if (errno == EEXIST)
                        return 0;
                cp_complain_errno(parent, name, errno);
                return -1;
        }
        _free_ char *path = cp_path_json(parent, name);
        _free_ char *params = mem_printf("{\"path\":%s,\"recursive\":false}", path);
        if (cp_call(parent->side, "fs/createDirectory", params, NULL, &error) == 0)
                return 1;
        if (farhand_error_errno(&error) == EEXIST)
                return 0;
        cp_complain(parent, name, &error);
        return -1;
}

struct cp_dir *cp_dir_make(struct cp_dir *parent, const char *name, const struct cp_meta *wanted,
                           enum cp_kind existing)
{
        if (existing != CP_NOTHING && existing != CP_DIRECTORY) {
                cp_complain_text(parent, name, "there is something else in the place of this directory");
                return NULL;
        }
        int made = existing == CP_DIRECTORY ? 0 : make(parent, name, wanted);
        struct cp_meta there = { .kind = CP_DIRECTORY };
        if (made == 0 && existing == CP_NOTHING && cp_look(parent, name, &there) < 0)
                return NULL;
        if (there.kind != CP_DIRECTORY) {
                cp_complain_errno(parent, name, EEXIST);
                return NULL;
        }
        struct cp_dir *dir = made < 0 ? NULL : cp_dir_enter(parent, name);
        if (!dir)
                return NULL;
        dir->is_new = made == 1;
        parent->cp->counts.directories += dir->is_new;
        dir->result = *wanted;
        /* Nobody else shall look into a private directory while it is filled: its mode is set before any file is sent. */
        if (dir->is_new && !cp_is_near(dir->side) && dir->side->has_batch && wanted->has_mode &&
            (wanted->mode & 0777) != 0755) {
                struct farhand_error error;
                if (farhand_set_metadata(dir->side->fs.client, dir->path, (int)(wanted->mode | 0700), -1,
                                         &error) < 0) {
                        cp_complain(dir, NULL, &error);
                        dir->result.kind = CP_NOTHING;
                        cp_dir_unref(dir);
                        return NULL;
                }
        }
        return dir;
}
