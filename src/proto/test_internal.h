/* test_internal: for tests of this folder: decodes params from a text, in which ' stands for ", and reads vectors from files. */
#pragma once

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "proto/decode.h"
#include "wire/jsonw.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Parses a text, which must be valid, and returns the root. The padding behind the text consists of quotes, so that reading too far
 * would show in a result. */
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

/* Decodes the params in `text`; NULL stands for absent params. */
static inline int test_decode(struct arena *a, params_decode *decode, const char *text, void *ret,
                              struct err *err)
{
        struct json_doc doc = { 0 };
        const struct json *params = text ? test_parse(a, slice_from_str(text), &doc) : NULL;

        return decode(a, &doc, params, ret, err);
}

/* The paths that replace the names of directories in the vectors. None of them needs to exist. */
#define TEST_W "/vectors/w"
#define TEST_O "/vectors/o"
#define TEST_T "/vectors/t"

static inline void test_put(struct buf *out, struct slice s)
{
        must(buf_append(out, s) == 0);
}

/* Parses tests/vectors/NAME, with paths in place of @W, @O and @T. The result points into `text`, which the caller owns. */
static inline const struct json *test_vectors(struct arena *a, const char *name, struct buf *text,
                                              struct json_doc *ret)
{
        struct json_error error;
        char piece[4096];
        _buf_ struct buf raw = BUF_INIT(4 << 20);
        _close_ int fd = open(arena_printf(a, "%s/%s", UNIT_VECTORS, name), O_RDONLY | O_CLOEXEC);
        ssize_t n;

        must(fd >= 0);
        while ((n = read(fd, piece, sizeof(piece))) > 0)
                test_put(&raw, slice_from(piece, (size_t)n));
        must(n == 0);

        for (size_t i = 0; i < raw.n; i++) {
                char next = raw.p[i] == '@' ? raw.p[i + 1] : 0;
                struct slice path = next == 'W'   ? S(TEST_W)
                                    : next == 'O' ? S(TEST_O)
                                    : next == 'T' ? S(TEST_T)
                                                  : (struct slice){ 0 };
                test_put(text, path.p ? path : slice_from(raw.p + i, 1));
                i += path.p != NULL;
        }
        must(json_parse(a, buf_slice(text), ret, &error) == 0);
        return json_root(ret);
}

/* Writes a value without blanks and with its members in their original order. */
static inline void test_write(struct jsonw *w, struct arena *a, const struct json_doc *doc,
                              const struct json *v)
{
        if (v->type == JSON_STRING) {
                jsonw_string(w, json_string(a, doc, v));
        } else if (v->type == JSON_ARRAY) {
                jsonw_array(w);
                json_each (it, doc, v)
                        test_write(w, a, doc, it);
                jsonw_array_end(w);
        } else if (v->type == JSON_OBJECT) {
                jsonw_object(w);
                json_each (it, doc, v) {
                        jsonw_key(w, arena_dup(a, json_string(a, doc, it)));
                        test_write(w, a, doc, it + 1);
                }
                jsonw_object_end(w);
        } else {
                jsonw_raw(w, json_raw(doc, v));
        }
}

static inline struct slice test_text(struct arena *a, const struct json_doc *doc, const struct json *v)
{
        _buf_ struct buf out = BUF_INIT(1 << 20);
        struct jsonw w;

        jsonw_begin(&w, &out);
        test_write(&w, a, doc, v);
        must(jsonw_end(&w) == 0);
        return slice_from(arena_dup(a, buf_slice(&out)), out.n);
}

static inline struct slice test_string(struct arena *a, const struct json_doc *doc, const struct json *object,
                                       const char *key)
{
        const struct json *v = json_get(doc, object, slice_from_str(key));

        return v && v->type == JSON_STRING ? json_string(a, doc, v) : (struct slice){ 0 };
}
