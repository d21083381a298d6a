/* fuzz_denied: denials in any output. They are bounded in number, lie in the text, have clean paths and do not depend on how the
 * output is cut into chunks; and refusal.h has an answer for each. The first byte says where to cut. */
#include "denial/refusal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool cond)
{
        if (!cond)
                abort();
}

static void check_path(struct slice path)
{
        check(path.n > 0 && path.n <= DENIALS_PATH_BYTES && path.p[0] == '/' && !slice_has_nul(path));
        struct slice rest = slice_from(path.p + 1, path.n - 1);
        while (path.n > 1 && rest.p) {
                struct slice part = slice_split(&rest, '/');
                check(part.n > 0 && !slice_eq(part, S(".")) && !slice_eq(part, S("..")));
        }
}

static void check_address(struct slice address)
{
        check(address.n > 0 && address.n < 300);
        for (size_t i = 0; i < address.n; i++)
                check(address.p[i] > ' ' && address.p[i] < 0x7f);
}

static void check_denial(const struct denial *d)
{
        static struct plan_op ops[] = {
                { .kind = PLAN_WRITE, .path = { "/w", 2 }, .why = "writable" },
                { .kind = PLAN_HIDE, .path = { "/w/secret", 9 }, .why = PLAN_WHY_DENIED },
        };
        const struct plan plan = { .has_view = true, .root = PLAN_ROOT_READ, .ops = ops, .op_count = 2 };
        struct refusal r;
        if (d->path.p)
                check_path(d->path);
        if (d->address.p)
                check_address(d->address);
        if (refusal_find(&plan, false, d, &r))
                check(r.op != &ops[0] && (!r.op || path_is_within(d->path, r.op->path)));
}

static bool is_same(const struct denial *a, const struct denial *b)
{
        return strcmp(a->operation, b->operation) == 0 && a->says_write == b->says_write &&
               slice_eq(a->path, b->path) && slice_eq(a->address, b->address);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size == 0)
                return 0;
        static struct denials whole, pieces;
        struct slice text = slice_from(data + 1, size - 1);
        size_t cut = MIN((size_t)data[0], text.n);
        denials_init(&whole, true, S("/w/sub"));
        denials_feed(&whole, true, text);
        denials_end(&whole);
        denials_init(&pieces, true, S("/w/sub"));
        denials_feed(&pieces, true, slice_from(text.p, cut));
        denials_feed(&pieces, true, slice_from(text.p + cut, text.n - cut));
        denials_end(&pieces);
        check(whole.count <= DENIALS_MAX && whole.count == pieces.count && whole.has_more == pieces.has_more);
        for (size_t i = 0; i < whole.count; i++) {
                check_denial(&whole.list[i]);
                check(is_same(&whole.list[i], &pieces.list[i]));
        }
        denials_release(&whole);
        denials_release(&pieces);
        return 0;
}
