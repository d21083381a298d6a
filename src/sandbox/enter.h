/* enter: carries out a plan, in the process that becomes the init of a command or the command itself.
 *
 * All of it runs between clone and execve, in memory that may be shared with another process (base/sys.h): raw system calls,
 * no heap, no data but the image. Everything is done on descriptors: each mounted file was opened without following links
 * and compared with the identity in the plan.
 *
 * The order is: enter_ids, enter_network, enter_view in the new namespaces, enter_confine; enter_landlock last before
 * execve. With Landlock alone: enter_rules, enter_confine, enter_landlock.
 */
#pragma once

#include "sandbox/image.h"
#include "sandbox/landlock.h"

enum enter_step {
        ENTER_NONE,
        ENTER_IDS,
        ENTER_NETWORK,
        ENTER_MOUNT, /* mounting for the operation `op`, or for the view as a whole */
        ENTER_DEV,
        ENTER_PROC,
        ENTER_CAPABILITIES,
        ENTER_LANDLOCK,
        ENTER_SECCOMP,
        ENTER_PLACEHOLDER, /* `op` is the number of the placeholder */
        ENTER_BUBBLEWRAP,  /* bwrap failed, or left something out */
        ENTER_CHECK,       /* the finished view does not match the plan */
        ENTER_STDIO,       /* a descriptor that no command may have as its stdin, stdout or stderr */
        ENTER_FINISH,      /* the view that bwrap has built could not be joined or finished */
        ENTER_STEPS,
};

#define ENTER_NO_OP UINT32_MAX

struct enter_failure {
        uint32_t step;
        int32_t os_errno;
        uint32_t op;
};

/* Fills *ret and returns `r`, which is -errno. */
static inline int enter_fail(struct enter_failure *ret, enum enter_step step, uint32_t op, long r)
{
        *ret = (struct enter_failure){ .step = step, .os_errno = (int32_t)-r, .op = op };
        return (int)r;
}

/* Returns the CLONE_NEW* flags for the process that enters the sandbox. */
NODISCARD uint64_t enter_flags(const struct image *i);

/* The mounts that enter_check.c expects in the kernel's list. */
struct enter_check {
        bool has_table;   /* the kernel can list mounts */
        uint64_t root;    /* the root mount of the view; older mounts are those of the machine */
        uint64_t last;    /* the newest mount that a view begins with */
        uint64_t count;   /* the number of mounts that a view begins with */
        uint64_t console; /* the mount of the command's terminal, or 0 */
};

/* A view that is being built. */
struct enter_view {
        const struct image *image;
        int old, old_proc; /* descriptors of the root of the machine and of its /proc */
        int masks;         /* the directory that holds the empty files and directories for masks */
        int root;          /* the root of the view */
        int dev;
        struct landlock landlock;
        struct enter_check check;
        int children; /* the list of children of this process, which is process 1; -1: the kernel has no such list */
};

/* The standard descriptors of the command. A terminal among them is opened again in the view, and its number in `fds` changes. */
struct enter_stdio {
        int fds[3];
};

/* All functions with a `struct enter_failure *ret` return 0, or -errno with *ret filled. */
NODISCARD int enter_ids(const struct image *i, struct enter_failure *ret);
NODISCARD int enter_network(struct enter_failure *ret);
/* Builds the view and makes it the caller's root and working directory. `io` may be NULL. *ret_ruleset is a Landlock ruleset,
 * or -1. */
NODISCARD int enter_view(const struct image *i, struct enter_stdio *io, int *ret_ruleset,
                         struct enter_failure *ret);
/* The three parts of enter_view. enter_view_begin uses only those members of `i` that are the same for many commands
 * (image_is_alike), so it can be done before the command is known. After enter_view_fill, every path is as the command will see
 * it, and the ruleset is v->landlock.ruleset. enter_view_close detaches the mounts of the machine, which waits for every
 * processor, and checks the result. No code of the command may run before that. */
NODISCARD int enter_view_begin(struct enter_view *v, const struct image *i, struct enter_failure *ret);
NODISCARD int enter_view_fill(struct enter_view *v, const struct image *i, struct enter_stdio *io,
                              struct enter_failure *ret);
NODISCARD int enter_view_close(const struct enter_view *v, struct enter_failure *ret);
/* Makes the ruleset that replaces the view where there are no namespaces (enter_rules.c). */
NODISCARD int enter_rules(const struct image *i, const struct enter_stdio *io, int *ret_ruleset,
                          struct enter_failure *ret);

/* Begins the Landlock ruleset that belongs to the view of an image. *ret is LANDLOCK_NONE when the image has no use for one.
 * Returns 0 or -errno. */
NODISCARD int enter_ruleset_begin(const struct image *i, struct landlock *ret);

/* The next three functions are in enter_stdio.c and fill no enter_failure. */
/* Allows the command to open its standard files again. Returns 0 or -errno; -EISDIR: one of them is a directory. */
NODISCARD int enter_stdio_allow(const struct landlock *l, const struct enter_stdio *io);
/* Returns the terminal among the descriptors, or -1. */
NODISCARD int enter_stdio_terminal(const struct enter_stdio *io);
/* Opens the terminal among the descriptors again as `console` in the directory `dev`. `console` is a read-only mount, so that
 * the command cannot change the mode and owner of the terminal. Returns 0 or -errno. */
NODISCARD int enter_stdio_reopen(struct enter_stdio *io, int dev);
/* Empties the bounding set. enter_confine does it too; this call lets an init do it earlier, while it still needs its
 * capabilities for mounting. Returns 0 or -errno. */
NODISCARD int enter_bounding(const struct image *i);
/* Drops all capabilities, sets no_new_privs and the filter, and hides the memory from other processes. Called before the
 * init starts the command, which inherits all of it, so that no command ever runs beside an init with more rights. */
NODISCARD int enter_confine(const struct image *i, struct enter_failure *ret);
/* Does the same as enter_confine without the filter, for a process of the server whose bounding set is already empty. */
NODISCARD int enter_drop(struct enter_failure *ret);
/* Restricts the calling process by the ruleset, if it is not -1. Only the command calls it. */
NODISCARD int enter_landlock(int ruleset, struct enter_failure *ret);

/* Returns the name of a step for error.data: "mount", "proc", …; a literal. */
NODISCARD const char *enter_step_name(uint32_t step);
