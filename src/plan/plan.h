/* plan: the file system that a sandboxed command will see, as a list of operations for sandbox/enter.h to carry out.
 *
 * A plan is made from rules and from the present state of the file system (plan/look.h). Making it changes nothing and
 * keeps nothing open. Each operation names a path without symbolic links and the identity of the file that was found there,
 * so that the operation can be refused when another file has taken its place.
 *
 *     the view starts as the whole machine, read-only (or writable), or as an empty root
 *     then, parents first: readable and writable paths, pins, masks
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "plan/plan_kind.h"
#include "policy/rules.h"

#include <sys/types.h>

struct mount_table;

#define PLAN_OPS_MAX 32768
#define PLAN_PLACEHOLDERS_MAX 64 /* each needs two open descriptors while the command runs */

/* Why operations exist, for people; plan_reason says the same for programs. */
#define PLAN_WHY_DENIED "denied"
#define PLAN_WHY_READABLE "readable"
#define PLAN_WHY_WRITABLE "writable"
#define PLAN_WHY_PROTECTED "protected"
#define PLAN_WHY_POINTED "named by a protected .git"
#define PLAN_WHY_COMMON "common to worktrees"
#define PLAN_WHY_MATCH "matches a denied pattern"
#define PLAN_WHY_PLATFORM "needed to run programs"
#define PLAN_WHY_PINNED "pinned"
#define PLAN_WHY_WAY "leads to what is open"

enum plan_reason {
        PLAN_REASON_ENTRY,     /* an entry of the profile */
        PLAN_REASON_PROTECTED, /* a protected name in a writable directory, or what such a name points at */
        PLAN_REASON_PATTERN,   /* a denied pattern */
        PLAN_REASON_PLATFORM,  /* programs need the path, so it is readable */
        PLAN_REASON_PIN,       /* the path must not be renamed because of what is below it */
        PLAN_REASON_WAY,       /* the path leads to what is open */
        PLAN_REASON_OWN, /* none of the profile: settings and processes of the machine, files of the server */
};

struct plan_op {
        enum plan_kind kind;
        bool is_directory;
        bool may_be_missing; /* the path may be missing: then there is nothing to hide */
        bool is_guarded;     /* the guard watches the mount, without which the command could do more */
        struct slice path;
        struct slice text; /* PLAN_LINK: where the link leads */
        uint64_t dev, ino; /* the identity of the file that was found; 0: not examined */
        uint64_t
                born; /* its birth time in nanoseconds, which tells it from one that was made again with its inode number; 0: none */
        const char *why; /* a literal, for people */
        const char *
                named_why; /* the `why` of the path that the profile names, when `path` is another mount of the same file; else NULL */
};

NODISCARD enum plan_reason plan_reason(const struct plan_op *op);

/* A file or directory that must exist on the machine while the command runs, so that a mask can be mounted on it. */
struct plan_placeholder {
        struct slice path;
        bool is_directory;
        size_t op;         /* the operation that mounts the mask */
        uint64_t dev, ino; /* the identity of the directory that the placeholder will be in */
};

enum plan_root { PLAN_ROOT_EMPTY, PLAN_ROOT_READ, PLAN_ROOT_WRITE };

struct plan {
        bool has_view;    /* false: the command sees the files of the machine, and only has_network counts */
        bool has_network; /* the command has the network of the machine */
        enum plan_root root;
        struct plan_op *ops;
        size_t op_count;
        struct plan_placeholder *placeholders;
        size_t placeholder_count;
        /* denied patterns (policy/rules.h), for a process that can match paths itself; the operations only mask what
         * matches now */
        const struct slice *globs;
        size_t glob_count;
        uint64_t glob_depth;
        bool is_overfull; /* the operations do not mask all matches */
        /* distinguishes profiles with equal operations, as a key for what is kept per profile */
        struct slice profile_key;
};

/* What a plan is made from. */
struct plan_input {
        const struct rules *rules;
        bool has_network;
        /* The plan is for a process that matches each path with the patterns itself (reach/reach.h). So a link that matches a
         * pattern, and that a command could replace, is no reason to refuse. */
        bool is_for_files;
        const struct slice *denied; /* the matches of the rules' globs: paths without links that exist */
        size_t denied_count;
        bool has_linked_globs; /* the prefix of a pattern may lead through a link */
        /* paths of the server that no profile opens; those that exist are hidden */
        const struct slice *closed;
        size_t closed_count;
        const struct mount_table *mounts; /* the mounts of the machine; NULL: nothing is mounted twice */
};

/* Makes a plan. Returns 0, or -errno with err (step "plan"); -EINVAL: the rules cannot be enforced exactly. */
NODISCARD int plan_make(struct arena *a, const struct plan_input *in, struct plan *ret, struct err *err);

/* Reduces a plan for a process of the server that checks the rules itself (reach/reach.h) and needs the view only as a
 * second barrier: writable paths stay writable, everything else is read-only, and unreadable paths are left out where
 * reading is restricted to some paths. The result has no masks, so no placeholders are needed. */
void plan_coarsen(struct arena *a, const struct plan *p, struct plan *ret);

/* Writes the plan as text, one line for each operation. */
struct buf;
NODISCARD int plan_explain(const struct plan *p, struct buf *out);
