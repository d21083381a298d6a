/* fuzz_weburl: any bytes as a URL, alone and relative to a base. The result is printable, and parsing it again does not change
 * it. */
#include "base/mem.h"
#include "wire/weburl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(struct arena *a, const struct weburl *u)
{
        struct slice text = weburl_text(a, u);
        struct weburl again;
        for (size_t i = 0; i < text.n; i++)
                must((unsigned char)text.p[i] > ' ' && text.p[i] != 0x7f);
        must(u->host.n > 0 && u->path.n > 0 && u->path.p[0] == '/');
        must(weburl_parse(a, text, NULL, &again, NULL) == WEBURL_OK);
        must(weburl_same_origin(u, &again) && slice_eq(weburl_text(a, &again), text));
        must(!again.user.p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _arena_ struct arena a = ARENA_INIT;
        _free_ char *copy = mem_alloc(MAX(size, (size_t)1));
        struct weburl u, base;
        if (size)
                memcpy(copy, data, size);
        if (weburl_parse(&a, slice_from(copy, size), NULL, &u, NULL) == WEBURL_OK)
                check(&a, &u);
        must(weburl_parse(&a, S("https://user:pw@h.example:8443/a/b?q"), NULL, &base, NULL) == WEBURL_OK);
        if (weburl_parse(&a, slice_from(copy, size), &base, &u, NULL) == WEBURL_OK)
                check(&a, &u);
        return 0;
}
