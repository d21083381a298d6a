/* url_text: cleaning, percent-decoding and splitting of URLs, for file: URIs and for web URLs. */
#include "base/url_text.h"

struct slice url_clean(struct arena *a, struct slice text)
{
        while (text.n > 0 && (uint8_t)text.p[0] <= ' ')
                text = url_skip(text, 1);
        while (text.n > 0 && (uint8_t)text.p[text.n - 1] <= ' ')
                text.n--;

        char *copy = arena_alloc(a, text.n + 1);
        size_t n = 0;
        for (size_t i = 0; i < text.n; i++)
                if (text.p[i] != '\t' && text.p[i] != '\n' && text.p[i] != '\r')
                        copy[n++] = text.p[i];
        return slice_from(copy, n);
}

size_t url_scheme_length(struct slice s)
{
        size_t n = 0;

        if (s.n == 0 || !url_is_alpha(s.p[0]))
                return 0;
        while (n < s.n &&
               (url_is_alpha(s.p[n]) || url_is_digit(s.p[n]) || strchr("+-.", s.p[n] ? s.p[n] : '/')))
                n++;
        return n < s.n && s.p[n] == ':' ? n : 0;
}

struct slice url_lower(struct arena *a, struct slice s)
{
        char *lower = arena_dup(a, s);
        for (size_t i = 0; i < s.n; i++)
                lower[i] = ascii_lower(lower[i]);
        return slice_from(lower, s.n);
}

size_t url_percent_decode(char *out, struct slice s)
{
        size_t n = 0;

        for (size_t i = 0; i < s.n; i++) {
                int high = s.p[i] == '%' && s.n - i > 2 ? ascii_hex_value(s.p[i + 1]) : -1;
                int low = high >= 0 ? ascii_hex_value(s.p[i + 2]) : -1;
                if (low < 0) {
                        out[n++] = s.p[i];
                        continue;
                }
                out[n++] = (char)(high << 4 | low);
                i += 2;
        }
        return n;
}

unsigned url_count_dots(struct slice segment)
{
        unsigned dots = 0;

        while (segment.n > 0) {
                size_t n = segment.p[0] == '.' ? 1 : 0;
                if (segment.n >= 3 && slice_eq_nocase(slice_from(segment.p, 3), S("%2e")))
                        n = 3;
                if (n == 0 || dots == 2)
                        return 0;
                dots++;
                segment = url_skip(segment, n);
        }
        return dots;
}
