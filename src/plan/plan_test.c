/* plan_test: which operations a plan has for a profile and a tree of files. Both are real; the plan is shown as text: one word per
 * operation, its path below the tree, and marks.
 *
 *     /  a directory      !  guarded      ?  may be missing
 */
#include "unit.h"

#include "base/tree_rig.h"
#include "plan/mount_table.h"
#include "plan/plan.h"
#include "policy/rules.h"

#include <errno.h>
#include <sys/wait.h>

#define ENTRIES_MAX 128

struct tree {
        struct tree_rig rig;
        struct profile_entry entries[ENTRIES_MAX];
        size_t count;
        struct slice denied[16]; /* matches of patterns */
        size_t denied_count;
        bool shows_names; /* also shows the operations for protected names */
        struct mount_table *mounts;
        struct plan plan;
        struct err err;
};

static void tree_release(struct tree *t)
{
        tree_rig_release(&t->rig);
        t->mounts = mount_table_unref(t->mounts);
}
#define _tree_ CLEANUP(tree_release)

static void add_path(struct tree *t, struct slice path, enum access access)
{
        ok(t->count < ENTRIES_MAX);
        t->entries[t->count++] =
                (struct profile_entry){ .kind = TARGET_PATH, .text = path, .access = access };
}

static void add_entry(struct tree *t, const char *name, enum access access)
{
        add_path(t, slice_from_str(at(&t->rig, name)), access);
}

static void add_match(struct tree *t, const char *name)
{
        t->denied[t->denied_count++] = slice_from_str(at(&t->rig, name));
}

/* Returns a tree whose rules make the machine read-only and the directory W writable. */
static struct tree workspace(void)
{
        struct tree t = { .rig = tree_rig_new() };
        put_directory(&t.rig, "W");
        add_path(&t, S("/"), ACCESS_READ);
        add_entry(&t, "W", ACCESS_WRITE);
        return t;
}

