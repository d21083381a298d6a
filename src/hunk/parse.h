/* parse: the text of a patch to the operations on files that it asks for.
 *
 *     *** Begin Patch
 *     *** Update File: hello
 *     @@ int main(void)
 *              first();
 *     -        second();
 *     +        third();
 *     *** Add File: NEWS
 *     +text
 *     *** End Patch
 *
 * The grammar and the words of the errors are those of the reference program, byte for byte: models were taught with them. Nothing
 * here looks at a file. A patch need not be UTF-8, and a path may have any bytes: callers that demand more check for it.
 *
 * Every slice points into the text of the patch, which must live as long as the result; the arrays lie in the arena. Lines never
 * hold an LF; a CR before it is not part of them.
 */
#pragma once

#include "base/arena.h"
#include "base/slice.h"
#include "hunk/patch_error.h"

enum patch_line_kind { PATCH_LINE_CONTEXT, PATCH_LINE_REMOVED, PATCH_LINE_ADDED };

struct patch_line {
        enum patch_line_kind kind;
        struct slice text; /* without the sign in front */
};

/* One place of an update. There is at least one line. The old lines, context and removed, are what is looked for in the file. */
struct patch_chunk {
        struct slice context; /* the text behind "@@ "; p is NULL when there is none */
        struct patch_line *lines;
        size_t line_count;
        size_t old_count;    /* context lines and removed lines */
        bool is_end_of_file; /* the old lines must be the last ones of the file */
        size_t line;         /* the number of its first line in the patch */
};

enum hunk_kind { HUNK_ADD, HUNK_DELETE, HUNK_UPDATE };

/* What is to be done with one file. */
struct hunk {
        enum hunk_kind kind;
        struct slice path;    /* never empty; relative or absolute, as spelled */
        struct slice move_to; /* HUNK_UPDATE: where the result goes; p is NULL when it stays */
        struct slice *added;  /* HUNK_ADD: the lines */
        size_t added_count;
        struct patch_chunk *chunks; /* HUNK_UPDATE: at least one */
        size_t chunk_count;
        size_t line; /* the number of its header line in the patch */
};

struct patch {
        struct slice environment_id; /* p is NULL when there is none; never empty */
        struct hunk *hunks;          /* there may be none: such a patch is parsed, but cannot be applied */
        size_t hunk_count;
};

/* Returns 0, or -EINVAL with *ret_error. A text above LIMIT_PATCH_BYTES is -EINVAL, too. */
NODISCARD int patch_parse(struct arena *a, struct slice text, struct patch *ret,
                          struct patch_error *ret_error);

/* Returns the content of a new file: the lines of a HUNK_ADD, each with an LF. */
NODISCARD struct slice hunk_added_text(struct arena *a, const struct hunk *h);
