/* slice: compares, trims and splits slices, and reads numbers from them.
 *
 * All functions accept a slice whose p is NULL when its n is 0.
 */
#include "base/slice.h"

#include <errno.h>

size_t slice_find(struct slice s, const char *const *names, size_t count)
{
        size_t i = 0;
        while (i < count && !slice_eq(s, slice_from_str(names[i])))
                i++;
        return i;
}

bool slice_eq_nocase(struct slice a, struct slice b)
{
        if (a.n != b.n)
                return false;
        for (size_t i = 0; i < a.n; i++)
                if (ascii_lower(a.p[i]) != ascii_lower(b.p[i]))
                        return false;
        return true;
}

static bool is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct slice slice_trim(struct slice s)
{
        while (s.n > 0 && is_blank(s.p[s.n - 1]))
                s.n--;
        while (s.n > 0 && is_blank(s.p[0])) {
                s.p++;
                s.n--;
        }
        return s;
}

struct slice slice_split(struct slice *rest, char sep)
{
        struct slice whole = *rest;
        const char *at = whole.n > 0 ? memchr(whole.p, sep, whole.n) : NULL;

        if (!at) {
                *rest = (struct slice){ 0 };
                return whole;
        }

        size_t before = (size_t)(at - whole.p);
        *rest = slice_from(at + 1, whole.n - before - 1);
        return slice_from(whole.p, before);
}

int slice_to_u64(struct slice s, uint64_t max, uint64_t *ret)
{
        uint64_t value = 0;
        bool fits = true;

        if (s.n == 0)
                return -EINVAL;

        /* Checks every character even after an overflow: "99999999999999999999x" is malformed, not too large. */
        for (size_t i = 0; i < s.n; i++) {
                if (s.p[i] < '0' || s.p[i] > '9')
                        return -EINVAL;
                if (ckd_mul(&value, value, 10u) || ckd_add(&value, value, (uint64_t)(s.p[i] - '0')))
                        fits = false;
        }
        if (!fits || value > max)
                return -ERANGE;

        *ret = value;
        return 0;
}
