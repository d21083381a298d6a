/* git_access: finds the repository of a workspace and makes the profile entries that open it. */
#include "cmd/git_access.h"

#include "base/fd.h"
#include "plan/look.h"
#include "policy/rules.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define COMMON "commondir"

/* ---- paths and files ---- */

static const char *join(struct arena *a, struct slice dir, const char *name)
{
        return arena_printf(a, "%.*s%s%s", SLICE(dir), dir.n > 1 ? "/" : "", name);
}

static bool exists(const char *path)
{
        struct stat st;
        return lstat(path, &st) == 0;
}

/* May this path exist? Only ENOENT and ENOTDIR prove that a path does not exist; after any other error it may exist. */
static bool may_exist(const char *path)
{
        struct stat st;
        return lstat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* Returns the path without links; p == NULL when the path does not exist. */
static struct slice real_path(struct arena *a, const char *path)
{
        char room[PATH_MAX];
        if (!realpath(path, room))
                return (struct slice){ NULL, 0 };
        struct slice s = slice_from_str(room);
        return slice_from(arena_dup(a, s), s.n);
}

/* Reads a file of one line: `prefix` and a path. Returns that path without links; a relative path is below the directory `at`. */
static struct slice read_pointer(struct arena *a, const char *file, struct slice prefix, struct slice at)
{
        struct slice text;
        if (look_pointer(a, slice_from_str(file), prefix, &text) <= 0)
                return (struct slice){ NULL, 0 };
        const char *path = arena_dup(a, text);
        return real_path(a, path[0] == '/' ? path : join(a, at, path));
}

static struct slice parent_of(struct slice path)
{
        while (path.n > 1 && path.p[path.n - 1] != '/')
                path.n--;
        if (path.n > 1)
                path.n--;
        return path;
}

static struct slice last_name(struct slice path)
{
        size_t n = parent_of(path).n;
        n += n > 1;
        return slice_from(path.p + n, path.n - n);
}

static bool is_repository(struct arena *a, struct slice dir)
{
        return exists(join(a, dir, "HEAD")) && exists(join(a, dir, "objects")) &&
               exists(join(a, dir, "refs"));
}

static int refuse(struct err *err, struct slice root, const char *why)
{
        err->step = "git";
        err->remedy = "name the repository in a profile, with --profile, or leave --git out";
        return err_set(err, 0, -EINVAL, "--git: %.*s/.git %s", SLICE(root), why);
}

/* ---- profile entries ---- */

static void add(struct git_access *g, struct arena *a, const char *path, enum access access)
{
        g->entries = arena_room(a, g->entries, g->count, &g->room, sizeof(*g->entries));
        g->entries[g->count++] =
                (struct profile_entry){ .kind = TARGET_PATH, .text = slice_from_str(path), .access = access };
}

static int watch(struct git_access *g, struct arena *a, struct slice dir, struct err *err)
{
        if (g->watched_count == GIT_ACCESS_MAX)
                return err_set(err, 0, -E2BIG, "--git: more than %d repositories", GIT_ACCESS_MAX);
        if (g->watch < 0)
                g->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        if (g->watch < 0 || inotify_add_watch(g->watch, arena_dup(a, dir), IN_CREATE | IN_MOVED_TO) < 0) {
                err->step = "git";
                err->os_errno = errno;
                err->remedy = "raise fs.inotify.max_user_instances or fs.inotify.max_user_watches";
                return err_set(err, 0, -errno, "--git: %.*s cannot be watched: %s", SLICE(dir),
                               errno_text(errno));
        }
        g->watched[g->watched_count++] = dir;
        return 0;
}

/* Opens a repository that has its own objects. */
static int open_repository(struct git_access *g, struct arena *a, struct slice dir, struct err *err)
{
        static const char *const always[] = { "hooks", "config", "config.worktree" };
        static const char *const others[] = { "worktrees", "modules" }; /* where missing, git may make them */
        add(g, a, arena_dup(a, dir), ACCESS_WRITE);
        for (size_t i = 0; i < ARRAY_LEN(always); i++)
                add(g, a, join(a, dir, always[i]), ACCESS_READ);
        for (size_t i = 0; i < ARRAY_LEN(others); i++)
                if (may_exist(join(a, dir, others[i])))
                        add(g, a, join(a, dir, others[i]), ACCESS_READ);
        return watch(g, a, dir, err);
}

/* Opens COMMON/worktrees/NAME, which must have a file that names our `.git`. Objects and references are in COMMON. */
static int open_worktree(struct git_access *g, struct arena *a, struct slice root, struct slice dir,
                         struct err *err)
{
        static const char *const fixed[] = { COMMON, "gitdir", "config.worktree" };
        struct slice common = read_pointer(a, join(a, dir, COMMON), S(""), dir);
        struct slice back = read_pointer(a, join(a, dir, "gitdir"), S(""), dir);
        bool is_its = common.p && slice_eq(parent_of(parent_of(dir)), common) &&
                      slice_eq(last_name(parent_of(dir)), S("worktrees"));
        if (!is_its || !is_repository(a, common))
                return refuse(err, root, "names no worktree of a repository");
        if (!back.p || !slice_eq(back, slice_from_str(join(a, root, ".git"))))
                return refuse(err, root, "names the worktree of another directory");
        int r = open_repository(g, a, common, err);
        if (r < 0)
                return r;
        add(g, a, arena_dup(a, dir), ACCESS_WRITE);
        for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
                add(g, a, join(a, dir, fixed[i]), ACCESS_READ);
        if (may_exist(join(a, dir, "modules")))
                add(g, a, join(a, dir, "modules"), ACCESS_READ);
        return 0;
}

/* Is `dir` a directory PROJECT/.git/modules/… of a project that contains the workspace `root`? */
static bool is_module(struct arena *a, struct slice root, struct slice dir)
{
        for (struct slice project = parent_of(root);; project = parent_of(project)) {
                const char *modules = join(a, project, ".git/modules");
                struct slice real_modules = real_path(a, modules);
                if (real_modules.p && slice_eq(real_modules, slice_from_str(modules)) &&
                    path_is_within(dir, real_modules) && dir.n > real_modules.n)
                        return true;
                if (project.n == 1)
                        return false;
        }
}

int git_access_add(struct git_access *g, struct arena *a, struct slice root, struct err *err)
{
        const char *git = join(a, root, ".git");
        struct stat st;
        if (lstat(git, &st) < 0) {
                if (errno == ENOENT)
                        return 0;
                return refuse(err, root, errno_text(errno));
        }
        g->found++;
        if (S_ISDIR(st.st_mode)) {
                struct slice dir = slice_from_str(git);
                if (!is_repository(a, dir) || may_exist(join(a, dir, COMMON)))
                        return refuse(err, root, "is no repository that has its objects itself");
                return open_repository(g, a, dir, err);
        }
        if (!S_ISREG(st.st_mode))
                return refuse(err, root, "is neither a directory nor a file");
        struct slice dir = read_pointer(a, git, S("gitdir:"), root);
        if (!dir.p)
                return refuse(err, root, "names no repository");
        if (may_exist(join(a, dir, COMMON)))
                return open_worktree(g, a, root, dir, err);
        if (!is_module(a, root, dir) || !is_repository(a, dir))
                return refuse(err, root, "names no repository that belongs to this directory");
        return open_repository(g, a, dir, err);
}

/* ---- watching for `commondir` ---- */

static bool is_there(struct slice dir, char path[static PATH_MAX + 16])
{
        (void)snprintf(path, PATH_MAX + 16, "%.*s/" COMMON, SLICE(dir));
        return may_exist(path);
}

bool git_access_is_broken(struct git_access *g)
{
        char events[4096], path[PATH_MAX + 16];
        while (g->watch >= 0 && read(g->watch, events, sizeof(events)) > 0)
                continue;
        for (size_t i = 0; i < g->watched_count; i++)
                if (is_there(g->watched[i], path))
                        return true;
        return false;
}

const char *git_access_repair(struct git_access *g)
{
        static char path[PATH_MAX + 16];
        for (size_t i = 0; i < g->watched_count; i++)
                if (is_there(g->watched[i], path) && unlink(path) < 0 && rmdir(path) < 0)
                        return path;
        return NULL;
}

void git_access_release(struct git_access *g)
{
        g->watch = fd_close(g->watch);
}
