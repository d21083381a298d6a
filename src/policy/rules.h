/* rules: a profile made concrete for one place: which path allows what (PERMISSIONS.md 4).
 *
 * Every entry becomes an absolute path or an absolute pattern; special names are gone. Two profiles that mean the same
 * in the same place give the same rules, byte for byte: sorted by path, one rule per path.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "policy/profile.h"

#define RULES_MAX 16384 /* rules and patterns of one profile in one place; more is refused */
#define RULES_BYTES_MAX (4 * 1024 * 1024) /* of all their paths; more is refused */
#define RULES_PATH_MAX 4095 /* bytes of a path or pattern; longer is refused: the kernel takes no such name */

/* Top-level names of every writable root that a command may read but never write (PERMISSIONS.md 5). */
extern const char *const rules_protected_names[]; /* NULL-terminated: .git .agents .codex .aws */

/* What SPECIAL_MINIMAL stands for; those that exist. NULL-terminated. */
extern const char *const rules_platform_roots[];

/* Where the request stands. All paths absolute and clean. */
struct place {
        struct slice cwd; /* p == NULL: not known */
        const struct slice
                *roots; /* workspace roots: PERMISSIONS.md 8 point 1 has been applied by the caller */
        size_t root_count;
        struct slice tmpdir; /* p == NULL, empty or relative: entries for it have no effect */
};

struct rule {
        struct slice path;
        enum access access;
};

struct rules {
        bool limits_files; /* false: everything may be read and written, and nothing below counts */
        bool reads_all;    /* nothing is denied */
        bool has_platform; /* rules_platform_roots may be read, where no rule says otherwise */
        struct rule *list; /* sorted by path (bytes, with `/` before all others), no two alike */
        size_t count;
        struct slice *globs; /* denied patterns, absolute, sorted, no two alike; may be malformed */
        size_t glob_count;
        uint64_t glob_depth;
};

/* Everything lives in the arena, in the profile or in the place. -EINVAL with err (no code of JSON-RPC) when an entry
 * depends on the cwd and there is none, when one names a path of another operating system, or when a pattern cannot be
 * made absolute; -E2BIG and -ENAMETOOLONG at the limits above.
 *
 * Entries whose subpath leaves its root are dropped, but for those that deny: dropping these would grant. */
NODISCARD int rules_resolve(struct arena *a, const struct profile *p, const struct place *place,
                            struct rules *ret, struct err *err);

/* What the entries say of a path: the deepest rule at or above it. Neither globs nor protected names nor the platform's
 * roots are looked at. Paths are absolute and clean here. */
NODISCARD enum access rules_access(const struct rules *r, struct slice path);
/* The rule at exactly this path, or NULL. */
NODISCARD const struct rule *rules_at(const struct rules *r, struct slice path);

/* Is `path` equal to `above`, or below it? By components. */
NODISCARD bool path_is_within(struct slice path, struct slice above);

/* One text for all that the rules say, for comparing and as a key. It holds NULs: those separate its parts. */
NODISCARD struct slice rules_canonical(struct arena *a, const struct rules *r);
