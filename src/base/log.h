/* log: one line per event on stderr, as text or JSON.
 *
 * log_info("process exited", "session=%s proc=%s code=%d", …) prints `process exited session=… proc=… code=…` (with
 * time and level in front), or {"time":…,"level":"info","event":"process exited","session":"…",…}: the detail format
 * must be `key=value` pairs separated by one space. In text a value with blanks is shown in quotes; in JSON an integer is a
 * number, but what log_quote has made is always a string. Values from outside go through log_quote. Never: file contents,
 * environment values, tokens, process output.
 */
#pragma once

#include "base/compat.h"
#include "base/slice.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF };
enum log_format { LOG_TEXT, LOG_JSON };

void log_set_level(enum log_level level);
void log_set_format(enum log_format format);
NODISCARD int log_level_parse(
        struct slice name,
        enum log_level *ret); /* "debug", "info", "warn", "error" or "off"; others: -EINVAL */
NODISCARD int log_format_parse(struct slice name,
                               enum log_format *ret); /* "text" or "json"; others: -EINVAL */

bool log_wants(enum log_level level);
void log_event(enum log_level level, int code, const char *event, const char *fmt, ...) PRINTF_LIKE(4, 5);

#define log_at(level, code, event, ...)                                 \
        do {                                                            \
                if (log_wants(level))                                   \
                        log_event(level, code, event, " " __VA_ARGS__); \
        } while (0)
#define log_debug(event, ...) log_at(LOG_DEBUG, 0, event, __VA_ARGS__)
#define log_info(event, ...) log_at(LOG_INFO, 0, event, __VA_ARGS__)
#define log_warn(event, ...) log_at(LOG_WARN, 0, event, __VA_ARGS__)
#define log_error(event, ...) log_at(LOG_ERROR, 0, event, __VA_ARGS__)
/* The _r forms append the error's name: error=ENOENT. */
#define log_warn_r(code, event, ...) log_at(LOG_WARN, code, event, __VA_ARGS__)
#define log_error_r(code, event, ...) log_at(LOG_ERROR, code, event, __VA_ARGS__)

/* Returns untrusted text as one value of a detail, between double quotes: printable ASCII is kept, quotes and backslashes get a
 * backslash, the rest becomes \xHH; cut at 200 bytes. The line shows the value without quotes where it is one plain word. The
 * result is in one of eight static buffers of the thread, which are used in turn. */
const char *log_quote(struct slice s);
/* As log_quote, but for texts that are no details: one printable word without quotes, in which blanks, quotes and backslashes
 * become \xHH too. */
const char *log_escape(struct slice s);
