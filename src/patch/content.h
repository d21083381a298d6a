/* content: the bytes of a file, wherever they are: in memory, in a file of the server, or edits over other bytes.
 *
 * A content never changes. It lies in an arena, with all that it refers to.
 */
#pragma once

#include "base/arena.h"
#include "hunk/edits.h"
#include "hunk/reader.h"
#include "patch/ask.h"

#define CONTENT_LAYERS_MAX 256 /* edits over edits over …; a patch that makes more fails */

enum content_kind {
        CONTENT_TEXT,  /* `text` */
        CONTENT_FILE,  /* the file `path` of the server, as long as nobody changes it */
        CONTENT_EDITS, /* `edits` over `below` */
};

struct content {
        enum content_kind kind;
        uint64_t size;
        struct slice text;
        const char *path;
        const struct edits *edits;
        const struct content *below;
        unsigned layers; /* how many edits lie over each other */
};

NODISCARD const struct content *content_from_text(struct arena *a, struct slice text);
NODISCARD const struct content *content_from_file(struct arena *a, const char *path, uint64_t size);
NODISCARD const struct content *content_edited(struct arena *a, const struct content *below,
                                               const struct edits *edits);

/* Reads a content from its beginning, as often as wanted. Errors have the words of the server and its errno. */
struct content_reader;
NODISCARD struct content_reader *content_open(struct asks *s, const struct content *c, struct reader *ret);
struct content_reader *content_close(struct content_reader *r); /* NULL is fine; returns NULL */

/* Reads a whole content into the arena; -EFBIG when it has more than `max` bytes. */
NODISCARD int content_load(struct arena *a, struct asks *s, const struct content *c, uint64_t max,
                           struct slice *ret, struct err *err);
/* Writes a content to a file of the server, which exists and is emptied first. */
NODISCARD int content_store(struct asks *s, const struct content *c, const char *path, struct err *err);
