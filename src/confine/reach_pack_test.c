/* reach_pack_test: tests the reach that each kind of operation gives. */
#include "unit.h"

#include "confine/reach_pack.h"

#include "base/arena.h"
#include "base/buf.h"
#include "plan/plan.h"

#include <errno.h>

/* Makes the reach of one operation at /a, as an fs helper does, and returns whether /a/b may be read. `gives`, if not
 * NULL, replaces the member `gives` of the record. */
static int judge_read(enum plan_kind kind, const uint32_t *gives)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf bytes = BUF_INIT(4096);
        struct plan_op op = { .kind = kind, .path = S("/a"), .is_directory = true, .why = PLAN_WHY_READABLE };
        struct plan plan = { .has_view = true, .root = PLAN_ROOT_READ, .ops = &op };
        struct reach reach;
        struct err err = ERR_INIT;
        eq_int(reach_pack(&plan, &bytes), 0);
        size_t head = bytes.n;
        buf_truncate(&bytes, 0);
        plan.op_count = 1;
        eq_int(reach_pack(&plan, &bytes), 0);
        /* The first member of a record is `gives`. */
        if (gives)
                memcpy(bytes.p + head, gives, sizeof(*gives));
        eq_int(reach_unpack(&a, buf_slice(&bytes), false, &reach, &err), 0);
        return reach_judge(&reach, REACH_GET, S("/a/b"));
}

TEST(each_kind_gives_a_file_request_what_it_gives_a_command)
{
        eq_int(judge_read(PLAN_READ, NULL), 0);
        eq_int(judge_read(PLAN_WRITE, NULL), 0);
        eq_int(judge_read(PLAN_PIN, NULL), 0);
        eq_int(judge_read(PLAN_PREVENT, NULL), 0);
        eq_int(judge_read(PLAN_HIDE, NULL), -EACCES);
        eq_int(judge_read(PLAN_OPEN, NULL), -ENOENT);
}

/* An unknown value must not be taken for "may read". */
TEST(an_unknown_value_is_denied)
{
        const uint32_t unknown = 77;
        eq_int(judge_read(PLAN_READ, &unknown), -EACCES);
}

/* A view has the directory mounted that was there. One that was made again may have its inode number. */
TEST(a_directory_that_was_made_again_gives_another_key)
{
        _buf_ struct buf one = BUF_INIT(4096), other = BUF_INIT(4096), same = BUF_INIT(4096);
        struct plan_op op = { .kind = PLAN_WRITE,
                              .path = S("/w"),
                              .is_directory = true,
                              .dev = 1,
                              .ino = 2,
                              .born = 3,
                              .why = PLAN_WHY_READABLE };
        struct plan plan = { .has_view = true, .root = PLAN_ROOT_READ, .ops = &op, .op_count = 1 };
        eq_int(reach_pack(&plan, &one), 0);
        eq_int(reach_pack(&plan, &same), 0);
        op.born++;
        eq_int(reach_pack(&plan, &other), 0);
        assert_true(slice_eq(buf_slice(&one), buf_slice(&same)));
        assert_false(slice_eq(buf_slice(&one), buf_slice(&other)));
}

/* ---- rules */

/* Makes the reach of a plan, and returns the rule that refuses to write the path; -1: none does. */
static int rule_at(const struct plan *plan, bool is_alone, const char *path, struct slice *ret_entry)
{
        static struct arena a = ARENA_INIT;
        static struct buf bytes = BUF_INIT(4096);
        struct reach reach;
        struct reach_reason reason;
        struct err err = ERR_INIT;
        arena_release(&a);
        buf_truncate(&bytes, 0);
        eq_int(reach_pack(plan, &bytes), 0);
        eq_int(reach_unpack(&a, buf_slice(&bytes), is_alone, &reach, &err), 0);
        if (!reach_explain(&reach, REACH_PUT, slice_from_str(path), &reason))
                return -1;
        *ret_entry = reason.entry;
        return (int)reason.rule;
}

