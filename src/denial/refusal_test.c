/* refusal_test: the rule that refuses an access is found, on plans as plan.c makes them. Plans of real profiles are tested in
 * tests/integration/test_cmd_sandbox_refused.py. */
#include "unit.h"

#include "denial/refusal.h"

#define OP(kind_, path_, why_, ...)                                                           \
        {                                                                                     \
                .kind = kind_, .path = { path_, sizeof(path_) - 1 }, .why = why_, __VA_ARGS__ \
        }

/* The machine is read-only and /w is writable, with narrower paths in it. */
static struct plan_op workspace_ops[] = {
        OP(PLAN_WRITE, "/w", "writable"),
        OP(PLAN_PREVENT, "/w/.aws", PLAN_WHY_PROTECTED, .is_guarded = true),
        OP(PLAN_READ, "/w/.git", PLAN_WHY_PROTECTED, .is_guarded = true),
        OP(PLAN_READ, "/w/common", PLAN_WHY_COMMON, .is_guarded = true),
        OP(PLAN_HIDE, "/w/k.pem", PLAN_WHY_MATCH),
        OP(PLAN_OPEN, "/w/open", PLAN_WHY_DENIED),
        OP(PLAN_DIRECTORY, "/w/open/way", "leads to what is open"),
        OP(PLAN_READ, "/w/open/way/in", PLAN_WHY_READABLE),
        OP(PLAN_PIN, "/w/pin", "pinned"),
        OP(PLAN_READ, "/w/pin/fixed", PLAN_WHY_READABLE, .is_guarded = true),
        OP(PLAN_READ, "/w/pointed", PLAN_WHY_POINTED, .is_guarded = true),
        OP(PLAN_HIDE, "/w/secret", PLAN_WHY_DENIED),
        OP(PLAN_SEAL, "/w/open", "complete"),
};
static const struct plan workspace = {
        .has_view = true, .root = PLAN_ROOT_READ, .ops = workspace_ops, .op_count = ARRAY_LEN(workspace_ops)
};

static struct plan_op narrow_ops[] = {
        OP(PLAN_READ, "/usr", "needed to run programs"),
        OP(PLAN_READ, "/srv/data", PLAN_WHY_READABLE),
        OP(PLAN_WRITE, "/w", "writable"),
};
static const struct plan narrow = {
        .has_view = true, .root = PLAN_ROOT_EMPTY, .ops = narrow_ops, .op_count = ARRAY_LEN(narrow_ops)
};

/* With Landlock alone, each name in the root directory has an operation. */
static struct plan_op alone_ops[] = {
        OP(PLAN_READ, "/etc", PLAN_WHY_READABLE, .may_be_missing = true),
        OP(PLAN_READ, "/w", PLAN_WHY_READABLE, .may_be_missing = true),
};
static const struct plan alone = {
        .has_view = true, .root = PLAN_ROOT_READ, .ops = alone_ops, .op_count = ARRAY_LEN(alone_ops)
};

static const struct plan read_only = { .has_view = true, .root = PLAN_ROOT_READ };
static const struct plan everything = { .has_view = true, .root = PLAN_ROOT_WRITE };
static const struct plan offline = { .has_view = false };

static const char *const reasons[] = { "read-only", "outside", "no entry", "entry",  "protected",
                                       "pattern",   "other",   "own",      "network" };

/* Returns "OPERATION REASON OP", or "-" when no refusal is found. */
static const char *asked(const struct plan *p, bool is_landlock, const struct denial *d)
{
        static char text[128];
        struct refusal r;
        if (!refusal_find(p, is_landlock, d, &r))
                return "-";
        (void)snprintf(text, sizeof(text), "%s %s%s%.*s", r.operation, reasons[r.reason], r.op ? " " : "",
                       r.op ? (int)r.op->path.n : 0, r.op ? r.op->path.p : "");
        return text;
}

static void refuses(const struct plan *p, const char *operation, const char *path, const char *expected)
{
        struct denial d = { .operation = operation, .path = slice_from_str(path) };
        eq_str(asked(p, false, &d), expected);
}