static void write_text(struct tree *t, const char *name, const char *text)
{
        _close_ int fd = open(at(&t->rig, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        ok(fd >= 0);
        eq_int(fd_write_all(fd, slice_from_str(text)), 0);
}

static void put_directories(struct tree *t, const char *const *names)
{
        for (; *names; names++)
                put_directory(&t->rig, *names);
}
#define MAKE(t, ...) put_directories(t, (const char *const[]){ __VA_ARGS__, NULL })

/* ---- what must hold for every plan ---- */

static bool is_bind(const struct plan_op *op)
{
        return op->kind == PLAN_READ || op->kind == PLAN_WRITE || op->kind == PLAN_PIN;
}

static void check_op(struct tree *t, const struct plan_op *op)
{
        struct stat st;
        char real[PATH_MAX];
        const char *path = arena_dup(&t->rig.arena, op->path);
        ok(op->path.n > 1 && path[0] == '/' && path[op->path.n - 1] != '/');
        ok(op->why != NULL);
        if (op->ino == 0) {
                ok(!is_bind(op)); /* every operation that mounts a file of the machine has its identity */
                return;
        }
        eq_int(lstat(path, &st), 0);
        eq_u64(st.st_dev, op->dev);
        eq_u64(st.st_ino, op->ino);
        eq_int(S_ISDIR(st.st_mode), op->is_directory);
        ok(realpath(path, real) != NULL);
        eq_str(real, path);
}

static void check_placeholder(struct tree *t, const struct plan_placeholder *placeholder)
{
        struct stat st;
        ok(placeholder->op < t->plan.op_count);
        const struct plan_op *op = &t->plan.ops[placeholder->op];
        eq_slice(op->path, placeholder->path);
        eq_int(op->is_directory, placeholder->is_directory);
        ok(op->kind == PLAN_HIDE || op->kind == PLAN_PREVENT);
        ok(op->is_guarded && op->ino == 0);
        char *path = arena_dup(&t->rig.arena, placeholder->path);
        ok(lstat(path, &st) < 0 || (st.st_mode & (S_ISVTX | 0222)) == S_ISVTX);
        char *slash = strrchr(path, '/');
        slash[slash == path] = 0;
        eq_int(lstat(path, &st), 0);
        eq_u64(st.st_dev, placeholder->dev);
        eq_u64(st.st_ino, placeholder->ino);
}

/* Checks that no operation hides the path of an earlier one. */
static void check_order(const struct plan *p)
{
        for (size_t i = 0; i < p->op_count; i++)
                for (size_t k = i + 1; k < p->op_count; k++)
                        if (p->ops[k].kind != PLAN_SEAL)
                                ok(!path_is_within(p->ops[i].path, p->ops[k].path) ||
                                   slice_eq(p->ops[i].path, p->ops[k].path));
}

static int resolve(struct tree *t, struct rules *ret)
{
        const struct profile profile = { .entries = t->entries, .count = t->count };
        const struct place place = { .cwd = S("/") };
        return rules_resolve(&t->rig.arena, &profile, &place, ret, &t->err);
}

static int make(struct tree *t)
{
        struct rules rules;
        t->err = ERR_INIT;
        eq_int(resolve(t, &rules), 0);
        const struct plan_input in = {
                .rules = &rules, .denied = t->denied, .denied_count = t->denied_count, .mounts = t->mounts
        };
        return plan_make(&t->rig.arena, &in, &t->plan, &t->err);
}

static const char *show_op(struct tree *t, const struct plan_op *op)
{
        static const char *const words[PLAN_KINDS] = {
                [PLAN_DIRECTORY] = "place", [PLAN_FILE] = "place", [PLAN_LINK] = "link", [PLAN_READ] = "read",
                [PLAN_WRITE] = "write",     [PLAN_PIN] = "pin",    [PLAN_HIDE] = "hide", [PLAN_OPEN] = "open",
                [PLAN_PREVENT] = "cover",   [PLAN_SEAL] = "seal",
        };
        size_t root = strlen(t->rig.root);
        bool is_in = path_is_within(op->path, slice_from_str(t->rig.root)) && op->path.n > root;
        return arena_printf(&t->rig.arena, "%s %s%s%s%s", words[op->kind],
                            arena_dup(&t->rig.arena, op->path) + (is_in ? root + 1 : 0),
                            op->is_directory ? "/" : "", op->is_guarded ? "!" : "",
                            op->may_be_missing ? "?" : "");
}

/* Returns all operations on paths in the tree, in their order. */
static const char *planned(struct tree *t)
{
        const char *text = "";
        if (make(t) < 0)
                fail_msg("%s", t->err.text);
        for (size_t i = 0; i < t->plan.op_count; i++) {
                const struct plan_op *op = &t->plan.ops[i];
                check_op(t, op);
                if ((!t->shows_names && strcmp(op->why, "protected") == 0) ||
                    !path_is_within(op->path, slice_from_str(t->rig.root)))
                        continue;
                text = arena_printf(&t->rig.arena, "%s%s%s", text, *text ? ", " : "", show_op(t, op));
        }
        for (size_t i = 0; i < t->plan.placeholder_count; i++)
                check_placeholder(t, &t->plan.placeholders[i]);
        check_order(&t->plan);
        return text;
}

static const struct plan_op *op_at(struct tree *t, enum plan_kind kind, const char *path)
{
        for (size_t i = 0; i < t->plan.op_count; i++)
                if (t->plan.ops[i].kind == kind && slice_eq(t->plan.ops[i].path, slice_from_str(path)))
                        return &t->plan.ops[i];
        return NULL;
}

static void refused(struct tree *t, int code, const char *text)
{
        eq_int(make(t), code);
        eq_str(t->err.text, text);
        eq_str(t->err.step, "plan");
        eq_int(t->err.code, code);
}

/* ---- roots ---- */

TEST(a_writable_root_is_one_mount_and_its_names_are_covered)
{
        _tree_ struct tree t = workspace();
        t.shows_names = true;
        eq_str(planned(&t), "write W/, cover W/.agents/!, cover W/.aws/!, cover W/.codex/!, cover W/.git/!");
        eq_int(t.plan.root, PLAN_ROOT_READ);
        ok(t.plan.has_view && !t.plan.has_network);
        eq_u64(t.plan.placeholder_count, 4);
}

TEST(without_limits_there_is_no_view)
{
        struct plan plan;
        struct err err = ERR_INIT;
        _arena_ struct arena a = ARENA_INIT;
        const struct rules rules = { .limits_files = false };
        eq_int(plan_make(&a, &(struct plan_input){ .rules = &rules, .has_network = true }, &plan, &err), 0);
        ok(!plan.has_view && plan.has_network);
        eq_u64(plan.op_count + plan.placeholder_count, 0);
}

TEST(what_is_readable_comes_into_an_empty_root)
{
        _tree_ struct tree t = { .rig = tree_rig_new() };
        MAKE(&t, "R", "R/below", "other");
        write_text(&t, "file", "");
        add_entry(&t, "R", ACCESS_READ);
        add_entry(&t, "R/below", ACCESS_READ); /* changes nothing */
        add_entry(&t, "file", ACCESS_READ);
        add_entry(&t, "none", ACCESS_READ);
        const char *wanted =
                arena_printf(&t.rig.arena, "place %s/, place R/, read R/, place file, read file", t.rig.root);
        eq_str(planned(&t), wanted);
        eq_int(t.plan.root, PLAN_ROOT_EMPTY);
        eq_u64(t.plan.placeholder_count, 0);
}

TEST(a_writable_root_in_an_empty_root_keeps_the_narrower_entries_inside)
{
        _tree_ struct tree t = { .rig = tree_rig_new() };
        MAKE(&t, "W", "W/ro", "W/no");
        add_entry(&t, "W", ACCESS_WRITE);
        add_entry(&t, "W/ro", ACCESS_READ);
        add_entry(&t, "W/no", ACCESS_DENY);
        eq_str(planned(&t) + strlen("place /") + strlen(t.rig.root),
               ", place W/, write W/, hide W/no/!, read W/ro/!");
}

TEST(a_file_can_be_a_root)
{
        _tree_ struct tree t = { .rig = tree_rig_new() };
        t.shows_names = true;
        write_text(&t, "file", "x");
        add_path(&t, S("/"), ACCESS_READ);
        add_entry(&t, "file", ACCESS_WRITE);
        eq_str(planned(&t), "write file");
        eq_u64(t.plan.placeholder_count, 0);
}

TEST(a_root_that_does_not_exist_is_skipped)
{
        _tree_ struct tree t = workspace();
        add_entry(&t, "none", ACCESS_WRITE);
        add_entry(&t, "W/none/deep", ACCESS_WRITE);
        eq_str(planned(&t), "write W/");
}

TEST(a_root_below_a_root_is_pinned_and_protected_itself)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "W/a", "W/a/sub", "W/a/sub/.git");
        add_entry(&t, "W/a/sub", ACCESS_WRITE);
        t.shows_names = true;
        eq_str(planned(&t), "write W/, cover W/.agents/!, cover W/.aws/!, cover W/.codex/!, cover W/.git/!, "
                            "pin W/a/, pin W/a/sub/, cover W/a/sub/.agents/!, cover W/a/sub/.aws/!, "
                            "cover W/a/sub/.codex/!, read W/a/sub/.git/!");
}

