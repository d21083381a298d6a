/* version: the versions of the protocol, newest first. */
#include "mcp/version.h"

static const struct mcp_version versions[] = {
        { .name = "2025-11-25", .has_greeting = true, .has_annotations = true, .has_structured = true },
        { .name = "2025-06-18", .has_annotations = true, .has_structured = true },
        { .name = "2025-03-26", .has_batches = true, .has_annotations = true },
        { .name = "2024-11-05" },
};

const struct mcp_version *mcp_version_find(struct slice name)
{
        for (size_t i = 0; i < ARRAY_LEN(versions); i++)
                if (slice_eq(name, slice_from_str(versions[i].name)))
                        return &versions[i];
        return NULL;
}

const struct mcp_version *mcp_version_choose(struct slice asked)
{
        const struct mcp_version *found = mcp_version_find(asked);
        return found ? found : &versions[0];
}