TEST(each_rule_of_a_workspace_is_named)
{
        refuses(&workspace, "write", "/etc/x", "write outside");
        refuses(&workspace, "write", "/wx", "write outside");
        refuses(&workspace, "write", "/w/x", "-");
        refuses(&workspace, "write", "/w/pin/x", "-");
        refuses(&workspace, "write", "/w/.git/index.lock", "write protected /w/.git");
        refuses(&workspace, "write", "/w/.gitx", "-");
        refuses(&workspace, "write", "/w/.aws/x", "write protected /w/.aws");
        refuses(&workspace, "write", "/w/pointed/x", "write protected /w/pointed");
        refuses(&workspace, "write", "/w/common/x", "write protected /w/common");
        refuses(&workspace, "write", "/w/pin/fixed", "write entry /w/pin/fixed");
        refuses(&workspace, "write", "/w/secret", "write entry /w/secret");
        refuses(&workspace, "unknown", "/w/secret", "read entry /w/secret");
        refuses(&workspace, "unknown", "/w/secret/below", "read entry /w/secret");
        refuses(&workspace, "unknown", "/w/k.pem", "read pattern /w/k.pem");
        refuses(&workspace, "unknown", "/w/open", "read entry /w/open");
        refuses(&workspace, "unknown", "/w/open/way", "read entry /w/open");
        refuses(&workspace, "write", "/w/open/way/in/x", "write outside");
}

TEST(what_the_plan_allows_was_refused_by_somebody_else)
{
        refuses(&workspace, "unknown", "/etc/shadow", "-");
        refuses(&workspace, "unknown", "/w/x", "-");
        refuses(&workspace, "unknown", "/w/.git/x", "-");
        refuses(&workspace, "unknown", "/w/open/way/in", "-");
        refuses(&everything, "write", "/x", "-");
        refuses(&everything, "unknown", "/x", "-");
        refuses(&offline, "write", "/x", "-");
}

TEST(what_is_not_granted_is_named_as_such)
{
        refuses(&narrow, "write", "/x", "write no entry");
        refuses(&narrow, "write", "/usr/x", "write other /usr");
        refuses(&narrow, "write", "/srv/data/x", "write entry /srv/data");
        refuses(&narrow, "unknown", "/x", "-"); /* the kernel says that /x does not exist */
}

TEST(a_plan_that_writes_nothing_needs_no_path)
{
        refuses(&read_only, "write", "/x", "write read-only");
        refuses(&read_only, "write", NULL, "write read-only");
        refuses(&read_only, "unknown", NULL, "-");
        refuses(&workspace, "write", NULL, "-");
        refuses(&everything, "write", NULL, "-");
}

TEST(devices_and_processes_are_the_sandboxs_own)
{
        refuses(&read_only, "write", "/dev/x", "write own");
        refuses(&everything, "write", "/proc/sys/x", "write own");
        refuses(&narrow, "write", "/dev/x", "write own");
        refuses(&everything, "unknown", "/proc/1/environ", "-");
        refuses(&read_only, "write", "/devices/x", "write read-only");
}

TEST(a_network_is_closed_or_it_is_not)
{
        struct plan open = read_only;
        open.has_network = true;
        refuses(&read_only, "connect", NULL, "connect network");
        refuses(&offline, "connect", NULL, "connect network");
        refuses(&open, "connect", NULL, "-");
}

TEST(landlock_alone_does_not_tell_reading_from_writing)
{
        struct denial d = { .operation = "unknown", .path = S("/etc/x") };
        eq_str(asked(&alone, true, &d),
               "-"); /* the plan allows reading, so the mode of the file refuses it */
        d.says_write = true;
        eq_str(asked(&alone, true, &d), "write read-only");
        eq_str(asked(&read_only, false, &d), "-"); /* a read-only mount gives another error */
        d.path = S("/x");
        eq_str(asked(&narrow, true, &d), "write no entry");
        d.says_write = false;
        eq_str(asked(&narrow, true, &d), "read no entry");
}
