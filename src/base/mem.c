/* mem: allocation that ends the program instead of failing. */
#include "base/mem.h"

#include <malloc.h>
#include <stdarg.h>
#include <sys/mman.h>

#define STEP_BYTES ((size_t)1 << 20)

NORETURN static void out_of_memory(void)
{
        fatal("out of memory", 0);
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

char *slice_dup(struct slice s)
{
        size_t size;
        must(!ckd_add(&size, s.n, 1));

        char *copy = mem_alloc(size);
        if (s.n > 0)
                memcpy(copy, s.p, s.n);
        copy[s.n] = '\0';
        return copy;
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

void mem_free_slowly(void *p)
{
        const uintptr_t page = 4096; /* where pages are larger, madvise refuses, and free gives all back */
        uintptr_t at = ((uintptr_t)p + page - 1) & ~(page - 1);
        uintptr_t end = ((uintptr_t)p + malloc_usable_size(p)) & ~(page - 1);
        for (; p && at < end; at += MIN(end - at, (uintptr_t)STEP_BYTES))
                (void)madvise((void *)at, MIN(end - at, (size_t)STEP_BYTES), MADV_DONTNEED);
        free(p);
}