TEST(rights_alternate_on_the_way_down)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "W/r", "W/r/x", "W/r/x/w", "W/r/x/w/r");
        add_entry(&t, "W/r", ACCESS_READ);
        add_entry(&t, "W/r/x/w", ACCESS_WRITE);
        add_entry(&t, "W/r/x/w/r", ACCESS_READ);
        eq_str(planned(&t), "write W/, read W/r/!, write W/r/x/w/, read W/r/x/w/r/!");
}

TEST(the_order_of_entries_does_not_matter)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "W/a", "W/a/b", "W/a/b/c", "W-", "W-/x");
        add_entry(&t, "W/a/b", ACCESS_DENY);
        add_entry(&t, "W/a/b/c", ACCESS_READ);
        add_entry(&t, "W-", ACCESS_WRITE);
        add_entry(&t, "W-/x", ACCESS_READ);
        const char *text = planned(&t);
        for (size_t i = 0; i < t.count / 2; i++) {
                struct profile_entry one = t.entries[i];
                t.entries[i] = t.entries[t.count - 1 - i];
                t.entries[t.count - 1 - i] = one;
        }
        eq_str(planned(&t), text);
        eq_str(text,
               "write W/, pin W/a/, open W/a/b/!, place W/a/b/c/, read W/a/b/c/, write W-/, read W-/x/!, "
               "seal W/a/b");
}

TEST(where_everything_is_writable_the_way_to_a_mask_is_pinned_from_the_root)
{
        _tree_ struct tree t = { .rig = tree_rig_new() };
        MAKE(&t, "a", "a/no");
        add_path(&t, S("/"), ACCESS_WRITE);
        add_entry(&t, "a/no", ACCESS_DENY);
        eq_str(planned(&t), arena_printf(&t.rig.arena, "pin %s/, pin a/, hide a/no/!", t.rig.root));
        eq_int(t.plan.root, PLAN_ROOT_WRITE);
        char *above = arena_dup(&t.rig.arena, slice_from_str(t.rig.root));
        *strrchr(above, '/') = 0;
        ok(!*above || op_at(&t, PLAN_PIN, above) != NULL);
}

/* ---- masks and pins ---- */

TEST(every_directory_between_a_root_and_a_mask_is_pinned)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "W/a", "W/a/b", "W/a/b/c", "W/d", "W/d/ro");
        write_text(&t, "W/a/b/f", "");
        add_entry(&t, "W/a/b/c", ACCESS_DENY);
        add_entry(&t, "W/a/b/f", ACCESS_DENY);
        add_entry(&t, "W/d/ro", ACCESS_READ);
        eq_str(planned(&t), "write W/, pin W/a/, pin W/a/b/, hide W/a/b/c/!, hide W/a/b/f!, pin W/d/, "
                            "read W/d/ro/!");
}

