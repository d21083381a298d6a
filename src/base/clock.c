/* clock: reads the system's clocks, in milliseconds and microseconds.
 *
 * The clocks asked for here exist on every Linux, so a failure is a bug.
 */
#include "base/clock.h"

#include "base/mem.h"

#include <time.h>

static struct timespec now(clockid_t id)
{
        struct timespec t;
        must(clock_gettime(id, &t) == 0);
        return t;
}

uint64_t clock_mono_ms(void)
{
        return clock_mono_us() / 1000;
}

uint64_t clock_mono_us(void)
{
        struct timespec t = now(CLOCK_MONOTONIC);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

int64_t clock_unix_ms(void)
{
        struct timespec t = now(CLOCK_REALTIME);
        return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
