/* log: one line per event on stderr, as text or JSON.
 *
 * A line is put together on the stack and goes out in one write(2), so that lines of threads and of other
 * programs on the same descriptor do not mix. Logging never fails its caller: what cannot be written is lost,
 * errno is kept. Nor does it wait: lines for which a pipe or a terminal has no room are counted, and their number is logged
 * when there is room again. Clients can make the server log, and the pipe may not be read.
 *
 * Whatever the values hold, a line is printable ASCII and a JSON line is valid JSON: bytes that are not
 * printable are shown as \xHH, and a pair that has no room any more is left out whole. A value that log_quote has made is
 * a string, whatever it holds; a value without quotes that is an integer is a number in JSON.
 */
#include "base/log.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/errout.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>

#define LINE_BYTES PIPE_BUF /* the longest line: a pipe takes so much in one piece or not at all */
#define END_BYTES 64 /* details leave so much room, so that the error's name and the end of the line fit */
#define DETAIL_BYTES 3072
#define QUOTE_BYTES 200
#define NUMBER_DIGITS 15 /* every reader of JSON keeps integers of so many digits exactly */
#define QUOTE_BUFFERS 8

static const char *const level_names[] = {
        [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn",
        [LOG_ERROR] = "error", [LOG_OFF] = "off",
};
static const char *const format_names[] = { [LOG_TEXT] = "text", [LOG_JSON] = "json" };

static _Atomic enum log_level chosen_level = LOG_INFO;
static _Atomic enum log_format chosen_format = LOG_TEXT;
static _Atomic unsigned lost; /* how many lines were lost since the last one that was written */

struct line {
        char text[LINE_BYTES];
        size_t n, limit;
        bool is_full; /* a pair did not fit; nothing is added until the line is cut back to its last whole pair */
        bool is_json;
};

void log_set_level(enum log_level level)
{
        atomic_store_explicit(&chosen_level, level, memory_order_relaxed);
}

void log_set_format(enum log_format format)
{
        atomic_store_explicit(&chosen_format, format, memory_order_relaxed);
}

bool log_wants(enum log_level level)
{
        return level < LOG_OFF && level >= atomic_load_explicit(&chosen_level, memory_order_relaxed);
}

int log_level_parse(struct slice name, enum log_level *ret)
{
        size_t i = slice_find(name, level_names, ARRAY_LEN(level_names));
        if (i == ARRAY_LEN(level_names))
                return -EINVAL;
        *ret = (enum log_level)i;
        return 0;
}

int log_format_parse(struct slice name, enum log_format *ret)
{
        size_t i = slice_find(name, format_names, ARRAY_LEN(format_names));
        if (i == ARRAY_LEN(format_names))
                return -EINVAL;
        *ret = (enum log_format)i;
        return 0;
}

static bool is_printable(char c)
{
        return c >= ' ' && c <= '~';
}

/* Returns whether a character needs neither quotes nor an escape. */
static bool is_plain(char c)
{
        return is_printable(c) && c != ' ' && c != '"' && c != '\'' && c != '`' && c != '\\';
}

static void hex_escape(char out[4], char c)
{
        static const char hex[] = "0123456789abcdef";
        unsigned char byte = (unsigned char)c;

        out[0] = '\\';
        out[1] = 'x';
        out[2] = hex[byte >> 4];
        out[3] = hex[byte & 15];
}

static void put(struct line *l, struct slice s)
{
        if (l->is_full || s.n > l->limit - l->n) {
                l->is_full = true;
                return;
        }
        memcpy(l->text + l->n, s.p, s.n);
        l->n += s.n;
}

/* Appends text of any origin as printable ASCII. `is_raw`: quotes and backslashes are not escaped yet. Escapes such as \xHH are
 * the same text in both formats; only quotes differ. */
static void put_safe(struct line *l, struct slice s, bool is_raw)
{
        for (size_t i = 0; i < s.n; i++) {
                char c = s.p[i], escape[4];

                if (!is_printable(c)) {
                        hex_escape(escape, c);
                        put(l, l->is_json ? S("\\") : S(""));
                        put(l, slice_from(escape, sizeof(escape)));
                        continue;
                }
                if (c == '\\' && !is_raw && i + 1 < s.n && s.p[i + 1] == '"')
                        c = s.p[++i];
                if (c == '"' || (c == '\\' && (is_raw || l->is_json)))
                        put(l, S("\\"));
                put(l, slice_from(&c, 1));
        }
}

static bool is_integer(struct slice s)
{
        if (s.n > 1 && s.p[0] == '-')
                s = slice_from(s.p + 1, s.n - 1);
        if (s.n == 0 || s.n > NUMBER_DIGITS || (s.n > 1 && s.p[0] == '0'))
                return false;
        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] < '0' || s.p[i] > '9')
                        return false;
        return true;
}

