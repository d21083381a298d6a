/* discover: plugins and skills below a root (PROTOCOL.md 8.4, capabilityRoots/discoverV1).
 *
 * One walk finds the names: SKILL.md, and the manifests in .codex-plugin, .claude-plugin and .cursor-plugin. Files are
 * regular, UTF-8 and bounded, one by one and together; every other problem is a warning in the words that clients know.
 * Links are followed; nothing waits for a FIFO.
 */
#pragma once

#include "base/arena.h"
#include "fsop/fsop.h"

#define DISCOVER_FILE_BYTES (1024 * 1024) /* one file; beyond: a warning instead */
#define DISCOVER_ROOT_BYTES \
        (16 * 1024 * 1024) /* all files of a root; one that does not fit: a warning instead */
#define DISCOVER_DEPTH 6   /* of the walk, with the next two; beyond: one warning */
#define DISCOVER_DIRECTORIES 2000
#define DISCOVER_ENTRIES 20000

struct found_file {
        struct slice path;     /* absolute; in the arena, with a NUL behind it */
        struct slice contents; /* UTF-8; BUF_PADDING readable bytes behind it, zeros */
};

struct found_skill {
        struct found_file instructions;
        bool has_metadata;
        struct found_file metadata;
};

struct discovery {
        bool has_plugin, has_mcp_config, has_apps_config;
        struct found_file manifest, mcp_config, apps_config;
        struct found_skill *skills; /* sorted by URI */
        size_t skill_count;
        struct found_file
                *namespace_manifests; /* the root's or its nearest ancestor's first, the rest by URI */
        size_t namespace_count;
        const char **warnings; /* in the order of discovery */
        size_t warning_count;
        const char *error; /* the root is unusable; NULL otherwise */
};

/* What a manifest says of one of its members. JSON is not known here: the caller reads it. A manifest that is not a JSON
 * object, or has the member twice, says nothing. */
enum manifest_says { MANIFEST_NOTHING, MANIFEST_STRING, MANIFEST_OBJECT };
typedef enum manifest_says (*manifest_read)(struct arena *a, struct slice manifest, struct slice member,
                                            struct slice *ret_string);

/* `root` is absolute. Allocates at most DISCOVER_ROOT_BYTES for contents, and WALK_ANSWER_BYTES several times for names. */
void fsop_discover(struct arena *a, const char *root, manifest_read read_manifest, struct discovery *ret);
