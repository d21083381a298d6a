/* rules: a profile resolved for one place: an access for each absolute path (docs/PERMISSIONS.md).
 *
 * Every entry becomes an absolute path or an absolute pattern; special names are resolved. Two profiles with the same meaning
 * in the same place give the same rules, byte for byte: sorted by path, one rule per path.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "policy/path.h"
#include "policy/profile.h"

#define RULES_MAX 16384 /* the most rules and patterns of one profile in one place; more is refused */
#define RULES_BYTES_MAX (4 * 1024 * 1024) /* the bytes of all paths and patterns; more is refused */
#define RULES_PATH_MAX 4095 /* bytes of a path or pattern; longer is refused: the kernel takes no such name */

/* The protected names: at the top of every writable root a command may read but never write them (docs/PERMISSIONS.md). */
extern const char *const rules_protected_names[]; /* NULL-terminated: .git .agents .codex .aws */

/* The paths that SPECIAL_MINIMAL makes readable, as far as they exist. NULL-terminated. */
extern const char *const rules_platform_roots[];

/* The directories of a request. All paths are absolute and clean. */
struct place {
        struct slice cwd; /* p == NULL: not known */
        /* workspace roots; when the request names none, the caller puts the cwd here */
        const struct slice *roots;
        size_t root_count;
        struct slice tmpdir; /* p == NULL, empty or relative: entries for TMPDIR have no effect */
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

/* Resolves a profile. The result points into the arena, the profile and the place. Returns 0, or with err filled (without a
 * JSON-RPC code): -EINVAL when an entry depends on the cwd and there is none, when an entry names a path of another operating
 * system, or when a pattern cannot be made absolute; -E2BIG and -ENAMETOOLONG at the limits above.
 *
 * Entries whose subpath leaves its root are dropped, except those that deny: dropping a denial would grant access. */
NODISCARD int rules_resolve(struct arena *a, const struct profile *p, const struct place *place,
                            struct rules *ret, struct err *err);

/* Returns the rule at exactly this path, or NULL. */
NODISCARD const struct rule *rules_at(const struct rules *r, struct slice path);

/* Returns all rules as one text, for comparing and as a key. NULs separate its parts. */
NODISCARD struct slice rules_canonical(struct arena *a, const struct rules *r);
