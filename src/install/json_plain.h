/* json_plain: a JSON text whose comments and last commas are blanks, so that the JSON reader takes it. Every byte keeps its offset. Pure. */
#pragma once

#include "install/entry.h"
#include "wire/json.h"

/* What a byte was before it became a blank. */
enum json_mark { MARK_NONE, MARK_LINE, MARK_BLOCK, MARK_COMMA };

struct json_plain {
        struct slice text; /* as it came */
        const char *plain;
        const uint8_t *marks; /* enum json_mark for each byte */
        struct json_doc doc;  /* its root is an object */
};

/* Returns 0 or -EINVAL. */
NODISCARD int json_plain_parse(struct arena *a, struct slice text, enum config_form form,
                               struct json_plain *ret, struct err *err);

static inline bool json_is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
