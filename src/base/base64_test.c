/* base64_test: round trips of every length, every wrong byte in every place, and nothing written past the end. */
#include "base/base64.h"

#include "base/mem.h"

#include "unit.h"

#define CANARY 0x5a
#define ROOM 64

static void fill(uint8_t *p, size_t n, uint32_t seed)
{
        for (size_t i = 0; i < n; i++) {
                seed = seed * 1664525 + 1013904223;
                p[i] = (uint8_t)(seed >> 24);
        }
}

/* Encodes bit by bit, as RFC 4648 draws it, to compare the results. */
static size_t encode_slowly(char *out, const uint8_t *in, size_t n)
{
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        size_t o = 0;

        for (size_t bit = 0; bit < n * 8; bit += 6) {
                unsigned v = 0;
                for (size_t b = bit; b < bit + 6; b++)
                        v = v << 1 | (b < n * 8 ? (unsigned)in[b / 8] >> (7 - b % 8) & 1 : 0);
                out[o++] = letters[v];
        }
        while (o % 4)
                out[o++] = '=';
        return o;
}

/* Decodes from a heap block of exactly the text's size, so that the sanitizer sees a read outside of it, into a block with a
 * canary behind it. */
static ssize_t decode(struct slice text, uint8_t *ret, size_t *ret_bad)
{
        _free_ char *in = mem_alloc(text.n + (text.n == 0));
        size_t max = base64_decoded_max(text.n);
        _free_ uint8_t *out = mem_alloc(max + ROOM);

        memcpy(in, text.p, text.n);
        memset(out, CANARY, max + ROOM);
        ssize_t n = base64_decode(out, in, text.n, ret_bad);
        for (size_t i = 0; i < ROOM; i++)
                eq_int(out[max + i], CANARY);
        if (n > 0 && ret)
                memcpy(ret, out, (size_t)n);
        return n;
}

static size_t bad_offset(struct slice text)
{
        size_t bad = SIZE_MAX;

        eq_int(decode(text, NULL, &bad), -1);
        return bad;
}

TEST(base64_every_length_round_trips)
{
        uint8_t back[2001];
        char text[2680 + ROOM], expected[2680];

        for (size_t n = 0; n <= 2000; n++) {
                _free_ uint8_t *data = mem_alloc(n + (n == 0));
                fill(data, n, (uint32_t)n);
                memset(text, CANARY, sizeof(text));

                size_t size = base64_encode(text, data, n);
                eq_u64(size, base64_encoded_size(n));
                eq_u64(encode_slowly(expected, data, n), size);
                assert_memory_equal(text, expected, size);
                for (size_t i = 0; i < ROOM; i++)
                        eq_int(text[size + i], CANARY);

                eq_u64(decode(slice_from(text, size), back, NULL), n);
                if (n > 0)
                        assert_memory_equal(back, data, n);
        }
}

