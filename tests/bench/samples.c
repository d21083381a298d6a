/* samples: a list of measured values, and its quantiles. */
#include "samples.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void samples_add(struct samples *s, double value)
{
        if (s->n == s->room) {
                s->room = s->room ? s->room * 2 : 64;
                s->v = mem_realloc(s->v, s->room * sizeof(*s->v));
        }
        s->v[s->n++] = value;
}

void samples_clear(struct samples *s)
{
        s->n = 0;
}

void samples_release(struct samples *s)
{
        free(s->v);
        *s = (struct samples){ 0 };
}

static int compare(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;
        return (x > y) - (x < y);
}

double samples_quantile(const struct samples *s, double fraction)
{
        if (s->n == 0)
                return NAN;
        _free_ double *v = mem_alloc(s->n * sizeof(*v)); /* a copy: rounds are compared in their order */
        memcpy(v, s->v, s->n * sizeof(*v));
        qsort(v, s->n, sizeof(*v), compare);
        double at = fraction * (double)(s->n - 1);
        size_t low = (size_t)at, high = MIN(low + 1, s->n - 1);
        return v[low] + (v[high] - v[low]) * (at - (double)low);
}

double samples_median(const struct samples *s)
{
        return samples_quantile(s, 0.5);
}

uint64_t now_ns(void)
{
        struct timespec ts;
        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
