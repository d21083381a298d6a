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

#define PROFILE_ENTRIES_MAX 4096 /* more is refused when it is read */

/* Ordered by what they grant. On equal targets deny beats write beats read all the same. */
enum access { ACCESS_DENY, ACCESS_READ, ACCESS_WRITE };

enum target_kind { TARGET_PATH, TARGET_GLOB, TARGET_SPECIAL };

enum special {
        SPECIAL_ROOT,
        SPECIAL_MINIMAL,       /* what programs need to run: rules_platform_roots */
        SPECIAL_PROJECT_ROOTS, /* every workspace root, with `subpath` below it */
        SPECIAL_TMPDIR,
        SPECIAL_SLASH_TMP,
        SPECIAL_UNKNOWN, /* of a later version: kept, and grants nothing */
};

struct profile_entry {
        enum target_kind kind;
        enum special special;
        struct slice text;    /* the path, absolute and clean; the pattern; the name of an unknown special */
        struct slice subpath; /* of a special, any of them; p == NULL: none */
        enum access access;
        bool skips_missing; /* kept for other systems; means nothing here */
};

enum profile_kind { PROFILE_MANAGED, PROFILE_DISABLED, PROFILE_EXTERNAL };

struct profile {
        enum profile_kind kind;
        bool is_unrestricted;          /* managed: all files */
        bool has_network;              /* of disabled: true, unless the request closes it all the same */
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

/* A path of another operating system (`C:\x`): stored profiles may name one. It is kept, and nothing here has it. */
NODISCARD bool profile_path_is_foreign(struct slice path);

/* The same target: equal paths, equal special names; the root is `/`, and slash_tmp is `/tmp`. */
NODISCARD bool profile_same_target(const struct profile_entry *a, const struct profile_entry *b);