static bool is_word(struct slice s)
{
        for (size_t i = 0; i < s.n; i++)
                if (!is_plain(s.p[i]))
                        return false;
        return true;
}

/* Appends one pair, or nothing when it does not fit. `value` has no quotes around it; `is_quoted`: it had quotes in the detail, so
 * that quotes and backslashes inside of it are already escaped. */
static void put_pair(struct line *l, struct slice key, struct slice value, bool is_quoted)
{
        size_t before = l->n;
        bool has_quotes = l->is_json ? is_quoted || !is_integer(value) : !is_word(value);

        put(l, l->is_json ? S(",\"") : S(" "));
        put_safe(l, key, true);
        put(l, l->is_json ? S("\":") : S("="));
        put(l, has_quotes ? S("\"") : S(""));
        put_safe(l, value, !is_quoted);
        put(l, has_quotes ? S("\"") : S(""));

        if (l->is_full) {
                l->n = before;
                l->is_full = false;
        }
}

/* Returns whether a word is `key=…`. A word without a key belongs to the value before it: that value has blanks, but was not
 * quoted. */
static bool has_key(struct slice word)
{
        return word.n > 1 && word.p[0] != '=' && memchr(word.p, '=', word.n);
}

/* Takes `key="…"`, as log_quote makes it, off the front of the detail. Returns false when the detail does not begin with that. */
static bool take_quoted(struct slice *detail, struct slice *ret_key, struct slice *ret_value)
{
        struct slice rest = *detail, key = slice_split(&rest, '=');
        if (!rest.p || key.n == 0 || memchr(key.p, ' ', key.n) || rest.n == 0 || rest.p[0] != '"')
                return false;
        for (size_t i = 1; i < rest.n; i++) {
                if (rest.p[i] == '\\') {
                        i++;
                } else if (rest.p[i] == '"') {
                        *ret_key = key;
                        *ret_value = slice_from(rest.p + 1, i - 1);
                        *detail = slice_from(rest.p + i + 1, rest.n - i - 1);
                        return true;
                }
        }
        return false;
}

/* Takes `key=value`, and the words without a key that follow, off the front of the detail. */
static void take_plain(struct slice *detail, struct slice *ret_key, struct slice *ret_value)
{
        struct slice pair = slice_split(detail, ' ');
        while (detail->n > 0) {
                struct slice rest = *detail, word = slice_split(&rest, ' ');
                if (has_key(word))
                        break;
                pair.n = (size_t)(word.p + word.n - pair.p);
                *detail = rest;
        }
        *ret_key = has_key(pair) ? slice_split(&pair, '=') : S("detail");
        *ret_value = pair;
}

static void put_details(struct line *l, struct slice detail)
{
        while (detail.n > 0) {
                struct slice key, value;
                if (detail.p[0] == ' ') {
                        detail = slice_from(detail.p + 1, detail.n - 1);
                } else if (take_quoted(&detail, &key, &value)) {
                        put_pair(l, key, value, true);
                } else {
                        take_plain(&detail, &key, &value);
                        put_pair(l, key, value, false);
                }
        }
}

static void put_time(struct line *l)
{
        int64_t ms = clock_unix_ms();
        time_t seconds = (time_t)(ms / 1000);
        struct tm tm;
        char text[64];

        if (!gmtime_r(&seconds, &tm))
                return;
        size_t n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
        int more = snprintf(text + n, sizeof(text) - n, ".%03dZ", (int)(ms % 1000));
        put(l, slice_from(text, n + (size_t)more));
}

