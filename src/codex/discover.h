/* discover: finds and reads plugins and skills below a root (docs/PROTOCOL.md, capabilityRoots/discoverV1).
 *
 * One walk finds the names: SKILL.md, and the manifests in .codex-plugin, .claude-plugin and .cursor-plugin. Only regular files
 * of UTF-8 are read; their sizes are bounded, one by one and together. A file that cannot be used gives a warning, in the words
 * that clients know. Links are followed; a FIFO is never waited for.
 */
#pragma once

#include "base/arena.h"
#include "fsop/fsop.h"

#define DISCOVER_FILE_BYTES (1024 * 1024) /* one file; beyond: a warning instead */
#define DISCOVER_ROOT_BYTES \
        (16 * 1024 * 1024) /* all files of a root; a file that does not fit: a warning instead */
/* The limits of the walk. Deeper directories are left out silently; beyond the other two there is one warning. */
#define DISCOVER_DEPTH 6
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
        /* Without a manifest the root is no plugin, and has no configurations either. */
        bool has_manifest, has_mcp_config, has_apps_config;
        struct found_file manifest, mcp_config, apps_config;
        struct found_skill *skills; /* sorted by URI */
        size_t skill_count;
        /* The manifest of the root or of its nearest ancestor comes first, then the others by URI. */
        struct found_file *namespace_manifests;
        size_t namespace_count;
        const char **warnings; /* in the order of discovery */
        size_t warning_count;
        const char *error; /* the root is unusable; NULL otherwise */
};

/* Reads one member of a manifest; passed in by the caller, because this folder has no JSON parser. For a manifest that is not a
 * JSON object, or has the member twice, the result is MANIFEST_NOTHING. */
enum manifest_says { MANIFEST_NOTHING, MANIFEST_STRING, MANIFEST_OBJECT };
typedef enum manifest_says (*manifest_read)(struct arena *a, struct slice manifest, struct slice member,
                                            struct slice *ret_string);

/* Searches `root`, an absolute path. Allocates at most DISCOVER_ROOT_BYTES for contents, and a few times WALK_ANSWER_BYTES for
 * names. */
void fsop_discover(struct arena *a, const char *root, manifest_read read_manifest, struct discovery *ret);
