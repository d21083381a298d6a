/* network_memory_test: what is remembered about connections for a session, and for how long. */
#include "session/network_memory.h"

#include "base/clock.h"
#include "base/limits.h"
#include "unit.h"

static bool knows(struct network_memory *m, uint8_t protocol, const char *host, uint16_t port,
                  struct network_answer *ret)
{
        const struct network_question_target t = { .protocol = protocol,
                                                   .port = port,
                                                   .host = slice_from_str(host) };
        return network_memory_find(m, &t, ret);
}

static void put(struct network_memory *m, const char *host, bool is_allowed, const char *reason,
                uint64_t until_ms)
{
        const struct network_question_target t = { .protocol = 1, .port = 80, .host = slice_from_str(host) };
        const struct network_answer a = { .is_allowed = is_allowed,
                                          .reason = slice_from_str(reason),
                                          .until_ms = until_ms };
        network_memory_put(m, &t, &a);
}

TEST(an_answer_is_for_one_host_port_and_protocol)
{
        struct network_memory m;
        struct network_answer a;
        network_memory_init(&m);
        put(&m, "a.test", false, "no", 0);
        ok(knows(&m, 1, "a.test", 80, &a));
        ok(!a.is_allowed);
        eq_slice(a.reason, S("no"));
        ok(!knows(&m, 0, "a.test", 80, &a));
        ok(!knows(&m, 1, "a.test", 81, &a));
        ok(!knows(&m, 1, "b.test", 80, &a));
        put(&m, "a.test", true, "", 0); /* the newest counts */
        ok(knows(&m, 1, "a.test", 80, &a) && a.is_allowed);
        eq_u64(m.count, 1);
        network_memory_release(&m);
}

TEST(an_answer_ends_with_its_time)
{
        struct network_memory m;
        struct network_answer a;
        network_memory_init(&m);
        put(&m, "gone.test", true, "", clock_mono_ms());
        put(&m, "here.test", true, "", clock_mono_ms() + 600000);
        ok(!knows(&m, 1, "gone.test", 80, &a));
        ok(knows(&m, 1, "here.test", 80, &a));
        eq_u64(m.count, 1);
        network_memory_release(&m);
}

TEST(the_oldest_is_forgotten_when_there_are_too_many)
{
        struct network_memory m;
        struct network_answer a;
        char host[16];
        network_memory_init(&m);
        for (int i = 0; i <= LIMIT_NET_REMEMBERED; i++) {
                snprintf(host, sizeof(host), "h%d", i);
                put(&m, host, true, "", 0);
        }
        eq_u64(m.count, LIMIT_NET_REMEMBERED);
        ok(!knows(&m, 1, "h0", 80, &a));
        ok(knows(&m, 1, "h1", 80, &a) && knows(&m, 1, host, 80, &a));
        network_memory_release(&m);
}
