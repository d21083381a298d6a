/* profile: a permission profile, as plain data, and what follows from it alone.
 *
 *     managed   the server builds a sandbox: files restricted by entries, or unrestricted; network open or not
 *     disabled  no sandbox at all; the network counts as open
 *     external  somebody outside isolates the files; the network may still be ours to close
 *
 * These are three different things, and `managed` with an unrestricted file system is a fourth: none is ever turned into
 * another when it is stored or passed on. Knows no JSON (proto/profile.h) and no file system.
 */
#pragma once

#include "base/arena.h"
#include "base/slice.h"

/* Ordered by what they grant. On equal targets deny beats write beats read all the same. */
enum access { ACCESS_DENY, ACCESS_READ, ACCESS_WRITE };

enum target_kind { TARGET_PATH, TARGET_GLOB, TARGET_SPECIAL };

enum special {
        SPECIAL_ROOT,
        SPECIAL_MINIMAL,       /* what programs need to run: PROFILE_PLATFORM_ROOTS */
        SPECIAL_PROJECT_ROOTS, /* every workspace root, with `subpath` below it */
        SPECIAL_TMPDIR,
        SPECIAL_SLASH_TMP,
        SPECIAL_UNKNOWN, /* of a later version: kept, and grants nothing */
};

struct profile_entry {
        enum target_kind kind;
        enum special special;
        struct slice text; /* the path, absolute and clean; the pattern; or the name of an unknown special */
        struct slice subpath; /* of a special; p == NULL: none */
        enum access access;
        bool skips_missing; /* kept for other systems; means nothing here */
};

enum profile_kind { PROFILE_MANAGED, PROFILE_DISABLED, PROFILE_EXTERNAL };

struct profile {
        enum profile_kind kind;
        bool is_unrestricted;          /* managed: all files */
        bool has_network;              /* true for disabled */
        struct profile_entry *entries; /* managed and restricted; order and duplicates as given */
        size_t count;
        uint64_t glob_depth; /* how far below its fixed part a pattern is looked for; 0: no bound */
};

/* PERMISSIONS.md 4.3. */
NODISCARD bool profile_reads_all(const struct profile *p);
NODISCARD bool profile_writes_all(const struct profile *p);
/* Files must be enforced: restricted, and not everything is writable. */
NODISCARD bool profile_limits_files(const struct profile *p);
/* An entry depends on where the request stands: project roots, or a relative pattern. */
NODISCARD bool profile_needs_cwd(const struct profile *p);

/* Removes `.`, empty components and a trailing slash, and resolves `..` by name. `path` begins with a slash. */
NODISCARD struct slice profile_clean_path(struct arena *a, struct slice path);
