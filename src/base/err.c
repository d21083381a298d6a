/* err: fills errors with a text, which is cut between characters where it does not fit. */
#include "base/err.h"

#include "base/fatal.h"
#include "base/slice.h"

#include <stdarg.h>

/* Returns the length of the text without a UTF-8 character that the end of the buffer has cut: JSON must be UTF-8. */
static size_t without_half_character(const char *text, size_t n)
{
        size_t tail = 0; /* continuation bytes at the end */
        while (tail < 3 && tail < n && ((unsigned char)text[n - 1 - tail] & 0xc0) == 0x80)
                tail++;
        if (tail == n)
                return n;

        unsigned char lead = (unsigned char)text[n - 1 - tail];
        size_t wanted = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
        return wanted > tail ? n - 1 - tail : n;
}

/* Prints as vsnprintf does, but cuts between characters. Returns the length of the text in `out`. */
PRINTF_LIKE(3, 0) static size_t format(char *out, size_t size, const char *fmt, va_list ap)
{
        int n = vsnprintf(out, size, fmt, ap);
        size_t length = n < 0 ? 0 : MIN((size_t)n, size - 1);

        if (n > 0 && (size_t)n > length)
                length = without_half_character(out, length);
        out[length] = '\0';
        return length;
}

int err_set(struct err *err, int client_code, int code, const char *fmt, ...)
{
        /* The text is not made in err->text, because err->text may be among the arguments. */
        char text[ERR_TEXT_BYTES];
        va_list ap;

        must(code != 0);
        va_start(ap, fmt);
        size_t n = format(text, sizeof(text), fmt, ap);
        va_end(ap);

        err->code = code;
        err->client_code = client_code;
        memcpy(err->text, text, n + 1);
        return code;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
        char context[ERR_TEXT_BYTES];
        va_list ap;

        va_start(ap, fmt);
        size_t n = format(context, sizeof(context) - 2, fmt, ap);
        va_end(ap);
        memcpy(context + n, ": ", 2);
        n += 2;

        size_t old = strlen(err->text), kept = MIN(old, ERR_TEXT_BYTES - 1 - n);
        if (kept < old)
                kept = without_half_character(err->text, kept);
        memmove(err->text + n, err->text, kept);
        memcpy(err->text, context, n);
        err->text[n + kept] = '\0';
        return err->code;
}
