/* log: one line per event on stderr, as text or JSON.
 *
 * A line is put together on the stack and goes out in one write(2), so that lines of threads and of other
 * programs on the same descriptor do not mix. Logging never fails its caller: what cannot be written is lost,
 * errno is kept.
 *
 * Whatever the values hold, a line is printable ASCII and a JSON line is valid JSON: bytes that are not
 * printable are shown as \xHH, and a pair that has no room any more is left out whole.
 */
#include "base/log.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#define LINE_BYTES 8192
#define END_BYTES 64 /* kept free of details: the error's name and the end of the line always fit */
#define DETAIL_BYTES 4096
#define QUOTE_BYTES 200
#define QUOTE_BUFFERS 8

static const char *const level_names[] = {
        [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn",
        [LOG_ERROR] = "error", [LOG_OFF] = "off",
};
static const char *const format_names[] = { [LOG_TEXT] = "text", [LOG_JSON] = "json" };

static _Atomic enum log_level chosen_level = LOG_INFO;
static _Atomic enum log_format chosen_format = LOG_TEXT;

struct line {
        char text[LINE_BYTES];
        size_t n, limit;
        bool full; /* something did not fit; nothing more is added until the writer has gone back */
        bool json;
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

static int name_index(const char *const *names, size_t count, struct slice name)
{
        for (size_t i = 0; i < count; i++)
                if (slice_eq(slice_from_str(names[i]), name))
                        return (int)i;
        return -EINVAL;
}

int log_level_parse(struct slice name, enum log_level *ret)
{
        int i = name_index(level_names, ARRAY_LEN(level_names), name);
        if (i < 0)
                return i;
        *ret = (enum log_level)i;
        return 0;
}

int log_format_parse(struct slice name, enum log_format *ret)
{
        int i = name_index(format_names, ARRAY_LEN(format_names), name);
        if (i < 0)
                return i;
        *ret = (enum log_format)i;
        return 0;
}

static bool is_printable(char c)
{
        return c >= ' ' && c <= '~';
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
        if (l->full || s.n > l->limit - l->n) {
                l->full = true;
                return;
        }
        memcpy(l->text + l->n, s.p, s.n);
        l->n += s.n;
}

/* Text from anywhere: see the head of this file. */
static void put_safe(struct line *l, struct slice s)
{
        for (size_t i = 0; i < s.n; i++) {
                char c = s.p[i], escape[4];

                if (l->json && (c == '"' || c == '\\'))
                        put(l, S("\\"));
                if (is_printable(c)) {
                        put(l, slice_from(&c, 1));
                        continue;
                }
                hex_escape(escape, c);
                if (l->json)
                        put(l, S("\\"));
                put(l, slice_from(escape, sizeof(escape)));
        }
}

static void put_pair(struct line *l, struct slice key, struct slice value)
{
        size_t before = l->n;

        put(l, l->json ? S(",\"") : S(" "));
        put_safe(l, key);
        put(l, l->json ? S("\":\"") : S("="));
        put_safe(l, value);
        if (l->json)
                put(l, S("\""));

        if (l->full) {
                l->n = before;
                l->full = false;
        }
}

/* A word is `key=…`; one without a key (a value that was not quoted) belongs to the value before it. */
static bool has_key(struct slice word)
{
        return word.n > 1 && word.p[0] != '=' && memchr(word.p, '=', word.n);
}

/* The key=value pairs of the detail. */
static void put_details(struct line *l, struct slice detail)
{
        while (detail.n > 0) {
                struct slice pair = slice_split(&detail, ' ');

                if (pair.n == 0)
                        continue;
                while (detail.n > 0) {
                        struct slice rest = detail, word = slice_split(&rest, ' ');
                        if (has_key(word))
                                break;
                        pair.n = (size_t)(word.p + word.n - pair.p);
                        detail = rest;
                }

                struct slice value = pair, key = S("detail");
                if (has_key(pair))
                        key = slice_split(&value, '=');
                put_pair(l, key, value);
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
        put(l, l->json ? S("{\"time\":\"") : S(""));
        put_time(l);
        put(l, l->json ? S("\",\"level\":\"") : S(" "));
        put(l, slice_from_str(level_names[level]));
        put(l, l->json ? S("\",\"event\":\"") : S(" "));

        struct slice name = slice_from_str(event);
        name.n = MIN(name.n, (size_t)QUOTE_BYTES); /* a literal, and short; but the line must close */
        put_safe(l, name);
        put(l, l->json ? S("\"") : S(""));
}

void log_event(enum log_level level, int code, const char *event, const char *fmt, ...)
{
        int saved = errno;
        char detail[DETAIL_BYTES];
        struct line l;
        va_list ap;

        if (!log_wants(level))
                return;
        l.n = 0;
        l.limit = LINE_BYTES - END_BYTES;
        l.full = false;
        l.json = atomic_load_explicit(&chosen_format, memory_order_relaxed) == LOG_JSON;

        va_start(ap, fmt);
        int n = vsnprintf(detail, sizeof(detail), fmt, ap);
        va_end(ap);

        put_head(&l, level, event);
        if (n > 0)
                put_details(&l, slice_from(detail, MIN((size_t)n, sizeof(detail) - 1)));
        l.limit = LINE_BYTES - 2;
        if (code != 0)
                put_pair(&l, S("error"), slice_from_str(errno_name(code)));
        if (l.json)
                l.text[l.n++] = '}';
        l.text[l.n++] = '\n';

        ssize_t r;
        do
                r = write(STDERR_FILENO, l.text, l.n);
        while (r < 0 && errno == EINTR);
        errno = saved;
}

const char *log_quote(struct slice s)
{
        static _Thread_local char buffers[QUOTE_BUFFERS][QUOTE_BYTES + 1];
        static _Thread_local unsigned turn;
        char *out = buffers[turn++ % QUOTE_BUFFERS];
        size_t n = 0;

        for (size_t i = 0; i < s.n; i++) {
                char c = s.p[i], escape[4];
                bool plain = is_printable(c) && c != ' ' && c != '"' && c != '\'' && c != '`' && c != '\\';
                size_t bytes = plain ? 1 : sizeof(escape);

                if (bytes > QUOTE_BYTES - n)
                        break;
                if (plain)
                        escape[0] = c;
                else
                        hex_escape(escape, c);
                memcpy(out + n, escape, bytes);
                n += bytes;
        }
        out[n] = '\0';
        return out;
}
