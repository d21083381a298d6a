/* version: the versions of the Model Context Protocol that `farhand mcp` speaks, and what each of them has. Pure. */
#pragma once

#include "base/slice.h"

struct mcp_version {
        const char *name;
        bool has_greeting;    /* streams over HTTP begin with an empty event */
        bool has_batches;     /* several messages in one line, as an array */
        bool has_annotations; /* tools say whether they change anything */
        bool has_structured;  /* tools have titles and output schemas, and results have a structured form */
};

/* Returns the version to speak with a client that asks for that one: the same, or the newest when it is not known. */
const struct mcp_version *mcp_version_choose(struct slice asked);
/* Returns NULL when there is no such version. */
const struct mcp_version *mcp_version_find(struct slice name);