TEST(masks_outside_of_roots_need_no_pins)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "a", "a/no");
        add_entry(&t, "a/no", ACCESS_DENY);
        eq_str(planned(&t), "write W/, hide a/no/!");
}

TEST(a_mask_in_a_mask_is_nothing_new)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "W/no", "W/no/more");
        add_entry(&t, "W/no", ACCESS_DENY);
        add_entry(&t, "W/no/more", ACCESS_DENY);
        add_entry(&t, "W/no/none", ACCESS_DENY);
        eq_str(planned(&t), "write W/, hide W/no/!");
        eq_u64(t.plan.placeholder_count, 4);
}

TEST(what_is_open_below_a_mask_gets_a_place_in_it)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "W/no", "W/no/x", "W/no/x/r", "W/no/x/w");
        write_text(&t, "W/no/x/f", "");
        add_entry(&t, "W/no", ACCESS_DENY);
        add_entry(&t, "W/no/x/r", ACCESS_READ);
        add_entry(&t, "W/no/x/w", ACCESS_WRITE);
        add_entry(&t, "W/no/x/f", ACCESS_READ);
        eq_str(planned(&t), "write W/, open W/no/!, place W/no/x/, place W/no/x/f, read W/no/x/f, "
                            "place W/no/x/r/, read W/no/x/r/, place W/no/x/w/, write W/no/x/w/, seal W/no");
}

TEST(a_mask_inside_an_opening_is_laid_on_top_of_it)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "W/no", "W/no/r", "W/no/r/no", "W/no/r/no/r");
        add_entry(&t, "W/no", ACCESS_DENY);
        add_entry(&t, "W/no/r", ACCESS_READ);
        add_entry(&t, "W/no/r/no", ACCESS_DENY);
        add_entry(&t, "W/no/r/no/r", ACCESS_READ);
        eq_str(planned(&t), "write W/, open W/no/!, place W/no/r/, read W/no/r/, open W/no/r/no/!, "
                            "place W/no/r/no/r/, read W/no/r/no/r/, seal W/no, seal W/no/r/no");
}

TEST(a_mask_over_nothing_but_what_is_missing_is_closed)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "W/no");
        add_entry(&t, "W/no", ACCESS_DENY);
        add_entry(&t, "W/no/none", ACCESS_READ);
        eq_str(planned(&t), "write W/, hide W/no/!");
}

TEST(a_denied_root_above_a_writable_one_lets_through)
{
        _tree_ struct tree t = { .rig = tree_rig_new() };
        MAKE(&t, "no", "no/W");
        add_path(&t, S("/"), ACCESS_READ);
        add_entry(&t, "no", ACCESS_DENY);
        add_entry(&t, "no/W", ACCESS_WRITE);
        eq_str(planned(&t), "open no/!, place no/W/, write no/W/, seal no");
}

/* ---- paths that must not be created ---- */

TEST(what_is_missing_in_a_root_is_kept_from_being_made)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "W/a");
        add_entry(&t, "W/a/no/deep", ACCESS_DENY);
        add_entry(&t, "W/a/ro", ACCESS_READ);
        add_entry(&t, "elsewhere", ACCESS_DENY); /* cannot be made anyway */
        eq_str(planned(&t), "write W/, pin W/a/, hide W/a/no!, cover W/a/ro!");
        eq_u64(t.plan.placeholder_count, 6);
}

TEST(two_entries_that_miss_the_same_name_share_a_placeholder)
{
        _tree_ struct tree t = workspace();
        add_entry(&t, "W/x/one", ACCESS_DENY);
        add_entry(&t, "W/x/two", ACCESS_READ);
        add_entry(&t, "W/x/three/four", ACCESS_DENY);
        const char *text = planned(&t);
        ok(strstr(text, "W/x!") != NULL);
        ok(strstr(strstr(text, "W/x!") + 1, "W/x") == NULL);
        eq_u64(t.plan.placeholder_count, 5);
}

TEST(a_missing_protected_name_is_a_directory_and_another_a_file)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "W/sub");
        add_entry(&t, "W/sub/.git", ACCESS_READ);
        add_entry(&t, "W/sub/.env", ACCESS_READ);
        add_entry(&t, "W/sub/.codex/rules", ACCESS_READ); /* a mask at .codex keeps it from being made */
        eq_str(planned(&t),
               "write W/, pin W/sub/, cover W/sub/.codex!, cover W/sub/.env!, cover W/sub/.git/!");
}

