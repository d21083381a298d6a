/* plan_kind: the kinds of operations of a plan, and how each consumer treats a kind.
 *
 * One row per kind, one cell per consumer. A row that lacks a cell does not compile, and neither does a cell with an unknown
 * name: a consumer cannot be forgotten when a kind is added, nor a kind when a consumer is added. So consumers ask the row
 * of a kind; a comparison with one kind may only make that kind more restricted or say more about it.
 *
 *     verb     plan_explain: the word in its output
 *     act      enter_view.c, verify.c, bwrap.c: how the view is changed
 *     gives    the access of commands and file requests at this path and below it
 *     coarse   plan_coarse.c: whether the view of a process that checks the rules itself keeps the operation
 *     alone    landlock_plan.c: why Landlock alone cannot enforce the operation; NULL: it can. The first cell is for an
 *              operation that is not guarded, the second for one that is
 */
#pragma once

#include "base/compat.h"

enum plan_act {
        PLAN_ACT_DIRECTORY, /* an empty directory is made, to mount on */
        PLAN_ACT_FILE,      /* an empty file is made, to mount on */
        PLAN_ACT_LINK,
        PLAN_ACT_BIND, /* the file or directory of the machine is mounted */
        PLAN_ACT_MASK, /* an empty, read-only file or directory is mounted */
        PLAN_ACT_PASS, /* an empty directory is mounted that can be passed through but not listed */
        PLAN_ACT_SEAL, /* the directory of a PLAN_ACT_PASS becomes read-only */
};

enum plan_gives {
        PLAN_GIVES_WAY,     /* no access, except passing through to paths below it */
        PLAN_GIVES_READ,    /* reading */
        PLAN_GIVES_WRITE,   /* reading and writing */
        PLAN_GIVES_NOTHING, /* not even reading */
        PLAN_GIVES_PASS,    /* no reading, but something below it is open */
        PLAN_GIVES_EMPTY,   /* an empty file or directory that cannot be written */
        PLAN_GIVES_NO_WORD, /* none: another operation at the same path decides */
};

/* Says when an operation is kept in the plan of a process that checks the rules itself (plan_coarse.c). */
enum plan_coarse {
        PLAN_COARSE_NEVER,    /* never kept */
        PLAN_COARSE_READABLE, /* kept where only some paths may be read, unless a path above it is kept */
        PLAN_COARSE_WRITABLE, /* kept, unless a path above it can be written */
};

#define PLAN_KIND_TABLE(X)                                                                                   \
        /* a place to mount on, in the empty root or in a PLAN_OPEN */                                       \
        X(PLAN_DIRECTORY, "place", PLAN_ACT_DIRECTORY, PLAN_GIVES_WAY, PLAN_COARSE_READABLE, NULL, NULL)     \
        X(PLAN_FILE, "place", PLAN_ACT_FILE, PLAN_GIVES_WAY, PLAN_COARSE_READABLE, NULL, NULL)               \
        /* a symbolic link in the empty root or in a PLAN_OPEN, which leads to `text` */                     \
        X(PLAN_LINK, "link", PLAN_ACT_LINK, PLAN_GIVES_WAY, PLAN_COARSE_READABLE, NULL, NULL)                \
        /* the file or directory that the machine has at this path, read-only */                             \
        X(PLAN_READ, "read-only", PLAN_ACT_BIND, PLAN_GIVES_READ, PLAN_COARSE_READABLE, NULL,                \
          "read-only inside of what can be written")                                                         \
        /* the file or directory of the machine, writable */                                                 \
        X(PLAN_WRITE, "writable", PLAN_ACT_BIND, PLAN_GIVES_WRITE, PLAN_COARSE_WRITABLE, NULL, NULL)         \
        /* the file or directory of the machine, mounted only so that nobody can rename or remove it */      \
        X(PLAN_PIN, "pin", PLAN_ACT_BIND, PLAN_GIVES_WRITE, PLAN_COARSE_NEVER, "where it is", "where it is") \
        /* denied: nothing can be read */                                                                    \
        X(PLAN_HIDE, "hide", PLAN_ACT_MASK, PLAN_GIVES_NOTHING, PLAN_COARSE_NEVER, "from being read",        \
          "from being read")                                                                                 \
        /* denied, but something below it is open: it can be passed through and not listed */                \
        X(PLAN_OPEN, "hide", PLAN_ACT_PASS, PLAN_GIVES_PASS, PLAN_COARSE_NEVER, "from being read",           \
          "from being read")                                                                                 \
        /* a path that must not be created: an empty file or directory that cannot be written */             \
        X(PLAN_PREVENT, "cover", PLAN_ACT_MASK, PLAN_GIVES_EMPTY, PLAN_COARSE_NEVER,                         \
          "from coming into being", "from coming into being")                                                \
        /* all places in a PLAN_OPEN have been made, and it becomes read-only */                             \
        X(PLAN_SEAL, "seal", PLAN_ACT_SEAL, PLAN_GIVES_NO_WORD, PLAN_COARSE_NEVER, "from being read",        \
          "from being read")

#define PLAN_KIND_NAME(kind, verb, act, gives, coarse, alone, alone_guarded) kind,
enum plan_kind { PLAN_KIND_TABLE(PLAN_KIND_NAME) PLAN_KINDS };

struct plan_kind_row {
        const char *verb; /* the word for the operation in the output of plan_explain */
        enum plan_act act;
        enum plan_gives gives;
        enum plan_coarse coarse;
        /* why Landlock alone cannot enforce an operation that is not guarded, and one that is; NULL: it can */
        const char *alone, *alone_guarded;
};

extern const struct plan_kind_row plan_kind_rows[PLAN_KINDS];

/* Returns the row of a kind. Reads only constant data and calls nothing, so that code between clone and execve can use it. An
 * unknown kind is a bug and traps. */
static inline const struct plan_kind_row *plan_kind_row(unsigned kind)
{
        if (kind >= PLAN_KINDS)
                __builtin_trap();
        return &plan_kind_rows[kind];
}

/* Does this kind allow writing? All other paths are mounted read-only and get no right of Landlock to write. */
static inline bool plan_kind_is_writable(unsigned kind)
{
        switch (plan_kind_row(kind)->gives) {
        case PLAN_GIVES_WRITE:
                return true;
        case PLAN_GIVES_READ:
        case PLAN_GIVES_WAY:
        case PLAN_GIVES_NOTHING:
        case PLAN_GIVES_PASS:
        case PLAN_GIVES_EMPTY:
        case PLAN_GIVES_NO_WORD:
                break;
        }
        return false;
}

/* Does an operation of this kind mount something, so that the check of the finished view must find it? */
static inline bool plan_kind_is_mount(unsigned kind)
{
        switch (plan_kind_row(kind)->act) {
        case PLAN_ACT_BIND:
        case PLAN_ACT_MASK:
        case PLAN_ACT_PASS:
                return true;
        case PLAN_ACT_DIRECTORY:
        case PLAN_ACT_FILE:
        case PLAN_ACT_LINK:
        case PLAN_ACT_SEAL:
                break;
        }
        return false;
}

/* Does this kind show the file or directory of the machine, and let it only be read? */
static inline bool plan_kind_is_read_only(unsigned kind)
{
        return plan_kind_row(kind)->act == PLAN_ACT_BIND && !plan_kind_is_writable(kind);
}
