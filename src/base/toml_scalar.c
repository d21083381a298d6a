/* toml_scalar: parses the strings, numbers and booleans of a TOML file.
 *
 * The closing quotes of a string are searched first, so that its size is known when it is decoded into the arena. Any other
 * value is a run of letters, digits and signs, which is read as a whole and then classified.
 */
#include "base/toml_internal.h"

#include "base/utf8.h"

#include <math.h>

#define NUMBER_BYTES_MAX 128 /* no meaningful number is longer */

/* ---- strings ---- */

/* Parses the digits behind \u or \U. The character is not longer than its escape, so the caller's room is enough. */
static bool parse_code_point(struct parser *ps, struct position at, int digits, char **out)
{
        uint32_t c = 0;

        for (int i = 0; i < digits; i++, ps->p++) {
                int v = toml_digit_value(toml_peek(ps));
                if (v > 15)
                        return toml_fail(ps, at, "expected %d hexadecimal digits in the escape", digits);
                c = c << 4 | (uint32_t)v;
        }
        if (c == 0)
                return toml_fail(ps, at, "a string cannot hold a NUL");
        if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
                return toml_fail(ps, at, "the escape is not a Unicode character");
        char bytes[4];
        size_t n = utf8_encode(c, bytes);
        memcpy(*out, bytes, n);
        *out += n;
        return true;
}

/* Parses what follows a backslash; `at` is the position of the backslash. */
static bool parse_escape(struct parser *ps, struct position at, bool is_multi, char **out)
{
        static const char names[] = "btnfr\"\\", meanings[] = "\b\t\n\f\r\"\\";
        int c = toml_peek(ps);

        if (is_multi) { /* a backslash at the end of a line: all blanks and line ends after it are skipped */
                const char *start = ps->p;
                toml_skip_blanks(ps);
                if (toml_accept_newline(ps)) {
                        do
                                toml_skip_blanks(ps);
                        while (toml_accept_newline(ps));
                        return true;
                }
                ps->p = start;
        }

        const char *name = c > 0 ? strchr(names, c) : NULL;
        if (name) {
                ps->p++;
                *(*out)++ = meanings[name - names];
                return true;
        }
        if (c != 'u' && c != 'U')
                return toml_fail(ps, at, "unknown escape in a string");
        ps->p++;
        return parse_code_point(ps, at, c == 'u' ? 4 : 8, out);
}

/* Returns the number of bytes up to the closing quotes, which the string cannot exceed; SIZE_MAX when there are no such quotes. */
static size_t string_size(const struct parser *ps, struct slice quotes, bool is_basic)
{
        for (const char *p = ps->p; ps->end - p >= (ptrdiff_t)quotes.n; p++) {
                if (memcmp(p, quotes.p, quotes.n) == 0)
                        return (size_t)(p - ps->p);
                if (*p == '\\' && is_basic)
                        p++;
                else if (*p == '\n' && quotes.n == 1)
                        break;
        }
        return SIZE_MAX;
}

bool toml_parse_string(struct parser *ps, struct slice *ret)
{
        struct position start = toml_here(ps);
        bool is_basic = toml_peek(ps) == '"';
        bool is_multi = toml_looking_at(ps, is_basic ? S("\"\"\"") : S("'''"));
        struct slice quotes = slice_from(ps->p, is_multi ? 3 : 1);

        ps->p += quotes.n;
        if (is_multi)
                toml_accept_newline(ps);
        size_t size = string_size(ps, quotes, is_basic);
        if (size == SIZE_MAX)
                return toml_fail(ps, start, "the string is not closed");

        /* Two quotes may stand before the closing ones, and a NUL follows. */
        char *text = arena_alloc(ps->arena, size + 3);
        char *out = text;
        while (!toml_looking_at(ps, quotes)) {
                if (is_multi && toml_accept_newline(ps)) {
                        *out++ = '\n';
                } else if (toml_is_control(toml_peek(ps))) {
                        return toml_fail(ps, toml_here(ps), "control character in a string");
                } else if (is_basic && toml_peek(ps) == '\\') {
                        struct position at = toml_here(ps);
                        ps->p++;
                        if (!parse_escape(ps, at, is_multi, &out))
                                return false;
                } else {
                        *out++ = *ps->p++;
                }
        }

        /* Of four or five quotes in a row the first are text. */
        for (int i = 0; is_multi && i < 2 && ps->end - ps->p > 3 && ps->p[3] == quotes.p[0]; i++)
                *out++ = *ps->p++;
        ps->p += quotes.n;
        *out = '\0';
        *ret = slice_from(text, (size_t)(out - text));
        return true;
}

/* ---- numbers ---- */

static bool is_decimal(char c)
{
        return c >= '0' && c <= '9';
}

/* Skips digits of `base`, with single underscores between digits, from *p on. Returns false when there are no digits or an
 * underscore is out of place. */
