/* text: which bytes are white space, and which characters stand for others. */
#include "hunk/text.h"

/* White space and look-alikes are found by their bytes alone, without decoding the text around them: the first byte of a character is
 * never a later byte of another character, so the same bytes cannot mean something else in a text that is partly not UTF-8. */

static unsigned byte_at(const char *p, size_t i)
{
        return (unsigned char)p[i];
}

static bool is_ascii_space(unsigned c)
{
        return c == ' ' || (c >= '\t' && c <= '\r');
}

/* U+0085, U+00A0 */
static bool is_space_of_2(const char *p)
{
        return byte_at(p, 0) == 0xc2 && (byte_at(p, 1) == 0x85 || byte_at(p, 1) == 0xa0);
}

/* U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F, U+3000 */
static bool is_space_of_3(const char *p)
{
        unsigned a = byte_at(p, 0), b = byte_at(p, 1), c = byte_at(p, 2);

        if (a == 0xe2 && b == 0x80)
                return (c >= 0x80 && c <= 0x8a) || c == 0xa8 || c == 0xa9 || c == 0xaf;
        return (a == 0xe1 && b == 0x9a && c == 0x80) || (a == 0xe2 && b == 0x81 && c == 0x9f) ||
               (a == 0xe3 && b == 0x80 && c == 0x80);
}

size_t text_space_at_start(struct slice s)
{
        if (s.n >= 1 && is_ascii_space(byte_at(s.p, 0)))
                return 1;
        if (s.n >= 2 && is_space_of_2(s.p))
                return 2;
        return s.n >= 3 && is_space_of_3(s.p) ? 3 : 0;
}

size_t text_space_at_end(struct slice s)
{
        if (s.n >= 1 && is_ascii_space(byte_at(s.p, s.n - 1)))
                return 1;
        if (s.n >= 2 && is_space_of_2(s.p + s.n - 2))
                return 2;
        return s.n >= 3 && is_space_of_3(s.p + s.n - 3) ? 3 : 0;
}

struct slice text_trim_end(struct slice s)
{
        for (size_t n; (n = text_space_at_end(s)) > 0;)
                s.n -= n;
        return s;
}

struct slice text_trim_start(struct slice s)
{
        for (size_t n; (n = text_space_at_start(s)) > 0;)
                s = slice_from(s.p + n, s.n - n);
        return s;
}

struct slice text_trim(struct slice s)
{
        return text_trim_start(text_trim_end(s));
}

/* Returns what stands for the character of three bytes at p; 0: it stands for itself. */
static char look_alike_of_3(const char *p)
{
        unsigned a = byte_at(p, 0), b = byte_at(p, 1), c = byte_at(p, 2);

        if (a == 0xe2 && b == 0x80 && c >= 0x90 && c <= 0x95)
                return '-'; /* U+2010 to U+2015 */
        if (a == 0xe2 && b == 0x88 && c == 0x92)
                return '-'; /* U+2212 */
        if (a == 0xe2 && b == 0x80 && c >= 0x98 && c <= 0x9b)
                return '\''; /* U+2018 to U+201B */
        if (a == 0xe2 && b == 0x80 && c >= 0x9c && c <= 0x9f)
                return '"'; /* U+201C to U+201F */
        if (a == 0xe2 && b == 0x80 && ((c >= 0x82 && c <= 0x8a) || c == 0xaf))
                return ' '; /* U+2002 to U+200A, U+202F */
        if ((a == 0xe2 && b == 0x81 && c == 0x9f) || (a == 0xe3 && b == 0x80 && c == 0x80))
                return ' '; /* U+205F, U+3000 */
        return 0;
}

size_t text_map(struct slice s, char *ret)
{
        size_t n = 0;

        for (size_t i = 0; i < s.n;) {
                unsigned c = byte_at(s.p, i);
                char alike = 0;
                if ((c == 0xe2 || c == 0xe3) && s.n - i >= 3)
                        alike = look_alike_of_3(s.p + i);
                if (alike) {
                        ret[n++] = alike;
                        i += 3;
                } else if (c == 0xc2 && s.n - i >= 2 && byte_at(s.p, i + 1) == 0xa0) {
                        ret[n++] = ' '; /* U+00A0 */
                        i += 2;
                } else {
                        ret[n++] = s.p[i++];
                }
        }
        return n;
}