static void put_head(struct line *l, enum log_level level, const char *event)
{
        put(l, l->is_json ? S("{\"time\":\"") : S(""));
        put_time(l);
        put(l, l->is_json ? S("\",\"level\":\"") : S(" "));
        put(l, slice_from_str(level_names[level]));
        put(l, l->is_json ? S("\",\"event\":\"") : S(" "));

        struct slice name = slice_from_str(event);
        name.n = MIN(name.n, (size_t)QUOTE_BYTES); /* names are short; but the end of the line must fit */
        put_safe(l, name, true);
        put(l, l->is_json ? S("\"") : S(""));
}

PRINTF_LIKE(5, 0)
static void make_line(struct line *l, enum log_level level, int code, const char *event, const char *fmt,
                      va_list ap)
{
        char detail[DETAIL_BYTES];

        l->n = 0;
        l->limit = LINE_BYTES - END_BYTES;
        l->is_full = false;
        l->is_json = atomic_load_explicit(&chosen_format, memory_order_relaxed) == LOG_JSON;

        int n = vsnprintf(detail, sizeof(detail), fmt, ap);
        put_head(l, level, event);
        if (n > 0)
                put_details(l, slice_from(detail, MIN((size_t)n, sizeof(detail) - 1)));
        l->limit = LINE_BYTES - 2;
        if (code != 0)
                put_pair(l, S("error"), slice_from_str(errno_name(code)), true);
        if (l->is_json)
                l->text[l->n++] = '}';
        l->text[l->n++] = '\n';
}

/* Writes the line of one event. Returns false when stderr had no room for it. */
PRINTF_LIKE(4, 0)
static bool send_event(enum log_level level, int code, const char *event, const char *fmt, va_list ap)
{
        struct line l;

        make_line(&l, level, code, event, fmt, ap);
        return errout_write(slice_from(l.text, l.n));
}

PRINTF_LIKE(1, 2) static bool send_lost(const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        bool is_sent = send_event(LOG_WARN, 0, "log lines lost", fmt, ap);
        va_end(ap);
        return is_sent;
}

void log_event(enum log_level level, int code, const char *event, const char *fmt, ...)
{
        int saved = errno;
        va_list ap;

        if (!log_wants(level))
                return;
        va_start(ap, fmt);
        bool is_sent = send_event(level, code, event, fmt, ap);
        va_end(ap);

        /* There is room again: logs how many lines were lost, or goes on counting if that fails. */
        unsigned count = is_sent ? atomic_exchange_explicit(&lost, 0, memory_order_relaxed) : 1;
        if (count > 0 && (!is_sent || !send_lost("count=%u", count)))
                atomic_fetch_add_explicit(&lost, count, memory_order_relaxed);
        errno = saved;
}

/* Writes `s` between two `quote`s (0: none) into the next of the rotating buffers, and returns that buffer. */
static const char *quote_in(struct slice s, char quote)
{
        static _Thread_local char buffers[QUOTE_BUFFERS][QUOTE_BYTES + 3];
        static _Thread_local unsigned turn;
        char *out = buffers[turn++ % QUOTE_BUFFERS], *to = out;
        size_t used = 0;

        if (quote)
                *to++ = quote;
        for (size_t i = 0; i < s.n; i++) {
                char c = s.p[i], shown[4] = { c };
                size_t bytes = 1;

                if (quote && (c == '"' || c == '\\')) {
                        shown[0] = '\\';
                        shown[1] = c;
                        bytes = 2;
                } else if (quote ? !is_printable(c) : !is_plain(c)) {
                        hex_escape(shown, c);
                        bytes = sizeof(shown);
                }
                if (bytes > QUOTE_BYTES - used)
                        break;
                memcpy(to, shown, bytes);
                to += bytes;
                used += bytes;
        }
        if (quote)
                *to++ = quote;
        *to = '\0';
        return out;
}

const char *log_quote(struct slice s)
{
        return quote_in(s, '"');
}

const char *log_escape(struct slice s)
{
        return quote_in(s, '\0');
}