TEST(a_placeholder_of_another_command_is_used_and_not_shown)
{
        _tree_ struct tree t = workspace();
        t.shows_names = true;
        put_directory(&t.rig, "W/.git");
        eq_int(chmod(at(&t.rig, "W/.git"), S_ISVTX | 0555), 0);
        eq_str(planned(&t), "write W/, cover W/.agents/!, cover W/.aws/!, cover W/.codex/!, cover W/.git/!");
        eq_u64(t.plan.placeholder_count, 4);
}

TEST(too_many_missing_names_are_refused)
{
        _tree_ struct tree t = workspace();
        for (int i = 0; i < PLAN_PLACEHOLDERS_MAX - 4; i++)
                add_entry(&t, arena_printf(&t.rig.arena, "W/n%d", i), ACCESS_DENY);
        eq_int(make(&t), 0);
        eq_u64(t.plan.placeholder_count, PLAN_PLACEHOLDERS_MAX);
        add_entry(&t, "W/one-more", ACCESS_DENY);
        refused(&t, -E2BIG, "the profile forbids the creation of more than 64 paths");
}

/* ---- protected names ---- */

TEST(protected_names_that_exist_are_read_only)
{
        _tree_ struct tree t = workspace();
        t.shows_names = true;
        MAKE(&t, "W/.git", "W/.agents", "W/.aws");
        write_text(&t, "W/.codex", "x");
        eq_str(planned(&t), "write W/, read W/.agents/!, read W/.aws/!, read W/.codex!, read W/.git/!");
        eq_u64(t.plan.placeholder_count, 0);
}

TEST(nested_directories_have_no_protected_names)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "W/sub", "W/sub/.git");
        eq_str(planned(&t), "write W/");
}

TEST(a_callers_entry_at_a_protected_name_is_not_narrowed)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "W/.git", "W/.git/hooks", "W/.codex");
        add_entry(&t, "W/.git", ACCESS_WRITE);
        add_entry(&t, "W/.git/hooks", ACCESS_READ);
        add_entry(&t, "W/.codex", ACCESS_DENY);
        eq_str(planned(&t), "write W/, hide W/.codex/!, pin W/.git/, read W/.git/hooks/!");
        eq_u64(t.plan.placeholder_count, 2); /* .agents and .aws; nothing inside of .git */
}

TEST(an_entry_below_a_protected_name_opens_exactly_that)
{
        _tree_ struct tree t = workspace();
        t.shows_names = true;
        MAKE(&t, "W/.git", "W/.git/objects", "W/.agents", "W/.aws", "W/.codex");
        add_entry(&t, "W/.git/objects", ACCESS_WRITE);
        eq_str(planned(&t), "write W/, read W/.agents/!, read W/.aws/!, read W/.codex/!, read W/.git/!, "
                            "write W/.git/objects/");
}

TEST(a_protected_name_that_is_a_link_in_a_root_is_refused)
{
        _tree_ struct tree t = workspace();
        put_directory(&t.rig, "elsewhere");
        put_link(&t.rig, "../elsewhere", "W/.git");
        const char *link = at(&t.rig, "W/.git");
        refused(&t, -EINVAL,
                arena_printf(
                        &t.rig.arena,
                        "cannot enforce sandbox read-only path %s because it crosses writable symlink %s",
                        link, link));
        ok(t.err.remedy != NULL);
}

/* ---- repositories that .git points at ---- */

/* Returns a tree with a root V beside W; V holds a repository that no name protects. */
static struct tree two_roots(void)
{
        struct tree t = workspace();
        MAKE(&t, "V", "V/store", "V/store/repo", "V/store/repo/worktrees", "V/store/repo/worktrees/w");
        add_entry(&t, "V", ACCESS_WRITE);
        return t;
}

TEST(what_a_git_file_names_is_protected_too)
{
        _tree_ struct tree t = two_roots();
        write_text(&t, "W/.git", "gitdir: ../V/store/repo\n");
        eq_str(planned(&t), "write V/, pin V/store/, read V/store/repo/!, write W/");
        ok(op_at(&t, PLAN_READ, at(&t.rig, "W/.git")) != NULL);
}

TEST(an_absolute_gitdir_is_protected_in_its_own_root)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "W/modules", "W/modules/m");
        write_text(&t, "W/.git", arena_printf(&t.rig.arena, "gitdir: %s/W/./modules//m/\n", t.rig.root));
        eq_str(planned(&t), "write W/, pin W/modules/, read W/modules/m/!");
}

TEST(the_common_directory_of_a_worktree_is_protected)
{
        _tree_ struct tree t = two_roots();
        write_text(&t, "W/.git", "gitdir: ../V/store/repo/worktrees/w\n");
        write_text(&t, "V/store/repo/worktrees/w/commondir", "../..\n");
        eq_str(planned(&t), "write V/, pin V/store/, read V/store/repo/!, write W/");
}

