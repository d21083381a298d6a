/* discover: plugins and skills below a root (PROTOCOL.md 8.4, capabilityRoots/discoverV1). */
#pragma once

#include "base/arena.h"
#include "fsop/fsop.h"

struct found_file {
        struct slice path; /* absolute; in the arena */
        struct slice contents;
};

struct found_skill {
        struct found_file instructions;
        bool has_metadata;
        struct found_file metadata;
};

struct discovery {
        bool has_plugin, has_mcp_config, has_apps_config;
        struct found_file manifest, mcp_config, apps_config;
        struct found_skill *skills;
        size_t skill_count;
        struct found_file *namespace_manifests;
        size_t namespace_count;
        const char **warnings;
        size_t warning_count;
        const char *error; /* the root is unusable; NULL otherwise */
};

void fsop_discover(struct arena *a, const char *root, struct discovery *ret);
