/* wary: a flag that says whether commands run beside file requests. Any thread may set and read it. */
#include "fsop/wary.h"

#include <stdatomic.h>

static atomic_bool wary;

void wary_set(bool is_wary)
{
        atomic_store_explicit(&wary, is_wary, memory_order_relaxed);
}

bool wary_is_set(void)
{
        return atomic_load_explicit(&wary, memory_order_relaxed);
}
