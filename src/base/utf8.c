/* utf8: checks UTF-8 by RFC 3629 and table 3-7 of the Unicode standard: no overlong forms, no surrogates, up to
 * U+10FFFF.
 *
 * What a lead byte allows next is kept as three numbers packed into the caller's state, so the whole-text
 * check and the incremental one are the same code and a character may be split anywhere.
 */
#include "base/utf8.h"

/* The state inside of a character: bits 0-7 are how many bytes are missing, 8-15 and 16-23 the least and the greatest value of the
 * next byte. 0 between characters. */
#define EXPECT(missing, least, greatest) \
        ((uint32_t)(missing) | (uint32_t)(least) << 8 | (uint32_t)(greatest) << 16)

/* Returns the state after the lead byte `c` (not ASCII); 0 when no character begins with it. */
static uint32_t expect_after(uint8_t c)
{
        if (c < 0xc2)
                return 0; /* a continuation, or the overlong C0 and C1 */
        if (c < 0xe0)
                return EXPECT(1, 0x80, 0xbf);
        if (c < 0xf0)
                return EXPECT(2, c == 0xe0 ? 0xa0 : 0x80, c == 0xed ? 0x9f : 0xbf);
        if (c < 0xf5)
                return EXPECT(3, c == 0xf0 ? 0x90 : 0x80, c == 0xf4 ? 0x8f : 0xbf);
        return 0;
}

/* Takes one further byte of a character. Returns false when it does not fit. */
static bool step(uint32_t *state, uint8_t c)
{
        uint32_t missing = *state & 0xff, least = *state >> 8 & 0xff, greatest = *state >> 16;

        if (c < least || c > greatest)
                return false;
        *state = missing > 1 ? EXPECT(missing - 1, 0x80, 0xbf) : 0;
        return true;
}

static uint64_t load64(const char *p)
{
        uint64_t v;

        memcpy(&v, p, sizeof(v));
        return v;
}

/* Returns the first byte that is not ASCII, or `end`. Checks 32 bytes at a time, which compilers turn into vectors. */
static const char *skip_ascii(const char *p, const char *end)
{
        const uint64_t high = 0x8080808080808080U;

        while (end - p >= 32 && !((load64(p) | load64(p + 8) | load64(p + 16) | load64(p + 24)) & high))
                p += 32;
        while (end - p >= 8 && !(load64(p) & high))
                p += 8;
        while (p < end && !(*p & 0x80))
                p++;
        return p;
}

size_t utf8_sequence(const char *p, size_t n)
{
        if (n == 0)
                return 0;
        if (!(*p & 0x80))
                return 1;

        uint32_t state = expect_after((uint8_t)*p);
        size_t length = 1 + (state & 0xff);
        if (state == 0 || length > n)
                return 0;
        for (size_t i = 1; i < length; i++)
                if (!step(&state, (uint8_t)p[i]))
                        return 0;
        return length;
}

size_t utf8_encode(uint32_t c, char ret[static 4])
{
        size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        static const uint8_t leads[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

        for (size_t i = n - 1; i > 0; i--, c >>= 6)
                ret[i] = (char)(0x80 | (c & 63));
        ret[0] = (char)(leads[n] | c);
        return n;
}

bool utf8_feed(uint32_t *state, struct slice piece)
{
        if (piece.n == 0)
                return true;

        const char *p = piece.p, *end = piece.p + piece.n;
        for (;;) {
                for (; *state != 0; p++) {
                        if (p == end)
                                return true;
                        if (!step(state, (uint8_t)*p))
                                return false;
                }

                /* Text that is not ASCII tends to stay so: looking for a run of ASCII after each character
                 * would cost more than it gains. */
                if (p < end && !(*p & 0x80))
                        p = skip_ascii(p, end);
                if (p == end)
                        return true;
                *state = expect_after((uint8_t)*p++);
                if (*state == 0)
                        return false;
        }
}

bool utf8_is_valid(struct slice s)
{
        uint32_t state = 0;

        return utf8_feed(&state, s) && utf8_is_complete(state);
}
