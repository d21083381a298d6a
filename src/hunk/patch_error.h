/* patch_error: why a patch cannot be applied, in the words of the reference program. */
#pragma once

#include "base/arena.h"
#include "base/slice.h"

enum patch_error_kind {
        PATCH_ERROR_TEXT,    /* the text as a whole is no patch */
        PATCH_ERROR_HUNK,    /* one line is wrong: `line` */
        PATCH_ERROR_CONTEXT, /* place.h: the text behind an @@ is not in the file */
        PATCH_ERROR_LINES,   /* place.h: the old lines of a chunk are not in the file */
        PATCH_ERROR_READ,    /* place.h: the file could not be read */
};

struct patch_error {
        enum patch_error_kind kind;
        size_t line;          /* of the patch, from 1 at *** Begin Patch; 0: not known */
        struct slice message; /* without what the kind puts in front; in the arena, with a NUL behind it */
};

/* Returns the error as the program apply_patch prints it, without LF: "Invalid patch: …". */
NODISCARD const char *patch_error_text(struct arena *a, const struct patch_error *error);
/* Returns the error as the tool of an agent tells it to the model, without its prefix: "invalid patch: …". */
NODISCARD const char *patch_error_tool_text(struct arena *a, const struct patch_error *error);
