/* samples: a list of measured values, and its quantiles. */
#pragma once

#include "base/compat.h"

struct samples {
        double *v;
        size_t n, room;
};

void samples_add(struct samples *s, double value);
void samples_clear(struct samples *s); /* keeps the memory */
void samples_release(struct samples *s);

/* Returns the value below which `fraction` (0 … 1) of the samples lie, interpolated; NAN when there are none. */
double samples_quantile(const struct samples *s, double fraction);
double samples_median(const struct samples *s);

uint64_t now_ns(void); /* never goes back */

static inline double us_since(uint64_t start_ns)
{
        return (double)(now_ns() - start_ns) / 1e3;
}
