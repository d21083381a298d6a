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
        struct plan_op op = { .kind = kind, .path = S("/a"), .is_directory = true };
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
        return reach_judge_read(&reach, S("/a/b"));
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
