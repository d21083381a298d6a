/* buffer_pool_test: tests which buffers are kept, how many bytes in all, and that they are freed when there is no work. */
#include "conn/buffer_pool.h"

#include "base/limits.h"
#include "unit.h"

struct rig {
        struct loop loop;
        struct buffer_pool buffer_pool;
};

static void rig_open(struct rig *rig)
{
        struct err err = ERR_INIT;
        eq_int(loop_init(&rig->loop, &err), 0);
        buffer_pool_init(&rig->buffer_pool, &rig->loop);
}

static void rig_close(struct rig *rig)
{
        buffer_pool_release(&rig->buffer_pool);
        loop_release(&rig->loop);
}

static void put(struct rig *rig, size_t bytes)
{
        struct buf b = BUF_INIT(64 * MIB);
        char *room;
        eq_int(buf_reserve(&b, bytes, &room), 0);
        buf_commit(&b, 1);
        buffer_pool_put(&rig->buffer_pool, &b);
        eq_u64(b.allocated, 0);
}

TEST(a_large_buffer_comes_back_empty)
{
        struct rig rig;
        struct buf b;
        rig_open(&rig);
        put(&rig, MIB);
        buffer_pool_take(&rig.buffer_pool, &b);
        eq_u64(b.n, 0);
        assert_true(b.allocated >= MIB);
        buf_release(&b);
        buffer_pool_take(&rig.buffer_pool, &b);
        eq_u64(b.allocated, 0); /* the pool had one buffer only */
        rig_close(&rig);
}

TEST(small_buffers_are_not_kept)
{
        struct rig rig;
        rig_open(&rig);
        put(&rig, 4 * KIB);
        eq_u64(rig.buffer_pool.count, 0);
        rig_close(&rig);
}

TEST(no_more_is_kept_than_the_limits_say)
{
        struct rig rig;
        rig_open(&rig);
        for (size_t i = 0; i < BUFFER_POOL_COUNT + 2; i++)
                put(&rig, MIB);
        eq_u64(rig.buffer_pool.count, BUFFER_POOL_COUNT);
        rig_close(&rig);

        rig_open(&rig);
        put(&rig, LIMIT_BUFFER_POOL_BYTES / 4 * 3);
        put(&rig, LIMIT_BUFFER_POOL_BYTES / 2);
        eq_u64(rig.buffer_pool.count, 1);
        put(&rig, MIB);
        eq_u64(rig.buffer_pool.count, 2);
        assert_true(rig.buffer_pool.bytes <= LIMIT_BUFFER_POOL_BYTES);
        rig_close(&rig);
}

TEST(unused_buffers_are_freed)
{
        struct rig rig;
        rig_open(&rig);
        put(&rig, MIB);
        put(&rig, MIB);
        while (rig.buffer_pool.count > 0)
                loop_turn(&rig.loop, true); /* the timer frees the buffer */
        eq_u64(rig.buffer_pool.bytes, 0);
        put(&rig, MIB); /* the pool starts its timer again */
        eq_u64(rig.buffer_pool.count, 1);
        while (rig.buffer_pool.count > 0)
                loop_turn(&rig.loop, true);
        rig_close(&rig);
}