TEST(base64_every_illegal_byte_is_refused_with_its_offset)
{
        static const char legal[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
        uint8_t data[300], out[300];
        char text[400];

        fill(data, sizeof(data), 7);
        base64_encode(text, data, sizeof(data));
        for (size_t at = 0; at < sizeof(text); at++) {
                char good = text[at];
                for (int c = 0; c < 256; c++) {
                        size_t bad = SIZE_MAX;
                        if (c != 0 && strchr(legal, c))
                                continue;
                        text[at] = (char)c;
                        eq_int(base64_decode(out, text, sizeof(text), &bad), -1);
                        eq_u64(bad, at);
                }
                text[at] = good;
        }
}

TEST(base64_padding_in_the_middle_is_refused_with_its_offset)
{
        uint8_t data[300];
        char text[400];

        fill(data, sizeof(data), 9);
        base64_encode(text, data, sizeof(data));
        for (size_t at = 0; at < sizeof(text) - 1; at++) {
                char good = text[at];
                text[at] = '=';
                eq_u64(bad_offset(slice_from(text, sizeof(text))), at);
                text[at] = good;
        }
}

TEST(base64_every_truncation_is_refused_at_its_end)
{
        uint8_t data[200];
        char text[268];

        fill(data, sizeof(data), 11);
        size_t size = base64_encode(text, data, sizeof(data));
        for (size_t n = 1; n < size; n++) {
                if (n % 4 == 0)
                        eq_u64(decode(slice_from(text, n), NULL, NULL), n / 4 * 3);
                else
                        eq_u64(bad_offset(slice_from(text, n)), n);
        }
}

TEST(base64_forms_of_padding)
{
        static const struct {
                struct slice text;
                size_t bad;
        } cases[] = {
                { S("Y"), 1 },        { S("YQ"), 2 },       { S("YWI"), 3 },      { S("YQ="), 3 },
                { S("Y="), 1 },       { S("="), 0 },        { S("=="), 0 },       { S("===="), 0 },
                { S("Y==="), 1 },     { S("YQ=a"), 2 },     { S("YQ==YQ=="), 2 }, { S("YW J"), 2 },
                { S("YQ==\n"), 4 },   { S("YWJj\n"), 4 },   { S("YWJjY"), 5 },    { S("YWJjYQ="), 7 },
                { S("YWJj="), 4 },    { S("YWJj===="), 4 }, { S("YWJjY==="), 5 }, { S("YWJjYQ*"), 6 },
                { S("Y=Q="), 1 },     { S("YQ==Y"), 2 },    { S("YQ==="), 2 },    { S("YWI=="), 3 },
                { S("YWI=Y"), 3 },    { S("YR="), 3 },      { S("YR=*"), 2 },     { S("YWI=\r\n"), 3 },
                { S("YWJj-_-_"), 4 }, { S("YWI=\n"), 4 },   { S("YWJ=\n"), 3 },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                eq_u64(bad_offset(cases[i].text), cases[i].bad);
        eq_int(base64_decode(NULL, NULL, 0, NULL), 0);
        eq_int(decode(S("YQ=="), NULL, NULL), 1);
        eq_int(decode(S("YWI="), NULL, NULL), 2);
}

TEST(base64_trailing_bits_must_be_zero)
{
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        char text[72];

        memset(text, 'A', sizeof(text));
        for (unsigned v = 0; v < 64; v++) {
                memcpy(text + 68, (char[]){ 'A', letters[v], '=', '=' }, 4);
                if (v % 16 == 0)
                        eq_int(decode(slice_from(text, 72), NULL, NULL), 52);
                else
                        eq_u64(bad_offset(slice_from(text, 72)), 69);

                memcpy(text + 68, (char[]){ 'A', 'A', letters[v], '=' }, 4);
                if (v % 4 == 0)
                        eq_int(decode(slice_from(text, 72), NULL, NULL), 53);
                else
                        eq_u64(bad_offset(slice_from(text, 72)), 70);
        }
}

TEST(base64_url_alphabet_round_trips_without_padding)
{
        uint8_t data[100] = { 0 }, back[100];
        char text[140];

        for (size_t n = 0; n <= sizeof(data); n++) {
                fill(data, n, (uint32_t)n + 99);
                size_t size = base64url_encode(text, data, n);
                eq_u64(size, (n * 8 + 5) / 6);
                ok(!memchr(text, '=', size) && !memchr(text, '+', size) && !memchr(text, '/', size));
                eq_u64(base64url_decode(back, text, size), n);
                if (n > 0)
                        assert_memory_equal(back, data, n);
        }
}

TEST(base64_url_refuses_the_other_alphabet_padding_and_trailing_bits)
{
        static const struct slice bad[] = {
                S("A"),  S("AA=="), S("AAA="),  S("AA+A"), S("AA/A"),
                S("AB"), S("AAB"),  S("AAAAA"), S("AA A"), S("A\0AA"),
        };
        uint8_t out[8];

        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                eq_int(base64url_decode(out, bad[i].p, bad[i].n), -1);
        eq_int(base64url_decode(out, "-_-_", 4), 3);
        eq_int(base64url_decode(out, "AA", 2), 1);
}

TEST(base64_decodes_in_place_and_finds_the_same_mistake)
{
        uint8_t bytes[200], apart[200];
        char text[300], copy[300];
        for (size_t n = 1; n < sizeof(bytes); n++) {
                fill(bytes, n, (uint32_t)n);
                size_t length = base64_encode(text, bytes, n);
                memcpy(copy, text, length);
                eq_int(base64_decode(copy, copy, length, NULL), n);
                assert_memory_equal(copy, bytes, n);
                for (size_t at = 0; at < length; at += 5) {
                        size_t bad_apart, bad_here;
                        memcpy(copy, text, length);
                        copy[at] = '*';
                        eq_int(base64_decode(apart, copy, length, &bad_apart), -1);
                        eq_int(base64_decode(copy, copy, length, &bad_here), -1);
                        eq_u64(bad_here, bad_apart);
                }
        }
}
