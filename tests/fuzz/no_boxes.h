/* no_boxes: sandboxes for fuzz_dispatch: every second one can be made, and limits nothing. They test
 * the order of requests around a start that is being planned; fuzz_profile tests profiles. */
#pragma once

#include "confine/confine.h"
#include "confine/placeholder_book.h"
#include "server/selftest.h"
#include "wire/rpc.h"

#include <errno.h>

static unsigned boxes_made, boxes_broken;

void confine_init(struct confine *c, struct loop *loop, struct pool *pool, UNUSED enum backend wish)
{
        *c = (struct confine){ .loop = loop, .pool = pool };
}

void confine_release(UNUSED struct confine *c)
{
}

int confine_make(UNUSED struct confine *c, UNUSED struct arena *a, UNUSED const struct profile *profile,
                 UNUSED const struct place *place, struct guarded *ret, UNUSED struct plan *ret_plan,
                 struct err *err)
{
        *ret = GUARDED_NONE;
        if (boxes_made++ % 2 == 0)
                return 0;
        err->step = "plan";
        return err_set(err, 0, -EINVAL, "no");
}

void confine_unmake(UNUSED struct confine *c, struct guarded *g)
{
        *g = GUARDED_NONE;
}

void confine_begin(UNUSED struct confine *c, UNUSED struct guarded *g,
                   UNUSED void (*on_broken)(struct guarded *g))
{
}

void confine_started(UNUSED struct confine *c, UNUSED struct guarded *g)
{
}

void confine_let_go(UNUSED struct confine *c, UNUSED struct guarded *g)
{
}

/* Every second command that was killed or could not start lost its sandbox. */
bool guarded_was_broken(UNUSED const struct guarded *g)
{
        return boxes_broken++ % 2 == 1;
}

bool placeholder_book_sweep(UNUSED void *preparer, UNUSED const char *directory, UNUSED const char *name)
{
        return true;
}

/* No request waits for the self-test: its result counts as not known yet. */
int selftest_await(UNUSED struct selftest *t, UNUSED struct req *req, UNUSED struct err *err)
{
        return 1;
}