static bool scan_digits(const char **p, const char *end, int base)
{
        const char *start = *p;

        for (; *p < end; ++*p) {
                if (**p == '_' ? *p == start || (*p)[-1] == '_' : toml_digit_value((uint8_t) * *p) >= base)
                        break;
        }
        return *p > start && (*p)[-1] != '_';
}

/* Converts digits that were checked. Returns false when the number does not fit. */
static bool digits_to_integer(struct slice digits, int base, bool is_negative, int64_t *ret)
{
        uint64_t magnitude = 0, max = (uint64_t)INT64_MAX + is_negative;

        for (size_t i = 0; i < digits.n; i++) {
                if (digits.p[i] == '_')
                        continue;
                if (ckd_mul(&magnitude, magnitude, (uint64_t)base) ||
                    ckd_add(&magnitude, magnitude, (uint64_t)toml_digit_value((uint8_t)digits.p[i])) ||
                    magnitude > max)
                        return false;
        }
        *ret = is_negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
        return true;
}

/* Converts a decimal float that was checked. strtod uses the decimal point of the locale, which is always "C" in this program. */
static bool text_to_real(struct slice s, double *ret)
{
        char text[NUMBER_BYTES_MAX + 1];
        size_t n = 0;

        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] != '_')
                        text[n++] = s.p[i];
        text[n] = '\0';
        *ret = strtod(text, NULL);
        return !isinf(*ret);
}

static bool parse_radix(struct parser *ps, struct position at, struct slice token, struct toml *value)
{
        int base = token.p[1] == 'x' ? 16 : token.p[1] == 'o' ? 8 : 2;
        const char *p = token.p + 2, *end = token.p + token.n;

        if (!scan_digits(&p, end, base) || p != end)
                return toml_fail(ps, at, "not a number of base %d", base);
        value->type = TOML_INTEGER;
        if (!digits_to_integer(slice_from(token.p + 2, token.n - 2), base, false, &value->integer))
                return toml_fail(ps, at, "the integer does not fit into 64 bits");
        return true;
}

static bool parse_decimal(struct parser *ps, struct position at, struct slice token, struct toml *value)
{
        bool is_signed = token.p[0] == '+' || token.p[0] == '-';
        const char *digits = token.p + is_signed, *p = digits, *end = token.p + token.n;
        bool is_good = scan_digits(&p, end, 10) && (*digits != '0' || p - digits == 1);
        struct slice whole = slice_from(digits, (size_t)(p - digits));

        if (is_good && p == end) {
                value->type = TOML_INTEGER;
                if (!digits_to_integer(whole, 10, token.p[0] == '-', &value->integer))
                        return toml_fail(ps, at, "the integer does not fit into 64 bits");
                return true;
        }
        if (is_good && *p == '.') {
                p++;
                is_good = scan_digits(&p, end, 10);
        }
        if (is_good && p < end && (*p == 'e' || *p == 'E')) {
                p++;
                p += p < end && (*p == '+' || *p == '-');
                is_good = scan_digits(&p, end, 10);
        }
        if (!is_good || p != end)
                return toml_fail(ps, at, "not a number");
        value->type = TOML_FLOAT;
        if (!text_to_real(token, &value->real))
                return toml_fail(ps, at, "the number is too large");
        return true;
}

static bool is_date(struct slice s)
{
        size_t n = 0;

        while (n < s.n && is_decimal(s.p[n]))
                n++;
        return n < s.n && ((n == 4 && s.p[n] == '-') || (n == 2 && s.p[n] == ':'));
}

bool toml_parse_word(struct parser *ps, struct toml *value)
{
        struct position at = toml_here(ps);
        struct slice token = toml_take_word(ps, "_+-.:");
        if (token.n == 0)
                return toml_fail_expected(ps, "a value");
        if (token.n > NUMBER_BYTES_MAX)
                return toml_fail(ps, at, "not a value");

        if (slice_eq(token, S("true")) || slice_eq(token, S("false"))) {
                value->type = TOML_BOOL;
                value->boolean = token.n == 4;
                return true;
        }
        bool is_signed = token.p[0] == '+' || token.p[0] == '-';
        struct slice bare = slice_from(token.p + is_signed, token.n - is_signed);
        if (slice_eq(bare, S("inf")) || slice_eq(bare, S("nan"))) {
                value->type = TOML_FLOAT;
                value->real = bare.p[0] == 'n' ? (double)NAN : token.p[0] == '-' ? -HUGE_VAL : HUGE_VAL;
                return true;
        }
        if (is_date(token))
                return toml_fail(ps, at, "dates and times are not supported");
        if (bare.n == 0 || !is_decimal(bare.p[0]))
                return toml_fail(ps, at, "expected a value; a string needs quotes");
        if (!is_signed && token.n >= 2 && token.p[0] == '0' && strchr("xob", token.p[1]))
                return parse_radix(ps, at, token, value);
        return parse_decimal(ps, at, token, value);
}
