/* fuzz_uri: every path is absolute and without NUL; one that came from a URI survives being written as one. */
#include "base/uri.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool cond)
{
        if (!cond)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf b = BUF_INIT(3 * size + 64);
        struct slice text = slice_from(data, size), path = S(""), again = S(""), detail = S("");
        enum uri_result result = uri_to_path(&a, text, &path, &detail);

        check(result != URI_BAD_SCHEME || detail.n > 0);
        if (result != URI_OK)
                return 0;
        check(path.n > 0 && path.p[0] == '/' && path.p[path.n] == '\0' && !slice_has_nul(path));
        check(uri_from_path(&b, path) == 0);
        check(slice_starts(buf_slice(&b), S("file:///")));
        if (data[0] == '/') {
                check(slice_eq(path, text));
                return 0; /* native paths need not be in normal form, so that a URI may not say them exactly */
        }
        check(uri_to_path(&a, buf_slice(&b), &again, NULL) == URI_OK && slice_eq(path, again));
        check(!memmem(path.p, path.n, "//", 2) && !memmem(path.p, path.n, "/../", 4));
        return 0;
}
