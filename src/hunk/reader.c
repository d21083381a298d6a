/* reader: the reader of bytes in memory, and the error of a text that changes while it is read. */
#include "hunk/reader.h"

#include <errno.h>

int reader_fail_changed(struct err *err)
{
        return err_set(err, 0, -ESTALE, "the file has changed while it was read");
}

static int text_rewind(void *arg, UNUSED struct err *err)
{
        struct text_reader *t = arg;

        t->position = 0;
        return 0;
}

static ssize_t text_read(void *arg, char *buf, size_t n, UNUSED struct err *err)
{
        struct text_reader *t = arg;
        size_t take = MIN(n, t->text.n - t->position);

        if (take)
                memcpy(buf, t->text.p + t->position, take);
        t->position += take;
        return (ssize_t)take;
}

struct reader reader_from_text(struct text_reader *t, struct slice text)
{
        *t = (struct text_reader){ .text = text };
        return (struct reader){ text_rewind, text_read, t };
}
