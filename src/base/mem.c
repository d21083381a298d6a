/* mem: allocation that does not fail.
 *
 * The last words go out with write(2): stdio may want memory, and the one thing known here is that there is
 * none.
 */
#include "base/mem.h"

#include <stdarg.h>
#include <unistd.h>

NORETURN static void out_of_memory(void)
{
        static const char text[] = "fatal: out of memory\n";
        ssize_t r = write(STDERR_FILENO, text, sizeof(text) - 1);
        (void)r; /* there is nobody left to tell */
        abort();
}

/* malloc(0) may give NULL, which would look like failure. */
static size_t at_least_one(size_t n)
{
        return n > 0 ? n : 1;
}

void *mem_alloc(size_t n)
{
        void *p = malloc(at_least_one(n));
        if (!p)
                out_of_memory();
        return p;
}

void *mem_zalloc(size_t n)
{
        void *p = calloc(1, at_least_one(n));
        if (!p)
                out_of_memory();
        return p;
}

void *mem_realloc(void *p, size_t n)
{
        p = realloc(p, at_least_one(n));
        if (!p)
                out_of_memory();
        return p;
}

char *mem_strdup(const char *s)
{
        return s ? slice_dup(slice_from_str(s)) : NULL;
}

char *mem_printf(const char *fmt, ...)
{
        va_list ap;
        char *text;

        va_start(ap, fmt);
        int n = vasprintf(&text, fmt, ap);
        va_end(ap);
        if (n < 0)
                out_of_memory();
        return text;
}

void must_failed(const char *cond, const char *file, int line)
{
        char text[512];
        int n = snprintf(text, sizeof(text), "fatal: %s:%d: must(%s)\n", file, line, cond);

        if (n > 0) {
                ssize_t r = write(STDERR_FILENO, text, MIN((size_t)n, sizeof(text) - 1));
                (void)r; /* abort() says it too */
        }
        abort();
}
