/* http_body_test: bodies with a length and in chunks, in every split, and what is no body. */
#include "base/buf.h"
#include "base/mem.h"
#include "unit.h"
#include "wire/http_body.h"

static struct http_request chunked(void)
{
        return (struct http_request){ .is_chunked = true };
}

/* Feeds `text` in two pieces. Returns the body with "|" and the rest behind it; "…" when it is not complete; the status when it is broken. */
static void show(const struct http_request *r, struct slice text, size_t split, struct buf *out)
{
        struct http_body b;
        size_t at = 0;
        http_body_init(&b, r);
        buf_release(out);
        while (b.state != HTTP_BODY_DONE) {
                struct slice piece;
                size_t end = at < split ? split : text.n;
                _free_ char *copy = mem_alloc(MAX(end - at, (size_t)1)); /* has no byte to spare */
                memcpy(copy, text.p + at, end - at);
                ssize_t used = http_body_next(&b, slice_from(copy, end - at), &piece);
                if (used < 0) {
                        buf_release(out);
                        eq_int(buf_printf(out, "%d", (int)used), 0);
                        return;
                }
                eq_int(buf_append(out, piece), 0);
                at += (size_t)used;
                if (used == 0 && at == text.n) {
                        eq_int(buf_append(out, S("...")), 0);
                        return;
                }
        }
        eq_int(buf_printf(out, "|%.*s", (int)(text.n - at), text.p + at), 0);
}

static void is_shown(const struct http_request *r, const char *text, const char *expected)
{
        struct slice whole = slice_from_str(text);
        for (size_t split = 0; split <= whole.n; split++) {
                _buf_ struct buf out = BUF_INIT(65536);
                show(r, whole, split, &out);
                eq_str(out.p, expected);
        }
}

TEST(a_body_has_its_length)
{
        struct http_request r = { .has_content_length = true, .content_length = 5 }, none = { 0 };
        is_shown(&r, "helloGET /", "hello|GET /");
        is_shown(&r, "hell", "hell...");
        is_shown(&none, "GET /", "|GET /");
}

TEST(chunks_are_joined)
{
        struct http_request r = chunked();
        is_shown(&r, "5\r\nhello\r\n1;a=b\r\n \r\n00A\r\n0123456789\r\n0\r\n\r\nnext",
                 "hello 0123456789|next");
        is_shown(&r, "0\r\nX-A: b\r\nX-B: c\r\n\r\n", "|");
}

TEST(a_body_without_its_end_is_incomplete)
{
        struct http_request r = chunked();
        struct slice all = S("3\r\nabc\r\n0;x\r\nA: b\r\n\r\n");
        for (size_t n = 0; n < all.n; n++) {
                _buf_ struct buf out = BUF_INIT(65536);
                show(&r, slice_from(all.p, n), n / 2, &out);
                eq_str(out.p + out.n - 3, "...");
        }
}

TEST(what_is_no_chunk_is_refused)
{
        static const char *const bad[] = {
                "\r\n",
                " 3\r\nabc\r\n",
                "3 \r\nabc\r\n",
                "+3\r\nabc\r\n",
                "0x3\r\nabc\r\n",
                "3\nabc\n",
                "3\r\nabcd\r\n",
                "3\r\nabc\n",
                "g\r\n",
                "-1\r\n",
                ";a\r\n",
                "3\rabc\r\n",
                "0\r\nA\n\r\n",
                "0\r\n\n",
                "0\r\n\rx",
                "3;a\nabc\n",
                "3\r\nabc\r\r\n0",
                "3\r\nabc0\r\n",
                "1234567890123456\r\nx",
        };
        struct http_request r = chunked();
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                is_shown(&r, bad[i], "-400");
}

TEST(extensions_and_trailers_are_bounded)
{
        struct http_request r = chunked();
        for (int is_trailer = 0; is_trailer < 2; is_trailer++) {
                _buf_ struct buf text = BUF_INIT(65536), out = BUF_INIT(65536);
                eq_int(buf_append(&text, is_trailer ? S("0\r\nA: ") : S("3;")), 0);
                for (int i = 0; i < HTTP_BODY_LINE_MAX; i++)
                        eq_int(buf_append_char(&text, 'x'), 0);
                eq_int(buf_append(&text, S("\r\n")), 0);
                show(&r, buf_slice(&text), 7, &out);
                eq_str(out.p, "-400");
        }
}
