/* clock: the time in milliseconds and microseconds. */
#pragma once

#include "base/compat.h"

uint64_t clock_mono_ms(void); /* never goes back; for deadlines */
uint64_t clock_mono_us(void);
int64_t clock_unix_ms(void); /* wall clock; for people and tokens */
