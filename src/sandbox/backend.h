/* backend: which of the ways to enforce a plan work here, found out by trying.
 *
 *     namespaces   every plan (sandbox/enter.h)
 *     bubblewrap   every plan, as arguments of a `bwrap`: for machines where only that may make user namespaces
 *     landlock     plans without anything narrower inside of something wider; needs no namespace
 *
 * The first that works is taken; or the one that was asked for, and then no other. What the chosen one cannot enforce
 * exactly is refused: nothing weaker takes its place.
 */
#pragma once

#include "base/err.h"
#include "base/slice.h"
#include "sandbox/bwrap.h"

#define BACKEND_TEST_MS 5000 /* each attempt; who takes longer does not work */

enum backend {
        BACKEND_NAMESPACES,
        BACKEND_BUBBLEWRAP,
        BACKEND_LANDLOCK,
        BACKEND_NONE,
        BACKEND_AUTO = BACKEND_NONE, /* as a wish: whichever works */
};

/* What became of the attempt. */
struct backend_test {
        bool was_tried;
        int os_errno;       /* 0: it works */
        const char *step;   /* where it failed; a literal */
        const char *remedy; /* a literal, or NULL */
};

struct backends {
        enum backend wish, chosen;
        struct backend_test tests[BACKEND_NONE];
        int landlock_abi;
        struct bwrap bwrap; /* when that one works */
};

/* Tries them in their order until one works, each in a child that is killed when it takes too long; `tries_all`: the
 * others as well, for people who want to know. From any thread; blocks for some milliseconds. Nothing stays. */
void backends_test(enum backend wish, bool tries_all, struct backends *ret);

NODISCARD const char *backend_name(enum backend b);                /* "namespaces", …, "none" */
NODISCARD int backend_parse(struct slice name, enum backend *ret); /* "auto" as well; -EINVAL */
#define BACKEND_WISHES "auto, namespaces, bubblewrap or landlock"  /* for complaints */

/* Why nothing can be enforced here, when the chosen one is BACKEND_NONE: step, errno and remedy of the one that matters
 * most; the text tells of all. No code of JSON-RPC. */
int backends_refuse(const struct backends *b, struct err *err);
