/* backend: finds out, by trying, which of the ways to enforce a plan work on this machine.
 *
 *     namespaces   every plan (sandbox/enter.h)
 *     bubblewrap   every plan, as arguments of a `bwrap`: for machines where only bwrap may make user namespaces
 *     landlock     plans without a narrower access inside of a wider one; needs no namespace
 *
 * The first way that works is chosen. When the operator asks for one way, only that way is tried. A plan that the chosen way
 * cannot enforce exactly is refused; no weaker way takes its place. When an attempt fails because resources are used up
 * (commands can cause that), no way is chosen and every plan is refused until the attempt is repeated.
 */
#pragma once

#include "base/err.h"
#include "base/slice.h"
#include "sandbox/backend_kind.h"
#include "sandbox/bwrap.h"

#define BACKEND_TEST_MS 5000 /* the time limit of one attempt; a longer attempt has failed */

#define BACKEND_TEXT_BYTES 512 /* longer texts are cut */

/* The result of an attempt. */
struct backend_test {
        bool was_tried;
        int os_errno;                  /* 0: the back end works */
        const char *step;              /* the step that failed; a literal */
        const char *remedy;            /* advice for people; a literal, or NULL */
        char text[BACKEND_TEXT_BYTES]; /* more details, where step and errno do not suffice; or empty */
};

struct backends {
        enum backend wish, chosen;
        bool is_passing; /* an attempt failed because resources are used up at the moment, so no way is chosen */
        struct backend_test tests[BACKEND_NONE];
        int landlock_abi;
        struct bwrap bwrap; /* the programs of bubblewrap, when it works; otherwise BWRAP_NONE */
};

/* Tries the ways in their order until one works, each in a child that is killed when it takes too long. `tries_all`: tries
 * the remaining ways too, for a report. Any thread may call it; it blocks for some milliseconds. The result holds open files,
 * which backends_release closes. */
void backends_test(enum backend wish, bool tries_all, struct backends *ret);
void backends_release(struct backends *b);

/* Fills err with the reason why no plan can be enforced; called only when b->chosen is BACKEND_NONE. Step, errno and remedy are
 * those of the first failed attempt; the text names all failed attempts. Sets no JSON-RPC code. */
int backends_refuse(const struct backends *b, struct err *err);
