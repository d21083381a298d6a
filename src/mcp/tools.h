/* tools: the list of the tools of `farhand mcp`, as its clients see it: names, descriptions, schemas. Pure. */
#pragma once

#include "mcp/version.h"
#include "unified/args.h"
#include "wire/jsonw.h"

/* What the list depends on. */
struct tools_offer {
        const struct mcp_version *version;
        const char *const *
                environments; /* ids, ending with NULL; the first one is the primary one. One alone is not named */
        bool is_read_only; /* commands can change nothing */
        bool can_wish;     /* calls may wish for more permissions */
        bool is_reference; /* the tool shell alone, and no more about it than the reference tells */
};

/* Writes the array of the tools. */
void tools_write(struct jsonw *w, const struct tools_offer *offer);
