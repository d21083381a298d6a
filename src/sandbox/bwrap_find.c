/* bwrap_find: finds the programs bwrap and farhand-init, and tells whether a command could change them. */
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

/* ---- finding the programs ---- */

static bool is_program(const char *path)
{
        struct stat st;
        return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* A cwd of `/` does not count: the whole machine is below it. */
static bool is_in_cwd(const char *path, struct slice cwd)
{
        return cwd.n > 1 && path_is_within(slice_from_str(path), cwd);
}

/* Finds a bwrap by its real path, so that the file that was checked is the one that is executed. A bwrap that other users may
 * write is skipped; `err` then describes the last skipped one. Returns 0 or -errno; -ENOENT with err untouched when there is no
 * bwrap at all. */
static int program_find(const char *path, struct slice cwd, struct bwrap *ret, struct err *err)
{
        int r = -ENOENT;
        struct slice rest = slice_from_str(path);
        while (rest.n > 0) {
                struct slice dir = slice_split(&rest, ':');
                char named[PATH_MAX], *real = ret->program;
                if (dir.n == 0 || dir.p[0] != '/' ||
                    snprintf(named, sizeof(named), "%.*s/bwrap", SLICE(dir)) >= PATH_MAX)
                        continue;
                if (!realpath(named, real) || !is_program(real) || is_in_cwd(real, cwd) ||
                    is_in_cwd(named, cwd))
                        continue;
                r = helper_open(real, false, &ret->program_file, err);
                if (r == 0)
                        return 0;
        }
        return r;
}

/* Completes an error of sandbox/helper.h; its text stays, because it names the path. */
static int helper_refuse(struct err *err, int r)
{
        err->step = "bubblewrap";
        err->remedy = err->remedy ? err->remedy : "look whether this user may read and execute it";
        return r;
}

static int programs_open(const char *path, struct slice cwd, struct bwrap *b, struct err *err)
{
        int r = program_find(path, cwd, b, err);
        if (r < 0 && !err->text[0])
                return bwrap_refuse(err, -ENOENT, "there is no bwrap on PATH",
                                    "install bubblewrap; a bwrap in the working directory is not taken");
        if (r < 0)
                return helper_refuse(err, r);
        if (helper_find("farhand-init", b->init) < 0)
                return bwrap_refuse(err, -ENOENT, "farhand-init is missing",
                                    "install it beside farhand, or in ../libexec/farhand");
        r = helper_open(b->init, true, &b->init_file, err);
        return r < 0 ? helper_refuse(err, r) : 0;
}

int bwrap_find(const char *path, struct slice cwd, struct bwrap *ret, struct err *err)
{
        struct err found = ERR_INIT; /* errors of skipped programs do not matter when another was found */
        *ret = BWRAP_NONE;
        int r = programs_open(path, cwd, ret, &found);
        if (r == 0)
                r = bwrap_check_options(ret, &found);
        if (r < 0) {
                bwrap_release(ret);
                *err = found;
        }
        return r;
}

void bwrap_release(struct bwrap *b)
{
        helper_close(&b->program_file);
        helper_close(&b->init_file);
}

/* Does the last operation at or above the path make it writable? A writable root of the machine is not considered: such a
 * command may replace every program anyway. */
static bool is_writable(const char *path, const struct plan *p)
{
        bool may_write = false;
        for (size_t i = 0; p->has_view && i < p->op_count; i++) {
                enum plan_kind kind = p->ops[i].kind;
                if (path_is_within(slice_from_str(path), p->ops[i].path))
                        may_write = plan_kind_is_writable(kind);
        }
        return may_write;
}

const char *bwrap_exposed(const struct bwrap *b, const struct plan *p, struct slice cwd)
{
        if (is_writable(b->program, p) || is_in_cwd(b->program, cwd))
                return b->program;
        return b->init_file.copy < 0 && is_writable(b->init, p) ? b->init : NULL;
}
