/* file_text: the content of a file as a model gets it: some lines of a text, or an image. Pure. */
#pragma once

#include "base/buf.h"
#include "base/slice.h"

#define FILE_TEXT_BYTES ((size_t)256 * 1024) /* the most bytes of a text in one answer */

struct file_lines {
        uint64_t first, count, total; /* the lines that are in the text, from 1; how many the file has */
        bool is_utf8; /* the whole file is UTF-8; otherwise U+FFFD stands for bytes that are not */
        bool is_cut;  /* the last line is not whole: it alone is longer than the room */
};

/* Appends the lines from `first` on, `most` at most and FILE_TEXT_BYTES at most, as UTF-8. Returns 0 or -ENOBUFS. */
NODISCARD int file_lines_take(struct buf *out, struct slice bytes, uint64_t first, uint64_t most,
                              struct file_lines *ret);

/* Returns the type of an image by its first bytes: of PNG, JPEG, GIF or WebP; NULL: it is none of them. */
NODISCARD const char *file_image_type(struct slice bytes);
