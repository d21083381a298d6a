/* printable: writes control characters and broken bytes as escapes. */
#include "base/printable.h"

#include "base/utf8.h"

#include <stdio.h>

static uint32_t decode(const char *p, size_t n)
{
        static const uint8_t first_bits[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
        uint32_t c = (uint8_t)p[0] & first_bits[n];

        for (size_t i = 1; i < n; i++)
                c = c << 6 | ((uint8_t)p[i] & 0x3f);
        return c;
}

/* Returns whether a character is a control character, ends a line, or turns the direction of what follows. */
static bool is_control(uint32_t c)
{
        return c < ' ' || (c >= 0x7f && c < 0xa0) || c == 0x061c || c == 0x200e || c == 0x200f ||
               (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

size_t printable_char(struct slice s, char ret[static PRINTABLE_CHAR_BYTES])
{
        size_t n = utf8_sequence(s.p, s.n);
        uint32_t c = n > 0 ? decode(s.p, n) : (uint8_t)s.p[0];
        if (n > 0 && !is_control(c)) {
                memcpy(ret, s.p, n);
                ret[n] = '\0';
        } else {
                (void)snprintf(ret, PRINTABLE_CHAR_BYTES, n > 1 ? "\\u{%x}" : "\\x%02x", c);
        }
        return MAX(n, (size_t)1);
}

const char *printable_text(struct arena *a, struct slice s)
{
        static const char ellipsis[] = "\u2026";
        bool is_cut = s.n > PRINTABLE_BYTES_MAX;
        size_t room = MIN(s.n, (size_t)PRINTABLE_BYTES_MAX) * PRINTABLE_CHAR_BYTES + sizeof(ellipsis),
               used = 0;
        char *out = arena_alloc(a, room);

        for (size_t i = 0; i < s.n && i < PRINTABLE_BYTES_MAX;) {
                i += printable_char(slice_from(s.p + i, s.n - i), out + used);
                used += strlen(out + used);
        }
        memcpy(out + used, is_cut ? ellipsis : "", is_cut ? sizeof(ellipsis) : 1);
        return out;
}

const char *printable_json(struct arena *a, struct slice json)
{
        size_t escapes = 0, used = 0;
        for (size_t i = 0; i < json.n; i++)
                escapes += (uint8_t)json.p[i] >= 0x7f;
        char *out = arena_alloc(a, json.n + escapes * strlen("\\u0000") + 1);
        for (size_t i = 0; i < json.n;) {
                size_t n = utf8_sequence(json.p + i, json.n - i);
                uint32_t c = n > 0 ? decode(json.p + i, n) : 0xfffd;
                n = MAX(n, (size_t)1);
                if (c < ' ') {
                        out[used++] = ' ';
                } else if (!is_control(c) && c != 0xfffd) {
                        memcpy(out + used, json.p + i, n);
                        used += n;
                } else {
                        used += (size_t)snprintf(out + used, sizeof("\\u0000"), "\\u%04x", c);
                }
                i += n;
        }
        out[used] = '\0';
        return out;
}

const char *printable_str(struct arena *a, const char *s)
{
        return printable_text(a, slice_from_str(s));
}