#define OP(kind_, path_, why_)                                                                         \
        {                                                                                              \
                .kind = kind_, .path = { path_, sizeof(path_) - 1 }, .why = why_, .is_directory = true \
        }

TEST(the_reason_of_an_operation_is_the_rule_of_its_point)
{
        struct plan_op ops[] = {
                OP(PLAN_READ, "/usr", PLAN_WHY_PLATFORM),     OP(PLAN_READ, "/srv", PLAN_WHY_READABLE),
                OP(PLAN_WRITE, "/w", PLAN_WHY_WRITABLE),      OP(PLAN_HIDE, "/w/a", PLAN_WHY_DENIED),
                OP(PLAN_READ, "/w/b", PLAN_WHY_POINTED),      OP(PLAN_HIDE, "/w/c", PLAN_WHY_MATCH),
                OP(PLAN_HIDE, "/w/d", "the server's own"),    OP(PLAN_HIDE, "/w/e", "mounted elsewhere, too"),
                OP(PLAN_PREVENT, "/w/f", PLAN_WHY_PROTECTED),
        };
        ops[7].named_why = PLAN_WHY_MATCH;
        struct plan plan = {
                .has_view = true, .root = PLAN_ROOT_EMPTY, .ops = ops, .op_count = ARRAY_LEN(ops)
        };
        static const struct {
                const char *path;
                int rule;
                const char *entry;
        } rows[] = {
                { "/usr/x", REACH_RULE_OUTSIDE, "" },
                { "/srv/x", REACH_RULE_ENTRY, "/srv" },
                { "/w/x", -1, "" },
                { "/w/a/x", REACH_RULE_ENTRY, "/w/a" },
                { "/w/b", REACH_RULE_PROTECTED, "/w/b" },
                { "/w/c", REACH_RULE_PATTERN, "" },
                { "/w/d", REACH_RULE_OWN, "" },
                { "/w/e", REACH_RULE_PATTERN, "" },
                { "/w/f/x", REACH_RULE_PROTECTED, "/w/f" },
                { "/home/x", REACH_RULE_NO_ENTRY, "" },
                { "/proc/1/x", REACH_RULE_OWN, "" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct slice entry = S("");
                eq_int(rule_at(&plan, false, rows[i].path, &entry), rows[i].rule);
                ok(slice_eq(entry, slice_from_str(rows[i].entry)));
        }
        struct slice entry;
        eq_int(rule_at(&plan, true, "/home/x", &entry), REACH_RULE_NO_ENTRY);
        eq_int(rule_at(&plan, true, "/dev/sda", &entry), REACH_RULE_OWN);
}

TEST(nothing_writable_is_told_from_something_writable)
{
        struct plan_op op = OP(PLAN_WRITE, "/w", PLAN_WHY_WRITABLE);
        struct plan plan = { .has_view = true, .root = PLAN_ROOT_READ, .ops = &op };
        struct slice entry;
        eq_int(rule_at(&plan, false, "/etc", &entry), REACH_RULE_READ_ONLY);
        plan.op_count = 1;
        eq_int(rule_at(&plan, false, "/etc", &entry), REACH_RULE_OUTSIDE);
        plan.root = PLAN_ROOT_WRITE;
        eq_int(rule_at(&plan, false, "/etc", &entry), -1);
}

TEST(the_text_of_a_pattern_is_told)
{
        static const struct slice globs[] = { { "/w/**/*.env", 11 }, { "/w/**/*.pem", 11 } };
        struct plan_op op = OP(PLAN_WRITE, "/w", PLAN_WHY_WRITABLE);
        struct plan plan = { .has_view = true,
                             .root = PLAN_ROOT_READ,
                             .ops = &op,
                             .op_count = 1,
                             .globs = globs,
                             .glob_count = ARRAY_LEN(globs) };
        struct slice entry = S("");
        eq_int(rule_at(&plan, false, "/w/d/k.pem", &entry), REACH_RULE_PATTERN);
        ok(slice_eq(entry, globs[1]));
}