TEST(a_worktree_with_a_common_directory_elsewhere_keeps_both)
{
        _tree_ struct tree t = two_roots();
        MAKE(&t, "V/common");
        write_text(&t, "W/.git", "gitdir: ../V/store/repo/worktrees/w\n");
        write_text(&t, "V/store/repo/worktrees/w/commondir",
                   arena_printf(&t.rig.arena, "%s/V/common", t.rig.root));
        eq_str(planned(&t),
               "write V/, read V/common/!, pin V/store/, pin V/store/repo/, pin V/store/repo/worktrees/, "
               "read V/store/repo/worktrees/w/!, write W/");
}

TEST(a_gitdir_that_is_missing_must_not_come_into_being)
{
        _tree_ struct tree t = two_roots();
        write_text(&t, "W/.git", "gitdir: ../V/store/other\n");
        eq_str(planned(&t), "write V/, pin V/store/, cover V/store/other/!, write W/");
        write_text(&t, "W/.git", "gitdir: ../V/store/not/there\n");
        eq_str(planned(&t), "write V/, pin V/store/, cover V/store/not!, write W/");
}

TEST(a_gitdir_that_cannot_be_written_needs_nothing)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "elsewhere");
        write_text(&t, "W/.git", "gitdir: ../elsewhere\n");
        eq_str(planned(&t), "write W/");
}

TEST(a_git_file_that_names_nothing_protects_itself_only)
{
        static const char *const texts[] = { "", "gitdir:\n", "gitdir: \n", "../V/store/repo\n",
                                             "# gitdir: x" };
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                _tree_ struct tree t = two_roots();
                write_text(&t, "W/.git", texts[i]);
                eq_str(planned(&t), "write V/, write W/");
                ok(op_at(&t, PLAN_READ, at(&t.rig, "W/.git")) != NULL);
        }
}

TEST(a_gitdir_that_the_caller_opened_stays_open)
{
        _tree_ struct tree t = two_roots();
        add_entry(&t, "V/store/repo", ACCESS_WRITE);
        write_text(&t, "W/.git", "gitdir: ../V/store/repo\n");
        eq_str(planned(&t), "write V/, pin V/store/, pin V/store/repo/, write W/");
}

/* ---- links ---- */

TEST(a_root_through_a_link_is_where_it_leads)
{
        _tree_ struct tree t = { .rig = tree_rig_new() };
        MAKE(&t, "real", "real/ro");
        put_link(&t.rig, "real", "link");
        add_path(&t, S("/"), ACCESS_READ);
        add_entry(&t, "link", ACCESS_WRITE);
        add_entry(&t, "link/ro", ACCESS_READ);
        eq_str(planned(&t), "write real/, read real/ro/!");
}

TEST(a_root_through_a_link_that_a_command_can_move_gives_nothing)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "precious", "precious/sub");
        put_link(&t.rig, "../precious", "W/link");
        add_entry(&t, "W/link", ACCESS_WRITE);
        add_entry(&t, "W/link/sub", ACCESS_WRITE);
        eq_str(planned(&t), "write W/");
}

TEST(a_mask_through_a_link_that_a_command_can_move_is_refused)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "secret");
        put_link(&t.rig, "../secret", "W/link");
        add_entry(&t, "W/link/x", ACCESS_DENY);
        refused(&t, -EINVAL,
                arena_printf(
                        &t.rig.arena,
                        "cannot enforce sandbox deny-read path %s because it crosses writable symlink %s",
                        at(&t.rig, "W/link/x"), at(&t.rig, "W/link")));
        t.entries[t.count - 1].access = ACCESS_READ;
        refused(&t, -EINVAL,
                arena_printf(
                        &t.rig.arena,
                        "cannot enforce sandbox read-only path %s because it crosses writable symlink %s",
                        at(&t.rig, "W/link/x"), at(&t.rig, "W/link")));
}

TEST(a_mask_on_a_link_that_nobody_can_move_hides_what_it_names)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "secret");
        put_link(&t.rig, "secret", "link");
        add_entry(&t, "link", ACCESS_DENY);
        eq_str(planned(&t), "write W/, hide secret/!");
}

TEST(two_names_of_one_place_take_the_stronger_word)
{
        _tree_ struct tree t = { .rig = tree_rig_new() };
        MAKE(&t, "real");
        put_link(&t.rig, "real", "link");
        add_path(&t, S("/"), ACCESS_READ);
        add_entry(&t, "real", ACCESS_WRITE);
        add_entry(&t, "link", ACCESS_DENY);
        eq_str(planned(&t), "hide real/!");
}

