/* plan: what a sandboxed command will see, as a list of operations: made here, carried out by sandbox/enter.h.
 *
 * Made from rules and from what the file system holds now (sandbox/look.h); nothing is changed and nothing kept open. Each
 * operation names a path without links and the identity of what was found there, so that whoever carries it out can
 * refuse when somebody has put something else in its place.
 *
 *     the view starts as the whole machine, read-only (or writable), or as an empty root
 *     then, from the top down: readable and writable places, pins, masks
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "policy/rules.h"

#include <sys/types.h>

#define PLAN_OPS_MAX 32768
#define PLAN_STUBS_MAX 64 /* each is two open descriptors as long as the command runs */

enum plan_kind {
        PLAN_DIRECTORY, /* in the empty root or in a mask: a place to mount on */
        PLAN_FILE,
        PLAN_LINK,  /* there, too: `text` */
        PLAN_READ,  /* what is on the machine, read-only */
        PLAN_WRITE, /* … writable */
        PLAN_PIN,   /* … as it is: only so that it can be neither renamed nor removed */
        PLAN_HIDE,  /* denied: nothing can be read */
        PLAN_OPEN,  /* denied, but something below it is not: can be passed through, not listed */
        PLAN_COVER, /* what must not come into being: empty, and cannot be written */
        PLAN_SEAL,  /* the root or a PLAN_OPEN has all its places: read-only from here on */
        PLAN_KINDS,
};

struct plan_op {
        enum plan_kind kind;
        bool is_directory;
        bool may_miss;   /* then there is nothing to hide */
        bool is_guarded; /* were it detached, more would be allowed: see guard.h */
        struct slice path;
        struct slice text;
        uint64_t dev, ino; /* of what is there now; 0: not looked at */
        const char *why;   /* a literal, for people */
};

/* Something that must exist on the machine while the command runs, so that it can be covered. */
struct plan_stub {
        struct slice path;
        bool is_directory;
        size_t op;         /* the operation that lies on it */
        uint64_t dev, ino; /* of the directory that it will be in */
};

enum plan_root { PLAN_ROOT_EMPTY, PLAN_ROOT_READ, PLAN_ROOT_WRITE };

struct plan {
        bool has_view;    /* false: the files are the machine's, and nothing below counts but the network */
        bool has_network; /* the machine's */
        enum plan_root root;
        struct plan_op *ops;
        size_t op_count;
        struct plan_stub *stubs;
        size_t stub_count;
        const struct slice
                *globs; /* denied patterns (policy/rules.h), for who can ask them; the operations cannot */
        size_t glob_count;
        uint64_t glob_depth;
        struct slice
                whose; /* tells apart what the operations do not: for who keeps something for each profile */
};

/* -EINVAL and the like with err (step "plan"): what cannot be enforced exactly is refused. `denied` are the matches of
 * the rules' globs: paths without links that exist. */
NODISCARD int plan_make(struct arena *a, const struct rules *rules, bool has_network,
                        const struct slice *denied, size_t denied_count, struct plan *ret, struct err *err);

/* For who asks the patterns himself, at each path (fsop/law.h): a link that matches one, and that a command could point
 * elsewhere, is no reason to refuse. */
NODISCARD int plan_make_for_files(struct arena *a, const struct rules *rules, const struct slice *denied,
                                  size_t denied_count, struct plan *ret, struct err *err);

/* The same plan for a process of ours that asks the rules itself (fsop/law.h) and needs the view as a second lock only: what
 * may be written is writable, the rest is not, and what may not be read is left out where reading is restricted to some
 * places. No masks, so that nothing has to exist on the machine. */
void plan_coarsen(struct arena *a, const struct plan *p, struct plan *ret);

/* One line per operation. */
struct buf;
NODISCARD int plan_explain(const struct plan *p, struct buf *out);
