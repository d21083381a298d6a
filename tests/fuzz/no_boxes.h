/* no_boxes: sandboxes for fuzz_dispatch: every second one can be made, and limits nothing. What is looked for is in the
 * order of requests around a start that is being planned; profiles have a harness of their own. */
#pragma once

#include "server/boxes.h"
#include "server/selftest.h"
#include "server/stub_book.h"
#include "wire/rpc.h"

#include <errno.h>

static unsigned boxes_made;

void boxes_init(struct boxes *b, struct server *s)
{
        *b = (struct boxes){ .server = s };
}

void boxes_release(UNUSED struct boxes *b)
{
}

int boxes_make(UNUSED struct boxes *b, UNUSED struct arena *a, UNUSED const struct process_start *in,
               UNUSED const char *const *env, struct box_made *ret, struct err *err)
{
        *ret = BOX_NONE;
        if (boxes_made++ % 2 == 0)
                return 0;
        err->step = "plan";
        return err_set(err, RPC_INVALID_PARAMS, -EINVAL, "failed to prepare process sandbox: no");
}

void boxes_unmake(UNUSED struct boxes *b, struct box_made *made)
{
        *made = BOX_NONE;
}

void boxes_on_started(UNUSED struct task *t)
{
}

void stub_book_sweep(UNUSED const char *directory, UNUSED const char *name)
{
}

/* Nobody waits for the self-test: that there is no answer yet is an answer. */
void selftest_init(UNUSED struct selftest *t, UNUSED struct server *s)
{
}

void selftest_release(UNUSED struct selftest *t)
{
}

int selftest_await(UNUSED struct selftest *t, UNUSED struct req *req, UNUSED struct err *err)
{
        return 1;
}
