/* findings_test: how results of calls become findings, and that their number and text are bounded. */
#include "cmd/findings.h"

#include "base/mem.h"
#include "unit.h"

#include <errno.h>

TEST(a_call_that_works_needs_no_remedy)
{
        _free_ struct findings *f = mem_new(struct findings);
        findings_add_result(f, "terminals", FINDING_FAIL, 0, "mount devpts");
        eq_u64(f->count, 1);
        eq_int(f->list[0].status, FINDING_OK);
        eq_str(f->list[0].text, "works");
        eq_int(f->list[0].os_errno, 0);
        ok(f->list[0].remedy == NULL);
}

TEST(a_call_that_fails_keeps_errno_and_remedy)
{
        _free_ struct findings *f = mem_new(struct findings);
        findings_add_result(f, "terminals", FINDING_WARN, -ENOENT, "mount devpts");
        eq_int(f->list[0].status, FINDING_WARN);
        eq_str(f->list[0].text, "No such file or directory");
        eq_int(f->list[0].os_errno, ENOENT);
        eq_str(f->list[0].remedy, "mount devpts");
}

TEST(findings_beyond_the_limit_are_dropped_and_long_texts_cut)
{
        _free_ struct findings *f = mem_new(struct findings);
        for (int i = 0; i < FINDINGS_MAX + 3; i++)
                findings_add(f, "many", FINDING_OK, "%0*d", 2 * FINDING_TEXT_BYTES, i);
        eq_u64(f->count, FINDINGS_MAX);
        eq_u64(strlen(f->list[0].text), FINDING_TEXT_BYTES - 1);
}
