/* bwrap: has bubblewrap build the view of a plan, for machines where only the distribution's bwrap may make user namespaces.
 *
 *     keeper ── bwrap ── farhand-init ── command        farhand-init: process 1 of the sandbox
 *
 * bwrap does what needs privileges: the namespaces and the mounts. It looks paths up by name, so farhand-init verifies the
 * result from inside (sandbox/verify.h) before the command exists. Then it does the rest as in every sandbox: Landlock, the
 * filter, the session with its terminal, execve. When bwrap has left out an operation, or has done it to another file, the
 * start fails.
 *
 * Making the arguments is a pure function of the plan.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "plan/plan.h"
#include "sandbox/helper.h"

#include <limits.h>

#define BWRAP_ARGUMENTS_MAX 8900 /* bwrap takes 9000, including those on its own command line */
#define BWRAP_WORDS_MAX 240      /* how much of the error message of bwrap is kept */
#define BWRAP_PROBE_MS 5000      /* the time limit of a run with --help, and of the test */

/* The option by which farhand-init only reports that it was reached, on its standard output and on its socket, and waits until
 * the socket closes; and the text of the report. */
#define BWRAP_TEST_OPTION "--test"
#define BWRAP_TEST_WORDS "farhand-init is here"

/* The descriptors that bwrap inherits, by number; it passes the first three on to farhand-init. */
enum {
        BWRAP_FD_SOCKET = 3, /* the socket to the keeper */
        BWRAP_FD_INIT,       /* the program farhand-init, which need not be in the view */
        BWRAP_FD_ARGUMENTS,
        BWRAP_FD_EMPTY, /* this and all higher numbers: empty files, one for each mask on a file */
};

struct bwrap_span {
        uint32_t at, bytes;
};

/* The arguments that mount a mask on a placeholder (sandbox/placeholder.h). The keeper leaves them out when the placeholder was
 * not made, and uses `other` when another command made it as a file instead of a directory, or the reverse. */
struct bwrap_placeholder {
        struct bwrap_span planned; /* in `text` */
        struct bwrap_span other;   /* in `others` */
};

struct bwrap_arguments {
        struct buf text;   /* NUL-terminated arguments, for --args */
        struct buf others; /* the arguments of bwrap_placeholder::other */
        uint32_t count;
        uint32_t empties; /* the number of descriptors from BWRAP_FD_EMPTY on */
        struct bwrap_placeholder placeholders[PLAN_PLACEHOLDERS_MAX];
};

#define BWRAP_TEXT_MAX (8 * 1024 * 1024)
#define BWRAP_ARGUMENTS_INIT \
        ((struct bwrap_arguments){ .text = BUF_INIT(BWRAP_TEXT_MAX), .others = BUF_INIT(BWRAP_TEXT_MAX) })
void bwrap_arguments_release(struct bwrap_arguments *a);
#define _bwrap_arguments_ CLEANUP(bwrap_arguments_release)

/* Makes all arguments except the terminal, the read-only remount of /dev and the command, which the keeper adds.
 * `has_landlock`: devices can be made read-only, as in enter_view.c. Returns 0, or -E2BIG with err (step "bubblewrap") for more
 * arguments than bwrap takes. */
NODISCARD int bwrap_arguments_make(const struct plan *p, bool has_landlock, struct bwrap_arguments *ret,
                                   struct err *err);

/* The two programs, opened before any command runs (sandbox/helper.h). bwrap is executed from its own file, because an AppArmor
 * profile or a set-uid bit belongs to that file. farhand-init is executed from a copy in memory where that is possible. */
struct bwrap {
        char program[PATH_MAX];
        char init[PATH_MAX];
        struct helper program_file, init_file;
        int finish_errno; /* the error that keeps views from being finished (sandbox/finish.h); 0: none */
};
#define BWRAP_NONE ((struct bwrap){ .program_file = HELPER_NONE, .init_file = HELPER_NONE })

/* Finds the first bwrap on `path` (PATH) that is not in `cwd` and that no other user may write, and the farhand-init that is
 * installed with this program. Returns 0, or -errno with err (step "bubblewrap", and a remedy) when a program is missing or bwrap
 * is too old. Runs bwrap once, and blocks. The caller releases *ret after success only. */
NODISCARD int bwrap_find(const char *path, struct slice cwd, struct bwrap *ret, struct err *err);
void bwrap_release(struct bwrap *b); /* BWRAP_NONE is fine */
/* Tests whether bwrap builds a view on this machine, and whether that view can be finished. Runs bwrap with a plan that has
 * everything but operations. A view that cannot be finished is no failure; b->finish_errno then holds the error. */
NODISCARD int bwrap_test(struct bwrap *b, struct err *err);
/* Returns the errno whose description ends the message of bwrap; 0 when there is none. */
NODISCARD int bwrap_errno(const char *words);

/* Returns the path of bwrap or of farhand-init when a command under this plan could change that file; NULL when it can change
 * neither. */
NODISCARD const char *bwrap_exposed(const struct bwrap *b, const struct plan *p, struct slice cwd);
