/* Tests of the buffers that are kept: which ones, how much in all, and that they are given back. */
#include "server/spares.h"

#include "base/limits.h"
#include "unit.h"

struct rig {
        struct loop loop;
        struct spares spares;
};

static void rig_open(struct rig *rig)
{
        struct err err = ERR_INIT;
        eq_int(loop_init(&rig->loop, &err), 0);
        spares_init(&rig->spares, &rig->loop);
}

static void rig_close(struct rig *rig)
{
        spares_release(&rig->spares);
        loop_release(&rig->loop);
}

static void put(struct rig *rig, size_t bytes)
{
        struct buf b = BUF_INIT(64 * MIB);
        char *room;
        eq_int(buf_reserve(&b, bytes, &room), 0);
        buf_commit(&b, 1);
        spares_put(&rig->spares, &b);
        eq_u64(b.allocated, 0);
}

TEST(a_large_buffer_comes_back_empty)
{
        struct rig rig;
        struct buf b;
        rig_open(&rig);
        put(&rig, MIB);
        spares_take(&rig.spares, &b);
        eq_u64(b.n, 0);
        assert_true(b.allocated >= MIB);
        buf_release(&b);
        spares_take(&rig.spares, &b);
        eq_u64(b.allocated, 0); /* it was the only one */
        rig_close(&rig);
}

TEST(small_buffers_are_not_kept)
{
        struct rig rig;
        rig_open(&rig);
        put(&rig, 4 * KIB);
        eq_u64(rig.spares.count, 0);
        rig_close(&rig);
}

TEST(no_more_is_kept_than_the_limits_say)
{
        struct rig rig;
        rig_open(&rig);
        for (size_t i = 0; i < SPARES_COUNT + 2; i++)
                put(&rig, MIB);
        eq_u64(rig.spares.count, SPARES_COUNT);
        rig_close(&rig);

        rig_open(&rig);
        put(&rig, LIMIT_SPARES_BYTES / 4 * 3);
        put(&rig, LIMIT_SPARES_BYTES / 2);
        eq_u64(rig.spares.count, 1);
        put(&rig, MIB);
        eq_u64(rig.spares.count, 2);
        assert_true(rig.spares.bytes <= LIMIT_SPARES_BYTES);
        rig_close(&rig);
}

TEST(buffers_that_nobody_wants_are_given_back)
{
        struct rig rig;
        rig_open(&rig);
        put(&rig, MIB);
        put(&rig, MIB);
        while (rig.spares.count > 0)
                uv_run(&rig.loop.uv, UV_RUN_ONCE); /* its timer ends it */
        eq_u64(rig.spares.bytes, 0);
        put(&rig, MIB); /* and it begins again */
        eq_u64(rig.spares.count, 1);
        while (rig.spares.count > 0)
                uv_run(&rig.loop.uv, UV_RUN_ONCE);
        rig_close(&rig);
}
