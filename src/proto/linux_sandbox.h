/* linux_sandbox: the command line of `codex-linux-sandbox`, by which clients like Codex 0.125 have commands sandboxed.
 *
 *     codex-linux-sandbox --sandbox-policy-cwd DIR [--command-cwd DIR] [--sandbox-policy JSON]
 *                         [--file-system-sandbox-policy JSON --network-sandbox-policy JSON] [--permission-profile JSON]
 *                         [--use-legacy-landlock] [--no-proc] -- COMMAND [ARGUMENT…]
 *
 * The program is on the client's machine. Its arguments say what it would enforce, and our sandbox enforces that. An unknown
 * argument is refused, because it may forbid something. These functions make no system calls. */
#pragma once

#include "proto/sandbox.h"

#define LINUX_SANDBOX_NAME "codex-linux-sandbox"

struct linux_sandbox {
        struct sandbox_context context; /* context.cwd is the cwd of the policy */
        struct slice command_cwd;       /* p == NULL: none was given */
        size_t command_at;              /* the index in argv of the first word of the command */
};

/* Returns whether the last component of `program` is LINUX_SANDBOX_NAME. */
NODISCARD bool linux_sandbox_is_named(struct slice program);

/* Decodes a command line; argv[0] is the name of the program. Returns 0, or -EINVAL with err filled: -32602. */
NODISCARD int linux_sandbox_decode(struct arena *a, const struct slice *argv, size_t argc,
                                   struct linux_sandbox *ret, struct err *err);
