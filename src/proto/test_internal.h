/* test_internal: params from a text, for the tests of this folder. In the text ' stands for ". */
#pragma once

#include "base/buf.h"
#include "base/mem.h"
#include "proto/decode.h"

typedef int (*params_decode)(struct arena *a, const struct json_doc *doc, const struct json *params,
                             void *ret, struct err *err);

/* The root of the document, which must be right. The text is followed by padding that would show in a result. */
static inline const struct json *test_parse(struct arena *a, struct slice text, struct json_doc *ret)
{
        struct json_error error;
        char *p = arena_alloc(a, text.n + BUF_PADDING);

        for (size_t i = 0; i < text.n; i++)
                p[i] = text.p[i] == '\'' ? '"' : text.p[i];
        memset(p + text.n, '"', BUF_PADDING);
        must(json_parse(a, slice_from(p, text.n), ret, &error) == 0);
        return json_root(ret);
}

/* `text` NULL: absent params. */
static inline int test_decode(struct arena *a, params_decode decode, const char *text, void *ret,
                              struct err *err)
{
        struct json_doc doc = { 0 };
        const struct json *params = text ? test_parse(a, slice_from_str(text), &doc) : NULL;

        return decode(a, &doc, params, ret, err);
}
