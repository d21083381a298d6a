/* bwrap_find: which bwrap. See bwrap.h. */
#include "sandbox/bwrap.h"

#include "sandbox/bwrap_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int bwrap_refuse(struct err *err, int r, const char *text, const char *remedy)
{
        err->step = "bubblewrap";
        err->os_errno = -r;
        err->remedy = remedy;
        return err_set(err, 0, r, "%s", text);
}

/* ---- where ---- */

static bool is_program(const char *path)
{
        struct stat st;
        return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Whoever works in the root of the machine has nothing of his own there. */
static bool is_in_cwd(const char *path, struct slice cwd)
{
        return cwd.n > 1 && path_is_within(slice_from_str(path), cwd);
}

/* Without links, so that it is what was looked at. */
static bool program_find(const char *path, struct slice cwd, char ret[static PATH_MAX])
{
        struct slice rest = slice_from_str(path);
        while (rest.n > 0) {
                struct slice dir = slice_split(&rest, ':');
                char named[PATH_MAX];
                if (dir.n == 0 || dir.p[0] != '/' ||
                    snprintf(named, sizeof(named), "%.*s/bwrap", SLICE(dir)) >= PATH_MAX)
                        continue;
                if (realpath(named, ret) && is_program(ret) && !is_in_cwd(ret, cwd) && !is_in_cwd(named, cwd))
                        return true;
        }
        return false;
}

static bool init_find(char ret[static PATH_MAX])
{
        static const char *const places[] = { "/../libexec/farhand/farhand-init", "/farhand-init" };
        char self[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        char *slash = n > 0 ? memrchr(self, '/', (size_t)n) : NULL;
        for (size_t i = 0; slash && i < ARRAY_LEN(places); i++) {
                int length = snprintf(ret, PATH_MAX, "%.*s%s", (int)(slash - self), self, places[i]);
                if (length > 0 && length < PATH_MAX && is_program(ret))
                        return true;
        }
        return false;
}

int bwrap_find(const char *path, struct slice cwd, struct bwrap *ret, struct err *err)
{
        if (!program_find(path, cwd, ret->program))
                return bwrap_refuse(err, -ENOENT, "there is no bwrap on PATH",
                                    "install bubblewrap; a bwrap in the working directory is not taken");
        if (!init_find(ret->init))
                return bwrap_refuse(err, -ENOENT, "farhand-init is missing",
                                    "install it beside farhand, or in ../libexec/farhand");
        return bwrap_check_options(ret, err);
}

/* Who may write the root of the machine may replace everything there is: that is not what this is about. */
bool bwrap_is_exposed(const struct bwrap *b, const struct plan *p, struct slice cwd)
{
        struct slice program = slice_from_str(b->program);
        bool is_writable = false;
        for (size_t i = 0; p->has_view && i < p->op_count; i++) {
                enum plan_kind kind = p->ops[i].kind;
                if (path_is_within(program, p->ops[i].path))
                        is_writable = kind == PLAN_WRITE || kind == PLAN_PIN;
        }
        return is_writable || is_in_cwd(b->program, cwd);
}
