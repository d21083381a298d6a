/* bwrap: a plan as arguments of bubblewrap, for machines where only the distribution's bwrap may make user namespaces.
 *
 *     keeper ── bwrap ── farhand-init ── command        farhand-init: process 1 of the sandbox
 *
 * bwrap does what needs privileges: the namespaces and the mounts. It looks paths up by name, so farhand-init looks at the
 * result from inside (sandbox/verify.h) before there is a command, and then does all the rest as ever: Landlock, the
 * filter, the session with its terminal, execve. What a bwrap has not done, or done to something else, is no start.
 *
 * Making arguments is pure: nothing is looked at but the plan.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "sandbox/plan.h"

#include <limits.h>

#define BWRAP_ARGUMENTS_MAX 8900 /* bwrap itself takes 9000, those on its own command line included */
#define BWRAP_WORDS_MAX 240      /* of what it says about a failure */
#define BWRAP_PROBE_MS 5000      /* for --help, and for the test */

/* Of farhand-init: says that it was reached. */
#define BWRAP_TEST_OPTION "--test"
#define BWRAP_TEST_WORDS "farhand-init is here"

/* The descriptors that bwrap finds, by number; the first three it passes on to farhand-init. */
enum {
        BWRAP_FD_SOCKET = 3, /* to the keeper */
        BWRAP_FD_INIT,       /* farhand-init, which the view need not hold */
        BWRAP_FD_ARGUMENTS,
        BWRAP_FD_EMPTY, /* and above: each is an empty file, and used up by one lid on a file */
};

struct bwrap_span {
        uint32_t at, bytes;
};

/* What lies on a stub (sandbox/stub.h). Left out when there is none; when another command has made it, of the other kind,
 * `other` takes its place. */
struct bwrap_stub {
        struct bwrap_span planned; /* in `text` */
        struct bwrap_span other;   /* in `others` */
};

struct bwrap_arguments {
        struct buf text; /* each with its NUL, for --args */
        struct buf others;
        uint32_t count;
        uint32_t empties; /* descriptors from BWRAP_FD_EMPTY on */
        struct bwrap_stub stubs[PLAN_STUBS_MAX];
};

#define BWRAP_TEXT_MAX (8 * 1024 * 1024)
#define BWRAP_ARGUMENTS_INIT \
        ((struct bwrap_arguments){ .text = BUF_INIT(BWRAP_TEXT_MAX), .others = BUF_INIT(BWRAP_TEXT_MAX) })
void bwrap_arguments_release(struct bwrap_arguments *a);
#define _bwrap_arguments_ CLEANUP(bwrap_arguments_release)

/* Everything but the terminal, the seal on /dev and the command, which the keeper adds. `has_landlock`: as enter_view.c
 * has it, a device may be readable and no more. -E2BIG with err (step "bubblewrap"): bwrap takes no more. */
NODISCARD int bwrap_arguments_make(const struct plan *p, bool has_landlock, struct bwrap_arguments *ret,
                                   struct err *err);

/* Where the two programs are. */
struct bwrap {
        char program[PATH_MAX];
        char init[PATH_MAX];
};

/* The first bwrap on `path` (PATH) that is not in `cwd`, with farhand-init beside us. -errno with err (step "bubblewrap",
 * and a remedy): there is none, or it is too old. Runs it once, blocks. */
NODISCARD int bwrap_find(const char *path, struct slice cwd, struct bwrap *ret, struct err *err);
/* Does it build a view here? Runs it once more, with a plan that has everything but operations. */
NODISCARD int bwrap_test(const struct bwrap *b, struct err *err);
/* The errno that its words end with; 0: with none. */
NODISCARD int bwrap_errno(const char *words);

/* Could a command under this plan change the bwrap that the next one is to be locked up by? */
NODISCARD bool bwrap_is_exposed(const struct bwrap *b, const struct plan *p, struct slice cwd);
