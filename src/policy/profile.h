/* profile: a permission profile as plain data, and the questions that can be answered from the profile alone.
 *
 *     managed   the server builds a sandbox: files restricted by entries, or unrestricted; network open or not
 *     disabled  no sandbox at all; the network counts as open
 *     external  something outside of the server isolates the files; the server may still close the network
 *
 * Managed with an unrestricted file system is a fourth case. No case is ever converted to another when a profile is stored
 * or passed on. Knows no JSON (proto/profile.h) and no file system.
 */
#pragma once

#include "base/arena.h"
#include "base/slice.h"

#define PROFILE_ENTRIES_MAX 4096 /* a profile with more is refused when it is read */

/* Ordered by what they grant. Among entries for the same target, deny wins over write, and write over read. */
enum access { ACCESS_DENY, ACCESS_READ, ACCESS_WRITE, ACCESS_LAST = ACCESS_WRITE };

/* Stands in each source that compares accesses or has a table of them. When an access is added none of these sources compiles until
 * its number is changed, by somebody who has looked at every comparison in it. */
#define ACCESS_COMPARED(count) \
        static_assert(ACCESS_LAST + 1 == (count), "an access was added: look at each comparison here")

/* Returns a rank: of two accesses to the same path the one with the higher rank counts. */
static inline int access_strength(enum access access)
{
        switch (access) {
        case ACCESS_DENY:
                return 2;
        case ACCESS_WRITE:
                return 1;
        case ACCESS_READ:
                return 0;
        }
        __builtin_trap();
}

enum target_kind { TARGET_PATH, TARGET_GLOB, TARGET_SPECIAL };

enum special {
        SPECIAL_ROOT,
        SPECIAL_MINIMAL,       /* what programs need to run: rules_platform_roots */
        SPECIAL_PROJECT_ROOTS, /* every workspace root, or `subpath` below each of them */
        SPECIAL_TMPDIR,
        SPECIAL_SLASH_TMP,
        SPECIAL_UNKNOWN, /* a name of a later version: it is kept and grants nothing */
};

struct profile_entry {
        enum target_kind kind;
        enum special special;
        struct slice text;    /* the path, absolute and clean; the pattern; the name of an unknown special */
        struct slice subpath; /* a path below the special target, for every enum special; p == NULL: none */
        enum access access;
        bool skips_missing; /* kept for other systems; has no effect here */
};

enum profile_kind { PROFILE_MANAGED, PROFILE_DISABLED, PROFILE_EXTERNAL };

struct profile {
        enum profile_kind kind;
        bool is_unrestricted;          /* a managed profile that allows everything with all files */
        bool has_network;              /* true when disabled, unless the request closes the network */
        struct profile_entry *entries; /* for a managed, restricted profile; in the client's order */
        size_t count;
        uint64_t glob_depth; /* how many levels below its prefix a pattern is searched for; 0: no limit */
};

/* Does the profile let everything be written, so that no entry takes anything away (docs/PERMISSIONS.md)? */
NODISCARD bool profile_writes_all(const struct profile *p);
/* Must access to files be enforced? Yes, when the profile restricts files and does not make everything writable. */
NODISCARD bool profile_limits_files(const struct profile *p);
/* Does the profile restrict anything, files or the network? Otherwise a command runs without a sandbox. */
NODISCARD bool profile_must_enforce(const struct profile *p);
/* Does an entry depend on the directories of the request: project roots, or a relative pattern? */
NODISCARD bool profile_needs_cwd(const struct profile *p);

/* Is this a path of another operating system (`C:\x`)? Stored profiles may hold such paths. They are kept and match nothing. */
NODISCARD bool profile_path_is_foreign(struct slice path);

/* Do two entries have the same target: equal paths or equal special names? The special root equals `/`, slash_tmp equals
 * `/tmp`. */
NODISCARD bool profile_same_target(const struct profile_entry *a, const struct profile_entry *b);
