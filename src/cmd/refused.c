/* refused: writes a line for each thing that the sandbox refused, with the option that would allow it. */
#include "cmd/refused.h"

#include "base/limits.h"
#include "base/utf8.h"
#include "denial/refusal.h"

#define SHOWN_BYTES 192 /* the end of a longer path is shown */

/* ---- printing paths ---- */

/* Appends the text without control characters, also those beyond ASCII, and without bytes that are not UTF-8. */
static void append_text(struct buf *out, struct slice s)
{
        while (s.n > 0) {
                size_t n = utf8_sequence(s.p, s.n);
                unsigned char c = (unsigned char)s.p[0];
                bool is_control =
                        c < ' ' || c == 0x7f || (c == 0xc2 && n == 2 && (unsigned char)s.p[1] < 0xa0);
                (void)!buf_append(out, n > 0 && !is_control ? slice_from(s.p, n) : S("?"));
                n = MAX(n, 1u);
                s = slice_from(s.p + n, s.n - n);
        }
}

/* Appends a path; when it is below the directory in which the command started, relative to that directory. */
static void append_path(const struct refused *r, struct buf *out, struct slice path)
{
        struct slice cwd = r->place->cwd;
        if (cwd.n > 1 && path_is_within(path, cwd))
                path = path.n > cwd.n ? slice_from(path.p + cwd.n + 1, path.n - cwd.n - 1) : S(".");
        if (path.n > SHOWN_BYTES) {
                (void)!buf_append(out, S("..."));
                path = slice_from(path.p + (path.n - SHOWN_BYTES), SHOWN_BYTES);
        }
        append_text(out, path);
}

/* ---- finding the reason and the option ---- */

/* Is the path in the `.git` directory of a workspace, which --git would open? */
static bool is_in_git(const struct place *place, struct slice path)
{
        for (size_t i = 0; i < place->root_count; i++) {
                struct slice root = place->roots[i];
                size_t n = root.n == 1 ? 0 : root.n;
                if (path_is_within(path, root) && path.n > n &&
                    path_is_within(slice_from(path.p + n, path.n - n), S("/.git")))
                        return true;
        }
        return false;
}

/* Is the path in a repository that a workspace names in a file `.git`? Guessed: the path is in some `.git`, and the `.git` of a
 * workspace is a read-only file. */
static bool is_in_named_git(const struct refused *r, struct slice path)
{
        bool is_git = memmem(path.p, path.n, "/.git/", 6) != NULL;
        for (size_t i = 0; is_git && i < r->plan->op_count; i++) {
                const struct plan_op *op = &r->plan->ops[i];
                if (plan_kind_is_read_only(op->kind) && !op->is_directory && is_in_git(r->place, op->path))
                        return true;
        }
        return false;
}

/* Is the path in a directory that --workspace-write makes writable by itself? */
static bool is_in_workspace(const struct place *place, struct slice path)
{
        bool is_tmp = place->tmpdir.n > 0 && place->tmpdir.p[0] == '/' && path_is_within(path, place->tmpdir);
        return !path.p || is_tmp || path_is_within(path, S("/tmp")) || path_is_within(path, place->cwd);
}

static const char *read_only_text(const struct refused *r, struct slice path)
{
        if (r->has_profile)
                return "read-only; see --profile";
        if (!is_in_workspace(r->place, path))
                return "read-only; see --workspace-write DIR";
        return path.p && is_in_git(r->place, path) ? "read-only; see --workspace-write and --git"
                                                   : "read-only; see --workspace-write";
}

static const char *outside_text(const struct refused *r, struct slice path)
{
        if (r->has_profile)
                return "outside the writable directories; see --profile";
        return !r->has_git && is_in_named_git(r, path)
                       ? "outside the writable directories; see --git"
                       : "outside the writable directories; see --workspace-write DIR";
}

/* Returns the reason for a protected name. It names --git only where there is a repository that --git would open. */
static const char *protected_text(const struct refused *r, const struct plan_op *op)
{
        bool is_git = is_in_git(r->place, op->path) || strcmp(op->why, PLAN_WHY_PROTECTED) != 0;
        bool helps = r->is_workspace_write && !r->has_git && is_git && plan_kind_is_read_only(op->kind);
        return helps ? "protected; see --git" : "protected; see --profile";
}

