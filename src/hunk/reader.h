/* reader: bytes that are read from the beginning to the end, and from the beginning again: the old text of a file that a patch
 * changes.
 *
 * The file lies on another machine and may be larger than memory, so everything that looks at it reads it in sequence. Readers
 * stack: edits over a reader are a reader again (edits.h). A reader does not own what it reads.
 */
#pragma once

#include "base/compat.h"
#include "base/err.h"
#include "base/slice.h"

#include <sys/types.h>

struct reader {
        int (*rewind)(void *arg,
                      struct err *err); /* the next read begins with the first byte; 0 or err->code */
        /* Returns how many bytes were read (fewer than `n` do not mean the end), 0 at the end, or err->code, which is negative. */
        ssize_t (*read)(void *arg, char *buf, size_t n, struct err *err);
        void *arg;
};

static inline int reader_rewind(const struct reader *r, struct err *err)
{
        return r->rewind(r->arg, err);
}

static inline ssize_t reader_read(const struct reader *r, char *buf, size_t n, struct err *err)
{
        return r->read(r->arg, buf, n, err);
}

/* Sets the error of a text that has changed between two reads. Returns -ESTALE. */
int reader_fail_changed(struct err *err);

/* Bytes in memory, which the caller keeps until the reader is not used any more. */
struct text_reader {
        struct slice text;
        size_t position;
};

/* Returns a reader of the text; *t belongs to the caller and must outlive it. */
NODISCARD struct reader reader_from_text(struct text_reader *t, struct slice text);
