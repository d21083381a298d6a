/* lines: the lines of a file, one after the other, as they are compared with those of a patch.
 *
 * A line ends with LF, CRLF or a lone CR; the last one may have no end. Lines are handed out as slices of one buffer of a fixed size. A
 * line that does not fit can be equal to a line of the patch only when most of it is white space at its ends: that white space is cut off.
 * Of any other line that does not fit only the offsets are known.
 */
#pragma once

#include "base/arena.h"
#include "hunk/reader.h"

#define LINE_TOO_LONG 3

struct line {
        struct slice text; /* without its end; valid until the next line is asked for */
        uint64_t offset;   /* of its first byte in the file */
        uint64_t next;     /* the offset behind its end */
        /* What `text` lacks. 0: nothing; 1: white space at the end of the line; 2: white space at the start, and perhaps at the end;
         * LINE_TOO_LONG: all, because the line has more than `longest` bytes between the white space at its ends. */
        unsigned cut;
};

struct lines {
        const struct reader *reader;
        struct slice terminator; /* the end of the first line; p is NULL until one was seen */
        bool is_open;            /* the last line that was handed out has no end */
        /* The rest is for lines.c. Positions in the buffer begin with 1; 0 is "not looked for". */
        char *buffer;
        size_t size, start, scan, end;
        size_t lf, cr; /* the first of each at or behind `scan`, or `end` */
        size_t longest;
        size_t content;  /* is_tail_cut: the bytes before the white space that was cut off */
        uint64_t offset; /* of the line at `start` */
        uint64_t cut;    /* bytes of that line that are not in the buffer any more */
        bool is_end, is_head_cut, is_tail_cut, is_too_long; /* `is_end`: the reader is at its end */
};

/* How much of the file is in the buffer beside lines of `longest` bytes. Tests take less, but at least LINES_ROOM_MIN. */
#define LINES_ROOM ((size_t)256 * 1024)
#define LINES_ROOM_MIN 4

/* Begins with the first line; the buffer lies in the arena. Lines with more than `longest` bytes between the white space at their ends
 * need not be told apart. Returns 0 or what the reader returns. */
NODISCARD int lines_begin(struct lines *l, struct arena *a, const struct reader *r, size_t longest,
                          size_t room, struct err *err);
/* Begins again with the first line, with the same buffer. */
NODISCARD int lines_rewind(struct lines *l, struct err *err);

/* Returns 1 with the next line, 0 at the end, or what the reader returns. */
NODISCARD int lines_next(struct lines *l, struct line *ret, struct err *err);