TEST(links_to_what_is_open_are_made_where_they_would_be_missing)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "no", "no/real", "no/real/r");
        put_link(&t.rig, "real/r", "no/link");
        add_entry(&t, "no", ACCESS_DENY);
        add_entry(&t, "no/link", ACCESS_READ);
        eq_str(planned(&t), "write W/, open no/!, link no/link, place no/real/, place no/real/r/, "
                            "read no/real/r/, seal no");
        eq_slice(op_at(&t, PLAN_LINK, at(&t.rig, "no/link"))->text, S("real/r"));
}

TEST(links_are_made_in_an_empty_root_with_the_way_to_them)
{
        _tree_ struct tree t = { .rig = tree_rig_new() };
        MAKE(&t, "a", "real");
        put_link(&t.rig, "../real", "a/link");
        add_entry(&t, "a/link", ACCESS_READ);
        eq_str(planned(&t) + strlen("place /") + strlen(t.rig.root),
               ", place a/, link a/link, place real/, read real/");
}

/* ---- patterns ---- */

TEST(matches_of_patterns_are_hidden_wherever_they_are)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "W/a", "W/a/keys", "W/.git");
        write_text(&t, "W/a/x.pem", "");
        write_text(&t, "W/.git/y.pem", "");
        write_text(&t, "z.pem", "");
        add_match(&t, "W/a/keys");
        add_match(&t, "W/a/x.pem");
        add_match(&t, "W/.git/y.pem");
        add_match(&t, "z.pem");
        eq_str(planned(&t), "write W/, hide W/.git/y.pem!, pin W/a/, hide W/a/keys/!, hide W/a/x.pem!, "
                            "hide z.pem!");
}

TEST(a_match_beats_a_grant_and_goes_where_it_is_denied_already)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "W/keys", "W/no", "W/no/keys");
        add_entry(&t, "W/keys", ACCESS_WRITE);
        add_entry(&t, "W/no", ACCESS_DENY);
        add_match(&t, "W/keys");
        add_match(&t, "W/no/keys");
        eq_str(planned(&t), "write W/, hide W/keys/!, hide W/no/!");
}

TEST(a_match_that_is_a_link_in_a_root_is_refused)
{
        _tree_ struct tree t = workspace();
        write_text(&t, "secret", "");
        put_link(&t.rig, "../secret", "W/x.pem");
        add_match(&t, "W/x.pem");
        const char *link = at(&t.rig, "W/x.pem");
        refused(&t, -EINVAL,
                arena_printf(
                        &t.rig.arena,
                        "cannot enforce sandbox deny-read path %s because it crosses writable symlink %s",
                        link, link));
}

TEST(a_match_that_is_a_link_elsewhere_hides_what_it_names)
{
        _tree_ struct tree t = workspace();
        write_text(&t, "secret", "");
        put_link(&t.rig, "secret", "x.pem");
        add_match(&t, "x.pem");
        eq_str(planned(&t), "write W/, hide secret!");
}

TEST(a_match_that_has_gone_meanwhile_is_kept_from_coming_back)
{
        _tree_ struct tree t = workspace();
        add_match(&t, "W/x.pem");
        add_match(&t, "x.pem");
        eq_str(planned(&t), "write W/, hide W/x.pem!");
}

/* ---- /dev and /proc, which are made anew ---- */

TEST(masks_in_proc_and_dev_may_miss_what_they_cover)
{
        _tree_ struct tree t = workspace();
        add_path(&t, S("/proc/cpuinfo"), ACCESS_DENY);
        add_path(&t, S("/dev/null"), ACCESS_DENY);
        ok(planned(&t) != NULL);
        const struct plan_op *proc = op_at(&t, PLAN_HIDE, "/proc/cpuinfo");
        const struct plan_op *dev = op_at(&t, PLAN_HIDE, "/dev/null");
        ok(proc && proc->may_be_missing && !proc->is_guarded && proc->ino == 0);
        ok(dev && dev->may_be_missing && !dev->is_guarded && dev->ino == 0);
}

TEST(shared_memory_of_the_machine_comes_only_when_it_is_named)
{
        struct stat st;
        if (stat("/dev/shm", &st) < 0) {
                print_message("skipped: no /dev/shm here\n");
                skip();
        }
        _tree_ struct tree t = workspace();
        ok(planned(&t) != NULL);
        for (size_t i = 0; i < t.plan.op_count; i++)
                ok(!path_is_within(t.plan.ops[i].path, S("/dev")));
        add_path(&t, S("/dev/shm"), ACCESS_WRITE);
        ok(planned(&t) != NULL);
        ok(op_at(&t, PLAN_WRITE, "/dev/shm") != NULL);
}