static void append_entry(const struct refused *r, struct buf *out, const struct plan_op *op)
{
        bool is_denied = strcmp(op->why, PLAN_WHY_DENIED) == 0;
        if (!r->has_profile) {
                /* Without a profile only --git makes entries below a writable directory. */
                (void)!buf_append(out, S("read-only also with --git"));
                return;
        }
        (void)!buf_printf(out, "%s by the entry ", is_denied ? "denied" : "read-only");
        append_path(r, out, op->path);
        (void)!buf_append(out, S("; see --profile"));
}

static void append_reason(const struct refused *r, struct buf *out, const struct refusal *why,
                          struct slice path)
{
        const char *text = NULL;
        switch (why->reason) {
        case REFUSAL_READ_ONLY:
                text = read_only_text(r, path);
                break;
        case REFUSAL_OUTSIDE:
                text = outside_text(r, path);
                break;
        case REFUSAL_NO_ENTRY:
                text = "not in the profile; see --profile";
                break;
        case REFUSAL_ENTRY:
                append_entry(r, out, why->op);
                return;
        case REFUSAL_PROTECTED:
                text = protected_text(r, why->op);
                break;
        case REFUSAL_PATTERN:
                text = "matches a denied pattern; see --profile";
                break;
        case REFUSAL_OTHER:
                (void)!buf_printf(out, "%s: %s%s",
                                  plan_kind_is_read_only(why->op->kind) ? "read-only" : "closed",
                                  why->op->why, r->has_profile ? "; see --profile" : "");
                return;
        case REFUSAL_OWN:
                text = "the same in every sandbox";
                break;
        case REFUSAL_NETWORK:
                text = "the network is closed; see --network";
                break;
        }
        (void)!buf_append(out, slice_from_str(text));
}

/* ---- printing the lines ---- */

struct explained {
        struct refusal why;
        const struct denial *what;
};

static bool is_named(const struct denial *d)
{
        return d->path.p || d->address.p;
}

/* Can this refusal be left out? A refusal without a path says nothing when another of its kind has a path. */
static bool is_needless(const struct explained *all, size_t count, const struct explained *t)
{
        for (size_t i = 0; !is_named(t->what) && i < count; i++)
                if (is_named(all[i].what) && strcmp(all[i].why.operation, t->why.operation) == 0)
                        return true;
        return false;
}

static size_t collect(const struct refused *r, const struct denials *d,
                      struct explained ret[static DENIALS_MAX])
{
        struct explained all[DENIALS_MAX];
        size_t found = 0, kept = 0;
        for (size_t i = 0; i < d->count; i++) {
                struct explained t = { .what = &d->list[i] };
                if (refusal_find(r->plan, r->is_landlock, t.what, &t.why))
                        all[found++] = t;
        }
        for (size_t i = 0; i < found; i++)
                if (!is_needless(all, found, &all[i]))
                        ret[kept++] = all[i];
        return kept;
}

static void append_line(const struct refused *r, struct buf *out, const struct explained *t)
{
        (void)!buf_printf(out, "refused: %s ", t->why.operation);
        if (t->what->address.p)
                append_text(out, t->what->address);
        else if (t->what->path.p)
                append_path(r, out, t->what->path);
        (void)!buf_append(out, is_named(t->what) ? S(" (") : S("("));
        append_reason(r, out, &t->why, t->what->path);
        (void)!buf_append(out, S(")\n"));
}

static void append_all(const struct refused *r, struct buf *out, const struct denials *d)
{
        struct explained all[DENIALS_MAX];
        size_t count = collect(r, d, all), told = MIN(count, (size_t)LIMIT_REFUSED_LINES);
        if (r->is_by_filter)
                (void)!buf_append(out, S("refused: system call (not allowed in any sandbox)\n"));
        for (size_t i = 0; i < told; i++)
                append_line(r, out, &all[i]);
        if (told < count && d->has_more)
                (void)!buf_printf(out, "refused: and more than %zu others\n", count - told);
        else if (told < count)
                (void)!buf_printf(out, "refused: and %zu more\n", count - told);
}

void refused_write(const struct refused *r, bool is_open, struct buf *out)
{
        struct denials d;
        size_t before = out->n;
        denials_init(&d, !r->plan->has_network, r->place->cwd);
        denials_feed(&d, false, r->terminal);
        denials_feed(&d, true, r->err);
        denials_end(&d);
        if (is_open)
                (void)!buf_append_char(out, '\n');
        size_t begun = out->n;
        append_all(r, out, &d);
        if (out->n == begun)
                buf_truncate(out, before);
        denials_release(&d);
}
