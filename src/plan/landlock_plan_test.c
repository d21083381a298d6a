/* landlock_plan_test: which plans Landlock alone can enforce, and what becomes of them. */
#include "unit.h"

#include "plan/landlock_plan.h"

#include <errno.h>

/* Makes the plan for Landlock alone in `ret`; returns 0 or -errno. */
static int flatten(struct arena *a, enum plan_root root, struct plan_op *ops, size_t count, struct plan *ret,
                   struct err *err)
{
        struct plan from = { .has_view = true, .root = root, .ops = ops, .op_count = count };
        return landlock_plan(a, &from, true, ret, err);
}

static const struct plan_op *find(const struct plan *p, const char *path)
{
        for (size_t i = 0; i < p->op_count; i++)
                if (slice_eq(p->ops[i].path, slice_from_str(path)))
                        return &p->ops[i];
        return NULL;
}

/* Checks that the plan is refused with the step and with this path in the text. */
static void refuses(enum plan_root root, struct plan_op op, const char *path)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct plan plan;
        eq_int(flatten(&a, root, &op, 1, &plan, &err), -EOPNOTSUPP);
        eq_str(err.step, "landlock");
        eq_int(err.os_errno, EOPNOTSUPP);
        ok(strncmp(err.text,
                   "sandbox intent cannot be enforced on this executor: Landlock alone cannot keep ",
                   79) == 0);
        ok(strstr(err.text, path) != NULL);
}

TEST(a_readable_machine_becomes_its_top_without_devices)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct plan plan;
        eq_int(flatten(&a, PLAN_ROOT_READ, NULL, 0, &plan, &err), 0);
        const struct plan_op *usr = find(&plan, "/usr");
        ok(usr && usr->kind == PLAN_READ && usr->is_directory && usr->may_be_missing);
        ok(find(&plan, "/proc") && !find(&plan, "/dev"));
        for (size_t i = 0; i < plan.op_count; i++)
                ok(plan.ops[i].kind == PLAN_READ && plan.ops[i].path.p[0] == '/');
}

TEST(places_are_kept_and_what_leads_to_them_is_not_needed)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct plan plan;
        struct plan_op ops[] = {
                { .kind = PLAN_DIRECTORY, .path = S("/a"), .is_directory = true },
                { .kind = PLAN_READ, .path = S("/a/b"), .is_directory = true, .dev = 1, .ino = 2 },
                { .kind = PLAN_LINK, .path = S("/l"), .text = S("a") },
                { .kind = PLAN_FILE, .path = S("/a/f") },
                { .kind = PLAN_WRITE, .path = S("/a/f"), .dev = 1, .ino = 3 },
        };
        eq_int(flatten(&a, PLAN_ROOT_EMPTY, ops, ARRAY_LEN(ops), &plan, &err), 0);
        ok(!find(&plan, "/a") && !find(&plan, "/l") && !find(&plan, "/usr") && !find(&plan, "/proc"));
        ok(find(&plan, "/a/b")->kind == PLAN_READ && find(&plan, "/a/b")->ino == 2);
        ok(find(&plan, "/a/f")->kind == PLAN_WRITE && find(&plan, "/a/f")->ino == 3);
}

TEST(what_is_narrower_inside_of_something_wider_is_refused)
{
        refuses(PLAN_ROOT_READ, (struct plan_op){ .kind = PLAN_HIDE, .path = S("/x/secret") }, "/x/secret");
        refuses(PLAN_ROOT_READ, (struct plan_op){ .kind = PLAN_OPEN, .path = S("/x/open") }, "/x/open");
        refuses(PLAN_ROOT_READ, (struct plan_op){ .kind = PLAN_PREVENT, .path = S("/w/.git") }, "/w/.git");
        refuses(PLAN_ROOT_READ, (struct plan_op){ .kind = PLAN_PIN, .path = S("/w/p") }, "/w/p");
        refuses(PLAN_ROOT_EMPTY,
                (struct plan_op){ .kind = PLAN_READ, .is_guarded = true, .path = S("/w/ro") }, "/w/ro");
}

TEST(a_writable_machine_is_refused_for_its_settings)
{
        refuses(PLAN_ROOT_WRITE, (struct plan_op){ .kind = PLAN_WRITE, .path = S("/w") }, "/proc/sys");
}

TEST(devices_of_the_machine_are_refused_by_name)
{
        refuses(PLAN_ROOT_READ, (struct plan_op){ .kind = PLAN_WRITE, .path = S("/dev/shm") }, "/dev/shm");
        refuses(PLAN_ROOT_EMPTY, (struct plan_op){ .kind = PLAN_READ, .path = S("/dev/snd") }, "/dev/snd");
}

TEST(what_must_not_come_into_being_is_refused)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct plan_placeholder placeholder = { .path = S("/w/.git") };
        struct plan ret, from = {
                .has_view = true, .root = PLAN_ROOT_READ, .placeholders = &placeholder, .placeholder_count = 1
        };
        eq_int(landlock_plan(&a, &from, true, &ret, &err), -EOPNOTSUPP);
        ok(strstr(err.text, "/w/.git from coming into being") != NULL);
}

TEST(without_a_view_there_is_nothing_to_flatten)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct plan ret, from = { .has_network = false };
        eq_int(landlock_plan(&a, &from, true, &ret, &err), 0);
        ok(!ret.has_view && ret.op_count == 0);
}

TEST(processes_of_ours_do_not_find_themselves)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct plan ret, from = { .has_view = true, .root = PLAN_ROOT_READ };
        eq_int(landlock_plan(&a, &from, false, &ret, &err), 0);
        ok(find(&ret, "/usr") && find(&ret, "/proc/meminfo") && !find(&ret, "/proc"));
        from.root = PLAN_ROOT_EMPTY;
        eq_int(landlock_plan(&a, &from, false, &ret, &err), 0);
        ok(!find(&ret, "/usr") && find(&ret, "/proc/meminfo") && !find(&ret, "/proc"));
}