TEST(proc_and_dev_as_a_whole_are_ours_whatever_is_granted)
{
        _tree_ struct tree t = workspace();
        add_path(&t, S("/proc"), ACCESS_WRITE);
        add_path(&t, S("/proc/self"), ACCESS_WRITE);
        add_path(&t, S("/dev"), ACCESS_WRITE);
        eq_str(planned(&t), "write W/");
        for (size_t i = 0; i < t.plan.op_count; i++)
                ok(!path_is_within(t.plan.ops[i].path, S("/proc")) &&
                   !path_is_within(t.plan.ops[i].path, S("/dev")));
}

/* ---- paths that the server may not examine ---- */

/* Makes the plan as a user who is not root, so every user must be able to read the tree. */
static int make_as_nobody(struct tree *t)
{
        eq_int(chmod(t->rig.root, 0755), 0);
        eq_int(chmod(at(&t->rig, "closed"), 0), 0);
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
                        _exit(99);
                struct rules rules;
                int r = resolve(t, &rules);
                if (r == 0)
                        r = plan_make(&t->rig.arena, &(struct plan_input){ .rules = &rules }, &t->plan,
                                      &t->err);
                bool is_worded = r == 0 || (strstr(t->err.text, "cannot enforce sandbox path ") &&
                                            t->err.os_errno == EACCES && t->err.remedy);
                _exit(!is_worded ? 98 : r == 0 ? 0 : 1);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(chmod(at(&t->rig, "closed"), 0755), 0);
        ok(WIFEXITED(status));
        return WEXITSTATUS(status);
}

TEST(what_cannot_be_looked_at_is_refused_where_it_narrows_and_skipped_where_it_grants)
{
        static const int wanted[] = { [ACCESS_DENY] = 1, [ACCESS_READ] = 0, [ACCESS_WRITE] = 0 };
        for (enum access access = ACCESS_DENY; access <= ACCESS_WRITE; access++) {
                _tree_ struct tree t = workspace();
                MAKE(&t, "closed", "closed/x");
                add_entry(&t, "closed/x", access);
                eq_int(make_as_nobody(&t), wanted[access]);
        }
}

TEST(a_narrower_entry_in_a_writable_root_that_cannot_be_looked_at_is_refused)
{
        _tree_ struct tree t = { .rig = tree_rig_new() };
        MAKE(&t, "closed", "closed/x");
        add_path(&t, S("/"), ACCESS_READ);
        add_path(&t, slice_from_str(t.rig.root), ACCESS_WRITE);
        add_entry(&t, "closed/x", ACCESS_READ);
        eq_int(make_as_nobody(&t), 1);
}

/* ---- the text for people ---- */

TEST(a_plan_is_explained_line_by_line)
{
        _tree_ struct tree t = workspace();
        MAKE(&t, "W/a", "W/a/no", "W/.git", "W/.agents", "W/.aws");
        add_entry(&t, "W/a/no", ACCESS_DENY);
        eq_int(make(&t), 0);
        struct buf out;
        buf_init(&out, 65536);
        eq_int(plan_explain(&t.plan, &out), 0);
        const char *W = at(&t.rig, "W");
        const char *wanted = arena_printf(&t.rig.arena,
                                          "network    its own, loopback only\n"
                                          "start with the machine, read-only\n"
                                          "make       %s/.codex (while the command runs)\n"
                                          "writable   %s/ (writable)\n"
                                          "read-only  %s/.agents/ (protected)\n"
                                          "read-only  %s/.aws/ (protected)\n"
                                          "cover      %s/.codex/ (protected)\n"
                                          "read-only  %s/.git/ (protected)\n"
                                          "pin        %s/a/ (pinned)\n"
                                          "hide       %s/a/no/ (denied)\n",
                                          W, W, W, W, W, W, W, W);
        eq_str(arena_dup(&t.rig.arena, buf_slice(&out)), wanted);
        buf_release(&out);
}

TEST(what_is_named_below_a_file_needs_no_placeholder)
{
        _tree_ struct tree t = workspace();
        write_text(&t, "W/f", "");
        add_entry(&t, "W/f/x", ACCESS_DENY);
        eq_str(planned(&t), "write W/, pin W/f!");
}

TEST(the_common_directory_is_found_from_where_the_gitdir_really_is)
{
        _tree_ struct tree t = two_roots();
        put_link(&t.rig, "V/store/repo/worktrees/w", "wt");
        write_text(&t, "W/.git", "gitdir: ../wt\n");
        write_text(&t, "V/store/repo/worktrees/w/commondir", "../..\n");
        eq_str(planned(&t), "write V/, pin V/store/, read V/store/repo/!, write W/");
}
