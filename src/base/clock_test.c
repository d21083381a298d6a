/* clock_test: that both clocks run in milliseconds. */
#include "base/clock.h"

#include "unit.h"

#include <time.h>

TEST(monotonic_clock_does_not_go_back)
{
        uint64_t last_us = clock_mono_us(), last_ms = clock_mono_ms();

        for (size_t i = 0; i < 10000; i++) {
                uint64_t us = clock_mono_us(), ms = clock_mono_ms();
                ok(us >= last_us && ms >= last_ms);
                ok(ms >= us / 1000);
                last_us = us;
                last_ms = ms;
        }
}

TEST(wall_clock_is_in_milliseconds_of_unix_time)
{
        time_t before = time(NULL);
        int64_t ms = clock_unix_ms();
        time_t after = time(NULL);

        /* time(2) may lag by a tick. */
        ok(ms >= (int64_t)before * 1000 && ms <= (int64_t)after * 1000 + 1500);
}
