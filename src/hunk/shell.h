/* shell: finds out whether a command is nothing but a call of apply_patch.
 *
 * Models call the tool by the shell, too. A command that is recognised here is applied as a patch and never runs. So a command is
 * recognised only when it is certainly such a call; every other command is an ordinary one.
 *
 *     apply_patch PATCH                        (or applypatch)
 *     bash -lc "apply_patch <<'EOF' …"         (bash, zsh or sh, by name or path; -c or -lc)
 *     bash -lc "cd DIR && apply_patch <<'EOF' …"
 *
 * DIR and the delimiter are plain words, or quoted as a whole. The document is taken as it is, also behind an unquoted delimiter,
 * where a shell would replace variables in it: models mean what they write, and so does the reference program.
 */
#pragma once

#include "base/arena.h"
#include "base/slice.h"

enum shell_patch {
        SHELL_PATCH_NONE,  /* an ordinary command */
        SHELL_PATCH_CALL,  /* *ret is the call */
        SHELL_PATCH_NAKED, /* a patch where the command should be: refused with SHELL_PATCH_NAKED_TEXT */
};

#define SHELL_PATCH_NAKED_TEXT \
        "patch detected without explicit call to apply_patch. Rerun as [\"apply_patch\", \"<patch>\"]"

struct shell_call {
        struct slice patch;   /* the text of the patch, which need not parse */
        struct slice workdir; /* DIR of the cd; p is NULL when there is none */
};

/* Looks at a command. The slices of *ret point into the arguments, or lie in the arena. */
NODISCARD enum shell_patch shell_find_patch(struct arena *a, const struct slice *argv, size_t argc,
                                            struct shell_call *ret);
/* Looks, as shell_find_patch does, at the text of a shell command: what a shell gets behind -c. */
NODISCARD enum shell_patch shell_find_patch_in_script(struct arena *a, struct slice script,
                                                      struct shell_call *ret);
