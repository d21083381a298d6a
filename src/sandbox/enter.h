/* enter: carries a plan out, in the process that will be the command's init or the command itself.
 *
 * All of it runs between clone and execve, in memory that may be somebody else's (base/sys.h): raw system calls, no heap,
 * nothing but the image. Everything is done on descriptors: what is mounted was opened without following links and
 * compared with what the plan saw.
 *
 * In this order: enter_ids, enter_network, enter_view in the new namespaces, enter_confine; enter_landlock last before
 * execve. With Landlock alone: enter_rules, enter_confine, enter_landlock.
 */
#pragma once

#include "sandbox/image.h"

enum enter_step {
        ENTER_NONE,
        ENTER_IDS,
        ENTER_NETWORK,
        ENTER_MOUNT, /* of the operation `op`, or of the view as a whole */
        ENTER_DEV,
        ENTER_PROC,
        ENTER_CAPABILITIES,
        ENTER_LANDLOCK,
        ENTER_SECCOMP,
        ENTER_STUB,       /* `op` is its number */
        ENTER_BUBBLEWRAP, /* bwrap failed, or did not do what it was told */
        ENTER_STEPS,
};

#define ENTER_NO_OP UINT32_MAX

struct enter_failure {
        uint32_t step;
        int32_t os_errno;
        uint32_t op;
};

/* CLONE_NEW* flags for the process that enters. */
NODISCARD uint64_t enter_flags(const struct image *i);

/* A view that is being built. */
struct enter_view {
        const struct image *image;
        int old, root, dev, lids, ruleset;
        int children; /* where the kernel lists those of the process 1 that this is; or -1: it does not */
};

/* Each 0, or -errno with *ret filled. */
NODISCARD int enter_ids(const struct image *i, struct enter_failure *ret);
NODISCARD int enter_network(struct enter_failure *ret);
/* `tty`: the command's terminal, or -1. *ret_ruleset is Landlock's, or -1. The caller's root and working directory are the new root afterwards. */
NODISCARD int enter_view(const struct image *i, int tty, int *ret_ruleset, struct enter_failure *ret);
/* The same in two parts. The first asks `i` for nothing but what is the same for many commands (image_is_alike), so that it can
 * be done before there is one; `has_lids`: some of its operations will hide or cover something. The ruleset is v->ruleset. */
NODISCARD bool enter_needs_lids(const struct image *i);
NODISCARD int enter_view_begin(struct enter_view *v, const struct image *i, bool has_lids,
                               struct enter_failure *ret);
NODISCARD int enter_view_end(struct enter_view *v, const struct image *i, int tty, struct enter_failure *ret);
/* Where there are no namespaces: the ruleset that stands for the view (enter_rules.c). */
NODISCARD int enter_rules(const struct image *i, int tty, int *ret_ruleset, struct enter_failure *ret);
/* A part of what follows that can be done before: while it mounts the init needs its capabilities, but not those of the programs
 * that it starts. 0 or -errno. */
int enter_bounding(const struct image *i);
/* No capability, no new privileges, the filter, and nobody looks into its memory. Before the init makes the command, so
 * that there is never a command beside an init that has more; the command inherits it. */
NODISCARD int enter_confine(const struct image *i, struct enter_failure *ret);
/* Of the command alone; -1: there is none. */
NODISCARD int enter_landlock(int ruleset, struct enter_failure *ret);

/* "mount", "proc", …: for error.data; a literal. */
NODISCARD const char *enter_step_name(uint32_t step);
