/* fuzz_uri: every path that is parsed from a URI is absolute, clean and without NUL, stays the same as a native path and after
 * being written as a URI; a native path is cleaned to the same result as by a slow, simple function. */
#include "base/uri.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool cond)
{
        if (!cond)
                abort();
}

/* Appends the components of an absolute path, without empty ones and `.`, and without those that `..` cancels. */
static void clean_slowly(struct buf *out, struct slice text)
{
        struct slice rest = text;
        while (rest.p) {
                struct slice part = slice_split(&rest, '/');
                if (slice_eq(part, S("..")))
                        while (out->n > 0 && out->p[out->n - 1] != '/')
                                buf_truncate(out, out->n - 1);
                if (slice_eq(part, S("..")) && out->n > 0)
                        buf_truncate(out, out->n - 1); /* the slash */
                if (part.n > 0 && !slice_eq(part, S(".")) && !slice_eq(part, S("..")))
                        check(buf_append_char(out, '/') == 0 && buf_append(out, part) == 0);
        }
        if (out->n == 0)
                check(buf_append_char(out, '/') == 0);
}

static void check_clean(struct slice path)
{
        struct slice rest = slice_from(path.p + 1, path.n - 1);
        check(path.n > 0 && path.p[0] == '/' && path.p[path.n] == '\0' && !slice_has_nul(path));
        while (path.n > 1 && rest.p) {
                struct slice part = slice_split(&rest, '/');
                check(part.n > 0 && !slice_eq(part, S(".")) && !slice_eq(part, S("..")));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf b = BUF_INIT(3 * size + 64), slow = BUF_INIT(size + 1);
        struct slice text = slice_from(data, size), path = S(""), again = S(""), detail = S("");
        enum uri_result result = uri_to_path(&a, text, &path, &detail);

        check(result != URI_BAD_SCHEME || detail.n > 0);
        if (size > 0 && data[0] == '/')
                check(result == (slice_has_nul(text) ? URI_NUL : URI_OK));
        if (result != URI_OK)
                return 0;
        check_clean(path);
        if (data[0] == '/') {
                clean_slowly(&slow, text);
                check(slice_eq(path, buf_slice(&slow)));
        }
        check(uri_to_path(&a, path, &again, NULL) == URI_OK && slice_eq(path, again));
        check(uri_from_path(&b, path) == 0);
        check(slice_starts(buf_slice(&b), S("file:///")));
        check(uri_to_path(&a, buf_slice(&b), &again, NULL) == URI_OK && slice_eq(path, again));
        return 0;
}
